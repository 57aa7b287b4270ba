//! Fields of log lines: those of `docs/log.md`, in the sources and in JSON lines of a daemon that has much to tell.

mod harness;

use harness::*;
use serde::Deserializer;
use serde::de::{MapAccess, Visitor};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(20);

/// Keys that every JSON line has of itself, or may have.
const OWN_KEYS: [&str; 5] = ["timestamp", "level", "message", "target", "span"];

/// Fields of the document, with their types.
fn documented() -> BTreeMap<String, String> {
    let text = repository_text("docs/log.md");
    let rows = text.lines().filter_map(|line| line.strip_prefix("| `"));
    let fields = rows.map(|row| {
        let (name, rest) = row.split_once("` | ").expect("a name");
        (name.to_string(), rest.split(" | ").next().expect("a type").to_string())
    });
    fields.collect()
}

//--- Sources ---

/// Macros that make lines.
const MACROS: [&str; 5] = ["trace!(", "debug!(", "info!(", "warn!(", "error!("];

/// All sources below a folder.
fn sources_below(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path()) {
        if entry.is_dir() {
            sources_below(&entry, found);
        } else if entry.extension().is_some_and(|extension| extension == "rs") {
            found.push(entry);
        }
    }
}

/// The arguments at the beginning of a text, up to the parenthesis that closes them.
fn arguments(text: &str) -> Vec<&str> {
    let (mut found, mut begin, mut depth) = (Vec::new(), 0, 0);
    let mut characters = text.char_indices();
    while let Some((at, character)) = characters.next() {
        match character {
            '"' => while characters.next().is_some_and(|(_, inner)| inner != '"') {},
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' if depth > 0 => depth -= 1,
            ',' if depth == 0 => {
                found.push(text[begin..at].trim());
                begin = at + 1;
            }
            ')' => {
                found.push(text[begin..at].trim());
                break;
            }
            _ => {}
        }
    }
    found
}

/// The fields of all lines in a source: sigil and name.
fn fields(source: &str) -> Vec<(Option<char>, String)> {
    // What a string quotes must not end it.
    let source = source.replace("\\\\", "").replace("\\\"", "").replace("'\"'", "");
    let calls = MACROS.iter().flat_map(|name| source.match_indices(name).map(|(at, _)| &source[at + name.len()..]));
    let fields = calls.flat_map(|call| {
        let before_text = arguments(call).into_iter().filter(|argument| !argument.starts_with("target:"));
        before_text.take_while(|argument| !argument.starts_with('"') && !argument.is_empty()).collect::<Vec<_>>()
    });
    let named = fields.map(|field| {
        let (name, value) = field.split_once('=').map_or((field, field), |(name, value)| (name.trim(), value.trim()));
        let sigil = value.chars().next().filter(|first| ['%', '?'].contains(first));
        (sigil, name.trim_start_matches(['%', '?']).to_string())
    });
    named.collect()
}

#[test]
fn fields_of_the_sources_are_those_of_the_document() {
    let documented = documented();
    let mut files = Vec::new();
    for folder in ["src", "crates"] {
        sources_below(&repository_file(folder), &mut files);
    }
    let mut used = BTreeSet::new();
    for file in files {
        let source = fs::read_to_string(&file).expect("a source");
        for (sigil, name) in fields(&source) {
            let place = format!("{}: {name}", file.display());
            let kind = documented.get(&name).unwrap_or_else(|| panic!("{place} is not in docs/log.md"));
            assert_ne!(sigil, Some('?'), "{place} is written as Rust's debug text");
            assert!(
                sigil.is_none() || ["text", "list"].contains(&&kind[..]),
                "{place} is a {kind}, and written as text"
            );
            used.insert(name);
        }
    }
    assert!(used.len() > 50, "{used:?}");
    let unused: Vec<&String> = documented.keys().filter(|name| !used.contains(*name)).collect();
    assert!(unused.is_empty(), "no line has {unused:?}");
    let own: Vec<&str> = OWN_KEYS.into_iter().filter(|key| documented.contains_key(*key)).collect();
    assert!(own.is_empty(), "JSON lines have {own:?} of themselves");
}

//--- Lines ---

/// Keys and values of an object in their order, also of a key that comes twice.
struct Pairs;

impl<'de> Visitor<'de> for Pairs {
    type Value = Vec<(String, Value)>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Self::Value, M::Error> {
        let mut pairs = Vec::new();
        while let Some(pair) = map.next_entry()? {
            pairs.push(pair);
        }
        Ok(pairs)
    }
}

