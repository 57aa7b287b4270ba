//! Ring of a set: records at points, found from the point of a client.
//!
//! A record has several points on a ring of 2^32, one in each of as many equal parts of it, so that the room in front of
//! one of them does not decide how often it is chosen. The distance of a record is that from the client's point to the
//! next point of the record. A window has the nearest record of each member while there is room, then the nearest of all;
//! so a record that comes or goes changes only the windows that have it, by one record. A record that several members give
//! counts for the first of them.
//!
//! The nearest of all are taken until there is room for those members only that have none yet. Which members have, the way
//! itself tells; few clients need a search.
//!
//! Invariants: how many points a record has follows from the law alone, never from the set, since another number sends
//! every client elsewhere. Whether the way met a record before follows from how far its point before is behind, so the way
//! keeps nothing in mind.
//!
//! Cost: 16 octets a point and two to four in the index, and four more where several members give; a window O(records
//! written), in few pieces of memory, and for members whose nearest record is not among the nearest of all a search
//! O(members × log records) for each. Laying out a ring: O(points).

use super::point::{Probe, Spread};
use super::{Law, Record};
use crate::zone::{LINE_BYTES, prefetch};
use std::iter::{Chain, Take};

/// Members of which the nearest record comes first, at most.
const FIRST_MEMBERS: usize = 256;
/// The member of records for which no member counts.
const NOBODY: u16 = u16::MAX;
/// Records that are passed by before members without one are searched.
const PASSED_MOST: u32 = 16;
/// Records of an answer below which records have more points, and among which the first is chosen: the fewer there are, the
/// more the room in front of each point counts.
const FEW: u32 = 16;
/// Lines of points that are asked for ahead of an answer. Behind them the processor follows by itself.
const FETCHED_LINES: usize = 4;

/// A point of a record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Spot {
    at: u32,
    /// Distance to the last point of this record before, less one.
    reach: u32,
    /// The record, by its offset or by a number.
    pub record: u32,
    /// The member that it counts for.
    giver: u16,
}

impl Spot {
    /// The point of a record in one part of the ring.
    #[inline]
    pub(super) fn new(point: u64, spread: Spread, part: u32, record: u32) -> Spot {
        let before = part.checked_sub(1).unwrap_or(spread.points() - 1);
        let at = spread.at(point, part);
        let reach = at.wrapping_sub(spread.at(point, before)).wrapping_sub(1);
        Spot { at, reach, record, giver: NOBODY }
    }

    /// Distance from the client.
    #[inline]
    pub(super) fn distance(&self, probe: Probe) -> u32 {
        self.at.wrapping_sub(probe.at())
    }

    /// Returns true if no other point of its record is nearer to the client.
    #[inline]
    pub(super) fn is_first(&self, probe: Probe) -> bool {
        self.reach >= self.distance(probe)
    }

    /// Its order around the ring, if its record has this offset.
    pub(super) fn key(&self, offset: u32) -> (u32, u32) {
        (self.at, offset)
    }

    /// Returns true if it lies before a place on the ring.
    #[inline]
    pub(super) fn is_before(&self, at: u32) -> bool {
        self.at < at
    }
}

/// Number of points of a record under a law.
pub(super) fn spread(law: Law) -> Spread {
    if law.max.is_some_and(|max| max.get() < FEW) { Spread::EIGHT } else { Spread::FOUR }
}

/// The points of all records of a tier, and which of them are each member's.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Ring {
    /// What distinguishes the owner's clients from those of others.
    pub seed: u64,
    count: u32,
    spots: Box<[Spot]>,
    /// Number of the first point at or behind the begin of each of so many equal parts of the ring, a power of two.
    index: Box<[u32]>,
    /// Numbers of the points of each member's records; nothing where one member gives all.
    members: Box<[Box<[u32]>]>,
    /// All members that records count for.
    missing: Missing,
}

