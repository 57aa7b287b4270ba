//! Common parts of the three real name servers: zone files, a port, reload by SIGHUP.

use super::folder::write_file;
use super::{Client, Dname, Folder, Port, Process, Query, Record, difference, rtype, wait_until, write_zone};
use std::collections::HashMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// The key that incremental peers know, and its secret in base64.
pub const KEY_NAME: &str = "transfer.test.";
pub const KEY_SECRET: &str = "TWF5IHRoZSBzb3VyY2UgYmUgd2l0aCB5b3UsIGFsd2F5cy4=";

/// The secret of server cookies that peers with cookies have.
pub const COOKIE_SECRET: &str = "e5e973e5a6b2a43f48e7dc849e37bfcf";

/// A zone for a peer: its name and its text.
pub type ZoneText = (Dname, String);

/// Configuration and start of one kind of server.
pub struct Kind {
    /// Name of the program.
    pub program: &'static str,
    /// Writes the configuration from the server's folder, its address and its zones (name and file).
    pub configure: fn(&Path, SocketAddr, &[(Dname, PathBuf)]) -> String,
    /// Arguments, given the path of the configuration.
    pub arguments: fn(&Path) -> Vec<String>,
}

/// A running primary that allows transfers from 127.0.0.1.
pub struct Peer {
    name: &'static str,
    address: SocketAddr,
    process: Process,
    files: HashMap<Dname, PathBuf>,
}

impl Peer {
    /// Starts a server and waits until it answers for all zones.
    pub fn start(kind: &Kind, folder: &Folder, zones: &[ZoneText]) -> Peer {
        let mut port = Port::reserve();
        let home = folder.subfolder(&format!("{}-{}", kind.program, port.address().port()));
        let mut files = Vec::new();
        for (index, (zone, text)) in zones.iter().enumerate() {
            // Files are numbered, because zone names may hold octets that file names may not.
            let path = home.join(format!("{index}.zone"));
            write_file(&path, text);
            files.push((zone.clone(), path));
        }
        let configuration = home.join("server.conf");
        write_file(&configuration, &(kind.configure)(&home, port.address(), &files));
        let mut command = Command::new(program_path(kind.program));
        command.args((kind.arguments)(&configuration)).current_dir(&home);
        let address = port.release();
        let process = Process::start(kind.program, &mut command, &home.join("log"));
        let mut peer = Peer { name: kind.program, address, process, files: files.into_iter().collect() };
        peer.wait_serving(zones);
        peer
    }

    /// Returns the address that the server listens on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Name of the program.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Replaces a zone by one with another serial, and waits until the server answers and transfers nothing else.
    pub fn replace_zone(&self, zone: &Dname, records: &[Record]) {
        let soa = records.iter().find(|record| record.rtype == rtype::SOA).expect("SOA");
        write_file(&self.files[zone], &write_zone(records));
        let mut client = Client::new(self.address);
        let mut attempts = 0;
        wait_until(&format!("{} serves the new {zone}", self.name), Duration::from_secs(20), || {
            // A signal that meets a reload under way may be lost: it is sent again from time to time.
            if attempts % 100 == 0 {
                self.process.signal(libc::SIGHUP);
            }
            attempts += 1;
            // NSD answers from the old processes for a while beside the new ones.
            let is_new = client.serial(zone) == Some(soa.serial())
                && client.transfer(zone).is_ok_and(|transferred| difference(records, &transferred).is_none());
            is_new.then_some(())
        });
    }

    /// Waits until every zone is answered with authority.
    fn wait_serving(&mut self, zones: &[ZoneText]) {
        let mut client = Client::new(self.address).with_deadline(Duration::from_millis(500));
        for (zone, _) in zones {
            self.process.wait_ready(&format!("answers for {zone}"), Duration::from_secs(30), || {
                let answer = client.ask(&Query::new(zone, rtype::SOA)).ok()?;
                (answer.is_authoritative() && answer.rcode() == 0).then_some(())
            });
        }
    }
}

/// Servers lie where ordinary users often do not search.
pub fn program_path(program: &str) -> PathBuf {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain(["/usr/sbin", "/usr/local/sbin", "/sbin"].map(PathBuf::from));
    let found = folders.map(|folder| folder.join(program)).find(|candidate| candidate.is_file());
    found.unwrap_or_else(|| panic!("{program} is not installed; run `make test`, which installs it"))
}
