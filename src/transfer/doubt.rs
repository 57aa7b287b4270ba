//! Removals that are in doubt, and what the primary's answers say of them (`docs/cns.md` 27).
//!
//! Asked is each set of which a record in doubt would be gone. An answer only vetoes: a record that it holds stays, and
//! nothing else comes of it. That a record is absent is believed of an authoritative answer with other records of the
//! set, because then CNS' database did answer. A database that fails or is lost looks like a name that is not there, at
//! a serial that the clock gives and that stays for ten seconds; a read that fails looks so at the true one. So of an
//! answer without any it is believed only if it carries the zone's SOA, if a set that must be there is found after it,
//! if a poll made after both says the same serial, and if all that comes a second time. What no answer decides stays.
//!
//! Pure: no sockets, no clock. Cost: O(records in doubt and in answers).

use crate::zone::{Node, Removal, Vetoes, Zone};
use std::collections::HashMap;
use wire::name::{self, Name};
use wire::rr::{self, rtype};
use wire::serial::Serial;

/// With more sets the whole zone is the better question.
pub const MOST_SETS: usize = 1000;
/// CNS ends on an answer over TCP that is longer than this.
const LONGEST_ANSWER: usize = 65_530;
/// Header, question, NS set and OPT, more or less.
const FRAME_BYTES: usize = 1024;
/// Sets that must be there, of which one has to be.
const WITNESSES: usize = 8;
/// The most records of such a set: its answer surely fits a datagram.
const MOST_OF_WITNESS: u32 = 4;
/// Names among which such sets are looked for.
const NAMES_FOR_WITNESSES: usize = 256;
/// Owner by a pointer, type, class, TTL, length.
const RECORD_BYTES: usize = 12;

/// Contents of an answer, as far as they are about what was asked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    /// True if the server speaks for the zone.
    pub authoritative: bool,
    /// RDATA of the records of the owner and type that were asked for.
    pub records: Vec<Vec<u8>>,
    /// True if the answer section has other records: there is a CNAME.
    pub has_others: bool,
    /// The serial of the zone's SOA in the authority section.
    pub serial: Option<Serial>,
}

/// State of a set.
#[derive(Clone, Debug, PartialEq, Eq)]
enum State {
    Unasked,
    /// Not to be asked for again: what came is no answer.
    Unanswered,
    /// The set is not there, if a poll confirms the serial.
    Absent(Serial),
    /// The set was not there once, at this serial. It is to be asked for again: one read that fails says the same.
    AbsentOnce(Serial),
    /// It was not there again, if a poll confirms the serial.
    AbsentTwice(Serial),
    Resolved,
}

/// One set of which records are in doubt.
#[derive(Clone, Debug)]
pub struct Question {
    pub owner: Name,
    pub rtype: u16,
    /// True if the answer is surely short enough that CNS survives to send it over TCP.
    pub may_use_tcp: bool,
    /// Those in doubt that are still so.
    records: Vec<Removal>,
    state: State,
}

/// All sets of which records are in doubt.
pub struct Doubts {
    questions: Vec<Question>,
    witnesses: Vec<Question>,
    vetoes: Vetoes,
    vetoed: u64,
}

impl Doubts {
    /// Sorts removals by set, with the version that they are made from and the one that they lead to.
    pub fn new(removals: Vec<Removal>, zone: &Zone, new: &Zone) -> Doubts {
        let (mut places, mut questions) = (HashMap::new(), Vec::<Question>::new());
        for removal in removals.into_iter().filter(|removal| !is_covered(new, &removal.owner, removal.rtype)) {
            let place = *places.entry((removal.owner.clone(), removal.rtype)).or_insert(questions.len());
            if place == questions.len() {
                let (owner, rtype) = (removal.owner.clone(), removal.rtype);
                let is_open = is_askable(&owner) && fits_message(new, &owner, rtype);
                let may_use_tcp = is_open && 2 * estimate(zone, &owner, rtype) <= LONGEST_ANSWER;
                let state = if is_open { State::Unasked } else { State::Unanswered };
                questions.push(Question { owner, rtype, may_use_tcp, records: Vec::new(), state });
            }
            questions[place].records.push(removal);
        }
        Doubts { questions, witnesses: find_witnesses(new), vetoes: Vetoes::default(), vetoed: 0 }
    }

