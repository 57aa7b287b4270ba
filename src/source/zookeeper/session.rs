//! The task of one tree: begins sessions, reads the tree, follows its events, and tells the keeper.
//!
//! A session that breaks is followed by another one at once. Members are asked in turn; when none of them gives a
//! session whose tree can be read, the pause before the next round doubles. A heartbeat finds sessions that are dead
//! without saying so, and is the keeper's proof that what is served is current.
//!
//! Invariants: at most one update is on the way to the keeper, and has all zones of the tree; events that come meanwhile
//! wait, and are one update after it; a whole reading that was interrupted changes nothing.
//!
//! Cost: see `reader`; a heartbeat one request.

mod memory;

use super::account::Account;
use super::error::SessionError;
use super::guard::{self, Doubt, Extent, Guard, Held, Limits};
use super::link::{Link, Signal};
use super::mirror::Mirror;
use super::plan::{Member, TreePlan, Watches};
use super::reader::{Bounds, MOST_TOGETHER, Reading, read_tree};
use super::{Shared, link};
use crate::budget::{Budget, Manner};
use crate::source::requests::Call;
use crate::source::{News, WakeKind};
use crate::state::TreeState;
use crate::zone::Zone;
use memory::granted;
use relay::Fault;
use std::collections::HashSet;
use std::convert::Infallible;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep_until, timeout};
use tracing::{debug, info, warn};
use wire::name::Name;

/// The longest time between two heartbeats.
const HEARTBEAT: Duration = Duration::from_secs(10);
/// The shortest time between two heartbeats, whatever `serve_stale` asks for.
const SHORTEST_HEARTBEAT: Duration = Duration::from_millis(100);
/// The pause after the first round in which no member was good; it doubles with each further one.
const FIRST_PAUSE: Duration = Duration::from_millis(250);
/// The longest of these pauses.
const LONGEST_PAUSE: Duration = Duration::from_secs(15);
/// Time for which events are gathered while more of them wait.
const LONGEST_GATHERING: Duration = Duration::from_secs(1);
/// Pause before a tree that is held back is read again when there was an event.
const PAUSE_WHILE_HELD: Duration = Duration::from_secs(1);
/// The same as a multiple of the time that the reading takes: it may be held for days, while all of its nodes come
/// back.
const READINGS_TO_PAUSE: u32 = 20;
/// The longest of these pauses.
const LONGEST_PAUSE_WHILE_HELD: Duration = Duration::from_secs(60);
/// The least time a server has to answer.
const LEAST_PATIENCE: Duration = Duration::from_secs(2);

/// Octets of the largest node that a server of default settings takes (`jute.maxbuffer`), with what a reply has beside
/// it.
const LARGEST_NODE: u32 = 1 << 20;

/// The task and what it remembers.
pub(super) struct Task {
    plan: Arc<TreePlan>,
    account: Account,
    shared: Arc<Shared>,
    budget: Arc<Budget>,
    guard: Guard,
    /// True if each node gets watches of its own.
    each: bool,
    /// True if each node is read alone, because a reply was too long.
    alone: bool,
    /// Counts members that were asked, in turn.
    turn: usize,
    /// True if the session has come so far that its tree was read.
    followed: bool,
    /// Rounds in a row without a tree.
    failures: u32,
    /// Sessions in a row that ended because more was sent than is taken.
    excesses: u32,
    /// Requests that wait for what comes of the next reading.
    call: Call,
    /// Time at which a tree that is held back is read again for an event.
    early: Option<Instant>,
    /// Time that the last whole reading took.
    reading_took: Duration,
    /// True if the last heartbeat found what no event has told.
    doubtful: bool,
    /// Time at which memory had no room for what events told.
    refused: Option<Instant>,
}

/// Reason to leave a session.
enum Leave {
    Lost(SessionError),
    /// Another session is wanted.
    Again,
    /// The keeper has gone, or the zone from it, and the task with them.
    Ended,
}

impl From<SessionError> for Leave {
    fn from(error: SessionError) -> Leave {
        Leave::Lost(error)
    }
}

/// Paths that events have touched, and how.
type Touched = HashSet<(String, link::Touch)>;

/// Account of what an update has changed.
struct Summary {
    text: String,
    names: usize,
}

