//! A new version of a zone, made of what a transfer brought.
//!
//! Invariants: a version that comes of differences is bound by `max_records` as one that comes whole is; while it is
//! made it takes twice that at most, because the base is bound as well and so are the differences. Records are compared
//! and copied where that stops no other zone's task.
//!
//! Cost: O(records) for a whole zone, O(records at the names that changed) for differences.

use crate::transfer::error::TransferError;
use crate::transfer::reader::Changed;
use crate::zone::{Aside, Loaded, Loader, Mixed, Removal, Vetoes, Zone};
use std::sync::Arc;

/// Differences of more records than these, or at names with many records, are applied where they stop no other zone's
/// task; for fewer the way there and back would take longer than the work.
const MANY_CHANGES: u64 = 2000;

/// A new version.
pub struct Version {
    pub loaded: Loaded,
    /// True if it can have more than the version before: differences may only remove.
    pub adds: bool,
    /// Steps of differences that changed nothing.
    pub noop_changes: u64,
    /// Records that are gone and may still be at the primary.
    pub doubts: Vec<Removal>,
}

impl Version {
    /// Compares the records of a whole zone, which may be mixed, with the served version. O(records)
    pub async fn load(loader: Loader, base: Option<Arc<Zone>>, mixed: Mixed) -> Result<Version, TransferError> {
        let load = move || loader.finish(base.as_deref());
        let mut loaded = tokio::task::spawn_blocking(load).await.map_err(|_| TransferError::Stopped)??;
        loaded.zone.mixed = mixed;
        // The whole zone is the answer.
        loaded.zone.unanswered = Aside::default();
        Ok(Version { loaded, adds: true, noop_changes: 0, doubts: Vec::new() })
    }

    /// Puts differences on the version that they were asked for; records that are vetoed stay. O(records at the names
    /// that changed)
    pub async fn patch(changed: Arc<Changed>, vetoes: Vetoes, max_records: u64) -> Result<Version, TransferError> {
        let adds = changed.patcher.adds();
        let patched = if changed.patcher.is_long() || changed.patcher.changes() > MANY_CHANGES {
            let patch = move || changed.finish(&vetoes);
            tokio::task::spawn_blocking(patch).await.map_err(|_| TransferError::Stopped)??
        } else {
            changed.finish(&vetoes)?
        };
        if patched.loaded.zone.records > max_records {
            return Err(TransferError::TooManyRecords(max_records));
        }
        let noop_changes = patched.absent + patched.present;
        Ok(Version { noop_changes, adds, loaded: patched.loaded, doubts: patched.doubts })
    }
}
