//! Outgoing transfers, as operators see them: the history of each zone, its secondaries, and the number of transfers.
//!
//! Invariant: alike for source zones, regions and the catalog.
//!
//! Cost: O(zones + secondaries + series of the transfer counters).

use crate::metrics::Metrics;
use crate::notify::{Notifier, TargetStatus};
use crate::publish::{Published, Served};
use prometheus::core::Collector;
use prometheus::proto::Metric;
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::HashMap;
use wire::name::Name;
use wire::serial::Serial;

/// Number of transfers of a zone in one direction, by kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct TransferCounts {
    /// Incremental transfers (IXFR).
    pub incremental: u64,
    /// Full transfers (AXFR).
    pub full: u64,
}

/// A zone's past and its ways out.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct Outward {
    pub history: HistoryReport,
    pub secondaries: Vec<TargetStatus>,
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
        newest(self.secondaries.iter().filter_map(|target| target.notified))
    }
}

/// The newest of some serials.
pub fn newest(serials: impl IntoIterator<Item = Serial>) -> Option<Serial> {
    serials.into_iter().reduce(|newest, serial| if serial.newer_than(newest) { serial } else { newest })
}

/// Tells everything of all that is served, or of one zone.
pub fn gather(
    published: &Published,
    notifier: &Notifier,
    metrics: &Metrics,
    only: Option<&Name>,
) -> HashMap<Name, Outward> {
    let received = count_by_zone(&metrics.transfer_duration, |metric| metric.get_histogram().get_sample_count());
    let sent = count_by_zone(&metrics.xfr_served, |metric| metric.get_counter().get_value() as u64);
    let served = published.iter().filter(|served| only.is_none_or(|only| *only == served.origin));
    let outward = |served: &Served| {
        let label = served.origin.to_string();
        let counts = |counted: &HashMap<String, TransferCounts>| counted.get(&label).copied().unwrap_or_default();
        let oldest = served.history.iter().next().map(|delta| delta.from_serial());
        let history = HistoryReport { versions: served.history.len(), bytes: served.history.bytes(), from: oldest };
        let secondaries = notifier.status(&served.origin);
        Outward { history, secondaries, received: counts(&received), sent: counts(&sent) }
    };
    served.map(|served| (served.origin.clone(), outward(served))).collect()
}

/// Sums the transfers that went well in the series of a family, which has labels `zone` and `kind`.
fn count_by_zone(family: &impl Collector, value: impl Fn(&Metric) -> u64) -> HashMap<String, TransferCounts> {
    let mut zones: HashMap<String, TransferCounts> = HashMap::new();
    for metric in family.collect().iter().flat_map(|family| family.get_metric()) {
        let label = |name: &str| metric.get_label().iter().find(|pair| pair.name() == name).map(|pair| pair.value());
        let (Some(zone), Some(kind)) = (label("zone"), label("kind")) else { continue };
        if label("result").is_some_and(|result| result != "ok") {
            continue;
        }
        let counts = zones.entry(zone.to_owned()).or_default();
        match kind {
            "ixfr" => counts.incremental += value(metric),
            "axfr" | "ixfr-full" => counts.full += value(metric),
            _ => {}
        }
    }
    zones
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transfers_are_counted_by_what_was_sent() {
        let metrics = Metrics::new();
        for (zone, kind, result) in [
            ("a.", "axfr", "ok"),
            ("a.", "ixfr", "ok"),
            ("a.", "ixfr", "ok"),
            ("a.", "ixfr-full", "ok"),
            ("a.", "current", "ok"),
            ("a.", "ixfr", "refused"),
            ("b.", "ixfr", "ok"),
        ] {
            metrics.xfr_served.with_label_values(&[zone, kind, result]).inc();
        }
        let sent = count_by_zone(&metrics.xfr_served, |metric| metric.get_counter().get_value() as u64);
        assert_eq!(sent["a."], TransferCounts { incremental: 2, full: 2 });
        assert_eq!(sent["b."], TransferCounts { incremental: 1, full: 0 });
        metrics.transfer_duration.with_label_values(&["a.", "axfr"]).observe(0.5);
        let received = count_by_zone(&metrics.transfer_duration, |metric| metric.get_histogram().get_sample_count());
        assert_eq!(received["a."], TransferCounts { incremental: 0, full: 1 });
    }

    #[test]
    fn the_newest_serial_is_newest_on_the_circle() {
        assert_eq!(newest([Serial(5), Serial(7), Serial(6)]), Some(Serial(7)));
        assert_eq!(newest([Serial(u32::MAX), Serial(1)]), Some(Serial(1)));
        assert_eq!(newest([]), None);
    }
}
