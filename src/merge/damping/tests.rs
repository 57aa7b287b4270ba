//! Damping by the clock of the tests: the examples of the rule, and a model that looks at every second.

use super::super::tests::plan;
use super::super::{Intake, NamePattern, Region};
use super::*;
use crate::zone::tests::zone;
use proptest::prelude::*;
use std::time::Duration;

const PLAN: DampingPlan =
    DampingPlan { max_removed: (1, 3), window: Duration::from_secs(60), last: Duration::from_secs(600) };

/// Two members, their intakes, and a region that follows them.
struct World {
    begun: Instant,
    now: u64,
    damper: Damper,
    intakes: Vec<Intake>,
    region: Region,
}

impl World {
    fn new() -> World {
        World {
            begun: Instant::now(),
            now: 0,
            damper: Damper::new(PLAN),
            intakes: vec![Intake::default(); 2],
            region: Region::new(plan(&["w1.x", "w2.x"])),
        }
    }

    /// Gives a member another version, without which it is not valid, and a scope. Returns what became of addresses.
    fn give(&mut self, member: usize, lines: Option<&str>, scope: Scope) -> Tally {
        let text = |lines: &str| zone(&format!("w{}.x.", member + 1), &format!("@ 30 SOA 1\n{lines}"));
        let given = lines.map(|lines| Arc::new(text(lines)));
        self.step(Some((member, given, scope)))
    }

    /// The addresses of the service that [`service`] writes, by their last octets.
    fn service_addresses(&self) -> BTreeSet<u8> {
        self.standing("web.svc.acme").into_iter().collect()
    }

    /// Lets time pass, second by second; the seconds at which addresses went, and how many.
    fn wait(&mut self, until: u64) -> Vec<(u64, u64)> {
        let mut removals = Vec::new();
        while self.now < until {
            self.now += 1;
            let tally = self.step(None);
            assert_eq!((tally.returned, tally.gone), (0, 0));
            removals.extend((tally.released > 0).then_some((self.now, tally.released)));
        }
        removals
    }

    /// One moment.
    fn step(&mut self, change: Option<(usize, Option<Arc<Zone>>, Scope)>) -> Tally {
        let now = self.begun + Duration::from_secs(self.now);
        let before: Vec<_> = self.intakes.iter().map(|intake| intake.raw().cloned()).collect();
        let (mut after, mut scopes) =
            (before.clone(), self.intakes.iter().map(|intake| intake.scope().clone()).collect::<Vec<_>>());
        let changed = change.as_ref().map(|(member, ..)| *member);
        if let Some((member, given, scope)) = change {
            (after[member], scopes[member]) = (given, scope);
        }
        let touched: Vec<Option<Touched>> =
            (0..2).map(|index| (changed == Some(index)).then_some(Touched::Everything)).collect();
        let member = |index: usize| MemberChange {
            before: before[index].as_deref(),
            after: after[index].as_deref(),
            touched: touched[index].as_ref(),
            scope_before: self.intakes[index].scope(),
            scope: &scopes[index],
        };
        let tally = self.damper.update(&self.region.plan, &[member(0), member(1)], now);
        let held = self.damper.held(&self.region.plan);
        for (index, held) in held.into_iter().enumerate() {
            self.intakes[index].take(after[index].clone(), touched[index].as_ref(), scopes[index].clone(), held);
        }
        let members: Vec<_> = self.intakes.iter().map(|intake| intake.zone().cloned()).collect();
        self.region.merge_all(&members, Instant::now());
        tally
    }

    /// The last octets of the addresses of a name of the region.
    fn standing(&self, name: &str) -> Vec<u8> {
        let name = Name::parse(&format!("{name}.w.x")).unwrap();
        let node = self.region.zone.as_ref().and_then(|zone| zone.get(name.as_wire()));
        let set = node.and_then(|node| node.get(rtype::A));
        set.into_iter().flat_map(|set| set.rdatas()).map(|rdata| rdata[3]).collect()
    }
}

