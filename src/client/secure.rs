//! TLS to name servers (RFC 9103): whom we believe, what we show, and why a connection is none.
//!
//! Invariants: TLS 1.3 and the protocol `dot` or nothing (RFC 9103 sections 7.1 and 7.2); a server that cannot prove who it
//! is gets no question (strict privacy), unless the configuration says that anybody is believed; nothing is ever sent
//! in clear to a server that is reached by TLS.
//!
//! Cost: a handshake for each connection; what both sides remember of the last one makes the next cheaper.
//!
//! RFCs: 9103 (zone transfer over TLS), 8310 (profiles), 7858 (DNS over TLS), 8446 (TLS 1.3).

use super::tls::{Trust, verifier};
use rustls::crypto::ring::default_provider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::version::TLS13;
use rustls::{AlertDescription, CertificateError, ClientConfig, Error, PeerIncompatible};
use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use zeroize::Zeroizing;

/// ALPN identifier of DNS over TLS.
const PROTOCOL: &[u8] = b"dot";

/// Reason why there is no TLS with a server.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TlsFault {
    #[error("its certificate is signed by nobody whom \"ca\" lists, or the system where there is none")]
    Authority,
    #[error("its certificate is not for {0}; write the name that it has as \"name\" of \"tls\"")]
    Name(String),
    #[error("its certificate is not valid at this time")]
    Time,
    #[error("it does not offer TLS 1.3, which zone transfers need (RFC 9103)")]
    Version,
    #[error("it does not offer DNS over TLS (ALPN \"dot\")")]
    Protocol,
    #[error("it refuses us ({0:?}): it may want \"certificate\" and \"key\" of \"tls\", or others")]
    Refused(AlertDescription),
    /// Servers that want no such connection often say nothing.
    #[error(
        "it ended the connection before it answered: it may not offer TLS 1.3 (RFC 9103), or want \"certificate\" and \
         \"key\" of \"tls\", or others"
    )]
    Ended,
    #[error("{0}")]
    Other(String),
}

impl TlsFault {
    /// The metric label.
    pub fn reason(&self) -> &'static str {
        match self {
            TlsFault::Authority => "tls_authority",
            TlsFault::Name(_) => "tls_name",
            TlsFault::Time => "tls_time",
            TlsFault::Version => "tls_version",
            TlsFault::Protocol => "tls_protocol",
            TlsFault::Refused(_) => "tls_refused",
            TlsFault::Ended => "tls_ended",
            TlsFault::Other(_) => "tls",
        }
    }

    /// The fault that an error of a stream stands for, if TLS is what failed.
    pub fn of(error: &io::Error) -> Option<TlsFault> {
        let error = error.get_ref()?.downcast_ref::<Error>()?;
        Some(match error {
            Error::InvalidCertificate(certificate) => match certificate {
                CertificateError::UnknownIssuer | CertificateError::BadSignature => TlsFault::Authority,
                CertificateError::NotValidForName => TlsFault::Name("the name of this server".to_owned()),
                CertificateError::NotValidForNameContext { expected, .. } => TlsFault::Name(expected.to_str().into()),
                CertificateError::Expired
                | CertificateError::ExpiredContext { .. }
                | CertificateError::NotValidYet
                | CertificateError::NotValidYetContext { .. } => TlsFault::Time,
                _ => TlsFault::Other(error.to_string()),
            },
            Error::AlertReceived(AlertDescription::ProtocolVersion) => TlsFault::Version,
            Error::PeerIncompatible(PeerIncompatible::ServerDoesNotSupportTls12Or13) => TlsFault::Version,
            Error::PeerIncompatible(PeerIncompatible::ServerTlsVersionIsDisabledByOurConfig) => TlsFault::Version,
            Error::AlertReceived(AlertDescription::NoApplicationProtocol) => TlsFault::Protocol,
            Error::AlertReceived(alert) => TlsFault::Refused(*alert),
            _ => TlsFault::Other(error.to_string()),
        })
    }
}

/// The files of TLS to a server, and what they hold.
#[derive(Clone, PartialEq, Eq)]
pub struct TlsFiles {
    /// Name or address that its certificate must have.
    pub name: String,
    /// False if anybody is believed.
    pub is_verified: bool,
    /// PEM file with certificates of authorities, or the server's own; none for those that the system trusts.
    pub ca: Option<(PathBuf, String)>,
    /// Certificate chain and key that we show, if any.
    pub identity: Option<Identity>,
}

