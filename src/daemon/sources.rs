//! Sources of all zones, of every kind, in one map.
//!
//! A kind of source has its variant in [`Source`], [`SourcePlan`] and [`SourceStatus`]; the map knows no kinds.
//!
//! Invariants: every zone of the configuration that comes from elsewhere has its source; the zones of one tree or
//! inventory share one; a source whose plan has changed is gone before its successor begins, unless it can go on
//! with the new one.
//!
//! Cost: O(zones).

use crate::config::Config;
use crate::config::automatic::Asked;
use crate::keeper::{self, Lifetime};
use crate::metrics::{Metrics, TransferCounts};
use crate::publish::{Published, Publisher};
use crate::source::inventory::depot::Depot;
use crate::source::inventory::{self, InventoryPlan, InventoryStatus, Mirrored};
use crate::source::shell::{Facilities, Handle};
use crate::source::static_zone::{self, Configured, StaticZoneStatus};
use crate::source::zookeeper::roots::Roots;
use crate::source::zookeeper::{self, MirroredTree, TreePlan, TreeStatus};
use crate::source::{Update, Wake};
use crate::state::Restored;
use crate::static_zone::StaticZonePlan;
use crate::transfer::queue::polls_at_once;
use crate::transfer::silence::Times;
use crate::transfer::{self, Common, Primaries, ZonePlan};
use parking_lot::{Mutex, MutexGuard};
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::{HashMap, HashSet};
use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;
use tokio::sync::{mpsc, watch};
use wire::name::Name;

/// Source of one zone.
#[derive(Clone)]
pub enum Source {
    Primaries(Arc<Handle<Primaries>>),
    /// The forward zone of the tree, or one of its reverse zones.
    Tree(Arc<Handle<MirroredTree>>),
    /// A forward zone or reverse zone of the inventory.
    Inventory(Arc<Handle<Mirrored>>),
    /// The configuration itself.
    Services(Arc<Handle<Configured>>),
}

impl Source {
    /// Asks the source to act.
    pub fn wake(&self, wake: Wake) {
        match self {
            Source::Primaries(source) => source.wake(wake),
            Source::Tree(source) => source.wake(wake),
            Source::Inventory(source) => source.wake(wake),
            Source::Services(source) => source.wake(wake),
        }
    }

    /// Takes an announcement of a change (NOTIFY) from an address.
    pub fn announce(&self, peer: IpAddr) {
        match self {
            Source::Primaries(source) => source.announce(peer),
            // Nobody may announce the others.
            Source::Tree(_) | Source::Inventory(_) | Source::Services(_) => {}
        }
    }

    /// Returns the status of the source.
    pub fn status(&self) -> SourceStatus {
        match self {
            Source::Primaries(source) => SourceStatus::Primaries(Box::new(source.status())),
            Source::Tree(source) => SourceStatus::Tree(Box::new(source.status())),
            Source::Inventory(source) => SourceStatus::Inventory(Box::new(source.status())),
            Source::Services(source) => SourceStatus::Services(source.status()),
        }
    }

    /// Goes on with a plan that continues the one that it follows.
    fn go_on(&self, plan: SourcePlan<'_>) {
        if let (Source::Inventory(source), SourcePlan::Inventory(plan)) = (self, plan) {
            source.go_on(plan);
        }
    }

    /// Returns true if the source can follow a plan without a new task.
    fn follows(&self, plan: SourcePlan<'_>) -> bool {
        match (self, plan) {
            (Source::Inventory(source), SourcePlan::Inventory(plan)) => plan.continues(&source.present_plan()),
            _ => self.plan() == plan,
        }
    }

    /// Returns what the source follows.
    fn plan(&self) -> SourcePlan<'_> {
        match self {
            Source::Primaries(source) => SourcePlan::Primaries(source.plan()),
            Source::Tree(source) => SourcePlan::Tree(source.plan()),
            Source::Inventory(source) => SourcePlan::Inventory(source.plan()),
            Source::Services(source) => SourcePlan::Services(source.plan()),
        }
    }
}

