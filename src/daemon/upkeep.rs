//! Upkeep of memory behind changes: large differences are packed, what was used for changes goes back to the system, and
//! zones move into large pages.
//!
//! The allocator divides its memory among threads, into arenas. What one of them frees the others do not use; so there
//! are few of them, or a large zone would soon be scattered among all.
//!
//! A difference is packed once it is some seconds old: by then secondaries that follow have it.
//!
//! The allocator keeps what is freed between that which stays, for itself. After a change of many names, a reload of many
//! prefixes or a long answer to an operator that can be more than all zones take. So once memory has grown, its free
//! pages are given back, where the allocator is glibc's. The zones lie elsewhere after a change, so they are looked at again
//! once it is quiet (`zone::use_large_pages`).
//!
//! Episodes of the rate limit are ended here, too.
//!
//! Cost: a read of a small file every few seconds; when memory has grown, O(pieces of free memory), in a thread that no
//! query waits for; after changes, O(shards of large zones + octets of large differences), and O(zones).

use crate::keeper::Command;
use crate::metrics::Metrics;
use crate::publish::{Published, Publisher};
use crate::rate_limit::{self, Limiter};
use crate::restart::{keep_running, panics};
use crate::zone::use_large_pages;
use std::fs;
#[cfg(target_env = "gnu")]
use std::num::NonZero;
use std::sync::{Arc, Weak};
use std::time::{Duration, SystemTime};
use tokio::sync::mpsc::WeakSender;

/// Interval of the looks: twice this, and a little, passes until memory is back.
const EVERY: Duration = Duration::from_secs(3);
/// Growth of resident memory, in octets and as a part of it, after which free memory is given back. Below, there is too
/// little to give.
const GROWTH_BYTES: u64 = 4 << 20;
const GROWTH_PART: u64 = 16;
/// Looks in a row that find changes after which zones are looked at all the same.
const BUSY_LOOKS: u32 = 3;
/// Age from which on a difference is packed.
const PACKED_AFTER: Duration = Duration::from_secs(2);

/// Arenas of the allocator for each processor; glibc would have eight.
#[cfg(target_env = "gnu")]
const ARENAS: usize = 2;

/// State of the upkeep after a look.
#[derive(Default)]
struct Upkeep {
    /// Resident memory after free memory was last given back, or the least since.
    resident: u64,
    /// The newest publication, and that after which zones were last moved.
    generation: u64,
    moved: u64,
    busy: u32,
    /// True if there are large differences that are not packed.
    is_unpacked: bool,
}

/// Has the allocator divide its memory into few arenas; to be called before there are other threads.
#[cfg(target_env = "gnu")]
pub fn prepare() {
    let arenas = 1 + ARENAS * std::thread::available_parallelism().map_or(1, NonZero::get);
    // SAFETY: the call sets a number of the allocator, under its lock (mallopt(3)).
    unsafe {
        libc::mallopt(libc::M_ARENA_MAX, i32::try_from(arenas).unwrap_or(i32::MAX));
    }
}

/// Other allocators have no such number.
#[cfg(not(target_env = "gnu"))]
pub fn prepare() {}

/// Starts the upkeep, which ends with the publisher. It tells the keeper when histories have become smaller.
pub fn start(publisher: &Arc<Publisher>, keeper: WeakSender<Command>) {
    let publisher = Arc::downgrade(publisher);
    tokio::spawn(async move {
        let mut upkeep = Upkeep::default();
        let mut timer = tokio::time::interval(EVERY);
        timer.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            timer.tick().await;
            let Some(root) = Weak::upgrade(&publisher).map(|publisher| publisher.load()) else { return };
            let look = tokio::task::spawn_blocking(move || (upkeep.look(&root, SystemTime::now()), upkeep));
            let is_smaller;
            (is_smaller, upkeep) = match look.await {
                Ok(looked) => looked,
                // What it had seen is lost with it; the next look sees as much.
                Err(error) if error.is_panic() => (false, Upkeep::default()),
                Err(_) => return,
            };
            if is_smaller && let Some(keeper) = keeper.upgrade() {
                // A keeper that has gone counts nothing any more.
                _ = keeper.send(Command::Weigh).await;
            }
        }
    });
}

