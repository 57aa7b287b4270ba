//! Outgoing transfers, as operators see them: the history of each zone, its secondaries, and the number of transfers.
//!
//! Invariant: alike for source zones, regions and the catalog.
//!
//! Cost: O(zones + secondaries).

use crate::daemon::sources::SourceStatus;
use crate::metrics::{Metrics, TransferCounts};
use crate::notify::Notifier;
use crate::publish::{Published, Served};
use crate::view::secondaries::SecondaryReport;
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::HashMap;
use wire::name::Name;
use wire::serial::Serial;

/// A zone's past and its ways out.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct Outward {
    pub history: HistoryReport,
    pub secondaries: Vec<SecondaryReport>,
    /// Transfers from its primaries.
    pub received: TransferCounts,
    /// Transfers to secondaries.
    pub sent: TransferCounts,
}

/// Extent of a zone's history.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(rename = "HistoryReach")]
pub struct HistoryReport {
    /// Versions before the present one.
    pub versions: usize,
    pub bytes: usize,
    /// The serial of the oldest of them.
    pub from: Option<Serial>,
}

impl Outward {
    /// Newest serial that was announced to secondaries.
    pub fn notified(&self) -> Option<Serial> {
        newest(self.secondaries.iter().filter_map(|target| target.status.notified))
    }
}

/// The newest of some serials.
pub fn newest(serials: impl IntoIterator<Item = Serial>) -> Option<Serial> {
    serials.into_iter().reduce(|newest, serial| if serial.newer_than(newest) { serial } else { newest })
}

/// Number of serials by which a copy is behind, if it is (RFC 1982).
pub fn behind(here: Option<Serial>, there: Option<Serial>) -> Option<u64> {
    let (here, there) = (here?, there?);
    there.newer_than(here).then(|| u64::from(there.0.wrapping_sub(here.0)))
}

/// Tells everything of all that is served and wanted.
pub fn gather(
    published: &Published,
    notifier: &Notifier,
    metrics: &Metrics,
    sources: &HashMap<Name, SourceStatus>,
    wanted: &dyn Fn(&Name) -> bool,
) -> HashMap<Name, Outward> {
    let served = published.iter().filter(|served| wanted(&served.origin));
    let outward = |served: &Served| {
        let received = match sources.get(&served.origin) {
            Some(SourceStatus::Primaries(source)) => source.received,
            _ => TransferCounts::default(),
        };
        let oldest = served.history.iter().next().map(|delta| delta.from_serial());
        let history = HistoryReport { versions: served.history.len(), bytes: served.history.bytes(), from: oldest };
        let targets = notifier.status(&served.origin).into_iter();
        let secondaries = targets.map(|target| SecondaryReport::new(target, served)).collect();
        Outward { history, secondaries, received, sent: metrics.sent.of(&served.origin.to_string()) }
    };
    served.map(|served| (served.origin.clone(), outward(served))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_serial_is_newest_on_the_circle() {
        assert_eq!(newest([Serial(5), Serial(7), Serial(6)]), Some(Serial(7)));
        assert_eq!(newest([Serial(u32::MAX), Serial(1)]), Some(Serial(1)));
        assert_eq!(newest([]), None);
    }

    #[test]
    fn copies_are_behind_on_the_circle() {
        assert_eq!(behind(Some(Serial(u32::MAX)), Some(Serial(1))), Some(2));
        assert_eq!(behind(Some(Serial(5)), Some(Serial(4))), None);
        assert_eq!(behind(None, Some(Serial(4))), None);
    }
}
