//! The keeper's regions: merged from what their members have, with their states and serials.
//!
//! A region is in one of three states by itself: it waits until every member was there once or `partial_after` has
//! passed; then it stays in service whatever its members do, as long as one contributes; without any it is expired.
//! One that is pinned is in service, whatever was merged behind its pin. What happens to a region is told to its serial
//! ([`RegionSerial`]), which knows from it what clients have seen.
//!
//! A batch looks at the regions that it concerns and at no other: those of members that changed, those whose deadline
//! has come (the pause of a serial, the waiting for members, the end of damping), and those that depend on the age of
//! the last contact with members ([`KeptRegion::is_restless`]). An order or another plan concerns all.
//!
//! Cost: O(changed names × members) for a change, O(names) for a member that comes or goes, O(log regions) for others;
//! for regions that are merged anew at once see [`merge_together`].
//!
//! [`RegionSerial`]: crate::merge::serial::RegionSerial

use super::conflicts::{LOGGED_CONFLICTS, RegionConflicts};
use super::fingerprint::{NO_PLAN, fingerprint};
use super::snapshot::RegionSnapshot;
use super::sources::{SourceZone, SourceZones};
use super::{Keeper, MERGE_VERSION, SMALL_CHANGE};
use crate::log::list;
use crate::merge::{
    Anew, Conflict, Damper, Filtered, Intake, Members, OnExpire, Outcome, Pin, Place, Region, RegionPlan, Scope,
    Touched, TracedMember, merge_together,
};
use crate::publish::State;
use crate::state::RegionState;
use crate::trace;
use crate::zone::{Cause, Delta, History, HistoryLimits, HistoryStep, Zone};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::{Instant, SystemTime};
use wire::name::Name;
use wire::serial::Serial;

/// Octets that a name takes in a difference, more or less: what would be too large is not composed.
const NAME_BYTES: usize = 100;

/// A pinned region's contents, and why they are what they are.
#[derive(Clone, Debug)]
pub(super) struct Pinned {
    pub pin: Pin,
    pub zone: Arc<Zone>,
}

/// A region before its next version is made.
struct Began {
    at: Instant,
    members: Box<Members>,
    before: Option<Arc<Zone>>,
    drift: u32,
    fallback: bool,
    without_address: Vec<Name>,
    alone: Vec<Name>,
}

/// Serials that other servers have of a region.
pub(super) struct Heard {
    pub serials: Vec<Serial>,
    /// Time at which they were heard; none for those that the first version may go on from.
    pub at: Option<Instant>,
}

/// A region with its state.
pub(super) struct KeptRegion {
    pub region: Region,
    pub state: State,
    /// Members as the filters of addresses leave them, in the plan's order.
    filtered: Vec<Filtered>,
    /// Members' data of which the present version is made, in the plan's order.
    pub intakes: Vec<Intake>,
    /// Damper, which keeps withdrawn addresses of services for a while; none where they are removed at once.
    pub damper: Option<Damper>,
    /// Time at which waiting for missing members began.
    pub waiting_since: Instant,
    /// History: the differences from older versions to the one that clients see.
    pub history: History,
    /// Step of the history that was last given to the disk.
    pub saved_step: Option<Arc<Delta>>,
    /// True if steps have left the history since then for want of room.
    pub is_cut: bool,
    /// History up to the version that an earlier run of the program served last, until the region is served.
    pub past: History,
    /// Serials under which other servers have it, until it is certain whether it goes on from them.
    pub heard: Option<Heard>,
    /// The serial of another server from which it went on at the start.
    pub followed: Option<Serial>,
    /// Causes of the next version: what has happened since the present one was made.
    pub causes: Vec<Cause>,
    /// Contents to which the region is pinned, which clients see instead of the merged ones.
    pub pinned: Option<Pinned>,
    /// The conflicts as they are shown; none since the last merge.
    pub conflicts: Option<Arc<RegionConflicts>>,
    /// The region as views have it; none since a batch has concerned it.
    pub shown: Option<Arc<RegionSnapshot>>,
    /// Fingerprint of the plan and the drains, as far as contents depend on them; that of no plan while anything is
    /// held.
    pub fingerprint: u32,
    /// Fingerprint of the plan and the drains, even while anything is held.
    plan_fingerprint: u32,
    /// True if a drain or damping may change the contents while the members' serials stay.
    is_steered: bool,
}

