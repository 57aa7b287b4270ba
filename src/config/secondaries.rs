//! The section `[secondaries]`, and what zones and regions say instead: who may transfer them from here, and who is
//! told of their changes.
//!
//! Invariants: whatever is served has its [`Outgoing`], the catalog zone too; nobody may transfer anything unless the
//! file says so; no zone notifies one secondary twice.
//!
//! Cost: O(zones × rules).
//!
//! RFCs: 1995 (IXFR), 1996 (NOTIFY), 5936 (AXFR), 8945 (TSIG), 9103 (transfers over TLS), 9432 (catalog zones).

use crate::acl::{Access, Channel, Host, Prefix, PrefixError, Rule, network_of};
use crate::catalog::CatalogPlan;
use crate::client::Server;
use crate::config::answers::Answers;
use crate::config::keys::Keys;
use crate::config::names::Declared;
use crate::config::peers::{Inherited, Role, read_peer};
use crate::merge::AnswersPlan;
use crate::notify::Targets;
use crate::publish::Outgoing;
use crate::serve::TlsPlan;
use crate::zone::HistoryLimits;
use rustls::pki_types::ServerName;
use settings::fields::Fields;
use settings::read::{Reader, shorten};
use settings::schema::{Key, Kind, Table, key};
use settings::tree::{Node, Value};
use std::collections::HashMap;
use std::net::IpAddr;
use wire::name::Name;

/// Versions that a history may have at most; differences over more are longer than the zone.
const MAX_VERSIONS: u64 = 1_000_000;

