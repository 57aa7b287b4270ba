//! Whole zones: captures of CNS, habits of primaries, damage. Builders of messages for the tests of others.

mod differences;

use super::*;
use hickory_proto::rr::RecordType;
use proptest::prelude::*;
use std::collections::BTreeSet;

const CAPTURES: [&str; 2] = [
    include_str!("../../../tests/data/captures/cns-axfr-messages.json"),
    include_str!("../../../tests/data/captures/cns-axfr-messages-dc2.json"),
];

/// A transfer message for the zone z.example in the making; owners are given without the zone.
#[derive(Clone)]
pub struct Message {
    pub bytes: Vec<u8>,
}

impl Message {
    /// A response, with the question that [`Reader::axfr`] asks if it has one.
    pub fn new(id: u16, question: bool) -> Message {
        let mut bytes = [&id.to_be_bytes()[..], &[0x80, 0, 0, question.into(), 0, 0, 0, 0, 0, 0]].concat();
        if question {
            bytes.extend_from_slice(b"\x01Z\x07example\x00\x00\xfc\x00\x01");
        }
        Message { bytes }
    }

    /// As above, with the question that [`Reader::ixfr`] asks.
    pub fn differences(id: u16, question: bool) -> Message {
        let mut message = Message::new(id, question);
        if let Some(rtype) = message.bytes.get_mut(24) {
            *rtype = rtype::IXFR as u8;
        }
        message
    }

    pub fn record(&mut self, owner: &[u8], rtype: u16, rdata: &[u8]) {
        self.section_record(6, &[owner, b"\x01z\x07example\x00"].concat(), rtype, 1, rdata);
    }

    pub fn section_record(&mut self, section: usize, owner: &[u8], rtype: u16, class: u16, rdata: &[u8]) {
        let count = number16(&self.bytes, section) + 1;
        self.bytes[section..section + 2].copy_from_slice(&count.to_be_bytes());
        self.bytes.extend_from_slice(owner);
        for number in [rtype, class, 0, 30, rdata.len() as u16] {
            self.bytes.extend_from_slice(&number.to_be_bytes());
        }
        self.bytes.extend_from_slice(rdata);
    }
}

/// The number at a position.
pub fn number16(message: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([message[at], message[at + 1]])
}

pub fn soa(serial: u32) -> Vec<u8> {
    Soa { serial: Serial(serial), refresh: 30, retry: 60, expire: 2_592_000, minimum: 30 }.to_rdata(&[0], &[0])
}

pub fn unhex(text: &str) -> Vec<u8> {
    (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap()).collect()
}

/// The zones of the captures with their messages.
pub fn captures() -> Vec<(Name, Vec<Vec<u8>>)> {
    let mut zones = Vec::new();
    for text in CAPTURES {
        let json: serde_json::Map<String, serde_json::Value> = serde_json::from_str(text).unwrap();
        for (zone, messages) in json {
            let messages = messages.as_array().unwrap().iter();
            let messages = messages.map(|message| unhex(message["wire"].as_str().unwrap())).collect();
            zones.push((Name::parse(&zone).unwrap(), messages));
        }
    }
    assert_eq!(zones.len(), 9);
    zones
}

pub fn read(origin: &Name, messages: &[Vec<u8>]) -> Result<Zone, TransferError> {
    let mut reader = Reader::axfr(origin.clone(), number16(&messages[0], 0));
    for message in messages {
        if reader.feed(message)? == Progress::Done {
            break;
        }
    }
    let Received::Full(soa, loader) = reader.finish()? else { unreachable!("the whole zone was asked for") };
    let zone = loader.finish(None)?.zone;
    assert_eq!(zone.soa, soa);
    Ok(zone)
}

pub fn lines(text: &str) -> BTreeSet<String> {
    let records = text.lines().filter(|line| !line.is_empty() && !line.starts_with(';'));
    records.map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect()
}

