//! `aggregator check` on good files, with all warnings, and on those that only trying finds fault with.

use crate::compare::{Words, assert_goldens};
use crate::harness::{Folder, Output, Port, repository_file, repository_text, run_verb};
use aggregator::config::Config;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// Octets of a secret that is as long as it should be, and of one that is not.
const SECRETS: [(&str, &str); 2] =
    [("transfer.key", "bm9ib2R5IG11c3Qgc2VlIHRoaXMgYXQgYWxsLCBldmVyIQ=="), ("short.key", "c2hvcnQ=")];

/// The good files.
const FILES: [&str; 7] = ["least", "datacenters", "trees", "own", "members", "secondaries", "off"];

/// Writes a configuration and the secrets beside it.
fn prepare(folder: &Folder, text: &str) -> std::path::PathBuf {
    for (name, secret) in SECRETS {
        let path = folder.path().join(name);
        fs::write(&path, secret).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    }
    let path = folder.path().join("config.toml");
    fs::write(&path, text).unwrap();
    path
}

/// Runs `check` with options, and returns its output in words.
fn check(path: &Path, words: &Words, options: &[&str]) -> String {
    let arguments = [&["check"][..], options].concat();
    let Output { code, stdout, stderr } = run_verb(&arguments, path);
    let printed = if options.contains(&"--json") { words.json(&stdout) } else { words.text(&stdout) };
    let stderr: String = words.text(&stderr).lines().map(|line| format!("stderr: {line}\n")).collect();
    let code = if code == 0 { String::new() } else { format!("exit code {code}\n") };
    format!("==== aggregator {}\n{printed}{stderr}{code}", arguments.join(" "))
}

#[test]
fn good_files_are_planned_as_before() {
    let texts = FILES.map(|file| {
        let folder = Folder::new();
        let path = prepare(&folder, &repository_text(&format!("tests/data/golden/check/{file}.toml")));
        let words = Words::of_places(&[(&folder.path().display().to_string(), "HOME")]);
        (format!("check/{file}.txt"), check(&path, &words, &[]) + &check(&path, &words, &["--json"]))
    });
    let listed = fs::read_dir(repository_file("tests/data/golden/check")).unwrap();
    let listed = listed.filter(|entry| entry.as_ref().unwrap().path().extension().is_some_and(|end| end == "toml"));
    assert_eq!(listed.count(), FILES.len(), "a file that is not checked");
    assert_goldens(&texts);
}

/// The example listens where a test may not, and names files that are not there: its plan alone.
#[test]
fn the_example_is_planned_as_before() {
    let text = repository_text("config.example.toml");
    let config = Config::parse(Path::new("config.example.toml"), &text).unwrap();
    let plan = format!("{}{:#}\n", config.plan_text(), config.plan_json());
    assert_goldens(&[("check/example.txt".to_owned(), plan)]);
}

#[test]
fn what_only_trying_finds_is_told_as_before() {
    let least = repository_text("tests/data/golden/check/least.toml");
    let taken = Port::reserve();
    let address = taken.address().to_string();
    let mut texts = String::new();
    for (title, text) in [
        ("an address that is taken", least.replacen("127.0.0.1:0", &address, 1)),
        ("an address of another machine", least.replacen("127.0.0.1:0", "192.0.2.53:53", 1)),
        ("a control socket that is a folder", least.replace("\"control\"", "\"taken\"")),
        (
            "certificate and key that are none",
            least.replace(
                "udp_threads = 2",
                "udp_threads = 2\ntls = { listen = \"127.0.0.1:0\", certificate = \"short.key\", key = \"short.key\" }",
            ),
        ),
        ("no such section", "[zone]\n\"cns.example.com\" = 1\n".to_owned()),
    ] {
        let folder = Folder::new();
        fs::create_dir(folder.path().join("taken")).unwrap();
        let path = prepare(&folder, &text);
        let words = Words::of_places(&[(&folder.path().display().to_string(), "HOME"), (&address, "TAKEN")]);
        let shown = if title.starts_with("no ") { &[][..] } else { &["--here"] };
        texts.push_str(&format!("==== {title}\n{}", check(&path, &words, shown)));
        if title.starts_with("no ") {
            texts.push_str(&check(&path, &words, &["--json"]));
        }
    }
    assert_goldens(&[("check/refused.txt".to_owned(), texts)]);
}