/// Our own certificate.
#[derive(Clone, PartialEq, Eq)]
pub struct Identity {
    pub certificate_file: PathBuf,
    pub key_file: PathBuf,
    pub certificate: String,
    pub key: Zeroizing<Vec<u8>>,
}

/// TLS to a server.
#[derive(Clone)]
pub struct Tls {
    pub files: TlsFiles,
    name: ServerName<'static>,
    /// What connections are made with; none for a configuration whose files were not read.
    connector: Option<TlsConnector>,
}

impl PartialEq for Tls {
    fn eq(&self, other: &Tls) -> bool {
        self.files == other.files
    }
}

impl Eq for Tls {}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Tls({})", self.files.name)
    }
}

impl Tls {
    /// Puts it together; without `is_read` the files hold nothing yet. An error says what is wrong with them.
    pub fn new(files: TlsFiles, name: ServerName<'static>, is_read: bool) -> Result<Tls, String> {
        let connector = if is_read { Some(connector(&files)?) } else { None };
        Ok(Tls { files, name, connector })
    }

    /// Makes a connection a secure one.
    pub async fn secure(&self, stream: TcpStream) -> io::Result<TlsStream<TcpStream>> {
        let connector = self.connector.as_ref().ok_or(io::ErrorKind::NotFound)?;
        let stream = connector.connect(self.name.clone(), stream).await?;
        // A server that ignores what is offered speaks something else.
        if stream.get_ref().1.alpn_protocol() != Some(PROTOCOL) {
            return Err(io::Error::other(Error::AlertReceived(AlertDescription::NoApplicationProtocol)));
        }
        Ok(stream)
    }
}

/// Makes what connections are made with.
fn connector(files: &TlsFiles) -> Result<TlsConnector, String> {
    let trust = match &files.ca {
        _ if !files.is_verified => Trust::Anyone,
        Some((_, text)) => Trust::Listed(text),
        None => Trust::System,
    };
    let provider = Arc::new(default_provider());
    let in_ca = |error: String| match &files.ca {
        Some((path, _)) => format!("{}: {error}", path.display()),
        None => error,
    };
    let verifier = verifier(trust, &provider).map_err(in_ca)?;
    let builder = ClientConfig::builder_with_provider(provider).with_protocol_versions(&[&TLS13]);
    let builder = builder.map_err(|error| error.to_string())?.dangerous().with_custom_certificate_verifier(verifier);
    let mut config = match &files.identity {
        None => builder.with_no_client_auth(),
        Some(identity) => {
            let in_chain = |error: &dyn fmt::Display| format!("{}: {error}", identity.certificate_file.display());
            let chain = CertificateDer::pem_slice_iter(identity.certificate.as_bytes());
            let chain = chain.collect::<Result<Vec<_>, _>>().map_err(|error| in_chain(&error))?;
            let key = PrivateKeyDer::from_pem_slice(&identity.key);
            let key = key.map_err(|error| format!("{}: {error}", identity.key_file.display()))?;
            builder.with_client_auth_cert(chain, key).map_err(|error| in_chain(&error))?
        }
    };
    config.alpn_protocols = vec![PROTOCOL.to_vec()];
    Ok(Arc::new(config).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_fault_has_a_label_and_says_what_to_do() {
        let of = |error: Error| TlsFault::of(&io::Error::other(error)).unwrap();
        let certificate = |error| of(Error::InvalidCertificate(error)).reason();
        assert_eq!(certificate(CertificateError::UnknownIssuer), "tls_authority");
        assert_eq!(certificate(CertificateError::NotValidForName), "tls_name");
        assert_eq!(certificate(CertificateError::Expired), "tls_time");
        assert_eq!(certificate(CertificateError::Revoked), "tls");
        let alert = |alert| of(Error::AlertReceived(alert)).reason();
        assert_eq!(alert(AlertDescription::ProtocolVersion), "tls_version");
        assert_eq!(alert(AlertDescription::NoApplicationProtocol), "tls_protocol");
        assert_eq!(alert(AlertDescription::CertificateRequired), "tls_refused");
        assert_eq!(TlsFault::of(&io::ErrorKind::ConnectionReset.into()), None);
    }
}
