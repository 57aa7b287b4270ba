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
use wire::message::{self, Header, OPCODE_QUERY, Question, Records, RequestWriter, Section, flag};
use wire::name::{self, Name, NameBuf};
use wire::rr::{self, CLASS_IN, RRset, rtype};

/// What was asked, which every response must fit.
pub struct Query {
    pub id: u16,
    pub origin: Name,
    /// AXFR for the whole zone (RFC 5936 section 2.1), IXFR for the differences from a version on (RFC 1995 section 3).
    pub rtype: u16,
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

/// Whether more records or messages must follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    More,
    Done,
}

impl Query {
    /// The message, without the length in front. Differences need the SOA that they are to begin with: it is the first and
    /// only record of the authority section, and a query without it stops CNS (`docs/cns.md` 3).
    ///
    /// RD is clear, and there is no EDNS: CNS answers it, but needs it not.
    pub fn write(&self, ours: Option<&RRset>) -> Vec<u8> {
        let message = RequestWriter::new(self.id, OPCODE_QUERY, 0, &self.origin, self.rtype);
        match ours {
            Some(soa) => message.add_set(Section::Authority, soa.as_set()).finish(),
            None => message.finish(),
        }
    }

    /// Checks a response and gives its records to `take` until that wants no more; what follows then is not looked at.
    /// `scratch` is room for RDATA.
    pub fn read(
        &self,
        message: &[u8],
        first: bool,
        scratch: &mut Vec<u8>,
        mut take: impl FnMut(Record<'_>) -> Result<Progress, TransferError>,
    ) -> Result<(), TransferError> {
        let header = Header::read(message).ok_or(TransferError::Malformed("shorter than a header"))?;
        self.check_header(&header)?;
        self.check_question(message, header.questions, first)?;
        if first && header.records[0] == 0 {
            return Err(TransferError::Malformed("the first message has no records"));
        }
        let mut records = Records::new(message).ok_or(TransferError::Malformed("the question is cut off"))?;
        let mut owner = Owner { at: 0, name: NameBuf::root() };
        for record in records.by_ref() {
            let record = record.map_err(|_| TransferError::Malformed("a record is cut off"))?;
            // RFC 5936 sections 2.2.4 and 2.2.5: what stands in the other sections is no zone data.
            if record.section == Section::Answer {
                owner.read(message, record.owner, &self.origin)?;
                if take(self.read_record(message, record, &owner.name, scratch)?)? == Progress::Done {
                    return Ok(());
                }
            }
        }
        if records.position() != message.len() {
            return Err(TransferError::Malformed("bytes behind the last record"));
        }
        Ok(())
    }

    /// RFC 5936 section 2.2.1; AA is not looked at, CNS leaves it clear.
    fn check_header(&self, header: &Header) -> Result<(), TransferError> {
        if header.id != self.id {
            return Err(TransferError::Id);
        }
        if !header.has(flag::QR) {
            return Err(TransferError::Malformed("a query instead of a response"));
        }
        if header.opcode() != OPCODE_QUERY {
            return Err(TransferError::Malformed("the opcode is not QUERY"));
        }
        match header.rcode() {
            0 if header.has(flag::TC) => Err(TransferError::Malformed("truncated over TCP")),
            0 => Ok(()),
            rcode => Err(TransferError::Rcode(rcode)),
        }
    }

    /// RFC 5936 section 2.2.2: the question comes back in the first message and may come back in others.
    fn check_question(&self, message: &[u8], questions: u16, first: bool) -> Result<(), TransferError> {
        match questions {
            0 if !first => Ok(()),
            1 if Question::read(message)?.0.is_for(&self.origin, self.rtype) => Ok(()),
            _ => Err(TransferError::Question),
        }
    }

    /// Reads one record of the answer section, whose owner has been read.
    fn read_record<'r>(
        &self,
        message: &[u8],
        record: message::Record,
        owner: &'r NameBuf,
        scratch: &'r mut Vec<u8>,
    ) -> Result<Record<'r>, TransferError> {
        let message::Record { rtype, class, ttl, rdata, length, .. } = record;
        if class != CLASS_IN {
            return Err(TransferError::Class(class));
        }
        if !rr::is_data_type(rtype) {
            return Err(TransferError::Type(rtype));
        }
        scratch.clear();
        rr::decompress(rtype, message, rdata, length, scratch)?;
        let is_zone_soa = rtype == rtype::SOA && owner.as_wire().eq_ignore_ascii_case(self.origin.as_wire());
        Ok(Record { owner, rtype, ttl, rdata: scratch, is_zone_soa })
    }
}

/// The owner of a record, which the next record often has, too.
struct Owner {
    /// Where the message holds it; 0, within the header, for nowhere.
    at: usize,
    name: NameBuf,
}

impl Owner {
    /// Reads the owner of a record within an origin, unless it points to where the one before was.
    fn read(&mut self, message: &[u8], start: usize, origin: &Name) -> Result<(), TransferError> {
        let pointer = match message.get(start..start + 2) {
            Some([high, low]) if *high >= 0xc0 => Some(usize::from(high & 0x3f) << 8 | usize::from(*low)),
            _ => None,
        };
        if self.at > 0 && pointer == Some(self.at) {
            return Ok(());
        }
        let (name, _) = NameBuf::read(message, start)?;
        let cut = name.as_wire().len().checked_sub(origin.as_wire().len());
        let is_within = |cut: usize| {
            name.as_wire()[cut..].eq_ignore_ascii_case(origin.as_wire()) && name::is_label_start(name.as_wire(), cut)
        };
        if !cut.is_some_and(is_within) {
            return Err(TransferError::OutOfZone(name.to_string().into()));
        }
        *self = Owner { at: pointer.unwrap_or(start), name };
        Ok(())
    }
}
