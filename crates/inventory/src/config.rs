//! The rules that an operator chooses for an inventory, and the zones that are made of it.
//!
//! Cost: O(zones) to find the reverse zone of an address.

use std::net::IpAddr;
use std::time::Duration;
use wire::name::Name;

/// Limits on how fast a service may lose members that report themselves down (RFD 1, "Self-removal hysteresis").
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The share that may go within a window, as a fraction.
    pub max_removed: (u32, u32),
    pub window: Duration,
    /// Time for which the last member stays.
    pub last: Duration,
}

/// The rules and zones of one inventory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Name that inventories are told apart by.
    pub name: Box<str>,
    /// Accounts have names by their logins, too.
    pub use_login: bool,
    /// Instances have names by their aliases, too.
    pub use_alias: bool,
    /// An instance that says nothing of itself is in service (`missing_status = "up"`).
    pub missing_is_up: bool,
    /// Age of a compute node's heartbeat at which it is down; zero: as soon as it is not running.
    pub cn_down_after: Duration,
    pub damping: Limits,
    /// Instances and compute nodes have aliases of CMON.
    pub cmon: bool,
    /// The logins `admin` and `poseidon` are those of the operator.
    pub operator_logins: bool,
    /// SRV records have the priority and weight of the tag.
    pub srv_weights: bool,
    /// Compute nodes are judged exactly as Triton's CNS does; for comparisons with it.
    pub upstream_cn_rules: bool,
    pub ttl: u32,
    /// Zones of instances and services; their order counts.
    pub forward: Vec<ForwardZone>,
    pub reverse: Reverse,
}

/// A zone of instances and services.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForwardZone {
    pub origin: Name,
    /// UUIDs of networks and pools, names of networks without owners, or `*`.
    pub networks: Vec<Box<str>>,
}

/// Zones of PTR records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reverse {
    /// A zone for each /24 and /64 with an address, as Triton's CNS has them.
    Auto,
    /// These zones; of several that hold an address, the one with the longest prefix.
    Listed(Vec<ReverseZone>),
}

/// A zone of PTR records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReverseZone {
    pub origin: Name,
    /// First address and length in bits.
    pub prefix: (IpAddr, u8),
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { max_removed: (1, 3), window: Duration::from_secs(60), last: Duration::from_secs(600) }
    }
}

impl Default for Config {
    fn default() -> Config {
        Config {
            name: Box::default(),
            use_login: true,
            use_alias: true,
            missing_is_up: true,
            cn_down_after: Duration::from_secs(3600),
            damping: Limits::default(),
            cmon: false,
            operator_logins: false,
            srv_weights: false,
            upstream_cn_rules: false,
            ttl: 30,
            forward: Vec::new(),
            reverse: Reverse::Listed(Vec::new()),
        }
    }
}

impl Limits {
    /// Number of members, out of so many, that may go within a window; at least 1.
    pub fn quota(&self, members: usize) -> usize {
        let (some, of) = self.max_removed;
        (members * some as usize / (of as usize).max(1)).max(1)
    }
}
