//! Our program as it is measured: the release build, with a region of all datacenters or with a tree of ZooKeeper's.
//!
//! Cost: starting is part of what `restart` measures.

use crate::generate::Datacenter;
use crate::harness::{Folder, Port, Process, write_file};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// How long writing the last state and ending may take.
const LONGEST_STOP: Duration = Duration::from_secs(60);

/// The daemon, running or not.
pub struct Daemon {
    program: PathBuf,
    home: PathBuf,
    address: SocketAddr,
    /// Address of the page and of `/metrics`.
    page: Option<SocketAddr>,
    process: Option<Process>,
}

impl Daemon {
    /// Writes the configuration and starts the daemon; nothing is loaded yet.
    pub fn start(folder: &Folder, program: &Path, plan: &str) -> Daemon {
        Daemon::start_shown(folder, program, plan, None)
    }

    /// The same, with a page at an address.
    pub fn start_shown(folder: &Folder, program: &Path, plan: &str, page: Option<SocketAddr>) -> Daemon {
        let home = folder.subfolder("aggregator");
        let address = Port::reserve().release();
        let mut daemon = Daemon { program: program.to_path_buf(), home, address, page, process: None };
        daemon.configure(plan);
        daemon.start_again();
        daemon
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Id of the process and of its group.
    pub fn id(&self) -> u32 {
        self.process.as_ref().expect("the daemon runs but during a restart").id()
    }

    /// How many transfers of zones have been taken over so far as differences, by its log.
    pub fn incremental_transfers(&self) -> usize {
        let log = self.process.as_ref().map(Process::log_text).unwrap_or_default();
        log.lines().filter(|line| line.contains("zone transferred") && line.contains("kind=\"ixfr\"")).count()
    }

    /// How long the newest transfer waited for the primary's answers, by the log.
    pub fn waited(&self) -> Option<Duration> {
        let log = self.process.as_ref().map(Process::log_text).unwrap_or_default();
        let line = log.lines().rev().find(|line| line.contains("zone transferred"))?;
        let number = line.split("waited_us=").nth(1)?.split_whitespace().next()?;
        number.parse().ok().map(Duration::from_micros)
    }

    /// Writes another configuration, for the next start or reload.
    pub fn configure(&self, plan: &str) {
        write_file(&self.home.join("aggregator.toml"), &configuration(self.address, self.page, plan));
    }

    /// Octets that the daemon accounts for under a part of its budget.
    pub fn accounted(&self, part: &str) -> u64 {
        let text = self.verb(&["status", "--json"]);
        let number = text.split("\"memory\":").nth(1).and_then(|memory| memory.split(&format!("\"{part}\":")).nth(1));
        let digits = number.map(|rest| rest.trim_start().chars().take_while(char::is_ascii_digit).collect::<String>());
        digits.and_then(|digits| digits.parse().ok()).expect("the status tells of memory")
    }

    /// Number of records of a zone.
    pub fn records(&self, zone: &str) -> u64 {
        let text = self.verb(&["status", zone, "--json"]);
        let number = text.split("\"records\":").nth(1).map(str::trim_start);
        let digits = number.map(|rest| rest.chars().take_while(char::is_ascii_digit).collect::<String>());
        digits.and_then(|digits| digits.parse().ok()).expect("the status tells of records")
    }

    /// Has the configuration read again; the time until the operator hears of it.
    pub fn reload(&self) -> Duration {
        let start = Instant::now();
        self.verb(&["reload"]);
        start.elapsed()
    }

    /// Gives the daemon an order, and returns what is said.
    pub fn verb(&self, words: &[&str]) -> String {
        let mut command = Command::new(&self.program);
        command.args(words).args(["-c", "aggregator.toml"]).current_dir(&self.home);
        let output = command.output().expect("the program can be started");
        assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// Starts the process with the configuration that is there.
    pub fn start_again(&mut self) {
        let mut command = Command::new(&self.program);
        command.args(["run", "-c", "aggregator.toml"]).current_dir(&self.home);
        self.process = Some(Process::start("aggregator", &mut command, &self.home.join("log")));
    }

    /// Ends the process at once, without a chance to do anything.
    pub fn kill(&mut self) {
        let mut process = self.process.take().expect("the daemon runs but during a restart");
        process.kill();
    }

    /// The folder of what outlives the process.
    pub fn state_folder(&self) -> PathBuf {
        self.home.join("state")
    }

    /// Ends the process politely.
    pub fn stop(&mut self) {
        let mut process = self.process.take().expect("the daemon runs but during a restart");
        process.stop(LONGEST_STOP).expect("the daemon ends when it is asked to");
    }
}

/// A region of datacenters. Changes come by NOTIFY alone: no poll, no audit falls into a measurement.
pub fn plan_region(region: &str, members: &[Datacenter], primary: SocketAddr) -> String {
    let zones: String = members.iter().map(|member| format!("\"{}\" = \"{primary}\"\n", member.zone)).collect();
    let members: Vec<String> = members.iter().map(|member| format!("\"{}\"", member.zone)).collect();
    let members = members.join(", ");
    format!(
        "[zones]\n{zones}\n[aggregations]\n\"{region}\" = [{members}]\n\n\
         [transfer]\nrefresh_min = \"1d\"\naudit = \"never\"\n"
    )
}

/// The whole configuration around a plan, which may begin with more of the server. The load comes from loopback, which is
/// exempt from the limit on responses.
fn configuration(address: SocketAddr, page: Option<SocketAddr>, plan: &str) -> String {
    let page: Vec<String> = page.iter().map(SocketAddr::to_string).collect();
    format!(
        "[state]\nfolder = \"state\"\n\n[metrics]\nlisten = {page:?}\n\n[control]\nsocket = \"control\"\n\n\
         [rate_limit]\nexempt = [\"127.0.0.0/8\"]\n\n[server]\nname = \"ns1.example.com\"\nlisten = [\"{address}\"]\n{plan}"
    )
}