#[test]
fn captured_transfers_become_what_another_library_reads() {
    for (origin, messages) in captures() {
        let zone = read(&origin, &messages).unwrap();
        let mut expected = BTreeSet::new();
        for message in &messages {
            for record in hickory_proto::op::Message::from_vec(message).unwrap().answers {
                let owner = record.name.to_lowercase().to_string();
                expected.insert(match record.record_type() {
                    RecordType::TXT => format!("{owner} {} IN TXT \"{}\"", record.ttl, record.data),
                    rtype => format!("{owner} {} IN {rtype} {}", record.ttl, record.data),
                });
            }
        }
        assert_eq!(lines(&format!("{zone:?}")), expected, "{origin}");
    }
}

#[test]
fn captured_transfers_become_what_dig_wrote() {
    let files = [
        (
            "us-west-1.cns.example.com",
            include_str!("../../../tests/data/captures/cns-axfr-us-west-1.cns.example.com.s0.txt"),
        ),
        (
            "us-west-2.cns.example.com",
            include_str!("../../../tests/data/captures/cns-axfr-us-west-2.cns.example.com.s0.txt"),
        ),
        (
            "us-west-2.pub.example.net",
            include_str!("../../../tests/data/captures/cns-axfr-us-west-2.pub.example.net.s0.txt"),
        ),
    ];
    for (origin, text) in files {
        let origin = Name::parse(origin).unwrap();
        let (_, messages) = captures().into_iter().find(|(zone, _)| *zone == origin).unwrap();
        assert_eq!(lines(&format!("{:?}", read(&origin, &messages).unwrap())), lines(text), "{origin}");
    }
}

pub fn origin() -> Name {
    Name::parse("z.example").unwrap()
}

fn reason(messages: &[Message]) -> &'static str {
    let bytes: Vec<_> = messages.iter().map(|message| message.bytes.clone()).collect();
    read(&origin(), &bytes).map_or_else(|error| error.reason(), |_| "none")
}

/// A good transfer in three messages: SOA alone, data, closing SOA.
fn good() -> [Message; 3] {
    let [mut first, mut second, mut third] = [true, false, false].map(|question| Message::new(7, question));
    first.record(b"", 6, &soa(1));
    second.record(b"\x01a", 1, &[192, 0, 2, 1]);
    third.record(b"", 6, &soa(1));
    [first, second, third]
}

#[test]
fn habits_of_primaries_are_accepted() {
    assert_eq!(reason(&good()), "none");
    let mut messages = good();
    for message in &mut messages {
        message.section_record(10, &[0], 41, 1232, &[]);
    }
    assert_eq!(reason(&messages), "none", "OPT in every message");
    let mut messages = good();
    messages[1] = Message::new(7, true);
    messages[1].record(b"\x03sub", 6, &soa(1));
    messages[1].record(b"\x03sub", 6, &soa(1));
    messages[1].record(b"\x01a", 1, &[192, 0, 2, 1]);
    messages[1].record(b"\x01a", 1, &[192, 0, 2, 1]);
    assert_eq!(reason(&messages), "none", "question again, SOA below the apex, equal records");
    let mut messages = good();
    messages.iter_mut().for_each(|message| message.bytes[2] |= 0x04);
    assert_eq!(reason(&messages), "none", "AA set");
}

