//! The nodes of a zone, found by their owners: a persistent hash table of small immutable pieces.
//!
//! The upper bits of an owner's hash choose one of the shards, whose number is a power of two and grows with the zone. A
//! shard is one piece of memory: tags (the lower bits of the hashes), places, nodes. It has so few names that going
//! through the tags takes no longer than hashing the owner. Shards are never changed: a version with other names
//! builds those that are touched and shares the rest. They stand in groups, so that a version of a large zone does not
//! have to copy a pointer to each of its shards.
//!
//! **Sources.** A region consists mostly of nodes that a member zone has, byte by byte the same. Where a table is made
//! beside others, its shards point into theirs for such nodes. Places count through the shard's own bytes, then through
//! those that it points into. Whenever a source has built a shard anew, so do its dependents, so old shards are not kept.
//!
//! The hash has a key that is new in every process: names in zones come from strangers.
//!
//! Cost: lookup O(octets of the owner); a new version O(names in touched shards); with another number of shards O(names).

use super::node::Node;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, OnceLock};

/// Shards of a group, as a power of two.
const GROUP_BITS: u32 = 6;
/// Names of a shard, on average, above which there are twice as many shards.
const MOST_NAMES: usize = 32;
/// Names of a shard, on average, below which there are fewer: well apart, so that a zone does not go back and forth.
const LEAST_NAMES: usize = 8;
/// Octets of a shard in front of its tags: number of names, and [`WIDE`].
const HEAD_BYTES: usize = 4;
/// Octets of a tag.
const TAG_BYTES: usize = 2;
/// Tags that are compared together.
const TAGS_AT_ONCE: usize = 16;
/// What processors read from memory at once.
const LINE_BYTES: usize = 64;
/// Places take four octets instead of two.
const WIDE: u32 = 1 << 31;

/// Nodes by owner.
#[derive(Clone)]
pub struct Table {
    groups: Arc<[Arc<[Shard]>]>,
    /// The number of shards, as a power of two.
    bits: u32,
    names: usize,
    /// The tables that shards may point into.
    sources: Arc<[Table]>,
}

/// The nodes whose hashes begin alike.
#[derive(Clone)]
struct Shard {
    bytes: Arc<[u8]>,
    /// Bytes of shards of other tables.
    others: Option<Arc<[Arc<[u8]>]>>,
}

/// A node as it is stored, which another table may share.
pub struct Stored<'a> {
    pub node: Node<'a>,
    pub(super) hash: u64,
    pub(super) bytes: &'a [u8],
}

/// Another node at an owner, or none.
pub struct Change<'a> {
    /// What [`hash`] gives for the owner.
    pub hash: u64,
    pub owner: &'a [u8],
    /// As [`Node::write`] wrote it.
    pub node: Option<&'a [u8]>,
}

impl Default for Table {
    fn default() -> Table {
        let shard = freeze(&[], &[], &mut Vec::new());
        Table { groups: Arc::new([Arc::new([shard])]), bits: 0, names: 0, sources: Arc::new([]) }
    }
}

impl Table {
    /// Number of nodes.
    pub fn names(&self) -> usize {
        self.names
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

    /// Asks the processor for the memory that a lookup needs first. Each of the three steps reads what the one before it
    /// has asked for, so many lookups together wait for memory once a step instead of once each.
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
        if let Some(index) = shard.find_tag(names, hash as u16, |_| true) {
            let (bytes, at) = shard.place(names, wide, index);
            bytes[at..].iter().step_by(LINE_BYTES).take(2).for_each(|byte| prefetch(byte));
        }
    }

    /// Number of nodes in front of each shard, in the order of [`Table::iter`].
    pub fn starts(&self) -> Vec<u32> {
        let mut start = 0;
        let shards = self.groups.iter().flat_map(|group| group.iter());
        let next = |shard: &Shard| {
            start += shard.names() as u32;
            start - shard.names() as u32
        };
        shards.map(next).collect()
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
        let shards = self.groups.iter().flat_map(|group| group.iter());
        shards.flat_map(|shard| (0..shard.names()).map(|index| shard.node(index).0))
    }

