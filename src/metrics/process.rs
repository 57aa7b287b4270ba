//! The families by which Prometheus knows any process: processor time, memory, open files.
//!
//! They have the usual names, without our prefix. Where the system hides what a process has open from itself, as it does
//! for one that gave up root and whose memory is hidden, that series is missing.
//!
//! Cost: O(open files) for a reading.

use super::Metrics;
use rustix::param::{clock_ticks_per_second, page_size};
use rustix::process::{Resource, getrlimit};
use std::fs;

/// Fields of `/proc/self/stat` behind the name of the program (proc(5)), by their place there.
const UTIME: usize = 11;
const STIME: usize = 12;
const THREADS: usize = 17;
const VSIZE: usize = 20;
const RSS: usize = 21;

/// Sets the families.
pub(super) fn show(metrics: &Metrics) {
    metrics.process_start.set(metrics.started.get());
    if let Some(limit) = getrlimit(Resource::Nofile).current {
        metrics.process_max_fds.set(i64::try_from(limit).unwrap_or(i64::MAX));
    }
    if let Ok(open) = fs::read_dir("/proc/self/fd") {
        // One of them is the folder itself.
        metrics.process_open_fds.with_label_values(&[] as &[&str]).set(open.count() as i64 - 1);
    }
    let Ok(text) = fs::read_to_string("/proc/self/stat") else { return };
    let Some(fields) = read_fields(&text) else { return };
    metrics.process_cpu.reset();
    metrics.process_cpu.inc_by((fields[UTIME] + fields[STIME]) as f64 / clock_ticks_per_second() as f64);
    metrics.process_threads.set(fields[THREADS] as i64);
    metrics.process_virtual.set(fields[VSIZE] as i64);
    metrics.process_resident.set((fields[RSS] * page_size() as u64) as i64);
}

/// The numbers behind the name of the program, which may have blanks and brackets of its own; those that are none are 0.
fn read_fields(text: &str) -> Option<Vec<u64>> {
    let (_, rest) = text.rsplit_once(") ")?;
    let fields: Vec<u64> = rest.split_ascii_whitespace().map(|field| field.parse().unwrap_or_default()).collect();
    (fields.len() > RSS).then_some(fields)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fields_are_behind_the_name() {
        let text = "42 (a) b (c)) S 1 2 3 4 5 6 7 8 9 10 250 50 13 14 15 16 9 18 19 2097152 12 22 23";
        let fields = read_fields(text).unwrap();
        assert_eq!([UTIME, STIME, THREADS, VSIZE, RSS].map(|place| fields[place]), [250, 50, 9, 2_097_152, 12]);
        assert_eq!(read_fields("42 (a) S 1 2"), None);
    }

    #[test]
    fn this_process_has_them() {
        let metrics = Metrics::new();
        let work: u64 = (0..30_000_000u64).fold(0, |sum, number| std::hint::black_box(sum ^ number));
        let text = metrics.render();
        let value = |name: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
            line.and_then(|value| value.parse::<f64>().ok()).unwrap_or_else(|| panic!("{name} {work}: {text}"))
        };
        assert!(value("process_cpu_seconds_total") > 0.0 && value("process_threads") >= 1.0);
        assert!(value("process_resident_memory_bytes") > 1e6);
        assert!(value("process_virtual_memory_bytes") > value("process_resident_memory_bytes"));
        assert!(value("process_open_fds") >= 3.0 && value("process_max_fds") > value("process_open_fds"));
        assert!(value("process_start_time_seconds") > 1.7e9);
    }
}
