//! Drains in force: members and names that operators or the configuration take out of regions, or keep a share of the
//! clients from, with their ends.
//!
//! Invariants: no two drains of one origin have the same target, whatever their shares; one whose time has come is not in
//! force, whether the program ran at that time or not. Times are those of the wall clock, because they outlive the
//! process. A share is in no scope: it changes neither contents nor serial, and its beginning and end are published.
//!
//! Cost: O(drains) for each batch of the keeper, and for each member that is judged.

use super::Keeper;
use crate::merge::{Drain, DrainTarget, RegionPlan, Scope, Shares};
use crate::timestamp::format_timestamp;
use std::time::SystemTime;
use wire::name::Name;

/// All drains in force.
#[derive(Debug, Default)]
pub(super) struct Drains {
    pub all: Vec<Drain>,
    /// True if the drains differ from those that were last given to the disk.
    pub unsaved: bool,
    /// Drains of the configuration at the end of the earlier run: they keep the times at which they began.
    earlier: Vec<Drain>,
}

impl Drains {
    /// Goes on with those that an earlier run of the program left.
    pub fn new(restored: Vec<Drain>) -> Drains {
        let (earlier, all) = restored.into_iter().partition(|drain| drain.configured);
        let drains = Drains { all, unsaved: false, earlier };
        drains.all.iter().for_each(|drain| log(drain, "a drain goes on"));
        drains
    }

    /// Takes an operator's order, which replaces one for the same target.
    pub fn order(&mut self, mut drain: Drain) {
        let same = |other: &Drain| !other.configured && other.target == drain.target;
        if let Some(at) = self.all.iter().position(same) {
            drain.since = self.all.remove(at).since;
        }
        log(&drain, "drained");
        self.all.push(drain);
        self.unsaved = true;
    }

    /// Ends what an operator has ordered.
    pub fn release(&mut self, targets: &[DrainTarget]) {
        self.remove(|drain| !drain.configured && targets.contains(&drain.target), "undrained");
    }

    /// Takes the drains of a configuration; one that was there before goes on.
    pub fn configure(&mut self, configured: Vec<Drain>, now: SystemTime) {
        let (before, ordered): (Vec<Drain>, Vec<Drain>) = self.all.drain(..).partition(|drain| drain.configured);
        let known = before.iter().chain(&self.earlier);
        let begun = |target: &DrainTarget| known.clone().find(|drain| drain.target == *target).map(|drain| drain.since);
        let configured: Vec<Drain> = configured
            .into_iter()
            .filter(|drain| !drain.is_over(now))
            .map(|drain| Drain { since: begun(&drain.target).unwrap_or(now), ..drain })
            .collect();
        self.unsaved |= before != configured || !self.earlier.is_empty();
        configured.iter().filter(|drain| !before.contains(drain)).for_each(|drain| log(drain, "drained"));
        let is_gone = |drain: &&Drain| !configured.iter().any(|other| other.target == drain.target);
        before.iter().filter(is_gone).for_each(|drain| log(drain, "undrained"));
        self.all = ordered;
        self.all.extend(configured);
        self.earlier.clear();
    }

    /// Ends drains whose time is over.
    pub fn end(&mut self, now: SystemTime) {
        self.remove(|drain| drain.is_over(now), "a drain has ended by itself");
    }

    /// Removes drains.
    fn remove(&mut self, meant: impl Fn(&Drain) -> bool, event: &str) {
        for drain in self.all.extract_if(.., |drain| meant(drain)) {
            log(&drain, event);
            self.unsaved = true;
        }
    }

    /// All of them, if the disk has others.
    pub fn take_unsaved(&mut self) -> Option<Vec<Drain>> {
        std::mem::take(&mut self.unsaved).then(|| self.all.clone())
    }
}

/// Returns the names of a member that drains take out of a region.
pub(super) fn scope(drains: &[Drain], member: &Name, region: &Name) -> Scope {
    let mut scope = Scope::default();
    let whole = drains.iter().filter(|drain| drain.is_whole() && drain.concerns(member, region));
    whole.for_each(|drain| scope.add(&drain.target));
    scope
}

/// Returns the shares of the clients that drains keep from each member of a region, in the plan's order.
pub(super) fn shares(drains: &[Drain], plan: &RegionPlan) -> Vec<Shares> {
    let of_member = |member: &Name| {
        let mut shares = Shares::default();
        for drain in drains.iter().filter(|drain| drain.concerns(member, &plan.origin)) {
            drain.share.iter().for_each(|percent| shares.add(drain.target.names.clone(), *percent));
        }
        shares
    };
    plan.members.iter().map(of_member).collect()
}

/// Tells what happens to a drain.
fn log(drain: &Drain, event: &str) {
    let Drain { target, share, until, reason, configured, .. } = drain;
    let region = target.region.as_ref().map_or("all".to_owned(), Name::to_string);
    let names = target.names.as_ref().map_or("all".to_owned(), |names| names.to_string());
    let clients = share.map_or("all".to_owned(), |percent| format!("{percent}%"));
    let until = until.map_or("undrained".to_owned(), format_timestamp);
    let by = if *configured { "configuration" } else { "order" };
    let reason = reason.as_deref().unwrap_or("none given");
    tracing::warn!(member = %target.member, region, drained_names = names, clients, until, by, reason, "{event}");
}

impl Keeper {
    /// Returns the drained names of each member of a region, in the plan's order.
    pub(super) fn scopes(&self, plan: &RegionPlan) -> Vec<Scope> {
        plan.members.iter().map(|member| scope(&self.drains.all, member, &plan.origin)).collect()
    }

    /// Returns the shares of the clients that get nothing of each member of a region, in the plan's order.
    pub(super) fn shares(&self, plan: &RegionPlan) -> Vec<Shares> {
        shares(&self.drains.all, plan)
    }
}
