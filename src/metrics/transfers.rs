//! Numbers of transfers by zone and direction, as `status` shows them: of every zone, which a scrape does not have.
//!
//! Cost: O(1) to count; memory only for zones that were transferred.

use schemars::JsonSchema;
use serde::Serialize;
use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Number of transfers of a zone in one direction, by kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct TransferCounts {
    /// Incremental transfers (IXFR).
    pub incremental: u64,
    /// Full transfers (AXFR).
    pub full: u64,
}

impl TransferCounts {
    /// Counts a transfer by the label of its kind.
    pub fn count(&mut self, kind: &str) {
        match kind {
            "ixfr" => self.incremental += 1,
            "axfr" | "ixfr-full" => self.full += 1,
            _ => {}
        }
    }
}

/// Transfers to secondaries that went well, by zone.
#[derive(Default)]
pub struct SentTransfers(Mutex<HashMap<String, TransferCounts>>);

impl SentTransfers {
    /// Counts a transfer.
    pub fn count(&self, zone: &str, kind: &str) {
        let mut zones = self.lock();
        match zones.get_mut(zone) {
            Some(counts) => counts.count(kind),
            None => zones.entry(zone.to_owned()).or_default().count(kind),
        }
    }

    /// Numbers of a zone.
    pub fn of(&self, zone: &str) -> TransferCounts {
        self.lock().get(zone).copied().unwrap_or_default()
    }

    /// Forgets the zones that are gone.
    pub(super) fn forget(&self, zones: &HashSet<String>, is_gone: impl Fn(&str) -> bool) {
        self.lock().retain(|zone, _| !zones.contains(zone) || !is_gone(zone));
    }

    /// The numbers, which no panic leaves half changed.
    fn lock(&self) -> MutexGuard<'_, HashMap<String, TransferCounts>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transfers_are_counted_by_what_was_sent() {
        let sent = SentTransfers::default();
        ["axfr", "ixfr", "ixfr", "ixfr-full", "current"].iter().for_each(|kind| sent.count("a.", kind));
        sent.count("b.", "ixfr");
        assert_eq!(sent.of("a."), TransferCounts { incremental: 2, full: 2 });
        assert_eq!(sent.of("b."), TransferCounts { incremental: 1, full: 0 });
        sent.forget(&HashSet::from(["a.".to_owned()]), |_| true);
        assert_eq!((sent.of("a."), sent.of("b.").incremental), (TransferCounts::default(), 1));
    }
}
