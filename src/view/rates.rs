//! Rates of queries over the last minutes: in all, by zone, by transport and by response code.
//!
//! A task reads the counters every few seconds; the threads that answer know nothing of it.
//!
//! Invariant: a rate is that between two readings; the newest is at most `PACE` old.
//!
//! Cost: O(threads + zones) for a reading, of which `SAMPLES` are kept, those of zones for ten seconds.

use crate::metrics::{Metrics, QueryTotals, RCODES, TRANSPORTS};
use crate::publish::{Publisher, Tally};
use parking_lot::Mutex;
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::task::AbortHandle;
use tokio::time::{MissedTickBehavior, interval};
use wire::name::Name;

/// Time between readings.
const PACE: Duration = Duration::from_secs(2);
/// Readings that are kept: five minutes.
const SAMPLES: usize = 150;
/// A rate that is shown as the present one is the mean of this time, so that it can be read.
const WINDOW: Duration = Duration::from_secs(10);

/// Counters as they stood at one time.
struct Reading {
    at: Instant,
    totals: QueryTotals,
    /// Counters by zone; empty if the reading is old.
    zones: HashMap<Name, [u64; Tally::KINDS.len()]>,
}

/// Readings of the counters, which end when this is dropped.
pub struct Rates {
    samples: Arc<Mutex<VecDeque<Reading>>>,
    task: AbortHandle,
}

/// Queries a second, means over the last ten seconds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct QueryRates {
    /// All queries since the start.
    pub total: u64,
    pub per_second: f64,
    /// Queries a second by transport.
    pub transports: BTreeMap<&'static str, f64>,
    /// Queries a second by response code; those that never occurred are left out.
    pub rcodes: BTreeMap<&'static str, f64>,
    /// Rates by zone; zones without any query are left out.
    pub zones: BTreeMap<String, ZoneRates>,
}

/// Queries a second that lead to one zone.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct ZoneRates {
    pub per_second: f64,
    /// Queries a second by response code, the rare ones together as `other`.
    pub rcodes: BTreeMap<&'static str, f64>,
}

/// Queries a second, now and before.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct Queries {
    #[serde(flatten)]
    pub rates: QueryRates,
    /// Seconds between the numbers of `history`.
    pub interval_seconds: f64,
    /// Queries a second over the last minutes, oldest first.
    pub history: Vec<f64>,
    /// Queries a second over the last minutes for each response code that ever occurred.
    pub rcode_history: BTreeMap<&'static str, Vec<f64>>,
}

impl Rates {
    /// Begins to read. Must be called within a tokio runtime.
    pub fn start(metrics: Arc<Metrics>, publisher: Arc<Publisher>) -> Rates {
        let samples: Arc<Mutex<VecDeque<Reading>>> = Arc::default();
        let filled = samples.clone();
        let task = tokio::spawn(async move {
            let mut clock = interval(PACE);
            clock.set_missed_tick_behavior(MissedTickBehavior::Delay);
            loop {
                clock.tick().await;
                let (at, totals, published) = (Instant::now(), metrics.query_totals(), publisher.load());
                // Most of many zones were never asked for.
                let counts = published.iter().map(|served| (served, served.tally.read()));
                let asked = counts.filter(|(_, counts)| counts.iter().any(|count| *count > 0));
                let zones = asked.map(|(served, counts)| (served.origin.clone(), counts)).collect();
                let mut samples = filled.lock();
                if samples.len() > SAMPLES {
                    samples.pop_front();
                }
                let aged = samples.iter_mut().rev().find(|sample| at.duration_since(sample.at) > WINDOW);
                aged.into_iter().for_each(|sample| sample.zones = HashMap::new());
                samples.push_back(Reading { at, totals, zones });
            }
        });
        Rates { samples, task: task.abort_handle() }
    }

    /// The rates of the last minutes.
    pub fn read(&self) -> Queries {
        summarize(&self.samples.lock())
    }
}

