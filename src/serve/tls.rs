//! DNS over TLS (RFC 7858): certificates, those of HTTPS for operators, too, and how listeners show them.
//!
//! The settings of TLS are those that hickory-server gives its own listeners, and where clients are asked for a
//! certificate, the same with that; connections are served by the stream code, with all that holds over TCP: limits,
//! signatures, transfers (RFC 9103), NOTIFY, and answers octet by octet.
//!
//! Invariant: certificates and authorities can change under open connections. A client of DNS that shows no certificate is
//! served all the same; one that shows a wrong one is told so and not served. An operator has to show one.
//!
//! Cost: reading the files; a lock-free load of the settings for each handshake.

use crate::serve::TlsPlan;
use crate::serve::listener::Listener;
pub use crate::serve::stream::secure::Shown;
use crate::serve::stream::secure::{PROTOCOL, Settings};
use crate::serve::stream::{self, StreamContext};
use hickory_server::server::default_tls_server_config;
use rustls::crypto::ring::default_provider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, pem};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::{RootCertStore, ServerConfig};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// ALPN identifier of HTTP/1.1 (RFC 7301).
const HTTP: &[u8] = b"http/1.1";

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
    #[error("client_ca {} cannot be used: {error}; write the path of a PEM file with certificates of authorities", path.display())]
    Authorities { path: PathBuf, error: String },
}

/// A certificate chain with its key, and the authorities of clients.
#[derive(Clone, Debug)]
pub struct TlsIdentity(Arc<Settings>);

impl TlsIdentity {
    /// Reads the files of a plan for DNS.
    pub fn load(plan: &TlsPlan) -> Result<TlsIdentity, TlsError> {
        TlsIdentity::load_for(plan, PROTOCOL, false)
    }

    /// Reads the files of a plan for HTTP of operators, who all have certificates.
    pub fn load_for_operators(plan: &TlsPlan) -> Result<TlsIdentity, TlsError> {
        TlsIdentity::load_for(plan, HTTP, true)
    }

    /// Reads the files of a plan for a protocol, by its name in ALPN.
    fn load_for(plan: &TlsPlan, protocol: &[u8], needs_certificate: bool) -> Result<TlsIdentity, TlsError> {
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
        let shown = Arc::new(SingleCertAndKey::from(identity));
        let unusable = |error: String| TlsError::Unusable {
            certificate: plan.certificate.clone(),
            key: plan.key.clone(),
            error: rustls::Error::General(error),
        };
        let authorities = plan.client_ca.as_deref().map(|path| load_authorities(path, needs_certificate));
        let clients = authorities.transpose()?;
        let config = match &clients {
            None => default_tls_server_config(protocol, shown).map_err(|error| unusable(error.to_string()))?,
            Some(clients) => {
                let builder = ServerConfig::builder_with_provider(Arc::new(default_provider()));
                let builder =
                    builder.with_safe_default_protocol_versions().map_err(|error| unusable(error.to_string()))?;
                let mut config = builder.with_client_cert_verifier(clients.clone()).with_cert_resolver(shown);
                config.alpn_protocols = vec![protocol.to_vec()];
                config
            }
        };
        Ok(TlsIdentity(Arc::new(Settings { config: Arc::new(config), clients })))
    }

    /// Shows it to new connections.
    pub fn show(&self, shown: &Shown) {
        shown.set(&self.0);
    }
}

/// Reads the authorities that sign certificates of clients, which may have to show one.
fn load_authorities(path: &Path, needs_certificate: bool) -> Result<Arc<dyn ClientCertVerifier>, TlsError> {
    let failed = |error: String| TlsError::Authorities { path: path.to_path_buf(), error };
    let mut roots = RootCertStore::empty();
    for certificate in load_chain(path)? {
        roots.add(certificate).map_err(|error| failed(error.to_string()))?;
    }
    let builder = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::new(default_provider()));
    let builder = if needs_certificate { builder } else { builder.allow_unauthenticated() };
    builder.build().map_err(|error| failed(error.to_string()))
}

/// Reads all certificates of a file.
fn load_chain(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let failed = |error| TlsError::Certificate { path: path.to_path_buf(), error };
    let chain = CertificateDer::pem_file_iter(path).map_err(failed)?.collect::<Result<Vec<_>, _>>().map_err(failed)?;
    if chain.is_empty() { Err(TlsError::NoCertificate(path.to_path_buf())) } else { Ok(chain) }
}

/// Starts accepting DNS over TLS.
pub fn start(listener: &mut Listener, shown: &Arc<Shown>, context: &Arc<StreamContext>) -> io::Result<()> {
    stream::start(listener, context, Some(shown.clone()))
}
