//! The records of a full transfer, collected and made into a version that shares what it can with the one before.
//!
//! Invariants: what a zone cannot hold is left out and counted ([`Anomalies`]), never fatal; a version that equals its
//! base shares every node with it.
//!
//! Cost: O(records) in time; the records in memory until they are compared.

use crate::name::{self, Name, NameBuf};
use crate::rr::{self, RRset, rtype};
use crate::zone::{Editor, RRsets, Repeated, Zone, ZoneError, record_count};
use std::collections::HashMap;
use std::sync::Arc;

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
    repeated: Repeated,
}

/// A record without its owner: type, TTL, RDATA.
pub(super) type Raw = (u16, u32, Box<[u8]>);

/// The records of one name as they arrived.
#[derive(Default)]
struct Collected {
    spelled: Option<Arc<[u8]>>,
    records: Vec<Raw>,
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
        Loader {
            origin,
            names: HashMap::new(),
            anomalies: Anomalies::default(),
            records: 0,
            repeated: Repeated::default(),
        }
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
        let record = (rtype, rr::clamp_ttl(ttl), rdata.into());
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
            let rrsets = assemble(name, records, &mut self.anomalies, &mut self.repeated);
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
        editor.set_repeated(self.repeated);
        Ok(Loaded { zone: editor.finish()?, touched, anomalies: self.anomalies })
    }
}

/// Makes RRsets of the records of one name.
pub(super) fn assemble(
    owner: &Name,
    mut records: Vec<Raw>,
    anomalies: &mut Anomalies,
    repeated: &mut Repeated,
) -> RRsets {
    records.sort_by_key(|record| record.0);
    let mut rrsets = Vec::new();
    for group in records.chunk_by(|a, b| a.0 == b.0) {
        let rtype = group[0].0;
        let ttl = group.iter().map(|record| record.1).min().unwrap_or(0);
        anomalies.mixed_ttls += u64::from(group.iter().any(|record| record.1 != ttl));
        let rrset = RRset::build(rtype, ttl, group.iter().map(|record| &record.2).collect());
        let Some(rrset) = rrset else { continue };
        anomalies.oversized += u64::from(rrset.wire().len() > MAX_ANSWER_BYTES);
        let duplicates = group.len() as u64 - u64::from(rrset.count);
        if duplicates > 0 {
            anomalies.duplicates += duplicates;
            let mut rdatas: Vec<&[u8]> = group.iter().map(|record| &*record.2).collect();
            rdatas.sort_by(|a, b| rr::compare(rtype, a, b));
            let equal = rdatas.windows(2).filter(|pair| rr::compare(rtype, pair[0], pair[1]).is_eq());
            equal.for_each(|pair| repeated.insert(owner.as_wire(), rtype, pair[0]));
        }
        rrsets.push(Arc::new(rrset));
    }
    let dropped = settle_aliases(&mut rrsets);
    if dropped > 0 {
        anomalies.aliases += dropped;
        repeated.insert_all(owner.as_wire());
    }
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
