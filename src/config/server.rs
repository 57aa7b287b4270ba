//! The sections about this server itself: `[server]`, `[state]`, `[metrics]`, `[control]` and `[log]`.
//!
//! Invariant: no TCP address is asked for twice, by whichever section.
//!
//! Cost: O(addresses squared); there are a handful.
//!
//! RFCs: 7766 (TCP), 7858 (DNS over TLS, port 853).

use crate::config::schema;
use crate::config::{ControlPlan, LogFormat, LogPlan, MetricsPlan};
use crate::serve::{ListenPlan, TlsPlan};
use settings::read::{Fields, Reader, shorten};
use settings::tree::{Node, Value};
use settings::units::{format_duration, format_size};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;
use tracing_subscriber::EnvFilter;
use wire::name::Name;

/// RFC 1035 section 4.2.
const DNS_PORT: u16 = 53;
/// RFC 7858 section 3.1.
const TLS_PORT: u16 = 853;
/// Default port of the metrics: the one of a DNS server in the list of exporter ports that Prometheus keeps.
const METRICS_PORT: u16 = 9153;
/// Default control socket, in the folder that service managers make for a service's runtime files.
pub const DEFAULT_SOCKET: &str = "/run/aggregator/control.sock";
/// Default state folder, in the folder that service managers make for a service's lasting files.
const DEFAULT_STATE: &str = "/var/lib/aggregator";
/// Longest hold-down. A change that waits longer is of no use to clients that balance load by DNS.
const MAX_HOLD_DOWN: Duration = Duration::from_secs(10);
/// Smallest memory limit: less has no room for the messages of a transfer.
const LEAST_MEMORY: u64 = 1 << 20;
/// Largest default number of UDP threads: more on one socket address gained nothing in any measurement.
const MOST_DEFAULT_THREADS: usize = 8;
/// `sun_path` of a Unix socket address holds 108 octets on Linux, 104 on others, with the final NUL.
const MAX_SOCKET_PATH_BYTES: usize = 103;

/// A configured listen address and where it is written.
pub type Placed = (SocketAddr, usize);

/// Settings from the sections that concern the server as a whole.
pub struct ServerSections {
    pub name: Name,
    pub listen: ListenPlan,
    pub hold_down: Duration,
    /// Limit on octets of zones, histories and transfers; none derives the limit from the host's memory.
    pub memory: Option<u64>,
    /// True if keys may use outdated algorithms.
    pub tsig_legacy: bool,
    pub state: Option<PathBuf>,
    pub metrics: MetricsPlan,
    pub control: ControlPlan,
    pub log: LogPlan,
    /// All listen addresses that the file names.
    pub places: Vec<Placed>,
    /// The files of DNS over TLS, with the offsets of their keys.
    pub files: Vec<(&'static str, PathBuf, usize)>,
}

/// Reads all five sections; absent ones give defaults.
pub fn read_sections(reader: &mut Reader<'_>, root: &Fields<'_>) -> ServerSections {
    let mut sections = ServerSections {
        name: host_name(),
        listen: default_listen(),
        hold_down: Duration::from_millis(100),
        memory: None,
        tsig_legacy: false,
        state: Some(PathBuf::from(DEFAULT_STATE)),
        metrics: MetricsPlan {
            listen: vec![SocketAddr::new(Ipv4Addr::LOCALHOST.into(), METRICS_PORT)],
            page: true,
            names: Vec::new(),
        },
        control: ControlPlan { socket: PathBuf::from(DEFAULT_SOCKET) },
        log: LogPlan { level: "info".to_string(), format: LogFormat::Human },
        places: Vec::new(),
        files: Vec::new(),
    };
    if let Some(entry) = root.entry("server") {
        read_server(reader, &entry.node, &mut sections);
    }
    if let Some(entry) = root.entry("state") {
        read_state(reader, &entry.node, &mut sections);
    }
    if let Some(entry) = root.entry("metrics") {
        read_metrics(reader, &entry.node, &mut sections);
    }
    if let Some(entry) = root.entry("control") {
        read_control(reader, &entry.node, &mut sections);
    }
    if let Some(entry) = root.entry("log") {
        read_log(reader, &entry.node, &mut sections);
    }
    refuse_shared_addresses(reader, &sections);
    sections
}

/// The plan of a file without `[server]`.
fn default_listen() -> ListenPlan {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    ListenPlan {
        dns: vec![
            SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), DNS_PORT),
            SocketAddr::new(Ipv6Addr::UNSPECIFIED.into(), DNS_PORT),
        ],
        udp_threads: threads.min(MOST_DEFAULT_THREADS),
        tcp_connections: 1000,
        tcp_connections_per_client: 50,
        tcp_idle_timeout: Duration::from_secs(10),
        tls: None,
    }
}

/// The machine's own name, or `localhost` when it has none that is a domain name.
fn host_name() -> Name {
    let system = rustix::system::uname();
    let text = system.nodename().to_str().ok();
    text.and_then(|text| Name::parse(text).ok())
        .filter(|name| name.label_count() > 0)
        .unwrap_or_else(|| Name::parse("localhost").expect("localhost is a name"))
}

