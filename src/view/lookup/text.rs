//! Explanation as text for people.

use super::client::report::count as count_of;
use super::report::{
    Given, GoneReport, InventoryReport, LawReport, LeftOutReport, Lookup, LookupStep, RecordFate, RecordReport,
    RegionUse, SeenReport, SetReport, SourceReport, TreeReport,
};
use crate::select::Pick;
use crate::source::inventory::Membership;
use crate::view::facts::describe_pin;
use crate::view::sizes;
use crate::view::text::{describe_version, format_seconds, moment, or_dash, printable};
use crate::zone::SizeLimit;
use std::fmt::Write;

impl Lookup {
    /// Returns the whole explanation as text, a block for each name of the chain.
    pub fn describe(&self) -> String {
        let mut text = String::new();
        let client = self.client.as_ref().map(|client| client.describe());
        for step in &self.steps {
            write_step(&mut text, step, client.as_deref());
        }
        text
    }
}

/// The outcome of a step in one sentence.
pub fn explain_outcome(step: &LookupStep) -> String {
    let zone = step.zone.as_ref().map_or_else(String::new, |zone| format!("{} {}", zone.kind, zone.origin));
    let wildcard = match &step.owner {
        Some(owner) if *owner != step.name => format!(", by the wildcard {owner} (RFC 4592)"),
        _ => String::new(),
    };
    let owner = step.asked();
    match &step.outcome {
        RecordFate::Records => format!("{} in {zone}{wildcard}", count(step.records.len(), "record")),
        RecordFate::NoData { types } => format!("{zone} has the name{wildcard}, with {} only", types.join(", ")),
        RecordFate::EmptyNonTerminal { below } => {
            format!("{zone} has no records at the name, but {} below it (RFC 8020)", count(*below as usize, "name"))
        }
        RecordFate::NoSuchName { encloser } => {
            format!("{zone} has no such name; the closest above it is {encloser}")
        }
        RecordFate::Alias { target } => format!("an alias in {zone}{wildcard}, for {target}"),
        RecordFate::Dname { target, .. } => format!("the DNAME of {owner} in {zone} leads to {target}"),
        RecordFate::TargetTooLong => {
            format!("the DNAME of {owner} in {zone} leads to a name longer than 255 octets (RFC 6672 section 2.2)")
        }
        RecordFate::Delegation { hidden } => {
            let hides = match *hidden as usize {
                0 => String::new(),
                hidden => format!("; it hides {} at the name", count(hidden, "record")),
            };
            format!("{zone} delegates {owner} to the servers below{hides}")
        }
        RecordFate::NoRecords => format!("{zone} has the name{wildcard}, without any record"),
        RecordFate::Unreadable { reasons } => {
            format!("{zone} has the name, whose data cannot be read: {}", reasons.join("; "))
        }
        RecordFate::RefusedName { encloser } => {
            format!("{zone} has no such name and refuses unknown ones; the closest above it is {encloser}")
        }
        RecordFate::NoSuchService => format!("{zone} has the host without this service"),
        RecordFate::NotServed => "no zone here holds the name".to_owned(),
        RecordFate::NotReady if zone.starts_with("region") => {
            format!("{zone} waits for members that were never loaded")
        }
        RecordFate::NotReady => format!("{zone} has not been loaded yet"),
        RecordFate::Expired => format!("{zone} has expired: its source has been silent for too long"),
    }
}

