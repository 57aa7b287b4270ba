//! A table as bytes, its shards as they are, and back.
//!
//! The bytes: keys of the hash, number of shards as a power of two, the shards with their lengths. The first table that
//! a process reads gives it its keys, so that shards need not be made anew; tables with others are told, for the caller
//! to make theirs of the nodes.
//!
//! Invariant: whatever the bytes are, a table that is read holds what tables hold. That names above others are there,
//! and know how many are below, is told by two sums of hashes, which are equal by chance once in 2^64 times.
//!
//! Cost: O(octets); many shards are read by several threads.

use super::super::editor::{Counts, exists, parent};
use super::super::image::ImageError;
use super::super::loader::resolve_aliases;
use super::super::node::{self, Node};
use super::super::{ByteReader, parallel};
use super::shard::{Entry, Freezer, HEAD_BYTES, Shard, TAG_BYTES, WIDE};
use super::{KEYS, MOST_NAMES, Table, hash, keys, shard_index};
use std::io::{self, Write};
use std::ops::Range;
use std::sync::Arc;
use wire::name::{MAX_LABEL_BYTES, MAX_NAME_BYTES, Name};
use wire::rr::{Set, read_number, read_sized, rtype};

/// Number of octets below which other threads are not worth their start.
const MANY_BYTES: usize = 1 << 20;
/// Number of shards, as a power of two, that is more than memory has room for.
const MOST_BITS: u32 = 32;

/// Result of reading.
pub enum StoredTable<'a> {
    Table(Table, Box<Counts>),
    /// The nodes with records of a table whose hash had other keys.
    Nodes(Vec<Node<'a>>),
}

/// Sums over the nodes of some shards.
#[derive(Default)]
struct Sums {
    counts: Counts,
    names: usize,
    /// Hashes of the owners above each, and of each as often as there are names below it.
    above: u64,
    below: u64,
}

impl Sums {
    /// Adds others.
    fn add(self, other: Sums) -> Sums {
        Sums {
            counts: self.counts.change(&other.counts, &Counts::default()),
            names: self.names + other.names,
            above: self.above.wrapping_add(other.above),
            below: self.below.wrapping_add(other.below),
        }
    }
}

impl Table {
    /// Writes the table.
    pub fn write(&self, out: &mut impl Write) -> io::Result<()> {
        keys().iter().try_for_each(|key| out.write_all(&key.to_be_bytes()))?;
        out.write_all(&self.bits.to_be_bytes())?;
        let mut freezer = Freezer::default();
        for shard in self.shards() {
            let entry = |index| {
                let (node, bytes) = shard.node(index);
                Entry::new(shard.tag(index), node.owner, bytes)
            };
            let refreeze = || freezer.freeze(&(0..shard.names()).map(entry).collect::<Vec<_>>(), &[]);
            let alone = shard.others.is_some().then(refreeze);
            let bytes = &alone.as_ref().unwrap_or(shard).bytes;
            out.write_all(&(bytes.len() as u32).to_be_bytes())?;
            out.write_all(bytes)?;
        }
        Ok(())
    }

    /// Takes what [`Table::write`] wrote of a zone.
    pub fn read<'a>(origin: &Name, reader: &mut ByteReader<'a>) -> Result<StoredTable<'a>, ImageError> {
        let whole = reader.0.len();
        let mut key = || reader.u64().ok_or(ImageError::Short);
        let found = [key()?, key()?, key()?];
        let (bits, parts) = split(reader).ok_or(ImageError::Short)?;
        let is_ours = *KEYS.get_or_init(|| found) == found;
        let read = |range: Range<usize>| -> Result<_, ImageError> {
            let (mut sums, mut shards) = (Sums::default(), Vec::new());
            for (index, part) in range.clone().zip(&parts[range]) {
                sums = sums.add(check(origin, part, is_ours.then_some((index, bits)))?);
                if is_ours {
                    shards.push(Shard { bytes: Arc::from(*part), others: None });
                }
            }
            Ok((shards, sums))
        };
        let (mut shards, mut sums) = (Vec::with_capacity(parts.len()), Sums::default());
        for part in parallel::in_parts(parts.len(), parallel::parts(whole, MANY_BYTES), read) {
            let (more_shards, more) = part?;
            shards.extend(more_shards);
            sums = sums.add(more);
        }
        if sums.above != sums.below {
            return Err(ImageError::Above);
        }
        if !is_ours {
            let nodes = parts.iter().flat_map(|part| nodes_of(part)).filter(|node| !node.is_empty());
            return Ok(StoredTable::Nodes(nodes.collect()));
        }
        if sums.names >> bits > MOST_NAMES {
            return Err(ImageError::Place);
        }
        Ok(StoredTable::Table(Table::of(&shards, bits, sums.names, Arc::new([])), Box::new(sums.counts)))
    }
}

/// Takes the number of a table's shards, as a power of two, and their bytes.
fn split<'a>(reader: &mut ByteReader<'a>) -> Option<(u32, Vec<&'a [u8]>)> {
    let bits = reader.u32().filter(|bits| *bits <= MOST_BITS && reader.0.len() >> bits > 0)?;
    let mut part = |_| {
        let length = reader.u32()? as usize;
        reader.take(length)
    };
    let parts: Option<Vec<&[u8]>> = (0..1u64 << bits).map(&mut part).collect();
    Some((bits, parts?))
}

