//! The plan of a feeder of Triton's, which the configuration makes.
//!
//! Invariants: certificates and the password count when two plans are compared, so that a reload with others in the same
//! files begins anew; the password is never printed.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;
use url::Url;
use zeroize::Zeroizing;

/// Services of a datacenter, and how they are asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TritonPlan {
    pub vmapi: Url,
    pub cnapi: Url,
    pub napi: Url,
    pub accounts: AccountsPlan,
    /// File with the certificates that sign the services', and what it holds; none for those of the system.
    pub ca: Option<(PathBuf, String)>,
    /// Time between two listings of all instances, whatever the feed says.
    pub list_every: Duration,
}

/// Where accounts come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AccountsPlan {
    File(PathBuf),
    Ufds(UfdsPlan),
}

/// The directory of a datacenter's accounts.
#[derive(Clone, PartialEq, Eq)]
pub struct UfdsPlan {
    /// An address without brackets, or a host name.
    pub host: String,
    pub port: u16,
    pub trust: TrustPlan,
    /// The user that searches.
    pub bind_dn: String,
    /// The file of the password, and what it holds.
    pub password: (PathBuf, Zeroizing<String>),
}

/// How a directory shows who it is.
#[derive(Clone, PartialEq, Eq)]
pub enum TrustPlan {
    /// Not at all, over a plain connection.
    Plain,
    /// By a certificate that an authority has signed which the system trusts.
    System,
    /// By a certificate of a file, or one that was signed by one of those. What the file holds stands beside its path.
    Listed(PathBuf, String),
    /// By any certificate.
    Anyone,
}

impl fmt::Debug for UfdsPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "UfdsPlan({}:{} as {})", self.host, self.port, self.bind_dn)
    }
}
