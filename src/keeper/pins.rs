//! Pins in force: regions that operators have taken back to the contents of an earlier version.
//!
//! Merging goes on behind a pin: [`Region`] makes versions that nobody sees, each under a serial that is newer than the
//! one which clients have, so that the region can be released at any time. What is published stays as it is meanwhile,
//! whatever becomes of the members: a pinned region neither waits for any nor expires with them.
//!
//! Invariants: contents change under a new serial only, to a pin and back (RFC 1982); both steps are steps of the
//! history like any other. A pin of which no contents are on disk at start is over. A pin ends with its region.
//!
//! Cost: O(changes from the version to the present one) to pin, O(names that differ) to release.
//!
//! [`Region`]: crate::merge::Region

use super::Keeper;
use super::regions::{KeptRegion, Pinned};
use crate::merge::Pin;
use crate::state::Restored;
use crate::zone::{Cause, Delta, Editor, History, RRsets, Repeated, Zone};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::SystemTime;
use wire::name::Name;
use wire::rr::{RRset, rtype};
use wire::serial::Serial;

/// An operator's order.
#[derive(Clone, Debug)]
pub struct PinOrder {
    pub region: Name,
    /// The version that has the contents.
    pub to: Serial,
    pub reason: Option<String>,
}

/// Error: a region was not pinned, or not released.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PinError {
    #[error("{0} is no region of the configuration")]
    NoRegion(Name),
    #[error("region {0} is not served, so it has no earlier version")]
    NotServed(Name),
    #[error("the history of region {0} does not have serial {1}; see \"aggregator history {0}\"")]
    Unreachable(Name, Serial),
    #[error("region {0} is not pinned")]
    NotPinned(Name),
}

/// All pins, as far as the disk is concerned.
#[derive(Debug, Default)]
pub(super) struct Pins {
    /// Pins that an earlier run of the program left, until their regions are there.
    earlier: Vec<Pin>,
    /// True if the pins are not yet on disk.
    pub unsaved: bool,
}

impl Pins {
    /// Goes on with those that an earlier run of the program left.
    pub fn new(earlier: Vec<Pin>) -> Pins {
        Pins { earlier, unsaved: false }
    }

    /// Ends a pin whose region has left the configuration.
    pub fn end(&mut self, pin: &Pin) {
        log(pin, "the pin ends: the configuration has no such region any more");
        self.unsaved = true;
    }

    /// Ends the pins of an earlier run whose regions are not in the configuration.
    pub fn forget_earlier(&mut self) {
        std::mem::take(&mut self.earlier).iter().for_each(|pin| self.end(pin));
    }
}

/// Tells what happens to a pin.
fn log(pin: &Pin, event: &str) {
    let Pin { region, to, serial, reason, .. } = pin;
    let reason = reason.as_deref().unwrap_or("none given");
    tracing::warn!(%region, to = to.0, serial = serial.0, reason, "{event}");
}

/// A version with another serial.
fn with_serial(zone: &Zone, serial: Serial) -> Zone {
    let replace = |rrset: &Arc<RRset>| {
        let rdata = rrset.rdatas().next().filter(|_| rrset.rtype == rtype::SOA);
        let renumbered = rdata.and_then(|rdata| {
            // The serial is the first of the five numbers at the end (RFC 1035 section 3.3.13).
            let mut rdata = rdata.to_vec();
            let at = rdata.len() - 20;
            rdata[at..at + 4].copy_from_slice(&serial.0.to_be_bytes());
            RRset::build(rtype::SOA, rrset.ttl, vec![&rdata])
        });
        renumbered.map_or_else(|| rrset.clone(), Arc::new)
    };
    let apex: RRsets = zone.apex().to_rrsets().iter().map(replace).collect();
    let mut editor = Editor::from_zone(zone);
    editor.set(&zone.origin, apex, zone.apex().spelled.map(Arc::from));
    editor.repeated = Repeated::default();
    editor.finish_beside(&[zone]).expect("the apex of a version has one SOA")
}

/// A pin of which the disk has the order and, in place of its contents, those of the pin that it replaced: the program
/// ended between the two.
///
/// The history leads from one to the other. Without it the region stays what it was until that order, under a serial
/// that nobody has seen: letting go would bring back what the operator wanted to be rid of.
fn renew(pin: &Pin, older: &Arc<Zone>, past: &History) -> Option<Pinned> {
    // What is left of a pin that was released is the apex alone; and a pin that follows another has the next serial.
    if older.names() == 1 || older.soa.serial.advance(1) != pin.serial {
        return None;
    }
    let steps = past.since(older.soa_rrset().rdatas().next()?).unwrap_or_default();
    if let Some(Ok(zone)) = steps.first().map(|step| step.apply(older)).filter(|_| steps.len() == 1) {
        return Some(Pinned { pin: pin.clone(), zone: Arc::new(zone) });
    }
    let serial = pin.serial.advance(1);
    let pin = Pin { to: older.soa.serial, serial, ..pin.clone() };
    Some(Pinned { pin, zone: Arc::new(with_serial(older, serial)) })
}

impl KeptRegion {
    /// Returns the zone that clients see: the contents to which the region is pinned, else the merged ones.
    pub fn served(&self) -> Option<&Arc<Zone>> {
        self.pinned.as_ref().map(|pinned| &pinned.zone).or(self.region.zone.as_ref())
    }

    /// The region's pin.
    pub fn pin(&self) -> Option<&Pin> {
        self.pinned.as_ref().map(|pinned| &pinned.pin)
    }

