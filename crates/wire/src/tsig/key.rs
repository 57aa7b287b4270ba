//! Keys, their algorithms (RFC 8945 section 6), and MACs in the making.
//!
//! Invariant: the secret of a key leaves it only into a MAC, and is erased from memory with it. Cost: O(bytes) that are signed.

use crate::name::Name;
use hmac::{Hmac, KeyInit, Mac as _};
use md5::Md5;
use sha1::Sha1;
use sha2::{Sha256, Sha384, Sha512};
use std::collections::HashMap;
use std::fmt;
use std::ops::Deref;
use std::str::FromStr;
use std::sync::Arc;
use zeroize::Zeroizing;

/// The longest MAC, that of HMAC-SHA-512.
const MAX_TAG_BYTES: usize = 64;
/// Least octets of a MAC that was cut (RFC 8945 section 5.2.2.1).
const MIN_TAG_BYTES: usize = 10;

/// Keys by name.
pub type Keyring = HashMap<Name, Arc<Key>>;

//--- Algorithm ---

/// Algorithm that makes the MACs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Algorithm {
    Md5,
    Sha1,
    Sha256,
    Sha384,
    Sha512,
}

/// A text that names no algorithm.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no TSIG algorithm; there are hmac-sha256, hmac-sha384, hmac-sha512, and for old clients hmac-sha1, hmac-md5")]
pub struct UnknownAlgorithm;

impl Algorithm {
    /// All algorithms, weakest first.
    pub const ALL: [Algorithm; 5] =
        [Algorithm::Md5, Algorithm::Sha1, Algorithm::Sha256, Algorithm::Sha384, Algorithm::Sha512];

    /// Returns true if RFC 8945 section 6 advises against the algorithm: such keys are for requests of old clients, if
    /// for anything.
    pub fn is_legacy(self) -> bool {
        matches!(self, Algorithm::Md5 | Algorithm::Sha1)
    }

    /// The name in configurations, that in messages in canonical form, and the octets of a MAC that is not truncated.
    fn facts(self) -> (&'static str, &'static [u8], usize) {
        match self {
            Algorithm::Md5 => ("hmac-md5", b"\x08hmac-md5\x07sig-alg\x03reg\x03int\x00", 16),
            Algorithm::Sha1 => ("hmac-sha1", b"\x09hmac-sha1\x00", 20),
            Algorithm::Sha256 => ("hmac-sha256", b"\x0bhmac-sha256\x00", 32),
            Algorithm::Sha384 => ("hmac-sha384", b"\x0bhmac-sha384\x00", 48),
            Algorithm::Sha512 => ("hmac-sha512", b"\x0bhmac-sha512\x00", 64),
        }
    }

    /// The name in messages, in canonical form.
    pub(super) fn wire(self) -> &'static [u8] {
        self.facts().1
    }

    /// Octets of a MAC that is not truncated.
    pub(super) fn tag_bytes(self) -> usize {
        self.facts().2
    }

    /// Returns true if a received MAC may have this many octets: at least 10 and half of all (RFC 8945 section
    /// 5.2.2.1).
    pub(super) fn allows_tag(self, bytes: usize) -> bool {
        let whole = self.tag_bytes();
        (MIN_TAG_BYTES.max(whole / 2)..=whole).contains(&bytes)
    }
}

impl FromStr for Algorithm {
    type Err = UnknownAlgorithm;

    fn from_str(text: &str) -> Result<Algorithm, UnknownAlgorithm> {
        // The registered name of HMAC-MD5 is a long one, which some tools want and print.
        let text = text.strip_suffix(".sig-alg.reg.int").unwrap_or(text);
        Algorithm::ALL
            .into_iter()
            .find(|algorithm| algorithm.facts().0.eq_ignore_ascii_case(text))
            .ok_or(UnknownAlgorithm)
    }
}

impl fmt::Display for Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.facts().0)
    }
}

//--- Key ---

/// A secret that two servers share, and the name by which they call it.
#[derive(Clone, PartialEq, Eq)]
pub struct Key {
    pub name: Name,
    pub algorithm: Algorithm,
    secret: Zeroizing<Vec<u8>>,
}

impl Key {
    /// Takes a secret as octets, without base64.
    pub fn new(name: Name, algorithm: Algorithm, secret: Vec<u8>) -> Key {
        Key { name, algorithm, secret: Zeroizing::new(secret) }
    }

    /// Starts a MAC.
    pub(super) fn begin(&self) -> Mac {
        const ANY_LENGTH: &str = "HMAC takes secrets of any length";
        match self.algorithm {
            Algorithm::Md5 => Mac::Md5(Hmac::new_from_slice(&self.secret).expect(ANY_LENGTH)),
            Algorithm::Sha1 => Mac::Sha1(Hmac::new_from_slice(&self.secret).expect(ANY_LENGTH)),
            Algorithm::Sha256 => Mac::Sha256(Hmac::new_from_slice(&self.secret).expect(ANY_LENGTH)),
            Algorithm::Sha384 => Mac::Sha384(Hmac::new_from_slice(&self.secret).expect(ANY_LENGTH)),
            Algorithm::Sha512 => Mac::Sha512(Hmac::new_from_slice(&self.secret).expect(ANY_LENGTH)),
        }
    }
}

impl fmt::Debug for Key {
    /// Writes everything but the secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Key").field("name", &self.name).field("algorithm", &self.algorithm).finish_non_exhaustive()
    }
}

//--- Mac ---

/// A MAC in the making.
#[derive(Clone)]
pub(super) enum Mac {
    Md5(Hmac<Md5>),
    Sha1(Hmac<Sha1>),
    Sha256(Hmac<Sha256>),
    Sha384(Hmac<Sha384>),
    Sha512(Hmac<Sha512>),
}

/// The same expression for the MAC of any algorithm.
macro_rules! for_any {
    ($mac:expr, $inner:ident => $body:expr) => {
        match $mac {
            Mac::Md5($inner) => $body,
            Mac::Sha1($inner) => $body,
            Mac::Sha256($inner) => $body,
            Mac::Sha384($inner) => $body,
            Mac::Sha512($inner) => $body,
        }
    };
}

impl Mac {
    /// Takes more of what is signed.
    pub fn update(&mut self, bytes: &[u8]) {
        for_any!(self, mac => mac.update(bytes));
    }

    /// Ends with the MAC itself.
    pub fn finish(self) -> Tag {
        for_any!(self, mac => Tag::new(&mac.finalize().into_bytes()))
    }

    /// Compares, in constant time, with a received MAC of allowed length.
    pub fn verify(self, tag: &[u8]) -> bool {
        for_any!(self, mac => mac.verify_truncated_left(tag).is_ok())
    }
}

/// A finished MAC, perhaps a truncated one.
#[derive(Clone, Copy)]
pub(super) struct Tag {
    bytes: [u8; MAX_TAG_BYTES],
    length: u8,
}

impl Tag {
    /// Copies a MAC of at most 64 octets.
    pub fn new(tag: &[u8]) -> Tag {
        let mut bytes = [0; MAX_TAG_BYTES];
        bytes[..tag.len()].copy_from_slice(tag);
        Tag { bytes, length: tag.len() as u8 }
    }
}

impl Deref for Tag {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes[..usize::from(self.length)]
    }
}
