//! Every error and every warning of a configuration file, with its position.
//!
//! A file in `tests/data/golden/config` has many small configurations, each below a line `====`; the lines that begin with
//! `=> ` are what is said of the one above them. A new case is written without them, and the files are written anew.
//! Every message that stands in `src/config` and `crates/settings` must be met by a case.

use crate::compare::assert_golden;
use crate::harness::{Folder, repository_file, repository_text};
use crate::literals::{fixed_parts, strings};
use aggregator::config::{Config, schema};
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

const SEPARATOR: &str = "====\n";
const SAID: &str = "=> ";

/// Messages that no case meets, and why.
const UNMET: [(&str, &str); 8] = [
    ("{key} is missing in the schema of {}", "an assertion, for programmers"),
    ("text gives sound RDATA", "an assertion, for programmers"),
    ("a number that cannot be read", "the parser refuses it before"),
    ("{place} makes no zone ({error}); correct its records", "all that is known to make none is refused before"),
    ("[clients] has {} zones; write {MAX_HOMES} at most", "takes 65,001 zones"),
    (
        "more is wrong from here on; correct what is listed first",
        "takes 1,001 mistakes; the tests of `inventory` have them",
    ),
    ("is larger than any list of prefixes; write the path of a file with a prefix on each line", "takes 512 MiB"),
    ("{place} has more records of a name and type than an answer holds; remove some", "takes 64 KiB of records"),
];

/// Files of sources that hold no messages to operators about their file: the kinds of values, the plan in both forms.
const WITHOUT_MESSAGES: [&str; 5] = ["schema", "plan", "json", "steering_plan", "listed"];

/// Errors or warnings of a configuration, each line marked.
fn said(result: Result<Config, aggregator::config::ConfigErrors>) -> String {
    let text = match result {
        Ok(config) => config.warnings.iter().map(|warning| format!("warning: {warning}\n")).collect(),
        Err(errors) => errors.to_string(),
    };
    text.lines().map(|line| format!("{SAID}{line}\n")).collect()
}

/// All files of cases.
fn case_files() -> Vec<PathBuf> {
    let folder = repository_file("tests/data/golden/config");
    let mut files: Vec<PathBuf> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|path| path.extension().is_some_and(|extension| extension == "cases"));
    files.sort();
    assert!(files.len() >= 10, "{files:?}");
    files
}

/// All files of cases by their names, as they are when written anew.
fn case_texts() -> Vec<(String, String)> {
    let write = |path: PathBuf| {
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        let text = fs::read_to_string(&path).unwrap();
        let mut written = String::new();
        for case in text.split(SEPARATOR).skip(1) {
            let input: String = case.split_inclusive('\n').filter(|line| !line.starts_with(SAID)).collect();
            let said = said(Config::parse(Path::new("c.toml"), &input));
            assert!(!said.is_empty(), "{name}: nothing is wrong with\n{input}");
            written.push_str(&format!("{SEPARATOR}{input}{said}"));
        }
        (name, written)
    };
    case_files().into_iter().map(write).collect()
}

#[test]
fn each_mistake_is_told_as_before() {
    for (name, text) in case_texts() {
        assert_golden(&format!("config/{name}"), &text);
    }
}

//--- What only the disk can tell ---

/// A case with files: their names, contents and modes.
type OnDisk<'t> = (&'t str, &'t [(&'t str, &'t str, u32)], &'t str);

const ZONE: &str = "[zones]\n\"a.example\" = \"192.0.2.1\"\n";
const KEY: &str =
    "[keys.\"k.example\"]\nsecret_file = \"k.key\"\n[secondaries]\nallow_transfer = { key = \"k.example\" }\n";
const COOKIES: &str = "[cookies]\nsecret_file = \"c\"\n";
const TREE: &str = "[zones.\"t.example\"]\nzookeeper = \"192.0.2.1\"\n";
const FETCHED: &str = "[zones.\"i.example\"]\ninventory = \"i\"\n[inventories.i]\nurl = \"https://192.0.2.1/\"\n\
    token_file = \"t\"\nca = \"ca.pem\"\n";
const SERVED: &str = "[zones.\"i.example\"]\ninventory = \"i\"\n[inventories.i]\nfile = \"i.toml\"\n\
    api = \"127.0.0.1\"\napi_tokens = \"t\"\n";
