//! Picks: the records of one answer from a steered set, one by one.
//!
//! Where some member comes first, its runs come before those of the next; SRV records of the smallest priority come before
//! all others, and the last place goes to the next priority, as without steering. Where clients are told by priorities
//! what is near, all members' records come, those of the nearest in front, which leave a quarter of the places to others.
//! Where none comes first, the runs of all members are united: on a circle, at equal distances, or the nearest record of
//! each member, then the rest.
//!
//! Within a run, records come in turns or in the order of their distance from the client's point.
//!
//! Cost: O(runs) from one run to the next, and for each record on the united circle; O(1) for a record that goes by its
//! points, and O(runs × log records) where runs are united. Nothing is allocated.
//!
//! RFCs: 2782 (priorities).

use super::Pick;
use super::course::Course;
use super::point::Probe;
use super::ring::Way;
use super::steered::{RANK_STEP, Run};
use std::iter::Chain;
use std::ops::Range;

/// The place of a member above which priorities do not rise.
const LAST_RANK: u16 = 64;

/// Runs of which the nearest records are searched one by one. Of more a client has neighbours on the circle, from a place
/// of its own: with hundreds of members every answer would take milliseconds.
const UNITED_RUNS: usize = 16;

/// A record of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Picked {
    /// Its offset in the set.
    pub offset: u32,
    /// The priority that it gets in place of its own.
    pub priority: Option<u16>,
}

/// The records of one answer.
#[derive(Clone)]
pub struct Picks<'s> {
    course: Course<'s>,
    probe: Probe,
    /// Places that are left in the answer, and in this part of it.
    left: u32,
    here: u32,
    part: Part,
    /// Records of the nearest member.
    nearest: u32,
    /// The present run and the way through it.
    run: Option<&'s Run>,
    steps: Steps<'s>,
}

/// A record: the run for which it counts, and its number.
type Found<'s> = (&'s Run, u32);

/// Distance of a record from the client's point, and its offset.
type Distance = (u32, u32);

/// Part of an answer: the runs between which its records are chosen.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    /// Those of one priority, one after the other.
    Tier(u16),
    /// The nearest record of each of them, behind those of so many.
    First(u16, u32),
    /// What is left of them, the nearest of all first, behind a distance and offset.
    Others(u16, Option<Distance>),
    /// Those of one priority, united on a circle.
    Circle(u16, Place),
    /// The nearest member's, as far as they leave room.
    Nearest,
    Farther,
    /// More of the nearest member's, behind so many that stand in the answer.
    More(u32),
    End,
}

/// The last place on the united circle: the run, and how far the way still is.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Place {
    at: u64,
    behind: Option<u32>,
    left: u64,
}

/// The way through one run, by the numbers of its records.
#[derive(Clone)]
enum Steps<'s> {
    Turns(Chain<Range<u32>, Range<u32>>),
    Near(Way<'s>),
}

impl Steps<'_> {
    /// The way through no run.
    fn none() -> Self {
        Steps::Turns((0..0).chain(0..0))
    }
}

impl<'s> Picks<'s> {
    /// The records of an answer with at most so many.
    pub(super) fn new(course: Course<'s>, most: u32) -> Picks<'s> {
        let probe = match course.set.pick {
            Pick::Client => course.asker.client.probe(course.set.seed),
            Pick::Rotate => Probe::default(),
        };
        let steps = Steps::none();
        let mut picks = Picks { course, probe, left: most, here: 0, part: Part::End, nearest: 0, run: None, steps };
        if course.is_by_priority() {
            picks.part = Part::Nearest;
            let rank = course.next_rank(None);
            picks.here = if course.next_rank(rank).is_some() { most - most.div_ceil(4) } else { most };
        } else {
            picks.begin_tier(None);
        }
        picks
    }

    /// Returns true if records get other priorities than their own.
    pub(super) fn is_by_priority(&self) -> bool {
        self.course.is_by_priority()
    }

    /// Number of the nearest member of which the answer has records.
    pub(super) fn served(&self) -> Option<u16> {
        self.course.served()
    }

    /// Offsets of the records that are chosen from, those of several members several times.
    pub(super) fn offsets(&self) -> impl Iterator<Item = u32> + use<'s> {
        let set = self.course.set;
        self.course.runs().flat_map(|run| run.start..run.end).map(|index| set.offsets[index as usize])
    }

