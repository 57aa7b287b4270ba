//! Memory of transfers, and the budget that bounds it: zones whose few octets on the wire become many, beside zones
//! that are as they should be; and a tree of ZooKeeper's that grows. Memory is that of the real program, as the kernel
//! has it.

mod harness;
// Made for other tests, which use all of it.
#[allow(dead_code)]
#[path = "zookeeper/site.rs"]
mod site;
#[path = "budget/swelling.rs"]
mod swelling;

use harness::*;
use std::time::Duration;
use swelling::{Contents, Swelling, Version};

/// Longest wait for anything, more than anything here takes.
const PATIENCE: Duration = Duration::from_secs(120);
const MIB: u64 = 1 << 20;
/// Bound on the memory of the program without zones, its threads and buffers included; the real use is far less.
const BARE: u64 = 64 * MIB;
/// Names of a zone that is 5.7 MiB on the wire and becomes more than 250 MiB.
const SWELLING: Contents = Contents::Swelling(270_000);

/// A line of `/proc/PID/status`, in octets.
fn memory_of(process: u32, field: &str) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{process}/status")).expect("the process runs");
    let line = text.lines().find_map(|line| line.strip_prefix(field)).expect("such a line");
    line.trim_start_matches(':').trim().trim_end_matches(" kB").parse::<u64>().expect("a number") * 1024
}

/// The value of a series; none where it is not there.
fn metric(daemon: &Aggregator, series: &str) -> Option<u64> {
    let text = daemon.metrics();
    let value = text.lines().find_map(|line| line.strip_prefix(&format!("aggregator_{series} ")))?;
    Some(value.trim().parse::<f64>().expect("a number") as u64)
}

/// Returns the octets that the budget accounts for.
fn accounted(daemon: &Aggregator) -> u64 {
    let part = |part: &str| metric(daemon, &format!("memory_accounted_bytes{{part=\"{part}\"}}")).unwrap_or(0);
    part("zones") + part("histories") + part("transfers")
}

/// Returns the report on memory in the status.
fn memory_told(daemon: &Aggregator) -> serde_json::Value {
    let output = daemon.verb(&["status", "--json"]);
    let report: serde_json::Value = serde_json::from_str(&output.stdout).expect("JSON");
    report["memory"].clone()
}

/// The serial that is served.
fn serial(daemon: &Aggregator, zone: &str) -> Option<u32> {
    Client::new(daemon.address()).serial(&Dname::parse(zone))
}

fn wait_for_serial(daemon: &Aggregator, zone: &str, wanted: u32) {
    wait_until(&format!("{zone} at {wanted}"), PATIENCE, || (serial(daemon, zone) == Some(wanted)).then_some(()));
}

/// Waits until a version of a zone is refused for want of memory.
fn wait_for_refusal(daemon: &Aggregator, zone: &str) {
    let series = format!("memory_refused{{zone=\"{zone}.\"}}");
    wait_until(&format!("{zone} is refused"), PATIENCE, || (metric(daemon, &series) == Some(1)).then_some(()));
}

/// A configuration with these zones, and a budget where it is not the default.
fn settings(primary: &Swelling, zones: &[&str], memory: Option<&str>, more: &str) -> Settings {
    let zones: String = zones.iter().map(|zone| format!("\"{zone}\" = \"{}\"\n", primary.address)).collect();
    let mut settings = Settings::new(&format!(
        "[transfer]\nrefresh_min = \"100ms\"\nrefresh_max = \"200ms\"\nretry_min = \"200ms\"\nretry_max = \"500ms\"\n[zones]\n{zones}{more}"
    ));
    settings.server = memory.map(|memory| format!("memory = \"{memory}\"\n")).unwrap_or_default();
    settings.state = Some("state".to_string());
    settings
}

