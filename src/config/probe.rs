//! The section `[probe]`: settings for the check of name servers from outside.
//!
//! Invariant: what is looked at is served here; reverse zones and the catalog, which are rarely delegated, are left
//! out.
//!
//! Cost: O(zones × those that are skipped).

use crate::merge::{NsPolicy, RegionPlan};
use crate::probe::ProbePlan;
use settings::fields::{Fields, put};
use settings::read::{Reader, shorten};
use settings::schema::{Kind, Table, key};
use settings::tree::{Node, Value};
use settings::units::format_duration;
use std::collections::HashMap;
use std::net::SocketAddr;
use std::time::Duration;
use wire::name::Name;

/// Port of DNS (RFC 1035 section 4.2).
const DNS_PORT: u16 = 53;
/// Default interval, if there is anything to compare with.
const DEFAULT_PERIOD: Duration = Duration::from_secs(300);
/// Shortest interval: the servers belong to others, too.
const SHORTEST_PERIOD: Duration = Duration::from_secs(1);

/// `[probe]`
pub static PROBE: Table<ProbePlan> = Table {
    path: "[probe]",
    help: "Whether the name servers of zones and regions answer, alike, and as the parent zone lists them",
    keys: &[&[
        key("every", "", "how often they are asked; default: 5m where a region has ns, else off")
            .takes(Kind::Own("duration or \"off\"", |r, key, node, probe| {
                put(&mut probe.every, read_period(r, key, node))
            })),
        key("resolver", "", "who finds addresses and parent zones; default: those of the system")
            .takes(Kind::Own("addresses", |r, key, node, probe| put(&mut probe.resolvers, read_servers(r, key, node)))),
        key(
            "stale_after",
            "",
            "how long a server may be behind, or ahead of this one; default: REFRESH of the zone, 5m at least",
        )
        .takes(Kind::PositiveDuration(|probe, span| probe.stale_after = Some(span))),
        key("timeout", r#""2s""#, "for each question")
            .takes(Kind::PositiveDuration(|probe, span| probe.timeout = span)),
        key("skip", "[]", "zones and regions that are not looked at").bound("zone names"),
        key("parents", "", "servers of parent zones; default: those that the resolver finds")
            .takes(Kind::Own("table of names and addresses", |r, key, node, probe| {
                put(&mut probe.parents, read_addresses(r, key, node))
            })),
        key("hosts", "", "where name servers are, if not where the resolver finds them")
            .takes(Kind::Own("table of names and addresses", |r, key, node, probe| {
                put(&mut probe.hosts, read_addresses(r, key, node))
            })),
        key(
            "port",
            "53",
            "where name servers answer, if neither hosts nor parents says so; for tests and odd networks",
        )
        .takes(Kind::Number16(1, |probe, port| probe.port = port)),
    ]],
};

/// Reads `[probe]`; `zones` are those that are not regions.
pub fn read_probe(reader: &mut Reader<'_>, root: &Fields<'_>, zones: Vec<Name>, regions: &[RegionPlan]) -> ProbePlan {
    // Without a list of name servers nobody has cared about the delegation so far.
    let is_listed = regions.iter().any(|region| matches!(region.ns, NsPolicy::Listed(_)));
    let mut plan = ProbePlan { every: is_listed.then_some(DEFAULT_PERIOD), zones, ..ProbePlan::default() };
    plan.zones.retain(is_probed);
    plan.zones.extend(regions.iter().map(|region| region.origin.clone()));
    let fields = PROBE.read_section(reader, root, &mut plan);
    let wanted = "a list of zones such as [\"us-west-1.cns.example.com\"]";
    let named = |reader: &mut Reader<'_>, key: &str, node: &Node| Some((reader.name(key, node)?, node.at));
    for (zone, at) in fields.read(reader, "skip", |r, key, node| r.list(key, node, wanted, named)).unwrap_or_default() {
        let before = plan.zones.len();
        plan.zones.retain(|other| *other != zone);
        if plan.zones.len() == before {
            reader.error(at, format!("\"skip\" names {zone}, which is not looked at anyway; remove it"));
        }
    }
    plan
}

/// Returns true if the name servers of a zone are looked at.
pub fn is_probed(zone: &Name) -> bool {
    // The reverse zones of private networks are delegated to others (RFC 7534), and those of public ones rarely to us.
    let roots = ["in-addr.arpa", "ip6.arpa"].map(|root| Name::parse(root).expect("a name"));
    !roots.iter().any(|root| zone.is_within(root))
}

/// Reads how often, or `off`.
fn read_period(reader: &mut Reader<'_>, key: &str, node: &Node) -> Option<Option<Duration>> {
    match &node.value {
        Value::Text(text) if text == "off" => return Some(None),
        Value::Boolean(false) => return Some(None),
        _ => {}
    }
    let every = reader.positive_duration(key, node)?;
    if every < SHORTEST_PERIOD {
        let (given, least) = (format_duration(every), format_duration(SHORTEST_PERIOD));
        return reader.refuse(node.at, format!("\"{key}\" cannot be {given}; write at least \"{least}\", or \"off\""));
    }
    Some(Some(every))
}

/// Reads one address or a list.
fn read_servers(reader: &mut Reader<'_>, key: &str, node: &Node) -> Option<Vec<SocketAddr>> {
    let wanted = "a list of addresses such as [\"192.0.2.53\"]";
    match &node.value {
        Value::Text(_) => reader.address(key, node, DNS_PORT).map(|address| vec![address]),
        _ => reader.list(key, node, wanted, |reader, key, node| reader.address(key, node, DNS_PORT)),
    }
}

/// Reads a table of names with addresses.
fn read_addresses(reader: &mut Reader<'_>, key: &str, node: &Node) -> Option<HashMap<Name, Vec<SocketAddr>>> {
    let Value::Table(entries) = &node.value else {
        return reader.wrong_type(key, node, "a table such as { \"example.com\" = [\"192.0.2.1\"] }");
    };
    let mut table = HashMap::new();
    for entry in entries {
        if matches!(entry.node.value, Value::Table(_)) {
            let name = shorten(&entry.key);
            reader.error(entry.key_at, format!("\"{name}\" in \"{key}\" is a table; write names with dots in quotes"));
            continue;
        }
        let name = reader.parse_name(entry.key_at, &entry.key);
        let addresses = read_servers(reader, &entry.key, &entry.node);
        if addresses.as_ref().is_some_and(Vec::is_empty) {
            let name = shorten(&entry.key);
            reader.error(entry.key_at, format!("\"{name}\" in \"{key}\" has no address; write one, or remove it"));
        }
        table.extend(name.zip(addresses));
    }
    Some(table)
}
