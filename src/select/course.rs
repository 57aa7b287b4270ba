//! Course of an answer from a steered set: the members of which one client gets records, and their order.
//!
//! A client with a home gets the records of the nearest member first. Under [`Prefer::Nearest`] the course ends behind the
//! member with which there are `at_least` records. A record of several members counts for the nearest of them, one that
//! nobody gives comes last. For a client without a home no member comes first; if the plan has weights, one is drawn by
//! them and takes the place of the home.
//!
//! Invariants: a course has records whenever the set has. A share, or that addresses are for clients at home only, counts
//! only as long as it leaves anything.
//!
//! Cost: O(runs × members that records are taken of), and one hash for each run with a share each time; where members
//! share records, their search in the runs of nearer members, too. Nothing is allocated.

use super::orders::{Nearness, Orders};
use super::point::Client;
use super::steered::{NOBODY, Run, Steered};
use super::{Prefer, Services};

/// The rank behind that of all fresh members where one was drawn: there are fewer.
const LAST_DRAWN: u16 = u16::MAX / 2;

/// Whoever asks, and what is known of the way to answer.
#[derive(Clone, Copy)]
pub struct Asker<'a> {
    /// Place at which turns begin, in parts of 2^32.
    pub turn: u32,
    pub client: Client,
    /// Number of the client's home.
    pub home: Option<u16>,
    /// Labels of the owner, and origin (lowercase wire form).
    pub owner: [&'a [u8]; 2],
    pub orders: &'a Orders,
    /// True for records beside an answer, which are not steered.
    pub is_beside: bool,
}

/// What keeps runs from a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rules {
    /// Shares, and that addresses are for clients at home only.
    All,
    HomeOnly,
    None,
}

/// Order of the members for one client.
#[derive(Clone, Copy)]
enum Order<'s> {
    /// None comes first.
    Alike,
    Near(&'s Nearness),
    /// One that was drawn, then the others in their order, those last that are stale.
    Drawn(u16),
}

/// The members of which one client gets records, and their order.
#[derive(Clone, Copy)]
pub(super) struct Course<'s> {
    pub set: &'s Steered,
    pub asker: Asker<'s>,
    order: Order<'s>,
    /// The member that is the client's home.
    own: Option<u16>,
    rules: Rules,
    /// The last rank of which records are taken.
    last: u16,
}

