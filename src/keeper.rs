//! Keeper, the one writer: takes new versions from sources, merges the regions, publishes.
//!
//! The keeper owns every zone version and is the only one to replace the published root. It takes all updates that
//! are waiting as one batch, merges what they touch, and publishes datacenter zones and regions together, so that no
//! client sees a datacenter moved and its region not. Sources learn when what they brought is visible. A change that
//! comes alone is published at once; the next one waits until `hold_down` has passed, with all that come meanwhile.
//!
//! What is published is on disk first, as far as the disk does its part in time (`FLUSH_PATIENCE`): a process that is
//! killed comes back with what clients saw last, and the serials of regions do not fall.
//!
//! Parts: `plan` what to keep, `answers` what answers have of large sets, `sources` the source zones, `steps` what updates made of them, `regions` the regions,
//! `deadlines` when to look at what, `drains` what is taken out of them, `damping` what stays in them for a while, `conflicts` what zones cannot hold,
//! `root` what is published, `fingerprint` what tells one plan from another, `pins` which of them stay as they were, `others` what other servers
//! have of them, `pulse` whether it still works, `catalog` the list of all, `snapshot` what all of it is at one moment, of which `gauges` shows to
//! Prometheus and `status` to operators.
//!
//! What nothing has happened to costs nothing: a confirmation of a zone is noted and no more, a zone or region is looked
//! at when its deadline has come (`deadlines`), and gauges are set when they are read.
//!
//! Cost: a confirmation O(1); a batch O(changed names × members), and O(zones) pointer copies if it is published; a member
//! that comes or goes as a whole O(its names). A replaced root goes with the next batch, or once no query thread reads
//! from it, so that none of them frees a zone; after two seconds it goes in any case.

mod answers;
mod catalog;
mod conflicts;
mod damping;
mod deadlines;
mod drains;
mod fingerprint;
mod gauges;
mod others;
mod own_series;
mod pins;
mod plan;
mod pulse;
mod regions;
mod root;
mod snapshot;
mod sources;
mod status;
mod steps;

pub use conflicts::{RegionConflicts, ZoneConflict};
pub use pins::{PinError, PinOrder};
pub use plan::{Lifetime, Plan, PlanChanges};
pub use pulse::{Pulse, STALLED_AFTER};
pub use snapshot::{RegionSnapshot, Snapshot, Snapshots};
pub use sources::{Contact, SourceZone, SourceZones};
pub use status::{DrainStatus, MemberStatus, PinStatus, RegionStatus, Status, Unfiltered, ZoneStatus};

use crate::acl::Prefix;
use crate::budget::{Budget, Kept};
use crate::clients::Clients;
use crate::cookie::Secrets;
use crate::merge::{AnswersPlan, Drain, DrainTarget, Pin, Region, Selected, Touched};
use crate::metrics::Metrics;
use crate::publish::{Identity, Outgoing, Published, Publisher};
use crate::rate_limit::RateLimit;
use crate::source::{News, Update};
use crate::state::{Facts, NewFacts, RegionState, Store};
use crate::tap::Tap;
use crate::trace;
use crate::zone::{HistoryLimits, Zone, share_of_total};
use catalog::KeptCatalog;
use deadlines::Deadlines;
use drains::Drains;
use fingerprint::NO_PLAN;
use pins::Pins;
use pulse::supervise;
use regions::{Heard, KeptRegion};
use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};
use steps::SourceStep;
use tokio::sync::{mpsc, oneshot, watch};
use wire::name::Name;
use wire::serial::Serial;
use wire::tsig::Keyring;

