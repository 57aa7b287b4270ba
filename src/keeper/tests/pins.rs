//! Pins, as clients, secondaries and operators see them.

use super::*;
use crate::merge;
use crate::state;
use proptest::prelude::*;
use std::path::Path;

const MEMBERS: [&str; 2] = ["w1.x", "w2.x"];

impl Bench {
    /// Returns the version of a region that clients see.
    pub fn served(&self, region: &str) -> Arc<Served> {
        self.publisher.load().get(&name(region)).unwrap().clone()
    }

    pub fn number(&self, region: &str) -> u32 {
        self.served(region).zone.as_ref().unwrap().soa.serial.0
    }

    pub fn pin(&mut self, region: &str, to: u32) -> Result<Pin, PinError> {
        let (done, mut answered) = oneshot::channel();
        let order = PinOrder { region: name(region), to: Serial(to), reason: Some("it was better".into()) };
        self.keeper.handle(Vec::new(), vec![Command::Pin(Box::new(order), done)]);
        answered.try_recv().unwrap()
    }

    pub fn release(&mut self, region: &str) -> Result<Pin, PinError> {
        let (done, mut answered) = oneshot::channel();
        self.keeper.handle(Vec::new(), vec![Command::Release(name(region), done)]);
        answered.try_recv().unwrap()
    }

    pub fn region_status(&self) -> RegionStatus {
        self.status().regions[0].clone()
    }

    /// The causes of the newest version of a region.
    fn causes(&self, region: &str) -> Vec<Cause> {
        self.served(region).history.steps().next_back().unwrap().causes.to_vec()
    }
}

/// A region that was served as 30, 31 and 32, with one name fewer each time.
fn bench() -> Bench {
    let mut bench = Bench::new(&MEMBERS, vec![region("w.x", &MEMBERS)]);
    bench.load("w1.x.", "@ 30 SOA 10\nweb 30 A 192.0.2.1\na 30 A 192.0.2.1\nb 30 A 192.0.2.1", ZERO);
    bench.load("w2.x.", "@ 30 SOA 20\nweb 30 A 192.0.2.2", ZERO);
    bench.load("w1.x.", "@ 30 SOA 11\nweb 30 A 192.0.2.1\na 30 A 192.0.2.1", ZERO);
    bench.load("w1.x.", "@ 30 SOA 12\nweb 30 A 192.0.2.1", ZERO);
    assert_eq!(bench.number("w.x"), 32);
    bench
}

/// The records of a version but for the SOA.
fn records(zone: &Zone) -> String {
    let text = format!("{zone:?}");
    text.lines().filter(|line| !line.contains(" SOA ")).map(|line| format!("{line}\n")).collect()
}

#[test]
fn a_pinned_region_stays_as_it_was_until_it_is_released() {
    let mut bench = bench();
    assert_eq!((bench.ask("a.w.x"), bench.ask("b.w.x")), ((3, 0), (3, 0)));
    let generation = bench.publisher.load().generation;
    let pin = bench.pin("w.x", 30).unwrap();
    assert_eq!((pin.to, pin.serial, bench.number("w.x")), (Serial(30), Serial(33), 33));
    assert_eq!(bench.publisher.load().generation, generation + 1, "one publication");
    assert_eq!((bench.ask("a.w.x"), bench.ask("b.w.x"), bench.ask("web.w.x")), ((0, 1), (0, 1), (0, 2)));
    assert_eq!(bench.causes("w.x"), [Cause::Rollback { to: Serial(30) }]);
    let status = bench.region_status();
    assert_eq!((status.serial, status.drift, status.pinned.unwrap().to), (Some(Serial(33)), 0, Serial(30)));
    let line = "aggregator_region_pinned_since_timestamp_seconds{region=\"w.x.\"}";
    assert!(bench.keeper.metrics.render().contains(line));
    // Its members go on, in their own zones.
    bench.load("w1.x.", "@ 30 SOA 13\nc 30 A 192.0.2.1", ZERO);
    bench.drain("w2.x", None, true);
    assert_eq!((bench.ask("c.w1.x"), bench.ask("c.w.x"), bench.number("w.x")), ((0, 1), (3, 0), 33));
    // To another version, and to the one that it has.
    assert_eq!(bench.pin("w.x", 31).unwrap().serial, Serial(34));
    assert_eq!((bench.ask("a.w.x"), bench.ask("b.w.x")), ((0, 1), (3, 0)));
    assert_eq!(bench.pin("w.x", 34).unwrap().serial, Serial(35));
    assert_eq!((bench.ask("a.w.x"), bench.ask("b.w.x")), ((0, 1), (3, 0)));
    let released = bench.release("w.x").unwrap();
    assert_eq!((released.to, bench.number("w.x")), (Serial(34), 36));
    assert_eq!((bench.ask("c.w.x"), bench.ask("a.w.x"), bench.ask("web.w.x")), ((0, 1), (3, 0), (3, 0)));
    assert_eq!(bench.causes("w.x"), [Cause::Release]);
    assert!(!bench.keeper.metrics.render().contains(line) && bench.region_status().pinned.is_none());
    // And the sum of the members catches up.
    bench.load("w1.x.", "@ 30 SOA 40\nc 30 A 192.0.2.1", ZERO);
    assert_eq!((bench.number("w.x"), bench.region_status().drift), (60, 0));
    let member = Cause::Member { zone: name("w1.x"), serial: Some(Serial(40)) };
    assert_eq!(bench.causes("w.x"), [member]);
    bench.drain("w2.x", None, false);
    assert_eq!(bench.causes("w.x"), [Cause::Drain]);
}

