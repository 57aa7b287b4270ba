//! Keeps books about one inventory: the metrics, and the status that operators see.
//!
//! Cost: O(1) for each event; O(accounts that are shown²) for their names.

use super::Shared;
use super::book::AccountNames;
use super::feeder::Failure;
use super::guard::Held;
use super::status::{HeldDocument, InventoryCounts, Reading, ReasonCount};
use crate::budget::Excess;
use crate::metrics::{Metrics, unix_seconds};
use prometheus::core::Collector;
use prometheus::proto::MetricFamily;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use tracing::warn;

/// A label, and the number that it stands for.
type Count = (&'static str, fn(&InventoryCounts) -> u64);

/// Kinds of elements that are counted.
const KINDS: [Count; 4] = [
    ("vms", |counts| counts.vms),
    ("accounts", |counts| counts.accounts),
    ("networks", |counts| counts.networks),
    ("servers", |counts| counts.servers),
];

/// States in which instances are counted.
const STATES: [Count; 2] = [("listed", |counts| counts.listed), ("undecided", |counts| counts.undecided)];

/// Ends of memberships.
const ENDS: [Count; 4] = [
    ("soft", |counts| counts.soft_removals),
    ("hard", |counts| counts.hard_removals),
    ("returned", |counts| counts.returned),
    ("released", |counts| counts.released),
];

/// The books of one inventory.
pub struct Account {
    zone: String,
    metrics: Arc<Metrics>,
    shared: Arc<Shared>,
}

impl Account {
    /// Opens the books; counters begin at zero, so that their first steps are seen.
    pub fn new(shared: Arc<Shared>) -> Account {
        let (zone, metrics) = (shared.plan.main_zone().to_string(), shared.facilities.metrics.clone());
        let account = Account { zone, metrics, shared };
        let zone = &account.zone[..];
        drop(account.metrics.inventory_readings.with_label_values(&[zone]));
        account.metrics.inventory_failures.with_label_values(&[zone]).set(0);
        account.metrics.inventory_unreadable.with_label_values(&[zone]).set(0);
        account.metrics.inventory_second_builder.with_label_values(&[zone]).set(0);
        account.metrics.memory_refused.set(&[zone], 0);
        account.note_names(&[]);
        account.note_held(None);
        if account.shared.plan.feeder.is_document() {
            // A series of an earlier feeder goes; one that is not there is as good as removed.
            let _ = account.metrics.inventory_following.remove_label_values(&[&account.zone]);
        } else {
            account.note_following(false);
        }
        account
    }

    /// The zone that messages name.
    pub fn zone(&self) -> &str {
        &self.zone
    }

    /// Notes a good reading.
    pub fn note_good(&self, is_new: bool) {
        let now = unix_seconds(SystemTime::now());
        let zone = &[&self.zone[..]];
        self.metrics.inventory_last_reading.with_label_values(zone).set(now);
        self.metrics.inventory_failures.with_label_values(zone).set(0);
        let mut status = self.shared.status();
        (status.reading, status.last_reading, status.failures) = (Reading::Current, Some(now), 0);
        (status.error, status.next_attempt) = (None, None);
        if is_new {
            self.metrics.inventory_readings.with_label_values(zone).inc();
            status.readings += 1;
        }
    }

    /// Notes a reading that failed. Returns how many have failed in a row.
    pub fn note_failure(&self, failure: &Failure, again: Option<Duration>) -> u32 {
        self.metrics.inventory_failed_readings.with_label_values(&[&self.zone[..], failure.label]).inc();
        let mut status = self.shared.status();
        status.failures = status.failures.saturating_add(1);
        status.reading = Reading::Failing;
        status.error = Some(failure.text.clone());
        status.next_attempt = again.and_then(|again| SystemTime::now().checked_add(again)).map(unix_seconds);
        self.metrics.inventory_failures.with_label_values(&[&self.zone[..]]).set(status.failures.into());
        status.failures
    }

    /// Notes how many single elements cannot be read.
    pub fn note_unreadable(&self, elements: u64, failure: Option<&Failure>) {
        self.metrics.inventory_unreadable.with_label_values(&[&self.zone[..]]).set(elements as i64);
        let mut status = self.shared.status();
        status.unreadable = elements;
        status.unreadable_error = failure.map(|failure| failure.text.clone());
    }

    /// Notes whether changes are told as they come.
    pub fn note_following(&self, is_following: bool) {
        self.metrics.inventory_following.with_label_values(&[&self.zone[..]]).set(is_following.into());
        self.shared.status().following = Some(is_following);
    }

    /// Shows the accounts with the most names, and those that were shown before no more.
    pub fn note_names(&self, accounts: &[AccountNames]) {
        let family = &self.metrics.inventory_names;
        for metric in family.collect().iter().flat_map(MetricFamily::get_metric) {
            let labels: HashMap<&str, &str> =
                metric.get_label().iter().map(|pair| (pair.name(), pair.value())).collect();
            let [zone, uuid, login] = ["zone", "account", "login"].map(|label| labels.get(label).copied());
            let is_shown = || accounts.iter().any(|(u, l, _)| uuid == Some(u) && login == Some(l));
            if zone == Some(&self.zone) && !is_shown() {
                // A series that is gone already is as good as removed.
                let _ = family.remove(&labels);
            }
        }
        for (uuid, login, names) in accounts {
            family.with_label_values(&[&self.zone[..], uuid, login]).set(*names as i64);
        }
    }

    /// Goes on counting where an earlier task has ended.
    pub fn go_on(&self, counts: InventoryCounts) {
        self.shared.status().counts = counts;
    }

    /// Shows what the configuration and the inventory do not have of each other, in words.
    pub fn note_unresolved(&self, unresolved: Vec<String>) {
        let mut status = self.shared.status();
        if status.unresolved != unresolved {
            for text in &unresolved {
                warn!(zone = self.zone, "{text}");
            }
            status.unresolved = unresolved;
        }
    }

    /// Shows what the inventory has.
    pub fn note_counts(&self, counts: InventoryCounts) {
        let zone = &self.zone[..];
        for (kind, count) in KINDS {
            self.metrics.inventory_elements.with_label_values(&[zone, kind]).set(count(&counts) as i64);
        }
        for (state, count) in STATES {
            self.metrics.inventory_instances.with_label_values(&[zone, state]).set(count(&counts) as i64);
        }
        for (end, count) in ENDS {
            // The roster counts from its own start; a counter goes on.
            let counter = self.metrics.inventory_removals.with_label_values(&[zone, end]);
            let before = count(&self.shared.status().counts);
            counter.inc_by(count(&counts).saturating_sub(before));
        }
        for ReasonCount { reason, .. } in &self.shared.status().counts.reasons {
            self.metrics.inventory_reasons.with_label_values(&[zone, reason]).set(0);
        }
        for ReasonCount { reason, instances } in &counts.reasons {
            self.metrics.inventory_reasons.with_label_values(&[zone, reason]).set(*instances as i64);
        }
        self.metrics.inventory_held.with_label_values(&[zone]).set(counts.held as i64);
        self.metrics.inventory_conflicts.with_label_values(&[zone]).set(counts.conflicts as i64);
        self.metrics.inventory_held_since.with_label_values(&[zone]).set(counts.held_since.unwrap_or(0));
        self.shared.status().counts = counts;
    }

    /// Shows whether a document waits for confirmation.
    pub fn note_held(&self, held: Option<&Held>) {
        self.metrics.transfer_held.set(&[&self.zone[..]], held.is_some().into());
        self.shared.status().held = held.map(HeldDocument::from);
    }

    /// Shows whether memory refuses a new version.
    pub fn note_memory(&self, excess: Option<&Excess>) {
        self.metrics.memory_refused.set(&[&self.zone[..]], excess.is_some().into());
        self.shared.status().reason = excess.map(|_| "memory");
    }

    /// Shows an error of the state folder.
    pub fn note_state(&self, error: Option<String>) {
        self.shared.status().state_error = error;
    }
}
