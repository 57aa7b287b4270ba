//! Free ports on loopback.
//!
//! A port is chosen below the range that the system hands to clients, and held for UDP and TCP until the server that
//! shall have it is about to start.

use super::process::without_births;
use super::wait_until;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, UdpSocket};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

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
            if let Some(held) = hold(address) {
                return Port { address, held: Some(held) };
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
        without_births(|| {
            self.held = None;
            // The last child may have sockets of ours for a moment after its parent was told that it is another program.
            wait_until("the port is free", Duration::from_secs(10), || hold(self.address).map(drop));
        });
        self.address
    }
}

/// Takes the port for both transports, if it is free.
fn hold(address: SocketAddr) -> Option<(UdpSocket, TcpListener)> {
    Some((UdpSocket::bind(address).ok()?, TcpListener::bind(address).ok()?))
}
