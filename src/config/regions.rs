//! The section `[aggregations]`: region zones and their members.
//!
//! Invariants: every region has members, all of them zones of this file or such as catalogs may list, none twice; no region
//! is also a zone.
//! Members keep the order of the file, which settles conflicts between them.
//!
//! Cost: O(members), and O(zones) for each unknown member, to suggest another.
//!
//! RFCs: 2181 section 8 (TTL), RFD 172 (the short form).

use crate::config::addresses::{Addresses, own_addresses, read_addresses};
use crate::config::member_rules::{Foreseen, Meant, MemberRule};
use crate::config::names::{Declared, SELF, read_mname, read_names, unquoted_names};
use crate::config::region_steering::Region;
use crate::config::secondaries::outgoing;
use crate::config::sections::Sections;
use crate::config::templates::template;
use crate::config::zone_pattern::matches;
use crate::merge::{AddressPlan, DampingPlan, NsPolicy, OnExpire, OwnerPattern, RdataNames, RegionPlan, SoaPlan};
use settings::fields::{Fields, put};
use settings::read::{Reader, shorten};
use settings::schema::{Key, Kind, Table, did_you_mean, key};
use settings::tree::{Entry, Node, Value};
use settings::units::format_duration;
use std::cell::RefCell;
use std::time::Duration;
use wire::name::Name;

/// A region in table form
pub static AGGREGATION: Table<RegionPlan> = Table {
    path: "[aggregations.\"NAME\"]",
    help: "A region zone and how it is made",
    keys: &[
        &[template(), key("members", "", "member zones; the first settles conflicts").bound("zone names or tables")],
        &apex("the name servers of the region"),
        &[key("rdata_names", r#""keep""#, "whether names in RDATA move to the region").takes(Kind::Word(&[
            ("keep", |region| region.rdata_names = RdataNames::Keep),
            ("rewrite", |region| region.rdata_names = RdataNames::Rewrite),
        ]))],
        MERGE_KEYS,
        &outgoing("whether secondaries get differences; auto: unless replicas share the mname"),
        &[
            key("steering", "", "to which members clients are led; default: to all alike").bound("table"),
            key("near", "", "the members that are the nearest to zones of [clients], behind the zone itself")
                .bound("table of zones and lists of members"),
            key("weights", "", "shares of members in answers to clients without a home, 0 to 1000; default: 1 each")
                .bound("table of members and numbers"),
            key("names", "", "names that are answered in another way").bound("list of tables"),
        ],
    ],
};

/// Returns the keys of what has members for SOA and NS; `ns` is the help of the name servers.
pub const fn apex(ns: &'static str) -> [Key<RegionPlan>; 10] {
    [
        key("ns", r#""intersection""#, ns)
            .takes(Kind::Own("names, \"intersection\" or \"union\"", |r, key, node, region| {
                put(&mut region.ns, read_ns(r, key, node))
            })),
        key("ns_ttl", "3600", "TTL of the NS records").takes(Kind::Ttl(|region, ttl| region.ns_ttl = ttl)),
        key("soa_ttl", "", "TTL of the SOA; default: the smallest of the members")
            .takes(Kind::Ttl(|region, ttl| region.soa.ttl = Some(ttl))),
        key("soa_refresh", "", SMALLEST).takes(Kind::Ttl(|region, time| region.soa.refresh = Some(time))),
        key("soa_retry", "", SMALLEST).takes(Kind::Ttl(|region, time| region.soa.retry = Some(time))),
        key("soa_expire", "", SMALLEST).takes(Kind::Ttl(|region, time| region.soa.expire = Some(time))),
        key("soa_minimum", "", "never above the smallest of the members")
            .takes(Kind::Ttl(|region, ttl| region.soa.minimum = Some(ttl))),
        key("mname", "", "primary in the SOA; default: the first of ns, else this server")
            .takes(Kind::Own("domain name or \"self\"", |r, key, node, region| {
                put(&mut region.mname, read_mname(r, key, node, &region.server_name).map(Some))
            })),
        key("rname", "", "contact in the SOA; default: that of the first member")
            .takes(Kind::Mailbox(|region, contact| region.rname = Some(contact))),
        key("serial_offset", "0", "added to the sum of the member serials")
            .takes(Kind::Number32(|region, offset| region.serial_offset = offset)),
    ]
}

/// Help of fields of the SOA that are taken from the members.
const SMALLEST: &str = "default: the smallest of the members";

/// Keys of what has members: what comes of them.
pub const MERGE_KEYS: &[Key<RegionPlan>] = &[
    key("exclude", "[]", "owner names, relative to the zone, that are left out").bound("owner patterns"),
    key("addresses", "", "which addresses are taken of all members; default: all").bound("table"),
    key("max_set", "", "most records of a set, for secondaries that refuse larger ones; default: no limit")
        .takes(Kind::Count(u16::MAX as u32, |region, most| region.max_set = u32::try_from(most).ok())),
    key("partial_after", r#""10m""#, "how long to wait for members never transferred")
        .takes(Kind::Duration(|region, pause| region.partial_after = pause)),
    key("on_expire", r#""withdraw""#, "what becomes of an expired member's records").takes(Kind::Word(&[
        ("withdraw", |region| region.on_expire = OnExpire::Withdraw),
        ("keep", |region| region.on_expire = OnExpire::Keep),
    ])),
    key("expire_after", "", "when they leave even before their zone expires; default: with the zone")
        .takes(Kind::Duration(|region, age| region.expire_after = Some(age))),
    key("damping", "", "how slowly services lose addresses that members withdraw; default: at once").bound("table"),
];

