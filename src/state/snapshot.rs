//! Snapshots: one version of a zone in one file.
//!
//! The file: magic, format version, generation, time of the last confirmation, origin, the zone's image, and the CRC of
//! all that. It is written beside the one in use and put in its place in one step, so a snapshot is whole or it is not
//! there; the CRC is against what disks do on their own.
//!
//! Cost: O(bytes); writing holds one buffer, reading the file.

use super::disk::Disk;
use super::frame::{from_millis, to_millis};
use crate::zone::{ByteReader, IMAGE_FORMAT, ImageError, OLDEST_IMAGE_FORMAT, Zone};
use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::time::SystemTime;
use wire::name::Name;

/// Octets with which a snapshot begins.
const MAGIC: &[u8; 8] = b"AGGZONE\n";
/// The format that this program writes: it is that of the image, nothing else has changed.
const VERSION: u32 = IMAGE_FORMAT;
/// The format of the release before; from that on all are read.
const OLD_VERSION: u32 = OLDEST_IMAGE_FORMAT;
/// Bytes handed to the system at once.
pub const BUFFER_BYTES: usize = 1 << 20;
/// Bytes of the checksum.
const CRC_BYTES: usize = 4;

/// Error: a file is no usable snapshot.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SnapshotError {
    #[error("it is damaged (wrong checksum)")]
    Damaged,
    #[error(
        "it has format {0}, and this program reads formats {OLD_VERSION} to {VERSION}; it stays where it is, for a program that reads it, until \
         the zone is transferred"
    )]
    Version(u32),
    #[error("it holds the zone {0}")]
    Other(Name),
    #[error("it holds no zone: {0}")]
    Image(#[from] ImageError),
}

/// A snapshot as read.
#[derive(Debug)]
pub struct Snapshot {
    pub generation: u64,
    pub refreshed: SystemTime,
    pub zone: Zone,
}

/// Writes a snapshot into a new file, which has yet to be sent to the medium. Returns the file and its length.
pub fn write(disk: &Disk, path: &Path, generation: u64, refreshed: SystemTime, zone: &Zone) -> io::Result<(File, u64)> {
    let mut out = Output {
        disk,
        file: disk.create(path)?,
        buffer: Vec::with_capacity(BUFFER_BYTES),
        crc: crc32fast::Hasher::new(),
        length: 0,
    };
    out.write_all(MAGIC)?;
    out.write_all(&VERSION.to_be_bytes())?;
    out.write_all(&generation.to_be_bytes())?;
    out.write_all(&to_millis(refreshed).to_be_bytes())?;
    out.write_all(zone.origin.as_wire())?;
    zone.write_image(&mut out)?;
    out.flush()?;
    let crc = out.crc.clone().finalize();
    out.write_all(&crc.to_be_bytes())?;
    out.flush()?;
    Ok((out.file, out.length))
}

/// The generation that bytes claim, if they may be a snapshot.
pub fn generation(bytes: &[u8]) -> Option<u64> {
    let mut reader = ByteReader(bytes);
    reader.take(MAGIC.len())?;
    reader.u32()?;
    reader.u64()
}

/// Reads a snapshot of a zone.
pub fn read(zone: &Name, bytes: &[u8]) -> Result<Snapshot, SnapshotError> {
    let (body, crc) = bytes.split_last_chunk::<CRC_BYTES>().ok_or(SnapshotError::Damaged)?;
    if crc32fast::hash(body) != u32::from_be_bytes(*crc) {
        return Err(SnapshotError::Damaged);
    }
    let mut reader = ByteReader(body);
    let magic = reader.take(MAGIC.len()).is_some_and(|magic| magic == MAGIC);
    let version = reader.u32().filter(|_| magic).ok_or(SnapshotError::Damaged)?;
    if !(OLD_VERSION..=VERSION).contains(&version) {
        return Err(SnapshotError::Version(version));
    }
    let mut head = || {
        let (generation, refreshed) = (reader.u64()?, from_millis(reader.u64()?));
        Some((generation, refreshed, reader.name()?))
    };
    let (generation, refreshed, origin) = head().ok_or(SnapshotError::Damaged)?;
    if origin != *zone {
        return Err(SnapshotError::Other(origin));
    }
    Ok(Snapshot { generation, refreshed, zone: Zone::read_image(zone, reader.0, version)? })
}

