//! The TSIG record: where it stands, what it says (RFC 8945 section 4.2), and what its MAC covers (section 4.3).
//!
//! Cost: finding it is O(records) of the message; all else O(bytes).

use super::TsigError;
use super::key::{Key, Mac, Tag};
use crate::message::{HEADER_BYTES, Header, Records, Section};
use crate::name::NameBuf;
use crate::rr::{self, rtype};

/// Class ANY (RFC 1035 section 3.2.5), that of every TSIG record.
const CLASS_ANY: u16 = 255;
/// Octets of a record behind its owner name, and of TSIG RDATA, that always are there: type, class, TTL, length; time,
/// fudge, MAC size; original id, error, length of other data.
pub(super) const FIXED_BYTES: usize = 10 + 10 + 6;
/// Octets of the time, 48 bits.
const TIME_BYTES: usize = 6;

/// Fields of the record beside key and MAC.
#[derive(Clone, Copy)]
pub(super) struct Stamp<'a> {
    /// Time at which the message was signed, in seconds since 1970.
    pub time: u64,
    pub fudge: u16,
    pub original_id: u16,
    pub error: u16,
    /// Other data; with BADTIME, the server's time.
    pub other: &'a [u8],
}

/// A record that was read.
pub(super) struct Tsig<'a> {
    /// Names in canonical form.
    pub key: NameBuf,
    pub algorithm: NameBuf,
    pub stamp: Stamp<'a>,
    pub tag: &'a [u8],
}

/// Part of the record that a MAC covers.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Coverage {
    /// All its fields (RFC 8945 section 4.3.3).
    Record,
    /// Time and fudge, behind the first message of a response (section 5.3.1).
    Timers,
}

/// The six octets of a time.
pub(super) fn time_octets(time: u64) -> [u8; TIME_BYTES] {
    let [_, _, octets @ ..] = time.to_be_bytes();
    octets
}

/// Reads the six octets of a time.
pub(super) fn read_time(octets: &[u8]) -> Option<u64> {
    let octets: [u8; TIME_BYTES] = octets.try_into().ok()?;
    Some(octets.iter().fold(0, |time, octet| time << 8 | u64::from(*octet)))
}

//--- Reading ---

/// Finds the TSIG record and returns the offset at which it begins. `None` when there is none, which is also said of a
/// message that falls apart before one is met: whoever reads on will find that.
///
/// RFC 8945 section 5.2: it is the last record of the additional section, and there is only one. Bytes behind it would
/// be nobody's, so there must be none.
pub(super) fn locate(message: &[u8]) -> Result<Option<usize>, TsigError> {
    let Some(mut records) = Records::new(message) else { return Ok(None) };
    let Some(tsig) = records.by_ref().map_while(Result::ok).find(|record| record.rtype == rtype::TSIG) else {
        return Ok(None);
    };
    let is_last = tsig.section == Section::Additional && records.is_done() && tsig.end() == message.len();
    if is_last { Ok(Some(tsig.owner)) } else { Err(TsigError::Malformed) }
}

/// Reads the record that begins at a position; `None` when it is not as RFC 8945 section 4.2 wants it.
pub(super) fn read(message: &[u8], start: usize) -> Option<Tsig<'_>> {
    let (key, fixed) = NameBuf::read(message, start).ok()?;
    let (_, class, ttl, start, length) = rr::read_fixed(message, fixed)?;
    if class != CLASS_ANY || ttl != 0 {
        return None;
    }
    let (algorithm, end) = NameBuf::read_plain(&message[..start + length], start).ok()?;
    let (head, rest) = message[end..start + length].split_at_checked(10)?;
    let number = |octets: &[u8], at: usize| u16::from_be_bytes([octets[at], octets[at + 1]]);
    let (tag, rest) = rest.split_at_checked(usize::from(number(head, 8)))?;
    let (tail, other) = rest.split_at_checked(6)?;
    if other.len() != usize::from(number(tail, 4)) {
        return None;
    }
    let stamp = Stamp {
        time: read_time(&head[..TIME_BYTES])?,
        fudge: number(head, 6),
        original_id: number(tail, 0),
        error: number(tail, 2),
        other,
    };
    Some(Tsig { key: key.to_lowercase(), algorithm: algorithm.to_lowercase(), stamp, tag })
}

impl Tsig<'_> {
    /// Returns true if the record names this key, and its algorithm.
    pub fn is_of(&self, key: &Key) -> bool {
        self.key.as_wire() == key.name.as_wire() && self.algorithm.as_wire() == key.algorithm.wire()
    }

    /// Checks size and value of the MAC of the message that ends where the record begins. `mac` has taken what goes
    /// before the message.
    pub fn verify(&self, key: &Key, mut mac: Mac, message: &[u8], coverage: Coverage) -> Result<(), TsigError> {
        if !key.algorithm.allows_tag(self.tag.len()) {
            return Err(TsigError::MacSize(self.tag.len()));
        }
        digest_message(&mut mac, &uncounted(message).ok_or(TsigError::Malformed)?, message, &self.stamp);
        digest_stamp(&mut mac, key, &self.stamp, coverage);
        if mac.verify(self.tag) { Ok(()) } else { Err(TsigError::BadSignature) }
    }

    /// Checks the time, which may differ by the sender's fudge (RFC 8945 section 5.2.3).
    pub fn check_time(&self, now: u64) -> Result<(), TsigError> {
        let Stamp { time, fudge, .. } = self.stamp;
        if now.abs_diff(time) <= u64::from(fudge) {
            Ok(())
        } else {
            Err(TsigError::BadTime { signed: time, now, fudge })
        }
    }
}

