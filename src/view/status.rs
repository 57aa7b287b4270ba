//! Status as text for people: the overview, a line a zone, and everything about one.
//!
//! Cost: O(text).

use super::Handle;
use super::columns::write_columns;
use super::handle::{not_configured, read_zone};
use super::lookup::printable;
use super::outward::{Outward, TransferCounts};
use super::remarks::remarks;
use super::report::{CatalogReport, RegionReport, Report, ZoneReport};
use super::text::{format_seconds, moment};
use super::zones::{columns, lines};
use crate::config::format_size;
use crate::control::Reply;
use crate::daemon::probe::ProbeReport;
use crate::daemon::sources::SourceStatus;
use crate::keeper::{DrainStatus, PinStatus};
use crate::metrics::unix_seconds;
use crate::source::static_zone::StaticZoneStatus;
use crate::source::zookeeper::TreeStatus;
use crate::transfer::{self, SilenceStatus};
use std::fmt::Write;
use std::time::SystemTime;
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
    _ = writeln!(text, "  state {}, serial {}", kept.state.label(), serial(kept.serial));
    _ = writeln!(text, "  {} records at {} names", kept.records, kept.names);
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

/// Writes the state of a zone's primaries.
fn write_transfers(text: &mut String, report: &ZoneReport, source: &transfer::Status) {
    let at_primary = serial(report.newest_at_primary());
    let (here, notified) = (serial(report.kept.serial), serial(report.outward.notified()));
    _ = writeln!(text, "  serials: {here} served, {at_primary} at the primary, {notified} told to secondaries");
    if let Some(next) = source.next_refresh {
        let seconds = next - unix_seconds(SystemTime::now());
        _ = writeln!(text, "  next refresh in {}", format_seconds(seconds.max(0).cast_unsigned()));
    }
    if let Some(wait) = source.activity.describe_wait() {
        _ = writeln!(text, "  {wait}");
    }
    for primary in &source.primaries {
        let announced = serial(primary.announced);
        _ = writeln!(text, "  primary {}: serial {announced}, {}", primary.address, primary.result);
        for line in primary.silence.iter().flat_map(describe_silence) {
            _ = writeln!(text, "    {line}");
        }
    }
    let remarks = remarks(report);
    if !remarks.is_empty() {
        _ = writeln!(text, "  {remarks}");
    }
    if let Some(counts) = describe_counts(report.outward.received) {
        _ = writeln!(text, "  transfers from primaries: {counts}");
    }
}

/// Describes the assumption that CNS may send no NOTIFY, and the remedy that was tried.
fn describe_silence(silence: &SilenceStatus) -> Vec<String> {
    let now = unix_seconds(SystemTime::now());
    let seconds = |from: i64, to: i64| format_seconds((to - from).max(0).cast_unsigned());
    let assumed = silence.until.map(|until| {
        let owed = if silence.owed { "; no transfer has started CNS' time yet" } else { "" };
        format!("silence assumed for another {} unless NOTIFY comes: polled every 10 s{owed}", seconds(now, until))
    });
    let asked = silence.asked.map(|asked| format!("asked at our own serial {} ago, for NOTIFY", seconds(asked, now)));
    assumed.into_iter().chain(asked).collect()
}

/// Writes the state of the tree that a zone comes from.
fn write_tree(text: &mut String, report: &ZoneReport, source: &TreeStatus) {
    let (here, notified) = (serial(report.kept.serial), serial(report.outward.notified()));
    _ = writeln!(text, "  serials: {here} served, {notified} told to secondaries");
    let ago = |at: Option<i64>| {
        let seconds = |at: i64| (unix_seconds(SystemTime::now()) - at).max(0).cast_unsigned();
        at.map_or("never".to_owned(), |at| format_seconds(seconds(at)) + " ago")
    };
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
    let remarks = remarks(report);
    if !remarks.is_empty() {
        _ = writeln!(text, "  {remarks}");
    }
    for payload in &source.broken_payloads {
        _ = writeln!(text, "  faulty {}: {}", payload.node, payload.error);
    }
    if let more @ 1.. = source.broken.saturating_sub(source.broken_payloads.len() as u64) {
        _ = writeln!(text, "  and {more} more");
    }
}