impl Ring {
    /// Lays out all records of a tier, of which the members give these, everything in rising order of offsets.
    pub(super) fn new(seed: u64, spread: Spread, all: &[Record], given: &[Vec<Record>]) -> Ring {
        let given = &given[..given.len().min(FIRST_MEMBERS)];
        let givers = givers(all, given);
        // Part by part, so that what is written lies together.
        let points = (0..spread.points()).flat_map(|part| {
            let spot = move |record: &Record| Spot::new(record.point, spread, part, record.offset);
            all.iter().zip(&givers).map(move |(record, giver)| Spot { giver: *giver, ..spot(record) })
        });
        let (spots, index) = lay_out(points, all.len() * spread.points() as usize);
        let mut missing = Missing::default();
        givers.iter().for_each(|giver| missing.add((*giver).into()));
        let mut members = vec![Vec::new(); given.len()];
        if missing.count > 1 || givers.contains(&NOBODY) {
            for (number, spot) in (0..).zip(&spots) {
                members.get_mut(usize::from(spot.giver)).into_iter().for_each(|own: &mut Vec<u32>| own.push(number));
            }
        }
        let members = members.into_iter().map(Vec::into_boxed_slice).collect();
        Ring { seed, count: all.len() as u32, spots: spots.into(), index: index.into(), members, missing }
    }

    /// Number of records.
    pub(super) fn len(&self) -> u32 {
        self.count
    }

    /// Octets of the points.
    pub(super) fn octets(&self) -> usize {
        let members = self.members.iter().map(|own| size_of_val(own) + size_of_val(&**own)).sum::<usize>();
        size_of_val(&*self.spots) + size_of_val(&*self.index) + members
    }

    /// Asks the processor for the memory that tells where the way of a client begins.
    #[inline]
    pub(super) fn fetch_place(&self, probe: Probe) {
        prefetch(&self.index[part(probe.at(), self.index.len())]);
    }

    /// Asks for the points there, behind [`Ring::fetch_place`].
    #[inline]
    pub(super) fn fetch_points(&self, probe: Probe) {
        let first = self.index[part(probe.at(), self.index.len())] as usize;
        let near = self.spots.get(first..).unwrap_or_default();
        near.iter().step_by(LINE_BYTES / size_of::<Spot>()).take(FETCHED_LINES).for_each(|spot| prefetch(spot));
    }

    /// The nearest records, so many of them, from one on that depends on the client: most try the first that they get.
    #[inline]
    pub(super) fn steps(&self, probe: Probe, count: u32) -> Turned<'_> {
        let nearest = self.nearest(probe, count);
        let (mut turned, passed) = (nearest.clone(), probe.choice(count.min(FEW)));
        (0..passed).for_each(|_| _ = turned.next());
        turned.chain(nearest.take(passed as usize))
    }

    /// The nearest records, so many of them, the nearest of all first.
    #[inline]
    fn nearest(&self, probe: Probe, count: u32) -> Steps<'_> {
        let mut at = self.index[part(probe.at(), self.index.len())] as usize;
        while self.spots.get(at).is_some_and(|spot| spot.is_before(probe.at())) {
            at += 1;
        }
        let way = Way { spots: &self.spots, probe, at, left: self.spots.len() };
        Steps { ring: self, way, missing: self.missing.clone(), left: count }
    }
}

/// The member that each record counts for: the first that gives it.
fn givers(all: &[Record], given: &[Vec<Record>]) -> Vec<u16> {
    let mut givers = vec![NOBODY; all.len()];
    for (member, records) in (0..).zip(given) {
        let mut at = 0;
        for record in records {
            // Most often it is the next one.
            if all.get(at).is_some_and(|next| next.offset < record.offset) {
                at += all[at..].partition_point(|next| next.offset < record.offset);
            }
            if let Some(giver) = givers.get_mut(at).filter(|giver| **giver == NOBODY) {
                *giver = member;
            }
            at += 1;
        }
    }
    givers
}

/// The one of so many equal parts, a power of two, in which a place on the ring lies.
#[inline]
fn part(at: u32, parts: usize) -> usize {
    (u64::from(at) << parts.ilog2() >> 32) as usize
}

