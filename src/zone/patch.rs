//! The changes that an incremental transfer brings, put on top of a version.
//!
//! A primary's account of what changed need not fit what it sent before: CNS writes data before the serial, so a record
//! can be there before it is added or gone before it is removed (`docs/cns.md` 9). Such steps change nothing and are
//! counted. What cannot be known is whether a record of which the primary had several copies is gone with the removal
//! of one (8 there), nor whether a removal from a copy that was mixed is meant for what is there: such removals are
//! told, so that the caller asks, and has the changes made once more with [`Vetoes`]. At the apex none is in doubt: NS
//! records come from CNS' configuration.
//!
//! **TTLs.** A record is removed whatever its TTL (10 there). A set gets another TTL only where the primary can have
//! meant that. CNS gives NS records the TTL 30 in differences and 3600 in the whole zone; if that were taken at its
//! word, each such change would move the TTL there, and the next full transfer back. Where a record is removed with a
//! TTL below that of its set, the primary is of that kind, for a set has the smallest TTL of its records: the set keeps
//! its TTL. So does the NS set of the apex while any of its records stays: whoever changes the TTL of a set changes all
//! of it. Else the smallest TTL of the records that stay and of those that come counts (RFC 2181 section 5.2), as in a
//! full transfer.
//!
//! Cost: O(octets) for a change that is taken, and O(changes × log changes + records at the names that changed) to
//! finish. A name may have any number of records, and whoever takes changes must not stop for long, so all are made by
//! [`Patcher::finish`], name by name.

use super::meter::Meter;
use super::node::Node;
use super::parallel;
use super::records::{LargeSet, Records};
use super::table::{self, FETCHED, Table};
use crate::zone::aside::{self, AsideRecord};
use crate::zone::loader::{MAX_ANSWER_BYTES, Raw, assemble, stored_ttl};
use crate::zone::{Anomalies, Editor, Loaded, Mixed, Removal, Repeated, Vetoes, Zone, ZoneError, node};
use std::ops::Range;
use std::sync::Arc;
use wire::name::{Name, NameBuf};
use wire::rr::{self, Set, rtype};

/// Records of the base, at names that change, above which the end takes long.
const MANY_COPIES: u64 = 2000;
/// Number of changes below which other threads are not worth their start.
const MANY_CHANGES: usize = 1000;

/// A version in the making.
pub struct Patcher {
    base: Arc<Zone>,
    /// Octets of the changes.
    bytes: Vec<u8>,
    changes: Vec<PatchChange>,
    /// True if the removals that come now are in doubt whatever they remove.
    in_doubt: bool,
    /// Records of the base that will be looked at, up to where it is many.
    copies: u64,
    /// Signatures among the additions with another TTL than the set which they cover.
    signature_ttls: u64,
    meter: Meter,
}

/// A change that was taken. Behind one another in the bytes are the owner's labels in front of the origin, lowercase;
/// the owner as it is spelled, where that is not lowercase; the RDATA.
struct PatchChange {
    hash: u64,
    start: usize,
    owner_bytes: u8,
    spelled_bytes: u8,
    rdata_bytes: u16,
    rtype: u16,
    ttl: u32,
    adds: bool,
    /// True for a removal that is in doubt whatever it removes.
    in_doubt: bool,
}

/// Result of the changes.
pub struct Patched {
    pub loaded: Loaded,
    /// Removals of records that were not there.
    pub absent: u64,
    /// Additions of records that were there.
    pub present: u64,
    /// Records that are gone and may still be at the primary.
    pub doubts: Vec<Removal>,
}

impl Patcher {
    /// Starts from a version.
    pub fn new(base: Arc<Zone>) -> Patcher {
        // The end makes the apex anew, because the SOA is there.
        let copies = base.apex().records();
        let meter = Meter::default();
        Patcher { base, bytes: Vec::new(), changes: Vec::new(), in_doubt: false, copies, signature_ttls: 0, meter }
    }

