//! A table with other nodes at some owners.
//!
//! As long as the number of shards stays, each shard that is touched is made anew by itself, in the order that its
//! nodes have, and groups without such a shard are shared. Many shards are made by several threads. A node that a source
//! still has where the shard points is not looked for.
//!
//! Cost: O(octets of the shards that are touched + shards of their groups); with another number of shards O(octets).

use super::super::node::Node;
use super::super::parallel;
use super::shard::{Beside, Entry, Freezer, Shard};
use super::{GROUP_BITS, Table, bits_for, hash, overlapping, shard_index};
use std::ops::Range;
use std::sync::Arc;

/// Shards of a group.
const GROUP: usize = 1 << GROUP_BITS;
/// Number of shards to be made below which other threads are not worth their start.
const MANY_SHARDS: usize = 512;

/// Another node at an owner, or none.
pub struct NodeChange<'a> {
    /// Hash of the owner, as [`hash`] gives it.
    pub hash: u64,
    pub owner: &'a [u8],
    /// True if the table has no node there.
    pub is_new: bool,
    /// Node as [`Node::write`](super::Node) writes it: what stands in front of the octets of its sets, and they.
    pub node: Option<[&'a [u8]; 2]>,
}

impl Table {
    /// The table with other nodes at some owners, each given once, sharing what it can with this one and with the
    /// sources given.
    pub fn change(&self, mut changes: Vec<NodeChange<'_>>, sources: Arc<[Table]>) -> Table {
        changes.sort_unstable_by_key(|change| change.hash);
        let names = changes
            .iter()
            .fold(self.names, |names, change| names + usize::from(change.node.is_some()) - usize::from(!change.is_new));
        let bits = bits_for(names, self.bits);
        if bits != self.bits {
            return self.resize(bits, names, &changes, sources);
        }
        let mut touched = self.outdated(&sources);
        changes.iter().for_each(|change| touched[shard_index(change.hash, bits)] = true);
        let many = touched.iter().filter(|touched| **touched).count();
        let parts = parallel::parts(many, MANY_SHARDS);
        let made = parallel::in_parts(self.groups.len(), parts, |range| {
            self.change_groups(range, &touched, &changes, &sources)
        });
        let octets = made.iter().fold(self.octets, |octets, (_, more, less)| octets + more - less);
        let groups = made.into_iter().flat_map(|(groups, ..)| groups).collect();
        Table { groups, bits, names, octets, sources }
    }

