//! Numbers and octets from the front of bytes that may be anything, as files have them: numbers are big-endian.
//!
//! Cost: O(1) for each.

use wire::name::{Name, NameBuf};

/// Numbers, bytes and names, taken from the front.
pub struct ByteReader<'a>(pub &'a [u8]);

impl<'a> ByteReader<'a> {
    /// Takes bytes.
    pub fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    /// Takes a fixed number of bytes.
    fn chunk<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (taken, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*taken)
    }

    /// Takes one octet.
    pub fn u8(&mut self) -> Option<u8> {
        self.chunk().map(u8::from_be_bytes)
    }

    /// Takes a number of two octets.
    pub fn u16(&mut self) -> Option<u16> {
        self.chunk().map(u16::from_be_bytes)
    }

    /// Takes a number of four octets.
    pub fn u32(&mut self) -> Option<u32> {
        self.chunk().map(u32::from_be_bytes)
    }

    /// Takes a number of eight octets.
    pub fn u64(&mut self) -> Option<u64> {
        self.chunk().map(u64::from_be_bytes)
    }

    /// Takes an uncompressed name, in lowercase.
    pub fn name(&mut self) -> Option<Name> {
        let (name, end) = NameBuf::read_plain(self.0, 0).ok()?;
        self.take(end).map(|_| name.to_name())
    }
}
