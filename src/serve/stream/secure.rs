//! TLS below a stream (RFC 7858): the handshake before the first request, and the farewell behind the last response.
//!
//! Invariants: a client that does not complete its handshake within `HANDSHAKE` loses its connection; a connection
//! counts from the moment at which it is accepted, before any of the handshake. A client's certificate is looked at again
//! whenever it matters, so that one that has run out, or whose authority is listed no more, proves nothing.
//!
//! Cost: a signature with the certificate's key for each handshake; for each request for a zone by such a client, the
//! verification of its certificate.

use super::{Admission, Conversation};
use crate::acl::Secured;
use crate::metrics::Transport;
use crate::serve::places::Measured;
use arc_swap::ArcSwapOption;
use rustls::client::verify_server_name;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::server::danger::ClientCertVerifier;
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

/// What we show to clients, and whom of them we believe.
#[derive(Clone, Debug)]
pub struct Settings {
    pub config: Arc<ServerConfig>,
    /// Who judges the certificates of clients; none if nobody is asked for one.
    pub clients: Option<Arc<dyn ClientCertVerifier>>,
}

/// The settings for new connections, the same for all listeners; none before the first.
#[derive(Debug, Default)]
pub struct Shown(ArcSwapOption<Settings>);

impl Shown {
    /// The settings for a new connection.
    pub fn settings(&self) -> Option<Arc<Settings>> {
        self.0.load_full()
    }

    /// Has other settings for new connections.
    pub fn set(&self, settings: &Arc<Settings>) {
        self.0.store(Some(settings.clone()));
    }
}

/// A client and the certificates that it has shown, its own first.
struct Proof<'a> {
    shown: &'a Shown,
    certificates: Vec<CertificateDer<'static>>,
}

impl Secured for Proof<'_> {
    fn has_name(&self, name: &str) -> bool {
        let settings = self.shown.0.load();
        let verifier = settings.as_ref().and_then(|settings| settings.clients.as_ref());
        let (Some(verifier), [own, others @ ..]) = (verifier, &self.certificates[..]) else { return false };
        let (Ok(name), Ok(parsed)) = (ServerName::try_from(name), ParsedCertificate::try_from(own)) else {
            return false;
        };
        verifier.verify_client_cert(own, others, UnixTime::now()).is_ok() && verify_server_name(&parsed, &name).is_ok()
    }
}

/// What a listener for TLS shares with its connections.
#[derive(Clone)]
pub(super) struct Security(pub Arc<Shown>);

impl Security {
    /// Serves a connection to its end.
    pub async fn serve(&self, stream: Measured<TcpStream>, admission: &Admission, stop: watch::Receiver<bool>) {
        let Some(settings) = self.0.settings() else { return };
        let acceptor = TlsAcceptor::from(settings.config.clone());
        let patience = admission.context.idle().min(HANDSHAKE);
        let mut stream = match timeout(patience, acceptor.accept(stream)).await {
            Ok(Ok(stream)) => stream,
            // Whatever is wrong concerns the client alone.
            Ok(Err(error)) => return tracing::debug!(peer = %admission.peer, %error, "no TLS handshake"),
            Err(_) => return,
        };
        let session = stream.get_ref().1;
        // RFC 9103 sections 7.1 and 7.2.
        let has_transfers =
            session.protocol_version() == Some(ProtocolVersion::TLSv1_3) && session.alpn_protocol() == Some(PROTOCOL);
        let certificates = session.peer_certificates().unwrap_or_default().to_vec();
        let proof = Proof { shown: &self.0, certificates };
        let secured = Some(&proof as &dyn Secured);
        Conversation { admission, transport: Transport::Tls, has_transfers, secured }.run(&mut stream, stop).await;
        let _ = timeout(FAREWELL, stream.shutdown()).await;
    }
}
