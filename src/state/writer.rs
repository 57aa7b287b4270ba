//! The one thread that changes files in use: it appends to journals and puts new snapshots in their place.
//!
//! A journal that has grown is replaced beside ongoing work: the builder writes a snapshot of the present version and a
//! journal of the next generation, the writer goes on appending to the old one, copies over what came meanwhile, and
//! renames the snapshot, which is the moment from which the new generation counts. A process killed before finds the
//! old pair, one killed after finds the new one; both hold everything.
//!
//! What the disk refuses is tried again as a snapshot of the newest version, one zone at a time, ever less often, until
//! it works. Meanwhile a zone keeps its newest version in memory and nothing else.
//!
//! Cost: O(bytes appended); the budget of memory knows of what is held here ([`Buffers`](crate::budget::Buffers)).

use super::builder::{Build, Job};
use super::disk;
use super::entry::{Building, Entry, Held, Wanted, encode};
use super::failures::Failures;
use super::frame::{self, Kind};
use super::inbox::{Backlog, Done, PastBacklog};
use super::ledger::journal_path;
use super::past::Past;
use super::regions::{NewFacts, RegionFile};
use super::{Shared, StateError};
use crate::zone::{Delta, Zone};
use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant, SystemTime};
use wire::name::Name;

/// Shortest time between two syncs: a power failure costs the last second, which the primaries still have.
const SYNC_INTERVAL: Duration = Duration::from_secs(1);
/// Longest time that the builder may be at one thing before the disk is held to hang.
const MAX_SILENCE: Duration = Duration::from_secs(if cfg!(test) { 2 } else { 30 });
/// Interval at which the writer looks whether its folder is still there, and takes confirmations.
const LOOK_INTERVAL: Duration = Duration::from_secs(if cfg!(test) { 1 } else { 5 });
/// Records that are in a snapshot soon: a barrier waits for no more than that.
const QUICK_RECORDS: u64 = 10_000;

/// The thread's state.
pub struct Writer {
    shared: Arc<Shared>,
    jobs: Sender<Job>,
    zones: HashMap<Name, Entry>,
    regions: RegionFile,
    /// Facts of regions that the disk has refused, and their number.
    refused_regions: Option<(NewFacts, u64)>,
    /// The histories of regions.
    pasts: HashMap<Name, Past>,
    /// Snapshots that are being built, and what all of them take, measured in records.
    builds: usize,
    effort: u64,
    /// Files with bytes that may not be on the medium.
    unsynced: HashMap<Option<Name>, PathBuf>,
    next_sync: Option<Instant>,
    syncing: bool,
    /// Time at which the builder got something to do, or had last done something.
    heard: Instant,
    /// True once the builder has not been heard for too long.
    is_stuck: bool,
    failures: Failures,
    /// Time at which to look whether the folder is there; `is_lost` is true if it was gone and has not come back.
    next_look: Instant,
    is_lost: bool,
}

impl Writer {
    /// A writer that knows no zone.
    pub fn new(shared: Arc<Shared>, jobs: Sender<Job>, regions: RegionFile) -> Writer {
        Writer {
            failures: Failures::new(shared.clone()),
            shared,
            jobs,
            zones: HashMap::new(),
            regions,
            refused_regions: None,
            pasts: HashMap::new(),
            builds: 0,
            effort: 0,
            unsynced: HashMap::new(),
            next_sync: None,
            syncing: false,
            heard: Instant::now(),
            is_stuck: false,
            next_look: Instant::now() + LOOK_INTERVAL,
            is_lost: false,
        }
    }

    /// Begins with a folder that cannot be written; it is tried with the regions' file.
    pub fn refuse_folder(&mut self, error: &StateError) {
        self.refused_regions = Some(self.all_regions());
        self.failures.note(None, "open", error.to_string());
    }

    /// Writes until the store is closed and everything is written.
    pub fn run(mut self) {
        loop {
            let next_sync = self.next_sync.filter(|_| !self.syncing);
            let deadline =
                [next_sync, self.failures.next, self.answer_due(), Some(self.next_look)].into_iter().flatten().min();
            let work = self.shared.inbox.take(deadline, self.builds > 0);
            let quiet = work.regions.is_none() && work.pasts.is_empty();
            let idle = work.backlogs.is_empty() && work.done.is_empty() && quiet;
            if work.ended || work.last && idle && self.builds == 0 {
                break;
            }
            if let Some((regions, number)) = work.regions {
                self.save_regions(regions, number);
            }
            for (name, backlog) in work.backlogs {
                self.take(name, backlog);
            }
            for (region, backlog) in work.pasts {
                self.save_past(region, backlog);
            }
            for done in work.done {
                self.heard = Instant::now();
                match done {
                    Done::Built { zone, generation, result } => self.finish(zone, generation, result),
                    Done::Synced(failures) => self.finish_sync(failures),
                }
            }
            self.sync();
            self.retry();
            self.look();
            self.watch();
        }
        for path in self.unsynced.values() {
            // Nobody is left who could be told, and the next start reads what there is.
            let _ = disk::sync_data(path);
        }
    }

