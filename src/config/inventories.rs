//! The section `[inventories]`, and zones of `[zones]` that are made of an inventory.
//!
//! Invariants: every inventory comes from one place and feeds a forward zone at least; no reverse zone is also something
//! else, nor made of two inventories; a token comes from a file that strangers can neither read nor change.
//!
//! Cost: O(inventories × zones).
//!
//! RFCs: 1035 section 3.5 and 3596 section 2.5 (reverse names).

use crate::acl::Prefix;
use crate::config::apex::{Apex, apex, blank_soa, expire, read_ns};
use crate::config::api::{ApiPlan, Token, read_api, read_tokens};
use crate::config::imported::imported;
use crate::config::listening::Placed;
use crate::config::names::{Declared, SELF, is_marked};
use crate::config::primaries::ZONE;
use crate::config::regions::{default_damping, read_damping};
use crate::config::secondaries::{outgoing, read_prefix};
use crate::config::sections::Sections;
use crate::config::templates::template;
use crate::config::trees::{TREE, reverse_of};
use crate::config::triton::read_triton;
use crate::config::urls::{read_ca, read_url};
use crate::source::inventory::plan::{
    ApexPlan, AutomaticZones, FeederPlan, InventoryPlan, MadeZone, ReverseZone, Rules, UrlPlan,
};
use crate::zone::SoaFields;
use settings::fields::Fields;
use settings::read::{Reader, shorten};
use settings::schema::{Key, Kind, Table, did_you_mean, key};
use settings::secret::read_secret_file;
use settings::tree::{Entry, Node, Value};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use wire::name::Name;
use zeroize::Zeroizing;

/// Key that marks a table of `[zones]` as made of an inventory.
const MARK: &str = "inventory";

/// URL of an inventory, as messages show one.
const EXAMPLE: &str = "https://inventory.example.com/vms.json";

/// Longest name of an inventory: it is also the name of its files.
const LONGEST_NAME: usize = 63;

/// An inventory from a file
pub static INVENTORY: Table<InventoryDraft> = Table {
    path: "[inventories.NAME]",
    help: "The instances of a datacenter, of which zones are made, in a file",
    keys: &[
        &[
            template(),
            key("file", "", "file with the inventory, TOML or JSON")
                .takes(Kind::Path(|draft, path| draft.file = Some(path))),
        ],
        RULES,
        DOCUMENT_RULES,
    ],
};

/// An inventory from a URL
pub static FETCHED: Table<InventoryDraft> = Table {
    path: "[inventories.NAME] with url",
    help: "The same, fetched over HTTP",
    keys: &[
        &[
            key("url", "", "URL of the inventory, http or https").bound("URL"),
            key("token_file", "", "file with a token for the server, which others must not be able to read")
                .bound("path"),
            key("ca", "", "PEM file with the certificates that sign the server's; default: those of the system")
                .bound("path"),
        ],
        RULES,
        DOCUMENT_RULES,
    ],
};

