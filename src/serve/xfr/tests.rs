//! Transfers as secondaries see them: decisions, and messages read by code that knows nothing of how they were written.

use super::*;
use crate::acl::{Access, Rule};
use crate::publish::{Identity, Outgoing};
use crate::transfer::reader::{Reader, Received};
use crate::zone::tests::{load, zone};
use crate::zone::{Block, History, HistoryLimits, Loader, Vetoes};
use hickory_proto::op::Message;
use proptest::prelude::*;
use std::collections::BTreeMap;
use wire::name::NameBuf;

/// A zone that anyone may transfer.
fn served(zone: Zone, history: History) -> Served {
    let access = Access { rules: vec![Rule { prefix: None, key: None, channel: None, host: None }] };
    let outgoing = Arc::new(Outgoing { access, ixfr: true });
    Served { history, outgoing, ..Served::new(zone.origin.clone(), State::Ok, Some(Arc::new(zone))) }
}

fn published(served: Served) -> Published {
    Published::new(Identity::default(), [Arc::new(served)], 1)
}

/// A question, for IXFR with SOA records in its authority section: owner and RDATA.
fn request(name: &str, rtype: u16, soas: &[(&str, &[u8])]) -> Vec<u8> {
    let mut message = vec![0xab, 0xcd, 1, 0, 0, 1, 0, 0, 0, soas.len() as u8, 0, 0];
    message.extend_from_slice(NameBuf::parse(name).unwrap().as_wire());
    message.extend_from_slice(&[0, rtype as u8, 0, 1]);
    for (owner, rdata) in soas {
        message.extend_from_slice(NameBuf::parse(owner).unwrap().as_wire());
        message.extend_from_slice(&[0, 6, 0, 1, 0, 0, 0, 0, 0, rdata.len() as u8]);
        message.extend_from_slice(rdata);
    }
    message
}

fn judge(published: &Published, message: &[u8], datagram: bool) -> Verdict {
    let client = Client { address: "192.0.2.1".parse().unwrap(), key: None, datagram, secured: None };
    decide(published, &Request::parse(message).unwrap(), message, &client)
}

/// A verdict in a word.
fn word(verdict: &Verdict) -> String {
    match verdict {
        Verdict::Refuse(refusal, zone) => format!("{} {}", refusal.label(), zone.is_some()),
        Verdict::Soa { truncated, .. } => format!("soa {truncated}"),
        Verdict::Stream(transfer) => transfer.kind.label().to_string(),
    }
}

fn messages(verdict: Verdict, reserve: usize) -> Vec<Vec<u8>> {
    let Verdict::Stream(transfer) = verdict else { panic!("{}", word(&verdict)) };
    let mut messages = transfer.messages();
    let mut all = Vec::new();
    let mut out = vec![0xee; 65_535];
    while let Some(length) = messages.compose(&mut out, reserve) {
        all.push(out[..length.unwrap()].to_vec());
    }
    assert_eq!(messages.sent.messages, all.len() as u64);
    all
}

fn soa_rdata(zone: &Zone) -> &[u8] {
    zone.soa_rrset().rdatas().next().unwrap()
}

//--- An independent reader ---

/// Owner as spelled, type, TTL, uncompressed RDATA.
type Plain = (Vec<u8>, u16, u32, Vec<u8>);

/// Follows a name by hand; every pointer must lead backwards and below 0x4000.
fn follow(message: &[u8], mut at: usize) -> (Vec<u8>, usize) {
    let (mut name, mut end) = (Vec::new(), None);
    loop {
        let length = usize::from(message[at]);
        if length >= 0xc0 {
            let target = (length & 0x3f) << 8 | usize::from(message[at + 1]);
            assert!(target < at && (12..0x4000).contains(&target), "{target} from {at}");
            end.get_or_insert(at + 2);
            at = target;
            continue;
        }
        name.extend_from_slice(&message[at..at + 1 + length]);
        at += 1 + length;
        if length == 0 {
            return (name, end.unwrap_or(at));
        }
    }
}

