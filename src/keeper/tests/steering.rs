//! Answers to the clients of several homes, while members, drains, pins, filters and plans come and go: what they have
//! is what `docs/answers.md` says of the set and of what the members give at the moment.

use super::*;
use crate::acl::Prefix;
use crate::clients::Clients;
use crate::merge::{AddressPlan, AddressRules, DampingPlan};
use crate::select::{Law, Pick, Prefer, Services, Steering};
use crate::serve::answer::{Asked, answer_request};
use proptest::prelude::*;
use std::collections::BTreeSet;
use std::net::IpAddr;
use std::num::NonZeroU32;
use wire::message::{Records, Request, Section};
use wire::rr::rtype;

const MEMBERS: [&str; 3] = ["w1.x", "w2.x", "w3.x"];
/// Owners that have sets, and names by which they are asked for. The first is damped.
const OWNERS: [(&str, &str); 3] = [("web.svc.acme", "web.svc.acme"), ("db", "db"), ("*.dev", "any.dev")];
/// Clients, and their homes: the members, a zone that is near to some, and none.
const CLIENTS: [(&str, Option<usize>); 5] =
    [("10.1.0.7", Some(0)), ("10.2.0.7", Some(1)), ("10.3.0.7", Some(2)), ("10.9.0.7", Some(3)), ("203.0.113.7", None)];
const NEAR: [usize; 2] = [2, 1];
const STALE_AFTER: u64 = 300;

/// A plan of answers and what goes with it.
#[derive(Clone, Debug)]
struct Rules {
    steering: Steering,
    law: Law,
    has_weights: bool,
    goes_stale: bool,
    home_only: bool,
    excludes: bool,
    is_damped: bool,
}

#[derive(Clone, Debug)]
enum Step {
    /// A version of a member with these records, by owner.
    Load(usize, Vec<(usize, u8)>),
    /// A member that was refreshed so many seconds ago.
    Refresh(usize, u64),
    /// A drain of all of a member or of an owner, of all clients or a share.
    Drain(usize, Option<usize>, Option<u8>),
    Undrain(usize, Option<usize>),
    Pin(usize),
    Release,
    Rules(Rules),
}

/// What the test knows of the region.
struct World {
    bench: Bench,
    rules: Rules,
    ages: [u64; 3],
    /// Drains of all clients, and of a share.
    drains: BTreeSet<(usize, Option<usize>)>,
    shares: BTreeSet<(usize, Option<usize>)>,
    serials: [u32; 3],
    is_pinned: bool,
}

fn pattern(owner: usize) -> NamePattern {
    NamePattern::parse(OWNERS[owner].0).unwrap()
}

fn target(member: usize, owner: Option<usize>) -> DrainTarget {
    DrainTarget { member: name(MEMBERS[member]), region: None, names: owner.map(pattern) }
}

impl World {
    fn new(rules: Rules) -> World {
        let bench = Bench::new(&MEMBERS, vec![region("w.x", &MEMBERS)]);
        let (drains, shares) = (BTreeSet::new(), BTreeSet::new());
        let mut world = World { bench, rules, ages: [0; 3], drains, shares, serials: [0; 3], is_pinned: false };
        (0..3).for_each(|member| world.load(member, &[(0, member as u8), (1, 3), (2, 4 + member as u8)]));
        world.plan();
        world
    }

    /// Gives the keeper the rules.
    fn plan(&mut self) {
        let Rules { steering, law, has_weights, goes_stale, home_only, excludes, is_damped } = self.rules.clone();
        let mut answers = AnswersPlan::new(law);
        answers.usual.steering = steering;
        answers.near = vec![(name("e.x"), NEAR.map(|member| name(MEMBERS[member])).to_vec())];
        answers.stale_after = goes_stale.then_some(Duration::from_secs(STALE_AFTER));
        answers.weights = if has_weights { vec![(name("w2.x"), 3), (name("w3.x"), 0)] } else { Vec::new() };
        answers.home_only = if home_only { vec!["10.88.0.0/16".parse().unwrap()] } else { Vec::new() };
        let exclude = if excludes { vec!["10.77.0.0/16".parse().unwrap()] } else { Vec::new() };
        let addresses = AddressPlan { all: AddressRules { only: Vec::new(), exclude }, members: Vec::new() };
        let hour = Duration::from_secs(3600);
        let damping = is_damped.then_some(DampingPlan { max_removed: (1, 3), window: hour, last: hour });
        let homes = ["w1.x", "w2.x", "w3.x", "e.x"].map(name).to_vec();
        let prefixes = ["10.1.0.0/16", "10.2.0.0/16", "10.3.0.0/16", "10.9.0.0/16"];
        let prefixes: Vec<(Prefix, u16)> = prefixes.iter().map(|text| text.parse().unwrap()).zip(0..).collect();
        let lifetime = Lifetime { shortest: ZERO, longest: Duration::MAX };
        let plan = Plan {
            zones: MEMBERS.map(|zone| (name(zone), lifetime)).to_vec(),
            regions: vec![RegionPlan { addresses, damping, ..region("w.x", &MEMBERS) }],
            answers: [(name("w.x"), Arc::new(answers))].into(),
            clients: Arc::new(Clients::new(homes, &prefixes).unwrap()),
            ..Plan::default()
        };
        let (sender, mut changes) = oneshot::channel();
        self.bench.keeper.handle(Vec::new(), vec![Command::Plan(Box::new(plan), sender)]);
        changes.try_recv().unwrap();
    }

