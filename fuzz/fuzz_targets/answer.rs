//! Answers to arbitrary requests, over zones with every odd thing in them.
//!
//! No request may panic; whatever is answered must parse, keep the id, and stay within what the client takes.

#![no_main]

use aggregator::publish::{Identity, Published, Served, State};
use aggregator::serve::answer::answer;
use aggregator::zone::{Loader, Soa};
use libfuzzer_sys::fuzz_target;
use std::sync::{Arc, LazyLock};
use wire::name::{Name, NameBuf};
use wire::rr::rtype;
use wire::serial::Serial;

static PUBLISHED: LazyLock<Published> = LazyLock::new(|| {
    let zones = [
        (
            "z.",
            vec![
                ("@", rtype::NS, wire("ns.z.")),
                ("ns", rtype::A, vec![192, 0, 2, 1]),
                ("a.ent", rtype::A, vec![192, 0, 2, 2]),
                ("alias", rtype::CNAME, wire("a.ent.z.")),
                ("loop1", rtype::CNAME, wire("loop2.z.")),
                ("loop2", rtype::CNAME, wire("loop1.z.")),
                ("other", rtype::CNAME, wire("x.y.")),
                ("*.w", rtype::TXT, b"\x01w".to_vec()),
                ("d", rtype::DNAME, wire("d.d.z.")),
                ("e", rtype::DNAME, wire("y.")),
                ("cut", rtype::NS, wire("ns.cut.z.")),
                ("ns.cut", rtype::A, vec![192, 0, 2, 3]),
                ("_s._tcp", rtype::PTR, wire("i._s._tcp.z.")),
                ("i._s._tcp", rtype::SRV, [&[0, 0, 0, 0, 0, 1][..], &wire("ns.z.")].concat()),
                ("i._s._tcp", rtype::TXT, b"\x00".to_vec()),
                ("big", 65280, vec![7; 1300]),
            ],
        ),
        ("y.", vec![("x", rtype::CNAME, wire("nothing.z.")), ("*", rtype::MX, [&[0, 1][..], &wire("ns.z.")].concat())]),
    ];
    let served = zones.into_iter().map(|(origin, records)| {
        let full = |owner: &str| match owner {
            "@" => NameBuf::parse(origin).expect("a name"),
            owner => NameBuf::parse(&format!("{owner}.{origin}")).expect("a name"),
        };
        let mut loader = Loader::new(Name::parse(origin).expect("a name"));
        let soa = Soa { serial: Serial(1), refresh: 1, retry: 1, expire: 1, minimum: 1 };
        loader.push(&full("@"), rtype::SOA, 30, &soa.to_rdata(&[0], &[0]));
        for (owner, rtype, rdata) in records {
            loader.push(&full(owner), rtype, 30, &rdata);
        }
        let zone = Arc::new(loader.finish(None).expect("one SOA").zone);
        Arc::new(Served::new(zone.origin.clone(), State::Ok, Some(zone)))
    });
    Published::new(Identity { name: "fuzz".into(), version: "fuzz".into() }, served.collect::<Vec<_>>(), 1)
});

fn wire(name: &str) -> Vec<u8> {
    NameBuf::parse(name).expect("a name").as_wire().to_vec()
}

fuzz_target!(|request: &[u8]| {
    for (datagram, room) in [(true, 1232), (false, 65535)] {
        let mut out = vec![0; room];
        let Some(response) = answer(&PUBLISHED, request, datagram, 0, &mut out) else { continue };
        assert!(response.length >= 12 && response.length <= room);
        assert_eq!(out[..2], request[..2]);
        assert!(out[2] & 0x80 != 0, "a response says that it is one");
        // Every record must end where the message does.
        let count = |at: usize| u16::from_be_bytes([out[at], out[at + 1]]);
        let mut position = 12;
        for _ in 0..count(4) {
            position = wire::name::skip(&out, position).expect("a question") + 4;
        }
        for _ in 0..u32::from(count(6)) + u32::from(count(8)) + u32::from(count(10)) {
            let fixed = wire::name::skip(&out, position).expect("an owner");
            let (.., start, length) = wire::rr::read_fixed(&out[..response.length], fixed).expect("a record");
            position = start + length;
        }
        assert_eq!(position, response.length);
    }
});
