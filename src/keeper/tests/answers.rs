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

#[test]
fn sizes_are_shown_as_they_are_served() {
    let mut bench = Bench::new(&["w1.x", "w2.x"], vec![region("w.x", &["w1.x", "w2.x"])]);
    let law = |max| AnswersPlan::new(Law { max: NonZeroU32::new(max), pick: Pick::Rotate });
    answer_by(&mut bench, &[("w.x", law(100))]);
    let load = |bench: &mut Bench, serial: u32, counts: [u32; 2]| {
        for (zone, network, count) in [("w1.x.", 1, counts[0]), ("w2.x.", 2, counts[1])] {
            bench.load(zone, &format!("@ 30 SOA {serial}\n{}", addresses("web", network, count)), ZERO);
        }
    };
    let shown = |bench: &Bench, zone: &str| -> Vec<String> {
        let text = bench.keeper.metrics.render();
        let families = ["rrset_records_max", "rrsets_large", "answers_large", "answers_partial_total"];
        let is_of = |line: &&str| {
            line.contains(&format!("zone=\"{zone}.\"")) && families.iter().any(|family| line[11..].starts_with(family))
        };
        let mut lines: Vec<String> =
            text.lines().filter(is_of).map(|line| line[11..].replace(&format!("zone=\"{zone}.\""), "")).collect();
        lines.retain(|line| !line.starts_with("rrsets_large") || !line.ends_with(" 0"));
        lines
    };
    load(&mut bench, 1, [60, 60]);
    let one = "rrset_records_max{} 60";
    assert_eq!((shown(&bench, "w1.x"), shown(&bench, "w2.x")), (vec![one.to_owned()], vec![one.to_owned()]));
    let united = |most: u32| {
        [
            format!("rrset_records_max{{}} {most}"),
            "rrsets_large{limit=\"datagram\",} 1".into(),
            "rrsets_large{limit=\"resolvers\",} 1".into(),
        ]
    };
    let cut = |families: Vec<String>| [&["answers_large{limit=\"datagram\",} 1".to_owned()][..], &families].concat();
    assert_eq!(shown(&bench, "w.x"), cut(united(120).to_vec()));
    // A law with a larger number, and none.
    for laws in [&[("w.x", law(101))][..], &[]] {
        answer_by(&mut bench, laws);
        let whole = "answers_large{limit=\"resolvers\",} 1".to_owned();
        assert!(shown(&bench, "w.x").contains(&whole), "{:?}", shown(&bench, "w.x"));
    }
    answer_by(&mut bench, &[("w.x", law(8))]);
    assert_eq!(shown(&bench, "w.x"), united(120));
    // Behind a pin the pinned version counts.
    let before = bench.number("w.x");
    load(&mut bench, 2, [1, 1]);
    assert_eq!(shown(&bench, "w.x"), ["rrset_records_max{} 2"]);
    bench.pin("w.x", before).unwrap();
    assert_eq!(shown(&bench, "w.x"), united(120));
    // What fits no message, before anybody has asked and after.
    load(&mut bench, 3, [5_000, 1]);
    let parts = |bench: &Bench| shown(bench, "w1.x").into_iter().find(|line| line.starts_with("answers_partial"));
    assert_eq!(parts(&bench).as_deref(), Some("answers_partial_total{} 0"));
    bench.publisher.load().get(&name("w1.x")).unwrap().tally.count_part();
    bench.keeper.handle(Vec::new(), Vec::new());
    assert_eq!(parts(&bench).as_deref(), Some("answers_partial_total{} 1"));
    bench.keeper.handle(Vec::new(), Vec::new());
    assert_eq!(parts(&bench).as_deref(), Some("answers_partial_total{} 1"), "counted once");
}
