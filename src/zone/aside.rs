//! Records that are told beside a version: those of the primary that the zone cannot hold, and those that stay although
//! they are removed, because nobody answered for them.
//!
//! They belong to the version, as its other marks do: [`AsideChanges`] is how they come through journal and snapshot,
//! so a restart tells the same as the process before it.
//!
//! Cost: nothing for a zone without any; O(log names) for a name, O(1) for a copy, O(names) for what differs from
//! another version.

use super::{ByteReader, Zone};
use imbl::HashMap;
use std::collections::HashSet;
use std::sync::Arc;
use wire::name::Name;
use wire::rr::{self, CLASS_IN, Numbered, Set};

/// Octets that a name and a record take beside their own.
const ENTRY_BYTES: usize = 64;

/// A record that is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AsideRecord {
    pub rtype: u16,
    pub ttl: u32,
    pub rdata: Box<[u8]>,
}

impl AsideRecord {
    /// Returns true if this is the record, whatever its TTL.
    pub fn is(&self, rtype: u16, rdata: &[u8]) -> bool {
        self.rtype == rtype && rr::compare(rtype, &self.rdata, rdata).is_eq()
    }

    /// Equal for all that are the same record, for sets.
    fn key(&self) -> (u16, Vec<u8>) {
        (self.rtype, rr::fold(self.rtype, &self.rdata))
    }

    /// Keeps of some records those that a name of a zone has, or those that it lacks. O(log records of the name) for
    /// each where all of a type have one size, else O(records of the type) once.
    fn retain(records: &mut Vec<AsideRecord>, zone: &Zone, name: &Name, has: bool) {
        let sets = zone.get(name.as_wire()).into_iter().flat_map(|node| node.rrsets());
        let is_asked = |set: &Set<'_>| records.iter().any(|record| record.rtype == set.rtype);
        let here: Vec<_> = sets.filter(is_asked).map(Numbered::new).collect();
        let is_here = |record: &AsideRecord| {
            here.iter().any(|set| set.set().rtype == record.rtype && set.search(&record.rdata).is_ok())
        };
        records.retain(|record| is_here(record) == has);
    }
}

/// Records by owner name.
#[derive(Clone, Debug, Default)]
pub struct Aside {
    names: HashMap<Name, Arc<[AsideRecord]>>,
    records: usize,
    octets: u64,
}

impl PartialEq for Aside {
    fn eq(&self, other: &Aside) -> bool {
        self.names.ptr_eq(&other.names) || self.names == other.names
    }
}

impl Aside {
    /// Returns true if there is no record.
    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// Number of names.
    pub fn names(&self) -> usize {
        self.names.len()
    }

    /// Number of records.
    pub fn records(&self) -> usize {
        self.records
    }

    /// Octets that this takes in memory, nearly.
    pub fn octets(&self) -> u64 {
        self.octets
    }

    /// The records of a name.
    pub fn get(&self, name: &Name) -> &[AsideRecord] {
        self.names.get(name).map_or(&[], |records| &records[..])
    }

    /// Iterates over names and records in no order.
    pub fn iter(&self) -> impl Iterator<Item = (&Name, &[AsideRecord])> {
        self.names.iter().map(|(name, records)| (name, &records[..]))
    }

    /// Replaces the records of a name. Their order says nothing.
    pub fn set(&mut self, name: Name, mut records: Vec<AsideRecord>) {
        let key = |record: &AsideRecord| (record.rtype, record.ttl);
        records.sort_by(|a, b| a.rdata.cmp(&b.rdata).then_with(|| key(a).cmp(&key(b))));
        self.put(name, records.into());
    }

    /// Replaces the records of a name, which are in order.
    fn put(&mut self, name: Name, records: Arc<[AsideRecord]>) {
        let size = |records: &[AsideRecord]| {
            let octets: usize = records.iter().map(|record| ENTRY_BYTES + record.rdata.len()).sum();
            (records.len(), (octets + ENTRY_BYTES + name.as_wire().len()) as u64)
        };
        let (more, more_octets) = if records.is_empty() { (0, 0) } else { size(&records) };
        let old = self.names.get(&name).map_or((0, 0), |old| size(old));
        (self.records, self.octets) = (self.records + more - old.0, self.octets + more_octets - old.1);
        match records.is_empty() {
            true => _ = self.names.remove(&name),
            false => _ = self.names.insert(name, records),
        }
    }

