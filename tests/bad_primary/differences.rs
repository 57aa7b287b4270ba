//! Primaries asked for differences: whatever is wrong with them is not applied at all, and the whole zone is there at
//! once.

use super::primary::{Differences, Primary, Script, Transfer};
use super::*;

/// A plan that asks for differences.
fn incremental(addresses: &[SocketAddr]) -> ZonePlan {
    ZonePlan { ixfr: true, ..plan(addresses, limits()) }
}

/// A primary and a secondary that has its zone at serial 1.
async fn loaded(script: Script) -> (Primary, Secondary) {
    let primary = Primary::start("127.0.0.1", script).await;
    let secondary = Secondary::start(incremental(&[primary.address]));
    secondary.wait_for_serial(1).await;
    (primary, secondary)
}

impl Secondary {
    /// Returns the number of incremental and of full transfers, as the status counts them.
    fn brought(&self) -> (u64, u64) {
        let received = self.source.status().received;
        (received.incremental, received.full)
    }

    /// The zone has exactly the names and addresses of the script.
    async fn wait_for(&self, script: &Script) {
        self.wait_for_serial(script.serial).await;
        let text = format!("{:?}", self.zone().unwrap());
        let addresses: BTreeSet<&str> =
            text.lines().filter_map(|line| line.split_once(" A ").map(|(_, address)| address)).collect();
        let expected: Vec<_> = (0..script.names).map(|number| format!("192.0.{}.{number}", script.flavour)).collect();
        assert_eq!(addresses, expected.iter().map(String::as_str).collect(), "{text}");
    }
}

