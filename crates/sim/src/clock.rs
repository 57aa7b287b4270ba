//! Serials as CNS makes them: ticks of ten seconds on a calendar whose months all have 31 days.
//!
//! Invariant: [`next_serial`] always moves forward, even when the clock does not. CNS itself gives no such
//! promise; the demonstration does, because a primary that goes backwards is a fault and not the normal case.
//! Cost: O(months since 1970).

use std::time::{SystemTime, UNIX_EPOCH};
use wire::serial::Serial;

/// The days of the months, in a year of 365 days.
const MONTHS: [u64; 12] = [31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];

/// The serial of a moment; moments before 1970 count as 1970.
fn tick(moment: SystemTime) -> Serial {
    let seconds = moment.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let is_leap = |year: u64| year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    let (mut year, mut month, mut day) = (1970, 0, seconds / 86_400);
    loop {
        let length = MONTHS[month] + u64::from(month == 1 && is_leap(year));
        if day < length {
            break;
        }
        day -= length;
        (year, month) = if month == 11 { (year + 1, 0) } else { (year, month + 1) };
    }
    let days = ((year - 1900) * 12 + month as u64) * 31 + day;
    // Serial space is 32 bits wide; the cut is reached centuries from now.
    Serial((days * 8_640 + seconds % 86_400 / 10) as u32)
}

/// The serial of a change made now, newer than `last` in any case.
pub fn next_serial(last: Serial, now: SystemTime) -> Serial {
    let fresh = tick(now).advance(1);
    if fresh.newer_than(last) { fresh } else { last.advance(1) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, UNIX_EPOCH};

    fn at(seconds: u64) -> SystemTime {
        UNIX_EPOCH + Duration::from_secs(seconds)
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
