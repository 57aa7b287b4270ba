//! The law of a region's serial: whatever members and plans do, what clients see rises (RFC 1982), and no serial stands
//! for two contents.

use super::regions::contributing;
use super::*;
use crate::merge::DampingPlan;
use crate::merge::serial::LONGEST_STEP;
use proptest::prelude::*;
use std::collections::HashMap;

const MEMBERS: [&str; 3] = ["w1.x", "w2.x", "w3.x"];
/// Expire time of the members' zones, in seconds, as [`load`] writes it, and one more.
const EXPIRED: Duration = Duration::from_secs(2_592_001);

/// Move of a member's serial.
#[derive(Clone, Debug)]
enum Way {
    /// Jumps to any serial, forward or not.
    To(u32),
    /// Advances by a few; by none, it is a primary that changes contents and keeps the serial.
    On(u32),
    /// Advances by so much that two of them are too much for one step.
    Far(u32),
    Back(u32),
}

impl Way {
    fn from(&self, serial: u32) -> u32 {
        match self {
            Way::To(there) => *there,
            Way::On(steps) => serial.wrapping_add(*steps),
            Way::Far(more) => serial.wrapping_add((1 << 30) + more),
            Way::Back(steps) => serial.wrapping_sub(*steps),
        }
    }
}

/// Event in the life of a keeper.
#[derive(Clone, Debug)]
enum Event {
    /// Members send versions, all in one batch: which member, how its serial moves, which contents.
    Load(Vec<(usize, Way, u8)>),
    /// A member has not been heard of for too long.
    Expire(usize),
    /// A member is confirmed as it is.
    Confirm(usize),
    /// Another set of members (bits, never none), offset and policy.
    Plan { members: u8, offset: u32, contact: u8 },
    /// An operator takes a member or one of its names out of the region, or lets it in again.
    Drain { member: usize, names: Option<&'static str>, begins: bool },
    /// The region is not configured for a while.
    Leave,
    /// The pause of a serial that is half way is over.
    GoOn,
}

fn way() -> impl Strategy<Value = Way> {
    prop_oneof![
        1 => any::<u32>().prop_map(Way::To),
        4 => (0..4_u32).prop_map(Way::On),
        2 => (0..100_u32).prop_map(Way::Far),
        2 => (0..20_u32).prop_map(Way::Back),
    ]
}

fn event() -> impl Strategy<Value = Event> {
    let offset = prop_oneof![3 => 0..8_u32, 1 => any::<u32>()];
    prop_oneof![
        8 => proptest::collection::vec((0..3_usize, way(), 0..4_u8), 1..4).prop_map(Event::Load),
        1 => (0..3_usize).prop_map(Event::Expire),
        1 => (0..3_usize).prop_map(Event::Confirm),
        2 => (1..8_u8, offset, 0..2_u8)
            .prop_map(|(members, offset, contact)| Event::Plan { members, offset, contact }),
        2 => (0..3_usize, prop::sample::select(vec![None, Some("a"), Some("*")]), any::<bool>())
            .prop_map(|(member, names, begins)| Event::Drain { member, names, begins }),
        1 => Just(Event::Leave),
        2 => Just(Event::GoOn),
    ]
}

/// A keeper, the region's plan, and what the world last saw of the region.
struct World {
    bench: Bench,
    plan: RegionPlan,
    seen: Option<(Serial, String)>,
    rises: usize,
}

impl World {
    fn new() -> World {
        let damping =
            DampingPlan { max_removed: (1, 3), window: Duration::from_secs(60), last: Duration::from_secs(90) };
        let plan = RegionPlan { damping: Some(damping), ..region("w.x", &MEMBERS) };
        World { bench: Bench::new(&MEMBERS, vec![plan.clone()]), plan, seen: None, rises: 0 }
    }

