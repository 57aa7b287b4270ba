//! A zone version in the making.
//!
//! The editor keeps what it was told beside the version that it started from, name by name, and makes a new table of
//! both at the end.
//!
//! Cost: O(octets) for a name that is set, and O(changed names × names of a shard) to finish.

use super::node::{self, Node};
use super::table::{self, Change, Table};
use super::{RRsets, Repeated, Soa, Zone, ZoneError};
use crate::name::Name;
use crate::rr::{RRset, Set, rtype};
use std::collections::HashMap;
use std::sync::Arc;

/// A zone version in the making.
pub struct Editor {
    origin: Name,
    base: Table,
    /// The nodes that differ from those of the base, by owner without origin.
    changes: HashMap<Box<[u8]>, Pending>,
    counts: Counts,
    repeated: Repeated,
    scratch: Vec<u8>,
}

/// A node that differs; without sets and names below there is none.
struct Pending {
    below: u32,
    spelled: Option<Box<[u8]>>,
    sets: Box<[u8]>,
}

impl Editor {
    /// Starts from nothing.
    pub fn new(origin: Name) -> Editor {
        Editor {
            origin,
            base: Table::default(),
            changes: HashMap::new(),
            counts: Counts::default(),
            repeated: Repeated::default(),
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
            counts: zone.counts(),
            repeated: zone.repeated.clone(),
            ..Editor::new(zone.origin.clone())
        }
    }

    /// Replaces all RRsets of a name, which must be within the origin. Returns whether anything changed.
    pub fn set(&mut self, name: &Name, rrsets: RRsets, spelled: Option<Arc<[u8]>>) -> bool {
        debug_assert!(name.is_within(&self.origin));
        debug_assert!(rrsets.is_sorted_by_key(|rrset| rrset.rtype));
        let mut sets = std::mem::take(&mut self.scratch);
        sets.clear();
        node::write_sets(&rrsets, &mut sets);
        let changed = self.set_bytes(owner_of(name, &self.origin), &sets, spelled.as_deref());
        self.scratch = sets;
        changed
    }

    /// Gives a name the RRsets of a node, which may be another zone's. Returns whether anything changed.
    pub fn copy(&mut self, name: &Name, node: Node<'_>, spelled: Option<Arc<[u8]>>) -> bool {
        self.set_bytes(owner_of(name, &self.origin), node.sets, spelled.as_deref())
    }

    /// Replaces all RRsets at an owner without origin by sets as a node holds them. Returns whether anything changed.
    pub(super) fn set_bytes(&mut self, owner: &[u8], sets: &[u8], spelled: Option<&[u8]>) -> bool {
        let spelled = spelled.filter(|_| !sets.is_empty());
        let old = current(&self.base, &self.changes, owner);
        if old.sets == sets && old.spelled == spelled {
            return false;
        }
        let existed = exists(old);
        let counts = &mut self.counts;
        counts.records = counts.records + Node { sets, ..old }.records() - old.records();
        counts.owners = counts.owners + u64::from(!sets.is_empty()) - u64::from(!old.is_empty());
        counts.cuts = counts.cuts + u32::from(is_cut(sets, owner)) - u32::from(is_cut(old.sets, owner));
        let pending = Pending { below: old.below, spelled: spelled.map(Box::from), sets: sets.into() };
        let exists = pending.below > 0 || !sets.is_empty();
        self.changes.insert(owner.into(), pending);
        match (existed, exists) {
            (false, true) => self.link(owner),
            (true, false) => self.unlink(owner),
            _ => {}
        }
        true
    }

    /// Counts a new name in its parent, which comes into being as an empty non-terminal where it must.
    fn link(&mut self, mut owner: &[u8]) {
        loop {
            self.counts.wildcards += u32::from(is_wildcard(owner));
            let Some(parent) = parent(owner) else { return };
            let existed = exists(current(&self.base, &self.changes, parent));
            self.pending(parent).below += 1;
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
            let pending = self.pending(parent);
            pending.below -= 1;
            if pending.below > 0 || !pending.sets.is_empty() {
                return;
            }
            owner = parent;
        }
    }