/// Longest time for which a replaced root is kept: longer than any query or transfer message that may still read it.
const RETIRE_AFTER: Duration = Duration::from_secs(2);
/// Longest time that a zone waits at its first load: clients wait for it, and it comes but once.
const FIRST_HOLD_DOWN: Duration = Duration::from_millis(10);
/// Interval of looks at what has no deadline: drains, selections, memory.
const TICK: Duration = Duration::from_secs(1);
/// Longest wait of a publication for the disk: many times what a healthy disk takes.
const FLUSH_PATIENCE: Duration = Duration::from_millis(250);
/// Longest wait of the process's end for the keeper: longer than the keeper waits for the disk.
const END_PATIENCE: Duration = Duration::from_secs(15);
/// Rises when the program merges the same members to other contents than before.
const MERGE_VERSION: u32 = 3;
/// Number of names below which a difference is always worth having.
const SMALL_CHANGE: usize = 1000;

/// Command of the daemon to the keeper.
pub enum Command {
    /// Changes the zones and regions to keep; answered when the new set is published.
    Plan(Box<Plan>, oneshot::Sender<PlanChanges>),
    /// Takes something out of regions; answered when it is published, with whether it would outlive the process.
    Drain(Box<Drain>, oneshot::Sender<bool>),
    /// Ends drains that an operator has ordered; answered in the same way.
    Undrain(Vec<DrainTarget>, oneshot::Sender<bool>),
    /// Takes a region back to the contents of an earlier version; answered when that is published.
    Pin(Box<PinOrder>, oneshot::Sender<Result<Pin, PinError>>),
    /// Lets a region follow its members again; answered in the same way, with the pin that it had.
    Release(Name, oneshot::Sender<Result<Pin, PinError>>),
    /// Serials that other servers have of regions, and when the last of them was heard.
    Heard(HashMap<Name, Vec<Serial>>, Instant),
    /// Histories have become smaller.
    Weigh,
    /// Asks for an answer once everything is published that came before, waiting updates included.
    Barrier(oneshot::Sender<()>),
}

/// The keeper's own data.
pub struct Keeper {
    publisher: Arc<Publisher>,
    snapshots: Snapshots,
    budget: Arc<Budget>,
    pulse: Arc<Pulse>,
    metrics: Arc<Metrics>,
    /// Store on disk for versions; none if it is switched off.
    store: Option<Arc<Store>>,
    identity: Identity,
    keys: Arc<Keyring>,
    subnet_from: Arc<[Prefix]>,
    clients: Arc<Clients>,
    cookies: Option<Arc<Secrets>>,
    rate_limit: Arc<RateLimit>,
    tap: Option<Arc<Tap>>,
    outgoing: HashMap<Name, Arc<Outgoing>>,
    answers: HashMap<Name, Arc<AnswersPlan>>,
    /// What answers have of the large sets of zones with a law, as they were last published.
    selected: HashMap<Name, Selected>,
    /// True if the plan is another than that for which selections were made.
    is_planned_anew: bool,
    /// Zones that refuse names which they do not hold.
    refusing: HashSet<Name>,
    /// Zones that are damped where they are made.
    made: HashSet<Name>,
    /// Source zones that no client reaches.
    hidden: HashSet<Name>,
    history: HistoryLimits,
    hold_down: Duration,
    sources: SourceZones,
    regions: HashMap<Name, KeptRegion>,
    /// Regions by the zones that they are made of.
    regions_of: HashMap<Name, Vec<Name>>,
    /// Times before which no source zone expires.
    expiries: Deadlines,
    /// Times at which regions are looked at again.
    deadlines: Deadlines,
    /// Regions that each batch concerns.
    restless: HashSet<Name>,
    catalog: Option<KeptCatalog>,
    drains: Drains,
    pins: Pins,
    /// The newest serial of each region that clients have seen, with its drift, also of regions that are gone: one that
    /// comes back must not fall behind what secondaries have.
    seen_serials: HashMap<Name, RegionState>,
    /// Serials and drifts of them that are on disk.
    saved_serials: HashMap<Name, RegionState>,
    retired: VecDeque<(Instant, Arc<Published>)>,
    generation: u64,
    /// Time of the last publication.
    published: Option<Instant>,
    /// Time of the last batch.
    handled: Instant,
}