    /// All nodes as they are stored, those together whose hashes begin alike.
    pub fn stored(&self) -> impl Iterator<Item = Stored<'_>> {
        let shards = self.groups.iter().flat_map(|group| group.iter());
        let each = |shard, index| {
            let (node, bytes) = Shard::node(shard, index);
            Stored { node, hash: hash(node.owner), bytes }
        };
        shards.flat_map(move |shard| (0..shard.names()).map(move |index| each(shard, index)))
    }

    /// The shard of a hash.
    #[inline]
    fn shard(&self, hash: u64) -> &Shard {
        let index = shard_index(hash, self.bits);
        &self.groups[index >> GROUP_BITS][index & ((1 << GROUP_BITS) - 1)]
    }

    /// The table with other nodes at some owners, each given once, sharing what it can with this one and with the
    /// sources given.
    pub fn change(&self, mut changes: Vec<Change<'_>>, sources: Arc<[Table]>) -> Table {
        changes.sort_unstable_by_key(|change| change.hash);
        let names = changes.iter().fold(self.names, |names, change| {
            let before = self.get_hashed(change.hash, change.owner).is_some();
            names + usize::from(change.node.is_some()) - usize::from(before)
        });
        let bits = bits_for(names, self.bits);
        // Shards are made anew by whole parts of the hashes that both tables divide in the same way.
        let common = bits.min(self.bits);
        let mut touched = if bits == self.bits { self.outdated(&sources) } else { vec![true; 1 << common] };
        changes.iter().for_each(|change| touched[shard_index(change.hash, common)] = true);
        let mut made: Vec<Shard> = Vec::new();
        let mut groups: Vec<Arc<[Shard]>> = Vec::new();
        let mut scratch = Vec::new();
        let mut rest = &changes[..];
        for (index, touched_here) in touched.iter().enumerate() {
            let in_group = index & ((1 << GROUP_BITS) - 1);
            if bits == self.bits && in_group == 0 {
                let whole = &touched[index..touched.len().min(index + (1 << GROUP_BITS))];
                if !whole.contains(&true) {
                    groups.push(self.groups[index >> GROUP_BITS].clone());
                }
            }
            if groups.len() > index >> GROUP_BITS && bits == self.bits {
                continue;
            }
            if *touched_here {
                let here = rest.iter().take_while(|change| shard_index(change.hash, common) == index).count();
                let (changes, behind) = rest.split_at(here);
                rest = behind;
                self.rebuild(index, common, bits, changes, &sources, &mut scratch, &mut made);
            } else {
                made.push(self.groups[index >> GROUP_BITS][in_group].clone());
            }
            let full = 1 << GROUP_BITS;
            while made.len() >= full {
                groups.push(made.drain(..full).collect());
            }
        }
        if !made.is_empty() {
            groups.push(made.into());
        }
        Table { groups: groups.into(), bits, names, sources }
    }

    /// Which shards may point into shards of sources that are no more.
    fn outdated(&self, sources: &Arc<[Table]>) -> Vec<bool> {
        let mut outdated = vec![false; 1 << self.bits];
        if Arc::ptr_eq(&self.sources, sources) {
            return outdated;
        }
        if self.sources.len() != sources.len() {
            outdated.fill(true);
            return outdated;
        }
        for (old, new) in self.sources.iter().zip(sources.iter()) {
            if old.bits != new.bits {
                outdated.fill(true);
                return outdated;
            }
            for (group, pair) in old.groups.iter().zip(new.groups.iter()).enumerate() {
                if Arc::ptr_eq(pair.0, pair.1) {
                    continue;
                }
                for (index, (old_shard, new_shard)) in pair.0.iter().zip(pair.1.iter()).enumerate() {
                    if Arc::ptr_eq(&old_shard.bytes, &new_shard.bytes) {
                        continue;
                    }
                    let index = group << GROUP_BITS | index;
                    let range = match self.bits.checked_sub(old.bits) {
                        Some(more) => index << more..(index + 1) << more,
                        None => index >> (old.bits - self.bits)..(index >> (old.bits - self.bits)) + 1,
                    };
                    outdated[range].fill(true);
                }
            }
        }
        outdated
    }

    /// Makes all shards of `bits` within one part of `common` bits.
    #[allow(clippy::too_many_arguments)]
    fn rebuild(
        &self,
        part: usize,
        common: u32,
        bits: u32,
        changes: &[Change<'_>],
        sources: &[Table],
        scratch: &mut Vec<u8>,
        made: &mut Vec<Shard>,
    ) {
        let mut entries: Vec<Entry<'_>> = Vec::new();
        let alone = bits == self.bits && sources.is_empty();
        let more = self.bits - common;
        for index in part << more..(part + 1) << more {
            let shard = &self.groups[index >> GROUP_BITS][index & ((1 << GROUP_BITS) - 1)];
            for index in 0..shard.names() {
                let (node, bytes) = shard.node(index);
                // Where a shard stays alone and whole, the tag is all that is needed of the hash.
                let hash = if alone { shard.tag(index).into() } else { hash(node.owner) };
                let is_same = |change: &Change<'_>| change.hash as u16 == hash as u16 && change.owner == node.owner;
                let first = if alone { 0 } else { changes.partition_point(|change| change.hash < hash) };
                let near = changes[first..].iter().take_while(|change| alone || change.hash == hash);
                if !near.into_iter().any(is_same) {
                    entries.push(Entry { hash, owner: node.owner, bytes });
                }
            }
        }
        let added = changes
            .iter()
            .filter_map(|change| Some(Entry { hash: change.hash, owner: change.owner, bytes: change.node? }));
        entries.extend(added);
        if alone {
            made.push(freeze(&entries, sources, scratch));
            return;
        }
        entries.sort_unstable_by_key(|entry| entry.hash);
        let mut rest = &entries[..];
        let more = bits - common;
        for index in part << more..(part + 1) << more {
            let here = rest.partition_point(|entry| shard_index(entry.hash, bits) <= index);
            let (entries, behind) = rest.split_at(here);
            rest = behind;
            made.push(freeze(entries, sources, scratch));
        }
    }
}

