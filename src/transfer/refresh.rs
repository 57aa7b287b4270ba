//! The task of one zone: waits, refreshes, and tells the keeper.
//!
//! A refresh goes through the primaries, the last good one first, until one confirms the zone or sends it. What the
//! serials decide (RFC 1982; contract F6):
//!
//! - no zone yet, or an expired one: transfer, whatever the serial;
//! - equal: the zone is current;
//! - newer, or at the undefined distance: transfer;
//! - older: a failure, and the next primary is asked. When on [`OLDER_BEFORE_ADOPTING`] refreshes in a row every primary
//!   that answered was older, its clock or database was set back, and the zone is adopted as it is.
//!
//! Invariants: at most one update is on the way to the keeper; the next refresh begins when it is published.
//!
//! Cost: see `transfer`; each attempt is counted once and logged once, failures only when their reason is new.

use crate::metrics::{Metrics, unix_seconds};
use crate::publish::{Publisher, State};
use crate::serial::Serial;
use crate::source::{Change, Update, WakeKind};
use crate::transfer::error::TransferError;
use crate::transfer::guard::{self, Guard, Verdict};
use crate::transfer::plan::ZonePlan;
use crate::transfer::status::{Activity, HeldStatus, unix_after};
use crate::transfer::wire::{self, Summary};
use crate::transfer::{Answer, Shared, poll, timers};
use crate::zone::{Anomalies, Loaded, Loader, Zone, ZoneError};
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, sleep_until};
use tracing::{debug, info, warn};

/// Every how many refreshes the primaries are gone through in their order, whichever was good last.
const ROUNDS_WITH_THE_SAME: u32 = 16;
/// Refreshes in a row that must show an older serial before the zone goes back.
const OLDER_BEFORE_ADOPTING: u32 = 3;

/// The label of polls.
const SOA: &str = "soa";
/// The label of zone transfers.
const AXFR: &str = "axfr";

/// The task and what it remembers.
pub(super) struct Task {
    plan: ZonePlan,
    /// The zone's name as a label.
    zone: String,
    /// The primaries' addresses as labels.
    labels: Vec<String>,
    updates: mpsc::Sender<Update>,
    publisher: Arc<Publisher>,
    metrics: Arc<Metrics>,
    shared: Arc<Shared>,
    guard: Guard,
    /// The primary that was good last.
    good: usize,
    /// Counts refreshes.
    rounds: u32,
    /// Refreshes in a row that failed at every primary.
    failures: u32,
    /// Refreshes in a row in which every answer was older.
    older: u32,
}

/// What came of a refresh that did not fail.
enum Outcome {
    Current(Serial),
    Adopted(String),
    Held(String),
    /// The keeper has gone, and the task with it.
    Ended,
}

/// The answers of the primaries in one refresh.
#[derive(Default)]
struct Answers {
    serials: u32,
    older: u32,
    /// The first primary with an older serial.
    set_back: Option<usize>,
}

/// The served version, when it is valid, and what is needed to replace it.
struct Ours {
    /// What a new version is compared with, even when it has expired.
    base: Option<Arc<Zone>>,
    /// The serial that counts; none when any will do.
    serial: Option<Serial>,
}

impl Task {
    /// A task that has not begun.
    pub(super) fn new(
        plan: ZonePlan,
        updates: mpsc::Sender<Update>,
        publisher: Arc<Publisher>,
        metrics: Arc<Metrics>,
        shared: Arc<Shared>,
    ) -> Task {
        let zone = plan.zone.to_string();
        let labels = plan.primaries.iter().map(|primary| primary.address.to_string()).collect();
        metrics.transfer_held.with_label_values(&[&zone]).set(0);
        Task {
            plan,
            zone,
            labels,
            updates,
            publisher,
            metrics,
            shared,
            guard: Guard::default(),
            good: 0,
            rounds: 0,
            failures: 0,
            older: 0,
        }
    }