impl<'s> Course<'s> {
    /// The course of an answer of at most so many records; none if the client gets what all get.
    pub fn new(set: &'s Steered, asker: Asker<'s>, most: u32) -> Option<Course<'s>> {
        let course = Course::of(set, asker, most);
        let is_as_for_all = !course.is_ordered() && set.runs.iter().all(|run| course.allows(run));
        (!is_as_for_all).then_some(course)
    }

    /// The course of an answer of at most so many records.
    pub fn of(set: &'s Steered, asker: Asker<'s>, most: u32) -> Course<'s> {
        let home = asker.home.and_then(|home| asker.orders.nearness(home));
        let own = home.and_then(|home| home.member);
        let rules = if asker.is_beside { Rules::HomeOnly } else { Rules::All };
        let mut course = Course { set, asker, order: Order::Alike, own, rules, last: NOBODY };
        for weaker in [Rules::HomeOnly, Rules::None] {
            if course.runs().next().is_none() {
                course.rules = weaker;
            }
        }
        if !asker.is_beside && set.steering.prefer != Prefer::Off {
            course.order = match home {
                Some(nearness) => Order::Near(nearness),
                None => match course.draw() {
                    Some((member, turn)) => {
                        course.asker.turn = turn;
                        Order::Drawn(member)
                    }
                    None => Order::Alike,
                },
            };
        }
        if course.may_end() {
            course.last = course.reach(course.wanted(most));
        }
        course
    }

    /// Returns true if it ends behind the member with which there are enough records.
    pub fn may_end(&self) -> bool {
        self.is_ordered() && self.set.steering.prefer == Prefer::Nearest && !self.is_by_priority()
    }

    /// Number of records that are enough for an answer of at most so many: what does not fit is needed by nobody.
    pub fn wanted(&self, most: u32) -> u32 {
        u32::from(self.set.steering.at_least).min(most)
    }

    /// The same to its end, whatever is enough.
    pub fn to_the_end(self) -> Course<'s> {
        Course { last: NOBODY, ..self }
    }

    /// What keeps runs from the client.
    pub fn rules(&self) -> Rules {
        self.rules
    }

    /// The runs that the client gets.
    pub fn runs(&self) -> impl Iterator<Item = &'s Run> + Clone + use<'s> {
        let course = *self;
        self.set.runs.iter().filter(move |run| course.allows(run) && course.is_reached(run))
    }

    /// Returns true if it does not end before a run.
    pub fn is_reached(&self, run: &Run) -> bool {
        self.rank(run.member) <= self.last
    }

    /// Returns true if the client may have a run.
    pub fn allows(&self, run: &Run) -> bool {
        match self.rules {
            Rules::None => true,
            Rules::HomeOnly => self.is_at_home(run),
            Rules::All => self.is_at_home(run) && !self.is_drained_of(run),
        }
    }

    /// Returns true if a run is for clients at home only and the client is, or for all.
    pub fn is_at_home(&self, run: &Run) -> bool {
        !run.is_private || self.own == Some(run.member)
    }

    /// Returns true if the client is one of the share to which a drain gives nothing of a run.
    pub fn is_drained_of(&self, run: &Run) -> bool {
        let member = || self.asker.orders.members().get(usize::from(run.member));
        run.share > 0
            && member()
                .is_some_and(|member| self.asker.client.percentile(&self.asker.owner, member.as_wire()) < run.share)
    }

    /// The rank of a member for this client, from 0.
    pub fn rank(&self, member: u16) -> u16 {
        match self.order {
            _ if member == NOBODY => NOBODY,
            Order::Alike => member,
            Order::Near(nearness) => nearness.rank(member),
            Order::Drawn(drawn) if member == drawn => 0,
            Order::Drawn(_) if self.asker.orders.is_last(member) => LAST_DRAWN + member,
            Order::Drawn(_) => member + 1,
        }
    }

    /// Returns true if some member comes first.
    pub fn is_ordered(&self) -> bool {
        !matches!(self.order, Order::Alike)
    }

    /// Returns true if a member was drawn, which comes first this time.
    pub fn is_drawn(&self) -> bool {
        matches!(self.order, Order::Drawn(_))
    }

    /// Returns true if the client is told by priorities which records are near.
    pub fn is_by_priority(&self) -> bool {
        self.set.steering.services == Services::Priority && matches!(self.order, Order::Near(_))
    }

    /// Number of the nearest member of which the answer has records; none if nobody gives them, or none comes first.
    pub fn served(&self) -> Option<u16> {
        let nearest = self.runs().min_by_key(|run| self.rank(run.member))?;
        (self.is_ordered() && nearest.member != NOBODY).then_some(nearest.member)
    }

    /// The nearest rank behind another.
    pub fn next_rank(&self, behind: Option<u16>) -> Option<u16> {
        let ranks = self.runs().map(|run| self.rank(run.member));
        ranks.filter(|rank| behind.is_none_or(|behind| *rank > behind)).min()
    }

    /// Returns true if a nearer member gives a record, too.
    pub fn is_repeated(&self, run: &Run, index: u32) -> bool {
        if !self.set.is_shared {
            return false;
        }
        let rank = self.rank(run.member);
        let (point, offset) = (self.set.points[index as usize], self.set.offsets[index as usize]);
        self.runs().filter(|other| self.rank(other.member) < rank).any(|other| {
            let (start, end) = (other.start as usize, other.end as usize);
            let at = start + self.set.points[start..end].partition_point(|other| *other < point);
            (at..end).take_while(|at| self.set.points[*at] == point).any(|at| self.set.offsets[at] == offset)
        })
    }

    /// Draws a member by the weights; returns it with the turn for its records. That is the place of the turn in the part
    /// of all turns that leads to the member, so that its records come equally often, too.
    fn draw(&self) -> Option<(u16, u32)> {
        let weights = self.asker.orders.weights();
        // The runs of a member stand together.
        let mut last = NOBODY;
        let members = self.runs().map(|run| run.member);
        let members =
            members.filter(move |member| *member != NOBODY && std::mem::replace(&mut last, *member) != *member);
        let weight = |member: u16| weights.get(usize::from(member)).copied().map(u64::from);
        let turn = u64::from(self.asker.turn);
        let all: u64 = members.clone().filter_map(weight).sum();
        if all == 0 {
            // Without weights nobody is drawn; those of weight 0 count where there are no others, the fresh ones first.
            let is_known = |member: &u16| weight(*member).is_some();
            let is_fresh = |member: &u16| !self.asker.orders.is_last(*member);
            let has_fresh = members.clone().any(|member| is_fresh(&member));
            let known = members.clone().filter(|member| is_known(member) && is_fresh(member) == has_fresh);
            let at = turn * known.clone().count() as u64;
            return Some((known.clone().nth((at >> 32) as usize)?, at as u32));
        }
        let mut at = turn * all;
        for member in members {
            let own = weight(member).unwrap_or_default();
            match at.checked_sub(own << 32) {
                Some(behind) => at = behind,
                None => return Some((member, (at / own) as u32)),
            }
        }
        None
    }

    /// Number of the records of a run that count for what is enough.
    pub fn counted(&self, run: &Run) -> u32 {
        run.counted.saturating_sub(self.repeated(run))
    }

    /// Number of the records of a run that nearer members give, too.
    pub fn repeated(&self, run: &Run) -> u32 {
        if !self.set.is_shared {
            return 0;
        }
        (run.start..run.end).filter(|index| self.is_repeated(run, *index)).count() as u32
    }

    /// The rank with which there are enough records.
    fn reach(&self, wanted: u32) -> u16 {
        // Where more is wanted than there is, everything is.
        let all = self.runs().map(|run| run.counted).sum::<u32>();
        let (mut found, mut rank) = (0, self.next_rank(None).filter(|_| all >= wanted));
        while let Some(at) = rank {
            found += self.runs().filter(|run| self.rank(run.member) == at).map(|run| self.counted(run)).sum::<u32>();
            if found >= wanted {
                return at;
            }
            rank = self.next_rank(Some(at));
        }
        NOBODY
    }
}
