//! Pages that explain a name's answer, and the changes between two versions.
//!
//! Cost: O(records of the name × members); O(changes).

use super::Shell;
use super::parts::{Cell, Grade, Mark, ago_text, encode, number, serial, short, time, when, zone_link};
use super::rows::Fact;
use crate::source::inventory::Instance;
use crate::view::columns::{Column, Table, Value, table};
use crate::view::diff::Changes;
use crate::view::lookup::{
    AnswerReport, CandidateReport, ChosenReport, ClientReport, ConflictReport, Given, LeftOutReport, Lookup,
    LookupStep, RecordReport, RegionUse, SeenReport, SetReport, SourceReport, StepClient, UnevenReport, ZoneReport,
};
use crate::view::text::printable;
use askama::Template;
use wire::name::Name;
use wire::serial::Serial;

/// Lines of a difference that are shown; `aggregator diff` has them all.
const LISTED_CHANGES: usize = 2000;

/// Page that explains a name's answer.
#[derive(Template)]
#[template(path = "lookup.html")]
pub struct LookupPage {
    shell: Shell,
    /// Error in the question; empty if there is none.
    error: String,
    rcode: Option<Mark>,
    /// The client for whom it is explained; empty if none is named.
    client: String,
    steps: Vec<StepCard>,
}

/// LookupStep of the lookup: one name of a chain of aliases.
struct StepCard {
    name: String,
    mark: Mark,
    explanation: String,
    zone: Option<Cell>,
    /// Sets of which answers have a part, or that are larger than clients take.
    sets: Vec<String>,
    /// Members with addresses of one family only.
    uneven: Vec<String>,
    client: Option<ClientCard>,
    records: Table,
    /// Records that are not in the answer: the explanation, and where they come from.
    left_out: Vec<(String, String, String)>,
    /// Records that were there: when they went, and with which serial.
    gone: Vec<(String, Cell, Serial)>,
    conflicts: Vec<(String, &'static str, &'static str)>,
    sources: Table,
    /// Regions, and what they take of the name.
    uses: Vec<(Cell, String)>,
}

/// What one client gets at a name.
struct ClientCard {
    explanation: String,
    sets: Vec<SetCard>,
}

/// What it gets of a set.
struct SetCard {
    rtype: String,
    explanation: String,
    candidates: Table,
    rules: Vec<String>,
    answer: Vec<String>,
}

impl LookupPage {
    /// Returns the page with the answer to a question, with the error in it, or before anything is asked.
    pub fn new(shell: Shell, explained: Option<Result<Lookup, String>>) -> LookupPage {
        let now = shell.now;
        let (lookup, error) = match explained {
            Some(Ok(lookup)) => (Some(lookup), String::new()),
            Some(Err(error)) => (None, error),
            None => (None, String::new()),
        };
        let steps = lookup.iter().flat_map(|lookup| &lookup.steps).map(|step| step_card(step, now)).collect();
        let client = lookup.iter().flat_map(|lookup| &lookup.client).map(ClientReport::describe).collect();
        LookupPage { shell, error, rcode: lookup.map(|lookup| mark_of(lookup.rcode)), client, steps }
    }
}

/// Returns the mark of a response code, coloured by its grade.
fn mark_of(rcode: &'static str) -> Mark {
    let grade = match rcode {
        "NOERROR" => Grade::Good,
        "NXDOMAIN" => Grade::Told,
        "REFUSED" => Grade::Warn,
        _ => Grade::Bad,
    };
    Mark::new(grade, rcode)
}

