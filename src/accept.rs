//! Pauses and log lines of a listener that cannot accept connections.
//!
//! The cause is most often a lack of file descriptors (EMFILE, ENFILE). The connection that could not be accepted stays
//! in the queue, so that accepting again at once would fail again at once: without a pause a listener keeps a processor
//! busy, and without a limit its log lines fill a disk.
//!
//! Cost: O(1), and a pause of `PAUSE`, for each failure.

use std::io;
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// Pause before accepting again.
const PAUSE: Duration = Duration::from_millis(100);
/// Shortest time between two lines of one listener.
const BETWEEN_LINES: Duration = Duration::from_secs(60);

/// The failures of one listener.
pub struct AcceptFailures {
    what: &'static str,
    said: Option<Instant>,
    held_back: u64,
}

impl AcceptFailures {
    /// A listener that has not failed yet; `what` it accepts, for the log.
    pub fn new(what: &'static str) -> AcceptFailures {
        AcceptFailures { what, said: None, held_back: 0 }
    }

    /// Takes note of a failure and waits until it is worth trying again.
    pub async fn pause(&mut self, error: &io::Error) {
        if let Some(held_back) = self.note(Instant::now()) {
            let advice = match error.raw_os_error() {
                Some(libc::EMFILE) => Some("raise the limit on open files (LimitNOFILE of the service)"),
                Some(libc::ENFILE) => Some("raise the limit on open files of the system (fs.file-max)"),
                _ => None,
            };
            tracing::warn!(%error, advice, held_back, "cannot accept {}", self.what);
        }
        sleep(PAUSE).await;
    }

    /// Returns the number of failures that were not logged since the last line, or none if no line is due yet.
    fn note(&mut self, now: Instant) -> Option<u64> {
        if self.said.is_some_and(|said| now - said < BETWEEN_LINES) {
            self.held_back += 1;
            return None;
        }
        self.said = Some(now);
        Some(std::mem::take(&mut self.held_back))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn failures_are_paced_and_told_once_a_minute() {
        let mut failures = AcceptFailures::new("a test");
        let begun = Instant::now();
        for _ in 0..10 {
            failures.pause(&io::Error::from_raw_os_error(libc::EMFILE)).await;
        }
        assert_eq!((begun.elapsed(), failures.held_back), (10 * PAUSE, 9));
        assert_eq!(failures.note(begun + BETWEEN_LINES), Some(9));
        assert_eq!(failures.note(begun + BETWEEN_LINES), None);
        assert_eq!(failures.note(begun + 3 * BETWEEN_LINES), Some(1));
    }
}
