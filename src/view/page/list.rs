//! List of all zones, regions and catalogs, a part at a time, and the filter of it: where there are many, the overview has
//! but the first.
//!
//! Cost: O(names) to choose and O(listed) to write; what has problems is known from everything, O(zones).

use super::Shell;
use super::parts::{Cell, Grade, Mark, count, id_of, short};
use super::rows::zone_mark;
use crate::view::Handle;
use crate::view::columns::{Column, Value, cells, heads};
use crate::view::datacenters::{compare_labels, label_of};
use crate::view::judgement::{Judgement, Note, noted};
use crate::view::report::{CatalogReport, RegionReport, Report, ZoneReport};
use crate::view::zones::Line;
use askama::Template;
use std::collections::{HashMap, HashSet};
use url::form_urlencoded::Serializer;
use wire::name::Name;

/// Zones on a page of the list.
const LISTED: usize = 100;
/// What has something to look at.
const PROBLEMS: &str = "problems";
/// Datacenters that the filter suggests.
const SUGGESTED: usize = 500;

/// What is wanted of the list.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    /// Part of the names.
    pub name: String,
    /// One of [`Filter::SHOWN`]; anything else shows all.
    pub show: String,
    /// First label of the names, or its beginning.
    pub datacenter: String,
    /// Number of the page.
    pub page: usize,
}

/// Part of the list.
#[derive(Template)]
#[template(path = "zones.html")]
pub struct ZoneList {
    shell: Shell,
    filter: Filter,
    /// Labels of datacenters, in the order of their numbers.
    datacenters: Vec<String>,
    count: String,
    /// The heads of the table, and each zone with its id and cells.
    heads: Cell,
    zones: Vec<(String, Cell)>,
    before: Option<String>,
    after: Option<String>,
}

/// A zone of any kind.
#[derive(Clone, Copy)]
enum Entry<'r> {
    Zone(&'r ZoneReport),
    Region(&'r RegionReport),
    Catalog(&'r CatalogReport),
}

impl<'r> Entry<'r> {
    fn name(self) -> &'r Name {
        match self {
            Entry::Zone(zone) => &zone.kept.zone,
            Entry::Region(region) => &region.kept.region,
            Entry::Catalog(catalog) => &catalog.zone,
        }
    }

    /// Its state, and whether there is something to look at.
    fn mark(self, worst: Option<&Note>) -> Mark {
        let mark = match self {
            Entry::Zone(zone) => zone_mark(zone),
            Entry::Region(region) => Mark::of_state(region.kept.state),
            Entry::Catalog(_) => Mark::new(Grade::Good, "ok"),
        };
        noted(mark, worst)
    }

    /// It as a line of the tables of zones.
    fn line(self, report: &'r Report) -> Line<'r> {
        match self {
            Entry::Zone(zone) => Line::new(report, zone),
            Entry::Region(region) => Line::of_region(report, region),
            Entry::Catalog(catalog) => Line::of_catalog(report, catalog),
        }
    }
}

/// What is on one page of the list.
struct Part<'n> {
    /// Number of all that were found.
    found: usize,
    listed: Vec<&'n Name>,
    /// Addresses of the pages before and after.
    before: Option<String>,
    after: Option<String>,
}

/// A line of the list.
struct Listed<'r> {
    kind: &'static str,
    mark: Mark,
    line: Line<'r>,
}

