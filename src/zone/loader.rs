//! The records of a full transfer, collected and made into a version that shares what it can with the one before.
//!
//! Invariants: what a zone cannot hold is left out and counted ([`Anomalies`]), never fatal; a version that equals its
//! base shares every node with it.
//!
//! Records of one name come together as a rule, and are made into sets as soon as another name begins. Where they do
//! not, those of the parts are put together at the end.
//!
//! Cost: O(records) in time; the records in memory until they are compared.

use super::builder::Builder;
use super::kept::Kept;
use super::meter::Meter;
use super::node;
use crate::zone::{Aside, AsideRecord, RRsets, Repeated, Zone, ZoneError};
use std::ops::Range;
use std::sync::Arc;
use wire::name::{self, Name, NameBuf};
use wire::rr::{self, RRset, Set, rtype};

/// Octets for an answer in a response over TCP, beside its header and the longest question.
pub(super) const MAX_ANSWER_BYTES: usize = u16::MAX as usize - 12 - (name::MAX_NAME_BYTES + 4);

/// Counts of what a primary sent that a zone cannot hold or that should not be there; none of it is fatal.
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
    /// Signatures with another TTL than the set which they cover.
    pub signature_ttls: u64,
    /// RRsets that no response can hold: questions for them get TC and nothing else.
    pub oversized: u64,
}

impl Anomalies {
    /// Number of sets that were changed or left out for what a zone can hold, so that their signatures fail.
    pub fn mended(self) -> u64 {
        self.mixed_ttls + self.aliases + self.inner_soa + self.signature_ttls
    }

    /// The sums of both.
    pub(super) fn add(self, other: Anomalies) -> Anomalies {
        Anomalies {
            duplicates: self.duplicates + other.duplicates,
            mixed_ttls: self.mixed_ttls + other.mixed_ttls,
            aliases: self.aliases + other.aliases,
            inner_soa: self.inner_soa + other.inner_soa,
            signature_ttls: self.signature_ttls + other.signature_ttls,
            oversized: self.oversized + other.oversized,
        }
    }
}

/// The records of a full transfer, in any order.
pub struct Loader {
    origin: Name,
    builder: Builder<'static>,
    /// Names that are the same in the version that this one is compared with.
    kept: Option<Kept>,
    group: Box<Group>,
    anomalies: Anomalies,
    records: u64,
    repeated: Repeated,
    left_out: Box<Aside>,
    meter: Meter,
}

/// A record without its owner: type, TTL, RDATA.
pub(super) type Raw<R> = (u16, u32, R);

/// Records that came one behind the other and have one owner.
#[derive(Default)]
struct Group {
    /// Owner as the primary spells the first of them.
    owner: NameBuf,
    records: Vec<Raw<Range<usize>>>,
    bytes: Vec<u8>,
    /// Buffer to which the sets are written.
    sets: Vec<u8>,
}

/// A full transfer as a zone version.
pub struct Loaded {
    pub zone: Zone,
    /// Names whose RRsets differ from the base version's, in no order; none is listed where there was no base.
    pub touched: Vec<Name>,
    pub anomalies: Anomalies,
}

impl Loader {
    /// Starts a zone without records.
    pub fn new(origin: Name) -> Loader {
        Loader {
            builder: Builder::new(origin.clone()),
            origin,
            kept: None,
            group: Box::default(),
            anomalies: Anomalies::default(),
            records: 0,
            repeated: Repeated::default(),
            left_out: Box::default(),
            meter: Meter::default(),
        }
    }

    /// Starts a zone without records, to be compared with a version on the way.
    pub fn against(base: Arc<Zone>) -> Loader {
        Loader { kept: Some(Kept::new(base.clone())), ..Loader::new(base.origin.clone()) }
    }

    /// Number of records taken so far.
    pub fn records(&self) -> u64 {
        self.records
    }

    /// Octets in memory of the zone that the records taken so far make, whatever of it is there already.
    pub fn octets(&self) -> u64 {
        let Group { records, bytes, .. } = &*self.group;
        self.meter.octets()
            + (size_of_val(&records[..]) + bytes.len()) as u64
            + self.repeated.octets()
            + self.left_out.octets()
    }

