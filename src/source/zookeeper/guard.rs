//! The guard against trees that are read correctly and wrong all the same.
//!
//! While a session lasts, each removal is ZooKeeper's own word and counts at once. A tree that is read anew, after a
//! session was lost, has no such word, and an ensemble that was wiped, made anew or restored from an old copy looks
//! like one whose nodes were all deleted. So a tree is held back:
//!
//! - where it was **reset**: something was served, and the domain's node is gone or is another one than it was, or the newest
//!   change is older than one that was served. It is believed when it has had `shrink_share` of the served nodes again for
//!   `regress_after`, or when it was held for as long as is sensible, half of `serve_stale`;
//! - where it has **shrunk** below `shrink_share` of its nodes, by at least [`LEAST_LOSS`], or is not there and nothing was
//!   served that could be lost: until a second reading, at least `confirm_after` later, agrees with it.
//!
//! Invariant: how long a reset tree was held counts over restarts ([`Guard::resume`]); whether it has enough nodes does
//! not.
//!
//! Cost: O(1).

use std::time::Duration;
use tokio::time::Instant;

/// Fewer nodes than these may always go; small trees change by large shares.
pub const LEAST_LOSS: u64 = 10;

/// Reason to hold a tree back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Doubt {
    /// The domain's node is not there.
    Missing,
    /// The domain's node was made anew.
    Anew,
    /// Its newest change is older than one that was seen.
    Older,
    Shrunk,
}

impl Doubt {
    /// All of them, for metrics.
    pub const ALL: [Doubt; 4] = [Doubt::Missing, Doubt::Anew, Doubt::Older, Doubt::Shrunk];

    /// The metric label.
    pub fn label(self) -> &'static str {
        match self {
            Doubt::Missing => "missing",
            Doubt::Anew => "anew",
            Doubt::Older => "older",
            Doubt::Shrunk => "shrunk",
        }
    }
}

/// A tree as it was read, or as it is served: how much it holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Extent {
    /// Nodes, or names with records where only a zone of an earlier run is known.
    pub nodes: u64,
    /// The newest change; 0 when it is not known.
    pub zxid: i64,
    /// The change that made the domain's node; 0 when there is none, or it is not known.
    pub born: i64,
}

/// A tree that waits for confirmation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Held {
    pub doubt: Doubt,
    /// True if more than its size speaks against it.
    pub is_reset: bool,
    pub found: Extent,
    /// The tree that is served meanwhile.
    pub served: Extent,
    since: Instant,
    /// Since when a tree that was reset has had enough nodes.
    enough: Option<Instant>,
}

/// Limits from which doubts count, and for how long.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    pub shrink_share: f64,
    pub confirm_after: Duration,
    pub regress_after: Duration,
    /// For how long a tree that was reset is held, whatever it has.
    pub longest: Duration,
}

/// The guard of one tree.
#[derive(Default)]
pub struct Guard {
    held: Option<Held>,
    /// For how long earlier processes have held the same tree.
    earlier: Duration,
}

impl Guard {
    /// A guard that goes on where an earlier process had held a tree for so long.
    pub fn resume(earlier: Duration) -> Guard {
        Guard { held: None, earlier }
    }

    /// The tree that waits.
    pub fn held(&self) -> Option<&Held> {
        self.held.as_ref()
    }

    /// Returns when the tree is to be read again.
    pub fn due(&self, limits: &Limits) -> Option<Instant> {
        let held = self.held?;
        if !held.is_reset {
            return Some(held.since + limits.confirm_after);
        }
        let end = held.since + limits.longest.saturating_sub(self.earlier);
        Some(held.enough.map_or(end, |enough| end.min(enough + limits.regress_after)))
    }

    /// Forgets the tree that waits.
    pub fn clear(&mut self) {
        *self = Guard::default();
    }

    /// Judges a tree that would replace another; true when it may.
    pub fn judge(&mut self, served: Extent, found: Extent, limits: &Limits, now: Instant) -> bool {
        let before = self.held.filter(|held| held.is_reset);
        let held = doubt(served, found, limits.shrink_share).and_then(|doubt| match before {
            // An old copy whose changes have caught up is none the larger for it.
            Some(before) if doubt == Doubt::Shrunk => self.hold_reset(before.doubt, served, found, limits, now),
            _ if is_reset(doubt, served) => self.hold_reset(doubt, served, found, limits, now),
            _ => self.hold_small(doubt, served, found, limits, now),
        });
        match held {
            Some(held) => self.held = Some(held),
            None => self.clear(),
        }
        held.is_none()
    }

