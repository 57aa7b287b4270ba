//! Everything that views read, in one handle.
//!
//! Invariant: nothing behind it waits for the keeper, a source or a disk; and it keeps neither keeper nor sources alive.
//!
//! Cost: clones share it.

use super::rates::Rates;
use crate::budget::Budget;
use crate::config::Config;
use crate::daemon::probe::Results;
use crate::daemon::sources::Sources;
use crate::keeper::Snapshots;
use crate::metrics::Metrics;
use crate::notify::Notifier;
use crate::publish::{Publisher, Served};
use crate::state::Store;
use arc_swap::ArcSwap;
use std::sync::Arc;
use std::time::Instant;
use wire::name::Name;

/// Everything that views read.
#[derive(Clone)]
pub struct Handle {
    /// The configuration in force, which a reload replaces.
    pub config: Arc<ArcSwap<Config>>,
    pub started: Instant,
    pub publisher: Arc<Publisher>,
    pub snapshots: Snapshots,
    pub budget: Arc<Budget>,
    pub metrics: Arc<Metrics>,
    pub notifier: Arc<Notifier>,
    /// Store on disk for versions; none if it is switched off.
    pub store: Option<Arc<Store>>,
    pub sources: Sources,
    pub rates: Arc<Rates>,
    pub probed: Results,
}

impl Handle {
    /// The zone of a name, as it is served; else the error for an operator.
    pub fn served(&self, zone: &Name) -> Result<Arc<Served>, String> {
        self.publisher.load().get(zone).cloned().ok_or_else(|| not_configured(zone))
    }
}

/// The error that there is no such zone.
pub fn not_configured(zone: &Name) -> String {
    format!("zone {zone} is not configured; see \"aggregator status\"")
}

/// Reads the name of a zone as an operator writes it.
pub fn read_zone(text: &str) -> Result<Name, String> {
    Name::parse(text).map_err(|error| format!("no zone name: {error}"))
}

/// Does work that may take long in a thread of its own.
pub async fn in_thread<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, String> + Send + 'static,
) -> Result<T, String> {
    tokio::task::spawn_blocking(work).await.unwrap_or_else(|error| Err(error.to_string()))
}
