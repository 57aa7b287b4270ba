//! Queue of the writer, zone by zone, and the barrier behind which everything is written.
//!
//! Invariants: a zone waits with its steps in order or, when there are too many, with the version they lead to instead;
//! a number is outstanding until what was handed over under it is on disk, so a barrier can wait for all that came
//! before it.
//!
//! Cost: handing over is one lock and O(1). Memory: for each zone two versions and a bounded number of steps.

use super::ledger::Ledger;
use super::past::Past;
use super::regions::NewFacts;
use crate::budget::Buffers;
use crate::budget::buffers::Buffered;
use crate::zone::{Delta, History, Zone};
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant, SystemTime};
use wire::name::Name;

/// Steps of one zone that may wait, in bytes: beyond, its newest version does for all.
const MAX_WAITING_BYTES: usize = 16 << 20;
/// Steps of one zone that may wait.
const MAX_WAITING_DELTAS: usize = 4096;

//--- Work ---

/// State of a zone's files at start.
pub struct FilesAtStart {
    pub ledger: Ledger,
    pub version: Weak<Zone>,
    pub refreshed: SystemTime,
}

/// Work that waits for one zone.
#[derive(Default)]
pub struct Backlog {
    /// The number under which the oldest of it was handed over; none for times alone.
    pub number: Option<u64>,
    /// State of the files that was found at start.
    pub found: Option<FilesAtStart>,
    pub deltas: Vec<(Arc<Delta>, SystemTime)>,
    bytes: usize,
    /// Account of the steps' octets, which counts them until they are written.
    buffered: Option<Buffered>,
    /// A version to which no step leads, and from which the steps go on.
    pub base: Option<(Arc<Zone>, SystemTime)>,
    /// The version that the newest step leads to.
    pub newest: Option<(Arc<Zone>, SystemTime)>,
    /// A confirmation after all steps.
    pub refreshed: Option<SystemTime>,
}

impl Backlog {
    /// Begins anew with a version.
    fn begin(&mut self, version: Arc<Zone>, time: SystemTime) {
        self.base = Some((version.clone(), time));
        self.newest = Some((version, time));
        self.refreshed = None;
        self.deltas.clear();
        (self.bytes, self.buffered) = (0, None);
    }
}

/// Work that waits for one region.
#[derive(Default)]
pub struct PastBacklog {
    /// The files as they were found at start.
    pub found: Option<Past>,
    /// The newest history, and the number under which the first of it was handed over that is not written.
    pub history: Option<(History, u64)>,
}

/// Work that the builder has done.
pub enum Done {
    /// Snapshot that was built, with the octets of snapshot and journal.
    Built { zone: Name, generation: u64, result: io::Result<(u64, u64)> },
    /// Files that were sent to the medium, with the errors of those that failed.
    Synced(Vec<(Option<Name>, io::Error)>),
}

/// All that the writer takes at once.
pub struct Work {
    pub backlogs: Vec<(Name, Backlog)>,
    pub regions: Option<(NewFacts, u64)>,
    pub pasts: Vec<(Name, PastBacklog)>,
    pub done: Vec<Done>,
    /// The store is being closed.
    pub last: bool,
    /// The other thread has ended: nothing more can be done.
    pub ended: bool,
}

//--- Inbox ---

/// The writer's side and everybody else's.
#[derive(Default)]
pub struct Inbox {
    state: Mutex<Waiting>,
    /// Something has come for the writer.
    came: Condvar,
    /// Something has been written, or will not be for now.
    moved: Condvar,
    buffers: Buffers,
}

/// Work that waits, and the numbers of what is not yet written.
#[derive(Default)]
struct Waiting {
    backlogs: HashMap<Name, Backlog>,
    order: VecDeque<Name>,
    regions: Option<(NewFacts, u64)>,
    pasts: HashMap<Name, PastBacklog>,
    done: Vec<Done>,
    last: bool,
    /// Threads that have ended: after the first, nothing is taken any more.
    ended: usize,
    next: u64,
    outstanding: BTreeMap<u64, Stage>,
    /// The builder has not answered for long.
    is_stuck: bool,
}

/// Stage of something that is not yet on disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// The writer has it, or will take it.
    Handed,
    /// It waits for a snapshot that is made soon.
    Building,
    /// It waits for a snapshot that takes its time.
    Deferred,
    /// The disk has refused it, and it is tried again.
    Refused,
    /// A barrier has waited for the writer in vain.
    Overdue,
}

impl Waiting {
    /// Gives a number to what is handed over.
    fn number(&mut self) -> u64 {
        self.next += 1;
        self.outstanding.insert(self.next, Stage::Handed);
        self.next
    }

