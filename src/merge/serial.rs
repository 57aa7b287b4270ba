//! The serial of a region: the sum of its members' serials, and the way to it where the sum is not newer.
//!
//! Cost: O(members).

use wire::serial::Serial;

/// The serial every replica with the same member versions publishes: the sum, modulo 2^32.
pub fn region_sum(offset: u32, members: impl IntoIterator<Item = Serial>) -> Serial {
    members.into_iter().fold(Serial(offset), |sum, member| sum.advance(member.0))
}

/// Half of the serial space less one: the longest way that still leads forward (RFC 1982 section 3.1).
pub const LONGEST_STEP: u32 = (1 << 31) - 1;

/// Returns true if serials that all stood still or moved forward have together moved by more than one step may: their
/// sum then looks older than it is, and leads to its place in two steps.
///
/// A member of which only one serial is known does not move the sum forward but makes another sum of it.
pub fn is_long_way(before: &[Option<Serial>], after: &[Option<Serial>]) -> bool {
    let moves = before.iter().zip(after).map(|pair| match pair {
        (Some(before), Some(after)) if after == before || after.newer_than(*before) => {
            Some(u64::from(after.0.wrapping_sub(before.0)))
        }
        (None, None) => Some(0),
        _ => None,
    });
    before.len() == after.len()
        && moves.sum::<Option<u64>>().is_some_and(|way| way > LONGEST_STEP.into() && way < 2 * u64::from(LONGEST_STEP))
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
    fn a_long_way_is_told_from_a_way_back() {
        let some = |serials: &[u32]| serials.iter().map(|serial| Some(Serial(*serial))).collect::<Vec<_>>();
        let far = 1 << 30;
        assert!(is_long_way(&some(&[0, 0]), &some(&[far, far])));
        assert!(!is_long_way(&some(&[0, 0]), &some(&[far, far - 1])), "one step will do");
        assert!(!is_long_way(&some(&[0, 5]), &some(&[far, 4])), "one went back");
        assert!(!is_long_way(&[Some(Serial(0)), None], &some(&[far, far])), "one is new");
        assert!(!is_long_way(&some(&[0; 4]), &some(&[far; 4])), "all around the circle");
    }

    proptest! {
        #[test]
        fn a_region_serial_always_rises(last: u32, sum: u32) {
            let (serial, drift) = region_serial(Serial(sum), Some(Serial(last)));
            prop_assert!(serial.newer_than(Serial(last)));
            prop_assert_eq!(serial, Serial(sum).advance(drift));
        }

        /// After the longest step, the sum that is too far away for one is newer.
        #[test]
        fn a_long_way_is_two_steps(before: Vec<u32>, moves: Vec<u32>) {
            let before: Vec<_> = before.into_iter().map(Serial).collect();
            let after: Vec<_> = before.iter().enumerate()
                .map(|(index, serial)| serial.advance(moves.get(index).map_or(0, |way| way % (1 << 31)))).collect();
            let some = |serials: &[Serial]| serials.iter().copied().map(Some).collect::<Vec<_>>();
            let (last, sum) = (region_sum(0, before.clone()), region_sum(0, after.clone()));
            if is_long_way(&some(&before), &some(&after)) {
                prop_assert!(!sum.newer_than(last));
                let middle = last.advance(LONGEST_STEP);
                prop_assert!(middle.newer_than(last) && sum.newer_than(middle));
            }
        }

        #[test]
        fn the_sum_does_not_depend_on_order(offset: u32, mut members: Vec<u32>) {
            let forward = region_sum(offset, members.iter().map(|s| Serial(*s)));
            members.reverse();
            prop_assert_eq!(forward, region_sum(offset, members.into_iter().map(Serial)));
        }
    }
}
