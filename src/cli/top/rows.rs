//! Rows of `top`: regions with their members, then the zones that are in none.
//!
//! Cost: O(zones + members of all regions).

use super::{lag, name, text};
use crate::cli::retransfer::progress_of;
use crate::view::text::{ago, ahead};
use serde_json::Value;
use std::collections::{HashMap, HashSet};

/// The columns of the table.
pub const COLUMNS: [&str; 8] = ["ZONE", "STATE", "SERIAL", "LAG", "RECORDS", "REFRESHED", "EXPIRES", "REMARKS"];
/// The ones of numbers.
pub const NUMBERS: [usize; 3] = [2, 3, 4];

/// What of a status is wanted as rows.
#[derive(Default)]
pub struct Wanted {
    /// Part of the names, in small letters.
    pub filter: String,
    pub only_problems: bool,
    /// Names of the regions whose members are hidden.
    pub folded: HashSet<String>,
}

impl Wanted {
    /// Returns true if a row is shown.
    fn has(&self, row: &Row) -> bool {
        (self.filter.is_empty() || row.name.contains(&self.filter)) && (!self.only_problems || row.is_troubled)
    }
}

/// Kind of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Region,
    /// A zone as the member of a region.
    Member,
    /// A zone that is in no region.
    Zone,
}

/// Row of the table.
#[derive(Clone, Debug)]
pub struct Row {
    /// What it is known by, over pictures.
    pub key: String,
    pub kind: Kind,
    /// Name of the zone or region.
    pub name: String,
    /// Name of the region that it is or belongs to; empty for a zone in none.
    pub region: String,
    pub is_troubled: bool,
    pub cells: [String; COLUMNS.len()],
}

impl Row {
    /// A row without anything in its cells.
    pub fn empty(kind: Kind, region: &str, name: &str) -> Row {
        let key = if kind == Kind::Member { format!("{region} {name}") } else { name.to_owned() };
        let (name, region) = (name.to_owned(), region.to_owned());
        Row { key, kind, name, region, is_troubled: false, cells: Default::default() }
    }
}

/// The rows of a status.
pub fn rows(status: &Value, wanted: &Wanted) -> Vec<Row> {
    let troubled = troubled(status);
    let zones: HashMap<&str, &Value> =
        list(&status["zones"]).iter().map(|zone| (zone["zone"].as_str().unwrap_or_default(), zone)).collect();
    let mut is_member = HashSet::new();
    let mut rows = Vec::new();
    for region in list(&status["regions"]) {
        let head = region_row(region, &troubled);
        let mut members: Vec<Row> = Vec::new();
        for member in list(&region["members"]) {
            let Some(known) = member["zone"].as_str() else { continue };
            is_member.insert(known);
            let zone = zones.get(known).copied().unwrap_or(&Value::Null);
            let mut row = Row::empty(Kind::Member, &head.name, &name(&member["zone"]));
            row.is_troubled = troubled.contains(known) || !matches!(member["state"].as_str(), Some("ok" | "drained"));
            row.cells = zone_cells("  ", &member["zone"], &member["state"], zone);
            members.push(row);
        }
        members.retain(|row| wanted.has(row));
        // A region stays for its members.
        if wanted.has(&head) || !members.is_empty() {
            let folded = wanted.folded.contains(&head.name);
            rows.push(head);
            rows.extend(members.into_iter().filter(|_| !folded));
        }
    }
    for zone in list(&status["zones"]) {
        let Some(known) = zone["zone"].as_str().filter(|known| !is_member.contains(known)) else { continue };
        let mut row = Row::empty(Kind::Zone, "", &name(&zone["zone"]));
        row.is_troubled = troubled.contains(known);
        row.cells = zone_cells("", &zone["zone"], &zone["state"], zone);
        rows.extend(Some(row).filter(|row| wanted.has(row)));
    }
    rows
}

/// The zones that the judgement has something bad to say of.
fn troubled(status: &Value) -> HashSet<&str> {
    let notes = list(&status["judgement"]["notes"]).iter();
    let notes = notes.filter(|note| matches!(note["grade"].as_str(), Some("warn" | "bad")));
    notes.filter_map(|note| note["about"].as_str()).collect()
}

/// The elements of a list; nothing where there is none.
pub fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

/// A region as a row.
fn region_row(region: &Value, troubled: &HashSet<&str>) -> Row {
    let state = text(&region["state"]);
    let mut remarks = Vec::new();
    for (key, what) in [("conflict_names", "conflicts"), ("held_addresses", "addresses held"), ("drift", "drift")] {
        if let Some(count @ 1..) = region[key].as_u64() {
            remarks.push(format!("{count} {what}"));
        }
    }
    let region_name = name(&region["region"]);
    let mut row = Row::empty(Kind::Region, &region_name, &region_name);
    row.is_troubled = state != "ok" || region["region"].as_str().is_some_and(|name| troubled.contains(name));
    let (serial, records) = (text(&region["serial"]), text(&region["records"]));
    let none = String::new;
    row.cells = [region_name, state, serial, none(), records, none(), none(), remarks.join(", ")];
    row
}

/// The cells of a source zone.
fn zone_cells(indent: &str, zone_name: &Value, state: &Value, zone: &Value) -> [String; COLUMNS.len()] {
    let source = &zone["source"];
    let primaries = list(&source["primaries"]);
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