    /// Begins with the next priority.
    fn begin_tier(&mut self, behind: Option<u16>) {
        let next = |behind: Option<u16>| {
            let priorities = self.course.runs().map(|run| run.priority);
            priorities.filter(|priority| behind.is_none_or(|behind| *priority > behind)).min()
        };
        let Some(tier) = next(behind).filter(|_| self.left > 0) else {
            self.part = Part::End;
            return;
        };
        // The last place goes to the next priority, which clients turn to when this one fails.
        let kept = u32::from(self.left > 1 && next(Some(tier)).is_some());
        (self.here, self.run) = (self.left - kept, None);
        self.part = match (self.course.is_ordered(), self.course.set.pick) {
            (true, _) => Part::Tier(tier),
            (false, Pick::Client) if self.tier(tier).count() <= UNITED_RUNS => Part::First(tier, 0),
            (false, pick) => {
                let all = self.tier(tier).map(|(_, run)| u64::from(run.end - run.start)).sum();
                let at = match pick {
                    Pick::Rotate => self.course.asker.turn.into(),
                    Pick::Client => self.probe.at().into(),
                };
                Part::Circle(tier, Place { at, behind: None, left: all })
            }
        };
    }

    /// The runs of a priority with their numbers.
    fn tier(&self, priority: u16) -> impl Iterator<Item = (u32, &'s Run)> + Clone + use<'s> {
        (0..).zip(self.course.runs()).filter(move |(_, run)| run.priority == priority)
    }

    /// Begins with the next run of this part; returns false if there is none.
    fn begin_run(&mut self) -> bool {
        let course = self.course;
        let nearest = course.next_rank(None);
        let (only, is_by_priority) = match self.part {
            Part::Tier(tier) => (Some(tier), false),
            _ => (None, true),
        };
        let key = |run: &Run| {
            let rank = course.rank(run.member);
            // Runs with one rank and priority stand in this order.
            if is_by_priority { (rank, run.priority, run.start) } else { (0, rank, run.start) }
        };
        let last = self.run.map(key);
        let is_here = |run: &&Run| match self.part {
            Part::Nearest | Part::More(_) => Some(course.rank(run.member)) == nearest,
            Part::Farther => Some(course.rank(run.member)) != nearest,
            _ => only == Some(run.priority),
        };
        let next = course
            .runs()
            .filter(is_here)
            .filter(|run| last.is_none_or(|last| key(run) > last))
            .min_by_key(|run| key(run));
        let Some(run) = next else { return false };
        self.steps = match self.course.set.pick {
            Pick::Rotate => {
                let length = u64::from(run.end - run.start);
                let middle = run.start + ((u64::from(course.asker.turn) * length) >> 32) as u32;
                Steps::Turns((middle..run.end).chain(run.start..middle))
            }
            Pick::Client => Steps::Near(Way::new(course.set.spots(run), self.probe)),
        };
        self.run = Some(run);
        true
    }

    /// The next record of this part.
    fn step(&mut self) -> Option<Found<'s>> {
        if let Part::Circle(tier, place) = self.part {
            let (next, found) = self.turn(tier, place)?;
            self.part = Part::Circle(tier, next);
            return Some(found);
        }
        if let Part::First(tier, done) = self.part {
            let (done, found) = self.first(tier, done)?;
            self.part = Part::First(tier, done);
            return Some(found);
        }
        if let Part::Others(tier, behind) = self.part {
            let (at, found) = self.other(tier, behind)?;
            self.part = Part::Others(tier, Some(at));
            return Some(found);
        }
        loop {
            let index = match &mut self.steps {
                Steps::Turns(turns) => turns.next(),
                Steps::Near(way) => way.next().map(|spot| spot.record),
            };
            match (index, self.run) {
                (Some(index), Some(run)) => return Some((run, index)),
                _ if !self.begin_run() => return None,
                _ => {}
            }
        }
    }

    /// The next record on the united circle: the i-th of n records of a run stands at (i + ½)/n.
    fn turn(&self, tier: u16, mut place: Place) -> Option<(Place, Found<'s>)> {
        place.left = place.left.checked_sub(1)?;
        loop {
            let next = |(number, run): (u32, &'s Run)| {
                let length = u64::from(run.end - run.start);
                let at = |index: u64| ((2 * index + 1) << 31) / length;
                let mut index = (place.at * length) >> 32;
                let is_behind =
                    |at: u64| at < place.at || at == place.at && place.behind.is_some_and(|last| number <= last);
                while index < length && is_behind(at(index)) {
                    index += 1;
                }
                (index < length).then(|| (at(index), number, run.start + index as u32))
            };
            let found = self
                .tier(tier)
                .filter_map(|(number, run)| Some((next((number, run))?, run)))
                .min_by_key(|(found, _)| *found);
            match found {
                Some(((at, number, index), run)) => {
                    return Some((Place { at, behind: Some(number), ..place }, (run, index)));
                }
                // Around.
                None => (place.at, place.behind) = (0, None),
            }
        }
    }

