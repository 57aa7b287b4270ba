//! Zones of `[zones]` that come from ZooKeeper: a forward zone and its reverse zones, out of one tree.
//!
//! Invariants: every tree has a member to ask; no reverse zone is also something else, nor made by two trees; secrets
//! come from files that strangers can neither read nor change.
//!
//! Cost: O(trees + their reverse zones).
//!
//! RFCs: 1035 section 3.5 and 3596 section 2.5 (reverse names).

use crate::acl::Prefix;
use crate::config::apex::{Apex, apex, blank_soa, expire, read_ns};
use crate::config::names::{Declared, SELF, is_marked};
use crate::config::peer_tls::read_tls_key;
use crate::config::primaries::ZONE;
use crate::config::secondaries::{Secondaries, outgoing, read_prefix};
use crate::config::sections::Sections;
use crate::config::transfer::REGRESS;
use crate::source::zookeeper::TreePlan;
use crate::source::zookeeper::plan::{DEFAULT_PORT, Digest, Identity, Member, Secret, TlsPlan, Watches};
use crate::source::zookeeper::zones::{self, path_of, reverse};
use crate::zone::SoaFields;
use settings::fields::{Fields, put};
use settings::read::{Reader, shorten};
use settings::schema::{Kind, Table, key};
use settings::secret::read_secret_file;
use settings::tree::{Entry, Node, Value};
use std::fs;
use std::net::{IpAddr, Ipv6Addr};
use std::ops::RangeInclusive;
use std::path::Path;
use std::time::Duration;
use wire::name::Name;
use zeroize::Zeroizing;

/// Key that marks a table of `[zones]` as a tree of ZooKeeper's.
const MARK: &str = "zookeeper";

/// The sessions that ZooKeeper gives lie within these bounds unless it is told otherwise; ours need not be longer.
const SESSION_TIMEOUTS: RangeInclusive<Duration> = Duration::from_secs(1)..=Duration::from_secs(600);

/// The limits of replies that make sense: room for what ZooKeeper says of itself, and less than it can say at once.
const MAX_REPLIES: RangeInclusive<u32> = 64 << 10..=1 << 30;

/// Domains that hold all reverse zones (RFC 1035 section 3.5, RFC 3596 section 2.5).
const REVERSE_ROOTS: [&str; 2] = ["in-addr.arpa", "ip6.arpa"];

