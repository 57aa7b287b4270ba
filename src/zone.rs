//! Zones: immutable versions in a persistent map, and the editor that makes the next version.
//!
//! A [`Zone`] never changes. [`Editor`] starts from a version, sets the RRsets of single names, and finishes as a new
//! version that shares every untouched node with the old one. [`Loader`] collects the records of a full transfer
//! and compares them with a base version, so a transfer, too, costs new memory only for what changed.
//!
//! Invariants of a `Zone`: exactly one SOA, at the origin; every ancestor of a node down to the origin exists, so an empty
//! non-terminal is a node without RRsets (RFC 4592 section 2.2.2, RFC 8020); a CNAME has no other data beside it but
//! DNSSEC types (RFC 2181 section 10.1); at most one CNAME and one DNAME record at a name; one TTL per RRset.
//!
//! Cost: lookup O(name); an edit O(names changed × depth); comparing a transfer O(records).

use crate::name::{self, Name, NameBuf};
use crate::rr::{self, RRset, rtype};
use crate::serial::Serial;
use std::collections::HashMap;
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

//--- Editor ---

/// A zone version in the making.
pub struct Editor {
    origin: Name,
    nodes: Nodes,
    records: u64,
    cuts: u32,
    wildcards: u32,
}

impl Editor {
    /// Starts from nothing.
    pub fn new(origin: Name) -> Editor {
        Editor { origin, nodes: Nodes::default(), records: 0, cuts: 0, wildcards: 0 }
    }

    /// Starts from a version; sharing it costs nothing.
    pub fn from_zone(zone: &Zone) -> Editor {
        Editor {
            origin: zone.origin.clone(),
            nodes: zone.nodes.clone(),
            records: zone.records,
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
            self.cuts -= u32::from(is_cut(&node.rrsets, *name == self.origin));
        }
        self.records += record_count(&rrsets);
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

//--- Loader ---

/// What a response over TCP has room for beside its header and the longest question.
const MAX_ANSWER_BYTES: usize = u16::MAX as usize - 12 - (name::MAX_NAME_BYTES + 4);

/// What a primary sent that a zone cannot hold or that should not be there; all of it is counted, none of it is fatal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Anomalies {
    /// Equal records, which CNS sends as a matter of course.
    pub duplicates: u64,
    /// RRsets whose records had different TTLs.
    pub mixed_ttls: u64,
    /// CNAME records dropped beside other data or beside another CNAME, DNAME records beside another DNAME.
    pub aliases: u64,
    /// SOA records below the apex, dropped.
    pub inner_soa: u64,
    /// RRsets that no response can hold: questions for them get TC and nothing else.
    pub oversized: u64,
}

/// The records of a full transfer, in any order.
pub struct Loader {
    origin: Name,
    names: HashMap<Name, Collected>,
    anomalies: Anomalies,
    records: u64,
}

/// The records of one name as they arrived.
#[derive(Default)]
struct Collected {
    spelled: Option<Arc<[u8]>>,
    records: Vec<(u16, u32, Box<[u8]>)>,
}

/// A full transfer as a zone version.
pub struct Loaded {
    pub zone: Zone,
    /// Names whose RRsets differ from the base version's, in no order.
    pub touched: Vec<Name>,
    pub anomalies: Anomalies,
}

impl Loader {
    /// Starts a zone without records.
    pub fn new(origin: Name) -> Loader {
        Loader { origin, names: HashMap::new(), anomalies: Anomalies::default(), records: 0 }
    }

    /// The zone's origin.
    pub fn origin(&self) -> &Name {
        &self.origin
    }

    /// Number of records taken so far.
    pub fn records(&self) -> u64 {
        self.records
    }