impl Task {
    /// A task that has not begun.
    pub(super) fn new(shared: Arc<Shared>) -> Task {
        let (plan, budget) = (shared.plan.clone(), shared.facilities.budget.clone());
        *shared.own.mirror() = Mirror::new(&plan);
        budget.set_beside(plan.zone(), 0);
        let held_since = shared.own.roots.get(plan.zone()).and_then(|tree| tree.held_since);
        // A clock that was set back has held nothing.
        let earlier = held_since.map(|since| since.elapsed().unwrap_or_default()).unwrap_or_default();
        Task {
            account: Account::new(shared.clone()),
            each: plan.watches == Watches::Each,
            alone: false,
            // Replicas must not all go to the first member.
            turn: RandomState::new().hash_one(0) as usize % plan.members.len().max(1),
            plan,
            shared,
            budget,
            guard: Guard::resume(earlier),
            followed: false,
            failures: 0,
            excesses: 0,
            call: Call::default(),
            early: None,
            reading_took: Duration::ZERO,
            doubtful: false,
            refused: None,
        }
    }

    /// Follows the tree, in one session after another, until the keeper goes.
    pub(super) async fn run(mut self) {
        while let Some((mut link, member)) = self.connect().await {
            let watches = if self.each { Watches::Each } else { Watches::Recursive };
            self.account.note_session(&member, watches.label());
            info!(zone = self.account.zone(), server = %member, watches = watches.label(), "session with ZooKeeper begun");
            self.followed = false;
            // There is no end but a reason to leave.
            let Err(leave) = self.follow(&mut link).await;
            match leave {
                Leave::Ended => break,
                Leave::Again => {}
                Leave::Lost(error) => {
                    let error = link.explain(error);
                    warn!(zone = self.account.zone(), server = %member, reason = error.label(), "session with ZooKeeper lost: {error}");
                    self.account.note_loss(&error);
                    if !self.followed {
                        // What was read of the whole tree tells more than events.
                        self.refused = None;
                    }
                    // A session that never came so far as to be followed must not be begun as fast as it fails, nor one
                    // that came to an end of the same kind as the one before it.
                    self.alone |= matches!(error, SessionError::Relay(Fault::TooLong { .. }));
                    self.excesses = if error.is_excess() { self.excesses.saturating_add(1) } else { 0 };
                    if !self.followed || self.excesses > 0 {
                        self.failures = self.failures.max(self.excesses.saturating_sub(1));
                        self.fail(format!("{member}: {error}"));
                    }
                }
            }
        }
    }

    //--- Beginning a session ---

    /// Asks the members in turn until one gives a session. None when the keeper has gone.
    async fn connect(&mut self) -> Option<(Link, Member)> {
        loop {
            if self.failures > 0 && !self.pause().await {
                return None;
            }
            self.take_call();
            let mut problems = Vec::new();
            for _ in 0..self.plan.members.len() {
                if self.shared.facilities.updates.is_closed() {
                    return None;
                }
                let member = self.plan.members[self.turn % self.plan.members.len()].clone();
                self.turn = self.turn.wrapping_add(1);
                match Link::connect(&self.plan, &member, self.each, self.together()).await {
                    Ok(link) => return Some((link, member)),
                    Err(error) => problems.push(format!("{member}: {error}")),
                }
            }
            self.fail(problems.join("; "));
        }
    }

    /// Returns how many nodes one request may read: as many as a reply may have whatever their payloads are, which
    /// ZooKeeper bounds by itself. Where that is raised and a reply was too long, each is read alone.
    fn together(&self) -> usize {
        if self.each || self.alone {
            return 1;
        }
        (self.plan.max_reply / LARGEST_NODE).clamp(1, MOST_TOGETHER as u32) as usize
    }

    /// Notes a round that came to nothing.
    fn fail(&mut self, problem: String) {
        self.failures = self.failures.saturating_add(1);
        let delay = pause_after(self.failures);
        self.account.note_failures(self.failures, problem.clone(), delay);
        // The log tells it once, and again now and then.
        if self.failures.is_power_of_two() {
            warn!(zone = self.account.zone(), failures = self.failures, "no tree from ZooKeeper: {problem}");
        }
        self.call.answer(&Err(problem));
    }