    /// Number of changes taken so far.
    pub fn changes(&self) -> u64 {
        self.changes.len() as u64
    }

    /// Whether any of them adds a record. O(changes)
    pub fn adds(&self) -> bool {
        self.changes.iter().any(|change| change.adds)
    }

    /// Octets in memory of the changes taken so far, and of what they add to the version.
    pub fn octets(&self) -> u64 {
        self.meter.octets()
    }

    /// Returns true if the end takes long, because names with many records change.
    pub fn is_long(&self) -> bool {
        self.copies > MANY_COPIES
    }

    /// The version that it starts from.
    pub fn base(&self) -> &Arc<Zone> {
        &self.base
    }

    /// Has the removals that follow be in doubt whatever they remove, or no longer.
    pub fn set_in_doubt(&mut self, in_doubt: bool) {
        self.in_doubt = in_doubt;
    }

    /// Takes a removal; the owner is within the origin. The zone's SOA is not among the changes.
    pub fn remove(&mut self, owner: &NameBuf, rtype: u16, ttl: u32, rdata: &[u8]) {
        self.take(owner, rtype, ttl, rdata, false);
    }

    /// Has the removals behind the first changes be in doubt.
    pub fn put_in_doubt(&mut self, changes: u64) {
        let behind = usize::try_from(changes).unwrap_or(usize::MAX).min(self.changes.len());
        self.changes[behind..].iter_mut().for_each(|change| change.in_doubt = !change.adds);
    }

    /// Forgets all changes but the first ones.
    pub fn truncate(&mut self, changes: u64) {
        self.changes.truncate(usize::try_from(changes).unwrap_or(usize::MAX));
    }

    /// Takes an addition.
    pub fn add(&mut self, owner: &NameBuf, rtype: u16, ttl: u32, rdata: &[u8]) {
        self.take(owner, rtype, ttl, rdata, true);
    }

    /// Notes a change for the end.
    fn take(&mut self, owner: &NameBuf, rtype: u16, ttl: u32, rdata: &[u8], adds: bool) {
        let lower = owner.to_lowercase();
        let labels = &lower.as_wire()[..lower.as_wire().len() - self.base.origin.as_wire().len()];
        let spelled = if lower.as_wire() == owner.as_wire() { &[] } else { owner.as_wire() };
        self.signature_ttls += u64::from(adds && rr::record_ttl(rtype, ttl, rdata) != ttl);
        let hash = table::hash(labels);
        if !self.is_long() && !labels.is_empty() && self.changes.last().is_none_or(|last| last.hash != hash) {
            self.copies += self.base.table.get_hashed(hash, labels).map_or(0, Node::records);
        }
        self.changes.push(PatchChange {
            hash,
            start: self.bytes.len(),
            owner_bytes: labels.len() as u8,
            spelled_bytes: spelled.len() as u8,
            rdata_bytes: rdata.len() as u16,
            rtype,
            ttl: stored_ttl(rtype, ttl),
            adds,
            in_doubt: self.in_doubt && !adds,
        });
        let octets = size_of::<PatchChange>() + spelled.len() + rdata.len();
        if adds && self.changes.iter().rev().nth(1).is_none_or(|last| last.hash != hash) {
            let base = &self.base;
            self.meter.count(labels, octets, |hash, above| base.table.get_hashed(hash, above).is_some());
        } else {
            self.meter.add(octets + labels.len());
        }
        [labels, spelled, rdata].into_iter().for_each(|part| self.bytes.extend_from_slice(part));
    }

