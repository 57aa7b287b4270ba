//! Networks over their limit, from the first answer that was until none was for a while: a log line at the beginning and
//! one at the end, and a list for those who look.
//!
//! Invariants: at most [`MOST`] networks are listed and [`LINES`] lines written in a minute, however many addresses a flood
//! has; the rest is told as a number. Nobody waits for the lock on the way of an answer. Cost: O(networks listed) for the
//! first answer over the limit of a network, and once a second.

use super::{Class, Mode, RateLimitPlan};
use crate::acl::Prefix;
use parking_lot::Mutex;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Nanoseconds without an answer over the limit after which an episode is over.
pub const QUIET: u64 = 10_000_000_000;
/// Nanoseconds after which the time of the last one is written again: threads share the line it stands in.
pub const STEP: u64 = 100_000_000;
/// Networks that are listed at once.
const MOST: usize = 64;
/// Log lines in a minute; the minute, in nanoseconds.
const LINES: u32 = 20;
const MINUTE: u64 = 60_000_000_000;

/// What became of the beginning of an episode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Began {
    Now,
    /// It goes on.
    Before,
    /// Somebody else holds the list: the next answer begins it.
    Later,
}

/// A network over its limit.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, schemars::JsonSchema)]
pub struct Episode {
    /// The network.
    pub network: String,
    /// Class of the first answer that was over the limit.
    pub class: &'static str,
    /// When that was, Unix time.
    pub since: i64,
    /// Answers over the limit since then, of all classes.
    pub limited: u64,
}

/// All that go on.
#[derive(Default)]
pub struct Episodes(Mutex<State>);

#[derive(Default)]
struct State {
    open: Vec<Open>,
    lines: Lines,
}

/// An episode that goes on.
struct Open {
    index: usize,
    network: Prefix,
    class: Class,
    began: u64,
    since: i64,
}

/// Log lines of this minute.
#[derive(Default)]
struct Lines {
    began: u64,
    written: u32,
    held_back: u64,
}

impl Lines {
    /// Takes a line, and tells how many were held back before it; none if it is to be held back, too.
    fn take(&mut self, now: u64) -> Option<u64> {
        if self.written == 0 || now.saturating_sub(self.began) > MINUTE {
            (self.began, self.written) = (now, 0);
        }
        if self.written >= LINES {
            self.held_back += 1;
            return None;
        }
        self.written += 1;
        Some(std::mem::take(&mut self.held_back))
    }
}

impl Episodes {
    /// Begins an episode of a line of buckets.
    pub(super) fn begin(
        &self,
        index: usize,
        (network, class): (Prefix, Class),
        limit: &RateLimitPlan,
        now: u64,
    ) -> Began {
        let Some(mut state) = self.0.try_lock() else { return Began::Later };
        if state.open.iter().any(|open| open.index == index) {
            return Began::Before;
        }
        if state.open.len() < MOST {
            let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
            let since = i64::try_from(since).unwrap_or_default();
            state.open.push(Open { index, network, class, began: now, since });
        }
        if let Some(held_back) = state.lines.take(now) {
            let rate = limit.responses_per_second;
            let advice = "if it is an honest resolver, add it to exempt in [rate_limit]";
            match limit.mode {
                Mode::On if class == Class::Connection => {
                    tracing::warn!(%network, class = class.label(), rate, held_back, advice, "connections over the rate limit are reset");
                }
                Mode::Log => {
                    tracing::warn!(%network, class = class.label(), rate, held_back, advice, "answers over the rate limit, sent all the same");
                }
                Mode::On | Mode::Off => {
                    tracing::warn!(%network, class = class.label(), rate, held_back, advice, "answers over the rate limit are cut");
                }
            }
        }
        Began::Now
    }

    /// Ends what is over; `state` has the time of the last answer over the limit of a line, and their number. Returns
    /// how many go on.
    pub(super) fn end(&self, now: u64, state: impl Fn(usize) -> (u64, u64)) -> usize {
        let mut guard = self.0.lock();
        let State { open, lines } = &mut *guard;
        open.retain(|episode| {
            let (last, limited) = state(episode.index);
            if now.saturating_sub(last) <= QUIET {
                return true;
            }
            if let Some(held_back) = lines.take(now) {
                let (network, class) = (episode.network, episode.class.label());
                let seconds = Duration::from_nanos(last.saturating_sub(episode.began)).as_secs();
                tracing::info!(%network, class, limited, seconds, held_back, "answers are within the rate limit again");
            }
            false
        });
        open.len()
    }

    /// Lists what goes on, the most answers first; `limited` has the number of them of a line.
    pub(super) fn list(&self, limited: impl Fn(usize) -> u64) -> Vec<Episode> {
        let episode = |open: &Open| Episode {
            network: open.network.to_string(),
            class: open.class.label(),
            since: open.since,
            limited: limited(open.index),
        };
        let mut all: Vec<Episode> = self.0.lock().open.iter().map(episode).collect();
        all.sort_by_key(|episode| std::cmp::Reverse(episode.limited));
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_few_and_tell_of_those_that_are_not_there() {
        let mut lines = Lines::default();
        let taken =
            |lines: &mut Lines, from: u64, count: u64| (0..count).filter_map(|_| lines.take(from)).collect::<Vec<_>>();
        assert_eq!(taken(&mut lines, 5, 1000), [0; LINES as usize]);
        assert!(taken(&mut lines, 5 + MINUTE, 1).is_empty());
        assert_eq!(taken(&mut lines, 6 + MINUTE, 2), [1000 - u64::from(LINES) + 1, 0]);
    }
}
