//! Single transitions of a region's serial, each from the state that an operator may find it in.

use super::restarts::Run;
use super::*;
use std::path::Path;

const MEMBERS: [&str; 2] = ["w1.x", "w2.x"];
/// Expire time of the members' zones, in seconds, as [`load`] writes it, and one more.
const EXPIRED: Duration = Duration::from_secs(2_592_001);
/// How far a member moves, where two that do are too much for one step.
const FAR: u32 = (1 << 30) + 7;
/// The serial in the middle of the way from 10.
const HALF_WAY: u32 = 10 + serial::LONGEST_STEP;

fn plan() -> RegionPlan {
    region("w.x", &MEMBERS)
}

impl Bench {
    /// Loads both members in one batch.
    fn load_both(&mut self, serial: u32) {
        let lines = lines(serial);
        self.load_together(&MEMBERS.map(|zone| (zone, &lines[..])));
    }

    /// Confirms both members in one batch, as if that had been some time ago.
    fn confirm_both(&mut self, age: Duration) {
        let refreshed = Instant::now().checked_sub(age).unwrap();
        let update = |zone| Update { news: vec![(name(zone), News::Current)], refreshed, published: None };
        self.keeper.handle(MEMBERS.map(update).into(), Vec::new());
    }

    /// Lets the region's patience with missing members end.
    fn stop_waiting(&mut self) {
        let begun = Instant::now().checked_sub(plan().partial_after).unwrap();
        self.keeper.regions.get_mut(&name("w.x")).unwrap().waiting_since = begun;
        self.keeper.handle(Vec::new(), Vec::new());
        assert_eq!(self.state("w.x"), State::Ok);
    }

    /// Serial and drift.
    fn stand(&self) -> (u32, u32) {
        (self.number("w.x"), self.region_status().drift)
    }
}

fn lines(serial: u32) -> String {
    format!("@ 30 SOA {serial}\na 30 A 192.0.2.1")
}

/// A region that is half way from 10 to the sum of what its members have now.
fn half_way(folder: &Path) -> (Run, u32) {
    let mut run = Run::start(folder, plan());
    run.bench.load_both(5);
    assert_eq!(run.bench.stand(), (10, 0));
    run.bench.load_both(5 + FAR);
    let sum = 2 * (5 + FAR);
    assert_eq!(run.bench.stand(), (HALF_WAY, HALF_WAY.wrapping_sub(sum)));
    (run, sum)
}

#[test]
fn a_restart_half_way_keeps_the_serial() {
    let folder = tempfile::tempdir().unwrap();
    let (run, sum) = half_way(folder.path());
    run.end();
    let mut run = Run::start(folder.path(), plan());
    assert_eq!(run.bench.stand(), (HALF_WAY, HALF_WAY.wrapping_sub(sum)));
    run.bench.load("w1.x.", &lines(5 + FAR + 1), ZERO);
    run.bench.pass();
    assert_eq!(run.bench.stand(), (sum + 1, 0));
}

#[test]
fn a_pin_half_way_is_one_step_and_so_is_its_release() {
    let folder = tempfile::tempdir().unwrap();
    let (mut run, sum) = half_way(folder.path());
    let bench = &mut run.bench;
    bench.pin("w.x", 10).unwrap();
    assert_eq!(bench.stand(), (HALF_WAY + 1, 0));
    bench.release("w.x").unwrap();
    assert_eq!(bench.number("w.x"), HALF_WAY + 2);
    bench.pass();
    assert_eq!(bench.stand(), (sum, 0));
}

#[test]
fn the_pause_of_a_serial_may_end_behind_a_pin() {
    let folder = tempfile::tempdir().unwrap();
    let (mut run, sum) = half_way(folder.path());
    run.bench.pin("w.x", 10).unwrap();
    run.bench.pass();
    assert_eq!(run.bench.stand(), (HALF_WAY + 1, 0));
    run.bench.release("w.x").unwrap();
    assert_eq!(run.bench.stand(), (sum, 0));
    // And the program may end there.
    let folder = tempfile::tempdir().unwrap();
    let (mut run, sum) = half_way(folder.path());
    run.bench.pin("w.x", 10).unwrap();
    run.end();
    let mut run = Run::start(folder.path(), plan());
    assert_eq!(run.bench.stand(), (HALF_WAY + 1, 0));
    run.bench.release("w.x").unwrap();
    assert_eq!(run.bench.stand(), (sum, 0));
}

#[test]
fn a_region_that_was_away_half_way_arrives() {
    let folder = tempfile::tempdir().unwrap();
    let (mut run, sum) = half_way(folder.path());
    run.bench.confirm_both(EXPIRED);
    assert_eq!(run.bench.state("w.x"), State::Expired);
    run.bench.confirm_both(ZERO);
    let back = Serial(run.bench.number("w.x"));
    assert!(!Serial(HALF_WAY).newer_than(back) && Serial(sum).newer_than(back), "{back}");
    run.bench.pass();
    assert_eq!(run.bench.stand(), (sum, 0));
}

/// A region of one member that is served as 10 and then away.
fn away() -> Bench {
    let mut bench = Bench::new(&["w1.x"], vec![region("w.x", &["w1.x"])]);
    bench.load("w1.x.", &lines(10), ZERO);
    bench.update("w1.x", News::Current, EXPIRED);
    assert_eq!(bench.state("w.x"), State::Expired);
    bench
}

