//! Zones that are not in the file, followed: those of catalogs, and automatic reverse zones of inventories.
//!
//! Catalogs of primaries: a new version of one becomes a configuration in force without a reload of the file.
//!
//! ```text
//!  primary ──► transfer ──guard──► keeper ──► Published ──► Watch ──► reload (order: catalogs) ──► sources, keeper
//! ```
//!
//! A catalog is transferred, kept on disk and restored like any zone, hidden from clients. What is published of it has
//! been through the guard of its transfer, so that its members are those in force: nothing else has to be remembered. A
//! restart reads the catalogs first, then the zones that they list.
//!
//! An inventory asks for a reverse zone with its first address there; the names of those in force are kept on disk
//! beside the inventory, so that a restart has them from the beginning.
//!
//! Invariants: zones that a catalog begins to list start without data of an earlier life (RFC 9432 section 5.4), except
//! for a restart; a catalog that has expired or cannot be read takes no zone away; an automatic reverse zone that has
//! emptied stays until the file is read again.
//!
//! Cost: O(catalogs) for each publication. For a new version of a catalog O(zones × rules), all in memory: nothing is
//! read, and sources of other zones go on as they are. A region whose members change is merged anew, O(its names).
//!
//! RFCs: 9432.

use crate::catalog::listing::Listing;
use crate::config::Config;
use crate::config::automatic::{Asked, Unmade};
use crate::config::listed::{ListedZones, Listings, Refused, count_by_catalog};
use crate::metrics::Metrics;
use crate::publish::{Published, Publisher};
use crate::zone::Zone;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Arc, Weak};
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};
use wire::name::Name;

/// Pause after a configuration that could not be put in force.
const RETRY: Duration = Duration::from_secs(10);
/// Names that a log line has at most.
const NAMED: usize = 5;
/// Refused zones that have log lines of their own, when many are at once.
const TOLD: usize = 20;

/// Waits for new versions of catalogs.
pub struct Watch {
    publisher: Arc<Publisher>,
    changes: watch::Receiver<u64>,
    /// The versions that the configuration in force was made of.
    seen: HashMap<Name, Weak<Zone>>,
    /// Changes when automatic reverse zones have come.
    automatic: watch::Receiver<u64>,
    retry_at: Option<Instant>,
}

impl Watch {
    /// A watch that has seen no version yet.
    pub fn new(publisher: Arc<Publisher>, automatic: watch::Receiver<u64>) -> Watch {
        Watch { changes: publisher.changes(), publisher, seen: HashMap::new(), automatic, retry_at: None }
    }

    /// Waits until a catalog of the configuration has another version than those that were noted, or automatic reverse
    /// zones have come since.
    pub async fn changed(&mut self, config: &Config) {
        if let Some(retry_at) = self.retry_at {
            sleep_until(retry_at).await;
            self.retry_at = None;
        }
        loop {
            self.changes.mark_unchanged();
            // Let go of before the wait: a root that is held keeps the memory of all its versions.
            let is_new = {
                let published = self.publisher.load();
                versions(config, &published).any(|(name, zone)| !self.has_seen(name, zone))
            };
            if is_new {
                return;
            }
            let has_catalogs = !config.catalogs.is_empty();
            tokio::select! {
                Ok(()) = self.automatic.changed() => return,
                Ok(()) = self.changes.changed(), if has_catalogs => {}
                else => return std::future::pending().await,
            }
        }
    }

    /// Notes the present versions as those that are in force soon.
    pub fn note(&mut self, config: &Config) {
        let published = self.publisher.load();
        self.seen = versions(config, &published).map(|(name, zone)| (name.clone(), Arc::downgrade(zone))).collect();
    }

    /// Forgets what was noted, because it did not come into force.
    pub fn forget(&mut self) {
        self.seen.clear();
        self.automatic.mark_changed();
    }

    /// Notes that what was noted could not come into force: it is tried again in a while.
    pub fn note_failure(&mut self) {
        self.forget();
        self.retry_at = Some(Instant::now() + RETRY);
    }

    /// Returns true if a version is the one that was noted.
    fn has_seen(&self, name: &Name, zone: &Arc<Zone>) -> bool {
        self.seen.get(name).is_some_and(|seen| std::ptr::eq(seen.as_ptr(), Arc::as_ptr(zone)))
    }
}

/// The versions of the catalogs of a configuration that there are.
fn versions<'p>(config: &'p Config, published: &'p Published) -> impl Iterator<Item = (&'p Name, &'p Arc<Zone>)> {
    let names = config.catalogs.iter().map(|source| &source.way.zone);
    names.filter_map(|name| Some((name, published.get(name)?.zone.as_ref()?)))
}

/// What the catalogs of a configuration list, by the versions that are published. O(members)
pub fn published_listings(config: &Config, published: &Published) -> Listings {
    read_listings(versions(config, published).map(|(name, zone)| (name, &**zone)))
}

/// What catalogs list. One that cannot be read, which is from before it was taken for a catalog, lists nothing.
pub fn read_listings<'z>(zones: impl IntoIterator<Item = (&'z Name, &'z Zone)>) -> Listings {
    let read = |(name, zone): (&Name, &Zone)| Some((name.clone(), Listing::read(zone, usize::MAX).ok()?));
    zones.into_iter().filter_map(read).collect()
}

