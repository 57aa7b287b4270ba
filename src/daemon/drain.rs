//! The verbs `drain` and `undrain`, which take a member, or names of it, out of its regions and back, or keep a share of
//! the clients from it.
//!
//! An order is previewed first, from what is published at that moment: the regions are merged once more without what is
//! to go. An order that would leave a region empty is refused unless it is forced; one for a share never does. Orders wait
//! for each other, so that two of them cannot take the last two members of a region.
//!
//! Cost: O(names × members) of the regions that are meant, beside the keeper.

use super::ways::{Ways, warn_of_loss};
use crate::config::{Config, describe_drain, format_duration, parse_pattern};
use crate::control::{DrainOrder, Reply, TargetText};
use crate::keeper::{self, Command, MemberStatus, RegionSnapshot, Snapshot};
use crate::merge::{
    self, Drain, DrainTarget, Filtered, Intake, Members, Preview, RegionPlan, Scope, SharePreview, TracedMember,
};
use crate::metrics::unix_seconds;
use crate::view::handle::{in_thread, read_zone};
use crate::zone::Zone;
use serde::Serialize;
use std::collections::{BTreeSet, HashMap};
use std::fmt::Write;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};
use tokio::sync::OwnedMutexGuard;
use wire::name::{self, Name};

/// Largest number of names that a preview lists for one region; the total is always given.
const LISTED_NAMES: usize = 20;

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

/// Effect of a drain on one region.
#[derive(Serialize)]
struct RegionReport {
    region: Name,
    changed_names: usize,
    fewer_records: u64,
    /// True if the region is pinned: clients see the effect only after its release.
    pinned: bool,
    /// Number of names that would lose their last address.
    names_without_address: usize,
    /// First of those names, in order.
    without_address: Vec<Name>,
    emptied: bool,
    /// Effect of a share, which changes nothing of all that.
    share: Option<ShareReport>,
}

/// Effect of a drain of a share on one region.
#[derive(Serialize)]
struct ShareReport {
    /// Number of names with another member to go to.
    names_elsewhere: usize,
    /// Number of names that no other member gives.
    names_alone: usize,
    /// First of those names, in order.
    alone: Vec<Name>,
    /// True if the region has secondaries, which the share does not reach.
    secondaries: bool,
}

impl RegionReport {
    /// Cuts what a preview lists.
    fn new(region: &RegionSnapshot, preview: Preview) -> RegionReport {
        RegionReport {
            region: region.plan.origin.clone(),
            pinned: region.pin.is_some(),
            changed_names: preview.changed,
            fewer_records: preview.fewer_records,
            names_without_address: preview.without_address.len(),
            without_address: preview.without_address.into_iter().take(LISTED_NAMES).collect(),
            emptied: preview.is_emptied,
            share: None,
        }
    }

    /// Cuts what a preview of a share lists.
    fn of_share(region: &RegionSnapshot, preview: SharePreview, secondaries: bool) -> RegionReport {
        let share = ShareReport {
            names_elsewhere: preview.elsewhere,
            names_alone: preview.alone.len(),
            alone: preview.alone.into_iter().take(LISTED_NAMES).collect(),
            secondaries,
        };
        RegionReport { share: Some(share), ..RegionReport::new(region, Preview::default()) }
    }

    /// Returns true if no name that is served now is meant.
    fn is_idle(&self) -> bool {
        match &self.share {
            Some(share) => share.names_elsewhere == 0 && share.names_alone == 0,
            None => self.changed_names == 0,
        }
    }

    /// Describes the effect in words.
    fn describe(&self, text: &mut String) {
        let RegionReport { region, changed_names, fewer_records, names_without_address, share, .. } = self;
        if let Some(share) = share {
            return share.describe(region, text);
        }
        let names = if *changed_names == 1 { "name changes" } else { "names change" };
        let records = if *fewer_records == 1 { "record" } else { "records" };
        _ = writeln!(text, "  {region} {changed_names} {names}, {fewer_records} {records} fewer");
        if self.pinned {
            _ = writeln!(text, "    it is pinned: this shows when it is released");
        }
        _ = writeln!(text, "    names that lose their last address: {names_without_address}");
        write_names(text, &self.without_address, *names_without_address);
    }
}

