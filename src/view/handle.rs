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
use crate::keeper::{Pulse, Snapshots};
use crate::metrics::Metrics;
use crate::notify::Notifier;
use crate::publish::{Publisher, Served};
use crate::rate_limit::Limiter;
use crate::state::Store;
use arc_swap::ArcSwap;
use settings::schema::suggest;
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
    pub pulse: Arc<Pulse>,
    pub metrics: Arc<Metrics>,
    pub notifier: Arc<Notifier>,
    /// Store on disk for versions; none if it is switched off.
    pub store: Option<Arc<Store>>,
    pub sources: Sources,
    pub rates: Arc<Rates>,
    pub probed: Results,
    pub limiter: Arc<Limiter>,
}

impl Handle {
    /// The zone of a name, as it is served; else the error for an operator.
    pub fn served(&self, zone: &Name) -> Result<Arc<Served>, String> {
        let published = self.publisher.load();
        published.get(zone).cloned().ok_or_else(|| not_configured(zone, published.iter().map(|served| &served.origin)))
    }
}

/// The error that there is no such zone, and which of the known ones may be meant.
pub fn not_configured<'n>(zone: &Name, known: impl IntoIterator<Item = &'n Name>) -> String {
    let mut known: Vec<String> = known.into_iter().map(Name::to_string).collect();
    // Of several that are equally near, it is always the same one.
    known.sort_unstable();
    match suggest(&zone.to_string(), known.iter().map(String::as_str)) {
        Some(meant) => format!("zone {zone} is not configured; did you mean {meant}?"),
        None => format!("zone {zone} is not configured; see \"aggregator status\""),
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_zone_that_may_be_meant_is_named() {
        let known = ["us-west-1.cns.example.com", "us-east-1.cns.example.com"].map(|name| Name::parse(name).unwrap());
        let told = |zone: &str| not_configured(&Name::parse(zone).unwrap(), &known);
        let meant = "zone us-wset-1.cns.example.com. is not configured; did you mean us-west-1.cns.example.com.?";
        assert_eq!(told("us-wset-1.cns.example.com"), meant);
        assert_eq!(told("a.b"), "zone a.b. is not configured; see \"aggregator status\"");
    }
}
