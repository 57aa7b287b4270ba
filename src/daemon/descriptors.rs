//! File descriptors: how many the system allows, and how many of them are for connections of clients.
//!
//! Every connection is one. If clients could have them all, nobody could be polled, no zone transferred, no operator served,
//! and no scrape answered. So what the rest of the program may need is set apart, and connections get what is left.
//!
//! Invariant: connections never have more than the configuration says. Cost: O(zones) for each configuration.

use crate::config::Config;
use crate::serve::ListenPlan;
use crate::{control, serve};
use std::collections::HashSet;

/// Files of the runtime, the log and the state folder, signals, announcements, and connections that have lost their places and
/// are still ending.
const ALWAYS: usize = 96;
/// For each listener: its socket, the one that the service manager keeps, and room for its successor in a reload.
const PER_LISTENER: usize = 4;
/// For each tree of ZooKeeper's: a session and its successors.
const PER_TREE: usize = 4;
/// Questions to primaries at once; more of them fail and are asked again.
const MAX_POLLS: usize = 256;
/// What is left to connections of clients at least, of all descriptors one in so many.
const LEAST_SHARE: usize = 4;

/// The limit on open files.
pub struct Descriptors(usize);

impl Descriptors {
    /// Allows as many open files as the system permits: the customary 1,024 are fewer than a configuration may ask for.
    pub fn raise() -> Descriptors {
        let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        // SAFETY: all calls take a pointer to this structure, which outlives them.
        let raised = unsafe {
            libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) == 0 && {
                limit.rlim_cur = limit.rlim_max;
                libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) == 0
            }
        };
        if !raised {
            tracing::warn!("cannot raise the limit on open files");
            // SAFETY: as above.
            unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) };
        }
        Descriptors(usize::try_from(limit.rlim_cur).unwrap_or(usize::MAX))
    }

    /// The plan of a configuration, with fewer connections where they do not fit, which is said.
    pub fn fit(&self, config: &Config) -> ListenPlan {
        let most = self.0.saturating_sub(self.set_apart(config)).max(self.0 / LEAST_SHARE).max(1);
        let mut plan = config.listen.clone();
        if plan.tcp_connections > most {
            tracing::warn!(
                tcp_connections = plan.tcp_connections,
                used = most,
                open_files = self.0,
                "the limit on open files leaves room for fewer connections than tcp_connections; raise it (LimitNOFILE of \
                 the service) or lower tcp_connections"
            );
            plan.tcp_connections = most;
        }
        plan
    }

    /// What everything but connections of clients may need.
    fn set_apart(&self, config: &Config) -> usize {
        let (listen, http) = (&config.listen, config.metrics.listen.len());
        let tls = listen.tls.as_ref().map_or(0, |tls| tls.listen.len());
        let listeners = PER_LISTENER * (2 * listen.dns.len() + tls + http + 1);
        let clients = http * serve::http::MAX_CONNECTIONS + control::MAX_CLIENTS;
        let primaries = config.zones.iter().flat_map(|zone| &zone.primaries);
        let addresses: HashSet<_> = primaries.map(|primary| primary.address).collect();
        let at_once = config.zones.first().map_or(0, |zone| zone.limits.per_primary);
        let transfers = config.zones.len().min(addresses.len().saturating_mul(at_once)).min(self.0 / LEAST_SHARE);
        let polls = config.zones.len().min(MAX_POLLS);
        ALWAYS + listeners + clients + transfers + polls + PER_TREE * config.trees.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    fn config(zones: usize, connections: usize) -> Config {
        let zones: String = (0..zones).map(|zone| format!("\"z{zone}.test\" = \"192.0.2.1\"\n")).collect();
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
        assert!((256..500).contains(&left), "{left}");
        assert_eq!((fit(64, 1, 1000), fit(usize::MAX, 1, 1_000_000)), (16, 1_000_000));
    }
}
