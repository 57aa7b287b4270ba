//! Catalogs of real primaries (RFC 9432): one line there is a datacenter here, and a member of its region.

mod harness;

use harness::*;
use serde_json::Value;
use std::fmt::Write;
use std::net::SocketAddr;
use std::process::Command;
use std::time::{Duration, Instant};

const CATALOG: &str = "datacenters.test.";
const PATIENCE: Duration = Duration::from_secs(30);
/// The time within which a line at the primary is to be an answer here.
const PROMPT: Duration = Duration::from_secs(5);
/// Pause before a removal is confirmed.
const CONFIRM: Duration = Duration::from_secs(2);

/// A datacenter by the number of its region and its own.
type Site = (usize, usize);

/// The zone of a datacenter.
fn zone_of((region, number): Site) -> String {
    format!("r{region}-{number}.cns.test.")
}

/// The text of a datacenter's zone, with one instance of `web`.
fn site_text(site: Site) -> String {
    let (zone, (region, number)) = (zone_of(site), site);
    format!(
        "$ORIGIN {zone}\n@ 30 IN SOA ns. h. 1 86400 86400 2592000 30\n@ 30 IN NS ns.\n\
         web 30 IN A 10.{region}.{number}.1\n"
    )
}

/// The text of a catalog that lists zones, each with further properties behind a space.
fn catalog_text(serial: u32, version: &str, sites: &[Site]) -> String {
    let mut text = format!(
        "$ORIGIN {CATALOG}\n@ 0 IN SOA invalid. invalid. {serial} 3600 600 2592000 0\n@ 0 IN NS invalid.\n\
         version 0 IN TXT \"{version}\"\n"
    );
    for site in sites {
        writeln!(text, "m{}x{}.zones 0 IN PTR {}", site.0, site.1, zone_of(*site)).unwrap();
    }
    text
}

/// The plan that follows the catalog of a primary, with a region for each rule.
fn plan_text(primary: SocketAddr, regions: usize, more: &str) -> String {
    let regions: String = (0..regions)
        .map(|region| format!("\"r{region}.cns.test\" = {{ template = \"region\", members = {{ match = \"r{region}-*.cns.test\" }} }}\n"))
        .collect();
    format!(
        "[templates.dc]\nrefresh_min = \"1h\"\nrefresh_max = \"1h\"\n[templates.region]\nns = [\"ns1.test\"]\n\
         [catalogs.\"{CATALOG}\"]\nprimaries = \"{primary}\"\nmember_template = \"dc\"\nmatch = \"*.cns.test\"\n\
         refresh_min = \"500ms\"\nrefresh_max = \"1s\"\nretry_min = \"500ms\"\nretry_max = \"1s\"\n{more}\n\
         [aggregations]\n{regions}[transfer]\nconfirm_after = \"{}s\"\n[probe]\nevery = \"off\"\n",
        CONFIRM.as_secs()
    )
}

/// Settings with a plan, and a state folder.
fn settings(plan: &str) -> Settings {
    Settings { state: Some("state".to_owned()), server: "hold_down = \"0s\"\n".to_owned(), ..Settings::new(plan) }
}

/// Number of addresses that a region has of `web`; none if it does not answer.
fn addresses(client: &mut Client, zone: &str) -> Option<usize> {
    let answer = client.ask(&Query::new(&Dname::parse(&format!("web.{zone}")), rtype::A)).ok()?;
    (answer.rcode() == 0).then_some(answer.answer.len())
}

/// Waits until a region or zone has so many addresses of `web`, or none at all; returns how long that took.
fn wait_for(client: &mut Client, zone: &str, expected: Option<usize>) -> Duration {
    let begun = Instant::now();
    wait_until(&format!("{zone} has {expected:?}"), PATIENCE, || (addresses(client, zone) == expected).then_some(()));
    begun.elapsed()
}

/// What `status` says of one zone, as JSON.
fn status(daemon: &Aggregator, zone: &str) -> Value {
    let report = daemon.verb(&["status", zone, "--json"]);
    serde_json::from_str(&report.stdout).unwrap_or_else(|_| panic!("{report:?}"))
}

