//! Ring of a set: records at points, chosen by the points of a client.
//!
//! Records are near in the order of the distance to the nearest point of the client that lies in front of them. A window
//! has the nearest record of each member while there is room, then the nearest of all; so a record that comes or goes
//! changes only the windows that have it, by one record. A record that several members give counts for the first of them.
//!
//! The nearest of all are taken until there is room for those members only that have none yet. Which members have, the way
//! itself tells; few clients need a search.
//!
//! Cost: 14 octets a record and 12 a record that is given, and four to eight for each of both; a window O(records written × points of a client), and for each
//! member whose nearest record is not among the nearest of all a search O(members × log records) for each such point.

use super::Record;
use super::point::{PROBES, Probes};
use std::collections::HashMap;

/// Members of which the nearest record comes first, at most.
const FIRST_MEMBERS: usize = 256;
/// The member of records for which no member counts.
const NOBODY: u16 = u16::MAX;
/// Places of the index for each record, at least half as many.
const PLACES_A_RECORD: usize = 2;
/// Records that are passed by before members without one are searched.
const PASSED_MOST: u32 = 16;

/// Records in the order of their points.
#[derive(Debug, PartialEq, Eq)]
struct Points {
    points: Box<[u64]>,
    offsets: Box<[u32]>,
    /// Number of the first record at or behind the begin of each of so many equal parts of the ring, a power of two.
    index: Box<[u32]>,
}

/// All records of a tier, and those of each member.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Ring {
    all: Points,
    /// The member that each record counts for.
    givers: Box<[u16]>,
    members: Box<[Points]>,
    /// All members that records count for.
    missing: Missing,
}

impl Points {
    /// Lays out records, which are sorted by their points.
    fn new(records: &[Record]) -> Points {
        let (points, offsets): (Vec<_>, Vec<_>) = records.iter().map(|record| (record.point, record.offset)).unzip();
        let bits = (points.len() * PLACES_A_RECORD).checked_ilog2().unwrap_or_default();
        let first = |part: u64| points.partition_point(|point| *point >> 1 >> (63 - bits) < part) as u32;
        let index = (0..1 << bits).map(first).collect();
        Points { points: points.into(), offsets: offsets.into(), index }
    }

    /// Number of the first record at or behind a point.
    #[inline]
    fn at(&self, probe: u64) -> usize {
        let bits = self.index.len().ilog2();
        let mut at = self.index[(probe >> 1 >> (63 - bits)) as usize] as usize;
        let is_before = |at: usize| self.points.get(at).is_some_and(|point| *point < probe);
        // Most are at the first place or at the next; which, no processor can predict.
        at += usize::from(is_before(at));
        while is_before(at) {
            at += 1;
        }
        at
    }

    /// Distance and offset of the nearest record.
    fn nearest(&self, probes: &Probes) -> Option<(u64, u32)> {
        let last = self.points.len().checked_sub(1)?;
        let behind = |probe: &u64| {
            let at = self.at(*probe);
            let at = if at > last { 0 } else { at };
            (self.points[at].wrapping_sub(*probe), self.offsets[at])
        };
        probes.0.iter().map(behind).min()
    }
}

impl Ring {
    /// Lays out all records of a tier, of which the members give these.
    pub(super) fn new(mut all: Vec<Record>, given: &[Vec<Record>]) -> Ring {
        let mut givers: HashMap<u32, u16> = HashMap::new();
        for (member, records) in (0..).zip(given.iter().take(FIRST_MEMBERS)) {
            records.iter().for_each(|record| _ = *givers.entry(record.offset).or_insert(member));
        }
        all.sort_unstable_by_key(|record| (record.point, record.offset));
        let givers: Box<[u16]> =
            all.iter().map(|record| givers.get(&record.offset).copied().unwrap_or(NOBODY)).collect();
        let mut own = vec![Vec::new(); given.len().min(FIRST_MEMBERS)];
        for (record, giver) in all.iter().zip(&givers) {
            own.get_mut(usize::from(*giver)).into_iter().for_each(|own| own.push(*record));
        }
        let members: Box<[Points]> = own.iter().map(|own| Points::new(own)).collect();
        Ring { all: Points::new(&all), givers, missing: Missing::new(&members), members }
    }

    /// Number of records.
    pub(super) fn len(&self) -> u32 {
        self.all.points.len() as u32
    }

    /// Octets of the records and their points.
    pub(super) fn octets(&self) -> usize {
        let of = |points: &Points| {
            size_of::<Points>()
                + size_of_val(&*points.points)
                + size_of_val(&*points.offsets)
                + size_of_val(&*points.index)
        };
        of(&self.all) + size_of_val(&*self.givers) + self.members.iter().map(of).sum::<usize>()
    }

    /// The nearest records, so many of them.
    #[inline]
    pub(super) fn steps(&self, probes: Probes, count: u32) -> Steps<'_> {
        let near = Near::from_starts(&self.all.points, probes, probes.0.map(|probe| self.all.at(probe)));
        Steps { ring: self, near, missing: self.missing.clone(), left: count }
    }
}

