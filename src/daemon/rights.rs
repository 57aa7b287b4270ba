//! The rights of the server: what it gives up before it has a second thread, and what a reload cannot give back.
//!
//! The process first becomes the user of the configuration, with the capability for ports below 1024 and no other, and only
//! then binds, opens and reads: so nothing at the start depends on rights that a reload would not have. The
//! configuration is read once more as that user, and a file that only root can read ends the start with its name, not the first
//! reload weeks later. Folders that the user must write are made and handed over before.
//!
//! The sandbox lets the process read the folders of the configuration and of the files that it names, and write the state
//! folder and the folder of the control socket. A later configuration that names other folders is refused with their
//! names, since the process cannot open them any more.
//!
//! Invariants: without `user`, a server that root has started goes on as root, with the rights that root has on files; as
//! nobody who is not root a server never fails for what it cannot give up.
//!
//! Cost: O(configuration) to read it again, O(files) of the state folder where they change their owner.

use crate::config::{Config, ConfigErrors};
use crate::security::account::{self, AccountError};
use crate::security::ownership::hand_over;
use crate::security::privileges::{self, PrivilegeError};
use crate::security::{self, Confinement, Paths, Sandbox};
use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Rights of the folder of the control socket, and of the state folder, which has others out.
const SOCKET_FOLDER_MODE: u32 = 0o755;
const STATE_FOLDER_MODE: u32 = 0o750;
/// What the state folder holds at its top.
const STATE_NAMES: [&str; 5] = ["lock", "zones", "regions", "regions.tmp", "probe.tmp"];

