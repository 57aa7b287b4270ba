//! Members that change in any order: a merge of what changed equals a merge of everything.
//!
//! Three octets make one step: which member, which owner name, which data.

#![no_main]

use aggregator::merge::{NsPolicy, OnExpire, RdataNames, Region, RegionPlan, SoaPlan};
use aggregator::zone::{Loader, Soa, Zone};
use libfuzzer_sys::fuzz_target;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};
use wire::name::{Name, NameBuf};
use wire::rr::rtype;
use wire::serial::Serial;

const OWNERS: [&str; 8] = ["a", "b", "a.b", "*.b", "c.a.b", "i._x._tcp", "sub", "w.sub"];

/// RDATA for a member, which may name hosts in that member's zone.
fn data(kind: u8, origin: &str) -> (u16, Vec<u8>) {
    let host = |name: &str| NameBuf::parse(&format!("{name}.{origin}")).expect("a name").as_wire().to_vec();
    match kind % 8 {
        0 => (rtype::A, vec![192, 0, 2, kind / 8]),
        1 => (rtype::CNAME, host("a")),
        2 => (rtype::CNAME, host("w.sub")),
        3 => (rtype::DNAME, host("b")),
        4 => (rtype::NS, host("ns.sub")),
        5 => (rtype::SRV, [&[0, 0, 0, 0, 0, kind / 64][..], &host("a")].concat()),
        6 => (rtype::TXT, b"\x03k=v".to_vec()),
        _ => (rtype::TXT, vec![1, b'0' + kind / 64]),
    }
}

fn load(origin: &str, serial: u32, records: &BTreeSet<(u8, u8)>, base: Option<&Zone>) -> (Zone, Vec<Name>) {
    let apex = NameBuf::parse(origin).expect("a name");
    let mut loader = Loader::new(apex.to_name());
    let soa = Soa { serial: Serial(serial), refresh: 1, retry: 1, expire: 1, minimum: 1 };
    loader.push(&apex, rtype::SOA, 30, &soa.to_rdata(&[0], &[0]));
    for (owner, kind) in records {
        let (rtype, rdata) = data(*kind, origin);
        let owner = format!("{}.{origin}", OWNERS[usize::from(*owner)]);
        loader.push(&NameBuf::parse(&owner).expect("a name"), rtype, u32::from(*kind), &rdata);
    }
    let loaded = loader.finish(base).expect("one SOA");
    // Without a base, everything is new.
    let all = || loaded.zone.iter().map(|(name, _)| name).collect();
    let touched = if base.is_some() { loaded.touched } else { all() };
    (loaded.zone, touched)
}

fn text(zone: &Zone) -> Vec<String> {
    format!("{zone:?}").lines().filter(|line| !line.contains(" SOA ")).map(str::to_owned).collect()
}

fuzz_target!(|input: &[u8]| {
    let Some((&policy, steps)) = input.split_first() else { return };
    let origins = ["w1.x.", "w2.x.", "w3.x."];
    let name = |text: &str| Name::parse(text).expect("a name");
    let plan = RegionPlan {
        is_united: false,
        origin: name("w.x"),
        members: origins.iter().map(|origin| name(origin)).collect(),
        ns: NsPolicy::Intersection,
        ns_ttl: 3600,
        soa: SoaPlan::default(),
        mname: None,
        rname: None,
        server_name: name("ns.x"),
        serial_offset: 0,
        rdata_names: if policy & 1 == 0 { RdataNames::Keep } else { RdataNames::Rewrite },
        exclude: Vec::new(),
        addresses: Default::default(),
        max_set: (policy & 2 != 0).then_some(1),
        partial_after: Duration::ZERO,
        on_expire: OnExpire::Withdraw,
        expire_after: None,
        damping: None,
    };
    let mut region = Region::new(plan.clone());
    let mut records = [BTreeSet::new(), BTreeSet::new(), BTreeSet::new()];
    let mut members: Vec<Option<Arc<Zone>>> = vec![None; 3];
    for (serial, step) in steps.chunks_exact(3).take(64).enumerate() {
        let member = usize::from(step[0]) % 3;
        let record = (step[1] % 8, step[2]);
        // A record that is there goes, one that is not comes.
        if !records[member].remove(&record) {
            records[member].insert(record);
        }
        let (zone, touched) = load(origins[member], serial as u32, &records[member], members[member].as_deref());
        members[member] = Some(Arc::new(zone));
        region.merge_changed(&members, touched.into_iter().map(|name| (member, name)).collect(), Instant::now());
        let mut fresh = Region::new(plan.clone());
        fresh.merge_all(&members, Instant::now());
        let (zone, expected) = (region.zone.as_deref().expect("a member"), fresh.zone.as_deref().expect("a member"));
        assert_eq!(text(zone), text(expected));
        assert_eq!(region.conflicts, fresh.conflicts);
    }
});
