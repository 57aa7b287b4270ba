//! Common parts of the three real name servers as secondaries: one primary, zones or a catalog of zones, keys.

use super::folder::write_file;
use super::peer::program_path;
use super::{Client, Dname, Folder, Port, Process, Query, Record, rtype};
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// Longest time that a secondary may take for a request; none of them hurries with everything.
const PATIENCE: Duration = Duration::from_secs(40);

/// A TSIG key in the words of configurations.
#[derive(Clone, Debug)]
pub struct TsigKey {
    /// Name of the key, without a final dot.
    pub name: String,
    /// Algorithm, such as `hmac-sha256`.
    pub algorithm: String,
    /// Base64.
    pub secret: String,
}

impl TsigKey {
    /// A key of HMAC-SHA-256 with a secret in base64.
    pub fn new(name: &str, secret: &str) -> TsigKey {
        TsigKey { name: name.to_string(), algorithm: "hmac-sha256".to_string(), secret: secret.to_string() }
    }
}

/// Zones that a secondary follows, and the way in which it does.
#[derive(Clone, Debug)]
pub struct SecondaryPlan {
    pub primary: SocketAddr,
    /// Another primary with the same zones, at another IP address.
    pub other_primary: Option<SocketAddr>,
    /// Signs its requests for the serial and for transfers.
    pub transfer_key: Option<TsigKey>,
    /// Key that announcements must be signed with; they come from 127.0.0.1 in any case.
    pub notify_key: Option<TsigKey>,
    pub zones: Vec<Dname>,
    /// The catalog whose members it takes up, from the same primary.
    pub catalog: Option<Dname>,
    /// Name and authority of the primary's certificate, if it is asked over TLS.
    pub tls: Option<(String, PathBuf)>,
    /// Its own certificate and key, which it shows over TLS.
    pub certificate: Option<(PathBuf, PathBuf)>,
}

impl SecondaryPlan {
    /// Zones of a primary, without keys and catalog.
    pub fn new(primary: SocketAddr, zones: &[&Dname]) -> SecondaryPlan {
        let zones = zones.iter().copied().cloned().collect();
        SecondaryPlan {
            primary,
            other_primary: None,
            transfer_key: None,
            notify_key: None,
            zones,
            catalog: None,
            tls: None,
            certificate: None,
        }
    }

    /// Returns the plan with one key for everything.
    pub fn with_key(mut self, key: &TsigKey) -> SecondaryPlan {
        self.transfer_key = Some(key.clone());
        self.notify_key = Some(key.clone());
        self
    }

    /// Returns the plan with another primary, which announces changes from its own address.
    pub fn with_other_primary(mut self, primary: SocketAddr) -> SecondaryPlan {
        self.other_primary = Some(primary);
        self
    }

    /// Returns the plan with transfers over TLS.
    pub fn with_tls(mut self, name: &str, ca: &Path) -> SecondaryPlan {
        self.tls = Some((name.to_string(), ca.to_path_buf()));
        self
    }

    /// Returns the plan with a certificate of the secondary's own.
    pub fn with_certificate(mut self, certificate: &Path, key: &Path) -> SecondaryPlan {
        self.certificate = Some((certificate.to_path_buf(), key.to_path_buf()));
        self
    }

    /// All primaries.
    pub fn primaries(&self) -> impl Iterator<Item = SocketAddr> {
        std::iter::once(self.primary).chain(self.other_primary)
    }

    /// Returns the plan with the members of a catalog.
    pub fn with_catalog(mut self, catalog: &Dname) -> SecondaryPlan {
        self.catalog = Some(catalog.clone());
        self
    }

    /// Every key once, for the part of a configuration that lists them.
    pub fn keys(&self) -> Vec<&TsigKey> {
        let mut keys: Vec<&TsigKey> = self.transfer_key.iter().chain(&self.notify_key).collect();
        keys.dedup_by(|a, b| a.name == b.name);
        keys
    }
}

/// Configuration and start of one kind of server as a secondary.
pub struct SecondaryKind {
    pub program: &'static str,
    /// Writes the configuration from the server's folder, its address and its plan.
    pub configure: fn(&Path, SocketAddr, &SecondaryPlan) -> String,
    /// Arguments, given the path of the configuration.
    pub arguments: fn(&Path) -> Vec<String>,
}

/// A running secondary that lets 127.0.0.1 transfer what it has.
pub struct Secondary {
    name: &'static str,
    address: SocketAddr,
    process: Process,
}

impl Secondary {
    /// Starts a server and waits until it answers at all; what it has by then is another matter.
    pub fn start(kind: &SecondaryKind, folder: &Folder, plan: &SecondaryPlan) -> Secondary {
        let mut port = Port::reserve();
        let home = folder.subfolder(&format!("secondary-{}-{}", kind.program, port.address().port()));
        let configuration = home.join("server.conf");
        write_file(&configuration, &(kind.configure)(&home, port.address(), plan));
        let mut command = Command::new(program_path(kind.program));
        command.args((kind.arguments)(&configuration)).current_dir(&home);
        let address = port.release();
        let process = Process::start(kind.program, &mut command, &home.join("log"));
        let mut secondary = Secondary { name: kind.program, address, process };
        let mut client = secondary.client();
        let query = Query::new(&Dname::parse("outside.test."), rtype::SOA);
        secondary.process.wait_ready("answers", Duration::from_secs(30), || client.ask(&query).ok());
        secondary
    }

    /// Returns the address that the server listens on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Name of the program.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// A client with little patience, for questions that are asked again.
    fn client(&self) -> Client {
        Client::new(self.address).with_deadline(Duration::from_millis(500))
    }

    /// The serial of a zone, `None` when the server does not answer with authority.
    pub fn serial(&self, zone: &Dname) -> Option<u32> {
        self.client().serial(zone)
    }

    /// Waits until the server has this version of a zone.
    pub fn wait_for_serial(&mut self, zone: &Dname, serial: u32) {
        let mut client = self.client();
        self.process.wait_ready(&format!("has {zone} with serial {serial}"), PATIENCE, || {
            (client.serial(zone) == Some(serial)).then_some(())
        });
    }

    /// Waits until the server has let go of a zone: questions for it are refused, or what is above it answers.
    pub fn wait_gone(&mut self, zone: &Dname) {
        let mut client = self.client();
        let query = Query::new(zone, rtype::SOA);
        self.process.wait_ready(&format!("has {zone} no more"), PATIENCE, || {
            let answer = client.ask(&query).ok()?;
            let refused = answer.rcode() == 5;
            (refused || answer.answer.is_empty() && answer.is_authoritative()).then_some(())
        });
    }

    /// The whole zone as the server transfers it, in canonical form and order.
    pub fn fetch(&self, zone: &Dname) -> Vec<Record> {
        let fetched = self.try_fetch(zone);
        fetched.unwrap_or_else(|error| panic!("{} does not transfer {zone}: {error}", self.name))
    }

    /// Fetches a zone while the server may be in the middle of something; an error is no failure of the test.
    pub fn try_fetch(&self, zone: &Dname) -> io::Result<Vec<Record>> {
        let records = Client::new(self.address).transfer(zone)?;
        let mut records: Vec<Record> = records.iter().map(Record::canonical).collect();
        records.sort();
        Ok(records)
    }

    /// Returns a zone as text, one record a line: equal zones have equal texts.
    pub fn fetch_text(&self, zone: &Dname) -> String {
        super::write_zone(&self.fetch(zone))
    }

    /// Returns all that the server has logged so far.
    pub fn log_text(&self) -> String {
        self.process.log_text()
    }
}
