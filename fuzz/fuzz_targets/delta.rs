//! Differences of versions: there and back, put together, through bytes, and as the changes of a transfer.
//!
//! The first octet chooses: bytes that claim to be a difference, or versions made of steps of three octets, which are the
//! owner name, the data, and whether this ends a version.

#![no_main]

use aggregator::zone::{Delta, History, HistoryLimits, Loader, Mixed, Patcher, Soa, Vetoes, Zone};
use libfuzzer_sys::fuzz_target;
use std::collections::BTreeSet;
use std::sync::Arc;
use wire::name::{Name, NameBuf};
use wire::rr::rtype;
use wire::serial::Serial;

const OWNERS: [&str; 8] = ["a.z.", "A.z.", "b.z.", "a.b.z.", "*.b.z.", "c.a.b.z.", "sub.z.", "z."];

fn data(kind: u8) -> (u16, Vec<u8>) {
    match kind % 6 {
        0 => (rtype::A, vec![192, 0, 2, kind / 64]),
        1 => (rtype::CNAME, if kind > 127 { b"\x01a\x00".to_vec() } else { b"\x01A\x00".to_vec() }),
        2 => (rtype::DNAME, b"\x01d\x00".to_vec()),
        3 => (rtype::NS, vec![1, b'a' + kind / 64, 0]),
        4 => (rtype::TXT, vec![1, kind]),
        _ => (65280, vec![kind / 64; usize::from(kind / 64)]),
    }
}

/// A version with its records.
fn load(serial: u32, records: &BTreeSet<(u8, u8)>, base: Option<&Zone>) -> (Zone, Vec<Name>) {
    let apex = NameBuf::parse("z.").expect("a name");
    let mut loader = Loader::new(apex.to_name());
    let soa = Soa { serial: Serial(serial), refresh: 1, retry: 1, expire: 1, minimum: 1 };
    loader.push(&apex, rtype::SOA, 30, &soa.to_rdata(&[0], &[0]));
    for (owner, kind) in records {
        let (rtype, rdata) = data(*kind);
        let owner = NameBuf::parse(OWNERS[usize::from(*owner)]).expect("a name");
        loader.push(&owner, rtype, u32::from(kind / 32) << 29, &rdata);
    }
    let loaded = loader.finish(base).expect("one SOA");
    (loaded.zone, loaded.touched)
}

fn check(old: &Arc<Zone>, new: &Zone, delta: &Delta) {
    assert_eq!(&delta.apply(old).expect("it fits"), new);
    assert_eq!(&delta.invert().apply(new).expect("it fits"), &**old);
    let mut bytes = Vec::new();
    delta.write(&mut bytes);
    assert_eq!(&Delta::read(&old.origin, &bytes).expect("our own bytes"), delta);
    let mut patcher = Patcher::new(old.clone());
    let owner = |wire: &[u8]| NameBuf::from_wire(wire).expect("an owner");
    let (removed, added) = (delta.removed.open(), delta.added.open());
    removed.iter().for_each(|record| patcher.remove(&owner(record.owner), record.rtype, record.ttl, record.rdata));
    added.iter().for_each(|record| patcher.add(&owner(record.owner), record.rtype, record.ttl, record.rdata));
    let soa = delta.to.rdatas().next().expect("an SOA");
    let patched = patcher.finish(delta.to.ttl, soa, Mixed::No, &Vetoes::default()).expect("one SOA");
    assert_eq!((patched.absent, patched.present), (0, 0));
    assert_eq!(&patched.loaded.zone, new);
}

fuzz_target!(|input: &[u8]| {
    let Some((&choice, input)) = input.split_first() else { return };
    if choice & 1 == 1 {
        let (zone, _) = load(1, &(0..8).map(|kind| (kind, 31 * kind)).collect(), None);
        if let Ok(delta) = Delta::read(&zone.origin, input) {
            if let Ok(after) = delta.apply(&zone) {
                assert_eq!(after.soa_rrset(), &delta.to);
            }
            let mut bytes = Vec::new();
            delta.write(&mut bytes);
            // Marks of another build of the program mean nothing, and are written as such.
            assert_eq!(Delta::read(&zone.origin, &bytes).as_ref(), Ok(&delta));
        }
        return;
    }
    let mut records = BTreeSet::new();
    let mut versions = vec![Arc::new(load(1, &records, None).0)];
    let (mut deltas, mut history) = (Vec::new(), History::default());
    let limits = HistoryLimits { versions: 4, bytes: 1 << 20, total: 1 << 20 };
    for step in input.chunks_exact(3).take(64) {
        let record = (step[0] % 8, step[1]);
        // A record that is there goes, one that is not comes.
        if !records.remove(&record) {
            records.insert(record);
        }
        if step[2] & 1 == 1 {
            let old = versions.last().expect("a version").clone();
            let (new, touched) = load(versions.len() as u32 + 1, &records, Some(&old));
            let delta = Arc::new(Delta::between(&old, &new, touched));
            check(&old, &new, &delta);
            history.push(delta.clone(), &limits);
            deltas.push(delta);
            versions.push(Arc::new(new));
        }
    }
    let last = versions.last().expect("a version");
    if let Some(whole) = Delta::concatenate(&deltas) {
        check(&versions[0], last, &whole);
    }
    for version in versions.iter().rev().skip(1).take(4) {
        let way = history.since(version.soa_rrset().rdatas().next().expect("an SOA")).expect("four are kept");
        check(version, last, &Delta::concatenate(&way).expect("a chain"));
    }
});
