//! A relay in front of a name server, for the weather between the two: it delays, it reorders, it cuts off.
//!
//! Each datagram and each piece of a stream waits for a time of its own, drawn in the order of arrival from a generator
//! with a seed; datagrams overtake each other that way, as on a network with several ways. Threads end with the
//! process. A relay that is started within a network namespace stays there.

use super::{Random, rtype};
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Longest time that the server behind may take for an answer over UDP.
const PATIENCE: Duration = Duration::from_secs(5);

/// Treatment over UDP of questions for anything but an SOA.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Questions {
    #[default]
    Pass,
    /// Questions do not arrive.
    Lost,
    /// Their answers have another MAC in their signature.
    Spoiled,
}

/// Treatment of messages that pass.
#[derive(Clone, Copy, Debug, Default)]
pub struct Weather {
    /// True if nothing passes, and connections end.
    pub cut: bool,
    /// The shortest and the longest delay of one way, in milliseconds.
    pub delay: (u64, u64),
    pub questions: Questions,
}

/// State that the threads of a relay share.
struct Shared {
    weather: Mutex<Weather>,
    random: Mutex<Random>,
}

impl Shared {
    /// Draws the delay of the next message; none while nothing passes.
    fn draw(&self) -> Option<Duration> {
        let Weather { cut, delay: (shortest, longest), .. } = *self.weather.lock().unwrap();
        let drawn = self.random.lock().unwrap().between(shortest as usize, longest as usize);
        (!cut).then(|| Duration::from_millis(drawn as u64))
    }
}

/// A running relay; clones are the same one.
#[derive(Clone)]
pub struct Relay {
    address: SocketAddr,
    shared: Arc<Shared>,
}

impl Relay {
    /// Starts a relay on an address, before a server on another.
    pub fn start(address: SocketAddr, server: SocketAddr, seed: u64) -> Relay {
        let socket = Arc::new(UdpSocket::bind(address).expect("UDP socket of a relay"));
        let listener = TcpListener::bind(address).expect("TCP socket of a relay");
        let shared = Arc::new(Shared { weather: Mutex::default(), random: Mutex::new(Random::new(seed, 0)) });
        let (of_udp, of_tcp) = (Arc::clone(&shared), Arc::clone(&shared));
        std::thread::spawn(move || pass_datagrams(&socket, server, &of_udp));
        std::thread::spawn(move || pass_streams(&listener, server, &of_tcp));
        Relay { address, shared }
    }

    /// Returns the address that it listens on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Changes the weather.
    pub fn set(&self, weather: Weather) {
        *self.shared.weather.lock().unwrap() = weather;
    }

    /// Cuts the server off, or lets it be reached again without delay.
    pub fn cut(&self, cut: bool) {
        self.set(Weather { cut, ..Weather::default() });
    }
}

fn pass_datagrams(socket: &Arc<UdpSocket>, server: SocketAddr, shared: &Arc<Shared>) {
    let mut buffer = vec![0; 65_535];
    loop {
        // Errors are those of clients that have gone.
        let Ok((length, client)) = socket.recv_from(&mut buffer) else { continue };
        let (Some(there), Some(back)) = (shared.draw(), shared.draw()) else { continue };
        let questions = shared.weather.lock().unwrap().questions;
        let is_poll = buffer[12..length].windows(5).any(|end| *end == [0, 0, rtype::SOA as u8, 0, 1]);
        if !is_poll && questions == Questions::Lost {
            continue;
        }
        let (socket, shared, question) = (Arc::clone(socket), Arc::clone(shared), buffer[..length].to_vec());
        std::thread::spawn(move || {
            std::thread::sleep(there);
            let answer = exchange(server, &question);
            std::thread::sleep(back);
            // What was under way when the server was cut off is lost, too.
            if let (Ok(mut answer), Some(_)) = (answer, shared.draw()) {
                if !is_poll && questions == Questions::Spoiled {
                    // Behind the MAC are id, error and length of other data (RFC 8945 section 4.2).
                    let inside = answer.len() - 10;
                    answer[inside] ^= 1;
                }
                let _ = socket.send_to(&answer, client);
            }
        });
    }
}

/// Asks the server behind.
fn exchange(server: SocketAddr, question: &[u8]) -> std::io::Result<Vec<u8>> {
    let any = SocketAddr::new(if server.is_ipv4() { [0, 0, 0, 0].into() } else { [0; 16].into() }, 0);
    let socket = UdpSocket::bind(any)?;
    socket.connect(server)?;
    socket.set_read_timeout(Some(PATIENCE))?;
    socket.send(question)?;
    let mut buffer = vec![0; 65_535];
    let length = socket.recv(&mut buffer)?;
    buffer.truncate(length);
    Ok(buffer)
}

fn pass_streams(listener: &TcpListener, server: SocketAddr, shared: &Arc<Shared>) {
    for client in listener.incoming().flatten() {
        if shared.draw().is_none() {
            continue;
        }
        let Ok(upstream) = TcpStream::connect(server) else { continue };
        for stream in [&client, &upstream] {
            let _ = stream.set_nodelay(true);
        }
        let (Ok(client_too), Ok(upstream_too)) = (client.try_clone(), upstream.try_clone()) else { continue };
        let (one, other) = (Arc::clone(shared), Arc::clone(shared));
        std::thread::spawn(move || pump(client, upstream, &one));
        std::thread::spawn(move || pump(upstream_too, client_too, &other));
    }
}

/// Passes what comes from one side to the other, in order, until either ends.
fn pump(mut from: TcpStream, mut to: TcpStream, shared: &Shared) {
    let mut buffer = vec![0; 65_536];
    loop {
        let read = from.read(&mut buffer).unwrap_or(0);
        let passed = match shared.draw() {
            Some(delay) if read > 0 => {
                std::thread::sleep(delay);
                to.write_all(&buffer[..read]).is_ok()
            }
            _ => false,
        };
        if !passed {
            for stream in [&from, &to] {
                let _ = stream.shutdown(Shutdown::Both);
            }
            return;
        }
    }
}
