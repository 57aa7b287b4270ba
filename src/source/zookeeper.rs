//! Zones from a tree of ZooKeeper's: one task for each tree, which keeps a session and mirrors what is below its
//! domain's node.
//!
//! [`start`] makes the task and gives its handle. The task begins a session, watches the tree, reads it, and sends the
//! keeper new versions of the forward zone and of all reverse zones; from then on it reads what events tell of. After a
//! lost session, whatever the reason, it begins another one, at once and with another member of the ensemble, and reads
//! the whole tree again; what comes of that is one change.
//!
//! Invariants: a zone is replaced by a tree that was read to its end, never by a part of one; a record goes only when
//! ZooKeeper said that its node is not there (`guard` holds back a tree that was reset, and has one that was read anew
//! and lacks much confirmed first); without a session the last tree stays, until `serve_stale` has passed and the zone
//! expires like any other; what the budget of memory has no room for is not taken, and its zones stay as they are; the
//! task ends with its handle, or with the keeper.
//!
//! Parts: `plan` what to do, `link` one session, `relay` the limit of what a server may send, `reader` many requests at
//! once, `mirror` the tree as it was read, `guard` trees that look wrong, `roots` what they are compared with,
//! `session` the steps in order, `zones` the zones of a tree, `account` and `status` what operators see, `error` what
//! goes wrong.
//!
//! Cost: a whole tree two requests for 32 nodes, or where each is watched one for each leaf and two for each other node;
//! an event one or two requests and O(records of the names that it touches); events that come together are one update.

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

use crate::source::shell::{self, Facilities, Handle, SourceKind};
use crate::source::zookeeper::zones::Explanation;
use mirror::Mirror;
use roots::Roots;
use session::Task;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use wire::name::Name;

/// The kind of source that mirrors a tree.
pub struct MirroredTree {
    roots: Arc<Roots>,
    /// Locked while the tree is taken in.
    mirror: Mutex<Mirror>,
}

/// State that the handle and the task share.
type Shared = shell::Shared<MirroredTree>;

/// Begins to mirror a tree. Must be called within a tokio runtime of several threads.
pub fn start(plan: TreePlan, facilities: Facilities, roots: Arc<Roots>) -> Handle<MirroredTree> {
    let own = MirroredTree { roots, mirror: Mutex::new(Mirror::new(&plan)) };
    let status = TreeStatus::new(&plan);
    Handle::start(Shared::new(plan, status, facilities, own))
}

impl SourceKind for MirroredTree {
    type Plan = TreePlan;
    type Status = TreeStatus;

    async fn run(shared: Arc<Shared>) {
        Task::new(shared).run().await;
    }

    fn log_panic() {
        tracing::error!("a tree's task has panicked and is started again; please report what the log says");
    }

    fn release(shared: &Shared) {
        shared.facilities.budget.set_beside(shared.plan.zone(), 0);
    }
}

impl Handle<MirroredTree> {
    /// The nodes that make the records at a name.
    pub fn explain(&self, name: &Name) -> Vec<Explanation> {
        self.shared.own.mirror().tree.explain(name)
    }
}

impl MirroredTree {
    /// The mirror.
    fn mirror(&self) -> MutexGuard<'_, Mirror> {
        self.mirror.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
