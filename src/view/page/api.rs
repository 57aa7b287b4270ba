//! `/api/v1/`: what the pages show, as JSON. `openapi.json` describes it, and a test compares both.
//!
//! Cost: as the pages.

use super::{Page, Refused, in_thread, number_of};
use crate::publish::Served;
use crate::serve::http::Content;
use crate::view::history::list_versions;
use crate::view::report::{Report, ZoneReport};
use crate::zone::Soa;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::sync::Arc;

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
            ["status"] => {
                let view = self.view.clone();
                in_thread(move || json!(Report::collect(&view, None))).await
            }
            ["queries"] => Ok(json!(self.view.rates.read())),
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

/// Describes one zone: its status as `aggregator status ZONE --json` has it, the timers of its SOA, none before the first
/// transfer, and its last transfers, oldest first.
fn describe_zone(report: &Report, served: &Served) -> Option<Value> {
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
    let transfers = zone.and_then(ZoneReport::transfers).map_or(json!([]), |source| json!(source.transfers));
    let timers = served.zone.as_ref().map(|zone| {
        let Soa { refresh, retry, expire, minimum, .. } = zone.soa;
        json!({ "refresh": refresh, "retry": retry, "expire": expire, "minimum": minimum })
    });
    Some(json!({ "zone": name, "kind": kind, "status": status, "timers": timers, "transfers": transfers }))
}

/// Returns the error response with this status code and reason.
pub fn failure(status: u16, why: &str) -> Content {
    whole(status, json!({ "error": why }).to_string())
}

/// A response of JSON.
fn whole(status: u16, body: String) -> Content {
    Content::Whole { status, media_type: "application/json", fields: FIELDS, body }
}
