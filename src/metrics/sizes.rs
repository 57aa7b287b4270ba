//! The histogram of the sizes of responses, out of counters that somebody else counts in.
//!
//! Cost: O(classes) for a reading.

use super::queries::{QueryTotals, SIZES, size_bound};
use prometheus::Opts;
use prometheus::core::{Collector, Desc, Describer};
use prometheus::proto::{Bucket, Histogram, Metric, MetricFamily, MetricType};
use std::sync::{Arc, Mutex, PoisonError};

/// Numbers of responses by class of size, and their octets together.
#[derive(Clone, Copy, Default)]
struct Counts {
    sizes: [u64; SIZES],
    octets: u64,
}

/// The family; clones share it.
#[derive(Clone)]
pub struct SizeHistogram {
    description: Desc,
    counts: Arc<Mutex<Counts>>,
}

impl SizeHistogram {
    /// A histogram of nothing yet.
    pub fn with_opts(options: Opts) -> prometheus::Result<SizeHistogram> {
        Ok(SizeHistogram { description: options.describe()?, counts: Arc::default() })
    }

    /// Takes what was counted.
    pub fn set(&self, totals: &QueryTotals) {
        *self.counts.lock().unwrap_or_else(PoisonError::into_inner) =
            Counts { sizes: totals.sizes, octets: totals.octets };
    }
}

impl Collector for SizeHistogram {
    fn desc(&self) -> Vec<&Desc> {
        vec![&self.description]
    }

    fn collect(&self) -> Vec<MetricFamily> {
        let counts = *self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        let (mut histogram, mut buckets, mut below) = (Histogram::default(), Vec::new(), 0);
        for (class, count) in counts.sizes.into_iter().enumerate() {
            below += count;
            let mut bucket = Bucket::default();
            bucket.set_upper_bound(size_bound(class) as f64);
            bucket.set_cumulative_count(below);
            buckets.push(bucket);
        }
        histogram.set_bucket(buckets);
        histogram.set_sample_count(below);
        histogram.set_sample_sum(counts.octets as f64);
        let mut metric = Metric::default();
        metric.set_histogram(histogram);
        let mut family = MetricFamily::default();
        family.set_name(self.description.fq_name.clone());
        family.set_help(self.description.help.clone());
        family.set_field_type(MetricType::HISTOGRAM);
        family.set_metric(vec![metric]);
        vec![family]
    }
}
