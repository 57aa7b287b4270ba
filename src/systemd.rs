//! Notifications to the service manager, which also keeps our sockets over a restart.
//!
//! A manager such as systemd gives a datagram socket in `NOTIFY_SOCKET` and takes lines `KEY=VALUE` there. It also
//! keeps open files that we send along, and hands them to the next process as descriptors 3 and following
//! (`LISTEN_FDS`). A listening socket that is kept this way goes on to queue requests while nobody runs, so a restart
//! answers them late instead of losing them.
//!
//! Invariants: without a manager everything here does nothing; a manager that does not listen delays nobody and is no
//! error. Each descriptor is taken once, and by nobody else.
//!
//! Cost: one datagram for each call.

use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use rustix::time::{ClockId, clock_gettime};
use socket2::{Domain, SockAddr, Socket, Type};
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::Duration;

/// Target of log lines, which filters name.
const TARGET: &str = "aggregator::manager";

/// Number of the first descriptor that a manager hands over.
const FIRST_DESCRIPTOR: RawFd = 3;
/// Largest number of descriptors taken over, more than any configuration listens on.
const MOST_DESCRIPTORS: RawFd = 1024;

/// Protocol of a listening socket; part of the name by which the manager knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    Udp,
    Tcp,
}

/// The way to the manager, if there is one.
#[derive(Debug, Default)]
pub struct Manager {
    socket: Option<Socket>,
    watchdog: Option<Duration>,
    /// Sockets that the process before this one has left with the manager.
    pub inherited: Inherited,
}

impl Manager {
    /// The manager that this process was started by. Once in a process: what was inherited has one owner.
    pub fn from_environment() -> Manager {
        let variable = |name: &str| std::env::var(name).ok();
        let is_ours = variable("WATCHDOG_PID").is_none_or(|id| id.parse() == Ok(std::process::id()));
        let watchdog = variable("WATCHDOG_USEC").and_then(|text| text.parse().ok()).filter(|_| is_ours);
        Manager {
            socket: std::env::var_os("NOTIFY_SOCKET").and_then(|path| connect(&path).ok()),
            watchdog: watchdog.filter(|time| *time > 0).map(Duration::from_micros),
            inherited: Inherited::from_environment(),
        }
    }

    /// Returns the longest time between calls of [`Manager::alive`]; half of what the manager waits for.
    pub fn watchdog(&self) -> Option<Duration> {
        self.watchdog.map(|time| time / 2)
    }

    /// Reports readiness to the manager, with a status in words.
    pub fn ready(&self, status: &str) {
        self.send(&format!("READY=1\nSTATUS={status}"), None);
    }

    /// Says how we are, in words.
    pub fn status(&self, status: &str) {
        self.send(&format!("STATUS={status}"), None);
    }

    /// Says that the configuration is being read again; [`Manager::ready`] ends that.
    pub fn reloading(&self) {
        let time = clock_gettime(ClockId::Monotonic);
        let microseconds = i128::from(time.tv_sec) * 1_000_000 + i128::from(time.tv_nsec) / 1000;
        self.send(&format!("RELOADING=1\nMONOTONIC_USEC={microseconds}"), None);
    }

    /// Says that the process is about to end.
    pub fn stopping(&self) {
        self.send("STOPPING=1", None);
    }

    /// Says that we still run.
    pub fn alive(&self) {
        self.send("WATCHDOG=1", None);
    }

    /// Has the manager keep a listening socket for the next process.
    pub fn keep(&self, kind: Kind, address: SocketAddr, socket: impl AsFd) {
        // Polled, the manager would throw a socket out for an error that a client caused.
        let message = format!("FDSTORE=1\nFDPOLL=0\nFDNAME={}", name(kind, address));
        self.send(&message, Some(socket.as_fd()));
    }

    /// Has the manager close a socket that is not listened on any more.
    pub fn forget(&self, kind: Kind, address: SocketAddr) {
        self.send(&format!("FDSTOREREMOVE=1\nFDNAME={}", name(kind, address)), None);
    }

