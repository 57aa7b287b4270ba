//! The servers that are compared: ours, the peers from Debian's packages, and an echo as the ceiling.
//!
//! Each is started with the same zones, from files or as a secondary, with a number of threads for UDP; it logs no
//! queries, limits no rates, and adds nothing to an answer that it can leave out (`configuration`).
//!
//! Cost: a start is what `stage` and `transfers` measure.

mod configuration;

use crate::generate::Datacenter;
use crate::harness::{Folder, Port, Process, write_file};
use crate::probe::Probe;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// How long ending politely may take.
const LONGEST_STOP: Duration = Duration::from_secs(60);

/// What is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Sends every datagram back.
    Echo,
    /// Our program with the zones.
    Aggregator,
    /// Our program with the zones and the region of all of them.
    Region,
    Gdnsd,
    Yadifa,
    Nsd,
    Knot,
    PowerDns,
    Bind,
}

impl Kind {
    /// All of them, in the order of the tables.
    pub const ALL: [Kind; 9] = [
        Kind::Echo,
        Kind::Aggregator,
        Kind::Region,
        Kind::Gdnsd,
        Kind::Yadifa,
        Kind::Nsd,
        Kind::Knot,
        Kind::PowerDns,
        Kind::Bind,
    ];

    /// The name in tables.
    pub fn label(self) -> &'static str {
        match self {
            Kind::Echo => "UDP echo",
            Kind::Aggregator => "aggregator",
            Kind::Region => "aggregator, region of three",
            Kind::Gdnsd => "gdnsd",
            Kind::Yadifa => "YADIFA",
            Kind::Nsd => "NSD",
            Kind::Knot => "Knot",
            Kind::PowerDns => "PowerDNS",
            Kind::Bind => "BIND",
        }
    }

    /// The name in options, and of the server's folder.
    pub fn option(self) -> &'static str {
        match self {
            Kind::Echo => "echo",
            Kind::Aggregator => "aggregator",
            Kind::Region => "region",
            Kind::Gdnsd => "gdnsd",
            Kind::Yadifa => "yadifa",
            Kind::Nsd => "nsd",
            Kind::Knot => "knot",
            Kind::PowerDns => "pdns",
            Kind::Bind => "bind",
        }
    }

    /// The program that must be installed, unless it is built here.
    pub fn program(self) -> Option<&'static str> {
        match self {
            Kind::Echo | Kind::Aggregator | Kind::Region => None,
            Kind::Gdnsd => Some("gdnsd"),
            Kind::Yadifa => Some("yadifad"),
            Kind::Nsd => Some("nsd"),
            Kind::Knot => Some("knotd"),
            Kind::PowerDns => Some("pdns_server"),
            Kind::Bind => Some("named"),
        }
    }

    /// Whether it is our program, which has its zones from a primary only.
    pub fn is_ours(self) -> bool {
        matches!(self, Kind::Aggregator | Kind::Region)
    }

    /// Whether it transfers zones in and out.
    pub fn transfers(self) -> bool {
        !matches!(self, Kind::Echo | Kind::Gdnsd)
    }
}

/// What the servers of one scene have in common.
pub struct Place<'a> {
    pub folder: &'a Folder,
    /// Our program.
    pub program: &'a Path,
    /// The region's name.
    pub region: &'a str,
}

impl Place<'_> {
    /// Where zone files are, each named like its zone.
    pub fn zone_files(&self) -> PathBuf {
        self.folder.subfolder("zones")
    }

    /// Writes the zone files.
    pub fn write_zones(&self, zones: &[Datacenter]) {
        for zone in zones {
            let file = File::create(self.zone_files().join(&zone.zone)).expect("the folder can be written");
            let mut out = BufWriter::with_capacity(1 << 20, file);
            zone.write(&mut out).and_then(|()| out.flush()).expect("there is room for a zone file");
        }
    }
}

/// Where a server has its zones from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    Files,
    Primary(SocketAddr),
}

/// What a configuration is made of.
struct Wishes<'a> {
    home: &'a Path,
    address: SocketAddr,
    zones: Vec<&'a str>,
    zone_files: PathBuf,
    source: Source,
    threads: usize,
    region: &'a str,
}

/// One server, running or not.
pub struct Server {
    pub kind: Kind,
    pub address: SocketAddr,
    home: PathBuf,
    command: (PathBuf, Vec<String>),
    process: Option<Process>,
}

