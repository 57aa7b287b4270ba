//! Writes the manual pages and the shell completions of `aggregator` into a folder: `cargo run --example manual FOLDER`.
//!
//! They are made from the definition of the command line, so that they cannot differ from it.

use clap_complete::{Shell, generate_to};
use std::io;
use std::path::Path;

fn main() -> io::Result<()> {
    let folder = std::env::args_os().nth(1).ok_or_else(|| io::Error::other("usage: manual FOLDER"))?;
    write_manual(Path::new(&folder))
}

/// Writes all of them into a folder.
pub fn write_manual(folder: &Path) -> io::Result<()> {
    std::fs::create_dir_all(folder)?;
    let mut command = aggregator::cli::command();
    for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
        generate_to(shell, &mut command, "aggregator", folder)?;
    }
    // One page a verb, and one that lists them.
    clap_mangen::generate_to(command, folder)
}