    /// Holds a tree that was reset, unless it has enough nodes for long enough, or was held for long enough.
    fn hold_reset(&self, doubt: Doubt, served: Extent, found: Extent, limits: &Limits, now: Instant) -> Option<Held> {
        let before = self.held.filter(|held| held.is_reset);
        let since = before.map_or(now, |held| held.since);
        let is_enough = found.nodes > 0 && found.nodes as f64 >= served.nodes as f64 * limits.shrink_share;
        // One that was made anew once more begins anew here, too.
        let enough = before.filter(|held| held.found.born == found.born).and_then(|held| held.enough);
        let enough = is_enough.then(|| enough.unwrap_or(now));
        let is_restored = enough.is_some_and(|enough| now.duration_since(enough) >= limits.regress_after);
        let is_over = self.earlier + now.duration_since(since) >= limits.longest;
        (!is_restored && !is_over).then_some(Held { doubt, is_reset: true, found, served, since, enough })
    }

    /// Holds a tree that is small, unless it was as small before.
    fn hold_small(&self, doubt: Doubt, served: Extent, found: Extent, limits: &Limits, now: Instant) -> Option<Held> {
        let agrees = |held: &Held| {
            held.doubt == doubt
                && held.found.zxid <= found.zxid
                && held.found.nodes.abs_diff(found.nodes) * 10 <= held.found.nodes.max(found.nodes)
        };
        let since = self.held.filter(agrees).map_or(now, |held| held.since);
        // One that comes too early proves nothing yet, and the first one nothing at all.
        let is_confirmed = since < now && now.duration_since(since) >= limits.confirm_after;
        (!is_confirmed).then_some(Held { doubt, is_reset: false, found, served, since, enough: None })
    }
}

/// Returns true if a tree that is doubted takes something away that was served, and not by its size alone.
pub fn is_reset(doubt: Doubt, served: Extent) -> bool {
    // The domain's node alone has no record of an instance.
    doubt != Doubt::Shrunk && served.nodes > 1
}

