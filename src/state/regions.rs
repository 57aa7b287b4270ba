//! States with which regions were last published, so that their serials never fall; drains and pins in force; and the
//! trees that zones were made of.
//!
//! One file of frames: each holds the regions that have moved since the frame before, the first one all of them, or the
//! trees likewise; other kinds of frames hold all drains and all pins. A file that has grown is written anew beside the
//! old one and put in its place.
//!
//! Drains of shares stand in a frame of their own right before that of the whole ones, and count with it. A program that
//! knows no shares passes over that frame, and so takes none of them for a whole drain.
//!
//! Cost: O(regions + drains + pins) to compare, O(regions that moved) to write.

use super::disk::{self, Disk};
use super::frame::{self, Frames, HEADER_BYTES, Header, Kind};
use super::{RegionState, TreeState};
use crate::merge::{Drain, DrainTarget, NamePattern, Pin};
use crate::zone::ByteReader;
use std::collections::HashMap;
use std::io;
use std::path::PathBuf;
use std::time::SystemTime;
use wire::name::Name;
use wire::serial::Serial;

/// A file beyond this is written anew.
const MAX_BYTES: u64 = 64 << 10;

/// What is kept of regions, and of trees.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Facts {
    /// States with which regions were last published.
    pub states: HashMap<Name, RegionState>,
    /// Drains in force.
    pub drains: Vec<Drain>,
    /// Pins in force.
    pub pins: Vec<Pin>,
    /// The trees that zones were last made of.
    pub trees: HashMap<Name, TreeState>,
}

/// Facts to be kept; none for those that stay as they were.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NewFacts {
    pub states: Option<HashMap<Name, RegionState>>,
    pub drains: Option<Vec<Drain>>,
    pub pins: Option<Vec<Pin>>,
    pub trees: Option<HashMap<Name, TreeState>>,
}

impl NewFacts {
    /// Fills in what is not told here from what was told before.
    pub fn over(self, older: NewFacts) -> NewFacts {
        NewFacts {
            states: self.states.or(older.states),
            drains: self.drains.or(older.drains),
            pins: self.pins.or(older.pins),
            trees: self.trees.or(older.trees),
        }
    }
}

impl From<Facts> for NewFacts {
    fn from(Facts { states, drains, pins, trees }: Facts) -> NewFacts {
        NewFacts { states: Some(states), drains: Some(drains), pins: Some(pins), trees: Some(trees) }
    }
}

/// The file, as far as it is written.
#[derive(Default)]
pub struct RegionFile {
    pub facts: Facts,
    /// Offset of the next frame; 0 when the file must be written anew.
    end: u64,
}

impl RegionFile {
    /// Path of the file.
    pub fn path(disk: &Disk) -> PathBuf {
        disk.root().join("regions")
    }

    /// Takes nothing that is written for granted. Returns what should be.
    pub fn distrust(&mut self) -> NewFacts {
        self.end = 0;
        self.facts.clone().into()
    }

    /// Writes what has changed; returns true if anything has. Where the disk refuses it, the next call writes
    /// everything.
    pub fn save(&mut self, disk: &Disk, new: NewFacts) -> io::Result<bool> {
        let old = &self.facts;
        let facts = Facts {
            states: new.states.unwrap_or_else(|| old.states.clone()),
            drains: new.drains.unwrap_or_else(|| old.drains.clone()),
            pins: new.pins.unwrap_or_else(|| old.pins.clone()),
            trees: new.trees.unwrap_or_else(|| old.trees.clone()),
        };
        let (moved, moved_trees) = (moved(&facts.states, &old.states), moved(&facts.trees, &old.trees));
        let (has_drains, has_pins) = (facts.drains != old.drains, facts.pins != old.pins);
        if moved.is_empty() && moved_trees.is_empty() && !has_drains && !has_pins && self.end > 0 {
            return Ok(false);
        }
        let path = RegionFile::path(disk);
        let now = SystemTime::now();
        let end = std::mem::take(&mut self.end);
        if end > 0 && end < MAX_BYTES {
            let mut bytes = Vec::new();
            if has_drains {
                push_drains(&mut bytes, &facts.drains, now);
            }
            if has_pins {
                frame::push(&mut bytes, Kind::Pins, now, |out| write_pins(&facts.pins, out));
            }
            if !moved_trees.is_empty() {
                frame::push(&mut bytes, Kind::Trees, now, |out| write_trees(moved_trees, out));
            }
            if !moved.is_empty() {
                frame::push(&mut bytes, Kind::Regions, now, |out| write_states(moved, out));
            }
            disk.write_at(&path, end, end, &bytes)?;
            self.end = end + bytes.len() as u64;
        } else {
            let mut bytes = Header::before(1, 0).to_bytes();
            push_drains(&mut bytes, &facts.drains, now);
            frame::push(&mut bytes, Kind::Pins, now, |out| write_pins(&facts.pins, out));
            frame::push(&mut bytes, Kind::Trees, now, |out| write_trees(&facts.trees, out));
            frame::push(&mut bytes, Kind::Regions, now, |out| write_states(&facts.states, out));
            let temporary = disk.root().join("regions.tmp");
            disk.ensure_folder(disk.root())?;
            let file = disk.create(&temporary)?;
            disk.write(&file, &bytes)?;
            file.sync_data()?;
            disk.rename(&temporary, &path)?;
            disk::sync_folder(disk.root())?;
            self.end = bytes.len() as u64;
        }
        self.facts = facts;
        Ok(true)
    }
}

