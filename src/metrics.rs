//! Metrics in Prometheus' terms: names, labels, help texts, and the counters of the query threads.
//!
//! A family is one row of the table in this file: its documentation is its help, its labels decide with what its series
//! go. Families are the prometheus crate's own; those by zone have few series however many zones there are (`by_zone`).
//! What each query counts is in `queries`, and is put into them when scraped; so are the keeper's gauges
//! (`set_when_read`) and what any process has (`process`).
//!
//! Cost: a scrape is O(series + threads), beside what the keeper's gauges take.

mod answers;
mod by_zone;
mod peers;
mod process;
mod queries;
mod sizes;
mod transfers;

pub use answers::AnswerTimes;
pub use by_zone::{OWN_ZONES, REST, ZoneCounters, ZoneFaults, ZoneValues};
pub use peers::{Peer, PeerCounts, Peers};
pub use queries::{CLASSES, COOKIES, Counted, QueryCounters, QueryTotals, RCODES, TRANSPORTS, Transport};
pub use transfers::{SentTransfers, TransferCounts};

use prometheus::core::{Atomic, Collector, Desc, GenericCounter, GenericGauge, MetricVec, MetricVecBuilder};
use prometheus::proto::{MetricFamily, MetricType};
use prometheus::{
    Counter, Gauge, Histogram, HistogramOpts, HistogramVec, IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Opts,
    Registry,
};
use queries::{DROPPED, QueryBlocks, TYPES};
use sizes::SizeHistogram;
use std::collections::BTreeMap;
use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::{SystemTime, UNIX_EPOCH};

/// Prefix of the name of every family.
const PREFIX: &str = "aggregator";
/// The beginning of the names of those that any process has, which have no prefix.
const USUAL: &str = "process_";
/// Upper bounds of the buckets of every histogram, in seconds.
const SECONDS: [f64; 14] = [0.001, 0.005, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 300.0];

