//! What the kernel says of a process's rights: `/proc/PID/status`, of all of its threads.
//!
//! Landlock is not told there; the process itself knows what it has put in force.
//!
//! Cost: a small file for each thread.

use serde::{Deserialize, Serialize};
use std::fs;
use std::io;

/// Rights of a thread.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Rights {
    /// Effective user and group.
    pub user: u32,
    pub group: u32,
    pub groups: Vec<u32>,
    /// Sets of capabilities, as bits.
    pub effective: u64,
    pub permitted: u64,
    pub bounding: u64,
    pub no_new_privs: bool,
    /// Filters of system calls; none can also mean a kernel before 5.9, which does not count them.
    pub filters: u32,
    /// True if system calls are filtered.
    pub filtered: bool,
}

/// Names of capabilities, in the order of their bits.
const CAPABILITIES: [&str; 41] = [
    "CHOWN",
    "DAC_OVERRIDE",
    "DAC_READ_SEARCH",
    "FOWNER",
    "FSETID",
    "KILL",
    "SETGID",
    "SETUID",
    "SETPCAP",
    "LINUX_IMMUTABLE",
    "NET_BIND_SERVICE",
    "NET_BROADCAST",
    "NET_ADMIN",
    "NET_RAW",
    "IPC_LOCK",
    "IPC_OWNER",
    "SYS_MODULE",
    "SYS_RAWIO",
    "SYS_CHROOT",
    "SYS_PTRACE",
    "SYS_PACCT",
    "SYS_ADMIN",
    "SYS_BOOT",
    "SYS_NICE",
    "SYS_RESOURCE",
    "SYS_TIME",
    "SYS_TTY_CONFIG",
    "MKNOD",
    "LEASE",
    "AUDIT_WRITE",
    "AUDIT_CONTROL",
    "SETFCAP",
    "MAC_OVERRIDE",
    "MAC_ADMIN",
    "SYSLOG",
    "WAKE_ALARM",
    "BLOCK_SUSPEND",
    "AUDIT_READ",
    "PERFMON",
    "BPF",
    "CHECKPOINT_RESTORE",
];

/// Lists capabilities by name; many as their number.
pub fn name_capabilities(bits: u64) -> String {
    let names = |bits: u64| {
        let named =
            |bit: u32| CAPABILITIES.get(bit as usize).map_or_else(|| bit.to_string(), |name| (*name).to_owned());
        (0..u64::BITS).filter(|bit| bits >> bit & 1 == 1).map(named).collect::<Vec<_>>().join(", ")
    };
    match bits.count_ones() {
        0 => "none".to_owned(),
        1..=8 => names(bits),
        count => format!("{count}, SYS_ADMIN {}", if bits >> 21 & 1 == 1 { "among them" } else { "not among them" }),
    }
}

/// Variable by which a unit of systemd says that its filter lets the server install its own.
const ALLOWANCE: &str = "AGGREGATOR_SANDBOX";
const ALLOWED: &str = "allowed";
/// Variable that systemd gives to every service.
const SERVICE: &str = "INVOCATION_ID";

/// Returns true if to install a filter may end this process: systemd's own filter kills by default, and its usual list
/// of system calls has neither seccomp nor Landlock. A filter of other makers, such as that of containers, refuses.
pub fn is_dangerous_to_confine() -> bool {
    let filtered = fs::read_to_string("/proc/self/status").ok().and_then(|text| Rights::parse(&text));
    let is_set = |name: &str| std::env::var_os(name);
    let is_allowed = is_set(ALLOWANCE).is_some_and(|word| word == ALLOWED);
    is_dangerous(filtered.is_none_or(|rights| rights.filtered), is_set(SERVICE).is_some(), is_allowed)
}

/// The same, of a process with a filter, of systemd's, that is allowed more.
fn is_dangerous(is_filtered: bool, is_service: bool, is_allowed: bool) -> bool {
    is_filtered && is_service && !is_allowed
}

/// Reads the rights of all threads of this process; several only if they differ.
pub fn own() -> io::Result<Vec<Rights>> {
    let mut all = Vec::new();
    for task in fs::read_dir("/proc/self/task")? {
        // A thread that has ended meanwhile has no rights.
        all.extend(fs::read_to_string(task?.path().join("status")).ok().as_deref().and_then(Rights::parse));
    }
    all.sort_unstable();
    all.dedup();
    Ok(all)
}

impl Rights {
    /// Reads the contents of a status file.
    pub fn parse(text: &str) -> Option<Rights> {
        let field = |name: &str| {
            text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::trim).unwrap_or_default()
        };
        let second = |name: &str| field(name).split_whitespace().nth(1)?.parse().ok();
        let bits = |name: &str| u64::from_str_radix(field(name), 16).ok();
        Some(Rights {
            user: second("Uid")?,
            group: second("Gid")?,
            groups: field("Groups").split_whitespace().filter_map(|group| group.parse().ok()).collect(),
            effective: bits("CapEff")?,
            permitted: bits("CapPrm")?,
            bounding: bits("CapBnd")?,
            no_new_privs: field("NoNewPrivs") == "1",
            filters: field("Seccomp_filters").parse().unwrap_or_default(),
            filtered: matches!(field("Seccomp"), "1" | "2"),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_is_read() {
        let text = "Name:\tx\nUid:\t1\t2\t3\t4\nGid:\t5\t6\t7\t8\nGroups:\t4 9 \nCapInh:\t0\nCapPrm:\t0000000000000400\n\
                    CapEff:\t0000000000000400\nCapBnd:\t000001ffffffffff\nNoNewPrivs:\t1\nSeccomp:\t2\nSeccomp_filters:\t3\n";
        let rights = Rights::parse(text).unwrap();
        assert_eq!((rights.user, rights.group, rights.groups.clone(), rights.filters), (2, 6, vec![4, 9], 3));
        assert!(rights.no_new_privs && rights.filtered);
        assert_eq!(name_capabilities(rights.effective), "NET_BIND_SERVICE");
        assert_eq!(name_capabilities(rights.bounding), "41, SYS_ADMIN among them");
        assert_eq!(name_capabilities(0), "none");
        assert_eq!(Rights::parse("Name:\tx\n"), None);
    }

    #[test]
    fn a_filter_that_may_kill_is_not_tried() {
        assert!(is_dangerous(true, true, false), "a unit of an earlier version");
        assert!(!is_dangerous(true, true, true), "our unit");
        assert!(!is_dangerous(true, false, false), "a container");
        assert!(!is_dangerous(false, true, false), "a unit without a filter");
    }

    #[test]
    fn our_threads_have_rights() {
        assert!(!own().unwrap().is_empty());
    }
}
