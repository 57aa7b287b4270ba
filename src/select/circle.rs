//! Circle of a set: the order in which its records take turns.
//!
//! The i-th of a member's n records, in the order of their points, stands at (i + ½)/n, so that any stretch of the circle
//! has nearly equal parts of each member; the places of members with equally many records coincide. A record that several members give counts for the first; those that nobody
//! gives at present stand as if one more member gave them.
//!
//! Cost: four octets a record; a window O(records written).

use super::Record;

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

/// A stretch of the circle.
pub(super) type Steps<'s> =
    std::iter::Copied<std::iter::Take<std::iter::Chain<std::slice::Iter<'s, u32>, std::slice::Iter<'s, u32>>>>;
