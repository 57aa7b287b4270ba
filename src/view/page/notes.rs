//! Notes on everything that needs attention, the worst first, and one sentence that sums up.
//!
//! Cost: O(zones + members of all regions).

use super::parts::{Cell, Grade, Mark, count, short, zone_link};
use super::rows::{drained_by, drained_names, drained_regions, trouble};
use super::zone::pinned_to;
use crate::probe::Problem;
use crate::publish::State;
use crate::view::facts::address_warnings;
use crate::view::remarks::remarks;
use crate::view::report::{RegionReport, Report, ZoneReport};
use crate::view::sizes::Audience;
use crate::view::text::because;
use std::collections::{HashMap, HashSet};
use wire::name::Name;

/// Note of something that an operator should know.
pub struct Note {
    pub mark: Mark,
    /// Zone, region or server that the note concerns.
    pub about: Cell,
    pub text: String,
}

/// Sums up the state of the server in one sentence.
pub fn judge(report: &Report, notes: &[Note]) -> Mark {
    let grade = notes.iter().map(|note| note.mark.grade).max().unwrap_or(Grade::Good);
    let failing = |grade: Grade| notes.iter().filter(|note| note.mark.grade == grade).count();
    let dead = report.regions.iter().filter(|region| region.kept.state != State::Ok).count();
    let text = match grade {
        Grade::Bad if dead > 0 => format!("{dead} of {} not served", count(report.regions.len(), "region", "regions")),
        Grade::Bad => format!("{} broken", count(failing(Grade::Bad), "thing", "things")),
        Grade::Warn => format!("Serving; {} to look at", count(failing(Grade::Warn), "thing", "things")),
        Grade::Told => format!("Serving; {} in force", count(failing(Grade::Told), "exception", "exceptions")),
        Grade::Good if report.zones.is_empty() && report.regions.is_empty() => "No zones are configured".to_owned(),
        Grade::Good => "Everything is well".to_owned(),
    };
    Mark::new(grade, text)
}

/// Collects the notes on everything that needs attention, the worst first.
pub fn collect_notes(report: &Report) -> Vec<Note> {
    let (mut notes, mut told) = (Vec::new(), HashSet::new());
    let zones: HashMap<&Name, &ZoneReport> = report.zones.iter().map(|zone| (&zone.kept.zone, zone)).collect();
    let why = |zone: &Name| {
        let remarks = zones.get(zone).map(|zone| remarks(zone)).unwrap_or_default();
        if remarks.is_empty() { "nothing has come from its source for too long".to_owned() } else { remarks }
    };
    let mut add = |grade: Grade, label: &str, about: Cell, text: String| {
        notes.push(Note { mark: Mark::new(grade, label), about, text })
    };
    if let Some(error) = &report.state.error {
        add(Grade::Bad, "state folder", Cell::text("disk"), format!("{error}; a restart would begin with older zones"));
    }
    for RegionReport { kept: region, .. } in &report.regions {
        let link = || zone_link(&region.region);
        match region.state {
            State::Ok => {}
            State::NotReady => {
                let text = "waits for members that were never transferred; clients get SERVFAIL";
                add(Grade::Bad, "not ready", link(), text.to_owned());
            }
            State::Expired => {
                add(Grade::Bad, "expired", link(), "no member is valid any more; clients get SERVFAIL".to_owned());
            }
        }
        for member in &region.members {
            if !matches!(member.state, "stale" | "missing" | "expired") {
                continue;
            }
            let (name, why) = (short(&member.zone), why(&member.zone));
            match member.state {
                "stale" => add(Grade::Warn, "stale", link(), format!("{name} is served as it was: {why}")),
                "missing" => add(Grade::Bad, "missing", link(), format!("{name} is not in the region: {why}")),
                _ => add(Grade::Bad, "expired", link(), format!("{name} is not in the region any more: {why}")),
            }
            told.insert(&member.zone);
        }
        if let Some(pin) = &region.pinned {
            add(Grade::Told, "pinned", link(), pinned_to(pin));
        }
        if region.ns_fallback {
            let text = "the members' NS sets have nothing in common: this server is listed alone";
            add(Grade::Warn, "name servers", link(), text.to_owned());
        }
        for server in &region.servers_without_address {
            add(Grade::Warn, "name servers", link(), format!("{} has no address in the region", short(server)));
        }
        for warning in address_warnings(region) {
            add(Grade::Told, "addresses", link(), warning);
        }
        if let held @ 1.. = region.held_addresses {
            let held = count(held, "address", "addresses");
            add(Grade::Told, "held", link(), format!("{held} that members have withdrawn stay for a while"));
        }
    }
    let of_regions = report.regions.iter().map(|region| (&region.kept.region, region.sizes, &region.outward, true));
    let of_zones = report.zones.iter().map(|zone| (&zone.kept.zone, zone.sizes, &zone.outward, false));
    for (name, sizes, outward, is_region) in of_regions.chain(of_zones).filter(|(_, sizes, ..)| sizes.is_harmful()) {
        let audience = Audience { is_region, has_secondaries: !outward.secondaries.is_empty() };
        add(Grade::Warn, "large sets", zone_link(name), sizes.consequences(audience).join("; "));
    }
    for zone in report.zones.iter().filter(|zone| !told.contains(&zone.kept.zone)) {
        let name = &zone.kept.zone;
        match (zone.kept.state, trouble(zone)) {
            (State::NotReady, _) => add(Grade::Bad, "not ready", zone_link(name), why(name)),
            (State::Expired, _) => add(Grade::Bad, "expired", zone_link(name), why(name)),
            (State::Ok, Some(trouble)) => add(Grade::Warn, trouble, zone_link(name), why(name)),
            (State::Ok, None) => {}
        }
    }
    for report in &report.name_servers {
        // What could not be found out is on the zone's page.
        for (server, finding) in report.check.findings().filter(|(_, finding)| finding.problem != Problem::Unknown) {
            let text = format!("{}: {}, {}", server.label(), finding.problem.label(), finding.text);
            add(Grade::Warn, "name server", zone_link(&report.check.zone), text);
        }
    }
    for drain in &report.drains {
        let (names, regions, by) = (drained_names(drain), drained_regions(drain), drained_by(drain));
        let text = format!("{names} out of {regions}, by {by}{}", because(": ", &drain.reason));
        add(Grade::Told, "drained", zone_link(&drain.target.member), text);
    }
    notes.sort_by_key(|note| std::cmp::Reverse(note.mark.grade));
    notes
}
