//! Frames: how everything that is appended to a file is told from what a crash left behind.
//!
//! A file of frames begins with a header: magic, format version, generation, base, CRC. A journal belongs to the
//! snapshot of its generation; what stands before its base led up to that snapshot, what follows leads on. A frame is
//! the length of its body, the body's CRC, and the body: kind, time, payload. All numbers are big-endian.
//!
//! Invariant: what [`Frames`] yields was written whole. Reading stops at the first frame that was not, so a torn tail,
//! or the zeros that a power failure leaves, end the file and spoil nothing before them.
//!
//! Cost: O(bytes).

use crate::zone::ByteReader;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Octets with which a file of frames begins.
const MAGIC: &[u8; 8] = b"AGGFRAME";
/// The format that this program writes and reads.
const VERSION: u32 = 1;
/// Bytes of a header.
pub const HEADER_BYTES: u64 = 32;
/// Length and CRC before a body.
const PREFIX_BYTES: usize = 8;
/// Kind and time, which every body has.
const FIXED_BODY_BYTES: usize = 9;

/// Kind of a frame, with the octet that stands for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A difference to the version before.
    Delta = 1,
    /// A primary has confirmed the version.
    Refreshed = 2,
    /// States with which regions were last published.
    Regions = 3,
    /// Drains in force.
    Drains = 4,
    /// Pins in force: the regions that are taken back to earlier contents.
    Pins = 5,
    /// A difference to the version of a region before, with its causes.
    Version = 6,
    /// The trees that zones were last made of.
    Trees = 7,
    /// Drains of shares of the clients, which belong to the frame of drains that follows.
    Shares = 8,
}

impl Kind {
    /// The kind that an octet stands for.
    fn of(code: u8) -> Option<Kind> {
        use Kind::{Delta, Drains, Pins, Refreshed, Regions, Shares, Trees, Version};
        let all = [Delta, Refreshed, Regions, Drains, Pins, Version, Trees, Shares];
        all.into_iter().find(|kind| *kind as u8 == code)
    }
}

/// Error: a file of frames cannot be used at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HeaderError {
    #[error("its header is damaged")]
    Damaged,
    #[error("it has format {0}, and this program reads format {VERSION}")]
    Version(u32),
}

/// Header of a file of frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    pub generation: u64,
    /// Offset of the first frame that follows the snapshot.
    pub base: u64,
}

impl Header {
    /// The header of a file whose first frames led to the snapshot.
    pub fn before(generation: u64, carried_bytes: u64) -> Header {
        Header { generation, base: HEADER_BYTES + carried_bytes }
    }

    /// The bytes at the start of the file.
    pub fn to_bytes(self) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        bytes.extend_from_slice(&VERSION.to_be_bytes());
        bytes.extend_from_slice(&self.generation.to_be_bytes());
        bytes.extend_from_slice(&self.base.to_be_bytes());
        bytes.extend_from_slice(&crc32fast::hash(&bytes).to_be_bytes());
        bytes
    }

    /// Reads the start of a file.
    pub fn read(bytes: &[u8]) -> Result<Header, HeaderError> {
        let mut reader = ByteReader(bytes);
        let mut read = || {
            let magic = reader.take(8)? == MAGIC;
            let (version, generation, base) = (reader.u32()?, reader.u64()?, reader.u64()?);
            let sound = magic && reader.u32()? == crc32fast::hash(&bytes[..HEADER_BYTES as usize - 4]);
            (sound && base >= HEADER_BYTES).then_some((version, Header { generation, base }))
        };
        match read().ok_or(HeaderError::Damaged)? {
            (VERSION, header) => Ok(header),
            (other, _) => Err(HeaderError::Version(other)),
        }
    }
}

//--- Writing ---

/// Appends a frame.
pub fn push(out: &mut Vec<u8>, kind: Kind, time: SystemTime, payload: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    out.extend_from_slice(&[0; PREFIX_BYTES]);
    out.push(kind as u8);
    out.extend_from_slice(&to_millis(time).to_be_bytes());
    payload(out);
    let body = start + PREFIX_BYTES;
    // A delta of 4 GiB does not exist: a zone is refused long before.
    let length = (out.len() - body) as u32;
    let crc = crc32fast::hash(&out[body..]);
    out[start..start + 4].copy_from_slice(&length.to_be_bytes());
    out[start + 4..body].copy_from_slice(&crc.to_be_bytes());
}

//--- Reading ---

/// One frame of a file.
#[derive(Debug)]
pub struct Frame<'a> {
    /// Offset of the frame in the bytes.
    pub start: usize,
    /// `None` for kinds that this program does not know.
    pub kind: Option<Kind>,
    pub time: SystemTime,
    pub payload: &'a [u8],
}

/// The frames in bytes, up to the first that is not whole.
pub struct Frames<'a> {
    bytes: &'a [u8],
    /// Offset of the next frame: after the last, the end of what is good.
    pub end: usize,
}

