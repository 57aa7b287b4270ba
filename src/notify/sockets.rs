//! The way to the targets and back: one UDP socket for each source address and family, made when it is first needed.
//!
//! Each socket has a small task that hands on what arrives. Sending does not wait for the network: what the system does
//! not take in a moment counts as lost, as it would on the way.
//!
//! Cost: sockets O(source addresses), whatever the number of zones and targets.

use crate::client::Server;
use std::collections::{HashMap, HashSet};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;
use tokio::net::UdpSocket;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

/// Replies that may wait to be looked at; more are left to the system's buffer.
const MOST_WAITING: usize = 256;
/// Room for a reply, in octets: longer than any reply to a question for one name, signature included.
const REPLY_BYTES: usize = 1500;
/// Longest time that the system may take to accept a message.
const SEND_PATIENCE: Duration = Duration::from_millis(50);
/// Pause after an error of a socket, so that a lasting one does not take the processor.
const PAUSE: Duration = Duration::from_millis(20);

/// Message that came from an address.
type Arrival = (SocketAddr, Vec<u8>);

/// All sockets.
pub(super) struct Sockets {
    open: HashMap<IpAddr, Socket>,
    arrivals: mpsc::Receiver<Arrival>,
    arrived: mpsc::Sender<Arrival>,
    /// Message that `wait` has found.
    first: Option<Arrival>,
}

/// One socket and its reader, which ends with it.
struct Socket {
    socket: Arc<UdpSocket>,
    _reader: JoinSet<()>,
}

impl Sockets {
    /// Starts with no sockets.
    pub(super) fn new() -> Sockets {
        let (arrived, arrivals) = mpsc::channel(MOST_WAITING);
        Sockets { open: HashMap::new(), arrivals, arrived, first: None }
    }

    /// Sends a message to a target from its source address.
    pub(super) async fn send(&mut self, target: &Server, bytes: &[u8]) -> io::Result<()> {
        let source = target.local();
        if !self.open.contains_key(&source) {
            let socket = Arc::new(UdpSocket::bind(SocketAddr::new(source, 0)).await?);
            let mut reader = JoinSet::new();
            reader.spawn(read(socket.clone(), self.arrived.clone()));
            self.open.insert(source, Socket { socket, _reader: reader });
        }
        let socket = &self.open[&source].socket;
        match timeout(SEND_PATIENCE, socket.send_to(bytes, target.address)).await {
            Ok(sent) => sent.map(drop),
            Err(_) => Err(io::ErrorKind::TimedOut.into()),
        }
    }

    /// Closes the sockets that no target needs.
    pub(super) fn retain<'a>(&mut self, targets: impl Iterator<Item = &'a Server>) {
        let used: HashSet<IpAddr> = targets.map(Server::local).collect();
        self.open.retain(|source, _| used.contains(source));
    }

    /// Waits until something has arrived.
    pub(super) async fn wait(&mut self) {
        if self.first.is_none() {
            self.first = self.arrivals.recv().await;
        }
    }

    /// Takes what has arrived.
    pub(super) fn take_arrived(&mut self) -> Vec<Arrival> {
        let more = std::iter::from_fn(|| self.arrivals.try_recv().ok()).take(MOST_WAITING);
        self.first.take().into_iter().chain(more).collect()
    }
}

/// Hands on what arrives for as long as the socket is needed.
async fn read(socket: Arc<UdpSocket>, arrived: mpsc::Sender<Arrival>) {
    let mut buffer = [0; REPLY_BYTES];
    loop {
        match socket.recv_from(&mut buffer).await {
            Ok((length, from)) => {
                if arrived.send((from, buffer[..length].to_vec())).await.is_err() {
                    return;
                }
            }
            Err(_) => sleep(PAUSE).await,
        }
    }
}
