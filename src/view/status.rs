//! Status as text for people: the overview, a line a zone, and everything about one.
//!
//! Cost: O(text).

use super::Handle;
use super::columns::write_columns;
use super::handle::{not_configured, read_zone};
use super::outward::{Outward, TransferCounts};
use super::page::rows::{drained_by, drained_names};
use super::remarks::remarks;
use super::report::{CatalogReport, RegionReport, Report, ZoneReport};
use super::sizes::{Audience, SizesReport};
use super::steering::SteeringReport;
use super::text::{because, format_seconds, moment, or_dash, time_between, time_since, unix_now};
use super::zones::{columns, lines};
use crate::config::format_size;
use crate::control::Reply;
use crate::daemon::probe::ProbeReport;
use crate::daemon::sources::SourceStatus;
use crate::keeper::{DrainStatus, PinStatus, RegionStatus, Unfiltered};
use crate::merge::Alike;
use crate::notify::TargetStatus;
use crate::source::static_zone::StaticZoneStatus;
use crate::source::zookeeper::TreeStatus;
use crate::transfer::{self, SilenceStatus};
use std::fmt::{Display, Write};
use wire::name::Name;
use wire::serial::Serial;

/// Shows all zones, or everything about one.
pub fn status(view: &Handle, only: Option<&str>) -> Result<Reply, String> {
    let name = only.map(read_zone).transpose()?;
    let report = Report::collect(view, name.as_ref());
    if let Some(name) = name.as_ref().filter(|_| report.is_empty()) {
        return Err(not_configured(name));
    }
    let text = if name.is_some() { report.details() } else { report.overview() };
    Ok(Reply { ok: true, text, data: serde_json::json!(report) })
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
    pub fn overview(&self) -> String {
        let mut text = String::new();
        let up = format_seconds(self.uptime_seconds);
        _ = writeln!(text, "aggregator {}, up {up}, configuration {}", self.version, self.config);
        _ = writeln!(text, "{}", self.state.describe());
        _ = writeln!(text, "{}", self.memory.describe());
        write_columns(&mut text, &columns(), &lines(self));
        self.drains.iter().for_each(|drain| write_drain(&mut text, "", drain));
        text
    }

    /// Describes the zones and regions of the report in full.
    pub fn details(&self) -> String {
        let mut text = String::new();
        self.zones.iter().for_each(|zone| write_zone(&mut text, zone));
        self.regions.iter().for_each(|region| write_region(&mut text, region));
        self.drains.iter().for_each(|drain| write_drain(&mut text, "  ", drain));
        self.catalog.iter().for_each(|catalog| write_catalog(&mut text, catalog));
        self.name_servers.iter().for_each(|report| write_probe(&mut text, report));
        text
    }
}

/// Writes everything about a source zone.
fn write_zone(text: &mut String, report: &ZoneReport) {
    let kept = &report.kept;
    _ = writeln!(text, "zone {}", kept.zone);
    _ = writeln!(text, "  state {}, serial {}", kept.state.label(), or_dash(kept.serial));
    _ = writeln!(text, "  {} records at {} names", kept.records, kept.names);
    write_sizes(text, report.sizes, false);
    if let (Some(refreshed), Some(expires)) = (kept.refreshed_seconds_ago, kept.expires_in_seconds) {
        let (refreshed, expires) = (format_seconds(refreshed), format_seconds(expires));
        _ = writeln!(text, "  refreshed {refreshed} ago, expires in {expires}");
    }
    if kept.conflict_names > 0 {
        _ = writeln!(text, "  {} names with records that the zone cannot hold", kept.conflict_names);
    }
    for (name, conflicts) in &kept.conflicts {
        for conflict in conflicts {
            _ = writeln!(text, "    {name} {}: {} records dropped", conflict.kind.label(), conflict.dropped);
        }
    }
    match &report.source {
        Some(SourceStatus::Primaries(source)) => write_transfers(text, report, source),
        Some(SourceStatus::Tree(source)) => write_tree(text, report, source),
        Some(SourceStatus::Services(source)) => write_services(text, report, source),
        None => {}
    }
    write_outward(text, &report.outward);
}

/// Writes which sets are large, and what follows, if there are any.
fn write_sizes(text: &mut String, sizes: SizesReport, is_region: bool) {
    let Some(remark) = sizes.remark() else { return };
    _ = writeln!(text, "  {remark}; see docs/answers.md");
    let audience = Audience { is_region, has_secondaries: true };
    sizes.consequences(audience).iter().for_each(|line| _ = writeln!(text, "    {line}"));
}

