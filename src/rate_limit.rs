//! Response rate limiting: how many answers over UDP the clients of one network get in full, and how many connections they
//! may open.
//!
//! A flood with forged source addresses makes a server send its answers to a victim. Answers over the limit are cut to
//! the question with TC set (`serve::limit`), which is no more than came in, and tells an honest client in the same
//! network to come by TCP, where nobody forges addresses. None is dropped: a drop costs an honest client its timeout.
//!
//! **What is counted.** A bucket belongs to a class of response ([`Class`]) and to the network of the client, by default
//! an IPv4 /24 or an IPv6 /56. No name is part of it. Where names are, as they were first in such limiters, a flood that
//! goes through a list of names, or through those that a wildcard makes, has a bucket for each, and a victim gets the rate
//! times the names; Knot DNS counts networks alone since its version 3.4 for that reason. Here a victim's network gets
//! five times the rate at most, whatever is asked of whichever zone. An honest resolver that asks for many names counts as
//! one that asks for one, so the default, 1,000 a second of a class, is five times what NSD has for a name; one that needs
//! more has server cookies, `exempt`, or TCP. Classes are apart so that a storm of questions for names that are not there
//! does not cut the answers for those that are.
//!
//! Connections over TCP and TLS are a class of their own, with the same rate: whoever is told to come by TCP may. One over
//! the limit is reset before anything else is done for it. Places (`serve::places`) bound how many there are at a time, not how
//! many come and go; each costs a task, and with TLS a handshake.
//!
//! **How.** Each bucket holds one number, the time in nanoseconds at which it is empty again (the virtual scheduling of
//! GCRA, ITU-T I.371). An answer adds the time that it is worth; one that would take the bucket further than a
//! second ahead is over the limit, and changes nothing. So in any time `t` a network gets `rate × (t + 1 s)` full answers of
//! a class at most; a client that keeps to the rate is never limited; one that was idle may send a second's worth at
//! once; and a change of the rate holds from the next answer on. Nanoseconds since the start go around after 584 years.
//!
//! The buckets are a table of fixed size that all UDP threads share, since the system gives a client's questions to
//! whichever thread is waiting. The classes of a network stand in one line of memory, which its hash chooses; the hash is
//! keyed anew in every process, so nobody can choose to share a line with somebody else. Networks of one line share
//! its buckets: never more than the rate, but with `n` networks over their limit an honest one is cut like them with a
//! probability of `n` / 65,536. Keys in the table would end that, but a flood of forged networks would then drive out
//! the very buckets that limit it.
//!
//! **Who is exempt** (`exempt`, and those whom the daemon adds) is looked up only for a bucket that is more than half full,
//! and takes nothing from it then. So the look-up costs nothing in peace, and neighbours of an exempt client
//! have the whole rate, if only half of the burst.
//!
//! Invariant: no lock, no allocation and no system call for an answer that is not over its limit. Over it there is one
//! more counter to add to; only the first of an episode tries a lock (`episodes`), and never waits for it. Cost: a hash of
//! 8 octets and one compare-and-swap an answer; 4 MiB.

mod episodes;

pub use episodes::{Episode, Episodes};

use crate::acl::{Host, Prefix, network_of};
use crate::metrics::CLASSES;
use episodes::Began;
use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Lines of the table, each with the buckets of one hash.
const LINES: usize = 1 << 16;
/// How far ahead a bucket may be, in nanoseconds: a second's worth of answers.
const BURST: u64 = 1_000_000_000;
/// Filling from which on it matters who asks.
const HALF: u64 = BURST / 2;

/// What a limit does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, strum::IntoStaticStr)]
#[strum(serialize_all = "kebab-case")]
pub enum Mode {
    /// Answers over it are cut.
    On,
    /// Answers over it are counted and told, and sent in full.
    Log,
    #[default]
    Off,
}

/// Limit on the rate of responses, as it is configured.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RateLimitPlan {
    pub mode: Mode,
    /// Full responses of one class for one network in a second.
    pub responses_per_second: u32,
    /// Bits of an address that make its network: 64 at most.
    pub ipv4_prefix: u8,
    pub ipv6_prefix: u8,
    /// Clients without a limit.
    pub exempt: Vec<Prefix>,
}

/// Limit in force.
#[derive(Clone, Debug, Default)]
pub struct RateLimit {
    plan: RateLimitPlan,
    /// Nanoseconds that an answer is worth.
    worth: u64,
    /// Clients without a limit that are known by name.
    hosts: Vec<Host>,
}

/// Class of a response, or of what costs as much, as its counter is numbered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// It has records that answer.
    Answer,
    /// The name is there, what was asked for is not.
    Nodata,
    Nxdomain,
    Referral,
    /// Any other response code.
    Error,
    /// No response: a connection over TCP or TLS.
    Connection,
}

impl Class {
    /// The metric label.
    pub fn label(self) -> &'static str {
        CLASSES[self as usize]
    }
}

/// The buckets of one hash, in one line of the processor's cache.
#[derive(Default)]
#[repr(align(64))]
struct Line {
    /// When each class is empty again.
    buckets: [AtomicU64; CLASSES.len()],
    /// When a response was last over its limit, about; 0 before any was.
    over: AtomicU64,
    /// Responses over their limit in this episode.
    count: AtomicU64,
}

