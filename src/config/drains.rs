//! The sections `[[drains]]`: members, or names of them, that regions, or a share of their clients, go without for a
//! while.
//!
//! Invariants: a drain names a member of a region of this file, or a zone that a catalog may make one; no two have the same
//! target; no region is drained of all its members, which is surely a mistake, unless a catalog may bring more.
//!
//! Cost: O(drains × members).
//!
//! RFCs: 3339 (date and time).

use crate::config::member_rules::{Foreseen, MemberRule};
use crate::merge::{Drain, DrainTarget, NamePattern, PatternError, RegionPlan};
use crate::timestamp::parse_timestamp;
use settings::fields::Fields;
use settings::read::{Reader, shorten};
use settings::schema::{Table, did_you_mean, key};
use settings::tree::{Node, Value};
use std::time::{SystemTime, UNIX_EPOCH};
use wire::name::Name;

/// `[[drains]]`
pub static DRAIN: Table<()> = Table {
    path: "[[drains]]",
    help: "A member, or names of it, that regions, or a share of their clients, go without",
    keys: &[&[
        key("member", "", "the member zone").bound("zone name"),
        key("region", "", "the region that goes without it; default: all that have it").bound("zone name"),
        key("names", "", "the owner names that go, relative to the member; default: all").bound("owner pattern"),
        key(
            "share",
            r#""100%""#,
            "the part of the clients that gets none of its records; below 100% they stay for others",
        )
        .bound("percentage"),
        key("until", "", "when it ends by itself, such as 2026-11-21T06:00:00Z; default: never").bound("date and time"),
        key("reason", "", "why, for those who see it in status, log and lookup").bound("text"),
    ]],
};

/// Reads `[[drains]]` in file order; when each began is not in the file. `has_secondaries` tells of a region if a share
/// does not reach all who answer with it.
pub fn read_drains(
    reader: &mut Reader<'_>,
    root: &Fields<'_>,
    (regions, rules, foreseen): (&[RegionPlan], &[MemberRule], Option<&Foreseen>),
    has_secondaries: impl Fn(&Name) -> bool,
) -> Vec<Drain> {
    let wanted = "tables such as [[drains]] with member = \"us-west-1.cns.example.com\"";
    let is_coming = |zone: &Name, region: Option<&Name>| {
        let mut rules = rules.iter().filter(|rule| region.is_none_or(|region| *region == rule.region));
        foreseen.is_some_and(|foreseen| foreseen.has(zone)) && rules.any(|rule| rule.may_bring(zone))
    };
    let read = |reader: &mut Reader<'_>, _: &str, node: &Node| read_drain(reader, node, regions, is_coming);
    let mut drains: Vec<Drain> = Vec::new();
    for (drain, at) in root.read(reader, "drains", |r, key, node| r.list(key, node, wanted, read)).unwrap_or_default() {
        if drains.iter().any(|other| other.target == drain.target) {
            reader.error(at, format!("drain of \"{}\" is there twice; remove one", shorten_name(&drain.target.member)));
            continue;
        }
        let now = SystemTime::now();
        let emptied = |region: &&RegionPlan| {
            let takes_all = |drain: &&Drain| drain.is_whole() && drain.target.names.is_none() && !drain.is_over(now);
            let is_drained = |member: &Name| {
                let mut all = drains.iter().chain([&drain]).filter(takes_all);
                all.any(|other| other.concerns(member, &region.origin))
            };
            // A catalog may bring another member.
            let may_grow = rules.iter().any(|rule| rule.region == region.origin);
            takes_all(&&drain)
                && region.members.contains(&drain.target.member)
                && region.members.iter().all(is_drained)
                && !may_grow
        };
        if let Some(region) = regions.iter().find(emptied) {
            let region = shorten_name(&region.origin);
            reader.error(at, format!("with this drain aggregation \"{region}\" has no member left; remove one"));
        }
        let is_copied = |region: &&RegionPlan| {
            region.members.iter().any(|member| drain.concerns(member, &region.origin))
                && has_secondaries(&region.origin)
        };
        let copied: Vec<String> = regions.iter().filter(is_copied).map(|plan| shorten_name(&plan.origin)).collect();
        if !drain.is_whole() && !drain.is_over(now) && !copied.is_empty() {
            let regions = copied.join(" and ");
            reader.warn(at, format!("the share does not reach secondaries of {regions}, which answer with whole sets"));
        }
        drains.push(drain);
    }
    drains
}

/// Reads one drain and where it stands; `is_coming` tells of zones that a catalog may make members of a region, or of any.
fn read_drain(
    reader: &mut Reader<'_>,
    node: &Node,
    regions: &[RegionPlan],
    is_coming: impl Fn(&Name, Option<&Name>) -> bool,
) -> Option<(Drain, usize)> {
    let fields = DRAIN.read(reader, node, "a drain", &mut ())?;
    fields.need(reader, "member", node.at, "a drain has no member; write member = \"ZONE\"".to_string());
    let region = optional(reader, &fields, "region", |r, key, node| read_region(r, key, node, regions));
    let only = region.clone().flatten();
    let member = fields.read(reader, "member", |r, key, node| {
        let member = read_member_name(r, key, node, regions)?;
        let mut possible = regions.iter().filter(|plan| only.as_ref().is_none_or(|only| *only == plan.origin));
        if possible.clone().any(|plan| plan.members.contains(&member)) || is_coming(&member, only.as_ref()) {
            return Some(member);
        }
        let text = shorten_name(&member);
        let whose = match &only {
            Some(region) => format!("member of \"{}\"", shorten_name(region)),
            None => "member of any aggregation".to_string(),
        };
        let known: Vec<String> = possible.by_ref().flat_map(|plan| &plan.members).map(shorten_name).collect();
        let advice = did_you_mean(&text, known.iter().map(String::as_str), || {
            match known.iter().find(|known| known.split_once('.').is_some_and(|(first, _)| first == text)) {
                Some(full) => format!("write \"{full}\""),
                None => "write one of [aggregations]".to_string(),
            }
        });
        r.refuse(node.at, format!("\"{text}\" is no {whose}; {advice}"))
    });
    let origin = member.as_ref().and_then(|member| regions.iter().find_map(|plan| plan.origin_named(member)));
    let names = optional(reader, &fields, "names", |r, key, node| read_pattern(r, key, node, origin));
    let share = optional(reader, &fields, "share", read_share);
    let until = optional(reader, &fields, "until", read_until);
    let text = |r: &mut Reader<'_>, key: &str, node: &Node| Some(r.text(key, node, "a text in quotes")?.to_string());
    let reason = optional(reader, &fields, "reason", text);
    let target = DrainTarget { member: member?, region: region?, names: names? };
    let (share, until, reason) = (share?.flatten(), until?, reason?);
    Some((Drain { target, share, since: UNIX_EPOCH, until, reason, configured: true }, node.at))
}

