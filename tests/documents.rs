//! Checks that files, commands and versions named in the documents exist.

mod harness;

use harness::*;
use regex::Regex;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Every document, as a path within the repository.
fn documents() -> Vec<String> {
    let mut found = Vec::new();
    let mut folders = vec![PathBuf::new()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(repository_file("").join(&folder)).expect("a folder") {
            let path = folder.join(entry.expect("an entry").file_name());
            let name = path.to_str().expect("a name in UTF-8").to_string();
            if repository_file(&name).is_dir() {
                let is_ours = name.starts_with("docs") || name.starts_with("deploy");
                folders.extend(is_ours.then_some(path));
            } else if name.ends_with(".md") {
                found.push(name);
            }
        }
    }
    assert!(found.len() >= 15, "{found:?}");
    found
}

/// Every link of the documents leads to a file that is there, and to a chapter of it.
#[test]
fn links_of_the_documents_lead_somewhere() {
    let mut links = 0;
    for document in &documents() {
        let text = repository_text(document);
        let folder = repository_file(document).parent().expect("a folder").to_path_buf();
        let targets = text.split("](").skip(1).filter_map(|rest| rest.split(')').next());
        for target in targets.filter(|target| !target.contains("://")) {
            links += 1;
            let (file, chapter) = target.split_once('#').unwrap_or((target, ""));
            let path = if file.is_empty() { repository_file(document) } else { folder.join(file) };
            assert!(path.exists(), "{document}: {target}");
            if !chapter.is_empty() {
                let titles = std::fs::read_to_string(&path).expect("a document");
                let mut titles = titles.lines().filter(|line| line.starts_with('#'));
                assert!(titles.any(|title| anchor(title) == chapter), "{document}: {target}");
            }
        }
    }
    assert!(links > 30, "{links}");
}

/// The anchor that the usual sites give a title: lower case, hyphens for spaces, letters, digits and hyphens only.
fn anchor(title: &str) -> String {
    let title = title.trim_start_matches('#').trim().to_lowercase().replace(' ', "-");
    title.chars().filter(|c| c.is_alphanumeric() || *c == '-' || *c == '_').collect()
}

/// Returns the commands that a document shows: a verb and its options.
fn commands_in(text: &str) -> Vec<(String, Vec<String>)> {
    let in_line = text.split('`').skip(1).step_by(2).filter_map(|code| code.strip_prefix("aggregator "));
    let prompt = |line: &'_ str| line.trim_start().trim_start_matches(['$', '#', ' ']).to_string();
    let lines: Vec<String> = text.lines().filter(|line| line.starts_with([' ', '$', '#'])).map(prompt).collect();
    let of_lines = lines.iter().filter_map(|line| line.strip_prefix("aggregator "));
    let mut found = Vec::new();
    for command in in_line.chain(of_lines) {
        let end = command.find(['#', '|', ';', '`', '\n']).unwrap_or(command.len());
        let words: Vec<&str> = command[..end].split_whitespace().collect();
        let is_verb = |word: &&&str| word.chars().all(|c| c.is_ascii_lowercase());
        if let Some(verb) = words.first().filter(is_verb) {
            let options = words.iter().filter(|word| word.starts_with("--"));
            let bare = |word: &&str| word.split(['=', ']', ')', '"']).next().unwrap_or_default().to_string();
            found.push((verb.to_string(), options.map(bare).collect()));
        }
    }
    found
}

#[test]
fn commands_of_the_documents_are_verbs_and_options_of_ours() {
    let mut helps: BTreeMap<String, String> = BTreeMap::new();
    let mut commands = 0;
    for document in documents() {
        for (verb, options) in commands_in(&repository_text(&document)) {
            commands += 1;
            let help = helps
                .entry(verb.clone())
                .or_insert_with(|| run_tool(Command::new(env!("CARGO_BIN_EXE_aggregator")).args([&verb, "--help"])));
            for option in options {
                let is_known = help.split([' ', ',', '\n']).any(|word| word == option);
                assert!(is_known, "{document}: aggregator {verb} has no {option}\n{help}");
            }
        }
    }
    assert!(commands > 60 && helps.len() > 15, "{commands} commands, {:?}", helps.keys());
}

