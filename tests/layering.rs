//! The layers: a module uses modules of lower layers only, never its neighbours, never those above. Below all of them
//! are the crates, which use each other as [`CRATES`] says.
//!
//! Reads every `crate::` and `super::` path in `src/`, imports and inline ones alike, test modules left out. Files of
//! one folder, with the file that names the folder, may use each other within their layer, but not in circles.
//!
//! Counts the unsafe code, too, which may only become less.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// All files of `src/` without their extension, lowest layer first; `folder/*` stands for all files of a folder. Files
/// that are not there yet, or no more, do no harm.
const LAYERS: [&[&str]; 15] = [
    &["metrics", "metrics/*", "restart", "terminal", "terminal/*", "timestamp"],
    &["accept", "acl", "acl/*", "budget", "budget/*", "client", "client/*", "log", "log/*", "security", "security/*"],
    &["zone", "zone/*"],
    &[
        "clients",
        "clients/*",
        "cookie",
        "rate_limit",
        "rate_limit/*",
        "select",
        "select/*",
        "tap",
        "tap/*",
        "trace",
        "trace/*",
    ],
    &[
        "rewrite",
        "publish",
        "catalog",
        "catalog/*",
        "source/zookeeper/zones",
        "source/zookeeper/zones/*",
        "static_zone",
        "static_zone/*",
    ],
    &["merge", "merge/*"],
    &[
        "source",
        "source/requests",
        "source/shell",
        "state",
        "notify",
        "serve/prefetch",
        "serve/answer",
        "serve/answer/*",
        "serve/limit",
        "serve/notify",
        "serve/refusals",
        "serve/respond",
        "serve/respond/*",
        "serve/xfr",
        "serve/xfr/*",
        "notify/*",
        "state/*",
    ],
    &["keeper", "keeper/*", "transfer", "transfer/*", "probe", "probe/*", "source/*"],
    &[
        "serve",
        "serve/places",
        "serve/places/*",
        "serve/listener",
        "serve/udp",
        "serve/udp/*",
        "serve/stream",
        "serve/stream/*",
        "serve/tls",
        "serve/http",
        "serve/http/*",
        "control",
        "control/*",
        "schedule",
        "systemd",
        "metadata",
        "metadata/*",
        "config",
        "config/*",
        "discover",
        "discover/*",
    ],
    &["daemon/sources", "daemon/audit", "daemon/probe"],
    &["view", "view/*"],
    &["daemon", "daemon/*", "firstboot", "firstboot/*"],
    &["demo", "demo/*"],
    &["cli", "cli/*"],
    &["main", "lib"],
];

/// The crates of `crates/`, each with those that it may use.
const CRATES: [(&str, &[&str]); 7] = [
    ("inventory", &["settings", "wire"]),
    ("registrar", &["relay", "settings", "wire"]),
    ("relay", &[]),
    ("settings", &["wire"]),
    ("sim", &["inventory", "wire"]),
    ("triton-double", &[]),
    ("wire", &[]),
];

/// Number of times that `unsafe` occurs in the program and its crates, tests among them. It may shrink; then this number does.
const UNSAFE: usize = 20;

/// Uses that are allowed in spite of the layers, with the reasons.
const EXCEPTIONS: [(&str, &str, &str); 1] =
    [("config", "serve", "`ListenPlan` and `TlsPlan` are defined beside the listeners that obey them")];

/// The layer of a file.
fn layer_of(file: &str) -> Option<usize> {
    let named = |name: &&str| match name.strip_suffix("/*") {
        Some(folder) => file.strip_prefix(folder).is_some_and(|rest| rest.starts_with('/')),
        None => *name == file,
    };
    // A file's own name counts before that of its folder.
    let exact = LAYERS.iter().position(|names| names.contains(&file));
    exact.or_else(|| LAYERS.iter().position(|names| names.iter().any(named)))
}

/// The first segment of a file's path: the noun that it belongs to.
fn noun(file: &str) -> &str {
    file.split('/').next().unwrap_or(file)
}

