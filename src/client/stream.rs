//! Connections to services, which end when the other side does not live any more.
//!
//! Invariant: whoever only listens learns that the other side has gone, as the system finds out by itself.
//!
//! Cost: the look-up of a name and a round trip.

use socket2::{SockRef, TcpKeepalive};
use std::io;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;

/// Time between two proofs that an idle connection still has another side.
const KEEPALIVE: Duration = Duration::from_secs(10);

/// Connection with or without TLS.
pub trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

/// Connects to the first address of a host that answers.
pub async fn dial(host: &str, port: u16) -> io::Result<TcpStream> {
    let stream = TcpStream::connect((host, port)).await?;
    // Requests are short and whole; there is nothing to gather.
    stream.set_nodelay(true)?;
    watch(&stream)?;
    Ok(stream)
}

/// Has the system end a connection whose other side acknowledges nothing, so that whoever only listens learns of it.
fn watch(stream: &TcpStream) -> io::Result<()> {
    let socket = SockRef::from(stream);
    let keepalive = TcpKeepalive::new().with_time(KEEPALIVE).with_interval(KEEPALIVE).with_retries(2);
    socket.set_tcp_keepalive(&keepalive)?;
    #[cfg(target_os = "linux")]
    socket.set_tcp_user_timeout(Some(3 * KEEPALIVE))?;
    Ok(())
}