/// Senders to a running keeper: for sources, and for the daemon.
#[derive(Clone)]
pub struct KeeperHandle {
    pub updates: mpsc::Sender<Update>,
    pub commands: mpsc::Sender<Command>,
    pub snapshots: Snapshots,
    /// Memory that sources may take.
    pub budget: Arc<Budget>,
    pub pulse: Arc<Pulse>,
    /// Closed once the keeper has ended.
    ended: watch::Receiver<()>,
}

impl KeeperHandle {
    /// All that the keeper knows; for an order, with everything that it was told before.
    pub async fn look(&self, is_for_order: bool) -> Arc<Snapshot> {
        if is_for_order {
            let (sender, done) = oneshot::channel();
            // A keeper that has gone changes nothing any more.
            _ = self.commands.send(Command::Barrier(sender)).await;
            _ = done.await;
        }
        self.snapshots.load_full()
    }

    /// Lets the keeper go and waits until it has ended, and with it what it has to write; not for long, should others
    /// still have a handle.
    pub async fn end(self) {
        let KeeperHandle { updates, commands, mut ended, .. } = self;
        drop((updates, commands));
        let gone = async { while ended.changed().await.is_ok() {} };
        _ = tokio::time::timeout(END_PATIENCE, gone).await;
    }
}

/// Starts the keeper; it ends when the daemon lets its handle go.
pub fn start(publisher: Arc<Publisher>, metrics: Arc<Metrics>, store: Option<Arc<Store>>) -> KeeperHandle {
    // Sources wait until an update is published, so the queue never holds more than one of each.
    let (updates, waiting_updates) = mpsc::channel(1024);
    let (commands, waiting_commands) = mpsc::channel(64);
    let keeper = Keeper::new(publisher, metrics, store);
    let (snapshots, budget, pulse) = (keeper.snapshots.clone(), keeper.budget.clone(), keeper.pulse.clone());
    let keeper = keeper.run(waiting_updates, waiting_commands);
    let (running, ended) = watch::channel(());
    tokio::spawn(supervise(keeper, running, || std::process::abort()));
    KeeperHandle { updates, commands, snapshots, budget, pulse, ended }
}

/// Returns true if a difference that touches so many names is smaller than the zone, and so worth keeping.
fn has_room(touched: usize, zone: &Zone) -> bool {
    touched <= SMALL_CHANGE || touched <= zone.names() / 2
}

/// The wall clock's time of a moment.
fn wall_time(moment: Instant) -> SystemTime {
    let (now, wall) = (Instant::now(), SystemTime::now());
    if moment > now { wall + (moment - now) } else { wall - (now - moment) }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        // Others may still read from it, for as long as the disk takes.
        if let Some(store) = &self.store {
            store.close();
        }
    }
}

impl Keeper {
    /// A keeper of nothing yet.
    fn new(publisher: Arc<Publisher>, metrics: Arc<Metrics>, store: Option<Arc<Store>>) -> Keeper {
        let Facts { states: saved, drains, pins, .. } =
            store.as_ref().map(|store| store.facts.clone()).unwrap_or_default();
        let budget: Arc<Budget> = Arc::default();
        if let Some(store) = &store {
            budget.set_buffers(store.buffers());
        }
        let (snapshots, pulse) = (Snapshots::default(), Pulse::new());
        gauges::show_when_read(&metrics, &snapshots, &budget);
        pulse.show_when_read(&metrics);
        Keeper {
            publisher,
            snapshots,
            budget,
            pulse,
            metrics,
            store,
            identity: Identity::default(),
            keys: Arc::default(),
            subnet_from: [].into(),
            clients: Arc::default(),
            cookies: None,
            rate_limit: Arc::default(),
            tap: None,
            outgoing: HashMap::new(),
            answers: HashMap::new(),
            selected: HashMap::new(),
            is_planned_anew: false,
            refusing: HashSet::new(),
            made: HashSet::new(),
            hidden: HashSet::new(),
            history: HistoryLimits::default(),
            hold_down: Duration::ZERO,
            sources: SourceZones::new(),
            regions: HashMap::new(),
            regions_of: HashMap::new(),
            expiries: Deadlines::default(),
            deadlines: Deadlines::default(),
            restless: HashSet::new(),
            catalog: None,
            drains: Drains::new(drains),
            pins: Pins::new(pins),
            seen_serials: saved.clone(),
            saved_serials: saved,
            retired: VecDeque::new(),
            generation: 0,
            published: None,
            handled: Instant::now(),
        }
    }

