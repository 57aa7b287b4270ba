//! Steered sets: records by the members that give them, for answers that depend on the client.
//!
//! Every member's records stand in runs, one for each priority (SRV), and another for those that only clients at home get.
//! `course` has the runs that one client may have and their order, `picks` takes records of them.
//!
//! Invariants: every record of the set is in a run, those that nobody gives in the last; a [`Steered`] is only made where
//! clients can get different answers; where all runs have one priority and none is private, each member has one.
//!
//! Cost: O(records and givers × log) to make; four octets a record and giver, eight more where members share records,
//! 16 more for each point of a record where clients have points, and 24 a run.
//!
//! RFCs: 2782 (priorities).

use super::ring::{self, Spot};
use super::{Law, Pick, Prefer, Record, Services, Steering};
use std::collections::HashSet;

/// The member of records that nobody gives at present.
pub(super) const NOBODY: u16 = u16::MAX;
/// Distance of the priorities of one member from those of the next nearest; own priorities stay below.
pub(super) const RANK_STEP: u16 = 1000;

/// Records of a member of one set that an answer takes in turns.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Run {
    pub member: u16,
    pub priority: u16,
    /// True for addresses that only clients at home get.
    pub is_private: bool,
    /// Share of the clients that get none of them, in percent.
    pub share: u8,
    pub start: u32,
    pub end: u32,
    /// Records that count for `at_least`.
    pub counted: u32,
}

/// Records of a set by the members that give them.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Steered {
    pub steering: Steering,
    pub pick: Pick,
    /// What distinguishes the owner's clients from those of others.
    pub seed: u64,
    /// By member and priority.
    pub runs: Box<[Run]>,
    /// Offsets of the records, run by run, in the order of their hashes.
    pub offsets: Box<[u32]>,
    /// The hashes; empty where members share no records.
    pub points: Box<[u64]>,
    /// The points of the records, by their numbers here, run by run; empty where clients have none.
    spots: Box<[Spot]>,
    /// True if records stand in several runs.
    pub is_shared: bool,
    /// True if each member has one run of its own, which every client may have and takes in turns.
    pub is_simple: bool,
    /// Members that do not give any record of the set but did lately.
    lately: Box<[u16]>,
}

/// What one member gives of a set.
#[derive(Clone, Debug, Default)]
pub struct Given {
    /// Numbers of its records in the set, in rising order.
    pub records: Vec<u32>,
    /// Those of them that it has withdrawn and that are held.
    pub held: Vec<u32>,
    /// Numbers of the records in the set that only clients at home get, if it gives them.
    pub private: Vec<u32>,
    /// Share of the clients that get none of them, in percent.
    pub share: u8,
    /// True if it does not give any, but did lately.
    pub is_lately: bool,
}

