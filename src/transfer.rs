//! Transfers of zones from their primaries: one task for each zone.
//!
//! [`start`] makes the task and gives its handle, a [`Source`]. The task asks the primaries for the zone's serial,
//! transfers what has changed, or the whole zone, when that is newer, and sends the keeper what it found out. Between
//! refreshes it waits for its timer or for a [`Wake`].
//!
//! Invariants: tasks share nothing but the road to the keeper, the queues in front of primaries, and what is assumed of
//! a primary's silence, so a bad primary costs only its own zones; the zone is replaced only by a complete, validated
//! transfer (`docs/regions.md` 21); requests that come during a refresh become one refresh after it (RFC 1996 section 4.4); the
//! task ends with its `Source`, or with the keeper.
//!
//! Parts: `plan` what to do, `timers` and `pace` when, `poll` SOA queries, `queue` whose turn it is at a primary,
//! `wire` the connection of a transfer, `message` and `reader` what is said on it, `ixfr` whom to ask for differences,
//! `doubt`, `question`, `settle` and `recourse` which removals to believe, `twin` what else happened under one serial,
//! `serial_regression` serials that are older than ours, `silence` primaries that may announce nothing, `version` what a transfer
//! comes to, `guard` versions that look wrong, `refresh` the steps in order, `account`, `progress` and `status` what
//! operators see, `error` what goes wrong.
//!
//! Cost: a poll is one round trip; differences O(change); a whole zone O(records), compared with the served version on
//! a blocking thread.

mod account;
pub mod connection;
pub mod doubt;
pub mod error;
pub mod guard;
mod ixfr;
pub mod message;
mod pace;
pub mod plan;
pub mod poll;
pub mod progress;
mod question;
pub mod queue;
pub mod reader;
mod recourse;
mod refresh;
mod serial_regression;
mod settle;
pub mod silence;
pub mod status;
pub mod timers;
mod twin;
mod version;

pub use error::{Phase, TransferError};
pub use plan::{Limits, PrimaryPlan, TimerBounds, ZonePlan};
pub use progress::{Progress, Running};
pub use queue::Turns;
pub use status::{Activity, PrimaryStatus, RegressionStatus, SilenceStatus, Status, TransferNote};

use crate::budget::Budget;
use crate::metrics::Metrics;
use crate::publish::Publisher;
use crate::source::requests::Inbox;
use crate::source::{Update, Wake, WakeKind};
use progress::Tally;
use refresh::Task;
use silence::{Silence, Silences, Times};
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::Instant;

/// Pause before a task that panicked runs again.
const PAUSE_AFTER_PANIC: Duration = Duration::from_secs(5);

/// The handle of one zone's task, which ends when this is dropped.
pub struct Source {
    plan: ZonePlan,
    shared: Arc<Shared>,
    /// What is assumed of the primaries, by their addresses.
    silent: Vec<(SocketAddr, Arc<Silence>)>,
    task: AbortHandle,
}

/// What all zones that come from primaries share.
#[derive(Clone)]
pub struct Common {
    /// Whose turn it is at each primary.
    pub turns: Arc<Turns>,
    /// What is assumed of primaries that announce nothing.
    pub silences: Silences,
}

impl Common {
    /// Nothing is known of any primary yet. Must be called within a tokio runtime.
    pub fn start(times: Times, metrics: Arc<Metrics>) -> Common {
        Common { turns: Arc::default(), silences: Silences::start(times, metrics) }
    }
}

/// Begins to keep a zone up to date. Must be called within a tokio runtime.
pub fn start(
    plan: ZonePlan,
    updates: mpsc::Sender<Update>,
    publisher: Arc<Publisher>,
    metrics: Arc<Metrics>,
    common: Common,
    budget: Arc<Budget>,
) -> Source {
    let silent = plan.primaries.iter().map(|primary| (primary.address, common.silences.of(primary))).collect();
    let shared =
        Arc::new(Shared { inbox: Inbox::default(), status: Mutex::new(Status::new(&plan)), tally: Tally::default() });
    let again = {
        let (plan, shared) = (plan.clone(), shared.clone());
        move || {
            let (updates, publisher, metrics) = (updates.clone(), publisher.clone(), metrics.clone());
            Task::new(plan.clone(), updates, publisher, metrics, &common, shared.clone(), budget.clone())
        }
    };
    let task = tokio::spawn(keep_running(again)).abort_handle();
    Source { plan, shared, silent, task }
}

/// Runs the task, and once more if it panics: a zone must not silently stay as it is for ever. Who waits for an answer
/// waits for the next one.
async fn keep_running(task: impl Fn() -> Task) {
    loop {
        // The set ends its task when this one is ended.
        let mut running = JoinSet::new();
        running.spawn(task().run());
        match running.join_next().await {
            Some(Err(error)) if error.is_panic() => {
                tracing::error!("a zone's task has panicked and is started again; please report what the log says");
                tokio::time::sleep(PAUSE_AFTER_PANIC).await;
            }
            _ => return,
        }
    }
}

impl Source {
    /// Asks the task to act; requests that wait together are answered together.
    pub fn wake(&self, wake: Wake) {
        self.shared.inbox.push(wake);
    }

    /// Takes an announcement of a change (NOTIFY) from an address.
    pub fn announce(&self, peer: IpAddr) {
        let peer = peer.to_canonical();
        self.silent.iter().filter(|(address, _)| address.ip() == peer).for_each(|(_, silence)| silence.hear());
        self.wake(Wake { kind: WakeKind::Announced, done: None });
    }

    /// What is known of the zone's way in.
    pub fn status(&self) -> Status {
        let mut status = self.shared.status().clone();
        for (primary, (_, silence)) in status.primaries.iter_mut().zip(&self.silent) {
            primary.silence = silence.status(Instant::now());
        }
        Status { running: status.running.map(|running| running.at(&self.shared.tally)), ..status }
    }

    /// The transfer that is received at the moment.
    pub fn running(&self) -> Option<Running> {
        self.shared.status().running.clone().map(|running| running.at(&self.shared.tally))
    }

    /// What the task follows.
    pub fn plan(&self) -> &ZonePlan {
        &self.plan
    }
}

impl Drop for Source {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// What the handle and the task both see. Locks are held for moments only.
struct Shared {
    inbox: Inbox,
    status: Mutex<Status>,
    /// What the running transfer has received.
    tally: Tally,
}

impl Shared {
    /// The status, for a moment.
    fn status(&self) -> MutexGuard<'_, Status> {
        self.status.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
