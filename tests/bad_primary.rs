//! Primaries that misbehave: the last good data stays, the metric names the reason, and the zone follows again as soon
//! as the primary is well.

#[path = "bad_primary/announcements.rs"]
mod announcements;
#[path = "bad_primary/differences.rs"]
mod differences;
#[path = "bad_primary/primary.rs"]
mod primary;
#[path = "bad_primary/serial_regression.rs"]
mod serial_regression;
#[path = "bad_primary/silence.rs"]
mod silence;

use aggregator::client::Server;
use aggregator::metrics::Metrics;
use aggregator::publish::{Identity, Published, Publisher, Served, State};
use aggregator::source::shell::{Facilities, Handle};
use aggregator::source::{News, Update, Wake, WakeKind};
use aggregator::transfer::silence::Times;
use aggregator::transfer::{self, Common, Limits, Primaries, Status, TimerBounds, ZonePlan};
use aggregator::zone::Zone;
use primary::{Poll, Primary, Script, Transfer};
use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use wire::name::Name;
use wire::tsig::{Algorithm, Key};

const MILLISECOND: Duration = Duration::from_millis(1);

/// A zone with its task and a keeper that publishes whatever comes.
struct Secondary {
    source: Handle<Primaries>,
    publisher: Arc<Publisher>,
    metrics: Arc<Metrics>,
    /// Messages that the keeper got, in order.
    changes: Arc<Mutex<Vec<&'static str>>>,
    keeper: JoinHandle<()>,
}

fn zone_name() -> Name {
    Name::parse("z.example").unwrap()
}

/// Limits that no good transfer comes near, and that bad ones meet soon.
fn limits() -> Limits {
    Limits { connect_timeout: 4000 * MILLISECOND, message_timeout: 4000 * MILLISECOND, ..Limits::default() }
}

fn plan(addresses: &[SocketAddr], limits: Limits) -> ZonePlan {
    let primaries =
        addresses.iter().map(|address| Server { address: *address, source: None, key: None, tls: None }).collect();
    let timers = TimerBounds {
        refresh_min: 50 * MILLISECOND,
        refresh_max: 50 * MILLISECOND,
        retry_min: 50 * MILLISECOND,
        retry_max: 200 * MILLISECOND,
        ..TimerBounds::default()
    };
    ZonePlan {
        zone: zone_name(),
        origin: zone_name(),
        primaries,
        notify_from: Vec::new(),
        ixfr: false,
        timers,
        limits,
        catalog: None,
    }
}

fn publish(publisher: &Publisher, state: State, zone: Option<Arc<Zone>>) {
    publisher.publish(Published::new(Identity::default(), [Arc::new(Served::new(zone_name(), state, zone))], 0));
}

async fn keep(mut updates: mpsc::Receiver<Update>, publisher: Arc<Publisher>, changes: Arc<Mutex<Vec<&'static str>>>) {
    while let Some(update) = updates.recv().await {
        let [(zone, news)] = <[_; 1]>::try_from(update.news).ok().unwrap();
        let news = match news {
            News::Current => "current",
            News::Load { loaded, base } => {
                let before = publisher.load().get(&zone).and_then(|served| served.zone.clone());
                assert_eq!(base.map(|zone| zone.soa.serial), before.map(|zone| zone.soa.serial));
                publish(&publisher, State::Ok, Some(Arc::new(loaded.zone)));
                "load"
            }
        };
        changes.lock().unwrap().push(news);
        let _ = update.published.unwrap().send(());
    }
}

impl Secondary {
    fn start(plan: ZonePlan) -> Secondary {
        Secondary::start_with(plan, Common::start(Times::default(), Arc::default()))
    }

