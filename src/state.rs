//! State on disk: what was served last is served again after a restart, even if every primary is unreachable.
//!
//! ```text
//! FOLDER/lock                     one process at a time
//! FOLDER/probe.tmp                written and removed at the start, to see whether that can be done
//! FOLDER/regions                  serial and drift that each region was last published with, all drains and all pins,
//!                                 and what trees of ZooKeeper's zones were made of
//! FOLDER/zones/ZONE/snapshot      one version of a source zone
//! FOLDER/zones/ZONE/journal.N     the steps that led to snapshot N, and those that have followed
//! FOLDER/zones/REGION/snapshot    the contents to which a region is pinned; what is left of them once it is released
//! FOLDER/zones/REGION/past.N      the steps of a region's history
//! FOLDER/inventories/NAME.*       inventories of which zones are made ([`inventories`])
//! FOLDER/zones/ZONE/*.broken      what could not be read, kept for whoever wants to know why
//! ```
//!
//! [`Store::load`] reads, before anything is served. After that the keeper hands over each version before it publishes
//! it, waits a moment at [`Store::flush`], and goes on whatever the answer: one thread writes, another builds snapshots
//! and waits for the medium (`writer`, `builder`). Regions are not kept, they are merged anew;
//! only how they came to what they are is (`past`).
//!
//! Invariants: what [`Store::flush`] has confirmed survives the end of the process at any moment; a failure of power or
//! of the system costs about the last second, and of confirmations about the last minute, but not a zone's first version
//! once it is confirmed. A large zone that is
//! written as a whole is not waited for: a process that is killed meanwhile comes back with the version before. What is
//! read was once current. No error of the disk ends or delays anything but what is written here; it is told once when
//! it begins and once when it ends. A folder that is removed is written whole again.
//!
//! Cost: O(change) for each version; once in a while, in the background, O(zone). Loading is O(zone).

mod builder;
pub mod disk;
mod entry;
mod failures;
pub mod frame;
mod inbox;
pub mod inventories;
mod ledger;
mod past;
mod regions;
pub mod replay;
pub mod snapshot;
mod writer;

#[cfg(test)]
mod tests;

pub use regions::{Facts, NewFacts};

use crate::budget::Buffers;
use crate::metrics::Metrics;
use crate::zone::{Delta, History, HistoryStep, Zone};
use builder::temporary_path;
use disk::Disk;
use inbox::{FilesAtStart, Inbox};
use ledger::journal_path;
use regions::RegionFile;
use replay::{Fault, Replayed};
use snapshot::SnapshotError;
use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, Once, PoisonError, mpsc};
use std::time::{Duration, Instant, SystemTime};
use wire::name::Name;
use wire::serial::Serial;
use writer::Writer;

/// Shortest time between two writes of a zone's last confirmation: an expiry is never later for it.
const REFRESH_INTERVAL: Duration = Duration::from_secs(60);
/// Longest time that the end waits for a disk that does not answer.
const CLOSING: Duration = Duration::from_secs(10);
/// Longest time that it waits for a disk that goes on writing: service managers give 90 s.
const LONGEST_CLOSING: Duration = Duration::from_secs(60);

/// A step of a region's history that is no longer is written at once.
const QUICK_BYTES: usize = 1 << 20;

/// The writer and the builder.
const THREADS: usize = 2;
/// Most attempts to read a zone whose files are being replaced.
const READINGS: usize = 3;

/// Error: the state folder cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum StateError {
    #[error("cannot create the state folder {}: {error}; create it, owned by the user that runs this program", .path.display())]
    Create { path: PathBuf, error: io::Error },
    #[error("cannot lock {}: {error}; the folder must be writable for the user that runs this program", .path.display())]
    Lock { path: PathBuf, error: io::Error },
    #[error("cannot write into the state folder {}: {error}; it must have room, and be writable for the user that runs this program", .path.display())]
    Write { path: PathBuf, error: io::Error },
    #[error("the state folder {} is in use by another process ({holder}); stop it, or give this one a folder of its own", .path.display())]
    InUse { path: PathBuf, holder: String },
    #[error("cannot start a thread for the state on disk: {0}")]
    Thread(io::Error),
}

/// State with which a region was last published.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RegionState {
    /// Number by which its serial was above the sum of its members' serials.
    pub drift: u32,
    pub last: Serial,
    /// Tells the plan by which its contents were made.
    pub fingerprint: u32,
}

/// The tree of ZooKeeper's that a zone was last made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TreeState {
    /// The change that made the domain's node; 0 when there was none.
    pub born: i64,
    /// The newest change.
    pub zxid: i64,
    pub nodes: u64,
    /// Time since which another one in its place is held back.
    pub held_since: Option<SystemTime>,
}

