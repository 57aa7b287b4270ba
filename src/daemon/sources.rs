//! Sources of all zones, of every kind, in one map.
//!
//! Invariants: every zone of the configuration that comes from elsewhere has its source; the zones of one tree share
//! one; a source whose plan has changed is gone before its successor begins.
//!
//! Cost: O(zones).

use crate::config::Config;
use crate::keeper;
use crate::metrics::Metrics;
use crate::publish::{Published, Publisher};
use crate::source::static_zone::{self, StaticZoneStatus};
use crate::source::zookeeper::roots::Roots;
use crate::source::zookeeper::{self, TreePlan, TreeStatus};
use crate::source::{Update, Wake};
use crate::state::Restored;
use crate::static_zone::StaticZonePlan;
use crate::transfer::queue::polls_at_once;
use crate::transfer::silence::Times;
use crate::transfer::{self, Common, ZonePlan};
use serde::Serialize;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::mpsc;
use wire::name::Name;

/// Source of one zone.
pub enum Source {
    Primaries(Box<transfer::Source>),
    /// The forward zone of the tree, or one of its reverse zones.
    Tree(Arc<zookeeper::Source>),
    /// The configuration itself.
    Services(Box<static_zone::Source>),
}

impl Source {
    /// Asks the source to act.
    pub fn wake(&self, wake: Wake) {
        match self {
            Source::Primaries(source) => source.wake(wake),
            Source::Tree(source) => source.wake(wake),
            Source::Services(source) => source.wake(wake),
        }
    }

    /// Takes an announcement of a change (NOTIFY) from an address.
    pub fn announce(&self, peer: IpAddr) {
        match self {
            Source::Primaries(source) => source.announce(peer),
            // Nobody may announce the others.
            Source::Tree(_) | Source::Services(_) => {}
        }
    }

    /// Returns the status of the source.
    pub fn status(&self) -> SourceStatus {
        match self {
            Source::Primaries(source) => SourceStatus::Primaries(Box::new(source.status())),
            Source::Tree(source) => SourceStatus::Tree(Box::new(source.status())),
            Source::Services(source) => SourceStatus::Services(source.status()),
        }
    }

    /// The zone by which the source is known: that of a tree is its forward zone.
    pub fn main_zone(&self) -> &Name {
        match self {
            Source::Primaries(source) => &source.plan().zone,
            Source::Tree(source) => source.plan().zone(),
            Source::Services(source) => &source.plan().zone,
        }
    }

    /// The tree, if the zone comes from one.
    pub fn tree(&self) -> Option<&Arc<zookeeper::Source>> {
        match self {
            Source::Primaries(_) | Source::Services(_) => None,
            Source::Tree(source) => Some(source),
        }
    }

    /// Returns true if this source transfers a zone exactly as planned.
    fn transfers(&self, plan: &ZonePlan) -> bool {
        matches!(self, Source::Primaries(source) if source.plan() == plan)
    }

    /// Returns true if this source mirrors a tree exactly as planned.
    fn mirrors(&self, plan: &TreePlan) -> bool {
        self.tree().is_some_and(|source| source.plan() == plan)
    }

    /// Returns true if this source has exactly the records of a plan.
    fn holds(&self, plan: &StaticZonePlan) -> bool {
        matches!(self, Source::Services(source) if source.plan() == plan)
    }
}

/// Status of a zone's source.
#[derive(Clone, Debug, Serialize)]
#[serde(untagged)]
pub enum SourceStatus {
    Primaries(Box<transfer::Status>),
    Tree(Box<TreeStatus>),
    Services(StaticZoneStatus),
}