impl PartialEq for Table {
    fn eq(&self, other: &Table) -> bool {
        self.names == other.names && self.iter().all(|node| other.get(node.owner) == Some(node))
    }
}

impl Shard {
    /// Number of nodes, and whether places are wide.
    #[inline]
    fn head(&self) -> (usize, bool) {
        let head = u32::from_le_bytes(*self.bytes.first_chunk().expect("a shard has a head"));
        ((head & !WIDE) as usize, head & WIDE != 0)
    }

    /// Number of nodes.
    fn names(&self) -> usize {
        self.head().0
    }

    /// The number of the node of an owner, and where it is.
    #[inline]
    fn find(&self, hash: u64, owner: &[u8]) -> Option<(usize, &Arc<[u8]>, usize)> {
        let (names, wide) = self.head();
        let found = self.find_tag(names, hash as u16, |index| {
            let (bytes, at) = self.place(names, wide, index);
            Node::is_at(&bytes[at..], owner)
        })?;
        let (bytes, at) = self.place(names, wide, found);
        Some((found, bytes, at))
    }

    /// The first node that has a tag and is accepted.
    #[inline]
    fn find_tag(&self, names: usize, tag: u16, accept: impl Fn(usize) -> bool) -> Option<usize> {
        let tags = &self.bytes[HEAD_BYTES..];
        let tag = tag.to_le_bytes();
        for first in (0..names).step_by(TAGS_AT_ONCE) {
            let here = &tags[TAG_BYTES * first..];
            // Behind the last tag stands something else, which does not count.
            let counted = u32::MAX >> (32 - TAGS_AT_ONCE.min(names - first));
            let mut equal = counted
                & match here.first_chunk() {
                    Some(group) => compare_tags(group, tag),
                    None => {
                        let mut group = [0; TAG_BYTES * TAGS_AT_ONCE];
                        group[..here.len()].copy_from_slice(here);
                        compare_tags(&group, tag)
                    }
                };
            while equal != 0 {
                let index = first + equal.trailing_zeros() as usize;
                if accept(index) {
                    return Some(index);
                }
                equal &= equal - 1;
            }
        }
        None
    }