/// A zone as it was served last.
#[derive(Debug)]
pub struct Restored {
    pub zone: Arc<Zone>,
    /// Time at which a primary last confirmed the zone; never later than now.
    pub refreshed: SystemTime,
    /// The steps that led to it, oldest first.
    pub history: Vec<HistoryStep>,
}

/// Status of the store, as operators see it.
#[derive(Clone, Debug, serde::Serialize)]
pub struct StateStatus {
    pub folder: PathBuf,
    /// True if everything that should be written is written, or on its way.
    pub healthy: bool,
    /// Error of the disk, if it refuses something or does not answer.
    pub error: Option<String>,
    /// Bytes of all files of zones.
    pub bytes: u64,
    pub last_written: Option<SystemTime>,
}

/// State that the store and its threads share.
struct Shared {
    disk: Disk,
    inbox: Inbox,
    metrics: Arc<Metrics>,
    health: Mutex<Health>,
}

/// Health of the store.
struct Health {
    /// It as operators see it.
    status: StateStatus,
    /// Error with which the disk refuses something.
    refusal: Option<String>,
    /// True while the disk does not answer at all.
    is_silent: bool,
}

impl Shared {
    /// The health; what it holds is valid between any two statements.
    fn health(&self) -> MutexGuard<'_, Health> {
        self.health.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a failure.
    fn count(&self, operation: &str) {
        self.metrics.state_errors.with_label_values(&[operation]).inc();
    }

    /// Sets what the disk refuses; nothing, if nothing is.
    fn set_refusal(&self, refusal: Option<String>) {
        let mut health = self.health();
        health.refusal = refusal;
        self.show(&mut health);
    }

    /// Looks whether the disk answers. It is told when that changes.
    fn check_silence(&self) {
        let mut health = self.health();
        // Asked while nobody else can tell: the last to ask is right.
        let is_silent = self.inbox.is_silent();
        if is_silent == health.is_silent {
            return;
        }
        health.is_silent = is_silent;
        self.show(&mut health);
        let folder = self.disk.root().display();
        if is_silent {
            self.count("flush");
            tracing::error!(
                "the disk under {folder} does not answer; serving goes on, and what changes is lost at the end"
            );
        } else {
            tracing::info!("the disk under {folder} answers again");
        }
    }

    /// Shows what is wrong.
    fn show(&self, Health { status, refusal, is_silent }: &mut Health) {
        let folder = self.disk.root().display();
        let silence = is_silent.then(|| format!("{folder}: the disk does not answer"));
        status.error = silence.or_else(|| refusal.clone());
        status.healthy = status.error.is_none();
        self.metrics.state_healthy.set(status.healthy.into());
    }
}

//--- Store ---

/// The state on disk. Dropping it writes what waits, as [`Store::close`] does.
pub struct Store {
    shared: Arc<Shared>,
    /// What was kept of regions and trees before this process.
    pub facts: Facts,
    /// True if the folder could be written when it was opened: if not, what was read may be older than what was served
    /// last.
    pub was_writable: bool,
    /// Times at which each zone's last confirmation was handed to the writer; holds every zone that was read.
    times: Mutex<HashMap<Name, SystemTime>>,
    closed: Once,
}

/// Opens a folder for this process alone. One that cannot be made or written is read as far as it is there, and tried
/// again.
pub fn open(folder: &Path, metrics: Arc<Metrics>) -> Result<Store, StateError> {
    let disk = Disk::new(folder);
    let problem = match disk.claim() {
        Err(error @ StateError::InUse { .. }) => return Err(error),
        Err(error) => Some(error),
        Ok(()) => disk.try_writing().err().map(|error| StateError::Write { path: disk.root().to_path_buf(), error }),
    };
    let was_writable = problem.is_none();
    let status =
        StateStatus { folder: disk.root().to_path_buf(), healthy: true, error: None, bytes: 0, last_written: None };
    let health = Mutex::new(Health { status, refusal: None, is_silent: false });
    let shared = Arc::new(Shared { disk, inbox: Inbox::default(), metrics, health });
    shared.set_refusal(None);
    let file = read_regions(&shared);
    let facts = file.facts.clone();
    let (jobs, waiting) = mpsc::channel();
    let mut writer = Writer::new(shared.clone(), jobs, file);
    if let Some(problem) = problem {
        writer.refuse_folder(&problem);
    }
    start("state-writer", &shared, move || writer.run())?;
    let builder = shared.clone();
    start("state-builder", &shared, move || builder::run(&builder.disk, &builder.inbox, &waiting))?;
    Ok(Store { shared, facts, was_writable, times: Mutex::default(), closed: Once::new() })
}

