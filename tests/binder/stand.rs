//! Whoever can be asked Binder's questions.

use super::cases::Step;

/// A server over a tree that can change.
pub trait Stand {
    /// Asks, and returns the answer if one comes.
    fn ask(&mut self, request: &[u8], tcp: bool) -> Option<Vec<u8>>;

    /// Makes a change; questions afterwards see it.
    fn make(&mut self, step: &Step);
}