/// Members of which an answer has no record yet.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Missing {
    /// A bit for each.
    bits: [u64; FIRST_MEMBERS / 64],
    count: u32,
}

impl Missing {
    /// All that have records.
    fn new(members: &[Points]) -> Missing {
        let mut missing = Missing { bits: [0; FIRST_MEMBERS / 64], count: 0 };
        for (number, _) in members.iter().enumerate().filter(|(_, member)| !member.points.is_empty()) {
            missing.bits[number / 64] |= 1 << (number % 64);
            missing.count += 1;
        }
        missing
    }

    /// Returns true if a member is one of them.
    #[inline]
    fn contains(&self, member: usize) -> bool {
        self.bits.get(member / 64).is_some_and(|bits| bits >> (member % 64) & 1 == 1)
    }

    /// Takes a member out; returns true if it was one of them.
    #[inline]
    fn remove(&mut self, member: usize) -> bool {
        let is_here = self.contains(member);
        if is_here {
            self.bits[member / 64] &= !(1 << (member % 64));
            self.count -= 1;
        }
        is_here
    }
}

/// The way from near records to far ones.
#[derive(Clone)]
pub(super) struct Steps<'s> {
    ring: &'s Ring,
    near: Near<'s>,
    missing: Missing,
    /// Records that may still come.
    left: u32,
}

impl Steps<'_> {
    /// The nearest of the records of missing members.
    #[cold]
    fn search(&mut self) -> Option<u32> {
        let nearest = |(number, member): (usize, &Points)| Some((member.nearest(&self.near.probes)?, number));
        let members = self.ring.members.iter().enumerate().filter(|(number, _)| self.missing.contains(*number));
        let ((_, offset), number) = members.filter_map(nearest).min()?;
        self.missing.remove(number);
        Some(offset)
    }
}

impl Iterator for Steps<'_> {
    type Item = u32;

    #[inline]
    fn next(&mut self) -> Option<u32> {
        let has_room = self.left > self.missing.count;
        self.left = self.left.checked_sub(1)?;
        for _ in 0..PASSED_MOST {
            let at = self.near.next()?;
            // With room for the missing ones only, the others' records are passed by.
            if self.missing.remove(self.ring.givers[at].into()) || has_room {
                return Some(self.ring.all.offsets[at]);
            }
        }
        self.search()
    }
}

//--- Near ---

/// The records between a point of the client and the next.
#[derive(Clone, Copy, Default)]
struct Arc {
    position: u32,
    left: u32,
}

/// The numbers of records at rising points, from the nearest to the points of a client to the farthest.
#[derive(Clone)]
pub(super) struct Near<'s> {
    points: &'s [u64],
    probes: Probes,
    arcs: [Arc; PROBES],
    /// Distance of the next record of each arc, with the number of the arc in its last bits; the greatest where there is
    /// none. So the least of them says all, without a branch.
    distances: [u64; PROBES],
}

/// Bits of the number of an arc.
const ARC: u64 = PROBES as u64 - 1;

impl<'s> Near<'s> {
    /// Divides the ring among the points of the client.
    pub(super) fn new(points: &'s [u64], probes: Probes) -> Near<'s> {
        Near::from_starts(points, probes, probes.0.map(|probe| points.partition_point(|point| *point < probe)))
    }

    /// Divides the ring at the first records at or behind the points of the client.
    #[inline]
    fn from_starts(points: &'s [u64], probes: Probes, starts: [usize; PROBES]) -> Near<'s> {
        let arcs = std::array::from_fn(|index| {
            let next = starts.get(index + 1).copied().unwrap_or(points.len() + starts[0]);
            let position = if starts[index] < points.len() { starts[index] } else { 0 };
            Arc { position: position as u32, left: (next - starts[index]) as u32 }
        });
        let mut near = Near { points, probes, arcs, distances: [u64::MAX; PROBES] };
        (0..PROBES).for_each(|index| near.measure(index));
        near
    }

    /// Measures the distance of the next record of an arc.
    #[inline]
    fn measure(&mut self, index: usize) {
        let Arc { position, left } = self.arcs[index];
        self.distances[index] = match left {
            0 => u64::MAX,
            _ => self.points[position as usize].wrapping_sub(self.probes.0[index]) & !ARC | index as u64,
        };
    }
}

impl Iterator for Near<'_> {
    type Item = usize;

    #[inline]
    fn next(&mut self) -> Option<usize> {
        // In pairs, none of which waits for another.
        let [a, b, c, d, e, f, g, h] = self.distances;
        let least = a.min(b).min(c.min(d)).min(e.min(f).min(g.min(h)));
        let mut nearest = (least & ARC) as usize;
        if self.arcs[nearest].left == 0 {
            // A record can be as far away as none.
            nearest = self.arcs.iter().position(|arc| arc.left > 0)?;
        }
        let Arc { position, left } = self.arcs[nearest];
        let next = if position as usize + 1 < self.points.len() { position + 1 } else { 0 };
        self.arcs[nearest] = Arc { position: next, left: left - 1 };
        self.measure(nearest);
        Some(position as usize)
    }
}
