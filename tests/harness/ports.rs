//! Free ports on loopback.
//!
//! A port is chosen below the range that the system hands to clients, and held for UDP and TCP until the server that
//! shall have it is about to start.

use super::process::close_for_good;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, UdpSocket};
use std::sync::atomic::{AtomicU32, Ordering};

const FIRST: u32 = 10_000;
const COUNT: u32 = 20_000;
static NEXT: AtomicU32 = AtomicU32::new(0);

/// One port of 127.0.0.1, reserved for UDP and TCP until it is released.
pub struct Port {
    address: SocketAddr,
    held: Option<(UdpSocket, TcpListener)>,
}

impl Port {
    /// Reserves a port that is free for both transports.
    pub fn reserve() -> Port {
        // Test processes run side by side; each starts its search elsewhere.
        let start = std::process::id().wrapping_mul(7_919);
        for _ in 0..COUNT {
            let step = NEXT.fetch_add(1, Ordering::Relaxed);
            let number = FIRST + start.wrapping_add(step) % COUNT;
            let address = SocketAddr::from((Ipv4Addr::LOCALHOST, number as u16));
            if let (Ok(udp), Ok(tcp)) = (UdpSocket::bind(address), TcpListener::bind(address)) {
                return Port { address, held: Some((udp, tcp)) };
            }
        }
        panic!("no port is free for UDP and TCP");
    }

    /// The address with the port.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Gives the port free for the server that is started next.
    pub fn release(&mut self) -> SocketAddr {
        close_for_good(self.held.take());
        self.address
    }
}
