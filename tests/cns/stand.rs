//! The daemon in front of scripted datacenters, watched all the time.

use crate::harness::{
    Aggregator, Client, Dname, Folder, Query, Record, Region, Settings, difference, rtype, wait_until,
};
use crate::records::dname;
use crate::site::Site;
use crate::watch::Watch;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::task::JoinHandle;
use wire::name::Name;

const REGION: &str = "us-west.cns.example.com.";
const SERVER: &str = "ns1.test.";
/// Longest wait for all that must happen at some time on a busy machine.
pub const PATIENCE: Duration = Duration::from_secs(20);
/// Time between two announcements of CNS, which is five seconds in life.
const NOTIFY_INTERVAL: Duration = Duration::from_millis(100);
/// Types of which CNS can read records; it stops at others in an answer to its SOA query.
const READABLE: [u16; 11] = [1, 2, 5, 6, 12, 15, 16, 28, 33, 41, 250];

/// A daemon, its datacenters, and the watch.
pub struct Stand {
    pub daemon: Aggregator,
    pub sites: Vec<Site>,
    /// The plan in the daemon's configuration.
    pub plan: String,
    watch: Watch,
    tracker: Option<JoinHandle<()>>,
    client: Client,
    _folder: Folder,
}

impl Stand {
    /// Starts so many datacenters and waits until all are loaded. `transfer` is the rest of the section `[transfer]`.
    pub async fn start(count: u8, seed: u64, transfer: &str) -> Stand {
        Stand::start_with(count, seed, transfer, None).await
    }

    /// Starts a stand with state on disk.
    pub async fn start_kept(count: u8, seed: u64, transfer: &str) -> Stand {
        Stand::start_with(count, seed, transfer, Some("state".to_owned())).await
    }

    /// Starts datacenters and a daemon, with a folder for its state or without.
    async fn start_with(count: u8, seed: u64, transfer: &str, state: Option<String>) -> Stand {
        let mut sites = Vec::new();
        for number in 0..count {
            sites.push(Site::start(number, seed).await);
        }
        let names: Vec<String> = sites.iter().map(|site| format!("\"{}\"", site.origin())).collect();
        let zones = sites.iter().zip(&names).map(|(site, name)| format!("{name} = \"{}\"\n", site.primary.address()));
        let plan = format!(
            "[secondaries]\nallow_transfer = [\"127.0.0.1\"]\n[zones]\n{}[aggregations.\"{REGION}\"]\nmembers = [{}]\n\
             ns = [\"{SERVER}\"]\n[transfer]\nrefresh_min = \"200ms\"\nrefresh_max = \"200ms\"\nretry_min = \"100ms\"\n\
             retry_max = \"200ms\"\nconnect_timeout = \"1s\"\n\
             confirm_after = \"500ms\"\nregress_after = \"1s\"\n{transfer}",
            zones.collect::<String>(),
            names.join(", ")
        );
        let folder = Folder::new();
        let settings = Settings { state, ..Settings::new(&plan) };
        let daemon = Aggregator::start_with(&folder.subfolder("aggregator"), &settings);
        let mut client = Client::new(daemon.address());
        for zone in sites.iter().map(|site| site.truth().0).chain([Dname::parse(REGION)]) {
            wait_until(&format!("{zone} is loaded"), PATIENCE, || client.serial(&zone));
        }
        let truths = sites.iter().map(Site::truth).collect();
        let watch = Watch::start(daemon.address(), Dname::parse(REGION), truths);
        Stand { daemon, sites, plan, watch, tracker: None, client, _folder: folder }
    }

    /// Ends the watch, for tests in which datacenters truly are empty or become others.
    pub fn unwatched(mut self) -> Stand {
        self.watch.finish();
        self
    }

    /// Begins to announce as CNS does: whoever shows a lower serial is told again and again.
    pub fn announce(&mut self) {
        let server = self.daemon.address();
        let zones: Vec<_> = self.sites.iter().map(|site| (site.primary.clone(), site.truth())).collect();
        self.tracker = Some(tokio::spawn(async move {
            loop {
                for (primary, (zone, versions)) in &zones {
                    let shown = tokio::task::block_in_place(|| ask_as_cns(server, zone));
                    let latest = versions.lock().unwrap().latest();
                    // Numbers are compared as such.
                    if shown.is_some_and(|shown| shown < latest) {
                        let origin = Name::parse(&zone.to_string()).expect("a name");
                        primary.notify(&origin, server).await.expect("sending works");
                    }
                }
                tokio::time::sleep(NOTIFY_INTERVAL).await;
            }
        }));
    }

    /// Prints the last log lines of the daemon about transfers.
    fn tell_log(&self) {
        let text = self.daemon.log_text();
        let lines: Vec<&str> = text.lines().filter(|line| !line.contains("transfer out")).collect();
        eprintln!("{}", lines[lines.len().saturating_sub(60)..].join("\n"));
    }

    /// Panics if something wrong has been seen.
    pub fn check(&mut self) {
        self.watch.check();
        assert!(!self.tracker.as_ref().is_some_and(JoinHandle::is_finished), "the answers stop CNS");
    }

