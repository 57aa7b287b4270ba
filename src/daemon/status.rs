//! What `aggregator status` shows: the keeper's view and the sources' view of each zone, together.

use crate::keeper::{RegionStatus, Snapshot, ZoneStatus};
use crate::name::Name;
use crate::serial::Serial;
use crate::transfer::Status as SourceStatus;
use serde::Serialize;
use std::collections::HashMap;
use std::fmt::Write;
use std::time::{Duration, SystemTime};

/// Everything, for `--json`.
#[derive(Serialize)]
pub struct Report {
    pub version: &'static str,
    pub uptime_seconds: u64,
    pub config: String,
    /// Unix time of the next full audit.
    pub next_audit: Option<i64>,
    pub generation: u64,
    pub regions: Vec<RegionStatus>,
    pub zones: Vec<ZoneReport>,
}

/// A source zone from both sides.
#[derive(Serialize)]
pub struct ZoneReport {
    #[serde(flatten)]
    pub kept: ZoneStatus,
    pub source: Option<SourceStatus>,
}

impl Report {
    /// Puts both views together; `only` leaves one zone or region.
    pub fn new(
        snapshot: Snapshot,
        mut sources: HashMap<Name, SourceStatus>,
        (uptime, config, next_audit): (Duration, String, Option<SystemTime>),
        only: Option<&Name>,
    ) -> Report {
        let wanted = |name: &Name| only.is_none_or(|only| only == name);
        let zones = snapshot.zones.into_iter().filter(|zone| wanted(&zone.zone));
        Report {
            version: env!("CARGO_PKG_VERSION"),
            uptime_seconds: uptime.as_secs(),
            config,
            next_audit: next_audit.map(crate::metrics::unix_seconds),
            generation: snapshot.generation,
            regions: snapshot.regions.into_iter().filter(|region| wanted(&region.region)).collect(),
            zones: zones.map(|kept| ZoneReport { source: sources.remove(&kept.zone), kept }).collect(),
        }
    }

    /// The overview, a line a zone.
    pub fn overview(&self) -> String {
        let mut text = String::new();
        let up = format_seconds(self.uptime_seconds);
        _ = writeln!(text, "aggregator {}, up {up}, configuration {}", self.version, self.config);
        let mut rows =
            vec![["ZONE", "STATE", "SERIAL", "RECORDS", "REFRESHED", "EXPIRES", "REMARKS"].map(str::to_owned)];
        for region in &self.regions {
            let members = region.members.iter().filter(|member| matches!(member.state, "ok" | "stale")).count();
            let mut remarks = format!("region, {members} of {} members", region.members.len());
            if region.conflict_names > 0 {
                _ = write!(remarks, ", {} conflicts", region.conflict_names);
            }
            if region.drift != 0 {
                _ = write!(remarks, ", drift {}", region.drift);
            }
            if region.ns_fallback {
                remarks.push_str(", NS: this server alone");
            }
            if !region.servers_without_address.is_empty() {
                remarks.push_str(", NS without address");
            }
            let (name, state) = (region.region.to_string(), region.state.label().to_owned());
            rows.push([name, state, serial(region.serial), region.records.to_string(), "".into(), "".into(), remarks]);
        }
        for zone in &self.zones {
            let kept = &zone.kept;
            let ago = |seconds: Option<u64>| seconds.map_or("-".into(), |seconds| format_seconds(seconds) + " ago");
            let remarks = zone.source.as_ref().map(remarks).unwrap_or_default();
            rows.push([
                kept.zone.to_string(),
                kept.state.label().to_owned(),
                serial(kept.serial),
                kept.records.to_string(),
                ago(kept.refreshed_seconds_ago),
                kept.expires_in_seconds.map_or("-".into(), |seconds| "in ".to_owned() + &format_seconds(seconds)),
                remarks,
            ]);
        }
        write_table(&mut text, &rows);
        text
    }

