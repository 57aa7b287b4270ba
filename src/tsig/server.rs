//! The side that answers: opening signed requests, signing responses, refusing what is not right.
//!
//! Invariants: a request without TSIG record passes untouched and unanswered, and so does a response, for answering those
//! would make loops; only an accepted request gives a signer.
//!
//! Cost: O(1) for requests without records, O(records) for others, O(bytes) of hashing for signed ones with a known
//! key. A rejection allocates.

use super::key::{Key, Keyring, Tag};
use super::record::{self, Coverage, Stamp, digest_prior, number16};
use super::{FUDGE_SECONDS, HEADER_BYTES, TsigError, code, rcode};
use crate::name::{self, Name, NameBuf};
use crate::rr::{self, rtype};
use std::sync::Arc;

/// Header flags (RFC 1035 section 4.1.1), in their first octet: response,
const FLAG_QR: u8 = 0x80;
/// the opcode,
const OPCODE: u8 = 0x78;
/// recursion desired.
const FLAG_RD: u8 = 0x01;
/// The DO flag in the TTL of an OPT record (RFC 6891 section 6.1.3).
const FLAG_DO: u32 = 0x8000;
/// What our OPT record says of the requests that are taken: one frame (RFC 9715 appendix A).
const PAYLOAD_BYTES: u16 = 1232;

//--- Opening ---

/// What a request turned out to be.
pub enum Opened {
    /// It has no TSIG record.
    Unsigned,
    /// Its signature is right. The message now ends at `length`, without the TSIG record.
    Signed { length: usize, signer: Signer },
    /// It is not to be carried out; the rejection writes the response.
    Rejected(Rejection),
}

/// Whether [`open_request`] would find anything to do; for callers whose message cannot be changed in place.
pub fn is_signed(message: &[u8]) -> bool {
    is_request(message) && !matches!(record::locate(message), Ok(None))
}

/// Whether a message is one that may be answered.
fn is_request(message: &[u8]) -> bool {
    message.len() >= HEADER_BYTES && message[2] & FLAG_QR == 0
}

/// Looks for a TSIG record and checks it, in the order of RFC 8945 section 5.2: place and form, key, MAC, time. Only
/// an accepted request is changed: the count of its additional records.
pub fn open_request(message: &mut [u8], keys: &Keyring, now: u64) -> Opened {
    if !is_request(message) {
        return Opened::Unsigned;
    }
    match record::locate(message).map(|found| found.map(|start| open_signed(message, start, keys, now))) {
        Ok(None) => Opened::Unsigned,
        Ok(Some(Ok(opened))) => {
            record::uncount(message);
            opened
        }
        Ok(Some(Err(rejection))) => Opened::Rejected(rejection),
        Err(error) => Opened::Rejected(Rejection { error, verdict: Verdict::Form }),
    }
}

/// Checks the TSIG record that begins at a position.
fn open_signed(message: &[u8], start: usize, keys: &Keyring, now: u64) -> Result<Opened, Rejection> {
    let form = |error| Rejection { error, verdict: Verdict::Form };
    let tsig = record::read(message, start).map_err(form)?;
    let original_id = tsig.stamp.original_id;
    // RFC 8945 section 5.3.2: with a key or MAC that is not right, the response is not signed.
    let unsigned = |error, code| {
        let names = Box::new((tsig.key, tsig.algorithm));
        Rejection { error, verdict: Verdict::Unsigned { code, names, original_id, now } }
    };
    let key = keys.get(tsig.key.as_wire()).filter(|key| tsig.is_of(key));
    let key = key.ok_or_else(|| unsigned(TsigError::UnknownKey, code::BADKEY))?;
    match tsig.verify(key, key.begin(), &message[..start], Coverage::Record) {
        Ok(()) => {}
        Err(TsigError::BadSignature) => return Err(unsigned(TsigError::BadSignature, code::BADSIG)),
        Err(error) => return Err(form(error)),
    }
    let signer = Signer { key: key.clone(), prior: Tag::new(tsig.tag), original_id, coverage: Coverage::Record };
    match tsig.check_time(now) {
        Ok(()) => Ok(Opened::Signed { length: start, signer }),
        Err(error) => {
            let Stamp { time, fudge, .. } = tsig.stamp;
            Err(Rejection { error, verdict: Verdict::Time { signer: Box::new(signer), time, fudge, now } })
        }
    }
}

//--- Signer ---

/// Signs the response to one request, message by message.
#[derive(Clone)]
pub struct Signer {
    key: Arc<Key>,
    /// The MAC of the request, then that of the last message.
    prior: Tag,
    original_id: u16,
    coverage: Coverage,
}

impl Signer {
    /// The name of the key that signed the request.
    pub fn key(&self) -> &Name {
        &self.key.name
    }

    /// How many octets to leave free behind a message.
    pub fn overhead(&self) -> usize {
        record::overhead(&self.key)
    }

    /// Appends a TSIG record to the message at the front of a buffer and returns the new length. `None`, with nothing
    /// done, when there is no room for it. Every message of a longer response is to be signed (RFC 8945 section 5.3.1).
    pub fn sign(&mut self, buffer: &mut [u8], length: usize, now: u64) -> Option<usize> {
        let stamp =
            Stamp { time: now, fudge: FUDGE_SECONDS, original_id: self.original_id, error: code::NOERROR, other: &[] };
        self.seal(buffer, length, &stamp)
    }