    /// Adds records of a name, each once.
    pub fn add(&mut self, name: Name, more: Vec<AsideRecord>) {
        if !more.is_empty() {
            let mut records = self.get(&name).to_vec();
            add_each(&mut records, more);
            self.set(name, records);
        }
    }

    /// Drops the records of some names that a zone does not have any more. O(records of the names)
    pub fn drop_gone(&mut self, zone: &Zone, names: &[Name]) {
        for name in names {
            let records = self.get(name);
            if !records.is_empty() {
                let mut records = records.to_vec();
                AsideRecord::retain(&mut records, zone, name, true);
                self.put(name.clone(), records.into());
            }
        }
    }

    /// Whether a zone lacks any of the records. O(records of the names)
    pub fn is_any_gone(&self, zone: &Zone) -> bool {
        self.iter().any(|(name, records)| {
            let mut records = records.to_vec();
            AsideRecord::retain(&mut records, zone, name, false);
            !records.is_empty()
        })
    }

    /// The names of which another version told something else, in canonical order, each with what is told now.
    fn changes_since(&self, old: &Aside) -> Changes {
        if self.names.ptr_eq(&old.names) {
            return Changes::default();
        }
        let differs = |(name, records): &(&Name, &Arc<[AsideRecord]>)| old.names.get(*name) != Some(*records);
        let new = self.names.iter().filter(differs).map(|(name, records)| (name.clone(), records.clone()));
        let is_gone = |name: &&Name| !self.names.contains_key(*name);
        let gone = old.names.keys().filter(is_gone).map(|name| (name.clone(), Arc::from(Vec::new())));
        let mut changes: Vec<_> = new.chain(gone).collect();
        changes.sort_unstable_by(|a, b| a.0.canonical_cmp(&b.0));
        changes.into()
    }
}

/// Adds records, each once.
pub(super) fn add_each(records: &mut Vec<AsideRecord>, more: Vec<AsideRecord>) {
    let mut present: HashSet<_> = records.iter().map(AsideRecord::key).collect();
    records.extend(more.into_iter().filter(|record| present.insert(record.key())));
}

//--- Changes ---

/// Names with the records that they have now.
type Changes = Box<[(Name, Arc<[AsideRecord]>)]>;

/// Changes of a step to what is told beside a version: records that cannot be held, and those without an answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct AsideChanges([Changes; 2]);

impl AsideChanges {
    /// The changes from one version to another.
    pub fn between(old: [&Aside; 2], new: [&Aside; 2]) -> AsideChanges {
        AsideChanges([new[0].changes_since(old[0]), new[1].changes_since(old[1])])
    }

    /// Returns true if nothing changes.
    pub fn is_empty(&self) -> bool {
        self.0.iter().all(|changes| changes.is_empty())
    }

    /// Makes the changes.
    pub fn apply(&self, aside: &mut [Aside; 2]) {
        for (aside, changes) in aside.iter_mut().zip(&self.0) {
            changes.iter().for_each(|(name, records)| aside.put(name.clone(), records.clone()));
        }
    }

    /// Octets that they take in a step, nearly.
    pub fn len_bytes(&self) -> usize {
        let octets = |(name, records): &(Name, Arc<[AsideRecord]>)| {
            let records: usize = records.iter().map(|record| ENTRY_BYTES + record.rdata.len()).sum();
            ENTRY_BYTES + name.as_wire().len() + records
        };
        self.0.iter().flat_map(|changes| changes.iter()).map(octets).sum()
    }

    /// Appends the changes: for each of the two the number of names; for each name its owner, the number of its
    /// records, and those without owner.
    pub fn write(&self, out: &mut Vec<u8>) {
        for changes in &self.0 {
            out.extend_from_slice(&(changes.len() as u32).to_be_bytes());
            for (name, records) in changes {
                out.extend_from_slice(name.as_wire());
                out.extend_from_slice(&(records.len() as u32).to_be_bytes());
                for record in records.iter() {
                    rr::put_record(record.rtype, record.ttl, &record.rdata, out);
                }
            }
        }
    }

