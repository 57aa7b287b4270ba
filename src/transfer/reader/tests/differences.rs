//! Differences: scenarios and captures of CNS against a naive model of lines of text.

mod damage;
mod forms;

use super::*;
use serde_json::Value;

const SCENARIOS: &str = include_str!("../../../../tests/data/cns/ixfr-scenarios.json");
const CAPTURES: &str = include_str!("../../../../tests/data/captures/cns-ixfr-messages.json");
const DROPPED: &str = include_str!("../../../../tests/data/captures/cns-ixfr-after-history-was-dropped.json");
/// The captured zone after each step.
const STATES: [(&str, &str); 5] = [
    ("s0", include_str!("../../../../tests/data/captures/cns-axfr-us-west-1.cns.example.com.s0.txt")),
    ("s1", include_str!("../../../../tests/data/captures/cns-axfr-us-west-1.cns.example.com.s1.txt")),
    ("s2", include_str!("../../../../tests/data/captures/cns-axfr-us-west-1.cns.example.com.s2.txt")),
    ("s3", include_str!("../../../../tests/data/captures/cns-axfr-us-west-1.cns.example.com.s3.txt")),
    ("s4", include_str!("../../../../tests/data/captures/cns-axfr-us-west-1.cns.example.com.s4.txt")),
];
const LARGE: &str = include_str!("../../../../tests/data/captures/cns-axfr-us-west-3.cns.example.com.large.txt");
const LARGE_CHANGES: &str =
    include_str!("../../../../tests/data/captures/cns-ixfr-us-west-3.cns.example.com.large.txt");

//--- Text to wire ---

/// The records of a text, one a line, in order and with their repetitions.
fn records(text: &str) -> Vec<String> {
    let records = text.lines().filter(|line| !line.is_empty() && !line.starts_with(';'));
    records.map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect()
}

/// A record of the types that CNS has: owner, type, TTL, RDATA.
fn encode(line: &str) -> (NameBuf, u16, u32, Vec<u8>) {
    let words: Vec<&str> = line.splitn(5, ' ').collect();
    let wire = |text: &str| NameBuf::parse(text).unwrap().as_wire().to_vec();
    let fields: Vec<&str> = words[4].split(' ').collect();
    let (rtype, rdata) = match words[3] {
        "A" => (rtype::A, words[4].parse::<std::net::Ipv4Addr>().unwrap().octets().to_vec()),
        "AAAA" => (rtype::AAAA, words[4].parse::<std::net::Ipv6Addr>().unwrap().octets().to_vec()),
        "NS" => (rtype::NS, wire(words[4])),
        "CNAME" => (rtype::CNAME, wire(words[4])),
        "PTR" => (rtype::PTR, wire(words[4])),
        "TXT" => {
            let text = words[4].trim_matches('"').as_bytes();
            (rtype::TXT, [&[text.len() as u8], text].concat())
        }
        "SRV" => {
            let numbers = fields[..3].iter().flat_map(|number| number.parse::<u16>().unwrap().to_be_bytes());
            (rtype::SRV, numbers.chain(wire(fields[3])).collect())
        }
        "SOA" => {
            let numbers = fields[2..].iter().flat_map(|number| number.parse::<u32>().unwrap().to_be_bytes());
            (rtype::SOA, [wire(fields[0]), wire(fields[1]), numbers.collect()].concat())
        }
        other => panic!("type {other} in test data"),
    };
    (NameBuf::parse(words[0]).unwrap(), rtype, words[1].parse().unwrap(), rdata)
}

/// The zone of a whole transfer as text, its repetitions noted.
fn zone(text: &[String]) -> Arc<Zone> {
    let origin = Name::parse(text[0].split(' ').next().unwrap()).unwrap();
    let mut loader = Loader::new(origin);
    for line in &text[..text.len() - 1] {
        let (owner, rtype, ttl, rdata) = encode(line);
        loader.push(&owner, rtype, ttl, &rdata);
    }
    Arc::new(loader.finish(None).unwrap().zone)
}

