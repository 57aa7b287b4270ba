//! Proof that the comparison notices: every kind of damage to a right answer is found.

use crate::compare::{Side, find_faults};
use crate::engine::Engine;
use crate::generate::generate_group;
use crate::harness::Random;
use crate::harness::{Dname, Message, Query, Record, rtype};
use crate::model::World;
use crate::questions::{Question, ask_about};
use std::collections::BTreeMap;

/// Kind of damage: its name, and a function that returns false when an answer cannot be damaged so.
type Damage = (&'static str, fn(&mut Message) -> bool);

const DAMAGES: &[Damage] = &[
    ("another rcode", |m| {
        m.flags ^= 2;
        true
    }),
    ("AA turned", |m| flip(m, 0x0400)),
    ("RD turned", |m| flip(m, 0x0100)),
    ("RA set", |m| flip(m, 0x0080)),
    ("QR clear", |m| flip(m, 0x8000)),
    ("opcode", |m| flip(m, 0x2000)),
    ("TC on a small answer", |m| m.size < 200 && flip(m, 0x0200)),
    ("case of the question", |m| {
        m.question.get(1).is_some_and(u8::is_ascii_alphabetic) && {
            m.question[1] ^= 0x20;
            true
        }
    }),
    ("no question", |m| {
        m.question.clear();
        true
    }),
    ("no OPT, or one too many", |m| {
        m.edns = match m.edns {
            Some(_) => None,
            None => Some(crate::harness::Edns {
                payload: 1_232,
                extended_rcode: 0,
                version: 0,
                dnssec_ok: false,
                options: Vec::new(),
            }),
        };
        true
    }),
    ("DO turned", |m| {
        m.edns.as_mut().is_some_and(|edns| {
            edns.dnssec_ok ^= true;
            true
        })
    }),
    ("a record less", |m| m.answer.pop().is_some()),
    ("a record twice", |m| repeat(&mut m.answer)),
    ("another TTL", |m| {
        m.answer.last_mut().is_some_and(|record| {
            record.ttl += 1;
            true
        })
    }),
    ("another RDATA", |m| {
        // Not inside a name, which would no longer be one.
        let opaque = m.answer.iter_mut().rfind(|record| record.target().is_none());
        opaque.and_then(|record| record.rdata.last_mut()).is_some_and(|octet| {
            *octet ^= 0x80;
            true
        })
    }),
    ("another owner", |m| {
        m.answer.last_mut().is_some_and(|record| {
            record.owner = Dname::parse("other.invalid.");
            true
        })
    }),
    ("chain in another order", |m| {
        let is_chain = m.answer.len() > 1 && m.answer[0].rtype != m.answer[m.answer.len() - 1].rtype;
        m.answer.reverse();
        is_chain
    }),
    ("authority missing", |m| m.authority.pop().is_some()),
    ("authority twice", |m| repeat(&mut m.authority)),
    ("NS beside a positive answer", |m| {
        let positive = !m.answer.is_empty() && m.authority.is_empty();
        m.authority.push(Record::new(&Dname::parse("test."), rtype::NS, 1, Dname::parse("ns.test.").0));
        positive
    }),
    ("additional that belongs to nothing", |m| {
        m.additional.push(Record::new(&Dname::parse("other.invalid."), rtype::A, 1, [192, 0, 2, 1]));
        true
    }),
    ("additional twice", |m| repeat(&mut m.additional)),
    ("additional with other data", |m| {
        m.additional.last_mut().is_some_and(|record| {
            // Not the length of a string, without which it is none.
            let at = if record.rtype == rtype::TXT { record.rdata.len() - 1 } else { 0 };
            record.rdata[at] ^= 0x80;
            true
        })
    }),
    ("more octets than allowed", |m| {
        m.size = 70_000;
        true
    }),
];

fn flip(message: &mut Message, bit: u16) -> bool {
    message.flags ^= bit;
    true
}

fn repeat(records: &mut Vec<Record>) -> bool {
    let last = records.last().cloned();
    records.extend(last);
    !records.is_empty()
}

#[test]
fn every_damage_is_noticed() {
    let groups: Vec<_> = (0..150).map(|number| generate_group(7, number)).collect();
    let world = World::new(groups.iter().flatten());
    let mut engine = Engine::new(groups.iter().flatten());
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for (number, group) in groups.iter().enumerate() {
        for question in ask_about(group, &mut Random::new(7, number as u64)) {
            let expected = world.answer(&question.query.name, question.query.rtype);
            let right = engine.ask(&question);
            let faults = |message: &Message| find_faults(&world, &question, &expected, message, Side::Ours);
            // Where the order or the choice of sets is free, some damages are none.
            let is_free = right.is_truncated() || expected.facts.any.is_some() || expected.facts.aliases > 5;
            assert!(faults(&right).is_empty(), "{question:?}");
            for (name, damage) in DAMAGES {
                let mut wrong = right.clone();
                if damage(&mut wrong) && !is_free {
                    assert!(!faults(&wrong).is_empty(), "{name} goes unnoticed: {question:?} {wrong:?}");
                    *counts.entry(name).or_default() += 1;
                }
            }
        }
    }
    for (name, _) in DAMAGES {
        assert!(counts.get(name).copied().unwrap_or_default() >= 10, "{name} was tried too rarely");
    }
}

#[test]
fn missing_glue_is_noticed() {
    let groups: Vec<_> = (0..150).map(|number| generate_group(7, number)).collect();
    let world = World::new(groups.iter().flatten());
    let mut engine = Engine::new(groups.iter().flatten());
    let mut tried = 0;
    for record in groups.iter().flatten().flat_map(|zone| &zone.records) {
        let query = Query::new(&record.owner, rtype::A);
        let question = Question { query, tcp: true };
        let expected = world.answer(&record.owner, rtype::A);
        if expected.required.is_empty() {
            continue;
        }
        let mut answer = engine.ask(&question);
        answer.additional.retain(|glue| glue.canonical() != expected.required[0]);
        assert!(!find_faults(&world, &question, &expected, &answer, Side::Ours).is_empty(), "{question:?}");
        tried += 1;
    }
    assert!(tried > 100);
}
