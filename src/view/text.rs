//! Times and columns as operators read them.
//!
//! Cost: O(text).

use crate::timestamp::format_timestamp;
use std::fmt::Write;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Seconds in the two largest units.
pub fn format_seconds(seconds: u64) -> String {
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3600 => format!("{}m{:02}s", seconds / 60, seconds % 60),
        3600..86400 => format!("{}h{:02}m", seconds / 3600, seconds / 60 % 60),
        _ => format!("{}d{:02}h", seconds / 86400, seconds / 3600 % 24),
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
    at.map_or("-".into(), |at| format_timestamp(time(at)))
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