    /// Takes a record, whose owner the caller has found to be within the origin.
    pub fn push(&mut self, owner: &NameBuf, rtype: u16, ttl: u32, rdata: &[u8]) {
        self.records += 1;
        if rtype == rtype::SOA && !owner.as_wire().eq_ignore_ascii_case(self.origin.as_wire()) {
            self.anomalies.inner_soa += 1;
            return;
        }
        if !owner.as_wire().eq_ignore_ascii_case(self.group.owner.as_wire()) {
            self.close();
            self.group.owner = *owner;
        }
        let group = &mut self.group;
        let start = group.bytes.len();
        group.bytes.extend_from_slice(rdata);
        self.anomalies.signature_ttls += u64::from(rr::record_ttl(rtype, ttl, rdata) != ttl);
        group.records.push((rtype, stored_ttl(rtype, ttl), start..group.bytes.len()));
    }

    /// Writes down the records that came together.
    fn close(&mut self) {
        let Group { owner, records, bytes, sets } = &mut *self.group;
        if records.is_empty() {
            return;
        }
        records.sort_by_key(|record| record.0);
        sets.clear();
        let lower = owner.to_lowercase();
        let is_alias = |rtype| matches!(rtype, rtype::CNAME | rtype::DNAME);
        // Most sets have one record, and most names no alias.
        let simple = records.windows(2).all(|pair| pair[0].0 != pair[1].0)
            && (records.len() == 1 || !records.iter().any(|record| is_alias(record.0)));
        if simple {
            for (rtype, ttl, range) in records.iter() {
                let set = Set::write_single(*rtype, *ttl, &bytes[range.clone()], sets);
                self.anomalies.oversized += u64::from(set > MAX_ANSWER_BYTES);
            }
        } else {
            let records = records.iter().map(|(rtype, ttl, range)| (*rtype, *ttl, &bytes[range.clone()])).collect();
            let mut left_out = Vec::new();
            let rrsets = assemble(lower.as_wire(), records, &mut self.anomalies, &mut self.repeated, &mut left_out);
            if !left_out.is_empty() {
                self.left_out.add(lower.to_name(), left_out);
            }
            node::write_sets(&rrsets, sets);
        }
        let labels = lower.as_wire().len() - self.origin.as_wire().len();
        let spelled = (lower.as_wire() != owner.as_wire()).then(|| owner.as_wire());
        let owner = &lower.as_wire()[..labels];
        self.meter.count(owner, sets.len() + spelled.map_or(0, <[u8]>::len), |_, _| false);
        match &mut self.kept {
            Some(kept) => kept.take(owner, spelled, sets, &mut self.builder),
            None => self.builder.push_sets(owner, spelled, sets),
        }
        records.clear();
        bytes.clear();
    }

    /// Makes the zone, sharing every node that equals the base version's.
    pub fn finish(mut self, base: Option<&Zone>) -> Result<Loaded, ZoneError> {
        self.close();
        let Loader { origin, mut builder, mut anomalies, mut repeated, mut left_out, mut kept, .. } = self;
        if !kept.as_ref().is_some_and(|kept| base.is_some_and(|base| kept.is_of(base)))
            && let Some(kept) = kept.take()
        {
            kept.push_all(&mut builder);
        }
        // Owners whose records were not all together.
        builder.sort(|nodes| {
            let owner = Name::join(nodes[0].owner, &origin);
            let sets = nodes.iter().flat_map(|node| node.rrsets());
            let records = sets.flat_map(|set| set.rdatas().map(move |rdata| (set.rtype, set.ttl, rdata))).collect();
            let mut more = Vec::new();
            let rrsets = assemble(owner.as_wire(), records, &mut anomalies, &mut repeated, &mut more);
            left_out.add(owner, more);
            let mut sets = Vec::new();
            node::write_sets(&rrsets, &mut sets);
            Ok::<_, ZoneError>((nodes[0].spelled.map(Box::from), sets))
        })?;
        let (mut editor, touched) = match (&kept, base) {
            (Some(kept), Some(base)) => builder.compare(base, kept.gone()),
            _ => builder.into_editor(base, &[]),
        };
        editor.repeated = repeated;
        editor.left_out = *left_out;
        Ok(Loaded { zone: editor.finish()?, touched, anomalies })
    }
}