    /// Returns the drift: the published serial minus the members' sum. It is 0 while the region is pinned.
    pub fn drift(&self) -> u32 {
        if self.pinned.is_some() { 0 } else { self.region.serial.drift() }
    }

    /// Goes on with a pin: what is merged from now on is not seen, and newer than what is.
    pub fn hold(&mut self, pinned: Pinned) {
        self.region.serial.hidden_behind(pinned.pin.serial);
        self.pinned = Some(pinned);
    }
}

impl Keeper {
    /// Takes a region back to the contents of an earlier version, under a new serial.
    pub(super) fn pin(&mut self, order: PinOrder) -> Result<Pin, PinError> {
        let PinOrder { region: name, to, reason } = order;
        let mut kept = self.regions.remove(&name).ok_or_else(|| PinError::NoRegion(name.clone()))?;
        let pinned = self.pin_region(&mut kept, to, reason);
        if let Ok(pin) = &pinned {
            log(pin, "the region is pinned to the contents of an earlier version");
            self.pins.unsaved = true;
            // The next one that is seen must be newer.
            self.merge_region(&mut kept, Vec::new());
        }
        self.regions.insert(name, kept);
        pinned
    }

    /// Gives a region the contents of an earlier version.
    fn pin_region(&self, kept: &mut KeptRegion, to: Serial, reason: Option<String>) -> Result<Pin, PinError> {
        let origin = &kept.region.plan.origin;
        let unreachable = || PinError::Unreachable(origin.clone(), to);
        let present = kept.served().filter(|_| kept.was_served()).ok_or_else(|| PinError::NotServed(origin.clone()))?;
        let (mut contents, mut touched) = (present.clone(), Vec::new());
        if present.soa.serial != to {
            let place = kept.history.position(to).ok_or_else(unreachable)?;
            let steps = kept.history.between(place..kept.history.len());
            let back = Delta::concatenate(&steps).ok_or_else(unreachable)?.invert();
            touched.extend(back.touched());
            contents = Arc::new(back.apply(present).map_err(|_| unreachable())?);
        }
        let serial = present.soa.serial.advance(1);
        let zone = Arc::new(with_serial(&contents, serial));
        let since = SystemTime::now();
        let present = present.clone();
        let pin = Pin { region: origin.clone(), to, serial, since, reason };
        kept.step(&present, &zone, touched, [Cause::Rollback { to }], &self.history);
        if let Some(store) = &self.store {
            store.replace(&pin.region, zone.clone(), since);
        }
        kept.hold(Pinned { pin: pin.clone(), zone });
        Ok(pin)
    }

    /// Lets a region follow its members again, under a new serial.
    pub(super) fn release(&mut self, name: &Name) -> Result<Pin, PinError> {
        let mut kept = self.regions.remove(name).ok_or_else(|| PinError::NoRegion(name.clone()))?;
        let released = self.release_region(&mut kept);
        self.regions.insert(name.clone(), kept);
        if let Some(pin) = &released {
            log(pin, "the region follows its members again");
            self.pins.unsaved = true;
        }
        released.ok_or_else(|| PinError::NotPinned(name.clone()))
    }

    /// Replaces a region's pinned contents by the merged ones.
    fn release_region(&self, kept: &mut KeptRegion) -> Option<Pin> {
        let Pinned { pin, zone: before } = kept.pinned.take()?;
        kept.causes.clear();
        match kept.region.zone.clone() {
            Some(zone) => {
                let touched = Editor::from_zone(&zone).differing(&before);
                kept.step(&before, &zone, touched, [Cause::Release], &self.history);
                if let Some(store) = &self.store {
                    // The contents are not needed any more.
                    let mut apex = Editor::new(zone.origin.clone());
                    apex.set(&zone.origin, zone.apex().to_rrsets(), None);
                    let apex = apex.finish().expect("the apex of a version has one SOA");
                    store.replace(&pin.region, Arc::new(apex), SystemTime::now());
                }
            }
            None => kept.history.clear(),
        }
        kept.region.serial.seen();
        Some(pin)
    }

    /// Goes on with the pin of a region from an earlier run of the program, if its contents are there.
    pub(super) fn restore_pin(&mut self, kept: &mut KeptRegion, restored: &mut HashMap<Name, Restored>) {
        let name = &kept.region.plan.origin;
        let Some(place) = self.pins.earlier.iter().position(|pin| pin.region == *name) else { return };
        let pin = self.pins.earlier.remove(place);
        let found = restored.remove(name).map(|restored| restored.zone);
        if let Some(zone) = found.as_ref().filter(|zone| zone.soa.serial == pin.serial) {
            log(&pin, "the pin goes on");
            kept.hold(Pinned { pin, zone: zone.clone() });
            return;
        }
        self.pins.unsaved = true;
        match found.and_then(|older| renew(&pin, &older, &kept.past)) {
            Some(pinned) => {
                log(&pinned.pin, "the pin goes on; its last change had not been written whole");
                if let Some(store) = &self.store {
                    store.replace(&pinned.pin.region, pinned.zone.clone(), pinned.pin.since);
                }
                kept.hold(pinned);
            }
            None => log(&pin, "the pin is over: the contents are not on disk"),
        }
    }

    /// All pins, if the disk has others.
    pub(super) fn take_unsaved_pins(&mut self) -> Option<Vec<Pin>> {
        let pins = || self.regions.values().filter_map(|kept| kept.pin().cloned()).collect();
        std::mem::take(&mut self.pins.unsaved).then(pins)
    }
}
