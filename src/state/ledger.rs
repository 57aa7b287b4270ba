//! State of a zone's files: what the snapshot is, and how far the journal has come.
//!
//! Invariants: frames are listed in order and without a gap up to `end`; those before `base` led to the snapshot.
//!
//! Cost: 16 bytes for each frame of a journal, which compaction bounds.

use super::frame::{HEADER_BYTES, Kind};
use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use wire::rr::RRset;

/// A journal below this is not worth a new snapshot, however small the zone. Tests want to see many.
pub const MIN_COMPACTED_BYTES: u64 = if cfg!(test) { 1 << 10 } else { 64 << 10 };
/// Steps that are carried over to the journal of a new snapshot, so that secondaries that were away need no full
/// transfer after a restart.
const MAX_CARRIED_DELTAS: usize = 500;

/// State of a zone's files.
#[derive(Debug, Default)]
pub struct Ledger {
    /// The snapshot's number; 0 while there is none.
    pub generation: u64,
    pub snapshot_bytes: u64,
    /// Offset of the first frame that follows the snapshot.
    pub base: u64,
    /// Offset of the next frame.
    pub end: u64,
    /// Offsets of the frames, with their kinds.
    pub frames: VecDeque<(u64, Kind)>,
    /// The SOA of the version that the files give; none when nothing can be appended to them.
    pub tip: Option<Arc<RRset>>,
}

impl Ledger {
    /// A snapshot whose journal is not known to be usable.
    pub fn of_snapshot(generation: u64, snapshot_bytes: u64) -> Ledger {
        Ledger { generation, snapshot_bytes, base: HEADER_BYTES, end: HEADER_BYTES, ..Ledger::default() }
    }

    /// Bytes of both files.
    pub fn bytes(&self) -> u64 {
        self.snapshot_bytes + self.end
    }

    /// Octets that a journal may hold before it is replaced, and that it may carry over.
    fn allowance(&self) -> u64 {
        (self.snapshot_bytes / 2).max(MIN_COMPACTED_BYTES)
    }

    /// Returns true if a new snapshot would make the files smaller and the next start faster.
    pub fn is_long(&self) -> bool {
        self.end - self.base > self.allowance()
    }

    /// Offset from which on a new journal carries frames over.
    pub fn carried_from(&self) -> u64 {
        let mut start = self.end;
        let mut deltas = 0;
        for &(at, kind) in self.frames.iter().rev() {
            deltas += usize::from(kind == Kind::Delta);
            if self.end - at > self.allowance() || deltas > MAX_CARRIED_DELTAS {
                break;
            }
            start = at;
        }
        start
    }

    /// Offset of the last frame if that is nothing but a time, and not before `from`: the next time takes its place, so
    /// a zone that never changes does not fill the disk.
    pub fn replaceable(&self, from: u64) -> Option<u64> {
        self.frames.back().filter(|(at, kind)| *kind == Kind::Refreshed && *at >= from).map(|(at, _)| *at)
    }

    /// Notes frames that were appended.
    pub fn append(&mut self, frames: &[(u64, Kind)], bytes: u64) {
        self.frames.extend(frames.iter().map(|(at, kind)| (self.end + at, *kind)));
        self.end += bytes;
    }

    /// Goes over to a snapshot of the version at `at`, whose journal holds what this one holds from `start` on.
    pub fn compact(&mut self, generation: u64, snapshot_bytes: u64, start: u64, at: u64) {
        let moved = |offset: u64| offset - start + HEADER_BYTES;
        self.frames.retain(|(offset, _)| *offset >= start);
        self.frames.iter_mut().for_each(|(offset, _)| *offset = moved(*offset));
        (self.generation, self.snapshot_bytes) = (generation, snapshot_bytes);
        (self.base, self.end) = (moved(at), moved(self.end));
    }
}

/// The journal of a generation.
pub fn journal_path(folder: &Path, generation: u64) -> PathBuf {
    folder.join(format!("journal.{generation}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_compacted_journal_keeps_the_newest_steps_and_its_limits() {
        // Half of the snapshot is 50,000 bytes.
        let mut ledger = Ledger::of_snapshot(1, 100_000);
        for _ in 0..600 {
            ledger.append(&[(0, Kind::Delta)], 80);
        }
        assert!(!ledger.is_long());
        ledger.append(&[(0, Kind::Delta), (50, Kind::Refreshed)], 2100);
        assert!(ledger.is_long());
        let (start, end) = (ledger.carried_from(), ledger.end);
        assert_eq!(ledger.frames.iter().filter(|(at, kind)| *at >= start && *kind == Kind::Delta).count(), 500);
        assert_eq!((ledger.replaceable(0), ledger.replaceable(end)), (Some(end - 2050), None));
        // One more comes while the snapshot is being built.
        ledger.append(&[(0, Kind::Delta)], 100);
        ledger.compact(2, 90_000, start, end);
        assert_eq!((ledger.base, ledger.end), (HEADER_BYTES + end - start, HEADER_BYTES + end - start + 100));
        assert_eq!((ledger.frames.front().unwrap().0, ledger.frames.back().unwrap().0), (HEADER_BYTES, ledger.base));
        assert!(!ledger.is_long() && ledger.bytes() == 90_000 + ledger.end && ledger.replaceable(0).is_none());
        // Bytes count, too: 45,000 of them.
        ledger.append(&[(0, Kind::Delta)], 40_000);
        ledger.append(&[(0, Kind::Delta)], 40_000);
        assert_eq!(ledger.carried_from(), ledger.end - 40_000);
    }

    #[test]
    fn small_zones_are_not_compacted_all_the_time() {
        let mut ledger = Ledger::of_snapshot(1, 10);
        ledger.append(&[(0, Kind::Delta)], MIN_COMPACTED_BYTES);
        assert!(!ledger.is_long());
        ledger.append(&[(0, Kind::Delta)], 1);
        assert!(ledger.is_long());
    }
}