/// `damping` in a region
pub static DAMPING: Table<DampingPlan> = Table {
    path: "[aggregations.\"NAME\"] damping",
    help: "How slowly services lose addresses that members withdraw while their instances live",
    keys: &[&[
        key("max_removed", r#""1/3""#, "the share of a service's addresses that may go within the window").takes(
            Kind::Own("fraction", |r, key, node, damping| put(&mut damping.max_removed, read_fraction(r, key, node))),
        ),
        key("window", r#""1m""#, "the window").takes(Kind::PositiveDuration(|damping, span| damping.window = span)),
        key("last", r#""10m""#, "how long the last address of a service stays")
            .takes(Kind::PositiveDuration(|damping, span| damping.last = span)),
    ]],
};

/// A member in table form
pub static MEMBER: Table<()> = Table {
    path: "a member of [aggregations.\"NAME\"]",
    help: "A member zone, and what is taken of it",
    keys: &[&[key("zone", "", "the member zone").bound("domain name"), own_addresses()]],
};

/// Members by a rule
pub static MATCHING: Table<()> = Table {
    path: "a member of [aggregations.\"NAME\"] with match",
    help: "All zones of the file whose names match, in their order, then those of catalogs, and what is taken of them",
    keys: &[&[
        key("match", "", "names of zones; * is any part of one label, such as in us-west-*.cns.example.com")
            .bound("pattern"),
        own_addresses(),
    ]],
};

/// Reads `[aggregations]` in file order.
pub fn read_regions(
    reader: &mut Reader<'_>,
    root: &Fields<'_>,
    zones: &Declared,
    united: &Declared,
    sections: &mut Sections<'_>,
) -> (Vec<RegionPlan>, Declared) {
    let mut plans = Vec::new();
    let mut declared = Declared::new();
    let Some(section) = root.entry("aggregations") else { return (plans, declared) };
    let Value::Table(entries) = &section.node.value else {
        reader.wrong_type::<()>("aggregations", &section.node, "a table of region names and lists of zones");
        return (plans, declared);
    };
    let (named, _) = read_names(reader, entries, "aggregation", |entry| unquoted_names(entry, &AGGREGATION));
    for (origin, entry) in &named {
        if let Some(at) = zones.get(origin).or(united.get(origin)) {
            let (line, key) = (reader.source.mention(*at), shorten(&entry.key));
            let advice = "give the aggregation a name of its own";
            reader.error(entry.key_at, format!("aggregation \"{key}\" is also a zone, in {line}; {advice}"));
        }
        declared.insert(origin.clone(), entry.key_at);
    }
    // All regions must be known before members are judged: a member may be a region written further down.
    for (origin, entry) in named {
        let (foreseen, rules) = (sections.foreseen.clone(), RefCell::default());
        let context =
            Context { entry, origin, zones, regions: &declared, united, foreseen: foreseen.as_deref(), rules: &rules };
        plans.extend(context.read(reader, sections));
        sections.member_rules.extend(rules.into_inner());
    }
    (plans, declared)
}

/// The names of all regions of a file, as far as they are names.
pub fn names(root: &Fields<'_>) -> Vec<Name> {
    match root.entry("aggregations").map(|section| &section.node.value) {
        Some(Value::Table(entries)) => entries.iter().filter_map(|entry| Name::parse(&entry.key).ok()).collect(),
        _ => Vec::new(),
    }
}

/// A member as it is written.
struct Written<'n> {
    name: Name,
    text: &'n str,
    at: usize,
    addresses: Addresses,
}

/// One region being read.
pub struct Context<'c> {
    pub entry: &'c Entry,
    pub origin: Name,
    pub zones: &'c Declared,
    pub regions: &'c Declared,
    /// Zones that have members themselves.
    pub united: &'c Declared,
    /// The zones that catalogs may list; none if there are no catalogs.
    pub foreseen: Option<&'c Foreseen>,
    /// The rules by which these are members of this region.
    pub rules: &'c RefCell<Vec<MemberRule>>,
}

