//! Answers of CNS, made from the zones and the question alone.
//!
//! Kept on purpose, because a secondary has to live with them: transfers and NS answers without AA, NXDOMAIN at the
//! apex and at empty non-terminals, SERVFAIL outside all zones, repeated records, differences step by step and with one
//! TTL for all records, IXFR at the served serial answered with the whole zone, silence where CNS would stop
//! altogether, also for an answer over TCP that is too long for it. Left out: interleaved transfers on one connection,
//! its `_cns_meta` names, and its suffix match that ignores label boundaries.
//!
//! Cost: O(records of the zone) for a whole transfer, otherwise O(records of the answer).

use super::message::{AA, Query, Rcode, Response, Section};
use super::store::{Step, Stored};
use super::zone::{Data, NS_TTL, RECORD_TTL, Zone};
use std::collections::HashMap;
use std::sync::Arc;
use wire::name::{self, Name};
use wire::rr::rtype;

/// The zones of one primary, by origin.
pub type Zones = HashMap<Name, Arc<Stored>>;

/// Kind of an answer over TCP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Lookup,
    /// A transfer of the whole zone.
    Whole,
    /// A transfer of what has changed.
    Steps,
}

/// A message of a transfer is sent once it holds more answers than this.
const ANSWERS_PER_MESSAGE: usize = 500;
/// A message is sent before it could exceed 65535 octets; one record of CNS takes less than 600.
const OCTETS_PER_MESSAGE: usize = 60_000;
/// CNS adds names in slices of so many, which bounds how far a message exceeds its limit.
pub const SLICE: usize = 20;
/// CNS stops on an answer over TCP that is longer than this.
const LONGEST_ANSWER: usize = 65_530;
/// The longest chain of CNAME records that is followed.
const LONGEST_CHAIN: usize = 8;

/// Answers over TCP: one message, or the messages of a transfer. `None` where CNS would stop.
pub fn answer_stream(zones: &Zones, query: &Query) -> Option<(Kind, Vec<Vec<u8>>)> {
    if !query.wants_transfer() {
        let message = answer_lookup(zones, query).finish();
        return (message.len() <= LONGEST_ANSWER).then(|| (Kind::Lookup, vec![message]));
    }
    // An IXFR without the SOA of the client (RFC 1995 section 3) stops CNS.
    if query.kind == rtype::IXFR && query.serial.is_none() {
        return None;
    }
    let Some(stored) = find_zone(zones, query) else {
        return Some((Kind::Lookup, vec![Response::new(query, 0, Rcode::ServFail).finish()]));
    };
    let steps = query.serial.filter(|_| query.kind == rtype::IXFR).and_then(|serial| stored.steps_from(serial));
    Some(match steps {
        Some(steps) => (Kind::Steps, answer_steps(stored, steps, query)),
        None => (Kind::Whole, answer_whole(stored, query)),
    })
}

/// Answers over UDP, in full or with TC set and all sections empty. `None` where CNS would stop.
pub fn answer_datagram(zones: &Zones, query: &Query) -> Option<Vec<u8>> {
    let mut messages = match query.wants_transfer() {
        true => answer_stream(zones, query)?.1,
        false => vec![answer_lookup(zones, query).finish()],
    };
    let first = messages.swap_remove(0);
    if messages.is_empty() && first.len() <= query.datagram_limit() {
        return Some(first);
    }
    // RFC 2181 section 9 would keep what fits; CNS empties the message, OPT included.
    let truncated = Response::truncated(query, &first);
    (truncated.len() <= query.datagram_limit()).then_some(truncated)
}

/// The zone with the longest origin that the name is within.
pub fn find_zone<'a>(zones: &'a Zones, query: &Query) -> Option<&'a Arc<Stored>> {
    let name = query.name.to_lowercase();
    let mut rest = Some(name.as_wire());
    while let Some(wire) = rest {
        if let Some(zone) = zones.get(wire) {
            return Some(zone);
        }
        rest = name::parent(wire);
    }
    None
}

/// The messages of a transfer in the making.
struct Messages<'q> {
    query: &'q Query,
    done: Vec<Vec<u8>>,
    response: Response,
    answers: usize,
}

