//! The question what else happened under the serial that is served (`docs/cns.md` 28).
//!
//! Two commits of CNS within ten seconds have one serial, and a copy taken between them lacks the second until the next
//! change. So a while after each change the primary is asked for differences at our own serial: CNS answers such a
//! question with a step from that serial to the same one, or else with the whole zone, of which nothing is read.
//!
//! Cost: O(1), and one question for each change.

use std::time::Duration;
use tokio::time::Instant;

/// Time after a change at which both commits are over: two of CNS' ticks.
const AFTER: Duration = Duration::from_secs(20);

/// The question, and when it is due.
#[derive(Default)]
pub struct Twin {
    /// Time at which the zone last got another serial, until it was asked what else happened under that.
    changed: Option<Instant>,
}

impl Twin {
    /// Notes a change of the serial.
    pub fn note_change(&mut self, now: Instant) {
        self.changed = Some(now);
    }

    /// Returns true if it is time to ask, once for each change. A request by somebody is no time for it.
    pub fn take(&mut self, asked: bool, now: Instant) -> bool {
        let is_due = !asked && self.changed.is_some_and(|changed| now.duration_since(changed) >= AFTER);
        if is_due {
            self.changed = None;
        }
        is_due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_question_comes_once_and_in_its_time() {
        let (mut twin, now) = (Twin::default(), Instant::now());
        assert!(!twin.take(false, now + AFTER), "nothing has changed");
        twin.note_change(now);
        assert!(!twin.take(false, now + AFTER - Duration::from_millis(1)));
        assert!(!twin.take(true, now + AFTER));
        assert!(twin.take(false, now + AFTER));
        assert!(!twin.take(false, now + 2 * AFTER));
    }
}
