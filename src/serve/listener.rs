//! A TCP address that is listened on: bound first, accepting later, and closed when its owner ends.
//!
//! Whoever starts it makes a task of each connection, which learns when the listener has gone.
//!
//! Invariants: when [`Listener::end`] returns, the address can be bound again; what goes wrong with one connection ends that one. Cost: one task for each listener.

use crate::accept::AcceptFailures;
use crate::serve::udp::new_socket;
use socket2::{Protocol, Type};
use std::io;
use std::net::SocketAddr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// Connections that the kernel completes ahead of us.
const BACKLOG: i32 = 1024;

/// Opens a TCP socket that takes connections; for tokio, but outside of it.
pub fn listen(address: SocketAddr) -> io::Result<std::net::TcpListener> {
    let socket = new_socket(address, Type::STREAM, Protocol::TCP)?;
    // A restart must not wait for the connections of the last run to time out.
    socket.set_reuse_address(true)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    Ok(socket.into())
}

/// A listening TCP address. Dropping it stops accepting.
pub struct Listener {
    address: SocketAddr,
    socket: Option<std::net::TcpListener>,
    accepting: Option<JoinHandle<()>>,
    /// True when it has gone.
    stop: watch::Sender<bool>,
}

impl Listener {
    /// Binds an address without accepting yet.
    pub fn bind(address: SocketAddr) -> io::Result<Listener> {
        Listener::from_socket(listen(address)?)
    }

    /// Takes a socket that [`listen`] made, perhaps in an earlier process.
    pub fn from_socket(socket: std::net::TcpListener) -> io::Result<Listener> {
        let address = socket.local_addr()?;
        Ok(Listener { address, socket: Some(socket), accepting: None, stop: watch::Sender::new(false) })
    }

    /// The bound address.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Starts accepting connections, which the log calls `what`; `serve` deals with each until the watched value says
    /// that the listener has gone, or longer. It gives nothing to do for one that it has refused.
    pub fn start<F: Future<Output = ()> + Send + 'static>(
        &mut self,
        what: &'static str,
        serve: impl FnMut(TcpStream, SocketAddr, watch::Receiver<bool>) -> Option<F> + Send + 'static,
    ) -> io::Result<()> {
        if let Some(socket) = self.socket.take() {
            let listener = TcpListener::from_std(socket)?;
            self.accepting = Some(tokio::spawn(accept(listener, what, serve, self.stop.subscribe())));
        }
        Ok(())
    }

    /// Stops accepting; when this returns, the address is closed and can be bound again.
    pub async fn end(mut self) {
        self.stop.send_replace(true);
        if let Some(accepting) = self.accepting.take() {
            // It cannot fail but with the runtime, and then the socket is closed as well.
            let _ = accepting.await;
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.stop.send_replace(true);
    }
}

/// Accepts connections until told to stop.
async fn accept<F: Future<Output = ()> + Send + 'static>(
    listener: TcpListener,
    what: &'static str,
    mut serve: impl FnMut(TcpStream, SocketAddr, watch::Receiver<bool>) -> Option<F>,
    mut stop: watch::Receiver<bool>,
) {
    let mut failures = AcceptFailures::new(what);
    loop {
        let accepted = tokio::select! {
            // Connections that the kernel has completed already come first.
            biased;
            accepted = listener.accept() => accepted,
            _ = stop.wait_for(|stop| *stop) => return,
        };
        match accepted {
            Ok((stream, peer)) => {
                // A defect costs one connection; all others are accepted like before.
                let task = catch_unwind(AssertUnwindSafe(|| serve(stream, peer, stop.clone())));
                drop(task.ok().flatten().map(tokio::spawn));
            }
            Err(error) => failures.pause(&error).await,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    #[tokio::test]
    async fn a_panic_over_one_connection_ends_that_one_alone() {
        let mut listener = Listener::bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let address = listener.address();
        let accepted = Arc::new(AtomicU32::new(0));
        let count = accepted.clone();
        let serve = move |mut stream: TcpStream, _, _| {
            assert!(count.fetch_add(1, Ordering::Relaxed) > 0, "a panic that the test wants");
            Some(async move { stream.write_all(b"served").await.unwrap() })
        };
        listener.start("a connection", serve).unwrap();
        for expected in ["", "served"] {
            let mut text = String::new();
            let read = TcpStream::connect(address).await.unwrap().read_to_string(&mut text).await;
            assert!(read.is_ok() && text == expected, "{read:?} {text}");
        }
        assert_eq!(accepted.load(Ordering::Relaxed), 2);
        listener.end().await;
    }
}