impl KeptRegion {
    /// A region that has no version yet.
    pub fn new(region: Region, now: Instant) -> KeptRegion {
        KeptRegion {
            fingerprint: NO_PLAN,
            plan_fingerprint: NO_PLAN,
            is_steered: false,
            region,
            state: State::NotReady,
            filtered: Vec::new(),
            intakes: Vec::new(),
            damper: None,
            waiting_since: now,
            history: History::default(),
            saved_step: None,
            is_cut: false,
            past: History::default(),
            heard: None,
            followed: None,
            causes: Vec::new(),
            pinned: None,
            conflicts: None,
            shown: None,
        }
    }

    /// Returns true if clients have had answers from it: then it stays in service, whatever its members do.
    pub fn was_served(&self) -> bool {
        self.region.serial.was_served()
    }

    /// Returns true if it has waited for missing members as long as it should.
    fn has_waited(&self, now: Instant) -> bool {
        now.duration_since(self.waiting_since) >= self.region.plan.partial_after
    }

    /// Returns the time from which on it does not wait for members that never were transferred.
    fn partial_at(&self) -> Option<Instant> {
        self.waiting_since.checked_add(self.region.plan.partial_after)
    }

    /// Returns true if the age of the last contact with its members decides on it.
    fn is_restless(&self) -> bool {
        self.region.plan.expire_after.is_some() || self.heard.is_some()
    }

    /// Returns the time at which something happens to it, if nothing comes.
    fn deadline(&self, now: Instant) -> Option<Instant> {
        let waiting = self.partial_at().filter(|_| !(self.was_served() || self.has_waited(now)));
        [self.region.serial.pause_end(), waiting, self.damper.as_ref().and_then(Damper::next)]
            .into_iter()
            .flatten()
            .min()
    }

    /// Notes why there may be another version.
    fn note(&mut self, cause: Cause) {
        if !self.causes.contains(&cause) {
            self.causes.push(cause);
        }
    }

    /// Begins the history with the version that clients see first, or goes on with that of an earlier run of the
    /// program if it ended with that version.
    fn begin_history(&mut self, limits: &HistoryLimits) {
        self.history.clear();
        self.history.begin(SystemTime::now());
        let mut past = std::mem::take(&mut self.past);
        let last = past.iter().next_back().cloned();
        if last.as_ref().zip(self.served()).is_some_and(|(last, zone)| last.to == *zone.soa_rrset()) {
            // Limits count what is in memory, where old differences are packed.
            past.pack(SystemTime::now());
            past.limit(limits);
            (self.history, self.saved_step) = (past, last);
        }
    }

    /// Adds the step from one version that clients see to the next, if there is room for it.
    ///
    /// However large: after a change of most of the region an operator wants the version before it. Secondaries are
    /// sent the shorter of difference and zone.
    pub fn step(
        &mut self,
        before: &Zone,
        zone: &Zone,
        touched: Vec<Name>,
        causes: impl Into<Arc<[Cause]>>,
        limits: &HistoryLimits,
    ) {
        let now = SystemTime::now();
        if touched.len() <= SMALL_CHANGE || touched.len().saturating_mul(NAME_BYTES) <= limits.bytes {
            let delta = Arc::new(Delta::between(before, zone, touched));
            self.history.push(HistoryStep::new(delta, now, causes), limits);
        } else {
            self.history.break_off(before.soa.serial, zone.soa.serial);
            self.history.begin(now);
        }
    }

    /// Returns the region as it is now.
    pub(super) fn snapshot(&mut self, sources: &SourceZones) -> Arc<RegionSnapshot> {
        if let Some(shown) = &self.shown {
            return shown.clone();
        }
        let member = |(index, name): (usize, &Name)| {
            let zone = sources.get(name).and_then(|source| source.zone.clone());
            let intake = self.intakes.get(index);
            let taken = intake.and_then(|intake| intake.zone().cloned());
            TracedMember { zone, taken, drained: intake.map(|intake| intake.scope().clone()).unwrap_or_default() }
        };
        let members = self.region.plan.members.iter().enumerate().map(member).collect();
        let conflicts = self.conflicts.get_or_insert_with(|| Arc::new(RegionConflicts::of(&self.region))).clone();
        let shown = Arc::new(RegionSnapshot {
            plan: self.region.plan.clone(),
            state: self.state,
            served: self.served().cloned(),
            merged: self.region.zone.clone(),
            partial_at: self.partial_at().filter(|_| !self.was_served()),
            drift: self.drift(),
            pin: self.pin().cloned(),
            damper: self.damper.clone(),
            ns_fallback: self.region.ns_fallback,
            followed: self.followed,
            newer_elsewhere: self.newer_elsewhere(),
            servers_without_address: self.region.servers_without_address.clone(),
            alike: self.region.alike.told(&self.region.plan.origin),
            members,
            conflicts,
        });
        self.shown.insert(shown).clone()
    }
}

