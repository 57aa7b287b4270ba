//! `aggregator boot`: the options of a first start, and what `aggregator reload` asks one that runs.
//!
//! Cost: that of the first start.

use super::{print_problem, read_duration};
use crate::firstboot::{self, BootError, DEFAULT_FOLDER, DEFAULT_KEY, DEFAULT_USER, Outcome, Plan};
use clap::Args;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How long `reload` waits for a look at the metadata.
const LOOKING: Duration = Duration::from_secs(90);

/// The options of a first start.
#[derive(Debug, Args)]
pub struct BootArguments {
    /// Where what was fetched is kept
    #[arg(long, value_name = "FOLDER", default_value = DEFAULT_FOLDER)]
    folder: PathBuf,
    /// The socket or serial port of the Triton host [default: what this machine has]
    #[arg(long, value_name = "PATH")]
    host: Option<PathBuf>,
    /// The metadata key of the configuration
    #[arg(long, value_name = "KEY", default_value = DEFAULT_KEY)]
    key: String,
    /// How often to look at the metadata; 0s for only when asked
    #[arg(long, value_name = "DURATION", default_value = "60s", value_parser = read_duration)]
    poll: Duration,
    /// How long to wait for the host each time
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = read_duration)]
    patience: Duration,
    /// Write the network that the host describes into this folder, for systemd-networkd
    #[arg(long, value_name = "FOLDER")]
    network: Option<PathBuf>,
    /// Set up the network and end
    #[arg(long, requires = "network", conflicts_with = "watch")]
    only_network: bool,
    /// Write the keys of metadata's `root_authorized_keys` into this file, for sshd
    #[arg(long, value_name = "FILE")]
    login: Option<PathBuf>,
    /// Follow the configuration for a server that is run by somebody else
    #[arg(long)]
    watch: bool,
    /// The user id of the server, when started as root; 0 stays root
    #[arg(long, value_name = "ID", default_value_t = DEFAULT_USER)]
    user: u32,
}

/// Goes through a first start; `file` wins over all other places.
pub fn start(arguments: &BootArguments, file: PathBuf) -> Result<Outcome, BootError> {
    firstboot::run(Plan {
        file,
        folder: arguments.folder.clone(),
        host: arguments.host.clone(),
        key: arguments.key.clone(),
        poll: arguments.poll,
        patience: arguments.patience,
        network: arguments.network.clone(),
        only_network: arguments.only_network,
        login: arguments.login.clone(),
        watch: arguments.watch,
        user: arguments.user,
    })
}

/// Before a reload: a first start that runs on this machine shall fetch what is new. Its problems are told; the reload
/// itself goes on with what there is.
pub fn look_at_metadata() {
    let folder = std::env::var_os("AGGREGATOR_BOOT").map_or_else(|| Path::new(DEFAULT_FOLDER).into(), PathBuf::from);
    if let Some(text) = firstboot::request_look(&folder, LOOKING).filter(|text| !text.is_empty()) {
        print_problem(&text);
    }
}