/// An inventory from Triton's services
pub static FOLLOWED: Table<InventoryDraft> = Table {
    path: "[inventories.NAME] with triton",
    help: "The same, from the services of a Triton datacenter",
    keys: &[
        &[
            key("triton", "", "the datacenter's services: [inventories.NAME.triton]").bound("table"),
            key("cmon", "true", CMON).takes(Kind::Flag(|draft, choice| draft.rules.cmon = choice)),
            key("operator_logins", "true", OPERATOR_LOGINS)
                .takes(Kind::Flag(|draft, choice| draft.rules.operator_logins = choice)),
            key("reverse", r#""auto""#, REVERSE).bound("prefixes, or \"auto\""),
        ],
        RULES,
    ],
};

const CMON: &str = "whether instances and compute nodes have names below cmon";
const OPERATOR_LOGINS: &str = "whether instances of admin and poseidon have services by their roles";

const REVERSE: &str = "prefixes whose reverse zones are made, too; auto: a zone for each /24 and /64 with an address";

/// Word for reverse zones as addresses come.
const AUTO: &str = "auto";

/// What may be written in place of prefixes.
const OR_AUTO: &str = ", or reverse = \"auto\"";

/// Keys whose defaults differ for inventories that are documents.
const DOCUMENT_RULES: &[Key<InventoryDraft>] = &[
    key("cmon", "false", CMON).takes(Kind::Flag(|draft, choice| draft.rules.cmon = choice)),
    key("operator_logins", "false", OPERATOR_LOGINS)
        .takes(Kind::Flag(|draft, choice| draft.rules.operator_logins = choice)),
    key("reverse", "[]", REVERSE).bound("prefixes, or \"auto\""),
];

/// Keys of every inventory: the rules by which zones are made of it.
const RULES: &[Key<InventoryDraft>] = &[
    imported(),
    key("use_login", "true", "whether names have an account's login beside its UUID")
        .takes(Kind::Flag(|draft, choice| draft.rules.use_login = choice)),
    key("use_alias", "true", "whether names have an instance's alias beside its UUID")
        .takes(Kind::Flag(|draft, choice| draft.rules.use_alias = choice)),
    key("missing_status", r#""up""#, "what an instance is that says nothing of itself").takes(Kind::Word(&[
        ("up", |draft| draft.rules.missing_is_up = true),
        ("down", |draft| draft.rules.missing_is_up = false),
    ])),
    key("cn_down_after", r#""1h""#, "age of a compute node's heartbeat at which its instances leave")
        .takes(Kind::Duration(|draft, age| draft.rules.cn_down_after = age)),
    key("damping", "{}", "how slowly services lose instances that report themselves down").bound("table"),
    key("srv_weights", "false", "whether priority and weight of a service tag are in its SRV records")
        .takes(Kind::Flag(|draft, choice| draft.rules.srv_weights = choice)),
    key("ttl", "30", "TTL of all records but those of the apex").takes(Kind::Ttl(|draft, ttl| draft.rules.ttl = ttl)),
    key("api", "[]", "TCP addresses of its REST interface; port 8053 when none is written")
        .bound("address or addresses"),
    key(
        "api_tokens",
        "",
        "file with tokens of those who may change something there, which others must not be able to read",
    )
    .bound("path"),
    key("accounting", "false", "whether metrics count the names of the 100 accounts that have the most")
        .takes(Kind::Flag(|draft, choice| draft.accounting = choice)),
    key("serve_stale", r#""14d""#, "how long the last inventory is served when it cannot be read")
        .takes(Kind::PositiveDuration(|draft, age| draft.serve_stale = age)),
    key("shrink_share", "", "share of its elements below which an inventory is doubted; default: that of [transfer]")
        .takes(Kind::Share(|draft, share| draft.shrink_share = share)),
    key("confirm_after", "", "when a second reading confirms a doubtful one; default: that of [transfer]")
        .takes(Kind::PositiveDuration(|draft, pause| draft.confirm_after = pause)),
];

/// A zone that is made of an inventory
pub static MADE: Table<ApexPlan> = Table {
    path: "[zones.\"NAME\"] with inventory",
    help: "A zone of the services and instances of an inventory",
    keys: &[
        &[
            key("inventory", "", "name of the inventory").bound("name"),
            key(
                "networks",
                r#"["*"]"#,
                "networks whose addresses it has: UUIDs, names, or \"*\" for those of no other zone",
            )
            .bound("list of texts"),
        ],
        &apex("name servers of the zone; default: this server"),
        &outgoing("whether secondaries get differences; auto: unless replicas share the mname"),
    ],
};

impl Apex for ApexPlan {
    fn soa(&mut self) -> &mut SoaFields {
        &mut self.soa
    }

    fn ns_ttl(&mut self) -> &mut u32 {
        &mut self.ns_ttl
    }
}

/// An inventory that is being read.
pub struct InventoryDraft {
    name: String,
    at: usize,
    file: Option<PathBuf>,
    feeder: Option<FeederPlan>,
    rules: Rules,
    /// The prefixes that are named; none for zones as addresses come.
    reverse: Option<Vec<(Name, Prefix, usize)>>,
    serve_stale: Duration,
    shrink_share: f64,
    confirm_after: Duration,
    api: Vec<Placed>,
    tokens: Vec<Token>,
    accounting: bool,
    /// Zones that name it, with the keys of the first.
    forward: Vec<MadeZone>,
    ixfr: bool,
}

/// All inventories of the file, those with mistakes, too.
#[derive(Default)]
pub struct Inventories<'n> {
    drafts: Vec<InventoryDraft>,
    /// The tables of the first zone of each.
    fields: Vec<Option<Fields<'n>>>,
}

