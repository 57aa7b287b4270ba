//! Automatic reverse zones of inventories, as a part of the configuration in force.
//!
//! The file says that an inventory makes a reverse zone for each /24 and /64 with an address, and how they are served; the
//! inventory which they are. What stands in the file itself is never taken over, and of several inventories the first one
//! in the file has a zone.
//!
//! Invariant: a zone that is in force has its way out (`secondaries`), like any other.
//!
//! Cost: O(automatic zones).

use crate::config::Config;
use crate::config::secondaries::WayOut;
use std::collections::HashMap;
use wire::name::Name;

/// Automatic reverse zones that inventories ask for, by the names of those.
pub type Asked = HashMap<String, Vec<Name>>;

/// How the automatic zones of inventories are served, by the names of those.
pub type AutomaticWays = HashMap<String, WayOut>;

/// An automatic zone that is not made, because the file or another inventory has it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Unmade {
    pub zone: Name,
    pub inventory: String,
}

impl Config {
    /// The automatic zones that are in force, by inventory.
    pub fn automatic(&self) -> impl Iterator<Item = (&str, &[Name])> {
        self.inventories.iter().filter_map(|plan| Some((&plan.name[..], &plan.automatic_zones()?[..])))
    }

    /// Adds the automatic zones that inventories ask for. Returns those that are not made.
    pub(super) fn add_automatic(&mut self, asked: &Asked) -> Vec<Unmade> {
        let mut unmade = Vec::new();
        for index in 0..self.inventories.len() {
            let inventory = self.inventories[index].name.clone();
            let Some(way) = self.automatic_ways.get(&inventory).cloned() else { continue };
            let mut zones = asked.get(&inventory).cloned().unwrap_or_default();
            zones.sort_unstable_by(Name::canonical_cmp);
            zones.dedup();
            zones.retain(|zone| {
                let is_free = !self.has_name(zone);
                if !is_free {
                    unmade.push(Unmade { zone: zone.clone(), inventory: inventory.clone() });
                }
                is_free
            });
            zones.iter().for_each(|zone| self.serve(zone, &way));
            self.inventories[index] = self.inventories[index].with_automatic(zones.into());
        }
        unmade
    }
}