    /// Returns true if a barrier has waited in vain for something that is still not written.
    fn has_overdue(&self) -> bool {
        self.outstanding.values().any(|stage| *stage == Stage::Overdue)
    }

    /// The backlog of a zone.
    fn backlog(&mut self, zone: &Name) -> &mut Backlog {
        if !self.backlogs.contains_key(zone) {
            self.order.push_back(zone.clone());
        }
        self.backlogs.entry(zone.clone()).or_default()
    }

    /// The backlog of a zone, with a number.
    fn numbered(&mut self, zone: &Name) -> &mut Backlog {
        let number = match self.backlogs.get(zone).and_then(|backlog| backlog.number) {
            Some(number) => number,
            None => self.number(),
        };
        let backlog = self.backlog(zone);
        backlog.number = Some(number);
        backlog
    }
}

impl Inbox {
    /// The count of what waits here, and of what the threads hold of it.
    pub fn buffers(&self) -> &Buffers {
        &self.buffers
    }

    /// Takes the lock; what it guards is valid between any two statements.
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes what waits, unless nobody will ever take it, and tells the writer.
    fn hand_over(&self, change: impl FnOnce(&mut Waiting)) {
        let mut waiting = self.lock();
        if waiting.ended == 0 {
            change(&mut waiting);
            self.came.notify_one();
        }
    }

    /// Hands over what was found on disk.
    pub fn found(&self, zone: &Name, found: FilesAtStart) {
        self.hand_over(|waiting| waiting.backlog(zone).found = Some(found));
    }

    /// Hands over a step.
    pub fn append(&self, zone: &Name, delta: Arc<Delta>, new: Arc<Zone>, time: SystemTime) {
        self.hand_over(|waiting| {
            let backlog = waiting.numbered(zone);
            backlog.bytes += delta.len_bytes();
            if backlog.bytes > MAX_WAITING_BYTES || backlog.deltas.len() >= MAX_WAITING_DELTAS {
                backlog.begin(new, time);
            } else {
                backlog.newest = Some((new, time));
                backlog.refreshed = None;
                backlog.deltas.push((delta, time));
                let bytes = backlog.bytes;
                backlog.buffered.get_or_insert_with(|| self.buffers.hold(0)).set(bytes);
            }
        });
    }

    /// Hands over a version to which no step leads.
    pub fn replace(&self, zone: &Name, new: Arc<Zone>, time: SystemTime) {
        self.hand_over(|waiting| {
            waiting.numbered(zone).begin(new, time);
        });
    }

    /// Hands over a confirmation. The writer, which looks at its folder every few seconds, takes those of many zones
    /// together then: nobody waits for them.
    pub fn refreshed(&self, zone: &Name, time: SystemTime) {
        let mut waiting = self.lock();
        if waiting.ended == 0 {
            waiting.backlog(zone).refreshed = Some(time);
        }
    }

    /// Hands over what is to be kept of regions; what it does not tell stays as it was.
    pub fn regions(&self, regions: NewFacts) {
        self.hand_over(|waiting| {
            let (older, number) = waiting.regions.take().unwrap_or_else(|| (NewFacts::default(), waiting.number()));
            waiting.regions = Some((regions.over(older), number));
        });
    }

    /// Hands over the files of a region's history as they were found.
    pub fn past_found(&self, region: &Name, found: Past) {
        self.hand_over(|waiting| waiting.pasts.entry(region.clone()).or_default().found = Some(found));
    }

    /// Hands over a region's history; a barrier waits for it if it is written soon.
    pub fn past(&self, region: &Name, history: History, is_quick: bool) {
        self.hand_over(|waiting| {
            let before = waiting.pasts.get(region).and_then(|past| past.history.as_ref());
            let number = before.map(|(_, number)| *number).unwrap_or_else(|| waiting.number());
            if !is_quick {
                waiting.outstanding.insert(number, Stage::Deferred);
            }
            waiting.pasts.entry(region.clone()).or_default().history = Some((history, number));
        });
    }

    /// Hands over what the builder has done.
    pub fn done(&self, done: Done) {
        self.hand_over(|waiting| waiting.done.push(done));
    }

    /// Tells the writer to end when everything is written.
    pub fn close(&self) {
        self.hand_over(|waiting| waiting.last = true);
    }

