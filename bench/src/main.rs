//! `make bench`: the figures of `docs/performance.md`, measured on the program that was just built, beside real servers.
//!
//! Everything runs on loopback. Who is compared is measured in turns, round by round, so that a disturbance of the machine
//! meets all. Tables go to stdout as Markdown, what is going on to stderr.
//!
//! `generate` makes zones, `primary` serves them with NSD, `daemon` and `pipeline` are what is compared, `scene` holds all
//! of one size; `change` and `restart` measure; `tree` does all of that with a tree of ZooKeeper's; `probe`, `memory`,
//! `quiet` look; `table` prints.
//!
//! Cost: about fifteen minutes on two processors, and 3 GB of memory.

mod change;
mod daemon;
mod generate;
mod harness;
mod memory;
mod options;
mod pipeline;
mod primary;
mod probe;
mod quiet;
mod restart;
mod scene;
mod table;
mod tree;

use options::Options;
use scene::{RECORDS_OF_OTHERS, Scene};
use std::path::Path;
use std::process::ExitCode;
use table::thousands;

/// What must be installed.
const PROGRAMS: [&str; 7] = ["nsd", "named", "rndc", "rndc-confgen", "dig", "sed", "java"];

/// Reads the options, measures, prints.
fn main() -> ExitCode {
    if std::env::args().any(|argument| argument == "--help") {
        println!("{}", options::USAGE);
        return ExitCode::SUCCESS;
    }
    let options = match Options::read(std::env::args().skip(1)).and_then(find_programs) {
        Ok(options) => options,
        Err(text) => {
            eprintln!("{text}");
            return ExitCode::from(2);
        }
    };
    if options.regions {
        measure_regions(&options);
    }
    if options.tree {
        tree::measure(&options);
    }
    ExitCode::SUCCESS
}

/// Measures datacenters and their regions in all sizes, beside BIND, and prints the tables.
fn measure_regions(options: &Options) {
    let (mut times, mut memory, mut restarts) = (change::times_table(), change::memory_table(), restart::table());
    for records in &options.records {
        eprintln!("{} records: starting the servers", thousands(*records));
        let mut scene = Scene::start(&options.program, *records);
        change::measure(&mut scene, options, &mut times, &mut memory);
        if options.restart {
            restart::measure(&mut scene, options, &mut restarts);
        }
    }
    println!("{} The two others have {} each.\n\n{times}", change::caption(), thousands(RECORDS_OF_OTHERS));
    println!("Memory (resident), of the program alone:\n\n{memory}");
    if options.restart {
        println!("From the start of the program to the first answer, no primary there:\n\n{restarts}");
    }
}

/// Demands the programs that are measured, found absolutely, because servers are started in folders of their own.
fn find_programs(options: Options) -> Result<Options, String> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let is_there = |program: &&str| std::env::split_paths(&path).any(|folder| folder.join(program).is_file());
    let missing: Vec<&str> = PROGRAMS.into_iter().filter(|program| !is_there(program)).collect();
    if !missing.is_empty() {
        return Err(format!("not installed: {}; `make bench` installs what it can", missing.join(", ")));
    }
    let program = find(&options.program)?;
    Ok(Options { program, ..options })
}

/// The absolute path of the program to measure.
fn find(program: &Path) -> Result<std::path::PathBuf, String> {
    program.canonicalize().map_err(|error| format!("{}: {error}; `make build` makes it", program.display()))
}
