//! Commits of CNS in the middle of transfers, a thousand of them: a copy that was mixed loses nothing, and costs
//! nothing.

use crate::NO_AUDIT;
use crate::harness::{Client, Output, Record, difference, wait_until};
use crate::records::records;
use crate::site::Site;
use crate::stand::{PATIENCE, Stand, wait_for_records};
use sim::zone::{Data, Zone};
use std::collections::HashSet;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};
use wire::serial::Serial;

/// Zones, each of which has so many commits: a thousand together.
const ZONES: u8 = 5;
const COMMITS: usize = 200;
/// Every how many commits a zone rests until it is compared.
const REST: usize = 5;
/// Longest time from a serial until its contents are served.
const LATEST: Duration = Duration::from_secs(6);

/// Runs a client verb.
type Verb = Arc<dyn Fn(&[&str]) -> Output + Send + Sync>;

/// Records that a datacenter has and a secondary lacks, and the other way round.
struct Seen {
    missing: usize,
    is_equal: bool,
}

/// Transfers a zone and compares it.
fn look(client: &mut Client, site: &Site, place: &mut usize) -> Seen {
    let (origin, versions) = site.truth();
    let served = client.transfer(&origin).expect("a transfer");
    let versions = versions.lock().unwrap();
    *place = versions.find(*place, served[0].serial()).expect("a serial that the zone had");
    let all: HashSet<Record> = served.iter().map(Record::canonical).collect();
    let missing = versions.missing(*place, |record| all.contains(record));
    missing.iter().for_each(|record| println!("{origin} lacks at serial {}: {record}", served[0].serial()));
    Seen { missing: missing.len(), is_equal: difference(&site.records(), &served).is_none() }
}

/// Commits one after the other, with a whole transfer in the middle of one.
async fn keep_committing(mut site: Site, daemon: SocketAddr, is_exact: bool, verb: Verb) -> Site {
    let mut client = Client::new(daemon).with_deadline(PATIENCE);
    let (mut place, mut published) = (0, Vec::new());
    for number in 1..=COMMITS {
        if number == COMMITS / 2 {
            let (zone, verb) = (site.origin().to_string(), verb.clone());
            let whole = tokio::task::spawn_blocking(move || verb(&["retransfer", &zone]).code);
            site.commit(300..600).await;
            assert_eq!(whole.await.expect("no panic"), 0);
        } else {
            site.commit(30..90).await;
        }
        published.push((site.serial(), Instant::now()));
        if number % REST != 0 {
            let served = tokio::task::block_in_place(|| client.serial(&site.truth().0)).expect("a serial");
            let late = published.iter().find(|(serial, at)| *serial > served && at.elapsed() > LATEST);
            assert!(late.is_none(), "{} is at {served} and not at {late:?}", site.origin());
            continue;
        }
        let begun = Instant::now();
        loop {
            let seen = tokio::task::block_in_place(|| look(&mut client, &site, &mut place));
            assert_eq!(seen.missing, 0, "{} has lost records", site.origin());
            let served = site.versions.lock().unwrap().serial(place);
            let late = published.iter().find(|(serial, at)| *serial > served && at.elapsed() > LATEST);
            assert!(late.is_none(), "{} is at {served} and not at {late:?}", site.origin());
            if seen.is_equal || !is_exact && served == site.serial() {
                break;
            }
            assert!(begun.elapsed() < LATEST, "{} is not what it should be at {served}", site.origin());
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
    site
}

/// A thousand commits, with primaries that answer questions or refuse them. There is one whole transfer for a hundred
/// of them at most, half of which are wanted, and where nothing is answered one more for each zone, and for each
/// minute. A copy that a commit has torn is read again, which counts as one transfer.
async fn commit_a_thousand_times(refuses: bool) -> Stand {
    let begun = Instant::now();
    let mut stand = Stand::start(ZONES, 31, NO_AUDIT).await.unwatched();
    let (daemon, mut running) = (stand.daemon.address(), tokio::task::JoinSet::new());
    let before: u64 = stand.sites.iter().map(|site| site.primary.tally().whole).sum();
    let verb: Verb = Arc::new(stand.daemon.teller());
    for site in std::mem::take(&mut stand.sites) {
        site.primary.set_scan_pause(Duration::from_millis(3));
        site.primary.set_refusing(refuses);
        running.spawn(keep_committing(site, daemon, !refuses, verb.clone()));
    }
    stand.sites = running.join_all().await;
    stand.sites.sort_by_key(|site| site.origin().to_string());
    let (mut questions, mut whole, mut steps) = (0, 0, 0);
    for site in &stand.sites {
        let tally = site.primary.tally();
        assert_eq!((tally.fatal, tally.unreadable), (0, 0));
        (questions, whole, steps) = (questions + tally.questions, whole + tally.whole, steps + tally.steps);
    }
    let page = stand.daemon.metrics();
    let counted = ["aggregator_transfer_failures_total{", "aggregator_removals_vetoed_total{"];
    page.lines().filter(|line| counted.iter().any(|name| line.starts_with(name))).for_each(|line| println!("{line}"));
    let torn = stand.daemon.log_text().matches("it is copied again").count() as u64;
    let whole = whole - before - torn;
    println!(
        "{questions} questions, {whole} whole zones, {torn} torn copies, {steps} differences, {:?}",
        begun.elapsed()
    );
    let more = if refuses { u64::from(ZONES) * (1 + begun.elapsed().as_secs() / 60) } else { 0 };
    assert!(whole <= u64::from(ZONES) * COMMITS as u64 / 100 + more);
    assert!(questions > 0);
    stand
}

/// Without answers what has gone stays a while, and what is there is never gone. One after the other, so that they do
/// not delay each other.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_thousand_commits_in_the_middle_of_transfers_lose_nothing() {
    drop(commit_a_thousand_times(false).await);
    let stand = commit_a_thousand_times(true).await;
    let mut client = Client::new(stand.daemon.address()).with_deadline(PATIENCE);
    for site in &stand.sites {
        assert_eq!(stand.daemon.verb(&["retransfer", &site.origin().to_string()]).code, 0);
        let (zone, expected) = (site.truth().0, site.records());
        wait_for_records(&mut client, &zone, |records| difference(&expected, records));
    }
}

/// Section 9: a copy taken between two commits under one serial lacks the second, until it is asked for.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn the_second_commit_under_a_serial_is_asked_for() {
    let mut stand = Stand::start(1, 32, NO_AUDIT).await;
    stand.sites[0].commit(10..20).await;
    stand.settle();
    let site = &mut stand.sites[0];
    site.datacenter.scale_down("db", 1, SystemTime::now());
    site.datacenter.scale_up("web", 2, SystemTime::now());
    site.commit_again().await;
    let (zone, expected) = (site.truth().0, site.records());
    let mut client = Client::new(stand.daemon.address()).with_deadline(PATIENCE);
    let is_equal = |client: &mut Client| difference(&expected, &client.transfer(&zone).expect("a transfer")).is_none();
    assert!(!is_equal(&mut client), "the serial does not tell");
    wait_until("the second commit is there", Duration::from_secs(60), || is_equal(&mut client).then_some(()));
    let tally = stand.sites[0].primary.tally();
    assert_eq!((tally.whole, tally.fatal), (1, 0), "without a whole zone");
    stand.wait_for_adopted(1, 2);
}