/// Returns true if a table of `[zones]` names an inventory, also if the key is misspelt.
pub fn is_made(entry: &Entry) -> bool {
    is_marked(entry, &[MARK], &["primaries", "zookeeper", "services", "openstack", "members"])
}

//--- Inventories ---

/// Reads `[inventories]`.
pub fn read_inventories<'n>(reader: &mut Reader<'_>, root: &Fields<'_>, sections: &Sections<'_>) -> Inventories<'n> {
    let mut found = Inventories::default();
    let Some(section) = root.entry("inventories") else { return found };
    let Value::Table(entries) = &section.node.value else {
        reader.wrong_type::<()>("inventories", &section.node, "a table of inventories");
        return found;
    };
    for entry in entries {
        let name = &entry.key;
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
        let is_name = name.len() <= LONGEST_NAME && name.bytes().all(is_plain) && !name.starts_with('.');
        if name.is_empty() || !is_name {
            let advice = "write letters, digits, \"-\", \"_\" and \".\", at most 63";
            reader.error(entry.key_at, format!("inventory \"{}\" has no usable name; {advice}", shorten(name)));
        }
        found.drafts.push(read_inventory(reader, entry, sections));
        found.fields.push(None);
    }
    found
}

/// Reads one inventory.
fn read_inventory(reader: &mut Reader<'_>, entry: &Entry, sections: &Sections<'_>) -> InventoryDraft {
    let place = format!("inventory \"{}\"", shorten(&entry.key));
    let (limits, damping) = (&sections.transfer.limits, default_damping());
    let rules = Rules {
        use_login: true,
        use_alias: true,
        missing_is_up: true,
        cn_down_after: Duration::ZERO,
        damping,
        cmon: false,
        operator_logins: false,
        srv_weights: false,
        ttl: 0,
    };
    let mut draft = InventoryDraft {
        name: entry.key.clone(),
        at: entry.key_at,
        file: None,
        feeder: None,
        rules,
        reverse: Some(Vec::new()),
        serve_stale: Duration::ZERO,
        shrink_share: limits.shrink_share,
        confirm_after: limits.confirm_after,
        api: Vec::new(),
        tokens: Vec::new(),
        accounting: false,
        forward: Vec::new(),
        ixfr: true,
    };
    let is_followed = is_marked(entry, &["triton"], &["file", "url"]);
    let is_fetched = !is_followed && is_marked(entry, &["url"], &["file"]);
    let (table, others, advice) = if is_followed {
        (&FOLLOWED, [&INVENTORY, &FETCHED], "an inventory comes from one place; remove \"triton\" or this")
    } else if is_fetched {
        (&FETCHED, [&INVENTORY, &FOLLOWED], "an inventory comes from a file or from a URL; remove \"url\" or this")
    } else {
        (&INVENTORY, [&FETCHED, &FOLLOWED], "this is for an inventory with \"url\"; remove it")
    };
    let advise = |key: &str| {
        let is_elsewhere = others.iter().any(|other| other.has(key)) && !table.has(key);
        is_elsewhere.then(|| advice.to_owned())
    };
    let Some(fields) = table.read_with_advice(reader, &entry.node, &place, &mut draft, advise) else { return draft };
    let damping = fields.read(reader, "damping", |r, _, node| read_damping(r, node, &place));
    draft.rules.damping = damping.unwrap_or(draft.rules.damping);
    let is_automatic = fields.entry("reverse").map_or(is_followed, |entry| is_auto(&entry.node));
    draft.reverse = (!is_automatic)
        .then(|| fields.read(reader, "reverse", |r, key, node| read_reverse(r, &place, key, node)).unwrap_or_default());
    draft.api = fields.read(reader, "api", read_api).unwrap_or_default();
    let tokens = fields.read(reader, "api_tokens", |r, key, node| read_tokens(r, key, node, sections.touch_disk));
    draft.tokens = tokens.unwrap_or_default();
    if let (Some(entry), None) = (fields.entry("api_tokens"), fields.entry("api")) {
        let advice = "write for example api = [\"127.0.0.1:8053\"], or remove this";
        reader.error(entry.key_at, format!("{place} has \"api_tokens\" and no \"api\"; {advice}"));
    }
    if is_followed {
        let touch_disk = sections.touch_disk;
        let triton = fields.read(reader, "triton", |r, _, node| read_triton(r, node, &place, touch_disk));
        draft.feeder = triton.map(|triton| FeederPlan::Triton(Box::new(triton)));
    } else if is_fetched {
        let url = fields.read(reader, "url", |r, key, node| read_url(r, key, node, EXAMPLE));
        let token = fields.read(reader, "token_file", |r, key, node| read_token(r, key, node, sections.touch_disk));
        let ca = fields.read(reader, "ca", |r, key, node| read_ca(r, key, node, sections.touch_disk));
        draft.feeder = url.map(|url| FeederPlan::Url(UrlPlan { url, token, ca }));
    } else {
        fields.need(
            reader,
            "file",
            entry.key_at,
            format!("{place} comes from nowhere; write \"file\", \"url\" or \"triton\""),
        );
        draft.feeder = draft.file.clone().map(FeederPlan::File);
    }
    draft
}

