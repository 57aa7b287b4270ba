//! Families by zone whose number of series does not grow with the zones.
//!
//! In each, at most [`OWN_ZONES`] zones have series of their own, and the rest counts under the zone [`REST`], which is
//! no name of a zone, because those end with a dot. Counters give a place to whoever counts something, and take it from
//! the zone that has counted nothing for longest; faults are there while there are any; values are those of the first
//! zones, since a sum of serials or moments says nothing.
//!
//! Invariant: the first label of a family is its zone.
//!
//! Cost: O(1) to count or set, O(own zones) where a place changes hands, O(faults) to read faults.

use super::Series;
use prometheus::core::{Collector, Desc};
use prometheus::proto::{Metric, MetricFamily};
use prometheus::{IntCounter, IntCounterVec, IntGaugeVec, Opts};
use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Zones with series of their own in one family.
pub const OWN_ZONES: usize = 200;
/// Label of all other zones together, and of their primaries and servers.
pub const REST: &str = "other";
/// Time without a count after which a zone gives its place to another: longer than alerts look back.
const IDLE: Duration = Duration::from_secs(900);

/// Zones with series of their own, with the time at which each last moved one.
#[derive(Default)]
struct Places {
    used: HashMap<String, Instant>,
    /// No zone has been idle for long before this.
    full_until: Option<Instant>,
}

impl Places {
    /// Takes a place for a zone unless all are taken.
    fn take(&mut self, zone: &str, now: Instant) -> bool {
        if let Some(used) = self.used.get_mut(zone) {
            *used = now;
            return true;
        }
        let is_free = self.used.len() < OWN_ZONES;
        if is_free {
            self.used.insert(zone.to_owned(), now);
        }
        is_free
    }

    /// Frees the place of the zone that has moved nothing for longest, if that is long.
    fn free_idle(&mut self, now: Instant) -> Option<String> {
        if self.full_until.is_some_and(|until| now < until) {
            return None;
        }
        let (zone, used) = self.used.iter().min_by_key(|(_, used)| **used)?;
        let (zone, until) = (zone.clone(), *used + IDLE);
        if now < until {
            self.full_until = Some(until);
            return None;
        }
        self.used.remove(&zone);
        Some(zone)
    }
}

/// Locks places, which no panic leaves half changed.
fn lock(places: &Mutex<Places>) -> MutexGuard<'_, Places> {
    places.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Labels of the rest: without its zones, primaries and servers.
fn of_rest<'a>(names: &[String], labels: &[&'a str]) -> Vec<&'a str> {
    let hidden = |name: &str| matches!(name, "zone" | "primary" | "server");
    names.iter().zip(labels).map(|(name, label)| if hidden(name) { REST } else { *label }).collect()
}

/// Names of labels, as a family keeps them.
fn owned(names: &[&str]) -> Arc<[String]> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

/// Counters by zone: a zone appears with its first count, and the rest is summed.
#[derive(Clone)]
pub struct ZoneCounters {
    family: IntCounterVec,
    labels: Arc<[String]>,
    places: Arc<Mutex<Places>>,
}

impl ZoneCounters {
    /// Creates a family.
    pub(super) fn new(options: Opts, labels: &[&str]) -> prometheus::Result<ZoneCounters> {
        let family = IntCounterVec::new(options, labels)?;
        Ok(ZoneCounters { family, labels: owned(labels), places: Arc::default() })
    }

    /// Adds to the counter of a zone, the first label; nothing appears for nothing.
    pub fn count(&self, labels: &[&str], amount: u64) {
        if amount > 0 {
            self.with_label_values(labels).inc_by(amount);
        }
    }

    /// The counter of a zone, the first label, or that of the rest.
    pub fn with_label_values(&self, labels: &[&str]) -> IntCounter {
        self.at(labels, Instant::now())
    }

    /// The counter of a zone at a moment.
    fn at(&self, labels: &[&str], now: Instant) -> IntCounter {
        let Some(zone) = labels.first() else { return self.family.with_label_values(labels) };
        let mut places = lock(&self.places);
        if places.take(zone, now) {
            return self.family.with_label_values(labels);
        }
        let Some(idle) = places.free_idle(now) else {
            return self.family.with_label_values(&of_rest(&self.labels, labels));
        };
        self.family.forget(&|zone, _| *zone == idle);
        places.take(zone, now);
        self.family.with_label_values(labels)
    }
}

