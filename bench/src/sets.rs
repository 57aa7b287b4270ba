//! One record of a large set: from the NOTIFY to the answer, and what a change costs in processor time.
//!
//! A datacenter has one service of very many instances, of which one goes and one comes with each version; the next name
//! tells the version, so that its answer tells that the whole change is there. Differences come from a primary that
//! stands in for CNS (`crates/sim`) and has them at hand, so little of a time is the primary's. Each arrangement has a
//! daemon of its own: the zone alone, a region of it, one whose answers are windows of the set, one of three datacenters
//! that have a third of the service each.
//!
//! Cost: making a version and its difference is the primary's O(records); not part of the processor time.

use crate::daemon::Daemon;
use crate::harness::Folder;
use crate::options::Options;
use crate::probe::Probe;
use crate::quiet;
use crate::scene::LONGEST;
use crate::table::{Figures, Table, thousands};
use crate::usage;
use sim::primary::Primary;
use sim::zone::{Apex, Data, Zone};
use std::collections::HashSet;
use std::net::Ipv4Addr;
use std::time::{Duration, Instant};
use wire::name::Name;
use wire::serial::Serial;

const REGION: &str = "us-west.cns.example.com";
/// Steps from one changed instance to the next, a prime.
const STRIDE: usize = 7_919;
/// Changes after the start whose removals may be in doubt, because the zone has come as a whole.
const IN_DOUBT: usize = 3;

/// What the daemon has beside the zone that changes.
struct Arrangement {
    label: &'static str,
    /// Datacenters of the region; none without region.
    members: usize,
    /// Answers of the region.
    answers: &'static str,
}

const ARRANGEMENTS: [Arrangement; 4] = [
    Arrangement { label: "the zone", members: 0, answers: "" },
    Arrangement { label: "the zone and its region, whole answers", members: 1, answers: "max = \"all\"" },
    Arrangement { label: "three zones and their region, whole answers", members: 3, answers: "max = \"all\"" },
    Arrangement { label: "the zone and its region, answers of 100 records", members: 1, answers: "max = 100" },
];

/// Measures all arrangements with so many records at a name, and prints the table.
pub fn measure(options: &Options) {
    let mut table = Table::new(&["records at the name", "what is served", "NOTIFY to answer", "processor a change"]);
    for arrangement in ARRANGEMENTS {
        eprintln!("{} records at a name: {}", thousands(options.set), arrangement.label);
        let (times, processor) = measure_one(options, &arrangement);
        let processor = format!("**{:.2} ms**", processor * 1000.0);
        table.row(vec![thousands(options.set), arrangement.label.to_string(), times.to_string(), processor]);
    }
    println!("One record of a large set goes and one comes, {} times:\n\n{table}", options.rounds * 10);
}

/// Times of all changes that nobody doubts, and the processor time of each on average, in seconds.
fn measure_one(options: &Options, arrangement: &Arrangement) -> (Figures, f64) {
    let runtime = tokio::runtime::Runtime::new().expect("threads can be started");
    let primary = runtime.block_on(Primary::start("127.0.0.1:0".parse().expect("an address"))).expect("a free port");
    let datacenters = arrangement.members.max(1);
    let origins: Vec<String> = (1..=datacenters).map(|number| format!("us-west-{number}.cns.example.com")).collect();
    origins
        .iter()
        .enumerate()
        .for_each(|(index, origin)| primary.publish(version(origin, index, datacenters, options, 0)));
    let zones: String = origins.iter().map(|origin| format!("\"{origin}\" = \"{}\"\n", primary.address())).collect();
    let region = match arrangement.members {
        0 => String::new(),
        _ => format!(
            "[aggregations.\"{REGION}\"]\nmembers = {origins:?}\nns = [\"ns1.example.com\"]\nanswers = {{ {} }}\n",
            arrangement.answers
        ),
    };
    let plan = format!("[zones]\n{zones}\n{region}\n[transfer]\nrefresh_min = \"1d\"\naudit = \"never\"\n");
    let folder = Folder::new();
    let daemon = Daemon::start(&folder, &options.program, &plan);
    let mut probe = Probe::new(daemon.address());
    let told = format!("version.{}", if arrangement.members > 0 { REGION } else { &origins[0] });
    let wait = |probe: &mut Probe, number: usize, start: Instant| {
        probe.time_until(&told, told_by(number), start, LONGEST).expect("a change reaches the answer")
    };
    wait(&mut probe, 0, Instant::now());
    let (mut times, mut used, rounds) = (Figures::default(), 0.0, options.rounds * 10);
    for number in 1..=rounds + IN_DOUBT {
        primary.publish(version(&origins[0], 0, datacenters, options, number));
        quiet::wait_quiet(&[daemon.id()]);
        let before = usage::exact(daemon.id());
        let start = Instant::now();
        probe.notify(&origins[0]);
        let time = wait(&mut probe, number, start);
        std::thread::sleep(Duration::from_millis(200));
        if number > IN_DOUBT {
            times.push(time);
            used += usage::exact(daemon.id()) - before;
        }
    }
    (times, used / rounds as f64)
}

/// The address that tells a version.
fn told_by(number: usize) -> Ipv4Addr {
    Ipv4Addr::from(0xc612_0000 + number as u32)
}

/// A version of a datacenter's zone: its part of the service, after so many changes.
fn version(origin: &str, index: usize, datacenters: usize, options: &Options, changes: usize) -> Zone {
    let name = |text: &str| Name::parse(text).expect("a name");
    let service = name(&format!("web.svc.acme.{origin}"));
    let instances = options.set / datacenters;
    // Numbers are even, those of what came for what went are odd.
    let replaced: HashSet<usize> = (1..=changes).map(|change| change * STRIDE % instances).collect();
    let address = |instance: usize| {
        let number = 2 * (instance * datacenters + index) + usize::from(replaced.contains(&instance));
        Data::A(Ipv4Addr::from(0x0a00_0000 + number as u32))
    };
    let records = (0..instances).map(|instance| (service.clone(), address(instance)));
    let told = (name(&format!("version.{origin}")), Data::A(told_by(changes)));
    let told = (index == 0).then_some(told);
    let server = name("ns1.example.com");
    let apex = Apex { mname: server.clone(), rname: name("hostmaster.example.com"), name_servers: vec![server] };
    Zone::new(name(origin), apex, Serial(405_514_080 + changes as u32), records.chain(told))
}
