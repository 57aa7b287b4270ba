//! Data of a node: JSON as Registrar and its like write it, read leniently and written exactly.
//!
//! Reading never fails as a whole: it says what the node is from now on, and what was wrong. Data that is no JSON, or a
//! JSON scalar, leaves the value before it in place, so that a half-written payload takes no service away
//! (`docs/binder.md` 5); an object or array replaces it whatever it holds. Of what a host or service says, single
//! values that make no sense (a TTL that is text, a port above 65535) are passed over: losing an address for the sake of a
//! TTL would be the worse answer.
//!
//! Cost: O(octets).

use serde::{Serialize, Serializer};
use serde_json::{Map, Value};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::LazyLock;
use wire::rr;

/// The TTL of a record that names none, in seconds.
pub const DEFAULT_TTL: u32 = 30;

/// Fault in a node's data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum PayloadError {
    #[error("the data is no JSON")]
    NotJson,
    #[error("the data is a JSON value other than an object")]
    NotObject,
    #[error("the record has no \"type\" that is a string")]
    NoType,
    #[error("the record is of a type that is not known")]
    UnknownType,
    #[error("the record has no object named like its type")]
    NoInner,
    #[error("the record has no address")]
    NoAddress,
    #[error("the record's address is no IP address")]
    BadAddress,
    #[error("the record has a TTL that is no number of seconds; it was passed over")]
    BadTtl,
    #[error("the record has a port that is no port number; it was passed over")]
    BadPort,
}

//--- Values ---

/// The types of host records (`docs/binder.md` 1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostKind {
    Database,
    DbHost,
    Host,
    LoadBalancer,
    MorayHost,
    OpsHost,
    RedisHost,
    RrHost,
}

impl HostKind {
    /// All kinds in their order, each with the `type` of its records.
    const ALL: [(HostKind, &str); 8] = [
        (HostKind::Database, "database"),
        (HostKind::DbHost, "db_host"),
        (HostKind::Host, "host"),
        (HostKind::LoadBalancer, "load_balancer"),
        (HostKind::MorayHost, "moray_host"),
        (HostKind::OpsHost, "ops_host"),
        (HostKind::RedisHost, "redis_host"),
        (HostKind::RrHost, "rr_host"),
    ];

    /// The kind that a record's `type` names.
    pub fn from_type(text: &str) -> Option<HostKind> {
        HostKind::ALL.into_iter().find(|(_, name)| *name == text).map(|(kind, _)| kind)
    }

    /// The `type` of such a record.
    pub fn as_str(self) -> &'static str {
        HostKind::ALL[self as usize].1
    }

    /// Returns true if such a host below a service's node is a member of the service.
    pub fn is_member(self) -> bool {
        use HostKind::*;
        matches!(self, LoadBalancer | MorayHost | OpsHost | RedisHost | RrHost)
    }

    /// Returns true if such a host's address gets a PTR record.
    pub fn has_reverse(self) -> bool {
        self != HostKind::Database
    }
}

/// A host record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Host {
    pub kind: HostKind,
    pub address: IpAddr,
    /// TTL of its own in seconds, the inner one before the outer one.
    pub ttl: Option<u32>,
    /// Ports of its own; none where the service's ports count. Empty when all that it names make no sense.
    pub ports: Option<Box<[u16]>>,
}

/// A service record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Service {
    /// The labels of its SRV records, underscores included; none if they cannot be asked for.
    pub labels: Option<(Box<str>, Box<str>)>,
    pub port: Option<u16>,
    /// Seconds.
    pub ttl: u32,
}

/// Kind of a node, with its data.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Payload {
    /// A path component, or a node of which nothing is known yet.
    #[default]
    Nothing,
    /// A record that cannot be used.
    Broken,
    Host(Host),
    Service(Box<Service>),
}

/// Result of reading a node's data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reading {
    /// New payload of the node; none if it stays as it was.
    pub payload: Option<Payload>,
    pub fault: Option<PayloadError>,
}

//--- Reading ---

