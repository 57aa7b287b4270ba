//! The agent that registers an instance: `aggregator register`, in the place of Registrar.
//!
//! ```text
//!  file ──► config ──► nodes ──┐
//!  check ──► health ──┐        ▼
//!                     ├──► agent ──► writes ──► ZooKeeper
//!  session, watches ──┘   (state)
//! ```
//!
//! It reads Registrar's configuration file as it is and writes the same nodes with the same data. What is different,
//! and why: the service's record comes before the hosts, so that nobody finds hosts of a service that is not there;
//! nodes are watched and put back; failures are counted in a window that slides; all nodes of the instance go when it
//! fails, and the agent removes them when it ends; an expired session is followed by another one within the same
//! process.
//!
//! Invariants: everything in the file is checked before anything is connected to; no trouble with ZooKeeper ends the
//! agent; registrations never overlap (`state`); the service's node is never removed (`writes`).
//!
//! Cost: O(nodes) for each heartbeat; one process for each check.

#![warn(clippy::undocumented_unsafe_blocks)]

mod agent;
mod config;
mod health;
mod host;
mod nodes;
pub mod payload;
mod session;
mod state;
mod writes;

pub use config::{Config, level_of};
pub use nodes::{Nodes, NodesError, Znode};

use agent::{Agent, Course};
use settings::ConfigErrors;
use state::State;
use std::future::Future;
use std::io;
use std::path::Path;
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::timeout;
use tracing::warn;

/// The target of log lines, which filters name.
const TARGET: &str = "aggregator::registrar";

/// Error: an instance cannot be registered or removed.
#[derive(Debug, thiserror::Error)]
pub enum RegisterError {
    #[error("{0}")]
    Config(#[from] ConfigErrors),
    #[error("{path}: {error}")]
    Nodes { path: String, error: NodesError },
    #[error("cannot find out the name of this machine: {0}; write --hostname NAME")]
    HostName(io::Error),
    #[error("{path}: no interface has an address that others reach; write \"adminIp\"")]
    NoAddress { path: String },
    #[error("cannot look at the interfaces: {0}; write \"adminIp\"")]
    Interfaces(io::Error),
    #[error("cannot start: {0}")]
    Start(io::Error),
    #[error("ZooKeeper cannot be reached")]
    Unreachable,
    #[error("the health check failed; the instance is not registered")]
    Unhealthy,
    #[error("{0}")]
    NotRemoved(String),
}

/// Configuration of an agent, with the nodes that follow from it and from the machine.
#[derive(Clone, Debug)]
pub struct Plan {
    pub config: Config,
    pub nodes: Nodes,
}

impl Plan {
    /// Reads a file; asks the machine for what it leaves out.
    pub fn load(path: &Path, host_name: Option<String>) -> Result<Plan, RegisterError> {
        let config = Config::load(path)?;
        let path = || path.display().to_string();
        let host_name = host_name.map_or_else(host::name, Ok).map_err(RegisterError::HostName)?;
        let address = match config.registration.address.clone() {
            Some(address) => address,
            None => {
                let found = host::address().map_err(RegisterError::Interfaces)?;
                found.ok_or_else(|| RegisterError::NoAddress { path: path() })?.to_string()
            }
        };
        let nodes = Nodes::new(&config.registration, &host_name, &address);
        let nodes = nodes.map_err(|error| RegisterError::Nodes { path: path(), error })?;
        Ok(Plan { config, nodes })
    }
}

/// Keeps an instance registered until SIGTERM or SIGINT.
pub fn run(plan: Plan) -> Result<(), RegisterError> {
    in_runtime(plan, async |plan| {
        let end = end_signal().map_err(RegisterError::Start)?;
        Agent::new(plan.config, plan.nodes, Course::Lasting).run(end).await;
        Ok(())
    })
}

/// Registers an instance after one check, or removes it if that fails, and leaves the session to its timeout.
pub fn run_once(plan: Plan) -> Result<(), RegisterError> {
    in_runtime(plan, async |plan| {
        let end = end_signal().map_err(RegisterError::Start)?;
        let limit = plan.config.zookeeper.session_timeout
            + plan.config.health.as_ref().map(|health| health.timeout).unwrap_or_default();
        let agent = Agent::new(plan.config, plan.nodes, Course::Once).run(end);
        match timeout(limit, agent).await {
            Ok(State::Up) => Ok(()),
            Ok(State::Down) => Err(RegisterError::Unhealthy),
            Ok(_) | Err(_) => Err(RegisterError::Unreachable),
        }
    })
}

/// Removes the nodes of an instance, whichever session made them.
pub fn unregister(plan: Plan) -> Result<(), RegisterError> {
    in_runtime(plan, async |plan| {
        let report = agent::unregister(&plan.config, &plan.nodes).await.map_err(|()| RegisterError::Unreachable)?;
        for path in &report.taken {
            warn!(target: TARGET, path, "the node of another instance was left alone");
        }
        let errors: Vec<String> = report.errors.iter().map(ToString::to_string).collect();
        if errors.is_empty() { Ok(()) } else { Err(RegisterError::NotRemoved(errors.join("\n"))) }
    })
}

/// Works in a runtime of its own, after saying what is odd about the file.
fn in_runtime(plan: Plan, work: impl AsyncFnOnce(Plan) -> Result<(), RegisterError>) -> Result<(), RegisterError> {
    plan.config.warnings.iter().for_each(|warning| warn!(target: TARGET, "{warning}"));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(RegisterError::Start)?;
    runtime.block_on(work(plan))
}

/// Ready when the process is asked to end.
fn end_signal() -> io::Result<impl Future<Output = ()> + Send + 'static> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    })
}
