//! The versions of a zone that its history reaches, as the status page lists them.
//!
//! Cost: O(changes of the versions that are listed).

use crate::name::Name;
use crate::publish::Served;
use crate::serial::Serial;
use crate::zone::Delta;
use serde::Serialize;
use std::sync::Arc;

/// A version, and what was done to the one before it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Version {
    pub serial: Serial,
    /// The serial of the version before it.
    pub from: Serial,
    /// Names whose records differ.
    pub names: usize,
    pub removed: u32,
    pub added: u32,
}

/// A zone's versions.
#[derive(Debug, Serialize)]
pub struct Versions {
    pub zone: Name,
    /// The version that is served.
    pub serial: Option<Serial>,
    /// The newest first.
    pub versions: Vec<Version>,
    /// Versions that the history has beside these.
    pub more: usize,
}

/// Lists the newest versions of a zone, so many at most.
pub fn list_versions(served: &Served, limit: usize) -> Versions {
    let describe = |delta: &Arc<Delta>| Version {
        serial: delta.to_serial(),
        from: delta.from_serial(),
        names: delta.touched().count(),
        removed: delta.removed.records(),
        added: delta.added.records(),
    };
    Versions {
        zone: served.origin.clone(),
        serial: served.zone.as_ref().map(|zone| zone.soa.serial),
        versions: served.history.iter().rev().take(limit).map(describe).collect(),
        more: served.history.len().saturating_sub(limit),
    }
}