/// Faults by zone: a zone appears while its value is not 0, and the rest is summed.
#[derive(Clone)]
pub struct ZoneFaults {
    family: IntGaugeVec,
    options: Opts,
    labels: Arc<[String]>,
}

impl ZoneFaults {
    /// Creates a family.
    pub(super) fn new(options: Opts, labels: &[&str]) -> prometheus::Result<ZoneFaults> {
        Ok(ZoneFaults { family: IntGaugeVec::new(options.clone(), labels)?, options, labels: owned(labels) })
    }

    /// Shows a value, or with 0 that there is no fault.
    pub fn set(&self, labels: &[&str], value: i64) {
        if value == 0 {
            // Mostly there was none.
            let _ = self.family.remove_label_values(labels);
        } else {
            self.family.with_label_values(labels).set(value);
        }
    }

    /// Series of a family with more zones than have a place: of the first zones, and of the rest together.
    fn sum_rest(&self, all: &[MetricFamily]) -> prometheus::Result<Vec<MetricFamily>> {
        let values = |metric: &Metric| -> Vec<String> {
            let label = |name: &String| metric.get_label().iter().find(|pair| pair.name() == name);
            self.labels.iter().map(|name| label(name).map_or("", |pair| pair.value()).to_owned()).collect()
        };
        let metrics = all.iter().flat_map(MetricFamily::get_metric);
        let all: Vec<(Vec<String>, f64)> =
            metrics.map(|metric| (values(metric), metric.get_gauge().get_value())).collect();
        let zones: BTreeSet<&String> = all.iter().filter_map(|(labels, _)| labels.first()).collect();
        let own: BTreeSet<&String> = zones.into_iter().take(OWN_ZONES).collect();
        let names: Vec<&str> = self.labels.iter().map(String::as_str).collect();
        let summed = IntGaugeVec::new(self.options.clone(), &names)?;
        for (labels, value) in &all {
            let shown: Vec<&str> = labels.iter().map(String::as_str).collect();
            let is_own = labels.first().is_some_and(|zone| own.contains(zone));
            let shown = if is_own { shown } else { of_rest(&self.labels, &shown) };
            summed.with_label_values(&shown).add(*value as i64);
        }
        Ok(summed.collect())
    }
}

/// Values by zone that have no sum, such as serials and moments: those of the first zones that have one.
#[derive(Clone)]
pub struct ZoneValues {
    family: IntGaugeVec,
    places: Arc<Mutex<Places>>,
}

impl ZoneValues {
    /// Creates a family.
    pub(super) fn new(options: Opts, labels: &[&str]) -> prometheus::Result<ZoneValues> {
        Ok(ZoneValues { family: IntGaugeVec::new(options, labels)?, places: Arc::default() })
    }

    /// Shows a value if its zone, the first label, has a place.
    pub fn set(&self, labels: &[&str], value: i64) {
        if labels.first().is_some_and(|zone| lock(&self.places).take(zone, Instant::now())) {
            self.family.with_label_values(labels).set(value);
        }
    }
}

impl Collector for ZoneCounters {
    fn desc(&self) -> Vec<&Desc> {
        self.family.desc()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        self.family.collect()
    }
}

impl Collector for ZoneFaults {
    fn desc(&self) -> Vec<&Desc> {
        self.family.desc()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        let all = self.family.collect();
        if all.iter().map(|family| family.get_metric().len()).sum::<usize>() <= OWN_ZONES {
            return all;
        }
        // The options are those of the family itself, which is valid.
        self.sum_rest(&all).unwrap_or(all)
    }
}

impl Collector for ZoneValues {
    fn desc(&self) -> Vec<&Desc> {
        self.family.desc()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        self.family.collect()
    }
}

impl Series for ZoneCounters {
    fn forget(&self, is_gone: &dyn Fn(&str, Option<&str>) -> bool) {
        let mut places = lock(&self.places);
        self.family.forget(is_gone);
        places.used.retain(|zone, _| !is_gone(zone, None));
        places.full_until = None;
    }
}

impl Series for ZoneFaults {
    fn forget(&self, is_gone: &dyn Fn(&str, Option<&str>) -> bool) {
        self.family.forget(is_gone);
    }
}