    fn start_with(plan: ZonePlan, common: Common) -> Secondary {
        let (updates, receiver) = mpsc::channel(4);
        let (publisher, metrics) = (Arc::new(Publisher::default()), Arc::new(Metrics::new()));
        let changes = Arc::default();
        let keeper = tokio::spawn(keep(receiver, publisher.clone(), Arc::clone(&changes)));
        let facilities =
            Facilities { updates, publisher: publisher.clone(), metrics: metrics.clone(), budget: Arc::default() };
        let source = transfer::start(plan, facilities, common);
        Secondary { source, publisher, metrics, changes, keeper }
    }

    fn zone(&self) -> Option<Arc<Zone>> {
        self.publisher.load().get(&zone_name()).and_then(|served| served.zone.clone())
    }

    fn serial(&self) -> Option<u32> {
        self.zone().map(|zone| zone.soa.serial.0)
    }

    /// The kinds and reasons of all failures so far.
    fn failures(&self) -> BTreeSet<String> {
        let label = |line: &str, name: &str| {
            let (_, rest) = line.split_once(&format!("{name}=\"")).unwrap();
            rest.split_once('"').unwrap().0.to_owned()
        };
        let text = self.metrics.render();
        let lines = text.lines().filter(|line| line.starts_with("aggregator_transfer_failures_total{"));
        lines.map(|line| format!("{} {}", label(line, "kind"), label(line, "reason"))).collect()
    }

    async fn wait_for_serial(&self, serial: u32) {
        eventually(&format!("serial {serial}"), || self.serial() == Some(serial)).await;
    }

    async fn wait_for_failure(&self, failure: &str) {
        eventually(failure, || self.failures().contains(failure)).await;
    }

    async fn ask(&self, kind: WakeKind) -> Result<String, String> {
        let (done, answer) = oneshot::channel();
        self.source.wake(Wake { kind, done: Some(done) });
        answer.await.unwrap()
    }

    fn held(&self) -> bool {
        self.metric("aggregator_transfer_held{zone=\"z.example.\"}") == Some(1)
    }

    /// The value of a series of a scrape, if it is there.
    fn metric(&self, series: &str) -> Option<u32> {
        let text = self.metrics.render();
        let value = text.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '))?;
        Some(value.parse().expect("a whole number"))
    }
}

async fn eventually(what: &str, condition: impl Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while !condition() {
        assert!(Instant::now() < deadline, "never happened: {what}");
        tokio::time::sleep(5 * MILLISECOND).await;
    }
}

/// Loads a zone, lets the primary go bad together with a new version, and then heals it.
async fn survives(limits: Limits, failure: &str, spoil: impl Fn(&mut Script)) {
    let primary = Primary::start("127.0.0.1", Script::new(1)).await;
    let secondary = Secondary::start(plan(&[primary.address], limits));
    secondary.wait_for_serial(1).await;
    let before = secondary.zone().unwrap();
    {
        let mut script = primary.script();
        script.serial = 2;
        script.flavour = 2;
        spoil(&mut script);
    }
    secondary.wait_for_failure(failure).await;
    let status = secondary.source.status().primaries.remove(0);
    assert!(status.failures > 0 && !status.result.is_empty(), "{status:?}");
    assert!(Arc::ptr_eq(&before, &secondary.zone().unwrap()), "the last good data stays");
    assert_eq!(secondary.failures(), BTreeSet::from([failure.to_owned()]), "{:?}", secondary.source.status());
    *primary.script() = Script { flavour: 2, ..Script::new(3) };
    secondary.wait_for_serial(3).await;
    eventually("a clean status", || {
        let status = secondary.source.status();
        (status.failures, status.primaries[0].failures) == (0, 0)
    })
    .await;
    assert_eq!(secondary.source.status().primaries[0].announced.unwrap().0, 3);
}

/// As [`survives`], for a manner of zone transfers.
async fn survives_transfer(limits: Limits, reason: &str, transfer: Transfer) {
    survives(limits, &format!("axfr {reason}"), |script| script.transfer = transfer).await;
}

/// As [`survives`], for a manner of answering polls.
async fn survives_poll(limits: Limits, reason: &str, poll: Poll) {
    survives(limits, &format!("soa {reason}"), |script| script.poll = poll).await;
}

