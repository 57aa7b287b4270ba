//! `make bench`: the figures of `docs/performance.md`, measured on the program that was just built, beside real servers.
//!
//! Everything runs on loopback. Who is compared is measured in turns, round by round, so that a disturbance of the machine
//! meets all. Tables go to stdout as Markdown, what is going on to stderr.
//!
//! Fifteen parts. *Changes*, beside the reference pipeline: `primary` serves zones with NSD, `daemon` and `pipeline` are what
//! is compared, `scene` holds all of one size; `change` and `restart` measure. *Bulk* reads memory after changes of many names,
//! which `scripted` makes; *pace*, which runs only when it is asked for, makes small ones for minutes, and *soak*, likewise,
//! with everything else going on. *Tree* changes a tree of ZooKeeper's, *sets* one record of a very large set, *inventory* the
//! instances of a Triton datacenter.
//! *Regions* restarts our program alone with many large regions.
//! *Queries* and *transfers*, beside other servers: `server` starts them, `stage` holds all of one size, `question`, `load`,
//! `echo` and `drain` are the clients and the ceiling, `verify` compares answers, `profile` looks into our program. *Steering* asks our program alone.
//! *Floods* floods ours, NSD, Knot and BIND with the limits that they have by default.
//! *Zones* has many small ones, which do not change, beside Knot.
//! `generate` makes zones, `options` chooses; `probe`, `memory`, `usage`, `quiet` look; `table` prints.
//!
//! Cost: about an hour and a quarter on two processors, and 6 GB of memory.

mod bulk;
mod change;
mod daemon;
mod drain;
mod echo;
mod floods;
mod generate;
mod harness;
mod inventory;
mod load;
mod memory;
mod options;
mod pace;
mod page;
mod pipeline;
mod primary;
mod probe;
mod profile;
mod queries;
mod question;
mod quiet;
mod regions;
mod restart;
mod scene;
mod scripted;
mod server;
mod sets;
mod soak;
mod stage;
mod steering;
mod table;
mod taps;
mod transfers;
mod tree;
mod usage;
mod verify;
mod zones;

use options::{Options, Part};
use scene::{RECORDS_OF_OTHERS, Scene};
use std::collections::BTreeSet;
use std::path::Path;
use std::process::ExitCode;
use table::thousands;

/// What must be installed for the reference pipeline and its primary.
const PIPELINE: [&str; 6] = ["nsd", "named", "rndc", "rndc-confgen", "dig", "sed"];

/// Reads the options, measures, prints.
fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [option, address, threads] = &arguments[..]
        && option == "--echo"
        && let (Ok(address), Ok(threads)) = (address.parse(), threads.parse())
    {
        return echo::run(address, threads).map_or(ExitCode::FAILURE, |()| ExitCode::SUCCESS);
    }
    if arguments.iter().any(|argument| argument == "--help") {
        println!("{}", options::USAGE);
        return ExitCode::SUCCESS;
    }
    let options = match Options::read(arguments).and_then(find_programs) {
        Ok(options) => options,
        Err(text) => {
            eprintln!("{text}");
            return ExitCode::from(2);
        }
    };
    let mut is_sound = true;
    for part in &options.parts {
        match part {
            Part::Changes => measure_changes(&options),
            Part::Bulk => bulk::measure_all(&options),
            Part::Tree => tree::measure(&options),
            Part::Inventory => inventory::measure(&options),
            Part::Sets => sets::measure(&options),
            Part::Regions => regions::measure(&options),
            Part::Pace => pace::measure(&options),
            Part::Soak => is_sound &= soak::measure(&options),
            Part::Profile => profile::measure(&options),
            Part::Zones => zones::measure(&options),
            Part::Floods => floods::measure(&options),
            Part::Taps => taps::measure(&options),
            Part::Queries => {
                let mut tables = queries::Tables::new();
                options.records.iter().for_each(|records| queries::measure(&options, *records, &mut tables));
                tables.print();
            }
            Part::Transfers => {
                let mut tables = transfers::Tables::new();
                options.records.iter().for_each(|records| transfers::measure(&options, *records, &mut tables));
                tables.print();
            }
            Part::Steering => {
                let mut tables = steering::Tables::new();
                options.records.iter().for_each(|records| steering::measure(&options, *records, &mut tables));
                tables.print();
            }
        }
    }
    if is_sound { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Changes, beside the reference pipeline.
fn measure_changes(options: &Options) {
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
    let peers: Vec<&str> = options.peers.iter().filter_map(|kind| kind.program()).collect();
    let needed = options.parts.iter().flat_map(|part| match part {
        Part::Changes => PIPELINE.to_vec(),
        Part::Tree => vec!["java"],
        Part::Bulk | Part::Inventory | Part::Pace | Part::Sets => Vec::new(),
        Part::Queries | Part::Transfers => [&["nsd"], &peers[..]].concat(),
        Part::Regions | Part::Steering => vec!["nsd"],
        Part::Zones => vec!["nsd", "knotd"],
        Part::Taps => vec!["nsd", "knotd", "fstrm_capture"],
        Part::Floods => peers.iter().copied().filter(|peer| ["nsd", "knotd", "named"].contains(peer)).collect(),
        Part::Soak => vec!["knotd"],
        Part::Profile => vec!["nsd", "perf"],
    });
    let needed: BTreeSet<&str> = needed.collect();
    let missing: Vec<&str> = needed.into_iter().filter(|program| !is_there(program)).collect();
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