/// A zone that comes from a tree of ZooKeeper's
pub static TREE: Table<TreePlan> = Table {
    path: "[zones.\"NAME\"] with zookeeper",
    help: "A zone that Registrar fills, by way of ZooKeeper, and its reverse zones",
    keys: &[
        &[
            key("zookeeper", "", "members of the ensemble; port 2181 when none is written")
                .bound("addresses or host names"),
            key("domain", "", "domain of the tree; default: the zone's own name")
                .takes(Kind::Name(|tree, domain| tree.domain = domain)),
            key("chroot", r#""/""#, "node below which the tree begins")
                .takes(Kind::Own("path", |r, key, node, tree| put(&mut tree.path, read_chroot(r, key, node)))),
            key("session_timeout", r#""30s""#, "how long the ensemble keeps a session without contact")
                .takes(Kind::DurationWithin(SESSION_TIMEOUTS, |tree, timeout| tree.session_timeout = timeout)),
            key("serve_stale", r#""14d""#, "how long the last tree is served without a session")
                .takes(Kind::PositiveDuration(|tree, age| tree.serve_stale = age)),
            key(
                "regress_after",
                "",
                "how long a tree that was reset must have had shrink_share of its nodes again; \
             default: that of [transfer]",
            )
            .takes(Kind::DurationWithin(REGRESS, |tree, span| tree.regress_after = span)),
            key("max_reply", r#""32MiB""#, "longest reply of a member, such as the list of a node's children").takes(
                Kind::Own("64KiB to 1GiB", |r, key, node, tree| put(&mut tree.max_reply, read_max_reply(r, key, node))),
            ),
            key("reverse", "", "reverse zones; default: none, or all with binder_compat").bound("names and prefixes"),
            key("binder_compat", "false", "whether unknown names are refused, as Binder does")
                .takes(Kind::Flag(|tree, choice| tree.binder_compat = choice)),
            key("watches", r#""auto""#, "one watch for the tree, or two for each node").takes(Kind::Word(&[
                ("auto", |tree| tree.watches = Watches::Auto),
                ("recursive", |tree| tree.watches = Watches::Recursive),
                ("each", |tree| tree.watches = Watches::Each),
            ])),
            key("digest", "", "file with user:password, which others must not be able to read").bound("path"),
            key("tls", "", "TLS to the ensemble; default: off").bound("table"),
        ],
        &apex("name servers of the zone and its reverse zones; default: this server"),
        &[key("serial_offset", "0", "added to the serial that follows from the tree")
            .takes(Kind::Number32(|tree, offset| tree.zones.serial_offset = offset))],
        &outgoing("whether secondaries get differences; auto: unless replicas share the mname"),
    ],
};

/// `tls` of such a zone
pub static TREE_TLS: Table<()> = Table {
    path: "[zones.\"NAME\"] tls",
    help: "TLS to the ensemble",
    keys: &[&[
        key("ca", "", "PEM file with the certificates that the ensemble's are signed with").bound("path"),
        key("certificate", "", "PEM file with our own certificate chain; default: none").bound("path"),
        key("key", "", "PEM file with its private key, which others must not be able to read").bound("path"),
    ]],
};

impl Apex for TreePlan {
    fn soa(&mut self) -> &mut SoaFields {
        &mut self.zones.soa
    }

    fn ns_ttl(&mut self) -> &mut u32 {
        &mut self.zones.ns_ttl
    }
}

/// Returns true if a table of `[zones]` stands for a tree, also if the key is misspelt.
pub fn is_tree(entry: &Entry) -> bool {
    is_marked(entry, &[MARK], &["primaries", "inventory"])
}

/// A tree whose reverse zones are not judged yet.
pub struct Draft<'n> {
    plan: TreePlan,
    fields: Fields<'n>,
    place: String,
    /// Position at which the file names the reverse zones, or else the zone itself.
    reverse_at: usize,
    ixfr: bool,
}

/// Reads the table of one zone.
pub fn read_tree<'n>(
    reader: &mut Reader<'_>,
    zone: Name,
    entry: &'n Entry,
    sections: &Sections<'_>,
) -> Option<Draft<'n>> {
    let place = format!("zone \"{}\"", shorten(&entry.key));
    let advise = |key: &str| {
        let advice = "the zone comes from ZooKeeper or from primaries; remove \"zookeeper\" or this";
        (key != MARK && ZONE.has(key)).then(|| advice.to_string())
    };
    let mut plan = TreePlan {
        path: String::new(),
        domain: zone.clone(),
        members: Vec::new(),
        session_timeout: Duration::ZERO,
        connect_timeout: sections.transfer.limits.connect_timeout,
        serve_stale: Duration::ZERO,
        watches: Watches::Auto,
        binder_compat: false,
        digest: None,
        tls: None,
        max_reply: 0,
        max_bytes: sections.transfer.limits.max_bytes,
        shrink_share: sections.transfer.limits.shrink_share,
        confirm_after: sections.transfer.limits.confirm_after,
        regress_after: sections.transfer.timers.regress_after,
        zones: zones::Plan {
            soa: blank_soa(&zone, sections.server_name),
            origin: zone,
            reverse: Vec::new(),
            ns: vec![sections.server_name.clone()],
            ns_ttl: 0,
            serial_offset: 0,
        },
    };
    let fields = TREE.read_with_advice(reader, &entry.node, &place, &mut plan, advise)?;
    plan.members = fields.read(reader, MARK, |r, key, node| read_members(r, &place, key, node)).unwrap_or_default();
    plan.path.push_str(&path_of(&plan.domain));
    let reverse = fields.read(reader, "reverse", |r, key, node| read_reverse(r, &place, key, node));
    let all = || REVERSE_ROOTS.iter().map(|root| Name::parse(root).expect("a constant name")).collect();
    plan.zones.reverse = reverse.unwrap_or_else(|| if plan.binder_compat { all() } else { Vec::new() });
    plan.zones.soa.expire = expire(plan.serve_stale);
    plan.zones.ns = read_ns(reader, &fields, &place).unwrap_or(plan.zones.ns);
    plan.digest = fields.read(reader, "digest", |r, key, node| read_digest(r, key, node, sections.touch_disk));
    plan.tls = fields.entry("tls").and_then(|entry| read_tls(reader, &place, entry, sections.touch_disk));
    let reverse_at = fields.entry("reverse").map_or(entry.key_at, |entry| entry.node.at);
    // Replicas may publish different versions under one serial while a storm lasts; whose SOAs differ, nobody mixes
    // them.
    let ixfr = !matches!(fields.entry("mname").map(|entry| &entry.node.value), Some(Value::Text(name)) if name != SELF);
    Some(Draft { plan, fields, place, reverse_at, ixfr })
}

