//! A table of what several tables hold together.
//!
//! Shard by shard, because all tables divide hashes alike. Where one table alone has nodes in a shard of its own size,
//! that shard is taken as it is; elsewhere nodes that one table alone has are pointed to. What stands for an owner that
//! several have is for the caller to say; since that has names below which the tables have in part together, it is
//! asked for all of them before any shard is made. Many shards are made by several threads.
//!
//! Cost: O(names) to find what several have, less where shards are taken as they are; O(octets) for what is made.

use super::super::editor::Counts;
use super::super::node::Node;
use super::super::{editor, node, parallel};
use super::shard::{Beside, Entry, Freezer, Shard};
use super::{Table, bits_for, hash, overlapping, shard_index};
use crate::zone::RRsets;
use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

/// Number of names below which other threads are not worth their start.
const MANY_NAMES: usize = 10_000;
/// Nodes of a table with so many times fewer shards, as a power of two, are sorted first.
const FAR_BITS: u32 = 2;

/// Tables to be united.
pub struct Union<'a> {
    views: Vec<View<'a>>,
    sources: Arc<[Table]>,
    bits: u32,
    parts: usize,
}

/// The nodes of a table by their hashes.
enum View<'a> {
    Near(&'a Table),
    /// Sorted by hash.
    Far(Vec<Item<'a>>),
}

/// Place of a node, with the number of its table. Small, because it is sorted, and most nodes are not looked at but for
/// their owners.
#[derive(Clone, Copy)]
struct Item<'a> {
    hash: u64,
    bytes: &'a Arc<[u8]>,
    at: u32,
    table: u32,
}

/// Owners that several tables have, with the nodes that stand for them.
pub struct United<T> {
    several: Vec<Several>,
    /// Notes of the caller, one for each of them.
    pub notes: Vec<T>,
    /// Counts of all nodes of these owners, and of those that stand for them.
    pub before: Counts,
    pub after: Counts,
}

/// An owner that several tables have.
struct Several {
    hash: u64,
    /// Labels of the owner in front of the origin.
    owner: Box<[u8]>,
    /// Tables that have it, but for one.
    others: u32,
    /// Names directly below it, those of each table counted.
    below: u32,
    /// Sets of the node that stands for all.
    sets: Box<[u8]>,
}

impl<T> Default for United<T> {
    fn default() -> United<T> {
        United { several: Vec::new(), notes: Vec::new(), before: Counts::default(), after: Counts::default() }
    }
}

impl<T> United<T> {
    /// Asks what stands for the nodes of an owner.
    fn push(&mut self, hash: u64, nodes: &[Node<'_>], unite: impl Fn(&[u8], &[Node<'_>]) -> (RRsets, T)) {
        let owner = nodes[0].owner;
        let (rrsets, note) = unite(owner, nodes);
        let mut sets = Vec::new();
        node::write_sets(&rrsets, &mut sets);
        let (others, below) = (nodes.len() as u32 - 1, nodes.iter().map(|node| node.below).sum());
        nodes.iter().for_each(|node| self.before.add_any(*node));
        self.after.add_any(Node { owner, below, spelled: None, sets: &sets });
        self.several.push(Several { hash, owner: owner.into(), others, below, sets: sets.into() });
        self.notes.push(note);
    }

    /// Puts what stands for further owners behind.
    fn join(mut self, mut other: United<T>) -> United<T> {
        self.several.append(&mut other.several);
        self.notes.append(&mut other.notes);
        let none = Counts::default();
        self.before = self.before.change(&other.before, &none);
        self.after = self.after.change(&other.after, &none);
        self
    }
}