    /// Waits before the next round, or for a request. False when the keeper has gone.
    async fn pause(&self) -> bool {
        let until = Instant::now() + pause_after(self.failures);
        loop {
            if self.shared.inbox.kind().is_some_and(|kind| kind != WakeKind::Announced) {
                return true;
            }
            tokio::select! {
                () = sleep_until(until) => return true,
                () = self.shared.inbox.rung() => {}
                () = self.shared.facilities.updates.closed() => return false,
            }
        }
    }

    /// Takes the requests that wait; whether there are any.
    fn take_call(&mut self) -> bool {
        let Call { kind, answers, .. } = self.shared.inbox.take();
        self.call.answers.extend(answers);
        self.call.kind = kind.or(self.call.kind);
        kind.is_some()
    }

    //--- A session ---

    /// Reads the tree and follows it until the session is left.
    async fn follow(&mut self, link: &mut Link) -> Result<Infallible, Leave> {
        self.doubtful = false;
        if !self.each {
            match within(self.patience(), link.watch_tree()).await {
                Err(SessionError::NoRecursiveWatches) if self.plan.watches == Watches::Auto => {
                    info!(zone = self.account.zone(), "the ensemble has no recursive watches; each node gets its own");
                    self.each = true;
                    // Old servers end the session with such a request.
                    return Err(Leave::Again);
                }
                watched => watched?,
            }
        }
        self.load(link).await?;
        let pause = HEARTBEAT.min(self.plan.session_timeout / 3).min(self.plan.serve_stale / 3).max(SHORTEST_HEARTBEAT);
        let mut beat = Instant::now() + pause;
        loop {
            let due = [self.guard.due(&self.limits()), self.early].into_iter().flatten().min();
            tokio::select! {
                signal = link.next_signal() => {
                    let heard = self.hear(link, signal).await;
                    if matches!(heard, Err(Leave::Lost(SessionError::Memory(_)))) {
                        self.refused = Some(Instant::now());
                    }
                    heard?;
                },
                () = self.shared.inbox.rung() => if self.take_call() {
                    self.read_again(link).await?;
                },
                () = sleep_until(due.unwrap_or(beat)), if due.is_some() => self.read_again(link).await?,
                () = sleep_until(beat) => {
                    self.beat(link).await?;
                    beat = Instant::now() + pause;
                }
                () = self.shared.facilities.updates.closed() => return Err(Leave::Ended),
            }
        }
    }

    /// Returns how long a server may be silent.
    fn patience(&self) -> Duration {
        self.plan.session_timeout.max(LEAST_PATIENCE)
    }

    /// Returns how long a reading waits, and how much it takes.
    fn bounds(&self) -> Bounds {
        Bounds { patience: self.patience(), bytes: self.plan.max_bytes }
    }

    /// Returns when doubts about a tree count.
    fn limits(&self) -> Limits {
        let TreePlan { shrink_share, confirm_after, regress_after, serve_stale, .. } = *self.plan;
        Limits { shrink_share, confirm_after, regress_after, longest: serve_stale / 2 }
    }

    /// Reads the whole tree once more; where each node has its own watches, in another session, so that there is one of
    /// each.
    async fn read_again(&mut self, link: &mut Link) -> Result<(), Leave> {
        if link.courier.each { Err(Leave::Again) } else { self.load(link).await }
    }

    /// Reads the whole tree, and takes it unless it looks wrong.
    async fn load(&mut self, link: &mut Link) -> Result<(), Leave> {
        let started = Instant::now();
        self.early = None;
        self.take_call();
        let claim = self.budget.begin(self.plan.zone(), Manner::Replace);
        claim.take_turn().await.map_err(SessionError::from)?;
        within(self.patience(), link.sync()).await?;
        let heard = Instant::now();
        let reading = granted(&claim, read_tree(link, self.bounds(), &claim)).await?;
        self.account.note_read();
        self.account.note_contact();
        if reading.closed.iter().any(String::is_empty) {
            return Err(SessionError::Forbidden(self.plan.path.clone()).into());
        }
        self.reading_took = started.elapsed();
        let found = Extent {
            nodes: reading.nodes.len() as u64,
            zxid: reading.zxid,
            born: reading.root().map_or(0, |root| root.born),
        };
        let served = self.served();
        if self.call.kind == Some(WakeKind::Retransfer { accept: true }) {
            self.guard.clear();
        } else if !self.guard.judge(served, found, &self.limits(), Instant::now()) {
            let held = *self.guard.held().expect("a tree that is not taken is held");
            self.hold(&held);
            return Ok(());
        }
        self.account.note_held(None);
        let octets = self.shared.own.mirror().octets_of(&reading);
        claim.grow_beside(self.octets(), octets).await.map_err(SessionError::from)?;
        self.take(reading);
        // The reading is gone; what came of it counts by itself.
        drop(claim);
        // Whoever sees the tree in an answer finds its session live.
        self.account.note_live();
        let summary = self.publish_changes(link, heard).await?;
        let zone = self.account.zone();
        let ms = started.elapsed().as_millis() as u64;
        info!(zone, nodes = found.nodes, names = summary.names, ms, "tree read, {}", summary.text);
        if self.followed && summary.names > 0 {
            self.account.note_drift(summary.names as u64);
        }
        self.note_tree_read();
        self.call.answer(&Ok(format!("{}, {} nodes", summary.text, found.nodes)));
        Ok(())
    }