impl Steered {
    /// Lays out a set's records, which are given so by the members. None where all clients get the same.
    pub(super) fn new(
        seed: u64,
        steering: Steering,
        law: Law,
        records: &[Record],
        given: &[Given],
        rest: impl Fn(u32) -> Box<[u8]>,
    ) -> Option<Steered> {
        let givers = given.iter().filter(|given| !given.records.is_empty()).count();
        let mut is_given = vec![false; records.len()];
        let mut is_shared = false;
        for number in given.iter().flat_map(|given| &given.records) {
            is_shared |= std::mem::replace(&mut is_given[*number as usize], true);
        }
        let nobodys: Vec<u32> = (0..).zip(&is_given).filter(|(_, given)| !**given).map(|(number, _)| number).collect();
        let sides = givers + usize::from(!nobodys.is_empty());
        let is_lately = given.iter().any(|given| given.is_lately);
        // Of an address that nobody gives, nobody is at home.
        let is_private = |number: &u32| given.iter().any(|given| given.private.binary_search(number).is_ok());
        let private = nobodys.iter().copied().filter(is_private).collect();
        let nobody = Given { records: nobodys, private, ..Given::default() };
        let has_private = |given: &Given| given.records.iter().any(|own| given.private.binary_search(own).is_ok());
        let has_private = given.iter().chain([&nobody]).any(has_private);
        let has_share = sides > 1 && given.iter().any(|given| given.share > 0 && !given.records.is_empty());
        if !(steering.prefer != Prefer::Off && (sides > 1 || is_lately) || has_private || has_share) {
            return None;
        }
        let mut made = Steered {
            steering,
            pick: law.pick,
            seed,
            runs: [].into(),
            offsets: [].into(),
            points: [].into(),
            spots: [].into(),
            is_shared,
            is_simple: false,
            lately: (0..).zip(given).filter(|(_, given)| given.is_lately).map(|(member, _)| member).collect(),
        };
        let (mut runs, mut offsets, mut points, mut spots) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let all = (0..).zip(given).chain([(NOBODY, &nobody)]).filter(|(_, given)| !given.records.is_empty());
        for (member, given) in all {
            let is_private = |number: u32| given.private.binary_search(&number).is_ok();
            let mut own: Vec<u32> = given.records.clone();
            if steering.services == Services::Priority {
                drop_equals(&mut own, records, &rest);
            }
            own.sort_unstable_by_key(|number| {
                let record = &records[*number as usize];
                (record.priority, is_private(*number), record.point, record.offset)
            });
            let alike = |one: &u32, next: &u32| {
                let priority = |number: &u32| records[*number as usize].priority;
                (priority(one), is_private(*one)) == (priority(next), is_private(*next))
            };
            for run in own.chunk_by(alike) {
                let start = offsets.len() as u32;
                offsets.extend(run.iter().map(|number| records[*number as usize].offset));
                points.extend(run.iter().map(|number| records[*number as usize].point));
                if law.pick == Pick::Client {
                    let (begin, spread) = (spots.len(), ring::spread(law));
                    let own = (start..).zip(&points[start as usize..]);
                    spots.extend(own.flat_map(|(number, point)| {
                        (0..spread.points()).map(move |part| Spot::new(*point, spread, part, number))
                    }));
                    spots[begin..].sort_unstable_by_key(|spot| spot.key(offsets[spot.record as usize]));
                }
                let is_counted = |number: &&u32| given.held.binary_search(number).is_err();
                runs.push(Run {
                    member,
                    priority: records[run[0] as usize].priority,
                    is_private: is_private(run[0]),
                    share: given.share,
                    start,
                    end: offsets.len() as u32,
                    counted: run.iter().filter(is_counted).count() as u32,
                });
            }
        }
        let is_usual = |run: &Run| !run.is_private && run.share == 0 && run.priority == runs[0].priority;
        made.is_simple = !is_shared && law.pick == Pick::Rotate && runs.iter().all(is_usual);
        (made.runs, made.offsets, made.spots) = (runs.into(), offsets.into(), spots.into());
        if is_shared {
            made.points = points.into();
        }
        Some(made)
    }

    /// Octets in memory.
    pub(super) fn octets(&self) -> usize {
        let parts = size_of_val(&*self.runs) + size_of_val(&*self.offsets) + size_of_val(&*self.points);
        size_of::<Steered>() + parts + size_of_val(&*self.spots) + size_of_val(&*self.lately)
    }

    /// The points of the records of a run, around the ring.
    pub(super) fn spots(&self, run: &Run) -> &[Spot] {
        let each = self.spots.len() / self.offsets.len().max(1);
        &self.spots[run.start as usize * each..run.end as usize * each]
    }

    /// Returns true if the home of the client decides.
    pub(super) fn is_by_home(&self) -> bool {
        self.steering.prefer != Prefer::Off || self.runs.iter().any(|run| run.is_private)
    }

    /// Returns true if the client's own points decide.
    pub(super) fn is_by_client(&self) -> bool {
        self.pick == Pick::Client || self.runs.iter().any(|run| run.share > 0)
    }

    /// Returns true if a home gives any record or did lately, to all of its clients; then these should be answered from
    /// it.
    pub(super) fn expects(&self, member: u16) -> bool {
        self.lately.contains(&member) || self.runs.iter().any(|run| run.member == member && run.share == 0)
    }
}

/// Drops records whose priorities become equal to that of another with the same weight, port and target.
fn drop_equals(own: &mut Vec<u32>, records: &[Record], rest: &impl Fn(u32) -> Box<[u8]>) {
    let is_high = |number: &u32| records[*number as usize].priority >= RANK_STEP - 1;
    if own.iter().filter(|number| is_high(number)).count() < 2 {
        return;
    }
    let mut seen = HashSet::new();
    own.retain(|number| !is_high(number) || seen.insert(rest(*number)));
}
