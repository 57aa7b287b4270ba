//! The records of one name while changes are made to them, one by one.
//!
//! Most names have few, which are gone through; where there are many a table finds them.
//!
//! Invariant: no two records that are here are equal (RFC 2181 section 5): same type and same canonical RDATA.
//!
//! Cost: O(octets) to find one, however many there are.

use super::node::Node;
use std::collections::HashMap;
use wire::rr::{self, rtype};

/// Number of records and changes above which there is a table.
const FEW: u64 = 32;

/// The records of a name, without the SOA.
pub(super) struct Records<'a> {
    /// Records of the name; those that were removed are marked as not here.
    list: Vec<Record<'a>>,
    /// Number of records in the list before any change.
    first: usize,
    here: usize,
    /// Positions in the list of the records that are here, by type and canonical RDATA.
    places: Option<HashMap<(u16, Vec<u8>), usize>>,
}

/// A record without its owner.
struct Record<'a> {
    rtype: u16,
    ttl: u32,
    rdata: &'a [u8],
    is_here: bool,
}

impl<'a> Records<'a> {
    /// Begins with those of a node, to which so many changes will be made.
    pub fn new(node: Node<'a>, changes: usize) -> Records<'a> {
        let sets = node.rrsets().filter(|set| set.rtype != rtype::SOA);
        let record = |rtype, ttl, rdata| Record { rtype, ttl, rdata, is_here: true };
        let list: Vec<Record<'a>> =
            sets.flat_map(|set| set.rdatas().map(move |rdata| record(set.rtype, set.ttl, rdata))).collect();
        let has_many = list.len() as u64 + changes as u64 > FEW;
        let key = |(index, record): (usize, &Record<'_>)| ((record.rtype, rr::fold(record.rtype, record.rdata)), index);
        let places = has_many.then(|| list.iter().enumerate().map(key).collect());
        Records { first: list.len(), here: list.len(), list, places }
    }

    /// Returns true if no record is here.
    pub fn is_empty(&self) -> bool {
        self.here == 0
    }

    /// Position in the list of a record that is here.
    pub fn find(&self, rtype: u16, rdata: &[u8]) -> Option<usize> {
        if let Some(places) = &self.places {
            return places.get(&(rtype, rr::fold(rtype, rdata))).copied();
        }
        let is_same = |record: &Record<'_>| {
            let is_equal = || record.rdata == rdata || rr::compare(rtype, record.rdata, rdata).is_eq();
            record.is_here && record.rtype == rtype && is_equal()
        };
        self.list.iter().position(is_same)
    }

    /// The TTL and RDATA of a record.
    pub fn get(&self, index: usize) -> (u32, &'a [u8]) {
        (self.list[index].ttl, self.list[index].rdata)
    }

    /// Removes a record; returns its TTL.
    pub fn remove(&mut self, index: usize) -> u32 {
        let record = &mut self.list[index];
        record.is_here = false;
        self.here -= 1;
        if let Some(places) = &mut self.places {
            places.remove(&(record.rtype, rr::fold(record.rtype, record.rdata)));
        }
        record.ttl
    }

    /// Adds a record that is not here.
    pub fn add(&mut self, rtype: u16, ttl: u32, rdata: &'a [u8]) {
        if let Some(places) = &mut self.places {
            places.insert((rtype, rr::fold(rtype, rdata)), self.list.len());
        }
        self.list.push(Record { rtype, ttl, rdata, is_here: true });
        self.here += 1;
    }

    /// Returns true if a record of a type was here all the time.
    pub fn keeps(&self, rtype: u16) -> bool {
        self.list[..self.first].iter().any(|record| record.is_here && record.rtype == rtype)
    }

    /// Types, TTLs and RDATA of the records that are here.
    pub fn iter(&self) -> impl Iterator<Item = (u16, u32, &'a [u8])> {
        self.list.iter().filter(|record| record.is_here).map(|record| (record.rtype, record.ttl, record.rdata))
    }
}
