//! The keeper's states, without sources or sockets.

mod answers;
mod counts;
mod damping;
mod drains;
mod filter;
mod others;
mod pins;
mod restarts;
mod serials;
mod series;
mod steering;
mod transitions;

use super::fingerprint::fingerprint;
use super::*;
use crate::catalog::CatalogPlan;
use crate::merge::serial;
use crate::merge::tests::plan;
use crate::merge::{NamePattern, OnExpire, RegionPlan};
use crate::metrics::unix_seconds;
use crate::publish::{Served, State};
use crate::serve::answer::answer;
use crate::state::Restored;
use crate::zone::tests::load;
use crate::zone::{Cause, History, HistoryStep};

fn name(text: &str) -> Name {
    Name::parse(text).unwrap()
}

fn region(origin: &str, members: &[&str]) -> RegionPlan {
    RegionPlan { origin: name(origin), partial_after: Duration::from_secs(600), ..plan(members) }
}

struct Bench {
    keeper: Keeper,
    publisher: Arc<Publisher>,
}

impl Bench {
    fn new(zones: &[&str], regions: Vec<RegionPlan>) -> Bench {
        let publisher = Arc::new(Publisher::default());
        let mut bench = Bench { keeper: Keeper::new(publisher.clone(), Arc::new(Metrics::new()), None), publisher };
        bench.plan(zones, regions);
        bench
    }

    fn plan(&mut self, zones: &[&str], regions: Vec<RegionPlan>) -> PlanChanges {
        let (sender, mut changes) = oneshot::channel();
        let lifetime = Lifetime { shortest: ZERO, longest: Duration::MAX };
        let zones = zones.iter().map(|zone| (name(zone), lifetime)).collect();
        let plan = Box::new(Plan { zones, regions, ..Plan::default() });
        self.keeper.handle(Vec::new(), vec![Command::Plan(plan, sender)]);
        changes.try_recv().unwrap()
    }

    /// Loads a version of a zone as if it was refreshed some time ago.
    fn load(&mut self, zone: &str, lines: &str, age: Duration) {
        let base = self.publisher.load().get(&name(zone)).and_then(|served| served.zone.clone());
        let loaded = Box::new(load(zone, lines, base.as_deref()));
        self.update(zone, News::Load { loaded, base }, age);
    }

    /// Loads versions of several zones in one batch.
    fn load_together(&mut self, versions: &[(&str, &str)]) {
        let update = |(zone, lines): &(&str, &str)| {
            let base = self.publisher.load().get(&name(zone)).and_then(|served| served.zone.clone());
            let loaded = Box::new(load(&format!("{zone}."), lines, base.as_deref()));
            let news = News::Load { loaded, base };
            Update { news: vec![(name(zone), news)], refreshed: Instant::now(), published: None }
        };
        let updates = versions.iter().map(update).collect();
        self.keeper.handle(updates, Vec::new());
    }

    /// Lets the longest pause of a serial that is half way pass.
    fn pass(&mut self) {
        self.look(Instant::now() + Duration::from_secs(3600));
        self.keeper.save();
        self.keeper.publish([].iter(), true);
    }

    /// Looks at the regions whose time has come at a moment; returns true if any has a new version.
    fn look(&mut self, at: Instant) -> bool {
        let nothing = HashMap::new();
        let concerned = self.keeper.concerned(false, &nothing, at);
        let is_new = self.keeper.merge(&concerned, &nothing, at);
        self.keeper.update_states(&concerned, at);
        self.keeper.release_concerned(&concerned, at);
        is_new
    }

    fn update(&mut self, zone: &str, news: News, age: Duration) {
        let (published, mut done) = oneshot::channel();
        let refreshed = Instant::now().checked_sub(age).unwrap();
        let update = Update { news: vec![(name(zone), news)], refreshed, published: Some(published) };
        self.keeper.handle(vec![update], Vec::new());
        done.try_recv().unwrap();
    }

