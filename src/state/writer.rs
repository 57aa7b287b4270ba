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

use super::builder::{Build, Job, temporary_path};
use super::disk;
use super::frame::{self, Encoded, Kind};
use super::inbox::{Backlog, Done, PastBacklog};
use super::ledger::{Ledger, journal_path};
use super::past::Past;
use super::regions::{RegionFile, Regions};
use super::{Shared, StateError};
use crate::budget::buffers::Buffered;
use crate::zone::{Delta, Zone};
use std::collections::{HashMap, VecDeque};
use std::io;
use std::path::PathBuf;
use std::sync::mpsc::Sender;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant, SystemTime};
use wire::name::Name;
use wire::rr::RRset;

/// Shortest time between two syncs: a power failure costs the last second, which the primaries still have.
const SYNC_INTERVAL: Duration = Duration::from_secs(1);
/// First wait after the disk has refused something; each further one is twice as long.
const FIRST_RETRY: Duration = Duration::from_secs(1);
/// The longest wait.
const LAST_RETRY: Duration = Duration::from_secs(60);
/// Longest time that the builder may be at one thing before the disk is held to hang.
const MAX_SILENCE: Duration = Duration::from_secs(if cfg!(test) { 2 } else { 30 });
/// Interval at which the writer looks whether its folder is still there.
const LOOK_INTERVAL: Duration = Duration::from_secs(5);
/// Steps that wait in memory for the first snapshot of a zone, in bytes: beyond, another snapshot follows.
const MAX_HELD_BYTES: usize = 4 << 20;

/// Records that are in a snapshot soon: a barrier waits for no more than that.
const QUICK_RECORDS: u64 = 10_000;
/// Effort of a snapshot beside its records, measured in records.
const BUILD_RECORDS: u64 = 500;

//--- Entry ---

/// State of one zone's files, as the writer knows it.
#[derive(Default)]
struct Entry {
    folder: PathBuf,
    ledger: Ledger,
    /// The number that the last snapshot got, whatever became of it.
    generation: u64,
    building: Option<Building>,
    /// Effort of the building, measured in records.
    effort: u64,
    wanted: Option<Wanted>,
    /// The version that came last, as long as anybody has it, and when it was last confirmed.
    newest: Weak<Zone>,
    refreshed: Option<SystemTime>,
    /// The disk has refused something: `wanted` waits for the next try.
    failed: bool,
    /// The number under which the oldest was handed over that is not yet written.
    number: Option<u64>,
    /// Bytes that are counted in the total.
    counted: u64,
}

/// A snapshot in the making.
enum Building {
    /// Snapshot of what the journal gives at `at`; frames go on being appended to it.
    Compaction { start: u64, at: u64 },
    /// Snapshot of a version to which the journal does not lead; frames wait for the journal to come.
    Whole(Held),
}

/// Frames for a journal that is not yet in use.
struct Held {
    steps: Encoded,
    tip: Arc<RRset>,
    /// Counts the steps.
    buffered: Buffered,
}

/// A version that must become a snapshot.
struct Wanted {
    version: Arc<Zone>,
    refreshed: SystemTime,
    /// The files do not lead to it.
    whole: bool,
}

impl Wanted {
    /// Effort of the snapshot, measured in records.
    fn effort(&self) -> u64 {
        self.version.records + BUILD_RECORDS
    }
}

impl Entry {
    /// Returns true if everything handed over is on disk.
    fn is_written(&self) -> bool {
        !self.wanted.as_ref().is_some_and(|wanted| wanted.whole) && !matches!(self.building, Some(Building::Whole(_)))
    }

    /// The SOA of the version to which the next step must be added; none when no step can be.
    fn tip(&self) -> Option<&Arc<RRset>> {
        if self.wanted.as_ref().is_some_and(|wanted| wanted.whole) {
            return None;
        }
        match &self.building {
            Some(Building::Whole(held)) => Some(&held.tip),
            _ => self.ledger.tip.as_ref(),
        }
    }
}

