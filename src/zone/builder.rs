//! A zone version that is made of all its names at once.
//!
//! Nodes are written one behind the other as they come, in any order; those that another zone has are only pointed to.
//! At the end they are sorted by hash, names between them and the origin are added where nothing else is (RFC 4592
//! section 2.2.2), and a table is made of all.
//!
//! Nodes are kept in parts, by the upper bits of their hashes, and so are the shards of a table: each part is let go as
//! soon as its shards are made, so the nodes are not in memory twice.
//!
//! Cost: O(octets), and O(names × log names) for the order; memory for the nodes once, and for one part of them.

use super::editor::{Counts, is_wildcard, parent};
use super::node::{self, Node};
use super::table::{self, ByHash, Maker, Owner, Stored, Table};
use super::{Editor, Zone, parallel};
use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};
use wire::name::Name;
use wire::rr::RRset;

/// Number of parts, as a power of two.
const PART_BITS: u32 = 5;
/// Number of names below which other threads are not worth their start.
const MANY_NAMES: usize = 10_000;

/// Names of a zone in the making.
pub struct Builder<'a> {
    origin: Name,
    parts: Vec<Part>,
    /// Nodes of other zones.
    shared: Vec<&'a [u8]>,
    scratch: Vec<u8>,
}

/// Names whose hashes begin alike.
#[derive(Default)]
struct Part {
    /// Nodes as they came, all without names below.
    bytes: Vec<u8>,
    /// Hash of the owner and place of each node.
    index: Vec<(u64, Place)>,
    /// Places of nodes that were replaced.
    replaced: HashSet<Place>,
    /// Nodes with names below.
    above: Vec<(u64, Place)>,
}

/// Place of a node.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Place {
    /// It begins at this octet.
    Own(u32),
    /// The number of a node of another zone.
    Shared(u32),
}

