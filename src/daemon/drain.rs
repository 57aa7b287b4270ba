//! The verbs `drain` and `undrain`, which take a member, or names of it, out of its regions and back, or keep a share of
//! the clients from it.
//!
//! An order is previewed first, from what is published at that moment: the regions are merged once more without what is
//! to go. An order that would leave a region empty is refused unless it is forced; one for a share never does. Orders wait
//! for each other, so that two of them cannot take the last two members of a region.
//!
//! Cost: O(names × members) of the regions that are meant, beside the keeper.

mod preview;
pub mod target;

use super::ways::{Ways, warn_of_loss};
use crate::config::{Config, describe_drain, format_duration};
use crate::control::{DrainOrder, Reply, UndrainOrder};
use crate::keeper::{self, Command, MemberStatus, Snapshot};
use crate::merge::{self, Drain, DrainTarget, Filtered, Members, RegionPlan, Scope};
use crate::metrics::unix_seconds;
use crate::view::handle::in_thread;
use preview::{RegionReport, preview_regions, reduce};
pub use preview::{services_first, write_names};
use serde::Serialize;
use std::fmt::Write;
use std::time::{Duration, Instant, SystemTime};
use target::resolve;
use tokio::sync::OwnedMutexGuard;
use wire::name::Name;

/// Effect of a drain, as `--json` prints it.
#[derive(Serialize)]
struct DrainReport {
    #[serde(flatten)]
    target: DrainTarget,
    /// Percent of the clients that it concerns; none for a drain that takes the records out of the set.
    share_percent: Option<u8>,
    /// Unix time.
    until: Option<i64>,
    reason: Option<String>,
    regions: Vec<RegionReport>,
    /// True if the drain is in force now.
    done: bool,
    /// True if the drain would outlive the process.
    persistent: Option<bool>,
}

/// Takes a member, or names of it, out of regions, or keeps a share of the clients from it, or tells what that would do:
/// previews an order and gives it to the keeper.
pub async fn drain(
    ways: Ways,
    order: DrainOrder,
    share: Option<u8>,
    _turn: OwnedMutexGuard<()>,
) -> Result<Reply, String> {
    if share.is_some_and(|percent| !(1..100).contains(&percent)) {
        return Err("a share is 1 to 99 percent of the clients".to_owned());
    }
    let view = ways.keeper.look(!order.preview).await;
    let now = SystemTime::now();
    let target = resolve(&order.target, &view)?;
    let lasts = order.milliseconds.map(Duration::from_millis);
    let until = lasts.map(|lasts| now + lasts);
    let drain = Drain { target, share, since: now, until, reason: order.reason, configured: false };
    let replaced = view.drains.iter().find(|other| !other.configured && other.target == drain.target);
    let replaced = replaced.map(describe_drain);
    let (meant, config) = (drain.clone(), ways.view.config.load_full());
    let regions = in_thread(move || Ok(preview_regions(&view, &config, &meant))).await?;
    let mut report = DrainReport {
        target: drain.target.clone(),
        share_percent: drain.share,
        until: drain.until.map(unix_seconds),
        reason: drain.reason.clone(),
        regions,
        done: false,
        persistent: None,
    };
    let mut text = format!("{}\n", describe_drain(&drain));
    if let Some(replaced) = replaced {
        _ = writeln!(text, "replaces: {replaced}");
    } else if drain.target.names.is_some() && report.regions.iter().all(RegionReport::is_idle) {
        _ = writeln!(text, "no name that is served now matches");
    }
    report.regions.iter().for_each(|region| region.describe(&mut text));
    if let Some(region) = report.regions.iter().find(|region| region.emptied && !order.force) {
        let region = &region.region;
        _ = writeln!(text, "refused: {region} would be left without any data; --force does it all the same");
        return Ok(Reply { ok: false, text, data: serde_json::json!(report) });
    }
    if !order.preview {
        let persistent = ways.order(|done| Command::Drain(Box::new(drain), done)).await?;
        (report.done, report.persistent) = (true, Some(persistent));
        let lasts = lasts.map(|lasts| format!(" for {}", format_duration(lasts))).unwrap_or_default();
        _ = writeln!(text, "drained{lasts}; \"aggregator undrain\" ends it");
        text.push_str("this server alone: for all replicas, write it as [[drains]] into their configuration\n");
        text.push_str(warn_of_loss(persistent));
    }
    Ok(Reply { ok: true, text, data: serde_json::json!(report) })
}