#[test]
fn versions_tell_why_they_came() {
    let mut bench = bench();
    bench.update("w2.x", News::Current, Duration::from_secs(2_592_001));
    assert_eq!(bench.causes("w.x"), [Cause::Member { zone: name("w2.x"), serial: None }]);
    bench.update("w2.x", News::Current, ZERO);
    assert_eq!(bench.causes("w.x"), [Cause::Member { zone: name("w2.x"), serial: Some(Serial(20)) }]);
    bench.plan(&MEMBERS, vec![RegionPlan { ns_ttl: 60, ..region("w.x", &MEMBERS) }]);
    assert_eq!(bench.causes("w.x"), [Cause::Configuration]);
    // Both at once are one version.
    let updates = MEMBERS.map(|zone| {
        let news = News::Load { loaded: Box::new(load(&format!("{zone}."), "@ 30 SOA 90", None)), base: None };
        Update { news: vec![(name(zone), news)], refreshed: Instant::now(), published: None }
    });
    bench.keeper.handle(updates.into(), Vec::new());
    assert_eq!(bench.causes("w.x"), MEMBERS.map(|zone| Cause::Member { zone: name(zone), serial: Some(Serial(90)) }));
    // Behind a pin they are nobody's.
    bench.pin("w.x", 180).unwrap();
    bench.load("w1.x.", "@ 30 SOA 91\nweb 30 A 192.0.2.1", ZERO);
    bench.release("w.x").unwrap();
    assert_eq!(bench.causes("w.x"), [Cause::Release]);
    assert_eq!(bench.causes("w1.x"), [Cause::Source]);
}

#[test]
fn every_version_leads_to_the_present_by_differences() {
    let mut bench = bench();
    bench.pin("w.x", 31).unwrap();
    bench.load("w1.x.", "@ 30 SOA 500\nc 30 A 192.0.2.1", ZERO);
    bench.release("w.x").unwrap();
    let served = bench.served("w.x");
    let serials: Vec<u32> = served.history.iter().map(|delta| delta.from_serial().0).collect();
    assert_eq!((serials, bench.number("w.x")), (vec![30, 31, 32, 33], 520));
    let mut zone = (**served.zone.as_ref().unwrap()).clone();
    for delta in served.history.iter().rev() {
        zone = delta.invert().apply(&zone).unwrap();
    }
    assert!(format!("{zone:?}").contains("b.w.x. 30 IN A 192.0.2.1"));
}

