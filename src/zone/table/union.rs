//! Tables of what several tables hold together, for several choices of tables at once.
//!
//! All tables divide hashes alike, so what is in one range of hashes is read once for all choices, and each makes its
//! shards of that. Where one table of a choice alone has nodes in a shard of its own size, that shard is taken as it is;
//! elsewhere nodes that one table alone has are pointed to. What stands for an owner that several have is for the caller
//! to say. Since that has names below which the tables have in part together, all tables are gone through for those
//! names first. Many names are gone through by several threads.
//!
//! Cost: O(names of all tables) twice, less where shards are taken as they are; then, for each choice, O(its names),
//! and O(octets) for what several of its tables have.

use super::super::editor::Counts;
use super::super::node::Node;
use super::super::{editor, node, parallel};
use super::shard::{Beside, Entry, Freezer, Shard};
use super::{ByHash, Owner, Table, bits_for, hash, overlapping, shard_index};
use crate::zone::RRsets;
use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

/// Number of names below which other threads are not worth their start.
const MANY_NAMES: usize = 10_000;
/// Nodes of a table with so many times fewer shards than others have, as a power of two, are sorted first; choices whose
/// tables have so many times fewer are made for themselves.
const FAR_BITS: u32 = 2;

/// Makes the union of each choice of tables, which are given by number; none is empty. `unite` says what stands for an
/// owner that several of a choice have: it is given the number of the choice, and the nodes with their places in it.
pub fn unite<'a, T: Send>(
    tables: &[&'a Table],
    choices: &[Vec<usize>],
    unite: impl Fn(usize, &'a [u8], &[(usize, Node<'a>)]) -> (RRsets, T) + Sync,
) -> Vec<United<T>> {
    let choice = |(number, chosen): (usize, &Vec<usize>)| Choice::new(number, tables, chosen);
    let mut choices: Vec<Choice> = choices.iter().enumerate().map(choice).collect();
    choices.sort_by_key(|choice| choice.bits);
    let (mut all, mut rest) = (Vec::with_capacity(choices.len()), &choices[..]);
    while let Some(first) = rest.first() {
        let (alike, others) = rest.split_at(rest.partition_point(|choice| choice.bits <= first.bits + FAR_BITS));
        all.extend(Unions::new(tables, alike).unite(&unite));
        rest = others;
    }
    all.sort_by_key(|(number, _)| *number);
    all.into_iter().map(|(_, united)| united).collect()
}

/// The union of one choice.
pub struct United<T> {
    pub table: Table,
    /// Notes of the caller, one for each owner that several tables have.
    pub notes: Vec<T>,
    /// Counts of all nodes of these owners, and of those that stand for them.
    pub before: Counts,
    pub after: Counts,
}

/// A choice of tables.
struct Choice {
    number: usize,
    /// The tables, in the order of the choice.
    sources: Arc<[Table]>,
    /// Place in the choice of each of all tables, if it has one.
    places: Vec<Option<u32>>,
    /// The number of shards of the union, as a power of two.
    bits: u32,
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

/// Choices whose unions have nearly as many shards.
struct Unions<'a, 'u> {
    tables: &'u [&'a Table],
    choices: &'u [Choice],
    /// The chosen tables, with their numbers.
    views: Vec<(usize, View<'a>)>,
    /// The number of ranges of hashes, as a power of two; each is one shard or more of any union and near table.
    bits: u32,
    parts: usize,
}

/// Names directly below owners that several tables have, counted once less than there are tables that have them.
type Twice<'a> = HashMap<Owner<'a>, u32, ByHash>;

/// Walk through ranges of hashes, in order.
struct Walk<'u, 'a> {
    views: &'u [(usize, View<'a>)],
    bits: u32,
    index: usize,
    /// The items of each far view that are in the range.
    far: Vec<Range<usize>>,
}

/// A part of a union.
struct Part<T> {
    shards: Vec<Shard>,
    notes: Vec<T>,
    before: Counts,
    after: Counts,
}

