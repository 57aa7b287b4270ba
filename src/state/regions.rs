//! States with which regions were last published, so that their serials never fall; drains and pins in force; and the
//! trees that zones were made of.
//!
//! One file of frames: each holds the regions that have moved since the frame before, the first one all of them, or the
//! trees likewise; other kinds of frames hold all drains and all pins. A file that has grown is written anew beside the
//! old one and put in its place.
//!
//! Cost: O(regions + drains + pins) to compare, O(regions that moved) to write.

use super::disk::{self, Disk};
use super::frame::{self, Fields, Frames, HEADER_BYTES, Header, Kind};
use super::{RegionState, TreeState};
use crate::merge::{Drain, DrainTarget, NamePattern, Pin};
use std::collections::HashMap;
use std::io;
use std::path::PathBuf;
use std::time::SystemTime;
use wire::name::{self, Name};
use wire::serial::Serial;

/// A file beyond this is written anew.
const MAX_BYTES: u64 = 64 << 10;

/// Facts to be kept; none for those that stay as they were.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Regions {
    pub states: Option<HashMap<Name, RegionState>>,
    pub drains: Option<Vec<Drain>>,
    pub pins: Option<Vec<Pin>>,
    pub trees: Option<HashMap<Name, TreeState>>,
}

impl Regions {
    /// Fills in what is not told here from what was told before.
    pub fn over(self, older: Regions) -> Regions {
        Regions {
            states: self.states.or(older.states),
            drains: self.drains.or(older.drains),
            pins: self.pins.or(older.pins),
            trees: self.trees.or(older.trees),
        }
    }
}

/// The file, as far as it is written.
#[derive(Default)]
pub struct RegionFile {
    states: HashMap<Name, RegionState>,
    drains: Vec<Drain>,
    pins: Vec<Pin>,
    trees: HashMap<Name, TreeState>,
    /// Offset of the next frame; 0 when the file must be written anew.
    end: u64,
}

impl RegionFile {
    /// Path of the file.
    pub fn path(disk: &Disk) -> PathBuf {
        disk.root().join("regions")
    }

    /// States that are written.
    pub fn states(&self) -> &HashMap<Name, RegionState> {
        &self.states
    }

    /// Drains that are written.
    pub fn drains(&self) -> &[Drain] {
        &self.drains
    }

    /// Pins that are written.
    pub fn pins(&self) -> &[Pin] {
        &self.pins
    }

    /// Trees that are written.
    pub fn trees(&self) -> &HashMap<Name, TreeState> {
        &self.trees
    }

    /// Takes nothing that is written for granted. Returns what should be.
    pub fn distrust(&mut self) -> Regions {
        self.end = 0;
        let (states, drains, pins) = (self.states.clone(), self.drains.clone(), self.pins.clone());
        Regions { states: Some(states), drains: Some(drains), pins: Some(pins), trees: Some(self.trees.clone()) }
    }

