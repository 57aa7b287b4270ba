//! Pages that explain a name's answer, and the changes between two versions.
//!
//! Cost: O(records of the name × members); O(changes).

use super::parts::{Cell, Grade, Mark, When, ago_text, encode, number, serial, short, when, zone_link};
use super::{Compared, Shell};
use crate::view::lookup::{Lookup, LookupStep, SeenReport, SourceReport};
use askama::Template;
use wire::name::Name;

/// Lines of a difference that are shown; `aggregator diff` has them all.
pub const LISTED_CHANGES: usize = 2000;

/// Page that explains a name's answer.
#[derive(Template)]
#[template(path = "lookup.html")]
pub struct LookupPage {
    shell: Shell,
    asked: String,
    rtype: String,
    /// Error in the question; empty if there is none.
    error: String,
    rcode: Option<Mark>,
    steps: Vec<StepCard>,
}

/// LookupStep of the lookup: one name of a chain of aliases.
struct StepCard {
    name: String,
    mark: Mark,
    explanation: String,
    zone: Option<Cell>,
    records: Vec<RecordRow>,
    left_out: Vec<LeftOutRow>,
    gone: Vec<GoneRow>,
    conflicts: Vec<(String, &'static str, &'static str)>,
    sources: Vec<SourceRow>,
    uses: Vec<UseRow>,
}

/// A record of the answer.
struct RecordRow {
    ttl: String,
    rtype: String,
    data: String,
    since: Cell,
    from: Vec<String>,
}

/// A record that is not in the answer.
struct LeftOutRow {
    record: String,
    from: String,
    explanation: String,
}

/// A record that was there.
struct GoneRow {
    record: String,
    gone: Cell,
    serial: String,
}

/// A zone that the answer comes from.
struct SourceRow {
    link: Cell,
    mark: Mark,
    serial: Cell,
    owner: String,
    refreshed: String,
    way: Vec<String>,
}

/// Records that a region takes of the name.
struct UseRow {
    link: Cell,
    text: String,
}

impl LookupPage {
    /// The page before anything is asked.
    pub fn empty(shell: Shell) -> LookupPage {
        let (asked, rtype) = (shell.asked.clone(), shell.rtype.clone());
        LookupPage { shell, asked, rtype, error: String::new(), rcode: None, steps: Vec::new() }
    }

