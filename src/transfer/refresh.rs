//! The task of one zone: waits, refreshes, and tells the keeper.
//!
//! A refresh goes through the primaries, the last good one first, until one confirms the zone or sends it. What the
//! serials decide (RFC 1982; `docs/regions.md` 24):
//!
//! - no zone yet, or an expired one: transfer, whatever the serial;
//! - equal: the zone is current;
//! - newer, or at the undefined distance: transfer;
//! - older: a failure, and the next primary is asked. When every primary that answered has been older for long enough,
//!   at the word of an operator, or when our version has nothing beside its apex, the zone goes back to the newest of
//!   them.
//!
//! What is newer comes as differences where that can be (RFC 1995): from a primary that answers such questions, for a
//! zone that is valid, while no version waits for confirmation. Once the differences together are as large as a whole zone may
//! be, one is transferred, so that a zone cannot grow by them without bound. Whatever is wrong with the differences,
//! the same primary is asked for the whole zone at once. Where memory has no room for them see `changes`. Removals in
//! doubt are resolved by asking for records, in `inquiry`. A held version is confirmed by the whole zone only, because
//! differences that agree with a version that was never adopted would prove nothing.
//!
//! Invariants: at most one update is on the way to the keeper; the next refresh begins when it is published;
//! differences are applied to the version that was published when they were asked for.
//!
//! Cost: a poll one round trip; differences O(records at the names that changed), whatever the size of the zone.

mod back;
mod changes;
mod round;
#[cfg(test)]
mod tests;
mod turns;
mod unheard;
mod verdict;

use crate::budget::{Budget, Claim, Manner as Purpose};
use crate::catalog::listing::Listing;
use crate::client::random_id;
use crate::publish::State;
use crate::source::requests::Call;
use crate::source::{News, WakeKind};
use crate::trace::{self, Step};
use crate::transfer::account::{Accounts, Kind};
use crate::transfer::connection::{self, Traffic};
use crate::transfer::doubt::Remaining;
use crate::transfer::error::TransferError;
use crate::transfer::guard::Guard;
use crate::transfer::ixfr::Manner;
use crate::transfer::pace::{End, Pace};
use crate::transfer::plan::ZonePlan;
use crate::transfer::queue::{Turn, Turns};
use crate::transfer::reader::{Reader, Received};
use crate::transfer::recourse::Recourse;
use crate::transfer::serial_regression::{Answers, Regression};
use crate::transfer::silence::{Cause, Ears};
use crate::transfer::status::{Activity, HeldStatus, unix_after};
use crate::transfer::twin::Twin;
use crate::transfer::version::Version;
use crate::transfer::{Shared, inquiry, poll, timers};
use crate::zone::{Mixed, Zone};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, sleep_until};
use tracing::{debug, info, warn};
use wire::name::Name;
use wire::nsec3::{MOST_ITERATIONS, Parameters};
use wire::serial::Serial;

/// Copies of a zone that are read in a row at most, while each may lack names.
const MOST_COPIES: usize = 3;

/// The task and what it remembers.
pub(super) struct Task {
    plan: Arc<ZonePlan>,
    turns: Arc<Turns>,
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
    regression: Regression,
    ears: Ears,
    recourse: Recourse,
    detours: changes::Detours,
    twin: Twin,
    /// True if somebody asked for the refresh.
    asked: bool,
    /// When the first word of a change came that has not been followed yet: what somebody asked, else the refresh itself.
    since: Option<Instant>,
    /// Octets of differences since the last whole zone.
    differences: u64,
    /// Time for which the present attempt has waited for the primary: for its serial, and until the last octet of its
    /// transfer.
    waited: Duration,
    /// What the present attempt has done, for its trace.
    steps: Vec<Step>,
}

/// Result of a refresh that did not fail.
enum Refreshed {
    Current(Serial),
    /// The primary announced a newer serial, and sent the whole zone at ours.
    Repeated(Serial),
    Adopted(String),
    Held(String),
    /// The keeper has gone, and the task with it.
    Ended,
}

/// Purpose of a transfer.
#[derive(Clone, Copy)]
struct Aim {
    kind: WakeKind,
    /// True if a serial that is older than ours will do.
    any_serial: bool,
    /// Serial that the primary announced just before.
    polled: Option<Serial>,
}