impl ZoneList {
    /// Lists what a filter lets through.
    pub fn new(shell: Shell, view: &Handle, filter: Filter) -> ZoneList {
        let snapshot = view.snapshots.load_full();
        let names = snapshot.published.iter().map(|served| &served.origin);
        let config = view.config.load();
        let kind = |name: &Name| match &config.catalog {
            _ if snapshot.regions.contains_key(name) => "region",
            Some(plan) if plan.origin == *name => "catalog",
            _ => "zone",
        };
        // What has problems is known from everything; else the status of what is listed is enough.
        let whole = (filter.show == PROBLEMS).then(|| Report::collect(view, None));
        let part = match whole.as_ref().map(|report| (report, Judgement::of(report))) {
            None => filter.choose(names, &kind, &|_| false),
            Some((report, judgement)) => {
                let worst = judgement.worst();
                let entries = entries(report);
                let is_bad = |name: &Name| {
                    let entry = entries.get(name);
                    entry.is_some_and(|entry| entry.mark(worst.get(name).copied()).grade >= Grade::Warn)
                };
                filter.choose(names, &kind, &is_bad)
            }
        };
        let Part { found, listed, before, after } = part;
        let report = whole.unwrap_or_else(|| {
            let wanted: HashSet<&Name> = listed.iter().copied().collect();
            Report::collect_some(view, &|name| wanted.contains(name))
        });
        let (judgement, entries) = (Judgement::of(&report), entries(&report));
        let worst = judgement.worst();
        let listed = listed.into_iter().filter_map(|name| entries.get(name)).map(|entry| Listed {
            kind: kind(entry.name()),
            mark: entry.mark(worst.get(entry.name()).copied()),
            line: entry.line(&report),
        });
        let columns: [Column<Listed<'_>>; 7] = [
            Column::page("Zone", "", |listed| Value::Name(listed.line.name.clone())),
            Column::page("Kind", "", |listed| Value::Text(listed.kind.to_owned())),
            Column::page("State", "", |listed| Value::Mark(listed.mark.clone())),
            Column::page("Serial", "number", |listed| Value::Serial(listed.line.serial)),
            Column::page("Records", "number", |listed| Value::Number(listed.line.records)),
            Column::page("Queries/s", "number wide", |listed| Value::Html(listed.line.rate())),
            Column::remark("Remarks", "wide", |listed| Value::Text(listed.line.remarks.clone())),
        ];
        let members = snapshot.regions.values().flat_map(|region| &region.plan.members);
        let mut datacenters: Vec<String> = members.map(label_of).take(SUGGESTED).collect();
        datacenters.sort_by(|one, other| compare_labels(one, other));
        datacenters.dedup();
        ZoneList {
            heads: heads(&columns),
            zones: listed.map(|one| (id_of("zone", one.line.name), cells(&columns, &one, shell.now))).collect(),
            datacenters,
            count: filter.describe(found),
            before,
            after,
            filter,
            shell,
        }
    }
}

/// All zones of a report, of any kind.
fn entries(report: &Report) -> HashMap<&Name, Entry<'_>> {
    let regions = report.regions.iter().map(Entry::Region);
    let zones = report.zones.iter().map(Entry::Zone);
    let all = regions.chain(zones).chain(report.catalog.iter().map(Entry::Catalog));
    all.map(|entry| (entry.name(), entry)).collect()
}

impl Filter {
    /// Values of `show`, and what they mean.
    pub const SHOWN: [(&'static str, &'static str); 4] =
        [("", "all"), (PROBLEMS, "with problems"), ("regions", "regions"), ("zones", "source zones")];