    fn load(&mut self, member: usize, records: &[(usize, u8)]) {
        self.serials[member] += 1;
        let line = |(owner, number): &(usize, u8)| {
            // Some are for clients at home only, and some are left out.
            let network = [1, 1, 88, 77][usize::from(number % 4)];
            let owner = OWNERS[*owner].0;
            format!("{owner} 30 A 10.{network}.0.{number}\n{owner} 30 SRV {number} t.x.\n")
        };
        let lines: String = records.iter().map(line).collect();
        let text = format!("@ 30 SOA {}\n@ 3600 NS ns.x.\n{lines}", self.serials[member]);
        self.bench.load(&format!("{}.", MEMBERS[member]), &text, ZERO);
        self.ages[member] = 0;
    }

    fn take(&mut self, step: Step) {
        match step {
            Step::Load(member, records) => self.load(member, &records),
            Step::Refresh(member, age) => {
                self.bench.update(MEMBERS[member], News::Current, Duration::from_secs(age));
                self.ages[member] = age;
            }
            Step::Drain(member, owner, share) => {
                let since = SystemTime::now();
                let target = target(member, owner);
                let drain = Drain { target, share, since, until: None, reason: None, configured: false };
                let (done, mut answered) = oneshot::channel();
                self.bench.keeper.handle(Vec::new(), vec![Command::Drain(Box::new(drain), done)]);
                answered.try_recv().unwrap();
                // A drain replaces one for the same target.
                let (to, from) = match share {
                    Some(_) => (&mut self.shares, &mut self.drains),
                    None => (&mut self.drains, &mut self.shares),
                };
                to.insert((member, owner));
                from.remove(&(member, owner));
            }
            Step::Undrain(member, owner) => {
                let (done, mut answered) = oneshot::channel();
                let command = Command::Undrain(vec![target(member, owner)], done);
                self.bench.keeper.handle(Vec::new(), vec![command]);
                answered.try_recv().unwrap();
                self.drains.remove(&(member, owner));
                self.shares.remove(&(member, owner));
            }
            Step::Pin(back) => {
                let served = self.bench.served("w.x");
                let serials: Vec<u32> = served.history.steps().map(|step| step.delta.from_serial().0).collect();
                if let Some(to) = serials.iter().rev().nth(back) {
                    self.is_pinned |= self.bench.pin("w.x", *to).is_ok();
                }
            }
            Step::Release => self.is_pinned &= self.bench.release("w.x").is_err(),
            Step::Rules(rules) => {
                // An expired region has no version to compare with.
                let serial = |world: &World| world.bench.served("w.x").answerable().map(|zone| zone.soa.serial);
                let before = serial(self);
                let is_same = (self.rules.excludes, self.rules.is_damped) == (rules.excludes, rules.is_damped);
                self.rules = rules;
                self.plan();
                assert!(!is_same || before.is_none() || serial(self) == before, "answers move no serial");
            }
        }
    }

    /// Records of a set that a member gives at present.
    fn given(&self, member: usize, owner: usize, qtype: u16) -> BTreeSet<Vec<u8>> {
        let served = self.bench.served(MEMBERS[member]);
        let is_drained = [None, Some(owner)].into_iter().any(|names| self.drains.contains(&(member, names)));
        let Some(zone) = served.answerable().filter(|_| !is_drained) else { return BTreeSet::new() };
        let owner = name(&format!("{}.{}", OWNERS[owner].0, MEMBERS[member]));
        let set = zone.get(owner.as_wire()).and_then(|node| node.get(qtype));
        let rdatas = set.into_iter().flat_map(|set| set.rdatas().map(<[u8]>::to_vec).collect::<Vec<_>>());
        rdatas.filter(|rdata| !self.rules.excludes || qtype != rtype::A || rdata[1] != 77).collect()
    }

