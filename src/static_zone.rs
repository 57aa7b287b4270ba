//! Zones of our own, made of the configuration: written records, and services from which records follow.
//!
//! [`build`] makes the zone of a plan beside the version that is there. Once made it is a zone like any other: it has a
//! history, goes out to secondaries, is kept on disk, and may be a member of a region.
//!
//! **Serials.** The same records keep the serial that they have. Other records get the serial of the plan if that is newer,
//! else the next one. A zone that nothing is known of begins with the plan's, or with the time: without the state folder
//! every start is such a beginning, and the time has moved on since the last one. So a serial never falls, and replicas
//! that are told the serial agree.
//!
//! **Memory.** Such zones count for the budget and are never refused: the operator wrote them, and the text of the file takes more
//! than what is made of it.
//!
//! Parts: `openstack` the records that follow from services.
//!
//! Cost: O(records). RFC 1982 (serials), RFC 6763.

pub mod openstack;

use crate::zone::{Loaded, Loader, RRsets, SoaFields, Zone, ZoneError, apex_rrsets};
use openstack::Offer;
use std::sync::Arc;
use wire::name::{Name, NameBuf};
use wire::serial::Serial;

/// A record of a zone of our own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnRecord {
    /// Owner name as it is spelled.
    pub owner: NameBuf,
    pub rtype: u16,
    /// Seconds.
    pub ttl: u32,
    /// Names in it are uncompressed.
    pub rdata: Vec<u8>,
}

/// Contents of a zone of services.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StaticZonePlan {
    pub zone: Name,
    pub soa: SoaFields,
    pub ns: Vec<Name>,
    /// Seconds.
    pub ns_ttl: u32,
    /// The serial that the operator gives these records; none to have them counted.
    pub serial: Option<Serial>,
    /// All records but SOA and NS of the apex, those that follow from `offers` included.
    pub records: Vec<OwnRecord>,
    pub offers: Vec<Offer>,
}

/// Makes the zone of a plan. It equals `base`, with nothing touched, where that has the same records and need not have
/// another serial. `now` is the time in seconds, for zones without a past.
pub fn build(plan: &StaticZonePlan, base: Option<&Arc<Zone>>, now: u32) -> Result<Loaded, ZoneError> {
    let Some(base) = base else {
        return load(plan, None, plan.serial.unwrap_or(Serial(now)));
    };
    let last = base.soa.serial;
    let wanted = plan.serial.filter(|serial| serial.newer_than(last));
    let same = load(plan, Some(base), last)?;
    if same.touched.is_empty() && wanted.is_none() {
        return Ok(same);
    }
    load(plan, Some(base), wanted.unwrap_or(last.advance(1)))
}

/// Makes the zone under a serial.
fn load(plan: &StaticZonePlan, base: Option<&Arc<Zone>>, serial: Serial) -> Result<Loaded, ZoneError> {
    let mut loader = base.map_or_else(|| Loader::new(plan.zone.clone()), |base| Loader::against(base.clone()));
    let origin = NameBuf::from_wire(plan.zone.as_wire()).expect("a name has a valid wire form");
    for rrset in apex_rrsets(&plan.soa, &plan.ns, plan.ns_ttl, &RRsets::default(), serial).iter() {
        rrset.rdatas().for_each(|rdata| loader.push(&origin, rrset.rtype, rrset.ttl, rdata));
    }
    for record in &plan.records {
        loader.push(&record.owner, record.rtype, record.ttl, &record.rdata);
    }
    loader.finish(base.map(|base| &**base))
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::rr::rtype;

    fn plan(text: &str, serial: Option<u32>) -> StaticZonePlan {
        let name = |text: &str| Name::parse(text).unwrap();
        let soa = SoaFields {
            mname: name("ns."),
            rname: name("h."),
            ttl: 30,
            refresh: 30,
            retry: 60,
            expire: 600,
            minimum: 30,
        };
        let (records, faults) = crate::zone::read_text(text, &name("z.example"), 30);
        assert_eq!(faults, []);
        let records = records.into_iter().map(|record| OwnRecord {
            owner: record.owner,
            rtype: record.rtype,
            ttl: record.ttl,
            rdata: record.rdata,
        });
        StaticZonePlan {
            zone: name("z.example"),
            soa,
            ns: vec![name("ns.")],
            ns_ttl: 3600,
            serial: serial.map(Serial),
            records: records.collect(),
            offers: Vec::new(),
        }
    }

    fn serial(plan: &StaticZonePlan, base: Option<&Arc<Zone>>) -> u32 {
        build(plan, base, 1_000).unwrap().zone.soa.serial.0
    }

    #[test]
    fn the_serial_moves_with_the_records_and_never_back() {
        let (one, other) = ("a A 192.0.2.1", "a A 192.0.2.2");
        let first = Arc::new(build(&plan(one, None), None, 1_000).unwrap().zone);
        assert_eq!(first.soa.serial, Serial(1_000), "without a past: the time");
        assert_eq!(serial(&plan(one, Some(7)), None), 7, "or what the operator says");
        let same = build(&plan(one, None), Some(&first), 9_999).unwrap();
        assert!(same.touched.is_empty() && same.zone == *first);
        let changed = build(&plan(other, None), Some(&first), 9_999).unwrap();
        assert_eq!(changed.zone.soa.serial, Serial(1_001));
        let mut touched = changed.touched;
        touched.sort_by(Name::canonical_cmp);
        assert_eq!(touched, ["z.example", "a.z.example"].map(|name| Name::parse(name).unwrap()));
        assert_eq!(serial(&plan(other, Some(5_000)), Some(&first)), 5_000);
        assert_eq!(serial(&plan(one, Some(5_000)), Some(&first)), 5_000, "a newer serial counts by itself");
        assert_eq!(serial(&plan(other, Some(3)), Some(&first)), 1_001, "an older one does not");
        assert_eq!(serial(&plan(one, Some(3)), Some(&first)), 1_000);
        assert_eq!(serial(&plan(one, Some(1_000)), Some(&first)), 1_000);
    }

    #[test]
    fn two_replicas_that_are_told_the_serial_have_one_zone() {
        let (one, other) = (plan("a A 192.0.2.1", Some(1)), plan("a A 192.0.2.2", Some(2)));
        let base = Arc::new(build(&one, None, 5).unwrap().zone);
        assert_eq!(build(&other, Some(&base), 6).unwrap().zone, build(&other, None, 7).unwrap().zone);
    }

    #[test]
    fn records_stand_beside_soa_and_ns() {
        let zone = build(&plan("@ TXT hello\n@ A 192.0.2.1\nx CNAME @", None), None, 1).unwrap().zone;
        let types: Vec<u16> = zone.apex().rrsets().map(|rrset| rrset.rtype).collect();
        assert_eq!(types, [rtype::A, rtype::NS, rtype::SOA, rtype::TXT]);
        assert_eq!((zone.records, zone.names()), (5, 2));
    }
}
