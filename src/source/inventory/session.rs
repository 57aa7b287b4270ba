//! The task of one inventory: takes what the feeder tells, makes zones of it, and tells the keeper.
//!
//! Events that wait together are one batch, which is settled once: changes of instances, accounts and networks, and
//! then what the clock brings, as the end of a hold. Timers go on whatever becomes of the feeder.
//!
//! Invariants: at most one update is on the way to the keeper, and has all zones of the inventory but those that wait for
//! what their secondaries have; before the first
//! complete reading, zones are made of kept elements only where those cannot be older than the zones; what is published
//! was kept on disk before, as far as there is one; an order to accept holds for the reading that it was given for,
//! whatever becomes of that; a time is never earlier than one that was used before.
//!
//! Cost: O(what a batch touches); a confirmation every ten seconds while nothing changes.

use super::account::Account;
use super::book::Book;
use super::depot::Slot;
use super::elsewhere::{self, Found};
use super::feeder::{Event, Failure, Intake, Order, Told};
use super::files::Scribe;
use super::guard::{Extent, Guard, Limits};
use super::plan::InventoryPlan;
use super::zones::NewVersion;
use super::{Shared, present_plan};
use crate::budget::Manner;
use crate::source::requests::Call;
use crate::source::{News, WakeKind};
use crate::zone::Zone;
use inventory::model::Moment;
use std::collections::{HashMap, HashSet};
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};
use tracing::{info, warn};
use wire::name::Name;
use wire::serial::Serial;

/// Time for which events are gathered while more of them wait.
const LONGEST_GATHERING: Duration = Duration::from_secs(1);
/// Longest time until the next look at the clock, which may be set.
const LONGEST_SLEEP: Duration = Duration::from_secs(60);
/// Pause before another attempt where memory had no room for new versions.
const PAUSE_AFTER_REFUSAL: Duration = Duration::from_secs(30);
/// Pause before another attempt to read what is kept, where the disk refuses it.
const PAUSE_AFTER_DISK: Duration = Duration::from_secs(5);
/// Time between two counts of what is known.
const BETWEEN_SURVEYS: Duration = Duration::from_secs(2);
/// Pause before secondaries that did not answer are asked again.
const PAUSE_AFTER_SILENCE: Duration = Duration::from_secs(5);
/// Accounts whose names are counted in metrics.
const MOST_ACCOUNTS: usize = 100;
/// Time between two notes on disk that the inventory is as it was.
const TOUCH: Duration = Duration::from_secs(60);

/// Account of a publication.
struct Summary {
    text: String,
    /// True if the keeper was told of all zones.
    is_sent: bool,
    /// True if the zones are what is known of the inventory, whether that was sent now or before.
    is_served: bool,
}

/// Error: the keeper has gone, or the zones from it, and the task with them.
pub(super) struct Ended;

/// The task and what it remembers.
pub(super) struct Task {
    plan: Arc<InventoryPlan>,
    account: Account,
    shared: Arc<Shared>,
    slot: Arc<Slot>,
    scribe: Scribe,
    guard: Guard,
    intake: Intake,
    call: Call,
    /// The newest order.
    order: Order,
    /// Order to adopt the next document whatever it lacks.
    accept: Option<Order>,
    /// Time of the last good reading.
    heard: Instant,
    touched: Option<Instant>,
    /// Moment at which the clock brings something.
    next: Option<Moment>,
    /// Time at which versions are made again that memory had no room for.
    retry: Option<Instant>,
    serial: Option<Serial>,
    /// True if zones can be made of what is known.
    may_publish: bool,
    /// The question to secondaries which serials they have of zones that wait for that.
    asking: JoinSet<HashMap<Name, Found>>,
    /// Time at which networks that are named in vain, and the names of accounts, are counted again.
    survey: Instant,
    /// The automatic reverse zones that are in force.
    automatic: watch::Receiver<Arc<[Name]>>,
}

