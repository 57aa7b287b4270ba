//! `/api/v1/`: what the pages show, as JSON. `openapi.json` describes it, and a test compares both.
//!
//! Cost: as the pages.

use super::zone::Timers;
use super::{Page, Refused, compare};
use crate::daemon::history::list_versions;
use crate::daemon::sources::SourceStatus;
use crate::daemon::status::Report;
use crate::name::Name;
use crate::publish::Served;
use crate::serve::http::Content;
use serde::Serialize;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::sync::Arc;

/// What describes the API (OpenAPI 3.1).
const DESCRIPTION: &str = include_str!("openapi.json");
/// Versions of a history unless more are asked for.
const VERSIONS: usize = 100;
/// What programs in browsers may do with it.
const FIELDS: &[(&str, &str)] = &[("cross-origin-resource-policy", "same-origin")];

impl Page {
    /// Answers a program.
    pub(super) async fn api(&self, path: &[&str], query: &HashMap<String, String>) -> Content {
        if path == ["openapi.json"] {
            return whole(200, DESCRIPTION.to_owned());
        }
        match self.answer(path, query).await {
            Ok(value) => whole(200, value.to_string()),
            Err((status, error)) => whole(status, json!({ "error": error }).to_string()),
        }
    }

    /// What there is at a path of the API.
    async fn answer(&self, path: &[&str], query: &HashMap<String, String>) -> Result<Value, Refused> {
        let stopping = || (503, "the server is stopping".to_owned());
        match path {
            ["status"] => Ok(json!(self.report().await.ok_or_else(stopping)?)),
            ["queries"] => Ok(json!(self.rates.read())),
            ["zones"] => Ok(self.list_zones()),
            ["zones", zone] => {
                let published = self.publisher.load();
                let name = self.served(zone)?.origin.clone();
                let report = self.report().await.ok_or_else(stopping)?;
                let served = published.get(&name).ok_or_else(|| unknown(zone))?;
                Ok(json!(Detail::new(&report, served).ok_or_else(|| unknown(zone))?))
            }
            ["zones", zone, "history"] => {
                let limit = match query.get("limit") {
                    Some(text) => text.parse().map_err(|_| (400, "\"limit\" is no number".to_owned()))?,
                    None => VERSIONS,
                };
                Ok(json!(list_versions(&*self.served(zone)?, limit)))
            }
            ["zones", zone, "diff"] => {
                let served = self.served(zone)?;
                compare(&served, query).map(|changes| changes.to_json())
            }
            ["lookup"] => {
                let text = |key: &str| query.get(key).map(|text| text.trim().to_owned()).unwrap_or_default();
                let (name, rtype) = (text("name"), text("type"));
                if name.is_empty() {
                    return Err((400, "\"name\" is missing".to_owned()));
                }
                let explained = self.lookup(name, rtype).await.ok_or_else(stopping)?;
                explained.map(|lookup| json!(lookup)).map_err(|error| (400, error))
            }
            _ => Err((404, "there is no such path; /api/v1/openapi.json lists them all".to_owned())),
        }
    }

    /// A zone as it is published.
    fn served(&self, zone: &str) -> Result<Arc<Served>, Refused> {
        let name = Name::parse(zone).map_err(|error| (400, format!("no zone name: {error}")))?;
        self.publisher.load().get(&name).cloned().ok_or_else(|| unknown(zone))
    }

    /// Everything that is served, in canonical order of names.
    fn list_zones(&self) -> Value {
        let published = self.publisher.load();
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

/// Everything about one zone.
#[derive(Serialize)]
struct Detail<'r> {
    zone: &'r Name,
    /// `zone`, `region` or `catalog`.
    kind: &'static str,
    /// As `aggregator status ZONE --json` has it.
    status: Value,
    /// None before the first transfer.
    timers: Option<Timers>,
    /// The last ones, oldest first.
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

/// That there is no such zone.
fn unknown(zone: &str) -> Refused {
    (404, format!("zone {zone} is not configured"))
}

/// A response of JSON.
fn whole(status: u16, body: String) -> Content {
    Content::Whole { status, media_type: "application/json", fields: FIELDS, body }
}
