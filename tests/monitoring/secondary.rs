//! A secondary that acknowledges what it is told, and passes all other questions on to a server.

use crate::harness::Port;
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// The opcode of NOTIFY, in its place in the header.
const NOTIFY: u8 = 4 << 3;

/// The secondary; its thread ends with the process.
pub struct Secondary {
    pub address: SocketAddr,
    is_deaf: Arc<AtomicBool>,
}

impl Secondary {
    /// Starts it before a server.
    pub fn start(server: SocketAddr) -> Secondary {
        let (address, is_deaf) = (Port::reserve().release(), Arc::new(AtomicBool::new(false)));
        let socket = UdpSocket::bind(address).expect("UDP socket of the secondary");
        let listener = TcpListener::bind(address).expect("TCP socket of the secondary");
        std::thread::spawn(move || listener.incoming().flatten().for_each(|stream| pass(stream, server)));
        let deaf = is_deaf.clone();
        std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok((length, from)) = socket.recv_from(&mut buffer) {
                let message = &buffer[..length];
                let reply = match message.get(2).map(|flags| flags & 0x78) {
                    Some(NOTIFY) if deaf.load(Ordering::Relaxed) => continue,
                    Some(NOTIFY) => Some(acknowledge(message)),
                    _ => ask(server, message),
                };
                reply.into_iter().for_each(|reply| _ = socket.send_to(&reply, from));
            }
        });
        Secondary { address, is_deaf }
    }

    /// Lets it hear no NOTIFY any more, or hear it again.
    pub fn deafen(&self, is_deaf: bool) {
        self.is_deaf.store(is_deaf, Ordering::Relaxed);
    }
}

/// The reply to a NOTIFY without signature: its header and question.
fn acknowledge(message: &[u8]) -> Vec<u8> {
    let name = message[12..].iter().scan(0, |left: &mut u8, octet| {
        let ends = *left == 0 && *octet == 0;
        *left = if *left == 0 { *octet } else { *left - 1 };
        (!ends).then_some(())
    });
    let mut reply = message[..12 + name.count() + 5].to_vec();
    reply[2] |= 0x80;
    reply[6..12].fill(0);
    reply
}

/// Passes a connection on.
fn pass(client: TcpStream, server: SocketAddr) {
    let Ok(upstream) = TcpStream::connect(server) else { return };
    let pairs = [(client.try_clone(), upstream.try_clone()), (Ok(upstream), Ok(client))];
    for (from, to) in pairs {
        let (Ok(mut from), Ok(mut to)) = (from, to) else { return };
        std::thread::spawn(move || {
            _ = std::io::copy(&mut from, &mut to);
            _ = to.shutdown(Shutdown::Write);
        });
    }
}

/// What the server says; nothing if it does not answer.
fn ask(server: SocketAddr, message: &[u8]) -> Option<Vec<u8>> {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).ok()?;
    socket.set_read_timeout(Some(Duration::from_secs(2))).ok()?;
    socket.send_to(message, server).ok()?;
    let mut buffer = vec![0; 4096];
    let length = socket.recv(&mut buffer).ok()?;
    buffer.truncate(length);
    Some(buffer)
}
