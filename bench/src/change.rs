//! From a change in a datacenter to the answer of the region, and the memory that it takes.
//!
//! A round: the first datacenter gets a new version in which some names have other addresses; NSD loads it; when it
//! serves nothing else and all is quiet, the clock starts with the NOTIFY that our daemon gets, and stops when a question
//! for a changed name in the region is answered with the new address. Then the clock starts again for the reference
//! pipeline with the same change; who comes first alternates from round to round. After each, a sample of the changed
//! names is looked at, so that no time counts for half a change.
//!
//! Cost: a round is two loads of the zone in NSD's time, and one of the pipeline's.

use crate::memory::Memory;
use crate::options::Options;
use crate::scene::{REGION, SERVERS, Scene};
use crate::table::{Figures, Table, mebibytes, thousands};
use std::time::Instant;

/// Changed names that are looked at after each measurement.
const SAMPLE: usize = 100;

/// The times of one number of changed names.
struct Times {
    names: usize,
    /// Ours, and the pipeline's.
    figures: [Figures; 2],
    /// What is left of ours without the time that NSD took for its answers.
    own: Figures,
    /// Rounds in which our daemon transferred a difference.
    incremental: usize,
}

/// Measures all numbers of names on one scene and adds rows to the tables of times and of memory.
pub fn measure(scene: &mut Scene, options: &Options, times: &mut Table, memory: &mut Table) {
    let records = scene.datacenters[0].records();
    let take = |scene: &Scene| [scene.daemon.id(), scene.pipeline.id()].map(Memory::take);
    let loaded = take(scene);
    let all = scene.datacenters[0].names();
    let mut counts: Vec<usize> = options.names.iter().map(|names| *names.min(&all)).collect();
    counts.dedup();
    let mut results: Vec<Times> = counts
        .into_iter()
        .map(|names| Times { names, figures: Default::default(), own: Figures::default(), incremental: 0 })
        .collect();
    let mut first = 0;
    for round in 0..options.rounds {
        for times in &mut results {
            eprintln!("{} records, {} names changed, round {}", thousands(records), thousands(times.names), round + 1);
            let with_pipeline = round < options.pipeline_rounds(records);
            measure_round(scene, times, first, round % 2 == 1, with_pipeline);
            first += times.names;
        }
    }
    let changed = take(scene);
    for result in results {
        let [ours, pipeline] = result.figures;
        let ratio = match (ours.median(), pipeline.median()) {
            (Some(ours), Some(pipeline)) => format!("{:.0}", pipeline.as_secs_f64() / ours.as_secs_f64()),
            _ => "–".to_string(),
        };
        let names = thousands(result.names);
        let incremental = format!("{} of {}", result.incremental, options.rounds);
        let figures = [ours.to_string(), result.own.to_string(), incremental, pipeline.to_string(), ratio];
        times.row([thousands(records), names].into_iter().chain(figures).collect());
    }
    for (index, program) in SERVERS.into_iter().enumerate() {
        let numbers = [loaded[index].resident, loaded[index].highest, changed[index].resident, changed[index].highest];
        let cells = [thousands(records), program.to_string()].into_iter().chain(numbers.map(mebibytes));
        memory.row(cells.collect());
    }
}

/// One change, measured with us and with the pipeline.
fn measure_round(scene: &mut Scene, times: &mut Times, first: usize, reverse: bool, with_pipeline: bool) {
    scene.datacenters[0].change(first, times.names);
    let primary = scene.primary.as_mut().expect("the primary is there while changes are measured");
    primary.update(&scene.datacenters[0]);
    let last = first + times.names - 1;
    let sample = || (first..first + times.names).step_by(times.names.div_ceil(SAMPLE));
    for server in if reverse { [1, 0] } else { [0, 1] } {
        scene.wait_quiet();
        if server == 0 {
            let before = scene.daemon.incremental_transfers();
            let start = Instant::now();
            scene.probes[0].notify(&scene.datacenters[0].zone);
            let time = scene.time_until_current(0, last, start);
            let time = time.expect("a change that is announced reaches the region");
            times.figures[0].push(time);
            // The log line may come a moment after the answer.
            scene.wait_quiet();
            let waited = scene.daemon.waited().expect("the log says how long the transfer waited");
            times.own.push(time.saturating_sub(waited));
            times.incremental += usize::from(scene.daemon.incremental_transfers() > before);
        } else if with_pipeline {
            let start = Instant::now();
            let mut script = scene.pipeline.spawn();
            let time = scene.time_until_current(1, last, start);
            times.figures[1].push(time.expect("what the pipeline reloads is served"));
            let status = script.wait().expect("the script has been started");
            assert!(status.success(), "the pipeline ended with {status}");
        } else {
            continue;
        }
        scene.check(server, sample());
    }
}

/// The table of times.
pub fn times_table() -> Table {
    Table::new(&["records", "names changed", "aggregator", "without NSD", "by IXFR", "dig, sed, rndc, BIND", "ratio"])
}

/// The table of memory.
pub fn memory_table() -> Table {
    Table::new(&["records", "program", "loaded", "highest until then", "after all changes", "highest during changes"])
}

/// What stands above the tables.
pub fn caption() -> String {
    format!(
        "From the NOTIFY to the first answer of {REGION} with the new data: **median** (smallest … largest; rounds). \
         The datacenter that changes has so many records. Without NSD: what is left when the time is taken off that NSD \
         took to answer the SOA question and the IXFR, by the daemon's log."
    )
}