/// Shows the number of panics whenever metrics are read.
pub fn show_panics(metrics: &Metrics) {
    metrics.set_when_read("panics", |metrics| {
        metrics.panics.reset();
        metrics.panics.inc_by(panics());
    });
}

/// Ends what the rate limiter has to end, every second, as long as somebody answers.
pub fn tend(limiter: &Arc<Limiter>, metrics: &Arc<Metrics>) {
    let (limiter, metrics) = (Arc::downgrade(limiter), metrics.clone());
    let work = move || {
        let (limiter, metrics) = (limiter.clone(), metrics.clone());
        async move {
            let mut timer = tokio::time::interval(Duration::from_secs(1));
            timer.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
            loop {
                timer.tick().await;
                let Some(limiter) = Weak::upgrade(&limiter) else { return };
                let networks = limiter.tend(rate_limit::clock());
                metrics.rate_limited_networks.set(i64::try_from(networks).unwrap_or(i64::MAX));
            }
        }
    };
    tokio::spawn(keep_running(work, || {
        tracing::error!("the upkeep of the rate limit has panicked and goes on; please report what the log says");
    }));
}

impl Upkeep {
    /// Does what is due; returns true if histories may have become smaller.
    fn look(&mut self, root: &Published, now: SystemTime) -> bool {
        let is_quiet = std::mem::replace(&mut self.generation, root.generation) == root.generation;
        let has_packed = self.is_unpacked || !is_quiet;
        if has_packed {
            let before = now.checked_sub(PACKED_AFTER).unwrap_or(now);
            self.is_unpacked = false;
            for served in root.all() {
                self.is_unpacked |= served.history.pack(before);
            }
        }
        if let Some(now) = resident() {
            self.resident = self.resident.min(now);
            if now - self.resident > GROWTH_BYTES.max(self.resident / GROWTH_PART) {
                give_back();
                self.resident = resident().unwrap_or(now);
            }
        }
        self.busy = if is_quiet { 0 } else { self.busy + 1 };
        if self.moved != root.generation && (is_quiet || self.busy > BUSY_LOOKS) {
            (self.moved, self.busy) = (root.generation, 0);
            let zones = root.iter().filter_map(|served| served.zone.as_deref());
            let tables = zones.flat_map(|zone| zone.table().pieces());
            use_large_pages(tables.chain(root.clients.pieces()));
        }
        has_packed
    }
}

/// Resident memory of this process, in octets (proc(5)).
fn resident() -> Option<u64> {
    let text = fs::read_to_string("/proc/self/status").ok()?;
    let value = text.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    Some(value.trim().strip_suffix(" kB")?.parse::<u64>().ok()? << 10)
}

/// Gives pages without anything in use back to the system.
#[cfg(target_env = "gnu")]
fn give_back() {
    // SAFETY: the call takes the allocator's own locks, and frees nothing that is in use (malloc_trim(3)).
    unsafe {
        libc::malloc_trim(0);
    }
}

/// Other allocators have no such call.
#[cfg(not(target_env = "gnu"))]
fn give_back() {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::publish::Identity;

    /// Publications of which zones are moved after each of these looks.
    fn moved(generations: &[u64]) -> Vec<u64> {
        let mut upkeep = Upkeep::default();
        let look = |generation: &u64| {
            upkeep.look(&Published::new(Identity::default(), [], *generation), SystemTime::now());
            upkeep.moved
        };
        generations.iter().map(look).collect()
    }

    #[test]
    fn zones_are_moved_when_it_is_quiet_or_after_a_while() {
        assert_eq!(moved(&[5, 5, 5, 6, 6]), [0, 5, 5, 5, 6]);
        assert_eq!(moved(&[1, 2, 3, 4, 5, 6]), [0, 0, 0, 4, 4, 4]);
    }

    #[test]
    fn resident_memory_is_known() {
        assert!(resident().is_some_and(|octets| octets > 1 << 20));
    }
}
