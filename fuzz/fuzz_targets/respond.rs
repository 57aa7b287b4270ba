//! Whatever bytes come, signed or not, over UDP or TCP: transfers, their messages and refusals included.
//!
//! No request may panic; whatever is sent must parse, keep the id, and stay within what its transport takes; pointers lead
//! backwards, because the reader that is used here follows no others.

#![no_main]

use aggregator::acl::{Access, Rule};
use aggregator::metrics::Metrics;
use aggregator::publish::{Identity, Outgoing, Published, Served, State};
use aggregator::serve::notify::Reception;
use aggregator::serve::respond::{Asked, Dispatched, Responder};
use aggregator::zone::{Delta, History, HistoryLimits, Loader, Soa, Zone};
use libfuzzer_sys::fuzz_target;
use std::sync::{Arc, LazyLock};
use wire::name::{Name, NameBuf};
use wire::rr::{self, rtype};
use wire::serial::Serial;
use wire::tsig::{Algorithm, Key, sign_request};

const NOW: u64 = 1_700_000_000;

static KEY: LazyLock<Arc<Key>> =
    LazyLock::new(|| Arc::new(Key::new(Name::parse("k").expect("a name"), Algorithm::Sha256, vec![7; 32])));

/// Two versions of a zone, with a history, and one that is closed.
static PUBLISHED: LazyLock<Published> = LazyLock::new(|| {
    let old = zone("z", 1);
    let new = zone("z", 2);
    let mut history = History::default();
    let touched = (0..40).map(|number| Name::parse(&format!("n{number}.z")).expect("a name"));
    history.push(Arc::new(Delta::between(&old, &new, touched)), &HistoryLimits::default());
    let access = Access { rules: vec![Rule { prefix: None, key: None, channel: None, host: None }] };
    let open = Served {
        history,
        outgoing: Arc::new(Outgoing { access, ixfr: true }),
        ..Served::new(new.origin.clone(), State::Ok, Some(Arc::new(new)))
    };
    let closed = zone("y", 1);
    let closed = Served::new(closed.origin.clone(), State::Ok, Some(Arc::new(closed)));
    let mut published = Published::new(Identity::default(), [Arc::new(open), Arc::new(closed)], 1);
    published.keys = Arc::new([(KEY.name.clone(), KEY.clone())].into());
    published
});

static RESPONDER: LazyLock<Arc<Responder>> = LazyLock::new(|| {
    let metrics = Arc::new(Metrics::new());
    let (reception, _) = Reception::new(metrics.clone());
    Responder::new(reception, metrics, || NOW)
});

fn zone(origin: &str, serial: u32) -> Zone {
    let name = |text: String| NameBuf::parse(&text).expect("a name");
    let mut loader = Loader::new(Name::parse(origin).expect("a name"));
    let soa = Soa { serial: Serial(serial), refresh: 1, retry: 1, expire: 1, minimum: 1 };
    loader.push(&name(origin.into()), rtype::SOA, 30, &soa.to_rdata(&[0], &[0]));
    for number in 0..40 {
        loader.push(&name(format!("n{number}.{origin}")), rtype::A, 30 * (1 + serial * (number & 1)), &[192, 0, 2, 1]);
        let target = name(format!("N{number}.Deep.{origin}"));
        loader.push(&name(format!("m{number}.{origin}")), rtype::PTR, 30, target.as_wire());
    }
    loader.push(&name(format!("large.{origin}")), 65_280, 30, &[7; 20_000]);
    loader.finish(None).expect("one SOA").zone
}

fn check(message: &[u8], id: &[u8]) {
    assert_eq!(message[..2], *id);
    assert!(message[2] & 0x80 != 0, "a response says that it is one");
    let count = |at: usize| u16::from_be_bytes([message[at], message[at + 1]]);
    let mut position = 12;
    for _ in 0..count(4) {
        position = NameBuf::read(message, position).expect("a question").1 + 4;
    }
    for _ in 0..u32::from(count(6)) + u32::from(count(8)) + u32::from(count(10)) {
        let (_, fixed) = NameBuf::read(message, position).expect("an owner");
        let (kind, _, _, start, length) = rr::read_fixed(message, fixed).expect("a record");
        rr::decompress(kind, message, start, length, &mut Vec::new()).expect("RDATA");
        position = start + length;
    }
    assert_eq!(position, message.len());
}

fuzz_target!(|data: &[u8]| {
    let Some((&flags, message)) = data.split_first() else { return };
    let (datagram, sign) = (flags & 1 != 0, flags & 2 != 0);
    let mut message = message.to_vec();
    // A message that cannot hold one more record cannot be signed.
    if sign && message.len() >= 12 && message[10..12] != [0xff; 2] {
        sign_request(&mut message, &KEY, NOW);
    }
    let mut out = vec![0; if datagram { 1232 } else { 65_535 }];
    let asked = Asked { message: &message, peer: [192, 0, 2, 1].into(), datagram, rotation: 0, now: 0, secured: None };
    match RESPONDER.respond(&PUBLISHED, asked, &mut out) {
        Dispatched::Nothing => {}
        Dispatched::Response(response) | Dispatched::Limited(response, _) => {
            check(&out[..response.length], &message[..2])
        }
        Dispatched::Transfer(mut outbound) => {
            assert!(!datagram);
            let reserve = outbound.signer.as_ref().map_or(0, |signer| signer.overhead());
            let mut messages = outbound.transfer.messages();
            while let Some(length) = messages.compose(&mut out, reserve) {
                let mut length = length.expect("every record fits a message");
                assert!(length + reserve <= 16 << 10 || length > 20_000);
                if let Some(signer) = &mut outbound.signer {
                    length = signer.sign(&mut out, length, NOW).expect("there is room for the signature");
                }
                check(&out[..length], &message[..2]);
            }
        }
    }
});
