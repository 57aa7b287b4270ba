//! Selection: which records of a set one answer has.
//!
//! A set of more records than a [`Law`] allows is answered with a window of it (`docs/answers.md`), and clients get the
//! records of the members that are the nearest to them (`docs/steering.md`). What that needs is made when the set is: where
//! each record stands on a circle, on which members have equal places, or its points on a ring, on which clients have one,
//! too; and which member gives which record. [`Selections`] holds that for the sets of one version of a zone, by owner, and
//! [`Orders`] which member is how near to whose clients. Transfers and everything else that looks at zones see whole
//! sets.
//!
//! Invariants: an answer is a subset of its set, but for priorities that say what is near, and empty only where that is; a
//! [`Selection`] belongs to one set, and is published with the version that has it; it depends on the set, on who gives
//! what of it and on the plan, never on the way there. A set that is signed is never cut, nor its clients steered.
//!
//! Cost: one comparison for a set with no more records than any law of the zone allows, where nobody is steered. Else a
//! look-up, and O(records written) under `rotate`, O(records written + members × log records) under `client`; `course` and
//! `picks` have what steering costs. Nothing is allocated and nothing locked. Making one: O(records × log records).

mod circle;
mod course;
mod explained;
mod orders;
mod picks;
mod point;
mod ring;
mod steered;
mod steering;
mod table;
mod tally;
mod turns;

pub use course::Asker;
pub use explained::{Candidate, Chosen, Explained, Order, Reach};
pub use orders::{Nearness, Orders, OrdersPlan};
pub use picks::Picked;
pub use point::{Client, point};
pub use steered::Given;
pub use steering::{Prefer, Services, Steering, Treatment};
pub use table::{Entry, Named, Selections};
pub use tally::{LANES, SteeredTally, lane};
pub use turns::Turns;

use crate::zone::{LINE_BYTES, Large, prefetch};
use circle::Circle;
use course::Course;
use picks::Picks;
use point::{Probe, seed};
use ring::{Ring, Turned};
use std::num::NonZeroU32;
use steered::Steered;
use wire::rr::{self, Set, rtype};

/// Records of a set that a name has beside addresses and services, above which it is cut: what BIND takes by default
/// (`max-records-per-type`).
const OTHERS_MOST: u32 = crate::zone::RESOLVER_RECORDS;
/// Lines of offsets that are asked for ahead of an answer: those of 64 records.
const OFFSET_LINES: usize = 4;

/// Choice of the records of a window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, serde::Serialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Pick {
    /// Another window for each answer, all records equally often.
    #[default]
    Rotate,
    /// The same window for a client as long as the set stays.
    Client,
}

/// Most records of a set that one answer has, and which.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Law {
    /// None: all.
    pub max: Option<NonZeroU32>,
    pub pick: Pick,
}

impl Law {
    /// All records, as zones are answered by default.
    pub const ALL: Law = Law { max: None, pick: Pick::Rotate };

    /// Number of records above which some set is cut.
    pub fn above(self) -> u32 {
        self.max.map_or(u32::MAX, |max| max.get().min(OTHERS_MOST))
    }

    /// Number of records above which a set of a type is cut; none if it never is.
    fn most(self, kind: u16) -> Option<u32> {
        match kind {
            rtype::A | rtype::AAAA | rtype::SRV => self.max.map(NonZeroU32::get),
            // Cutting these would break delegations, aliases and signatures.
            rtype::NS | rtype::CNAME | rtype::DNAME | rtype::SOA | rtype::DS | rtype::PLACEHOLDER => None,
            kind if rr::is_dnssec(kind) => None,
            _ => self.max.map(|_| OTHERS_MOST),
        }
    }
}

//--- Selection ---

/// What the answers from one set are made of, where not all are the whole set.
#[derive(Debug, PartialEq, Eq)]
pub struct Selection {
    kind: u16,
    /// Records and octets of the set that this belongs to.
    records: u32,
    octets: u32,
    /// Records of an answer at most.
    most: u32,
    /// Octets of the whole set in an answer, and of an answer at most.
    whole_bytes: usize,
    window_bytes: usize,
    /// For clients that are all alike, where the set is cut: SRV records by their priority, the smallest first; of other
    /// types all together.
    tiers: Box<[Tier]>,
    /// For clients that are not.
    steered: Option<Steered>,
    /// True where one member gives all records.
    is_plain: bool,
}

/// Records among which none comes first.
#[derive(Debug, PartialEq, Eq)]
enum Tier {
    Circle(Circle),
    Ring(Ring),
    /// The same for everyone.
    Fixed(Box<[u32]>),
}

