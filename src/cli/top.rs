//! `aggregator top`: the regions, zones and queries on a terminal, drawn anew each second until `q` is pressed.
//!
//! It asks the running server for its status, as `aggregator status --json` does. Where there is no terminal, it prints
//! one picture and ends. Keys choose what is shown (`keys`); they are followed at once, from the status that is there.
//!
//! Invariants: no line is wider than the terminal, no picture higher; the terminal is as it was when this ends.
//!
//! Cost: one request a second, O(zones), and O(zones) for a key.

mod detail;
mod keys;
mod rows;

use super::paint::style_of;
use super::{Outcome, call, print};
use crate::control::Request;
use crate::control::server::Server;
use crate::terminal::{self, Keys, Stream, Style, render};
use crate::view::text::{format_seconds, or_dash};
use keys::{Choice, HELP, decode};
use rows::{COLUMNS, Kind, NUMBERS, Wanted, rows};
use serde_json::Value;
use std::io::{self, Write};
use std::process::ExitCode;
use std::time::{Duration, Instant};

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
pub fn top(server: &Server) -> Outcome {
    let request = Request::Status { zone: None };
    let first = call(server, &request)?.data;
    let keys = if terminal::is_live(Stream::Output) { Keys::take() } else { None };
    let Some(keys) = keys else {
        let picture = Picture { status: &first, history: &[], note: "", choice: &Choice::default() };
        return print(&picture.draw(WIDTH, usize::MAX, false).join("\n"));
    };
    let _screen = Screen::enter();
    let (mut status, mut note, mut choice) = (first, String::new(), Choice::default());
    let mut history = vec![queries_of(&status)];
    let color = terminal::is_colored(Stream::Output);
    let mut asked = Instant::now();
    loop {
        let picture = Picture { status: &status, history: &history, note: &note, choice: &choice };
        // The terminal has gone.
        let Ok(page) = show(&picture, color) else { return Ok(ExitCode::SUCCESS) };
        for key in decode(&keys.wait(PACE.saturating_sub(asked.elapsed()))) {
            let shown = rows(&status, &choice.wanted);
            if !choice.press(key, &shown, page) {
                return Ok(ExitCode::SUCCESS);
            }
        }
        if asked.elapsed() < PACE {
            continue;
        }
        asked = Instant::now();
        choice.keep(&rows(&status, &choice.wanted));
        match call(server, &request) {
            Ok(reply) => (status, note) = (reply.data, String::new()),
            Err(failure) => note = failure.text,
        }
        history.push(queries_of(&status));
        if history.len() > CHART {
            history.remove(0);
        }
    }
}

/// Queries a second of a status.
fn queries_of(status: &Value) -> f64 {
    status["queries"]["per_second"].as_f64().unwrap_or(0.0)
}

/// Draws a picture on the terminal; returns how many rows a page has.
fn show(picture: &Picture<'_>, color: bool) -> io::Result<usize> {
    let (columns, height) = terminal::size().unwrap_or((WIDTH, 24));
    let lines = picture.draw(columns, height, color);
    // From the first place on (CUP); each line to its end (EL), and what is below (ED).
    let lines: Vec<String> = lines.iter().map(|line| format!("{line}\x1b[K")).collect();
    print_raw(&format!("\x1b[H{}\x1b[J", lines.join("\r\n")))?;
    Ok(height.saturating_sub(picture.head(columns).len() + 2).max(1))
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
    /// Queries a second, oldest first; empty where the picture is printed, and not looked at.
    history: &'a [f64],
    /// Error that keeps the picture from being current; empty if it is current.
    note: &'a str,
    choice: &'a Choice,
}

impl Picture<'_> {
    /// The lines of a picture.
    fn draw(&self, width: usize, height: usize, color: bool) -> Vec<String> {
        let room = height.saturating_sub(1);
        let mut lines = if self.choice.helps {
            help()
        } else if let Some(wanted) = &self.choice.detail {
            let mut lines = detail::detail(self.status, wanted);
            // The first one says how to go back.
            let most = lines.len().saturating_sub(room.max(2));
            lines.drain(1..1 + self.choice.skipped.min(most));
            lines
        } else {
            self.table(width, room)
        };
        lines.truncate(room);
        lines.iter().map(|line| render(line, width, color)).collect()
    }

    /// Head and table, with the rows around the one that is chosen.
    fn table(&self, width: usize, room: usize) -> Vec<Vec<(Style, String)>> {
        let rows = rows(self.status, &self.choice.wanted);
        let mut lines = self.head(width);
        let heads = COLUMNS.map(str::to_owned);
        let width_of = |column: usize| rows.iter().map(move |row| row.cells[column].chars().count());
        let widths: Vec<usize> =
            (0..COLUMNS.len()).map(|column| width_of(column).fold(COLUMNS[column].len(), usize::max)).collect();
        let is_looked_at = !self.history.is_empty();
        let edge = if is_looked_at { "  " } else { "" };
        lines.push(vec![(Style::Dim, format!("{edge}{}", cells(&heads, &widths).concat()))]);
        let (chosen, shown) = (self.choice.place(&rows), room.saturating_sub(lines.len()).max(1));
        // The chosen row is in the middle, but for the ends.
        let first = chosen.saturating_sub(shown / 2).min(rows.len().saturating_sub(shown));
        for (place, row) in rows.iter().enumerate().skip(first).take(shown) {
            let mut pieces: Vec<(Style, String)> =
                cells(&row.cells, &widths).into_iter().map(|cell| (Style::Plain, cell)).collect();
            pieces[1].0 = style_of(&row.cells[1]);
            if row.kind != Kind::Member {
                pieces[0].0 = Style::Bold;
            }
            if is_looked_at {
                let mark = if place == chosen { "› " } else { edge };
                pieces.insert(0, (Style::Bold, mark.to_owned()));
            }
            lines.push(pieces);
        }
        if rows.is_empty() {
            lines.push(vec![(Style::Dim, format!("{edge}nothing is as wanted"))]);
        }
        lines
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
            title.extend((!self.history.is_empty()).then(|| (Style::Dim, "  q ends, ? tells all keys".to_owned())));
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
        lines.push(self.chosen());
        lines
    }

    /// Says what is left out by the choice; an empty line if nothing is.
    fn chosen(&self) -> Vec<(Style, String)> {
        let Choice { wanted: Wanted { filter, only_problems, .. }, types, .. } = self.choice;
        let mut line = Vec::new();
        if *types || !filter.is_empty() {
            let cursor = if *types { "_" } else { "" };
            line.push((Style::Bold, format!("names with /{filter}{cursor}  ")));
        }
        if *only_problems {
            line.push((Style::Warning, "problems only  ".to_owned()));
        }
        line
    }
}

