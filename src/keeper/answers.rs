//! Selections of the zones whose answers have laws, made anew for each version that is published, and for each moment at
//! which members become stale.
//!
//! Cost: O(zones with a law, and their members) for a publication and for a tick, for each whose version or members have
//! changed what [`Selected::new`] costs, and for another plan, or when members become stale, what [`Orders::new`] does.

use super::Keeper;
use super::regions::KeptRegion;
use crate::merge::{AnswersPlan, Giver, Selected};
use crate::select::{Orders, OrdersPlan, SteeredTally};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};
use wire::name::Name;

/// Counters of a region that others replace, or none.
pub(super) struct Uncounted {
    pub region: Name,
    pub before: Arc<SteeredTally>,
    pub now: Option<Arc<SteeredTally>>,
}

impl Keeper {
    /// Makes the selections of the versions that are to be published. Returns the counters that were shown and are so no
    /// more.
    pub(super) fn select(&mut self, now: Instant) -> Vec<Uncounted> {
        let mut uncounted = Vec::new();
        let mut all = HashMap::with_capacity(self.answers.len());
        let mut replaced = std::mem::take(&mut self.selected);
        let tally = |selected: &Selected| selected.steers().then(|| selected.selections.orders.tally.clone());
        for (name, plan) in &self.answers {
            let kept = self.regions.get(name);
            let source = self.sources.get(name).and_then(|source| source.zone.as_ref());
            let Some(zone) = kept.map_or(source, |kept| kept.served()) else { continue };
            let region = kept.map(|kept| &kept.region.plan);
            let givers = kept.map(|kept| self.givers(kept)).unwrap_or_default();
            let before = replaced.remove(name);
            let orders = before.as_ref().map(|before| before.selections.orders.clone());
            let shown = before.as_ref().and_then(tally);
            let mut selected = match before {
                Some(before) if before.is_of(plan, zone, region, &givers, now) => before,
                before => Selected::new(before, plan, zone, region, givers, now),
            };
            // Without steering nobody asks for it.
            if let Some(kept) = kept.filter(|_| selected.selections.may_cut(1)) {
                let stale = self.stale(kept, plan, now);
                let is_same = |orders: &Arc<Orders>| !self.is_planned_anew && orders.stale() == stale;
                selected.selections.orders = match orders {
                    Some(orders) if is_same(&orders) => orders,
                    orders => Arc::new(self.orders(kept, plan, orders.as_deref(), &stale)),
                };
            }
            let counted = tally(&selected);
            if let Some(shown) = shown.filter(|shown| counted.as_ref().is_none_or(|now| !Arc::ptr_eq(shown, now))) {
                uncounted.push(Uncounted { region: name.clone(), before: shown, now: counted });
            }
            all.insert(name.clone(), selected);
        }
        for (name, tally) in replaced.iter().filter_map(|(name, selected)| Some((name, tally(selected)?))) {
            uncounted.push(Uncounted { region: name.clone(), before: tally, now: None });
        }
        (self.selected, self.is_planned_anew) = (all, false);
        uncounted
    }

    /// Returns true if the selections are to be made anew, though nothing has come: members have become stale, or fresh
    /// again, or what they gave lately is to be forgotten.
    pub(super) fn has_aged(&self, now: Instant) -> bool {
        let is_aged = |(name, selected): (&Name, &Selected)| {
            let Some((kept, plan)) = self.regions.get(name).zip(self.answers.get(name)) else { return false };
            selected.is_due(now)
                || plan.steers() && selected.selections.orders.stale() != self.stale(kept, plan, now).as_slice()
        };
        self.selected.iter().any(is_aged)
    }

    /// What the members of a region give.
    fn givers(&self, kept: &KeptRegion) -> Box<[Giver]> {
        let shares = self.shares(&kept.region.plan);
        kept.intakes.iter().zip(shares).map(|(intake, shares)| Giver::of(intake, shares)).collect()
    }

    /// Which member of a region is how near to whose clients.
    fn orders(&self, kept: &KeptRegion, plan: &AnswersPlan, before: Option<&Orders>, stale: &[bool]) -> Orders {
        let (homes, members) = (self.clients.homes(), &kept.region.plan.members);
        Orders::new(&OrdersPlan { homes, members, near: &plan.near, weights: &plan.weights, stale }, before)
    }

    /// Returns, for each member of a region, true if it was not refreshed for longer than clients should be sent to it. What
    /// needs no contact with anybody is always fresh.
    ///
    /// Where nobody was refreshed, it is this server that is cut off. Members are polled at different moments, at least
    /// twice in that time, so one is stale only if another was refreshed half of it later: else they would become stale
    /// one by one, and their clients be sent about until all are.
    fn stale(&self, kept: &KeptRegion, plan: &AnswersPlan, now: Instant) -> Vec<bool> {
        let age = |member: &Name| {
            let source = self.sources.get(member).filter(|source| source.expires().is_some())?;
            Some(now.saturating_duration_since(source.heard()?))
        };
        let ages: Vec<Option<Duration>> = kept.region.plan.members.iter().map(age).collect();
        let least = ages.iter().flatten().min().copied().unwrap_or_default();
        let is_stale = |age: Duration| {
            plan.stale_after.is_some_and(|after| age > after && (least > after || age - least > after / 2))
        };
        ages.into_iter().map(|age| age.is_some_and(is_stale)).collect()
    }
}