impl SourceStatus {
    /// Returns true if a new version of the zone is refused because memory has no room for it. For a tree, only its
    /// forward zone says so.
    pub fn is_out_of_memory(&self, zone: &Name) -> bool {
        let is_memory = |reason: Option<&str>| reason == Some("memory");
        match self {
            SourceStatus::Primaries(source) => source.primaries.iter().any(|primary| is_memory(primary.reason)),
            SourceStatus::Tree(source) => source.tree == *zone && is_memory(source.reason),
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
}

impl Sources {
    /// No sources yet. Must be called within a tokio runtime.
    pub fn start(metrics: Arc<Metrics>) -> Sources {
        Sources { by_zone: Arc::default(), common: Common::start(Times::default(), metrics) }
    }

    /// The sources, for a moment.
    pub fn lock(&self) -> MutexGuard<'_, HashMap<Name, Source>> {
        self.by_zone.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The zones by which sources are known, each source once.
    pub fn main_zones(&self) -> Vec<Name> {
        self.lock().iter().filter(|(zone, source)| source.main_zone() == *zone).map(|(zone, _)| zone.clone()).collect()
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
        let differs = |zone: &Name, is_same: &dyn Fn(&Source) -> bool| {
            sources.get(zone).is_some_and(|source| !is_same(source)).then(|| zone.clone())
        };
        let zones = config.zones.iter().filter_map(|plan| differs(&plan.zone, &|source| source.transfers(plan)));
        let trees = config.trees.iter().filter_map(|plan| differs(plan.zone(), &|source| source.mirrors(plan)));
        let own = config.services.iter().filter_map(|plan| differs(&plan.zone, &|source| source.holds(plan)));
        zones.chain(trees).chain(own).collect()
    }

    /// Starts the sources of a configuration; those whose plan is the same go on as they are.
    pub fn replace(
        &self,
        config: &Config,
        keeper: &keeper::Handle,
        publisher: &Arc<Publisher>,
        metrics: &Arc<Metrics>,
        roots: &Arc<Roots>,
    ) {
        self.common.turns.set_polls_at_once(polls_at_once(config.primary_addresses().len()));
        let mut sources = self.lock();
        let mut old = std::mem::take(&mut *sources);
        let mut kept_trees = HashMap::new();
        for plan in &config.trees {
            let previous = old.get(plan.zone()).filter(|source| source.mirrors(plan));
            kept_trees.extend(previous.and_then(Source::tree).map(|tree| (plan.zone(), tree.clone())));
        }
        for plan in &config.zones {
            let previous = old.remove(&plan.zone);
            let was_there = previous.is_some();
            // The old source is gone before its series are, so that it cannot bring them back.
            let source = previous.filter(|source| source.transfers(plan)).unwrap_or_else(|| {
                if was_there {
                    let primaries: Vec<_> = plan.primaries.iter().map(|primary| primary.address.to_string()).collect();
                    metrics.keep_primaries(&plan.zone.to_string(), &primaries);
                    metrics.forget_tree(&plan.zone.to_string());
                }
                let updates = keeper.updates.clone();
                let (common, budget) = (self.common.clone(), keeper.budget.clone());
                let source = transfer::start(plan.clone(), updates, publisher.clone(), metrics.clone(), common, budget);
                Source::Primaries(Box::new(source))
            });
            sources.insert(plan.zone.clone(), source);
        }
        for plan in &config.services {
            let previous = old.remove(&plan.zone);
            let was_there = previous.is_some();
            let source = previous.filter(|source| source.holds(plan)).unwrap_or_else(|| {
                if was_there {
                    metrics.keep_primaries(&plan.zone.to_string(), &[]);
                    metrics.forget_tree(&plan.zone.to_string());
                }
                Source::Services(Box::new(static_zone::start(plan.clone())))
            });
            sources.insert(plan.zone.clone(), source);
        }
        // Reverse zones that change hands are let go of by all before anybody begins anew.
        for zone in config.trees.iter().flat_map(TreePlan::all_zones) {
            if old.remove(zone).is_some_and(|source| matches!(source, Source::Primaries(_))) {
                metrics.keep_primaries(&zone.to_string(), &[]);
            }
        }
        for (zone, source) in old {
            drop(source);
            // Until now it could still count attempts for a zone that the keeper had forgotten already.
            if config.regions.iter().any(|region| region.origin == zone) {
                metrics.keep_primaries(&zone.to_string(), &[]);
            } else {
                metrics.forget(&zone.to_string());
            }
        }
        self.common.silences.forget_unused();
        for plan in &config.trees {
            let tree = kept_trees.remove(plan.zone()).unwrap_or_else(|| {
                let updates = keeper.updates.clone();
                let (publisher, metrics, roots) = (publisher.clone(), metrics.clone(), roots.clone());
                let budget = keeper.budget.clone();
                Arc::new(zookeeper::start(plan.clone(), updates, publisher, metrics, roots, budget))
            });
            sources.extend(plan.all_zones().map(|zone| (zone.clone(), Source::Tree(tree.clone()))));
        }
    }
}
