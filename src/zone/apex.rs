//! The apex of zones that are made here: SOA and NS records from a plan.
//!
//! Cost: O(name servers).

use super::{RRsets, Soa};
use std::sync::Arc;
use wire::name::Name;
use wire::rr::{RRset, rtype};
use wire::serial::Serial;

/// An SOA apart from its serial; numbers in seconds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SoaFields {
    pub mname: Name,
    pub rname: Name,
    pub ttl: u32,
    pub refresh: u32,
    pub retry: u32,
    pub expire: u32,
    pub minimum: u32,
}

/// The RRsets of an apex: its SOA and NS records and what else stands there.
pub fn apex_rrsets(soa: &SoaFields, ns: &[Name], ns_ttl: u32, others: &RRsets, serial: Serial) -> RRsets {
    let numbers = Soa { serial, refresh: soa.refresh, retry: soa.retry, expire: soa.expire, minimum: soa.minimum };
    let rdata = numbers.to_rdata(soa.mname.as_wire(), soa.rname.as_wire());
    let own = [
        RRset::build(rtype::SOA, soa.ttl, vec![rdata]),
        RRset::build(rtype::NS, ns_ttl, ns.iter().map(Name::as_wire).collect()),
    ];
    let others = others.iter().filter(|rrset| rrset.rtype != rtype::PLACEHOLDER).cloned();
    let mut rrsets: Vec<Arc<RRset>> = own.into_iter().flatten().map(Arc::new).chain(others).collect();
    rrsets.sort_by_key(|rrset| rrset.rtype);
    rrsets.into()
}
