//! Our agent, `aggregator register`, as a child process.

use super::folder::write_file;
use super::{Folder, Process};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Command, ExitStatus};
use std::time::Duration;

/// A running agent and its configuration.
pub struct Registrar {
    process: Process,
}

impl Registrar {
    /// Starts an agent that calls its machine by this name.
    pub fn start(folder: &Folder, host_name: &str, configuration: &str) -> Registrar {
        let file = Registrar::write(folder, host_name, configuration);
        let mut command = Command::new(env!("CARGO_BIN_EXE_aggregator"));
        command.args(["register", "-v", "--hostname", host_name, "-c"]).arg(&file);
        Registrar { process: Process::start("the agent", &mut command, &file.with_extension("log")) }
    }

    /// Writes the configuration of an agent.
    pub fn write(folder: &Folder, host_name: &str, configuration: &str) -> PathBuf {
        let file = folder.path().join(format!("{host_name}.json"));
        write_file(&file, configuration);
        file
    }

    /// The block `zookeeper` of a configuration, for these servers and with this session timeout.
    pub fn zookeeper(servers: &[SocketAddr], session_timeout: Duration) -> String {
        let servers = servers.iter().map(|server| format!(r#"{{"host":"{}","port":{}}}"#, server.ip(), server.port()));
        let servers: Vec<String> = servers.collect();
        format!(r#""zookeeper":{{"timeout":{},"servers":[{}]}}"#, session_timeout.as_millis(), servers.join(","))
    }

    /// Number of the process.
    pub fn id(&self) -> u32 {
        self.process.id()
    }

    /// Fails when the agent has ended.
    pub fn assert_running(&mut self) {
        self.process.assert_running();
    }

    /// Sends a signal to the agent.
    pub fn signal(&self, signal: i32) {
        self.process.signal(signal);
    }

    /// Ends the agent at once, without a chance to finish anything.
    pub fn kill(&mut self) {
        self.process.kill();
    }

    /// Ends the agent with SIGTERM and returns how it ended.
    pub fn stop(&mut self) -> ExitStatus {
        self.process.stop(Duration::from_secs(20)).expect("the agent ends within 20 seconds of SIGTERM")
    }

    /// Returns all that the agent has logged so far.
    pub fn log_text(&self) -> String {
        self.process.log_text()
    }
}