impl<'a> Union<'a> {
    /// Begins with tables, of which there is at least one.
    pub fn new(tables: &[&'a Table]) -> Union<'a> {
        let names = tables.iter().map(|table| table.names).sum();
        let bits = bits_for(names, tables.iter().map(|table| table.bits).max().unwrap_or(0));
        let view = |(number, table): (usize, &&'a Table)| {
            if table.bits + FAR_BITS >= bits { View::Near(table) } else { View::Far(Item::sorted(number, table)) }
        };
        let sources = tables.iter().copied().cloned().collect();
        let views = tables.iter().enumerate().map(view).collect();
        Union { views, sources, bits, parts: parallel::parts(names, MANY_NAMES) }
    }

    /// Asks what stands for each owner that several tables have.
    pub fn unite<T: Send>(&self, unite: impl Fn(&[u8], &[Node<'_>]) -> (RRsets, T) + Sync) -> United<T> {
        let find = |range: Range<usize>| {
            let mut found = United::default();
            let (mut items, mut nodes) = (Vec::new(), Vec::new());
            for index in range {
                if self.sole(index).is_some() {
                    continue;
                }
                self.gather(index, &mut items);
                for group in items.chunk_by(Item::is_same_owner).filter(|group| group.len() > 1) {
                    nodes.clear();
                    nodes.extend(group.iter().map(Item::node));
                    found.push(group[0].hash, &nodes, &unite);
                }
            }
            found
        };
        let parts = parallel::in_parts(1 << self.bits, self.parts, find);
        parts.into_iter().reduce(United::join).unwrap_or_default()
    }

    /// Makes the table with what stands for the owners that several tables have.
    pub fn finish<T: Sync>(self, United { several, .. }: &United<T>) -> Table {
        // Children that several have were counted for each.
        let mut twice: HashMap<&[u8], u32> = HashMap::new();
        for child in several {
            if let Some(parent) = editor::parent(&child.owner) {
                *twice.entry(parent).or_default() += child.others;
            }
        }
        let below = |parent: &Several| parent.below - twice.get(&*parent.owner).copied().unwrap_or(0);
        let make = |range: Range<usize>| {
            let (mut made, mut freezer, mut beside) = (Vec::with_capacity(range.len()), Freezer::default(), Vec::new());
            let (mut items, mut united) = (Vec::new(), Vec::new());
            let mut rest =
                &several[several.partition_point(|other| shard_index(other.hash, self.bits) < range.start)..];
            for index in range {
                if let Some(shard) = self.sole(index) {
                    made.push(shard.clone());
                    continue;
                }
                let here = rest.iter().take_while(|other| shard_index(other.hash, self.bits) == index).count();
                let (several, behind) = rest.split_at(here);
                rest = behind;
                // Where each begins.
                let mut starts = Vec::with_capacity(several.len());
                united.clear();
                for one in several {
                    starts.push(united.len());
                    let node = Node { owner: &one.owner, below: below(one), spelled: None, sets: &one.sets };
                    if editor::exists(node) {
                        node.write(&mut united);
                    }
                }
                starts.push(united.len());
                self.gather(index, &mut items);
                let mut entries = Vec::with_capacity(items.len());
                let mut number = 0;
                for group in items.chunk_by(Item::is_same_owner) {
                    let Item { hash, bytes, at, .. } = group[0];
                    if group.len() == 1 {
                        entries.push(Entry::held(hash as u16, bytes, at as usize));
                        continue;
                    }
                    let node = &united[starts[number]..starts[number + 1]];
                    number += 1;
                    if !node.is_empty() {
                        entries.push(Entry::new(hash as u16, group[0].owner(), node));
                    }
                }
                Beside::list(&self.sources, index, self.bits, &mut beside);
                made.push(freezer.freeze(&entries, &beside));
            }
            made
        };
        let made: Vec<Shard> = parallel::in_parts(1 << self.bits, self.parts, make).into_iter().flatten().collect();
        let names = made.iter().map(Shard::names).sum();
        Table::of(&made, self.bits, names, self.sources)
    }

    /// A shard of the one table that has any nodes there, if it is of the same size.
    fn sole(&self, index: usize) -> Option<&'a Shard> {
        let mut sole = None;
        for view in &self.views {
            match view {
                View::Far(items) if Item::of_shard(items, index, self.bits).is_empty() => {}
                View::Near(table) if table.bits == self.bits => {
                    let shard = table.shard_at(index);
                    if shard.names() > 0 && sole.replace(shard).is_some() {
                        return None;
                    }
                }
                _ => return None,
            }
        }
        sole.filter(|shard| shard.others.is_none())
    }

    /// Collects the nodes of a shard from all tables, in the order of hashes, owners and tables.
    fn gather(&self, index: usize, items: &mut Vec<Item<'a>>) {
        items.clear();
        for (number, view) in self.views.iter().enumerate() {
            match view {
                View::Far(sorted) => items.extend_from_slice(Item::of_shard(sorted, index, self.bits)),
                View::Near(table) => {
                    let shards = overlapping(index, self.bits, table.bits);
                    let nodes = shards.flat_map(|index| Item::list(number, table.shard_at(index)));
                    items.extend(nodes.filter(|item| shard_index(item.hash, self.bits) == index));
                }
            }
        }
        items.sort_unstable_by(|a, b| {
            a.hash.cmp(&b.hash).then_with(|| a.owner().cmp(b.owner())).then(a.table.cmp(&b.table))
        });
    }
}

impl<'a> Item<'a> {
    /// The nodes of a shard.
    fn list(table: usize, shard: &'a Shard) -> impl Iterator<Item = Item<'a>> {
        (0..shard.names()).map(move |index| {
            let (owner, bytes, at) = shard.owner(index);
            // The nodes of a shard fit into 4 GiB.
            Item { hash: hash(owner), bytes, at: at as u32, table: table as u32 }
        })
    }

    /// Owner of the node.
    fn owner(&self) -> &'a [u8] {
        Node::owner_at(&self.bytes[self.at as usize..])
    }

    /// The node.
    fn node(&self) -> Node<'a> {
        Node::take(&mut &self.bytes[self.at as usize..])
    }

    /// All nodes of a table by their hashes.
    fn sorted(number: usize, table: &'a Table) -> Vec<Item<'a>> {
        let mut items: Vec<_> = table.shards().flat_map(|shard| Item::list(number, shard)).collect();
        items.sort_unstable_by_key(|item| item.hash);
        items
    }

    /// Nodes of a sorted list that are in a shard.
    fn of_shard<'s>(sorted: &'s [Item<'a>], index: usize, bits: u32) -> &'s [Item<'a>] {
        let rest = &sorted[sorted.partition_point(|item| shard_index(item.hash, bits) < index)..];
        &rest[..rest.partition_point(|item| shard_index(item.hash, bits) == index)]
    }

    /// Returns true if two nodes have one owner.
    fn is_same_owner(&self, other: &Item<'_>) -> bool {
        self.hash == other.hash && self.owner() == other.owner()
    }
}