    /// The set that transfers have.
    fn set(&self, owner: usize, qtype: u16) -> BTreeSet<Vec<u8>> {
        let served = self.bench.served("w.x");
        let owner = name(&format!("{}.w.x", OWNERS[owner].0));
        let zone = served.answerable().expect("it is served");
        let set = zone.get(owner.as_wire()).and_then(|node| node.get(qtype));
        set.into_iter().flat_map(|set| set.rdatas().map(<[u8]>::to_vec).collect::<Vec<_>>()).collect()
    }

    /// The records of an answer, in order.
    fn ask(&self, client: &str, owner: usize, qtype: u16, turn: u32, datagram: bool) -> Vec<Vec<u8>> {
        let mut message = vec![0, 1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0];
        message.extend_from_slice(name(&format!("{}.w.x", OWNERS[owner].1)).as_wire());
        message.extend_from_slice(&[&qtype.to_be_bytes()[..], &[0, 1]].concat());
        let request = Request::parse(&message).unwrap();
        let peer: IpAddr = client.parse().unwrap();
        let asked = Asked { message: &message, peer, datagram, rotation: turn, now: 0, secured: None };
        let mut out = vec![0; 65_535];
        let published = self.bench.publisher.load();
        let response = answer_request(&published, &request, None, request.limit(datagram), &asked, &mut out);
        assert!(!response.truncated);
        let records = Records::new(&out[..response.length]).unwrap().map(Result::unwrap);
        let answers = records.filter(|record| record.section == Section::Answer);
        answers.map(|record| out[record.rdata..record.end()].to_vec()).collect()
    }

    /// Members, the nearest first, for clients of a home.
    fn order(&self, home: usize) -> Vec<usize> {
        let first = if home < 3 { vec![home] } else { NEAR.to_vec() };
        let rest = (0..3).filter(|member| !first.contains(member));
        let mut order: Vec<usize> = first.iter().copied().chain(rest).collect();
        order.sort_by_key(|member| self.is_stale(*member));
        order
    }

    /// Returns true if a member comes last because it was not refreshed for long, and some other was.
    fn is_stale(&self, member: usize) -> bool {
        let is_old = |member: usize| self.ages[member] > STALE_AFTER;
        self.rules.goes_stale && is_old(member) && !(0..3).all(is_old)
    }

    /// Holds all answers against the laws.
    fn check(&self) {
        for (owner, qtype) in (0..OWNERS.len()).flat_map(|owner| [(owner, rtype::A), (owner, rtype::SRV)]) {
            let set = self.set(owner, qtype);
            let mut given = [0, 1, 2].map(|member| self.given(member, owner, qtype));
            if !self.is_pinned && !self.rules.is_damped {
                let all: BTreeSet<Vec<u8>> = given.iter().flatten().cloned().collect();
                assert_eq!(set, all, "the set is what the members give");
            }
            given.iter_mut().for_each(|given| given.retain(|rdata| set.contains(rdata)));
            for (client, home) in CLIENTS {
                for turn in [0, 3, 5] {
                    let answer = self.ask(client, owner, qtype, turn, true);
                    assert_eq!(self.ask(client, owner, qtype, turn, false), answer, "alike over TCP");
                    self.judge(&Case { owner, qtype, home, set: &set, given: &given }, &answer);
                }
            }
        }
    }

