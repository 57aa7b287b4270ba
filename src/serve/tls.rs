//! DNS over TLS (RFC 7858): certificates, and how listeners show them.
//!
//! The settings of TLS are those that hickory-server gives its own listeners; connections are served by the stream
//! code, with all that holds over TCP: limits, signatures, transfers (RFC 9103), NOTIFY, and answers octet by octet.
//!
//! Invariant: the certificate can change under open connections.
//!
//! Cost: reading the files; a lock-free load of the certificate for each handshake.

use crate::serve::TlsPlan;
use crate::serve::listener::Listener;
use crate::serve::stream::secure::PROTOCOL;
use crate::serve::stream::{self, StreamContext};
use arc_swap::ArcSwapOption;
use hickory_server::server::default_tls_server_config;
use rustls::crypto::ring::default_provider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, pem};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use std::io;
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

/// The certificate that listeners show, whatever name the client asks for; none before the first.
#[derive(Debug, Default)]
pub struct Shown(ArcSwapOption<CertifiedKey>);

impl Shown {
    /// Shows another certificate to new connections.
    pub fn set(&self, identity: &TlsIdentity) {
        self.0.store(Some(identity.0.clone()));
    }
}

impl ResolvesServerCert for Shown {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        self.0.load_full()
    }
}

/// Starts accepting DNS over TLS.
pub fn start(listener: &mut Listener, shown: &Arc<Shown>, context: &Arc<StreamContext>) -> io::Result<()> {
    stream::start(listener, context, Some(default_tls_server_config(PROTOCOL, shown.clone())?))
}
