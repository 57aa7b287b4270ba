//! Real secondaries, whose primary is a real one, too: NOTIFY sends them there, and the catalog tells them what to transfer.

mod harness;

use aggregator::catalog::{self, CatalogPlan};
use aggregator::client::Server;
use aggregator::metrics::Metrics;
use aggregator::notify::{self, Notifier, Targets, Timers};
use aggregator::publish::{Identity, Published, Publisher, Served, State};
use aggregator::zone::{Loader, Soa};
use harness::*;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;
use wire::name::{Name, NameBuf};
use wire::serial::Serial;
use wire::tsig::{Algorithm, Key};

const CATALOG: &str = "catalog.example.com.";
const WEST: &str = "us-west-1.cns.example.com.";
const EAST: &str = "us-east-1.cns.example.com.";
/// The octets 0 to 31.
const SECRET: &str = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";

/// A zone that nobody polls while a test runs: what happens happens by NOTIFY.
fn zone_text(zone: &str, serial: u32) -> String {
    format!(
        "$ORIGIN {zone}\n@ 30 IN SOA ns. h. {serial} 86400 86400 2592000 30\n@ 30 IN NS ns.\nWeb 30 IN A 192.0.2.{serial}\n"
    )
}

/// The catalog of these zones.
fn catalog_text(members: &[&str], serial: u32) -> String {
    let plan = CatalogPlan { origin: name(CATALOG), server_name: name("ns1.example.com") };
    let members: Vec<Name> = members.iter().map(|member| name(member)).collect();
    format!("{:?}", catalog::build(&plan, &members, Serial(serial), None).zone)
}

fn name(text: &str) -> Name {
    Name::parse(text).unwrap()
}

/// Announces what it is told to, as if it were published.
struct Announcer {
    publisher: Arc<Publisher>,
    notifier: Notifier,
    generation: u64,
}

impl Announcer {
    /// Tells the secondaries of the zones, signed with a key or not. Must be called within a runtime.
    fn new(zones: &[&str], secondaries: &[Secondary], key: Option<Arc<Key>>) -> Announcer {
        let publisher = Arc::new(Publisher::default());
        let timers = Timers { first: Duration::from_millis(500), ..Timers::default() };
        let notifier = notify::start(publisher.clone(), Arc::new(Metrics::new()), timers);
        let target =
            |secondary: &Secondary| Server { address: secondary.address(), key: key.clone(), source: None, tls: None };
        let targets: Targets =
            zones.iter().map(|zone| (name(zone), secondaries.iter().map(target).collect())).collect();
        notifier.set_targets(targets);
        Announcer { publisher, notifier, generation: 0 }
    }

    /// Publishes a zone with a serial in place of everything before.
    fn announce(&mut self, zone: &str, serial: u32) {
        let soa = Soa { serial: Serial(serial), refresh: 1, retry: 1, expire: 1, minimum: 1 };
        let mut loader = Loader::new(name(zone));
        loader.push(&NameBuf::parse(zone).unwrap(), rtype::SOA, 30, &soa.to_rdata(&[0], &[0]));
        let data = loader.finish(None).unwrap().zone;
        self.generation += 1;
        let served = Arc::new(Served::new(name(zone), State::Ok, Some(Arc::new(data))));
        self.publisher.publish(Published::new(Identity::default(), [served], self.generation));
    }

    /// Waits until the secondaries have shown these results for a serial.
    fn wait_for(&self, zone: &str, serial: u32, expected: &[&str]) {
        let mut last = Vec::new();
        let settled = || {
            last = self.notifier.status(&name(zone));
            let shows = last
                .iter()
                .zip(expected)
                .all(|(target, expected)| target.notified == Some(Serial(serial)) && target.result.contains(expected));
            (shows && last.len() == expected.len()).then_some(())
        };
        wait_until(&format!("{zone} {serial} is {expected:?}"), Duration::from_secs(40), settled);
    }
}

