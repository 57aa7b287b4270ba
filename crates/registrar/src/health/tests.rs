//! Checks that pass, fail, hang and print.

use super::*;
use crate::config::OutputRule;
use crate::state::Tolerance;
use regex::bytes::Regex;
use rustix::process::test_kill_process;
use std::fs;
use std::time::Instant;

/// A check with ten seconds of time.
fn plan(command: &str) -> HealthPlan {
    HealthPlan {
        command: command.to_string(),
        interval: Duration::from_secs(60),
        timeout: Duration::from_secs(10),
        tolerance: Tolerance { threshold: 5, period: Duration::from_secs(300) },
        ignore_exit_status: false,
        output: None,
        check_first: false,
    }
}

/// A check whose output counts.
fn matching(command: &str, pattern: &str, invert: bool) -> HealthPlan {
    HealthPlan { output: Some(OutputRule { pattern: Regex::new(pattern).unwrap(), invert }), ..plan(command) }
}

/// Runs a check and returns its outcome in words.
async fn run(plan: &HealthPlan) -> String {
    check(plan).await.map_or_else(|fault| fault.to_string(), |()| "healthy".to_string())
}

#[tokio::test]
async fn status_and_output_decide() {
    assert_eq!(run(&plan("exit 0")).await, "healthy");
    assert_eq!(run(&plan("echo no disk >&2; exit 3")).await, "ended with exit status: 3; it said \"no disk\"");
    let ignored = HealthPlan { ignore_exit_status: true, ..plan("exit 3") };
    assert_eq!(run(&ignored).await, "healthy");
    assert_eq!(run(&matching("echo all ok", "ok", false)).await, "healthy");
    assert_eq!(run(&matching("echo no", "ok", false)).await, "printed \"no\", which does not match");
    assert_eq!(run(&matching("echo no", "ok", true)).await, "healthy");
    assert_eq!(run(&matching("echo ok", "ok", true)).await, "printed \"ok\", which matches and must not");
    // Only standard output counts, and the status counts as well.
    assert_eq!(run(&matching("echo ok >&2", "ok", false)).await, "printed \"\", which does not match");
    assert!(run(&matching("echo ok; exit 1", "ok", false)).await.starts_with("ended with"));
    let ignored = HealthPlan { ignore_exit_status: true, ..matching("echo ok; exit 1", "ok", false) };
    assert_eq!(run(&ignored).await, "healthy");
}

#[tokio::test]
async fn too_much_output_is_a_failure_and_not_a_flood() {
    assert_eq!(run(&plan("yes")).await, "printed more than 1048576 octets");
    assert_eq!(run(&plan("yes >&2")).await, "printed more than 1048576 octets");
    assert_eq!(run(&plan("head -c 1048576 /dev/zero")).await, "healthy");
}

#[tokio::test]
async fn a_check_that_hangs_ends_with_everything_it_started() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("pid");
    // The shell and its child pass over the polite signal; the child holds the output open.
    let command = format!("trap '' TERM; sleep 1000 & echo $! > {}; wait", file.display());
    let hanging = HealthPlan { timeout: Duration::from_millis(300), ignore_exit_status: true, ..plan(&command) };
    let start = Instant::now();
    assert_eq!(run(&hanging).await, "took longer than 300 ms");
    assert!(start.elapsed() < Duration::from_secs(5));
    let child = Pid::from_raw(fs::read_to_string(&file).unwrap().trim().parse().unwrap()).unwrap();
    let deadline = Instant::now() + Duration::from_secs(10);
    while test_kill_process(child).is_ok() && !is_zombie(child) {
        assert!(Instant::now() < deadline, "process {child} is still there");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Returns true if a process has ended and no parent has read its exit status; false where that cannot be seen.
fn is_zombie(process: Pid) -> bool {
    fs::read_to_string(format!("/proc/{process}/stat")).is_ok_and(|text| text.contains(") Z "))
}