impl Tier {
    /// Octets behind it.
    fn octets(&self) -> usize {
        match self {
            Tier::Circle(circle) => 4 * circle.len() as usize,
            Tier::Ring(ring) => ring.octets(),
            Tier::Fixed(records) => size_of_val(&**records),
        }
    }

    /// Number of records.
    fn len(&self) -> u32 {
        match self {
            Tier::Circle(circle) => circle.len(),
            Tier::Ring(ring) => ring.len(),
            Tier::Fixed(records) => records.len() as u32,
        }
    }
}

impl Selection {
    /// What the answers from a set under an owner (lowercase wire form) are made of; none if all are the whole set.
    /// `given` has what each member gives of it, in the plan's order.
    pub fn new(owner: &[u8], set: Set<'_>, treatment: Treatment, given: &[Given]) -> Option<Selection> {
        let Treatment { law, mut steering } = treatment;
        if set.rtype != rtype::SRV {
            steering.services = Services::Select;
        }
        let record = |(offset, rdata): (u32, &[u8])| Record {
            point: point(owner, set.rtype, rdata),
            offset,
            priority: priority(set.rtype, rdata),
        };
        let cut = law.most(set.rtype).filter(|most| set.count > *most);
        let is_steerable = matches!(set.rtype, rtype::A | rtype::AAAA | rtype::SRV);
        if cut.is_none() && !is_steerable {
            return None;
        }
        // Services are sorted by priority.
        let records: Vec<Record> = set.with_offsets().map(record).collect();
        // Of services: weight, port and target.
        let rest = |number: u32| Box::from(set.at(records[number as usize].offset).get(2..).unwrap_or_default());
        let seed = seed(owner);
        let steered = is_steerable.then(|| Steered::new(seed, steering, law, &records, given, rest)).flatten();
        if cut.is_none() && steered.is_none() {
            return None;
        }
        let most = cut.unwrap_or(set.count);
        let longest = set.rdatas().map(<[u8]>::len).max().unwrap_or_default();
        let whole_bytes = set.wire_bytes();
        let window_bytes = whole_bytes.min(most as usize * (longest + rr::FIXED_BYTES));
        let tiers = cut.map_or_else(Box::default, |most| lay_out(seed, set.rtype, &records, law, most, given));
        let (kind, records, octets) = (set.rtype, set.count, set.body_bytes());
        let mut giving = given.iter().filter(|given| !given.records.is_empty());
        let is_of_all = |given: Option<&Given>| given.is_none_or(|given| given.records.len() == set.count as usize);
        let is_plain = is_of_all(giving.next()) && giving.next().is_none();
        Some(Selection { kind, records, octets, most, whole_bytes, window_bytes, tiers, steered, is_plain })
    }

    /// What this becomes where another set takes the place of the one that it was made of, one member gives all of it
    /// and the law stays; none where it has to be made anew. O(records) at the pace of memory, no record that stays is
    /// looked at.
    pub fn follow(&self, owner: &[u8], before: Set<'_>, set: Set<'_>) -> Option<Selection> {
        let ([Tier::Circle(circle)], None) = (&*self.tiers, &self.steered) else { return None };
        if !self.is_plain || !self.is_of(before) || set.rtype != before.rtype || set.count <= self.most {
            return None;
        }
        let circle = circle.follow(before, set, |rdata| point(owner, set.rtype, rdata))?;
        let whole_bytes = set.wire_bytes();
        let longest = set.rdatas().next().map(<[u8]>::len).unwrap_or_default();
        Some(Selection {
            kind: set.rtype,
            records: set.count,
            octets: set.body_bytes(),
            most: self.most,
            whole_bytes,
            window_bytes: whole_bytes.min(self.most as usize * (longest + rr::FIXED_BYTES)),
            tiers: [Tier::Circle(circle)].into(),
            steered: None,
            is_plain: true,
        })
    }

    /// Asks the processor for what an answer looks at first.
    #[inline]
    fn fetch(&self) {
        if let Some(set) = &self.steered {
            prefetch(set.runs.as_ptr());
            set.offsets.iter().step_by(LINE_BYTES / size_of::<u32>()).take(OFFSET_LINES).for_each(|at| prefetch(at));
        }
        prefetch(self.tiers.as_ptr());
        prefetch(self.tiers.as_ptr().cast::<u8>().wrapping_add(LINE_BYTES));
    }

    /// The ring on which clients have their points, if one decides.
    #[inline]
    fn ring(&self) -> Option<&Ring> {
        match (&self.steered, &*self.tiers) {
            (None, [Tier::Ring(ring)]) => Some(ring),
            _ => None,
        }
    }

