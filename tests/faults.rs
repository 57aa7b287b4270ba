//! The fault matrix: everything that a replica depends on, down, slow, lying, flapping, full, read-only, or a day off.
//!
//! Two replicas, their primary behind relays, and a Prometheus with the rules of `deploy/` run for each dependency; clients
//! ask both replicas all the time. For each fault: no answer is missing or wrong and no serial goes back, except at a
//! replica that is started anew; other changes arrive meanwhile; the alerts of the matrix fire and no others; after it
//! what changed arrives, the alerts end, and every record is there. `docs/faults.md` has the table; `make faults` writes
//! it from a run.
//!
//! It mounts disks in a mount namespace of its own, which takes root, so `make test-partition` runs it.

#[path = "faults/matrix.rs"]
mod matrix;
#[path = "monitoring/secondary.rs"]
mod secondary;
#[path = "faults/site.rs"]
mod site;
// The causes of alerts use the rest.
#[allow(dead_code)]
#[path = "monitoring/world.rs"]
mod world;

mod harness;

use harness::{repository_text, write_table};
use matrix::{Change, DEPENDENCIES, Dependency, Fault};
use site::{Site, Subject};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// Time for which a fault lasts that fires no alert.
const LENGTH: Duration = Duration::from_secs(5);
/// Longest time until another datacenter's change arrives, on a machine that is busy.
const OTHERS: Duration = Duration::from_secs(15);
/// Worlds at a time.
const WORKERS: usize = 3;

/// What stands in the document for a fault: its dependency, its name, and the alerts.
type Key = (String, String, String);

fn key(dependency: &Dependency, fault: &Fault) -> Key {
    let alerts = if fault.alerts.is_empty() { "–".to_string() } else { fault.alerts.join(", ") };
    (dependency.name.to_string(), fault.name.to_string(), alerts)
}

/// Has a fault happen, and returns its row of the table.
fn suffer(site: &mut Site, dependency: &Dependency, fault: &Fault) -> String {
    let place = format!("{}, {}", dependency.name, fault.name);
    let other = Subject::Datacenter(2);
    site.take_toll();
    (fault.begin)(site);
    if fault.change == Change::Meanwhile {
        site.change(dependency.subject);
    }
    let began = Instant::now();
    site.change(other);
    (usize::from(fault.isolates)..2).for_each(|replica| site.wait_seen(other, replica));
    let others = began.elapsed();
    assert!(others < OTHERS, "{place}: another change took {others:?}");
    for alert in fault.alerts {
        site.world.wait_firing(alert, &[]);
    }
    if fault.alerts.is_empty() {
        // The length of the fault; nothing is waited for.
        std::thread::sleep(LENGTH);
    }
    let known: Vec<&str> = fault.alerts.iter().chain(fault.may).copied().collect();
    site.world.assert_only(&known);
    (fault.end)(site);
    if fault.change == Change::After {
        site.change(dependency.subject);
    }
    let ended = Instant::now();
    for replica in 0..2 {
        site.wait_seen(dependency.subject, replica);
        site.wait_seen(other, replica);
    }
    let recovered = ended.elapsed();
    site.world.wait_quiet();
    site.assert_whole();
    let toll = site.take_toll();
    println!("{place}: {toll:?}, others {others:?}, recovered {recovered:?}");
    assert!(toll.questions > 100, "{place}: {toll:?}");
    assert!(fault.restarts || toll.unanswered + toll.wrong + toll.older == 0, "{place}: {toll:?}");
    let (dependency, name, alerts) = key(dependency, fault);
    format!(
        "| {dependency} | {name} | {} | {} | {} | {} | {} ms | {alerts} | {:.1} s | {:.1} s |\n",
        toll.questions,
        toll.unanswered,
        toll.wrong,
        toll.older,
        toll.slowest.as_millis(),
        others.as_secs_f64(),
        recovered.as_secs_f64(),
    )
}

#[test]
#[ignore = "mounts disks, as root, some minutes; `make test-partition` runs it"]
fn no_fault_costs_an_answer_or_a_record() {
    // What is mounted here nobody else sees, and it goes with the process.
    // SAFETY: plain system calls, before there is a second thread of ours.
    unsafe {
        assert_eq!(libc::unshare(libc::CLONE_FS | libc::CLONE_NEWNS), 0, "{}", std::io::Error::last_os_error());
        let private = libc::mount(
            c"none".as_ptr(),
            c"/".as_ptr(),
            std::ptr::null(),
            libc::MS_REC | libc::MS_PRIVATE,
            std::ptr::null(),
        );
        assert_eq!(private, 0, "{}", std::io::Error::last_os_error());
    }
    let wanted = std::env::var("AGGREGATOR_FAULT").unwrap_or_default();
    let is_wanted =
        |dependency: &Dependency, fault: &Fault| format!("{}: {}", dependency.name, fault.name).contains(&wanted);
    let waiting = Mutex::new(DEPENDENCIES.iter().rev().collect::<Vec<_>>());
    let rows: Mutex<BTreeMap<&str, String>> = Mutex::default();
    std::thread::scope(|scope| {
        let work = || {
            loop {
                let next = waiting.lock().unwrap().pop();
                let Some(dependency) = next else { return };
                let faults: Vec<&Fault> =
                    dependency.faults.iter().filter(|fault| is_wanted(dependency, fault)).collect();
                if faults.is_empty() {
                    continue;
                }
                let mut site = Site::start(&(dependency.plan)());
                for fault in faults {
                    let row = suffer(&mut site, dependency, fault);
                    rows.lock().unwrap().entry(dependency.name).or_default().push_str(&row);
                }
            }
        };
        // A thread of the scope is in the namespace of the one that starts it.
        let workers: Vec<_> = (0..WORKERS).map(|_| scope.spawn(work)).collect();
        let failed = workers.into_iter().map(|worker| worker.join().is_err());
        assert_eq!(failed.filter(|failed| *failed).count(), 0, "what each says stands above");
    });
    if std::env::var_os("AGGREGATOR_WRITE_DOCS").is_some() {
        let rows = rows.into_inner().unwrap();
        let mut table = String::from(
            "| dependency | fault | questions | unanswered | wrong | older | slowest | alerts | others arrived in | recovered in |\n\
             |---|---|---:|---:|---:|---:|---:|---|---:|---:|\n",
        );
        for dependency in DEPENDENCIES {
            write!(table, "{}", rows[dependency.name]).unwrap();
        }
        write_table("docs/faults.md", &table);
    }
}

#[test]
fn the_document_has_every_fault() {
    let text = repository_text("docs/faults.md");
    let (_, table) = text.split_once("<!-- table -->\n").expect("the beginning of the table");
    let (table, _) = table.split_once("<!-- end of table -->").expect("the end of the table");
    let rows = table.lines().skip(2).map(|row| row.trim_matches('|').split('|').map(str::trim).collect::<Vec<_>>());
    let told: BTreeSet<Key> =
        rows.map(|cells| (cells[0].to_string(), cells[1].to_string(), cells[7].to_string())).collect();
    let faults = DEPENDENCIES.iter().flat_map(|one| one.faults.iter().map(move |fault| key(one, fault)));
    assert_eq!(told, faults.collect::<BTreeSet<Key>>());
}