    /// Time at which the builder is held to hang, if it is to do something and was not held to hang yet.
    fn answer_due(&self) -> Option<Instant> {
        ((self.builds > 0 || self.syncing) && !self.is_stuck).then(|| self.heard + MAX_SILENCE)
    }

    /// Gives the builder something to do.
    fn send(&mut self, job: Job) {
        if self.builds == 0 && !self.syncing {
            self.heard = Instant::now();
        }
        // The builder ends after the writer only, or with a defect that ends the writer, too.
        let _ = self.jobs.send(job);
    }

    /// Looks whether the disk answers.
    fn watch(&mut self) {
        let is_late = self.heard + MAX_SILENCE <= Instant::now();
        let is_stuck = is_late && (self.builds > 0 || self.syncing);
        if is_stuck != self.is_stuck {
            self.is_stuck = is_stuck;
            self.shared.inbox.set_stuck(is_stuck);
        }
        self.shared.check_silence();
    }

    /// Looks whether the folder is still there. All of one that somebody has removed is written anew, not only what
    /// changes from now on.
    fn look(&mut self) {
        if self.next_look > Instant::now() {
            return;
        }
        self.next_look = Instant::now() + LOOK_INTERVAL;
        if !self.is_lost && self.shared.disk.is_in_place() {
            return;
        }
        if let Err(error) = self.shared.disk.claim() {
            self.is_lost = true;
            self.refuse_folder(&error);
            return;
        }
        self.is_lost = false;
        tracing::warn!("{} was gone; everything is written into it anew", self.shared.disk.root().display());
        let (regions, number) = self.all_regions();
        self.save_regions(regions, number);
        for (name, mut entry) in std::mem::take(&mut self.zones) {
            entry.want_newest(true);
            self.close(name, entry);
        }
        for (region, past) in &mut self.pasts {
            let folder = self.shared.disk.zone_folder(region);
            note_past(&self.shared, &folder, past.rewrite(&self.shared.disk, &folder));
        }
    }

    //--- Zones ---

    /// Takes what was handed over for a zone.
    fn take(&mut self, name: Name, backlog: Backlog) {
        // A zone that is read again, because a reload has brought it back, was known all the time.
        let known = self.zones.remove(&name);
        let mut entry = known.unwrap_or_else(|| Entry::new(self.shared.disk.zone_folder(&name), backlog.found));
        match (entry.number, backlog.number) {
            (Some(_), Some(newer)) => self.shared.inbox.confirm(newer),
            (None, Some(number)) => entry.number = Some(number),
            _ => {}
        }
        if let Some((version, refreshed)) = backlog.base {
            entry.note_newest(&version, refreshed);
            entry.wanted = Some(Wanted { version, refreshed, whole: true });
            self.build(&name, &mut entry);
        }
        if let Some((version, refreshed)) = backlog.newest {
            entry.note_newest(&version, refreshed);
            let appended = self.append(&name, &mut entry, &backlog.deltas, &version);
            let waits = entry.wanted.as_ref().map(|wanted| wanted.whole);
            let long = entry.building.is_none() && entry.ledger.is_long();
            if !appended || waits.is_some() || long {
                let whole = !appended || waits == Some(true);
                entry.wanted = Some(Wanted { version, refreshed, whole });
            }
        }
        if let Some(time) = backlog.refreshed {
            self.refresh(&name, &mut entry, time);
        }
        self.close(name, entry);
    }

    /// Ends the work on a zone: has what is wanted built, counts bytes, and confirms what is written; whoever waits for
    /// that sees them.
    fn close(&mut self, name: Name, mut entry: Entry) {
        self.build(&name, &mut entry);
        let bytes = entry.ledger.bytes();
        let mut health = self.shared.health();
        health.status.bytes = health.status.bytes - entry.counted + bytes;
        entry.counted = bytes;
        drop(health);
        if let Some(number) = entry.number {
            if entry.is_written() {
                entry.number = None;
                self.shared.inbox.confirm(number);
            } else if entry.failed {
                self.shared.inbox.refuse(number);
            } else {
                // One snapshot is made at a time.
                let effort = self.effort + entry.wanted.as_ref().map_or(0, Wanted::effort);
                self.shared.inbox.build(number, effort <= QUICK_RECORDS);
            }
        }
        self.zones.insert(name, entry);
    }

