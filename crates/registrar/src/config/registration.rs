//! Registration of an instance: the block `registration`, checked against the limits of DNS and ZooKeeper.

use super::{Block, milliseconds};
use crate::payload::{Fields, HostKind, ServicePayload};
use serde_json::Number;
use settings::read::{Reader, shorten};
use settings::tree::{Entry, Node, Value};
use std::time::Duration;
use wire::name::Name;

/// The TTL of a service that names none (`docs/registrar.md`, "The file").
const SERVICE_TTL: u32 = 60;
/// The longest TTL (RFC 2181 section 8).
const LONGEST_TTL: u64 = (1 << 31) - 1;

/// Names, address and service under which the instance is registered.
#[derive(Clone, Debug, PartialEq)]
pub struct Registration {
    /// Address as it was written; none leaves it to the machine's interfaces.
    pub address: Option<String>,
    /// Lower case.
    pub domain: String,
    pub kind: String,
    /// Lower case, none twice.
    pub aliases: Vec<String>,
    pub ttl: Option<Number>,
    pub ports: Option<Vec<Number>>,
    pub service: Option<ServicePayload>,
    /// Interval at which all nodes are looked at, even if no watch has reported a change.
    pub heartbeat: Duration,
}

impl Registration {
    /// Reads the block; `outer` is the address beside it.
    pub(super) fn read(reader: &mut Reader<'_>, node: &Node, outer: Option<&Entry>) -> Option<Registration> {
        const KEYS: [&str; 8] =
            ["adminIp", "domain", "type", "aliases", "ttl", "ports", "service", "heartbeatInterval"];
        let block = Block::open(reader, node, "\"registration\"", &KEYS)?;
        // Both are checked, and the inner one wins.
        let outer = outer.and_then(|entry| read_address(reader, entry));
        let inner = block.entry("adminIp").and_then(|entry| read_address(reader, entry));
        let domain = block.need(reader, "domain", "the name of the service");
        let domain = domain.and_then(|entry| read_domain(reader, "domain", &entry.node));
        let kind = block.need(reader, "type", "a type of host, for example \"load_balancer\"");
        let kind = kind.and_then(|entry| read_kind(reader, &entry.node));
        let aliases = block.entry("aliases").map(|entry| read_aliases(reader, &entry.node, domain.as_deref()));
        let ttl = block.entry("ttl").and_then(|entry| reader.integer::<u64>("ttl", &entry.node, 0..=LONGEST_TTL));
        let service = block.entry("service").and_then(|entry| read_service(reader, &entry.node));
        let ports = match (block.entry("ports"), &service) {
            (Some(entry), _) => reader.list("ports", &entry.node, "a list of ports", read_port),
            (None, Some((_, port))) => Some(vec![port.clone()]),
            (None, None) => None,
        };
        let heartbeat = block.entry("heartbeatInterval").and_then(|entry| milliseconds(reader, entry, 100));
        Some(Registration {
            address: inner.or(outer),
            domain: domain?,
            kind: kind?,
            aliases: aliases.unwrap_or_default(),
            ttl: ttl.map(Number::from),
            ports,
            service: service.map(|(service, _)| service),
            heartbeat: heartbeat.unwrap_or(Duration::from_secs(3)),
        })
    }
}

/// Reads the address of the records.
fn read_address(reader: &mut Reader<'_>, entry: &Entry) -> Option<String> {
    let address = reader.bare_address(&entry.key, &entry.node, "the address where the service is reached")?;
    if address.is_ipv6() {
        reader.warn(entry.node.at, "Binder serves no IPv6 addresses; the record is for other servers".to_string());
    }
    match &entry.node.value {
        Value::Text(text) => Some(text.clone()),
        _ => None,
    }
}

/// Reads a name whose labels become a path.
fn read_domain(reader: &mut Reader<'_>, key: &str, node: &Node) -> Option<String> {
    let text = reader.text(key, node, "a domain name")?;
    let name = text.to_ascii_lowercase();
    let fault = if name.is_empty() {
        Some("is empty")
    } else if name.split('.').any(str::is_empty) {
        Some("has a dot too many")
    } else if !name.bytes().all(is_served) {
        // Binder refuses questions with other characters, so nobody could ask.
        Some("has a character other than letters, digits, \"-\", \"_\" and \".\"")
    } else if Name::parse(&name).is_err() {
        Some("is too long for DNS")
    } else if name.ends_with(".zookeeper") || name == "zookeeper" {
        Some("is where ZooKeeper keeps its own nodes")
    } else {
        None
    };
    if let Some(fault) = fault {
        let text = shorten(text);
        return reader.refuse(node.at, format!("\"{text}\" {fault}; write a name such as \"shop.emy-10.example.com\""));
    }
    Some(name)
}

/// Returns true if DNS clients can ask for names with this octet.
fn is_served(octet: u8) -> bool {
    octet.is_ascii_lowercase() || octet.is_ascii_digit() || b"-_.".contains(&octet)
}

/// Reads the type of the host records.
fn read_kind(reader: &mut Reader<'_>, node: &Node) -> Option<String> {
    let text = reader.text("type", node, "a type of host, for example \"load_balancer\"")?;
    // These would be two different things under one key, or no host at all.
    if ["", "type", "address", "ttl", "service"].contains(&text) {
        let message = format!("\"type\" cannot be \"{text}\"; write a type of host, for example \"load_balancer\"");
        return reader.refuse(node.at, message);
    }
    if HostKind::from_type(text).is_none() {
        reader.warn(node.at, format!("no server knows the type \"{}\"; nothing is answered for it", shorten(text)));
    }
    Some(text.to_string())
}

