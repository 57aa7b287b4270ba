//! All servers of one size, loaded with the same zone: their memory, their starts, and whether they answer alike.
//!
//! One zone has all the records; the region has them from three zones, a third each. A server's memory is what it has with
//! the zones less what it has with zones that are empty. Our program first transfers its zones from NSD, which then goes;
//! its start is from its state folder, that of the others from zone files.
//!
//! Cost: every server starts three times; memory for all of them at once.

use crate::generate::Datacenter;
use crate::harness::Folder;
use crate::memory::{self, Memory};
use crate::question::Questions;
use crate::quiet;
use crate::server::{Kind, Place, Server, Source};
use crate::table::thousands;
use crate::verify;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The zone that has all the records.
pub const ZONE: &str = "us-east-1.cns.example.com";
/// The region and its members.
pub const REGION: &str = "us-west.cns.example.com";
const MEMBERS: [&str; 3] = ["us-west-1.cns.example.com", "us-west-2.cns.example.com", "us-west-3.cns.example.com"];
/// SOA and NS, with which a zone counts as empty.
const EMPTY: usize = 2;
/// How long a server may take to load.
pub const LONGEST: Duration = Duration::from_secs(180);
/// Questions in the list, and of them those that answers are compared on.
const QUESTIONS: usize = 400_000;
pub const SAMPLE: usize = 500;
/// A primary that does not answer: the discard port of loopback.
const NOBODY: SocketAddr = SocketAddr::V4(SocketAddrV4::new(Ipv4Addr::LOCALHOST, 9));

/// Zones and servers of one size.
pub struct Stage {
    pub records: usize,
    /// The zone with all records, then the region's members.
    zones: Vec<Datacenter>,
    /// For the zone, and for the region.
    questions: [Questions; 2],
    pub servers: Vec<Server>,
    program: PathBuf,
    /// Last, so that it goes after the servers in it.
    folder: Folder,
}

/// What starting one server showed.
pub struct Loaded {
    pub kind: Kind,
    /// From the start to the last zone's answer.
    pub start: Option<Duration>,
    /// Octets, and the most at any time while it was loaded.
    pub memory: u64,
    pub highest: u64,
}

impl Stage {
    /// Writes the zones; no server runs yet.
    pub fn new(program: &Path, records: usize) -> Stage {
        let third = |index: usize| (records / 3 + usize::from(index < records % 3)).max(EMPTY);
        let mut zones = vec![Datacenter::new(ZONE, 0, records)];
        zones.extend(MEMBERS.iter().enumerate().map(|(index, zone)| Datacenter::new(zone, index + 1, third(index))));
        let questions = [Questions::new(&zones[..1], ZONE, QUESTIONS), Questions::new(&zones[1..], REGION, QUESTIONS)];
        let (program, folder) = (program.to_path_buf(), Folder::new());
        let stage = Stage { records, zones, questions, servers: Vec::new(), program, folder };
        stage.place().write_zones(&stage.zones);
        stage
    }

    /// One whose zones are empty.
    pub fn empty(program: &Path) -> Stage {
        Stage::new(program, EMPTY)
    }

