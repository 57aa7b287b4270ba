//! Stand-ins for types of modules that are being written beside this one.

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
