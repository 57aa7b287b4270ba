//! The end of the process at any moment, and what is served when it is back.
//!
//! Three datacenters change all the time. What each of their versions holds follows from its serial, so whatever is
//! served can be checked without knowing when it was taken. A watcher asks all the time and remembers the newest serials
//! that any client has seen: none of them may ever fall.

mod harness;

use harness::{Aggregator, Client, Dname, Folder, Record, Settings, rtype, wait_until};
use sim::primary::Primary;
use sim::zone::{Apex, Data, Zone};
use std::collections::{BTreeSet, HashMap};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use wire::name::Name;
use wire::serial::Serial;

const REGION: &str = "r.test.";
/// Names of a zone that come, go and change.
const NAMES: u32 = 40;

fn zone_name(index: usize) -> String {
    format!("dc{index}.test.")
}

/// Owner and address of everything that a version of a zone holds beside its apex.
fn contents(index: usize, serial: u32) -> Vec<(String, Ipv4Addr)> {
    let present = |number: &u32| !(serial + number).is_multiple_of(7);
    let address = |number: u32| Ipv4Addr::new(10, index as u8, number as u8, (serial / (number + 1)) as u8);
    (0..NAMES).filter(present).map(|number| (format!("n{number}.svc"), address(number))).collect()
}

/// A version as its primary holds it.
fn version(index: usize, serial: u32) -> Zone {
    let origin = Name::parse(&zone_name(index)).unwrap();
    let name = |text: &str| Name::parse(text).unwrap();
    let apex = Apex { mname: name("ns.test"), rname: name("h.test"), name_servers: vec![name("ns.test")] };
    let records = contents(index, serial)
        .into_iter()
        .map(|(owner, address)| (Name::parse(&format!("{owner}.{}", zone_name(index))).unwrap(), Data::A(address)));
    Zone::new(origin, apex, Serial(serial), records.collect::<Vec<_>>())
}

/// The addresses in a dump, with owners relative to the zone.
fn addresses(records: &[Record], zone: &str) -> BTreeSet<(String, Ipv4Addr)> {
    let wanted = records.iter().filter(|record| record.rtype == rtype::A);
    let octets = |record: &Record| <[u8; 4]>::try_from(&record.rdata[..]).unwrap();
    let owner = |record: &Record| record.owner.to_string().strip_suffix(&format!(".{zone}")).unwrap().to_owned();
    wanted.map(|record| (owner(record), Ipv4Addr::from(octets(record)))).collect()
}

fn serial_of(records: &[Record]) -> u32 {
    records.iter().find(|record| record.rtype == rtype::SOA).expect("an SOA").serial()
}

/// Checks that what is served is one version of each zone and their region; returns the serials.
fn check_everything(daemon: &Aggregator) -> HashMap<String, u32> {
    // The region may move between two dumps; a moment in which it does not is waited for.
    wait_until("zones and region of one moment", Duration::from_secs(30), || {
        let dump = |zone: &str| daemon.dump(&Dname::parse(zone)).unwrap_or_else(|| panic!("{zone} is not served"));
        let region = dump(REGION);
        let zones: Vec<_> = (0..3).map(|index| dump(&zone_name(index))).collect();
        if serial_of(&dump(REGION)) != serial_of(&region) {
            return None;
        }
        let mut expected = BTreeSet::new();
        for (index, records) in zones.iter().enumerate() {
            let right: BTreeSet<_> = contents(index, serial_of(records)).into_iter().collect();
            assert_eq!(addresses(records, &zone_name(index)), right, "dc{index} at {}", serial_of(records));
            expected.extend(right);
        }
        let sum = zones.iter().fold(0u32, |sum, records| sum.wrapping_add(serial_of(records)));
        if serial_of(&region) != sum {
            return None;
        }
        assert_eq!(addresses(&region, REGION), expected, "the region at {sum}");
        let serials = zones.iter().enumerate().map(|(index, records)| (zone_name(index), serial_of(records)));
        Some(serials.chain([(REGION.to_owned(), sum)]).collect())
    })
}

/// The datacenters and whoever changes them.
struct Site {
    primaries: Vec<Primary>,
    serials: Vec<AtomicU32>,
}

impl Site {
    async fn start() -> Site {
        let mut primaries = Vec::new();
        for index in 0..3 {
            let primary = Primary::start("127.0.0.1:0".parse().unwrap()).await.unwrap();
            primary.publish(version(index, 1000));
            primaries.push(primary);
        }
        Site { primaries, serials: (0..3).map(|_| AtomicU32::new(1000)).collect() }
    }

    /// Publishes the next version of a zone and announces it.
    async fn change(&self, index: usize, daemon: SocketAddr) {
        let serial = self.serials[index].fetch_add(1, Ordering::Relaxed) + 1;
        self.primaries[index].publish(version(index, serial));
        // Nobody is there to listen while the daemon is away.
        let _ = self.primaries[index].notify(&Name::parse(&zone_name(index)).unwrap(), daemon).await;
    }

