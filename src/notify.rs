//! NOTIFY to secondaries (RFC 1996): each zone that has changed is announced to those who transfer it.
//!
//! One task watches the publications, and `table` says what is to be told to whom. Messages leave from one UDP socket
//! for each source address, and replies come in there; who does not reply is asked again a few times, at doubling
//! intervals, and then left to its own refresh timer. A NOTIFY is a hint: nothing depends on its arrival.
//!
//! Invariants: nothing a target does or fails to do delays another target or the program; a publication that comes
//! while an exchange is under way is announced after it, so that a storm of publications makes few messages, the last
//! with the last serial; zones that may not be answered from are not announced. At start everything is announced once,
//! because a secondary may have missed what changed while nobody told it.
//!
//! Parts: `table` who has been told what, `message` octets, `outcome` results, `sockets` the way out and back.
//!
//! Cost: a publication O(zones × targets), a message O(log) of that.

mod message;
mod outcome;
mod sockets;
mod table;

pub use outcome::NotifyOutcome;

use crate::client::Server;
use crate::metrics::Metrics;
use crate::publish::Publisher;
use crate::restart::keep_running;
use parking_lot::Mutex;
use schemars::JsonSchema;
use serde::Serialize;
use sockets::Sockets;
use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use table::Table;
use tokio::sync::Notify;
use tokio::task::AbortHandle;
use tokio::time::{Instant, sleep_until};
use wire::name::Name;
use wire::serial::Serial;

/// Time for which the task sleeps when it waits for nothing.
const IDLE: Duration = Duration::from_secs(3600);

/// Zones and the secondaries that are told of their changes.
pub type Targets = HashMap<Name, Vec<Server>>;

/// Times at which messages are sent.
#[derive(Clone, Debug)]
pub struct Timers {
    /// Time for the first reply; each further message has twice the time of the one before.
    pub first: Duration,
    /// Messages after the first, until the target is given up.
    pub retries: u32,
    /// Shortest time from one announcement of a zone to the next to the same target.
    pub pause: Duration,
}

impl Default for Timers {
    /// The five retries of RFC 1996 section 3.6, within one minute.
    fn default() -> Timers {
        Timers { first: Duration::from_secs(1), retries: 5, pause: Duration::from_millis(100) }
    }
}

/// Status of one target of a zone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(rename = "Announcements")]
pub struct TargetStatus {
    pub address: SocketAddr,
    /// The serial that was sent last.
    pub notified: Option<Serial>,
    /// The serial that the target last acknowledged.
    pub acknowledged: Option<Serial>,
    /// The serial that the target has fetched from here, or said it has; none too where several targets have its address.
    pub fetched: Option<Serial>,
    /// Outcome of the announcement, in words.
    pub result: String,
    /// Unix time since which all announcements have ended so.
    pub since: Option<i64>,
    /// Time at which it became a target.
    #[serde(skip)]
    pub added: SystemTime,
}

/// What is known of one target of a zone, without words.
pub struct Standing<'a> {
    pub address: SocketAddr,
    pub acknowledged: Option<Serial>,
    /// Looks for the serial that it has fetched.
    pub fetched: &'a dyn Fn() -> Option<Serial>,
    /// Time at which it became a target.
    pub added: SystemTime,
}

/// The handle of the task, which ends when this is dropped.
pub struct Notifier {
    shared: Arc<Shared>,
    task: AbortHandle,
}

/// State that the handle and the task share. The lock is held for moments only.
struct Shared {
    table: Mutex<Table>,
    /// Rung when an order has changed the table.
    bell: Notify,
}

/// Begins to announce changes, to nobody yet. Must be called within a tokio runtime.
pub fn start(publisher: Arc<Publisher>, metrics: Arc<Metrics>, timers: Timers) -> Notifier {
    let shared = Arc::new(Shared { table: Mutex::new(Table::new(timers, metrics)), bell: Notify::new() });
    let seen = shared.clone();
    let task = keep_running(
        move || run(seen.clone(), publisher.clone()),
        || {
            tracing::error!("the task of NOTIFY has panicked and is started again; please report what the log says");
        },
    );
    Notifier { shared, task: tokio::spawn(task).abort_handle() }
}

impl Notifier {
    /// Tells other targets from now on. New ones hear of what is served at once, those that stay of changes only.
    pub fn set_targets(&self, targets: Targets) {
        self.shared.table.lock().set_targets(targets, Instant::now());
        self.shared.bell.notify_one();
    }

    /// Announces a zone, or every zone, whether it has changed or not; returns to how many targets.
    pub fn notify_now(&self, zone: Option<&Name>) -> usize {
        let count = self.shared.table.lock().want(zone, Instant::now());
        self.shared.bell.notify_one();
        count
    }

    /// Status of a zone's targets, in the order in which they were set.
    pub fn status(&self, zone: &Name) -> Vec<TargetStatus> {
        self.shared.table.lock().status(zone)
    }

    /// Shows each zone with each of its targets, in no order.
    pub fn each_target(&self, show: impl FnMut(&Name, &Standing)) {
        self.shared.table.lock().each_target(show);
    }
}

impl Drop for Notifier {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Announces what is published until the program ends.
async fn run(shared: Arc<Shared>, publisher: Arc<Publisher>) {
    let mut changes = publisher.changes();
    let mut sockets = Sockets::new();
    let mut look = true;
    loop {
        let (datagrams, next) = {
            // The root is held for a moment only: it keeps replaced versions of zones in memory.
            let (root, now) = (publisher.load(), Instant::now());
            let mut table = shared.table.lock();
            if look {
                table.look(&root, now);
            }
            for (from, bytes) in sockets.take_arrived() {
                table.receive(from, &bytes, &root, now);
            }
            let datagrams = table.advance(&root, now);
            (datagrams, table.next_alarm().unwrap_or(now + IDLE))
        };
        for datagram in datagrams {
            if let Err(error) = sockets.send(&datagram.target, &datagram.bytes).await {
                shared.table.lock().note_failure(datagram.number, &error);
            }
        }
        look = tokio::select! {
            changed = changes.changed() => match changed {
                Ok(()) => true,
                Err(_) => return,
            },
            () = shared.bell.notified() => {
                sockets.retain(shared.table.lock().targets());
                true
            }
            () = sockets.wait() => false,
            () = sleep_until(next) => false,
        };
    }
}

#[cfg(test)]
mod tests;