/// The answer records of a message, and where they end.
fn read(message: &[u8]) -> (Vec<Plain>, usize) {
    let number = |at: usize| u16::from_be_bytes([message[at], message[at + 1]]);
    let mut at = 12;
    for _ in 0..number(4) {
        at = follow(message, at).1 + 4;
    }
    let mut records = Vec::new();
    for _ in 0..number(6) {
        let (owner, fixed) = follow(message, at);
        let (rtype, length) = (number(fixed), usize::from(number(fixed + 8)));
        assert_eq!(number(fixed + 2), 1, "class");
        let ttl = u32::from(number(fixed + 4)) << 16 | u32::from(number(fixed + 6));
        let (start, end) = (fixed + 10, fixed + 10 + length);
        // Octets before the names, number of names.
        let (lead, names) = match rtype {
            2 | 5 | 12 => (0, 1),
            15 => (2, 1),
            6 => (0, 2),
            _ => (0, 0),
        };
        let mut rdata = message[start..start + lead].to_vec();
        let mut position = start + lead;
        for _ in 0..names {
            let (name, after) = follow(message, position);
            rdata.extend(name);
            position = after;
        }
        rdata.extend_from_slice(&message[position..end]);
        records.push((owner, rtype, ttl, rdata));
        at = end;
    }
    (records, at)
}

/// Checks what holds for the messages of every transfer and returns all records.
fn read_all(messages: &[Vec<u8>], reserve: usize) -> Vec<Plain> {
    let mut all = Vec::new();
    for (index, message) in messages.iter().enumerate() {
        let (records, end) = read(message);
        assert!(!records.is_empty());
        assert!(message.len() + reserve <= MESSAGE_BYTES || records.len() == 1, "message {index} is too long");
        // Id, QR and AA and RD, NOERROR; one question in the first message and nothing but answers.
        assert_eq!(message[..4], [0xab, 0xcd, 0x85, 0], "message {index}");
        assert_eq!(message[4..6], [0, u8::from(index == 0)]);
        assert_eq!(message[8..12], [0; 4]);
        assert_eq!(end, message.len());
        // Another library reads the same number of records.
        let other = Message::from_vec(message).unwrap();
        assert_eq!(other.answers.len(), records.len());
        for (theirs, ours) in other.answers.iter().zip(&records) {
            assert_eq!((u16::from(theirs.record_type()), theirs.ttl), (ours.1, ours.2));
        }
        all.extend(records);
    }
    all
}

/// Reads the answer to a query by our own reader, which wrote the query.
fn receive(published: &Published, mut reader: Reader) -> Zone {
    for message in messages(judge(published, &reader.write_query(), false), 0) {
        reader.feed(&message).unwrap();
    }
    match reader.finish().unwrap() {
        Received::NotNewer(soa) => panic!("{soa:?} is not newer"),
        Received::Full(_, loader) => loader.finish(None).unwrap().zone,
        Received::Changed(changed) => changed.finish(&Vetoes::default()).unwrap().loaded.zone,
    }
}

/// All records of a zone, sorted.
fn records(zone: &Zone) -> Vec<Plain> {
    let mut all: Vec<Plain> = zone
        .iter()
        .flat_map(|(name, node)| {
            let owner = node.spelled.unwrap_or(name.as_wire()).to_vec();
            node.rrsets().flat_map(move |rrset| {
                let owner = owner.clone();
                rrset.rdatas().map(move |rdata| (owner.clone(), rrset.rtype, rrset.ttl, rdata.to_vec()))
            })
        })
        .collect();
    all.sort();
    all
}

/// The zone that a full transfer holds, between two equal SOA.
fn load_all(origin: &Name, records: &[Plain]) -> Zone {
    let (last, others) = records.split_last().unwrap();
    assert_eq!((last.1, Some(last)), (6, others.first()));
    assert!(others[1..].iter().all(|record| record.1 != 6));
    let mut loader = Loader::new(origin.clone());
    for (owner, rtype, ttl, rdata) in others {
        loader.push(&NameBuf::from_wire(owner).unwrap(), *rtype, *ttl, rdata);
    }
    loader.finish(None).unwrap().zone
}

//--- Decisions ---

const ZONE: &str = "@ 30 SOA 7\n@ 60 NS Ns.Z.\nA.b 30 A 192.0.2.1\nb.b 20 A 192.0.2.1\nd 30 CNAME a.B\nf 30 TXT t";