impl Aim {
    /// Returns the purpose of a request.
    fn of(kind: WakeKind) -> Aim {
        Aim { kind, any_serial: false, polled: None }
    }
}

/// The served version, when it is valid, and what is needed to replace it.
struct Ours {
    /// The version that a new one is compared with, even when it has expired.
    base: Option<Arc<Zone>>,
    /// The serial that counts; none when any will do.
    serial: Option<Serial>,
}

impl Task {
    /// A task that has not begun.
    pub(super) fn new(shared: Arc<Shared>) -> Task {
        let (plan, common) = (shared.plan.clone(), &shared.own.common);
        Task {
            ears: Ears::new(&plan.primaries, plan.timers.refresh_min, &common.silences),
            accounts: Accounts::new(shared.clone()),
            manners: vec![Manner::default(); plan.primaries.len()],
            plan,
            turns: common.turns.clone(),
            budget: shared.facilities.budget.clone(),
            shared,
            guard: Guard::default(),
            good: 0,
            rounds: 0,
            failures: 0,
            regression: Regression::default(),
            recourse: Recourse::default(),
            detours: changes::Detours::default(),
            twin: Twin::default(),
            asked: false,
            since: None,
            differences: 0,
            waited: Duration::ZERO,
            steps: Vec::new(),
        }
    }

    /// Refreshes until the keeper goes.
    pub(super) async fn run(&mut self) {
        let mut pace = Pace::start(Instant::now());
        if let Some(base) = self.ours().base {
            self.recourse.resume(&base, Instant::now());
            self.accounts.note_in_doubt(self.recourse.records());
        }
        while let Some((kind, mut call)) = self.wait(&mut pace).await {
            let (asked, began) = (call.kind.is_some(), Instant::now());
            self.asked = asked;
            self.since = self.since.or(call.since);
            let is_announced = self.since.is_some();
            self.since.get_or_insert_with(Instant::now);
            let before = self.ours().base.map(|zone| zone.soa.serial);
            let held = self.guard.held().is_some();
            // A zone that waits has no room for all that may happen in a refresh.
            let result = Box::pin(self.refresh(kind)).await;
            // A refresh of our own that failed is no word of a change.
            if !is_announced || matches!(result, Ok(Refreshed::Current(_) | Refreshed::Adopted(_))) {
                self.since = None;
            }
            let soa = self.ours().base.map(|zone| zone.soa);
            if matches!(result, Ok(Refreshed::Adopted(_))) {
                self.ears.note_transfer(self.good, soa.as_ref(), Cause { before, asked, held });
            }
            let (zone, timers) = (&self.plan.zone, &self.plan.timers);
            let delay = match &result {
                Ok(Refreshed::Ended) => break,
                Ok(Refreshed::Current(_) | Refreshed::Repeated(_) | Refreshed::Adopted(_)) => {
                    self.failures = 0;
                    let none = timers.retry_min.max(timers::LEAST_PAUSE);
                    soa.map_or(none, |soa| timers::after_success(zone, &soa, timers))
                }
                // Nothing but an operator or another version changes anything then.
                Ok(Refreshed::Held(_)) if self.guard.needs_operator() => timers.retry_max.max(timers::LEAST_PAUSE),
                Ok(Refreshed::Held(_)) => self.plan.limits.confirm_after.max(timers::LEAST_PAUSE),
                Err(_) => {
                    self.failures = self.failures.saturating_add(1);
                    timers::after_failure(zone, soa.as_ref(), self.failures, timers)
                }
            };
            let now = Instant::now();
            let end = match &result {
                Err(_) => End::Failed,
                Ok(Refreshed::Repeated(_)) => End::Open,
                Ok(_) if self.guard.held().is_some() => End::Open,
                Ok(_) => End::Well,
            };
            // After a failure the back-off counts, also for the transfer that is to confirm a held version.
            let due = [self.guard.due(&self.plan.limits), self.recourse.due()].into_iter().flatten().min();
            let due = due.filter(|_| result.is_ok()).map(|due| due.saturating_duration_since(now));
            let delay = due.map_or(delay, |due| delay.min(due).max(timers::LEAST_PAUSE));
            let back = self.back_at().filter(|back| *back > now);
            let delay = back.map_or(delay, |back| delay.min(back - now).max(timers::LEAST_PAUSE));
            let delay = if end == End::Well { self.ears.hasten(self.good, soa.as_ref(), delay, now) } else { delay };
            let delay = timers::in_step(now, delay);
            pace = Pace::after(asked.then(|| self.turns.hold_down()), (began, end), delay, now);
            self.note_end_of_refresh(delay);
            let is_current = matches!(result, Ok(Refreshed::Current(_)));
            call.answer(&describe(&result));
            if is_current {
                Box::pin(self.ask_for_nothing()).await;
            }
        }
    }