#[test]
fn what_cannot_be_pinned_is_said() {
    let mut bench = bench();
    assert_eq!(bench.pin("w.x", 29), Err(PinError::Unreachable(name("w.x"), Serial(29))));
    assert_eq!(bench.pin("w1.x", 10), Err(PinError::NoRegion(name("w1.x"))));
    assert_eq!(bench.release("w.x"), Err(PinError::NotPinned(name("w.x"))));
    assert_eq!(bench.release("y"), Err(PinError::NoRegion(name("y"))));
    assert_eq!(bench.number("w.x"), 32);
    let mut fresh = Bench::new(&MEMBERS, vec![region("w.x", &MEMBERS)]);
    assert_eq!(fresh.pin("w.x", 1), Err(PinError::NotServed(name("w.x"))));
}

#[test]
fn a_pinned_region_outlives_its_members() {
    let mut bench = bench();
    bench.pin("w.x", 30).unwrap();
    for member in MEMBERS {
        bench.update(member, News::Current, Duration::from_secs(2_592_001));
    }
    assert_eq!((bench.state("w1.x"), bench.state("w.x"), bench.ask("web.w.x")), (State::Expired, State::Ok, (0, 2)));
    assert_eq!(bench.number("w.x"), 33);
    // Without any member there is nothing to follow.
    bench.release("w.x").unwrap();
    assert_eq!(bench.state("w.x"), State::Expired);
    bench.update("w1.x", News::Current, ZERO);
    assert_eq!((bench.state("w.x"), bench.ask("web.w.x")), (State::Ok, (0, 1)));
    assert!(Serial(bench.number("w.x")).newer_than(Serial(33)));
    // One that goes and comes behind a pin leaves nothing.
    bench.update("w2.x", News::Current, ZERO);
    let serial = bench.number("w.x");
    bench.pin("w.x", serial).unwrap();
    bench.update("w1.x", News::Current, Duration::from_secs(2_592_001));
    bench.update("w2.x", News::Current, Duration::from_secs(2_592_001));
    bench.update("w1.x", News::Current, ZERO);
    bench.update("w2.x", News::Current, ZERO);
    bench.release("w.x").unwrap();
    assert_eq!((bench.ask("web.w.x"), bench.number("w.x")), ((0, 2), serial + 2));
}

#[test]
fn a_reload_keeps_the_pin_and_the_region_ends_it() {
    let mut bench = bench();
    bench.pin("w.x", 30).unwrap();
    let changes = bench.plan(&["w1.x", "w2.x", "w3.x"], vec![region("w.x", &["w1.x", "w2.x", "w3.x"])]);
    assert_eq!((changes.rebuilt, changes.pinned), (vec![name("w.x")], vec![name("w.x")]));
    assert_eq!((bench.number("w.x"), bench.ask("b.w.x"), bench.state("w.x")), (33, (0, 1), State::Ok));
    bench.load("w3.x.", "@ 30 SOA 5\nn 30 A 192.0.2.3", ZERO);
    assert_eq!((bench.ask("n.w.x"), bench.number("w.x")), ((3, 0), 33));
    bench.plan(&["w1.x"], vec![region("w.x", &["w1.x"])]);
    bench.release("w.x").unwrap();
    assert_eq!((bench.ask("web.w.x"), bench.number("w.x")), ((0, 1), 34));
    bench.pin("w.x", 34).unwrap();
    assert_eq!(bench.plan(&["w1.x"], Vec::new()).unpinned, [name("w.x")]);
    bench.plan(&["w1.x"], vec![region("w.x", &["w1.x"])]);
    assert!(bench.region_status().pinned.is_none());
    assert!(Serial(bench.number("w.x")).newer_than(Serial(35)));
}

/// A program with its files, which goes on with what is there.
fn start(folder: &Path, members: &[&str]) -> Bench {
    let (metrics, publisher) = (Arc::new(Metrics::new()), Arc::new(Publisher::default()));
    let store = Arc::new(state::open(folder, metrics.clone()).unwrap());
    let keeper = Keeper::new(publisher.clone(), metrics, Some(store.clone()));
    let mut bench = Bench { keeper, publisher };
    let lifetime = Lifetime { shortest: ZERO, longest: Duration::MAX };
    let names = MEMBERS.iter().chain(&["w.x"]);
    let restored = names.filter_map(|zone| Some((name(zone), store.load(&name(zone))?))).collect();
    let past = [(name("w.x"), store.load_past(&name("w.x")))].into();
    let (done, _changes) = oneshot::channel();
    let zones = MEMBERS.iter().map(|zone| (name(zone), lifetime)).collect();
    let regions = if members.is_empty() { Vec::new() } else { vec![region("w.x", members)] };
    let plan = Plan { zones, regions, restored, past, ..Plan::default() };
    bench.keeper.handle(Vec::new(), vec![Command::Plan(Box::new(plan), done)]);
    bench
}