/// A response of as many messages as it takes.
fn messages(text: &[String], records_each: usize) -> Vec<Vec<u8>> {
    let origin = Name::parse(text[0].split(' ').next().unwrap()).unwrap();
    let query = Query { id: 7, origin, rtype: rtype::IXFR }.write(None);
    let one = |(index, lines): (usize, &[String])| {
        let mut message = if index == 0 { query.clone() } else { [&query[..4], &[0; 8]].concat() };
        message[2] = 0x80;
        message[6..8].copy_from_slice(&(lines.len() as u16).to_be_bytes());
        for line in lines {
            let (owner, rtype, ttl, rdata) = encode(line);
            message.extend_from_slice(owner.as_wire());
            message.extend_from_slice(&[rtype.to_be_bytes(), [0, 1]].concat());
            message.extend_from_slice(&ttl.to_be_bytes());
            message.extend_from_slice(&(rdata.len() as u16).to_be_bytes());
            message.extend_from_slice(&rdata);
        }
        message
    };
    text.chunks(records_each).enumerate().map(one).collect()
}

//--- Reading ---

/// What came of a query for differences.
#[derive(Debug, PartialEq)]
enum Came {
    NotNewer(u32),
    Full(BTreeSet<String>),
    Changed(BTreeSet<String>),
    /// A removed record may still be at the primary.
    Doubtful,
}

fn fetch(base: &Arc<Zone>, messages: &[Vec<u8>]) -> Result<Came, TransferError> {
    let id = messages[0].first_chunk().map_or(0, |id| u16::from_be_bytes(*id));
    let mut reader = Reader::ixfr(base.clone(), id);
    for message in messages {
        if reader.feed(message)? == Progress::Done {
            break;
        }
    }
    let text = |zone: &Zone| lines(&format!("{zone:?}"));
    Ok(match reader.finish()? {
        Received::NotNewer(soa) => Came::NotNewer(soa.serial.0),
        Received::Full(_, loader) => Came::Full(text(&loader.finish(Some(base))?.zone)),
        Received::Changed(changed) => {
            let serial = changed.soa.serial;
            let patched = changed.finish(&Vetoes::default())?;
            assert_eq!(patched.loaded.zone.soa.serial, serial);
            if !patched.doubts.is_empty() { Came::Doubtful } else { Came::Changed(text(&patched.loaded.zone)) }
        }
    })
}

fn reason(result: Result<Came, TransferError>) -> &'static str {
    result.map_or_else(|error| error.reason(), |_| "none")
}

/// What differences of CNS make of a zone, record by record with copies counted. TTLs are those of the zone, because CNS
/// has 30 in all differences.
fn apply(zone: &[String], answer: &[String]) -> Came {
    let key = |line: &String| {
        let words: Vec<&str> = line.splitn(5, ' ').collect();
        (words[0].to_owned(), words[3].to_owned(), words[4].to_owned())
    };
    let mut held: Vec<String> = zone[1..zone.len() - 1].to_vec();
    let mut adding = true;
    for line in &answer[1..answer.len() - 1] {
        if line.contains(" IN SOA ") {
            adding = !adding;
        } else if adding {
            let (owner, rtype, _) = key(line);
            let ttl = if rtype == "NS" { "3600" } else { "30" };
            held.push(line.replacen(&format!("{owner} 30"), &format!("{owner} {ttl}"), 1));
        } else {
            let copies = held.iter().filter(|other| key(other) == key(line)).count();
            if copies > 1 {
                return Came::Doubtful;
            }
            held.retain(|other| key(other) != key(line));
        }
    }
    Came::Changed(held.into_iter().chain([answer[0].clone()]).collect())
}

/// A transfer in text as a set, its closing SOA left out by being the first.
fn set(text: &[String]) -> BTreeSet<String> {
    text.iter().cloned().collect()
}

//--- CNS ---

