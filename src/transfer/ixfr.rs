//! The choice of primaries that are asked for differences.
//!
//! Asking one that has none costs a round trip before the transfer that is needed anyway, so a primary that turns the
//! question away (NOTIMP, FORMERR, REFUSED, a closed connection, silence) is spared it: for a minute first, because a
//! restart looks the same, then for twice as long each time, up to [`LONGEST_PAUSE`]. So is one whose answer ends below
//! the serial that it announces: it keeps no differences, or asks another that lags behind. Differences that are wrong
//! are another matter: the next ones may be right, as with CNS, whose answer depends on its history at that moment.
//!
//! Cost: O(1).

use crate::transfer::error::{Phase, TransferError};
use std::time::Duration;
use tokio::time::Instant;

/// Pause after the first time that a primary turns the question away.
const FIRST_PAUSE: Duration = Duration::from_secs(60);
/// The longest pause: an upgraded primary is found out within it.
const LONGEST_PAUSE: Duration = Duration::from_secs(3600);

/// A primary's manner of answering the question.
#[derive(Clone, Copy, Debug, Default)]
pub struct Manner {
    /// Number of times in a row that it turned the question away.
    refusals: u32,
    /// Time at which it may be asked again.
    again: Option<Instant>,
}

impl Manner {
    /// Returns true if it is worth asking.
    pub fn may_ask(&self, now: Instant) -> bool {
        self.again.is_none_or(|again| now >= again)
    }

    /// Notes an answer that makes sense.
    pub fn note_answer(&mut self) {
        *self = Manner::default();
    }

    /// Notes a failure. Returns how long the primary is not asked, when it turned the question away.
    pub fn note_failure(&mut self, error: &TransferError, now: Instant) -> Option<Duration> {
        if !turns_away(error) {
            return None;
        }
        let pause = FIRST_PAUSE.saturating_mul(1 << self.refusals.min(16)).min(LONGEST_PAUSE);
        self.refusals = self.refusals.saturating_add(1);
        self.again = Some(now + pause);
        Some(pause)
    }
}

/// Returns true if an error says that the primary does not answer the question or knows no answer, not that it answered
/// wrongly.
fn turns_away(error: &TransferError) -> bool {
    // FORMERR, NOTIMP, REFUSED (RFC 1035 section 4.1.1).
    matches!(
        error,
        TransferError::Rcode(1 | 4 | 5)
            | TransferError::Closed
            | TransferError::Timeout(Phase::Message | Phase::Total)
            | TransferError::LoneSoa
            | TransferError::Behind { .. }
            | TransferError::Regressed { .. }
    )
}

/// Returns true if an error would meet any other question, too: there is no way to the primary.
pub fn is_unreachable(error: &TransferError) -> bool {
    matches!(error, TransferError::Connect(_) | TransferError::Source(..) | TransferError::Timeout(Phase::Connect))
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::serial::Serial;

    #[test]
    fn a_primary_that_turns_the_question_away_is_spared_it_ever_longer() {
        let (mut manner, now) = (Manner::default(), Instant::now());
        assert!(manner.may_ask(now));
        for minutes in [1, 2, 4, 8, 16, 32, 60, 60] {
            let pause = Duration::from_secs(60 * minutes);
            assert_eq!(manner.note_failure(&TransferError::Rcode(4), now), Some(pause));
            assert!(!manner.may_ask(now + pause - Duration::from_millis(1)));
            assert!(manner.may_ask(now + pause));
        }
        manner.note_answer();
        assert!(manner.may_ask(now));
        let late = [
            TransferError::Closed,
            TransferError::Behind { sent: Serial(1) },
            TransferError::Regressed { ours: Serial(2), theirs: Serial(1) },
        ];
        for error in late {
            manner.note_answer();
            assert_eq!(manner.note_failure(&error, now), Some(FIRST_PAUSE));
        }
    }

    #[test]
    fn wrong_differences_do_not_count_against_the_next() {
        let (mut manner, now) = (Manner::default(), Instant::now());
        let base = TransferError::OtherBase { ours: Serial(2), theirs: Serial(1) };
        for error in [base, TransferError::Rcode(2), TransferError::Unanswered(1), TransferError::Malformed("x")] {
            assert_eq!(manner.note_failure(&error, now), None);
        }
        assert!(manner.may_ask(now));
    }
}
