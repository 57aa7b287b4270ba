//! What a zone in the making will take in memory, known while its names come.
//!
//! A name counts with its octets and [`NODE_BYTES`]. So do the names above it when they are first seen, twice, because empty
//! non-terminals are in memory twice while they are made: one name can bring more than a hundred of them. What comes of it is
//! nearly what the finished table takes, and more for names with others below and those that come again in another place.
//!
//! Cost: O(octets) for a name; eight octets of memory for each name that has others below.

use super::editor::parent;
use super::table::{self, ByHash};
use std::collections::HashSet;

/// What a node takes beside its owner, spelling and sets: tag, place and lengths, and its part of the shard, of which there is
/// one for eight names at least where a table is made as a whole.
const NODE_BYTES: u64 = 16;

/// The octets of names.
#[derive(Default)]
pub(super) struct Meter {
    octets: u64,
    /// Hashes of the owners above those that were counted.
    above: HashSet<u64, ByHash>,
}

impl Meter {
    /// The octets counted so far.
    pub fn octets(&self) -> u64 {
        self.octets
    }

    /// Counts octets of a name that has been counted.
    pub fn add(&mut self, octets: usize) {
        self.octets += octets as u64;
    }

    /// Counts a name with so many octets beside its owner, and those above it that are neither counted nor there already.
    pub fn count(&mut self, owner: &[u8], octets: usize, is_there: impl Fn(u64, &[u8]) -> bool) {
        self.octets += NODE_BYTES + (owner.len() + octets) as u64;
        let mut owner = parent(owner);
        while let Some(above) = owner.filter(|above| !above.is_empty()) {
            let hash = table::hash(above);
            if !self.above.insert(hash) || is_there(hash, above) {
                return;
            }
            self.octets += 2 * (NODE_BYTES + above.len() as u64);
            owner = parent(above);
        }
    }
}