impl Drop for Rates {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Makes rates of readings.
fn summarize(samples: &VecDeque<Reading>) -> Queries {
    let Some(newest) = samples.back() else { return Queries::default() };
    let earlier = samples.iter().rev().skip(1).take_while(|old| newest.at.duration_since(old.at) <= WINDOW).last();
    let earlier = earlier.unwrap_or(newest);
    let (totals, before) = (&newest.totals, &earlier.totals);
    let seconds = newest.at.duration_since(earlier.at).as_secs_f64();
    let present = |now: u64, before: u64| rate(now, before, seconds);
    let series = |of: &dyn Fn(&QueryTotals) -> u64| -> Vec<f64> {
        let pairs = samples.iter().zip(samples.iter().skip(1));
        let seconds = |old: &Reading, new: &Reading| new.at.duration_since(old.at).as_secs_f64();
        pairs.map(|(old, new)| rate(of(&new.totals), of(&old.totals), seconds(old, new))).collect()
    };
    let seen = || RCODES.iter().enumerate().filter(|(index, _)| totals.responses[*index] > 0);
    let sum = |totals: &QueryTotals| totals.queries.iter().sum::<u64>();
    let by_name = |names: &[&'static str], now: &[u64], before: &[u64]| -> BTreeMap<&'static str, f64> {
        let counts = now.iter().zip(before);
        names.iter().zip(counts).map(|(name, (now, before))| (*name, present(*now, *before))).collect()
    };
    let by_rcode =
        |(index, name): (usize, &&'static str)| (*name, present(totals.responses[index], before.responses[index]));
    let asked = newest.zones.iter().filter(|(_, counts)| counts.iter().any(|count| *count > 0));
    let by_zone = |(name, counts): (&Name, &[u64; Tally::KINDS.len()])| {
        // A zone that is new since has counted from nothing.
        let before = earlier.zones.get(name).copied().unwrap_or_default();
        let rates = ZoneRates {
            per_second: present(counts.iter().sum(), before.iter().sum()),
            rcodes: by_name(&Tally::KINDS, counts, &before),
        };
        (name.to_string(), rates)
    };
    Queries {
        rates: QueryRates {
            total: sum(totals),
            per_second: present(sum(totals), sum(before)),
            transports: by_name(&TRANSPORTS, &totals.queries, &before.queries),
            rcodes: seen().map(by_rcode).collect(),
            zones: asked.map(by_zone).collect(),
        },
        interval_seconds: PACE.as_secs_f64(),
        history: series(&sum),
        rcode_history: seen().map(|(index, name)| (*name, series(&|totals| totals.responses[index]))).collect(),
    }
}

/// Returns the rate a second between two readings, rounded to a tenth.
fn rate(now: u64, before: u64, seconds: f64) -> f64 {
    if seconds > 0.0 { (now.saturating_sub(before) as f64 / seconds * 10.0).round() / 10.0 } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_those_between_readings() {
        assert_eq!(summarize(&VecDeque::new()), Queries::default());
        let start = Instant::now();
        let sample = |seconds: u64, queries: u64| {
            let mut totals = QueryTotals::default();
            (totals.queries[0], totals.responses[0]) = (queries, queries);
            let zones = [("a", [queries, 0, 0, 0]), ("b", [0; 4])];
            let zones = zones.map(|(name, counts)| (Name::parse(name).unwrap(), counts)).into();
            Reading { at: start + Duration::from_secs(seconds), totals, zones }
        };
        let rates = summarize(&[sample(0, 0), sample(2, 100), sample(12, 200), sample(14, 206)].into());
        assert_eq!((rates.rates.total, rates.rates.per_second), (206, 3.0), "the first reading is too old");
        assert_eq!(rates.history, [50.0, 10.0, 3.0]);
        assert_eq!(rates.rcode_history["NOERROR"], rates.history);
        assert_eq!(rates.rates.transports["udp"], 3.0);
        assert_eq!((rates.rates.zones.len(), rates.rates.zones["a."].rcodes["NOERROR"]), (1, 3.0));
        assert!(!rates.rates.rcodes.contains_key("NXDOMAIN"));
        let one = summarize(&[sample(0, 5)].into());
        assert_eq!((one.rates.per_second, one.history.len()), (0.0, 0));
    }
}
