//! Serials of regions that other servers have.

use super::*;
use crate::state;

const MEMBERS: [&str; 2] = ["w1.x", "w2.x"];
const ONE: &str = "@ 30 SOA 10\nweb 30 A 192.0.2.1";
const TWO: &str = "@ 30 SOA 20\nweb 30 A 192.0.2.2";

/// A region that is served as 30.
fn bench() -> Bench {
    let mut bench = Bench::new(&MEMBERS, vec![region("w.x", &MEMBERS)]);
    bench.load("w1.x.", ONE, ZERO);
    bench.load("w2.x.", TWO, ZERO);
    assert_eq!(bench.number("w.x"), 30);
    bench
}

impl Bench {
    /// Tells of serials that others have.
    fn hear(&mut self, serials: &[u32]) {
        let heard = [(name("w.x"), serials.iter().copied().map(Serial).collect())].into();
        self.keeper.handle(Vec::new(), vec![Command::Heard(heard, Instant::now())]);
    }

    /// Both members' sources have seen nothing newer.
    fn confirm(&mut self) {
        MEMBERS.iter().for_each(|member| self.update(member, News::Current, ZERO));
    }

    /// Serial and drift, what it went on from, and what it may go on from.
    fn told(&self) -> (u32, u32, Option<u32>, Option<u32>) {
        let RegionStatus { drift, followed, newer_elsewhere, .. } = self.region_status();
        (self.number("w.x"), drift, followed.map(|serial| serial.0), newer_elsewhere.map(|serial| serial.0))
    }
}

#[test]
fn a_region_goes_on_from_what_others_have_once_its_members_are_confirmed() {
    let mut bench = bench();
    let generation = bench.publisher.load().generation;
    bench.hear(&[29, 35, 33]);
    bench.update("w1.x", News::Current, ZERO);
    assert_eq!(bench.told(), (30, 0, None, Some(35)), "the other member may be newer");
    bench.update("w2.x", News::Current, ZERO);
    assert_eq!(bench.told(), (36, 6, Some(35), None));
    assert_eq!(bench.served("w.x").history.len(), 1, "secondaries get a difference");
    assert_eq!(bench.publisher.load().generation, generation + 1);
    // That was it, for this start: others may go on from ours.
    bench.confirm();
    assert_eq!(bench.number("w.x"), 36);
    bench.load("w1.x.", "@ 30 SOA 11\nweb 30 A 192.0.2.1", ZERO);
    assert_eq!(bench.told(), (37, 6, Some(35), None));
    bench.load("w1.x.", "@ 30 SOA 30\nweb 30 A 192.0.2.1", ZERO);
    assert_eq!(bench.told(), (50, 0, Some(35), None), "the drift goes as any other");
}

#[test]
fn a_replica_that_has_newer_members_is_not_followed() {
    let mut bench = bench();
    bench.hear(&[35]);
    bench.load("w1.x.", "@ 30 SOA 15\nweb 30 A 192.0.2.7", ZERO);
    assert_eq!(bench.told(), (35, 0, None, None), "the sum is that of the other replica");
    bench.confirm();
    assert_eq!(bench.told(), (35, 0, None, None));
    // We are ahead, or answer ourselves.
    bench.hear(&[35, 34, 3]);
    bench.confirm();
    assert_eq!(bench.told(), (35, 0, None, None));
}

#[test]
fn two_replicas_do_not_drive_each_other_upwards() {
    let (mut one, mut other) = (bench(), bench());
    one.hear(&[33]);
    one.confirm();
    other.hear(&[one.number("w.x")]);
    other.confirm();
    assert_eq!((one.number("w.x"), other.number("w.x")), (34, 35));
    // Each of them again, as long as it runs.
    one.confirm();
    other.confirm();
    assert_eq!((one.number("w.x"), other.number("w.x")), (34, 35));
    for bench in [&mut one, &mut other] {
        bench.load("w1.x.", "@ 30 SOA 16\nweb 30 A 192.0.2.1", ZERO);
        assert_eq!((bench.number("w.x"), bench.region_status().drift), (36, 0), "they agree again");
    }
}

#[test]
fn what_is_further_ahead_than_any_drift_is_not_believed() {
    for (theirs, expected) in [(30 + 65_536, 30 + 65_537), (30 + 65_537, 30), (u32::MAX, 30)] {
        let mut bench = bench();
        bench.hear(&[theirs]);
        bench.confirm();
        assert_eq!(bench.told(), (expected, expected - 30, (expected > 30).then_some(theirs), None));
    }
}

