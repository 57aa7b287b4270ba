//! Ring of a set: records at points, chosen by the points of a client.
//!
//! Records are near in the order of the distance to the nearest point of the client that lies in front of them. A window
//! has the nearest record of each member first, while there is room, then the nearest of all. So a record that comes or
//! goes changes only the windows that have it, by one record for each member that gives it.
//!
//! Cost: 12 octets a record, and 12 a record and giver; a window O(members × log records + records written), times the
//! points of a client.

use super::Record;
use super::point::{PROBES, Probes};

/// Members of which the nearest record comes first, at most.
const FIRST_MEMBERS: usize = 256;

/// Records in the order of their points.
#[derive(Debug, PartialEq, Eq)]
struct Points {
    points: Box<[u64]>,
    offsets: Box<[u32]>,
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
        Points { points: points.into(), offsets: offsets.into() }
    }

    /// Offset of the nearest record.
    fn nearest(&self, probes: &Probes) -> Option<u32> {
        Near::new(&self.points, *probes).next().map(|number| self.offsets[number])
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

    /// The nearest records, so many of them.
    pub(super) fn steps(&self, probes: Probes, count: u32) -> Steps<'_> {
        let near = Near::new(&self.all.points, probes);
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
    position: usize,
    left: usize,
}

/// The numbers of records at rising points, from the nearest to the points of a client to the farthest.
#[derive(Clone)]
pub(super) struct Near<'s> {
    points: &'s [u64],
    probes: Probes,
    arcs: [Arc; PROBES],
}

impl<'s> Near<'s> {
    /// Divides the ring among the points of the client.
    pub(super) fn new(points: &'s [u64], probes: Probes) -> Near<'s> {
        let starts = probes.0.map(|probe| points.partition_point(|point| *point < probe));
        let mut arcs = [Arc::default(); PROBES];
        for (index, arc) in arcs.iter_mut().enumerate() {
            let next = starts.get(index + 1).copied().unwrap_or(points.len() + starts[0]);
            *arc = Arc { position: starts[index], left: next - starts[index] };
        }
        Near { points, probes, arcs }
    }
}

impl Iterator for Near<'_> {
    type Item = usize;

    fn next(&mut self) -> Option<usize> {
        let distance = |(index, arc): (usize, &Arc)| {
            let position =
                if arc.position < self.points.len() { arc.position } else { arc.position - self.points.len() };
            (arc.left > 0).then(|| (self.points[position].wrapping_sub(self.probes.0[index]), index, position))
        };
        let (_, index, position) = self.arcs.iter().enumerate().filter_map(distance).min()?;
        let arc = &mut self.arcs[index];
        (arc.position, arc.left) = (arc.position + 1, arc.left - 1);
        Some(position)
    }
}