    /// Holds one answer against the laws.
    fn judge(&self, case: &Case<'_>, answer: &[Vec<u8>]) {
        let Case { owner, qtype, home, set, given } = *case;
        let Rules { steering, law, .. } = self.rules;
        let most = law.max.map_or(usize::MAX, |max| max.get() as usize);
        let is_told = qtype == rtype::SRV && steering.services == Services::Priority && steering.prefer != Prefer::Off;
        let is_told = is_told && home.is_some();
        // As they are in the set.
        let priority = |rdata: &[u8]| u16::from_be_bytes([rdata[0], rdata[1]]);
        let own = |rdata: &Vec<u8>| if is_told { [&[0, 0], &rdata[2..]].concat() } else { rdata.clone() };
        let records: Vec<Vec<u8>> = answer.iter().map(own).collect();
        let distinct: BTreeSet<&Vec<u8>> = records.iter().collect();
        assert_eq!(distinct.len(), records.len(), "once each");
        assert!(records.iter().all(|record| set.contains(record)), "of the set: {records:?} {set:?}");
        assert_eq!(records.is_empty(), set.is_empty());
        assert!(records.len() <= most);

        // Who gives each record; nobody for what is held, or was there when the region was pinned.
        let is_private = |record: &[u8]| self.rules.home_only && qtype == rtype::A && record[1] == 88;
        let givers =
            |record: &Vec<u8>| -> Vec<usize> { (0..3).filter(|member| given[*member].contains(record)).collect() };
        let is_nobodys = |record: &Vec<u8>| givers(record).is_empty();
        let has_nobodys = set.iter().any(is_nobodys);
        let may_have = |record: &Vec<u8>| {
            let is_at_home = home.is_some_and(|home| givers(record).contains(&home) || is_nobodys(record) && home < 3);
            !is_private(record) || is_at_home
        };
        let is_public = |record: &&Vec<u8>| !is_private(record);
        let nothing_else = set.iter().find(is_public).is_none();
        assert!(records.iter().all(|record| may_have(record) || nothing_else), "stays at home: {records:?}");

        let has_share =
            [None, Some(owner)].into_iter().any(|of| (0..3).any(|member| self.shares.contains(&(member, of))));
        if has_share || has_nobodys && set.iter().any(|record| is_private(record)) {
            return;
        }
        let mut allowed: Vec<&Vec<u8>> = set.iter().filter(|record| may_have(record)).collect();
        if allowed.is_empty() {
            allowed = set.iter().collect();
        }
        let Some(home) = home.filter(|_| steering.prefer != Prefer::Off) else {
            if !self.rules.has_weights {
                assert_eq!(records.len(), allowed.len().min(most), "section 3");
            } else if !has_nobodys && qtype == rtype::A && set.iter().all(|record| !is_private(record)) {
                // By whoever is drawn, and by those last that were not refreshed for long.
                let is_last = |record: &Vec<u8>| givers(record).iter().all(|giver| self.is_stale(*giver));
                assert!(records.is_sorted_by_key(is_last), "{records:?}");
            }
            return;
        };
        let order = self.order(home);
        let is_everyones = allowed.iter().any(|record| !may_have(record));
        let rank = |record: &Vec<u8>| -> Option<usize> {
            let counts = |member: &usize| is_everyones || !is_private(record) || *member == home;
            let ranks = givers(record).into_iter().filter(counts);
            let nearest = ranks.map(|member| order.iter().position(|other| *other == member).unwrap()).min();
            // What is held is somebody's.
            nearest.or_else(|| (!self.rules.is_damped).then_some(MEMBERS.len()))
        };
        if is_told {
            assert_eq!(records.len(), allowed.len().min(most));
            for (told, record) in answer.iter().zip(&records) {
                let rank = rank(record).map(|rank| if rank < MEMBERS.len() { rank as u16 } else { 64 });
                let Some(expected) = rank.map(|rank| 1000 * rank) else { continue };
                // Nothing is farther than anything else where one member alone gives the set, or nobody any of it.
                let is_alone = given.iter().any(|given| given.len() == set.len()) || set.iter().all(is_nobodys);
                let is_alone = is_alone && priority(told) == 0;
                assert!(priority(told) == expected || is_alone, "{told:?}");
            }
            return;
        }
        let ranks: Vec<usize> = records.iter().filter_map(rank).collect();
        let is_certain = ranks.len() == records.len();
        assert!(!is_certain || ranks.is_sorted(), "the nearest first: {ranks:?}");
        let nearest = allowed.iter().filter_map(|record| rank(record)).min();
        let first = records.first().and_then(rank);
        assert!(first == nearest || first.is_none(), "{first:?} in place of {nearest:?}");
        let wanted = usize::from(steering.at_least).min(most);
        let known = allowed.iter().filter(|record| !is_nobodys(record)).count();
        if steering.prefer == Prefer::Order {
            assert_eq!(records.len(), allowed.len().min(most));
        } else if records.len() < most {
            assert!(ranks.len() >= wanted.min(known), "{} of {wanted}: {records:?}", ranks.len());
        }
        if steering.prefer == Prefer::Nearest && (!has_nobodys || !self.rules.is_damped) {
            // The last rank that is needed.
            let up_to = |rank_of: usize| allowed.iter().filter(|record| rank(record) <= Some(rank_of)).count();
            let last = (0..3).find(|rank| up_to(*rank) >= wanted).unwrap_or(3);
            assert_eq!(records.len(), up_to(last).min(most), "{records:?}");
            assert!(ranks.iter().all(|rank| *rank <= last), "nobody who is farther: {ranks:?}");
        }
    }
}

/// An answer's question and what is known of it.
#[derive(Clone, Copy)]
struct Case<'c> {
    owner: usize,
    qtype: u16,
    home: Option<usize>,
    set: &'c BTreeSet<Vec<u8>>,
    given: &'c [BTreeSet<Vec<u8>>; 3],
}