/// Ends a program when everything is on disk.
fn end(bench: Bench) {
    assert!(bench.keeper.store.as_ref().unwrap().flush_all());
}

#[test]
fn pin_and_history_outlive_the_program() {
    let folder = tempfile::tempdir().unwrap();
    let mut bench = start(folder.path(), &MEMBERS);
    bench.load("w1.x.", "@ 30 SOA 10\nweb 30 A 192.0.2.1\na 30 A 192.0.2.1", ZERO);
    bench.load("w2.x.", "@ 30 SOA 20\nweb 30 A 192.0.2.2", ZERO);
    bench.load("w1.x.", "@ 30 SOA 11\nweb 30 A 192.0.2.1", ZERO);
    let steps = |bench: &Bench| -> Vec<(u32, Option<u64>, Vec<Cause>)> {
        let served = bench.served("w.x");
        let at = |step: &HistoryStep| Some(step.at?.duration_since(SystemTime::UNIX_EPOCH).ok()?.as_millis() as u64);
        served.history.steps().map(|step| (step.delta.to_serial().0, at(step), step.causes.to_vec())).collect()
    };
    let before = steps(&bench);
    assert_eq!(before.len(), 1);
    end(bench);
    let mut bench = start(folder.path(), &MEMBERS);
    assert_eq!((steps(&bench), bench.number("w.x")), (before, 31));
    assert_eq!(bench.pin("w.x", 30).unwrap().serial, Serial(32));
    let before = steps(&bench);
    end(bench);
    let mut bench = start(folder.path(), &MEMBERS);
    assert_eq!((steps(&bench), bench.number("w.x"), bench.ask("a.w.x")), (before, 32, (0, 1)));
    assert_eq!(bench.region_status().pinned.unwrap().reason.as_deref(), Some("it was better"));
    bench.load("w2.x.", "@ 30 SOA 21\nb 30 A 192.0.2.2", ZERO);
    assert_eq!((bench.number("w.x"), bench.ask("b.w.x")), (32, (3, 0)));
    end(bench);
    // Its members are others now.
    let mut bench = start(folder.path(), &MEMBERS[1..]);
    assert_eq!((bench.number("w.x"), bench.ask("a.w.x")), (32, (0, 1)));
    bench.release("w.x").unwrap();
    assert_eq!((bench.number("w.x"), bench.ask("a.w.x"), bench.ask("b.w.x")), (33, (3, 0), (0, 1)));
    let before = steps(&bench);
    end(bench);
    let bench = start(folder.path(), &MEMBERS[1..]);
    assert_eq!((steps(&bench), bench.number("w.x"), bench.region_status().pinned.is_none()), (before, 33, true));
    let length = std::fs::metadata(folder.path().join("zones/w.x/snapshot")).unwrap().len();
    assert!(length < 300, "{length} octets are left of the contents");
}

#[test]
fn a_pin_without_its_contents_is_over() {
    let folder = tempfile::tempdir().unwrap();
    let begin = || {
        let mut bench = start(folder.path(), &MEMBERS);
        if bench.served("w.x").zone.is_none() {
            bench.load("w1.x.", "@ 30 SOA 10\nweb 30 A 192.0.2.1", ZERO);
            bench.load("w2.x.", "@ 30 SOA 20\nweb 30 A 192.0.2.2", ZERO);
        }
        let serial = bench.number("w.x");
        bench.pin("w.x", serial).unwrap();
        end(bench);
    };
    begin();
    std::fs::remove_file(folder.path().join("zones/w.x/snapshot")).unwrap();
    let bench = start(folder.path(), &MEMBERS);
    assert!(bench.region_status().pinned.is_none() && bench.number("w.x") == 32, "{}", bench.number("w.x"));
    end(bench);
    let bench = start(folder.path(), &MEMBERS);
    assert_eq!(bench.keeper.store.as_ref().unwrap().facts.pins, []);
    end(bench);
    // The region is not in the configuration.
    begin();
    end(start(folder.path(), &[]));
    let bench = start(folder.path(), &MEMBERS);
    assert!(bench.region_status().pinned.is_none());
}

