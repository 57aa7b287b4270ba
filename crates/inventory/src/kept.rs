//! What outlives a process: the elements as they were last told, and what was learnt beside them.
//!
//! Two independent lists of entries: `elements`, which a source could tell again, and `retained`, which nobody could:
//! reports, owners of labels, sightings of compute nodes, damping. Each entry has a key and a value; an entry without
//! value removes the key. A list may be written whole, or what has changed appended to it: later entries count.
//!
//! Invariants: losing one list does not touch the other; an entry that cannot be read is left out and counted.
//!
//! Cost: O(octets).

/// One thing to keep, or to keep no longer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    pub key: Box<str>,
    /// None: the key is not kept any more.
    pub value: Option<Box<str>>,
}

/// One of the two lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum List {
    Elements,
    Retained,
}

/// The entries of both lists.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Kept {
    pub elements: Vec<Entry>,
    pub retained: Vec<Entry>,
}

impl Kept {
    /// Returns true if there is nothing to write.
    pub fn is_empty(&self) -> bool {
        self.elements.is_empty() && self.retained.is_empty()
    }
}
