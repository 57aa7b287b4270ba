//! Serials that are older than ours: a clock or a database that was set back, or one server of several that lags.

use super::primary::{Poll, Primary, Script, Transfer};
use super::*;

/// Rounds that are many more than it takes to count.
const MANY: u32 = 6;

/// A plan that believes older serials after these times.
fn believing(addresses: &[SocketAddr], after: Duration, after_silence: Duration) -> ZonePlan {
    let plan = plan(addresses, limits());
    let timers = TimerBounds { regress_after: after, regress_after_silence: after_silence, ..plan.timers };
    ZonePlan { timers, ..plan }
}

/// Returns true if the alarm is on.
fn alarm(secondary: &Secondary) -> bool {
    secondary.metric("aggregator_transfer_regressed{zone=\"z.example.\"}") == Some(1)
}

/// Waits until the older serial was seen so often that three rounds alone would long have been enough.
async fn wait_for_many_rounds(secondary: &Secondary) {
    eventually("many rounds", || secondary.source.status().older_answers >= MANY).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_older_serial_is_not_adopted_before_its_time() {
    let primary = Primary::start("127.0.0.1", Script::new(5)).await;
    let secondary = Secondary::start(plan(&[primary.address], limits()));
    secondary.wait_for_serial(5).await;
    assert!(!alarm(&secondary));
    primary.script().serial = 3;
    wait_for_many_rounds(&secondary).await;
    assert_eq!((secondary.serial(), primary.script().transfers), (Some(5), 1));
    assert!(alarm(&secondary));
    let regression = secondary.source.status().regression.unwrap();
    assert_eq!((regression.serial.0, regression.partial), (3, false));
    let wait = regression.until - regression.since;
    assert!((299..=301).contains(&wait), "five minutes: {regression:?}");
    primary.script().serial = 6;
    secondary.wait_for_serial(6).await;
    eventually("a clean status", || secondary.source.status().regression.is_none() && !alarm(&secondary)).await;
    assert_eq!(secondary.source.status().older_answers, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_older_serial_that_lasts_is_adopted() {
    let primary = Primary::start("127.0.0.1", Script::new(5)).await;
    let (after, day) = (1500 * MILLISECOND, Duration::from_secs(86_400));
    let secondary = Secondary::start(believing(&[primary.address], after, day));
    secondary.wait_for_serial(5).await;
    let set_back = Instant::now();
    (primary.script().serial, primary.script().flavour) = (3, 3);
    eventually("the alarm", || alarm(&secondary)).await;
    secondary.wait_for_serial(3).await;
    assert!(set_back.elapsed() >= after, "{:?}", set_back.elapsed());
    eventually("a clean status", || secondary.source.status().regression.is_none() && !alarm(&secondary)).await;
}

/// However often someone asks, an older serial must be there for a while.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn refreshes_by_request_count_as_one() {
    let primary = Primary::start("127.0.0.1", Script::new(5)).await;
    let mut plan = believing(&[primary.address], MILLISECOND, MILLISECOND);
    (plan.timers.retry_min, plan.timers.retry_max) = (5000 * MILLISECOND, 5000 * MILLISECOND);
    let secondary = Secondary::start(plan);
    secondary.wait_for_serial(5).await;
    primary.script().serial = 3;
    for _ in 0..8 {
        let answer = secondary.ask(WakeKind::Refresh).await.unwrap_err();
        assert!(answer.contains("older than ours") && answer.contains("accepted retransfer"), "{answer}");
    }
    assert_eq!((secondary.serial(), secondary.source.status().older_answers), (Some(5), 1));
    primary.script().serial = 6;
    assert!(secondary.ask(WakeKind::Refresh).await.unwrap().contains("5 -> 6"));
    eventually("a clean status", || secondary.source.status().older_answers == 0).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_older_serial_at_one_of_two_primaries_is_not_adopted() {
    let older = Primary::start("127.0.0.1", Script::new(5)).await;
    let other = Primary::start("127.0.0.1", Script::new(5)).await;
    let addresses = [older.address, other.address];
    let secondary = Secondary::start(believing(&addresses, MILLISECOND, MILLISECOND));
    secondary.wait_for_serial(5).await;
    older.script().serial = 3;
    secondary.wait_for_failure("soa regressed").await;
    let transfers = older.script().transfers;
    let confirmations = secondary.changes.lock().unwrap().len();
    eventually("confirmations", || secondary.changes.lock().unwrap().len() >= confirmations + 5).await;
    assert_eq!((secondary.serial(), older.script().transfers), (Some(5), transfers));
    assert!(!alarm(&secondary));
}

/// With the newer of two primaries gone, the one that lags must not win soon.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lagging_primary_waits_longer_while_the_other_is_silent() {
    let newer = Primary::start("127.0.0.1", Script::new(5)).await;
    let lagging = Primary::start("127.0.0.1", Script::new(3)).await;
    let limits = Limits { connect_timeout: 100 * MILLISECOND, ..limits() };
    let day = Duration::from_secs(86_400);
    let plan = ZonePlan { limits, ..believing(&[newer.address, lagging.address], MILLISECOND, day) };
    let secondary = Secondary::start(plan);
    secondary.wait_for_serial(5).await;
    newer.script().poll = Poll::Silent;
    wait_for_many_rounds(&secondary).await;
    assert_eq!((secondary.serial(), lagging.script().transfers), (Some(5), 0));
    let regression = secondary.source.status().regression.unwrap();
    assert!(regression.partial && alarm(&secondary));
    assert!((86_399..=86_401).contains(&(regression.until - regression.since)), "{regression:?}");
    // As soon as it is heard again, nothing is left of the suspicion.
    newer.script().poll = Poll::Good;
    eventually("a clean status", || secondary.source.status().regression.is_none()).await;
    assert_eq!(secondary.serial(), Some(5));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_newest_of_the_older_is_taken() {
    let first = Primary::start("127.0.0.1", Script::new(9)).await;
    let second = Primary::start("127.0.0.1", Script::new(9)).await;
    let silent = Primary::start("127.0.0.1", Script::new(9)).await;
    let limits = Limits { connect_timeout: 100 * MILLISECOND, ..limits() };
    let addresses = [first.address, second.address, silent.address];
    let day = Duration::from_secs(86_400);
    let plan = ZonePlan { limits, ..believing(&addresses, day, 1000 * MILLISECOND) };
    let secondary = Secondary::start(plan);
    secondary.wait_for_serial(9).await;
    silent.script().poll = Poll::Silent;
    (first.script().serial, second.script().serial) = (3, 7);
    eventually("an older one", || secondary.serial() != Some(9)).await;
    assert_eq!((secondary.serial(), first.script().transfers), (Some(7), 1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_operator_decides_at_once_and_must_say_so() {
    let older = Primary::start("127.0.0.1", Script::new(5)).await;
    let lost = Primary::start("127.0.0.1", Script::new(5)).await;
    let secondary = Secondary::start(plan(&[older.address, lost.address], limits()));
    secondary.wait_for_serial(5).await;
    lost.script().transfer = Transfer::Rcode(5);
    lost.script().poll = Poll::Rcode(5);
    older.script().serial = 3;
    let refused = secondary.ask(WakeKind::Retransfer { accept: false }).await.unwrap_err();
    assert!(refused.contains("older than ours") && secondary.serial() == Some(5), "{refused}");
    let answer = secondary.ask(WakeKind::Retransfer { accept: true }).await.unwrap();
    assert!(answer.contains("5 -> 3"), "{answer}");
}

/// As after a CNS that was rebuilt while we began with what it had meanwhile.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_version_with_nothing_in_it_is_not_kept() {
    let primary = Primary::start("127.0.0.1", Script { names: 0, ..Script::new(5) }).await;
    let secondary = Secondary::start(plan(&[primary.address], limits()));
    secondary.wait_for_serial(5).await;
    (primary.script().names, primary.script().serial) = (10, 3);
    secondary.wait_for_serial(3).await;
    assert!(!alarm(&secondary));
}