#[test]
fn a_pin_whose_last_change_was_cut_off_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let mut bench = start(folder.path(), &MEMBERS);
    bench.load("w1.x.", "@ 30 SOA 10\na 30 A 192.0.2.1", ZERO);
    bench.load("w2.x.", "@ 30 SOA 20\nweb 30 A 192.0.2.2", ZERO);
    bench.load("w1.x.", "@ 30 SOA 11\nb 30 A 192.0.2.1", ZERO);
    bench.load("w1.x.", "@ 30 SOA 12\nc 30 A 192.0.2.1", ZERO);
    assert_eq!(bench.pin("w.x", 30).unwrap().serial, Serial(33));
    end(bench);
    let region = folder.path().join("zones/w.x");
    let contents = |wanted: fn(&str) -> bool| -> Vec<(std::path::PathBuf, Vec<u8>)> {
        let paths = std::fs::read_dir(&region).unwrap().map(|entry| entry.unwrap().path());
        let meant = paths.filter(|path| wanted(path.file_name().unwrap().to_str().unwrap()));
        meant.map(|path| (path.clone(), std::fs::read(path).unwrap())).collect()
    };
    let is_contents = |file: &str| !file.starts_with("past.");
    let older = contents(is_contents);
    let mut bench = start(folder.path(), &MEMBERS);
    assert_eq!((bench.ask("a.w.x"), bench.pin("w.x", 31).unwrap().serial), ((0, 1), Serial(34)));
    end(bench);
    // The order is on disk, and the contents are those of the pin before.
    let cut = || {
        contents(is_contents).iter().for_each(|(path, _)| std::fs::remove_file(path).unwrap());
        older.iter().for_each(|(path, bytes)| std::fs::write(path, bytes).unwrap());
    };
    cut();
    let regions = std::fs::read(folder.path().join("regions")).unwrap();
    let bench = start(folder.path(), &MEMBERS);
    assert_eq!((bench.number("w.x"), bench.ask("a.w.x"), bench.ask("b.w.x")), (34, (3, 0), (0, 1)), "by the history");
    end(bench);
    // Nothing leads to the new contents.
    cut();
    contents(|file| file.starts_with("past.")).iter().for_each(|(path, _)| std::fs::remove_file(path).unwrap());
    std::fs::write(folder.path().join("regions"), regions).unwrap();
    for _ in 0..2 {
        let bench = start(folder.path(), &MEMBERS);
        let pin = bench.region_status().pinned.unwrap();
        assert_eq!((bench.number("w.x"), pin.to, bench.ask("a.w.x")), (35, Serial(33), (0, 1)), "as it was before");
        assert_eq!((bench.ask("b.w.x"), bench.ask("c.w.x")), ((3, 0), (3, 0)));
        end(bench);
    }
}

#[test]
fn a_region_can_be_taken_back_over_a_change_of_nearly_everything() {
    let mut bench = Bench::new(&MEMBERS, vec![region("w.x", &MEMBERS)]);
    let many: String = (0..2 * SMALL_CHANGE).map(|number| format!("\nh{number} 30 A 192.0.2.1")).collect();
    bench.load("w1.x.", &format!("@ 30 SOA 10{many}"), ZERO);
    bench.load("w2.x.", "@ 30 SOA 20\nweb 30 A 192.0.2.2", ZERO);
    bench.load("w1.x.", "@ 30 SOA 11", ZERO);
    assert_eq!((bench.number("w.x"), bench.ask("h7.w.x"), bench.served("w1.x").history.len()), (31, (3, 0), 0));
    bench.pin("w.x", 30).unwrap();
    assert_eq!((bench.number("w.x"), bench.ask("h7.w.x"), bench.ask("web.w.x")), (32, (0, 1), (0, 1)));
    // What history_bytes has no room for is not even composed.
    bench.keeper.history.bytes = 100 * SMALL_CHANGE;
    bench.release("w.x").unwrap();
    assert_eq!((bench.number("w.x"), bench.served("w.x").history.len()), (33, 0));
}

