//! Table of all keys that a file may have.
//!
//! Readers refuse keys that are not here, near-miss hints look here, and a reference can be written from here.
//! Invariant: `default` is TOML that could stand in the file, or empty when there is none; tests compare the
//! defaults with what an empty file gives, and the example file with this table.
//!
//! Cost: a suggestion takes O(candidates x length^2).

pub use settings::schema::{Key, Table, suggest};

use settings::schema::key;

/// The file itself.
pub const ROOT: Table = Table {
    path: "",
    help: "Sections of the file",
    keys: &[
        key("server", "table", "", "this server and its listeners"),
        key("keys", "table", "", "TSIG keys"),
        key("zones", "table", "", "the zones to transfer and their primaries"),
        key("aggregations", "table", "", "the region zones and their members"),
        key("drains", "list of tables", "", "members that are taken out of regions for a while"),
        key("transfer", "table", "", "timers and limits of all transfers"),
        key("secondaries", "table", "", "who may transfer the zones from here, and who is notified"),
        key("probe", "table", "", "whether name servers are compared with what parents and zones say of them"),
        key("state", "table", "", "what is kept on disk"),
        key("metrics", "table", "", "the HTTP endpoint for Prometheus"),
        key("control", "table", "", "the socket for the other commands"),
        key("log", "table", "", "what is logged, and how"),
    ],
};

