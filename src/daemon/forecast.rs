//! `aggregator reload --dry-run` and `check --against-running`: what a reload would do now, told by the steps of a reload
//! that change nothing.
//!
//! The configuration is read with the files that it names, new addresses are opened and closed, drains are checked, and
//! the plans are compared as a reload compares them. Regions that would be made anew are merged beside the keeper, from
//! what is there at that moment, so that the names and records that would come and go can be counted.
//!
//! Invariants: nothing is published, written or sent; what it lists as changes is what the reload then lists, as long as
//! nobody changes a file in between.
//!
//! Cost: O(configuration), and O(names × members) of regions that would change.

use super::catalogs::{published_listings, put_in_force};
use super::drain::{check_drains, services_first, whole_drains, would_take, write_names};
use super::reload::load_identities;
use super::rights::load_within;
use super::sources::SourcePlan;
use super::ways::Ways;
use crate::config::Config;
use crate::control::Reply;
use crate::keeper::{PlanChanges, Snapshot};
use crate::merge::{Drain, Forecast, Members, RegionPlan};
use crate::view::changes::ReloadChanges;
use crate::view::handle::in_thread;
use serde::Serialize;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;
use wire::name::Name;

/// What would become of a region or zone, as `--json` prints it.
#[derive(Serialize)]
struct ZoneForecast {
    zone: Name,
    /// True if the region is pinned: clients see the effect only after its release.
    pinned: bool,
    /// Members that were not transferred yet, whose records come later.
    waits_for: Vec<Name>,
    #[serde(flatten)]
    forecast: Forecast,
}

/// Tells what a reload would do, with the configuration's own file or another one.
pub async fn forecast(ways: Ways, file: Option<PathBuf>) -> Result<Reply, String> {
    let old = ways.view.config.load_full();
    let path = file.unwrap_or_else(|| old.path.clone());
    let (before, published, sources) = (old.clone(), ways.view.publisher.load(), ways.view.sources.clone());
    let load = move || {
        let written = Arc::new(load_within(&path)?);
        let asked = sources.automatic_zones(&written, &before, true);
        let listings = published_listings(&written, &published);
        let config = put_in_force(&written, &listings, &asked, &before.listed).config;
        let identity = load_identities(&config);
        Ok((config, identity))
    };
    let (config, identity) = in_thread(load).await?;
    {
        // Within the lock, so that a reload finds what was opened here closed again.
        let mut listeners = ways.listeners.lock().await;
        listeners.bind(&config, identity).map(drop).map_err(|errors| errors.join("\n"))?;
    }
    check_drains(&ways.keeper, &config).await?;
    let view = ways.keeper.look(true).await;
    let plan = foresee(&view, &config);
    let mut changes = ReloadChanges::between(&old, &config, plan.clone());
    changes.control = (config.control != old.control).then(|| config.control.socket.clone());
    changes.primaries_changed = ways.view.sources.changed(&config);
    let drains_change = config.drains != old.drains;
    let zones = in_thread(move || Ok(forecast_zones(&view, &config, &plan, drains_change))).await?;
    let mut text = changes.describe_ahead();
    zones.iter().for_each(|zone| zone.describe(&mut text));
    text.push_str("a dry run: nothing has been changed\n");
    Ok(Reply { ok: true, text, data: serde_json::json!({ "changes": changes, "zones": zones }) })
}

/// The changes of zones and regions.
fn foresee(view: &Snapshot, config: &Config) -> PlanChanges {
    let zones: Vec<Name> = SourcePlan::all(config).flat_map(|plan| plan.zones().cloned()).collect();
    let regions = view.regions.values().map(|region| (&region.plan, region.pin.is_some()));
    PlanChanges::between((view.sources.keys(), regions), &zones, &config.regions)
}

/// What would become of zones and regions, as far as it can be known: in the order of the configuration, then what goes.
fn forecast_zones(view: &Snapshot, config: &Config, changes: &PlanChanges, drains_change: bool) -> Vec<ZoneForecast> {
    let drains = whole_drains(view, config);
    let is_changed = |origin: &Name| changes.rebuilt.contains(origin) || changes.added.contains(origin);
    let regions = config.regions.iter().filter(|plan| drains_change || is_changed(&plan.origin));
    let mut told: Vec<ZoneForecast> = regions.map(|plan| forecast_region(view, plan, &drains, drains_change)).collect();
    for zone in &changes.removed {
        let region = view.regions.get(zone).and_then(|region| region.served.as_ref());
        let served = region.or(view.sources.get(zone).and_then(|source| source.zone.as_ref()));
        let forecast = served.map(|zone| Forecast::of_removed(zone)).unwrap_or_default();
        told.push(ZoneForecast { zone: zone.clone(), pinned: false, waits_for: Vec::new(), forecast });
    }
    told.retain(|zone| !zone.forecast.is_nothing() || !zone.waits_for.is_empty());
    told
}

/// What would become of a region.
fn forecast_region(view: &Snapshot, plan: &RegionPlan, drains: &[Drain], drains_change: bool) -> ZoneForecast {
    let present = view.regions.get(&plan.origin);
    let takes_the_same = present.filter(|region| {
        let old = &region.plan;
        !drains_change && old.members == plan.members && old.addresses == plan.addresses
    });
    let members: Box<Members> = match takes_the_same {
        // With what is held.
        Some(region) => region.members.iter().map(|traced| traced.taken.clone()).collect(),
        None => would_take(view, plan, drains),
    };
    let is_there = |member: &Name| view.sources.get(member).is_some_and(|source| source.zone.is_some());
    let merged = present.and_then(|region| region.merged.as_ref());
    let mut forecast = Forecast::of_region(plan, merged, &members, Instant::now());
    forecast.without_address = services_first(forecast.without_address, &plan.origin);
    ZoneForecast {
        zone: plan.origin.clone(),
        pinned: present.is_some_and(|region| region.pin.is_some()),
        waits_for: plan.members.iter().filter(|member| !is_there(member)).cloned().collect(),
        forecast,
    }
}

impl ZoneForecast {
    /// Describes it in words.
    fn describe(&self, text: &mut String) {
        let ZoneForecast { zone, pinned, waits_for, forecast } = self;
        let Forecast { names, come, go, without_address } = forecast;
        let plural = if *names == 1 { "name changes" } else { "names change" };
        *text += &format!("  {zone} {names} {plural}, {come} records come, {go} go\n");
        if *pinned {
            text.push_str("    it is pinned: this shows when it is released\n");
        }
        if !waits_for.is_empty() {
            let waits_for: Vec<String> = waits_for.iter().map(Name::to_string).collect();
            *text += &format!("    members that are not transferred yet: {}\n", waits_for.join(", "));
        }
        if !without_address.is_empty() {
            *text += &format!("    names that lose their last address: {}\n", without_address.len());
            write_names(text, without_address, zone);
        }
    }
}