impl Draft<'_> {
    /// Takes in the zones of the tree; the reverse zones, too, must not be anything else. To be called when all zones
    /// that the file names are known.
    pub fn admit(
        self,
        reader: &mut Reader<'_>,
        declared: &mut Declared,
        trees: &[TreePlan],
        secondaries: &mut Secondaries<'_>,
    ) -> Option<TreePlan> {
        let (place, at) = (&self.place, self.reverse_at);
        for zone in &self.plan.zones.reverse {
            if let Some(other) = trees.iter().find(|tree| tree.zones.reverse.contains(zone)) {
                let (other, line) = (other.zone(), reader.source.mention(declared.get(zone).map_or(0, |at| *at)));
                let advice = "write \"reverse\" so that each reverse zone is made of one tree";
                let message = format!("{place} makes reverse zone {zone}, and so does {other}, in {line}; {advice}");
                reader.error(at, message);
            } else if let Some(first) = declared.get(zone) {
                let line = reader.source.mention(*first);
                let advice = "remove it from \"reverse\", or the zone itself";
                reader.error(at, format!("{place} makes reverse zone {zone}, which is given in {line}; {advice}"));
            }
            declared.entry(zone.clone()).or_insert(at);
        }
        for zone in self.plan.all_zones() {
            secondaries.admit(reader, zone, Some(&self.fields), place, self.ixfr);
        }
        (!self.plan.members.is_empty()).then_some(self.plan)
    }
}

//--- Members of the ensemble ---

/// Reads one member or a list of them.
fn read_members(reader: &mut Reader<'_>, place: &str, key: &str, node: &Node) -> Option<Vec<Member>> {
    let wanted = "an address or a list such as [\"192.0.2.1:2181\", \"192.0.2.2:2181\"]";
    let items = reader.items(key, node, node.is_text(), wanted)?;
    if items.is_empty() {
        reader.error(node.at, format!("{place} has no member of the ensemble; write one between the brackets"));
    }
    let twice = |member: &Member| format!("{place} lists {member} twice; remove one");
    Some(reader.distinct(key, items, read_member, Member::eq, twice))
}

/// Reads an address or host name, with or without a port.
fn read_member(reader: &mut Reader<'_>, key: &str, node: &Node) -> Option<Member> {
    let wanted = "an address or host name such as \"192.0.2.1\", \"[2001:db8::1]:2181\" or \"zk1.example.com:2181\"";
    let text = reader.text(key, node, wanted)?;
    let advice = match text {
        _ if text.contains(',') => "write a list, each member in quotes".to_string(),
        _ if text.contains("://") => "write the address alone, and for TLS tls = { ca = \"FILE\" }".to_string(),
        _ if text.contains('/') => "write the path behind the slash as \"chroot\"".to_string(),
        _ => match parse_member(text) {
            Some(member) => return Some(member),
            None => format!("write {wanted}"),
        },
    };
    reader.refuse(node.at, format!("\"{}\" is no member of an ensemble; {advice}", shorten(text)))
}