/// `[server]`
pub const SERVER: Table = Table {
    path: "[server]",
    help: "This server and its listeners",
    keys: &[
        key("name", "domain name", "", "own name, used where a region lists no name server; default: the host name"),
        key("listen", "addresses", r#"["0.0.0.0:53", "[::]:53"]"#, "UDP and TCP addresses"),
        key("udp_threads", "1 to 256", "", "UDP threads for each address; default: processors, at most 8"),
        key(
            "tcp_connections",
            "1 to 1000000",
            "1000",
            "TCP and TLS connections in total; beyond, others are closed for newcomers",
        ),
        key(
            "tcp_connections_per_client",
            "1 to 1000000",
            "50",
            "the same from one client: an IPv4 address or an IPv6 /64",
        ),
        key("tcp_idle_timeout", "duration", r#""10s""#, "how long a TCP connection may be silent"),
        key(
            "hold_down",
            "0 to 10s",
            r#""100ms""#,
            "shortest time between two publications; for a zone's first load 10 ms at most",
        ),
        key(
            "memory",
            "size",
            "",
            "memory for zones, their histories, trees and transfers in progress; default: half of what the process may have",
        ),
        key(
            "tsig_legacy",
            "true or false",
            "false",
            "whether keys may have hmac-md5 and hmac-sha1, to verify requests",
        ),
        key("tls", "table", "", "DNS over TLS; default: off"),
    ],
};

/// `tls` in `[server]`
pub const TLS: Table = Table {
    path: "[server] tls",
    help: "DNS over TLS (RFC 7858), zone transfers included (RFC 9103)",
    keys: &[
        key("listen", "addresses", "", "TCP addresses; port 853 when none is written"),
        key("certificate", "path", "", "PEM file with the certificate chain"),
        key("key", "path", "", "PEM file with the private key"),
    ],
};

/// A key of TSIG
pub const KEY: Table = Table {
    path: "[keys.\"NAME\"]",
    help: "A TSIG key (RFC 8945)",
    keys: &[
        key("algorithm", "name of an HMAC", r#""hmac-sha256""#, "hmac-sha256, hmac-sha384 or hmac-sha512"),
        key("secret_file", "path", "", "file that holds the secret in base64, which others must not be able to read"),
    ],
};

/// A zone in table form
pub const ZONE: Table = Table {
    path: "[zones.\"NAME\"]",
    help: "A zone and its primaries",
    keys: &[
        key("primaries", "addresses", "", "primaries in order of preference"),
        key("source_address", "address", "", "local address that polls and transfers come from"),
        key("notify_from", "addresses", "[]", "who may send NOTIFY besides the primaries"),
        key("refresh_min", "duration", "", "default: that of [transfer]"),
        key("refresh_max", "duration", "", "default: that of [transfer]"),
        key("retry_min", "duration", "", "default: that of [transfer]"),
        key("retry_max", "duration", "", "default: that of [transfer]"),
        key("expire_min", "duration", "", "default: that of [transfer]"),
        key("expire_max", "duration", "", "default: that of [transfer]"),
        key("regress_after", "1s to 30d", "", "default: that of [transfer]"),
        key("regress_after_silence", "1s to 30d", "", "default: that of [transfer]"),
        key("key", "name of a key", "", "TSIG key that its primaries share with us"),
        key("ixfr", "true or false", "true", "whether the primaries are asked for differences"),
        key("allow_transfer", "prefixes and keys", "", "who may transfer it from here; default: that of [secondaries]"),
        key("notify", "addresses", "", "secondaries that are told of changes; default: that of [secondaries]"),
        key("ixfr_out", "\"auto\", true or false", r#""auto""#, "whether secondaries get differences; auto: yes"),
    ],
};

/// A zone of which several primaries have parts
pub const UNITED: Table = Table {
    path: "[zones.\"NAME\"] with members",
    help: "A zone of which several primaries have parts, such as a reverse zone that several datacenters share",
    keys: &[
        key("members", "list of tables", "", "who has parts of the zone; the first settles conflicts"),
        key("ns", "names, \"intersection\" or \"union\"", r#""intersection""#, "the name servers of the zone"),
        key("ns_ttl", "seconds or duration", "3600", "TTL of the NS records"),
        key("soa_ttl", "seconds or duration", "", "TTL of the SOA; default: the smallest of the members"),
        key("soa_refresh", "seconds or duration", "", "default: the smallest of the members"),
        key("soa_retry", "seconds or duration", "", "default: the smallest of the members"),
        key("soa_expire", "seconds or duration", "", "default: the smallest of the members"),
        key("soa_minimum", "seconds or duration", "", "never above the smallest of the members"),
        key("mname", "domain name or \"self\"", "", "primary in the SOA; default: the first of ns, else this server"),
        key("rname", "mail address", "", "contact in the SOA; default: that of the first member"),
        key("serial_offset", "0 to 4294967295", "0", "added to the sum of the member serials"),
        key("exclude", "owner patterns", "[]", "owner names, relative to the zone, that are left out"),
        key("partial_after", "duration", r#""10m""#, "how long to wait for members never transferred"),
        key("on_expire", "\"withdraw\" or \"keep\"", r#""withdraw""#, "what becomes of an expired member's records"),
        key("expire_after", "duration", "", "when they leave even before their zone expires; default: with the zone"),
        key("damping", "table", "", "how slowly services lose addresses that members withdraw; default: at once"),
        key("allow_transfer", "prefixes and keys", "", "who may transfer it from here; default: that of [secondaries]"),
        key("notify", "addresses", "", "secondaries that are told of changes; default: that of [secondaries]"),
        key(
            "ixfr_out",
            "\"auto\", true or false",
            r#""auto""#,
            "whether secondaries get differences; auto: unless replicas share the mname",
        ),
    ],
};

/// One member of such a zone
pub const UNITED_MEMBER: Table = Table {
    path: "a member of [zones.\"NAME\"]",
    help: "A part of a zone and its primaries",
    keys: &[
        key("id", "text", "", "name of the member, unique within the zone: letters, digits, hyphens, underscores"),
        key("primaries", "addresses", "", "primaries in order of preference"),
        key("source_address", "address", "", "local address that polls and transfers come from"),
        key("notify_from", "addresses", "[]", "who may send NOTIFY besides the primaries"),
        key("refresh_min", "duration", "", "default: that of [transfer]"),
        key("refresh_max", "duration", "", "default: that of [transfer]"),
        key("retry_min", "duration", "", "default: that of [transfer]"),
        key("retry_max", "duration", "", "default: that of [transfer]"),
        key("expire_min", "duration", "", "default: that of [transfer]"),
        key("expire_max", "duration", "", "default: that of [transfer]"),
        key("regress_after", "1s to 30d", "", "default: that of [transfer]"),
        key("regress_after_silence", "1s to 30d", "", "default: that of [transfer]"),
        key("key", "name of a key", "", "TSIG key that its primaries share with us"),
        key("ixfr", "true or false", "true", "whether the primaries are asked for differences"),
    ],
};

/// A zone that comes from a tree of ZooKeeper's
pub const TREE: Table = Table {
    path: "[zones.\"NAME\"] with zookeeper",
    help: "A zone that Registrar fills, by way of ZooKeeper, and its reverse zones",
    keys: &[
        key("zookeeper", "addresses or host names", "", "members of the ensemble; port 2181 when none is written"),
        key("domain", "domain name", "", "domain of the tree; default: the zone's own name"),
        key("chroot", "path", r#""/""#, "node below which the tree begins"),
        key("session_timeout", "1s to 10m", r#""30s""#, "how long the ensemble keeps a session without contact"),
        key("serve_stale", "duration", r#""14d""#, "how long the last tree is served without a session"),
        key(
            "regress_after",
            "1s to 30d",
            "",
            "how long a tree that was reset must have had shrink_share of its nodes again; default: that of [transfer]",
        ),
        key(
            "max_reply",
            "64KiB to 1GiB",
            r#""32MiB""#,
            "longest reply of a member, such as the list of a node's children",
        ),
        key("reverse", "names and prefixes", "", "reverse zones; default: none, or all with binder_compat"),
        key("binder_compat", "true or false", "false", "whether unknown names are refused, as Binder does"),
        key(
            "watches",
            "\"auto\", \"recursive\" or \"each\"",
            r#""auto""#,
            "one watch for the tree, or two for each node",
        ),
        key("digest", "path", "", "file with user:password, which others must not be able to read"),
        key("tls", "table", "", "TLS to the ensemble; default: off"),
        key("ns", "names", "", "name servers of the zone and its reverse zones; default: this server"),
        key("ns_ttl", "seconds or duration", "3600", "TTL of the NS records"),
        key("mname", "domain name or \"self\"", r#""self""#, "primary in the SOA"),
        key("rname", "mail address", "", "contact in the SOA; default: hostmaster at the zone"),
        key("soa_ttl", "seconds or duration", "30", "TTL of the SOA, and of answers that a name is not there"),
        key("serial_offset", "0 to 4294967295", "0", "added to the serial that follows from the tree"),
        key("allow_transfer", "prefixes and keys", "", "who may transfer it from here; default: that of [secondaries]"),
        key("notify", "addresses", "", "secondaries that are told of changes; default: that of [secondaries]"),
        key(
            "ixfr_out",
            "\"auto\", true or false",
            r#""auto""#,
            "whether secondaries get differences; auto: unless replicas share the mname",
        ),
    ],
};

/// `tls` of such a zone
pub const TREE_TLS: Table = Table {
    path: "[zones.\"NAME\"] tls",
    help: "TLS to the ensemble",
    keys: &[
        key("ca", "path", "", "PEM file with the certificates that the ensemble's are signed with"),
        key("certificate", "path", "", "PEM file with our own certificate chain; default: none"),
        key("key", "path", "", "PEM file with its private key, which others must not be able to read"),
    ],
};

/// A zone that is written in the file
pub const SERVICES: Table = Table {
    path: "[zones.\"NAME\"] with services",
    help: "A zone of our own: records, and services from which records follow",
    keys: &[
        key(
            "services",
            "text or list of texts",
            "",
            "records as in a zone file; SOA and NS of the zone may be among them",
        ),
        key("openstack", "tables", "", "services that are found by DNS-SD (RFC 6763)"),
        key("ttl", "seconds or duration", "30", "TTL of records that have none of their own"),
        key("serial", "0 to 4294967295", "", "serial of these records; default: counted with each change"),
        key("ns", "names", "", "name servers of the zone; default: this server"),
        key("ns_ttl", "seconds or duration", "3600", "TTL of the NS records"),
        key("mname", "domain name or \"self\"", r#""self""#, "primary in the SOA"),
        key("rname", "mail address", "", "contact in the SOA; default: hostmaster at the zone"),
        key("soa_ttl", "seconds or duration", "30", "TTL of the SOA, and of answers that a name is not there"),
        key("allow_transfer", "prefixes and keys", "", "who may transfer it from here; default: that of [secondaries]"),
        key("notify", "addresses", "", "secondaries that are told of changes; default: that of [secondaries]"),
        key(
            "ixfr_out",
            "\"auto\", true or false",
            r#""auto""#,
            "whether secondaries get differences; auto: unless replicas share the mname and not the serial",
        ),
    ],
};

/// A service in such a zone
pub const OPENSTACK: Table = Table {
    path: "[[zones.\"NAME\".openstack]]",
    help: "An OpenStack service and its endpoint",
    keys: &[
        key("type", "service type", "", "the instance: identity, compute, baremetal, not keystone, nova, ironic"),
        key("url", "URL", "", "the endpoint; http or https, a host name or an address"),
        key("priority", "0 to 65535", "0", "the lowest is tried first (RFC 2782)"),
        key("weight", "0 to 65535", "0", "share among endpoints of one priority"),
    ],
};

/// A primary in table form
pub const PRIMARY: Table = Table {
    path: "primaries",
    help: "One primary",
    keys: &[
        key("address", "address", "", "address with or without a port"),
        key("source_address", "address", "", "default: that of the zone"),
        key("key", "name of a key", "", "TSIG key that it shares with us; default: that of the zone"),
    ],
};

/// A region in table form
pub const AGGREGATION: Table = Table {
    path: "[aggregations.\"NAME\"]",
    help: "A region zone and how it is made",
    keys: &[
        key("members", "zone names", "", "member zones; the first settles conflicts"),
        key("ns", "names, \"intersection\" or \"union\"", r#""intersection""#, "the name servers of the region"),
        key("ns_ttl", "seconds or duration", "3600", "TTL of the NS records"),
        key("soa_ttl", "seconds or duration", "", "TTL of the SOA; default: the smallest of the members"),
        key("soa_refresh", "seconds or duration", "", "default: the smallest of the members"),
        key("soa_retry", "seconds or duration", "", "default: the smallest of the members"),
        key("soa_expire", "seconds or duration", "", "default: the smallest of the members"),
        key("soa_minimum", "seconds or duration", "", "never above the smallest of the members"),
        key("mname", "domain name or \"self\"", "", "primary in the SOA; default: the first of ns, else this server"),
        key("rname", "mail address", "", "contact in the SOA; default: that of the first member"),
        key("serial_offset", "0 to 4294967295", "0", "added to the sum of the member serials"),
        key("rdata_names", "\"keep\" or \"rewrite\"", r#""keep""#, "whether names in RDATA move to the region"),
        key("exclude", "owner patterns", "[]", "owner names, relative to the zone, that are left out"),
        key("partial_after", "duration", r#""10m""#, "how long to wait for members never transferred"),
        key("on_expire", "\"withdraw\" or \"keep\"", r#""withdraw""#, "what becomes of an expired member's records"),
        key("expire_after", "duration", "", "when they leave even before their zone expires; default: with the zone"),
        key("damping", "table", "", "how slowly services lose addresses that members withdraw; default: at once"),
        key("allow_transfer", "prefixes and keys", "", "who may transfer it from here; default: that of [secondaries]"),
        key("notify", "addresses", "", "secondaries that are told of changes; default: that of [secondaries]"),
        key(
            "ixfr_out",
            "\"auto\", true or false",
            r#""auto""#,
            "whether secondaries get differences; auto: unless replicas share the mname",
        ),
    ],
};

/// `damping` in a region
pub const DAMPING: Table = Table {
    path: "[aggregations.\"NAME\"] damping",
    help: "How slowly services lose addresses that members withdraw while their instances live",
    keys: &[
        key("max_removed", "fraction", r#""1/3""#, "the share of a service's addresses that may go within the window"),
        key("window", "duration", r#""1m""#, "the window"),
        key("last", "duration", r#""10m""#, "how long the last address of a service stays"),
    ],
};

/// `[[drains]]`
pub const DRAIN: Table = Table {
    path: "[[drains]]",
    help: "A member, or names of it, that regions go without",
    keys: &[
        key("member", "zone name", "", "the member zone"),
        key("region", "zone name", "", "the region that goes without it; default: all that have it"),
        key("names", "owner pattern", "", "the owner names that go, relative to the member; default: all"),
        key("until", "date and time", "", "when it ends by itself, such as 2026-11-21T06:00:00Z; default: never"),
        key("reason", "text", "", "why, for those who see it in status, log and lookup"),
    ],
};

/// `[transfer]`
pub const TRANSFER: Table = Table {
    path: "[transfer]",
    help: "Timers and limits of all transfers",
    keys: &[
        key("refresh_min", "duration", r#""5s""#, "shortest time between polls"),
        key("refresh_max", "duration", r#""1d""#, "longest time between polls"),
        key("retry_min", "duration", r#""2s""#, "shortest time to the next try after a failure"),
        key("retry_max", "duration", r#""1m""#, "longest time to the next try after a failure"),
        key("expire_min", "duration", r#""1m""#, "shortest life of a zone without contact"),
        key("expire_max", "duration", r#""60d""#, "longest life of a zone without contact"),
        key(
            "regress_after",
            "1s to 30d",
            r#""5m""#,
            "how long all primaries must have had an older serial before it is believed; at most half of EXPIRE",
        ),
        key(
            "regress_after_silence",
            "1s to 30d",
            r#""1d""#,
            "the same while one of them is silent; at most half of EXPIRE",
        ),
        key("connect_timeout", "duration", r#""5s""#, "SOA poll, and TCP connection"),
        key("message_timeout", "duration", r#""15s""#, "from one complete message to the next"),
        key("total_timeout", "duration", r#""10m""#, "a whole transfer"),
        key("min_rate_bytes", "size", r#""1KiB""#, "bytes a second a transfer must keep up; 0 for none"),
        key("max_bytes", "size", r#""256MiB""#, "largest transfer"),
        key("max_records", "1 or more", "5000000", "most records in a transfer, and in a zone"),
        key("max_messages", "1 or more", "1000000", "most messages in a transfer"),
        key("shrink_share", "0 to 1", "0.5", "a zone that shrinks below this share must be confirmed; 0 for never"),
        key("confirm_after", "duration", r#""10s""#, "pause before the confirming transfer"),
        key("transfers_per_primary", "1 to 10000", "25", "transfers at once from one address and port"),
        key("audit", "cron, \"never\" or false", r#""0 30 4 * * *""#, "when all zones are transferred in full, UTC"),
    ],
};

/// `[secondaries]`
pub const SECONDARIES: Table = Table {
    path: "[secondaries]",
    help: "Who may transfer the zones from here, and who is notified, unless a zone says otherwise",
    keys: &[
        key("allow_transfer", "prefixes and keys", "[]", "who may transfer every zone from here"),
        key("notify", "addresses", "[]", "secondaries that are told of every change"),
        key("catalog", "domain name", "", "catalog zone (RFC 9432) that lists everything served; default: none"),
        key("history_versions", "0 to 1000000", "500", "versions of each zone that differences reach back"),
        key("history_bytes", "size", r#""64MiB""#, "memory for the differences of each zone"),
        key(
            "history_total_bytes",
            "size",
            r#""512MiB""#,
            "the same for all zones together; those with most lose their oldest",
        ),
    ],
};

/// Table form of an access rule for transfers
pub const RULE: Table = Table {
    path: "allow_transfer",
    help: "Who may transfer; both parts must be met where both are written",
    keys: &[
        key("prefix", "address prefix", "", "addresses that may transfer"),
        key("key", "name of a key", "", "TSIG key that requests must be signed with"),
    ],
};

/// A secondary in table form
pub const TARGET: Table = Table {
    path: "notify",
    help: "A secondary that is told of changes",
    keys: &[
        key("address", "address", "", "address with or without a port"),
        key("source_address", "address", "", "local address that NOTIFY comes from; default: what the system chooses"),
        key("key", "name of a key", "", "TSIG key to sign with"),
    ],
};

/// `[probe]`
pub const PROBE: Table = Table {
    path: "[probe]",
    help: "Whether the name servers of zones and regions answer, alike, and as the parent zone lists them",
    keys: &[
        key(
            "every",
            "duration or \"off\"",
            "",
            "how often they are asked; default: 5m where a region has ns, else off",
        ),
        key("resolver", "addresses", "", "who finds addresses and parent zones; default: those of the system"),
        key(
            "stale_after",
            "duration",
            "",
            "how long a server may be behind, or ahead of this one; default: REFRESH of the zone, 5m at least",
        ),
        key("timeout", "duration", r#""2s""#, "for each question"),
        key("skip", "zone names", "[]", "zones and regions that are not looked at"),
        key(
            "parents",
            "table of names and addresses",
            "",
            "servers of parent zones; default: those that the resolver finds",
        ),
        key(
            "hosts",
            "table of names and addresses",
            "",
            "where name servers are, if not where the resolver finds them",
        ),
        key(
            "port",
            "1 to 65535",
            "53",
            "where name servers answer, if neither hosts nor parents says so; for tests and odd networks",
        ),
    ],
};

/// `[state]`
pub const STATE: Table = Table {
    path: "[state]",
    help: "What is kept on disk",
    keys: &[key("folder", "path or false", r#""/var/lib/aggregator""#, "zones and serials; false keeps nothing")],
};

/// `[metrics]`
pub const METRICS: Table = Table {
    path: "[metrics]",
    help: "The HTTP endpoint for Prometheus",
    keys: &[
        key("listen", "address or addresses", r#""127.0.0.1:9153""#, "TCP addresses; [] switches it off"),
        key("page", "true or false", "true", "whether the status page and its API are there, too"),
        key(
            "names",
            "names",
            "[]",
            "host names under which the page is asked for, beside addresses, localhost and the own name",
        ),
    ],
};

/// `[control]`
pub const CONTROL: Table = Table {
    path: "[control]",
    help: "The socket for the other commands",
    keys: &[key("socket", "path", r#""/run/aggregator/control.sock""#, "Unix socket")],
};

/// `[log]`
pub const LOG: Table = Table {
    path: "[log]",
    help: "What is logged, and how",
    keys: &[
        key("level", "level or filter", r#""info""#, "off, error, warn, info, debug, trace, or a filter by module"),
        key("format", "\"human\" or \"json\"", r#""human""#, "how a line looks"),
    ],
};

/// All tables, in the order of the example file.
pub const TABLES: [&Table; 24] = [
    &ROOT,
    &SERVER,
    &TLS,
    &KEY,
    &ZONE,
    &UNITED,
    &UNITED_MEMBER,
    &TREE,
    &TREE_TLS,
    &SERVICES,
    &OPENSTACK,
    &PRIMARY,
    &AGGREGATION,
    &DAMPING,
    &DRAIN,
    &TRANSFER,
    &SECONDARIES,
    &RULE,
    &TARGET,
    &PROBE,
    &STATE,
    &METRICS,
    &CONTROL,
    &LOG,
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_misses_are_suggested() {
        let keys = || SERVER.keys.iter().map(|key| key.name);
        assert_eq!(suggest("lisen", keys()), Some("listen"));
        assert_eq!(suggest("tcp_idle_timout", keys()), Some("tcp_idle_timeout"));
        assert_eq!(suggest("primary", ZONE.keys.iter().map(|key| key.name)), Some("primaries"));
        assert_eq!(suggest("colour", keys()), None);
        assert_eq!(suggest(&"x".repeat(100_000), keys()), None);
    }

    #[test]
    fn no_key_is_listed_twice() {
        for table in TABLES {
            for (index, key) in table.keys.iter().enumerate() {
                assert!(table.keys[..index].iter().all(|other| other.name != key.name), "{} {}", table.path, key.name);
            }
        }
    }
}
