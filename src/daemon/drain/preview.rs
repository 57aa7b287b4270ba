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
use wire::name::{self, Name};

/// Largest number of names that the text of a preview lists for one region, services before instances; the data has all.
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
    /// Those names: of services, in order, then of instances.
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
    /// Those names: of services, in order, then of instances.
    alone: Vec<Name>,
    /// True if the region has secondaries, which the share does not reach.
    secondaries: bool,
}

impl RegionReport {
    /// What a preview has found.
    fn new(region: &RegionSnapshot, preview: Preview) -> RegionReport {
        RegionReport {
            region: region.plan.origin.clone(),
            pinned: region.pin.is_some(),
            changed_names: preview.changed,
            fewer_records: preview.fewer_records,
            names_without_address: preview.without_address.len(),
            without_address: services_first(preview.without_address, &region.plan.origin),
            emptied: preview.is_emptied,
            share: None,
        }
    }

    /// What a preview of a share has found.
    fn of_share(region: &RegionSnapshot, preview: SharePreview, secondaries: bool) -> RegionReport {
        let share = ShareReport {
            names_elsewhere: preview.elsewhere,
            names_alone: preview.alone.len(),
            alone: services_first(preview.alone, &region.plan.origin),
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
        write_names(text, &self.without_address, region);
    }
}

impl ShareReport {
    /// Describes the effect in words.
    fn describe(&self, region: &Name, text: &mut String) {
        let ShareReport { names_elsewhere, names_alone, alone, secondaries } = self;
        let names = if *names_elsewhere == 1 { "name" } else { "names" };
        _ = writeln!(text, "  {region} {names_elsewhere} {names} with another member to go to");
        _ = writeln!(text, "    names that only this member gives, which it goes on answering: {names_alone}");
        write_names(text, alone, region);
        if *secondaries {
            text.push_str("    secondaries of the region answer with whole sets: the share does not reach them\n");
        }
    }
}

/// Returns true if a name is that of an instance, which clients of a service do not ask for.
fn is_of_instance(name: &Name, region: &Name) -> bool {
    let is_kind = |label: &[u8]| label.eq_ignore_ascii_case(b"inst") || label.eq_ignore_ascii_case(b"cmon");
    let owner = name.label_count().saturating_sub(region.label_count());
    name::labels(name.as_wire()).take(owner).skip(1).any(is_kind)
}

/// Puts the names of services before those of instances.
pub fn services_first(mut names: Vec<Name>, region: &Name) -> Vec<Name> {
    names.sort_by_key(|name| is_of_instance(name, region));
    names
}

/// Writes the first names of services, and how many there are beside them.
pub fn write_names(text: &mut String, names: &[Name], region: &Name) {
    let services = names.partition_point(|name| !is_of_instance(name, region));
    let listed = services.min(LISTED_NAMES);
    names[..listed].iter().for_each(|name| _ = writeln!(text, "      {name}"));
    let more = |count: usize, of: &str| format!("      and {count} more{of}: --all lists them\n");
    if services > listed {
        *text += &more(services - listed, "");
    }
    if names.len() > services {
        *text += &more(names.len() - services, " of instances (inst, cmon)");
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn services_come_first_and_instances_are_counted() {
        let name = |text: &str| Name::parse(text).unwrap();
        let region = name("w.example");
        let services = (0..21).map(|number| name(&format!("s{number}.svc.a.w.example")));
        let instances = ["a.inst.a.w.example", "b.cmon.w.example"].map(name);
        let names = services_first(instances.into_iter().chain(services).collect(), &region);
        let mut text = String::new();
        write_names(&mut text, &names, &region);
        let lines: Vec<&str> = text.lines().map(str::trim).collect();
        assert_eq!((lines.len(), lines[0]), (22, "s0.svc.a.w.example."), "{text}");
        let rest = ["and 1 more: --all lists them", "and 2 more of instances (inst, cmon): --all lists them"];
        assert_eq!(lines[20..], rest);
        let mut text = String::new();
        write_names(&mut text, &names[..2], &region);
        assert_eq!(text, "      s0.svc.a.w.example.\n      s1.svc.a.w.example.\n");
    }
}
