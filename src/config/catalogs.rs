//! The section `[catalogs]`: catalogs of primaries (RFC 9432), whose zones are transferred and served.
//!
//! What a catalog lists is known when it has been transferred; here is read how each of its zones will be. That is read
//! of a template as a zone of `[zones]` would be, with the primaries of the catalog where the template has none. `listed`
//! makes zones of it.
//!
//! Invariants: a catalog has primaries, and is neither a zone nor a region; every way of a zone that it may list is
//! complete.
//!
//! Cost: O(templates) for each catalog.
//!
//! RFCs: 9432 (section 4.3.2: groups).

use crate::config::names::{Declared, read_names, unquoted_names};
use crate::config::primaries::{WAY, Way, read_zone};
use crate::config::secondaries::WayOut;
use crate::config::sections::Sections;
use crate::config::templates::{GROUPS, MEMBER_TEMPLATE, positions};
use crate::config::zone_pattern::matches;
use crate::transfer::ZonePlan;
use settings::fields::Fields;
use settings::read::{Reader, shorten};
use settings::schema::{Kind, Table, key};
use settings::tree::{Entry, Node, Value};
use wire::name::Name;

/// A catalog whose zones are served
pub static CATALOG: Table<Way> = Table {
    path: "[catalogs.\"NAME\"]",
    help: "A catalog zone (RFC 9432) and its primaries; the zones that it lists are transferred and served",
    keys: &[
        WAY,
        &[
            key(MEMBER_TEMPLATE, "", "template in [templates] for its zones; default: all as for the catalog")
                .bound("name of a template"),
            key(GROUPS, "", "templates for the zones of some groups (RFC 9432 section 4.3.2)")
                .bound("table of groups and names of templates"),
            key("match", "", "names of zones that it may list, such as *.cns.example.com; default: all")
                .bound("pattern or patterns"),
            key("max_members", "20000", "most zones that it may list")
                .takes(Kind::Count(1_000_000, |way, most| way.catalog.max_members = most)),
            key(
                "hold_share",
                "0.5",
                "a version without this share of the zones or more, or without all, waits for retransfer --accept",
            )
            .takes(Kind::Share(|way, share| way.catalog.hold_share = share)),
        ],
    ],
};

/// Keys of a catalog that its zones have where their template has no primaries.
const INHERITED: [&str; 3] = ["primaries", "source_address", "key"];

/// A catalog of primaries.
#[derive(Clone, Debug, PartialEq)]
pub struct CatalogSource {
    /// How the catalog itself is transferred.
    pub way: ZonePlan,
    /// Patterns of zones that it may list; empty for all.
    pub patterns: Vec<String>,
    /// How its zones are transferred and served.
    pub member: MemberWay,
    /// The same for the zones of some groups; the first group that a zone has counts.
    pub groups: Vec<(String, MemberWay)>,
}

/// How a zone that a catalog lists is transferred and served.
#[derive(Clone, Debug, PartialEq)]
pub struct MemberWay {
    pub plan: ZonePlan,
    pub out: WayOut,
}

impl CatalogSource {
    /// The ways of its zones: that of most, and those of groups.
    pub fn members(&self) -> impl Iterator<Item = &MemberWay> {
        std::iter::once(&self.member).chain(self.groups.iter().map(|(_, member)| member))
    }

    /// Returns true if the catalog may list a zone.
    pub fn may_list(&self, zone: &Name) -> bool {
        self.patterns.is_empty() || self.patterns.iter().any(|pattern| matches(pattern, zone))
    }
}

/// Reads `[catalogs]` in file order.
pub fn read_catalogs(
    reader: &mut Reader<'_>,
    section: Option<&Entry>,
    zones: &Declared,
    sections: &mut Sections<'_>,
) -> (Vec<CatalogSource>, Declared) {
    let (mut catalogs, mut declared) = (Vec::new(), Declared::new());
    let Some(section) = section else { return (catalogs, declared) };
    let Value::Table(entries) = &section.node.value else {
        reader.wrong_type::<()>(
            "catalogs",
            &section.node,
            "a table of catalogs, such as [catalogs.\"catalog.example.com\"]",
        );
        return (catalogs, declared);
    };
    let (named, _) = read_names(reader, entries, "catalog", |entry| unquoted_names(entry, &CATALOG));
    for (origin, entry) in named {
        if let Some(at) = zones.get(&origin) {
            let (line, key) = (reader.source.mention(*at), shorten(&entry.key));
            let advice = "write it here if it is a catalog, there if it is a zone to serve";
            reader.error(entry.key_at, format!("catalog \"{key}\" is also a zone, in {line}; {advice}"));
        }
        declared.insert(origin.clone(), entry.key_at);
        catalogs.extend(read_catalog(reader, origin, entry, sections));
    }
    (catalogs, declared)
}

