//! The keeper's catalog zone: a list of everything that is kept, with a history of its own.
//!
//! Its serial is the time of its last change, or one further than the last (`crate::catalog`).
//!
//! Cost: O(zones) for a plan.

use super::Keeper;
use crate::catalog::{self, CatalogPlan};
use crate::metrics::unix_seconds;
use crate::zone::{Cause, Delta, History, HistoryStep, Zone};
use std::sync::Arc;
use std::time::SystemTime;
use wire::name::Name;

/// The catalog zone.
pub(super) struct KeptCatalog {
    pub plan: CatalogPlan,
    pub zone: Arc<Zone>,
    pub history: History,
}

impl Keeper {
    /// The catalog of everything that is kept.
    pub(super) fn list(&self, plan: CatalogPlan) -> KeptCatalog {
        let sources = self.sources.keys().filter(|zone| !self.hidden.contains(*zone));
        let members: Vec<Name> = sources.chain(self.regions.keys()).cloned().collect();
        let before = self.catalog.as_ref().filter(|kept| kept.plan.origin == plan.origin);
        let saved = self.seen_serials.get(&plan.origin).map(|seen| seen.last);
        let last = before.map(|kept| kept.zone.soa.serial).or(saved);
        if let (Some(kept), Some(last)) = (before, last) {
            let same = catalog::build(&plan, &members, last, Some(&kept.zone));
            if same.touched.is_empty() {
                return KeptCatalog { plan, zone: kept.zone.clone(), history: kept.history.clone() };
            }
        }
        let serial = catalog::next_serial(last, unix_seconds(SystemTime::now()).max(0).cast_unsigned());
        let loaded = catalog::build(&plan, &members, serial, before.map(|kept| &*kept.zone));
        let mut history = before.map_or_else(History::default, |kept| kept.history.clone());
        if let Some(kept) = before {
            let delta = Arc::new(Delta::between(&kept.zone, &loaded.zone, loaded.touched));
            history.push(HistoryStep::new(delta, SystemTime::now(), [Cause::Configuration]), &self.history);
        } else {
            history.begin(SystemTime::now());
        }
        KeptCatalog { plan, zone: Arc::new(loaded.zone), history }
    }
}