/// A service of instances as CNS has it: those in service with their addresses, and all that are there.
fn service(up: &[u8], there: &[u8]) -> String {
    let mut lines = String::new();
    for last in there {
        let state = if up.contains(last) { "" } else { "verifying:" };
        lines.push_str(&format!("u{last}.inst.acme 30 A 192.0.2.{last}\nweb.svc.acme 30 TXT {state}u{last}\n"));
    }
    up.iter().for_each(|last| lines.push_str(&format!("web.svc.acme 30 A 192.0.2.{last}\n")));
    lines
}

const NINE: [u8; 9] = [1, 2, 3, 4, 5, 6, 7, 8, 9];

fn all() -> Scope {
    Scope::default()
}

#[test]
fn nine_that_are_withdrawn_at_once_go_slowly() {
    let mut world = World::new();
    world.give(0, Some(&service(&NINE, &NINE)), all());
    let first = world.give(0, Some(&service(&[], &NINE)), all());
    assert_eq!((first.released, world.standing("web.svc.acme")), (3, vec![4, 5, 6, 7, 8, 9]));
    assert_eq!((world.damper.held_addresses(), world.damper.is_holding()), (6, true));
    let until = |world: &World, last: u8| {
        let address = Address { rtype: rtype::A, rdata: [192, 0, 2, last].into() };
        let until = world.damper.until(&Name::parse("web.svc.acme.w.x").unwrap(), &address);
        until.map(|until| until.duration_since(world.begun).as_secs())
    };
    assert_eq!([3, 4, 6, 9].map(|last| until(&world, last)), [None, Some(60), Some(120), Some(840)]);
    assert_eq!(world.wait(1000), [(60, 2), (120, 1), (180, 1), (240, 1), (840, 1)]);
    assert_eq!((world.standing("web.svc.acme"), world.damper.next()), (vec![], None));
    assert!(world.damper.services.is_empty(), "nothing is left of it");
}

#[test]
fn the_last_address_stays_for_long_and_gives_way_to_another() {
    let mut world = World::new();
    world.give(0, Some(&service(&[1], &[1])), all());
    world.now = 5000;
    world.give(0, Some(&service(&[], &[1])), all());
    assert_eq!(world.wait(5700), [(5600, 1)], "counted from when it was withdrawn");
    world.give(0, Some(&service(&[1], &[1])), all());
    world.give(0, Some(&service(&[], &[1])), all());
    world.now += 60;
    let tally = world.give(0, Some(&service(&[2], &[1, 2])), all());
    assert_eq!((tally.released, world.standing("web.svc.acme")), (1, vec![2]), "it is the last no more");
}

#[test]
fn an_address_that_comes_back_is_held_no_more() {
    let mut world = World::new();
    world.give(0, Some(&service(&[1, 2], &[1, 2])), all());
    world.give(0, Some(&service(&[], &[1, 2])), all());
    assert_eq!(world.standing("web.svc.acme"), [2]);
    let tally = world.give(0, Some(&service(&[2], &[1, 2])), all());
    assert_eq!((tally.returned, world.damper.is_holding()), (1, false));
    assert_eq!(world.wait(2000), []);
}

#[test]
fn an_instance_that_is_gone_takes_its_address_along() {
    let mut world = World::new();
    world.give(0, Some(&service(&NINE, &NINE)), all());
    let tally = world.give(0, Some(&service(&[], &[])), all());
    assert_eq!((tally.gone, tally.released, world.standing("web.svc.acme")), (9, 0, vec![]));
    // Withdrawn first, and gone while it was held.
    world.give(0, Some(&service(&NINE, &NINE)), all());
    world.give(0, Some(&service(&[], &NINE)), all());
    let tally = world.give(0, Some(&service(&[], &[4])), all());
    assert_eq!((tally.gone, world.standing("web.svc.acme")), (5, vec![4]));
    assert_eq!(world.wait(2000), [(600, 1)]);
}

#[test]
fn only_services_are_damped() {
    let mut world = World::new();
    let lines = "web 30 A 192.0.2.1\nsvc.acme 30 A 192.0.2.1\nweb.svc 30 A 192.0.2.1\nweb.inst.acme 30 A 192.0.2.1\n\
                 web.svc.a.b 30 A 192.0.2.1\n";
    world.give(0, Some(&format!("{lines}n.my.web.svc.acme 30 A 192.0.2.1")), all());
    let tally = world.give(0, Some(""), all());
    assert_eq!((tally.released, world.damper.held_addresses()), (0, 1));
    assert_eq!(world.standing("n.my.web.svc.acme"), [1], "without instances that are known, too");
}

