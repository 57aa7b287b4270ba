//! Selections of one version of a zone, by owner, with what is known of clients.
//!
//! Cost: O(log owners) for a look-up and for a change, O(1) for a copy.

use super::{Orders, Selection};
use crate::zone::Large;
use imbl::HashMap;
use std::sync::Arc;
use wire::rr::Set;

/// What the answers from a zone's sets are made of, where not all are whole sets.
#[derive(Clone, Debug)]
pub struct Selections {
    /// Number of records above which some answer may not be the whole set.
    above: u32,
    /// By the labels of the owner in front of the origin.
    entries: HashMap<Arc<[u8]>, Arc<Entry>>,
    /// Sets over each limit, of which no answer is.
    kept: Large,
    /// Names of which members give addresses of different families.
    uneven: u32,
    /// Which member is how near to whose clients.
    pub orders: Arc<Orders>,
}

/// What is known of one owner.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Entry {
    pub selections: Box<[Selection]>,
    /// True if some members have addresses of one family only, and others of the other: their clients, who may have the
    /// other at home, are then sent far away for it.
    pub is_uneven: bool,
}

impl Default for Selections {
    /// Those of a zone that is answered with whole sets.
    fn default() -> Selections {
        Selections::new(u32::MAX)
    }
}

impl Selections {
    /// Those of a zone in which answers from sets with no more records are whole.
    pub fn new(above: u32) -> Selections {
        Selections { above, entries: HashMap::new(), kept: Large::default(), uneven: 0, orders: Arc::default() }
    }

    /// Returns true if an answer from a set of so many records may have less.
    #[inline]
    pub fn may_cut(&self, records: u32) -> bool {
        records > self.above
    }

    /// Returns true if any answer may have less than the set.
    pub fn has_limit(&self) -> bool {
        self.above < u32::MAX
    }

    /// Returns true if all answers are whole sets.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// What the answers from a set are made of, if not all are the whole set; `labels` are those of its owner in front of
    /// the origin.
    pub fn find(&self, labels: &[u8], set: Set<'_>) -> Option<&Selection> {
        self.entries.get(labels)?.selections.iter().find(|selection| selection.is_of(set))
    }

    /// What is known of an owner.
    pub fn entry(&self, labels: &[u8]) -> Option<&Entry> {
        self.entries.get(labels).map(Arc::as_ref)
    }

    /// Replaces what is known of an owner.
    pub fn set(&mut self, labels: &[u8], entry: Entry) {
        let kept = |entry: &Entry| {
            let selections = entry.selections.iter();
            selections.fold(Large::default(), |all, selection| all.with(selection.kept(labels.len())))
        };
        self.kept = self.kept.with(kept(&entry));
        self.uneven += u32::from(entry.is_uneven);
        let before = match entry == Entry::default() {
            true => self.entries.remove(labels),
            false => self.entries.insert(labels.into(), Arc::new(entry)),
        };
        let before = before.unwrap_or_default();
        self.kept = self.kept.without(kept(&before));
        self.uneven -= u32::from(before.is_uneven);
    }

    /// Number of names of which members give addresses of different families.
    pub fn uneven(&self) -> u32 {
        self.uneven
    }

    /// Numbers of sets over each limit, of which no answer is.
    pub fn kept(&self) -> Large {
        self.kept
    }

    /// Iterates over what is known of owners, with their labels, in no order.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], &Entry)> {
        self.entries.iter().map(|(labels, entry)| (&**labels, &**entry))
    }
}
