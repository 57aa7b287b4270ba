//! The configuration of Triton's CNS, as RFD 1 describes it and as CNS has it: JSON with the zones of a datacenter.
//!
//! RFD 1 has `dns_zones` with `slaves` and `hidden_master`, CNS `forward_zones` with `peers` and `hidden_primary`. Either
//! word is taken for either; what CNS says of its own services (`vmapi_opts`, `redis_opts`) is left alone.
//!
//! Invariants: a zone with a hidden primary has peers, since nothing else could be its name servers; zones stand in the
//! order of the file, which counts; all errors are reported together, with their places.
//!
//! Cost: O(file).
//!
//! RFCs: 1035 (names, mail addresses), 8259 (JSON).

mod translate;

use crate::config::{Config, ForwardZone, Reverse};
use crate::document;
use settings::ConfigErrors;
use settings::error::Source;
use settings::read::{Reader, shorten};
use settings::schema::did_you_mean;
use settings::tree::{self, Entry, Node, Value};
use std::net::IpAddr;
use std::path::Path;
use std::time::Duration;
use wire::name::Name;

/// What CNS announces changes at most once within, unless it is told otherwise.
const NOTIFY_INTERVAL: Duration = Duration::from_secs(5);

/// What a configuration of CNS says.
#[derive(Clone, Debug, PartialEq)]
pub struct Cns {
    /// The rules for names, and the forward zones.
    pub config: Config,
    /// Name of the server itself: MNAME and name server of its zones, unless it is hidden.
    pub my_name: Option<Name>,
    /// RNAME of the zones.
    pub hostmaster: Option<Name>,
    /// Name servers of each forward zone, in the order of `config.forward`.
    pub forward: Vec<Servers>,
    /// Name servers of the reverse zones.
    pub reverse: Servers,
    /// Who may transfer zones, beside peers: addresses and lengths of prefixes.
    pub allow_transfer: Vec<(IpAddr, u8)>,
    pub min_notify_interval: Duration,
    /// What is probably not meant, with its place.
    pub warnings: Vec<String>,
}

/// Name servers of a zone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Servers {
    /// Names of the secondaries. They are name servers of the zone, and may transfer it; without any, only hosts of
    /// `allow_transfer` and the server's own may.
    pub peers: Vec<Name>,
    /// True if the server itself is not among the name servers; the first peer is the MNAME then.
    pub is_hidden: bool,
}

/// Keys of the file.
const KEYS: [&str; 9] = [
    "my_name",
    "hostmaster",
    "forward_zones",
    "dns_zones",
    "reverse_zones",
    "allow_transfer",
    "use_login",
    "use_alias",
    "min_notify_interval",
];

/// Keys that CNS has for services which are not asked by it here.
const ELSEWHERE: [&str; 12] = [
    "full_poll_interval",
    "reaper_poll_interval",
    "vmapi_opts",
    "napi_opts",
    "cnapi_opts",
    "ufds_opts",
    "mahi_opts",
    "papi_opts",
    "fwapi_opts",
    "changefeed_opts",
    "redis_opts",
    "binder_domain",
];

/// Keys of a zone: those of CNS, and RFD 1's for the same.
const ZONE_KEYS: [&str; 5] = ["networks", "peers", "slaves", "hidden_primary", "hidden_master"];

/// Reads a configuration of CNS.
pub fn read(path: &Path, text: &str) -> Result<Cns, ConfigErrors> {
    let source = Source::new(path, text);
    let (root, errors) = tree::parse_json_at(&source, 0..text.len());
    let mut reader = Reader::new(source, errors);
    let mut cns = Cns::default();
    match root.map(|root| (root.at, root.value)) {
        Some((_, Value::Table(entries))) => cns.read_root(&mut reader, &entries),
        Some((at, _)) => reader.error(at, "is no object; write { \"forward_zones\": … }".to_string()),
        // Blanks alone are no error of the parser's.
        None => reader.error(0, "is empty; write { \"forward_zones\": … }".to_string()),
    }
    cns.warnings = reader.finish()?;
    Ok(cns)
}

impl Default for Cns {
    fn default() -> Cns {
        // CNS' own defaults, where they differ from those of an inventory.
        let config = Config { use_login: false, reverse: Reverse::Auto, cmon: true, ..Config::default() };
        Cns {
            config,
            my_name: None,
            hostmaster: None,
            forward: Vec::new(),
            reverse: Servers::default(),
            allow_transfer: Vec::new(),
            min_notify_interval: NOTIFY_INTERVAL,
            warnings: Vec::new(),
        }
    }
}

