//! Queries: how many a second each server answers, and what one costs it.
//!
//! One thread: the server on one processor, the load on another, so that the server is what is measured. Two threads: both
//! on both, as on a small machine. Servers take turns, round by round; what is told is the median of the rounds.
//!
//! Cost: rounds × servers × seconds, for each number of threads.

use crate::load::{Check, Load};
use crate::options::Options;
use crate::server::{Kind, Server};
use crate::stage::{Loaded, SAMPLE, Stage};
use crate::table::{Table, median, thousands};
use crate::usage::{self, Usage};
use std::time::{Duration, Instant};

/// How long a load runs before it is measured.
pub const WARM_UP: Duration = Duration::from_millis(300);

/// The tables of this part.
pub struct Tables {
    loaded: Table,
    queries: Table,
    alike: Vec<String>,
}

impl Tables {
    /// Tables without rows.
    pub fn new() -> Tables {
        let loaded = &["records", "server", "octets a record", "start to first answer, s", "highest ÷ after loading"];
        let queries = &[
            "threads",
            "records",
            "server",
            "queries a second",
            "CPU µs/query",
            "user mode",
            "÷ echo",
            "÷ aggregator",
            "lost or wrong",
        ];
        Tables { loaded: Table::new(loaded), queries: Table::new(queries), alike: Vec::new() }
    }

    /// Prints what was measured.
    pub fn print(&self) {
        println!("Memory beyond that of empty zones, and the start with all data on disk:\n\n{}", self.loaded);
        println!("Answers compared with those of Knot, of {SAMPLE}: {}.\n", self.alike.join("; "));
        println!("Queries, medians; the ratios are of CPU:\n\n{}", self.queries);
    }
}

/// What the rounds of one server showed.
#[derive(Default)]
pub struct Rounds {
    pub rate: Vec<f64>,
    /// CPU of a query in microseconds, and of it that in user mode.
    pub total: Vec<f64>,
    pub user: Vec<f64>,
    pub failed: u64,
}

/// Loads all servers with zones of a size and measures them.
pub fn measure(options: &Options, records: usize, tables: &mut Tables) {
    let empty = Stage::empty(&options.program).start(&options.peers);
    let mut stage = Stage::new(&options.program, records);
    let loaded = stage.start(&options.peers);
    for (loaded, empty) in loaded.iter().zip(&empty).filter(|(loaded, _)| loaded.kind != Kind::Echo) {
        tables.loaded.row(memory_row(records, loaded, empty));
    }
    let alike = stage.compare().into_iter().map(|(kind, count)| format!("{} {count}", kind.label()));
    tables.alike.extend([format!("{} records", thousands(records))].into_iter().chain(alike));
    for threads in &options.threads {
        if *threads > 1 {
            stage.restart(*threads);
        }
        let all = measure_rounds(options, &stage, *threads);
        report(&stage, *threads, &all, &mut tables.queries);
    }
}

/// A row of the table of memory.
fn memory_row(records: usize, loaded: &Loaded, empty: &Loaded) -> Vec<String> {
    // A region holds every record twice, in its member and in itself.
    let entries = if loaded.kind == Kind::Region { 2 * records } else { records };
    let more = |full: u64, empty: u64| full.saturating_sub(empty) as f64;
    let memory = more(loaded.memory, empty.memory);
    let start = loaded.start.map_or("–".to_string(), |start| format!("{:.3}", start.as_secs_f64()));
    let highest = more(loaded.highest, empty.memory) / memory;
    let unit = if entries == records { "" } else { " an entry" };
    let memory = format!("{:.0}{unit}", memory / entries as f64);
    vec![thousands(records), loaded.kind.label().to_string(), memory, start, format!("{highest:.2}")]
}

/// Measures all servers of a stage in turns.
fn measure_rounds(options: &Options, stage: &Stage, threads: usize) -> Vec<Rounds> {
    let mut all: Vec<Rounds> = stage.servers.iter().map(|_| Rounds::default()).collect();
    for round in 0..options.rounds {
        eprintln!("{} records: queries, {threads} thread(s), round {}", thousands(stage.records), round + 1);
        for (server, rounds) in stage.servers.iter().zip(&mut all) {
            measure_one(options, stage, server, threads, rounds);
        }
    }
    all
}

/// One round of one server.
pub fn measure_one(options: &Options, stage: &Stage, server: &Server, threads: usize, rounds: &mut Rounds) {
    let processors = usage::available();
    let (theirs, ours) = match (threads, &processors[..]) {
        (1, [first, rest @ ..]) if !rest.is_empty() => (vec![*first], rest[..1].to_vec()),
        _ => (processors.clone(), processors.clone()),
    };
    usage::pin_group(server.id(), &theirs);
    let check = if server.kind == Kind::Echo { Check::Echo } else { Check::Answer };
    let questions = stage.questions(server.kind);
    let (answers, failed, time, used) = Load::run(questions, (server.address, check), (threads, &ours), |load| {
        std::thread::sleep(WARM_UP);
        let (before, usage, start) = (load.outcome(), Usage::take(server.id()), Instant::now());
        std::thread::sleep(options.seconds);
        let (after, usage, time) = (load.outcome(), Usage::take(server.id()) - usage, start.elapsed());
        let failed = after.wrong + after.lost - before.wrong - before.lost;
        (after.answers - before.answers, failed, time.as_secs_f64(), usage)
    });
    usage::pin_group(server.id(), &processors);
    let answers = answers as f64;
    rounds.rate.push(answers / time);
    rounds.total.push((used.user + used.system) / answers * 1e6);
    rounds.user.push(used.user / answers * 1e6);
    rounds.failed += failed;
}

/// Adds a row for each server.
fn report(stage: &Stage, threads: usize, all: &[Rounds], table: &mut Table) {
    let total_of = |kind: Kind| {
        let index = stage.servers.iter().position(|server| server.kind == kind)?;
        Some(median(&all[index].total))
    };
    for (server, rounds) in stage.servers.iter().zip(all) {
        let total = median(&rounds.total);
        let ratio = |to: Kind| total_of(to).map_or("–".to_string(), |other| format!("{:.2}", total / other));
        table.row(vec![
            threads.to_string(),
            thousands(stage.records),
            server.kind.label().to_string(),
            thousands(median(&rounds.rate) as usize),
            format!("{total:.2}"),
            format!("{:.2}", median(&rounds.user)),
            ratio(Kind::Echo),
            ratio(Kind::Aggregator),
            rounds.failed.to_string(),
        ]);
    }
}
