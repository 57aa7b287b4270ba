//! The judgement of everything: a note on each thing that needs attention, the worst first, and one sentence.
//!
//! It is the only one: the headline and cards of pages, `status`, its exit code and the API all have it from here.
//!
//! Cost: O(zones + secondaries + members of all regions).

use super::Handle;
use super::facts::{address_warnings, pinned_to};
use super::outward::Outward;
use super::page::parts::{Cell, Grade, Mark, count, short, zone_link};
use super::page::rows::{drained_by, drained_names, drained_regions, trouble};
use super::remarks::{describe_episode, remarks};
use super::report::{RegionReport, Report, ZoneReport};
use super::sizes::Audience;
use super::text::{because, format_seconds, printable, time_since};
use crate::keeper::STALLED_AFTER;
use crate::probe::Problem;
use crate::publish::State;
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt::{self, Display, Formatter};
use std::net::SocketAddr;
use wire::name::Name;

/// Zones that a catalog lists in vain of which there are notes.
const LISTED_IN_VAIN: usize = 10;
/// Seconds that signatures of a zone should have left: whoever signs it does so days before they expire.
const SIGNATURES_LEFT: u64 = 86_400;

/// Note of something that an operator should know.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Note {
    pub grade: Grade,
    /// The kind of thing that is noted, in a word or two.
    pub kind: &'static str,
    pub about: About,
    pub text: String,
}

/// What a note concerns.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum About {
    /// A zone or region.
    Zone(Name),
    /// The address of a secondary.
    Server(SocketAddr),
    /// Something of the server's own.
    Own(&'static str),
}

/// What is to be said of everything.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct Judgement {
    pub grade: Grade,
    /// One sentence, which counts the notes.
    pub verdict: String,
    pub notes: Vec<Note>,
}

/// The status of all zones or some with what is to be said of it, as `aggregator status --json` prints it.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Status")]
pub struct Judged {
    #[serde(flatten)]
    pub report: Report,
    /// What of all this needs attention.
    pub judgement: Judgement,
}

impl Judged {
    /// Collects the status of all zones, or of one zone or region, and judges it.
    pub fn collect(view: &Handle, only: Option<&Name>) -> Judged {
        let report = Report::collect(view, only);
        Judged { judgement: Judgement::of(&report), report }
    }
}

/// A secondary that does not follow.
struct Late {
    zones: usize,
    since: i64,
    result: String,
}

impl Note {
    /// The kind as a mark.
    pub fn mark(&self) -> Mark {
        Mark::new(self.grade, self.kind)
    }
}

impl About {
    /// What it is, on a page.
    pub fn cell(&self) -> Cell {
        match self {
            About::Zone(zone) => zone_link(zone),
            About::Server(_) | About::Own(_) => Cell::text(&self.to_string()),
        }
    }
}

impl Display for About {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            About::Zone(zone) => f.write_str(&short(zone)),
            About::Server(address) => address.fmt(f),
            About::Own(text) => f.write_str(text),
        }
    }
}

impl Judgement {
    /// Judges a report.
    pub fn of(report: &Report) -> Judgement {
        let notes = collect_notes(report);
        let grade = notes.iter().map(|note| note.grade).max().unwrap_or_default();
        Judgement { grade, verdict: sum_up(report, grade, &notes), notes }
    }

    /// Returns true if something is to be looked at.
    pub fn has_problems(&self) -> bool {
        self.grade > Grade::Told
    }

    /// The sentence as a line of text, and how to see more.
    pub fn headline(&self) -> String {
        let more = if self.notes.is_empty() { "" } else { ": aggregator status --problems" };
        format!("{}{more}", self.verdict)
    }

    /// The worst note on each zone and region of which there is something to look at.
    pub fn worst(&self) -> HashMap<&Name, &Note> {
        let mut worst = HashMap::new();
        for note in self.notes.iter().filter(|note| note.grade > Grade::Told) {
            if let About::Zone(zone) = &note.about {
                worst.entry(zone).or_insert(note);
            }
        }
        worst
    }
}

/// Sums up the state of the server in one sentence.
fn sum_up(report: &Report, grade: Grade, notes: &[Note]) -> String {
    let of = |grade: Grade| notes.iter().filter(|note| note.grade == grade).count();
    let counted = |grade: Grade, one: &str, more: &str| match of(grade) {
        0 => None,
        number => Some(count(number, one, more)),
    };
    let parts = [
        counted(Grade::Bad, "thing broken", "things broken"),
        counted(Grade::Warn, "thing to look at", "things to look at"),
        counted(Grade::Told, "exception in force", "exceptions in force"),
    ];
    let counts = parts.into_iter().flatten().collect::<Vec<String>>().join(", ");
    let dead = report.regions.iter().filter(|region| region.kept.state != State::Ok).count();
    match grade {
        Grade::Good if report.zones.is_empty() && report.regions.is_empty() => "No zones are configured".to_owned(),
        Grade::Good => "Everything is well".to_owned(),
        Grade::Bad if dead > 0 => {
            format!("{dead} of {} not served; {counts}", count(report.regions.len(), "region", "regions"))
        }
        Grade::Bad => counts,
        _ => format!("Serving; {counts}"),
    }
}

/// A state, and what there is to look at although it is good.
pub fn noted(mark: Mark, worst: Option<&Note>) -> Mark {
    match worst {
        Some(note) if mark.grade == Grade::Good => Mark::new(note.grade, format!("{}, {}", mark.text, note.kind)),
        _ => mark,
    }
}

