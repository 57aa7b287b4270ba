//! The way from older versions of a zone to the present one, as a chain of differences, each with its time and its
//! causes.
//!
//! Invariants: each difference starts where the one before it ends, and the last ends at the present version; every
//! step moves the serial forward (RFC 1982), because a secondary cannot follow any other; the oldest steps leave when
//! there are too many or they are too large. A version that cannot be reached in such a step begins the chain anew, and
//! the way from a version whose serial stood for other contents before is told to nobody.
//!
//! Large differences are packed when they are no longer new, in all copies of the history at once.
//!
//! Cost: cloning O(1), pushing O(log steps), searching O(steps); with large differences, pushing and the size O(steps).

use crate::zone::Delta;
use schemars::JsonSchema;
use serde::Serialize;
use std::ops::Range;
use std::sync::Arc;
use std::time::SystemTime;
use wire::name::Name;
use wire::rr::{self, rtype};
use wire::serial::Serial;

/// Limits of the history that is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HistoryLimits {
    pub versions: usize,
    pub bytes: usize,
    /// Octets of all histories together.
    pub total: usize,
}

/// Octets that each of several histories may occupy so that all together keep to a total: the small ones stay whole,
/// the large ones are cut to the same size.
pub fn share_of_total(mut sizes: Vec<usize>, total: usize) -> usize {
    if sizes.iter().sum::<usize>() <= total {
        return usize::MAX;
    }
    sizes.sort_unstable();
    let mut left = total;
    for (index, size) in sizes.iter().enumerate() {
        let share = left / (sizes.len() - index);
        if *size > share {
            return share;
        }
        left -= size;
    }
    usize::MAX
}

//--- Step ---

/// Cause of a version.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Cause {
    /// The zone's source has another version.
    Source,
    /// A member of the region has another version, or none that counts.
    Member { zone: Name, serial: Option<Serial> },
    /// The configuration says something else.
    Configuration,
    /// Something was drained, or is no longer.
    Drain,
    /// Services let go of addresses that they had kept, or keep others.
    Damping,
    /// An operator had the region go back to the contents of an earlier version.
    Rollback { to: Serial },
    /// The region follows its members again.
    Release,
    /// The serial goes on to the sum of the members' serials.
    Serial,
}

/// The step to one version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HistoryStep {
    pub delta: Arc<Delta>,
    /// Time at which the version came; none where nobody noted it.
    pub at: Option<SystemTime>,
    pub causes: Arc<[Cause]>,
}

impl HistoryStep {
    /// A step that was taken at a time.
    pub fn new(delta: Arc<Delta>, at: SystemTime, causes: impl Into<Arc<[Cause]>>) -> HistoryStep {
        HistoryStep { delta, at: Some(at), causes: causes.into() }
    }
}

impl From<Arc<Delta>> for HistoryStep {
    fn from(delta: Arc<Delta>) -> HistoryStep {
        HistoryStep { delta, at: None, causes: Arc::default() }
    }
}

//--- History ---

/// The differences that led to the present version.
#[derive(Clone, Debug, Default)]
pub struct History {
    steps: imbl::Vector<HistoryStep>,
    /// Octets of the steps while none is packed.
    len_bytes: usize,
    /// Number of steps that are worth packing.
    large: usize,
    /// Time at which the oldest version came that the history reaches; none where nobody noted it.
    begun: Option<SystemTime>,
    /// The newest serial that may have stood for other contents than it does in the chain.
    barred: Option<Serial>,
}

impl History {
    /// Adds the step to a new version.
    pub fn push(&mut self, step: impl Into<HistoryStep>, limits: &HistoryLimits) {
        let step = step.into();
        let delta = &step.delta;
        if delta.is_empty() {
            return;
        }
        if self.steps.last().is_some_and(|last| last.delta.to != delta.from) {
            self.clear();
        }
        if !delta.to_serial().newer_than(delta.from_serial()) {
            self.break_off(delta.from_serial(), delta.to_serial());
            self.begun = step.at;
            return;
        }
        self.len_bytes += delta.len_bytes();
        self.large += usize::from(delta.is_large());
        self.steps.push_back(step);
        self.limit(limits);
        let oldest = self.steps.front().map(|step| step.delta.from_serial());
        self.barred = self.barred.filter(|barred| !oldest.is_some_and(|oldest| oldest.newer_than(*barred)));
    }

    /// Begins anew with a version that is reached by no difference.
    pub fn break_off(&mut self, from: Serial, to: Serial) {
        let barred = self.barred;
        self.clear();
        self.barred = if to.newer_than(from) {
            barred
        } else {
            // Up to here serials stand for other contents than they will from now on.
            Some(barred.filter(|barred| barred.newer_than(from)).unwrap_or(from))
        };
    }

