//! Requests with and without signatures, and who gets them.

mod limits;

use super::*;
use crate::acl::{Access, Rule};
use crate::publish::{Identity, Outgoing, Served, State};
use crate::serve::answer::answer;
use crate::serve::notify::Announcers;
use crate::zone::tests::zone;
use proptest::prelude::*;
use wire::message::Records;
use wire::name::NameBuf;
use wire::tsig::{Algorithm, Chain, Key, sign_request};

const NOW: u64 = 1_700_000_000;

fn key(name: &str, secret: &[u8]) -> Arc<Key> {
    Arc::new(Key::new(Name::parse(name).unwrap(), Algorithm::Sha256, secret.to_vec()))
}

/// Two zones: one for the holders of a key, one for everybody.
fn published() -> Published {
    let served = |origin: &str, key: Option<&str>| {
        let text: String = (0..40).map(|n| format!("big 30 TXT text-{n}\nn{n} 30 A 192.0.2.{n}\n")).collect();
        let zone = Arc::new(zone(origin, &format!("@ 30 SOA 7\nwww 30 A 192.0.2.1\n{text}")));
        let rules =
            vec![Rule { prefix: None, key: key.map(|key| Name::parse(key).unwrap()), channel: None, host: None }];
        let outgoing = Arc::new(Outgoing { access: Access { rules }, ixfr: true });
        Arc::new(Served { outgoing, ..Served::new(zone.origin.clone(), State::Ok, Some(zone)) })
    };
    let served = [served("closed.", Some("k.")), served("open.", None)];
    let mut published = Published::new(Identity::default(), served, 1);
    published.keys = Arc::new([key("k.", b"secret")].map(|key| (key.name.clone(), key)).into());
    published
}

fn responder() -> (Arc<Responder>, Arc<Metrics>) {
    let metrics = Arc::new(Metrics::new());
    let (reception, _) = Reception::new(metrics.clone());
    let rules = vec![Rule { prefix: None, key: Some(Name::parse("k").unwrap()), channel: None, host: None }];
    let (mut announcers, zone) = (Announcers::default(), Name::parse("closed").unwrap());
    announcers.add(&zone, &zone, Access { rules });
    reception.set_announcers(announcers);
    (Responder::new(reception, metrics.clone(), || NOW), metrics)
}

