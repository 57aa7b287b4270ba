//! Work on large zones, divided among threads.
//!
//! The caller's thread does its part and waits for the others, which end before it goes on. A system that gives no
//! thread costs time and nothing else.
//!
//! Cost: a thread costs some tens of microseconds.

use std::num::NonZero;
use std::ops::Range;
use std::sync::{Mutex, PoisonError};
use std::thread;

/// Query threads need processors, too.
const MOST_THREADS: usize = 4;

/// The number of parts that work is divided into: one for less than what is worth it.
pub fn parts(work: usize, worth: usize) -> usize {
    if work < worth { 1 } else { thread::available_parallelism().map_or(1, NonZero::get).min(MOST_THREADS) }
}

/// Does the work on ranges that together are `0..count`; what comes of them is in their order.
pub fn in_parts<T: Send>(count: usize, parts: usize, work: impl Fn(Range<usize>) -> T + Sync) -> Vec<T> {
    let do_part = |part: usize| work(count * part / parts..count * (part + 1) / parts);
    thread::scope(|scope| {
        let start = |part: usize| {
            let run = move || do_part(part);
            thread::Builder::new().name("zone-part".into()).spawn_scoped(scope, run).map_err(|_| part)
        };
        let others: Vec<_> = (1..parts).map(start).collect();
        let first = do_part(0);
        let rest = others.into_iter().map(|other| match other {
            Ok(thread) => thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
            Err(part) => do_part(part),
        });
        std::iter::once(first).chain(rest).collect()
    })
}

/// Does the work on each item.
pub fn each<T: Send>(items: &mut [T], parts: usize, work: impl Fn(&mut T) + Sync) {
    let size = items.len().div_ceil(parts).max(1);
    let items: Vec<Mutex<&mut [T]>> = items.chunks_mut(size).map(Mutex::new).collect();
    in_parts(items.len(), parts.min(items.len()).max(1), |range| {
        for chunk in &items[range] {
            // Each is taken once, so nobody has panicked with it before.
            chunk.lock().unwrap_or_else(PoisonError::into_inner).iter_mut().for_each(&work);
        }
    });
}

/// Does the second work in another thread while this one does the first.
pub fn both<T, U: Send>(first: impl FnOnce() -> T, second: impl Fn() -> U + Sync) -> (T, U) {
    thread::scope(|scope| {
        let other = thread::Builder::new().name("zone-part".into()).spawn_scoped(scope, &second);
        let first = first();
        let second = match other {
            Ok(thread) => thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
            Err(_) => second(),
        };
        (first, second)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_everything_in_order() {
        for (count, parts) in [(0, 1), (10, 1), (10, 3), (2, 4)] {
            let ranges = in_parts(count, parts, |range| range.collect::<Vec<_>>());
            assert_eq!(ranges.len(), parts);
            assert_eq!(ranges.concat(), (0..count).collect::<Vec<_>>());
        }
        assert_eq!(parts(9, 10), 1);
        for (count, parts) in [(0, 2), (1, 2), (5, 2), (5, 1)] {
            let mut numbers: Vec<usize> = (0..count).collect();
            each(&mut numbers, parts, |number| *number += 1);
            assert_eq!(numbers, (1..=count).collect::<Vec<_>>());
        }
        assert_eq!(both(|| 1, || 2), (1, 2));
    }
}