/// Waits until the remarks of `status` on the catalog have this text.
fn wait_for_remark(daemon: &Aggregator, expected: &str) {
    let mut last = String::new();
    let look = || {
        last = daemon.verb(&["status"]).stdout;
        last.lines().any(|line| line.contains("datacenters.test") && line.contains(expected)).then_some(())
    };
    wait_until(&format!("status says {expected:?}"), PATIENCE, look);
}

/// Waits for a line of the metrics.
fn wait_for_metric(daemon: &Aggregator, line: &str) {
    wait_until(line, PATIENCE, || daemon.metrics().lines().any(|told| told == line).then_some(()));
}

/// Two hundred datacenters in twenty regions: a line more and a line less in the catalog of BIND, and many less.
#[test]
fn a_line_at_the_primary_is_a_member_of_its_region() {
    let folder = Folder::new();
    let sites: Vec<Site> = (0..200).map(|site| (site / 10, site % 10)).collect();
    let new: Site = (7, 10);
    let catalog = Dname::parse(CATALOG);
    let mut zones: Vec<ZoneText> =
        sites.iter().chain([&new]).map(|site| (Dname::parse(&zone_of(*site)), site_text(*site))).collect();
    zones.push((catalog.clone(), catalog_text(1, "2", &sites)));
    let primary = Named::start_incremental(&folder, &zones);
    let publish = |serial: u32, version: &str, sites: &[Site]| {
        primary.replace_zone(&catalog, &read_zone(&catalog_text(serial, version, sites)));
    };
    let plan = plan_text(primary.address(), 20, "");
    let home = folder.subfolder("aggregator");
    let mut daemon = Aggregator::start_with(&home, &settings(&plan));
    let mut client = Client::new(daemon.address());
    let begun = Instant::now();
    for region in 0..20 {
        wait_for(&mut client, &format!("r{region}.cns.test."), Some(10));
    }
    println!("200 zones in 20 regions after {:?}", begun.elapsed());
    wait_for_metric(&daemon, "aggregator_catalog_members{catalog=\"datacenters.test.\"} 200");

    let told = daemon.verb(&["status", &zone_of((3, 3))]).stdout;
    assert!(told.contains("\n  listed by catalog datacenters.test.\n"), "{told}");
    let told = daemon.verb(&["status", CATALOG]).stdout;
    assert!(told.contains("\n  catalog of 200 zones\n"), "{told}");

    // The catalog itself is nobody's to ask for.
    let asked = client.ask(&Query::new(&catalog, rtype::SOA)).expect("an answer");
    assert_eq!((asked.rcode(), asked.answer.len()), (5, 0));
    assert!(client.transfer(&catalog).is_err());

    // What is in force is no change to a reload, and a dry run knows it.
    let told = daemon.verb(&["reload", "--dry-run"]);
    assert!(told.stdout.starts_with("zones, regions and listeners stay the same\n"), "{told:?}");
    let told = daemon.verb(&["reload"]);
    assert_eq!(told.stdout, "reloaded; zones, regions and listeners are the same\n", "{told:?}");

    let transfers = |daemon: &Aggregator| daemon.received(&zone_of((3, 3)));
    let before = transfers(&daemon);
    let more = [sites.as_slice(), &[new]].concat();
    publish(2, "2", &more);
    let took = wait_for(&mut client, "r7.cns.test.", Some(11));
    println!("a line more: {took:?}");
    assert!(took < PROMPT, "{took:?}");
    assert_eq!(addresses(&mut client, &zone_of(new)), Some(1));
    assert_eq!(transfers(&daemon), before, "others go on as they are");

    publish(3, "2", &sites);
    let took = wait_for(&mut client, "r7.cns.test.", Some(10));
    println!("a line less: {took:?}");
    assert!(took < CONFIRM + PROMPT, "{took:?}");
    wait_for(&mut client, &zone_of(new), None);
    let log = daemon.log_text();
    assert!(log.contains("1 of 201 listed zones would leave, r7-10.cns.test.; it is transferred again"), "{log}");

    // Half of them are too many, for as long as nobody says otherwise.
    publish(4, "2", &sites[..100]);
    wait_for_remark(&daemon, "100 of 200 listed zones would leave, retransfer --accept lets them go");
    wait_for_metric(&daemon, "aggregator_transfer_held{zone=\"datacenters.test.\"} 1");
    std::thread::sleep(CONFIRM * 2);
    assert_eq!(addresses(&mut client, "r15.cns.test."), Some(10));
    // A broken catalog is no reason to take anything away, either; nor may an operator say that it is.
    publish(5, "3", &sites[..100]);
    wait_for_remark(&daemon, "not of version 2");
    let refused = daemon.verb(&["retransfer", CATALOG, "--accept"]);
    assert!(refused.code != 0 && refused.stderr.contains("not of version 2"), "{refused:?}");
    assert_eq!(addresses(&mut client, "r15.cns.test."), Some(10));

    // Everything is there again without any primary.
    drop(primary);
    daemon.kill_and_restart(|| {});
    let mut client = Client::new(daemon.address());
    for region in 0..20 {
        wait_for(&mut client, &format!("r{region}.cns.test."), Some(10));
    }
    assert_eq!(addresses(&mut client, &zone_of((19, 9))), Some(1));
    assert_eq!(status(&daemon, CATALOG)["zones"][0]["serial"], 3);
}

