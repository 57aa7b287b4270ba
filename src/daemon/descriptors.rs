//! File descriptors: how many the system allows, and how many of them are for connections of clients.
//!
//! Every connection is one. If clients could have them all, nobody could be polled, no zone transferred, no operator
//! served, and no scrape answered. So what the rest of the program may need is set apart, and connections get what is
//! left.
//!
//! Invariant: connections never have more than the configuration says. Cost: O(zones) for each configuration.

use crate::config::Config;
use crate::serve::ListenPlan;
use crate::transfer::queue::{DOUBT_SOCKETS_EACH, SOCKETS_PER_POLL, polls_at_once};
use crate::{control, serve};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Files of the runtime, the log and the state folder, signals, announcements, and connections that have lost their
/// places and are still ending.
const ALWAYS: usize = 96;
/// Descriptors for each listener: its socket, the one that the service manager keeps, and room for its successor in a
/// reload.
const PER_LISTENER: usize = 4;
/// Descriptors for each tree of ZooKeeper's: a session and its successors.
const PER_TREE: usize = 4;
/// Descriptors for each inventory: its file or its connections, and the files of its state.
const PER_INVENTORY: usize = 32;
/// Least share of all descriptors that is left to connections of clients: one in so many.
const LEAST_SHARE: usize = 4;

/// The limit on open files.
pub struct Descriptors(usize);

/// Number of client connections that the limit on open files allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Room {
    /// Open files that the system allows.
    pub open_files: usize,
    /// Descriptors of them that everything else may need.
    pub set_apart: usize,
    /// Connections that there is room for.
    pub connections: usize,
    /// Connections that the configuration asks for.
    pub tcp_connections: usize,
}

impl Room {
    /// Returns true if there is room for as many connections as the configuration asks for.
    pub fn fits(&self) -> bool {
        self.tcp_connections <= self.connections
    }
}

impl Descriptors {
    /// Returns the limit that [`Descriptors::raise`] would give to this process, without raising anything.
    pub fn allowed() -> Descriptors {
        Descriptors::of(getrlimit(Resource::Nofile).maximum)
    }

    /// Allows as many open files as the system permits: the customary 1,024 are fewer than a configuration may ask for.
    pub fn raise() -> Descriptors {
        let limit = getrlimit(Resource::Nofile);
        let raised = Rlimit { current: limit.maximum, ..limit };
        match setrlimit(Resource::Nofile, raised) {
            Ok(()) => Descriptors::of(raised.current),
            Err(_) => {
                tracing::warn!("cannot raise the limit on open files");
                Descriptors::of(limit.current)
            }
        }
    }

    /// As many as a limit says; without one, as many as can be counted.
    fn of(limit: Option<u64>) -> Descriptors {
        Descriptors(limit.and_then(|limit| usize::try_from(limit).ok()).unwrap_or(usize::MAX))
    }

    /// Returns the number of client connections that are left after all else that a configuration needs.
    pub fn room(&self, config: &Config) -> Room {
        let set_apart = self.set_apart(config);
        let connections = self.0.saturating_sub(set_apart).max(self.0 / LEAST_SHARE).max(1);
        Room { open_files: self.0, set_apart, connections, tcp_connections: config.listen.tcp_connections }
    }

    /// The plan of a configuration, with fewer connections where they do not fit, which is said.
    pub fn fit(&self, config: &Config) -> ListenPlan {
        let room = self.room(config);
        let mut plan = config.listen.clone();
        if !room.fits() {
            tracing::warn!(
                tcp_connections = room.tcp_connections,
                used = room.connections,
                open_files = room.open_files,
                "the limit on open files leaves room for fewer connections than tcp_connections; raise it (LimitNOFILE of \
                 the service) or lower tcp_connections"
            );
            plan.tcp_connections = room.connections;
        }
        plan
    }

    /// Returns the number of descriptors that everything but connections of clients may need.
    fn set_apart(&self, config: &Config) -> usize {
        let apis: usize = config.apis.iter().map(|api| api.listen.len()).sum();
        let orders = config.control.https_addresses().len();
        let (listen, http) = (&config.listen, config.metrics.listen.len() + apis + orders);
        let tls = listen.tls.as_ref().map_or(0, |tls| tls.listen.len());
        let listeners = PER_LISTENER * (2 * listen.dns.len() + tls + http + 1);
        let clients = http * serve::http::MAX_CONNECTIONS + control::MAX_CLIENTS;
        let primaries = config.primary_addresses().len();
        let at_once = config.transferred().next().map_or(0, |zone| zone.limits.per_primary);
        // As the queues in front of primaries have it.
        let transferred = config.transferred().count();
        let zones = |each: usize| transferred.min(primaries.saturating_mul(each));
        let transfers = zones(at_once).min(self.0 / LEAST_SHARE);
        let polls = (SOCKETS_PER_POLL * zones(polls_at_once(primaries))).min(self.0 / LEAST_SHARE);
        let doubts = primaries.saturating_mul(DOUBT_SOCKETS_EACH).min(self.0 / LEAST_SHARE);
        let inventories = PER_INVENTORY * config.inventories.len();
        ALWAYS + listeners + clients + transfers + polls + doubts + inventories + PER_TREE * config.trees.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    /// Zones of one primary.
    fn config(zones: usize, connections: usize) -> Config {
        config_of(1, zones, connections)
    }

    /// Zones of so many primaries.
    fn config_of(primaries: usize, zones: usize, connections: usize) -> Config {
        let zone =
            |zone| format!("\"z{zone}.test\" = \"192.0.{}.{}\"\n", zone % primaries / 250, zone % primaries % 250);
        let zones: String = (0..zones).map(zone).collect();
        let text = format!("[server]\nname = \"ns.test\"\ntcp_connections = {connections}\n[zones]\n{zones}");
        Config::parse(Path::new("test.toml"), &text).unwrap()
    }

    #[test]
    fn connections_get_what_the_rest_does_not_need() {
        let fit =
            |limit: usize, zones, connections| Descriptors(limit).fit(&config(zones, connections)).tcp_connections;
        assert_eq!(fit(524_288, 1, 1000), 1000);
        assert_eq!(fit(524_288, 20_000, 100_000), 100_000);
        assert_eq!(fit(1024, 1, 5), 5);
        let left = fit(1024, 3, 1000);
        assert!((600..800).contains(&left), "{left}");
        let left = fit(1024, 20_000, 1000);
        assert!((500..700).contains(&left), "{left}: one primary is asked for 64 zones at once, whatever their number");
        assert_eq!((fit(64, 1, 1000), fit(usize::MAX, 1, 1_000_000)), (16, 1_000_000));
    }

    #[test]
    fn what_queues_let_through_is_set_apart() {
        let room = |limit: usize, primaries| Descriptors(limit).room(&config_of(primaries, 2000, 1000));
        let others = room(524_288, 1).set_apart - 25 - 3 * 64 - 20;
        for (primaries, transfers, polls) in [(2, 50, 84), (4, 100, 84), (40, 1000, 160), (300, 2000, 1200)] {
            let expected = others + transfers + 3 * polls + 20 * primaries;
            assert_eq!(room(524_288, primaries).set_apart, expected, "{primaries}");
        }
        let few = room(1024, 300);
        assert!((256..300).contains(&few.connections) && !few.fits(), "{few:?}");
        assert!(room(524_288, 300).fits());
    }
}