    /// Lets something happen.
    fn suffer(&mut self, event: &Event) {
        match event {
            Event::Load(versions) => {
                // Of one member only the first: a source waits for its update before it sends another.
                let mut updates: HashMap<usize, Update> = HashMap::new();
                for (member, way, contents) in versions {
                    let zone = MEMBERS[*member];
                    let base = self.bench.publisher.load().get(&name(zone)).and_then(|served| served.zone.clone());
                    let serial = way.from(base.as_ref().map_or(0, |zone| zone.soa.serial.0));
                    let lines = format!(
                        "@ 30 SOA {serial}\na 30 A 192.0.2.{contents}\nb{contents} 30 A 192.0.2.9\nc.svc.x 30 A 192.0.2.{contents}"
                    );
                    let loaded = Box::new(load(&format!("{zone}."), &lines, base.as_deref()));
                    let news = News::Load { loaded, base };
                    let update = Update { news: vec![(name(zone), news)], refreshed: Instant::now(), published: None };
                    updates.entry(*member).or_insert(update);
                }
                self.bench.keeper.handle(updates.into_values().collect(), Vec::new());
            }
            Event::Expire(member) => self.bench.update(MEMBERS[*member], News::Current, EXPIRED),
            Event::Confirm(member) => self.bench.update(MEMBERS[*member], News::Current, ZERO),
            Event::Plan { members, offset, contact } => {
                let chosen = (0..3).filter(|bit| members >> bit & 1 == 1).map(|bit| name(MEMBERS[bit]));
                self.plan.members = chosen.collect();
                self.plan.serial_offset = *offset;
                self.plan.rname = Some(name(["h.x", "i.x"][usize::from(*contact)]));
                self.bench.plan(&MEMBERS, vec![self.plan.clone()]);
            }
            Event::Drain { member, names, begins } => self.bench.drain(MEMBERS[*member], *names, *begins),
            Event::Leave => {
                self.bench.plan(&MEMBERS, Vec::new());
                self.bench.plan(&MEMBERS, vec![self.plan.clone()]);
            }
            Event::GoOn => self.bench.pass(),
        }
    }

    /// Checks what clients see now against what they saw last.
    fn check(&mut self) -> Result<(), TestCaseError> {
        let root = self.bench.publisher.load();
        let served = root.get(&name("w.x")).unwrap();
        let Some(zone) = served.zone.as_ref().filter(|_| served.state == State::Ok) else { return Ok(()) };
        let serial = zone.soa.serial;
        // The contents with the SOA, all of it but the serial.
        let contents = format!("{zone:?}").replacen(&format!(" {serial} "), " ", 1);
        if let Some((before, known)) = self.seen.replace((serial, contents.clone())) {
            let way = serial.0.wrapping_sub(before.0);
            prop_assert!(way <= LONGEST_STEP, "from {before} to {serial}");
            prop_assert!(way > 0 || contents == known, "{serial} stood for\n{known}\nand stands for\n{contents}");
            self.rises += usize::from(way > 0);
        }
        let kept = &self.bench.keeper.regions[&name("w.x")];
        let sum = kept.region.plan.serial_offset.wrapping_add(kept.region.serial.drift());
        let contributing =
            kept.region.plan.members.iter().zip(contributing(&self.bench.keeper.sources, &kept.region.plan));
        let members = contributing.filter(|(_, does)| *does).map(|(member, _)| {
            self.bench.keeper.sources[member].zone.as_ref().expect("a contributing member has a zone").soa.serial
        });
        prop_assert_eq!(serial::region_sum(sum, members), serial, "offset, members and drift make up the serial");
        // A secondary that follows by differences arrives at what is served.
        for delta in served.history.iter() {
            prop_assert!(delta.to_serial().newer_than(delta.from_serial()));
        }
        if let Some(last) = served.history.iter().last() {
            prop_assert_eq!(&last.to, zone.soa_rrset());
        }
        Ok(())
    }
}

proptest! {
    #[test]
    fn whatever_happens_what_clients_see_rises(events in proptest::collection::vec(event(), 1..40)) {
        let mut world = World::new();
        for event in &events {
            world.suffer(event);
            world.check()?;
        }
    }
}

/// The law would hold for a region that never moves: here is how often it does.
#[test]
fn a_history_with_everything_in_it_moves_the_serial() {
    let mut world = World::new();
    let load = |member, way| Event::Load(vec![(member, way, member as u8)]);
    let history = [
        Event::Load((0..3).map(|member| (member, Way::To(100), 0)).collect()),
        load(0, Way::On(1)),
        load(1, Way::Back(50)),
        load(2, Way::On(0)),
        Event::Load(vec![(0, Way::Far(0), 1), (1, Way::Far(0), 1)]),
        load(2, Way::On(3)),
        Event::GoOn,
        Event::Expire(0),
        Event::Confirm(0),
        Event::Plan { members: 0b011, offset: 0, contact: 0 },
        Event::Plan { members: 0b111, offset: 9, contact: 1 },
        load(0, Way::To(0)),
    ];
    for event in &history {
        world.suffer(event);
        world.check().unwrap();
    }
    assert!(world.rises >= history.len() - 2, "{} of {}", world.rises, history.len());
}
