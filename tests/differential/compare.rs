//! Compares an answer with what the model expects.

use crate::harness::{Dname, Message, Record, rtype};
use crate::model::{ALIAS_LIMIT, Expected, NOERROR, World};
use crate::questions::Question;
use std::collections::{BTreeSet, HashSet};

/// Faults of an answer, in words; empty when it is as expected.
pub type Faults = Vec<String>;

/// Strictness of a comparison.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// Our server: every rule holds.
    Ours,
    /// A peer: only what decides the meaning; what a server may add is its own business.
    Peer,
}

/// Compares one answer.
pub fn find_faults(world: &World, question: &Question, expected: &Expected, got: &Message, side: Side) -> Faults {
    let mut faults = Faults::new();
    let bounded = (side == Side::Ours).then(|| bounded_chain(expected, got)).flatten();
    let expected = bounded.as_ref().unwrap_or(expected);
    check_header(question, expected, got, side, &mut faults);
    check_size(question, expected, got, &mut faults);
    if expected.facts.any.is_some() {
        check_any(question, expected, got, side, &mut faults);
    } else if got.is_truncated() {
        check_truncated(question, expected, got, side, &mut faults);
    } else {
        check_answer(expected, got, &mut faults);
        check_authority(expected, got, side, &mut faults);
    }
    check_additional(world, question, expected, got, side, &mut faults);
    faults
}

/// A chain of so many aliases may be left where our server's bound lies: then what is expected ends there, without an
/// error, for resolvers follow the rest themselves.
fn bounded_chain(expected: &Expected, got: &Message) -> Option<Expected> {
    if expected.facts.aliases < ALIAS_LIMIT {
        return None;
    }
    let length = split_sets(&got.answer).len();
    let aliases = |sets: &[Vec<Record>]| sets.iter().filter(|set| set[0].rtype == rtype::CNAME).count();
    let chain = expected.answer.get(..length)?;
    if aliases(chain) < ALIAS_LIMIT || got.rcode() != NOERROR || !got.authority.is_empty() {
        return None;
    }
    Some(Expected { authoritative: true, answer: chain.to_vec(), facts: expected.facts.clone(), ..Expected::default() })
}

/// Flags, question and EDNS.
fn check_header(question: &Question, expected: &Expected, got: &Message, side: Side, faults: &mut Faults) {
    // A truncated chain need not have been walked to its end.
    let unfinished = got.is_truncated() && got.rcode() == NOERROR;
    if got.rcode() != expected.rcode && !unfinished {
        faults.push(format!("rcode {} instead of {}", got.rcode(), expected.rcode));
    }
    if got.is_authoritative() != expected.authoritative {
        faults.push(format!("AA is {} instead of {}", got.is_authoritative(), expected.authoritative));
    }
    // QR set, opcode as asked, RD copied, RA, Z, AD and CD clear; AA and TC are looked at elsewhere.
    let flags = 0x8000 | if question.query.recursion_desired { 0x0100 } else { 0 };
    if got.flags & !0x060f != flags {
        faults.push(format!("flags {:04x} instead of {flags:04x}", got.flags & !0x060f));
    }
    if got.question != question.query.encode(0)[12..12 + got.question.len()]
        || got.question.len() != question.query.name.0.len() + 4
    {
        faults.push("question section differs from what was asked".to_string());
    }
    match (&got.edns, question.query.edns) {
        (None, None) => {}
        (Some(edns), Some(_)) => {
            if (edns.version, edns.extended_rcode) != (0, 0) {
                faults.push(format!("EDNS version {} rcode {}", edns.version, edns.extended_rcode));
            }
            // DO is copied (RFC 3225 section 3).
            if side == Side::Ours && edns.dnssec_ok != question.query.dnssec_ok {
                faults.push("DO is not copied".to_string());
            }
        }
        (Some(_), None) => faults.push("OPT without being asked (RFC 6891 section 7)".to_string()),
        (None, Some(_)) => faults.push("no OPT (RFC 6891 section 6.1.1)".to_string()),
    }
}

/// An answer keeps to the limit; one that would have fitted in any encoding is not truncated.
fn check_size(question: &Question, expected: &Expected, got: &Message, faults: &mut Faults) {
    if got.size > question.limit() {
        faults.push(format!("{} octets where {} are allowed", got.size, question.limit()));
    }
    if got.is_truncated() && largest_size(question, expected) <= question.limit() {
        faults.push("TC although everything fits".to_string());
    }
}

