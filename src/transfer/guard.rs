//! The guard against transfers that are complete in form and wrong in content (`docs/regions.md` 23).
//!
//! CNS ends a transfer with a proper closing SOA although its database failed half way, and serves an empty zone with a
//! fresh serial while its database is rebuilt (`docs/cns.md` 12 and 13). So a version that leaves less than
//! `shrink_share` of the names and takes away at least [`LEAST_LOSS`], or that has nothing beside the apex while
//! there is data, is held back. The share is that of the most names which were served within the last ten times
//! `confirm_after` at least, so that no zone is lost in several steps of which each is small enough, while one that
//! shrinks over hours is let pass.
//!
//! A held version is adopted when a second transfer, at least `confirm_after` later, agrees with the first: the serial
//! is not older, and the number of names is the same within a tenth. The number is enough: a database that fails does
//! not fail twice at the same place, and a zone whose instances come and go must not be held for ever because one of
//! them did. A transfer that is suspicious and does not agree takes the held one's place.
//!
//! Versions with nothing beside the apex agree only at the same serial. While its database is rebuilt, which takes
//! minutes, CNS serves an empty zone whose serial is the clock; a zone that was emptied keeps the serial at which that
//! happened.
//!
//! A catalog (RFC 9432) is judged by the zones that it takes away, however few: a version without some of them is adopted
//! when a second transfer, at least `confirm_after` later, takes away no others. One that takes away `hold_share` of the
//! zones or more, or all, is adopted at the word of an operator only. Again the most zones of late count, so that
//! several small steps are as one.
//!
//! Cost: O(1), versions know how many names they have; for a catalog O(zones).

use crate::catalog::listing::Listing;
use crate::source::WakeKind;
use crate::transfer::plan::Limits;
use std::collections::HashSet;
use std::time::Duration;
use tokio::time::Instant;
use wire::name::Name;
use wire::serial::Serial;

/// Fewer names than these may always go; small zones change by large shares.
pub const LEAST_LOSS: u64 = 10;

/// For how many times `confirm_after` a number of names is remembered; and not for more than three times as long.
const LOOK_BACK: u32 = 10;

/// A version that waits for confirmation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Held {
    pub serial: Serial,
    /// Names with records in the version that waits.
    pub names: u64,
    /// Names with records in the version that is served.
    pub served_names: u64,
    /// The most names with records that were served of late.
    pub peak_names: u64,
    /// The zones that it takes away, if it is a catalog.
    pub leaving: Option<Leaving>,
    /// The request that brought it, to be repeated.
    pub kind: WakeKind,
    since: Instant,
}

/// Zones that a version of a catalog takes away.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leaving {
    pub zones: HashSet<Name>,
    /// True if they are so many that no second transfer confirms it.
    pub needs_operator: bool,
}

/// Decision about a transferred version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    Adopt,
    Hold,
}

/// The guard of one zone.
#[derive(Default)]
pub struct Guard {
    held: Option<Held>,
    peak: Peak,
}

/// The most names that were served of late: of this period and of the one before.
#[derive(Default)]
struct Peak {
    begun: Option<Instant>,
    now: u64,
    before: u64,
}

impl Peak {
    /// Notes how many names are served. Returns the most that were of late.
    fn note(&mut self, names: u64, period: Duration, now: Instant) -> u64 {
        let age = self.begun.map_or(Duration::MAX, |begun| now.duration_since(begun));
        if age >= period {
            self.before = if age < period.saturating_mul(2) { self.now } else { 0 };
            (self.begun, self.now) = (Some(now), 0);
        }
        self.now = self.now.max(names);
        self.now.max(self.before)
    }
}

/// Returns true if the step from one number of names to another needs a second opinion. `peak` is the most that were
/// served of late.
fn is_suspicious(peak: u64, served: u64, new: u64, share: f64) -> bool {
    let sharp = new < served && (new as f64) < peak as f64 * share && peak.saturating_sub(new) >= LEAST_LOSS;
    // The apex always holds the SOA, so one name is none.
    let empty = new <= 1 && served > 1;
    share > 0.0 && (sharp || empty)
}

