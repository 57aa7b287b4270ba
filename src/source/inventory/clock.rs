//! The clock of an inventory: moments of the wall clock, whose pace nobody can change by much.
//!
//! Holds, times to live and the ages of heartbeats are compared with moments that outlive the process, so they are those of
//! the wall clock. That may be set, by days where a time server is wrong: time then goes at most twice as fast as it does,
//! or half as fast, until both agree again. What ends within a minute never ends at once, and never stands still.
//!
//! Invariant: it never goes back within a run, also over reloads.
//!
//! Cost: O(1).

use inventory::model::Moment;
use std::time::{Duration, Instant, SystemTime};

/// Where an inventory is in time.
#[derive(Default)]
pub struct Clock {
    /// The last moment that was told, and when.
    last: Option<(Instant, Moment)>,
}

impl Clock {
    /// The present moment.
    pub fn now(&mut self) -> Moment {
        let wall = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        self.read(Instant::now(), Moment(milliseconds(wall)))
    }

    /// The moment at which the wall clock shows this. The first one is what it shows.
    fn read(&mut self, now: Instant, wall: Moment) -> Moment {
        let moment = match self.last {
            None => wall,
            Some((then, last)) => {
                let elapsed = milliseconds(now.saturating_duration_since(then));
                let at_most = last.0.saturating_add(elapsed.saturating_mul(2));
                Moment(wall.0.clamp(last.0.saturating_add(elapsed / 2), at_most))
            }
        };
        // Less than the next millisecond is kept for the next time.
        if self.last.is_none_or(|(_, last)| moment > last) {
            self.last = Some((now, moment));
        }
        moment
    }
}

/// A time in milliseconds, as far as there are numbers.
fn milliseconds(time: Duration) -> i64 {
    i64::try_from(time.as_millis()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: i64 = 1000;
    const DAY: i64 = 86_400 * SECOND;

    #[test]
    fn a_wall_clock_that_is_set_neither_ends_nor_stops_what_waits() {
        let (mut clock, start) = (Clock::default(), Instant::now());
        let mut read = |seconds: u64, wall: i64| clock.read(start + Duration::from_secs(seconds), Moment(wall)).0;
        let begin = 100 * DAY;
        assert_eq!(read(0, begin), begin);
        assert_eq!(read(10, begin + 10 * SECOND), begin + 10 * SECOND, "as it is shown");
        assert_eq!(read(20, begin + DAY), begin + 30 * SECOND, "a day ahead: twice as fast");
        assert_eq!(read(20, begin + DAY), begin + 30 * SECOND, "no time, no moment");
        assert_eq!(read(30, begin + 30 * SECOND), begin + 35 * SECOND, "set back: half as fast");
        assert_eq!(read(50, begin + 50 * SECOND), begin + 50 * SECOND, "and they agree again");
        assert_eq!(read(51, begin - DAY), begin + 50 * SECOND + SECOND / 2);
    }

    #[test]
    fn time_goes_on_however_often_it_is_looked_at() {
        let (mut clock, start) = (Clock::default(), Instant::now());
        let mut last = Moment(0);
        for step in 0..10_000u64 {
            let now = clock.read(start + Duration::from_micros(step * 100), Moment(DAY - step as i64));
            assert!(now >= last);
            last = now;
        }
        assert!((DAY + 400..=DAY + 500).contains(&last.0), "half a second of one: {}", last.0 - DAY);
        assert!(Clock::default().now() > Moment(1_600_000_000_000));
    }
}
