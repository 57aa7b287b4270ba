//! Questions as clients of CNS ask them, ready to send, and what an answer to each must look like.
//!
//! Mostly addresses of instances, some of services, the rest of everything; three of four with EDNS. The same in every
//! run, in an order in which neighbours lie far apart in the zone, so that a server's memory is used as by many clients.
//!
//! Invariants: no answer is longer than the client takes, so none is truncated, and each has a known number of records.
//!
//! Cost: O(questions) time; about a hundred octets each.

use crate::generate::{Datacenter, NAMES_PER_INSTANCE};
use std::net::Ipv4Addr;

/// Octets of a message header.
pub const HEADER_BYTES: usize = 12;
/// Type numbers.
const A: u16 = 1;
const TXT: u16 = 16;
const AAAA: u16 = 28;
const SRV: u16 = 33;
/// Names are taken with this stride, a prime, so that neighbours lie apart.
const STRIDE: usize = 7_368_787;
/// An OPT record that takes 1232 octets (RFC 6891 section 6.1.2).
const OPT: [u8; 11] = [0, 0, 41, 4, 208, 0, 0, 0, 0, 0, 0];

/// Whoever asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asker {
    /// A client at this address of loopback.
    At(Ipv4Addr),
    /// A resolver at 127.0.0.1 that tells of a client (RFC 7871).
    Told(Ipv4Addr),
}

/// What is asked, and what an answer to it says.
pub struct Question {
    start: usize,
    length: usize,
    /// Where name, type and class end.
    pub end: usize,
    pub rcode: u8,
    /// Records in the answer section.
    pub answers: u16,
    /// The datacenter and the number of the name, where its address is asked for.
    pub subject: Option<(usize, usize)>,
}

/// A list of questions.
#[derive(Default)]
pub struct Questions {
    bytes: Vec<u8>,
    list: Vec<Question>,
    /// Where each is sent from; empty where all are from wherever sockets are.
    sources: Vec<Ipv4Addr>,
}

impl Questions {
    /// Questions for names of datacenters, which are answered below a suffix: a zone or a region.
    pub fn new(zones: &[Datacenter], suffix: &str, count: usize) -> Questions {
        let mut questions = Questions::default();
        // Empty zones are there to be loaded only.
        let count = if zones.iter().any(|zone| zone.names() == 0) { 0 } else { count };
        for number in 0..count {
            let zone = &zones[number % zones.len()];
            let name = number.wrapping_mul(STRIDE) % zone.names();
            let instance = name / NAMES_PER_INSTANCE;
            // An instance has the same address in a service wherever it is.
            let members = zones.iter().map(|zone| zone.service_size(instance)).max().unwrap_or(0);
            let edns = number % 4 != 0;
            let (owner, rtype, rcode, answers) = match number % 20 {
                0..=11 => (zone.owner(name), A, 0, 1),
                12 | 13 => (zone.owner(name), TXT, 0, 1),
                14 | 15 => (zone.service(instance), A, 0, members),
                // With the aliases of several datacenters it would not fit.
                17 if zones.len() == 1 => (zone.service(instance), SRV, 0, members),
                16 | 17 => (zone.monitored(instance), A, 0, 1),
                18 => (zone.owner(name), AAAA, 0, 0),
                _ => (format!("no-{name}.{}", zone.owner(name)), A, 3, 0),
            };
            questions.add(&format!("{owner}.{suffix}"), rtype, edns, rcode, answers as u16);
            let subject = (number % zones.len(), name);
            questions.list[number].subject = (number % 20 <= 11).then_some(subject);
        }
        questions
    }

    /// Adds a question for the addresses of a name.
    pub fn push(&mut self, name: &str, answers: u16, asker: Asker) {
        self.add(name, A, true, 0, answers);
        let client = match asker {
            Asker::At(client) => return self.sources.push(client),
            Asker::Told(client) => client,
        };
        self.sources.push(Ipv4Addr::LOCALHOST);
        // Option 8, IPv4, SOURCE 32, SCOPE 0.
        let option = [&[0, 8, 0, 8, 0, 1, 32, 0][..], &client.octets()].concat();
        let length = self.bytes.len();
        self.bytes[length - 1] = option.len() as u8;
        self.bytes.extend_from_slice(&option);
        if let Some(question) = self.list.last_mut() {
            question.length += option.len();
        }
    }

    /// Where a question is sent from, if that matters.
    pub fn source(&self, index: usize) -> Option<Ipv4Addr> {
        self.sources.get(index).copied()
    }

    /// Adds a question.
    fn add(&mut self, name: &str, rtype: u16, edns: bool, rcode: u8, answers: u16) {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(&[0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, u8::from(edns)]);
        for label in name.split('.') {
            self.bytes.push(label.len() as u8);
            self.bytes.extend_from_slice(label.as_bytes());
        }
        self.bytes.push(0);
        self.bytes.extend_from_slice(&rtype.to_be_bytes());
        self.bytes.extend_from_slice(&[0, 1]);
        let end = self.bytes.len() - start;
        if edns {
            self.bytes.extend_from_slice(&OPT);
        }
        self.list.push(Question { start, length: self.bytes.len() - start, end, rcode, answers, subject: None });
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.list.len()
    }

    /// One of them and its message, whose id is zero.
    pub fn get(&self, index: usize) -> (&Question, &[u8]) {
        let question = &self.list[index];
        (question, &self.bytes[question.start..question.start + question.length])
    }
}

impl Question {
    /// Whether a message answers the question, which was sent as `sent` with this id: the id, the question, the response
    /// code and the number of records are right, and nothing was cut off.
    pub fn is_answered_by(&self, sent: &[u8], id: [u8; 2], reply: &[u8]) -> bool {
        reply.len() >= self.end
            && reply[..2] == id
            // QR, QUERY, not TC.
            && reply[2] & 0b1111_1010 == 0b1000_0000
            && reply[3] & 15 == self.rcode
            && reply[4..6] == [0, 1]
            && reply[6..8] == self.answers.to_be_bytes()
            && reply[HEADER_BYTES..self.end] == sent[HEADER_BYTES..self.end]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn questions_are_spread_and_know_their_answers() {
        let zones = [Datacenter::new("x.example", 0, 10_000)];
        let questions = Questions::new(&zones, "x.example", 100);
        let (question, sent) = questions.get(14);
        assert_eq!((question.rcode, question.answers, sent.len()), (0, 8, question.end + 11));
        let mut reply = sent.to_vec();
        (reply[0], reply[2], reply[7]) = (9, 0x84, 8);
        assert!(question.is_answered_by(sent, [9, 0], &reply));
        for (at, value) in [(0, 8), (2, 0x86), (2, 4), (3, 2), (7, 7), (13, 0)] {
            let mut wrong = reply.clone();
            wrong[at] = value;
            assert!(!question.is_answered_by(sent, [9, 0], &wrong), "{at}");
        }
        assert_ne!(questions.get(0).1[12..20], questions.get(1).1[12..20]);
    }
}