    /// Handles what comes, in batches, until the daemon lets go.
    async fn run(mut self, mut updates: mpsc::Receiver<Update>, mut commands: mpsc::Receiver<Command>) {
        let mut waiting = Vec::new();
        loop {
            let mut commanded = Vec::new();
            let pause = if waiting.is_empty() { self.pause() } else { self.pause_for(&waiting) };
            tokio::select! {
                Some(update) = updates.recv() => waiting.extend(self.confirm(update)),
                command = commands.recv() => match command {
                    Some(command) => commanded.push(command),
                    None => return,
                },
                () = tokio::time::sleep(pause) => {}
            }
            while let Ok(update) = updates.try_recv() {
                waiting.extend(self.confirm(update));
            }
            while let Ok(command) = commands.try_recv() {
                commanded.push(command);
            }
            let pause = if waiting.is_empty() { self.pause() } else { self.pause_for(&waiting) };
            if commanded.is_empty() && pause > Duration::ZERO {
                continue;
            }
            // Merging a whole zone takes a while; other tasks of this thread move to another meanwhile.
            self.pulse.begin();
            tokio::task::block_in_place(|| self.handle(std::mem::take(&mut waiting), commanded));
            self.pulse.end();
        }
    }

    /// Returns the time until there is something to do, if nothing comes.
    fn pause(&self) -> Duration {
        let next =
            [self.expiries.next(), self.deadlines.next()].into_iter().flatten().fold(self.handled + TICK, Instant::min);
        next.saturating_duration_since(Instant::now())
    }

    /// Returns the time for which these updates wait, so that one publication has all that come close together.
    fn pause_for(&self, waiting: &[Update]) -> Duration {
        let is_first = |(zone, news): &(Name, News)| {
            let source = self.sources.get(zone);
            source.is_some_and(|source| source.zone.is_none()) && matches!(news, News::Load { .. })
        };
        let hold = if waiting.iter().flat_map(|update| &update.news).any(is_first) {
            self.hold_down.min(FIRST_HOLD_DOWN)
        } else {
            self.hold_down
        };
        self.published.map_or(Duration::ZERO, |at| (at + hold).saturating_duration_since(Instant::now()))
    }

    /// Cuts histories to what all may have together, and tells the budget what that is, beside what nobody transfers.
    /// Returns true if any was cut.
    fn share_memory(&mut self) -> bool {
        let pinned = self.regions.values().filter_map(|kept| Some(kept.pinned.as_ref()?.zone.octets())).sum();
        let catalog = self.catalog.as_ref().map_or(0, |kept| kept.zone.octets());
        let selected: u64 = self.selected.values().map(|selected| selected.selections.octets()).sum();
        let answers = selected + self.clients.octets() as u64;
        self.budget.set_kept(Kept { pinned, catalog, answers });
        let room = usize::try_from(self.budget.room_for_histories()).unwrap_or(usize::MAX);
        let sizes = self.history_sizes();
        let mut all: usize = sizes.iter().sum();
        let share = share_of_total(sizes, self.history.total.min(room));
        let before = all;
        if share < self.history.bytes {
            self.limit_histories(HistoryLimits { bytes: share, ..self.history });
            all = self.history_sizes().iter().sum();
        }
        self.budget.set_histories(all as u64);
        all < before
    }