#[test]
fn all_histories_together_keep_to_a_total() {
    let mut bench = bench();
    let bytes = |bench: &Bench| ["w1.x", "w2.x", "w.x"].map(|zone| bench.served(zone).history.bytes());
    let before: usize = bytes(&bench).iter().sum();
    bench.keeper.history.total = before;
    for serial in 13..40 {
        bench.load("w1.x.", &format!("@ 30 SOA {serial}\nweb 30 A 192.0.2.{serial}"), ZERO);
        assert!(bytes(&bench).iter().sum::<usize>() <= before);
        let newest = bench.served("w.x").history.iter().next_back().map(|delta| delta.to_serial());
        assert_eq!(newest, Some(Serial(20 + serial)));
    }
}

//--- Law ---

/// Event in the life of a region.
#[derive(Clone, Debug)]
enum Event {
    Load {
        member: usize,
        step: u32,
        content: u8,
    },
    Expire {
        member: usize,
    },
    Return {
        member: usize,
    },
    Drain {
        member: usize,
        begins: bool,
    },
    /// Pins the region to a version, counted back from the present one.
    Pin {
        back: usize,
    },
    Release,
}

fn event() -> impl Strategy<Value = Event> {
    let step = prop::sample::select(vec![0u32, 1, 2, 1000, 1 << 30, u32::MAX]);
    prop_oneof![
        6 => (0..2usize, step, any::<u8>()).prop_map(|(member, step, content)| Event::Load { member, step, content }),
        1 => (0..2usize).prop_map(|member| Event::Expire { member }),
        2 => (0..2usize).prop_map(|member| Event::Return { member }),
        1 => (0..2usize, any::<bool>()).prop_map(|(member, begins)| Event::Drain { member, begins }),
        3 => (0..4usize).prop_map(|back| Event::Pin { back }),
        2 => Just(Event::Release),
    ]
}

proptest! {
    /// While a region is pinned its answers have exactly what the version had, and nothing else moves its serial;
    /// before and after they have exactly what its members have; and every step that clients see is one forward, and in
    /// the history.
    #[test]
    fn answers_have_what_the_version_had_or_what_the_members_have(events in prop::collection::vec(event(), 1..40)) {
        let mut bench = bench();
        let (mut serials, mut expired, mut drained) = ([12u32, 20], [false; 2], [false; 2]);
        let mut contents = ["web 30 A 192.0.2.1".to_owned(), "web 30 A 192.0.2.2".to_owned()];
        let mut seen: Vec<(Serial, String)> = versions(&bench);
        let mut pinned: Option<String> = None;
        let mut last: Option<Serial> = None;
        for event in events {
            let before = bench.served("w.x").zone.clone();
            match event {
                Event::Load { member, step, content } => {
                    serials[member] = serials[member].wrapping_add(step);
                    contents[member] = format!("web 30 A 192.0.2.{content}\nh{} 30 A 192.0.2.{content}", content % 5);
                    expired[member] = false;
                    let text = format!("@ 30 SOA {}\n{}", serials[member], contents[member]);
                    bench.load(&format!("{}.", MEMBERS[member]), &text, ZERO);
                }
                Event::Expire { member } => {
                    expired[member] = true;
                    bench.update(MEMBERS[member], News::Current, Duration::from_secs(2_592_001));
                }
                Event::Return { member } => {
                    expired[member] = false;
                    bench.update(MEMBERS[member], News::Current, ZERO);
                }
                Event::Drain { member, begins } => {
                    drained[member] = begins;
                    bench.drain(MEMBERS[member], None, begins);
                }
                Event::Pin { back } => {
                    let Some(to) = serials_of(&bench.served("w.x")).into_iter().rev().nth(back) else { continue };
                    let known = seen.iter().rev().find(|(serial, _)| *serial == to).map(|(_, text)| text.clone());
                    let is_served = bench.state("w.x") == State::Ok;
                    match bench.pin("w.x", to.0) {
                        Ok(pin) => {
                            prop_assert!(is_served && pin.serial.newer_than(before.as_ref().unwrap().soa.serial));
                            pinned = Some(known.expect("a version that was served"));
                        }
                        Err(PinError::NotServed(_)) => prop_assert!(!is_served),
                        // A serial that stood for other contents before.
                        Err(PinError::Unreachable(..)) => prop_assert!(back > 0),
                        Err(error) => panic!("{error}"),
                    }
                }
                Event::Release => {
                    prop_assert_eq!(bench.release("w.x").is_ok(), pinned.is_some());
                    pinned = None;
                }
            }
            let served = bench.served("w.x");
            if served.state != State::Ok {
                prop_assert!(pinned.is_none() && !has_any(expired, drained));
                continue;
            }
            prop_assert!(pinned.is_some() || has_any(expired, drained));
            let zone = served.zone.clone().unwrap();
            let serial = zone.soa.serial;
            let is_same = last == Some(serial);
            prop_assert!(is_same || last.is_none_or(|last| serial.newer_than(last)), "{:?} then {}", last, serial);
            let expected = match &pinned {
                Some(text) => text.clone(),
                None => records(&naive(&contents, expired, drained)),
            };
            prop_assert_eq!(records(&zone), expected);
            if !is_same {
                seen.push((serial, records(&zone)));
                let moved = before.filter(|_| last.is_some()).zip(served.history.iter().next_back());
                if let Some((before, step)) = moved.filter(|(before, step)| step.from == *before.soa_rrset()) {
                    prop_assert_eq!(&step.apply(&before).unwrap(), &*zone);
                }
            }
            last = Some(serial);
        }
    }
}

