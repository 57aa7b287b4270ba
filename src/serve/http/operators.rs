//! TLS below HTTP, for operators: nobody gets in without a certificate that the authority has signed, and who it is for is
//! told to the site.
//!
//! Invariants: a client that does not complete its handshake in time loses its connection; a certificate is looked at for
//! each connection, and a connection has one request, so that names and authorities of the configuration in force count.
//!
//! Cost: a signature for each connection; O(names) to find the operator's.
//!
//! RFCs: 8446 (TLS 1.3), 9525 (names in certificates).

use crate::serve::places::Measured;
use crate::serve::stream::secure::Shown;
use arc_swap::ArcSwap;
use rustls::client::verify_server_name;
use rustls::pki_types::ServerName;
use rustls::server::ParsedCertificate;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

/// What we show to operators, and who they are.
#[derive(Debug, Default)]
pub struct Gate {
    pub shown: Shown,
    names: ArcSwap<Vec<String>>,
}

impl Gate {
    /// Lets others in from now on.
    pub fn set_names(&self, names: Vec<String>) {
        self.names.store(names.into());
    }

    /// Makes a connection a secure one, and tells whose it is: the first of the names that the certificate has. A client
    /// that is not let in has been told why when its stream comes back.
    pub(super) async fn admit(
        &self,
        stream: Measured<TcpStream>,
        peer: SocketAddr,
        patience: Duration,
    ) -> Result<(TlsStream<Measured<TcpStream>>, Option<String>), Option<Measured<TcpStream>>> {
        let acceptor = TlsAcceptor::from(self.shown.settings().ok_or(None)?.config.clone());
        let stream = match timeout(patience, acceptor.accept(stream).into_fallible()).await {
            Ok(Ok(stream)) => stream,
            Ok(Err((error, stream))) => {
                // Of which there may be as many as somebody likes.
                tracing::debug!(%peer, %error, "no TLS handshake");
                return Err(Some(stream));
            }
            Err(_) => return Err(None),
        };
        let operator = self.name_of(&stream);
        if operator.is_none() {
            tracing::info!(%peer, "an operator was not let in: the certificate has none of the names in \"operators\"");
        }
        Ok((stream, operator))
    }

    /// The operator whose name a client's certificate has.
    fn name_of(&self, stream: &TlsStream<Measured<TcpStream>>) -> Option<String> {
        let own = ParsedCertificate::try_from(stream.get_ref().1.peer_certificates()?.first()?).ok()?;
        let has = |name: &&String| {
            ServerName::try_from(name.as_str()).is_ok_and(|name| verify_server_name(&own, &name).is_ok())
        };
        self.names.load().iter().find(has).cloned()
    }
}
