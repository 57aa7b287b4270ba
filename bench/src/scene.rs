//! One size of zone with everything that is measured on it: NSD, our daemon, and the reference pipeline with BIND.
//!
//! The first datacenter has the zone that changes; the others are small, and share accounts and services with it.
//!
//! Cost: starting loads everything once; memory for three zones in NSD, in us, and in BIND.

use crate::daemon::{Daemon, plan_region};
use crate::generate::Datacenter;
use crate::harness::Folder;
use crate::pipeline::Pipeline;
use crate::primary::Primary;
use crate::probe::Probe;
use crate::quiet;
use std::path::Path;
use std::time::{Duration, Instant};

/// The region's name.
pub const REGION: &str = "us-west.cns.example.com";
/// Records of the datacenters that do not change.
pub const RECORDS_OF_OTHERS: usize = 1_000;
/// What is compared, in the order of probes and figures.
pub const SERVERS: [&str; 2] = ["aggregator", "BIND"];
/// How long anything that is timed may take before the bench gives up.
pub const LONGEST: Duration = Duration::from_secs(120);

/// The servers of one size.
pub struct Scene {
    pub datacenters: Vec<Datacenter>,
    /// None once it was taken away.
    pub primary: Option<Primary>,
    pub daemon: Daemon,
    pub pipeline: Pipeline,
    /// Clients of the daemon and of BIND.
    pub probes: [Probe; 2],
    /// Last, so that it goes after the servers in it.
    _folder: Folder,
}

impl Scene {
    /// Starts all servers and waits until both regions are served.
    pub fn start(program: &Path, records: usize) -> Scene {
        let folder = Folder::new();
        let sizes = [records, RECORDS_OF_OTHERS, RECORDS_OF_OTHERS];
        let datacenters: Vec<Datacenter> = sizes
            .into_iter()
            .enumerate()
            .map(|(index, records)| Datacenter::new(&format!("us-west-{}.cns.example.com", index + 1), index, records))
            .collect();
        let primary = Primary::start(&folder, &datacenters);
        let daemon = Daemon::start(&folder, program, &plan_region(REGION, &datacenters, primary.address()));
        let pipeline = Pipeline::start(&folder, REGION, &datacenters, primary.address());
        let probes = [Probe::new(daemon.address()), Probe::new(pipeline.address())];
        let mut scene = Scene { datacenters, primary: Some(primary), daemon, pipeline, probes, _folder: folder };
        for (index, server) in SERVERS.iter().enumerate() {
            let time = scene.time_until_current(index, 0, Instant::now());
            assert!(time.is_some(), "{server} loads the region");
        }
        scene.wait_quiet();
        scene
    }

    /// The time from `start` until a region (0 ours, 1 BIND's) answers for a name as the first datacenter has it now.
    /// None when it does not come to that.
    pub fn time_until_current(&mut self, server: usize, name: usize, start: Instant) -> Option<Duration> {
        let (owner, address) = self.expected(name);
        let time = self.probes[server].time_until(&owner, address, start, LONGEST);
        if time.is_none() {
            eprintln!("{} has no address {address} for {owner} after {LONGEST:?}", SERVERS[server]);
        }
        time
    }

    /// Demands that a region answers for all these names as the first datacenter has them now.
    pub fn check(&mut self, server: usize, names: impl IntoIterator<Item = usize>) {
        for name in names {
            let (owner, address) = self.expected(name);
            assert!(
                self.probes[server].has_address(&owner, address),
                "{owner} is not {address} at {}",
                SERVERS[server]
            );
        }
    }

    /// Waits until no server has anything left to do.
    pub fn wait_quiet(&self) {
        let primary = self.primary.iter().map(Primary::id);
        quiet::wait_quiet(&primary.chain([self.daemon.id(), self.pipeline.id()]).collect::<Vec<_>>());
    }

    /// A name in the region and its address.
    fn expected(&self, name: usize) -> (String, std::net::Ipv4Addr) {
        let changing = &self.datacenters[0];
        (format!("{}.{REGION}", changing.owner(name)), changing.address(name))
    }
}