/// Returns the fault of a file's use of another; none if it is allowed.
fn judge(from: &str, to: &str, used: &mut BTreeSet<usize>) -> Option<String> {
    let (Some(own), Some(other)) = (layer_of(from), layer_of(to)) else {
        return Some(format!("{from} uses {to}, and one of them is in no layer"));
    };
    if other < own || (other == own && noun(from) == noun(to)) {
        return None;
    }
    if let Some(index) = EXCEPTIONS.iter().position(|(user, used, _)| *user == noun(from) && *used == to) {
        used.insert(index);
        return None;
    }
    let direction = if other == own { "sideways" } else { "up" };
    Some(format!("{from} (layer {own}) uses {to} (layer {other}): {direction}"))
}

//--- Circles ---

/// The state of a search for circles (Tarjan, SIAM Journal on Computing 1, 1972).
#[derive(Default)]
struct Search<'g> {
    graph: BTreeMap<&'g str, Vec<&'g str>>,
    /// The order in which files were reached, and the earliest that each leads back to.
    reached: BTreeMap<&'g str, (usize, usize)>,
    open: Vec<&'g str>,
    circles: BTreeSet<Vec<&'g str>>,
}

impl<'g> Search<'g> {
    fn visit(&mut self, file: &'g str) -> usize {
        let order = self.reached.len();
        self.reached.insert(file, (order, order));
        self.open.push(file);
        let mut earliest = order;
        for used in self.graph.get(file).cloned().unwrap_or_default() {
            if !self.reached.contains_key(used) {
                earliest = earliest.min(self.visit(used));
            } else if self.open.contains(&used) {
                earliest = earliest.min(self.reached[used].0);
            }
        }
        self.reached.insert(file, (order, earliest));
        if earliest == order {
            let start = self.open.iter().position(|open| *open == file).expect("it is open");
            let mut circle = self.open.split_off(start);
            circle.sort_unstable();
            if circle.len() > 1 {
                self.circles.insert(circle);
            }
        }
        earliest
    }
}

/// All circles of a graph of uses, each in the order of its names.
fn circles(uses: &BTreeSet<(String, String)>) -> BTreeSet<Vec<&str>> {
    let mut search = Search::default();
    for (from, to) in uses {
        search.graph.entry(from).or_default().push(to);
    }
    for (from, _) in uses {
        if !search.reached.contains_key(from.as_str()) {
            search.visit(from);
        }
    }
    search.circles
}

//--- Reading the sources ---

/// All files of a folder and those below, relative to it and without extension.
fn files(folder: &Path, prefix: &str, found: &mut BTreeMap<String, PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let stem = path.file_stem().unwrap().to_str().unwrap().to_string();
        if path.is_dir() {
            files(&path, &format!("{prefix}{stem}/"), found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.insert(format!("{prefix}{stem}"), path);
        }
    }
}

/// Removes comments and the contents of strings, so that braces and paths in them do not count.
fn strip(text: &str) -> String {
    let bytes: Vec<char> = text.chars().collect();
    let mut out = String::new();
    let mut at = 0;
    while at < bytes.len() {
        let rest = &bytes[at..];
        match rest {
            ['/', '/', ..] => at += rest.iter().position(|c| *c == '\n').unwrap_or(rest.len()),
            ['/', '*', ..] => {
                let end = rest.windows(2).position(|pair| pair == ['*', '/']).unwrap_or(rest.len() - 2);
                at += end + 2;
            }
            ['r', '"' | '#', ..] if !out.ends_with(|c: char| c.is_alphanumeric() || c == '_') => {
                let hashes = rest[1..].iter().take_while(|c| **c == '#').count();
                if rest.get(1 + hashes) != Some(&'"') {
                    out.push('r');
                    at += 1;
                    continue;
                }
                let close: Vec<char> = std::iter::once('"').chain(std::iter::repeat_n('#', hashes)).collect();
                let body = &rest[2 + hashes..];
                let end = body.windows(close.len()).position(|window| window == close).expect("a raw string ends");
                at += 2 + hashes + end + close.len();
            }
            ['"', ..] => {
                at += 1;
                while bytes[at] != '"' {
                    at += if bytes[at] == '\\' { 2 } else { 1 };
                }
                at += 1;
            }
            // Character literals; anything else after a quote is a lifetime.
            ['\'', '\\', ..] => at += 3 + rest[3..].iter().position(|c| *c == '\'').expect("a character ends"),
            ['\'', _, '\'', ..] => at += 3,
            [character, ..] => {
                out.push(*character);
                at += 1;
            }
            [] => unreachable!("the loop has ended"),
        }
    }
    out
}