impl Keeper {
    /// Returns the regions that a batch concerns: all, or those of zones that it touches, and those whose time has come.
    pub(super) fn concerned(&mut self, is_all: bool, touched: &HashMap<Name, Touched>, now: Instant) -> HashSet<Name> {
        if is_all {
            return self.regions.keys().cloned().collect();
        }
        let of_touched = touched.keys().filter_map(|zone| self.regions_of.get(zone)).flatten();
        let concerned: HashSet<Name> = of_touched.chain(&self.restless).cloned().collect();
        concerned.into_iter().chain(self.deadlines.take_due(now)).collect()
    }

    /// Sets when regions that a batch has concerned are to be looked at again, and has them shown anew.
    pub(super) fn release_concerned(&mut self, concerned: &HashSet<Name>, now: Instant) {
        for name in concerned {
            let Some(kept) = self.regions.get_mut(name) else {
                self.deadlines.set(name, None);
                self.restless.remove(name);
                continue;
            };
            kept.shown = None;
            // What is overdue waits for something else.
            self.deadlines.set(name, kept.deadline(now).filter(|at| *at > now));
            if kept.is_restless() {
                self.restless.insert(name.clone());
            } else {
                self.restless.remove(name);
            }
        }
    }

    /// Merges the touched names into the regions that they concern; returns true if any region has a new version.
    pub(super) fn merge(&mut self, concerned: &HashSet<Name>, touched: &HashMap<Name, Touched>, now: Instant) -> bool {
        let mut regions = std::mem::take(&mut self.regions);
        let (mut changed, mut anew, mut merged) = (false, HashSet::new(), Vec::new());
        for name in concerned {
            let Some(kept) = regions.get_mut(name) else { continue };
            if kept.region.serial.passed(now) {
                kept.note(Cause::Serial);
                changed |= self.merge_region(kept, Vec::new());
            }
            let is_touched = kept.region.plan.members.iter().any(|member| touched.contains_key(member));
            // Nothing has come since the start but the end of the waiting: these are the versions on disk.
            let is_first = kept.intakes.is_empty() && !is_touched;
            let is_due = self.is_due(kept, now);
            let names = match (is_due, kept.intakes.is_empty()) {
                (false, _) if is_touched => Some(None),
                (false, _) => None,
                (true, true) => {
                    self.fill(kept, now);
                    Some(None)
                }
                (true, false) => self.take_in(kept, touched, now),
            };
            let Some(names) = names else { continue };
            if !(kept.was_served() || is_first)
                && let Some(seen) = self.seen_serials.get_mut(&kept.region.plan.origin)
            {
                // What was published last is made of other versions than those on disk now, whatever their serials.
                seen.fingerprint = NO_PLAN;
            }
            if !is_due {
                continue;
            }
            let began = Instant::now();
            match names {
                Some(names) => changed |= self.merge_region(kept, names),
                None => _ = anew.insert(name),
            }
            if trace::is_on() {
                merged.push((name.clone(), began));
            }
        }
        if !anew.is_empty() {
            let anew = regions.iter_mut().filter(|(name, _)| anew.contains(name)).map(|(_, kept)| kept);
            changed |= self.merge_wholly(anew.collect());
        }
        for name in concerned {
            changed |= regions.get_mut(name).is_some_and(|kept| self.catch_up(kept));
        }
        if trace::is_on() {
            for (name, began) in merged {
                let Some(kept) = regions.get(&name) else { continue };
                let Some(zone) = &kept.region.zone else { continue };
                let members = kept.region.plan.members.iter().filter(|member| touched.contains_key(*member));
                trace::merged(&name, zone.soa.serial, members, began);
            }
        }
        self.regions = regions;
        changed
    }