fn question(name: &str, rtype: u16) -> Vec<u8> {
    let mut message = vec![0xab, 0xcd, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    message.extend_from_slice(NameBuf::parse(name).unwrap().as_wire());
    message.extend_from_slice(&[0, rtype as u8, 0, 1]);
    message
}

fn with_opt(mut message: Vec<u8>) -> Vec<u8> {
    message[11] += 1;
    message.extend_from_slice(&[0, 0, 41, 4, 208, 0, 0, 0, 0, 0, 0]);
    message
}

fn with_soa(mut message: Vec<u8>, serial: u8) -> Vec<u8> {
    message[9] = 1;
    message.extend_from_slice(&[0xc0, 12, 0, 6, 0, 1, 0, 0, 0, 0, 0, 22, 0, 0]);
    message.extend_from_slice(&[[0, 0, 0, serial], [0; 4], [0; 4], [0; 4], [0; 4]].concat());
    message
}

fn signed(message: &[u8], key: &Arc<Key>, now: u64) -> (Vec<u8>, Chain) {
    let mut message = message.to_vec();
    let chain = sign_request(&mut message, key, now);
    (message, chain)
}

fn respond(responder: &Responder, published: &Published, message: &[u8], datagram: bool) -> (Dispatched, Vec<u8>) {
    let mut out = vec![0; if datagram { 1232 } else { 65_535 }];
    let asked = Asked { message, peer: "192.0.2.1".parse().unwrap(), datagram, rotation: 0, now: 0, secured: None };
    let outcome = responder.respond(published, asked, &mut out);
    if let Dispatched::Response(response) = &outcome {
        out.truncate(response.length);
    }
    (outcome, out)
}

/// The response as octets.
fn bytes(responder: &Responder, message: &[u8], datagram: bool) -> Vec<u8> {
    match respond(responder, &published(), message, datagram) {
        (Dispatched::Response(_), bytes) => bytes,
        (Dispatched::Transfer(_), _) => panic!("a transfer"),
        (Dispatched::Limited(..), _) => panic!("limited"),
        (Dispatched::Nothing, _) => panic!("nothing"),
    }
}

fn rcode(message: &[u8]) -> u8 {
    message[3] & 15
}

fn metric(metrics: &Metrics, line: &str) -> bool {
    metrics.render().lines().any(|found| found == format!("aggregator_{line}"))
}

#[test]
fn a_signed_question_gets_the_same_answer_signed() {
    let (responder, _) = responder();
    let plain = with_opt(question("www.open", rtype::A));
    let mut expected = vec![0; 1232];
    let length = answer(&published(), &plain, true, 0, &mut expected).unwrap().length;
    assert_eq!(bytes(&responder, &plain, true), expected[..length]);
    let (message, mut chain) = signed(&plain, &key("k.", b"secret"), NOW);
    let mut response = bytes(&responder, &message, true);
    chain.check(&mut response, NOW).unwrap();
    chain.finish().unwrap();
    assert_eq!(response, expected[..length]);
}

#[test]
fn answers_leave_room_for_their_signature() {
    let (responder, metrics) = responder();
    for (plain, limit) in [(question("big.open", 16), 512), (with_opt(question("big.open", 16)), 1232)] {
        let (message, mut chain) = signed(&plain, &key("k.", b"secret"), NOW);
        let mut response = bytes(&responder, &message, true);
        assert!(response.len() <= limit);
        chain.check(&mut response, NOW).unwrap();
        assert_eq!(response[2] & 2, if limit == 512 { 2 } else { 0 }, "TC");
    }
    assert!(!metrics.render().contains("tsig_rejected_total{"));
}

#[test]
fn wrong_signatures_are_refused_and_counted() {
    let (responder, metrics) = responder();
    let plain = question("www.open", rtype::A);
    for (key, now, reason) in [
        (key("other.", b"secret"), NOW, "unknown_key"),
        (key("k.", b"guess"), NOW, "bad_signature"),
        (key("k.", b"secret"), NOW - 301, "bad_time"),
    ] {
        let (message, mut chain) = signed(&plain, &key, now);
        let mut response = bytes(&responder, &message, true);
        assert_eq!(rcode(&response), rcode::NOTAUTH as u8, "{reason}");
        assert!(chain.check(&mut response, now).is_err());
        assert!(metric(&metrics, &format!("tsig_rejected_total{{reason=\"{reason}\"}} 1")), "{reason}");
    }
}

#[test]
fn a_tsig_record_anywhere_but_at_the_end_is_a_format_error() {
    let (responder, metrics) = responder();
    let (message, _) = signed(&question("www.open", rtype::A), &key("k.", b"secret"), NOW);
    // The count of answer, authority, and additional records.
    for (counts, expected) in [([0, 0, 1], 0), ([1, 0, 0], 1), ([0, 1, 0], 1)] {
        let mut message = message.clone();
        [message[7], message[9], message[11]] = counts;
        for datagram in [true, false] {
            let response = bytes(&responder, &message, datagram);
            assert_eq!((rcode(&response), response[7]), (expected, 1 - expected), "{counts:?}");
        }
    }
    assert!(metric(&metrics, "tsig_rejected_total{reason=\"malformed\"} 4"));
}

#[test]
fn a_key_opens_a_zone_and_signs_every_message() {
    let (responder, metrics) = responder();
    let plain = question("closed", rtype::AXFR);
    let refused = bytes(&responder, &with_opt(plain.clone()), false);
    assert_eq!(rcode(&refused), rcode::REFUSED as u8);
    // Extended error 18, Prohibited (RFC 8914 section 4.19).
    assert!(refused.ends_with(&[0, 15, 0, 2, 0, 18]));
    assert!(metric(&metrics, "xfr_served_total{kind=\"axfr\",result=\"refused\",zone=\"closed.\"} 1"));
    let (message, mut chain) = signed(&plain, &key("k.", b"secret"), NOW);
    let (Dispatched::Transfer(outbound), _) = respond(&responder, &published(), &message, false) else { panic!() };
    let Outbound { transfer, signer: Some(mut signer) } = *outbound else { panic!("no signer") };
    let mut messages = transfer.messages();
    let mut out = vec![0; 65_535];
    // Little room, so that there are several messages.
    let reserve = xfr::MESSAGE_BYTES - 500;
    while let Some(length) = messages.compose(&mut out, reserve) {
        let length = length.unwrap();
        assert!(length <= 500);
        let length = signer.sign(&mut out, length, NOW).unwrap();
        chain.check(&mut out[..length].to_vec(), NOW).unwrap();
    }
    chain.finish().unwrap();
    assert!(messages.sent.messages > 3);
}

#[test]
fn requests_without_a_transfer_are_answered_and_counted() {
    let (responder, metrics) = responder();
    let code = |message: Vec<u8>, datagram| rcode(&bytes(&responder, &message, datagram));
    assert_eq!(code(question("nowhere", rtype::AXFR), false), rcode::NOTAUTH as u8);
    assert_eq!(code(question("nothing", rtype::IXFR), false), rcode::NOTAUTH as u8);
    assert_eq!(code(question("open", rtype::IXFR), false), rcode::FORMERR as u8);
    assert_eq!(code(question("open", rtype::AXFR), true), rcode::REFUSED as u8);
    for (kind, result, zone) in
        [("axfr", "not-authoritative", ""), ("ixfr", "not-authoritative", ""), ("ixfr", "malformed", "open.")]
    {
        let line = format!("xfr_served_total{{kind=\"{kind}\",result=\"{result}\",zone=\"{zone}\"}} 1");
        assert!(metric(&metrics, &line), "{line} in\n{}", metrics.render());
    }
    // RFC 1995 section 2: the SOA alone says that the client is current, or that there is more over TCP.
    for (serial, datagram, truncated) in [(6, true, true), (7, true, false), (7, false, false), (8, true, false)] {
        let response = bytes(&responder, &with_soa(question("open", rtype::IXFR), serial), datagram);
        assert_eq!(rcode(&response), 0);
        assert_eq!((response[2] & 4, response[2] & 2 != 0), (4, truncated), "AA and TC");
        assert_eq!(response[4..12], [0, 1, 0, 1, 0, 0, 0, 0]);
        let ends: Vec<_> = Records::new(&response).unwrap().map(|record| record.unwrap().end()).collect();
        assert_eq!(ends, [response.len()]);
    }
    assert!(metric(&metrics, "xfr_served_total{kind=\"current\",result=\"ok\",zone=\"open.\"} 3"));
    assert!(metric(&metrics, "xfr_served_total{kind=\"ixfr\",result=\"truncated\",zone=\"open.\"} 1"));
}

#[test]
fn a_transfer_too_many_is_told_to_come_again() {
    let (responder, _) = responder();
    let (message, mut chain) = signed(&question("closed", rtype::AXFR), &key("k.", b"secret"), NOW);
    let (Dispatched::Transfer(mut outbound), mut out) = respond(&responder, &published(), &message, false) else {
        panic!()
    };
    let response = outbound.refuse(Refusal::Busy, NOW, &mut out).unwrap();
    out.truncate(response.length);
    chain.check(&mut out, NOW).unwrap();
    assert_eq!((rcode(&out), out.len()), (rcode::SERVFAIL as u8, question("closed", rtype::AXFR).len()));
}

#[test]
fn a_refusal_for_want_of_turns_fits_a_small_buffer() {
    let long = |last: &str| "abcdefghijklmnopqrstuvwxyz0123456789abcdefghijklmnopqrstuvwxyz.".repeat(3) + last;
    let origin = long(&"z".repeat(62));
    let key = Arc::new(Key::new(Name::parse(&long("k")).unwrap(), Algorithm::Sha512, b"secret".to_vec()));
    let content = Arc::new(zone(&format!("{origin}."), "@ 30 SOA 7"));
    let outgoing = Arc::new(Outgoing {
        access: Access { rules: vec![Rule { prefix: None, key: None, channel: None, host: None }] },
        ixfr: true,
    });
    let served = Served { outgoing, ..Served::new(content.origin.clone(), State::Ok, Some(content)) };
    let mut published = Published::new(Identity::default(), [Arc::new(served)], 1);
    published.keys = Arc::new([(key.name.clone(), key.clone())].into());
    let (message, mut chain) = signed(&with_opt(question(&origin, rtype::AXFR)), &key, NOW);
    let (Dispatched::Transfer(mut outbound), _) = respond(&responder().0, &published, &message, false) else {
        panic!()
    };
    let mut out = vec![0; 1232];
    let response = outbound.refuse(Refusal::Busy, NOW, &mut out).expect("room for it all");
    out.truncate(response.length);
    chain.check(&mut out, NOW).unwrap();
    assert_eq!(rcode(&out), rcode::SERVFAIL as u8);
}

#[test]
fn announcements_can_be_signed() {
    let (responder, _) = responder();
    let mut plain = question("closed", rtype::SOA);
    plain[2] = OPCODE_NOTIFY << 3;
    assert_eq!(rcode(&bytes(&responder, &plain, true)), rcode::REFUSED as u8);
    let (message, mut chain) = signed(&plain, &key("k.", b"secret"), NOW);
    let mut response = bytes(&responder, &message, true);
    chain.check(&mut response, NOW).unwrap();
    assert_eq!(rcode(&response), 0);
}

#[test]
fn a_long_name_and_a_long_key_still_fit() {
    let long = "abcdefghijklmnopqrstuvwxyz0123456789abcdefghijklmnopqrstuvwxyz.".repeat(3);
    let mut published = published();
    let long_key = key(&format!("{long}k."), b"secret");
    published.keys = Arc::new([(long_key.name.clone(), long_key.clone())].into());
    let (responder, _) = responder();
    let (message, mut chain) = signed(&question(&format!("{long}open"), rtype::A), &long_key, NOW);
    let (Dispatched::Response(response), mut out) = respond(&responder, &published, &message, true) else { panic!() };
    chain.check(&mut out, NOW).unwrap();
    assert_eq!(response.rcode, rcode::NXDOMAIN);
    assert!(response.truncated, "the SOA has no room");
}

#[test]
fn a_primary_is_told_the_serial_of_its_member_or_that_there_is_none() {
    let (responder, _) = responder();
    let name = |text: &str| Name::parse(text).unwrap();
    let served = |origin: &str, state: State, serial: Option<u32>| {
        let data = serial.map(|serial| Arc::new(zone("z.", &format!("@ 30 SOA {serial}\nx 30 A 192.0.2.1"))));
        Arc::new(Served::new(name(origin), state, data))
    };
    let mut published = Published::new(Identity::default(), [served("z", State::Ok, Some(300))], 1);
    published.hide([
        served("good:z", State::Ok, Some(100)),
        served("old:z", State::Expired, Some(200)),
        served("new:z", State::NotReady, None),
    ]);
    let mut announcers = Announcers::default();
    // One that was only just configured is not even published.
    let members = [("good:z", "192.0.2.1"), ("old:z", "2001:db8::2"), ("new:z", "192.0.2.3"), ("gone:z", "192.0.2.4")];
    for (member, address) in members {
        announcers.add_askers(&name("z"), &name(member), [address.parse().unwrap()]);
    }
    // The first member of an address counts.
    announcers.add_askers(&name("z"), &name("old:z"), ["192.0.2.1".parse().unwrap(), "192.0.2.9".parse().unwrap()]);
    responder.reception.set_announcers(announcers);
    let told = |peer: &str, message: &[u8]| {
        let mut out = vec![0; 1232];
        let asked = Asked { message, peer: peer.parse().unwrap(), datagram: true, rotation: 0, now: 0, secured: None };
        let Dispatched::Response(response) = responder.respond(&published, asked, &mut out) else { panic!("{peer}") };
        // The serial stands in front of the four other numbers.
        let serial = (out[7] == 1).then(|| u32::from_be_bytes(out[response.length - 20..][..4].try_into().unwrap()));
        (response.rcode, out[2] & 4 != 0, serial)
    };
    let soa = question("Z", rtype::SOA);
    for peer in ["192.0.2.1", "::ffff:192.0.2.1"] {
        assert_eq!(told(peer, &soa), (rcode::NOERROR, true, Some(100)));
    }
    for peer in ["2001:db8::2", "192.0.2.3", "192.0.2.4", "192.0.2.9"] {
        assert_eq!(told(peer, &soa), (rcode::SERVFAIL, false, None), "{peer}");
        // Everything else is answered as for others.
        assert_eq!(told(peer, &question("x.z", rtype::A)).0, rcode::NOERROR);
        assert_eq!(told(peer, &question("x.z", rtype::SOA)).0, rcode::NOERROR);
    }
    assert_eq!(told("192.0.2.77", &soa), (rcode::NOERROR, true, Some(300)));
}

proptest! {
    /// Whatever comes, signed or not, gets nothing or a response to it.
    #[test]
    fn any_bytes_are_survived(
        head in prop::sample::select(vec![0u8, 0x20, 0x28]),
        rtype in prop::sample::select(vec![1u8, 6, 251, 252, 255]),
        tail in prop::collection::vec(any::<u8>(), 0..60),
        additional in 0..3u8,
        sign in any::<bool>(),
        datagram in any::<bool>(),
    ) {
        let (responder, _) = responder();
        let mut message = question("open", rtype.into());
        message[2] = head;
        message.extend(tail);
        message[11] = additional;
        if sign {
            message = signed(&message, &key("k.", b"secret"), NOW).0;
        }
        let (outcome, out) = respond(&responder, &published(), &message, datagram);
        if let Dispatched::Response(response) = outcome {
            prop_assert!(response.length >= 12);
            prop_assert_eq!(&out[..2], &message[..2]);
            prop_assert!(out[2] & 0x80 != 0);
        }
    }
}