/// The keys and what they do.
fn help() -> Vec<Vec<(Style, String)>> {
    let mut lines = vec![vec![(Style::Bold, "keys".to_owned())], Vec::new()];
    let width = HELP.iter().map(|(keys, _)| keys.chars().count()).max().unwrap_or_default();
    lines.extend(
        HELP.iter()
            .map(|(keys, what)| vec![(Style::Bold, format!("{keys:width$}  ")), (Style::Plain, (*what).to_owned())]),
    );
    lines
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
fn cells(row: &[String; COLUMNS.len()], widths: &[usize]) -> Vec<String> {
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
            "judgement": { "notes": [
                { "grade": "warn", "kind": "stale", "about": "b.example.", "text": "its primary is silent" },
                { "grade": "told", "kind": "drained", "about": "c.example.", "text": "x" },
            ] },
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
        let mut choice = Choice::default();
        let picture = Picture { status: &status, history: &[0.0, 7.0], note: "", choice: &choice };
        let lines = picture.draw(200, 100, false);
        let expected = "\
aggregator 1.2  up 1m05s, 9 publications  q ends, ? tells all keys
12.3 queries a second  NOERROR 1234  SERVFAIL 1.0
▁█

  ZONE         STATE      SERIAL  LAG  RECORDS  REFRESHED  EXPIRES   REMARKS
› r.example    ok              3            14                       2 conflicts
    a.example  ok              1    0        7  4s ago     in 1h01m
    b.example  stale  4294967295    2        7  4s ago     in 1h01m  192.0.2.1:53: time out
  c.example    ok              5    0        7  4s ago     in 1h01m";
        assert_eq!(lines.join("\n"), expected);
        let old = Picture { note: "no server is running", ..picture };
        assert!(old.draw(200, 100, false)[0].ends_with("no server is running"));
        let once = Picture { history: &[], ..picture };
        assert!(once.draw(200, 100, false)[3].starts_with("ZONE  "), "nobody chooses rows of what is printed");
        let all = rows(&status, &choice.wanted);
        choice.press(keys::Key::Down, &all, 1);
        let picture = Picture { status: &status, history: &[0.0, 7.0], note: "", choice: &choice };
        let lines = picture.draw(20, 7, true);
        assert_eq!(lines.len(), 6);
        assert!(lines[5].contains("› ") && lines[5].contains("  a.example  \x1b[32mok"), "{lines:?}");
        assert!(!lines[5].contains("1h01m"), "{lines:?}");
    }

    #[test]
    fn what_is_chosen_is_shown() {
        let status = status();
        let draw = |pressed: &[u8], height: usize| {
            let mut choice = Choice::default();
            decode(pressed).into_iter().for_each(|key| _ = choice.press(key, &rows(&status, &choice.wanted), 5));
            let picture = Picture { status: &status, history: &[0.0], note: "", choice: &choice };
            picture.draw(200, height, false).join("\n")
        };
        let filtered = draw(b"/b.ex", 30);
        assert!(
            filtered.contains("names with /b.ex_") && filtered.contains("r.example") && filtered.contains("b.example")
        );
        assert!(!filtered.contains("a.example") && !filtered.contains("c.example"), "{filtered}");
        let problems = draw(b"p", 30);
        assert!(
            problems.contains("problems only") && problems.contains("b.example") && !problems.contains("c.example")
        );
        assert!(draw(b"/nothing\r", 30).contains("nothing is as wanted"));
        let folded = draw(b"j\x1b[D", 30);
        assert!(folded.contains("› r.example") && !folded.contains("a.example"), "{folded}");
        let detail = draw(b"jj\r", 30);
        for wanted in [
            "b.example  zone, ok  Esc: back",
            "serial 4294967295, 7 records",
            "refreshed 4s ago",
            "PRIMARY",
            "time out",
            "stale: its primary is silent",
        ] {
            assert!(detail.contains(wanted), "{wanted} in {detail}");
        }
        let region = draw(b"\r", 30);
        assert!(region.contains("MEMBER") && region.contains("b.example  stale"), "{region}");
        assert_eq!(draw(b"\rjjjjjjjjjjjj", 5).lines().count(), 4, "it scrolls to its end and no further");
        assert_eq!(draw(b"\r\x1b", 30), draw(b"", 30));
        assert!(draw(b"?", 30).contains("Ctrl-C") && !draw(b"?x", 30).contains("Ctrl-C"));
    }
}
