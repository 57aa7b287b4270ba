//! A primary on one address that behaves like CNS over UDP and TCP.
//!
//! A commit takes as long as it is told to, and so does the scan of a whole transfer; then what is sent is what CNS
//! sends when both happen at once.
//!
//! Invariants: every answer but such a scan comes from one version of a zone; nothing a client sends stops the primary;
//! while it is away it answers nothing and keeps no connection. It ends when it is dropped.
//!
//! Cost: one task for each connection; a transfer is built in memory, O(octets of the zone); a new version is compared
//! with the one before, O(records).

use super::answer::{Kind, Scan, Zones, answer_datagram, answer_stream, find_zone};
use super::commit::Commit;
use super::message::{Query, Rcode, Response, Unanswered};
use super::peers::{Errand, Peers, Times, announcement, ask_serial};
use super::store::Stored;
use super::zone::Zone;
use arc_swap::ArcSwap;
use parking_lot::Mutex;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until, timeout};
use wire::name::Name;
use wire::serial::Serial;

/// The target of log lines, which filters name.
const TARGET: &str = "aggregator::demo::primary";

/// CNS closes a connection on which nothing arrives, or nothing can be sent, for so long.
const IDLE: Duration = Duration::from_secs(5);
/// Pause after an error of a socket, so that a lasting one does not take the processor.
const PAUSE: Duration = Duration::from_millis(20);
/// Most attempts at finding a port that is free for both TCP and UDP.
const ATTEMPTS: usize = 20;

/// A running primary.
pub struct Primary {
    address: SocketAddr,
    shared: Arc<Shared>,
    socket: Arc<UdpSocket>,
    /// Aborted when dropped.
    _tasks: JoinSet<()>,
}

/// State that the tasks of a primary share.
#[derive(Default)]
struct Shared {
    zones: ArcSwap<Zones>,
    away: watch::Sender<bool>,
    tally: Mutex<Tally>,
    peers: Peers,
    manner: Mutex<Manner>,
}

/// Behaviour of a primary when all is well with its zones.
#[derive(Clone, Copy, Debug, Default)]
struct Manner {
    /// Pause between two parts of a scan.
    scan_pause: Duration,
    /// True if the primary refuses questions for anything but zones and their apexes.
    refuses: bool,
}

/// Counts of what a primary was asked so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Whole zones sent.
    pub whole: u64,
    /// Whole zones sent for a question for differences at the present serial; they count in `whole`, too.
    pub again: u64,
    /// Differences sent.
    pub steps: u64,
    /// Messages that CNS drops because it cannot read them.
    pub unreadable: u64,
    /// Questions that would have stopped CNS.
    pub fatal: u64,
    /// Questions for records below the apex.
    pub questions: u64,
}

impl Shared {
    /// Changes one zone in place; nothing happens if it is not there.
    fn change(&self, origin: &Name, change: impl Fn(&mut Stored)) {
        self.zones.rcu(|zones| {
            let mut zones = Zones::clone(zones);
            if let Some(stored) = zones.get_mut(origin) {
                change(Arc::make_mut(stored));
            }
            zones
        });
    }

    /// Counts a question for records below the apex, and turns it away if that is the manner.
    fn refuse(&self, query: &Query) -> Option<Vec<u8>> {
        if query.wants_transfer() || self.zones.load().contains_key(query.name.to_lowercase().as_wire()) {
            return None;
        }
        self.tally.lock().questions += 1;
        self.manner.lock().refuses.then(|| Response::new(query, 0, Rcode::Refused).finish())
    }

    /// Sends a whole zone in its own time, while commits go on.
    async fn scan(&self, stream: &mut TcpStream, stored: &Stored, query: &Query) -> io::Result<()> {
        let pause = self.manner.lock().scan_pause;
        let mut scan = Scan::new(stored, query);
        loop {
            sleep(pause).await;
            let now = find_zone(&self.zones.load(), query).map(|stored| stored.zone().clone());
            let has_more = now.is_some_and(|now| scan.read(&now));
            write_messages(stream, scan.take()).await?;
            if !has_more {
                return write_messages(stream, scan.finish()).await;
            }
        }
    }