impl<'a> Builder<'a> {
    /// Starts from nothing.
    pub fn new(origin: Name) -> Builder<'a> {
        Builder {
            origin,
            parts: (0..1 << PART_BITS).map(|_| Part::default()).collect(),
            shared: Vec::new(),
            scratch: Vec::new(),
        }
    }

    /// Takes the RRsets of a name within the origin, and how it is spelled where that is not lowercase.
    pub fn push(&mut self, name: &Name, rrsets: &[Arc<RRset>], spelled: Option<&[u8]>) {
        if !rrsets.is_empty() {
            let mut sets = std::mem::take(&mut self.scratch);
            sets.clear();
            node::write_sets(rrsets, &mut sets);
            self.push_sets(name.owner_in(&self.origin.clone()), spelled, &sets);
            self.scratch = sets;
        }
    }

    /// Takes the RRsets of another zone's node as they are, for the same labels in front of this zone's origin.
    pub fn share(&mut self, stored: &Stored<'a>) {
        let Node { owner, below, spelled, sets } = stored.node;
        debug_assert!(spelled.is_none() && !sets.is_empty());
        if below > 0 {
            // Here there may be others below.
            return self.push_sets(owner, None, sets);
        }
        let place = Place::Shared(self.shared.len() as u32);
        self.parts[table::shard_index(stored.hash, PART_BITS)].index.push((stored.hash, place));
        self.shared.push(stored.bytes);
    }

    /// Takes the sets of an owner, of which there is at least one.
    pub(super) fn push_sets(&mut self, owner: &[u8], spelled: Option<&[u8]>, sets: &[u8]) {
        let hash = table::hash(owner);
        self.parts[table::shard_index(hash, PART_BITS)].push(hash, Node { owner, below: 0, spelled, sets });
    }

    /// Sorts the nodes. Those that share an owner are given to `unite`, in the order in which they came, which says
    /// what stands for all of them: spelling and sets.
    pub(super) fn sort<E>(
        &mut self,
        mut unite: impl FnMut(&[Node<'_>]) -> Result<(Option<Box<[u8]>>, Vec<u8>), E>,
    ) -> Result<(), E> {
        let Builder { parts, shared, .. } = self;
        let threads = threads(parts);
        parallel::each(parts, threads, |part| part.index.sort_unstable());
        parts.iter_mut().try_for_each(|part| part.unite(shared, &mut unite))
    }

    /// The node of an owner, once they are sorted.
    fn find(&self, hash: u64, owner: &[u8]) -> Option<Node<'_>> {
        let part = &self.parts[table::shard_index(hash, PART_BITS)];
        part.find(&self.shared, hash, owner).map(|place| part.node(&self.shared, place))
    }

    /// Begins the version that holds the nodes, sharing what it can with the base and these zones. Returns also the
    /// names that differ from those of the base; none is listed where there is no base.
    pub fn into_editor(mut self, base: Option<&Zone>, beside: &[&Zone]) -> (Editor, Vec<Name>) {
        let threads = threads(&self.parts);
        parallel::each(&mut self.parts, threads, |part| part.index.sort_unstable());
        let Some(base) = base else { return (self.build(beside), Vec::new()) };
        let is_missing = |node: &Node<'_>| self.find(table::hash(node.owner), node.owner).is_none();
        self.compare(base, base.nodes().filter(|node| !node.is_empty() && is_missing(node)))
    }

    /// Puts what differs from a base on that: the nodes here, and the lack of some that the base has.
    pub(super) fn compare<'g>(&self, base: &Zone, gone: impl Iterator<Item = Node<'g>>) -> (Editor, Vec<Name>) {
        let mut editor = Editor::from_zone(base);
        let mut touched = Vec::new();
        for (hash, node) in self.parts.iter().flat_map(|part| part.nodes(&self.shared)) {
            let old = base.table.get_hashed(hash, node.owner).unwrap_or_default();
            if old.sets != node.sets || old.spelled != node.spelled {
                editor.set_bytes(node.owner, node.sets, node.spelled);
                touched.push(Name::join(node.owner, &self.origin));
            }
        }
        for node in gone {
            editor.set_bytes(node.owner, &[], None);
            touched.push(base.name_of(node));
        }
        (editor, touched)
    }

    /// Makes a table of all nodes.
    fn build(mut self, beside: &[&Zone]) -> Editor {
        let mut counts = Counts::default();
        let parents = self.parents(&mut counts);
        for (owner, below) in parents {
            let hash = table::hash(&owner);
            let part = &mut self.parts[table::shard_index(hash, PART_BITS)];
            counts.wildcards += u32::from(!part.put_above(&self.shared, hash, &owner, below) && is_wildcard(&owner));
        }
        let threads = threads(&self.parts);
        parallel::each(&mut self.parts, threads, Part::close);
        let sources: Vec<Table> = beside.iter().map(|zone| zone.table.clone()).collect();
        let maker = Maker::new(self.parts.iter().map(|part| part.index.len()).sum(), sources.into());
        let table = if maker.bits() < PART_BITS {
            let made = maker.make(0, 0, self.parts.iter().flat_map(|part| part.all_stored(&self.shared)));
            maker.finish([made])
        } else {
            let parts: Vec<Mutex<Part>> = self.parts.into_iter().map(Mutex::new).collect();
            let make = |index: usize| {
                // Each part goes with the shards that were made of it, so that nodes are not in memory twice.
                let part = std::mem::take(&mut *parts[index].lock().unwrap_or_else(PoisonError::into_inner));
                maker.make(index, PART_BITS, part.all_stored(&self.shared))
            };
            let made = parallel::in_parts(parts.len(), threads, |range| range.map(make).collect::<Vec<_>>());
            maker.finish(made.into_iter().flatten())
        };
        Editor::with_table(self.origin, table, counts)
    }

    /// Counts everything, and the names directly below each name; names in between come to be where they must.
    fn parents(&self, counts: &mut Counts) -> Vec<(Box<[u8]>, u32)> {
        let count = |range: Range<usize>| {
            let (mut counts, mut parents) = (Counts::default(), Parents::default());
            let own = self.parts[range.clone()].iter().flat_map(Part::own_nodes);
            let shared = if range.start == 0 { &self.shared[..] } else { &[] };
            // Neighbours in the order of their coming often have the same parent.
            let mut last: (&[u8], u32) = (&[], 0);
            for node in own.chain(shared.iter().map(|bytes| Node::take(&mut &**bytes))) {
                counts.add(node);
                let Some(parent) = parent(node.owner) else { continue };
                if parent != last.0 {
                    add(&mut parents, last);
                    last = (parent, 0);
                }
                last.1 += 1;
            }
            add(&mut parents, last);
            (counts, parents)
        };
        let mut parents = Parents::default();
        for (more, found) in parallel::in_parts(self.parts.len(), threads(&self.parts), count) {
            *counts = std::mem::take(counts).change(&more, &Counts::default());
            found.into_iter().for_each(|(owner, below)| *parents.entry(owner).or_default() += below);
        }
        let is_missing = |owner: &Owner<'_>| self.find(owner.hash, owner.labels).is_none();
        let mut missing: Vec<Owner<'_>> = parents.keys().filter(|owner| is_missing(owner)).copied().collect();
        while let Some(owner) = missing.pop() {
            let Some(parent) = parent(owner.labels).map(Owner::new) else { continue };
            let is_new = !parents.contains_key(&parent);
            *parents.entry(parent).or_default() += 1;
            if is_new && is_missing(&parent) {
                missing.push(parent);
            }
        }
        parents.into_iter().map(|(owner, below)| (owner.labels.into(), below)).collect()
    }
}

impl Part {
    /// Takes a node.
    fn push(&mut self, hash: u64, node: Node<'_>) {
        let place = self.end();
        self.index.push((hash, place));
        node.write(&mut self.bytes);
    }

    /// The place of the next node.
    fn end(&self) -> Place {
        Place::Own(u32::try_from(self.bytes.len()).expect("a part fits into 4 GiB, because transfers are bounded"))
    }