/// The versions of three numbers in a text.
fn versions_in(text: &str) -> Vec<String> {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '.');
    let numbers = words.map(|word| {
        let parts = word.split('.').take_while(|part| !part.is_empty() && part.bytes().all(|c| c.is_ascii_digit()));
        parts.collect::<Vec<&str>>()
    });
    numbers.filter(|parts| parts.len() == 3).map(|parts| parts.join(".")).collect()
}

#[test]
fn versions_in_instructions_are_the_current_one() {
    assert_eq!(versions_in("v2.53.5 10.53.0.0/24 aggregator_1.2.3_amd64 x:4.5.6. 7.8"), ["1.2.3", "4.5.6"]);
    let files = [
        "docs/container.md",
        "docs/image.md",
        "deploy/compose/compose.yaml",
        "deploy/helm/aggregator/Chart.yaml",
        "deploy/kubernetes/aggregator.yaml",
        "deploy/kubernetes-overlay/kustomization.yaml",
        "deploy/triton/main.tf",
        "deploy/triton/README.md",
    ];
    for file in files {
        let versions = versions_in(&repository_text(file));
        assert!(!versions.is_empty(), "{file} names no version");
        assert!(versions.iter().all(|version| version == env!("CARGO_PKG_VERSION")), "{file}: {versions:?}");
    }
}

/// The job that Kubernetes' document has for Prometheus takes the pods of the manifests, under the name that rules
/// expect.
#[test]
fn the_scrape_job_of_kubernetes_takes_the_pods_of_its_manifests() {
    let text = repository_text("deploy/kubernetes/README.md");
    let block = text.split("```yaml\n").nth(1).and_then(|rest| rest.split("```").next()).expect("a block of YAML");
    let folder = Folder::new();
    let path = folder.path().join("prometheus.yml");
    write_file(&path, block);
    let file = read_yaml(path.to_str().expect("a path in UTF-8")).remove(0);
    let job = &file["scrape_configs"][0];
    assert_eq!(job["job_name"], read_yaml("deploy/prometheus/prometheus.yml")[0]["scrape_configs"][0]["job_name"]);
    let objects = read_yaml("deploy/kubernetes/aggregator.yaml");
    let deployment = objects.iter().find(|object| object["kind"] == "Deployment").expect("a deployment");
    let namespaces = &job["kubernetes_sd_configs"][0]["namespaces"]["names"];
    assert_eq!(namespaces[0], deployment["metadata"]["namespace"]);
    let pod = &deployment["spec"]["template"];
    let label = pod["metadata"]["labels"]["app.kubernetes.io/name"].as_str().expect("a label");
    let ports = pod["spec"]["containers"][0]["ports"].as_array().expect("ports");
    assert!(ports.iter().any(|port| port["name"] == "metrics"), "{ports:?}");
    assert_eq!(job["relabel_configs"][0]["regex"], format!("{label};metrics;Running"));
}

