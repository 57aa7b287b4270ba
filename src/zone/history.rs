//! The way from older versions of a zone to the present one, as a chain of differences.
//!
//! Invariants: each difference starts where the one before it ends, and the last ends at the present version; every
//! step moves the serial forward (RFC 1982), because a secondary cannot follow any other; the oldest steps leave when
//! there are too many or they are too large. A version that cannot be reached in such a step begins the chain anew, and
//! the way from a version whose serial stood for other contents before is told to nobody.
//!
//! Cost: cloning O(1), pushing O(log steps), searching O(steps).

use crate::rr::{self, rtype};
use crate::serial::Serial;
use crate::zone::Delta;
use std::sync::Arc;

/// How much of the past is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HistoryLimits {
    pub versions: usize,
    pub bytes: usize,
}

impl Default for HistoryLimits {
    fn default() -> Self {
        HistoryLimits { versions: 500, bytes: 64 << 20 }
    }
}

/// The differences that led to the present version.
#[derive(Clone, Debug, Default)]
pub struct History {
    deltas: imbl::Vector<Arc<Delta>>,
    bytes: usize,
    /// The newest serial that may have stood for other contents than it does in the chain.
    barred: Option<Serial>,
}

impl History {
    /// Adds the step to a new version.
    pub fn push(&mut self, delta: Arc<Delta>, limits: &HistoryLimits) {
        if delta.is_empty() {
            return;
        }
        if self.deltas.last().is_some_and(|last| last.to != delta.from) {
            self.clear();
        }
        if !delta.to_serial().newer_than(delta.from_serial()) {
            self.break_off(delta.from_serial(), delta.to_serial());
            return;
        }
        self.bytes += delta.len_bytes();
        self.deltas.push_back(delta);
        self.limit(limits);
        let oldest = self.deltas.front().map(|delta| delta.from_serial());
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
        while self.deltas.len() > limits.versions || self.bytes > limits.bytes {
            let Some(oldest) = self.deltas.pop_front() else { return };
            self.bytes -= oldest.len_bytes();
        }
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        *self = History::default();
    }

    /// The steps from the version whose SOA has this RDATA, in every field, to the present one; none when the past does not
    /// reach that far.
    ///
    /// A serial alone says too little: replicas can publish different contents under the same sum of serials.
    pub fn since(&self, soa: &[u8]) -> Option<Vec<Arc<Delta>>> {
        self.since_version(|delta| {
            delta.from.rdatas().next().is_some_and(|from| rr::compare(rtype::SOA, from, soa).is_eq())
        })
    }

    /// The steps from the version with a serial.
    pub fn since_serial(&self, serial: Serial) -> Option<Vec<Arc<Delta>>> {
        self.since_version(|delta| delta.from_serial() == serial)
    }

    /// The steps from the newest version that is the one.
    fn since_version(&self, is_from: impl Fn(&Delta) -> bool) -> Option<Vec<Arc<Delta>>> {
        let start = self.deltas.iter().rposition(|delta| is_from(delta))?;
        let is_barred = |serial: Serial| self.barred.is_some_and(|barred| !serial.newer_than(barred));
        if is_barred(self.deltas[start].from_serial()) {
            return None;
        }
        Some(self.deltas.iter().skip(start).cloned().collect())
    }

    /// The steps, oldest first.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &Arc<Delta>> {
        self.deltas.iter()
    }

    /// Number of steps.
    pub fn len(&self) -> usize {
        self.deltas.len()
    }

    /// Whether there is no step.
    pub fn is_empty(&self) -> bool {
        self.deltas.is_empty()
    }

    /// Octets that the steps occupy, nearly.
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}
