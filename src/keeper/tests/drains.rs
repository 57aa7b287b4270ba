//! Drains, as clients and operators see them.

use super::*;
use crate::state;
use std::time::UNIX_EPOCH;

const MEMBERS: [&str; 2] = ["w1.x", "w2.x"];

/// A region of two members with one name in common.
fn bench() -> Bench {
    let mut bench = Bench::new(&MEMBERS, vec![region("w.x", &MEMBERS)]);
    bench.load("w1.x.", "@ 30 SOA 10\nweb 30 A 192.0.2.1\ndb 30 A 192.0.2.1\nonly 30 A 192.0.2.1", ZERO);
    bench.load("w2.x.", "@ 30 SOA 20\nweb 30 A 192.0.2.2\ndb 30 A 192.0.2.2", ZERO);
    bench
}

impl Bench {
    fn serial(&self, zone: &str) -> u32 {
        self.publisher.load().get(&name(zone)).unwrap().zone.as_ref().unwrap().soa.serial.0
    }
}

fn drain(member: &str, until: Option<SystemTime>, configured: bool) -> Drain {
    let target = DrainTarget { member: name(member), region: None, names: None };
    Drain { target, share: None, since: SystemTime::now(), until, reason: Some("why".into()), configured }
}

#[test]
fn a_drained_member_is_out_of_its_region_and_nowhere_else() {
    let mut bench = bench();
    assert_eq!((bench.ask("web.w.x"), bench.ask("only.w.x"), bench.serial("w.x")), ((0, 2), (0, 1), 30));
    let generation = bench.publisher.load().generation;
    bench.drain("w1.x", None, true);
    assert_eq!(bench.publisher.load().generation, generation + 1, "one publication");
    assert_eq!((bench.ask("web.w.x"), bench.ask("only.w.x")), ((0, 1), (3, 0)));
    assert_eq!((bench.ask("web.w1.x"), bench.ask("only.w1.x")), ((0, 1), (0, 1)), "its own zone is as it was");
    let status = bench.status();
    let states: Vec<&str> = status.regions[0].members.iter().map(|member| member.state).collect();
    assert_eq!((states, status.regions[0].drift, bench.serial("w.x")), (vec!["drained", "ok"], 1, 31));
    assert_eq!(status.drains[0].regions, [name("w.x")]);
    let shown = |bench: &Bench| {
        bench
            .keeper
            .metrics
            .render()
            .contains("aggregator_region_drained_since_timestamp_seconds{member=\"w1.x.\",region=\"w.x.\"}")
    };
    assert!(shown(&bench));
    // Its serial counts all the same, so replicas that drain it agree with each other.
    bench.load("w1.x.", "@ 30 SOA 11\nweb 30 A 192.0.2.1\nnew 30 A 192.0.2.1", ZERO);
    assert_eq!(
        (bench.serial("w.x"), bench.ask("new.w.x"), bench.ask("new.w1.x")),
        (31, (3, 0), (0, 1)),
        "the sum has caught up"
    );
    bench.load("w1.x.", "@ 30 SOA 17\nweb 30 A 192.0.2.1\nnew 30 A 192.0.2.1", ZERO);
    assert_eq!((bench.serial("w.x"), bench.status().regions[0].drift), (37, 0));
    bench.drain("w1.x", None, false);
    assert_eq!((bench.serial("w.x"), bench.ask("new.w.x"), bench.ask("web.w.x")), (38, (0, 1), (0, 2)));
    assert!(!shown(&bench) && bench.status().drains.is_empty());
}

#[test]
fn a_pattern_takes_its_names_only() {
    let mut bench = bench();
    bench.drain("w1.x", Some("web"), true);
    assert_eq!((bench.ask("web.w.x"), bench.ask("db.w.x"), bench.ask("only.w.x")), ((0, 1), (0, 2), (0, 1)));
    let status = bench.status();
    assert_eq!(status.regions[0].members[0].state, "ok");
    let published = bench.publisher.load();
    let last = published.get(&name("w.x")).unwrap().history.iter().last().cloned().unwrap();
    assert_eq!((last.removed.records(), last.added.records()), (1, 0), "one record went");
    bench.load("w1.x.", "@ 30 SOA 11\nweb 30 A 192.0.2.7\ndb 30 A 192.0.2.7", ZERO);
    assert_eq!((bench.ask("web.w.x"), bench.ask("db.w.x"), bench.ask("only.w.x")), ((0, 1), (0, 2), (3, 0)));
    bench.drain("w1.x", Some("web"), false);
    assert_eq!(bench.ask("web.w.x"), (0, 2));
}

