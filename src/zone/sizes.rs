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
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize, schemars::JsonSchema)]
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

/// Numbers of sets over each limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
pub struct Large {
    /// Sets that do not fit a response over UDP.
    pub datagram: u32,
    /// Sets of more records than resolvers take, which is 100.
    pub resolvers: u32,
    /// Sets that do not fit any message.
    pub message: u32,
}

impl Large {
    /// Counts one set: so many records with so many octets in an answer, under an owner with so many octets in front of
    /// the origin.
    pub fn of(records: u32, octets: usize, owner: usize) -> Large {
        let needed = octets + owner + AROUND_BYTES;
        let is_no_message = needed > usize::from(u16::MAX) || records > u32::from(u16::MAX);
        Large {
            datagram: (needed > MAX_UDP_BYTES).into(),
            resolvers: (records > RESOLVER_RECORDS).into(),
            message: is_no_message.into(),
        }
    }

    /// Number of sets over a limit.
    pub fn over(self, limit: SizeLimit) -> u32 {
        match limit {
            SizeLimit::Datagram => self.datagram,
            SizeLimit::Resolvers => self.resolvers,
            SizeLimit::Message => self.message,
        }
    }

    /// With the sets of another count.
    pub fn with(self, more: Large) -> Large {
        self.change(more, u32::wrapping_add)
    }

    /// Without the sets of another count.
    pub fn without(self, less: Large) -> Large {
        self.change(less, u32::wrapping_sub)
    }

    /// Changes each number by another.
    fn change(self, other: Large, by: fn(u32, u32) -> u32) -> Large {
        Large {
            datagram: by(self.datagram, other.datagram),
            resolvers: by(self.resolvers, other.resolvers),
            message: by(self.message, other.message),
        }
    }
}

/// Numbers of RRsets by size.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sizes {
    few: [u32; FEW],
    many: OrdMap<u32, u32>,
    large: Large,
}

impl Sizes {
    /// The largest number of records that a set has.
    pub fn most_records(&self) -> u32 {
        let few = || (2..FEW).rev().find(|count| self.few[*count] > 0).map_or(1, |count| count as u32);
        self.many.get_max().map_or_else(few, |(count, _)| *count)
    }

    /// Numbers of sets over each limit.
    pub fn large(&self) -> Large {
        self.large
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
            self.large = self.large.change(other.large, by);
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
            self.large = self.large.change(Large::of(set.count, set.wire_bytes_about(), node.owner().len()), by);
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::zone::tests::zone;

    #[test]
    fn sets_are_counted_by_the_limits_that_they_are_over() {
        let sized = |owner: &str, count: u32| -> String {
            (0..count).map(|n| format!("{owner} 30 A 10.{}.{}.{}\n", n >> 16, n >> 8 & 255, n & 255)).collect()
        };
        let sizes = |counts: &[u32]| {
            let sets = counts.iter().enumerate().map(|(number, count)| sized(&format!("s{number}"), *count));
            zone("w.x.", &format!("@ 30 SOA 1\n{}", sets.collect::<String>())).sizes.clone()
        };
        let large = |datagram, resolvers, message| Large { datagram, resolvers, message };
        for (counts, most, expected) in [
            (&[][..], 1, large(0, 0, 0)),
            (&[1, 30], 30, large(0, 0, 0)),
            (&[31, 100], 100, large(1, 0, 0)),
            (&[101, 4_000, 2], 4_000, large(2, 2, 0)),
            (&[101, 4_100, 80], 4_100, large(3, 2, 1)),
        ] {
            let sizes = sizes(counts);
            assert_eq!((sizes.most_records(), sizes.large()), (most, expected), "{counts:?}");
        }
        // A few long records are over a message, and no number that resolvers mind.
        assert_eq!(Large::of(3, 66_000, 4), large(1, 0, 1));
        assert_eq!(SizeLimit::ALL.map(|limit| large(1, 2, 3).over(limit)), [1, 2, 3]);
    }
}