impl ShareReport {
    /// Describes the effect in words.
    fn describe(&self, region: &Name, text: &mut String) {
        let ShareReport { names_elsewhere, names_alone, alone, secondaries } = self;
        let names = if *names_elsewhere == 1 { "name" } else { "names" };
        _ = writeln!(text, "  {region} {names_elsewhere} {names} with another member to go to");
        _ = writeln!(text, "    names that only this member gives, which it goes on answering: {names_alone}");
        write_names(text, alone, *names_alone);
        if *secondaries {
            text.push_str("    secondaries of the region answer with whole sets: the share does not reach them\n");
        }
    }
}

/// Writes the first of some names, and how many there are beside them.
fn write_names(text: &mut String, listed: &[Name], all: usize) {
    listed.iter().for_each(|name| _ = writeln!(text, "      {name}"));
    if let more @ 1.. = all - listed.len() {
        _ = writeln!(text, "      and {more} more");
    }
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
pub async fn undrain(ways: Ways, target: TargetText, _turn: OwnedMutexGuard<()>) -> Result<Reply, String> {
    let view = ways.keeper.look(true).await;
    let wanted = resolve(&target, &view)?;
    let of_member = || view.drains.iter().filter(|drain| drain.target.member == wanted.member);
    let is_meant = |drain: &&Drain| {
        wanted.region.as_ref().is_none_or(|region| drain.target.region.as_ref() == Some(region))
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

//--- Preview ---

/// Computes the effect of a drain on each region that it concerns.
fn preview_regions(view: &Snapshot, config: &Config, drain: &Drain) -> Vec<RegionReport> {
    let concerned =
        |region: &&RegionSnapshot| region.plan.members.iter().any(|member| drain.concerns(member, &region.plan.origin));
    let mut regions: Vec<&RegionSnapshot> = view.regions.values().filter(concerned).collect();
    regions.sort_by(|a, b| a.plan.origin.canonical_cmp(&b.plan.origin));
    let report = |region: &RegionSnapshot| {
        if drain.is_whole() {
            return RegionReport::new(region, preview(region, drain));
        }
        let taken: Box<Members> = region.members.iter().map(|traced| traced.taken.clone()).collect();
        let preview = merge::preview_share(drain, &region.plan, region.served.as_ref(), &taken);
        RegionReport::of_share(region, preview, config.has_secondaries(&region.plan.origin))
    };
    regions.into_iter().map(report).collect()
}

/// Computes the effect of a drain on a region.
fn preview(region: &RegionSnapshot, drain: &Drain) -> Preview {
    let plan = &region.plan;
    let without = |(member, traced): (&Name, &TracedMember)| {
        let taken = traced.taken.clone();
        if !drain.concerns(member, &plan.origin) {
            return taken;
        }
        // What is taken now is drained further.
        let mut scope = Scope::default();
        scope.add(&drain.target);
        reduce(taken, scope)
    };
    let members: Box<Members> = plan.members.iter().zip(&region.members).map(without).collect();
    merge::preview(plan, region.merged.as_ref(), &members, Instant::now())
}

/// Returns a member's zone without the drained names.
fn reduce(zone: Option<Arc<Zone>>, scope: Scope) -> Option<Arc<Zone>> {
    let mut intake = Intake::default();
    intake.take(zone, None, scope, merge::Held::new());
    intake.zone().cloned()
}

/// Checks that the drains of a configuration leave each region some data; the error names the regions, and the remedy.
pub async fn check_drains(keeper: &keeper::KeeperHandle, config: &Config) -> Result<(), String> {
    let view = keeper.look(true).await;
    let now = SystemTime::now();
    let ordered = view.drains.iter().filter(|drain| !drain.configured);
    let drains = config.drains.iter().chain(ordered);
    let drains: Vec<Drain> = drains.filter(|drain| drain.is_whole() && !drain.is_over(now)).cloned().collect();
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

/// Returns true if these drains leave a region without any data although it has some.
fn is_emptied(view: &Snapshot, plan: &RegionPlan, drains: &[Drain]) -> bool {
    let Some(region) = view.regions.get(&plan.origin) else { return false };
    let scope = |member: &Name| {
        let mut scope = Scope::default();
        drains.iter().filter(|drain| drain.concerns(member, &plan.origin)).for_each(|drain| scope.add(&drain.target));
        scope
    };
    let scopes: Vec<Scope> = plan.members.iter().map(scope).collect();
    if scopes.iter().all(Scope::is_empty) {
        return false;
    }
    let statuses = view.member_statuses(&region.plan, Instant::now());
    let present: HashMap<&Name, (&MemberStatus, &TracedMember)> =
        region.plan.members.iter().zip(statuses.iter().zip(&region.members)).collect();
    let taken = |(member, scope): (&Name, Scope)| {
        let (status, traced) = present.get(member)?;
        let contributes = !matches!(status.state, "missing" | "expired");
        let zone = traced.zone.clone().filter(|_| contributes);
        let zone = Filtered::default().take(plan.addresses.of(member), zone, None);
        reduce(zone, scope)
    };
    let members: Box<Members> = plan.members.iter().zip(scopes).map(taken).collect();
    merge::preview(plan, region.merged.as_ref(), &members, Instant::now()).is_emptied
}

//--- Targets ---

/// Finds what is meant among the regions, their members, and what is drained already.
fn resolve(target: &TargetText, view: &Snapshot) -> Result<DrainTarget, String> {
    let plans = || view.regions.values().map(|region| &region.plan);
    let region = target.region.as_deref().map(read_zone).transpose()?;
    if let (Some(text), Some(name)) = (&target.region, &region)
        && !plans().any(|plan| plan.origin == *name)
        && !view.drains.iter().any(|drain| drain.target.region == region)
    {
        return Err(format!("{text} is no region of the configuration"));
    }
    let drained = view.drains.iter().map(|drain| &drain.target.member);
    let members = plans().filter(|plan| region.as_ref().is_none_or(|only| *only == plan.origin));
    let members = members.flat_map(|plan| &plan.members).chain(drained);
    let member = find_member(&target.member, members)?;
    let origin = plans().find_map(|plan| plan.origin_named(&member)).unwrap_or(&member);
    let names = target.names.as_deref().map(|text| parse_pattern(text, Some(origin))).transpose()?;
    Ok(DrainTarget { member, region, names })
}

/// The member that a text means: its name, or its first labels where no other begins with them.
fn find_member<'n>(text: &str, members: impl Iterator<Item = &'n Name>) -> Result<Name, String> {
    let wanted = read_zone(text)?;
    let members: BTreeSet<String> = members.map(Name::to_string).collect();
    let members: Vec<Name> = members.iter().filter_map(|member| Name::parse(member).ok()).collect();
    if members.contains(&wanted) {
        return Ok(wanted);
    }
    let begins = |member: &&Name| {
        let mut labels = name::labels(member.as_wire());
        name::labels(wanted.as_wire()).all(|label| labels.next() == Some(label))
    };
    let found: Vec<&Name> = members.iter().filter(begins).collect();
    match found[..] {
        [member] => Ok(member.clone()),
        [] => Err(format!("{text} is no member of a region; members are {}", list(members.iter(), ", "))),
        _ => Err(format!("{text} may be {}; write more of the name", list(found.into_iter(), " or "))),
    }
}

/// Names in a row.
fn list<'n>(names: impl Iterator<Item = &'n Name>, between: &str) -> String {
    let names: Vec<String> = names.map(Name::to_string).collect();
    if names.is_empty() { "none".to_owned() } else { names.join(between) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_are_found_by_their_first_labels() {
        let names = ["us-west-1.cns.x", "us-west-2.cns.x", "us-west-1.pub.x", "us-east-1.cns.x"];
        let names: Vec<Name> = names.iter().map(|text| Name::parse(text).unwrap()).collect();
        let find = |text: &str| find_member(text, names.iter().chain(&names)).map(|name| name.to_string());
        assert_eq!(find("us-east-1"), Ok("us-east-1.cns.x.".into()));
        assert_eq!(find("US-West-1.cns.x."), Ok("us-west-1.cns.x.".into()));
        assert_eq!(find("us-west-1.pub"), Ok("us-west-1.pub.x.".into()));
        let ambiguous = "us-west-1 may be us-west-1.cns.x. or us-west-1.pub.x.; write more of the name";
        assert_eq!(find("us-west-1"), Err(ambiguous.into()));
        assert!(
            find("us-west")
                .unwrap_err()
                .starts_with("us-west is no member of a region; members are us-east-1.cns.x., ")
        );
        assert!(find("a..b").unwrap_err().starts_with("no zone name"));
    }
}