const DIRECTED: &str = "[zones.\"i.example\"]\ninventory = \"i\"\n[inventories.i.triton]\nvmapi = \"http://192.0.2.1\"\n\
    cnapi = \"http://192.0.2.1\"\nnapi = \"http://192.0.2.1\"\n\
    ufds = { address = \"ldaps://192.0.2.1\", password_file = \"p\", ca = \"ca.pem\" }\n";
const CLIENTS: &str = "[clients]\n\"a.example\" = { file = \"a\" }\n\"b.example\" = { file = \"b\" }\n";
const FOLDER_OF_CLIENTS: &str = "[clients]\n\"a.example\" = { file = \".\" }\n";
const SECURE: &str = "[zones]\n\"a.example\" = { primaries = \"192.0.2.1\", tls = { ca = \"ca.pem\" } }\n";
const SHOWN: &str = "[zones]\n\"a.example\" = { primaries = [{ address = \"192.0.2.1\", tls = { ca = \"ca.pem\", \
    certificate = \"cert.pem\", key = \"key.pem\" } }] }\n";
const TRACED: &str =
    "[zones]\n\"a.example\" = \"192.0.2.1\"\n[traces]\ncollector = \"https://192.0.2.1\"\nca = \"ca.pem\"\n";
const IMPORTED: &str = "[inventories.a]\nfile = \"a.json\"\ncns = \"cns.json\"\n";
const SECRET: &str = "bm9ib2R5IG11c3Qgc2VlIHRoaXM=";

#[test]
fn what_the_disk_refuses_is_told_as_before() {
    assert_golden("config/disk.txt", &disk_text());
}

