//! Messages as the tests read them: every record with uncompressed RDATA, nothing interpreted.

use super::record::{Part, layout};
use super::{Dname, Record, rtype};

/// A decoded message.
#[derive(Clone, Debug)]
pub struct Message {
    pub id: u16,
    /// The two octets of flags.
    pub flags: u16,
    /// Octets of the question section.
    pub question: Vec<u8>,
    pub answer: Vec<Record>,
    pub authority: Vec<Record>,
    /// Additional section without the OPT record.
    pub additional: Vec<Record>,
    pub edns: Option<Edns>,
    /// Octets of the whole message.
    pub size: usize,
}

/// The OPT record (RFC 6891 section 6.1.2).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edns {
    pub payload: u16,
    pub extended_rcode: u8,
    pub version: u8,
    pub dnssec_ok: bool,
    pub options: Vec<u8>,
}

impl Message {
    /// Decodes a message; an error says what is broken.
    pub fn decode(bytes: &[u8]) -> Result<Message, String> {
        let mut reader = Reader { bytes, position: 0 };
        let id = reader.short()?;
        let flags = reader.short()?;
        let counts = [reader.short()?, reader.short()?, reader.short()?, reader.short()?];
        let question_start = reader.position;
        for _ in 0..counts[0] {
            reader.name()?;
            reader.take(4)?;
        }
        let question = bytes[question_start..reader.position].to_vec();
        let mut edns = None;
        let mut sections = [Vec::new(), Vec::new(), Vec::new()];
        for (section, count) in sections.iter_mut().zip(&counts[1..]) {
            for _ in 0..*count {
                if let Some(record) = reader.record(&mut edns)? {
                    section.push(record);
                }
            }
        }
        if reader.position != bytes.len() {
            return Err(format!("{} octets after the message", bytes.len() - reader.position));
        }
        let [answer, authority, additional] = sections;
        Ok(Message { id, flags, question, answer, authority, additional, edns, size: bytes.len() })
    }

    /// Response code without the part in EDNS.
    pub fn rcode(&self) -> u8 {
        (self.flags & 0x0f) as u8
    }

    /// Authoritative answer.
    pub fn is_authoritative(&self) -> bool {
        self.flags & 0x0400 != 0
    }

    /// Truncated.
    pub fn is_truncated(&self) -> bool {
        self.flags & 0x0200 != 0
    }
}

/// A place in a message.
struct Reader<'a> {
    bytes: &'a [u8],
    position: usize,
}

impl<'a> Reader<'a> {
    fn take(&mut self, count: usize) -> Result<&'a [u8], String> {
        let end = self.position + count;
        let part = self.bytes.get(self.position..end).ok_or_else(|| format!("message ends before octet {end}"))?;
        self.position = end;
        Ok(part)
    }

    fn short(&mut self) -> Result<u16, String> {
        let octets = self.take(2)?;
        Ok(u16::from_be_bytes([octets[0], octets[1]]))
    }

    fn name(&mut self) -> Result<Dname, String> {
        let mut wire = Vec::new();
        let mut position = self.position;
        let mut end = None;
        loop {
            let length = *self.bytes.get(position).ok_or("name beyond the message")?;
            if length >= 0xc0 {
                let low = *self.bytes.get(position + 1).ok_or("pointer beyond the message")?;
                let target = usize::from(length & 0x3f) << 8 | usize::from(low);
                if target >= position {
                    return Err(format!("pointer at {position} does not lead back"));
                }
                end.get_or_insert(position + 2);
                position = target;
                continue;
            }
            let next = position + 1 + usize::from(length);
            wire.extend_from_slice(self.bytes.get(position..next).ok_or("label beyond the message")?);
            if wire.len() > 255 {
                return Err("name above 255 octets".to_string());
            }
            position = next;
            if length == 0 {
                self.position = end.unwrap_or(position);
                return Ok(Dname(wire));
            }
        }
    }

    fn record(&mut self, edns: &mut Option<Edns>) -> Result<Option<Record>, String> {
        let owner = self.name()?;
        let rtype = self.short()?;
        let class = self.short()?;
        let ttl = u32::from(self.short()?) << 16 | u32::from(self.short()?);
        let length = usize::from(self.short()?);
        let end = self.position + length;
        if rtype == rtype::OPT {
            if owner != Dname::root() || edns.is_some() {
                return Err("OPT not at the root, or twice".to_string());
            }
            let options = self.take(length)?.to_vec();
            let dnssec_ok = ttl & 0x8000 != 0;
            let (extended_rcode, version) = ((ttl >> 24) as u8, (ttl >> 16) as u8);
            *edns = Some(Edns { payload: class, extended_rcode, version, dnssec_ok, options });
            return Ok(None);
        }
        if class != 1 && class != 3 {
            return Err(format!("class {class} at {owner}"));
        }
        let mut rdata = Vec::new();
        if length > 0 {
            for part in layout(rtype) {
                match part {
                    Part::Octets(count) => rdata.extend_from_slice(self.take(*count)?),
                    Part::Text => {
                        let count = usize::from(*self.bytes.get(self.position).ok_or("string beyond the message")?);
                        rdata.extend_from_slice(self.take(1 + count)?);
                    }
                    Part::Name => rdata.extend_from_slice(&self.name()?.0),
                }
            }
        }
        let rest = end.checked_sub(self.position).ok_or_else(|| format!("RDATA of {owner} is too short"))?;
        rdata.extend_from_slice(self.take(rest)?);
        Ok(Some(Record { owner, rtype, ttl, rdata }))
    }
}
