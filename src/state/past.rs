//! History of each region: the steps that led to its version, with their times and causes.
//!
//! Regions are not kept, their histories are: nobody can make those anew. They stand in files `past.N` of frames in the
//! region's folder, after the time at which the first version came where that is known. The newest is appended to; once
//! it holds a whole history by itself another one is begun, and only the one before it stays.
//!
//! Invariant: steps that are read follow on each other without a gap; whether they lead to the region as it is now, its
//! SOA tells. What the disk refuses is written with the next step, and nothing else depends on it.
//!
//! Cost: O(steps that have come).

use super::disk::Disk;
use super::frame::{self, Frames, HEADER_BYTES, Header, Kind};
use super::replay::connected;
use crate::zone::{ByteReader, Cause, Delta, History, HistoryLimits, HistoryStep};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use wire::name::Name;
use wire::serial::Serial;

/// A smaller file is appended to, however short the history.
const MIN_BYTES: u64 = 64 << 10;
/// Causes that are written of one step.
const MAX_CAUSES: usize = 255;

/// A region's files, as far as they are written.
#[derive(Debug, Default)]
pub struct Past {
    /// Number of the newest file.
    number: u64,
    /// Offset of its next frame.
    end: u64,
    /// The step that was written last; none when nothing that is there counts.
    last: Option<Arc<Delta>>,
    /// History that should be written.
    history: History,
}

impl Past {
    /// Writes everything into a folder that has lost it.
    pub fn rewrite(&mut self, disk: &Disk, folder: &Path) -> io::Result<()> {
        self.last = None;
        let history = self.history.clone();
        if history.is_empty() { Ok(()) } else { self.save(disk, folder, &history) }
    }

    /// Number of the steps that have come since the last time; all of them if that one is not among them any more.
    fn unsaved(&self, history: &History) -> usize {
        let is_last = |delta: &&Arc<Delta>| self.last.as_ref().is_some_and(|last| Arc::ptr_eq(last, delta));
        history.iter().rev().take_while(|delta| !is_last(delta)).count()
    }

    /// Octets that saving a history holds at most, nearly: its new steps, once more behind a header in a new file.
    pub fn unsaved_bytes(&self, history: &History) -> usize {
        2 * history.iter().rev().take(self.unsaved(history)).map(|delta| delta.len_bytes()).sum::<usize>()
    }

    /// Writes the steps that are not written.
    pub fn save(&mut self, disk: &Disk, folder: &Path, history: &History) -> io::Result<()> {
        self.history = history.clone();
        let new = self.unsaved(history);
        // What follows counts only when it is written.
        self.last = None;
        let follows = new < history.len();
        let mut bytes = Vec::new();
        if let Some(begun) = history.begun().filter(|_| !follows) {
            frame::push(&mut bytes, Kind::Refreshed, begun, |_| ());
        }
        for step in history.steps().skip(history.len() - new) {
            let time = step.at.unwrap_or(std::time::UNIX_EPOCH);
            frame::push(&mut bytes, Kind::Version, time, |out| write_step(step, out));
        }
        if follows && self.end <= MIN_BYTES.max(history.len_bytes() as u64) {
            if new > 0 {
                disk.write_at(&path(folder, self.number), self.end, self.end, &bytes)?;
                self.end += bytes.len() as u64;
            }
        } else {
            let (before, number) = (self.number, self.number + 1);
            disk.ensure_folder(folder)?;
            let file = disk.create(&path(folder, number))?;
            disk.write(&file, &[Header::before(number, 0).to_bytes(), bytes.clone()].concat())?;
            (self.number, self.end) = (number, HEADER_BYTES + bytes.len() as u64);
            for (other, path) in list(folder).into_iter().filter(|(other, _)| *other != number) {
                if !(follows && other == before) {
                    disk.remove(&path)?;
                }
            }
        }
        self.last = history.iter().next_back().cloned();
        Ok(())
    }
}

