//! The guard against documents that are read correctly and wrong all the same.
//!
//! A document that lacks many of the elements that are known, or all of them, looks like one that was cut, or written by a
//! program that could not ask. So an array that has shrunk below `shrink_share`, by at least [`LEAST_LOSS`], or is empty
//! now, makes the document be held back until a second complete reading, at least `confirm_after` later, has no more
//! elements. Elements that a document itself tells to be destroyed are no loss. A single element that goes, goes.
//!
//! Invariant: where nothing is known of what was served, nothing is lost; an array that was empty may stay so.
//!
//! Cost: O(1).

use std::time::Duration;
use tokio::time::Instant;

/// Fewer elements than these may always go, unless none is left; small inventories change by large shares.
pub const LEAST_LOSS: u64 = 10;

/// The least time between two looks at a document that waits.
const LEAST_PAUSE: Duration = Duration::from_secs(1);

/// Arrays of an inventory that are judged.
pub const ARRAYS: [&str; 6] = ["vms", "accounts", "networks", "network_pools", "nics", "servers"];

/// Numbers of elements, in the order of [`ARRAYS`].
pub type Extent = [u64; ARRAYS.len()];

/// A document that waits for confirmation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Held {
    /// The first array that has shrunk, by its place in [`ARRAYS`].
    pub array: usize,
    pub found: Extent,
    pub served: Extent,
    since: Instant,
    /// Time of the next look.
    due: Instant,
}

/// Limits from which doubts count.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    pub shrink_share: f64,
    pub confirm_after: Duration,
}

/// The guard of one inventory.
#[derive(Default)]
pub struct Guard {
    held: Option<Held>,
}

impl Guard {
    /// The document that waits.
    pub fn held(&self) -> Option<&Held> {
        self.held.as_ref()
    }

    /// Returns when the document is to be read again.
    pub fn due(&self) -> Option<Instant> {
        self.held.map(|held| held.due)
    }

    /// Puts the next look off, since one has been asked for.
    pub fn put_off(&mut self, limits: &Limits, now: Instant) {
        if let Some(held) = &mut self.held {
            held.due = now + limits.confirm_after.max(LEAST_PAUSE);
        }
    }

    /// Forgets the document that waits.
    pub fn clear(&mut self) {
        self.held = None;
    }

    /// Judges a document that would replace what is served; true when it may.
    pub fn judge(&mut self, served: Extent, found: Extent, limits: &Limits, now: Instant) -> bool {
        let Some(array) = (0..ARRAYS.len()).find(|at| is_doubtful(served[*at], found[*at], limits.shrink_share)) else {
            self.clear();
            return true;
        };
        match self.held {
            // One that has more than the first is another one, which has to be confirmed itself.
            Some(held) if (0..ARRAYS.len()).all(|at| found[at] <= held.found[at]) => {
                if now.saturating_duration_since(held.since) >= limits.confirm_after {
                    self.clear();
                    return true;
                }
            }
            _ => {
                let due = now + limits.confirm_after;
                self.held = Some(Held { array, found, served, since: now, due });
            }
        }
        false
    }
}

/// Returns true if so many elements instead of others look wrong.
fn is_doubtful(served: u64, found: u64, share: f64) -> bool {
    let lost = served.saturating_sub(found);
    (found == 0 && served > 0) || (lost >= LEAST_LOSS && (found as f64) < served as f64 * share)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits = Limits { shrink_share: 0.5, confirm_after: Duration::from_secs(30) };

    #[test]
    fn what_has_shrunk_sharply_needs_a_second_reading() {
        let (mut guard, start) = (Guard::default(), Instant::now());
        let at = |seconds: u64| start + Duration::from_secs(seconds);
        assert!(guard.judge([0; 6], [100, 9, 1, 0, 0, 0], &LIMITS, at(0)), "nothing was served");
        assert!(guard.judge([100, 9, 1, 0, 0, 0], [50, 9, 1, 0, 0, 0], &LIMITS, at(1)), "half may go");
        assert!(guard.judge([19, 1, 1, 0, 0, 0], [10, 1, 1, 0, 0, 0], &LIMITS, at(1)), "few may go");
        assert!(!guard.judge([100, 9, 1, 0, 0, 0], [49, 9, 1, 0, 0, 0], &LIMITS, at(2)));
        assert_eq!(guard.held().map(|held| ARRAYS[held.array]), Some("vms"));
        assert_eq!(guard.due(), Some(at(32)));
        assert!(!guard.judge([100, 9, 1, 0, 0, 0], [49, 9, 1, 0, 0, 0], &LIMITS, at(31)), "too early");
        assert!(guard.judge([100, 9, 1, 0, 0, 0], [40, 9, 1, 0, 0, 0], &LIMITS, at(32)), "confirmed by fewer");
        assert_eq!(guard.held(), None);
    }

    #[test]
    fn an_empty_document_waits_and_more_elements_begin_anew() {
        let (mut guard, start) = (Guard::default(), Instant::now());
        assert!(!guard.judge([1, 1, 1, 0, 0, 0], [0, 0, 0, 0, 0, 0], &LIMITS, start));
        let later = start + LIMITS.confirm_after;
        assert!(guard.judge([1, 1, 1, 0, 0, 0], [1, 1, 1, 0, 0, 0], &LIMITS, later), "it is back");
        assert!(!guard.judge([100, 1, 1, 0, 0, 0], [3, 1, 1, 0, 0, 0], &LIMITS, start));
        assert!(!guard.judge([100, 1, 1, 0, 0, 0], [4, 1, 1, 0, 0, 0], &LIMITS, later), "more than before");
        assert!(guard.judge([100, 1, 1, 0, 0, 0], [4, 1, 1, 0, 0, 0], &LIMITS, later + LIMITS.confirm_after));
        assert!(!guard.judge([20, 9, 9, 0, 0, 5], [20, 9, 9, 0, 0, 0], &LIMITS, start), "no compute node is left");
        guard.clear();
        assert!(!guard.judge([20, 9, 9, 1, 0, 0], [20, 9, 9, 0, 0, 0], &LIMITS, start), "no pool is left");
        guard.clear();
        assert_eq!(guard.due(), None);
    }
}