    /// Answers a question that came over TCP, and counts it; what was to go wrong with a transfer has now gone wrong.
    fn answer(&self, query: &Query, client: IpAddr) -> Option<Reply> {
        let zones = self.zones.load();
        if let Some(refusal) = self.refuse(query) {
            return Some(Reply::Messages(vec![refusal]));
        }
        let Some((kind, messages)) = answer_stream(&zones, query) else {
            self.tally.lock().fatal += 1;
            return None;
        };
        if let (Kind::Whole | Kind::Steps, Some(stored)) = (kind, find_zone(&zones, query)) {
            let (origin, serial) = (stored.zone().origin(), stored.zone().serial());
            // Whether the client reads to the end does not matter.
            self.peers.note_transfer(client, origin, serial);
            if kind == Kind::Whole {
                self.change(origin, Stored::note_whole);
                self.tally.lock().again += u64::from(query.serial == Some(serial));
                self.tally.lock().whole += 1;
            } else {
                self.change(origin, Stored::note_steps);
                self.tally.lock().steps += 1;
            }
            let takes_time = kind == Kind::Whole && self.manner.lock().scan_pause > Duration::ZERO;
            if takes_time && stored.lapses.scan.is_none() {
                return Some(Reply::Scan(stored.clone()));
            }
        }
        Some(Reply::Messages(messages))
    }
}

/// Reply that goes out over TCP.
enum Reply {
    Messages(Vec<Vec<u8>>),
    /// A whole zone, read while it is sent.
    Scan(Arc<Stored>),
}

impl Primary {
    /// Binds UDP and TCP to the same port and begins to answer; port 0 picks one that is free for both.
    pub async fn start(address: SocketAddr) -> io::Result<Primary> {
        let (listener, socket) = bind(address).await?;
        let address = listener.local_addr()?;
        let shared = Arc::<Shared>::default();
        let socket = Arc::new(socket);
        let mut tasks = JoinSet::new();
        tasks.spawn(serve_datagrams(Arc::clone(&socket), Arc::clone(&shared)));
        tasks.spawn(accept_connections(listener, Arc::clone(&shared)));
        tasks.spawn(run_errands(Arc::clone(&socket), Arc::clone(&shared)));
        Ok(Primary { address, shared, socket, _tasks: tasks })
    }

    /// Address at which the primary listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Puts a version of a zone in place of the one before, with what changed as a further step of its history;
    /// transfers under way keep theirs.
    pub fn publish(&self, zone: Zone) {
        let before = self.shared.zones.load().get(zone.origin()).cloned();
        self.put(before.map_or_else(|| Stored::new(zone.clone()), |stored| stored.advance(zone.clone())));
    }

    /// Puts a version of a zone in place without any history, as after the database was lost.
    pub fn replace(&self, zone: Zone) {
        self.put(Stored::new(zone));
    }

    /// Writes a version of a zone as CNS does, one thing after the other, in this time. Whatever is asked meanwhile is
    /// answered from what is written by then. Two commits of one zone must not overlap, as they do not in CNS.
    pub async fn commit(&self, zone: Zone, duration: Duration) {
        let origin = zone.origin().clone();
        let Some(before) = self.shared.zones.load().get(&origin).map(|stored| stored.zone().clone()) else {
            return self.publish(zone);
        };
        let (commit, begun) = (Commit::new(&before, zone), Instant::now());
        let writes = commit.writes();
        for number in 0..writes {
            sleep_until(begun + duration * (number + 1) as u32 / writes as u32).await;
            self.change(&origin, |stored| commit.write(stored, number));
        }
    }

    /// Has scans pause between two parts, so that a commit can happen in the middle of one.
    pub fn set_scan_pause(&self, pause: Duration) {
        self.shared.manner.lock().scan_pause = pause;
    }