    /// Everything about the zones and regions that are left.
    pub fn details(&self) -> String {
        let mut text = String::new();
        self.zones.iter().for_each(|zone| write_zone(&mut text, zone));
        self.regions.iter().for_each(|region| write_region(&mut text, region));
        text
    }
}

/// What an operator should know of a zone's way in, in a few words.
fn remarks(source: &SourceStatus) -> String {
    let mut remarks = Vec::new();
    if let Some(held) = &source.held {
        remarks.push(format!("serial {} held back: {} of {} names", held.serial, held.names, held.served_names));
    }
    if source.failures > 0 {
        let failed = source.primaries.iter().find(|primary| primary.failures > 0);
        let result = failed.map_or("", |primary| &primary.result);
        remarks.push(format!("{} refreshes failed: {result}", source.failures));
    } else if let failing @ 1.. = source.primaries.iter().filter(|primary| primary.failures > 0).count() {
        remarks.push(format!("{failing} of {} primaries fail", source.primaries.len()));
    }
    remarks.join("; ")
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
    let Some(source) = &report.source else { return };
    if let Some(next) = source.next_refresh {
        let seconds = next - crate::metrics::unix_seconds(SystemTime::now());
        _ = writeln!(text, "  next refresh in {}", format_seconds(seconds.max(0).cast_unsigned()));
    }
    for primary in &source.primaries {
        let announced = serial(primary.announced);
        _ = writeln!(text, "  primary {}: serial {announced}, {}", primary.address, primary.result);
    }
    let remarks = remarks(source);
    if !remarks.is_empty() {
        _ = writeln!(text, "  {remarks}");
    }
}

/// Writes everything about a region.
fn write_region(text: &mut String, region: &RegionStatus) {
    _ = writeln!(text, "region {}", region.region);
    let (state, drift) = (region.state.label(), region.drift);
    _ = writeln!(text, "  state {state}, serial {} (sum of the members and drift {drift})", serial(region.serial));
    _ = writeln!(text, "  {} records at {} names", region.records, region.names);
    for member in &region.members {
        _ = writeln!(text, "  member {}: {}, serial {}", member.zone, member.state, serial(member.serial));
    }
    if region.ns_fallback {
        _ = writeln!(text, "  the members' NS sets have nothing in common: this server is listed alone; set \"ns\"");
    }
    for server in &region.servers_without_address {
        _ = writeln!(text, "  name server {server} has no address in the region");
    }
    _ = writeln!(text, "  {} names with conflicts", region.conflict_names);
    for (name, conflicts) in &region.conflicts {
        for conflict in conflicts {
            let member = &region.members[conflict.member].zone;
            let (kind, dropped) = (conflict.kind.label(), conflict.dropped);
            _ = writeln!(text, "    {name} {kind}: {member}, {dropped} records dropped");
        }
    }
}

/// A serial, or a dash.
fn serial(serial: Option<Serial>) -> String {
    serial.map_or("-".into(), |serial| serial.to_string())
}

/// Seconds in the two largest units.
fn format_seconds(seconds: u64) -> String {
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3600 => format!("{}m{:02}s", seconds / 60, seconds % 60),
        3600..86400 => format!("{}h{:02}m", seconds / 3600, seconds / 60 % 60),
        _ => format!("{}d{:02}h", seconds / 86400, seconds / 3600 % 24),
    }
}

/// Writes columns as wide as they must be.
fn write_table<const N: usize>(text: &mut String, rows: &[[String; N]]) {
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..N).map(width).collect();
    for row in rows {
        let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}"));
        _ = writeln!(text, "{}", cells.collect::<Vec<_>>().join("  ").trim_end());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_read_well() {
        let text = [5, 65, 3_700, 2_592_000].map(format_seconds);
        assert_eq!(text, ["5s", "1m05s", "1h01m", "30d00h"]);
    }

    #[test]
    fn columns_line_up() {
        let mut text = String::new();
        write_table(&mut text, &[["A".into(), "B".into()], ["long".into(), "".into()]]);
        assert_eq!(text, "A     B\nlong\n");
    }
}
