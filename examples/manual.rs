//! Writes the manual pages and the shell completions of `aggregator` into a folder: `cargo run --example manual FOLDER`.
//!
//! Pages are made from the definition of the command line and from the table of keys, so that they cannot differ from those; by
//! the completions a shell asks the program itself.

use aggregator::config::schema;
use roff::{Inline, Roff, bold, italic, roman};
use std::io;
use std::path::Path;

fn main() -> io::Result<()> {
    let folder = std::env::args_os().nth(1).ok_or_else(|| io::Error::other("usage: manual FOLDER"))?;
    write_manual(Path::new(&folder))
}

/// Writes all of them into a folder.
pub fn write_manual(folder: &Path) -> io::Result<()> {
    std::fs::create_dir_all(folder)?;
    let command = aggregator::cli::command();
    for (file, text) in aggregator::cli::complete::registrations()? {
        std::fs::write(folder.join(file), text)?;
    }
    // One page a verb, and one that lists them.
    clap_mangen::generate_to(command, folder)?;
    std::fs::write(folder.join("aggregator.toml.5"), configuration_page())
}

/// What the page of the configuration file says before its keys.
const ABOUT: [&str; 3] = [
    "The file is TOML, or JSON with the same keys. \"aggregator check\" reads it as the server would and tells every mistake with \
     its line; a key that is not here is one. \"aggregator reload\" takes up every change but those of [state], of [security] and of the \
     format of the log, which wait for a restart.",
    "Relative paths begin in the folder of the file. Keys that many zones, aggregations or inventories share stand once in \
     [templates.NAME]; what has template = \"NAME\" takes those that it does not write itself.",
    "Where no default is written, the text says what happens without the key.",
];

/// The page of the configuration file.
fn configuration_page() -> String {
    let mut page = Roff::new();
    let source = concat!("aggregator ", env!("CARGO_PKG_VERSION"));
    page.control("TH", ["aggregator.toml", "5", "", source, "File formats"]);
    page.control("SH", ["NAME"]);
    page.text([roman("aggregator.toml - configuration of the aggregator of CNS zones")]);
    page.control("SH", ["DESCRIPTION"]);
    for paragraph in ABOUT {
        page.control("PP", []);
        page.text([roman(paragraph)]);
    }
    page.control("SH", ["VALUES"]);
    for (value, written) in schema::VALUES {
        entry(&mut page, [italic(value)], written);
    }
    for table in schema::tables() {
        let title = if table.path.is_empty() { "THE FILE" } else { table.path };
        // On a line of its own: as an argument its quotation marks would have to be written in another way.
        page.control("SH", []);
        page.text([roman(title)]);
        page.text([roman(format!("{}.", table.help))]);
        for key in table.keys {
            let default = if key.default.is_empty() { String::new() } else { format!(" (default: {})", key.default) };
            entry(&mut page, [bold(key.name), roman(" "), italic(key.takes), roman(default)], key.help);
        }
    }
    page.control("SH", ["SEE ALSO"]);
    page.text([
        bold("aggregator"),
        roman("(1), "),
        bold("aggregator-check"),
        roman("(1), "),
        bold("aggregator-reload"),
        roman("(1)"),
    ]);
    page.render()
}

/// Adds a line, and what it means below it.
fn entry<const N: usize>(page: &mut Roff, line: [Inline; N], meaning: &str) {
    page.control("TP", []);
    page.text(line);
    page.text([roman(meaning)]);
}