    /// Refreshes until the keeper goes.
    pub(super) async fn run(mut self) {
        let mut next = Instant::now();
        let mut earliest = next;
        while let Some((kind, answers)) = self.wait(earliest, next).await {
            let result = self.refresh(kind).await;
            let delay = match &result {
                Ok(Outcome::Ended) => break,
                Ok(Outcome::Current(_) | Outcome::Adopted(_)) => {
                    self.failures = 0;
                    let ours = self.ours().base;
                    ours.map_or(self.plan.timers.retry_min.max(timers::LEAST_PAUSE), |zone| {
                        timers::after_success(&self.plan.zone, &zone.soa, &self.plan.timers)
                    })
                }
                Ok(Outcome::Held(_)) => self.plan.limits.confirm_after.max(timers::LEAST_PAUSE),
                Err(_) => {
                    self.failures = self.failures.saturating_add(1);
                    let ours = self.ours().base;
                    {
                        let soa = ours.as_deref().map(|zone| &zone.soa);
                        timers::after_failure(&self.plan.zone, soa, self.failures, &self.plan.timers)
                    }
                }
            };
            let now = Instant::now();
            earliest = now + timers::LEAST_PAUSE;
            next = now + delay;
            // After a failure the back-off counts, also for the transfer that is to confirm a held version.
            if let (Ok(_), Some(due)) = (&result, self.guard.due(&self.plan.limits)) {
                next = next.min(due).max(earliest);
            }
            self.note_end_of_refresh(next - now);
            tell(answers, &result);
        }
        self.shared.requests().ended = true;
        self.shared.requests().answers.clear();
    }

    /// Waits for the timer or a request. `None` when the keeper has gone.
    async fn wait(&self, earliest: Instant, next: Instant) -> Option<(WakeKind, Vec<Answer>)> {
        sleep_until(earliest).await;
        loop {
            {
                let mut requests = self.shared.requests();
                if let Some(kind) = requests.kind.take() {
                    return Some((kind, std::mem::take(&mut requests.answers)));
                }
            }
            tokio::select! {
                () = self.shared.bell.notified() => {}
                () = self.updates.closed() => return None,
                () = sleep_until(next) => {
                    // A held version is confirmed by the request that brought it.
                    let kind = self.guard.held().map_or(WakeKind::Refresh, |held| held.kind);
                    return Some((kind, Vec::new()));
                }
            }
        }
    }

    /// Goes through the primaries until one is good.
    async fn refresh(&mut self, kind: WakeKind) -> Result<Outcome, String> {
        let mut problems = Vec::new();
        let mut answers = Answers::default();
        let mut order: Vec<usize> = (0..self.plan.primaries.len()).collect();
        // A primary further down is kept while it is good, but the order means something: now and then it is followed.
        self.rounds = self.rounds.wrapping_add(1);
        if !self.rounds.is_multiple_of(ROUNDS_WITH_THE_SAME) {
            order.sort_by_key(|index| *index != self.good);
        }
        for index in order {
            match self.try_primary(index, kind, &mut answers).await {
                Ok(outcome) => {
                    self.good = index;
                    self.older = 0;
                    return Ok(outcome);
                }
                Err(error) => problems.push(format!("{}: {error}", self.labels[index])),
            }
        }
        if let Some(index) = answers.set_back
            && answers.older == answers.serials
        {
            self.older = self.older.saturating_add(1);
            if self.older >= OLDER_BEFORE_ADOPTING {
                let (zone, primary) = (&self.zone, &self.labels[index]);
                warn!(%zone, %primary, "every primary that answers has had an older serial on {} refreshes in a row; \
                      the zone goes back to it", self.older);
                match self.transfer(index, kind, true).await {
                    Ok(outcome) => {
                        self.good = index;
                        self.older = if matches!(outcome, Outcome::Adopted(_)) { 0 } else { self.older };
                        return Ok(outcome);
                    }
                    Err(error) => problems.push(format!("{}: {error}", self.labels[index])),
                }
            }
        } else if answers.serials > 0 {
            self.older = 0;
        }
        Err(problems.join("; "))
    }