/// Plan of a source.
#[derive(Clone, Copy, PartialEq)]
pub enum SourcePlan<'p> {
    Primaries(&'p ZonePlan),
    Tree(&'p TreePlan),
    Inventory(&'p InventoryPlan),
    Services(&'p StaticZonePlan),
}

impl<'p> SourcePlan<'p> {
    /// Returns the plans of all sources of a configuration.
    pub fn all(config: &'p Config) -> impl Iterator<Item = SourcePlan<'p>> {
        let zones = config.transferred().map(SourcePlan::Primaries);
        let made = config.trees.iter().map(SourcePlan::Tree);
        let made = made.chain(config.inventories.iter().map(SourcePlan::Inventory));
        zones.chain(made).chain(config.services.iter().map(SourcePlan::Services))
    }

    /// Returns the zone by which the source is known, and the others that it feeds.
    fn names(self) -> (&'p Name, Vec<&'p Name>) {
        match self {
            SourcePlan::Primaries(plan) => (&plan.zone, Vec::new()),
            SourcePlan::Tree(plan) => (plan.zone(), plan.zones.reverse.iter().collect()),
            SourcePlan::Inventory(plan) => (plan.main_zone(), plan.zones().skip(1).collect()),
            SourcePlan::Services(plan) => (&plan.zone, Vec::new()),
        }
    }

    /// Returns the zone by which the source is known: that of a tree or an inventory is its first forward zone.
    fn main_zone(self) -> &'p Name {
        self.names().0
    }

    /// Returns all zones that the source feeds.
    pub fn zones(self) -> impl Iterator<Item = &'p Name> {
        let (main, others) = self.names();
        std::iter::once(main).chain(others)
    }

    /// Returns how long zones live without news of the source. Those of a tree or an inventory live as long as they are told to,
    /// whatever bounds there are for those of others.
    pub fn lifetime(self) -> Lifetime {
        match self {
            SourcePlan::Primaries(plan) => {
                Lifetime { shortest: plan.timers.expire_min, longest: plan.timers.expire_max }
            }
            SourcePlan::Tree(plan) => Lifetime { shortest: plan.serve_stale, longest: plan.serve_stale },
            SourcePlan::Inventory(plan) => Lifetime { shortest: plan.serve_stale, longest: plan.serve_stale },
            SourcePlan::Services(_) => Lifetime::UNLIMITED,
        }
    }

    /// Starts the source, which goes on with the counts of the one before it.
    fn start(
        self,
        before: TransferCounts,
        facilities: Facilities,
        common: &Common,
        roots: &Arc<Roots>,
        depot: &Depot,
    ) -> Source {
        match self {
            SourcePlan::Primaries(plan) => {
                let source = transfer::start_after(before, plan.clone(), facilities, common.clone());
                Source::Primaries(Arc::new(source))
            }
            SourcePlan::Tree(plan) => Source::Tree(Arc::new(zookeeper::start(plan.clone(), facilities, roots.clone()))),
            SourcePlan::Inventory(plan) => {
                Source::Inventory(Arc::new(inventory::start(plan.clone(), facilities, depot)))
            }
            SourcePlan::Services(plan) => Source::Services(Arc::new(static_zone::start(plan.clone(), facilities))),
        }
    }

    /// Returns true if a zone of this source can have such a series, which the source before it may have left.
    fn has_series(self, family: &str, primary: Option<&str>) -> bool {
        let is_of_trees = family.starts_with("zookeeper_");
        let is_of_inventories = family.starts_with("inventory_");
        match self {
            SourcePlan::Tree(_) => primary.is_none() && !is_of_inventories,
            SourcePlan::Inventory(_) => primary.is_none() && !is_of_trees,
            _ if is_of_trees || is_of_inventories || family == "memory_refused" => false,
            SourcePlan::Primaries(plan) => {
                let is_kept = |primary: &str| plan.primaries.iter().any(|kept| kept.address.to_string() == primary);
                primary.is_none_or(is_kept)
            }
            SourcePlan::Services(_) => primary.is_none(),
        }
    }
}

/// Status of a zone's source.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum SourceStatus {
    Primaries(Box<transfer::Status>),
    Tree(Box<TreeStatus>),
    Inventory(Box<InventoryStatus>),
    Services(StaticZoneStatus),
}

impl SourceStatus {
    /// Returns true if a new version of the zone is refused because memory has no room for it. For a tree or
    /// an inventory, only its main zone says so.
    pub fn is_out_of_memory(&self, zone: &Name) -> bool {
        let is_memory = |reason: Option<&str>| reason == Some("memory");
        match self {
            SourceStatus::Primaries(source) => source.primaries.iter().any(|primary| is_memory(primary.reason)),
            SourceStatus::Tree(source) => source.tree == *zone && is_memory(source.reason),
            SourceStatus::Inventory(source) => source.main == *zone && is_memory(source.reason),
            SourceStatus::Services(_) => false,
        }
    }
}

/// Returns new versions of the zones that the configuration has itself, made on those that earlier runs and versions
/// left.
pub fn own_news(config: &Config, restored: &HashMap<Name, Restored>, published: &Published) -> Vec<Update> {
    let base = |zone: &Name| {
        let earlier = restored.get(zone).map(|restored| restored.zone.clone());
        published.get(zone).and_then(|served| served.zone.clone()).or(earlier)
    };
    let news = |plan: &StaticZonePlan| static_zone::news(plan, base(&plan.zone));
    config.services.iter().map(|plan| news(plan).expect("the configuration was read with a zone")).collect()
}

/// The sources by zone, which the audit reaches from its own task.
#[derive(Clone)]
pub struct Sources {
    by_zone: Arc<Mutex<HashMap<Name, Source>>>,
    /// Parts that all sources with primaries share.
    common: Common,
    /// What is known of inventories, which outlives their tasks.
    depot: Depot,
}

impl Sources {
    /// No sources yet. Must be called within a tokio runtime.
    pub fn start(metrics: Arc<Metrics>) -> Sources {
        Sources { by_zone: Arc::default(), common: Common::start(Times::default(), metrics), depot: Depot::default() }
    }

    /// Says where inventories are kept over a restart.
    pub fn keep_in(&self, folder: Option<&Path>) {
        self.depot.keep_in(folder);
    }

    /// Changes whenever automatic reverse zones of an inventory have come.
    pub fn automatic_came(&self) -> watch::Receiver<u64> {
        self.depot.came()
    }

    /// The automatic reverse zones that the inventories of a configuration ask for: those that are in force in the
    /// running one stay among them, unless they have emptied and are to be let go. O(automatic zones)
    pub fn automatic_zones(&self, config: &Config, running: &Config, let_go: bool) -> Asked {
        let asked = config.automatic().map(|(name, _)| {
            let mut zones = self.depot.automatic_zones(name, let_go).unwrap_or_default();
            if !(let_go && self.depot.is_complete(name)) {
                zones.extend(
                    running.automatic().filter(|(other, _)| *other == name).flat_map(|(_, zones)| zones).cloned(),
                );
            }
            (name.to_owned(), zones)
        });
        asked.collect()
    }

    /// The sources, for a moment.
    pub fn lock(&self) -> MutexGuard<'_, HashMap<Name, Source>> {
        self.by_zone.lock()
    }

    /// The zones by which sources are known, each source once.
    pub fn main_zones(&self) -> Vec<Name> {
        self.lock()
            .iter()
            .filter(|(zone, source)| source.plan().main_zone() == *zone)
            .map(|(zone, _)| zone.clone())
            .collect()
    }

    /// Wakes the sources of zones that a primary has announced a change of, for as long as there may be more of them.
    pub async fn obey(self, mut announced: mpsc::Receiver<(Name, IpAddr)>) {
        while let Some((zone, peer)) = announced.recv().await {
            if let Some(source) = self.lock().get(&zone) {
                source.announce(peer);
            }
        }
    }

    /// The main zones of a configuration whose source is there and follows another plan.
    pub fn changed(&self, config: &Config) -> Vec<Name> {
        let sources = self.lock();
        let differs = |plan: &SourcePlan| sources.get(plan.main_zone()).is_some_and(|source| !source.follows(*plan));
        SourcePlan::all(config).filter(differs).map(|plan| plan.main_zone().clone()).collect()
    }

    /// Starts the sources of a configuration; those whose plan is the same go on as they are.
    pub fn replace(
        &self,
        config: &Config,
        keeper: &keeper::KeeperHandle,
        publisher: &Arc<Publisher>,
        metrics: &Arc<Metrics>,
        roots: &Arc<Roots>,
    ) {
        self.common.turns.set_polls_at_once(polls_at_once(config.primary_addresses().len()));
        self.common.turns.set_hold_down(config.hold_down);
        let mut sources = self.lock();
        let mut old = std::mem::take(&mut *sources);
        let mut starting = Vec::new();
        for plan in SourcePlan::all(config) {
            match old.get(plan.main_zone()).filter(|source| source.follows(plan)).cloned() {
                Some(source) => {
                    source.go_on(plan);
                    sources.extend(plan.zones().map(|zone| (zone.clone(), source.clone())));
                }
                None => starting.push(plan),
            }
        }
        old.retain(|zone, _| !sources.contains_key(zone));
        let received = |plan: &SourcePlan| match old.get(plan.main_zone()).map(Source::status) {
            Some(SourceStatus::Primaries(source)) => source.received,
            _ => TransferCounts::default(),
        };
        let starting: Vec<(SourcePlan, TransferCounts)> =
            starting.into_iter().map(|plan| (plan, received(&plan))).collect();
        // The old sources are gone before their series are, so that they cannot bring them back.
        let gone: HashSet<String> = old.into_keys().map(|zone| zone.to_string()).collect();
        let feeds: HashMap<String, SourcePlan> =
            starting.iter().flat_map(|(plan, _)| plan.zones().map(|zone| (zone.to_string(), *plan))).collect();
        let regions: HashSet<String> = config.regions.iter().map(|region| region.origin.to_string()).collect();
        metrics.forget(&gone, |family, zone, primary| match feeds.get(zone) {
            Some(plan) => !plan.has_series(family, primary),
            None => primary.is_some() || !regions.contains(zone),
        });
        for (plan, before) in starting {
            let (updates, budget) = (keeper.updates.clone(), keeper.budget.clone());
            let facilities = Facilities { updates, publisher: publisher.clone(), metrics: metrics.clone(), budget };
            let source = plan.start(before, facilities, &self.common, roots, &self.depot);
            sources.extend(plan.zones().map(|zone| (zone.clone(), source.clone())));
        }
        self.common.silences.forget_unused();
        self.depot.retain(|name| config.inventories.iter().any(|plan| plan.name == name));
    }
}