    /// Takes a record, whose owner the caller has found to be within the origin.
    pub fn push(&mut self, owner: &NameBuf, rtype: u16, ttl: u32, rdata: &[u8]) {
        let lower = owner.to_lowercase();
        self.records += 1;
        if rtype == rtype::SOA && lower.as_wire() != self.origin.as_wire() {
            self.anomalies.inner_soa += 1;
            return;
        }
        // RFC 2181 section 8: a TTL with the top bit set counts as zero.
        let ttl = if ttl > i32::MAX as u32 { 0 } else { ttl };
        let record = (rtype, ttl, rdata.into());
        if let Some(collected) = self.names.get_mut(lower.as_wire()) {
            collected.records.push(record);
            return;
        }
        let spelled = (lower.as_wire() != owner.as_wire()).then(|| Arc::from(owner.as_wire()));
        self.names.insert(owner.to_name(), Collected { spelled, records: vec![record] });
    }

    /// Makes the zone, sharing every node that equals the base version's.
    pub fn finish(mut self, base: Option<&Zone>) -> Result<Loaded, ZoneError> {
        let mut editor = base.map_or_else(|| Editor::new(self.origin.clone()), Editor::from_zone);
        let mut touched = Vec::new();
        for (name, collected) in &mut self.names {
            let records = std::mem::take(&mut collected.records);
            let rrsets = assemble(records, &mut self.anomalies);
            if editor.set(name, rrsets, collected.spelled.clone()) {
                touched.push(name.clone());
            }
        }
        for (name, node) in base.into_iter().flat_map(Zone::iter) {
            if !node.rrsets.is_empty() && !self.names.contains_key(name) {
                editor.set(name, RRsets::default(), None);
                touched.push(name.clone());
            }
        }
        Ok(Loaded { zone: editor.finish()?, touched, anomalies: self.anomalies })
    }
}

/// Makes RRsets of the records of one name.
fn assemble(mut records: Vec<(u16, u32, Box<[u8]>)>, anomalies: &mut Anomalies) -> RRsets {
    records.sort_by_key(|record| record.0);
    let mut rrsets = Vec::new();
    for group in records.chunk_by(|a, b| a.0 == b.0) {
        let rtype = group[0].0;
        let ttl = group.iter().map(|record| record.1).min().unwrap_or(0);
        anomalies.mixed_ttls += u64::from(group.iter().any(|record| record.1 != ttl));
        let rrset = RRset::build(rtype, ttl, group.iter().map(|record| &record.2).collect());
        let Some(rrset) = rrset else { continue };
        anomalies.oversized += u64::from(rrset.wire().len() > MAX_ANSWER_BYTES);
        anomalies.duplicates += group.len() as u64 - u64::from(rrset.count);
        rrsets.push(Arc::new(rrset));
    }
    anomalies.aliases += settle_aliases(&mut rrsets);
    rrsets.into()
}

/// Leaves a CNAME only where nothing else is, and one record in each CNAME and DNAME set. Returns the records dropped.
///
/// RFC 1034 section 3.6.2, RFC 2181 section 10.1; DNSSEC types may stand beside a CNAME (RFC 4034 section 2.5 and others).
/// Data wins over an alias: addresses that exist are more use than a pointer to others.
pub fn settle_aliases(rrsets: &mut Vec<Arc<RRset>>) -> u64 {
    let before = record_count(rrsets);
    let other_data = rrsets.iter().any(|rrset| rrset.rtype != rtype::CNAME && !rr::is_dnssec(rrset.rtype));
    rrsets.retain(|rrset| rrset.rtype != rtype::CNAME || !other_data);
    for rrset in rrsets.iter_mut() {
        if matches!(rrset.rtype, rtype::CNAME | rtype::DNAME) && rrset.count > 1 {
            let first = rrset.rdatas().take(1).map(<[u8]>::to_vec).collect();
            if let Some(single) = RRset::build(rrset.rtype, rrset.ttl, first) {
                *rrset = Arc::new(single);
            }
        }
    }
    before - record_count(rrsets)
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Reads lines `owner ttl type rdata` for A, NS, CNAME, DNAME, PTR, TXT, SRV and SOA (serial alone).
    pub fn zone(origin: &str, text: &str) -> Zone {
        load(origin, text, None).zone
    }

    pub fn load(origin: &str, text: &str, base: Option<&Zone>) -> Loaded {
        let mut loader = Loader::new(Name::parse(origin).unwrap());
        for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
            let (owner, rest) = line.split_once(' ').unwrap();
            let (ttl, rest) = rest.split_once(' ').unwrap();
            let (kind, data) = rest.split_once(' ').unwrap();
            let full = |name: &str| match name {
                "@" => NameBuf::parse(origin).unwrap(),
                name if name.ends_with('.') => NameBuf::parse(name).unwrap(),
                name => NameBuf::parse(&format!("{name}.{origin}")).unwrap(),
            };
            let (code, rdata) = match kind {
                "A" => (rtype::A, data.parse::<std::net::Ipv4Addr>().unwrap().octets().to_vec()),
                "NS" => (rtype::NS, full(data).as_wire().to_vec()),
                "CNAME" => (rtype::CNAME, full(data).as_wire().to_vec()),
                "DNAME" => (rtype::DNAME, full(data).as_wire().to_vec()),
                "PTR" => (rtype::PTR, full(data).as_wire().to_vec()),
                "TXT" => (rtype::TXT, [&[data.len() as u8], data.as_bytes()].concat()),
                "RRSIG" => (rtype::RRSIG, [&[0u8; 18][..], &[0], data.as_bytes()].concat()),
                "SRV" => {
                    let (port, target) = data.split_once(' ').unwrap();
                    let port = port.parse::<u16>().unwrap().to_be_bytes();
                    (rtype::SRV, [&[0, 0, 0, 10], &port[..], full(target).as_wire()].concat())
                }
                "SOA" => {
                    let serial = Serial(data.parse().unwrap());
                    let soa = Soa { serial, refresh: 30, retry: 60, expire: 2592000, minimum: 30 };
                    (rtype::SOA, soa.to_rdata(b"\x02ns\x00", b"\x01h\x00"))
                }
                other => panic!("type {other} in test data"),
            };
            loader.push(&full(owner), code, ttl.parse().unwrap(), &rdata);
        }
        loader.finish(base).unwrap()
    }