impl Server {
    /// Writes the configuration; what the server has kept from an earlier run in its folder is still there.
    pub fn prepare(
        (kind, name): (Kind, &str),
        place: &Place<'_>,
        zones: &[Datacenter],
        source: Source,
        threads: usize,
    ) -> Server {
        let home = place.folder.subfolder(name);
        let mut port = Port::reserve();
        let wishes = Wishes {
            home: &home,
            address: port.address(),
            zones: zones.iter().map(|zone| &zone.zone[..]).collect(),
            zone_files: place.zone_files(),
            source,
            threads,
            region: place.region,
        };
        let arguments = configuration::write(kind, &wishes);
        let program = match kind {
            Kind::Echo => std::env::current_exe().expect("the kernel knows this program's file"),
            Kind::Aggregator | Kind::Region => place.program.to_path_buf(),
            _ => PathBuf::from(kind.program().expect("peers are programs")),
        };
        let address = port.release();
        Server { kind, address, home, command: (program, arguments), process: None }
    }

    /// The text of a configuration that is one file.
    pub fn configuration(&self) -> String {
        std::fs::read_to_string(self.configuration_file()).expect("the configuration is there")
    }

    /// Writes another text of it, for the next start.
    pub fn configure(&self, text: &str) {
        write_file(self.configuration_file().as_ref(), text);
    }

    /// The file of the configuration, which is the last argument.
    fn configuration_file(&self) -> &str {
        self.command.1.last().expect("a server is told where its configuration is")
    }

    /// Starts the process.
    pub fn start(&mut self) {
        let (program, arguments) = &self.command;
        let mut command = Command::new(program);
        command.args(arguments).current_dir(&self.home);
        self.process = Some(Process::start(self.kind.label(), &mut command, &self.home.join("log")));
    }

    /// Ends the process politely.
    pub fn stop(&mut self) {
        if let Some(mut process) = self.process.take() {
            // What does not end is killed by the drop.
            let _ = process.stop(LONGEST_STOP);
        }
    }

    /// Lets NSD read its zone files again, and waits until it serves them.
    pub fn reload(&mut self, zones: &[Datacenter]) {
        self.process.as_ref().expect("the server has been started").signal(libc::SIGHUP);
        let mut probe = Probe::new(self.address);
        for Datacenter { zone, serial, .. } in zones {
            let process = self.process.as_mut().expect("the server has been started");
            process.wait_ready(&format!("serves {zone} {serial}"), LONGEST_STOP, || {
                // It answers from old processes for a while.
                let current = (0..20).all(|_| probe.serial(zone) == Some(*serial))
                    && (0..5).all(|_| probe.serial_over_tcp(zone) == Some(*serial));
                current.then_some(())
            });
        }
    }

    /// Id of the process and of its group.
    pub fn id(&self) -> u32 {
        self.process.as_ref().expect("the server has been started").id()
    }

    /// Starts the process and waits until all its zones are answered as they are now. The time of that.
    pub fn start_and_wait(&mut self, zones: &[Datacenter], region: &str, longest: Duration) -> Option<Duration> {
        let start = Instant::now();
        self.start();
        self.wait_serving(zones, region, start, longest)
    }

    /// Waits until all zones are answered as they are now, and the region has the last name of each if there is one.
    pub fn wait_serving(
        &mut self,
        zones: &[Datacenter],
        region: &str,
        start: Instant,
        longest: Duration,
    ) -> Option<Duration> {
        let mut probe = Probe::new(self.address);
        let mut waiting: Vec<(&Datacenter, bool)> = match self.kind {
            Kind::Echo => {
                let process = self.process.as_mut().expect("the server has been started");
                process.wait_ready("echoes", longest, || probe.is_echoed().then_some(()));
                return Some(start.elapsed());
            }
            // The region has what it has from all of them.
            Kind::Region => zones.iter().filter(|zone| zone.names() > 0).map(|zone| (zone, true)).collect(),
            _ => Vec::new(),
        };
        waiting.extend(zones.iter().map(|zone| (zone, false)));
        while let Some((zone, in_region)) = waiting.last() {
            let current = if *in_region {
                let last = zone.names() - 1;
                probe.has_address(&format!("{}.{region}", zone.owner(last)), zone.address(last))
            } else {
                probe.serial(&zone.zone) == Some(zone.serial)
            };
            if current {
                waiting.pop();
                continue;
            }
            if start.elapsed() > longest {
                eprintln!("{} does not serve {} after {longest:?}", self.kind.label(), zone.zone);
                return None;
            }
            self.process.as_mut().expect("the server has been started").assert_running();
            std::thread::sleep((start.elapsed() / 200).clamp(Duration::from_micros(100), Duration::from_millis(5)));
        }
        Some(start.elapsed())
    }
}