    /// Makes the version, with this SOA and this mark. Records that are vetoed stay.
    pub fn finish(&self, soa_ttl: u32, soa: &[u8], mixed: Mixed, vetoes: &Vetoes) -> Result<Patched, ZoneError> {
        let Patcher { base, bytes, changes, .. } = self;
        let owner = |change: &PatchChange| &bytes[change.start..change.start + usize::from(change.owner_bytes)];
        let mut order: Vec<(u64, usize)> = changes.iter().map(|change| change.hash).zip(0..).collect();
        order.sort_unstable_by(|a, b| {
            let by_owner = || owner(&changes[a.1]).cmp(owner(&changes[b.1]));
            a.0.cmp(&b.0).then_with(by_owner).then(a.1.cmp(&b.1))
        });
        let is_same = |a: &(u64, usize), b: &(u64, usize)| a.0 == b.0 && owner(&changes[a.1]) == owner(&changes[b.1]);
        // The apex has the SOA, whatever else changed there.
        let below_apex = order.chunk_by(is_same).filter(|group| changes[group[0].1].owner_bytes > 0);
        let groups: Vec<&[(u64, usize)]> = below_apex.collect();
        let change_names = |range: Range<usize>| {
            let (mut patch, mut group) = (Patch::new(base, bytes, vetoes), Vec::new());
            for parts in groups[range].chunks(FETCHED) {
                Table::fetch(&[&base.table], parts.iter().map(|part| part[0].0));
                for part in parts {
                    group.clear();
                    group.extend(part.iter().map(|(_, index)| &changes[*index]));
                    patch.change(part[0].0, owner(group[0]), &group, None);
                }
            }
            patch
        };
        let parts = parallel::parts(changes.len(), MANY_CHANGES);
        let mut patches = parallel::in_parts(groups.len(), parts, change_names);
        let at_apex: Vec<&PatchChange> = changes.iter().filter(|change| change.owner_bytes == 0).collect();
        let mut last = Patch::new(base, bytes, vetoes);
        last.change(table::hash(&[]), &[], &at_apex, Some((rtype::SOA, soa_ttl, soa)));
        patches.push(last);
        let mut editor = Editor::from_zone(base);
        for patch in &mut patches {
            let start = editor.take_sets(std::mem::take(&mut patch.sets));
            for Edit { hash, owner, old, sets, spelled } in &patch.edits {
                editor.set_taken(*hash, owner, *old, start + sets.start..start + sets.end, *spelled);
            }
        }
        let Some(Patch { repeated, anomalies, touched, left_out, absent, present, doubts, .. }) =
            patches.into_iter().reduce(Patch::join)
        else {
            unreachable!("there is the one of the apex");
        };
        let anomalies = Anomalies { signature_ttls: self.signature_ttls, ..anomalies };
        editor.repeated = repeated;
        left_out.into_iter().for_each(|(name, records)| editor.left_out.set(name, records));
        editor.mixed = mixed;
        let loaded = Loaded { zone: editor.finish()?, touched, anomalies };
        Ok(Patched { loaded, absent, present, doubts })
    }
}

/// Changes being made to some names.
struct Patch<'a> {
    base: &'a Zone,
    /// Octets of the changes.
    bytes: &'a [u8],
    vetoes: &'a Vetoes,
    edits: Vec<Edit<'a>>,
    /// Sets of all edits.
    sets: Vec<u8>,
    repeated: Repeated,
    anomalies: Anomalies,
    touched: Vec<Name>,
    /// Records that are left out, at names where they change.
    left_out: Vec<(Name, Vec<AsideRecord>)>,
    absent: u64,
    present: u64,
    doubts: Vec<Removal>,
}

/// Contents of a name after its changes.
struct Edit<'a> {
    hash: u64,
    owner: &'a [u8],
    /// Contents of the name in the base.
    old: Node<'a>,
    sets: Range<usize>,
    spelled: Option<&'a [u8]>,
}

