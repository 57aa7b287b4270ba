//! A zone version in the making.
//!
//! The editor keeps what it was told beside the version that it started from, name by name, and makes a new table of
//! both at the end. Owners and sets stand in one piece of memory, however many names there are; names are found by the
//! hash that the table has, too, so that each is hashed once.
//!
//! Cost: O(octets) for a name that is set, and O(changed names × names of a shard) to finish.

use super::node::{self, Node};
use super::table::{self, ByHash, NodeChange, Table};
use super::{Aside, Mixed, Owner, RRsets, Repeated, Signed, Sizes, Soa, Zone, ZoneError};
use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;
use wire::name::Name;
use wire::rr::{RRset, Set, rtype};

/// A zone version in the making.
pub struct Editor {
    origin: Name,
    base: Table,
    base_signed: Option<Arc<Signed>>,
    pending: Pendings,
    counts: Counts,
    /// What is told beside the records, as a [`Zone`] has it.
    pub repeated: Repeated,
    pub left_out: Aside,
    pub unanswered: Aside,
    pub mixed: Mixed,
    scratch: Vec<u8>,
}

/// The nodes that differ from those of the base.
#[derive(Default)]
struct Pendings {
    /// Owners, spellings and sets.
    bytes: Vec<u8>,
    list: Vec<Pending>,
    /// Positions in the list of the newest node with each hash.
    newest: HashMap<u64, usize, ByHash>,
}

/// A node that differs; without sets and names below there is none.
struct Pending {
    hash: u64,
    below: u32,
    owner: Range<usize>,
    spelled: Option<Range<usize>>,
    sets: Range<usize>,
    /// True if the base has the owner.
    existed: bool,
    /// Another node with the hash.
    next: Option<usize>,
}

/// The sets that an owner gets, as a node holds them.
enum NewSets<'a> {
    Octets(&'a [u8]),
    /// A part of what [`Editor::take_sets`] took.
    Taken(Range<usize>),
}

impl Editor {
    /// Starts from nothing.
    pub fn new(origin: Name) -> Editor {
        Editor {
            origin,
            base: Table::default(),
            base_signed: None,
            pending: Pendings::default(),
            counts: Counts::default(),
            repeated: Repeated::default(),
            left_out: Aside::default(),
            unanswered: Aside::default(),
            mixed: Mixed::No,
            scratch: Vec::new(),
        }
    }

    /// Starts from a table and what its nodes count.
    pub(super) fn with_table(origin: Name, base: Table, counts: Counts) -> Editor {
        Editor { base, counts, ..Editor::new(origin) }
    }

    /// Starts from a version; sharing it costs nothing.
    pub fn from_zone(zone: &Zone) -> Editor {
        Editor {
            base: zone.table.clone(),
            base_signed: zone.signed.clone(),
            counts: zone.counts(),
            repeated: zone.repeated.clone(),
            left_out: zone.left_out.clone(),
            unanswered: zone.unanswered.clone(),
            mixed: zone.mixed,
            ..Editor::new(zone.origin.clone())
        }
    }

    /// Replaces all RRsets of a name, which must be within the origin. Returns whether anything changed.
    pub fn set(&mut self, name: &Name, rrsets: RRsets, spelled: Option<Arc<[u8]>>) -> bool {
        debug_assert!(rrsets.is_sorted_by_key(|rrset| rrset.rtype));
        let mut sets = std::mem::take(&mut self.scratch);
        sets.clear();
        node::write_sets(&rrsets, &mut sets);
        let changed = self.set_bytes(name.owner_in(&self.origin), &sets, spelled.as_deref());
        self.scratch = sets;
        changed
    }

    /// Gives an owner the RRsets of a node, which may be another zone's, where the version that the editor began with
    /// has the old one. Returns whether anything changed.
    pub fn copy(&mut self, owner: &Owner<'_>, old: Node<'_>, node: Node<'_>, spelled: Option<Arc<[u8]>>) -> bool {
        self.set_instead(owner.hash, owner.labels, old, node.sets, spelled.as_deref())
    }

    /// Replaces all RRsets at an owner without origin by sets as a node holds them. Returns whether anything changed.
    pub(super) fn set_bytes(&mut self, owner: &[u8], sets: &[u8], spelled: Option<&[u8]>) -> bool {
        self.set_hashed(table::hash(owner), owner, sets, spelled)
    }

