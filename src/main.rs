//! The program `aggregator`.

use aggregator::{cli, daemon, demo};
use std::process::ExitCode;

fn main() -> ExitCode {
    cli::run_main(std::env::args_os(), daemon::run, demo::run)
}
