//! Announcements (NOTIFY), which anyone can forge: they act at once while all is well, and add nothing to what a primary that
//! is not well costs.

use super::primary::{Primary, Script, Transfer};
use super::*;

/// A plan whose timers do nothing within a test, unless it asks for them.
fn patient(address: SocketAddr, limits: Limits) -> ZonePlan {
    let hour = Duration::from_secs(3600);
    let timers = TimerBounds { refresh_min: hour, refresh_max: hour, ..plan(&[], limits).timers };
    ZonePlan { timers, ..plan(&[address], limits) }
}

/// Announces again and again until the condition holds. Returns how often.
async fn announce_until(secondary: &Secondary, what: &str, condition: impl Fn() -> bool) -> u32 {
    let count = std::cell::Cell::new(0);
    let announce = || {
        secondary.source.wake(Wake { kind: WakeKind::Announced, done: None });
        count.set(count.get() + 1);
        condition()
    };
    eventually(what, announce).await;
    count.get()
}

/// Announces for as long as the task could do many refreshes in.
async fn flood(secondary: &Secondary) {
    let begun = Instant::now();
    announce_until(secondary, "the end of the flood", || begun.elapsed() > 1500 * MILLISECOND).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lone_announcement_acts_at_once() {
    let primary = Primary::start("127.0.0.1", Script::new(1)).await;
    let secondary = Secondary::start(patient(primary.address, limits()));
    secondary.wait_for_serial(1).await;
    for serial in 2..5 {
        primary.script().change(serial);
        assert!(secondary.ask(WakeKind::Announced).await.unwrap().contains("names changed"));
        assert_eq!(secondary.serial(), Some(serial));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn announcements_wait_while_a_version_is_held_and_operators_need_not() {
    let primary = Primary::start("127.0.0.1", Script { names: 40, ..Script::new(1) }).await;
    let limits = Limits { confirm_after: Duration::from_secs(3), ..limits() };
    let secondary = Secondary::start(patient(primary.address, limits));
    secondary.wait_for_serial(1).await;
    (primary.script().serial, primary.script().names) = (2, 3);
    announce_until(&secondary, "a held version", || secondary.held()).await;
    flood(&secondary).await;
    assert_eq!(primary.script().transfers, 2, "the first and the held one");
    assert!(secondary.ask(WakeKind::Refresh).await.unwrap_err().contains("held back"));
    assert_eq!(primary.script().transfers, 3);
    secondary.wait_for_serial(2).await;
    assert_eq!(primary.script().transfers, 4, "when it is due it is confirmed");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn announcements_wait_for_the_next_try_after_a_failure() {
    let primary = Primary::start("127.0.0.1", Script::new(1)).await;
    let mut plan = patient(primary.address, limits());
    (plan.timers.retry_min, plan.timers.retry_max) = (3000 * MILLISECOND, 3000 * MILLISECOND);
    let secondary = Secondary::start(plan);
    secondary.wait_for_serial(1).await;
    (primary.script().serial, primary.script().transfer) = (2, Transfer::CutMidZone);
    announce_until(&secondary, "a failure", || secondary.source.status().failures == 1).await;
    flood(&secondary).await;
    assert_eq!(primary.script().transfers, 2);
    // What operators ask for fails at once.
    assert!(secondary.ask(WakeKind::Refresh).await.is_err());
    assert_eq!(primary.script().transfers, 3);
    primary.script().transfer = Transfer::Good;
    secondary.wait_for_serial(2).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn announcements_wait_while_the_primary_announces_what_it_does_not_have() {
    let primary = Primary::start("127.0.0.1", Script::new(1)).await;
    let secondary = Secondary::start(patient(primary.address, limits()));
    secondary.wait_for_serial(1).await;
    primary.script().announced = Some(9);
    announce_until(&secondary, "a transfer", || primary.script().transfers == 2).await;
    eventually("its end", || secondary.changes.lock().unwrap().ends_with(&["load", "current"])).await;
    flood(&secondary).await;
    assert_eq!(primary.script().transfers, 2);
}
