//! Regions as other servers have them: at a start, a region's serial goes on from the newest of theirs.
//!
//! The serial of a region follows from those of its members but for a drift, which is on disk. Where the disk has lost it,
//! or has an older one (a folder that had become read-only, or was restored from a copy), the serial would fall, and
//! secondaries would take no change until the sum has passed theirs. Other servers know it.
//!
//! What is heard before a region is first served is believed at once. What is heard later waits until each member has been
//! confirmed by its source: a replica that has newer members is ahead by right, and our sum is the same as soon as we have
//! them, too. Only what is ahead after that is a drift that was lost here. A pinned region waits until it is released: what
//! it is pinned to is older than what others have.
//!
//! While a member is missing or has expired, the sum lacks a whole serial, and what others have is far ahead of it or looks
//! older. So only with all members is it decided what to believe of that, and nothing is forgotten before.
//!
//! Invariants: a region follows others once for each start, or once more with members that were missing; never to more than
//! [`MOST_AHEAD`] above the sum; serials compare by RFC 1982.
//!
//! Cost: O(members) for each batch, as long as something waits.

use super::Keeper;
use super::fingerprint::NO_PLAN;
use super::regions::{Heard, KeptRegion};
use crate::merge::serial::region_sum;
use crate::zone::Cause;
use std::collections::HashMap;
use std::time::Instant;
use wire::name::Name;
use wire::serial::Serial;

/// How far the serial that another server has may be ahead of the sum.
const MOST_AHEAD: u32 = 1 << 16;

impl KeptRegion {
    /// The members' sum, and how far ahead of it the newest serial is that others have and that is believed. One that is
    /// further from the sum than any drift is not.
    fn heard_ahead(&self) -> (Serial, Option<u32>) {
        let members = self.intakes.iter().filter_map(|intake| Some(intake.zone()?.soa.serial));
        let sum = region_sum(self.region.plan.serial_offset, members);
        let heard = self.heard.iter().flat_map(|heard| &heard.serials);
        (sum, heard.map(|heard| heard.0.wrapping_sub(sum.0)).filter(|ahead| *ahead <= MOST_AHEAD).max())
    }

    /// Whether the sum has the serial of every member. A drained one gives its own as well, if it is there.
    fn is_whole(&self) -> bool {
        let given = self.intakes.iter().filter(|intake| intake.zone().is_some()).count();
        given == self.region.plan.members.len()
    }

    /// A serial of others that is newer than ours.
    pub fn newer_elsewhere(&self) -> Option<Serial> {
        let ours = self.served()?.soa.serial;
        let heard = self.heard.iter().flat_map(|heard| &heard.serials).copied();
        heard.filter(|heard| heard.newer_than(ours)).max_by_key(|heard| heard.0.wrapping_sub(ours.0))
    }
}

impl Keeper {
    /// Takes serials that other servers have of regions which are served already.
    pub(super) fn hear(&mut self, heard: HashMap<Name, Vec<Serial>>, at: Instant) {
        for (region, serials) in heard {
            if let Some(kept) = self.regions.get_mut(&region) {
                kept.heard = Some(Heard { serials, at: Some(at) });
            }
        }
    }

    /// Tells a region that nobody has seen what it goes on from: the serial that is remembered, which may come again if
    /// the same members' versions still make the same contents; or the newest that other servers have, where that is
    /// newer. The sum itself stands for the same contents everywhere.
    pub(super) fn recall(&self, kept: &mut KeptRegion) {
        if kept.was_served() {
            return;
        }
        let seen = self.seen_serials.get(&kept.region.plan.origin);
        if seen.is_none_or(|seen| seen.fingerprint == NO_PLAN || seen.fingerprint != kept.fingerprint) {
            kept.region.serial.doubted();
        }
        if kept.heard.as_ref().is_none_or(|heard| heard.at.is_some()) {
            return;
        }
        let (sum, Some(ahead)) = kept.heard_ahead() else { return };
        let theirs = sum.advance(ahead);
        if seen.is_none_or(|seen| theirs.newer_than(seen.last)) {
            kept.region.serial.remembered(theirs, (ahead == 0).then_some(0));
            kept.followed = Some(theirs).filter(|_| ahead > 0);
        }
    }

    /// Has a region that is served go on from the newest serial that other servers have of it, if that is still newer once
    /// each member that is there has been confirmed; returns whether it does.
    pub(super) fn catch_up(&self, kept: &mut KeptRegion) -> bool {
        let Some(heard) = kept.heard.as_ref().filter(|_| kept.was_served() && kept.pinned.is_none()) else {
            return false;
        };
        let Some(zone) = &kept.region.zone else { return false };
        let (ours, at, is_whole) = (zone.soa.serial, heard.at, kept.is_whole());
        let Some(newest) = kept.newer_elsewhere() else {
            kept.heard = kept.heard.take().filter(|_| !is_whole);
            return false;
        };
        let is_confirmed = |member: &Name| {
            let source = self.sources.get(member);
            source.is_some_and(|source| at.is_none_or(|at| source.heard().is_some_and(|contact| contact >= at)))
        };
        let mut taken =
            kept.region.plan.members.iter().zip(&kept.intakes).filter(|(_, intake)| intake.zone().is_some());
        if !taken.all(|(member, _)| is_confirmed(member)) {
            return false;
        }
        let (sum, ahead) = kept.heard_ahead();
        let theirs = ahead.map(|ahead| sum.advance(ahead)).filter(|theirs| theirs.newer_than(ours));
        kept.heard = kept.heard.take().filter(|_| !is_whole);
        let region = &kept.region.plan.origin;
        let Some(theirs) = theirs else {
            if !is_whole {
                return false;
            }
            tracing::warn!(%region, ours = ours.0, theirs = newest.0, "another server has a newer serial, too far ahead to be \
                 followed: its secondaries take no change until ours has passed it");
            return false;
        };
        tracing::warn!(%region, ours = ours.0, theirs = theirs.0, "another server has a newer serial, although no member is newer: the state \
             on disk was old; the region goes on from that serial");
        kept.followed = Some(theirs);
        kept.region.serial.hidden_behind(theirs);
        kept.causes.push(Cause::Serial);
        self.merge_region(kept, Vec::new())
    }
}
