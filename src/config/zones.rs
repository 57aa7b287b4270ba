//! The sections about zones and where they come from: `[zones]` and `[transfer]`. Zones that come from ZooKeeper are read in
//! `trees`, those that are written in the file itself in `services`.
//!
//! Invariants: every zone has a primary; no zone is planned twice, whatever the case and final dot of its name; the
//! lower bound of a timer is never above the upper one.
//!
//! Cost: O(zones + primaries squared in one zone).
//!
//! RFCs: 4343 (case of names), RFD 172 (the short form).

use crate::config::keys::Keys;
use crate::config::peers::{Inherited, Role, read_peer};
use crate::config::read::{Fields, Reader, shorten};
use crate::config::schema;
use crate::config::secondaries::Secondaries;
use crate::config::services::{is_services, read_services};
use crate::config::tree::{Entry, Node, Value};
use crate::config::trees::{Surroundings, is_tree, read_tree};
use crate::config::units::format_duration;
use crate::name::Name;
use crate::services::ServicesPlan;
use crate::source::zookeeper::TreePlan;
use crate::transfer::{Limits, PrimaryPlan, TimerBounds, ZonePlan};
use std::collections::HashMap;
use std::ops::RangeInclusive;
use std::time::Duration;
use tokio_cron_scheduler::Job;

/// Primaries in messages and in the schema.
const PRIMARY: Role = Role { noun: "primary", table: &schema::PRIMARY };

/// What `[transfer]` comes to.
pub struct TransferSection {
    pub timers: TimerBounds,
    pub limits: Limits,
    pub audit: Option<String>,
}

/// The zones that the file names, also those with mistakes in their details, and where it names them.
pub type Declared = HashMap<Name, usize>;

//--- [transfer] ---

/// Reads `[transfer]`; absent keys give defaults.
pub fn read_transfer(reader: &mut Reader<'_>, root: &Fields<'_>) -> TransferSection {
    let mut section = TransferSection {
        timers: TimerBounds::default(),
        limits: Limits::default(),
        // Each night at half past four.
        audit: Some("0 30 4 * * *".to_string()),
    };
    let Some(entry) = root.entry("transfer") else { return section };
    let table = &schema::TRANSFER;
    let Some(fields) = Fields::new(reader, &entry.node, table, table.path) else { return section };
    section.timers = read_timers(reader, &fields, section.timers, table.path);
    let limits = &mut section.limits;
    for (key, slot) in [
        ("connect_timeout", &mut limits.connect_timeout),
        ("message_timeout", &mut limits.message_timeout),
        ("total_timeout", &mut limits.total_timeout),
    ] {
        *slot = fields.read(reader, key, Reader::positive_duration).unwrap_or(*slot);
    }
    let per_primary = fields.read(reader, "transfers_per_primary", |r, key, node| r.count(key, node, 10_000));
    limits.per_primary = per_primary.unwrap_or(limits.per_primary);
    limits.confirm_after = fields.read(reader, "confirm_after", Reader::duration).unwrap_or(limits.confirm_after);
    limits.shrink_share = fields.read(reader, "shrink_share", Reader::share).unwrap_or(limits.shrink_share);
    limits.min_rate_bytes = fields.read(reader, "min_rate_bytes", Reader::size).unwrap_or(limits.min_rate_bytes);
    limits.max_bytes = fields.read(reader, "max_bytes", positive_size).unwrap_or(limits.max_bytes);
    for (key, slot) in [("max_records", &mut limits.max_records), ("max_messages", &mut limits.max_messages)] {
        *slot = fields.read(reader, key, |r, key, node| r.integer(key, node, 1..=u64::MAX)).unwrap_or(*slot);
    }
    section.audit = fields.read(reader, "audit", read_audit).unwrap_or(section.audit);
    section
}

/// Reads a size above zero.
fn positive_size(reader: &mut Reader<'_>, key: &str, node: &Node) -> Option<u64> {
    let size = reader.size(key, node)?;
    if size == 0 {
        reader.error(node.at, format!("\"{key}\" cannot be zero; write for example \"1GiB\""));
    }
    (size > 0).then_some(size)
}

