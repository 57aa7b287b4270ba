//! The paths that the process can open, held by Landlock (`landlock(7)`, Linux 5.13).
//!
//! A rule stands for a folder and all below it, and not for a file: whoever edits or renews a file puts another one in
//! its place, which a rule for the old one would not allow. So the folder of the configuration, those of the files that it
//! names, and the state folder are open to us, with all that they hold as far as the owner and mode of each file allow;
//! beside them what the system's libraries read: `/etc` (resolvers, hosts, certificates), `/usr` and `/lib`, `/proc`, and
//! parts of `/sys`, `/dev` and `/run`.
//!
//! Nothing can be executed, no device be made, no signal be sent to other processes (ABI 6), no process outside be traced, and nothing
//! be mounted. Unix sockets and the network are not restricted.
//!
//! Invariants: what the kernel does not know is left out; a path that is missing has no rule, so that one which comes later
//! stays closed until a restart.
//!
//! Cost: a few system calls for each path, once; a walk up the path for each file that is opened.

use super::Paths;
use landlock::{
    ABI, Access, AccessFs, BitFlags, LandlockStatus, PathBeneath, PathFd, RestrictSelf, Ruleset, RulesetAttr,
    RulesetCreatedAttr, RulesetStatus, Scope,
};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// The newest version whose rights are restricted here; an older kernel restricts what it knows.
const VERSION: ABI = ABI::V6;

/// What the system's libraries read.
const SYSTEM_READ: [&str; 15] = [
    "/etc",
    "/usr",
    "/lib",
    "/lib32",
    "/lib64",
    "/proc",
    "/sys/fs/cgroup",
    "/sys/devices/system",
    "/sys/kernel/mm",
    "/run/systemd/resolve",
    "/run/resolvconf",
    "/run/NetworkManager",
    "/var/lib/ca-certificates",
    "/nix/store",
    "/dev/urandom",
];

/// What is written to wherever it leads.
const SYSTEM_WRITE: [&str; 1] = ["/dev/null"];

/// Folders that many share. A folder of ours below one of them is not made anew when somebody has removed it.
const SHARED: [&str; 9] = ["/", "/etc", "/run", "/srv", "/tmp", "/var", "/var/lib", "/var/run", "/var/tmp"];

/// A restriction that is in force.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Restriction {
    /// Version of the kernel's interface.
    pub version: i32,
    /// The paths that can be read, and those that can be written, without those of the system.
    pub read: Vec<PathBuf>,
    pub write: Vec<PathBuf>,
    pub sockets: Vec<PathBuf>,
}

/// Error: files are not restricted.
#[derive(Debug, thiserror::Error)]
pub enum FilesError {
    #[error("this kernel has no Landlock, so files are not restricted; Linux 5.13 has it, if lsm= names it")]
    Missing,
    #[error("files are not restricted: {0}")]
    Failed(String),
}

/// Returns the version of the kernel's interface; none if it has none.
pub fn version() -> Option<i32> {
    // A restriction of nothing, which would not be one. Only asking needs no right, and no thread is changed.
    match std::thread::spawn(|| RestrictSelf::default().no_new_privs(true).apply()).join().ok()?.ok()?.landlock {
        LandlockStatus::Available { effective_abi, kernel_abi } => Some(kernel_abi.unwrap_or(effective_abi as i32)),
        _ => None,
    }
}

