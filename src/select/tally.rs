//! Counts of steered answers: whose clients, and which member they were sent to.
//!
//! Threads count in lanes of their own, so that they do not wait for each other's memory. The counters stay from one
//! version of a region to the next; where it gets other members or homes, counting goes on for those that stay.
//!
//! Cost: O(1) for an answer; eight octets for each home, member and lane; O(homes × members) for other ones.

use std::cell::Cell;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use wire::name::Name;

/// Number of lanes; more threads than these share lanes.
pub const LANES: usize = 8;

thread_local! {
    /// The lane of this thread; none has the first number.
    static LANE: Cell<usize> = const { Cell::new(usize::MAX) };
}

/// The lane in which this thread counts, below [`LANES`].
#[inline]
pub fn lane() -> usize {
    let lane = LANE.get();
    if lane == usize::MAX { choose_lane() } else { lane }
}

/// Gives this thread a lane.
#[cold]
fn choose_lane() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    let lane = NEXT.fetch_add(1, Ordering::Relaxed) % LANES;
    LANE.set(lane);
    lane
}

/// Counters of one region.
#[derive(Debug)]
pub struct SteeredTally {
    homes: Box<[Name]>,
    members: Box<[Name]>,
    /// Lane by lane; for each home, and at last for those without one: an answer from each member, from others; then
    /// what the home was expected to answer: by itself, and by others.
    counts: Box<[AtomicU64]>,
}

impl SteeredTally {
    /// Counters of a region with these members, for clients of these homes, that go on from others.
    pub fn new(homes: &[Name], members: &[Name], before: Option<&SteeredTally>) -> SteeredTally {
        let each = (homes.len() + 1) * (members.len() + 3);
        // A lane begins on a line of its own.
        let lane = each.next_multiple_of(8);
        let counts = (0..lane * LANES).map(|_| AtomicU64::new(0)).collect();
        let tally = SteeredTally { homes: homes.into(), members: members.into(), counts };
        if let Some(before) = before {
            tally.go_on_from(before);
        }
        tally
    }

    /// Takes over what was counted for homes and members that are here, too.
    fn go_on_from(&self, before: &SteeredTally) {
        let pairs = |ours: &[Name], theirs: &[Name], rest: &[usize]| -> Vec<(usize, usize)> {
            let numbers: HashMap<&Name, usize> = theirs.iter().zip(0..).collect();
            let both = ours.iter().zip(0..).filter_map(|(name, number)| Some((number, *numbers.get(name)?)));
            both.chain(rest.iter().map(|extra| (ours.len() + extra, theirs.len() + extra))).collect()
        };
        let columns = pairs(&self.members, &before.members, &[0, 1, 2]);
        for (home, old_home) in pairs(&self.homes, &before.homes, &[0]) {
            for (column, old_column) in &columns {
                let count = before.sum(old_home * before.row_len() + old_column);
                self.counts[home * self.row_len() + column].store(count, Ordering::Relaxed);
            }
        }
    }

    /// The homes, by number.
    pub fn homes(&self) -> &[Name] {
        &self.homes
    }

    /// The members, by number.
    pub fn members(&self) -> &[Name] {
        &self.members
    }

    /// Counts an answer to a client of a home, or of none, whose nearest records are a member's, or nobody's.
    /// `is_expected` says that the home gives the name or did lately, so that its clients should have been answered
    /// from it.
    pub fn count(&self, home: Option<u16>, served: Option<u16>, is_expected: Option<bool>) {
        let add = |column: usize| {
            let at = self.lane_len() * lane() + self.row(home) + column;
            if let Some(counter) = self.counts.get(at) {
                counter.fetch_add(1, Ordering::Relaxed);
            }
        };
        add(served.map_or(self.members.len(), usize::from));
        if let Some(is_home) = is_expected {
            add(self.members.len() + if is_home { 1 } else { 2 });
        }
    }

    /// Number of answers to the clients of a home, or of none, from a member, or from nobody certain.
    pub fn served(&self, home: Option<u16>, served: Option<u16>) -> u64 {
        self.sum(self.row(home) + served.map_or(self.members.len(), usize::from))
    }

    /// Numbers of answers that a home was expected to give its clients: those that it gave, and those that others did.
    pub fn expected(&self, home: u16) -> [u64; 2] {
        [1, 2].map(|column| self.sum(self.row(Some(home)) + self.members.len() + column))
    }

    /// Returns true if the counters are for these homes and members.
    pub fn is_for(&self, homes: &[Name], members: &[Name]) -> bool {
        (&*self.homes, &*self.members) == (homes, members)
    }

    /// Counters of a lane.
    fn lane_len(&self) -> usize {
        self.counts.len() / LANES
    }

    /// Counters of a home in a lane.
    fn row_len(&self) -> usize {
        self.members.len() + 3
    }

    /// The first counter of a home in a lane.
    fn row(&self, home: Option<u16>) -> usize {
        home.map_or(self.homes.len(), usize::from) * self.row_len()
    }

    /// The sum of all lanes.
    fn sum(&self, at: usize) -> u64 {
        (0..LANES).map(|lane| self.counts[lane * self.lane_len() + at].load(Ordering::Relaxed)).sum()
    }
}