/// Writes one name of the chain.
fn write_step(text: &mut String, step: &LookupStep, client: Option<&str>) {
    _ = writeln!(text, "{}", step.name);
    _ = writeln!(text, "  {}: {}", step.rcode, step.explanation);
    if let Some(zone) = &step.zone {
        let drift = zone.drift.filter(|drift| *drift != 0).map_or(String::new(), |drift| format!(", drift {drift}"));
        let (kind, origin, state, serial) = (zone.kind, &zone.origin, zone.state.label(), or_dash(zone.serial));
        _ = writeln!(text, "  {kind} {origin}: {state}, serial {serial}{drift}");
        if let Some(pin) = &zone.pinned {
            _ = writeln!(text, "  {}", describe_pin(pin));
        }
    }
    let region = step.zone.as_ref().is_some_and(|zone| zone.kind == "region");
    step.sets.iter().for_each(|set| _ = writeln!(text, "  {}", set.describe()));
    step.uneven.iter().for_each(|uneven| _ = writeln!(text, "  {}", uneven.describe()));
    step.records.iter().for_each(|record| write_record(text, record));
    if let (Some(client), Some(step)) = (client, &step.client) {
        step.write(text, client);
    }
    if !step.gone.is_empty() {
        _ = writeln!(text, "  gone");
        step.gone.iter().for_each(|gone| write_gone(text, gone));
    }
    if !step.left_out.is_empty() {
        _ = writeln!(text, "  not in the {}", if region { "region" } else { "zone" });
        step.left_out.iter().for_each(|left_out| write_left_out(text, left_out));
    }
    for conflict in &step.conflicts {
        _ = writeln!(text, "  {}: {}: {}", conflict.zone, conflict.kind, conflict.explanation);
    }
    if !step.sources.is_empty() {
        _ = writeln!(text, "  {}", if region { "members" } else { "source" });
        step.sources.iter().for_each(|source| write_source(text, source, region));
    }
    if !step.regions.is_empty() {
        _ = writeln!(text, "  regions");
        step.regions.iter().for_each(|region| write_use(text, region));
    }
}

impl SetReport {
    /// How large the set is, and what answers have of it, in one line.
    pub fn describe(&self) -> String {
        let SetReport { rtype, records, answered, by_home, over, law } = self;
        let is_no_message = over.contains(&SizeLimit::Message);
        let over: Vec<String> = over.iter().map(|limit| sizes::name(*limit)).collect();
        let over = if over.is_empty() { String::new() } else { format!(", more than {}", over.join(", ")) };
        let all = count_of(*records, "record") + &over;
        let Some(LawReport { max, pick, pattern }) = law else {
            let which = match (*by_home, is_no_message) {
                (true, _) => "answers depend on the client's home",
                (false, true) => "no answer has all of them",
                (false, false) => "answers have all of them",
            };
            return format!("{rtype}: {all}; {which}");
        };
        let which = match pick {
            _ if *by_home => "by the client's home",
            Some(Pick::Rotate) => "others each time",
            Some(Pick::Client) => "the same for a client",
            None => "always the same",
        };
        let pattern = pattern.as_ref().map(|pattern| format!(" for \"{pattern}\"")).unwrap_or_default();
        format!("{rtype}: {all}; an answer has {answered}, {which} (max = {max}{pattern})")
    }
}

/// Writes a record and who gave it.
fn write_record(text: &mut String, record: &RecordReport) {
    _ = writeln!(text, "  {}", record.text);
    for given in &record.from {
        let mut line = describe_given(given);
        if given.text.ttl != record.text.ttl {
            _ = write!(line, ", TTL {} there", given.text.ttl);
        }
        if given.text.data != record.text.data {
            _ = write!(line, ", {} there", given.text.data);
        }
        if let Some(seconds) = given.held_seconds {
            _ = write!(line, ", withdrawn there, held until {} from now", format_seconds(seconds));
        }
        _ = writeln!(text, "      {line}");
    }
    if let Some(made) = &record.made {
        _ = writeln!(text, "      {made}");
    }
    if let Some(seen) = &record.seen {
        _ = writeln!(text, "      {}", describe_seen(seen));
    }
}

/// Describes the version with which a record came.
fn describe_seen(seen: &SeenReport) -> String {
    let before = if seen.before { " or before" } else { "" };
    format!("since {}{before}", describe_version(seen.serial, seen.at))
}

/// Writes a record that is there no more.
fn write_gone(text: &mut String, gone: &GoneReport) {
    _ = writeln!(text, "    {}", gone.text);
    let since = gone.seen.as_ref().map_or(String::new(), |seen| format!("{}, ", describe_seen(seen)));
    let (last, went) = (gone.last, describe_version(gone.gone, gone.gone_at));
    _ = writeln!(text, "      {since}last seen in version {last}, gone with {went}");
}

/// Describes the place of a record in a member.
fn describe_given(given: &Given) -> String {
    format!("{} serial {}: {}", given.zone, or_dash(given.serial), given.owner)
}

