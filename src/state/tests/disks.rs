//! Disks that refuse, hang, or come back: nothing waits for them, and what was missed is made up for.

use super::*;
use crate::zone::{Cause, HistoryLimits};
use rustix::fs::{CWD, FileType, Mode, OFlags, fcntl_setfl, mknodat};
use std::io::Read as _;
use std::os::unix::fs::OpenOptionsExt;

/// Puts a pipe in the place of a file: whoever opens it waits, as on a disk that does not answer, until it is let go.
fn hang(path: &Path) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    let beside = path.with_extension("pipe");
    mknodat(CWD, &beside, FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
    fs::rename(beside, path).unwrap();
}

/// Lets go of whoever writes into a pipe, and takes what comes.
fn let_go(path: &Path) {
    let beside = path.with_extension("pipe");
    fs::rename(path, &beside).unwrap();
    // It opens at once, should nobody have come yet.
    let mut pipe = fs::OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(&beside).unwrap();
    fs::remove_file(beside).unwrap();
    fcntl_setfl(&pipe, OFlags::empty()).unwrap();
    std::thread::spawn(move || pipe.read_to_end(&mut Vec::new()));
}

/// A zone with many names.
fn large(origin: &str) -> Arc<Zone> {
    let lines: String = (0..10_000).map(|index| format!("n{index} 30 A 192.0.2.1\n")).collect();
    Arc::new(load(origin, &format!("@ 30 SOA 1\n{lines}"), None).zone)
}

#[test]
fn a_folder_that_vanishes_is_made_again() {
    let folder = folder();
    let root = folder.path().join("state");
    let (store, metrics) = open_in(&root);
    let zone = name("z");
    let one = first("@ 30 SOA 1");
    store.replace(&zone, one.clone(), at(0));
    store.save(NewFacts {
        states: Some(HashMap::from([(name("w.x"), RegionState { drift: 0, last: Serial(1), fingerprint: 7 })])),
        ..NewFacts::default()
    });
    assert!(store.flush(PATIENCE));
    fs::remove_dir_all(&root).unwrap();
    let (delta, two) = step(&one, "@ 30 SOA 2");
    store.append(&zone, delta, two.clone(), at(1));
    assert!(!store.flush(PATIENCE), "nothing was written");
    let status = store.status();
    assert!(!status.healthy && status.error.as_ref().unwrap().contains("zones/z"), "{status:?}");
    assert_eq!((metrics.state_healthy.get(), errors(&metrics, "append")), (0, 1));
    store.save(NewFacts {
        states: Some(HashMap::from([(name("w.x"), RegionState { drift: 1, last: Serial(2), fingerprint: 7 })])),
        ..NewFacts::default()
    });
    wait("not healthy again", || store.status().healthy && store.status().error.is_none());
    assert!(store.flush(PATIENCE));
    assert_eq!(metrics.state_healthy.get(), 1);
    assert!(matches!(open(&root, Arc::default()), Err(StateError::InUse { .. })), "the lock is there again, too");
    drop(store);
    let (store, _) = open_in(&root);
    assert_eq!(store.load(&zone).unwrap().zone, two);
    assert_eq!(store.facts.states[&name("w.x")], RegionState { drift: 1, last: Serial(2), fingerprint: 7 });
}

#[test]
fn a_folder_that_vanishes_is_written_again_without_any_change() {
    let folder = folder();
    let root = folder.path().join("state");
    let (store, _) = open_in(&root);
    let zones = ["z", "y"].map(|zone| Arc::new(load(&format!("{zone}."), "@ 30 SOA 5\na 30 A 192.0.2.1", None).zone));
    for zone in &zones {
        store.replace(&zone.origin, zone.clone(), at(0));
    }
    let state = RegionState { drift: 3, last: Serial(8), fingerprint: 7 };
    store.save(NewFacts { states: Some(HashMap::from([(name("w.x"), state)])), ..NewFacts::default() });
    let (delta, _) = step(&first("@ 30 SOA 1"), "@ 30 SOA 2");
    let mut history = History::default();
    let limits = HistoryLimits::default();
    history.push(HistoryStep::new(delta, at(1), [Cause::Drain]), &limits);
    store.save_past(&name("z"), history);
    assert!(store.flush_all());
    // Whole, and all but what looks whole: the lock stays with us.
    for part in [root.clone(), root.join("zones")] {
        fs::remove_dir_all(&part).unwrap();
        let snapshot = |zone: &Arc<Zone>| store.shared.disk.zone_folder(&zone.origin).join("snapshot");
        let is_there = || zones.iter().all(|zone| snapshot(zone).exists()) && root.join("regions").exists();
        wait("not written again", || is_there() && store.flush_all());
    }
    assert!(store.status().healthy);
    drop(store);
    let (store, _) = open_in(&root);
    for zone in &zones {
        assert_eq!(store.load(&zone.origin).unwrap().zone, *zone);
    }
    assert_eq!(store.facts.states[&name("w.x")], state);
    assert_eq!(store.load_past(&name("z")).len(), 1);
}

