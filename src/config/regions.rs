//! The section `[aggregations]`: region zones and their members.
//!
//! Invariants: every region has members, all of them zones of this file, none twice; no region is also a zone.
//! Members keep the order of the file, which settles conflicts between them.
//!
//! Cost: O(members), and O(zones) for each unknown member, to suggest another.
//!
//! RFCs: 2181 section 8 (TTL), RFD 172 (the short form).

use crate::config::names::{Declared, SELF, report_twice, report_unquoted, unquoted_names};
use crate::config::schema;
use crate::config::secondaries::Secondaries;
use crate::merge::{DampingPlan, NsPolicy, OnExpire, OwnerPattern, RdataNames, RegionPlan, SoaPlan};
use settings::read::{Fields, Reader, shorten};
use settings::tree::{Entry, Node, Value};
use settings::units::format_duration;
use std::time::Duration;
use wire::name::Name;

/// Reads `[aggregations]` in file order.
pub fn read_regions(
    reader: &mut Reader<'_>,
    root: &Fields<'_>,
    (zones, united): (&Declared, &Declared),
    server_name: &Name,
    secondaries: &mut Secondaries<'_>,
) -> (Vec<RegionPlan>, Declared) {
    let mut plans = Vec::new();
    let mut declared = Declared::new();
    let Some(section) = root.entry("aggregations") else { return (plans, declared) };
    let Value::Table(entries) = &section.node.value else {
        reader.wrong_type::<()>("aggregations", &section.node, "a table of region names and lists of zones");
        return (plans, declared);
    };
    let mut named = Vec::new();
    for entry in entries {
        if let Some(names) = unquoted_names(entry, &schema::AGGREGATION) {
            report_unquoted(reader, entry, &names);
            continue;
        }
        let Some(origin) = reader.parse_name(entry.key_at, &entry.key) else { continue };
        if let Some(first) = declared.get(&origin) {
            report_twice(reader, "aggregation", entry, *first);
            continue;
        }
        if let Some(at) = zones.get(&origin).or(united.get(&origin)) {
            let (line, _) = reader.source.locate(*at);
            let key = shorten(&entry.key);
            reader.error(
                entry.key_at,
                format!("aggregation \"{key}\" is also a zone, in line {line}; give the aggregation a name of its own"),
            );
        }
        declared.insert(origin.clone(), entry.key_at);
        named.push((origin, entry));
    }
    // All regions must be known before members are judged: a member may be a region written further down.
    for (origin, entry) in named {
        let context = Context { entry, origin, zones, regions: &declared, united, server_name };
        plans.extend(context.read(reader, secondaries));
    }
    (plans, declared)
}

/// One region being read.
pub struct Context<'c> {
    pub entry: &'c Entry,
    pub origin: Name,
    pub zones: &'c Declared,
    pub regions: &'c Declared,
    /// Zones that have members themselves.
    pub united: &'c Declared,
    pub server_name: &'c Name,
}

