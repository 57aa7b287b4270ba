//! The keeper's publications: the next root, and the snapshot that belongs to it.
//!
//! Invariant: what has not changed is served as before, the very same value; another plan or an order has all made anew.
//!
//! Cost: O(changed zones), and O(zones) pointer copies.

use super::Keeper;
use crate::publish::{Published, Served, State, Unknown};
use std::sync::Arc;
use std::time::Instant;
use wire::name::Name;

impl Keeper {
    /// Publishes all zones as they are now. Those that have not changed are served as before, unless all are to be made
    /// anew.
    pub(super) fn publish<'a>(&mut self, changed: impl Iterator<Item = &'a Name>, is_anew: bool) {
        self.generation += 1;
        let (root, now) = (Arc::new(self.root(changed, is_anew)), Instant::now());
        // Whoever sees the root finds the snapshot that belongs to it.
        self.publish_snapshot(root.clone());
        self.retired.push_back((now, self.publisher.publish(root)));
        self.published = Some(now);
        self.metrics.publishes.inc();
    }

    /// Makes the next root.
    fn root<'a>(&self, changed: impl Iterator<Item = &'a Name>, is_anew: bool) -> Published {
        let before = self.publisher.load();
        let outgoing = |origin: &Name| self.outgoing.get(origin).cloned().unwrap_or_default();
        let serve = |origin: &Name| {
            let (state, zone, history) = if let Some(kept) = self.regions.get(origin) {
                (kept.state, kept.served(), &kept.history)
            } else if let Some(source) = self.sources.get(origin) {
                (source.state, source.zone.as_ref(), &source.history)
            } else {
                let kept = self.catalog.as_ref().filter(|kept| kept.plan.origin == *origin)?;
                (State::Ok, Some(&kept.zone), &kept.history)
            };
            let (zone, history) = (zone.cloned(), history.clone());
            let unknown = if self.refusing.contains(origin) { Unknown::Refused } else { Unknown::NxDomain };
            let tally = before.get(origin).map(|served| served.tally.clone()).unwrap_or_default();
            let selections = self.selected.get(origin).map(|selected| selected.selections.clone()).unwrap_or_default();
            let (origin, outgoing) = (origin.clone(), outgoing(origin));
            Some(Arc::new(Served { origin, state, zone, history, outgoing, unknown, selections, tally }))
        };
        let mut root = if is_anew {
            let catalog = self.catalog.iter().map(|kept| &kept.plan.origin);
            let (hidden, sources): (Vec<&Name>, Vec<&Name>) =
                self.sources.keys().partition(|origin| self.hidden.contains(*origin));
            let served = sources.into_iter().chain(self.regions.keys()).chain(catalog).filter_map(serve);
            let mut root = Published::new(self.identity.clone(), served, self.generation);
            root.hide(hidden.into_iter().filter_map(serve));
            root
        } else {
            // What is selected for a zone changes with more than the zone.
            let selected = self.answers.keys().filter_map(serve);
            before.with(changed.filter_map(serve).chain(selected), self.generation)
        };
        (root.keys, root.subnet_from) = (self.keys.clone(), self.subnet_from.clone());
        root.clients = self.clients.clone();
        (root.cookies, root.rate_limit) = (self.cookies.clone(), self.rate_limit.clone());
        root.tap = self.tap.clone();
        root
    }
}
