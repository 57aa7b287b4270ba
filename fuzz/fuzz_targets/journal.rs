//! Any bytes as the files of a zone: refused, or a zone with every invariant. Checksums come free, or no input would get
//! past them.
//!
//! The first octet chooses: plain bytes, a snapshot's image, or the frames of a journal. Frames are cut from the rest by
//! lengths of two octets; a good snapshot goes with them.

#![no_main]

use aggregator::state::frame::{self, Header, Kind};
use aggregator::state::replay::{Replayed, replay};
use aggregator::zone::{Delta, IMAGE_FORMAT, Loader, Soa, Zone};
use libfuzzer_sys::fuzz_target;
use std::sync::LazyLock;
use std::time::UNIX_EPOCH;
use wire::name::{Name, NameBuf};
use wire::rr::rtype;
use wire::serial::Serial;

static ORIGIN: LazyLock<Name> = LazyLock::new(|| Name::parse("z").expect("a name"));

fn zone(serial: u32, last: u8) -> Zone {
    let mut loader = Loader::new(ORIGIN.clone());
    let soa = Soa { serial: Serial(serial), refresh: 1, retry: 1, expire: 1, minimum: 1 };
    loader.push(&NameBuf::parse("z").expect("a name"), rtype::SOA, 30, &soa.to_rdata(&[0], &[0]));
    loader.push(&NameBuf::parse("A.b.z").expect("a name"), rtype::A, 30, &[192, 0, 2, last]);
    loader.finish(None).expect("one SOA").zone
}

/// A snapshot file around bytes.
fn snapshot(image: &[u8]) -> Vec<u8> {
    let mut file = b"AGGZONE\n".to_vec();
    file.extend_from_slice(&IMAGE_FORMAT.to_be_bytes());
    file.extend_from_slice(&7u64.to_be_bytes());
    file.extend_from_slice(&0u64.to_be_bytes());
    file.extend_from_slice(ORIGIN.as_wire());
    file.extend_from_slice(image);
    let crc = crc32fast::hash(&file);
    file.extend_from_slice(&crc.to_be_bytes());
    file
}

fn check(replayed: &Replayed) {
    let zone = &replayed.zone;
    for (name, node) in zone.iter() {
        assert!(name.is_within(&zone.origin));
        assert!(!node.is_empty() || node.below > 0 || name == zone.origin);
        assert!(name == zone.origin || zone.get(name.parent().expect("not the root").as_wire()).is_some());
    }
    assert!(!format!("{zone:?}").is_empty());
    let mut again = Vec::new();
    zone.write_image(&mut again).expect("memory takes everything");
    assert_eq!(Zone::read_image(&zone.origin, &again, IMAGE_FORMAT).as_ref(), Ok(zone));
    let mut back = zone.clone();
    for step in replayed.history.iter().rev() {
        // What came with a snapshot may be any steps that fit each other by their SOA.
        let Ok(before) = step.delta.invert().apply(&back) else { break };
        back = before;
    }
}

fuzz_target!(|input: &[u8]| {
    let Some((&choice, rest)) = input.split_first() else { return };
    let mut image = Vec::new();
    zone(1, 1).write_image(&mut image).expect("memory takes everything");
    let result = match choice % 3 {
        0 => {
            let (journal, file) = rest.split_at(rest.len() / 2);
            if let Ok(replayed) = replay(&ORIGIN, file, Some(journal)) {
                check(&replayed);
            }
            replay(&ORIGIN, &snapshot(&image), Some(rest))
        }
        1 => replay(&ORIGIN, &snapshot(rest), None),
        _ => {
            let carried = u64::from(choice / 3);
            let mut journal = Header::before(7, carried).to_bytes();
            let mut good = Vec::new();
            Delta::between(&zone(1, 1), &zone(2, 2), [Name::parse("a.b.z").expect("a name")]).write(&mut good);
            let mut tail = rest;
            while let [kind, high, low, after @ ..] = tail {
                let length = usize::from(u16::from_be_bytes([*high, *low])).min(after.len());
                let kind = [Kind::Delta, Kind::Refreshed, Kind::Regions][usize::from(*kind) % 3];
                let payload = if length == 0 { &good } else { &after[..length] };
                frame::push(&mut journal, kind, UNIX_EPOCH, |out| out.extend_from_slice(payload));
                tail = &after[length..];
            }
            journal.extend_from_slice(tail);
            replay(&ORIGIN, &snapshot(&image), Some(&journal))
        }
    };
    if let Ok(replayed) = result {
        check(&replayed);
    }
});