    /// Writes what has changed; returns true if anything has. Where the disk refuses it, the next call writes
    /// everything.
    pub fn save(&mut self, disk: &Disk, regions: Regions) -> io::Result<bool> {
        let states = regions.states.unwrap_or_else(|| self.states.clone());
        let drains = regions.drains.unwrap_or_else(|| self.drains.clone());
        let pins = regions.pins.unwrap_or_else(|| self.pins.clone());
        let trees = regions.trees.unwrap_or_else(|| self.trees.clone());
        let moved = |(name, state): &(&Name, &RegionState)| self.states.get(*name) != Some(*state);
        let moved: Vec<_> = states.iter().filter(moved).collect();
        let moved_trees: Vec<_> = trees.iter().filter(|(name, state)| self.trees.get(*name) != Some(*state)).collect();
        let (new_drains, new_pins) = (drains != self.drains, pins != self.pins);
        if moved.is_empty() && moved_trees.is_empty() && !new_drains && !new_pins && self.end > 0 {
            return Ok(false);
        }
        let path = RegionFile::path(disk);
        let now = SystemTime::now();
        let end = std::mem::take(&mut self.end);
        if end > 0 && end < MAX_BYTES {
            let mut bytes = Vec::new();
            if new_drains {
                frame::push(&mut bytes, Kind::Drains, now, |out| write_drains(&drains, out));
            }
            if new_pins {
                frame::push(&mut bytes, Kind::Pins, now, |out| write_pins(&pins, out));
            }
            if !moved_trees.is_empty() {
                frame::push(&mut bytes, Kind::Trees, now, |out| write_trees(moved_trees, out));
            }
            if !moved.is_empty() {
                frame::push(&mut bytes, Kind::Regions, now, |out| write(moved, out));
            }
            disk.write_at(&path, end, end, &bytes)?;
            self.end = end + bytes.len() as u64;
        } else {
            let mut bytes = Header::before(1, 0).to_bytes();
            frame::push(&mut bytes, Kind::Drains, now, |out| write_drains(&drains, out));
            frame::push(&mut bytes, Kind::Pins, now, |out| write_pins(&pins, out));
            frame::push(&mut bytes, Kind::Trees, now, |out| write_trees(&trees, out));
            frame::push(&mut bytes, Kind::Regions, now, |out| write(&states, out));
            let temporary = disk.root().join("regions.tmp");
            disk.ensure_folder(disk.root())?;
            let file = disk.create(&temporary)?;
            disk.write(&file, &bytes)?;
            file.sync_data()?;
            disk.rename(&temporary, &path)?;
            disk::sync_folder(disk.root())?;
            self.end = bytes.len() as u64;
        }
        (self.states, self.drains, self.pins, self.trees) = (states, drains, pins, trees);
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

/// Appends trees.
fn write_trees<'a>(trees: impl IntoIterator<Item = (&'a Name, &'a TreeState)>, out: &mut Vec<u8>) {
    for (zone, TreeState { born, zxid, nodes, held_since }) in trees {
        out.push(u8::from(held_since.is_some()));
        out.extend_from_slice(zone.as_wire());
        [born, zxid].into_iter().for_each(|number| out.extend_from_slice(&number.to_be_bytes()));
        out.extend_from_slice(&nodes.to_be_bytes());
        held_since.iter().for_each(|since| out.extend_from_slice(&frame::to_millis(*since).to_be_bytes()));
    }
}

/// Reads one tree.
fn read_tree(fields: &mut Fields<'_>) -> Option<(Name, TreeState)> {
    let is_held = fields.u8()? == 1;
    let zone = read_name(fields)?;
    let (born, zxid, nodes) = (fields.u64()?.cast_signed(), fields.u64()?.cast_signed(), fields.u64()?);
    let held_since = if is_held { Some(frame::from_millis(fields.u64()?)) } else { None };
    Some((zone, TreeState { born, zxid, nodes, held_since }))
}

/// Appends drains.
fn write_drains(drains: &[Drain], out: &mut Vec<u8>) {
    for Drain { target: DrainTarget { member, region, names }, since, until, reason, configured } in drains {
        let has = [region.is_some(), names.is_some(), until.is_some(), reason.is_some(), *configured];
        out.push(has.iter().rev().fold(0, |bits, has| bits << 1 | u8::from(*has)));
        out.extend_from_slice(member.as_wire());
        let names = names.as_ref().map(NamePattern::as_name);
        [region.as_ref(), names].into_iter().flatten().for_each(|name| out.extend_from_slice(name.as_wire()));
        for time in [Some(since), until.as_ref()].into_iter().flatten() {
            out.extend_from_slice(&frame::to_millis(*time).to_be_bytes());
        }
        reason.iter().for_each(|reason| write_text(reason, out));
    }
}

/// Appends pins.
fn write_pins(pins: &[Pin], out: &mut Vec<u8>) {
    for Pin { region, to, serial, since, reason } in pins {
        out.push(u8::from(reason.is_some()));
        out.extend_from_slice(region.as_wire());
        [to, serial].into_iter().for_each(|serial| out.extend_from_slice(&serial.0.to_be_bytes()));
        out.extend_from_slice(&frame::to_millis(*since).to_be_bytes());
        reason.iter().for_each(|reason| write_text(reason, out));
    }
}

/// Appends a text with its length in front.
fn write_text(text: &str, out: &mut Vec<u8>) {
    out.extend_from_slice(&(text.len() as u32).to_be_bytes());
    out.extend_from_slice(text.as_bytes());
}

/// Reads one drain.
fn read_drain(fields: &mut Fields<'_>) -> Option<Drain> {
    let bits = fields.u8()?;
    let [region, names, until, reason, configured] = [0, 1, 2, 3, 4].map(|place| bits >> place & 1 == 1);
    let member = read_name(fields)?;
    let region = if region { Some(read_name(fields)?) } else { None };
    let names = if names { Some(NamePattern::from_name(read_name(fields)?)) } else { None };
    let since = frame::from_millis(fields.u64()?);
    let until = if until { Some(frame::from_millis(fields.u64()?)) } else { None };
    let reason = if reason { Some(read_text(fields)?) } else { None };
    Some(Drain { target: DrainTarget { member, region, names }, since, until, reason, configured })
}

/// Reads one pin.
fn read_pin(fields: &mut Fields<'_>) -> Option<Pin> {
    let has_reason = fields.u8()? == 1;
    let region = read_name(fields)?;
    let (to, serial) = (Serial(fields.u32()?), Serial(fields.u32()?));
    let since = frame::from_millis(fields.u64()?);
    let reason = if has_reason { Some(read_text(fields)?) } else { None };
    Some(Pin { region, to, serial, since, reason })
}

/// Reads a text with its length in front.
fn read_text(fields: &mut Fields<'_>) -> Option<String> {
    let length = fields.u32()? as usize;
    Some(String::from_utf8_lossy(fields.take(length)?).into_owned())
}

/// Reads a name.
pub fn read_name(fields: &mut Fields<'_>) -> Option<Name> {
    Some(Name::from_suffix(&fields.take(name::plain_end(fields.0)?)?.to_ascii_lowercase()))
}

/// Reads the file. `None` if it is no such file.
pub fn read(bytes: &[u8]) -> Option<RegionFile> {
    Header::read(bytes).ok()?;
    let mut file = RegionFile::default();
    let mut frames = Frames::new(bytes, HEADER_BYTES as usize);
    for frame in frames.by_ref() {
        let mut fields = Fields(frame.payload);
        match frame.kind {
            Some(Kind::Regions) => {}
            Some(Kind::Drains) => {
                file.drains = std::iter::from_fn(|| read_drain(&mut fields)).collect();
                continue;
            }
            Some(Kind::Pins) => {
                file.pins = std::iter::from_fn(|| read_pin(&mut fields)).collect();
                continue;
            }
            Some(Kind::Trees) => {
                file.trees.extend(std::iter::from_fn(|| read_tree(&mut fields)));
                continue;
            }
            _ => continue,
        }
        let mut region = || {
            let name = read_name(&mut fields)?;
            let (drift, last, fingerprint) = (fields.u32()?, Serial(fields.u32()?), fields.u32()?);
            Some((name, RegionState { drift, last, fingerprint }))
        };
        file.states.extend(std::iter::from_fn(&mut region));
    }
    file.end = if frames.is_whole() { frames.end as u64 } else { 0 };
    Some(file)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::time::{Duration, UNIX_EPOCH};

    fn states(states: &[(&str, u32, u32)]) -> Regions {
        let state = |(name, drift, last): &(&str, u32, u32)| {
            (Name::parse(name).unwrap(), RegionState { drift: *drift, last: Serial(*last), fingerprint: drift ^ last })
        };
        Regions { states: Some(states.iter().map(state).collect()), ..Regions::default() }
    }

    fn drain(member: &str, region: Option<&str>, names: Option<&str>, until: Option<u64>) -> Drain {
        let name = |text: &str| Name::parse(text).unwrap();
        let names = names.map(|names| NamePattern::parse(names).unwrap());
        let at = |seconds| UNIX_EPOCH + Duration::from_secs(seconds);
        Drain {
            target: DrainTarget { member: name(member), region: region.map(name), names },
            since: at(7),
            until: until.map(at),
            reason: until.map(|until| format!("until {until}")),
            configured: until.is_none(),
        }
    }

    fn drains(drains: Vec<Drain>) -> Regions {
        Regions { drains: Some(drains), ..Regions::default() }
    }

    fn pins(pins: &[(&str, Option<&str>)]) -> Regions {
        let pin = |(region, reason): &(&str, Option<&str>)| Pin {
            region: Name::parse(region).unwrap(),
            to: Serial(7),
            serial: Serial(8),
            since: UNIX_EPOCH + Duration::from_secs(9),
            reason: reason.map(str::to_owned),
        };
        Regions { pins: Some(pins.iter().map(pin).collect()), ..Regions::default() }
    }

    fn trees(trees: &[(&str, i64, Option<u64>)]) -> Regions {
        let state = |(zone, born, held): &(&str, i64, Option<u64>)| {
            let held_since = held.map(|held| UNIX_EPOCH + Duration::from_secs(held));
            (Name::parse(zone).unwrap(), TreeState { born: *born, zxid: born << 33, nodes: 77, held_since })
        };
        Regions { trees: Some(trees.iter().map(state).collect()), ..Regions::default() }
    }

    #[test]
    fn every_cut_leaves_a_state_that_was_once_saved() {
        let folder = tempfile::tempdir().unwrap();
        let disk = Disk::open(folder.path()).unwrap();
        let mut file = RegionFile::default();
        let all = [drain("w.x", None, None, None), drain("v.x", Some("r.x"), Some("web.svc.*"), Some(9))];
        let steps = [
            states(&[("w.x", 0, 7), ("v.x", 1, 9)]),
            drains(all.to_vec()),
            states(&[("w.x", 2, 8), ("v.x", 1, 9)]),
            drains(all[1..].to_vec()),
            pins(&[("w.x", None), ("v.x", Some("it was better"))]),
            states(&[("w.x", 2, 9), ("v.x", 0, 10)]),
            trees(&[("t.x", 7, None), ("u.x", i64::MAX >> 33, Some(9))]),
            drains(Vec::new()),
            trees(&[("t.x", 0, Some(3)), ("u.x", i64::MAX >> 33, Some(9))]),
            pins(&[]),
        ];
        let (mut ends, mut saved) = (Vec::new(), Vec::new());
        for step in &steps {
            assert!(file.save(&disk, step.clone()).unwrap());
            assert!(!file.save(&disk, step.clone()).unwrap(), "nothing has changed");
            ends.push(fs::read(RegionFile::path(&disk)).unwrap().len());
            saved.push((file.states.clone(), file.drains.clone(), file.pins.clone(), file.trees.clone()));
        }
        let bytes = fs::read(RegionFile::path(&disk)).unwrap();
        for cut in 0..=bytes.len() {
            let whole = ends.iter().filter(|end| **end <= cut).count();
            let found = read(&bytes[..cut]);
            assert_eq!(found.is_some(), cut >= 32);
            if whole > 0 {
                let found = found.unwrap();
                let end = found.end;
                assert_eq!((found.states, found.drains, found.pins, found.trees), saved[whole - 1], "cut at {cut}");
                assert_eq!(end, if ends.contains(&cut) { cut as u64 } else { 0 });
            }
        }
    }

    #[test]
    fn what_is_not_told_stays() {
        let [older, newer] = [states(&[("w.x", 0, 7)]), drains(vec![drain("w.x", None, None, None)])];
        let pinned = pins(&[("w.x", None)]);
        let grown = trees(&[("t.x", 7, None)]);
        let all = pinned.clone().over(newer.clone()).over(grown.clone()).over(older.clone());
        assert_eq!((all.states, all.drains, all.pins), (older.states.clone(), newer.drains, pinned.pins));
        assert_eq!(all.trees, grown.trees);
        assert_eq!(states(&[]).over(older).states, states(&[]).states);
    }

    #[test]
    fn the_file_stays_small() {
        let folder = tempfile::tempdir().unwrap();
        let disk = Disk::open(folder.path()).unwrap();
        let mut file = RegionFile::default();
        file.save(&disk, drains(vec![drain("w.x", None, None, None)])).unwrap();
        let grown = trees(&[("t.x", 7, Some(5)), ("u.x", 8, None)]);
        file.save(&disk, grown.clone()).unwrap();
        for serial in 0..5000 {
            file.save(&disk, states(&[("w.x", 0, serial), ("v.x", 1, 9)])).unwrap();
        }
        let bytes = fs::read(RegionFile::path(&disk)).unwrap();
        assert!(bytes.len() as u64 <= MAX_BYTES + 100);
        let mut found = read(&bytes).unwrap();
        assert_eq!(Some(&found.states), states(&[("w.x", 0, 4999), ("v.x", 1, 9)]).states.as_ref());
        assert_eq!((&found.drains[..], &found.trees), (&[drain("w.x", None, None, None)][..], &grown.trees.unwrap()));
        // Somebody has changed the file: the next state is written anew, in full.
        fs::write(RegionFile::path(&disk), "").unwrap();
        assert!(found.save(&disk, states(&[("w.x", 0, 1)])).is_err());
        assert!(found.save(&disk, states(&[("w.x", 0, 1)])).unwrap());
        let read = read(&fs::read(RegionFile::path(&disk)).unwrap()).unwrap();
        assert_eq!(Some(read.states), states(&[("w.x", 0, 1)]).states);
        assert_eq!(read.drains, [drain("w.x", None, None, None)]);
    }
}