    /// Tells the budget how much there is, and for which zones.
    fn divide_memory(&self, octets: Option<u64>) {
        let mut times: HashMap<&Name, u64> = self.sources.keys().map(|zone| (zone, 1)).collect();
        for member in self.regions.values().flat_map(|kept| &kept.region.plan.members) {
            times.entry(member).and_modify(|times| *times += 1);
        }
        let zones = times.into_iter().map(|(zone, times)| (zone.clone(), times));
        self.budget.configure(octets.unwrap_or(u64::MAX), zones);
        for (name, source) in &self.sources {
            self.budget.publish(name, source.zone.as_ref().map_or(0, |zone| zone.octets()));
        }
    }

    /// Octets of each history.
    fn history_sizes(&self) -> Vec<usize> {
        let sources = self.sources.values().map(|source| source.history.bytes());
        let regions = self.regions.values().map(|kept| kept.history.bytes());
        let catalog = self.catalog.iter().map(|kept| kept.history.bytes());
        sources.chain(regions).chain(catalog).collect()
    }

    /// Handles a batch and publishes once.
    fn handle(&mut self, updates: Vec<Update>, commands: Vec<Command>) {
        let started = Instant::now();
        let (mut touched, mut steps) = (HashMap::new(), Vec::new());
        let mut plans = Vec::new();
        let (mut ordered, mut pinned, mut barriers) = (Vec::new(), Vec::new(), Vec::new());
        self.handled = started;
        let is_planned = commands.iter().any(|command| matches!(command, Command::Plan(..)));
        let is_told = commands.iter().any(|command| !matches!(command, Command::Weigh | Command::Barrier(_)));
        // A scrape in between would bring back the series of what goes.
        let metrics = self.metrics.clone();
        let _unread = is_planned.then(|| metrics.hold());
        for command in commands {
            match command {
                Command::Plan(plan, done) => plans.push((self.take_plan(*plan, &mut touched, &mut steps), done)),
                Command::Drain(drain, done) => {
                    self.drains.order(*drain);
                    ordered.push(done);
                }
                Command::Undrain(targets, done) => {
                    self.drains.release(&targets);
                    ordered.push(done);
                }
                Command::Pin(order, done) => pinned.push((self.pin(*order), done)),
                Command::Heard(heard, at) => self.hear(heard, at),
                Command::Weigh => self.budget.set_histories(self.history_sizes().iter().sum::<usize>() as u64),
                Command::Barrier(done) => barriers.push(done),
                Command::Release(region, done) => pinned.push((self.release(&region), done)),
            }
        }
        let updates = updates.into_iter().filter_map(|update| self.take_update(update, &mut touched, &mut steps));
        let waiting: Vec<_> = updates.collect();
        self.expire(started, &mut touched);
        self.drains.end(SystemTime::now());
        let is_ordered = self.drains.unsaved || self.pins.unsaved;
        let concerned = self.concerned(is_told || is_ordered, &touched, started);
        let mut changed = !touched.is_empty() || is_planned || is_ordered;
        changed |= self.take_steps(&steps, |keeper| keeper.merge(&concerned, &touched, started));
        changed |= self.update_states(&concerned, started);
        self.release_concerned(&concerned, started);
        changed |= self.budget.has_too_much_history();
        changed |= self.has_aged(started);
        let mut is_kept = false;
        if changed {
            let uncounted = self.select(Instant::now());
            let is_cut = self.share_memory();
            is_kept = self.save();
            self.publish(touched.keys().chain(&concerned), is_told || is_cut);
            if trace::is_on() {
                let root = self.publisher.load();
                trace::published(touched.keys(), |zone| Some(root.get(zone)?.zone.as_ref()?.soa.serial));
            }
            if !uncounted.is_empty() {
                // A reading of the root before would bring back what goes. For another plan none happens anyway.
                let _unread = (!is_planned).then(|| metrics.hold());
                uncounted.iter().for_each(|counted| self.hide_steering(counted));
            }
            self.metrics.publish_duration.observe(started.elapsed().as_secs_f64());
        } else if !concerned.is_empty() {
            self.publish_snapshot(self.publisher.load());
        }
        // Who has gone away does not need to know.
        waiting.into_iter().for_each(|done| _ = done.send(()));
        plans.into_iter().for_each(|(changes, done)| _ = done.send(changes));
        ordered.into_iter().for_each(|done| _ = done.send(is_kept));
        pinned.into_iter().for_each(|(result, done)| _ = done.send(result));
        barriers.into_iter().for_each(|done| _ = done.send(()));
        self.retire(Instant::now());
    }