#[test]
fn who_gets_what() {
    let ours = zone("z.", ZONE);
    let soa = |serial: u32, mname: &[u8]| Soa { serial: Serial(serial), ..ours.soa }.to_rdata(mname, b"\x01h\x00");
    let old = soa(6, b"\x02ns\x00");
    let before = zone("z.", &ZONE.replace("SOA 7", "SOA 6").replace("f 30", "g 30"));
    let past = || {
        let mut history = History::default();
        let touched = ["f.z", "g.z"].map(|name| Name::parse(name).unwrap());
        history.push(Arc::new(Delta::between(&before, &ours, touched)), &HistoryLimits::default());
        history
    };
    let open = published(served(ours.clone(), past()));
    let ask = |soas: &[(&str, &[u8])]| word(&judge(&open, &request("Z", 251, soas), false));
    assert_eq!(word(&judge(&open, &request("Z", 252, &[]), false)), "axfr");
    assert_eq!(ask(&[("z", &old)]), "ixfr");
    assert_eq!(ask(&[("Z", &soa(6, b"\x02NS\x00"))]), "ixfr", "names are equal in any case");
    assert_eq!(ask(&[("z", &soa(6, b"\x02n2\x00"))]), "ixfr-full", "the version of another server");
    assert_eq!(ask(&[("z", &soa(5, b"\x02ns\x00"))]), "ixfr-full", "before our history");
    assert_eq!(ask(&[("z", &soa(7, b"\x02ns\x00"))]), "soa false");
    assert_eq!(ask(&[("z", &soa(7, b"\x02n2\x00"))]), "soa false");
    assert_eq!(ask(&[("z", &soa(8, b"\x02ns\x00"))]), "soa false", "newer than ours");
    assert_eq!(word(&judge(&open, &request("Z", 251, &[("z", &soa(8, b"\x02ns\x00"))]), true)), "soa false");
    assert_eq!(ask(&[("z", &soa(7 + (1 << 31), b"\x02ns\x00"))]), "ixfr-full", "neither is newer");
    assert_eq!(ask(&[]), "malformed true");
    assert_eq!(ask(&[("z", &old), ("z", &old)]), "malformed true");
    assert_eq!(ask(&[("y", &old)]), "malformed true");
    assert_eq!(ask(&[("z", &old[..19])]), "malformed true");
    let datagram = |soa: &[u8]| word(&judge(&open, &request("z", 251, &[("z", soa)]), true));
    assert_eq!(datagram(&old), "soa true");
    assert_eq!(datagram(&soa(7, b"\x02ns\x00")), "soa false");
    assert_eq!(word(&judge(&open, &request("a.b.z", 252, &[]), false)), "not-authoritative false");
    assert_eq!(word(&judge(&open, &request("y", 252, &[]), false)), "not-authoritative false");
    // What the operator and the state of the zone say.
    let with = |change: &dyn Fn(&mut Served), rtype, soas: &[(&str, &[u8])]| {
        let mut served = served(ours.clone(), past());
        change(&mut served);
        word(&judge(&published(served), &request("z", rtype, soas), false))
    };
    let closed = |served: &mut Served| served.outgoing = Arc::default();
    assert_eq!(with(&closed, 252, &[]), "refused true");
    assert_eq!(with(&closed, 251, &[]), "refused true", "nobody learns more");
    assert_eq!(with(&|served| served.state = State::Expired, 252, &[]), "expired true");
    assert_eq!(with(&|served| served.state = State::NotReady, 252, &[]), "not-ready true");
    assert_eq!(with(&|served| served.zone = None, 252, &[]), "not-ready true");
    let whole = |served: &mut Served| {
        served.outgoing = Arc::new(Outgoing { ixfr: false, access: served.outgoing.access.clone() });
    };
    assert_eq!(with(&whole, 251, &[("z", &old)]), "ixfr-full");
    let elsewhere = |served: &mut Served| served.zone = Some(Arc::new(before.clone()));
    assert_eq!(with(&elsewhere, 251, &[("z", &soa(5, b"\x02ns\x00"))]), "ixfr-full");
}

