//! Times of polls: those of the SOA, within the operator's bounds (RFC 1035 section 3.3.13, RFC 1034 section 4.3.5).
//!
//! Failures back off from `retry_min` by doubling, so a primary that was away for a moment is found again soon and one
//! that is gone costs little. Both come up to a tenth early, by an amount that depends on the zone's name alone:
//! the polls of many zones spread, and every run of the program behaves the same.
//!
//! Cost: O(name).

use crate::transfer::plan::TimerBounds;
use crate::zone::Soa;
use std::sync::LazyLock;
use std::time::Duration;
use tokio::time::Instant;
use wire::name::Name;

/// Least time from the end of one refresh to the next, whatever is configured: a broken primary must not keep a
/// processor busy. Announcements of changes have a pause of their own (`pace`).
pub const LEAST_PAUSE: Duration = Duration::from_millis(100);

/// Steps in which waits of some length end, so that one awakening serves many zones.
const STEP: Duration = Duration::from_millis(250);
/// Waits that end in steps.
const LONG: Duration = Duration::from_secs(5);

/// Beginning of the steps.
static BEGINNING: LazyLock<Instant> = LazyLock::new(Instant::now);

/// A wait that ends with a step, earlier by less than one; a short one as it is.
pub fn in_step(now: Instant, delay: Duration) -> Duration {
    if delay < LONG {
        return delay;
    }
    let past_step = (now + delay).saturating_duration_since(*BEGINNING).as_nanos() % STEP.as_nanos();
    delay.saturating_sub(Duration::from_nanos(u64::try_from(past_step).unwrap_or_default()))
}

/// Time to the next poll after a refresh that succeeded.
pub fn after_success(zone: &Name, soa: &Soa, bounds: &TimerBounds) -> Duration {
    let refresh = seconds(soa.refresh).max(bounds.refresh_min).min(bounds.refresh_max);
    // A refresh time beyond the expire time would let a healthy zone expire.
    let refresh = refresh.min(life(soa, bounds) / 2);
    early(zone, refresh).max(LEAST_PAUSE)
}

/// Time to the next poll after so many failures in a row, at least one; a zone that never was loaded has no SOA.
pub fn after_failure(zone: &Name, soa: Option<&Soa>, failures: u32, bounds: &TimerBounds) -> Duration {
    let longest = soa.map_or(bounds.retry_max, |soa| seconds(soa.retry).max(bounds.retry_min).min(bounds.retry_max));
    let doublings = failures.saturating_sub(1).min(20);
    let pause = bounds.retry_min.max(LEAST_PAUSE).saturating_mul(1 << doublings).min(longest);
    early(zone, pause).max(LEAST_PAUSE)
}

/// Returns for how long every answer must have been older than ours before the zone goes back (`docs/regions.md` 24);
/// longer while some primary is silent. Never beyond half the zone's life, at whose end it would take anything.
pub fn before_regression(soa: Option<&Soa>, is_partial: bool, bounds: &TimerBounds) -> Duration {
    let wait = if is_partial { bounds.regress_after_silence } else { bounds.regress_after };
    soa.map_or(wait, |soa| wait.min(life(soa, bounds) / 2))
}

/// Returns how long the zone lives without contact.
fn life(soa: &Soa, bounds: &TimerBounds) -> Duration {
    seconds(soa.expire).max(bounds.expire_min).min(bounds.expire_max)
}

/// Seconds of an SOA field.
fn seconds(number: u32) -> Duration {
    Duration::from_secs(u64::from(number))
}

/// A time shortened by up to a tenth, always by the same part for a zone.
fn early(zone: &Name, time: Duration) -> Duration {
    time - time / 1000 * (zone.stable_hash() >> 8).rem_euclid(100)
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::serial::Serial;

    fn soa(refresh: u32, retry: u32, expire: u32) -> Soa {
        Soa { serial: Serial(1), refresh, retry, expire, minimum: 30 }
    }

    #[test]
    fn refreshes_are_early_by_a_tenth_at_most_and_always_the_same() {
        let bounds = TimerBounds::default();
        let mut different = std::collections::HashSet::new();
        for number in 0..50 {
            let zone = Name::parse(&format!("dc-{number}.example.com")).unwrap();
            let delay = after_success(&zone, &soa(1000, 60, 2_592_000), &bounds);
            assert!(delay > Duration::from_secs(900) && delay <= Duration::from_secs(1000), "{delay:?}");
            assert_eq!(delay, after_success(&zone, &soa(1000, 60, 2_592_000), &bounds));
            different.insert(delay);
        }
        assert!(different.len() > 20, "{different:?}");
    }

    #[test]
    fn long_waits_end_together() {
        let now = Instant::now();
        let ends = |delay: Duration| in_step(now, delay);
        assert_eq!(ends(Duration::from_millis(4_999)), Duration::from_millis(4_999));
        let waits: Vec<Duration> = (0..1_000).map(|more| Duration::from_millis(30_000 + more)).collect();
        let different: std::collections::HashSet<Duration> = waits.iter().map(|wait| ends(*wait)).collect();
        assert!(different.len() <= 5, "{different:?}");
        for wait in waits {
            assert!(ends(wait) <= wait && wait - ends(wait) < STEP, "{wait:?}");
        }
    }

    #[test]
    fn timers_stay_within_bounds() {
        let (zone, bounds) = (Name::parse("z").unwrap(), TimerBounds::default());
        assert!(after_success(&zone, &soa(0, 0, 0), &bounds) > bounds.refresh_min * 8 / 10);
        assert!(after_success(&zone, &soa(u32::MAX, 0, u32::MAX), &bounds) <= bounds.refresh_max);
        assert!(after_success(&zone, &soa(86_400, 0, 3600), &bounds) <= Duration::from_secs(1800));
        let none = Duration::ZERO;
        let zero = TimerBounds {
            refresh_min: none,
            refresh_max: none,
            retry_min: none,
            retry_max: none,
            expire_min: none,
            expire_max: none,
            regress_after: none,
            regress_after_silence: none,
        };
        assert_eq!(after_success(&zone, &soa(0, 0, 0), &zero), LEAST_PAUSE);
        assert_eq!(after_failure(&zone, None, 9, &zero), LEAST_PAUSE);
    }

    #[test]
    fn older_serials_are_believed_later_while_somebody_is_silent() {
        let bounds = TimerBounds::default();
        let wait = |expire, is_partial| before_regression(Some(&soa(30, 60, expire)), is_partial, &bounds).as_secs();
        assert_eq!([wait(2_592_000, false), wait(2_592_000, true)], [300, 86_400]);
        assert_eq!([wait(7200, false), wait(7200, true)], [300, 3600], "half the life");
        assert_eq!([wait(120, false), wait(120, true)], [60, 60]);
    }

    #[test]
    fn retries_start_soon_and_grow_to_the_soa_or_the_bound() {
        let bounds = TimerBounds::default();
        let zone = Name::parse("z.example").unwrap();
        let check = |soa: Option<Soa>, expected: [u64; 5]| {
            for (failures, seconds) in [1, 2, 3, 6, 1000].into_iter().zip(expected) {
                let pause = after_failure(&zone, soa.as_ref(), failures, &bounds);
                let longest = Duration::from_secs(seconds);
                assert!(pause <= longest && pause >= longest.mul_f64(0.9), "{failures} failures: {pause:?}");
            }
        };
        check(None, [2, 4, 8, 60, 60]);
        check(Some(soa(30, 10, 100)), [2, 4, 8, 10, 10]);
        check(Some(soa(30, 7200, 100)), [2, 4, 8, 60, 60]);
    }
}