#[test]
fn one_zone_that_cannot_be_written_does_not_hold_up_others() {
    let folder = folder();
    let (store, metrics) = open_in(folder.path());
    let in_the_way = folder.path().join("zones/z");
    fs::write(&in_the_way, "").unwrap();
    let mut version = first("@ 30 SOA 1");
    store.replace(&name("z"), version.clone(), at(0));
    assert!(!store.flush(PATIENCE));
    for serial in 2..300 {
        let (delta, new) = step(&version, &format!("@ 30 SOA {serial}"));
        store.append(&name("z"), delta, new.clone(), at(1));
        version = new;
    }
    assert!(!store.flush(PATIENCE), "and that is known at once");
    let other = Arc::new(load("y.", "@ 30 SOA 7", None).zone);
    store.replace(&name("y"), other, at(0));
    wait("the other zone is not written", || folder.path().join("zones/y/snapshot").exists());
    assert!(!store.status().healthy && errors(&metrics, "snapshot") > 0);
    fs::remove_file(in_the_way).unwrap();
    wait("not healthy again", || store.status().healthy);
    assert!(store.flush(PATIENCE));
    drop(store);
    let (store, _) = open_in(folder.path());
    assert_eq!(store.load(&name("z")).unwrap().zone, version);
    assert_eq!(store.load(&name("y")).unwrap().zone.soa.serial, Serial(7));
}

#[test]
fn a_journal_that_somebody_has_changed_is_not_gone_on_with() {
    let folder = folder();
    let (store, _) = open_in(folder.path());
    let one = first("@ 30 SOA 1");
    store.replace(&name("z"), one.clone(), at(0));
    assert!(store.flush(PATIENCE));
    fs::write(journal(folder.path()), "short").unwrap();
    let (delta, two) = step(&one, "@ 30 SOA 2");
    store.append(&name("z"), delta, two.clone(), at(1));
    assert!(!store.flush(PATIENCE));
    wait("not healthy again", || store.status().healthy);
    drop(store);
    let (store, _) = open_in(folder.path());
    assert_eq!(store.load(&name("z")).unwrap().zone, two);
}

/// A store with zone z, closed, whose lock is replaced.
fn closed(lock: impl FnOnce(&Path)) -> (tempfile::TempDir, Arc<Zone>) {
    let folder = folder();
    let (store, _) = open_in(folder.path());
    let version = first("@ 30 SOA 5\na 30 A 192.0.2.1");
    store.replace(&name("z"), version.clone(), at(0));
    store.save(NewFacts {
        states: Some(HashMap::from([(name("w.x"), RegionState { drift: 3, last: Serial(8), fingerprint: 7 })])),
        ..NewFacts::default()
    });
    assert!(store.flush(PATIENCE));
    drop(store);
    fs::remove_file(folder.path().join("lock")).unwrap();
    lock(&folder.path().join("lock"));
    (folder, version)
}

#[test]
fn a_folder_that_cannot_be_locked_is_read_and_locked_later() {
    let (folder, version) = closed(|lock| std::os::unix::fs::symlink("nowhere/at/all", lock).unwrap());
    let before = files(&folder.path().join("zones"));
    let (store, metrics) = open_in(folder.path());
    let status = store.status();
    assert!(!status.healthy && status.error.as_ref().unwrap().contains("cannot lock"), "{status:?}");
    assert_eq!((metrics.state_healthy.get(), errors(&metrics, "open")), (0, 1));
    assert_eq!(store.load(&name("z")).unwrap().zone, version);
    assert_eq!(store.facts.states[&name("w.x")].last, Serial(8));
    // Somebody else may have the lock: nothing is changed without it.
    let (delta, new) = step(&version, "@ 30 SOA 6");
    store.append(&name("z"), delta, new.clone(), at(1));
    assert!(!store.flush(PATIENCE));
    assert_eq!(files(&folder.path().join("zones")), before);
    fs::remove_file(folder.path().join("lock")).unwrap();
    wait("not healthy again", || store.status().healthy);
    assert!(matches!(open(folder.path(), Arc::default()), Err(StateError::InUse { .. })));
    drop(store);
    let (store, _) = open_in(folder.path());
    assert_eq!(store.load(&name("z")).unwrap().zone, new);
    assert_eq!(store.facts.states[&name("w.x")].last, Serial(8));
}

#[test]
fn a_lock_that_can_only_be_read_is_taken() {
    // A folder can be opened for reading alone, as a file on a read-only disk.
    let (folder, version) = closed(|lock| fs::create_dir(lock).unwrap());
    let (store, _) = open_in(folder.path());
    assert!(store.status().error.unwrap().contains("cannot lock"));
    assert!(matches!(open(folder.path(), Arc::default()), Err(StateError::InUse { .. })));
    assert_eq!(store.load(&name("z")).unwrap().zone, version);
    wait("all can be written after all", || store.status().healthy);
}