#[test]
fn a_region_whose_members_are_all_drained_is_empty_and_served() {
    let mut bench = bench();
    MEMBERS.iter().for_each(|member| bench.drain(member, None, true));
    assert_eq!((bench.state("w.x"), bench.ask("web.w.x"), bench.serial("w.x")), (State::Ok, (3, 0), 32));
}

#[test]
fn what_is_drained_does_not_speak_for_a_member_that_has_expired() {
    let mut bench = bench();
    bench.drain("w1.x", None, true);
    bench.update("w2.x", News::Current, Duration::from_secs(2_592_001));
    assert_eq!((bench.state("w.x"), bench.ask("only.w.x"), bench.ask("web.w.x")), (State::Expired, (2, 0), (2, 0)));
    let states = bench.status().regions[0].members.iter().map(|member| member.state).collect::<Vec<_>>();
    assert_eq!(states, ["drained", "expired"]);
    bench.drain("w1.x", None, false);
    assert_eq!((bench.state("w.x"), bench.ask("only.w.x"), bench.ask("web.w.x")), (State::Ok, (0, 1), (0, 1)));
    bench.drain("w1.x", None, true);
    bench.update("w2.x", News::Current, ZERO);
    assert_eq!((bench.state("w.x"), bench.ask("only.w.x"), bench.ask("web.w.x")), (State::Ok, (3, 0), (0, 1)));
    assert!(bench.serial("w.x") > 31);
}

#[test]
fn a_region_that_waits_for_members_can_be_looked_at() {
    let mut bench = Bench::new(&MEMBERS, vec![region("w.x", &MEMBERS)]);
    bench.load("w1.x.", "@ 30 SOA 10\nweb 30 A 192.0.2.1", ZERO);
    let snapshot = bench.keeper.snapshots.load();
    let members = &snapshot.regions[&name("w.x")].members;
    assert_eq!((members.len(), members.iter().any(|member| member.contributes())), (2, false));
    assert_eq!(members[0].zone.as_ref().unwrap().soa.serial, Serial(10));
}

#[test]
fn a_drain_ends_by_itself() {
    let mut bench = bench();
    let (done, _answered) = oneshot::channel();
    let until = SystemTime::now() + Duration::from_millis(300);
    bench.keeper.handle(Vec::new(), vec![Command::Drain(Box::new(drain("w1.x", Some(until), false)), done)]);
    assert_eq!(bench.ask("only.w.x"), (3, 0));
    while SystemTime::now() < until {
        std::thread::sleep(Duration::from_millis(10));
    }
    bench.keeper.handle(Vec::new(), Vec::new());
    assert_eq!((bench.ask("only.w.x"), bench.status().drains.len()), ((0, 1), 0));
}

#[test]
fn an_order_for_the_same_target_replaces_the_one_before() {
    let mut bench = bench();
    let since = UNIX_EPOCH + Duration::from_secs(5);
    let order = |bench: &mut Bench, drain: Drain| {
        let (done, mut answered) = oneshot::channel();
        bench.keeper.handle(Vec::new(), vec![Command::Drain(Box::new(drain), done)]);
        assert_eq!(answered.try_recv(), Ok(false), "there is no folder");
    };
    order(&mut bench, Drain { since, ..drain("w1.x", None, false) });
    let until = Some(SystemTime::now() + Duration::from_secs(1000));
    order(&mut bench, drain("w1.x", until, false));
    let all = &bench.keeper.drains.all;
    assert_eq!((all.len(), all[0].since, all[0].until), (1, since, until), "and goes on from when it began");
}

