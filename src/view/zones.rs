//! Regions, zones and the catalog as lines of one table: the columns of `status` and of the overview.
//!
//! Cost: O(transfers that are remembered) a zone.

use super::columns::{Column, Value};
use super::page::parts::Cell;
use super::page::rows::{transfer_bars, zone_mark, zone_rate};
use super::remarks::{region_remarks, remarks, zone_remarks};
use super::report::{CatalogReport, RegionReport, Report, ZoneReport};
use crate::publish::State;
use wire::name::Name;
use wire::serial::Serial;

/// A zone of any kind, with the report that it is part of.
pub struct Line<'r> {
    pub name: &'r Name,
    report: &'r Report,
    state: State,
    pub serial: Option<Serial>,
    pub records: u64,
    pub remarks: String,
    /// Itself, if it is a source zone.
    zone: Option<&'r ZoneReport>,
}

/// The columns of zones. One that is added here is in `status` and on the overview, which has source zones alone.
pub fn columns<'r>() -> [Column<Line<'r>>; 11] {
    [
        Column::both("Zone", "", |line| Value::Name(line.name.clone())),
        Column::text("State", |line| Value::Text(line.state.label().to_owned())),
        Column::page("State", "", |line| line.of_zone(|zone| Value::Mark(zone_mark(zone)))),
        Column::both("Serial", "number", |line| Value::Serial(line.serial)),
        Column::both("Records", "number", |line| Value::Number(line.records)),
        Column::page("Queries/s", "number wide", |line| Value::Html(line.rate())),
        Column::both("Refreshed", "wide", |line| line.of_zone(|zone| Value::Ago(zone.kept.refreshed_seconds_ago))),
        Column::both("Expires", "wide", |line| line.of_zone(|zone| Value::Ahead(zone.kept.expires_in_seconds))),
        Column::page("Transfers", "wide", |line| line.of_zone(|zone| Value::Html(transfer_bars(zone)))),
        Column::text("Remarks", |line| Value::Text(line.remarks.clone())),
        Column::remark("Remarks", "wide", |line| line.of_zone(|zone| Value::Text(remarks(zone)))),
    ]
}

/// All lines of a report: regions, zones, the catalog.
pub fn lines(report: &Report) -> Vec<Line<'_>> {
    let regions = report.regions.iter().map(|region| Line::of_region(report, region));
    let zones = report.zones.iter().map(|zone| Line::new(report, zone));
    let catalog = report.catalog.iter().map(|catalog| Line::of_catalog(report, catalog));
    regions.chain(zones).chain(catalog).collect()
}

impl<'r> Line<'r> {
    /// The line of a region.
    pub fn of_region(report: &'r Report, region: &'r RegionReport) -> Line<'r> {
        let (kept, remarks) = (&region.kept, region_remarks(report, region));
        let (state, serial, records) = (kept.state, kept.serial, kept.records);
        Line { report, name: &kept.region, state, serial, records, remarks, zone: None }
    }

    /// The line of a source zone.
    pub fn new(report: &'r Report, zone: &'r ZoneReport) -> Line<'r> {
        let (kept, remarks) = (&zone.kept, zone_remarks(report, zone));
        let (state, serial, records) = (kept.state, kept.serial, kept.records);
        Line { report, name: &kept.zone, state, serial, records, remarks, zone: Some(zone) }
    }

    /// The line of our own catalog.
    pub fn of_catalog(report: &'r Report, catalog: &'r CatalogReport) -> Line<'r> {
        let CatalogReport { zone: name, serial, records, .. } = catalog;
        let (serial, records, remarks) = (*serial, *records, "catalog".to_owned());
        Line { report, name, state: State::Ok, serial, records, remarks, zone: None }
    }

    /// Queries a second that lead to it.
    pub fn rate(&self) -> Cell {
        zone_rate(self.report, self.name)
    }

    /// A value that only source zones have.
    fn of_zone(&self, value: impl Fn(&ZoneReport) -> Value) -> Value {
        self.zone.map_or_else(Value::empty, value)
    }
}
