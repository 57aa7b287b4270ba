//! The system calls that the server never makes, refused by the kernel (`seccomp(2)`).
//!
//! The filter is a list of what is refused, and all else is allowed. A list of what is allowed would be stricter on paper
//! and break in practice: which calls a program makes is the choice of its C library (glibc and musl in their versions,
//! and what they load for names and certificates), of the runtime and of the allocator, and a call that one of them takes
//! up next year would fail in the middle of an update. What is refused here is what an intruder needs: other programs, other
//! processes, mounts, modules, tracing, kernel interfaces with a long history of holes, and every way to another user. A
//! refused call fails with EPERM and kills nobody, so that a mistake in the list is an error in one place and not
//! an outage.
//!
//! `clone3` fails as if the kernel did not have it (ENOSYS), because a filter cannot see into its arguments: libraries then
//! use `clone`, of which only the making of namespaces is refused. On x86-64 the numbers of the x32 interface are refused,
//! too; calls of 32-bit programs end the process, since this is none.
//!
//! Invariants: names of the lists are calls of all platforms or of those that `cfg` names; the program never executes
//! another in the verbs that install the filter.
//!
//! Cost: two programs of some hundred instructions, which Linux since 5.11 does not run for calls that are allowed
//! whatever their arguments are, such as those that answer queries. Before Linux 5.16 a filter also has the processor keep
//! speculative stores apart on some machines, which costs some percent.

use super::Sandbox;
use libc::c_long;
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
    TargetArch, apply_filter,
};
use std::collections::BTreeMap;

/// Calls that are refused whatever their arguments are.
pub const REFUSED: &[c_long] = &[
    // Other programs.
    libc::SYS_execve,
    libc::SYS_execveat,
    // Other processes: their memory, files and threads.
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_process_madvise,
    libc::SYS_kcmp,
    libc::SYS_pidfd_getfd,
    // Another user, group or capability.
    libc::SYS_setuid,
    libc::SYS_setgid,
    libc::SYS_setreuid,
    libc::SYS_setregid,
    libc::SYS_setresuid,
    libc::SYS_setresgid,
    libc::SYS_setfsuid,
    libc::SYS_setfsgid,
    libc::SYS_setgroups,
    libc::SYS_capset,
    // What is mounted where, and namespaces.
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_open_tree,
    libc::SYS_move_mount,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_mount_setattr,
    libc::SYS_unshare,
    libc::SYS_setns,
    libc::SYS_name_to_handle_at,
    libc::SYS_open_by_handle_at,
    libc::SYS_mknodat,
    // The kernel: its code, its keys, its inner life.
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_kexec_load,
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    libc::SYS_add_key,
    libc::SYS_keyctl,
    libc::SYS_request_key,
    libc::SYS_syslog,
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_fanotify_init,
    libc::SYS_memfd_secret,
    libc::SYS_personality,
    // The machine: swap, power, clock, name, accounts.
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_reboot,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_clock_adjtime,
    libc::SYS_adjtimex,
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
    libc::SYS_acct,
    libc::SYS_quotactl,
    libc::SYS_vhangup,
    #[cfg(not(target_arch = "riscv64"))]
    libc::SYS_nfsservctl,
    #[cfg(not(target_arch = "riscv64"))]
    libc::SYS_kexec_file_load,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_mknod,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_iopl,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_ioperm,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_modify_ldt,
];

/// The bit that marks a number of the x32 interface, and its last number; those from 512 on are its own.
#[cfg(target_arch = "x86_64")]
const X32: (c_long, std::ops::RangeInclusive<c_long>) = (0x4000_0000, 512..=547);

/// Flags of `clone` that make namespaces.
const NAMESPACES: [i32; 8] = [
    libc::CLONE_NEWCGROUP,
    libc::CLONE_NEWIPC,
    libc::CLONE_NEWNET,
    libc::CLONE_NEWNS,
    libc::CLONE_NEWPID,
    libc::CLONE_NEWUSER,
    libc::CLONE_NEWUTS,
    0x80, // CLONE_NEWTIME
];