/// All buckets, and the networks that are over their limit.
pub struct Limiter {
    lines: Box<[Line]>,
    hash: RandomState,
    pub episodes: Episodes,
}

impl Default for Limiter {
    fn default() -> Limiter {
        let lines = (0..LINES).map(|_| Line::default()).collect();
        Limiter { lines, hash: RandomState::new(), episodes: Episodes::default() }
    }
}

impl RateLimit {
    /// Puts a plan into force, with clients that have no limit beside those of the plan.
    pub fn new(plan: &RateLimitPlan, peers: impl IntoIterator<Item = Prefix>) -> RateLimit {
        let mut plan = plan.clone();
        for peer in peers {
            if !plan.exempt.contains(&peer) {
                plan.exempt.push(peer);
            }
        }
        let worth = BURST / u64::from(plan.responses_per_second.max(1));
        RateLimit { plan, worth, hosts: Vec::new() }
    }

    /// The same without a limit on hosts that are known by name, wherever they are at present.
    pub fn with_hosts<'h>(mut self, hosts: impl IntoIterator<Item = &'h Host>) -> RateLimit {
        for host in hosts {
            if !self.hosts.contains(host) {
                self.hosts.push(host.clone());
            }
        }
        self
    }

    /// What is done with answers over the limit.
    pub fn mode(&self) -> Mode {
        self.plan.mode
    }

    /// Bits of an address that make its network.
    fn length_for(&self, address: IpAddr) -> u8 {
        if address.is_ipv4() { self.plan.ipv4_prefix } else { self.plan.ipv6_prefix }
    }

    /// Number that stands for the network of a client.
    fn number(&self, address: IpAddr) -> u64 {
        let address = address.to_canonical();
        match network_of(address, self.length_for(address)) {
            // IPv6 networks that begin with 32 zeroes are nobody's (RFC 4291 section 2.4).
            IpAddr::V4(first) => u64::from(u32::from(first)),
            IpAddr::V6(first) => (u128::from(first) >> 64) as u64,
        }
    }

    /// Returns true if a client has no limit.
    fn exempts(&self, address: IpAddr) -> bool {
        self.plan.exempt.iter().any(|prefix| prefix.contains(address))
            || self.hosts.iter().any(|host| host.is_at(address))
    }
}

impl Limiter {
    /// Counts a response to a client at a time of [`clock`]. Returns false if it is over the limit.
    #[inline]
    pub fn admits(&self, limit: &RateLimit, client: IpAddr, class: Class, now: u64) -> bool {
        let index = self.hash.hash_one(limit.number(client)) as usize % LINES;
        let bucket = &self.lines[index].buckets[class as usize];
        let mut seen = bucket.load(Ordering::Relaxed);
        loop {
            let filled = seen.max(now) + limit.worth;
            if filled > now + HALF && limit.exempts(client) {
                return true;
            }
            if filled > now + BURST {
                self.note(index, limit, client, class, now);
                return false;
            }
            match bucket.compare_exchange_weak(seen, filled, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return true,
                Err(other) => seen = other,
            }
        }
    }

    /// Takes note of a response over its limit.
    #[cold]
    fn note(&self, index: usize, limit: &RateLimit, client: IpAddr, class: Class, now: u64) {
        let line = &self.lines[index];
        line.count.fetch_add(1, Ordering::Relaxed);
        let last = line.over.load(Ordering::Relaxed);
        if last == 0 || now.saturating_sub(last) > episodes::QUIET {
            let client = client.to_canonical();
            let network = Prefix::around(client, limit.length_for(client));
            let began = self.episodes.begin(index, (network, class), &limit.plan, now);
            if began == Began::Now {
                line.count.store(1, Ordering::Relaxed);
            }
            if began != Began::Later {
                line.over.store(now, Ordering::Relaxed);
            }
        } else if now.saturating_sub(last) > episodes::STEP {
            line.over.store(now, Ordering::Relaxed);
        }
    }

    /// Ends the episodes that are over; to be called every second or so. Returns how many go on.
    pub fn tend(&self, now: u64) -> usize {
        self.episodes.end(now, |index| self.state_of(index))
    }

    /// Networks that are over their limit at present, with the number of responses.
    pub fn current(&self) -> Vec<Episode> {
        self.episodes.list(|index| self.state_of(index).1)
    }

    /// When a line was last over a limit, and how often in this episode.
    fn state_of(&self, index: usize) -> (u64, u64) {
        let line = &self.lines[index % LINES];
        (line.over.load(Ordering::Relaxed), line.count.load(Ordering::Relaxed))
    }
}

/// Nanoseconds of a clock that never goes back and costs next to nothing, since it stands still for some milliseconds: a
/// batch of requests needs no better one.
pub fn clock() -> u64 {
    #[cfg(target_os = "linux")]
    const CLOCK: rustix::time::ClockId = rustix::time::ClockId::MonotonicCoarse;
    #[cfg(not(target_os = "linux"))]
    const CLOCK: rustix::time::ClockId = rustix::time::ClockId::Monotonic;
    let time = rustix::time::clock_gettime(CLOCK);
    let seconds = Duration::from_secs(time.tv_sec.try_into().unwrap_or_default());
    (seconds.as_nanos() as u64).wrapping_add(time.tv_nsec as u64)
}

#[cfg(test)]
mod tests;
