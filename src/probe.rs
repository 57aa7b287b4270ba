//! Check of name servers as the rest of the world sees them: the parent zone lists the same servers as the zone itself,
//! and all of them answer, alike and with the current version.
//!
//! `ask` finds the servers of a zone and asks them, `classify` judges what came back, as a pure function.
//!
//! Invariant: what could not be found out is said to be unknown, and is never a fault of a server.
//!
//! Cost: see the two files; a round is O(zones × servers) questions, of which few are under way at once.
//!
//! RFCs: 1034 section 4.2.2 (a delegation lists what the zone does), 1035 section 3.3.13 (REFRESH), 2181 section 10.3
//! (no alias), 9471 (glue), 9499 (lame delegation).

mod ask;
mod classify;

pub use ask::{Prober, Target};
pub use classify::{
    Delegation, Facts, Finding, HostFacts, Lookup, Problem, Reply, ServerCheck, ServerFacts, ZoneCheck, classify,
};

use std::collections::HashMap;
use std::net::SocketAddr;
use std::time::Duration;
use wire::name::Name;

/// Shortest default for `stale_after`: a transfer that failed is tried again within it.
const LEAST_STALE_AFTER: Duration = Duration::from_secs(300);

/// Settings for the check of name servers from outside.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProbePlan {
    /// Interval of the check; none switches it off, except for a single check on request.
    pub every: Option<Duration>,
    /// Resolvers for addresses and parent zones; if empty, those of the system.
    pub resolvers: Vec<SocketAddr>,
    /// Longest time that a server may be behind, or ahead of us; by default the zone's REFRESH, but at least five
    /// minutes.
    pub stale_after: Option<Duration>,
    /// Longest wait for each answer.
    pub timeout: Duration,
    /// Servers of parent zones, instead of those that the resolver finds.
    pub parents: HashMap<Name, Vec<SocketAddr>>,
    /// Addresses of name servers, instead of those that the parent and the resolver know.
    pub hosts: HashMap<Name, Vec<SocketAddr>>,
    /// Port of the name servers at the addresses that are found.
    pub port: u16,
    /// Zones to check, in file order, regions last.
    pub zones: Vec<Name>,
}

impl ProbePlan {
    /// Returns the longest time that a server may be behind in a zone. RFC 1035 section 3.3.13: a secondary that is not
    /// notified of changes looks every REFRESH.
    pub fn allowance(&self, refresh: Duration) -> Duration {
        self.stale_after.unwrap_or(refresh.max(LEAST_STALE_AFTER))
    }
}

/// Names in canonical order, each once.
fn sorted(names: impl IntoIterator<Item = Name>) -> Vec<Name> {
    let mut names: Vec<Name> = names.into_iter().collect();
    names.sort_by(Name::canonical_cmp);
    names.dedup();
    names
}