/// Sorts so many points; returns with them the number of the first one of each part of the ring.
fn lay_out(points: impl Iterator<Item = Spot> + Clone, count: usize) -> (Vec<Spot>, Vec<u32>) {
    let parts = 1 << count.checked_ilog2().unwrap_or_default();
    let mut index = vec![0; parts];
    points.clone().for_each(|spot| index[part(spot.at, parts)] += 1);
    let mut begin = 0;
    index.iter_mut().for_each(|number| begin += std::mem::replace(number, begin));
    let mut spots = vec![Spot::default(); count];
    for spot in points {
        let next = &mut index[part(spot.at, parts)];
        spots[*next as usize] = spot;
        *next += 1;
    }
    // Each number now is where its part ends.
    let mut begin = 0;
    for end in &mut index {
        spots[begin as usize..*end as usize].sort_unstable_by_key(|spot| spot.key(spot.record));
        begin = std::mem::replace(end, begin);
    }
    (spots, index)
}

/// Members of which an answer has no record yet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Missing {
    /// A bit for each.
    bits: [u64; FIRST_MEMBERS / 64],
    count: u32,
}

impl Missing {
    /// Adds a member; numbers that no member has are left out.
    fn add(&mut self, member: usize) {
        if let Some(bits) = self.bits.get_mut(member / 64) {
            self.count += u32::from(*bits >> (member % 64) & 1 == 0);
            *bits |= 1 << (member % 64);
        }
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

/// The way through the records of an answer, which begins at any of them.
pub(super) type Turned<'s> = Chain<Steps<'s>, Take<Steps<'s>>>;

/// The way from near records to far ones.
#[derive(Clone)]
pub(super) struct Steps<'s> {
    ring: &'s Ring,
    way: Way<'s>,
    missing: Missing,
    /// Records that may still come.
    left: u32,
}

impl Steps<'_> {
    /// The nearest of the records of missing members.
    #[cold]
    fn search(&mut self) -> Option<u32> {
        let (spots, probe) = (&self.ring.spots, self.way.probe);
        let nearest = |(member, own): (usize, &[u32])| {
            let at = own.partition_point(|number| spots[*number as usize].is_before(probe.at()));
            let spot = &spots[*own.get(at).or(own.first())? as usize];
            Some((spot.distance(probe), spot.record, member))
        };
        let members =
            self.ring.members.iter().map(|own| &**own).enumerate().filter(|(member, _)| self.missing.contains(*member));
        let (_, record, member) = members.filter_map(nearest).min()?;
        self.missing.remove(member);
        Some(record)
    }
}

impl Iterator for Steps<'_> {
    type Item = u32;

    #[inline]
    fn next(&mut self) -> Option<u32> {
        let has_room = self.left > self.missing.count;
        self.left = self.left.checked_sub(1)?;
        for _ in 0..PASSED_MOST {
            let spot = self.way.next()?;
            // With room for the missing ones only, the others' records are passed by.
            if self.missing.remove(spot.giver.into()) || has_room {
                return Some(spot.record);
            }
        }
        self.search()
    }
}

/// The way around the ring, from record to record.
#[derive(Clone)]
pub(super) struct Way<'s> {
    spots: &'s [Spot],
    probe: Probe,
    /// The next point, and how many there are still to come.
    at: usize,
    left: usize,
}

impl<'s> Way<'s> {
    /// The way among the points of a run.
    pub(super) fn new(spots: &'s [Spot], probe: Probe) -> Way<'s> {
        let at = spots.partition_point(|spot| spot.is_before(probe.at()));
        Way { spots, probe, at, left: spots.len() }
    }
}

impl<'s> Iterator for Way<'s> {
    type Item = &'s Spot;

    #[inline]
    fn next(&mut self) -> Option<&'s Spot> {
        while self.left > 0 {
            self.left -= 1;
            let spot = match self.spots.get(self.at) {
                Some(spot) => spot,
                None => {
                    self.at = 0;
                    self.spots.first()?
                }
            };
            self.at += 1;
            if spot.is_first(self.probe) {
                return Some(spot);
            }
        }
        None
    }
}
