//! Stand-ins for types of modules that are being written beside this one.

use crate::access::Access;
use crate::name::Name;
use std::collections::HashMap;
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

/// An HMAC of TSIG.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Algorithm {
    Md5,
    Sha1,
    Sha256,
    Sha384,
    Sha512,
}

impl Algorithm {
    /// Only ever for verifying.
    pub fn is_legacy(self) -> bool {
        matches!(self, Algorithm::Md5 | Algorithm::Sha1)
    }
}

impl std::str::FromStr for Algorithm {
    type Err = ();
    fn from_str(text: &str) -> Result<Algorithm, ()> {
        Ok(match text {
            "hmac-md5" => Algorithm::Md5,
            "hmac-sha1" => Algorithm::Sha1,
            "hmac-sha256" => Algorithm::Sha256,
            "hmac-sha384" => Algorithm::Sha384,
            "hmac-sha512" => Algorithm::Sha512,
            _ => return Err(()),
        })
    }
}

impl fmt::Display for Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Algorithm::Md5 => "hmac-md5",
            Algorithm::Sha1 => "hmac-sha1",
            Algorithm::Sha256 => "hmac-sha256",
            Algorithm::Sha384 => "hmac-sha384",
            Algorithm::Sha512 => "hmac-sha512",
        })
    }
}

/// A TSIG key.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Key {
    pub name: Name,
    pub algorithm: Algorithm,
    secret: Vec<u8>,
}

impl Key {
    /// Puts one together.
    pub fn new(name: Name, algorithm: Algorithm, secret: Vec<u8>) -> Key {
        Key { name, algorithm, secret }
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Key({} {})", self.name, self.algorithm)
    }
}

/// Keys by name.
pub type Keyring = HashMap<Name, Arc<Key>>;

/// Who is notified.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    pub address: SocketAddr,
    pub key: Option<Arc<Key>>,
    pub source: Option<IpAddr>,
}

/// Targets by zone.
pub type Targets = HashMap<Name, Vec<Target>>;

/// Who may transfer a zone, whether by difference.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outgoing {
    pub access: Access,
    pub ixfr: bool,
}

/// Bounds of a history.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HistoryLimits {
    pub versions: usize,
    pub bytes: usize,
}

/// The catalog zone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CatalogPlan {
    pub origin: Name,
    pub server_name: Name,
}
