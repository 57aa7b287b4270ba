//! The pieces that tables are made of: nodes whose hashes begin alike.
//!
//! The bytes: number of nodes, and whether places are wide; the tags, the lower bits of the hashes; the places; the
//! nodes that are the shard's own, in the order of their places. Places beyond count through the bytes that it points
//! into.
//!
//! Invariant: a shard never changes.
//!
//! Cost: finding O(nodes of a shard), making one O(octets).

use super::super::node::Node;
use super::{ALLOCATION_BYTES, Table, hash, prefetch};
use std::sync::Arc;

/// Octets of a shard in front of its tags: number of names, and [`WIDE`].
pub(super) const HEAD_BYTES: usize = 4;
/// Octets of a tag.
pub(super) const TAG_BYTES: usize = 2;
/// Tags that are compared together.
const TAGS_AT_ONCE: usize = 16;
/// Places take four octets instead of two.
pub(super) const WIDE: u32 = 1 << 31;

/// The nodes whose hashes begin alike.
#[derive(Clone)]
pub(super) struct Shard {
    pub(super) bytes: Arc<[u8]>,
    /// Bytes of shards of other tables.
    pub(super) others: Option<Arc<[Arc<[u8]>]>>,
}

impl Shard {
    /// Number of nodes, and whether places are wide.
    #[inline]
    pub fn head(&self) -> (usize, bool) {
        let head = u32::from_le_bytes(*self.bytes.first_chunk().expect("a shard has a head"));
        ((head & !WIDE) as usize, head & WIDE != 0)
    }

    /// Returns true if both are the same bytes in memory, and all of their nodes.
    pub fn is(&self, other: &Shard) -> bool {
        self.others.is_none() && other.others.is_none() && Arc::ptr_eq(&self.bytes, &other.bytes)
    }

    /// Number of nodes.
    pub fn names(&self) -> usize {
        self.head().0
    }

    /// Octets that it takes in memory.
    pub fn weigh(&self) -> u64 {
        let others = self.others.as_ref().map_or(0, |others| size_of_val(&**others) + ALLOCATION_BYTES);
        (size_of::<Shard>() + self.bytes.len() + ALLOCATION_BYTES + others) as u64
    }

    /// Asks the processor for the counts of those that share it, which stand in front of what is shared.
    #[inline]
    pub fn fetch_counts(&self) {
        prefetch(Arc::as_ptr(&self.bytes).cast::<usize>().wrapping_sub(2));
        self.others.iter().for_each(|others| prefetch(Arc::as_ptr(others).cast::<usize>().wrapping_sub(2)));
    }

    /// The number of the node of an owner, and where it is.
    // Every query comes through here, and other callers must not cost it a call.
    #[inline(always)]
    pub fn find(&self, hash: u64, owner: &[u8]) -> Option<(usize, &Arc<[u8]>, usize)> {
        let (names, wide) = self.head();
        self.find_tag(names, hash as u16, |index| {
            let (bytes, at) = self.place(names, wide, index);
            Node::is_at(&bytes[at..], owner).then_some((index, bytes, at))
        })
    }

    /// Calls `make` for the nodes with a tag, in order, and returns its first result.
    #[inline]
    pub fn find_tag<T>(&self, names: usize, tag: u16, make: impl Fn(usize) -> Option<T>) -> Option<T> {
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
                if let Some(made) = make(first + equal.trailing_zeros() as usize) {
                    return Some(made);
                }
                equal &= equal - 1;
            }
        }
        None
    }

    /// Finds the node of an owner, which is more likely the one of a number than any other. Returns also its number.
    fn find_from(&self, guess: usize, tag: u16, owner: &[u8]) -> Option<(usize, &Arc<[u8]>, usize)> {
        let (names, wide) = self.head();
        if guess < names && self.tag(guess) == tag {
            let (bytes, at) = self.place(names, wide, guess);
            if Node::is_at(&bytes[at..], owner) {
                return Some((guess, bytes, at));
            }
        }
        self.find(tag.into(), owner)
    }

    /// Offset of a node, in octets.
    #[inline]
    fn offset(&self, names: usize, wide: bool, index: usize) -> usize {
        let places = &self.bytes[HEAD_BYTES + TAG_BYTES * names..];
        if wide {
            u32::from_le_bytes(*places[4 * index..].first_chunk().expect("a place for each tag")) as usize
        } else {
            u16::from_le_bytes(*places[2 * index..].first_chunk().expect("a place for each tag")) as usize
        }
    }

    /// Tags and bytes of all nodes; `None` where some are not the shard's own.
    pub fn own_nodes(&self) -> Option<impl Iterator<Item = (u16, &[u8])>> {
        let (names, wide) = self.head();
        let offset = move |index| if index < names { self.offset(names, wide, index) } else { self.bytes.len() };
        let node = move |index| (self.tag(index), &self.bytes[offset(index)..offset(index + 1)]);
        self.others.is_none().then(|| (0..names).map(node))
    }

    /// Place of a node: the bytes that hold it, and the octet at which it begins.
    #[inline(always)]
    pub fn place(&self, names: usize, wide: bool, index: usize) -> (&Arc<[u8]>, usize) {
        let mut at = self.offset(names, wide, index);
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
    pub fn tag(&self, index: usize) -> u16 {
        u16::from_le_bytes(*self.bytes[HEAD_BYTES + TAG_BYTES * index..].first_chunk().expect("a tag for each node"))
    }

    /// The owner of a node, and where it is.
    #[inline]
    pub fn owner(&self, index: usize) -> (&[u8], &Arc<[u8]>, usize) {
        let (names, wide) = self.head();
        let (bytes, at) = self.place(names, wide, index);
        (Node::owner_at(&bytes[at..]), bytes, at)
    }

    /// All nodes with their bytes, in order.
    pub fn nodes(&self) -> impl Iterator<Item = (Node<'_>, &[u8])> {
        (0..self.names()).map(move |index| self.node(index))
    }

    /// A node with its bytes.
    pub fn node(&self, index: usize) -> (Node<'_>, &[u8]) {
        let (names, wide) = self.head();
        let (bytes, at) = self.place(names, wide, index);
        let mut rest = &bytes[at..];
        let node = Node::take(&mut rest);
        (node, &bytes[at..bytes.len() - rest.len()])
    }
}

