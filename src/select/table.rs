//! Selections of one version of a zone, by owner.
//!
//! Cost: O(log owners) for a look-up and for a change, O(1) for a copy.

use super::Selection;
use crate::zone::Large;
use imbl::HashMap;
use std::sync::Arc;
use wire::rr::Set;

/// What the windows of a zone's large sets are made of.
#[derive(Clone, Debug)]
pub struct Selections {
    /// Number of records above which some set may be cut.
    above: u32,
    /// By the labels of the owner in front of the origin.
    entries: HashMap<Arc<[u8]>, Arc<[Selection]>>,
    /// Sets over each limit, of which no answer is.
    kept: Large,
}

impl Default for Selections {
    /// Those of a zone that is answered with whole sets.
    fn default() -> Selections {
        Selections::new(u32::MAX)
    }
}

impl Selections {
    /// Those of a zone in which no set has more records.
    pub fn new(above: u32) -> Selections {
        Selections { above, entries: HashMap::new(), kept: Large::default() }
    }

    /// Returns true if a set of so many records may be cut.
    #[inline]
    pub fn may_cut(&self, records: u32) -> bool {
        records > self.above
    }

    /// Returns true if any law may cut a set.
    pub fn has_limit(&self) -> bool {
        self.above < u32::MAX
    }

    /// Returns true if no set is cut.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// What the windows of a set are made of, if it is cut; `labels` are those of its owner in front of the origin.
    pub fn find(&self, labels: &[u8], set: Set<'_>) -> Option<&Selection> {
        self.entries.get(labels)?.iter().find(|selection| selection.is_of(set))
    }

    /// Replaces the selections of an owner.
    pub fn set(&mut self, labels: &[u8], selections: Vec<Selection>) {
        let kept = |selections: &[Selection]| {
            selections.iter().fold(Large::default(), |all, selection| all.with(selection.kept(labels.len())))
        };
        self.kept = self.kept.with(kept(&selections));
        let before = match selections.is_empty() {
            true => self.entries.remove(labels),
            false => self.entries.insert(labels.into(), selections.into()),
        };
        self.kept = self.kept.without(before.map_or_else(Large::default, |before| kept(&before)));
    }

    /// Numbers of sets over each limit, of which no answer is.
    pub fn kept(&self) -> Large {
        self.kept
    }

    /// Iterates over the selections with the labels of their owners, in no order.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], &[Selection])> {
        self.entries.iter().map(|(labels, selections)| (&**labels, &**selections))
    }
}
