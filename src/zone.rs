//! Zones: immutable versions in a persistent map, and the editor that makes the next version.
//!
//! A [`Zone`] never changes. [`Editor`] starts from a version, sets the RRsets of single names, and finishes as a new
//! version that shares every untouched node with the old one. [`Loader`] collects the records of a full transfer
//! and compares them with a base version, [`Patcher`] those of an incremental one; either way a transfer costs new memory
//! only for what changed. A [`Delta`] is the difference of two versions, a [`History`] the way from older ones to the
//! present.
//!
//! Invariants of a `Zone`: exactly one SOA, at the origin; every ancestor of a node down to the origin exists, so an empty
//! non-terminal is a node without RRsets (RFC 4592 section 2.2.2, RFC 8020); a CNAME has no other data beside it but
//! DNSSEC types (RFC 2181 section 10.1); at most one CNAME and one DNAME record at a name; one TTL per RRset.
//!
//! Cost: lookup O(name); an edit O(names changed × depth); comparing a transfer O(records).

mod delta;
mod history;
mod image;
#[cfg(test)]
mod laws;
mod loader;
mod patch;
#[cfg(test)]
pub mod tests;

pub use delta::{Block, Delta, DeltaError, Record};
pub use history::{History, HistoryLimits};
pub use image::ImageError;
pub use loader::{Anomalies, Loaded, Loader, settle_aliases};
pub use patch::{Patched, Patcher};

use crate::name::{self, Name};
use crate::rr::{self, RRset, rtype};
use crate::serial::Serial;
use std::hash::Hasher;
use std::sync::Arc;

/// The RRsets of one owner name, sorted by type.
pub type RRsets = Arc<[Arc<RRset>]>;

//--- Node ---

/// What a zone holds at one owner name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// Sorted by type; empty at an empty non-terminal.
    pub rrsets: RRsets,
    /// Number of existing names directly below.
    pub below: u32,
    /// The owner name as the primary spells it, where that is not lowercase.
    pub spelled: Option<Arc<[u8]>>,
}

impl Node {
    /// The RRset of a type.
    pub fn get(&self, rtype: u16) -> Option<&Arc<RRset>> {
        get(&self.rrsets, rtype)
    }
}

/// The RRset of a type in a sorted list.
pub fn get(rrsets: &[Arc<RRset>], rtype: u16) -> Option<&Arc<RRset>> {
    rrsets.iter().find(|rrset| rrset.rtype == rtype)
}

/// Number of records in a list of RRsets.
pub fn record_count(rrsets: &[Arc<RRset>]) -> u64 {
    rrsets.iter().map(|rrset| u64::from(rrset.count)).sum()
}

/// The persistent map from owner name to node. Nothing outside this module knows which map it is.
#[derive(Clone, Default)]
struct Nodes(imbl::HashMap<Name, Arc<Node>>);

//--- Soa ---

/// The numbers of an SOA record (RFC 1035 section 3.3.13), timers in seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Soa {
    pub serial: Serial,
    pub refresh: u32,
    pub retry: u32,
    pub expire: u32,
    pub minimum: u32,
}

impl Soa {
    /// Reads the numbers at the end of uncompressed SOA RDATA.
    pub fn from_rdata(rdata: &[u8]) -> Option<Soa> {
        let numbers = rdata.len().checked_sub(20).map(|start| &rdata[start..])?;
        let number =
            |index: usize| numbers[4 * index..4 * index + 4].iter().fold(0u32, |sum, byte| sum << 8 | u32::from(*byte));
        Some(Soa {
            serial: Serial(number(0)),
            refresh: number(1),
            retry: number(2),
            expire: number(3),
            minimum: number(4),
        })
    }

    /// Builds SOA RDATA.
    pub fn to_rdata(&self, mname: &[u8], rname: &[u8]) -> Vec<u8> {
        let mut rdata = [mname, rname].concat();
        for number in [self.serial.0, self.refresh, self.retry, self.expire, self.minimum] {
            rdata.extend_from_slice(&number.to_be_bytes());
        }
        rdata
    }
}

//--- Zone ---

/// One version of a zone.
#[derive(Clone)]
pub struct Zone {
    pub origin: Name,
    pub soa: Soa,
    nodes: Nodes,
    /// Number of records.
    pub records: u64,
    /// Names that hold records.
    pub owners: u64,
    /// Records of which the primary may hold more than one copy.
    pub repeated: Repeated,
    /// Nodes with NS below the origin or with DNAME: above zero, a lookup must look at the ancestors.
    pub cuts: u32,
    /// Nodes whose first label is `*` (RFC 4592): above zero, a missing name may still have an answer.
    pub wildcards: u32,
    /// The SOA with the TTL of negative answers (RFC 2308 section 3).
    pub negative: Arc<RRset>,
}

/// Why records do not make a zone.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ZoneError {
    #[error("no SOA at the origin")]
    NoSoa,
    #[error("{0} SOA records at the origin")]
    ManySoa(u32),
}