    /// Waits until every zone is what its datacenter is, and the region what they are together; and until the watch has
    /// seen that.
    pub fn settle(&mut self) {
        let mut members = Vec::new();
        for site in &self.sites {
            let (zone, expected) = (dname(&site.origin()), site.records());
            let differ = |records: &[Record]| difference(&expected, records);
            if let Err(text) = follow(&mut self.client, &zone, differ) {
                self.tell_log();
                panic!("{text}");
            }
            members.push((zone, expected));
        }
        let server = Dname::parse(SERVER);
        let origin = Dname::parse(REGION);
        let region =
            Region { origin: origin.clone(), rewrite: false, servers: Some(vec![server.clone()]), mname: server };
        // Its serial may be ahead of the sum of the members'.
        let without_soa = |records: Vec<Record>| -> Vec<Record> {
            records.into_iter().filter(|record| record.rtype != rtype::SOA).collect()
        };
        let expected = without_soa(region.merge(&members));
        wait_for_records(&mut self.client, &origin, |records| difference(&expected, &without_soa(records.to_vec())));
        self.look_twice();
        self.sites.iter().for_each(|site| site.versions.lock().unwrap().settle());
    }

    /// Waits until the watch has seen all that is now.
    pub fn look_twice(&mut self) {
        let looks = self.watch.looks();
        wait_until("the watch has looked", PATIENCE, || {
            self.watch.check();
            (self.watch.looks() >= looks + 2).then_some(())
        });
    }

    /// Transfers of the first zone that were adopted, by kind of transfer.
    pub fn adopted(&self, kind: &str) -> u64 {
        self.adopted_of(0, kind)
    }

    /// Transfers of a zone that were adopted.
    pub fn adopted_of(&self, site: usize, kind: &str) -> u64 {
        let (differences, wholes) = self.daemon.received(&self.sites[site].origin().to_string());
        match kind {
            "ixfr" => differences,
            "axfr" => wholes,
            _ => panic!("no kind of transfer: {kind}"),
        }
    }

    /// Waits until so many transfers of the first zone were adopted; they are counted after they can be seen.
    pub fn wait_for_adopted(&self, whole: u64, steps: u64) {
        let expected = (whole, steps);
        wait_until(&format!("{whole} whole zones and {steps} differences are adopted"), PATIENCE, || {
            ((self.adopted("axfr"), self.adopted("ixfr")) == expected).then_some(())
        });
    }

    /// Failed transfers of the first zone by kind and reason.
    pub fn failed(&self, kind: &str, reason: &str) -> u64 {
        let (zone, primary) = (self.sites[0].origin(), self.sites[0].primary.address());
        self.metric(&format!(
            "aggregator_transfer_failures_total{{kind=\"{kind}\",primary=\"{primary}\",reason=\"{reason}\",zone=\"{zone}\"}}"
        ))
    }

    /// Records of the first zone that stayed because CNS still had them.
    pub fn vetoed(&self) -> u64 {
        self.metric(&format!("aggregator_removals_vetoed_total{{zone=\"{}\"}}", self.sites[0].origin()))
    }

    /// Records of the first zone that stay because CNS does not answer for them.
    pub fn in_doubt(&self) -> u64 {
        self.metric(&format!("aggregator_records_in_doubt{{zone=\"{}\"}}", self.sites[0].origin()))
    }

    /// Returns true if a version of the first zone waits for confirmation.
    pub fn is_held(&self) -> bool {
        self.metric(&format!("aggregator_transfer_held{{zone=\"{}\"}}", self.sites[0].origin())) == 1
    }

    /// A number of the metrics page; none is zero.
    fn metric(&self, series: &str) -> u64 {
        let page = self.daemon.metrics();
        let line = page.lines().find_map(|line| line.strip_prefix(series));
        line.map_or(0, |value| value.trim().parse().expect("a number"))
    }

    /// Ends the watch, and makes sure that CNS was never asked what would stop it.
    pub fn finish(mut self) {
        self.look_twice();
        self.check();
        self.watch.finish();
        self.tracker.iter().for_each(JoinHandle::abort);
        for site in &self.sites {
            let tally = site.primary.tally();
            assert_eq!((tally.fatal, tally.unreadable), (0, 0), "{}", site.origin());
        }
    }
}

/// Waits until a zone has the right records.
pub fn wait_for_records(client: &mut Client, zone: &Dname, differ: impl Fn(&[Record]) -> Option<String>) {
    follow(client, zone, differ).unwrap_or_else(|text| panic!("{text}"));
}

/// Waits until a zone has the right records, or tells what is wrong with those that it has.
fn follow(client: &mut Client, zone: &Dname, differ: impl Fn(&[Record]) -> Option<String>) -> Result<(), String> {
    let deadline = std::time::Instant::now() + PATIENCE;
    loop {
        let records = client.transfer(zone).expect("a transfer");
        let Some(text) = differ(&records) else { return Ok(()) };
        if std::time::Instant::now() > deadline {
            return Err(format!("{zone}: wanted is left, served is right: {text}"));
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// The SOA query with which CNS looks after its secondaries; none when there is no answer in time.
fn ask_as_cns(server: SocketAddr, zone: &Dname) -> Option<u32> {
    let mut client = Client::new(server).with_deadline(Duration::from_secs(2));
    let answer = client.ask(&Query { edns: Some(1200), ..Query::new(zone, rtype::SOA) }).ok()?;
    let sections = [&answer.answer, &answer.authority, &answer.additional];
    for record in sections.into_iter().flatten() {
        assert!(READABLE.contains(&record.rtype), "{record} stops CNS");
    }
    assert_eq!(answer.rcode(), 0);
    answer.answer.first().map(Record::serial)
}
