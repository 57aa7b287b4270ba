//! The configurations in the README are taken by the programs that they are for.

mod harness;

use aggregator::config::Config;
use harness::{Folder, program_path, run_verb};
use std::path::{Path, PathBuf};
use std::process::Command;

const README: &str = include_str!("../README.md");

/// The fenced blocks of a language, without the indentation of their fences.
fn blocks(language: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut lines = README.lines();
    while let Some(line) = lines.next() {
        let fence = line.trim_start();
        if fence.strip_prefix("```") == Some(language) {
            let indent = line.len() - fence.len();
            let inside = lines.by_ref().take_while(|line| line.trim_start() != "```");
            found.push(inside.map(|line| format!("{}\n", line.get(indent..).unwrap_or_default())).collect());
        }
    }
    found
}

/// The one block of a language, with changes that do without rights and folders of the system.
fn block_in(folder: &Folder, language: &str, changes: &[(&str, &str)]) -> PathBuf {
    let [text] = &blocks(language)[..] else { panic!("not one block for {language}") };
    let mut text = text.clone();
    for (from, to) in changes {
        assert!(text.contains(from), "{from} is not in\n{text}");
        text = text.replace(from, &to.replace("{folder}", &folder.path().display().to_string()));
    }
    let path = folder.path().join(language);
    std::fs::write(&path, text).unwrap();
    path
}

/// Has a program check its configuration.
fn check(program: &str, arguments: &[&Path]) {
    let output = Command::new(program_path(program)).args(arguments).output().expect(program);
    let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    assert!(output.status.success(), "{program}\n{said}");
}

#[test]
fn our_own_configurations_load() {
    let whole = blocks("toml");
    assert!(whole.len() >= 3, "{whole:?}");
    for text in &whole {
        let zone = "[zones]\n\"us-west-1.cns.example.com\" = \"10.1.0.10\"\n";
        let text = if text.contains("[zones]") { text.clone() } else { format!("{text}{zone}") };
        let config = Config::parse(Path::new("README.md"), &text).unwrap_or_else(|errors| panic!("{errors}\n{text}"));
        assert_eq!(config.warnings, Vec::<String>::new(), "{text}");
    }
}

#[test]
fn the_agent_takes_its_configuration() {
    let folder = Folder::new();
    let file = block_in(&folder, "json", &[]);
    let output = run_verb(&["register", "--dry-run", "--hostname", "a2674d3b"], &file);
    assert_eq!((output.code, output.stderr.as_str()), (0, ""));
    let [service, host] = output.stdout.lines().collect::<Vec<_>>()[..] else { panic!("{}", output.stdout) };
    assert!(service.starts_with("persistent /com/example/emy-10/authcache {\"type\":\"service\","), "{service}");
    assert!(host.starts_with("ephemeral  /com/example/emy-10/authcache/a2674d3b {\"type\":\"redis_host\","), "{host}");
}

#[test]
fn bind_takes_its_configuration() {
    let folder = Folder::new();
    let file = block_in(&folder, "named", &[("/var/cache/bind", "{folder}")]);
    check("named-checkconf", &[&file]);
}

#[test]
fn nsd_takes_its_configuration() {
    let folder = Folder::new();
    let file = block_in(&folder, "nsd", &[]);
    check("nsd-checkconf", &[&file]);
}

#[test]
fn knot_takes_its_configuration() {
    let folder = Folder::new();
    let file = block_in(&folder, "knot", &[]);
    check("knotc", &["-c".as_ref(), &file, "conf-check".as_ref()]);
}