    /// Refuses questions for anything but zones and their apexes, or answers them again.
    pub fn set_refusing(&self, refuses: bool) {
        self.shared.manner.lock().refuses = refuses;
    }

    /// Keeps this and nothing else of a zone.
    fn put(&self, stored: Stored) {
        let stored = Arc::new(stored);
        self.shared.zones.rcu(|zones| {
            let mut zones = Zones::clone(zones);
            zones.insert(stored.zone().origin().clone(), Arc::clone(&stored));
            zones
        });
    }

    /// Changes what is kept of a zone: has something go wrong with its next transfer, or drops history.
    pub fn change(&self, origin: &Name, change: impl Fn(&mut Stored)) {
        self.shared.change(origin, change);
    }

    /// The serial of a zone.
    pub fn serial(&self, origin: &Name) -> Option<Serial> {
        self.shared.zones.load().get(origin).map(|stored| stored.zone().serial())
    }

    /// Tells a secondary of changes from now on, as CNS does.
    pub fn follow(&self, secondary: SocketAddr, times: Times) {
        self.shared.peers.follow(secondary, times);
    }

    /// Returns true if the primary has given up on a secondary.
    pub fn is_silent(&self, secondary: SocketAddr) -> bool {
        self.shared.peers.is_silent(secondary.ip())
    }

    /// Counts of what the primary was asked so far.
    pub fn tally(&self) -> Tally {
        *self.shared.tally.lock()
    }

    /// Makes the primary unreachable, as when its datacenter is cut off, or reachable again.
    pub fn set_away(&self, away: bool) {
        self.shared.away.send_replace(away);
    }

    /// Returns true if the primary is unreachable.
    pub fn is_away(&self) -> bool {
        *self.shared.away.borrow()
    }

    /// Sends one NOTIFY for a zone in the form of CNS: no AA, no SOA, no EDNS (RFC 1996 section 3).
    ///
    /// The reply is not awaited; nothing is sent while the primary is away.
    pub async fn notify(&self, origin: &Name, secondary: SocketAddr) -> io::Result<()> {
        if self.is_away() {
            return Ok(());
        }
        let id = self.serial(origin).map_or(0, |serial| serial.0 as u16);
        let message = announcement(id, origin);
        self.socket.send_to(&message, secondary).await.map(|_| ())
    }
}

/// Binds both sockets to one port.
async fn bind(address: SocketAddr) -> io::Result<(TcpListener, UdpSocket)> {
    let mut attempts = if address.port() == 0 { ATTEMPTS } else { 1 };
    loop {
        let listener = TcpListener::bind(address).await?;
        match UdpSocket::bind(listener.local_addr()?).await {
            Ok(socket) => return Ok((listener, socket)),
            Err(error) if attempts == 1 || error.kind() != io::ErrorKind::AddrInUse => return Err(error),
            Err(_) => attempts -= 1,
        }
    }
}

/// Answers over UDP for as long as the primary exists.
async fn serve_datagrams(socket: Arc<UdpSocket>, shared: Arc<Shared>) {
    let mut buffer = vec![0; usize::from(u16::MAX)];
    loop {
        let Ok((length, client)) = socket.recv_from(&mut buffer).await else {
            sleep(PAUSE).await;
            continue;
        };
        if *shared.away.borrow() {
            continue;
        }
        // CNS drops what it cannot read. Responses are those to NOTIFY.
        let query = match Query::read(&buffer[..length]) {
            Ok(query) => query,
            Err(unanswered) => {
                shared.tally.lock().unreadable += u64::from(unanswered == Unanswered::Unreadable);
                if unanswered == Unanswered::Response {
                    shared.peers.note_reply(client, &buffer[..length]);
                }
                continue;
            }
        };
        let answer = shared.refuse(&query).or_else(|| answer_datagram(&shared.zones.load(), &query));
        match answer {
            Some(answer) => {
                // A client that cannot be reached asks again or not; either way it is its own concern.
                let _ = socket.send_to(&answer, client).await;
            }
            None => {
                shared.tally.lock().fatal += 1;
                tracing::warn!(target: TARGET, %client, name = %query.name, "question that would stop CNS");
            }
        }
    }
}