#[test]
fn scenarios_come_out_as_expected() {
    let json: Value = serde_json::from_str(SCENARIOS).unwrap();
    let list = |value: &Value| -> Vec<String> {
        value.as_array().unwrap().iter().map(|line| line.as_str().unwrap().to_owned()).collect()
    };
    let states = ["axfr_at_405514000", "axfr_at_405514010"].map(|key| list(&json[key]));
    let answers = json["ixfr"].as_array().unwrap();
    let answer = |serial: u64| {
        let found = answers.iter().find(|answer| answer["request_serial"] == serial).unwrap();
        list(&found["answer"])
    };
    let latest = answer(405_513_999);
    // The zone of a state under another serial, for requests with one that the server does not know.
    let renamed = |state: &[String], serial: &str| {
        let old = state[0].split(' ').nth(6).unwrap().to_owned();
        zone(&state.iter().map(|line| line.replace(&old, serial)).collect::<Vec<_>>())
    };
    for each in [1, 2, 500] {
        let ask = |base: &Arc<Zone>, serial| fetch(base, &messages(&answer(serial), each));
        let came = ask(&zone(&states[1]), 405_514_010).unwrap();
        assert_eq!(came, Came::Changed(set(&latest)), "one step behind");
        let came = ask(&zone(&states[0]), 405_514_000).unwrap();
        assert_eq!(came, Came::Doubtful, "a copy is removed, and the record is still there upstream");
        let between = renamed(&states[0], "405514005");
        assert_eq!(reason(ask(&between, 405_514_005)), "ixfr_base", "begins below our serial");
        let came = ask(&zone(&latest), 405_514_030).unwrap();
        assert_eq!(came, Came::NotNewer(405_514_030), "up to date");
        let older = renamed(&states[0], "405513999");
        assert_eq!(ask(&older, 405_513_999).unwrap(), Came::Full(set(&latest)), "older than the history");
        let ahead = renamed(&latest, "405514031");
        assert_eq!(ask(&ahead, 405_514_031).unwrap(), Came::NotNewer(405_514_030), "ahead of the server");
    }
    assert_eq!(answers.len(), 6, "every scenario is asked for above");
}

/// The answers among the captures that have bytes: label, serial asked with, messages.
fn captured_answers() -> Vec<(String, u32, Vec<Vec<u8>>)> {
    let json: serde_json::Map<String, Value> = serde_json::from_str(CAPTURES).unwrap();
    let mut answers = Vec::new();
    for (label, case) in json {
        let wires: Option<Vec<_>> =
            case["tcp"].as_array().unwrap().iter().map(|message| message["wire"].as_str().map(unhex)).collect();
        if let Some(wires) = wires {
            answers.push((label, case["from"].as_u64().unwrap() as u32, wires));
        }
    }
    assert_eq!(answers.len(), 10);
    answers
}

/// A captured answer as another library reads it.
fn as_text(messages: &[Vec<u8>]) -> Vec<String> {
    let decode = |message: &Vec<u8>| hickory_proto::op::Message::from_vec(message).unwrap().answers;
    let line = |record: hickory_proto::rr::Record| {
        let (owner, ttl, rtype) = (record.name.to_lowercase(), record.ttl, record.record_type());
        match rtype {
            hickory_proto::rr::RecordType::TXT => format!("{owner} {ttl} IN TXT \"{}\"", record.data),
            _ => format!("{owner} {ttl} IN {rtype} {}", record.data),
        }
    };
    messages.iter().flat_map(decode).map(line).collect()
}

fn state(label: &str) -> Vec<String> {
    records(STATES.iter().find(|(name, _)| *name == label).unwrap().1)
}

