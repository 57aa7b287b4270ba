//! The section `[zones]`. Zones from primaries are read in `primaries`, zones with members in `united`, those that come from
//! ZooKeeper in `trees`, those that are made of inventories in `inventories`, and those that are written in the file itself in `static_zones`.
//!
//! Invariant: no zone is planned twice, whatever the case and final dot of its name.
//!
//! Cost: O(zones).
//!
//! RFCs: 4343 (case of names).

use crate::config::inventories::{is_made, read_inventories};
use crate::config::names::{Declared, read_names, unquoted_names};
use crate::config::primaries::{ZONE, read_zone};
use crate::config::sections::Sections;
use crate::config::static_zones::{is_services, read_services};
use crate::config::trees::{is_tree, read_tree};
use crate::source::inventory::InventoryPlan;
use crate::source::zookeeper::TreePlan;
use crate::static_zone::StaticZonePlan;
use crate::transfer::ZonePlan;
use settings::fields::Fields;
use settings::read::Reader;
use settings::tree::{Entry, Value};
use wire::name::Name;

/// The zones of the file, by where they come from.
#[derive(Default)]
pub struct ZonesSection<'n> {
    pub zones: Vec<ZonePlan>,
    /// Zones of which several primaries have parts, still to be read.
    pub united: Vec<(Name, &'n Entry)>,
    pub trees: Vec<TreePlan>,
    pub inventories: Vec<InventoryPlan>,
    pub services: Vec<StaticZonePlan>,
    pub declared: Declared,
}

/// Reads `[zones]` in file order: zones from primaries, those from ZooKeeper and inventories, and our own.
pub fn read_zones<'n>(reader: &mut Reader<'_>, root: &Fields<'n>, sections: &mut Sections<'_>) -> ZonesSection<'n> {
    let mut found = ZonesSection::default();
    let mut drafts = Vec::new();
    let mut inventories = read_inventories(reader, root, sections);
    let has_catalogs = root.entry("catalogs").is_some();
    if !has_catalogs {
        root.need(reader, "zones", 0, format!("no zones; {NO_ZONES_ADVICE}"));
    }
    let Some(section) = root.entry("zones") else { return found };
    let Value::Table(entries) = &section.node.value else {
        reader.wrong_type::<()>("zones", &section.node, "a table of zone names and addresses");
        return found;
    };
    if entries.is_empty() && !has_catalogs {
        reader.error(section.key_at, format!("[zones] is empty; {NO_ZONES_ADVICE}"));
    }
    let is_other = |entry: &Entry| is_tree(entry) || is_made(entry) || is_services(entry) || is_united(entry);
    let split = |entry: &Entry| unquoted_names(entry, &ZONE).filter(|_| !is_other(entry));
    let (named, unquoted) = read_names(reader, entries, "zone", split);
    found.declared = unquoted.into_iter().collect();
    for (zone, entry) in named {
        found.declared.insert(zone.clone(), entry.key_at);
        if is_tree(entry) {
            drafts.extend(read_tree(reader, zone, entry, sections));
        } else if is_made(entry) {
            inventories.read_zone(reader, zone, entry, sections);
        } else if is_united(entry) {
            found.united.push((zone, entry));
        } else if is_services(entry) {
            found.services.extend(read_services(reader, zone, entry, sections));
        } else {
            found.zones.extend(read_zone(reader, zone, entry, sections));
        }
    }
    // A reverse zone may be the name of a zone further down.
    for draft in drafts {
        let tree = draft.admit(reader, &mut found.declared, &found.trees, &mut sections.secondaries);
        found.trees.extend(tree);
    }
    found.inventories = inventories.admit(reader, &mut found.declared, sections);
    found
}

/// Advice for a file without zones.
const NO_ZONES_ADVICE: &str = "write [zones] and below it for each zone \"ZONE\" = \"ADDRESS OF ITS PRIMARY\"";

/// Returns true if several primaries each have a part of the zone.
fn is_united(entry: &Entry) -> bool {
    entry.node.get("members").is_some()
}