    /// Takes a member or names of it out of all its regions, or lets them in again.
    fn drain(&mut self, member: &str, names: Option<&str>, begins: bool) {
        let names = names.map(|names| NamePattern::parse(names).unwrap());
        let target = DrainTarget { member: name(member), region: None, names };
        let (done, mut answered) = oneshot::channel();
        let command = match begins {
            true => Command::Drain(
                Box::new(Drain {
                    target,
                    share: None,
                    since: SystemTime::now(),
                    until: None,
                    reason: None,
                    configured: false,
                }),
                done,
            ),
            false => Command::Undrain(vec![target], done),
        };
        self.keeper.handle(Vec::new(), vec![command]);
        answered.try_recv().unwrap();
    }

    fn status(&self) -> Status {
        self.keeper.snapshots.load().status(Instant::now())
    }

    fn state(&self, zone: &str) -> State {
        self.publisher.load().get(&name(zone)).unwrap().state
    }

    /// Response code and number of answers for an A question.
    fn ask(&self, owner: &str) -> (u16, u8) {
        let mut request = vec![0, 1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0];
        request.extend_from_slice(name(owner).as_wire());
        request.extend_from_slice(&[0, 1, 0, 1]);
        let mut out = [0; 512];
        let response = answer(&self.publisher.load(), &request, true, 0, &mut out).unwrap();
        (response.rcode, out[7])
    }
}

const ZERO: Duration = Duration::ZERO;

#[test]
fn a_replaced_root_goes_once_nobody_reads_it_or_after_a_while() {
    let mut bench = Bench::new(&["w1.x"], vec![]);
    bench.load("w1.x", "@ 30 SOA 1", ZERO);
    let read = bench.publisher.load();
    ["@ 30 SOA 2", "@ 30 SOA 3"].into_iter().for_each(|lines| bench.load("w1.x", lines, ZERO));
    assert_eq!(bench.keeper.retired.len(), 1, "that which is read");
    bench.keeper.retire(Instant::now() + RETIRE_AFTER / 2);
    assert_eq!(bench.keeper.retired.len(), 1);
    bench.keeper.retire(Instant::now() + 2 * RETIRE_AFTER);
    assert_eq!(bench.keeper.retired.len(), 0, "its reader frees it");
    drop(read);
    let read = bench.publisher.load();
    bench.load("w1.x", "@ 30 SOA 4", ZERO);
    drop(read);
    bench.keeper.handle(Vec::new(), Vec::new());
    assert_eq!(bench.keeper.retired.len(), 0);
}

#[test]
fn a_region_waits_for_its_members_and_then_stays() {
    let plan = || region("w.x", &["w1.x", "w2.x"]);
    let mut bench = Bench::new(&["w1.x", "w2.x"], vec![plan()]);
    assert_eq!((bench.state("w1.x"), bench.state("w.x")), (State::NotReady, State::NotReady));
    bench.load("w1.x.", "@ 30 SOA 1\nweb 30 A 192.0.2.1", ZERO);
    assert_eq!((bench.state("w1.x"), bench.state("w.x")), (State::Ok, State::NotReady));
    assert_eq!((bench.ask("web.w1.x"), bench.ask("web.w.x")), ((0, 1), (2, 0)));
    bench.load("w2.x.", "@ 30 SOA 1\nweb 30 A 192.0.2.2", ZERO);
    assert_eq!(bench.ask("web.w.x"), (0, 2));
    // A third member that is not there yet takes nothing away.
    let changes = bench.plan(&["w1.x", "w2.x", "w3.x"], vec![region("w.x", &["w1.x", "w2.x", "w3.x"])]);
    assert_eq!((changes.added, changes.rebuilt), (vec![name("w3.x")], vec![name("w.x")]));
    assert_eq!(bench.ask("web.w.x"), (0, 2));
    let changes = bench.plan(&["w1.x"], vec![region("w.x", &["w1.x"])]);
    assert_eq!(changes.removed.len(), 2);
    assert_eq!((bench.ask("web.w.x"), bench.ask("web.w2.x")), ((0, 1), (5, 0)));
}

#[test]
fn after_a_while_a_region_is_served_without_the_missing() {
    let mut plan = region("w.x", &["w1.x", "w2.x"]);
    plan.partial_after = ZERO;
    let mut bench = Bench::new(&["w1.x", "w2.x"], vec![plan]);
    assert_eq!(bench.state("w.x"), State::NotReady);
    bench.load("w1.x.", "@ 30 SOA 1\nweb 30 A 192.0.2.1", ZERO);
    assert_eq!(bench.ask("web.w.x"), (0, 1));
}

