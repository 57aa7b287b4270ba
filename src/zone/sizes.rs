//! Sizes of the RRsets of a zone: how many there are of each number of records, and how many are so large that clients
//! or servers have trouble with them.
//!
//! Invariants: equal nodes count alike, whatever zone they are in, so that a region's counts follow from its members'.
//! Sets of one record are not counted by number.
//!
//! Cost: O(1) for a set of few records, O(log sizes) for others; a copy O(1).

use super::Node;
use imbl::OrdMap;
use wire::message::{MAX_UDP_BYTES, OPT_BYTES};

/// Numbers of records that are counted without a map.
const FEW: usize = 32;
/// Records of a set above which BIND neither caches nor transfers it (`max-records-per-type`).
pub const RESOLVER_RECORDS: u32 = 100;
/// Octets of a response beside the answer and the labels in front of the origin: header, question with an origin of
/// usual length, OPT record.
const AROUND_BYTES: usize = 12 + 32 + 4 + OPT_BYTES;

/// Limits that a set can be over, for metrics and words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum SizeLimit {
    /// What fits into a response over UDP (RFC 9715 appendix A), so that clients ask again over TCP.
    Datagram,
    /// Records that resolvers and secondaries take by default.
    Resolvers,
    /// What fits into any message (RFC 1035 section 4.2.2), so that no client gets it whole.
    Message,
}

impl SizeLimit {
    /// All limits, the smallest first.
    pub const ALL: [SizeLimit; 3] = [SizeLimit::Datagram, SizeLimit::Resolvers, SizeLimit::Message];

    /// The metric label.
    pub fn label(self) -> &'static str {
        match self {
            SizeLimit::Datagram => "datagram",
            SizeLimit::Resolvers => "resolvers",
            SizeLimit::Message => "message",
        }
    }
}

/// Numbers of RRsets by size.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sizes {
    few: [u32; FEW],
    many: OrdMap<u32, u32>,
    /// Sets over each limit, in the order of [`SizeLimit::ALL`].
    large: [u32; 3],
}

impl Sizes {
    /// The largest number of records that a set has.
    pub fn most_records(&self) -> u32 {
        let few = || (2..FEW).rev().find(|count| self.few[*count] > 0).map_or(1, |count| count as u32);
        self.many.get_max().map_or_else(few, |(count, _)| *count)
    }

    /// Number of sets over a limit.
    pub fn over(&self, limit: SizeLimit) -> u32 {
        self.large[limit as usize]
    }

    /// Counts the sets of a node.
    pub(super) fn add(&mut self, node: Node<'_>) {
        self.count(node, u32::wrapping_add);
    }

    /// Takes the sets of a node out of the count.
    pub(super) fn remove(&mut self, node: Node<'_>) {
        self.count(node, u32::wrapping_sub);
    }

    /// All that is counted, with more and without some of it.
    pub(super) fn change(mut self, more: &Sizes, less: &Sizes) -> Sizes {
        for (other, by) in [(more, u32::wrapping_add as fn(u32, u32) -> u32), (less, u32::wrapping_sub)] {
            self.few.iter_mut().zip(other.few).for_each(|(sets, change)| *sets = by(*sets, change));
            self.large.iter_mut().zip(other.large).for_each(|(sets, change)| *sets = by(*sets, change));
            other.many.iter().for_each(|(count, change)| self.step(*count, *change, by));
        }
        self
    }

    /// Counts the sets of a node up or down.
    fn count(&mut self, node: Node<'_>, by: fn(u32, u32) -> u32) {
        for set in node.rrsets().filter(|set| set.count > 1) {
            match self.few.get_mut(set.count as usize) {
                Some(sets) => *sets = by(*sets, 1),
                None => self.step(set.count, 1, by),
            }
            // Nothing smaller is over the smallest limit.
            let octets = set.body_bytes() as usize;
            if octets + set.count as usize * wire::rr::FIXED_BYTES < MAX_UDP_BYTES / 2 {
                continue;
            }
            let needed = set.wire_bytes() + node.owner().len() + AROUND_BYTES;
            let over = [
                needed > MAX_UDP_BYTES,
                set.count > RESOLVER_RECORDS,
                needed > usize::from(u16::MAX) || set.count > u32::from(u16::MAX),
            ];
            self.large.iter_mut().zip(over).for_each(|(sets, is_over)| *sets = by(*sets, u32::from(is_over)));
        }
    }

    /// Counts sets of many records up or down.
    fn step(&mut self, count: u32, change: u32, by: fn(u32, u32) -> u32) {
        match by(self.many.get(&count).copied().unwrap_or(0), change) {
            0 => _ = self.many.remove(&count),
            sets => _ = self.many.insert(count, sets),
        }
    }
}