/// NSD has the catalog: many zones leave at the word of an operator, and names that are not the catalog's are refused.
#[test]
fn an_operator_lets_zones_go() {
    let folder = Folder::new();
    let sites: Vec<Site> = (0..4).map(|site| (0, site)).collect();
    let catalog = Dname::parse(CATALOG);
    let own = (0, 9);
    let mut zones: Vec<ZoneText> =
        sites.iter().chain([&own]).map(|site| (Dname::parse(&zone_of(*site)), site_text(*site))).collect();
    let elsewhere = "x.zones 0 IN PTR elsewhere.test.\ny.zones 0 IN PTR r0-9.cns.test.\n";
    zones.push((catalog.clone(), catalog_text(1, "2", &sites) + elsewhere));
    let primary = Nsd::start(&folder, &zones);
    let address = primary.address();
    let plan = plan_text(address, 1, "") + &format!("[zones]\n\"{}\" = \"{address}\"\n", zone_of(own));
    let daemon = Aggregator::start_with(&folder.subfolder("aggregator"), &settings(&plan));
    let mut client = Client::new(daemon.address());
    wait_for(&mut client, "r0.cns.test.", Some(5));
    wait_for_metric(&daemon, "aggregator_catalog_refused{catalog=\"datacenters.test.\"} 2");
    let log = daemon.log_text();
    assert!(log.contains("its name is not one of"), "{log}");
    assert!(log.contains("the configuration has this name itself"), "{log}");

    // Another label: the data starts anew.
    let times = |daemon: &Aggregator| daemon.log_text().matches("zone transferred zone=r0-0.cns.test.").count();
    assert_eq!(times(&daemon), 1);
    let relabelled = catalog_text(2, "2", &sites).replace("m0x0.", "other.") + elsewhere;
    primary.replace_zone(&catalog, &read_zone(&relabelled));
    wait_until("the zone starts anew", PATIENCE, || (times(&daemon) == 2).then_some(()));
    assert!(daemon.log_text().contains("anew=\"r0-0.cns.test.\""), "{}", daemon.log_text());
    wait_for(&mut client, "r0.cns.test.", Some(5));

    primary.replace_zone(&catalog, &read_zone(&catalog_text(3, "2", &[])));
    wait_for_remark(&daemon, "6 of 6 listed zones would leave");
    assert_eq!(addresses(&mut client, "r0.cns.test."), Some(5));
    let accepted = daemon.verb(&["retransfer", CATALOG, "--accept"]);
    assert_eq!(accepted.code, 0, "{accepted:?}");
    wait_for(&mut client, "r0.cns.test.", Some(1));
    wait_for(&mut client, &zone_of((0, 0)), None);
    wait_for_metric(&daemon, "aggregator_catalog_members{catalog=\"datacenters.test.\"} 0");
}

/// A running Knot that makes the catalog of its zones by itself.
struct Generating {
    home: std::path::PathBuf,
    address: SocketAddr,
    notify: SocketAddr,
    process: Process,
}

impl Generating {
    fn start(folder: &Folder, sites: &[Site], notify: SocketAddr) -> Generating {
        let mut port = Port::reserve();
        let home = folder.subfolder("generating");
        let address = port.release();
        std::fs::create_dir_all(&home).unwrap();
        Generating::write(&home, address, notify, sites);
        let mut command = Command::new(program_path("knotd"));
        command.arg("-c").arg(home.join("knot.conf")).current_dir(&home);
        let process = Process::start("knotd", &mut command, &home.join("log"));
        Generating { home, address, notify, process }
    }

