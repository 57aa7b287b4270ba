//! Answers against those that CNS gave.

use super::super::instances::{Datacenter, MAX_INSTANCES};
use super::super::store::Lapses;
use super::super::tests::{ask, read, read_rows, read_zone, rows, unhex, with_edns, with_soa, zone_of};
use super::*;
use hickory_proto::op::{MessageType, ResponseCode};
use serde_json::Value;
use std::time::{Duration, UNIX_EPOCH};

const ZONE: &str = "us-west-1.cns.example.com";

fn zones(list: impl IntoIterator<Item = Zone>) -> Zones {
    list.into_iter().map(|zone| (zone.origin().clone(), Arc::new(Stored::new(zone)))).collect()
}

/// A datacenter whose transfer takes several messages.
fn large() -> Zone {
    datacenter(MAX_INSTANCES)
}

/// A datacenter with up to so many instances more than at the beginning.
fn datacenter(more: usize) -> Zone {
    let now = UNIX_EPOCH + Duration::from_secs(1_772_366_400);
    let mut model = Datacenter::new(Name::parse(ZONE).unwrap(), 1, 7, now).unwrap();
    assert!(model.scale_up("web", more, now) > more / 2);
    model.zone()
}

fn stream(zones: &Zones, message: &[u8]) -> Vec<Vec<u8>> {
    answer_stream(zones, &Query::read(message).unwrap()).unwrap().1
}

#[test]
fn transfers_are_those_of_cns_octet_by_octet() {
    let captured = [
        include_str!("../../../../tests/data/captures/cns-axfr-messages.json"),
        include_str!("../../../../tests/data/captures/cns-axfr-messages-dc2.json"),
    ];
    let mut compared = 0;
    for capture in captured {
        let capture: Value = serde_json::from_str(capture).unwrap();
        for (origin, messages) in capture.as_object().unwrap() {
            let [message] = messages.as_array().unwrap().as_slice() else { panic!("{origin}") };
            let genuine = unhex(message["wire"].as_str().unwrap());
            let zone = zone_of(&rows(&read(&genuine).answers));
            let id = u16::from_be_bytes([genuine[0], genuine[1]]);
            assert!(stream(&zones([zone]), &ask(id, origin, rtype::AXFR)) == [genuine], "{origin}");
            compared += 1;
        }
    }
    assert!(compared >= 4);
}

#[test]
fn questions_are_answered_as_cns_answers_them() {
    // Not imitated: a reverse zone, the `_cns_meta` names, the suffix match that ignores label boundaries.
    const LEFT_OUT: [&str; 3] = ["reverse", "version", "suffix-without-dot"];
    let zones = zones([read_zone(include_str!("../../../../tests/data/cns/axfr/us-west-1.cns.example.com.rrs"))]);
    let fixture: Value = serde_json::from_str(include_str!("../../../../tests/data/cns/queries.json")).unwrap();
    let mut compared = 0;
    for case in fixture["queries"].as_array().unwrap() {
        let id = case["id"].as_str().unwrap();
        if LEFT_OUT.contains(&id) {
            continue;
        }
        let expected = &case["expect"];
        let kind: hickory_proto::rr::RecordType = case["qtype"].as_str().unwrap().parse().unwrap();
        let answers = stream(&zones, &ask(9, case["qname"].as_str().unwrap(), kind.into()));
        let answer = read(&answers[0]);
        assert_eq!(answer.metadata.authoritative, expected["aa"], "{id}");
        let codes = [
            ("NOERROR", ResponseCode::NoError),
            ("NXDOMAIN", ResponseCode::NXDomain),
            ("SERVFAIL", ResponseCode::ServFail),
        ];
        let code = codes.iter().find(|(text, _)| expected["rcode"] == *text).unwrap().1;
        assert_eq!(answer.metadata.response_code, code, "{id}");
        let sections = [
            (&answer.answers, &expected["answers"]),
            (&answer.authorities, &expected["authority"]),
            (&answer.additionals, &expected["additionals"]),
        ];
        for (ours, theirs) in sections {
            let sort = |mut rows: Vec<super::super::tests::Row>| {
                rows.sort_by_key(|row| format!("{row:?}"));
                rows
            };
            assert_eq!(sort(rows(ours)), sort(read_rows(theirs)), "{id}");
        }
        if let Some(first) = answer.answers.first() {
            assert_eq!(first.name.to_string(), expected["answers"][0]["name"], "{id}: case of the owner name");
        }
        compared += 1;
    }
    assert!(compared > 15);
}

