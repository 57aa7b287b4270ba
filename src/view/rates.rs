//! Rates of queries over the last minutes, hour and day: in all, by transport and by response code; the present ones by
//! zone, too.
//!
//! A task reads the counters every few seconds; the threads that answer know nothing of it. Of each [`Range`] it keeps
//! readings at that range's distance.
//!
//! Invariant: a rate is that between two readings; the newest is at most `PACE` old. What is kept has a bound that does
//! not grow with zones, queries or time.
//!
//! Cost: O(threads + zones) for a reading, of which some 400 are kept, those of zones for ten seconds.

use crate::metrics::{Metrics, QueryTotals, RCODES, TRANSPORTS};
use crate::publish::{Publisher, Tally};
use parking_lot::Mutex;
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};
use strum::{EnumIter, EnumString, IntoEnumIterator, IntoStaticStr};
use tokio::task::AbortHandle;
use tokio::time::{MissedTickBehavior, interval};
use wire::name::Name;

/// Time between readings.
const PACE: Duration = Duration::from_secs(2);
/// Parts of the distance of two readings by which the second may come early: clocks of tasks are not exact.
const EARLY: u32 = 20;
/// A rate that is shown as the present one is the mean of this time, so that it can be read.
const WINDOW: Duration = Duration::from_secs(10);

/// Time that a history reaches back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, EnumIter, EnumString, IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
pub enum Range {
    /// Five minutes.
    #[default]
    Minutes,
    Hour,
    Day,
}

impl Range {
    /// Number of ranges.
    const COUNT: usize = 3;

    /// Time between two readings.
    pub fn interval(self) -> Duration {
        match self {
            Range::Minutes => PACE,
            Range::Hour => Duration::from_secs(30),
            Range::Day => Duration::from_secs(600),
        }
    }

    /// Numbers of a whole history, each between two readings.
    pub fn numbers(self) -> usize {
        match self {
            Range::Minutes => 150,
            Range::Hour => 120,
            Range::Day => 144,
        }
    }
}

/// Counters as they stood at one time.
struct Reading {
    at: Instant,
    totals: QueryTotals,
    /// Publications since the start.
    generation: u64,
    /// Counters by zone; empty if the reading is old.
    zones: HashMap<Name, [u64; Tally::KINDS.len()]>,
}

/// The readings of each range, oldest first.
#[derive(Default)]
struct Readings([VecDeque<Reading>; Range::COUNT]);

/// Readings of the counters, which end when this is dropped.
pub struct Rates {
    readings: Arc<Mutex<Readings>>,
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
    /// Seconds between the numbers of `history`; the last may be of less time.
    pub interval_seconds: f64,
    /// Queries a second over the range, oldest first.
    pub history: Vec<f64>,
    /// Queries a second over the range for each response code that ever occurred.
    pub rcode_history: BTreeMap<&'static str, Vec<f64>>,
    /// Publications a minute over the range.
    pub publications: Vec<f64>,
}

impl Rates {
    /// Begins to read. Must be called within a tokio runtime.
    pub fn start(metrics: Arc<Metrics>, publisher: Arc<Publisher>) -> Rates {
        let readings: Arc<Mutex<Readings>> = Arc::default();
        let filled = readings.clone();
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
                filled.lock().add(Reading { at, totals, generation: published.generation, zones });
            }
        });
        Rates { readings, task: task.abort_handle() }
    }

    /// The rates of a range.
    pub fn read(&self, range: Range) -> Queries {
        summarize(&self.readings.lock(), range)
    }
}

impl Readings {
    /// Adds a reading where it is due.
    fn add(&mut self, reading: Reading) {
        for range in Range::iter().skip(1) {
            let samples = &mut self.0[range as usize];
            let due = range.interval() - range.interval() / EARLY;
            if samples.back().is_none_or(|last| reading.at.duration_since(last.at) >= due) {
                let Reading { at, ref totals, generation, .. } = reading;
                push(samples, Reading { at, totals: totals.clone(), generation, zones: HashMap::new() }, range);
            }
        }
        let samples = &mut self.0[Range::Minutes as usize];
        let aged = samples.iter_mut().rev().find(|sample| reading.at.duration_since(sample.at) > WINDOW);
        aged.into_iter().for_each(|sample| sample.zones = HashMap::new());
        push(samples, reading, Range::Minutes);
    }

    /// The readings of a range, and the newest of all at the end.
    fn of(&self, range: Range) -> Vec<&Reading> {
        let mut readings: Vec<&Reading> = self.0[range as usize].iter().collect();
        let newest = self.0[Range::Minutes as usize].back();
        readings.extend(newest.filter(|newest| readings.last().is_none_or(|last| last.at < newest.at)));
        // Then the first one is more than the range ago.
        if readings.len() > range.numbers() + 1 {
            readings.remove(0);
        }
        readings
    }
}

/// Adds a reading, and lets go of one that is older than the range.
fn push(samples: &mut VecDeque<Reading>, reading: Reading, range: Range) {
    if samples.len() > range.numbers() {
        samples.pop_front();
    }
    samples.push_back(reading);
}

