//! DNS over TLS (RFC 7858), on hickory-server.
//!
//! hickory-server does the handshake, the framing and the timeouts. The handler has the answer engine answer the
//! request's own octets, decodes that answer once, and hands the records back. The octets that leave may be compressed
//! differently; header, records, their order and EDNS are the engine's. Zone transfers are refused by the engine, and
//! signatures (TSIG) are not looked at: the octets that leave are not those that would be signed.
//!
//! Invariants: the certificate can change under open connections; a request that hickory cannot parse gets its FORMERR
//! and is not counted. hickory knows no limit on connections beyond closing silent ones.
//!
//! Cost: an answer is composed, decoded and composed again: about ten times that over TCP.

use crate::metrics::{Metrics, QueryCounters, Transport};
use crate::publish::Publisher;
use crate::serve::TlsPlan;
use crate::serve::answer::answer;
use crate::serve::stream::listen;
use arc_swap::ArcSwap;
use hickory_proto::op::{Header, HeaderCounts, Message, Metadata, ResponseCode};
use hickory_proto::serialize::binary::BinDecoder;
use hickory_server::Server;
use hickory_server::net::runtime::Time;
use hickory_server::server::{Request, RequestHandler, ResponseHandler, ResponseInfo};
use hickory_server::zone_handler::{MessageResponseBuilder, Queries};
use rustls::ServerConfig;
use rustls::crypto::ring::default_provider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, pem};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::task::AbortHandle;

/// Pause before serving again after hickory gave up a listener.
const PAUSE: Duration = Duration::from_millis(100);

/// Why certificate and key cannot be used.
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

/// A listening address for DNS over TLS. Dropping it stops accepting and closes its connections.
pub struct TlsListener {
    address: SocketAddr,
    listener: Option<std::net::TcpListener>,
    resolver: Option<Arc<Resolver>>,
    task: Option<AbortHandle>,
}

impl TlsListener {
    /// Binds an address without accepting yet.
    pub fn bind(address: SocketAddr) -> io::Result<TlsListener> {
        TlsListener::from_listener(listen(address)?)
    }

    /// Takes a socket that [`listen`] made, perhaps in an earlier process.
    pub fn from_listener(listener: std::net::TcpListener) -> io::Result<TlsListener> {
        let address = listener.local_addr()?;
        Ok(TlsListener { address, listener: Some(listener), resolver: None, task: None })
    }

    /// The bound address.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Starts accepting; connections that are silent for longer than `idle` are closed.
    pub fn start(
        &mut self,
        identity: &TlsIdentity,
        idle: Duration,
        publisher: &Arc<Publisher>,
        metrics: &Metrics,
    ) -> io::Result<()> {
        let Some(listener) = self.listener.take() else { return Ok(()) };
        let resolver = Arc::new(Resolver(ArcSwap::new(identity.0.clone())));
        let mut config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(io::Error::other)?
            .with_no_client_auth()
            .with_cert_resolver(resolver.clone());
        config.alpn_protocols = vec![b"dot".to_vec()];
        let handler =
            Handler { publisher: publisher.clone(), counters: metrics.query_counters(), rotation: Arc::default() };
        self.resolver = Some(resolver);
        self.task = Some(tokio::spawn(run(listener, Arc::new(config), idle, handler)).abort_handle());
        Ok(())
    }

    /// Shows another certificate to new connections.
    pub fn set_identity(&self, identity: &TlsIdentity) {
        if let Some(resolver) = &self.resolver {
            resolver.0.store(identity.0.clone());
        }
    }
}

impl Drop for TlsListener {
    fn drop(&mut self) {
        if let Some(task) = &self.task {
            task.abort();
        }
    }
}

/// Serves until aborted: hickory gives a listener up when accepting fails in certain ways, and then gets it again.
async fn run(listener: std::net::TcpListener, config: Arc<ServerConfig>, idle: Duration, handler: Handler) {
    loop {
        let mut server = Server::new(handler.clone());
        let registered = listener
            .try_clone()
            .and_then(TcpListener::from_std)
            .and_then(|listener| server.register_tls_listener_with_tls_config(listener, idle, config.clone()));
        let ended = match registered {
            Ok(()) => server.block_until_done().await.err().map(|error| error.to_string()),
            Err(error) => Some(error.to_string()),
        };
        tracing::warn!(error = ended, "serving DNS over TLS was interrupted");
        tokio::time::sleep(PAUSE).await;
    }
}

/// Answers hickory's requests from the published data.
#[derive(Clone)]
struct Handler {
    publisher: Arc<Publisher>,
    counters: Arc<QueryCounters>,
    rotation: Arc<AtomicU32>,
}

impl Handler {
    /// The answer as hickory's message, or none if it cannot be had as such.
    fn answer(&self, request: &[u8]) -> Option<Message> {
        let mut buffer = vec![0; usize::from(u16::MAX)];
        let rotation = self.rotation.fetch_add(1, Ordering::Relaxed);
        let Some(response) = answer(&self.publisher.load(), request, false, rotation, &mut buffer) else {
            // hickory has dropped responses and stumps already.
            self.counters.count_dropped_shared(request);
            return None;
        };
        match Message::from_vec(&buffer[..response.length]) {
            Ok(message) => {
                self.counters.count_shared(Transport::Tls, response.rcode, response.truncated);
                Some(message)
            }
            // RDATA that does not fit its type is served as it is over UDP and TCP, but hickory cannot hold it.
            Err(error) => {
                tracing::debug!(%error, "an answer cannot be sent over TLS");
                self.counters.count_shared(Transport::Tls, u16::from(ResponseCode::ServFail), false);
                None
            }
        }
    }
}

#[async_trait::async_trait]
impl RequestHandler for Handler {
    async fn handle_request<R: ResponseHandler, T: Time>(
        &self,
        request: &Request,
        mut response_handle: R,
    ) -> ResponseInfo {
        let sent = match self.answer(request.as_slice()) {
            Some(message) => {
                // An unknown opcode is answered without the question, whose form only the opcode could tell.
                let none = Queries::read(&mut BinDecoder::new(&[]), 0).expect("no questions need no octets");
                let queries = if message.queries.is_empty() { &none } else { &request.queries };
                let builder = MessageResponseBuilder::new(queries, message.edns.as_ref());
                let Message { metadata, answers, authorities, additionals, .. } = &message;
                response_handle.send_response(builder.build(*metadata, answers, authorities, [], additionals)).await
            }
            None => {
                let builder = MessageResponseBuilder::new(&request.queries, None);
                response_handle.send_response(builder.error_msg(&request.metadata, ResponseCode::ServFail)).await
            }
        };
        sent.unwrap_or_else(|error| {
            // The client went away before its answer.
            tracing::debug!(%error, "cannot send an answer over TLS");
            let mut metadata = Metadata::response_from_request(&request.metadata);
            metadata.response_code = ResponseCode::ServFail;
            ResponseInfo::from(Header { metadata, counts: HeaderCounts::default() })
        })
    }
}
