//! `aggregator top`: the regions, zones and queries on a terminal, drawn anew each second until `q` is pressed.
//!
//! It asks the running server for its status, as `aggregator status --json` does. Where there is no terminal, it prints
//! one picture and ends.
//!
//! Invariants: no line is wider than the terminal, no picture higher; the terminal is as it was when this ends.
//!
//! Cost: one request a second, O(zones).

use super::paint::style_of;
use super::retransfer::progress_of;
use super::{Outcome, call, print};
use crate::control::Request;
use crate::terminal::{self, Keys, Stream, Style, render};
use crate::view::text::{ago, ahead, format_seconds, or_dash};
use serde_json::Value;
use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

/// Time between pictures.
const PACE: Duration = Duration::from_secs(1);
/// Seconds in the chart of queries.
const CHART: usize = 60;
/// Width of the picture, in columns, if the terminal does not give its own.
const WIDTH: usize = 120;
/// Control sequence that changes to the alternate screen (DEC private mode 1049) and hides the cursor (DECTCEM).
const ENTER: &str = "\x1b[?1049h\x1b[?25l";
/// Control sequence that shows the cursor and goes back to the screen before.
const LEAVE: &str = "\x1b[?25h\x1b[?1049l";

/// Heights of a chart in eighths.
const BLOCKS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// Shows pictures until the user ends it.
pub fn top(socket: &Path) -> Outcome {
    let request = Request::Status { zone: None };
    let first = call(socket, &request)?.data;
    let keys = if terminal::is_live(Stream::Output) { Keys::take() } else { None };
    let Some(keys) = keys else {
        let picture = Picture { status: &first, history: &[], note: "" };
        return print(&picture.draw(WIDTH, usize::MAX, 0, false).join("\n"));
    };
    let _screen = Screen::enter();
    let (mut status, mut note, mut skipped) = (first, String::new(), 0);
    let mut history = Vec::new();
    let color = terminal::is_colored(Stream::Output);
    loop {
        history.push(status["queries"]["per_second"].as_f64().unwrap_or(0.0));
        if history.len() > CHART {
            history.remove(0);
        }
        let drawn = show(&Picture { status: &status, history: &history, note: &note }, skipped, color);
        // The terminal has gone.
        let Ok(most) = drawn else { return Ok(ExitCode::SUCCESS) };
        match read_keys(&keys.wait(PACE)) {
            Key::Quit => return Ok(ExitCode::SUCCESS),
            Key::Move(rows) => skipped = skipped.saturating_add_signed(rows).min(most),
            Key::Nothing => {}
        }
        match call(socket, &request) {
            Ok(reply) => (status, note) = (reply.data, String::new()),
            Err(failure) => note = failure.text,
        }
    }
}

/// Command that a key gives.
#[derive(Debug, PartialEq, Eq)]
enum Key {
    Quit,
    /// Scroll down by so many rows, or up if negative.
    Move(isize),
    Nothing,
}

/// Reads the keys pressed: `q`, control and C, arrows and pages, or `j` and `k`.
fn read_keys(pressed: &[u8]) -> Key {
    match pressed {
        [b'q' | b'Q' | 3, ..] => Key::Quit,
        [b'j', ..] | b"\x1b[B" | b"\x1bOB" => Key::Move(1),
        [b'k', ..] | b"\x1b[A" | b"\x1bOA" => Key::Move(-1),
        b" " | b"\x1b[6~" => Key::Move(10),
        b"\x1b[5~" => Key::Move(-10),
        _ => Key::Nothing,
    }
}

/// Draws a picture on the terminal; returns how many rows can be skipped at most.
fn show(picture: &Picture<'_>, skipped: usize, color: bool) -> io::Result<usize> {
    let (columns, rows) = terminal::size().unwrap_or((WIDTH, 24));
    let lines = picture.draw(columns, rows, skipped, color);
    // From the first place on (CUP); each line to its end (EL), and what is below (ED).
    let lines: Vec<String> = lines.iter().map(|line| format!("{line}\x1b[K")).collect();
    print_raw(&format!("\x1b[H{}\x1b[J", lines.join("\r\n")))?;
    Ok(picture.rows().len().saturating_sub(rows.saturating_sub(picture.head(columns).len() + 1)))
}