/// A zone may be in two regions (`docs/regions.md` 26), and what one of them does is no matter of the other.
#[test]
fn a_zone_of_two_regions_is_in_both() {
    let zones = ["w1.x", "w2.x"];
    let mut bench = Bench::new(&zones, vec![region("w.x", &["w1.x"]), region("v.x", &zones)]);
    bench.load("w1.x.", "@ 30 SOA 10\na 30 A 192.0.2.1", ZERO);
    bench.load("w2.x.", "@ 30 SOA 20\na 30 A 192.0.2.2", ZERO);
    assert_eq!((bench.ask("a.w.x"), bench.ask("a.v.x")), ((0, 1), (0, 2)));
    // A member that leaves one of them by configuration leaves it in one change (the same).
    bench.plan(&zones, vec![region("w.x", &["w1.x"]), region("v.x", &["w2.x"])]);
    assert_eq!((bench.ask("a.w.x"), bench.ask("a.v.x"), bench.ask("a.w1.x")), ((0, 1), (0, 1), (0, 1)));
}

#[test]
fn an_expired_member_leaves_and_comes_back() {
    let mut bench = Bench::new(&["w1.x", "w2.x"], vec![region("w.x", &["w1.x", "w2.x"])]);
    let expire = Duration::from_secs(2_592_001);
    bench.load("w1.x.", "@ 30 SOA 1\nweb 30 A 192.0.2.1", ZERO);
    bench.load("w2.x.", "@ 30 SOA 1\nweb 30 A 192.0.2.2", ZERO);
    let serial = |bench: &Bench| bench.keeper.regions[&name("w.x")].region.zone.as_ref().unwrap().soa.serial;
    let before = serial(&bench);
    bench.update("w2.x", News::Current, expire);
    assert_eq!((bench.state("w2.x"), bench.ask("web.w2.x"), bench.ask("web.w.x")), (State::Expired, (2, 0), (0, 1)));
    assert!(serial(&bench).newer_than(before));
    let snapshot = bench.status();
    let states: Vec<_> = snapshot.regions[0].members.iter().map(|member| member.state).collect();
    assert_eq!(states, ["ok", "expired"]);
    bench.update("w1.x", News::Current, expire);
    assert_eq!((bench.state("w.x"), bench.ask("web.w.x")), (State::Expired, (2, 0)));
    bench.update("w2.x", News::Current, ZERO);
    assert_eq!((bench.ask("web.w2.x"), bench.ask("web.w.x")), ((0, 1), (0, 1)));
    bench.load("w1.x.", "@ 30 SOA 2\nweb 30 A 192.0.2.3\nnew 30 A 192.0.2.3", ZERO);
    assert_eq!((bench.ask("web.w.x"), bench.ask("new.w.x")), ((0, 2), (0, 1)));
}

#[test]
fn the_order_of_arrival_leaves_no_trace_in_the_serial() {
    let serial_after = |order: [usize; 3]| {
        let zones = ["w1.x", "w2.x", "w3.x"];
        let mut bench = Bench::new(&zones, vec![region("w.x", &zones)]);
        for index in order {
            // Serials by date: the sum of three passes 2^31 more than once.
            bench.load(&format!("{}.", zones[index]), "@ 30 SOA 2026010101\na 30 A 192.0.2.1", ZERO);
        }
        let kept = &bench.keeper.regions[&name("w.x")].region;
        (kept.zone.as_ref().unwrap().soa.serial, kept.serial.drift())
    };
    let sum = serial::region_sum(0, [Serial(2_026_010_101); 3]);
    for order in [[0, 1, 2], [2, 1, 0], [1, 0, 2]] {
        assert_eq!(serial_after(order), (sum, 0));
    }
}

