//! Changes, outages and clients, with observations that are written down.

use super::*;
use std::net::Ipv4Addr;

fn answer(hosts: &[u8]) -> Answer {
    let addresses = hosts.iter().map(|host| Ipv4Addr::new(192, 0, 2, *host).into()).collect();
    Answer { addresses, ..Answer::default() }
}

fn expected(hosts: &[u8], serial: u32) -> Expected {
    Expected { answer: answer(hosts), served: vec![Serial(serial)], clients: vec![answer(hosts)] }
}

/// An answer with one datacenter, whose serial is that of the region.
fn observed(hosts: &[u8], serial: u32) -> Observed {
    let serial = Some(Serial(serial));
    let client = ClientAnswer { answer: answer(hosts), by: Served::from([0]) };
    let clients = vec![Some(client)];
    Observed { answer: Some(answer(hosts)), region: serial, served: vec![serial], clients, asked: 5, failed: vec![] }
}

fn silent() -> Observed {
    Observed { served: vec![None], asked: 5, failed: vec!["web A: no answer".into()], ..Observed::default() }
}

fn millis(count: u64) -> Duration {
    Duration::from_millis(count)
}

fn ledger() -> Ledger {
    Ledger::new(millis(1000), Some(Serial(1)), Steering::default())
}

#[test]
fn changes_that_are_followed_are_counted_with_their_latency() {
    let mut ledger = ledger();
    for (number, latency) in [(1, 900), (2, 300), (3, 500)] {
        let now = number * 10_000;
        let (old, new) = (number as u32, number as u32 + 1);
        let hosts: Vec<u8> = (0..new as u8).collect();
        ledger.begin_change(format!("change {number}"), millis(now));
        assert_eq!(ledger.judge(millis(now + 10), &expected(&hosts, new), &observed(&hosts[1..], old)), []);
        let outcomes = ledger.judge(millis(now + latency), &expected(&hosts, new), &observed(&hosts, new));
        assert_eq!(outcomes, [Judgement::Followed { latency: millis(latency) }]);
        assert_eq!(ledger.judge(millis(now + 999), &expected(&hosts, new), &observed(&hosts, new)), []);
    }
    assert!(ledger.is_clean());
    assert_eq!(ledger.summary()[0], "3 changes made, 3 followed; median 500 ms, slowest 900 ms");
}

#[test]
fn a_region_that_does_not_follow_is_a_fault_that_says_what_is_missing() {
    let mut ledger = ledger();
    ledger.begin_change("scale up".into(), millis(0));
    assert_eq!(ledger.judge(millis(1000), &expected(&[1, 2], 2), &observed(&[1, 3], 1)), []);
    let outcomes = ledger.judge(millis(1001), &expected(&[1, 2], 2), &observed(&[1, 3], 1));
    let fault = "scale up: not followed within 1 s: the answer lacks 192.0.2.2; the answer still has 192.0.2.3; \
                 a datacenter's zone is served with serial 1 and not with 2";
    assert_eq!(outcomes, [Judgement::Fault(fault.into())]);
    assert!(!ledger.is_clean() && !ledger.is_open());
    assert_eq!(ledger.judge(millis(1100), &expected(&[1, 2], 2), &observed(&[1, 3], 1)), [], "told once");
    assert_eq!(ledger.summary()[0], "1 changes made, 0 followed");
}

#[test]
fn the_right_answer_is_not_enough() {
    let mut late = ledger();
    late.begin_change("x".into(), millis(0));
    let outcomes = late.judge(millis(1001), &expected(&[1], 2), &observed(&[1], 2));
    assert!(matches!(&outcomes[..], [Judgement::Fault(why)] if why.ends_with("it came too late")), "{outcomes:?}");

    let mut still = ledger();
    still.begin_change("x".into(), millis(0));
    let unmoved = Observed { region: Some(Serial(1)), ..observed(&[1], 2) };
    assert_eq!(still.judge(millis(10), &expected(&[1], 2), &unmoved), []);
    let outcomes = still.judge(millis(1001), &expected(&[1], 2), &unmoved);
    assert!(matches!(&outcomes[..], [Judgement::Fault(why)] if why.ends_with("did not rise")), "{outcomes:?}");
}

#[test]
fn an_answer_that_changes_by_itself_is_a_fault() {
    let mut ledger = ledger();
    assert_eq!(ledger.judge(millis(1), &expected(&[1], 1), &observed(&[1], 1)), []);
    let outcomes = ledger.judge(millis(2), &expected(&[1], 1), &observed(&[], 1));
    assert!(matches!(&outcomes[..], [Judgement::Fault(why)] if why.contains("nothing had happened")), "{outcomes:?}");
}

#[test]
fn an_outage_must_not_be_seen_in_the_answers() {
    let mut ledger = ledger();
    ledger.begin_outage("us-west-1".into(), answer(&[1]), millis(0));
    assert_eq!(ledger.judge(millis(1), &expected(&[1, 2], 1), &observed(&[1, 2], 1)), []);
    let mut lost = ledger.clone();
    ledger.end_outage(millis(2000));
    assert_eq!(ledger.judge(millis(2001), &expected(&[1, 2], 1), &observed(&[1, 2], 1)), []);
    assert!(ledger.is_clean());
    let good = "us-west-1 was away for 2.0 s: 5 queries, all answered from the last good copy";
    assert_eq!(ledger.summary()[1], good);

    lost.begin_change("elsewhere".into(), millis(10));
    let outcomes = lost.judge(millis(20), &expected(&[1, 3], 2), &observed(&[3], 2));
    assert_eq!(outcomes, [Judgement::Fault("while us-west-1 was away the region lost 192.0.2.1".into())]);
    assert!(lost.summary()[1].ends_with("until the end: 10 queries, 1 not answered, or without its last good copy"));
}

#[test]
fn a_change_is_followed_when_the_clients_have_it() {
    let mut ledger = Ledger::new(millis(1000), Some(Serial(1)), Steering::new(["us-west-1".into()], millis(0)));
    ledger.begin_change("scale up".into(), millis(0));
    let mut late = observed(&[1, 2], 2);
    late.clients = observed(&[1], 2).clients;
    assert_eq!(ledger.judge(millis(10), &expected(&[1, 2], 2), &late), []);
    assert_eq!(describe_missing(&expected(&[1, 2], 2), &late).unwrap(), "the answer to a client lacks 192.0.2.2");
    let outcomes = ledger.judge(millis(20), &expected(&[1, 2], 2), &observed(&[1, 2], 2));
    assert_eq!(outcomes, [Judgement::Followed { latency: millis(20) }]);

    ledger.steering.begin_outage(0, millis(30), millis(100));
    assert!(ledger.is_open(), "a client is to be led elsewhere");
    late.clients = vec![None];
    let outcomes = ledger.judge(millis(131), &expected(&[1, 2], 2), &late);
    assert!(matches!(&outcomes[..], [Judgement::Fault(why)] if why.contains("its client")), "{outcomes:?}");
    assert!(!ledger.is_open() && !ledger.is_clean());
}

#[test]
fn queries_without_an_answer_are_a_fault() {
    let mut ledger = ledger();
    let outcomes = ledger.judge(millis(1), &expected(&[1], 1), &silent());
    assert_eq!(outcomes, [Judgement::Fault("a query failed: web A: no answer".into())]);
    assert_eq!(ledger.judge(millis(2), &expected(&[1], 1), &silent()), [], "told once");
    assert_eq!(ledger.summary().last().unwrap(), "10 queries over UDP in total, 2 without an answer");
}