/// Reads a node's data.
pub fn read(data: &[u8]) -> Reading {
    if data.is_empty() {
        return Reading { payload: None, fault: None };
    }
    // Binder reads text with replacement characters, so octets that are no UTF-8 cost the string that they stand in.
    let (payload, fault) = match serde_json::from_str(&String::from_utf8_lossy(data)) {
        Ok(Value::Object(record)) if record.is_empty() => (Some(Payload::Nothing), None),
        Ok(Value::Object(record)) => {
            let mut flaw = None;
            match read_record(&record, &mut flaw) {
                Ok(payload) => (Some(payload), flaw),
                Err(fault) => (Some(Payload::Broken), Some(fault)),
            }
        }
        Ok(Value::Null) => (Some(Payload::Nothing), None),
        Ok(Value::Array(_)) => (Some(Payload::Broken), Some(PayloadError::NotObject)),
        Ok(Value::Bool(_) | Value::Number(_) | Value::String(_)) => (None, Some(PayloadError::NotObject)),
        Err(_) => (None, Some(PayloadError::NotJson)),
    };
    Reading { payload, fault }
}

/// Reads a record that is an object; what is passed over is noted as a flaw.
fn read_record(record: &Map<String, Value>, flaw: &mut Option<PayloadError>) -> Result<Payload, PayloadError> {
    let kind = record.get("type").and_then(Value::as_str).ok_or(PayloadError::NoType)?;
    let inner = record.get(kind).and_then(as_fields).ok_or(PayloadError::NoInner)?;
    if kind == "service" {
        return Ok(Payload::Service(Box::new(read_service(record, inner, flaw))));
    }
    let kind = HostKind::from_type(kind).ok_or(PayloadError::UnknownType)?;
    let address = if kind == HostKind::Database {
        let primary = inner.get("primary").and_then(Value::as_str).ok_or(PayloadError::NoAddress)?;
        parse_address(host_of_url(primary))
    } else {
        parse_address(inner.get("address").and_then(Value::as_str).ok_or(PayloadError::NoAddress)?)
    };
    Ok(Payload::Host(Host {
        kind,
        address: address.ok_or(PayloadError::BadAddress)?,
        ttl: read_ttl(&[inner, record], flaw),
        ports: read_ports(inner.get("ports"), flaw),
    }))
}

/// An object, or an array, which is one without any of the fields that matter, as Binder takes it.
fn as_fields(value: &Value) -> Option<&Map<String, Value>> {
    static NO_FIELDS: LazyLock<Map<String, Value>> = LazyLock::new(Map::new);
    value.as_object().or(value.is_array().then(|| &*NO_FIELDS))
}

/// Reads a service in either of its two nestings.
fn read_service(record: &Map<String, Value>, outer: &Map<String, Value>, flaw: &mut Option<PayloadError>) -> Service {
    let inner = outer.get("service").and_then(as_fields);
    let service = inner.unwrap_or(outer);
    let label = |key| service.get(key).and_then(Value::as_str).filter(|label| is_service_label(label)).map(Box::from);
    let ttl = match inner {
        Some(inner) => read_ttl(&[inner, outer, record], flaw),
        None => read_ttl(&[outer, record], flaw),
    };
    let port = service.get("port").and_then(|port| read_port(port, flaw));
    Service { labels: label("srvce").zip(label("proto")), port, ttl: ttl.unwrap_or(DEFAULT_TTL) }
}

/// Returns true if clients can ask for a label: one underscore at its beginning and none behind it (`docs/binder.md`
/// 7).
fn is_service_label(label: &str) -> bool {
    label.strip_prefix('_').is_some_and(|rest| {
        (1..wire::name::MAX_LABEL_BYTES).contains(&rest.len())
            && rest.bytes().all(|byte| byte.is_ascii_graphic() && !matches!(byte, b'_' | b'.'))
    })
}

/// The first TTL that objects name, the innermost object first.
fn read_ttl(objects: &[&Map<String, Value>], flaw: &mut Option<PayloadError>) -> Option<u32> {
    for value in objects.iter().filter_map(|object| object.get("ttl")).filter(|value| !value.is_null()) {
        match value.as_f64() {
            // Fractions of a second are cut off.
            Some(seconds) if (0.0..=f64::from(u32::MAX)).contains(&seconds) => {
                return Some(rr::clamp_ttl(seconds as u32));
            }
            _ => *flaw = Some(PayloadError::BadTtl),
        }
    }
    None
}

