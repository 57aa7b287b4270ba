//! What `check` says of addresses in regions, as far as a running server knows: whether nobody can tell apart the
//! private addresses of several members, and whether clients get past the rules of a region.
//!
//! What the file has changed counts: rules that it has and the server has not yet are taken to be the remedy.
//!
//! Cost: one question to the server.

use super::block_on;
use crate::config::Config;
use crate::control::{self, Request};
use crate::view::facts::{describe_alike, describe_unfiltered};
use serde_json::Value;
use std::time::Duration;
use tokio::time::timeout;

/// Longest wait for a server, which may hang.
const PATIENCE: Duration = Duration::from_secs(5);

/// Warnings of addresses of the running server; none from one that does not answer, or is too old to tell.
pub fn find_doubtful_addresses(config: &Config) -> Vec<String> {
    let request = Request::Status { zone: None };
    let reply = block_on(async { timeout(PATIENCE, control::call(&config.control.socket, &request)).await });
    let Ok(Ok(Ok(reply))) = reply else { return Vec::new() };
    let regions = reply.data["regions"].as_array().map(Vec::as_slice).unwrap_or_default();
    regions.iter().flat_map(|region| judge(config, region)).collect()
}

/// Warnings of one region, as the server describes it.
fn judge(config: &Config, told: &Value) -> Vec<String> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let name = text(&told["region"]);
    let Some(region) = config.regions.iter().find(|region| region.origin.to_string() == name) else {
        return Vec::new();
    };
    let (alike, unfiltered) = (&told["alike_addresses"], &told["unfiltered"]);
    let alike = alike["names"].as_u64().filter(|_| region.addresses.is_empty());
    let alike = alike.map(|names| describe_alike(names, text(&told["alike_addresses"]["example"])));
    let is_past = unfiltered.is_object() && !region.addresses.is_empty();
    let past = is_past.then(|| {
        let [name, target, zone] = ["name", "target", "zone"].map(|key| text(&unfiltered[key]));
        describe_unfiltered(name, target, zone)
    });
    alike.into_iter().chain(past).map(|warning| format!("region {name}: {warning}")).collect()
}
