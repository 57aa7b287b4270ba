//! Selections of the zones whose answers have laws, made anew for each version that is published.
//!
//! Cost: O(zones with a law) for a publication, and for each whose version or members have changed what
//! [`Selected::new`] costs.

use super::Keeper;
use crate::merge::{Members, Selected};
use std::collections::HashMap;

impl Keeper {
    /// Makes the selections of the versions that are to be published.
    pub(super) fn select(&mut self) {
        let mut all = HashMap::with_capacity(self.answers.len());
        for (name, plan) in &self.answers {
            let kept = self.regions.get(name);
            let source = self.sources.get(name).and_then(|source| source.zone.as_ref());
            let Some(zone) = kept.map_or(source, |kept| kept.served()) else { continue };
            let members = || kept.iter().flat_map(|kept| &kept.intakes).map(|intake| intake.zone());
            let selected = match self.selected.remove(name) {
                Some(before) if before.is_of(plan, zone, members()) => before,
                before => {
                    let members: Box<Members> = members().map(|zone| zone.cloned()).collect();
                    Selected::new(before, plan, zone, kept.map(|kept| &kept.region.plan), members)
                }
            };
            all.insert(name.clone(), selected);
        }
        self.selected = all;
    }
}
