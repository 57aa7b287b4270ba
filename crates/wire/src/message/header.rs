//! The header of a message: id, flags, response code, and the number of questions and records.
//!
//! Cost: O(1). RFC 1035 section 4.1.1.

/// Octets of the header.
pub const HEADER_BYTES: usize = 12;

/// A question (RFC 1035 section 4.1.1).
pub const OPCODE_QUERY: u8 = 0;
/// The announcement of a change (RFC 1996 section 3.1).
pub const OPCODE_NOTIFY: u8 = 4;

/// Flags beside the opcode and the response code.
pub mod flag {
    /// Response.
    pub const QR: u16 = 0x8000;
    /// Authoritative answer.
    pub const AA: u16 = 0x0400;
    /// Truncation.
    pub const TC: u16 = 0x0200;
    /// Recursion desired.
    pub const RD: u16 = 0x0100;
}

/// A header. What is read again is written as it was.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Header {
    pub id: u16,
    /// Flags, opcode and response code.
    pub bits: u16,
    pub questions: u16,
    /// Number of records, section by section: answer, authority, additional.
    pub records: [u16; 3],
}

impl Header {
    /// Reads the header of a message; `None` when it is cut off.
    #[inline]
    pub fn read(message: &[u8]) -> Option<Header> {
        let octets = message.first_chunk::<HEADER_BYTES>()?;
        let field = |at: usize| u16::from_be_bytes([octets[at], octets[at + 1]]);
        Some(Header { id: field(0), bits: field(2), questions: field(4), records: [field(6), field(8), field(10)] })
    }

    /// Returns true if all these flags are set.
    #[inline]
    pub fn has(&self, flags: u16) -> bool {
        self.bits & flags == flags
    }

    #[inline]
    pub fn opcode(&self) -> u8 {
        (self.bits >> 11 & 15) as u8
    }

    /// The response code, without the part that an OPT record may have.
    #[inline]
    pub fn rcode(&self) -> u16 {
        self.bits & 15
    }

    /// The octets.
    #[inline]
    pub fn to_bytes(self) -> [u8; HEADER_BYTES] {
        let mut octets = [0; HEADER_BYTES];
        octets[..2].copy_from_slice(&self.id.to_be_bytes());
        octets[2..4].copy_from_slice(&self.bits.to_be_bytes());
        octets[4..6].copy_from_slice(&self.questions.to_be_bytes());
        octets[6..8].copy_from_slice(&self.records[0].to_be_bytes());
        octets[8..10].copy_from_slice(&self.records[1].to_be_bytes());
        octets[10..].copy_from_slice(&self.records[2].to_be_bytes());
        octets
    }
}