/// The value of a key that need not be there; none where it is there and wrong.
fn optional<'n, T>(
    reader: &mut Reader<'_>,
    fields: &Fields<'n>,
    key: &str,
    convert: impl FnOnce(&mut Reader<'_>, &str, &'n Node) -> Option<T>,
) -> Option<Option<T>> {
    match fields.entry(key) {
        Some(entry) => convert(reader, key, &entry.node).map(Some),
        None => Some(None),
    }
}

/// Reads the name of a member, which for a part of a zone is no zone name.
fn read_member_name(reader: &mut Reader<'_>, key: &str, node: &Node, regions: &[RegionPlan]) -> Option<Name> {
    if let Value::Text(text) = &node.value
        && let Ok(name) = Name::parse(text)
        && regions.iter().any(|plan| plan.is_united && plan.members.contains(&name))
    {
        return Some(name);
    }
    reader.name(key, node)
}

/// Reads the name of a region.
fn read_region(reader: &mut Reader<'_>, key: &str, node: &Node, regions: &[RegionPlan]) -> Option<Name> {
    let region = reader.name(key, node)?;
    if regions.iter().any(|plan| plan.origin == region) {
        return Some(region);
    }
    let text = shorten_name(&region);
    let known: Vec<String> = regions.iter().map(|plan| shorten_name(&plan.origin)).collect();
    let otherwise = || "write one of [aggregations]".to_string();
    let advice = did_you_mean(&text, known.iter().map(String::as_str), otherwise);
    reader.refuse(node.at, format!("\"{text}\" is no aggregation; {advice}"))
}

/// Reads a pattern of owner names.
fn read_pattern(reader: &mut Reader<'_>, key: &str, node: &Node, origin: Option<&Name>) -> Option<NamePattern> {
    let text = reader.text(key, node, "an owner name such as \"web.svc.*\"")?;
    parse_pattern(text, origin).map_err(|problem| reader.error(node.at, problem)).ok()
}

/// Reads a pattern of owner names below the origin of a member, for messages of one line.
pub fn parse_pattern(text: &str, origin: Option<&Name>) -> Result<NamePattern, String> {
    let shown = shorten(text);
    let pattern = NamePattern::parse(text).map_err(|error| {
        let advice = match &error {
            PatternError::Apex => "leave it out for all names, or write names such as \"web.svc.*\"",
            PatternError::PartOfLabel => "an asterisk stands for a whole label, such as in \"web.svc.*\"",
            PatternError::Name(_) => "write names such as \"web.svc.*\"",
        };
        format!("\"{shown}\" {error}; {advice}")
    })?;
    let full = origin.filter(|origin| pattern.as_name().is_within(origin));
    if let Some(relative) = full.and_then(|origin| pattern.as_name().replace_suffix(origin, &Name::root())?.ok()) {
        let advice = match shorten_name(&relative).as_str() {
            "" => "leave it out for all names".to_string(),
            relative => format!("write \"{relative}\""),
        };
        return Err(format!("\"{shown}\" is a full name, patterns are relative to the zone; {advice}"));
    }
    Ok(pattern)
}

/// Reads the share of a drain.
fn read_share(reader: &mut Reader<'_>, key: &str, node: &Node) -> Option<Option<u8>> {
    let text = reader.text(key, node, "a percentage in quotes, such as \"30%\"")?;
    let fault = |problem| format!("\"{key}\" cannot be \"{}\"; {problem}", shorten(text));
    parse_share(text).map_err(|problem| reader.error(node.at, fault(problem))).ok()
}

/// Reads a share of the clients; none for all of them, which make a whole drain.
pub fn parse_share(text: &str) -> Result<Option<u8>, &'static str> {
    let digits = text.strip_suffix('%').filter(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()));
    match digits.and_then(|digits| digits.parse().ok()) {
        Some(100) => Ok(None),
        Some(percent @ 1..100) => Ok(Some(percent)),
        _ => Err("write a percentage from 1% to 100%"),
    }
}

/// Reads when a drain ends.
fn read_until(reader: &mut Reader<'_>, key: &str, node: &Node) -> Option<SystemTime> {
    let wanted = "date, time and offset such as 2026-11-21T06:00:00Z";
    let (Value::Text(text) | Value::Date(text)) = &node.value else { return reader.wrong_type(key, node, wanted) };
    let fault = || format!("\"{key}\" cannot be \"{}\"; write {wanted}", shorten(text));
    parse_timestamp(text).or_else(|| reader.refuse(node.at, fault()))
}

/// A name as people write it, cut where it is too long for a message.
fn shorten_name(name: &Name) -> String {
    shorten(name.to_string().trim_end_matches('.'))
}