/// The TTL that the set of a record is kept with. That of signatures is in each of them.
pub(super) fn stored_ttl(rtype: u16, ttl: u32) -> u32 {
    if rtype == rtype::RRSIG { 0 } else { rr::clamp_ttl(ttl) }
}

/// Makes RRsets of the records of one name, given in lowercase wire form, and adds those that are left out to `left_out`.
pub(super) fn assemble<R: AsRef<[u8]>>(
    owner: &[u8],
    mut records: Vec<Raw<R>>,
    anomalies: &mut Anomalies,
    repeated: &mut Repeated,
    left_out: &mut Vec<AsideRecord>,
) -> RRsets {
    records.sort_by_key(|record| record.0);
    let mut rrsets = Vec::new();
    for group in records.chunk_by(|a, b| a.0 == b.0) {
        let rtype = group[0].0;
        let ttl = group.iter().map(|record| record.1).min().unwrap_or(0);
        anomalies.mixed_ttls += u64::from(group.iter().any(|record| record.1 != ttl));
        let rrset = RRset::build(rtype, ttl, group.iter().map(|record| record.2.as_ref()).collect());
        let Some(rrset) = rrset else { continue };
        anomalies.oversized += u64::from(rrset.as_set().wire_bytes_about() > MAX_ANSWER_BYTES);
        let duplicates = group.len() as u64 - u64::from(rrset.count);
        if duplicates > 0 {
            anomalies.duplicates += duplicates;
            let mut rdatas: Vec<&[u8]> = group.iter().map(|record| record.2.as_ref()).collect();
            rdatas.sort_by(|a, b| rr::compare(rtype, a, b));
            let equal = rdatas.windows(2).filter(|pair| rr::compare(rtype, pair[0], pair[1]).is_eq());
            equal.for_each(|pair| repeated.insert(owner, rtype, pair[0]));
        }
        rrsets.push(Arc::new(rrset));
    }
    let dropped = resolve_aliases(&mut rrsets);
    if !dropped.is_empty() {
        anomalies.aliases += dropped.len() as u64;
        repeated.insert_all(owner);
        left_out.extend(dropped);
    }
    rrsets.into()
}

/// Leaves a CNAME only where nothing else is, and one record in each CNAME and DNAME set. Returns the records that are
/// left out.
///
/// RFC 1034 section 3.6.2, RFC 2181 section 10.1; DNSSEC types may stand beside a CNAME (RFC 4034 section 2.5 and
/// others). Data wins over an alias: addresses that exist are more use than a pointer to others.
pub fn resolve_aliases(rrsets: &mut Vec<Arc<RRset>>) -> Vec<AsideRecord> {
    let mut dropped = Vec::new();
    let mut drop = |rrset: &RRset, kept: usize| {
        let record = |rdata: &[u8]| AsideRecord { rtype: rrset.rtype, ttl: rrset.ttl, rdata: rdata.into() };
        dropped.extend(rrset.rdatas().skip(kept).map(record));
    };
    let other_data = rrsets.iter().any(|rrset| rrset.rtype != rtype::CNAME && !rr::is_dnssec(rrset.rtype));
    if other_data {
        rrsets.iter().filter(|rrset| rrset.rtype == rtype::CNAME).for_each(|rrset| drop(rrset, 0));
        rrsets.retain(|rrset| rrset.rtype != rtype::CNAME);
    }
    for rrset in rrsets.iter_mut() {
        if matches!(rrset.rtype, rtype::CNAME | rtype::DNAME) && rrset.count > 1 {
            drop(rrset, 1);
            let first = rrset.rdatas().take(1).map(<[u8]>::to_vec).collect();
            if let Some(single) = RRset::build(rrset.rtype, rrset.ttl, first) {
                *rrset = Arc::new(single);
            }
        }
    }
    dropped
}