/// A share changes what clients get, and nothing that a transfer has.
#[test]
fn a_share_is_published_and_merges_nothing() {
    let mut bench = bench();
    let order = |bench: &mut Bench, share: Option<u8>| {
        let (done, _answered) = oneshot::channel();
        let drain = Drain { share, ..drain("w1.x", None, false) };
        bench.keeper.handle(Vec::new(), vec![Command::Drain(Box::new(drain), done)]);
    };
    let seen = |bench: &Bench| {
        let published = bench.publisher.load();
        let served = published.get(&name("w.x")).unwrap().clone();
        (published.generation, served.zone.clone().unwrap(), served.history.len())
    };
    let shares = |bench: &Bench| {
        let shares = bench.keeper.shares(&region("w.x", &MEMBERS));
        assert_eq!(shares.len(), 2);
        [0, 1].map(|member| ["web", "db"].map(|owner| shares[member].of(&name(owner).as_wire()[..owner.len() + 1])))
    };
    assert_eq!(shares(&bench), [[0, 0], [0, 0]]);
    let (generation, zone, versions) = seen(&bench);
    let mut since = None;
    for (step, percent) in [30, 40, 20].into_iter().enumerate() {
        order(&mut bench, Some(percent));
        let now = seen(&bench);
        assert_eq!((now.0, now.2), (generation + 1 + step as u64, versions), "published, as no new version");
        assert!(Arc::ptr_eq(&now.1, &zone), "nothing is merged");
        assert_eq!(shares(&bench), [[percent, percent], [0, 0]], "in place of the one before");
        assert_eq!(*since.get_or_insert(bench.keeper.drains.all[0].since), bench.keeper.drains.all[0].since);
    }
    let status = bench.status();
    assert_eq!((status.regions[0].members[0].state, status.drains[0].share_percent), ("ok", Some(20)));
    let metrics = bench.keeper.metrics.render();
    let series = |name: &str| metrics.contains(&format!("{name}_since_timestamp_seconds{{member=\"w1.x.\""));
    assert_eq!([series("region_share_drained"), series("region_drained")], [true, false]);
    // The largest of several counts, and no pattern takes anything away from it.
    let (done, _answered) = oneshot::channel();
    let mut one = Drain { share: Some(50), ..drain("w1.x", None, false) };
    one.target.names = Some(NamePattern::parse("web").unwrap());
    bench.keeper.handle(Vec::new(), vec![Command::Drain(Box::new(one), done)]);
    assert_eq!(shares(&bench), [[50, 20], [0, 0]]);
    assert!(Arc::ptr_eq(&seen(&bench).1, &zone));
    // All of the clients are another matter.
    order(&mut bench, None);
    assert_eq!((bench.ask("only.w.x"), bench.serial("w.x"), shares(&bench)), ((3, 0), 31, [[50, 0], [0, 0]]));
    order(&mut bench, Some(99));
    assert_eq!((bench.ask("only.w.x"), bench.serial("w.x"), shares(&bench)), ((0, 1), 32, [[99, 99], [0, 0]]));
    bench.drain("w1.x", None, false);
    bench.drain("w1.x", Some("web"), false);
    assert_eq!((bench.serial("w.x"), shares(&bench), bench.status().drains.len()), (32, [[0, 0], [0, 0]], 0));
    assert!(!bench.keeper.metrics.render().contains("region_share_drained_since_timestamp_seconds{"));
}

#[test]
fn all_members_may_share_their_clients() {
    let mut bench = bench();
    for member in MEMBERS {
        let (done, _answered) = oneshot::channel();
        let until = Some(SystemTime::now() + Duration::from_millis(200));
        let drain = Drain { share: Some(99), ..drain(member, until, false) };
        bench.keeper.handle(Vec::new(), vec![Command::Drain(Box::new(drain), done)]);
    }
    assert_eq!((bench.ask("web.w.x"), bench.ask("only.w.x"), bench.serial("w.x")), ((0, 2), (0, 1), 30));
    let generation = bench.publisher.load().generation;
    std::thread::sleep(Duration::from_millis(250));
    bench.keeper.handle(Vec::new(), Vec::new());
    assert_eq!((bench.status().drains.len(), bench.publisher.load().generation), (0, generation + 1), "ended");
}

#[test]
fn the_configuration_drains_as_long_as_it_says_so() {
    let mut bench = bench();
    let plan = |bench: &mut Bench, drains: Vec<Drain>| {
        let (done, _changes) = oneshot::channel();
        let lifetime = Lifetime { shortest: ZERO, longest: Duration::MAX };
        let zones = MEMBERS.iter().map(|zone| (name(zone), lifetime)).collect();
        let plan = Plan { zones, regions: vec![region("w.x", &MEMBERS)], drains, ..Plan::default() };
        bench.keeper.handle(Vec::new(), vec![Command::Plan(Box::new(plan), done)]);
    };
    plan(&mut bench, vec![drain("w1.x", None, true), drain("w2.x", Some(UNIX_EPOCH), true)]);
    assert_eq!((bench.ask("only.w.x"), bench.ask("web.w.x")), ((3, 0), (0, 1)), "what is over drains nothing");
    let since = bench.keeper.drains.all[0].since;
    bench.drain("w1.x", None, false);
    assert_eq!(bench.ask("only.w.x"), (3, 0), "an operator cannot end it");
    plan(&mut bench, vec![drain("w1.x", None, true)]);
    assert_eq!(bench.keeper.drains.all[0].since, since, "it goes on");
    plan(&mut bench, Vec::new());
    assert_eq!((bench.ask("only.w.x"), bench.ask("web.w.x")), ((0, 1), (0, 2)));
}

