//! Transaction signatures, TSIG (RFC 8945): requests and responses that only a holder of the key can have written.
//!
//! Pure: no sockets, and the time is the caller's, in seconds since 1970. [`sign_request`] and [`Chain`] are the side
//! that asks, [`open_request`], [`Signer`] and [`Rejection`] the side that answers.
//!
//! Invariants: what has been checked no longer holds its TSIG record, so that everything behind reads a message as if
//! there were no signatures; a refused message is left as it came; secrets never appear in logs; MACs are compared
//! in constant time.
//!
//! A message costs the skipping of its records; a signed one O(bytes) of hashing.
//! Nothing remembers the times of earlier requests of a key: section 5.2.3 recommends that for order, but datagrams
//! overtake each other, and no request here changes anything that a repetition would spoil.

mod client;
mod key;
mod record;
mod rejection;
mod server;
mod signer;
#[cfg(test)]
mod tests;

pub use client::{Chain, sign_request};
pub use key::{Algorithm, Key, Keyring, UnknownAlgorithm};
pub use rejection::Rejection;
pub use server::{Opened, open_request};
pub use signer::Signer;

/// Largest difference allowed between two clocks, in seconds (recommended by RFC 8945 section 10).
const FUDGE_SECONDS: u16 = 300;
/// Values of the error field (RFC 8945 section 3).
mod code {
    pub const NOERROR: u16 = 0;
    pub const BADSIG: u16 = 16;
    pub const BADKEY: u16 = 17;
    pub const BADTIME: u16 = 18;
    pub const BADTRUNC: u16 = 22;
}

/// Reason for which a message was not accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TsigError {
    #[error("TSIG record is malformed or not the one last record of the message")]
    Malformed,
    #[error("MAC has {0} octets, which its algorithm does not allow")]
    MacSize(usize),
    #[error("signed with a key or an algorithm that is not configured here")]
    UnknownKey,
    #[error("signed with another key or algorithm than the request")]
    OtherKey,
    #[error("MAC is wrong: the secrets differ, or the message was changed on its way")]
    BadSignature,
    #[error("signed at {signed} and read at {now} (seconds since 1970): the clocks differ by more than {fudge} s")]
    BadTime { signed: u64, now: u64, fudge: u16 },
    #[error("response without signature (response code {rcode})")]
    Unsigned { rcode: u16 },
    #[error("more than 99 messages in a row without signature")]
    TooManyUnsigned,
    #[error("the last message was not signed")]
    UnsignedEnd,
    #[error("the peer does not know the key or its algorithm (BADKEY)")]
    PeerBadKey,
    #[error("the peer found the MAC wrong, so its secret differs (BADSIG)")]
    PeerBadSignature,
    #[error("the peer found the time wrong (BADTIME); it is {now} there, in seconds since 1970")]
    PeerBadTime { now: u64 },
    #[error("the peer wants longer MACs (BADTRUNC)")]
    PeerBadTruncation,
    #[error("the peer reports TSIG error {0}")]
    PeerOther(u16),
}

impl TsigError {
    /// The metric label.
    pub fn reason(&self) -> &'static str {
        match self {
            TsigError::Malformed => "malformed",
            TsigError::MacSize(_) => "mac_size",
            TsigError::UnknownKey => "unknown_key",
            TsigError::OtherKey => "other_key",
            TsigError::BadSignature => "bad_signature",
            TsigError::BadTime { .. } => "bad_time",
            TsigError::Unsigned { .. } | TsigError::TooManyUnsigned | TsigError::UnsignedEnd => "unsigned",
            TsigError::PeerBadKey => "peer_bad_key",
            TsigError::PeerBadSignature => "peer_bad_signature",
            TsigError::PeerBadTime { .. } => "peer_bad_time",
            TsigError::PeerBadTruncation => "peer_bad_truncation",
            TsigError::PeerOther(_) => "peer_other",
        }
    }
}
