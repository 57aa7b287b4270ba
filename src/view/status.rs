//! Status as text for people: the overview, a line a zone, and everything about one (`facts`).
//!
//! Cost: O(text).

use super::Handle;
use super::columns::write_columns;
use super::facts::Facts;
use super::handle::{not_configured, read_zone};
use super::judgement::{Judged, Judgement};
use super::page::rows::{drained_by, drained_names};
use super::remarks::describe_episode;
use super::report::Report;
use super::text::{because, format_seconds, time_between, time_since, unix_now};
use super::zones::{columns, lines};
use crate::control::Reply;
use crate::daemon::probe::ProbeReport;
use crate::keeper::DrainStatus;
use std::fmt::Write;
use wire::name::Name;

/// Shows all zones, or everything about one.
pub fn status(view: &Handle, only: Option<&str>) -> Result<Reply, String> {
    let name = only.map(read_zone).transpose()?;
    let judged = Judged::collect(view, name.as_ref());
    let Judged { report, judgement } = &judged;
    if let Some(name) = name.as_ref().filter(|_| report.is_empty()) {
        let published = view.publisher.load();
        return Err(not_configured(name, published.iter().map(|served| &served.origin)));
    }
    let text = if name.is_some() { report.details() } else { report.overview(judgement) };
    Ok(Reply { ok: true, text, data: serde_json::json!(judged) })
}

/// Prints a zone as a zone file.
pub fn dump(view: &Handle, zone: &str) -> Result<Reply, String> {
    let name = read_zone(zone)?;
    let served = view.served(&name)?;
    let zone = served.zone.as_ref().ok_or_else(|| format!("zone {name} has not been transferred yet"))?;
    let mut text = String::new();
    zone.write_text(&mut text).map_err(|error| error.to_string())?;
    let data = serde_json::json!({
        "zone": name, "state": served.state, "serial": zone.soa.serial, "records": zone.records,
    });
    Ok(Reply { ok: true, text, data })
}

impl Report {
    /// The overview, a line a zone.
    pub fn overview(&self, judgement: &Judgement) -> String {
        let mut text = String::new();
        let up = format_seconds(self.uptime_seconds);
        _ = writeln!(text, "aggregator {}, up {up}, configuration {}", self.version, self.config);
        _ = writeln!(text, "{}", self.state.describe());
        _ = writeln!(text, "{}", self.memory.describe());
        _ = writeln!(text, "{}", judgement.headline());
        write_columns(&mut text, &columns(), &lines(self));
        self.drains.iter().for_each(|drain| write_drain(&mut text, "", drain));
        self.rate_limited
            .iter()
            .for_each(|episode| _ = writeln!(text, "over the rate limit: {}", describe_episode(episode)));
        text
    }

    /// Describes the zones and regions of the report in full.
    pub fn details(&self) -> String {
        let mut text = String::new();
        self.zones.iter().for_each(|zone| text += &Facts::of_zone(zone).text);
        self.regions.iter().for_each(|region| text += &Facts::of_region(region).text);
        self.drains.iter().for_each(|drain| write_drain(&mut text, "  ", drain));
        self.catalog.iter().for_each(|catalog| text += &Facts::of_catalog(catalog).text);
        self.name_servers.iter().for_each(|report| write_probe(&mut text, report));
        text
    }
}

/// Writes what the last check of a zone's name servers has found.
fn write_probe(text: &mut String, report: &ProbeReport) {
    _ = writeln!(text, "name servers of {}, asked {} ago", report.check.zone, time_since(report.asked));
    for server in &report.check.servers {
        let serial = server.serial.map(|serial| format!(" serial {serial},")).unwrap_or_default();
        if server.findings.is_empty() {
            let note = server.note.as_deref().unwrap_or("no fault");
            _ = writeln!(text, "  {}:{serial} {note}", server.label());
        }
        for finding in &server.findings {
            _ = writeln!(text, "  {}:{serial} {}: {}", server.label(), finding.problem.label(), finding.text);
        }
    }
}

/// Writes one drain.
fn write_drain(text: &mut String, indent: &str, drain: &DrainStatus) {
    let regions: Vec<String> = drain.regions.iter().map(Name::to_string).collect();
    let from = if regions.is_empty() { "no region".to_owned() } else { regions.join(", ") };
    let lasts = |until: i64| format!("for another {}", time_between(unix_now(), until));
    let (since, end) = (time_since(drain.since), drain.until.map_or("until undrained".to_owned(), lasts));
    let (member, names, by, reason) =
        (&drain.target.member, drained_names(drain), drained_by(drain), because(": ", &drain.reason));
    _ = writeln!(text, "{indent}drained: {member} {names} from {from} for {since}, {end}, by {by}{reason}");
}