/// Starts a thread. Should it end by a defect, nobody waits for it.
fn start(name: &str, shared: &Arc<Shared>, work: impl FnOnce() + Send + 'static) -> Result<(), StateError> {
    let guard = EndGuard(shared.clone());
    let run = move || {
        let _guard = guard;
        work();
    };
    std::thread::Builder::new().name(name.into()).spawn(run).map(|_| ()).map_err(StateError::Thread)
}

/// Ends the taking of work with the thread that does it.
struct EndGuard(Arc<Shared>);

impl Drop for EndGuard {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let text = "a defect has ended the thread that writes; restart to have state on disk again";
            tracing::error!("{text}");
            self.0.count("thread");
            self.0.set_refusal(Some(text.into()));
        }
        self.0.inbox.end();
    }
}

impl Store {
    /// The zone as it was served last. `None` where there is none, or none that can be read: that is told and counted.
    /// Files that no program can read are kept aside; others stay where they are until there is a newer version. May be
    /// called for many zones at once.
    pub fn load(&self, zone: &Name) -> Option<Restored> {
        self.load_as(zone, zone)
    }

    /// Loads a version that is kept under another name than its origin's.
    pub fn load_as(&self, zone: &Name, origin: &Name) -> Option<Restored> {
        let is_first = !self.times().contains_key(zone);
        // A zone that has been read in this process may be being written.
        if !is_first {
            self.shared.inbox.flush_all(CLOSING);
        }
        let folder = self.shared.disk.zone_folder(zone);
        let mut replayed = self.read((zone, origin), &folder, is_first)?;
        for _ in 1..READINGS {
            if is_first || replayed.fault.is_none() {
                break;
            }
            replayed = self.read((zone, origin), &folder, is_first)?;
        }
        let version = Arc::new(replayed.zone);
        let refreshed = replayed.refreshed.min(SystemTime::now());
        let is_rewritten =
            replayed.fault.as_ref().is_some_and(|fault| !matches!(fault, Fault::Torn(_)) && !fault.may_pass());
        self.times().insert(zone.clone(), refreshed);
        if is_first {
            let found = FilesAtStart { ledger: replayed.ledger, version: Arc::downgrade(&version), refreshed };
            self.shared.inbox.found(zone, found);
            if is_rewritten {
                self.shared.inbox.replace(zone, version.clone(), refreshed);
            }
        }
        Some(Restored { zone: version, refreshed, history: replayed.history })
    }

    /// Reads a zone's files, and sets them in order if nobody writes them.
    fn read(&self, (zone, origin): (&Name, &Name), folder: &Path, is_first: bool) -> Option<Replayed> {
        let path = folder.join("snapshot");
        let refuse = |path: &Path, error: &dyn std::fmt::Display| {
            self.shared.count("load");
            tracing::error!(%zone, "{} cannot be used: {error}", path.display());
        };
        let snapshot = match std::fs::read(&path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return None,
            Err(error) => {
                refuse(&path, &error);
                return None;
            }
        };
        let journal = journal_path(folder, snapshot::generation(&snapshot).unwrap_or_default());
        let bytes = std::fs::read(&journal);
        match replay::replay(origin, &snapshot, bytes.as_deref().ok()) {
            Ok(mut replayed) => {
                if let Some(error) = bytes.err().filter(|error| error.kind() != io::ErrorKind::NotFound) {
                    replayed.fault = Some(Fault::Unreadable(error.to_string()));
                }
                if let Some(fault) = &replayed.fault {
                    self.shared.count(fault.label());
                    tracing::warn!(%zone, serial = replayed.zone.soa.serial.0, "{}: {fault}", folder.display());
                }
                if is_first {
                    self.put_in_order(folder, &mut replayed);
                }
                Some(replayed)
            }
            Err(error) => {
                refuse(&path, &error);
                if is_first && !matches!(error, SnapshotError::Version(_)) {
                    set_aside(&self.shared.disk, &path);
                    set_aside(&self.shared.disk, &journal);
                }
                None
            }
        }
    }

    /// Cuts a torn journal, keeps one aside that will never fit, and removes what a killed process left.
    fn put_in_order(&self, folder: &Path, replayed: &mut Replayed) {
        let journal = journal_path(folder, replayed.ledger.generation);
        match &replayed.fault {
            Some(Fault::Torn(_)) => {
                if let Err(error) = self.shared.disk.truncate(&journal, replayed.ledger.end) {
                    self.shared.count("load");
                    tracing::error!("{} cannot be cut: {error}", journal.display());
                    replayed.ledger.tip = None;
                }
            }
            None | Some(Fault::Missing) => {}
            Some(fault) if fault.may_pass() => {}
            Some(_) => set_aside(&self.shared.disk, &journal),
        }
        let Ok(entries) = std::fs::read_dir(folder) else { return };
        for path in entries.filter_map(|entry| Some(entry.ok()?.path())) {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            let is_left_over = name.starts_with("journal.") && name != "journal.broken" && path != journal;
            if is_left_over || path == temporary_path(folder) {
                // What cannot be removed does no harm but takes room.
                let _ = self.shared.disk.remove(&path);
            }
        }
    }