/// A change whose differences are bad arrives all the same; the next is right.
async fn falls_back(differences: Differences, reason: &str) {
    let (primary, secondary) = loaded(Script::new(1)).await;
    let next = {
        let mut script = primary.script();
        script.change(5);
        script.differences = differences;
        script.clone()
    };
    secondary.wait_for(&next).await;
    assert_eq!(secondary.failures(), BTreeSet::from([format!("ixfr {reason}")]));
    assert_eq!(primary.asked(), (1, 2), "asked for the whole zone at once");
    eventually("accounts", || secondary.brought() == (0, 2)).await;
    eventually("a clean status", || secondary.source.status().primaries[0].failures == 0).await;
    let next = {
        let mut script = primary.script();
        script.change(6);
        script.differences = Differences::Good;
        script.clone()
    };
    secondary.wait_for(&next).await;
    // A primary that turned the question away is spared it for a while.
    let turned_away = ["refused", "notimp", "formerr", "closed", "timeout_message"].contains(&reason);
    let expected = if turned_away { (0, 3) } else { (1, 2) };
    eventually("accounts", || secondary.brought() == expected).await;
    assert_eq!(primary.script().asked, 1 + expected.0 as u32);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn does_not_offer_differences() {
    falls_back(Differences::Rcode(4), "notimp").await;
    falls_back(Differences::Rcode(1), "formerr").await;
    falls_back(Differences::Rcode(5), "refused").await;
    falls_back(Differences::Close, "closed").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn says_nothing_when_asked_for_differences() {
    let primary = Primary::start("127.0.0.1", Script::new(1)).await;
    let limits = Limits { message_timeout: 400 * MILLISECOND, ..limits() };
    let secondary = Secondary::start(ZonePlan { limits, ..incremental(&[primary.address]) });
    secondary.wait_for_serial(1).await;
    for serial in [2, 3] {
        {
            let mut script = primary.script();
            script.change(serial);
            script.differences = Differences::Hang;
        }
        secondary.wait_for_serial(serial).await;
    }
    assert_eq!(primary.script().asked, 1);
    assert_eq!(secondary.failures(), BTreeSet::from(["ixfr timeout_message".to_owned()]));
}

/// So an answer over UDP says that TCP is to be asked (RFC 1995 section 2); over TCP it says nothing, and soon.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sends_the_new_soa_alone() {
    let primary = Primary::start("127.0.0.1", Script { differences: Differences::Lone, ..Script::new(1) }).await;
    let limits = Limits { message_timeout: Duration::from_secs(60), ..limits() };
    let secondary = Secondary::start(ZonePlan { limits, ..incremental(&[primary.address]) });
    secondary.wait_for_serial(1).await;
    let changed = Instant::now();
    primary.script().change(2);
    secondary.wait_for_serial(2).await;
    assert!(changed.elapsed() < Duration::from_secs(10), "{:?}", changed.elapsed());
    assert_eq!(secondary.failures(), BTreeSet::from(["ixfr ixfr_lone_soa".to_owned()]));
    primary.script().change(3);
    secondary.wait_for_serial(3).await;
    assert_eq!(primary.asked(), (1, 3), "spared the question");
    drop(secondary);

    let (primary, secondary) = loaded(Script { differences: Differences::Parts, ..Script::new(1) }).await;
    let next = {
        let mut script = primary.script();
        script.change(2);
        script.clone()
    };
    secondary.wait_for(&next).await;
    assert_eq!((primary.asked(), secondary.failures()), ((1, 1), BTreeSet::new()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fails_to_find_the_differences() {
    falls_back(Differences::Rcode(2), "servfail").await;
    falls_back(Differences::Empty, "malformed").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sends_differences_from_and_to_other_serials() {
    falls_back(Differences::OtherBase, "ixfr_base").await;
    falls_back(Differences::Short, "ixfr_steps").await;
    falls_back(Differences::Gap, "ixfr_steps").await;
    falls_back(Differences::OtherClosingSoa, "closing_soa").await;
    falls_back(Differences::Behind, "timeout_message").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sends_differences_of_something_else() {
    falls_back(Differences::OtherId, "id").await;
    falls_back(Differences::OtherQuestion, "question").await;
    falls_back(Differences::OtherClass, "class").await;
    falls_back(Differences::OtherZone, "out_of_zone").await;
    falls_back(Differences::Garbage, "malformed").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cuts_differences() {
    falls_back(Differences::CutMidMessage, "closed").await;
    falls_back(Differences::CutMidZone, "closed").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_changes_are_all_incremental_and_the_metric_shows_it() {
    let (primary, secondary) = loaded(Script::new(1)).await;
    for serial in 2..=40 {
        let next = {
            let mut script = primary.script();
            script.change(serial);
            script.names = 5 + serial % 7;
            script.clone()
        };
        secondary.wait_for(&next).await;
    }
    eventually("accounts", || secondary.brought() == (39, 1)).await;
    assert_eq!(primary.asked(), (39, 1));
    assert_eq!(secondary.failures(), BTreeSet::new());
    let attempts =
        secondary.metrics.transfer_attempts.with_label_values(&["z.example.", &primary.address.to_string(), "ixfr"]);
    assert_eq!(attempts.get(), 39);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn serials_go_around() {
    let (primary, secondary) = loaded(Script::new(1)).await;
    for serial in [1 << 31, u32::MAX, 3] {
        let next = {
            let mut script = primary.script();
            script.change(serial);
            script.clone()
        };
        secondary.wait_for(&next).await;
    }
    eventually("accounts", || secondary.brought() == (3, 1)).await;
    // At the undefined distance nobody can say what is newer: the whole zone.
    primary.script().change(3 + (1 << 31));
    secondary.wait_for_serial(3 + (1 << 31)).await;
    eventually("accounts", || secondary.brought() == (3, 2)).await;
    assert_eq!(primary.script().asked, 3);
    assert_eq!(secondary.failures(), BTreeSet::new());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_whole_zone_instead_of_differences_counts_as_such() {
    let (primary, secondary) = loaded(Script { differences: Differences::Whole, ..Script::new(1) }).await;
    let next = {
        let mut script = primary.script();
        script.change(2);
        script.clone()
    };
    secondary.wait_for(&next).await;
    eventually("accounts", || secondary.brought() == (0, 2)).await;
    assert_eq!(primary.asked(), (1, 1));
    assert_eq!(secondary.failures(), BTreeSet::new());
}

/// Differences that stop below the announced serial are no news, whether they bring something or nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn answers_that_end_below_the_announced_serial_bring_the_whole_zone() {
    // Nothing newer, for ever: the whole zone settles it, and the question is not asked again soon.
    let (primary, secondary) = loaded(Script { differences: Differences::Stale(1), ..Script::new(1) }).await;
    let next = {
        let mut script = primary.script();
        script.change(9);
        script.clone()
    };
    secondary.wait_for(&next).await;
    assert_eq!((primary.asked(), secondary.brought()), ((1, 2), (0, 2)));
    assert_eq!(secondary.failures(), BTreeSet::from(["ixfr ixfr_behind".to_owned()]));
    primary.script().change(10);
    secondary.wait_for_serial(10).await;
    assert_eq!(primary.asked(), (1, 3), "spared the question");
    drop(secondary);

    // Differences to a version between.
    let (primary, secondary) = loaded(Script { differences: Differences::Stale(5), ..Script::new(1) }).await;
    let next = {
        let mut script = primary.script();
        script.change(9);
        script.clone()
    };
    secondary.wait_for(&next).await;
    assert_eq!((primary.asked(), secondary.brought()), ((1, 2), (0, 2)));
    assert_eq!(secondary.failures(), BTreeSet::from(["ixfr ixfr_behind".to_owned()]));
    assert!(!format!("{:?}", secondary.changes.lock().unwrap()).contains("current, load"), "never taken for current");
}

/// Operators see both serials if even the whole zone is older than announced.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_serial_that_was_announced_stays_in_sight() {
    let (primary, secondary) = loaded(Script::new(1)).await;
    primary.script().announced = Some(9);
    eventually("transfers", || primary.script().transfers >= 4).await;
    assert_eq!((secondary.serial(), primary.script().asked), (Some(1), 1));
    let announced = || {
        let labels = format!("primary=\"{}\",zone=\"z.example.\"", primary.address);
        let metric = secondary.metric(&format!("aggregator_zone_primary_serial{{{labels}}}")).unwrap_or(0);
        (metric, secondary.source.status().primaries[0].announced.unwrap().0)
    };
    for _ in 0..100 {
        assert_eq!(announced(), (9, 9));
        tokio::time::sleep(MILLISECOND).await;
    }
    assert_eq!(secondary.changes.lock().unwrap().iter().filter(|change| **change == "load").count(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_zone_that_expires_while_differences_are_asked_for_is_not_called_current() {
    let (primary, secondary) = loaded(Script { differences: Differences::Slow, ..Script::new(1) }).await;
    {
        let mut script = primary.script();
        (script.announced, script.transfer) = (Some(9), Transfer::Rcode(2));
    }
    eventually("the question", || primary.script().asked == 1).await;
    publish(&secondary.publisher, State::Expired, secondary.zone());
    secondary.changes.lock().unwrap().clear();
    secondary.wait_for_failure("axfr servfail").await;
    assert!(secondary.changes.lock().unwrap().is_empty());
    primary.script().transfer = Transfer::Good;
    eventually("the zone", || *secondary.changes.lock().unwrap() == ["load"]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn changes_that_change_nothing_are_counted() {
    let (primary, secondary) = loaded(Script { differences: Differences::Noops, ..Script::new(1) }).await;
    let next = {
        let mut script = primary.script();
        script.change(2);
        script.clone()
    };
    secondary.wait_for(&next).await;
    assert_eq!(secondary.failures(), BTreeSet::new());
    eventually("accounts", || secondary.brought() == (1, 1)).await;
    assert_eq!(secondary.metrics.ixfr_noop_changes.with_label_values(&["z.example."]).get(), 2);
    assert_eq!(secondary.failures(), BTreeSet::new());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_removal_of_a_copy_is_asked_about() {
    let (primary, secondary) = loaded(Script { twice: true, ..Script::new(1) }).await;
    let next = {
        let mut script = primary.script();
        script.change(2);
        script.clone()
    };
    secondary.wait_for(&next).await;
    assert_eq!(secondary.failures(), BTreeSet::new());
    eventually("accounts", || secondary.brought() == (1, 1)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_zone_cannot_grow_beyond_its_bounds_by_differences() {
    let primary = Primary::start("127.0.0.1", Script { differences: Differences::Added, ..Script::new(1) }).await;
    let limits = Limits { max_records: 15, ..limits() };
    let secondary = Secondary::start(ZonePlan { limits, ..incremental(&[primary.address]) });
    secondary.wait_for_serial(1).await;
    let grow = |serial, names| {
        let mut script = primary.script();
        script.change(serial);
        (script.names, script.flavour) = (names, 0);
    };
    // Eight records more in a transfer of twelve.
    grow(2, 18);
    secondary.wait_for_failure("axfr too_many_records").await;
    assert_eq!(
        secondary.failures(),
        BTreeSet::from(["ixfr too_many_records".to_owned(), "axfr too_many_records".into()])
    );
    assert_eq!(secondary.serial(), Some(1));
    grow(1, 10);
    grow(3, 14);
    secondary.wait_for_serial(3).await;
    assert_eq!(secondary.zone().unwrap().records, 15);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn differences_as_large_as_a_whole_zone_may_be_are_followed_by_one() {
    let primary = Primary::start("127.0.0.1", Script::new(1)).await;
    let limits = Limits { max_bytes: 4000, ..limits() };
    let secondary = Secondary::start(ZonePlan { limits, ..incremental(&[primary.address]) });
    secondary.wait_for_serial(1).await;
    for serial in 2..=20 {
        primary.script().change(serial);
        secondary.wait_for_serial(serial).await;
    }
    eventually("accounts", || secondary.brought().0 + secondary.brought().1 == 20).await;
    let (differences, whole) = secondary.brought();
    assert!(whole >= 4 && differences >= 12, "{differences} and {whole}");
    assert_eq!(secondary.failures(), BTreeSet::new());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn differences_that_shrink_the_zone_are_confirmed_by_the_whole_zone() {
    let primary = Primary::start("127.0.0.1", Script { names: 40, ..Script::new(1) }).await;
    let limits = Limits { confirm_after: 600 * MILLISECOND, ..limits() };
    let secondary = Secondary::start(ZonePlan { limits, ..incremental(&[primary.address]) });
    secondary.wait_for_serial(1).await;
    let next = {
        let mut script = primary.script();
        script.change(2);
        script.names = 3;
        script.clone()
    };
    eventually("a held version", || secondary.held()).await;
    assert_eq!((secondary.serial(), primary.asked()), (Some(1), (1, 1)));
    secondary.wait_for(&next).await;
    assert_eq!(primary.asked(), (1, 2));
}

/// A database that fails a little more each time empties no zone step by step.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn differences_that_halve_the_zone_again_and_again_are_held() {
    let primary = Primary::start("127.0.0.1", Script { names: 200, ..Script::new(1) }).await;
    let limits = Limits { confirm_after: Duration::from_secs(3600), ..limits() };
    let secondary = Secondary::start(ZonePlan { limits, ..incremental(&[primary.address]) });
    secondary.wait_for_serial(1).await;
    let shrink = |serial, names| {
        let mut script = primary.script();
        script.change(serial);
        script.names = names;
    };
    shrink(2, 120);
    secondary.wait_for_serial(2).await;
    shrink(3, 80);
    eventually("a held version", || secondary.held()).await;
    let held = secondary.source.status().held.map(|held| (held.serial.0, held.names, held.served_names));
    assert!(held.is_none_or(|held| held == (3, 81, 121)), "{held:?}");
    let answer = secondary.ask(WakeKind::Refresh).await.unwrap_err();
    assert!(
        answer.contains("81 names with records, the served version has 121 and an earlier one had 201"),
        "{answer}"
    );
    assert_eq!((secondary.serial(), primary.script().asked), (Some(2), 2));
    // What an operator accepts is what the next is measured by.
    secondary.ask(WakeKind::Retransfer { accept: true }).await.unwrap();
    shrink(4, 50);
    secondary.wait_for_serial(4).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn differences_are_not_asked_for_where_they_cannot_help() {
    // Switched off.
    let primary = Primary::start("127.0.0.1", Script::new(1)).await;
    let secondary = Secondary::start(plan(&[primary.address], limits()));
    secondary.wait_for_serial(1).await;
    primary.script().change(2);
    secondary.wait_for_serial(2).await;
    assert_eq!(primary.script().asked, 0);
    drop(secondary);
    // The zone has expired, or is to be audited.
    let (primary, secondary) = loaded(Script::new(1)).await;
    secondary.ask(WakeKind::Audit).await.unwrap();
    publish(&secondary.publisher, State::Expired, secondary.zone());
    primary.script().change(2);
    secondary.wait_for_serial(2).await;
    assert_eq!(primary.script().asked, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn when_the_whole_zone_is_bad_too_the_last_good_data_stays() {
    let (primary, secondary) = loaded(Script::new(1)).await;
    let before = secondary.zone().unwrap();
    {
        let mut script = primary.script();
        script.change(5);
        (script.differences, script.transfer) = (Differences::OtherBase, Transfer::CutMidZone);
    }
    secondary.wait_for_failure("ixfr ixfr_base").await;
    secondary.wait_for_failure("axfr closed").await;
    assert!(Arc::ptr_eq(&before, &secondary.zone().unwrap()));
    eventually("the failure in the status", || secondary.source.status().primaries[0].failures > 0).await;
    primary.script().differences = Differences::Good;
    secondary.wait_for_serial(5).await;
    eventually("a clean status", || secondary.source.status().primaries[0].failures == 0).await;
}
