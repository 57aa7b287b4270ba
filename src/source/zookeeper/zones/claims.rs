//! Claims of nodes to one thing, an owner name or an address; nearly always one node claims it.
//!
//! Cost: O(log claimants) for each change; one claimant needs no memory of its own.

use std::collections::BTreeSet;
use std::collections::HashMap;
use std::hash::Hash;

/// The number of a node in its tree.
pub type Id = u32;

/// The nodes that want the same thing; never none.
#[derive(Debug)]
pub enum Claims {
    One(Id),
    Many(BTreeSet<Id>),
}

impl Claims {
    /// Iterates over the claimants.
    pub fn iter(&self) -> impl Iterator<Item = Id> {
        let (one, many) = match self {
            Claims::One(id) => (Some(*id), None),
            Claims::Many(ids) => (None, Some(ids)),
        };
        one.into_iter().chain(many.into_iter().flatten().copied())
    }
}

/// Adds a claim.
pub fn insert<K: Hash + Eq>(table: &mut HashMap<K, Claims>, key: K, id: Id) {
    match table.get_mut(&key) {
        None => {
            table.insert(key, Claims::One(id));
        }
        Some(claims @ Claims::One(_)) => *claims = Claims::Many(claims.iter().chain([id]).collect()),
        Some(Claims::Many(ids)) => {
            ids.insert(id);
        }
    }
}

/// Takes a claim back.
pub fn remove<K: Hash + Eq>(table: &mut HashMap<K, Claims>, key: &K, id: Id) {
    let Some(claims) = table.get_mut(key) else { return };
    match claims {
        Claims::One(only) if *only == id => {
            table.remove(key);
        }
        Claims::One(_) => {}
        Claims::Many(ids) => {
            ids.remove(&id);
            if let (1, Some(last)) = (ids.len(), ids.first().copied()) {
                *claims = Claims::One(last);
            }
        }
    }
}