    /// Sets a node as [`Editor::set_bytes`] does, for an owner whose hash is known.
    pub(super) fn set_hashed(&mut self, hash: u64, owner: &[u8], sets: &[u8], spelled: Option<&[u8]>) -> bool {
        let base = self.base.clone();
        self.set_instead(hash, owner, base.get_hashed(hash, owner).unwrap_or_default(), sets, spelled)
    }

    /// Sets a node as [`Editor::set_hashed`] does, for an owner whose node in the version that the editor began with is
    /// known.
    pub(super) fn set_instead(
        &mut self,
        hash: u64,
        owner: &[u8],
        old: Node<'_>,
        sets: &[u8],
        spelled: Option<&[u8]>,
    ) -> bool {
        self.put(hash, owner, old, NewSets::Octets(sets), spelled)
    }

    /// Takes the sets of many owners, one behind the other, for [`Editor::set_taken`]. Returns where they begin.
    pub(super) fn take_sets(&mut self, sets: Vec<u8>) -> usize {
        let start = self.pending.bytes.len();
        match start {
            0 => self.pending.bytes = sets,
            _ => self.pending.bytes.extend_from_slice(&sets),
        }
        start
    }

    /// Sets a node as [`Editor::set_instead`] does, to sets that were taken.
    pub(super) fn set_taken(
        &mut self,
        hash: u64,
        owner: &[u8],
        old: Node<'_>,
        sets: Range<usize>,
        spelled: Option<&[u8]>,
    ) -> bool {
        self.put(hash, owner, old, NewSets::Taken(sets), spelled)
    }

    /// Sets a node.
    fn put(&mut self, hash: u64, owner: &[u8], old: Node<'_>, new: NewSets<'_>, spelled: Option<&[u8]>) -> bool {
        let sets = match &new {
            NewSets::Octets(sets) => *sets,
            NewSets::Taken(range) => &self.pending.bytes[range.clone()],
        };
        let is_empty = sets.is_empty();
        let spelled = spelled.filter(|_| !is_empty);
        let found = self.pending.find(hash, owner);
        let old = found.map_or(old, |index| self.pending.node(index));
        if old.sets == sets && old.spelled == spelled {
            return false;
        }
        let (existed, below) = (exists(old), old.below);
        let node = Node { owner, below, spelled, sets };
        let counts = &mut self.counts;
        counts.records = counts.records + node.records() - old.records();
        counts.owners = counts.owners + u64::from(!is_empty) - u64::from(!old.is_empty());
        counts.cuts = counts.cuts + u32::from(is_cut(sets, owner)) - u32::from(is_cut(old.sets, owner));
        counts.odd = counts.odd + u32::from(node.is_odd()) - u32::from(Node { owner, ..old }.is_odd());
        counts.sizes.add(node);
        counts.sizes.remove(Node { owner, ..old });
        match found {
            Some(index) => self.pending.replace(index, new, spelled),
            None => {
                let head = Node { owner, below, spelled, sets: &[] };
                self.pending.push(hash, head, new, existed);
            }
        }
        match (existed, below > 0 || !is_empty) {
            (false, true) => self.link(owner),
            (true, false) => self.unlink(owner),
            _ => {}
        }
        true
    }

