//! Metrics in Prometheus' terms: names, labels, help texts, and the counters of the query threads.
//!
//! Families that change rarely are the prometheus crate's own; what each query counts is in `queries`.
//!
//! Cost: a scrape is O(series + threads).

mod queries;

pub use queries::{QueryCounters, QueryTotals, RCODES, TRANSPORTS, Transport};

use prometheus::core::{Collector, MetricVec, MetricVecBuilder};
use prometheus::proto::{MetricFamily, MetricType};
use prometheus::{
    Gauge, Histogram, HistogramOpts, HistogramVec, IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Opts, Registry,
};
use queries::QueryCollector;
use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

/// Prefix of the name of every family.
const PREFIX: &str = "aggregator";

/// Description of a family, known before it has a series; `docs/metrics.md` is written from it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Family {
    /// Name as in a scrape.
    pub name: String,
    /// `counter`, `gauge` or `histogram`.
    pub kind: &'static str,
    pub help: String,
    pub labels: Vec<String>,
}

/// All metric families of the program.
pub struct Metrics {
    registry: Registry,
    families: Vec<Family>,
    queries: QueryCollector,
    pub tcp_connections: IntGauge,
    pub tcp_rejected: IntCounterVec,
    pub transfer_attempts: IntCounterVec,
    pub transfer_failures: IntCounterVec,
    pub transfer_duration: HistogramVec,
    pub transfer_bytes: IntCounterVec,
    pub transfer_success: IntGaugeVec,
    pub primary_failures: IntGaugeVec,
    pub silence_assumed: IntGaugeVec,
    pub silence_questions: IntCounterVec,
    pub transfer_held: IntGaugeVec,
    pub transfer_regressed: IntGaugeVec,
    pub memory_refused: IntGaugeVec,
    pub memory_budget: IntGauge,
    pub memory_accounted: IntGaugeVec,
    pub zone_memory: IntGaugeVec,
    pub transfer_anomalies: IntCounterVec,
    pub audit_drift: IntCounterVec,
    pub ixfr_noop_changes: IntCounterVec,
    pub doubt_questions: IntCounterVec,
    pub removals_vetoed: IntCounterVec,
    pub records_in_doubt: IntGaugeVec,
    pub notify_received: IntCounterVec,
    pub xfr_served: IntCounterVec,
    pub tsig_rejected: IntCounterVec,
    pub notify_sent: IntCounterVec,
    pub zone_serial: IntGaugeVec,
    pub zone_primary_serial: IntGaugeVec,
    pub zone_records: IntGaugeVec,
    pub zone_refreshed: IntGaugeVec,
    pub zone_refresh: IntGaugeVec,
    pub zone_expires: IntGaugeVec,
    pub zone_state: IntGaugeVec,
    pub region_serial: IntGaugeVec,
    pub region_serial_drift: IntGaugeVec,
    pub region_members: IntGaugeVec,
    pub region_drained: IntGaugeVec,
    pub region_pinned: IntGaugeVec,
    pub region_held: IntGaugeVec,
    pub region_withdrawals: IntCounterVec,
    pub region_conflicts: IntGaugeVec,
    pub zone_conflicts: IntGaugeVec,
    pub region_ns_fallback: IntGaugeVec,
    pub ns_problems: IntGaugeVec,
    pub ns_servers: IntGaugeVec,
    pub ns_probed: IntGaugeVec,
    pub publish_duration: Histogram,
    pub publishes: IntCounter,
    pub state_errors: IntCounterVec,
    pub state_healthy: IntGauge,
    pub log_lines_lost: IntCounter,
    pub reloads: IntCounterVec,
    pub config_is_current: IntGauge,
    pub config_loaded: IntGauge,
    pub zookeeper_session: IntGaugeVec,
    pub zookeeper_nodes: IntGaugeVec,
    pub zookeeper_broken_payloads: IntGaugeVec,
    pub zookeeper_tree_reset: IntGaugeVec,
    pub zookeeper_last_contact: IntGaugeVec,
    pub zookeeper_events: IntCounterVec,
    pub zookeeper_reads: IntCounterVec,
    pub zookeeper_losses: IntCounterVec,
}

