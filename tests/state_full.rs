//! A disk that is full, for real: writes come back short and then fail, until there is room again.
//!
//! The limit on the size of files does that to a process, so this file has one test and a process of its own.

use aggregator::metrics::Metrics;
use aggregator::state::replay::{Fault, replay};
use aggregator::state::{self, NewFacts, RegionState, Store};
use aggregator::zone::{Delta, Loader, Soa, Zone};
use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};
use wire::name::{Name, NameBuf};
use wire::rr::rtype;
use wire::serial::Serial;

/// More than anything here takes.
const PATIENCE: Duration = Duration::from_secs(20);

/// Lets no file of this process grow beyond a size.
fn limit_files(bytes: u64) {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the structure is valid for both calls.
    let status = unsafe {
        libc::getrlimit(libc::RLIMIT_FSIZE, &raw mut limit);
        limit.rlim_cur = bytes.min(limit.rlim_max);
        libc::setrlimit(libc::RLIMIT_FSIZE, &raw const limit)
    };
    assert_eq!(status, 0, "{}", std::io::Error::last_os_error());
}

/// A zone of a thousand names, one of which changes.
fn load(serial: u32, base: Option<&Zone>) -> (Arc<Zone>, Vec<Name>) {
    let mut loader = Loader::new(Name::parse("z").unwrap());
    let soa = Soa { serial: Serial(serial), refresh: 1, retry: 1, expire: 1, minimum: 1 };
    loader.push(&NameBuf::parse("z").unwrap(), rtype::SOA, 30, &soa.to_rdata(&[0], &[0]));
    for index in 0..1000u32 {
        let data = if index == 0 { serial } else { index };
        loader.push(&NameBuf::parse(&format!("n{index}.z")).unwrap(), rtype::A, 30, &data.to_be_bytes());
    }
    let loaded = loader.finish(base).unwrap();
    (Arc::new(loaded.zone), loaded.touched)
}

/// Hands over the next version.
fn append(store: &Store, version: &mut Arc<Zone>) {
    let (new, touched) = load(version.soa.serial.0 + 1, Some(version));
    let delta = Arc::new(Delta::between(version, &new, touched));
    store.append(&new.origin, delta, new.clone(), SystemTime::now());
    *version = new;
}

fn save(store: &Store, last: u32) {
    store.save(NewFacts {
        states: Some(HashMap::from([(
            Name::parse("w").unwrap(),
            RegionState { drift: 0, last: Serial(last), fingerprint: 0 },
        )])),
        ..NewFacts::default()
    });
}

/// Bytes of snapshot and journal.
fn files(folder: &Path) -> (Vec<u8>, PathBuf) {
    let of = |start: &str| {
        let paths = fs::read_dir(folder.join("zones/z")).unwrap().map(|entry| entry.unwrap().path());
        paths.into_iter().find(|path| path.file_name().unwrap().to_str().unwrap().starts_with(start)).unwrap()
    };
    (fs::read(of("snapshot")).unwrap(), of("journal."))
}

#[test]
fn a_full_disk_stops_nothing_and_is_made_up_for() {
    let folder = tempfile::tempdir().unwrap();
    let metrics = Arc::new(Metrics::new());
    let store = state::open(folder.path(), metrics.clone()).unwrap();
    let (mut version, _) = load(1, None);
    store.replace(&version.origin, version.clone(), SystemTime::now());
    append(&store, &mut version);
    save(&store, 1);
    assert!(store.flush(PATIENCE) && store.status().healthy);

    // Room for the first bytes of the next step: what is there stays good, what was begun is cut off.
    let kept = version.clone();
    let (snapshot, journal) = files(folder.path());
    limit_files(fs::metadata(&journal).unwrap().len() + 20);
    append(&store, &mut version);
    let begun = Instant::now();
    assert!(!store.flush(PATIENCE));
    assert!(begun.elapsed() < PATIENCE / 2, "a refusal is known at once");
    let torn = fs::read(&journal).unwrap();
    let replayed = replay(&kept.origin, &snapshot, Some(&torn)).unwrap();
    assert_eq!((&replayed.zone, replayed.fault), (&*kept, Some(Fault::Torn(20))));

    // It goes on like that for a while, and nobody waits.
    limit_files(0);
    for last in 2..200 {
        append(&store, &mut version);
        save(&store, last);
    }
    assert!(!store.flush(PATIENCE));
    assert!(begun.elapsed() < PATIENCE / 2);
    let status = store.status();
    assert!(!status.healthy && status.error.is_some(), "{status:?}");
    let text = metrics.render();
    assert!(text.contains("aggregator_state_healthy 0"), "{text}");
    assert!(text.contains("aggregator_state_errors_total{operation=\"append\"} 1"), "{text}");
    assert!(text.contains("aggregator_state_errors_total{operation=\"regions\"}"), "{text}");

    // Somebody makes room.
    limit_files(u64::MAX);
    let deadline = Instant::now() + PATIENCE;
    while !store.status().healthy {
        assert!(Instant::now() < deadline, "{:?}", store.status());
        std::thread::sleep(Duration::from_millis(10));
    }
    assert!(store.flush(PATIENCE));
    append(&store, &mut version);
    assert!(store.flush(PATIENCE));
    drop(store);
    let store = state::open(folder.path(), Arc::default()).unwrap();
    let restored = store.load(&version.origin).unwrap();
    assert_eq!((&restored.zone, restored.history.len()), (&version, 1));
    assert_eq!(store.facts.states.values().next().unwrap().last, Serial(199));
}