    /// The node of an owner as it stands now; one without sets and names below where there is none.
    pub(super) fn get_hashed(&self, hash: u64, owner: &[u8]) -> Node<'_> {
        match self.pending.find(hash, owner) {
            Some(index) => self.pending.node(index),
            None => self.base.get_hashed(hash, owner).unwrap_or_default(),
        }
    }

    /// Counts a new name in its parent, which comes into being as an empty non-terminal where it must.
    fn link(&mut self, mut owner: &[u8]) {
        loop {
            self.counts.wildcards += u32::from(is_wildcard(owner));
            let Some(parent) = parent(owner) else { return };
            let index = self.pending(parent);
            let existed = exists(self.pending.node(index));
            self.pending.list[index].below += 1;
            if existed {
                return;
            }
            owner = parent;
        }
    }

    /// Counts a vanished name out of its parent, which vanishes too when it was empty and had nothing else below.
    fn unlink(&mut self, mut owner: &[u8]) {
        loop {
            self.counts.wildcards -= u32::from(is_wildcard(owner));
            let Some(parent) = parent(owner) else { return };
            let index = self.pending(parent);
            self.pending.list[index].below -= 1;
            if exists(self.pending.node(index)) {
                return;
            }
            owner = parent;
        }
    }

    /// Position in the list of the node of an owner, made ready to be changed.
    fn pending(&mut self, owner: &[u8]) -> usize {
        let hash = table::hash(owner);
        self.pending.find(hash, owner).unwrap_or_else(|| {
            let node = self.base.get_hashed(hash, owner).unwrap_or_default();
            self.pending.push(hash, Node { owner, ..node }, NewSets::Octets(node.sets), exists(node))
        })
    }

    /// The names below the origin at which what the editor began with differs from a version, if it has the same
    /// origin.
    pub fn differing(&self, zone: &Zone) -> Vec<Name> {
        let owners = self.base.differing(&zone.table).into_iter().filter(|owner| !owner.is_empty());
        owners.map(|owner| Name::join(owner, &self.origin)).collect()
    }

    /// Closes the version.
    pub fn finish(self) -> Result<Zone, ZoneError> {
        self.finish_beside(&[])
    }

    /// Closes the version, which shares what is the same in these zones.
    pub fn finish_beside(self, zones: &[&Zone]) -> Result<Zone, ZoneError> {
        let mut heads = Vec::with_capacity(32 * self.pending.list.len());
        let mut places = Vec::with_capacity(self.pending.list.len());
        for index in 0..self.pending.list.len() {
            let start = heads.len();
            let node = self.pending.node(index);
            if exists(node) {
                node.write_head(&mut heads);
            }
            places.push((&self.pending.list[index], node.owner, node.sets, start..heads.len()));
        }
        let change = |(pending, owner, sets, head): (&Pending, _, _, Range<usize>)| {
            let node = (!head.is_empty()).then(|| [&heads[head], sets]);
            NodeChange { hash: pending.hash, owner, is_new: !pending.existed, node }
        };
        let sources = zones.iter().map(|zone| zone.table.clone()).collect();
        let table = self.base.change(places.into_iter().map(change).collect(), sources);
        let nodes = self.pending.list.iter().enumerate().map(|(index, pending)| {
            let node = self.pending.node(index);
            [self.base.get_hashed(pending.hash, node.owner).unwrap_or_default(), node]
        });
        let signed = Signed::next(self.base_signed.as_ref(), &table, nodes);
        let zone = Zone::close(self.origin, table, self.counts, self.repeated)?;
        Ok(Zone { mixed: self.mixed, left_out: self.left_out, unanswered: self.unanswered, signed, ..zone })
    }
}

impl Pendings {
    /// Position in the list of the node of an owner.
    fn find(&self, hash: u64, owner: &[u8]) -> Option<usize> {
        let mut next = self.newest.get(&hash).copied();
        while let Some(index) = next.filter(|index| self.bytes[self.list[*index].owner.clone()] != *owner) {
            next = self.list[index].next;
        }
        next
    }

    /// The view of a node.
    fn node(&self, index: usize) -> Node<'_> {
        let Pending { below, owner, spelled, sets, .. } = &self.list[index];
        let part = |range: &Range<usize>| &self.bytes[range.clone()];
        Node { owner: part(owner), below: *below, spelled: spelled.as_ref().map(part), sets: part(sets) }
    }

    /// Adds a node with these sets, whose owner is not here; returns where it is.
    fn push(&mut self, hash: u64, node: Node<'_>, sets: NewSets<'_>, existed: bool) -> usize {
        let (owner, spelled) = (self.write(node.owner), node.spelled.map(|spelled| self.write(spelled)));
        let (sets, below) = (self.place(sets), node.below);
        let next = self.newest.insert(hash, self.list.len());
        self.list.push(Pending { hash, below, owner, spelled, sets, existed, next });
        self.list.len() - 1
    }

    /// Gives a node other sets and another spelling.
    fn replace(&mut self, index: usize, sets: NewSets<'_>, spelled: Option<&[u8]>) {
        let (sets, spelled) = (self.place(sets), spelled.map(|spelled| self.write(spelled)));
        (self.list[index].sets, self.list[index].spelled) = (sets, spelled);
    }

    /// Where sets are, which may have to be written first.
    fn place(&mut self, sets: NewSets<'_>) -> Range<usize> {
        match sets {
            NewSets::Octets(sets) => self.write(sets),
            NewSets::Taken(range) => range,
        }
    }

    /// Appends octets; returns where they are.
    fn write(&mut self, octets: &[u8]) -> Range<usize> {
        self.bytes.extend_from_slice(octets);
        self.bytes.len() - octets.len()..self.bytes.len()
    }
}

