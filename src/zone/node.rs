//! One owner name of a zone as bytes: what a [`Table`](super::table::Table) is made of.
//!
//! The bytes: number of names below and whether the owner is spelled with capitals, in one number; the labels of the
//! owner in front of the origin, lowercase, with their length; where it has capitals, the whole name as spelled, with
//! its length; the sets, sorted by type, with their length. So the bytes do not depend on the origin, and equal nodes
//! have equal bytes.
//!
//! Cost: O(1) for a view, O(sets) for finding one.

use crate::zone::RRsets;
use std::sync::Arc;
use wire::name::MAX_NAME_BYTES;
use wire::rr::{self, RRset, Set, put_number, put_sized, rtype, take_number, take_sized};

/// Octets of an owner in front of the origin that fit in front of any origin that is no longer.
pub const LONG_OWNER: usize = MAX_NAME_BYTES / 2;

/// Contents of a zone at one owner name; a view that costs nothing to copy.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub struct Node<'a> {
    /// The labels of the owner name in front of the origin, lowercase.
    pub(super) owner: &'a [u8],
    /// Number of existing names directly below.
    pub below: u32,
    /// The owner name as the primary spells it, where that is not lowercase.
    pub spelled: Option<&'a [u8]>,
    pub(super) sets: &'a [u8],
}

impl<'a> Node<'a> {
    /// Takes a node that [`Node::write`] wrote.
    // As for the search in a shard.
    #[inline(always)]
    pub(super) fn take(bytes: &mut &'a [u8]) -> Node<'a> {
        let head = take_number(bytes);
        let owner = take_sized(bytes);
        let spelled = (head & 1 == 1).then(|| take_sized(bytes));
        Node { owner, below: head >> 1, spelled, sets: take_sized(bytes) }
    }

    /// The owner of the node at the beginning of bytes.
    #[inline]
    pub(super) fn owner_at(mut bytes: &'a [u8]) -> &'a [u8] {
        take_number(&mut bytes);
        take_sized(&mut bytes)
    }

    /// Returns true if the node at the beginning of bytes is the one of this owner.
    #[inline]
    pub(super) fn is_at(bytes: &[u8], owner: &[u8]) -> bool {
        Node::owner_at(bytes) == owner
    }

    /// Appends the node.
    pub(super) fn write(self, out: &mut Vec<u8>) {
        self.write_head(out);
        out.extend_from_slice(self.sets);
    }

    /// Appends what stands in front of the octets of the sets.
    pub(super) fn write_head(self, out: &mut Vec<u8>) {
        put_number(out, self.below << 1 | u32::from(self.spelled.is_some()));
        [Some(self.owner), self.spelled].into_iter().flatten().for_each(|part| put_sized(out, part));
        put_number(out, self.sets.len() as u32);
    }

    /// The labels of the owner name in front of the zone's origin, lowercase, without an end.
    pub fn owner(self) -> &'a [u8] {
        self.owner
    }

    /// The RRset of a type.
    #[inline]
    pub fn get(self, rtype: u16) -> Option<Set<'a>> {
        self.rrsets().find(|set| set.rtype == rtype)
    }

    /// The RRsets, sorted by type; none at an empty non-terminal.
    #[inline]
    pub fn rrsets(self) -> impl Iterator<Item = Set<'a>> + Clone {
        sets(self.sets)
    }

    /// Returns true if the node has the address of a host.
    pub fn has_address(self) -> bool {
        self.rrsets().any(|set| matches!(set.rtype, rtype::A | rtype::AAAA))
    }

    /// Returns true if another node has the same records under the same spelling.
    pub fn has_same_records(self, other: Node<'_>) -> bool {
        self.sets == other.sets && self.spelled == other.spelled
    }

    /// Returns true if the node has no records, as an empty non-terminal.
    pub fn is_empty(self) -> bool {
        self.sets.is_empty()
    }

    /// Number of records.
    pub fn records(self) -> u64 {
        self.rrsets().map(|set| u64::from(set.count)).sum()
    }

    /// Returns true if another zone may not be able to take a node with records below the origin as it stands: for its
    /// spelling, its length, that of a record, or a type that is bound to its zone.
    pub fn is_odd(self) -> bool {
        let is_bound = |rtype| match rtype {
            rtype::SOA | rtype::PTR | rtype::DNAME | rtype::DS | rtype::PLACEHOLDER => true,
            _ => rr::is_dnssec(rtype),
        };
        let is_odd = || {
            self.spelled.is_some()
                || self.owner.len() > LONG_OWNER
                || self.rrsets().any(|set| is_bound(set.rtype) || set.may_not_fit())
        };
        !self.owner.is_empty() && !self.is_empty() && is_odd()
    }

    /// The RRsets, each by itself.
    pub fn to_rrsets(self) -> RRsets {
        self.rrsets().map(|set| Arc::new(set.to_rrset())).collect()
    }
}

impl std::fmt::Debug for Node<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.rrsets()).finish()
    }
}

/// Iterates over sets one behind the other.
#[inline]
pub(super) fn sets<'a>(mut bytes: &'a [u8]) -> impl Iterator<Item = Set<'a>> + Clone {
    std::iter::from_fn(move || (!bytes.is_empty()).then(|| Set::take(&mut bytes)))
}

/// Writes sets one behind the other, as a node holds them.
pub(super) fn write_sets(rrsets: &[Arc<RRset>], out: &mut Vec<u8>) {
    rrsets.iter().for_each(|rrset| rrset.as_set().write(out));
}

/// Writes records of one type, which differ, as a set with a TTL.
pub(super) fn write_records(records: &[(u16, u32, &[u8])], ttl: u32, out: &mut Vec<u8>) {
    let (rtype, _, rdata) = records[0];
    if records.len() == 1 {
        Set::write_single(rtype, ttl, rdata, out);
        return;
    }
    let set = RRset::build(rtype, ttl, records.iter().map(|record| record.2).collect());
    set.expect("a group of records has one").as_set().write(out);
}