    /// Polls a primary, when the request is about serials, and transfers the zone when it should be.
    async fn try_primary(
        &mut self,
        index: usize,
        kind: WakeKind,
        answers: &mut Answers,
    ) -> Result<Outcome, TransferError> {
        let any_serial = matches!(kind, WakeKind::Retransfer { .. });
        if kind != WakeKind::Refresh {
            return self.transfer(index, kind, any_serial).await;
        }
        let heard = Instant::now();
        self.begin(index, SOA, Activity::Polling);
        let announced = self.poll(index, answers).await;
        let (theirs, ours) = self.note(index, SOA, announced)?;
        if ours != Some(theirs) {
            return self.transfer(index, kind, any_serial).await;
        }
        self.note_result(index, format!("serial {theirs}, current"));
        debug!(zone = %self.zone, primary = %self.labels[index], serial = %theirs, "current");
        // The primary no longer has what waits for confirmation, unless another request brought it.
        if self.guard.held().is_some_and(|held| held.kind == WakeKind::Refresh) {
            self.guard.clear();
        }
        self.confirm(theirs, heard).await
    }

    /// Asks a primary for its serial and compares it with ours.
    async fn poll(&self, index: usize, answers: &mut Answers) -> Result<(Serial, Option<Serial>), TransferError> {
        let (zone, primary) = (&self.plan.zone, &self.plan.primaries[index]);
        let theirs = poll::poll(zone, primary, self.plan.limits.connect_timeout).await?;
        self.note_serial(index, theirs);
        answers.serials += 1;
        let ours = self.ours().serial;
        match ours {
            Some(ours) if is_older(theirs, ours) => {
                answers.older += 1;
                answers.set_back.get_or_insert(index);
                Err(TransferError::Regressed { ours, theirs })
            }
            _ => Ok((theirs, ours)),
        }
    }

    /// Transfers the zone and adopts it, if it is to be adopted.
    async fn transfer(&mut self, index: usize, kind: WakeKind, any_serial: bool) -> Result<Outcome, TransferError> {
        let heard = Instant::now();
        self.begin(index, AXFR, Activity::Transferring);
        let received = self.receive(index, kind, any_serial).await;
        let received = self.note(index, AXFR, received)?;
        let theirs = received.summary.soa.serial;
        let Some(version) = received.version else {
            self.note_result(index, format!("announced a newer serial but sent {theirs}, current"));
            return self.confirm(theirs, heard).await;
        };
        let accept = matches!(kind, WakeKind::Retransfer { accept: true });
        let size = (theirs, version.names);
        let now = Instant::now();
        if accept {
            self.guard.clear();
        } else if self.guard.judge(version.served_names, size, kind, &self.plan.limits, now) == Verdict::Hold {
            let text = format!(
                "serial {theirs} is held back: {} names with records, the served version has {}; it is transferred again \
                 in {:?}, or adopt it now with an accepted retransfer",
                version.names, version.served_names, self.plan.limits.confirm_after
            );
            warn!(zone = %self.zone, primary = %self.labels[index], "{text}");
            self.note_result(index, format!("serial {theirs} received, held back"));
            return Ok(Outcome::Held(text));
        }
        self.adopt(index, kind, received.ours, version, received.summary, heard).await
    }

    /// Receives a zone and makes a version of it; none when the serial says that ours is current.
    async fn receive(&self, index: usize, kind: WakeKind, any_serial: bool) -> Result<Received, TransferError> {
        let (zone, primary) = (&self.plan.zone, &self.plan.primaries[index]);
        let (summary, loader) = wire::fetch(zone, primary, &self.plan.limits).await?;
        let theirs = summary.soa.serial;
        self.note_serial(index, theirs);
        let ours = self.ours();
        match ours.serial.filter(|_| !any_serial) {
            Some(ours) if is_older(theirs, ours) => return Err(TransferError::Regressed { ours, theirs }),
            Some(serial) if serial == theirs && kind == WakeKind::Refresh => {
                return Ok(Received { summary, ours, version: None });
            }
            _ => {}
        }
        let base = ours.base.clone();
        let version = tokio::task::spawn_blocking(move || Version::make(loader, base.as_deref()))
            .await
            .map_err(|_| TransferError::Stopped)??;
        Ok(Received { summary, ours, version: Some(version) })
    }

