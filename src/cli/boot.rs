//! `aggregator boot`: options of a first start, and the request of `aggregator reload` to one that runs.
//!
//! Cost: that of the first start.

use super::{DEFAULT_CONFIG, read_duration};
use crate::control::Reply;
use crate::firstboot::{self, BootError, BootOutcome, DEFAULT_FOLDER, DEFAULT_KEY, DEFAULT_USER, Looked, Plan};
use crate::log;
use clap::Args;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Longest wait of `reload` for the host's metadata to be read.
const LOOKING: Duration = Duration::from_secs(90);

/// The options of a first start.
#[derive(Debug, Args)]
pub struct BootArguments {
    /// Folder that keeps what was fetched
    #[arg(long, value_name = "FOLDER", default_value = DEFAULT_FOLDER)]
    folder: PathBuf,
    /// The socket or serial port of the Triton host [default: what this machine has]
    #[arg(long, value_name = "PATH")]
    host: Option<PathBuf>,
    /// The metadata key of the configuration
    #[arg(long, value_name = "KEY", default_value = DEFAULT_KEY)]
    key: String,
    /// Interval at which the metadata is read; 0s for only on request
    #[arg(long, value_name = "DURATION", default_value = "60s", value_parser = read_duration)]
    poll: Duration,
    /// Longest wait for the host at each reading
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
pub fn start(arguments: BootArguments, file: PathBuf) -> Result<BootOutcome, BootError> {
    let BootArguments { folder, host, key, poll, patience, network, only_network, login, watch, user } = arguments;
    firstboot::run(Plan { file, folder, host, key, poll, patience, network, only_network, login, watch, user })
}

/// Before a reload: a first start that runs on this machine shall fetch what is new. What it refuses, the server knows,
/// and is given back, for nothing is left to reload; a host that is silent, say, is told, and the reload goes on with
/// what there is.
pub fn look_at_metadata() -> Option<Reply> {
    match firstboot::request_look(&folder(), LOOKING)? {
        Looked::Refused(problems) => return Some(Reply::failure(problems)),
        Looked::Noted(problems) if !problems.is_empty() => log::print(&problems),
        Looked::Noted(_) => {}
    }
    None
}

/// Returns the folder in which a first start on this machine keeps what it has fetched.
fn folder() -> PathBuf {
    std::env::var_os("AGGREGATOR_BOOT").map_or_else(|| DEFAULT_FOLDER.into(), PathBuf::from)
}

/// The configuration of the server on this machine: the file, or what a first start has fetched where that can be read.
/// It is the file where nobody can tell.
pub fn find_file() -> PathBuf {
    choose_file(Path::new(DEFAULT_CONFIG), &folder())
}

/// The file unless it is missing and the folder of a first start has another.
fn choose_file(file: &Path, folder: &Path) -> PathBuf {
    let kept = firstboot::kept_configuration(folder);
    let is_missing = matches!(file.try_exists(), Ok(false));
    if is_missing && File::open(&kept).is_ok() { kept } else { file.to_path_buf() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_fetched_stands_in_for_a_file_that_is_missing() {
        let root = tempfile::tempdir().unwrap();
        let (file, kept) = (root.path().join("etc.toml"), root.path().join("config.toml"));
        assert_eq!(choose_file(&file, root.path()), file, "neither is there");
        std::fs::write(&kept, "[zones]\n").unwrap();
        assert_eq!(choose_file(&file, root.path()), kept);
        std::fs::write(&file, "nonsense").unwrap();
        assert_eq!(choose_file(&file, root.path()), file, "a file that is there is meant");
    }
}
