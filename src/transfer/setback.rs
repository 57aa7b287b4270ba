//! Primaries whose serial is older than ours (contract F6).
//!
//! That happens when a clock or a database was set back, and also while one server of several lags, or while CNS starts. So a
//! zone goes back only when every primary that answered was older on [`ROUNDS_BEFORE_ADOPTING`] refreshes in a row. Refreshes
//! that follow each other faster than the first retry would, by request, count as one: what is to be seen is that it lasts.
//!
//! Cost: O(1).

use std::time::Duration;
use tokio::time::Instant;

/// Refreshes in a row that must show an older serial before the zone goes back.
pub const ROUNDS_BEFORE_ADOPTING: u32 = 3;

/// The answers of the primaries in one refresh.
#[derive(Default)]
pub struct Answers {
    serials: u32,
    older: u32,
    /// The first primary with an older serial.
    set_back: Option<usize>,
}

impl Answers {
    /// Notes a serial that is older than ours.
    pub fn note_older(&mut self, index: usize) {
        self.serials += 1;
        self.older += 1;
        self.set_back.get_or_insert(index);
    }

    /// Notes a serial that is not.
    pub fn note_other(&mut self) {
        self.serials += 1;
    }

    /// The first of the primaries, if all that answered were older.
    fn all_older(&self) -> Option<usize> {
        self.set_back.filter(|_| self.older == self.serials)
    }
}

/// For how long the answers have been older.
#[derive(Default)]
pub struct Setback {
    rounds: u32,
    /// When the last of the rounds was.
    counted: Option<Instant>,
}

impl Setback {
    /// Rounds in a row in which every answer was older.
    pub fn rounds(&self) -> u32 {
        self.rounds
    }

    /// Forgets the rounds.
    pub fn clear(&mut self) {
        *self = Setback::default();
    }

    /// Counts a refresh at which no primary was good, if the last one that counts is as long ago as `pause`. Returns the primary
    /// that the zone is to be taken from when it must go back.
    pub fn count(&mut self, answers: &Answers, pause: Duration, now: Instant) -> Option<usize> {
        let Some(primary) = answers.all_older() else {
            // Silence says nothing either way.
            if answers.serials > 0 {
                self.clear();
            }
            return None;
        };
        if self.counted.is_none_or(|counted| now.duration_since(counted) >= pause) {
            self.rounds = self.rounds.saturating_add(1);
            self.counted = Some(now);
        }
        (self.rounds >= ROUNDS_BEFORE_ADOPTING).then_some(primary)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAUSE: Duration = Duration::from_secs(2);

    fn older(primaries: &[usize]) -> Answers {
        let mut answers = Answers::default();
        primaries.iter().for_each(|primary| answers.note_older(*primary));
        answers
    }

    #[test]
    fn what_is_older_three_times_with_pauses_is_adopted() {
        let (mut setback, now) = (Setback::default(), Instant::now());
        for tick in 0..100 {
            let soon = now + tick * PAUSE / 100;
            assert_eq!(setback.count(&older(&[1, 0]), PAUSE, soon), None, "however often");
        }
        assert_eq!(setback.rounds(), 1);
        assert_eq!(setback.count(&older(&[0]), PAUSE, now + PAUSE), None);
        assert_eq!(setback.count(&older(&[1, 0]), PAUSE, now + 2 * PAUSE), Some(1));
        assert_eq!(setback.count(&older(&[1, 0]), PAUSE, now + 2 * PAUSE), Some(1), "until that has come about");
        setback.clear();
        assert_eq!(setback.count(&older(&[1]), PAUSE, now + 3 * PAUSE), None);
    }

    #[test]
    fn one_answer_that_is_not_older_starts_over_and_silence_does_not() {
        let (mut setback, now) = (Setback::default(), Instant::now());
        let mut both = older(&[0]);
        both.note_other();
        setback.count(&older(&[0]), PAUSE, now);
        setback.count(&Answers::default(), PAUSE, now + PAUSE);
        assert_eq!(setback.rounds(), 1);
        setback.count(&both, PAUSE, now + PAUSE);
        assert_eq!(setback.rounds(), 0);
    }
}