#[test]
fn the_region_counts_and_not_the_member() {
    let mut world = World::new();
    world.give(0, Some(&service(&[1, 2, 3], &[1, 2, 3])), all());
    world.give(1, Some(&service(&[3, 4, 5, 6, 7, 8, 9], &NINE)), all());
    // Three of nine, and one of them is given by the other member, too.
    let tally = world.give(0, Some(&service(&[], &[1, 2, 3])), all());
    assert_eq!((tally.released, world.standing("web.svc.acme")), (2, vec![3, 4, 5, 6, 7, 8, 9]));
    let tally = world.give(1, Some(&service(&[4, 5, 6, 7, 8, 9], &NINE)), all());
    assert_eq!((tally.released, world.damper.held_addresses()), (1, 0));
}

#[test]
fn drains_and_expiries_are_not_damped() {
    let drained = Scope { whole: false, patterns: vec![NamePattern::parse("web.svc.*").unwrap()] };
    for (lines, scope) in [(None, all()), (Some(service(&[], &NINE)), drained)] {
        let mut world = World::new();
        world.give(0, Some(&service(&NINE, &NINE)), all());
        world.give(1, Some(&service(&[11], &[11])), all());
        world.give(0, Some(&service(&[], &NINE)), all());
        assert_eq!(world.standing("web.svc.acme"), [4, 5, 6, 7, 8, 9, 11]);
        let tally = world.give(0, lines.as_deref(), scope);
        assert_eq!((tally.gone, world.standing("web.svc.acme")), (6, vec![11]));
        // What comes back is in service, and what does not was not.
        world.give(0, Some(&service(&[1], &NINE)), all());
        assert_eq!(world.standing("web.svc.acme"), [1, 11]);
    }
}

#[test]
fn an_alias_takes_the_place_of_what_is_held() {
    let mut world = World::new();
    world.give(0, Some("web.svc.acme 30 A 192.0.2.1"), all());
    let tally = world.give(0, Some("web.svc.acme 30 CNAME b"), all());
    assert_eq!((tally.gone, world.damper.is_holding()), (1, false));
}

//--- Against a model ---

/// The rule, second by second, with everything that ever happened.
#[derive(Default)]
struct Model {
    given: BTreeSet<u8>,
    /// Addresses that stand, with the second in which they were withdrawn, if they were.
    standing: BTreeMap<u8, Option<u64>>,
    removals: Vec<(u64, u8)>,
    alone: Option<u64>,
}

impl Model {
    fn second(&mut self, plan: &DampingPlan, now: u64, given: &BTreeSet<u8>) {
        for address in given {
            self.standing.insert(*address, None);
        }
        for address in self.given.difference(given) {
            self.standing.insert(*address, Some(now));
        }
        self.given = given.clone();
        loop {
            let alone = self.standing.len() == 1;
            self.alone = if alone { self.alone.or(Some(now)) } else { None };
            let first = self.standing.iter().filter_map(|(address, at)| Some(((*at)?, *address))).min();
            let Some((withdrawn, address)) = first else { return };
            let recent: Vec<u8> = self
                .removals
                .iter()
                .filter(|(at, _)| now - at < plan.window.as_secs())
                .map(|(_, address)| *address)
                .collect();
            let all: BTreeSet<u8> = self.standing.keys().chain(&recent).copied().collect();
            let most = (all.len() * plan.max_removed.0 as usize / plan.max_removed.1 as usize).max(1);
            let stays = self.alone.is_some_and(|since| now < since.max(withdrawn) + plan.last.as_secs());
            if recent.len() >= most || stays {
                return;
            }
            self.standing.remove(&address);
            self.removals.push((now, address));
        }
    }
}

