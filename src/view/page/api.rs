//! `/api/v1/`: what the pages show, as JSON. `openapi` describes it, and a test compares both.
//!
//! Cost: as the pages.

use super::{Page, Refused, in_thread, number_of, text_of};
use crate::keeper::{DrainStatus, PinStatus};
use crate::publish::{Served, State};
use crate::serve::http::Content;
use crate::transfer::TransferNote;
use crate::view::history::list_versions;
use crate::view::judgement::Judged;
use crate::view::rates::Range;
use crate::view::report::{CatalogReport, RegionReport, Report, ZoneReport};
use crate::zone::Soa;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::sync::Arc;
use wire::name::Name;
use wire::serial::Serial;

/// Versions of a history unless more are asked for.
pub const VERSIONS: usize = 100;
/// Changes of a difference unless more are asked for, and at most.
pub const CHANGES: (usize, usize) = (10_000, 100_000);
/// Accounts, services and instances of an inventory, each, unless more are asked for, and at most.
pub const INSTANCES: (usize, usize) = (100, 10_000);
/// Error text: there is nothing at the path.
pub const NO_PATH: &str = "there is no such path; /api/v1/openapi.json lists them all";
/// Header fields that keep the scripts of other sites from reading the API.
const FIELDS: &[(&str, &str)] = &[("cross-origin-resource-policy", "same-origin")];

/// Everything that is served.
#[derive(Serialize, JsonSchema)]
pub struct Zones {
    generation: u64,
    zones: Vec<ZoneLine>,
}

/// A zone, region or catalog in brief.
#[derive(Serialize, JsonSchema)]
struct ZoneLine {
    zone: Name,
    state: State,
    serial: Option<Serial>,
    records: u64,
}

/// Everything about one zone, region or catalog.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Detail")]
pub struct ZoneDetail<'r> {
    zone: &'r Name,
    #[schemars(extend("enum" = ["zone", "region", "catalog"]))]
    kind: &'static str,
    status: Described<'r>,
    /// None before the first transfer.
    timers: Option<Timers>,
    /// The last ones from primaries, oldest first.
    transfers: Vec<&'r TransferNote>,
}

