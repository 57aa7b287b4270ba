//! Serials as CNS makes them: ticks of ten seconds on a calendar whose months all have 31 days.
//!
//! Invariant: [`next_serial`] always moves forward, even when the clock does not. CNS itself gives no such
//! promise; the demonstration does, because a primary that goes backwards is a fault and not the normal case.
//! Cost: O(1).

use crate::serial::Serial;
use crate::transfer::silence::tick;
use std::time::SystemTime;

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