    /// The count of what waits for the disk.
    pub fn buffers(&self) -> Buffers {
        self.shared.inbox.buffers().clone()
    }

    /// Reads the history of a region up to its last version; for a start, before any history is handed over.
    pub fn load_past(&self, region: &Name) -> History {
        let (history, found) = past::read(region, &self.shared.disk.zone_folder(region));
        self.shared.inbox.past_found(region, found);
        history
    }

    /// Takes a version and the step that led to it from the version before.
    pub fn append(&self, zone: &Name, delta: Arc<Delta>, new: Arc<Zone>, refreshed: SystemTime) {
        self.times().insert(zone.clone(), refreshed);
        self.shared.inbox.append(zone, delta, new, refreshed);
    }

    /// Takes a version to which no step leads.
    pub fn replace(&self, zone: &Name, new: Arc<Zone>, refreshed: SystemTime) {
        self.times().insert(zone.clone(), refreshed);
        self.shared.inbox.replace(zone, new, refreshed);
    }

    /// Takes the time of a confirmation; it is written at most once a minute.
    pub fn refreshed(&self, zone: &Name, at: SystemTime) {
        let mut times = self.times();
        let Some(last) = times.get_mut(zone) else { return };
        // A clock that was set back counts as well.
        let passed = at.duration_since(*last).unwrap_or_else(|error| error.duration());
        if passed >= REFRESH_INTERVAL {
            *last = at;
            drop(times);
            self.shared.inbox.refreshed(zone, at);
        }
    }

    /// Takes what is to be kept of regions and trees.
    pub fn save(&self, facts: NewFacts) {
        self.shared.inbox.regions(facts);
    }

    /// Takes a region's history, to which one step has come since the last time, or which is another one.
    pub fn save_past(&self, region: &Name, history: History) {
        let is_quick = history.iter().next_back().is_none_or(|last| last.len_bytes() <= QUICK_BYTES);
        self.shared.inbox.past(region, history, is_quick);
    }

    /// Waits until everything handed over before is written, however large; false when the disk refuses any of it, or
    /// takes too long.
    pub fn flush_all(&self) -> bool {
        self.shared.inbox.flush_all(CLOSING)
    }

    /// Waits until everything handed over before would survive the end of the process, but for a large zone that must
    /// be written as a whole: that goes on in the background. False when the disk refuses some of it, or takes longer
    /// than the patience: until it answers nobody waits for it again.
    pub fn flush(&self, patience: Duration) -> bool {
        let is_written = self.shared.inbox.flush(patience);
        if !is_written {
            self.shared.check_silence();
        }
        is_written
    }

    /// Writes what waits and lets go of the folder; what is handed over later is not written.
    pub fn close(&self) {
        self.closed.call_once(|| {
            self.shared.inbox.close();
            let begun = Instant::now();
            let mut left = self.shared.inbox.outstanding();
            while !self.shared.inbox.wait_for_end(THREADS, CLOSING) {
                // First snapshots of very many zones take longer, but each of them gets there.
                let now = self.shared.inbox.outstanding();
                if now >= left || begun.elapsed() > LONGEST_CLOSING {
                    tracing::warn!(zones = now, "the disk does not answer; the last changes may not be on it");
                    return;
                }
                left = now;
            }
            self.shared.disk.unlock();
        });
    }

    /// Status of the store, as operators see it.
    pub fn status(&self) -> StateStatus {
        self.shared.health().status.clone()
    }

    /// The times of confirmations; valid between any two statements.
    fn times(&self) -> MutexGuard<'_, HashMap<Name, SystemTime>> {
        self.times.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        self.close();
    }
}

/// Reads the regions' file. One that cannot be read is told, counted, kept aside and written anew.
fn read_regions(shared: &Shared) -> RegionFile {
    let path = RegionFile::path(&shared.disk);
    let problem = match std::fs::read(&path) {
        Ok(bytes) => match regions::read(&bytes) {
            Some(file) => return file,
            None => "it is damaged".to_owned(),
        },
        Err(error) if error.kind() == io::ErrorKind::NotFound => return RegionFile::default(),
        Err(error) => error.to_string(),
    };
    set_aside(&shared.disk, &path);
    shared.count("load");
    tracing::error!(
        "{} cannot be used, serials of regions may fall, drains and pins are over: {problem}",
        path.display()
    );
    RegionFile::default()
}

/// Keeps a file for whoever wants to know what was wrong with it.
fn set_aside(disk: &Disk, path: &Path) {
    let broken = path.with_extension("broken");
    // If this fails the file is replaced by the next one.
    let _ = disk.rename(path, &broken);
}
