//! Tables against a plain map, alone and beside others.

use super::shard::{HEAD_BYTES, TAG_BYTES};
use super::*;
use crate::zone::use_large_pages;
use proptest::prelude::*;
use std::collections::BTreeMap;

/// Contents that a table should have: text by owner.
type Model = BTreeMap<Vec<u8>, Vec<u8>>;

/// The bytes of a node whose sets are not looked into.
fn node(owner: &[u8], sets: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    Node { owner, sets, ..Node::default() }.write(&mut bytes);
    bytes
}

/// The table of a model, out of another table of another model.
fn changed(table: &Table, before: &Model, after: &Model, sources: &[Table]) -> Table {
    let nodes: BTreeMap<&[u8], Vec<u8>> = after.iter().map(|(owner, sets)| (&owner[..], node(owner, sets))).collect();
    let gone = before.keys().filter(|owner| !after.contains_key(*owner)).map(|owner| (&owner[..], None));
    let differs = |owner: &[u8]| before.get(owner) != after.get(owner);
    let come = nodes.iter().filter(|(owner, _)| differs(owner)).map(|(owner, node)| (*owner, Some([&node[..], &[]])));
    let change = |(owner, node)| NodeChange { hash: hash(owner), owner, is_new: !before.contains_key(owner), node };
    table.change(gone.chain(come).map(change).collect(), sources.into())
}

/// Contents of a table.
fn contents(table: &Table) -> Model {
    table.iter().map(|node| (node.owner.to_vec(), node.sets.to_vec())).collect()
}

/// Checks a table against what it should hold.
fn check(table: &Table, model: &Model) {
    assert_eq!(&contents(table), model);
    assert_eq!(table.names(), model.len());
    assert_eq!(table.octets(), table.shards().map(Shard::weigh).sum::<u64>());
    for (owner, sets) in model {
        assert_eq!(table.get(owner).map(|node| node.sets), Some(&sets[..]));
    }
    let full = 1 << table.bits;
    assert_eq!(table.groups.iter().map(|group| group.len()).sum::<usize>(), full);
    assert!(table.names() < (MOST_NAMES + 1) << table.bits, "there are enough shards");
}

/// Octets of nodes that a table holds itself.
fn own_bytes(table: &Table) -> usize {
    let all = |table: &Table| table.groups.iter().flat_map(|group| group.to_vec()).collect::<Vec<_>>();
    let others: Vec<Shard> = table.sources.iter().flat_map(all).collect();
    let is_own = |shard: &Shard| !others.iter().any(|other| Arc::ptr_eq(&other.bytes, &shard.bytes));
    let shards = all(table).into_iter().filter(is_own);
    shards.map(|shard| shard.bytes.len() - HEAD_BYTES - (TAG_BYTES + 2) * shard.names()).sum()
}

fn model(names: std::ops::Range<u32>, text: &[u8]) -> Model {
    names.map(|number| (format!("\x05n{number:04}").into_bytes(), text.to_vec())).collect()
}

#[test]
fn tables_grow_and_shrink() {
    let (empty, many) = (Model::new(), model(0..5000, b"0123456789"));
    let table = changed(&Table::default(), &empty, &many, &[]);
    check(&table, &many);
    assert!(table.bits > 6);
    let built: Vec<(u64, Vec<u8>)> = {
        let mut nodes: Vec<_> = many.iter().map(|(owner, sets)| (hash(owner), node(owner, sets))).collect();
        nodes.sort();
        nodes
    };
    let maker = Maker::new(built.len(), Arc::new([]));
    let make = |half| {
        let nodes = built.iter().filter(|(hash, _)| shard_index(*hash, 1) == half);
        maker.make(half, 1, nodes.map(|(hash, bytes)| (*hash, &bytes[..])))
    };
    let halves = [make(0), make(1)];
    check(&maker.finish(halves), &many);
    let (more, few) = (model(0..9000, b"0123456789"), model(4900..5000, b"0123456789"));
    check(&changed(&table, &many, &more, &[]), &more);
    let small = changed(&table, &many, &few, &[]);
    check(&small, &few);
    assert!(small.bits < 5);
    check(&table, &many);
    check(&changed(&small, &few, &empty, &[]), &empty);
}

#[test]
fn a_change_shares_what_it_does_not_touch() {
    let many = model(0..5000, b"0123456789");
    let table = changed(&Table::default(), &Model::new(), &many, &[]);
    let mut other = many.clone();
    other.insert(b"\x05n0007".to_vec(), b"other".to_vec());
    let next = changed(&table, &many, &other, &[]);
    check(&next, &other);
    let groups = table.groups.iter().zip(next.groups.iter());
    assert_eq!(groups.filter(|(old, new)| !Arc::ptr_eq(old, new)).count(), 1);
    let shards = |table: &Table| table.groups.iter().flat_map(|group| group.to_vec()).collect::<Vec<_>>();
    let pairs = shards(&table).into_iter().zip(shards(&next));
    assert_eq!(pairs.filter(|(old, new)| !Arc::ptr_eq(&old.bytes, &new.bytes)).count(), 1);
}