#[test]
fn a_folder_that_cannot_be_made_is_tried_again() {
    let folder = folder();
    let in_the_way = folder.path().join("a");
    fs::write(&in_the_way, "").unwrap();
    let (store, metrics) = open_in(&in_the_way.join("state"));
    assert!(store.status().error.unwrap().contains("cannot create the state folder"));
    assert!(store.load(&name("z")).is_none() && store.facts.states.is_empty());
    let version = first("@ 30 SOA 1");
    store.replace(&name("z"), version.clone(), at(0));
    assert!(!store.flush(PATIENCE));
    fs::remove_file(in_the_way).unwrap();
    wait("not healthy again", || store.status().healthy);
    assert!(store.flush(PATIENCE) && metrics.state_healthy.get() == 1);
    assert_eq!(store.load(&name("z")).unwrap().zone, version);
}

#[test]
fn a_large_snapshot_keeps_no_other_zone_waiting() {
    let folder = folder();
    let (store, _) = open_in(folder.path());
    let mut version = first("@ 30 SOA 1");
    store.replace(&name("z"), version.clone(), at(0));
    assert!(store.flush(PATIENCE) && journal(folder.path()).exists(), "a small one is waited for");
    let pipe = folder.path().join("zones/large/snapshot.tmp");
    hang(&pipe);
    let large = large("large.");
    store.replace(&name("large"), large.clone(), at(0));
    // The snapshot is not made before the pipe is read.
    for serial in 2..5 {
        let (delta, new) = step(&version, &format!("@ 30 SOA {serial}"));
        store.append(&name("z"), delta, new.clone(), at(1));
        version = new;
        assert!(store.flush(PATIENCE));
        let journal = fs::read(journal(folder.path())).unwrap();
        let snapshot = fs::read(folder.path().join("zones/z/snapshot")).unwrap();
        assert_eq!(replay(&name("z"), &snapshot, Some(&journal)).unwrap().zone, *version);
    }
    let small = Arc::new(load("y.", "@ 30 SOA 7", None).zone);
    store.replace(&name("y"), small.clone(), at(0));
    assert!(store.flush(PATIENCE), "behind the large one, a small one is not made soon either");
    assert!(!store.shared.inbox.flush_all(Duration::ZERO));
    let_go(&pipe);
    wait("not written at last", || store.shared.inbox.flush_all(PATIENCE));
    assert_eq!(store.load(&name("large")).unwrap().zone, large);
    assert_eq!(store.load(&name("y")).unwrap().zone, small);
}

/// Returns true if the store says that the disk does not answer.
fn is_silent(store: &Store) -> bool {
    store.status().error.is_some_and(|error| error.contains("does not answer"))
}

#[test]
fn a_writer_that_hangs_is_told_and_waited_for_once() {
    let folder = folder();
    let (store, metrics) = open_in(folder.path());
    let mut version = first("@ 30 SOA 1");
    store.replace(&name("z"), version.clone(), at(0));
    assert!(store.flush(PATIENCE));
    let pipe = folder.path().join("regions.tmp");
    hang(&pipe);
    store.save(NewFacts {
        states: Some(HashMap::from([(name("w.x"), RegionState { drift: 0, last: Serial(1), fingerprint: 7 })])),
        ..NewFacts::default()
    });
    let mut next = || {
        let (delta, new) = step(&version, &format!("@ 30 SOA {}", version.soa.serial.0 + 1));
        store.append(&name("z"), delta, new.clone(), at(1));
        version = new;
    };
    next();
    assert!(!store.flush(Duration::from_millis(250)));
    assert!(is_silent(&store) && !store.status().healthy);
    assert_eq!((errors(&metrics, "flush"), metrics.state_healthy.get()), (1, 0));
    next();
    let begun = std::time::Instant::now();
    assert!(!store.flush(PATIENCE) && begun.elapsed() < PATIENCE / 2, "it is not waited for again");
    let_go(&pipe);
    wait("not healthy again", || store.status().healthy);
    next();
    assert!(store.flush(PATIENCE));
    assert_eq!(errors(&metrics, "flush"), 1);
    drop(store);
    let (store, _) = open_in(folder.path());
    assert_eq!(store.load(&name("z")).unwrap().zone, version);
}

#[test]
fn a_builder_that_hangs_is_told() {
    let folder = folder();
    let (store, metrics) = open_in(folder.path());
    let pipe = folder.path().join("zones/z/snapshot.tmp");
    hang(&pipe);
    let version = first("@ 30 SOA 1");
    store.replace(&name("z"), version.clone(), at(0));
    wait("it is not told", || is_silent(&store));
    assert_eq!(errors(&metrics, "flush"), 1);
    let_go(&pipe);
    wait("not healthy again", || store.status().healthy);
    assert!(store.flush(PATIENCE));
    assert_eq!(store.load(&name("z")).unwrap().zone, version);
}
