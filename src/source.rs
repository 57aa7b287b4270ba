//! The messages between sources of zones and the keeper.
//!
//! A source is a task that owns the way in of one zone, or of several that are made of one thing: it sends [`Update`]
//! and is told to act by [`Wake`]. Sources know nothing of publishing beyond reading the current version, and the keeper
//! knows nothing of sources.
//!
//! Invariant: what one update brings is in one publication, so that no client sees half of it.
//!
//! Parts: `shell` the handle that all kinds of sources have; `requests` the wakes that wait for a task; `zookeeper` the
//! source that mirrors a tree of ZooKeeper's; `inventory` the one that makes zones of instances,
//! `static_zone` that of zones which the configuration has itself. The fourth source is `transfer`.

pub mod inventory;
pub mod requests;
pub mod shell;
pub mod static_zone;
pub mod zookeeper;

use crate::zone::{Loaded, Zone};
use std::sync::Arc;
use std::time::Instant;
use tokio::sync::oneshot;
use wire::name::Name;

/// News of a source about its zones, which are published together.
pub struct Update {
    pub news: Vec<(Name, News)>,
    /// Time at which the primary's word was heard; expiry counts from here.
    pub refreshed: Instant,
    /// Answered when what the update brings is published; dropped if one of its zones has left the configuration.
    pub published: Option<oneshot::Sender<()>>,
}

/// The kinds of news.
pub enum News {
    /// The primary has what we have.
    Current,
    /// A complete new version, compared with `base`, the version that was published when the source looked.
    Load { loaded: Box<Loaded>, base: Option<Arc<Zone>> },
}

/// Request to a source to act before its timer says so.
pub struct Wake {
    pub kind: WakeKind,
    /// Answered with what came of it, in words for an operator.
    pub done: Option<oneshot::Sender<Result<String, String>>>,
}

/// The kinds of requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WakeKind {
    /// The same as a refresh, for an announcement (NOTIFY): whoever sent it may be a liar, so it can wait.
    Announced,
    /// Ask the primary for its serial and transfer the zone if it is newer.
    Refresh,
    /// Transfer the zone whatever the serials say; for the cron schedule.
    Audit,
    /// Transfer the zone even if the serials are the same; with `accept` adopt it also when the zone has shrunk
    /// suspiciously, or when every primary that answers has an older serial than ours.
    Retransfer { accept: bool },
}

impl WakeKind {
    /// The word for it in the log.
    pub fn label(self) -> &'static str {
        match self {
            WakeKind::Announced => "announced",
            WakeKind::Refresh => "refresh",
            WakeKind::Audit => "audit",
            WakeKind::Retransfer { .. } => "retransfer",
        }
    }
}
