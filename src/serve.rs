//! Listeners: UDP threads, TCP, DNS over TLS and HTTP.

pub mod answer;
pub mod message;
pub mod stream;
pub mod udp;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

/// DNS over TLS (RFC 7858).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsPlan {
    pub listen: Vec<SocketAddr>,
    /// PEM file with the certificate chain.
    pub certificate: PathBuf,
    /// PEM file with the private key.
    pub key: PathBuf,
}

/// Where and how DNS is served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListenPlan {
    /// UDP and TCP addresses.
    pub dns: Vec<SocketAddr>,
    /// UDP threads for each address.
    pub udp_threads: usize,
    pub tcp_connections: usize,
    pub tcp_connections_per_client: usize,
    /// How long a TCP connection may be silent or refuse to take an answer (RFC 7766 section 6.2.3).
    pub tcp_idle_timeout: Duration,
    pub tls: Option<TlsPlan>,
}
