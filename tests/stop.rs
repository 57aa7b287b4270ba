//! The end of a server: complete when it is announced, and nothing left behind by reloads before it.

mod harness;

use harness::{Aggregator, Dname, Folder, Knotd, wait_until};
use std::fs;
use std::path::Path;
use std::time::Duration;

const ZONE: &str = "big.test";

/// A zone large enough that giving its memory back takes a while.
fn zone_text() -> String {
    let head = format!("$ORIGIN {ZONE}.\n@ 30 IN SOA ns. h. 1 30 60 2592000 30\n@ 30 IN NS ns.\n");
    head + &(0..20_000).map(|i| format!("host-{i} 30 IN A 10.0.{}.{}\n", i / 256, i % 256)).collect::<String>()
}

/// Resident memory of a process in KiB.
fn resident(id: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{id}/status")).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

#[test]
fn stop_returns_when_nothing_is_left_and_the_next_server_can_start() {
    let folder = Folder::new();
    let zone = Dname::parse(&format!("{ZONE}."));
    let primary = Knotd::start(&folder, &[(zone.clone(), zone_text())]);
    let plan = format!("[zones]\n\"{ZONE}\" = \"{}\"\n", primary.address());
    let daemon = Aggregator::start(&folder, &plan);
    wait_until("the zone is there", Duration::from_secs(20), || daemon.dump(&zone).map(|_| ()));
    let process = format!("/proc/{}", daemon.id());
    let stopped = daemon.verb(&["stop"]);
    assert_eq!(stopped.code, 0, "{stopped:?}");
    // The harness has not collected the process yet, so all that may be left of it is its exit code, or what the system
    // still has to do between closing its last file and saying so.
    let state = fs::read_to_string(Path::new(&process).join("stat")).unwrap_or_default();
    let ended = state.is_empty() || state.rsplit(')').next().is_some_and(|rest| rest.trim_start().starts_with('Z'));
    let open_files = fs::read_dir(Path::new(&process).join("fd")).map_or(0, Iterator::count);
    assert!(ended || open_files == 0, "{open_files} open files, {state}");
    // Its addresses are free at once.
    let check = daemon.verb(&["check", "--here"]);
    assert_eq!(check.code, 0, "{check:?}");
    assert_eq!(daemon.verb(&["status"]).code, 3);
}

#[test]
fn reloads_leave_nothing_behind() {
    let folder = Folder::new();
    let daemon = Aggregator::start(&folder, &format!("[zones]\n\"{ZONE}\" = \"127.0.0.1:9\"\n"));
    let reload = |times: usize| {
        for _ in 0..times {
            let output = daemon.verb(&["reload"]);
            assert_eq!(output.code, 0, "{output:?}");
        }
        resident(daemon.id())
    };
    let before = reload(30);
    let after = reload(100);
    assert!(after < before + 4096, "{before} KiB after 30 reloads, {after} KiB after 130");
}
