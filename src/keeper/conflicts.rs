//! Log lines and status of records that a primary has and that its zone here cannot hold.
//!
//! Cost: O(names with such records).

use crate::merge::ConflictKind;
use crate::zone::Zone;
use serde::Serialize;
use std::collections::BTreeMap;
use wire::name::Name;

/// Conflicts logged one by one after an update; the rest is a number.
pub(super) const LOGGED_CONFLICTS: usize = 20;
/// Conflicts listed for one region or zone; the total is always told.
pub(super) const LISTED_CONFLICTS: usize = 100;

/// A conflict within one zone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ZoneConflict {
    pub kind: ConflictKind,
    /// Records that are not in the zone for it.
    pub dropped: u32,
}

/// The conflicts at one name.
fn conflicts_at(zone: &Zone, name: &Name) -> Vec<ZoneConflict> {
    let mut counts = BTreeMap::new();
    for record in zone.left.get(name) {
        *counts.entry(ConflictKind::within(zone, name, record.rtype)).or_default() += 1;
    }
    counts.into_iter().map(|(kind, dropped)| ZoneConflict { kind, dropped }).collect()
}

/// Lists the first conflicts in the order of their names.
pub(super) fn list(zone: &Zone) -> BTreeMap<String, Vec<ZoneConflict>> {
    let mut names: Vec<&Name> = zone.left.iter().map(|(name, _)| name).collect();
    names.sort_unstable_by(|a, b| a.canonical_cmp(b));
    names.into_iter().take(LISTED_CONFLICTS).map(|name| (name.to_string(), conflicts_at(zone, name))).collect()
}

/// The number of names for each kind of conflict.
pub(super) fn count(zone: &Zone) -> BTreeMap<ConflictKind, i64> {
    let mut counts = BTreeMap::new();
    for conflict in zone.left.iter().flat_map(|(name, _)| conflicts_at(zone, name)) {
        *counts.entry(conflict.kind).or_default() += 1;
    }
    counts
}

/// Logs conflicts that the version before did not have, each once, up to a number that does not flood the log.
pub(super) fn log(before: Option<&Zone>, zone: &Zone) {
    let is_new = |name: &Name| before.is_none_or(|before| before.left.get(name) != zone.left.get(name));
    let mut names: Vec<&Name> = zone.left.iter().map(|(name, _)| name).filter(|name| is_new(name)).collect();
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
