//! Large pages for the memory in which tables lie.
//!
//! Queries read all over a zone, and for each read the processor translates an address. The translations of a large zone
//! in pages of 4 KiB do not fit into its buffer, those in pages of 2 MiB do. So each block of memory that is mostly
//! shards, wherever the allocator has put them, becomes one page: `MADV_COLLAPSE` of Linux 6.1 (madvise(2)) copies it, in
//! the kernel's modes `madvise` and `never`, too. Nothing in the block moves for the program. What the allocator gives
//! back later is split off again. A kernel that cannot do it leaves everything as it is.
//!
//! Cost: O(shards of the large tables), and a copy of 2 MiB for each block, for which a reader of that block waits.

use super::Table;
use std::collections::{BTreeMap, HashSet};

/// Octets of a large page, of the processors on which Linux has them.
const PAGE_BYTES: usize = 2 << 20;
/// Octets of shards in a block from which it becomes one page. The rest may be memory that is free, and comes back.
const WORTH_BYTES: usize = PAGE_BYTES / 4 * 3;

impl Table {
    /// Moves tables into large pages, where they fill most of one. Returns the number of these pages.
    pub fn use_large_pages<'t>(tables: impl Iterator<Item = &'t Table>) -> usize {
        let (mut blocks, mut seen) = (BTreeMap::<usize, usize>::new(), HashSet::new());
        let large = tables.filter(|table| table.octets >= PAGE_BYTES as u64);
        for shard in large.flat_map(Table::shards) {
            let start = shard.bytes.as_ptr().addr();
            // Regions share shards with their members.
            if seen.insert(start) {
                *blocks.entry(start / PAGE_BYTES).or_default() += shard.bytes.len();
            }
        }
        let full: Vec<usize> =
            blocks.into_iter().filter(|(_, octets)| *octets >= WORTH_BYTES).map(|(block, _)| block).collect();
        let runs = full.chunk_by(|one, next| one + 1 == *next);
        runs.filter(|run| collapse(run[0] * PAGE_BYTES, run.len() * PAGE_BYTES)).map(<[usize]>::len).sum()
    }
}

/// Advice to make large pages of a range, which not every C library names (`linux/mman.h`).
#[cfg(target_os = "linux")]
const MADV_COLLAPSE: i32 = 25;

/// Makes large pages of a range of memory; false where the kernel does not.
#[cfg(target_os = "linux")]
fn collapse(address: usize, length: usize) -> bool {
    // SAFETY: the call changes how memory is mapped and nothing that is in it. It fails where the range is not mapped.
    unsafe { libc::madvise(std::ptr::without_provenance_mut(address), length, MADV_COLLAPSE) == 0 }
}

/// Other systems choose the pages by themselves.
#[cfg(not(target_os = "linux"))]
fn collapse(_: usize, _: usize) -> bool {
    false
}