#[test]
fn a_region_that_was_never_served_waits_on_whatever_expires() {
    let mut bench = Bench::new(&["w1.x", "w2.x"], vec![region("w.x", &["w1.x", "w2.x"])]);
    bench.load("w1.x.", "@ 30 SOA 1\nweb 30 A 192.0.2.1", ZERO);
    bench.update("w1.x", News::Current, Duration::from_secs(2_592_001));
    assert_eq!((bench.state("w1.x"), bench.state("w.x")), (State::Expired, State::NotReady));
    bench.update("w1.x", News::Current, ZERO);
    assert_eq!((bench.state("w1.x"), bench.state("w.x")), (State::Ok, State::NotReady));
    bench.load("w2.x.", "@ 30 SOA 1\nweb 30 A 192.0.2.2", ZERO);
    assert_eq!(bench.ask("web.w.x"), (0, 2));
}

#[test]
fn a_region_that_comes_back_does_not_fall_behind_itself() {
    let plan = || vec![region("w.x", &["w1.x"])];
    let mut bench = Bench::new(&["w1.x"], plan());
    bench.load("w1.x.", "@ 30 SOA 7\nweb 30 A 192.0.2.1", ZERO);
    bench.load("w1.x.", "@ 30 SOA 7\nweb 30 A 192.0.2.2", ZERO);
    let serial = |bench: &Bench| bench.publisher.load().get(&name("w.x")).unwrap().zone.as_ref().unwrap().soa.serial;
    assert_eq!(serial(&bench), Serial(8));
    bench.plan(&["w1.x"], Vec::new());
    bench.plan(&["w1.x"], plan());
    assert!(serial(&bench).newer_than(Serial(8)));
}

#[test]
fn a_region_can_let_go_of_a_silent_member_before_its_zone_expires() {
    let mut plan = region("w.x", &["w1.x", "w2.x"]);
    plan.expire_after = Some(Duration::from_secs(3600));
    let mut bench = Bench::new(&["w1.x", "w2.x"], vec![plan]);
    bench.load("w1.x.", "@ 30 SOA 1\nweb 30 A 192.0.2.1", ZERO);
    bench.load("w2.x.", "@ 30 SOA 1\nweb 30 A 192.0.2.2", ZERO);
    assert_eq!(bench.ask("web.w.x"), (0, 2));
    bench.update("w2.x", News::Current, Duration::from_secs(3601));
    assert_eq!((bench.ask("web.w2.x"), bench.ask("web.w.x")), ((0, 1), (0, 1)));
    bench.load("w2.x.", "@ 30 SOA 2\nweb 30 A 192.0.2.2\nnew 30 A 192.0.2.2", ZERO);
    assert_eq!((bench.ask("web.w.x"), bench.ask("new.w.x")), ((0, 2), (0, 1)));
}

#[test]
fn members_can_stay_beyond_expiry() {
    let mut plan = region("w.x", &["w1.x"]);
    plan.on_expire = OnExpire::Keep;
    let mut bench = Bench::new(&["w1.x"], vec![plan.clone()]);
    bench.load("w1.x.", "@ 30 SOA 1\nweb 30 A 192.0.2.1", ZERO);
    bench.update("w1.x", News::Current, Duration::from_secs(2_592_001));
    assert_eq!((bench.ask("web.w1.x"), bench.ask("web.w.x")), ((2, 0), (0, 1)));
    // It is in the region, and so nobody is told that it is not.
    assert_eq!(bench.status().regions[0].members[0].state, "stale");
}

#[test]
fn what_is_known_can_be_read_while_a_region_is_merged() {
    let zones = ["w1.x", "w2.x"];
    let mut bench = Bench::new(&zones, Vec::new());
    for zone in zones {
        let lines: String = (0..5_000).map(|number| format!("n{number} 30 A 192.0.2.1\n")).collect();
        bench.load(&format!("{zone}."), &format!("@ 30 SOA 1\n{lines}"), ZERO);
    }
    let snapshots = bench.keeper.snapshots.clone();
    let serials: Vec<Option<Serial>> = std::thread::scope(|scope| {
        let merge = scope.spawn(|| bench.plan(&zones, vec![region("w.x", &zones)]));
        let mut serials = Vec::new();
        while !merge.is_finished() {
            let status = snapshots.load().status(Instant::now());
            assert_eq!(status.zones.len(), 2);
            serials.push(status.regions.first().and_then(|region| region.serial));
        }
        serials
    });
    assert!(serials.iter().filter(|serial| serial.is_none()).count() > 10, "{serials:?}");
    assert_eq!(bench.status().regions[0].serial, Some(Serial(2)));
}

