//! The trees that zones were made of, as far as is needed to see that another one has come in its place.
//!
//! A task ends with a reload, and the process at a restart; what was served is served on, and must be compared with
//! what it was made of. So this is kept here, and on disk as far as there is a state folder.
//!
//! Cost: O(trees) for each version of a tree's zone.

use crate::state::{NewFacts, Store, TreeState};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use wire::name::Name;

/// The trees by their forward zones.
#[derive(Default)]
pub struct Roots {
    trees: Mutex<HashMap<Name, TreeState>>,
    store: Option<Arc<Store>>,
}

impl Roots {
    /// Takes what earlier runs have left, and where it is kept from now on.
    pub fn new(store: Option<Arc<Store>>) -> Roots {
        let trees = store.as_ref().map(|store| store.facts.trees.clone()).unwrap_or_default();
        Roots { trees: Mutex::new(trees), store }
    }

    /// The tree that a zone was last made of.
    pub fn get(&self, zone: &Name) -> Option<TreeState> {
        self.trees.lock().unwrap_or_else(PoisonError::into_inner).get(zone).copied()
    }

    /// Notes the tree that a zone is made of from now on; what is written with the next version of the zone, or before.
    pub fn note(&self, zone: &Name, tree: TreeState) {
        let mut trees = self.trees.lock().unwrap_or_else(PoisonError::into_inner);
        if trees.insert(zone.clone(), tree) != Some(tree)
            && let Some(store) = &self.store
        {
            store.save(NewFacts { trees: Some(trees.clone()), ..NewFacts::default() });
        }
    }
}