/// Starts all three as secondaries.
fn start_all(folder: &Folder, plan: &SecondaryPlan) -> Vec<Secondary> {
    let starts = [Named::start_secondary, Nsd::start_secondary, Knotd::start_secondary];
    starts.iter().map(|start| start(folder, plan)).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn announcements_bring_secondaries_to_their_primary() {
    let folder = Folder::new();
    let zone = Dname::parse(WEST);
    let primary = Named::start(&folder, &[(zone.clone(), zone_text(WEST, 1))]);
    let mut secondaries = start_all(&folder, &SecondaryPlan::new(primary.address(), &[&zone]));
    secondaries.iter_mut().for_each(|secondary| secondary.wait_for_serial(&zone, 1));
    let mut announcer = Announcer::new(&[WEST], &secondaries, None);
    for serial in [2, 3] {
        let records = read_zone(&zone_text(WEST, serial));
        primary.replace_zone(&zone, &records);
        announcer.announce(WEST, serial);
        for secondary in &mut secondaries {
            secondary.wait_for_serial(&zone, serial);
            assert_eq!(difference(&records, &secondary.fetch(&zone)), None, "{}", secondary.name());
        }
        announcer.wait_for(WEST, serial, &["acknowledged"; 3]);
    }
    let texts: Vec<String> = secondaries.iter().map(|secondary| secondary.fetch_text(&zone)).collect();
    assert!(texts[0].contains("web.us-west-1") && texts[0] == texts[1] && texts[1] == texts[2], "{texts:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn signed_announcements_are_for_those_who_have_the_key() {
    let folder = Folder::new();
    let zone = Dname::parse(WEST);
    let primary = Named::start(&folder, &[(zone.clone(), zone_text(WEST, 1))]);
    let mut plan = SecondaryPlan::new(primary.address(), &[&zone]);
    plan.notify_key = Some(TsigKey::new("notify.example.com", SECRET));
    let mut secondaries = start_all(&folder, &plan);
    secondaries.iter_mut().for_each(|secondary| secondary.wait_for_serial(&zone, 1));
    let key = |first: u8| {
        let secret = std::iter::once(first).chain(1..32).collect();
        Some(Arc::new(Key::new(name("notify.example.com"), Algorithm::Sha256, secret)))
    };
    primary.replace_zone(&zone, &read_zone(&zone_text(WEST, 2)));
    // Another secret: none of them can have signed its reply with it.
    let mut wrong = Announcer::new(&[WEST], &secondaries, key(1));
    wrong.announce(WEST, 2);
    wrong.wait_for(WEST, 2, &["no reply with a valid signature: the peer found the MAC wrong"; 3]);
    for secondary in &secondaries {
        assert_eq!(secondary.serial(&zone), Some(1), "{}", secondary.name());
    }
    drop(wrong);
    let mut right = Announcer::new(&[WEST], &secondaries, key(0));
    right.announce(WEST, 2);
    right.wait_for(WEST, 2, &["acknowledged"; 3]);
    secondaries.iter_mut().for_each(|secondary| secondary.wait_for_serial(&zone, 2));
    // Without a key: those that demand it refuse, BIND takes the word of an address of its primary.
    let mut bare = Announcer::new(&[WEST], &secondaries[1..], None);
    bare.announce(WEST, 3);
    bare.wait_for(WEST, 3, &["REFUSED", "NOTAUTH"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn consumers_follow_the_catalog() {
    let folder = Folder::new();
    let [catalog, west, east] = [CATALOG, WEST, EAST].map(Dname::parse);
    let primary = Knotd::start(
        &folder,
        &[
            (catalog.clone(), catalog_text(&[WEST, CATALOG], 1)),
            (west.clone(), zone_text(WEST, 1)),
            (east.clone(), zone_text(EAST, 7)),
        ],
    );
    let plan = SecondaryPlan::new(primary.address(), &[]).with_catalog(&catalog);
    let mut consumers = [Named::start_secondary, Knotd::start_secondary].map(|start| start(&folder, &plan));
    for consumer in &mut consumers {
        consumer.wait_for_serial(&west, 1);
        assert_eq!(consumer.serial(&east), None, "{}", consumer.name());
    }
    let mut announcer = Announcer::new(&[CATALOG], &consumers, None);
    // A member comes, in another order of the same ones; then the first goes.
    for (serial, members) in [(2, vec![EAST, WEST]), (3, vec![EAST])] {
        primary.replace_zone(&catalog, &read_zone(&catalog_text(&members, serial)));
        announcer.announce(CATALOG, serial);
        for consumer in &mut consumers {
            consumer.wait_for_serial(&east, 7);
            match serial {
                2 => consumer.wait_for_serial(&west, 1),
                _ => consumer.wait_gone(&west),
            }
        }
    }
    for consumer in &consumers {
        let expected = read_zone(&zone_text(EAST, 7));
        assert_eq!(difference(&expected, &consumer.fetch(&east)), None, "{}", consumer.name());
    }
}

#[test]
fn zone_checkers_accept_the_catalog() {
    let folder = Folder::new();
    let file = folder.subfolder("catalog").join("zone");
    write_file(&file, &catalog_text(&[WEST, EAST, "51.198.in-addr.arpa."], 1));
    for (program, arguments) in
        [("named-checkzone", &["-k", "fail", "-n", "ignore", CATALOG][..]), ("nsd-checkzone", &[CATALOG])]
    {
        let output = Command::new(program_path(program)).args(arguments).arg(&file).output().unwrap();
        let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
        assert!(output.status.success(), "{program}: {said}");
    }
}