/// Returns true if the region has any data. A drained member helps no other member that is not drained and has expired.
fn has_any(expired: [bool; 2], drained: [bool; 2]) -> bool {
    (0..2).any(|member| !expired[member] && (!drained[member] || drained == [true; 2]))
}

/// The serials of the versions that a zone's history reaches, oldest first.
pub(super) fn serials_of(served: &Served) -> Vec<Serial> {
    let older = served.history.iter().map(|delta| delta.from_serial());
    older.chain(served.zone.as_ref().map(|zone| zone.soa.serial)).collect()
}

/// The versions of the region until now.
fn versions(bench: &Bench) -> Vec<(Serial, String)> {
    let served = bench.served("w.x");
    let mut zone = (**served.zone.as_ref().unwrap()).clone();
    let mut versions = vec![(zone.soa.serial, records(&zone))];
    for delta in served.history.iter().rev() {
        zone = delta.invert().apply(&zone).unwrap();
        versions.insert(0, (zone.soa.serial, records(&zone)));
    }
    versions
}

/// The region as the members are, merged by a program of its own that knows nothing of what was before.
fn naive(contents: &[String; 2], expired: [bool; 2], drained: [bool; 2]) -> Zone {
    let member = |index: usize| {
        let text = if drained[index] { String::new() } else { contents[index].clone() };
        let zone = crate::zone::tests::zone(&format!("{}.", MEMBERS[index]), &format!("@ 30 SOA 1\n{text}"));
        Some(Arc::new(zone)).filter(|_| !expired[index])
    };
    let mut region = merge::Region::new(super::region("w.x", &MEMBERS));
    region.merge_all(&[member(0), member(1)], Instant::now());
    (*region.zone.unwrap()).clone()
}

#[test]
fn what_is_pinned_and_the_catalog_count_as_long_as_they_are_there() {
    let mut bench = bench();
    let parts = |bench: &Bench| {
        let usage = bench.keeper.budget.usage();
        (usage.pinned, usage.catalog)
    };
    assert_eq!(parts(&bench), (0, 0));
    bench.pin("w.x", 30).unwrap();
    let octets = bench.served("w.x").zone.as_ref().unwrap().octets();
    assert!(octets > 0);
    assert_eq!(parts(&bench), (octets, 0));
    bench.release("w.x").unwrap();
    assert_eq!(parts(&bench), (0, 0));
    let (done, _changes) = oneshot::channel();
    let catalog = Some(CatalogPlan { origin: name("c.x"), server_name: name("ns.x") });
    bench.keeper.handle(Vec::new(), vec![Command::Plan(Box::new(Plan { catalog, ..Plan::default() }), done)]);
    let octets = bench.served("c.x").zone.as_ref().unwrap().octets();
    assert_eq!(parts(&bench), (0, octets));
}