    /// Chooses what is on the page; the last one instead of one that is not there.
    fn choose<'n>(
        &self,
        names: impl Iterator<Item = &'n Name>,
        kind: &dyn Fn(&Name) -> &'static str,
        is_bad: &dyn Fn(&Name) -> bool,
    ) -> Part<'n> {
        let (part, datacenter) = (self.name.to_ascii_lowercase(), self.datacenter.to_ascii_lowercase());
        let takes = |name: &Name| {
            // Names are in small letters.
            short(name).contains(&part)
                && (datacenter.is_empty() || label_of(name).starts_with(&datacenter))
                && match &*self.show {
                    PROBLEMS => is_bad(name),
                    "regions" => kind(name) == "region",
                    "zones" => kind(name) == "zone",
                    _ => true,
                }
        };
        let mut found: Vec<&Name> = names.filter(|name| takes(name)).collect();
        found.sort_by(|a, b| a.canonical_cmp(b));
        let last = found.len().saturating_sub(1) / LISTED;
        let page = self.page.min(last);
        Part {
            found: found.len(),
            before: page.checked_sub(1).map(|page| self.address(page)),
            after: (page < last).then(|| self.address(page + 1)),
            listed: found.into_iter().skip(page * LISTED).take(LISTED).collect(),
        }
    }

    /// Says how many were found of what.
    fn describe(&self, found: usize) -> String {
        let (one, many) = match &*self.show {
            "regions" => ("region", "regions"),
            "zones" => ("source zone", "source zones"),
            _ => ("zone", "zones"),
        };
        let mut text = count(found, one, many);
        if self.show == PROBLEMS {
            text.push_str(" with problems");
        }
        if !self.datacenter.is_empty() {
            text.push_str(&format!(" of {}", self.datacenter));
        }
        if !self.name.is_empty() {
            text.push_str(&format!(" with “{}” in the name", self.name));
        }
        text
    }

    /// The address of a page of the list.
    pub fn address(&self, page: usize) -> String {
        let mut query = Serializer::new(String::new());
        for (key, value) in [("name", &self.name), ("show", &self.show), ("datacenter", &self.datacenter)] {
            if !value.is_empty() {
                query.append_pair(key, value);
            }
        }
        format!("/zones?{}", query.append_pair("page", &page.to_string()).finish())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filter(name: &str, show: &str, datacenter: &str, page: usize) -> Filter {
        Filter { name: name.to_owned(), show: show.to_owned(), datacenter: datacenter.to_owned(), page }
    }

    #[test]
    fn all_zones_are_listed_a_part_at_a_time_and_found_by_name() {
        let zone = |number: usize| Name::parse(&format!("Z{number:04}.dc-{}.x", number % 50)).unwrap();
        let zones: Vec<Name> = (0..250).map(zone).collect();
        let list = |filter: Filter| {
            let part =
                filter.choose(zones.iter(), &|name| if *name == zones[3] { "region" } else { "zone" }, &|name| {
                    *name == zones[7]
                });
            (part.found, part.listed.len(), part.before.is_some(), part.after.is_some())
        };
        assert_eq!(list(filter("", "", "", 0)), (250, 100, false, true));
        assert_eq!(list(filter("", "", "", 2)), (250, 50, true, false));
        assert_eq!(list(filter("", "", "", 99)), (250, 50, true, false), "the last page instead");
        assert_eq!(list(filter("DC-7.x", "", "", 0)), (5, 5, false, false));
        assert_eq!(list(filter("none", "", "", 0)), (0, 0, false, false));
        assert_eq!(list(filter("", "problems", "", 0)), (1, 1, false, false));
        assert_eq!(list(filter("", "regions", "", 0)), (1, 1, false, false));
        assert_eq!(list(filter("", "zones", "", 0)), (249, 100, false, true));
        assert_eq!(list(filter("dc-12.", "", "Z001", 0)), (1, 1, false, false), "Z0012, not Z0062");
        let page = ZoneList {
            shell: Shell::default(),
            datacenters: vec!["<i>".to_owned()],
            count: filter("<b>", "", "", 0).describe(0),
            filter: filter("<b>", "", "", 0),
            heads: Cell::default(),
            zones: Vec::new(),
            before: None,
            after: None,
        };
        let page = page.render().unwrap();
        assert!(page.contains("0 zones") && !page.contains("<b>") && !page.contains("<i>"), "{page}");
    }

    #[test]
    fn addresses_carry_the_search() {
        assert_eq!(filter("", "", "", 0).address(2), "/zones?page=2");
        assert_eq!(
            filter("a b&c", "problems", "dc", 0).address(0),
            "/zones?name=a+b%26c&show=problems&datacenter=dc&page=0"
        );
        assert_eq!(
            filter("web", "problems", "us-1", 0).describe(2),
            "2 zones with problems of us-1 with “web” in the name"
        );
    }
}
