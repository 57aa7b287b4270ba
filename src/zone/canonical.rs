//! Names of one zone in canonical order (RFC 4034 section 6.1).
//!
//! Comparing two names by labels from the right means finding their labels each time. So each name is written once as a
//! key whose octets compare as the names do: its labels in front of the origin, the last one first, each closed by two
//! zero octets, with a one behind every zero of its own. A label that another begins with comes first that way, as it
//! must.
//!
//! Cost: O(octets + names × log names).

use wire::name::{MAX_NAME_BYTES, Name};

/// Positions of names within an origin in their list, in canonical order of the names and each once.
pub(super) fn order(names: &[Name], origin: &Name) -> Vec<usize> {
    let mut bytes = Vec::with_capacity(64 * names.len());
    let mut keys = Vec::with_capacity(names.len());
    for (index, name) in names.iter().enumerate() {
        let start = bytes.len();
        write_key(name.owner_in(origin), &mut bytes);
        // Most keys differ in their first octets.
        let mut first = [0; 8];
        let length = (bytes.len() - start).min(8);
        first[..length].copy_from_slice(&bytes[start..start + length]);
        keys.push((u64::from_be_bytes(first), start..bytes.len(), index));
    }
    keys.sort_unstable_by(|a, b| a.0.cmp(&b.0).then_with(|| bytes[a.1.clone()].cmp(&bytes[b.1.clone()])));
    keys.dedup_by(|a, b| bytes[a.1.clone()] == bytes[b.1.clone()]);
    keys.into_iter().map(|(.., index)| index).collect()
}

/// Writes labels that have no root label behind them as a key.
fn write_key(labels: &[u8], out: &mut Vec<u8>) {
    let mut starts = [0; MAX_NAME_BYTES / 2];
    let (mut count, mut at) = (0, 0);
    while at < labels.len() {
        (starts[count], count) = (at, count + 1);
        at += 1 + usize::from(labels[at]);
    }
    for start in starts[..count].iter().rev() {
        let label = &labels[start + 1..=start + usize::from(labels[*start])];
        if !label.contains(&0) {
            out.extend_from_slice(label);
        } else {
            let octets = label.iter().flat_map(|octet| [*octet, 1].into_iter().take(if *octet == 0 { 2 } else { 1 }));
            out.extend(octets);
        }
        out.extend_from_slice(&[0, 0]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn keys_compare_as_names_do(
            labels in prop::collection::vec(prop::collection::vec(prop::collection::vec(0u8..3, 1..4), 0..4), 0..40),
        ) {
            let origin = Name::parse("z").unwrap();
            let name = |labels: &Vec<Vec<u8>>| {
                labels.iter().fold(origin.clone(), |name, label| name.prepend(label).unwrap())
            };
            let names: Vec<Name> = labels.iter().map(name).collect();
            let mut expected = names.clone();
            expected.sort_by(Name::canonical_cmp);
            expected.dedup();
            let order = order(&names, &origin);
            prop_assert_eq!(order.into_iter().map(|index| names[index].clone()).collect::<Vec<_>>(), expected);
        }
    }
}