    /// The sets that are to be asked for, each with its number.
    pub fn open(&self) -> Vec<(usize, Question)> {
        if self.questions.len() > MOST_SETS {
            return Vec::new();
        }
        let is_open = |question: &Question| matches!(question.state, State::Unasked | State::AbsentOnce(_));
        let open = self.questions.iter().enumerate().filter(|(_, question)| is_open(question));
        open.map(|(index, question)| (index, question.clone())).collect()
    }

    /// Takes what came of the question for a set.
    pub fn take(&mut self, index: usize, answer: Option<Answer>) {
        let question = &mut self.questions[index];
        let Some(answer) = answer else {
            question.state = State::Unanswered;
            return;
        };
        let is_held = |removal: &Removal| {
            answer.records.iter().any(|rdata| rr::compare(removal.rtype, rdata, &removal.rdata).is_eq())
        };
        let (held, rest): (Vec<_>, Vec<_>) = question.records.drain(..).partition(is_held);
        self.vetoed += held.len() as u64;
        held.iter().for_each(|removal| self.vetoes.insert(removal));
        question.records = rest;
        let before = std::mem::replace(&mut question.state, State::Unanswered);
        question.state = match answer {
            _ if question.records.is_empty() => State::Resolved,
            Answer { authoritative: false, .. } => State::Unanswered,
            Answer { records, .. } if !records.is_empty() => State::Resolved,
            Answer { has_others: false, serial: Some(serial), .. } if before == State::AbsentOnce(serial) => {
                State::AbsentTwice(serial)
            }
            Answer { has_others: false, serial: Some(serial), .. } => State::Absent(serial),
            _ => State::Unanswered,
        };
    }

    /// Returns true if a poll is to tell whether sets are absent.
    pub fn needs_serial(&self) -> bool {
        self.questions.iter().any(|question| matches!(question.state, State::Absent(_) | State::AbsentTwice(_)))
    }

    /// Sets that must be there, because the version has them to which the removals lead, as far as the next one has not
    /// removed them; none if the version is empty.
    pub fn witnesses(&self) -> &[Question] {
        &self.witnesses
    }

    /// Takes the serial of a poll that was made after the answers, that for the witness included. Sets that were absent
    /// at another one, or at one older than the serial that the removals lead to, are to be asked for again; and once more
    /// those that were absent for the first time.
    pub fn confirm(&mut self, polled: Serial, to: Serial) {
        let is_confirmed = |serial| serial == polled && !to.newer_than(polled);
        for question in &mut self.questions {
            question.state = match question.state {
                State::Absent(serial) if is_confirmed(serial) => State::AbsentOnce(serial),
                State::AbsentTwice(serial) if is_confirmed(serial) => State::Resolved,
                State::Absent(_) | State::AbsentTwice(_) => State::Unasked,
                _ => continue,
            };
        }
    }

    /// Returns what stays: by an answer, and for want of one.
    pub fn finish(self) -> Remaining {
        let Doubts { questions, mut vetoes, vetoed, .. } = self;
        let unresolved = questions.into_iter().filter(|question| question.state != State::Resolved);
        let unanswered: Vec<Removal> = unresolved.flat_map(|question| question.records).collect();
        unanswered.iter().for_each(|removal| vetoes.insert(removal));
        Remaining { vetoes, vetoed, unanswered, questions: 0 }
    }
}

/// Result of the questions.
#[derive(Debug, Default)]
pub struct Remaining {
    pub vetoes: Vetoes,
    /// Questions that were asked, as far as the asker has counted them.
    pub questions: u64,
    /// Records that the primary said to have.
    pub vetoed: u64,
    /// Records that stay because nobody knows.
    pub unanswered: Vec<Removal>,
}

/// Small sets that a zone answers with, at names that CNS can be asked for.
fn find_witnesses(zone: &Zone) -> Vec<Question> {
    let witness = |(owner, node): (Name, Node<'_>)| {
        let set = node.rrsets().find(|set| set.count <= MOST_OF_WITNESS && set.rtype != rtype::CNAME)?;
        let is_good = owner != zone.origin && is_askable(&owner) && !is_delegated(zone, &owner);
        let (rtype, state) = (set.rtype, State::Unasked);
        is_good.then(|| Question { owner, rtype, may_use_tcp: false, records: Vec::new(), state })
    };
    zone.iter().take(NAMES_FOR_WITNESSES).filter_map(witness).take(WITNESSES).collect()
}