    /// The node of an owner as one that may be changed.
    fn pending(&mut self, owner: &[u8]) -> &mut Pending {
        if !self.changes.contains_key(owner) {
            let node = self.base.get(owner).unwrap_or_default();
            let pending = Pending { below: node.below, spelled: node.spelled.map(Box::from), sets: node.sets.into() };
            self.changes.insert(owner.into(), pending);
        }
        self.changes.get_mut(owner).expect("it was put there if it was not")
    }

    /// Replaces what is known of repeated records.
    pub fn set_repeated(&mut self, repeated: Repeated) {
        self.repeated = repeated;
    }

    /// Closes the version.
    pub fn finish(self) -> Result<Zone, ZoneError> {
        self.finish_beside(&[])
    }

    /// Closes the version, which shares what is the same in these zones.
    pub fn finish_beside(mut self, zones: &[&Zone]) -> Result<Zone, ZoneError> {
        let mut bytes = std::mem::take(&mut self.scratch);
        bytes.clear();
        let mut places = Vec::with_capacity(self.changes.len());
        for (owner, pending) in &self.changes {
            let start = bytes.len();
            let node = pending.node(owner);
            if exists(node) {
                node.write(&mut bytes);
            }
            places.push((&**owner, start..bytes.len()));
        }
        let change = |(owner, range): (_, std::ops::Range<usize>)| {
            let node = (!range.is_empty()).then(|| &bytes[range]);
            Change { hash: table::hash(owner), owner, node }
        };
        let sources = zones.iter().map(|zone| zone.table.clone()).collect();
        let table = self.base.change(places.into_iter().map(change).collect(), sources);
        Zone::close(self.origin, table, self.counts, self.repeated)
    }
}

//--- Counts ---

/// What a zone counts of its nodes.
#[derive(Clone, Copy, Default)]
pub(super) struct Counts {
    pub records: u64,
    pub owners: u64,
    pub cuts: u32,
    pub wildcards: u32,
}

impl Counts {
    /// Counts a node that has records.
    pub fn add(&mut self, node: Node<'_>) {
        self.records += node.records();
        self.owners += 1;
        self.cuts += u32::from(is_cut(node.sets, node.owner));
        self.wildcards += u32::from(is_wildcard(node.owner));
    }
}

impl Zone {
    /// The counts of the version.
    fn counts(&self) -> Counts {
        Counts { records: self.records, owners: self.owners, cuts: self.cuts, wildcards: self.wildcards }
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
        let Counts { records, owners, cuts, wildcards } = counts;
        let (soa_rrset, negative) = (Arc::new(set.to_rrset()), Arc::new(negative));
        Ok(Zone { origin, soa, soa_rrset, negative, table, records, owners, repeated, cuts, wildcards })
    }
}

impl Pending {
    /// The view of the node.
    fn node<'a>(&'a self, owner: &'a [u8]) -> Node<'a> {
        Node { owner, below: self.below, spelled: self.spelled.as_deref(), sets: &self.sets }
    }
}

/// The node of an owner as it stands now; one without sets and names below where there is none.
fn current<'a>(base: &'a Table, changes: &'a HashMap<Box<[u8]>, Pending>, owner: &'a [u8]) -> Node<'a> {
    match changes.get(owner) {
        Some(pending) => pending.node(owner),
        None => base.get(owner).unwrap_or_default(),
    }
}

/// Whether there is such a node.
fn exists(node: Node<'_>) -> bool {
    node.below > 0 || !node.is_empty()
}

/// The labels of a name in front of the origin.
pub(super) fn owner_of<'a>(name: &'a Name, origin: &Name) -> &'a [u8] {
    let wire = name.as_wire();
    &wire[..wire.len() - origin.as_wire().len()]
}

/// The owner above one; none above the origin.
pub(super) fn parent(owner: &[u8]) -> Option<&[u8]> {
    owner.first().map(|length| &owner[1 + usize::from(*length)..])
}

/// Whether names below must not be answered from this zone as they stand.
pub(super) fn is_cut(sets: &[u8], owner: &[u8]) -> bool {
    let cuts = |set: Set<'_>| set.rtype == rtype::DNAME || set.rtype == rtype::NS && !owner.is_empty();
    node::sets(sets).any(cuts)
}

/// Whether the first label is the asterisk (RFC 4592 section 2.1.1).
pub(super) fn is_wildcard(owner: &[u8]) -> bool {
    owner.starts_with(b"\x01*")
}
