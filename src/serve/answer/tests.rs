//! Answers to single questions, as short text; what Knot and NSD say is compared in `tests/differential.rs`.

mod region;
mod scopes;
mod steering;
mod subnet;
mod windows;

use super::*;
use crate::publish::Identity;
use crate::zone::tests::zone;
use crate::zone::{Editor, Loader, Node, Owner, Soa};
use hickory_proto::op::Message;
use std::sync::Arc;
use wire::name::Name;
use wire::serial::Serial;

fn published(zones: &[(&str, &str)]) -> Published {
    let served = |(origin, text): &(&str, &str)| {
        let zone = Some(Arc::new(zone(origin, text)));
        Arc::new(Served::new(Name::parse(origin).unwrap(), State::Ok, zone))
    };
    Published::new(identity(), zones.iter().map(served), 1)
}

fn identity() -> Identity {
    Identity { name: "ns1.test".into(), version: "aggregator 1".into() }
}

fn question(name: &str, qtype: u16) -> Vec<u8> {
    let mut request = vec![0xab, 0xcd, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    request.extend_from_slice(NameBuf::parse(name).unwrap().as_wire());
    request.extend_from_slice(&qtype.to_be_bytes());
    request.extend_from_slice(&[0, 1]);
    request
}

fn with_opt(mut request: Vec<u8>, payload: u16, version: u8, options: &[u8]) -> Vec<u8> {
    request[11] += 1;
    request.extend_from_slice(&[0, 0, 41]);
    request.extend_from_slice(&payload.to_be_bytes());
    request.extend_from_slice(&[0, version, 0x80, 0, 0, options.len() as u8]);
    request.extend_from_slice(options);
    request
}

fn raw(published: &Published, request: &[u8], datagram: bool) -> Option<(Vec<u8>, Response)> {
    let mut out = vec![0; 65535];
    let response = answer(published, request, datagram, 0, &mut out)?;
    out.truncate(response.length);
    Some((out, response))
}

/// Response code, flags and sections in a short form; the decoder prints DNAME targets in base64.
fn ask(published: &Published, name: &str, qtype: u16) -> String {
    let (bytes, _) = raw(published, &question(name, qtype), true).unwrap();
    short(&bytes)
}

fn short(bytes: &[u8]) -> String {
    let message = Message::from_vec(bytes).unwrap();
    let mut text = format!("{:?}", message.metadata.response_code).to_uppercase();
    if message.metadata.authoritative {
        text.push_str(" aa");
    }
    if message.metadata.truncation {
        text.push_str(" tc");
    }
    for (mark, records) in [("", &message.answers), ("!", &message.authorities), ("+", &message.additionals)] {
        for record in records {
            text.push_str(&format!(" {mark}{} {} {};", record.name, record.record_type(), record.data));
        }
    }
    text
}

const ZONE: &str = "@ 30 SOA 1
    @ 30 NS ns
    ns 30 A 192.0.2.53
    a.ent 30 A 192.0.2.1
    alias 30 CNAME a.ent
    nowhere 30 CNAME nothing
    outside 30 CNAME www.example.
    loop1 30 CNAME loop2
    loop2 30 CNAME loop1
    self 30 CNAME self
    *.wild 30 A 192.0.2.7
    x.y.wild 30 A 192.0.2.8
    d 30 DNAME ent
    cut 30 NS ns.cut
    cut 30 NS ns.other.
    ns.cut 30 A 192.0.2.99
    s 30 SRV 80 ns
    _dns 30 SVCB ns
    here 30 SVCB .
    i._x._tcp 30 SRV 80 ns
    i._x._tcp 30 TXT txtvers=1
    i._x._tcp 30 A 192.0.2.3";

#[test]
fn names_types_and_their_absence() {
    let published = published(&[("z.", ZONE)]);
    for (name, qtype, expected) in [
        ("a.ent.z", rtype::A, "NOERROR aa a.ent.z. A 192.0.2.1;"),
        ("ent.z", rtype::A, "NOERROR aa !z. SOA ns. h. 1 30 60 2592000 30;"),
        ("b.ent.z", rtype::A, "NXDOMAIN aa !z. SOA ns. h. 1 30 60 2592000 30;"),
        ("a.ent.z", rtype::TXT, "NOERROR aa !z. SOA ns. h. 1 30 60 2592000 30;"),
        ("other", rtype::A, "REFUSED"),
        ("q.wild.z", rtype::A, "NOERROR aa q.wild.z. A 192.0.2.7;"),
        ("q.y.wild.z", rtype::A, "NXDOMAIN aa !z. SOA ns. h. 1 30 60 2592000 30;"),
        ("y.wild.z", rtype::A, "NOERROR aa !z. SOA ns. h. 1 30 60 2592000 30;"),
        ("s.z", rtype::SRV, "NOERROR aa s.z. SRV 0 10 80 ns.z.; +ns.z. A 192.0.2.53;"),
        ("_dns.z", rtype::SVCB, "NOERROR aa _dns.z. SVCB 1 ns.z.; +ns.z. A 192.0.2.53;"),
        ("here.z", rtype::SVCB, "NOERROR aa here.z. SVCB 1 .;"),
        ("z", rtype::NS, "NOERROR aa z. NS ns.z.; +ns.z. A 192.0.2.53;"),
        ("z", rtype::AXFR, "REFUSED"),
    ] {
        assert_eq!(ask(&published, name, qtype), expected, "{name} {qtype}");
    }
}

#[test]
fn aliases_are_followed_to_their_end() {
    let published = published(&[("z.", ZONE), ("e.", "@ 30 SOA 2\nx 30 CNAME alias.z.\ny 30 CNAME gone.z.")]);
    for (name, qtype, expected) in [
        ("alias.z", rtype::A, "NOERROR aa alias.z. CNAME a.ent.z.; a.ent.z. A 192.0.2.1;"),
        ("alias.z", rtype::CNAME, "NOERROR aa alias.z. CNAME a.ent.z.;"),
        ("alias.z", rtype::ANY, "NOERROR aa alias.z. CNAME a.ent.z.;"),
        ("nowhere.z", rtype::A, "NXDOMAIN aa nowhere.z. CNAME nothing.z.; !z. SOA ns. h. 1 30 60 2592000 30;"),
        ("outside.z", rtype::A, "NOERROR aa outside.z. CNAME www.example.;"),
        ("loop1.z", rtype::A, "NOERROR aa loop1.z. CNAME loop2.z.; loop2.z. CNAME loop1.z.;"),
        ("self.z", rtype::A, "NOERROR aa self.z. CNAME self.z.;"),
        ("x.e", rtype::A, "NOERROR aa x.e. CNAME alias.z.; alias.z. CNAME a.ent.z.; a.ent.z. A 192.0.2.1;"),
        ("y.e", rtype::A, "NXDOMAIN aa y.e. CNAME gone.z.; !z. SOA ns. h. 1 30 60 2592000 30;"),
        ("a.d.z", rtype::A, "NOERROR aa d.z. DNAME A2VudAF6AA==; a.d.z. CNAME a.ent.z.; a.ent.z. A 192.0.2.1;"),
        ("a.d.z", rtype::CNAME, "NOERROR aa d.z. DNAME A2VudAF6AA==; a.d.z. CNAME a.ent.z.;"),
        ("d.z", rtype::DNAME, "NOERROR aa d.z. DNAME A2VudAF6AA==;"),
        ("d.z", rtype::A, "NOERROR aa !z. SOA ns. h. 1 30 60 2592000 30;"),
    ] {
        assert_eq!(ask(&published, name, qtype), expected, "{name} {qtype}");
    }
}

#[test]
fn a_dname_that_makes_too_long_a_name_is_yxdomain() {
    let target = format!("{0}.{0}.{0}.z.", "t".repeat(63));
    let published = published(&[("z.", &format!("@ 30 SOA 1\nd 30 DNAME {target}"))]);
    let answer = ask(&published, &format!("{}.d.z", "q".repeat(63)), rtype::A);
    assert!(answer.starts_with("YXDOMAIN aa d.z. DNAME ") && answer.matches(';').count() == 1, "{answer}");
}

#[test]
fn a_dname_that_leads_to_its_own_owner_is_added_once() {
    let published = published(&[("z.", "@ 30 SOA 1\nd 30 DNAME @")]);
    let answer = ask(&published, "d.d.z", rtype::DNAME);
    assert_eq!(answer.matches(" DNAME ").count(), 1, "{answer}");
    assert!(answer.contains("d.d.z. CNAME d.z.;"), "{answer}");
}

#[test]
fn a_dname_that_two_zones_share_is_added_for_each() {
    let first = zone("z.", "@ 30 SOA 1\nd 30 DNAME d.y.");
    let shared = first.get(Name::parse("d.z").unwrap().as_wire()).unwrap();
    let mut editor = Editor::from_zone(&zone("y.", "@ 30 SOA 1"));
    editor.copy(&Owner::new(b"\x01d"), Node::default(), shared, None);
    let second = editor.finish_beside(&[&first]).unwrap();
    let copy = second.get(Name::parse("d.y").unwrap().as_wire()).unwrap();
    assert!(shared.get(rtype::DNAME).unwrap().is(copy.get(rtype::DNAME).unwrap()));
    let zones = [first, second].map(|zone| Arc::new(Served::new(zone.origin.clone(), State::Ok, Some(Arc::new(zone)))));
    let published = Published::new(identity(), zones, 1);
    let answer = ask(&published, "q.d.z", rtype::A);
    let owners: Vec<&str> = answer.split("; ").map(|record| record.trim_start_matches("NOERROR aa ")).collect();
    let expected = ["d.z. DNAME ", "q.d.z. CNAME q.d.y.", "d.y. DNAME ", "q.d.y. CNAME q.d.y."];
    assert_eq!(owners.len(), expected.len(), "{answer}");
    assert!(owners.iter().zip(expected).all(|(owner, expected)| owner.starts_with(expected)), "{answer}");
}

#[test]
fn delegations_are_referred_with_glue() {
    let published = published(&[("z.", ZONE)]);
    let referral = "NOERROR !cut.z. NS ns.cut.z.; !cut.z. NS ns.other.; +ns.cut.z. A 192.0.2.99;";
    for name in ["cut.z", "ns.cut.z", "deep.below.cut.z"] {
        assert_eq!(ask(&published, name, rtype::A), referral, "{name}");
    }
    assert_eq!(ask(&published, "cut.z", rtype::DS), "NOERROR aa !z. SOA ns. h. 1 30 60 2592000 30;");
    assert_eq!(ask(&published, "x.cut.z", rtype::DS), referral);
}

#[test]
fn ds_at_an_origin_is_the_parents() {
    let published = published(&[("z.", "@ 30 SOA 1\nc 30 NS ns.c"), ("c.z.", "@ 30 SOA 2")]);
    assert_eq!(ask(&published, "c.z", rtype::DS), "NOERROR aa !z. SOA ns. h. 1 30 60 2592000 30;");
    assert_eq!(ask(&published, "z", rtype::DS), "NOERROR aa !z. SOA ns. h. 1 30 60 2592000 30;");
}

#[test]
fn any_gives_one_set_but_a_service_instance_whole() {
    let published = published(&[("z.", ZONE)]);
    assert_eq!(ask(&published, "ns.z", rtype::ANY), "NOERROR aa ns.z. A 192.0.2.53;");
    let instance = ask(&published, "i._x._tcp.z", rtype::ANY);
    assert_eq!(instance, "NOERROR aa i._x._tcp.z. TXT txtvers=1; i._x._tcp.z. SRV 0 10 80 ns.z.; +ns.z. A 192.0.2.53;");
}

/// The instances of a service with what describes them, in a zone as the guideline has it.
const SERVICES: &str = "@ 30 SOA 1
    _services._dns-sd._udp 30 PTR _os._tcp
    _os._tcp 30 PTR identity._os._tcp
    _os._tcp 30 PTR compute._os._tcp
    identity._os._tcp 30 SRV 443 os
    identity._os._tcp 30 TXT path=/
    compute._os._tcp 30 SRV 8774 os
    compute._os._tcp 30 TXT path=/v2
    plain 30 PTR identity._os._tcp
    os 30 A 192.0.2.80";

#[test]
fn a_list_of_instances_comes_with_what_describes_them() {
    let published = published(&[("z.", SERVICES)]);
    let list = ask(&published, "_OS._tcp.z", rtype::PTR);
    let expected = "NOERROR aa _OS._tcp.z. PTR compute._os._tcp.z.; _OS._tcp.z. PTR identity._os._tcp.z.; \
        +compute._os._tcp.z. SRV 0 10 8774 os.z.; +identity._os._tcp.z. SRV 0 10 443 os.z.; \
        +compute._os._tcp.z. TXT path=/v2; +identity._os._tcp.z. TXT path=/; +os.z. A 192.0.2.80;";
    assert_eq!(list, expected);
    // RFC 6763 section 12: lists of services have nothing to add, and other PTR records are no lists.
    let services = "NOERROR aa _services._dns-sd._udp.z. PTR _os._tcp.z.;";
    assert_eq!(ask(&published, "_services._dns-sd._udp.z", rtype::PTR), services);
    assert_eq!(ask(&published, "plain.z", rtype::PTR), "NOERROR aa plain.z. PTR identity._os._tcp.z.;");
}

#[test]
fn what_describes_instances_is_left_out_before_the_list_is() {
    let instances: String =
        (0..12).map(|i| format!("_os._tcp 30 PTR i{i}._os._tcp\ni{i}._os._tcp 30 SRV {i} os\n")).collect();
    let published = published(&[("z.", &format!("@ 30 SOA 1\n{instances}os 30 A 192.0.2.80"))]);
    let (bytes, response) = raw(&published, &question("_os._tcp.z", rtype::PTR), true).unwrap();
    let message = Message::from_vec(&bytes).unwrap();
    assert!(!response.truncated && bytes.len() <= 512);
    assert_eq!(message.answers.len(), 12);
    assert!((1..12).contains(&message.additionals.len()), "{}", message.additionals.len());
    // All that fits, over TCP.
    let many: String =
        (0..100).map(|i| format!("_os._tcp 30 PTR i{i}._os._tcp\ni{i}._os._tcp 30 SRV 80 os\n")).collect();
    let published = super::tests::published(&[("z.", &format!("@ 30 SOA 1\n{many}os 30 A 192.0.2.80"))]);
    let (bytes, _) = raw(&published, &question("_os._tcp.z", rtype::PTR), false).unwrap();
    let message = Message::from_vec(&bytes).unwrap();
    assert_eq!((message.answers.len(), message.additionals.len()), (100, 101));
}

#[test]
fn zones_without_valid_data_are_servfail_with_the_reason() {
    let origin = Name::parse("z").unwrap();
    for (state, code) in [(State::NotReady, 14), (State::Expired, 24)] {
        let zone = Some(Arc::new(zone("z.", ZONE)));
        let published = Published::new(identity(), [Arc::new(Served::new(origin.clone(), state, zone))], 1);
        let (bytes, response) = raw(&published, &with_opt(question("a.z", rtype::A), 1232, 0, &[]), true).unwrap();
        assert_eq!(response.rcode, rcode::SERVFAIL);
        assert_eq!(bytes[bytes.len() - 6..], [0, 15, 0, 2, 0, code]);
    }
}

#[test]
fn odd_requests_get_the_error_that_fits() {
    let published = published(&[("z.", ZONE)]);
    let plain = question("a.ent.z", rtype::A);
    let edit = |at: usize, value: u8| {
        let mut request = plain.clone();
        request[at] = value;
        request
    };
    let opt = |payload, version, options: &[u8]| with_opt(plain.clone(), payload, version, options);
    let mut two_opts = with_opt(opt(512, 0, &[]), 512, 0, &[]);
    for (what, request, rcode) in [
        ("opcode", edit(2, 5 << 3), rcode::NOTIMP),
        ("no question", plain[..12].iter().map(|b| if *b == 1 { 0 } else { *b }).collect(), rcode::FORMERR),
        ("two questions", edit(5, 2), rcode::FORMERR),
        ("pointer", [&plain[..12], &[0xc0, 0x0c, 0, 1, 0, 1]].concat(), rcode::FORMERR),
        ("long label", [&plain[..12], &[0x40], &plain[13..]].concat(), rcode::FORMERR),
        ("class", edit(plain.len() - 1, 255), rcode::REFUSED),
        ("bad version", opt(1232, 1, &[]), rcode::BADVERS),
        ("bad option", opt(1232, 0, &[0, 10, 0, 8, 1]), rcode::FORMERR),
        ("two OPT", two_opts.split_off(0), rcode::FORMERR),
        ("missing record", edit(11, 1), rcode::FORMERR),
        ("trailing bytes", [&plain[..], &[1, 2, 3]].concat(), rcode::NOERROR),
        ("unknown option", opt(1232, 0, &[0, 99, 0, 1, 7]), rcode::NOERROR),
        ("tiny payload", opt(0, 0, &[]), rcode::NOERROR),
        ("all flags", edit(2, 0x87 & 0x7f | 0x07), rcode::NOERROR),
    ] {
        let (bytes, response) = raw(&published, &request, true).expect(what);
        assert_eq!(response.rcode, rcode, "{what}");
        let message = Message::from_vec(&bytes).expect(what);
        assert_eq!(message.metadata.id, 0xabcd, "{what}");
    }
    assert!(raw(&published, &edit(2, 0x80), true).is_none());
    assert!(raw(&published, &plain[..11], true).is_none());
    let (unknown, _) = raw(&published, &edit(2, 15 << 3 | 1), true).unwrap();
    assert_eq!(unknown[2..], [0xf8, 4, 0, 0, 0, 0, 0, 0, 0, 0]);
}

#[test]
fn what_does_not_fit_is_left_out_whole() {
    let addresses: String = (0..40).map(|i| format!("big 30 A 192.0.2.{i}\n")).collect();
    let published = published(&[("z.", &format!("@ 30 SOA 1\n{addresses}\ns 30 SRV 80 big"))]);
    let (bytes, response) = raw(&published, &question("big.z", rtype::A), true).unwrap();
    assert!(response.truncated && bytes.len() < 100);
    let (_, response) = raw(&published, &with_opt(question("big.z", rtype::A), 4096, 0, &[]), true).unwrap();
    assert!(!response.truncated);
    let (_, response) = raw(&published, &question("big.z", rtype::A), false).unwrap();
    assert!(!response.truncated);
    assert_eq!(ask(&published, "s.z", rtype::SRV), "NOERROR aa s.z. SRV 0 10 80 big.z.;");
}

#[test]
fn required_glue_that_does_not_fit_sets_tc() {
    let addresses: String = (0..40).map(|i| format!("ns.cut 30 A 192.0.2.{i}\n")).collect();
    let published = published(&[("z.", &format!("@ 30 SOA 1\ncut 30 NS ns.cut\n{addresses}"))]);
    assert_eq!(ask(&published, "x.cut.z", rtype::A), "NOERROR tc !cut.z. NS ns.cut.z.;");
}

#[test]
fn the_spelling_of_the_question_and_nsid_come_back() {
    let published = published(&[("z.", ZONE)]);
    let request = with_opt(question("A.eNt.Z", rtype::A), 1232, 0, &[0, 3, 0, 0]);
    let (bytes, _) = raw(&published, &request, true).unwrap();
    assert_eq!(bytes[12..request.len() - 15], request[12..request.len() - 15]);
    assert!(short(&bytes).contains("A.eNt.Z. A 192.0.2.1;"));
    assert!(bytes.ends_with(b"\x00\x03\x00\x08ns1.test"));
}

#[test]
fn the_server_tells_its_name_and_version() {
    let published = published(&[]);
    let mut request = question("Version.Bind", rtype::TXT);
    *request.last_mut().unwrap() = 3;
    let (bytes, _) = raw(&published, &request, true).unwrap();
    assert_eq!(short(&bytes), "NOERROR aa Version.Bind. TXT aggregator 1;");
}

#[test]
fn addresses_rotate_also_when_two_types_are_asked_in_turn() {
    let published = published(&[("z.", "@ 30 SOA 1\nw 30 A 192.0.2.1\nw 30 A 192.0.2.2")]);
    let mut out = [0; 512];
    let mut first = |rotation| {
        let request = question("w.z", rtype::A);
        let response = answer(&published, &request, true, rotation, &mut out).unwrap();
        let message = Message::from_vec(&out[..response.length]).unwrap();
        assert_eq!(message.answers.len(), 2);
        message.answers[0].data.to_string()
    };
    for step in [1, 2, 3] {
        let led = (0..100).filter(|turn| first(turn * step) == "192.0.2.1").count();
        assert!((30..=70).contains(&led), "step {step}: 192.0.2.1 came first {led} times of 100");
    }
}

#[test]
fn services_rotate_so_that_clients_spread() {
    let published = published(&[("z.", "@ 30 SOA 1\ns 30 SRV 80 a\ns 30 SRV 80 bcd\ns 30 SRV 80 ef")]);
    let mut led = [0; 3];
    for rotation in 0..300 {
        let mut out = [0; 512];
        let response = answer(&published, &question("s.z", rtype::SRV), true, rotation, &mut out).unwrap();
        let message = Message::from_vec(&out[..response.length]).unwrap();
        assert_eq!(message.answers.len(), 3);
        let first = message.answers[0].data.to_string();
        let names = ["a.z.", "bcd.z.", "ef.z."];
        led[names.iter().position(|name| first.ends_with(&format!(" {name}"))).unwrap()] += 1;
    }
    assert!(led.iter().all(|times| (70..=130).contains(times)), "{led:?}");
}

#[test]
fn addresses_of_services_end_where_the_message_does() {
    let zone_of = |count: usize| {
        let host = |i| format!("s 30 SRV {i} n{i}\ns 30 SRV {} n{i}\nn{i} 30 A 192.0.2.1\n", 10_000 + i);
        format!("@ 30 SOA 1\n{}", (0..count).map(host).collect::<String>())
    };
    for hosts in [20, 90, 700, 1100, 1200] {
        let published = published(&[("z.", &zone_of(hosts))]);
        let (bytes, response) = raw(&published, &question("s.z", rtype::SRV), false).unwrap();
        let message = Message::from_vec(&bytes).unwrap();
        let owners: std::collections::HashSet<_> = message.additionals.iter().map(|added| added.name.clone()).collect();
        assert_eq!((message.answers.len(), owners.len()), (2 * hosts, message.additionals.len()), "each once");
        // Beyond the reach of pointers an owner is written out: five octets and more in place of two.
        let is_full = bytes.len() + 14 + "n1199.z.".len() + 1 > 65_535;
        assert!(!response.truncated && (owners.len() == hosts || is_full), "{hosts}: {}", owners.len());
    }
}

#[test]
fn services_are_compressed_where_binder_is_followed_and_nowhere_else() {
    let hosts: String =
        (0..29).map(|i| format!("_h._tcp.web 30 SRV 80 m{i:03}.web\nm{i:03}.web 30 A 192.0.2.{i}\n")).collect();
    let ports = (82..86).map(|port| format!("_h._tcp.web 30 SRV {port} m007.web\n")).collect::<String>();
    let text = format!("@ 30 SOA 1\n{hosts}{ports}_h._tcp.web 30 SRV 81 other.example.\n_i._tcp 30 CNAME _h._tcp.web");
    let zone = Some(Arc::new(zone("emy-10.example.com.", &text)));
    let serve = |unknown| {
        let origin = Name::parse("emy-10.example.com").unwrap();
        Published::new(identity(), [Arc::new(Served { unknown, ..Served::new(origin, State::Ok, zone.clone()) })], 1)
    };
    let (binder, other) = (serve(Unknown::Refused), serve(Unknown::NxDomain));
    for name in ["_h._tcp.web.emy-10.example.com", "_H._TCP.WEB.Emy-10.example.com", "_i._tcp.emy-10.example.com"] {
        let request = with_opt(question(name, rtype::SRV), 1232, 0, &[]);
        let (bytes, response) = raw(&binder, &request, true).unwrap();
        let message = Message::from_vec(&bytes).unwrap();
        assert!(!response.truncated, "{name}: {} octets", bytes.len());
        let (whole, _) = raw(&other, &request, false).unwrap();
        let expected = Message::from_vec(&whole).unwrap();
        let sorted = |records: &[hickory_proto::rr::Record]| {
            let mut lines: Vec<String> = records.iter().map(|record| record.to_string().to_lowercase()).collect();
            lines.sort();
            lines
        };
        assert_eq!(sorted(&message.answers), sorted(&expected.answers), "{name}");
        let (added, all) = (sorted(&message.additionals), sorted(&expected.additionals));
        assert!(added.iter().all(|line| all.contains(line)) && !added.is_empty(), "{name}: {added:?}");
        assert!(raw(&other, &request, true).unwrap().1.truncated, "{name}");
    }
}

#[test]
fn a_host_is_added_once_and_ds_stays_where_nothing_is_delegated() {
    let published =
        published(&[("z.", "@ 30 SOA 1\ns 30 SRV 80 n\ns 30 SRV 81 n\nn 30 A 192.0.2.1"), ("c.z.", "@ 30 SOA 2")]);
    let answer = ask(&published, "s.z", rtype::SRV);
    assert_eq!(answer, "NOERROR aa s.z. SRV 0 10 80 n.z.; s.z. SRV 0 10 81 n.z.; +n.z. A 192.0.2.1;");
    assert_eq!(ask(&published, "c.z", rtype::DS), "NOERROR aa !c.z. SOA ns. h. 2 30 60 2592000 30;");
}

#[test]
fn all_required_glue_goes_with_a_large_delegation() {
    let text: String = (0..90).map(|i| format!("cut 30 NS n{i}.cut\nn{i}.cut 30 A 192.0.2.{i}\n")).collect();
    let published = published(&[("z.", &format!("@ 30 SOA 1\n{text}"))]);
    let (bytes, response) = raw(&published, &question("x.cut.z", rtype::A), false).unwrap();
    let message = Message::from_vec(&bytes).unwrap();
    assert_eq!((message.authorities.len(), message.additionals.len(), response.truncated), (90, 90, false));
}

#[test]
fn an_answer_that_fits_to_the_octet_is_whole() {
    // Header 12, question 7, record 12 and its RDATA, OPT 11.
    let exact = 1232 - 12 - 7 - 12 - 11;
    for (length, truncated) in [(exact, false), (exact + 1, true)] {
        let apex = NameBuf::parse("z").unwrap();
        let mut loader = Loader::new(apex.to_name());
        let soa = Soa { serial: Serial(1), refresh: 1, retry: 1, expire: 1, minimum: 1 };
        loader.push(&apex, rtype::SOA, 30, &soa.to_rdata(&[0], &[0]));
        loader.push(&apex, 65280, 30, &vec![7; length]);
        let zone = Some(Arc::new(loader.finish(None).unwrap().zone));
        let served = Served::new(apex.to_name(), State::Ok, zone);
        let published = Published::new(identity(), [Arc::new(served)], 1);
        let (bytes, response) = raw(&published, &with_opt(question("z", 65280), 4096, 0, &[]), true).unwrap();
        assert_eq!(response.truncated, truncated, "{length}");
        assert!(truncated || bytes.len() == 1232);
    }
}

#[test]
fn owners_beyond_the_reach_of_pointers_are_written_out() {
    let text: String = (0..900).map(|i| format!("cut 30 NS n{i}.cut\nn{i}.cut 30 A 192.0.2.1\n")).collect();
    let published = published(&[("z.", &format!("@ 30 SOA 1\n{text}"))]);
    let (bytes, response) = raw(&published, &question("x.cut.z", rtype::A), false).unwrap();
    let message = Message::from_vec(&bytes).unwrap();
    assert!(bytes.len() > 0x4000 + 900 * 16);
    assert_eq!((message.additionals.len(), response.truncated), (900, false));
    assert!(message.additionals.iter().all(|glue| glue.name.to_string().ends_with(".cut.z.")));
}
