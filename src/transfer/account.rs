//! The accounts of one zone's way in: every attempt is counted once and logged once, failures at full volume only when
//! their reason is new.
//!
//! Invariant: the metrics, the status and the log say the same, because only this file writes them.
//!
//! Cost: O(1) for each entry.

use crate::metrics::{Metrics, unix_seconds};
use crate::transfer::Shared;
use crate::transfer::doubt::Remaining;
use crate::transfer::error::TransferError;
use crate::transfer::progress::Running;
use crate::transfer::status::{Activity, TransferNote};
use crate::zone::Anomalies;
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use tracing::{debug, info, warn};
use wire::serial::Serial;

/// Question to a primary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The zone's serial.
    Soa,
    /// The whole zone.
    Axfr,
    /// Differences.
    Ixfr,
}

impl Kind {
    /// The metric label.
    pub fn label(self) -> &'static str {
        match self {
            Kind::Soa => "soa",
            Kind::Axfr => "axfr",
            Kind::Ixfr => "ixfr",
        }
    }
}

/// The books of one zone.
pub struct Accounts {
    /// The zone's name as a label.
    zone: String,
    /// The primaries' addresses as labels.
    primaries: Vec<String>,
    /// For each primary the reason of the last failure to get differences, while they fail.
    differences: Vec<Option<&'static str>>,
    metrics: Arc<Metrics>,
    shared: Arc<Shared>,
}

impl Accounts {
    /// Opens the books.
    pub fn new(shared: Arc<Shared>) -> Accounts {
        let (zone, metrics) = (shared.plan.zone.to_string(), shared.facilities.metrics.clone());
        let primaries: Vec<_> = shared.plan.primaries.iter().map(|primary| primary.address.to_string()).collect();
        // A task before this one may have left faults.
        for family in
            [&metrics.transfer_held, &metrics.transfer_regressed, &metrics.records_in_doubt, &metrics.memory_refused]
        {
            family.set(&[&zone], 0);
        }
        Accounts { zone, differences: vec![None; primaries.len()], primaries, metrics, shared }
    }

    /// The zone's name as a label.
    pub fn zone(&self) -> &str {
        &self.zone
    }

    /// A primary's address as a label.
    pub fn primary(&self, index: usize) -> &str {
        &self.primaries[index]
    }

    /// Counts an attempt to learn the serial.
    pub fn note_poll(&self, index: usize) {
        self.shared.status().turn_to(Activity::Polling);
        self.count_attempt(index, Kind::Soa);
    }

    /// Counts a transfer that begins, which is expected to bring as many records.
    pub fn note_begin(&self, index: usize, kind: Kind, expected: Option<u64>) {
        self.shared.own.tally.note(0, 0);
        let since = unix_seconds(SystemTime::now());
        let mut status = self.shared.status();
        status.turn_to(Activity::Transferring);
        status.running = Some(Running::new(status.primaries[index].address, kind.label(), since, expected));
        drop(status);
        self.count_attempt(index, kind);
    }

    /// Counts a question at our own serial that a primary answered.
    pub fn note_question(&self, index: usize) {
        self.metrics.silence_questions.with_label_values(&[self.primary(index)]).inc();
    }

    /// Counts an attempt.
    fn count_attempt(&self, index: usize, kind: Kind) {
        self.metrics.transfer_attempts.with_label_values(&[self.zone(), self.primary(index), kind.label()]).inc();
    }

    /// Counts what came of an attempt, and logs a failure.
    pub fn note<T>(&self, index: usize, kind: Kind, result: Result<T, TransferError>) -> Result<T, TransferError> {
        match &result {
            Ok(_) => {
                let labels = [self.zone(), self.primary(index), kind.label()];
                self.metrics.transfer_success.set(&labels, unix_seconds(SystemTime::now()));
            }
            Err(error) => self.note_failure(index, kind, error),
        }
        result
    }

    /// Notes that a copy lacks names of ours, and that the zone changed while it was read.
    pub fn note_mixed(&self, index: usize) {
        let (zone, primary) = (self.zone(), self.primary(index));
        info!(%zone, %primary, "names are missing from a copy, and the zone changed meanwhile; it is copied again");
    }

    /// Notes that a primary did not do what was asked of it.
    fn note_failure(&self, index: usize, kind: Kind, error: &TransferError) {
        let (zone, primary, kind, reason) = (self.zone(), self.primary(index), kind.label(), error.reason());
        self.metrics.transfer_failures.with_label_values(&[zone, primary, kind, reason]).inc();
        if matches!(error, TransferError::Memory(_)) {
            self.metrics.memory_refused.set(&[zone], 1);
        }
        let mut status = self.shared.status();
        if kind != Kind::Soa.label() {
            status.remember(failed(kind, reason));
        }
        let status = &mut status.primaries[index];
        status.failures = status.failures.saturating_add(1);
        self.metrics.primary_failures.set(&[zone, primary], status.failures.into());
        status.result = error.to_string();
        if status.reason == Some(reason) {
            debug!(%zone, %primary, kind, reason, "{error}");
        } else {
            warn!(%zone, %primary, kind, reason, "{error}");
        }
        status.reason = Some(reason);
    }

