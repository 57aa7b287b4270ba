//! The sections about this server itself: `[server]`, `[state]`, `[metrics]`, `[control]` and `[log]`.
//!
//! Invariant: no TCP address is asked for twice, by whichever section.
//!
//! Cost: O(addresses squared); there are a handful.
//!
//! RFCs: 7766 (TCP), 7858 (DNS over TLS, port 853).

use crate::acl::Prefix;
use crate::config::listening::{Placed, addresses, some_addresses};
use crate::config::operators::{HttpsSection, read_https};
use crate::config::secondaries::read_prefix;
use crate::config::{ControlPlan, LogFormat, LogPlan, MetricsPlan};
use crate::serve::{ListenPlan, TlsPlan};
use settings::fields::{Fields, put};
use settings::read::{Reader, shorten};
use settings::schema::{Kind, Table, did_you_mean, key};
use settings::tree::{Node, Value};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;
use tracing_subscriber::EnvFilter;
use wire::name::Name;

/// RFC 1035 section 4.2.
const DNS_PORT: u16 = 53;
/// RFC 7858 section 3.1.
pub const TLS_PORT: u16 = 853;
/// Default port of the metrics: the one of a DNS server in the list of exporter ports that Prometheus keeps.
const METRICS_PORT: u16 = 9153;
/// Longest hold-down. A change that waits longer is of no use to clients that balance load by DNS.
const MAX_HOLD_DOWN: Duration = Duration::from_secs(10);
/// Smallest memory limit: less has no room for the messages of a transfer.
const LEAST_MEMORY: u64 = 1 << 20;
/// Largest default number of UDP threads: more on one socket address gained nothing in any measurement.
const MOST_DEFAULT_THREADS: usize = 8;
/// `sun_path` of a Unix socket address holds 108 octets on Linux, 104 on others, with the final NUL.
const MAX_SOCKET_PATH_BYTES: usize = 103;

//--- Tables ---