//--- Counts ---

/// Counts of a zone's nodes and records.
#[derive(Clone, Default)]
pub struct Counts {
    pub records: u64,
    pub owners: u64,
    pub cuts: u32,
    pub wildcards: u32,
    pub odd: u32,
    pub sizes: Sizes,
}

impl Counts {
    /// Counts a node that has records.
    pub fn add(&mut self, node: Node<'_>) {
        self.records += node.records();
        self.owners += 1;
        self.cuts += u32::from(is_cut(node.sets, node.owner));
        self.wildcards += u32::from(is_wildcard(node.owner));
        self.odd += u32::from(node.is_odd());
        self.sizes.add(node);
    }

    /// Counts any node.
    pub fn add_any(&mut self, node: Node<'_>) {
        self.add(node);
        self.owners -= u64::from(node.is_empty());
    }

    /// All that is counted, with more and without some of it.
    pub fn change(self, more: &Counts, less: &Counts) -> Counts {
        Counts {
            records: self.records + more.records - less.records,
            owners: self.owners + more.owners - less.owners,
            cuts: self.cuts + more.cuts - less.cuts,
            wildcards: self.wildcards + more.wildcards - less.wildcards,
            odd: self.odd + more.odd - less.odd,
            sizes: self.sizes.change(&more.sizes, &less.sizes),
        }
    }
}

impl Zone {
    /// Number of nodes below the origin that a zone with another origin may not be able to take as they stand. Where that
    /// origin is longer than [`LONG_OWNER`](super::LONG_OWNER), no node can be taken for granted.
    pub fn odd_nodes(&self) -> u32 {
        self.odd
    }

    /// The owners of these nodes, without origin. O(names), if there are any.
    pub fn odd_owners(&self) -> Vec<&[u8]> {
        if self.odd == 0 {
            return Vec::new();
        }
        self.nodes().filter(|node| node.is_odd()).map(|node| node.owner).collect()
    }

    /// The counts of the version.
    pub(super) fn counts(&self) -> Counts {
        let Zone { records, owners, cuts, wildcards, odd, .. } = *self;
        Counts { records, owners, cuts, wildcards, odd, sizes: self.sizes.clone() }
    }

    /// Makes a version of its nodes and what they count.
    pub(super) fn close(origin: Name, table: Table, counts: Counts, repeated: Repeated) -> Result<Zone, ZoneError> {
        let set = table.get(&[]).and_then(|apex| apex.get(rtype::SOA)).ok_or(ZoneError::NoSoa)?;
        if set.count != 1 {
            return Err(ZoneError::ManySoa(set.count));
        }
        let rdata = set.rdatas().next().ok_or(ZoneError::NoSoa)?;
        let soa = Soa::from_rdata(rdata).ok_or(ZoneError::NoSoa)?;
        let negative = RRset::build(rtype::SOA, set.ttl.min(soa.minimum), vec![rdata]).ok_or(ZoneError::NoSoa)?;
        let Counts { records, owners, cuts, wildcards, odd, sizes } = counts;
        let (soa_rrset, negative) = (Arc::new(set.to_rrset()), Arc::new(negative));
        Ok(Zone {
            origin,
            soa,
            soa_rrset,
            negative,
            table,
            records,
            owners,
            repeated,
            left_out: Aside::default(),
            unanswered: Aside::default(),
            mixed: Mixed::No,
            cuts,
            wildcards,
            odd,
            sizes,
            signed: None,
        })
    }
}

/// Returns true if the node has records, or names below it.
pub(super) fn exists(node: Node<'_>) -> bool {
    node.below > 0 || !node.is_empty()
}

/// The owner above one; none above the origin.
pub(super) fn parent(owner: &[u8]) -> Option<&[u8]> {
    owner.first().map(|length| &owner[1 + usize::from(*length)..])
}

/// Returns true if names below must not be answered from this zone as they stand.
pub(super) fn is_cut(sets: &[u8], owner: &[u8]) -> bool {
    let cuts = |set: Set<'_>| set.rtype == rtype::DNAME || set.rtype == rtype::NS && !owner.is_empty();
    node::sets(sets).any(cuts)
}

/// Returns true if the first label is the asterisk (RFC 4592 section 2.1.1).
pub(super) fn is_wildcard(owner: &[u8]) -> bool {
    owner.starts_with(b"\x01*")
}
