//! The serial of a region: the sum of its members' serials, and the way to it where the sum is not newer.
//!
//! Every replica with the same versions of the members publishes the same serial, the sum. Clients follow a serial only
//! forward (RFC 1982), and no serial may stand for two contents, so the next one depends on what clients have seen:
//!
//! ```text
//!            remembered                 seen               emptied
//!   Unseen --------------> Remembered ---------> Served <-----------> Away
//!      |                                         ^ |  ^     made       ^
//!      +------------------ seen -----------------+ |  |                |
//!                                    hidden_behind |  | seen           | seen, without
//!                                  (from anywhere) v  |                | a draft
//!                                                 Behind --------------+
//! ```
//!
//! *Unseen*: nothing. *Remembered*: a version of an earlier run or of another server, of which only the serial is known.
//! *Served*: the version that is made. *Away*: that version, while no member gives anything. *Behind*: other contents
//! under another serial, those of a pin or of another server. A version that is made and not seen is a draft, and leaves
//! no trace in the next serial: the order in which members arrive does not matter.
//!
//! The distance of a version's serial from its sum:
//!
//! ```text
//!              the sum is not newer                the sum is newer
//!     on sum ------------------------> above --------------------------> on sum
//!
//!              it moved too far                    passed, after a pause
//!     on sum ------------------------> half way -----------------------> on sum
//! ```
//!
//! On disk is a serial with its drift, the serial minus the sum. The distance follows from that: a serial is half way
//! where the sum is newer.
//!
//! Invariants: a serial that is made is newer than what clients have seen, or the same and stands for the same contents.
//! One that is away or remembered comes again only for the same versions of the members, merged by the same plan.
//!
//! Cost: O(members).

use super::Members;
use crate::zone::{Soa, Zone};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};
use wire::serial::Serial;

/// Half of the serial space less one: the longest way that still leads forward (RFC 1982 section 3.1).
pub const LONGEST_STEP: u32 = (1 << 31) - 1;
/// Longest time that a serial stays half way to its sum.
const LONGEST_PAUSE: Duration = Duration::from_secs(3600);

/// The serial every replica with the same member versions publishes: the sum, modulo 2^32.
pub fn region_sum(offset: u32, members: impl IntoIterator<Item = Serial>) -> Serial {
    members.into_iter().fold(Serial(offset), |sum, member| sum.advance(member.0))
}

/// Returns the time in which every secondary sees a serial, by NOTIFY or by its timers.
pub(super) fn pause(soa: &Soa) -> Duration {
    Duration::from_secs(u64::from(soa.refresh) + u64::from(soa.retry)).min(LONGEST_PAUSE)
}

