//! Times, versions, records, columns and texts from elsewhere as operators read them.
//!
//! Cost: O(text).

use crate::metrics::unix_seconds;
use crate::timestamp::format_timestamp;
use schemars::JsonSchema;
use serde::Serialize;
use std::fmt::{self, Display, Formatter, Write};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use wire::rr::{RdataText, TypeName, record_ttl};
use wire::serial::Serial;

/// Seconds in the two largest units.
pub fn format_seconds(seconds: u64) -> String {
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3600 => format!("{}m{:02}s", seconds / 60, seconds % 60),
        3600..86400 => format!("{}h{:02}m", seconds / 3600, seconds / 60 % 60),
        _ => format!("{}d{:02}h", seconds / 86400, seconds / 3600 % 24),
    }
}

/// The time since a moment, Unix seconds.
pub fn time_since(at: i64) -> String {
    time_between(at, unix_now())
}

/// The time from one moment to another; none if that was before.
pub fn time_between(from: i64, to: i64) -> String {
    format_seconds((to - from).max(0).cast_unsigned())
}

/// The present, Unix seconds.
pub fn unix_now() -> i64 {
    unix_seconds(SystemTime::now())
}

/// How long ago something was, or a dash.
pub fn ago(seconds: Option<u64>) -> String {
    or_dash(seconds.map(|seconds| format_seconds(seconds) + " ago"))
}

/// When something will be, or a dash.
pub fn ahead(seconds: Option<u64>) -> String {
    or_dash(seconds.map(|seconds| "in ".to_owned() + &format_seconds(seconds)))
}

/// A value, or a dash.
pub fn or_dash(value: Option<impl ToString>) -> String {
    value.map_or("-".to_owned(), |value| value.to_string())
}

/// A version and its time, Unix seconds.
pub fn describe_version(serial: Serial, at: Option<i64>) -> String {
    let at = at.map_or(String::new(), |at| format!(" of {}", moment(Some(at))));
    format!("version {serial}{at}")
}

/// Text from elsewhere, harmless on a terminal.
pub fn printable(text: &str) -> String {
    let escape = |character: char| match character.is_control() {
        true => character.escape_default().to_string(),
        false => character.to_string(),
    };
    text.chars().map(escape).collect()
}

/// The reason of an order behind other words; empty if none was given.
pub fn because(before: &str, reason: &Option<String>) -> String {
    let reason = reason.as_deref().filter(|reason| !reason.is_empty());
    reason.map(|reason| format!("{before}{}", printable(reason))).unwrap_or_default()
}

/// A record as zone files have it, without its owner.
#[derive(Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct RecordText {
    #[serde(rename = "type")]
    pub rtype: String,
    pub ttl: u32,
    pub data: String,
}

impl RecordText {
    /// Reads a record.
    pub fn new(rtype: u16, ttl: u32, rdata: &[u8]) -> RecordText {
        let ttl = record_ttl(rtype, ttl, rdata);
        RecordText { rtype: TypeName(rtype).to_string(), ttl, data: RdataText(rtype, rdata).to_string() }
    }
}

impl Display for RecordText {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}", self.ttl, self.rtype, self.data)
    }
}

/// Writes columns as wide as they must be.
pub fn write_table(text: &mut String, rows: &[impl AsRef<[String]>]) {
    let width = |column: usize| rows.iter().map(|row| row.as_ref()[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..rows.first().map_or(0, |row| row.as_ref().len())).map(width).collect();
    for row in rows {
        let cells = row.as_ref().iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}"));
        _ = writeln!(text, "{}", cells.collect::<Vec<_>>().join("  ").trim_end());
    }
}

/// Unix time as text, or a dash.
pub fn moment(at: Option<i64>) -> String {
    let time = |at: i64| -> SystemTime { UNIX_EPOCH + Duration::from_secs(at.max(0).cast_unsigned()) };
    or_dash(at.map(|at| format_timestamp(time(at))))
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