/// Writes the state of a zone's primaries.
fn write_transfers(text: &mut String, report: &ZoneReport, source: &transfer::Status) {
    let at_primary = or_dash(report.newest_at_primary());
    let (here, notified) = (or_dash(report.kept.serial), or_dash(report.outward.notified()));
    _ = writeln!(text, "  serials: {here} served, {at_primary} at the primary, {notified} told to secondaries");
    if let Some(next) = source.next_refresh {
        _ = writeln!(text, "  next refresh in {}", time_between(unix_now(), next));
    }
    if let Some(wait) = source.activity.describe_wait() {
        _ = writeln!(text, "  {wait}");
    }
    for primary in &source.primaries {
        let announced = or_dash(primary.announced);
        _ = writeln!(text, "  primary {}: serial {announced}, {}", primary.address, primary.result);
        for line in primary.silence.iter().flat_map(describe_silence) {
            _ = writeln!(text, "    {line}");
        }
    }
    write_remarks(text, report);
    if let Some(counts) = describe_counts(report.outward.received) {
        _ = writeln!(text, "  transfers from primaries: {counts}");
    }
}

/// Writes the remarks on a zone, if there are any.
fn write_remarks(text: &mut String, report: &ZoneReport) {
    let remarks = remarks(report);
    if !remarks.is_empty() {
        _ = writeln!(text, "  {remarks}");
    }
}

/// Describes the assumption that CNS may send no NOTIFY, and the remedy that was tried.
fn describe_silence(silence: &SilenceStatus) -> Vec<String> {
    let assumed = silence.until.map(|until| {
        let owed = if silence.owed { "; no transfer has started CNS' time yet" } else { "" };
        let lasts = time_between(unix_now(), until);
        format!("silence assumed for another {lasts} unless NOTIFY comes: polled every 10 s{owed}")
    });
    let asked = silence.asked.map(|asked| format!("asked at our own serial {} ago, for NOTIFY", time_since(asked)));
    assumed.into_iter().chain(asked).collect()
}

/// Writes the state of the tree that a zone comes from.
fn write_tree(text: &mut String, report: &ZoneReport, source: &TreeStatus) {
    write_serials(text, report.kept.serial, &report.outward);
    let ago = |at: Option<i64>| at.map_or("never".to_owned(), |at| time_since(at) + " ago");
    let member = source.member.as_deref().unwrap_or("none yet");
    let (state, since, contact) = (source.session.label(), ago(source.since), ago(source.last_contact));
    _ = writeln!(text, "  ZooKeeper: {state}, member {member}, session begun {since}, last answer {contact}");
    let nodes = source.nodes.map_or("not read yet".to_owned(), |nodes| format!("{nodes} nodes"));
    let zxid = source.zxid.as_ref().map(|zxid| format!(", newest change {zxid}")).unwrap_or_default();
    let watches = source.watches.map(|watches| format!(", watches {watches}")).unwrap_or_default();
    _ = writeln!(text, "  tree {}: {nodes}{zxid}{watches}", source.path);
    _ = writeln!(text, "  {} events, {} sessions lost", source.events, source.losses);
    if source.tree != report.kept.zone {
        _ = writeln!(text, "  made of the tree of {}", source.tree);
    }
    for zone in source.reverse.iter().filter(|_| source.tree == report.kept.zone) {
        _ = writeln!(text, "  reverse zone {zone}");
    }
    if source.failures > 0 {
        _ = writeln!(text, "  {} attempts failed", source.failures);
    }
    write_remarks(text, report);
    for payload in &source.broken_payloads {
        _ = writeln!(text, "  faulty {}: {}", payload.node, payload.error);
    }
    if let more @ 1.. = source.broken.saturating_sub(source.broken_payloads.len() as u64) {
        _ = writeln!(text, "  and {more} more");
    }
}

/// Writes the settings of a zone of our own.
fn write_services(text: &mut String, report: &ZoneReport, source: &StaticZoneStatus) {
    write_serials(text, report.kept.serial, &report.outward);
    _ = writeln!(text, "  made of the configuration as it was read {} ago", time_since(source.configured));
    for service in &source.openstack {
        _ = writeln!(text, "  openstack {}: {}", service.kind, service.url);
    }
}

/// Writes the serials of a zone, region or catalog.
fn write_serials(text: &mut String, here: Option<Serial>, outward: &Outward) {
    let (here, notified) = (or_dash(here), or_dash(outward.notified()));
    _ = writeln!(text, "  serials: {here} served, {notified} told to secondaries");
}

/// Writes what a zone, region or catalog has for its secondaries.
fn write_outward(text: &mut String, outward: &Outward) {
    let history = &outward.history;
    if let Some(from) = history.from {
        let (versions, bytes) = (history.versions, format_size(history.bytes as u64));
        _ = writeln!(text, "  history from serial {from}: {versions} versions, {bytes}");
    }
    if let Some(counts) = describe_counts(outward.sent) {
        _ = writeln!(text, "  transfers to secondaries: {counts}");
    }
    for target in &outward.secondaries {
        let TargetStatus { address, notified, acknowledged, result } = target;
        let (told, acknowledged) = (or_dash(*notified), or_dash(*acknowledged));
        _ = writeln!(text, "  secondary {address}: told {told}, acknowledged {acknowledged}, {result}");
    }
}

/// Numbers of transfers; none when there were none.
fn describe_counts(counts: TransferCounts) -> Option<String> {
    let TransferCounts { incremental, full } = counts;
    (incremental + full > 0).then(|| format!("{incremental} incremental, {full} full"))
}