impl Task {
    /// A task that has not begun.
    pub(super) fn new(shared: Arc<Shared>, intake: Intake) -> Task {
        Task {
            // Before a look at them: what comes in between is seen twice.
            automatic: shared.own.automatic.subscribe(),
            plan: Arc::new(present_plan(&shared)),
            account: Account::new(shared.clone()),
            slot: shared.own.slot.clone(),
            scribe: Scribe::new(shared.own.slot.clone()),
            shared,
            guard: Guard::default(),
            intake,
            call: Call::default(),
            order: 0,
            accept: None,
            heard: Instant::now(),
            touched: None,
            next: None,
            retry: None,
            serial: None,
            may_publish: false,
            asking: JoinSet::new(),
            survey: Instant::now(),
        }
    }

    /// Follows the feeder until the keeper goes.
    pub(super) async fn run(mut self) {
        // There is no end but that of the keeper.
        let Err(Ended) = self.follow().await;
    }

    async fn follow(&mut self) -> Result<Infallible, Ended> {
        loop {
            let due = self.guard.due();
            let clock = self.wake_at();
            tokio::select! {
                told = self.intake.told.recv() => match told {
                    Some(told) => self.take(told).await?,
                    // A feeder ends with its task only.
                    None => return Err(Ended),
                },
                () = self.shared.inbox.rung() => self.take_call(),
                () = self.shared.own.orders.rung() => self.take_orders().await?,
                Some(found) = self.asking.join_next() => self.take_serials(found.unwrap_or_default()).await?,
                Ok(()) = self.automatic.changed() => self.take_automatic().await?,
                () = sleep_until(due.unwrap_or(clock)), if due.is_some() => self.look_again(),
                () = sleep_until(clock) => self.pass_time().await?,
                () = self.shared.facilities.updates.closed() => return Err(Ended),
            }
        }
    }

    /// Limits from which a document is doubted.
    fn limits(&self) -> Limits {
        Limits { shrink_share: self.plan.shrink_share, confirm_after: self.plan.confirm_after }
    }

    /// Time at which the clock brings something, or is looked at again.
    fn wake_at(&mut self) -> Instant {
        let now = self.slot.clock.lock().now();
        let next = self.next.map_or(LONGEST_SLEEP, |next| next.since(now));
        let next = Instant::now() + next.min(LONGEST_SLEEP);
        self.retry.map_or(next, |retry| retry.min(next))
    }

    /// Publishes what the clock brings, unless nothing was heard for so long that the zones have expired.
    async fn pass_time(&mut self) -> Result<(), Ended> {
        if self.heard.elapsed() >= self.plan.serve_stale {
            (self.next, self.retry) = (None, None);
            return Ok(());
        }
        self.publish("the clock").await.map(drop)
    }

    //--- Beginning ---

    /// Finds what is known of the inventory: from the task before, or from disk.
    pub(super) async fn begin(&mut self) -> Result<(), Ended> {
        let now = self.slot.clock.lock().now();
        let is_known = tokio::task::block_in_place(|| match &mut *self.slot.book() {
            Some(book) => {
                book.reconfigure(&self.plan, now);
                self.heard = book.heard();
                self.account.go_on(book.counts());
                true
            }
            None => false,
        });
        if !is_known {
            self.restore(now).await?;
        }
        self.begin_to_ask();
        // Zones that Triton's services feed may be newer than what is kept of them; and what was lost, or was never there,
        // must not take away what is served.
        let is_document = self.plan.feeder.is_document();
        self.may_publish = self.with_book(|book| {
            book.is_complete() || is_document && book.faults() == 0 && book.extent() != Extent::default()
        });
        if !self.may_publish {
            // Who was in service and what is undecided follows from what was known, not from what comes now.
            self.settle(now);
        }
        self.account.note_counts(self.with_book(|book| book.counts()));
        self.publish("what was kept").await.map(drop)
    }