/// Compares tags with one, and returns a bit for each that is equal: a few instructions of any processor with vectors.
#[inline]
fn compare_tags(group: &[u8; TAG_BYTES * TAGS_AT_ONCE], tag: [u8; TAG_BYTES]) -> u32 {
    let (group, _) = group.as_chunks::<TAG_BYTES>();
    group.iter().enumerate().fold(0, |bits, (index, other)| bits | u32::from(*other == tag) << index)
}

//--- Making ---

/// A node that a shard gets.
pub(super) struct Entry<'a> {
    /// The lower bits of the hash.
    pub tag: u16,
    pub owner: &'a [u8],
    pub bytes: &'a [u8],
    /// What of the node stands elsewhere, behind them.
    pub rest: &'a [u8],
    /// The bytes of a source that hold it, and where, if that is known. Owner and bytes are of no use then.
    pub held: Option<(&'a Arc<[u8]>, usize)>,
}

impl<'a> Entry<'a> {
    /// A node that no source is known to have.
    pub fn new(tag: u16, owner: &'a [u8], bytes: &'a [u8]) -> Entry<'a> {
        Entry { tag, owner, bytes, rest: &[], held: None }
    }

    /// A node that a source has.
    pub fn held(tag: u16, bytes: &'a Arc<[u8]>, at: usize) -> Entry<'a> {
        Entry { tag, owner: &[], bytes: &[], rest: &[], held: Some((bytes, at)) }
    }

    /// Octets of the node, where no source is known to have it.
    fn len(&self) -> usize {
        self.bytes.len() + self.rest.len()
    }
}