/// Ends drains that operators have ordered: finds those that are meant and has the keeper end them.
pub async fn undrain(ways: Ways, order: UndrainOrder, _turn: OwnedMutexGuard<()>) -> Result<Reply, String> {
    let view = ways.keeper.look(true).await;
    let wanted = resolve(&order.target, &view)?;
    let of_member = || view.drains.iter().filter(|drain| drain.target.member == wanted.member);
    let is_meant = |drain: &&Drain| {
        order.exact && wanted == drain.target
            || !order.exact
                && wanted.region.as_ref().is_none_or(|region| drain.target.region.as_ref() == Some(region))
                && wanted.names.as_ref().is_none_or(|names| drain.target.names.as_ref() == Some(names))
    };
    let meant: Vec<&Drain> = of_member().filter(|drain| !drain.configured).filter(is_meant).collect();
    if meant.is_empty() {
        let mut text = format!("{} has no such drain", wanted.member);
        of_member().for_each(|drain| {
            let by = if drain.configured { "by [[drains]] of the configuration" } else { "by order" };
            _ = write!(text, "\n  {} {by}", describe_drain(drain));
        });
        return Err(text);
    }
    let targets: Vec<DrainTarget> = meant.iter().map(|drain| drain.target.clone()).collect();
    let persistent = ways.order(|done| Command::Undrain(targets.clone(), done)).await?;
    let mut text = String::new();
    meant.iter().for_each(|drain| _ = writeln!(text, "ended: {}", describe_drain(drain)));
    let data = serde_json::json!({ "ended": targets, "persistent": persistent });
    text.push_str(warn_of_loss(persistent));
    Ok(Reply { ok: true, text, data })
}

//--- Reload ---

/// Checks that the drains of a configuration leave each region some data; the error names the regions, and the remedy.
pub async fn check_drains(keeper: &keeper::KeeperHandle, config: &Config) -> Result<(), String> {
    let view = keeper.look(true).await;
    let drains = whole_drains(&view, config);
    let regions = config.regions.clone();
    let look = move || {
        let emptied = regions.iter().filter(|plan| is_emptied(&view, plan, &drains));
        Ok(emptied.map(|plan| plan.origin.to_string()).collect::<Vec<_>>())
    };
    let emptied = in_thread(look).await?;
    if emptied.is_empty() {
        return Ok(());
    }
    Err(format!(
        "with these drains and those that were ordered {} would be left without any data: \
         end one with \"aggregator undrain\", or order it with \"aggregator drain --force\" instead",
        emptied.join(" and ")
    ))
}

/// The drains that take records out of regions once a configuration is in force: its own, and those that were ordered.
pub fn whole_drains(view: &Snapshot, config: &Config) -> Vec<Drain> {
    let now = SystemTime::now();
    let ordered = view.drains.iter().filter(|drain| !drain.configured);
    let drains = config.drains.iter().chain(ordered);
    drains.filter(|drain| drain.is_whole() && !drain.is_over(now)).cloned().collect()
}

/// Returns true if these drains leave a region without any data although it has some.
fn is_emptied(view: &Snapshot, plan: &RegionPlan, drains: &[Drain]) -> bool {
    let Some(region) = view.regions.get(&plan.origin) else { return false };
    let concerned = |member: &Name| drains.iter().any(|drain| drain.concerns(member, &plan.origin));
    if !plan.members.iter().any(concerned) {
        return false;
    }
    let members = would_take(view, plan, drains);
    merge::preview(plan, region.merged.as_ref(), &members, Instant::now()).is_emptied
}

/// What a region with this plan would take of its members with these drains in force. Addresses that are held do not
/// count.
pub fn would_take(view: &Snapshot, plan: &RegionPlan, drains: &[Drain]) -> Box<Members> {
    let taken = |(member, status): (&Name, MemberStatus)| {
        let contributes = !matches!(status.state, "missing" | "expired");
        let zone = view.sources.get(member)?.zone.clone().filter(|_| contributes);
        let zone = Filtered::default().take(plan.addresses.of(member), zone, None);
        let mut scope = Scope::default();
        drains.iter().filter(|drain| drain.concerns(member, &plan.origin)).for_each(|drain| scope.add(&drain.target));
        if scope.is_empty() { zone } else { reduce(zone, scope) }
    };
    plan.members.iter().zip(view.member_statuses(plan, Instant::now())).map(taken).collect()
}