/// The source files below a folder.
fn sources_below(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            sources_below(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

/// Every rule that code cites by its number is in the document that it names.
#[test]
fn rules_that_code_cites_are_there() {
    let citation =
        Regex::new(r"`docs/(regions|cns|binder)\.md`\s*(?:///?!?\s*)?((?:\d+(?:, | and | to )?)+)").expect("a pattern");
    let number = Regex::new(r"\d+").expect("a pattern");
    let rule = Regex::new(r"(?m)^(?:(\d+)\. |\*\*(\d+)\.\*\* |\| (\d+) \|)").expect("a pattern");
    let rules_of = |document: &str| -> BTreeSet<u32> {
        let text = repository_text(&format!("docs/{document}.md"));
        rule.captures_iter(&text).map(|found| found.extract::<1>().1[0].parse().expect("a number")).collect()
    };
    let rules = BTreeMap::from(["regions", "cns", "binder"].map(|document| (document, rules_of(document))));
    let mut files = Vec::new();
    for folder in ["src", "crates", "tests"].map(repository_file).iter().filter(|folder| folder.exists()) {
        sources_below(folder, &mut files);
    }
    let mut cited = 0;
    for file in &files {
        let text = std::fs::read_to_string(file).expect("a source");
        for found in citation.captures_iter(&text) {
            for number in number.find_iter(&found[2]) {
                cited += 1;
                let number = number.as_str().parse().expect("a number");
                let document = &found[1];
                assert!(rules[document].contains(&number), "{}: docs/{document}.md has no {number}", file.display());
            }
        }
    }
    assert!(cited > 30, "{cited}");
}

/// Files that the architecture names are there, and so are the functions in its walks.
#[test]
fn what_the_architecture_names_is_there() {
    let text = repository_text("docs/architecture.md");
    let is_path =
        |code: &&str| ["src/", "crates/", "tests/", "templates/", "deploy/"].iter().any(|root| code.starts_with(root));
    let is_function = |code: &&str| code.bytes().all(|c| c.is_ascii_lowercase() || c == b'_');
    let (mut files, mut functions) = (0, 0);
    for line in text.lines() {
        let code: Vec<&str> = line.split('`').skip(1).step_by(2).collect();
        let paths: Vec<&str> = code.iter().copied().filter(is_path).collect();
        for path in &paths {
            files += 1;
            assert!(repository_file(path).exists(), "docs/architecture.md: no {path}");
        }
        let is_step = line.strip_prefix("| ").is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
        if is_step {
            let sources: String = paths.iter().map(|path| repository_text(path)).collect();
            for function in code.iter().filter(|code| is_function(code)) {
                functions += 1;
                let is_there = ["(", "<"].iter().any(|end| sources.contains(&format!("fn {function}{end}")));
                assert!(is_there, "docs/architecture.md: no {function} in {paths:?}");
            }
        }
    }
    assert!(files > 100 && functions > 50, "{files} files, {functions} functions");
}

/// The texts between quotation marks that can be labels, from one mark in a source to another.
fn labels_between(source: &str, begin: &str, end: &str) -> BTreeSet<String> {
    let text = repository_text(source);
    let part = text.split_once(begin).and_then(|(_, rest)| rest.split_once(end)).expect("the part with the labels").0;
    let is_label = |text: &&str| text.bytes().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == b'_');
    part.split('"').skip(1).step_by(2).filter(is_label).map(str::to_string).collect()
}

/// Every reason that a failed transfer can have stands in the runbook's table, and no other does.
#[test]
fn the_runbook_explains_every_reason_of_a_failed_transfer() {
    let mut labels = labels_between("src/transfer/error.rs", "pub fn reason(&self)", "\n    }\n");
    labels.extend(labels_between("src/transfer/error.rs", "const RCODE_LABELS", "];"));
    labels.extend(labels_between("src/client/secure.rs", "pub fn reason(&self)", "\n    }\n"));
    labels.extend(labels_between("crates/wire/src/tsig.rs", "pub fn reason(&self)", "\n    }\n"));
    // NOERROR is no failure; the list of response codes has it for its place.
    assert!(labels.remove("noerror") && labels.len() > 45, "{labels:?}");

    let text = repository_text("docs/runbooks.md");
    let table =
        text.split_once("| error | because |\n").and_then(|(_, rest)| rest.split_once("\n\n")).expect("a table").0;
    let cells = table.lines().skip(1).filter_map(|row| row.split('|').nth(1));
    let explained: Vec<&str> = cells.flat_map(|cell| cell.split('`').skip(1).step_by(2)).collect();
    let stands_for = |word: &str, label: &str| match word.strip_suffix('…') {
        Some(begin) => label.starts_with(begin),
        None => word == label,
    };
    for label in &labels {
        assert!(explained.iter().any(|word| stands_for(word, label)), "docs/runbooks.md does not explain {label}");
    }
    for word in explained {
        assert!(labels.iter().any(|label| stands_for(word, label)), "{word} is no reason of ours");
    }
}
