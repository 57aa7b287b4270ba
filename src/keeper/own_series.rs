//! Zones and regions with series of their own in a scrape: those that are not served first, then others with a fault, so
//! that each alert has what it needs of them, then those of which there is something to tell, then regions, then the
//! largest, by name.
//!
//! Cost: O(zones + regions) where all have a place, else O(zones × log zones).

use super::sources::SourceZone;
use super::{MemberStatus, Snapshot};
use crate::metrics::{OWN_ZONES, REST};
use crate::publish::State;
use std::cmp::Reverse;
use std::collections::HashSet;
use std::time::{Duration, Instant};
use wire::name::Name;

/// Age from which alerts look at a zone that no primary confirms, whatever its REFRESH.
const OLD: Duration = Duration::from_secs(600);
/// Part of a zone's life that is nearly all.
const LATE: f64 = 0.75;

/// Order in which names get series of their own.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Rank {
    /// Nobody gets answers from it: this must not disappear among thousands that are only late.
    Unserved,
    Faulty,
    Remarkable,
    Region,
    Zone,
}

/// Names with series of their own.
pub(super) struct OwnSeries<'a>(HashSet<&'a Name>);

impl OwnSeries<'_> {
    /// The label of a name, or of the rest.
    pub fn label(&self, name: &Name) -> String {
        if self.has(name) { name.to_string() } else { REST.to_owned() }
    }

    /// Returns true if a name has series of its own.
    pub fn has(&self, name: &Name) -> bool {
        self.0.contains(name)
    }
}

impl Snapshot {
    /// Chooses the names with series of their own.
    pub(super) fn own_series(&self, now: Instant) -> OwnSeries<'_> {
        let names = self.sources.keys().chain(self.regions.keys());
        if self.sources.len() + self.regions.len() <= OWN_ZONES {
            return OwnSeries(names.collect());
        }
        let place = |name: &'_ Name| (self.rank(name, now), Reverse(self.magnitude(name)));
        let mut ranked: Vec<((Rank, Reverse<u32>), &Name)> = names.map(|name| (place(name), name)).collect();
        ranked.sort_unstable_by(|(one, a), (other, b)| one.cmp(other).then_with(|| a.canonical_cmp(b)));
        OwnSeries(ranked.into_iter().take(OWN_ZONES).map(|(_, name)| name).collect())
    }

    /// The number of binary digits of a zone's size in memory: it seldom changes.
    fn magnitude(&self, name: &Name) -> u32 {
        let zone = self.sources.get(name).and_then(|source| source.zone.as_ref());
        zone.map_or(0, |zone| usize::BITS - zone.octets().leading_zeros())
    }

    /// The rank of a zone or region.
    fn rank(&self, name: &Name, now: Instant) -> Rank {
        let tells = self.published.reached(name).is_some_and(|served| {
            let large = served.large_in_answers();
            large.resolvers > 0 || large.message > 0 || served.tally.parts() > 0
        });
        let (is_faulty, has_conflicts, is_region) = match (self.regions.get(name), self.sources.get(name)) {
            (Some(region), _) if region.state != State::Ok => return Rank::Unserved,
            (_, Some(source)) if !source.is_served() => return Rank::Unserved,
            (Some(region), _) => {
                let members = self.member_statuses(&region.plan, now);
                let lacks = |member: &MemberStatus| matches!(member.state, "missing" | "expired" | "stale");
                (members.iter().any(lacks), region.conflicts.names > 0, true)
            }
            (None, Some(source)) => {
                let conflicts = source.zone.as_ref().map_or(0, |zone| zone.left_out.names());
                (source.is_faulty(now), conflicts > 0, false)
            }
            (None, None) => (false, false, false),
        };
        match (is_faulty, tells || has_conflicts, is_region) {
            (true, ..) => Rank::Faulty,
            (_, true, _) => Rank::Remarkable,
            (_, _, true) => Rank::Region,
            _ => Rank::Zone,
        }
    }
}

impl SourceZone {
    /// Returns true if clients get answers from it.
    fn is_served(&self) -> bool {
        self.zone.is_some() && self.state == State::Ok
    }

    /// Returns true if the zone is not well, or if no primary has confirmed it for long.
    fn is_faulty(&self, now: Instant) -> bool {
        let (Some(zone), Some(heard)) = (&self.zone, self.heard()) else { return true };
        let (age, refresh) = (now.saturating_duration_since(heard), Duration::from_secs(zone.soa.refresh.into()));
        let missed = refresh + 2 * Duration::from_secs(zone.soa.retry.into());
        let is_nearly_over = self.expires().is_some_and(|at| age > at.saturating_duration_since(heard).mul_f64(LATE));
        age > missed || age > OLD.max(2 * refresh) || is_nearly_over
    }
}