//--- Sections ---

/// Reads `[server]`.
fn read_server(reader: &mut Reader<'_>, node: &Node, sections: &mut ServerSections) {
    let Some(fields) = Fields::new(reader, node, &schema::SERVER, schema::SERVER.path) else { return };
    if let Some(name) = fields.read(reader, "name", Reader::name) {
        sections.name = name;
    }
    let plan = &mut sections.listen;
    if let Some(placed) = fields.read(reader, "listen", |r, key, node| some_addresses(r, key, node, DNS_PORT)) {
        plan.dns = placed.iter().map(|(address, _)| *address).collect();
        sections.places.extend(placed);
    }
    if let Some(threads) = fields.read(reader, "udp_threads", |r, key, node| r.count(key, node, 256)) {
        plan.udp_threads = threads;
    }
    if let Some(most) = fields.read(reader, "tcp_connections", |r, key, node| r.count(key, node, 1_000_000)) {
        plan.tcp_connections = most;
    }
    if let Some(most) = fields.read(reader, "tcp_connections_per_client", |r, key, node| r.count(key, node, 1_000_000))
    {
        plan.tcp_connections_per_client = most;
    }
    if let Some(timeout) = fields.read(reader, "tcp_idle_timeout", Reader::positive_duration) {
        plan.tcp_idle_timeout = timeout;
    }
    if let Some(duration) = fields.read(reader, "hold_down", read_hold_down) {
        sections.hold_down = duration;
    }
    if let Some(memory) = fields.read(reader, "memory", read_memory) {
        sections.memory = Some(memory);
    }
    if let Some(legacy) = fields.read(reader, "tsig_legacy", Reader::boolean) {
        sections.tsig_legacy = legacy;
    }
    if let Some(entry) = fields.entry("tls") {
        read_tls(reader, &entry.node, entry.key_at, sections);
    }
}

/// Reads `tls` in `[server]`; all three keys are needed.
fn read_tls(reader: &mut Reader<'_>, node: &Node, key_at: usize, sections: &mut ServerSections) {
    let Some(fields) = Fields::new(reader, node, &schema::TLS, schema::TLS.path) else { return };
    let listen = fields.read(reader, "listen", |r, key, node| some_addresses(r, key, node, TLS_PORT));
    let certificate = fields.read(reader, "certificate", Reader::path);
    let key = fields.read(reader, "key", Reader::path);
    for (name, advice) in [
        ("listen", "write for example listen = [\"0.0.0.0:853\"]"),
        ("certificate", "write the path of a PEM file"),
        ("key", "write the path of a PEM file"),
    ] {
        if fields.lacks(name) {
            reader.error(key_at, format!("{} has no \"{name}\"; {advice}", schema::TLS.path));
        }
    }
    for (name, path) in [("certificate", &certificate), ("key", &key)] {
        if let (Some(path), Some(entry)) = (path, fields.entry(name)) {
            sections.files.push((name, path.clone(), entry.node.at));
        }
    }
    if let (Some(placed), Some(certificate), Some(key)) = (listen, certificate, key) {
        let listen = placed.iter().map(|(address, _)| *address).collect();
        sections.listen.tls = Some(TlsPlan { listen, certificate, key });
        sections.places.extend(placed);
    }
}

/// Reads the shortest time between publications.
fn read_hold_down(reader: &mut Reader<'_>, key: &str, node: &Node) -> Option<Duration> {
    let duration = reader.duration(key, node)?;
    if duration > MAX_HOLD_DOWN {
        let (given, most) = (format_duration(duration), format_duration(MAX_HOLD_DOWN));
        reader.error(node.at, format!("\"{key}\" cannot be {given}; write at most \"{most}\""));
        return None;
    }
    Some(duration)
}

/// Reads the budget of memory.
fn read_memory(reader: &mut Reader<'_>, key: &str, node: &Node) -> Option<u64> {
    let octets = reader.size(key, node)?;
    if octets < LEAST_MEMORY {
        let (given, least) = (format_size(octets), format_size(LEAST_MEMORY));
        reader.error(node.at, format!("\"{key}\" cannot be {given}; write at least \"{least}\""));
        return None;
    }
    Some(octets)
}

/// Reads `[state]`; false switches it off.
fn read_state(reader: &mut Reader<'_>, node: &Node, sections: &mut ServerSections) {
    let Some(fields) = Fields::new(reader, node, &schema::STATE, schema::STATE.path) else { return };
    let folder = fields.read(reader, "folder", |reader, key, node| match &node.value {
        Value::Boolean(false) => Some(None),
        Value::Text(_) => reader.path(key, node).map(Some),
        _ => reader.wrong_type(key, node, "the path of a folder, or false"),
    });
    sections.state = folder.unwrap_or(sections.state.take());
}

