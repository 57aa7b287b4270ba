//! Model of the status of everything: what the keeper, the sources and the ways out know, together.
//!
//! `--json` and the API write it as it is; `status` and the pages make text and HTML of it.
//!
//! Cost: O(zones + members of all regions).

use super::Handle;
use super::outward::{self, Outward, newest};
use super::page::parts::size;
use super::rates::{QueryRates, Range};
use super::sizes::SizesReport;
use super::steering::SteeringReport;
use crate::budget::Usage;
use crate::config::Config;
use crate::daemon::probe::ProbeReport;
use crate::daemon::sources::SourceStatus;
use crate::keeper::{DrainStatus, RegionStatus, ZoneStatus};
use crate::metrics::unix_seconds;
use crate::publish::Published;
use crate::rate_limit::Episode;
use crate::restart::panics;
use crate::schedule::next_run;
use crate::state::StateStatus;
use crate::transfer;
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::HashMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::time::Instant;
use wire::name::Name;
use wire::serial::Serial;

/// Status of all zones or some.
#[derive(Serialize, JsonSchema)]
pub struct Report {
    pub version: &'static str,
    pub uptime_seconds: u64,
    pub config: String,
    /// Time of the next full audit.
    pub next_audit: Option<i64>,
    /// Number of publications.
    pub generation: u64,
    /// Time since the keeper began what it works on, in seconds; 0 while it has nothing to do.
    pub keeper_busy_seconds: u64,
    /// Panics of threads and tasks since the start.
    pub panics: u64,
    /// State of the folder that outlives the process.
    pub state: StateReport,
    pub memory: MemoryReport,
    pub regions: Vec<RegionReport>,
    /// Drains in force.
    pub drains: Vec<DrainStatus>,
    pub zones: Vec<ZoneReport>,
    pub catalog: Option<CatalogReport>,
    pub queries: QueryRates,
    /// Networks whose responses over UDP are over the rate limit at present, 64 at most.
    pub rate_limited: Vec<Episode>,
    /// Results of the checks of name servers, for zones that have been checked.
    pub name_servers: Vec<ProbeReport>,
}

/// The folder that outlives the process, and keeps zones over a restart.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "StateFolder")]
pub struct StateReport {
    /// Path of the folder; none if it is switched off.
    pub folder: Option<PathBuf>,
    /// True if everything that should be on disk is written.
    pub healthy: bool,
    pub error: Option<String>,
    /// Bytes of all files of zones.
    pub bytes: u64,
    pub last_written: Option<i64>,
}

impl StateReport {
    /// Describes the configured folder, and the store that was opened in it, if one was.
    fn new(wanted: Option<&Path>, store: Option<StateStatus>) -> StateReport {
        match (store, wanted) {
            (Some(status), _) => StateReport {
                folder: Some(status.folder),
                healthy: status.healthy,
                error: status.error,
                bytes: status.bytes,
                last_written: status.last_written.map(unix_seconds),
            },
            (None, wanted) => StateReport {
                folder: wanted.map(Path::to_path_buf),
                healthy: wanted.is_none(),
                error: wanted.map(|_| "not in use since the start; the log says why".to_owned()),
                bytes: 0,
                last_written: None,
            },
        }
    }

    /// Describes the folder in one line.
    pub fn describe(&self) -> String {
        let Some(folder) = &self.folder else { return "state folder off: a restart begins without zones".to_owned() };
        let folder = folder.display();
        match &self.error {
            Some(error) => format!("state folder {folder}: {error}; a restart would begin with older zones"),
            None => format!("state folder {folder}, {}", size(self.bytes)),
        }
    }
}

/// The budget of memory, and what is taken of it, in octets.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Memory")]
pub struct MemoryReport {
    /// Octets of all parts together.
    pub used: u64,
    #[serde(flatten)]
    pub usage: Usage,
    /// Zones with a new version that is refused because memory has no room for it.
    pub refused: Vec<Name>,
}

impl MemoryReport {
    /// Combines the usage of the budget with the zones that sources could not take in.
    fn new(usage: Usage, sources: &HashMap<Name, SourceStatus>) -> MemoryReport {
        let refused = sources.iter().filter(|(zone, source)| source.is_out_of_memory(zone));
        let mut refused: Vec<Name> = refused.map(|(zone, _)| zone.clone()).collect();
        refused.sort_by(Name::canonical_cmp);
        MemoryReport { used: usage.octets(), usage, refused }
    }

