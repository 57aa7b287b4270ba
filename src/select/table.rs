//! Selections of one version of a zone, by owner, with what is known of clients.
//!
//! Owners are found by the hash that zones find their nodes by, which has keys that nobody else knows.
//!
//! Cost: O(log owners) for a look-up and for a change, O(1) for a copy.

use super::{Client, Orders, Selection};
use crate::zone::{ByHash, LINE_BYTES, Large, Owner, prefetch};
use imbl::shared_ptr::DefaultSharedPtr;
use imbl::{GenericHashMap, HashMap};
use std::sync::Arc;
use wire::rr::Set;

/// Octets of an entry's places in the table, and of the three pieces of memory that it stands in, nearly.
const ENTRY_BYTES: usize = 2 * (size_of::<u64>() + size_of::<Named>()) + 3 * 24;

/// What the answers from a zone's sets are made of, where not all are whole sets.
#[derive(Clone, Debug)]
pub struct Selections {
    /// Number of records above which some answer may not be the whole set.
    above: u32,
    /// By the hash of the owner.
    entries: GenericHashMap<u64, Named, ByHash, DefaultSharedPtr>,
    /// Those of owners whose hash another has in the table, by their labels.
    others: HashMap<Arc<[u8]>, Arc<Entry>>,
    /// Sets over each limit, of which no answer is.
    kept: Large,
    /// Names of which members give addresses of different families.
    uneven: u32,
    /// Octets of all entries in memory, nearly.
    octets: u64,
    /// Which member is how near to whose clients.
    pub orders: Arc<Orders>,
}

/// An owner, by its labels in front of the origin, with what is known of it.
#[derive(Clone, Debug)]
pub struct Named {
    labels: Arc<[u8]>,
    entry: Arc<Entry>,
}

impl Named {
    /// Returns true if it is the owner with these labels.
    #[inline]
    pub fn is_of(&self, labels: &[u8]) -> bool {
        *self.labels == *labels
    }

    /// What is known of it.
    #[inline]
    pub fn entry(&self) -> &Entry {
        &self.entry
    }
}

/// What is known of one owner.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Entry {
    pub selections: Box<[Selection]>,
    /// True if some members have addresses of one family only, and others of the other: their clients, who may have the
    /// other at home, are then sent far away for it.
    pub is_uneven: bool,
}

impl Entry {
    /// Octets in memory, nearly, of an entry and its owner; none of one that says nothing.
    fn octets(&self, labels: &[u8]) -> u64 {
        if *self == Entry::default() {
            return 0;
        }
        let own = size_of::<Entry>() + labels.len() + ENTRY_BYTES;
        (own + self.selections.iter().map(Selection::octets).sum::<usize>()) as u64
    }

    /// What the answers from a set are made of, if not all are the whole set.
    #[inline]
    pub fn selection(&self, set: Set<'_>) -> Option<&Selection> {
        self.selections.iter().find(|selection| selection.is_of(set))
    }

    /// The second step of looking ahead, behind [`Selections::fetch`].
    #[inline]
    pub fn fetch_selections(&self) {
        // Two lines hold a selection.
        let first = self.selections.as_ptr().cast::<u8>();
        [first, first.wrapping_add(LINE_BYTES), first.wrapping_add(2 * LINE_BYTES)].into_iter().for_each(prefetch);
    }

    /// The third step, and the last one where clients have no points.
    #[inline]
    pub fn fetch_records(&self) {
        self.selections.iter().for_each(Selection::fetch);
    }

    /// Octets of the largest set of which an answer has some records, wherever these stand in it.
    #[inline]
    pub fn set_octets(&self) -> usize {
        self.selections.iter().map(|selection| selection.octets as usize).max().unwrap_or_default()
    }

    /// Returns true if clients have points in some set.
    #[inline]
    pub fn has_points(&self) -> bool {
        self.selections.iter().any(|selection| selection.ring().is_some())
    }