    /// Reads what an earlier run has kept.
    async fn restore(&mut self, now: Moment) -> Result<(), Ended> {
        let kept = loop {
            match self.scribe.load().await {
                Ok(kept) => break kept,
                Err(error) => {
                    // The disk may be back in a moment; meanwhile the zones of the earlier run are served.
                    warn!(zone = self.account.zone(), "what is kept of the inventory is waited for: {error}");
                    self.account.note_state(Some(error));
                    tokio::select! {
                        () = tokio::time::sleep(PAUSE_AFTER_DISK) => {}
                        () = self.shared.facilities.updates.closed() => return Err(Ended),
                    }
                }
            }
        };
        self.account.note_state(None);
        // A clock that was set back has heard nothing later than now.
        let age = kept.heard.map(|heard| heard.elapsed().unwrap_or_default()).unwrap_or_default();
        self.heard = Instant::now().checked_sub(age).unwrap_or_else(Instant::now);
        let mut book = tokio::task::block_in_place(|| {
            let root = self.shared.facilities.publisher.load();
            let zone = |zone: &Name| root.get(zone).and_then(|served| served.zone.clone());
            Book::restore(&self.plan, kept, zone, now)
        });
        book.note_heard(self.heard);
        if book.faults() > 0 {
            warn!(zone = self.account.zone(), entries = book.faults(), "what is kept of the inventory is used in part");
        }
        info!(zone = self.account.zone(), instances = book.counts().vms, "inventory begun");
        *self.slot.book() = Some(book);
        Ok(())
    }

    /// Makes automatic reverse zones that have come into force.
    async fn take_automatic(&mut self) -> Result<(), Ended> {
        self.plan = Arc::new(present_plan(&self.shared));
        self.begin_to_ask();
        self.publish("reverse zones").await.map(drop)
    }

    //--- Serials elsewhere ---

    /// Lets zones without a version here wait for what their secondaries have, and asks these.
    fn begin_to_ask(&mut self) {
        let root = self.shared.facilities.publisher.load();
        let is_unknown = |zone: &Name| root.get(zone).is_none_or(|served| served.zone.is_none());
        let zones = self.plan.apexes().filter(|(zone, apex)| !apex.secondaries.is_empty() && is_unknown(zone));
        let zones: HashSet<Name> = zones.map(|(zone, _)| zone.clone()).collect();
        drop(root);
        self.with_book(|book| book.wait_for(zones));
        self.ask_elsewhere(Duration::ZERO);
    }

    /// Asks the secondaries of the zones that wait, after a pause.
    fn ask_elsewhere(&mut self, pause: Duration) {
        let plan = self.plan.clone();
        let waiting = self.with_book(|book| book.waiting().clone());
        if waiting.is_empty() {
            return;
        }
        self.asking.spawn(async move {
            tokio::time::sleep(pause).await;
            let zones = plan.apexes().filter(|(zone, _)| waiting.contains(*zone));
            elsewhere::ask(zones.map(|(zone, apex)| (zone, &apex.secondaries[..])), |_, _, _| ()).await
        });
    }

    /// Takes in which serials secondaries have. Zones of which one has answered are made, above the newest; others wait
    /// for the next answer, or for an operator who accepts whatever they have.
    async fn take_serials(&mut self, found: HashMap<Name, Found>) -> Result<(), Ended> {
        let mut is_any = false;
        for (zone, found) in found {
            if let Some((serial, address)) = found.newest {
                info!(
                    zone = self.account.zone(),
                    "{address} has serial {serial} of {zone}; what is made here is newer"
                );
            }
            if found.is_answered {
                is_any = true;
                self.with_book(|book| book.note_elsewhere(zone, found.newest.map(|(serial, _)| serial)));
            }
        }
        let mut silent: Vec<String> = self.with_book(|book| book.waiting().iter().map(Name::to_string).collect());
        if !silent.is_empty() {
            silent.sort_unstable();
            let text = format!(
                "no secondary says which serial it has of {}, or none with a valid answer; it is made once one does, or at \"aggregator retransfer --accept {}\"",
                silent.join(" and "),
                self.account.zone()
            );
            self.fail(&Failure::new("serial", text), Some(PAUSE_AFTER_SILENCE));
            self.ask_elsewhere(PAUSE_AFTER_SILENCE);
        }
        if is_any { self.publish("what secondaries have").await.map(drop) } else { Ok(()) }
    }

