//! NSD as the primary of the datacenters' zones, with differences for IXFR.
//!
//! NSD makes the differences itself when it reads a zone file again (`create-ixfr`). It answers from old processes for a
//! while beside new ones, so a version counts as served when many answers in a row, over UDP and TCP, have it.
//!
//! Cost: writing and loading a zone, O(records); not part of any figure.

use crate::generate::Datacenter;
use crate::harness::{Folder, Port, Process, write_file};
use crate::probe::Probe;
use std::fmt::Write as _;
use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// Answers with the new version, over UDP and over TCP, that must come in a row.
const IN_A_ROW: (usize, usize) = (20, 5);
/// How long loading a zone may take.
const LONGEST: Duration = Duration::from_secs(120);

/// A running NSD.
pub struct Primary {
    process: Process,
    address: SocketAddr,
    home: PathBuf,
}

impl Primary {
    /// Starts NSD with these zones and waits until it serves all of them.
    pub fn start(folder: &Folder, datacenters: &[Datacenter]) -> Primary {
        let home = folder.subfolder("nsd");
        let mut port = Port::reserve();
        let file = home.join("nsd.conf");
        write_file(&file, &configuration(&home, port.address().port(), datacenters));
        datacenters.iter().for_each(|datacenter| write_zone(&home, datacenter));
        let mut command = Command::new("nsd");
        command.args(["-d", "-c"]).arg(&file).current_dir(&home);
        let address = port.release();
        let process = Process::start("nsd", &mut command, &home.join("log"));
        let mut primary = Primary { process, address, home };
        datacenters.iter().for_each(|datacenter| primary.wait_serving(datacenter));
        primary
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Id of the process and of its group.
    pub fn id(&self) -> u32 {
        self.process.id()
    }

    /// Takes over a new version of a zone, and returns when it serves nothing else.
    pub fn update(&mut self, datacenter: &Datacenter) {
        write_zone(&self.home, datacenter);
        self.process.signal(libc::SIGHUP);
        self.wait_serving(datacenter);
    }

    /// Waits until every answer has the version.
    fn wait_serving(&mut self, datacenter: &Datacenter) {
        let Datacenter { zone, serial, .. } = datacenter;
        let mut probe = Probe::new(self.address);
        self.process.wait_ready(&format!("serves {zone} {serial}"), LONGEST, || {
            let current = (0..IN_A_ROW.0).all(|_| probe.serial(zone) == Some(*serial))
                && (0..IN_A_ROW.1).all(|_| probe.serial_over_tcp(zone) == Some(*serial));
            current.then_some(())
        });
    }
}

/// Zone files are named like their zones.
fn zone_file(home: &Path, zone: &str) -> PathBuf {
    home.join(format!("{zone}.zone"))
}

/// Replaces a zone file in one step.
fn write_zone(home: &Path, datacenter: &Datacenter) {
    let file = zone_file(home, &datacenter.zone);
    let fresh = file.with_extension("new");
    let mut out = BufWriter::with_capacity(1 << 20, File::create(&fresh).expect("the folder can be written"));
    datacenter.write(&mut out).and_then(|()| out.flush()).expect("there is room for a zone file");
    std::fs::rename(&fresh, &file).expect("rename within a folder");
}

/// Without a limit of the response rate, which Debian builds in, and with differences of any size.
fn configuration(home: &Path, port: u16, datacenters: &[Datacenter]) -> String {
    let home_text = home.display();
    let mut text = format!(
        "server:\n ip-address: 127.0.0.1@{port}\n port: {port}\n server-count: 1\n database: \"\"\n username: \"\"\n \
         chroot: \"\"\n zonesdir: \"{home_text}\"\n zonelistfile: \"{home_text}/zone.list\"\n \
         pidfile: \"{home_text}/nsd.pid\"\n xfrdfile: \"{home_text}/xfrd.state\"\n xfrdir: \"{home_text}\"\n \
         rrl-ratelimit: 0\n rrl-whitelist-ratelimit: 0\n minimal-responses: yes\n zonefiles-check: yes\n \
         zonefiles-write: 0\n verbosity: 0\nremote-control:\n control-enable: no\n"
    );
    for Datacenter { zone, .. } in datacenters {
        let file = zone_file(home, zone);
        write!(
            text,
            "zone:\n name: \"{zone}\"\n zonefile: \"{}\"\n provide-xfr: 127.0.0.1 NOKEY\n store-ixfr: yes\n \
             create-ixfr: yes\n ixfr-size: 0\n",
            file.display()
        )
        .expect("a string takes all");
    }
    text
}