/// Creates families, registers them, and notes what they are.
struct Maker {
    registry: Registry,
    families: RefCell<Vec<Family>>,
}

impl Maker {
    /// Registers a family.
    fn add<C: Collector + Clone + 'static>(&self, family: prometheus::Result<C>) -> C {
        let family = family.expect("metric names and labels are valid");
        self.registry.register(Box::new(family.clone())).expect("metric names are unique");
        // What is collected has the kind even without a series.
        let described = family.desc().into_iter().zip(family.collect()).map(|(description, collected)| Family {
            name: format!("{PREFIX}_{}", description.fq_name),
            kind: match collected.get_field_type() {
                MetricType::COUNTER => "counter",
                MetricType::HISTOGRAM => "histogram",
                _ => "gauge",
            },
            help: description.help.clone(),
            labels: description.variable_labels.clone(),
        });
        self.families.borrow_mut().extend(described);
        family
    }

    /// Registers counters with labels.
    fn counters(&self, name: &str, help: &str, labels: &[&str]) -> IntCounterVec {
        self.add(IntCounterVec::new(Opts::new(name, help), labels))
    }

    /// Registers gauges with labels.
    fn gauges(&self, name: &str, help: &str, labels: &[&str]) -> IntGaugeVec {
        self.add(IntGaugeVec::new(Opts::new(name, help), labels))
    }
}

