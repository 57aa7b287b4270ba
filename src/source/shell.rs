//! The shell of a source: the handle of its task, and what both see.
//!
//! A kind of source implements [`SourceKind`]: it has a plan, a task that follows the plan, and a status that operators
//! see. How the task is started, woken and ended is the same for every kind, and stands here.
//!
//! Invariants: a task that panics runs again, and finds what it shares with the handle as it was, so whoever waits for
//! an answer waits for the next one; the task ends when its handle is dropped, or with the keeper, and nobody waits for
//! it then.
//!
//! Cost: O(1), beside the copy of a status.

use crate::budget::Budget;
use crate::metrics::Metrics;
use crate::publish::Publisher;
use crate::restart::keep_running;
use crate::source::requests::Inbox;
use crate::source::{News, Update, Wake};
use crate::trace;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::{mpsc, oneshot};
use tokio::task::AbortHandle;
use tokio::time::Instant;
use wire::name::Name;

/// Parts of the program that every source works with.
#[derive(Clone)]
pub struct Facilities {
    /// The way to the keeper.
    pub updates: mpsc::Sender<Update>,
    pub publisher: Arc<Publisher>,
    pub metrics: Arc<Metrics>,
    pub budget: Arc<Budget>,
}

impl Facilities {
    /// Sends the keeper news of zones, which count from when they were heard. Ready when they are published is what
    /// comes back; none when the keeper has gone.
    pub async fn send(&self, news: Vec<(Name, News)>, heard: Instant) -> Option<oneshot::Receiver<()>> {
        if trace::is_on() {
            for (zone, news) in &news {
                if let News::Load { loaded, base } = news {
                    trace::begin_if_new(
                        zone,
                        &trace::Change {
                            since: heard.into_std(),
                            primary: None,
                            from: base.as_ref().map(|base| base.soa.serial),
                            serial: loaded.zone.soa.serial,
                            names: loaded.touched.len(),
                            steps: Vec::new(),
                        },
                    );
                }
            }
        }
        let (published, done) = oneshot::channel();
        let update = Update { news, refreshed: heard.into_std(), published: Some(published) };
        self.updates.send(update).await.ok()?;
        Some(done)
    }
}

/// A kind of source. Its values hold what task and handle share beside plan, wakes and status.
pub trait SourceKind: Send + Sync + Sized + 'static {
    /// Plan that the configuration makes and the task follows.
    type Plan: Send + Sync;
    /// Status that operators see.
    type Status: Clone + Send;

    /// Runs the task until the keeper goes.
    fn run(shared: Arc<Shared<Self>>) -> impl Future<Output = ()> + Send;

    /// Logs that the task has panicked.
    fn log_panic();

    /// Returns the status as it is now.
    fn status(shared: &Shared<Self>) -> Self::Status {
        shared.status().clone()
    }

    /// Gives back what the source holds, once its task is told to end.
    fn release(_shared: &Shared<Self>) {}
}

/// State that the handle and the task share. The status is locked for moments only.
pub struct Shared<K: SourceKind> {
    pub plan: Arc<K::Plan>,
    pub inbox: Inbox,
    pub facilities: Facilities,
    /// State that only this kind of source has.
    pub own: K,
    status: Mutex<K::Status>,
}

impl<K: SourceKind> Shared<K> {
    /// Puts the parts together; `status` is that before anything has happened.
    pub fn new(plan: K::Plan, status: K::Status, facilities: Facilities, own: K) -> Arc<Shared<K>> {
        let (plan, status) = (Arc::new(plan), Mutex::new(status));
        Arc::new(Shared { plan, inbox: Inbox::default(), facilities, own, status })
    }

    /// The status, for a moment.
    pub fn status(&self) -> MutexGuard<'_, K::Status> {
        self.status.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The handle of one source's task, which ends when this is dropped.
pub struct Handle<K: SourceKind> {
    pub(crate) shared: Arc<Shared<K>>,
    task: AbortHandle,
}

impl<K: SourceKind> Handle<K> {
    /// Starts the task. Must be called within a tokio runtime.
    pub fn start(shared: Arc<Shared<K>>) -> Handle<K> {
        let seen = shared.clone();
        let task = async move {
            keep_running(|| K::run(seen.clone()), K::log_panic).await;
            seen.inbox.end();
        };
        Handle { shared, task: tokio::spawn(task).abort_handle() }
    }

    /// Asks the task to act; requests that wait together are answered together.
    pub fn wake(&self, wake: Wake) {
        self.shared.inbox.push(wake);
    }

    /// Returns what is known of the source.
    pub fn status(&self) -> K::Status {
        K::status(&self.shared)
    }

    /// Returns what the task follows.
    pub fn plan(&self) -> &K::Plan {
        &self.shared.plan
    }
}

impl<K: SourceKind> Drop for Handle<K> {
    fn drop(&mut self) {
        self.task.abort();
        K::release(&self.shared);
    }
}
