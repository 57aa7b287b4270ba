//! The one writer: takes what sources found out, makes the regions, publishes.
//!
//! The keeper owns every zone version and is the only one to replace the published root. It takes all updates that
//! are waiting as one batch, merges what they touch, and publishes datacenter zones and regions together, so that no
//! client sees a datacenter moved and its region not. Sources learn when what they brought is visible.
//!
//! States: a zone that never loaded is not ready; one that was not refreshed for its SOA's expire time is expired and
//! keeps its data for the day its primary comes back. A region is not ready until every member was there once, or
//! `partial_after` has passed; then it stays in service whatever its members do, as long as one contributes.
//!
//! Cost: a batch is O(changed names × members) and O(zones) pointer copies; a member that comes or goes as a whole
//! costs O(its names). Replaced roots are kept for two seconds, so that no query thread ever frees a zone.

use crate::merge::{Conflict, Members, OnExpire, Outcome, Place, Region, RegionPlan};
use crate::metrics::{Metrics, unix_seconds};
use crate::name::Name;
use crate::publish::{Identity, Published, Publisher, Served, State};
use crate::serial::Serial;
use crate::source::{Change, Update};
use crate::zone::Zone;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};
use tokio::sync::{mpsc, oneshot};

pub use status::{MemberStatus, RegionStatus, Snapshot, ZoneStatus};

mod status;

/// How long a replaced root is kept: longer than any query or transfer message that may still read it.
const RETIRE_AFTER: Duration = Duration::from_secs(2);
/// How often states and gauges are looked at when nothing happens.
const TICK: Duration = Duration::from_secs(1);
/// With more zones than these, gauges are set once in a tick instead of after each batch, which would cost more than the
/// batch itself.
const FEW_ZONES: usize = 200;
/// Conflicts logged one by one after an update; the rest is a number.
const LOGGED_CONFLICTS: usize = 20;

/// What the daemon tells the keeper.
pub enum Command {
    /// Another set of zones and regions; answered when it is published.
    Plan(Plan, oneshot::Sender<PlanChanges>),
    Status(oneshot::Sender<Snapshot>),
}

/// The zones and regions to keep.
pub struct Plan {
    pub identity: Identity,
    /// Source zones and how long they may live without contact.
    pub zones: Vec<(Name, Lifetime)>,
    pub regions: Vec<RegionPlan>,
}

/// Bounds on the expire time that a zone's SOA asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lifetime {
    pub shortest: Duration,
    pub longest: Duration,
}

/// What a new plan changed.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct PlanChanges {
    pub added: Vec<Name>,
    pub removed: Vec<Name>,
    /// Regions made anew because their plan changed.
    pub rebuilt: Vec<Name>,
}

/// A source zone.
struct SourceZone {
    zone: Option<Arc<Zone>>,
    state: State,
    refreshed: Option<Instant>,
    lifetime: Lifetime,
}

impl SourceZone {
    /// When the zone expires (RFC 1034 section 4.3.5), within the configured bounds.
    fn expires(&self) -> Option<Instant> {
        let expire = Duration::from_secs(self.zone.as_ref()?.soa.expire.into());
        Some(self.refreshed? + expire.min(self.lifetime.longest).max(self.lifetime.shortest))
    }
}

/// A region with its state.
struct KeptRegion {
    region: Region,
    state: State,
    /// Whether clients have had answers from it: then it stays in service, whatever its members do.
    was_served: bool,
    /// Which members contributed to the present version.
    contributing: Vec<bool>,
    /// When waiting for missing members began.
    waiting_since: Instant,
}

/// What has to be merged into the regions that have a zone as member.
enum Touched {
    Names(Vec<Name>),
    Everything,
}

/// The keeper's own data.
pub struct Keeper {
    publisher: Arc<Publisher>,
    metrics: Arc<Metrics>,
    identity: Identity,
    sources: HashMap<Name, SourceZone>,
    regions: HashMap<Name, KeptRegion>,
    /// The newest serial of each region that clients have seen, also of regions that are gone: one that comes back must
    /// not fall behind what secondaries have.
    seen_serials: HashMap<Name, Serial>,
    retired: VecDeque<(Instant, Arc<Published>)>,
    generation: u64,
    /// When the gauges were set.
    shown: Option<Instant>,
}