    fn name(text: &str) -> Name {
        Name::parse(text).unwrap()
    }

    #[test]
    fn empty_non_terminals_come_and_go_with_what_is_below() {
        let old = zone("z.", "@ 30 SOA 1\nweb.svc.acme 30 A 192.0.2.1");
        assert_eq!(old.get(name("svc.acme.z").as_wire()).unwrap().below, 1);
        assert_eq!(old.names(), 4);
        let mut editor = Editor::from_zone(&old);
        assert!(editor.set(&name("web.svc.acme.z"), RRsets::default(), None));
        let new = editor.finish().unwrap();
        assert_eq!((new.names(), new.records), (1, 1));
        assert_eq!(old.names(), 4);
    }

    #[test]
    fn odd_input_is_settled_and_counted() {
        let loaded = load(
            "z.",
            "@ 30 SOA 1
             @ 30 SOA 1
             x 30 CNAME y
             x 60 A 192.0.2.1
             x 30 A 192.0.2.2
             x 30 A 192.0.2.2
             w 30 CNAME b
             w 30 CNAME a
             sub 30 SOA 7
             s 4294967295 A 192.0.2.9",
            None,
        );
        assert_eq!(
            loaded.anomalies,
            Anomalies { duplicates: 2, mixed_ttls: 1, aliases: 2, inner_soa: 1, oversized: 0 }
        );
        let zone = loaded.zone;
        assert_eq!(format!("{:?}", zone.get(name("x.z").as_wire()).unwrap().rrsets), "[30 A [192.0.2.1] [192.0.2.2]]");
        assert_eq!(format!("{:?}", zone.get(name("w.z").as_wire()).unwrap().rrsets), "[30 CNAME [a.z.]]");
        assert_eq!(format!("{:?}", zone.get(name("s.z").as_wire()).unwrap().rrsets), "[0 A [192.0.2.9]]");
        assert!(zone.get(name("sub.z").as_wire()).is_none());
    }

