//! Labels and who may use them: two accounts may not share one, nor two instances of an account.
//!
//! Invariants: a label has at most one owner, who claims it; for equal claims and equal former owners the owner is the
//! same, in whatever order the claims came.
//!
//! Cost: O(log claims of the label).

use std::collections::{BTreeSet, HashMap};
use std::hash::Hash;

/// A set that mostly has one element.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Crowd<T> {
    One(T),
    Many(BTreeSet<T>),
}

impl<T: Ord + Clone> Crowd<T> {
    /// Adds an element.
    pub fn add(&mut self, element: T) {
        match self {
            Crowd::One(known) if *known == element => {}
            Crowd::One(known) => *self = Crowd::Many(BTreeSet::from([known.clone(), element])),
            Crowd::Many(all) => {
                all.insert(element);
            }
        }
    }

    /// Removes an element. Returns true if none is left.
    pub fn remove(&mut self, element: &T) -> bool {
        match self {
            Crowd::One(known) => known == element,
            Crowd::Many(all) => {
                all.remove(element);
                all.is_empty()
            }
        }
    }

    /// The elements in order.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        let (one, many) = match self {
            Crowd::One(one) => (Some(one), None),
            Crowd::Many(many) => (None, Some(many)),
        };
        one.into_iter().chain(many.into_iter().flatten())
    }

    /// Number of elements.
    pub fn count(&self) -> usize {
        match self {
            Crowd::One(_) => 1,
            Crowd::Many(all) => all.len(),
        }
    }
}

/// Claims of `C` to labels `L`.
#[derive(Debug)]
pub struct Claims<L, C> {
    claims: HashMap<L, Crowd<C>>,
    /// Number of labels with several claims.
    conflicts: usize,
}

impl<L, C> Default for Claims<L, C> {
    fn default() -> Claims<L, C> {
        Claims { claims: HashMap::new(), conflicts: 0 }
    }
}

impl<L: Eq + Hash, C: Ord + Clone> Claims<L, C> {
    /// Adds a claim.
    pub fn add(&mut self, label: L, claimant: C) {
        match self.claims.get_mut(&label) {
            Some(crowd) => {
                let before = crowd.count();
                crowd.add(claimant);
                self.conflicts += usize::from(before == 1 && crowd.count() > 1);
            }
            None => {
                self.claims.insert(label, Crowd::One(claimant));
            }
        }
    }

    /// Removes a claim.
    pub fn remove(&mut self, label: &L, claimant: &C) {
        let Some(crowd) = self.claims.get_mut(label) else { return };
        let before = crowd.count();
        if crowd.remove(claimant) {
            self.claims.remove(label);
        } else {
            self.conflicts -= usize::from(before > 1 && crowd.count() == 1);
        }
    }

    /// The claims to a label, in order.
    pub fn of<'c>(&'c self, label: &L) -> impl Iterator<Item = &'c C> + use<'c, L, C> {
        self.claims.get(label).into_iter().flat_map(Crowd::iter)
    }

    /// Number of labels with several claims.
    pub fn conflicts(&self) -> usize {
        self.conflicts
    }
}
