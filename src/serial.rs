//! Serial numbers of zones (RFC 1982) and the serial of a region.
//!
//! `Serial` has no `Ord`: serial space is a circle, so only "newer than" is meaningful. At a distance of exactly
//! 2^31 neither serial is newer (RFC 1982 section 3.2); callers treat that as "transfer in full".

use std::fmt;

/// A zone's serial number (RFC 1035 section 3.3.13).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize)]
#[serde(transparent)]
pub struct Serial(pub u32);

impl Serial {
    /// Whether `self` is newer than `other` in serial arithmetic (RFC 1982 section 3.2).
    pub fn newer_than(self, other: Serial) -> bool {
        let distance = self.0.wrapping_sub(other.0);
        distance != 0 && distance < 1 << 31
    }

    /// Whether neither serial is newer although they differ.
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

/// The serial every replica with the same member versions publishes: the sum, modulo 2^32.
pub fn region_sum(offset: u32, members: impl IntoIterator<Item = Serial>) -> Serial {
    members.into_iter().fold(Serial(offset), |sum, member| sum.advance(member.0))
}

/// The serial to publish and its drift over the sum.
///
/// `sum` itself when it is newer than what was published last; otherwise the smallest serial that is.
/// The drift returns to zero as soon as the sum alone is newer again.
pub fn region_serial(sum: Serial, last: Option<Serial>) -> (Serial, u32) {
    match last {
        Some(last) if !sum.newer_than(last) => {
            let serial = last.advance(1);
            (serial, serial.0.wrapping_sub(sum.0))
        }
        _ => (sum, 0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn comparison_follows_rfc_1982() {
        assert!(Serial(1).newer_than(Serial(0)));
        assert!(Serial(0).newer_than(Serial(u32::MAX)));
        assert!(!Serial(7).newer_than(Serial(7)));
        assert!(!Serial(1 << 31).newer_than(Serial(0)));
        assert!(!Serial(0).newer_than(Serial(1 << 31)));
        assert!(Serial(0).undefined_against(Serial(1 << 31)));
    }

    proptest! {
        #[test]
        fn a_region_serial_always_rises(last: u32, sum: u32) {
            let (serial, drift) = region_serial(Serial(sum), Some(Serial(last)));
            prop_assert!(serial.newer_than(Serial(last)));
            prop_assert_eq!(serial, Serial(sum).advance(drift));
        }

        #[test]
        fn the_sum_does_not_depend_on_order(offset: u32, mut members: Vec<u32>) {
            let forward = region_sum(offset, members.iter().map(|s| Serial(*s)));
            members.reverse();
            prop_assert_eq!(forward, region_sum(offset, members.into_iter().map(Serial)));
        }
    }
}