    /// Describes the use of memory in one line.
    pub fn describe(&self) -> String {
        let (used, budget) = (size(self.used), size(self.usage.budget));
        let mut text = format!("memory {used} of {budget}");
        if !self.refused.is_empty() {
            let zones: Vec<String> = self.refused.iter().map(Name::to_string).collect();
            _ = write!(text, "; no room for a new version of {}", zones.join(", "));
        }
        text
    }
}

/// A source zone.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Zone")]
pub struct ZoneReport {
    #[serde(flatten)]
    pub kept: ZoneStatus,
    pub sizes: SizesReport,
    pub source: Option<SourceStatus>,
    /// The catalog of a primary that lists the zone, if it is served for that.
    pub listed_by: Option<Name>,
    /// What the zone lists, if it is such a catalog.
    pub lists: Option<ListsReport>,
    #[serde(flatten)]
    pub outward: Outward,
}

/// What a catalog of a primary lists.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(rename = "Lists")]
pub struct ListsReport {
    /// Number of zones that are served because it lists them.
    pub zones: usize,
    /// Zones that it lists in vain.
    pub refused: Vec<RefusedReport>,
}

/// A zone that a catalog lists in vain.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(rename = "RefusedZone")]
pub struct RefusedReport {
    pub zone: Name,
    pub reason: String,
}

impl ListsReport {
    /// What the catalogs of a configuration list that are wanted. O(zones) if any is.
    fn of(config: &Config, wanted: &dyn Fn(&Name) -> bool) -> HashMap<Name, ListsReport> {
        let catalogs = config.catalogs.iter().map(|source| &source.way.zone).filter(|zone| wanted(zone));
        let mut lists: HashMap<Name, ListsReport> =
            catalogs.map(|zone| (zone.clone(), ListsReport { zones: 0, refused: Vec::new() })).collect();
        if lists.is_empty() {
            return lists;
        }
        for listed in config.listed.zones.values() {
            lists.entry(listed.catalog.clone()).and_modify(|lists| lists.zones += 1);
        }
        for refused in &config.listed.refused {
            let told = RefusedReport { zone: refused.zone.clone(), reason: refused.reason.to_string() };
            lists.entry(refused.catalog.clone()).and_modify(|lists| lists.refused.push(told));
        }
        lists
    }
}

impl ZoneReport {
    /// Returns the status of the zone's transfers; none for a zone that is not transferred.
    pub fn transfers(&self) -> Option<&transfer::Status> {
        match &self.source {
            Some(SourceStatus::Primaries(source)) => Some(source),
            _ => None,
        }
    }

    /// Returns true unless no primary of the zone answers, so that nobody knows what is new there.
    pub fn is_heard(&self) -> bool {
        let failing = |source: &transfer::Status| source.primaries.iter().all(|primary| primary.failures > 0);
        self.transfers().is_none_or(|source| source.primaries.is_empty() || !failing(source))
    }

    /// Returns the newest serial of the zone's primaries.
    pub fn newest_at_primary(&self) -> Option<Serial> {
        newest(self.transfers()?.primaries.iter().filter_map(|primary| primary.announced))
    }
}

/// A region: members, united.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Region")]
pub struct RegionReport {
    #[serde(flatten)]
    pub kept: RegionStatus,
    pub sizes: SizesReport,
    /// How its clients are steered; none if they are not.
    pub steering: Option<SteeringReport>,
    #[serde(flatten)]
    pub outward: Outward,
}

/// The catalog zone.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Catalog")]
pub struct CatalogReport {
    pub zone: Name,
    pub serial: Option<Serial>,
    pub records: u64,
    #[serde(flatten)]
    pub outward: Outward,
}

impl CatalogReport {
    /// Looks at the catalog as it is published.
    fn new(origin: &Name, published: &Published, outward: Outward) -> CatalogReport {
        let zone = published.get(origin).and_then(|served| served.zone.clone());
        CatalogReport {
            zone: origin.clone(),
            serial: zone.as_ref().map(|zone| zone.soa.serial),
            records: zone.as_ref().map_or(0, |zone| zone.records),
            outward,
        }
    }
}

impl Report {
    /// Collects the status of all zones, or of one zone or region.
    pub fn collect(view: &Handle, only: Option<&Name>) -> Report {
        Report::gather(view, &|_| true, &|name| only.is_none_or(|only| only == name))
    }

