//! The law of restarts: whatever changes in between, no serial of a region falls or stands for two contents, and a
//! secondary that follows differences never goes astray.

use super::*;
use crate::merge::DampingPlan;
use crate::state;
use proptest::prelude::*;
use std::path::Path;

const ZONES: [&str; 3] = ["w1.x", "w2.x", "w3.x"];

/// Event in the life of a region.
#[derive(Clone, Debug)]
enum Event {
    /// A member has another version: how far its serial moves, and what it holds.
    Load {
        member: usize,
        step: u32,
        content: u8,
    },
    /// Two members move so far at once that the serial follows in two steps.
    Far {
        content: u8,
    },
    /// The pause of a serial that is half way is over.
    GoOn,
    /// The program ends and begins with another plan; a file may be lost meanwhile.
    Restart {
        policy: u8,
        lost: Option<usize>,
    },
    /// The configuration changes while the program runs.
    Reload {
        policy: u8,
    },
    /// An operator takes a member or one of its names out of the region, or lets it in again.
    Drain {
        member: usize,
        names: Option<&'static str>,
        begins: bool,
    },
    /// An operator takes the region back to a version, counted back from the present one, or has it follow again.
    Pin {
        back: usize,
    },
    Release,
    /// The secondary of the region transfers it.
    Follow,
}

fn event() -> impl Strategy<Value = Event> {
    let step = prop::sample::select(vec![0u32, 1, 2, 1000, 1 << 30, u32::MAX, u32::MAX - 4]);
    prop_oneof![
        5 => (0..3usize, step, any::<u8>()).prop_map(|(member, step, content)| Event::Load { member, step, content }),
        1 => any::<u8>().prop_map(|content| Event::Far { content }),
        1 => Just(Event::GoOn),
        2 => (any::<u8>(), prop::option::weighted(0.2, 0..3usize)).prop_map(|(policy, lost)| Event::Restart { policy, lost }),
        1 => any::<u8>().prop_map(|policy| Event::Reload { policy }),
        1 => (0..3usize, prop::sample::select(vec![None, Some("a")]), any::<bool>())
            .prop_map(|(member, names, begins)| Event::Drain { member, names, begins }),
        1 => (0..4usize).prop_map(|back| Event::Pin { back }),
        1 => Just(Event::Release),
        4 => Just(Event::Follow),
    ]
}

/// The plan of the region under one of sixteen policies.
fn policy(number: u8) -> RegionPlan {
    let members = if number & 1 == 0 { &ZONES[..] } else { &ZONES[..2] };
    let mut plan = region("w.x", members);
    plan.ns_ttl = 3600 + u32::from(number >> 1 & 1);
    plan.serial_offset = u32::from(number >> 2 & 1) * 50;
    plan.partial_after = ZERO;
    let damping = DampingPlan { max_removed: (1, 3), window: Duration::from_millis(5), last: Duration::from_secs(60) };
    plan.damping = (number >> 3 & 1 == 1).then_some(damping);
    plan
}

/// A running program with its store.
pub(super) struct Run {
    pub bench: Bench,
    store: Arc<Store>,
}

impl Run {
    pub fn start(folder: &Path, region: RegionPlan) -> Run {
        Run::start_hearing(folder, region, &[])
    }

    /// Starts where other servers have the region under these serials.
    pub fn start_hearing(folder: &Path, region: RegionPlan, heard: &[u32]) -> Run {
        let (metrics, publisher) = (Arc::new(Metrics::new()), Arc::new(Publisher::default()));
        let store = Arc::new(state::open(folder, metrics.clone()).unwrap());
        let keeper = Keeper::new(publisher.clone(), metrics, Some(store.clone()));
        let mut run = Run { bench: Bench { keeper, publisher }, store };
        let heard = heard.iter().copied().map(Serial).collect();
        run.plan_hearing(region, [(name("w.x"), heard)].into());
        run
    }

    pub fn plan(&mut self, region: RegionPlan) {
        self.plan_hearing(region, HashMap::new());
    }

    fn plan_hearing(&mut self, region: RegionPlan, heard: HashMap<Name, Vec<Serial>>) {
        let published = self.bench.publisher.load();
        let unknown = ZONES.iter().filter(|zone| published.get(&name(zone)).is_none());
        let unknown = unknown.chain(published.get(&name("w.x")).is_none().then_some(&"w.x"));
        let past = match published.generation {
            0 => HashMap::from([(name("w.x"), self.store.load_past(&name("w.x")))]),
            _ => HashMap::new(),
        };
        let restored = unknown.filter_map(|zone| Some((name(zone), self.store.load(&name(zone))?))).collect();
        let lifetime = Lifetime { shortest: ZERO, longest: Duration::MAX };
        let zones = ZONES.iter().map(|zone| (name(zone), lifetime)).collect();
        let (done, _changes) = oneshot::channel();
        let plan = Plan { zones, regions: vec![region], restored, past, heard, ..Plan::default() };
        self.bench.keeper.handle(Vec::new(), vec![Command::Plan(Box::new(plan), done)]);
    }

    fn served(&self) -> Option<(Arc<Zone>, History)> {
        let published = self.bench.publisher.load();
        let served = published.get(&name("w.x"))?;
        Some((served.zone.clone().filter(|_| served.state == State::Ok)?, served.history.clone()))
    }