impl Drop for Rates {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Makes rates of readings.
fn summarize(readings: &Readings, range: Range) -> Queries {
    let samples = &readings.0[Range::Minutes as usize];
    let Some(newest) = samples.back() else { return Queries::default() };
    let earlier = samples.iter().rev().skip(1).take_while(|old| newest.at.duration_since(old.at) <= WINDOW).last();
    let earlier = earlier.unwrap_or(newest);
    let (totals, before) = (&newest.totals, &earlier.totals);
    let seconds = newest.at.duration_since(earlier.at).as_secs_f64();
    let present = |now: u64, before: u64| rate(now, before, seconds);
    let shown = readings.of(range);
    let series = |of: &dyn Fn(&Reading) -> u64, times: f64| -> Vec<f64> {
        let seconds = |old: &Reading, new: &Reading| new.at.duration_since(old.at).as_secs_f64() / times;
        shown.windows(2).map(|pair| rate(of(pair[1]), of(pair[0]), seconds(pair[0], pair[1]))).collect()
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
        interval_seconds: range.interval().as_secs_f64(),
        history: series(&|reading| sum(&reading.totals), 1.0),
        rcode_history: seen()
            .map(|(index, name)| (*name, series(&|reading| reading.totals.responses[index], 1.0)))
            .collect(),
        publications: series(&|reading| reading.generation, 60.0),
    }
}

/// Returns the rate a second between two readings, rounded to a tenth.
fn rate(now: u64, before: u64, seconds: f64) -> f64 {
    if seconds > 0.0 { (now.saturating_sub(before) as f64 / seconds * 10.0).round() / 10.0 } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A reading so many seconds after a start, of so many queries.
    fn sample(start: Instant, seconds: u64, queries: u64) -> Reading {
        let mut totals = QueryTotals::default();
        (totals.queries[0], totals.responses[0]) = (queries, queries);
        let zones = [("a", [queries, 0, 0, 0]), ("b", [0; 4])];
        let zones = zones.map(|(name, counts)| (Name::parse(name).unwrap(), counts)).into();
        Reading { at: start + Duration::from_secs(seconds), totals, generation: seconds / 2, zones }
    }

    #[test]
    fn rates_are_those_between_readings() {
        assert_eq!(summarize(&Readings::default(), Range::Day), Queries::default());
        let start = Instant::now();
        let all = |samples: &[(u64, u64)]| {
            let mut readings = Readings::default();
            samples.iter().for_each(|(seconds, queries)| readings.add(sample(start, *seconds, *queries)));
            summarize(&readings, Range::Minutes)
        };
        let rates = all(&[(0, 0), (2, 100), (12, 200), (14, 206)]);
        assert_eq!((rates.rates.total, rates.rates.per_second), (206, 3.0), "the first reading is too old");
        assert_eq!(rates.history, [50.0, 10.0, 3.0]);
        assert_eq!(rates.publications, [30.0; 3]);
        assert_eq!(rates.rcode_history["NOERROR"], rates.history);
        assert_eq!(rates.rates.transports["udp"], 3.0);
        assert_eq!((rates.rates.zones.len(), rates.rates.zones["a."].rcodes["NOERROR"]), (1, 3.0));
        assert!(!rates.rates.rcodes.contains_key("NXDOMAIN"));
        let one = all(&[(0, 5)]);
        assert_eq!((one.rates.per_second, one.history.len()), (0.0, 0));
    }

    #[test]
    fn an_hour_and_a_day_are_kept_and_no_more() {
        let (start, mut readings) = (Instant::now(), Readings::default());
        // Seven queries a second, and a hundred more in one of the seconds of the last half hour.
        let queries = |seconds: u64| seconds * 7 + if seconds > 85_000 { 100 } else { 0 };
        for seconds in (0..=86_400 + 7_200).step_by(2) {
            readings.add(sample(start, seconds, queries(seconds)));
        }
        for range in Range::iter() {
            let told = summarize(&readings, range);
            assert_eq!((told.history.len(), told.rates.per_second), (range.numbers(), 7.0), "{range:?}");
            assert_eq!(told.interval_seconds, range.interval().as_secs_f64());
            let kept = &readings.0[range as usize];
            assert_eq!(kept.len(), range.numbers() + 1);
            assert!(kept.iter().filter(|reading| !reading.zones.is_empty()).count() <= 6, "{range:?}");
        }
        let day = summarize(&readings, Range::Day).history;
        let odd: Vec<f64> = day.into_iter().filter(|rate| *rate != 7.0).collect();
        assert_eq!(odd, [7.2], "a hundred in ten minutes");
        let early = |range: Range, seconds: u64| {
            let mut readings = Readings::default();
            (0..=seconds).step_by(2).for_each(|at| readings.add(sample(start, at, queries(at))));
            summarize(&readings, range).history
        };
        assert_eq!(early(Range::Hour, 64), [7.0; 3], "the last is of four seconds");
        assert_eq!(early(Range::Day, 4), [7.0]);
    }
}