/// A file that is written in large pieces and summed on the way.
struct Output<'a> {
    disk: &'a Disk,
    file: File,
    buffer: Vec<u8>,
    crc: crc32fast::Hasher,
    length: u64,
}

impl Write for Output<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.buffer.len() + bytes.len() > BUFFER_BYTES {
            self.flush()?;
        }
        self.buffer.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.crc.update(&self.buffer);
        self.length += self.buffer.len() as u64;
        self.disk.write(&self.file, &self.buffer)?;
        self.buffer.clear();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::zone::Mixed;
    use crate::zone::tests::zone;

    fn written(text: &str) -> (Zone, Vec<u8>) {
        let folder = tempfile::tempdir().unwrap();
        let disk = Disk::open(folder.path()).unwrap();
        let zone = zone("z.", text);
        let path = folder.path().join("snapshot");
        let (_, length) = write(&disk, &path, 7, from_millis(5), &zone).unwrap();
        let bytes = std::fs::read(path).unwrap();
        assert_eq!(bytes.len() as u64, length);
        (zone, bytes)
    }

    #[test]
    fn a_snapshot_comes_back() {
        let (zone, bytes) = written("@ 30 SOA 1\nWeb 30 A 192.0.2.1\nWeb 30 CNAME b.c\nb.c 30 TXT t");
        let read = read(&zone.origin, &bytes).unwrap();
        assert_eq!((read.generation, read.refreshed, &read.zone), (7, from_millis(5), &zone));
        assert!(read.zone.left_out == zone.left_out && zone.left_out.names() == 1);
        let other = Name::parse("y").unwrap();
        assert_eq!(super::read(&other, &bytes).unwrap_err(), SnapshotError::Other(zone.origin));
    }

    #[test]
    fn a_cut_or_damaged_snapshot_is_refused() {
        let (zone, bytes) = written("@ 30 SOA 1\nWeb 30 A 192.0.2.1\nWeb 30 CNAME x");
        for at in 0..bytes.len() {
            assert_eq!(read(&zone.origin, &bytes[..at]).unwrap_err(), SnapshotError::Damaged);
            let mut damaged = bytes.clone();
            damaged[at] ^= 1;
            assert_eq!(read(&zone.origin, &damaged).unwrap_err(), SnapshotError::Damaged);
        }
    }

    #[test]
    fn the_formats_before_are_read() {
        let (zone, bytes) = written("@ 30 SOA 1\nWeb 30 A 192.0.2.1");
        // Without what stands at the end, and with another checksum.
        for (format, less, mixed) in [(3, 8, Mixed::No), (2, 16, Mixed::Open)] {
            let mut bytes = bytes[..bytes.len() - less - CRC_BYTES].to_vec();
            bytes[11] = format;
            bytes.extend_from_slice(&crc32fast::hash(&bytes).to_be_bytes());
            let read = read(&zone.origin, &bytes).unwrap();
            assert_eq!((&read.zone, read.zone.mixed), (&zone, mixed));
        }
    }

    #[test]
    fn the_format_of_another_program_is_told() {
        let (zone, mut bytes) = written("@ 30 SOA 1");
        bytes[11] = 9;
        let end = bytes.len() - CRC_BYTES;
        let crc = crc32fast::hash(&bytes[..end]);
        bytes[end..].copy_from_slice(&crc.to_be_bytes());
        assert_eq!(read(&zone.origin, &bytes).unwrap_err(), SnapshotError::Version(9));
    }
}