    /// Where a node is: the bytes that hold it, and the octet at which it begins.
    #[inline]
    fn place(&self, names: usize, wide: bool, index: usize) -> (&Arc<[u8]>, usize) {
        let places = &self.bytes[HEAD_BYTES + TAG_BYTES * names..];
        let mut at = if wide {
            u32::from_le_bytes(*places[4 * index..].first_chunk().expect("a place for each tag")) as usize
        } else {
            u16::from_le_bytes(*places[2 * index..].first_chunk().expect("a place for each tag")) as usize
        };
        if at < self.bytes.len() {
            return (&self.bytes, at);
        }
        at -= self.bytes.len();
        for other in self.others.iter().flat_map(|others| others.iter()) {
            if at < other.len() {
                return (other, at);
            }
            at -= other.len();
        }
        unreachable!("a place lies within the bytes that the shard holds or points into")
    }

    /// The lower bits of a node's hash.
    fn tag(&self, index: usize) -> u16 {
        u16::from_le_bytes(*self.bytes[HEAD_BYTES + TAG_BYTES * index..].first_chunk().expect("a tag for each node"))
    }

    /// A node with its bytes.
    fn node(&self, index: usize) -> (Node<'_>, &[u8]) {
        let (names, wide) = self.head();
        let (bytes, at) = self.place(names, wide, index);
        let mut rest = &bytes[at..];
        let node = Node::take(&mut rest);
        (node, &bytes[at..bytes.len() - rest.len()])
    }
}

//--- Making ---

/// A table that is made of all its nodes.
pub struct Maker {
    bits: u32,
    names: usize,
    sources: Arc<[Table]>,
    made: Vec<Shard>,
    scratch: Vec<u8>,
}

impl Maker {
    /// Starts a table of so many nodes, which shares what it can with the sources.
    pub fn new(names: usize, sources: Arc<[Table]>) -> Maker {
        let bits = bits_for(names, 0);
        Maker { bits, names, sources, made: Vec::with_capacity(1 << bits), scratch: Vec::new() }
    }

    /// The number of shards, as a power of two.
    pub fn bits(&self) -> u32 {
        self.bits
    }

    /// Takes the next part of the nodes, of so many parts as a power of two, which divide the shards evenly: each with its
    /// hash, and in the order of these.
    pub fn push<'a>(&mut self, parts: u32, nodes: impl Iterator<Item = (u64, &'a [u8])>) {
        let (mut nodes, mut entries) = (nodes.peekable(), Vec::new());
        for index in self.made.len()..self.made.len() + (1 << self.bits >> parts) {
            entries.clear();
            while let Some((hash, bytes)) = nodes.next_if(|(hash, _)| shard_index(*hash, self.bits) == index) {
                entries.push(Entry { hash, owner: Node::take(&mut &*bytes).owner, bytes });
            }
            self.made.push(freeze(&entries, &self.sources, &mut self.scratch));
        }
        debug_assert!(nodes.next().is_none(), "nodes of other parts");
    }

    /// The table.
    pub fn finish(self) -> Table {
        let groups = self.made.chunks(1 << GROUP_BITS).map(Arc::from).collect();
        Table { groups, bits: self.bits, names: self.names, sources: self.sources }
    }
}

/// A node that a shard gets.
struct Entry<'a> {
    hash: u64,
    owner: &'a [u8],
    bytes: &'a [u8],
}