/// Collects the notes on everything that needs attention, the worst first.
fn collect_notes(report: &Report) -> Vec<Note> {
    let (mut notes, mut told) = (Vec::new(), HashSet::new());
    let zones: HashMap<&Name, &ZoneReport> = report.zones.iter().map(|zone| (&zone.kept.zone, zone)).collect();
    let why = |zone: &Name| {
        let remarks = zones.get(zone).map(|zone| remarks(zone)).unwrap_or_default();
        if remarks.is_empty() { "nothing has come from its source for too long".to_owned() } else { remarks }
    };
    let mut add =
        |grade: Grade, kind: &'static str, about: About, text: String| notes.push(Note { grade, kind, about, text });
    if report.keeper_busy_seconds >= STALLED_AFTER.as_secs() {
        let text = format!(
            "stalled: nothing has changed or expired for {}; answers are as old as that",
            format_seconds(report.keeper_busy_seconds)
        );
        add(Grade::Bad, "keeper", About::Own("program"), text);
    }
    if report.panics > 0 {
        let text =
            format!("{} since the start; please report what the log says", count(report.panics, "panic", "panics"));
        add(Grade::Warn, "panics", About::Own("program"), text);
    }
    if let Some(error) = &report.state.error {
        add(Grade::Bad, "state folder", About::Own("disk"), format!("{error}; a restart would begin with older zones"));
    }
    for RegionReport { kept: region, .. } in &report.regions {
        let link = || About::Zone(region.region.clone());
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
        add(Grade::Warn, "large sets", About::Zone(name.clone()), sizes.consequences(audience).join("; "));
    }
    for zone in report.zones.iter().filter(|zone| !told.contains(&zone.kept.zone)) {
        let name = &zone.kept.zone;
        match (zone.kept.state, trouble(zone)) {
            (State::NotReady, _) => add(Grade::Bad, "not ready", About::Zone(name.clone()), why(name)),
            (State::Expired, _) => add(Grade::Bad, "expired", About::Zone(name.clone()), why(name)),
            (State::Ok, Some(trouble)) => add(Grade::Warn, trouble, About::Zone(name.clone()), why(name)),
            (State::Ok, None) => {}
        }
    }
    for ZoneReport { kept, .. } in &report.zones {
        let Some(left) = kept.signatures_expire_in_seconds.filter(|left| *left < SIGNATURES_LEFT) else { continue };
        let (grade, text) = match left {
            0 => (Grade::Bad, "a signature has expired; clients that validate get SERVFAIL".to_owned()),
            left => (Grade::Warn, format!("a signature expires in {}", format_seconds(left))),
        };
        let age = kept.refreshed_seconds_ago.map(|age| format!("; refreshed {} ago", format_seconds(age)));
        add(grade, "signatures", About::Zone(kept.zone.clone()), format!("{text}{}", age.unwrap_or_default()));
    }
    for episode in &report.rate_limited {
        add(Grade::Warn, "rate limit", About::Own("clients"), describe_episode(episode));
    }
    for zone in &report.zones {
        let refused = zone.lists.iter().flat_map(|lists| &lists.refused);
        for refused in refused.take(LISTED_IN_VAIN) {
            let text = format!("{} is listed in vain: {}", short(&refused.zone), refused.reason);
            add(Grade::Warn, "catalog", About::Zone(zone.kept.zone.clone()), text);
        }
    }
    for report in &report.name_servers {
        // What could not be found out is on the zone's page.
        for (server, finding) in report.check.findings().filter(|(_, finding)| finding.problem != Problem::Unknown) {
            let text = format!("{}: {}, {}", server.label(), finding.problem.label(), finding.text);
            add(Grade::Warn, "name server", About::Zone(report.check.zone.clone()), text);
        }
    }
    for drain in &report.drains {
        let (names, regions, by) = (drained_names(drain), drained_regions(drain), drained_by(drain));
        let text = format!("{names} out of {regions}, by {by}{}", because(": ", &drain.reason));
        add(Grade::Told, "drained", About::Zone(drain.target.member.clone()), text);
    }
    for (address, late) in late_secondaries(report) {
        let (zones, since) = (count(late.zones, "zone", "zones"), time_since(late.since));
        let text = format!("behind with {zones} for {since}: {}", printable(&late.result));
        add(Grade::Warn, "secondary", About::Server(address), text);
    }
    notes.sort_by_key(|note| std::cmp::Reverse(note.grade));
    notes
}

/// Secondaries that do not follow, each with what it has said of the zone that it lacks for longest.
fn late_secondaries(report: &Report) -> BTreeMap<SocketAddr, Late> {
    let regions = report.regions.iter().map(|region| &region.outward);
    let outward = regions.chain(report.zones.iter().map(|zone| &zone.outward));
    let outward = outward.chain(report.catalog.iter().map(|catalog| &catalog.outward));
    let mut found = BTreeMap::<SocketAddr, Late>::new();
    for target in outward.flat_map(|outward: &Outward| &outward.secondaries).filter(|target| target.is_late()) {
        let since = target.behind_since.unwrap_or_default();
        let late = found.entry(target.status.address);
        let late = late.or_insert_with(|| Late { zones: 0, since, result: target.status.result.clone() });
        late.zones += 1;
        if since < late.since {
            (late.since, late.result) = (since, target.status.result.clone());
        }
    }
    found
}