//--- Transfers ---

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn refuses() {
    survives_transfer(limits(), "refused", Transfer::Rcode(5)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fails() {
    survives_transfer(limits(), "servfail", Transfer::Rcode(2)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hangs_after_accepting() {
    let limits = Limits { message_timeout: 300 * MILLISECOND, ..limits() };
    survives_transfer(limits, "timeout_message", Transfer::HangAtOnce).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hangs_in_the_middle() {
    let limits = Limits { total_timeout: 300 * MILLISECOND, ..limits() };
    survives_transfer(limits, "timeout_total", Transfer::HangMidway).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dribbles() {
    let limits = Limits { message_timeout: 700 * MILLISECOND, ..limits() };
    survives_transfer(limits, "timeout_message", Transfer::Dribble).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cuts_the_connection() {
    survives_transfer(limits(), "closed", Transfer::CutMidMessage).await;
    survives_transfer(limits(), "closed", Transfer::CutMidZone).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ends_with_another_soa() {
    survives_transfer(limits(), "closing_soa", Transfer::OtherClosingSoa).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sends_another_zone() {
    survives_transfer(limits(), "out_of_zone", Transfer::OtherZone).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn signs_what_cannot_be_served_as_it_came() {
    survives_transfer(limits(), "signed", Transfer::SignedOtherwise).await;
    survives_transfer(limits(), "signed", Transfer::SignedSlowly).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn answers_something_else() {
    survives_transfer(limits(), "id", Transfer::OtherId).await;
    survives_transfer(limits(), "question", Transfer::OtherQuestion).await;
    survives_transfer(limits(), "class", Transfer::OtherClass).await;
    survives_transfer(limits(), "malformed", Transfer::Garbage).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn never_ends() {
    let limit = Limits { max_records: 5000, ..limits() };
    survives_transfer(limit, "too_many_records", Transfer::Endless).await;
    let limit = Limits { max_messages: 100, ..limits() };
    survives_transfer(limit, "too_many_messages", Transfer::Endless).await;
    let limit = Limits { max_bytes: 100_000, ..limits() };
    survives_transfer(limit, "too_large", Transfer::Endless).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn announces_more_than_it_has() {
    survives(limits(), "axfr regressed", |script| {
        script.announced = Some(9);
        script.serial = 0;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn announces_more_but_sends_what_we_have() {
    let primary = Primary::start("127.0.0.1", Script { announced: Some(9), ..Script::new(1) }).await;
    let secondary = Secondary::start(plan(&[primary.address], limits()));
    eventually("some transfers", || primary.script().transfers >= 3).await;
    assert_eq!(secondary.serial(), Some(1));
    eventually("a confirmation", || secondary.changes.lock().unwrap().starts_with(&["load", "current"])).await;
    assert_eq!(secondary.failures(), BTreeSet::new());
}

//--- Polls ---

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn answers_polls_badly() {
    survives_poll(limits(), "refused", Poll::Rcode(5)).await;
    survives_poll(limits(), "notauth", Poll::Rcode(9)).await;
    survives_poll(limits(), "not_authoritative", Poll::NotAuthoritative).await;
    survives_poll(limits(), "no_soa", Poll::NoSoa).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ignores_polls() {
    let limits = Limits { connect_timeout: 600 * MILLISECOND, ..limits() };
    survives_poll(limits, "timeout_message", Poll::Silent).await;
    survives_poll(limits, "question", Poll::OtherQuestion).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn polls_go_over_tcp_when_udp_does_not_do() {
    for poll in [Poll::TruncatedUdp, Poll::SilentUdp] {
        let primary = Primary::start("127.0.0.1", Script { poll, ..Script::new(1) }).await;
        let limits = Limits { connect_timeout: 600 * MILLISECOND, ..limits() };
        let secondary = Secondary::start(plan(&[primary.address], limits));
        secondary.wait_for_serial(1).await;
        primary.script().serial = 2;
        secondary.wait_for_serial(2).await;
        assert!(primary.script().tcp_polls > 1);
        assert_eq!(secondary.failures(), BTreeSet::new());
    }
}

/// CNS answers a signed question as if it were unsigned.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn answers_signed_questions_unsigned() {
    let primary = Primary::start("127.0.0.1", Script::new(1)).await;
    let mut plan = plan(&[primary.address], limits());
    let name = Name::parse("transfer.example").unwrap();
    plan.primaries[0].key = Some(Arc::new(Key::new(name, Algorithm::Sha256, vec![7; 32])));
    let secondary = Secondary::start(plan);
    secondary.wait_for_failure("soa unsigned").await;
    let result = || secondary.source.status().primaries[0].result.clone();
    eventually("the failure in the status", || result().contains("without signature")).await;
    assert!(result().contains("CNS has no TSIG") && result().contains("remove `key`"), "{}", result());
    assert_eq!(secondary.serial(), None);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn is_away_for_a_while() {
    let primary = Primary::start("127.0.0.1", Script::new(1)).await;
    let address = primary.address;
    let limits = Limits { connect_timeout: 600 * MILLISECOND, ..limits() };
    let secondary = Secondary::start(plan(&[address], limits));
    secondary.wait_for_serial(1).await;
    let script = primary.stop().await;
    secondary.wait_for_failure("soa connect").await;
    assert_eq!(secondary.serial(), Some(1));
    let _primary = Primary::start_at(address, Script { serial: 2, ..script }).await;
    let back = Instant::now();
    secondary.wait_for_serial(2).await;
    assert!(back.elapsed() < Duration::from_secs(3), "an unreachable primary is tried again soon");
}

//--- Addresses ---

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn primaries_may_have_ipv6_addresses() {
    let primary = Primary::start("::1", Script::new(1)).await;
    let secondary = Secondary::start(plan(&[primary.address], limits()));
    secondary.wait_for_serial(1).await;
    primary.script().serial = 2;
    secondary.wait_for_serial(2).await;
    assert_eq!(secondary.failures(), BTreeSet::new());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn polls_and_transfers_come_from_the_source_address() {
    let primary = Primary::start("127.0.0.1", Script { poll: Poll::TruncatedUdp, ..Script::new(1) }).await;
    let mut plan = plan(&[primary.address], limits());
    plan.primaries[0].source = Some("127.0.0.2".parse().unwrap());
    let secondary = Secondary::start(plan.clone());
    secondary.wait_for_serial(1).await;
    primary.script().serial = 2;
    secondary.wait_for_serial(2).await;
    let clients: BTreeSet<_> = primary.script().clients.iter().copied().collect();
    assert_eq!(clients, BTreeSet::from(["127.0.0.2".parse().unwrap()]));
    drop(secondary);

    plan.primaries[0].source = Some("192.0.2.1".parse().unwrap());
    let secondary = Secondary::start(plan);
    secondary.wait_for_failure("soa source_address").await;
    assert!(secondary.source.status().primaries[0].result.contains("192.0.2.1"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dead_primary_is_passed_over() {
    let dead = Primary::start("127.0.0.1", Script::new(1)).await;
    let dead_address = dead.address;
    dead.stop().await;
    let primary = Primary::start("127.0.0.1", Script::new(1)).await;
    let limits = Limits { connect_timeout: 600 * MILLISECOND, ..limits() };
    let secondary = Secondary::start(plan(&[dead_address, primary.address], limits));
    secondary.wait_for_serial(1).await;
    primary.script().serial = 2;
    secondary.wait_for_serial(2).await;
    assert_eq!(secondary.failures(), BTreeSet::from(["soa connect".to_owned()]));
    let attempts =
        secondary.metrics.transfer_attempts.with_label_values(&["z.example.", &dead_address.to_string(), "soa"]);
    assert_eq!(attempts.get(), 1, "the good one is asked first from then on");
    let failures = |status: Status| (status.failures, status.primaries[0].failures, status.primaries[1].failures);
    eventually("failures of the dead one alone", || failures(secondary.source.status()) == (0, 1, 0)).await;
    let status = secondary.source.status();
    let json = serde_json::to_value(&status).unwrap();
    assert_eq!(json["primaries"][1]["announced"], 2);
    assert_eq!(json["zone"], "z.example.");
}

//--- Serials ---

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_expired_zone_takes_any_serial() {
    let primary = Primary::start("127.0.0.1", Script::new(5)).await;
    let secondary = Secondary::start(plan(&[primary.address], limits()));
    secondary.wait_for_serial(5).await;
    publish(&secondary.publisher, State::Expired, secondary.zone());
    primary.script().serial = 3;
    secondary.wait_for_serial(3).await;
    assert_eq!(secondary.failures(), BTreeSet::new());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_audit_finds_what_changed_under_the_same_serial() {
    let primary = Primary::start("127.0.0.1", Script::new(5)).await;
    let secondary = Secondary::start(plan(&[primary.address], limits()));
    secondary.wait_for_serial(5).await;
    let drift = secondary.metrics.audit_drift.with_label_values(&["z.example."]);
    assert!(secondary.ask(WakeKind::Audit).await.unwrap().contains("0 names changed"));
    primary.script().flavour = 9;
    assert_eq!(secondary.ask(WakeKind::Refresh).await.unwrap(), "serial 5, current");
    assert_eq!(drift.get(), 0);
    assert!(secondary.ask(WakeKind::Audit).await.unwrap().contains("10 names changed"));
    assert_eq!(drift.get(), 10);
    assert!(format!("{:?}", secondary.zone().unwrap()).contains("192.0.9.1"));
    primary.script().serial = 4;
    assert!(secondary.ask(WakeKind::Audit).await.unwrap_err().contains("older than ours"));
}

//--- The guard ---

/// A loaded zone of forty names whose next version has three.
async fn shrunk(limits: Limits) -> (Primary, Secondary) {
    let primary = Primary::start("127.0.0.1", Script { names: 40, ..Script::new(1) }).await;
    let secondary = Secondary::start(plan(&[primary.address], limits));
    secondary.wait_for_serial(1).await;
    primary.script().names = 3;
    primary.script().serial = 2;
    eventually("a held version", || secondary.held() && secondary.source.status().held.is_some()).await;
    assert_eq!(secondary.serial(), Some(1));
    (primary, secondary)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sharp_shrink_is_adopted_when_confirmed() {
    let begun = Instant::now();
    let (primary, secondary) = shrunk(Limits { confirm_after: 800 * MILLISECOND, ..limits() }).await;
    let held = secondary.source.status().held.unwrap();
    assert_eq!((held.serial.0, held.names, held.served_names), (2, 4, 41));
    secondary.wait_for_serial(2).await;
    assert!(begun.elapsed() >= 800 * MILLISECOND);
    assert_eq!(primary.script().transfers, 3);
    eventually("nothing held", || !secondary.held() && secondary.source.status().held.is_none()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sharp_shrink_that_was_a_slip_is_never_seen() {
    let (primary, secondary) = shrunk(Limits { confirm_after: 500 * MILLISECOND, ..limits() }).await;
    *primary.script() = Script { names: 41, ..Script::new(3) };
    secondary.wait_for_serial(3).await;
    eventually("nothing held", || !secondary.held()).await;
    assert_eq!(secondary.changes.lock().unwrap().iter().filter(|change| **change == "load").count(), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sharp_shrink_is_adopted_at_once_when_the_operator_says_so() {
    let (_primary, secondary) = shrunk(Limits { confirm_after: Duration::from_secs(3600), ..limits() }).await;
    let answer = secondary.ask(WakeKind::Retransfer { accept: false }).await.unwrap_err();
    assert!(answer.contains("held back"), "{answer}");
    assert_eq!(secondary.serial(), Some(1));
    secondary.ask(WakeKind::Retransfer { accept: true }).await.unwrap();
    assert_eq!((secondary.serial(), secondary.held()), (Some(2), false));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_empty_zone_is_not_believed_while_its_serial_rises() {
    let primary = Primary::start("127.0.0.1", Script { names: 2, ..Script::new(1) }).await;
    let limits = Limits { confirm_after: 400 * MILLISECOND, ..limits() };
    let secondary = Secondary::start(plan(&[primary.address], limits));
    secondary.wait_for_serial(1).await;
    *primary.script() = Script { names: 0, rising: true, ..Script::new(10) };
    eventually("a held version", || secondary.held()).await;
    let transfers = primary.script().transfers;
    eventually("several confirmations", || primary.script().transfers > transfers + 3).await;
    assert_eq!((secondary.serial(), secondary.held()), (Some(1), true));
    primary.script().rising = false;
    eventually("an empty zone", || secondary.serial() > Some(10)).await;
    assert_eq!(secondary.zone().unwrap().records, 1);
}

/// Audits confirm the finding of an audit; they must notice that the serial is lower now.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lower_serial_is_adopted_while_an_audit_waits_for_confirmation() {
    let primary = Primary::start("127.0.0.1", Script { names: 41, ..Script::new(5) }).await;
    let limits = Limits { confirm_after: 400 * MILLISECOND, ..limits() };
    let mut plan = plan(&[primary.address], limits);
    plan.timers.regress_after = 100 * MILLISECOND;
    let secondary = Secondary::start(plan);
    secondary.wait_for_serial(5).await;
    primary.script().names = 3;
    let answer = secondary.ask(WakeKind::Audit).await.unwrap_err();
    assert!(answer.contains("held back"), "{answer}");
    *primary.script() = Script { names: 41, ..Script::new(3) };
    secondary.wait_for_serial(3).await;
    eventually("nothing held", || !secondary.held()).await;
}

//--- The task ---

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_during_a_transfer_become_one() {
    let primary = Primary::start("127.0.0.1", Script { transfer: Transfer::HangMidway, ..Script::new(1) }).await;
    let limits = Limits { message_timeout: 600 * MILLISECOND, ..limits() };
    let secondary = Secondary::start(plan(&[primary.address], limits));
    eventually("a transfer", || primary.script().transfers == 1).await;
    *primary.script() = Script::new(1);
    let retransfer = WakeKind::Retransfer { accept: false };
    let answers =
        tokio::join!(secondary.ask(WakeKind::Refresh), secondary.ask(retransfer), secondary.ask(WakeKind::Audit));
    assert!(answers.0.is_ok() && answers.0 == answers.1 && answers.1 == answers.2, "{answers:?}");
    assert_eq!(primary.script().transfers, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_task_ends_with_its_handle() {
    let primary = Primary::start("127.0.0.1", Script { transfer: Transfer::HangMidway, ..Script::new(1) }).await;
    let secondary = Secondary::start(plan(&[primary.address], limits()));
    eventually("a transfer", || primary.script().transfers == 1).await;
    let Secondary { source, keeper, .. } = secondary;
    drop(source);
    tokio::time::timeout(Duration::from_secs(10), keeper).await.expect("the road to the keeper is closed").unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_task_ends_with_the_keeper() {
    let primary = Primary::start("127.0.0.1", Script::new(1)).await;
    let (updates, receiver) = mpsc::channel(1);
    drop(receiver);
    let common = Common::start(Times::default(), Arc::default());
    let (publisher, metrics, budget) = Default::default();
    let facilities = Facilities { updates, publisher, metrics, budget };
    let source = transfer::start(plan(&[primary.address], limits()), facilities, common);
    let ended = |answer: Result<Result<String, String>, oneshot::error::RecvError>| !matches!(answer, Ok(Ok(_)));
    for _ in 0..3 {
        let (done, answer) = oneshot::channel();
        source.wake(Wake { kind: WakeKind::Refresh, done: Some(done) });
        assert!(ended(answer.await));
    }
}
