//! The messages of a zone transfer: the query that is sent, and the responses to it, record by record.
//!
//! Invariants: a record leaves only if its message answers our query (id, opcode, response code, question), and if it
//! is of class IN, at or below the origin, of a type that zones hold, and well formed; its RDATA is uncompressed.
//! What CNS does without harm is let pass: AA clear, no question behind the first message, OPT in any message,
//! compressed names in any RDATA.
//!
//! Cost: O(bytes).
//!
//! RFC 1035 section 4, RFC 5936 section 2, RFC 1995 section 3.

use crate::transfer::error::TransferError;
use wire::name::{self, Name, NameBuf};
use wire::rr::{self, CLASS_IN, RRset, rtype};

/// Bytes of a message header (RFC 1035 section 4.1.1).
const HEADER_BYTES: usize = 12;
/// Bytes of a record between owner and RDATA: type, class, TTL, length.
const FIXED_BYTES: usize = 10;

/// What was asked, which every response must fit.
pub struct Query {
    id: u16,
    origin: Name,
    rtype: u16,
}

/// A record of an answer section.
pub struct Record<'a> {
    pub owner: &'a NameBuf,
    pub rtype: u16,
    pub ttl: u32,
    pub rdata: &'a [u8],
    /// Whether this is the SOA of the zone itself; one below the apex is a stray record.
    pub is_zone_soa: bool,
}

/// Whether the records that follow matter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    Read,
    Stop,
}

/// Reads big-endian numbers of a message in which they are known to be.
pub(super) fn number16(message: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([message[at], message[at + 1]])
}

impl Query {
    /// Asks for the whole zone (RFC 5936 section 2.1).
    pub fn axfr(origin: Name, id: u16) -> Query {
        Query { id, origin, rtype: rtype::AXFR }
    }

    /// Asks for the differences from a version on (RFC 1995 section 3).
    pub fn ixfr(origin: Name, id: u16) -> Query {
        Query { id, origin, rtype: rtype::IXFR }
    }

    /// Asks for the serial.
    pub fn soa(origin: Name, id: u16) -> Query {
        Query { id, origin, rtype: rtype::SOA }
    }

    /// The zone that was asked for.
    pub fn origin(&self) -> &Name {
        &self.origin
    }

    /// The message, without the length in front. Differences need the SOA that they are to begin with: it is the first and
    /// only record of the authority section, and a query without it stops CNS (`docs/cns.md` 3).
    ///
    /// RD is clear, and there is no EDNS: CNS answers it, but needs it not.
    pub fn write(&self, ours: Option<&RRset>) -> Vec<u8> {
        let soa = ours.map_or_else(Vec::new, RRset::to_wire);
        let mut message = Vec::with_capacity(HEADER_BYTES + self.origin.as_wire().len() + 4 + soa.len());
        message.extend_from_slice(&self.id.to_be_bytes());
        message.extend_from_slice(&[0, 0, 0, 1, 0, 0, 0, u8::from(ours.is_some()), 0, 0]);
        message.extend_from_slice(self.origin.as_wire());
        message.extend_from_slice(&self.rtype.to_be_bytes());
        message.extend_from_slice(&CLASS_IN.to_be_bytes());
        // The owner of a stored record is a pointer to the name behind the header, which is the origin here.
        message.extend_from_slice(&soa);
        message
    }