    /// Hands a version to the keeper and waits until it is published.
    async fn adopt(
        &mut self,
        index: usize,
        kind: WakeKind,
        ours: Ours,
        version: Version,
        summary: Summary,
        heard: Instant,
    ) -> Result<Outcome, TransferError> {
        let theirs = summary.soa.serial;
        let (touched, records) = (version.loaded.touched.len(), version.loaded.zone.records);
        let from = ours.base.as_ref().map(|zone| zone.soa.serial);
        let drift = touched > 0 && from == Some(theirs);
        self.count_adopted(version.loaded.anomalies, if drift { touched } else { 0 });
        self.shared.status().activity = Activity::Publishing;
        let change = if touched == 0 && ours.serial == Some(theirs) {
            Change::Current
        } else {
            Change::Load { loaded: Box::new(version.loaded), base: ours.base }
        };
        if !self.send(change, heard).await {
            return Ok(Outcome::Ended);
        }
        let from = from.map_or("none".to_owned(), |serial| serial.to_string());
        let elapsed = heard.elapsed();
        self.metrics.transfer_bytes.with_label_values(&[&self.zone]).inc_by(summary.bytes);
        self.metrics.transfer_duration.with_label_values(&[self.zone.as_str(), AXFR]).observe(elapsed.as_secs_f64());
        info!(
            zone = %self.zone, primary = %self.labels[index], kind = AXFR, serial = %format_args!("{from}->{theirs}"),
            records, touched, bytes = summary.bytes, messages = summary.messages, ms = elapsed.as_millis() as u64,
            "zone transferred"
        );
        if drift {
            warn!(zone = %self.zone, serial = %theirs, names = touched, ?kind, "content differed under the same serial");
        }
        self.note_result(index, format!("transferred serial {theirs}"));
        Ok(Outcome::Adopted(format!("serial {from} -> {theirs}, {records} records, {touched} names changed")))
    }

    /// Tells the keeper that the zone is current.
    async fn confirm(&mut self, serial: Serial, heard: Instant) -> Result<Outcome, TransferError> {
        let sent = self.send(Change::Current, heard).await;
        Ok(if sent { Outcome::Current(serial) } else { Outcome::Ended })
    }

    /// Sends the keeper a change and waits until it is published. False when the keeper has gone.
    async fn send(&self, change: Change, heard: Instant) -> bool {
        let (published, done) = oneshot::channel();
        let zone = self.plan.zone.clone();
        let update = Update { zone, change, refreshed: heard.into_std(), published: Some(published) };
        self.updates.send(update).await.is_ok() && done.await.is_ok()
    }

    /// The served version as it stands now.
    fn ours(&self) -> Ours {
        let published = self.publisher.load();
        let served = published.get(&self.plan.zone);
        let base = served.and_then(|served| served.zone.clone());
        // An expired zone takes what it can get.
        let serial = base.as_ref().filter(|_| served.is_some_and(|served| served.state == State::Ok));
        Ours { serial: serial.map(|zone| zone.soa.serial), base }
    }

    //--- Accounts ---

    /// Counts an attempt.
    fn begin(&self, index: usize, kind: &'static str, activity: Activity) {
        self.shared.status().activity = activity;
        self.metrics.transfer_attempts.with_label_values(&[&self.zone, &self.labels[index], kind]).inc();
    }

    /// Counts what came of an attempt, and logs a failure when its reason is new.
    fn note<T>(&self, index: usize, kind: &'static str, result: Result<T, TransferError>) -> Result<T, TransferError> {
        let (zone, primary) = (self.zone.as_str(), self.labels[index].as_str());
        let mut status = self.shared.status();
        let status = &mut status.primaries[index];
        match &result {
            Ok(_) => {
                let now = unix_seconds(SystemTime::now());
                self.metrics.transfer_success.with_label_values(&[zone, primary, kind]).set(now);
            }
            Err(error) => {
                let reason = error.reason();
                self.metrics.transfer_failures.with_label_values(&[zone, primary, kind, reason]).inc();
                status.failures = status.failures.saturating_add(1);
                self.metrics.primary_failures.with_label_values(&[zone, primary]).set(status.failures.into());
                status.result = error.to_string();
                if status.reason == Some(reason) {
                    debug!(%zone, %primary, kind, reason, "{error}");
                } else {
                    warn!(%zone, %primary, kind, reason, "{error}");
                }
                status.reason = Some(reason);
            }
        }
        result
    }