/// Reads one catalog.
fn read_catalog(
    reader: &mut Reader<'_>,
    origin: Name,
    entry: &Entry,
    sections: &mut Sections<'_>,
) -> Option<CatalogSource> {
    let place = format!("catalog \"{}\"", shorten(&entry.key));
    // What its zones inherit is read for each of their templates.
    let inherited = INHERITED.into_iter().filter_map(|key| entry.node.get(key));
    inherited.flat_map(positions).for_each(|at| reader.tell_once(at));
    let mut way = Way::new(origin.clone(), origin.clone(), sections.transfer);
    let fields = CATALOG.read(reader, &entry.node, &place, &mut way)?;
    way.plan.catalog = Some(way.catalog);
    let patterns = fields.read(reader, "match", read_patterns).unwrap_or_default();
    let plan = way.finish(reader, &fields, (&place, entry.key_at), sections);
    // Without primaries that has been told.
    fields.entry("primaries")?;
    let template = fields.entry(MEMBER_TEMPLATE).map(|template| &template.node);
    let member = read_member(reader, &origin, entry, template, sections);
    let groups = read_groups(reader, &fields, &origin, entry, sections);
    Some(CatalogSource { way: plan?, patterns, member: member?, groups })
}

/// Reads the templates of groups.
fn read_groups(
    reader: &mut Reader<'_>,
    fields: &Fields<'_>,
    origin: &Name,
    entry: &Entry,
    sections: &mut Sections<'_>,
) -> Vec<(String, MemberWay)> {
    let Some(groups) = fields.entry(GROUPS) else { return Vec::new() };
    let Value::Table(named) = &groups.node.value else {
        reader.wrong_type::<()>(GROUPS, &groups.node, "a table such as { far = \"TEMPLATE\" }");
        return Vec::new();
    };
    let mut read =
        |group: &Entry| Some((group.key.clone(), read_member(reader, origin, entry, Some(&group.node), sections)?));
    named.iter().filter_map(&mut read).collect()
}

/// Reads how zones of a catalog are transferred and served, as if one of them stood in `[zones]`.
fn read_member(
    reader: &mut Reader<'_>,
    origin: &Name,
    catalog: &Entry,
    template: Option<&Node>,
    sections: &mut Sections<'_>,
) -> Option<MemberWay> {
    let mut fields = match template.map(|template| &template.value) {
        Some(Value::Table(fields)) => fields.clone(),
        // A template that is no table has been told.
        Some(_) => return None,
        None => Vec::new(),
    };
    if let Value::Table(own) = &catalog.node.value
        && fields.iter().all(|field| field.key != "primaries")
    {
        let missing = own.iter().filter(|field| INHERITED.contains(&field.key.as_str()));
        let missing: Vec<Entry> =
            missing.filter(|field| fields.iter().all(|there| there.key != field.key)).cloned().collect();
        fields.extend(missing);
    }
    let node = Node { at: template.map_or(catalog.key_at, |template| template.at), value: Value::Table(fields) };
    let entry = Entry { key: format!("* of {}", catalog.key), key_at: catalog.key_at, node };
    let plan = read_zone(reader, origin.clone(), &entry, sections);
    let out = sections.secondaries.retract(origin);
    Some(MemberWay { plan: plan?, out })
}

/// Reads one pattern or a list of them.
fn read_patterns(reader: &mut Reader<'_>, key: &str, node: &Node) -> Option<Vec<String>> {
    let wanted = "a pattern such as \"*.cns.example.com\", or a list of them";
    let items = reader.items(key, node, node.is_text(), wanted)?;
    if items.is_empty() {
        return reader.refuse(node.at, format!("\"{key}\" is empty, so that nothing could be listed; write {wanted}"));
    }
    Some(items.iter().filter_map(|item| reader.text(key, item, wanted).map(str::to_owned)).collect())
}