impl Metrics {
    /// Creates and registers every family.
    pub fn new() -> Metrics {
        let registry = Registry::new_custom(Some(PREFIX.to_owned()), None).expect("the prefix is a valid name");
        let make = Maker { registry: registry.clone(), families: RefCell::default() };
        let primary = ["zone", "primary", "kind"];
        let seconds = vec![0.001, 0.005, 0.02, 0.1, 0.5, 2.0, 10.0, 60.0, 300.0];
        let transfers = HistogramOpts::new(
            "transfer_duration_seconds",
            "Time that successful transfers took, by what the primary sent: differences (ixfr) or the whole zone (axfr).",
        );
        let publications =
            HistogramOpts::new("publish_duration_seconds", "Time from taking updates to publishing them.");
        let queries = QueryCollector::new();
        make.add(Ok(queries.clone()));
        let build = make.gauges("build_info", "Always 1; the labels tell what was built.", &["version", "commit"]);
        let commit = option_env!("AGGREGATOR_COMMIT").unwrap_or("unknown");
        build.with_label_values(&[env!("CARGO_PKG_VERSION"), commit]).set(1);
        let started: Gauge = make
            .add(Gauge::new("started_timestamp_seconds", "When the program was started, Unix time with fractions."));
        // Two starts within a second are two values, so that restarts can be counted.
        started.set(SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64()));
        let mut metrics = Metrics {
            queries,
            tcp_connections: make.add(IntGauge::new("tcp_connections", "Open TCP and TLS connections from clients.")),
            tcp_rejected: make.counters(
                "tcp_rejected_total",
                "TCP and TLS connections closed to make room for newcomers, by the limit that was reached.",
                &["limit"],
            ),
            transfer_attempts: make.counters(
                "transfer_attempts_total",
                "Polls (kind soa) and zone transfers (kinds ixfr and axfr) begun.",
                &primary,
            ),
            transfer_failures: make.counters(
                "transfer_failures_total",
                "Polls and zone transfers that failed, by reason.",
                &["zone", "primary", "kind", "reason"],
            ),
            transfer_duration: make.add(HistogramVec::new(transfers.buckets(seconds.clone()), &["zone", "kind"])),
            transfer_bytes: make.counters("transfer_bytes_total", "Bytes received in zone transfers.", &["zone"]),
            transfer_success: make.gauges(
                "transfer_success_timestamp_seconds",
                "When a poll or zone transfer last succeeded, Unix time.",
                &primary,
            ),
            primary_failures: make.gauges(
                "primary_failures",
                "Polls and zone transfers that have failed in a row; 0 while the primary does what is asked of it.",
                &["zone", "primary"],
            ),
            silence_assumed: make.gauges(
                "silence_assumed",
                "1 while a CNS is assumed to announce nothing to us, so that its zones are polled every 10 s; only addresses \
                 of CNS have it.",
                &["primary"],
            ),
            silence_questions: make.counters(
                "silence_questions_total",
                "Questions for differences at our own serial that a CNS answered, so that it announces changes again.",
                &["primary"],
            ),
            transfer_held: make.gauges(
                "transfer_held",
                "1 while a transferred version, or a tree, is held back because it has shrunk sharply, or because the tree was reset.",
                &["zone"],
            ),
            transfer_regressed: make.gauges(
                "transfer_regressed",
                "1 while every primary that answers has an older serial than ours, and our copy is kept.",
                &["zone"],
            ),
            memory_refused: make.gauges(
                "memory_refused",
                "1 while a new version of the zone is refused because it would take more memory than the budget has.",
                &["zone"],
            ),
            memory_budget: make.add(IntGauge::new(
                "memory_budget_bytes",
                "Memory that zones, their histories and transfers in progress may take together.",
            )),
            memory_accounted: make.gauges(
                "memory_accounted_bytes",
                "Memory of the budget that is taken: zones with what regions hold of them and trees, transfers in progress, histories, pinned contents, the catalog, and what waits for the disk.",
                &["part"],
            ),
            zone_memory: make.gauges("zone_memory_bytes", "Memory that the zone takes by itself.", &["zone"]),
            transfer_anomalies: make.counters(
                "transfer_anomalies_total",
                "Records of adopted transfers that a zone cannot hold as they came, by kind.",
                &["zone", "kind"],
            ),
            audit_drift: make.counters(
                "audit_drift_names_total",
                "Names that a full audit found different although the serial was the same.",
                &["zone"],
            ),
            ixfr_noop_changes: make.counters(
                "ixfr_noop_changes_total",
                "Changes in incremental transfers that changed nothing: removals of absent records, additions of present ones.",
                &["zone"],
            ),
            doubt_questions: make.counters(
                "doubt_questions_total",
                "Questions to primaries for records whose removal is in doubt.",
                &["zone"],
            ),
            removals_vetoed: make.counters(
                "removals_vetoed_total",
                "Records that stayed although an incremental transfer removed them, because the primary still had them.",
                &["zone"],
            ),
            records_in_doubt: make.gauges(
                "records_in_doubt",
                "Records that stay although an incremental transfer removed them, until a whole zone tells, because the primary \
                 did not answer for them.",
                &["zone"],
            ),
            notify_received: make.counters(
                "notify_received_total",
                "NOTIFY requests for a source zone: accepted, or refused for their address; without a zone, stray ones: \
                 primaries announce zones that are not configured.",
                &["zone", "result"],
            ),
            xfr_served: make.counters(
                "xfr_served_total",
                "Requests for a zone transfer, by what was asked for or sent (kind axfr, ixfr, ixfr-full for a whole \
                 zone in answer to IXFR, current for an SOA alone) and by what became of it: ok, a reason to refuse it, or \
                 slow, displaced (by others), aborted (by the client) and oversized for those that were cut.",
                &["zone", "kind", "result"],
            ),
            tsig_rejected: make.counters(
                "tsig_rejected_total",
                "Signed requests that were not carried out for their signature, by reason.",
                &["reason"],
            ),
            notify_sent: make.counters(
                "notify_sent_total",
                "Announcements of a zone to its secondaries, by what came of them: acknowledged, timeout, a response code, \
                 tsig, error.",
                &["zone", "result"],
            ),
            zone_serial: make.gauges("zone_serial", "Serial of the zone as it is served.", &["zone"]),
            zone_primary_serial: make.gauges(
                "zone_primary_serial",
                "Serial that the primary announced last.",
                &["zone", "primary"],
            ),
            zone_records: make.gauges("zone_records", "Records in the zone.", &["zone"]),
            zone_refreshed: make.gauges(
                "zone_refreshed_timestamp_seconds",
                "When a primary last confirmed or sent the zone, Unix time.",
                &["zone"],
            ),
            zone_refresh: make.gauges(
                "zone_refresh_seconds",
                "How often the zone asks to be looked for (REFRESH of its SOA record).",
                &["zone"],
            ),
            zone_expires: make.gauges(
                "zone_expires_timestamp_seconds",
                "When the zone expires unless a primary answers before, Unix time.",
                &["zone"],
            ),
            zone_state: make.gauges("zone_state", "1 for the state that the zone is in.", &["zone", "state"]),
            region_serial: make.gauges("region_serial", "Serial of the region as it is served.", &["region"]),
            region_serial_drift: make.gauges(
                "region_serial_drift",
                "How far the region's serial is above the sum of its members' serials.",
                &["region"],
            ),
            region_members: make.gauges("region_members", "Members of the region by state.", &["region", "state"]),
            region_drained: make.gauges(
                "region_drained_since_timestamp_seconds",
                "When the oldest drain of the member in the region began; no series without one.",
                &["region", "member"],
            ),
            region_pinned: make.gauges(
                "region_pinned_since_timestamp_seconds",
                "When the region was pinned to the contents of an earlier version; no series where it is not.",
                &["region"],
            ),
            region_held: make.gauges(
                "region_held_addresses",
                "Addresses that members have withdrawn and that services of the region keep for a while.",
                &["region"],
            ),
            region_withdrawals: make.counters(
                "region_withdrawals_total",
                "Addresses that members have withdrawn from damped services, by what became of them.",
                &["region", "result"],
            ),
            region_conflicts: make.gauges(
                "region_conflicts",
                "Names at which records of members were dropped or hidden, by kind.",
                &["region", "kind"],
            ),
            zone_conflicts: make.gauges(
                "zone_conflicts",
                "Names at which a zone cannot hold records of its primary, by kind; absent without any.",
                &["zone", "kind"],
            ),
            region_ns_fallback: make.gauges(
                "region_nameserver_fallback",
                "1 while the region lists this server alone because its members' NS sets have nothing in common.",
                &["region"],
            ),
            ns_problems: make.gauges(
                "ns_problems",
                "1 for each fault of a name server that the zone or its parent lists: lame, unreachable, stale, ahead, foreign (it \
                 lists other servers), no-glue, other-glue, unresolved, alias, undelegated, and unknown for what could not be found \
                 out.",
                &["zone", "server", "problem"],
            ),
            ns_servers: make.gauges(
                "ns_servers",
                "Addresses of name servers that were asked about the zone, and servers of its parent.",
                &["zone"],
            ),
            ns_probed: make.gauges(
                "ns_probed_timestamp_seconds",
                "When the name servers of the zone were last asked, Unix time.",
                &["zone"],
            ),
            publish_duration: make.add(Histogram::with_opts(publications.buckets(seconds))),
            publishes: make.add(IntCounter::new("publishes_total", "Versions of the whole data published.")),
            state_errors: make.counters(
                "state_errors_total",
                "What went wrong with the state on disk, by operation.",
                &["operation"],
            ),
            state_healthy: make.add(IntGauge::new(
                "state_healthy",
                "1 while everything that should be on disk is there or on its way, 0 while the disk refuses something.",
            )),
            log_lines_lost: make.add(IntCounter::new(
                "log_lines_lost_total",
                "Log lines that found no room because nobody read the log.",
            )),
            reloads: make.counters("reloads_total", "Configuration reloads by result.", &["result"]),
            config_is_current: make.add(IntGauge::new(
                "config_last_reload_successful",
                "1 after the start and a reload that succeeded, 0 after one that failed or a configuration that was refused.",
            )),
            config_loaded: make.add(IntGauge::new(
                "config_loaded_timestamp_seconds",
                "When the running configuration was loaded, Unix time.",
            )),
            zookeeper_session: make.gauges(
                "zookeeper_session",
                "1 for the state of the session that feeds the zone: live, reading the tree, or disconnected.",
                &["zone", "state"],
            ),
            zookeeper_nodes: make.gauges("zookeeper_nodes", "Nodes of the zone's tree.", &["zone"]),
            zookeeper_broken_payloads: make.gauges(
                "zookeeper_broken_payloads",
                "Nodes of the zone's tree whose payload makes no records.",
                &["zone"],
            ),
            zookeeper_tree_reset: make.gauges(
                "zookeeper_tree_reset",
                "1 while what was served is served on because the domain's node is missing, was made anew, or is older than that.",
                &["zone", "reason"],
            ),
            zookeeper_last_contact: make.gauges(
                "zookeeper_last_contact_timestamp_seconds",
                "When ZooKeeper last answered, Unix time.",
                &["zone"],
            ),
            zookeeper_events: make.counters(
                "zookeeper_events_total",
                "Changes of the zone's tree that ZooKeeper told of.",
                &["zone"],
            ),
            zookeeper_reads: make.counters("zookeeper_reads_total", "Times that the whole tree was read.", &["zone"]),
            zookeeper_losses: make.counters(
                "zookeeper_session_losses_total",
                "Sessions that broke, by reason.",
                &["zone", "reason"],
            ),
            registry,
            families: Vec::new(),
        };
        metrics.families = make.families.take();
        metrics
    }

    /// Every family that there can be, whether it has a series or not, in the order in which they were made.
    pub fn families(&self) -> &[Family] {
        &self.families
    }

    /// Counts a reload.
    pub fn count_reload(&self, is_ok: bool) {
        self.config_is_current.set(i64::from(is_ok));
        self.reloads.with_label_values(&[if is_ok { "ok" } else { "failed" }]).inc();
    }

    /// A counter block for one query thread.
    pub fn query_counters(&self) -> Arc<QueryCounters> {
        self.queries.add_block()
    }

    /// Numbers of queries, summed over all threads.
    pub fn query_totals(&self) -> QueryTotals {
        self.queries.totals()
    }

    /// Everything in Prometheus' text format.
    pub fn render(&self) -> String {
        let mut text = String::new();
        // Writing into a String cannot fail, and every family is well formed.
        let _ = prometheus::TextEncoder::new().encode_utf8(&self.registry.gather(), &mut text);
        text
    }

    /// Removes the series of a zone or region that is no longer configured.
    pub fn forget(&self, zone: &str) {
        for family in [
            &self.transfer_attempts,
            &self.transfer_failures,
            &self.transfer_bytes,
            &self.transfer_anomalies,
            &self.audit_drift,
            &self.ixfr_noop_changes,
            &self.doubt_questions,
            &self.removals_vetoed,
            &self.notify_received,
            &self.xfr_served,
            &self.notify_sent,
            &self.region_withdrawals,
        ] {
            forget_in(family, zone, |_| true);
        }
        self.forget_tree(zone);
        self.forget_probe(zone);
        forget_in(&self.transfer_duration, zone, |_| true);
        for family in [
            &self.transfer_success,
            &self.primary_failures,
            &self.transfer_held,
            &self.transfer_regressed,
            &self.records_in_doubt,
            &self.memory_refused,
            &self.zone_memory,
            &self.zone_serial,
            &self.zone_primary_serial,
            &self.zone_records,
            &self.zone_refreshed,
            &self.zone_refresh,
            &self.zone_expires,
            &self.zone_state,
            &self.region_serial,
            &self.region_serial_drift,
            &self.region_members,
            &self.region_drained,
            &self.region_pinned,
            &self.region_held,
            &self.region_conflicts,
            &self.zone_conflicts,
            &self.region_ns_fallback,
        ] {
            forget_in(family, zone, |_| true);
        }
    }

    /// Removes the series of what was found about a zone's name servers.
    pub fn forget_probe(&self, zone: &str) {
        for family in [&self.ns_problems, &self.ns_servers, &self.ns_probed] {
            forget_in(family, zone, |_| true);
        }
    }

    /// Removes the series of the tree that a zone no longer comes from, and whether its growth was refused.
    pub fn forget_tree(&self, zone: &str) {
        for family in [&self.zookeeper_events, &self.zookeeper_reads, &self.zookeeper_losses] {
            forget_in(family, zone, |_| true);
        }
        for family in [
            &self.zookeeper_session,
            &self.zookeeper_nodes,
            &self.zookeeper_broken_payloads,
            &self.zookeeper_tree_reset,
            &self.zookeeper_last_contact,
            &self.memory_refused,
        ] {
            forget_in(family, zone, |_| true);
        }
    }

    /// Removes the series of an address from which no zone comes any more.
    pub fn forget_silence(&self, primary: &str) {
        // A series that is not there is as good as removed.
        let _ = self.silence_assumed.remove_label_values(&[primary]);
        let _ = self.silence_questions.remove_label_values(&[primary]);
    }

    /// Removes the series of the primaries that a zone no longer has: a time of last success that nothing moves any
    /// more would alarm for ever.
    pub fn keep_primaries(&self, zone: &str, kept: &[String]) {
        let gone = |primary: Option<&str>| primary.is_some_and(|primary| !kept.iter().any(|kept| kept == primary));
        for family in [&self.transfer_attempts, &self.transfer_failures] {
            forget_in(family, zone, gone);
        }
        for family in [&self.transfer_success, &self.primary_failures, &self.zone_primary_serial] {
            forget_in(family, zone, gone);
        }
    }
}