    /// Notes what a primary's serial is.
    fn note_serial(&self, index: usize, serial: Serial) {
        let labels = [self.zone.as_str(), self.labels[index].as_str()];
        self.metrics.zone_primary_serial.with_label_values(&labels).set(i64::from(serial.0));
        self.shared.status().primaries[index].announced = Some(serial);
    }

    /// Notes that a primary did all that was asked of it, and what came of that.
    fn note_result(&self, index: usize, result: String) {
        let mut status = self.shared.status();
        let status = &mut status.primaries[index];
        if status.failures > 0 {
            let (zone, primary) = (&self.zone, &self.labels[index]);
            info!(%zone, %primary, failures = status.failures, "the primary is well again: {result}");
        }
        let labels = [self.zone.as_str(), self.labels[index].as_str()];
        self.metrics.primary_failures.with_label_values(&labels).set(0);
        status.success = Some(unix_seconds(SystemTime::now()));
        (status.failures, status.reason, status.result) = (0, None, result);
    }

    /// Counts what a version brought.
    fn count_adopted(&self, anomalies: Anomalies, drift: usize) {
        let Anomalies { duplicates, mixed_ttls, aliases, inner_soa, oversized } = anomalies;
        if oversized > 0 {
            warn!(zone = %self.zone, rrsets = oversized, "RRsets are too large for any response; questions for them cannot be answered");
        }
        let kinds = [
            ("duplicate", duplicates),
            ("mixed_ttl", mixed_ttls),
            ("alias", aliases),
            ("inner_soa", inner_soa),
            ("oversized", oversized),
        ];
        for (kind, count) in kinds {
            self.metrics.transfer_anomalies.with_label_values(&[self.zone.as_str(), kind]).inc_by(count);
        }
        self.metrics.audit_drift.with_label_values(&[&self.zone]).inc_by(drift as u64);
    }

    /// Brings the status up to date between refreshes.
    fn note_end_of_refresh(&self, delay: Duration) {
        let held = self.guard.held().map(HeldStatus::from);
        self.metrics.transfer_held.with_label_values(&[&self.zone]).set(i64::from(held.is_some()));
        let mut status = self.shared.status();
        status.activity = Activity::Idle;
        status.failures = self.failures;
        status.older_answers = self.older;
        status.next_refresh = Some(unix_after(delay));
        status.held = held;
    }
}

/// What a zone transfer brought.
struct Received {
    summary: Summary,
    ours: Ours,
    version: Option<Version>,
}

/// A new version with what the guard must know.
struct Version {
    loaded: Loaded,
    names: u64,
    served_names: u64,
}

impl Version {
    /// Compares the records with the served version. O(records)
    fn make(loader: Loader, base: Option<&Zone>) -> Result<Version, ZoneError> {
        let loaded = loader.finish(base)?;
        let (names, served_names) = (guard::count_names(&loaded.zone), base.map_or(0, guard::count_names));
        Ok(Version { loaded, names, served_names })
    }
}

/// Whether a primary's serial is behind ours; at the undefined distance it is not (RFC 1982 section 3.2).
fn is_older(theirs: Serial, ours: Serial) -> bool {
    ours.newer_than(theirs)
}

/// Answers the requests that a refresh was for.
fn tell(answers: Vec<Answer>, result: &Result<Outcome, String>) {
    let answer = match result {
        Ok(Outcome::Current(serial)) => Ok(format!("serial {serial}, current")),
        Ok(Outcome::Adopted(text)) => Ok(text.clone()),
        Ok(Outcome::Held(text)) => Err(text.clone()),
        Ok(Outcome::Ended) => Err("the zone was taken away or the program is stopping".to_owned()),
        Err(problems) => Err(problems.clone()),
    };
    for done in answers {
        // Whoever asked may have gone.
        let _ = done.send(answer.clone());
    }
}