#[test]
fn a_large_transfer_takes_messages_of_just_over_500_answers() {
    let zone = large();
    let records = zone.record_count();
    let model = zone.nodes().to_vec();
    let zones = zones([zone]);
    for edns in [false, true] {
        let mut question = ask(77, ZONE, rtype::AXFR);
        // RD, AD and CD come back.
        question[2..4].copy_from_slice(&[0x01, 0x30]);
        if edns {
            question = with_edns(question, 4096);
        }
        let wires = stream(&zones, &question);
        assert!(wires.len() > 3);
        let messages: Vec<_> = wires.iter().map(|wire| read(wire)).collect();
        for (index, message) in messages.iter().enumerate() {
            let header = &message.metadata;
            assert_eq!((header.id, header.message_type, header.authoritative), (77, MessageType::Response, false));
            assert!(header.recursion_desired && header.authentic_data && header.checking_disabled);
            assert_eq!(message.queries.len(), usize::from(index == 0));
            assert_eq!(message.edns.as_ref().map(|edns| edns.max_payload()), edns.then_some(1470));
            assert!(message.answers.len() <= 520);
            assert!(index + 1 == messages.len() || message.answers.len() > 500);
        }
        let all: Vec<_> = messages.iter().flat_map(|message| rows(&message.answers)).collect();
        assert_eq!(all.len(), records + 1);
        assert_eq!(zone_of(&all).nodes(), model);
        // Compression pays: far less than the names written out.
        assert!(wires.iter().all(|wire| wire.len() < 30_000));
    }
}

#[test]
fn an_incremental_transfer_without_history_is_the_whole_zone() {
    let zones = zones([large()]);
    let serial = zones.values().next().unwrap().zone().serial().0;
    let whole = stream(&zones, &ask(1, ZONE, rtype::AXFR));
    for from in [serial, serial - 1, 0] {
        let answers = stream(&zones, &with_soa(ask(1, ZONE, rtype::IXFR), from));
        assert_eq!(answers.len(), whole.len());
        assert_eq!(read(&answers[0]).answers, read(&whole[0]).answers);
    }
    assert!(answer_stream(&zones, &Query::read(&ask(1, ZONE, rtype::IXFR)).unwrap()).is_none());
}

/// The captured zone after each of five steps, and what CNS then said to a client at each of them.
#[test]
fn differences_are_those_of_cns_octet_by_octet() {
    let capture = include_str!("../../../../tests/data/captures/cns-ixfr-messages.json");
    let capture: Value = serde_json::from_str(capture).unwrap();
    let message = |label: &str| unhex(capture[label]["tcp"][0]["wire"].as_str().unwrap());
    // Its steps are those of the longest answer; their ends are its whole zone.
    let rows_of = rows(&read(&message("s0")).answers);
    let mut steps: Vec<Step> = Vec::new();
    let mut adding = true;
    for (owner, _, data) in &rows_of[1..rows_of.len() - 1] {
        match data {
            Data::Soa { serial, .. } if adding => {
                steps.push(Step { from: *serial, to: *serial, removed: Vec::new(), added: Vec::new() });
                adding = false;
            }
            Data::Soa { serial, .. } => (steps.last_mut().unwrap().to, adding) = (*serial, true),
            _ if adding => steps.last_mut().unwrap().added.push((owner.clone(), data.clone())),
            _ => steps.last_mut().unwrap().removed.push((owner.clone(), data.clone())),
        }
    }
    assert_eq!(steps.len(), 4);
    let latest = zone_of(&rows(&read(&message("s4")).answers));
    let zones: Zones = HashMap::from([(latest.origin().clone(), Arc::new(Stored::with_steps(latest, steps)))]);
    for label in ["s0", "s1", "s2", "s3", "s4", "between-s0-s1"] {
        let genuine = message(label);
        let id = u16::from_be_bytes([genuine[0], genuine[1]]);
        let question = with_soa(ask(id, ZONE, rtype::IXFR), capture[label]["from"].as_u64().unwrap() as u32);
        assert!(stream(&zones, &question) == [genuine], "{label}");
    }
}