/// The alternate screen, which is left when this is dropped.
struct Screen;

impl Screen {
    /// Changes to the alternate screen.
    fn enter() -> Screen {
        // The terminal may be gone, as below.
        let _ = print_raw(ENTER);
        Screen
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        let _ = print_raw(LEAVE);
    }
}

/// Writes to the terminal as it is.
fn print_raw(text: &str) -> io::Result<()> {
    let mut output = io::stdout().lock();
    output.write_all(text.as_bytes())?;
    output.flush()
}

//--- Pictures ---

/// State of the server at one moment, ready to be drawn.
struct Picture<'a> {
    status: &'a Value,
    /// Queries a second, oldest first.
    history: &'a [f64],
    /// Error that keeps the picture from being current; empty if it is current.
    note: &'a str,
}

/// The columns of the table.
const COLUMNS: [&str; 8] = ["ZONE", "STATE", "SERIAL", "LAG", "RECORDS", "REFRESHED", "EXPIRES", "REMARKS"];
/// The ones of numbers.
const NUMBERS: [usize; 3] = [2, 3, 4];

/// Row of the table.
type Row = [String; COLUMNS.len()];

impl Picture<'_> {
    /// The lines of a picture, from a row of the table on.
    fn draw(&self, width: usize, height: usize, skipped: usize, color: bool) -> Vec<String> {
        let rows = self.rows();
        let mut lines = self.head(width);
        let heads = COLUMNS.map(str::to_owned);
        let width_of = |column: usize| rows.iter().map(move |row| row[column].chars().count());
        let widths: Vec<usize> =
            (0..COLUMNS.len()).map(|column| width_of(column).fold(COLUMNS[column].len(), usize::max)).collect();
        lines.push(vec![(Style::Dim, cells(&heads, &widths).concat())]);
        for row in rows.iter().skip(skipped) {
            let mut pieces: Vec<(Style, String)> =
                cells(row, &widths).into_iter().map(|cell| (Style::Plain, cell)).collect();
            pieces[1].0 = style_of(&row[1]);
            if !row[0].starts_with(' ') {
                pieces[0].0 = Style::Bold;
            }
            lines.push(pieces);
        }
        lines.truncate(height.saturating_sub(1));
        lines.iter().map(|line| render(line, width, color)).collect()
    }

    /// Returns the lines above the table.
    fn head(&self, width: usize) -> Vec<Vec<(Style, String)>> {
        let number = |path: &str| self.status.pointer(path).and_then(Value::as_u64).unwrap_or(0);
        let version = self.status["version"].as_str().unwrap_or_default();
        let up = format_seconds(number("/uptime_seconds"));
        let publications = number("/generation");
        let mut title = vec![(Style::Bold, format!("aggregator {version}"))];
        if self.note.is_empty() {
            title.push((Style::Plain, format!("  up {up}, {publications} publications")));
            // Where there is no history, there are no keys.
            title.extend((!self.history.is_empty()).then(|| (Style::Dim, "  q ends".to_owned())));
        } else {
            title.push((Style::Bad, format!("  {}", self.note)));
        }
        let queries = &self.status["queries"];
        let mut rates = vec![(Style::Bold, format!("{} queries a second", rate(&queries["per_second"])))];
        for (name, per_second) in queries["rcodes"].as_object().into_iter().flatten() {
            let style = if matches!(name.as_str(), "NOERROR" | "NXDOMAIN") { Style::Plain } else { Style::Warning };
            rates.push((style, format!("  {name} {}", rate(per_second))));
        }
        let mut lines = vec![title, rates];
        if !self.history.is_empty() {
            lines.push(vec![(Style::Good, chart(self.history, width.min(CHART)))]);
        }
        if let Some(error) = self.status.pointer("/state/error").filter(|error| !error.is_null()) {
            lines.push(vec![(Style::Bad, format!("state folder: {}", text(error)))]);
        }
        lines.push(Vec::new());
        lines
    }

    /// Regions with their members, then the zones that are in none.
    fn rows(&self) -> Vec<Row> {
        let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
        let mut zones = list(&self.status["zones"]);
        let mut rows = Vec::new();
        let mut members = Vec::new();
        for region in list(&self.status["regions"]) {
            rows.push(region_row(&region));
            for member in list(&region["members"]) {
                let zone = zones.iter().find(|zone| zone["zone"] == member["zone"]).unwrap_or(&Value::Null);
                rows.push(zone_row("  ", &member["zone"], &member["state"], zone));
                members.push(member["zone"].clone());
            }
        }
        zones.retain(|zone| !members.contains(&zone["zone"]));
        rows.extend(zones.iter().map(|zone| zone_row("", &zone["zone"], &zone["state"], zone)));
        rows
    }
}