/// Families of sockets that are used: all others are refused.
const FAMILIES: [i32; 4] = [libc::AF_UNIX, libc::AF_INET, libc::AF_INET6, libc::AF_NETLINK];

/// Error: there is no filter.
#[derive(Debug, thiserror::Error)]
pub enum CallsError {
    #[error("system calls are not filtered: no filter is known for {}", std::env::consts::ARCH)]
    Machine,
    #[error("system calls are not filtered: {0}")]
    Failed(String),
}

/// Installs the filter for this thread and all that it starts, for good. Returns the number of calls that are refused, or
/// in the mode "log" told to the kernel's audit log.
pub fn restrict(sandbox: Sandbox) -> Result<usize, CallsError> {
    let failed = |error: &dyn std::fmt::Display| CallsError::Failed(error.to_string());
    let (refusal, absence) = match sandbox {
        Sandbox::Off => return Ok(0),
        Sandbox::Log => (SeccompAction::Log, None),
        Sandbox::On => (SeccompAction::Errno(libc::EPERM as u32), Some(SeccompAction::Errno(libc::ENOSYS as u32))),
    };
    let rules = refused().map_err(|error| failed(&error))?;
    let count = REFUSED.len();
    let clone3 = BTreeMap::from([(libc::SYS_clone3, Vec::new())]);
    let filters = [Some((rules, refusal)), absence.map(|action| (clone3, action))];
    for (rules, action) in filters.into_iter().flatten() {
        let program = compile(rules, action)?;
        apply_filter(&program).map_err(|error| failed(&error))?;
    }
    Ok(count)
}

/// Returns the number of calls that are refused.
pub fn count() -> usize {
    REFUSED.len()
}

/// Tries whether a filter can be installed, in a thread that ends.
pub fn is_available() -> Result<(), CallsError> {
    let tried = std::thread::spawn(|| restrict(Sandbox::Log)).join();
    tried.unwrap_or_else(|_| Err(CallsError::Failed("a defect has ended the attempt".to_owned()))).map(drop)
}

/// Makes the kernel's program of a filter.
fn compile(rules: BTreeMap<i64, Vec<SeccompRule>>, action: SeccompAction) -> Result<BpfProgram, CallsError> {
    let machine: TargetArch = std::env::consts::ARCH.try_into().map_err(|_| CallsError::Machine)?;
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, action, machine);
    filter.and_then(BpfProgram::try_from).map_err(|error| CallsError::Failed(error.to_string()))
}

/// The rules for what is refused.
fn refused() -> Result<BTreeMap<i64, Vec<SeccompRule>>, seccompiler::BackendError> {
    let mut rules: BTreeMap<i64, Vec<SeccompRule>> = REFUSED.iter().map(|call| (*call, Vec::new())).collect();
    let first = |operator, value: i32| SeccompCondition::new(0, SeccompCmpArgLen::Dword, operator, value as u64);
    let flag = |flag: i32| SeccompRule::new(vec![first(SeccompCmpOp::MaskedEq(flag as u64), flag)?]);
    rules.insert(libc::SYS_clone, NAMESPACES.into_iter().map(flag).collect::<Result<_, _>>()?);
    let others = FAMILIES.into_iter().map(|family| first(SeccompCmpOp::Ne, family)).collect::<Result<_, _>>()?;
    rules.insert(libc::SYS_socket, vec![SeccompRule::new(others)?]);
    #[cfg(target_arch = "x86_64")]
    {
        let (bit, own) = X32;
        let same = REFUSED.iter().copied().chain([libc::SYS_clone, libc::SYS_clone3, libc::SYS_socket]);
        rules.extend(same.chain(own).map(|call| (bit | call, Vec::new())));
    }
    Ok(rules)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_call_is_listed_once_and_the_filter_is_small() {
        let rules = refused().unwrap();
        let count = REFUSED.iter().collect::<std::collections::BTreeSet<_>>().len();
        assert_eq!(count, REFUSED.len());
        let program = compile(rules, SeccompAction::Errno(1)).unwrap();
        // The kernel takes 4,096 instructions (BPF_MAXINSNS).
        assert!((count..1000).contains(&program.len()), "{}", program.len());
    }
}