/// Reads `[metrics]`; an empty list switches the endpoint off.
fn read_metrics(reader: &mut Reader<'_>, node: &Node, sections: &mut ServerSections) {
    let Some(fields) = Fields::new(reader, node, &schema::METRICS, schema::METRICS.path) else { return };
    if let Some(placed) = fields.read(reader, "listen", |r, key, node| addresses(r, key, node, METRICS_PORT)) {
        sections.metrics.listen = placed.iter().map(|(address, _)| *address).collect();
        sections.places.extend(placed);
    }
    if let Some(page) = fields.read(reader, "page", Reader::boolean) {
        sections.metrics.page = page;
    }
    let names = fields.read(reader, "names", |reader, key, node| {
        reader.list(key, node, "a list of names such as [\"status.example.com\"]", Reader::name)
    });
    sections.metrics.names.extend(names.unwrap_or_default());
}

/// Reads `[control]`.
fn read_control(reader: &mut Reader<'_>, node: &Node, sections: &mut ServerSections) {
    let Some(fields) = Fields::new(reader, node, &schema::CONTROL, schema::CONTROL.path) else { return };
    let Some(socket) = fields.read(reader, "socket", Reader::path) else { return };
    let length = socket.as_os_str().len();
    if length > MAX_SOCKET_PATH_BYTES {
        let at = fields.entry("socket").map_or(node.at, |entry| entry.node.at);
        reader.error(
            at,
            format!(
                "\"socket\" is {length} octets long with its folder; write a path of at most {MAX_SOCKET_PATH_BYTES}"
            ),
        );
    }
    sections.control.socket = socket;
}

/// Reads `[log]`.
fn read_log(reader: &mut Reader<'_>, node: &Node, sections: &mut ServerSections) {
    let Some(fields) = Fields::new(reader, node, &schema::LOG, schema::LOG.path) else { return };
    if let Some(level) = fields.read(reader, "level", log_level) {
        sections.log.level = level;
    }
    let formats = [("human", LogFormat::Human), ("json", LogFormat::Json)];
    if let Some(format) = fields.read(reader, "format", |r, key, node| r.choice(key, node, &formats)) {
        sections.log.format = format;
    }
}

/// Reads a log level or a filter.
fn log_level(reader: &mut Reader<'_>, key: &str, node: &Node) -> Option<String> {
    const LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];
    let wanted = "off, error, warn, info, debug, trace, or a filter such as \"info,aggregator::transfer=debug\"";
    let text = reader.text(key, node, wanted)?;
    // A filter takes any lone word for the name of a module, so that a mistyped level would log nothing else.
    if !text.contains(['=', ',', '[']) && !LEVELS.contains(&text) {
        let advice = match schema::suggest(text, LEVELS) {
            Some(near) => format!("did you mean \"{near}\"?"),
            None => format!("write {wanted}"),
        };
        reader.error(node.at, format!("\"{key}\" cannot be \"{}\"; {advice}", shorten(text)));
        return None;
    }
    match EnvFilter::builder().parse(text) {
        Ok(_) => Some(text.to_string()),
        Err(error) => {
            reader.error(node.at, format!("\"{}\" is no filter ({error}); write {wanted}", shorten(text)));
            None
        }
    }
}

//--- Addresses ---

/// Reads one address or a list of at least one.
fn some_addresses(reader: &mut Reader<'_>, key: &str, node: &Node, port: u16) -> Option<Vec<Placed>> {
    if matches!(&node.value, Value::List(items) if items.is_empty()) {
        reader.error(node.at, format!("\"{key}\" is empty; write for example [\"0.0.0.0:{port}\", \"[::]:{port}\"]"));
        return None;
    }
    addresses(reader, key, node, port)
}

/// Reads one address or a list of addresses to listen on.
fn addresses(reader: &mut Reader<'_>, key: &str, node: &Node, port: u16) -> Option<Vec<Placed>> {
    let wanted = format!("a list of addresses such as [\"0.0.0.0:{port}\"]");
    let one = |reader: &mut Reader<'_>, key: &str, node: &Node| {
        let address = reader.address(key, node, port)?;
        if address.ip().is_multicast() || address.ip() == IpAddr::V4(Ipv4Addr::BROADCAST) {
            reader.error(node.at, format!("nothing can listen on {}; write an address of this machine", address.ip()));
            return None;
        }
        Some((address, node.at))
    };
    match &node.value {
        Value::Text(_) => one(reader, key, node).map(|placed| vec![placed]),
        _ => reader.list(key, node, &wanted, one),
    }
}

/// Reports TCP addresses that are asked for more than once; every listener has a TCP half.
fn refuse_shared_addresses(reader: &mut Reader<'_>, sections: &ServerSections) {
    for (index, (address, at)) in sections.places.iter().enumerate() {
        // Port 0 asks for any free port, a different one each time.
        if address.port() == 0 {
            continue;
        }
        let earlier = sections.places[..index].iter().find(|(other, _)| other == address);
        if let Some((_, first)) = earlier {
            let (line, _) = reader.source.locate(*first);
            reader.error(*at, format!("{address} is already listened on by line {line}; write another port"));
        }
    }
}
