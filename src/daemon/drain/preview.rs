//! What a drain would do to each region, as `aggregator drain` shows it.
//!
//! Cost: O(names × members) of the regions that are meant, beside the keeper.

use crate::config::Config;
use crate::keeper::{RegionSnapshot, Snapshot};
use crate::merge::{self, Drain, Intake, Members, Preview, Scope, SharePreview, TracedMember};
use crate::zone::Zone;
use serde::Serialize;
use std::fmt::Write;
use std::sync::Arc;
use std::time::Instant;
use wire::name::Name;

/// Largest number of names that a preview lists for one region; the total is always given.
const LISTED_NAMES: usize = 20;

/// Effect of a drain on one region.
#[derive(Serialize)]
pub struct RegionReport {
    pub region: Name,
    changed_names: usize,
    fewer_records: u64,
    /// True if the region is pinned: clients see the effect only after its release.
    pinned: bool,
    /// Number of names that would lose their last address.
    names_without_address: usize,
    /// First of those names, in order.
    without_address: Vec<Name>,
    pub emptied: bool,
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
    pub fn is_idle(&self) -> bool {
        match &self.share {
            Some(share) => share.names_elsewhere == 0 && share.names_alone == 0,
            None => self.changed_names == 0,
        }
    }

    /// Describes the effect in words.
    pub fn describe(&self, text: &mut String) {
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

/// Computes the effect of a drain on each region that it concerns.
pub fn preview_regions(view: &Snapshot, config: &Config, drain: &Drain) -> Vec<RegionReport> {
    let concerned =
        |region: &&RegionSnapshot| region.plan.members.iter().any(|member| drain.concerns(member, &region.plan.origin));
    let mut regions: Vec<&RegionSnapshot> = view.regions.values().map(|region| &**region).filter(concerned).collect();
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
pub fn reduce(zone: Option<Arc<Zone>>, scope: Scope) -> Option<Arc<Zone>> {
    let mut intake = Intake::default();
    intake.take(zone, None, scope, merge::Held::new());
    intake.zone().cloned()
}