/// Returns true if a name is at or below a zone cut or a DNAME, and a server answers with those (RFC 1034 section
/// 4.3.2).
fn is_delegated(zone: &Zone, owner: &Name) -> bool {
    let above = std::iter::successors(Some(owner.clone()), Name::parent).take_while(|name| *name != zone.origin);
    zone.cuts > 0
        && above.into_iter().any(|name| {
            zone.get(name.as_wire())
                .is_some_and(|node| [rtype::NS, rtype::DNAME].iter().any(|cut| node.get(*cut).is_some()))
        })
}

/// Returns true if CNS can be asked for a name: it reads names as text, so a dot or an octet beyond ASCII makes another
/// name of it.
fn is_askable(owner: &Name) -> bool {
    name::labels(owner.as_wire()).flatten().all(|octet| octet.is_ascii() && *octet != b'.')
}

/// Returns true if an answer can have all of a set. Nobody needs to be asked for one that no message holds.
fn fits_message(zone: &Zone, owner: &Name, rtype: u16) -> bool {
    let set = zone.get(owner.as_wire()).and_then(|node| node.get(rtype));
    set.is_none_or(|set| set.wire_bytes_about() <= usize::from(u16::MAX))
}

/// About how many octets the answer for a set takes. CNS sends an SRV record once for each address of its target, and
/// with each of them all addresses.
fn estimate(zone: &Zone, owner: &Name, rtype: u16) -> usize {
    let Some(set) = zone.get(owner.as_wire()).and_then(|node| node.get(rtype)) else { return FRAME_BYTES };
    let octets = |rdata: &[u8]| match rdata.get(6..) {
        Some(target) if rtype == rtype::SRV => {
            let target = target.to_ascii_lowercase();
            let node = zone.get(&target).unwrap_or_default();
            let count = |rtype| node.get(rtype).map_or(0, |set| set.count as usize);
            let addresses = (count(rtype::A) + count(rtype::AAAA)).max(1);
            addresses.saturating_mul(addresses.saturating_mul(28).saturating_add(40))
        }
        _ => RECORD_BYTES + rdata.len(),
    };
    set.rdatas().map(octets).fold(FRAME_BYTES, usize::saturating_add)
}