/// Reads the file with a token, which is one line.
fn read_token(
    reader: &mut Reader<'_>,
    key: &str,
    node: &Node,
    touch_disk: bool,
) -> Option<(PathBuf, Zeroizing<String>)> {
    let file = reader.path(key, node)?;
    if !touch_disk {
        return Some((file, Zeroizing::default()));
    }
    let (fault, is_absent) = match read_secret_file(&file) {
        Err(error) => (error.to_string(), error.is_absence()),
        Ok(secret) => match std::str::from_utf8(secret.trim_ascii()) {
            // What a header of HTTP takes (RFC 9110 section 5.5).
            Ok(token) if !token.is_empty() && token.bytes().all(|byte| byte.is_ascii_graphic()) => {
                return Some((file, Zeroizing::new(token.to_owned())));
            }
            _ => ("is not one token; write nothing else into it".to_owned(), false),
        },
    };
    reader.refuse_file(node.at, format!("\"{key}\" {} {fault}", file.display()), is_absent)
}

/// Returns true if reverse zones are to be made as addresses come.
fn is_auto(node: &Node) -> bool {
    matches!(&node.value, Value::Text(text) if text == AUTO)
}

/// Reads a list of prefixes that have reverse zones.
fn read_reverse(reader: &mut Reader<'_>, place: &str, key: &str, node: &Node) -> Option<Vec<(Name, Prefix, usize)>> {
    let wanted = "\"auto\", or a list such as [\"198.51.100.0/24\", \"2001:db8:1:100::/64\"]";
    let items = reader.items(key, node, node.is_text(), wanted)?;
    let read = |reader: &mut Reader<'_>, key: &str, node: &Node| {
        let prefix = read_prefix(reader, key, node, OR_AUTO)?;
        Some((reverse_of(reader, node, prefix)?, prefix, node.at))
    };
    let twice = |zone: &(Name, Prefix, usize)| format!("{place} names prefix {} twice; remove one", zone.1);
    Some(reader.distinct(key, items, read, |one, other| one.0 == other.0, twice))
}

//--- Zones ---

impl<'n> Inventories<'n> {
    /// Reads the table of one zone.
    pub fn read_zone(&mut self, reader: &mut Reader<'_>, zone: Name, entry: &'n Entry, sections: &mut Sections<'_>) {
        let place = format!("zone \"{}\"", shorten(&entry.key));
        let advise = |key: &str| {
            let advice = "the zone is made of an inventory or comes from primaries; remove \"inventory\" or this";
            (key != MARK && (ZONE.has(key) || TREE.has(key))).then(|| advice.to_string())
        };
        let soa = blank_soa(&zone, sections.server_name);
        let mut apex = ApexPlan { soa, ns: vec![sections.server_name.clone()], ns_ttl: 0, secondaries: Vec::new() };
        let Some(fields) = MADE.read_with_advice(reader, &entry.node, &place, &mut apex, advise) else { return };
        apex.ns = read_ns(reader, &fields, &place).unwrap_or(apex.ns);
        let networks = fields.read(reader, "networks", read_networks).unwrap_or_else(|| vec!["*".to_owned()]);
        // Replicas that write one primary into the SOA may differ under one serial.
        let mname = fields.entry("mname").map(|entry| &entry.node.value);
        let ixfr = !matches!(mname, Some(Value::Text(name)) if name != SELF);
        sections.secondaries.admit(reader, &zone, Some(&fields), &place, ixfr);
        let Some(named) = fields.entry(MARK) else { return };
        let Some(name) = reader.text(MARK, &named.node, "the name of an inventory") else { return };
        let Some(index) = self.drafts.iter().position(|draft| draft.name == name) else {
            let known = self.drafts.iter().map(|draft| &draft.name[..]);
            let advice = did_you_mean(name, known, || "write [inventories.NAME], and in it \"file\"".to_owned());
            reader.error(named.node.at, format!("{place} names unknown inventory \"{}\"; {advice}", shorten(name)));
            return;
        };
        let draft = &mut self.drafts[index];
        apex.soa.expire = expire(draft.serve_stale);
        if networks.iter().any(|name| name == "*")
            && let Some(other) = draft.forward.iter().find(|zone| zone.networks.iter().any(|name| name == "*"))
        {
            let other = &other.origin;
            let advice = "instances have names in both; name the networks of one of them";
            reader.warn(entry.key_at, format!("{place} has the networks \"*\", and so has {other}; {advice}"));
        }
        draft.forward.push(MadeZone { origin: zone, networks, apex });
        if self.fields[index].is_none() {
            draft.ixfr = ixfr;
            self.fields[index] = Some(fields);
        }
    }

