//! State folders as earlier versions wrote them: what is served from each of them while no primary answers.
//!
//! `tests/data/state-VERSION` was written by that version and stays as it is. A folder of the present version is made by
//! `cargo test --locked --test golden -- --ignored write_a_state_folder`, once, when it is released; one that is there is
//! never written again. It holds regions on the sum of their members, above it by a drift, half way to it, pinned, and
//! drained in part; a catalog; a zone of our own; and a zone whose journal ends within a frame.

use crate::compare::{Words, assert_golden};
use crate::harness::{Aggregator, Folder, Output, Port, Settings, repository_file, wait_until};
use crate::primary::Primary;
use crate::scene::{acknowledge, version};
use serde_json::Value;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(30);

const ZONES: [&str; 10] = [
    "one.sum.test",
    "two.sum.test",
    "one.drift.test",
    "one.half.test",
    "two.half.test",
    "one.pin.test",
    "one.drain.test",
    "two.drain.test",
    "cut.test",
    "own.test",
];
const REGIONS: [&str; 5] = ["sum.test", "drift.test", "half.test", "pin.test", "drain.test"];

/// The plan of the configuration; a zone lives for ten years, so that the folder can be read for as long.
const PLAN: &str = r#"
[zones]
"one.sum.test" = "PRIMARY"
"two.sum.test" = "PRIMARY"
"one.drift.test" = "PRIMARY"
"one.half.test" = "PRIMARY"
"two.half.test" = "PRIMARY"
"one.pin.test" = "PRIMARY"
"one.drain.test" = "PRIMARY"
"two.drain.test" = "PRIMARY"
"cut.test" = "PRIMARY"

[zones."own.test"]
serial = 7
services = "os A 192.0.2.80"

[aggregations."sum.test"]
members = ["one.sum.test", "two.sum.test"]
ns = ["ns1.test"]

[aggregations."drift.test"]
members = ["one.drift.test"]
ns = ["ns1.test"]
EXCLUDE

[aggregations."half.test"]
members = ["one.half.test", "two.half.test"]
ns = ["ns1.test"]

[aggregations."pin.test"]
members = ["one.pin.test"]
ns = ["ns1.test"]

[aggregations."drain.test"]
members = ["one.drain.test", "two.drain.test"]
ns = ["ns1.test"]

[secondaries]
allow_transfer = ["127.0.0.0/8"]
notify = ["SECONDARY"]
catalog = "catalog.test"

[transfer]
refresh_min = "1d"
refresh_max = "1d"
retry_min = "1d"
retry_max = "1d"
expire_min = "3650d"
expire_max = "3650d"
audit = false
"#;

/// The configuration around a state folder.
fn settings(primary: &str, secondary: &str, exclude: &str) -> Settings {
    let plan = PLAN.replace("PRIMARY", primary).replace("SECONDARY", secondary).replace("EXCLUDE", exclude);
    // Long enough for two zones to come at once.
    Settings { state: Some("state".to_owned()), server: "hold_down = \"2s\"\n".to_owned(), ..Settings::new(&plan) }
}