    /// Sends a message, with a descriptor or without. A manager that does not take it is none.
    fn send(&self, message: &str, descriptor: Option<BorrowedFd<'_>>) {
        if let Some(socket) = &self.socket
            && let Err(error) = send_with(socket, message.as_bytes(), descriptor)
        {
            tracing::debug!(target: TARGET, %error, "the service manager does not listen");
        }
    }
}

/// Connects to a manager's socket: a path, or after `@` a name that is in no folder.
fn connect(path: &OsStr) -> io::Result<Socket> {
    let mut bytes = path.as_bytes().to_vec();
    if bytes.first() == Some(&b'@') {
        bytes[0] = 0;
    }
    let socket = Socket::new(Domain::UNIX, Type::DGRAM, None)?;
    socket.connect(&SockAddr::unix(Path::new(OsStr::from_bytes(&bytes)))?)?;
    socket.set_nonblocking(true)?;
    Ok(socket)
}

/// The name of a socket in the manager's store; without colons, which it does not take.
fn name(kind: Kind, address: SocketAddr) -> String {
    let kind = match kind {
        Kind::Udp => "udp",
        Kind::Tcp => "tcp",
    };
    format!("{kind}-{}", address.to_string().replace(':', "_"))
}

/// Sends a datagram, and with it a copy of a descriptor (`SCM_RIGHTS`).
fn send_with(socket: &Socket, bytes: &[u8], descriptor: Option<BorrowedFd<'_>>) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if let Some(descriptor) = &descriptor {
        let fits = control.push(SendAncillaryMessage::ScmRights(std::slice::from_ref(descriptor)));
        debug_assert!(fits, "there is room for one descriptor");
    }
    sendmsg(socket, &[IoSlice::new(bytes)], &mut control, SendFlags::NOSIGNAL)?;
    Ok(())
}

//--- What a predecessor left ---

/// Listening sockets of the process before this one, by kind and address.
#[derive(Debug, Default)]
pub struct Inherited(BTreeMap<(Kind, SocketAddr), OwnedFd>);

impl Inherited {
    /// Takes what the manager hands over. Once in a process: the descriptors have one owner.
    fn from_environment() -> Inherited {
        static TAKEN: std::sync::Once = std::sync::Once::new();
        let mut inherited = Inherited::default();
        TAKEN.call_once(|| inherited = Inherited::take(std::env::var_os("LISTEN_PID"), std::env::var_os("LISTEN_FDS")));
        inherited
    }

    /// Takes as many descriptors as the variables say, if they are for this process.
    fn take(id: Option<OsString>, count: Option<OsString>) -> Inherited {
        let number = |text: Option<OsString>| text.and_then(|text| text.to_str()?.parse::<u32>().ok());
        if number(id) != Some(std::process::id()) {
            return Inherited::default();
        }
        let count = RawFd::try_from(number(count).unwrap_or_default()).unwrap_or_default().min(MOST_DESCRIPTORS);
        let mut found = BTreeMap::new();
        for descriptor in FIRST_DESCRIPTOR..FIRST_DESCRIPTOR + count {
            // SAFETY: by the manager's word the descriptors are ours, and this is the only place that takes them; one
            // that is not open is left alone.
            let socket = unsafe {
                if libc::fcntl(descriptor, libc::F_SETFD, libc::FD_CLOEXEC) < 0 {
                    continue;
                }
                Socket::from_raw_fd(descriptor)
            };
            if let Some(key) = identify(&socket) {
                // Two sockets of one address cannot come from us; the first is as good as the other.
                found.entry(key).or_insert_with(|| OwnedFd::from(socket));
            }
        }
        Inherited(found)
    }

    /// The UDP socket of an address.
    pub fn udp(&mut self, address: SocketAddr) -> Option<UdpSocket> {
        self.0.remove(&(Kind::Udp, address)).map(UdpSocket::from)
    }

    /// The listening TCP socket of an address.
    pub fn tcp(&mut self, address: SocketAddr) -> Option<TcpListener> {
        self.0.remove(&(Kind::Tcp, address)).map(TcpListener::from)
    }

    /// Closes sockets that nobody has asked for, so that the manager can do the same.
    pub fn close(self) -> Vec<(Kind, SocketAddr)> {
        self.0.into_keys().collect()
    }
}