/// Buffers in which shards are made, to be used again.
#[derive(Default)]
struct Maker<'a> {
    chosen: Vec<Item<'a>>,
    nodes: Vec<(usize, Node<'a>)>,
    sets: Vec<u8>,
    /// Nodes that stand for what several tables have, and where each ends.
    united: Vec<u8>,
    ends: Vec<usize>,
    freezer: Freezer,
}

impl Choice {
    /// Chooses tables by number.
    fn new(number: usize, tables: &[&Table], chosen: &[usize]) -> Choice {
        let names = chosen.iter().map(|table| tables[*table].names).sum();
        let most = chosen.iter().map(|table| tables[*table].bits).max().unwrap_or(0);
        let mut places = vec![None; tables.len()];
        (0..).zip(chosen).for_each(|(place, table)| places[*table] = Some(place));
        let sources = chosen.iter().map(|table| tables[*table].clone()).collect();
        Choice { number, sources, places, bits: bits_for(names, most) }
    }

    /// Number of names of all tables together.
    fn names(&self) -> usize {
        self.sources.iter().map(|table| table.names).sum()
    }

    /// Returns true if a node is of one of the tables.
    fn has(&self, item: &Item<'_>) -> bool {
        self.places[item.table as usize].is_some()
    }
}

impl<'a, 'u> Unions<'a, 'u> {
    /// Begins with tables and choices of them, of which there is at least one.
    fn new(tables: &'u [&'a Table], choices: &'u [Choice]) -> Unions<'a, 'u> {
        let is_chosen = |table: &usize| choices.iter().any(|choice| choice.places[*table].is_some());
        let chosen: Vec<usize> = (0..tables.len()).filter(is_chosen).collect();
        let most = chosen.iter().map(|table| tables[*table].bits).max().unwrap_or(0);
        let is_near = |table: &Table| table.bits + FAR_BITS >= most;
        let near = chosen.iter().map(|table| tables[*table]).filter(|table| is_near(table));
        let bits = near.map(|table| table.bits).chain(choices.iter().map(|choice| choice.bits)).min().unwrap_or(0);
        let view = |number: usize| match tables[number] {
            table if is_near(table) => (number, View::Near(table)),
            table => (number, View::Far(Item::sorted(number, table))),
        };
        let work = chosen.iter().map(|table| tables[*table].names).sum::<usize>()
            + choices.iter().map(Choice::names).sum::<usize>();
        let views = chosen.into_iter().map(view).collect();
        Unions { tables, choices, views, bits, parts: parallel::parts(work, MANY_NAMES) }
    }

    /// Makes the unions, each with the number of its choice.
    fn unite<T: Send>(
        &self,
        unite: impl Fn(usize, &'a [u8], &[(usize, Node<'a>)]) -> (RRsets, T) + Sync,
    ) -> Vec<(usize, United<T>)> {
        let ranges = 1 << self.bits;
        let counted = parallel::in_parts(ranges, self.parts, |range| self.count_twice(range));
        let mut twice: Vec<Twice<'a>> = self.choices.iter().map(|_| Twice::default()).collect();
        for (all, part) in counted.into_iter().flat_map(|part| (0..).zip(part)) {
            part.into_iter().for_each(|(parent, times)| *twice[all].entry(parent).or_default() += times);
        }
        let mut parts = parallel::in_parts(ranges, self.parts, |range| self.make(range, &twice, &unite));
        let finish = |(index, choice): (usize, &Choice)| {
            let parts = parts.iter_mut().map(|part| std::mem::take(&mut part[index]));
            let Part { shards, notes, before, after } = parts.reduce(Part::join).unwrap_or_default();
            let names = shards.iter().map(Shard::names).sum();
            let table = Table::of(&shards, choice.bits, names, choice.sources.clone());
            (choice.number, United { table, notes, before, after })
        };
        self.choices.iter().enumerate().map(finish).collect()
    }

    /// Counts, for each choice, what its tables have together below an owner.
    fn count_twice(&self, range: Range<usize>) -> Vec<Twice<'a>> {
        let mut counted: Vec<Twice<'a>> = self.choices.iter().map(|_| Twice::default()).collect();
        let (mut walk, mut items) = (Walk::new(&self.views, self.bits, range.start), Vec::new());
        for index in range {
            walk.go_to(index);
            if self.choices.iter().all(|choice| self.sole(choice, &walk).is_some()) {
                continue;
            }
            walk.gather(&mut items);
            for group in items.chunk_by(Item::is_same_owner).filter(|group| group.len() > 1) {
                let Some(parent) = editor::parent(group[0].owner()).map(Owner::new) else { continue };
                for (choice, counted) in self.choices.iter().zip(&mut counted) {
                    let times = group.iter().filter(|item| choice.has(item)).count() as u32;
                    if times > 1 {
                        *counted.entry(parent).or_default() += times - 1;
                    }
                }
            }
        }
        counted
    }

    /// Makes the shards of some ranges of hashes, for each choice.
    fn make<T>(
        &self,
        range: Range<usize>,
        twice: &[Twice<'a>],
        unite: impl Fn(usize, &'a [u8], &[(usize, Node<'a>)]) -> (RRsets, T),
    ) -> Vec<Part<T>> {
        let mut made: Vec<Part<T>> = self.choices.iter().map(|_| Part::default()).collect();
        let (mut walk, mut items) = (Walk::new(&self.views, self.bits, range.start), Vec::new());
        let mut maker = Maker::default();
        for index in range {
            walk.go_to(index);
            if self.choices.iter().all(|choice| self.sole(choice, &walk).is_some()) {
                let shards = self.choices.iter().filter_map(|choice| self.sole(choice, &walk));
                made.iter_mut().zip(shards).for_each(|(part, shard)| part.shards.push(shard.clone()));
                continue;
            }
            walk.gather(&mut items);
            for ((choice, part), twice) in self.choices.iter().zip(&mut made).zip(twice) {
                let mut rest = &items[..];
                for index in overlapping(index, self.bits, choice.bits) {
                    let here = rest.partition_point(|item| shard_index(item.hash, choice.bits) == index);
                    let (here, behind) = rest.split_at(here);
                    rest = behind;
                    maker.chosen.clear();
                    maker.chosen.extend(here.iter().filter(|item| choice.has(item)));
                    let shard = match self.whole(choice, index, &maker.chosen) {
                        Some(shard) => shard.clone(),
                        None => maker.make(choice, index, twice, part, &unite),
                    };
                    part.shards.push(shard);
                }
            }
        }
        made
    }

    /// A shard of the one table of a choice that has any nodes where a walk is, if it is of the same size.
    fn sole(&self, choice: &Choice, walk: &Walk<'_, 'a>) -> Option<&'a Shard> {
        if choice.bits != self.bits {
            return None;
        }
        let mut sole = None;
        for ((_, view), far) in
            self.views.iter().zip(&walk.far).filter(|((table, _), _)| choice.places[*table].is_some())
        {
            match view {
                View::Far(_) if far.is_empty() => {}
                View::Near(table) if table.bits == self.bits => {
                    let shard = table.shard_at(walk.index);
                    if shard.names() > 0 && sole.replace(shard).is_some() {
                        return None;
                    }
                }
                _ => return None,
            }
        }
        sole.filter(|shard| shard.others.is_none())
    }

    /// The shard of the one table of a choice that has nodes there, all of which are given, if it is of the same size.
    fn whole(&self, choice: &Choice, index: usize, chosen: &[Item<'a>]) -> Option<&'a Shard> {
        let first = chosen.first()?.table;
        let table = self.tables[first as usize];
        let is_whole = table.bits == choice.bits && chosen.iter().all(|item| item.table == first);
        is_whole.then(|| table.shard_at(index)).filter(|shard| shard.others.is_none())
    }
}

impl<'u, 'a> Walk<'u, 'a> {
    /// Begins in front of a range.
    fn new(views: &'u [(usize, View<'a>)], bits: u32, index: usize) -> Walk<'u, 'a> {
        let start = |view: &View<'a>| match view {
            View::Near(_) => 0,
            View::Far(sorted) => sorted.partition_point(|item| shard_index(item.hash, bits) < index),
        };
        let far = views.iter().map(|(_, view)| start(view)).map(|start| start..start).collect();
        Walk { views, bits, index, far }
    }

    /// Goes on to the next range.
    fn go_to(&mut self, index: usize) {
        self.index = index;
        for ((_, view), here) in self.views.iter().zip(&mut self.far) {
            let View::Far(sorted) = view else { continue };
            let is_here = |item: &&Item<'_>| shard_index(item.hash, self.bits) == index;
            *here = here.end..here.end + sorted[here.end..].iter().take_while(is_here).count();
        }
    }

    /// Collects the nodes of the range from all tables, in the order of hashes, owners and tables.
    fn gather(&self, items: &mut Vec<Item<'a>>) {
        items.clear();
        for ((number, view), here) in self.views.iter().zip(&self.far) {
            match view {
                View::Far(sorted) => items.extend_from_slice(&sorted[here.clone()]),
                View::Near(table) => {
                    let shards = overlapping(self.index, self.bits, table.bits);
                    items.extend(shards.flat_map(|index| Item::list(*number, table.shard_at(index))));
                }
            }
        }
        items.sort_unstable_by(|a, b| {
            a.hash.cmp(&b.hash).then_with(|| a.owner().cmp(b.owner())).then(a.table.cmp(&b.table))
        });
    }
}