/// Restricts this thread, and all that it starts, for good.
pub fn restrict(paths: &Paths) -> Result<Restriction, FilesError> {
    let failed = |error: landlock::RulesetError| FilesError::Failed(error.to_string());
    let reading = AccessFs::ReadFile | AccessFs::ReadDir;
    let devices = AccessFs::MakeChar | AccessFs::MakeBlock | AccessFs::IoctlDev | AccessFs::Execute;
    let writing = AccessFs::from_all(VERSION) & !devices;
    let sockets = AccessFs::ReadDir | AccessFs::MakeSock | AccessFs::RemoveFile;
    let all = Ruleset::default().handle_access(AccessFs::from_all(VERSION)).map_err(failed)?;
    let mut rules = all.scope(Scope::Signal).map_err(failed)?.create().map_err(failed)?;
    let system = |paths: &[&str]| paths.iter().map(PathBuf::from).collect::<Vec<_>>();
    let writable = with_parents(&paths.write);
    for (paths, access) in [
        (&system(&SYSTEM_READ), reading),
        (&system(&SYSTEM_WRITE), reading | AccessFs::WriteFile | AccessFs::Truncate),
        (&paths.read, reading),
        (&writable, writing),
        (&with_parents(&paths.sockets), sockets | AccessFs::MakeDir),
    ] {
        for path in paths {
            rules = add(rules, path, access).map_err(failed)?;
        }
    }
    let status = rules.restrict_self().map_err(failed)?;
    let version = match status.landlock {
        LandlockStatus::Available { effective_abi, kernel_abi } => kernel_abi.unwrap_or(effective_abi as i32),
        _ => return Err(FilesError::Missing),
    };
    if status.ruleset == RulesetStatus::NotEnforced {
        return Err(FilesError::Missing);
    }
    let Paths { read, sockets, .. } = paths.clone();
    Ok(Restriction { version, read, write: writable, sockets })
}

/// Adds a rule for a path, if it is there. A rule for a file has no rights of folders.
fn add(
    rules: landlock::RulesetCreated,
    path: &Path,
    access: BitFlags<AccessFs>,
) -> Result<landlock::RulesetCreated, landlock::RulesetError> {
    let Ok(open) = PathFd::new(path) else { return Ok(rules) };
    let access = if path.is_dir() { access } else { access & AccessFs::from_file(VERSION) };
    rules.add_rule(PathBeneath::new(open, access))
}

/// Folders, and where we may write there and nobody else has anything in it the one above each: so one that was removed
/// can be made anew.
fn with_parents(folders: &[PathBuf]) -> Vec<PathBuf> {
    let mut all = BTreeSet::new();
    for folder in folders {
        all.insert(folder.clone());
        let is_ours = |parent: &&Path| {
            let is_shared = SHARED.iter().any(|shared| Path::new(shared) == *parent);
            !is_shared && rustix::fs::access(*parent, rustix::fs::Access::WRITE_OK).is_ok()
        };
        all.extend(folder.parent().filter(is_ours).map(Path::to_path_buf));
    }
    all.into_iter().collect()
}

impl Restriction {
    /// Returns the paths of a plan that this restriction keeps closed.
    pub fn closed(&self, paths: &Paths) -> Vec<PathBuf> {
        let system = SYSTEM_READ.map(PathBuf::from);
        let readable: Vec<&PathBuf> = self.read.iter().chain(&self.write).chain(&system).collect();
        let is_below = |path: &PathBuf, open: &[&PathBuf]| open.iter().any(|open| path.starts_with(open));
        let is_readable = |path: &PathBuf| is_below(path, &readable);
        let (writable, sockets) = (self.write.iter().collect::<Vec<_>>(), self.sockets.iter().collect::<Vec<_>>());
        let read = paths.read.iter().filter(|path| !is_readable(path));
        let made = paths.sockets.iter().filter(|path| !is_below(path, &sockets) && !is_below(path, &writable));
        let mut closed: Vec<PathBuf> = read.chain(made).cloned().collect();
        closed.dedup();
        closed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_restriction_keeps_closed_is_known() {
        let paths = |texts: &[&str]| texts.iter().map(PathBuf::from).collect::<Vec<_>>();
        let (read, write, sockets) = (paths(&["/a/b"]), paths(&["/state"]), paths(&["/run/x"]));
        let restriction = Restriction { version: 7, read, write, sockets };
        let wanted = Paths {
            read: paths(&["/a/b/c", "/a/bc", "/etc/ssl", "/state/z"]),
            write: Vec::new(),
            sockets: paths(&["/run/x", "/run", "/state"]),
        };
        assert_eq!(restriction.closed(&wanted), paths(&["/a/bc", "/run"]));
    }
}