    /// Frees the replaced roots that nobody reads any more, and those that have been kept for long.
    ///
    /// Whoever still reads from a root has a count of its own, and nobody gets at a replaced one any more. A version of a
    /// zone goes with the last root that holds it, so changes of many names do not pile up.
    fn retire(&mut self, now: Instant) {
        self.retired.retain(|(since, root)| Arc::strong_count(root) > 1 && now.duration_since(*since) <= RETIRE_AFTER);
    }

    /// Takes another set of zones and regions.
    fn take_plan(
        &mut self,
        mut plan: Plan,
        touched: &mut HashMap<Name, Touched>,
        steps: &mut Vec<SourceStep>,
    ) -> PlanChanges {
        let now = Instant::now();
        let regions = self.regions.values().map(|kept| (&kept.region.plan, kept.pin().is_some()));
        let zones = plan.zones.iter().map(|(zone, _)| zone);
        let changes = PlanChanges::between((self.sources.keys(), regions), zones, &plan.regions);
        (self.identity, self.keys, self.outgoing) = (plan.identity, plan.keys, plan.outgoing);
        (self.refusing, self.made) = (plan.refusing, plan.made);
        (self.history, self.hold_down) = (plan.history, plan.hold_down);
        (self.answers, self.subnet_from) = (plan.answers, plan.subnet_from);
        (self.hidden, self.is_planned_anew) = (plan.hidden, true);
        (self.cookies, self.rate_limit, self.tap) = (plan.cookies, plan.rate_limit, plan.tap);
        let clients = std::mem::replace(&mut self.clients, plan.clients);
        self.show_clients(&clients);
        self.drains.configure(plan.drains, SystemTime::now());
        let mut old_sources = std::mem::take(&mut self.sources);
        for (name, lifetime) in plan.zones {
            let source = match old_sources.remove(&name) {
                Some(kept) => {
                    // What has needed no contact until now was heard now.
                    kept.contact.set(kept.heard());
                    SourceZone { lifetime, ..kept }
                }
                None => self.restore(plan.restored.remove(&name), lifetime, now),
            };
            self.sources.insert(name, source);
        }
        // Before the regions, so that new ones are made of them at once.
        for update in plan.updates {
            self.take_update(update, touched, steps);
        }
        let mut old_regions = std::mem::take(&mut self.regions);
        let mut anew = Vec::new();
        for region in plan.regions {
            let origin = region.origin.clone();
            let kept = match old_regions.remove(&origin) {
                Some(kept) if kept.region.plan == region => {
                    self.regions.insert(origin, kept);
                    continue;
                }
                Some(mut kept) => {
                    let has_other_addresses = kept.region.plan.addresses != region.addresses;
                    if has_other_addresses || kept.region.plan.members != region.members {
                        // What was held may be none of the members' data any more.
                        kept.damper = None;
                    }
                    if kept.region.plan.members != region.members {
                        kept.waiting_since = now;
                    }
                    kept.region.set_plan(region);
                    kept
                }
                None => {
                    let seen = self.seen_serials.get(&origin).map(|seen| (seen.last, Some(seen.drift)));
                    // What was a zone of one source before must not fall behind what its secondaries have.
                    let before = old_sources.remove(&origin).and_then(|source| Some(source.zone?.soa.serial));
                    let before = before.filter(|before| seen.is_none_or(|(last, _)| before.newer_than(last)));
                    if let Some(last) = before {
                        // A restart must know it, too, before the region is in service.
                        self.seen_serials.insert(origin.clone(), RegionState { drift: 0, last, fingerprint: NO_PLAN });
                    }
                    let mut region = Region::new(region);
                    if let Some((last, drift)) = before.map(|before| (before, None)).or(seen) {
                        region.serial.remembered(last, drift);
                    }
                    let mut new = KeptRegion::new(region, now);
                    new.past = plan.past.remove(&origin).unwrap_or_default();
                    new.heard = plan.heard.remove(&origin).map(|serials| Heard { serials, at: None });
                    self.restore_pin(&mut new, &mut plan.restored);
                    new
                }
            };
            anew.push(kept);
        }
        self.merge_anew(anew.iter_mut().collect(), now);
        self.regions.extend(anew.into_iter().map(|kept| (kept.region.plan.origin.clone(), kept)));
        self.plan_looks();
        self.pins.forget_earlier();
        for pin in old_regions.values().filter_map(KeptRegion::pin) {
            self.pins.end(pin);
        }
        // From now on members may change under their serials without these regions.
        for (name, seen) in &mut self.seen_serials {
            if self.regions.get(name).is_none_or(|kept| kept.fingerprint != seen.fingerprint) {
                seen.fingerprint = NO_PLAN;
            }
        }
        self.limit_histories(self.history);
        self.divide_memory(plan.memory);
        self.catalog = plan.catalog.map(|plan| self.list(plan));
        if let Some(kept) = &self.catalog {
            let state = RegionState { drift: 0, last: kept.zone.soa.serial, fingerprint: 0 };
            self.seen_serials.insert(kept.plan.origin.clone(), state);
        }
        self.metrics.forget(&changes.removed.iter().map(Name::to_string).collect(), |_, _, _| true);
        changes
    }

