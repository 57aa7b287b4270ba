//! Whom the clients of services believe on TLS connections.
//!
//! Invariants: a certificate is verified unless the configuration says in so many words that it is not; one that a file
//! lists is believed as it is, whatever names it has and however long it is old, since servers with a certificate that
//! nobody but themselves has signed have no other way to be known; also of those the key is proved.
//!
//! Cost: O(certificates of the file or the system).
//!
//! RFCs: 8446 (TLS 1.3), 5246 (TLS 1.2), 5280 section 6 (paths of certificates), 6125 (names).

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::CryptoProvider;
use rustls::crypto::ring::default_provider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};
use std::sync::Arc;
use tokio_rustls::TlsConnector;

/// Whose certificates are believed.
#[derive(Clone, Copy, Debug)]
pub enum Trust<'a> {
    /// Those that an authority has signed which the system trusts.
    System,
    /// Those of a PEM file, and those that one of them has signed.
    Listed(&'a str),
    /// Every certificate: whoever is between us and the server may answer in its place.
    Anyone,
}

/// Makes what TLS connections are made with; an error says what is wrong with the certificates. With an identity, a PEM
/// text with a certificate chain and its key, we show who we are.
pub fn connector(trust: Trust<'_>, identity: Option<&[u8]>) -> Result<TlsConnector, String> {
    let provider = Arc::new(default_provider());
    let verifier = verifier(trust, &provider)?;
    let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let builder = builder.map_err(|error| error.to_string())?.dangerous().with_custom_certificate_verifier(verifier);
    let Some(identity) = identity else { return Ok(Arc::new(builder.with_no_client_auth()).into()) };
    let chain = CertificateDer::pem_slice_iter(identity).collect::<Result<Vec<_>, _>>();
    let chain = chain.map_err(|error| format!("our certificate cannot be read: {error}"))?;
    let key = PrivateKeyDer::from_pem_slice(identity);
    let key = key.map_err(|error| format!("the key of our certificate cannot be read: {error}"))?;
    let config = builder.with_client_auth_cert(chain, key);
    Ok(Arc::new(config.map_err(|error| format!("our certificate cannot be used: {error}"))?).into())
}

/// Makes what judges certificates.
pub(super) fn verifier(
    trust: Trust<'_>,
    provider: &Arc<CryptoProvider>,
) -> Result<Arc<dyn ServerCertVerifier>, String> {
    let (mut roots, mut listed) = (RootCertStore::empty(), Vec::new());
    match trust {
        Trust::Anyone => return Ok(Arc::new(Unverified(provider.clone()))),
        Trust::System => {
            roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        }
        Trust::Listed(text) => {
            for certificate in CertificateDer::pem_slice_iter(text.as_bytes()) {
                let certificate = certificate.map_err(|error| error.to_string())?;
                listed.push(certificate.clone());
                roots.add(certificate).map_err(|error| error.to_string())?;
            }
        }
    }
    if roots.is_empty() {
        return Err("there is no certificate of an authority; name a file with one".to_owned());
    }
    let signed = WebPkiServerVerifier::builder_with_provider(roots.into(), provider.clone()).build();
    Ok(Arc::new(Listed { listed, signed: signed.map_err(|error| error.to_string())? }))
}

/// Believes certificates that are listed, and those that an authority has signed.
#[derive(Debug)]
struct Listed {
    listed: Vec<CertificateDer<'static>>,
    signed: Arc<WebPkiServerVerifier>,
}

impl ServerCertVerifier for Listed {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        if self.listed.iter().any(|listed| listed == certificate) {
            return Ok(ServerCertVerified::assertion());
        }
        self.signed.verify_server_cert(certificate, intermediates, name, ocsp, now)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.signed.verify_tls12_signature(message, certificate, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.signed.verify_tls13_signature(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.signed.supported_verify_schemes()
    }
}

/// Believes everybody.
#[derive(Debug)]
struct Unverified(Arc<CryptoProvider>);

impl ServerCertVerifier for Unverified {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    // A proof that anybody's key is anybody's proves nothing, and old keys may be too short for it.
    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