    /// Looks into the book, which is there once the task has begun.
    fn with_book<T: Default>(&self, look: impl FnOnce(&mut Book) -> T) -> T {
        tokio::task::block_in_place(|| self.slot.book().as_mut().map(look).unwrap_or_default())
    }

    //--- Orders ---

    /// Takes the requests that wait, and asks the feeder for a reading.
    fn take_call(&mut self) {
        let Call { kind, answers, .. } = self.shared.inbox.take();
        self.call.answers.extend(answers);
        self.look_again();
        if kind == Some(WakeKind::Retransfer { accept: true }) {
            self.accept = Some(self.order);
            if self.with_book(Book::wait_for_nothing) {
                self.retry = Some(Instant::now());
            }
        }
    }

    /// Carries out the orders about single instances that wait, publishes what they change, and answers them.
    async fn take_orders(&mut self) -> Result<(), Ended> {
        let (now, shared) = (self.slot.clock.lock().now(), self.shared.clone());
        let settling = self.with_book(|book| shared.own.orders.carry_out(book, now));
        let summary = self.publish("an order").await?;
        settling.answer(summary.is_served);
        Ok(())
    }

    /// Asks the feeder for a reading.
    fn look_again(&mut self) {
        self.order += 1;
        self.intake.orders.send_replace(self.order);
        // A document that is doubted is looked at when it comes.
        self.guard.put_off(&self.limits(), Instant::now());
    }

    /// Answers those who asked before the reading of an event began.
    fn answer(&mut self, order: Order, result: Result<String, String>) {
        if order >= self.order {
            self.call.answer(&result);
        }
        if self.accept.is_some_and(|accept| order >= accept) {
            self.accept = None;
        }
    }

    //--- Events ---

    /// Takes an event and those that wait behind it.
    async fn take(&mut self, first: Told) -> Result<(), Ended> {
        let gathering = Instant::now();
        let mut told = Some(first);
        let mut answers = Vec::new();
        let mut is_changed = false;
        while let Some(Told { event, order, heard }) = told {
            if let Some(result) = self.take_one(event, order, heard, &mut is_changed) {
                answers.push((order, result));
            }
            // Holds would be settled in the wrong order with a second document.
            let may_gather = gathering.elapsed() < LONGEST_GATHERING;
            told = may_gather.then(|| self.intake.told.try_recv().ok()).flatten();
        }
        let is_complete = self.with_book(|book| book.is_complete());
        let summary = if is_complete && is_changed { Some(self.publish("the inventory").await?) } else { None };
        let is_sent = summary.as_ref().is_some_and(|summary| summary.is_sent);
        if !is_sent && is_complete && answers.iter().any(|(_, result)| result.is_ok()) {
            self.confirm().await?;
        }
        for (order, result) in answers {
            let told = result.map(|text| summary.as_ref().map_or(text, |summary| summary.text.clone()));
            self.answer(order, told);
        }
        Ok(())
    }

    /// Takes one event. Returns the answer to whoever asked for the reading.
    fn take_one(
        &mut self,
        event: Event,
        order: Order,
        heard: Instant,
        is_changed: &mut bool,
    ) -> Option<Result<String, String>> {
        let now = self.slot.clock.lock().now();
        match event {
            Event::Whole { inventory, serial } => {
                let served = self.with_book(|book| book.extent());
                let found = Book::extent_of(&inventory);
                if self.accept.is_some_and(|accept| order >= accept) {
                    self.guard.clear();
                } else if !self.guard.judge(served, found, &self.limits(), Instant::now()) {
                    return Some(Err(self.hold()));
                }
                self.account.note_held(None);
                self.note_heard(heard);
                self.touched = None;
                self.note_serial(serial);
                self.with_book(|book| book.replace(*inventory, now));
                (self.may_publish, self.survey) = (true, Instant::now());
                self.account.note_good(true);
                *is_changed = true;
                Some(Ok("read".to_owned()))
            }
            Event::Changes(changes) => {
                self.with_book(|book| book.apply(changes, now));
                *is_changed = true;
                None
            }
            Event::Listed => {
                self.note_heard(heard);
                self.touched = None;
                self.with_book(Book::complete);
                (self.may_publish, self.survey) = (true, Instant::now());
                self.account.note_good(true);
                *is_changed = true;
                Some(Ok("listed".to_owned()))
            }
            // A document that waits for confirmation is not what is served.
            Event::Current if self.guard.held().is_some() => None,
            Event::Current => {
                self.note_heard(heard);
                self.account.note_good(false);
                Some(Ok("has nothing new".to_owned()))
            }
            Event::Failed { failure, again } => {
                self.fail(&failure, again);
                Some(Err(failure.text))
            }
            Event::Following(is_following) => {
                self.account.note_following(is_following);
                None
            }
            Event::Partial { elements, failure } => {
                self.account.note_unreadable(elements as u64, failure.as_ref());
                None
            }
        }
    }