#[test]
fn a_table_beside_others_holds_only_what_they_have_not() {
    let halves = [model(0..2000, b"0123456789"), model(2000..5000, b"0123456789")];
    let sources = halves.clone().map(|half| changed(&Table::default(), &Model::new(), &half, &[]));
    let mut all: Model = halves.into_iter().flatten().collect();
    all.insert(b"\x05n0007".to_vec(), b"both".to_vec());
    let table = changed(&Table::default(), &Model::new(), &all, &sources);
    check(&table, &all);
    assert_eq!(own_bytes(&table), node(b"\x05n0007", b"both").len());
    // Shards of a source that are replaced are let go, although no name of the table changes.
    let old: Vec<_> = sources[0].groups.iter().flat_map(|group| group.to_vec()).map(|shard| shard.bytes).collect();
    let weak: Vec<_> = old.iter().map(Arc::downgrade).collect();
    drop(old);
    let text = model(0..2000, b"9876543210");
    let first = changed(&sources[0], &contents(&sources[0]), &text, &[]);
    let others = [first, sources[1].clone()];
    let next = changed(&table, &all, &all, &others);
    drop((table, sources));
    check(&next, &all);
    assert!(weak.iter().all(|bytes| bytes.strong_count() == 0));
    assert!(own_bytes(&next) > 20_000, "what no source has any more");
    let alone = changed(&next, &all, &all, &[]);
    check(&alone, &all);
    assert!(alone.groups.iter().flat_map(|group| group.iter()).all(|shard| shard.others.is_none()));
}

#[test]
fn a_table_follows_its_source_without_a_copy() {
    let many = model(0..5000, b"0123456789");
    let source = changed(&Table::default(), &Model::new(), &many, &[]);
    let table = changed(&Table::default(), &Model::new(), &many, std::slice::from_ref(&source));
    let mut other = many.clone();
    other.insert(b"\x05n0007".to_vec(), b"other".to_vec());
    other.insert(b"\x05n9999".to_vec(), b"new".to_vec());
    let next = changed(&source, &many, &other, &[]);
    let follows = changed(&table, &many, &other, std::slice::from_ref(&next));
    check(&follows, &other);
    assert_eq!(own_bytes(&follows), 0);
    // What the source has not done is the table's own.
    let mut third = other.clone();
    third.remove(b"\x05n0007".as_slice());
    third.insert(b"\x05n0008".to_vec(), b"third".to_vec());
    let own = changed(&follows, &other, &third, std::slice::from_ref(&next));
    check(&own, &third);
    assert_eq!(own_bytes(&own), node(b"\x05n0008", b"third").len());
}

#[test]
fn places_beyond_two_octets_are_found() {
    let mut large = model(0..40, b"0123456789");
    large.insert(b"\x05large".to_vec(), vec![7; 70_000]);
    let table = changed(&Table::default(), &Model::new(), &large, &[]);
    check(&table, &large);
    check(&changed(&Table::default(), &Model::new(), &large, &[table]), &large);
}

proptest! {
    #[test]
    fn tables_hold_what_they_were_given(
        steps in prop::collection::vec(prop::collection::btree_map(prop::collection::vec(any::<u8>(), 0..40), prop::collection::vec(any::<u8>(), 0..6), 0..150), 1..5),
        beside: bool,
    ) {
        let (mut table, mut source, mut before) = (Table::default(), Table::default(), Model::new());
        for (index, after) in steps.iter().enumerate() {
            if index % 2 == 0 {
                source = changed(&source, &contents(&source), after, &[]);
            }
            let sources = if beside { vec![source.clone()] } else { Vec::new() };
            table = changed(&table, &before, after, &sources);
            check(&table, after);
            prop_assert!(table == changed(&Table::default(), &Model::new(), after, &[]));
            before = after.clone();
        }
    }

    /// Hashes depend on every octet and on the length.
    #[test]
    fn owners_have_hashes_of_their_own(owner in prop::collection::vec(any::<u8>(), 0..80), at in any::<prop::sample::Index>(), flip in 1u8..) {
        let mut other = owner.clone();
        other.push(0);
        prop_assert_ne!(hash(&owner), hash(&other));
        let (index, before) = (at.index(other.len()), hash(&other));
        other[index] ^= flip;
        prop_assert_ne!(before, hash(&other));
    }
}

#[test]
fn large_pages_hold_what_the_table_held() {
    let many = model(0..5000, &[7; 2000]);
    let table = changed(&Table::default(), &Model::new(), &many, &[]);
    let pages = use_large_pages([&table, &table.clone()].into_iter().flat_map(Table::pieces));
    // A kernel may have none.
    assert!(pages as u64 <= table.octets() / (2 << 20) + 1, "{pages}");
    check(&table, &many);
    assert_eq!(use_large_pages(Table::default().pieces()), 0);
}
