//! Every quirk of CNS, individually and randomised, as primary of the real daemon: nothing that a datacenter has is ever lost, nothing is ever empty,
//! and what is stale goes.
//!
//! The primary is the one of the demonstration, which answers octet by octet as CNS did when it was captured; here its
//! database fails in all the ways in which that of CNS does. While that happens, every zone is transferred from the
//! daemon again and again and held against the datacenters' true content.

mod harness;

#[path = "cns/commits.rs"]
mod commits;
#[path = "cns/records.rs"]
mod records;
#[path = "cns/restarts.rs"]
mod restarts;
#[path = "cns/site.rs"]
mod site;
#[path = "cns/stand.rs"]
mod stand;
#[path = "cns/versions.rs"]
mod versions;
#[path = "cns/watch.rs"]
mod watch;

use harness::{Client, Record, difference, rtype, wait_until};
use records::{captured, dname};
use sim::answer::SLICE;
use sim::zone::Zone;
use stand::{PATIENCE, Stand, wait_for_records};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use wire::serial::Serial;

/// No full audits but those that a test asks for.
const NO_AUDIT: &str = "audit = false\n";

/// The datacenters of the long run.
const SEED: u64 = 172;
/// Pause between two slices of a copy, long beside what a loaded machine adds.
const SCAN_PAUSE: Duration = Duration::from_millis(100);
/// Rounds of the long run, and events of each datacenter in one.
const ROUNDS: usize = 3;
const EVENTS: usize = 40;

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn hundreds_of_events_lose_nothing() {
    let mut stand = Stand::start(2, SEED, "audit = \"*/3 * * * * *\"\n").await;
    stand.announce();
    // Every scan takes long enough to see parts of commits.
    stand.sites.iter().for_each(|site| site.primary.set_scan_pause(Duration::from_millis(2)));
    for round in 1..=ROUNDS {
        let mut sites = std::mem::take(&mut stand.sites);
        let [first, second] = &mut sites[..] else { unreachable!("two were started") };
        for _ in 0..EVENTS {
            tokio::join!(first.live(), second.live());
            stand.check();
        }
        if round == ROUNDS {
            // Only now: a primary that breaks off is not asked for differences for a minute.
            for site in &mut sites {
                site.go_away().await;
            }
        }
        stand.sites = sites;
        stand.settle();
    }
    let adopted = |kind| (0..2).map(|site| stand.adopted_of(site, kind)).sum::<u64>();
    let (steps, whole) = (adopted("ixfr"), adopted("axfr"));
    let mut events = BTreeMap::new();
    for (event, count) in stand.sites.iter().flat_map(|site| &site.events) {
        *events.entry(*event).or_insert(0) += count;
    }
    let share = 100 * steps / (steps + whole);
    println!("{steps} transfers were incremental, {whole} whole: {share} % incremental; {events:#?}");
    let page = stand.daemon.metrics();
    let failures = page.lines().filter(|line| line.starts_with("aggregator_transfer_failures_total{"));
    println!("{}", failures.collect::<Vec<_>>().join("\n"));
    assert_eq!(events.len(), 12, "everything happened");
    assert!(steps >= 20 && whole >= 20, "both kinds of transfers were at work");
    stand.finish();
}

//--- One habit at a time, by its number in docs/cns.md ---

/// Habit 1: at the current serial CNS would send everything, so it is not asked for anything.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_zone_that_does_not_change_is_not_transferred() {
    let mut stand = Stand::start(1, 1, NO_AUDIT).await;
    stand.settle();
    let zone = stand.sites[0].origin().to_string();
    for _ in 0..5 {
        assert_eq!(stand.daemon.verb(&["refresh", &zone]).code, 0);
    }
    let tally = stand.sites[0].primary.tally();
    assert_eq!((tally.whole, tally.steps), (1, 0));
    stand.finish();
}

/// Habits 3, 5, 6, 7, 15: differences are asked for with an SOA, come without AA, with the question in the first of several
/// messages, with repeated records, compressed throughout; and are enough.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn changes_come_as_differences() {
    let mut stand = Stand::start(1, 2, NO_AUDIT).await;
    for count in [1, 3, 60] {
        stand.sites[0].datacenter.scale_up("web", count, SystemTime::now());
        stand.sites[0].publish();
        stand.settle();
    }
    let tally = stand.sites[0].primary.tally();
    assert_eq!(tally.whole, 1, "the first transfer only");
    assert!(tally.steps > 0);
    stand.wait_for_adopted(1, tally.steps);
    stand.finish();
}