    /// Signs with these fields in the record.
    fn seal(&mut self, buffer: &mut [u8], length: usize, stamp: &Stamp) -> Option<usize> {
        let mut mac = self.key.begin();
        digest_prior(&mut mac, &self.prior);
        let (end, tag) = record::seal(&self.key, mac, (buffer, length), stamp, self.coverage)?;
        self.prior = tag;
        self.coverage = Coverage::Timers;
        Some(end)
    }
}

//--- Rejection ---

/// A request that is not carried out: why, and how to answer it.
pub struct Rejection {
    pub error: TsigError,
    verdict: Verdict,
}

/// The forms of a rejection.
enum Verdict {
    /// FORMERR, without TSIG record.
    Form,
    /// BADKEY or BADSIG, with a record that has no MAC.
    Unsigned { code: u16, names: Box<(NameBuf, NameBuf)>, original_id: u16, now: u64 },
    /// BADTIME, signed.
    Time { signer: Box<Signer>, time: u64, fudge: u16, now: u64 },
}

impl Rejection {
    /// The response code.
    pub fn rcode(&self) -> u16 {
        match self.verdict {
            Verdict::Form => rcode::FORMERR,
            Verdict::Unsigned { .. } | Verdict::Time { .. } => rcode::NOTAUTH,
        }
    }

    /// Writes the whole response to the rejected request, question and OPT record included, and returns its length and
    /// response code. 1232 octets hold any; with less room there may be the header alone, or nothing without room for it.
    pub fn write(&self, request: &[u8], out: &mut [u8]) -> (usize, u16) {
        let rcode = self.rcode();
        let whole = write_response(request, rcode, out).and_then(|length| self.append(out, length));
        (whole.or_else(|| write_header(request, rcode, out)).unwrap_or(0), rcode)
    }

    /// Appends the TSIG record that goes with the error (RFC 8945 section 5.3.2).
    fn append(&self, out: &mut [u8], length: usize) -> Option<usize> {
        match &self.verdict {
            Verdict::Form => Some(length),
            Verdict::Unsigned { code, names, original_id, now } => {
                let stamp =
                    Stamp { time: *now, fudge: FUDGE_SECONDS, original_id: *original_id, error: *code, other: &[] };
                record::append(out, length, (names.0.as_wire(), names.1.as_wire()), &stamp, &[])
            }
            Verdict::Time { signer, time, fudge, now } => {
                // RFC 8945 section 5.2.3: the client's time and fudge, so that it accepts the MAC; ours beside it.
                let ours = record::time_octets(*now);
                let stamp = Stamp {
                    time: *time,
                    fudge: *fudge,
                    original_id: signer.original_id,
                    error: code::BADTIME,
                    other: &ours,
                };
                (**signer).clone().seal(out, length, &stamp)
            }
        }
    }
}

/// Writes a header without any counts.
fn write_header(request: &[u8], rcode: u16, out: &mut [u8]) -> Option<usize> {
    let head = request.get(..HEADER_BYTES)?;
    let opcode = head[2] & OPCODE;
    // RFC 8906 section 3.1.4: RD has a known meaning in queries only.
    let recursion = if opcode == 0 { head[2] & FLAG_RD } else { 0 };
    let header = out.get_mut(..HEADER_BYTES)?;
    header.fill(0);
    header[..4].copy_from_slice(&[head[0], head[1], FLAG_QR | opcode | recursion, rcode as u8]);
    Some(HEADER_BYTES)
}

/// Writes header, question and OPT record, as far as the request has them. `None` without enough room.
fn write_response(request: &[u8], rcode: u16, out: &mut [u8]) -> Option<usize> {
    let mut length = write_header(request, rcode, out)?;
    let mut put = |bytes: &[u8]| {
        out.get_mut(length..length + bytes.len())?.copy_from_slice(bytes);
        length += bytes.len();
        Some(())
    };
    let question = question(request);
    let opt = find_opt(request);
    put(question.unwrap_or_default())?;
    if let Some(ttl) = opt {
        // RFC 6891 section 7: version 0, no options; DO as it came (RFC 3225 section 3).
        put(&[0])?;
        put(&rtype::OPT.to_be_bytes())?;
        put(&PAYLOAD_BYTES.to_be_bytes())?;
        put(&(ttl & FLAG_DO).to_be_bytes())?;
        put(&[0, 0])?;
    }
    out[5] = u8::from(question.is_some());
    out[11] = u8::from(opt.is_some());
    Some(length)
}

/// The one question of a request, as it stands there.
fn question(request: &[u8]) -> Option<&[u8]> {
    if number16(request, 4) != 1 {
        return None;
    }
    let (_, end) = NameBuf::read_plain(request, HEADER_BYTES).ok()?;
    request.get(HEADER_BYTES..end + 4)
}

/// The TTL field of the first OPT record in a request of one question.
fn find_opt(request: &[u8]) -> Option<u32> {
    let mut position = HEADER_BYTES + question(request)?.len();
    for _ in 0..u32::from(number16(request, 6)) + u32::from(number16(request, 8)) {
        position = rr::skip_record(request, position)?;
    }
    for _ in 0..number16(request, 10) {
        let (rtype, _, ttl, start, length) = rr::read_fixed(request, name::skip(request, position)?)?;
        if rtype == rtype::OPT {
            return Some(ttl);
        }
        position = start + length;
    }
    None
}