impl<'a> Maker<'a> {
    /// Makes a shard of the chosen nodes.
    fn make<T>(
        &mut self,
        choice: &Choice,
        index: usize,
        twice: &Twice<'a>,
        part: &mut Part<T>,
        unite: impl Fn(usize, &'a [u8], &[(usize, Node<'a>)]) -> (RRsets, T),
    ) -> Shard {
        let Maker { chosen, nodes, sets, united, ends, freezer } = self;
        united.clear();
        ends.clear();
        for group in chosen.chunk_by(Item::is_same_owner).filter(|group| group.len() > 1) {
            nodes.clear();
            let place = |item: &Item<'a>| choice.places[item.table as usize].map(|place| (place as usize, item.node()));
            nodes.extend(group.iter().filter_map(place));
            nodes.sort_unstable_by_key(|(place, _)| *place);
            let owner = group[0].owner();
            let (rrsets, note) = unite(choice.number, owner, nodes);
            part.notes.push(note);
            sets.clear();
            node::write_sets(&rrsets, sets);
            let labels = Owner { hash: group[0].hash, labels: owner };
            let all: u32 = nodes.iter().map(|(_, node)| node.below).sum();
            // Children that several have were counted for each.
            let below = all - twice.get(&labels).copied().unwrap_or(0);
            nodes.iter().for_each(|(_, node)| part.before.add_any(*node));
            let node = Node { owner, below, spelled: None, sets };
            part.after.add_any(node);
            if editor::exists(node) {
                node.write(united);
            }
            ends.push(united.len());
        }
        let (mut entries, mut start, mut next) = (Vec::with_capacity(chosen.len()), 0, ends.iter());
        for group in chosen.chunk_by(Item::is_same_owner) {
            let Item { hash, bytes, at, .. } = group[0];
            if group.len() == 1 {
                entries.push(Entry::held(hash as u16, bytes, at as usize));
                continue;
            }
            let end = next.next().copied().unwrap_or(start);
            let node = &united[start..end];
            start = end;
            if !node.is_empty() {
                entries.push(Entry::new(hash as u16, group[0].owner(), node));
            }
        }
        let mut beside = Vec::new();
        // Only what stands for several may be elsewhere, too.
        if !ends.is_empty() {
            Beside::list(&choice.sources, index, choice.bits, &mut beside);
        }
        freezer.freeze(&entries, &beside)
    }
}

impl<T> Default for Part<T> {
    fn default() -> Part<T> {
        Part { shards: Vec::new(), notes: Vec::new(), before: Counts::default(), after: Counts::default() }
    }
}

impl<T> Part<T> {
    /// Puts the next part behind.
    fn join(mut self, mut other: Part<T>) -> Part<T> {
        self.shards.append(&mut other.shards);
        self.notes.append(&mut other.notes);
        let none = Counts::default();
        self.before = self.before.change(&other.before, &none);
        self.after = self.after.change(&other.after, &none);
        self
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

    /// Returns true if two nodes have one owner.
    fn is_same_owner(&self, other: &Item<'_>) -> bool {
        self.hash == other.hash && self.owner() == other.owner()
    }
}