/// The ways to a running keeper: for sources, and for the daemon.
pub struct Handle {
    pub updates: mpsc::Sender<Update>,
    pub commands: mpsc::Sender<Command>,
}

/// Starts the keeper; it ends when the daemon lets its handle go.
pub fn start(publisher: Arc<Publisher>, metrics: Arc<Metrics>) -> Handle {
    // Sources wait until an update is published, so the queue never holds more than one of each.
    let (updates, waiting_updates) = mpsc::channel(1024);
    let (commands, waiting_commands) = mpsc::channel(64);
    let keeper = Keeper::new(publisher, metrics).run(waiting_updates, waiting_commands);
    tokio::spawn(async move {
        if tokio::spawn(keeper).await.is_err_and(|error| error.is_panic()) {
            // Without its one writer the server would go on with data that never changes or expires, looking healthy.
            tracing::error!("the keeper has panicked; ending, so that the service manager starts anew");
            std::process::abort();
        }
    });
    Handle { updates, commands }
}

impl Keeper {
    /// A keeper of nothing yet.
    fn new(publisher: Arc<Publisher>, metrics: Arc<Metrics>) -> Keeper {
        Keeper {
            publisher,
            metrics,
            identity: Identity::default(),
            sources: HashMap::new(),
            regions: HashMap::new(),
            seen_serials: HashMap::new(),
            retired: VecDeque::new(),
            generation: 0,
            shown: None,
        }
    }

    /// Handles what comes, in batches, until the daemon lets go.
    async fn run(mut self, mut updates: mpsc::Receiver<Update>, mut commands: mpsc::Receiver<Command>) {
        loop {
            let mut batch = (Vec::new(), Vec::new());
            tokio::select! {
                Some(update) = updates.recv() => batch.0.push(update),
                command = commands.recv() => match command {
                    Some(command) => batch.1.push(command),
                    None => return,
                },
                () = tokio::time::sleep(TICK) => {}
            }
            while let Ok(update) = updates.try_recv() {
                batch.0.push(update);
            }
            while let Ok(command) = commands.try_recv() {
                batch.1.push(command);
            }
            // Merging a whole zone takes a while; other tasks of this thread move to another meanwhile.
            tokio::task::block_in_place(|| self.handle(batch.0, batch.1));
        }
    }

    /// Handles a batch and publishes once.
    fn handle(&mut self, updates: Vec<Update>, commands: Vec<Command>) {
        let started = Instant::now();
        let mut touched = HashMap::new();
        let mut plans = Vec::new();
        let mut statuses = Vec::new();
        for command in commands {
            match command {
                Command::Plan(plan, done) => plans.push((self.take_plan(plan), done)),
                Command::Status(reply) => statuses.push(reply),
            }
        }
        let updates = updates.into_iter().filter_map(|update| self.take_update(update, &mut touched));
        let waiting: Vec<_> = updates.collect();
        self.expire(started, &mut touched);
        let mut changed = !touched.is_empty() || !plans.is_empty();
        changed |= self.merge(&touched);
        changed |= self.settle_regions(started);
        if changed {
            self.publish();
            self.metrics.publish_duration.observe(started.elapsed().as_secs_f64());
        }
        // Who has gone away does not need to know.
        waiting.into_iter().for_each(|done| _ = done.send(()));
        plans.into_iter().for_each(|(changes, done)| _ = done.send(changes));
        statuses.into_iter().for_each(|reply| _ = reply.send(self.snapshot(started)));
        if self.sources.len() <= FEW_ZONES || self.shown.is_none_or(|shown| started.duration_since(shown) >= TICK) {
            self.show(started);
            self.shown = Some(started);
        }
        while self.retired.front().is_some_and(|(since, _)| since.elapsed() > RETIRE_AFTER) {
            self.retired.pop_front();
        }
    }

