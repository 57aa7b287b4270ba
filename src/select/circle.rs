//! Circle of a set: the order in which its records take turns.
//!
//! The i-th of a member's n records, in the order of their points, stands at (i + ½)/n, so that any stretch of the circle
//! has nearly equal parts of each member; the places of members with equally many records coincide. A record that several members give counts for the first; those that nobody
//! gives at present stand as if one more member gave them.
//!
//! Cost: four octets a record; a window O(records written). The circle of a member's own set follows a change of few
//! records in O(records) at the pace of memory, and O(changes × log records) points.

use super::Record;
use wire::rr::{Numbered, Set, differences, rtype};

/// Records for one that changes, below which a circle is laid out anew.
const STAYING: usize = 16;
/// In the place of a record that is gone.
const GONE: u32 = u32::MAX;

/// Offsets of the records in the order of the circle.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Circle(Box<[u32]>);

impl Circle {
    /// Lays out all records of a tier, of which the members give these.
    pub(super) fn new(all: &[Record], given: &[Vec<Record>]) -> Circle {
        let mut left: Vec<Record> = all.to_vec();
        left.sort_unstable_by_key(|record| record.offset);
        let mut is_placed = vec![false; left.len()];
        let mut places: Vec<(u64, usize, u32)> = Vec::with_capacity(left.len());
        let mut place = |member: usize, mut records: Vec<Record>| {
            records.sort_unstable_by_key(|record| (record.point, record.offset));
            let n = records.len() as u64;
            // At most 2^32 records, so the quotient fits.
            let at = |index: usize| ((2 * index as u64 + 1) << 31) / n;
            places.extend(records.iter().enumerate().map(|(index, record)| (at(index), member, record.offset)));
        };
        for (member, records) in given.iter().enumerate() {
            let first = records.iter().filter(|record| {
                let found = left.binary_search_by_key(&record.offset, |record| record.offset);
                found.is_ok_and(|index| !std::mem::replace(&mut is_placed[index], true))
            });
            place(member, first.copied().collect());
        }
        let nobodys = left.iter().zip(&is_placed).filter(|(_, is_placed)| !**is_placed);
        place(given.len(), nobodys.map(|(record, _)| *record).collect());
        places.sort_unstable();
        Circle(places.into_iter().map(|(.., offset)| offset).collect())
    }

    /// The circle of the set that takes the place of another, where addresses stand in the order of their points alone.
    /// None where it is as good to lay it out anew.
    pub(super) fn follow(&self, before: Set<'_>, set: Set<'_>, point: impl Fn(&[u8]) -> u64) -> Option<Circle> {
        let octets = match set.rtype {
            rtype::A => 5,
            rtype::AAAA => 17,
            _ => return None,
        };
        let (old, new) = (Numbered::new(before), Numbered::new(set));
        let (mut gone, mut come) = (Vec::new(), Vec::new());
        differences(before, set, |is_gone, rdata| match is_gone {
            true => gone.extend(old.search(rdata)),
            false => come.extend(new.search(rdata)),
        });
        if (gone.len() + come.len()) * STAYING > self.0.len() {
            return None;
        }
        let moved = moved(before.count, &gone, &come, octets);
        // The sizes are told apart so that no record costs a division.
        let kept = self.0.iter().map(|offset| match octets {
            5 => moved[*offset as usize / 5],
            _ => moved[*offset as usize / 17],
        });
        let kept: Vec<u32> = kept.filter(|offset| *offset != GONE).collect();
        let point_at = |offset: u32| (point(set.at(offset)), offset);
        let mut added: Vec<(u64, u32)> = come.iter().map(|number| point_at(*number as u32 * octets)).collect();
        added.sort_unstable();
        let (mut circle, mut rest) = (Vec::with_capacity(set.count as usize), &*kept);
        for added in added {
            let (before, behind) = rest.split_at(rest.partition_point(|offset| point_at(*offset) < added));
            circle.extend_from_slice(before);
            circle.push(added.1);
            rest = behind;
        }
        circle.extend_from_slice(rest);
        Some(Circle(circle.into()))
    }

    /// Number of records.
    pub(super) fn len(&self) -> u32 {
        self.0.len() as u32
    }

    /// Offsets of the records in their order.
    pub(super) fn offsets(&self) -> &[u32] {
        &self.0
    }

    /// So many records from a part of the circle on.
    pub(super) fn steps(&self, turn: u32, count: u32) -> Steps<'_> {
        let start = ((u64::from(turn) * self.0.len() as u64) >> 32) as usize;
        let (before, after) = self.0.split_at(start);
        after.iter().chain(before).take(count as usize).copied()
    }
}

/// Where each of so many records of a size goes when some numbers of them are gone, and some have come by their numbers
/// afterwards.
fn moved(records: u32, gone: &[usize], come: &[usize], octets: u32) -> Vec<u32> {
    let (mut gone, mut come, mut number) = (gone.iter().peekable(), come.iter().peekable(), 0);
    let mut place = |old: u32| {
        if gone.next_if(|gone| **gone == old as usize).is_some() {
            return GONE;
        }
        while come.next_if(|come| **come == number).is_some() {
            number += 1;
        }
        number += 1;
        (number - 1) as u32 * octets
    };
    (0..records).map(&mut place).collect()
}

/// A stretch of the circle.
pub(super) type Steps<'s> =
    std::iter::Copied<std::iter::Take<std::iter::Chain<std::slice::Iter<'s, u32>, std::slice::Iter<'s, u32>>>>;