    /// Waits for the timer or a request, and says how to refresh. `None` when the keeper has gone.
    async fn wait(&mut self, pace: &mut Pace) -> Option<(WakeKind, Call)> {
        loop {
            let begin = pace.begin(self.shared.inbox.kind());
            if Instant::now() >= begin {
                let call = self.shared.inbox.take();
                let kind = call.kind.filter(|kind| *kind != WakeKind::Announced);
                // A held version is confirmed by the request that brought it; records in doubt need the whole zone.
                let kind = kind.or_else(|| self.guard.held().map(|held| held.kind)).unwrap_or_else(|| {
                    if self.recourse.take(Instant::now()) { WakeKind::Audit } else { WakeKind::Refresh }
                });
                return Some((kind, call));
            }
            tokio::select! {
                () = self.shared.inbox.rung() => {}
                () = self.shared.facilities.updates.closed() => return None,
                () = sleep_until(begin) => {}
                () = self.ears.rung(self.good), if self.failures == 0 && self.guard.held().is_none() => {
                    let (now, soa) = (Instant::now(), self.ours().base.map(|zone| zone.soa));
                    pace.hasten(|delay| self.ears.hasten(self.good, soa.as_ref(), delay, now), now);
                }
            }
        }
    }

    /// Transfers the zone from a primary, whatever its serial.
    async fn try_copy(
        &mut self,
        index: usize,
        kind: WakeKind,
        answers: &mut Answers,
    ) -> Result<Refreshed, TransferError> {
        (self.waited, self.steps) = (Duration::ZERO, Vec::new());
        let result = self.transfer_zone(index, Aim::of(kind)).await;
        // The whole zone tells a serial as a poll does. While an audit waits for confirmation nothing else is asked.
        if let Err(TransferError::Regressed { theirs, .. }) = result {
            answers.note_older(index, theirs);
        }
        result
    }

    /// Polls a primary, whose turn has come, and transfers the zone when it should be.
    async fn try_primary(
        &mut self,
        index: usize,
        turn: Turn,
        answers: &mut Answers,
    ) -> Result<Refreshed, TransferError> {
        (self.waited, self.steps) = (Duration::ZERO, Vec::new());
        let heard = Instant::now();
        self.accounts.note_poll(index);
        let announced = self.poll(index, answers).await;
        drop(turn);
        self.ears.note_poll(index, &announced);
        self.note_step("SOA", heard);
        let (theirs, ours) = self.accounts.note(index, Kind::Soa, announced)?;
        let is_current = ours.serial == Some(theirs);
        if let Some(base) = self.base_of_differences(index, theirs, ours) {
            match self.transfer_changes(index, base, theirs).await {
                Ok(Some(outcome)) => return Ok(outcome),
                Ok(None) => {}
                // The zone is current all the same, which the poll has confirmed; what else there is is asked for
                // again.
                Err(_) if is_current => self.twin.note_change(Instant::now()),
                Err(error) => return Err(error),
            }
        }
        if !is_current {
            return self.transfer_zone(index, Aim { polled: Some(theirs), ..Aim::of(WakeKind::Refresh) }).await;
        }
        self.accounts.note_result(index, format!("serial {theirs}, current"));
        debug!(zone = %self.accounts.zone(), primary = %self.accounts.primary(index), serial = theirs.0, "current");
        // The primary no longer has what waits for confirmation, unless another request brought it.
        if self.guard.held().is_some_and(|held| held.kind == WakeKind::Refresh) {
            self.guard.clear();
        }
        let sent = self.send(News::Current, heard).await;
        Ok(if sent { Refreshed::Current(theirs) } else { Refreshed::Ended })
    }

