//! Names of one zone in canonical order (RFC 4034 section 6.1).
//!
//! Comparing two names by labels from the right means finding their labels each time. So each name is written once as a
//! key whose octets compare as the names do: its labels in front of the origin, the last one first, each closed by two
//! zero octets, with a one behind every zero of its own. A label that another begins with comes first that way, as it
//! must.
//!
//! Cost: O(octets + names × log names).

use wire::name::{MAX_LABEL_BYTES, MAX_NAME_BYTES, Name};

/// Octets of the longest key: two for each of a label, and two behind it.
const MAX_KEY_BYTES: usize = 2 * MAX_NAME_BYTES;

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

/// Octets on the stack: a key, or the labels that one was made of.
pub(super) struct Octets {
    octets: [u8; MAX_KEY_BYTES],
    start: usize,
    end: usize,
}

impl std::ops::Deref for Octets {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.octets[self.start..self.end]
    }
}

impl Extend<u8> for Octets {
    fn extend<I: IntoIterator<Item = u8>>(&mut self, octets: I) {
        for octet in octets {
            self.octets[self.end] = octet;
            self.end += 1;
        }
    }
}

/// The key of labels that have no root label behind them.
pub(super) fn key(labels: &[u8]) -> Octets {
    let mut key = Octets { octets: [0; MAX_KEY_BYTES], start: 0, end: 0 };
    write_key(labels, &mut key);
    key
}

/// The labels that a key was made of. The first label of the key is their last.
pub(super) fn labels_of(key: &[u8]) -> Octets {
    let mut labels = Octets { octets: [0; MAX_KEY_BYTES], start: MAX_KEY_BYTES, end: MAX_KEY_BYTES };
    let mut rest = key;
    while !rest.is_empty() {
        let (mut label, mut length, mut octets) = ([0; MAX_LABEL_BYTES], 0, rest.iter());
        while let Some(octet) = octets.next() {
            if *octet == 0 && octets.next() == Some(&0) {
                break;
            }
            (label[length], length) = (*octet, length + 1);
        }
        rest = octets.as_slice();
        let end = labels.start;
        labels.start -= 1 + length;
        labels.octets[labels.start] = length as u8;
        labels.octets[labels.start + 1..end].copy_from_slice(&label[..length]);
    }
    labels
}

/// Writes labels that have no root label behind them as a key.
fn write_key(labels: &[u8], out: &mut impl Extend<u8>) {
    let mut starts = [0; MAX_NAME_BYTES / 2];
    let (mut count, mut at) = (0, 0);
    while at < labels.len() {
        (starts[count], count) = (at, count + 1);
        at += 1 + usize::from(labels[at]);
    }
    for start in starts[..count].iter().rev() {
        let label = &labels[start + 1..=start + usize::from(labels[*start])];
        if !label.contains(&0) {
            out.extend(label.iter().copied());
        } else {
            let octets = label.iter().flat_map(|octet| [*octet, 1].into_iter().take(if *octet == 0 { 2 } else { 1 }));
            out.extend(octets);
        }
        out.extend([0, 0]);
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
            for name in &names {
                prop_assert_eq!(&*labels_of(&key(name.owner_in(&origin))), name.owner_in(&origin));
            }
            let order = order(&names, &origin);
            prop_assert_eq!(order.into_iter().map(|index| names[index].clone()).collect::<Vec<_>>(), expected);
        }
    }
}