    /// Appends steps. False if the version must be written as a whole: they do not fit, or the disk refuses them.
    fn append(&mut self, name: &Name, entry: &mut Entry, deltas: &[(Arc<Delta>, SystemTime)], version: &Zone) -> bool {
        if deltas.is_empty() {
            return entry.tip() == Some(version.soa_rrset());
        }
        let bytes = deltas.iter().map(|(delta, _)| delta.len_bytes()).sum();
        let _buffered = self.shared.inbox.buffers().hold(bytes);
        let Some(steps) = entry.tip().and_then(|tip| encode(tip, deltas)) else { return false };
        let tip = version.soa_rrset().clone();
        if let Some(Building::Whole(held)) = &mut entry.building {
            return held.add(&steps, tip);
        }
        let is_written = self.write(name, entry, entry.ledger.end, &steps.bytes);
        if is_written {
            self.note_written(Some(name.clone()), entry.journal());
            entry.ledger.append(&steps.places, steps.bytes.len() as u64);
            entry.ledger.tip = Some(tip);
        }
        is_written
    }

    /// Writes that the version was confirmed. The system may take its time with it: without the newest of them a zone
    /// only expires earlier, and most zones have nothing else to write.
    fn refresh(&mut self, name: &Name, entry: &mut Entry, time: SystemTime) {
        entry.refreshed = Some(time);
        if let Some(wanted) = &mut entry.wanted {
            wanted.refreshed = time;
        }
        if entry.tip().is_none() {
            return;
        }
        let from = match &mut entry.building {
            Some(Building::Whole(held)) => return held.refresh(time),
            // The builder reads what is before.
            Some(Building::Compaction { at, .. }) => *at,
            None => 0,
        };
        let place = entry.ledger.replaceable(from);
        let mut bytes = Vec::new();
        frame::push(&mut bytes, Kind::Refreshed, time, |_| ());
        if !self.write(name, entry, place.unwrap_or(entry.ledger.end), &bytes) {
            return;
        }
        self.shared.health().status.last_written = Some(SystemTime::now());
        if place.is_none() {
            entry.ledger.append(&[(0, Kind::Refreshed)], bytes.len() as u64);
        }
    }

    /// Writes into a zone's journal; returns whether that is done. Where the disk refuses it, nothing is appended to that
    /// journal any more: part of it may have been written.
    fn write(&mut self, name: &Name, entry: &mut Entry, at: u64, bytes: &[u8]) -> bool {
        let path = entry.journal();
        match self.shared.disk.write_at(&path, entry.ledger.end, at, bytes) {
            Ok(()) => true,
            Err(error) => {
                entry.ledger.tip = None;
                self.fail(name, entry, "append", &error);
                false
            }
        }
    }

    /// Notes that a file has bytes for the medium.
    fn note_written(&mut self, name: Option<Name>, path: PathBuf) {
        self.unsynced.insert(name, path);
        self.next_sync.get_or_insert_with(|| Instant::now() + SYNC_INTERVAL);
        self.shared.health().status.last_written = Some(SystemTime::now());
    }

    //--- Snapshots ---

    /// Has the builder make the snapshot that is wanted, if it may be made now.
    fn build(&mut self, name: &Name, entry: &mut Entry) {
        if entry.failed || entry.building.is_some() {
            return;
        }
        let Some(wanted) = entry.wanted.take() else { return };
        entry.effort = wanted.effort();
        let Wanted { version, refreshed, whole } = wanted;
        // Files of a zone that was not read may be there, and are the ones that count until these are complete.
        entry.generation = (entry.generation + 1).max(frame::to_millis(SystemTime::now()));
        let mut carried = None;
        entry.building = Some(if whole || entry.ledger.tip.is_none() {
            Building::Whole(Held::new(&version, self.shared.inbox.buffers().hold(0)))
        } else {
            let (start, at) = (entry.ledger.carried_from(), entry.ledger.end);
            carried = Some((entry.journal(), start, at));
            Building::Compaction { start, at }
        });
        let (zone, folder, generation) = (name.clone(), entry.folder.clone(), entry.generation);
        self.send(Job::Build(Build { zone, folder, generation, version, refreshed, carried }));
        self.builds += 1;
        self.effort += entry.effort;
    }

    /// Puts a snapshot in place.
    fn finish(&mut self, name: Name, generation: u64, result: io::Result<(u64, u64)>) {
        self.builds -= 1;
        let Some(mut entry) = self.zones.remove(&name) else { return };
        self.effort -= entry.effort;
        let Some(building) = entry.building.take() else { return self.close(name, entry) };
        let lost = matches!(building, Building::Whole(_));
        let old = Some(entry.journal()).filter(|_| entry.ledger.generation > 0);
        match result.and_then(|lengths| entry.switch(&self.shared.disk, building, generation, lengths)) {
            Ok(()) => {
                let (folder, journal) = (entry.folder.clone(), journal_path(&entry.folder, generation));
                // Of a first snapshot there is nothing to remove.
                if let Some(old) = old {
                    let _ = self.jobs.send(Job::Clean { folder, journal: journal.clone(), old });
                }
                entry.failed = false;
                self.note_written(Some(name.clone()), journal);
                // Another one may be wanted, if the disk refused a step in the meantime.
                if entry.is_written() {
                    self.failures.recover(&Some(name.clone()));
                }
            }
            Err(error) => {
                if lost {
                    entry.ledger.tip = None;
                }
                self.fail(&name, &mut entry, "snapshot", &error);
            }
        }
        self.close(name, entry);
    }

