//! The task of one zone: waits, refreshes, and tells the keeper.
//!
//! A refresh goes through the primaries, the last good one first, until one confirms the zone or sends it. What the
//! serials decide (RFC 1982; contract F6):
//!
//! - no zone yet, or an expired one: transfer, whatever the serial;
//! - equal: the zone is current;
//! - newer, or at the undefined distance: transfer;
//! - older: a failure, and the next primary is asked. When on several refreshes in a row, with pauses, every primary
//!   that answered was older, its clock or database was set back, and the zone is adopted as it is.
//!
//! What is newer comes as differences where that can be (RFC 1995): from a primary that answers such questions, for a zone
//! that is valid, while no version is held back. Once the differences together are as large as a whole zone may be, one is
//! transferred, so that a zone cannot grow by them without bound. Whatever is wrong with the differences, the same primary is asked for the
//! whole zone at once. A held version is confirmed by the whole zone only, because differences that agree with a version
//! that was never adopted would prove nothing.
//!
//! Invariants: at most one update is on the way to the keeper; the next refresh begins when it is published; differences
//! are applied to the version that was published when they were asked for.
//!
//! Cost: a poll one round trip; differences O(records at the names that changed), whatever the size of the zone.

use crate::budget::{Budget, Claim, Manner as Purpose};
use crate::metrics::Metrics;
use crate::publish::{Publisher, State};
use crate::serial::Serial;
use crate::source::requests::Answer;
use crate::source::{Change, Update, WakeKind};
use crate::transfer::account::{Accounts, Kind};
use crate::transfer::error::TransferError;
use crate::transfer::guard::{Guard, Verdict};
use crate::transfer::ixfr::{self, Manner};
use crate::transfer::pace::{End, Pace};
use crate::transfer::plan::ZonePlan;
use crate::transfer::reader::Received;
use crate::transfer::setback::{Answers, Setback};
use crate::transfer::status::{Activity, HeldStatus, unix_after};
use crate::transfer::version::Version;
use crate::transfer::wire::{self, Traffic};
use crate::transfer::{Shared, poll, timers};
use crate::zone::Zone;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, sleep_until};
use tracing::{debug, info, warn};

/// Every how many refreshes the primaries are gone through in their order, whichever was good last.
const ROUNDS_WITH_THE_SAME: u32 = 16;
/// The task and what it remembers.
pub(super) struct Task {
    plan: ZonePlan,
    updates: mpsc::Sender<Update>,
    publisher: Arc<Publisher>,
    budget: Arc<Budget>,
    accounts: Accounts,
    shared: Arc<Shared>,
    guard: Guard,
    /// For each primary, whether it is worth asking for differences.
    manners: Vec<Manner>,
    /// The primary that was good last.
    good: usize,
    /// Counts refreshes.
    rounds: u32,
    /// Refreshes in a row that failed at every primary.
    failures: u32,
    setback: Setback,
    /// Octets of differences since the last whole zone.
    differences: u64,
    /// How long the present attempt has waited for the primary: for its serial, and until the last octet of its transfer.
    waited: Duration,
}

/// What came of a refresh that did not fail.
enum Outcome {
    Current(Serial),
    /// The primary announced a newer serial, and sent the whole zone at ours.
    Repeated(Serial),
    Adopted(String),
    Held(String),
    /// The keeper has gone, and the task with it.
    Ended,
}

/// What a refresh is for.
struct Call {
    kind: WakeKind,
    /// Whom to tell what came of it.
    answers: Vec<Answer>,
    /// Whether someone asked for it, rather than the timer.
    asked: bool,
}

/// What a transfer is for.
#[derive(Clone, Copy)]
struct Aim {
    kind: WakeKind,
    /// Whether a serial that is older than ours will do.
    any_serial: bool,
    /// What the primary announced just before.
    polled: Option<Serial>,
}