#[test]
fn a_zone_that_swells_is_refused_in_its_middle_and_its_copy_is_served() {
    let primary = Swelling::start();
    let zones = ["big.example", "good.example"];
    zones.iter().for_each(|zone| primary.set(zone, Version::new(1, Contents::Plain(100))));
    let folder = Folder::new();
    let daemon = Aggregator::start_with(&folder.subfolder("us"), &settings(&primary, &zones, Some("64MiB"), ""));
    zones.iter().for_each(|zone| wait_for_serial(&daemon, zone, 1));
    assert_eq!(metric(&daemon, "memory_budget_bytes"), Some(64 * MIB));

    let before = primary.sent();
    primary.set("big.example", Version::new(2, SWELLING));
    wait_for_refusal(&daemon, "big.example");
    assert!(primary.sent() - before > MIB, "it had begun");
    let overview = daemon.verb(&["status"]).stdout;
    let line = overview.lines().find(|line| line.starts_with("memory ")).expect("a line of the budget");
    assert!(line.ends_with(" of 64.00 MiB; no room for a new version of big.example."), "{line}");
    let told = memory_told(&daemon);
    assert_eq!((&told["budget"], &told["refused"][0]), (&(64 * MIB).into(), &"big.example.".into()), "{told}");
    // Told in the status and by the counter of failures.
    let status = daemon.verb(&["status", "big.example"]);
    assert!(status.stdout.contains("out of the budget of memory"), "{status:?}");
    let failed = |daemon: &Aggregator| {
        let text = daemon.metrics();
        text.lines().any(|line| {
            let is_ours =
                line.starts_with("aggregator_transfer_failures_total{") && line.contains("zone=\"big.example.\"");
            is_ours && line.contains("kind=\"axfr\"") && line.contains("reason=\"memory\"")
        })
    };
    assert!(failed(&daemon), "{}", daemon.metrics());
    // It is tried again and again, and others go on meanwhile.
    for serial in 2..6 {
        primary.set("good.example", Version::new(serial, Contents::Plain(100 + serial)));
        wait_for_serial(&daemon, "good.example", serial);
        assert!(accounted(&daemon) <= 64 * MIB);
    }
    assert_eq!(serial(&daemon, "big.example"), Some(1));
    let highest = memory_of(daemon.id(), "VmHWM");
    assert!(highest < 96 * MIB + BARE, "{} MiB for a budget of 64", highest / MIB);
    // What was refused is given back, and a version that fits is taken.
    primary.set("big.example", Version::new(7, Contents::Plain(100)));
    wait_for_serial(&daemon, "big.example", 7);
    wait_until("all is given back", PATIENCE, || (accounted(&daemon) < MIB).then_some(()));
    let series = "memory_refused{zone=\"big.example.\"}";
    wait_until("it is told", PATIENCE, || metric(&daemon, series).is_none().then_some(()));
    let overview = daemon.verb(&["status"]).stdout;
    assert!(overview.lines().any(|line| line.starts_with("memory ") && line.ends_with(" of 64.00 MiB")), "{overview}");
}

#[test]
fn what_brings_nothing_new_leaves_nothing_accounted() {
    let primary = Swelling::start();
    primary.set("good.example", Version::new(1, Contents::Plain(2000)));
    let folder = Folder::new();
    let daemon =
        Aggregator::start_with(&folder.subfolder("us"), &settings(&primary, &["good.example"], Some("2MiB"), ""));
    wait_for_serial(&daemon, "good.example", 1);
    // Many more than would fit beside each other.
    for _ in 0..30 {
        let again = daemon.verb(&["retransfer", "good.example"]);
        assert_eq!(again.code, 0, "{again:?}");
    }
    let transfers = || metric(&daemon, "memory_accounted_bytes{part=\"transfers\"}");
    wait_until("nothing is accounted for transfers", PATIENCE, || (transfers() == Some(0)).then_some(()));
    primary.set("good.example", Version::new(2, Contents::Plain(2000)));
    wait_for_serial(&daemon, "good.example", 2);
}