impl Guard {
    /// The version that waits.
    pub fn held(&self) -> Option<&Held> {
        self.held.as_ref()
    }

    /// Returns when the held version is to be confirmed.
    pub fn due(&self, limits: &Limits) -> Option<Instant> {
        let held = self.held.as_ref().filter(|_| !self.needs_operator());
        held.map(|held| held.since + limits.confirm_after)
    }

    /// Returns true if the version that waits is adopted at the word of an operator only.
    pub fn needs_operator(&self) -> bool {
        self.held.as_ref().and_then(|held| held.leaving.as_ref()).is_some_and(|leaving| leaving.needs_operator)
    }

    /// Forgets the version that waits.
    pub fn clear(&mut self) {
        self.held = None;
    }

    /// Takes the next version for granted: nothing waits, and what was served before is no measure for what comes.
    pub fn accept(&mut self) {
        *self = Guard::default();
    }

    /// Judges a version with `names` names that would replace one with `served_names`.
    pub fn judge(
        &mut self,
        served_names: u64,
        (serial, names): (Serial, u64),
        kind: WakeKind,
        limits: &Limits,
        now: Instant,
    ) -> Verdict {
        let peak_names = self.peak.note(served_names, limits.confirm_after.saturating_mul(LOOK_BACK), now);
        if !is_suspicious(peak_names, served_names, names, limits.shrink_share) {
            self.held = None;
            return Verdict::Adopt;
        }
        let agrees = |held: &Held| {
            let is_same = if names <= 1 { held.serial == serial } else { !held.serial.newer_than(serial) };
            is_same && held.names.abs_diff(names) * 10 <= held.names.max(names)
        };
        let mut since = now;
        if let Some(held) = self.held.as_ref().filter(|held| agrees(held)) {
            // An agreeing transfer that comes too early, by NOTIFY perhaps, proves nothing yet.
            if now.duration_since(held.since) >= limits.confirm_after {
                self.accept();
                return Verdict::Adopt;
            }
            since = held.since;
        }
        self.held = Some(Held { serial, names, served_names, peak_names, leaving: None, kind, since });
        Verdict::Hold
    }

