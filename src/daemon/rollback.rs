//! The verb `rollback`, which takes a region back to the contents of an earlier version, and releases it again.
//!
//! What would change is told first, as a difference: to the version that the history has, or to what was merged behind
//! the pin. Orders wait for each other, and for those about drains; none waits for the disk on which another one is
//! written.
//!
//! Cost: O(changes between the versions), and O(names that differ) to release.

use super::drain::warn_of_loss;
use crate::control::Reply;
use crate::keeper::{self, PinOrder, PinStatus, RegionSnapshot, Snapshot};
use crate::merge::Pin;
use crate::metrics::unix_seconds;
use crate::publish::Served;
use crate::state::Store;
use crate::view::diff::{self, Changes};
use crate::view::status::describe_pin;
use serde_json::{Value, json};
use std::fmt::Write;
use std::sync::Arc;
use tokio::sync::{MutexGuard, oneshot};
use wire::name::Name;
use wire::serial::Serial;

/// Largest number of records that a preview lists; the total is always given.
const LISTED_RECORDS: usize = 200;

/// An order as it comes from an operator.
pub struct RollbackOrder {
    pub zone: String,
    pub to: Serial,
    pub reason: Option<String>,
    /// True to show the effect without changing anything.
    pub preview: bool,
}

/// Handles that orders need.
pub struct Ways {
    pub keeper: keeper::KeeperHandle,
    pub store: Option<Arc<Store>>,
}

impl Ways {
    /// Takes a region back to an earlier version, or tells what that would do.
    pub async fn pin(&self, order: RollbackOrder, turn: MutexGuard<'_, ()>) -> Result<Reply, String> {
        let RollbackOrder { zone, to, reason, preview } = order;
        let view = self.keeper.look(!preview).await;
        let name = Name::parse(&zone).map_err(|error| format!("no zone name: {error}"))?;
        let region = find_region(&view, &name)?;
        let drains = describe_behind(region);
        let compare = move || compare_with_version(&view, &name, to).map(|changes| (name, changes));
        let compared = tokio::task::spawn_blocking(compare).await.map_err(|error| error.to_string())?;
        let (name, changes) = compared?;
        let mut text = format!("{name} back to the contents of version {to}, under a new serial, until released\n");
        text.push_str(&drains);
        list(&changes, &mut text);
        let mut data = json!({ "changes": changes.to_json(), "done": false });
        if !preview {
            let (sender, done) = oneshot::channel();
            let order = PinOrder { region: name.clone(), to, reason };
            let _ = self.keeper.commands.send(keeper::Command::Pin(Box::new(order), sender)).await;
            let pin = done.await.map_err(|_| "the server is stopping".to_owned())?;
            let pin = pin.map_err(|error| error.to_string())?;
            drop(turn);
            let persistent = self.settle().await;
            data = describe_done(&pin, &changes, persistent);
            let serial = pin.serial;
            let pin = describe_pin(&PinStatus::new(&pin));
            _ = writeln!(text, "{pin}, published as {serial}; \"aggregator rollback {zone} --release\" ends it");
            text.push_str(warn_of_loss(persistent));
        }
        Ok(Reply { ok: true, text, data })
    }

    /// Lets a region follow its members again, or tells what that would do.
    pub async fn release(&self, zone: &str, preview: bool, turn: MutexGuard<'_, ()>) -> Result<Reply, String> {
        let view = self.keeper.look(!preview).await;
        let name = Name::parse(zone).map_err(|error| format!("no zone name: {error}"))?;
        let region = find_region(&view, &name)?;
        let pin = region.pin.clone().ok_or_else(|| format!("region {name} is not pinned"))?;
        let described = describe_pin(&PinStatus::new(&pin));
        let mut text = format!("{name} as its members have it, no longer {described}\n");
        let served = view.published.get(&name).and_then(|served| served.zone.clone());
        let (Some(served), Some(merged)) = (served, region.merged.clone()) else {
            text.push_str("no member has valid data: it will not be served\n");
            return self.finish(pin, turn, preview, None, text).await;
        };
        let compare = move || diff::compare_zones(&served, &merged);
        let changes = tokio::task::spawn_blocking(compare).await.map_err(|error| error.to_string())?;
        list(&changes, &mut text);
        self.finish(pin, turn, preview, Some(changes), text).await
    }

    /// Ends a pin, unless only a preview is wanted.
    async fn finish(
        &self,
        pin: Pin,
        turn: MutexGuard<'_, ()>,
        preview: bool,
        changes: Option<Changes>,
        mut text: String,
    ) -> Result<Reply, String> {
        let changes = changes.map_or(Value::Null, |changes| changes.to_json());
        if preview {
            return Ok(Reply { ok: true, text, data: json!({ "changes": changes, "done": false }) });
        }
        let (sender, done) = oneshot::channel();
        let _ = self.keeper.commands.send(keeper::Command::Release(pin.region.clone(), sender)).await;
        let released = done.await.map_err(|_| "the server is stopping".to_owned())?;
        released.map_err(|error| error.to_string())?;
        drop(turn);
        let persistent = self.settle().await;
        text.push_str("released\n");
        text.push_str(warn_of_loss(persistent));
        Ok(Reply { ok: true, text, data: json!({ "changes": changes, "done": true, "persistent": persistent }) })
    }

    /// Waits until everything is on disk; false if a restart would forget some of it.
    async fn settle(&self) -> bool {
        let Some(store) = self.store.clone() else { return false };
        tokio::task::spawn_blocking(move || store.flush_all()).await.unwrap_or(false)
    }
}

/// The region that is meant, or why it cannot be.
fn find_region<'v>(view: &'v Snapshot, name: &Name) -> Result<&'v RegionSnapshot, String> {
    if let Some(region) = view.regions.get(name) {
        return Ok(region);
    }
    if !view.sources.contains_key(name) {
        return match view.published.get(name) {
            Some(_) => {
                Err(format!("{name} is the catalog, which lists what is served; only regions can be rolled back"))
            }
            None => Err(format!("zone {name} is not configured; see \"aggregator status\"")),
        };
    }
    let has = |region: &&RegionSnapshot| region.plan.members.contains(name);
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

/// Describes the present pin of a region; empty if it has none.
fn describe_behind(region: &RegionSnapshot) -> String {
    let describe = |pin: &Pin| format!("it is {}\n", describe_pin(&PinStatus::new(pin)));
    region.pin.as_ref().map(describe).unwrap_or_default()
}

/// Compares the present version with an earlier one.
fn compare_with_version(view: &Snapshot, name: &Name, to: Serial) -> Result<Changes, String> {
    let served: &Served =
        view.published.get(name).ok_or_else(|| format!("zone {name} is not configured; see \"aggregator status\""))?;
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

/// Describes a finished rollback as JSON.
fn describe_done(pin: &Pin, changes: &Changes, persistent: bool) -> Value {
    json!({
        "changes": changes.to_json(), "done": true, "persistent": persistent, "to": pin.to, "serial": pin.serial,
        "since": unix_seconds(pin.since), "reason": pin.reason,
    })
}