fn arbitrary_rules() -> impl Strategy<Value = Rules> {
    let prefer = prop::sample::select(vec![Prefer::Off, Prefer::Order, Prefer::Nearest, Prefer::Nearest]);
    let services = prop::sample::select(vec![Services::Select, Services::Priority]);
    let law = (prop::option::of(1..6u32), prop::sample::select(vec![Pick::Rotate, Pick::Client]));
    let flag = || prop::bool::weighted(0.3);
    (prefer, 1..5u16, services, law, [flag(), flag(), flag(), flag(), flag()]).prop_map(
        |(prefer, at_least, services, (max, pick), [has_weights, goes_stale, home_only, excludes, is_damped])| Rules {
            steering: Steering { prefer, at_least, services },
            law: Law { max: max.and_then(NonZeroU32::new), pick },
            has_weights: has_weights && prefer != Prefer::Off,
            goes_stale,
            home_only,
            excludes,
            is_damped,
        },
    )
}

fn arbitrary_step() -> impl Strategy<Value = Step> {
    let (member, owner) = (|| 0..MEMBERS.len(), || prop::option::of(0..OWNERS.len()));
    let records = prop::collection::vec((0..OWNERS.len(), 0..16u8), 0..10);
    prop_oneof![
        6 => (member(), records).prop_map(|(member, records)| Step::Load(member, records)),
        2 => (member(), prop::sample::select(vec![0, 400, 3_000_000])).prop_map(|(of, age)| Step::Refresh(of, age)),
        2 => (member(), owner(), prop::option::of(1..100u8)).prop_map(|(of, owner, share)| Step::Drain(of, owner, share)),
        2 => (member(), owner()).prop_map(|(member, owner)| Step::Undrain(member, owner)),
        1 => (0..3usize).prop_map(Step::Pin),
        1 => Just(Step::Release),
        2 => arbitrary_rules().prop_map(Step::Rules),
    ]
}

/// Behind a pin, a member that gives as many records as there are, but others, is not the one that gives them.
#[test]
fn a_record_of_a_pinned_region_counts_for_the_members_that_give_it_now() {
    let steering = Steering { prefer: Prefer::Order, ..Steering::OFF };
    let (law, no) = (Law { max: None, pick: Pick::Rotate }, false);
    let rules = Rules { steering, law, has_weights: no, goes_stale: no, home_only: no, excludes: no, is_damped: no };
    let mut world = World::new(rules);
    let versions = [(2, &[][..]), (0, &[0]), (1, &[4u8]), (1, &[]), (0, &[0, 8])];
    for (member, numbers) in versions {
        world.load(member, &numbers.iter().map(|number| (1, *number)).collect::<Vec<_>>());
    }
    // Another plan knows nothing of what was given lately.
    world.rules.steering.at_least = 2;
    world.plan();
    let steps: Vec<u32> = world.bench.served("w.x").history.steps().map(|step| step.delta.from_serial().0).collect();
    for to in steps {
        world.bench.pin("w.x", to).unwrap();
        world.is_pinned = true;
        world.check();
    }
}

/// A server that nobody answers keeps the members as near as they were, though they become stale at different moments.
#[test]
fn a_server_that_is_cut_off_sends_clients_nowhere() {
    let steering = Steering { prefer: Prefer::Nearest, ..Steering::OFF };
    let (law, no) = (Law { max: None, pick: Pick::Rotate }, false);
    let rules = Rules { steering, law, has_weights: no, goes_stale: true, home_only: no, excludes: no, is_damped: no };
    let mut world = World::new(rules);
    let mut stale = |ages: [u64; 3]| {
        (0..3).for_each(|member| world.take(Step::Refresh(member, ages[member])));
        world.bench.keeper.handle(Vec::new(), Vec::new());
        world.bench.served("w.x").selections.orders.stale().to_vec()
    };
    assert_eq!(stale([0, 10, 20]), [false; 3]);
    assert_eq!(stale([310, 200, 290]), [false; 3], "polls are at most half of it apart");
    assert_eq!(stale([310, 10, 290]), [true, false, false], "this one alone was not answered");
    assert_eq!(stale([310, 440, 400]), [true; 3], "none comes behind another");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    /// Answers keep the laws, whatever happened before.
    #[test]
    fn answers_keep_the_laws_at_every_moment(
        rules in arbitrary_rules(),
        steps in prop::collection::vec(arbitrary_step(), 1..12),
    ) {
        let mut world = World::new(rules);
        world.check();
        for step in steps {
            world.take(step);
            if world.bench.state("w.x") == State::Ok {
                world.check();
            }
        }
    }
}