/// Returns what speaks against a tree.
pub fn doubt(served: Extent, found: Extent, share: f64) -> Option<Doubt> {
    if share <= 0.0 {
        return None;
    }
    if found.nodes == 0 {
        return Some(Doubt::Missing);
    }
    if served.nodes > 1 && served.born != 0 && found.born != served.born {
        return Some(Doubt::Anew);
    }
    if served.nodes > 1 && found.zxid < served.zxid {
        return Some(Doubt::Older);
    }
    let lost = served.nodes.saturating_sub(found.nodes);
    let sharp = (found.nodes as f64) < served.nodes as f64 * share && lost >= LEAST_LOSS;
    sharp.then_some(Doubt::Shrunk)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits = Limits {
        shrink_share: 0.5,
        confirm_after: Duration::from_secs(10),
        regress_after: Duration::from_secs(300),
        longest: Duration::from_secs(1000),
    };
    const LATER: Duration = Duration::from_secs(11);

    fn extent(nodes: u64, zxid: i64) -> Extent {
        Extent { nodes, zxid, born: i64::from(nodes > 0) }
    }

    fn after(now: Instant, seconds: u64) -> Instant {
        now + Duration::from_secs(seconds)
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
    fn a_tree_of_the_past_or_of_another_root_is_doubted() {
        assert_eq!(doubt(extent(5, 9), extent(5, 8), 0.5), Some(Doubt::Older));
        assert_eq!(doubt(extent(5, 0), extent(5, 8), 0.5), None);
        assert_eq!(doubt(extent(5, 9), extent(0, 0), 0.0), None, "switched off");
        let anew = Extent { born: 7, ..extent(5, 9) };
        assert_eq!(doubt(extent(5, 8), anew, 0.5), Some(Doubt::Anew));
        assert_eq!(doubt(Extent { born: 0, ..extent(5, 8) }, anew, 0.5), None, "it is not known what it was");
        assert_eq!(doubt(extent(1, 8), anew, 0.5), None, "nothing can be lost");
        assert_eq!(doubt(extent(1, 8), Extent { zxid: 3, ..anew }, 0.5), None);
    }

    #[test]
    fn what_agrees_after_the_pause_is_adopted() {
        let (mut guard, now) = (Guard::default(), Instant::now());
        assert!(!guard.judge(extent(100, 7), extent(20, 7), &LIMITS, now));
        assert!(!guard.judge(extent(100, 7), extent(20, 7), &LIMITS, after(now, 1)), "too early");
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

    #[test]
    fn a_domain_that_never_served_anything_is_ready_after_a_second_look() {
        for served in [Extent::default(), extent(1, 3)] {
            let (mut guard, now) = (Guard::default(), Instant::now());
            assert!(!guard.judge(served, extent(0, 0), &LIMITS, now));
            assert!(!guard.held().unwrap().is_reset);
            assert!(guard.judge(served, extent(0, 0), &LIMITS, now + LATER));
            assert!(guard.judge(served, Extent { born: 9, ..extent(1, 1) }, &LIMITS, now), "at once");
        }
    }

    #[test]
    fn a_wiped_tree_is_believed_when_it_has_had_enough_nodes_for_long_enough() {
        let (mut guard, now) = (Guard::default(), Instant::now());
        let served = extent(100, 1000);
        let anew = |nodes| Extent { nodes, zxid: 5, born: 3 };
        assert!(!guard.judge(served, extent(0, 0), &LIMITS, now));
        assert_eq!(guard.due(&LIMITS), Some(now + LIMITS.longest));
        assert!(!guard.judge(served, extent(0, 0), &LIMITS, after(now, 200)), "whoever agrees with it");
        assert!(!guard.judge(served, anew(49), &LIMITS, after(now, 210)));
        assert!(!guard.judge(served, anew(50), &LIMITS, after(now, 220)));
        assert_eq!(guard.due(&LIMITS), Some(after(now, 520)));
        // Less again: the time begins anew.
        assert!(!guard.judge(served, anew(40), &LIMITS, after(now, 300)));
        assert!(!guard.judge(served, anew(60), &LIMITS, after(now, 400)));
        // And with another root.
        assert!(!guard.judge(served, Extent { born: 4, ..anew(60) }, &LIMITS, after(now, 500)));
        assert!(!guard.judge(served, Extent { born: 4, ..anew(80) }, &LIMITS, after(now, 799)));
        assert!(guard.judge(served, Extent { born: 4, ..anew(70) }, &LIMITS, after(now, 800)));
        assert!(guard.held().is_none());
    }

    #[test]
    fn a_wiped_tree_is_believed_after_the_longest_time_over_restarts() {
        let (mut guard, now) = (Guard::resume(Duration::from_secs(900)), Instant::now());
        let served = extent(100, 1000);
        assert!(!guard.judge(served, extent(0, 0), &LIMITS, now));
        assert_eq!(guard.due(&LIMITS), Some(after(now, 100)));
        assert!(!guard.judge(served, extent(5, 2), &LIMITS, after(now, 99)));
        assert!(guard.judge(served, extent(5, 2), &LIMITS, after(now, 100)));
        // The next one is held for the whole time.
        assert!(!guard.judge(served, extent(0, 0), &LIMITS, after(now, 200)));
        assert_eq!(guard.due(&LIMITS), Some(after(now, 1200)));
    }

    #[test]
    fn an_old_copy_that_catches_up_is_as_small_as_before() {
        let (mut guard, now) = (Guard::default(), Instant::now());
        assert!(!guard.judge(extent(100, 70), extent(20, 60), &LIMITS, now));
        assert!(!guard.judge(extent(100, 70), extent(21, 80), &LIMITS, now + LATER));
        assert!(!guard.judge(extent(100, 70), extent(21, 80), &LIMITS, now + 2 * LATER));
        assert_eq!(guard.held().map(|held| (held.doubt, held.is_reset)), Some((Doubt::Older, true)));
        assert!(guard.judge(extent(100, 70), extent(60, 90), &LIMITS, now + 2 * LATER));
    }

    #[test]
    fn what_was_away_and_is_the_same_again_is_believed_at_once() {
        let (mut guard, now) = (Guard::default(), Instant::now());
        assert!(!guard.judge(extent(100, 7), extent(0, 0), &LIMITS, now));
        assert!(guard.judge(extent(100, 7), extent(99, 8), &LIMITS, after(now, 1)));
    }
}