/// Writes everything about the catalog zone.
fn write_catalog(text: &mut String, catalog: &CatalogReport) {
    _ = writeln!(text, "catalog {}", catalog.zone);
    write_serials(text, catalog.serial, &catalog.outward);
    write_outward(text, &catalog.outward);
}

/// Writes everything about a region.
fn write_region(text: &mut String, RegionReport { kept: region, sizes, steering, outward }: &RegionReport) {
    _ = writeln!(text, "region {}", region.region);
    let (state, serial, drift) = (region.state.label(), or_dash(region.serial), region.drift);
    _ = match &region.pinned {
        Some(pin) => writeln!(text, "  state {state}, serial {serial}\n  {}", describe_pin(pin)),
        None => writeln!(text, "  state {state}, serial {serial} (sum of the members and drift {drift})"),
    };
    _ = writeln!(text, "  {} records at {} names", region.records, region.names);
    write_sizes(text, *sizes, true);
    write_serials(text, region.serial, outward);
    for member in &region.members {
        _ = writeln!(text, "  member {}: {}, serial {}", member.zone, member.state, or_dash(member.serial));
    }
    for line in steering.iter().flat_map(SteeringReport::lines) {
        _ = writeln!(text, "  {line}");
    }
    if let Some(theirs) = region.followed {
        _ = writeln!(text, "  went on at the start from serial {theirs}, which another server had");
    }
    if let Some(theirs) = region.newer_elsewhere {
        let until = if region.pinned.is_some() { "the pin is released" } else { "every member is confirmed" };
        _ = writeln!(text, "  another server has serial {theirs}; it is followed only after {until}");
    }
    if region.ns_fallback {
        _ = writeln!(text, "  the members' NS sets have nothing in common: this server is listed alone; set \"ns\"");
    }
    for server in &region.servers_without_address {
        _ = writeln!(text, "  name server {server} has no address in the region");
    }
    for warning in address_warnings(region) {
        _ = writeln!(text, "  {warning}");
    }
    if let held @ 1.. = region.held_addresses {
        _ = writeln!(
            text,
            "  {held} addresses that members have withdrawn are held; \"aggregator lookup\" tells until when"
        );
    }
    _ = writeln!(text, "  {} names with conflicts", region.conflict_names);
    for (name, conflicts) in &region.conflicts {
        for conflict in conflicts {
            let member = &region.members[conflict.member].zone;
            let (kind, dropped) = (conflict.kind.label(), conflict.dropped);
            let by = conflict.by.map(|by| format!(" because of {}", region.members[by].zone)).unwrap_or_default();
            _ = writeln!(text, "    {name} {kind}: {member}, {dropped} records dropped{by}");
        }
    }
    write_outward(text, outward);
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

/// Describes a pin: the version, the time and the reason.
pub fn describe_pin(pin: &PinStatus) -> String {
    format!("pinned to version {} since {}{}", pin.to, moment(Some(pin.since)), because(": ", &pin.reason))
}

/// Says what is doubtful about the addresses that clients of a region get.
pub fn address_warnings(region: &RegionStatus) -> Vec<String> {
    let alike = region.alike_addresses.as_ref().map(|Alike { names, example }| describe_alike(*names as u64, example));
    let unfiltered = region.unfiltered.as_ref();
    let unfiltered = unfiltered.map(|Unfiltered { name, target, zone }| describe_unfiltered(name, target, zone));
    alike.into_iter().chain(unfiltered).collect()
}

/// Describes names with private addresses of several members.
pub fn describe_alike(names: u64, example: impl Display) -> String {
    let names = if names == 1 { "1 name has".to_owned() } else { format!("{names} names have") };
    format!(
        "{names} addresses of one private network from several members, which nobody can tell apart, such as {example}; \
         leave them out with \"addresses\""
    )
}

/// Describes a record by which clients of a filtered region get to other addresses.
pub fn describe_unfiltered(name: impl Display, target: impl Display, zone: impl Display) -> String {
    format!("{name} leads to {target}, and zone {zone} is not filtered as the region is")
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::outward::HistoryReport;

    #[test]
    fn the_ways_out_are_told() {
        let mut text = String::new();
        write_outward(&mut text, &Outward::default());
        assert_eq!(text, "", "nothing to tell");
        let target = TargetStatus {
            address: "192.0.2.9:53".parse().unwrap(),
            notified: Some(Serial(7)),
            acknowledged: Some(Serial(6)),
            result: "no reply".into(),
        };
        let outward = Outward {
            history: HistoryReport { versions: 3, bytes: 2048, from: Some(Serial(4)) },
            secondaries: vec![target],
            received: TransferCounts::default(),
            sent: TransferCounts { incremental: 5, full: 1 },
        };
        write_outward(&mut text, &outward);
        let expected = "  history from serial 4: 3 versions, 2KiB\n  transfers to secondaries: 5 incremental, 1 full\n  \
                        secondary 192.0.2.9:53: told 7, acknowledged 6, no reply\n";
        assert_eq!(text, expected);
        assert_eq!(outward.notified(), Some(Serial(7)));
    }
}