/// Removes the series whose `zone` or `region` label has the value, if their `primary` label is gone, too.
fn forget_in<T: MetricVecBuilder + 'static>(family: &MetricVec<T>, zone: &str, gone: impl Fn(Option<&str>) -> bool) {
    for metric in family.collect().iter().flat_map(MetricFamily::get_metric) {
        let labels: HashMap<&str, &str> = metric.get_label().iter().map(|pair| (pair.name(), pair.value())).collect();
        let is_of_zone = labels.get("zone").or(labels.get("region")) == Some(&zone);
        if is_of_zone && gone(labels.get("primary").copied()) {
            // A series that is gone already is as good as removed.
            let _ = family.remove(&labels);
        }
    }
}

impl Default for Metrics {
    fn default() -> Self {
        Metrics::new()
    }
}

/// Seconds of Unix time.
pub fn unix_seconds(time: SystemTime) -> i64 {
    time.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs() as i64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn query_counters_are_summed_over_threads_that_come_and_go() {
        let metrics = Metrics::new();
        let (first, second) = (metrics.query_counters(), metrics.query_counters());
        first.count(Transport::Udp, 0, false);
        second.count(Transport::Udp, 3, true);
        drop(first);
        metrics.render();
        second.count(Transport::Tcp, 16, false);
        drop(second);
        let text = metrics.render();
        for line in [
            "aggregator_queries_total{transport=\"udp\"} 2",
            "aggregator_queries_total{transport=\"tcp\"} 1",
            "aggregator_responses_total{rcode=\"NXDOMAIN\"} 1",
            "aggregator_responses_total{rcode=\"BADVERS\"} 1",
            "aggregator_truncated_total 1",
        ] {
            assert!(text.contains(line), "{line} in\n{text}");
        }
        assert_eq!(metrics.render(), text);
        let totals = metrics.query_totals();
        assert_eq!((totals.queries, totals.responses[3], totals.responses[16]), ([2, 1, 0], 1, 1));
    }

    #[test]
    fn a_forgotten_zone_leaves_no_series() {
        let metrics = Metrics::new();
        metrics.zone_serial.with_label_values(&["a."]).set(1);
        metrics.zone_serial.with_label_values(&["b."]).set(2);
        metrics.transfer_failures.with_label_values(&["a.", "192.0.2.1:53", "soa", "timeout"]).inc();
        metrics.region_members.with_label_values(&["a.", "ok"]).set(1);
        metrics.forget("a.");
        let text = metrics.render();
        assert!(!text.contains("\"a.\"") && text.contains("zone=\"b.\""), "{text}");
    }
}
