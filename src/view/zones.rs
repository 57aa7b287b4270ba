//! Regions, zones and the catalog as lines of one table: the columns of `status` and of the overview.
//!
//! Cost: O(transfers that are remembered) a zone.

use super::columns::{Column, Value};
use super::page::parts::Mark;
use super::page::rows::{transfer_bars, zone_mark, zone_rate};
use super::remarks::{region_remarks, remarks, zone_remarks};
use super::report::{CatalogReport, RegionReport, Report, ZoneReport};
use crate::publish::State;
use wire::name::Name;
use wire::serial::Serial;

/// A zone of any kind, with the report that it is part of.
pub struct Line<'r> {
    pub report: &'r Report,
    pub of: Kind<'r>,
}

/// A zone by its kind.
pub enum Kind<'r> {
    Region(&'r RegionReport),
    Zone(&'r ZoneReport),
    Catalog(&'r CatalogReport),
}

/// The columns of zones. One that is added here is in `status` and on the overview.
pub fn columns<'r>() -> [Column<Line<'r>>; 11] {
    [
        Column::both("Zone", "", |line| Value::Name(line.name().clone())),
        Column::text("State", |line| Value::Text(line.state().label().to_owned())),
        Column::page("State", "", |line| Value::Mark(line.mark())),
        Column::both("Serial", "number", |line| Value::Serial(line.serial())),
        Column::both("Records", "number", |line| Value::Number(line.records())),
        Column::page("Queries/s", "number wide", |line| Value::Html(zone_rate(line.report, line.name()))),
        Column::both("Refreshed", "wide", |line| line.of_zone(|zone| Value::Ago(zone.kept.refreshed_seconds_ago))),
        Column::both("Expires", "wide", |line| line.of_zone(|zone| Value::Ahead(zone.kept.expires_in_seconds))),
        Column::page("Transfers", "wide", |line| line.of_zone(|zone| Value::Html(transfer_bars(zone)))),
        Column::text("Remarks", |line| Value::Text(line.remarks())),
        Column::remark("Remarks", "wide", |line| line.of_zone(|zone| Value::Text(remarks(zone)))),
    ]
}

/// All lines of a report: regions, zones, the catalog.
pub fn lines(report: &Report) -> Vec<Line<'_>> {
    let regions = report.regions.iter().map(Kind::Region);
    let zones = report.zones.iter().map(Kind::Zone);
    let catalog = report.catalog.iter().map(Kind::Catalog);
    regions.chain(zones).chain(catalog).map(|of| Line { report, of }).collect()
}

impl<'r> Line<'r> {
    pub fn name(&self) -> &'r Name {
        match self.of {
            Kind::Region(region) => &region.kept.region,
            Kind::Zone(zone) => &zone.kept.zone,
            Kind::Catalog(catalog) => &catalog.zone,
        }
    }

    fn state(&self) -> State {
        match self.of {
            Kind::Region(region) => region.kept.state,
            Kind::Zone(zone) => zone.kept.state,
            Kind::Catalog(_) => State::Ok,
        }
    }

    /// The state, and whether it will stay so.
    pub fn mark(&self) -> Mark {
        match self.of {
            Kind::Zone(zone) => zone_mark(zone),
            Kind::Region(_) | Kind::Catalog(_) => Mark::of_state(self.state()),
        }
    }

    fn serial(&self) -> Option<Serial> {
        match self.of {
            Kind::Region(region) => region.kept.serial,
            Kind::Zone(zone) => zone.kept.serial,
            Kind::Catalog(catalog) => catalog.serial,
        }
    }

    fn records(&self) -> u64 {
        match self.of {
            Kind::Region(region) => region.kept.records,
            Kind::Zone(zone) => zone.kept.records,
            Kind::Catalog(catalog) => catalog.records,
        }
    }

    fn remarks(&self) -> String {
        match self.of {
            Kind::Region(region) => region_remarks(self.report, region),
            Kind::Zone(zone) => zone_remarks(self.report, zone),
            Kind::Catalog(_) => "catalog".to_owned(),
        }
    }

    /// A value that only source zones have.
    fn of_zone(&self, value: impl Fn(&ZoneReport) -> Value) -> Value {
        match self.of {
            Kind::Zone(zone) => value(zone),
            Kind::Region(_) | Kind::Catalog(_) => Value::empty(),
        }
    }
}
