//! A table that is made of all its nodes.
//!
//! Cost: O(octets).

use super::super::node::Node;
use super::shard::{Beside, Entry, Freezer, Shard};
use super::{Table, bits_for, overlapping, shard_index};
use std::sync::Arc;

/// A table in the making.
pub struct Maker {
    bits: u32,
    names: usize,
    sources: Arc<[Table]>,
}

/// The shards of one part of a table.
pub struct Made(Vec<Shard>);

impl Maker {
    /// Starts a table of so many nodes, which shares what it can with the sources.
    pub fn new(names: usize, sources: Arc<[Table]>) -> Maker {
        Maker { bits: bits_for(names, 0), names, sources }
    }

    /// The number of shards, as a power of two.
    pub fn bits(&self) -> u32 {
        self.bits
    }

    /// Makes the shards of a part, of so many parts as a power of two, which divide the shards evenly: of all its
    /// nodes, each with its hash, and in the order of these.
    pub fn make<'a>(&self, part: usize, parts: u32, nodes: impl Iterator<Item = (u64, &'a [u8])>) -> Made {
        let (mut nodes, mut entries) = (nodes.peekable(), Vec::new());
        let (mut freezer, mut beside) = (Freezer::default(), Vec::new());
        let make = |index: usize| {
            entries.clear();
            while let Some((hash, bytes)) = nodes.next_if(|(hash, _)| shard_index(*hash, self.bits) == index) {
                entries.push(Entry::new(hash as u16, Node::take(&mut &*bytes).owner, bytes));
            }
            Beside::list(&self.sources, index, self.bits, &mut beside);
            freezer.freeze(&entries, &beside)
        };
        let made = overlapping(part, parts, self.bits).map(make).collect();
        debug_assert!(nodes.next().is_none(), "nodes of other parts");
        Made(made)
    }

    /// The table of all parts, in their order.
    pub fn finish(self, parts: impl IntoIterator<Item = Made>) -> Table {
        let made: Vec<Shard> = parts.into_iter().flat_map(|Made(shards)| shards).collect();
        Table::of(&made, self.bits, self.names, self.sources)
    }
}
