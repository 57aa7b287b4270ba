//! The assumption by itself, with made-up times.

use super::*;

const SECOND: Duration = Duration::from_secs(1);

fn soa(serial: u32) -> Soa {
    Soa { serial: Serial(serial), refresh: 30, retry: 60, expire: 2_592_000, minimum: 30 }
}

/// Silence that was assumed at a moment.
fn assumed() -> (Silence, Instant) {
    let now = Instant::now();
    (Silence::assumed(Times::default(), now), now)
}

/// Returns true if a zone that was polled at a moment, and will be in half a minute, is polled before.
fn is_hastened(silence: &Silence, now: Instant) -> bool {
    let regular = now + 30 * SECOND;
    silence.hasten(now + 10 * SECOND, regular, now) < regular
}

#[test]
fn cns_is_known_by_its_timers_and_the_serial_of_its_clock() {
    let at = |seconds| UNIX_EPOCH + Duration::from_secs(seconds);
    let noon = at(1_772_366_400);
    for (serial, expected) in [
        (405_514_081, true),
        (372_030_984, true),
        // A clock that is an hour ahead of ours.
        (405_514_081 + 360, true),
        (1, false),
        // A year ahead, a date as serial, seconds since 1970.
        (408_700_000, false),
        (2_026_030_101, false),
        (1_772_366_400, false),
    ] {
        assert_eq!(is_cns(&soa(serial), noon), expected, "{serial}");
    }
    assert!(!is_cns(&Soa { refresh: 3600, ..soa(405_514_081) }, noon));
}

#[test]
fn ticks_are_those_of_cns() {
    let tick = |seconds| tick(UNIX_EPOCH + Duration::from_secs(seconds));
    // 2015-10-01T03:24:00Z, 2026-03-01T12:00:00Z, and both sides of the end of a short month.
    assert_eq!(tick(1_443_669_840), FIRST_SERIAL);
    assert_eq!(tick(1_772_366_400), Serial(405_514_080));
    assert_eq!(tick(1_772_323_199), Serial(405_483_839));
    assert_eq!(tick(1_772_323_200), Serial(405_509_760));
    // 2024-02-29T00:00:00Z exists and lies one calendar day before a jump of three.
    assert_eq!(tick(1_709_251_200).0 - tick(1_709_164_800).0, 3 * 8_640);
}

#[test]
fn one_zone_of_an_address_asks_and_the_time_counts_from_the_transfer() {
    let (silence, now) = assumed();
    assert!(silence.claim(now));
    assert!(!silence.claim(now + SECOND), "by another zone");
    assert!(silence.claim(now + AGAIN), "since nothing came of it");
    silence.note_transfer(false, now + AGAIN);
    assert!(!silence.claim(now + 10 * AGAIN));
    assert!(is_hastened(&silence, now + AGAIN + 340 * SECOND));
    assert!(!is_hastened(&silence, now + AGAIN + 360 * SECOND), "six minutes later");
}

#[test]
fn a_notify_ends_it() {
    let (silence, now) = assumed();
    assert!(is_hastened(&silence, now));
    silence.hear();
    assert!(!is_hastened(&silence, now) && !silence.claim(now));
}

#[test]
fn a_notify_from_before_a_standstill_does_not_end_it() {
    let (silence, now) = assumed();
    silence.assume_after_standstill(now);
    silence.hear();
    assert!(is_hastened(&silence, now) && silence.claim(now), "it lay in the socket");
    silence.note_question(now);
    assert!(is_hastened(&silence, now) && !silence.is_owed());
    silence.hear();
    assert!(!is_hastened(&silence, now), "this one came later");
    silence.assume(now);
    silence.hear();
    assert!(!is_hastened(&silence, now), "a way that was cut leaves none in a socket");
}

