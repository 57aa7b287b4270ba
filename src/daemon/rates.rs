//! How many queries a second come in, and what they get, over the last minutes.
//!
//! A task reads the counters every few seconds; the threads that answer know nothing of it.
//!
//! Invariant: a rate is that between two readings; the newest is at most [`PACE`] old.
//!
//! Cost: O(threads) for a reading, of which [`SAMPLES`] are kept.

use crate::metrics::{Metrics, QueryTotals, RCODES, TRANSPORTS};
use serde::Serialize;
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::task::AbortHandle;
use tokio::time::{MissedTickBehavior, interval};

/// Time between readings.
const PACE: Duration = Duration::from_secs(2);
/// Readings that are kept: five minutes.
const SAMPLES: usize = 150;
/// A rate that is shown as the present one is the mean of this time, so that it can be read.
const WINDOW: Duration = Duration::from_secs(10);

/// Readings of the counters, which end when this is dropped.
pub struct Rates {
    samples: Arc<Mutex<VecDeque<(Instant, QueryTotals)>>>,
    task: AbortHandle,
}

/// Queries a second.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct QueryRates {
    /// All queries since the start.
    pub total: u64,
    pub per_second: f64,
    /// What a second brings by transport.
    pub transports: BTreeMap<&'static str, f64>,
    /// What a second brings by response code; those that never occurred are left out.
    pub rcodes: BTreeMap<&'static str, f64>,
}

/// Queries a second, now and before.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Queries {
    #[serde(flatten)]
    pub rates: QueryRates,
    /// Seconds between the numbers of `history`.
    pub interval_seconds: f64,
    /// Queries a second over the last minutes, oldest first.
    pub history: Vec<f64>,
    /// The same for each response code that ever occurred.
    pub rcode_history: BTreeMap<&'static str, Vec<f64>>,
}

impl Rates {
    /// Begins to read. Must be called within a tokio runtime.
    pub fn start(metrics: Arc<Metrics>) -> Rates {
        let samples: Arc<Mutex<VecDeque<_>>> = Arc::default();
        let filled = samples.clone();
        let task = tokio::spawn(async move {
            let mut clock = interval(PACE);
            clock.set_missed_tick_behavior(MissedTickBehavior::Delay);
            loop {
                clock.tick().await;
                let mut samples = filled.lock().unwrap_or_else(PoisonError::into_inner);
                if samples.len() > SAMPLES {
                    samples.pop_front();
                }
                samples.push_back((Instant::now(), metrics.query_totals()));
            }
        });
        Rates { samples, task: task.abort_handle() }
    }

    /// The rates of the last minutes.
    pub fn read(&self) -> Queries {
        summarize(&self.samples.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Drop for Rates {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Makes rates of readings.
fn summarize(samples: &VecDeque<(Instant, QueryTotals)>) -> Queries {
    let Some((newest, totals)) = samples.back() else { return Queries::default() };
    let earlier = samples.iter().rev().skip(1).take_while(|(at, _)| newest.duration_since(*at) <= WINDOW).last();
    let (since, before) = earlier.map_or((*newest, totals), |(at, totals)| (*at, totals));
    let seconds = newest.duration_since(since).as_secs_f64();
    let present = |now: u64, before: u64| rate(now, before, seconds);
    let series = |of: &dyn Fn(&QueryTotals) -> u64| -> Vec<f64> {
        let pairs = samples.iter().zip(samples.iter().skip(1));
        pairs.map(|((since, old), (at, new))| rate(of(new), of(old), at.duration_since(*since).as_secs_f64())).collect()
    };
    let seen = || RCODES.iter().enumerate().filter(|(index, _)| totals.responses[*index] > 0);
    let sum = |totals: &QueryTotals| totals.queries.iter().sum::<u64>();
    let by_transport = TRANSPORTS.iter().zip(totals.queries.iter().zip(before.queries));
    let by_rcode =
        |(index, name): (usize, &&'static str)| (*name, present(totals.responses[index], before.responses[index]));
    Queries {
        rates: QueryRates {
            total: sum(totals),
            per_second: present(sum(totals), sum(before)),
            transports: by_transport.map(|(name, (now, before))| (*name, present(*now, before))).collect(),
            rcodes: seen().map(by_rcode).collect(),
        },
        interval_seconds: PACE.as_secs_f64(),
        history: series(&sum),
        rcode_history: seen().map(|(index, name)| (*name, series(&|totals| totals.responses[index]))).collect(),
    }
}

/// What a second brings, to a tenth.
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
            (start + Duration::from_secs(seconds), totals)
        };
        let rates = summarize(&[sample(0, 0), sample(2, 100), sample(12, 200), sample(14, 206)].into());
        assert_eq!((rates.rates.total, rates.rates.per_second), (206, 3.0), "the first reading is too old");
        assert_eq!(rates.history, [50.0, 10.0, 3.0]);
        assert_eq!(rates.rcode_history["NOERROR"], rates.history);
        assert_eq!(rates.rates.transports["udp"], 3.0);
        assert!(!rates.rates.rcodes.contains_key("NXDOMAIN"));
        let one = summarize(&[sample(0, 5)].into());
        assert_eq!((one.rates.per_second, one.history.len()), (0.0, 0));
    }
}