/// Size of the expected answer without any compression but of owners that equal the question.
fn largest_size(question: &Question, expected: &Expected) -> usize {
    let owner_size = |owner: &Dname| if *owner == question.query.name.lower() { 2 } else { owner.0.len() };
    let size = |record: &Record| owner_size(&record.owner) + 10 + record.rdata.len();
    let any = expected.facts.any.iter().flatten().flatten();
    let records = expected.answer.iter().flatten().chain(any).chain(&expected.authority).chain(&expected.required);
    // Header, question, OPT with an identifier.
    12 + question.query.name.0.len() + 4 + 11 + 40 + records.map(size).sum::<usize>()
}

/// The answer section: RRsets in the order of the chain, records of a set in any order.
fn check_answer(expected: &Expected, got: &Message, faults: &mut Faults) {
    let sets = split_sets(&got.answer);
    let wanted: Vec<Vec<Record>> = expected.answer.iter().map(|set| sorted(set)).collect();
    if sets != wanted {
        faults.push(format!("answer {sets:?} instead of {wanted:?}"));
    }
}

fn check_authority(expected: &Expected, got: &Message, side: Side, faults: &mut Faults) {
    let mut authority = sorted(&got.authority);
    let positive = expected.rcode == NOERROR && !expected.answer.is_empty() && expected.authority.is_empty();
    if side == Side::Peer {
        if positive {
            authority.retain(|record| record.rtype != rtype::NS);
        }
        // DS beside a referral when DO is set, though nothing is signed.
        authority.retain(|record| record.rtype != rtype::DS);
    }
    let wanted = sorted(&expected.authority);
    if authority != wanted {
        faults.push(format!("authority {authority:?} instead of {wanted:?}"));
    }
}

/// Checks that the rest of a truncated answer is true, and that its sets are whole (RFC 2181 section 9).
fn check_truncated(question: &Question, expected: &Expected, got: &Message, side: Side, faults: &mut Faults) {
    if question.tcp {
        faults.push("TC over TCP".to_string());
    }
    if side == Side::Peer {
        return;
    }
    let sets = split_sets(&got.answer);
    let wanted: Vec<Vec<Record>> = expected.answer.iter().map(|set| sorted(set)).collect();
    if sets.len() > wanted.len() || sets[..] != wanted[..sets.len()] {
        faults.push(format!("truncated answer {sets:?} is no beginning of {wanted:?}"));
    }
    let authority = sorted(&got.authority);
    if !authority.is_empty() && authority != sorted(&expected.authority) {
        faults.push(format!("truncated authority {authority:?} is no whole set"));
    }
}

/// ANY: whole sets of that name, at least one; ours exactly one, or SRV and TXT (RFC 8482 section 4.1, RFC 6763).
fn check_any(question: &Question, expected: &Expected, got: &Message, side: Side, faults: &mut Faults) {
    let mut sets = split_sets(&got.answer);
    for chain in &expected.answer {
        if sets.first() == Some(&sorted(chain)) {
            sets.remove(0);
        }
    }
    let offered: Vec<Vec<Record>> = expected.facts.any.iter().flatten().map(|set| sorted(set)).collect();
    if got.is_truncated() {
        if question.tcp || sets.iter().any(|set| side == Side::Ours && !offered.contains(set)) {
            faults.push("truncated ANY over TCP, or with broken sets".to_string());
        }
        return;
    }
    if sets.is_empty() || sets.iter().any(|set| !offered.contains(set)) {
        faults.push(format!("ANY gave {sets:?} of {offered:?}"));
    }
    if side == Side::Ours {
        let has = |sets: &[Vec<Record>], rtype| sets.iter().any(|set| set[0].rtype == rtype);
        let pair = [rtype::SRV, rtype::TXT];
        let is_instance = is_instance_name(&question.query.name) && pair.iter().all(|each| has(&offered, *each));
        let is_pair = sets.len() == 2 && pair.iter().all(|each| has(&sets, *each));
        let is_right = if is_instance { is_pair } else { sets.len() == 1 };
        if !is_right {
            faults.push(format!("ANY gave {} sets", sets.len()));
        }
        if !got.authority.is_empty() {
            faults.push("authority section beside ANY".to_string());
        }
    }
}

/// Returns true if a name is that of a DNS-SD instance (RFC 6763 section 4.1).
fn is_instance_name(name: &Dname) -> bool {
    let lower = name.lower();
    let labels = lower.labels();
    labels.len() > 3 && labels[1].starts_with(b"_") && matches!(labels[2], b"_tcp" | b"_udp")
}

