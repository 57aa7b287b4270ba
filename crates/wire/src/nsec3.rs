//! NSEC3: hashes of names, by which a signed zone proves that it has no name without telling those that it has.
//!
//! Cost: O(iterations × octets) for a hash. Nothing is allocated.
//!
//! RFCs: 5155 (NSEC3), 4648 section 7 (base 32 with the extended hex alphabet).

use data_encoding::BASE32HEX_NOPAD;
use sha1::{Digest, Sha1};

/// The one hash algorithm that there is (RFC 5155 section 11): SHA-1.
const SHA1: u8 = 1;
/// The most iterations that RFC 5155 section 10.3 allows, for the longest keys. Validators take no such zone for secure.
pub const MOST_ITERATIONS: u16 = 2500;
/// Octets of a hash, and of the label that it makes.
const HASH_BYTES: usize = 20;
const LABEL_BYTES: usize = 32;

/// The parameters by which names are hashed (RFC 5155 section 4): iterations and salt, as NSEC3PARAM and NSEC3 records have
/// them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parameters {
    iterations: u16,
    salt: Box<[u8]>,
}

/// The label of a hashed name, with its length in front.
pub type HashLabel = [u8; 1 + LABEL_BYTES];

impl Parameters {
    /// Reads the parameters of an NSEC3PARAM record that a server may use: of a known algorithm and without flags (RFC 5155
    /// section 4.1.2).
    pub fn read(rdata: &[u8]) -> Option<Parameters> {
        let ([algorithm, flags, high, low, length], rest) = rdata.split_first_chunk()?;
        let salt = rest.get(..usize::from(*length))?;
        let is_usable = (*algorithm, *flags) == (SHA1, 0);
        is_usable.then(|| Parameters { iterations: u16::from_be_bytes([*high, *low]), salt: salt.into() })
    }

    /// Number of times that a hash is hashed again.
    pub fn iterations(&self) -> u16 {
        self.iterations
    }

    /// Returns true if an NSEC3 record is of the chain with these parameters.
    pub fn are_of(&self, rdata: &[u8]) -> bool {
        let Some(([algorithm, _, high, low, length], rest)) = rdata.split_first_chunk() else { return false };
        *algorithm == SHA1
            && u16::from_be_bytes([*high, *low]) == self.iterations
            && rest.get(..usize::from(*length)) == Some(&*self.salt)
    }

    /// Hashes a name in lowercase wire form; returns the first label of the NSEC3 record that would match it (RFC 5155
    /// section 5).
    pub fn hash(&self, wire: &[u8]) -> HashLabel {
        let once = |octets: &[u8]| -> [u8; HASH_BYTES] {
            Sha1::new().chain_update(octets).chain_update(&self.salt).finalize().into()
        };
        let hash = (0..self.iterations).fold(once(wire), |hash, _| once(&hash));
        let mut label = [LABEL_BYTES as u8; 1 + LABEL_BYTES];
        BASE32HEX_NOPAD.encode_mut(&hash, &mut label[1..]);
        label.make_ascii_lowercase();
        label
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::name::Name;

    /// RFC 5155 appendix A.
    #[test]
    fn names_hash_as_in_the_example_of_the_rfc() {
        let parameters = Parameters::read(b"\x01\0\0\x0c\x04\xaa\xbb\xcc\xdd").unwrap();
        for (name, hash) in [
            ("example", "0p9mhaveqvm6t7vbl5lop2u3t2rp3tom"),
            ("a.example", "35mthgpgcu1qg68fab165klnsnk3dpvl"),
            ("ai.example", "gjeqe526plbf1g8mklp59enfd789njgi"),
            ("*.w.example", "r53bq7cc2uvmubfu5ocmm6pers9tk9en"),
        ] {
            let label = parameters.hash(Name::parse(name).unwrap().as_wire());
            assert_eq!((label[0], std::str::from_utf8(&label[1..]).unwrap()), (32, hash));
        }
        assert!(parameters.are_of(b"\x01\x01\0\x0c\x04\xaa\xbb\xcc\xdd\x14and more"));
        assert!(!parameters.are_of(b"\x01\x01\0\x0c\x04\xaa\xbb\xcc\xde\x14") && !parameters.are_of(b"\x01\0"));
        assert_eq!(Parameters::read(b"\x01\x01\0\0\0"), None);
        assert_eq!(Parameters::read(b"\x02\0\0\0\0"), None);
    }
}
