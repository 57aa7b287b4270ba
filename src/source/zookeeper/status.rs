//! Status of one tree, for operators.
//!
//! Invariant: written only by the tree's task, read by anyone. Times are Unix seconds, for people and for JSON.
//!
//! Cost: O(broken payloads that are listed).

use super::guard::Held;
use super::plan::TreePlan;
use schemars::JsonSchema;
use serde::Serialize;
use wire::name::Name;

/// Broken payloads that are listed; the total is always told.
pub const LISTED_PAYLOADS: usize = 20;

/// State of the task.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Session {
    /// No session: the last tree is served.
    #[default]
    Disconnected,
    /// A session, and the tree is being read.
    Reading,
    /// A session that tells of every change.
    Live,
}

impl Session {
    /// All states, for metrics.
    pub const ALL: [Session; 3] = [Session::Disconnected, Session::Reading, Session::Live];

    /// The metric label.
    pub fn label(self) -> &'static str {
        match self {
            Session::Disconnected => "disconnected",
            Session::Reading => "reading",
            Session::Live => "live",
        }
    }
}

/// A tree that waits for confirmation because it has shrunk sharply.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct HeldTree {
    pub reason: &'static str,
    pub nodes: u64,
    pub served_nodes: u64,
}

impl From<&Held> for HeldTree {
    fn from(held: &Held) -> HeldTree {
        HeldTree { reason: held.doubt.label(), nodes: held.found.nodes, served_nodes: held.served.nodes }
    }
}

/// A payload that makes no records.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct BrokenPayload {
    /// Whole path.
    pub node: String,
    pub error: String,
}

/// Status of a zone that is made of a tree of ZooKeeper's.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(rename = "Tree")]
pub struct TreeStatus {
    /// The forward zone, also in the status of the reverse zones.
    pub tree: Name,
    pub reverse: Vec<Name>,
    /// Path of the domain's node.
    pub path: String,
    pub session: Session,
    /// The member of the ensemble that has the session, or had it.
    pub member: Option<String>,
    /// Time of the session's beginning.
    pub since: Option<i64>,
    /// "recursive" or "each", once that is known.
    pub watches: Option<&'static str>,
    /// Nodes in the tree, with the domain's own; none until it was read.
    pub nodes: Option<u64>,
    /// The newest change.
    pub zxid: Option<String>,
    /// Payloads that make no records.
    pub broken: u64,
    /// The first of them.
    pub broken_payloads: Vec<BrokenPayload>,
    /// Nodes that may not be read.
    pub closed: u64,
    pub held: Option<HeldTree>,
    /// Time of a server's last answer.
    pub last_contact: Option<i64>,
    /// Events since the start.
    pub events: u64,
    /// Sessions lost since the start.
    pub losses: u64,
    /// Attempts in a row at which no member gave a session whose tree could be read.
    pub failures: u32,
    /// Result of the last of them, in words.
    pub error: Option<String>,
    /// Label of why the last session was lost, until a tree was taken.
    #[serde(skip)]
    pub reason: Option<&'static str>,
    /// Time of the next one.
    pub next_attempt: Option<i64>,
}

impl TreeStatus {
    /// The status before anything has happened.
    pub fn new(plan: &TreePlan) -> TreeStatus {
        TreeStatus {
            tree: plan.zone().clone(),
            reverse: plan.zones.reverse.clone(),
            path: plan.path.clone(),
            ..TreeStatus::default()
        }
    }
}
