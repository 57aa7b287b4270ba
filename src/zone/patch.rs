//! The changes that an incremental transfer brings, put on top of a version.
//!
//! A primary's account of what changed need not fit what it sent before: CNS writes data before the serial, so a record
//! can be there before it is added or gone before it is removed (contract `cns.md`, quirk 9). Such steps change nothing
//! and are counted. What cannot be known is whether a record of which the primary had several copies is gone with the removal
//! of one: the caller is told and transfers in full (quirk 8).
//!
//! **TTLs.** A record is removed whatever its TTL (quirk 10). A set gets another TTL only where the primary can have meant that.
//! CNS gives NS records the TTL 30 in differences and 3600 in the whole zone; if that were taken at its word, each such
//! change would move the TTL there, and the next full transfer back. A set has one TTL (RFC 2181 section 5.2), so whoever
//! changes it removes every record with the old TTL and adds every record with the new one. Hence a set keeps the TTL it
//! had while any of its records stays, and when one was removed with a TTL that it did not have; a primary of that kind has
//! other TTLs in differences than in its zone.
//!
//! Cost: O(changes) while they are taken, and O(records at the names that changed) to finish. What is to be changed is copied
//! first; once more than two thousand records would be copied, further changes are only noted, and [`Patcher::finish`]
//! makes them: a name may have any number of records, and whoever takes changes must not stop for long.

use crate::name::{Name, NameBuf};
use crate::rr::{self, Set, rtype};
use crate::zone::loader::{Raw, assemble};
use crate::zone::{Anomalies, Editor, Loaded, Zone, ZoneError};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// Records of the base that are copied while changes are taken.
const MANY_COPIES: u64 = 2000;

/// A version in the making.
pub struct Patcher {
    base: Arc<Zone>,
    names: HashMap<Name, Pending>,
    repeated: super::Repeated,
    absent: u64,
    present: u64,
    inner_soa: u64,
    doubtful: bool,
    changes: u64,
    /// Records of the base that were copied, or will be.
    copies: u64,
    /// Changes that wait for the end, in order.
    later: Vec<Change>,
}

/// A change that is only noted.
struct Change {
    owner: Box<[u8]>,
    rtype: u16,
    ttl: u32,
    rdata: Box<[u8]>,
    adds: bool,
}

/// The records of one name as they stand after the changes so far.
struct Pending {
    spelled: Option<Arc<[u8]>>,
    /// By type and canonical RDATA, so that a set of many records is changed in O(1) each.
    records: HashMap<(u16, Vec<u8>), Kept>,
    /// Types of which a record was removed with a TTL that it did not have.
    other_ttls: HashSet<u16>,
}

/// A record without what it is found by.
struct Kept {
    ttl: u32,
    rdata: Box<[u8]>,
    /// Whether it is one of the base's that was there all the time.
    stayed: bool,
}

/// What the changes came to.
pub struct Patched {
    pub loaded: Loaded,
    /// Removals of records that were not there.
    pub absent: u64,
    /// Additions of records that were there.
    pub present: u64,
    /// Whether a removed record may still be at the primary: only a full transfer tells.
    pub doubtful: bool,
}

impl Patcher {
    /// Starts from a version.
    pub fn new(base: Arc<Zone>) -> Patcher {
        let repeated = base.repeated.clone();
        // The end makes the apex anew, because the SOA is there.
        let copies = base.apex().records();
        Patcher {
            base,
            names: HashMap::new(),
            repeated,
            absent: 0,
            present: 0,
            inner_soa: 0,
            doubtful: false,
            changes: 0,
            copies,
            later: Vec::new(),
        }
    }

    /// Number of changes taken so far.
    pub fn changes(&self) -> u64 {
        self.changes
    }

    /// Whether the end takes long, because names with many records change.
    pub fn is_long(&self) -> bool {
        self.copies > MANY_COPIES
    }

    /// Takes a removal; the owner is within the origin. The zone's SOA is not among the changes.
    pub fn remove(&mut self, owner: &NameBuf, rtype: u16, ttl: u32, rdata: &[u8]) {
        self.changes += 1;
        if !self.postpone(owner, rtype, ttl, rdata, false) {
            self.make_removal(owner, rtype, ttl, rdata);
        }
    }

    /// Takes an addition.
    pub fn add(&mut self, owner: &NameBuf, rtype: u16, ttl: u32, rdata: &[u8]) {
        self.changes += 1;
        if !self.postpone(owner, rtype, ttl, rdata, true) {
            self.make_addition(owner, rtype, ttl, rdata);
        }
    }

    /// Notes a change for the end, if it or an earlier one is too large to be made now.
    fn postpone(&mut self, owner: &NameBuf, rtype: u16, ttl: u32, rdata: &[u8], adds: bool) -> bool {
        if !self.is_long() {
            let name = owner.to_name();
            if name != self.base.origin && !self.names.contains_key(&name) {
                self.copies += self.base.get(name.as_wire()).map_or(0, |node| node.records());
            }
        }
        if self.is_long() {
            self.later.push(Change { owner: owner.as_wire().into(), rtype, ttl, rdata: rdata.into(), adds });
        }
        self.is_long()
    }

