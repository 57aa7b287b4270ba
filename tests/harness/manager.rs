//! A service manager as systemd is one: hears what a service says of itself, keeps its sockets, and hands them over.

use super::{Process, wait_until};
use std::collections::BTreeMap;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixDatagram;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// The first descriptor that a service gets.
const FIRST: RawFd = 3;
/// Copies wait above these before they are put in their places.
const ASIDE: RawFd = 200;

/// The manager of one service.
pub struct ServiceManager {
    path: PathBuf,
    socket: UnixDatagram,
    /// Kept sockets, by the names that the service gave them.
    store: BTreeMap<String, OwnedFd>,
    /// Messages received, a line each, without those about the store.
    heard: Vec<String>,
}

impl ServiceManager {
    /// A manager whose socket lies in a folder.
    pub fn new(folder: &Path) -> ServiceManager {
        let path = folder.join("notify");
        let socket = UnixDatagram::bind(&path).expect("socket of the service manager");
        socket.set_nonblocking(true).expect("nonblocking");
        ServiceManager { path, socket, store: BTreeMap::new(), heard: Vec::new() }
    }

    /// Starts a program with everything that the store holds.
    pub fn start(&mut self, program: &Path, arguments: &[&str], watchdog: Option<Duration>, log: &Path) -> Process {
        let mut command = Command::new("/bin/sh");
        // The id is known only in the process itself.
        command.args(["-c", "LISTEN_PID=$$ exec \"$0\" \"$@\""]).arg(program).args(arguments);
        command.env("NOTIFY_SOCKET", &self.path).env("LISTEN_FDS", self.store.len().to_string());
        if let Some(time) = watchdog {
            command.env("WATCHDOG_USEC", time.as_micros().to_string());
        }
        let descriptors: Vec<RawFd> = self.store.values().map(AsRawFd::as_raw_fd).collect();
        // SAFETY: fcntl and dup2 are async-signal-safe and touch only the child.
        unsafe {
            command.pre_exec(move || {
                for (index, descriptor) in descriptors.iter().enumerate() {
                    libc::fcntl(*descriptor, libc::F_DUPFD_CLOEXEC, ASIDE + index as RawFd);
                }
                for index in 0..descriptors.len() as RawFd {
                    libc::dup2(ASIDE + index, FIRST + index);
                }
                Ok(())
            });
        }
        Process::start("aggregator", &mut command, log)
    }

    /// Waits until the service has said a line.
    pub fn wait_for(&mut self, line: &str) {
        wait_until(&format!("the service says {line}"), Duration::from_secs(20), || {
            self.listen();
            self.heard.iter().any(|heard| heard == line).then_some(())
        });
    }

    /// Returns the messages received since the last call.
    pub fn take_heard(&mut self) -> Vec<String> {
        self.listen();
        std::mem::take(&mut self.heard)
    }

    /// The names of the kept sockets.
    pub fn kept(&mut self) -> Vec<String> {
        self.listen();
        self.store.keys().cloned().collect()
    }

    /// Takes every message that is there.
    fn listen(&mut self) {
        while let Some((text, descriptor)) = receive(&self.socket) {
            let lines: BTreeMap<&str, &str> = text.lines().filter_map(|line| line.split_once('=')).collect();
            let name = lines.get("FDNAME").copied().unwrap_or_default();
            if lines.contains_key("FDSTOREREMOVE") {
                self.store.remove(name);
            } else if lines.contains_key("FDSTORE") {
                assert_eq!(lines.get("FDPOLL"), Some(&"0"), "an error on a socket must not throw it out");
                self.store.insert(name.to_owned(), descriptor.expect("a socket to keep"));
            } else {
                self.heard.extend(text.lines().map(str::to_owned));
            }
        }
    }
}

/// The next message and the descriptor that came with it.
fn receive(socket: &UnixDatagram) -> Option<(String, Option<OwnedFd>)> {
    #[repr(C, align(8))]
    struct Control([u8; 64]);
    let mut control = Control([0; 64]);
    let mut buffer = [0u8; 4096];
    let mut vector = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
    // SAFETY: every pointer is to a value that outlives the call; the kernel writes one descriptor at most into the
    // control message, which is then ours.
    unsafe {
        let mut header: libc::msghdr = std::mem::zeroed();
        header.msg_iov = &raw mut vector;
        header.msg_iovlen = 1;
        header.msg_control = control.0.as_mut_ptr().cast();
        header.msg_controllen = 64;
        let count = libc::recvmsg(socket.as_raw_fd(), &raw mut header, libc::MSG_CMSG_CLOEXEC);
        let count = usize::try_from(count).ok()?;
        let message = libc::CMSG_FIRSTHDR(&raw const header);
        let descriptor = (!message.is_null() && (*message).cmsg_type == libc::SCM_RIGHTS)
            .then(|| OwnedFd::from_raw_fd(libc::CMSG_DATA(message).cast::<RawFd>().read_unaligned()));
        Some((String::from_utf8_lossy(&buffer[..count]).into_owned(), descriptor))
    }
}