/// Reads a line, which must be an object without a key that comes twice.
fn read(line: &str) -> BTreeMap<String, Value> {
    let pairs = serde_json::Deserializer::from_str(line).deserialize_map(Pairs);
    let pairs = pairs.unwrap_or_else(|error| panic!("{error}: {line}"));
    let count = pairs.len();
    let fields: BTreeMap<String, Value> = pairs.into_iter().collect();
    assert_eq!(fields.len(), count, "a key comes twice: {line}");
    fields
}

#[test]
fn json_lines_of_a_daemon_have_the_fields_and_types_of_the_document() {
    let folder = Folder::new();
    let zone = |name: &str, serial: u32, rest: &str| {
        let head = format!("$ORIGIN {name}.\n$TTL 30\n@ IN SOA ns.x.invalid. h.x.invalid. {serial} 30 60 2592000 30\n");
        format!("{head}@ IN NS ns.{name}.\nwww IN A 192.0.2.1\n{rest}")
    };
    let one = |serial: u32, rest: &str| zone("one.test", serial, rest);
    let texts =
        [("one.test", one(1, "clash IN CNAME www\n")), ("two.test", zone("two.test", 1, "clash IN A 192.0.2.2\n"))];
    let peer = Knotd::start_incremental(&folder, &texts.map(|(name, text)| (Dname::parse(name), text)));
    let (address, mut absent) = (peer.address(), Port::reserve());
    let nobody = absent.release();
    // The first line belongs to `[log]`, which stands before the plan. The secondary does not know the region.
    let plan = format!(
        "format = \"json\"\n[zones]\n\"one.test\" = \"{address}\"\n\"two.test\" = \"{address}\"\n\"absent.test\" = \"{nobody}\"\n\
         [aggregations]\n\"region.test\" = [\"one.test\", \"two.test\"]\n\"part.test\" = {{ members = [\"one.test\", \"absent.test\"], partial_after = \"1s\" }}\n\
         [secondaries]\nallow_transfer = [\"127.0.0.0/8\"]\nnotify = [\"{address}\"]\n"
    );
    let daemon = Aggregator::start(&folder, &plan);
    let mut client = Client::new(daemon.address());
    let region = Dname::parse("region.test");
    wait_until("the region is there", PATIENCE, || client.serial(&region));
    let changed = one(2, "clash IN CNAME www\nmore IN A 192.0.2.3\n");
    peer.replace_zone(&Dname::parse("one.test"), &read_zone(&changed));
    wait_until("the change is there", PATIENCE, || {
        assert_eq!(daemon.verb(&["refresh", "one.test"]).code, 0, "{}", daemon.log_text());
        client.serial(&Dname::parse("one.test")).filter(|serial| *serial == 2)
    });
    client.transfer(&region).expect("a transfer");
    assert_eq!(daemon.verb(&["drain", "two.test", "--yes"]).code, 0);
    let expected = [
        ("zone transferred", "zone", "primary serial kind records touched bytes messages ms waited_us"),
        ("region merged", "region", "from serial members contributing conflicts pinned"),
        ("members conflict", "region", "name kind member dropped"),
        ("transfer out", "zone", "peer kind serial records bytes ms result"),
        ("NOTIFY failed", "zone", "secondary serial"),
        ("region is served without", "region", "without"),
        ("started", "version", "addresses zones regions"),
        ("drain", "member", "region drained_names clients until by reason"),
    ];
    let log = wait_until("everything is told", PATIENCE, || {
        let log = daemon.log_text();
        expected.iter().all(|(message, ..)| log.contains(&format!("\"message\":\"{message}"))).then_some(log)
    });
    let documented = documented();
    let lines: Vec<BTreeMap<String, Value>> = log.lines().map(read).collect();
    for line in &lines {
        for (name, value) in line.iter().filter(|(name, _)| !OWN_KEYS.contains(&&name[..])) {
            let kind = documented.get(name).unwrap_or_else(|| panic!("{name} is not in docs/log.md: {line:?}"));
            let is_right = match &kind[..] {
                "number" => value.is_number(),
                "boolean" => value.is_boolean(),
                _ => value.is_string(),
            };
            assert!(is_right, "{name} is not a {kind}: {line:?}");
        }
    }
    for (message, subject, others) in expected {
        let has =
            |line: &&BTreeMap<String, Value>| line["message"].as_str().is_some_and(|text| text.starts_with(message));
        let has_all =
            |line: &BTreeMap<String, Value>| others.split(' ').chain([subject]).all(|name| line.contains_key(name));
        let told: Vec<_> = lines.iter().filter(has).collect();
        assert!(told.iter().any(|line| has_all(line)), "{message} lacks fields: {told:?}");
    }
    let transferred = lines.iter().find(|line| line["message"] == "zone transferred" && line.contains_key("from"));
    let transferred = transferred.unwrap_or_else(|| panic!("no difference in {log}"));
    assert_eq!((&transferred["from"], &transferred["serial"]), (&Value::from(1), &Value::from(2)));
}