impl Context<'_> {
    /// Returns the region's table as messages name it.
    fn place(&self) -> String {
        format!("aggregation \"{}\"", shorten(&self.entry.key))
    }

    /// A region without members and settings.
    pub fn blank(&self, server_name: &Name) -> RegionPlan {
        RegionPlan {
            origin: self.origin.clone(),
            members: Vec::new(),
            is_united: false,
            ns: NsPolicy::Intersection,
            ns_ttl: 0,
            soa: SoaPlan::default(),
            mname: None,
            rname: None,
            server_name: server_name.clone(),
            serial_offset: 0,
            rdata_names: RdataNames::Keep,
            exclude: Vec::new(),
            addresses: AddressPlan::default(),
            max_set: None,
            partial_after: Duration::ZERO,
            on_expire: OnExpire::Withdraw,
            expire_after: None,
            damping: None,
        }
    }

    /// Reads the region in short or table form.
    fn read(&self, reader: &mut Reader<'_>, sections: &mut Sections<'_>) -> Option<RegionPlan> {
        let (node, place, mut plan) = (&self.entry.node, self.place(), self.blank(sections.server_name));
        sections.secondaries.answers.admit_region(&self.origin);
        let (fields, addresses) = match &node.value {
            Value::List(_) => {
                AGGREGATION.set_defaults(&mut plan);
                sections.secondaries.admit(reader, &self.origin, None, &place, true);
                let addresses = self.take_members(&mut plan, self.read_members(reader, &self.entry.key, node)?);
                self.expect_ns(reader, sections.server_name, &place);
                (None, addresses)
            }
            Value::Table(_) => {
                let fields = AGGREGATION.read(reader, node, &place, &mut plan)?;
                let message = format!("{place} has no members; write members = [\"ZONE\", ...]");
                fields.need(reader, "members", self.entry.key_at, message);
                let members = fields.read(reader, "members", |r, key, node| self.read_members(r, key, node));
                let mut addresses = self.take_members(&mut plan, members.unwrap_or_default());
                addresses.push((None, self.finish(reader, &fields, &mut plan, &place, sections)));
                (Some(fields), addresses)
            }
            _ => return reader.wrong_type(&self.entry.key, node, "a list of zones or a table with \"members\""),
        };
        let (rules, foreseen) = (&*self.rules.borrow(), self.foreseen);
        let region = Region { plan: &plan, fields: fields.as_ref(), place: &place, addresses, rules, foreseen };
        region.admit(reader, sections);
        Some(plan)
    }

    /// Reads what the keys of a table say together, once the members are known. Returns what it says of addresses.
    pub fn finish(
        &self,
        reader: &mut Reader<'_>,
        fields: &Fields<'_>,
        plan: &mut RegionPlan,
        place: &str,
        sections: &mut Sections<'_>,
    ) -> Addresses {
        let wanted = "a list of owner names such as [\"cloudapi\", \"*.cmon\"]";
        let members = &plan.members;
        let pattern = |reader: &mut Reader<'_>, key: &str, node: &Node| self.read_pattern(reader, key, node, members);
        let exclude = fields.read(reader, "exclude", |r, key, node| r.list(key, node, wanted, pattern));
        plan.exclude = exclude.unwrap_or_default();
        let addresses = read_addresses(reader, fields, place);
        plan.addresses.all = addresses.rules.clone();
        plan.damping = fields.read(reader, "damping", |r, _, node| read_damping(r, node, place));
        if let Some(entry) = fields.landed("ns") {
            self.expect_reachable_ns(reader, plan, &entry.node);
        }
        sections.secondaries.admit(reader, &self.origin, Some(fields), place, !shares_mname(fields, plan));
        if fields.entry("ns").is_none() {
            self.expect_ns(reader, sections.server_name, place);
        }
        addresses
    }

    /// Warns of name servers within the region.
    fn expect_reachable_ns(&self, reader: &mut Reader<'_>, plan: &RegionPlan, node: &Node) {
        let (NsPolicy::Listed(names), Value::List(items)) = (&plan.ns, &node.value) else { return };
        let place = self.place();
        for (name, item) in names.iter().zip(items).filter(|(name, _)| name.is_within(&self.origin)) {
            let message = format!(
                "name server {name} lies within {place}: whether it has an address shows only when the members are there, \
                 and without one the region cannot be reached"
            );
            reader.warn(item.at, message);
        }
    }

    /// Warns of a region that leaves its name servers to its members.
    fn expect_ns(&self, reader: &mut Reader<'_>, server_name: &Name, place: &str) {
        let found = if server_name.label_count() < 2 { ", a name that nobody can find," } else { "" };
        let message = format!(
            "{place} has no \"ns\"; the name servers that all members list are used, {server_name}{found} when there \
                 is none; better list those that the region is delegated to"
        );
        reader.warn(self.entry.key_at, message);
    }

    //--- Members ---

    /// Gives a region its members, and what is taken of each. Returns what is said of the addresses of members.
    fn take_members(&self, plan: &mut RegionPlan, members: Vec<(Name, Addresses)>) -> Vec<(Option<Name>, Addresses)> {
        plan.members = members.iter().map(|(member, _)| member.clone()).collect();
        let rules = members.iter().filter(|(_, addresses)| !addresses.rules.is_empty());
        plan.addresses.members = rules.map(|(member, addresses)| (member.clone(), addresses.rules.clone())).collect();
        members.into_iter().map(|(member, addresses)| (Some(member), addresses)).collect()
    }

    /// Reads the list of members; none when it is no list or an empty one.
    fn read_members<'n>(&self, reader: &mut Reader<'_>, key: &str, node: &'n Node) -> Option<Vec<(Name, Addresses)>> {
        let wanted = "a list of zones such as [\"us-west-1.cns.example.com\"]";
        // A rule may stand alone.
        let items = reader.items(key, node, node.is_table(), wanted)?;
        if items.is_empty() {
            let (place, advice) = (self.place(), "write the names of its zones between the brackets");
            return reader.refuse(node.at, format!("{place} has no members; {advice}"));
        }
        let (rules, named): (Vec<&Node>, Vec<&Node>) = items.iter().partition(|item| item.get("match").is_some());
        let written = named.into_iter().filter_map(|item| self.read_member(reader, key, item));
        let written: Vec<Written<'n>> = written.collect();
        let mut members: Vec<(Name, Addresses)> = Vec::new();
        for (index, Written { name, text, at, addresses }) in written.iter().enumerate() {
            if members.iter().any(|(other, _)| other == name) || self.has_rule_for(name) {
                let (place, text) = (self.place(), shorten(text));
                reader.error(*at, format!("{place} lists \"{text}\" twice; remove one"));
            } else if self.foreseen.is_some_and(|foreseen| foreseen.has(name)) {
                self.add_rule(Meant::Named { zone: name.clone(), place: members.len() }, addresses);
            } else if self.zones.contains_key(name) {
                members.push((name.clone(), addresses.clone()));
            } else if (!self.zones.is_empty() || self.united.contains_key(name))
                && !written[..index].iter().any(|earlier| earlier.name == *name)
            {
                // Without any zone that was reported, and says it all.
                let listed: Vec<&Name> = written.iter().map(|written| &written.name).collect();
                let message = self.explain_unknown(name, text, &listed);
                reader.error(*at, message);
            }
        }
        for rule in rules {
            let found = self.read_rule(reader, rule).unwrap_or_default();
            let new = found.into_iter().filter(|(name, _)| members.iter().all(|(other, _)| other != name));
            members.extend(new.collect::<Vec<_>>());
        }
        Some(members)
    }

    /// Reads a rule, and finds the zones that it means; those that are members by name already are among them.
    fn read_rule(&self, reader: &mut Reader<'_>, node: &Node) -> Option<Vec<(Name, Addresses)>> {
        let place = format!("a member of {}", self.place());
        let fields = MATCHING.read(reader, node, &place, &mut ())?;
        let addresses = read_addresses(reader, &fields, &place);
        let at = fields.entry("match")?.node.at;
        let pattern = fields.read(reader, "match", |reader, key, node| {
            let wanted = "a pattern such as \"us-west-*.cns.example.com\"";
            reader.text(key, node, wanted).map(str::to_owned)
        })?;
        let mut found: Vec<(&Name, &usize)> = self.zones.iter().filter(|(zone, _)| matches(&pattern, zone)).collect();
        if self.foreseen.is_some() {
            self.add_rule(Meant::Like(pattern.clone()), &addresses);
        } else if found.is_empty() && !self.zones.is_empty() {
            let advice =
                "an asterisk is any part of one label; write it as the zones are written, or add them to [zones]";
            let message = format!("{place} matches \"{}\", and no zone does; {advice}", shorten(&pattern));
            return reader.refuse(at, message);
        }
        found.sort_by_cached_key(|(zone, at)| (**at, zone.to_string()));
        Some(found.into_iter().map(|(zone, _)| (zone.clone(), addresses.clone())).collect())
    }

    /// Returns true if this region names a zone that a catalog may list.
    fn has_rule_for(&self, name: &Name) -> bool {
        let names = |rule: &MemberRule| matches!(&rule.meant, Meant::Named { zone, .. } if zone == name);
        self.rules.borrow().iter().any(names)
    }

    /// Adds a rule by which zones of catalogs are members.
    fn add_rule(&self, meant: Meant, addresses: &Addresses) {
        let (region, Addresses { rules: own, home_only, .. }) = (self.origin.clone(), addresses.clone());
        self.rules.borrow_mut().push(MemberRule { region, meant, addresses: own, home_only });
    }

    /// Reads one member: the name of its zone, or a table with it.
    fn read_member<'n>(&self, reader: &mut Reader<'_>, key: &str, node: &'n Node) -> Option<Written<'n>> {
        let (named, addresses) = match &node.value {
            Value::Table(_) => {
                let place = format!("a member of {}", self.place());
                let fields = MEMBER.read(reader, node, &place, &mut ())?;
                let message = format!("{place} has no zone; write zone = \"NAME\"");
                fields.need(reader, "zone", node.at, message);
                let addresses = read_addresses(reader, &fields, &place);
                (&fields.entry("zone")?.node, addresses)
            }
            _ => (node, Addresses::default()),
        };
        let text = reader.text(key, named, "the name of a zone in quotes")?;
        Some(Written { name: reader.parse_name(named.at, text)?, text, at: named.at, addresses })
    }

    /// Says why a name cannot be a member.
    fn explain_unknown(&self, name: &Name, text: &str, listed: &[&Name]) -> String {
        let (place, text) = (self.place(), shorten(text));
        if *name == self.origin {
            return format!("{place} lists itself; write only zones of [zones]");
        }
        if self.regions.contains_key(name) {
            return format!("{place} lists \"{text}\", which is an aggregation; write the zones of that one instead");
        }
        if self.united.contains_key(name) {
            return format!("{place} lists \"{text}\", which has members itself; write zones without members");
        }
        // A zone that the region already has is not what was meant.
        let mut candidates: Vec<&Name> = self.zones.keys().filter(|zone| !listed.contains(zone)).collect();
        candidates.sort_by_key(|zone| self.zones[*zone]);
        let candidates: Vec<String> = candidates.into_iter().map(without_dot).collect();
        let otherwise = || match self.foreseen {
            Some(_) => "add it to \"match\" of the catalog that lists it, or to [zones]".to_string(),
            None => "add it to [zones] or remove it here".to_string(),
        };
        let advice = did_you_mean(&without_dot(name), candidates.iter().map(String::as_str), otherwise);
        format!("{place} names unknown zone \"{text}\"; {advice}")
    }

    //--- Details ---

    /// Reads one owner pattern.
    fn read_pattern(&self, reader: &mut Reader<'_>, key: &str, node: &Node, members: &[Name]) -> Option<OwnerPattern> {
        let text = reader.text(key, node, "an owner name such as \"cloudapi\" or \"*.cmon\"")?;
        if matches!(text, "*" | "@" | ".") {
            let message =
                format!("\"{key}\" cannot be \"{text}\", it would empty the region; write a name such as \"cloudapi\"");
            return reader.refuse(node.at, message);
        }
        let (below, relative) = match text.strip_prefix("*.") {
            Some(rest) => (true, rest),
            None => (false, text),
        };
        if relative.contains(['*', '?']) {
            let text = shorten(text);
            let message = format!(
                "\"{text}\" is no owner pattern; write a whole name such as \"cloudapi\", or \"*.cmon\" for all below one"
            );
            return reader.refuse(node.at, message);
        }
        let name = reader.parse_name(node.at, relative)?;
        let full = members.iter().chain([&self.origin]).find(|origin| name.is_within(origin));
        if let Some(origin) = full {
            // Cut by labels, so that the advice is what has to be written.
            let relative = name.replace_suffix(origin, &Name::root()).and_then(Result::ok);
            let written = relative.filter(|name| name.label_count() > 0).map(|name| without_dot(&name));
            let advice = match written {
                Some(name) => format!("write \"{}{name}\"", if below { "*." } else { "" }),
                None => "write a name below it, such as \"cloudapi\"".to_string(),
            };
            let text = shorten(text);
            let message = format!("\"{text}\" is a full name, patterns are relative to the zone; {advice}");
            return reader.refuse(node.at, message);
        }
        Some(OwnerPattern { name, below })
    }
}