#[test]
fn many_that_swell_at_once_leave_room_for_the_one_that_does_not() {
    let primary = Swelling::start();
    let swelling = ["a.example", "b.example", "c.example", "d.example"];
    swelling.iter().for_each(|zone| primary.set(zone, Version::new(1, SWELLING)));
    // 20,000 names: more than a megabyte, and less than its floor of eight.
    primary.set("good.example", Version::new(1, Contents::Plain(20_000)));
    // Deep names have a hundred nodes above each.
    primary.set("deep.example", Version::new(1, Contents::Deep(30_000)));
    let zones = [&swelling[..], &["good.example", "deep.example"]].concat();
    let folder = Folder::new();
    let settings = settings(&primary, &zones, Some("96MiB"), "");
    let daemon = Aggregator::start_with(&folder.subfolder("us"), &settings);
    wait_for_serial(&daemon, "good.example", 1);
    swelling.iter().chain(&["deep.example"]).for_each(|zone| wait_for_refusal(&daemon, zone));
    for serial in 2..5 {
        primary.set("good.example", Version::new(serial, Contents::Plain(20_000 + serial)));
        wait_for_serial(&daemon, "good.example", serial);
        assert!(accounted(&daemon) <= 96 * MIB);
    }
    let highest = memory_of(daemon.id(), "VmHWM");
    assert!(highest < 144 * MIB + BARE, "{} MiB for a budget of 96", highest / MIB);
}

#[test]
fn differences_that_swell_are_refused_and_so_is_the_growth_of_a_region() {
    let primary = Swelling::start();
    let zones = ["one.example", "two.example"];
    zones.iter().for_each(|zone| primary.set(zone, Version::new(1, Contents::Plain(100))));
    let folder = Folder::new();
    let region = "[aggregations]\n\"all.example\" = [\"one.example\", \"two.example\"]\n";
    let daemon = Aggregator::start_with(&folder.subfolder("us"), &settings(&primary, &zones, Some("64MiB"), region));
    wait_until("the region", PATIENCE, || serial(&daemon, "all.example"));
    let additions = Some(SWELLING);
    primary.set("one.example", Version { additions, ..Version::new(2, Contents::Plain(100)) });
    // The differences are refused, and the whole zone, which is as it was, is taken instead.
    wait_for_serial(&daemon, "one.example", 2);
    let failed = "kind=\"ixfr\",primary=\"";
    assert!(daemon.metrics().lines().any(|line| line.contains(failed) && line.contains("reason=\"memory\"")));
    // 22,000 of these would fit into the budget by themselves, but not once more in the region.
    primary.set("two.example", Version::new(2, Contents::Swelling(22_000)));
    wait_for_refusal(&daemon, "two.example");
    assert_eq!(serial(&daemon, "two.example"), Some(1));
    let highest = memory_of(daemon.id(), "VmHWM");
    assert!(highest < 96 * MIB + BARE, "{} MiB for a budget of 64", highest / MIB);
}

#[test]
fn differences_without_room_are_asked_for_again_and_the_whole_zone_only_once() {
    let primary = Swelling::start();
    primary.set("big.example", Version::new(1, Contents::Plain(100_000)));
    let folder = Folder::new();
    // A zone alone may take half: this one takes three quarters of that.
    let daemon =
        Aggregator::start_with(&folder.subfolder("us"), &settings(&primary, &["big.example"], Some("8MiB"), ""));
    wait_for_serial(&daemon, "big.example", 1);
    let zone = metric(&daemon, "zone_memory_bytes{zone=\"big.example.\"}").expect("its size");
    assert!((5 * MIB / 2..4 * MIB).contains(&zone), "{zone}");
    let wholes = primary.wholes();
    // More than there is room for.
    let additions = Some(Contents::Plain(80_000));
    primary.set("big.example", Version { additions, ..Version::new(2, Contents::Plain(180_000)) });
    wait_for_refusal(&daemon, "big.example");
    let refused = || {
        let text = daemon.metrics();
        let series = |line: &&str| line.contains("failures_total{kind=\"ixfr\"") && line.contains("reason=\"memory\"");
        text.lines().find(series).and_then(|line| line.rsplit(' ').next()?.parse::<f64>().ok())
    };
    wait_until("they are tried again", PATIENCE, || (refused()? >= 4.0).then_some(()));
    assert_eq!((primary.wholes(), serial(&daemon, "big.example")), (wholes + 1, Some(1)));
    let status = daemon.verb(&["status", "big.example"]);
    assert!(status.stdout.contains("out of the budget of memory"), "{status:?}");
    // Those that fit are taken.
    let additions = Some(Contents::Plain(100));
    primary.set("big.example", Version { additions, ..Version::new(3, Contents::Plain(100_100)) });
    wait_for_serial(&daemon, "big.example", 3);
    assert_eq!(primary.wholes(), wholes + 1);
    let series = "memory_refused{zone=\"big.example.\"}";
    wait_until("it is told", PATIENCE, || metric(&daemon, series).is_none().then_some(()));
}