/// A region as a row.
fn region_row(region: &Value) -> Row {
    let state = text(&region["state"]);
    let mut remarks = Vec::new();
    for (key, what) in [("conflict_names", "conflicts"), ("held_addresses", "addresses held"), ("drift", "drift")] {
        if let Some(count @ 1..) = region[key].as_u64() {
            remarks.push(format!("{count} {what}"));
        }
    }
    let (name, serial, records) = (name(&region["region"]), text(&region["serial"]), text(&region["records"]));
    let none = String::new;
    [name, state, serial, none(), records, none(), none(), remarks.join(", ")]
}

/// A source zone as a row.
fn zone_row(indent: &str, zone_name: &Value, state: &Value, zone: &Value) -> Row {
    let source = &zone["source"];
    let primaries = source["primaries"].as_array().map_or(&[][..], Vec::as_slice);
    let failing = primaries.iter().find(|primary| primary["failures"].as_u64() > Some(0));
    let remark = failing.map(|primary| format!("{}: {}", text(&primary["address"]), text(&primary["result"])));
    let held = (!source["held"].is_null()).then(|| "held back".to_owned());
    let running = (!source["running"].is_null()).then(|| progress_of(&source["running"]).describe());
    let setback = (!source["setback"].is_null()).then(|| "all primaries are older".to_owned());
    let error = (!source["error"].is_null()).then(|| text(&source["error"]));
    [
        format!("{indent}{}", name(zone_name)),
        text(state),
        text(&zone["serial"]),
        lag(&zone["serial"], primaries),
        text(&zone["records"]),
        ago(zone["refreshed_seconds_ago"].as_u64()),
        ahead(zone["expires_in_seconds"].as_u64()),
        held.or(running).or(setback).or(error).or(remark).unwrap_or_default(),
    ]
}

/// Returns the number of serials by which a zone is behind the newest of its primaries.
fn lag(serial: &Value, primaries: &[Value]) -> String {
    let number = |value: &Value| value.as_u64().and_then(|number| u32::try_from(number).ok());
    let Some(here) = number(serial) else { return "-".to_owned() };
    let announced = primaries.iter().filter_map(|primary| number(&primary["announced"]));
    // What is further away than half of the circle is older (RFC 1982 section 3.2).
    let behind = |there: u32| Some(there.wrapping_sub(here)).filter(|behind| *behind < 1 << 31).unwrap_or(0);
    or_dash(announced.map(behind).max())
}

/// A name without the dot at its end.
fn name(value: &Value) -> String {
    text(value).trim_end_matches('.').to_owned()
}

/// A value as text, without anything that moves the cursor.
fn text(value: &Value) -> String {
    match value {
        Value::Null => "-".to_owned(),
        Value::String(text) => text.replace(char::is_control, " "),
        other => other.to_string(),
    }
}

