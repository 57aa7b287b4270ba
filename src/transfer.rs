//! Transfers of zones from their primaries: one task for each zone.
//!
//! [`start`] makes the task and gives its handle. The task asks the primaries for the zone's serial,
//! transfers what has changed, or the whole zone, when that is newer, and sends the keeper what it found out. Between
//! refreshes it waits for its timer or for a [`Wake`].
//!
//! Invariants: tasks share nothing but the road to the keeper, the queues in front of primaries, and what is assumed of
//! a primary's silence, so a bad primary costs only its own zones; the zone is replaced only by a complete, validated
//! transfer (`docs/regions.md` 21); requests that come during a refresh become one refresh after it (RFC 1996 section
//! 4.4); the task ends with its handle, or with the keeper.
//!
//! Parts: `plan` what to do, `timers` and `pace` when, `poll` SOA queries, `queue` whose turn it is at a primary,
//! `connection` the connection of a transfer, `message` and `reader` what is said on it, `ixfr` whom to ask for differences,
//! `doubt`, `question`, `inquiry` and `recourse` which removals to believe, `twin` what else happened under one serial,
//! `serial_regression` serials that are older than ours, `silence` primaries that may announce nothing, `version` what
//! a transfer comes to, `guard` versions that look wrong, `refresh` the steps in order, `account`, `progress` and
//! `status` what operators see, `error` what goes wrong.
//!
//! Cost: a poll is one round trip; differences O(change); a whole zone O(records), compared with the served version on
//! a blocking thread.

mod account;
pub mod connection;
pub mod doubt;
pub mod error;
pub mod guard;
mod inquiry;
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
pub mod silence;
pub mod status;
pub mod timers;
mod twin;
mod version;

pub use error::{Phase, TransferError};
pub use plan::{CatalogLimits, Limits, TimerBounds, ZonePlan};
pub use progress::{Progress, Running};
pub use queue::Turns;
pub use status::{Activity, HeldStatus, PrimaryStatus, RegressionStatus, SilenceStatus, Status, TransferNote};

use crate::metrics::{Metrics, TransferCounts};
use crate::source::shell::{self, Facilities, Handle, SourceKind};
use crate::source::{Wake, WakeKind};
use progress::Tally;
use refresh::Task;
use silence::{Silence, Silences, Times};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use tokio::time::Instant;

/// Parts that all zones from primaries share.
#[derive(Clone)]
pub struct Common {
    /// Queues in front of the primaries.
    pub turns: Arc<Turns>,
    /// Assumptions about primaries that announce nothing.
    pub silences: Arc<Silences>,
}

impl Common {
    /// Nothing is known of any primary yet. Must be called within a tokio runtime.
    pub fn start(times: Times, metrics: Arc<Metrics>) -> Common {
        Common { turns: Arc::default(), silences: Silences::start(times, metrics) }
    }
}

/// The kind of source that transfers a zone from its primaries.
pub struct Primaries {
    common: Common,
    /// Assumptions about the primaries, by their addresses.
    silent: Vec<(SocketAddr, Arc<Silence>)>,
    /// Records and octets of the running transfer.
    tally: Tally,
}

/// State that the handle and the task share.
type Shared = shell::Shared<Primaries>;

/// Begins to keep a zone up to date. Must be called within a tokio runtime.
pub fn start(plan: ZonePlan, facilities: Facilities, common: Common) -> Handle<Primaries> {
    start_after(TransferCounts::default(), plan, facilities, common)
}

/// Begins to keep a zone up to date in the place of a task that had received so many transfers.
pub fn start_after(
    received: TransferCounts,
    plan: ZonePlan,
    facilities: Facilities,
    common: Common,
) -> Handle<Primaries> {
    let shared = share(plan, facilities, common);
    shared.status().received = received;
    Handle::start(shared)
}

/// Makes the state of a task that has not begun, shared with its handle.
fn share(plan: ZonePlan, facilities: Facilities, common: Common) -> Arc<Shared> {
    let silent = plan.primaries.iter().map(|primary| (primary.address, common.silences.of(primary))).collect();
    let status = Status::new(&plan);
    Shared::new(plan, status, facilities, Primaries { common, silent, tally: Tally::default() })
}

impl SourceKind for Primaries {
    type Plan = ZonePlan;
    type Status = Status;

    async fn run(shared: Arc<Shared>) {
        let mut task = Task::new(shared);
        task.run().await;
    }

    fn log_panic() {
        tracing::error!("a zone's task has panicked and is started again; please report what the log says");
    }

    fn status(shared: &Shared) -> Status {
        let mut status = shared.status().clone();
        for (primary, (_, silence)) in status.primaries.iter_mut().zip(&shared.own.silent) {
            primary.silence = silence.status(Instant::now());
        }
        Status { running: status.running.map(|running| running.at(&shared.own.tally)), ..status }
    }
}

impl Handle<Primaries> {
    /// Takes an announcement of a change (NOTIFY) from an address.
    pub fn announce(&self, peer: IpAddr) {
        let peer = peer.to_canonical();
        let of_peer = self.shared.own.silent.iter().filter(|(address, _)| address.ip() == peer);
        of_peer.for_each(|(_, silence)| silence.hear());
        self.wake(Wake { kind: WakeKind::Announced, done: None });
    }
}