/// A service of so many instances that CNS would end on the answer for it, the first one with one address or two.
fn large(site: &Site, addresses: usize) -> Zone {
    let origin = site.origin();
    let service = origin.prepend(b"web").expect("the name fits");
    let mut records = Vec::new();
    for number in 0..600u16 {
        let target = origin.prepend(format!("web-{number}").as_bytes()).expect("the name fits");
        let [high, low] = number.to_be_bytes();
        let both = [Data::A([10, 0, high, low].into()), Data::Aaaa([0xfd00, 0, 0, 0, 0, 0, 0, number].into())];
        for address in both.into_iter().take(if number == 0 { addresses } else { 2 }) {
            records.push((target.clone(), address));
            let target = target.clone();
            records.push((service.clone(), Data::Srv { priority: 0, weight: 10, port: 80, target }));
        }
    }
    let serial = Serial(site.serial() + 10 - addresses as u32);
    Zone::new(origin, site.zone().apex().clone(), serial, records)
}

/// Section 6: CNS would end on an answer of so many records over TCP.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_set_that_would_end_cns_is_not_asked_for_over_tcp() {
    let stand = Stand::start(1, 33, NO_AUDIT).await.unwatched();
    let site = &stand.sites[0];
    let (origin, mut client) = (site.truth().0, Client::new(stand.daemon.address()).with_deadline(PATIENCE));
    // The first of many instances has two addresses, and then one.
    for addresses in [2, 1] {
        let version = large(site, addresses);
        let expected = records(&version);
        site.primary.publish(version);
        wait_for_records(&mut client, &origin, |records| difference(&expected, records));
    }
    let tally = site.primary.tally();
    assert_eq!((tally.fatal, tally.whole), (0, 2), "the whole zone tells");
    assert_eq!(stand.failed("ixfr", "ixfr_unanswered"), 1);
}
