//! Many small zones: what they cost while nothing changes, beside Knot as a secondary of the same zones.
//!
//! NSD is the primary of all zones, of four records each and an SOA REFRESH of 30 seconds, so polls are part of what is
//! measured. Both secondaries load ten zones, then all of them; a while after the load the processor time of a while is
//! taken, and the memory. Memory a zone is the difference between all and ten. Then our program has regions of a hundred
//! zones each in addition: what they cost, a scrape, the page, a reload that adds one zone, and the start from the state
//! folder.
//!
//! Cost: three times the while after a load and twice that of a measurement for each size.

use crate::daemon::Daemon;
use crate::generate::Datacenter;
use crate::harness::{Folder, Port};
use crate::memory::Memory;
use crate::options::Options;
use crate::page;
use crate::probe::Probe;
use crate::server::{Kind, Place, Server, Source};
use crate::table::{Table, thousands};
use crate::usage::Usage;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

/// Records of a zone: SOA, NS and two aliases.
const RECORDS: usize = 4;
/// Zones of the smaller load, with which memory is compared.
const FEW: usize = 10;
/// Zones of a region.
const MEMBERS: usize = 100;
/// Longest time that a load may take.
const LONGEST: Duration = Duration::from_secs(300);
/// Time between two looks at what is loaded.
const LOOK: Duration = Duration::from_millis(2);

/// Zones and servers of one size.
struct Stage<'a> {
    zones: Vec<Datacenter>,
    primary: Server,
    /// Time to wait after a load, and to measure.
    pause: Duration,
    place: Place<'a>,
}

/// Cost of a server that has nothing to do.
struct Idle {
    /// Resident memory, in KiB.
    resident: u64,
    /// Share of a processor, in hundredths; none if it was not measured.
    processor: Option<f64>,
}

/// Measures each size and prints a table of it.
pub fn measure(options: &Options) {
    for count in &options.zones {
        println!(
            "{} zones of {RECORDS} records, polled every 30 s:\n\n{}",
            thousands(*count),
            measure_one(options, *count)
        );
    }
}

/// Measures one size.
fn measure_one(options: &Options, count: usize) -> Table {
    let folder = Folder::new();
    let place = Place { folder: &folder, program: &options.program, region: "" };
    // The last one comes with a reload.
    let zone = |number| Datacenter::new(&format!("z{number}.example.com"), number, RECORDS);
    let zones: Vec<Datacenter> = (0..=count).map(zone).collect();
    place.write_zones(&zones);
    eprintln!("{} zones: starting the primary", thousands(count));
    let mut primary = Server::prepare((Kind::Nsd, "primary"), &place, &zones, Source::Files, 1);
    primary.start_and_wait(&zones, "", LONGEST).expect("the primary loads its zones");
    let stage = Stage { zones, primary, pause: options.pause, place };

    let mut port = Port::reserve();
    let page = port.address();
    let mut daemon = Daemon::start_shown(&folder, &options.program, &stage.plan(FEW.min(count), false), Some(page));
    port.release();
    let few = stage.look_at_both(&mut daemon, FEW.min(count), false);
    daemon.configure(&stage.plan(count, false));
    daemon.start_again();
    let all = stage.look_at_both(&mut daemon, count, true);
    daemon.configure(&stage.plan(count, true));
    daemon.start_again();
    let with_regions = stage.look_at_ours(&daemon, count, true);

    let mut table = Table::new(&["figure", "aggregator", "Knot"]);
    let mut row = |figure: &str, ours: String, knot: Option<String>| {
        table.row(vec![figure.to_string(), ours, knot.unwrap_or("–".to_string())]);
    };
    let processor = |idle: &Idle| format!("{:.2} %", idle.processor.unwrap_or_default());
    let a_zone = |few: &Idle, all: &Idle| {
        let more = all.resident.saturating_sub(few.resident) as f64;
        format!("{:.1} KiB", more / (count - FEW.min(count)).max(1) as f64)
    };
    let mebibytes = |kibibytes: u64| format!("{:.1} MiB", kibibytes as f64 / 1024.0);
    row("processor while idle", processor(&all[0]), Some(processor(&all[1])));
    row("memory", mebibytes(all[0].resident), Some(mebibytes(all[1].resident)));
    row("memory a zone", a_zone(&few[0], &all[0]), Some(a_zone(&few[1], &all[1])));
    let regions = format!("with {} regions: ", thousands(count / MEMBERS));
    row(&format!("{regions}processor while idle"), processor(&with_regions), None);
    row(&format!("{regions}memory"), mebibytes(with_regions.resident), None);
    for path in ["/metrics", "/"] {
        let start = Instant::now();
        let octets = fetch(page, path);
        let figure = format!("{:.2} MB in {} ms", octets as f64 / 1e6, start.elapsed().as_millis());
        row(&format!("{regions}{path}"), figure, None);
    }
    for (figure, value) in page::look(&folder, &daemon, page, count) {
        row(&format!("{regions}{figure}"), value, None);
    }
    row(&format!("{regions}memory after all pages"), mebibytes(Memory::take(daemon.id()).resident), None);
    daemon.configure(&stage.plan(count + 1, true));
    row("reload that adds one zone", format!("{} ms", daemon.reload().as_millis()), None);
    stage.wait_loaded(&daemon, count + 1, true);
    daemon.stop();
    let start = Instant::now();
    daemon.start_again();
    stage.wait_for(&daemon, &stage.last_names(count));
    row("start from the state folder", format!("{:.2} s", start.elapsed().as_secs_f64()), None);
    stage.wait_loaded(&daemon, count + 1, true);
    table
}