/// `[server]`
pub static SERVER: Table<ServerSections> = Table {
    path: "[server]",
    help: "This server and its listeners",
    keys: &[&[
        key("name", "", "own name, used where a region lists no name server; default: the host name")
            .takes(Kind::Name(|server, name| server.name = name)),
        key("listen", r#"["0.0.0.0:53", "[::]:53"]"#, "UDP and TCP addresses").bound("addresses"),
        key("udp_threads", "", "UDP threads for each address; default: processors, at most 8")
            .takes(Kind::Count(256, |server, threads| server.listen.udp_threads = threads)),
        key("tcp_connections", "1000", "TCP and TLS connections in total; beyond, others are closed for newcomers")
            .takes(Kind::Count(1_000_000, |server, most| server.listen.tcp_connections = most)),
        key("tcp_connections_per_client", "50", "the same from one client: an IPv4 address or an IPv6 /64")
            .takes(Kind::Count(1_000_000, |server, most| server.listen.tcp_connections_per_client = most)),
        key("tcp_idle_timeout", r#""10s""#, "how long a TCP connection may be silent")
            .takes(Kind::PositiveDuration(|server, timeout| server.listen.tcp_idle_timeout = timeout)),
        key("hold_down", r#""100ms""#, "shortest time between two publications; for a zone's first load 10 ms at most")
            .takes(Kind::DurationWithin(Duration::ZERO..=MAX_HOLD_DOWN, |server, pause| server.hold_down = pause)),
        key(
            "memory",
            "",
            "memory for zones, their histories, trees and transfers in progress; default: half of what the process \
             may have",
        )
        .takes(Kind::SizeFrom(LEAST_MEMORY, |server, octets| server.memory = Some(octets))),
        key("tsig_legacy", "false", "whether keys may have hmac-md5 and hmac-sha1, to verify requests")
            .takes(Kind::Flag(|server, choice| server.tsig_legacy = choice)),
        key("client_subnet_from", "[]", "resolvers whose EDNS Client Subnet (RFC 7871) is believed").takes(Kind::Own(
            "prefixes",
            |reader, key, node, server| {
                let wanted = "a list such as [\"192.0.2.53\", \"2001:db8::/64\"]";
                put(&mut server.client_subnet_from, reader.list(key, node, wanted, read_resolvers))
            },
        )),
        key("tls", "", "DNS over TLS; default: off").bound("table"),
    ]],
};

/// `tls` in `[server]`; the first three keys are needed.
pub static TLS: Table<()> = Table {
    path: "[server] tls",
    help: "DNS over TLS (RFC 7858), zone transfers included (RFC 9103)",
    keys: &[&[
        key("listen", "", "TCP addresses; port 853 when none is written").bound("addresses"),
        key("certificate", "", "PEM file with the certificate chain").bound("path"),
        key("key", "", "PEM file with the private key").bound("path"),
        key(
            "client_ca",
            "",
            "PEM file with authorities that sign certificates of secondaries; default: none is asked for",
        )
        .bound("path"),
    ]],
};

/// `[state]`
pub static STATE: Table<Option<PathBuf>> = Table {
    path: "[state]",
    help: "What is kept on disk",
    // In the folder that service managers make for a service's lasting files.
    keys: &[&[key("folder", r#""/var/lib/aggregator""#, "zones and serials; false keeps nothing")
        .takes(Kind::Own("path or false", |r, key, node, folder| put(folder, read_folder(r, key, node))))]],
};

/// `[metrics]`
pub static METRICS: Table<MetricsPlan> = Table {
    path: "[metrics]",
    help: "The HTTP endpoint for Prometheus",
    keys: &[&[
        key("listen", r#""127.0.0.1:9153""#, "TCP addresses; [] switches it off").bound("address or addresses"),
        key("page", "true", "whether the status page and its API are there, too")
            .takes(Kind::Flag(|metrics, choice| metrics.page = choice)),
        key(
            "names",
            "[]",
            "host names under which the page is asked for, beside addresses, localhost and the own name",
        )
        .takes(Kind::Own("names", |reader, key, node, metrics| {
            let wanted = "a list of names such as [\"status.example.com\"]";
            put(&mut metrics.names, reader.list(key, node, wanted, Reader::name))
        })),
    ]],
};

/// `[control]`
pub static CONTROL: Table<ControlPlan> = Table {
    path: "[control]",
    help: "The socket for the other commands",
    // In the folder that service managers make for a service's runtime files.
    keys: &[&[
        key("socket", r#""/run/aggregator/control.sock""#, "Unix socket")
            .takes(Kind::Own("path", |r, key, node, control| put(&mut control.socket, read_socket(r, key, node)))),
        key("group", "", "group of the socket, by name or number; default: that of the server").takes(Kind::Own(
            "group",
            |reader, key, node, control| {
                let group = reader.text(key, node, "the name or number of a group");
                put(&mut control.group, group.map(|group| Some(group.to_owned())))
            },
        )),
        key("mode", r#""0660""#, "permissions of the socket; who may write to it may do everything")
            .takes(Kind::Own("octal number", |r, key, node, control| put(&mut control.mode, read_mode(r, key, node)))),
        key("https", "", "orders over HTTPS by whoever has a certificate; default: off").bound("table"),
    ]],
};

/// `[log]`
pub static LOG: Table<LogPlan> = Table {
    path: "[log]",
    help: "What is logged, and how",
    keys: &[&[
        key("level", r#""info""#, "off, error, warn, info, debug, trace, or a filter by module")
            .takes(Kind::Own("level or filter", |r, key, node, log| put(&mut log.level, log_level(r, key, node)))),
        key("format", r#""human""#, "how a line looks").takes(Kind::Word(&[
            ("human", |log| log.format = LogFormat::Human),
            ("json", |log| log.format = LogFormat::Json),
        ])),
    ]],
};

//--- Sections ---

/// Settings from the sections that concern the server as a whole.
pub struct ServerSections {
    pub name: Name,
    pub listen: ListenPlan,
    pub hold_down: Duration,
    /// Limit on octets of zones, histories and transfers; none derives the limit from the host's memory.
    pub memory: Option<u64>,
    /// True if keys may use outdated algorithms.
    pub tsig_legacy: bool,
    pub client_subnet_from: Vec<Prefix>,
    pub state: Option<PathBuf>,
    pub metrics: MetricsPlan,
    pub control: ControlPlan,
    pub log: LogPlan,
    /// All listen addresses that the file names.
    pub places: Vec<Placed>,
    /// The files of DNS over TLS and of HTTPS, with the offsets of their keys.
    pub files: Vec<(&'static str, PathBuf, usize)>,
}

/// Reads the addresses of resolvers.
fn read_resolvers(reader: &mut Reader<'_>, key: &str, node: &Node) -> Option<Prefix> {
    read_prefix(reader, key, node, "")
}

/// Reads all five sections; absent ones give defaults.
pub fn read_sections(reader: &mut Reader<'_>, root: &Fields<'_>) -> ServerSections {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let mut sections = ServerSections {
        name: host_name(),
        listen: ListenPlan { udp_threads: threads.min(MOST_DEFAULT_THREADS), ..ListenPlan::default() },
        hold_down: Duration::ZERO,
        memory: None,
        client_subnet_from: Vec::new(),
        tsig_legacy: false,
        state: None,
        metrics: MetricsPlan::default(),
        control: ControlPlan::default(),
        log: LogPlan::default(),
        places: Vec::new(),
        files: Vec::new(),
    };
    let fields = SERVER.read_section(reader, root, &mut sections);
    let convert = |reader: &mut Reader<'_>, key: &str, node: &Node| some_addresses(reader, key, node, DNS_PORT);
    sections.listen.dns = read_listen(reader, &fields, &mut sections.places, convert);
    if let Some(entry) = fields.entry("tls") {
        read_tls(reader, &entry.node, entry.key_at, &mut sections);
    }
    STATE.read_section(reader, root, &mut sections.state);
    let fields = METRICS.read_section(reader, root, &mut sections.metrics);
    let convert = |reader: &mut Reader<'_>, key: &str, node: &Node| addresses(reader, key, node, METRICS_PORT);
    sections.metrics.listen = read_listen(reader, &fields, &mut sections.places, convert);
    let fields = CONTROL.read_section(reader, root, &mut sections.control);
    if let Some(entry) = fields.entry("https")
        && let Some(HttpsSection { plan, places }) = read_https(reader, entry, &mut sections.files)
    {
        sections.control.https = Some(plan);
        sections.places.extend(places);
    }
    LOG.read_section(reader, root, &mut sections.log);
    sections
}

/// Returns the control socket of a file that names none.
pub fn default_socket() -> PathBuf {
    let mut control = ControlPlan::default();
    CONTROL.set_defaults(&mut control);
    control.socket
}

/// The machine's own name, or `localhost` when it has none that is a domain name.
fn host_name() -> Name {
    let system = rustix::system::uname();
    let text = system.nodename().to_str().ok();
    text.and_then(|text| Name::parse(text).ok())
        .filter(|name| name.label_count() > 0)
        .unwrap_or_else(|| Name::parse("localhost").expect("localhost is a name"))
}

/// Reads `tls` in `[server]`.
fn read_tls(reader: &mut Reader<'_>, node: &Node, key_at: usize, sections: &mut ServerSections) {
    let Some(fields) = TLS.read(reader, node, TLS.path, &mut ()) else { return };
    let listen = fields.read(reader, "listen", |r, key, node| some_addresses(r, key, node, TLS_PORT));
    let certificate = fields.read(reader, "certificate", Reader::path);
    let key = fields.read(reader, "key", Reader::path);
    let client_ca = fields.read(reader, "client_ca", Reader::path);
    for (name, advice) in [
        ("listen", "write for example listen = [\"0.0.0.0:853\"]"),
        ("certificate", "write the path of a PEM file"),
        ("key", "write the path of a PEM file"),
    ] {
        fields.need(reader, name, key_at, format!("{} has no \"{name}\"; {advice}", TLS.path));
    }
    for (name, path) in [("certificate", &certificate), ("key", &key), ("client_ca", &client_ca)] {
        sections.files.extend(path.clone().zip(fields.entry(name)).map(|(path, entry)| (name, path, entry.node.at)));
    }
    if let (Some(placed), Some(certificate), Some(key)) = (listen, certificate, key) {
        let listen = placed.iter().map(|(address, _)| *address).collect();
        sections.listen.tls = Some(TlsPlan { listen, certificate, key, client_ca });
        sections.places.extend(placed);
    }
}

/// Reads the state folder; none if it is switched off.
fn read_folder(reader: &mut Reader<'_>, key: &str, node: &Node) -> Option<Option<PathBuf>> {
    match &node.value {
        Value::Boolean(false) => Some(None),
        Value::Text(_) => reader.path(key, node).map(Some),
        _ => reader.wrong_type(key, node, "the path of a folder, or false"),
    }
}

/// Reads the path of the control socket.
fn read_socket(reader: &mut Reader<'_>, key: &str, node: &Node) -> Option<PathBuf> {
    let socket = reader.path(key, node)?;
    let length = socket.as_os_str().len();
    if length > MAX_SOCKET_PATH_BYTES {
        let advice = format!("write a path of at most {MAX_SOCKET_PATH_BYTES}");
        reader.error(node.at, format!("\"{key}\" is {length} octets long with its folder; {advice}"));
    }
    Some(socket)
}

/// Reads the permissions of the control socket.
fn read_mode(reader: &mut Reader<'_>, key: &str, node: &Node) -> Option<u32> {
    let text = reader.text(key, node, "permissions such as \"0660\"")?;
    let mode = u32::from_str_radix(text, 8).ok().filter(|mode| *mode <= 0o777 && mode & 0o600 == 0o600);
    let Some(mode) = mode else {
        let advice = "write three octal digits, the first of them 6 or 7, such as \"0660\"";
        return reader.refuse(node.at, format!("\"{key}\" cannot be \"{}\"; {advice}", shorten(text)));
    };
    if mode & 0o002 != 0 {
        reader.warn(node.at, format!("\"{key}\" {mode:04o} lets every user of this machine stop the server"));
    }
    Some(mode)
}

/// Reads a log level or a filter.
fn log_level(reader: &mut Reader<'_>, key: &str, node: &Node) -> Option<String> {
    const LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];
    let wanted = "off, error, warn, info, debug, trace, or a filter such as \"info,aggregator::transfer=debug\"";
    let text = reader.text(key, node, wanted)?;
    // A filter takes any lone word for the name of a module, so that a mistyped level would log nothing else.
    if !text.contains(['=', ',', '[']) && !LEVELS.contains(&text) {
        let advice = did_you_mean(text, LEVELS, || format!("write {wanted}"));
        return reader.refuse(node.at, format!("\"{key}\" cannot be \"{}\"; {advice}", shorten(text)));
    }
    if let Err(error) = EnvFilter::builder().parse(text) {
        return reader.refuse(node.at, format!("\"{}\" is no filter ({error}); write {wanted}", shorten(text)));
    }
    Some(text.to_string())
}

/// Reads `listen`, and notes the places of addresses that the file names.
fn read_listen(
    reader: &mut Reader<'_>,
    fields: &Fields<'_>,
    places: &mut Vec<Placed>,
    convert: impl FnOnce(&mut Reader<'_>, &str, &Node) -> Option<Vec<Placed>>,
) -> Vec<SocketAddr> {
    let placed = fields.read(reader, "listen", convert).unwrap_or_default();
    if fields.entry("listen").is_some() {
        places.extend(&placed);
    }
    placed.into_iter().map(|(address, _)| address).collect()
}