    /// The next step for a client with points.
    #[inline]
    pub fn fetch_place(&self, client: &Client) {
        self.selections.iter().filter_map(Selection::ring).for_each(|ring| ring.fetch_place(client.probe(ring.seed)));
    }

    /// The last step for a client with points.
    #[inline]
    pub fn fetch_points(&self, client: &Client) {
        self.selections.iter().filter_map(Selection::ring).for_each(|ring| ring.fetch_points(client.probe(ring.seed)));
    }
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
        let (entries, others) = (GenericHashMap::default(), HashMap::new());
        Selections { above, entries, others, kept: Large::default(), uneven: 0, octets: 0, orders: Orders::none() }
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
        self.entries.is_empty() && self.others.is_empty()
    }

    /// What the answers from a set are made of, if not all are the whole set; `labels` are those of its owner in front of
    /// the origin.
    pub fn find(&self, labels: &[u8], set: Set<'_>) -> Option<&Selection> {
        self.entry(labels)?.selection(set)
    }

    /// What is known of an owner.
    #[inline]
    pub fn entry(&self, labels: &[u8]) -> Option<&Entry> {
        match self.entries.get(&Owner::new(labels).hashed()) {
            Some(named) if named.is_of(labels) => Some(&named.entry),
            _ if self.others.is_empty() => None,
            _ => self.others.get(labels).map(Arc::as_ref),
        }
    }

    /// Asks the processor for the memory that a look-up of the owner with a hash needs. Its labels are not compared, so
    /// what is found may be another's.
    #[inline]
    pub fn fetch(&self, hash: u64) -> Option<&Named> {
        let named = self.entries.get(&hash)?;
        prefetch(named.labels.as_ptr());
        prefetch(Arc::as_ptr(&named.entry));
        Some(named)
    }

    /// Replaces what is known of an owner.
    pub fn set(&mut self, labels: &[u8], entry: Entry) {
        let kept = |entry: &Entry| {
            let selections = entry.selections.iter();
            selections.fold(Large::default(), |all, selection| all.with(selection.kept(labels.len())))
        };
        self.kept = self.kept.with(kept(&entry));
        self.uneven += u32::from(entry.is_uneven);
        self.octets += entry.octets(labels);
        let before = self.replace(labels, entry).unwrap_or_default();
        self.kept = self.kept.without(kept(&before));
        self.uneven -= u32::from(before.is_uneven);
        self.octets -= before.octets(labels);
    }

    /// Puts an entry into the place of an owner; nothing is kept of one that says nothing.
    fn replace(&mut self, labels: &[u8], entry: Entry) -> Option<Arc<Entry>> {
        let entry = (entry != Entry::default()).then(|| Arc::new(entry));
        let hash = Owner::new(labels).hashed();
        let is_elsewhere =
            self.others.contains_key(labels) || self.entries.get(&hash).is_some_and(|named| *named.labels != *labels);
        match (is_elsewhere, entry) {
            (true, Some(entry)) => self.others.insert(labels.into(), entry),
            (true, None) => self.others.remove(labels),
            (false, Some(entry)) => {
                let named = Named { labels: labels.into(), entry };
                self.entries.insert(hash, named).map(|before| before.entry)
            }
            (false, None) => self.entries.remove(&hash).map(|before| before.entry),
        }
    }

    /// Number of names of which members give addresses of different families.
    pub fn uneven(&self) -> u32 {
        self.uneven
    }

    /// Octets of all entries in memory, nearly.
    pub fn octets(&self) -> u64 {
        self.octets
    }

    /// Numbers of sets over each limit, of which no answer is.
    pub fn kept(&self) -> Large {
        self.kept
    }

    /// Iterates over what is known of owners, with their labels, in no order.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], &Entry)> {
        let named = self.entries.values().map(|named| (&*named.labels, &*named.entry));
        named.chain(self.others.iter().map(|(labels, entry)| (&**labels, &**entry)))
    }
}