impl Cns {
    /// Reads the whole file.
    fn read_root(&mut self, reader: &mut Reader<'_>, entries: &[Entry]) {
        let mut zones: Option<&Entry> = None;
        for entry in entries.iter().filter(|entry| !is_null(&entry.node)) {
            let Entry { key, key_at, node } = entry;
            match key.as_str() {
                "my_name" => self.my_name = reader.name(key, node),
                "hostmaster" => self.hostmaster = reader.mailbox(key, node),
                "use_login" => self.config.use_login = reader.boolean(key, node).unwrap_or_default(),
                "use_alias" => self.config.use_alias = reader.boolean(key, node).unwrap_or_default(),
                "min_notify_interval" => {
                    // Milliseconds, as all times of CNS.
                    let most = Duration::from_secs(24 * 3600).as_millis() as u64;
                    let millis = reader.integer(key, node, 0..=most).unwrap_or_default();
                    self.min_notify_interval = Duration::from_millis(millis);
                }
                "allow_transfer" => {
                    let wanted = "a list of addresses and prefixes";
                    self.allow_transfer = reader.list(key, node, wanted, prefix).unwrap_or_default();
                }
                "forward_zones" | "dns_zones" => match zones {
                    None => {
                        zones = Some(entry);
                        self.read_forward(reader, key, node);
                    }
                    Some(first) => {
                        let first = reader.source.position(first.key_at);
                        reader.error(*key_at, format!("\"{key}\" beside the zones at {first}; keep one of them"));
                    }
                },
                "reverse_zones" => {
                    let Some(entries) = table(reader, key, node) else { continue };
                    self.reverse = read_servers(reader, "reverse_zones", entries, &ZONE_KEYS[1..]);
                }
                _ if ELSEWHERE.contains(&key.as_str()) => {}
                _ => unknown(reader, entry, "the configuration", &KEYS),
            }
        }
        if zones.is_none() {
            let at = entries.first().map_or(0, |entry| entry.key_at);
            reader.error(at, "\"forward_zones\" is missing; write the zones and their networks".to_string());
        }
    }

    /// Reads the forward zones.
    fn read_forward(&mut self, reader: &mut Reader<'_>, key: &str, node: &Node) {
        let Some(entries) = table(reader, key, node) else { return };
        if entries.is_empty() {
            reader.error(node.at, format!("\"{key}\" has no zones; write at least one"));
        }
        let mut catch_all: Option<&Entry> = None;
        for entry in entries {
            let origin = reader.parse_name(entry.key_at, &entry.key);
            let Some(zone) = table(reader, &entry.key, &entry.node) else { continue };
            let Some(networks) = read_networks(reader, entry, zone) else { continue };
            if networks.iter().any(|network| &**network == "*") {
                if let Some(first) = catch_all {
                    let text = "networks \"*\" of several zones: an address that no other zone has is in all of them";
                    reader.warn(entry.key_at, format!("{text}; the first is \"{}\"", shorten(&first.key)));
                }
                catch_all = catch_all.or(Some(entry));
            }
            let servers = read_servers(reader, &entry.key, zone, &ZONE_KEYS);
            let Some(origin) = origin else { continue };
            if self.config.forward.iter().any(|zone| zone.origin == origin) {
                reader.error(entry.key_at, format!("zone {origin} is there already; keep one of them"));
                continue;
            }
            self.config.forward.push(ForwardZone { origin, networks });
            self.forward.push(servers);
        }
    }
}

/// Reads the networks of a zone: UUIDs of networks and pools, or `*`.
fn read_networks(reader: &mut Reader<'_>, zone: &Entry, entries: &[Entry]) -> Option<Vec<Box<str>>> {
    let wanted = "a list of UUIDs of networks, or [\"*\"]";
    let Some(entry) = entries.iter().find(|entry| entry.key == "networks") else {
        let name = shorten(&zone.key);
        return reader.refuse(zone.key_at, format!("\"networks\" is missing in zone \"{name}\"; write {wanted}"));
    };
    let networks = reader.list("networks", &entry.node, wanted, |reader, key, node| {
        let text = reader.text(key, node, "a UUID or \"*\"")?;
        if text != "*" && document::parse_uuid(text).is_none() {
            let text = shorten(text);
            return reader.refuse(node.at, format!("\"{text}\" is no network; write its UUID, or \"*\""));
        }
        Some(text.to_ascii_lowercase().into_boxed_str())
    })?;
    if matches!(&entry.node.value, Value::List(items) if items.is_empty()) {
        return reader.refuse(entry.node.at, format!("\"networks\" is empty; write {wanted}"));
    }
    Some(networks)
}