    /// The bytes from a place on.
    fn at<'s>(&'s self, shared: &[&'s [u8]], place: Place) -> &'s [u8] {
        match place {
            Place::Own(start) => &self.bytes[start as usize..],
            Place::Shared(index) => shared[index as usize],
        }
    }

    /// The bytes of the node at a place.
    fn stored<'s>(&'s self, shared: &[&'s [u8]], place: Place) -> &'s [u8] {
        let all = self.at(shared, place);
        let mut rest = all;
        Node::take(&mut rest);
        &all[..all.len() - rest.len()]
    }

    /// Hashes and bytes of all nodes, in the order of the index.
    fn all_stored<'s>(&'s self, shared: &'s [&'s [u8]]) -> impl Iterator<Item = (u64, &'s [u8])> {
        self.index.iter().map(|(hash, place)| (*hash, self.stored(shared, *place)))
    }

    /// The node at a place.
    fn node<'s>(&'s self, shared: &[&'s [u8]], place: Place) -> Node<'s> {
        Node::take(&mut self.at(shared, place))
    }

    /// All nodes in the order of the index.
    fn nodes<'s>(&'s self, shared: &'s [&'s [u8]]) -> impl Iterator<Item = (u64, Node<'s>)> {
        self.index.iter().map(|(hash, place)| (*hash, self.node(shared, *place)))
    }

    /// All nodes that are no other zone's, in the order in which they came.
    fn own_nodes(&self) -> impl Iterator<Item = Node<'_>> {
        let mut rest = &self.bytes[..];
        std::iter::from_fn(move || {
            while !rest.is_empty() {
                let place = Place::Own((self.bytes.len() - rest.len()) as u32);
                let node = Node::take(&mut rest);
                if self.replaced.is_empty() || !self.replaced.contains(&place) {
                    return Some(node);
                }
            }
            None
        })
    }

    /// Finds the node of an owner among those that are sorted.
    fn find(&self, shared: &[&[u8]], hash: u64, owner: &[u8]) -> Option<Place> {
        let first = self.index.partition_point(|entry| entry.0 < hash);
        let same = self.index[first..].iter().take_while(|entry| entry.0 == hash);
        same.into_iter().map(|(_, place)| *place).find(|place| self.node(shared, *place).owner == owner)
    }

    /// Gives a name so many names below it. Returns whether it was there.
    fn put_above(&mut self, shared: &[&[u8]], hash: u64, owner: &[u8], below: u32) -> bool {
        let old = self.find(shared, hash, owner);
        let mut bytes = Vec::new();
        let node = old.map_or(Node { owner, ..Node::default() }, |place| self.node(shared, place));
        Node { below, ..node }.write(&mut bytes);
        self.replaced.extend(old);
        self.above.push((hash, self.end()));
        self.bytes.extend_from_slice(&bytes);
        old.is_some()
    }

    /// Sorts in the nodes with names below.
    fn close(&mut self) {
        self.index.retain(|(_, place)| !self.replaced.contains(place));
        self.index.append(&mut self.above);
        self.index.sort_unstable();
    }

    /// Unites the nodes that share an owner, once they are sorted.
    fn unite<E>(
        &mut self,
        shared: &[&[u8]],
        mut unite: impl FnMut(&[Node<'_>]) -> Result<(Option<Box<[u8]>>, Vec<u8>), E>,
    ) -> Result<(), E> {
        let mut doubles: Vec<(u64, Vec<Place>)> = Vec::new();
        for group in self.index.chunk_by(|a, b| a.0 == b.0).filter(|group| group.len() > 1) {
            let mut owners: HashMap<&[u8], Vec<Place>> = HashMap::new();
            group.iter().for_each(|(_, place)| owners.entry(self.node(shared, *place).owner).or_default().push(*place));
            doubles.extend(owners.into_values().filter(|places| places.len() > 1).map(|places| (group[0].0, places)));
        }
        if doubles.is_empty() {
            return Ok(());
        }
        for (hash, places) in doubles {
            let nodes: Vec<Node<'_>> = places.iter().map(|place| self.node(shared, *place)).collect();
            let (spelled, sets) = unite(&nodes)?;
            let owner = nodes[0].owner.to_vec();
            self.replaced.extend(places);
            self.push(hash, Node { owner: &owner, below: 0, spelled: spelled.as_deref(), sets: &sets });
        }
        self.index.retain(|(_, place)| !self.replaced.contains(place));
        self.index.sort_unstable();
        Ok(())
    }
}

/// Names below each parent.
type Parents<'a> = HashMap<Owner<'a>, u32, ByHash>;

/// Counts names below a parent.
fn add<'a>(parents: &mut Parents<'a>, (owner, below): (&'a [u8], u32)) {
    if below > 0 {
        *parents.entry(Owner::new(owner)).or_default() += below;
    }
}

/// Among how many threads the work on parts is divided.
fn threads(parts: &[Part]) -> usize {
    parallel::parts(parts.iter().map(|part| part.index.len()).sum(), MANY_NAMES)
}