/// A rate as text.
fn rate(value: &Value) -> String {
    let rate = value.as_f64().unwrap_or(0.0);
    if rate < 100.0 { format!("{rate:.1}") } else { format!("{rate:.0}") }
}

/// The cells of a row, as wide as their columns.
fn cells(row: &Row, widths: &[usize]) -> Vec<String> {
    let cell = |(column, text): (usize, &String)| {
        let width = widths[column];
        if NUMBERS.contains(&column) { format!("{text:>width$}  ") } else { format!("{text:width$}  ") }
    };
    row.iter().enumerate().map(cell).collect()
}

/// Numbers as a row of blocks, as high as the largest.
fn chart(values: &[f64], width: usize) -> String {
    let largest = values.iter().copied().fold(0.0, f64::max);
    let block = |value: &f64| if largest > 0.0 { BLOCKS[(value / largest * 7.0).round() as usize] } else { BLOCKS[0] };
    values.iter().skip(values.len().saturating_sub(width)).map(block).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// A server with a region of two members and a zone beside.
    fn status() -> Value {
        let zone = |name: &str, serial: u32, announced: u32, failures: u32| {
            json!({
                "zone": name, "state": "ok", "serial": serial, "records": 7, "refreshed_seconds_ago": 4,
                "expires_in_seconds": 3700,
                "source": { "held": null, "primaries": [
                    { "address": "192.0.2.1:53", "announced": announced, "failures": failures, "result": "time\u{1b}out" }
                ] },
            })
        };
        json!({
            "version": "1.2", "uptime_seconds": 65, "generation": 9, "state": { "error": null },
            "queries": { "per_second": 12.34, "rcodes": { "NOERROR": 1234.5, "SERVFAIL": 1.0 } },
            "regions": [{
                "region": "r.example.", "state": "ok", "serial": 3, "records": 14, "conflict_names": 2, "drift": 0,
                "held_addresses": 0,
                "members": [{ "zone": "a.example.", "state": "ok" }, { "zone": "b.example.", "state": "stale" }],
            }],
            "zones": [zone("a.example.", 1, 1, 0), zone("b.example.", u32::MAX, 1, 3), zone("c.example.", 5, 4, 0)],
        })
    }

    #[test]
    fn a_picture_has_regions_members_and_the_rest() {
        let status = status();
        let picture = Picture { status: &status, history: &[0.0, 7.0], note: "" };
        let lines = picture.draw(200, 100, 0, false);
        let expected = "\
aggregator 1.2  up 1m05s, 9 publications  q ends
12.3 queries a second  NOERROR 1234  SERVFAIL 1.0
▁█

ZONE         STATE      SERIAL  LAG  RECORDS  REFRESHED  EXPIRES   REMARKS
r.example    ok              3            14                       2 conflicts
  a.example  ok              1    0        7  4s ago     in 1h01m
  b.example  stale  4294967295    2        7  4s ago     in 1h01m  192.0.2.1:53: time out
c.example    ok              5    0        7  4s ago     in 1h01m";
        assert_eq!(lines.join("\n"), expected);
        let lines = picture.draw(20, 7, 1, true);
        assert_eq!(lines.len(), 6);
        assert!(lines[5].starts_with("  a.example  \x1b[32mok") && !lines[5].contains("1h01m"), "{lines:?}");
        let old = Picture { note: "no server is running", ..picture };
        assert!(old.draw(200, 100, 0, false)[0].ends_with("no server is running"));
    }

    #[test]
    fn keys_are_read() {
        for (pressed, wanted) in [
            (&b"q"[..], Key::Quit),
            (b"\x03", Key::Quit),
            (b"\x1b[B", Key::Move(1)),
            (b"k", Key::Move(-1)),
            (b"\x1b[6~", Key::Move(10)),
            (b"", Key::Nothing),
            (b"x", Key::Nothing),
        ] {
            assert_eq!(read_keys(pressed), wanted, "{pressed:?}");
        }
    }
}
