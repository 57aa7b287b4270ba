//! What is known of records that a primary holds more than once.
//!
//! Cost: O(octets) for a question, O(log records) for a note.

use crate::rr;
use std::hash::Hasher;

/// What a hash takes in its set.
const HASH_BYTES: u64 = 40;

/// Records of which a primary may hold more copies than the one that counts here.
///
/// CNS keeps records as a multiset and announces the removal of one copy while another stays (contract `cns.md`,
/// quirk 8), so the removal of such a record says nothing: only a full transfer tells. Kept as hashes; that two records
/// share one costs a full transfer too many and nothing else.
#[derive(Clone, Debug, Default)]
pub struct Repeated {
    pub(super) hashes: imbl::HashSet<u64>,
    pub(super) unknown: bool,
}

impl Repeated {
    /// Nothing is known, so any record may be there more than once.
    pub fn unknown() -> Repeated {
        Repeated { unknown: true, ..Repeated::default() }
    }

    /// Whether it is known that no record is repeated.
    pub fn is_none(&self) -> bool {
        !self.unknown && self.hashes.is_empty()
    }

    /// Octets that this takes in memory, nearly.
    pub(super) fn octets(&self) -> u64 {
        HASH_BYTES * self.hashes.len() as u64
    }

    /// Whether a record of a name (lowercase wire form) may be repeated, or all of the name's may.
    pub fn holds(&self, owner: &[u8], rtype: u16, rdata: &[u8]) -> bool {
        self.unknown
            || !self.hashes.is_empty()
                && (self.hashes.contains(&hash_record(owner, rtype, rdata))
                    || self.hashes.contains(&hash_record(owner, 0, &[])))
    }

    /// Notes a repeated record.
    pub fn insert(&mut self, owner: &[u8], rtype: u16, rdata: &[u8]) {
        self.hashes.insert(hash_record(owner, rtype, rdata));
    }

    /// Adds what was noted since both were the same.
    pub fn extend(&mut self, other: Repeated) {
        if other.hashes.len() > self.hashes.len() {
            let less = std::mem::replace(&mut self.hashes, other.hashes);
            self.hashes.extend(less);
        } else if !other.hashes.ptr_eq(&self.hashes) {
            self.hashes.extend(other.hashes);
        }
    }

    /// Notes that any record of a name may be repeated: what the primary has there is not what we keep.
    pub fn insert_all(&mut self, owner: &[u8]) {
        self.hashes.insert(hash_record(owner, 0, &[]));
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
