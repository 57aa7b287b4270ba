//! `/api/v1/`: what the pages show, as JSON. `openapi.json` describes it, and a test compares both.
//!
//! Cost: as the pages.

use super::zone::Timers;
use super::{Page, Refused, number_of};
use crate::daemon::sources::SourceStatus;
use crate::publish::Served;
use crate::serve::http::Content;
use crate::view::history::list_versions;
use crate::view::report::Report;
use serde::Serialize;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::sync::Arc;
use wire::name::Name;

/// Description of the API (OpenAPI 3.1).
const DESCRIPTION: &str = include_str!("openapi.json");
/// Versions of a history unless more are asked for.
const VERSIONS: usize = 100;
/// Changes of a difference unless more are asked for, and at most.
const CHANGES: (usize, usize) = (10_000, 100_000);
/// Error text: there is nothing at the path.
pub const NO_PATH: &str = "there is no such path; /api/v1/openapi.json lists them all";
/// Header fields that keep the scripts of other sites from reading the API.
const FIELDS: &[(&str, &str)] = &[("cross-origin-resource-policy", "same-origin")];

impl Page {
    /// Answers a program.
    pub(super) async fn api(&self, path: &[&str], query: &HashMap<String, String>) -> Content {
        if path == ["openapi.json"] {
            return whole(200, DESCRIPTION.to_owned());
        }
        match self.answer(path, query).await {
            Ok(value) => whole(200, value.to_string()),
            Err((status, why)) => failure(status, &why),
        }
    }

    /// Returns the value at a path of the API.
    async fn answer(&self, path: &[&str], query: &HashMap<String, String>) -> Result<Value, Refused> {
        match path {
            ["status"] => Ok(json!(self.report())),
            ["queries"] => Ok(json!(self.view.rates.read())),
            ["zones"] => Ok(self.list_zones()),
            ["zones", zone] => {
                let served = self.served(zone)?;
                let report = self.report();
                let gone = || (404, "the zone has just gone".to_owned());
                Ok(json!(Detail::new(&report, &served).ok_or_else(gone)?))
            }
            ["zones", zone, "history"] => {
                let (served, limit) = (self.served(zone)?, number_of(query, "limit")?);
                Ok(json!(self.compute(move || list_versions(&served, limit.unwrap_or(VERSIONS))).await?))
            }
            ["zones", zone, "diff"] => {
                let (usual, most) = CHANGES;
                let limit = number_of(query, "limit")?.map_or(usual, |limit: usize| limit.min(most));
                let compared = self.compare(self.served(zone)?, query, limit).await?;
                Ok(compared.changes.to_json_first(limit))
            }
            ["lookup"] => {
                let name = query.get("name").ok_or_else(|| (400, "\"name\" is missing".to_owned()))?;
                let rtype = query.get("type").cloned().unwrap_or_default();
                Ok(json!(self.lookup(name.trim().to_owned(), rtype.trim().to_owned()).await?))
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
            json!({
                "zone": served.origin,
                "state": served.state,
                "serial": zone.map(|zone| zone.soa.serial),
                "records": zone.map_or(0, |zone| zone.records),
            })
        };
        json!({ "generation": published.generation, "zones": served.iter().map(describe).collect::<Vec<_>>() })
    }
}

/// Details of one zone.
#[derive(Serialize)]
struct Detail<'r> {
    zone: &'r Name,
    /// `zone`, `region` or `catalog`.
    kind: &'static str,
    /// Status, as `aggregator status ZONE --json` has it.
    status: Value,
    /// Timers of the SOA; none before the first transfer.
    timers: Option<Timers>,
    /// Last transfers, oldest first.
    transfers: Value,
}

impl<'r> Detail<'r> {
    /// Finds a zone in a report.
    fn new(report: &Report, served: &'r Served) -> Option<Detail<'r>> {
        let name = &served.origin;
        let region = report.regions.iter().find(|region| region.kept.region == *name);
        let zone = report.zones.iter().find(|zone| zone.kept.zone == *name);
        let catalog = report.catalog.as_ref().filter(|catalog| catalog.zone == *name);
        let (kind, status) = match (region, zone, catalog) {
            (Some(region), ..) => ("region", json!(region)),
            (_, Some(zone), _) => ("zone", json!(zone)),
            (.., Some(catalog)) => ("catalog", json!(catalog)),
            _ => return None,
        };
        let transfers = match zone.and_then(|zone| zone.source.as_ref()) {
            Some(SourceStatus::Primaries(source)) => json!(source.transfers),
            _ => json!([]),
        };
        let timers = served.zone.as_ref().map(|zone| Timers::of(&zone.soa));
        Some(Detail { zone: name, kind, status, timers, transfers })
    }
}

/// Returns the error response with this status code and reason.
pub fn failure(status: u16, why: &str) -> Content {
    whole(status, json!({ "error": why }).to_string())
}

/// A response of JSON.
fn whole(status: u16, body: String) -> Content {
    Content::Whole { status, media_type: "application/json", fields: FIELDS, body }
}
