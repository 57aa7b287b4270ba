//! All tables of the file, and the file itself; each table stands in the file that reads it.
//!
//! Cost: O(keys).

use crate::config::addresses::ADDRESSES;
use crate::config::answers::{ANSWERS, NAMES, OWN};
use crate::config::catalogs::CATALOG;
use crate::config::clients::LIST;
use crate::config::drains::DRAIN;
use crate::config::floods::{COOKIES, RATE_LIMIT};
use crate::config::inventories::{FETCHED, FOLLOWED, INVENTORY, MADE};
use crate::config::keys::KEY;
use crate::config::operators::HTTPS;
use crate::config::peer_tls::PEER_TLS;
use crate::config::primaries::{PRIMARY, ZONE};
use crate::config::probe::PROBE;
use crate::config::regions::{AGGREGATION, DAMPING, MATCHING, MEMBER};
use crate::config::secondaries::{RULE, SECONDARIES, TARGET};
use crate::config::security::SECURITY;
use crate::config::server::{CONTROL, LOG, METRICS, SERVER, STATE, TLS};
use crate::config::static_zones::{OPENSTACK, SERVICES};
use crate::config::steering::{OWN_STEERING, STEERING};
use crate::config::taps::{DNSTAP, QUERY_LOG};
use crate::config::traces::TRACES;
use crate::config::transfer::TRANSFER;
use crate::config::trees::{TREE, TREE_TLS};
use crate::config::triton::TRITON;
use crate::config::ufds::UFDS;
use crate::config::united::{UNITED, UNITED_MEMBER};
use settings::schema::{Key, Table, TableText, key};

/// Values that keys take, as references call them, and how they are written.
pub const VALUES: [(&str, &str); 6] = [
    ("duration", r#""250ms", "30s", "10m", "12h", "1h30m", "30d""#),
    ("size", r#""64KiB", "256MiB", or a number of bytes"#),
    ("address", r#""192.0.2.1", "192.0.2.1:5353", "[2001:db8::1]:53""#),
    ("addresses", "one, or a list of them"),
    ("prefixes and keys", r#"["192.0.2.0/24", { prefix = "2001:db8::/32", key = "NAME" }]"#),
    ("cron", "second minute hour day month weekday, in UTC"),
];

/// The file itself.
pub static ROOT: Table<()> = Table {
    path: "",
    help: "Sections of the file",
    keys: &[&[
        key("include", "", "further files that belong to this one, such as conf.d/*.toml; relative to this file")
            .bound("path or paths"),
        section("server", "this server and its listeners"),
        section("rate_limit", "how many responses over UDP the clients of one network get in full"),
        section("cookies", "DNS Cookies, by which clients are known not to be forged"),
        section("keys", "TSIG keys"),
        key("templates", "", "keys that several zones, aggregations or inventories share").bound("tables"),
        section("zones", "the zones to transfer and their primaries"),
        section("catalogs", "catalogs of primaries, whose zones are transferred and served (RFC 9432)"),
        section("inventories", "the instances of datacenters, of which zones are made"),
        section("aggregations", "the region zones and their members"),
        section("clients", "the zones whose clients are known, and the prefixes of their addresses"),
        section("answers", "how much of a large set one answer from a region has"),
        key("drains", "", "members that are taken out of regions for a while").bound("list of tables"),
        section("transfer", "timers and limits of all transfers"),
        section("secondaries", "who may transfer the zones from here, and who is notified"),
        section("probe", "whether name servers are compared with what parents and zones say of them"),
        section("state", "what is kept on disk"),
        section("metrics", "the HTTP endpoint for Prometheus"),
        section("control", "the socket for the other commands"),
        section("log", "what is logged, and how"),
        section("dnstap", "copies of queries and responses for a collector"),
        section("query_log", "log lines of queries"),
        section("traces", "traces of changes for a collector of OpenTelemetry"),
        section("security", "the rights that the server gives up"),
    ]],
};

/// A section of the file.
const fn section(name: &'static str, help: &'static str) -> Key<()> {
    key(name, "", help).bound("table")
}

/// Returns the descriptions of all tables, in the order of the example file.
pub fn tables() -> [TableText; 48] {
    [
        ROOT.describe(),
        SERVER.describe(),
        TLS.describe(),
        RATE_LIMIT.describe(),
        COOKIES.describe(),
        KEY.describe(),
        ZONE.describe(),
        CATALOG.describe(),
        UNITED.describe(),
        UNITED_MEMBER.describe(),
        TREE.describe(),
        TREE_TLS.describe(),
        INVENTORY.describe(),
        FETCHED.describe(),
        FOLLOWED.describe(),
        TRITON.describe(),
        UFDS.describe(),
        MADE.describe(),
        SERVICES.describe(),
        OPENSTACK.describe(),
        PRIMARY.describe(),
        PEER_TLS.describe(),
        AGGREGATION.describe(),
        MEMBER.describe(),
        MATCHING.describe(),
        ADDRESSES.describe(),
        DAMPING.describe(),
        OWN.describe(),
        STEERING.describe(),
        NAMES.describe(),
        OWN_STEERING.describe(),
        LIST.describe(),
        ANSWERS.describe(),
        DRAIN.describe(),
        TRANSFER.describe(),
        SECONDARIES.describe(),
        RULE.describe(),
        TARGET.describe(),
        PROBE.describe(),
        STATE.describe(),
        METRICS.describe(),
        CONTROL.describe(),
        HTTPS.describe(),
        LOG.describe(),
        DNSTAP.describe(),
        QUERY_LOG.describe(),
        TRACES.describe(),
        SECURITY.describe(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use settings::schema::suggest;

    #[test]
    fn near_misses_are_suggested() {
        let names = |table: TableText| table.keys.into_iter().map(|key| key.name);
        let keys = || names(SERVER.describe());
        assert_eq!(suggest("lisen", keys()), Some("listen"));
        assert_eq!(suggest("tcp_idle_timout", keys()), Some("tcp_idle_timeout"));
        assert_eq!(suggest("primary", names(ZONE.describe())), Some("primaries"));
        assert_eq!(suggest("colour", keys()), None);
        assert_eq!(suggest(&"x".repeat(100_000), keys()), None);
    }

    #[test]
    fn no_key_is_listed_twice() {
        for table in tables() {
            for (index, key) in table.keys.iter().enumerate() {
                assert!(table.keys[..index].iter().all(|other| other.name != key.name), "{} {}", table.path, key.name);
            }
        }
    }
}
