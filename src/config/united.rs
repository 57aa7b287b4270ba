//! Zones of `[zones]` with `members`: one name of which several primaries have parts, such as the reverse zone of a /24 that
//! two datacenters share (`docs/regions.md` 31).
//!
//! Each member is transferred like a zone of its own and kept under the name `ID:ZONE`, which no zone can have because
//! a configuration refuses ":" in names. The zone is made of them as a region is made of its members.
//!
//! Invariants: every member has an id that no other member of the zone has, and primaries.
//!
//! Cost: O(members squared) for each zone.

use crate::config::addresses::{Addresses, own_addresses, read_addresses};
use crate::config::names::Declared;
use crate::config::primaries::{WAY, Way};
use crate::config::regions::{Context, MERGE_KEYS, apex};
use crate::config::secondaries::outgoing;
use crate::config::sections::Sections;
use crate::merge::RegionPlan;
use crate::transfer::ZonePlan;
use settings::read::{Reader, shorten};
use settings::schema::{Table, key};
use settings::tree::{Entry, Node};
use std::cell::RefCell;
use std::collections::HashMap;
use std::net::IpAddr;
use wire::name::Name;

/// Stands between the id of a member and the name of its zone.
const MARK: char = ':';

/// A zone of which several primaries have parts
pub static UNITED: Table<RegionPlan> = Table {
    path: "[zones.\"NAME\"] with members",
    help: "A zone of which several primaries have parts, such as a reverse zone that several datacenters share",
    keys: &[
        &[key("members", "", "who has parts of the zone; the first settles conflicts").bound("list of tables")],
        &apex("the name servers of the zone"),
        MERGE_KEYS,
        &outgoing("whether secondaries get differences; auto: unless replicas share the mname"),
    ],
};

/// One member of such a zone
pub static UNITED_MEMBER: Table<Way> = Table {
    path: "a member of [zones.\"NAME\"]",
    help: "A part of a zone and its primaries",
    keys: &[
        &[key("id", "", "name of the member, unique within the zone: letters, digits, hyphens, underscores")
            .bound("text")],
        WAY,
        &[own_addresses()],
    ],
};

/// Reads a zone with members: how each is transferred, and how the zone is made of them.
pub fn read_united(
    reader: &mut Reader<'_>,
    zone: &Name,
    entry: &Entry,
    sections: &mut Sections<'_>,
) -> Option<(Vec<ZonePlan>, RegionPlan)> {
    let place = format!("zone \"{}\"", shorten(&entry.key));
    let none = Declared::new();
    let (origin, rules) = (zone.clone(), RefCell::default());
    let context = Context { entry, origin, zones: &none, regions: &none, united: &none, foreseen: None, rules: &rules };
    let mut region = context.blank(sections.server_name);
    let fields = UNITED.read(reader, &entry.node, &place, &mut region)?;
    let wanted = "a list of tables such as [{ id = \"west-1\", primaries = [\"192.0.2.1\"] }]";
    let items = fields.entry("members").and_then(|members| reader.items("members", &members.node, false, wanted))?;
    if items.is_empty() {
        reader.error(entry.key_at, format!("{place} has no members; write {wanted}"));
    }
    let (mut plans, mut sources) = (Vec::<ZonePlan>::new(), HashMap::<IpAddr, Name>::new());
    for item in items {
        let Some((plan, addresses)) = read_member(reader, zone, item, &place, sections) else { continue };
        let (id, at) = (id_of(&plan.zone), item.at);
        if plans.iter().any(|other| other.zone == plan.zone) {
            reader.error(at, format!("{place} has two members with the id \"{id}\"; give each its own"));
            continue;
        }
        for address in plan.primaries.iter().map(|primary| primary.address.ip()) {
            let first = sources.entry(address).or_insert_with(|| plan.zone.clone());
            if *first != plan.zone {
                let first = id_of(first);
                let message = format!(
                    "{place} has primary {address} in the members \"{first}\" and \"{id}\"; it is told the serial \
                         of \"{first}\", and its NOTIFY wakes both; better give each member an address of its own"
                );
                reader.warn(at, message);
            }
        }
        refuse_home_only(reader, &addresses);
        if !addresses.rules.is_empty() {
            region.addresses.members.push((plan.zone.clone(), addresses.rules));
        }
        plans.push(plan);
    }
    region.members = plans.iter().map(|plan| plan.zone.clone()).collect();
    let addresses = context.finish(reader, &fields, &mut region, &place, sections);
    refuse_home_only(reader, &addresses);
    region.is_united = true;
    Some((plans, region))
}

/// Reads one member, and what is taken of its addresses.
fn read_member(
    reader: &mut Reader<'_>,
    zone: &Name,
    node: &Node,
    place: &str,
    sections: &Sections<'_>,
) -> Option<(ZonePlan, Addresses)> {
    let any = format!("a member of {place}");
    let mut way = Way::new(zone.clone(), zone.clone(), sections.transfer);
    let fields = UNITED_MEMBER.read(reader, node, &any, &mut way)?;
    fields.need(reader, "id", node.at, format!("{any} has no id; write id = \"NAME OF ITS DATACENTER\""));
    let name = fields.read(reader, "id", |r, key, node| read_id(r, key, node, zone));
    let own = name.as_ref().map_or(any, |name| format!("member \"{}\" of {place}", id_of(name)));
    // Its other keys are judged whether or not it has a name.
    way.plan.zone = name.clone().unwrap_or_else(|| zone.clone());
    let addresses = read_addresses(reader, &fields, &own);
    let plan = way.finish(reader, &fields, (&own, node.at), sections);
    name.and(plan).map(|plan| (plan, addresses))
}

/// Refuses addresses for clients at home: a part of a zone is nobody's home.
fn refuse_home_only(reader: &mut Reader<'_>, addresses: &Addresses) {
    if !addresses.home_only.is_empty() {
        let message =
            "\"home_only\" is for aggregations, because no client is at home in a part of a zone; write \"exclude\"";
        reader.error(addresses.home_only_at, message.to_string());
    }
}

/// Reads the id of a member; gives the name that it is kept under.
fn read_id(reader: &mut Reader<'_>, key: &str, node: &Node, zone: &Name) -> Option<Name> {
    let text = reader.text(key, node, "a text such as \"west-1\"")?;
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    let advice = "write letters, digits, hyphens or underscores, such as \"west-1\"";
    if text.is_empty() || !text.bytes().all(is_plain) {
        return reader.refuse(node.at, format!("\"{}\" is no id of a member; {advice}", shorten(text)));
    }
    // The id makes the first label longer (RFC 1035 section 2.3.4).
    let name = Name::parse(&format!("{text}{MARK}{zone}")).ok();
    if name.is_none() {
        reader.error(node.at, format!("id \"{}\" is too long for this zone; write a shorter one", shorten(text)));
    }
    name
}

/// The id within the name of a member.
fn id_of(name: &Name) -> String {
    let text = name.to_string();
    shorten(text.split(MARK).next().unwrap_or_default()).to_string()
}