#[test]
fn captured_differences_lead_to_what_the_next_transfer_brings() {
    let latest = state("s4");
    let mut seen = BTreeSet::new();
    for (label, from, wires) in captured_answers() {
        let answer = as_text(&wires);
        match label.as_str() {
            "s0" | "s1" | "s2" | "s3" => {
                let before = state(&label);
                let came = fetch(&zone(&before), &wires).unwrap();
                assert_eq!(came, apply(&before, &answer), "{label}");
                if let Came::Changed(after) = &came {
                    // Copies aside, which a version does not hold, and TTLs of NS included.
                    assert_eq!(*after, set(&latest), "{label}");
                }
                seen.insert(if came == Came::Doubtful { "doubtful" } else { "changed" });
            }
            "s4" => assert_eq!(fetch(&zone(&latest), &wires).unwrap(), Came::NotNewer(from)),
            "between-s0-s1" => {
                let before = state("s0").iter().map(|line| line.replace("407818243", "407818244")).collect::<Vec<_>>();
                assert_eq!(reason(fetch(&zone(&before), &wires)), "ixfr_base");
            }
            // The serial between two turned out to be a known one.
            "between-s1-s2" => assert_eq!(fetch(&zone(&state("s2")), &wires).unwrap(), Came::Changed(set(&latest))),
            reverse => {
                let origin = Name::parse(reverse.strip_prefix("rev:").unwrap()).unwrap();
                let (_, whole) = captures().into_iter().find(|(zone, _)| *zone == origin).unwrap();
                let base = Arc::new(read(&origin, &whole).unwrap());
                assert_eq!(base.soa.serial, Serial(from));
                let came = fetch(&base, &wires).unwrap();
                if answer.iter().filter(|line| line.contains(" IN SOA ")).count() == 2 {
                    assert_eq!(came, Came::NotNewer(from), "{reverse}");
                } else {
                    assert_eq!(came, apply(&as_text(&whole), &answer), "{reverse}");
                    assert!(matches!(came, Came::Changed(_)));
                }
            }
        }
    }
    assert_eq!(seen, BTreeSet::from(["changed", "doubtful"]));
}

/// Captures of which only the shape is kept: from serials outside the history the whole zone comes.
#[test]
fn whole_zones_come_for_serials_outside_the_history() {
    let whole = messages(&state("s4"), 500);
    let latest = state("s4");
    let mut cases = 0;
    for (file, dropped) in [(CAPTURES, false), (DROPPED, true)] {
        let json: Value = serde_json::from_str(file).unwrap();
        let answers = if dropped { &json["ixfr"] } else { &json };
        for (label, case) in answers.as_object().unwrap() {
            let message = &case["tcp"][0];
            if message["types"]["SOA"] != 2 || label.starts_with("rev:") {
                continue;
            }
            assert_eq!(message["counts"]["answer"], latest.len(), "{label}: the capture is the whole zone");
            let from = case["from"].as_u64().unwrap() as u32;
            let ours = latest.iter().map(|line| line.replace("407818252", &from.to_string())).collect::<Vec<_>>();
            let came = fetch(&zone(&ours), &whole).unwrap();
            // What is not newer in serial arithmetic is not taken, however large its number.
            let newer = Serial(407_818_252).newer_than(Serial(from));
            let expected = if newer { Came::Full(set(&latest)) } else { Came::NotNewer(407_818_252) };
            assert_eq!(came, expected, "{label}");
            cases += 1;
        }
    }
    assert_eq!(cases, 10);
}

#[test]
fn a_large_captured_difference_is_what_a_naive_model_makes_of_it() {
    let (before, answer) = (records(LARGE), records(LARGE_CHANGES));
    let base = zone(&before);
    let expected = apply(&before, &answer);
    for each in [1, 7, 519] {
        assert_eq!(fetch(&base, &messages(&answer, each)).unwrap(), expected);
    }
    assert!(matches!(expected, Came::Changed(_)));
}

#[test]
fn a_cut_anywhere_is_an_error() {
    let uncut = ["s3", "s2"].map(|label| {
        let (_, _, wires) = captured_answers().into_iter().find(|(name, ..)| name == label).unwrap();
        (zone(&state(label)), wires)
    });
    for (base, wires) in &uncut {
        for end in 0..wires[0].len() {
            assert!(fetch(base, &[wires[0][..end].to_vec()]).is_err(), "cut at {end}");
        }
    }
    let base = zone(&state("s3"));
    let whole = messages(&as_text(&uncut[0].1), 3);
    assert!(matches!(fetch(&base, &whole).unwrap(), Came::Changed(_)));
    for count in 1..whole.len() {
        assert_eq!(reason(fetch(&base, &whole[..count])), "closed", "{count} messages");
    }
}
