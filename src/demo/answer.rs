//! What CNS answers, from the zones and the question alone.
//!
//! Kept on purpose, because a secondary has to live with them: transfers and NS answers without AA, NXDOMAIN at
//! the apex and at empty non-terminals, SERVFAIL outside all zones, repeated records, IXFR answered with the
//! whole zone, silence where CNS would stop altogether. Left out: the history behind incremental transfers,
//! interleaved transfers on one connection, its `_cns_meta` names, and its suffix match that ignores label
//! boundaries.
//!
//! Cost: O(records of the zone) for a transfer, otherwise O(records of the answer).

use super::message::{AA, Query, Rcode, Response, Section, TC};
use super::zone::{Data, NS_TTL, RECORD_TTL, Zone};
use crate::name::{self, Name};
use crate::rr::rtype;
use std::collections::HashMap;
use std::sync::Arc;

/// The zones of one primary, by origin.
pub type Zones = HashMap<Name, Arc<Zone>>;

/// A message of a transfer is sent once it holds more answers than this.
const ANSWERS_PER_MESSAGE: usize = 500;
/// A message is sent before it could exceed 65535 octets; one record of CNS takes less than 600.
const OCTETS_PER_MESSAGE: usize = 60_000;
/// CNS adds names in slices of so many, which bounds how far a message exceeds its limit.
const SLICE: usize = 20;
/// The longest chain of CNAME records that is followed.
const LONGEST_CHAIN: usize = 8;

/// Answers over TCP: no message, or one, or the messages of a transfer. `None` where CNS would stop.
pub fn answer_stream(zones: &Zones, query: &Query) -> Option<Vec<Vec<u8>>> {
    if !query.wants_transfer() {
        return Some(vec![answer_lookup(zones, query).0.finish()]);
    }
    // An IXFR without the SOA of the client (RFC 1995 section 3) stops CNS.
    if query.kind == rtype::IXFR && !query.has_soa {
        return None;
    }
    match find_zone(zones, query) {
        Some(zone) => Some(answer_transfer(zone, query)),
        None => Some(vec![Response::new(query, 0, Rcode::ServFail).finish()]),
    }
}

/// Answers over UDP, in full or with TC set and all sections empty. `None` where CNS would stop.
pub fn answer_datagram(zones: &Zones, query: &Query) -> Option<Vec<u8>> {
    let (mut messages, flags, rcode) = if query.wants_transfer() {
        (answer_stream(zones, query)?, 0, Rcode::NoError)
    } else {
        let (response, flags, rcode) = answer_lookup(zones, query);
        (vec![response.finish()], flags, rcode)
    };
    if let Some(message) = messages.pop()
        && messages.is_empty()
        && message.len() <= query.datagram_limit()
    {
        return Some(message);
    }
    // RFC 2181 section 9 would keep what fits; CNS empties the message, OPT included.
    let truncated = Response::new(query, flags | TC, rcode).finish_without_edns();
    (truncated.len() <= query.datagram_limit()).then_some(truncated)
}

/// The zone with the longest origin that the name is within.
fn find_zone<'a>(zones: &'a Zones, query: &Query) -> Option<&'a Arc<Zone>> {
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

/// All messages of a transfer; a name below the apex yields the whole zone too.
fn answer_transfer(zone: &Zone, query: &Query) -> Vec<Vec<u8>> {
    let origin = zone.origin().as_wire();
    let mut messages = Vec::new();
    let mut response = Response::new(query, 0, Rcode::NoError);
    let mut answers = 1;
    response.push(Section::Answer, origin, RECORD_TTL, &zone.soa());
    for data in zone.name_servers() {
        response.push(Section::Answer, origin, NS_TTL, &data);
        answers += 1;
    }
    for node in zone.nodes() {
        for data in &node.records {
            if answers >= ANSWERS_PER_MESSAGE + SLICE || response.len() > OCTETS_PER_MESSAGE {
                let next = Response::without_question(query, 0, Rcode::NoError);
                messages.push(std::mem::replace(&mut response, next).finish());
                answers = 0;
            }
            response.push(Section::Answer, node.owner.as_wire(), RECORD_TTL, data);
            answers += 1;
        }
        if answers > ANSWERS_PER_MESSAGE {
            let next = Response::without_question(query, 0, Rcode::NoError);
            messages.push(std::mem::replace(&mut response, next).finish());
            answers = 0;
        }
    }
    response.push(Section::Answer, origin, RECORD_TTL, &zone.soa());
    messages.push(response.finish());
    messages
}

/// The answer to an ordinary question, with its flags and code for the case that it must be truncated.
fn answer_lookup(zones: &Zones, query: &Query) -> (Response, u16, Rcode) {
    let Some(zone) = find_zone(zones, query) else {
        return (Response::new(query, 0, Rcode::ServFail), 0, Rcode::ServFail);
    };
    let origin = zone.origin().as_wire();
    let name = query.name.to_lowercase();
    if name.as_wire() == origin {
        return match query.kind {
            rtype::SOA => {
                let mut response = Response::new(query, AA, Rcode::NoError);
                response.push(Section::Answer, origin, RECORD_TTL, &zone.soa());
                push_name_servers(&mut response, Section::Authority, zone);
                (response, AA, Rcode::NoError)
            }
            rtype::NS => {
                let mut response = Response::new(query, 0, Rcode::NoError);
                push_name_servers(&mut response, Section::Answer, zone);
                (response, 0, Rcode::NoError)
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
    (response, AA, Rcode::NoError)
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
fn answer_negative(zone: &Zone, query: &Query, rcode: Rcode) -> (Response, u16, Rcode) {
    let mut response = Response::new(query, AA, rcode);
    response.push(Section::Authority, zone.origin().as_wire(), RECORD_TTL, &zone.soa());
    (response, AA, rcode)
}

/// Adds the NS set.
fn push_name_servers(response: &mut Response, section: Section, zone: &Zone) {
    for data in zone.name_servers() {
        response.push(section, zone.origin().as_wire(), NS_TTL, &data);
    }
}

#[cfg(test)]
mod tests;
