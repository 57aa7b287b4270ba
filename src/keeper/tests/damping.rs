//! Damping with the keeper's clock: what clients see, what operators see, and what a restart makes of it.

use super::*;
use crate::merge::DampingPlan;
use crate::state;

const NAME: &str = "web.svc.acme.w.x";

fn damped(window: Duration) -> RegionPlan {
    let damping = DampingPlan { max_removed: (1, 3), window, last: 10 * window };
    RegionPlan { damping: Some(damping), ..region("w.x", &["w1.x"]) }
}

/// A version of the member with so many instances, of which some are in service.
fn version(serial: u32, there: u8, up: u8) -> String {
    let instance = |last: u8| {
        let (state, address) = match last <= up {
            true => ("", format!("web.svc.acme 30 A 192.0.2.{last}\n")),
            false => ("verifying:", String::new()),
        };
        format!("u{last}.inst.acme 30 A 192.0.2.{last}\nweb.svc.acme 30 TXT {state}u{last}\n{address}")
    };
    format!("@ 30 SOA {serial}\n{}", (1..=there).map(instance).collect::<String>())
}

#[test]
fn a_failing_health_check_empties_no_service() {
    let window = Duration::from_millis(150);
    let mut bench = Bench::new(&["w1.x"], vec![damped(window)]);
    bench.load("w1.x.", &version(1, 9, 9), ZERO);
    let begun = Instant::now();
    bench.load("w1.x.", &version(2, 9, 0), ZERO);
    assert_eq!((bench.ask(NAME), bench.ask("web.svc.acme.w1.x")), ((0, 6), (0, 0)), "its own zone is as it was");
    let status = bench.status();
    assert_eq!(status.regions[0].held_addresses, 6);
    let shown = |bench: &Bench, line: &str| {
        let text = bench.keeper.metrics.render();
        assert!(text.contains(line), "{line} in {text}");
    };
    shown(&bench, "aggregator_region_held_addresses{region=\"w.x.\"} 6");
    let mut seen = vec![6];
    while bench.ask(NAME) != (0, 0) {
        let next = bench.keeper.deadlines.next().expect("something is held");
        std::thread::sleep(next - Instant::now());
        let serial = bench.publisher.load().get(&name("w.x")).unwrap().zone.as_ref().unwrap().soa.serial;
        bench.keeper.handle(Vec::new(), Vec::new());
        let now = bench.publisher.load().get(&name("w.x")).unwrap().zone.as_ref().unwrap().soa.serial;
        if bench.ask(NAME).1 != seen[seen.len() - 1] {
            seen.push(bench.ask(NAME).1);
            assert!(now.newer_than(serial), "secondaries learn of it");
        }
        assert!(begun.elapsed() < Duration::from_secs(60), "{seen:?}");
    }
    assert_eq!(seen, [6, 4, 3, 2, 1, 0]);
    assert!(begun.elapsed() >= 14 * window);
    let published = bench.publisher.load();
    let causes: Vec<_> =
        published.get(&name("w.x")).unwrap().history.steps().map(|step| step.causes.to_vec()).collect();
    assert_eq!(causes[0], [Cause::Member { zone: name("w1.x"), serial: Some(Serial(2)) }]);
    assert!(causes.len() > 5 && causes[1..].iter().all(|causes| *causes == [Cause::Damping]), "{causes:?}");
    shown(&bench, "aggregator_region_withdrawals_total{region=\"w.x.\",result=\"released\"} 9");
}

#[test]
fn an_instance_that_is_gone_is_not_held() {
    let mut bench = Bench::new(&["w1.x"], vec![damped(Duration::from_secs(60))]);
    bench.load("w1.x.", &version(1, 9, 9), ZERO);
    bench.load("w1.x.", &version(2, 2, 2), ZERO);
    assert_eq!(bench.ask(NAME), (0, 2));
    bench.load("w1.x.", &version(3, 2, 0), ZERO);
    assert_eq!(bench.ask(NAME), (0, 1));
    // Another plan of the region lets it be; one without damping does not.
    bench.plan(&["w1.x"], vec![RegionPlan { ns_ttl: 7, ..damped(Duration::from_secs(60)) }]);
    assert_eq!(bench.ask(NAME), (0, 1));
    bench.drain("w1.x", Some("web.svc.acme"), true);
    assert_eq!(bench.ask(NAME).1, 0, "a drain is not damped");
    bench.drain("w1.x", Some("web.svc.acme"), false);
    assert_eq!(bench.ask(NAME).1, 0, "and forgets what was held");
    bench.plan(&["w1.x"], vec![region("w.x", &["w1.x"])]);
    assert!(!bench.keeper.metrics.render().contains("region_held_addresses{"));
}

#[test]
fn a_restart_forgets_what_is_held_under_a_new_serial() {
    let folder = tempfile::tempdir().unwrap();
    let start = || {
        let (metrics, publisher) = (Arc::new(Metrics::new()), Arc::new(Publisher::default()));
        let store = Arc::new(state::open(folder.path(), metrics.clone()).unwrap());
        let restored = store.load(&name("w1.x")).map(|found| (name("w1.x"), found)).into_iter().collect();
        let mut bench = Bench { keeper: Keeper::new(publisher.clone(), metrics, Some(store)), publisher };
        let (done, _changes) = oneshot::channel();
        let zones = vec![(name("w1.x"), Lifetime { shortest: ZERO, longest: Duration::MAX })];
        let plan = Plan { zones, regions: vec![damped(Duration::from_secs(60))], restored, ..Plan::default() };
        bench.keeper.handle(Vec::new(), vec![Command::Plan(Box::new(plan), done)]);
        bench
    };
    let serial = |bench: &Bench| bench.publisher.load().get(&name("w.x")).unwrap().zone.as_ref().unwrap().soa.serial;
    let mut bench = start();
    bench.load("w1.x.", &version(1, 3, 3), ZERO);
    bench.load("w1.x.", &version(2, 3, 0), ZERO);
    let (held, before) = (bench.ask(NAME), serial(&bench));
    assert_eq!(held, (0, 2));
    drop(bench);
    let bench = start();
    assert_eq!(bench.ask(NAME), (0, 0));
    assert!(serial(&bench).newer_than(before), "{before} stood for something else");
}

/// An address that is held is data to which a delegation gives way, for as long as it is (`docs/regions.md` 19).
#[test]
fn a_delegation_gives_way_to_what_is_held() {
    let window = Duration::from_millis(20);
    let members = ["w1.x", "w2.x"];
    let plan = RegionPlan { damping: damped(window).damping, ..region("w.x", &members) };
    let mut bench = Bench::new(&members, vec![plan]);
    bench.load("w1.x.", "@ 30 SOA 1\nsvc.acme 30 NS ns.y.", ZERO);
    bench.load("w2.x.", &version(1, 1, 1), ZERO);
    assert_eq!(bench.ask(NAME), (0, 1));
    bench.load("w2.x.", "@ 30 SOA 2\nu1.inst.acme 30 A 192.0.2.1", ZERO);
    assert_eq!((bench.ask(NAME), bench.ask("web.svc.acme.w2.x")), ((0, 1), (3, 0)), "held, and no referral");
    while let Some(next) = bench.keeper.deadlines.next() {
        std::thread::sleep(next - Instant::now());
        bench.keeper.handle(Vec::new(), Vec::new());
    }
    assert_eq!(bench.ask(NAME), (0, 0), "a referral");
}