impl<'q> Messages<'q> {
    /// Begins with the question, which later messages lack, and the zone's SOA.
    fn new(query: &'q Query, zone: &Zone) -> Messages<'q> {
        let response = Response::new(query, 0, Rcode::NoError);
        let mut messages = Messages { query, done: Vec::new(), response, answers: 0 };
        messages.push(zone.origin(), RECORD_TTL, &zone.soa());
        messages
    }

    /// Begins a whole transfer, with the NS set behind the SOA.
    fn whole(query: &'q Query, zone: &Zone) -> Messages<'q> {
        let mut messages = Messages::new(query, zone);
        zone.name_servers().for_each(|data| messages.push(zone.origin(), NS_TTL, &data));
        messages
    }

    /// Adds a record.
    fn push(&mut self, owner: &Name, ttl: u32, data: &Data) {
        if self.answers >= ANSWERS_PER_MESSAGE + SLICE || self.response.octets() > OCTETS_PER_MESSAGE {
            self.next();
        }
        self.response.push(Section::Answer, owner.as_wire(), ttl, data);
        self.answers += 1;
    }

    /// Sends the message if it is full, which CNS looks at between names.
    fn end_name(&mut self) {
        if self.answers > ANSWERS_PER_MESSAGE {
            self.next();
        }
    }

    /// Goes on to the next message.
    fn next(&mut self) {
        let next = Response::without_question(self.query, 0, Rcode::NoError);
        self.done.push(std::mem::replace(&mut self.response, next).finish());
        self.answers = 0;
    }

    /// All messages, with the zone's SOA at the end.
    fn finish(mut self, zone: &Zone) -> Vec<Vec<u8>> {
        self.push(zone.origin(), RECORD_TTL, &zone.soa());
        self.done.push(self.response.finish());
        self.done
    }
}

/// All messages of a whole transfer; a name below the apex yields the whole zone too.
fn answer_whole(stored: &Stored, query: &Query) -> Vec<Vec<u8>> {
    let zone = stored.zone();
    let mut messages = Messages::whole(query, zone);
    for node in stored.lapses.scan.as_deref().map_or(zone.nodes(), Vec::as_slice) {
        node.records.iter().for_each(|data| messages.push(&node.owner, RECORD_TTL, data));
        messages.end_name();
    }
    messages.finish(zone)
}

/// A whole transfer that takes its time: names are read some at a time, as they are then.
pub struct Scan<'q> {
    messages: Messages<'q>,
    /// The version that was served at the beginning, whose SOA stands at both ends.
    opening: Arc<Zone>,
    names: Vec<Name>,
    next: usize,
}

impl<'q> Scan<'q> {
    /// Begins with SOA and NS.
    pub fn new(stored: &Stored, query: &'q Query) -> Scan<'q> {
        let opening = stored.zone().clone();
        let names = opening.nodes().iter().map(|node| node.owner.clone()).collect();
        Scan { messages: Messages::whole(query, &opening), opening, names, next: 0 }
    }

    /// Reads the next names from the version that is there now. Returns whether there are more; of the names that were
    /// not there at the beginning, a scan of hashes finds some.
    pub fn read(&mut self, now: &Zone) -> bool {
        if self.next >= self.names.len() {
            let is_new = |name: &&Name| self.opening.find(name.as_wire()).is_none() && !self.names.contains(name);
            let new = now.nodes().iter().map(|node| &node.owner).filter(is_new);
            let found: Vec<Name> = new.filter(|name| name.stable_hash() % 2 == 0).cloned().collect();
            self.names.extend(found);
        }
        let end = self.names.len().min(self.next + SLICE);
        for name in &self.names[self.next..end] {
            for data in now.find(name.as_wire()).unwrap_or_default() {
                self.messages.push(name, RECORD_TTL, data);
            }
            self.messages.end_name();
        }
        let has_more = end > self.next;
        self.next = end;
        has_more
    }

    /// The messages that are full.
    pub fn take(&mut self) -> Vec<Vec<u8>> {
        std::mem::take(&mut self.messages.done)
    }

    /// The last messages.
    pub fn finish(self) -> Vec<Vec<u8>> {
        self.messages.finish(&self.opening)
    }
}

/// All messages of an incremental transfer (RFC 1995 section 4): every step by itself, MNAME and RNAME as they are now.
fn answer_steps<'a>(stored: &Stored, steps: impl Iterator<Item = &'a Step>, query: &Query) -> Vec<Vec<u8>> {
    let zone = stored.zone();
    let mut records = Vec::new();
    for step in steps {
        for (serial, changes) in [(step.from, &step.removed), (step.to, &step.added)] {
            records.push((zone.origin().clone(), zone.soa_at(serial)));
            records.extend(changes.iter().cloned());
        }
    }
    records.truncate(stored.lapses.cut.unwrap_or(usize::MAX));
    let mut messages = Messages::new(query, zone);
    for (owner, data) in &records {
        messages.push(owner, RECORD_TTL, data);
        messages.end_name();
    }
    messages.finish(zone)
}

/// The answer to an ordinary question.
fn answer_lookup(zones: &Zones, query: &Query) -> Response {
    let Some(zone) = find_zone(zones, query).map(|stored| stored.zone()) else {
        return Response::new(query, 0, Rcode::ServFail);
    };
    let origin = zone.origin().as_wire();
    let name = query.name.to_lowercase();
    if name.as_wire() == origin {
        return match query.kind {
            rtype::SOA => {
                let mut response = Response::new(query, AA, Rcode::NoError);
                response.push(Section::Answer, origin, RECORD_TTL, &zone.soa());
                push_name_servers(&mut response, Section::Authority, zone);
                response
            }
            rtype::NS => {
                let mut response = Response::new(query, 0, Rcode::NoError);
                push_name_servers(&mut response, Section::Answer, zone);
                response
            }
            _ => answer_negative(zone, query, Rcode::NxDomain),
        };
    }
    let Some(records) = zone.find(name.as_wire()) else {
        return answer_negative(zone, query, Rcode::NxDomain);
    };
    let mut answers = Vec::new();
    collect(zone, query.name.as_wire(), records, query.kind, 0, &mut answers);
    if answers.is_empty() {
        return answer_negative(zone, query, Rcode::NoError);
    }
    let mut response = Response::new(query, AA, Rcode::NoError);
    for (owner, data) in &answers {
        response.push(Section::Answer, owner, RECORD_TTL, data);
    }
    push_name_servers(&mut response, Section::Authority, zone);
    for (_, data) in &answers {
        if let Data::Srv { target, .. } = data {
            for address in zone.find(target.as_wire()).unwrap_or_default() {
                if matches!(address, Data::A(_) | Data::Aaaa(_)) {
                    response.push(Section::Additional, target.as_wire(), RECORD_TTL, address);
                }
            }
        }
    }
    response
}

/// Gathers the records of a type at a name and, past a CNAME, those of its target in the zone.
fn collect<'a>(
    zone: &'a Zone,
    owner: &'a [u8],
    records: &'a [Data],
    kind: u16,
    depth: usize,
    answers: &mut Vec<(&'a [u8], &'a Data)>,
) {
    for data in records {
        if data.kind() == kind {
            answers.push((owner, data));
        } else if let Data::Cname(target) = data
            && depth < LONGEST_CHAIN
        {
            answers.push((owner, data));
            let behind = zone.find(target.as_wire()).unwrap_or_default();
            collect(zone, target.as_wire(), behind, kind, depth + 1, answers);
        }
    }
}

/// No such name, or no such type (RFC 2308 section 2).
fn answer_negative(zone: &Zone, query: &Query, rcode: Rcode) -> Response {
    let mut response = Response::new(query, AA, rcode);
    response.push(Section::Authority, zone.origin().as_wire(), RECORD_TTL, &zone.soa());
    response
}

/// Adds the NS set.
fn push_name_servers(response: &mut Response, section: Section, zone: &Zone) {
    for data in zone.name_servers() {
        response.push(section, zone.origin().as_wire(), NS_TTL, &data);
    }
}

#[cfg(test)]
mod tests;