#[test]
fn differences_longer_than_the_zone_are_not_sent() {
    let text = |serial: u32, host: &str| format!("@ 30 SOA {serial}\n{host} 30 A 192.0.2.1");
    let (old, new) = (zone("z.", &text(1, "a")), zone("z.", &text(2, "b")));
    let mut history = History::default();
    let touched = ["a.z", "b.z"].map(|name| Name::parse(name).unwrap());
    history.push(Arc::new(Delta::between(&old, &new, touched)), &HistoryLimits::default());
    let published = published(served(new, history));
    let message = request("z", 251, &[("z", soa_rdata(&old))]);
    assert_eq!(word(&judge(&published, &message, false)), "ixfr-full");
}

#[test]
fn only_transfers_are_decided_here() {
    let is = |message: &[u8], datagram| is_transfer(&Request::parse(message).unwrap(), datagram);
    assert!(is(&request("z", 252, &[]), false));
    assert!(!is(&request("z", 252, &[]), true), "RFC 5936 section 4.2");
    assert!(is(&request("z", 251, &[]), true));
    assert!(!is(&request("z", 6, &[]), false));
    let mut chaos = request("z", 252, &[]);
    let end = chaos.len();
    chaos[end - 1] = 3;
    assert!(!is(&chaos, false));
}

//--- Messages ---

#[test]
fn records_are_in_the_order_of_rfc_1995() {
    let versions = [
        "@ 30 SOA 1\n@ 30 NS ns\nA 30 A 192.0.2.1\nx 30 TXT 1\ny 30 TXT 1\nz 30 TXT 1\nw 30 TXT 1\nv 30 TXT 1\nu 30 TXT 1",
        "@ 30 SOA 2\n@ 30 NS ns\nA 30 A 192.0.2.2\nx 30 TXT 1\ny 30 TXT 1\nz 30 TXT 1\nw 30 TXT 1\nv 30 TXT 1\nu 30 TXT 1",
        "@ 60 SOA 3\n@ 30 NS ns\nA 60 A 192.0.2.2\nx 30 TXT 1\ny 30 TXT 1\nz 30 TXT 1\nw 30 TXT 1\nv 30 TXT 1\nu 30 TXT 1\nb 5 PTR a",
    ];
    let zones = versions.map(|text| zone("Z.", text));
    let mut history = History::default();
    for pair in zones.windows(2) {
        let touched = ["a.z", "b.z"].map(|name| Name::parse(name).unwrap());
        history.push(Arc::new(Delta::between(&pair[0], &pair[1], touched)), &HistoryLimits::default());
    }
    let message = request("z", 251, &[("z", soa_rdata(&zones[0]))]);
    let published = published(served(zones[2].clone(), history));
    let verdict = judge(&published, &message, false);
    assert_eq!(word(&verdict), "ixfr");
    let records = read_all(&messages(verdict, 0), 0);
    let short: Vec<String> = records
        .iter()
        .map(|(owner, rtype, ttl, rdata)| {
            let owner = NameBuf::from_wire(owner).unwrap();
            match *rtype {
                6 => format!("{owner} {ttl} {}", Soa::from_rdata(rdata).unwrap().serial),
                rtype => format!("{owner} {ttl} {}", rr::RdataText(rtype, rdata)),
            }
        })
        .collect();
    let expected = [
        "Z. 60 3",
        "Z. 30 1",
        "A.Z. 30 192.0.2.1",
        "Z. 30 2",
        "A.Z. 30 192.0.2.2",
        "Z. 30 2",
        "A.Z. 30 192.0.2.2",
        "Z. 60 3",
        "A.Z. 60 192.0.2.2",
        "b.Z. 5 a.Z.",
        "Z. 60 3",
    ];
    assert_eq!(short, expected);
}

#[test]
fn large_records_have_messages_of_their_own() {
    let mut loader = Loader::new(Name::parse("z").unwrap());
    let full = |name: &str| NameBuf::parse(name).unwrap();
    loader.push(&full("z"), rtype::SOA, 30, zone("z.", "@ 30 SOA 1").negative.rdatas().next().unwrap());
    for (index, length) in [1, 16_000, 16_380, 16_385, 40_000, 65_000, 200].into_iter().enumerate() {
        loader.push(&full(&format!("n{index}.z")), 65_280, 30, &vec![7; length]);
    }
    let ours = loader.finish(None).unwrap().zone;
    let open = published(served(ours.clone(), History::default()));
    let all = messages(judge(&open, &request("z", 252, &[]), false), 300);
    assert!(load_all(&ours.origin, &read_all(&all, 300)) == ours);
    assert_eq!(all.iter().filter(|message| message.len() > MESSAGE_BYTES).count(), 4);
}