    /// Number of records that an answer has at most.
    pub fn most(&self) -> u32 {
        self.most
    }

    /// Returns true if no answer has all records, whoever asks.
    pub fn is_cut(&self) -> bool {
        self.most < self.records
    }

    /// The limits that the set is over, and no answer, under an owner with so many octets in front of the origin.
    fn kept(&self, owner: usize) -> Large {
        let window = Large::of(self.most, self.window_bytes, owner);
        Large::of(self.records, self.whole_bytes, owner).without(window)
    }

    /// Octets in memory, nearly.
    fn octets(&self) -> usize {
        let tiers = self.tiers.iter().map(|tier| size_of::<Tier>() + tier.octets()).sum::<usize>();
        let steered = self.steered.as_ref().map_or(0, |set| set.octets());
        size_of::<Selection>() + tiers + steered
    }

    /// Returns true if this was made of a set.
    fn is_of(&self, set: Set<'_>) -> bool {
        (self.kind, self.records, self.octets) == (set.rtype, set.count, set.body_bytes())
    }

    /// Who decides on the records of a cut set; none where they are the same for everyone.
    pub fn pick(&self) -> Option<Pick> {
        match self.tiers.first()? {
            Tier::Circle(_) => Some(Pick::Rotate),
            Tier::Ring(_) => Some(Pick::Client),
            Tier::Fixed(_) => None,
        }
    }

    /// Returns true if the client's point, or its share, decides on the records.
    pub fn is_by_client(&self) -> bool {
        matches!(self.tiers.first(), Some(Tier::Ring(_))) || self.steered.as_ref().is_some_and(|set| set.is_by_client())
    }

    /// Returns true if the client's home decides on the records.
    pub fn is_by_home(&self) -> bool {
        self.steered.as_ref().is_some_and(|set| set.is_by_home())
    }

    /// The records of one answer.
    pub fn window<'s>(&'s self, asker: &Asker<'s>) -> Window<'s> {
        let course = self.steered.as_ref().and_then(|set| Course::new(set, *asker, self.most));
        if let Some(course) = course {
            return Window::Steered(Picks::new(course, self.most));
        }
        if self.tiers.is_empty() {
            return Window::Whole;
        }
        let probe = match self.tiers.first() {
            Some(Tier::Ring(ring)) => asker.client.probe(ring.seed),
            _ => Probe::default(),
        };
        let (rest, left, steps) = (&*self.tiers, self.most, Walk::Fixed([].iter()));
        Window::Cut(Cut { rest, turn: asker.turn, probe, left, steps })
    }

    /// The records of one answer, where they are quickly told.
    #[inline]
    pub fn turns<'s>(&'s self, asker: &Asker<'s>) -> Option<Turns<'s>> {
        let turns = match (&self.steered, &*self.tiers) {
            (Some(set), _) => Turns::of_steered(set, asker, self.most),
            (None, [Tier::Circle(circle)]) => Some(Turns::of_circle(circle.offsets(), asker.turn, self.most)),
            _ => None,
        };
        debug_assert!(turns.iter().all(|turns| self.is_told_by(asker, turns)), "turns are what the window has");
        turns
    }

    /// The records of one answer, where the client's point chooses among all: what the window has.
    #[inline]
    pub fn near<'s>(&'s self, asker: &Asker<'s>) -> Option<impl Iterator<Item = u32> + use<'s>> {
        self.ring().map(|ring| ring.steps(asker.client.probe(ring.seed), self.most))
    }

    /// Returns true if turns have what the window has.
    fn is_told_by(&self, asker: &Asker<'_>, turns: &Turns<'_>) -> bool {
        let window = self.window(asker);
        window.served() == turns.served() && window.map(|picked| picked.offset).eq(turns.clone().flatten())
    }

    /// Counts an answer from a member, or from nobody certain, in the orders' tally.
    #[inline]
    pub fn count(&self, asker: &Asker<'_>, served: Option<u16>) {
        let Some(set) = self.steered.as_ref().filter(|set| set.steering.prefer != Prefer::Off) else { return };
        let home = asker.home.filter(|home| asker.orders.nearness(*home).is_some());
        let member = home.and_then(|home| asker.orders.nearness(home)?.member);
        // Whoever gives what is answered is expected to, where it gives it to all.
        let is_served = set.is_simple && member.is_some() && member == served;
        let expected = match member {
            _ if is_served => Some(true),
            member => member.filter(|member| set.expects(*member)).map(|member| served == Some(member)),
        };
        asker.orders.tally.count(home, served, expected);
    }
}

