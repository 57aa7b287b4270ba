//! Serials as CNS makes them: ticks of ten seconds on a calendar whose months all have 31 days.
//!
//! Invariant: [`next_serial`] always moves forward, even when the clock does not. CNS itself gives no such
//! promise; the demonstration does, because a primary that goes backwards is a fault and not the normal case.
//! Cost: O(1).

use crate::moment;
use crate::serial::Serial;
use std::time::{SystemTime, UNIX_EPOCH};

/// The tick in which a moment lies. Moments before 1970 count as 1970.
pub fn tick(moment: SystemTime) -> Serial {
    let seconds = moment.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let (year, month, day) = moment::date(seconds / 86_400);
    let of_day = seconds % 86_400;
    let (hour, minute, second) = (of_day / 3_600, of_day / 60 % 60, of_day % 60);
    let days = ((year - 1900) * 12 + (month - 1)) * 31 + (day - 1);
    // Serial space is 32 bits wide; the cut is reached centuries from now.
    Serial((((days * 24 + hour) * 60 + minute) * 6 + second / 10) as u32)
}

/// The serial of a change made now, newer than `last` in any case.
pub fn next_serial(last: Serial, now: SystemTime) -> Serial {
    let fresh = tick(now).advance(1);
    if fresh.newer_than(last) { fresh } else { last.advance(1) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn at(seconds: u64) -> SystemTime {
        UNIX_EPOCH + Duration::from_secs(seconds)
    }

    #[test]
    fn ticks_are_those_of_cns() {
        // 2015-10-01T03:24:00Z, 2026-03-01T12:00:00Z, and both sides of the end of a short month.
        assert_eq!(tick(at(1_443_669_840)), Serial(372_030_984));
        assert_eq!(tick(at(1_772_366_400)), Serial(405_514_080));
        assert_eq!(tick(at(1_772_323_199)), Serial(405_483_839));
        assert_eq!(tick(at(1_772_323_200)), Serial(405_509_760));
        // 2024-02-29T00:00:00Z exists and lies one calendar day before a jump of three.
        assert_eq!(tick(at(1_709_251_200)).0 - tick(at(1_709_164_800)).0, 3 * 8_640);
    }

    #[test]
    fn serials_rise_even_when_the_clock_stands_or_steps_back() {
        let noon = at(1_772_366_400);
        let first = next_serial(Serial(0), noon);
        assert_eq!(first, Serial(405_514_081));
        assert_eq!(next_serial(first, noon), Serial(405_514_082));
        assert_eq!(next_serial(first, noon - Duration::from_secs(600)), Serial(405_514_082));
        assert_eq!(next_serial(first, noon + Duration::from_secs(600)), Serial(405_514_141));
    }
}