    /// Takes a whole tree; one of the past takes the place of all that is known.
    fn take(&self, reading: Reading) {
        self.change_mirror(|mirror| {
            if reading.zxid < mirror.extent().zxid {
                *mirror = Mirror::new(&self.plan);
            }
            mirror.replace(reading);
        });
    }

    /// Changes the mirror, and tells what it holds then.
    fn change_mirror(&self, change: impl FnOnce(&mut Mirror)) {
        tokio::task::block_in_place(|| {
            let mut mirror = self.shared.own.mirror();
            change(&mut mirror);
            self.budget.set_beside(self.plan.zone(), mirror.tree.octets());
            self.account.note_tree(&mirror);
        });
    }

    /// The tree that the zone which is served was made of, as far as that is known.
    fn served(&self) -> Extent {
        let root = self.shared.facilities.publisher.load();
        let Some(zone) = root.get(self.plan.zone()).and_then(|served| served.zone.clone()) else {
            return Extent::default();
        };
        match self.shared.own.roots.get(self.plan.zone()) {
            Some(TreeState { born, zxid, nodes, .. }) => Extent { nodes, zxid, born },
            // A version before this one has not kept it.
            None => Extent { nodes: zone.owners, zxid: 0, born: 0 },
        }
    }

    /// Notes what tree the zone is made of, and since when another one is held back.
    fn note_root(&self, extent: Extent, held_since: Option<SystemTime>) {
        let Extent { nodes, zxid, born } = extent;
        self.shared.own.roots.note(self.plan.zone(), TreeState { born, zxid, nodes, held_since });
    }

    /// Returns true if the domain's node is gone or another one, by what was read after events. That is no node's
    /// removal: it is judged as a tree that was read anew.
    fn is_reset(&self, reading: &Reading) -> bool {
        let known = self.shared.own.mirror().extent();
        let found = match reading.root() {
            Some(root) => Extent { born: root.born, ..known },
            None if reading.gone.iter().any(String::is_empty) => Extent::default(),
            None => known,
        };
        let (served, share) = (self.served(), self.plan.shrink_share);
        found.born != known.born
            && guard::doubt(served, found, share).is_some_and(|doubt| guard::is_reset(doubt, served))
    }

    /// Leaves a tree that looks wrong for later.
    fn hold(&mut self, held: &Held) {
        let (found, served) = (held.found.nodes, held.served.nodes);
        let path = &self.plan.path;
        let what = match held.doubt {
            Doubt::Missing => format!("there is no node {path}"),
            Doubt::Shrunk => format!("{path} has {found} nodes, the served tree has {served}"),
            Doubt::Anew => format!("{path} was made anew and has {found} nodes, the served tree has {served}"),
            Doubt::Older => format!("{path} is older than the served tree"),
        };
        let when = if held.is_reset {
            let (share, TreePlan { regress_after, serve_stale, .. }) = (self.plan.shrink_share, &*self.plan);
            let least = (served as f64 * share).ceil();
            format!(
                "it is adopted when it has had {least} nodes for {regress_after:?}, or after {:?}",
                *serve_stale / 2
            )
        } else {
            format!("it is read again in {:?}", self.plan.confirm_after)
        };
        if held.is_reset {
            let since = self.shared.own.roots.get(self.plan.zone()).and_then(|tree| tree.held_since);
            self.note_root(held.served, Some(since.unwrap_or_else(SystemTime::now)));
        }
        let text = format!("the tree is held back: {what}; {when}; or adopt it now with an accepted retransfer");
        warn!(zone = self.account.zone(), "{text}");
        self.account.note_held(Some(held));
        self.note_tree_read();
        self.call.answer(&Err(text));
    }