/// Writes steps as frames, if the first starts at the tip and each where the one before it ends.
fn encode(tip: &Arc<RRset>, deltas: &[(Arc<Delta>, SystemTime)]) -> Option<Encoded> {
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

//--- Writer ---

/// The thread's state.
pub struct Writer {
    shared: Arc<Shared>,
    jobs: Sender<Job>,
    zones: HashMap<Name, Entry>,
    regions: RegionFile,
    /// Regions that the disk has refused, and their number.
    refused_regions: Option<(Regions, u64)>,
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
    /// Zones whose work the disk has refused, the next to be tried first; regions have no name.
    failing: VecDeque<Option<Name>>,
    next_retry: Option<Instant>,
    retry_delay: Duration,
    /// Time at which to look whether the folder is there; `is_lost` is true if it was gone and has not come back.
    next_look: Instant,
    is_lost: bool,
}

impl Writer {
    /// A writer that knows no zone.
    pub fn new(shared: Arc<Shared>, jobs: Sender<Job>, regions: RegionFile) -> Writer {
        Writer {
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
            failing: VecDeque::new(),
            next_retry: None,
            retry_delay: FIRST_RETRY,
            next_look: Instant::now() + LOOK_INTERVAL,
            is_lost: false,
        }
    }

    /// Begins with a folder that cannot be written; it is tried with the regions' file.
    pub fn refuse_folder(&mut self, error: &StateError) {
        self.refused_regions = Some((self.regions.distrust(), 0));
        self.note_failure(None, "open", error.to_string());
    }

    /// Writes until the store is closed and everything is written.
    pub fn run(mut self) {
        loop {
            let next_sync = self.next_sync.filter(|_| !self.syncing);
            let deadline =
                [next_sync, self.next_retry, self.answer_due(), Some(self.next_look)].into_iter().flatten().min();
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
                    Done::Built { zone, generation, result } => self.finish(&zone, generation, result),
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
        let regions = self.regions.distrust();
        self.save_regions(regions, 0);
        let zones: Vec<Name> = self.zones.keys().cloned().collect();
        for name in zones {
            let entry = self.zones.get_mut(&name).expect("it was there a moment ago");
            let (Some(version), Some(refreshed)) = (entry.newest.upgrade(), entry.refreshed) else { continue };
            entry.wanted = Some(Wanted { version, refreshed, whole: true });
            self.build(&name);
            self.account(&name);
        }
        for (region, past) in &mut self.pasts {
            let folder = self.shared.disk.zone_folder(region);
            if let Err(error) = past.rewrite(&self.shared.disk, &folder) {
                self.shared.count("history");
                tracing::debug!("{}: the history cannot be kept: {error}", folder.display());
            }
        }
    }

    /// Takes what was handed over for a zone.
    fn take(&mut self, name: Name, backlog: Backlog) {
        let folder = || self.shared.disk.zone_folder(&name);
        let is_new = !self.zones.contains_key(&name);
        let entry = self.zones.entry(name.clone()).or_insert_with(|| Entry { folder: folder(), ..Entry::default() });
        // A zone that is read again, because a reload has brought it back, was known all the time.
        if let Some(found) = backlog.found.filter(|_| is_new) {
            (entry.newest, entry.refreshed) = (found.version, Some(found.refreshed));
            (entry.generation, entry.ledger) = (found.ledger.generation, found.ledger);
        }
        match (entry.number, backlog.number) {
            (Some(_), Some(newer)) => self.shared.inbox.confirm(newer),
            (None, Some(number)) => entry.number = Some(number),
            _ => {}
        }
        if let Some((version, refreshed)) = backlog.base {
            entry.newest = Arc::downgrade(&version);
            entry.refreshed = Some(refreshed);
            entry.wanted = Some(Wanted { version, refreshed, whole: true });
            self.build(&name);
        }
        if let Some((version, refreshed)) = backlog.newest {
            self.take_steps(&name, &backlog.deltas, version, refreshed);
        }
        if let Some(time) = backlog.refreshed {
            self.refresh(&name, time);
        }
        self.build(&name);
        self.account(&name);
    }

    /// Takes steps and the version to which they lead.
    fn take_steps(
        &mut self,
        name: &Name,
        deltas: &[(Arc<Delta>, SystemTime)],
        version: Arc<Zone>,
        refreshed: SystemTime,
    ) {
        let entry = self.zones.get_mut(name).expect("the caller has the entry");
        (entry.newest, entry.refreshed) = (Arc::downgrade(&version), Some(refreshed));
        let appended = self.append(name, deltas, &version);
        let entry = self.zones.get_mut(name).expect("the caller has the entry");
        let waits = entry.wanted.as_ref().map(|wanted| wanted.whole);
        let long = entry.building.is_none() && entry.ledger.is_long();
        if !appended || waits.is_some() || long {
            let whole = !appended || waits == Some(true);
            entry.wanted = Some(Wanted { version, refreshed, whole });
        }
    }

    /// Appends steps. False if the version must be written as a whole: they do not fit, or the disk refuses them.
    fn append(&mut self, name: &Name, deltas: &[(Arc<Delta>, SystemTime)], version: &Zone) -> bool {
        let entry = self.zones.get_mut(name).expect("the caller has the entry");
        if deltas.is_empty() {
            return entry.tip() == Some(version.soa_rrset());
        }
        let bytes = deltas.iter().map(|(delta, _)| delta.len_bytes()).sum();
        let _buffered = self.shared.inbox.buffers().hold(bytes);
        let Some(steps) = entry.tip().and_then(|tip| encode(tip, deltas)) else { return false };
        let tip = version.soa_rrset().clone();
        if let Some(Building::Whole(held)) = &mut entry.building {
            if held.steps.bytes.len() + steps.bytes.len() > MAX_HELD_BYTES {
                return false;
            }
            held.steps.extend(&steps);
            held.buffered.set(held.steps.bytes.len());
            held.tip = tip;
            return true;
        }
        let end = entry.ledger.end;
        if let Err(error) = self.write(name, end, &steps.bytes) {
            self.fail(Some(name.clone()), "append", &error);
            return false;
        }
        let entry = self.zones.get_mut(name).expect("the caller has the entry");
        entry.ledger.append(&steps.places, steps.bytes.len() as u64);
        entry.ledger.tip = Some(tip);
        true
    }

    /// Writes that the version was confirmed.
    fn refresh(&mut self, name: &Name, time: SystemTime) {
        let entry = self.zones.get_mut(name).expect("the caller has the entry");
        entry.refreshed = Some(time);
        if let Some(wanted) = &mut entry.wanted {
            wanted.refreshed = time;
        }
        if entry.tip().is_none() {
            return;
        }
        let from = match &mut entry.building {
            Some(Building::Whole(held)) => {
                held.steps.push(Kind::Refreshed, time, |_| ());
                held.buffered.set(held.steps.bytes.len());
                return;
            }
            // The builder reads what is before.
            Some(Building::Compaction { at, .. }) => *at,
            None => 0,
        };
        let place = entry.ledger.replaceable(from);
        let at = place.unwrap_or(entry.ledger.end);
        let mut bytes = Vec::new();
        frame::push(&mut bytes, Kind::Refreshed, time, |_| ());
        if let Err(error) = self.write(name, at, &bytes) {
            self.fail(Some(name.clone()), "append", &error);
        } else if place.is_none() {
            let entry = self.zones.get_mut(name).expect("the caller has the entry");
            entry.ledger.append(&[(0, Kind::Refreshed)], bytes.len() as u64);
        }
    }

    /// Writes into a zone's journal. Where the disk refuses it, nothing is appended to that journal any more: part of
    /// it may have been written.
    fn write(&mut self, name: &Name, at: u64, bytes: &[u8]) -> io::Result<()> {
        let entry = self.zones.get_mut(name).expect("the caller has the entry");
        let path = journal_path(&entry.folder, entry.ledger.generation);
        let written = self.shared.disk.write_at(&path, entry.ledger.end, at, bytes);
        match written {
            Ok(()) => self.note_written(Some(name.clone()), path),
            Err(_) => entry.ledger.tip = None,
        }
        written
    }

    /// Notes that a file has bytes for the medium.
    fn note_written(&mut self, name: Option<Name>, path: PathBuf) {
        self.unsynced.insert(name, path);
        self.next_sync.get_or_insert_with(|| Instant::now() + SYNC_INTERVAL);
        self.shared.status().last_written = Some(SystemTime::now());
    }

    //--- Snapshots ---

    /// Has the builder make the snapshot that is wanted, if it may be made now.
    fn build(&mut self, name: &Name) {
        let entry = self.zones.get_mut(name).expect("the caller has the entry");
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
            let (tip, buffered) = (version.soa_rrset().clone(), self.shared.inbox.buffers().hold(0));
            Building::Whole(Held { steps: Encoded::default(), tip, buffered })
        } else {
            let (start, at) = (entry.ledger.carried_from(), entry.ledger.end);
            carried = Some((journal_path(&entry.folder, entry.ledger.generation), start, at));
            Building::Compaction { start, at }
        });
        let (folder, generation) = (entry.folder.clone(), entry.generation);
        let effort = entry.effort;
        self.send(Job::Build(Build { zone: name.clone(), folder, generation, version, refreshed, carried }));
        self.builds += 1;
        self.effort += effort;
    }

    /// Puts a snapshot in place.
    fn finish(&mut self, name: &Name, generation: u64, result: io::Result<(u64, u64)>) {
        self.builds -= 1;
        let Some(entry) = self.zones.get_mut(name) else { return };
        self.effort -= entry.effort;
        let Some(building) = entry.building.take() else { return };
        let lost = matches!(building, Building::Whole(_));
        let old = Some(journal_path(&entry.folder, entry.ledger.generation)).filter(|_| entry.ledger.generation > 0);
        let switched = result.and_then(|(snapshot, journal)| {
            Self::switch(&self.shared.disk, entry, building, generation, snapshot, journal)
        });
        match switched {
            Ok(()) => {
                let (folder, journal) = (entry.folder.clone(), journal_path(&entry.folder, generation));
                let _ = self.jobs.send(Job::Clean { folder, journal: journal.clone(), old });
                entry.failed = false;
                // Another one may be wanted, if the disk refused a step in the meantime.
                let written = entry.is_written();
                self.note_written(Some(name.clone()), journal);
                if written {
                    self.recover(&Some(name.clone()));
                }
            }
            Err(error) => {
                if lost {
                    entry.ledger.tip = None;
                }
                self.fail(Some(name.clone()), "snapshot", &error);
            }
        }
        self.build(name);
        self.account(name);
    }

    /// Completes the journal of a new generation; where it continues the one in use, makes its snapshot the valid one.
    fn switch(
        disk: &disk::Disk,
        entry: &mut Entry,
        building: Building,
        generation: u64,
        snapshot_bytes: u64,
        journal_bytes: u64,
    ) -> io::Result<()> {
        let journal = journal_path(&entry.folder, generation);
        let tail = match &building {
            Building::Whole(held) => held.steps.bytes.clone(),
            Building::Compaction { at, .. } => {
                disk::read_range(&journal_path(&entry.folder, entry.ledger.generation), *at, entry.ledger.end)?
            }
        };
        if !tail.is_empty() {
            disk.write_at(&journal, journal_bytes, journal_bytes, &tail)?;
        }
        match building {
            Building::Compaction { start, at } => {
                disk.rename(&temporary_path(&entry.folder), &entry.folder.join("snapshot"))?;
                entry.ledger.compact(generation, snapshot_bytes, start, at);
            }
            // The builder has put it in place.
            Building::Whole(held) => {
                entry.ledger = Ledger::of_snapshot(generation, snapshot_bytes);
                entry.ledger.append(&held.steps.places, held.steps.bytes.len() as u64);
                entry.ledger.tip = Some(held.tip);
            }
        }
        Ok(())
    }

    /// Counts bytes, and confirms what is written; whoever waits for that sees them.
    fn account(&mut self, name: &Name) {
        let entry = self.zones.get_mut(name).expect("the caller has the entry");
        let bytes = entry.ledger.bytes();
        let mut status = self.shared.status();
        status.bytes = status.bytes - entry.counted + bytes;
        entry.counted = bytes;
        drop(status);
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
    }

    //--- Regions ---

    /// Writes what is to be kept of regions.
    fn save_regions(&mut self, mut regions: Regions, number: u64) {
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
                self.recover(&None);
            }
            Err(error) => {
                self.shared.inbox.refuse(number);
                self.refused_regions = Some((regions, number));
                self.fail(None, "regions", &error);
            }
        }
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
        if let Err(error) = past.save(&self.shared.disk, &folder, &history) {
            // The next version brings it again; nothing that is served depends on it.
            self.shared.count("history");
            tracing::debug!("{}: the history cannot be kept: {error}", folder.display());
        }
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
            if let Some(entry) = name.as_ref().and_then(|name| self.zones.get_mut(name)) {
                entry.ledger.tip = None;
            } else if self.refused_regions.is_none() {
                self.refused_regions = Some((self.regions.distrust(), 0));
            }
            self.fail(name, "sync", &error);
        }
    }

    //--- Failures ---

    /// Takes a failure: what is to be written is tried again as a whole if nothing can be appended.
    fn fail(&mut self, name: Option<Name>, operation: &'static str, error: &io::Error) {
        if let Some(entry) = name.as_ref().and_then(|name| self.zones.get_mut(name)) {
            let whole = entry.ledger.tip.is_none();
            if let (None, Some(version), Some(refreshed)) = (&entry.wanted, entry.newest.upgrade(), entry.refreshed) {
                entry.wanted = Some(Wanted { version, refreshed, whole });
            }
            if let Some(wanted) = &mut entry.wanted {
                wanted.whole |= whole;
            }
            entry.failed = true;
        }
        let file = match &name {
            Some(zone) => self.shared.disk.zone_folder(zone),
            None => RegionFile::path(&self.shared.disk),
        };
        self.note_failure(name, operation, format!("{}: {error}", file.display()));
    }

    /// Counts and tells a failure, and plans the next try.
    fn note_failure(&mut self, name: Option<Name>, operation: &'static str, text: String) {
        self.shared.count(operation);
        if self.failing.is_empty() {
            tracing::error!(
                operation,
                "state on disk cannot be kept, and would be missing after a restart; serving goes on, and so do tries: {text}"
            );
        } else {
            tracing::debug!(operation, "state on disk cannot be kept: {text}");
        }
        if !self.failing.contains(&name) {
            self.failing.push_back(name);
        }
        self.shared.set_refusal(Some(text));
        if self.next_retry.is_none() {
            self.next_retry = Some(Instant::now() + self.retry_delay);
            self.retry_delay = (self.retry_delay * 2).min(LAST_RETRY);
        }
    }

    /// Notes that something works that may have failed before.
    fn recover(&mut self, name: &Option<Name>) {
        let Some(index) = self.failing.iter().position(|failing| failing == name) else { return };
        self.failing.remove(index);
        self.retry_delay = FIRST_RETRY;
        if self.failing.is_empty() {
            tracing::info!("state on disk is kept again");
            self.next_retry = None;
            self.shared.set_refusal(None);
        } else {
            self.next_retry = Some(Instant::now());
        }
    }

    /// Tries again one of the things that failed, when it is time.
    fn retry(&mut self) {
        if self.next_retry.is_none_or(|at| at > Instant::now()) {
            return;
        }
        self.next_retry = None;
        let Some(name) = self.failing.front().cloned() else { return };
        self.failing.rotate_left(1);
        match name {
            None => match self.refused_regions.take() {
                Some((regions, number)) => self.save_regions(regions, number),
                None => self.recover(&None),
            },
            Some(name) => {
                let entry = self.zones.get_mut(&name).expect("what failed has an entry");
                entry.failed = false;
                // Nobody has the version any more: the next one is written as a whole.
                if entry.wanted.is_none() && entry.building.is_none() {
                    self.recover(&Some(name));
                } else {
                    self.build(&name);
                }
            }
        }
    }
}