impl Zone {
    /// The node at a name in lowercase wire form.
    pub fn get(&self, wire: &[u8]) -> Option<&Node> {
        self.nodes.0.get(wire).map(|node| &**node)
    }

    /// The node of the origin.
    pub fn apex(&self) -> &Node {
        self.get(self.origin.as_wire()).expect("a zone has a node at its origin")
    }

    /// The SOA record set.
    pub fn soa_rrset(&self) -> &Arc<RRset> {
        self.apex().get(rtype::SOA).expect("a zone has an SOA at its origin")
    }

    /// Number of names, empty non-terminals included.
    pub fn names(&self) -> usize {
        self.nodes.0.len()
    }

    /// Iterates over all nodes in no order.
    pub fn iter(&self) -> impl Iterator<Item = (&Name, &Node)> {
        self.nodes.0.iter().map(|(name, node)| (name, &**node))
    }

    /// All nodes in canonical order (RFC 4034 section 6.1). O(names × log names).
    pub fn sorted(&self) -> Vec<(&Name, &Node)> {
        let mut nodes: Vec<_> = self.iter().collect();
        nodes.sort_unstable_by(|a, b| a.0.canonical_cmp(b.0));
        nodes
    }

    /// Writes the zone as a zone file: one full record a line, in canonical order.
    pub fn write_text(&self, out: &mut impl std::fmt::Write) -> std::fmt::Result {
        for (name, node) in self.sorted() {
            let mut owner = String::new();
            name::fmt_wire(node.spelled.as_deref().unwrap_or(name.as_wire()), &mut owner)?;
            // Zone files begin with the SOA (RFC 1035 section 5.2).
            let (soa, others): (Vec<_>, Vec<_>) = node.rrsets.iter().partition(|rrset| rrset.rtype == rtype::SOA);
            for rrset in soa.into_iter().chain(others) {
                for rdata in rrset.rdatas() {
                    let (ttl, rtype) = (rrset.ttl, rr::TypeName(rrset.rtype));
                    writeln!(out, "{owner} {ttl} IN {rtype} {}", rr::RdataText(rrset.rtype, rdata))?;
                }
            }
        }
        Ok(())
    }
}

impl std::fmt::Debug for Zone {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut text = String::new();
        self.write_text(&mut text)?;
        f.write_str(&text)
    }
}

impl PartialEq for Zone {
    fn eq(&self, other: &Zone) -> bool {
        self.origin == other.origin && self.nodes.0 == other.nodes.0
    }
}

//--- Repeated ---

/// Records of which a primary may hold more copies than the one that counts here.
///
/// CNS keeps records as a multiset and announces the removal of one copy while another stays (contract `cns.md`,
/// quirk 8), so the removal of such a record says nothing: only a full transfer tells. Kept as hashes; that two records
/// share one costs a full transfer too many and nothing else.
#[derive(Clone, Debug, Default)]
pub struct Repeated {
    hashes: imbl::HashSet<u64>,
    unknown: bool,
}

impl Repeated {
    /// Nothing is known, so any record may be there more than once.
    pub fn unknown() -> Repeated {
        Repeated { unknown: true, ..Repeated::default() }
    }

    /// Whether it is known that no record is repeated.
    pub fn is_none(&self) -> bool {
        !self.unknown && self.hashes.is_empty()
    }

    /// Whether a record of a name (lowercase wire form) may be repeated, or all of the name's may.
    pub fn holds(&self, owner: &[u8], rtype: u16, rdata: &[u8]) -> bool {
        self.unknown
            || !self.hashes.is_empty()
                && (self.hashes.contains(&hash_record(owner, rtype, rdata))
                    || self.hashes.contains(&hash_record(owner, 0, &[])))
    }

    /// Notes a repeated record.
    pub fn insert(&mut self, owner: &[u8], rtype: u16, rdata: &[u8]) {
        self.hashes.insert(hash_record(owner, rtype, rdata));
    }

    /// Notes that any record of a name may be repeated: what the primary has there is not what we keep.
    pub fn insert_all(&mut self, owner: &[u8]) {
        self.hashes.insert(hash_record(owner, 0, &[]));
    }
}

/// A number for a record, the same whatever the case of its names.
fn hash_record(owner: &[u8], rtype: u16, rdata: &[u8]) -> u64 {
    let mut hasher = std::hash::DefaultHasher::new();
    hasher.write(owner);
    hasher.write_u16(rtype);
    hasher.write(&rr::fold(rtype, rdata));
    hasher.finish()
}

//--- Editor ---

/// A zone version in the making.
pub struct Editor {
    origin: Name,
    nodes: Nodes,
    records: u64,
    owners: u64,
    repeated: Repeated,
    cuts: u32,
    wildcards: u32,
}

impl Editor {
    /// Starts from nothing.
    pub fn new(origin: Name) -> Editor {
        Editor {
            origin,
            nodes: Nodes::default(),
            records: 0,
            owners: 0,
            repeated: Repeated::default(),
            cuts: 0,
            wildcards: 0,
        }
    }