    /// Takes in what the members of a region have now. Returns the names of members to look at, or none for all;
    /// nothing where there is nothing to do.
    fn take_in(
        &self,
        kept: &mut KeptRegion,
        touched: &HashMap<Name, Touched>,
        now: Instant,
    ) -> Option<Option<Vec<(usize, Name)>>> {
        let plan = &kept.region.plan;
        let scopes = self.scopes(plan);
        let taken = self.taken(plan, &scopes);
        let zone = |member: &Name| self.sources.get(member).and_then(|source| source.zone.clone());
        let filter = |((member, is_taken), filtered): ((&Name, bool), &mut Filtered)| {
            let zone = zone(member).filter(|_| is_taken);
            filtered.take(plan.addresses.of(member), zone, touched.get(member))
        };
        let raws: Vec<Option<Arc<Zone>>> = plan.members.iter().zip(taken).zip(&mut kept.filtered).map(filter).collect();
        let mut held = self.damp(kept, &raws, &scopes, touched, now);
        kept.is_steered = kept.damper.as_ref().is_some_and(Damper::is_active);
        if kept.intakes.iter().zip(&scopes).any(|(intake, scope)| intake.scope() != scope) {
            kept.plan_fingerprint = fingerprint(MERGE_VERSION, &kept.region.plan, &scopes);
            kept.is_steered = true;
            kept.note(Cause::Drain);
            if scopes.iter().all(|scope| scope.whole) {
                let region = &kept.region.plan.origin;
                tracing::warn!(%region, "all members are drained, by orders and configuration together: the region is \
                     served without any name");
            }
        }
        // Another process holds nothing: what it makes of the same versions is something else.
        let is_holding = kept.damper.as_ref().is_some_and(Damper::is_holding);
        kept.fingerprint = if is_holding { NO_PLAN } else { kept.plan_fingerprint };
        let (mut is_any, mut names) = (false, Some(Vec::new()));
        for (index, (raw, scope)) in raws.into_iter().zip(scopes).enumerate() {
            let held = held.get_mut(index).map(std::mem::take).unwrap_or_default();
            let member = kept.region.plan.members[index].clone();
            let before = &kept.intakes[index];
            let (is_other, moves) =
                (before.raw().map(Arc::as_ptr) != raw.as_ref().map(Arc::as_ptr), *before.held() != held);
            if is_other {
                let serial = raw.as_ref().map(|raw| raw.soa.serial);
                kept.note(Cause::Member { zone: member.clone(), serial });
            } else if moves {
                kept.note(Cause::Damping);
            }
            match kept.intakes[index].take(raw, touched.get(&member), scope, held) {
                None => continue,
                Some(Touched::Everything) => names = None,
                Some(Touched::Names(touched)) => {
                    names.iter_mut().for_each(|names| names.extend(touched.iter().map(|name| (index, name.clone()))));
                }
            }
            is_any = true;
        }
        is_any.then_some(names)
    }

    /// Takes in all that the members of a region have, for a merge of everything.
    fn fill(&self, kept: &mut KeptRegion, now: Instant) {
        kept.intakes = vec![Intake::default(); kept.region.plan.members.len()];
        kept.filtered = vec![Filtered::default(); kept.intakes.len()];
        kept.plan_fingerprint = fingerprint(MERGE_VERSION, &kept.region.plan, &self.scopes(&kept.region.plan));
        self.set_damper(kept);
        self.take_in(kept, &HashMap::new(), now);
        // Everything has come.
        kept.causes = vec![Cause::Configuration];
    }

    /// Returns true if a region is to be merged. While it waits for members nobody needs it, and each that comes would
    /// cost a merge.
    fn is_due(&self, kept: &KeptRegion, now: Instant) -> bool {
        let is_loaded = |member: &Name| self.sources.get(member).is_some_and(|source| source.zone.is_some());
        kept.was_served() || kept.has_waited(now) || kept.region.plan.members.iter().all(is_loaded)
    }

    /// Merges all of these regions, each as soon as that is due.
    pub(super) fn merge_anew(&self, regions: Vec<&mut KeptRegion>, now: Instant) {
        let mut due = Vec::with_capacity(regions.len());
        for kept in regions {
            kept.intakes.clear();
            kept.filtered.clear();
            kept.conflicts = None;
            kept.fingerprint = fingerprint(MERGE_VERSION, &kept.region.plan, &self.scopes(&kept.region.plan));
            if self.is_due(kept, now) {
                self.fill(kept, now);
                due.push(kept);
            }
        }
        self.merge_wholly(due);
    }