/// Errors and warnings about files that a configuration names.
fn disk_text() -> String {
    let tls = "[server]\nlisten = \"127.0.0.1:0\"\ntls = { listen = \"127.0.0.1:0\", certificate = \"cert.pem\", key = \"key.pem\" }\n";
    let tree_tls = "tls = { ca = \"ca.pem\", certificate = \"cert.pem\", key = \"key.pem\" }\n";
    let large = "x".repeat(200 << 10);
    let junk = "nothing\n".repeat(12);
    let wrong =
        "10.0.0.0/8\n  10.0.0.1/8 # host\n::ffff:10.0.0.0/104\n10.0.0.0/8 10.1.0.0/16\n\"10.2.0.0/16\",\n10.3.0.0/33";
    let twice = "10.1.0.0/16\n # \n 10.0.0.0/9\n10.1.0.0/16\n";
    let lines = "# all is well\n0123456789abcdef *\n\nshort *\n0123456789abcdeX\n0123456789abcdef acme\n";
    let three =
        "0123456789abcdef0123456789abcdef\n00000000000000000000000000000000\n00000000000000000000000000000000\n";
    let cases: [OnDisk; 48] = [
        ("no such file", &[], ""),
        ("not UTF-8", &[], "[zones]\n\"a\u{ff}\" = 1\n"),
        ("an included file that is not UTF-8", &[("more", "a\u{ff}", 0o644)], "include = \"more\"\n[zones]\n"),
        (
            "mistakes of included files",
            &[
                ("conf.d/2.toml", "[zones]\n\"a.example\" = 1\n[server\n", 0o644),
                ("conf.d/1.toml", "[zones]\n\"b.example\" = 1\n\"A.example\" = \"192.0.2.1\"\n", 0o644),
            ],
            "include = [\"conf.d/*\"]\n[zones]\n\"a.example\" = \"192.0.2\"\n",
        ),
        (
            "a key in two files",
            &[("more", "[server]\nname = \"b.example\"\nlisten = []\n", 0o644)],
            "include = \"more\"\n[server]\nname = \"a.example\"\n[zones]\n\"a.example\" = \"192.0.2.1\"\n",
        ),
        (
            "a section of two kinds",
            &[("more", "drains = 1\n", 0o644)],
            "include = \"more\"\ndrains = []\n[zones]\n\"a.example\" = \"192.0.2.1\"\n",
        ),
        (
            "files that include each other",
            &[("more", "include = \"c.toml\"\n", 0o644)],
            "include = \"more\"\n[zones]\n",
        ),
        (
            "a file that is included twice",
            &[("more", "[zones]\n\"a.example\" = \"192.0.2.1\"\n", 0o644)],
            "include = [\"more\", \"./more\"]\n",
        ),
        (
            "a configuration of CNS with mistakes",
            &[("cns.json", "{\n\"my_name\": 1,\n\"forward_zones\": {\"a..b\": {}}}", 0o644)],
            IMPORTED,
        ),
        ("no configuration of CNS", &[], IMPORTED),
        ("no files of TLS", &[], tls),
        ("no secret", &[], KEY),
        ("a secret that strangers can read", &[("k.key", SECRET, 0o644)], KEY),
        ("a secret that strangers can change", &[("k.key", SECRET, 0o602)], KEY),
        ("a secret with words around it", &[("k.key", "secret \"bm9ib2R5\";", 0o600)], KEY),
        ("an empty secret", &[("k.key", "", 0o600)], KEY),
        ("a short secret", &[("k.key", "c2hvcnQ=", 0o600)], KEY),
        ("a large file for a secret", &[("k.key", &large, 0o600)], KEY),
        ("no secret of cookies", &[], COOKIES),
        ("a secret of cookies that strangers can read", &[("c", &"0".repeat(32), 0o644)], COOKIES),
        ("an empty secret of cookies", &[("c", "# none yet\n", 0o600)], COOKIES),
        ("a short secret of cookies", &[("c", "0123456789abcdef\n", 0o600)], COOKIES),
        ("three secrets of cookies", &[("c", three, 0o600)], COOKIES),
        ("one secret of cookies twice", &[("c", &three[33..], 0o600)], COOKIES),
        ("a password without a user", &[("d", "password\n", 0o600)], "digest = \"d\"\n"),
        ("no password", &[], "digest = \"d\"\n"),
        ("no files of a tree's TLS", &[], tree_tls),
        ("an authority that is none", &[("ca.pem", "", 0o644)], "tls = { ca = \"ca.pem\" }\n"),
        ("no key of a tree", &[("ca.pem", "", 0o644), ("cert.pem", "", 0o644)], tree_tls),
        (
            "a key that strangers can read",
            &[("ca.pem", "", 0o644), ("cert.pem", "", 0o644), ("key.pem", "", 0o644)],
            tree_tls,
        ),
        ("no files of a primary's TLS", &[], SECURE),
        ("an authority of a primary that is none", &[("ca.pem", "nothing", 0o644)], SECURE),
        (
            "a key for a primary that strangers can read",
            &[("ca.pem", "", 0o644), ("cert.pem", "", 0o644), ("key.pem", "", 0o644)],
            SHOWN,
        ),
        ("an authority of a collector that is none", &[("ca.pem", "nothing", 0o644)], TRACED),
        ("a folder for a secret", &[], "digest = \".\"\n"),
        ("a token of two words", &[("t", "one two\n", 0o600), ("ca.pem", "", 0o644)], FETCHED),
        ("no token and no authority", &[], FETCHED),
        ("no tokens of an interface", &[("t", "0123456789abcdef *\n", 0o644)], SERVED),
        ("tokens that are none", &[("t", lines, 0o600)], SERVED),
        ("a password of two lines", &[("p", "one\ntwo\n", 0o600), ("ca.pem", "", 0o644)], DIRECTED),
        ("a password that strangers can read", &[("p", "secret\n", 0o644)], DIRECTED),
        ("no file of prefixes", &[], CLIENTS),
        ("a folder for a file of prefixes", &[], FOLDER_OF_CLIENTS),
        ("a file without prefixes", &[("a", "# none\n\n  \n", 0o644), ("b", "", 0o644)], CLIENTS),
        ("prefixes that are none", &[("a", wrong, 0o644), ("b", &junk, 0o644)], CLIENTS),
        ("prefixes that are no text", &[("a", "10.0.0.0/8 # \u{e9}\n", 0o644), ("b", "10.\u{ff}", 0o644)], CLIENTS),
        ("prefixes of two zones", &[("a", "10.0.0.0/8\n10.0.0.0/9\n", 0o644), ("b", twice, 0o644)], CLIENTS),
        ("prefixes", &[("a", "\u{feff}10.0.0.0/8 # all\r\n\t::/0", 0o644), ("b", "10.1.0.0/16", 0o644)], CLIENTS),
    ];
    let mut written = String::new();
    for (title, files, text) in cases {
        let folder = Folder::new();
        let home = folder.path().display().to_string();
        for (name, contents, mode) in files {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().expect("a folder")).unwrap();
            fs::write(&path, latin(contents)).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(*mode)).unwrap();
        }
        let path = folder.path().join("c.toml");
        let whole = match text {
            "" => None,
            CLIENTS => Some(format!("{CLIENTS}{ZONE}\"b.example\" = \"192.0.2.2\"\n")),
            text if text.starts_with("[zones]") || text.starts_with("include") => Some(text.to_owned()),
            text if text.starts_with('[') => Some(format!("{text}{ZONE}")),
            text => Some(format!("{TREE}{text}")),
        };
        if let Some(whole) = whole {
            fs::write(&path, latin(&whole)).unwrap();
        }
        written.push_str(&format!("==== {title}\n{}", said(Config::load(&path)).replace(&home, "HOME")));
    }
    written
}

