//! Restoration of the zones and histories that an earlier run of the program left on disk, before anything is served.

use super::RunError;
use super::catalogs::{put_in_force, read_listings};
use crate::config::Config;
use crate::config::automatic::Asked;
use crate::config::listed::ListedZones;
use crate::metrics::Metrics;
use crate::publish::Published;
use crate::state::inventories::read_reverse;
use crate::state::{self, Restored, StateError, Store};
use crate::view::loading::Loading;
use crate::zone::History;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use wire::name::Name;
use wire::serial::Serial;

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

/// Zones and histories that an earlier run left on disk.
#[derive(Default)]
pub struct Remains {
    /// Zones, and the contents of pinned regions.
    pub zones: HashMap<Name, Restored>,
    /// Histories of the regions.
    pub past: HashMap<Name, History>,
    /// Serials that other servers have of regions of which nothing certain is left.
    pub heard: HashMap<Name, Vec<Serial>>,
}

/// Reads what an earlier run left of the zones that are not served yet, and at start of regions, several at a time,
/// which `loading` shows.
///
/// Nothing is read of `fresh` zones.
pub fn restore(
    store: Option<&Store>,
    config: &Config,
    published: &Published,
    fresh: &HashSet<Name>,
    loading: Option<&Loading>,
) -> Remains {
    let Some(store) = store else { return Remains::default() };
    let origins: HashMap<&Name, &Name> = config.zones.iter().map(|plan| (&plan.zone, &plan.origin)).collect();
    let load = |zone: &Name| {
        let _shown = loading.map(|loading| loading.read_file(zone));
        store.load_as(zone, origins.get(zone).unwrap_or(&zone))
    };
    let is_new = |zone: &&Name| published.get(zone).is_none() && !fresh.contains(*zone);
    let zones = config.source_zones().filter(is_new);
    if published.generation > 0 {
        // A region that comes while the program runs begins anew.
        return Remains { zones: in_threads(zones.collect(), load), ..Remains::default() };
    }
    let (pins, regions) = (&store.facts.pins, config.regions.iter().map(|plan| &plan.origin));
    let pinned = regions.clone().filter(|region| pins.iter().any(|pin| pin.region == **region));
    let zones = in_threads(zones.chain(pinned).collect(), load);
    Remains { zones, past: in_threads(regions.collect(), |region| Some(store.load_past(region))), ..Remains::default() }
}

/// Reads at start the catalogs that an earlier run left and the zones that they list, the names of automatic reverse
/// zones, and all other zones. Returns the configuration with those zones.
pub fn restore_all(store: Option<&Store>, written: &Arc<Config>, loading: Option<&Loading>) -> (Arc<Config>, Remains) {
    let names = written.catalogs.iter().map(|source| &source.way.zone);
    let catalogs: HashMap<Name, Restored> = names.filter_map(|name| Some((name.clone(), store?.load(name)?))).collect();
    let listings = read_listings(catalogs.iter().map(|(name, restored)| (name, &*restored.zone)));
    let folder = written.state.as_deref().filter(|_| store.is_some());
    let kept = |(name, _): (&str, _)| Some((name.to_owned(), read_reverse(folder?, name)));
    let asked: Asked = written.automatic().filter_map(kept).collect();
    let config = put_in_force(written, &listings, &asked, &ListedZones::default()).config;
    let mut remains = restore(store, &config, &Published::default(), &catalogs.keys().cloned().collect(), loading);
    remains.zones.extend(catalogs);
    (config, remains)
}

/// Reads an item for each name, several at a time.
fn in_threads<T: Send>(wanted: Vec<&Name>, read: impl Fn(&Name) -> Option<T> + Sync) -> HashMap<Name, T> {
    let next = AtomicUsize::new(0);
    let work = || {
        let mut restored = Vec::new();
        while let Some(name) = wanted.get(next.fetch_add(1, Ordering::Relaxed)) {
            restored.extend(read(name).map(|found| ((*name).clone(), found)));
        }
        restored
    };
    std::thread::scope(|scope| {
        let others = std::thread::available_parallelism().map_or(1, usize::from).min(wanted.len()).saturating_sub(1);
        // Where the system gives no thread, this one does it all.
        let start = |_| std::thread::Builder::new().name("disk-part".into()).spawn_scoped(scope, work).ok();
        let others: Vec<_> = (0..others).filter_map(start).collect();
        // A file that makes the program panic costs its zones a transfer, not the start.
        let own = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work)).unwrap_or_default();
        others.into_iter().filter_map(|other| other.join().ok()).flatten().chain(own).collect()
    })
}