/// Reads `ns`: a list of names or a policy.
fn read_ns(reader: &mut Reader<'_>, key: &str, node: &Node) -> Option<NsPolicy> {
    let wanted = "a list such as [\"ns1.example.com\"], or \"intersection\", or \"union\"";
    if let Value::Text(text) = &node.value {
        return match text.as_str() {
            "intersection" => Some(NsPolicy::Intersection),
            "union" => Some(NsPolicy::Union),
            _ => {
                let text = shorten(text);
                let advice = did_you_mean(&text, ["intersection", "union"], || match text.contains('.') {
                    true => format!("write [\"{text}\"]"),
                    false => format!("write {wanted}"),
                });
                reader.refuse(node.at, format!("\"{key}\" cannot be \"{text}\"; {advice}"))
            }
        };
    }
    let items = reader.items(key, node, false, wanted)?;
    if items.is_empty() {
        return reader.refuse(node.at, format!("\"{key}\" is empty; write {wanted}"));
    }
    let twice = |name: &Name| format!("\"{key}\" lists {name} twice; remove one");
    Some(NsPolicy::Listed(reader.distinct(key, items, Reader::name, Name::eq, twice)))
}

/// Reads `damping` of a region or an inventory.
pub fn read_damping(reader: &mut Reader<'_>, node: &Node, place: &str) -> Option<DampingPlan> {
    let mut plan = DampingPlan { max_removed: (0, 1), window: Duration::ZERO, last: Duration::ZERO };
    let fields = DAMPING.read(reader, node, &format!("damping of {place}"), &mut plan)?;
    if plan.last < plan.window {
        let at = fields.entry("last").or(fields.entry("window")).map_or(node.at, |entry| entry.node.at);
        let (last, window) = (format_duration(plan.last), format_duration(plan.window));
        reader.error(at, format!("\"last\" {last} is below \"window\" {window}; raise the one or lower the other"));
    }
    Some(plan)
}