/// Habit 2: CNS begins below a serial that it does not know.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn differences_from_below_our_serial_are_not_used() {
    let mut stand = Stand::start(1, 3, NO_AUDIT).await;
    let site = &mut stand.sites[0];
    // A database in which our serial lies between two others.
    let serial = site.serial();
    let older = Zone::new(site.origin(), site.zone().apex().clone(), Serial(serial - 10), []);
    site.datacenter.scale_up("web", 2, SystemTime::now());
    site.primary.replace(older);
    site.publish();
    stand.settle();
    assert_eq!(stand.failed("ixfr", "ixfr_base"), 1);
    stand.wait_for_adopted(2, 0);
    stand.finish();
}

/// Habit 8: one of two equal records is removed, the other stays.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn the_removal_of_one_copy_removes_no_record() {
    let mut stand = Stand::start(1, 4, NO_AUDIT).await;
    // The watch sees whether the SRV record is ever missing.
    let found = stand.sites[0].datacenter.instances().iter().find(|instance| instance.addresses.len() == 2);
    let alias = found.expect("an instance with two addresses").alias.clone();
    assert!(stand.sites[0].datacenter.set_dual_stack(&alias, false, SystemTime::now()));
    stand.sites[0].publish();
    stand.settle();
    assert!(stand.vetoed() > 0);
    stand.wait_for_adopted(1, 1);
    stand.finish();
}

/// Habits 8 and 13: a database that is lost between differences and the questions about them has no names, under one serial
/// for as long as a tick lasts. That says nothing of the records in doubt.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_database_that_is_lost_behind_differences_costs_no_record() {
    let mut stand = Stand::start(1, 16, NO_AUDIT).await;
    let site = &mut stand.sites[0];
    let found = site.datacenter.instances().iter().find(|instance| instance.addresses.len() == 2);
    let alias = found.expect("an instance with two addresses").alias.clone();
    assert!(site.datacenter.set_dual_stack(&alias, false, SystemTime::now()));
    let steps = site.primary.tally().steps;
    site.primary.set_away(true);
    site.publish();
    let empty = Arc::new(Zone::new(site.origin(), site.zone().apex().clone(), Serial(site.serial() + 1), []));
    site.primary.change(&site.origin(), |stored| stored.lapses.lost = Some(empty.clone()));
    site.primary.set_away(false);
    wait_until("the database is lost", PATIENCE, || (site.primary.tally().steps > steps).then_some(()));
    wait_until("questions were asked", PATIENCE, || (site.primary.tally().questions > 0).then_some(()));
    wait_until("the empty zone is held back", PATIENCE, || stand.is_held().then_some(()));
    stand.look_twice();
    stand.sites[0].regain_database(1);
    stand.settle();
    stand.finish();
}

/// Habit 9: a whole transfer brings data that is ahead of its serial, and the differences that follow bring it again.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn data_ahead_of_its_serial_comes_twice() {
    let mut stand = Stand::start(1, 5, NO_AUDIT).await;
    let zone = stand.sites[0].origin().to_string();
    let old = stand.sites[0].zone();
    let site = &mut stand.sites[0];
    site.datacenter.scale_down("web", 5, SystemTime::now());
    site.datacenter.scale_up("db", 5, SystemTime::now());
    site.prepare(&old);
    let answer = stand.daemon.verb(&["retransfer", &zone]);
    assert_eq!(answer.code, 0, "{answer:?}");
    stand.look_twice();
    assert_eq!(Client::new(stand.daemon.address()).serial(&stand.sites[0].truth().0), Some(old.serial().0));
    let new = stand.sites[0].zone();
    stand.sites[0].primary.publish(new);
    stand.settle();
    stand.wait_for_adopted(2, 1);
    stand.finish();
}

/// Section 7: differences that reach one serial beyond the SOA that frames them.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn differences_are_used_up_to_their_frame() {
    let mut stand = Stand::start(1, 6, NO_AUDIT).await;
    let site = &mut stand.sites[0];
    site.primary.set_away(true);
    site.datacenter.scale_up("web", 1, SystemTime::now());
    site.publish();
    let old = site.zone();
    site.datacenter.scale_up("web", 1, SystemTime::now());
    site.prepare(&old);
    site.primary.set_away(false);
    let origin = site.truth().0;
    let mut client = Client::new(stand.daemon.address());
    wait_until("the zone is at the announced serial", PATIENCE, || {
        (client.serial(&origin) == Some(old.serial().0)).then_some(())
    });
    stand.wait_for_adopted(1, 1);
    let new = stand.sites[0].zone();
    stand.sites[0].primary.publish(new);
    stand.settle();
    stand.finish();
}

