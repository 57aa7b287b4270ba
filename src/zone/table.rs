//! The nodes of a zone, found by their owners: a persistent hash table of small immutable pieces.
//!
//! The upper bits of an owner's hash choose one of the shards, whose number is a power of two and grows with the zone.
//! A shard is one piece of memory: tags (the lower bits of the hashes), places, nodes. It has so few names that going
//! through the tags takes no longer than hashing the owner. Shards are never changed: a version with other names builds
//! those that are touched and shares the rest. They stand in groups, so that a version of a large zone does not have to
//! copy a pointer to each of its shards.
//!
//! **Sources.** A region consists mostly of nodes that a member zone has, byte by byte the same. Where a table is made
//! beside others, its shards point into theirs for such nodes. Places count through the shard's own bytes, then through
//! those that it points into. Whenever a source has built a shard anew, so do its dependents, so old shards are not
//! kept.
//!
//! The hash has keys that nobody else knows: names in zones come from strangers. They are kept with what is on disk.
//!
//! Cost: lookup O(octets of the owner); a new version O(names in touched shards); with another number of shards
//! O(names).

mod change;
mod image;
mod maker;
mod shard;
mod union;

pub use change::NodeChange;
pub use image::StoredTable;
pub use maker::Maker;
pub use union::{United, unite};

use super::node::Node;
use super::pages::{PAGE_BYTES, Piece, piece_of};
use shard::{Freezer, Shard};
use std::hash::{BuildHasher, BuildHasherDefault, Hasher, RandomState};
use std::ops::Range;
use std::sync::{Arc, OnceLock};

/// Shards of a group, as a power of two.
const GROUP_BITS: u32 = 6;
/// Names of a shard, on average, above which there are twice as many shards.
const MOST_NAMES: usize = 16;
/// Names of a shard, on average, below which there are fewer: well apart, so that a zone does not go back and forth.
const LEAST_NAMES: usize = 4;
/// Octets that a piece of memory takes beside its own, nearly: two counters, what the allocator knows of it, and what
/// it rounds up.
const ALLOCATION_BYTES: usize = 32;
/// Hashes whose nodes are fetched together: more than that the nearest memory does not hold.
pub const FETCHED: usize = 16;
/// Octets that processors read from memory at once.
pub const LINE_BYTES: usize = 64;
/// Octets of large sets that are asked for ahead of an answer, at most.
const SETS_FETCHED: usize = 1024;

/// Nodes by owner.
#[derive(Clone)]
pub struct Table {
    groups: Arc<[Arc<[Shard]>]>,
    /// The number of shards, as a power of two.
    bits: u32,
    names: usize,
    /// Octets of all shards in memory.
    octets: u64,
    /// The tables that shards may point into.
    sources: Arc<[Table]>,
}

/// A node as it is stored, which another table may share.
pub struct Stored<'a> {
    pub node: Node<'a>,
    pub(super) hash: u64,
    pub(super) bytes: &'a [u8],
}

/// The labels of an owner in front of an origin, which may be that of any zone, with their hash; in the order that
/// tables have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Owner<'a> {
    pub(super) hash: u64,
    pub(super) labels: &'a [u8],
}

impl<'a> Owner<'a> {
    /// The owner of lowercase labels.
    pub fn new(labels: &'a [u8]) -> Owner<'a> {
        Owner { hash: hash(labels), labels }
    }

    /// The hash, which tables by [`ByHash`] can go by.
    #[inline]
    pub fn hashed(&self) -> u64 {
        self.hash
    }

    /// The labels.
    pub fn labels(&self) -> &'a [u8] {
        self.labels
    }
}

impl std::hash::Hash for Owner<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.hash);
    }
}

/// Tables of the standard library by hashes that are keyed already.
pub type ByHash = BuildHasherDefault<HashAsIs>;

/// Takes what is a hash already.
#[derive(Default)]
pub struct HashAsIs(u64);