#[test]
fn what_is_on_disk_is_served_whatever_the_budget() {
    let primary = Swelling::start();
    primary.set("big.example", Version::new(1, Contents::Plain(100_000)));
    let folder = Folder::new();
    let home = folder.subfolder("us");
    let mut daemon = Aggregator::start_with(&home, &settings(&primary, &["big.example"], Some("256MiB"), ""));
    wait_for_serial(&daemon, "big.example", 1);
    assert!(daemon.verb(&["stop"]).code == 0);
    daemon.write_settings(&settings(&primary, &["big.example"], Some("1MiB"), ""));
    daemon.kill_and_restart(|| ());
    assert_eq!(serial(&daemon, "big.example"), Some(1), "from the disk");
    assert!(accounted(&daemon) > MIB);
    // It does not grow any further.
    primary.set("big.example", Version::new(2, Contents::Plain(120_000)));
    wait_for_refusal(&daemon, "big.example");
    assert_eq!(serial(&daemon, "big.example"), Some(1));
    // But it may be replaced by what is not larger.
    primary.set("big.example", Version::new(3, Contents::Plain(80_000)));
    wait_for_serial(&daemon, "big.example", 3);
}

#[test]
fn a_tree_that_outgrows_the_budget_keeps_its_zones_until_it_fits() {
    let folder = Folder::new();
    let server = ZooKeeper::start(&folder);
    let nodes = Znodes::connect(&[server.address()]);
    site::make_service(&nodes, site::ROOT, 20);
    nodes.create(&format!("{}/many", site::ROOT), b"");
    let settings = || {
        let mut settings = Settings::new(&site::plan(&[server.address()], ""));
        settings.server = "memory = \"2MiB\"\n".to_owned();
        settings.state = Some("state".to_owned());
        settings
    };
    let mut daemon = Aggregator::start_with(&folder.subfolder("us"), &settings());
    let mut resolver = site::Resolver::new(&daemon);
    resolver.wait_served();
    site::wait_session(&daemon, "live");
    let before = accounted(&daemon);
    assert!((20 * 400..MIB / 4).contains(&before), "the nodes count: {before}");

    // Three times as much as the zones may take, told by events.
    let paths: Vec<String> = (0..4000).map(|number| format!("{}/many/m{number}", site::ROOT)).collect();
    let made: Vec<_> = paths.iter().zip((1000..).map(|number| site::host(site::address(number)))).collect();
    nodes.create_all(made.iter().map(|(path, host)| (&path[..], &host[..])));
    let refused = format!("memory_refused{{zone=\"{}\"}}", site::ZONE);
    let losses = format!("zookeeper_session_losses_total{{reason=\"memory\",zone=\"{}\"}}", site::ZONE);
    let wait_refused = |daemon: &Aggregator, resolver: &mut site::Resolver| {
        wait_until("the whole tree is refused more than once", PATIENCE, || {
            assert_eq!(resolver.addresses("web").len(), 20, "what was served is served on");
            assert!(accounted(daemon) <= 2 * MIB + MIB / 8);
            (metric(daemon, &losses)? >= 3 && metric(daemon, &refused) == Some(1)).then_some(())
        });
    };
    wait_refused(&daemon, &mut resolver);
    let reverse = |resolver: &mut site::Resolver| resolver.ask("1.0.0.10.in-addr.arpa.", rtype::PTR).answer.len();
    assert_eq!(reverse(&mut resolver), 1);
    let detail = daemon.verb(&["status", site::ZONE]).stdout;
    assert!(detail.contains("out of the budget of memory"), "{detail}");
    assert_eq!(memory_told(&daemon)["refused"], serde_json::json!([site::ZONE]));
    assert!(daemon.log_text().contains("out of the budget of memory"));
    // So it is after a restart, which begins with what is on disk.
    daemon.kill_and_restart(|| ());
    let mut resolver = site::Resolver::new(&daemon);
    resolver.wait_served();
    wait_refused(&daemon, &mut resolver);
    // It fits again, and goes on.
    paths.chunks(100).for_each(|paths| nodes.delete_all(paths.iter().map(String::as_str)));
    nodes.create(&format!("{}/web/new", site::ROOT), &site::host(site::address(70)));
    wait_until("it is taken again", PATIENCE, || (resolver.addresses("new.web") == [site::address(70)]).then_some(()));
    site::wait_session(&daemon, "live");
    wait_until("it is told", PATIENCE, || metric(&daemon, &refused).is_none().then_some(()));
    wait_until("all is given back", PATIENCE, || (accounted(&daemon) < MIB).then_some(()));
    assert_eq!(memory_told(&daemon)["refused"], serde_json::json!([]));
}

