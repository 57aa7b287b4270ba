//! The keeper's source zones: versions and confirmations that sources bring, and the end of those that nobody confirms.
//!
//! A zone that never loaded is not ready; one that was not refreshed for its SOA's expire time is expired and keeps its
//! data for the day its primary comes back.
//!
//! Invariant: a zone that is served has a deadline not later than its expiry. Confirmations leave the deadline where it
//! is; when it has come, it moves to the expiry of that moment.
//!
//! Cost: O(log zones) for an update, beside the conflicts that are logged; O(log zones) for each zone whose deadline has
//! come.

use super::deadlines::Deadlines;
use super::steps::SourceStep;
use super::{Keeper, Lifetime, conflicts, wall_time};
use crate::merge::Touched;
use crate::publish::State;
use crate::source::{News, Update};
use crate::state::Restored;
use crate::zone::{History, Loaded, Zone};
use arc_swap::ArcSwapOption;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};
use tokio::sync::oneshot;
use wire::name::Name;

/// Time at which a primary last confirmed or sent a zone. Clones share it.
#[derive(Clone, Default)]
pub struct Contact(Arc<ArcSwapOption<Instant>>);

impl Contact {
    /// The time, if there was one.
    pub fn get(&self) -> Option<Instant> {
        self.0.load().as_deref().copied()
    }

    /// Notes a time.
    pub fn set(&self, at: Option<Instant>) {
        self.0.store(at.map(Arc::new));
    }
}

/// All source zones; clones share them.
pub type SourceZones = imbl::HashMap<Name, SourceZone>;

/// A source zone.
#[derive(Clone)]
pub struct SourceZone {
    pub zone: Option<Arc<Zone>>,
    pub state: State,
    pub contact: Contact,
    pub lifetime: Lifetime,
    /// History: the differences from older versions to the present one.
    pub history: History,
}

impl SourceZone {
    /// Returns the time of the last contact with the source; the present for a zone that needs none.
    pub fn heard(&self) -> Option<Instant> {
        let needs_none = self.lifetime == Lifetime::UNLIMITED && self.zone.is_some();
        if needs_none { Some(Instant::now()) } else { self.contact.get() }
    }

    /// Returns the time at which the zone expires (RFC 1034 section 4.3.5), within the configured bounds.
    pub fn expires(&self) -> Option<Instant> {
        let expire = Duration::from_secs(self.zone.as_ref()?.soa.expire.into());
        // A lifetime without limits leads to no moment.
        self.heard()?.checked_add(expire.min(self.lifetime.longest).max(self.lifetime.shortest))
    }
}

impl Deadlines {
    /// Sees to it that a zone is looked at when it may have expired.
    pub(super) fn watch(&mut self, zone: &Name, source: &SourceZone) {
        if let (State::Ok, Some(expires)) = (source.state, source.expires()) {
            self.hasten(zone, expires);
        }
    }
}

impl Keeper {
    /// Takes at once the news that zones are as they were, since their source asks again only when it was heard: behind
    /// a publication that waits it would miss changes for that long. Other news come back.
    pub(super) fn confirm(&mut self, update: Update) -> Option<Update> {
        let serves = |zone| self.sources.get(zone).is_none_or(|source| source.state != State::Expired);
        if !update.news.iter().all(|(zone, news)| serves(zone) && matches!(news, News::Current)) {
            return Some(update);
        }
        if let Some(done) = self.take_update(update, &mut HashMap::new(), &mut Vec::new()) {
            // Who has gone away does not need to know.
            let _ = done.send(());
        }
        None
    }

    /// Takes in what a source brings; returns the sender to notify once it is published.
    pub(super) fn take_update(
        &mut self,
        update: Update,
        touched: &mut HashMap<Name, Touched>,
        steps: &mut Vec<SourceStep>,
    ) -> Option<oneshot::Sender<()>> {
        let mut are_kept = true;
        for (zone, news) in update.news {
            are_kept &= self.take_news(zone, news, update.refreshed, touched, steps);
        }
        update.published.filter(|_| are_kept)
    }

    /// Takes in the news of one zone. Returns false if the zone has left the configuration while they were on the way.
    fn take_news(
        &mut self,
        zone: Name,
        news: News,
        refreshed: Instant,
        touched: &mut HashMap<Name, Touched>,
        steps: &mut Vec<SourceStep>,
    ) -> bool {
        let Some(source) = self.sources.get(&zone) else { return false };
        source.contact.set(Some(refreshed));
        match news {
            News::Current => {
                if let Some(store) = &self.store {
                    store.refreshed(&zone, wall_time(refreshed));
                }
                if source.state == State::Expired {
                    self.sources.entry(zone.clone()).and_modify(|source| source.state = State::Ok);
                    touched.insert(zone.clone(), Touched::Everything);
                }
            }
            News::Load { loaded, base } => {
                let Some(source) = self.sources.get_mut(&zone) else { return false };
                let Loaded { zone: new, touched: changed, .. } = *loaded;
                let new = Arc::new(new);
                self.budget.publish(&zone, new.octets());
                let old = source.zone.replace(new.clone());
                conflicts::log(old.as_deref(), &new);
                // What changed is known only against the version that is here.
                let comparable = match (&old, &base) {
                    (Some(ours), Some(base)) => Arc::ptr_eq(ours, base),
                    (None, None) => true,
                    _ => false,
                };
                // Regions hold nothing of an expired zone.
                let known = comparable && old.is_some() && source.state != State::Expired;
                source.state = State::Ok;
                steps.push(SourceStep::new(zone.clone(), old, new, changed.clone(), comparable, refreshed));
                let names = touched.entry(zone.clone()).or_insert(Touched::Names(Vec::new()));
                match names {
                    Touched::Names(names) if known => names.extend(changed),
                    _ => *names = Touched::Everything,
                }
            }
        }
        if let Some(source) = self.sources.get(&zone) {
            self.expiries.watch(&zone, source);
        }
        true
    }

    /// A zone that was not here before, with what an earlier run of the program left of it.
    pub(super) fn restore(&self, restored: Option<Restored>, lifetime: Lifetime, now: Instant) -> SourceZone {
        let (contact, history) = (Contact::default(), History::default());
        let mut source = SourceZone { zone: None, state: State::NotReady, contact, lifetime, history };
        if let Some(restored) = restored {
            // A time in the future is a clock that was set back.
            let age = SystemTime::now().duration_since(restored.refreshed).unwrap_or_default();
            restored.history.into_iter().for_each(|step| source.history.push(step, &self.history));
            conflicts::log(None, &restored.zone);
            source.zone = Some(restored.zone);
            // What lies before the beginning of the clock that counts on is too old for anything.
            source.contact.set(now.checked_sub(age));
            let expired = lifetime != Lifetime::UNLIMITED && source.expires().is_none_or(|expires| expires <= now);
            source.state = if expired { State::Expired } else { State::Ok };
        }
        source
    }

    /// Lets zones expire whose time has come.
    pub(super) fn expire(&mut self, now: Instant, touched: &mut HashMap<Name, Touched>) {
        for name in self.expiries.take_due(now) {
            let Some(source) = self.sources.get(&name).filter(|source| source.state == State::Ok) else { continue };
            if source.expires().is_some_and(|expires| expires <= now) {
                self.sources.entry(name.clone()).and_modify(|source| source.state = State::Expired);
                tracing::error!(zone = %name, "zone has expired; its source has not answered for too long");
                touched.insert(name, Touched::Everything);
            } else {
                self.expiries.watch(&name, source);
            }
        }
    }
}