/// Reads the name servers of a zone.
fn read_servers(reader: &mut Reader<'_>, zone: &str, entries: &[Entry], known: &[&str]) -> Servers {
    let mut servers = Servers::default();
    let (mut names, mut hidden): (Option<&Entry>, Option<&Entry>) = (None, None);
    for entry in entries {
        let (slot, is_names) = match entry.key.as_str() {
            "peers" | "slaves" => (&mut names, true),
            "hidden_primary" | "hidden_master" => (&mut hidden, false),
            "networks" if known.contains(&"networks") => continue,
            _ => {
                unknown(reader, entry, &format!("zone \"{}\"", shorten(zone)), known);
                continue;
            }
        };
        if let Some(first) = slot.replace(entry) {
            let message = format!("\"{}\" and \"{}\" are the same; keep one of them", first.key, entry.key);
            reader.error(entry.key_at, message);
        }
        if is_null(&entry.node) {
            continue;
        }
        if is_names {
            let wanted = "a list of names of name servers";
            let names = reader.items(&entry.key, &entry.node, false, wanted).unwrap_or_default();
            let twice = |name: &Name| format!("peer {name} is there already; keep one of them");
            servers.peers = reader.distinct(&entry.key, names, Reader::name, PartialEq::eq, twice);
        } else {
            servers.is_hidden = reader.boolean(&entry.key, &entry.node).unwrap_or_default();
        }
    }
    if let Some(hidden) = hidden.filter(|_| servers.is_hidden && names.is_none_or(|entry| is_empty(&entry.node))) {
        let advice = "write the names of its secondaries, or leave it out";
        reader.error(hidden.key_at, format!("\"{}\" without peers; {advice}", hidden.key));
    }
    servers
}

/// Returns true if a value is no list, or a list of nothing.
fn is_empty(node: &Node) -> bool {
    !matches!(&node.value, Value::List(items) if !items.is_empty())
}

/// Returns true if a value is null.
fn is_null(node: &Node) -> bool {
    matches!(node.value, Value::Unusable("null"))
}

/// Reads an object.
fn table<'n>(reader: &mut Reader<'_>, key: &str, node: &'n Node) -> Option<&'n [Entry]> {
    match &node.value {
        Value::Table(entries) => Some(entries),
        _ => reader.wrong_type(&shorten(key), node, "an object"),
    }
}

/// Reports a key that is not known.
fn unknown(reader: &mut Reader<'_>, entry: &Entry, place: &str, known: &[&str]) {
    let all = || format!("known keys are {}", known.join(", "));
    let advice = did_you_mean(&entry.key, known.iter().copied(), all);
    reader.error(entry.key_at, format!("unknown key \"{}\" in {place}; {advice}", shorten(&entry.key)));
}