/// A configuration with the zones that catalogs list.
pub struct InForce {
    pub config: Arc<Config>,
    /// The same without the zones that have to start anew, if there are any: it comes into force before.
    pub without: Option<Arc<Config>>,
    /// Zones that start without data of an earlier life.
    pub fresh: HashSet<Name>,
}

/// Puts what catalogs list and inventories ask for into a configuration; `before` are the zones in force until now.
pub fn put_in_force(written: &Arc<Config>, listings: &Listings, asked: &Asked, before: &ListedZones) -> InForce {
    let with = |except: &HashSet<Name>| Arc::new(Config::with_listed(written, listings, asked, before, except));
    let config = with(&HashSet::new());
    let restarted = config.listed.restarted_since(before);
    let without = (!restarted.is_empty()).then(|| with(&restarted));
    let zones = config.listed.zones.keys();
    let fresh = zones.filter(|zone| !before.zones.contains_key(*zone) || restarted.contains(*zone)).cloned().collect();
    InForce { config, without, fresh }
}

/// Tells what catalogs list: in numbers, and which zones are refused that were not before.
pub fn tell(config: &Config, old: &Config, metrics: &Metrics) {
    let (before, counts) = (&*old.listed, count_by_catalog(config));
    for gone in old.catalogs.iter().map(|source| source.way.zone.to_string()).filter(|name| !counts.contains_key(name))
    {
        // What was never counted need not be removed.
        _ = metrics.catalog_members.remove_label_values(&[&gone]);
        _ = metrics.catalog_refused.remove_label_values(&[&gone]);
    }
    for (catalog, (members, refused)) in counts {
        metrics.catalog_members.with_label_values(&[&catalog]).set(i64::try_from(members).unwrap_or(i64::MAX));
        metrics.catalog_refused.with_label_values(&[&catalog]).set(i64::try_from(refused).unwrap_or(i64::MAX));
    }
    tell_automatic(config, old);
    let told: HashSet<&Refused> = before.refused.iter().collect();
    let new: Vec<&Refused> = config.listed.refused.iter().filter(|refused| !told.contains(refused)).collect();
    for refused in new.iter().take(TOLD) {
        let (zone, catalog, reason) = (&refused.zone, &refused.catalog, &refused.reason);
        let more = if new.len() > TOLD { Some(new.len() - TOLD) } else { None };
        tracing::warn!(%zone, %catalog, %reason, more, "a listed zone is refused");
    }
    let (come, go) = (missing_in(before, &config.listed), missing_in(&config.listed, before));
    let restarted = config.listed.restarted_since(before);
    let anew: Vec<&Name> = restarted.iter().collect();
    if !come.is_empty() || !go.is_empty() || !anew.is_empty() {
        let [come, go, anew] = [come, go, anew].map(|names| name_some(&names));
        tracing::info!(listed = config.listed.zones.len(), come, go, anew, "catalogs followed");
    }
}

/// Tells which automatic reverse zones have come and gone, and which are not made that could be before.
fn tell_automatic(config: &Config, old: &Config) {
    let zones = |config: &Config| -> BTreeMap<String, Arc<[Name]>> {
        config.automatic().map(|(name, zones)| (name.to_owned(), zones.into())).collect()
    };
    let (before, now) = (zones(old), zones(config));
    let none: Arc<[Name]> = Arc::default();
    for (inventory, zones) in &now {
        let before = before.get(inventory).unwrap_or(&none);
        let [there, earlier] = [zones, before].map(|zones| zones.iter().collect::<HashSet<&Name>>());
        let come: Vec<&Name> = zones.iter().filter(|zone| !earlier.contains(zone)).collect();
        let go: Vec<&Name> = before.iter().filter(|zone| !there.contains(zone)).collect();
        if !come.is_empty() || !go.is_empty() {
            let [come, go] = [come, go].map(|names| name_some(&names));
            tracing::info!(inventory, zones = zones.len(), come, go, "reverse zones follow the inventory");
        }
    }
    let told: HashSet<&Unmade> = old.listed.unmade.iter().collect();
    for Unmade { zone, inventory } in config.listed.unmade.iter().filter(|unmade| !told.contains(unmade)).take(TOLD) {
        tracing::warn!(%zone, inventory, "a reverse zone is not made; the configuration or another inventory has it");
    }
}

/// The zones that one state has and another one lacks, in canonical order.
fn missing_in<'z>(lacking: &ListedZones, having: &'z ListedZones) -> Vec<&'z Name> {
    let mut zones: Vec<&Name> = having.zones.keys().filter(|zone| !lacking.zones.contains_key(*zone)).collect();
    zones.sort_by(|one, other| one.canonical_cmp(other));
    zones
}

/// Some names and how many more there are; "none" without any.
fn name_some(names: &[&Name]) -> String {
    let some: Vec<String> = names.iter().take(NAMED).map(|name| name.to_string()).collect();
    match names.len().saturating_sub(NAMED) {
        _ if names.is_empty() => "none".to_owned(),
        0 => some.join(", "),
        more => format!("{} and {more} more", some.join(", ")),
    }
}