#[test]
fn a_record_that_fits_nowhere_ends_the_transfer() {
    let mut loader = Loader::new(Name::parse("z").unwrap());
    loader.push(&NameBuf::parse("z").unwrap(), rtype::SOA, 30, &[&[0, 0][..], &[0; 20]].concat());
    loader.push(&NameBuf::parse("n.z").unwrap(), 65_280, 30, &vec![7; 65_500]);
    let open = published(served(loader.finish(None).unwrap().zone, History::default()));
    let Verdict::Stream(transfer) = judge(&open, &request("z", 252, &[]), false) else { panic!("a transfer") };
    let mut messages = transfer.messages();
    let mut out = vec![0; 65_535];
    assert!(messages.compose(&mut out, 100).unwrap().is_ok());
    assert_eq!(messages.compose(&mut out, 100), Some(Err(Oversized)));
}

#[test]
fn an_opt_record_is_answered_in_the_first_message() {
    let text: String = (0..2000).map(|number| format!("n{number} 30 TXT some-text\n")).collect();
    let open = published(served(zone("z.", &format!("@ 30 SOA 1\n{text}")), History::default()));
    let mut message = request("z", 252, &[]);
    message[11] = 1;
    message.extend_from_slice(&[0, 0, 41, 4, 208, 0, 0, 0x80, 0, 0, 0]);
    let all = messages(judge(&open, &message, false), 0);
    assert!(all.len() > 2);
    for (index, message) in all.iter().enumerate() {
        assert!(message.len() <= MESSAGE_BYTES);
        let edns = Message::from_vec(message).unwrap().edns;
        assert_eq!(edns.is_some(), index == 0);
        assert!(edns.is_none_or(|edns| edns.flags().dnssec_ok));
    }
}

#[test]
fn names_are_compressed_where_rfc_3597_allows_it() {
    let text = "@ 30 SOA 1\n@ 30 NS host.deep\nA 30 CNAME host.deep\nb 30 SRV 80 host.deep\nc 30 DNAME host.deep";
    let open = published(served(zone("zone.example.", text), History::default()));
    let all = messages(judge(&open, &request("zone.example", 252, &[]), false), 0);
    let count = |wire: &[u8]| all[0].windows(wire.len()).filter(|window| *window == wire).count();
    // In full: the question; once in NS or CNAME, whichever comes first; never a pointer in SRV and DNAME.
    assert_eq!(count(b"\x04host\x04deep\xc0"), 1);
    assert_eq!(count(b"\x04host\x04deep\x04zone\x07example\x00"), 2);
    assert_eq!(count(b"\x04zone\x07example\x00"), 3);
}

//--- Laws ---

/// Zones of some size, whose versions share most names.
fn arbitrary_records() -> impl Strategy<Value = Vec<String>> {
    let owner =
        prop::sample::select(vec!["a", "B", "a.b", "*.b", "c.A.b", "_x._tcp", "i._x._tcp", "sub", "w.sub", "@"]);
    let data = prop::sample::select(vec![
        "A 192.0.2.1",
        "A 192.0.2.2",
        "TXT t",
        "CNAME a",
        "NS Ns.Sub",
        "DNAME b",
        "SRV 80 a",
        "SRV 81 A",
        "PTR i._x._tcp",
        "PTR Other.Example.",
    ]);
    let ttl = prop::sample::select(vec![5u32, 30, 60]);
    let record = (owner, ttl, data).prop_map(|(owner, ttl, data)| format!("{owner} {ttl} {data}\n"));
    prop::collection::vec(record, 0..12)
}

fn version(serial: u32, records: &[String]) -> String {
    let fixed: String = (0..60).map(|number| format!("n{number} 30 A 192.0.2.{number}\n")).collect();
    format!("@ 30 SOA {serial}\n@ 60 NS ns\n{fixed}{}", records.concat())
}

