//! A CNS that may announce nothing, with short times: how often it is polled, and until when.

use super::*;
use sim::clock::next_serial;
use sim::primary::Primary;
use sim::zone::{Apex, Zone};
use std::net::{IpAddr, Ipv4Addr};
use std::time::SystemTime;
use wire::serial::Serial;

/// Times that take seconds in production, made short.
const TIMES: Times = Times {
    outage: Duration::from_secs(20),
    age: Duration::from_secs(10),
    interval: Duration::from_millis(200),
    window: Duration::from_secs(3),
    gap: Duration::from_millis(10),
};
const PRIMARY: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

/// An empty zone with a serial; all timers of its SOA are those of CNS.
fn zone(serial: Serial) -> Zone {
    let name = zone_name();
    Zone::new(name.clone(), Apex { mname: name.clone(), rname: name.clone(), name_servers: vec![name] }, serial, [])
}

/// A serial that CNS would make now, and one that it made a minute ago.
fn serials() -> (Serial, Serial) {
    let now = SystemTime::now();
    (next_serial(Serial(1), now), next_serial(Serial(1), now - Duration::from_secs(60)))
}

/// A loaded zone of a primary, whose own timers ask for a poll every half minute.
async fn load(serial: Serial) -> (Primary, Secondary) {
    let primary = Primary::start("127.0.0.1:0".parse().unwrap()).await.unwrap();
    primary.publish(zone(serial));
    let plan = ZonePlan { ixfr: true, ..plan(&[primary.address()], limits()) };
    let timers = TimerBounds { refresh_max: Duration::from_secs(3600), ..plan.timers };
    let secondary = Secondary::start_with(ZonePlan { timers, ..plan }, Common::start(TIMES, Arc::default()));
    secondary.wait_for_serial(serial.0).await;
    (primary, secondary)
}

/// Polls so far.
fn polls(secondary: &Secondary) -> u64 {
    let address = secondary.source.plan().primaries[0].address.to_string();
    secondary.metrics.transfer_attempts.with_label_values(&["z.example.", &address, "soa"]).get()
}

/// Waits for polls that the zone's own timers would not bring within the time that this may take.
async fn wait_for_polls(secondary: &Secondary) {
    let before = polls(secondary);
    eventually("many polls", || polls(secondary) >= before + 5).await;
}

/// Several intervals bring no poll.
async fn expect_calm(secondary: &Secondary) {
    let before = polls(secondary);
    tokio::time::sleep(8 * TIMES.interval).await;
    assert!(polls(secondary) <= before + 1, "{} polls", polls(secondary) - before);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cns_is_polled_often_at_first_until_it_is_heard() {
    let (primary, secondary) = load(serials().0).await;
    wait_for_polls(&secondary).await;
    secondary.source.announce("192.0.2.7".parse().unwrap());
    wait_for_polls(&secondary).await;
    let before = polls(&secondary);
    secondary.source.announce(PRIMARY);
    eventually("the poll for the announcement", || polls(&secondary) > before).await;
    expect_calm(&secondary).await;
    assert_eq!(primary.tally().whole, 1, "the first transfer was one that CNS saw");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cns_that_has_nothing_to_announce_is_left_alone_in_the_end() {
    let (_primary, secondary) = load(serials().0).await;
    let begun = Instant::now();
    wait_for_polls(&secondary).await;
    tokio::time::sleep((TIMES.window + TIMES.interval).saturating_sub(begun.elapsed())).await;
    expect_calm(&secondary).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn other_primaries_are_polled_as_their_zones_ask() {
    // No clock of CNS' shows these: a counter, a date.
    for serial in [Serial(1), Serial(2_026_112_201)] {
        let (_primary, secondary) = load(serial).await;
        expect_calm(&secondary).await;
    }
}

/// A change that the timer's poll finds is transferred already; only the polls are more frequent from then on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_not_announced_in_time_begins_it() {
    let (_, old) = serials();
    let (primary, secondary) = load(old).await;
    secondary.source.announce(PRIMARY);
    expect_calm(&secondary).await;
    primary.publish(zone(old.advance(1)));
    let announced = Instant::now();
    secondary.source.announce(PRIMARY);
    secondary.wait_for_serial(old.advance(1).0).await;
    expect_calm(&secondary).await;
    primary.publish(zone(old.advance(2)));
    // The zone's own timer, at last.
    let deadline = Duration::from_secs(40);
    while secondary.serial() != Some(old.advance(2).0) {
        assert!(announced.elapsed() < deadline, "no poll");
        tokio::time::sleep(50 * MILLISECOND).await;
    }
    wait_for_polls(&secondary).await;
    assert_eq!(primary.tally().again, 0, "a transfer was due, and is enough");
}
