//! The pace of a zone's refreshes: when the next one begins.
//!
//! The timer says when by itself, an operator's request says now, and an announcement (NOTIFY) lies between: it acts at
//! once while all is well, but anyone can forge one, and CNS repeats it every five seconds. So while a version is held
//! back, and when the primary announced a serial that it does not have, an announcement waits for the timer; else each
//! would cost a poll and a transfer of the whole zone. After a failure it waits for [`FAILED_PAUSE`] at most: a primary
//! that is back says so by it, and must not wait until a back-off of a minute is over.
//!
//! Invariant: from the beginning of one refresh to that of the next passes a pause at least, unless only the timer called
//! for the one before: a request that comes then is alone so far. The pause is `hold_down`, within [`PAUSES`]. So a zone
//! follows announced changes as often as publications may come, at most a hundred times a second, and ten times by
//! default; polls that bring nothing are no more. A refresh ends when what it brought is published, and where others'
//! publications held that up for as long as a pause, the next begins at once: a change is seen within two pauses and its transfer,
//! however many zones change. After a failure the pause is [`timers::LEAST_PAUSE`] at least, from its end on.
//!
//! Cost: O(1).

use crate::source::WakeKind;
use crate::transfer::timers;
use std::ops::RangeInclusive;
use std::time::Duration;
use tokio::time::Instant;

/// The shortest and the longest pause after a refresh that was asked for, whatever `hold_down` is: a flood of NOTIFY
/// must not keep a processor or a primary busy, and an operator does not wait for it.
const PAUSES: RangeInclusive<Duration> = Duration::from_millis(10)..=timers::LEAST_PAUSE;

/// Time for which announcements wait after a failure.
const FAILED_PAUSE: Duration = Duration::from_secs(2);

/// The times from which the zone may be refreshed, by who asks for it.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// For operators and the schedule.
    asked: Instant,
    /// For announcements.
    announced: Instant,
    /// Without any request.
    timer: Instant,
}

/// End of a refresh, as far as that decides on the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The primary was heard, and nothing is left to do.
    Well,
    /// Something is left that another refresh cannot hasten.
    Open,
    Failed,
}

impl Pace {
    /// A refresh is due at once.
    pub fn start(now: Instant) -> Pace {
        Pace { asked: now, announced: now, timer: now }
    }

    /// After a refresh: whether it was asked for, with `hold_down`, when it began and how it has ended, and when the timer
    /// calls for the next.
    pub fn after(asked: Option<Duration>, (began, end): (Instant, End), delay: Duration, now: Instant) -> Pace {
        let timer = now + delay;
        let pause = asked.map(|hold_down| hold_down.clamp(*PAUSES.start(), *PAUSES.end()));
        let asked = match end {
            End::Failed => now + timers::LEAST_PAUSE,
            End::Well | End::Open => now.max(began + pause.unwrap_or_default()),
        };
        let announced = match end {
            End::Well => asked,
            End::Open => timer,
            End::Failed => timer.min(now + FAILED_PAUSE),
        };
        Pace { asked, announced, timer }
    }

    /// Has the timer call earlier.
    pub fn hasten(&mut self, delay: impl FnOnce(Duration) -> Duration, now: Instant) {
        if let Some(left) = self.timer.checked_duration_since(now) {
            self.timer = now + delay(left).min(left);
        }
    }

    /// Returns when the next refresh begins, if this request is the strongest that waits.
    pub fn begin(&self, waiting: Option<WakeKind>) -> Instant {
        match waiting {
            Some(WakeKind::Announced) => self.announced.min(self.timer),
            Some(_) => self.asked,
            None => self.timer,
        }
        .max(self.asked)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn announcements_act_at_once_while_all_is_well() {
        let (now, delay) = (Instant::now(), Duration::from_secs(30));
        let after = |asked: bool, end| Pace::after(asked.then_some(Duration::from_secs(1)), (now, end), delay, now);
        let begin = |asked, end, waiting| after(asked, end).begin(waiting) - now;
        let (none, pause) = (Duration::ZERO, timers::LEAST_PAUSE);
        let announced = Some(WakeKind::Announced);
        assert_eq!(begin(false, End::Well, announced), none, "alone");
        assert_eq!(begin(true, End::Well, announced), pause, "in a flood");
        assert_eq!(begin(false, End::Open, announced), delay);
        assert_eq!(begin(false, End::Failed, announced), FAILED_PAUSE);
        let soon = Pace::after(None, (now, End::Failed), FAILED_PAUSE / 2, now);
        assert_eq!(soon.begin(announced) - now, FAILED_PAUSE / 2, "never later than the timer");
        for kind in [WakeKind::Refresh, WakeKind::Audit, WakeKind::Retransfer { accept: false }] {
            assert_eq!(begin(false, End::Well, Some(kind)), none);
            assert_eq!(begin(true, End::Open, Some(kind)), pause);
            assert_eq!(begin(false, End::Failed, Some(kind)), pause);
        }
        for end in [End::Well, End::Open, End::Failed] {
            assert_eq!(begin(true, end, None), delay);
        }
        assert_eq!(Pace::start(now).begin(None), now);
    }

    #[test]
    fn announced_changes_are_followed_as_often_as_publications_may_come() {
        let (now, delay) = (Instant::now(), Duration::from_secs(30));
        let pause = |hold_down: u64, end: End| {
            let pace = Pace::after(Some(Duration::from_millis(hold_down)), (now, end), delay, now);
            (pace.begin(Some(WakeKind::Announced)) - now).as_millis()
        };
        assert_eq!(
            [0, 10, 20, 99, 100, 101, 10_000].map(|hold_down| pause(hold_down, End::Well)),
            [10, 10, 20, 99, 100, 100, 100]
        );
        assert_eq!(pause(10, End::Failed), FAILED_PAUSE.as_millis());
        let failed = Pace::after(Some(Duration::ZERO), (now, End::Failed), delay, now);
        assert_eq!(failed.begin(Some(WakeKind::Refresh)) - now, timers::LEAST_PAUSE);
    }

    #[test]
    fn what_waited_to_be_published_has_had_its_pause() {
        let (now, delay, hold_down) = (Instant::now(), Duration::from_secs(30), Duration::from_millis(100));
        let pause = |took: u64, end: End| {
            let began = now - Duration::from_millis(took);
            let pace = Pace::after(Some(hold_down), (began, end), delay, now);
            (pace.begin(Some(WakeKind::Announced)) - now).as_millis()
        };
        assert_eq!([0, 3, 99, 100, 5_000].map(|took| pause(took, End::Well)), [100, 97, 1, 0, 0]);
        assert_eq!(pause(5_000, End::Failed), FAILED_PAUSE.as_millis());
    }
}
