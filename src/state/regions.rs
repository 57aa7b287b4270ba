//! What regions were last published as, so that their serials never fall.
//!
//! One file of frames: each holds the regions that have moved since the frame before, the first one all of them. A file
//! that has grown is written anew beside the old one and put in its place.
//!
//! Cost: O(regions) to compare, O(regions that moved) to write.

use super::RegionState;
use super::disk::{self, Disk};
use super::frame::{self, Fields, Frames, HEADER_BYTES, Header, Kind};
use crate::name::{self, Name};
use crate::serial::Serial;
use std::collections::HashMap;
use std::io;
use std::path::PathBuf;
use std::time::SystemTime;

/// A file beyond this is written anew.
const MAX_BYTES: u64 = 64 << 10;

/// The file, as far as it is written.
#[derive(Default)]
pub struct RegionFile {
    written: HashMap<Name, RegionState>,
    /// Where the next frame goes; 0 when the file must be written anew.
    end: u64,
}

impl RegionFile {
    /// Where the file is.
    pub fn path(disk: &Disk) -> PathBuf {
        disk.root().join("regions")
    }

    /// Goes on with what was found.
    pub fn new(written: HashMap<Name, RegionState>, end: u64) -> RegionFile {
        RegionFile { written, end }
    }

    /// Takes nothing that is written for granted. Returns what should be.
    pub fn distrust(&mut self) -> HashMap<Name, RegionState> {
        self.end = 0;
        self.written.clone()
    }

    /// Writes what has changed; whether anything has. Where the disk refuses it, the next call writes everything.
    pub fn save(&mut self, disk: &Disk, regions: HashMap<Name, RegionState>) -> io::Result<bool> {
        let moved = |(name, state): &(&Name, &RegionState)| self.written.get(*name) != Some(*state);
        let moved: Vec<_> = regions.iter().filter(moved).collect();
        if moved.is_empty() && self.end > 0 {
            return Ok(false);
        }
        let path = RegionFile::path(disk);
        let mut bytes = Vec::new();
        let end = std::mem::take(&mut self.end);
        if end > 0 && end < MAX_BYTES {
            frame::push(&mut bytes, Kind::Regions, SystemTime::now(), |out| write(moved, out));
            disk.write_at(&path, end, end, &bytes)?;
            self.end = end + bytes.len() as u64;
        } else {
            bytes = Header::before(1, 0).to_bytes();
            frame::push(&mut bytes, Kind::Regions, SystemTime::now(), |out| write(&regions, out));
            let temporary = disk.root().join("regions.tmp");
            disk.ensure_folder(disk.root())?;
            let file = disk.create(&temporary)?;
            disk.write(&file, &bytes)?;
            file.sync_data()?;
            disk.rename(&temporary, &path)?;
            disk::sync_folder(disk.root())?;
            self.end = bytes.len() as u64;
        }
        self.written = regions;
        Ok(true)
    }
}

/// Appends regions.
fn write<'a>(regions: impl IntoIterator<Item = (&'a Name, &'a RegionState)>, out: &mut Vec<u8>) {
    for (name, state) in regions {
        out.extend_from_slice(name.as_wire());
        out.extend_from_slice(&state.drift.to_be_bytes());
        out.extend_from_slice(&state.last.0.to_be_bytes());
        out.extend_from_slice(&state.fingerprint.to_be_bytes());
    }
}

/// Reads the file: the regions, and where the next frame goes. `None` if it is no such file.
pub fn read(bytes: &[u8]) -> Option<(HashMap<Name, RegionState>, u64)> {
    Header::read(bytes).ok()?;
    let mut regions = HashMap::new();
    let mut frames = Frames::new(bytes, HEADER_BYTES as usize);
    for frame in frames.by_ref() {
        let mut fields = Fields(frame.payload);
        let mut region = || {
            let name = Name::from_suffix(&fields.take(name::plain_end(fields.0)?)?.to_ascii_lowercase());
            let (drift, last, fingerprint) = (fields.u32()?, Serial(fields.u32()?), fields.u32()?);
            Some((name, RegionState { drift, last, fingerprint }))
        };
        regions.extend(std::iter::from_fn(&mut region));
    }
    let end = if frames.is_whole() { frames.end as u64 } else { 0 };
    Some((regions, end))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn regions(states: &[(&str, u32, u32)]) -> HashMap<Name, RegionState> {
        let state = |(name, drift, last): &(&str, u32, u32)| {
            (Name::parse(name).unwrap(), RegionState { drift: *drift, last: Serial(*last), fingerprint: drift ^ last })
        };
        states.iter().map(state).collect()
    }

    #[test]
    fn every_cut_leaves_a_state_that_was_once_saved() {
        let folder = tempfile::tempdir().unwrap();
        let disk = Disk::open(folder.path()).unwrap();
        let mut file = RegionFile::default();
        let states = [
            regions(&[("w.x", 0, 7), ("v.x", 1, 9)]),
            regions(&[("w.x", 2, 8), ("v.x", 1, 9)]),
            regions(&[("w.x", 2, 9), ("v.x", 0, 10)]),
        ];
        let mut ends = Vec::new();
        for state in &states {
            assert!(file.save(&disk, state.clone()).unwrap());
            assert!(!file.save(&disk, state.clone()).unwrap(), "nothing has changed");
            ends.push(fs::read(RegionFile::path(&disk)).unwrap().len());
        }
        let bytes = fs::read(RegionFile::path(&disk)).unwrap();
        for cut in 0..=bytes.len() {
            let whole = ends.iter().filter(|end| **end <= cut).count();
            let found = read(&bytes[..cut]);
            assert_eq!(found.is_some(), cut >= 32);
            if whole > 0 {
                let (found, end) = found.unwrap();
                assert_eq!(found, states[whole - 1], "cut at {cut}");
                assert_eq!(end, if ends.contains(&cut) { cut as u64 } else { 0 });
            }
        }
    }

    #[test]
    fn the_file_stays_small() {
        let folder = tempfile::tempdir().unwrap();
        let disk = Disk::open(folder.path()).unwrap();
        let mut file = RegionFile::default();
        for serial in 0..5000 {
            file.save(&disk, regions(&[("w.x", 0, serial), ("v.x", 1, 9)])).unwrap();
        }
        let bytes = fs::read(RegionFile::path(&disk)).unwrap();
        assert!(bytes.len() as u64 <= MAX_BYTES + 100);
        let (found, end) = read(&bytes).unwrap();
        assert_eq!(found, regions(&[("w.x", 0, 4999), ("v.x", 1, 9)]));
        // Somebody has changed the file: the next state is written anew, in full.
        fs::write(RegionFile::path(&disk), "").unwrap();
        let mut file = RegionFile::new(found, end);
        assert!(file.save(&disk, regions(&[("w.x", 0, 1)])).is_err());
        assert!(file.save(&disk, regions(&[("w.x", 0, 1)])).unwrap());
        assert_eq!(read(&fs::read(RegionFile::path(&disk)).unwrap()).unwrap().0, regions(&[("w.x", 0, 1)]));
    }
}
