//! Zones written as text, and the laws of editor and loader.

use super::*;
use proptest::prelude::*;
use std::collections::HashMap;
use wire::name::NameBuf;

/// Reads lines `owner ttl type rdata` for A, AAAA, NS, CNAME, DNAME, PTR, MX, TXT, SRV, SVCB (a target alone), SOA (serial
/// alone) and the placeholder (a reason or a hyphen).
pub fn zone(origin: &str, text: &str) -> Zone {
    load(origin, text, None).zone
}

pub fn load(origin: &str, text: &str, base: Option<&Zone>) -> Loaded {
    push(Loader::new(Name::parse(origin).unwrap()), origin, text).finish(base).unwrap()
}

/// Gives the lines of a text to a loader.
fn push(mut loader: Loader, origin: &str, text: &str) -> Loader {
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let (owner, rest) = line.split_once(' ').unwrap();
        let (ttl, rest) = rest.split_once(' ').unwrap();
        let (kind, data) = rest.split_once(' ').unwrap();
        let full = |name: &str| match name {
            "@" => NameBuf::parse(origin).unwrap(),
            name if name.ends_with('.') => NameBuf::parse(name).unwrap(),
            name => NameBuf::parse(&format!("{name}.{origin}")).unwrap(),
        };
        let (code, rdata) = match kind {
            "A" => (rtype::A, data.parse::<std::net::Ipv4Addr>().unwrap().octets().to_vec()),
            "AAAA" => (rtype::AAAA, data.parse::<std::net::Ipv6Addr>().unwrap().octets().to_vec()),
            "NS" => (rtype::NS, full(data).as_wire().to_vec()),
            "CNAME" => (rtype::CNAME, full(data).as_wire().to_vec()),
            "DNAME" => (rtype::DNAME, full(data).as_wire().to_vec()),
            "PTR" => (rtype::PTR, full(data).as_wire().to_vec()),
            "TXT" => (rtype::TXT, [&[data.len() as u8], data.as_bytes()].concat()),
            "DS" => (rtype::DS, vec![0, 1, 8, 2, 7]),
            "RRSIG" => (rtype::RRSIG, [&[0u8; 18][..], &[0], data.as_bytes()].concat()),
            "TYPE65440" => (rtype::PLACEHOLDER, data.trim_matches('-').as_bytes().to_vec()),
            "MX" => (rtype::MX, [&[0, 10], full(data).as_wire()].concat()),
            "SVCB" => (rtype::SVCB, [&[0, 1], full(data).as_wire()].concat()),
            "SRV" => {
                let (port, target) = data.split_once(' ').unwrap();
                let port = port.parse::<u16>().unwrap().to_be_bytes();
                (rtype::SRV, [&[0, 0, 0, 10], &port[..], full(target).as_wire()].concat())
            }
            "SOA" => {
                let serial = Serial(data.parse().unwrap());
                let soa = Soa { serial, refresh: 30, retry: 60, expire: 2592000, minimum: 30 };
                (rtype::SOA, soa.to_rdata(b"\x02ns\x00", b"\x01h\x00"))
            }
            other => panic!("type {other} in test data"),
        };
        loader.push(&full(owner), code, ttl.parse().unwrap(), &rdata);
    }
    loader
}

fn name(text: &str) -> Name {
    Name::parse(text).unwrap()
}

#[test]
fn empty_non_terminals_come_and_go_with_what_is_below() {
    let old = zone("z.", "@ 30 SOA 1\nweb.svc.acme 30 A 192.0.2.1");
    assert_eq!(old.get(name("svc.acme.z").as_wire()).unwrap().below, 1);
    assert_eq!(old.names(), 4);
    let mut editor = Editor::from_zone(&old);
    assert!(editor.set(&name("web.svc.acme.z"), RRsets::default(), None));
    let new = editor.finish().unwrap();
    assert_eq!((new.names(), new.records), (1, 1));
    assert_eq!(old.names(), 4);
}

#[test]
fn odd_input_is_put_right_and_counted() {
    let loaded = load(
        "z.",
        "@ 30 SOA 1
         @ 30 SOA 1
         x 30 CNAME y
         x 60 A 192.0.2.1
         x 30 A 192.0.2.2
         x 30 A 192.0.2.2
         w 30 CNAME b
         w 30 CNAME a
         sub 30 SOA 7
         s 4294967295 A 192.0.2.9",
        None,
    );
    assert_eq!(
        loaded.anomalies,
        Anomalies { duplicates: 2, mixed_ttls: 1, aliases: 2, inner_soa: 1, ..Anomalies::default() }
    );
    let zone = loaded.zone;
    assert_eq!(format!("{:?}", zone.get(name("x.z").as_wire()).unwrap()), "[30 A [192.0.2.1] [192.0.2.2]]");
    assert_eq!(format!("{:?}", zone.get(name("w.z").as_wire()).unwrap()), "[30 CNAME [a.z.]]");
    assert_eq!(format!("{:?}", zone.get(name("s.z").as_wire()).unwrap()), "[0 A [192.0.2.9]]");
    assert!(zone.get(name("sub.z").as_wire()).is_none());
    let left_out = |at: &str| {
        let records = zone.left_out.get(&name(at)).iter();
        records
            .map(|left_out| (left_out.rtype, left_out.ttl, rr::RdataText(left_out.rtype, &left_out.rdata).to_string()))
            .collect::<Vec<_>>()
    };
    assert_eq!(left_out("x.z"), [(rtype::CNAME, 30, "y.z.".into())]);
    assert_eq!(left_out("w.z"), [(rtype::CNAME, 30, "b.z.".into())]);
    assert_eq!(zone.left_out.names(), 2);
}