    /// Takes a source's news; returns whom to tell once it is published.
    fn take_update(&mut self, update: Update, touched: &mut HashMap<Name, Touched>) -> Option<oneshot::Sender<()>> {
        // The zone may have left the configuration while its update was on the way.
        let source = self.sources.get_mut(&update.zone)?;
        source.refreshed = Some(update.refreshed);
        match update.change {
            Change::Current if source.state == State::Expired => {
                source.state = State::Ok;
                touched.insert(update.zone, Touched::Everything);
            }
            Change::Current => {}
            Change::Load { loaded, base } => {
                // Only a difference from what the regions hold of the zone tells what to merge: nothing yet, or `base`.
                let known = match (&source.zone, &base) {
                    (Some(ours), Some(base)) => source.state == State::Ok && Arc::ptr_eq(ours, base),
                    (None, None) => true,
                    _ => false,
                };
                source.state = State::Ok;
                source.zone = Some(Arc::new(loaded.zone));
                let names = touched.entry(update.zone).or_insert(Touched::Names(Vec::new()));
                match names {
                    Touched::Names(names) if known => names.extend(loaded.touched),
                    _ => *names = Touched::Everything,
                }
            }
        }
        update.published
    }

    /// Takes another set of zones and regions.
    fn take_plan(&mut self, plan: Plan) -> PlanChanges {
        let now = Instant::now();
        let mut changes = PlanChanges::default();
        self.identity = plan.identity;
        let mut old_sources = std::mem::take(&mut self.sources);
        for (name, lifetime) in plan.zones {
            let kept = old_sources.remove(&name);
            if kept.is_none() {
                changes.added.push(name.clone());
            }
            let new = SourceZone { zone: None, state: State::NotReady, refreshed: None, lifetime };
            let source = kept.map_or(new, |kept| SourceZone { lifetime, ..kept });
            self.sources.insert(name, source);
        }
        let mut old_regions = std::mem::take(&mut self.regions);
        for plan in plan.regions {
            let origin = plan.origin.clone();
            let kept = match old_regions.remove(&origin) {
                Some(kept) if kept.region.plan == plan => kept,
                Some(mut kept) => {
                    if kept.region.plan.members != plan.members {
                        kept.waiting_since = now;
                    }
                    kept.region.set_plan(plan);
                    changes.rebuilt.push(origin.clone());
                    self.merge_region(&mut kept, None);
                    kept
                }
                None => {
                    let mut region = Region::new(plan);
                    region.set_last_serial(self.seen_serials.get(&origin).copied());
                    let mut new = KeptRegion {
                        region,
                        state: State::NotReady,
                        was_served: false,
                        contributing: Vec::new(),
                        waiting_since: now,
                    };
                    changes.added.push(origin.clone());
                    self.merge_region(&mut new, None);
                    new
                }
            };
            self.regions.insert(origin, kept);
        }
        changes.removed = old_sources.into_keys().chain(old_regions.into_keys()).collect();
        changes.removed.sort_by(Name::canonical_cmp);
        changes.removed.iter().for_each(|zone| self.metrics.forget(&zone.to_string()));
        changes
    }

    /// Lets zones expire whose time has come.
    fn expire(&mut self, now: Instant, touched: &mut HashMap<Name, Touched>) {
        for (name, source) in &mut self.sources {
            if source.state == State::Ok && source.expires().is_some_and(|expires| expires <= now) {
                source.state = State::Expired;
                touched.insert(name.clone(), Touched::Everything);
                tracing::error!(zone = %name, "zone has expired; its primaries have not answered for too long");
            }
        }
    }

    /// Merges what was touched into the regions; returns whether any region has a new version.
    fn merge(&mut self, touched: &HashMap<Name, Touched>) -> bool {
        let mut regions = std::mem::take(&mut self.regions);
        let mut changed = false;
        for kept in regions.values_mut() {
            let members = kept.region.plan.members.iter().enumerate();
            let affected: Vec<(usize, &Touched)> =
                members.filter_map(|(index, member)| Some((index, touched.get(member)?))).collect();
            let same_members = kept.contributing == self.contributing(&kept.region.plan);
            if affected.is_empty() && same_members {
                continue;
            }
            let mut names = same_members.then(Vec::new);
            for (index, touched) in affected {
                match (touched, &mut names) {
                    (Touched::Names(touched), Some(names)) => {
                        names.extend(touched.iter().map(|name| (index, name.clone())));
                    }
                    _ => names = None,
                }
            }
            changed |= self.merge_region(kept, names);
        }
        self.regions = regions;
        changed
    }

