//! Serial numbers of zones (RFC 1982).
//!
//! `Serial` has no `Ord`: serial space is a circle, so only "newer than" is meaningful. At a distance of exactly
//! 2^31 neither serial is newer (RFC 1982 section 3.2); callers treat that as "transfer in full".

use std::fmt;

/// A serial number of a zone (RFC 1035 section 3.3.13); newer and older as RFC 1982 says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize, schemars::JsonSchema)]
#[serde(transparent)]
#[schemars(extend("maximum" = u32::MAX))]
pub struct Serial(pub u32);

impl Serial {
    /// Returns true if `self` is newer than `other` in serial arithmetic (RFC 1982 section 3.2).
    pub fn newer_than(self, other: Serial) -> bool {
        let distance = self.0.wrapping_sub(other.0);
        distance != 0 && distance < 1 << 31
    }

    /// Returns true if neither serial is newer although they differ.
    pub fn undefined_against(self, other: Serial) -> bool {
        self.0.wrapping_sub(other.0) == 1 << 31
    }

    /// Moves forward by `steps`.
    pub fn advance(self, steps: u32) -> Serial {
        Serial(self.0.wrapping_add(steps))
    }
}

impl fmt::Display for Serial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comparison_follows_rfc_1982() {
        assert!(Serial(1).newer_than(Serial(0)));
        assert!(Serial(0).newer_than(Serial(u32::MAX)));
        assert!(!Serial(7).newer_than(Serial(7)));
        assert!(!Serial(1 << 31).newer_than(Serial(0)));
        assert!(!Serial(0).newer_than(Serial(1 << 31)));
        assert!(Serial(0).undefined_against(Serial(1 << 31)));
    }
}