#[test]
fn one_batch_is_one_publication() {
    let mut bench = Bench::new(&["w1.x", "w2.x"], vec![region("w.x", &["w1.x", "w2.x"])]);
    let update = |zone: &str| {
        let news = News::Load { loaded: Box::new(load(zone, "@ 30 SOA 7\na 30 A 192.0.2.1", None)), base: None };
        Update { news: vec![(name(zone), news)], refreshed: Instant::now(), published: None }
    };
    let before = bench.publisher.load().generation;
    bench.keeper.handle(vec![update("w1.x."), update("w2.x.")], Vec::new());
    assert_eq!(bench.publisher.load().generation, before + 1);
    assert_eq!(bench.keeper.regions[&name("w.x")].region.zone.as_ref().unwrap().soa.serial.0, 14);
    // A tick in which nothing happens publishes nothing.
    bench.keeper.handle(Vec::new(), Vec::new());
    assert_eq!(bench.publisher.load().generation, before + 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_one_update_brings_is_one_publication() {
    let publisher = Arc::new(Publisher::default());
    let handle = start(publisher.clone(), Arc::new(Metrics::new()), None);
    let lifetime = Lifetime { shortest: ZERO, longest: Duration::MAX };
    let zones = ["w1.x", "w2.x"];
    let (done, planned) = oneshot::channel();
    let hold_down = Duration::from_secs(3600);
    let plan = Plan { zones: zones.iter().map(|zone| (name(zone), lifetime)).collect(), hold_down, ..Plan::default() };
    handle.commands.send(Command::Plan(Box::new(plan), done)).await.unwrap();
    planned.await.unwrap();
    let send = |news: Vec<(Name, News)>| {
        let (published, done) = oneshot::channel();
        handle.updates.try_send(Update { news, refreshed: Instant::now(), published: Some(published) }).unwrap();
        done
    };
    let version = |zone: &str, serial: u32| {
        let loaded = Box::new(load(&format!("{zone}."), &format!("@ 30 SOA {serial}\na 30 A 192.0.2.1"), None));
        (name(zone), News::Load { loaded, base: None })
    };
    let before = publisher.load().generation;
    send(zones.map(|zone| version(zone, 7)).into()).await.unwrap();
    assert_eq!(publisher.load().generation, before + 1);
    // What changes waits with what does not, and what only confirms waits for nothing.
    let mut waits = send(vec![(name("w1.x"), News::Current), version("w2.x", 8)]);
    send(zones.map(|zone| (name(zone), News::Current)).into()).await.unwrap();
    assert!(waits.try_recv().is_err());
    // One of the zones is not configured any more, and whoever sent this hears so.
    assert!(send(vec![(name("w1.x"), News::Current), (name("w9.x"), News::Current)]).await.is_err());
}

#[test]
fn what_nothing_happens_to_is_not_made_anew() {
    let regions = vec![region("w.x", &["w1.x", "w2.x"]), region("v.x", &["v1.x"])];
    let mut bench = Bench::new(&["w1.x", "w2.x", "v1.x"], regions);
    for zone in ["w1.x.", "w2.x.", "v1.x."] {
        bench.load(zone, "@ 30 SOA 7\na 30 A 192.0.2.1", ZERO);
    }
    let (root, snapshot) = (bench.publisher.load(), bench.keeper.snapshots.load_full());
    bench.update("w1.x", News::Current, ZERO);
    bench.keeper.handle(Vec::new(), Vec::new());
    assert!(Arc::ptr_eq(&snapshot, &bench.keeper.snapshots.load_full()), "nothing has changed");
    bench.load("v1.x.", "@ 30 SOA 8\na 30 A 192.0.2.2", ZERO);
    let (next, now) = (bench.publisher.load(), bench.keeper.snapshots.load_full());
    let is_served = |zone| Arc::ptr_eq(root.get(&name(zone)).unwrap(), next.get(&name(zone)).unwrap());
    assert_eq!(["w1.x", "w2.x", "w.x", "v1.x", "v.x"].map(is_served), [true, true, true, false, false]);
    let is_shown = |region| Arc::ptr_eq(&snapshot.regions[&name(region)], &now.regions[&name(region)]);
    assert_eq!(["w.x", "v.x"].map(is_shown), [true, false]);
}

#[test]
fn a_confirmation_puts_the_expiry_off() {
    let mut bench = Bench::new(&["w1.x"], Vec::new());
    let lifetime = Lifetime { shortest: ZERO, longest: Duration::from_secs(60) };
    let plan = Plan { zones: vec![(name("w1.x"), lifetime)], ..Plan::default() };
    bench.keeper.handle(Vec::new(), vec![Command::Plan(Box::new(plan), oneshot::channel().0)]);
    let soa = "@ 30 SOA 7";
    bench.load("w1.x.", soa, Duration::from_secs(50));
    bench.update("w1.x", News::Current, ZERO);
    let later = |seconds| Instant::now() + Duration::from_secs(seconds);
    let mut expired = |seconds| {
        let mut touched = HashMap::new();
        bench.keeper.expire(later(seconds), &mut touched);
        touched.len()
    };
    assert_eq!([11, 50, 61, 62].map(&mut expired), [0, 0, 1, 0]);
    // One that comes late is worth as much as it is old.
    bench.update("w1.x", News::Current, Duration::from_secs(55));
    assert_eq!(bench.state("w1.x"), State::Ok);
    let mut touched = HashMap::new();
    bench.keeper.expire(later(6), &mut touched);
    assert_eq!(touched.len(), 1);
}

/// A zone that the configuration makes is never confirmed; it may get primaries instead.
#[test]
fn a_zone_that_needed_no_contact_lives_on_when_it_needs_some() {
    let mut bench = Bench::new(&[], Vec::new());
    let plan = |bench: &mut Bench, lifetime| {
        let (done, _planned) = oneshot::channel();
        let plan = Plan { zones: vec![(name("w1.x"), lifetime)], ..Plan::default() };
        bench.keeper.handle(Vec::new(), vec![Command::Plan(Box::new(plan), done)]);
    };
    plan(&mut bench, Lifetime::UNLIMITED);
    bench.load("w1.x.", "@ 30 SOA 7\na 30 A 192.0.2.1", Duration::from_secs(3600));
    plan(&mut bench, Lifetime { shortest: ZERO, longest: Duration::from_secs(60) });
    assert_eq!(bench.state("w1.x"), State::Ok);
}

#[test]
fn news_of_a_zone_that_is_gone_is_dropped() {
    let mut bench = Bench::new(&["w1.x"], Vec::new());
    let update = Update { news: vec![(name("w9.x"), News::Current)], refreshed: Instant::now(), published: None };
    bench.keeper.handle(vec![update], Vec::new());
    assert!(bench.publisher.load().get(&name("w9.x")).is_none());
}

#[test]
fn versions_of_zones_and_regions_are_linked_by_their_history() {
    let mut bench = Bench::new(&["w1.x", "w2.x"], vec![region("w.x", &["w1.x", "w2.x"])]);
    bench.load("w1.x.", "@ 30 SOA 1\nweb 30 A 192.0.2.1", ZERO);
    bench.load("w2.x.", "@ 30 SOA 1\nweb 30 A 192.0.2.2", ZERO);
    let version = |bench: &Bench, zone: &str| bench.publisher.load().get(&name(zone)).unwrap().zone.clone().unwrap();
    let before = [version(&bench, "w1.x"), version(&bench, "w.x")];
    bench.load("w1.x.", "@ 30 SOA 2\nweb 30 A 192.0.2.3\nnew 30 A 192.0.2.4", ZERO);
    bench.load("w1.x.", "@ 30 SOA 3\nweb 30 A 192.0.2.3", ZERO);
    for (old, steps) in before.iter().zip([2, 2]) {
        let published = bench.publisher.load();
        let served = published.get(&old.origin).unwrap();
        let soa = old.soa_rrset().rdatas().next().unwrap();
        let way = served.history.since(soa).unwrap();
        assert_eq!(way.len(), steps);
        let end = way.iter().fold((**old).clone(), |zone, delta| delta.apply(&zone).unwrap());
        assert_eq!(&end, &**served.zone.as_ref().unwrap());
    }
    // A serial that falls cannot be followed by a secondary of the zone; the region's rises on.
    bench.load("w1.x.", "@ 30 SOA 1\nweb 30 A 192.0.2.3", ZERO);
    let published = bench.publisher.load();
    assert!(published.get(&name("w1.x")).unwrap().history.is_empty());
    assert_eq!(published.get(&name("w.x")).unwrap().history.len(), 3, "from the first version that was served");
}

#[test]
fn serials_that_move_too_far_are_followed_in_two_steps() {
    let mut bench = Bench::new(&["w1.x", "w2.x"], vec![region("w.x", &["w1.x", "w2.x"])]);
    let update = |bench: &Bench, zone: &str, serial: u32| {
        let base = bench.publisher.load().get(&name(zone)).and_then(|served| served.zone.clone());
        let loaded = Box::new(load(zone, &format!("@ 30 SOA {serial}\na 30 A 192.0.2.1"), base.as_deref()));
        Update { news: vec![(name(zone), News::Load { loaded, base })], refreshed: Instant::now(), published: None }
    };
    let serial = |bench: &Bench| bench.publisher.load().get(&name("w.x")).unwrap().zone.as_ref().unwrap().soa.serial;
    let both = |bench: &mut Bench, number: u32| {
        let updates = ["w1.x.", "w2.x."].map(|zone| update(bench, zone, number));
        bench.keeper.handle(updates.into(), Vec::new());
    };
    both(&mut bench, 5);
    assert_eq!(serial(&bench), Serial(10));
    let far = 5 + (1 << 30) + 7;
    both(&mut bench, far);
    let half_way = Serial(10).advance(serial::LONGEST_STEP);
    assert_eq!(serial(&bench), half_way);
    // What changes meanwhile is published one further.
    let next = update(&bench, "w1.x.", far + 1);
    bench.keeper.handle(vec![next], Vec::new());
    assert_eq!(serial(&bench), half_way.advance(1));
    let later = Instant::now() + Duration::from_secs(91);
    assert!(bench.look(later));
    bench.keeper.publish([].iter(), true);
    let sum = Serial(far).advance(far + 1);
    assert_eq!((serial(&bench), bench.keeper.regions[&name("w.x")].region.serial.drift()), (sum, 0));
    assert!(sum.newer_than(half_way.advance(1)));
    assert!(!bench.look(later), "that is all");
}

#[test]
fn what_an_earlier_run_left_is_served_at_once() {
    let zone = |origin: &str, lines: &str| Arc::new(load(origin, lines, None).zone);
    let now = SystemTime::now();
    let restored = |zone: Arc<Zone>, age: u64| {
        (zone.origin.clone(), Restored { zone, refreshed: now - Duration::from_secs(age), history: Vec::new() })
    };
    let publisher = Arc::new(Publisher::default());
    let mut keeper = Keeper::new(publisher.clone(), Arc::new(Metrics::new()), None);
    let fingerprint = fingerprint(MERGE_VERSION, &region("w.x", &["w1.x", "w2.x"]), &[]);
    keeper.seen_serials.insert(name("w.x"), RegionState { drift: 693, last: Serial(700), fingerprint });
    let lifetime = Lifetime { shortest: ZERO, longest: Duration::MAX };
    let (done, _changes) = oneshot::channel();
    let plan = Plan {
        zones: ["w1.x", "w2.x"].map(|zone| (name(zone), lifetime)).into(),
        regions: vec![region("w.x", &["w1.x", "w2.x"])],
        restored: [
            restored(zone("w1.x.", "@ 30 SOA 7\nweb 30 A 192.0.2.1"), 60),
            restored(zone("w2.x.", "@ 30 SOA 9\nweb 30 A 192.0.2.2"), 2_592_001),
        ]
        .into(),
        ..Plan::default()
    };
    keeper.handle(Vec::new(), vec![Command::Plan(Box::new(plan), done)]);
    let bench = Bench { keeper, publisher };
    assert_eq!((bench.state("w1.x"), bench.state("w2.x"), bench.state("w.x")), (State::Ok, State::Expired, State::Ok));
    assert_eq!((bench.ask("web.w1.x"), bench.ask("web.w2.x"), bench.ask("web.w.x")), ((0, 1), (2, 0), (0, 1)));
    // The same members as before give the same serial as before, drift included.
    let kept = &bench.keeper.regions[&name("w.x")].region;
    assert_eq!((kept.zone.as_ref().unwrap().soa.serial, kept.serial.drift()), (Serial(700), 693));
}

#[test]
fn the_catalog_lists_everything_and_its_serial_moves_with_the_list() {
    let publisher = Arc::new(Publisher::default());
    let mut bench = Bench { keeper: Keeper::new(publisher.clone(), Arc::new(Metrics::new()), None), publisher };
    let mut plan = |zones: &[&str]| {
        let lifetime = Lifetime { shortest: ZERO, longest: Duration::MAX };
        let (done, _changes) = oneshot::channel();
        let plan = Plan {
            zones: zones.iter().map(|zone| (name(zone), lifetime)).collect(),
            regions: vec![region("w.x", &["w1.x"])],
            catalog: Some(CatalogPlan { origin: name("c.x"), server_name: name("ns.x") }),
            ..Plan::default()
        };
        bench.keeper.handle(Vec::new(), vec![Command::Plan(Box::new(plan), done)]);
        bench.publisher.load().get(&name("c.x")).unwrap().clone()
    };
    let members = |served: &Served| format!("{:?}", served.zone.as_ref().unwrap()).matches(" PTR ").count();
    let serial = |served: &Served| served.zone.as_ref().unwrap().soa.serial;
    let first = plan(&["w1.x", "w2.x"]);
    assert_eq!((first.state, members(&first)), (State::Ok, 3));
    let same = plan(&["w2.x", "w1.x"]);
    assert_eq!(serial(&same), serial(&first));
    let fewer = plan(&["w1.x"]);
    assert_eq!((members(&fewer), fewer.history.len()), (2, 1));
    assert!(serial(&fewer).newer_than(serial(&first)));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lone_change_is_published_at_once_and_the_next_after_a_while() {
    let hold_down = Duration::from_secs(1);
    let publisher = Arc::new(Publisher::default());
    let handle = start(publisher.clone(), Arc::new(Metrics::new()), None);
    let lifetime = Lifetime { shortest: ZERO, longest: Duration::MAX };
    let zones = ["w1.x", "w2.x", "w3.x"];
    let (done, planned) = oneshot::channel();
    let plan = Plan { zones: zones.iter().map(|zone| (name(zone), lifetime)).collect(), hold_down, ..Plan::default() };
    handle.commands.send(Command::Plan(Box::new(plan), done)).await.unwrap();
    planned.await.unwrap();
    let send = |zone: &str, serial: u32| {
        let loaded = Box::new(load(&format!("{zone}."), &format!("@ 30 SOA {serial}\na 30 A 192.0.2.1"), None));
        let (published, done) = oneshot::channel();
        let news = News::Load { loaded, base: None };
        let update = Update { news: vec![(name(zone), news)], refreshed: Instant::now(), published: Some(published) };
        handle.updates.try_send(update).unwrap();
        done
    };
    let begun = Instant::now();
    for zone in zones {
        send(zone, 7).await.unwrap();
    }
    assert!(begun.elapsed() < hold_down, "zones that come for the first time hardly wait");
    tokio::time::sleep(hold_down).await;
    let generation = || publisher.load().generation;
    let before = generation();
    let begun = Instant::now();
    send(zones[0], 8).await.unwrap();
    assert!(begun.elapsed() < hold_down, "held for {:?} without a reason", begun.elapsed());
    let (second, third) = (send(zones[1], 8), send(zones[2], 8));
    let (heard, confirmed) = oneshot::channel();
    let current =
        Update { news: vec![(name(zones[0]), News::Current)], refreshed: Instant::now(), published: Some(heard) };
    handle.updates.try_send(current).unwrap();
    confirmed.await.unwrap();
    assert!(begun.elapsed() < hold_down, "that nothing has changed waits for nothing");
    second.await.unwrap();
    third.await.unwrap();
    assert!(begun.elapsed() >= hold_down);
    assert_eq!(generation(), before + 2, "the two that waited are one publication");
}