/// Reads an address or a prefix.
fn prefix(reader: &mut Reader<'_>, key: &str, node: &Node) -> Option<(IpAddr, u8)> {
    let wanted = "an address such as \"192.0.2.1\" or a prefix such as \"192.0.2.0/24\"";
    let text = reader.text(key, node, wanted)?;
    let (address, length) = text.split_once('/').map_or((text, None), |(address, length)| (address, Some(length)));
    let read = || {
        let address: IpAddr = address.parse().ok()?;
        let most = if address.is_ipv4() { 32 } else { 128 };
        let length = length.map_or(Some(most), |length| length.parse().ok()).filter(|length| *length <= most)?;
        Some((address, length))
    };
    read().or_else(|| reader.refuse(node.at, format!("\"{}\" is no address; write {wanted}", shorten(text))))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads a configuration that is right.
    fn right(text: &str) -> Cns {
        read(Path::new("config.json"), text).unwrap_or_else(|errors| panic!("{errors}\n{text}"))
    }

    fn name(text: &str) -> Name {
        Name::parse(text).unwrap()
    }

    #[test]
    fn the_configuration_of_cns_is_read() {
        let cns = right(
            r#"{"my_name": "cns.dc1.example.com", "hostmaster": "hostmaster@example.com",
            "forward_zones": {
                "z.example.com": {"networks": ["*"], "peers": ["ns1.example.com", "ns2.example.com"], "hidden_primary": true},
                "a.example.com": {"networks": ["E0000000-0000-4000-8000-000000000001"]}},
            "reverse_zones": {"peers": ["ns1.example.com"]},
            "allow_transfer": ["10.0.0.0/8", "2001:db8::1", "127.0.0.1"], "use_login": true,
            "full_poll_interval": 10000, "reaper_poll_interval": 300000, "redis_opts": {}, "min_notify_interval": 2000,
            "changefeed_opts": {"resource": "vm"}, "vmapi_opts": {"address": "vmapi.dc1.example.com", "limit": 500}}"#,
        );
        let zones: Vec<(String, Vec<&str>)> = (cns.config.forward.iter())
            .map(|zone| (zone.origin.to_string(), zone.networks.iter().map(|network| &**network).collect()))
            .collect();
        let network = "e0000000-0000-4000-8000-000000000001";
        assert_eq!(zones.len(), 2);
        assert!(zones[0].0.starts_with("z.example.com") && zones[1].0.starts_with("a.example.com"), "{zones:?}");
        assert_eq!((&zones[0].1, &zones[1].1), (&vec!["*"], &vec![network]));
        let peers = vec![name("ns1.example.com"), name("ns2.example.com")];
        assert_eq!(cns.forward, [Servers { peers, is_hidden: true }, Servers::default()]);
        assert_eq!(cns.reverse, Servers { peers: vec![name("ns1.example.com")], is_hidden: false });
        assert_eq!((cns.config.use_login, cns.config.use_alias, cns.config.reverse), (true, true, Reverse::Auto));
        assert_eq!(cns.hostmaster, Some(name("hostmaster.example.com")));
        assert_eq!(cns.min_notify_interval, Duration::from_secs(2));
        let lengths: Vec<u8> = cns.allow_transfer.iter().map(|(_, length)| *length).collect();
        assert_eq!(lengths, [8, 128, 32]);
        assert_eq!(cns.warnings, Vec::<String>::new());
    }

    #[test]
    fn the_configuration_of_rfd_1_is_read() {
        let cns = right(
            r#"{"my_name": "tcns.example.com", "dns_zones": {
            "hosted.example.com": {"networks": ["e0000000-0000-4000-8000-000000000001"], "slaves": ["ns0.example.net"],
                                    "hidden_master": true},
            "tcns.example.com": {"networks": ["*"]},
            "other.example.com": {"networks": ["*"]}}}"#,
        );
        assert_eq!(cns.config.forward.len(), 3);
        assert_eq!(cns.forward[0], Servers { peers: vec![name("ns0.example.net")], is_hidden: true });
        assert_eq!(cns.min_notify_interval, NOTIFY_INTERVAL);
        assert_eq!(
            cns.warnings,
            [
                "config.json:5:13: networks \"*\" of several zones: an address that no other zone has is in all of them; \
              the first is \"tcns.example.com\""
            ]
        );
    }

    #[test]
    fn everything_that_is_wrong_is_told_with_its_place() {
        let text = r#"{"my_nam": "x", "hostmaster": 5, "allow_transfer": ["ns1.example.com", "10.0.0.0/33"],
"forward_zones": {
  "a.example.com": {"networks": [], "hidden_primary": true},
  "b.example.com": {"networks": ["external"], "peers": ["ns1.example.com", "NS1.example.com"], "slaves": []},
  "c.example.com": {"networks": ["*"], "hidden_primary": true, "peer": []},
  "C.example.com.": {"networks": ["*"]},
  "d": 5, "e.example.com": {}, "f.example.com": {"networks": ["*"], "peers": ["ns_1 x"], "hidden_master": true}},
"dns_zones": {}, "reverse_zones": {"networks": ["*"], "hidden_primary": true}}"#;
        let errors = read(Path::new("c"), text).unwrap_err().to_string();
        let wanted = "\
c:1:2: unknown key \"my_nam\" in the configuration; did you mean \"my_name\"?
c:1:31: \"hostmaster\" is an integer; write a mail address such as \"hostmaster@example.com\"
c:1:53: \"ns1.example.com\" is no address; write an address such as \"192.0.2.1\" or a prefix such as \"192.0.2.0/24\"
c:1:72: \"10.0.0.0/33\" is no address; write an address such as \"192.0.2.1\" or a prefix such as \"192.0.2.0/24\"";
        assert!(errors.starts_with(wanted), "{errors}");
        for said in [
            "c:3:33: \"networks\" is empty; write a list of UUIDs of networks, or [\"*\"]",
            "c:4:34: \"external\" is no network; write its UUID, or \"*\"",
            "is there already; keep one of them",
            "\"peers\" and \"slaves\" are the same; keep one of them",
            "\"hidden_primary\" without peers; write the names of its secondaries, or leave it out",
            "unknown key \"peer\" in zone \"c.example.com\"; did you mean \"peers\"?",
            "\"d\" is an integer; write an object",
            "\"networks\" is missing in zone \"e.example.com\"; write a list of UUIDs of networks, or [\"*\"]",
            "\"ns_1 x\" has a character that no zone name has",
            "\"dns_zones\" beside the zones at c:2:1; keep one of them",
            "unknown key \"networks\" in zone \"reverse_zones\"",
        ] {
            assert!(errors.contains(said), "{said}\n{errors}");
        }
        for text in ["", "[]", "{}", "{", "5", r#"{"forward_zones": {}}"#, r#"{"forward_zones": null}"#] {
            assert!(read(Path::new("c"), text).is_err(), "{text}");
        }
    }
}
