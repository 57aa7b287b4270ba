//! The difference of two versions of a zone.
//!
//! A [`Delta`] holds the SOA of both versions and two blocks of records, those that went and those that came, the
//! zone's SOA left out: the form in which IXFR sends differences (RFC 1995 section 4), so that an answer is a
//! concatenation. A change of TTL is a removal and an addition.
//!
//! Invariants: a delta is effective: every record that it removes was there, none that it adds was. So
//! `between(a, b).apply(a)` is `b`, swapping the blocks inverts it, and the records of a chain of deltas cancel out to
//! the difference of its ends. Blocks are in canonical order of owner, type and RDATA.
//!
//! Cost: O(records at the names that changed); nothing here walks a zone.

use super::aside::AsideChanges;
use super::block::{BlockBuilder, OpenBlock, name_of};
use super::doubt::Marks;
use super::table::{FETCHED, Table};
use crate::zone::{Block, ByteReader, Node, Owner, Record, Soa, Zone, ZoneError, canonical, parallel};
use std::collections::HashSet;
use std::ops::Range;
use std::sync::Arc;
use wire::name::Name;
use wire::rr::{self, CLASS_IN, RRset, rtype};
use wire::serial::Serial;

/// Number of names to compare below which other threads are not worth their start.
const MANY_NAMES: usize = 2000;
/// Octets of records from which on a difference is worth packing.
const LARGE_BYTES: usize = 64 << 10;
/// First octet of a difference that changes what is told beside the versions; no marks begin so.
const ASIDE: u8 = 16;

//--- Delta ---

/// The difference of two versions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delta {
    /// The SOA of the version that it starts from.
    pub from: Arc<RRset>,
    /// The SOA of the version that it leads to.
    pub to: Arc<RRset>,
    pub removed: Block,
    pub added: Block,
    /// Marks of the version that it leads to: the removals from it that are in doubt.
    pub(super) marks: Marks,
    /// Changes to what is told beside the versions.
    pub(super) aside: AsideChanges,
}

/// Error: a difference cannot be read or applied.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DeltaError {
    #[error("the bytes are no difference of this zone")]
    Malformed,
    #[error("the difference starts from another version")]
    Base,
    #[error("a record to be removed is not there")]
    Absent,
    #[error("a record to be added is there already")]
    Present,
    #[error("the records of a set have different TTLs")]
    Ttl,
    #[error("the result is no zone: {0}")]
    Zone(#[from] ZoneError),
}

impl Delta {
    /// The difference of two versions of one zone, which may differ at the names given and at the apex only.
    pub fn between(old: &Zone, new: &Zone, touched: impl IntoIterator<Item = Name>) -> Delta {
        let names: Vec<Name> = touched.into_iter().chain([new.origin.clone()]).collect();
        let parts = parallel::parts(names.len(), MANY_NAMES);
        // Names come in the order that tables have, as a rule, and are found in it much faster than in that of the
        // blocks.
        let find = |range: Range<usize>| -> Vec<[Node<'_>; 2]> {
            let mut found = Vec::with_capacity(range.len());
            for names in names[range].chunks(FETCHED) {
                let owners: Vec<Owner<'_>> = names.iter().map(|name| Owner::new(name.owner_in(&new.origin))).collect();
                Table::fetch(&[&old.table, &new.table], owners.iter().map(Owner::hashed));
                found.extend(owners.iter().map(|owner| [old, new].map(|zone| zone.get_at(owner).unwrap_or_default())));
            }
            found
        };
        let find_all = || parallel::in_parts(names.len(), parts, find).concat();
        let sort = || canonical::order(&names, &new.origin);
        let (nodes, order) = if parts > 1 { parallel::both(find_all, sort) } else { (find_all(), sort()) };
        let compare = |range: Range<usize>| {
            let mut blocks = (BlockBuilder::default(), BlockBuilder::default());
            for index in &order[range] {
                let [before, after] = nodes[*index];
                compare_nodes(&names[*index], before, after, &mut blocks.0, &mut blocks.1);
            }
            blocks
        };
        let blocks = parallel::in_parts(order.len(), parts, compare);
        let (removed, added): (Vec<_>, Vec<_>) = blocks.into_iter().unzip();
        let (removed, added) = (Block::join(removed), Block::join(added));
        let (from, to) = (old.soa_rrset().clone(), new.soa_rrset().clone());
        let marks = Marks::between(&old.repeated, &new.repeated, new.mixed);
        let aside = AsideChanges::between(old.aside(), new.aside());
        Delta { from, to, removed, added, marks, aside }
    }

