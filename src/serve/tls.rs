//! DNS over TLS (RFC 7858): certificates, and listeners that show them.
//!
//! The settings of TLS are those that hickory-server gives its own listeners; connections are served by the stream
//! code, with all that holds over TCP: limits, signatures, transfers (RFC 9103), NOTIFY, and answers octet by octet.
//!
//! Invariant: the certificate can change under open connections.
//!
//! Cost: reading the files; a lock-free load of the certificate for each handshake.

use crate::serve::TlsPlan;
use crate::serve::stream::secure::PROTOCOL;
use crate::serve::stream::{StreamContext, StreamListener};
use arc_swap::ArcSwap;
use hickory_server::server::default_tls_server_config;
use rustls::crypto::ring::default_provider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, pem};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Error: certificate and key cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    #[error("certificate {} cannot be read: {error}", path.display())]
    Certificate { path: PathBuf, error: pem::Error },
    #[error("{} holds no certificate; write the path of a PEM file with \"BEGIN CERTIFICATE\"", .0.display())]
    NoCertificate(PathBuf),
    #[error("{} holds no private key; write the path of a PEM file with \"BEGIN PRIVATE KEY\"", .0.display())]
    NoKey(PathBuf),
    #[error("private key {} cannot be read: {error}", path.display())]
    Key { path: PathBuf, error: pem::Error },
    #[error("certificate {} and private key {} do not belong together", certificate.display(), key.display())]
    Mismatch { certificate: PathBuf, key: PathBuf },
    #[error("certificate {} or private key {} cannot be used: {error}", certificate.display(), key.display())]
    Unusable { certificate: PathBuf, key: PathBuf, error: rustls::Error },
}

/// A certificate chain with its key.
#[derive(Clone, Debug)]
pub struct TlsIdentity(Arc<CertifiedKey>);

impl TlsIdentity {
    /// Reads the files of a plan.
    pub fn load(plan: &TlsPlan) -> Result<TlsIdentity, TlsError> {
        let chain = load_chain(&plan.certificate)?;
        let key = PrivateKeyDer::from_pem_file(&plan.key).map_err(|error| match error {
            pem::Error::NoItemsFound => TlsError::NoKey(plan.key.clone()),
            error => TlsError::Key { path: plan.key.clone(), error },
        })?;
        let (certificate, key_path) = (plan.certificate.clone(), plan.key.clone());
        let identity = CertifiedKey::from_der(chain, key, &default_provider()).map_err(|error| match error {
            rustls::Error::InconsistentKeys(_) => TlsError::Mismatch { certificate, key: key_path },
            error => TlsError::Unusable { certificate, key: key_path, error },
        })?;
        Ok(TlsIdentity(Arc::new(identity)))
    }
}

/// Reads all certificates of a file.
fn load_chain(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let failed = |error| TlsError::Certificate { path: path.to_path_buf(), error };
    let chain = CertificateDer::pem_file_iter(path).map_err(failed)?.collect::<Result<Vec<_>, _>>().map_err(failed)?;
    if chain.is_empty() { Err(TlsError::NoCertificate(path.to_path_buf())) } else { Ok(chain) }
}

/// Hands out the current certificate, whatever name the client asks for.
#[derive(Debug)]
struct Resolver(ArcSwap<CertifiedKey>);

impl ResolvesServerCert for Resolver {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.0.load_full())
    }
}

/// A listening address for DNS over TLS. Dropping it stops accepting; open connections end soon after.
pub struct TlsListener {
    stream: StreamListener,
    resolver: Option<Arc<Resolver>>,
}

impl TlsListener {
    /// Binds an address without accepting yet.
    pub fn bind(address: SocketAddr) -> io::Result<TlsListener> {
        StreamListener::bind(address).map(TlsListener::from)
    }

    /// Takes a socket that [`listen`](crate::serve::stream::listen) made, perhaps in an earlier process.
    pub fn from_listener(listener: std::net::TcpListener) -> io::Result<TlsListener> {
        StreamListener::from_listener(listener).map(TlsListener::from)
    }

    /// The bound address.
    pub fn address(&self) -> SocketAddr {
        self.stream.address()
    }

    /// Starts accepting.
    pub fn start(&mut self, identity: &TlsIdentity, context: &Arc<StreamContext>) -> io::Result<()> {
        let resolver = Arc::new(Resolver(ArcSwap::new(identity.0.clone())));
        let config = default_tls_server_config(PROTOCOL, resolver.clone())?;
        self.resolver = Some(resolver);
        self.stream.start_secure(context, config)
    }

    /// Shows another certificate to new connections.
    pub fn set_identity(&self, identity: &TlsIdentity) {
        if let Some(resolver) = &self.resolver {
            resolver.0.store(identity.0.clone());
        }
    }

    /// Stops accepting; when this returns, the address is closed and can be bound again.
    pub async fn end(self) {
        self.stream.end().await;
    }
}

impl From<StreamListener> for TlsListener {
    /// A listener that is not accepting yet.
    fn from(stream: StreamListener) -> TlsListener {
        TlsListener { stream, resolver: None }
    }
}
