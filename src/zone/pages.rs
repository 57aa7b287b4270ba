//! Large pages for memory that queries read all over.
//!
//! For each read the processor translates an address. The translations of a large zone, or of a large table of clients, in
//! pages of 4 KiB do not fit into its buffer, those in pages of 2 MiB do. So each block of memory that is mostly such data,
//! wherever the allocator has put it, becomes one page: `MADV_COLLAPSE` of Linux 6.1 (madvise(2)) copies it, in the
//! kernel's modes `madvise` and `never`, too. Nothing in the block moves for the program. What the allocator gives back
//! later is split off again. A kernel that cannot do it leaves everything as it is.
//!
//! Cost: O(pieces), and a copy of 2 MiB for each block, for which a reader of that block waits.

use std::collections::{BTreeMap, HashSet};
use std::ops::Range;

/// Octets of a large page, of the processors on which Linux has them.
pub const PAGE_BYTES: usize = 2 << 20;
/// Octets of pieces in a block from which it becomes one page. The rest may be memory that is free, and comes back.
const WORTH_BYTES: usize = PAGE_BYTES / 4 * 3;

/// Addresses of a piece of memory that is read all over.
pub type Piece = Range<usize>;

/// The piece of memory that a slice takes.
pub fn piece_of<T>(slice: &[T]) -> Piece {
    let start = slice.as_ptr().addr();
    start..start + size_of_val(slice)
}

/// Moves pieces of memory, each of which may come more than once, into large pages, where they fill most of one. Returns
/// the number of these pages.
pub fn use_large_pages(pieces: impl Iterator<Item = Piece>) -> usize {
    let (mut blocks, mut seen) = (BTreeMap::<usize, usize>::new(), HashSet::new());
    for piece in pieces {
        // Regions share shards with their members.
        if !seen.insert(piece.start) {
            continue;
        }
        for block in piece.start / PAGE_BYTES..piece.end.div_ceil(PAGE_BYTES) {
            let (first, behind) = (block * PAGE_BYTES, (block + 1) * PAGE_BYTES);
            *blocks.entry(block).or_default() += piece.end.min(behind) - piece.start.max(first);
        }
    }
    let full: Vec<usize> =
        blocks.into_iter().filter(|(_, octets)| *octets >= WORTH_BYTES).map(|(block, _)| block).collect();
    let runs = full.chunk_by(|one, next| one + 1 == *next);
    runs.map(|run| match collapse(run[0], run.len()) {
        true => run.len(),
        // What is not mapped at either end fails a run.
        false => run.iter().filter(|block| collapse(**block, 1)).count(),
    })
    .sum()
}

/// Advice to make large pages of a range, which not every C library names (`linux/mman.h`).
#[cfg(target_os = "linux")]
const MADV_COLLAPSE: i32 = 25;

/// Makes large pages of a run of blocks; false where the kernel does not.
#[cfg(target_os = "linux")]
fn collapse(block: usize, count: usize) -> bool {
    let (address, length) = (block * PAGE_BYTES, count * PAGE_BYTES);
    // SAFETY: the call changes how memory is mapped and nothing that is in it. It fails where the range is not mapped.
    unsafe { libc::madvise(std::ptr::without_provenance_mut(address), length, MADV_COLLAPSE) == 0 }
}

/// Other systems choose the pages by themselves.
#[cfg(not(target_os = "linux"))]
fn collapse(_: usize, _: usize) -> bool {
    false
}