/// Reads the audit schedule; the inner option is none when it is switched off.
fn read_audit(reader: &mut Reader<'_>, key: &str, node: &Node) -> Option<Option<String>> {
    let wanted = "six fields (second minute hour day month weekday) such as \"0 30 4 * * *\", or \"never\"";
    let text = match &node.value {
        Value::Boolean(false) => return Some(None),
        Value::Text(text) if text == "never" => return Some(None),
        Value::Text(text) => text,
        _ => return reader.wrong_type(key, node, wanted),
    };
    let fault = match check_cron(text) {
        Ok(()) => return Some(Some(text.clone())),
        Err(fault) => fault,
    };
    let advice = match text.split_whitespace().count() {
        5 => format!("write the second in front, \"0 {}\"", shorten(text)),
        _ => format!("write {wanted}"),
    };
    reader.error(node.at, format!("\"{key}\" {fault}: \"{}\"; {advice}", shorten(text)));
    None
}

/// Has the scheduler read the expression that it will run.
fn check_cron(text: &str) -> Result<(), &'static str> {
    let job = Job::new(text, |_, _| {}).and_then(|mut job| job.job_data());
    match job {
        // The scheduler's own mark for "no next time".
        Ok(data) if data.next_tick == 0 => Err("never comes due"),
        Ok(_) => Ok(()),
        Err(_) => Err("is no cron expression"),
    }
}

//--- Timers ---

/// The lower and upper key of each timer.
const TIMER_KEYS: [(&str, &str); 3] =
    [("refresh_min", "refresh_max"), ("retry_min", "retry_max"), ("expire_min", "expire_max")];

/// How long older serials may have to last: three refreshes take a second, and no zone of CNS lives longer than 30 days.
const REGRESS: RangeInclusive<Duration> = Duration::from_secs(1)..=Duration::from_secs(30 * 24 * 3600);

/// Reads the bounds that a table gives over those it inherits.
fn read_timers(reader: &mut Reader<'_>, fields: &Fields<'_>, inherited: TimerBounds, place: &str) -> TimerBounds {
    let mut bounds = inherited;
    let slots = [
        (&mut bounds.refresh_min, &mut bounds.refresh_max),
        (&mut bounds.retry_min, &mut bounds.retry_max),
        (&mut bounds.expire_min, &mut bounds.expire_max),
    ];
    for ((low_key, high_key), (low, high)) in TIMER_KEYS.into_iter().zip(slots) {
        let mut read = |key: &str, slot: &mut Duration| {
            let value = fields.read(reader, key, Reader::positive_duration);
            *slot = value.unwrap_or(*slot);
            value.and(fields.entry(key)).map(|entry| entry.node.at)
        };
        let (low_at, high_at) = (read(low_key, low), read(high_key, high));
        // Bounds that are both inherited were judged where they are written.
        if let Some(at) = high_at.or(low_at)
            && *low > *high
        {
            let (low, high) = (format_duration(*low), format_duration(*high));
            reader.error(
                at,
                format!(
                    "{place} has \"{low_key}\" {low} above \"{high_key}\" {high}; lower the one or raise the other"
                ),
            );
        }
    }
    for (key, slot) in
        [("regress_after", &mut bounds.regress_after), ("regress_after_silence", &mut bounds.regress_after_silence)]
    {
        *slot = fields.read(reader, key, read_regress).unwrap_or(*slot);
    }
    bounds
}

/// Reads how long older serials, or a tree that was reset, must last.
pub fn read_regress(reader: &mut Reader<'_>, key: &str, node: &Node) -> Option<Duration> {
    let duration = reader.duration(key, node)?;
    if !REGRESS.contains(&duration) {
        let [given, least, most] = [duration, *REGRESS.start(), *REGRESS.end()].map(format_duration);
        reader.error(node.at, format!("\"{key}\" cannot be {given}; write \"{least}\" to \"{most}\""));
        return None;
    }
    Some(duration)
}

//--- [zones] ---

/// The zones of the file, by where they come from.
#[derive(Default)]
pub struct ZonesSection<'n> {
    pub zones: Vec<ZonePlan>,
    /// Zones of which several primaries have parts, still to be read.
    pub united: Vec<(Name, &'n Entry)>,
    pub trees: Vec<TreePlan>,
    pub services: Vec<ServicesPlan>,
    pub declared: Declared,
}