impl Context<'_> {
    /// Returns the region's table as messages name it.
    fn place(&self) -> String {
        format!("aggregation \"{}\"", shorten(&self.entry.key))
    }

    /// A region without members, as the defaults have it.
    fn defaults(&self) -> RegionPlan {
        RegionPlan {
            origin: self.origin.clone(),
            members: Vec::new(),
            is_united: false,
            ns: NsPolicy::Intersection,
            ns_ttl: 3600,
            soa: SoaPlan::default(),
            mname: None,
            rname: None,
            server_name: self.server_name.clone(),
            serial_offset: 0,
            rdata_names: RdataNames::Keep,
            exclude: Vec::new(),
            partial_after: Duration::from_secs(600),
            on_expire: OnExpire::Withdraw,
            expire_after: None,
            damping: None,
        }
    }

    /// Reads the region in short or table form.
    fn read(&self, reader: &mut Reader<'_>, secondaries: &mut Secondaries<'_>) -> Option<RegionPlan> {
        let node = &self.entry.node;
        match &node.value {
            Value::List(_) => {
                secondaries.admit(reader, &self.origin, None, &self.place(), true);
                let members = self.read_members(reader, &self.entry.key, node)?;
                self.expect_ns(reader, false, &self.place());
                Some(RegionPlan { members, ..self.defaults() })
            }
            Value::Table(_) => {
                let fields = Fields::new(reader, node, &schema::AGGREGATION, &self.place())?;
                if fields.lacks("members") {
                    let place = self.place();
                    reader.error(self.entry.key_at, format!("{place} has no members; write members = [\"ZONE\", ...]"));
                }
                let mut plan = self.read_table(reader, &fields, &self.place(), secondaries, |reader, fields| {
                    fields.read(reader, "members", |r, key, node| self.read_members(r, key, node))
                });
                let rdata_names = [("keep", RdataNames::Keep), ("rewrite", RdataNames::Rewrite)];
                if let Some(choice) =
                    fields.read(reader, "rdata_names", |r, key, node| r.choice(key, node, &rdata_names))
                {
                    plan.rdata_names = choice;
                }
                Some(plan)
            }
            _ => reader.wrong_type(&self.entry.key, node, "a list of zones or a table with \"members\""),
        }
    }

    /// Reads the region in table form, its members as the caller does.
    pub fn read_table(
        &self,
        reader: &mut Reader<'_>,
        fields: &Fields<'_>,
        place: &str,
        secondaries: &mut Secondaries<'_>,
        read_members: impl FnOnce(&mut Reader<'_>, &Fields<'_>) -> Option<Vec<Name>>,
    ) -> RegionPlan {
        let members = read_members(reader, fields).unwrap_or_default();
        let mut plan = RegionPlan { members, ..self.defaults() };
        self.read_fields(reader, fields, &mut plan);
        secondaries.admit(reader, &self.origin, Some(fields), place, !shares_mname(fields, &plan));
        self.expect_ns(reader, fields.entry("ns").is_some(), place);
        plan
    }

    /// Warns of a region that leaves its name servers to its members.
    fn expect_ns(&self, reader: &mut Reader<'_>, is_given: bool, place: &str) {
        if !is_given {
            let own = self.server_name;
            let found = if own.label_count() < 2 { ", a name that nobody can find," } else { "" };
            reader.warn(
                self.entry.key_at,
                format!(
                    "{place} has no \"ns\"; the name servers that all members list are used, {own}{found} when there is none; \
                     better list those that the region is delegated to"
                ),
            );
        }
    }

    /// Reads what the table form has beside the members.
    fn read_fields(&self, reader: &mut Reader<'_>, fields: &Fields<'_>, plan: &mut RegionPlan) {
        if let Some(ns) = fields.read(reader, "ns", |r, key, node| self.read_ns(r, key, node)) {
            plan.ns = ns;
        }
        if let Some(ttl) = fields.read(reader, "ns_ttl", Reader::ttl) {
            plan.ns_ttl = ttl;
        }
        plan.soa = SoaPlan {
            ttl: fields.read(reader, "soa_ttl", Reader::ttl),
            refresh: fields.read(reader, "soa_refresh", Reader::ttl),
            retry: fields.read(reader, "soa_retry", Reader::ttl),
            expire: fields.read(reader, "soa_expire", Reader::ttl),
            minimum: fields.read(reader, "soa_minimum", Reader::ttl),
        };
        plan.mname = fields.read(reader, "mname", |r, key, node| match &node.value {
            Value::Text(text) if text == SELF => Some(self.server_name.clone()),
            _ => r.name(key, node),
        });
        plan.rname = fields.read(reader, "rname", Reader::mailbox);
        let offset = fields.read(reader, "serial_offset", |r, key, node| r.integer(key, node, 0..=u64::from(u32::MAX)));
        plan.serial_offset = offset.and_then(|offset| u32::try_from(offset).ok()).unwrap_or(plan.serial_offset);
        let members = plan.members.clone();
        let wanted = "a list of owner names such as [\"cloudapi\", \"*.cmon\"]";
        let pattern = |reader: &mut Reader<'_>, key: &str, node: &Node| self.read_pattern(reader, key, node, &members);
        if let Some(exclude) = fields.read(reader, "exclude", |r, key, node| r.list(key, node, wanted, pattern)) {
            plan.exclude = exclude;
        }
        if let Some(duration) = fields.read(reader, "partial_after", Reader::duration) {
            plan.partial_after = duration;
        }
        let on_expire = [("withdraw", OnExpire::Withdraw), ("keep", OnExpire::Keep)];
        if let Some(choice) = fields.read(reader, "on_expire", |r, key, node| r.choice(key, node, &on_expire)) {
            plan.on_expire = choice;
        }
        plan.expire_after = fields.read(reader, "expire_after", Reader::duration);
        plan.damping = fields.read(reader, "damping", |r, _, node| self.read_damping(r, node));
    }

    //--- Members ---

    /// Reads the list of members; none when it is no list or an empty one.
    fn read_members(&self, reader: &mut Reader<'_>, key: &str, node: &Node) -> Option<Vec<Name>> {
        let wanted = "a list of zones such as [\"us-west-1.cns.example.com\"]";
        let named = |reader: &mut Reader<'_>, key: &str, node: &Node| {
            let text = reader.text(key, node, "the name of a zone in quotes")?;
            Some((reader.parse_name(node.at, text)?, text.to_string(), node.at))
        };
        let written = reader.list(key, node, wanted, named)?;
        if matches!(&node.value, Value::List(items) if items.is_empty()) {
            let place = self.place();
            reader.error(node.at, format!("{place} has no members; write the names of its zones between the brackets"));
            return None;
        }
        let mut members: Vec<Name> = Vec::new();
        for (index, (name, text, at)) in written.iter().enumerate() {
            if members.contains(name) {
                let (place, text) = (self.place(), shorten(text));
                reader.error(*at, format!("{place} lists \"{text}\" twice; remove one"));
            } else if self.zones.contains_key(name) {
                members.push(name.clone());
            } else if (!self.zones.is_empty() || self.united.contains_key(name))
                && !written[..index].iter().any(|(earlier, _, _)| earlier == name)
            {
                // Without any zone that was reported, and says it all.
                let listed: Vec<&Name> = written.iter().map(|(name, _, _)| name).collect();
                let message = self.explain_unknown(name, text, &listed);
                reader.error(*at, message);
            }
        }
        Some(members)
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
        let advice = match schema::suggest(&without_dot(name), candidates.iter().map(String::as_str)) {
            Some(near) => format!("did you mean \"{near}\"?"),
            None => "add it to [zones] or remove it here".to_string(),
        };
        format!("{place} names unknown zone \"{text}\"; {advice}")
    }

    //--- Details ---

    /// Reads `ns`: a list of names or a policy.
    fn read_ns(&self, reader: &mut Reader<'_>, key: &str, node: &Node) -> Option<NsPolicy> {
        let wanted = "a list such as [\"ns1.example.com\"], or \"intersection\", or \"union\"";
        match &node.value {
            Value::Text(text) if text == "intersection" => return Some(NsPolicy::Intersection),
            Value::Text(text) if text == "union" => return Some(NsPolicy::Union),
            Value::Text(text) => {
                let text = shorten(text);
                let advice = match schema::suggest(&text, ["intersection", "union"]) {
                    Some(near) => format!("did you mean \"{near}\"?"),
                    None if text.contains('.') => format!("write [\"{text}\"]"),
                    None => format!("write {wanted}"),
                };
                reader.error(node.at, format!("\"{key}\" cannot be \"{text}\"; {advice}"));
                return None;
            }
            Value::List(items) if items.is_empty() => {
                reader.error(node.at, format!("\"{key}\" is empty; write {wanted}"));
                return None;
            }
            _ => {}
        }
        let named = |reader: &mut Reader<'_>, key: &str, node: &Node| Some((reader.name(key, node)?, node.at));
        let mut names: Vec<Name> = Vec::new();
        for (name, at) in reader.list(key, node, wanted, named)? {
            if names.contains(&name) {
                reader.error(at, format!("\"{key}\" lists {name} twice; remove one"));
                continue;
            }
            if name.is_within(&self.origin) {
                let place = self.place();
                reader.warn(
                    at,
                    format!(
                        "name server {name} lies within {place}; whether it has an address shows only when the members \
                         are there, and without one the region cannot be reached"
                    ),
                );
            }
            names.push(name);
        }
        Some(NsPolicy::Listed(names))
    }

    /// Reads `damping`.
    fn read_damping(&self, reader: &mut Reader<'_>, node: &Node) -> Option<DampingPlan> {
        let fields = Fields::new(reader, node, &schema::DAMPING, &format!("damping of {}", self.place()))?;
        let minutes = |minutes: u64| Duration::from_secs(60 * minutes);
        let plan = DampingPlan {
            max_removed: fields.read(reader, "max_removed", read_fraction).unwrap_or((1, 3)),
            window: fields.read(reader, "window", Reader::positive_duration).unwrap_or(minutes(1)),
            last: fields.read(reader, "last", Reader::positive_duration).unwrap_or(minutes(10)),
        };
        if plan.last < plan.window {
            let at = fields.entry("last").or(fields.entry("window")).map_or(node.at, |entry| entry.node.at);
            let (last, window) = (format_duration(plan.last), format_duration(plan.window));
            reader.error(at, format!("\"last\" {last} is below \"window\" {window}; raise the one or lower the other"));
        }
        Some(plan)
    }

    /// Reads one owner pattern.
    fn read_pattern(&self, reader: &mut Reader<'_>, key: &str, node: &Node, members: &[Name]) -> Option<OwnerPattern> {
        let text = reader.text(key, node, "an owner name such as \"cloudapi\" or \"*.cmon\"")?;
        if matches!(text, "*" | "@" | ".") {
            reader.error(
                node.at,
                format!("\"{key}\" cannot be \"{text}\", it would empty the region; write a name such as \"cloudapi\""),
            );
            return None;
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
            reader.error(node.at, message);
            return None;
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
            reader.error(node.at, format!("\"{text}\" is a full name, patterns are relative to the zone; {advice}"));
            return None;
        }
        Some(OwnerPattern { name, below })
    }
}

/// Reads a fraction such as `1/3`, above zero and at most one.
fn read_fraction(reader: &mut Reader<'_>, key: &str, node: &Node) -> Option<(u32, u32)> {
    let wanted = "a fraction such as \"1/3\"";
    let text = reader.text(key, node, wanted)?;
    let parts = text.split_once('/').and_then(|(some, of)| Some((some.parse::<u16>().ok()?, of.parse::<u16>().ok()?)));
    match parts {
        Some((some, of)) if (1..=of).contains(&some) => Some((some.into(), of.into())),
        _ => {
            reader.error(node.at, format!("\"{key}\" cannot be \"{}\"; write {wanted}", shorten(text)));
            None
        }
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
