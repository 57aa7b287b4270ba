//! One zone's files as the writer knows them: what is on disk, what is being built, and what must be.
//!
//! Invariant: steps are added only where they go on from the tip.
//!
//! Cost: O(bytes of the steps that wait for a snapshot).

use super::builder::temporary_path;
use super::disk::{self, Disk};
use super::frame::{Encoded, Kind};
use super::inbox::FilesAtStart;
use super::ledger::{Ledger, journal_path};
use crate::budget::buffers::Buffered;
use crate::zone::{Delta, Zone};
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Weak};
use std::time::SystemTime;
use wire::rr::RRset;

/// Steps that wait in memory for the first snapshot of a zone, in bytes: beyond, another snapshot follows.
const MAX_HELD_BYTES: usize = 4 << 20;
/// Effort of a snapshot beside its records, measured in records.
const BUILD_RECORDS: u64 = 500;

/// State of one zone's files, as the writer knows it.
#[derive(Default)]
pub struct Entry {
    pub folder: PathBuf,
    pub ledger: Ledger,
    /// The number that the last snapshot got, whatever became of it.
    pub generation: u64,
    pub building: Option<Building>,
    /// Effort of the building, measured in records.
    pub effort: u64,
    pub wanted: Option<Wanted>,
    /// The version that came last, as long as anybody has it, and when it was last confirmed.
    pub newest: Weak<Zone>,
    pub refreshed: Option<SystemTime>,
    /// The disk has refused something: `wanted` waits for the next try.
    pub failed: bool,
    /// The number under which the oldest was handed over that is not yet written.
    pub number: Option<u64>,
    /// Bytes that are counted in the total.
    pub counted: u64,
}

/// A snapshot in the making.
pub enum Building {
    /// Snapshot of what the journal gives at `at`; frames go on being appended to it.
    Compaction { start: u64, at: u64 },
    /// Snapshot of a version to which the journal does not lead; frames wait for the journal to come.
    Whole(Held),
}

/// Frames for a journal that is not yet in use.
pub struct Held {
    steps: Encoded,
    tip: Arc<RRset>,
    /// Counts the steps.
    buffered: Buffered,
}

/// A version that must become a snapshot.
pub struct Wanted {
    pub version: Arc<Zone>,
    pub refreshed: SystemTime,
    /// The files do not lead to it.
    pub whole: bool,
}

impl Wanted {
    /// Effort of the snapshot, measured in records.
    pub fn effort(&self) -> u64 {
        self.version.records + BUILD_RECORDS
    }
}

impl Held {
    /// Begins behind a version without any; `buffered` counts what comes.
    pub fn new(version: &Zone, buffered: Buffered) -> Held {
        Held { steps: Encoded::default(), tip: version.soa_rrset().clone(), buffered }
    }

    /// Adds steps that lead to a tip; false if there is no room for them.
    pub fn add(&mut self, steps: &Encoded, tip: Arc<RRset>) -> bool {
        if self.steps.bytes.len() + steps.bytes.len() > MAX_HELD_BYTES {
            return false;
        }
        self.steps.extend(steps);
        self.buffered.set(self.steps.bytes.len());
        self.tip = tip;
        true
    }

    /// Adds a confirmation.
    pub fn refresh(&mut self, time: SystemTime) {
        self.steps.push(Kind::Refreshed, time, |_| ());
        self.buffered.set(self.steps.bytes.len());
    }
}

impl Entry {
    /// The entry of a folder, with what was found in it at start.
    pub fn new(folder: PathBuf, found: Option<FilesAtStart>) -> Entry {
        let mut entry = Entry { folder, ..Entry::default() };
        if let Some(found) = found {
            (entry.newest, entry.refreshed) = (found.version, Some(found.refreshed));
            (entry.generation, entry.ledger) = (found.ledger.generation, found.ledger);
        }
        entry
    }

    /// Returns true if everything handed over is on disk.
    pub fn is_written(&self) -> bool {
        !self.wants_whole() && !matches!(self.building, Some(Building::Whole(_)))
    }

    /// Returns true if a version waits to which the files do not lead.
    fn wants_whole(&self) -> bool {
        self.wanted.as_ref().is_some_and(|wanted| wanted.whole)
    }

    /// The SOA of the version to which the next step must be added; none when no step can be.
    pub fn tip(&self) -> Option<&Arc<RRset>> {
        match &self.building {
            _ if self.wants_whole() => None,
            Some(Building::Whole(held)) => Some(&held.tip),
            _ => self.ledger.tip.as_ref(),
        }
    }

    /// The journal in use.
    pub fn journal(&self) -> PathBuf {
        journal_path(&self.folder, self.ledger.generation)
    }

    /// Notes the version that came last.
    pub fn note_newest(&mut self, version: &Arc<Zone>, refreshed: SystemTime) {
        (self.newest, self.refreshed) = (Arc::downgrade(version), Some(refreshed));
    }

    /// Has the newest version become a snapshot, if anybody has it.
    pub fn want_newest(&mut self, whole: bool) {
        if let (Some(version), Some(refreshed)) = (self.newest.upgrade(), self.refreshed) {
            self.wanted = Some(Wanted { version, refreshed, whole });
        }
    }

    /// Takes a failure: what is to be written is tried again, as a whole if nothing can be appended.
    pub fn fail(&mut self) {
        let whole = self.ledger.tip.is_none();
        match &mut self.wanted {
            Some(wanted) => wanted.whole |= whole,
            None => self.want_newest(whole),
        }
        self.failed = true;
    }

    /// Completes the journal of a new generation; where it continues the one in use, makes its snapshot the valid one.
    /// `lengths` are those of snapshot and journal.
    pub fn switch(
        &mut self,
        disk: &Disk,
        building: Building,
        generation: u64,
        (snapshot_bytes, journal_bytes): (u64, u64),
    ) -> io::Result<()> {
        let tail = match &building {
            Building::Whole(held) => held.steps.bytes.clone(),
            Building::Compaction { at, .. } => disk::read_range(&self.journal(), *at, self.ledger.end)?,
        };
        if !tail.is_empty() {
            disk.write_at(&journal_path(&self.folder, generation), journal_bytes, journal_bytes, &tail)?;
        }
        match building {
            Building::Compaction { start, at } => {
                disk.rename(&temporary_path(&self.folder), &self.folder.join("snapshot"))?;
                self.ledger.compact(generation, snapshot_bytes, start, at);
            }
            // The builder has put it in place.
            Building::Whole(held) => {
                self.ledger = Ledger::of_snapshot(generation, snapshot_bytes);
                self.ledger.append(&held.steps.places, held.steps.bytes.len() as u64);
                self.ledger.tip = Some(held.tip);
            }
        }
        Ok(())
    }
}

/// Writes steps as frames, if the first starts at the tip and each where the one before it ends.
pub fn encode(tip: &Arc<RRset>, deltas: &[(Arc<Delta>, SystemTime)]) -> Option<Encoded> {
    let (mut steps, mut tip) = (Encoded::default(), tip);
    for (delta, time) in deltas {
        if delta.from != *tip {
            return None;
        }
        steps.push(Kind::Delta, *time, |out| delta.write(out));
        tip = &delta.to;
    }
    Some(steps)
}