/// Applies an answer to IXFR as RFC 1995 section 4 says, to a list of records.
fn follow_ixfr(base: &Zone, answer: &[Plain]) -> Vec<Plain> {
    let serial = |record: &Plain| Soa::from_rdata(&record.3).unwrap().serial;
    if answer[1].1 != 6 {
        return records(&load_all(&base.origin, answer));
    }
    // What is compared has no spelling and no TTL; what is kept has both.
    let key = |record: &Plain| (record.0.to_ascii_lowercase(), record.1, record.3.to_ascii_lowercase());
    let mut present: BTreeMap<_, Plain> = records(base).into_iter().map(|record| (key(&record), record)).collect();
    let newest = &answer[0];
    let mut rest = &answer[1..answer.len() - 1];
    while let Some((old, after)) = rest.split_first() {
        assert_eq!(present.remove(&key(old)).as_ref().map(serial), Some(serial(old)));
        let removed = after.iter().position(|record| record.1 == 6).unwrap();
        for record in &after[..removed] {
            assert!(present.remove(&key(record)).is_some(), "{record:?} was not there");
        }
        let (new, after) = after[removed..].split_first().unwrap();
        let added = after.iter().position(|record| record.1 == 6).unwrap_or(after.len());
        for record in after[..added].iter().chain([new]) {
            assert!(present.insert(key(record), record.clone()).is_none(), "{record:?} was there");
        }
        rest = &after[added..];
    }
    assert_eq!(answer.last(), Some(newest));
    let mut all: Vec<Plain> = present.into_values().collect();
    all.sort();
    all
}

proptest! {
    /// A full transfer sends out what came in, TTLs and spelling included.
    #[test]
    fn a_full_transfer_is_the_zone(text in arbitrary_records(), copies in 1..400usize, reserve in 0..500usize) {
        let many: String = (0..copies).map(|n| format!("Host-{n}.Inst.b 30 PTR Host-{}.inst.B\n", n / 2)).collect();
        let ours = zone("Z.Example.", &format!("{}{many}", version(7, &text)));
        let open = published(served(ours.clone(), History::default()));
        let all = messages(judge(&open, &request("z.example", 252, &[]), false), reserve);
        let sent = read_all(&all, reserve);
        prop_assert_eq!(sent.len() as u64, ours.records + 1);
        prop_assert!(load_all(&ours.origin, &sent) == ours);
        prop_assert!(receive(&open, Reader::axfr(ours.origin.clone(), 1)) == ours);
    }

    /// From every version of a history, what is sent leads to the newest.
    #[test]
    fn differences_lead_to_the_newest_version(
        versions in prop::collection::vec((arbitrary_records(), 1..1000u32), 2..8),
        first: u32,
        limit in 1..10usize,
    ) {
        let mut history = History::default();
        let mut zones: Vec<Zone> = Vec::new();
        let mut serial = Serial(first);
        for (records, step) in &versions {
            serial = serial.advance(*step);
            let loaded = load("z.", &version(serial.0, records), zones.last());
            if let Some(old) = zones.last() {
                let delta = Delta::between(old, &loaded.zone, loaded.touched);
                history.push(Arc::new(delta), &HistoryLimits { versions: limit, ..HistoryLimits::default() });
            }
            zones.push(loaded.zone);
        }
        let newest = zones.last().unwrap();
        let open = published(served(newest.clone(), history.clone()));
        for (age, base) in zones[..zones.len() - 1].iter().rev().enumerate() {
            let verdict = judge(&open, &request("z", 251, &[("z", soa_rdata(base))]), false);
            prop_assert_eq!(word(&verdict) == "ixfr", age < limit && changes(&history, age + 1) <= newest.records);
            let all = read_all(&messages(verdict, 0), 0);
            prop_assert_eq!(follow_ixfr(base, &all), records(newest));
            prop_assert!(&receive(&open, Reader::ixfr(Arc::new(base.clone()), 1)) == newest);
        }
    }
}

/// Records of the newest differences.
fn changes(history: &History, count: usize) -> u64 {
    let size = |block: &Block| block.open().iter().count() as u64;
    let newest = history.iter().skip(history.len().saturating_sub(count));
    newest.map(|delta| 2 + size(&delta.removed) + size(&delta.added)).sum()
}