    /// Takes a failure at a zone's files.
    fn fail(&mut self, name: &Name, entry: &mut Entry, operation: &'static str, error: &io::Error) {
        entry.fail();
        self.failures.note(Some(name.clone()), operation, format!("{}: {error}", entry.folder.display()));
    }

    //--- Regions ---

    /// Everything that is to be kept of regions, for a file that is not there any more: what was written, with what the
    /// disk has refused since, and the number of that.
    fn all_regions(&mut self) -> (NewFacts, u64) {
        let written = self.regions.distrust();
        match self.refused_regions.take() {
            Some((refused, number)) => (refused.over(written), number),
            None => (written, 0),
        }
    }

    /// Writes what is to be kept of regions.
    fn save_regions(&mut self, mut regions: NewFacts, number: u64) {
        // Older ones that were refused are written with these.
        if let Some((older, confirmed)) = self.refused_regions.take() {
            regions = regions.over(older);
            self.shared.inbox.confirm(confirmed);
        }
        match self.regions.save(&self.shared.disk, regions.clone()) {
            Ok(written) => {
                if written {
                    self.note_written(None, RegionFile::path(&self.shared.disk));
                }
                self.shared.inbox.confirm(number);
                self.failures.recover(&None);
            }
            Err(error) => {
                self.shared.inbox.refuse(number);
                self.refused_regions = Some((regions, number));
                self.fail_regions("regions", &error);
            }
        }
    }

    /// Takes a failure at the regions' file.
    fn fail_regions(&mut self, operation: &'static str, error: &io::Error) {
        let file = RegionFile::path(&self.shared.disk);
        self.failures.note(None, operation, format!("{}: {error}", file.display()));
    }

    /// Writes what has come to a region's history.
    fn save_past(&mut self, region: Name, backlog: PastBacklog) {
        let folder = self.shared.disk.zone_folder(&region);
        let past = self.pasts.entry(region).or_default();
        if let Some(found) = backlog.found {
            *past = found;
        }
        let Some((history, number)) = backlog.history else { return };
        let _buffered = self.shared.inbox.buffers().hold(past.unsaved_bytes(&history));
        note_past(&self.shared, &folder, past.save(&self.shared.disk, &folder, &history));
        self.shared.inbox.confirm(number);
    }

    //--- Medium ---

    /// Has the builder send written bytes to the medium, when it is time and the last time is over.
    fn sync(&mut self) {
        if !self.syncing && self.next_sync.is_some_and(|at| at <= Instant::now()) {
            self.next_sync = None;
            let files = self.unsynced.drain().collect();
            self.send(Job::Sync(files));
            self.syncing = true;
        }
    }

    /// Takes what could not be sent to the medium. The system forgets such bytes, so they are written anew.
    fn finish_sync(&mut self, failures: Vec<(Option<Name>, io::Error)>) {
        self.syncing = false;
        for (name, error) in failures {
            if let Some((name, mut entry)) = name.and_then(|name| self.zones.remove_entry(&name)) {
                entry.ledger.tip = None;
                self.fail(&name, &mut entry, "sync", &error);
                self.zones.insert(name, entry);
                continue;
            }
            if self.refused_regions.is_none() {
                self.refused_regions = Some((self.regions.distrust(), 0));
            }
            self.fail_regions("sync", &error);
        }
    }

    /// Tries again one of the things that failed, when it is time.
    fn retry(&mut self) {
        match self.failures.due() {
            None => {}
            Some(None) => match self.refused_regions.take() {
                Some((regions, number)) => self.save_regions(regions, number),
                None => self.failures.recover(&None),
            },
            Some(Some(name)) => {
                let mut entry = self.zones.remove(&name).expect("what failed has an entry");
                entry.failed = false;
                // Nobody has the version any more: the next one is written as a whole.
                if entry.wanted.is_none() && entry.building.is_none() {
                    self.failures.recover(&Some(name.clone()));
                }
                self.close(name, entry);
            }
        }
    }
}

/// Tells of a history that the disk refuses: the next version brings it again, and nothing that is served depends on it.
fn note_past(shared: &Shared, folder: &Path, written: io::Result<()>) {
    if let Err(error) = written {
        shared.count("history");
        tracing::debug!("{}: the history cannot be kept: {error}", folder.display());
    }
}