    /// Takes in the inventories once all zones that the file names are known: the reverse zones must not be anything
    /// else.
    pub fn admit(
        self,
        reader: &mut Reader<'_>,
        declared: &mut Declared,
        sections: &mut Sections<'_>,
    ) -> Vec<InventoryPlan> {
        let mut plans = Vec::new();
        for (draft, fields) in self.drafts.into_iter().zip(self.fields) {
            let place = format!("inventory \"{}\"", shorten(&draft.name));
            let Some(first) = draft.forward.first() else {
                let advice = format!("write [zones.\"ZONE\"] with inventory = \"{}\"", shorten(&draft.name));
                reader.error(draft.at, format!("{place} feeds no zone; {advice}"));
                continue;
            };
            let apex = first.apex.clone();
            let mut reverse = Vec::new();
            let automatic = draft.reverse.is_none().then(|| {
                let out = sections.secondaries.out_of(&first.origin);
                let apex = ApexPlan { secondaries: out.targets.clone(), ..apex.clone() };
                sections.automatic_ways.insert(draft.name.clone(), out);
                AutomaticZones { apex, zones: Arc::default() }
            });
            for (origin, prefix, at) in draft.reverse.into_iter().flatten() {
                if let Some(first) = declared.get(&origin) {
                    let line = reader.source.mention(*first);
                    let message = format!("{place} makes reverse zone {origin}, which is given in {line}");
                    reader.error(at, format!("{message}; remove it from \"reverse\", or the zone itself"));
                }
                declared.entry(origin.clone()).or_insert(at);
                sections.secondaries.admit(reader, &origin, fields.as_ref(), &place, draft.ixfr);
                reverse.push(ReverseZone { origin, prefix, apex: apex.clone() });
            }
            if !draft.api.is_empty() {
                let listen = draft.api.iter().map(|(address, _)| *address).collect();
                let plan = ApiPlan { inventory: draft.name.clone(), listen, tokens: draft.tokens };
                sections.apis.push((plan, draft.api));
            }
            let InventoryDraft { name, rules, serve_stale, shrink_share, confirm_after, accounting, forward, .. } =
                draft;
            plans.extend(draft.feeder.map(|feeder| InventoryPlan {
                name,
                feeder,
                rules,
                forward,
                reverse,
                automatic,
                serve_stale,
                shrink_share,
                confirm_after,
                accounting,
            }));
        }
        plans
    }
}

/// Reads the networks of a zone.
fn read_networks(reader: &mut Reader<'_>, key: &str, node: &Node) -> Option<Vec<String>> {
    let wanted = "a list such as [\"*\"], or of UUIDs and names of networks";
    let items = reader.items(key, node, node.is_text(), wanted)?;
    let read = |reader: &mut Reader<'_>, key: &str, node: &Node| {
        let text = reader.text(key, node, wanted)?;
        if text.is_empty() || text.len() > 255 || text.chars().any(char::is_control) {
            return reader.refuse(node.at, format!("\"{key}\" cannot have \"{}\"; write {wanted}", shorten(text)));
        }
        Some(text.to_owned())
    };
    let twice = |name: &String| format!("\"{key}\" names \"{}\" twice; remove one", shorten(name));
    Some(reader.distinct(key, items, read, String::eq, twice))
}