/// Place in a source of the nodes that a shard may point to.
#[derive(Clone, Copy)]
pub(super) enum Beside<'a> {
    /// All of them are in one shard.
    Shard(&'a Shard),
    /// They are in several.
    Table(&'a Table),
}

impl<'a> Beside<'a> {
    /// Returns true if these are the bytes of the one shard in which all nodes are.
    pub fn has(&self, bytes: &Arc<[u8]>) -> bool {
        matches!(self, Beside::Shard(shard) if Arc::ptr_eq(&shard.bytes, bytes))
    }

    /// Lists the places in the sources of a shard's nodes, by its number in a table with so many bits.
    pub fn list(sources: &'a [Table], index: usize, bits: u32, out: &mut Vec<Beside<'a>>) {
        out.clear();
        out.extend(sources.iter().map(|source| match bits.checked_sub(source.bits) {
            Some(more) => Beside::Shard(source.shard_at(index >> more)),
            None => Beside::Table(source),
        }));
    }
}

/// Buffers in which shards are made, to be used again.
#[derive(Default)]
pub(super) struct Freezer {
    bytes: Vec<u8>,
    /// Place of each entry in the sources, if one has it: which of the others, and where.
    shared: Vec<Option<(usize, usize)>>,
}

impl Freezer {
    /// Makes a shard of nodes, pointing into the sources where they have the same.
    pub fn freeze(&mut self, entries: &[Entry<'_>], beside: &[Beside<'_>]) -> Shard {
        let mut others: Vec<Arc<[u8]>> = Vec::new();
        if let Some(same) = self.share(entries, beside, &mut others) {
            return same.clone();
        }
        let pairs = || entries.iter().zip(&self.shared);
        let own: usize = pairs().filter(|(_, shared)| shared.is_none()).map(|(entry, _)| entry.len()).sum();
        let all = own + others.iter().map(|other| other.len()).sum::<usize>();
        let narrow = HEAD_BYTES + (TAG_BYTES + 2) * entries.len();
        let wide = narrow + all > usize::from(u16::MAX);
        let head = if wide { narrow + 2 * entries.len() } else { narrow };
        let length = head + own;
        assert!(
            u32::try_from(head + all).is_ok(),
            "the nodes of a shard fit into 4 GiB, because transfers are bounded"
        );
        let mut starts = Vec::with_capacity(others.len());
        let mut start = length;
        for other in &others {
            starts.push(start);
            start += other.len();
        }
        let out = &mut self.bytes;
        out.clear();
        out.reserve(length);
        out.extend_from_slice(&(entries.len() as u32 | if wide { WIDE } else { 0 }).to_le_bytes());
        entries.iter().for_each(|entry| out.extend_from_slice(&entry.tag.to_le_bytes()));
        let mut at = head;
        for (entry, shared) in entries.iter().zip(&self.shared) {
            let place = match shared {
                Some((other, offset)) => starts[*other] + offset,
                None => {
                    at += entry.len();
                    at - entry.len()
                }
            };
            if wide {
                out.extend_from_slice(&(place as u32).to_le_bytes());
            } else {
                out.extend_from_slice(&(place as u16).to_le_bytes());
            }
        }
        let owned = entries.iter().zip(&self.shared).filter(|(_, shared)| shared.is_none());
        owned.flat_map(|(entry, _)| [entry.bytes, entry.rest]).for_each(|part| out.extend_from_slice(part));
        Shard { bytes: Arc::from(&out[..]), others: (!others.is_empty()).then(|| others.into()) }
    }

    /// Makes a shard of its own nodes, each with its tag and in two parts; `None` where their places need four octets.
    pub fn join(&mut self, nodes: &[(u16, [&[u8]; 2])]) -> Option<Shard> {
        let out = &mut self.bytes;
        out.clear();
        out.extend_from_slice(&(nodes.len() as u32).to_le_bytes());
        nodes.iter().for_each(|(tag, _)| out.extend_from_slice(&tag.to_le_bytes()));
        let mut at = HEAD_BYTES + (TAG_BYTES + 2) * nodes.len();
        for (_, [head, sets]) in nodes {
            out.extend_from_slice(&u16::try_from(at).ok()?.to_le_bytes());
            at += head.len() + sets.len();
        }
        nodes.iter().flat_map(|(_, parts)| parts).for_each(|part| out.extend_from_slice(part));
        Some(Shard { bytes: Arc::from(&out[..]), others: None })
    }

    /// Looks for each entry in the sources. Returns a shard of theirs that holds these nodes and no others, if there is
    /// one.
    fn share<'a>(
        &mut self,
        entries: &[Entry<'_>],
        beside: &[Beside<'a>],
        others: &mut Vec<Arc<[u8]>>,
    ) -> Option<&'a Shard> {
        self.shared.clear();
        let mut number = |bytes: &Arc<[u8]>| {
            let known = others.iter().position(|other| Arc::ptr_eq(other, bytes));
            known.unwrap_or_else(|| {
                others.push(bytes.clone());
                others.len() - 1
            })
        };
        // Sources have the nodes in the order of their last making, which is mostly the same here.
        let mut guesses = [0; 8];
        let mut whole: Option<&Shard> = None;
        let mut is_whole = true;
        for entry in entries {
            if let Some((bytes, at)) = entry.held {
                self.shared.push(Some((number(bytes), at)));
                is_whole = false;
                continue;
            }
            let mut shared = None;
            for (source, beside) in beside.iter().enumerate() {
                let shard = match beside {
                    Beside::Shard(shard) => *shard,
                    Beside::Table(table) => table.shard(hash(entry.owner)),
                };
                let guess = guesses.get(source).copied().unwrap_or(0);
                let Some((index, bytes, at)) = shard.find_from(guess, entry.tag, entry.owner) else { continue };
                if let Some(guess) = guesses.get_mut(source) {
                    *guess = index + 1;
                }
                if bytes[at..].strip_prefix(entry.bytes).is_some_and(|behind| behind.starts_with(entry.rest)) {
                    shared = Some((number(bytes), at));
                    is_whole &= whole.is_none_or(|whole| std::ptr::eq(whole, shard));
                    whole = Some(shard);
                    break;
                }
            }
            is_whole &= shared.is_some();
            self.shared.push(shared);
        }
        whole.filter(|shard| is_whole && shard.names() == entries.len())
    }
}