/// States that are not what they were.
fn moved<'a, T: PartialEq>(new: &'a HashMap<Name, T>, old: &HashMap<Name, T>) -> Vec<(&'a Name, &'a T)> {
    new.iter().filter(|(name, state)| old.get(*name) != Some(*state)).collect()
}

/// Appends regions.
fn write_states<'a>(regions: impl IntoIterator<Item = (&'a Name, &'a RegionState)>, out: &mut Vec<u8>) {
    for (name, state) in regions {
        out.extend_from_slice(name.as_wire());
        out.extend_from_slice(&state.drift.to_be_bytes());
        out.extend_from_slice(&state.last.0.to_be_bytes());
        out.extend_from_slice(&state.fingerprint.to_be_bytes());
    }
}

/// Reads one region.
fn read_state(reader: &mut ByteReader<'_>) -> Option<(Name, RegionState)> {
    let name = reader.name()?;
    let (drift, last, fingerprint) = (reader.u32()?, Serial(reader.u32()?), reader.u32()?);
    Some((name, RegionState { drift, last, fingerprint }))
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
fn read_tree(reader: &mut ByteReader<'_>) -> Option<(Name, TreeState)> {
    let is_held = reader.u8()? == 1;
    let zone = reader.name()?;
    let (born, zxid, nodes) = (reader.u64()?.cast_signed(), reader.u64()?.cast_signed(), reader.u64()?);
    let held_since = if is_held { Some(frame::from_millis(reader.u64()?)) } else { None };
    Some((zone, TreeState { born, zxid, nodes, held_since }))
}

/// Appends the frames of all drains: the shares, if there are any, and the whole ones.
fn push_drains(bytes: &mut Vec<u8>, drains: &[Drain], now: SystemTime) {
    let (whole, shares): (Vec<&Drain>, Vec<&Drain>) = drains.iter().partition(|drain| drain.is_whole());
    if !shares.is_empty() {
        frame::push(bytes, Kind::Shares, now, |out| write_drains(shares, out));
    }
    frame::push(bytes, Kind::Drains, now, |out| write_drains(whole, out));
}

/// Appends drains, all with a share or all without.
fn write_drains(drains: Vec<&Drain>, out: &mut Vec<u8>) {
    for Drain { target: DrainTarget { member, region, names }, share, since, until, reason, configured } in drains {
        out.extend(share);
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

/// Reads one drain of a share.
fn read_share(reader: &mut ByteReader<'_>) -> Option<Drain> {
    let percent = reader.u8().filter(|percent| (1..100).contains(percent))?;
    Some(Drain { share: Some(percent), ..read_drain(reader)? })
}

/// Reads one whole drain.
fn read_drain(reader: &mut ByteReader<'_>) -> Option<Drain> {
    let bits = reader.u8()?;
    let [region, names, until, reason, configured] = [0, 1, 2, 3, 4].map(|place| bits >> place & 1 == 1);
    let member = reader.name()?;
    let region = if region { Some(reader.name()?) } else { None };
    let names = if names { Some(NamePattern::from_name(reader.name()?)) } else { None };
    let since = frame::from_millis(reader.u64()?);
    let until = if until { Some(frame::from_millis(reader.u64()?)) } else { None };
    let reason = if reason { Some(read_text(reader)?) } else { None };
    let target = DrainTarget { member, region, names };
    Some(Drain { target, share: None, since, until, reason, configured })
}

/// Reads one pin.
fn read_pin(reader: &mut ByteReader<'_>) -> Option<Pin> {
    let has_reason = reader.u8()? == 1;
    let region = reader.name()?;
    let (to, serial) = (Serial(reader.u32()?), Serial(reader.u32()?));
    let since = frame::from_millis(reader.u64()?);
    let reason = if has_reason { Some(read_text(reader)?) } else { None };
    Some(Pin { region, to, serial, since, reason })
}

/// Reads a text with its length in front.
fn read_text(reader: &mut ByteReader<'_>) -> Option<String> {
    let length = reader.u32()? as usize;
    Some(String::from_utf8_lossy(reader.take(length)?).into_owned())
}

/// Reads the file. `None` if it is no such file.
pub fn read(bytes: &[u8]) -> Option<RegionFile> {
    Header::read(bytes).ok()?;
    let (mut file, mut frames) = (RegionFile::default(), Frames::new(bytes, HEADER_BYTES as usize));
    let (facts, mut shares) = (&mut file.facts, Vec::new());
    for frame in frames.by_ref() {
        let mut reader = ByteReader(frame.payload);
        let before = std::mem::take(&mut shares);
        match frame.kind {
            Some(Kind::Regions) => facts.states.extend(std::iter::from_fn(|| read_state(&mut reader))),
            Some(Kind::Shares) => shares = std::iter::from_fn(|| read_share(&mut reader)).collect(),
            Some(Kind::Drains) => {
                facts.drains = std::iter::from_fn(|| read_drain(&mut reader)).collect();
                facts.drains.extend(before);
            }
            Some(Kind::Pins) => facts.pins = std::iter::from_fn(|| read_pin(&mut reader)).collect(),
            Some(Kind::Trees) => facts.trees.extend(std::iter::from_fn(|| read_tree(&mut reader))),
            _ => {}
        }
    }
    // Shares that wait for their drains must not wait for other ones.
    file.end = if frames.is_whole() && shares.is_empty() { frames.end as u64 } else { 0 };
    Some(file)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::time::{Duration, UNIX_EPOCH};

    fn states(states: &[(&str, u32, u32)]) -> NewFacts {
        let state = |(name, drift, last): &(&str, u32, u32)| {
            (Name::parse(name).unwrap(), RegionState { drift: *drift, last: Serial(*last), fingerprint: drift ^ last })
        };
        NewFacts { states: Some(states.iter().map(state).collect()), ..NewFacts::default() }
    }

    fn drain(member: &str, region: Option<&str>, names: Option<&str>, until: Option<u64>) -> Drain {
        let name = |text: &str| Name::parse(text).unwrap();
        let names = names.map(|names| NamePattern::parse(names).unwrap());
        let at = |seconds| UNIX_EPOCH + Duration::from_secs(seconds);
        Drain {
            target: DrainTarget { member: name(member), region: region.map(name), names },
            share: None,
            since: at(7),
            until: until.map(at),
            reason: until.map(|until| format!("until {until}")),
            configured: until.is_none(),
        }
    }

    fn drains(drains: Vec<Drain>) -> NewFacts {
        NewFacts { drains: Some(drains), ..NewFacts::default() }
    }

    fn pins(pins: &[(&str, Option<&str>)]) -> NewFacts {
        let pin = |(region, reason): &(&str, Option<&str>)| Pin {
            region: Name::parse(region).unwrap(),
            to: Serial(7),
            serial: Serial(8),
            since: UNIX_EPOCH + Duration::from_secs(9),
            reason: reason.map(str::to_owned),
        };
        NewFacts { pins: Some(pins.iter().map(pin).collect()), ..NewFacts::default() }
    }

    fn trees(trees: &[(&str, i64, Option<u64>)]) -> NewFacts {
        let state = |(zone, born, held): &(&str, i64, Option<u64>)| {
            let held_since = held.map(|held| UNIX_EPOCH + Duration::from_secs(held));
            (Name::parse(zone).unwrap(), TreeState { born: *born, zxid: born << 33, nodes: 77, held_since })
        };
        NewFacts { trees: Some(trees.iter().map(state).collect()), ..NewFacts::default() }
    }

    #[test]
    fn every_cut_leaves_a_state_that_was_once_saved() {
        let folder = tempfile::tempdir().unwrap();
        let disk = Disk::open(folder.path()).unwrap();
        let mut file = RegionFile::default();
        let all = [drain("w.x", None, None, None), drain("v.x", Some("r.x"), Some("web.svc.*"), Some(9))];
        let share = Drain { share: Some(30), ..all[1].clone() };
        let steps = [
            states(&[("w.x", 0, 7), ("v.x", 1, 9)]),
            drains(all.to_vec()),
            states(&[("w.x", 2, 8), ("v.x", 1, 9)]),
            drains(all[1..].to_vec()),
            pins(&[("w.x", None), ("v.x", Some("it was better"))]),
            states(&[("w.x", 2, 9), ("v.x", 0, 10)]),
            trees(&[("t.x", 7, None), ("u.x", i64::MAX >> 33, Some(9))]),
            drains(vec![share.clone()]),
            drains(vec![all[0].clone(), share, Drain { share: Some(99), ..drain("u.x", None, None, None) }]),
            drains(all.to_vec()),
            drains(Vec::new()),
            trees(&[("t.x", 0, Some(3)), ("u.x", i64::MAX >> 33, Some(9))]),
            pins(&[]),
        ];
        let (mut ends, mut saved) = (Vec::new(), Vec::new());
        for step in &steps {
            assert!(file.save(&disk, step.clone()).unwrap());
            assert!(!file.save(&disk, step.clone()).unwrap(), "nothing has changed");
            ends.push(fs::read(RegionFile::path(&disk)).unwrap().len());
            saved.push(file.facts.clone());
        }
        let bytes = fs::read(RegionFile::path(&disk)).unwrap();
        for cut in 0..=bytes.len() {
            let whole = ends.iter().filter(|end| **end <= cut).count();
            let found = read(&bytes[..cut]);
            assert_eq!(found.is_some(), cut >= 32);
            if whole > 0 {
                let found = found.unwrap();
                let end = found.end;
                assert_eq!(found.facts, saved[whole - 1], "cut at {cut}");
                assert_eq!(end, if ends.contains(&cut) { cut as u64 } else { 0 });
            }
        }
    }

    /// What an earlier version reads: it passes over frames that it does not know.
    #[test]
    fn whole_drains_are_written_as_ever() {
        let whole = drain("v.x", Some("r.x"), Some("web.svc.*"), Some(9));
        let share = Drain { share: Some(30), ..drain("w.x", None, None, None) };
        let frames = |drains: &[Drain]| {
            let mut bytes = Header::before(1, 0).to_bytes();
            push_drains(&mut bytes, drains, UNIX_EPOCH);
            let frames = Frames::new(&bytes, HEADER_BYTES as usize);
            frames.map(|frame| (frame.kind.unwrap() as u8, frame.payload.to_vec())).collect::<Vec<_>>()
        };
        let mut old = vec![0b01111];
        ["v.x", "r.x", "web.svc.*"].iter().for_each(|name| old.extend_from_slice(Name::parse(name).unwrap().as_wire()));
        [7000u64, 9000].iter().for_each(|time| old.extend_from_slice(&time.to_be_bytes()));
        old.extend_from_slice(b"\0\0\0\x07until 9");
        assert_eq!(frames(std::slice::from_ref(&whole)), [(4, old.clone())]);
        let both = frames(&[share.clone(), whole]);
        assert_eq!((both.len(), both[0].0, both[0].1[0], &both[1]), (2, 8, 30, &(4, old)));
        assert_eq!(frames(&[share])[1], (4, Vec::new()));
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
        assert_eq!(Some(&found.facts.states), states(&[("w.x", 0, 4999), ("v.x", 1, 9)]).states.as_ref());
        assert_eq!(
            (&found.facts.drains[..], &found.facts.trees),
            (&[drain("w.x", None, None, None)][..], &grown.trees.unwrap())
        );
        // Somebody has changed the file: the next state is written anew, in full.
        fs::write(RegionFile::path(&disk), "").unwrap();
        assert!(found.save(&disk, states(&[("w.x", 0, 1)])).is_err());
        assert!(found.save(&disk, states(&[("w.x", 0, 1)])).unwrap());
        let read = read(&fs::read(RegionFile::path(&disk)).unwrap()).unwrap();
        assert_eq!(Some(read.facts.states), states(&[("w.x", 0, 1)]).states);
        assert_eq!(read.facts.drains, [drain("w.x", None, None, None)]);
    }
}