    /// Makes the groups of a range, with the changes that concern them, which are sorted. Returns also the octets of the
    /// shards that are made, and of those that they replace.
    fn change_groups(
        &self,
        range: Range<usize>,
        touched: &[bool],
        changes: &[NodeChange<'_>],
        sources: &[Table],
    ) -> (Vec<Arc<[Shard]>>, u64, u64) {
        let mut rest = &changes[changes.partition_point(|change| self.index_of(change) < range.start * GROUP)..];
        let (mut freezer, mut beside) = (Freezer::default(), Vec::new());
        let (mut made, mut more, mut less) = (Vec::with_capacity(range.len()), 0, 0);
        for (group, old) in range.clone().zip(&self.groups[range]) {
            let first = group * GROUP;
            if !touched[first..first + old.len()].contains(&true) {
                made.push(old.clone());
                continue;
            }
            // Sharing a shard counts in its memory, and each is elsewhere.
            old.iter().for_each(Shard::fetch_counts);
            let mut shard = |index: usize| {
                let old = &old[index - first];
                if !touched[index] {
                    return old.clone();
                }
                let here = rest.iter().take_while(|change| self.index_of(change) == index).count();
                let (changes, behind) = rest.split_at(here);
                rest = behind;
                Beside::list(sources, index, self.bits, &mut beside);
                let new = old.change(changes, &beside, &mut freezer);
                (more, less) = (more + new.weigh(), less + old.weigh());
                new
            };
            made.push((first..first + old.len()).map(&mut shard).collect());
        }
        (made, more, less)
    }

    /// The shard that a change concerns.
    fn index_of(&self, change: &NodeChange<'_>) -> usize {
        shard_index(change.hash, self.bits)
    }

    /// The owners whose records differ from those in another table, or how they are spelled.
    pub fn differing<'a>(&'a self, other: &'a Table) -> Vec<&'a [u8]> {
        let is_same = |index: usize, shard: &Shard| {
            self.bits == other.bits && shard.is(self.shard_at(index)) && shard.is(other.shard_at(index))
        };
        let mut owners = Vec::new();
        for (_, shard) in self.shards().enumerate().filter(|(index, shard)| !is_same(*index, shard)) {
            let nodes = shard.nodes().map(|(node, _)| node);
            let differs = |node: &Node<'_>| !node.has_same_records(other.get(node.owner).unwrap_or_default());
            owners.extend(nodes.filter(differs).map(|node| node.owner));
        }
        for (_, shard) in other.shards().enumerate().filter(|(index, shard)| !is_same(*index, shard)) {
            let nodes = shard.nodes().map(|(node, _)| node);
            let is_gone = |node: &Node<'_>| !node.is_empty() && self.get(node.owner).is_none();
            owners.extend(nodes.filter(is_gone).map(|node| node.owner));
        }
        owners
    }

    /// Marks the shards that may point into shards of sources that are no more.
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
                    outdated[overlapping(group << GROUP_BITS | index, old.bits, self.bits)].fill(true);
                }
            }
        }
        outdated
    }

    /// The table with another number of shards. Parts are made that both tables divide in the same way.
    fn resize(&self, bits: u32, names: usize, changes: &[NodeChange<'_>], sources: Arc<[Table]>) -> Table {
        let common = bits.min(self.bits);
        let (mut freezer, mut beside) = (Freezer::default(), Vec::new());
        let mut made: Vec<Shard> = Vec::with_capacity(1 << bits);
        let mut rest = changes;
        for part in 0..1 << common {
            let here = rest.iter().take_while(|change| shard_index(change.hash, common) == part).count();
            let (changes, behind) = rest.split_at(here);
            rest = behind;
            let mut entries: Vec<(u64, Entry<'_>)> = Vec::new();
            let shards = overlapping(part, common, self.bits).map(|index| self.shard_at(index));
            for (node, bytes) in shards.flat_map(Shard::nodes) {
                let hash = hash(node.owner);
                let first = changes.partition_point(|change| change.hash < hash);
                let mut same = changes[first..].iter().take_while(|change| change.hash == hash);
                if !same.any(|change| change.owner == node.owner) {
                    entries.push((hash, Entry::new(hash as u16, node.owner, bytes)));
                }
            }
            entries.extend(changes.iter().filter_map(|change| Some((change.hash, change.entry()?))));
            entries.sort_unstable_by_key(|entry| entry.0);
            let mut entries = entries.into_iter().peekable();
            let mut in_shard = Vec::new();
            for index in overlapping(part, common, bits) {
                in_shard.clear();
                while let Some((_, entry)) = entries.next_if(|entry| shard_index(entry.0, bits) == index) {
                    in_shard.push(entry);
                }
                Beside::list(&sources, index, bits, &mut beside);
                made.push(freezer.freeze(&in_shard, &beside));
            }
        }
        Table::of(&made, bits, names, sources)
    }
}

impl Shard {
    /// The shard with some changes.
    fn change(&self, changes: &[NodeChange<'_>], beside: &[Beside<'_>], freezer: &mut Freezer) -> Shard {
        if beside.is_empty()
            && let Some(shard) = self.splice(changes, freezer)
        {
            return shard;
        }
        let sources =
            beside.iter().filter_map(|beside| if let Beside::Shard(shard) = beside { Some(*shard) } else { None });
        if let Some(shard) = sources.into_iter().find(|source| self.becomes(source, changes)) {
            return shard.clone();
        }
        let mut entries: Vec<Entry<'_>> = Vec::with_capacity(self.names() + changes.len());
        let mut made: Vec<bool> = vec![false; changes.len()];
        let (names, wide) = self.head();
        for index in 0..names {
            let (tag, (bytes, at)) = (self.tag(index), self.place(names, wide, index));
            let is_same =
                |change: &NodeChange<'_>| change.hash as u16 == tag && Node::is_at(&bytes[at..], change.owner);
            if let Some(index) = changes.iter().position(is_same) {
                entries.extend(changes[index].entry());
                made[index] = true;
            } else if beside.iter().any(|beside| beside.has(bytes)) {
                entries.push(Entry::held(tag, bytes, at));
            } else {
                let (node, bytes) = self.node(index);
                entries.push(Entry::new(tag, node.owner, bytes));
            }
        }
        entries.extend(changes.iter().zip(made).filter(|(_, made)| !made).filter_map(|(change, _)| change.entry()));
        freezer.freeze(&entries, beside)
    }

    /// Changes a shard as [`Shard::change`] does, where all nodes are the shard's own, and remain so: most are not
    /// looked at.
    fn splice(&self, changes: &[NodeChange<'_>], freezer: &mut Freezer) -> Option<Shard> {
        let mut parts: Vec<(u16, [&[u8]; 2])> = Vec::with_capacity(self.names() + changes.len());
        parts.extend(self.own_nodes()?.map(|(tag, bytes)| (tag, [bytes, &[]])));
        for change in changes {
            let tag = change.hash as u16;
            let found = self.find(change.hash, change.owner).map(|(index, ..)| index);
            match (found, change.node) {
                (Some(index), node) => parts[index] = (tag, node.unwrap_or_default()),
                (None, Some(node)) => parts.push((tag, node)),
                (None, None) => {}
            }
        }
        parts.retain(|(_, [head, _])| !head.is_empty());
        freezer.join(&parts)
    }

    /// Returns true if a shard of a source holds what this one does after some changes, in the same order.
    fn becomes(&self, source: &Shard, changes: &[NodeChange<'_>]) -> bool {
        let (Some(ours), Some(theirs)) = (self.own_nodes(), source.own_nodes()) else { return false };
        if source.names() == 0 || source.names() > self.names() + changes.len() {
            return false;
        }
        let mut ours = ours.peekable();
        let mut made = 0;
        for (_, bytes) in theirs {
            if ours.next_if(|(_, ours)| *ours == bytes).is_some() {
                continue;
            }
            let is_it = |[head, sets]: [&[u8]; 2]| bytes.strip_prefix(head) == Some(sets);
            let Some(change) = changes.iter().find(|change| change.node.is_some_and(is_it)) else { return false };
            made += 1;
            if !change.is_new && ours.next_if(|(_, ours)| Node::is_at(ours, change.owner)).is_none() {
                return false;
            }
        }
        ours.next().is_none() && made == changes.len()
    }
}

impl<'a> NodeChange<'a> {
    /// The node as a shard gets it.
    fn entry(&self) -> Option<Entry<'a>> {
        let [head, sets] = self.node?;
        Some(Entry { rest: sets, ..Entry::new(self.hash as u16, self.owner, head) })
    }
}