/// The ports that a host names; none if it names none.
fn read_ports(value: Option<&Value>, flaw: &mut Option<PayloadError>) -> Option<Box<[u16]>> {
    match value? {
        Value::Array(ports) if ports.is_empty() => None,
        Value::Array(ports) => Some(ports.iter().filter_map(|port| read_port(port, flaw)).collect()),
        Value::Null => None,
        _ => {
            *flaw = Some(PayloadError::BadPort);
            None
        }
    }
}

/// Reads a port number.
fn read_port(value: &Value, flaw: &mut Option<PayloadError>) -> Option<u16> {
    let number = value.as_f64().filter(|number| number.fract() == 0.0 && (0.0..=f64::from(u16::MAX)).contains(number));
    if number.is_none() {
        *flaw = Some(PayloadError::BadPort);
    }
    number.map(|number| number as u16)
}

/// The host part of a URL such as `tcp://postgres@172.27.10.92:5432/postgres`.
fn host_of_url(url: &str) -> &str {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let authority = rest.split(['/', '?', '#']).next().unwrap_or(rest);
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    match host.strip_prefix('[') {
        Some(literal) => literal.split(']').next().unwrap_or(literal),
        None => host.split(':').next().unwrap_or(host),
    }
}

/// Reads an address as loosely as Binder: IPv4 counts its first four parts, and of each the digits that it begins with,
/// so `172.27.49.1/24` and `172.027.049.003` are addresses.
fn parse_address(text: &str) -> Option<IpAddr> {
    let text = text.trim();
    if text.contains(':') {
        let address = text.split(['/', '%']).next().unwrap_or(text);
        return address.parse::<Ipv6Addr>().ok().map(|address| IpAddr::V6(address).to_canonical());
    }
    let mut parts = text.split('.').map(|part| {
        let digits = part.bytes().take_while(u8::is_ascii_digit).count();
        part[..digits].parse::<u8>().ok()
    });
    let mut octets = [0; 4];
    for octet in &mut octets {
        *octet = parts.next()??;
    }
    Some(IpAddr::V4(Ipv4Addr::from(octets)))
}

//--- Writing ---

/// A host record as Registrar writes it (`docs/registrar.md`, "What it writes").
#[derive(Clone, Debug, PartialEq)]
pub struct HostPayload {
    /// Any type, known here or not.
    pub kind: String,
    pub address: String,
    pub ttl: Option<serde_json::Number>,
    pub ports: Option<Vec<serde_json::Number>>,
}

impl HostPayload {
    /// The compact JSON.
    pub fn to_json(&self) -> String {
        let entry = |key: &str, value: Value| (key.to_string(), value);
        let mut inner = Map::from_iter([entry("address", self.address.clone().into())]);
        inner.extend(self.ports.clone().map(|ports| entry("ports", ports.into())));
        let mut fields = vec![entry("type", self.kind.clone().into()), entry("address", self.address.clone().into())];
        fields.extend(self.ttl.clone().map(|ttl| entry("ttl", ttl.into())));
        fields.push(entry(&self.kind, inner.into()));
        serde_json::to_string(&Fields(fields)).expect("keys are strings")
    }
}

/// A service record as Registrar writes it: the configured block as it stands, its TTL filled in.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ServicePayload {
    /// Fields beside `service` in the configured block, `type` included, in their order.
    #[serde(flatten)]
    pub block: Fields,
    /// The inner object in its order: `srvce`, `proto`, `port`, `ttl` and whatever else.
    pub service: Fields,
}

impl ServicePayload {
    /// The compact JSON.
    pub fn to_json(&self) -> String {
        let block = serde_json::to_string(self).expect("keys are strings");
        format!(r#"{{"type":"service","service":{block}}}"#)
    }
}

/// An object whose keys keep their order, which a map of `serde_json` sorts.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Fields(pub Vec<(String, Value)>);

impl Serialize for Fields {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(key, value)| (key, value)))
    }
}