#[test]
fn differences_get_through_a_full_budget_as_long_as_the_zone_does_not_grow() {
    let primary = Swelling::start();
    let zone = "big.example";
    primary.set(zone, Version::new(1, Contents::Plain(100_000)));
    let folder = Folder::new();
    let daemon = Aggregator::start_with(&folder.subfolder("us"), &settings(&primary, &[zone], Some("256MiB"), ""));
    wait_for_serial(&daemon, zone, 1);
    // All that it takes is beyond its share from now on.
    daemon.write_settings(&settings(&primary, &[zone], Some("1MiB"), ""));
    assert_eq!(daemon.verb(&["reload"]).code, 0);
    assert!(accounted(&daemon) > MIB);
    let refused = "memory_refused{zone=\"big.example.\"}";
    let changes = |serial, removals, additions| Version {
        removals,
        additions: Some(Contents::Plain(additions)),
        ..Version::new(serial, Contents::Plain(100_000))
    };
    // The first removal of all costs a whole zone, because the primary does not answer for single records.
    primary.set(zone, changes(2, 1, 0));
    wait_for_serial(&daemon, zone, 2);
    let wholes = primary.wholes();
    // A hundred, and a hundred for which as many come that are no longer.
    for version in [changes(3, 101, 0), changes(4, 201, 100)] {
        primary.set(zone, version);
        wait_for_serial(&daemon, zone, version.serial);
    }
    let is_failure =
        |line: &str| line.contains("kind=\"ixfr\"") && line.contains("reason=\"memory\"") && !line.ends_with(" 0");
    assert!(!daemon.metrics().lines().any(is_failure), "nothing was refused");
    // Growth is refused, and no whole zone is asked for in its place.
    primary.set(zone, changes(5, 0, 20_000));
    wait_for_refusal(&daemon, zone);
    primary.set(zone, changes(6, 301, 0));
    wait_for_serial(&daemon, zone, 6);
    wait_until("it is told", PATIENCE, || metric(&daemon, refused).is_none().then_some(()));
    assert_eq!(primary.wholes(), wholes);
}

#[test]
fn events_get_through_a_full_budget_as_long_as_the_tree_does_not_grow() {
    let folder = Folder::new();
    let server = ZooKeeper::start(&folder);
    let nodes = Znodes::connect(&[server.address()]);
    site::make_service(&nodes, site::ROOT, 20);
    nodes.create(&format!("{}/many", site::ROOT), b"");
    let many: Vec<String> = (0..3000).map(|number| format!("{}/many/m{number}", site::ROOT)).collect();
    let made: Vec<_> = many.iter().zip((1000..).map(|number| site::host(site::address(number)))).collect();
    nodes.create_all(made.iter().map(|(path, host)| (&path[..], &host[..])));
    let settings = |memory: &str| {
        let mut settings = Settings::new(&site::plan(&[server.address()], ""));
        settings.server = format!("memory = \"{memory}\"\n");
        settings.state = Some("state".to_owned());
        settings
    };
    let daemon = Aggregator::start_with(&folder.subfolder("us"), &settings("64MiB"));
    let mut resolver = site::Resolver::new(&daemon);
    resolver.wait_served();
    site::wait_session(&daemon, "live");
    let series = |name: &str, more: &str| format!("{name}{{{more}zone=\"{}\"}}", site::ZONE);
    let [losses, reads, refused] = [
        series("zookeeper_session_losses_total", "reason=\"memory\","),
        series("zookeeper_reads_total", ""),
        series("memory_refused", ""),
    ];
    let read = metric(&daemon, &reads);
    // Less than is there.
    daemon.write_settings(&settings("1MiB"));
    assert_eq!(daemon.verb(&["reload"]).code, 0);
    assert!(accounted(&daemon) > MIB);
    let path = |number: usize| format!("{}/web/h{number}", site::ROOT);
    for left in (15..20).rev() {
        nodes.delete_all([path(left)].iter().map(String::as_str));
        wait_until("the address goes", PATIENCE, || (resolver.addresses("web").len() == left).then_some(()));
    }
    assert_eq!([&losses, &refused].map(|series| metric(&daemon, series)), [Some(0), None]);
    assert_eq!(metric(&daemon, &reads), read, "no whole tree was read");
    // Growth is refused, and stays so.
    let more: Vec<_> =
        (0..40).map(|number| (format!("{}/more{number}", site::ROOT), site::host(site::address(900)))).collect();
    nodes.create_all(more.iter().map(|(path, host)| (&path[..], &host[..])));
    wait_until("it is refused", PATIENCE, || (metric(&daemon, &refused) == Some(1)).then_some(()));
    wait_until("the whole tree is", PATIENCE, || (metric(&daemon, &losses)? >= 3).then_some(()));
    assert_eq!((metric(&daemon, &refused), resolver.addresses("web").len()), (Some(1), 15));
    nodes.delete_all(more.iter().map(|(path, _)| &path[..]));
    nodes.delete_all([path(14)].iter().map(String::as_str));
    wait_until("it fits again", PATIENCE, || (resolver.addresses("web").len() == 14).then_some(()));
    wait_until("it is told", PATIENCE, || metric(&daemon, &refused).is_none().then_some(()));
}