#[test]
fn a_plan_that_changes_while_the_region_is_away_makes_another_version() {
    let mut bench = away();
    bench.update("w1.x", News::Current, ZERO);
    assert_eq!(bench.number("w.x"), 10, "the same versions under the same plan");
    let mut bench = away();
    let changed = RegionPlan { ns_ttl: 60, ..region("w.x", &["w1.x"]) };
    bench.plan(&["w1.x"], vec![changed]);
    assert_eq!(bench.state("w.x"), State::Expired);
    bench.update("w1.x", News::Current, ZERO);
    assert_eq!(bench.stand(), (11, 1));
}

/// A folder with a region that was served as 10 while its second member was missing.
fn served_without_a_member() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let mut run = Run::start(folder.path(), RegionPlan { partial_after: ZERO, ..plan() });
    run.bench.load("w1.x.", &lines(10), ZERO);
    assert_eq!(run.bench.stand(), (10, 0));
    run.end();
    folder
}

#[test]
fn a_region_that_waits_after_a_restart_comes_back_under_its_serial() {
    let folder = served_without_a_member();
    let mut run = Run::start(folder.path(), plan());
    assert_eq!(run.bench.state("w.x"), State::NotReady);
    run.bench.stop_waiting();
    assert_eq!(run.bench.stand(), (10, 0));
}

#[test]
fn a_member_that_comes_before_the_first_merge_makes_another_version() {
    let folder = served_without_a_member();
    let mut run = Run::start(folder.path(), plan());
    run.bench.load("w1.x.", "@ 30 SOA 10\na 30 A 192.0.2.9", ZERO);
    assert_eq!(run.bench.state("w.x"), State::NotReady);
    run.bench.stop_waiting();
    assert_eq!(run.bench.stand(), (11, 1));
    // The sum of all is newer, whatever came first.
    let folder = served_without_a_member();
    let mut run = Run::start(folder.path(), plan());
    run.bench.load("w2.x.", &lines(20), ZERO);
    assert_eq!(run.bench.stand(), (30, 0));
}

#[test]
fn a_region_that_waits_goes_on_from_the_newest_that_is_remembered_or_heard() {
    for (heard, without, with) in [(&[9][..], 10, 20), (&[10, 13], 14, 20), (&[25], 26, 27), (&[100_000], 10, 20)] {
        let folder = served_without_a_member();
        let mut run = Run::start_hearing(folder.path(), plan(), heard);
        run.bench.stop_waiting();
        assert_eq!(run.bench.number("w.x"), without, "{heard:?}");
        run.bench.load("w2.x.", &lines(10), ZERO);
        assert_eq!(run.bench.number("w.x"), with, "{heard:?}");
    }
    // Heard while it waits, and judged by the sum of all.
    let folder = served_without_a_member();
    let mut run = Run::start_hearing(folder.path(), plan(), &[35]);
    run.bench.load("w2.x.", &lines(20), ZERO);
    assert_eq!(run.bench.stand(), (36, 6));
}

#[test]
fn a_restart_half_way_waits_again_and_arrives() {
    let folder = tempfile::tempdir().unwrap();
    let (run, sum) = half_way(folder.path());
    run.end();
    let mut run = Run::start(folder.path(), plan());
    run.bench.pass();
    assert_eq!(run.bench.stand(), (sum, 0));
    // What changes meanwhile is published one further.
    let folder = tempfile::tempdir().unwrap();
    let (run, sum) = half_way(folder.path());
    run.end();
    let mut run = Run::start(folder.path(), plan());
    run.bench.load("w1.x.", &lines(5 + FAR + 1), ZERO);
    assert_eq!(run.bench.number("w.x"), HALF_WAY + 1);
    run.bench.pass();
    assert_eq!(run.bench.stand(), (sum + 1, 0));
}

#[test]
fn a_plan_that_changes_before_the_first_merge_makes_another_version() {
    let folder = served_without_a_member();
    let mut run = Run::start(folder.path(), plan());
    run.plan(RegionPlan { ns_ttl: 60, ..plan() });
    run.bench.stop_waiting();
    assert_eq!(run.bench.stand(), (11, 1));
}

#[test]
fn a_drain_that_changes_before_the_first_merge_makes_another_version() {
    let folder = served_without_a_member();
    let mut run = Run::start(folder.path(), plan());
    run.bench.drain("w1.x", Some("a"), true);
    run.bench.stop_waiting();
    assert_eq!(run.bench.stand(), (11, 1));
}

#[test]
fn a_zone_that_becomes_a_region_does_not_fall_behind_itself() {
    let mut bench = Bench::new(&["w.x"], Vec::new());
    bench.load("w.x.", &lines(100), ZERO);
    bench.plan(&MEMBERS, vec![plan()]);
    assert_eq!(bench.state("w.x"), State::NotReady);
    bench.load("w1.x.", &lines(10), ZERO);
    bench.load("w2.x.", &lines(20), ZERO);
    assert_eq!(bench.stand(), (101, 71));
}

#[test]
fn a_zone_that_becomes_a_region_does_not_fall_behind_itself_over_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let mut run = Run::start(folder.path(), plan());
    run.bench.plan(&["w.x"], Vec::new());
    run.bench.load("w.x.", &lines(100), ZERO);
    run.bench.plan(&MEMBERS, vec![plan()]);
    assert_eq!(run.bench.state("w.x"), State::NotReady);
    run.end();
    let mut run = Run::start(folder.path(), plan());
    run.bench.load("w1.x.", &lines(10), ZERO);
    run.bench.load("w2.x.", &lines(20), ZERO);
    assert_eq!(run.bench.stand(), (101, 71));
}