    /// The way back.
    pub fn invert(&self) -> Delta {
        Delta {
            from: self.to.clone(),
            to: self.from.clone(),
            removed: self.added.clone(),
            added: self.removed.clone(),
            // What the older version had is not told.
            marks: Marks::Unknown,
            aside: AsideChanges::default(),
        }
    }

    /// Concatenates a chain of differences; none if one does not start where the one before it ends.
    pub fn concatenate(deltas: &[Arc<Delta>]) -> Option<Delta> {
        fn note<'a>(block: &'a OpenBlock, with: &mut HashSet<Record<'a>>, against: &mut HashSet<Record<'a>>) {
            with.extend(block.iter().filter(|record| !against.remove(record)));
        }
        let (first, last) = (deltas.first()?, deltas.last()?);
        if deltas.windows(2).any(|pair| pair[0].to != pair[1].from) {
            return None;
        }
        let open: Vec<OpenDelta> = deltas.iter().map(OpenDelta::new).collect();
        let (mut removed, mut added) = (HashSet::new(), HashSet::new());
        for delta in &open {
            note(&delta.removed, &mut removed, &mut added);
            note(&delta.added, &mut added, &mut removed);
        }
        Some(Delta {
            from: first.from.clone(),
            to: last.to.clone(),
            removed: Block::collect(removed),
            added: Block::collect(added),
            // They are told step by step.
            marks: Marks::Unknown,
            aside: AsideChanges::default(),
        })
    }

    /// The serial of the version that it starts from.
    pub fn from_serial(&self) -> Serial {
        serial_of(&self.from)
    }

    /// The serial of the version that it leads to.
    pub fn to_serial(&self) -> Serial {
        serial_of(&self.to)
    }

    /// The names at which the versions differ, each once, the apex left out when only the SOA differs.
    pub fn touched(&self) -> impl Iterator<Item = Name> {
        let (removed, added) = (self.removed.open(), self.added.open());
        let owners = removed.iter().chain(added.iter()).filter_map(|record| name_of(record.owner));
        owners.collect::<HashSet<_>>().into_iter()
    }

    /// Returns true if the versions do not differ at all.
    pub fn is_empty(&self) -> bool {
        self.from == self.to && self.records() == 0
    }

    /// Number of the records that go and come.
    pub fn records(&self) -> usize {
        self.removed.records() as usize + self.added.records() as usize
    }

    /// Octets that it occupies, nearly, while its records are not packed.
    pub fn len_bytes(&self) -> usize {
        size_of::<Delta>()
            + self.from.as_set().wire_bytes()
            + self.to.as_set().wire_bytes()
            + self.removed.len_bytes()
            + self.added.len_bytes()
            + self.marks.len_bytes()
            + self.aside.len_bytes()
    }

    /// Octets that it occupies now, nearly.
    pub fn kept_bytes(&self) -> usize {
        let blocks = [&self.removed, &self.added];
        self.len_bytes() - blocks.map(Block::len_bytes).iter().sum::<usize>()
            + blocks.map(Block::kept_bytes).iter().sum::<usize>()
    }

    /// Returns true if it is worth packing.
    pub(super) fn is_large(&self) -> bool {
        self.removed.len_bytes() + self.added.len_bytes() >= LARGE_BYTES
    }

    /// Packs its records until somebody reads them, and again behind that.
    pub(super) fn pack(&self) {
        Block::pack([&self.removed, &self.added]);
    }

    //--- Bytes for the journal ---

    /// Appends the difference: what changes in that which is told, if anything does; marks, both SOA, the removed
    /// records with their length in front, the added ones.
    pub fn write(&self, out: &mut Vec<u8>) {
        if !self.aside.is_empty() {
            out.push(ASIDE);
            self.aside.write(out);
        }
        self.marks.write(out);
        for soa in [&self.from, &self.to] {
            let soa = soa.as_set();
            out.extend_from_slice(&(soa.wire_bytes() as u16).to_be_bytes());
            soa.write_wire(out);
        }
        out.extend_from_slice(&(self.removed.len_bytes() as u64).to_be_bytes());
        self.removed.write(out);
        self.added.write(out);
    }

    /// Reads what [`Delta::write`] wrote for a zone.
    pub fn read(origin: &Name, bytes: &[u8]) -> Result<Delta, DeltaError> {
        let mut reader = ByteReader(bytes);
        let mut read = || {
            let mut aside = AsideChanges::default();
            if reader.0.first() == Some(&ASIDE) {
                reader.u8()?;
                aside = AsideChanges::read(origin, &mut reader)?;
            }
            let marks = Marks::read(&mut reader)?;
            let mut take_soa = || {
                let length = reader.u16()?;
                read_soa(reader.take(length.into())?)
            };
            let (from, to) = (take_soa()?, take_soa()?);
            let length = usize::try_from(reader.u64()?).ok()?;
            let (removed, added) = (Block::read(origin, reader.take(length)?)?, Block::read(origin, reader.0)?);
            Some(Delta { from, to, removed, added, marks, aside })
        };
        read().ok_or(DeltaError::Malformed)
    }
}