impl Hasher for HashAsIs {
    fn write(&mut self, _: &[u8]) {
        unreachable!("hashes are numbers");
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = number;
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

impl<'a> Stored<'a> {
    /// The owner of the node.
    pub fn owner(&self) -> Owner<'a> {
        Owner { hash: self.hash, labels: self.node.owner }
    }
}

impl Default for Table {
    fn default() -> Table {
        let shard = Freezer::default().freeze(&[], &[]);
        Table::of(&[shard], 0, 0, Arc::new([]))
    }
}

impl Table {
    /// A table of shards. O(shards)
    fn of(shards: &[Shard], bits: u32, names: usize, sources: Arc<[Table]>) -> Table {
        let groups = shards.chunks(1 << GROUP_BITS).map(Arc::from).collect();
        Table { groups, bits, names, octets: shards.iter().map(Shard::weigh).sum(), sources }
    }

    /// Number of nodes.
    pub fn names(&self) -> usize {
        self.names
    }

    /// Octets that the table takes in memory, were nothing of it in another table.
    pub fn octets(&self) -> u64 {
        self.octets
    }

    /// The node of an owner.
    #[inline]
    pub fn get(&self, owner: &[u8]) -> Option<Node<'_>> {
        self.get_hashed(hash(owner), owner)
    }

    /// The node of an owner whose hash is known.
    #[inline]
    pub fn get_hashed(&self, hash: u64, owner: &[u8]) -> Option<Node<'_>> {
        let (_, bytes, at) = self.shard(hash).find(hash, owner)?;
        Some(Node::take(&mut &bytes[at..]))
    }

    /// Asks the processor for the memory that a lookup needs first. Each of the three steps reads what the one before
    /// it has asked for, so many lookups together wait for memory once a step instead of once each.
    #[inline]
    pub fn fetch_shard(&self, hash: u64) {
        prefetch(self.shard(hash));
    }

    /// The second step: the tags and places.
    #[inline]
    pub fn fetch_tags(&self, hash: u64) {
        let shard = self.shard(hash);
        // Two lines hold most of them, and processors fetch lines in pairs.
        shard.bytes.iter().step_by(LINE_BYTES).take(2).for_each(|byte| prefetch(byte));
        shard.others.iter().for_each(|others| prefetch(others.as_ptr()));
    }

    /// The last step: the node, or another with the same tag.
    #[inline]
    pub fn fetch_node(&self, hash: u64) {
        let shard = self.shard(hash);
        let (names, wide) = shard.head();
        if let Some(index) = shard.find_tag(names, hash as u16, Some) {
            let (bytes, at) = shard.place(names, wide, index);
            bytes[at..].iter().step_by(LINE_BYTES).take(2).for_each(|byte| prefetch(byte));
        }
    }

    /// One more step for a node with large sets: so many octets of it, a kilobyte at most, behind what the last step asked
    /// for.
    #[inline]
    pub fn fetch_sets(&self, hash: u64, octets: usize) {
        let shard = self.shard(hash);
        let (names, wide) = shard.head();
        if let Some(index) = shard.find_tag(names, hash as u16, Some) {
            let (bytes, at) = shard.place(names, wide, index);
            let lines = octets.min(SETS_FETCHED).div_ceil(LINE_BYTES);
            bytes[at..].iter().step_by(LINE_BYTES).skip(2).take(lines).for_each(|byte| prefetch(byte));
        }
    }

    /// Asks the processor for what lookups of these hashes in several tables read, in the three steps for all together.
    pub fn fetch(tables: &[&Table], hashes: impl Iterator<Item = u64> + Clone) {
        for step in [Table::fetch_shard, Table::fetch_tags, Table::fetch_node] {
            hashes.clone().for_each(|hash| tables.iter().for_each(|table| step(table, hash)));
        }
    }

    /// Number of nodes in front of each shard, in the order of [`Table::iter`].
    pub fn starts(&self) -> Vec<u32> {
        let mut start = 0;
        let next = |shard: &Shard| {
            start += shard.names() as u32;
            start - shard.names() as u32
        };
        self.shards().map(next).collect()
    }

    /// The node of an owner with its number in the order of [`Table::iter`]; `starts` is what [`Table::starts`] gives.
    pub fn number(&self, starts: &[u32], hash: u64, owner: &[u8]) -> Option<(usize, Node<'_>)> {
        let shard = self.shard(hash);
        let (index, bytes, at) = shard.find(hash, owner)?;
        let number = starts[shard_index(hash, self.bits)] as usize + index;
        Some((number, Node::take(&mut &bytes[at..])))
    }

    /// All nodes, in no order.
    pub fn iter(&self) -> impl Iterator<Item = Node<'_>> {
        self.shards().flat_map(Shard::nodes).map(|(node, _)| node)
    }

    /// All nodes as they are stored, those together whose hashes begin alike.
    pub fn stored(&self) -> impl Iterator<Item = Stored<'_>> {
        let nodes = self.shards().flat_map(Shard::nodes);
        nodes.map(|(node, bytes)| Stored { node, hash: hash(node.owner), bytes })
    }

    /// Memory that look-ups read all over, where it fills a large page.
    pub fn pieces(&self) -> impl Iterator<Item = Piece> {
        let is_large = self.octets >= PAGE_BYTES as u64;
        is_large.then(|| self.shards().map(|shard| piece_of(&shard.bytes))).into_iter().flatten()
    }

    /// All shards, in order.
    fn shards(&self) -> impl Iterator<Item = &Shard> {
        self.groups.iter().flat_map(|group| group.iter())
    }

    /// The shard of a hash.
    #[inline]
    fn shard(&self, hash: u64) -> &Shard {
        self.shard_at(shard_index(hash, self.bits))
    }

    /// A shard by number.
    #[inline]
    fn shard_at(&self, index: usize) -> &Shard {
        &self.groups[index >> GROUP_BITS][index & ((1 << GROUP_BITS) - 1)]
    }
}