/// A text with one octet instead of the two that stand for it in UTF-8.
fn latin(text: &str) -> Vec<u8> {
    let mut octets = text.as_bytes().to_vec();
    if let Some(at) = octets.windows(2).position(|pair| pair == [0xc3, 0xbf]) {
        octets.splice(at..at + 2, [0xff]);
    }
    octets
}

//--- That nothing is left out ---

/// Tells whether a line has all parts in their order.
fn has_parts(line: &str, parts: &[String]) -> bool {
    let mut rest = line;
    parts.iter().all(|part| match rest.find(part.as_str()) {
        Some(at) => {
            rest = &rest[at + part.len()..];
            true
        }
        None => false,
    })
}

/// Descriptions of tables and keys, which stand beside the messages and are for the reference.
fn descriptions() -> BTreeSet<String> {
    let mut texts = BTreeSet::new();
    for table in schema::tables() {
        texts.extend([table.path, table.help].map(str::to_owned));
        for key in table.keys {
            texts.extend([key.takes, key.default.to_owned(), key.help.to_owned()]);
        }
    }
    texts
}

#[test]
fn every_message_of_the_sources_is_met_by_a_case() {
    let texts = case_texts().into_iter().map(|(_, text)| text).chain([disk_text()]).collect::<String>();
    let mut lines: Vec<String> = texts.lines().filter_map(|line| line.strip_prefix(SAID)).map(str::to_owned).collect();
    // Files with many mistakes, which `config.rs` holds to the letter.
    for file in
        ["errors.toml", "errors.json", "drains.toml", "duplicates.toml", "syntax.toml", "comma.json", "comment.json"]
    {
        lines.extend(repository_text(&format!("tests/data/config/{file}.expected")).lines().map(str::to_owned));
    }
    let mut sources = vec!["src/config.rs".to_owned()];
    for folder in ["src/config", "crates/settings/src"] {
        for entry in fs::read_dir(repository_file(folder)).unwrap() {
            let name = entry.unwrap().file_name().into_string().unwrap();
            let stem = name.strip_suffix(".rs").expect("a source file");
            if !WITHOUT_MESSAGES.contains(&stem) {
                sources.push(format!("{folder}/{name}"));
            }
        }
    }
    sources.sort();
    let described = descriptions();
    let mut messages = BTreeSet::new();
    for source in &sources {
        for text in strings(&repository_text(source)) {
            // A message has words; the rest are keys, units and separators.
            let has_words = fixed_parts(&text).iter().any(|part| part.trim().contains(' '));
            if has_words && !described.contains(&text) {
                messages.insert((source.clone(), text));
            }
        }
    }
    assert!(messages.len() > 150, "the scan finds too little: {}", messages.len());
    let mut faults = Vec::new();
    for (source, message) in &messages {
        let parts = fixed_parts(message);
        let met = lines.iter().any(|line| has_parts(line, &parts));
        let excused = UNMET.iter().any(|(unmet, _)| unmet == message);
        match (met, excused) {
            (false, false) => faults.push(format!("{source}: no case meets {message:?}")),
            (true, true) => faults.push(format!("{source}: a case meets {message:?}; take it from UNMET")),
            _ => {}
        }
    }
    for (unmet, _) in UNMET {
        if !messages.iter().any(|(_, message)| message == unmet) {
            faults.push(format!("{unmet:?} is no message any more; take it from UNMET"));
        }
    }
    assert!(
        faults.is_empty(),
        "{} of {} messages\n{}\nAdd cases to tests/data/golden/config, and write the files anew",
        faults.len(),
        messages.len(),
        faults.join("\n")
    );
}