/// `[secondaries]`
pub static SECONDARIES: Table<HistoryLimits> = Table {
    path: "[secondaries]",
    help: "Who may transfer the zones from here, and who is notified, unless a zone says otherwise",
    keys: &[&[
        key("allow_transfer", "[]", "who may transfer every zone from here").bound("prefixes and keys"),
        key("notify", "[]", "secondaries that are told of every change").bound("addresses"),
        key("catalog", "", "catalog zone (RFC 9432) that lists everything served; default: none").bound("domain name"),
        key("history_versions", "500", "versions of each zone that differences reach back")
            .takes(Kind::Number(0..=MAX_VERSIONS, |history, versions| history.versions = to_usize(versions))),
        key("history_bytes", r#""64MiB""#, "memory for the differences of each zone")
            .takes(Kind::Size(|history, octets| history.bytes = to_usize(octets))),
        key("history_total_bytes", r#""512MiB""#, "the same for all zones together; those with most lose their oldest")
            .takes(Kind::Size(|history, octets| history.total = to_usize(octets))),
    ]],
};

/// Returns the keys of a zone that say who may copy it and how large sets are answered; `ixfr` is the help of
/// `ixfr_out`.
pub const fn outgoing<S>(ixfr: &'static str) -> [Key<S>; 4] {
    [
        key("allow_transfer", "", "who may transfer it from here; default: that of [secondaries]")
            .bound("prefixes and keys"),
        key("notify", "", "secondaries that are told of changes; default: that of [secondaries]").bound("addresses"),
        key("ixfr_out", r#""auto""#, ixfr).bound("\"auto\", true or false"),
        key(
            "answers",
            "",
            "how much of a large set one answer has; default: that of [answers] in regions, all in zones",
        )
        .bound("table"),
    ]
}

/// Table form of an access rule for transfers
pub static RULE: Table<()> = Table {
    path: "allow_transfer",
    help: "Who may transfer; all parts that are written must be met",
    keys: &[&[
        key("prefix", "", "addresses that may transfer").bound("address prefix"),
        key("host", "", "a host that may transfer, by name; its addresses are looked up at the start and each hour")
            .bound("host name"),
        key("key", "", "TSIG key that requests must be signed with").bound("name of a key"),
        key(
            "tls",
            "",
            "true: over TLS only; a host name: by a client that shows a certificate for it, signed by client_ca",
        )
        .bound("true or host name"),
    ]],
};

/// A secondary in table form
pub static TARGET: Table<Inherited> = Table {
    path: "notify",
    help: "A secondary that is told of changes",
    keys: &[&[
        key("address", "", "address with or without a port").bound("address"),
        key("source_address", "", "local address that NOTIFY comes from; default: what the system chooses")
            .takes(Kind::SourceAddress(|target, source| target.source = Some(source))),
        key("key", "", "TSIG key to sign with").bound("name of a key"),
    ]],
};

/// Secondaries in messages.
const ROLE: Role = Role { noun: "secondary", table: &TARGET, has_tls: false };

/// A number that may be more than the address space holds.
fn to_usize(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

/// Returns true if a zone has secondaries: servers that may transfer it, or are told of its changes.
pub fn has_secondaries(outgoing: &HashMap<Name, Outgoing>, targets: &Targets, zone: &Name) -> bool {
    outgoing.get(zone).is_some_and(|outgoing| !outgoing.access.rules.is_empty())
        || targets.get(zone).is_some_and(|targets| !targets.is_empty())
}

impl Default for HistoryLimits {
    fn default() -> HistoryLimits {
        let mut limits = HistoryLimits { versions: 0, bytes: 0, total: 0 };
        SECONDARIES.set_defaults(&mut limits);
        limits
    }
}

/// How zones are served that are not in the file: those of a catalog, and automatic reverse zones.
#[derive(Clone, Debug, PartialEq)]
pub struct WayOut {
    pub outgoing: Outgoing,
    pub targets: Vec<Server>,
    pub answers: Option<AnswersPlan>,
}

/// Settings for outgoing transfers and NOTIFY, as the file has them.
pub struct Secondaries<'k> {
    keys: &'k Keys,
    /// The TLS that is spoken here, if any.
    tls: Option<&'k TlsPlan>,
    /// Access rules and secondaries of every zone and region that has none of its own.
    defaults: (Access, Vec<Server>),
    /// Position of the default secondaries, until the error that nobody may transfer has been reported once.
    useless_at: Option<usize>,
    catalog: Option<(Name, usize)>,
    pub history: HistoryLimits,
    pub outgoing: HashMap<Name, Outgoing>,
    pub targets: Targets,
    /// Laws of answers, which every zone has beside what is said here.
    pub answers: Answers,
}

impl<'k> Secondaries<'k> {
    /// Reads `[secondaries]`; absent keys give defaults.
    pub fn read(
        reader: &mut Reader<'_>,
        root: &Fields<'_>,
        keys: &'k Keys,
        tls: Option<&'k TlsPlan>,
    ) -> Secondaries<'k> {
        let mut section = Secondaries {
            keys,
            tls,
            defaults: Default::default(),
            useless_at: None,
            catalog: None,
            history: HistoryLimits::default(),
            outgoing: HashMap::new(),
            targets: Targets::new(),
            answers: Answers::read(reader, root),
        };
        let fields = SECONDARIES.read_section(reader, root, &mut section.history);
        section.defaults = section.read_lists(reader, &fields, SECONDARIES.path);
        section.useless_at = fields.entry("notify").map(|entry| entry.node.at);
        if let Some(catalog) = fields.entry("catalog")
            && let Some(name) = reader.name("catalog", &catalog.node)
        {
            if section.defaults.0.rules.is_empty() {
                let advice = "write in [secondaries] who may, allow_transfer = [...]";
                reader.warn(catalog.node.at, format!("nobody may transfer the catalog; {advice}"));
            }
            section.catalog = Some((name, catalog.node.at));
        }
        let history = &mut section.history;
        if fields.landed("history_total_bytes").is_none() {
            history.total = history.total.max(history.bytes);
        }
        section
    }

    /// Takes in a zone or region: what its table says, if it has one, else the defaults. `ixfr` is whether secondaries
    /// get differences unless the table says.
    pub fn admit(
        &mut self,
        reader: &mut Reader<'_>,
        zone: &Name,
        fields: Option<&Fields<'_>>,
        place: &str,
        ixfr: bool,
    ) {
        let (access, targets) = fields.map_or_else(|| self.defaults.clone(), |own| self.read_lists(reader, own, place));
        if access.rules.is_empty() && !targets.is_empty() {
            let own = fields.and_then(|own| own.entry("notify").or(own.entry("allow_transfer")));
            let (place, at) = match own {
                Some(entry) => (place, Some(entry.node.at)),
                None => (SECONDARIES.path, self.useless_at.take()),
            };
            if let Some(at) = at {
                let advice = "write allow_transfer = [...], or notify = []";
                reader.warn(at, format!("{place} notifies secondaries, and nobody may transfer; {advice}"));
            }
        }
        let ixfr = fields.and_then(|own| own.read(reader, "ixfr_out", read_ixfr_out)).flatten().unwrap_or(ixfr);
        fields.into_iter().for_each(|own| self.answers.admit(reader, zone, own, place));
        self.outgoing.insert(zone.clone(), Outgoing { access, ixfr });
        self.targets.insert(zone.clone(), targets);
    }

    /// Takes out what was taken in of a zone: who may have it, who is told, and the law of its answers.
    pub fn retract(&mut self, zone: &Name) -> WayOut {
        let (outgoing, targets) = (self.outgoing.remove(zone), self.targets.remove(zone));
        let (outgoing, targets) = (outgoing.unwrap_or_default(), targets.unwrap_or_default());
        WayOut { outgoing, targets, answers: self.answers.plans.remove(zone) }
    }

    /// What was taken in of a zone, for others that are served as it is.
    pub fn out_of(&self, zone: &Name) -> WayOut {
        let (outgoing, targets) = (self.outgoing.get(zone).cloned(), self.targets.get(zone).cloned());
        let (outgoing, targets) = (outgoing.unwrap_or_default(), targets.unwrap_or_default());
        WayOut { outgoing, targets, answers: self.answers.plans.get(zone).cloned() }
    }

    /// Takes in the catalog zone, which must not be anything else.
    pub fn admit_catalog(
        &mut self,
        reader: &mut Reader<'_>,
        others: [(&str, &Declared); 3],
        server_name: &Name,
    ) -> Option<CatalogPlan> {
        let (origin, at) = self.catalog.clone()?;
        for (what, declared) in others {
            if let Some(other) = declared.get(&origin) {
                let line = reader.source.mention(*other);
                reader.error(at, format!("catalog {origin} is also {what}, in {line}; give it a name of its own"));
            }
        }
        // Each replica writes its own name into the SOA, so that a difference is never taken for another's.
        self.admit(reader, &origin, None, "", true);
        let plan = CatalogPlan { origin, server_name: server_name.clone() };
        if !plan.has_room() {
            let message = format!("below catalog {} its members' names have no room; write a shorter one", plan.origin);
            reader.error(at, message);
        }
        Some(plan)
    }

    /// Reads the two lists that a zone may have of its own; what is absent is inherited.
    fn read_lists(&self, reader: &mut Reader<'_>, fields: &Fields<'_>, place: &str) -> (Access, Vec<Server>) {
        let access = fields.read(reader, "allow_transfer", |r, key, node| self.read_access(r, place, key, node));
        let targets = fields.read(reader, "notify", |r, key, node| self.read_targets(r, place, key, node));
        (access.unwrap_or_else(|| self.defaults.0.clone()), targets.unwrap_or_else(|| self.defaults.1.clone()))
    }

    //--- Who may transfer ---

    /// Reads one rule or a list of them.
    fn read_access(&self, reader: &mut Reader<'_>, place: &str, key: &str, node: &Node) -> Option<Access> {
        let wanted = "a list such as [\"192.0.2.0/24\", { key = \"transfer.example.com\" }]";
        let items = reader.items(key, node, node.is_text() || node.is_table(), wanted)?;
        Some(Access { rules: items.iter().filter_map(|item| self.read_rule(reader, place, key, item)).collect() })
    }

    /// Reads one rule: a prefix, or a table with a prefix, a key, and what the connection must be.
    fn read_rule(&self, reader: &mut Reader<'_>, place: &str, key: &str, node: &Node) -> Option<Rule> {
        let rule = match &node.value {
            Value::Table(_) => {
                let fields = RULE.read(reader, node, &format!("\"{key}\" of {place}"), &mut ())?;
                let prefix = fields.read(reader, "prefix", |r, key, node| read_prefix(r, key, node, OR_KEY));
                let host = fields.read(reader, "host", |r, key, node| r.name(key, node));
                let signed = fields.read(reader, "key", |r, key, node| self.keys.verifying(r, key, node));
                let channel = fields.read(reader, "tls", |r, key, node| self.read_channel(r, place, key, node));
                if fields.lacks("prefix")
                    && fields.lacks("host")
                    && fields.lacks("key")
                    && !matches!(channel, Some(Some(Channel::Named(_))))
                {
                    let advice = "write prefix = \"192.0.2.0/24\", host = \"NAME\", key = \"NAME\", tls = \"NAME\", or several of them";
                    if fields.lacks("tls") {
                        reader.error(node.at, format!("an entry of \"{key}\" of {place} is empty; {advice}"));
                    } else if channel.is_some() {
                        let fault = format!("an entry of \"{key}\" of {place} does not say who may transfer; {advice}");
                        reader.error(node.at, fault);
                    }
                    return None;
                }
                // A part that has a mistake must not be left out as if it were not wanted.
                if (fields.entry("prefix").is_some() && prefix.is_none())
                    || (fields.entry("host").is_some() && host.is_none())
                    || (fields.entry("key").is_some() && signed.is_none())
                    || (fields.entry("tls").is_some() && channel.is_none())
                {
                    return None;
                }
                Rule {
                    prefix,
                    key: signed.map(|key| key.name.clone()),
                    channel: channel.flatten(),
                    host: host.map(Host::new),
                }
            }
            _ => Rule { prefix: Some(read_prefix(reader, key, node, OR_KEY)?), key: None, channel: None, host: None },
        };
        let is_open = rule.key.is_none() && rule.host.is_none() && !matches!(rule.channel, Some(Channel::Named(_)));
        if is_open && rule.prefix.is_some_and(|prefix| Prefix::EVERYTHING.contains(&prefix)) {
            let prefix = rule.prefix.map(|prefix| prefix.to_string()).unwrap_or_default();
            let message =
                format!("{place} lets everyone copy the zone ({prefix}); write a longer prefix, or add a key");
            reader.warn(node.at, message);
        }
        Some(rule)
    }

    /// Reads what the connection must be; the inner option is none where any will do.
    fn read_channel(&self, reader: &mut Reader<'_>, place: &str, key: &str, node: &Node) -> Option<Option<Channel>> {
        let channel = match &node.value {
            Value::Boolean(false) => return Some(None),
            Value::Boolean(true) => Channel::Tls,
            Value::Text(text) => {
                let name = text.trim_end_matches('.');
                if ServerName::try_from(name).is_err() {
                    let fault = format!("\"{}\" is neither a host name nor an address", shorten(text));
                    return reader.refuse(node.at, format!("{fault}; write what the secondary's certificate has"));
                }
                Channel::Named(name.to_owned())
            }
            _ => return reader.wrong_type(key, node, "true, or the name that a secondary's certificate has"),
        };
        match (self.tls, &channel) {
            (None, _) => {
                let advice =
                    "write tls = { listen = [...], certificate = \"cert.pem\", key = \"key.pem\" } in [server]";
                reader.refuse(
                    node.at,
                    format!("{place} lets a secondary transfer over TLS, which is not spoken here; {advice}"),
                )
            }
            (Some(TlsPlan { client_ca: None, .. }), Channel::Named(name)) => {
                let advice = "write client_ca = \"authority.pem\" into \"tls\" of [server]";
                let fault = format!("{place} knows a secondary as {name}, and no authority signs its certificate");
                reader.refuse(node.at, format!("{fault}; {advice}"))
            }
            _ => Some(Some(channel)),
        }
    }

    //--- Who is notified ---

    /// Reads one secondary or a list of them.
    fn read_targets(&self, reader: &mut Reader<'_>, place: &str, key: &str, node: &Node) -> Option<Vec<Server>> {
        let wanted = "a list of addresses such as [\"192.0.2.1\"]";
        let none = Inherited::default();
        let one = |reader: &mut Reader<'_>, key: &str, node: &Node| {
            read_peer(reader, self.keys, &ROLE, place, key, node, &none)
        };
        let same = |one: &Server, other: &Server| one.address == other.address;
        let twice = |target: &Server| format!("{place} notifies {} twice; remove one", target.address);
        let items = reader.items(key, node, node.is_text() || node.is_table(), wanted)?;
        Some(reader.distinct(key, items, one, same, twice))
    }
}

/// Reads `ixfr_out`; the inner option is none for "auto".
fn read_ixfr_out(reader: &mut Reader<'_>, key: &str, node: &Node) -> Option<Option<bool>> {
    match &node.value {
        Value::Boolean(choice) => Some(Some(*choice)),
        Value::Text(text) if text == "auto" => Some(None),
        Value::Text(text) => {
            reader.refuse(node.at, format!("\"{key}\" cannot be \"{}\"; write \"auto\", true or false", shorten(text)))
        }
        _ => reader.wrong_type(key, node, "\"auto\", true or false"),
    }
}

//--- Prefixes ---

/// What an address prefix is, for advice.
const PREFIX: &str = "a prefix such as \"192.0.2.0/24\", \"192.0.2.1\" or \"2001:db8::/32\"";

/// Bits in front of an IPv4 address that is mapped to IPv6.
const IPV4_MAPPED: u8 = 96;

/// What may be written in place of a prefix where a key may stand.
const OR_KEY: &str = ", or { key = \"NAME\" }";

/// Reads an address prefix; `or` is what may be written instead, for the advice.
pub fn read_prefix(reader: &mut Reader<'_>, key: &str, node: &Node, or: &str) -> Option<Prefix> {
    let text = reader.text(key, node, PREFIX)?;
    parse_prefix(text, or).map_err(|problem| reader.error(node.at, problem)).ok()
}

/// Reads an address prefix, or says what to write instead.
pub fn parse_prefix(text: &str, or: &str) -> Result<Prefix, String> {
    let read = text.parse::<Prefix>();
    // RFC 4291 section 2.5.5.2. An address alone has become what it stands for.
    let is_mapped = match read.map(|prefix| prefix.address()) {
        Ok(IpAddr::V4(_)) => text.contains(':'),
        Ok(IpAddr::V6(address)) => address.to_ipv4_mapped().is_some(),
        Err(_) => false,
    };
    match read {
        Ok(prefix) if !is_mapped => Ok(prefix),
        read => Err(explain_prefix(text, read.err(), or)),
    }
}

/// Says what to write instead of a text that is no address prefix, or one of IPv4 addresses mapped to IPv6.
fn explain_prefix(text: &str, error: Option<PrefixError>, or: &str) -> String {
    let (first, length) = text.split_once('/').map_or((text, None), |(first, length)| (first, Some(length)));
    let address: Option<IpAddr> = first.parse().ok();
    if let Some((address, plain)) = address.map(|address| (address, address.to_canonical()))
        && address != plain
    {
        let length = length.and_then(|length| length.parse::<u8>().ok()?.checked_sub(IPV4_MAPPED));
        let plain = match length.filter(|length| *length <= 32) {
            Some(length) => format!("{}/{length}", network_of(plain, length)),
            None => plain.to_string(),
        };
        return format!("{address} is an IPv4 address mapped to IPv6; write {plain}");
    }
    let advice = match (error, address) {
        (Some(PrefixError::HostBits(network)), Some(address)) => {
            format!("write \"{network}\" for the network, or \"{address}\" for the host")
        }
        (Some(PrefixError::Length(most)), _) => format!("write 0 to {most} behind the slash"),
        _ if text == "any" => "write \"0.0.0.0/0\" and \"::/0\" if everyone is meant".to_string(),
        _ if text == "none" => "write [] for nobody".to_string(),
        _ => format!("write {PREFIX}{or}"),
    };
    let error = error.unwrap_or(PrefixError::Address);
    format!("\"{}\" is no address prefix ({error}); {advice}", shorten(text))
}