/// Removes what follows `#[cfg(test)]`: a declaration, or a block with all its braces. Returns the names of the modules
/// that live in files of their own.
fn remove_tests(text: &str) -> (String, Vec<String>) {
    let mut out = String::new();
    let mut modules = Vec::new();
    let mut rest = text;
    while let Some(start) = rest.find("#[cfg(test)]") {
        out.push_str(&rest[..start]);
        let item = &rest[start + "#[cfg(test)]".len()..];
        let semicolon = item.find(';').unwrap_or(item.len());
        let brace = item.find('{').unwrap_or(item.len());
        if semicolon < brace {
            let words: Vec<&str> = item[..semicolon].split_whitespace().collect();
            if let Some(at) = words.iter().position(|word| *word == "mod") {
                modules.push(words[at + 1].to_string());
            }
            rest = &item[semicolon + 1..];
            continue;
        }
        let mut depth = 0;
        let end = item[brace..].find(|character| {
            depth += match character {
                '{' => 1,
                '}' => -1,
                _ => 0,
            };
            depth == 0
        });
        rest = &item[brace + end.expect("braces are balanced") + 1..];
    }
    out.push_str(rest);
    (out, modules)
}

/// Reads a path or a use tree from its first segment on, into whole paths of segments.
fn read_paths(text: &str, before: &[String], paths: &mut Vec<Vec<String>>) -> usize {
    let mut path = before.to_vec();
    let mut at = 0;
    loop {
        at += text[at..].len() - text[at..].trim_start().len();
        if text[at..].starts_with('{') {
            at += 1;
            loop {
                at += read_paths(&text[at..], &path, paths);
                at += text[at..].len() - text[at..].trim_start().len();
                match text[at..].chars().next() {
                    Some(',') => at += 1,
                    _ => return at + 1,
                }
            }
        }
        let end = text[at..].find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(text[at..].len());
        if end > 0 {
            path.push(text[at..at + end].to_string());
            at += end;
        } else if text[at..].starts_with('*') {
            at += 1;
        }
        if text[at..].starts_with("::") {
            at += 2;
            continue;
        }
        // `as other` changes nothing about what is used.
        if let Some(rest) = text[at..].strip_prefix(" as ") {
            at += 4 + rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
        }
        paths.push(path);
        return at;
    }
}

/// All paths in a file that lead through the crate, as segments below its root.
fn crate_paths(file: &str, text: &str) -> Vec<Vec<String>> {
    let module: Vec<String> =
        if matches!(file, "lib" | "main") { Vec::new() } else { file.split('/').map(str::to_string).collect() };
    let mut paths = Vec::new();
    for (keyword, root) in [("crate::", Vec::new()), ("aggregator::", Vec::new()), ("super::", module)] {
        for (at, _) in text.match_indices(keyword) {
            let before = text[..at].chars().next_back();
            // Part of a longer word, or a later `super` of the same path.
            if before.is_some_and(|c| c.is_alphanumeric() || c == '_' || c == ':' || c == '$') {
                continue;
            }
            if keyword == "aggregator::" && file != "main" {
                continue;
            }
            let mut base = root.clone();
            let mut rest = &text[at..];
            if keyword == "super::" {
                while let Some(above) = rest.strip_prefix("super::") {
                    base.pop();
                    rest = above;
                }
            } else {
                rest = &rest[keyword.len()..];
            }
            read_paths(rest, &base, &mut paths);
        }
    }
    paths
}