#[test]
fn drains_outlive_the_program() {
    let folder = tempfile::tempdir().unwrap();
    let start = |drains: Vec<Drain>| {
        let (metrics, publisher) = (Arc::new(Metrics::new()), Arc::new(Publisher::default()));
        let store = Arc::new(state::open(folder.path(), metrics.clone()).unwrap());
        let keeper = Keeper::new(publisher.clone(), metrics, Some(store.clone()));
        let mut bench = Bench { keeper, publisher };
        let lifetime = Lifetime { shortest: ZERO, longest: Duration::MAX };
        let zones = MEMBERS.iter().map(|zone| (name(zone), lifetime)).collect();
        let restored = MEMBERS.iter().filter_map(|zone| Some((name(zone), store.load(&name(zone))?))).collect();
        let (done, _changes) = oneshot::channel();
        let plan = Plan { zones, regions: vec![region("w.x", &MEMBERS)], drains, restored, ..Plan::default() };
        bench.keeper.handle(Vec::new(), vec![Command::Plan(Box::new(plan), done)]);
        bench
    };
    let mut bench = start(Vec::new());
    bench.keeper.drains.order(Drain { share: Some(30), ..drain("w2.x", None, false) });
    bench.load("w1.x.", "@ 30 SOA 10\nonly 30 A 192.0.2.1", ZERO);
    bench.load("w2.x.", "@ 30 SOA 20\nweb 30 A 192.0.2.2", ZERO);
    let (done, mut answered) = oneshot::channel();
    bench.keeper.handle(Vec::new(), vec![Command::Drain(Box::new(drain("w1.x", None, false)), done)]);
    assert_eq!(answered.try_recv(), Ok(true));
    let serial = bench.serial("w.x");
    drop(bench);
    let mut bench = start(Vec::new());
    assert_eq!((bench.ask("only.w.x"), bench.ask("web.w.x"), bench.serial("w.x")), ((3, 0), (0, 1), serial));
    bench.drain("w1.x", None, false);
    assert_eq!(bench.keeper.shares(&region("w.x", &MEMBERS))[1].of(b"\x03web"), 30);
    let until = SystemTime::now() + Duration::from_millis(1);
    bench.keeper.drains.order(drain("w2.x", Some(until), false));
    bench.keeper.save();
    drop(bench);
    while SystemTime::now() < until {
        std::thread::yield_now();
    }
    // Its time came while the program did not run.
    let bench = start(vec![drain("w1.x", None, true)]);
    assert_eq!((bench.ask("only.w.x"), bench.ask("web.w.x")), ((3, 0), (0, 1)));
    assert!(Serial(bench.serial("w.x")).newer_than(Serial(serial)));
    let since = bench.keeper.drains.all[0].since;
    drop(bench);
    let bench = start(vec![drain("w1.x", None, true)]);
    let away = since.duration_since(bench.keeper.drains.all[0].since).unwrap();
    assert!(away < Duration::from_millis(1), "what the configuration drains goes on from when it began");
}

/// What is drained is no data that a delegation gives way to, and delegates nothing (`docs/regions.md` 19).
#[test]
fn a_delegation_gives_way_to_nothing_that_is_drained() {
    let mut bench = Bench::new(&MEMBERS, vec![region("w.x", &MEMBERS)]);
    bench.load("w1.x.", "@ 30 SOA 10\nsub 30 NS ns.y.\nx.sub 30 A 192.0.2.1", ZERO);
    bench.load("w2.x.", "@ 30 SOA 20\nx.sub 30 A 192.0.2.2\ny 30 A 192.0.2.2", ZERO);
    let answers = |bench: &Bench| bench.ask("x.sub.w.x");
    assert_eq!(answers(&bench), (0, 1), "the delegation has fallen with what is below it");
    for names in [Some("x.sub"), None] {
        bench.drain("w2.x", names, true);
        assert_eq!(answers(&bench), (0, 0), "a referral: {names:?}");
        bench.drain("w2.x", names, false);
        assert_eq!(answers(&bench), (0, 1), "{names:?}");
    }
    bench.drain("w1.x", Some("sub"), true);
    assert_eq!(answers(&bench), (0, 2), "nobody delegates it");
    bench.drain("w1.x", Some("sub"), false);
    assert_eq!(answers(&bench), (0, 1));
}