//--- systemd's journal ---

#[test]
fn lines_for_the_journal_have_priorities() {
    let folder = Folder::new();
    // A file stands for the journal; that it is standard error is what counts.
    let log_of = |home: &Path, format: &str| {
        fs::create_dir_all(home).expect("a folder");
        let log = home.join("log");
        let file = fs::File::create(&log).and_then(|file| file.metadata()).expect("a file");
        let named = format!("{}:{}", file.dev(), file.ino());
        let plan = format!("format = \"{format}\"\n[zones]\n\"a.test\" = \"127.0.0.1:1\"\n");
        (named, Settings::new(&plan))
    };
    for (format, is_ours) in [("human", true), ("json", true), ("human", false)] {
        let home = folder.subfolder(&format!("{format}-{is_ours}"));
        let (named, mut settings) = log_of(&home, format);
        let named = if is_ours { named } else { "1:2".to_owned() };
        settings.environment = vec![("JOURNAL_STREAM", named)];
        let mut daemon = Aggregator::start_with(&home, &settings);
        let log = wait_until("a warning", PATIENCE, || Some(daemon.log_text()).filter(|log| log.contains("WARN")));
        daemon.stop();
        let started = log.lines().find(|line| line.contains("started") && line.contains("INFO")).expect("a line");
        let warning = log.lines().find(|line| line.contains("WARN")).expect("a line");
        let begins = match (format, is_ours) {
            ("json", _) => ["<6>{\"timestamp\":", "<4>{\"timestamp\":"],
            (_, true) => ["<6> INFO aggregator::", "<4> WARN aggregator::"],
            // Another program's errors are in the journal, and ours in a file.
            _ => ["2", "2"],
        };
        for (line, begin) in [started, warning].into_iter().zip(begins) {
            assert!(line.starts_with(begin), "{begin} in {line}");
        }
        assert!(log.lines().all(|line| line.starts_with('<') == is_ours), "{log}");
    }
}

#[test]
#[ignore = "needs root: a journal in a mount namespace of its own"]
fn entries_of_the_real_journal_have_fields() {
    let folder = Folder::new();
    let configuration = folder.path().join("aggregator.toml");
    let text = format!(
        "[server]\nlisten = \"{}\"\n[state]\nfolder = \"{}\"\n[metrics]\nlisten = []\n[control]\nsocket = \"{}\"\n\
         [zones]\n\"a.test\" = \"127.0.0.1:1\"\n",
        Port::reserve().release(),
        folder.path().join("state").display(),
        folder.path().join("control").display()
    );
    write_file(&configuration, &text);
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/logging/journal.py");
    let mut command = Command::new("unshare");
    command.args(["-m", "/usr/bin/python3"]).arg(script).arg(env!("CARGO_BIN_EXE_aggregator"));
    let output = command.args(["run", "-c"]).arg(&configuration).output().expect("unshare");
    assert!(output.status.success(), "{output:?}");
    let entries: Vec<Value> = serde_json::from_slice(&output.stdout).expect("JSON");
    let find = |text: &str| {
        let has = |entry: &&Value| entry["MESSAGE"].as_str().is_some_and(|message| message.contains(text));
        entries.iter().find(has).unwrap_or_else(|| panic!("{text}: {entries:#?}"))
    };
    let started = find(" INFO aggregator::daemon: started version=");
    for (field, value) in [("PRIORITY", "6"), ("AGGREGATOR_ZONES", "1"), ("AGGREGATOR_TARGET", "aggregator::daemon")] {
        assert_eq!(started[field], value, "{started:#}");
    }
    let warned = find(" WARN aggregator::transfer");
    for (field, value) in [("PRIORITY", "4"), ("AGGREGATOR_ZONE", "a.test."), ("AGGREGATOR_PRIMARY", "127.0.0.1:1")] {
        assert_eq!(warned[field], value, "{warned:#}");
    }
    // Behind the end of the first journald, too.
    assert_eq!(find(" INFO aggregator::daemon: stopped")["PRIORITY"], "6");
    assert!(entries.iter().all(|entry| entry["_TRANSPORT"] == "journal"), "{entries:#?}");
}