#[test]
fn lapses_are_complete_in_form() {
    let before = datacenter(10);
    let (origin, serial) = (before.origin().clone(), before.serial());
    let after = datacenter(60).with_apex(before.apex().clone(), serial.advance(1));
    let ahead = datacenter(70).with_apex(before.apex().clone(), serial.advance(2));
    let mut stored = Stored::new(before.clone()).advance(after.clone());
    stored.lapses = Lapses {
        scan: Some(Arc::new(before.nodes()[..9].to_vec())),
        ahead: Some(Arc::new(Step::between(&after, &ahead))),
        ..Lapses::default()
    };
    let ask_for = |stored: &Stored, kind| {
        let zones: Zones = HashMap::from([(origin.clone(), Arc::new(stored.clone()))]);
        let messages = stream(&zones, &with_soa(ask(1, ZONE, kind), serial.0));
        messages.iter().flat_map(|message| rows(&read(message).answers)).collect::<Vec<_>>()
    };
    let whole = zone_of(&ask_for(&stored, rtype::AXFR));
    assert_eq!((whole.nodes().len(), whole.serial()), (9, after.serial()));
    let serials = |rows: &[super::super::tests::Row]| -> Vec<u32> {
        let serial = |data: &Data| if let Data::Soa { serial, .. } = data { Some(serial.0) } else { None };
        rows.iter().filter_map(|(_, _, data)| serial(data)).map(|found| found - serial0(&before)).collect()
    };
    assert_eq!(serials(&ask_for(&stored, rtype::IXFR)), [1, 0, 1, 1, 2, 1], "one step beyond the serial");
    stored.lapses.cut = Some(5);
    assert_eq!(serials(&ask_for(&stored, rtype::IXFR)), [1, 0, 1, 1], "the rest is missing");
}

/// The serial as a number.
fn serial0(zone: &Zone) -> u32 {
    zone.serial().0
}

#[test]
fn what_does_not_fit_a_datagram_is_truncated_to_nothing() {
    let zones = zones([large()]);
    let datagram = |message: Vec<u8>| answer_datagram(&zones, &Query::read(&message).unwrap());
    for (question, authoritative) in [
        (ask(1, ZONE, rtype::AXFR), false),
        (with_edns(ask(1, ZONE, rtype::AXFR), 4096), false),
        (with_soa(ask(1, ZONE, rtype::IXFR), 1), false),
        (with_edns(ask(1, &format!("web.svc.acme.{ZONE}"), rtype::A), 4096), true),
    ] {
        let answer = read(&datagram(question).unwrap());
        assert!(answer.metadata.truncation && answer.queries.len() == 1 && answer.edns.is_none());
        assert_eq!((answer.answers.len(), answer.authorities.len()), (0, 0));
        assert_eq!(answer.metadata.authoritative, authoritative);
    }
    let soa = read(&datagram(ask(1, ZONE, rtype::SOA)).unwrap());
    assert!(soa.metadata.authoritative && !soa.metadata.truncation);
    assert_eq!((soa.answers.len(), soa.authorities.len()), (1, 2));
    // CNS stops when a client takes less than its own question.
    assert_eq!(datagram(with_edns(ask(1, ZONE, rtype::SOA), 20)), None);
}

