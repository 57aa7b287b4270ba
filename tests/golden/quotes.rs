//! Quotations in documents: each one is a text that the sources contain.
//!
//! A quotation is code in a document that has several words and is no command, option or piece of a configuration. The
//! golden file shows which string of the sources each one is.

use crate::compare::assert_golden;
use crate::harness::{repository_file, repository_text};
use crate::literals::{fixed_parts, strings};
use regex::Regex;
use std::collections::BTreeSet;
use std::fmt::Write;
use std::fs;
use std::path::Path;

/// Beginnings of code that is typed, not read.
const TYPED: [&str; 44] = [
    "aggregator",
    "dig ",
    "kdig ",
    "cnsadm ",
    "mtr ",
    "make ",
    "cargo ",
    "docker ",
    "systemctl ",
    "rndc ",
    "rate(",
    "sum",
    "curl ",
    "journalctl ",
    "[",
    "svc",
    "df ",
    "kubectl ",
    "image/",
    "promtool ",
    "sysctl ",
    "--",
    "-",
    "date ",
    "echo ",
    "git ",
    "triton ",
    "nft ",
    "include ",
    "systemd-analyze ",
    "status ",
    "lookup ",
    "rollback ",
    "refresh ",
    "retransfer ",
    "undrain ",
    "check ",
    "sdc-login ",
    "main.js ",
    "/bin/sh ",
    "AGGREGATOR_",
    "zkCli.sh ",
    "knotc ",
    "nsd-control ",
];

/// Other code of several words that is no quotation, and what it is.
const OTHER: [(&str, &str); 10] = [
    ("a member of [zones.\"NAME\"]", "a heading of the reference"),
    ("\"0 30 4 * * *\"", "a value of a key"),
    ("TYPE \\# LENGTH HEX", "a record, RFC 3597"),
    ("baremetal (2)", "a service type"),
    ("max-records-per-type 0;", "a statement of BIND"),
    ("allowPrivilegeEscalation: true", "of Kubernetes"),
    ("figure: ...", "what a test prints"),
    ("{\"error\": \"…\"}", "JSON"),
    ("{\"host\", \"port\"}", "JSON"),
    ("{\"address\", \"port\"}", "JSON"),
];

/// All documents for operators.
fn documents() -> Vec<String> {
    let listed = fs::read_dir(repository_file("docs")).unwrap().map(|entry| entry.unwrap().file_name());
    let mut found: Vec<String> =
        listed.filter_map(|name| name.into_string().ok()).filter(|name| name.ends_with(".md")).collect();
    found.sort();
    found.iter().map(|name| format!("docs/{name}")).chain(["README.md".to_owned()]).collect()
}

/// Code in a document, without its blocks, in one line each.
fn code(text: &str) -> Vec<String> {
    let outside: String = text.split("```").step_by(2).collect();
    let inline = Regex::new(r"`([^`\n]+(?:\n[^`\n]+)?)`").expect("a pattern");
    let one_line = |found: regex::Captures<'_>| found[1].split_whitespace().collect::<Vec<_>>().join(" ");
    inline.captures_iter(&outside).map(one_line).collect()
}

/// All strings of the sources, marked.
fn all_strings(folder: &Path, found: &mut BTreeSet<String>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            all_strings(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") && !path.ends_with("tests.rs") {
            let strings = strings(&fs::read_to_string(&path).unwrap());
            found.extend(strings.iter().map(|string| marked(string)));
        }
    }
}

/// Stands where a string has something filled in.
const FILLED: &str = "\u{1}";

/// A string of the sources with what is filled in marked.
fn marked(string: &str) -> String {
    fixed_parts(string).join(FILLED)
}

/// Counts the words of a quotation that a marked string has itself; none if the string is not quoted. At least half must be
/// its own, the others stand where it has something filled in.
fn is_said(quotation: &str, string: &str) -> Option<usize> {
    let words: Vec<&str> = quotation.split(' ').collect();
    let filled: Vec<&str> = words.iter().map(|word| if string.contains(word) { word } else { FILLED }).collect();
    let own = filled.iter().filter(|word| **word != FILLED).count();
    (2 * own >= words.len() && string.contains(&filled.join(" "))).then_some(own)
}

#[test]
fn what_documents_quote_is_said() {
    let mut said = BTreeSet::new();
    for folder in ["src", "crates"] {
        all_strings(&repository_file(folder), &mut said);
    }
    let (mut text, mut faults) = (String::new(), Vec::new());
    let mut others = BTreeSet::new();
    for document in documents() {
        let quotations = code(&repository_text(&document));
        for quotation in quotations.into_iter().filter(|code| code.contains(' ')).collect::<BTreeSet<_>>() {
            if let Some((other, _)) = OTHER.iter().find(|(other, _)| *other == quotation) {
                others.insert(*other);
                continue;
            }
            // A piece of a configuration has an equals sign.
            if TYPED.iter().any(|typed| quotation.starts_with(typed)) || quotation.contains(" = ") {
                continue;
            }
            writeln!(text, "{document}: {quotation}").unwrap();
            // Dots of omission may stand between two strings.
            for part in quotation.split('…').map(|part| part.trim_matches([' ', ':'])).filter(|part| !part.is_empty())
            {
                let found = said.iter().filter(|string| string.contains(' '));
                let found = found.filter_map(|string| Some((is_said(part, string)?, string)));
                match found.max_by_key(|(own, string)| (*own, usize::MAX - string.len())).map(|(_, string)| string) {
                    Some(string) => writeln!(text, "  {}", string.replace(FILLED, "{}")).unwrap(),
                    None => faults.push(format!("{document} quotes {part:?}, which no source says")),
                }
            }
        }
    }
    for (other, _) in OTHER.iter().filter(|(other, _)| !others.contains(other)) {
        faults.push(format!("no document has {other:?} any more; take it from OTHER"));
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    assert_golden("quotes.txt", &text);
}

/// Fields, labels, keys and metrics in the runbooks are those of the program.
#[test]
fn what_runbooks_name_is_there() {
    fn sources(folder: &Path, text: &mut String) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                sources(&path, text);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                text.push_str(&fs::read_to_string(&path).unwrap());
            }
        }
    }
    let mut text = String::new();
    for folder in ["src", "crates"] {
        sources(&repository_file(folder), &mut text);
    }
    let identifier = Regex::new("^[a-z]+(_[a-z0-9]+)+$").expect("a pattern");
    let mut named = 0;
    for document in ["runbooks", "operate", "drain", "history", "memory", "state", "troubleshooting"] {
        for name in
            code(&repository_text(&format!("docs/{document}.md"))).iter().filter(|name| identifier.is_match(name))
        {
            named += 1;
            let bare = name.strip_prefix("aggregator_").unwrap_or(name);
            assert!(text.contains(bare), "{document} names {name}, which no source has");
        }
    }
    assert!(named > 40, "{named}");
}

#[test]
fn a_quotation_is_found_where_values_are_filled_in() {
    let is_said = |quotation, string| is_said(quotation, &marked(string)).is_some();
    assert!(is_said("serial N held back", "serial {} held back: {} names instead of {}"));
    assert!(is_said("3 removed records stay", "{} removed records stay: no primary answers for them"));
    assert!(is_said("ZooKeeper: disconnected", "ZooKeeper: {}"));
    assert!(!is_said("serial N kept back", "serial {} held back"));
    assert!(!is_said("held serial N", "serial {} held back"));
    assert!(!is_said("NOTIFY refused", "watch refused"));
}