    /// Asks a primary for its serial and compares it with ours.
    async fn poll(&self, index: usize, answers: &mut Answers) -> Result<(Serial, Ours), TransferError> {
        let (zone, primary) = (&self.plan.origin, &self.plan.primaries[index]);
        let patience = self.plan.limits.connect_timeout;
        let theirs = match self.plan.catalog {
            Some(_) => poll::poll_catalog(zone, primary, patience).await?,
            None => poll::poll(zone, primary, patience).await?,
        };
        self.accounts.note_serial(index, theirs);
        let ours = self.ours();
        match ours.serial {
            Some(ours) if is_older(theirs, ours) => {
                answers.note_older(index, theirs);
                Err(TransferError::Regressed { ours, theirs })
            }
            _ => {
                answers.note_other();
                Ok((theirs, ours))
            }
        }
    }

    /// The version that differences may be put on, if this primary is to be asked for them, or for what else happened
    /// under our serial.
    fn base_of_differences(&mut self, index: usize, theirs: Serial, ours: Ours) -> Option<Arc<Zone>> {
        let (serial, now) = (ours.serial?, Instant::now());
        let may_ask = self.plan.ixfr && self.guard.held().is_none() && self.manners[index].may_ask(now);
        let wanted = if serial == theirs {
            may_ask && self.twin.take(self.asked, now)
        } else {
            // At the undefined distance no differences can lead from ours to theirs (RFC 1982 section 3.2).
            may_ask && theirs.newer_than(serial) && self.differences <= self.plan.limits.max_bytes
        };
        ours.base.filter(|_| wanted)
    }

    /// Transfers the whole zone; again, [`MOST_COPIES`] times in all, while a change in its midst may have cost the
    /// copy names.
    async fn transfer_zone(&mut self, index: usize, aim: Aim) -> Result<Refreshed, TransferError> {
        let mut copy = self.copy_zone(index, aim).await;
        for _ in 1..MOST_COPIES {
            if !copy.as_ref().is_ok_and(|(candidate, ..)| candidate.may_lack_names()) {
                break;
            }
            drop(copy);
            self.accounts.note_mixed(index);
            copy = self.copy_zone(index, aim).await;
        }
        let (candidate, claim, heard) = self.accounts.note(index, Kind::Axfr, copy)?;
        let base = candidate.ours.base.clone();
        let outcome = self.adopt(index, aim.kind, candidate, heard).await?;
        // What is still served has been replaced by nothing.
        if !self.serves(base.as_ref()) {
            claim.note_published(base);
        }
        Ok(outcome)
    }

    /// Reads the whole zone and makes a version of it.
    async fn copy_zone(&mut self, index: usize, aim: Aim) -> Result<(Candidate, Claim, Instant), TransferError> {
        let (turn, claim) = self.turns(index, Purpose::Replace).await?;
        let heard = Instant::now();
        let base = self.ours().base;
        self.accounts.note_begin(index, Kind::Axfr, base.as_ref().map(|zone| zone.records));
        let (primary, limits, tally) = (&self.plan.primaries[index], &self.plan.limits, &self.shared.own.tally);
        let reader = Reader::axfr(self.plan.origin.clone(), random_id()).beside(base);
        let fetched = connection::fetch(reader, primary, limits, tally, &claim).await;
        drop(turn);
        self.note_step("AXFR", heard);
        let (received, traffic) = fetched?;
        let candidate = self.examine(index, received, traffic, aim).await?.weigh(&claim).await?;
        Ok((candidate, claim, heard))
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
        let (mut remaining, mut has_moved) = (Remaining::default(), false);
        let (kind, version) = match received {
            // What the poll announced must be somewhere; the whole zone tells. So it does when ours expired meanwhile.
            Received::NotNewer(_) => return Err(TransferError::Behind { sent: serial }),
            Received::Changed(_) if is_behind => return Err(TransferError::Behind { sent: serial }),
            Received::Full(..) if unchanged => (Kind::Axfr, None),
            // Whoever writes catalogs does not commit them name by name.
            Received::Full(_, loader) if self.plan.catalog.is_some() => {
                (Kind::Axfr, Some(Version::load(loader, ours.base.clone(), Mixed::No).await?))
            }
            Received::Full(_, loader) => {
                let end = inquiry::ask_end(&self.plan, index, &self.turns).await;
                let mixed = Mixed::after_copy(serial, end);
                has_moved = end != Some(serial);
                (Kind::Axfr, Some(Version::load(loader, ours.base.clone(), mixed).await?))
            }
            Received::Changed(changed) => {
                let primary = &self.plan.primaries[index];
                let version;
                (version, remaining) =
                    inquiry::resolve(changed, primary, self.plan.limits.max_records, &self.turns).await?;
                (Kind::Ixfr, Some(version))
            }
        };
        if let Some(Version { loaded, .. }) = &version
            && let Some(signed) = loaded.zone.signed()
        {
            if loaded.anomalies.mended() > 0 {
                return Err(TransferError::Signed(loaded.anomalies));
            }
            if let Some(iterations) =
                signed.nsec3().map(Parameters::iterations).filter(|count| *count > MOST_ITERATIONS)
            {
                return Err(TransferError::Iterations(iterations));
            }
        }
        // A broken catalog must not be followed, whoever says so.
        let listing = match (&version, self.plan.catalog) {
            (Some(version), Some(limits)) => Some(Listing::read(&version.loaded.zone, limits.max_members)?),
            _ => None,
        };
        Ok(Candidate { kind, serial, traffic, ours, version, listing, remaining, has_moved })
    }

