//! Steps of sources from one version to the next, composed while the regions are merged.
//!
//! The difference is for secondaries and for the disk; no region is made of it. So a large one is composed, and handed
//! to the disk, in another thread.
//!
//! Cost: O(records at the names that changed).

use super::{Keeper, has_room, wall_time};
use crate::state::Store;
use crate::zone::{Cause, Delta, HistoryStep, Zone, parallel};
use std::sync::Arc;
use std::time::{Instant, SystemTime};
use wire::name::Name;
use wire::serial::Serial;

/// Number of names below which another thread is not worth its start.
const MANY_NAMES: usize = 500;

/// Change of a source zone by an update.
pub(super) struct SourceStep {
    zone: Name,
    /// The version before, if it is known what differs from it.
    base: Option<Arc<Zone>>,
    before: Option<Serial>,
    new: Arc<Zone>,
    touched: Vec<Name>,
    refreshed: SystemTime,
}

impl SourceStep {
    /// A step from one version to another; `is_comparable` if they are known to differ at the names given only.
    pub fn new(
        zone: Name,
        old: Option<Arc<Zone>>,
        new: Arc<Zone>,
        touched: Vec<Name>,
        is_comparable: bool,
        refreshed: Instant,
    ) -> SourceStep {
        let before = old.as_ref().map(|old| old.soa.serial);
        let base = old.filter(|_| is_comparable && has_room(touched.len(), &new));
        SourceStep { zone, base, before, new, touched, refreshed: wall_time(refreshed) }
    }

    /// Composes the difference, if there is to be one, and hands the version to the disk.
    fn compose(&self, store: Option<&Store>) -> Option<Arc<Delta>> {
        let between = |base: &Arc<Zone>| Arc::new(Delta::between(base, &self.new, self.touched.iter().cloned()));
        let delta = self.base.as_ref().map(between);
        match (store, &delta) {
            (Some(store), Some(delta)) => store.append(&self.zone, delta.clone(), self.new.clone(), self.refreshed),
            (Some(store), None) => store.replace(&self.zone, self.new.clone(), self.refreshed),
            (None, _) => {}
        }
        delta
    }
}

impl Keeper {
    /// Takes steps into the histories of their zones, and does other work meanwhile.
    pub(super) fn take_steps<T>(&mut self, steps: &[SourceStep], work: impl FnOnce(&mut Keeper) -> T) -> T {
        let store = self.store.clone();
        let compose = || steps.iter().map(|step| step.compose(store.as_deref())).collect::<Vec<_>>();
        let is_large = steps.iter().map(|step| step.touched.len()).sum::<usize>() > MANY_NAMES;
        let (done, deltas) = if is_large {
            parallel::both(|| work(self), compose)
        } else {
            let deltas = compose();
            (work(self), deltas)
        };
        for (step, delta) in steps.iter().zip(deltas) {
            let Some(source) = self.sources.get_mut(&step.zone) else { continue };
            match (delta, step.before) {
                (Some(delta), _) => {
                    source.history.push(HistoryStep::new(delta, step.refreshed, [Cause::Source]), &self.history);
                    continue;
                }
                (None, Some(before)) => source.history.break_off(before, step.new.soa.serial),
                (None, None) => source.history.clear(),
            }
            source.history.begin(step.refreshed);
        }
        done
    }
}
