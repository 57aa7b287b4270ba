//! Records that a primary holds more than once, as far as that is known.
//!
//! Cost: O(octets) for a question, O(log records) for a note.

use imbl::HashSet;
use std::hash::Hasher;
use wire::rr::{self, rtype};

/// Octets that a hash takes in its set.
const HASH_BYTES: u64 = 40;

/// Records of which a primary may hold more copies than the one that counts here.
///
/// CNS keeps records as a multiset and announces the removal of one copy while another stays (`docs/cns.md` 8), so the
/// removal of such a record is in doubt. Kept as hashes; that two records share one costs a question too many and
/// nothing else.
#[derive(Clone, Debug, Default)]
pub struct Repeated {
    pub(super) hashes: HashSet<u64>,
    pub(super) unknown: bool,
    pub(super) growth: Option<Box<Growth>>,
}

/// Hashes that were noted since a version.
#[derive(Clone, Debug)]
pub(super) struct Growth {
    /// Hashes that were known of that version.
    base: HashSet<u64>,
    fresh: Vec<u64>,
}

impl PartialEq for Repeated {
    fn eq(&self, other: &Repeated) -> bool {
        self.unknown == other.unknown && (self.hashes.ptr_eq(&other.hashes) || self.hashes == other.hashes)
    }
}

impl Repeated {
    /// Nothing is known, so any record may be there more than once.
    pub fn unknown() -> Repeated {
        Repeated { unknown: true, ..Repeated::default() }
    }

    /// Copy that remembers what is noted from here on.
    pub fn growing(&self) -> Repeated {
        let growth = Growth { base: self.hashes.clone(), fresh: Vec::new() };
        Repeated { growth: Some(Box::new(growth)), ..self.clone() }
    }

    /// Returns true if it is known that no record is repeated.
    pub fn is_none(&self) -> bool {
        !self.unknown && self.hashes.is_empty()
    }

    /// Octets that this takes in memory, nearly.
    pub(super) fn octets(&self) -> u64 {
        HASH_BYTES * self.hashes.len() as u64
    }

    /// Returns true if a record of a name (lowercase wire form) may be repeated, or all of the name's may.
    pub fn holds(&self, owner: &[u8], rtype: u16, rdata: &[u8]) -> bool {
        self.unknown
            || !self.hashes.is_empty()
                && (self.hashes.contains(&hash_record(owner, rtype, rdata))
                    || self.hashes.contains(&hash_record(owner, 0, &[])))
    }

    /// Notes a repeated record.
    pub fn insert(&mut self, owner: &[u8], rtype: u16, rdata: &[u8]) {
        self.insert_hash(hash_record(owner, rtype, rdata));
    }

    /// Adds what was noted since both were the same.
    pub fn extend(&mut self, other: Repeated) {
        other.growth.into_iter().flat_map(|growth| growth.fresh).for_each(|hash| self.insert_hash(hash));
    }

    /// Notes that any record of a name may be repeated: what the primary has there is not what we keep.
    pub fn insert_all(&mut self, owner: &[u8]) {
        self.insert_hash(hash_record(owner, 0, &[]));
    }

    /// Notes a hash.
    pub(super) fn insert_hash(&mut self, hash: u64) {
        if self.hashes.insert(hash).is_none()
            && let Some(growth) = &mut self.growth
        {
            growth.fresh.push(hash);
        }
    }

    /// The hashes that are gone and those that are new. O(new ones) where this has grown out of the other
    pub(super) fn changes_since(&self, old: &Repeated) -> (Box<[u64]>, Box<[u64]>) {
        if self.hashes.ptr_eq(&old.hashes) {
            return Default::default();
        }
        match &self.growth {
            Some(growth) if growth.base.ptr_eq(&old.hashes) => (Box::default(), growth.fresh.as_slice().into()),
            _ => {
                let missing = |one: &HashSet<u64>, other: &HashSet<u64>| -> Box<[u64]> {
                    one.iter().filter(|hash| !other.contains(*hash)).copied().collect()
                };
                (missing(&old.hashes, &self.hashes), missing(&self.hashes, &old.hashes))
            }
        }
    }

    /// Copy without some hashes and with others.
    pub(super) fn changed(&self, lost: &[u64], gained: &[u64]) -> Repeated {
        let mut hashes = self.hashes.clone();
        lost.iter().for_each(|hash| _ = hashes.remove(hash));
        hashes.extend(gained.iter().copied());
        Repeated { hashes, unknown: self.unknown, growth: None }
    }
}

/// A number for a record, the same whatever the case of its names.
pub(super) fn hash_record(owner: &[u8], rtype: u16, rdata: &[u8]) -> u64 {
    let mut hasher = std::hash::DefaultHasher::new();
    hasher.write(owner);
    hasher.write_u16(rtype);
    hasher.write(&rr::fold(rtype, rdata));
    hasher.finish()
}

/// The hash of a record that never changes: hashes of another build of the program mean nothing where this one differs.
pub(super) fn well_known_hash() -> u64 {
    hash_record(b"\x09aggregator\x00", rtype::TXT, b"\x05hello")
}