impl Stage<'_> {
    /// Configuration of our program with the first zones, and with the regions of them.
    fn plan(&self, count: usize, with_regions: bool) -> String {
        let primary = self.primary.address;
        let names: Vec<&str> = self.zones[..count].iter().map(|zone| &zone.zone[..]).collect();
        let zones: String = names.iter().map(|name| format!("\"{name}\" = \"{primary}\"\n")).collect();
        let regions = names.chunks_exact(MEMBERS).enumerate().filter(|_| with_regions);
        let regions: String =
            regions.map(|(number, members)| format!("\"{}\" = {members:?}\n", region(number))).collect();
        format!("[zones]\n{zones}\n[aggregations]\n{regions}\n[transfer]\naudit = \"never\"\n")
    }

    /// Has both servers load the first zones and looks at them; our program ends.
    fn look_at_both(&self, daemon: &mut Daemon, count: usize, with_processor: bool) -> [Idle; 2] {
        eprintln!("{} zones: loading them", thousands(count));
        let source = Source::Primary(self.primary.address);
        let name = format!("knot-{count}");
        let mut knot = Server::prepare((Kind::Knot, &name), &self.place, &self.zones[..count], source, 1);
        knot.start_and_wait(&self.zones[..count], "", LONGEST).expect("Knot loads the zones");
        self.wait_loaded(daemon, count, false);
        let idle = self.look(&[daemon.id(), knot.id()], with_processor);
        daemon.stop();
        knot.stop();
        idle.try_into().unwrap_or_else(|_| unreachable!("two were asked for"))
    }

    /// Looks at our program once it has everything.
    fn look_at_ours(&self, daemon: &Daemon, count: usize, with_regions: bool) -> Idle {
        eprintln!("{} zones: with regions", thousands(count));
        self.wait_loaded(daemon, count, with_regions);
        self.look(&[daemon.id()], true).remove(0)
    }

    /// Waits, then takes the processor time of as long, and the memory.
    fn look(&self, groups: &[u32], with_processor: bool) -> Vec<Idle> {
        thread::sleep(self.pause);
        let start = Instant::now();
        let before: Vec<Usage> = groups.iter().map(|group| Usage::take(*group)).collect();
        if with_processor {
            thread::sleep(self.pause);
        }
        let seconds = start.elapsed().as_secs_f64();
        let look = |(group, before): (&u32, Usage)| {
            let used = Usage::take(*group) - before;
            let processor = with_processor.then(|| (used.user + used.system) / seconds * 100.0);
            Idle { resident: Memory::take(*group).resident, processor }
        };
        groups.iter().zip(before).map(look).collect()
    }

    /// Waits until our program answers for the first zones, and for their regions.
    fn wait_loaded(&self, daemon: &Daemon, count: usize, with_regions: bool) {
        let zones = self.zones[..count].iter().map(|zone| zone.zone.clone());
        let regions = (0..count / MEMBERS).filter(|_| with_regions).map(region);
        self.wait_for(daemon, &zones.chain(regions).collect::<Vec<_>>());
    }

    /// Names of the last zone and the last region, which are served when all are.
    fn last_names(&self, count: usize) -> Vec<String> {
        let region = (count / MEMBERS).checked_sub(1).map(region);
        [self.zones[count].zone.clone()].into_iter().chain(region).collect()
    }

    /// Waits until all these are answered.
    fn wait_for(&self, daemon: &Daemon, names: &[String]) {
        let (mut probe, start) = (Probe::new(daemon.address()), Instant::now());
        for name in names {
            while probe.serial(name).is_none() {
                assert!(start.elapsed() < LONGEST, "{name} is not served");
                thread::sleep(LOOK);
            }
        }
    }
}

/// Name of a region by number.
fn region(number: usize) -> String {
    format!("r{number}.example.org")
}

/// Fetches a page; returns its octets.
fn fetch(server: SocketAddr, path: &str) -> usize {
    let mut stream = TcpStream::connect(server).expect("the page is served");
    let request = format!("GET {path} HTTP/1.1\r\nHost: {server}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).expect("the page is served");
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).expect("the page is served");
    answer.len()
}