    /// Judges a version of a catalog that would replace one with other members.
    pub fn judge_catalog(
        &mut self,
        served: &Listing,
        (serial, listing): (Serial, &Listing),
        kind: WakeKind,
        (limits, hold_share): (&Limits, f64),
        now: Instant,
    ) -> Verdict {
        let [names, served_names] = [listing, served].map(|listing| listing.len() as u64);
        let peak_names = self.peak.note(served_names, limits.confirm_after.saturating_mul(LOOK_BACK), now);
        let zones = listing.lost_since(served);
        if zones.is_empty() {
            self.held = None;
            return Verdict::Adopt;
        }
        let lost = (zones.len() as u64).max(peak_names.saturating_sub(names));
        let needs_operator = zones.len() == served.len() || lost as f64 >= peak_names as f64 * hold_share;
        let agrees = |held: &Held| {
            let leaves_no_others = |leaving: &Leaving| zones.is_subset(&leaving.zones);
            !held.serial.newer_than(serial) && held.leaving.as_ref().is_some_and(leaves_no_others)
        };
        let mut since = now;
        if let Some(held) = self.held.as_ref().filter(|held| agrees(held)) {
            if !needs_operator && now.duration_since(held.since) >= limits.confirm_after {
                self.held = None;
                return Verdict::Adopt;
            }
            since = held.since;
        }
        let leaving = Some(Leaving { zones, needs_operator });
        self.held = Some(Held { serial, names, served_names, peak_names, leaving, kind, since });
        Verdict::Hold
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::{CatalogPlan, build};

    const LATER: Duration = Duration::from_secs(11);

    fn judge(guard: &mut Guard, served: u64, serial: u32, names: u64, now: Instant) -> Verdict {
        guard.judge(served, (Serial(serial), names), WakeKind::Refresh, &Limits::default(), now)
    }

    #[test]
    fn small_or_gentle_changes_pass() {
        let is_suspicious = |served, new, share| is_suspicious(served, served, new, share);
        assert!(!is_suspicious(1000, 500, 0.5));
        assert!(is_suspicious(1000, 499, 0.5));
        assert!(!is_suspicious(12, 3, 0.5), "nine names only");
        assert!(is_suspicious(13, 3, 0.5));
        assert!(is_suspicious(2, 1, 0.5), "nothing but the apex");
        assert!(!is_suspicious(1, 1, 0.5));
        assert!(!is_suspicious(1000, 1, 0.0), "switched off");
        assert!(!is_suspicious(5, 1000, 0.5));
    }

    #[test]
    fn steps_that_shrink_the_zone_together_are_one() {
        let (mut guard, now) = (Guard::default(), Instant::now());
        let second = Duration::from_secs(1);
        assert_eq!(judge(&mut guard, 1000, 2, 500, now), Verdict::Adopt);
        assert_eq!(judge(&mut guard, 500, 3, 499, now + second), Verdict::Hold);
        assert_eq!(guard.held().unwrap().peak_names, 1000);
        assert_eq!(judge(&mut guard, 500, 3, 499, now + second + LATER), Verdict::Adopt);
        assert_eq!(judge(&mut guard, 499, 4, 250, now + 2 * LATER), Verdict::Adopt, "measured by what was confirmed");
        assert_eq!(judge(&mut guard, 250, 5, 249, now + 2 * LATER), Verdict::Hold);
        assert_eq!(judge(&mut guard, 250, 6, 251, now + 2 * LATER), Verdict::Adopt);
        guard.accept();
        assert_eq!(judge(&mut guard, 251, 7, 126, now + 2 * LATER), Verdict::Adopt);
    }

    #[test]
    fn a_zone_may_shrink_with_time() {
        let (limits, mut now) = (Limits::default(), Instant::now());
        for (minutes, expected) in [(10, Verdict::Adopt), (1, Verdict::Hold)] {
            let (mut guard, mut names, mut verdict) = (Guard::default(), 1000, Verdict::Adopt);
            for serial in 0..20 {
                // A fifth goes each time.
                let next = names * 4 / 5;
                if judge(&mut guard, names, serial, next, now) == Verdict::Hold {
                    verdict = Verdict::Hold;
                }
                (names, now) = (next, now + Duration::from_secs(30 * minutes));
            }
            assert_eq!(verdict, expected, "{minutes}");
        }
        assert_eq!(limits.confirm_after * LOOK_BACK, Duration::from_secs(100));
    }

    #[test]
    fn two_agreeing_transfers_over_the_pause_are_adopted() {
        let (mut guard, now) = (Guard::default(), Instant::now());
        assert_eq!(judge(&mut guard, 100, 7, 20, now), Verdict::Hold);
        assert_eq!(judge(&mut guard, 100, 7, 20, now + Duration::from_secs(1)), Verdict::Hold, "too early");
        assert_eq!(guard.due(&Limits::default()), Some(now + Duration::from_secs(10)), "the pause does not begin anew");
        assert_eq!(judge(&mut guard, 100, 8, 21, now + LATER), Verdict::Adopt);
        assert!(guard.held().is_none());
    }

    #[test]
    fn an_empty_zone_is_believed_when_its_serial_stays() {
        let (mut guard, now) = (Guard::default(), Instant::now());
        for tick in 0..60 {
            // A database that is rebuilt for ten minutes.
            assert_eq!(judge(&mut guard, 5, 7 + tick, 1, now + tick * LATER), Verdict::Hold);
        }
        assert_eq!(judge(&mut guard, 5, 6, 5, now + 60 * LATER), Verdict::Adopt, "the zone is back");
        assert_eq!(judge(&mut guard, 5, 7, 1, now), Verdict::Hold);
        assert_eq!(judge(&mut guard, 5, 7, 1, now + LATER), Verdict::Adopt);
    }

    /// A listing of zones with these numbers.
    fn listing(zones: std::ops::Range<u32>) -> Listing {
        let origin = Name::parse("cat.test").unwrap();
        let members: Vec<Name> = zones.map(|zone| Name::parse(&format!("z{zone}.test")).unwrap()).collect();
        let plan = CatalogPlan { server_name: origin.clone(), origin };
        Listing::read(&build(&plan, &members, Serial(1), None).zone, 1000).unwrap()
    }

    /// Judges one catalog after another, each in place of the served one.
    fn judge_catalog(guard: &mut Guard, served: &Listing, serial: u32, new: &Listing, now: Instant) -> Verdict {
        guard.judge_catalog(served, (Serial(serial), new), WakeKind::Refresh, (&Limits::default(), 0.5), now)
    }

    #[test]
    fn a_catalog_that_takes_a_zone_away_is_confirmed() {
        let (mut guard, now, all) = (Guard::default(), Instant::now(), listing(0..10));
        assert_eq!(judge_catalog(&mut guard, &all, 1, &listing(0..11), now), Verdict::Adopt, "more");
        assert_eq!(judge_catalog(&mut guard, &all, 2, &listing(1..11), now), Verdict::Hold);
        assert!(!guard.needs_operator() && guard.due(&Limits::default()).is_some());
        assert_eq!(judge_catalog(&mut guard, &all, 2, &listing(1..11), now), Verdict::Hold, "too early");
        assert_eq!(judge_catalog(&mut guard, &all, 3, &listing(2..11), now + LATER), Verdict::Hold, "another one");
        assert_eq!(judge_catalog(&mut guard, &all, 4, &listing(1..12), now + 2 * LATER), Verdict::Adopt);
        assert_eq!(judge_catalog(&mut guard, &all, 5, &listing(1..10), now), Verdict::Hold);
        assert_eq!(judge_catalog(&mut guard, &all, 6, &all, now), Verdict::Adopt, "it is back");
        assert!(guard.held().is_none());
    }

    #[test]
    fn a_catalog_that_takes_many_zones_away_waits_for_an_operator() {
        let (mut guard, mut now, all) = (Guard::default(), Instant::now(), listing(0..10));
        for serial in 1..10 {
            assert_eq!(judge_catalog(&mut guard, &all, serial, &listing(0..5), now), Verdict::Hold, "half");
            assert!(guard.needs_operator() && guard.due(&Limits::default()).is_none());
            now += LATER;
        }
        guard.accept();
        // Step by step.
        assert_eq!(judge_catalog(&mut guard, &all, 1, &listing(0..6), now), Verdict::Hold);
        assert_eq!(judge_catalog(&mut guard, &all, 1, &listing(0..6), now + LATER), Verdict::Adopt);
        assert_eq!(judge_catalog(&mut guard, &listing(0..6), 2, &listing(0..5), now + LATER), Verdict::Hold);
        assert!(guard.needs_operator(), "half of those of late");
        assert_eq!(judge_catalog(&mut guard, &listing(0..1), 3, &listing(0..0), now), Verdict::Hold);
        assert!(guard.needs_operator(), "all of them");
    }

    #[test]
    fn transfers_that_disagree_start_over() {
        let (mut guard, now) = (Guard::default(), Instant::now());
        assert_eq!(judge(&mut guard, 100, 7, 20, now), Verdict::Hold);
        assert_eq!(judge(&mut guard, 100, 8, 40, now + LATER), Verdict::Hold);
        assert_eq!(judge(&mut guard, 100, 7, 40, now + 2 * LATER), Verdict::Hold, "an older serial does not agree");
        assert_eq!(judge(&mut guard, 100, 8, 90, now + 3 * LATER), Verdict::Adopt, "the zone is back");
        assert!(guard.held().is_none());
    }
}