    /// Writes the configuration and all zones.
    fn write(home: &std::path::Path, address: SocketAddr, notify: SocketAddr, sites: &[Site]) {
        let (folder, port) = (home.display(), address.port());
        let (to, to_port) = (notify.ip(), notify.port());
        let mut text = format!(
            "server:\n  rundir: \"{folder}\"\n  listen: 127.0.0.1@{port}\n  pidfile: \"{folder}/knot.pid\"\n\
             control:\n  listen: \"{folder}/knot.sock\"\nlog:\n  - target: stderr\n    any: info\n\
             database:\n  storage: \"{folder}\"\n\
             remote:\n  - id: aggregator\n    address: {to}@{to_port}\n\
             acl:\n  - id: axfr\n    address: 127.0.0.1\n    action: transfer\n\
             template:\n  - id: default\n    storage: \"{folder}\"\n    acl: axfr\n    notify: aggregator\n    \
             zonefile-sync: -1\n\
             zone:\n  - domain: {CATALOG}\n    catalog-role: generate\n"
        );
        for site in sites {
            let (zone, file) = (zone_of(*site), format!("{}.zone", zone_of(*site)));
            write_file(&home.join(&file), &site_text(*site));
            write!(
                text,
                "  - domain: {zone}\n    file: \"{file}\"\n    catalog-role: member\n    catalog-zone: {CATALOG}\n    \
                 catalog-group: far\n"
            )
            .unwrap();
        }
        write_file(&home.join("knot.conf"), &text);
    }

    /// Serves other zones from now on.
    fn replace(&self, sites: &[Site]) {
        Generating::write(&self.home, self.address, self.notify, sites);
        self.process.signal(libc::SIGHUP);
    }
}

/// Knot makes the catalog of its own zones and announces it: nothing has to be polled.
#[test]
fn a_zone_that_knot_begins_to_serve_is_served_here() {
    let folder = Folder::new();
    let sites: Vec<Site> = (0..5).map(|site| (0, site)).collect();
    let mut port = Port::reserve();
    let knot = port.release();
    let plan = |primary: SocketAddr| {
        plan_text(primary, 1, "groups = { far = \"far\" }")
            .replace("refresh_min = \"500ms\"\nrefresh_max = \"1s\"", "refresh_min = \"1h\"\nrefresh_max = \"1h\"")
            .replace("[templates.region]", "[templates.far]\nrefresh_max = \"2h\"\n[templates.region]")
    };
    let home = folder.subfolder("aggregator");
    let daemon = Aggregator::start_with(&home, &settings(&plan(knot)));
    let primary = Generating::start(&folder, &sites, daemon.address());
    // Where it listens is known only now.
    daemon.write_settings(&settings(&plan(primary.address)));
    let mut client = Client::new(daemon.address());
    wait_until("the primary serves its catalog", PATIENCE, || {
        Client::new(primary.address).transfer(&Dname::parse(CATALOG)).is_ok_and(|zone| zone.len() > 10).then_some(())
    });
    let reloaded = daemon.verb(&["reload"]);
    assert_eq!(reloaded.code, 0, "{reloaded:?}");
    wait_for(&mut client, "r0.cns.test.", Some(5));
    let more = [sites.as_slice(), &[(0, 5)]].concat();
    primary.replace(&more);
    let took = wait_for(&mut client, "r0.cns.test.", Some(6));
    println!("a zone more at Knot: {took:?}");
    assert!(took < PROMPT, "{took:?}");
    primary.replace(&sites);
    let took = wait_for(&mut client, "r0.cns.test.", Some(5));
    println!("a zone less at Knot: {took:?}");
    assert!(took < CONFIRM + PROMPT, "{took:?}");
}

