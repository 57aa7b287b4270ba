//! The histogram of times that answers take here, in buckets from a microsecond on.
//!
//! Cost: O(buckets) to observe; whoever answers takes a sample.

use prometheus::core::{Collector, Desc};
use prometheus::proto::MetricFamily;
use prometheus::{Histogram, HistogramOpts, Opts};
use std::time::Duration;

/// Upper bounds of the buckets, in seconds.
const BOUNDS: [f64; 13] = [1e-6, 2.5e-6, 5e-6, 1e-5, 2.5e-5, 5e-5, 1e-4, 2.5e-4, 5e-4, 1e-3, 5e-3, 2.5e-2, 1e-1];

/// The family; clones share it.
#[derive(Clone)]
pub struct AnswerTimes(Histogram);

impl AnswerTimes {
    /// A histogram of nothing yet.
    pub fn with_opts(options: Opts) -> prometheus::Result<AnswerTimes> {
        Histogram::with_opts(HistogramOpts::from(options).buckets(BOUNDS.to_vec())).map(AnswerTimes)
    }

    /// Counts what took so long.
    pub fn observe(&self, time: Duration) {
        self.0.observe(time.as_secs_f64());
    }
}

impl Collector for AnswerTimes {
    fn desc(&self) -> Vec<&Desc> {
        self.0.desc()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        self.0.collect()
    }
}