/// The status of a zone or region.
fn status(daemon: &Aggregator, zone: &str) -> Value {
    let output = daemon.verb(&["status", zone, "--json"]);
    let report: Value = serde_json::from_str(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"));
    let found = ["zones", "regions"].into_iter().find_map(|kind| report[kind].get(0));
    found.unwrap_or(&report["catalog"]).clone()
}

/// All files below a folder, as paths relative to it.
fn files(root: &Path, below: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(root.join(below)).unwrap() {
        let path = below.join(entry.unwrap().file_name());
        if root.join(&path).is_dir() {
            files(root, &path, found);
        } else if path != Path::new("lock") {
            found.push(path);
        }
    }
    found.sort();
}

/// Copies a state folder, without the lock.
fn copy(from: &Path, to: &Path) {
    let mut found = Vec::new();
    files(from, Path::new(""), &mut found);
    for path in found {
        fs::create_dir_all(to.join(&path).parent().unwrap()).unwrap();
        fs::copy(from.join(&path), to.join(&path)).unwrap();
    }
}

/// Every state folder that an earlier version or this one has written.
fn folders() -> Vec<PathBuf> {
    let data = fs::read_dir(repository_file("tests/data")).unwrap();
    let mut found: Vec<PathBuf> = data.map(|entry| entry.unwrap().path()).collect();
    found.retain(|path| path.file_name().unwrap().to_str().unwrap().starts_with("state-"));
    found.sort();
    assert!(!found.is_empty());
    found
}

#[test]
fn state_of_earlier_versions_is_served() {
    for folder in folders() {
        let scene = Folder::new();
        let home = scene.subfolder("aggregator");
        copy(&folder, &home.join("state"));
        let nobody = Port::reserve().release().to_string();
        let (exclude, words) = ("exclude = [\"private\"]", Words::of_places(&[]));
        let daemon = Aggregator::start_with(&home, &settings(&nobody, &nobody, exclude));
        wait_until("everything is served", PATIENCE, || {
            let is_ok = |zone: &&str| status(&daemon, zone)["state"] == "ok";
            (ZONES.iter().chain(&REGIONS).filter(|zone| is_ok(zone)).count() == ZONES.len() + REGIONS.len())
                .then_some(())
        });
        let mut text = String::new();
        let report: Value = serde_json::from_str(&daemon.verb(&["status", "--json"]).stdout).unwrap();
        writeln!(text, "==== drains\n{:#}", report["drains"]).unwrap();
        for zone in REGIONS.into_iter().chain(ZONES) {
            let status = status(&daemon, zone);
            writeln!(text, "==== {zone}").unwrap();
            for key in ["state", "serial", "records", "names", "drift", "pinned", "conflicts", "history"] {
                writeln!(text, "{key} {}", status[key]).unwrap();
            }
            for arguments in [&["dump", zone][..], &["history", zone], &["history", zone, "--json"]] {
                let Output { code, stdout, stderr } = daemon.verb(arguments);
                let printed = if arguments.len() == 3 { words.json(&stdout) } else { stdout };
                write!(text, "---- {} {code}\n{printed}{stderr}", arguments.join(" ")).unwrap();
            }
            if let Some(oldest) = status["history"]["from"].as_u64() {
                let diff = daemon.verb(&["diff", zone, "--from", &oldest.to_string()]);
                write!(text, "---- diff --from {oldest}\n{}{}", diff.stdout, diff.stderr).unwrap();
            }
        }
        // Its serial is the time.
        let catalog = daemon.verb(&["dump", "catalog.test"]).stdout;
        let serial = status(&daemon, "catalog.test")["serial"].to_string();
        write!(text, "==== catalog.test\n{}", catalog.replace(&serial, "CATALOG_SERIAL")).unwrap();
        let log = daemon.log_text();
        writeln!(text, "==== log of the state").unwrap();
        for line in log.lines().filter(|line| line.contains(" aggregator::state")) {
            let told = line.split_once(" aggregator::state").unwrap().1;
            writeln!(text, "{}", told.replace(&scene.path().display().to_string(), "HOME")).unwrap();
        }
        let version = folder.file_name().unwrap().to_str().unwrap();
        assert_golden(&format!("{version}.txt"), &text);
    }
}

/// Writes the folder of the present version, where there is none yet.
#[test]
#[ignore = "writes into tests/data, once for each version"]
fn write_a_state_folder() {
    let target = repository_file(concat!("tests/data/state-", env!("CARGO_PKG_VERSION")));
    assert!(!target.exists(), "{} is there, and stays as it is", target.display());
    let (primary, secondary) = (Primary::start(), acknowledge().to_string());
    let web = |last: u32| format!("web.svc.acme IN A 192.0.2.{last}\nprivate IN TXT \"1\"\n");
    let zones = ZONES.iter().filter(|zone| **zone != "own.test");
    zones.clone().for_each(|zone| primary.publish(version(zone, 10, &web(1))));
    let address = primary.address().to_string();
    let folder = Folder::new();
    let home = folder.subfolder("aggregator");
    let mut daemon = Aggregator::start_with(&home, &settings(&address, &secondary, ""));
    let wait = |daemon: &Aggregator, zone: &str, serial: u32| {
        wait_until(&format!("{zone} has serial {serial}"), PATIENCE, || {
            (status(daemon, zone)["serial"] == serial).then_some(())
        });
    };
    for (region, serial) in REGIONS.into_iter().zip([20, 10, 20, 10, 20]) {
        wait(&daemon, region, serial);
    }
    for (serial, last) in [(11, 2), (12, 3)] {
        for zone in ["one.sum.test", "one.pin.test", "cut.test"] {
            primary.publish(version(zone, serial, &web(last)));
            assert_eq!(daemon.verb(&["refresh", zone]).code, 0);
            wait(&daemon, zone, serial);
        }
        wait(&daemon, "sum.test", serial + 10);
        wait(&daemon, "pin.test", serial);
    }
    // More than half of the circle, and both at once.
    let far = 1_500_000_000;
    for zone in ["one.half.test", "two.half.test"] {
        primary.publish(version(zone, far, &web(2)));
    }
    primary.publish(version("two.sum.test", 11, &web(2)));
    assert_eq!(daemon.verb(&["refresh", "two.sum.test"]).code, 0);
    wait(&daemon, "two.sum.test", 11);
    assert_eq!(daemon.verb(&["refresh", "half.test"]).code, 0);
    wait(&daemon, "half.test", 20 + (i32::MAX as u32));
    daemon.write_settings(&settings(&address, &secondary, "exclude = [\"private\"]"));
    for order in [
        &["reload"][..],
        &["drain", "one.drain", "--yes", "--reason", "new racks"],
        &["drain", "two.drain", "--name", "private", "--for", "3650d", "--yes"],
        &["rollback", "pin.test", "--to", "10", "--yes", "--reason", "bad release"],
    ] {
        let output = daemon.verb(order);
        assert_eq!(output.code, 0, "{order:?}: {output:?}");
    }
    wait(&daemon, "drift.test", 11);
    wait(&daemon, "pin.test", 13);
    assert!(daemon.stop().success());

    let state = home.join("state");
    let mut found = Vec::new();
    files(&state, Path::new(""), &mut found);
    let journal =
        found.iter().find(|path| path.starts_with("zones/cut.test") && path.to_str().unwrap().contains("journal"));
    let journal = state.join(journal.expect("a journal"));
    let whole = fs::read(&journal).unwrap();
    fs::write(&journal, &whole[..whole.len() - 7]).unwrap();
    copy(&state, &target);
}
