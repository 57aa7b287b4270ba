//! The section `[zones]`. Zones that come from ZooKeeper are read in `trees`, those that are written in the file itself
//! in `services`.
//!
//! Invariants: every zone has a primary; no zone is planned twice, whatever the case and final dot of its name.
//!
//! Cost: O(zones + primaries squared in one zone).
//!
//! RFCs: 4343 (case of names), RFD 172 (the short form).

use crate::config::apex::Surroundings;
use crate::config::keys::Keys;
use crate::config::names::{Declared, report_twice, report_unquoted, unquoted_names};
use crate::config::peers::{Inherited, Role, read_peer};
use crate::config::schema;
use crate::config::secondaries::Secondaries;
use crate::config::static_zones::{is_services, read_services};
use crate::config::transfer::{TransferSection, read_timers};
use crate::config::trees::{is_tree, read_tree};
use crate::source::zookeeper::TreePlan;
use crate::static_zone::StaticZonePlan;
use crate::transfer::{PrimaryPlan, ZonePlan};
use settings::read::{Fields, Reader, shorten};
use settings::tree::{Entry, Node, Value};
use wire::name::Name;

/// Primaries in messages and in the schema.
const PRIMARY: Role = Role { noun: "primary", table: &schema::PRIMARY };

//--- [zones] ---

/// The zones of the file, by where they come from.
#[derive(Default)]
pub struct ZonesSection<'n> {
    pub zones: Vec<ZonePlan>,
    /// Zones of which several primaries have parts, still to be read.
    pub united: Vec<(Name, &'n Entry)>,
    pub trees: Vec<TreePlan>,
    pub services: Vec<StaticZonePlan>,
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

/// Advice for a file without zones.
const NO_ZONES_ADVICE: &str = "write [zones] and below it for each zone \"ZONE\" = \"ADDRESS OF ITS PRIMARY\"";

/// Returns true if several primaries each have a part of the zone.
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
