//! What an earlier run of the program left on disk, before anything is served.

use super::RunError;
use crate::config::Config;
use crate::metrics::Metrics;
use crate::name::Name;
use crate::publish::Published;
use crate::state::{self, Restored, StateError, Store};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Opens the folder of what outlives the process. Another process that has it is a reason not to start; a disk that
/// cannot be written is none: everything is served from memory then.
pub fn open_store(config: &Config, metrics: &Arc<Metrics>) -> Result<Option<Arc<Store>>, RunError> {
    let Some(folder) = &config.state else {
        // Nothing should be on disk, so nothing is missing there.
        metrics.state_healthy.set(1);
        return Ok(None);
    };
    match state::open(folder, metrics.clone()) {
        Ok(store) => Ok(Some(Arc::new(store))),
        Err(error @ StateError::InUse { .. }) => Err(RunError::State(error)),
        Err(error) => {
            tracing::error!(%error, "zones will not outlive this process");
            Ok(None)
        }
    }
}

/// Reads what an earlier run left of the zones that are not served yet, several at a time.
pub fn restore_zones(store: Option<&Store>, config: &Config, published: &Published) -> HashMap<Name, Restored> {
    let Some(store) = store else { return HashMap::new() };
    let wanted: Vec<&Name> = config.source_zones().filter(|zone| published.get(zone).is_none()).collect();
    let next = AtomicUsize::new(0);
    let work = || {
        let mut restored = Vec::new();
        while let Some(zone) = wanted.get(next.fetch_add(1, Ordering::Relaxed)) {
            restored.extend(store.load(zone).map(|found| ((*zone).clone(), found)));
        }
        restored
    };
    tokio::task::block_in_place(|| {
        std::thread::scope(|scope| {
            let threads = std::thread::available_parallelism().map_or(1, usize::from).min(wanted.len());
            let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
            // A file that makes the program panic costs its zones a transfer, not the start.
            workers.into_iter().filter_map(|worker| worker.join().ok()).flatten().collect()
        })
    })
}