/// Reads the steps of a region that follow on each other up to the last, and its files.
pub fn read(region: &Name, folder: &Path) -> (History, Past) {
    let (mut steps, mut begun, mut past) = (Vec::new(), None, Past::default());
    for (number, path) in list(folder) {
        // A file that cannot be read leaves a gap, and so costs the steps before it.
        let bytes = fs::read(&path).unwrap_or_default();
        let mut frames = Frames::new(&bytes, HEADER_BYTES as usize);
        let mut is_sound = Header::read(&bytes).is_ok_and(|header| header.generation == number);
        while let Some(frame) = frames.next().filter(|_| is_sound) {
            match (frame.kind, read_step(region, &frame)) {
                (Some(Kind::Refreshed), _) => begun = Some((steps.len(), frame.time)),
                (_, Some(step)) => steps.push(step),
                // A newer program wrote it, perhaps; nothing is written behind it.
                (_, None) => is_sound = false,
            }
        }
        past = Past { number, end: frames.end as u64, ..Past::default() };
        past.last = steps.last().map(|step| step.delta.clone()).filter(|_| is_sound && frames.is_whole());
    }
    let count = steps.last().map_or(0, |last| connected(&steps, &last.delta.to));
    let first = steps.len() - count;
    let mut history = History::default();
    if let Some((_, time)) = begun.filter(|(place, _)| *place == first) {
        history.begin(time);
    }
    let limits = HistoryLimits { versions: usize::MAX, bytes: usize::MAX, total: usize::MAX };
    steps.into_iter().skip(first).for_each(|step| history.push(step, &limits));
    past.history = history.clone();
    (history, past)
}

/// The files of a folder with their numbers, oldest first.
fn list(folder: &Path) -> Vec<(u64, PathBuf)> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let number = |path: &Path| path.file_name()?.to_str()?.strip_prefix("past.")?.parse::<u64>().ok();
    let paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
    let mut files: Vec<(u64, PathBuf)> = paths.filter_map(|path| Some((number(&path)?, path))).collect();
    files.sort();
    files
}

/// The file with a number.
fn path(folder: &Path, number: u64) -> PathBuf {
    folder.join(format!("past.{number}"))
}

//--- Steps ---

/// Appends a step: its causes, then its difference.
fn write_step(step: &HistoryStep, out: &mut Vec<u8>) {
    let causes = &step.causes[..step.causes.len().min(MAX_CAUSES)];
    out.push(causes.len() as u8);
    for cause in causes {
        out.push(match cause {
            Cause::Source => 0,
            Cause::Member { .. } => 1,
            Cause::Configuration => 2,
            Cause::Drain => 3,
            Cause::Damping => 4,
            Cause::Rollback { .. } => 5,
            Cause::Release => 6,
            Cause::Serial => 7,
        });
        match cause {
            Cause::Member { zone, serial } => {
                out.extend_from_slice(zone.as_wire());
                out.push(u8::from(serial.is_some()));
                serial.iter().for_each(|serial| out.extend_from_slice(&serial.0.to_be_bytes()));
            }
            Cause::Rollback { to } => out.extend_from_slice(&to.0.to_be_bytes()),
            _ => {}
        }
    }
    step.delta.write(out);
}

/// Reads a frame of a step.
fn read_step(region: &Name, frame: &frame::Frame<'_>) -> Option<HistoryStep> {
    if frame.kind != Some(Kind::Version) {
        return None;
    }
    let mut reader = ByteReader(frame.payload);
    let count = reader.u8()?;
    let causes = (0..count).map(|_| read_cause(&mut reader)).collect::<Option<Vec<Cause>>>()?;
    let delta = Delta::read(region, reader.0).ok()?;
    Some(HistoryStep::new(Arc::new(delta), frame.time, causes))
}