#[test]
fn what_is_wrong_has_a_name() {
    let with = |index: usize, change: &dyn Fn(&mut Message)| {
        let mut messages = good();
        change(&mut messages[index]);
        reason(&messages)
    };
    assert_eq!(with(1, &|message| message.bytes[1] = 8), "id");
    assert_eq!(with(0, &|message| message.bytes[2] = 0), "malformed", "not a response");
    assert_eq!(with(0, &|message| message.bytes[2] = 0xa0), "malformed", "NOTIFY");
    assert_eq!(with(1, &|message| message.bytes[2] |= 2), "malformed", "truncated");
    assert_eq!(with(0, &|message| message.bytes[3] = 5), "refused");
    assert_eq!(with(1, &|message| message.bytes[3] = 2), "servfail");
    assert_eq!(with(0, &|message| message.bytes[13] = b'y'), "question");
    assert_eq!(with(0, &|message| message.bytes[24] = 0xfb), "question", "IXFR");
    assert_eq!(with(0, &|message| *message = Message::new(7, true)), "malformed", "no records at all");
    assert_eq!(with(0, &|message| message.bytes.truncate(11)), "malformed");
    assert_eq!(with(1, &|message| message.bytes.push(0)), "malformed", "bytes behind the end");
    assert_eq!(with(1, &|message| message.section_record(6, b"\x01y\x00", 1, 1, &[1; 4])), "out_of_zone");
    let class = |message: &mut Message| message.section_record(6, b"\x01z\x07example\x00", 1, 3, &[1; 4]);
    assert_eq!(with(1, &class), "class");
    assert_eq!(with(1, &|message| message.record(b"", 255, &[])), "malformed", "a query type");
    assert_eq!(with(1, &|message| message.record(b"", 1, &[1; 5])), "malformed", "five octets of address");
    assert_eq!(with(1, &|message| message.record(b"", 6, &soa(2))), "closing_soa");
    assert_eq!(with(2, &|message| message.record(b"\x01b", 1, &[1; 4])), "malformed", "records behind the end");
    assert_eq!(reason(&good()[..1]), "closed", "one SOA and no more");
    assert_eq!(reason(&good()[..2]), "closed");
    assert_eq!(reason(&[good()[1].clone()]), "question");
    let mut data_first = Message::new(7, true);
    data_first.record(b"\x01a", 1, &[1; 4]);
    assert_eq!(reason(&[data_first]), "malformed");
}

#[test]
fn a_reader_gives_nothing_after_an_error() {
    let [first, mut second, third] = good();
    second.bytes[1] = 9;
    let mut reader = Reader::axfr(origin(), 7);
    assert!(reader.feed(&first.bytes).is_ok());
    assert!(reader.feed(&second.bytes).is_err());
    assert!(reader.feed(&third.bytes).is_err());
    assert!(reader.finish().is_err());
}

proptest! {
    /// Whatever happens to a transfer on the way, the reader does not fall over, and a zone that comes out is
    /// one that was sent whole: between two equal SOA.
    #[test]
    fn mangled_transfers_are_refused_or_whole(
        which in 0..9usize,
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6),
        cut in prop::option::of(any::<prop::sample::Index>()),
    ) {
        let (origin, messages) = captures().swap_remove(which);
        let mut message = messages[0].clone();
        let id = number16(&message, 0);
        for (at, value) in &changes {
            let at = at.index(message.len());
            message[at] = *value;
        }
        if let Some(cut) = &cut {
            message.truncate(cut.index(message.len()));
        }
        let mut reader = Reader::axfr(origin.clone(), id);
        let progress = reader.feed(&message);
        let records = reader.records();
        match (progress, reader.finish()) {
            (Ok(Progress::Done), Ok(Received::Full(soa, loader))) => {
                prop_assert!(cut.is_none());
                let sent = u64::from(number16(&message, 6));
                prop_assert_eq!(records, sent);
                prop_assert_eq!(loader.records(), sent - 1);
                if let Ok(loaded) = loader.finish(None) {
                    prop_assert_eq!(loaded.zone.soa, soa);
                }
            }
            (Ok(Progress::Done), _) => prop_assert!(false, "complete but withheld"),
            (_, finished) => prop_assert!(finished.is_err()),
        }
    }

    #[test]
    fn any_bytes_are_survived(messages in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..80), 1..4)) {
        let mut reader = Reader::axfr(origin(), 7);
        for message in &messages {
            // Behind a good header the rest is read, too.
            let _ = reader.feed(&[&[0, 7, 0x80, 0], message.as_slice()].concat());
        }
        prop_assert!(reader.finish().is_err());
    }
}
