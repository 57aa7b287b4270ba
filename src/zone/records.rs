//! The records of one name while changes are made to them, one by one.
//!
//! Most names have few, which are gone through; where there are many changes a table finds them. Of a large set only
//! what changes is taken apart: its records are found where they must be, and those that stay are copied together.
//!
//! Invariant: no two records that are here are equal (RFC 2181 section 5): same type and same canonical RDATA.
//!
//! Cost: O(octets) to find one, however many there are, but O(log records × octets) in a large set; the octets of a
//! large set once, at the pace of memory.

use super::node::Node;
use std::collections::{BTreeSet, HashMap};
use wire::rr::{self, Numbered, Set, rtype};

/// Number of records and changes above which there is a table.
const FEW: u64 = 32;
/// Number of records above which a set is large. Tests have small ones.
const MOST_SINGLE: u32 = if cfg!(test) { 2 } else { 32 };

/// The records of a name, without the SOA.
pub(super) struct Records<'a> {
    /// Records of small sets, and all that were added; those that were removed are marked as not here.
    list: Vec<Record<'a>>,
    /// Number of records in the list before any change.
    first: usize,
    here: usize,
    /// Positions in the list of the records that are here, by type and canonical RDATA.
    places: Option<HashMap<(u16, Vec<u8>), usize>>,
    /// The large sets, sorted by type.
    large: Vec<LargeSet<'a>>,
}

/// A record without its owner.
struct Record<'a> {
    rtype: u16,
    ttl: u32,
    rdata: &'a [u8],
    is_here: bool,
}

/// A set of many records, and what was removed of it.
pub(super) struct LargeSet<'a> {
    records: Numbered<'a>,
    /// Numbers of the records that are not here any more.
    gone: BTreeSet<u32>,
}

/// Place of a record that is here.
#[derive(Clone, Copy)]
pub(super) enum At {
    /// Position in the list.
    List(usize),
    /// Position of the large set, and number of the record.
    Large(usize, u32),
}

impl<'a> LargeSet<'a> {
    /// The set before any change.
    pub fn set(&self) -> Set<'a> {
        self.records.set()
    }

    /// Returns true if no record of it is left.
    pub fn is_gone(&self) -> bool {
        self.gone.len() == self.set().count as usize
    }

    /// Appends the set with another TTL and the records that were added, as [`Numbered::write_changed`] does.
    pub fn write(&self, ttl: u32, mut added: Vec<&[u8]>, out: &mut Vec<u8>) {
        added.sort_unstable_by(|a, b| rr::compare(self.set().rtype, a, b));
        let gone: Vec<u32> = self.gone.iter().copied().collect();
        self.records.write_changed(ttl, &gone, &added, out);
    }
}

impl<'a> Records<'a> {
    /// Begins with those of a node, to which so many changes will be made.
    pub fn new(node: Node<'a>, changes: usize) -> Records<'a> {
        let sets = || node.rrsets().filter(|set| set.rtype != rtype::SOA);
        let is_large = |set: &Set<'_>| set.count > MOST_SINGLE;
        let record = |rtype, ttl, rdata| Record { rtype, ttl, rdata, is_here: true };
        let list: Vec<Record<'a>> = sets()
            .filter(|set| !is_large(set))
            .flat_map(|set| set.rdatas().map(move |rdata| record(set.rtype, set.ttl, rdata)))
            .collect();
        let large = sets().filter(is_large).map(|set| LargeSet { records: Numbered::new(set), gone: BTreeSet::new() });
        let large: Vec<LargeSet<'a>> = large.collect();
        let has_many = list.len() as u64 + changes as u64 > FEW;
        let key = |(index, record): (usize, &Record<'_>)| ((record.rtype, rr::fold(record.rtype, record.rdata)), index);
        let places = has_many.then(|| list.iter().enumerate().map(key).collect());
        let here = list.len() + large.iter().map(|large| large.set().count as usize).sum::<usize>();
        Records { first: list.len(), here, list, places, large }
    }

    /// Number of records that are here.
    pub fn len(&self) -> usize {
        self.here
    }

    /// Returns true if no record is here.
    pub fn is_empty(&self) -> bool {
        self.here == 0
    }

    /// Place of a record that is here.
    pub fn find(&self, rtype: u16, rdata: &[u8]) -> Option<At> {
        let in_list = match &self.places {
            Some(places) => places.get(&(rtype, rr::fold(rtype, rdata))).copied(),
            None => {
                let is_same = |record: &Record<'_>| {
                    let is_equal = || record.rdata == rdata || rr::compare(rtype, record.rdata, rdata).is_eq();
                    record.is_here && record.rtype == rtype && is_equal()
                };
                self.list.iter().position(is_same)
            }
        };
        let in_large = || {
            let at = self.large.iter().position(|large| large.set().rtype == rtype)?;
            let number = self.large[at].records.search(rdata).ok()? as u32;
            (!self.large[at].gone.contains(&number)).then_some(At::Large(at, number))
        };
        in_list.map(At::List).or_else(in_large)
    }

    /// The TTL and RDATA of a record.
    pub fn get(&self, at: At) -> (u32, &'a [u8]) {
        match at {
            At::List(index) => (self.list[index].ttl, self.list[index].rdata),
            At::Large(at, number) => (self.large[at].set().ttl, self.large[at].records.get(number as usize)),
        }
    }

    /// Removes a record; returns its TTL.
    pub fn remove(&mut self, at: At) -> u32 {
        self.here -= 1;
        let index = match at {
            At::List(index) => index,
            At::Large(at, number) => {
                self.large[at].gone.insert(number);
                return self.large[at].set().ttl;
            }
        };
        let record = &mut self.list[index];
        record.is_here = false;
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
        let in_list = self.list[..self.first].iter().any(|record| record.is_here && record.rtype == rtype);
        in_list || self.large.iter().any(|large| large.set().rtype == rtype && !large.is_gone())
    }

    /// The large sets, sorted by type.
    pub fn large(&self) -> &[LargeSet<'a>] {
        &self.large
    }

    /// Types, TTLs and RDATA of the records that are left of large sets.
    pub fn of_large(&self) -> impl Iterator<Item = (u16, u32, &'a [u8])> {
        self.large.iter().flat_map(|LargeSet { records, gone }| {
            let Set { rtype, ttl, .. } = records.set();
            let left = (0..).zip(records.set().rdatas()).filter(|(number, _)| !gone.contains(number));
            left.map(move |(_, rdata)| (rtype, ttl, rdata))
        })
    }

    /// Types, TTLs and RDATA of the other records that are here.
    pub fn iter(&self) -> impl Iterator<Item = (u16, u32, &'a [u8])> {
        self.list.iter().filter(|record| record.is_here).map(|record| (record.rtype, record.ttl, record.rdata))
    }
}
