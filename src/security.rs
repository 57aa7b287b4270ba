//! Least privilege: what the process of the server may do, and what it has given up for good.
//!
//! `run` enters its confinement before it has a second thread, in this order: [`ownership`] hands folders over,
//! [`privileges`] become another user and keep one capability, [`files`] restricts which paths can be opened (Landlock),
//! [`calls`] which system calls are answered (seccomp). Every later thread inherits all of it. The sockets are bound after
//! that: the one capability that is kept, for ports below 1024, is also what a later reload needs. [`account`] finds
//! users and groups, [`process`] reads what the kernel says is in force for a process.
//!
//! Invariants: nothing here can be undone by the process; what the kernel does not have is left out and told, and does
//! not keep the server from starting; what a service manager has put in force stays in force.
//!
//! Cost: some hundred system calls at the start; O(files) of the state folder where it changes its owner; at run time a
//! look-up for each file that is opened, and nothing for the system calls that answer queries, which kernels since 5.11
//! allow without running the filter.

pub mod account;
pub mod calls;
pub mod files;
pub mod ownership;
pub mod privileges;
pub mod process;

use privileges::{NEEDED, ROOTS_FILES};
use std::io;
use std::path::PathBuf;
use std::sync::OnceLock;

/// What a configuration says of rights.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SecurityPlan {
    /// The user that the server becomes if it is started as root; none keeps root.
    pub user: Option<String>,
    /// The group of that user; none takes the one that the system has for it.
    pub group: Option<String>,
    pub sandbox: Sandbox,
}

/// What becomes of what the server never needs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sandbox {
    /// It is refused.
    #[default]
    On,
    /// System calls are logged by the kernel; files are not restricted.
    Log,
    /// It is allowed.
    Off,
}

/// The confinement that this process has entered.
#[derive(Clone, Debug)]
pub struct Confinement {
    /// The paths it may open, and the kernel's version of Landlock; none if files are not restricted.
    pub files: Option<files::Restriction>,
    /// System calls that are refused, or in the mode "log" told; none without a filter.
    pub calls: Option<usize>,
    pub sandbox: Sandbox,
    /// The user that was asked for.
    pub user: Option<String>,
    /// Parts that this machine does not have or give, with the reasons.
    pub missing: Vec<String>,
}

static CONFINEMENT: OnceLock<Confinement> = OnceLock::new();

/// Notes the confinement of this process, which has one for all of its life.
pub fn note(confinement: Confinement) {
    // It is entered once; a second word of it would be wrong.
    let _ = CONFINEMENT.set(confinement);
}

/// Returns the confinement of this process; none for the commands that enter none.
pub fn confinement() -> Option<&'static Confinement> {
    CONFINEMENT.get()
}

/// Gives up, for this thread and all that it starts, what a server with these paths does not need; nothing if the plan
/// has no sandbox.
pub fn confine(plan: &SecurityPlan, paths: &Paths) -> Confinement {
    let SecurityPlan { user, sandbox, .. } = plan.clone();
    let mut missing = Vec::new();
    if sandbox == Sandbox::Off {
        return Confinement { files: None, calls: None, sandbox, user, missing };
    }
    if !privileges::wait_alone() {
        missing.push("a thread that was there before keeps its rights".to_owned());
    }
    let kept = if privileges::is_root() { NEEDED.union(ROOTS_FILES) } else { NEEDED };
    privileges::bound(kept);
    let mut note = |what: &str, result: io::Result<()>| {
        missing.extend(result.err().map(|error| format!("{what}: {error}")));
    };
    note("programs could gain rights (no_new_privs)", privileges::refuse_new());
    note("memory can be read by the same user", privileges::hide_memory());
    if process::is_dangerous_to_confine() {
        missing.push(
            "the service manager's filter may kill the server for a sandbox of its own; take SystemCallFilter, \
             SystemCallErrorNumber and Environment from the unit of this version"
                .to_owned(),
        );
        return Confinement { files: None, calls: None, sandbox, user, missing };
    }
    if let Err(error) = privileges::keep(kept) {
        missing.push(format!("capabilities are not given up: {error}"));
    }
    let restricted = match sandbox {
        Sandbox::On => files::restrict(paths).map_err(|error| missing.push(error.to_string())).ok(),
        Sandbox::Log | Sandbox::Off => None,
    };
    // Last: what comes before is refused after it.
    let calls = calls::restrict(sandbox).map_err(|error| missing.push(error.to_string())).ok();
    Confinement { files: restricted, calls, sandbox, user, missing }
}

/// Paths that a process needs, by what it does with them. Those that do not exist are left out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Paths {
    /// Folders and files that are read.
    pub read: Vec<PathBuf>,
    /// Folders in which files are made, changed and removed.
    pub write: Vec<PathBuf>,
    /// Folders in which a Unix socket is made.
    pub sockets: Vec<PathBuf>,
}