    /// Starts from a version; sharing it costs nothing.
    pub fn from_zone(zone: &Zone) -> Editor {
        Editor {
            origin: zone.origin.clone(),
            nodes: zone.nodes.clone(),
            records: zone.records,
            owners: zone.owners,
            repeated: zone.repeated.clone(),
            cuts: zone.cuts,
            wildcards: zone.wildcards,
        }
    }

    /// The node as it stands now.
    pub fn get(&self, name: &Name) -> Option<&Node> {
        self.nodes.0.get(name).map(|node| &**node)
    }

    /// Replaces all RRsets of a name, which must be within the origin. Returns whether anything changed.
    pub fn set(&mut self, name: &Name, rrsets: RRsets, spelled: Option<Arc<[u8]>>) -> bool {
        debug_assert!(name.is_within(&self.origin));
        debug_assert!(rrsets.is_sorted_by_key(|rrset| rrset.rtype));
        let old = self.nodes.0.get(name);
        match old {
            Some(node) if node.rrsets == rrsets && node.spelled == spelled => return false,
            None if rrsets.is_empty() => return false,
            _ => {}
        }
        let (existed, below) = (old.is_some(), old.map_or(0, |node| node.below));
        if let Some(node) = old {
            self.records -= record_count(&node.rrsets);
            self.owners -= u64::from(!node.rrsets.is_empty());
            self.cuts -= u32::from(is_cut(&node.rrsets, *name == self.origin));
        }
        self.records += record_count(&rrsets);
        self.owners += u64::from(!rrsets.is_empty());
        self.cuts += u32::from(is_cut(&rrsets, *name == self.origin));
        if rrsets.is_empty() && below == 0 {
            self.nodes.0.remove(name);
            self.unlink(name);
        } else {
            let spelled = spelled.filter(|_| !rrsets.is_empty());
            self.nodes.0.insert(name.clone(), Arc::new(Node { rrsets, below, spelled }));
            if !existed {
                self.link(name);
            }
        }
        true
    }

    /// Counts a new name in its parent, which comes into being as an empty non-terminal where it must.
    fn link(&mut self, name: &Name) {
        self.wildcards += u32::from(is_wildcard(name));
        if *name == self.origin {
            return;
        }
        let Some(parent) = name.parent() else { return };
        if let Some(node) = self.nodes.0.get_mut(&parent) {
            Arc::make_mut(node).below += 1;
        } else {
            let node = Node { rrsets: RRsets::default(), below: 1, spelled: None };
            self.nodes.0.insert(parent.clone(), Arc::new(node));
            self.link(&parent);
        }
    }

    /// Counts a vanished name out of its parent, which vanishes too when it was empty and had nothing else below.
    fn unlink(&mut self, name: &Name) {
        self.wildcards -= u32::from(is_wildcard(name));
        if *name == self.origin {
            return;
        }
        let Some(parent) = name.parent() else { return };
        let Some(node) = self.nodes.0.get_mut(&parent) else { return };
        let node = Arc::make_mut(node);
        node.below -= 1;
        if node.below == 0 && node.rrsets.is_empty() {
            self.nodes.0.remove(&parent);
            self.unlink(&parent);
        }
    }

    /// Replaces what is known of repeated records.
    pub fn set_repeated(&mut self, repeated: Repeated) {
        self.repeated = repeated;
    }

    /// Closes the version.
    pub fn finish(self) -> Result<Zone, ZoneError> {
        let apex = self.nodes.0.get(&self.origin).ok_or(ZoneError::NoSoa)?;
        let rrset = apex.get(rtype::SOA).ok_or(ZoneError::NoSoa)?;
        if rrset.count != 1 {
            return Err(ZoneError::ManySoa(rrset.count));
        }
        let rdata = rrset.rdatas().next().ok_or(ZoneError::NoSoa)?;
        let soa = Soa::from_rdata(rdata).ok_or(ZoneError::NoSoa)?;
        let ttl = rrset.ttl.min(soa.minimum);
        let negative = RRset::build(rtype::SOA, ttl, vec![rdata]).ok_or(ZoneError::NoSoa)?;
        Ok(Zone {
            soa,
            negative: Arc::new(negative),
            origin: self.origin,
            nodes: self.nodes,
            records: self.records,
            owners: self.owners,
            repeated: self.repeated,
            cuts: self.cuts,
            wildcards: self.wildcards,
        })
    }
}

/// Whether names below must not be answered from this zone as they stand.
fn is_cut(rrsets: &[Arc<RRset>], at_origin: bool) -> bool {
    (!at_origin && get(rrsets, rtype::NS).is_some()) || get(rrsets, rtype::DNAME).is_some()
}

/// Whether the first label is the asterisk (RFC 4592 section 2.1.1).
fn is_wildcard(name: &Name) -> bool {
    name.as_wire().starts_with(b"\x01*")
}