/// Returns the protocol and address of a socket; none if it is not one of ours.
fn identify(socket: &Socket) -> Option<(Kind, SocketAddr)> {
    let address = socket.local_addr().ok()?.as_socket()?;
    match socket.r#type().ok()? {
        Type::DGRAM => Some((Kind::Udp, address)),
        Type::STREAM if socket.is_listener().ok()? => Some((Kind::Tcp, address)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixDatagram;

    /// A manager that listens.
    fn manager(folder: &Path) -> (UnixDatagram, Manager) {
        let path = folder.join("notify");
        let receiver = UnixDatagram::bind(&path).unwrap();
        receiver.set_nonblocking(true).unwrap();
        (receiver, Manager { socket: Some(connect(path.as_os_str()).unwrap()), ..Manager::default() })
    }

    /// The next message, and whether it was complete.
    fn next(receiver: &UnixDatagram) -> String {
        let mut buffer = [0; 512];
        let count = receiver.recv(&mut buffer).unwrap();
        String::from_utf8(buffer[..count].to_vec()).unwrap()
    }

    #[test]
    fn a_manager_hears_everything() {
        let folder = tempfile::tempdir().unwrap();
        let (receiver, manager) = manager(folder.path());
        manager.ready("zones: 3");
        assert_eq!(next(&receiver), "READY=1\nSTATUS=zones: 3");
        manager.reloading();
        let text = next(&receiver);
        let time: u64 = text.strip_prefix("RELOADING=1\nMONOTONIC_USEC=").unwrap().parse().unwrap();
        assert!(time > 0);
        manager.alive();
        assert_eq!(next(&receiver), "WATCHDOG=1");
        manager.stopping();
        assert_eq!(next(&receiver), "STOPPING=1");
        let socket = UdpSocket::bind("[::1]:0").unwrap();
        let address = socket.local_addr().unwrap();
        manager.keep(Kind::Udp, address, &socket);
        let port = address.port();
        assert_eq!(next(&receiver), format!("FDSTORE=1\nFDPOLL=0\nFDNAME=udp-[__1]_{port}"));
        manager.forget(Kind::Udp, address);
        assert_eq!(next(&receiver), format!("FDSTOREREMOVE=1\nFDNAME=udp-[__1]_{port}"));
    }

    #[test]
    fn a_manager_that_is_gone_or_never_was_is_no_trouble() {
        let folder = tempfile::tempdir().unwrap();
        let (receiver, manager) = manager(folder.path());
        drop(receiver);
        manager.ready("");
        Manager::default().ready("");
        assert_eq!(Manager::default().watchdog(), None);
    }

    #[test]
    fn a_full_manager_delays_nobody() {
        let folder = tempfile::tempdir().unwrap();
        let (_receiver, manager) = manager(folder.path());
        // Many times what the kernel queues for a reader that sleeps.
        (0..10_000).for_each(|_| manager.alive());
    }

    #[test]
    fn a_name_in_no_folder_is_reached() {
        use std::os::linux::net::SocketAddrExt;
        let name = format!("aggregator-test-{}", std::process::id());
        let address = std::os::unix::net::SocketAddr::from_abstract_name(&name).unwrap();
        let receiver = UnixDatagram::bind_addr(&address).unwrap();
        let manager = Manager { socket: Some(connect(OsStr::new(&format!("@{name}"))).unwrap()), ..Manager::default() };
        manager.status("well");
        assert_eq!(next(&receiver), "STATUS=well");
    }

    #[test]
    fn descriptors_for_others_are_left_alone() {
        assert!(Inherited::take(Some("1".into()), Some("9".into())).close().is_empty());
        assert!(Inherited::take(None, Some("9".into())).close().is_empty());
    }

    #[test]
    fn sockets_are_told_apart() {
        let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
        let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = std::net::TcpStream::connect(tcp.local_addr().unwrap()).unwrap();
        let kind = |fd: OwnedFd| identify(&Socket::from(fd));
        assert_eq!(kind(udp.try_clone().unwrap().into()), Some((Kind::Udp, udp.local_addr().unwrap())));
        assert_eq!(kind(tcp.try_clone().unwrap().into()), Some((Kind::Tcp, tcp.local_addr().unwrap())));
        assert_eq!(kind(client.into()), None);
    }
}