/// All uses in a source tree: each file with the files it uses; test modules left out, and told by name.
fn uses(sources: &BTreeMap<String, String>) -> (BTreeSet<(String, String)>, BTreeSet<String>) {
    let mut tests = BTreeSet::new();
    let mut bodies = BTreeMap::new();
    for (file, text) in sources {
        let (body, modules) = remove_tests(&strip(text));
        let folder = if matches!(file.as_str(), "lib" | "main") { String::new() } else { format!("{file}/") };
        tests.extend(modules.iter().map(|module| format!("{folder}{module}")));
        bodies.insert(file, body);
    }
    let mut found = BTreeSet::new();
    for (file, body) in bodies.iter().filter(|(file, _)| !tests.contains(**file)) {
        for path in crate_paths(file, body) {
            let longest = (1..=path.len()).rev().map(|count| path[..count].join("/"));
            // What is no file is an item of the crate's root.
            let target = longest.into_iter().find(|path| sources.contains_key(path)).unwrap_or("lib".into());
            if target != ***file {
                found.insert(((*file).clone(), target));
            }
        }
    }
    (found, tests)
}

//--- Tests ---

/// A file or folder of the repository.
fn repository_path(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// The files of a folder of sources, and their text.
fn read_sources(folder: &str) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    files(&repository_path(folder), "", &mut found);
    found.iter().map(|(file, path)| (file.clone(), fs::read_to_string(path).unwrap())).collect()
}

#[test]
fn imports_go_down() {
    let sources = read_sources("src");
    let mut faults: Vec<String> = Vec::new();
    let (uses, tests) = uses(&sources);
    for file in sources.keys().filter(|file| layer_of(file).is_none() && !tests.contains(*file)) {
        faults.push(format!("src/{file}.rs is in no layer; add it to LAYERS in tests/layering.rs"));
    }
    assert!(uses.contains(&("merge".to_string(), "zone".to_string())), "the reader finds nothing: {uses:?}");
    let mut excepted = BTreeSet::new();
    faults.extend(uses.iter().filter_map(|(from, to)| judge(from, to, &mut excepted)));
    for (index, (from, to, _)) in EXCEPTIONS.iter().enumerate() {
        if !excepted.contains(&index) {
            faults.push(format!("the exception {from} -> {to} is not needed; remove it"));
        }
    }
    assert!(faults.is_empty(), "\n{}", faults.join("\n"));
}

#[test]
fn no_files_use_each_other_in_a_circle() {
    let crates = CRATES.map(|(name, _)| format!("crates/{name}/src"));
    for folder in ["src".to_owned()].iter().chain(&crates) {
        find_circles(folder);
    }
}

/// Fails for every circle of files in a folder of sources.
fn find_circles(folder: &str) {
    let (uses, _) = uses(&read_sources(folder));
    let found = circles(&uses);
    let mut faults = Vec::new();
    for circle in &found {
        let files: BTreeSet<&str> = circle.iter().copied().collect();
        let uses = uses.iter().filter(|(from, to)| files.contains(from.as_str()) && files.contains(to.as_str()));
        let arrows: Vec<String> = uses.map(|(from, to)| format!("  {from} -> {to}")).collect();
        faults.push(format!("a circle: {circle:?}\n{}", arrows.join("\n")));
    }
    assert!(faults.is_empty(), "\n{}", faults.join("\n"));
}