    /// Takes changes of a zone from the front of bytes.
    pub fn read(origin: &Name, reader: &mut ByteReader<'_>) -> Option<AsideChanges> {
        let mut list = || (0..reader.u32()?).map(|_| read_name(origin, reader)).collect::<Option<Changes>>();
        Some(AsideChanges([list()?, list()?]))
    }
}

/// Takes a name with its records.
fn read_name(origin: &Name, reader: &mut ByteReader<'_>) -> Option<(Name, Arc<[AsideRecord]>)> {
    let name = reader.name()?;
    let records: Option<Vec<AsideRecord>> = (0..reader.u32()?).map(|_| read_record(reader)).collect();
    Some((name, records?.into())).filter(|(name, _)| name.is_within(origin))
}

/// Takes a record without its owner.
fn read_record(reader: &mut ByteReader<'_>) -> Option<AsideRecord> {
    let (rtype, class, ttl, start, length) = rr::read_fixed(reader.0, 0)?;
    let rdata = &reader.take(start + length)?[start..];
    let is_sound = rr::is_data_type(rtype) && class == CLASS_IN && rr::check_plain(rtype, rdata);
    is_sound.then(|| AsideRecord { rtype, ttl, rdata: rdata.into() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use wire::rr::rtype;

    fn name(number: u8) -> Name {
        Name::parse(&format!("n{number}.z")).unwrap()
    }

    fn record(number: u8) -> AsideRecord {
        AsideRecord { rtype: rtype::CNAME, ttl: u32::from(number), rdata: [1, b'a' + number, 0].into() }
    }

    /// Up to three records each of a few names.
    fn arbitrary() -> impl Strategy<Value = Aside> {
        prop::collection::vec((0..5u8, prop::collection::vec(0..4u8, 0..4)), 0..6).prop_map(|names| {
            let mut aside = Aside::default();
            for (number, records) in names {
                aside.set(name(number), Vec::new());
                aside.add(name(number), records.into_iter().map(record).collect());
            }
            aside
        })
    }

    proptest! {
        /// A step tells all that changes, through bytes; no part of them passes for the whole.
        #[test]
        fn steps_tell_what_changes(old in [arbitrary(), arbitrary()], new in [arbitrary(), arbitrary()]) {
            let changes = AsideChanges::between([&old[0], &old[1]], [&new[0], &new[1]]);
            prop_assert_eq!(changes.is_empty(), old == new);
            let mut bytes = Vec::new();
            changes.write(&mut bytes);
            let (origin, mut reader) = (Name::parse("z").unwrap(), ByteReader(&bytes));
            prop_assert_eq!(AsideChanges::read(&origin, &mut reader), Some(changes.clone()));
            prop_assert!(reader.0.is_empty());
            (0..bytes.len()).for_each(|end| assert!(AsideChanges::read(&origin, &mut ByteReader(&bytes[..end])).is_none()));
            let other = AsideChanges::read(&Name::parse("y").unwrap(), &mut ByteReader(&bytes));
            prop_assert_eq!(other.is_none(), !changes.is_empty());
            let mut made = old;
            changes.apply(&mut made);
            prop_assert_eq!(&made, &new);
            for aside in &made {
                let records: usize = aside.iter().map(|(_, records)| records.len()).sum();
                prop_assert_eq!((aside.records(), aside.octets() > 0), (records, !aside.is_empty()));
            }
        }
    }

    #[test]
    fn records_come_once_and_their_order_says_nothing() {
        let (mut one, mut other) = (Aside::default(), Aside::default());
        one.add(name(1), vec![record(1), record(2), record(1)]);
        other.add(name(1), vec![record(2), record(1)]);
        assert_eq!((&one, one.records(), one.octets()), (&other, 2, other.octets()));
        one.set(name(1), Vec::new());
        assert!(one.is_empty() && one.octets() == 0 && one.records() == 0);
    }
}
