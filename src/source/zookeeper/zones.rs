//! Service discovery: the tree that Registrar writes into ZooKeeper, turned into zones.
//!
//! A [`Tree`] mirrors the nodes below one domain's node. Somebody else watches ZooKeeper and says what is there
//! ([`Tree::set`], [`Tree::remove`]); [`Tree::zones`] makes of it the forward zone and any number of reverse zones,
//! whole the first time, and from then on only the names that changes can have touched. No I/O, no clock.
//!
//! Which records a node gives is told in `docs/binder.md`, with all differences from Binder: an RRset has one
//! TTL, the smallest of those that Binder would give it; a broken child is left out of its service; an address has one
//! stable PTR, which goes with its node. A zone cannot say "this name exists and has nothing", nor "what is registered
//! here cannot be read"; a placeholder record of a private type says it ([`wire::rr::rtype::PLACEHOLDER`]).
//!
//! Invariants: the zones depend on the nodes and their payloads, not on the order in which they came, except that a
//! payload that is no JSON leaves the value before it in place. No payload and no node name can make anything here
//! panic.
//!
//! Cost: a change O(name + records of the RRsets it touches), a full load O(nodes); one tree node costs some 400
//! octets.
//!
//! Parts: `payload` what a node says, `tree` the mirror, `records` the RRsets of a name, `reverse` the PTR records,
//! `claims` which nodes want one name, `versions` zones and serials, `explain` why a name answers as it does.

mod claims;
mod explain;
mod records;
pub mod reverse;
#[cfg(test)]
mod tests;
mod tree;
mod versions;

pub use crate::zone::SoaFields;
pub use explain::Explanation;
pub use registrar::payload::PayloadError;
pub use tree::Tree;

use crate::zone::{Loaded, Zone};
use std::sync::Arc;
use wire::name::{self, Name};

/// Zones that are made of a tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// The forward zone: the names of the nodes are put in front of it.
    pub origin: Name,
    /// Origins below `in-addr.arpa` and `ip6.arpa`; an address belongs to the longest that holds it.
    pub reverse: Vec<Name>,
    pub soa: SoaFields,
    /// Name servers of all these zones.
    pub ns: Vec<Name>,
    /// Seconds.
    pub ns_ttl: u32,
    /// Added to the serial that follows from the tree.
    pub serial_offset: u32,
}

/// A new version of one of a tree's zones.
pub struct TreeZone {
    pub zone: Name,
    pub loaded: Loaded,
    /// The version that it was compared with.
    pub base: Option<Arc<Zone>>,
}

/// The path of a domain's node: its labels from the right.
pub fn path_of(domain: &Name) -> String {
    let mut labels: Vec<_> = name::labels(domain.as_wire()).map(String::from_utf8_lossy).collect();
    labels.reverse();
    format!("/{}", labels.join("/"))
}
