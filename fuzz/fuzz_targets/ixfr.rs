//! Differences of any bytes: nothing falls over, and what comes out leads from the old version to the announced one.

#![no_main]

use aggregator::transfer::reader::{Progress, Reader, Received};
use aggregator::zone::{Delta, Loader, Soa, Zone};
use libfuzzer_sys::fuzz_target;
use std::sync::Arc;
use wire::name::{Name, NameBuf};
use wire::rr::rtype;
use wire::serial::Serial;

/// An SOA as it comes with a serial.
fn soa(serial: u8) -> Vec<u8> {
    let serial = Serial(u32::from(serial));
    Soa { serial, refresh: 30, retry: 60, expire: 2_592_000, minimum: 30 }.to_rdata(&[0], &[0])
}

/// A zone of a few records at serial 1, one of which was sent twice.
fn base(origin: &Name) -> Zone {
    let mut loader = Loader::new(origin.clone());
    let apex = NameBuf::from_wire(origin.as_wire()).expect("a valid name");
    loader.push(&apex, rtype::SOA, 30, &soa(1));
    for number in [1, 2, 3, 3] {
        let owner = NameBuf::from_wire(&[&[1, b'a' + number], origin.as_wire()].concat()).expect("a short name");
        loader.push(&owner, rtype::A, 30, &[192, 0, 2, number]);
    }
    loader.finish(None).expect("a zone with an SOA").zone
}

// Each octet of the input is a record, or the end of a message, or the first of octets that are taken as they come.
fuzz_target!(|input: &[u8]| {
    let origin = Name::parse("z.example").expect("a valid name");
    let base = Arc::new(base(&origin));
    let mut reader = Reader::ixfr(base.clone(), 7);
    let mut question = reader.write_query();
    question.truncate(12 + origin.as_wire().len() + 4);
    (question[2], question[9]) = (0x80, 0);
    let mut message = question.clone();
    let mut answers = 0u16;
    let mut progress = Progress::More;
    for (index, octet) in input.iter().chain([&0xff]).enumerate() {
        let mut record = |owner: &[u8], kind: u8, rdata: &[u8]| {
            message.extend_from_slice(
                &[owner, origin.as_wire(), &[0, kind, 0, 1, 0, 0, 0, 30, 0, rdata.len() as u8], rdata].concat(),
            );
            answers += 1;
        };
        match octet {
            0..16 => record(&[], 6, &soa(*octet)),
            16..128 => record(&[1, b'a' + octet % 8], 1, &[192, 0, 2, octet >> 4]),
            128..192 => record(&[], 2, &[1, b'a' + octet % 4, 0]),
            192..224 => {
                message.extend_from_slice(&input[index..]);
                answers = answers.saturating_add(u16::from(*octet % 4));
            }
            224.. => {
                message[6..8].copy_from_slice(&answers.to_be_bytes());
                match reader.feed(&message) {
                    Ok(next) => progress = next,
                    Err(_) => break,
                }
                if progress == Progress::Done {
                    break;
                }
                (message, answers) = (question.clone(), 0);
            }
        }
    }
    let finished = reader.finish();
    assert_eq!(finished.is_ok(), progress == Progress::Done);
    match finished {
        Ok(Received::NotNewer(soa)) => assert!(!soa.serial.newer_than(base.soa.serial)),
        Ok(Received::Full(soa, loader)) => {
            if let Ok(loaded) = loader.finish(Some(&base)) {
                assert_eq!(loaded.zone.soa, soa);
            }
        }
        Ok(Received::Changed(changed)) => {
            let soa = changed.soa;
            assert!(soa.serial.newer_than(base.soa.serial));
            let patched = changed.finish(&Default::default()).expect("differences keep the SOA");
            assert_eq!(patched.loaded.zone.soa, soa);
            let delta = Delta::between(&base, &patched.loaded.zone, patched.loaded.touched);
            assert_eq!(delta.apply(&base).expect("it is the way from the base"), patched.loaded.zone);
        }
        Err(_) => {}
    }
});