/// The header of a message as it was before its TSIG record came (RFC 8945 section 4.3.2).
fn uncounted(message: &[u8]) -> Option<Header> {
    let mut header = Header::read(message)?;
    let additional = &mut header.records[Section::Additional as usize];
    *additional = additional.checked_sub(1)?;
    Some(header)
}

/// Takes one off the count of additional records, for the TSIG record that is cut off.
pub(super) fn uncount(message: &mut [u8]) {
    if let Some(header) = uncounted(message) {
        message[..HEADER_BYTES].copy_from_slice(&header.to_bytes());
    }
}

//--- What MACs cover ---

/// Takes an earlier MAC with its length (RFC 8945 section 4.3.1), as it was sent, be it truncated.
pub(super) fn digest_prior(mac: &mut Mac, prior: &[u8]) {
    mac.update(&(prior.len() as u16).to_be_bytes());
    mac.update(prior);
}

/// Takes a message, its header without its TSIG record, under the id that its first sender gave it (RFC 8945 section 4.3.2).
fn digest_message(mac: &mut Mac, header: &Header, message: &[u8], stamp: &Stamp) {
    mac.update(&Header { id: stamp.original_id, ..*header }.to_bytes());
    mac.update(&message[HEADER_BYTES..]);
}

/// Takes what the MAC covers of the record itself.
fn digest_stamp(mac: &mut Mac, key: &Key, stamp: &Stamp, coverage: Coverage) {
    if coverage == Coverage::Record {
        mac.update(key.name.as_wire());
        mac.update(&CLASS_ANY.to_be_bytes());
        // The TTL.
        mac.update(&[0; 4]);
        mac.update(key.algorithm.wire());
    }
    mac.update(&time_octets(stamp.time));
    mac.update(&stamp.fudge.to_be_bytes());
    if coverage == Coverage::Record {
        mac.update(&stamp.error.to_be_bytes());
        mac.update(&(stamp.other.len() as u16).to_be_bytes());
        mac.update(stamp.other);
    }
}

//--- Writing ---

/// The most octets that [`seal`] appends with a key, other data aside.
pub(super) fn overhead(key: &Key) -> usize {
    key.name.as_wire().len() + key.algorithm.wire().len() + FIXED_BYTES + key.algorithm.tag_bytes()
}

/// Signs the message at the front of a buffer. `mac` has taken what goes before the message. Returns the new length and
/// the MAC; `None`, with nothing done, when the record does not fit.
pub(super) fn seal(
    key: &Key,
    mut mac: Mac,
    (buffer, length): (&mut [u8], usize),
    stamp: &Stamp,
    coverage: Coverage,
) -> Option<(usize, Tag)> {
    let message = buffer.get(..length)?;
    digest_message(&mut mac, &Header::read(message)?, message, stamp);
    digest_stamp(&mut mac, key, stamp, coverage);
    let tag = mac.finish();
    let end = append(buffer, length, (key.name.as_wire(), key.algorithm.wire()), stamp, &tag)?;
    Some((end, tag))
}

/// Appends a record to a message with a header, and counts it. `None`, with nothing done, when it does not fit.
pub(super) fn append(
    buffer: &mut [u8],
    length: usize,
    (key, algorithm): (&[u8], &[u8]),
    stamp: &Stamp,
    tag: &[u8],
) -> Option<usize> {
    let end = length + key.len() + algorithm.len() + FIXED_BYTES + tag.len() + stamp.other.len();
    let mut header = Header::read(buffer)?;
    let additional = &mut header.records[Section::Additional as usize];
    *additional = additional.checked_add(1)?;
    let mut room = buffer.get_mut(length..end)?;
    let rdata = end - length - key.len() - 10;
    let parts: [&[u8]; 14] = [
        key,
        &rtype::TSIG.to_be_bytes(),
        &CLASS_ANY.to_be_bytes(),
        // The TTL.
        &[0; 4],
        &(rdata as u16).to_be_bytes(),
        algorithm,
        &time_octets(stamp.time),
        &stamp.fudge.to_be_bytes(),
        &(tag.len() as u16).to_be_bytes(),
        tag,
        &stamp.original_id.to_be_bytes(),
        &stamp.error.to_be_bytes(),
        &(stamp.other.len() as u16).to_be_bytes(),
        stamp.other,
    ];
    for part in parts {
        let (front, behind) = room.split_at_mut(part.len());
        front.copy_from_slice(part);
        room = behind;
    }
    buffer[..HEADER_BYTES].copy_from_slice(&header.to_bytes());
    Some(end)
}
