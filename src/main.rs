//! The program `aggregator`.

use aggregator::{cli, daemon};
use std::process::ExitCode;

fn main() -> ExitCode {
    let demo = |_| ExitCode::FAILURE;
    cli::run_main(std::env::args_os(), daemon::run, demo)
}