/// Reads `1.2.3.4`, `::1`, `[::1]`, `name`, each with a port behind a colon, or without.
fn parse_member(text: &str) -> Option<Member> {
    if let Ok(address) = text.parse::<Ipv6Addr>() {
        return Some(Member { host: address.to_string(), port: DEFAULT_PORT });
    }
    let (host, port) = match text.strip_prefix('[') {
        Some(rest) => {
            let (host, port) = rest.split_once(']')?;
            (
                host.parse::<Ipv6Addr>().ok()?.to_string(),
                port.strip_prefix(':').or((port.is_empty()).then_some("2181"))?,
            )
        }
        None => {
            let (host, port) = text.split_once(':').unwrap_or((text, "2181"));
            let is_address = host.parse::<IpAddr>().is_ok();
            // What looks like an address and is none is not looked up.
            let is_number = host.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
            let is_plain = host.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_'));
            let is_name = is_plain && !is_number && Name::parse(host).is_ok_and(|name| name.label_count() > 0);
            ((is_address || is_name).then(|| host.to_string())?, port)
        }
    };
    let digits = !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
    let port = port.parse().ok().filter(|port| digits && *port > 0)?;
    Some(Member { host, port })
}

/// Reads the node below which the tree begins; without the slash at its end.
fn read_chroot(reader: &mut Reader<'_>, key: &str, node: &Node) -> Option<String> {
    let wanted = "the path of a node such as \"/sdc\"";
    let text = reader.text(key, node, wanted)?;
    let path = text.strip_suffix('/').unwrap_or(text);
    let is_part =
        |part: &str| !matches!(part, "" | "." | "..") && part.chars().all(|character| !character.is_control());
    if text.starts_with('/') && path.split('/').skip(1).all(is_part) {
        return Some(path.to_string());
    }
    reader.refuse(node.at, format!("\"{key}\" cannot be \"{}\"; write {wanted}", shorten(text)))
}

/// Reads how long a reply may be.
fn read_max_reply(reader: &mut Reader<'_>, key: &str, node: &Node) -> Option<u32> {
    let size = reader.size(key, node)?;
    let within = u32::try_from(size).ok().filter(|size| MAX_REPLIES.contains(size));
    let fault = || format!("\"{key}\" cannot be {size} octets; write \"64KiB\" to \"1GiB\"");
    within.or_else(|| reader.refuse(node.at, fault()))
}

//--- Reverse zones ---

/// Reads a list of reverse zones, as names or as prefixes.
fn read_reverse(reader: &mut Reader<'_>, place: &str, key: &str, node: &Node) -> Option<Vec<Name>> {
    let wanted = "a list such as [\"172.27.0.0/16\", \"10.in-addr.arpa\", \"fd00::/64\"]";
    let items = reader.items(key, node, node.is_text(), wanted)?;
    let twice = |zone: &Name| format!("{place} names reverse zone {zone} twice; remove one");
    Some(reader.distinct(key, items, read_reverse_zone, Name::eq, twice))
}

/// Reads one reverse zone.
fn read_reverse_zone(reader: &mut Reader<'_>, key: &str, node: &Node) -> Option<Name> {
    let wanted = "a prefix such as \"172.27.0.0/16\", or a name such as \"27.172.in-addr.arpa\"";
    let text = reader.text(key, node, wanted)?;
    if text.contains(['/', ':']) || text.parse::<IpAddr>().is_ok() {
        let prefix = read_prefix(reader, key, node, "")?;
        return reverse_of(reader, node, prefix);
    }
    let name = reader.parse_name(node.at, text)?;
    let root = |root: &&str| Name::parse(root).is_ok_and(|root| name.is_within(&root));
    if !REVERSE_ROOTS.iter().any(root) {
        return reader.refuse(node.at, format!("\"{}\" is no reverse zone; write {wanted}", shorten(text)));
    }
    Some(name)
}

/// The reverse zone of a prefix that ends with a label.
pub fn reverse_of(reader: &mut Reader<'_>, node: &Node, prefix: Prefix) -> Option<Name> {
    let text = prefix.to_string();
    let (address, length) = text.split_once('/').unwrap_or((&text, ""));
    let address: IpAddr = address.parse().ok()?;
    let most = if address.is_ipv4() { 32 } else { 128 };
    let length = length.parse().unwrap_or(most);
    let zone = reverse::origin_of(address, length).filter(|_| length > 0);
    if zone.is_none() {
        let (unit, named) = if address.is_ipv4() { (8, "8, 16 or 24") } else { (4, "a multiple of 4, for example 64") };
        let near = (length / unit + 1) * unit;
        let advice = format!("write {named} behind the slash, for example several with /{near}");
        reader.error(node.at, format!("{text} has no reverse zone of its own, its length is none; {advice}"));
    }
    zone
}

