//! Tests of the store: what was confirmed is there after any end, and no disk stops anything.

mod disks;

use super::frame::{Frames, HEADER_BYTES, Kind};
use super::replay::replay;
use super::*;
use crate::zone::tests::{arbitrary_text, load};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::fs;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::UNIX_EPOCH;

/// More than any test needs.
const PATIENCE: Duration = Duration::from_secs(20);

/// A folder in memory where there is one, so that hundreds of runs do not wait for a disk.
fn folder() -> tempfile::TempDir {
    let memory = Path::new("/dev/shm");
    if memory.is_dir() { tempfile::tempdir_in(memory).unwrap() } else { tempfile::tempdir().unwrap() }
}

fn open_in(folder: &Path) -> (Store, Arc<Metrics>) {
    let metrics = Arc::new(Metrics::new());
    (open(folder, metrics.clone()).unwrap(), metrics)
}

fn at(seconds: u64) -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(1_700_000_000 + seconds)
}

fn name(text: &str) -> Name {
    Name::parse(text).unwrap()
}

/// The next version of a zone, and the step to it.
fn step(old: &Zone, text: &str) -> (Arc<Delta>, Arc<Zone>) {
    let loaded = load(&old.origin.to_string(), text, Some(old));
    (Arc::new(Delta::between(old, &loaded.zone, loaded.touched)), Arc::new(loaded.zone))
}

fn first(text: &str) -> Arc<Zone> {
    Arc::new(load("z.", text, None).zone)
}

/// Text of a zone with an address that changes, and as much as is asked for that does not.
fn text(serial: u32, bytes: usize) -> String {
    let lines = (0..bytes / 200).map(|index| format!("t{index} 30 TXT {}\n", "x".repeat(190)));
    format!("@ 30 SOA {serial}\nweb 30 A 192.0.2.{}\n{}", serial % 256, lines.collect::<String>())
}

/// All files below a folder.
fn files(root: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut folders = vec![root.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).into_iter().flatten() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                found.insert(path.strip_prefix(root).unwrap().to_path_buf(), fs::read(&path).unwrap());
            }
        }
    }
    found
}

fn put(root: &Path, files: &BTreeMap<PathBuf, Vec<u8>>) {
    for (path, bytes) in files {
        fs::create_dir_all(root.join(path).parent().unwrap()).unwrap();
        fs::write(root.join(path), bytes).unwrap();
    }
}

/// The journal in use of zone z.
fn journal(root: &Path) -> PathBuf {
    let folder = root.join("zones/z");
    let generation = snapshot::generation(&fs::read(folder.join("snapshot")).unwrap()).unwrap();
    journal_path(&folder, generation)
}

fn errors(metrics: &Metrics, operation: &str) -> u64 {
    metrics.state_errors.with_label_values(&[operation]).get()
}