#[test]
fn names_outside_all_zones_fail_and_names_below_transfer_the_zone() {
    let zones = zones([large()]);
    for name in ["us-west-9.cns.example.com", "cns.example.com", ".", "xus-west-1.cns.example.com"] {
        for kind in [rtype::AXFR, rtype::SOA] {
            let answer = read(&stream(&zones, &ask(1, name, kind))[0]);
            assert_eq!(answer.metadata.response_code, ResponseCode::ServFail, "{name}");
            assert!(!answer.metadata.authoritative);
        }
    }
    let below = stream(&zones, &ask(1, &format!("nope.{ZONE}"), rtype::AXFR));
    assert_eq!(below.len(), stream(&zones, &ask(1, ZONE, rtype::AXFR)).len());
}

#[test]
fn chains_of_aliases_end() {
    let name = |text: &str| Name::parse(text).unwrap();
    let apex = super::super::zone::Apex { mname: name("m"), rname: name("r"), name_servers: vec![name("m")] };
    let alias = |from: &str, to: &str| (name(from), Data::Cname(name(to)));
    let zone = Zone::new(
        name("z"),
        apex,
        wire::serial::Serial(1),
        [alias("a.z", "b.z"), alias("b.z", "a.z"), alias("c.z", "gone.z")],
    );
    let zones = zones([zone]);
    assert_eq!(read(&stream(&zones, &ask(1, "a.z", rtype::A))[0]).answers.len(), LONGEST_CHAIN);
    assert_eq!(read(&stream(&zones, &ask(1, "c.z", rtype::A))[0]).answers.len(), 1);
}

#[test]
fn unreadable_messages_are_told_apart_and_never_panic() {
    use super::super::message::Unanswered::{Opcode, Response, Unreadable};
    let question = with_edns(with_soa(ask(1, ZONE, rtype::IXFR), 1), 1232);
    let change = |at: usize, to: u8| {
        let mut message = question.clone();
        message[at] = to;
        message
    };
    assert!(Query::read(&question).unwrap().serial.is_some());
    assert_eq!(Query::read(&change(2, 0x80)).unwrap_err(), Response);
    assert_eq!(Query::read(&change(2, 0x20)).unwrap_err(), Opcode);
    assert_eq!(Query::read(&change(5, 0)).unwrap_err(), Unreadable);
    assert_eq!(Query::read(&change(5, 2)).unwrap_err(), Unreadable);
    // An authority record of a type outside the library of CNS: 48 is DNSKEY.
    let kind_at = ask(1, ZONE, rtype::IXFR).len() + 3;
    assert_eq!(Query::read(&change(kind_at, 48)).unwrap_err(), Unreadable);
    for length in 0..question.len() {
        assert_eq!(Query::read(&question[..length]).unwrap_err(), Unreadable, "{length}");
    }
    let zones = zones([datacenter(1)]);
    for at in 0..question.len() {
        for value in [0, 1, 0x3f, 0x40, 0xc0, 0xff] {
            if let Ok(query) = Query::read(&change(at, value)) {
                answer_datagram(&zones, &query);
            }
        }
    }
}

#[test]
fn an_answer_that_is_too_long_for_tcp_stops_cns() {
    let now = UNIX_EPOCH + Duration::from_secs(1_772_366_400);
    let mut model = Datacenter::new(Name::parse(ZONE).unwrap(), 1, 7, now).unwrap();
    let apex = model.zone().apex().clone();
    model.scale_up("web", 1, now);
    let origin = Name::parse(ZONE).unwrap();
    let owner = origin.prepend(b"web").unwrap();
    for (records, answered) in [(200, true), (400, false)] {
        let text = |number: u32| (owner.clone(), Data::Txt(format!("{number:0200}").into_bytes()));
        let zone = Zone::new(origin.clone(), apex.clone(), model.zone().serial(), (0..records).map(text));
        let query = Query::read(&ask(1, &owner.to_string(), rtype::TXT)).unwrap();
        assert_eq!(answer_stream(&zones([zone.clone()]), &query).is_some(), answered);
        assert!(answer_datagram(&zones([zone]), &query).is_some_and(|answer| answer[2] & 2 != 0), "cut off over UDP");
    }
}
