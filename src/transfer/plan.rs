//! The plan of transfers, which the configuration makes and the tasks follow.

use crate::client::Server;
use std::net::IpAddr;
use std::time::Duration;
use wire::name::Name;

/// Bounds on the timers that a zone's SOA asks for, and how long older serials must last before they are believed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimerBounds {
    pub refresh_min: Duration,
    pub refresh_max: Duration,
    pub retry_min: Duration,
    pub retry_max: Duration,
    pub expire_min: Duration,
    pub expire_max: Duration,
    /// For how long every primary must have had an older serial before the zone goes back to it.
    pub regress_after: Duration,
    /// The same while some of them are silent.
    pub regress_after_silence: Duration,
}

/// Limits of one transfer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limits {
    /// SOA poll over UDP or TCP, and TCP connection.
    pub connect_timeout: Duration,
    /// From one complete message to the next.
    pub message_timeout: Duration,
    pub total_timeout: Duration,
    /// Bytes a second, averaged from the tenth second on; 0 for none.
    pub min_rate_bytes: u64,
    /// Also for all differences between two whole transfers together, so that a zone is at most twice as large.
    pub max_bytes: u64,
    /// Also for a zone that differences make.
    pub max_records: u64,
    pub max_messages: u64,
    /// A transfer that leaves less than this share of the names, and takes away at least ten, must be confirmed
    /// by a second one; 0 for never.
    pub shrink_share: f64,
    /// Pause before the confirming transfer.
    pub confirm_after: Duration,
    /// Transfers at once from one address and port of a primary, whatever the zone.
    pub per_primary: usize,
}

/// Plan of one zone.
#[derive(Clone, Debug, PartialEq)]
pub struct ZonePlan {
    /// The zone, or for a member of a zone that several primaries have parts of, the member's name (see `origin`).
    pub zone: Name,
    /// The name by which the primaries know the zone: `zone` itself but for such members.
    pub origin: Name,
    /// In order of preference; never empty.
    pub primaries: Vec<Server>,
    /// Addresses besides the primaries' that may announce changes.
    pub notify_from: Vec<IpAddr>,
    /// True if primaries are asked for differences (RFC 1995) before whole zones.
    pub ixfr: bool,
    pub timers: TimerBounds,
    pub limits: Limits,
    /// Limits on what the zone may list, if it is a catalog whose zones are to be served (RFC 9432).
    pub catalog: Option<CatalogLimits>,
}

/// Limits on what a catalog may list, and on what it may take away.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CatalogLimits {
    pub max_members: usize,
    /// A version that takes away this share of the members or more, or all, waits for an operator.
    pub hold_share: f64,
}

impl ZonePlan {
    /// Returns true for a member of a zone, which is not served under its own name.
    pub fn is_member(&self) -> bool {
        self.zone != self.origin
    }

    /// Returns true if no client is answered from the zone: it is a part of another one, or a list of zones.
    pub fn is_hidden(&self) -> bool {
        self.is_member() || self.catalog.is_some()
    }
}