#[test]
fn a_zone_needs_one_soa() {
    let error = |loader: Loader| loader.finish(None).err();
    let base = Arc::new(zone("z.", "@ 30 SOA 1"));
    assert_eq!(Loader::new(name("z")).finish(Some(&base)).err(), Some(ZoneError::NoSoa));
    assert_eq!(Loader::against(base.clone()).finish(Some(&base)).err(), Some(ZoneError::NoSoa));
    assert_eq!(error(Loader::new(name("z"))), Some(ZoneError::NoSoa));
    let mut loader = Loader::new(name("z"));
    for serial in [1, 2] {
        let soa = Soa { serial: Serial(serial), refresh: 1, retry: 1, expire: 1, minimum: 1 };
        loader.push(&NameBuf::parse("z").unwrap(), rtype::SOA, 30, &soa.to_rdata(&[0], &[0]));
    }
    assert_eq!(error(loader), Some(ZoneError::ManySoa(2)));
}

#[test]
fn negative_answers_carry_the_smaller_ttl() {
    assert_eq!(zone("z.", "@ 3600 SOA 1").negative.ttl, 30);
    assert_eq!(zone("z.", "@ 5 SOA 1").negative.ttl, 5);
}

#[test]
fn the_spelling_of_owners_is_kept() {
    let zone = zone("z.", "@ 30 SOA 1\nWeb 30 A 192.0.2.1");
    assert!(format!("{zone:?}").contains("Web.z. 30 IN A 192.0.2.1"));
}

/// Zone text of a few names that collide often.
pub fn arbitrary_text() -> impl Strategy<Value = String> {
    let owner =
        prop::sample::select(vec!["a", "b", "a.b", "*.b", "c.a.b", "_x._tcp", "i._x._tcp", "d.c.a.b", "sub", "w.sub"]);
    let data = prop::sample::select(vec![
        "A 192.0.2.1",
        "A 192.0.2.2",
        "TXT t",
        "TXT txtvers=1",
        "TXT txtvers=2",
        "CNAME a",
        "CNAME b",
        "NS ns.sub",
        "DNAME b",
        "SRV 80 a",
        "SRV 80 b",
        "SRV 81 a",
        "PTR i._x._tcp",
        "RRSIG s",
    ]);
    let ttl = prop::sample::select(vec![5u32, 30, 60]);
    (any::<u32>(), prop::collection::vec((owner, ttl, data), 0..25)).prop_map(|(serial, records)| {
        let mut text = format!("@ 30 SOA {serial}\n@ 3600 NS ns.example.\n");
        for (owner, ttl, data) in records {
            text.push_str(&format!("{owner} {ttl} {data}\n"));
        }
        text
    })
}

proptest! {
    /// Loading against any base gives the zone that loading from nothing gives, and names what differs.
    #[test]
    fn loading_against_a_base_equals_loading(old in arbitrary_text(), new in arbitrary_text(), third in arbitrary_text()) {
        let base = zone("z.", &old);
        let fresh = load("z.", &new, None);
        let loaded = load("z.", &new, Some(&base));
        prop_assert_eq!(&loaded.zone, &fresh.zone);
        // Compared on the way, with the version that counts in the end or with another.
        let (base, other) = (Arc::new(base), Arc::new(zone("z.", &third)));
        let texts = |names: &[Name]| names.iter().map(Name::to_string).collect::<std::collections::BTreeSet<_>>();
        for present in [&base, &other] {
            let same = push(Loader::against(present.clone()), "z.", &new).finish(Some(&base)).unwrap();
            prop_assert_eq!(&same.zone, &fresh.zone);
            prop_assert_eq!((same.zone.records, same.zone.owners), (fresh.zone.records, fresh.zone.owners));
            prop_assert_eq!(texts(&same.touched), texts(&loaded.touched));
        }
        prop_assert_eq!(&push(Loader::against(base.clone()), "z.", &new).finish(None).unwrap().zone, &fresh.zone);
        prop_assert_eq!(
            (loaded.zone.records, loaded.zone.cuts, loaded.zone.wildcards),
            (fresh.zone.records, fresh.zone.cuts, fresh.zone.wildcards)
        );
        let at = |zone: &Zone, name: &Name| zone.get(name.as_wire()).unwrap_or_default().to_rrsets();
        for (name, _) in base.iter().chain(fresh.zone.iter()) {
            prop_assert_eq!(loaded.touched.contains(&name), at(&base, &name) != at(&fresh.zone, &name));
        }
    }

    /// Counters and empty non-terminals are what counting afresh gives.
    #[test]
    fn counters_equal_counting(text in arbitrary_text()) {
        let zone = zone("z.", &text);
        let mut below: HashMap<Name, u32> = HashMap::new();
        for (name, node) in zone.iter() {
            if name != zone.origin {
                *below.entry(name.parent().unwrap()).or_default() += 1;
            }
            prop_assert!(!node.is_empty() || node.below > 0);
        }
        for (name, node) in zone.iter() {
            prop_assert_eq!(node.below, below.remove(&name).unwrap_or(0));
        }
        prop_assert!(below.is_empty());
        prop_assert_eq!(zone.owners, zone.iter().filter(|(_, node)| !node.is_empty()).count() as u64);
        prop_assert_eq!(zone.records, zone.iter().map(|(_, node)| node.records()).sum::<u64>());
    }
}