/// Returns the damping of an inventory that says nothing of it.
pub fn default_damping() -> DampingPlan {
    let mut plan = DampingPlan { max_removed: (0, 1), window: Duration::ZERO, last: Duration::ZERO };
    DAMPING.set_defaults(&mut plan);
    plan
}

/// Reads a fraction such as `1/3`, above zero and at most one.
fn read_fraction(reader: &mut Reader<'_>, key: &str, node: &Node) -> Option<(u32, u32)> {
    let wanted = "a fraction such as \"1/3\"";
    let text = reader.text(key, node, wanted)?;
    let parts = text.split_once('/').and_then(|(some, of)| Some((some.parse::<u16>().ok()?, of.parse::<u16>().ok()?)));
    match parts {
        Some((some, of)) if (1..=of).contains(&some) => Some((some.into(), of.into())),
        _ => reader.refuse(node.at, format!("\"{key}\" cannot be \"{}\"; write {wanted}", shorten(text))),
    }
}

/// Returns true if all replicas that share this file write the same primary into the region's SOA. A secondary that is
/// fed by several of them then cannot tell their versions apart, which may have one serial and different records. It
/// must not get differences from one to the version of another.
fn shares_mname(fields: &Fields<'_>, plan: &RegionPlan) -> bool {
    match fields.entry("mname").map(|entry| &entry.node.value) {
        Some(Value::Text(text)) => text != SELF,
        _ => matches!(plan.ns, NsPolicy::Listed(_)),
    }
}

/// A name as people write it.
fn without_dot(name: &Name) -> String {
    let text = name.to_string();
    text.strip_suffix('.').map(str::to_string).unwrap_or(text)
}
