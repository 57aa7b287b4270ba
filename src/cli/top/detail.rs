//! Details of one zone or region in `top`: what there is to look at, its members, primaries and secondaries.
//!
//! Cost: O(zones) to find it, O(what it has) to tell it.

use super::rows::list;
use super::{lag, name, text};
use crate::cli::paint::style_of;
use crate::terminal::Style;
use crate::view::text::{ago, ahead, moment, write_table};
use serde_json::Value;

/// Lines of a detail, in pieces.
type Lines = Vec<Vec<(Style, String)>>;

/// Tells all that a status has of a zone or region with this name.
pub fn detail(status: &Value, wanted: &str) -> Lines {
    let find = |key: &str, field: &str| list(&status[key]).iter().find(|thing| name(&thing[field]) == wanted);
    let mut lines = Lines::new();
    let (kind, thing) = match (find("regions", "region"), find("zones", "zone")) {
        (Some(region), _) => ("region", region),
        (None, Some(zone)) => ("zone", zone),
        (None, None) => {
            lines.push(vec![(Style::Bold, wanted.to_owned()), (Style::Plain, "  is gone".to_owned())]);
            return lines;
        }
    };
    let state = text(&thing["state"]);
    lines.push(vec![
        (Style::Bold, wanted.to_owned()),
        (Style::Plain, format!("  {kind}, ")),
        (style_of(&state), state),
        (Style::Dim, "  Esc: back".to_owned()),
    ]);
    let mut facts = vec![format!("serial {}", text(&thing["serial"])), format!("{} records", text(&thing["records"]))];
    for (key, what) in
        [("names", "names"), ("conflict_names", "names with conflicts"), ("held_addresses", "addresses held")]
    {
        facts.extend(thing[key].as_u64().map(|count| format!("{count} {what}")));
    }
    if kind == "zone" {
        facts.push(format!("refreshed {}", ago(thing["refreshed_seconds_ago"].as_u64())));
        facts.push(format!("expires {}", ahead(thing["expires_in_seconds"].as_u64())));
    }
    lines.push(vec![(Style::Plain, facts.join(", "))]);
    let notes = list(&status["judgement"]["notes"]).iter().filter(|note| name(&note["about"]) == wanted);
    for note in notes {
        let style = match note["grade"].as_str() {
            Some("bad") => Style::Bad,
            Some("warn") => Style::Warning,
            _ => Style::Plain,
        };
        lines.push(vec![(style, text(&note["kind"])), (Style::Plain, format!(": {}", text(&note["text"])))]);
    }
    let members = list(&thing["members"]).iter().map(|member| [&member["zone"], &member["state"], &member["serial"]]);
    let members = members.map(|[zone, state, serial]| vec![name(zone), text(state), text(serial)]);
    section(&mut lines, &["MEMBER", "STATE", "SERIAL"], members);
    let primaries = list(&thing["source"]["primaries"]);
    let rows = primaries.iter().map(|primary| {
        let place = text(&primary["address"]);
        vec![
            place,
            text(&primary["announced"]),
            lag(&thing["serial"], std::slice::from_ref(primary)),
            text(&primary["result"]),
        ]
    });
    section(&mut lines, &["PRIMARY", "SERIAL", "LAG", "RESULT"], rows);
    let secondaries = list(&thing["secondaries"]).iter().map(|target| {
        let since = target["behind_since"].as_i64().map_or_else(|| "-".to_owned(), |since| moment(Some(since)));
        let [address, acknowledged, fetched, result] =
            ["address", "acknowledged", "fetched", "result"].map(|key| text(&target[key]));
        vec![address, acknowledged, fetched, since, result]
    });
    section(&mut lines, &["SECONDARY", "ACKNOWLEDGED", "FETCHED", "BEHIND SINCE", "RESULT"], secondaries);
    lines
}

/// Adds a table with its heads; nothing where it has no rows.
fn section(lines: &mut Lines, heads: &[&str], rows: impl Iterator<Item = Vec<String>>) {
    let mut table: Vec<Vec<String>> = vec![heads.iter().map(|head| (*head).to_owned()).collect()];
    table.extend(rows);
    if table.len() == 1 {
        return;
    }
    let mut text = String::new();
    write_table(&mut text, &table);
    lines.push(Vec::new());
    for (number, line) in text.lines().enumerate() {
        let style = if number == 0 { Style::Dim } else { Style::Plain };
        lines.push(vec![(style, line.to_owned())]);
    }
}
