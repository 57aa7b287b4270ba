//! Turns: the records of most answers, without what only a few need.
//!
//! Most cut sets are answered with a stretch of one circle; most steered ones with the records of the nearest member from
//! one on, then those of the next. [`super::Picks`] and [`super::Window`] give the same, and everything else; what they
//! have to know takes longer to put together than such an answer.
//!
//! Invariants: where there are [`Turns`], they are what the window has.
//!
//! Cost: O(members) to begin and for each further member, O(1) for those of its records. Nothing is allocated.

use super::course::Asker;
use super::orders::Nearness;
use super::steered::{NOBODY, Run, Steered};
use super::{Prefer, Services};
use std::iter::Copied;
use std::ops::Range;
use std::slice::Iter;

/// The records of one answer, by their offsets in the set: those together that stand so.
#[derive(Clone)]
pub struct Turns<'s> {
    offsets: &'s [u32],
    /// Numbers of records: those from the one in the middle on, and those in front of it.
    here: Range<u32>,
    then: Range<u32>,
    /// Records that may still come.
    left: u32,
    rest: Option<Rest<'s>>,
}

/// Members behind the present one.
#[derive(Clone)]
struct Rest<'s> {
    set: &'s Steered,
    nearness: &'s Nearness,
    turn: u32,
    /// The rank of the present one, and the last of which records are taken.
    rank: u16,
    last: u16,
    /// The nearest member, or nobody.
    nearest: u16,
}

impl<'s> Turns<'s> {
    /// So many records of a circle.
    #[inline]
    pub(super) fn of_circle(offsets: &'s [u32], turn: u32, count: u32) -> Turns<'s> {
        let (here, then) = halves(0, offsets.len() as u32, turn);
        Turns { offsets, here, then, left: count, rest: None }
    }

    /// At most so many records of a steered set; none where the answer is no such simple one.
    #[inline]
    pub(super) fn of_steered(set: &'s Steered, asker: &Asker<'s>, most: u32) -> Option<Turns<'s>> {
        let is_simple = set.is_simple
            && !asker.is_beside
            && set.steering.prefer != Prefer::Off
            && set.steering.services == Services::Select;
        if !is_simple {
            return None;
        }
        let nearness = asker.orders.nearness(asker.home?)?;
        let run = next_run(set, nearness, None)?;
        let mut rest = Rest {
            set,
            nearness,
            turn: asker.turn,
            rank: nearness.rank(run.member),
            last: NOBODY,
            nearest: run.member,
        };
        if set.steering.prefer == Prefer::Nearest {
            rest.last = rest.reach(run, most);
        }
        let (here, then) = halves(run.start, run.end, asker.turn);
        Some(Turns { offsets: &set.offsets, here, then, left: most, rest: Some(rest) })
    }

    /// Number of the nearest member of which the answer has records.
    pub fn served(&self) -> Option<u16> {
        self.rest.as_ref().map(|rest| rest.nearest).filter(|member| *member != NOBODY)
    }

    /// Goes on to the next member; returns false if there is none.
    #[inline(never)]
    fn go_on(&mut self) -> bool {
        if !self.then.is_empty() {
            self.here = std::mem::take(&mut self.then);
            return true;
        }
        let Some(rest) = self.rest.as_mut().filter(|rest| rest.rank < rest.last) else { return false };
        let next = next_run(rest.set, rest.nearness, Some(rest.rank));
        let Some((run, rank)) = next.map(|run| (run, rest.nearness.rank(run.member))) else { return false };
        if rank > rest.last {
            return false;
        }
        rest.rank = rank;
        (self.here, self.then) = halves(run.start, run.end, rest.turn);
        true
    }
}

impl Rest<'_> {
    /// The rank with which there are enough records, from the nearest run on.
    #[inline]
    fn reach(&self, nearest: &Run, most: u32) -> u16 {
        // What does not fit into the answer is needed by nobody.
        let wanted = u32::from(self.set.steering.at_least).min(most);
        let (mut found, mut rank) = (nearest.counted, self.rank);
        while found < wanted {
            let Some(run) = next_run(self.set, self.nearness, Some(rank)) else { return NOBODY };
            found += run.counted;
            rank = self.nearness.rank(run.member);
        }
        rank
    }
}

impl<'s> Iterator for Turns<'s> {
    type Item = Copied<Iter<'s, u32>>;

    /// The next records that stand together, so that an answer goes through them without a look at what comes behind.
    #[inline]
    fn next(&mut self) -> Option<Copied<Iter<'s, u32>>> {
        if self.left == 0 || self.here.is_empty() && !self.go_on() {
            return None;
        }
        let Range { start, end } = std::mem::take(&mut self.here);
        let end = end.min(start.saturating_add(self.left));
        self.left -= end - start;
        Some(self.offsets.get(start as usize..end as usize)?.iter().copied())
    }
}

/// The run of the nearest member behind a rank. Members have one run each.
#[inline]
fn next_run<'s>(set: &'s Steered, nearness: &Nearness, behind: Option<u16>) -> Option<&'s Run> {
    let mut found: Option<(u16, &Run)> = None;
    for run in &set.runs {
        let rank = nearness.rank(run.member);
        if behind.is_none_or(|behind| rank > behind) && found.is_none_or(|(nearest, _)| rank < nearest) {
            found = Some((rank, run));
        }
    }
    found.map(|(_, run)| run)
}

/// Numbers from one in the middle on, and those in front of it.
#[inline]
fn halves(start: u32, end: u32, turn: u32) -> (Range<u32>, Range<u32>) {
    let middle = start + ((u64::from(turn) * u64::from(end - start)) >> 32) as u32;
    (middle..end, start..middle)
}