    /// Notes the time of a good reading; another task after a reload goes on with it.
    fn note_heard(&mut self, heard: Instant) {
        self.heard = heard;
        self.with_book(|book| book.note_heard(heard));
    }

    /// Takes the serial of a document.
    fn note_serial(&mut self, serial: Option<u32>) {
        self.serial = serial.map(Serial);
        let root = self.shared.facilities.publisher.load();
        let served =
            root.get(self.plan.main_zone()).and_then(|served| served.zone.as_ref().map(|zone| zone.soa.serial));
        if let (Some(own), Some(last)) = (self.serial, served)
            && own != last
            && !own.newer_than(last)
        {
            warn!(
                zone = self.account.zone(),
                "the document's serial {own} is not newer than {last} and does not count"
            );
        }
    }

    /// Leaves a document that looks wrong for later. Returns the reason.
    fn hold(&mut self) -> String {
        self.account.note_held(self.guard.held());
        let text = self.shared.status().held.map(|held| held.describe()).unwrap_or_default();
        warn!(zone = self.account.zone(), "{text}; \"aggregator retransfer --accept\" adopts it at once");
        text
    }

    /// Notes a reading that failed.
    fn fail(&mut self, failure: &Failure, again: Option<Duration>) {
        let failures = self.account.note_failure(failure, again);
        // The log tells it once, and again now and then.
        if failures.is_power_of_two() {
            let reason = failure.label;
            warn!(zone = self.account.zone(), failures, reason, "the inventory cannot be read: {failure}");
        }
    }

    //--- Publishing ---

    /// Tells the keeper that the zones are what the inventory says.
    async fn confirm(&mut self) -> Result<(), Ended> {
        if self.retry.is_some() {
            return Ok(());
        }
        if self.touched.is_none_or(|touched| touched.elapsed() >= TOUCH) {
            self.touched = Some(Instant::now());
            self.scribe.touch().await;
        }
        let waiting = self.with_book(|book| book.waiting().clone());
        let zones = self.plan.zones().filter(|zone| !waiting.contains(*zone));
        let news = zones.map(|zone| (zone.clone(), News::Current)).collect();
        self.shared.facilities.send(news, self.heard).await.map(drop).ok_or(Ended)
    }

    /// Settles what has changed, keeps it, and sends the keeper new versions.
    async fn publish(&mut self, cause: &str) -> Result<Summary, Ended> {
        let nothing = |text: String, is_served: bool| Ok(Summary { text, is_sent: false, is_served });
        self.retry = None;
        // Zones have expired where nothing was heard for long, and no order brings them back.
        let is_stale = self.heard.elapsed() >= self.plan.serve_stale;
        if self.may_publish && !is_stale {
            let now = self.slot.clock.lock().now();
            self.next = self.settle(now);
            self.survey();
        }
        let error = self.scribe.keep().await;
        self.account.note_state(error);
        if !self.may_publish || is_stale {
            return nothing("waits for a complete reading".to_owned(), false);
        }
        let now = self.slot.clock.lock().now();
        let root = self.shared.facilities.publisher.load();
        let base = |zone: &Name| root.get(zone).and_then(|served| served.zone.clone());
        let (plan, serial) = (&self.plan, self.serial);
        let made = tokio::task::block_in_place(|| {
            let mut book = self.slot.book();
            book.as_mut().map_or(Ok(Vec::new()), |book| book.versions(plan, base, serial, now))
        });
        self.account.note_counts(self.with_book(|book| book.counts()));
        let changed = match made {
            Ok(changed) => changed,
            Err(error) => {
                let failure = Failure::new("zone", format!("the inventory makes no zone: {error}"));
                self.fail(&failure, None);
                self.retry = Some(Instant::now() + PAUSE_AFTER_REFUSAL);
                return nothing(failure.text, false);
            }
        };
        let main = base(self.plan.main_zone());
        drop(root);
        if changed.is_empty() {
            return nothing(format!("serial {}, current", serial_text(main.as_deref())), true);
        }
        self.send(changed, main, cause).await
    }