/// The nodes of a shard that was found to be sound.
fn nodes_of(mut bytes: &[u8]) -> impl Iterator<Item = Node<'_>> {
    let head = u32::from_le_bytes(*bytes.first_chunk().expect("it has a head"));
    let names = (head & !WIDE) as usize;
    bytes = &bytes[HEAD_BYTES + (TAG_BYTES + if head & WIDE != 0 { 4 } else { 2 }) * names..];
    (0..names).map(move |_| Node::take(&mut bytes))
}

/// Checks a shard of a zone, which is to be the one of a number, of so many as a power of two; without these, where its
/// nodes are has no meaning.
fn check(origin: &Name, bytes: &[u8], index: Option<(usize, u32)>) -> Result<Sums, ImageError> {
    let head = u32::from_le_bytes(*bytes.first_chunk().ok_or(ImageError::Short)?);
    let (names, place_bytes) = ((head & !WIDE) as usize, if head & WIDE != 0 { 4 } else { 2 });
    let places_at = HEAD_BYTES + TAG_BYTES * names;
    let mut rest = bytes.get(places_at + place_bytes * names..).ok_or(ImageError::Short)?;
    let (tags, places) = bytes[HEAD_BYTES..].split_at(TAG_BYTES * names);
    let tags = tags.as_chunks::<TAG_BYTES>().0;
    let mut owners: Vec<&[u8]> = Vec::with_capacity(names);
    let mut sums = Sums { names, ..Sums::default() };
    for (number, place) in places.chunks_exact(place_bytes).take(names).enumerate() {
        let at = place.iter().rev().fold(0, |at, octet| at << 8 | usize::from(*octet));
        if at != bytes.len() - rest.len() {
            return Err(ImageError::Place);
        }
        let node = read_node(origin, &mut rest)?;
        let hash = hash(node.owner);
        let is_here = |(index, bits)| shard_index(hash, bits) == index && tags[number] == (hash as u16).to_le_bytes();
        let mut before = tags[..number].iter().zip(&owners);
        if !index.is_none_or(is_here) || before.any(|(tag, owner)| *tag == tags[number] && *owner == node.owner) {
            return Err(ImageError::Place);
        }
        owners.push(node.owner);
        sums.counts.add_any(node);
        sums.above = sums.above.wrapping_add(parent(node.owner).map_or(0, super::hash));
        sums.below = sums.below.wrapping_add(hash.wrapping_mul(node.below.into()));
    }
    if rest.is_empty() { Ok(sums) } else { Err(ImageError::Place) }
}

/// Takes a node of a zone from the front of bytes that may be anything.
fn read_node<'a>(origin: &Name, bytes: &mut &'a [u8]) -> Result<Node<'a>, ImageError> {
    let head = read_number(bytes).ok_or(ImageError::Short)?;
    let owner = read_sized(bytes).ok_or(ImageError::Short)?;
    let spelled = if head & 1 == 1 { Some(read_sized(bytes).ok_or(ImageError::Short)?) } else { None };
    let sets = read_sized(bytes).ok_or(ImageError::Short)?;
    let node = Node { owner, below: head >> 1, spelled, sets };
    if !is_owner(owner, origin) || !exists(node) || spelled.is_some_and(|spelled| !is_spelling(spelled, node, origin)) {
        return Err(ImageError::Owner);
    }
    if !are_sets(sets, owner.is_empty()) {
        return Err(ImageError::Records(Name::join(owner, origin)));
    }
    Ok(node)
}

/// Returns true if octets are lowercase labels that fit in front of an origin.
fn is_owner(owner: &[u8], origin: &Name) -> bool {
    let mut at = 0;
    while at < owner.len() {
        let length = usize::from(owner[at]);
        if length == 0 || length > MAX_LABEL_BYTES {
            return false;
        }
        at += 1 + length;
    }
    at == owner.len() && at + origin.as_wire().len() <= MAX_NAME_BYTES && !owner.iter().any(u8::is_ascii_uppercase)
}

/// Returns true if octets spell the name of a node with records, with capitals.
fn is_spelling(spelled: &[u8], node: Node<'_>, origin: &Name) -> bool {
    let (labels, suffix) = spelled.split_at(node.owner.len().min(spelled.len()));
    let is_same = labels.eq_ignore_ascii_case(node.owner) && suffix.eq_ignore_ascii_case(origin.as_wire());
    is_same && spelled.iter().any(u8::is_ascii_uppercase) && !node.is_empty()
}

/// Returns true if octets are sets that a name of a zone may have.
fn are_sets(mut bytes: &[u8], at_origin: bool) -> bool {
    let whole = bytes;
    let (mut last, mut aliases, mut count) = (None, false, 0);
    while !bytes.is_empty() {
        let Some(set) = Set::read(&mut bytes) else { return false };
        if last.is_some_and(|last| last >= set.rtype) || set.rtype == rtype::SOA && !at_origin {
            return false;
        }
        aliases |= matches!(set.rtype, rtype::CNAME | rtype::DNAME);
        count += set.count;
        last = Some(set.rtype);
    }
    let are_resolved = || {
        let mut rrsets = node::sets(whole).map(|set| Arc::new(set.to_rrset())).collect();
        resolve_aliases(&mut rrsets).is_empty()
    };
    !aliases || count == 1 || are_resolved()
}