/// The sum of what is there lacks a whole serial: that of others tells nothing yet.
#[test]
fn a_missing_member_puts_off_what_is_believed() {
    let partial = || RegionPlan { partial_after: ZERO, ..region("w.x", &MEMBERS) };
    for (heard, before) in [(vec![1_000_015], 10), (vec![12, 1_000_015], 13)] {
        let mut bench = Bench::new(&MEMBERS, vec![partial()]);
        bench.load("w1.x.", ONE, ZERO);
        bench.hear(&heard);
        bench.update("w1.x", News::Current, ZERO);
        let followed = (before > 10).then_some(12);
        assert_eq!(bench.told(), (before, before - 10, followed, Some(1_000_015)), "{heard:?}");
        bench.load("w2.x.", "@ 30 SOA 1000000\nweb 30 A 192.0.2.2", ZERO);
        assert_eq!(bench.told(), (1_000_016, 6, Some(1_000_015), None), "{heard:?}");
    }
    // Too far ahead of the whole sum, too.
    let mut bench = Bench::new(&MEMBERS, vec![partial()]);
    bench.load("w1.x.", ONE, ZERO);
    bench.hear(&[1_000_015]);
    bench.load("w2.x.", TWO, ZERO);
    bench.confirm();
    assert_eq!(bench.told(), (30, 0, None, None));
}

#[test]
fn what_looks_older_beside_a_part_of_the_sum_is_not_forgotten() {
    let members = ["w1.x", "w2.x", "w3.x"];
    let mut bench = Bench::new(&members, vec![RegionPlan { partial_after: ZERO, ..region("w.x", &members) }]);
    let lines = "@ 30 SOA 1760000000\nweb 30 A 192.0.2.1";
    let sum = 1_760_000_000_u32.wrapping_mul(3);
    bench.load("w1.x.", lines, ZERO);
    bench.hear(&[sum + 15]);
    bench.update("w1.x", News::Current, ZERO);
    assert_eq!(bench.told(), (1_760_000_000, 0, None, None));
    bench.load("w2.x.", lines, ZERO);
    bench.load("w3.x.", lines, ZERO);
    assert_eq!(bench.told(), (sum + 16, 16, Some(sum + 15), None));
}

#[test]
fn a_member_that_has_expired_puts_off_what_is_believed() {
    for is_drained in [false, true] {
        let mut bench = Bench::new(&MEMBERS, vec![region("w.x", &MEMBERS)]);
        bench.load("w1.x.", ONE, ZERO);
        bench.load("w2.x.", "@ 30 SOA 1000000\nweb 30 A 192.0.2.2", ZERO);
        if is_drained {
            bench.drain("w2.x", None, true);
        }
        bench.update("w2.x", News::Current, Duration::from_secs(2_592_001));
        assert_eq!(bench.state("w2.x"), State::Expired);
        bench.hear(&[1_000_025]);
        bench.update("w1.x", News::Current, ZERO);
        assert_eq!(bench.told().3, Some(1_000_025), "drained: {is_drained}");
        bench.update("w2.x", News::Current, ZERO);
        assert_eq!(bench.told(), (1_000_026, 16, Some(1_000_025), None), "drained: {is_drained}");
    }
}

#[test]
fn a_pinned_region_waits_for_its_release_and_a_drained_member_counts() {
    let mut bench = bench();
    bench.load("w1.x.", "@ 30 SOA 11\nweb 30 A 192.0.2.3", ZERO);
    bench.drain("w2.x", None, true);
    assert_eq!(bench.told(), (32, 1, None, None));
    bench.pin("w.x", 30).unwrap();
    bench.hear(&[40]);
    bench.confirm();
    assert_eq!(bench.told(), (33, 0, None, Some(40)));
    bench.release("w.x").unwrap();
    assert_eq!(bench.told(), (41, 10, Some(40), None));
}

#[test]
fn an_old_memory_counts_less_than_what_is_heard_before_the_first_version() {
    let folder = tempfile::tempdir().unwrap();
    let start = |heard: &[u32]| {
        let (metrics, publisher) = (Arc::new(Metrics::new()), Arc::new(Publisher::default()));
        let store = Arc::new(state::open(folder.path(), metrics.clone()).unwrap());
        let keeper = Keeper::new(publisher.clone(), metrics, Some(store.clone()));
        let mut bench = Bench { keeper, publisher };
        let lifetime = Lifetime { shortest: ZERO, longest: Duration::MAX };
        let zones = MEMBERS.iter().map(|zone| (name(zone), lifetime)).collect();
        let restored = MEMBERS.iter().filter_map(|zone| Some((name(zone), store.load(&name(zone))?))).collect();
        let heard = [(name("w.x"), heard.iter().copied().map(Serial).collect())].into();
        let plan = Plan { zones, regions: vec![region("w.x", &MEMBERS)], restored, heard, ..Plan::default() };
        let (done, _changes) = oneshot::channel();
        bench.keeper.handle(Vec::new(), vec![Command::Plan(Box::new(plan), done)]);
        bench
    };
    let mut bench = start(&[]);
    bench.load("w1.x.", ONE, ZERO);
    bench.load("w2.x.", TWO, ZERO);
    assert!(bench.keeper.store.as_ref().unwrap().flush_all());
    drop(bench);
    // The same, older, newer, and newer by more than any drift.
    for (heard, expected) in [(vec![30], 30), (vec![29], 30), (vec![31, 33], 34), (vec![100_000], 34)] {
        let bench = start(&heard);
        assert_eq!(bench.number("w.x"), expected, "{heard:?}");
        assert_eq!(bench.region_status().followed, (heard.len() == 2).then_some(Serial(33)));
        assert!(bench.keeper.store.as_ref().unwrap().flush_all());
    }
}