impl<'a> Frames<'a> {
    /// Reads from a position on.
    pub fn new(bytes: &'a [u8], start: usize) -> Frames<'a> {
        Frames { bytes, end: start }
    }

    /// Returns true if everything was read.
    pub fn is_whole(&self) -> bool {
        self.end == self.bytes.len()
    }
}

impl<'a> Iterator for Frames<'a> {
    type Item = Frame<'a>;

    fn next(&mut self) -> Option<Frame<'a>> {
        let mut reader = ByteReader(self.bytes.get(self.end..)?);
        let (length, crc) = (reader.u32()? as usize, reader.u32()?);
        let body = reader.take(length)?;
        if length < FIXED_BODY_BYTES || crc32fast::hash(body) != crc {
            return None;
        }
        let start = self.end;
        self.end += PREFIX_BYTES + length;
        let mut reader = ByteReader(body);
        let (kind, time) = (Kind::of(reader.u8()?), from_millis(reader.u64()?));
        Some(Frame { start, kind, time, payload: reader.0 })
    }
}

//--- Times ---

/// Milliseconds since 1970; earlier times are 1970.
pub fn to_millis(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH).map_or(0, |since| u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}

/// The time of milliseconds since 1970; what the system cannot express is 1970.
pub fn from_millis(millis: u64) -> SystemTime {
    UNIX_EPOCH.checked_add(Duration::from_millis(millis)).unwrap_or(UNIX_EPOCH)
}

/// Frames as bytes, and where each begins in them.
#[derive(Default)]
pub struct Encoded {
    pub bytes: Vec<u8>,
    pub places: Vec<(u64, Kind)>,
}

impl Encoded {
    /// Adds a frame.
    pub fn push(&mut self, kind: Kind, time: SystemTime, payload: impl FnOnce(&mut Vec<u8>)) {
        self.places.push((self.bytes.len() as u64, kind));
        push(&mut self.bytes, kind, time, payload);
    }

    /// Adds frames.
    pub fn extend(&mut self, more: &Encoded) {
        let before = self.bytes.len() as u64;
        self.places.extend(more.places.iter().map(|(at, kind)| (before + at, *kind)));
        self.bytes.extend_from_slice(&more.bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file() -> Vec<u8> {
        let mut bytes = Header { generation: 7, base: HEADER_BYTES }.to_bytes();
        for (kind, payload) in [(Kind::Delta, "one"), (Kind::Refreshed, ""), (Kind::Regions, "three")] {
            push(&mut bytes, kind, from_millis(5), |out| out.extend_from_slice(payload.as_bytes()));
        }
        bytes
    }

    /// The payloads that are read, and where they end.
    fn read(bytes: &[u8]) -> (Vec<&[u8]>, usize) {
        let mut frames = Frames::new(bytes, HEADER_BYTES as usize);
        let payloads = frames.by_ref().map(|frame| frame.payload).collect();
        (payloads, frames.end)
    }

    #[test]
    fn frames_come_back() {
        let bytes = file();
        assert_eq!(Header::read(&bytes), Ok(Header { generation: 7, base: HEADER_BYTES }));
        let frames: Vec<_> = Frames::new(&bytes, 32).map(|frame| (frame.kind.unwrap(), frame.time)).collect();
        assert_eq!(frames, [Kind::Delta, Kind::Refreshed, Kind::Regions].map(|kind| (kind, from_millis(5))));
        assert_eq!(read(&bytes), (vec![&b"one"[..], b"", b"three"], bytes.len()));
    }

    #[test]
    fn a_cut_or_damaged_frame_ends_the_file() {
        let bytes = file();
        let ends = [32, 32 + 20, 32 + 37, bytes.len()];
        for cut in 0..=bytes.len() {
            let whole = ends.iter().filter(|end| **end <= cut).count().saturating_sub(1);
            let (payloads, end) = read(&bytes[..cut]);
            assert_eq!(payloads.len(), whole, "cut at {cut}");
            assert_eq!(end, ends[whole]);
            assert_eq!(Header::read(&bytes[..cut]).is_ok(), cut >= 32);
        }
        for at in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 0x10;
            let before = ends.iter().filter(|end| **end <= at).count().saturating_sub(1);
            assert!(
                if at < 32 { Header::read(&damaged).is_err() } else { read(&damaged).0.len() == before },
                "at {at}"
            );
        }
        let zeros = [&bytes[..], &[0; 100]].concat();
        assert_eq!(read(&zeros), read(&bytes));
    }

    #[test]
    fn formats_of_other_programs_are_told() {
        let mut bytes = file();
        bytes[11] = 2;
        let crc = crc32fast::hash(&bytes[..28]);
        bytes[28..32].copy_from_slice(&crc.to_be_bytes());
        assert_eq!(Header::read(&bytes), Err(HeaderError::Version(2)));
    }

    #[test]
    fn times_that_do_not_exist_are_some_time() {
        assert_eq!(to_millis(UNIX_EPOCH - Duration::from_secs(1)), 0);
        let _ = from_millis(u64::MAX);
    }
}
