//! Listeners: UDP threads, TCP, DNS over TLS and HTTP.

pub mod answer;
pub mod http;
pub mod limit;
pub mod listener;
pub mod notify;
pub mod places;
pub mod prefetch;
pub mod refusals;
pub mod respond;
pub mod stream;
pub mod tls;
pub mod udp;
pub mod xfr;

use std::fmt;
use std::io::{self, ErrorKind};
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
    /// PEM file with the authorities that sign certificates of secondaries; none if nobody is asked for one.
    pub client_ca: Option<PathBuf>,
}

/// Addresses and limits of the DNS service.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListenPlan {
    /// UDP and TCP addresses.
    pub dns: Vec<SocketAddr>,
    /// UDP threads for each address.
    pub udp_threads: usize,
    pub tcp_connections: usize,
    pub tcp_connections_per_client: usize,
    /// Longest time that a TCP connection may be silent or refuse to take an answer (RFC 7766 section 6.2.3). A
    /// transfer may do (next to) nothing for six times as long, and at most a minute.
    pub tcp_idle_timeout: Duration,
    pub tls: Option<TlsPlan>,
}

/// An address that cannot be listened on, with advice.
#[derive(Debug, thiserror::Error)]
pub struct BindError {
    pub address: SocketAddr,
    pub error: io::Error,
}

impl fmt::Display for BindError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot listen on {}: ", self.address)?;
        match self.error.kind() {
            ErrorKind::AddrInUse => f.write_str("address in use; stop the other server or choose another port"),
            ErrorKind::PermissionDenied => f.write_str(
                "permission denied; give the program the capability CAP_NET_BIND_SERVICE or choose a port above 1023",
            ),
            ErrorKind::AddrNotAvailable => {
                f.write_str("this machine does not have the address; write one that it has, or 0.0.0.0 or [::]")
            }
            _ if self.error.raw_os_error() == Some(libc::EAFNOSUPPORT) => {
                f.write_str("this machine does not speak its protocol; remove the address")
            }
            _ => write!(f, "{}; choose another address", self.error),
        }
    }
}
