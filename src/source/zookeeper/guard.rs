//! The guard against trees that are read correctly and wrong all the same.
//!
//! While a session lasts, each removal is ZooKeeper's own word and counts at once. A tree that is read anew, after a session
//! was lost, has no such word: an ensemble that was restored from an old copy, or made anew, or a chroot with a mistake,
//! looks like one whose nodes were all deleted. So a tree whose domain's node is missing, or that has less than
//! `shrink_share` of its nodes and at least [`LEAST_LOSS`] fewer, or that is older than what was read before, is held back
//! until a second reading, at least `confirm_after` later, agrees with it.
//!
//! Cost: O(1).

use std::time::Duration;
use tokio::time::Instant;

/// Fewer nodes than these may always go; small trees change by large shares.
pub const LEAST_LOSS: u64 = 10;

/// Why a tree is held back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Doubt {
    /// The domain's node is not there.
    Missing,
    Shrunk,
    /// Its newest change is older than one that was seen.
    Older,
}

/// A tree as it was read, or as it is served: how much it holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// Nodes, or names with records where only a zone of an earlier run is known.
    pub nodes: u64,
    /// The newest change; 0 when it is not known.
    pub zxid: i64,
}

/// A tree that waits for confirmation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Held {
    pub doubt: Doubt,
    pub found: Extent,
    /// What is served meanwhile.
    pub served: Extent,
    since: Instant,
}

/// When doubts count.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    pub shrink_share: f64,
    pub confirm_after: Duration,
}

/// The guard of one tree.
#[derive(Default)]
pub struct Guard {
    held: Option<Held>,
}

impl Guard {
    /// The tree that waits.
    pub fn held(&self) -> Option<&Held> {
        self.held.as_ref()
    }

    /// When the tree is to be read again.
    pub fn due(&self, limits: &Limits) -> Option<Instant> {
        self.held.map(|held| held.since + limits.confirm_after)
    }

    /// Forgets the tree that waits.
    pub fn clear(&mut self) {
        self.held = None;
    }

    /// Judges a tree that would replace another; true when it may.
    pub fn judge(&mut self, served: Extent, found: Extent, limits: &Limits, now: Instant) -> bool {
        let Some(doubt) = doubt(served, found, limits.shrink_share) else {
            self.held = None;
            return true;
        };
        let agrees = |held: &Held| {
            held.doubt == doubt
                && held.found.zxid <= found.zxid
                && held.found.nodes.abs_diff(found.nodes) * 10 <= held.found.nodes.max(found.nodes)
        };
        let mut since = now;
        if let Some(held) = self.held.as_ref().filter(|held| agrees(held)) {
            // One that comes too early proves nothing yet.
            if now.duration_since(held.since) >= limits.confirm_after {
                self.held = None;
                return true;
            }
            since = held.since;
        }
        self.held = Some(Held { doubt, found, served, since });
        false
    }
}

/// What speaks against a tree.
fn doubt(served: Extent, found: Extent, share: f64) -> Option<Doubt> {
    if share <= 0.0 {
        return None;
    }
    if found.nodes == 0 {
        return Some(Doubt::Missing);
    }
    if found.zxid < served.zxid {
        return Some(Doubt::Older);
    }
    let lost = served.nodes.saturating_sub(found.nodes);
    let sharp = (found.nodes as f64) < served.nodes as f64 * share && lost >= LEAST_LOSS;
    sharp.then_some(Doubt::Shrunk)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits = Limits { shrink_share: 0.5, confirm_after: Duration::from_secs(10) };
    const LATER: Duration = Duration::from_secs(11);

    fn extent(nodes: u64, zxid: i64) -> Extent {
        Extent { nodes, zxid }
    }

    #[test]
    fn small_or_gentle_changes_pass() {
        let doubt = |served, found| doubt(extent(served, 5), extent(found, 5), 0.5);
        assert_eq!(doubt(1000, 500), None);
        assert_eq!(doubt(1000, 499), Some(Doubt::Shrunk));
        assert_eq!(doubt(12, 3), None, "nine nodes only");
        assert_eq!(doubt(13, 3), Some(Doubt::Shrunk));
        assert_eq!(doubt(2, 0), Some(Doubt::Missing));
        assert_eq!(doubt(0, 0), Some(Doubt::Missing), "a chroot with a mistake, at the first start");
        assert_eq!(doubt(0, 7), None);
    }

    #[test]
    fn a_tree_of_the_past_is_doubted() {
        assert_eq!(doubt(extent(5, 9), extent(5, 8), 0.5), Some(Doubt::Older));
        assert_eq!(doubt(extent(5, 0), extent(5, 8), 0.5), None);
        assert_eq!(doubt(extent(5, 9), extent(0, 0), 0.0), None, "switched off");
    }

    #[test]
    fn what_agrees_after_the_pause_is_adopted() {
        let (mut guard, now) = (Guard::default(), Instant::now());
        assert!(!guard.judge(extent(100, 7), extent(20, 7), &LIMITS, now));
        assert!(!guard.judge(extent(100, 7), extent(20, 7), &LIMITS, now + Duration::from_secs(1)), "too early");
        assert_eq!(guard.due(&LIMITS), Some(now + LIMITS.confirm_after), "the pause does not begin anew");
        assert!(guard.judge(extent(100, 7), extent(21, 8), &LIMITS, now + LATER));
        assert!(guard.held().is_none());
    }

    #[test]
    fn what_disagrees_starts_over_and_what_is_back_is_adopted() {
        let (mut guard, now) = (Guard::default(), Instant::now());
        assert!(!guard.judge(extent(100, 7), extent(0, 0), &LIMITS, now));
        assert!(!guard.judge(extent(100, 7), extent(30, 8), &LIMITS, now + LATER));
        assert!(!guard.judge(extent(100, 7), extent(40, 8), &LIMITS, now + 2 * LATER));
        assert!(guard.judge(extent(100, 7), extent(100, 7), &LIMITS, now + 2 * LATER));
        assert!(guard.held().is_none());
    }
}
