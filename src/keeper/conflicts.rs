//! Conflicts as they are shown: between the members of a region, and of records that a primary has and that its zone here
//! cannot hold. The latter are logged here, too.
//!
//! Cost: O(names with conflicts).

use crate::merge::{Conflict, ConflictKind, Region};
use crate::zone::Zone;
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeMap;
use wire::name::Name;

/// Conflicts logged one by one after an update; the rest is a number.
pub(super) const LOGGED_CONFLICTS: usize = 20;
/// Conflicts listed for one region or zone; the total is always told.
const LISTED_CONFLICTS: usize = 100;

/// The conflicts of a region, as they are shown.
#[derive(Default)]
pub struct RegionConflicts {
    /// Names with conflicts.
    pub names: usize,
    /// Names by kind of conflict, in the order of [`ConflictKind::ALL`].
    pub counts: [i64; ConflictKind::ALL.len()],
    /// First of the names in order, with the dropped records.
    pub listed: BTreeMap<String, Vec<Conflict>>,
}

impl RegionConflicts {
    /// Sums up the conflicts of a region.
    pub(super) fn of(region: &Region) -> RegionConflicts {
        let mut counts = [0; ConflictKind::ALL.len()];
        for conflicts in region.conflicts.values() {
            let mut kinds: Vec<ConflictKind> = conflicts.iter().map(|conflict| conflict.kind).collect();
            kinds.dedup();
            kinds.iter().for_each(|kind| counts[*kind as usize] += 1);
        }
        let mut places: Vec<_> = region.conflicts.iter().collect();
        if places.len() > LISTED_CONFLICTS {
            places.select_nth_unstable_by(LISTED_CONFLICTS, |a, b| a.0.name.canonical_cmp(&b.0.name));
            places.truncate(LISTED_CONFLICTS);
        }
        let listed = places.into_iter().map(|(place, conflicts)| (place.name.to_string(), conflicts.clone())).collect();
        RegionConflicts { names: region.conflicts.len(), counts, listed }
    }
}

/// A conflict within one zone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ZoneConflict {
    pub kind: ConflictKind,
    /// Records that are not in the zone for it.
    pub dropped: u32,
}

/// The conflicts at one name.
fn conflicts_at(zone: &Zone, name: &Name) -> Vec<ZoneConflict> {
    let mut counts = BTreeMap::new();
    for record in zone.left_out.get(name) {
        *counts.entry(ConflictKind::within(zone, name, record.rtype)).or_default() += 1;
    }
    counts.into_iter().map(|(kind, dropped)| ZoneConflict { kind, dropped }).collect()
}

/// Lists the first conflicts in the order of their names.
pub(super) fn list(zone: &Zone) -> BTreeMap<String, Vec<ZoneConflict>> {
    let mut names: Vec<&Name> = zone.left_out.iter().map(|(name, _)| name).collect();
    names.sort_unstable_by(|a, b| a.canonical_cmp(b));
    names.into_iter().take(LISTED_CONFLICTS).map(|name| (name.to_string(), conflicts_at(zone, name))).collect()
}

/// The number of names for each kind of conflict.
pub(super) fn count(zone: &Zone) -> BTreeMap<ConflictKind, i64> {
    let mut counts = BTreeMap::new();
    for conflict in zone.left_out.iter().flat_map(|(name, _)| conflicts_at(zone, name)) {
        *counts.entry(conflict.kind).or_default() += 1;
    }
    counts
}

/// Logs conflicts that the version before did not have, each once, up to a number that does not flood the log.
pub(super) fn log(before: Option<&Zone>, zone: &Zone) {
    let is_new = |name: &Name| before.is_none_or(|before| before.left_out.get(name) != zone.left_out.get(name));
    let mut names: Vec<&Name> = zone.left_out.iter().map(|(name, _)| name).filter(|name| is_new(name)).collect();
    names.sort_unstable_by(|a, b| a.canonical_cmp(b));
    for name in names.iter().take(LOGGED_CONFLICTS) {
        for ZoneConflict { kind, dropped } in conflicts_at(zone, name) {
            tracing::warn!(zone = %zone.origin, %name, kind = kind.label(), dropped, "records conflict within the zone");
        }
    }
    if let Some(more) = names.len().checked_sub(LOGGED_CONFLICTS).filter(|more| *more > 0) {
        tracing::warn!(zone = %zone.origin, more, "further names with conflicts; see the status of the zone");
    }
}