/// Required glue is there; everything else is true, belongs to a target, and comes once.
fn check_additional(
    world: &World,
    question: &Question,
    expected: &Expected,
    got: &Message,
    side: Side,
    faults: &mut Faults,
) {
    let present: HashSet<Record> = got.additional.iter().map(Record::canonical).collect();
    if !got.is_truncated() {
        let missing = expected.required.iter().filter(|record| !present.contains(record)).count();
        if missing > 0 {
            faults.push(format!("{missing} records of required glue are missing without TC (RFC 9471 section 3)"));
        }
    }
    if side == Side::Peer {
        return;
    }
    if present.len() != got.additional.len() {
        faults.push("an additional record comes twice".to_string());
    }
    let others: HashSet<Record> = got.answer.iter().chain(&got.authority).map(Record::canonical).collect();
    if present.iter().any(|record| others.contains(record)) {
        faults.push("an additional record is in another section as well".to_string());
    }
    let instances: BTreeSet<Dname> = instances(&got.answer).collect();
    let pointing = present.iter().filter(|record| record.rtype == rtype::SRV);
    let named = got.answer.iter().chain(&got.authority).chain(pointing);
    let targets: BTreeSet<Dname> = named.filter_map(target_of).map(|name| name.lower()).collect();
    for record in &present {
        let belongs = match record.rtype {
            rtype::A | rtype::AAAA => targets.contains(&record.owner),
            rtype::SRV | rtype::TXT => instances.contains(&record.owner),
            _ => false,
        };
        if !belongs {
            faults.push(format!("additional {record} belongs to nothing"));
        } else if !world.holds(record) {
            faults.push(format!("additional {record} is in no zone"));
        }
    }
    if question.tcp && expected.facts.any.is_none() {
        check_courtesy(world, expected, &present, &others, faults);
    }
}

/// The instances that PTR records list (RFC 6763 section 4.1).
fn instances(answer: &[Record]) -> impl Iterator<Item = Dname> {
    let is_list = |owner: &Dname| {
        let lower = owner.lower();
        let labels = lower.labels();
        labels.len() > 2 && labels[0].starts_with(b"_") && matches!(labels[1], b"_tcp" | b"_udp")
    };
    let listed = answer.iter().filter(move |record| record.rtype == rtype::PTR && is_list(&record.owner));
    listed.filter_map(Record::target).map(|name| name.lower())
}

/// What a record points at. Names in SVCB and HTTPS records are no names where records are compared or renamed (RFC 9460
/// section 2.2), so the harness does not see them.
fn target_of(record: &Record) -> Option<Dname> {
    if !matches!(record.rtype, rtype::SVCB | rtype::HTTPS) {
        return record.target();
    }
    // Behind the priority.
    let name = record.rdata.get(2..)?;
    let mut end = 0;
    while *name.get(end)? != 0 {
        end += 1 + usize::from(name[end]);
    }
    Some(Dname(name[..=end].to_vec()))
}

/// With room enough the addresses of targets come along: RFC 1035 section 3.3.9 and 3.3.11, RFC 2782, RFC 9460 section
/// 4.1; and what describes listed instances: RFC 6763 section 12.1.
fn check_courtesy(
    world: &World,
    expected: &Expected,
    present: &HashSet<Record>,
    others: &HashSet<Record>,
    faults: &mut Faults,
) {
    let answer: Vec<Record> = expected.answer.iter().flatten().cloned().collect();
    let described: Vec<Record> =
        instances(&answer).flat_map(|instance| world.records(&instance, &[rtype::SRV, rtype::TXT])).collect();
    for record in described.iter().map(Record::canonical) {
        if !present.contains(&record) && !others.contains(&record) {
            faults.push(format!("what describes an instance is missing: {record}"));
        }
    }
    let sets = answer.iter().chain(&described);
    let points = |kind| matches!(kind, rtype::MX | rtype::SRV | rtype::NS | rtype::SVCB | rtype::HTTPS);
    for target in sets.filter(|record| points(record.rtype)).filter_map(target_of) {
        for address in world.addresses(&target) {
            if !present.contains(&address) && !others.contains(&address) {
                faults.push(format!("address of a target is missing: {address}"));
            }
        }
    }
}

/// Splits a section into RRsets where owner or type changes; each sorted.
pub fn split_sets(records: &[Record]) -> Vec<Vec<Record>> {
    let mut sets: Vec<Vec<Record>> = Vec::new();
    for record in records.iter().map(Record::canonical) {
        match sets.last_mut() {
            Some(set) if set[0].owner == record.owner && set[0].rtype == record.rtype => set.push(record),
            _ => sets.push(vec![record]),
        }
    }
    sets.iter_mut().for_each(|set| set.sort());
    sets
}

pub fn sorted(records: &[Record]) -> Vec<Record> {
    let mut sorted: Vec<Record> = records.iter().map(Record::canonical).collect();
    sorted.sort();
    sorted
}