impl Aim {
    /// What a request asks for.
    fn of(kind: WakeKind) -> Aim {
        Aim { kind, any_serial: matches!(kind, WakeKind::Retransfer { .. }), polled: None }
    }
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
        budget: Arc<Budget>,
    ) -> Task {
        Task {
            accounts: Accounts::new(&plan, metrics, shared.clone()),
            manners: vec![Manner::default(); plan.primaries.len()],
            plan,
            updates,
            publisher,
            budget,
            shared,
            guard: Guard::default(),
            good: 0,
            rounds: 0,
            failures: 0,
            setback: Setback::default(),
            differences: 0,
            waited: Duration::ZERO,
        }
    }

    /// Refreshes until the keeper goes.
    pub(super) async fn run(mut self) {
        let mut pace = Pace::start(Instant::now());
        while let Some(Call { kind, answers, asked }) = self.wait(&pace).await {
            let result = self.refresh(kind).await;
            let soa = self.ours().base.map(|zone| zone.soa);
            let (zone, timers) = (&self.plan.zone, &self.plan.timers);
            let delay = match &result {
                Ok(Outcome::Ended) => break,
                Ok(Outcome::Current(_) | Outcome::Repeated(_) | Outcome::Adopted(_)) => {
                    self.failures = 0;
                    let none = timers.retry_min.max(timers::LEAST_PAUSE);
                    soa.map_or(none, |soa| timers::after_success(zone, &soa, timers))
                }
                Ok(Outcome::Held(_)) => self.plan.limits.confirm_after.max(timers::LEAST_PAUSE),
                Err(_) => {
                    self.failures = self.failures.saturating_add(1);
                    timers::after_failure(zone, soa.as_ref(), self.failures, timers)
                }
            };
            let now = Instant::now();
            // After a failure the back-off counts, also for the transfer that is to confirm a held version.
            let due = self.guard.due(&self.plan.limits).filter(|_| result.is_ok());
            let delay = due.map_or(delay, |due| delay.min(due - now).max(timers::LEAST_PAUSE));
            let end = match &result {
                Err(_) => End::Failed,
                Ok(Outcome::Repeated(_)) => End::Open,
                Ok(_) if self.guard.held().is_some() => End::Open,
                Ok(_) => End::Well,
            };
            pace = Pace::after(asked, end, delay, now);
            self.note_end_of_refresh(delay);
            tell(answers, &result);
        }
        self.shared.inbox.end();
    }

    /// Waits for the timer or a request. `None` when the keeper has gone.
    async fn wait(&self, pace: &Pace) -> Option<Call> {
        loop {
            let begin = {
                let mut requests = self.shared.inbox.lock();
                let begin = pace.begin(requests.kind);
                if Instant::now() >= begin {
                    let waiting = requests.kind.take();
                    let kind = waiting.filter(|kind| *kind != WakeKind::Announced);
                    // A held version is confirmed by the request that brought it.
                    let held = || self.guard.held().map_or(WakeKind::Refresh, |held| held.kind);
                    let answers = std::mem::take(&mut requests.answers);
                    return Some(Call { kind: kind.unwrap_or_else(held), answers, asked: waiting.is_some() });
                }
                begin
            };
            tokio::select! {
                () = self.shared.inbox.rung() => {}
                () = self.updates.closed() => return None,
                () = sleep_until(begin) => {}
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
                    self.setback.clear();
                    return Ok(outcome);
                }
                Err(error) => problems.push(format!("{}: {error}", self.accounts.primary(index))),
            }
        }
        // Requests may come as fast as they like; what counts is as far apart as the first try after a failure.
        let pause = timers::after_failure(&self.plan.zone, None, 1, &self.plan.timers);
        if let Some(index) = self.setback.count(&answers, pause, Instant::now()) {
            let (zone, primary) = (self.accounts.zone(), self.accounts.primary(index));
            warn!(%zone, %primary, "every primary that answers has had an older serial on {} refreshes in a row; \
                  the zone goes back to it", self.setback.rounds());
            match self.transfer_zone(index, Aim { any_serial: true, ..Aim::of(kind) }).await {
                Ok(outcome) => {
                    self.good = index;
                    if matches!(outcome, Outcome::Adopted(_)) {
                        self.setback.clear();
                    }
                    return Ok(outcome);
                }
                Err(error) => problems.push(format!("{}: {error}", self.accounts.primary(index))),
            }
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
        self.waited = Duration::ZERO;
        if kind != WakeKind::Refresh {
            let result = self.transfer_zone(index, Aim::of(kind)).await;
            // The whole zone tells a serial as a poll does. While an audit waits for confirmation nothing else is asked.
            if let Err(TransferError::Regressed { .. }) = result {
                answers.note_older(index);
            }
            return result;
        }
        let heard = Instant::now();
        self.accounts.note_poll(index);
        let announced = self.poll(index, answers).await;
        self.waited += heard.elapsed();
        let (theirs, ours) = self.accounts.note(index, Kind::Soa, announced)?;
        if ours.serial != Some(theirs) {
            if let Some(base) = self.base_of_differences(index, theirs, ours)
                && let Some(outcome) = self.transfer_changes(index, base, theirs).await?
            {
                return Ok(outcome);
            }
            return self.transfer_zone(index, Aim { polled: Some(theirs), ..Aim::of(kind) }).await;
        }
        self.accounts.note_result(index, format!("serial {theirs}, current"));
        debug!(zone = %self.accounts.zone(), primary = %self.accounts.primary(index), serial = %theirs, "current");
        // The primary no longer has what waits for confirmation, unless another request brought it.
        if self.guard.held().is_some_and(|held| held.kind == WakeKind::Refresh) {
            self.guard.clear();
        }
        let sent = self.send(Change::Current, heard).await;
        Ok(if sent { Outcome::Current(theirs) } else { Outcome::Ended })
    }

    /// Asks a primary for its serial and compares it with ours.
    async fn poll(&self, index: usize, answers: &mut Answers) -> Result<(Serial, Ours), TransferError> {
        let (zone, primary) = (&self.plan.zone, &self.plan.primaries[index]);
        let theirs = poll::poll(zone, primary, self.plan.limits.connect_timeout).await?;
        self.accounts.note_serial(index, theirs);
        let ours = self.ours();
        match ours.serial {
            Some(ours) if is_older(theirs, ours) => {
                answers.note_older(index);
                Err(TransferError::Regressed { ours, theirs })
            }
            _ => {
                answers.note_other();
                Ok((theirs, ours))
            }
        }
    }

    /// The version that differences may be put on, if this primary is to be asked for them.
    fn base_of_differences(&self, index: usize, theirs: Serial, ours: Ours) -> Option<Arc<Zone>> {
        // At the undefined distance no differences can lead from ours to theirs (RFC 1982 section 3.2).
        let wanted = self.plan.ixfr
            && ours.serial.is_some_and(|ours| theirs.newer_than(ours))
            && self.guard.held().is_none()
            && self.differences <= self.plan.limits.max_bytes
            && self.manners[index].may_ask(Instant::now());
        ours.base.filter(|_| wanted)
    }

    /// Transfers what has changed up to the serial that the poll brought. `None` when that did not come about and the whole
    /// zone must be asked for.
    async fn transfer_changes(
        &mut self,
        index: usize,
        base: Arc<Zone>,
        polled: Serial,
    ) -> Result<Option<Outcome>, TransferError> {
        let heard = Instant::now();
        self.accounts.note_begin(index, Kind::Ixfr, None);
        let primary = &self.plan.primaries[index];
        let aim = Aim { polled: Some(polled), ..Aim::of(WakeKind::Refresh) };
        let (claim, before) = (self.budget.begin(&self.plan.zone, Purpose::Change), base.clone());
        let fetched = wire::fetch_changes(base, primary, &self.plan.limits, &self.shared.tally, &claim).await;
        self.waited += heard.elapsed();
        let candidate = match fetched {
            Ok((received, traffic)) => self.examine(index, received, traffic, aim).await,
            Err(error) => Err(error),
        };
        match candidate {
            Ok(candidate) => {
                self.manners[index].note_answer();
                self.accounts.note_differences(index);
                self.accounts.note_success(index, candidate.kind);
                let outcome = self.settle(index, aim.kind, candidate, heard).await?;
                if matches!(outcome, Outcome::Adopted(_)) {
                    claim.settle(Some(before));
                }
                Ok(Some(outcome))
            }
            Err(error) if ixfr::is_unreachable(&error) => self.accounts.note(index, Kind::Ixfr, Err(error)),
            Err(error) => {
                let pause = self.manners[index].note_failure(&error, Instant::now());
                self.accounts.note_no_differences(index, &error, pause);
                Ok(None)
            }
        }
    }

    /// Transfers the whole zone.
    async fn transfer_zone(&mut self, index: usize, aim: Aim) -> Result<Outcome, TransferError> {
        let claim = self.budget.begin(&self.plan.zone, Purpose::Replace);
        self.shared.status().turn_to(Activity::Waiting);
        claim.take_turn().await;
        let heard = Instant::now();
        let base = self.ours().base;
        self.accounts.note_begin(index, Kind::Axfr, base.as_ref().map(|zone| zone.records));
        let (primary, limits) = (&self.plan.primaries[index], &self.plan.limits);
        let (zone, tally) = (&self.plan.zone, &self.shared.tally);
        let fetched = wire::fetch_zone(zone, base.clone(), primary, limits, tally, &claim).await;
        self.waited += heard.elapsed();
        let candidate = match fetched {
            Ok((received, traffic)) => self.examine(index, received, traffic, aim).await,
            Err(error) => Err(error),
        };
        let candidate = match candidate {
            Ok(candidate) => candidate.weigh(&claim).await,
            Err(error) => Err(error),
        };
        let candidate = self.accounts.note(index, Kind::Axfr, candidate)?;
        let outcome = self.settle(index, aim.kind, candidate, heard).await?;
        if matches!(outcome, Outcome::Adopted(_)) {
            claim.settle(base);
        }
        Ok(outcome)
    }

    /// Makes a version of what was received, unless the serial says that ours is current.
    async fn examine(
        &self,
        index: usize,
        received: Received,
        traffic: Traffic,
        Aim { kind, any_serial, polled }: Aim,
    ) -> Result<Candidate, TransferError> {
        let serial = received.soa().serial;
        let is_behind = polled.is_some_and(|polled| is_older(serial, polled));
        if !is_behind {
            self.accounts.note_serial(index, serial);
        }
        let ours = self.ours();
        match ours.serial.filter(|_| !any_serial) {
            Some(ours) if is_older(serial, ours) => return Err(TransferError::Regressed { ours, theirs: serial }),
            _ => {}
        }
        let unchanged = !any_serial && ours.serial == Some(serial) && kind == WakeKind::Refresh;
        let (kind, version) = match received {
            // What the poll announced must be somewhere; the whole zone tells. So it does when ours expired meanwhile.
            Received::NotNewer(_) => return Err(TransferError::Behind { sent: serial }),
            Received::Changed(_) if is_behind => return Err(TransferError::Behind { sent: serial }),
            Received::Full(..) if unchanged => (Kind::Axfr, None),
            Received::Full(_, loader) => (Kind::Axfr, Some(Version::load(loader, ours.base.clone()).await?)),
            Received::Changed(changed) => {
                (Kind::Ixfr, Some(Version::patch(changed, self.plan.limits.max_records).await?))
            }
        };
        Ok(Candidate { kind, serial, traffic, ours, version })
    }

    /// Adopts a version, if it is to be adopted.
    async fn settle(
        &mut self,
        index: usize,
        wake: WakeKind,
        candidate: Candidate,
        heard: Instant,
    ) -> Result<Outcome, TransferError> {
        let Candidate { kind, serial: theirs, traffic, ours, version } = candidate;
        let Some(version) = version else {
            self.accounts.note_result(index, format!("announced a newer serial but sent {theirs}, current"));
            let sent = self.send(Change::Current, heard).await;
            return Ok(if sent { Outcome::Repeated(theirs) } else { Outcome::Ended });
        };
        let (names, served) = (version.loaded.zone.owners, ours.base.as_ref().map_or(0, |zone| zone.owners));
        let limits = &self.plan.limits;
        if wake == (WakeKind::Retransfer { accept: true }) {
            self.guard.accept();
        } else if self.guard.judge(served, (theirs, names), wake, limits, Instant::now()) == Verdict::Hold {
            let peak = self.guard.held().map_or(0, |held| held.peak_names);
            let peak = if peak > served { format!(" and an earlier one had {peak}") } else { String::new() };
            let text = format!(
                "serial {theirs} is held back: {names} names with records, the served version has {served}{peak}; it is \
                 transferred again in {:?}, or adopt it now with an accepted retransfer",
                limits.confirm_after
            );
            warn!(zone = %self.accounts.zone(), primary = %self.accounts.primary(index), "{text}");
            self.accounts.note_result(index, format!("serial {theirs} received, held back"));
            return Ok(Outcome::Held(text));
        }
        let records = version.loaded.zone.records;
        // Without a version to compare it with, everything is new.
        let touched = ours.base.as_ref().map_or(version.loaded.zone.owners as usize, |_| version.loaded.touched.len());
        let from = ours.base.as_ref().map(|zone| zone.soa.serial);
        let drift = touched > 0 && from == Some(theirs);
        self.accounts.note_version(
            version.loaded.anomalies,
            if drift { touched as u64 } else { 0 },
            version.noop_changes,
        );
        self.shared.status().turn_to(Activity::Publishing);
        let change = if touched == 0 && ours.serial == Some(theirs) {
            Change::Current
        } else {
            Change::Load { loaded: Box::new(version.loaded), base: ours.base }
        };
        if !self.send(change, heard).await {
            return Ok(Outcome::Ended);
        }
        self.differences = if kind == Kind::Ixfr { self.differences.saturating_add(traffic.bytes) } else { 0 };
        let from = from.map_or("none".to_owned(), |serial| serial.to_string());
        let elapsed = heard.elapsed();
        self.accounts.note_transfer(kind, records, traffic.bytes, elapsed);
        info!(
            zone = %self.accounts.zone(), primary = %self.accounts.primary(index), kind = kind.label(),
            serial = %format_args!("{from}->{theirs}"), records, touched, bytes = traffic.bytes,
            messages = traffic.messages, ms = elapsed.as_millis() as u64, waited_us = self.waited.as_micros() as u64, "zone transferred"
        );
        if drift {
            let (zone, serial) = (self.accounts.zone(), theirs);
            warn!(%zone, %serial, names = touched, kind = ?wake, "content differed under the same serial");
        }
        self.accounts.note_result(index, format!("transferred serial {theirs}"));
        let took = format_args!("{}.{:03} s", elapsed.as_secs(), elapsed.subsec_millis());
        Ok(Outcome::Adopted(format!(
            "serial {from} -> {theirs}, {records} records, {touched} names changed, in {took}"
        )))
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

    /// Brings the status up to date between refreshes.
    fn note_end_of_refresh(&self, delay: Duration) {
        let held = self.guard.held().map(HeldStatus::from);
        self.accounts.note_held(held.is_some());
        let mut status = self.shared.status();
        status.turn_to(Activity::Idle);
        status.failures = self.failures;
        status.older_answers = self.setback.rounds();
        status.next_refresh = Some(unix_after(delay));
        status.held = held;
    }
}

/// What a transfer brought, before it is judged.
struct Candidate {
    /// What the primary sent, which need not be what it was asked for.
    kind: Kind,
    serial: Serial,
    traffic: Traffic,
    ours: Ours,
    /// None when ours is as new.
    version: Option<Version>,
}

impl Candidate {
    /// Claims what the version takes now that it is made, which is known better than while it came.
    async fn weigh(self, claim: &Claim) -> Result<Candidate, TransferError> {
        if let Some(version) = &self.version {
            claim.grow(version.loaded.zone.octets()).await?;
        }
        Ok(self)
    }
}

/// Whether a primary's serial is behind ours; at the undefined distance it is not (RFC 1982 section 3.2).
fn is_older(theirs: Serial, ours: Serial) -> bool {
    ours.newer_than(theirs)
}

/// Answers the requests that a refresh was for.
fn tell(answers: Vec<Answer>, result: &Result<Outcome, String>) {
    let answer = match result {
        Ok(Outcome::Current(serial) | Outcome::Repeated(serial)) => Ok(format!("serial {serial}, current")),
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