    /// Sets anew what is looked at when, for another plan.
    fn plan_looks(&mut self) {
        (self.expiries, self.deadlines) = (Deadlines::default(), Deadlines::default());
        self.restless.clear();
        self.regions_of.clear();
        for (name, source) in &self.sources {
            self.expiries.watch(name, source);
        }
        for (name, kept) in &self.regions {
            for member in &kept.region.plan.members {
                self.regions_of.entry(member.clone()).or_default().push(name.clone());
            }
        }
    }

    /// Lets the oldest steps of all histories go that limits do not allow.
    fn limit_histories(&mut self, limits: HistoryLimits) {
        let sources = self.sources.iter_mut().map(|(_, source)| &mut source.history);
        let catalog = self.catalog.iter_mut().map(|kept| &mut kept.history);
        sources.chain(catalog).for_each(|history| history.limit(&limits));
        for kept in self.regions.values_mut() {
            let before = kept.history.len();
            kept.history.limit(&limits);
            // The writer has the same steps in memory, and lets go of what it is told is gone.
            kept.is_cut |= kept.history.len() < before;
        }
    }

    /// Waits until what is to be published is on disk, for as long as that is reasonable.
    ///
    /// The serials of regions follow from those of the zones but for a drift, which is saved with the serial that has
    /// it. Returns whether it is.
    fn save(&mut self) -> bool {
        let (drains, pins) = (self.drains.take_unsaved(), self.take_unsaved_pins());
        let Some(store) = &self.store else { return false };
        let states = (self.saved_serials != self.seen_serials).then(|| self.seen_serials.clone());
        if let Some(states) = &states {
            self.saved_serials = states.clone();
        }
        let facts = NewFacts { states, drains, pins, trees: None };
        if facts != NewFacts::default() {
            store.save(facts);
        }
        for (name, kept) in &mut self.regions {
            let newest = kept.history.iter().next_back();
            let is_saved =
                kept.saved_step.as_ref().zip(newest).is_some_and(|(saved, newest)| Arc::ptr_eq(saved, newest));
            if newest.is_some() && !is_saved || kept.is_cut {
                kept.is_cut = false;
                kept.saved_step = newest.cloned();
                store.save_past(name, kept.history.clone());
            }
        }
        store.flush(FLUSH_PATIENCE)
    }
}

#[cfg(test)]
mod tests;