fn wait(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = std::time::Instant::now() + PATIENCE;
    while !condition() {
        assert!(std::time::Instant::now() < deadline, "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

//--- Coming back ---

#[test]
fn a_zone_comes_back_with_its_history() {
    let folder = folder();
    let (store, metrics) = open_in(folder.path());
    let zone = name("z");
    assert!(store.load(&zone).is_none());
    let mut version = first("@ 30 SOA 1\nWeb 30 A 192.0.2.1");
    store.replace(&zone, version.clone(), at(0));
    for serial in 2..6 {
        let (delta, new) = step(&version, &format!("@ 30 SOA {serial}\nWeb 30 A 192.0.2.{serial}\nb.c 30 TXT t"));
        store.append(&zone, delta, new.clone(), at(serial));
        version = new;
    }
    assert!(store.flush(PATIENCE));
    let status = store.status();
    assert!(status.healthy && status.error.is_none() && status.bytes > 100 && status.last_written.is_some());
    drop(store);

    let (store, _) = open_in(folder.path());
    let restored = store.load(&zone).unwrap();
    assert_eq!((&restored.zone, restored.refreshed), (&version, at(5)));
    let serials: Vec<_> =
        restored.history.iter().map(|step| (step.delta.from_serial().0, step.delta.to_serial().0)).collect();
    assert_eq!(serials, [(1, 2), (2, 3), (3, 4), (4, 5)]);
    // It goes on where it ended, without a new snapshot.
    let before = journal(folder.path());
    let (delta, new) = step(&restored.zone, "@ 30 SOA 6");
    store.append(&zone, delta, new.clone(), at(6));
    assert!(store.flush(PATIENCE));
    drop(store);
    assert_eq!(journal(folder.path()), before);
    let (store, _) = open_in(folder.path());
    let restored = store.load(&zone).unwrap();
    assert_eq!((&restored.zone, restored.history.len()), (&new, 5));
    assert_eq!(metrics.render().matches("state_errors_total{").count(), 0, "{}", metrics.render());
}

#[test]
fn many_zones_load_side_by_side() {
    let folder = folder();
    let (store, _) = open_in(folder.path());
    let zones: Vec<Name> = (0..40).map(|index| name(&format!("z{index}.example"))).collect();
    for zone in &zones {
        let version = Arc::new(load(&zone.to_string(), "@ 30 SOA 1\na 30 A 192.0.2.1", None).zone);
        store.replace(zone, version.clone(), at(0));
        let loaded = load(&zone.to_string(), "@ 30 SOA 2\na 30 A 192.0.2.2", Some(&version));
        let delta = Delta::between(&version, &loaded.zone, loaded.touched);
        store.append(zone, Arc::new(delta), Arc::new(loaded.zone), at(1));
    }
    assert!(store.flush(PATIENCE));
    drop(store);
    let (store, _) = open_in(folder.path());
    std::thread::scope(|scope| {
        for part in zones.chunks(10) {
            let store = &store;
            scope.spawn(move || {
                for zone in part {
                    assert_eq!(store.load(zone).unwrap().zone.soa.serial, Serial(2), "{zone}");
                }
            });
        }
    });
}

#[test]
fn a_version_that_does_not_follow_becomes_a_snapshot() {
    let folder = folder();
    let (store, _) = open_in(folder.path());
    let zone = name("z");
    let (one, three) = (first("@ 30 SOA 1"), first("@ 30 SOA 3\na 30 A 192.0.2.3"));
    store.replace(&zone, one, at(0));
    let (delta, four) = step(&three, "@ 30 SOA 4\na 30 A 192.0.2.4");
    store.append(&zone, delta, four.clone(), at(1));
    assert!(store.flush(PATIENCE));
    drop(store);
    let (store, _) = open_in(folder.path());
    let restored = store.load(&zone).unwrap();
    assert_eq!((&restored.zone, restored.history.len(), restored.refreshed), (&four, 0, at(1)));
}

#[test]
fn a_long_journal_is_compacted_and_keeps_history() {
    let folder = folder();
    let (store, _) = open_in(folder.path());
    let zone = name("z");
    let mut version = first(&text(1, 4000));
    store.replace(&zone, version.clone(), at(0));
    assert!(store.flush(PATIENCE));
    let before = journal(folder.path());
    let mut serial = 1;
    let mut next = || {
        serial += 1;
        let (delta, new) = step(&version, &text(serial, 4000));
        store.append(&zone, delta, new.clone(), at(0));
        assert!(store.flush(PATIENCE));
        version = new;
    };
    wait("no new snapshot", || {
        next();
        fs::read(folder.path().join("zones/z/snapshot")).is_ok() && journal(folder.path()) != before
    });
    wait("the old journal stays", || !before.exists());
    let (last, size) = (version.clone(), fs::metadata(journal(folder.path())).unwrap().len());
    assert!(size < 8000, "{size}");
    drop(store);
    let (store, _) = open_in(folder.path());
    let restored = store.load(&zone).unwrap();
    assert_eq!(restored.zone, last);
    assert!(restored.history.len() >= 3, "{}", restored.history.len());
}

//--- Ends at any moment ---

/// Act of a test on a store.
#[derive(Clone, Debug)]
enum Act {
    Append(String),
    Replace(String),
    Refresh(u64),
    Flush,
}

fn acts() -> impl Strategy<Value = Vec<Act>> {
    let act = prop_oneof![
        8 => arbitrary_text().prop_map(Act::Append),
        1 => arbitrary_text().prop_map(Act::Replace),
        1 => (0u64..10_000).prop_map(Act::Refresh),
        3 => Just(Act::Flush),
    ];
    prop::collection::vec(act, 1..40)
}

/// The folder as a killed process would leave it, with the first and the last version that may be found.
struct Moment {
    files: BTreeMap<PathBuf, Vec<u8>>,
    confirmed: usize,
    handed: usize,
}

/// Replays a folder's files of zone z.
fn found(files: &BTreeMap<PathBuf, Vec<u8>>) -> Option<Replayed> {
    let snapshot = files.get(Path::new("zones/z/snapshot"))?;
    let journal = journal_path(Path::new("zones/z"), snapshot::generation(snapshot).unwrap());
    Some(replay(&name("z"), snapshot, files.get(&journal).map(|bytes| &**bytes)).unwrap())
}

/// Does everything, with a look at the folder after each operation on files. Returns the versions (the first is none).
fn play(root: &Path, acts: &[Act]) -> (Vec<Option<Arc<Zone>>>, Vec<Moment>) {
    let (store, _) = open_in(root);
    let counts = Arc::new((AtomicUsize::new(0), AtomicUsize::new(0)));
    let moments = Arc::new(Mutex::new(Vec::new()));
    let (seen, into) = (counts.clone(), moments.clone());
    *store.shared.disk.probe.lock().unwrap() = Some(Box::new(move |root| {
        // Confirmed before, handed over after the look: what is found lies between.
        let confirmed = seen.0.load(Ordering::SeqCst);
        let files = files(root);
        let handed = seen.1.load(Ordering::SeqCst);
        into.lock().unwrap().push(Moment { files, confirmed, handed });
    }));
    let zone = name("z");
    let mut versions: Vec<Option<Arc<Zone>>> = vec![None];
    for act in acts {
        counts.1.store(versions.len(), Ordering::SeqCst);
        match (act, versions.last().unwrap().clone()) {
            (Act::Append(text), Some(old)) => {
                let (delta, new) = step(&old, text);
                store.append(&zone, delta, new.clone(), at(0));
                versions.push(Some(new));
            }
            (Act::Append(text) | Act::Replace(text), _) => {
                let new = first(text);
                store.replace(&zone, new.clone(), at(0));
                versions.push(Some(new));
            }
            (Act::Refresh(seconds), _) => store.refreshed(&zone, at(*seconds)),
            (Act::Flush, _) => {
                assert!(store.flush(PATIENCE));
                counts.0.store(versions.len() - 1, Ordering::SeqCst);
            }
        }
    }
    drop(store);
    let moments = std::mem::take(&mut *moments.lock().unwrap());
    (versions, moments)
}

proptest! {
    /// Replaying a journal gives the version in memory, whenever the process ends, compactions and all.
    #[test]
    fn whatever_was_confirmed_is_found_after_any_end(acts in acts(), again in any::<prop::sample::Index>()) {
        let folder = folder();
        let (versions, moments) = play(folder.path(), &acts);
        for moment in &moments {
            let found = found(&moment.files);
            if let Some(replayed) = &found {
                prop_assert_eq!(replayed.fault.as_ref(), None);
                // Every step of the past can be taken back.
                let back = |zone: Zone, step: &HistoryStep| step.delta.invert().apply(&zone).unwrap();
                replayed.history.iter().rev().fold(replayed.zone.clone(), back);
            }
            let found = found.map(|replayed| replayed.zone);
            let mut possible = versions[moment.confirmed..=moment.handed.min(versions.len() - 1)].iter();
            let is_found = |version: &Option<Arc<Zone>>| match (version.as_deref(), &found) {
                // With all that is told beside the records, as the live version had it.
                (Some(version), Some(found)) => version == found && version.has_marks_of(found),
                (None, None) => true,
                _ => false,
            };
            prop_assert!(possible.any(is_found), "{:?} of {:?}", found, versions);
        }
        // The store itself takes such a folder, goes on, and ends in order.
        let last = versions.last().unwrap().clone();
        if !moments.is_empty() {
            let moment = again.get(&moments);
            let other = self::folder();
            put(other.path(), &moment.files);
            let (store, metrics) = open_in(other.path());
            let restored = store.load(&name("z")).map(|restored| restored.zone);
            let expected = found(&moment.files).map(|replayed| Arc::new(replayed.zone));
            prop_assert_eq!(&restored, &expected);
            let text = "@ 30 SOA 77\nnew 30 A 192.0.2.77";
            let new = match &restored {
                Some(old) => {
                    let (delta, new) = step(old, text);
                    store.append(&name("z"), delta, new.clone(), at(0));
                    new
                }
                None => {
                    let new = first(text);
                    store.replace(&name("z"), new.clone(), at(0));
                    new
                }
            };
            prop_assert!(store.flush(PATIENCE));
            drop(store);
            let (store, _) = open_in(other.path());
            prop_assert_eq!(store.load(&name("z")).unwrap().zone, new);
            prop_assert_eq!(errors(&metrics, "load") + errors(&metrics, "torn") + errors(&metrics, "apply"), 0);
            let stale: Vec<_> = files(other.path()).into_keys().filter(|path| path.starts_with("zones/z")).collect();
            prop_assert_eq!(stale.len(), 2, "{:?}", stale);
        }
        let (store, _) = open_in(folder.path());
        prop_assert_eq!(store.load(&name("z")).map(|restored| restored.zone), last);
    }
}

#[test]
fn a_journal_cut_anywhere_gives_the_last_version_that_is_whole() {
    let folder = folder();
    let (store, _) = open_in(folder.path());
    let zone = name("z");
    let mut versions = vec![first("@ 30 SOA 1\na 30 A 192.0.2.1")];
    store.replace(&zone, versions[0].clone(), at(0));
    assert!(store.flush(PATIENCE));
    let path = journal(folder.path());
    let mut ends = vec![(HEADER_BYTES as usize, at(0))];
    for serial in 2..6 {
        let (delta, new) =
            step(&versions[serial - 2], &format!("@ 30 SOA {serial}\na 30 A 192.0.2.{serial}\nb 5 TXT t"));
        store.append(&zone, delta, new.clone(), at(serial as u64));
        versions.push(new);
        assert!(store.flush(PATIENCE));
        ends.push((fs::read(&path).unwrap().len(), at(serial as u64)));
    }
    drop(store);
    let whole = files(folder.path());
    let bytes = fs::read(&path).unwrap();
    for cut in 0..=bytes.len() {
        let other = self::folder();
        put(other.path(), &whole);
        fs::write(journal(other.path()), &bytes[..cut]).unwrap();
        let expected = ends.iter().filter(|(end, _)| *end <= cut).count().max(1) - 1;
        let (store, metrics) = open_in(other.path());
        let restored = store.load(&zone).unwrap();
        assert_eq!(restored.zone, versions[expected], "cut at {cut}");
        assert_eq!((restored.refreshed, restored.history.len()), (ends[expected].1, expected));
        let is_whole = ends.iter().any(|(end, _)| *end == cut);
        assert_eq!(errors(&metrics, "torn"), u64::from(!is_whole && cut >= HEADER_BYTES as usize), "cut at {cut}");
        assert_eq!(errors(&metrics, "load"), u64::from(cut < HEADER_BYTES as usize), "cut at {cut}");
        // What follows is found again, and nothing is wrong any more.
        let (delta, new) = step(&restored.zone, "@ 30 SOA 9");
        store.append(&zone, delta, new.clone(), at(9));
        assert!(store.flush(PATIENCE));
        drop(store);
        let (store, metrics) = open_in(other.path());
        assert_eq!(store.load(&zone).unwrap().zone, new, "after a cut at {cut}");
        assert_eq!(errors(&metrics, "torn") + errors(&metrics, "load"), 0, "after a cut at {cut}");
    }
}

//--- Files that are not what they should be ---

/// A store of zone z with two versions, closed; damage is done to its folder, and it is opened again.
fn damaged(damage: impl FnOnce(&Path)) -> (tempfile::TempDir, Store, Arc<Metrics>, Option<Restored>) {
    let folder = folder();
    let (store, _) = open_in(folder.path());
    let one = first("@ 30 SOA 1\na 30 A 192.0.2.1");
    let (delta, two) = step(&one, "@ 30 SOA 2\na 30 A 192.0.2.2");
    store.replace(&name("z"), one, at(0));
    store.append(&name("z"), delta, two, at(1));
    assert!(store.flush(PATIENCE));
    drop(store);
    damage(folder.path());
    let (store, metrics) = open_in(folder.path());
    let restored = store.load(&name("z"));
    (folder, store, metrics, restored)
}

#[test]
fn a_damaged_snapshot_is_kept_aside() {
    let (folder, store, metrics, restored) = damaged(|root| {
        let path = root.join("zones/z/snapshot");
        let mut bytes = fs::read(&path).unwrap();
        bytes[60] ^= 1;
        fs::write(path, bytes).unwrap();
    });
    assert!(restored.is_none());
    assert_eq!(errors(&metrics, "load"), 1);
    let kept: Vec<_> = files(folder.path()).into_keys().filter(|path| path.starts_with("zones")).collect();
    assert_eq!(kept, ["zones/z/journal.broken", "zones/z/snapshot.broken"].map(PathBuf::from));
    // The zone is kept again as soon as it has been transferred.
    store.replace(&name("z"), first("@ 30 SOA 3"), at(2));
    assert!(store.flush(PATIENCE) && store.status().healthy);
    assert_eq!(store.load(&name("z")).unwrap().zone.soa.serial, Serial(3), "read again while it is in use");
}

#[test]
fn a_journal_that_does_not_belong_is_kept_aside_and_a_snapshot_written() {
    let mut header = Vec::new();
    let (folder, store, metrics, restored) = damaged(|root| {
        let path = journal(root);
        let bytes = fs::read(&path).unwrap();
        header = [&frame::Header { generation: 1, base: HEADER_BYTES }.to_bytes()[..], &bytes[32..]].concat();
        fs::write(path, &header).unwrap();
    });
    assert_eq!(restored.unwrap().zone.soa.serial, Serial(1));
    assert_eq!(errors(&metrics, "load"), 1);
    assert_eq!(fs::read(folder.path().join("zones/z/journal.broken")).unwrap(), header);
    drop(store);
    let (store, metrics) = open_in(folder.path());
    assert_eq!(store.load(&name("z")).unwrap().zone.soa.serial, Serial(1));
    assert_eq!(errors(&metrics, "load"), 0);
}

#[test]
fn a_step_that_does_not_fit_ends_the_journal() {
    let other = first("@ 30 SOA 2\nb 30 A 192.0.2.9");
    let (delta, _) = step(&other, "@ 30 SOA 3");
    let (folder, store, metrics, restored) = damaged(|root| {
        let mut bytes = fs::read(journal(root)).unwrap();
        frame::push(&mut bytes, Kind::Delta, at(3), |out| delta.write(out));
        frame::push(&mut bytes, Kind::Refreshed, at(4), |_| ());
        fs::write(journal(root), bytes).unwrap();
    });
    let restored = restored.unwrap();
    assert_eq!((restored.zone.soa.serial, restored.refreshed, restored.history.len()), (Serial(2), at(1), 1));
    assert_eq!(errors(&metrics, "apply"), 1);
    assert!(folder.path().join("zones/z/journal.broken").exists());
    assert!(store.flush(PATIENCE));
    drop(store);
    let (store, metrics) = open_in(folder.path());
    assert_eq!(store.load(&name("z")).unwrap().zone, restored.zone);
    assert_eq!(errors(&metrics, "apply"), 0);
}

#[test]
fn a_missing_journal_costs_what_was_in_it() {
    let (_folder, _store, metrics, restored) = damaged(|root| fs::remove_file(journal(root)).unwrap());
    assert_eq!(restored.unwrap().zone.soa.serial, Serial(1));
    assert_eq!(errors(&metrics, "load"), 1);
}

/// Files that a later start can read although this one could not: nothing is lost while no newer version has come.
#[test]
fn what_may_be_read_later_stays_where_it_is() {
    let newer = |path: &Path, crc_at: Option<usize>| {
        let mut bytes = fs::read(path).unwrap();
        bytes[11] = 9;
        let crc_at = crc_at.unwrap_or(bytes.len() - 4);
        let crc = crc32fast::hash(&bytes[..crc_at]);
        bytes[crc_at..crc_at + 4].copy_from_slice(&crc.to_be_bytes());
        fs::write(path, bytes).unwrap();
    };
    let unreadable = |root: &Path| {
        let path = journal(root);
        fs::rename(&path, root.join("kept")).unwrap();
        fs::create_dir(path).unwrap();
    };
    for (index, expected) in [Some(1), Some(1), None].into_iter().enumerate() {
        let damage = |root: &Path| match index {
            0 => unreadable(root),
            1 => newer(&journal(root), Some(28)),
            _ => newer(&root.join("zones/z/snapshot"), None),
        };
        let mut before = BTreeMap::new();
        let (folder, store, metrics, restored) = damaged(|root| {
            before = files(root);
            damage(root);
        });
        assert_eq!(restored.map(|restored| restored.zone.soa.serial.0), expected, "{index}");
        assert_eq!(errors(&metrics, "load"), 1);
        assert!(store.flush(PATIENCE) && store.status().healthy);
        drop(store);
        let kept = files(folder.path());
        assert!(!kept.keys().any(|path| path.ends_with("broken")) && kept.len() == before.len(), "{:?}", kept.keys());
        if index == 0 {
            fs::remove_dir(journal(folder.path())).unwrap();
        }
        put(folder.path(), &before);
        let (store, _) = open_in(folder.path());
        let version = store.load(&name("z")).unwrap().zone;
        assert_eq!(version.soa.serial, Serial(2), "{index}");
        drop(store);

        // A newer version takes the place of everything.
        damage(folder.path());
        let (store, _) = open_in(folder.path());
        store.load(&name("z"));
        let (delta, new) = step(&version, "@ 30 SOA 3");
        store.append(&name("z"), delta, new.clone(), at(2));
        assert!(store.flush(PATIENCE));
        drop(store);
        let (store, metrics) = open_in(folder.path());
        assert_eq!(store.load(&name("z")).unwrap().zone, new, "{index}");
        assert_eq!(errors(&metrics, "load"), 0, "{index}");
    }
}

//--- Times ---

#[test]
fn confirmations_are_written_once_a_minute_and_take_no_room() {
    let folder = folder();
    let (store, _) = open_in(folder.path());
    let zone = name("z");
    store.replace(&zone, first("@ 30 SOA 1"), at(0));
    assert!(store.flush(PATIENCE));
    let times = || {
        let bytes = fs::read(journal(folder.path())).unwrap();
        Frames::new(&bytes, HEADER_BYTES as usize).map(|frame| frame.time).collect::<Vec<_>>()
    };
    store.refreshed(&zone, at(59));
    store.refreshed(&zone, at(60));
    wait("not written", || times() == [at(60)]);
    store.refreshed(&zone, at(119));
    store.refreshed(&zone, at(500));
    wait("not written in the place of the one before", || times() == [at(500)]);
    // The clock was wrong.
    store.refreshed(&zone, at(100));
    wait("not written after a step back", || times() == [at(100)]);
    let (delta, two) = step(&first("@ 30 SOA 1"), "@ 30 SOA 2");
    store.append(&zone, delta, two, at(101));
    store.refreshed(&zone, at(161));
    wait("not written after a change", || times() == [at(100), at(101), at(161)]);
    store.refreshed(&name("other"), at(0));
    drop(store);
    let (store, _) = open_in(folder.path());
    assert_eq!(store.load(&zone).unwrap().refreshed, at(161));
}

#[test]
fn times_to_come_count_as_now() {
    let folder = folder();
    let (store, _) = open_in(folder.path());
    let far = SystemTime::now() + Duration::from_secs(1_000_000);
    store.replace(&name("z"), first("@ 30 SOA 1"), far);
    drop(store);
    let (store, _) = open_in(folder.path());
    let before = SystemTime::now();
    let restored = store.load(&name("z")).unwrap();
    assert!(restored.refreshed >= before && restored.refreshed <= SystemTime::now());
}

//--- Regions ---

#[test]
fn regions_come_back() {
    let folder = folder();
    let (store, _) = open_in(folder.path());
    assert!(store.facts.states.is_empty());
    let regions = |last| HashMap::from([(name("w.x"), RegionState { drift: 3, last: Serial(last), fingerprint: 7 })]);
    (1..5).for_each(|last| store.save(NewFacts { states: Some(regions(last)), ..NewFacts::default() }));
    assert!(store.flush(PATIENCE));
    drop(store);
    let (store, _) = open_in(folder.path());
    assert_eq!(store.facts.states, regions(4));
    drop(store);
    fs::write(folder.path().join("regions"), "damaged").unwrap();
    let (store, metrics) = open_in(folder.path());
    assert!(store.facts.states.is_empty() && folder.path().join("regions.broken").exists());
    assert_eq!(errors(&metrics, "load"), 1);
}

//--- Waiting ---

#[test]
fn steps_that_pile_up_become_one_version() {
    let inbox = Inbox::default();
    let mut version = first("@ 30 SOA 0");
    for serial in 1..5000 {
        let (delta, new) = step(&version, &format!("@ 30 SOA {serial}"));
        inbox.append(&name("z"), delta, new.clone(), at(0));
        version = new;
    }
    assert!(!inbox.flush(Duration::ZERO));
    let work = inbox.take(None, false);
    let [(_, backlog)] = &work.backlogs[..] else { panic!("one zone") };
    let base = backlog.base.as_ref().unwrap().0.soa.serial.0;
    assert_eq!(base as usize + backlog.deltas.len(), 4999);
    assert_eq!(backlog.newest.as_ref().unwrap().0, version);
    inbox.confirm(backlog.number.unwrap());
    assert!(inbox.flush(Duration::ZERO));
    inbox.end();
    inbox.replace(&name("z"), version, at(0));
    assert!(inbox.take(None, true).backlogs.is_empty(), "nobody would write it");
    assert!(!inbox.flush(PATIENCE));
}

#[test]
fn a_refusal_does_not_end_the_waiting_for_others() {
    let inbox = Inbox::default();
    let number_of = |zone: &str| {
        inbox.replace(&name(zone), first("@ 30 SOA 0"), at(0));
        inbox.take(None, false).backlogs[0].1.number.unwrap()
    };
    let refused = number_of("z");
    inbox.refuse(refused);
    assert!(!inbox.flush(PATIENCE));
    let other = number_of("y");
    let begun = std::time::Instant::now();
    assert!(!inbox.flush(Duration::from_millis(50)) && begun.elapsed() >= Duration::from_millis(50));
    inbox.confirm(other);
    assert!(!inbox.flush(PATIENCE));
    inbox.confirm(refused);
    assert!(inbox.flush(Duration::ZERO));
}

#[test]
fn what_waits_for_the_disk_is_counted_until_it_is_written() {
    let inbox = Inbox::default();
    let old = first(&text(1, 4000));
    let (delta, new) = step(&old, &text(2, 8000));
    inbox.append(&name("z"), delta.clone(), new.clone(), at(2));
    assert_eq!(inbox.buffers().octets(), delta.len_bytes() as u64);
    let work = inbox.take(None, false);
    assert_eq!(inbox.buffers().octets(), delta.len_bytes() as u64, "the writer has it");
    drop(work);
    assert_eq!(inbox.buffers().octets(), 0);
    // A version does for steps.
    inbox.append(&name("z"), delta.clone(), new.clone(), at(2));
    inbox.replace(&name("z"), new, at(2));
    assert_eq!(inbox.buffers().octets(), 0);
    // And nothing stays with the writer or the builder.
    let folder = folder();
    let (store, _) = open_in(folder.path());
    let mut version = old;
    store.replace(&version.origin, version.clone(), at(1));
    for serial in 2..40 {
        let (delta, new) = step(&version, &text(serial, 4000 * (1 + serial as usize % 2)));
        store.append(&new.origin, delta, new.clone(), at(u64::from(serial)));
        version = new;
    }
    assert!(store.flush(PATIENCE));
    wait("all is written", || store.buffers().octets() == 0);
}