    /// Notes that the session is good for reading the tree.
    fn note_tree_read(&mut self) {
        (self.followed, self.failures) = (true, 0);
        self.account.note_live();
        self.note_room(self.refused);
    }

    /// Takes in what events tell, with all that come meanwhile.
    async fn hear(&mut self, link: &mut Link, first: Signal) -> Result<(), Leave> {
        let heard = Instant::now();
        let touched = self.drain(link, Some(first))?;
        if self.guard.held().is_some() {
            self.read_early();
            return Ok(());
        }
        self.read_events(link, &touched).await?;
        let summary = self.publish_changes(link, heard).await?;
        debug!(zone = self.account.zone(), names = summary.names, "tree changed, {}", summary.text);
        self.note_room(None);
        Ok(())
    }

    /// Has a tree that is held back read again soon; a large one less often.
    fn read_early(&mut self) {
        let pause =
            PAUSE_WHILE_HELD.max(self.reading_took.saturating_mul(READINGS_TO_PAUSE)).min(LONGEST_PAUSE_WHILE_HELD);
        self.early.get_or_insert(Instant::now() + pause);
    }

    /// Takes all events that wait.
    fn drain(&self, link: &mut Link, first: Option<Signal>) -> Result<Touched, Leave> {
        let (mut touched, mut events) = (Touched::new(), 0);
        let mut next = first.or_else(|| link.try_signal());
        while let Some(signal) = next {
            match signal {
                Signal::Lost(error) => return Err(error.into()),
                Signal::Touched(path, touch) => {
                    events += 1;
                    touched.insert((path, touch));
                }
            }
            next = link.try_signal();
        }
        self.account.note_events(events);
        Ok(touched)
    }

    /// Publishes what was read, once no older change is on its way; in a storm also now and then before that.
    async fn publish_changes(&mut self, link: &mut Link, heard: Instant) -> Result<Summary, Leave> {
        let mut heard = heard;
        loop {
            let is_quiet = self.gather(link).await?;
            if self.shared.own.mirror().update_zxid(is_quiet) {
                let summary = self.publish(heard).await?;
                if is_quiet {
                    return Ok(summary);
                }
            }
            heard = Instant::now();
        }
    }

    /// Reads what events tell until there are no more, or for as long as is reasonable; which of both it was.
    async fn gather(&mut self, link: &mut Link) -> Result<bool, Leave> {
        let started = Instant::now();
        let mut is_certain = !link.courier.each;
        loop {
            let touched = self.drain(link, None)?;
            if !touched.is_empty() {
                if started.elapsed() >= LONGEST_GATHERING {
                    // They are read all the same, so that none is lost.
                    self.read_events(link, &touched).await?;
                    return Ok(false);
                }
                self.read_events(link, &touched).await?;
                is_certain = !link.courier.each;
            } else if is_certain {
                return Ok(true);
            } else {
                // The events of many watches overtake answers; those that are older than this one are there when it is.
                within(self.patience(), link.look()).await?;
                is_certain = true;
            }
        }
    }

    /// Reads what events have touched.
    async fn read_events(&self, link: &Link, touched: &Touched) -> Result<(), Leave> {
        let (reading, claim) = self.read_with_room(link, touched).await?;
        if self.is_reset(&reading) {
            return Err(Leave::Again);
        }
        self.change_mirror(|mirror| mirror.apply(reading));
        // From here on it counts by itself.
        drop(claim);
        Ok(())
    }

