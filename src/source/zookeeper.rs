//! Zones from a tree of ZooKeeper's: one task for each tree, which keeps a session and mirrors what is below its domain's node.
//!
//! [`start`] makes the task and gives its handle, a [`Source`]. The task begins a session, watches the tree, reads it, and
//! sends the keeper new versions of the forward zone and of all reverse zones; from then on it reads what events tell of.
//! After a lost session, whatever the reason, it begins another one, at once and with another member of the ensemble, and
//! reads the whole tree again; what comes of that is one change.
//!
//! Invariants: a zone is replaced by a tree that was read to its end, never by a part of one; a record goes only when
//! ZooKeeper said that its node is not there (`guard` holds back a tree that was reset, and has one that was read anew and
//! lacks much confirmed first); without a session the last tree stays, until `serve_stale` has passed and the zone expires like
//! any other; what the budget of memory has no room for is not taken, and its zones stay as they are; the task ends with its
//! `Source`, or with the keeper.
//!
//! Parts: `plan` what to do, `link` one session, `relay` the limit of what a server may send, `reader` many requests at once,
//! `mirror` the tree as it was read, `guard` trees that look wrong, `roots` what they are compared with, `session` the steps in
//! order, `zones` the zones of a tree, `account` and `status` what operators see, `error` what goes wrong.
//!
//! Cost: a whole tree one request for each leaf and two for each other node; an event one or two requests and O(records of
//! the names that it touches); events that come together are one update.

mod account;
pub mod error;
pub mod guard;
mod link;
mod mirror;
pub mod plan;
mod reader;
pub mod roots;
mod session;
pub mod status;
pub mod zones;

pub use plan::TreePlan;
pub use status::TreeStatus;

use crate::budget::Budget;
use crate::metrics::Metrics;
use crate::publish::Publisher;
use crate::source::requests::Inbox;
use crate::source::zookeeper::zones::Explanation;
use crate::source::{Update, Wake};
use account::Account;
use mirror::Mirror;
use roots::Roots;
use session::Task;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::task::{AbortHandle, JoinSet};
use wire::name::Name;

/// Pause before a task that panicked runs again.
const PAUSE_AFTER_PANIC: Duration = Duration::from_secs(5);

/// The handle of one tree's task, which ends when this is dropped.
pub struct Source {
    plan: Arc<TreePlan>,
    shared: Arc<Shared>,
    budget: Arc<Budget>,
    task: AbortHandle,
}

/// Begins to mirror a tree. Must be called within a tokio runtime of several threads.
pub fn start(
    plan: TreePlan,
    updates: mpsc::Sender<Update>,
    publisher: Arc<Publisher>,
    metrics: Arc<Metrics>,
    roots: Arc<Roots>,
    budget: Arc<Budget>,
) -> Source {
    let plan = Arc::new(plan);
    let shared = Arc::new(Shared {
        inbox: Inbox::default(),
        status: Mutex::new(TreeStatus::new(&plan)),
        mirror: Mutex::new(Mirror::new(&plan)),
    });
    let again = {
        let (plan, shared, budget) = (plan.clone(), shared.clone(), budget.clone());
        move || {
            let account = Account::new(&plan, metrics.clone(), shared.clone());
            let (publisher, roots) = (publisher.clone(), roots.clone());
            Task::new(plan.clone(), updates.clone(), publisher, account, shared.clone(), roots, budget.clone())
        }
    };
    let task = tokio::spawn(keep_running(again)).abort_handle();
    Source { plan, shared, budget, task }
}

/// Runs the task, and once more if it panics: a tree must not silently stay as it is for ever.
async fn keep_running(task: impl Fn() -> Task) {
    loop {
        // The set ends its task when this one is ended.
        let mut running = JoinSet::new();
        running.spawn(task().run());
        match running.join_next().await {
            Some(Err(error)) if error.is_panic() => {
                tracing::error!("a tree's task has panicked and is started again; please report what the log says");
                tokio::time::sleep(PAUSE_AFTER_PANIC).await;
            }
            _ => return,
        }
    }
}

impl Source {
    /// Asks the task to read the tree again; requests that wait together are answered together.
    pub fn wake(&self, wake: Wake) {
        self.shared.inbox.push(wake);
    }

    /// What is known of the tree.
    pub fn status(&self) -> TreeStatus {
        self.shared.status().clone()
    }

    /// What the task follows.
    pub fn plan(&self) -> &TreePlan {
        &self.plan
    }

    /// The nodes that make the records at a name.
    pub fn explain(&self, name: &Name) -> Vec<Explanation> {
        self.shared.mirror().tree().explain(name)
    }
}

impl Drop for Source {
    fn drop(&mut self) {
        self.task.abort();
        self.budget.set_beside(self.plan.zone(), 0);
    }
}

/// What the handle and the task both see. The mirror is locked while the tree is taken in, all else for moments only.
struct Shared {
    inbox: Inbox,
    status: Mutex<TreeStatus>,
    mirror: Mutex<Mirror>,
}

impl Shared {
    /// The status, for a moment.
    fn status(&self) -> MutexGuard<'_, TreeStatus> {
        self.status.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The mirror.
    fn mirror(&self) -> MutexGuard<'_, Mirror> {
        self.mirror.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