    /// Notes that differences did not come or are of no use. The primary may be quite well: the whole zone is asked for
    /// next, and what comes of that is what its status tells.
    pub fn note_no_differences(&mut self, index: usize, error: &TransferError, pause: Option<Duration>) {
        let (zone, primary, kind, reason) =
            (self.zone.as_str(), self.primaries[index].as_str(), Kind::Ixfr.label(), error.reason());
        self.metrics.transfer_failures.with_label_values(&[zone, primary, kind, reason]).inc();
        self.shared.status().remember(failed(kind, reason));
        let pause = pause.map_or_else(String::new, |pause| format!("; not asked for differences for {pause:?}"));
        if self.differences[index] == Some(reason) {
            debug!(%zone, %primary, kind, reason, "{error}; the whole zone is transferred{pause}");
        } else {
            info!(%zone, %primary, kind, reason, "{error}; the whole zone is transferred{pause}");
        }
        self.differences[index] = Some(reason);
    }

    /// Notes that differences have come.
    pub fn note_differences(&mut self, index: usize) {
        self.differences[index] = None;
    }

    /// Notes what a primary's serial is.
    pub fn note_serial(&self, index: usize, serial: Serial) {
        let labels = [self.zone(), self.primary(index)];
        self.metrics.zone_primary_serial.set(&labels, i64::from(serial.0));
        self.shared.status().primaries[index].announced = Some(serial);
    }

    /// Notes that a primary did all that was asked of it, and what came of that.
    pub fn note_result(&self, index: usize, result: String) {
        let mut status = self.shared.status();
        let status = &mut status.primaries[index];
        let (zone, primary) = (self.zone(), self.primary(index));
        if status.failures > 0 {
            info!(%zone, %primary, failures = status.failures, "the primary is well again: {result}");
        }
        self.metrics.primary_failures.set(&[zone, primary], 0);
        self.metrics.memory_refused.set(&[zone], 0);
        status.success = Some(unix_seconds(SystemTime::now()));
        (status.failures, status.reason, status.result) = (0, None, result);
    }

    /// Counts a transfer that is published.
    pub fn note_transfer(&self, kind: Kind, records: u64, bytes: u64, elapsed: Duration) {
        self.metrics.transfer_bytes.count(&[self.zone()], bytes);
        self.metrics.transfer_duration.with_label_values(&[kind.label()]).observe(elapsed.as_secs_f64());
        let milliseconds = u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX);
        let note = TransferNote { records, bytes, milliseconds, ..failed(kind.label(), "ok") };
        let mut status = self.shared.status();
        status.received.count(kind.label());
        status.remember(note);
    }

    /// Counts what a version brought: what a zone cannot hold, names that were not as the serial promised, and steps of
    /// differences that changed nothing.
    pub fn note_version(&self, anomalies: Anomalies, drift: u64, noop_changes: u64) {
        let Anomalies { duplicates, mixed_ttls, aliases, inner_soa, oversized, signature_ttls } = anomalies;
        if oversized > 0 {
            warn!(zone = %self.zone, rrsets = oversized, "RRsets are too large for any response; answers have a part of them, or nothing");
        }
        let kinds = [
            ("duplicate", duplicates),
            ("mixed_ttl", mixed_ttls),
            ("alias", aliases),
            ("inner_soa", inner_soa),
            ("oversized", oversized),
            ("signature_ttl", signature_ttls),
        ];
        for (kind, count) in kinds {
            self.metrics.transfer_anomalies.count(&[self.zone(), kind], count);
        }
        self.metrics.audit_drift.count(&[self.zone()], drift);
        self.metrics.ixfr_noop_changes.count(&[self.zone()], noop_changes);
    }

    /// Counts what was done about removals in doubt.
    pub fn note_doubts(&self, index: usize, remaining: &Remaining) {
        let Remaining { questions, vetoed, ref unanswered, .. } = *remaining;
        let unanswered = unanswered.len();
        if questions > 0 || unanswered > 0 {
            info!(zone = %self.zone, primary = %self.primary(index), questions, vetoed, unanswered,
                  "the primary was asked for records whose removal is in doubt; those that it has stay, and those for which it gives no answer");
        }
        self.metrics.doubt_questions.count(&[self.zone()], questions);
        self.metrics.removals_vetoed.count(&[self.zone()], vetoed);
        let mut status = self.shared.status();
        status.doubts.questions += questions;
        status.doubts.vetoed += vetoed;
    }

    /// Notes how many records stay although their removal was announced, because nobody says whether they are gone.
    pub fn note_in_doubt(&self, records: usize) {
        self.metrics.records_in_doubt.set(&[self.zone()], records as i64);
        self.shared.status().doubts.records = records as u64;
    }

    /// Notes whether a version waits for confirmation, and whether our copy is kept against primaries that are all older.
    pub fn note_waiting(&self, held: bool, older: bool) {
        self.metrics.transfer_held.set(&[self.zone()], i64::from(held));
        self.metrics.transfer_regressed.set(&[self.zone()], i64::from(older));
    }
}

/// A transfer that brought nothing, for a reason.
fn failed(kind: &'static str, result: &'static str) -> TransferNote {
    TransferNote { at: unix_seconds(SystemTime::now()), kind, result, records: 0, bytes: 0, milliseconds: 0 }
}