    /// Settles what has changed. Returns the moment of the next time.
    fn settle(&self, now: Moment) -> Option<Moment> {
        let (next, is_new) = self.with_book(|book| book.settle(now));
        if is_new {
            self.slot.tell_automatic();
        }
        next
    }

    /// Counts what is known by more than what has changed: now and then only.
    fn survey(&mut self) {
        let now = Instant::now();
        if now < self.survey {
            return;
        }
        self.survey = now + BETWEEN_SURVEYS;
        self.account.note_unresolved(self.with_book(Book::unresolved));
        if self.plan.accounting {
            self.account.note_names(&self.with_book(|book| book.names_by_account(MOST_ACCOUNTS)));
        }
    }

    /// Sends the keeper new versions and waits until they are published.
    async fn send(&mut self, changed: Vec<NewVersion>, main: Option<Arc<Zone>>, cause: &str) -> Result<Summary, Ended> {
        let mut claims = Vec::new();
        for NewVersion { zone, loaded, base } in &changed {
            let before = base.as_ref().map_or(0, |base| base.octets());
            let claim = self.shared.facilities.budget.begin(zone, Manner::Change);
            if let Err(excess) = claim.grow(loaded.zone.octets().saturating_sub(before)).await {
                self.account.note_memory(Some(&excess));
                warn!(zone = self.account.zone(), "a new version of {zone} is not taken: {excess}");
                self.with_book(Book::forget_versions);
                self.retry = Some(Instant::now() + PAUSE_AFTER_REFUSAL);
                return Ok(Summary { text: format!("not taken: {excess}"), is_sent: false, is_served: false });
            }
            claims.push((claim, base.clone()));
        }
        self.account.note_memory(None);
        let mut others = self.with_book(|book| book.waiting().clone());
        others.extend(changed.iter().map(|version| version.zone.clone()));
        let unchanged = self.plan.zones().filter(|zone| !others.contains(*zone));
        let mut news: Vec<_> = unchanged.map(|zone| (zone.clone(), News::Current)).collect();
        let from = serial_text(main.as_deref());
        let (mut text, mut names) = (format!("serial {from}, current"), 0);
        for NewVersion { zone, loaded, base } in changed {
            if zone == *self.plan.main_zone() {
                let (serial, records) = (loaded.zone.soa.serial, loaded.zone.records);
                text = format!("serial {from} -> {serial}, {records} records");
            }
            names += loaded.touched.len();
            news.push((zone, News::Load { loaded: Box::new(loaded), base }));
        }
        // All in one update: what leaves together leaves in one publication.
        let published = self.shared.facilities.send(news, self.heard).await.ok_or(Ended)?;
        // A zone that has left the configuration is not published; another task follows with the rest.
        published.await.map_err(|_| Ended)?;
        for (claim, before) in claims {
            claim.note_published(before);
        }
        info!(zone = self.account.zone(), names, cause, "inventory published, {text}");
        Ok(Summary { text, is_sent: true, is_served: true })
    }
}

/// The serial of a zone, in words.
fn serial_text(zone: Option<&Zone>) -> String {
    zone.map_or("none".to_owned(), |zone| zone.soa.serial.to_string())
}