impl Series for ZoneValues {
    fn forget(&self, is_gone: &dyn Fn(&str, Option<&str>) -> bool) {
        let mut places = lock(&self.places);
        self.family.forget(is_gone);
        places.used.retain(|zone, _| !is_gone(zone, None));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::Metrics;
    use std::collections::HashSet;

    /// Lines of a family in a scrape.
    fn series(metrics: &Metrics, family: &str) -> Vec<String> {
        let wanted = format!("aggregator_{family}{{");
        metrics.render().lines().filter(|line| line.starts_with(&wanted)).map(str::to_owned).collect()
    }

    #[test]
    fn counters_of_many_zones_keep_their_sum() {
        let metrics = Metrics::new();
        for zone in 0..5_000 {
            metrics.transfer_attempts.count(&[&format!("z{zone}."), &format!("192.0.2.1:{zone}"), "soa"], 2);
        }
        metrics.transfer_attempts.count(&["z0.", "192.0.2.1:0", "soa"], 1);
        let lines = series(&metrics, "transfer_attempts_total");
        assert_eq!(lines.len(), OWN_ZONES + 1);
        let rest = "aggregator_transfer_attempts_total{kind=\"soa\",primary=\"other\",zone=\"other\"} 9600";
        assert!(lines.iter().any(|line| line == rest), "{lines:?}");
        let sum: f64 = lines.iter().filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum();
        assert_eq!(sum, 10_001.0);
    }

    #[test]
    fn a_zone_that_counts_nothing_for_long_gives_its_place_away() {
        let metrics = Metrics::new();
        let (family, start) = (&metrics.transfer_failures, Instant::now());
        let labels = |zone: &str| [zone.to_owned(), "p".to_owned(), "soa".to_owned(), "timeout".to_owned()];
        let count = |zone: &str, after: Duration| {
            family.at(&labels(zone).each_ref().map(String::as_str), start + after).inc();
        };
        (0..OWN_ZONES).for_each(|zone| count(&format!("z{zone}."), Duration::from_secs(zone as u64)));
        count("late.", IDLE - Duration::from_secs(1));
        assert!(!metrics.render().contains("zone=\"late.\""));
        count("late.", IDLE);
        count("later.", IDLE);
        let text = metrics.render();
        assert!(text.contains("zone=\"late.\"} 1") && !text.contains("zone=\"z0.\""), "{text}");
        assert!(!text.contains("zone=\"later.\"") && text.contains("zone=\"other\"} 2"), "{text}");
        metrics.forget(&HashSet::from(["late.".to_owned()]), |_, _, _| true);
        count("later.", IDLE);
        assert!(metrics.render().contains("zone=\"later.\"} 1"));
    }

    #[test]
    fn faults_are_there_while_there_are_any() {
        let metrics = Metrics::new();
        metrics.primary_failures.set(&["a.", "192.0.2.1:53"], 3);
        assert_eq!(
            series(&metrics, "primary_failures"),
            ["aggregator_primary_failures{primary=\"192.0.2.1:53\",zone=\"a.\"} 3"]
        );
        metrics.primary_failures.set(&["a.", "192.0.2.1:53"], 0);
        assert!(series(&metrics, "primary_failures").is_empty());
        (0..300).for_each(|zone| metrics.transfer_held.set(&[&format!("z{zone:03}.")], 1));
        let lines = series(&metrics, "transfer_held");
        assert_eq!(lines.len(), OWN_ZONES + 1);
        assert!(lines.contains(&"aggregator_transfer_held{zone=\"other\"} 100".to_owned()), "{lines:?}");
    }

    #[test]
    fn values_are_those_of_the_first_zones() {
        let metrics = Metrics::new();
        (0..300).for_each(|zone| metrics.zone_primary_serial.set(&[&format!("z{zone}."), "p"], 7));
        assert_eq!(series(&metrics, "zone_primary_serial").len(), OWN_ZONES);
        metrics.forget(&HashSet::from(["z0.".to_owned()]), |_, _, _| true);
        metrics.zone_primary_serial.set(&["z299.", "p"], 8);
        let lines = series(&metrics, "zone_primary_serial");
        assert!(lines.len() == OWN_ZONES && lines.iter().any(|line| line.contains("z299.")), "{lines:?}");
    }
}
