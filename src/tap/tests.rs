//! Which exchanges are taken, and what becomes of what nobody takes.

use super::*;

const QUERY: &[u8] = b"\x12\x34\0\0\0\x01\0\0\0\0\0\0\x03web\x04test\0\0\x01\0\x01";

/// A tap that connects to nobody.
fn tap(plan: TapPlan, metrics: &Metrics) -> (Tap, mpsc::Receiver<Bundle>) {
    let (queue, bundles) = mpsc::channel(QUEUE);
    let tap = Tap {
        plan,
        speaker: Speaker { identity: "here".to_owned(), version: "1".to_owned() },
        queue: Some(queue),
        ending: watch::channel(false).0,
        ended: watch::channel(()).1,
        taken: AtomicU64::default(),
        lines: AtomicU64::default(),
        dropped: metrics.dnstap_messages.with_label_values(&["dropped"]),
        suppressed: metrics.query_log_suppressed.clone(),
    };
    (tap, bundles)
}

fn exchange(client: &str, response: &'static [u8]) -> Exchange<'static> {
    let server = "192.0.2.53:53".parse().unwrap();
    let client = client.parse().unwrap();
    Exchange { transport: Transport::Udp, client, server, received: UNIX_EPOCH, query: QUERY, response }
}

fn dnstap(messages: Messages, one_in: u32) -> TapPlan {
    let collector = Collector::Socket("/nowhere".into());
    TapPlan { dnstap: Some(DnstapPlan { collector, messages, one_in }), query_log: None }
}

#[test]
fn one_in_so_many_is_taken_of_clients_that_ask_in_turns_too() {
    for one_in in [1, 2, 10, 1000] {
        let chosen =
            |numbers: &dyn Fn(u64) -> u64| (0..100_000).filter(|index| is_chosen(numbers(*index), one_in)).count();
        let expected = 100_000 / one_in as usize;
        for (all, name) in [(chosen(&|index| index), "all"), (chosen(&|index| 2 * index), "every second")] {
            assert!(all.abs_diff(expected) <= expected / 4, "1 in {one_in} of {name}: {all}");
        }
    }
}

#[test]
fn the_messages_that_are_wanted_are_taken() {
    let metrics = Metrics::new();
    let exchanges = [exchange("192.0.2.1:1000", QUERY), exchange("[2001:db8::1]:1000", b"")];
    for (messages, expected) in [(Messages::All, 3), (Messages::Queries, 2), (Messages::Responses, 1)] {
        let (tap, mut bundles) = tap(dnstap(messages, 1), &metrics);
        tap.take(exchanges.into_iter());
        assert_eq!(bundles.try_recv().unwrap().messages, expected, "{messages:?}");
    }
}

#[test]
fn what_the_queue_has_no_room_for_is_counted() {
    let metrics = Metrics::new();
    let (tap, bundles) = tap(dnstap(Messages::All, 1), &metrics);
    for _ in 0..QUEUE + 3 {
        tap.take([exchange("192.0.2.1:1000", QUERY)].into_iter());
    }
    assert_eq!((bundles.len(), tap.dropped.get()), (QUEUE, 6));
}

#[test]
fn a_second_has_so_many_lines_and_the_next_as_many_again() {
    let (tap, _bundles) = tap(TapPlan::default(), &Metrics::new());
    let lines = |second: u64| {
        let at = UNIX_EPOCH + Duration::from_secs(second);
        (0..10).filter(|_| tap.has_line(3, at)).count()
    };
    assert_eq!([lines(5), lines(5), lines(6), lines(1_900_000_000)], [3, 0, 3, 3]);
}
