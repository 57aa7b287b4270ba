//! Whoever can be asked Binder's questions.

use super::cases::Step;
use std::time::Duration;

/// A server over a tree that can change.
pub trait Stand {
    /// Asks, and returns the answer if one comes; when none is due, not much time is spent on waiting for it.
    fn ask(&mut self, request: &[u8], tcp: bool, due: bool) -> Option<Vec<u8>>;

    /// Makes a change; questions afterwards see it.
    fn make(&mut self, step: &Step);

    /// Returns the longest time that an answer may be wrong because a change is on its way.
    fn patience(&self) -> Duration;

    /// Returns true if clients with a cookie get one of the server's.
    fn has_cookies(&self) -> bool;

    /// Returns true if the server still runs.
    fn is_alive(&mut self) -> bool;
}