/// Reads `[zones]` in file order: zones from primaries, those from ZooKeeper, and our own.
pub fn read_zones<'n>(
    reader: &mut Reader<'_>,
    root: &Fields<'n>,
    around: &Surroundings<'_>,
    keys: &Keys,
    secondaries: &mut Secondaries<'_>,
) -> ZonesSection<'n> {
    let mut found = ZonesSection::default();
    let mut drafts = Vec::new();
    if root.lacks("zones") {
        reader.error(0, format!("no zones; {NO_ZONES_ADVICE}"));
    }
    let Some(section) = root.entry("zones") else { return found };
    let Value::Table(entries) = &section.node.value else {
        reader.wrong_type::<()>("zones", &section.node, "a table of zone names and addresses");
        return found;
    };
    if entries.is_empty() {
        reader.error(section.key_at, format!("[zones] is empty; {NO_ZONES_ADVICE}"));
    }
    for entry in entries {
        let (is_tree, is_own) = (is_tree(entry), is_services(entry));
        if let Some(names) = unquoted_names(entry, &schema::ZONE).filter(|_| !is_tree && !is_own && !is_united(entry)) {
            report_unquoted(reader, entry, &names);
            found
                .declared
                .extend(names.iter().filter_map(|name| Name::parse(name).ok()).map(|name| (name, entry.key_at)));
            continue;
        }
        let Some(zone) = reader.parse_name(entry.key_at, &entry.key) else { continue };
        if let Some(first) = found.declared.get(&zone) {
            report_twice(reader, "zone", entry, *first);
            continue;
        }
        found.declared.insert(zone.clone(), entry.key_at);
        if is_tree {
            drafts.extend(read_tree(reader, zone, entry, around));
        } else if is_united(entry) {
            found.united.push((zone, entry));
        } else if is_own {
            found.services.extend(read_services(reader, zone, entry, around, secondaries));
        } else {
            found.zones.extend(read_zone(reader, zone, entry, around.transfer, keys, secondaries));
        }
    }
    // A reverse zone may be the name of a zone further down.
    for draft in drafts {
        let tree = draft.admit(reader, &mut found.declared, &found.trees, secondaries);
        found.trees.extend(tree);
    }
    found
}

/// What to write into a file without zones.
const NO_ZONES_ADVICE: &str = "write [zones] and below it for each zone \"ZONE\" = \"ADDRESS OF ITS PRIMARY\"";

/// Whether several primaries have parts of a zone.
fn is_united(entry: &Entry) -> bool {
    entry.node.get("members").is_some()
}

/// Reads one zone in short or table form.
fn read_zone(
    reader: &mut Reader<'_>,
    zone: Name,
    entry: &Entry,
    transfer: &TransferSection,
    keys: &Keys,
    secondaries: &mut Secondaries<'_>,
) -> Option<ZonePlan> {
    let place = format!("zone \"{}\"", shorten(&entry.key));
    if let Value::Table(_) = &entry.node.value {
        let fields = Fields::new(reader, &entry.node, &schema::ZONE, &place)?;
        secondaries.admit(reader, &zone, Some(&fields), &place, true);
        return read_way(reader, (zone.clone(), zone), &fields, (&place, entry.key_at), transfer, keys);
    }
    secondaries.admit(reader, &zone, None, &place, true);
    let primaries = read_primaries(reader, keys, &place, &entry.key, &entry.node, &Inherited::default())?;
    let (timers, limits) = (transfer.timers, transfer.limits);
    Some(ZonePlan { origin: zone.clone(), zone, primaries, notify_from: Vec::new(), ixfr: true, timers, limits })
}

