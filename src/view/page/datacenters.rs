//! Pages of datacenters: all of them in a picture and a list, and one with its zones and what it gives to regions.
//!
//! Cost: O(zones + members of all regions).

use super::Shell;
use super::parts::{Cell, Mark, count, encode, number, zone_link};
use super::picture::picture;
use super::rows::{Fact, drained, lag, zone_rate};
use crate::view::columns::{Column, Table, Value, table};
use crate::view::datacenters::{Datacenter, Membership, datacenters, label_of};
use crate::view::judgement::{About, Judgement, Note};
use crate::view::outward::newest;
use crate::view::report::Report;
use crate::view::zones::{Line, columns};
use askama::Template;
use std::cmp::Reverse;
use wire::name::Name;

/// Datacenters in the list, and regions of one.
const LISTED: usize = 200;

/// The page of all datacenters.
#[derive(Template)]
#[template(path = "datacenters.html")]
pub struct DatacenterList {
    shell: Shell,
    picture: Cell,
    title: String,
    list: Table,
}

/// The page of one.
#[derive(Template)]
#[template(path = "datacenter.html")]
pub struct DatacenterPage {
    shell: Shell,
    label: String,
    mark: Mark,
    orders: Vec<(Mark, String)>,
    facts: Vec<Fact>,
    zones: Table,
    regions_title: String,
    regions: Table,
    hidden_regions: usize,
    notes: Vec<Note>,
}

impl DatacenterList {
    /// Lists all datacenters, the ones with trouble first where there are many.
    pub fn new(shell: Shell, report: &Report) -> DatacenterList {
        let mut found = datacenters(report);
        let title = count(found.len(), "datacenter", "datacenters");
        let shown = if found.len() > LISTED {
            found.sort_by_key(|(_, center)| Reverse(center.mark().grade));
            found.truncate(LISTED);
            format!("{title}, the first {LISTED} of them")
        } else {
            title
        };
        let columns: [Column<(String, Datacenter<'_>)>; 6] = [
            Column::page("Datacenter", "", |(label, _)| {
                Value::Html(Cell(format!("<a href=\"/datacenter/{}\">{}</a>", encode(label), Cell::text(label))))
            }),
            Column::page("State", "", |(_, center)| Value::Mark(center.mark())),
            Column::page("Zones", "number", |(_, center)| Value::Number(center.zones.len() as u64)),
            Column::page("Regions", "number", |(_, center)| Value::Number(center.memberships.len() as u64)),
            Column::page("Records", "number", |(_, center)| Value::Number(records(center))),
            Column::page("Refreshed", "wide", |(_, center)| {
                Value::Ago(center.zones.iter().filter_map(|zone| zone.kept.refreshed_seconds_ago).max())
            }),
        ];
        let list = table(&columns, found, shell.now);
        DatacenterList { picture: picture(report, &shell.server, None), title: shown, list, shell }
    }
}

impl DatacenterPage {
    /// Builds the page; none if there is no such datacenter.
    pub fn new(shell: Shell, report: &Report, label: &str) -> Option<DatacenterPage> {
        let (_, center) = datacenters(report).into_iter().find(|(own, _)| own == label)?;
        let now = shell.now;
        let is_own = |zone: &Name| label_of(zone) == label;
        let memberships = &center.memberships;
        let facts = vec![
            Fact::new("zones", center.zones.len()),
            Fact::new("regions", memberships.len()),
            Fact::new("records", number(records(&center))),
            Fact::new(
                "newest serial",
                super::parts::serial(newest(center.zones.iter().filter_map(|zone| zone.kept.serial))),
            ),
        ];
        let drains = report.drains.iter().filter(|drain| is_own(&drain.target.member));
        let about_own = |note: &Note| matches!(&note.about, About::Zone(zone) if is_own(zone));
        let regions: [Column<(&Report, Membership<'_>)>; 7] = [
            Column::page("Region", "", |(_, one)| Value::Name(one.region.kept.region.clone())),
            Column::page("Member", "", |(_, one)| Value::Html(zone_link(&one.member.zone))),
            Column::page("State in it", "", |(_, one)| Value::Mark(one.mark())),
            Column::page("Serial", "number", |(_, one)| Value::Serial(one.member.serial)),
            Column::page("Lag", "", |(_, one)| {
                let there = one.zone.and_then(|zone| zone.newest_at_primary());
                Value::Html(lag(one.member.serial, there, one.zone.is_none_or(|zone| zone.is_heard())))
            }),
            Column::page("Region's records", "number wide", |(_, one)| Value::Number(one.region.kept.records)),
            Column::page("Region's queries/s", "number wide", |(report, one)| {
                Value::Html(zone_rate(report, &one.region.kept.region))
            }),
        ];
        let zones: Vec<Line<'_>> = center.zones.iter().map(|zone| Line::new(report, zone)).collect();
        Some(DatacenterPage {
            mark: center.mark(),
            orders: drains.map(drained).collect(),
            facts,
            zones: table(&columns(), zones, now),
            regions_title: format!("Member of {}", count(memberships.len(), "region", "regions")),
            regions: table(&regions, memberships.iter().take(LISTED).map(|one| (report, *one)), now),
            hidden_regions: memberships.len().saturating_sub(LISTED),
            notes: Judgement::of(report).notes.into_iter().filter(about_own).collect(),
            label: label.to_owned(),
            shell,
        })
    }
}

/// Records of all zones of a datacenter.
fn records(center: &Datacenter<'_>) -> u64 {
    center.zones.iter().map(|zone| zone.kept.records).sum()
}
