//! DNS messages as CNS reads and writes them (RFC 1035 section 4).
//!
//! Reading takes what CNS takes: one question, and no record of a type its library does not know. Writing
//! compresses every name, also where RFC 3597 section 4 forbids it, with pointers to names of exactly the same
//! case.
//!
//! Invariants: reading never panics, whatever the bytes; a pointer never exceeds 14 bits.
//! Cost: O(octets of the message); a name is hashed once for each of its labels.

use super::zone::Data;
use std::collections::HashMap;
use wire::name::{self, NameBuf};
use wire::rr::rtype;
use wire::serial::Serial;

/// Authoritative answer.
pub const AA: u16 = 0x0400;
/// Truncated.
const TC: u16 = 0x0200;
/// Response.
const QR: u16 = 0x8000;
/// The bits that CNS copies from a question: RD, AD, CD.
const ECHOED: u16 = 0x0130;
/// The opcode bits; QUERY is zero.
const OPCODE: u16 = 0x7800;
/// The largest EDNS payload size that CNS states.
const LARGEST_PAYLOAD: u16 = 1470;
/// Length of the header.
const HEADER_BYTES: usize = 12;
/// The types whose records CNS can read in a question.
const READABLE: [u16; 11] = [
    rtype::A,
    rtype::NS,
    rtype::CNAME,
    rtype::SOA,
    rtype::PTR,
    rtype::MX,
    rtype::TXT,
    rtype::AAAA,
    rtype::SRV,
    rtype::OPT,
    rtype::TSIG,
];

/// Reason for which a message gets no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unanswered {
    #[error("not a question that CNS can read")]
    Unreadable,
    #[error("opcode other than QUERY")]
    Opcode,
    #[error("a response")]
    Response,
}

/// RCODE (RFC 1035 section 4.1.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rcode {
    NoError = 0,
    ServFail = 2,
    NxDomain = 3,
    Refused = 5,
}

/// A question and what matters of the rest of its message.
#[derive(Clone, Debug)]
pub struct Query {
    id: u16,
    flags: u16,
    /// Name in the case in which it arrived.
    pub name: NameBuf,
    /// QTYPE.
    pub kind: u16,
    class: u16,
    /// Payload size of the OPT record.
    pub payload: Option<u16>,
    /// The serial of the SOA record with which the authority section begins (RFC 1995 section 3).
    pub serial: Option<Serial>,
}

impl Query {
    /// Reads a message.
    pub fn read(message: &[u8]) -> Result<Query, Unanswered> {
        let header = message.get(..HEADER_BYTES).ok_or(Unanswered::Unreadable)?;
        let field = |index: usize| u16::from_be_bytes([header[2 * index], header[2 * index + 1]]);
        let (id, flags) = (field(0), field(1));
        if flags & QR != 0 {
            return Err(Unanswered::Response);
        }
        if flags & OPCODE != 0 {
            return Err(Unanswered::Opcode);
        }
        if field(2) != 1 {
            return Err(Unanswered::Unreadable);
        }
        let (name, end) = NameBuf::read(message, HEADER_BYTES).map_err(|_| Unanswered::Unreadable)?;
        let kind = read_u16(message, end)?;
        let class = read_u16(message, end + 2)?;
        let mut query = Query { id, flags, name, kind, class, payload: None, serial: None };
        let (answers, authorities) = (usize::from(field(3)), usize::from(field(4)));
        let mut position = end + 4;
        for index in 0..answers + authorities + usize::from(field(5)) {
            let start = name::skip(message, position).ok_or(Unanswered::Unreadable)?;
            let kind = read_u16(message, start)?;
            if !READABLE.contains(&kind) {
                return Err(Unanswered::Unreadable);
            }
            if kind == rtype::OPT {
                query.payload = Some(read_u16(message, start + 2)?);
            }
            position = start + 10 + usize::from(read_u16(message, start + 8)?);
            if position > message.len() {
                return Err(Unanswered::Unreadable);
            }
            if index == answers && authorities > 0 && kind == rtype::SOA {
                // The serial is the first of the five numbers behind both names.
                let serial = position.saturating_sub(20);
                let halves = [read_u16(message, serial)?, read_u16(message, serial + 2)?];
                query.serial = Some(Serial(u32::from(halves[0]) << 16 | u32::from(halves[1])));
            }
        }
        Ok(query)
    }

    /// Returns true if the question is for a zone transfer.
    pub fn wants_transfer(&self) -> bool {
        matches!(self.kind, rtype::AXFR | rtype::IXFR)
    }

    /// The largest answer over UDP: 512 octets without EDNS (RFC 1035 section 4.2.1).
    pub fn datagram_limit(&self) -> usize {
        usize::from(self.payload.map_or(512, |payload| payload.min(LARGEST_PAYLOAD)))
    }
}

/// Two octets in network order.
fn read_u16(message: &[u8], position: usize) -> Result<u16, Unanswered> {
    let bytes = message.get(position..position + 2).ok_or(Unanswered::Unreadable)?;
    Ok(u16::from_be_bytes([bytes[0], bytes[1]]))
}

/// The sections that hold records, by the place of their count in the header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Section {
    Answer = 6,
    Authority = 8,
    Additional = 10,
}

