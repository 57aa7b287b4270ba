//! Our daemon as a child process.

use super::folder::write_file;
use super::process::run;
use super::{Dname, Folder, Port, Process, Record, read_zone};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::time::Duration;

/// Result of a verb: exit code and output.
#[derive(Debug)]
pub struct Output {
    /// Exit code; -1 when a signal ended it.
    pub code: i32,
    pub stdout: String,
    pub stderr: String,
}

impl Output {
    /// What a process has printed, as text.
    pub fn of(output: &std::process::Output) -> Output {
        Output {
            code: output.status.code().unwrap_or(-1),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }
}

/// Settings of a configuration besides ports and paths.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The server's name.
    pub name: String,
    /// The listen addresses; `{port}` stands for the daemon's port.
    pub listen: Vec<String>,
    /// Further lines of `[server]`.
    pub server: String,
    /// The folder of `[state]`, relative to the daemon's; none switches it off.
    pub state: Option<String>,
    /// The part that follows `[server]`, `[state]`, `[metrics]`, `[control]` and `[log]`.
    pub plan: String,
    /// Variables of the daemon's environment beside our own.
    pub environment: Vec<(&'static str, String)>,
}

impl Settings {
    /// A server on 127.0.0.1 with a plan, nothing on disk, and defaults for all else.
    pub fn new(plan: &str) -> Settings {
        let listen = vec!["127.0.0.1:{port}".to_string()];
        let (name, plan) = ("ns1.test".to_string(), plan.to_string());
        Settings { name, listen, server: String::new(), state: None, plan, environment: Vec::new() }
    }
}

/// A running daemon with its own configuration, control socket and metrics port.
pub struct Aggregator {
    process: Process,
    configuration: PathBuf,
    socket: PathBuf,
    address: SocketAddr,
    metrics: SocketAddr,
    environment: Vec<(&'static str, String)>,
}

impl Aggregator {
    /// Starts the daemon and waits until it answers `status`.
    ///
    /// `plan` is the part of the configuration that follows `[server]`, `[state]`, `[metrics]`, `[control]` and
    /// `[log]`.
    pub fn start(folder: &Folder, plan: &str) -> Aggregator {
        Aggregator::start_in(&folder.subfolder("aggregator"), plan)
    }

    /// Starts the daemon with its files in a folder of its own.
    pub fn start_in(home: &Path, plan: &str) -> Aggregator {
        Aggregator::start_with(home, &Settings::new(plan))
    }

    /// Starts the daemon with its files in a folder of its own and other settings of the server.
    pub fn start_with(home: &Path, settings: &Settings) -> Aggregator {
        Aggregator::start_limited(home, settings, None)
    }

    /// Starts the daemon with a limit on open files, which it cannot raise.
    pub fn start_limited(home: &Path, settings: &Settings, open_files: Option<u64>) -> Aggregator {
        let mut ports = [Port::reserve(), Port::reserve()];
        let (address, metrics) = (ports[0].address(), ports[1].address());
        let (configuration, socket) = (home.join("aggregator.toml"), home.join("control"));
        write_file(&configuration, &configuration_text(address.port(), metrics, &socket, settings));
        for port in &mut ports {
            port.release();
        }
        let environment = settings.environment.clone();
        let process = start_process(&configuration, open_files, &environment);
        let mut daemon = Aggregator { process, configuration, socket, address, metrics, environment };
        daemon.wait_ready();
        daemon
    }

    /// Waits until the daemon answers `status`.
    fn wait_ready(&mut self) {
        let configuration = self.configuration.clone();
        self.process.wait_ready("answers status", Duration::from_secs(20), || {
            (run_verb(&["status", "--json"], &configuration).code == 0).then_some(())
        });
    }

    /// Kills the daemon with SIGKILL and, after `meanwhile`, starts it again as it was configured.
    pub fn kill_and_restart(&mut self, meanwhile: impl FnOnce()) {
        self.process.kill();
        meanwhile();
        self.process = start_process(&self.configuration, None, &self.environment);
        self.wait_ready();
    }

    /// Returns the address that DNS is served at.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the address of the metrics.
    pub fn metrics_address(&self) -> SocketAddr {
        self.metrics
    }

    /// Path of the control socket.
    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// Path of the configuration file.
    pub fn configuration(&self) -> &Path {
        &self.configuration
    }

    /// Replaces the plan in the configuration file without telling the daemon.
    pub fn write_plan(&self, plan: &str) {
        self.write_settings(&Settings::new(plan));
    }

    /// Replaces all settings in the configuration file without telling the daemon.
    pub fn write_settings(&self, settings: &Settings) {
        let text = configuration_text(self.address.port(), self.metrics, &self.socket, settings);
        write_file(&self.configuration, &text);
    }

    /// Id of the process.
    pub fn id(&self) -> u32 {
        self.process.id()
    }

    /// Runs a client verb against this daemon.
    pub fn verb(&self, arguments: &[&str]) -> Output {
        run_verb(arguments, &self.configuration)
    }