/// A step as a card.
fn step_card(step: &LookupStep, now: i64) -> StepCard {
    let left_out = |record: &LeftOutReport| {
        (record.given.text.to_string(), record.explanation.clone(), describe_given(&record.given))
    };
    let usage = |usage: &RegionUse| {
        let mut text = match &usage.name {
            Some(name) => format!("takes {} of {} records, as {}", usage.taken, usage.records, short(name)),
            None => "takes nothing: the name would be too long there".to_owned(),
        };
        usage.shares.iter().for_each(|drain| text += &format!("; drained: {drain}"));
        (zone_link(&usage.region), text)
    };
    let zone = |zone: &ZoneReport| {
        let (link, serial, mark) = (zone_link(&zone.origin), serial(zone.serial), Mark::of_state(zone.state));
        Cell(format!("{} {link} serial {serial} {mark}", zone.kind))
    };
    let conflict = |conflict: &ConflictReport| (short(&conflict.zone), conflict.kind, conflict.explanation);
    StepCard {
        name: short(&step.name),
        mark: mark_of(step.rcode),
        explanation: step.explanation.clone(),
        zone: step.zone.as_ref().map(zone),
        sets: step.sets.iter().map(SetReport::describe).collect(),
        uneven: step.uneven.iter().map(UnevenReport::describe).collect(),
        client: step.client.as_ref().map(client_card),
        records: record_table(&step.records, now),
        left_out: step.left_out.iter().map(left_out).collect(),
        gone: step.gone.iter().map(|gone| (gone.text.to_string(), when(gone.gone_at, now), gone.gone)).collect(),
        conflicts: step.conflicts.iter().map(conflict).collect(),
        sources: source_table(&step.sources, now),
        uses: step.regions.iter().map(usage).collect(),
    }
}

/// What a client gets, as a part of a card.
fn client_card(client: &StepClient) -> ClientCard {
    let set = |set: &AnswerReport| SetCard {
        rtype: set.rtype.clone(),
        explanation: set.explanation.clone(),
        candidates: candidate_table(&set.candidates),
        rules: set.rules().collect(),
        answer: set.answer.iter().map(ChosenReport::describe).collect(),
    };
    ClientCard { explanation: client.explanation.clone(), sets: client.sets.iter().map(set).collect() }
}

/// Writes the members, those first that come first for a client, as a table.
fn candidate_table(candidates: &[CandidateReport]) -> Table {
    let columns: [Column<&CandidateReport>; 4] = [
        Column::page("Member", "", |one| one.zone.clone().map_or(Value::Text("nobody".to_owned()), Value::Name)),
        Column::page("Records", "number", |one| Value::Number(one.records.into())),
        Column::page("In the answer", "number", |one| {
            one.answered.map_or_else(Value::none, |answered| Value::Number(answered.into()))
        }),
        Column::remark("Why", "", |one| Value::Text(one.notes.join("; "))),
    ];
    table(&columns, candidates, 0)
}

/// Writes the records of the answer as a table.
fn record_table(records: &[RecordReport], now: i64) -> Table {
    let columns: [Column<(&RecordReport, i64)>; 5] = [
        Column::data("Record", |(record, _)| Value::Text(record.text.data.clone())),
        Column::page("Type", "", |(record, _)| Value::Text(record.text.rtype.clone())),
        Column::page("TTL", "number", |(record, _)| Value::Text(record.text.ttl.to_string())),
        Column::page("Since", "wide", |(record, now)| {
            record.seen.as_ref().map_or_else(Value::none, |seen| Value::Html(since(seen, *now)))
        }),
        Column::remark("From", "", |(record, _)| {
            lines(record.from.iter().map(describe_given).chain(record.made.clone()))
        }),
    ];
    table(&columns, records.iter().map(|record| (record, now)), now)
}

/// Describes the version with which a record came.
fn since(seen: &SeenReport, now: i64) -> Cell {
    let before = if seen.before { "before " } else { "" };
    match seen.at {
        Some(at) => Cell(format!("{before}{} <small>serial {}</small>", time(at, now), seen.serial)),
        None => Cell(format!("{before}serial {}", seen.serial)),
    }
}

/// Describes the origin of a record.
fn describe_given(given: &Given) -> String {
    let serial = given.serial.map(|serial| format!(" serial {serial}")).unwrap_or_default();
    let held = given.held_seconds.map(|seconds| format!("; withdrawn there, held for another {seconds} s"));
    let (owner, ttl) = (given.owner.trim_end_matches('.'), given.text.ttl);
    format!("{}{serial}: {owner}, TTL {ttl} there{}", short(&given.zone), held.unwrap_or_default())
}