/// The report on a zone, region or catalog, as `aggregator status ZONE --json` has it.
#[derive(Serialize, JsonSchema)]
#[serde(untagged)]
#[schemars(inline)]
enum Described<'r> {
    Zone(&'r ZoneReport),
    Region(&'r RegionReport),
    Catalog(&'r CatalogReport),
}

/// Timers of the SOA, in seconds.
#[derive(Serialize, JsonSchema)]
struct Timers {
    refresh: u32,
    retry: u32,
    expire: u32,
    minimum: u32,
}

/// All drains in force.
#[derive(Serialize, JsonSchema)]
pub struct Drains {
    pub drains: Vec<DrainStatus>,
}

/// A region that is pinned.
#[derive(Serialize, JsonSchema)]
pub struct RegionPin {
    pub region: Name,
    #[serde(flatten)]
    pin: PinStatus,
}

impl RegionPin {
    /// Tells of the pin of a region.
    pub fn new(region: Name, pin: PinStatus) -> RegionPin {
        RegionPin { region, pin }
    }
}

/// All regions that are pinned.
#[derive(Serialize, JsonSchema)]
pub struct Pins {
    pub pins: Vec<RegionPin>,
}

/// Why there is no answer.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Error")]
pub struct Failure<'a> {
    error: &'a str,
}

impl Page {
    /// Answers a program.
    pub(super) async fn api(&self, path: &[&str], query: &HashMap<String, String>) -> Content {
        match self.answer(path, query).await {
            Ok(value) => whole(200, value.to_string()),
            Err((status, why)) => failure(status, &why),
        }
    }

    /// Returns the value at a path of the API.
    async fn answer(&self, path: &[&str], query: &HashMap<String, String>) -> Result<Value, Refused> {
        match path {
            ["status"] => {
                let view = self.view.clone();
                in_thread(move || json!(Judged::collect(&view, None))).await
            }
            ["queries"] => Ok(json!(self.view.rates.read(range_of(query)?))),
            ["zones"] => Ok(self.list_zones()),
            ["zones", zone] => {
                let (view, served) = (self.view.clone(), self.served(zone)?);
                let described = in_thread(move || describe_zone(&Report::collect(&view, None), &served)).await?;
                described.ok_or_else(|| (404, "the zone has just gone".to_owned()))
            }
            ["zones", zone, "history"] => {
                let (served, limit) = (self.served(zone)?, number_of(query, "limit")?);
                Ok(json!(self.compute(move || list_versions(&served, limit.unwrap_or(VERSIONS))).await?))
            }
            ["zones", zone, "diff"] => {
                let (usual, most) = CHANGES;
                let limit = number_of(query, "limit")?.map_or(usual, |limit: usize| limit.min(most));
                Ok(self.compare(self.served(zone)?, query).await?.to_json_first(limit))
            }
            ["zones", zone, "instances"] => {
                let (usual, most) = INSTANCES;
                let limit = number_of(query, "limit")?.map_or(usual, |limit: usize| limit.min(most));
                Ok(json!(self.survey(&*self.served(zone)?, text_of(query, "name"), limit).await?))
            }
            ["lookup"] => {
                if !query.contains_key("name") {
                    return Err((400, "\"name\" is missing".to_owned()));
                }
                Ok(json!(self.lookup(query).await?))
            }
            _ => Err((404, NO_PATH.to_owned())),
        }
    }

    /// Lists all zones and regions served, in canonical order of names.
    fn list_zones(&self) -> Value {
        let published = self.view.publisher.load();
        let mut served: Vec<_> = published.iter().collect();
        served.sort_by(|a, b| a.origin.canonical_cmp(&b.origin));
        let describe = |served: &&Arc<Served>| {
            let zone = served.zone.as_ref();
            ZoneLine {
                zone: served.origin.clone(),
                state: served.state,
                serial: zone.map(|zone| zone.soa.serial),
                records: zone.map_or(0, |zone| zone.records),
            }
        };
        json!(Zones { generation: published.generation, zones: served.iter().map(describe).collect() })
    }
}

/// The range of time that a query asks for.
fn range_of(query: &HashMap<String, String>) -> Result<Range, Refused> {
    match text_of(query, "range") {
        "" => Ok(Range::default()),
        text => text.parse().map_err(|_| (400, "\"range\" is minutes, hour or day".to_owned())),
    }
}

/// Describes one zone.
fn describe_zone(report: &Report, served: &Served) -> Option<Value> {
    let name = &served.origin;
    let region = report.regions.iter().find(|region| region.kept.region == *name);
    let zone = report.zones.iter().find(|zone| zone.kept.zone == *name);
    let catalog = report.catalog.as_ref().filter(|catalog| catalog.zone == *name);
    let (kind, status) = match (region, zone, catalog) {
        (Some(region), ..) => ("region", Described::Region(region)),
        (_, Some(zone), _) => ("zone", Described::Zone(zone)),
        (.., Some(catalog)) => ("catalog", Described::Catalog(catalog)),
        _ => return None,
    };
    let transfers = zone.and_then(ZoneReport::transfers).into_iter().flat_map(|source| &source.transfers).collect();
    let timers = served.zone.as_ref().map(|zone| {
        let Soa { refresh, retry, expire, minimum, .. } = zone.soa;
        Timers { refresh, retry, expire, minimum }
    });
    Some(json!(ZoneDetail { zone: name, kind, status, timers, transfers }))
}

/// Returns the error response with this status code and reason.
pub fn failure(status: u16, why: &str) -> Content {
    whole(status, json!(Failure { error: why }).to_string())
}

/// A response of JSON.
pub fn whole(status: u16, body: String) -> Content {
    Content::Whole { status, media_type: "application/json", fields: FIELDS, body }
}
