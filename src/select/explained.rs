//! Explanation of one answer: the members in the order in which the client gets their records, what keeps some of them
//! from it, and which records it gets.
//!
//! The course and the picks of the answer tell it themselves, so it cannot say anything else than what answers do.
//!
//! Cost: O(records × members). Only who asks for an explanation pays for it; answers do not come here.

use super::course::{Asker, Course, Rules};
use super::picks::{Picked, Picks};
use super::steered::{NOBODY, Run};
use super::{Pick, Prefer, Selection, Window};
use std::collections::{BTreeMap, HashSet};

/// How one answer comes about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explained {
    pub order: Order,
    /// The members that give records, those first that come first for the client; at the end the records that nobody gives.
    /// Nothing where all clients are alike.
    pub candidates: Vec<Candidate>,
    /// How far the answer goes, where it may end before all members' records are in it.
    pub reach: Option<Reach>,
    /// True if shares of drains keep nothing from the client, because nothing would be left.
    pub has_no_shares: bool,
    /// True if it gets addresses for others at home, because nothing else is left.
    pub has_no_home_only: bool,
    /// True if priorities tell the client what is near.
    pub is_by_priority: bool,
    pub chosen: Chosen,
}

/// Order of the members for one client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Order {
    /// None comes first.
    Alike,
    /// The nearest to the client's home.
    Nearest,
    /// One that is drawn by the weights for each answer.
    Drawn,
}

/// A member that gives records of a set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Candidate {
    /// Its number; none for the records that no member gives at present.
    pub member: Option<u16>,
    /// Records that it gives; of SRV records those that stay different under the priorities of an answer.
    pub records: u32,
    /// Those of them that it has withdrawn and that are held.
    pub held: u32,
    /// Those that nearer members give, too.
    pub repeated: u32,
    /// Those that only clients at home get, and this one does not.
    pub withheld: u32,
    /// Those that count for what is enough.
    pub counted: u32,
    /// Share of the clients that get none of them, in percent, and true if this client is one of these.
    pub share: u8,
    pub is_drained: bool,
    /// True if the client may have some, and the answer goes as far as that.
    pub is_reached: bool,
    /// Records of the answer that count for it; none if that is not the same each time.
    pub answered: Option<u32>,
}

/// How far an answer goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reach {
    /// Records that are enough.
    pub wanted: u32,
    /// Records that count up to where it ends.
    pub counted: u32,
}

/// Records of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Chosen {
    /// All of the set.
    Whole,
    /// The same each time, in this order.
    Fixed(Vec<Picked>),
    /// The same each time, in turns.
    Turning(Vec<Picked>),
    /// Others each time.
    Changing,
}

impl Selection {
    /// Explains the answers to a client.
    pub fn explain(&self, asker: &Asker<'_>) -> Explained {
        let asker = Asker { turn: 0, ..*asker };
        let mut told = Explained {
            order: Order::Alike,
            candidates: Vec::new(),
            reach: None,
            has_no_shares: false,
            has_no_home_only: false,
            is_by_priority: false,
            chosen: Chosen::Whole,
        };
        if let Some(set) = &self.steered {
            let course = Course::of(set, asker, self.most);
            told.order = match (course.is_ordered(), course.is_drawn()) {
                (false, _) => Order::Alike,
                (true, false) => Order::Nearest,
                (true, true) => Order::Drawn,
            };
            told.candidates = candidates(&course);
            told.has_no_shares = course.rules() != Rules::All && told.candidates.iter().any(|one| one.is_drained);
            told.has_no_home_only = course.rules() == Rules::None;
            told.is_by_priority = course.is_by_priority();
            if course.may_end() && told.order == Order::Nearest {
                let reached = told.candidates.iter().filter(|one| one.is_reached);
                told.reach =
                    Some(Reach { wanted: course.wanted(self.most), counted: reached.map(|one| one.counted).sum() });
            }
        }
        told.chosen = match self.window(&asker) {
            Window::Whole => Chosen::Whole,
            Window::Cut(cut) => match self.pick() {
                Some(Pick::Rotate) => Chosen::Changing,
                Some(Pick::Client) | None => {
                    Chosen::Fixed(cut.map(|offset| Picked { offset, priority: None }).collect())
                }
            },
            Window::Steered(picks) => self.chosen(picks, &mut told),
        };
        told
    }

    /// Tells the records of a steered answer, and how many of them count for each candidate.
    fn chosen(&self, mut picks: Picks<'_>, told: &mut Explained) -> Chosen {
        let set = self.steered.as_ref();
        let all: HashSet<u32> = picks.offsets().collect();
        let (mut records, mut by_member) = (Vec::new(), BTreeMap::<u16, u32>::new());
        while let Some((member, picked)) = picks.next_of() {
            *by_member.entry(member).or_default() += 1;
            records.push(picked);
        }
        // Another member may be drawn next time, and end the answer elsewhere.
        let is_drawn = told.order == Order::Drawn;
        let ends_elsewhere = is_drawn && set.is_some_and(|set| set.steering.prefer == Prefer::Nearest);
        let is_by_client = set.is_some_and(|set| set.pick == Pick::Client);
        let chosen = match records.len() == all.len() && !ends_elsewhere {
            _ if is_by_client && !is_drawn => Chosen::Fixed(records),
            true => Chosen::Turning(records),
            false => Chosen::Changing,
        };
        if told.order == Order::Nearest || !is_drawn && chosen != Chosen::Changing {
            for candidate in &mut told.candidates {
                let member = candidate.member.unwrap_or(NOBODY);
                candidate.answered = Some(by_member.get(&member).copied().unwrap_or_default());
            }
        }
        chosen
    }
}

/// The members that give records, in the order of a course.
fn candidates(course: &Course<'_>) -> Vec<Candidate> {
    let whole = course.to_the_end();
    let mut runs: Vec<&Run> = course.set.runs.iter().collect();
    runs.sort_by_key(|run| (course.rank(run.member), run.start));
    let tell = |runs: &[&Run]| {
        let mut told =
            Candidate { member: (runs[0].member != NOBODY).then_some(runs[0].member), ..Candidate::default() };
        for run in runs {
            let (records, is_allowed) = (run.end - run.start, course.allows(run));
            told.records += records;
            told.held += records - run.counted;
            told.share = run.share;
            told.is_drained |= course.is_drained_of(run);
            told.is_reached |= is_allowed && course.is_reached(run);
            if is_allowed {
                told.repeated += whole.repeated(run);
                told.counted += whole.counted(run);
            }
            told.withheld += if is_allowed || course.is_at_home(run) { 0 } else { records };
        }
        told
    };
    runs.chunk_by(|one, next| one.member == next.member).map(tell).collect()
}