/// Writes a record that is not in the region.
fn write_left_out(text: &mut String, left_out: &LeftOutReport) {
    _ = writeln!(text, "    {}", left_out.given.text);
    _ = writeln!(text, "      {}", describe_given(&left_out.given));
    _ = writeln!(text, "      {}: {}", left_out.reason, left_out.explanation);
}

/// Writes how a zone is, and how it came here.
fn write_source(text: &mut String, source: &SourceReport, member: bool) {
    let mut line = format!("{} {}, serial {}", source.zone, source.state, or_dash(source.serial));
    if let Some(seconds) = source.refreshed_seconds_ago {
        _ = write!(line, ", refreshed {} ago", format_seconds(seconds));
    }
    if let Some(seconds) = source.expires_in_seconds {
        _ = write!(line, ", expires in {}", format_seconds(seconds));
    }
    if member && !source.contributes && source.serial.is_some() {
        line.push_str("; nothing of it is in the region");
    }
    if source.owner.is_none() && member {
        line.push_str("; the name would be longer than 255 octets there");
    }
    _ = writeln!(text, "    {line}");
    for primary in &source.primaries {
        let announced = or_dash(primary.announced);
        _ = writeln!(text, "      primary {}: serial {announced}, {}", primary.address, primary.result);
    }
    if let Some(tree) = &source.tree {
        write_tree(text, tree);
    }
    if let Some(inventory) = &source.inventory {
        write_inventory(text, inventory);
    }
    if source.configured {
        text.push_str("      made of the configuration\n");
    }
    source.shares.iter().for_each(|drain| _ = writeln!(text, "      drained: {drain}"));
}

/// Writes the nodes behind the records of a name.
fn write_tree(text: &mut String, tree: &TreeReport) {
    let zxid = tree.zxid.as_ref().map_or(String::new(), |zxid| format!(", zxid {zxid}"));
    let session = match &tree.member {
        Some(member) => format!("{} with {member}", tree.session.label()),
        None => tree.session.label().to_owned(),
    };
    _ = writeln!(text, "      ZooKeeper {}: {session}{zxid}", tree.ensemble.join(", "));
    for node in &tree.nodes {
        _ = writeln!(text, "      {}: {}", printable(&node.path), printable(&node.role));
        if !node.payload.is_empty() {
            _ = writeln!(text, "        {}", printable(&node.payload));
        }
    }
}

/// Writes the instances that have to do with a name.
fn write_inventory(text: &mut String, inventory: &InventoryReport) {
    let (name, reading) = (&inventory.inventory, inventory.reading.label());
    _ = writeln!(text, "      inventory {name}: {reading}");
    for instance in &inventory.instances {
        let alias = instance.alias.as_ref().map(|alias| format!(" ({})", printable(alias))).unwrap_or_default();
        let reasons = match instance.reasons.as_slice() {
            [] => String::new(),
            reasons => format!(": {}", reasons.join(", ")),
        };
        _ = writeln!(text, "      instance {}{alias}: {}{reasons}", instance.uuid, instance.state);
        for Membership { service, state, until, .. } in &instance.services {
            let until = until.map(|until| format!(" until {}", moment(Some(until)))).unwrap_or_default();
            _ = writeln!(text, "        service {}: {state}{until}", printable(service));
        }
    }
}

/// Writes what a region takes of the name.
fn write_use(text: &mut String, RegionUse { region, name, records, taken, left_out, shares }: &RegionUse) {
    _ = match name {
        Some(name) => writeln!(text, "    {region}: {name}, {taken} of {}", count(*records, "record")),
        None => writeln!(text, "    {region}: name-too-long: the name would be longer than 255 octets there"),
    };
    for left_out in left_out {
        _ = writeln!(text, "      {}", left_out.given.text);
        _ = writeln!(text, "        {}: {}", left_out.reason, left_out.explanation);
    }
    shares.iter().for_each(|drain| _ = writeln!(text, "      drained: {drain}"));
}

/// A number with its noun.
fn count(number: usize, noun: &str) -> String {
    format!("{number} {noun}{}", if number == 1 { "" } else { "s" })
}
