//! Answers from sets that are larger than laws or messages allow.

use super::*;
use crate::merge::{AnswersPlan, Selected};
use crate::select::{Law, Pick};
use std::collections::HashSet;
use std::num::NonZeroU32;
use std::time::Instant;

/// A zone with many hosts, whose answers have at most so many records.
fn served(lines: &str, law: Law) -> Published {
    let zone = Arc::new(zone("z.", &format!("@ 30 SOA 1\n{lines}")));
    let mut served = Served::new(zone.origin.clone(), State::Ok, Some(zone.clone()));
    let plan = Arc::new(AnswersPlan::new(law));
    served.selections = Selected::new(None, &plan, &zone, None, [].into(), Instant::now()).selections;
    Published::new(Identity::default(), [Arc::new(served)], 1)
}

fn law(max: u32) -> Law {
    Law { max: NonZeroU32::new(max), pick: Pick::Rotate }
}

/// The answer to a question without EDNS, and whether it is truncated.
fn ask(published: &Published, name: &str, qtype: u16, datagram: bool, rotation: u32) -> (Message, bool) {
    let mut out = vec![0; 65_535];
    let response = answer(published, &question(name, qtype), datagram, rotation, &mut out).unwrap();
    (Message::from_vec(&out[..response.length]).unwrap(), response.truncated)
}

fn hosts(count: usize) -> String {
    (0..count).map(|n| format!("w 30 A 10.{}.{}.{}\n", n / 62_500, n / 250 % 250, n % 250)).collect()
}

#[test]
fn what_fits_no_message_is_answered_in_part_over_tcp() {
    for law in [Law::ALL, law(6000)] {
        let published = served(&hosts(9000), law);
        let (message, truncated) = ask(&published, "w.z", rtype::A, true, 0);
        assert_eq!((message.answers.len(), truncated), (0, true), "clients ask again");
        let mut seen = HashSet::new();
        for rotation in 0..20 {
            let (message, truncated) = ask(&published, "w.z", rtype::A, false, rotation);
            // Header, question, and as many records as there is room for.
            assert_eq!((message.answers.len(), truncated), ((65_535 - 12 - 9) / 16, false));
            seen.extend(message.answers.iter().map(|record| record.data.to_string()));
        }
        assert_eq!(seen.len(), 9000, "others each time");
        let served = published.get(&Name::parse("z").unwrap()).unwrap();
        assert_eq!(served.tally.parts(), 20);
    }
}

#[test]
fn types_that_clients_need_whole_are_never_answered_in_part() {
    let texts: String = (0..300).map(|n| format!("t 30 TXT {n:0>250}\n")).collect();
    let published = served(&texts, Law::ALL);
    let (message, truncated) = ask(&published, "t.z", rtype::TXT, false, 0);
    assert_eq!((message.answers.len(), truncated), (0, true));
    // A limit for addresses is one for lists, too: what resolvers take.
    let (message, truncated) = ask(&served(&texts, law(8)), "t.z", rtype::TXT, false, 0);
    assert_eq!((message.answers.len(), truncated), (100, false));
}

#[test]
fn the_first_targets_of_a_window_get_addresses() {
    let services: String = (0..300).map(|n| format!("s 30 SRV {} n{n}\nn{n} 30 A 192.0.2.1\n", 1000 + n)).collect();
    let addresses = |law: Law| {
        let (message, _) = ask(&served(&services, law), "s.z", rtype::SRV, false, 0);
        (message.answers.len(), message.additionals.len())
    };
    assert_eq!(addresses(law(16)), (16, 16));
    assert_eq!(addresses(law(100)), (100, 64));
    assert_eq!(addresses(Law::ALL), (300, 300));
}

#[test]
fn targets_with_large_sets_get_windows_of_them() {
    let lines = format!("s 30 SRV 80 w\nm 30 MX w\n{}", hosts(200));
    for (name, qtype) in [("s.z", rtype::SRV), ("m.z", rtype::MX)] {
        let (message, _) = ask(&served(&lines, law(5)), name, qtype, false, 3);
        let distinct: HashSet<String> = message.additionals.iter().map(|record| record.data.to_string()).collect();
        assert_eq!((message.additionals.len(), distinct.len()), (5, 5), "{name}");
    }
}

#[test]
fn aliases_and_any_get_windows_and_signed_sets_stay_whole() {
    let lines = format!("to 30 CNAME w\nsigned 30 RRSIG s\n{}{}", hosts(40), hosts(40).replace("w 30", "signed 30"));
    let published = served(&lines, law(8));
    let counts = |name: &str, qtype: u16| ask(&published, name, qtype, false, 1).0.answers.len();
    assert_eq!(counts("to.z", rtype::A), 9);
    assert_eq!(counts("w.z", rtype::ANY), 8);
    assert_eq!(counts("signed.z", rtype::A), 40);
}

#[test]
fn a_part_of_services_begins_with_the_smallest_priority() {
    let target = NameBuf::parse("a.z").unwrap();
    let record = |n: u16| [&u16::from(n >= 10).to_be_bytes()[..], &[0, 0], &n.to_be_bytes(), target.as_wire()].concat();
    let set = wire::rr::RRset::build(rtype::SRV, 30, (0..9000).map(record).collect()).unwrap();
    let plain = zone("z.", "@ 30 SOA 1\n");
    let mut editor = Editor::from_zone(&plain);
    editor.set(&Name::parse("s.z").unwrap(), vec![Arc::new(set)].into(), None);
    let zone = Arc::new(editor.finish().unwrap());
    let served = Served::new(zone.origin.clone(), State::Ok, Some(zone));
    let published = Published::new(Identity::default(), [Arc::new(served)], 1);
    let mut firsts = HashSet::new();
    for rotation in 0..20 {
        let (message, truncated) = ask(&published, "s.z", rtype::SRV, false, rotation);
        let text: Vec<String> = message.answers.iter().map(|record| record.data.to_string()).collect();
        assert!(!truncated && text.len() > 1000);
        assert!(text[..10].iter().all(|text| text.starts_with("0 ")), "{:?}", &text[..10]);
        firsts.insert(text[0].clone());
    }
    assert!(firsts.len() > 5, "others each time");
}