    #[test]
    fn a_zone_needs_one_soa() {
        let error = |loader: Loader| loader.finish(None).err();
        assert_eq!(error(Loader::new(name("z"))), Some(ZoneError::NoSoa));
        let mut loader = Loader::new(name("z"));
        for serial in [1, 2] {
            let soa = Soa { serial: Serial(serial), refresh: 1, retry: 1, expire: 1, minimum: 1 };
            loader.push(&NameBuf::parse("z").unwrap(), rtype::SOA, 30, &soa.to_rdata(&[0], &[0]));
        }
        assert_eq!(error(loader), Some(ZoneError::ManySoa(2)));
    }

    #[test]
    fn negative_answers_carry_the_smaller_ttl() {
        assert_eq!(zone("z.", "@ 3600 SOA 1").negative.ttl, 30);
        assert_eq!(zone("z.", "@ 5 SOA 1").negative.ttl, 5);
    }

    #[test]
    fn the_spelling_of_owners_is_kept() {
        let zone = zone("z.", "@ 30 SOA 1\nWeb 30 A 192.0.2.1");
        assert!(format!("{zone:?}").contains("Web.z. 30 IN A 192.0.2.1"));
    }

    /// Zone text of a few names that collide often.
    pub fn arbitrary_text() -> impl Strategy<Value = String> {
        let owner = prop::sample::select(vec![
            "a",
            "b",
            "a.b",
            "*.b",
            "c.a.b",
            "_x._tcp",
            "i._x._tcp",
            "d.c.a.b",
            "sub",
            "w.sub",
        ]);
        let data = prop::sample::select(vec![
            "A 192.0.2.1",
            "A 192.0.2.2",
            "TXT t",
            "TXT txtvers=1",
            "TXT txtvers=2",
            "CNAME a",
            "CNAME b",
            "NS ns.sub",
            "DNAME b",
            "SRV 80 a",
            "SRV 80 b",
            "SRV 81 a",
            "PTR i._x._tcp",
            "RRSIG s",
        ]);
        let ttl = prop::sample::select(vec![5u32, 30, 60]);
        (any::<u32>(), prop::collection::vec((owner, ttl, data), 0..25)).prop_map(|(serial, records)| {
            let mut text = format!("@ 30 SOA {serial}\n@ 3600 NS ns.example.\n");
            for (owner, ttl, data) in records {
                text.push_str(&format!("{owner} {ttl} {data}\n"));
            }
            text
        })
    }

    proptest! {
        /// Loading against any base gives the zone that loading from nothing gives, and names what differs.
        #[test]
        fn loading_against_a_base_equals_loading(old in arbitrary_text(), new in arbitrary_text()) {
            let base = zone("z.", &old);
            let fresh = load("z.", &new, None);
            let loaded = load("z.", &new, Some(&base));
            prop_assert_eq!(&loaded.zone, &fresh.zone);
            prop_assert_eq!(
                (loaded.zone.records, loaded.zone.cuts, loaded.zone.wildcards),
                (fresh.zone.records, fresh.zone.cuts, fresh.zone.wildcards)
            );
            let empty = RRsets::default();
            let at = |zone: &Zone, name: &Name| zone.get(name.as_wire()).map_or(empty.clone(), |node| node.rrsets.clone());
            for (name, _) in base.iter().chain(fresh.zone.iter()) {
                prop_assert_eq!(loaded.touched.contains(name), at(&base, name) != at(&fresh.zone, name));
            }
        }

        /// Counters and empty non-terminals are what counting afresh gives.
        #[test]
        fn counters_equal_counting(text in arbitrary_text()) {
            let zone = zone("z.", &text);
            let mut below: HashMap<Name, u32> = HashMap::new();
            for (name, node) in zone.iter() {
                if *name != zone.origin {
                    *below.entry(name.parent().unwrap()).or_default() += 1;
                }
                prop_assert!(!node.rrsets.is_empty() || node.below > 0);
            }
            for (name, node) in zone.iter() {
                prop_assert_eq!(node.below, below.remove(name).unwrap_or(0));
            }
            prop_assert!(below.is_empty());
            prop_assert_eq!(zone.records, zone.iter().map(|(_, node)| record_count(&node.rrsets)).sum::<u64>());
        }
    }
}
