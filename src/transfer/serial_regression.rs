//! Primaries whose serial is older than ours (`docs/regions.md` 24).
//!
//! That happens when a clock or a database was set back, and also while one server of several lags, or while CNS
//! starts. So our copy is kept, with an alarm, and the zone goes back only when every primary that answered was older
//! on [`LEAST_ROUNDS`] refreshes, of which the first is long enough ago (`timers::before_regression`); longer while
//! some primary is silent, which may be the one that is right. An answer that is not older starts over, silence does
//! not. Refreshes that follow each other faster than the first retry would, by request, count as one: what is to be
//! seen is that it lasts.
//!
//! Invariant: what is taken is the newest of the older.
//!
//! Cost: O(1).

use std::time::Duration;
use tokio::time::Instant;
use wire::serial::Serial;

/// Refreshes that must show older serials before the zone goes back.
pub const LEAST_ROUNDS: u32 = 3;

/// The answers of the primaries in one refresh.
#[derive(Default)]
pub struct Answers {
    older: usize,
    others: usize,
    /// The newest of the older serials, and the primary that has it.
    newest: Option<(Serial, usize)>,
}

impl Answers {
    /// Notes a serial that is older than ours.
    pub fn note_older(&mut self, primary: usize, serial: Serial) {
        self.older += 1;
        if self.newest.is_none_or(|(newest, _)| serial.newer_than(newest)) {
            self.newest = Some((serial, primary));
        }
    }

    /// Notes a serial that is not.
    pub fn note_other(&mut self) {
        self.others += 1;
    }
}

/// Older serials that were seen, and nothing else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Older {
    /// The newest of the serials in the last refresh.
    pub serial: Serial,
    /// The primary that has it.
    pub primary: usize,
    /// Refreshes that count.
    pub rounds: u32,
    /// Time of the first of them.
    pub since: Instant,
    /// Time of the last of them.
    counted: Instant,
    /// True if a primary gave no serial in the last refresh.
    pub is_partial: bool,
}

impl Older {
    /// Returns true if this has lasted.
    pub fn has_lasted(&self, wait: Duration, now: Instant) -> bool {
        self.rounds >= LEAST_ROUNDS && now.duration_since(self.since) >= wait
    }
}

/// For how long the answers have been older.
#[derive(Default)]
pub struct Regression {
    /// What was seen, while every answer is older.
    pub older: Option<Older>,
}

impl Regression {
    /// Counts a refresh of so many primaries at which none was good, if the last one that counts is as long ago as
    /// `pause`. Gives what was seen so far, when this refresh has shown it once more.
    pub fn count(&mut self, answers: &Answers, primaries: usize, pause: Duration, now: Instant) -> Option<Older> {
        if answers.others > 0 {
            self.older = None;
            return None;
        }
        // Silence says nothing either way.
        let (serial, primary) = answers.newest?;
        let is_partial = answers.older < primaries;
        let older = match self.older {
            None => Older { serial, primary, rounds: 1, since: now, counted: now, is_partial },
            Some(before) if now.duration_since(before.counted) < pause => {
                Older { serial, primary, is_partial, ..before }
            }
            Some(before) => {
                let rounds = before.rounds.saturating_add(1);
                Older { serial, primary, rounds, counted: now, is_partial, ..before }
            }
        };
        self.older = Some(older);
        self.older
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAUSE: Duration = Duration::from_secs(2);
    const WAIT: Duration = Duration::from_secs(300);

    fn older(answers: &[(usize, u32)]) -> Answers {
        let mut noted = Answers::default();
        answers.iter().for_each(|(primary, serial)| noted.note_older(*primary, Serial(*serial)));
        noted
    }

    #[test]
    fn three_rounds_and_the_time_are_both_needed() {
        let (mut regression, now) = (Regression::default(), Instant::now());
        for tick in 0..100 {
            let soon = now + tick * PAUSE / 100;
            assert_eq!(regression.count(&older(&[(1, 4)]), 1, PAUSE, soon).unwrap().rounds, 1, "however often");
        }
        let second = regression.count(&older(&[(0, 4)]), 1, PAUSE, now + 2 * WAIT).unwrap();
        assert!(!second.has_lasted(WAIT, now + 2 * WAIT), "two rounds only");
        let third = regression.count(&older(&[(0, 4)]), 1, PAUSE, now + 2 * WAIT + PAUSE).unwrap();
        assert!(third.has_lasted(WAIT, now + 2 * WAIT + PAUSE));
        regression.older = None;
        for round in 0..100 {
            let seen = regression.count(&older(&[(0, 4)]), 1, PAUSE, now + round * PAUSE).unwrap();
            assert!(!seen.has_lasted(WAIT, now + round * PAUSE), "{round}");
        }
    }

    #[test]
    fn one_answer_that_is_not_older_starts_over_and_silence_does_not() {
        let (mut regression, now) = (Regression::default(), Instant::now());
        let mut both = older(&[(0, 4)]);
        both.note_other();
        regression.count(&older(&[(0, 4)]), 2, PAUSE, now);
        assert_eq!(regression.count(&Answers::default(), 2, PAUSE, now + PAUSE), None);
        assert_eq!(regression.older.map(|older| (older.rounds, older.since)), Some((1, now)));
        regression.count(&both, 2, PAUSE, now + PAUSE);
        assert_eq!(regression.older, None);
    }

    #[test]
    fn the_newest_of_the_older_counts_and_silence_is_told() {
        let (mut regression, now) = (Regression::default(), Instant::now());
        let last = u32::MAX;
        for answers in [[(0, last), (1, 3)], [(1, 3), (0, last)]] {
            let seen = regression.count(&older(&answers), 2, PAUSE, now).unwrap();
            assert_eq!((seen.primary, seen.serial, seen.is_partial), (1, Serial(3), false), "by RFC 1982");
        }
        assert!(regression.count(&older(&[(1, 3)]), 2, PAUSE, now).unwrap().is_partial);
    }
}
