//! Keeps books about one tree: the metrics, and the status that operators see.
//!
//! Cost: O(broken payloads that are listed) for each reading.

use super::Shared;
use super::error::SessionError;
use super::guard::{Doubt, Held};
use super::mirror::Mirror;
use super::plan::Member;
use super::status::{BrokenPayload, HeldTree, LISTED_PAYLOADS, Session, TreeStatus};
use crate::metrics::{Metrics, unix_seconds};
use std::sync::{Arc, MutexGuard};
use std::time::{Duration, SystemTime};

/// The books of one tree.
pub struct Account {
    zone: String,
    metrics: Arc<Metrics>,
    shared: Arc<Shared>,
}

impl Account {
    /// Opens the books; counters begin at zero, so that their first steps are seen.
    pub fn new(shared: Arc<Shared>) -> Account {
        let (zone, metrics) = (shared.plan.zone().to_string(), shared.facilities.metrics.clone());
        let account = Account { zone, metrics, shared };
        let zone = &account.zone[..];
        drop(account.metrics.zookeeper_events.with_label_values(&[zone]));
        drop(account.metrics.zookeeper_reads.with_label_values(&[zone]));
        for reason in SessionError::LABELS {
            drop(account.metrics.zookeeper_losses.with_label_values(&[zone, reason]));
        }
        account.metrics.memory_refused.set(&[zone], 0);
        account.note_held(None);
        drop(account.turn_to(Session::Disconnected));
        account
    }

    /// The zone that messages name.
    pub fn zone(&self) -> &str {
        &self.zone
    }

    /// Shows one state and no other, and goes on with the status.
    fn turn_to(&self, session: Session) -> MutexGuard<'_, TreeStatus> {
        for state in Session::ALL {
            let gauge = self.metrics.zookeeper_session.with_label_values(&[&self.zone[..], state.label()]);
            gauge.set((state == session).into());
        }
        let mut status = self.shared.status();
        status.session = session;
        status
    }

    /// Notes that a session has begun.
    pub fn note_session(&self, member: &Member, watches: &'static str) {
        let mut status = self.turn_to(Session::Reading);
        status.member = Some(member.to_string());
        status.since = Some(unix_seconds(SystemTime::now()));
        status.watches = Some(watches);
        status.next_attempt = None;
        drop(status);
        self.note_contact();
    }

    /// Notes that the session tells of every change from now on.
    pub fn note_live(&self) {
        let mut status = self.turn_to(Session::Live);
        (status.failures, status.error) = (0, None);
    }

    /// Notes that there is no session any more.
    pub fn note_loss(&self, error: &SessionError) {
        self.metrics.zookeeper_losses.with_label_values(&[&self.zone[..], error.label()]).inc();
        let mut status = self.turn_to(Session::Disconnected);
        status.losses += 1;
        (status.error, status.reason) = (Some(error.to_string()), Some(error.label()));
        drop(status);
        if matches!(error, SessionError::Memory(_)) {
            self.metrics.memory_refused.set(&[&self.zone[..]], 1);
        }
    }

    /// Notes that memory has room for the tree and its zones.
    pub fn note_room(&self) {
        self.metrics.memory_refused.set(&[&self.zone[..]], 0);
        self.shared.status().reason = None;
    }

    /// Notes that no member gave a session whose tree could be read, and when that is tried again.
    pub fn note_failures(&self, failures: u32, error: String, delay: Duration) {
        let mut status = self.turn_to(Session::Disconnected);
        status.failures = failures;
        status.error = Some(error);
        status.next_attempt = SystemTime::now().checked_add(delay).map(unix_seconds);
    }

    /// Notes that a server has answered.
    pub fn note_contact(&self) {
        let now = unix_seconds(SystemTime::now());
        self.metrics.zookeeper_last_contact.with_label_values(&[&self.zone[..]]).set(now);
        self.shared.status().last_contact = Some(now);
    }

    /// Counts events.
    pub fn note_events(&self, count: u64) {
        self.metrics.zookeeper_events.with_label_values(&[&self.zone[..]]).inc_by(count);
        self.shared.status().events += count;
    }

    /// Counts a reading of the whole tree.
    pub fn note_read(&self) {
        self.metrics.zookeeper_reads.with_label_values(&[&self.zone[..]]).inc();
    }

    /// Counts names that a reading found different although no event had told of them.
    pub fn note_drift(&self, names: u64) {
        self.metrics.audit_drift.count(&[&self.zone[..]], names);
    }

    /// Shows what the tree holds.
    pub fn note_tree(&self, mirror: &Mirror) {
        let extent = mirror.extent();
        let zone = &[&self.zone[..]];
        self.metrics.zookeeper_nodes.with_label_values(zone).set(extent.nodes as i64);
        self.metrics.zookeeper_broken_payloads.with_label_values(zone).set(mirror.broken.len() as i64);
        let mut status = self.shared.status();
        let whole = |path: &str| if path.is_empty() { status.path.clone() } else { format!("{}/{path}", status.path) };
        let listed = mirror.broken.iter().take(LISTED_PAYLOADS);
        let listed = listed.map(|(path, error)| BrokenPayload { node: whole(path), error: error.to_string() });
        status.broken_payloads = listed.collect();
        status.broken = mirror.broken.len() as u64;
        status.closed = mirror.closed.len() as u64;
        status.nodes = Some(extent.nodes);
        status.zxid = (extent.zxid > 0).then(|| format!("{:#x}", extent.zxid));
    }

    /// Shows whether a tree waits for confirmation.
    pub fn note_held(&self, held: Option<&Held>) {
        self.metrics.transfer_held.set(&[&self.zone[..]], held.is_some().into());
        let reset = held.filter(|held| held.is_reset).map(|held| held.doubt);
        for doubt in Doubt::ALL.into_iter().filter(|doubt| *doubt != Doubt::Shrunk) {
            let gauge = self.metrics.zookeeper_tree_reset.with_label_values(&[&self.zone[..], doubt.label()]);
            gauge.set((reset == Some(doubt)).into());
        }
        self.shared.status().held = held.map(HeldTree::from);
    }
}

impl HeldTree {
    /// Explains in words why.
    pub fn describe(&self) -> String {
        let HeldTree { reason, nodes, served_nodes } = self;
        match *reason {
            "missing" => "tree held back: the domain's node is not there".to_owned(),
            "anew" => format!("tree held back: the domain's node was made anew; {nodes} of {served_nodes} nodes"),
            "older" => format!("tree held back: it is older than the one served; {nodes} nodes"),
            _ => format!("tree held back: {nodes} of {served_nodes} nodes"),
        }
    }
}