/// Returns true if serials that all stood still or moved forward have together moved by more than one step may: their
/// sum then looks older than it is, and leads to its place in two steps.
///
/// A member of which only one serial is known does not move the sum forward but makes another sum of it.
fn is_long_way(before: &[Option<Serial>], after: &[Option<Serial>]) -> bool {
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

/// The sum where it is newer than the last serial; else the smallest serial that is.
fn rise(last: Serial, sum: Serial) -> Serial {
    if sum.newer_than(last) { sum } else { last.advance(1) }
}

//--- Version ---

/// Versions of the members that a version of the region is made of, in the plan's order.
#[derive(Clone, Debug, Default)]
pub(super) struct Basis {
    serials: Vec<Option<Serial>>,
    zones: Vec<Weak<Zone>>,
}

impl Basis {
    /// Notes the members' versions.
    pub fn new(members: &Members) -> Basis {
        let zone = |member: &Option<Arc<Zone>>| member.as_ref().map(Arc::downgrade).unwrap_or_default();
        Basis {
            serials: members.iter().map(|member| Some(member.as_ref()?.soa.serial)).collect(),
            zones: members.iter().map(zone).collect(),
        }
    }

    /// The sum of the serials.
    pub fn sum(&self, offset: u32) -> Serial {
        region_sum(offset, self.serials.iter().copied().flatten())
    }

    /// Returns true if both are the same versions of the same members.
    ///
    /// Serials alone would not do: a member may have kept its own and changed. A version that is noted here keeps its
    /// place in memory to itself.
    fn is_same(&self, other: &Basis) -> bool {
        self.zones.len() == other.zones.len()
            && self.zones.iter().zip(&other.zones).all(|(one, other)| one.ptr_eq(other))
    }
}

/// Version of a region, as far as serials are concerned.
#[derive(Clone, Debug)]
struct Version {
    serial: Serial,
    /// The serial minus the sum.
    drift: u32,
    /// End of the pause, for a serial that is half way to the sum, which is too far ahead for one step.
    half_way_until: Option<Instant>,
    basis: Basis,
}

impl Version {
    /// Returns the next serial where this one was the last; while it is half way, it moves by one.
    fn next(&self, last: Serial, sum: Serial) -> Serial {
        if self.half_way_until.is_some() { last.advance(1) } else { rise(last, sum) }
    }
}

//--- Serial ---

/// What clients have seen.
#[derive(Clone, Debug, Default)]
enum Seen {
    #[default]
    Unseen,
    Remembered {
        last: Serial,
        /// The drift with which the serial may come again.
        drift: Option<u32>,
    },
    /// The version that is made, of which there is one.
    Served,
    Away(Version),
    Behind(Serial),
}

/// Serial of a region, and all that the next one depends on.
#[derive(Clone, Debug, Default)]
pub struct RegionSerial {
    seen: Seen,
    /// The version that is made; a draft unless it is served. None while no member gives anything.
    version: Option<Version>,
}

impl RegionSerial {
    /// The newest version, also if it is away.
    fn newest(&self) -> Option<&Version> {
        if let Seen::Away(version) = &self.seen { Some(version) } else { self.version.as_ref() }
    }

    /// Returns the drift: the serial of the newest version minus the sum, normally 0.
    pub fn drift(&self) -> u32 {
        self.newest().map_or(0, |version| version.drift)
    }

    /// Returns true if the present serial is half way to the sum.
    pub fn is_half_way(&self) -> bool {
        self.pause_end().is_some()
    }

    /// Time at which the serial goes on from half way.
    pub fn pause_end(&self) -> Option<Instant> {
        self.version.as_ref().and_then(|version| version.half_way_until)
    }

    /// Returns true if clients have had answers in this run of the program.
    pub fn was_served(&self) -> bool {
        matches!(self.seen, Seen::Served | Seen::Away(_) | Seen::Behind(_))
    }

    /// Returns true if a version whose contents are right has the right serial, too.
    fn stays(&self, sum: Serial) -> bool {
        let Some(Version { serial, drift, half_way_until, .. }) = &self.version else { return false };
        let is_behind = matches!(self.seen, Seen::Behind(shown) if !serial.newer_than(shown));
        let goes_on = half_way_until.is_none() && sum.newer_than(*serial);
        // The sum has not moved; or the members or `serial_offset` have made up for the drift.
        !is_behind && !goes_on && (*serial == sum.advance(*drift) || *serial == sum)
    }

    /// Returns the serial of the next version.
    fn next(&self, sum: Serial, basis: &Basis) -> Serial {
        match (&self.seen, &self.version) {
            (Seen::Unseen, _) | (Seen::Served, None) => sum,
            // Another run of the program with the same members' versions: the same serial, as on replicas that stayed.
            (Seen::Remembered { last, drift: Some(drift) }, _) if *last == sum.advance(*drift) => *last,
            (Seen::Remembered { last, .. }, _) | (Seen::Behind(last), None) => rise(*last, sum),
            (Seen::Behind(shown), Some(draft)) => draft.next(*shown, sum),
            (Seen::Served, Some(version)) if is_long_way(&version.basis.serials, &basis.serials) => {
                version.serial.advance(LONGEST_STEP)
            }
            // And so after a while.
            (Seen::Away(version), _) if version.basis.is_same(basis) => version.serial,
            (Seen::Served, Some(version)) | (Seen::Away(version), _) => version.next(version.serial, sum),
        }
    }

    //--- Events ---

    /// Clients have seen this serial before anything is served here; with its drift it may come again.
    pub fn remembered(&mut self, last: Serial, drift: Option<u32>) {
        debug_assert!(!self.was_served());
        self.seen = Seen::Remembered { last, drift };
    }

    /// The same versions of the members may make other contents from now on, so that no serial comes again.
    pub fn doubted(&mut self) {
        match (&mut self.seen, &mut self.version) {
            (Seen::Remembered { drift, .. }, _) => *drift = None,
            (Seen::Served, Some(version)) | (Seen::Away(version), _) => version.basis.zones.clear(),
            _ => {}
        }
    }

    /// Clients see something else under this serial, until they see the present version: every version from now on is
    /// newer than that.
    pub fn hidden_behind(&mut self, shown: Serial) {
        self.seen = Seen::Behind(shown);
    }

    /// Clients see the present version, behind which no later one may fall; nothing, if there is none.
    pub fn seen(&mut self) {
        if self.version.is_some() {
            self.seen = Seen::Served;
        } else if let Seen::Behind(serial) = self.seen {
            self.seen = Seen::Away(Version { serial, drift: 0, half_way_until: None, basis: Basis::default() });
        }
    }

    /// No member gives anything, so that there is no version.
    pub(super) fn emptied(&mut self) {
        if let Some(version) = self.version.take()
            && matches!(self.seen, Seen::Served)
        {
            self.seen = Seen::Away(version);
        }
    }

    /// Time has passed. Returns true if a pause half way is over, so that the next merge takes the serial to the sum.
    pub fn passed(&mut self, now: Instant) -> bool {
        let paused = self.version.as_mut().map(|version| &mut version.half_way_until);
        paused.is_some_and(|until| until.take_if(|until| *until <= now).is_some())
    }

    /// The members are merged. Returns the serial of the version that is to be made, or none if the present one stays:
    /// neither are its contents other ones nor is its serial wrong.
    pub(super) fn merged(&mut self, sum: Serial, basis: &Basis, is_other: bool) -> Option<Serial> {
        if is_other || !self.stays(sum) {
            return Some(self.next(sum, basis));
        }
        let version = self.version.as_mut()?;
        version.basis = basis.clone();
        if version.serial == sum {
            (version.drift, version.half_way_until) = (0, None);
        }
        None
    }

    /// A version is made. If it is half way to the sum, it stays there until `until`, or for what is left of its pause.
    pub(super) fn made(&mut self, serial: Serial, sum: Serial, basis: Basis, until: Instant) {
        let same = self.newest().filter(|version| version.serial == serial);
        let until = same.and_then(|version| version.half_way_until).unwrap_or(until);
        let half_way_until = sum.newer_than(serial).then_some(until);
        self.version = Some(Version { serial, drift: serial.0.wrapping_sub(sum.0), half_way_until, basis });
        if let Seen::Away(_) = self.seen {
            self.seen = Seen::Served;
        }
    }
}

#[cfg(test)]
mod tests;
