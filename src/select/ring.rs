//! Ring of a set: records at points, chosen by the points of a client.
//!
//! Records are near in the order of the distance to the nearest point of the client that lies in front of them. A window
//! has the nearest record of each member first, while there is room, then the nearest of all. So a record that comes or
//! goes changes only the windows that have it, by one record for each member that gives it.
//!
//! Cost: 14 octets a record, and 14 a record and giver, at most; a window O(members × log records + records written), times the
//! points of a client.

use super::Record;
use super::point::{PROBES, Probes};

/// Members of which the nearest record comes first, at most.
const FIRST_MEMBERS: usize = 256;
/// Records for each place of the index, on average, at least.
const RECORDS_A_PLACE: usize = 2;

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
    members: Box<[Points]>,
}

impl Points {
    /// Sorts records.
    fn new(mut records: Vec<Record>) -> Points {
        records.sort_unstable_by_key(|record| (record.point, record.offset));
        let (points, offsets): (Vec<_>, Vec<_>) = records.iter().map(|record| (record.point, record.offset)).unzip();
        let bits = (points.len() / RECORDS_A_PLACE).checked_ilog2().unwrap_or_default();
        let first = |part: u64| points.partition_point(|point| *point >> 1 >> (63 - bits) < part) as u32;
        let index = (0..1 << bits).map(first).collect();
        Points { points: points.into(), offsets: offsets.into(), index }
    }

    /// Number of the first record at or behind a point.
    #[inline]
    fn at(&self, probe: u64) -> usize {
        let bits = self.index.len().ilog2();
        let mut at = self.index[(probe >> 1 >> (63 - bits)) as usize] as usize;
        while self.points.get(at).is_some_and(|point| *point < probe) {
            at += 1;
        }
        at
    }

    /// Offset of the nearest record.
    fn nearest(&self, probes: &Probes) -> Option<u32> {
        let last = self.points.len().checked_sub(1)?;
        let behind = |probe: &u64| {
            let at = self.at(*probe);
            let at = if at > last { 0 } else { at };
            (self.points[at].wrapping_sub(*probe), at)
        };
        // Of equal distances the one to the first of the points counts.
        let (_, at) = probes.0.iter().map(behind).min_by_key(|(distance, _)| *distance)?;
        Some(self.offsets[at])
    }
}

impl Ring {
    /// Lays out all records of a tier, of which the members give these.
    pub(super) fn new(all: Vec<Record>, given: Vec<Vec<Record>>) -> Ring {
        Ring { all: Points::new(all), members: given.into_iter().map(Points::new).collect() }
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
        of(&self.all) + self.members.iter().map(of).sum::<usize>()
    }

    /// The nearest records, so many of them.
    pub(super) fn steps(&self, probes: Probes, count: u32) -> Steps<'_> {
        let near = Near::from_starts(&self.all.points, probes, probes.0.map(|probe| self.all.at(probe)));
        let mut first = Firsts::default();
        for member in &self.members {
            if first.count == FIRST_MEMBERS.min(count as usize) {
                break;
            }
            member.nearest(&probes).into_iter().for_each(|offset| first.insert(offset));
        }
        Steps { offsets: &self.all.offsets, near, first, given: 0, left: count }
    }
}

/// Offsets of the members' nearest records.
#[derive(Clone)]
struct Firsts {
    offsets: [u32; FIRST_MEMBERS],
    count: usize,
}

impl Default for Firsts {
    fn default() -> Firsts {
        Firsts { offsets: [0; FIRST_MEMBERS], count: 0 }
    }
}

impl Firsts {
    /// Returns true if a record is one of them.
    fn contains(&self, offset: u32) -> bool {
        self.offsets[..self.count].contains(&offset)
    }

    /// Adds a record unless it is here.
    fn insert(&mut self, offset: u32) {
        if !self.contains(offset) {
            self.offsets[self.count] = offset;
            self.count += 1;
        }
    }
}

/// The way from near records to far ones.
#[derive(Clone)]
pub(super) struct Steps<'s> {
    offsets: &'s [u32],
    near: Near<'s>,
    first: Firsts,
    /// Members' records that have been given.
    given: usize,
    left: u32,
}

impl Iterator for Steps<'_> {
    type Item = u32;

    fn next(&mut self) -> Option<u32> {
        self.left = self.left.checked_sub(1)?;
        if self.given < self.first.count {
            // Most clients try the first record that they get, so it must not always be the first member's.
            let place = (self.near.probes.0[0] as usize).wrapping_add(self.given) % self.first.count;
            self.given += 1;
            return Some(self.first.offsets[place]);
        }
        loop {
            let offset = self.offsets[self.near.next()?];
            if !self.first.contains(offset) {
                return Some(offset);
            }
        }
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
    /// Distance of the next record of each arc; the greatest where there is none.
    distances: [u64; PROBES],
}

impl<'s> Near<'s> {
    /// Divides the ring among the points of the client.
    pub(super) fn new(points: &'s [u64], probes: Probes) -> Near<'s> {
        Near::from_starts(points, probes, probes.0.map(|probe| points.partition_point(|point| *point < probe)))
    }

    /// Divides the ring at the first records at or behind the points of the client.
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
            _ => self.points[position as usize].wrapping_sub(self.probes.0[index]),
        };
    }
}

impl Iterator for Near<'_> {
    type Item = usize;

    #[inline]
    fn next(&mut self) -> Option<usize> {
        let mut nearest = 0;
        for index in 1..PROBES {
            if self.distances[index] < self.distances[nearest] {
                nearest = index;
            }
        }
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
