//! The user and the capabilities of the process (`capabilities(7)`).
//!
//! Invariants: there is one thread when they change, because the kernel has them for each thread and others would keep
//! theirs; no capability is ever gained, only those kept that are there; after the change of the user there is no way
//! back, which is tried.
//!
//! Cost: some tens of system calls, once.

use super::account::Account;
use rustix::process::{DumpableBehavior, dumpable_behavior, geteuid, set_dumpable_behavior};
use rustix::thread::{
    CapabilitySet, CapabilitySets, Gid, Uid, capabilities, capability_is_in_bounding_set,
    remove_capability_from_bounding_set, set_capabilities, set_keep_capabilities, set_no_new_privs, set_thread_groups,
    set_thread_res_gid, set_thread_res_uid,
};
use std::fs;
use std::io;
use std::time::{Duration, Instant};

/// Ports below 1024: a reload may add a listener there.
pub const NEEDED: CapabilitySet = CapabilitySet::NET_BIND_SERVICE;
/// What root does with files of others. A server that stays root goes on with its state folder and its keys, whosesoever
/// they are.
pub const ROOTS_FILES: CapabilitySet = CapabilitySet::CHOWN
    .union(CapabilitySet::DAC_OVERRIDE)
    .union(CapabilitySet::DAC_READ_SEARCH)
    .union(CapabilitySet::FOWNER);

/// Longest wait for threads that end.
const ENDING: Duration = Duration::from_secs(1);

/// Error: rights could not be given up.
#[derive(Debug, thiserror::Error)]
pub enum PrivilegeError {
    #[error(
        "cannot become user {user}: {step}: {error}; start as root with CAP_SETUID and CAP_SETGID, or without \"user\""
    )]
    Become { user: String, step: &'static str, error: io::Error },
    #[error("cannot become user {0}: this process has other threads already")]
    Threads(String),
    #[error("user {0} could become root again; this kernel does not keep its word, and the server does not start")]
    WayBack(String),
}

/// Returns true if this process is root.
pub fn is_root() -> bool {
    geteuid().is_root()
}

/// Waits a moment for other threads to end. Returns true if there are none, as far as the system tells.
pub fn wait_alone() -> bool {
    let is_alone = || fs::read_dir("/proc/self/task").map_or(0, Iterator::count) <= 1;
    let end = Instant::now() + ENDING;
    while !is_alone() && Instant::now() < end {
        std::thread::sleep(Duration::from_millis(1));
    }
    is_alone()
}

/// Becomes another user for good, with the capability for ports below 1024 where this process has it.
pub fn become_user(account: &Account) -> Result<(), PrivilegeError> {
    if wait_alone() { change_thread(account) } else { Err(PrivilegeError::Threads(account.name.clone())) }
}

/// The same for this thread alone, and those that it starts.
pub fn change_thread(account: &Account) -> Result<(), PrivilegeError> {
    let name = &account.name;
    let step = |step: &'static str| {
        move |error: rustix::io::Errno| PrivilegeError::Become { user: name.clone(), step, error: error.into() }
    };
    bound(NEEDED);
    let groups: Vec<Gid> = account.groups.iter().copied().map(Gid::from_raw).collect();
    let (user, group) = (Uid::from_raw(account.user), Gid::from_raw(account.group));
    set_keep_capabilities(true).map_err(step("keep a capability"))?;
    set_thread_groups(&groups).map_err(step("setgroups"))?;
    set_thread_res_gid(group, group, group).map_err(step("setresgid"))?;
    set_thread_res_uid(user, user, user).map_err(step("setresuid"))?;
    keep(NEEDED).map_err(step("capset"))?;
    set_keep_capabilities(false).map_err(step("keep no capability"))?;
    let root = Uid::ROOT;
    match set_thread_res_uid(root, root, root) {
        Ok(()) if !user.is_root() => Err(PrivilegeError::WayBack(name.clone())),
        _ => Ok(()),
    }
}

/// Removes all other capabilities from the bounding set, beyond which no program that is started can go. Needs
/// CAP_SETPCAP; without that there is nothing to bound.
pub fn bound(kept: CapabilitySet) {
    for number in 0..u64::BITS {
        let capability = CapabilitySet::from_bits_retain(1 << number);
        if !kept.contains(capability) && capability_is_in_bounding_set(capability).unwrap_or_default() {
            // Who may not do this has no capability that a program could gain.
            let _ = remove_capability_from_bounding_set(capability);
        }
    }
}

/// Gives up all capabilities but those of a set. Nothing is inherited by programs: the server starts none.
pub fn keep(kept: CapabilitySet) -> rustix::io::Result<()> {
    let own = capabilities(None)?;
    let permitted = own.permitted & kept;
    if own.permitted == permitted {
        // A service manager that has left no more may kill who asks for less.
        return Ok(());
    }
    set_capabilities(None, CapabilitySets { effective: permitted, permitted, inheritable: CapabilitySet::empty() })
}

/// Has no program that is started gain rights, such as by a set-user-ID bit.
pub fn refuse_new() -> io::Result<()> {
    Ok(set_no_new_privs(true)?)
}

/// Returns true if [`hide_memory`] is in force.
pub fn is_memory_hidden() -> bool {
    dumpable_behavior().is_ok_and(|behavior| behavior != DumpableBehavior::Dumpable)
}

/// Keeps other processes of the same user from reading this one's memory, and the system from writing it to disk after
/// a crash: it holds keys.
pub fn hide_memory() -> io::Result<()> {
    Ok(set_dumpable_behavior(DumpableBehavior::NotDumpable)?)
}