//--- OpenDelta ---

/// A difference whose records are in memory as long as this.
#[derive(Clone)]
pub struct OpenDelta {
    pub delta: Arc<Delta>,
    pub removed: OpenBlock,
    pub added: OpenBlock,
}

impl OpenDelta {
    /// Opens a difference.
    pub fn new(delta: &Arc<Delta>) -> OpenDelta {
        OpenDelta { delta: delta.clone(), removed: delta.removed.open(), added: delta.added.open() }
    }
}

/// Reads the one SOA record of a version out of its answer form.
fn read_soa(wire: &[u8]) -> Option<Arc<RRset>> {
    let (owner, fixed) = wire.split_first_chunk::<2>()?;
    let (rtype, class, ttl, start, length) = rr::read_fixed(fixed, 0)?;
    let rdata = &fixed[start..start + length];
    let sound = *owner == rr::OWNER_AT_QUESTION
        && (rtype, class) == (rtype::SOA, CLASS_IN)
        && start + length == fixed.len()
        && rr::check_plain(rtype, rdata);
    RRset::build(rtype, ttl, vec![rdata]).filter(|_| sound).map(Arc::new)
}

/// The serial in an SOA RRset.
fn serial_of(soa: &RRset) -> Serial {
    soa.rdatas().next().and_then(Soa::from_rdata).map_or(Serial(0), |soa| soa.serial)
}

/// Notes what differs between two nodes of one name.
fn compare_nodes(name: &Name, old: Node<'_>, new: Node<'_>, removed: &mut BlockBuilder, added: &mut BlockBuilder) {
    if old.has_same_records(new) {
        return;
    }
    let is_respelled = old.spelled != new.spelled;
    let [old_owner, new_owner] = [old, new].map(|node| node.spelled.unwrap_or(name.as_wire()));
    let sets = [old, new].map(|node| node.rrsets().filter(|rrset| rrset.rtype != rtype::SOA).peekable());
    let [mut before, mut after] = sets;
    loop {
        let types = [before.peek(), after.peek()].map(|rrset| rrset.map(|rrset| rrset.rtype));
        let Some(rtype) = types.into_iter().flatten().min() else { return };
        let pair = [&mut before, &mut after].map(|sets| sets.next_if(|rrset| rrset.rtype == rtype));
        match pair {
            [Some(before), Some(after)] if before.ttl == after.ttl && !is_respelled => {
                let ttl = before.ttl;
                rr::differences(before, after, |is_gone, rdata| match is_gone {
                    true => removed.push(Record { owner: old_owner, rtype, ttl, rdata }),
                    false => added.push(Record { owner: new_owner, rtype, ttl, rdata }),
                });
            }
            [before, after] => {
                before.into_iter().for_each(|rrset| removed.push_all(old_owner, rrset));
                after.into_iter().for_each(|rrset| added.push_all(new_owner, rrset));
            }
        }
    }
}