    /// Checks a response and gives its records to `take` until that wants no more; what follows then is not looked at.
    /// `scratch` is room for RDATA.
    pub fn read(
        &self,
        message: &[u8],
        first: bool,
        scratch: &mut Vec<u8>,
        mut take: impl FnMut(Record<'_>) -> Result<Next, TransferError>,
    ) -> Result<(), TransferError> {
        if message.len() < HEADER_BYTES {
            return Err(TransferError::Malformed("shorter than a header"));
        }
        self.check_header(message)?;
        let mut position = self.read_question(message, first)?;
        let answers = number16(message, 6);
        if first && answers == 0 {
            return Err(TransferError::Malformed("the first message has no records"));
        }
        let mut owner = Owner { at: 0, name: NameBuf::root() };
        for _ in 0..answers {
            let (end, next) = self.read_record(message, position, &mut owner, scratch, &mut take)?;
            if next == Next::Stop {
                return Ok(());
            }
            position = end;
        }
        // RFC 5936 sections 2.2.4 and 2.2.5: what stands in the other sections is no zone data.
        for _ in 0..u32::from(number16(message, 8)) + u32::from(number16(message, 10)) {
            position = skip_record(message, position)?;
        }
        if position != message.len() {
            return Err(TransferError::Malformed("bytes behind the last record"));
        }
        Ok(())
    }

    /// RFC 5936 section 2.2.1; AA is not looked at, CNS leaves it clear.
    fn check_header(&self, message: &[u8]) -> Result<(), TransferError> {
        let flags = number16(message, 2);
        if number16(message, 0) != self.id {
            return Err(TransferError::Id);
        }
        if flags & 0x8000 == 0 {
            return Err(TransferError::Malformed("a query instead of a response"));
        }
        if flags & 0x7800 != 0 {
            return Err(TransferError::Malformed("the opcode is not QUERY"));
        }
        match flags & 0x000f {
            0 if flags & 0x0200 != 0 => Err(TransferError::Malformed("truncated over TCP")),
            0 => Ok(()),
            rcode => Err(TransferError::Rcode(rcode)),
        }
    }

    /// RFC 5936 section 2.2.2: the question comes back in the first message and may come back in others.
    fn read_question(&self, message: &[u8], first: bool) -> Result<usize, TransferError> {
        match number16(message, 4) {
            0 if !first => Ok(HEADER_BYTES),
            1 => {
                let (name, end) = NameBuf::read(message, HEADER_BYTES)?;
                let rest = message.get(end..end + 4).ok_or(TransferError::Malformed("the question is cut off"))?;
                let same = name.to_lowercase().as_wire() == self.origin.as_wire();
                if same && number16(rest, 0) == self.rtype && number16(rest, 2) == CLASS_IN {
                    Ok(end + 4)
                } else {
                    Err(TransferError::Question)
                }
            }
            _ => Err(TransferError::Question),
        }
    }

    /// Reads one record of the answer section; the position behind it comes back. `last` is the owner of the one before.
    fn read_record(
        &self,
        message: &[u8],
        start: usize,
        last: &mut Owner,
        scratch: &mut Vec<u8>,
        take: &mut impl FnMut(Record<'_>) -> Result<Next, TransferError>,
    ) -> Result<(usize, Next), TransferError> {
        let after = last.read(message, start, &self.origin)?;
        let owner = &last.name;
        let fixed = message.get(after..after + FIXED_BYTES).ok_or(TransferError::Malformed("a record is cut off"))?;
        let (rtype, class, length) = (number16(fixed, 0), number16(fixed, 2), usize::from(number16(fixed, 8)));
        let ttl = u32::from_be_bytes([fixed[4], fixed[5], fixed[6], fixed[7]]);
        let start = after + FIXED_BYTES;
        if class != CLASS_IN {
            return Err(TransferError::Class(class));
        }
        if !rr::is_data_type(rtype) {
            return Err(TransferError::Type(rtype));
        }
        scratch.clear();
        rr::decompress(rtype, message, start, length, scratch)?;
        let is_zone_soa = rtype == rtype::SOA && owner.as_wire().eq_ignore_ascii_case(self.origin.as_wire());
        let next = take(Record { owner, rtype, ttl, rdata: scratch, is_zone_soa })?;
        Ok((start + length, next))
    }
}

/// The owner of a record, which the next record often has, too.
struct Owner {
    /// Where the message holds it; 0, within the header, for nowhere.
    at: usize,
    name: NameBuf,
}

impl Owner {
    /// Reads the owner of a record within an origin, unless it points to where the one before was; returns the position behind
    /// it.
    fn read(&mut self, message: &[u8], start: usize, origin: &Name) -> Result<usize, TransferError> {
        let pointer = match message.get(start..start + 2) {
            Some([high, low]) if *high >= 0xc0 => Some(usize::from(high & 0x3f) << 8 | usize::from(*low)),
            _ => None,
        };
        if self.at > 0 && pointer == Some(self.at) {
            return Ok(start + 2);
        }
        let (name, after) = NameBuf::read(message, start)?;
        let cut = name.as_wire().len().checked_sub(origin.as_wire().len());
        let is_within = |cut: usize| {
            name.as_wire()[cut..].eq_ignore_ascii_case(origin.as_wire()) && name::is_label_start(name.as_wire(), cut)
        };
        if !cut.is_some_and(is_within) {
            return Err(TransferError::OutOfZone(name.to_string().into()));
        }
        *self = Owner { at: pointer.unwrap_or(start), name };
        Ok(after)
    }
}

/// The position behind a record that is not looked at.
fn skip_record(message: &[u8], start: usize) -> Result<usize, TransferError> {
    let cut = TransferError::Malformed("a record is cut off");
    let Some(after) = name::skip(message, start) else { return Err(cut) };
    let Some(fixed) = message.get(after..after + FIXED_BYTES) else { return Err(cut) };
    let end = after + FIXED_BYTES + usize::from(number16(fixed, 8));
    if end > message.len() { Err(cut) } else { Ok(end) }
}