fn arbitrary_plan() -> impl Strategy<Value = DampingPlan> {
    (1..4u32, 3..6u32, 1..30u64, 0..50u64).prop_map(|(some, of, window, more)| DampingPlan {
        max_removed: (some, of),
        window: Duration::from_secs(window),
        last: Duration::from_secs(window + more),
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// Looked at when something happens or is due, a service has what the model has at every second.
    #[test]
    fn a_service_is_what_the_rule_says(
        plan in arbitrary_plan(),
        events in prop::collection::vec((1..40u64, prop::collection::btree_set(0..12u8, 0..12)), 1..12),
    ) {
        let begun = Instant::now();
        let address = |last: &u8| Address { rtype: rtype::A, rdata: [192, 0, 2, *last].into() };
        let (mut model, mut service) = (Model::default(), Service::default());
        let (mut now, mut given) = (0, BTreeSet::new());
        let end = (300, BTreeSet::new());
        for (pause, next) in events.into_iter().chain([end]) {
            for second in now..now + pause {
                let changed = second == now && given != model.given;
                let at = begun + Duration::from_secs(second);
                let live: BTreeSet<Address> = given.iter().map(address).collect();
                if changed {
                    let gone: Vec<Address> = service.live.difference(&live).cloned().collect();
                    for gone in gone {
                        service.hold(gone, Withdrawn { member: 0, ttl: 30, instances: Vec::new() }, at);
                    }
                }
                if changed || service.group.next().is_some_and(|next| next <= at) {
                    service.update(live, &plan, at, &mut Tally::default());
                }
                // As a damper does that looks often.
                if service.group.is_calm() {
                    service = Service { live: service.live, ..Service::default() };
                }
                model.second(&plan, second, &given);
                let standing: BTreeSet<Address> = service.live.iter().chain(service.held.keys()).cloned().collect();
                let expected: BTreeSet<Address> = model.standing.keys().map(address).collect();
                prop_assert_eq!(standing, expected, "at {}", second);
            }
            (now, given) = (now + pause, next);
        }
        // No window has more removals than the most addresses that it ever knew allow, and the last one had its time.
        for (at, _) in &model.removals {
            let window: Vec<_> = model.removals.iter().filter(|(other, _)| other <= at && at - other < plan.window.as_secs()).collect();
            prop_assert!(window.len() <= plan.quota(12));
        }
    }
}

//--- What may and may not be in the answer ---

/// Event at one of two members that have some addresses in common.
#[derive(Clone, Debug)]
enum Event {
    /// Another version: instances that are there, those of them in service, and whether the service is drained.
    Give { member: usize, there: BTreeSet<u8>, up: BTreeSet<u8>, drained: bool },
    /// It has expired.
    Expire(usize),
    /// Nothing for some seconds.
    Wait(u64),
}

fn arbitrary_event() -> impl Strategy<Value = Event> {
    let instances = prop::collection::btree_set(1..6u8, 0..6);
    let give =
        (0..2usize, instances, any::<u8>(), prop::bool::weighted(0.15)).prop_map(|(member, there, bits, drained)| {
            let there: BTreeSet<u8> = there.into_iter().map(|last| last + 3 * member as u8).collect();
            let up = there.iter().copied().filter(|last| bits >> (last % 8) & 1 == 1).collect();
            Event::Give { member, there, up, drained }
        });
    prop_oneof![4 => give, 1 => (0..2usize).prop_map(Event::Expire), 2 => (1..400u64).prop_map(Event::Wait)]
}

/// Addresses of a member, as the test knows them.
#[derive(Clone, Default)]
struct Known {
    /// In service, as far as the region takes it.
    given: BTreeSet<u8>,
    /// Withdrawn and not yet forbidden, with when that was.
    remembered: BTreeMap<u8, u64>,
    is_taken: bool,
}

/// Record of the addresses that left a region, as seen from outside.
#[derive(Default)]
struct Pace {
    /// Times of removals by damping, with their numbers, within the window.
    removals: Vec<(u64, u64)>,
    /// Addresses that have left for any reason within the window.
    left: Vec<(u64, u8)>,
}

impl Pace {
    /// Takes what one moment removed. The window must not have more than the share of all addresses that can count.
    fn take(
        &mut self,
        now: u64,
        before: &BTreeSet<u8>,
        after: &BTreeSet<u8>,
        released: u64,
    ) -> Result<(), TestCaseError> {
        let recent = |at: &u64| now - at < PLAN.window.as_secs();
        self.removals.push((now, released));
        self.left.extend(before.difference(after).map(|last| (now, *last)));
        self.removals.retain(|(at, _)| recent(at));
        self.left.retain(|(at, _)| recent(at));
        let known: BTreeSet<u8> =
            before.iter().chain(after).copied().chain(self.left.iter().map(|(_, last)| *last)).collect();
        let removed: u64 = self.removals.iter().map(|(_, count)| count).sum();
        let most = PLAN.quota(known.len()) as u64;
        prop_assert!(released == 0 || removed <= most, "{} of {:?} removed until {}", removed, known, now);
        Ok(())
    }

    /// Lets time pass, and looks at every second.
    fn wait(&mut self, world: &mut World, seconds: u64) -> Result<(), TestCaseError> {
        for _ in 0..seconds {
            let before = world.service_addresses();
            let released = world.wait(world.now + 1).iter().map(|(_, count)| count).sum();
            self.take(world.now, &before, &world.service_addresses(), released)?;
        }
        Ok(())
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(80))]

    /// An answer has all that is in service; beside that only what a member that is valid and not drained has withdrawn
    /// while the instance lives; it is not empty while something was withdrawn within the time of the last one, unless
    /// something has gone for good since; it loses no more within a window than the rule says; and when nothing happens
    /// any more, what is held goes in the time that the rule takes.
    #[test]
    fn answers_have_what_they_must_and_may(events in prop::collection::vec(arbitrary_event(), 1..20)) {
        let mut world = World::new();
        let mut known = vec![Known::default(); 2];
        let mut withdrawn_at: Option<u64> = None;
        let mut pace = Pace::default();
        for event in events {
            let before = world.service_addresses();
            match event {
                Event::Wait(seconds) => pace.wait(&mut world, seconds)?,
                Event::Expire(member) => {
                    let tally = world.give(member, None, all());
                    pace.take(world.now, &before, &world.service_addresses(), tally.released)?;
                    known[member] = Known::default();
                    withdrawn_at = None;
                }
                Event::Give { member, there, up, drained } => {
                    let [up_list, there_list] = [&up, &there].map(|set| set.iter().copied().collect::<Vec<u8>>());
                    let scope = Scope { whole: drained, patterns: Vec::new() };
                    let tally = world.give(member, Some(&service(&up_list, &there_list)), scope);
                    pace.take(world.now, &before, &world.service_addresses(), tally.released)?;
                    let one = &mut known[member];
                    let all_there = one.given.iter().chain(one.remembered.keys()).all(|last| there.contains(last));
                    if drained || !all_there {
                        withdrawn_at = None;
                    } else if one.is_taken && one.given.difference(&up).next().is_some() {
                        withdrawn_at = Some(world.now);
                    }
                    if drained || !one.is_taken {
                        one.remembered.clear();
                    } else {
                        one.remembered.extend(one.given.difference(&up).map(|last| (*last, world.now)));
                    }
                    one.remembered.retain(|last, _| there.contains(last) && !up.contains(last));
                    one.given = if drained { BTreeSet::new() } else { up };
                    one.is_taken = !drained;
                }
            }
            let standing = world.service_addresses();
            let must: BTreeSet<u8> = known.iter().flat_map(|one| one.given.iter().copied()).collect();
            let may: BTreeSet<u8> = known.iter().flat_map(|one| one.remembered.keys().copied()).collect();
            prop_assert!(standing.is_superset(&must), "{:?} without {:?}", standing, must);
            prop_assert!(standing.iter().all(|last| must.contains(last) || may.contains(last)), "{:?}: {:?} {:?}", standing, must, may);
            let recent = withdrawn_at.is_some_and(|at| world.now < at + PLAN.last.as_secs());
            prop_assert!(!standing.is_empty() || !recent, "emptied at {}", world.now);
        }
        // At least one goes within each window, and the last has its own time.
        let windows = world.service_addresses().len() as u64;
        pace.wait(&mut world, PLAN.last.as_secs() + windows * PLAN.window.as_secs())?;
        let must: BTreeSet<u8> = known.iter().flat_map(|one| one.given.iter().copied()).collect();
        prop_assert_eq!(world.service_addresses(), must, "after a long quiet");
        prop_assert!(!world.damper.is_active(), "nothing is left to do");
    }
}