    /// Returns a function that runs client verbs against this daemon, for other threads.
    pub fn teller(&self) -> impl Fn(&[&str]) -> Output + Send + Sync + 'static {
        let configuration = self.configuration.clone();
        move |arguments| run_verb(arguments, &configuration)
    }

    /// The records of a zone as `dump` prints them, `None` while the daemon has none.
    pub fn dump(&self, zone: &Dname) -> Option<Vec<Record>> {
        let output = self.verb(&["dump", &zone.to_string()]);
        (output.code == 0).then(|| read_zone(&output.stdout))
    }

    /// The metrics page.
    pub fn metrics(&self) -> String {
        let (status, body) = self.http("/metrics");
        assert_eq!(status, 200, "{body}");
        body
    }

    /// Numbers of incremental and of full transfers of a zone that were published, as `status` tells them.
    pub fn received(&self, zone: &str) -> (u64, u64) {
        let zone = format!("{}.", zone.trim_end_matches('.'));
        let report = self.verb(&["status", &zone, "--json"]);
        let report: serde_json::Value = serde_json::from_str(&report.stdout).expect("JSON");
        let found = report["zones"].get(0).or(report["regions"].get(0));
        let counts = &found.unwrap_or_else(|| panic!("no zone {zone} in {report}"))["received"];
        let count = |kind: &str| counts[kind].as_u64().unwrap_or_else(|| panic!("no count of {zone} in {report}"));
        (count("incremental"), count("full"))
    }

    /// Status and body of a page of the metrics server.
    pub fn http(&self, path: &str) -> (u16, String) {
        self.http_as("GET", path, "localhost")
    }

    /// Status and body of a response of the metrics server to somebody who knows it by a host name.
    pub fn http_as(&self, method: &str, path: &str, host: &str) -> (u16, String) {
        let mut stream = self.begin_http(method, path, host);
        let mut reply = String::new();
        stream.read_to_string(&mut reply).expect("reply");
        let (head, body) = reply.split_once("\r\n\r\n").expect("head and body");
        let status = head.split(' ').nth(1).and_then(|code| code.parse().ok()).expect("status");
        (status, body.to_string())
    }

    /// A connection to the metrics server on which something has been asked.
    pub fn begin_http(&self, method: &str, path: &str, host: &str) -> TcpStream {
        let mut stream = TcpStream::connect(self.metrics).expect("connect to the metrics server");
        stream.set_read_timeout(Some(Duration::from_secs(10))).expect("timeout");
        let request = format!("{method} {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).expect("request");
        stream
    }

    /// Returns all that the daemon has logged so far.
    pub fn log_text(&self) -> String {
        self.process.log_text()
    }

    /// Sends a signal to the daemon.
    pub fn signal(&self, signal: i32) {
        self.process.signal(signal);
    }

    /// Ends the daemon with SIGTERM and returns how it ended.
    pub fn stop(&mut self) -> ExitStatus {
        self.process.stop(Duration::from_secs(10)).expect("the daemon ends within 10 seconds of SIGTERM")
    }
}

/// Starts the daemon of a configuration file, in the file's folder.
fn start_process(configuration: &Path, open_files: Option<u64>, environment: &[(&str, String)]) -> Process {
    let home = configuration.parent().expect("a file has a folder");
    let mut command = Command::new(env!("CARGO_BIN_EXE_aggregator"));
    command.args(["run", "-c"]).arg(configuration).current_dir(home);
    command.envs(environment.iter().map(|(name, value)| (name, value)));
    if let Some(limit) = open_files {
        // SAFETY: between fork and exec only a plain system call is made.
        unsafe {
            command.pre_exec(move || {
                let limit = libc::rlimit { rlim_cur: limit, rlim_max: limit };
                match libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) {
                    0 => Ok(()),
                    _ => Err(std::io::Error::last_os_error()),
                }
            });
        }
    }
    Process::start("aggregator", &mut command, &home.join("log"))
}

/// Runs a verb with a configuration file, whether a daemon runs or not.
pub fn run_verb(arguments: &[&str], configuration: &Path) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_aggregator"));
    Output::of(&run(command.args(arguments).arg("-c").arg(configuration)).expect("run aggregator"))
}

/// The whole configuration around a plan.
fn configuration_text(port: u16, metrics: SocketAddr, socket: &Path, settings: &Settings) -> String {
    let Settings { name, listen, server, state, plan, .. } = settings;
    let listen: Vec<String> =
        listen.iter().map(|text| format!("\"{}\"", text.replace("{port}", &port.to_string()))).collect();
    let (listen, socket) = (listen.join(", "), socket.display());
    let state = state.as_ref().map_or("false".to_string(), |folder| format!("\"{folder}\""));
    format!(
        "[server]\nname = \"{name}\"\nlisten = [{listen}]\n{server}\n[state]\nfolder = {state}\n\n[metrics]\nlisten = \"{metrics}\"\n\n\
         [control]\nsocket = \"{socket}\"\n\n[log]\nlevel = \"info\"\n\n{plan}"
    )
}