    /// Makes the changes that were only noted.
    fn make_changes(&mut self) {
        for Change { owner, rtype, ttl, rdata, adds } in std::mem::take(&mut self.later) {
            let owner = NameBuf::from_wire(&owner).expect("it was a name when it was noted");
            if adds {
                self.make_addition(&owner, rtype, ttl, &rdata);
            } else {
                self.make_removal(&owner, rtype, ttl, &rdata);
            }
        }
    }

    /// Makes a removal.
    fn make_removal(&mut self, owner: &NameBuf, rtype: u16, ttl: u32, rdata: &[u8]) {
        let lower = owner.to_lowercase();
        let folded = rr::fold(rtype, rdata);
        let pending = self.pending(owner);
        match pending.records.remove(&(rtype, folded)) {
            Some(kept) if kept.ttl != rr::clamp_ttl(ttl) => {
                pending.other_ttls.insert(rtype);
            }
            Some(_) => {}
            // A stray SOA below the apex is not kept, so its removal is no surprise.
            None => self.absent += u64::from(rtype != rtype::SOA),
        }
        self.doubtful |= self.repeated.holds(lower.as_wire(), rtype, rdata);
    }

    /// Makes an addition.
    fn make_addition(&mut self, owner: &NameBuf, rtype: u16, ttl: u32, rdata: &[u8]) {
        let lower = owner.to_lowercase();
        if rtype == rtype::SOA {
            self.inner_soa += 1;
            return;
        }
        let key = (rtype, rr::fold(rtype, rdata));
        let spelled = (lower.as_wire() != owner.as_wire()).then(|| Arc::from(owner.as_wire()));
        let pending = self.pending(owner);
        if pending.records.contains_key(&key) {
            self.present += 1;
            self.repeated.insert(lower.as_wire(), rtype, rdata);
            return;
        }
        if pending.records.is_empty() {
            pending.spelled = spelled;
        }
        pending.records.insert(key, Kept { ttl: rr::clamp_ttl(ttl), rdata: rdata.into(), stayed: false });
    }

    /// The records of a name, begun with those of the base.
    fn pending(&mut self, owner: &NameBuf) -> &mut Pending {
        let base = &self.base;
        self.names.entry(owner.to_name()).or_insert_with_key(|name| {
            let node = base.get(name.as_wire());
            let rrsets = node.unwrap_or_default().rrsets();
            let each = |rrset: Set<'_>| {
                let (rtype, ttl) = (rrset.rtype, rrset.ttl);
                let record = move |rdata: &[u8]| {
                    ((rtype, rr::fold(rtype, rdata)), Kept { ttl, rdata: rdata.into(), stayed: true })
                };
                rrset.rdatas().map(record).collect::<Vec<_>>()
            };
            let records = rrsets.filter(|rrset| rrset.rtype != rtype::SOA).flat_map(each).collect();
            let spelled = node.and_then(|node| node.spelled).map(Arc::from);
            Pending { spelled, records, other_ttls: HashSet::new() }
        })
    }

    /// Makes the version, with this SOA.
    pub fn finish(mut self, soa_ttl: u32, soa: &[u8]) -> Result<Patched, ZoneError> {
        self.make_changes();
        let mut editor = Editor::from_zone(&self.base);
        let mut anomalies = Anomalies { inner_soa: self.inner_soa, ..Anomalies::default() };
        let mut touched = Vec::new();
        // The apex has the SOA, whatever else changed there.
        let origin = NameBuf::from_wire(self.base.origin.as_wire()).map_err(|_| ZoneError::NoSoa)?;
        self.pending(&origin);
        for (name, pending) in self.names {
            let mut unmoved = pending.other_ttls;
            unmoved.extend(pending.records.iter().filter(|(_, kept)| kept.stayed).map(|((rtype, _), _)| *rtype));
            let base = self.base.get(name.as_wire());
            let base_ttl =
                |rtype| base.filter(|_| unmoved.contains(&rtype)).and_then(|node| node.get(rtype)).map(|set| set.ttl);
            let records = pending.records.into_iter();
            let mut records: Vec<Raw<Box<[u8]>>> =
                records.map(|((rtype, _), kept)| (rtype, base_ttl(rtype).unwrap_or(kept.ttl), kept.rdata)).collect();
            if name == self.base.origin {
                records.push((rtype::SOA, soa_ttl, soa.into()));
            }
            let rrsets = assemble(name.as_wire(), records, &mut anomalies, &mut self.repeated);
            if editor.set(&name, rrsets, pending.spelled) {
                touched.push(name);
            }
        }
        editor.set_repeated(self.repeated);
        let loaded = Loaded { zone: editor.finish()?, touched, anomalies };
        Ok(Patched { loaded, absent: self.absent, present: self.present, doubtful: self.doubtful })
    }
}
