//! The references of `docs/` say what the program says: `configuration.md` is written from the table of keys,
//! `metrics.md` from the registry. `make docs` writes them anew; this test fails when they are stale.

use aggregator::config::schema;
use aggregator::metrics::{Family, Metrics};
use settings::schema::TableText;
use std::fmt::Write;
use std::path::Path;

/// Compares a document with its file, or writes the file where `make docs` asks for it.
fn hold(file: &str, text: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs").join(file);
    if std::env::var_os("AGGREGATOR_WRITE_DOCS").is_some() {
        std::fs::write(&path, text).unwrap();
    }
    let found = std::fs::read_to_string(&path).unwrap_or_default();
    let stale = found.lines().zip(text.lines()).position(|(old, new)| old != new);
    assert!(found == text, "docs/{file} is stale from line {}; run make docs", stale.unwrap_or_default() + 1);
}

/// A text as the cell of a table.
fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace('<', "&lt;")
}

/// A literal as the cell of a table; nothing without one.
fn literal(text: &str) -> String {
    if text.is_empty() { String::new() } else { format!("`{}`", text.replace('|', "\\|")) }
}

/// Examples as code: what stands in quotes, or all of it.
fn quote(written: &str) -> String {
    if written.starts_with(['[', '{']) {
        return format!("`{written}`");
    }
    let parts = written.split('"').enumerate();
    parts.map(|(index, part)| if index % 2 == 1 { format!("`\"{part}\"`") } else { part.to_owned() }).collect()
}

//--- Configuration ---

const CONFIGURATION: &str = "\
# Configuration reference

Written from the program's own table of keys by `make docs`; a test compares both. [config.example.toml](../config.example.toml)
has the same keys in a file with comments, the [README](../README.md) the way there.

The file is TOML, or the JSON of RFD 172 with the same keys. `aggregator check` reads it as the server would and tells every
mistake with its line; a key that is not here is one. `aggregator reload` takes up every change but those of `[state]`, of
`[security]` and of the `format` of the log, which wait for a restart. Relative paths begin in the folder of the file.
Keys that many zones, aggregations or inventories share stand once in `[templates.NAME]`; what has `template = \"NAME\"` takes those
that it does not write itself.

";

const ABSENT: &str = "
Where no default is written, the text says what happens without the key.
";

/// A section of the reference.
fn describe(table: TableText) -> String {
    let title = if table.path.is_empty() { "The file".to_string() } else { format!("`{}`", table.path) };
    let mut text =
        format!("\n## {title}\n\n{}.\n\n| key | takes | default | meaning |\n|---|---|---|---|\n", table.help);
    for key in table.keys {
        let (takes, default, help) = (cell(&key.takes), literal(key.default), cell(key.help));
        writeln!(text, "| `{}` | {takes} | {default} | {help} |", key.name).unwrap();
    }
    text
}

#[test]
fn every_key_is_in_the_reference() {
    let value = |(takes, written): (&str, &str)| format!("| {takes} | {} |\n", quote(written));
    let values: String = schema::VALUES.into_iter().map(value).collect();
    let sections: String = schema::tables().into_iter().map(describe).collect();
    hold("configuration.md", &format!("{CONFIGURATION}| takes | as in |\n|---|---|\n{values}{ABSENT}{sections}"));
}

//--- Metrics ---

const METRICS: &str = "\
# Metrics reference

Written from the program's registry by `make docs`; a test compares both. `http://127.0.0.1:9153/metrics` shows the values
([`[metrics]`](configuration.md#metrics)); [deploy/prometheus](../deploy/prometheus) has rules and alerts made of them, with a
runbook for each alert in [runbooks.md](runbooks.md), and [deploy/grafana](../deploy/grafana) a dashboard.

Names of zones and regions end with a dot. A family without a series has not met its occasion yet: events of a zone are there from the
first on, and faults while they last. In a family with a label `zone`, at most 200 zones have series of their own, those with a fault
first; the rest is summed under the zone `other`, or has none where a sum says nothing (serials, times). `status` has all zones. A
histogram has the series `_bucket`, `_sum` and `_count`.
";

/// A line of the reference.
fn describe_family(family: &Family) -> String {
    let labels: Vec<String> = family.labels.iter().map(|label| format!("`{label}`")).collect();
    format!("| `{}` | {} | {} | {} |\n", family.name, family.kind, labels.join(", "), cell(&family.help))
}

#[test]
fn every_family_is_in_the_reference() {
    let metrics = Metrics::new();
    let mut families = metrics.families();
    families.sort_by(|one, other| one.name.cmp(&other.name));
    let lines: String = families.iter().map(describe_family).collect();
    hold("metrics.md", &format!("{METRICS}\n| family | kind | labels | meaning |\n|---|---|---|---|\n{lines}"));
}

/// The list is that of the registry: whatever a scrape shows is in it, with the same kind and help.
#[test]
fn a_scrape_shows_nothing_that_is_not_in_the_list() {
    let metrics = Metrics::new();
    let page = metrics.render();
    for line in page.lines().filter_map(|line| line.strip_prefix("# TYPE ")) {
        let (name, kind) = line.split_once(' ').unwrap();
        let family = metrics.families().into_iter().find(|family| family.name == name);
        assert_eq!(family.map(|family| family.kind), Some(kind), "{name}");
    }
    assert!(page.contains("aggregator_started_timestamp_seconds "), "{page}");
    assert!(metrics.families().iter().any(|family| family.kind == "histogram" && family.labels == ["kind"]));
}