impl<'a> Patch<'a> {
    /// Starts with no changes.
    fn new(base: &'a Zone, bytes: &'a [u8], vetoes: &'a Vetoes) -> Patch<'a> {
        Patch {
            base,
            bytes,
            vetoes,
            edits: Vec::new(),
            sets: Vec::new(),
            repeated: base.repeated.growing(),
            anomalies: Anomalies::default(),
            touched: Vec::new(),
            left_out: Vec::new(),
            absent: 0,
            present: 0,
            doubts: Vec::new(),
        }
    }

    /// Adds what the changes of other names came to.
    fn join(mut self, mut other: Patch<'a>) -> Patch<'a> {
        self.touched.append(&mut other.touched);
        self.left_out.append(&mut other.left_out);
        self.doubts.append(&mut other.doubts);
        self.repeated.extend(other.repeated);
        Patch {
            anomalies: self.anomalies.add(other.anomalies),
            absent: self.absent + other.absent,
            present: self.present + other.present,
            ..self
        }
    }

    /// Makes the changes of one name, in their order, and gives it a record more.
    fn change(&mut self, hash: u64, owner: &'a [u8], changes: &[&PatchChange], more: Option<Raw<&[u8]>>) {
        let (base, bytes) = (self.base, self.bytes);
        let node = base.table.get_hashed(hash, owner).unwrap_or_default();
        let mut records = Records::new(node, changes.len());
        let mut spelled = node.spelled;
        // Types of which a record was removed with a TTL that no record had.
        let mut unmoved: Vec<u16> = Vec::new();
        let mut doubts: Vec<(u16, Vec<u8>)> = Vec::new();
        let name = || Name::join(owner, &base.origin);
        let left_out_before = if base.left_out.is_empty() { Vec::new() } else { base.left_out.get(&name()).to_vec() };
        let mut left_out = left_out_before.clone();
        for change in changes {
            let (spelling, rdata) = change.parts(bytes);
            let rtype = change.rtype;
            if !change.adds && !left_out.is_empty() {
                left_out.retain(|record| !record.is(rtype, rdata));
            }
            match (change.adds, records.find(rtype, rdata)) {
                // A stray SOA below the apex is not kept, so its removal is no surprise.
                (false, None) => self.absent += u64::from(rtype != rtype::SOA),
                (false, Some(at)) => {
                    if self.is_in_doubt(owner, change, rdata) {
                        if self.vetoes.holds(name().as_wire(), rtype, rdata) {
                            self.repeated.insert(name().as_wire(), rtype, rdata);
                            continue;
                        }
                        doubts.push((rtype, rr::fold(rtype, rdata)));
                    }
                    if records.remove(at) > change.ttl {
                        unmoved.push(rtype);
                    }
                }
                (true, _) if rtype == rtype::SOA => self.anomalies.inner_soa += 1,
                (true, Some(_)) => {
                    self.present += 1;
                    self.repeated.insert(name().as_wire(), rtype, rdata);
                }
                (true, None) => {
                    if records.is_empty() {
                        spelled = spelling;
                    }
                    records.add(rtype, change.ttl, rdata);
                }
            }
        }
        doubts.sort_unstable();
        doubts.dedup();
        let gone = doubts.into_iter().filter(|(rtype, rdata)| records.find(*rtype, rdata).is_none());
        self.doubts.extend(gone.map(|(rtype, rdata)| Removal { owner: name(), rtype, rdata }));
        if owner.is_empty() && records.keeps(rtype::NS) {
            unmoved.push(rtype::NS);
        }
        unmoved.sort_unstable();
        let base_ttl = |rtype| {
            let is_unmoved = unmoved.binary_search(&rtype).is_ok();
            node.get(rtype).filter(|_| is_unmoved).map(|set| set.ttl)
        };
        let mut raw: Vec<Raw<&[u8]>> = records.iter().collect();
        let mut sets = std::mem::take(&mut self.sets);
        let start = sets.len();
        let is_alias = |record: &Raw<&[u8]>| matches!(record.0, rtype::CNAME | rtype::DNAME);
        if records.len() > 1 && raw.iter().any(is_alias) || more.is_some() {
            raw.extend(records.of_large());
            raw.iter_mut().for_each(|(rtype, ttl, _)| *ttl = base_ttl(*rtype).unwrap_or(*ttl));
            raw.extend(more);
            let mut more = Vec::new();
            let rrsets = assemble(name().as_wire(), raw, &mut self.anomalies, &mut self.repeated, &mut more);
            aside::add_each(&mut left_out, more);
            node::write_sets(&rrsets, &mut sets);
        } else {
            let mut types: Vec<u16> = changes.iter().map(|change| change.rtype).collect();
            types.sort_unstable();
            raw.sort_by_key(|record| record.0);
            let mut large = records.large().iter().peekable();
            let mut groups = raw.chunk_by(|a, b| a.0 == b.0).peekable();
            loop {
                let of_large = large.peek().map(|large| large.set().rtype);
                let Some(rtype) = groups.peek().map(|group| group[0].0).into_iter().chain(of_large).min() else {
                    break;
                };
                let group = groups.next_if(|group| group[0].0 == rtype).unwrap_or_default();
                let large = large.next_if(|large| large.set().rtype == rtype);
                let written = sets.len();
                match (node.get(rtype).filter(|_| types.binary_search(&rtype).is_err()), large) {
                    (Some(same), _) => same.write(&mut sets),
                    (None, Some(large)) => self.write_large(large, group, base_ttl(rtype), &mut sets),
                    (None, None) => self.write_set(group, base_ttl(rtype), &mut sets),
                }
                let is_oversized = |set: Set<'_>| set.wire_bytes_about() > MAX_ANSWER_BYTES;
                self.anomalies.oversized += u64::from(node::sets(&sets[written..]).any(is_oversized));
            }
        }
        if left_out != left_out_before {
            self.left_out.push((name(), left_out));
        }
        if node.sets == &sets[start..] && (node.spelled == spelled || node.is_empty()) {
            sets.truncate(start);
        } else {
            self.touched.push(name());
            self.edits.push(Edit { hash, owner, old: node, sets: start..sets.len(), spelled });
        }
        self.sets = sets;
    }

    /// Returns true if a removal from a name may be meant for a copy of the record only.
    fn is_in_doubt(&self, owner: &[u8], change: &PatchChange, rdata: &[u8]) -> bool {
        let is_repeated = || {
            !self.repeated.is_none()
                && self.repeated.holds(Name::join(owner, &self.base.origin).as_wire(), change.rtype, rdata)
        };
        !owner.is_empty() && (change.in_doubt || is_repeated())
    }

    /// Writes the records of one type, which are no aliases and differ, as a set with the TTL of the base's, if that
    /// counts.
    fn write_set(&mut self, records: &[Raw<&[u8]>], base_ttl: Option<u32>, out: &mut Vec<u8>) {
        let ttl = base_ttl.unwrap_or_else(|| records.iter().map(|record| record.1).min().unwrap_or_default());
        self.anomalies.mixed_ttls += u64::from(base_ttl.is_none() && records.iter().any(|record| record.1 != ttl));
        node::write_records(records, ttl, out);
    }

    /// Writes what is left of a large set with the records that came, as [`Patch::write_set`] does.
    fn write_large(&mut self, large: &LargeSet<'_>, came: &[Raw<&[u8]>], base_ttl: Option<u32>, out: &mut Vec<u8>) {
        let left = (!large.is_gone()).then(|| large.set().ttl);
        let ttls = || left.into_iter().chain(came.iter().map(|record| record.1));
        let ttl = base_ttl.or_else(|| ttls().min()).unwrap_or_default();
        self.anomalies.mixed_ttls += u64::from(base_ttl.is_none() && ttls().any(|other| other != ttl));
        large.write(ttl, came.iter().map(|record| record.2).collect(), out);
    }
}

impl PatchChange {
    /// The owner's spelling, where it is not lowercase, and the RDATA.
    fn parts<'b>(&self, bytes: &'b [u8]) -> (Option<&'b [u8]>, &'b [u8]) {
        let rest = &bytes[self.start + usize::from(self.owner_bytes)..];
        let (spelled, rest) = rest.split_at(self.spelled_bytes.into());
        ((!spelled.is_empty()).then_some(spelled), &rest[..usize::from(self.rdata_bytes)])
    }
}