/// Writes the settings of a zone of our own.
fn write_services(text: &mut String, report: &ZoneReport, source: &StaticZoneStatus) {
    let (here, notified) = (serial(report.kept.serial), serial(report.outward.notified()));
    _ = writeln!(text, "  serials: {here} served, {notified} told to secondaries");
    let read = (unix_seconds(SystemTime::now()) - source.configured).max(0).cast_unsigned();
    _ = writeln!(text, "  made of the configuration as it was read {} ago", format_seconds(read));
    for service in &source.openstack {
        _ = writeln!(text, "  openstack {}: {}", service.kind, service.url);
    }
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
        let (told, acknowledged) = (serial(target.notified), serial(target.acknowledged));
        _ = writeln!(
            text,
            "  secondary {}: told {told}, acknowledged {acknowledged}, {}",
            target.address, target.result
        );
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
    let (here, notified) = (serial(catalog.serial), serial(catalog.outward.notified()));
    _ = writeln!(text, "  serials: {here} served, {notified} told to secondaries");
    write_outward(text, &catalog.outward);
}

/// Writes everything about a region.
fn write_region(text: &mut String, RegionReport { kept: region, outward }: &RegionReport) {
    _ = writeln!(text, "region {}", region.region);
    let (state, drift) = (region.state.label(), region.drift);
    match &region.pinned {
        Some(pin) => {
            _ = writeln!(text, "  state {state}, serial {}", serial(region.serial));
            _ = writeln!(text, "  {}", describe_pin(pin));
        }
        None => {
            let serial = serial(region.serial);
            _ = writeln!(text, "  state {state}, serial {serial} (sum of the members and drift {drift})");
        }
    }
    _ = writeln!(text, "  {} records at {} names", region.records, region.names);
    _ = writeln!(
        text,
        "  serials: {} served, {} told to secondaries",
        serial(region.serial),
        serial(outward.notified())
    );
    for member in &region.members {
        _ = writeln!(text, "  member {}: {}, serial {}", member.zone, member.state, serial(member.serial));
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
    if region.held_addresses > 0 {
        let held = region.held_addresses;
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
    let ago = (unix_seconds(SystemTime::now()) - report.asked).max(0).cast_unsigned();
    _ = writeln!(text, "name servers of {}, asked {} ago", report.check.zone, format_seconds(ago));
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
    let reason = pin.reason.as_deref().map(|reason| format!(": {}", printable(reason))).unwrap_or_default();
    format!("pinned to version {} since {}{reason}", pin.to, moment(Some(pin.since)))
}

/// Writes one drain.
fn write_drain(text: &mut String, indent: &str, drain: &DrainStatus) {
    let names = drain.target.names.as_ref().map_or("all names".to_owned(), |names| names.to_string());
    let regions: Vec<String> = drain.regions.iter().map(Name::to_string).collect();
    let from = if regions.is_empty() { "no region".to_owned() } else { regions.join(", ") };
    let now = unix_seconds(SystemTime::now());
    let seconds = |from: i64, to: i64| format_seconds((to - from).max(0).cast_unsigned());
    let end = drain.until.map_or("until undrained".to_owned(), |until| format!("for another {}", seconds(now, until)));
    let by = if drain.configured { "configuration" } else { "order" };
    let reason = drain.reason.as_deref().map(|reason| format!(": {}", printable(reason))).unwrap_or_default();
    let since = seconds(drain.since, now);
    _ = writeln!(
        text,
        "{indent}drained: {} {names} from {from} for {since}, {end}, by {by}{reason}",
        drain.target.member
    );
}

/// A serial, or a dash.
fn serial(serial: Option<Serial>) -> String {
    serial.map_or("-".into(), |serial| serial.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::notify::TargetStatus;
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