/// Section 7: an error of the database ends differences with a proper SOA. New records are late then, no old one is
/// gone, and the audit brings what is missing.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn differences_cut_short_are_made_good() {
    let mut stand = Stand::start(1, 7, "audit = false\nmessage_timeout = \"1s\"\n").await;
    let zone = stand.sites[0].origin();
    let publish_cut = |stand: &mut Stand, cut| {
        let site = &mut stand.sites[0];
        site.primary.set_away(true);
        site.datacenter.scale_down("db", 1, SystemTime::now());
        site.datacenter.scale_up("api", 2, SystemTime::now());
        site.versions.lock().unwrap().doubt();
        site.publish();
        site.primary.change(&zone, |stored| stored.lapses.cut = Some(cut));
        site.primary.set_away(false);
    };
    // All removals, and some of the additions.
    publish_cut(&mut stand, 30);
    let serial = stand.sites[0].serial();
    let mut client = Client::new(stand.daemon.address());
    wait_until("the version is there", PATIENCE, || (client.serial(&dname(&zone)) == Some(serial)).then_some(()));
    stand.look_twice();
    let served = client.transfer(&dname(&zone)).expect("a transfer");
    assert!(difference(&stand.sites[0].records(), &served).is_some(), "nothing tells that something is missing");
    assert_eq!(stand.daemon.verb(&["retransfer", &zone.to_string()]).code, 0);
    stand.settle();
    stand.wait_for_adopted(2, 1);
    // In the middle of the removals: no step ends, and CNS says no more.
    publish_cut(&mut stand, 3);
    stand.settle();
    assert_eq!(stand.failed("ixfr", "timeout_message"), 1);
    stand.wait_for_adopted(3, 1);
    stand.finish();
}

/// Section 7: history that was dropped.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn without_history_the_whole_zone_comes() {
    let mut stand = Stand::start(1, 8, NO_AUDIT).await;
    let site = &mut stand.sites[0];
    site.primary.set_away(true);
    site.datacenter.scale_down("web", 2, SystemTime::now());
    site.publish();
    site.forget(0);
    site.primary.set_away(false);
    stand.settle();
    let tally = stand.sites[0].primary.tally();
    assert_eq!((tally.whole, tally.steps), (2, 0));
    stand.wait_for_adopted(2, 0);
    stand.finish();
}

/// Habit 10: NS records have another TTL in differences. Habit 11: they change without the serial.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn name_servers_are_right_whichever_way_they_come() {
    let mut stand = Stand::start(1, 9, NO_AUDIT).await;
    let zone = stand.sites[0].origin().to_string();
    stand.sites[0].change_name_servers();
    let changed = stand.sites[0].records();
    assert_eq!(stand.daemon.verb(&["refresh", &zone]).code, 0);
    let served = Client::new(stand.daemon.address()).transfer(&stand.sites[0].truth().0).expect("a transfer");
    assert!(difference(&changed, &served).is_some(), "the serial does not tell");
    assert_eq!(stand.daemon.verb(&["retransfer", &zone]).code, 0);
    stand.settle();
    // Recorded with the next serial, as a step: the TTL stays what it is in the zone.
    stand.sites[0].choose_name_servers();
    stand.sites[0].publish();
    stand.settle();
    let ttl = |record: &&Record| record.rtype == rtype::NS && record.ttl == 3600;
    let served = Client::new(stand.daemon.address()).transfer(&stand.sites[0].truth().0).expect("a transfer");
    assert_eq!(served.iter().filter(ttl).count(), 2);
    stand.wait_for_adopted(2, 1);
    stand.finish();
}

/// Habit 12: an error of the database in the middle of a scan ends a whole transfer with a proper SOA.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn half_a_zone_is_never_served() {
    let mut stand = Stand::start(1, 10, NO_AUDIT).await;
    let site = &mut stand.sites[0];
    site.primary.set_away(true);
    site.datacenter.scale_up("web", 1, SystemTime::now());
    site.publish();
    site.forget(0);
    site.cut_scan(45);
    site.primary.set_away(false);
    wait_until("half a zone is held back", PATIENCE, || stand.is_held().then_some(()));
    stand.settle();
    stand.wait_for_adopted(2, 0);
    assert_eq!(stand.sites[0].primary.tally().whole, 3);
    stand.finish();
}

/// Habits 13 and 14: a database that is rebuilt, and then has a serial below those of the empty zone; the second time below
/// ours as well.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_rebuilt_database_empties_nothing() {
    let mut stand = Stand::start(1, 11, NO_AUDIT).await;
    stand.announce();
    for back in [3, 1000] {
        let whole = stand.sites[0].primary.tally().whole;
        // As long as it takes to be asked for confirmation several times.
        while stand.sites[0].primary.tally().whole < whole + 4 {
            stand.sites[0].lose_database(2).await;
            stand.check();
        }
        assert!(stand.is_held());
        stand.sites[0].datacenter.scale_up("web", 1, SystemTime::now());
        stand.sites[0].regain_database(back);
        stand.settle();
        wait_until("nothing waits any more", PATIENCE, || (!stand.is_held()).then_some(()));
    }
    stand.wait_for_adopted(3, 0);
    stand.finish();
}