#[test]
fn what_was_overdue_begins_it_once() {
    let (silence, now) = assumed();
    silence.hear();
    silence.note_transfer(false, now);
    assert!(!is_hastened(&silence, now), "a transfer that was announced");
    silence.note_transfer(true, now);
    assert!(is_hastened(&silence, now) && !silence.claim(now), "the transfer itself starts CNS' time");
    silence.note_transfer(true, now + 300 * SECOND);
    assert!(!is_hastened(&silence, now + 360 * SECOND), "and its time is not begun anew");
}

#[test]
fn a_way_that_was_cut_for_long_begins_it() {
    let (silence, now) = assumed();
    for (seconds, expected) in [(19, false), (21, true)] {
        silence.hear();
        silence.note_way(false, now);
        silence.note_way(false, now + 5 * SECOND);
        silence.note_way(true, now + seconds * SECOND);
        assert_eq!(silence.claim(now + seconds * SECOND), expected, "{seconds}");
    }
}

#[test]
fn polls_of_one_address_are_apart_and_never_later_than_by_themselves() {
    let (silence, now) = assumed();
    let (earliest, regular) = (now + 10 * SECOND, now + 30 * SECOND);
    let times: Vec<Instant> = (0..20_000).map(|_| silence.hasten(earliest, regular, now)).collect();
    let hastened = times.iter().filter(|time| **time < regular).count();
    assert_eq!(hastened, 2_000, "a hundred a second for twenty seconds");
    assert!(times.windows(2).all(|pair| pair[1] == regular || pair[1] - pair[0] == Duration::from_millis(10)));
    assert_eq!(times[0], earliest);
}

#[tokio::test]
async fn a_process_that_stood_still_is_noticed_by_its_clock() {
    let times = Times { outage: Duration::from_millis(1500), ..Times::default() };
    let silences = Silences::start(times, Arc::default());
    let primary = Server::from(SocketAddr::from(([192, 0, 2, 1], 53)));
    let silence = silences.of(&primary);
    silence.hear();
    // The watch begins when the runtime first gets to it.
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert!(!is_hastened(&silence, Instant::now()));
    // Nothing else runs on this thread.
    std::thread::sleep(Duration::from_millis(2600));
    let mut bell = silence.bell.subscribe();
    tokio::time::timeout(10 * SECOND, bell.changed()).await.expect("it is noticed").unwrap();
    assert!(is_hastened(&silence, Instant::now()) && Arc::ptr_eq(&silence, &silences.of(&primary)));
    drop(silence);
    silences.forget_unused();
    assert!(silences.pairs().is_empty());
}

#[tokio::test]
async fn what_nobody_would_announce_begins_nothing() {
    let metrics = Arc::new(Metrics::new());
    let silences = Silences::start(Times::default(), metrics.clone());
    let primary = Server::from(SocketAddr::from(([192, 0, 2, 1], 53)));
    let (ears, silence) = (Ears::new(std::slice::from_ref(&primary), SECOND, &silences), silences.of(&primary));
    let old = tick(SystemTime::now() - 60 * SECOND);
    let (soa, earlier) = (soa(old.0), Some(Serial(old.0 - 1)));
    let cause = |before| Cause { before, asked: false, held: false };
    assert_eq!(silence.status(Instant::now()), None, "no zone of CNS' is known");
    for (cause, expected) in [
        (cause(earlier), true),
        (cause(None), true),
        (cause(Some(old)), false),
        (Cause { asked: true, ..cause(earlier) }, false),
        (Cause { held: true, ..cause(earlier) }, false),
    ] {
        silence.hear();
        ears.note_transfer(0, Some(&soa), cause);
        let status = silence.status(Instant::now()).unwrap();
        assert_eq!((status.until.is_some(), status.owed), (expected, false), "{:?}", cause.before);
        silences.show(Instant::now());
        let shown = metrics.silence_assumed.with_label_values(&["192.0.2.1:53"]).get();
        assert_eq!(shown, i64::from(expected));
    }
    drop((ears, silence));
    silences.forget_unused();
    assert!(!metrics.render().contains("192.0.2.1"), "the address is forgotten");
}
