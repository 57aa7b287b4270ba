//! The verb `rollback`, which takes a region back to the contents of an earlier version, and releases it again.
//!
//! What would change is told first, as a difference: to the version that the history has, or to what was merged behind
//! the pin. Orders wait for each other, and for those about drains; none waits for the disk on which another one is
//! written.
//!
//! Cost: O(changes between the versions), and O(names that differ) to release.

use super::ways::{Ways, warn_of_loss};
use crate::control::{Reply, RollbackOrder};
use crate::keeper::{Command, PinOrder, PinStatus, RegionSnapshot, Snapshot};
use crate::metrics::unix_seconds;
use crate::view::diff::{self, Changes};
use crate::view::facts::describe_pin;
use crate::view::handle::{in_thread, not_configured, read_zone};
use serde_json::{Value, json};
use std::fmt::Write;
use std::sync::Arc;
use tokio::sync::OwnedMutexGuard;
use wire::name::Name;
use wire::serial::Serial;

/// Largest number of records that a preview lists; the total is always given.
const LISTED_RECORDS: usize = 200;

/// Takes a region back to an earlier version, or tells what that would do.
pub async fn pin(ways: Ways, order: RollbackOrder, turn: OwnedMutexGuard<()>) -> Result<Reply, String> {
    let RollbackOrder { zone, to, reason, preview } = order;
    let (view, name, to) = (ways.keeper.look(!preview).await, read_zone(&zone)?, Serial(to));
    let behind = find_region(&view, &name)?.pin.as_ref().map(PinStatus::new);
    let compared = name.clone();
    let changes = in_thread(move || compare_with_version(&view, &compared, to)).await?;
    let mut text = format!("{name} back to the contents of version {to}, under a new serial, until released\n");
    if let Some(pin) = behind {
        _ = writeln!(text, "it is {}", describe_pin(&pin));
    }
    list(&changes, &mut text);
    let changes = changes.to_json();
    let mut data = json!({ "changes": changes, "done": false });
    if !preview {
        let order = PinOrder { region: name, to, reason };
        let pin = ways.order(|done| Command::Pin(Box::new(order), done)).await?.map_err(|error| error.to_string())?;
        drop(turn);
        let persistent = ways.settle().await;
        data = json!({
            "changes": changes, "done": true, "persistent": persistent, "to": pin.to, "serial": pin.serial,
            "since": unix_seconds(pin.since), "reason": pin.reason,
        });
        let (serial, pin) = (pin.serial, describe_pin(&PinStatus::new(&pin)));
        _ = writeln!(text, "{pin}, published as {serial}; \"aggregator rollback {zone} --release\" ends it");
        text.push_str(warn_of_loss(persistent));
    }
    Ok(Reply { ok: true, text, data })
}

/// Lets a region follow its members again, or tells what that would do.
pub async fn release(ways: Ways, zone: String, preview: bool, turn: OwnedMutexGuard<()>) -> Result<Reply, String> {
    let (view, name) = (ways.keeper.look(!preview).await, read_zone(&zone)?);
    let region = find_region(&view, &name)?;
    let pin = region.pin.as_ref().ok_or_else(|| format!("region {name} is not pinned"))?;
    let described = describe_pin(&PinStatus::new(pin));
    let mut text = format!("{name} as its members have it, no longer {described}\n");
    let served = view.published.get(&name).and_then(|served| served.zone.clone());
    let mut changes = Value::Null;
    if let Some((served, merged)) = served.zip(region.merged.clone()) {
        let compared = in_thread(move || Ok(diff::compare_zones(&served, &merged))).await?;
        list(&compared, &mut text);
        changes = compared.to_json();
    } else {
        text.push_str("no member has valid data: it will not be served\n");
    }
    let mut data = json!({ "changes": changes, "done": false });
    if !preview {
        let released = ways.order(|done| Command::Release(name, done)).await?;
        released.map_err(|error| error.to_string())?;
        drop(turn);
        let persistent = ways.settle().await;
        text.push_str("released\n");
        text.push_str(warn_of_loss(persistent));
        data = json!({ "changes": changes, "done": true, "persistent": persistent });
    }
    Ok(Reply { ok: true, text, data })
}

/// The region that is meant, or why it cannot be.
fn find_region<'v>(view: &'v Snapshot, name: &Name) -> Result<&'v RegionSnapshot, String> {
    if let Some(region) = view.regions.get(name) {
        return Ok(region);
    }
    if !view.sources.contains_key(name) {
        return Err(match view.published.get(name) {
            Some(_) => format!("{name} is the catalog, which lists what is served; only regions can be rolled back"),
            None => not_configured(name, view.published.iter().map(|served| &served.origin)),
        });
    }
    let has = |region: &&Arc<RegionSnapshot>| region.plan.members.contains(name);
    let mut regions: Vec<String> =
        view.regions.values().filter(has).map(|region| region.plan.origin.to_string()).collect();
    regions.sort();
    let advice = match regions.is_empty() {
        true => String::new(),
        false => {
            format!("; roll back {}, or take what is wrong out of it with \"aggregator drain\"", regions.join(" and "))
        }
    };
    Err(format!(
        "{name} is what its source says, and would be so again at the next transfer: only regions can be rolled back. Put \
         it right at the source{advice}"
    ))
}

/// Compares the present version with an earlier one.
fn compare_with_version(view: &Snapshot, name: &Name, to: Serial) -> Result<Changes, String> {
    let known = || view.published.iter().map(|served| &served.origin);
    let served = view.published.get(name).ok_or_else(|| not_configured(name, known()))?;
    let present = served.zone.as_ref().map(|zone| zone.soa.serial);
    diff::compare(served, present, Some(to)).map_err(|error| error.to_string())
}

/// Appends a difference, cut where it is long.
fn list(changes: &Changes, text: &mut String) {
    let all: usize = changes.counts().iter().sum();
    text.push_str(&changes.describe_first(LISTED_RECORDS));
    if let more @ 1.. = all.saturating_sub(LISTED_RECORDS) {
        _ = writeln!(text, "and {more} more");
    }
    if all == 0 {
        text.push_str("no record changes\n");
    }
}