/// Reads a cause.
fn read_cause(reader: &mut ByteReader<'_>) -> Option<Cause> {
    Some(match reader.u8()? {
        0 => Cause::Source,
        1 => {
            let zone = reader.name()?;
            let serial = if reader.u8()? == 1 { Some(Serial(reader.u32()?)) } else { None };
            Cause::Member { zone, serial }
        }
        2 => Cause::Configuration,
        3 => Cause::Drain,
        4 => Cause::Damping,
        5 => Cause::Rollback { to: Serial(reader.u32()?) },
        6 => Cause::Release,
        7 => Cause::Serial,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::zone::tests::zone;
    use std::time::{Duration, UNIX_EPOCH};

    /// The step of region `r.` from one serial to the next, with every cause that there is.
    fn step(serial: u32) -> HistoryStep {
        let version = |serial: u32| zone("r.", &format!("@ 30 SOA {serial}\na 30 A 192.0.2.{serial}"));
        let name = Name::parse("a.r").unwrap();
        let delta = Delta::between(&version(serial), &version(serial + 1), [name.clone()]);
        let causes = [
            Cause::Source,
            Cause::Member { zone: name.clone(), serial: Some(Serial(serial)) },
            Cause::Member { zone: name, serial: None },
            Cause::Configuration,
            Cause::Drain,
            Cause::Damping,
            Cause::Rollback { to: Serial(3) },
            Cause::Release,
            Cause::Serial,
        ];
        HistoryStep::new(Arc::new(delta), UNIX_EPOCH + Duration::from_secs(serial.into()), causes)
    }

    /// The steps that are found, and the files.
    fn read_steps(origin: &Name, folder: &Path) -> (Vec<HistoryStep>, Past) {
        let (history, past) = read(origin, folder);
        (history.steps().cloned().collect(), past)
    }

    #[test]
    fn steps_come_back_and_every_cut_leaves_the_first_of_them() {
        let (origin, folder) = (Name::parse("r").unwrap(), tempfile::tempdir().unwrap());
        let disk = Disk::open(folder.path()).unwrap();
        let (mut past, mut history) = (Past::default(), History::default());
        history.begin(UNIX_EPOCH);
        // A frame without payload, and one for each step.
        let mut ends = vec![HEADER_BYTES + 17];
        for serial in 1..4 {
            history.push(step(serial), &HistoryLimits::default());
            past.save(&disk, folder.path(), &history).unwrap();
            past.save(&disk, folder.path(), &history).unwrap();
            ends.push(past.end);
        }
        let steps: Vec<HistoryStep> = history.steps().cloned().collect();
        let (found, again) = read_steps(&origin, folder.path());
        assert_eq!((&found, again.number, again.end), (&steps, 1, past.end));
        assert_eq!(read(&origin, folder.path()).0.begun(), Some(UNIX_EPOCH));
        let bytes = fs::read(path(folder.path(), 1)).unwrap();
        for cut in 0..bytes.len() {
            fs::write(path(folder.path(), 1), &bytes[..cut]).unwrap();
            let whole = ends.iter().filter(|end| **end <= cut as u64).count().saturating_sub(1);
            let (found, past) = read_steps(&origin, folder.path());
            assert_eq!(found, steps[..whole], "cut at {cut}");
            assert_eq!(past.last.is_some(), whole > 0 && ends[whole] == cut as u64, "cut at {cut}");
        }
    }

    #[test]
    fn another_program_goes_on_and_a_new_history_begins_anew() {
        let (origin, folder) = (Name::parse("r").unwrap(), tempfile::tempdir().unwrap());
        let disk = Disk::open(folder.path()).unwrap();
        let mut history = History::default();
        history.push(step(1), &HistoryLimits::default());
        Past::default().save(&disk, folder.path(), &history).unwrap();
        let (mut history, mut past) = read(&origin, folder.path());
        history.push(step(2), &HistoryLimits::default());
        past.save(&disk, folder.path(), &history).unwrap();
        assert_eq!((past.number, read(&origin, folder.path()).0.len()), (1, 2));
        // There is a gap.
        history.push(step(7), &HistoryLimits::default());
        past.save(&disk, folder.path(), &history).unwrap();
        assert_eq!((past.number, read_steps(&origin, folder.path()).0), (2, vec![step(7)]));
        assert_eq!(list(folder.path()).len(), 1);
        // The file is not what it was.
        fs::write(path(folder.path(), 2), "").unwrap();
        history.push(step(8), &HistoryLimits::default());
        assert!(past.save(&disk, folder.path(), &history).is_err());
        past.save(&disk, folder.path(), &history).unwrap();
        assert_eq!(read(&origin, folder.path()).0.len(), 2);
    }

    #[test]
    fn files_stay_small_and_hold_the_history() {
        let (origin, folder) = (Name::parse("r").unwrap(), tempfile::tempdir().unwrap());
        let disk = Disk::open(folder.path()).unwrap();
        let (mut past, mut history) = (Past::default(), History::default());
        let limits = HistoryLimits { versions: 5, ..HistoryLimits::default() };
        for serial in 1..1200 {
            let HistoryStep { delta, at, .. } = step(serial % 200 + 1);
            // Serials of one octet do for the addresses; the chain needs them to rise.
            let causes: Arc<[Cause]> = [Cause::Rollback { to: Serial(serial) }].into();
            if serial % 200 == 0 {
                history.clear();
            }
            history.push(HistoryStep { delta, at, causes }, &limits);
            past.save(&disk, folder.path(), &history).unwrap();
            let bytes: u64 = list(folder.path()).iter().map(|(_, path)| fs::metadata(path).unwrap().len()).sum();
            assert!(bytes < 3 * MIN_BYTES, "{bytes}");
        }
        let found = read_steps(&origin, folder.path()).0;
        let kept: Vec<HistoryStep> = history.steps().cloned().collect();
        assert!(found.ends_with(&kept));
    }
}