    /// Makes a region's next version out of the names that changed, or of all.
    fn merge_region(&self, kept: &mut KeptRegion, changed: Option<Vec<(usize, Name)>>) -> bool {
        let started = Instant::now();
        kept.contributing = self.contributing(&kept.region.plan);
        let members = self.members(&kept.region.plan);
        let before = kept.region.zone.clone();
        let (drift, fallback) = (kept.region.drift, kept.region.ns_fallback);
        let without_address = kept.region.servers_without_address.clone();
        let outcome = match changed {
            Some(changed) => kept.region.merge_changed(&members, changed),
            None => kept.region.merge_all(&members),
        };
        match outcome {
            Outcome::Same => false,
            Outcome::Empty => before.is_some(),
            Outcome::New { conflicts } => {
                let region = &kept.region;
                if let Some(zone) = &region.zone {
                    let members = format!("{}/{}", members.iter().flatten().count(), members.len());
                    let from = before.as_ref().map_or("none".into(), |zone| zone.soa.serial.to_string());
                    tracing::info!(
                        region = %zone.origin, serial = %format_args!("{from}->{}", zone.soa.serial), records = zone.records,
                        members, conflicts = region.conflicts.len(), ms = started.elapsed().as_millis() as u64, "region merged"
                    );
                }
                log_conflicts(region, &conflicts);
                let (name, now) = (&region.plan.origin, region.drift);
                if kept.was_served && now != 0 && now != drift {
                    let offset = region.plan.serial_offset.wrapping_add(now);
                    tracing::warn!(region = %name, drift = now, "the sum of the members' serials does not rise; \
                         serial_offset = {offset} on all replicas aligns them again");
                }
                if region.ns_fallback && !fallback {
                    tracing::warn!(region = %name, "the members' NS sets have nothing in common, so this server is \
                         listed alone; set \"ns\" of the aggregation");
                }
                if !region.servers_without_address.is_empty() && region.servers_without_address != without_address {
                    let servers = &region.servers_without_address;
                    tracing::warn!(region = %name, ?servers, "name servers within the region have no address there");
                }
                true
            }
        }
    }

    /// What the members of a region contribute.
    fn members(&self, plan: &RegionPlan) -> Box<Members> {
        let contributing = self.contributing(plan);
        let zone = |member: &Name| self.sources.get(member)?.zone.clone();
        plan.members.iter().zip(contributing).map(|(member, does)| zone(member).filter(|_| does)).collect()
    }

    /// Which members of a region contribute: those with a zone that has neither expired nor been without contact for
    /// longer than the region wants.
    fn contributing(&self, plan: &RegionPlan) -> Vec<bool> {
        let contributes = |source: &SourceZone| {
            let expired = source.state == State::Expired && plan.on_expire == OnExpire::Withdraw;
            let age = source.refreshed.map(|at| at.elapsed());
            let too_old = plan.expire_after.is_some_and(|limit| age.is_none_or(|age| age > limit));
            source.zone.is_some() && !expired && !too_old
        };
        plan.members.iter().map(|member| self.sources.get(member).is_some_and(contributes)).collect()
    }

    /// Sets the states of the regions; returns whether any changed.
    fn settle_regions(&mut self, now: Instant) -> bool {
        let mut changed = false;
        for (name, kept) in &mut self.regions {
            let loaded = |member: &&Name| self.sources.get(*member).is_some_and(|source| source.zone.is_some());
            let missing = kept.region.plan.members.len() - kept.region.plan.members.iter().filter(loaded).count();
            let waited = now.duration_since(kept.waiting_since) >= kept.region.plan.partial_after;
            let state = match &kept.region.zone {
                None if kept.was_served && missing < kept.region.plan.members.len() => State::Expired,
                None => State::NotReady,
                // In service once, a region stays in service: a member added by a reload must not take it away.
                Some(_) if kept.was_served || missing == 0 || waited => State::Ok,
                Some(_) => State::NotReady,
            };
            kept.was_served |= state == State::Ok;
            match &kept.region.zone {
                Some(zone) if state == State::Ok => {
                    self.seen_serials.insert(name.clone(), zone.soa.serial);
                    kept.region.set_seen();
                }
                // Nobody has seen these versions: the order in which members arrive must leave no trace in the serial.
                _ if !kept.was_served => kept.region.set_last_serial(self.seen_serials.get(name).copied()),
                _ => {}
            }
            if state != kept.state {
                if state == State::Ok && missing > 0 {
                    let members = kept.region.plan.members.iter();
                    let without: Vec<_> = members.filter(|member| !loaded(member)).collect();
                    tracing::warn!(region = %name, ?without, "region is served without members that never were transferred");
                } else {
                    tracing::info!(region = %name, state = state.label(), missing, "region changed its state");
                }
                kept.state = state;
                changed = true;
            }
        }
        changed
    }