/// Makes a shard of nodes, pointing into the sources where they have the same.
fn freeze(entries: &[Entry<'_>], sources: &[Table], scratch: &mut Vec<u8>) -> Shard {
    let mut others: Vec<Arc<[u8]>> = Vec::new();
    // For each entry where a source has it: which of the others, and where.
    let shared: Vec<Option<(usize, usize)>> = entries.iter().map(|entry| entry.find_in(sources, &mut others)).collect();
    let own: usize =
        entries.iter().zip(&shared).filter(|(_, shared)| shared.is_none()).map(|(entry, _)| entry.bytes.len()).sum();
    let all = own + others.iter().map(|other| other.len()).sum::<usize>();
    let narrow = HEAD_BYTES + (TAG_BYTES + 2) * entries.len();
    let wide = narrow + all > usize::from(u16::MAX);
    let head = if wide { narrow + 2 * entries.len() } else { narrow };
    let length = head + own;
    assert!(u32::try_from(head + all).is_ok(), "the nodes of a shard fit into 4 GiB, because transfers are bounded");
    let starts: Vec<usize> = others
        .iter()
        .scan(length, |at, other| {
            let start = *at;
            *at += other.len();
            Some(start)
        })
        .collect();
    scratch.clear();
    scratch.extend_from_slice(&(entries.len() as u32 | if wide { WIDE } else { 0 }).to_le_bytes());
    entries.iter().for_each(|entry| scratch.extend_from_slice(&(entry.hash as u16).to_le_bytes()));
    let mut at = head;
    for (entry, shared) in entries.iter().zip(&shared) {
        let place = match shared {
            Some((other, offset)) => starts[*other] + offset,
            None => {
                at += entry.bytes.len();
                at - entry.bytes.len()
            }
        };
        if wide {
            scratch.extend_from_slice(&(place as u32).to_le_bytes());
        } else {
            scratch.extend_from_slice(&(place as u16).to_le_bytes());
        }
    }
    let owned = entries.iter().zip(&shared).filter(|(_, shared)| shared.is_none());
    owned.for_each(|(entry, _)| scratch.extend_from_slice(entry.bytes));
    Shard { bytes: Arc::from(&scratch[..]), others: (!others.is_empty()).then(|| others.into()) }
}

impl Entry<'_> {
    /// Where a source has the same node: which of the bytes that are pointed into, and the octet.
    fn find_in(&self, sources: &[Table], others: &mut Vec<Arc<[u8]>>) -> Option<(usize, usize)> {
        for source in sources {
            let Some((_, bytes, at)) = source.shard(self.hash).find(self.hash, self.owner) else { continue };
            if bytes[at..].starts_with(self.bytes) {
                let known = others.iter().position(|other| Arc::ptr_eq(other, bytes));
                let other = known.unwrap_or_else(|| {
                    others.push(bytes.clone());
                    others.len() - 1
                });
                return Some((other, at));
            }
        }
        None
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

/// The shard of a hash.
#[inline]
pub fn shard_index(hash: u64, bits: u32) -> usize {
    // In two steps, because all 64 bits at once are more than a shift can be.
    (hash >> 1 >> (63 - bits)) as usize
}

/// Which of these tags equal one, a bit for each: a few instructions of any processor with vectors.
#[inline]
fn compare_tags(group: &[u8; TAG_BYTES * TAGS_AT_ONCE], tag: [u8; TAG_BYTES]) -> u32 {
    let (group, _) = group.as_chunks::<TAG_BYTES>();
    group.iter().enumerate().fold(0, |bits, (index, other)| bits | u32::from(*other == tag) << index)
}

/// Tells the processor that this memory will be read soon, where that can be said.
#[inline]
fn prefetch<T>(at: *const T) {
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

/// The hash of an owner: products of keyed halves of 16 octets, folded.
#[inline]
pub fn hash(owner: &[u8]) -> u64 {
    let [first, second, third] = *KEYS.get_or_init(|| [0, 1, 2].map(|number: u64| RandomState::new().hash_one(number)));
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

/// Both halves of a product.
#[inline]
fn fold(one: u64, other: u64) -> u64 {
    let product = u128::from(one) * u128::from(other);
    product as u64 ^ (product >> 64) as u64
}

#[cfg(test)]
mod tests;