//--- Secrets and certificates ---

/// Reads the file with user and password.
fn read_digest(reader: &mut Reader<'_>, key: &str, node: &Node, touch_disk: bool) -> Option<Digest> {
    let file = reader.path(key, node)?;
    if !touch_disk {
        return Some(Digest { file, secret: Secret(Zeroizing::default()) });
    }
    let (fault, is_absent) = match read_secret_file(&file) {
        Err(error) => (error.to_string(), error.is_absence()),
        Ok(secret) => {
            let secret = Zeroizing::new(secret.trim_ascii().to_vec());
            let is_pair =
                secret.iter().position(|byte| *byte == b':').is_some_and(|at| at > 0 && at + 1 < secret.len());
            if is_pair && !secret.contains(&b'\n') {
                return Some(Digest { file, secret: Secret(secret) });
            }
            ("is not one line user:password; write nothing else into it".to_string(), false)
        }
    };
    reader.refuse_file(node.at, format!("\"{key}\" {} {fault}", file.display()), is_absent)
}

/// Reads `tls`.
fn read_tls(reader: &mut Reader<'_>, place: &str, entry: &Entry, touch_disk: bool) -> Option<TlsPlan> {
    let place = format!("\"tls\" of {place}");
    let fields = TREE_TLS.read(reader, &entry.node, &place, &mut ())?;
    let ca_file = fields.read(reader, "ca", Reader::path);
    let certificate_file = fields.read(reader, "certificate", Reader::path);
    let key_file = fields.read(reader, "key", Reader::path);
    fields.need(reader, "ca", entry.key_at, format!("{place} has no \"ca\"; write the path of a PEM file"));
    if fields.lacks("certificate") != fields.lacks("key") {
        reader.error(entry.key_at, format!("{place} has one of \"certificate\" and \"key\"; write both, or neither"));
    }
    let at = |key: &str| fields.entry(key).map_or(entry.key_at, |field| field.node.at);
    let text = |reader: &mut Reader<'_>, key: &str, path: &Path| match if touch_disk {
        fs::read_to_string(path)
    } else {
        Ok(String::new())
    } {
        Ok(text) => Some(text),
        Err(error) => {
            let advice = "write the path of a PEM file";
            let fault = format!("\"{key}\" {} cannot be read: {error}; {advice}", path.display());
            reader.refuse_file(at(key), fault, true)
        }
    };
    let ca_file = ca_file?;
    let ca = text(reader, "ca", &ca_file)?;
    let identity = match (certificate_file, key_file) {
        (Some(certificate_file), Some(key_file)) => {
            let certificate = text(reader, "certificate", &certificate_file)?;
            let key = read_tls_key(reader, at("key"), &key_file, touch_disk)?;
            Some(Identity { certificate_file, key_file, certificate, key: Secret(key) })
        }
        _ => None,
    };
    let plan = TlsPlan { ca_file, ca, identity };
    if touch_disk && let Err(error) = plan.connector() {
        return reader.refuse(entry.key_at, format!("{place} cannot be used: {error}; write the paths of PEM files"));
    }
    Some(plan)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_are_addresses_or_names() {
        for (text, shown) in [
            ("192.0.2.1", "192.0.2.1:2181"),
            ("192.0.2.1:7", "192.0.2.1:7"),
            ("::1", "[::1]:2181"),
            ("[::1]", "[::1]:2181"),
            ("[2001:DB8::1]:99", "[2001:db8::1]:99"),
            ("zk1.example.com", "zk1.example.com:2181"),
            ("localhost:2182", "localhost:2182"),
        ] {
            assert_eq!(parse_member(text).map(|member| member.to_string()).as_deref(), Some(shown), "{text}");
        }
        for text in [
            "",
            ":",
            "a:",
            "a:0",
            "a:x",
            "a:+1",
            "[::1",
            "[::1]x",
            "1.2.3",
            "1.2.3.4.5",
            "a b",
            "::1:2181:x",
            ".",
            "[]",
        ] {
            assert_eq!(parse_member(text), None, "{text}");
        }
    }
}
