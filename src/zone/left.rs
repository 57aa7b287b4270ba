//! Records of a primary that its zone cannot hold beside what else it has there: left out, and told.
//!
//! They are known from the transfers of this process; after a restart the next whole transfer tells them again.
//!
//! Cost: nothing for a zone without any; O(log names) for a name, and O(1) for a copy.

use crate::name::Name;
use crate::rr;
use std::sync::Arc;

/// A record that was left out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftRecord {
    pub rtype: u16,
    pub ttl: u32,
    pub rdata: Box<[u8]>,
}

impl LeftRecord {
    /// Whether this is the record, whatever its TTL.
    pub fn is(&self, rtype: u16, rdata: &[u8]) -> bool {
        self.rtype == rtype && rr::compare(rtype, &self.rdata, rdata).is_eq()
    }
}

/// The records of a zone that were left out, by owner name.
#[derive(Clone, Debug, Default)]
pub struct Left(imbl::HashMap<Name, Arc<[LeftRecord]>>);

impl Left {
    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Number of names.
    pub fn names(&self) -> usize {
        self.0.len()
    }

    /// The records of a name.
    pub fn get(&self, name: &Name) -> &[LeftRecord] {
        self.0.get(name).map_or(&[], |records| &records[..])
    }

    /// Iterates over names and records in no order.
    pub fn iter(&self) -> impl Iterator<Item = (&Name, &[LeftRecord])> {
        self.0.iter().map(|(name, records)| (name, &records[..]))
    }

    /// Replaces the records of a name.
    pub fn set(&mut self, name: Name, records: Vec<LeftRecord>) {
        match records.is_empty() {
            true => _ = self.0.remove(&name),
            false => _ = self.0.insert(name, records.into()),
        }
    }

    /// Adds records of a name, each once.
    pub fn add(&mut self, name: Name, more: Vec<LeftRecord>) {
        if !more.is_empty() {
            let mut records = self.get(&name).to_vec();
            add_each(&mut records, more);
            self.set(name, records);
        }
    }
}

/// Adds records, each once.
pub(super) fn add_each(records: &mut Vec<LeftRecord>, more: Vec<LeftRecord>) {
    for record in more {
        if !records.iter().any(|present| present.is(record.rtype, &record.rdata)) {
            records.push(record);
        }
    }
}