    /// The nearest record of the next run, behind those of so many. Most clients try the first record that they get, so
    /// they begin with different runs.
    fn first(&self, tier: u16, mut done: u32) -> Option<(u32, Found<'s>)> {
        let all = self.tier(tier).count() as u32;
        let start = self.probe.choice(all);
        let offset_of = |number: u32| {
            let (_, run) = self.tier(tier).nth(((start + number) % all) as usize)?;
            let index = self.nearest_of(run)?;
            Some((run, index, self.course.set.offsets[index as usize]))
        };
        while done < all {
            let (run, index, offset) = offset_of(done)?;
            done += 1;
            let is_given = |number: u32| offset_of(number).is_some_and(|(.., before)| before == offset);
            if !self.course.set.is_shared || !(0..done - 1).any(is_given) {
                return Some((done, (self.first_giver(tier, index).unwrap_or(run), index)));
            }
        }
        None
    }

    /// The nearest record behind a distance and offset that is no run's nearest.
    fn other(&self, tier: u16, mut behind: Option<Distance>) -> Option<(Distance, Found<'s>)> {
        loop {
            let next = |(_, run): (u32, &'s Run)| self.next_near(run, behind).map(|(at, index)| (at, (run, index)));
            let (at, found) = self.tier(tier).filter_map(next).min_by_key(|(at, _)| *at)?;
            let is_nearest = |(_, run): (u32, &'s Run)| {
                self.nearest_of(run).is_some_and(|index| self.course.set.offsets[index as usize] == at.1)
            };
            let is_first =
                if self.course.set.is_shared { self.tier(tier).any(is_nearest) } else { is_nearest((0, found.0)) };
            if !is_first {
                return Some((at, found));
            }
            behind = Some(at);
        }
    }

    /// Number of the record of a run that is the nearest to the client.
    fn nearest_of(&self, run: &Run) -> Option<u32> {
        self.next_near(run, None).map(|(_, index)| index)
    }

    /// The record of a run that is the nearest behind a distance and offset: both, and its number.
    fn next_near(&self, run: &Run, behind: Option<Distance>) -> Option<(Distance, u32)> {
        let (spots, probe) = (self.course.set.spots(run), self.probe);
        let least = behind.map_or(0, |(distance, _)| distance);
        let from = spots.partition_point(|spot| spot.is_before(probe.at().wrapping_add(least)));
        let (before, after) = spots.split_at(from);
        let way = after.iter().chain(before).take_while(|spot| spot.distance(probe) >= least);
        let first = way.filter(|spot| spot.is_first(probe));
        first
            .map(|spot| ((spot.distance(probe), self.course.set.offsets[spot.record as usize]), spot.record))
            .find(|(at, _)| behind.is_none_or(|behind| *at > behind))
    }

    /// The first run that gives a record of another, where members share records.
    fn first_giver(&self, tier: u16, index: u32) -> Option<&'s Run> {
        let set = self.course.set;
        let (point, offset) = (*set.points.get(index as usize)?, set.offsets[index as usize]);
        let gives = |run: &&'s Run| {
            let (start, end) = (run.start as usize, run.end as usize);
            let at = start + set.points[start..end].partition_point(|other| *other < point);
            (at..end).take_while(|at| set.points[*at] == point).any(|at| set.offsets[at] == offset)
        };
        self.tier(tier).map(|(_, run)| run).find(gives)
    }

    /// Goes on to the next part of the answer.
    fn next_part(&mut self) {
        self.run = None;
        self.steps = Steps::none();
        match self.part {
            Part::Tier(tier) | Part::Others(tier, _) | Part::Circle(tier, _) => self.begin_tier(Some(tier)),
            Part::First(tier, _) => self.part = Part::Others(tier, None),
            Part::Nearest => {
                self.part = Part::Farther;
                self.here = self.left;
            }
            Part::Farther => {
                self.part = Part::More(self.nearest);
                self.here = self.left;
            }
            Part::More(_) | Part::End => self.part = Part::End,
        }
    }

    /// The next record, with the member for which it counts.
    pub(super) fn next_of(&mut self) -> Option<(u16, Picked)> {
        while self.left > 0 && self.part != Part::End {
            let found = if self.here > 0 { self.step() } else { None };
            let Some((run, index)) = found else {
                self.next_part();
                continue;
            };
            let is_united = matches!(self.part, Part::First(..) | Part::Others(..));
            if !is_united && self.course.is_repeated(run, index) {
                continue;
            }
            match &mut self.part {
                Part::More(skipped) if *skipped > 0 => {
                    *skipped -= 1;
                    continue;
                }
                Part::Nearest => self.nearest += 1,
                _ => {}
            }
            (self.left, self.here) = (self.left - 1, self.here - 1);
            let by_nearness =
                || self.course.rank(run.member).min(LAST_RANK) * RANK_STEP + run.priority.min(RANK_STEP - 1);
            let priority = self.course.is_by_priority().then(by_nearness);
            return Some((run.member, Picked { offset: self.course.set.offsets[index as usize], priority }));
        }
        None
    }
}

impl Iterator for Picks<'_> {
    type Item = Picked;

    fn next(&mut self) -> Option<Picked> {
        self.next_of().map(|(_, picked)| picked)
    }
}