/// Lays out the windows of a cut set for clients that are all alike.
fn lay_out(seed: u64, kind: u16, records: &[Record], law: Law, most: u32, given: &[Given]) -> Box<[Tier]> {
    let mut given: Vec<&[u32]> = given.iter().map(|given| &*given.records).collect();
    let (mut tiers, mut before_last, mut reached) = (Vec::new(), 0, 0);
    for run in records.chunk_by(|one, next| one.priority == next.priority) {
        // One tier behind those that fill a window has its last place.
        if before_last >= most as usize {
            break;
        }
        let end = reached + run.len();
        let of = |numbers: &mut &[u32]| -> Vec<Record> {
            let (here, rest) = numbers.split_at(numbers.partition_point(|number| (*number as usize) < end));
            *numbers = rest;
            here.iter().map(|number| records[*number as usize]).collect()
        };
        let given: Vec<Vec<Record>> = given.iter_mut().map(of).filter(|given| !given.is_empty()).collect();
        let ring = |given: &[Vec<Record>]| Ring::new(seed, ring::spread(law), run, given);
        tiers.push(match (law.pick, kind) {
            (Pick::Rotate, rtype::A | rtype::AAAA | rtype::SRV) => Tier::Circle(Circle::new(run, &given)),
            (Pick::Client, rtype::A | rtype::AAAA | rtype::SRV) => Tier::Ring(ring(&given)),
            _ => Tier::Fixed(ring(&given).steps(Probe::of_all(seed), most).collect()),
        });
        (before_last, reached) = (reached, end);
    }
    tiers.into()
}

/// The records of one answer.
#[derive(Clone)]
pub enum Window<'s> {
    /// All, as if there were no law.
    Whole,
    Cut(Cut<'s>),
    Steered(Picks<'s>),
}

impl Window<'_> {
    /// Number of the nearest member of which the answer has records.
    pub fn served(&self) -> Option<u16> {
        match self {
            Window::Steered(picks) => picks.served(),
            Window::Whole | Window::Cut(_) => None,
        }
    }

    /// Returns true if the records get other priorities than their own.
    pub fn is_by_priority(&self) -> bool {
        matches!(self, Window::Steered(picks) if picks.is_by_priority())
    }
}

/// Records of a cut set.
#[derive(Clone)]
pub struct Cut<'s> {
    /// Tiers that have not begun.
    rest: &'s [Tier],
    turn: u32,
    probe: Probe,
    /// Records that tiers which have not begun may give.
    left: u32,
    steps: Walk<'s>,
}

/// Way through the records of one tier.
#[derive(Clone)]
enum Walk<'s> {
    Circle(circle::Steps<'s>),
    Ring(Turned<'s>),
    Fixed(std::slice::Iter<'s, u32>),
}

impl Iterator for Cut<'_> {
    type Item = u32;

    fn next(&mut self) -> Option<u32> {
        loop {
            let next = match &mut self.steps {
                Walk::Circle(steps) => steps.next(),
                Walk::Ring(steps) => steps.next(),
                Walk::Fixed(offsets) => offsets.next().copied(),
            };
            if next.is_some() {
                return next;
            }
            let (tier, rest) = self.rest.split_first().filter(|_| self.left > 0)?;
            // The last place goes to the next priority, which clients turn to when this one fails.
            let kept = u32::from(!rest.is_empty() && self.left > 1);
            let taken = tier.len().min(self.left - kept);
            (self.rest, self.left) = (rest, self.left - taken);
            self.steps = match tier {
                Tier::Circle(circle) => Walk::Circle(circle.steps(self.turn, taken)),
                Tier::Ring(ring) => Walk::Ring(ring.steps(self.probe, taken)),
                Tier::Fixed(offsets) => Walk::Fixed(offsets.iter()),
            };
        }
    }
}

impl Iterator for Window<'_> {
    type Item = Picked;

    /// The next record; none where the answer is the whole set.
    #[inline]
    fn next(&mut self) -> Option<Picked> {
        match self {
            Window::Whole => None,
            Window::Cut(cut) => cut.next().map(|offset| Picked { offset, priority: None }),
            Window::Steered(picks) => picks.next(),
        }
    }
}

/// A record of a set.
#[derive(Clone, Copy, Debug)]
struct Record {
    /// The hash that its points are made of.
    point: u64,
    /// Its offset in the set.
    offset: u32,
    priority: u16,
}

/// The priority of an SRV record (RFC 2782); that of all others is the same.
fn priority(kind: u16, rdata: &[u8]) -> u16 {
    match rdata.first_chunk() {
        Some(priority) if kind == rtype::SRV => u16::from_be_bytes(*priority),
        _ => 0,
    }
}

#[cfg(test)]
mod tests;