/// A region names datacenters, their clients and a drain before the catalog lists them.
#[test]
fn what_the_file_says_of_a_zone_counts_from_when_it_is_listed() {
    let folder = Folder::new();
    let sites: [Site; 3] = [(0, 2), (0, 1), (0, 3)];
    let catalog = Dname::parse(CATALOG);
    let mut zones: Vec<ZoneText> = sites.iter().map(|site| (Dname::parse(&zone_of(*site)), site_text(*site))).collect();
    zones.push((catalog.clone(), catalog_text(1, "2", &sites[..1])));
    let primary = Named::start_incremental(&folder, &zones);
    let plan = plan_text(primary.address(), 0, "")
        + "[aggregations.\"r0.cns.test\"]\nmembers = [\"r0-2.cns.test\", \"r0-1.cns.test\", \
         \"r0-3.cns.test\"]\nns = [\"ns1.test\"]\nsteering = { prefer = \"nearest\", at_least = 2 }\n[clients]\n\
         \"r0-1.cns.test\" = [\"127.0.0.0/8\"]\n[[drains]]\nmember = \"r0-3.cns.test\"\n";
    let home = folder.subfolder("aggregator");
    let mut daemon = Aggregator::start_with(&home, &settings(&plan));
    let mut client = Client::new(daemon.address());
    let mut first = || {
        let answer = client.ask(&Query::new(&Dname::parse("web.r0.cns.test"), rtype::A)).ok()?;
        Some((answer.answer.first()?.rdata.clone(), answer.answer.len()))
    };
    let mut wait_for_first = |expected: (Vec<u8>, usize)| {
        wait_until(&format!("{expected:?}"), PATIENCE, || (first().as_ref() == Some(&expected)).then_some(()));
    };
    wait_for_first((vec![10, 0, 2, 1], 1));
    primary.replace_zone(&catalog, &read_zone(&catalog_text(2, "2", &sites[..2])));
    wait_for_first((vec![10, 0, 1, 1], 2));
    // The third is drained from its first moment.
    primary.replace_zone(&catalog, &read_zone(&catalog_text(3, "2", &sites)));
    wait_for(&mut Client::new(daemon.address()), "r0-3.cns.test.", Some(1));
    wait_until("the region has the member", PATIENCE, || {
        let told = status(&daemon, "r0.cns.test");
        (told["regions"][0]["members"].as_array()?.len() == 3).then_some(())
    });
    wait_for_first((vec![10, 0, 1, 1], 2));
    assert!(daemon.stop().success());
}

/// As many zones as CATALOG_ZONES says, in twenty regions: what a line more and a line less take.
#[test]
#[ignore = "takes minutes, for figures"]
fn a_line_among_very_many() {
    let folder = Folder::new();
    let count: usize = std::env::var("CATALOG_ZONES").ok().and_then(|count| count.parse().ok()).unwrap_or(20_000);
    let sites: Vec<Site> = (0..count).map(|site| (site % 20, site / 20)).collect();
    let new: Site = (7, count / 20 + 1);
    // The address has room for no more.
    let text = |site: Site| site_text((site.0, site.1 % 250)).replace(&zone_of((site.0, site.1 % 250)), &zone_of(site));
    let catalog = Dname::parse(CATALOG);
    let mut zones: Vec<ZoneText> =
        sites.iter().chain([&new]).map(|site| (Dname::parse(&zone_of(*site)), text(*site))).collect();
    zones.push((catalog.clone(), catalog_text(1, "2", &sites)));
    let primary = Named::start_incremental(&folder, &zones);
    let publish = |serial: u32, sites: &[Site]| {
        primary.replace_zone(&catalog, &read_zone(&catalog_text(serial, "2", sites)));
    };
    let plan = plan_text(primary.address(), 20, "max_members = 100000");
    let daemon = Aggregator::start_with(&folder.subfolder("aggregator"), &settings(&plan));
    let begun = Instant::now();
    let mut client = Client::new(daemon.address());
    let last = zone_of(sites[count - 1]);
    wait_until("all zones are there", PATIENCE * 20, || {
        sites.iter().rev().step_by(97).all(|site| addresses(&mut client, &zone_of(*site)) == Some(1)).then_some(())
    });
    println!("{count} zones, {last} among them, after {:?}", begun.elapsed());
    publish(2, &[sites.as_slice(), &[new]].concat());
    println!("a line more: {:?}", wait_for(&mut client, &zone_of(new), Some(1)));
    publish(3, &sites);
    println!("a line less: {:?}", wait_for(&mut client, &zone_of(new), None));
    println!("{}", daemon.log_text().lines().filter(|line| line.contains("catalogs")).collect::<Vec<_>>().join("\n"));
}
