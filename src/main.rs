//! The program `aggregator`.

use aggregator::cli;
use std::process::ExitCode;

fn main() -> ExitCode {
    // The two verbs that run until told otherwise.
    let run = |_| ExitCode::FAILURE;
    let demo = |_| ExitCode::FAILURE;
    cli::run_main(std::env::args_os(), run, demo)
}