/// A response being written. Sections must be filled in their order.
pub struct Response {
    bytes: Vec<u8>,
    /// Names already written, by their octets, with the place to point at.
    seen: HashMap<Box<[u8]>, u16>,
    payload: Option<u16>,
}

impl Response {
    /// Begins a response with the question.
    pub fn new(query: &Query, flags: u16, rcode: Rcode) -> Response {
        let mut response = Response::without_question(query, flags, rcode);
        response.bytes[5] = 1;
        response.put_name(query.name.as_wire());
        response.put_u16(query.kind);
        response.put_u16(query.class);
        response
    }

    /// Begins a later message of a transfer (RFC 5936 section 2.2.2 lets the question be left out).
    pub fn without_question(query: &Query, flags: u16, rcode: Rcode) -> Response {
        let flags = QR | flags | query.flags & ECHOED | rcode as u16;
        let mut bytes = Vec::with_capacity(512);
        bytes.extend_from_slice(&query.id.to_be_bytes());
        bytes.extend_from_slice(&flags.to_be_bytes());
        bytes.resize(HEADER_BYTES, 0);
        let payload = query.payload.map(|payload| payload.min(LARGEST_PAYLOAD));
        Response { bytes, seen: HashMap::new(), payload }
    }

    /// Adds a record of class IN.
    pub fn push(&mut self, section: Section, owner: &[u8], ttl: u32, data: &Data) {
        self.count(section);
        self.put_name(owner);
        self.put_u16(data.kind());
        self.put_u16(1);
        self.bytes.extend_from_slice(&ttl.to_be_bytes());
        let length_at = self.bytes.len();
        self.put_u16(0);
        self.put_data(data);
        let length = (self.bytes.len() - length_at - 2) as u16;
        self.bytes[length_at..length_at + 2].copy_from_slice(&length.to_be_bytes());
    }

    /// Octets written so far.
    pub fn octets(&self) -> usize {
        self.bytes.len()
    }

    /// Ends the message with the OPT record that answers the one in the query (RFC 6891 section 6.1.1).
    pub fn finish(mut self) -> Vec<u8> {
        if let Some(payload) = self.payload {
            self.count(Section::Additional);
            self.bytes.push(0);
            self.put_u16(rtype::OPT);
            self.put_u16(payload);
            // Version 0, no flags, no options.
            self.bytes.extend_from_slice(&[0; 6]);
        }
        self.bytes
    }

    /// A message with nothing but the question, in place of one that is too long.
    pub fn truncated(query: &Query, whole: &[u8]) -> Vec<u8> {
        let flags = u16::from_be_bytes([whole[2], whole[3]]);
        Response::new(query, flags | TC, Rcode::NoError).bytes
    }

    /// Raises the number of records of a section in the header.
    fn count(&mut self, section: Section) {
        let place = section as usize;
        let count = u16::from_be_bytes([self.bytes[place], self.bytes[place + 1]]).saturating_add(1);
        self.bytes[place..place + 2].copy_from_slice(&count.to_be_bytes());
    }

    /// Writes two octets in network order.
    fn put_u16(&mut self, value: u16) {
        self.bytes.extend_from_slice(&value.to_be_bytes());
    }

    /// Writes a name, ending it with a pointer as early as possible (RFC 1035 section 4.1.4).
    fn put_name(&mut self, wire: &[u8]) {
        let mut rest = wire;
        while let Some(tail) = name::parent(rest) {
            if let Some(pointer) = self.seen.get(rest) {
                self.put_u16(0xc000 | pointer);
                return;
            }
            if let Ok(here) = u16::try_from(self.bytes.len())
                && here <= 0x3fff
            {
                self.seen.insert(Box::from(rest), here);
            }
            self.bytes.extend_from_slice(&rest[..rest.len() - tail.len()]);
            rest = tail;
        }
        self.bytes.push(0);
    }

    /// Writes RDATA, with every name compressed.
    fn put_data(&mut self, data: &Data) {
        match data {
            Data::A(address) => self.bytes.extend_from_slice(&address.octets()),
            Data::Aaaa(address) => self.bytes.extend_from_slice(&address.octets()),
            Data::Cname(name) | Data::Ns(name) | Data::Ptr(name) => self.put_name(name.as_wire()),
            Data::Soa { mname, rname, serial } => {
                self.put_name(mname.as_wire());
                self.put_name(rname.as_wire());
                // Refresh 30 s, retry 60 s, expire 30 days, negative TTL 30 s.
                for value in [serial.0, 30, 60, 2_592_000, 30] {
                    self.bytes.extend_from_slice(&value.to_be_bytes());
                }
            }
            Data::Srv { priority, weight, port, target } => {
                for value in [*priority, *weight, *port] {
                    self.put_u16(value);
                }
                // RFC 2782 forbids compression here; CNS compresses.
                self.put_name(target.as_wire());
            }
            Data::Txt(text) => {
                // A character-string holds at most 255 octets (RFC 1035 section 3.3).
                let text = &text[..text.len().min(255)];
                self.bytes.push(text.len() as u8);
                self.bytes.extend_from_slice(text);
            }
        }
    }
}