/// A database that is lost in the midst of a copy: what is missing from it is not half of the zone, so that its size
/// alone reveals nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_database_that_is_lost_while_it_is_copied_costs_no_names() {
    let mut stand = Stand::start(1, 14, NO_AUDIT).await;
    stand.sites[0].datacenter.scale_up("web", 60, SystemTime::now());
    stand.sites[0].publish();
    stand.settle();
    let site = &mut stand.sites[0];
    let whole = site.primary.tally().whole;
    site.primary.set_away(true);
    site.datacenter.scale_up("web", 1, SystemTime::now());
    site.publish();
    site.forget(0);
    let slices = site.zone().nodes().len().div_ceil(SLICE) as u32;
    site.primary.set_scan_pause(SCAN_PAUSE);
    site.primary.set_away(false);
    wait_until("the copy begins", PATIENCE, || (site.primary.tally().whole > whole).then_some(()));
    tokio::time::sleep(SCAN_PAUSE * (3 * slices / 4) + SCAN_PAUSE / 2).await;
    site.primary.set_scan_pause(Duration::ZERO);
    // Until what came of it has been judged.
    while !stand.is_held() {
        stand.sites[0].lose_database(2).await;
        stand.check();
    }
    stand.sites[0].regain_database(1);
    stand.settle();
    stand.finish();
}

/// A zone that is truly empty stays so at one serial, and is believed then.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_zone_that_was_emptied_is_believed() {
    let stand = Stand::start(1, 12, NO_AUDIT).await.unwatched();
    let site = &stand.sites[0];
    let empty = Zone::new(site.origin(), site.zone().apex().clone(), Serial(site.serial() + 1), []);
    site.primary.publish(empty);
    let mut client = Client::new(stand.daemon.address());
    wait_until("the zone is empty", PATIENCE, || {
        (client.transfer(&site.truth().0).is_ok_and(|records| records.len() == 3)).then_some(())
    });
}

/// Habit 19: CNS announces until the serial shows on our port. Without polls, that is how changes come.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn announcements_are_enough() {
    let mut stand = Stand::start(1, 13, NO_AUDIT).await;
    stand.daemon.write_plan(&stand.plan.replace("\"200ms\"", "\"1d\""));
    assert_eq!(stand.daemon.verb(&["reload"]).code, 0);
    // The poll that the old timer had still planned.
    assert_eq!(stand.daemon.verb(&["refresh"]).code, 0);
    stand.announce();
    for _ in 0..5 {
        stand.sites[0].datacenter.scale_up("web", 1, SystemTime::now());
        stand.sites[0].publish();
        stand.settle();
    }
    stand.wait_for_adopted(1, 5);
    stand.finish();
}

/// Habit 22: a CNS that restarts; it closes its connections and answers nothing for a while.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_restart_changes_nothing() {
    let mut stand = Stand::start(1, 14, NO_AUDIT).await;
    stand.sites[0].primary.set_away(true);
    wait_until("polls fail", PATIENCE, || (stand.failed("soa", "closed") > 2).then_some(()));
    stand.look_twice();
    stand.sites[0].datacenter.scale_up("web", 1, SystemTime::now());
    stand.sites[0].publish();
    stand.sites[0].primary.set_away(false);
    stand.settle();
    stand.finish();
}

/// The captured history of a zone, each state published in turn; what the primary then sends is what CNS sent.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn captured_states_are_followed() {
    let states = [
        include_str!("data/captures/cns-axfr-us-west-1.cns.example.com.s0.txt"),
        include_str!("data/captures/cns-axfr-us-west-1.cns.example.com.s1.txt"),
        include_str!("data/captures/cns-axfr-us-west-1.cns.example.com.s2.txt"),
        include_str!("data/captures/cns-axfr-us-west-1.cns.example.com.s3.txt"),
        include_str!("data/captures/cns-axfr-us-west-1.cns.example.com.s4.txt"),
        include_str!("data/captures/cns-axfr-us-west-1.cns.example.com.s5.txt"),
    ]
    .map(captured);
    let stand = Stand::start(1, 15, NO_AUDIT).await.unwatched();
    let site = &stand.sites[0];
    assert_eq!(site.origin(), *states[0].origin());
    let mut client = Client::new(stand.daemon.address());
    for state in states {
        let expected = records::records(&state);
        site.primary.publish(state);
        let origin = site.truth().0;
        wait_for_records(&mut client, &origin, |records| difference(&expected, records));
    }
    assert!(stand.adopted("ixfr") > 0);
    let tally = site.primary.tally();
    assert_eq!((tally.fatal, tally.unreadable), (0, 0));
}
