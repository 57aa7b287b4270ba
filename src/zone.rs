//! Zones: immutable versions in a persistent table, and the editor that makes the next version.
//!
//! A [`Zone`] never changes. [`Editor`] starts from a version, sets the RRsets of single names, and finishes as a new
//! version that shares with the old one what is not near it. [`Loader`] collects the records of a full transfer and
//! compares them with a base version, [`Patcher`] those of an incremental one; either way a transfer costs new memory
//! only for what changed. [`Mixed`] and [`Repeated`] say which removals of an incremental one are in doubt. A [`Delta`]
//! is the difference of two versions, a [`History`] the way from older ones to the present. A zone that is [`Signed`] can
//! find the record that denies a name.
//!
//! Invariants of a `Zone`: exactly one SOA, at the origin; every ancestor of a node down to the origin exists, so an
//! empty non-terminal is a node without RRsets (RFC 4592 section 2.2.2, RFC 8020); a CNAME has no other data beside it
//! but DNSSEC types (RFC 2181 section 10.1); at most one CNAME and one DNAME record at a name; one TTL per RRset, which for
//! signatures says nothing: each has the TTL that it tells itself ([`rr::record_ttl`]).
//!
//! Cost: lookup O(name); an edit O(names changed × depth); comparing a transfer O(records).

mod apex;
mod apply;
mod aside;
mod block;
mod builder;
mod byte_reader;
mod canonical;
mod delta;
mod doubt;
mod editor;
mod history;
mod image;
mod kept;
#[cfg(test)]
mod laws;
mod loader;
mod meter;
mod node;
mod pages;
pub mod parallel;
mod patch;
mod records;
mod repeated;
mod signed;
mod sizes;
mod table;
#[cfg(test)]
pub mod tests;
mod text;
mod unite;

pub use apex::{SoaFields, apex_rrsets};
pub use aside::{Aside, AsideRecord};
pub use block::{Block, OpenBlock, Record};
pub use builder::Builder;
pub use byte_reader::ByteReader;
pub use delta::{Delta, DeltaError, OpenDelta};
pub use doubt::{Mixed, Removal, Vetoes};
pub use editor::Editor;
pub use history::{Cause, History, HistoryLimits, HistoryStep, share_of_total};
pub use image::{IMAGE_FORMAT, ImageError, OLDEST_IMAGE_FORMAT};
pub use loader::{Anomalies, Loaded, Loader};
pub use node::{LONG_OWNER, Node};
pub use pages::{Piece, piece_of, use_large_pages};
pub use patch::{Patched, Patcher};
pub use repeated::Repeated;
pub use signed::Signed;
pub use sizes::{Large, RESOLVER_RECORDS, SizeLimit, Sizes};
pub use table::{ByHash, FETCHED, LINE_BYTES, Owner, Stored, Table, prefetch};
pub use text::{TextFault, TextRecord, read_text};
pub use unite::Union;

use std::sync::Arc;
use wire::name::{self, Name, NameBuf};
use wire::rr::{self, RRset, rtype};
use wire::serial::Serial;

/// The RRsets of one owner name, sorted by type.
pub type RRsets = Arc<[Arc<RRset>]>;

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
        let mut numbers = ByteReader(&rdata[rdata.len().checked_sub(20)?..]);
        Some(Soa {
            serial: Serial(numbers.u32()?),
            refresh: numbers.u32()?,
            retry: numbers.u32()?,
            expire: numbers.u32()?,
            minimum: numbers.u32()?,
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
    table: Table,
    soa_rrset: Arc<RRset>,
    /// Number of records.
    pub records: u64,
    /// Names that hold records.
    pub owners: u64,
    /// Records of which the primary may hold more than one copy.
    pub repeated: Repeated,
    /// Records of the primary that the zone cannot hold.
    pub left_out: Aside,
    /// Records that stay although they are removed, for want of an answer; without TTL.
    pub unanswered: Aside,
    /// Serials up to which removals are in doubt whatever they remove.
    pub mixed: Mixed,
    /// Nodes with NS below the origin or with DNAME: above zero, a lookup must look at the ancestors.
    pub cuts: u32,
    /// Nodes whose first label is `*` (RFC 4592): above zero, a missing name may still have an answer.
    pub wildcards: u32,
    /// Nodes below the origin that another zone may not be able to take as they stand.
    odd: u32,
    /// How large its RRsets are.
    pub sizes: Sizes,
    /// What a signed zone has beside its records.
    signed: Option<Arc<Signed>>,
    /// The SOA with the TTL of negative answers (RFC 2308 section 3).
    pub negative: Arc<RRset>,
}

/// Error: records do not make a zone.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ZoneError {
    #[error("no SOA at the origin")]
    NoSoa,
    #[error("{0} SOA records at the origin")]
    ManySoa(u32),
}

