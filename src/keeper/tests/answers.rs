//! Answers from large sets, as the keeper publishes them.

use super::*;
use crate::select::{Law, Pick};
use std::num::NonZeroU32;

/// Gives the keeper other laws for the region of w1.x and w2.x, and nothing else.
fn answer_by(bench: &mut Bench, laws: &[(&str, AnswersPlan)]) {
    let (sender, mut changes) = oneshot::channel();
    let lifetime = Lifetime { shortest: ZERO, longest: Duration::MAX };
    let zones = ["w1.x", "w2.x"].map(|zone| (name(zone), lifetime)).to_vec();
    let answers = laws.iter().map(|(zone, plan)| (name(zone), Arc::new(plan.clone()))).collect();
    let plan = Plan { zones, regions: vec![region("w.x", &["w1.x", "w2.x"])], answers, ..Plan::default() };
    bench.keeper.handle(Vec::new(), vec![Command::Plan(Box::new(plan), sender)]);
    assert_eq!(changes.try_recv().unwrap().rebuilt, []);
}

/// Lines of so many addresses at a name.
fn addresses(owner: &str, network: u8, count: u32) -> String {
    (0..count).map(|n| format!("{owner} 30 A 10.{network}.{}.{}\n", n / 250, n % 250)).collect()
}

#[test]
fn large_sets_are_answered_with_windows_that_follow_their_versions() {
    let mut bench = Bench::new(&["w1.x", "w2.x"], vec![region("w.x", &["w1.x", "w2.x"])]);
    let law = |max| AnswersPlan::new(Law { max: NonZeroU32::new(max), pick: Pick::Rotate });
    answer_by(&mut bench, &[("w.x", law(8))]);
    bench.load("w1.x.", &format!("@ 30 SOA 1\n{}", addresses("web", 1, 20)), ZERO);
    bench.load("w2.x.", &format!("@ 30 SOA 1\n{}", addresses("web", 2, 3)), ZERO);
    assert_eq!((bench.ask("web.w1.x"), bench.ask("web.w.x")), ((0, 20), (0, 8)), "zones are answered with whole sets");
    let served = |bench: &Bench| bench.publisher.load().get(&name("w.x")).unwrap().clone();
    let serial = served(&bench).zone.as_ref().unwrap().soa.serial;
    // Other laws take effect at once, and move no serial.
    answer_by(&mut bench, &[("w.x", law(5)), ("w1.x", law(2))]);
    assert_eq!((bench.ask("web.w1.x"), bench.ask("web.w.x")), ((0, 2), (0, 5)));
    answer_by(&mut bench, &[]);
    assert_eq!((bench.ask("web.w1.x"), bench.ask("web.w.x")), ((0, 20), (0, 23)));
    answer_by(&mut bench, &[("w.x", law(5))]);
    assert_eq!(served(&bench).zone.as_ref().unwrap().soa.serial, serial);
    // A set that shrinks below the law is answered whole, and one that grows is cut.
    bench.load("w1.x.", &format!("@ 30 SOA 2\n{}", addresses("web", 1, 1)), ZERO);
    assert_eq!((bench.ask("web.w.x"), served(&bench).selections.is_empty()), ((0, 4), true));
    bench.load("w2.x.", &format!("@ 30 SOA 2\n{}", addresses("*", 2, 7)), ZERO);
    assert_eq!((bench.ask("any.w.x"), bench.ask("web.w.x")), ((0, 5), (0, 1)), "a wildcard's set");
    // The member that goes takes its records out of all answers.
    bench.drain("w2.x", None, true);
    assert_eq!((bench.ask("any.w.x"), bench.ask("web.w.x")), ((3, 0), (0, 1)));
}