    /// What the servers have in common.
    fn place(&self) -> Place<'_> {
        Place { folder: &self.folder, program: &self.program, region: REGION }
    }

    /// The zones that a kind of server has.
    fn zones(&self, kind: Kind) -> &[Datacenter] {
        if kind == Kind::Region { self.members() } else { &self.zones[..1] }
    }

    /// The questions for a kind of server.
    pub fn questions(&self, kind: Kind) -> &Questions {
        &self.questions[usize::from(kind == Kind::Region)]
    }

    /// Starts the servers with one thread for UDP.
    pub fn start(&mut self, peers: &[Kind]) -> Vec<Loaded> {
        let transferred = self.transfer(peers);
        let mut all = Vec::new();
        for kind in peers {
            let mut loaded = self.start_one(*kind, 1);
            // With a state folder the transfer takes the more memory of the two.
            if let Some(before) = transferred.iter().find(|before| before.kind == *kind) {
                (loaded.memory, loaded.highest) = (before.memory, before.highest);
            }
            all.push(loaded);
        }
        all
    }

    /// Lets our servers transfer their zones from NSD, which goes again, as they do.
    fn transfer(&self, peers: &[Kind]) -> Vec<Loaded> {
        let ours: Vec<Kind> = peers.iter().copied().filter(|kind| kind.is_ours()).collect();
        if ours.is_empty() {
            return Vec::new();
        }
        let primary = self.start_primary(1);
        let source = Source::Primary(primary.address);
        let transfer = |kind: Kind| {
            eprintln!("{} records: {} transfers", thousands(self.records), kind.label());
            let name = (kind, kind.option());
            let mut server = Server::prepare(name, &self.place(), self.zones(kind), source, 1);
            server.start_and_wait(self.zones(kind), REGION, LONGEST);
            look(&mut server, None)
        };
        ours.into_iter().map(transfer).collect()
    }

    /// Starts NSD with all zones and so many processes.
    pub fn start_primary(&self, processes: usize) -> Server {
        let name = (Kind::Nsd, "primary");
        let mut primary = Server::prepare(name, &self.place(), &self.zones, Source::Files, processes);
        primary.start_and_wait(&self.zones, REGION, LONGEST);
        primary
    }

    /// A server that will transfer the region's members and has nothing yet.
    pub fn prepare_secondary(&self, kind: Kind, primary: &Server) -> Server {
        let name = format!("{}-secondary", kind.option());
        // What an earlier run has kept would be believed.
        let _ = std::fs::remove_dir_all(self.folder.path().join(&name));
        Server::prepare((kind, &name), &self.place(), self.members(), Source::Primary(primary.address), 1)
    }

    /// The region's members.
    pub fn members(&self) -> &[Datacenter] {
        &self.zones[1..]
    }

    /// Changes a name of a member, in its zone file, too.
    pub fn change_member(&mut self, member: usize, name: usize) {
        self.zones[1 + member].change(name, 1);
        self.place().write_zones(&self.zones[1 + member..2 + member]);
    }

    /// Starts a server and keeps it.
    fn start_one(&mut self, kind: Kind, threads: usize) -> Loaded {
        eprintln!("{} records: {} starts, {threads} thread(s)", thousands(self.records), kind.label());
        // Nobody is there to be asked: ours have their zones on disk.
        let source = if kind.is_ours() { Source::Primary(NOBODY) } else { Source::Files };
        let mut server = Server::prepare((kind, kind.option()), &self.place(), self.zones(kind), source, threads);
        let start = server.start_and_wait(self.zones(kind), REGION, LONGEST);
        let loaded = look(&mut server, start);
        self.servers.push(server);
        loaded
    }

    /// Starts a server again with another text of its configuration.
    pub fn restart_as(&mut self, index: usize, configuration: &str) {
        let mut server = self.servers.remove(index);
        server.stop();
        server.configure(configuration);
        server.start_and_wait(self.zones(server.kind), REGION, LONGEST);
        self.servers.insert(index, server);
    }

    /// Starts all servers again with another number of threads.
    pub fn restart(&mut self, threads: usize) {
        for mut server in std::mem::take(&mut self.servers) {
            server.stop();
            self.start_one(server.kind, threads);
        }
    }

    /// How many of a sample of the questions each server answers like Knot, other than the echo and the region.
    pub fn compare(&self) -> Vec<(Kind, usize)> {
        let asked = |server: &&Server| !matches!(server.kind, Kind::Echo | Kind::Region);
        let Some(knot) = self.servers.iter().find(|server| server.kind == Kind::Knot) else { return Vec::new() };
        let expected = verify::sample(knot.address, self.questions(Kind::Knot), SAMPLE);
        let count = |server: &Server| {
            let said = verify::sample(server.address, self.questions(server.kind), SAMPLE);
            let alike = said.iter().zip(&expected).filter(|(said, expected)| said.is_some() && said == expected);
            (server.kind, alike.count())
        };
        self.servers.iter().filter(asked).map(count).collect()
    }
}

/// A server's memory when it has nothing left to do.
fn look(server: &mut Server, start: Option<Duration>) -> Loaded {
    quiet::wait_quiet(&[server.id()]);
    let (memory, highest) = (memory::of_group(server.id()), Memory::take(server.id()).highest * 1024);
    Loaded { kind: server.kind, start, memory, highest }
}
