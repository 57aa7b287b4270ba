//! A table that is made of all its nodes.
//!
//! Cost: O(octets).

use super::super::node::Node;
use super::shard::{Beside, Entry, Freezer, Shard};
use super::{GROUP_BITS, Table, bits_for, shard_index};
use std::sync::Arc;

/// A table in the making.
pub struct Maker {
    bits: u32,
    names: usize,
    sources: Arc<[Table]>,
    made: Vec<Shard>,
    freezer: Freezer,
}

impl Maker {
    /// Starts a table of so many nodes, which shares what it can with the sources.
    pub fn new(names: usize, sources: Arc<[Table]>) -> Maker {
        let bits = bits_for(names, 0);
        Maker { bits, names, sources, made: Vec::with_capacity(1 << bits), freezer: Freezer::default() }
    }

    /// The number of shards, as a power of two.
    pub fn bits(&self) -> u32 {
        self.bits
    }

    /// Takes the next part of the nodes, of so many parts as a power of two, which divide the shards evenly: each with its
    /// hash, and in the order of these.
    pub fn push<'a>(&mut self, parts: u32, nodes: impl Iterator<Item = (u64, &'a [u8])>) {
        let (mut nodes, mut entries) = (nodes.peekable(), Vec::new());
        let mut beside = Vec::new();
        for index in self.made.len()..self.made.len() + (1 << self.bits >> parts) {
            entries.clear();
            while let Some((hash, bytes)) = nodes.next_if(|(hash, _)| shard_index(*hash, self.bits) == index) {
                entries.push(Entry::new(hash as u16, Node::take(&mut &*bytes).owner, bytes));
            }
            Beside::list(&self.sources, index, self.bits, &mut beside);
            self.made.push(self.freezer.freeze(&entries, &beside));
        }
        debug_assert!(nodes.next().is_none(), "nodes of other parts");
    }

    /// The table.
    pub fn finish(self) -> Table {
        let groups = self.made.chunks(1 << GROUP_BITS).map(Arc::from).collect();
        Table { groups, bits: self.bits, names: self.names, sources: self.sources }
    }
}