    /// Adopts a version, unless it has to wait.
    async fn adopt(
        &mut self,
        index: usize,
        wake: WakeKind,
        candidate: Candidate,
        heard: Instant,
    ) -> Result<Refreshed, TransferError> {
        let Candidate { kind, serial: theirs, traffic, ours, version, listing, .. } = candidate;
        let Some(version) = version else {
            self.accounts.note_result(index, format!("announced a newer serial but sent {theirs}, current"));
            let sent = self.send(News::Current, heard).await;
            return Ok(if sent { Refreshed::Repeated(theirs) } else { Refreshed::Ended });
        };
        if let Some(text) = self.judge(index, wake, (&version.loaded.zone, listing), ours.base.as_deref()) {
            return Ok(Refreshed::Held(text));
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
        if kind == Kind::Axfr {
            self.recourse.note_whole(&version.loaded.zone, heard.elapsed(), Instant::now());
        }
        self.recourse.note_adopted(&version.loaded.zone);
        self.accounts.note_in_doubt(self.recourse.records());
        if from != Some(theirs) {
            self.twin.note_change(Instant::now());
        }
        let has_marks = |base: &Arc<Zone>| version.loaded.zone.has_marks_of(base);
        let news = if touched == 0 && ours.serial == Some(theirs) && ours.base.as_ref().is_some_and(has_marks) {
            News::Current
        } else {
            News::Load { loaded: Box::new(version.loaded), base: ours.base }
        };
        let is_change = from.is_some() && matches!(news, News::Load { .. });
        if trace::is_on() && matches!(news, News::Load { .. }) {
            let since = self.since.map_or(heard, |since| since).into_std();
            let (primary, steps) = (Some(self.accounts.primary(index).to_string()), std::mem::take(&mut self.steps));
            trace::begin(
                &self.plan.zone,
                &trace::Change { since, primary, from, serial: theirs, names: touched, steps },
            );
        }
        if !self.send(news, heard).await {
            return Ok(Refreshed::Ended);
        }
        if let Some(since) = self.since.filter(|_| is_change) {
            self.shared.facilities.metrics.change_lag.observe(since.elapsed().as_secs_f64());
        }
        self.differences = if kind == Kind::Ixfr { self.differences.saturating_add(traffic.bytes) } else { 0 };
        let elapsed = heard.elapsed();
        self.accounts.note_transfer(kind, records, traffic.bytes, elapsed);
        info!(
            zone = %self.accounts.zone(), primary = %self.accounts.primary(index), kind = kind.label(),
            from = from.map(|serial| serial.0), serial = theirs.0, records, touched, bytes = traffic.bytes,
            messages = traffic.messages, ms = elapsed.as_millis() as u64, waited_us = self.waited.as_micros() as u64, "zone transferred"
        );
        if drift {
            let (zone, serial) = (self.accounts.zone(), theirs);
            warn!(%zone, serial = serial.0, names = touched, cause = wake.label(), "content differed under the same serial");
        }
        self.accounts.note_result(index, format!("transferred serial {theirs}"));
        let from = from.map_or("none".to_owned(), |serial| serial.to_string());
        let took = format_args!("{}.{:03} s", elapsed.as_secs(), elapsed.subsec_millis());
        Ok(Refreshed::Adopted(format!(
            "serial {from} -> {theirs}, {records} records, {touched} names changed, in {took}"
        )))
    }

    /// Notes that the primary has been waited for until now.
    fn note_step(&mut self, name: &'static str, began: Instant) {
        let ended = Instant::now();
        self.waited += ended - began;
        if trace::is_on() {
            self.steps.push(Step { name, began: began.into_std(), ended: ended.into_std() });
        }
    }

    /// Sends the keeper a change and waits until it is published. False when the keeper has gone.
    async fn send(&self, news: News, heard: Instant) -> bool {
        match self.shared.facilities.send(vec![(self.plan.zone.clone(), news)], heard).await {
            Some(published) => published.await.is_ok(),
            None => false,
        }
    }

    /// Returns true if a version, or none, is still what is served.
    fn serves(&self, version: Option<&Arc<Zone>>) -> bool {
        let ours = self.ours().base;
        ours.as_ref().map(Arc::as_ptr) == version.map(Arc::as_ptr)
    }

    /// The served version as it stands now.
    fn ours(&self) -> Ours {
        let published = self.shared.facilities.publisher.load();
        let served = published.get(&self.plan.zone);
        let base = served.and_then(|served| served.zone.clone());
        // An expired zone takes what it can get.
        let serial = base.as_ref().filter(|_| served.is_some_and(|served| served.state == State::Ok));
        Ours { serial: serial.map(|zone| zone.soa.serial), base }
    }

    /// Brings the status up to date between refreshes.
    fn note_end_of_refresh(&self, delay: Duration) {
        let held = self.guard.held().map(HeldStatus::from);
        let regression = self.regression_status();
        self.accounts.note_waiting(held.is_some(), regression.is_some());
        let mut status = self.shared.status();
        status.turn_to(Activity::Idle);
        status.failures = self.failures;
        status.older_answers = self.regression.older.map_or(0, |older| older.rounds);
        status.regression = regression;
        status.next_refresh = Some(unix_after(delay));
        status.held = held;
    }
}

/// A version as a transfer brought it, before it is judged.
struct Candidate {
    /// Kind of what the primary sent, which need not be what it was asked for.
    kind: Kind,
    serial: Serial,
    traffic: Traffic,
    ours: Ours,
    /// None when ours is as new.
    version: Option<Version>,
    /// What the version lists, if it is that of a catalog.
    listing: Option<Listing>,
    /// Account of removals in doubt.
    remaining: Remaining,
    /// The primary had another serial at the end of a copy than at its beginning, or none.
    has_moved: bool,
}

impl Candidate {
    /// Returns true for a copy that a change of the zone fell into and that lacks names of ours: part of it may have
    /// been read from a database that was emptied meanwhile, which its size need not reveal. An empty one reveals
    /// itself.
    fn may_lack_names(&self) -> bool {
        let (Some(version), Some(base)) = (&self.version, &self.ours.base) else { return false };
        let zone = &version.loaded.zone;
        let is_gone = |name: &Name| base.get(name.as_wire()).is_some() && zone.get(name.as_wire()).is_none();
        self.has_moved && zone.owners > 1 && version.loaded.touched.iter().any(is_gone)
    }

    /// Claims what the version takes now that it is made, which is known better than while it came.
    async fn weigh(self, claim: &Claim) -> Result<Candidate, TransferError> {
        if let Some(version) = &self.version {
            claim.grow(version.loaded.zone.octets()).await?;
        }
        Ok(self)
    }
}

/// Returns true if a primary's serial is behind ours; at the undefined distance it is not (RFC 1982 section 3.2).
fn is_older(theirs: Serial, ours: Serial) -> bool {
    ours.newer_than(theirs)
}

/// The answer to whoever asked for a refresh.
fn describe(result: &Result<Refreshed, String>) -> Result<String, String> {
    match result {
        Ok(Refreshed::Current(serial) | Refreshed::Repeated(serial)) => Ok(format!("serial {serial}, current")),
        Ok(Refreshed::Adopted(text)) => Ok(text.clone()),
        Ok(Refreshed::Held(text)) => Err(text.clone()),
        Ok(Refreshed::Ended) => Err("the zone was taken away or the program is stopping".to_owned()),
        Err(problems) => Err(problems.clone()),
    }
}