impl PartialEq for Table {
    fn eq(&self, other: &Table) -> bool {
        self.names == other.names && self.iter().all(|node| other.get(node.owner) == Some(node))
    }
}

/// The number of shards, as a power of two, for a number of names, when it was another before.
fn bits_for(names: usize, before: u32) -> u32 {
    let average = names >> before;
    if average <= MOST_NAMES && (average >= LEAST_NAMES || before == 0) {
        return before;
    }
    // Half way between most and least.
    (names / (MOST_NAMES / 2)).checked_ilog2().unwrap_or(0)
}

/// The shards of a table with so many bits that hold what a shard of one with other bits does.
fn overlapping(index: usize, bits: u32, others: u32) -> Range<usize> {
    match others.checked_sub(bits) {
        Some(more) => index << more..(index + 1) << more,
        None => index >> (bits - others)..(index >> (bits - others)) + 1,
    }
}

/// The shard of a hash.
#[inline]
pub fn shard_index(hash: u64, bits: u32) -> usize {
    // In two steps, because all 64 bits at once are more than a shift can be.
    (hash >> 1 >> (63 - bits)) as usize
}

/// Tells the processor that this memory will be read soon, where that can be said.
#[inline]
pub fn prefetch<T>(at: *const T) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: this is a hint, which reads nothing that the program could see and never faults.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(at.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = at;
}

//--- Hash ---

/// The keys of the hash in this process.
static KEYS: OnceLock<[u64; 3]> = OnceLock::new();

/// The keys, drawn by lot unless a table that was read has brought them.
#[inline]
fn keys() -> [u64; 3] {
    *KEYS.get_or_init(|| [0, 1, 2].map(|number: u64| RandomState::new().hash_one(number)))
}

/// The hash of an owner: products of keyed halves of 16 octets, folded. Of owners shorter than eight octets two of
/// different length can have the same, which costs a comparison; it is on disk, so it stays.
#[inline]
pub fn hash(owner: &[u8]) -> u64 {
    let [first, second, third] = keys();
    let word = |at: usize| u64::from_le_bytes(*owner[at..].first_chunk().expect("eight octets are there"));
    let length = owner.len();
    let mut state = first ^ length as u64;
    if length >= 16 {
        let mut at = 0;
        while at + 16 < length {
            state = fold(word(at) ^ state, word(at + 8) ^ second);
            at += 16;
        }
        // The last octets, some of them again.
        state = fold(word(length - 16) ^ state, word(length - 8) ^ third);
    } else if length >= 8 {
        state = fold(word(0) ^ state, word(length - 8) ^ third);
    } else {
        let mut bytes = [0; 8];
        bytes[..length].copy_from_slice(owner);
        state = fold(u64::from_le_bytes(bytes) ^ state, third);
    }
    fold(state ^ second, first | 1)
}

/// Multiplies two numbers and joins both halves of the product.
#[inline]
fn fold(one: u64, other: u64) -> u64 {
    let product = u128::from(one) * u128::from(other);
    product as u64 ^ (product >> 64) as u64
}

#[cfg(test)]
mod tests;
