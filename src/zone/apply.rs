//! Differences put on a version, one or a chain of them.
//!
//! A chain is put on at once: the changes of a name are made in their order, and the name is written once.
//!
//! Invariant: what is made is what the last difference was made of; whatever does not fit refuses all of it.
//!
//! Cost: O(changes × log changes + records at the names that changed).

use super::records::Records;
use super::{node, table};
use crate::zone::{Aside, Delta, DeltaError, Editor, Node, Record, Zone};
use std::borrow::Cow;
use wire::name;
use wire::rr::{Set, rtype};

/// A record that goes or comes.
struct RecordStep<'a> {
    /// Hash of the labels.
    hash: u64,
    /// Labels of the owner in front of the origin, lowercase.
    labels: Cow<'a, [u8]>,
    record: Record<'a>,
    /// The number of the difference, and whether the record comes.
    at: (usize, bool),
}

impl<'a> RecordStep<'a> {
    /// A record of a difference of a zone.
    fn new(record: Record<'a>, at: (usize, bool), zone: &Zone) -> Result<RecordStep<'a>, DeltaError> {
        let is_lower = !record.owner.iter().any(u8::is_ascii_uppercase);
        let owner = if is_lower { Cow::Borrowed(record.owner) } else { record.owner.to_ascii_lowercase().into() };
        let cut = name::suffix_offset(&owner, zone.origin.as_wire()).ok_or(DeltaError::Malformed)?;
        if record.rtype == rtype::SOA {
            return Err(DeltaError::Malformed);
        }
        let labels = match owner {
            Cow::Borrowed(owner) => Cow::Borrowed(&owner[..cut]),
            Cow::Owned(owner) => Cow::Owned(owner[..cut].to_vec()),
        };
        Ok(RecordStep { hash: table::hash(&labels), labels, record, at })
    }
}

impl Delta {
    /// Makes the version that the difference leads to.
    pub fn apply(&self, zone: &Zone) -> Result<Zone, DeltaError> {
        Delta::apply_all(&[self], zone)
    }

    /// Makes the version that a chain of differences leads to.
    pub fn apply_all(deltas: &[&Delta], zone: &Zone) -> Result<Zone, DeltaError> {
        let Some(last) = deltas.last() else { return Ok(zone.clone()) };
        let marks = |(repeated, _), delta: &&Delta| delta.marks.apply(&repeated);
        let (repeated, mixed) = deltas.iter().fold((zone.repeated.clone(), zone.mixed), marks);
        let mut aside = zone.aside().map(Aside::clone);
        deltas.iter().for_each(|delta| delta.aside.apply(&mut aside));
        let starts = std::iter::once(zone.soa_rrset()).chain(deltas.iter().map(|delta| &delta.to));
        if deltas.iter().zip(starts).any(|(delta, start)| delta.from != *start) {
            return Err(DeltaError::Base);
        }
        let mut steps = Vec::with_capacity(deltas.iter().map(|delta| delta.records()).sum());
        let blocks: Vec<_> = deltas.iter().map(|delta| [delta.removed.open(), delta.added.open()]).collect();
        for (number, [removed, added]) in blocks.iter().enumerate() {
            for (block, comes) in [(removed, false), (added, true)] {
                for record in block.iter() {
                    steps.push(RecordStep::new(record, (number, comes), zone)?);
                }
            }
        }
        // The order of changes stays.
        steps.sort_by(|a, b| a.hash.cmp(&b.hash).then_with(|| a.labels.cmp(&b.labels)));
        let mut editor = Editor::from_zone(zone);
        let mut sets = Vec::new();
        for steps in steps.chunk_by(|a, b| a.hash == b.hash && a.labels == b.labels) {
            let (hash, labels) = (steps[0].hash, &steps[0].labels);
            let node = zone.table.get_hashed(hash, labels).unwrap_or_default();
            let spelled = change(node, steps, &mut sets)?;
            let is_spelled = |owner: &&[u8]| owner.iter().any(u8::is_ascii_uppercase);
            editor.set_hashed(hash, labels, &sets, spelled.filter(is_spelled));
        }
        let hash = table::hash(&[]);
        let apex = editor.get_hashed(hash, &[]);
        sets.clear();
        write_with_soa(apex, last.to.as_set(), &mut sets);
        let spelled = apex.spelled.map(<[u8]>::to_vec);
        editor.set_hashed(hash, &[], &sets, spelled.as_deref());
        editor.repeated = repeated;
        editor.mixed = mixed;
        [editor.left_out, editor.unanswered] = aside;
        Ok(editor.finish()?)
    }
}

/// Makes the changes of one name and writes what its sets are then; returns how it is spelled.
fn change<'a>(node: Node<'a>, steps: &[RecordStep<'a>], sets: &mut Vec<u8>) -> Result<Option<&'a [u8]>, DeltaError> {
    let mut records = Records::new(node, steps.len());
    let (mut spelled, mut spelled_by) = (node.spelled, None);
    for RecordStep { record, at, .. } in steps {
        let (number, comes) = *at;
        match (comes, records.find(record.rtype, record.rdata)) {
            (false, Some(at)) if records.get(at) == (record.ttl, record.rdata) => _ = records.remove(at),
            (false, _) => return Err(DeltaError::Absent),
            (true, Some(_)) => return Err(DeltaError::Present),
            (true, None) => {
                // The first record that comes with a difference tells.
                if spelled_by != Some(number) {
                    (spelled, spelled_by) = (Some(record.owner), Some(number));
                }
                records.add(record.rtype, record.ttl, record.rdata);
            }
        }
    }
    sets.clear();
    let mut left: Vec<(u16, u32, &[u8])> = records.iter().collect();
    left.extend(node.get(rtype::SOA).and_then(|soa| Some((rtype::SOA, soa.ttl, soa.rdatas().next()?))));
    left.sort_by_key(|record| record.0);
    let mut large = records.large().iter().peekable();
    let mut groups = left.chunk_by(|a, b| a.0 == b.0).peekable();
    loop {
        let of_large = large.peek().map(|large| large.set().rtype);
        let Some(rtype) = groups.peek().map(|group| group[0].0).into_iter().chain(of_large).min() else { break };
        let group = groups.next_if(|group| group[0].0 == rtype).unwrap_or_default();
        let large = large.next_if(|large| large.set().rtype == rtype);
        let of_large = large.filter(|large| !large.is_gone()).map(|large| large.set().ttl);
        let mut ttls = of_large.into_iter().chain(group.iter().map(|record| record.1));
        let Some(ttl) = ttls.next() else { continue };
        if ttls.any(|other| other != ttl) {
            return Err(DeltaError::Ttl);
        }
        match large {
            Some(large) => large.write(ttl, group.iter().map(|record| record.2).collect(), sets),
            None => node::write_records(group, ttl, sets),
        }
    }
    Ok(spelled)
}

/// Writes the sets of a node with another SOA.
fn write_with_soa(node: Node<'_>, soa: Set<'_>, out: &mut Vec<u8>) {
    let others = |set: &Set<'_>| set.rtype != rtype::SOA;
    let sets = || node.rrsets().filter(others);
    sets().take_while(|set| set.rtype < rtype::SOA).for_each(|set| set.write(out));
    soa.write(out);
    sets().skip_while(|set| set.rtype < rtype::SOA).for_each(|set| set.write(out));
}