/// Does what is to be done for the secondaries that are followed, for as long as the primary exists.
async fn run_errands(socket: Arc<UdpSocket>, shared: Arc<Shared>) {
    let mut checks = JoinSet::new();
    loop {
        sleep(PAUSE).await;
        while checks.try_join_next().is_some() {}
        if *shared.away.borrow() {
            continue;
        }
        let serials = shared.zones.load().iter().map(|(zone, stored)| (zone.clone(), stored.zone().serial())).collect();
        for errand in shared.peers.errands(&serials) {
            match errand {
                Errand::Announce(secondary, message) => _ = socket.send_to(&message, secondary).await,
                Errand::Check(secondary, zone, sent) => {
                    let shared = Arc::clone(&shared);
                    checks.spawn(async move {
                        if let Some(shown) = ask_serial(secondary, &zone).await {
                            shared.peers.note_serial(secondary.ip(), zone, sent, shown);
                        }
                    });
                }
            }
        }
    }
}

/// Takes connections for as long as the primary exists; they end with it.
async fn accept_connections(listener: TcpListener, shared: Arc<Shared>) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, client)) => {
                    connections.spawn(keep_connection(stream, client, Arc::clone(&shared)));
                }
                Err(_) => sleep(PAUSE).await,
            },
            // Ended connections are let go of as they end.
            Some(_) = connections.join_next() => {}
        }
    }
}

/// Serves one connection until it ends or the primary goes away.
async fn keep_connection(mut stream: TcpStream, client: SocketAddr, shared: Arc<Shared>) {
    let mut away = shared.away.subscribe();
    tokio::select! {
        biased;
        _ = away.wait_for(|away| *away) => {}
        result = serve_connection(&mut stream, client, &shared) => {
            if let Err(error) = result {
                tracing::debug!(target: TARGET, %client, %error, "connection closed");
            }
        }
    }
}

/// Answers the questions of one connection in turn (RFC 7766 section 6.2.1).
async fn serve_connection(stream: &mut TcpStream, client: SocketAddr, shared: &Shared) -> io::Result<()> {
    loop {
        let message = timeout(IDLE, read_message(stream)).await??;
        let query = match Query::read(&message) {
            Ok(query) => query,
            // Silence, but the connection stays.
            Err(Unanswered::Opcode) => continue,
            Err(unreadable) => {
                shared.tally.lock().unreadable += 1;
                return Err(io::Error::new(io::ErrorKind::InvalidData, unreadable));
            }
        };
        match shared.answer(&query, client.ip()) {
            None => {
                tracing::warn!(target: TARGET, %client, name = %query.name, "question that would stop CNS");
                return Ok(());
            }
            Some(Reply::Scan(stored)) => shared.scan(stream, &stored, &query).await?,
            Some(Reply::Messages(messages)) => write_messages(stream, messages).await?,
        }
    }
}

/// Reads a message with its length in front.
async fn read_message(stream: &mut TcpStream) -> io::Result<Vec<u8>> {
    let mut message = vec![0; usize::from(stream.read_u16().await?)];
    stream.read_exact(&mut message).await?;
    Ok(message)
}

/// Sends messages as the client takes them.
async fn write_messages(stream: &mut TcpStream, messages: Vec<Vec<u8>>) -> io::Result<()> {
    for message in messages {
        timeout(IDLE, write_message(stream, &message)).await??;
    }
    Ok(())
}

/// Sends a message with its length in front, in one write (RFC 7766 section 8).
async fn write_message(stream: &mut TcpStream, message: &[u8]) -> io::Result<()> {
    let length = u16::try_from(message.len()).map_err(|_| io::Error::from(io::ErrorKind::InvalidData))?;
    let framed = [&length.to_be_bytes(), message].concat();
    stream.write_all(&framed).await
}

#[cfg(test)]
mod tests;