/// The budget accounts for as much memory as a zone really takes, for zones of every kind.
#[test]
fn what_is_accounted_is_what_is_resident() {
    let primary = Swelling::start();
    let folder = Folder::new();
    let cases = [
        ("small records", Contents::Plain(600_000), ""),
        ("names in capitals and long RDATA", Contents::Swelling(80_000), ""),
        ("deep names", Contents::Deep(4_000), ""),
        (
            "small records, and a region",
            Contents::Plain(600_000),
            "[aggregations]\n\"all.example\" = [\"z.example\"]\n",
        ),
    ];
    primary.set("empty.example", Version::new(1, Contents::Plain(1)));
    for (number, (name, contents, more)) in cases.into_iter().enumerate() {
        primary.set("z.example", Version::new(1, contents));
        let home = |part: &str| folder.subfolder(&format!("{part}{number}"));
        let bare = Aggregator::start_with(&home("bare"), &settings(&primary, &["empty.example"], Some("2GiB"), ""));
        wait_for_serial(&bare, "empty.example", 1);
        let without = memory_of(bare.id(), "VmRSS");
        let daemon = Aggregator::start_with(&home("full"), &settings(&primary, &["z.example"], Some("2GiB"), more));
        wait_for_serial(&daemon, if more.is_empty() { "z.example" } else { "all.example" }, 1);
        // The memory of the transfer, and what the disk was given, have gone by then or go soon.
        let zones = wait_until("the transfer is accounted for", PATIENCE, || {
            let zones = metric(&daemon, "memory_accounted_bytes{part=\"zones\"}")?;
            (zones > MIB && accounted(&daemon) == zones).then_some(zones)
        });
        // What the allocator keeps, and the threads that have worked now, do not grow with the zone.
        let resident = wait_until("what the transfer needed is given back", PATIENCE, || {
            let resident = memory_of(daemon.id(), "VmRSS").saturating_sub(without);
            (resident < zones * 3 / 2 + 8 * MIB).then_some(resident)
        });
        let highest = memory_of(daemon.id(), "VmHWM").saturating_sub(without);
        let share = |octets: u64| octets as f64 / zones as f64;
        println!(
            "{name}: {:.1} MiB accounted, {:.1} resident ({:.2}), {:.1} at most ({:.2})",
            zones as f64 / MIB as f64,
            resident as f64 / MIB as f64,
            share(resident),
            highest as f64 / MIB as f64,
            share(highest)
        );
        assert!(2 * resident > zones, "{name}: {}", share(resident));
        // Empty non-terminals are there twice while they are made, and counted so.
        assert!(highest < 3 * zones + 8 * MIB, "{name}: {}", share(highest));
    }
}