/// Writes the fields of [`Metrics`] and their registration from one table: in a row stand help, field, and how the
/// family is made, with its name and labels.
macro_rules! families {
    ($($(#[doc = $help:literal])+ $field:ident: $kind:ident::$make:ident($name:literal $(, $labels:expr)?);)+) => {
        /// All metric families of the program.
        pub struct Metrics {
            families: Families,
            blocks: QueryBlocks,
            readings: Readings,
            /// Transfers to secondaries of every zone, for `status`.
            pub sent: SentTransfers,
            /// What secondaries have asked for.
            pub peers: Peers,
            $($(#[doc = $help])+ pub $field: $kind,)+
        }

        impl Metrics {
            /// Creates and registers every family.
            fn register() -> Metrics {
                let mut families = Families::new();
                $(let $field = families.add($kind::$make(options($name, concat!($($help),+)) $(, $labels)?));)+
                Metrics {
                    families,
                    blocks: QueryBlocks::default(),
                    readings: Readings::default(),
                    sent: SentTransfers::default(),
                    peers: Peers::default(),
                    $($field,)+
                }
            }
        }
    };
}

/// The commit that was built, where the build knows it.
pub const COMMIT: &str = match option_env!("AGGREGATOR_COMMIT") {
    Some(commit) => commit,
    None => "unknown",
};

families! {
    /// Always 1; the labels tell what was built.
    build_info: IntGaugeVec::new("build_info", &["version", "commit"]);
    /// When the program was started, Unix time with fractions.
    started: Gauge::with_opts("started_timestamp_seconds");
    /// Processor time that the process has used, in seconds.
    process_cpu: Counter::with_opts("process_cpu_seconds_total");
    /// Resident memory of the process.
    process_resident: IntGauge::with_opts("process_resident_memory_bytes");
    /// Virtual memory of the process.
    process_virtual: IntGauge::with_opts("process_virtual_memory_bytes");
    /// Files that the process has open, sockets among them; missing where the system hides them.
    process_open_fds: IntGaugeVec::new("process_open_fds", &[]);
    /// Files that the process may have open.
    process_max_fds: IntGauge::with_opts("process_max_fds");
    /// Threads of the process.
    process_threads: IntGauge::with_opts("process_threads");
    /// When the process was started, Unix time with fractions.
    process_start: Gauge::with_opts("process_start_time_seconds");
    /// Panics of threads and tasks. Each is a defect, which the log has; what panicked is done again, or only its client
    /// has nothing of it.
    panics: IntCounter::with_opts("panics_total");
    /// Queries that got a response.
    queries: IntCounterVec::new("queries_total", &["transport"]);
    /// Responses by response code.
    responses: IntCounterVec::new("responses_total", &["rcode"]);
    /// Queries that got a response, by the type that was asked for.
    query_types: IntCounterVec::new("query_types_total", &["type"]);
    /// Sizes of responses, those over TCP and TLS without their length in front.
    response_sizes: SizeHistogram::with_opts("response_size_bytes");
    /// How long queries waited for their responses from the moment at which the server had them until it had written the
    /// responses, in each burst of a connection, and in one batch of 256 over UDP. A batch or burst is what waits at once,
    /// and leaves together; a client that reads late makes its own burst long.
    answer_times: AnswerTimes::new("answer_seconds", &["transport"]);
    /// Responses sent with the TC bit.
    truncated: IntCounter::with_opts("truncated_total");
    /// Messages that got no response, by reason.
    dropped: IntCounterVec::new("dropped_total", &["reason"]);
    /// Responses over UDP, and connections over TCP and TLS, that were over the limit of their client's network, by class of
    /// response; with mode "log" they were sent in full, or served, all the same.
    rate_limited: IntCounterVec::new("rate_limited_total", &["class"]);
    /// Queries over UDP with DNS Cookies, by what these show: client, a client cookie that stands alone; valid, that the
    /// address is not forged; invalid, a server cookie that is wrong, too old, or another server's.
    cookies: IntCounterVec::new("cookies_total", &["shown"]);
    /// Networks whose responses over UDP or connections are over the limit at present, 64 at most.
    rate_limited_networks: IntGauge::with_opts("rate_limited_networks");
    /// Messages for the collector of dnstap, by what became of them: sent, or dropped because it takes no more or is not
    /// there.
    dnstap_messages: IntCounterVec::new("dnstap_messages_total", &["result"]);
    /// Requests to the collector of traces, by what became of them: sent, or failed, so that spans were dropped.
    trace_requests: IntCounterVec::new("trace_requests_total", &["result"]);
    /// Whether the collector of dnstap is connected.
    dnstap_connected: IntGauge::with_opts("dnstap_connected");
    /// Queries that have no line in the query log because there were too many in a second.
    query_log_suppressed: IntCounter::with_opts("query_log_suppressed_total");
    /// Open TCP and TLS connections from clients.
    tcp_connections: IntGauge::with_opts("tcp_connections");
    /// TCP and TLS connections closed to make room for newcomers, by the limit that was reached.
    tcp_rejected: IntCounterVec::new("tcp_rejected_total", &["limit"]);
    /// Polls (kind soa) and zone transfers (kinds ixfr and axfr) begun.
    transfer_attempts: ZoneCounters::new("transfer_attempts_total", &["zone", "primary", "kind"]);
    /// Polls and zone transfers that failed, by reason.
    transfer_failures: ZoneCounters::new("transfer_failures_total", &["zone", "primary", "kind", "reason"]);
    /// Time that successful transfers took, by what the primary sent: differences (ixfr) or the whole zone (axfr).
    transfer_duration: HistogramVec::new("transfer_duration_seconds", &["kind"]);
    /// Bytes received in zone transfers.
    transfer_bytes: ZoneCounters::new("transfer_bytes_total", &["zone"]);
    /// When a poll or zone transfer last succeeded, Unix time.
    transfer_success: ZoneValues::new("transfer_success_timestamp_seconds", &["zone", "primary", "kind"]);
    /// Polls and zone transfers that have failed in a row; absent while the primary does what is asked of it.
    primary_failures: ZoneFaults::new("primary_failures", &["zone", "primary"]);
    /// 1 while a CNS is assumed to announce nothing to us, so that its zones are polled every 10 s; only addresses of
    /// CNS have it.
    silence_assumed: IntGaugeVec::new("silence_assumed", &["primary"]);
    /// Questions for differences at our own serial that a CNS answered, so that it announces changes again.
    silence_questions: IntCounterVec::new("silence_questions_total", &["primary"]);
    /// 1 while a transferred version, or a tree, is held back because it has shrunk sharply, or because the tree was
    /// reset.
    transfer_held: ZoneFaults::new("transfer_held", &["zone"]);
    /// Zones that are served because a catalog of a primary lists them.
    catalog_members: IntGaugeVec::new("catalog_members", &["catalog"]);
    /// Zones that a catalog of a primary lists in vain: their names are configured otherwise, are not to be in it, or
    /// belong to another catalog.
    catalog_refused: IntGaugeVec::new("catalog_refused", &["catalog"]);
    /// 1 while every primary that answers has an older serial than ours, and our copy is kept.
    transfer_regressed: ZoneFaults::new("transfer_regressed", &["zone"]);
    /// 1 while a new version of the zone is refused because it would take more memory than the budget has.
    memory_refused: ZoneFaults::new("memory_refused", &["zone"]);
    /// Memory that zones, their histories and transfers in progress may take together.
    memory_budget: IntGauge::with_opts("memory_budget_bytes");
    /// Memory of the budget that is taken: zones with what regions hold of them and trees, transfers in progress,
    /// histories, pinned contents, the catalog, what answers have beside zones, and what waits for the disk.
    memory_accounted: IntGaugeVec::new("memory_accounted_bytes", &["part"]);
    /// Memory that the zone takes by itself.
    zone_memory: IntGaugeVec::new("zone_memory_bytes", &["zone"]);
    /// Records of adopted transfers that a zone cannot hold as they came, by kind.
    transfer_anomalies: ZoneCounters::new("transfer_anomalies_total", &["zone", "kind"]);
    /// Names that a full audit found different although the serial was the same.
    audit_drift: ZoneCounters::new("audit_drift_names_total", &["zone"]);
    /// Changes in incremental transfers that changed nothing: removals of absent records, additions of present ones.
    ixfr_noop_changes: ZoneCounters::new("ixfr_noop_changes_total", &["zone"]);
    /// Questions to primaries for records whose removal is in doubt.
    doubt_questions: ZoneCounters::new("doubt_questions_total", &["zone"]);
    /// Records that stayed although an incremental transfer removed them, because the primary still had them.
    removals_vetoed: ZoneCounters::new("removals_vetoed_total", &["zone"]);
    /// Records that stay although an incremental transfer removed them, until a whole zone tells, because the primary
    /// did not answer for them.
    records_in_doubt: ZoneFaults::new("records_in_doubt", &["zone"]);
    /// NOTIFY requests for a source zone: accepted, or refused for their address; without a zone, stray ones:
    /// primaries announce zones that are not configured.
    notify_received: ZoneCounters::new("notify_received_total", &["zone", "result"]);
    /// Requests for a zone transfer, by what was asked for or sent (kind axfr, ixfr, ixfr-full for a whole zone in
    /// answer to IXFR, current for an SOA alone) and by what became of it: ok, a reason to refuse it, or slow,
    /// displaced (by others), aborted (by the client) and oversized for those that were cut.
    xfr_served: ZoneCounters::new("xfr_served_total", &["zone", "kind", "result"]);
    /// Signed requests that were not carried out for their signature, by reason.
    tsig_rejected: IntCounterVec::new("tsig_rejected_total", &["reason"]);
    /// Announcements of a zone to its secondaries, by what came of them: acknowledged, timeout, a response code, tsig,
    /// error.
    notify_sent: ZoneCounters::new("notify_sent_total", &["zone", "result"]);
    /// Zones times secondaries that are told of their changes, by whether they have acknowledged or fetched the version
    /// that is served: current, or behind.
    secondaries: IntGaugeVec::new("secondaries", &["state"]);
    /// When the oldest version came that a secondary has neither acknowledged nor fetched; absent while it has the newest.
    secondary_behind: IntGaugeVec::new("secondary_behind_since_timestamp_seconds", &["zone", "secondary"]);
    /// Serial of the zone as it is served.
    zone_serial: IntGaugeVec::new("zone_serial", &["zone"]);
    /// Serial that the primary announced last.
    zone_primary_serial: ZoneValues::new("zone_primary_serial", &["zone", "primary"]);
    /// Records in the zone.
    zone_records: IntGaugeVec::new("zone_records", &["zone"]);
    /// Records of the largest RRset of the zone or region as it is served.
    rrset_records_max: IntGaugeVec::new("rrset_records_max", &["zone"]);
    /// RRsets of the zone or region that are larger than a datagram, than resolvers take (100 records), or than a
    /// message.
    rrsets_large: IntGaugeVec::new("rrsets_large", &["zone", "limit"]);
    /// RRsets of which an answer may be over the limit, because no law of answers keeps it below; absent without any.
    answers_large: IntGaugeVec::new("answers_large", &["zone", "limit"]);
    /// Answers with only a part of an RRset that does not fit a message.
    answers_partial: IntCounterVec::new("answers_partial_total", &["zone"]);
    /// When a primary last confirmed or sent the zone, Unix time.
    zone_refreshed: IntGaugeVec::new("zone_refreshed_timestamp_seconds", &["zone"]);
    /// How often the zone asks to be looked for (REFRESH of its SOA record).
    zone_refresh: IntGaugeVec::new("zone_refresh_seconds", &["zone"]);
    /// When the zone expires unless a primary answers before, Unix time.
    zone_expires: IntGaugeVec::new("zone_expires_timestamp_seconds", &["zone"]);
    /// When the first signature of a signed zone expires, Unix time.
    zone_signatures_expire: IntGaugeVec::new("zone_signatures_expire_timestamp_seconds", &["zone"]);
    /// 1 for the state that the zone is in; no series for the others.
    zone_state: IntGaugeVec::new("zone_state", &["zone", "state"]);
    /// Serial of the region as it is served.
    region_serial: IntGaugeVec::new("region_serial", &["region"]);
    /// How far the region's serial is above the sum of its members' serials.
    region_serial_drift: IntGaugeVec::new("region_serial_drift", &["region"]);
    /// Members of the region by state.
    region_members: IntGaugeVec::new("region_members", &["region", "state"]);
    /// When the oldest drain of the member in the region began; no series without one, or for shares of clients.
    region_drained: IntGaugeVec::new("region_drained_since_timestamp_seconds", &["region", "member"]);
    /// When the oldest drain of a share of the clients of the member in the region began; no series without one.
    region_shared: IntGaugeVec::new("region_share_drained_since_timestamp_seconds", &["region", "member"]);
    /// When the region was pinned to the contents of an earlier version; no series where it is not.
    region_pinned: IntGaugeVec::new("region_pinned_since_timestamp_seconds", &["region"]);
    /// Addresses that members have withdrawn and that services of the region keep for a while.
    region_held: IntGaugeVec::new("region_held_addresses", &["region"]);
    /// Addresses that members have withdrawn from damped services, by what became of them.
    region_withdrawals: IntCounterVec::new("region_withdrawals_total", &["region", "result"]);
    /// Names at which records of members were dropped or hidden, by kind.
    region_conflicts: IntGaugeVec::new("region_conflicts", &["region", "kind"]);
    /// Names at which members have addresses of one private network, which nobody can tell apart.
    region_alike: IntGaugeVec::new("region_alike_addresses", &["region"]);
    /// Prefixes whose clients have the home.
    clients_prefixes: IntGaugeVec::new("clients_prefixes", &["home"]);
    /// Answers from steered sets, by the client's home (none without one) and by the nearest member in the answer (any
    /// where none comes first); a series appears with its first answer.
    steered_answers: IntCounterVec::new("steered_answers_total", &["region", "home", "served"]);
    /// Steered answers to clients whose home is a member that gives the name, or gave it within the hour, and is not
    /// drained there: served by the home, or elsewhere.
    home_answers: IntCounterVec::new("home_answers_total", &["region", "home", "served"]);
    /// Names of a steered region at which some members have IPv4 addresses and others do not, or IPv6 addresses.
    region_uneven: IntGaugeVec::new("region_uneven_names", &["region"]);
    /// Names at which a zone cannot hold records of its primary, by kind; absent without any.
    zone_conflicts: IntGaugeVec::new("zone_conflicts", &["zone", "kind"]);
    /// 1 while the region lists this server alone because its members' NS sets have nothing in common.
    region_ns_fallback: IntGaugeVec::new("region_nameserver_fallback", &["region"]);
    /// 1 for each fault of a name server that the zone or its parent lists: lame, unreachable, stale, ahead, foreign
    /// (it lists other servers), no-glue, other-glue, unresolved, alias, undelegated, ds (the parent has DS records of a
    /// zone that is not signed), and unknown for what could not be found out.
    ns_problems: ZoneFaults::new("nameserver_problems", &["zone", "server", "problem"]);
    /// Addresses of name servers that were asked about the zone, and servers of its parent.
    ns_servers: ZoneValues::new("nameserver_addresses", &["zone"]);
    /// When the name servers of the zone were last asked, Unix time.
    ns_probed: ZoneValues::new("nameserver_probed_timestamp_seconds", &["zone"]);
    /// Time since the keeper, the one task that changes what is served, began what it works on; 0 while it has nothing to
    /// do. It rises on after a panic of the keeper.
    keeper_busy: Gauge::with_opts("keeper_busy_seconds");
    /// Time from the first word of a change of a zone with primaries, a NOTIFY or else the poll that found it, until it was
    /// published, in the zone and in its regions.
    change_lag: Histogram::with_opts("change_lag_seconds");
    /// Time from taking updates to publishing them.
    publish_duration: Histogram::with_opts("publish_duration_seconds");
    /// Versions of the whole data published.
    publishes: IntCounter::with_opts("publishes_total");
    /// What went wrong with the state on disk, by operation.
    state_errors: IntCounterVec::new("state_errors_total", &["operation"]);
    /// 1 while everything that should be on disk is there or on its way, 0 while the disk refuses something.
    state_healthy: IntGauge::with_opts("state_healthy");
    /// Log lines that found no room because nobody read the log.
    log_lines_lost: IntCounter::with_opts("log_lines_lost_total");
    /// Configuration reloads by result.
    reloads: IntCounterVec::new("reloads_total", &["result"]);
    /// 1 after the start and a reload that succeeded, 0 after one that failed or a configuration that was refused.
    config_is_current: IntGauge::with_opts("config_last_reload_successful");
    /// When the running configuration was loaded, Unix time.
    config_loaded: IntGauge::with_opts("config_loaded_timestamp_seconds");
    /// 1 for the state of the session that feeds the zone: live, reading the tree, or disconnected.
    zookeeper_session: IntGaugeVec::new("zookeeper_session", &["zone", "state"]);
    /// Nodes of the zone's tree.
    zookeeper_nodes: IntGaugeVec::new("zookeeper_nodes", &["zone"]);
    /// Nodes of the zone's tree whose payload makes no records.
    zookeeper_broken_payloads: IntGaugeVec::new("zookeeper_broken_payloads", &["zone"]);
    /// 1 while what was served is served on because the domain's node is missing, was made anew, or is older than
    /// that.
    zookeeper_tree_reset: IntGaugeVec::new("zookeeper_tree_reset", &["zone", "reason"]);
    /// When ZooKeeper last answered, Unix time.
    zookeeper_last_contact: IntGaugeVec::new("zookeeper_last_contact_timestamp_seconds", &["zone"]);
    /// Changes of the zone's tree that ZooKeeper told of.
    zookeeper_events: IntCounterVec::new("zookeeper_events_total", &["zone"]);
    /// Times that the whole tree was read.
    zookeeper_reads: IntCounterVec::new("zookeeper_reads_total", &["zone"]);
    /// Sessions that broke, by reason.
    zookeeper_losses: IntCounterVec::new("zookeeper_session_losses_total", &["zone", "reason"]);
    /// Elements of the inventory that the zone is made of, by kind: vms, accounts, networks, servers.
    inventory_elements: IntGaugeVec::new("inventory_elements", &["zone", "kind"]);
    /// Instances of the inventory: listed with names, undecided because something is not known of them.
    inventory_instances: IntGaugeVec::new("inventory_instances", &["zone", "state"]);
    /// Instances by the reason for which they are not listed or not in service.
    inventory_reasons: IntGaugeVec::new("inventory_instances_by_reason", &["zone", "reason"]);
    /// Labels that more than one account or instance of the inventory claims.
    inventory_conflicts: IntGaugeVec::new("inventory_label_conflicts", &["zone"]);
    /// 1 when a secondary has a newer serial than was ever made here: another builder makes the zone.
    inventory_second_builder: IntGaugeVec::new("inventory_second_builder", &["zone"]);
    /// Memberships in services that are held for a while although the instance reports itself down.
    inventory_held: IntGaugeVec::new("inventory_held_memberships", &["zone"]);
    /// Ends of memberships in services: soft by the instance's own report, hard for another reason; and of holds:
    /// returned when it reported up again, released by an operator.
    inventory_removals: IntCounterVec::new("inventory_removals_total", &["zone", "result"]);
    /// When the oldest membership that is held was reported down, Unix time; 0 when none is held.
    inventory_held_since: IntGaugeVec::new("inventory_held_since_timestamp_seconds", &["zone"]);
    /// When the inventory was last read to its end, Unix time.
    inventory_last_reading: IntGaugeVec::new("inventory_last_reading_timestamp_seconds", &["zone"]);
    /// Readings of the inventory that had something new.
    inventory_readings: IntCounterVec::new("inventory_readings_total", &["zone"]);
    /// Readings of the inventory that have failed in a row.
    inventory_failures: IntGaugeVec::new("inventory_failures", &["zone"]);
    /// Readings of the inventory that failed, by reason.
    inventory_failed_readings: IntCounterVec::new("inventory_failed_readings_total", &["zone", "reason"]);
    /// Single elements of the inventory that cannot be read at present.
    inventory_unreadable: IntGaugeVec::new("inventory_unreadable_elements", &["zone"]);
    /// 1 while the change feed of the inventory is heard; 0 while changes are seen only when all is listed again.
    inventory_following: IntGaugeVec::new("inventory_following", &["zone"]);
    /// Owner names of the accounts that have the most, in the forward zones of the inventory, with accounting = true.
    inventory_names: IntGaugeVec::new("inventory_account_names", &["zone", "account", "login"]);
}

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

/// Describes a family. What is collected has its kind even without a series.
fn describe(family: &dyn Series) -> impl Iterator<Item = Family> {
    family.desc().into_iter().zip(family.collect()).map(|(description, collected)| Family {
        name: match &description.fq_name {
            usual if usual.starts_with(USUAL) => usual.clone(),
            own => format!("{PREFIX}_{own}"),
        },
        kind: match collected.get_field_type() {
            MetricType::COUNTER => "counter",
            MetricType::HISTOGRAM => "histogram",
            _ => "gauge",
        },
        help: description.help.clone(),
        labels: description.variable_labels.clone(),
    })
}

/// Options of a family of any kind; the lines of its help begin with a space.
fn options<O: From<Described>>(name: &str, help: &str) -> O {
    Described(Opts::new(name, help.trim_start())).into()
}

/// Name and help of a family.
struct Described(Opts);

impl From<Described> for Opts {
    fn from(described: Described) -> Opts {
        described.0
    }
}

impl From<Described> for HistogramOpts {
    fn from(described: Described) -> HistogramOpts {
        HistogramOpts::from(described.0).buckets(SECONDS.to_vec())
    }
}

/// Sets gauges when they are about to be read.
type Gauges = Box<dyn Fn(&Metrics) + Send + Sync>;

/// Readings of gauges that are set for each of them.
#[derive(Default)]
struct Readings {
    /// By who sets them.
    gauges: Mutex<BTreeMap<&'static str, Gauges>>,
    /// Held by who reads, and by who removes series that a reading would bring back.
    turn: Mutex<()>,
}

/// Families of the registry, whatever their kind.
struct Families {
    registry: Registry,
    /// Those without the prefix.
    usual: Registry,
    all: Vec<Box<dyn Series>>,
}

/// A family, which may have a series for each zone.
trait Series: Collector {
    /// Removes the series whose zone or region, with their primary if they have one, is gone.
    fn forget(&self, _is_gone: &dyn Fn(&str, Option<&str>) -> bool) {}
}

impl Series for Histogram {}
impl Series for SizeHistogram {}
impl Series for AnswerTimes {}
impl<P: Atomic + 'static> Series for GenericCounter<P> {}
impl<P: Atomic + 'static> Series for GenericGauge<P> {}

impl<T: MetricVecBuilder + 'static> Series for MetricVec<T> {
    fn forget(&self, is_gone: &dyn Fn(&str, Option<&str>) -> bool) {
        for metric in self.collect().iter().flat_map(MetricFamily::get_metric) {
            let labels: HashMap<&str, &str> =
                metric.get_label().iter().map(|pair| (pair.name(), pair.value())).collect();
            let zone = labels.get("zone").or(labels.get("region"));
            if zone.is_some_and(|zone| is_gone(zone, labels.get("primary").copied())) {
                // A series that is gone already is as good as removed.
                let _ = self.remove(&labels);
            }
        }
    }
}

impl Families {
    /// Starts without any.
    fn new() -> Families {
        let registry = Registry::new_custom(Some(PREFIX.to_owned()), None).expect("the prefix is a valid name");
        Families { registry, usual: Registry::new(), all: Vec::new() }
    }

    /// Registers a family.
    fn add<C: Series + Clone + 'static>(&mut self, family: prometheus::Result<C>) -> C {
        let family = family.expect("metric names and labels are valid");
        let is_usual = family.desc().iter().any(|description| description.fq_name.starts_with(USUAL));
        let registry = if is_usual { &self.usual } else { &self.registry };
        registry.register(Box::new(family.clone())).expect("metric names are unique");
        self.all.push(Box::new(family.clone()));
        family
    }
}

impl Metrics {
    /// Creates and registers every family.
    pub fn new() -> Metrics {
        let metrics = Metrics::register();
        metrics.build_info.with_label_values(&[env!("CARGO_PKG_VERSION"), COMMIT]).set(1);
        // Two starts within a second are two values, so that restarts can be counted.
        metrics.started.set(SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64()));
        metrics
    }

    /// Every family that there can be, whether it has a series or not, in the order of the table.
    pub fn families(&self) -> Vec<Family> {
        self.families.all.iter().flat_map(|family| describe(&**family)).collect()
    }

    /// Counts a reload.
    pub fn count_reload(&self, is_ok: bool) {
        self.config_is_current.set(i64::from(is_ok));
        self.reloads.with_label_values(&[if is_ok { "ok" } else { "failed" }]).inc();
    }

    /// A counter block for one query thread.
    pub fn query_counters(&self) -> Arc<QueryCounters> {
        self.blocks.add()
    }

    /// Numbers of queries, summed over all threads.
    pub fn query_totals(&self) -> QueryTotals {
        self.blocks.with_totals(QueryTotals::clone)
    }

    /// Has gauges set for each reading by a function, the first that asks for it in somebody's name.
    pub fn set_when_read(&self, name: &'static str, gauges: impl Fn(&Metrics) + Send + Sync + 'static) {
        let mut all = self.readings.gauges.lock().unwrap_or_else(PoisonError::into_inner);
        all.entry(name).or_insert_with(|| Box::new(gauges));
    }

    /// Leaves gauges as they are while the guard lives, whoever reads.
    pub fn hold(&self) -> MutexGuard<'_, ()> {
        self.readings.turn.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets the gauges that are set for each reading. They stay as they are while series are removed: nobody waits for
    /// that.
    fn set_gauges(&self) {
        let _turn = match self.readings.turn.try_lock() {
            Ok(turn) => turn,
            Err(TryLockError::Poisoned(turn)) => turn.into_inner(),
            Err(TryLockError::WouldBlock) => return,
        };
        let all = self.readings.gauges.lock().unwrap_or_else(PoisonError::into_inner);
        all.values().for_each(|gauges| gauges(self));
    }

    /// Everything in Prometheus' text format.
    pub fn render(&self) -> String {
        let mut text = String::new();
        // Two scrapes at once must not set gauges and the counters of queries under each other.
        self.blocks.with_totals(|totals| {
            self.set_gauges();
            self.show_queries(totals);
            process::show(self);
            let Families { registry, usual, .. } = &self.families;
            for registry in [registry, usual] {
                // Writing into a String cannot fail, and every family is well formed.
                let _ = prometheus::TextEncoder::new().encode_utf8(&registry.gather(), &mut text);
            }
        });
        text
    }

    /// Sets the counters of queries.
    fn show_queries(&self, totals: &QueryTotals) {
        let set = |counter: &IntCounter, value: u64| {
            counter.reset();
            counter.inc_by(value);
        };
        for (family, labels, values) in [
            (&self.queries, &TRANSPORTS[..], &totals.queries[..]),
            (&self.responses, &RCODES[..], &totals.responses[..]),
            (&self.query_types, &TYPES[..], &totals.types[..]),
            (&self.dropped, &DROPPED[..], &totals.dropped[..]),
            (&self.rate_limited, &CLASSES[..], &totals.limited[..]),
            (&self.cookies, &COOKIES[..], &totals.cookies[..]),
        ] {
            labels.iter().zip(values).for_each(|(label, value)| set(&family.with_label_values(&[label]), *value));
        }
        set(&self.truncated, totals.truncated);
        self.response_sizes.set(totals);
    }

    /// Removes those series of zones and regions of which `is_gone` says so, by their family, their zone or region, and
    /// their primary if they have one: a time of last success that nothing moves any more would alarm for ever.
    ///
    /// Cost: O(series), for any number of zones.
    pub fn forget(&self, zones: &HashSet<String>, is_gone: impl Fn(&str, &str, Option<&str>) -> bool) {
        if zones.is_empty() {
            return;
        }
        self.sent.forget(zones, |zone| is_gone("xfr_served_total", zone, None));
        for family in &self.families.all {
            for Desc { fq_name: name, .. } in family.desc() {
                family.forget(&|zone, primary| zones.contains(zone) && is_gone(name, zone, primary));
            }
        }
    }

    /// Removes the series of an address from which no zone comes any more.
    pub fn forget_silence(&self, primary: &str) {
        // A series that is not there is as good as removed.
        let _ = self.silence_assumed.remove_label_values(&[primary]);
        let _ = self.silence_questions.remove_label_values(&[primary]);
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
        let counted =
            |transport, rcode, truncated| Counted { transport, rtype: Some(1), rcode, octets: Some(100), truncated };
        first.count(counted(Transport::Udp, 0, false));
        second.count(counted(Transport::Udp, 3, true));
        drop(first);
        metrics.render();
        second.count(counted(Transport::Tcp, 16, false));
        drop(second);
        let text = metrics.render();
        for line in [
            "aggregator_queries_total{transport=\"udp\"} 2",
            "aggregator_queries_total{transport=\"tcp\"} 1",
            "aggregator_responses_total{rcode=\"NXDOMAIN\"} 1",
            "aggregator_responses_total{rcode=\"BADVERS\"} 1",
            "aggregator_truncated_total 1",
            "aggregator_query_types_total{type=\"A\"} 3",
            "aggregator_response_size_bytes_bucket{le=\"64\"} 0",
            "aggregator_response_size_bytes_bucket{le=\"128\"} 3",
            "aggregator_response_size_bytes_sum 300",
            "aggregator_response_size_bytes_count 3",
        ] {
            assert!(text.contains(line), "{line} in\n{text}");
        }
        // What the process used has changed between the two; what was counted has not.
        let counts = |text: &str| {
            text.lines().filter(|line| !line.starts_with("process_")).map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(counts(&metrics.render()), counts(&text));
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
        metrics.forget(&HashSet::from(["a.".to_owned()]), |_, _, _| true);
        let text = metrics.render();
        assert!(!text.contains("\"a.\"") && text.contains("zone=\"b.\""), "{text}");
        metrics.transfer_success.set(&["b.", "192.0.2.1:53", "soa"], 1);
        metrics.forget(&HashSet::from(["b.".to_owned()]), |_, _, primary| primary.is_some());
        let text = metrics.render();
        assert!(!text.contains("192.0.2.1") && text.contains("zone=\"b.\""), "{text}");
    }
}