impl Zone {
    /// The node at a name in lowercase wire form.
    #[inline]
    pub fn get(&self, wire: &[u8]) -> Option<Node<'_>> {
        // What is left of the wire form is whole labels wherever it equals an owner, so there is no need to look for
        // that.
        self.table.get(wire.strip_suffix(self.origin.as_wire())?)
    }

    /// The hash of a name in lowercase wire form that is known to be within this zone.
    #[inline]
    pub fn hash_of(&self, wire: &[u8]) -> u64 {
        table::hash(&wire[..wire.len() - self.origin.as_wire().len()])
    }

    /// Finds a node as [`Zone::get`] does, for a name that has been found to be within this zone and has this hash.
    #[inline]
    pub fn get_hashed(&self, hash: u64, wire: &[u8]) -> Option<Node<'_>> {
        self.table.get_hashed(hash, &wire[..wire.len() - self.origin.as_wire().len()])
    }

    /// The nodes by their hashes, for the steps of [`Table::fetch_shard`].
    #[inline]
    pub fn table(&self) -> &Table {
        &self.table
    }

    /// The node at an owner in front of the zone's origin.
    pub fn get_at(&self, owner: &Owner<'_>) -> Option<Node<'_>> {
        self.table.get_hashed(owner.hash, owner.labels)
    }

    /// The node of the origin.
    pub fn apex(&self) -> Node<'_> {
        self.table.get(&[]).expect("a zone has a node at its origin")
    }

    /// The names in the NS records of the origin.
    pub fn name_servers(&self) -> impl Iterator<Item = Name> {
        let rdatas = self.apex().get(rtype::NS).into_iter().flat_map(|ns| ns.rdatas());
        rdatas.filter_map(|rdata| NameBuf::from_wire(rdata).ok()).map(|name| name.to_name())
    }

    /// The SOA record set.
    pub fn soa_rrset(&self) -> &Arc<RRset> {
        &self.soa_rrset
    }

    /// All that is told beside the version.
    fn aside(&self) -> [&Aside; 2] {
        [&self.left_out, &self.unanswered]
    }

    /// Number of names, empty non-terminals included.
    pub fn names(&self) -> usize {
        self.table.names()
    }

    /// Octets that the version takes in memory, were nothing of it in another version or zone.
    pub fn octets(&self) -> u64 {
        let told = self.repeated.octets() + self.left_out.octets() + self.unanswered.octets();
        self.table.octets() + told + self.signed().map_or(0, Signed::octets)
    }

    /// Iterates over all nodes in no order.
    pub fn nodes(&self) -> impl Iterator<Item = Node<'_>> {
        self.table.iter()
    }

    /// Iterates over all nodes as they are stored, those of one zone in nearly the order of another's.
    pub fn stored(&self) -> impl Iterator<Item = Stored<'_>> {
        self.table.stored()
    }

    /// Iterates over all nodes with their names in no order.
    pub fn iter(&self) -> impl Iterator<Item = (Name, Node<'_>)> {
        self.nodes().map(|node| (self.name_of(node), node))
    }

    /// The name of a node.
    pub fn name_of(&self, node: Node<'_>) -> Name {
        Name::join(node.owner, &self.origin)
    }

    /// The owner of a node in wire form, as the primary spells it, in two parts, of which the second may be empty.
    pub fn owner_of<'a>(&'a self, node: Node<'a>) -> [&'a [u8]; 2] {
        node.spelled.map_or([node.owner, self.origin.as_wire()], |spelled| [spelled, &[]])
    }

    /// All nodes in canonical order (RFC 4034 section 6.1). O(names × log names).
    pub fn sorted(&self) -> Vec<(Name, Node<'_>)> {
        let mut nodes: Vec<_> = self.iter().collect();
        nodes.sort_unstable_by(|a, b| a.0.canonical_cmp(&b.0));
        nodes
    }

    /// Writes the zone as a zone file: one full record a line, in canonical order.
    pub fn write_text(&self, out: &mut impl std::fmt::Write) -> std::fmt::Result {
        for (name, node) in self.sorted() {
            let mut owner = String::new();
            name::fmt_wire(node.spelled.unwrap_or(name.as_wire()), &mut owner)?;
            // Zone files begin with the SOA (RFC 1035 section 5.2).
            let (soa, others): (Vec<_>, Vec<_>) = node.rrsets().partition(|rrset| rrset.rtype == rtype::SOA);
            for rrset in soa.into_iter().chain(others) {
                for rdata in rrset.rdatas() {
                    let (ttl, rtype) = (rr::record_ttl(rrset.rtype, rrset.ttl, rdata), rr::TypeName(rrset.rtype));
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
        self.origin == other.origin && self.table == other.table
    }
}