    /// Makes sure that the session lives, and tells the keeper so.
    async fn beat(&mut self, link: &mut Link) -> Result<(), Leave> {
        let heard = Instant::now();
        let stat = within(self.patience(), link.look()).await?;
        self.account.note_contact();
        if let Some(held) = self.guard.held() {
            let is_known = stat.as_ref().map_or(0, |stat| stat.czxid) == held.found.born;
            // Where nothing is served any more, nothing can be lost.
            if !is_known || self.served() == Extent::default() {
                self.read_early();
            }
            return Ok(());
        }
        let (newest, known) = (stat.as_ref().map_or(0, link::newest_zxid), self.shared.own.mirror().extent());
        let differs = newest > known.zxid || stat.is_some() != (known.nodes > 0);
        // An event that came before this answer waits to be read.
        if differs && self.doubtful {
            warn!(zone = self.account.zone(), "ZooKeeper has not told of a change; the tree is read again");
            return self.read_again(link).await;
        }
        self.doubtful = differs;
        self.note_room(self.refused);
        self.send(self.plan.all_zones().map(|zone| (zone.clone(), News::Current)).collect(), heard).await?;
        Ok(())
    }

    //--- Publishing ---

    /// Sends the keeper what has changed, and waits until it is published.
    async fn publish(&self, heard: Instant) -> Result<Summary, Leave> {
        let extent = self.shared.own.mirror().extent();
        let root = self.shared.facilities.publisher.load();
        let base = |zone: &Name| root.get(zone).and_then(|served| served.zone.clone());
        let changed = tokio::task::block_in_place(|| self.shared.own.mirror().tree.zones(base));
        let changed = changed.map_err(|error| SessionError::Other(format!("the tree makes no zone: {error}")))?;
        let claims = self.claim(&changed).await?;
        // Before the zone: when both are on disk, this is not older.
        self.note_root(extent, None);
        let sent: HashSet<Name> = changed.iter().map(|zone| zone.zone.clone()).collect();
        // One that has expired meanwhile is alive again.
        let unchanged = self.plan.all_zones().filter(|zone| !sent.contains(*zone));
        let mut news: Vec<_> = unchanged.map(|zone| (zone.clone(), News::Current)).collect();
        let mut summary = Summary { text: String::new(), names: 0 };
        for zone in changed {
            let (serial, touched) = (zone.loaded.zone.soa.serial, zone.loaded.touched.len());
            if zone.zone == *self.plan.zone() {
                let from = serial_text(zone.base.as_deref());
                summary.text = format!("serial {from} -> {serial}, {} records", zone.loaded.zone.records);
            }
            summary.names += touched;
            news.push((zone.zone, News::Load { loaded: Box::new(zone.loaded), base: zone.base }));
        }
        // All in one update: whoever sees a machine's address finds its PTR record, too.
        let published = self.send(news, heard).await?;
        if !sent.is_empty() {
            // A zone that has left the configuration is not published; another task follows with the rest.
            published.await.map_err(|_| Leave::Ended)?;
        }
        for (claim, before) in claims {
            claim.note_published(before);
        }
        if summary.text.is_empty() {
            let zone = base(self.plan.zone());
            summary.text = format!("serial {}, current", serial_text(zone.as_deref()));
        }
        Ok(summary)
    }

    /// Sends the keeper news of zones. Returns what is ready when they are published.
    async fn send(&self, news: Vec<(Name, News)>, heard: Instant) -> Result<oneshot::Receiver<()>, Leave> {
        self.shared.facilities.send(news, heard).await.ok_or(Leave::Ended)
    }
}

/// The serial of a zone, in words.
fn serial_text(zone: Option<&Zone>) -> String {
    zone.map_or("none".to_owned(), |zone| zone.soa.serial.to_string())
}

/// Returns how long to wait after so many rounds that came to nothing; never the same for two replicas.
fn pause_after(failures: u32) -> Duration {
    let whole = FIRST_PAUSE.saturating_mul(1 << failures.saturating_sub(1).min(10)).min(LONGEST_PAUSE);
    whole.mul_f64(0.5 + (RandomState::new().hash_one(failures) % 512) as f64 / 1024.0)
}

/// Waits for a request, for as long as a server may be silent.
async fn within<T>(
    patience: Duration,
    request: impl Future<Output = Result<T, SessionError>>,
) -> Result<T, SessionError> {
    timeout(patience, request).await.unwrap_or(Err(SessionError::Stalled(patience)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_and_end_growing() {
        for (failures, most) in [(1, FIRST_PAUSE), (2, FIRST_PAUSE * 2), (20, LONGEST_PAUSE), (u32::MAX, LONGEST_PAUSE)]
        {
            let pause = pause_after(failures);
            assert!(pause <= most && pause >= most / 2, "{failures}: {pause:?}");
        }
    }
}