#[test]
fn crates_use_each_other_as_the_table_says() {
    let crates: BTreeSet<String> = fs::read_dir(repository_path("crates"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    assert_eq!(crates, CRATES.iter().map(|(name, _)| name.to_string()).collect());
    for (name, allowed) in CRATES {
        let manifest = fs::read_to_string(repository_path(&format!("crates/{name}/Cargo.toml"))).unwrap();
        let used: Vec<&str> = crates
            .iter()
            .map(String::as_str)
            .filter(|other| manifest.contains(&format!("\n{other} = {{ path")))
            .collect();
        assert_eq!(used, allowed, "{name}");
        assert!(!manifest.contains("aggregator"), "{name} uses the program");
    }
}

#[test]
fn unsafe_code_does_not_grow() {
    let crates = CRATES.map(|(name, _)| format!("crates/{name}/src"));
    let mut found = BTreeMap::new();
    for folder in ["src".to_owned()].iter().chain(&crates) {
        for (file, text) in read_sources(folder) {
            let text = strip(&text);
            let words = text.split(|c: char| !c.is_alphanumeric() && c != '_');
            let count = words.filter(|word| *word == "unsafe").count();
            if count > 0 {
                found.insert(format!("{folder}/{file}"), count);
            }
        }
    }
    assert_eq!(
        found.values().sum::<usize>(),
        UNSAFE,
        "unsafe code is for what the kernel or the processor needs; rustix has the rest. Where it is: {found:#?}"
    );
}

#[test]
fn circles_are_found_whole() {
    let uses = [("a", "b"), ("b", "c"), ("c", "a"), ("c", "d"), ("d", "e"), ("e", "d"), ("f", "a"), ("e", "g")];
    let uses = uses.map(|(from, to)| (from.to_string(), to.to_string())).into();
    assert_eq!(circles(&uses), BTreeSet::from([vec!["a", "b", "c"], vec!["d", "e"]]));
}

#[test]
fn wrong_directions_are_found() {
    let mut none = BTreeSet::new();
    let mut judged = |from, to| judge(from, to, &mut none).unwrap_or_default();
    assert!(judged("zone", "merge").ends_with(": up"));
    assert!(judged("serve/answer", "serve/udp").ends_with(": up"), "a folder may span layers");
    assert!(judged("keeper", "transfer/connection").ends_with(": sideways"));
    assert!(judged("control", "config").ends_with(": sideways"));
    assert!(judged("zone", "other").contains("no layer"));
    for (from, to) in [("merge", "zone"), ("serve/tls", "serve"), ("serve/udp", "serve/answer"), ("config/a", "config")]
    {
        assert_eq!(judged(from, to), "");
    }
    assert_eq!(judged("config/server", "serve"), "", "the named exception");
    assert!(judged("config", "serve/udp").ends_with(": sideways"), "and nothing more");
}

#[test]
fn every_way_to_write_a_path_is_read() {
    let sources: BTreeMap<String, String> = [
        ("a", "use crate::{b, c::{self, d::E as F}};\nfn f() { crate::g::h::<u8>() }\n#[cfg(test)]\nmod t;\n"),
        ("a/t", "use crate::z;"),
        ("b", "// crate::c\nconst X: &str = \"crate::c { \\\" \"; const Y: char = '\"'; use super::c::d;"),
        ("c", "#[cfg(test)]\nmod tests { use crate::z; fn f() { { } } }\nfn g<'a>() { crate::b::y() }"),
        ("c/d", "use super::super::g; use super::E; const R: &str = r#\"crate::z\"#;"),
        ("g", "macro_rules! m { () => { $crate::z } }"),
        ("z", "mod aggregator { } use crate::Item;"),
        ("main", "use aggregator::b;"),
        ("lib", "pub mod a;"),
    ]
    .map(|(file, text)| (file.to_string(), text.to_string()))
    .into();
    let (found, tests) = uses(&sources);
    assert_eq!(tests.into_iter().collect::<Vec<_>>(), ["a/t"]);
    let found: Vec<String> = found.iter().map(|(from, to)| format!("{from}>{to}")).collect();
    assert_eq!(found, ["a>b", "a>c", "a>c/d", "a>g", "b>c/d", "c>b", "c/d>c", "c/d>g", "main>b", "z>lib"]);
}