    /// Makes the next versions of regions out of all names; returns true if any has one.
    fn merge_wholly(&self, mut regions: Vec<&mut KeptRegion>) -> bool {
        if regions.is_empty() {
            return false;
        }
        let began: Vec<Began> = regions.iter_mut().map(|kept| self.begin(kept)).collect();
        let pairs = regions.iter_mut().zip(&began);
        let anew = pairs.map(|(kept, began)| Anew { region: &mut kept.region, members: &began.members });
        let outcomes = merge_together(&mut anew.collect::<Vec<_>>(), Instant::now());
        let finish = |((kept, began), outcome)| self.finish(kept, began, outcome);
        // Each is to be finished, whatever becomes of those before it.
        regions.into_iter().zip(began).zip(outcomes).map(finish).fold(false, |any, changed| any | changed)
    }

    /// Makes a region's next version out of the names that changed.
    pub(super) fn merge_region(&self, kept: &mut KeptRegion, changed: Vec<(usize, Name)>) -> bool {
        let began = self.begin(kept);
        let outcome = kept.region.merge_changed(&began.members, changed, began.at);
        self.finish(kept, began, outcome)
    }

    /// Begins a region's next version.
    fn begin(&self, kept: &mut KeptRegion) -> Began {
        kept.conflicts = None;
        self.recall(kept);
        let region = &kept.region;
        Began {
            at: Instant::now(),
            members: kept.intakes.iter().map(|intake| intake.zone().cloned()).collect(),
            before: region.zone.clone(),
            drift: region.serial.drift(),
            fallback: region.ns_fallback,
            without_address: region.servers_without_address.clone(),
            alone: region.members_alone.clone(),
        }
    }

    /// Takes what has become of a region; returns true if it has a new version.
    fn finish(&self, kept: &mut KeptRegion, began: Began, outcome: Outcome) -> bool {
        let Began { at: started, members, before, drift, fallback, without_address, alone } = began;
        match outcome {
            Outcome::Same => {
                kept.causes.clear();
                false
            }
            Outcome::Empty => {
                kept.causes.clear();
                if kept.pinned.is_none() {
                    kept.history.clear();
                }
                before.is_some()
            }
            Outcome::New { conflicts, touched } => {
                let causes = std::mem::take(&mut kept.causes);
                if let (Some(before), Some(zone), None) = (&before, kept.region.zone.clone(), &kept.pinned) {
                    kept.step(before, &zone, touched, causes, &self.history);
                }
                let region = &kept.region;
                if let (true, Some(zone)) = (region.serial.is_half_way(), &region.zone) {
                    tracing::warn!(region = %zone.origin, serial = zone.soa.serial.0, "the members' serials moved too far \
                         for one step; the region's serial follows in two");
                }
                if let Some(zone) = &region.zone {
                    let (contributing, members) = (members.iter().flatten().count(), members.len());
                    let from = before.as_ref().map(|zone| zone.soa.serial.0);
                    tracing::info!(
                        region = %zone.origin, from, serial = zone.soa.serial.0, records = zone.records, members,
                        contributing, conflicts = region.conflicts.len(), pinned = kept.pinned.is_some(),
                        ms = started.elapsed().as_millis() as u64, "region merged"
                    );
                }
                log_conflicts(region, &conflicts);
                let (name, now) = (&region.plan.origin, region.serial.drift());
                if kept.was_served() && now != 0 && now != drift && !kept.is_steered && kept.pinned.is_none() {
                    let offset = region.plan.serial_offset.wrapping_add(now);
                    tracing::warn!(region = %name, drift = now, "the sum of the members' serials does not rise; \
                         serial_offset = {offset} on all replicas aligns them again");
                }
                if region.ns_fallback && !fallback {
                    tracing::warn!(region = %name, "the members' NS sets have nothing in common, so this server is \
                         listed alone; set \"ns\" of the aggregation");
                }
                if !region.members_alone.is_empty() && region.members_alone != alone {
                    let alone = list(&region.members_alone);
                    tracing::warn!(region = %name, %alone, "members list nobody but their own primary as name server, \
                         and that does not serve the region; set \"ns\" of the aggregation");
                }
                if !region.servers_without_address.is_empty() && region.servers_without_address != without_address {
                    let servers = list(&region.servers_without_address);
                    tracing::warn!(region = %name, %servers, "name servers within the region have no address there");
                }
                true
            }
        }
    }

