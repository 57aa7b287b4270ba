//! The server as a child process without root's rights, and the duties of a first process.
//!
//! Invariants: between fork and exec only async-signal-safe calls run; the child has one capability, the ports below
//! 1024, and cannot gain another; children that others leave behind are collected, so that none stays as a zombie.
//!
//! Cost: nothing while the server runs.

use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitOptions, getpid, getppid, kill_process, set_parent_process_death_signal, wait};
use std::io;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Command, ExitStatus};

/// `CAP_NET_BIND_SERVICE`, as the kernel numbers it.
const NET_BIND_SERVICE: u32 = 10;
/// Number of capabilities to go through, which is more than any kernel has.
const CAPABILITIES: u32 = 64;
/// `_LINUX_CAPABILITY_VERSION_3`.
const CAPABILITY_VERSION: u32 = 0x2008_0522;

/// A running server.
pub struct Child {
    id: Pid,
}

impl Child {
    /// Starts this program as the server with a configuration; as another user, if one is given.
    pub fn start(configuration: &Path, user: Option<u32>) -> io::Result<Child> {
        let mut command = Command::new(own_program());
        command.arg("run").arg("--config").arg(configuration);
        let parent = Some(getpid());
        // SAFETY: the function makes system calls only.
        unsafe {
            command.pre_exec(move || {
                user.map_or(Ok(()), drop_rights)?;
                // Should we be killed, the server ends as well, and whoever watches us starts both again. Only now, since the
                // change of the user takes this back.
                let _ = set_parent_process_death_signal(Some(Signal::TERM));
                // Who was killed before that sends no signal.
                if getppid() == parent { Ok(()) } else { Err(Errno::SRCH.into()) }
            });
        }
        // It is waited for with all other children, never by its handle.
        let child = command.spawn()?;
        let id = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
        Ok(Child { id: id.ok_or_else(|| io::Error::other("the system gave no process number"))? })
    }

    /// Sends a signal.
    pub fn signal(&self, signal: Signal) {
        // The id is ours until `collect` has returned its status; a child that has ended needs no signal.
        let _ = kill_process(self.id, signal);
    }

    /// Collects every child that has ended; how this one has, if it is among them.
    pub fn collect(&self) -> Option<ExitStatus> {
        let mut own = None;
        while let Ok(Some((id, status))) = wait(WaitOptions::NOHANG) {
            if id == self.id {
                own = Some(ExitStatus::from_raw(status.as_raw()));
            }
        }
        own
    }
}

/// Returns the path of this program's file, or else the name by which it was called.
fn own_program() -> std::path::PathBuf {
    std::env::current_exe().unwrap_or_else(|_| std::env::args_os().next().unwrap_or_default().into())
}

/// Becomes a user with one capability.
fn drop_rights(user: u32) -> io::Result<()> {
    let check = |result: libc::c_int| if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) };
    let keep = 1u32 << NET_BIND_SERVICE;
    // Systems that only resemble Linux lack some of these. Whoever cannot keep the capability is told when it binds.
    // SAFETY: all of these are system calls with plain arguments or pointers to values that outlive them.
    unsafe {
        libc::prctl(libc::PR_SET_KEEPCAPS, 1, 0, 0, 0);
        (0..CAPABILITIES).filter(|capability| *capability != NET_BIND_SERVICE).for_each(|capability| {
            libc::prctl(libc::PR_CAPBSET_DROP, libc::c_ulong::from(capability), 0, 0, 0);
        });
        check(libc::setgroups(0, std::ptr::null()))?;
        check(libc::setgid(user))?;
        check(libc::setuid(user))?;
        let header = [CAPABILITY_VERSION, 0];
        let sets = [[keep, keep, keep], [0, 0, 0]];
        libc::syscall(libc::SYS_capset, header.as_ptr(), sets.as_ptr());
        let raise = libc::PR_CAP_AMBIENT_RAISE as libc::c_ulong;
        libc::prctl(libc::PR_CAP_AMBIENT, raise, libc::c_ulong::from(NET_BIND_SERVICE), 0, 0);
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    }
    Ok(())
}