/// Text in several lines.
fn lines(lines: impl Iterator<Item = String>) -> Value {
    let lines: Vec<String> = lines.map(|line| Cell::text(&line).0).collect();
    Value::Html(Cell(lines.join("<br>")))
}

/// Writes the zones that the answer comes from as a table.
fn source_table(sources: &[SourceReport], now: i64) -> Table {
    let columns: [Column<&SourceReport>; 6] = [
        Column::page("Zone", "", |source| Value::Name(source.zone.clone())),
        Column::page("State", "", |source| {
            Value::Mark(match source.state {
                "ok" if !source.contributes => Mark::new(Grade::Bad, "ok"),
                state => Mark::of_member(state),
            })
        }),
        Column::page("Serial", "number", |source| Value::Serial(source.serial)),
        Column::page("Name there", "wide", |source| Value::Text(source.owner.as_ref().map(short).unwrap_or_default())),
        Column::page("Refreshed", "wide", |source| Value::Text(ago_text(source.refreshed_seconds_ago))),
        Column::remark("Way", "", |source| lines(way_of(source).into_iter())),
    ];
    table(&columns, sources, now)
}

/// Describes how a zone came here.
fn way_of(source: &SourceReport) -> Vec<String> {
    let mut way: Vec<String> =
        source.primaries.iter().map(|primary| format!("primary {}: {}", primary.place(), primary.result)).collect();
    if let Some(tree) = &source.tree {
        way.push(format!("ZooKeeper {}, {}", tree.member.as_deref().unwrap_or("no member yet"), tree.session.label()));
        way.extend(tree.nodes.iter().map(|node| format!("{}: {}", node.path, node.role)));
    }
    if let Some(inventory) = &source.inventory {
        way.push(format!("inventory {}, {}", inventory.inventory, inventory.reading.label()));
        way.extend(inventory.instances.iter().map(describe_instance));
    }
    if source.configured {
        way.push("made of the configuration".to_owned());
    }
    way.extend(source.shares.iter().map(|drain| format!("drained: {drain}")));
    way
}

/// Describes an instance that has to do with a name, in words.
fn describe_instance(instance: &Instance) -> String {
    let name = instance.alias.as_deref().unwrap_or(&instance.uuid);
    let reasons = match instance.reasons.as_slice() {
        [] => String::new(),
        reasons => format!(": {}", reasons.join(", ")),
    };
    let held = instance.services.iter().filter(|service| service.state == "held");
    let held: String = held.map(|service| format!("; held in {}", service.service)).collect();
    printable(&format!("instance {name}, {}{reasons}{held}", instance.state))
}

//--- Differences ---

/// Page with the changes between two versions.
#[derive(Template)]
#[template(path = "diff.html")]
pub struct DiffPage {
    shell: Shell,
    name: String,
    encoded: String,
    /// Reason for which there is nothing to show; empty if there is something.
    error: String,
    facts: Vec<Fact>,
    lines: Vec<(&'static str, char, String)>,
    more: usize,
}

impl DiffPage {
    /// Returns the page with the result of a comparison.
    pub fn new(shell: Shell, zone: &Name, compared: Result<Changes, String>) -> DiffPage {
        let (name, encoded) = (short(zone), encode(&short(zone)));
        let changes = match compared {
            Ok(changes) => changes,
            Err(error) => return DiffPage { shell, name, encoded, error, facts: vec![], lines: vec![], more: 0 },
        };
        let [removed, added] = changes.counts();
        let facts = vec![
            Fact::new("from serial", changes.from),
            Fact::new("to serial", changes.to),
            Fact::new("removed", number(removed as u64)),
            Fact::new("added", number(added as u64)),
        ];
        let class = |sign: char| if sign == '-' { "removed" } else { "added" };
        let shown = changes.iter().take(LISTED_CHANGES);
        let lines: Vec<_> = shown.map(|change| (class(change.sign), change.sign, change.line())).collect();
        let more = removed + added - lines.len();
        DiffPage { shell, name, encoded, error: String::new(), facts, lines, more }
    }
}
