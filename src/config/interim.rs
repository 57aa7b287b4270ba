//! Stand-ins for types of modules that are being written beside this one.

use crate::access::Access;
use crate::name::Name;
use crate::tsig::Key;
use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

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

/// The catalog zone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CatalogPlan {
    pub origin: Name,
    pub server_name: Name,
}