    /// Publishes all zones as they are now.
    fn publish(&mut self) {
        self.generation += 1;
        let sources = self.sources.iter().map(|(origin, source)| (origin, source.state, &source.zone));
        let regions = self.regions.iter().map(|(origin, kept)| (origin, kept.state, &kept.region.zone));
        let served = sources
            .chain(regions)
            .map(|(origin, state, zone)| Arc::new(Served::new(origin.clone(), state, zone.clone())));
        let root = Published::new(self.identity.clone(), served, self.generation);
        self.retired.push_back((Instant::now(), self.publisher.publish(root)));
        self.metrics.publishes.inc();
    }

    /// Sets the gauges.
    fn show(&self, now: Instant) {
        let unix = |at: Instant| {
            let wall = SystemTime::now();
            unix_seconds(if at > now { wall + (at - now) } else { wall - (now - at) })
        };
        let metrics = &self.metrics;
        for (name, source) in &self.sources {
            let zone = &name.to_string()[..];
            for state in State::ALL {
                metrics.zone_state.with_label_values(&[zone, state.label()]).set((state == source.state).into());
            }
            if let Some(data) = &source.zone {
                metrics.zone_serial.with_label_values(&[zone]).set(data.soa.serial.0.into());
                metrics.zone_records.with_label_values(&[zone]).set(data.records as i64);
            }
            if let (Some(refreshed), Some(expires)) = (source.refreshed, source.expires()) {
                metrics.zone_refreshed.with_label_values(&[zone]).set(unix(refreshed));
                metrics.zone_expires.with_label_values(&[zone]).set(unix(expires));
            }
        }
        for (name, kept) in &self.regions {
            let region = &name.to_string()[..];
            for state in State::ALL {
                metrics.zone_state.with_label_values(&[region, state.label()]).set((state == kept.state).into());
            }
            match &kept.region.zone {
                Some(data) => {
                    metrics.region_serial.with_label_values(&[region]).set(data.soa.serial.0.into());
                    metrics.zone_records.with_label_values(&[region]).set(data.records as i64);
                }
                // Never there, or gone: either way there is nothing to show.
                None => {
                    _ = metrics.region_serial.remove_label_values(&[region]);
                    _ = metrics.zone_records.remove_label_values(&[region]);
                }
            }
            metrics.region_serial_drift.with_label_values(&[region]).set(kept.region.drift.cast_signed().into());
            metrics.region_ns_fallback.with_label_values(&[region]).set(kept.region.ns_fallback.into());
            status::count_conflicts(&kept.region, |kind, count| {
                metrics.region_conflicts.with_label_values(&[region, kind]).set(count);
            });
            let members = self.member_statuses(&kept.region.plan, now);
            for state in MemberStatus::STATES {
                let count = members.iter().filter(|member| member.state == state).count();
                metrics.region_members.with_label_values(&[region, state]).set(count as i64);
            }
        }
    }
}

/// Logs new conflicts, each once, up to a number that does not flood the log.
fn log_conflicts(region: &Region, places: &[(Place, Vec<Conflict>)]) {
    for (place, conflicts) in places.iter().take(LOGGED_CONFLICTS) {
        for conflict in conflicts {
            let member = &region.plan.members[conflict.member];
            tracing::warn!(
                region = %region.plan.origin, name = %place.name, kind = conflict.kind.label(), %member, dropped = conflict.dropped,
                "members conflict"
            );
        }
    }
    if let Some(more) = places.len().checked_sub(LOGGED_CONFLICTS).filter(|more| *more > 0) {
        tracing::warn!(region = %region.plan.origin, more, "further names with conflicts; see the status of the region");
    }
}

#[cfg(test)]
mod tests;
