//! The meaning of the messages of a full zone transfer (RFC 5936), as a pure machine: bytes in, verdict out.
//!
//! Invariants: nothing leaves the reader before the closing SOA, and after an error the reader says `closed` for
//! ever. What counts as wrong ends the transfer: a message that is not ours, a record outside the zone or of another
//! class, data behind the end. What CNS does without harm is let pass: AA clear, no question behind the first
//! message, OPT in any message, equal records, compressed names in any RDATA.
//!
//! Cost: O(bytes) in time; the records in memory, uncompressed.

use crate::name::{self, Name, NameBuf};
use crate::rr::{self, CLASS_IN, rtype};
use crate::transfer::error::TransferError;
use crate::zone::{Loader, Soa};

/// Bytes of a message header (RFC 1035 section 4.1.1).
const HEADER_BYTES: usize = 12;
/// Bytes of a record between owner and RDATA: type, class, TTL, length.
const FIXED_BYTES: usize = 10;

/// Whether more messages must follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    More,
    Done,
}

/// What the reader waits for.
enum Stage {
    /// The first message.
    Start,
    /// Records, or the closing SOA, which must equal this RDATA.
    Records(Box<[u8]>, Soa),
    /// Nothing: the closing SOA was there.
    Complete(Soa),
    /// Nothing: an error was reported.
    Failed,
}

/// The reader of one transfer's messages.
pub struct AxfrReader {
    id: u16,
    stage: Stage,
    loader: Loader,
    scratch: Vec<u8>,
}

/// Reads big-endian numbers of a message in which they are known to be.
fn number16(message: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([message[at], message[at + 1]])
}

/// The query that asks for the zone, without the length in front.
///
/// RD is clear, and there is neither EDNS nor TSIG: CNS answers both, but needs neither.
pub fn write_query(origin: &Name, id: u16) -> Vec<u8> {
    let mut query = Vec::with_capacity(HEADER_BYTES + origin.as_wire().len() + 4);
    query.extend_from_slice(&id.to_be_bytes());
    query.extend_from_slice(&[0, 0, 0, 1, 0, 0, 0, 0, 0, 0]);
    query.extend_from_slice(origin.as_wire());
    query.extend_from_slice(&rtype::AXFR.to_be_bytes());
    query.extend_from_slice(&CLASS_IN.to_be_bytes());
    query
}

impl AxfrReader {
    /// Waits for the answer to [`write_query`].
    pub fn new(origin: Name, id: u16) -> AxfrReader {
        AxfrReader { id, stage: Stage::Start, loader: Loader::new(origin), scratch: Vec::new() }
    }

    /// Number of records taken so far.
    pub fn records(&self) -> u64 {
        self.loader.records()
    }

    /// Takes the next message.
    pub fn feed(&mut self, message: &[u8]) -> Result<Progress, TransferError> {
        let progress = self.read_message(message);
        if progress.is_err() {
            self.stage = Stage::Failed;
        }
        progress
    }

    /// Gives out the records of a complete transfer.
    pub fn finish(self) -> Result<(Soa, Loader), TransferError> {
        match self.stage {
            Stage::Complete(soa) => Ok((soa, self.loader)),
            _ => Err(TransferError::Closed),
        }
    }

    fn read_message(&mut self, message: &[u8]) -> Result<Progress, TransferError> {
        if matches!(self.stage, Stage::Failed | Stage::Complete(_)) {
            return Err(TransferError::Closed);
        }
        if message.len() < HEADER_BYTES {
            return Err(TransferError::Malformed("shorter than a header"));
        }
        self.check_header(message)?;
        let first = matches!(self.stage, Stage::Start);
        let mut position = self.read_question(message, first)?;
        let answers = number16(message, 6);
        if first && answers == 0 {
            return Err(TransferError::Malformed("the first message has no records"));
        }
        for _ in 0..answers {
            position = self.read_record(message, position)?;
        }
        // RFC 5936 sections 2.2.4 and 2.2.5: what stands in the other sections is no zone data.
        for _ in 0..u32::from(number16(message, 8)) + u32::from(number16(message, 10)) {
            position = skip_record(message, position)?;
        }
        if position != message.len() {
            return Err(TransferError::Malformed("bytes behind the last record"));
        }
        Ok(if matches!(self.stage, Stage::Complete(_)) { Progress::Done } else { Progress::More })
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
                let same = name.to_lowercase().as_wire() == self.loader.origin().as_wire();
                if same && number16(rest, 0) == rtype::AXFR && number16(rest, 2) == CLASS_IN {
                    Ok(end + 4)
                } else {
                    Err(TransferError::Question)
                }
            }
            _ => Err(TransferError::Question),
        }
    }

    /// Takes one record of the answer section and returns the position behind it.
    fn read_record(&mut self, message: &[u8], start: usize) -> Result<usize, TransferError> {
        if matches!(self.stage, Stage::Complete(_)) {
            return Err(TransferError::Malformed("records behind the closing SOA"));
        }
        let (owner, after) = NameBuf::read(message, start)?;
        let fixed = message.get(after..after + FIXED_BYTES).ok_or(TransferError::Malformed("a record is cut off"))?;
        let (rtype, class, length) = (number16(fixed, 0), number16(fixed, 2), usize::from(number16(fixed, 8)));
        let ttl = u32::from_be_bytes([fixed[4], fixed[5], fixed[6], fixed[7]]);
        let start = after + FIXED_BYTES;
        let end = start + length;
        if class != CLASS_IN {
            return Err(TransferError::Class(class));
        }
        let lower = owner.to_lowercase();
        let origin = self.loader.origin().as_wire();
        if name::suffix_offset(lower.as_wire(), origin).is_none() {
            return Err(TransferError::OutOfZone(owner.to_string().into()));
        }
        if !rr::is_data_type(rtype) {
            return Err(TransferError::Type(rtype));
        }
        self.scratch.clear();
        rr::decompress(rtype, message, start, length, &mut self.scratch)?;
        // An SOA below the apex is a stray record, not the end (the loader counts it).
        if rtype == rtype::SOA && lower.as_wire() == origin {
            self.read_soa(&owner, ttl)?;
        } else if matches!(self.stage, Stage::Start) {
            return Err(TransferError::Malformed("the first record is not the zone's SOA"));
        } else {
            self.loader.push(&owner, rtype, ttl, &self.scratch);
        }
        Ok(end)
    }

    /// Takes the zone's SOA, whose RDATA is in `scratch`: it opens the zone, or closes it.
    fn read_soa(&mut self, owner: &NameBuf, ttl: u32) -> Result<(), TransferError> {
        let rdata = &self.scratch;
        let soa = Soa::from_rdata(rdata).ok_or(TransferError::Malformed("the SOA is too short"))?;
        if let Stage::Records(opening, first) = &self.stage {
            // RFC 5936 section 2.2: both ends carry the same SOA, else the zone changed on the way.
            if rr::compare(rtype::SOA, opening, rdata).is_ne() {
                return Err(TransferError::ClosingSoa { first: first.serial, last: soa.serial });
            }
            self.stage = Stage::Complete(soa);
        } else {
            self.loader.push(owner, rtype::SOA, ttl, rdata);
            self.stage = Stage::Records(rdata.as_slice().into(), soa);
        }
        Ok(())
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
