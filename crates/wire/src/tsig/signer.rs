//! The signatures of a response, message by message (RFC 8945 section 5.3).
//!
//! Invariant: each MAC covers the one before, the first that of the request.
//!
//! Cost: O(octets) of hashing for each message.

use super::key::{Key, Tag};
use super::record::{self, Coverage, Stamp, digest_prior};
use super::{FUDGE_SECONDS, code};
use crate::name::Name;
use std::sync::Arc;

/// Signs the response to one request, message by message.
#[derive(Clone)]
pub struct Signer {
    pub(super) key: Arc<Key>,
    /// The MAC of the request, then that of the last message.
    pub(super) prior: Tag,
    pub(super) original_id: u16,
    pub(super) coverage: Coverage,
}

impl Signer {
    /// The name of the key that signed the request.
    pub fn key(&self) -> &Name {
        &self.key.name
    }

    /// Number of octets to leave free behind a message.
    pub fn overhead(&self) -> usize {
        record::overhead(&self.key)
    }

    /// Appends a TSIG record to the message at the front of a buffer and returns the new length. `None`, with nothing
    /// done, when there is no room for it. Every message of a longer response is to be signed (RFC 8945 section 5.3.1).
    pub fn sign(&mut self, buffer: &mut [u8], length: usize, now: u64) -> Option<usize> {
        let stamp =
            Stamp { time: now, fudge: FUDGE_SECONDS, original_id: self.original_id, error: code::NOERROR, other: &[] };
        self.seal(buffer, length, &stamp)
    }

    /// Signs with these fields in the record.
    pub(super) fn seal(&mut self, buffer: &mut [u8], length: usize, stamp: &Stamp) -> Option<usize> {
        let mut mac = self.key.begin();
        digest_prior(&mut mac, &self.prior);
        let (end, tag) = record::seal(&self.key, mac, (buffer, length), stamp, self.coverage)?;
        self.prior = tag;
        self.coverage = Coverage::Timers;
        Some(end)
    }
}
