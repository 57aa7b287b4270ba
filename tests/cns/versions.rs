//! True contents of a datacenter, version by version, and the records that a secondary at one of them may and must
//! have.
//!
//! The rule knows no clock. A secondary that says it is at a version has every record that is in that version and in
//! all since, and none that is in neither. Data that is ahead of its serial breaks neither half.

use crate::harness::{Dname, Record};
use std::collections::{HashMap, HashSet};

/// The versions of one datacenter, without their apex. A version is noted before anyone can see it.
#[derive(Default)]
pub struct Versions {
    records: Vec<Record>,
    numbers: HashMap<Record, usize>,
    list: Vec<(u32, HashSet<usize>)>,
    /// First version from which a secondary's contents may come, whatever its serial says: a serial had two contents.
    doubt: Option<usize>,
}

impl Versions {
    /// Notes a version.
    pub fn push(&mut self, serial: u32, records: &[Record]) {
        let mut version = HashSet::new();
        for record in records.iter().map(Record::canonical) {
            let next = self.records.len();
            let number = *self.numbers.entry(record.clone()).or_insert(next);
            if number == next {
                self.records.push(record);
            }
            version.insert(number);
        }
        self.list.push((serial, version));
    }

    /// The newest serial.
    pub fn latest(&self) -> u32 {
        self.list.last().map_or(0, |(serial, _)| *serial)
    }

    /// The serial of a version.
    pub fn serial(&self, index: usize) -> u32 {
        self.list[index].0
    }

    /// Returns true if no version had this serial.
    pub fn is_new(&self, serial: u32) -> bool {
        self.list.iter().all(|(other, _)| *other != serial)
    }

    /// Notes that the content of the newest version changes without its serial.
    pub fn doubt(&mut self) {
        self.doubt.get_or_insert(self.list.len() - 1);
    }

    /// Notes that secondaries were seen to have the newest version, and are beyond doubt.
    pub fn settle(&mut self) {
        self.doubt = None;
    }

    /// The first version with a serial that is not older than another one.
    pub fn find(&self, from: usize, serial: u32) -> Option<usize> {
        (from..self.list.len()).find(|index| self.list[*index].0 == serial)
    }

    /// The versions of which a secondary at one of them may have records.
    fn since(&self, index: usize) -> &[(u32, HashSet<usize>)] {
        &self.list[self.doubt.map_or(index, |doubt| doubt.min(index))..]
    }

    /// Records that are missing although they have been there since a version.
    pub fn missing(&self, index: usize, has: impl Fn(&Record) -> bool) -> Vec<&Record> {
        let versions = self.since(index);
        let lasting =
            versions[0].1.iter().filter(|number| versions.iter().all(|(_, version)| version.contains(number)));
        lasting.map(|number| &self.records[*number]).filter(|record| !has(record)).collect()
    }

    /// Returns true if a record was there in a version or since.
    pub fn knows(&self, index: usize, record: &Record) -> bool {
        let number = self.numbers.get(record);
        number.is_some_and(|number| self.since(index).iter().any(|(_, version)| version.contains(number)))
    }
}

/// A record with its owner moved from one zone to another.
pub fn moved(record: &Record, from: &Dname, to: &Dname) -> Record {
    Record { owner: record.owner.with_suffix(from, to).expect("the name fits"), ..record.clone() }
}