    /// Ends the run; everything is on disk when this returns.
    pub fn end(self) {
        assert!(self.store.flush_all());
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: ProptestConfig::default().cases.min(4096) / 4, ..ProptestConfig::default() })]

    #[test]
    fn restarts_leave_serials_and_secondaries_right(events in prop::collection::vec(event(), 1..30)) {
        let folder = tempfile::tempdir().unwrap();
        let mut run = Run::start(folder.path(), policy(0));
        let mut serials = [100u32, 200, 300];
        let mut seen: HashMap<Serial, String> = HashMap::new();
        let mut last: Option<Serial> = None;
        let mut copy: Option<Zone> = None;
        for event in events {
            match event {
                Event::Load { member, step, content } => {
                    serials[member] = serials[member].wrapping_add(step);
                    let lines = format!(
                        "@ 30 SOA {}\n@ 3600 NS ns.example.\na 30 A 192.0.2.{content}\nm{member} 30 A 192.0.2.{}\n\
                         s.svc.x 30 A 192.0.2.{content}",
                        serials[member], content / 2
                    );
                    run.bench.load(&format!("{}.", ZONES[member]), &lines, ZERO);
                }
                Event::Far { content } => {
                    let lines = [0, 1].map(|member| {
                        serials[member] = serials[member].wrapping_add((1 << 30) + 7);
                        format!("@ 30 SOA {}\n@ 3600 NS ns.example.\na 30 A 192.0.2.{content}", serials[member])
                    });
                    run.bench.load_together(&[(ZONES[0], &lines[0]), (ZONES[1], &lines[1])]);
                }
                Event::GoOn => run.bench.pass(),
                Event::Restart { policy: number, lost } => {
                    run.end();
                    if let Some(lost) = lost {
                        let _ = std::fs::remove_dir_all(folder.path().join("zones").join(ZONES[lost]));
                    }
                    run = Run::start(folder.path(), policy(number));
                }
                Event::Reload { policy: number } => run.plan(policy(number)),
                Event::Drain { member, names, begins } => run.bench.drain(ZONES[member], names, begins),
                Event::Pin { back } => {
                    let published = run.bench.publisher.load();
                    let serials = published.get(&name("w.x")).map(|served| pins::serials_of(served));
                    let Some(to) = serials.unwrap_or_default().into_iter().rev().nth(back) else { continue };
                    let (done, _) = oneshot::channel();
                    let order = Box::new(PinOrder { region: name("w.x"), to, reason: None });
                    run.bench.keeper.handle(Vec::new(), vec![Command::Pin(order, done)]);
                }
                Event::Release => {
                    let (done, _) = oneshot::channel();
                    run.bench.keeper.handle(Vec::new(), vec![Command::Release(name("w.x"), done)]);
                }
                Event::Follow => {
                    let Some((zone, history)) = run.served() else { continue };
                    let way = copy.as_ref().and_then(|copy| history.since(copy.soa_rrset().rdatas().next().unwrap()));
                    copy = Some(match (&copy, way) {
                        (Some(copy), _) if copy.soa == zone.soa => copy.clone(),
                        (Some(copy), Some(way)) => way.iter().fold(copy.clone(), |zone, delta| delta.apply(&zone).expect("the difference fits")),
                        _ => (*zone).clone(),
                    });
                    prop_assert_eq!(copy.as_ref().unwrap(), &*zone);
                }
            }
            let Some((zone, _)) = run.served() else { continue };
            let serial = zone.soa.serial;
            prop_assert!(last.is_none_or(|last| serial == last || serial.newer_than(last)), "{:?} then {}", last, serial);
            // Half way around the circle nobody knows a serial any more, and it may come again.
            let is_past = |other: Serial| serial == other || serial.newer_than(other);
            seen.retain(|other, _| is_past(*other));
            copy = copy.filter(|copy| is_past(copy.soa.serial));
            let text = format!("{zone:?}");
            prop_assert_eq!(seen.entry(serial).or_insert_with(|| text.clone()), &text);
            last = Some(serial);
        }
        run.end();
    }
}

#[test]
fn a_catalog_does_not_fall_behind_itself_when_the_clock_does() {
    let folder = tempfile::tempdir().unwrap();
    let run = |last: Option<u32>| {
        let (metrics, publisher) = (Arc::new(Metrics::new()), Arc::new(Publisher::default()));
        let store = Arc::new(state::open(folder.path(), metrics.clone()).unwrap());
        let mut keeper = Keeper::new(publisher.clone(), metrics, Some(store.clone()));
        if let Some(last) = last {
            // As if the clock had been that far ahead when the catalog was published.
            let state = RegionState { drift: 0, last: Serial(last), fingerprint: 0 };
            keeper.seen_serials.insert(name("c.x"), state);
        }
        let (done, _changes) = oneshot::channel();
        let catalog = Some(CatalogPlan { origin: name("c.x"), server_name: name("ns.x") });
        keeper.handle(Vec::new(), vec![Command::Plan(Box::new(Plan { catalog, ..Plan::default() }), done)]);
        assert!(store.flush(Duration::from_secs(20)));
        let published = publisher.load();
        published.get(&name("c.x")).unwrap().zone.as_ref().unwrap().soa.serial
    };
    let future = unix_seconds(SystemTime::now()) as u32 + 1_000_000;
    let ahead = run(Some(future));
    assert_eq!(ahead, Serial(future + 1));
    assert!(run(None).newer_than(ahead));
}