    /// Lets the oldest steps go that limits do not allow.
    pub fn limit(&mut self, limits: &HistoryLimits) {
        let mut bytes = self.bytes();
        while self.steps.len() > limits.versions || bytes > limits.bytes {
            let Some(oldest) = self.steps.pop_front() else { return };
            // It may have been packed since.
            bytes = bytes.saturating_sub(oldest.delta.kept_bytes());
            self.len_bytes -= oldest.delta.len_bytes();
            self.large -= usize::from(oldest.delta.is_large());
            self.begun = oldest.at;
        }
    }

    /// Packs the large differences of versions that came before a time. Returns whether any large one is not packed.
    pub fn pack(&self, before: SystemTime) -> bool {
        let mut is_left = false;
        for step in self.steps.iter().filter(|step| self.large > 0 && step.delta.is_large()) {
            if step.at.is_none_or(|at| at < before) {
                step.delta.pack();
            } else {
                is_left = true;
            }
        }
        is_left
    }

    /// Begins anew with a version that came at a time.
    pub fn begin(&mut self, at: SystemTime) {
        *self = History { begun: Some(at), barred: self.barred, ..History::default() };
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        *self = History::default();
    }

    /// The steps from the version whose SOA has this RDATA, in every field, to the present one; none when the past does
    /// not reach that far.
    ///
    /// A serial alone says too little: replicas can publish different contents under the same sum of serials.
    pub fn since(&self, soa: &[u8]) -> Option<Vec<Arc<Delta>>> {
        let is_soa = |from: &[u8]| rr::compare(rtype::SOA, from, soa).is_eq();
        let start = self.steps.iter().rposition(|step| step.delta.from.rdatas().next().is_some_and(is_soa))?;
        let is_known = !self.is_barred(self.steps[start].delta.from_serial());
        is_known.then(|| self.between(start..self.len()))
    }

    /// Returns true if a serial may have stood for other contents than it does in the chain.
    fn is_barred(&self, serial: Serial) -> bool {
        self.barred.is_some_and(|barred| !serial.newer_than(barred))
    }

    /// Place in the chain of the newest version with a serial: so many steps lead to it from the oldest.
    pub fn position(&self, serial: Serial) -> Option<usize> {
        let first = self.steps.front()?.delta.from_serial();
        let arrives = |step: &HistoryStep| step.delta.to_serial() == serial;
        let place = self.steps.iter().rposition(arrives).map(|step| step + 1);
        let place = place.or((first == serial).then_some(0))?;
        // The present version is what is served, whatever its serial stood for.
        (place == self.steps.len() || !self.is_barred(serial)).then_some(place)
    }

    /// The differences from one place of the chain to a later one.
    pub fn between(&self, places: Range<usize>) -> Vec<Arc<Delta>> {
        self.steps.iter().skip(places.start).take(places.len()).map(|step| step.delta.clone()).collect()
    }

    /// The differences, oldest first.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &Arc<Delta>> {
        self.steps.iter().map(|step| &step.delta)
    }

    /// The steps, oldest first.
    pub fn steps(&self) -> impl DoubleEndedIterator<Item = &HistoryStep> {
        self.steps.iter()
    }

    /// Time at which the oldest version came that the history reaches.
    pub fn begun(&self) -> Option<SystemTime> {
        self.begun
    }

    /// Number of steps.
    pub fn len(&self) -> usize {
        self.steps.len()
    }

    /// Returns true if there is no step.
    pub fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }

    /// Octets that the steps occupy now, nearly; what readers have of packed ones aside.
    pub fn bytes(&self) -> usize {
        let is_large = |step: &&HistoryStep| self.large > 0 && step.delta.is_large();
        let saved = |step: &HistoryStep| step.delta.len_bytes().saturating_sub(step.delta.kept_bytes());
        self.len_bytes - self.steps.iter().filter(is_large).map(saved).sum::<usize>()
    }

    /// Octets that the steps occupy, nearly, while none is packed.
    pub fn len_bytes(&self) -> usize {
        self.len_bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_histories_share_what_the_others_leave() {
        assert_eq!(share_of_total(vec![10, 500, 20, 300], 830), usize::MAX);
        assert_eq!(share_of_total(vec![10, 500, 20, 300], 829), 499);
        assert_eq!(share_of_total(vec![10, 500, 20, 300], 130), 50);
        assert_eq!(share_of_total(vec![7; 3], 20), 6);
        assert_eq!(share_of_total(Vec::new(), 0), usize::MAX);
        assert_eq!(share_of_total(vec![0, 1], 0), 0);
    }
}
