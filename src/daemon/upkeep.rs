//! Upkeep of memory behind changes: what was used for them goes back to the system, and zones move into large pages.
//!
//! The allocator keeps what is freed between that which stays, for itself. After a change of many names, a reload of many
//! prefixes or a long answer to an operator that can be more than all zones take. So once memory has grown, its free
//! pages are given back, where the allocator is glibc's. The zones lie elsewhere after a change, so they are looked at again
//! once it is quiet (`Table::use_large_pages`).
//!
//! Cost: a read of a small file every few seconds; when memory has grown, O(pieces of free memory), in a thread that no
//! query waits for; after changes, O(shards of large zones).

use crate::publish::{Published, Publisher};
use crate::zone::Table;
use std::fs;
use std::sync::{Arc, Weak};
use std::time::Duration;

/// Interval of the looks: twice this, and a little, passes until memory is back.
const EVERY: Duration = Duration::from_secs(3);
/// Growth of resident memory, in octets and as a part of it, after which free memory is given back. Below, there is too
/// little to give.
const GROWTH_BYTES: u64 = 4 << 20;
const GROWTH_PART: u64 = 16;
/// Looks in a row that find changes after which zones are looked at all the same.
const BUSY_LOOKS: u32 = 3;

/// State of the upkeep after a look.
#[derive(Default)]
struct Upkeep {
    /// Resident memory after free memory was last given back, or the least since.
    resident: u64,
    /// The newest publication, and that after which zones were last moved.
    generation: u64,
    moved: u64,
    busy: u32,
}

/// Starts the upkeep, which ends with the publisher.
pub fn start(publisher: &Arc<Publisher>) {
    let publisher = Arc::downgrade(publisher);
    tokio::spawn(async move {
        let mut upkeep = Upkeep::default();
        let mut timer = tokio::time::interval(EVERY);
        timer.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            timer.tick().await;
            let Some(root) = Weak::upgrade(&publisher).map(|publisher| publisher.load()) else { return };
            let look = tokio::task::spawn_blocking(move || {
                upkeep.look(&root);
                upkeep
            });
            let Ok(looked) = look.await else { return };
            upkeep = looked;
        }
    });
}

impl Upkeep {
    /// Does what is due.
    fn look(&mut self, root: &Published) {
        if let Some(now) = resident() {
            self.resident = self.resident.min(now);
            if now - self.resident > GROWTH_BYTES.max(self.resident / GROWTH_PART) {
                give_back();
                self.resident = resident().unwrap_or(now);
            }
        }
        let is_quiet = std::mem::replace(&mut self.generation, root.generation) == root.generation;
        self.busy = if is_quiet { 0 } else { self.busy + 1 };
        if self.moved != root.generation && (is_quiet || self.busy > BUSY_LOOKS) {
            (self.moved, self.busy) = (root.generation, 0);
            let zones = root.iter().filter_map(|served| served.zone.as_deref());
            Table::use_large_pages(zones.map(|zone| zone.table()));
        }
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
            upkeep.look(&Published::new(Identity::default(), [], *generation));
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