/// Reads how a zone, or a member of one, is transferred, from a table at a place of the file.
pub fn read_way(
    reader: &mut Reader<'_>,
    (zone, origin): (Name, Name),
    fields: &Fields<'_>,
    (place, at): (&str, usize),
    transfer: &TransferSection,
    keys: &Keys,
) -> Option<ZonePlan> {
    let timers = read_timers(reader, fields, transfer.timers, place);
    let inherited = Inherited {
        source: fields.read(reader, "source_address", Reader::source_address),
        key: fields.read(reader, "key", |r, key, node| keys.signing(r, key, node)),
    };
    let ixfr = fields.read(reader, "ixfr", Reader::boolean).unwrap_or(true);
    let wanted = "a list of addresses such as [\"192.0.2.1\"]";
    let host = |r: &mut Reader<'_>, key: &str, node: &Node| r.bare_address(key, node, "the address of one host");
    let notify_from = fields.read(reader, "notify_from", |r, key, node| r.list(key, node, wanted, host));
    if fields.lacks("primaries") {
        reader.error(at, format!("{place} has no primary; write primaries = [\"ADDRESS\"]"));
    }
    let primaries =
        fields.read(reader, "primaries", |r, key, node| read_primaries(r, keys, place, key, node, &inherited))?;
    let notify_from = notify_from.unwrap_or_default();
    Some(ZonePlan { zone, origin, primaries, notify_from, ixfr, timers, limits: transfer.limits })
}

/// Reads one primary or a list of them.
fn read_primaries(
    reader: &mut Reader<'_>,
    keys: &Keys,
    place: &str,
    key: &str,
    node: &Node,
    inherited: &Inherited,
) -> Option<Vec<PrimaryPlan>> {
    let single = std::slice::from_ref(node);
    let items = match &node.value {
        Value::Text(_) => single,
        Value::List(items) if items.is_empty() => {
            reader.error(node.at, format!("{place} has no primary; write its address between the brackets"));
            return None;
        }
        Value::List(items) => items,
        _ => return reader.wrong_type(key, node, "an address or a list of addresses"),
    };
    let mut primaries: Vec<PrimaryPlan> = Vec::new();
    for item in items {
        let Some(peer) = read_peer(reader, keys, &PRIMARY, place, key, item, inherited) else { continue };
        let primary = PrimaryPlan { address: peer.address, source: peer.source, key: peer.key };
        if primaries.iter().any(|other| other.address == primary.address) {
            reader.error(item.at, format!("{place} lists primary {} twice; remove one", primary.address));
            continue;
        }
        // Contract with CNS: it listens on IPv4 as shipped, and sends NOTIFY to IPv4 peers only.
        if primary.address.is_ipv6() {
            reader.warn(item.at, format!("CNS sends no NOTIFY over IPv6; {place} will be polled every refresh"));
        }
        primaries.push(primary);
    }
    (!primaries.is_empty()).then_some(primaries)
}

//--- Names as keys ---

/// Reports a name that was given before.
pub fn report_twice(reader: &mut Reader<'_>, what: &str, entry: &Entry, first: usize) {
    let (line, _) = reader.source.locate(first);
    let key = shorten(&entry.key);
    reader.error(
        entry.key_at,
        format!("{what} \"{key}\" is given in line {line} already (neither case nor a final dot matters); remove one"),
    );
}

/// The names that were meant where TOML read the dots of an unquoted name as nested tables.
pub fn unquoted_names(entry: &Entry, table: &schema::Table) -> Option<Vec<String>> {
    let Value::Table(inner) = &entry.node.value else { return None };
    if entry.key.contains('.') || inner.is_empty() || inner.iter().any(|field| table.has(&field.key)) {
        return None;
    }
    let mut names = Vec::new();
    // The end of a name is what is no table, or a table with keys of the schema.
    let mut open: Vec<(String, &Entry)> = inner.iter().rev().map(|field| (entry.key.clone(), field)).collect();
    while let Some((prefix, field)) = open.pop() {
        let name = format!("{prefix}.{}", field.key);
        match &field.node.value {
            Value::Table(deeper) if !deeper.is_empty() && !deeper.iter().any(|field| table.has(&field.key)) => {
                open.extend(deeper.iter().rev().map(|field| (name.clone(), field)));
            }
            _ => names.push(name),
        }
    }
    Some(names)
}

/// Reports names that need quotes.
pub fn report_unquoted(reader: &mut Reader<'_>, entry: &Entry, names: &[String]) {
    let quoted: Vec<String> = names.iter().map(|name| format!("\"{}\"", shorten(name))).collect();
    let key = shorten(&entry.key);
    reader.error(
        entry.key_at,
        format!("name that begins with \"{key}\" has dots but no quotes; write {}", quoted.join(" and ")),
    );
}