    /// Those of which a region takes anything: the members that contribute, the drained ones for their serials and name
    /// servers.
    ///
    /// Not those alone, while one that is not drained has nothing to give: what is left would deny every name to all who
    /// ask, where without any drain the region had expired (`docs/regions.md` 22).
    fn taken(&self, plan: &RegionPlan, scopes: &[Scope]) -> Vec<bool> {
        let mut taken = contributing(&self.sources, plan);
        let undrained: Vec<bool> =
            taken.iter().zip(scopes).filter(|(_, scope)| !scope.whole).map(|(contributes, _)| *contributes).collect();
        if !undrained.is_empty() && undrained.iter().all(|contributes| !contributes) {
            taken.fill(false);
        }
        taken
    }

    /// Sets the states of regions; returns true if any changed.
    pub(super) fn update_states(&mut self, concerned: &HashSet<Name>, now: Instant) -> bool {
        let mut changed = false;
        for name in concerned {
            let Some(kept) = self.regions.get_mut(name) else { continue };
            let loaded = |member: &&Name| self.sources.get(*member).is_some_and(|source| source.zone.is_some());
            let missing = kept.region.plan.members.len() - kept.region.plan.members.iter().filter(loaded).count();
            let waited = kept.has_waited(now);
            let state = match &kept.region.zone {
                _ if kept.pinned.is_some() => State::Ok,
                None if kept.was_served() && missing < kept.region.plan.members.len() => State::Expired,
                None => State::NotReady,
                // In service once, a region stays in service: a member added by a reload must not take it away.
                Some(_) if kept.was_served() || missing == 0 || waited => State::Ok,
                Some(_) => State::NotReady,
            };
            if state == State::Ok && kept.state != State::Ok && (!kept.was_served() || kept.history.is_empty()) {
                // Nobody has the versions before this one, but who has those of an earlier run of the program.
                kept.begin_history(&self.history);
            }
            match (&kept.region.zone, kept.pin()) {
                (_, Some(pin)) => {
                    // Another process makes other contents of the same members until the pin is released.
                    let state = RegionState { drift: 0, last: pin.serial, fingerprint: NO_PLAN };
                    self.seen_serials.insert(name.clone(), state);
                }
                (Some(zone), None) if state == State::Ok => {
                    kept.region.serial.seen();
                    let (drift, fingerprint) = (kept.region.serial.drift(), kept.fingerprint);
                    let state = RegionState { drift, last: zone.soa.serial, fingerprint };
                    self.seen_serials.insert(name.clone(), state);
                }
                _ => {}
            }
            if state != kept.state {
                if state == State::Ok && missing > 0 && kept.pinned.is_none() {
                    let members = kept.region.plan.members.iter();
                    let without = list(members.filter(|member| !loaded(member)));
                    tracing::warn!(region = %name, %without, "region is served without members that never were transferred");
                } else {
                    tracing::info!(region = %name, state = state.label(), missing, "region changed its state");
                }
                kept.state = state;
                changed = true;
            }
        }
        changed
    }
}

/// Returns, for each member of a region, true if it contributes: its zone has neither expired nor been without contact
/// for longer than the region allows.
pub(super) fn contributing(sources: &SourceZones, plan: &RegionPlan) -> Vec<bool> {
    let contributes = |source: &SourceZone| {
        let expired = source.state == State::Expired && plan.on_expire == OnExpire::Withdraw;
        let age = source.heard().map(|at| at.elapsed());
        let too_old = plan.expire_after.is_some_and(|limit| age.is_none_or(|age| age > limit));
        source.zone.is_some() && !expired && !too_old
    };
    plan.members.iter().map(|member| sources.get(member).is_some_and(contributes)).collect()
}

/// Logs new conflicts, each once, up to a number that does not flood the log.
fn log_conflicts(region: &Region, places: &[(Place, Vec<Conflict>)]) {
    for (place, conflicts) in places.iter().take(LOGGED_CONFLICTS) {
        for conflict in conflicts {
            let member = &region.plan.members[conflict.member];
            let winner = conflict.by.map(|by| tracing::field::display(&region.plan.members[by]));
            tracing::warn!(
                region = %region.plan.origin, name = %place.name, kind = conflict.kind.label(), %member, winner,
                dropped = conflict.dropped,
                "members conflict"
            );
        }
    }
    if let Some(more) = places.len().checked_sub(LOGGED_CONFLICTS).filter(|more| *more > 0) {
        tracing::warn!(region = %region.plan.origin, more, "further names with conflicts; see the status of the region");
    }
}