    fn plan(&self) -> String {
        let zones = self.primaries.iter().enumerate();
        let zones: String =
            zones.map(|(index, primary)| format!("\"{}\" = \"{}\"\n", zone_name(index), primary.address())).collect();
        let members: Vec<_> = (0..3).map(|index| format!("\"{}\"", zone_name(index))).collect();
        format!(
            "[zones]\n{zones}[aggregations]\n\"{REGION}\" = [{}]\n[transfer]\nrefresh_min = \"1s\"\nretry_min = \"500ms\"\n",
            members.join(", ")
        )
    }
}

/// Asks for serials until told to stop; keeps the newest that came.
fn watch(server: SocketAddr, seen: &Mutex<HashMap<String, u32>>, stop: &AtomicBool) {
    let zones: Vec<String> = (0..3).map(zone_name).chain([REGION.to_owned()]).collect();
    let mut client = Client::new(server).with_deadline(Duration::from_millis(50));
    while !stop.load(Ordering::Relaxed) {
        for zone in &zones {
            let Some(serial) = client.serial(&Dname::parse(zone)) else { continue };
            let before = seen.lock().unwrap().insert(zone.clone(), serial);
            if let Some(before) = before {
                assert!(serial.wrapping_sub(before) < 1 << 31, "{zone} fell from {before} to {serial}");
            }
        }
    }
}

/// Number of kills: more of them by request.
fn kills() -> usize {
    std::env::var("AGGREGATOR_KILLS").ok().and_then(|text| text.parse().ok()).unwrap_or(100)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn killed_at_any_moment_it_comes_back_with_what_it_served() {
    let folder = Folder::new();
    let site = Arc::new(Site::start().await);
    let mut settings = Settings::new(&site.plan());
    settings.state = Some("state".to_owned());
    settings.server = "hold_down = \"5ms\"\n".to_owned();
    let mut daemon = Aggregator::start_with(&folder.subfolder("aggregator"), &settings);
    let address = daemon.address();
    wait_until("the region is served", Duration::from_secs(20), || daemon.dump(&Dname::parse(REGION)).map(drop));

    let stop = Arc::new(AtomicBool::new(false));
    let seen = Arc::new(Mutex::new(HashMap::new()));
    let watcher = {
        let (seen, stop) = (seen.clone(), stop.clone());
        std::thread::spawn(move || watch(address, &seen, &stop))
    };
    let churn = {
        let (site, stop) = (site.clone(), stop.clone());
        tokio::spawn(async move {
            let mut step = 0usize;
            while !stop.load(Ordering::Relaxed) {
                step += 1;
                site.change(step % 3, address).await;
                // Now and then a rest, in which a slow machine sees zones and region of one moment, too.
                let pause = if step.is_multiple_of(30) { 300 } else { 7 };
                tokio::time::sleep(Duration::from_millis(pause)).await;
            }
        })
    };
    // A moment that differs from round to round, without chance in it.
    let mut mixed = 0x9e37_79b9u32;
    for round in 0..kills() {
        mixed ^= mixed << 13;
        mixed ^= mixed >> 17;
        mixed ^= mixed << 5;
        let alone = round % 2 == 1;
        tokio::time::sleep(Duration::from_millis(u64::from(mixed % 150))).await;
        tokio::task::block_in_place(|| {
            daemon.kill_and_restart(|| site.primaries.iter().for_each(|primary| primary.set_away(alone)));
        });
        let before = seen.lock().unwrap().clone();
        let serials = tokio::task::block_in_place(|| check_everything(&daemon));
        for (zone, serial) in before {
            assert!(
                serials[&zone].wrapping_sub(serial) < 1 << 31,
                "{zone}: {serial} was seen, {} is served",
                serials[&zone]
            );
        }
        site.primaries.iter().for_each(|primary| primary.set_away(false));
    }
    stop.store(true, Ordering::Relaxed);
    churn.await.unwrap();
    watcher.join().expect("no serial fell");
    // Everything is followed again, and nothing was found broken.
    wait_until("the last versions are served", Duration::from_secs(20), || {
        let serials = check_everything(&daemon);
        let followed = |index: usize| serials[&zone_name(index)] == site.serials[index].load(Ordering::Relaxed);
        (0..3).all(followed).then_some(())
    });
    let broken = walk(&folder.path().join("aggregator/state")).into_iter().find(|file| file.ends_with(".broken"));
    assert_eq!(broken, None);
    assert!(site.serials.iter().all(|serial| serial.load(Ordering::Relaxed) > 1100), "there was churn");
}

/// The files below a folder.
fn walk(folder: &std::path::Path) -> Vec<String> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap().flatten() {
        if entry.path().is_dir() {
            files.extend(walk(&entry.path()));
        } else {
            files.push(entry.path().display().to_string());
        }
    }
    files
}