    /// Returns the page with the answer to a question, or with the error in it.
    pub fn new(shell: Shell, explained: Result<Lookup, String>) -> LookupPage {
        let now = shell.now;
        let page = LookupPage::empty(shell);
        match explained {
            Ok(lookup) => LookupPage {
                rcode: Some(mark_of(lookup.rcode)),
                steps: lookup.steps.iter().map(|step| step_card(step, now)).collect(),
                ..page
            },
            Err(error) => LookupPage { error, ..page },
        }
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
    let record = |record: &crate::view::lookup::RecordReport| RecordRow {
        ttl: record.ttl.to_string(),
        rtype: record.rtype.clone(),
        data: record.data.clone(),
        since: record.seen.as_ref().map_or_else(Cell::none, |seen| since(seen, now)),
        from: record.from.iter().map(describe_given).chain(record.made.clone()).collect(),
    };
    let left_out = |record: &crate::view::lookup::LeftOutReport| LeftOutRow {
        record: format!("{} {} {}", record.given.ttl, record.given.rtype, record.given.data),
        from: describe_given(&record.given),
        explanation: record.explanation.clone(),
    };
    let gone = |record: &crate::view::lookup::GoneReport| GoneRow {
        record: format!("{} {} {}", record.ttl, record.rtype, record.data),
        gone: when(record.gone_at, now),
        serial: record.gone.to_string(),
    };
    let usage = |usage: &crate::view::lookup::RegionUse| UseRow {
        link: zone_link(&usage.region),
        text: match &usage.name {
            Some(name) => format!("takes {} of {} records, as {}", usage.taken, usage.records, short(name)),
            None => "takes nothing: the name would be too long there".to_owned(),
        },
    };
    StepCard {
        name: short(&step.name),
        mark: mark_of(step.rcode),
        explanation: step.explanation.clone(),
        zone: step.zone.as_ref().map(|zone| {
            Cell(format!(
                "{} {} serial {} {}",
                zone.kind,
                zone_link(&zone.origin),
                serial(zone.serial),
                Mark::of_state(zone.state)
            ))
        }),
        records: step.records.iter().map(record).collect(),
        left_out: step.left_out.iter().map(left_out).collect(),
        conflicts: step
            .conflicts
            .iter()
            .map(|conflict| (short(&conflict.zone), conflict.kind, conflict.explanation))
            .collect(),
        gone: step.gone.iter().map(gone).collect(),
        sources: step.sources.iter().map(source_row).collect(),
        uses: step.regions.iter().map(usage).collect(),
    }
}

/// Describes the version with which a record came.
fn since(seen: &SeenReport, now: i64) -> Cell {
    let before = if seen.before { "before " } else { "" };
    match seen.at {
        Some(at) => Cell(format!("{before}{} <small>serial {}</small>", When::new(at, now), seen.serial)),
        None => Cell(format!("{before}serial {}", seen.serial)),
    }
}

/// Describes the origin of a record.
fn describe_given(given: &crate::view::lookup::Given) -> String {
    let serial = given.serial.map(|serial| format!(" serial {serial}")).unwrap_or_default();
    let held = given
        .held_seconds
        .map(|seconds| format!("; withdrawn there, held for another {seconds} s"))
        .unwrap_or_default();
    format!("{}{serial}: {}, TTL {} there{held}", short(&given.zone), given.owner.trim_end_matches('.'), given.ttl)
}

/// A zone that the answer comes from.
fn source_row(source: &SourceReport) -> SourceRow {
    let grade = match (source.state, source.contributes) {
        ("ok", true) => Grade::Good,
        ("drained", _) => Grade::Told,
        ("stale", _) => Grade::Warn,
        _ => Grade::Bad,
    };
    let mut way: Vec<String> =
        source.primaries.iter().map(|primary| format!("primary {}: {}", primary.address, primary.result)).collect();
    if let Some(tree) = &source.tree {
        way.push(format!("ZooKeeper {}, {}", tree.member.as_deref().unwrap_or("no member yet"), tree.session.label()));
        way.extend(tree.nodes.iter().map(|node| format!("{}: {}", node.path, node.role)));
    }
    if source.configured {
        way.push("made of the configuration".to_owned());
    }
    SourceRow {
        link: zone_link(&source.zone),
        mark: Mark::new(grade, source.state),
        serial: serial(source.serial),
        owner: source.owner.as_ref().map(short).unwrap_or_default(),
        refreshed: ago_text(source.refreshed_seconds_ago),
        way,
    }
}

//--- Differences ---

/// Page with the changes between two versions.
#[derive(Template)]
#[template(path = "diff.html")]
pub struct DiffPage {
    shell: Shell,
    name: String,
    encoded: String,
    from: String,
    to: String,
    /// Reason for which there is nothing to show; empty if there is something.
    error: String,
    lines: Vec<(&'static str, char, String)>,
    removed: String,
    added: String,
    more: usize,
}

impl DiffPage {
    /// Returns the page with the result of a comparison.
    pub fn new(shell: Shell, zone: &Name, compared: Result<Compared, String>) -> DiffPage {
        let mut page = DiffPage {
            shell,
            name: short(zone),
            encoded: encode(&short(zone)),
            from: String::new(),
            to: String::new(),
            error: String::new(),
            lines: Vec::new(),
            removed: String::new(),
            added: String::new(),
            more: 0,
        };
        let compared = match compared {
            Ok(compared) => compared,
            Err(error) => return DiffPage { error, ..page },
        };
        let Compared { changes, limit } = compared;
        let [removed, added] = changes.counts();
        (page.from, page.to) = (changes.from.to_string(), changes.to.to_string());
        (page.removed, page.added) = (number(removed as u64), number(added as u64));
        let class = |sign: char| if sign == '-' { "removed" } else { "added" };
        let shown = changes.iter().take(limit);
        page.lines = shown.map(|change| (class(change.sign), change.sign, change.line())).collect();
        page.more = removed + added - page.lines.len();
        page
    }
}