    /// Collects the status of some zones and regions. Of what concerns all of them it has as much as these tell.
    pub fn collect_some(view: &Handle, wanted: &dyn Fn(&Name) -> bool) -> Report {
        Report::gather(view, wanted, wanted)
    }

    /// Collects the status of what is wanted, and asks the sources of these zones for theirs.
    fn gather(view: &Handle, of_sources: &dyn Fn(&Name) -> bool, wanted: &dyn Fn(&Name) -> bool) -> Report {
        let (snapshot, config) = (view.snapshots.load_full(), view.config.load());
        let published = &snapshot.published;
        let sources = view.sources.lock();
        let asked = sources.iter().filter(|(name, _)| of_sources(name));
        let mut statuses: HashMap<Name, SourceStatus> =
            asked.map(|(name, source)| (name.clone(), source.status())).collect();
        drop(sources);
        let mut outward = outward::gather(published, &view.notifier, &view.metrics, &statuses, wanted);
        let kept = snapshot.status_of(Instant::now(), wanted);
        let memory = MemoryReport::new(view.budget.usage(), &statuses);
        let mut outward = |name: &Name| outward.remove(name).unwrap_or_default();
        let sizes = |name: &Name| SizesReport::of(published, name);
        let region = |kept: RegionStatus| {
            let name = &kept.region;
            let steering = SteeringReport::of(&snapshot, name);
            RegionReport { sizes: sizes(name), steering, outward: outward(name), kept }
        };
        let regions = kept.regions.into_iter().map(region).collect();
        let mut drains = kept.drains;
        drains.retain(|drain| drain.regions.iter().any(wanted) || wanted(&drain.target.member));
        let mut lists = ListsReport::of(&config, wanted);
        let zone = |kept: ZoneStatus| {
            let name = &kept.zone;
            let listed_by = config.listed.zones.get(name).map(|listed| listed.catalog.clone());
            let (source, lists) = (statuses.remove(name), lists.remove(name));
            ZoneReport { sizes: sizes(name), source, listed_by, lists, outward: outward(name), kept }
        };
        let zones = kept.zones.into_iter().map(zone).collect();
        let catalog = config.catalog.as_ref().map(|plan| &plan.origin).filter(|origin| wanted(origin));
        let mut name_servers = view.probed.report(None);
        name_servers.retain(|report| wanted(&report.check.zone));
        Report {
            version: env!("CARGO_PKG_VERSION"),
            uptime_seconds: view.started.elapsed().as_secs(),
            config: config.path.display().to_string(),
            next_audit: config.audit.as_deref().and_then(next_run).map(unix_seconds),
            generation: published.generation,
            keeper_busy_seconds: view.pulse.busy().as_secs(),
            panics: panics(),
            state: StateReport::new(config.state.as_deref(), view.store.as_ref().map(|store| store.status())),
            memory,
            regions,
            drains,
            zones,
            catalog: catalog.map(|origin| CatalogReport::new(origin, published, outward(origin))),
            queries: view.rates.read(Range::Minutes).rates,
            rate_limited: view.limiter.current(),
            name_servers,
        }
    }

    /// Returns true if there is no zone, region or catalog to show.
    pub fn is_empty(&self) -> bool {
        self.zones.is_empty() && self.regions.is_empty() && self.catalog.is_none()
    }

    /// Returns the drains of a region.
    pub fn drains_in(&self, region: &Name) -> impl Iterator<Item = &DrainStatus> {
        self.drains.iter().filter(move |drain| drain.regions.contains(region))
    }

    /// Faults of a zone's name servers.
    pub fn faults_of(&self, zone: &Name) -> usize {
        self.name_servers.iter().find(|report| report.check.zone == *zone).map_or(0, ProbeReport::faults)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_state_folder_is_told() {
        let off = StateReport::new(None, None);
        assert!(off.healthy && off.describe().starts_with("state folder off"));
        let failed = StateReport::new(Some("/s".as_ref()), None);
        assert!(!failed.healthy && failed.describe().starts_with("state folder /s: not in use"));
        let status = |error: Option<&str>| StateStatus {
            folder: "/s".into(),
            healthy: error.is_none(),
            error: error.map(str::to_owned),
            bytes: 3 << 20,
            last_written: None,
        };
        let told = |error| StateReport::new(Some("/other".as_ref()), Some(status(error))).describe();
        assert_eq!(told(None), "state folder /s, 3.00 MiB");
        assert_eq!(told(Some("disk full")), "state folder /s: disk full; a restart would begin with older zones");
    }
}