/// Reads the further names.
fn read_aliases(reader: &mut Reader<'_>, node: &Node, domain: Option<&str>) -> Vec<String> {
    let mut seen: Vec<String> = Vec::new();
    let wanted = "a list of names such as [\"shop-a.shop.emy-10.example.com\"]";
    reader.list("aliases", node, wanted, |reader, key, node| {
        let name = read_domain(reader, key, node)?;
        if Some(name.as_str()) == domain {
            reader.error(node.at, format!("\"{name}\" is the domain itself; write a name below it"));
        } else if seen.contains(&name) {
            reader.error(node.at, format!("\"{name}\" is there already; remove one of them"));
        } else if let Some(other) = seen.iter().find(|other| nests(other, &name)) {
            let message = format!("\"{name}\" and \"{other}\" cannot both be nodes, because one is below the other");
            reader.error(node.at, format!("{message}; write another name"));
        } else if domain.is_some_and(|domain| domain.ends_with(&format!(".{name}"))) {
            reader.error(node.at, format!("\"{name}\" is above the domain; write a name below it"));
        } else if domain.is_some_and(|domain| !name.ends_with(&format!(".{domain}"))) {
            reader.warn(node.at, format!("\"{name}\" is not below the domain"));
        }
        seen.push(name);
        Some(())
    });
    seen
}

/// Returns true if one of two names lies below the other: nothing can lie below a registered name.
fn nests(one: &str, other: &str) -> bool {
    let below = |name: &str, above: &str| name.strip_suffix(above).is_some_and(|rest| rest.ends_with('.'));
    below(one, other) || below(other, one)
}

/// Reads a port.
fn read_port(reader: &mut Reader<'_>, key: &str, node: &Node) -> Option<Number> {
    reader.integer::<u16>(key, node, 1..=65535).map(Number::from)
}

/// Reads the service and its port; everything in it is written as it stands.
fn read_service(reader: &mut Reader<'_>, node: &Node) -> Option<(ServicePayload, Number)> {
    let Value::Table(entries) = &node.value else {
        let wanted = "an object with \"type\": \"service\" and \"service\": {...}";
        return reader.wrong_type("service", node, wanted);
    };
    match node.get("type").map(|kind| &kind.value) {
        Some(Value::Text(kind)) if kind == "service" => {}
        _ => {
            let at = node.get("type").map_or(node.at, |kind| kind.at);
            reader.error(at, "the block \"service\" has another \"type\"; write \"type\": \"service\"".to_string());
        }
    }
    let Some(inner) = node.get("service") else {
        let message = "\"service\" is missing inside; write its \"srvce\", \"proto\" and \"port\"".to_string();
        return reader.refuse(node.at, message);
    };
    let Value::Table(inner_entries) = &inner.value else {
        return reader.wrong_type("service", inner, "an object with \"srvce\", \"proto\" and \"port\"");
    };
    let mut needed = |key: &str, advice: &str| {
        let found = inner.get(key);
        if found.is_none() {
            reader.error(inner.at, format!("\"{key}\" is missing; write {advice}"));
        }
        found
    };
    let labels = [needed("srvce", "a label such as \"_http\""), needed("proto", "\"_tcp\" or \"_udp\"")];
    let port = needed("port", "the port of the service");
    for (key, label) in ["srvce", "proto"].into_iter().zip(labels) {
        if let Some(label) = label {
            check_label(reader, key, label);
        }
    }
    if let Some(ttl) = inner.get("ttl") {
        reader.integer::<u64>("ttl", ttl, 0..=LONGEST_TTL);
    }
    let mut service = plain_fields(reader, inner_entries);
    if inner.get("ttl").is_none() {
        service.push(("ttl".to_string(), SERVICE_TTL.into()));
    }
    let block: Vec<Entry> = entries.iter().filter(|entry| entry.key != "service").cloned().collect();
    let block = plain_fields(reader, &block);
    let port = read_port(reader, "port", port?)?;
    Some((ServicePayload { block: Fields(block), service: Fields(service) }, port))
}

/// Looks whether questions can have this label: an underscore and no further one (`docs/binder.md` 7).
fn check_label(reader: &mut Reader<'_>, key: &str, node: &Node) {
    let example = if key == "srvce" { "_http" } else { "_tcp" };
    let wanted = format!("a label such as \"{example}\"");
    let Some(text) = reader.text(key, node, &wanted) else { return };
    let rest = text.strip_prefix('_').unwrap_or_default();
    let letters = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
    if rest.is_empty() || rest.len() > 62 || !rest.bytes().all(letters) {
        let text = shorten(text);
        let message = format!("nobody can ask for SRV records with \"{key}\" \"{text}\"; write {wanted}");
        reader.warn(node.at, message);
    }
}

/// Entries as they are written to ZooKeeper.
fn plain_fields(reader: &mut Reader<'_>, entries: &[Entry]) -> Vec<(String, serde_json::Value)> {
    entries.iter().map(|entry| (entry.key.clone(), plain(reader, &entry.node))).collect()
}

/// A value as it is written to ZooKeeper.
fn plain(reader: &mut Reader<'_>, node: &Node) -> serde_json::Value {
    match &node.value {
        Value::Text(text) => text.clone().into(),
        Value::Integer(number) => (*number).into(),
        Value::Float(number) => (*number).into(),
        Value::Boolean(choice) => (*choice).into(),
        Value::List(items) => items.iter().map(|item| plain(reader, item)).collect(),
        Value::Table(entries) => plain_fields(reader, entries).into_iter().collect(),
        Value::Unusable("null") => serde_json::Value::Null,
        Value::Unusable(_) | Value::Date(_) => {
            let kind = node.kind();
            reader.error(node.at, format!("the service has {kind}; write a value that JSON can hold"));
            serde_json::Value::Null
        }
    }
}
