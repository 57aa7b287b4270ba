//! TLS below a stream (RFC 7858): the handshake before the first request, and the farewell behind the last response.
//!
//! Invariants: a client that does not complete its handshake within `HANDSHAKE` loses its connection; a connection
//! counts from the moment at which it is accepted, before any of the handshake.
//!
//! Cost: a signature with the certificate's key for each handshake.

use super::{Admission, Conversation};
use crate::metrics::Transport;
use crate::serve::places::Measured;
use rustls::{ProtocolVersion, ServerConfig};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;

/// ALPN identifier of DNS over TLS (RFC 7858, as registered with IANA).
pub const PROTOCOL: &[u8] = b"dot";
/// The longest that a handshake may take: two round trips, and the client's computation. Less where connections may be
/// silent for less.
const HANDSHAKE: Duration = Duration::from_secs(5);
/// Longest time of the farewell, which matters to nobody but the client.
const FAREWELL: Duration = Duration::from_secs(1);

/// The settings of TLS that a listener shares with its connections.
#[derive(Clone)]
pub(super) struct Security(TlsAcceptor);

impl Security {
    /// Settings that rustls understands.
    pub fn new(config: ServerConfig) -> Security {
        Security(TlsAcceptor::from(Arc::new(config)))
    }

    /// Serves a connection to its end.
    pub async fn serve(&self, stream: Measured<TcpStream>, admission: &Admission, stop: watch::Receiver<bool>) {
        let patience = admission.context.idle().min(HANDSHAKE);
        let mut stream = match timeout(patience, self.0.accept(stream)).await {
            Ok(Ok(stream)) => stream,
            // Whatever is wrong concerns the client alone.
            Ok(Err(error)) => return tracing::debug!(peer = %admission.peer, %error, "no TLS handshake"),
            Err(_) => return,
        };
        let session = stream.get_ref().1;
        // RFC 9103 sections 7.1 and 7.2.
        let has_transfers =
            session.protocol_version() == Some(ProtocolVersion::TLSv1_3) && session.alpn_protocol() == Some(PROTOCOL);
        Conversation { admission, transport: Transport::Tls, has_transfers }.run(&mut stream, stop).await;
        let _ = timeout(FAREWELL, stream.shutdown()).await;
    }
}