/// Returns true if an answer for a name comes from a wildcard of the zone and says nothing of the name itself (RFC 4592
/// section 3.3.1). CNS has none.
fn is_covered(zone: &Zone, owner: &Name, rtype: u16) -> bool {
    if zone.wildcards == 0 || zone.get(owner.as_wire()).is_some() {
        return false;
    }
    let mut above = owner.parent();
    while let Some(encloser) = above.take_if(|encloser| zone.get(encloser.as_wire()).is_none()) {
        above = encloser.parent();
    }
    let wildcard = above.and_then(|encloser| encloser.prepend(b"*").ok());
    wildcard.is_some_and(|wildcard| zone.get(wildcard.as_wire()).is_some_and(|node| node.get(rtype).is_some()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::zone::Loader;
    use proptest::prelude::*;
    use wire::name::NameBuf;

    fn name(text: &str) -> Name {
        Name::parse(text).unwrap()
    }

    /// A zone of records, each an owner, a type and RDATA.
    fn zone(records: &[(&str, u16, Vec<u8>)]) -> Zone {
        let origin = NameBuf::parse("z").unwrap();
        let mut loader = Loader::new(origin.to_name());
        loader.push(&origin, rtype::SOA, 30, &[0; 22]);
        for (owner, rtype, rdata) in records {
            loader.push(&NameBuf::parse(owner).unwrap(), *rtype, 30, rdata);
        }
        loader.finish(None).unwrap().zone
    }

    fn removal(last: u8) -> Removal {
        Removal { owner: name("a.z"), rtype: rtype::A, rdata: vec![192, 0, 2, last] }
    }

    fn doubts(removals: Vec<Removal>) -> Doubts {
        Doubts::new(removals, &zone(&[]), &zone(&[]))
    }

    /// An answer with these addresses, or with the zone's SOA at a serial.
    fn answer(addresses: &[u8], serial: Option<u32>) -> Option<Answer> {
        let records = addresses.iter().map(|last| vec![192, 0, 2, *last]).collect();
        Some(Answer { authoritative: true, records, has_others: false, serial: serial.map(Serial) })
    }

    /// Removals that stay for an answer and for want of one, after a poll.
    fn outcome(answer: Option<Answer>, polled: u32) -> (u64, usize) {
        let mut doubts = doubts(vec![removal(1), removal(2)]);
        assert_eq!(doubts.open().len(), 1, "one set");
        for _ in 0..2 {
            doubts.take(0, answer.clone());
            if doubts.needs_serial() {
                doubts.confirm(Serial(polled), Serial(5));
            }
        }
        let Remaining { vetoed, unanswered, .. } = doubts.finish();
        (vetoed, unanswered.len())
    }

    #[test]
    fn a_set_that_no_message_holds_is_not_asked_for_and_stays() {
        let records: Vec<_> = (0..6_000u32).map(|number| ("a.z", rtype::A, number.to_be_bytes().to_vec())).collect();
        let large = zone(&records);
        let doubts = Doubts::new(vec![removal(1)], &large, &large);
        assert!(doubts.open().is_empty() && !doubts.needs_serial());
        assert_eq!(doubts.finish().unanswered, [removal(1)]);
        let left = zone(&records[..4_000]);
        assert_eq!(Doubts::new(vec![removal(1)], &large, &left).open().len(), 1);
    }

    #[test]
    fn only_what_an_answer_decides_goes() {
        assert_eq!(outcome(answer(&[1], None), 5), (1, 0), "one stays, the other goes");
        assert_eq!(outcome(answer(&[7], None), 5), (0, 0), "both go");
        assert_eq!(outcome(answer(&[1, 2], None), 5), (2, 0));
        assert_eq!(outcome(answer(&[], Some(5)), 5), (0, 0), "the set is gone");
        assert_eq!(outcome(answer(&[], Some(6)), 6), (0, 0));
        assert_eq!(outcome(answer(&[], Some(6)), 5), (0, 2), "an error of the database has the clock for a serial");
        assert_eq!(outcome(answer(&[], Some(4)), 4), (0, 2), "older than what is applied");
        assert_eq!(outcome(answer(&[], None), 5), (0, 2), "no SOA");
        assert_eq!(outcome(None, 5), (0, 2));
        let alias = answer(&[], Some(5)).map(|answer| Answer { has_others: true, ..answer });
        assert_eq!(outcome(alias, 5), (0, 2), "a CNAME says nothing of other types");
        let lame = |addresses| answer(addresses, Some(5)).map(|answer| Answer { authoritative: false, ..answer });
        assert_eq!(outcome(lame(&[]), 5), (0, 2));
        assert_eq!(outcome(lame(&[1]), 5), (1, 1), "what is there stays whoever says so");
    }

    #[test]
    fn a_set_whose_absence_is_not_confirmed_is_asked_for_again() {
        let mut doubts = doubts(vec![removal(1)]);
        doubts.take(0, answer(&[], Some(5)));
        assert!(doubts.open().is_empty());
        doubts.confirm(Serial(6), Serial(5));
        assert_eq!(doubts.open().len(), 1);
        doubts.take(0, answer(&[1], None));
        assert_eq!(doubts.finish().vetoed, 1);
    }

    #[test]
    fn a_set_that_is_there_the_second_time_stays() {
        let mut doubts = doubts(vec![removal(1)]);
        doubts.take(0, answer(&[], Some(5)));
        doubts.confirm(Serial(5), Serial(5));
        assert_eq!(doubts.open().len(), 1, "once is not enough");
        doubts.take(0, answer(&[1], None));
        assert!(!doubts.needs_serial());
        assert_eq!(doubts.finish().vetoed, 1);
    }

    #[test]
    fn a_witness_is_a_small_set_that_the_zone_answers_with() {
        let witness = |records: &[(&str, u16, Vec<u8>)]| {
            let zone = zone(records);
            let doubts = Doubts::new(vec![removal(1)], &zone, &zone);
            doubts.witnesses().first().map(|question| (question.owner.to_string(), question.rtype))
        };
        let address = |owner, last| (owner, rtype::A, vec![192, 0, 2, last]);
        assert_eq!(witness(&[]), None, "nothing but the apex");
        assert_eq!(witness(&[address("b.z", 1)]), Some(("b.z.".into(), rtype::A)));
        let many: Vec<_> = (0..=MOST_OF_WITNESS as u8).map(|last| address("b.z", last)).collect();
        assert_eq!(witness(&many), None, "too many records");
        let server = name("ns.b.z").as_wire().to_vec();
        let glue = [address("ns.b.z", 1), ("b.z", rtype::NS, server.clone())];
        assert_eq!(witness(&glue), None, "a referral");
        assert_eq!(witness(&[("b.z", rtype::CNAME, server)]), None);
    }

    #[test]
    fn some_names_and_too_many_sets_are_not_asked_for() {
        let mut odd = Vec::new();
        for label in [&b"a.b"[..], b"\xe4", b"A-b_c"] {
            odd.push(Removal { owner: name("z").prepend(label).unwrap(), ..removal(1) });
        }
        let asked: Vec<_> = doubts(odd.clone()).open().into_iter().map(|(index, _)| index).collect();
        assert_eq!(asked, [2]);
        assert_eq!(doubts(odd).finish().unanswered.len(), 3);
        for (sets, asked) in [(MOST_SETS, MOST_SETS), (MOST_SETS + 1, 0)] {
            let many = (0..sets).map(|index| Removal { owner: name(&format!("a{index}.z")), ..removal(1) });
            assert_eq!(doubts(many.collect()).open().len(), asked);
        }
    }

    #[test]
    fn tcp_is_for_answers_that_are_surely_short() {
        let srv = |target: &str| [&[0, 0, 0, 10, 0, 80][..], name(target).as_wire()].concat();
        for (addresses, targets, may_use_tcp) in
            [(1, 400, true), (1, 500, false), (30, 1, true), (40, 1, false), (0, 400, true)]
        {
            let mut records = Vec::new();
            for target in 0..targets {
                let owner: &'static str = format!("t{target}.z").leak();
                records.push(("s.z", rtype::SRV, srv(owner)));
                records.extend((0..addresses).map(|last| (owner, rtype::A, vec![192, 0, 2, last])));
            }
            let zone = zone(&records);
            let removal = Removal { owner: name("s.z"), rtype: rtype::SRV, rdata: srv("t0.z") };
            let doubts = Doubts::new(vec![removal], &zone, &zone);
            assert_eq!(doubts.open()[0].1.may_use_tcp, may_use_tcp, "{addresses} {targets}");
        }
    }

    #[test]
    fn what_a_wildcard_answers_is_not_asked_for() {
        let with = |owner| zone(&[(owner, rtype::A, vec![192, 0, 2, 1]), ("x.z", rtype::TXT, vec![0])]);
        let asked = |new: &Zone, owner: &str| {
            let removal = Removal { owner: name(owner), ..removal(1) };
            Doubts::new(vec![removal], new, new).open().len()
        };
        assert_eq!((asked(&with("*.z"), "a.z"), asked(&with("*.z"), "b.a.z")), (0, 0));
        assert_eq!((asked(&with("*.z"), "x.z"), asked(&with("*.z"), "a.x.z"), asked(&with("*.y.z"), "a.z")), (1, 1, 1));
    }

    proptest! {
        /// Whatever is answered, every record in doubt is vetoed, unanswered or believed gone, and no record that an
        /// answer holds goes.
        #[test]
        fn answers_only_veto(
            removed in prop::collection::btree_set(0..6u8, 1..6),
            held in prop::collection::vec(0..6u8, 0..4),
            flags in any::<[bool; 3]>(),
            serial in prop::option::of(3..8u32),
            polled in 3..8u32,
        ) {
            let mut doubts = doubts(removed.iter().map(|last| removal(*last)).collect());
            let [authoritative, has_others, is_answered] = flags;
            let answer = answer(&held, serial).map(|answer| Answer { authoritative, has_others, ..answer });
            let answer = answer.filter(|_| is_answered);
            doubts.take(0, answer.clone());
            doubts.confirm(Serial(polled), Serial(5));
            if !doubts.open().is_empty() {
                doubts.take(0, answer);
                doubts.confirm(Serial(polled), Serial(5));
            }
            let outcome = doubts.finish();
            let vetoed = removed.iter().filter(|last| is_answered && held.contains(last)).count();
            prop_assert_eq!(outcome.vetoed as usize, vetoed);
            let gone = removed.len() - vetoed - outcome.unanswered.len();
            let is_absent = !has_others && serial == Some(polled) && polled >= 5;
            let is_believed = is_answered && authoritative && (!held.is_empty() || is_absent);
            prop_assert_eq!(gone, if is_believed { removed.len() - vetoed } else { 0 });
        }
    }
}