/// Error: the server does not start with the rights that the configuration asks for.
#[derive(Debug, thiserror::Error)]
pub enum RightsError {
    #[error("cannot become the user of [security]: {0}")]
    Account(#[from] AccountError),
    #[error("{0}")]
    Privileges(#[from] PrivilegeError),
    #[error("cannot hand the folder {path} over to user {user}: {error}", path = .path.display())]
    Folder { path: PathBuf, user: String, error: io::Error },
    #[error("{errors}\nthat is so for user {user}, whom the server has become; let that user read these files")]
    Read { user: String, errors: ConfigErrors },
}

/// What is to be logged of the rights, once there is a log.
pub struct Notices {
    warnings: Vec<String>,
}

impl Notices {
    /// Logs what operators should know.
    pub fn tell(&self) {
        for text in &self.warnings {
            tracing::warn!("{text}");
        }
        if let Some(Confinement { files, calls, missing, .. }) = security::confinement() {
            let landlock = files.as_ref().map(|files| files.version);
            tracing::info!(
                user = account::name_of(rustix::process::geteuid().as_raw()),
                landlock,
                refused_calls = *calls,
                "rights given up"
            );
            for text in missing {
                tracing::info!(
                    reason = text,
                    "a part of the sandbox is not there; \"aggregator check --security\" lists all"
                );
            }
        }
    }
}

/// Becomes the user of a configuration, where it names one and root has started this process. Returns the configuration
/// as that user reads it.
pub fn become_user(config: Config) -> Result<(Config, Notices), RightsError> {
    let plan = config.security.clone();
    let mut warnings = Vec::new();
    let config = match &plan.user {
        Some(user) if privileges::is_root() => change_user(config, user, plan.group.as_deref())?,
        Some(user) => {
            let own = rustix::process::geteuid().as_raw();
            if account::find(user, plan.group.as_deref()).is_ok_and(|account| account.user != own) {
                let own = account::name_of(own);
                warnings
                    .push(format!("only root can become user {user}; the server goes on as {own}, who has started it"));
            }
            config
        }
        None => {
            if privileges::is_root() {
                let advice = "write user = \"NAME\" in [security], and the server becomes that user once it is started";
                warnings.push(format!("the server runs as root; {advice}"));
            }
            config
        }
    };
    Ok((config, Notices { warnings }))
}

/// Gives up for good what a server with a configuration does not need.
pub fn confine(config: &Config) {
    if config.security.sandbox == Sandbox::On {
        make_folders(config);
    }
    security::note(security::confine(&config.security, &paths(config)));
}

/// Hands folders over and becomes a user; as that user the configuration is read again.
fn change_user(config: Config, user: &str, group: Option<&str>) -> Result<Config, RightsError> {
    let account = account::find(user, group)?;
    if account.user == 0 {
        return Ok(config);
    }
    let give = |folder: &Path, mode: u32, is_own: &dyn Fn(&str) -> bool| {
        let own = |name: &std::ffi::OsStr| name.to_str().is_some_and(is_own);
        hand_over(folder, mode, &account, own).map_err(|error| {
            let (path, user) = (folder.to_path_buf(), user.to_owned());
            RightsError::Folder { path, user, error }
        })
    };
    if let Some(folder) = &config.state {
        give(folder, STATE_FOLDER_MODE, &|name| STATE_NAMES.contains(&name))?;
    }
    let socket = &config.control.socket;
    if let (Some(folder), Some(name)) = (folder_of(socket), socket.file_name()) {
        // A folder with other things in it is somebody else's, such as /run.
        let others = fs::read_dir(&folder).map(|entries| entries.flatten().any(|entry| entry.file_name() != name));
        if !others.unwrap_or_default() {
            give(&folder, SOCKET_FOLDER_MODE, &|_| true)?;
        }
    }
    privileges::become_user(&account)?;
    Config::load(&config.path).map_err(|errors| RightsError::Read { user: user.to_owned(), errors })
}

/// Makes the folders that a rule can only be made for if they are there. What fails is told by whoever needs them.
fn make_folders(config: &Config) {
    use std::os::unix::fs::DirBuilderExt;
    if let Some(folder) = &config.state {
        let _ = fs::DirBuilder::new().recursive(true).mode(STATE_FOLDER_MODE).create(folder);
    }
    if let Some(folder) = folder_of(&config.control.socket) {
        let _ = fs::create_dir_all(folder);
    }
}

/// The absolute folder of a file.
fn folder_of(path: &Path) -> Option<PathBuf> {
    std::path::absolute(path).ok()?.parent().map(Path::to_path_buf)
}

/// The paths that a server with a configuration needs: folders, so that files can be put in the place of others.
pub fn paths(config: &Config) -> Paths {
    let own = |path: &&PathBuf| Some(*path) != config.state.as_ref() && **path != config.control.socket;
    let named = config.named_paths.iter().filter(own).filter_map(|path| std::path::absolute(path).ok());
    let mut read: BTreeSet<PathBuf> = named.flat_map(|path| folders_of(&path)).collect();
    // Certificates of authorities that are elsewhere, and what a panic's trace is made of.
    for variable in ["SSL_CERT_FILE", "SSL_CERT_DIR"] {
        read.extend(std::env::var_os(variable).iter().flat_map(std::env::split_paths));
    }
    read.extend(std::env::current_exe().ok());
    let state = config.state.iter().filter_map(|folder| std::path::absolute(folder).ok());
    Paths {
        read: read.into_iter().collect(),
        write: state.collect(),
        sockets: folder_of(&config.control.socket).into_iter().collect(),
    }
}

/// The folder of a file, and that of the file to which its name leads as a symbolic link. Of a file in `/` only itself.
fn folders_of(path: &Path) -> Vec<PathBuf> {
    let folder = |path: &Path| match path.parent() {
        Some(parent) if parent != Path::new("/") => parent.to_path_buf(),
        _ => path.to_path_buf(),
    };
    let target = fs::canonicalize(path).ok().map(|target| folder(&target));
    [folder(path)].into_iter().chain(target).collect()
}

/// Reads a configuration for the running process. What its sandbox keeps closed is told as that, because the message of the
/// system would send operators to the files' permissions.
pub fn load_within(path: &Path) -> Result<Config, String> {
    let loaded = Config::load(path);
    let Some(restriction) = security::confinement().and_then(|confinement| confinement.files.as_ref()) else {
        return loaded.map_err(|errors| errors.to_string());
    };
    let read = match &loaded {
        Ok(config) => Some(paths(config)),
        // The paths are known even where they cannot be read.
        Err(_) => settings::read_text(path).ok().and_then(|text| Config::parse(path, &text).ok()).map(|c| paths(&c)),
    };
    let closed = read.map(|paths| restriction.closed(&paths)).unwrap_or_default();
    match loaded {
        Ok(config) if closed.is_empty() => Ok(config),
        Err(errors) if closed.is_empty() => {
            let text = errors.to_string();
            // Of an included file nothing more can be known than that.
            let is_denied = text.contains(&io::Error::from_raw_os_error(libc::EACCES).to_string());
            let folders = list(&restriction.read);
            let note = format!(
                "the sandbox of the running server lets it read /etc, /usr and what was named when it started: {folders}; \
                 for other folders restart the server"
            );
            Err(if is_denied { format!("{text}\n{note}") } else { text })
        }
        _ => Err(format!(
            "the sandbox of the running server keeps {} closed, since no file there was named when it started; restart the \
             server to use this configuration, or put the files into a folder that it uses already",
            list(&closed)
        )),
    }
}

/// Paths in a row.
fn list(paths: &[PathBuf]) -> String {
    paths.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(", ")
}
