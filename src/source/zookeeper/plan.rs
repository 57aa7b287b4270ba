//! The plan of one tree, which the configuration makes and the task follows.
//!
//! Invariant: secrets are never printed, and count when two plans are compared, so that a reload with another password
//! in the same file begins a new session.

use crate::source::zookeeper::zones;
use rustls::client::WebPkiServerVerifier;
use rustls::crypto::ring::default_provider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore};
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio_rustls::TlsConnector;
use wire::name::Name;
use zeroize::Zeroizing;

/// The port of ZooKeeper's clients.
pub const DEFAULT_PORT: u16 = 2181;

/// One member of the ensemble.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// An address without brackets, or a host name.
    pub host: String,
    pub port: u16,
}

impl fmt::Display for Member {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Only IPv6 addresses have colons.
        let (open, close) = if self.host.contains(':') { ("[", "]") } else { ("", "") };
        write!(f, "{open}{}{close}:{}", self.host, self.port)
    }
}

/// Which watches tell of changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Watches {
    /// One for the whole tree where the ensemble knows such watches, else one for each node.
    Auto,
    /// One for the whole tree; ZooKeeper has that since 3.6.
    Recursive,
    /// Two for each node, for its payload and its children.
    Each,
}

impl Watches {
    /// The word in the file.
    pub fn label(self) -> &'static str {
        match self {
            Watches::Auto => "auto",
            Watches::Recursive => "recursive",
            Watches::Each => "each",
        }
    }
}

/// Octets that are not printed.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(pub Zeroizing<Vec<u8>>);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}

/// User and password for the scheme "digest".
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Digest {
    pub file: PathBuf,
    /// `user:password`.
    pub secret: Secret,
}

/// TLS to the ensemble: the files and what they hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsPlan {
    pub ca_file: PathBuf,
    pub ca: String,
    /// Certificate chain and key that we show, if any.
    pub identity: Option<Identity>,
}

/// Our own certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    pub certificate_file: PathBuf,
    pub key_file: PathBuf,
    pub certificate: String,
    pub key: Secret,
}

impl TlsPlan {
    /// Makes what connections are made with; an error says what is wrong with the files.
    pub fn connector(&self) -> Result<TlsConnector, String> {
        let faulty = |file: &PathBuf, error: &dyn fmt::Display| format!("{}: {error}", file.display());
        let in_ca = |error: &dyn fmt::Display| faulty(&self.ca_file, error);
        let mut roots = RootCertStore::empty();
        for certificate in CertificateDer::pem_slice_iter(self.ca.as_bytes()) {
            let certificate = certificate.map_err(|error| in_ca(&error))?;
            roots.add(certificate).map_err(|error| in_ca(&error))?;
        }
        if roots.is_empty() {
            return Err(in_ca(&"it holds no certificate"));
        }
        let revoked = CertificateRevocationListDer::pem_slice_iter(self.ca.as_bytes());
        let revoked = revoked.collect::<Result<Vec<_>, _>>().map_err(|error| in_ca(&error))?;
        let provider = Arc::new(default_provider());
        let verifier = WebPkiServerVerifier::builder_with_provider(roots.into(), provider.clone());
        let verifier = verifier.with_crls(revoked).build().map_err(|error| in_ca(&error))?;
        let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        let builder = builder.map_err(|error| error.to_string())?.with_webpki_verifier(verifier);
        let Some(identity) = &self.identity else {
            return Ok(Arc::new(builder.with_no_client_auth()).into());
        };
        let in_chain = |error: &dyn fmt::Display| faulty(&identity.certificate_file, error);
        let chain = CertificateDer::pem_slice_iter(identity.certificate.as_bytes());
        let chain = chain.collect::<Result<Vec<_>, _>>().map_err(|error| in_chain(&error))?;
        let key = PrivateKeyDer::from_pem_slice(&identity.key.0).map_err(|error| faulty(&identity.key_file, &error))?;
        let config = builder.with_client_auth_cert(chain, key).map_err(|error| in_chain(&error))?;
        Ok(Arc::new(config).into())
    }
}

/// Plan of one tree, and the zones that it feeds.
#[derive(Clone, Debug, PartialEq)]
pub struct TreePlan {
    /// The zones and what they hold beside the tree.
    pub zones: zones::Plan,
    /// The domain that the tree stands for; the zone's own name unless the file says otherwise.
    pub domain: Name,
    /// In no order of preference; never empty.
    pub members: Vec<Member>,
    /// Path of the domain's node, chroot included.
    pub path: String,
    pub session_timeout: Duration,
    /// For one member.
    pub connect_timeout: Duration,
    /// Time for which the last tree is served without a session.
    pub serve_stale: Duration,
    pub watches: Watches,
    /// True if unknown names are refused, as Binder does.
    pub binder_compat: bool,
    pub digest: Option<Digest>,
    pub tls: Option<TlsPlan>,
    /// The longest reply that is taken.
    pub max_reply: u32,
    /// The most that a whole reading may take in memory.
    pub max_bytes: u64,
    /// A tree that is read anew with less than this share of the nodes must be confirmed; 0 for never.
    pub shrink_share: f64,
    /// Pause before it is read once more.
    pub confirm_after: Duration,
    /// Time for which a tree that was reset must have had enough nodes again.
    pub regress_after: Duration,
}

impl TreePlan {
    /// The forward zone, by which the tree is known.
    pub fn zone(&self) -> &Name {
        &self.zones.origin
    }

    /// All zones, the forward zone first.
    pub fn all_zones(&self) -> impl Iterator<Item = &Name> {
        std::iter::once(&self.zones.origin).chain(&self.zones.reverse)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_without_certificates_is_told() {
        let broken = TlsPlan { ca_file: "ca.pem".into(), ca: "nothing".into(), identity: None };
        assert!(broken.connector().err().unwrap().contains("ca.pem: it holds no certificate"));
    }
}
