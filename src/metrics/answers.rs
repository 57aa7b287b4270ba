//! Histograms of times that answers take here, by transport, in buckets from a microsecond on.
//!
//! Cost: O(buckets) to observe; whoever answers takes a sample.

use super::queries::{TRANSPORTS, Transport};
use prometheus::core::{Collector, Desc};
use prometheus::proto::MetricFamily;
use prometheus::{Histogram, HistogramOpts, HistogramVec, Opts};
use std::time::Duration;

/// Upper bounds of the buckets, in seconds.
const BOUNDS: [f64; 13] = [1e-6, 2.5e-6, 5e-6, 1e-5, 2.5e-5, 5e-5, 1e-4, 2.5e-4, 5e-4, 1e-3, 5e-3, 2.5e-2, 1e-1];

/// The family; clones share it.
#[derive(Clone)]
pub struct AnswerTimes {
    family: HistogramVec,
    by_transport: [Histogram; TRANSPORTS.len()],
}

impl AnswerTimes {
    /// Histograms of nothing yet.
    pub fn new(options: Opts, labels: &[&str]) -> prometheus::Result<AnswerTimes> {
        let family = HistogramVec::new(HistogramOpts::from(options).buckets(BOUNDS.to_vec()), labels)?;
        let by_transport = TRANSPORTS.map(|transport| family.with_label_values(&[transport]));
        Ok(AnswerTimes { family, by_transport })
    }

    /// Counts what took so long.
    pub fn observe(&self, transport: Transport, time: Duration) {
        self.by_transport[transport as usize].observe(time.as_secs_f64());
    }
}

impl Collector for AnswerTimes {
    fn desc(&self) -> Vec<&Desc> {
        self.family.desc()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        self.family.collect()
    }
}
