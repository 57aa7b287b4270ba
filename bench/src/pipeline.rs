//! The reference: `dig AXFR | sed`, a new serial, and `rndc reload` of a BIND that serves the region.
//!
//! It is treated well: dig asks the primary directly, so that BIND need not be a secondary of the datacenters, too; sed
//! works on octets; BIND leaves out its checks. Cron's wait is not counted.
//!
//! Cost: O(records) for any change, which is what the figures show.

use crate::generate::Datacenter;
use crate::harness::{Folder, Port, Process, write_file};
use crate::probe::Probe;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// The steps as a shell would do them.
const SCRIPT: &str = include_str!("pipeline.sh");
/// How long loading the region may take.
const LONGEST: Duration = Duration::from_secs(120);

/// BIND with the region, and what the pipeline needs.
pub struct Pipeline {
    home: PathBuf,
    region: String,
    zones: Vec<String>,
    primary: SocketAddr,
    address: SocketAddr,
    control: u16,
    serial: u32,
    process: Option<Process>,
}

impl Pipeline {
    /// Makes the region's first version and starts BIND with it.
    pub fn start(folder: &Folder, region: &str, members: &[Datacenter], primary: SocketAddr) -> Pipeline {
        let home = folder.subfolder("named");
        let mut ports = [Port::reserve(), Port::reserve()];
        let [address, control] = [ports[0].address(), ports[1].address()];
        write_file(&home.join("pipeline.sh"), SCRIPT);
        write_file(&home.join("named.conf"), &configuration(&home, address.port(), control.port(), region));
        let mut confgen = Command::new("rndc-confgen");
        let confgen = confgen.args(["-a", "-c"]).arg(home.join("rndc.key")).stdout(Stdio::null()).stderr(Stdio::null());
        assert!(confgen.status().is_ok_and(|status| status.success()), "rndc-confgen makes a key");
        let zones = members.iter().map(|member| member.zone.clone()).collect();
        let (region, control) = (region.to_string(), control.port());
        let mut pipeline = Pipeline { home, region, zones, primary, address, control, serial: 0, process: None };
        pipeline.run("true").wait().expect("the shell has been started");
        pipeline.check_file(members);
        ports.iter_mut().for_each(|port| _ = port.release());
        pipeline.start_again();
        pipeline.wait_serving();
        pipeline
    }

    /// Where BIND listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Id of BIND's process and of its group.
    pub fn id(&self) -> u32 {
        self.process.as_ref().expect("BIND runs but during a restart").id()
    }

    /// Starts the pipeline for a change, and does not wait for its end.
    pub fn spawn(&mut self) -> Child {
        let reload = format!("rndc -s 127.0.0.1 -p {} -k rndc.key reload {}", self.control, self.region);
        self.run(&reload)
    }

    /// Starts BIND with the files that are there.
    pub fn start_again(&mut self) {
        let mut command = Command::new("named");
        command.args(["-g", "-c", "named.conf"]).current_dir(&self.home);
        self.process = Some(Process::start("named", &mut command, &self.home.join("log")));
    }

    /// Ends BIND politely.
    pub fn stop(&mut self) {
        let mut process = self.process.take().expect("BIND runs but during a restart");
        process.stop(LONGEST).expect("BIND ends when it is asked to");
    }

    /// Starts the script with a command that reloads.
    fn run(&mut self, reload: &str) -> Child {
        self.serial += 1;
        let mut command = Command::new("sh");
        command.arg("pipeline.sh").arg(self.primary.ip().to_string()).arg(self.primary.port().to_string());
        command.arg(&self.region).arg(self.serial.to_string()).args(["region.zone", reload]).args(&self.zones);
        // rndc says on stdout that it has queued the reload; our stdout is for tables.
        let child = command.current_dir(&self.home).stdin(Stdio::null()).stdout(Stdio::null()).spawn();
        child.expect("every system has a shell")
    }

    /// Demands that the script has lost nothing.
    fn check_file(&self, members: &[Datacenter]) {
        let text = std::fs::read(self.home.join("region.zone")).expect("the script writes the region's file");
        let lines = text.iter().filter(|octet| **octet == b'\n').count();
        // Without SOA and NS of the members, with those of the region.
        let expected: usize = 2 + members.iter().map(|member| member.records() - 2).sum::<usize>();
        assert_eq!(lines, expected, "the pipeline's file has the records of all datacenters");
    }

    /// Waits until BIND answers for the region.
    fn wait_serving(&mut self) {
        let (mut probe, region) = (Probe::new(self.address), self.region.clone());
        let process = self.process.as_mut().expect("started before");
        process.wait_ready("serves the region", LONGEST, || probe.serial(&region));
    }
}

/// Services have more instances than the hundred records of a set that BIND allows by itself.
fn configuration(home: &Path, port: u16, control: u16, region: &str) -> String {
    let home = home.display();
    format!(
        "include \"{home}/rndc.key\";\ncontrols {{ inet 127.0.0.1 port {control} allow {{ 127.0.0.1; }} keys {{ \
         \"rndc-key\"; }}; }};\noptions {{\n directory \"{home}\";\n listen-on port {port} {{ 127.0.0.1; }};\n \
         listen-on-v6 {{ none; }};\n pid-file none;\n lock-file none;\n session-keyfile none;\n \
         managed-keys-directory \"{home}\";\n recursion no;\n notify no;\n minimal-responses yes;\n \
         dnssec-validation no;\n empty-zones-enable no;\n check-integrity no;\n max-records-per-type 0;\n \
         max-types-per-name 0;\n}};\nzone \"{region}\" {{ type primary; file \"{home}/region.zone\"; check-names \
         ignore; }};\n"
    )
}