    /// Waits until everything handed over before is written or refused, but for snapshots that take their time; false
    /// when the disk refuses any of it or is not that fast. Whatever was waited for in vain is not waited for again.
    pub fn flush(&self, patience: Duration) -> bool {
        let deadline = Instant::now() + patience;
        let mut waiting = self.lock();
        let last = waiting.next;
        loop {
            if waiting.ended > 0 || waiting.has_overdue() {
                return false;
            }
            let is_any = |stage: Stage| waiting.outstanding.range(..=last).any(|(_, found)| *found == stage);
            if !is_any(Stage::Handed) && !is_any(Stage::Building) {
                return !is_any(Stage::Refused);
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                for (_, stage) in waiting.outstanding.range_mut(..=last) {
                    match stage {
                        Stage::Handed => *stage = Stage::Overdue,
                        Stage::Building => *stage = Stage::Deferred,
                        Stage::Deferred | Stage::Refused | Stage::Overdue => {}
                    }
                }
            } else {
                waiting = self.moved.wait_timeout(waiting, left).unwrap_or_else(PoisonError::into_inner).0;
            }
        }
    }

    /// Waits for all snapshots, too, but not for a disk that refuses or does not answer; false when anything is not
    /// written.
    pub fn flush_all(&self, patience: Duration) -> bool {
        let is_coming = |stage: &Stage| matches!(stage, Stage::Handed | Stage::Building | Stage::Deferred);
        let waiting = self.lock();
        let last = waiting.next;
        let is_any_coming =
            |waiting: &mut Waiting| waiting.outstanding.range(..=last).any(|(_, stage)| is_coming(stage));
        let waited = self.moved.wait_timeout_while(waiting, patience, is_any_coming);
        let waiting = waited.unwrap_or_else(PoisonError::into_inner).0;
        waiting.ended == 0 && waiting.outstanding.range(..=last).next().is_none()
    }

    /// Number of things that are not yet on disk.
    pub fn outstanding(&self) -> usize {
        self.lock().outstanding.len()
    }

    /// Returns true if the disk does not answer.
    pub fn is_silent(&self) -> bool {
        let waiting = self.lock();
        waiting.is_stuck || waiting.has_overdue()
    }

    //--- The writer's side ---

    /// Waits for work, at most until the deadline; when the store is being closed only for what is still `busy`.
    pub fn take(&self, deadline: Option<Instant>, busy: bool) -> Work {
        let mut waiting = self.lock();
        loop {
            let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
            let quiet = waiting.regions.is_none() && waiting.pasts.is_empty();
            let idle = waiting.order.is_empty() && quiet && waiting.done.is_empty();
            if !idle || waiting.last && !busy || waiting.ended > 0 || left.is_some_and(|left| left.is_zero()) {
                break;
            }
            waiting = match left {
                Some(left) => self.came.wait_timeout(waiting, left).unwrap_or_else(PoisonError::into_inner).0,
                None => self.came.wait(waiting).unwrap_or_else(PoisonError::into_inner),
            };
        }
        let mut backlogs = std::mem::take(&mut waiting.backlogs);
        let order = std::mem::take(&mut waiting.order);
        Work {
            backlogs: order.into_iter().filter_map(|name| backlogs.remove_entry(&name)).collect(),
            regions: waiting.regions.take(),
            pasts: waiting.pasts.drain().collect(),
            done: std::mem::take(&mut waiting.done),
            last: waiting.last,
            ended: waiting.ended > 0,
        }
    }

    /// Notes that what was handed over under a number is written.
    pub fn confirm(&self, number: u64) {
        self.lock().outstanding.remove(&number);
        self.moved.notify_all();
    }

    /// Notes that the disk has refused what was handed over under a number.
    pub fn refuse(&self, number: u64) {
        self.lock().outstanding.insert(number, Stage::Refused);
        self.moved.notify_all();
    }

    /// Notes that what was handed over under a number waits for a snapshot, and whether that is made soon. What was
    /// refused before remains so until it is written.
    pub fn build(&self, number: u64, is_quick: bool) {
        if let Some(stage @ (Stage::Handed | Stage::Overdue)) = self.lock().outstanding.get_mut(&number) {
            *stage = if is_quick { Stage::Building } else { Stage::Deferred };
        }
        self.moved.notify_all();
    }

    /// Notes whether the builder has not answered for long.
    pub fn set_stuck(&self, is_stuck: bool) {
        self.lock().is_stuck = is_stuck;
    }

    /// Notes that a thread has ended.
    pub fn end(&self) {
        let mut waiting = self.lock();
        *waiting = Waiting { ended: waiting.ended + 1, ..Waiting::default() };
        self.came.notify_all();
        self.moved.notify_all();
    }

    /// Waits until a number of threads have ended.
    pub fn wait_for_end(&self, threads: usize, patience: Duration) -> bool {
        let waiting = self.lock();
        let waited = self.moved.wait_timeout_while(waiting, patience, |waiting| waiting.ended < threads);
        !waited.unwrap_or_else(PoisonError::into_inner).1.timed_out()
    }
}
