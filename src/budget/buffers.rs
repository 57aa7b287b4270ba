//! Octets that wait for the disk, counted where they are held.
//!
//! Invariant: what is counted ends with the value that counts it. Cost: one atomic addition for each change.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The sum of all buffers, which everybody shares.
#[derive(Clone, Debug, Default)]
pub struct Buffers(Arc<AtomicU64>);

impl Buffers {
    /// Octets of all buffers.
    pub fn octets(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    /// Counts a buffer of so many octets.
    pub fn hold(&self, octets: usize) -> Buffered {
        let mut buffered = Buffered { sum: self.clone(), octets: 0 };
        buffered.set(octets);
        buffered
    }
}

/// A buffer that counts until this is dropped.
#[derive(Debug)]
pub struct Buffered {
    sum: Buffers,
    octets: u64,
}

impl Buffered {
    /// Counts the buffer as it is now.
    pub fn set(&mut self, octets: usize) {
        let before = std::mem::replace(&mut self.octets, octets as u64);
        // A difference below zero wraps, and so does the sum, back to what it is.
        self.sum.0.fetch_add(self.octets.wrapping_sub(before), Ordering::Relaxed);
    }
}

impl Drop for Buffered {
    fn drop(&mut self) {
        self.set(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_count_while_they_are_held() {
        let buffers = Buffers::default();
        let (mut one, other) = (buffers.hold(100), buffers.hold(10));
        assert_eq!(buffers.octets(), 110);
        one.set(30);
        assert_eq!(buffers.octets(), 40);
        drop(one);
        assert_eq!(buffers.octets(), 10);
        drop(other);
        assert_eq!(buffers.octets(), 0);
    }
}
