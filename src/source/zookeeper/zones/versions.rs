//! The zones of a tree and their serials.
//!
//! A zone is made whole when it is the first time or when the version it was compared with last is not the one that is
//! published; otherwise only the names that changes touched are made anew. Both ways lead to the same zone.
//!
//! **Serials.** All zones of a tree have the serial that follows from the newest transaction in it, epoch × 2^28 +
//! counter, so that replicas that see the same tree agree, and all get a new SOA even where no record of theirs
//! changed. Where that would not be newer than the last serial (RFC 1982), as after an ensemble was set up anew or when
//! one transaction arrives in two parts, a drift is added; it stays until the serial that follows from the tree is
//! newer by itself. A version from before a restart that holds the same records stays as it is unless its serial has
//! fallen behind.
//!
//! Cost: O(touched names and their records) and O(zones), or O(nodes) for what is made whole.

use crate::source::zookeeper::zones::TreeZone;
use crate::source::zookeeper::zones::reverse;
use crate::source::zookeeper::zones::tree::{Node, Tree, Version, service_owner};
use crate::zone::{Anomalies, Editor, Loaded, RRsets, Repeated, Zone, ZoneError, apex_rrsets};
use registrar::payload::Payload;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use wire::name::Name;
use wire::serial::Serial;

/// Bits of a serial that count transactions; the epoch is above.
const COUNTER_BITS: u32 = 28;

impl Version {
    /// Returns true if a zone is this version and no other, even of the same contents.
    fn is(&self, zone: &Zone) -> bool {
        Arc::ptr_eq(self.zone.soa_rrset(), zone.soa_rrset())
    }
}

/// Names of a zone that are to be made; those of a reverse zone with their addresses.
type Names = HashMap<Name, Option<IpAddr>>;

impl Tree {
    /// Makes the zones that are others than what `base` says is published, and forgets what was touched.
    ///
    /// A zone that is not among them is published as it should be.
    pub fn zones(&mut self, base: impl Fn(&Name) -> Option<Arc<Zone>>) -> Result<Vec<TreeZone>, ZoneError> {
        let touched = std::mem::take(&mut self.touched);
        let touched_addresses = std::mem::take(&mut self.touched_addresses);
        let origins: Vec<Name> = [&self.plan.origin].into_iter().chain(&self.plan.reverse).cloned().collect();
        let bases: Vec<_> = origins.iter().map(base).collect();
        let whole = |index: usize| match (&bases[index], self.versions.get(&origins[index])) {
            (Some(base), Some(version)) => !version.is(base),
            _ => true,
        };
        let whole: Vec<bool> = (0..origins.len()).map(whole).collect();
        let mut all = if whole[1..].contains(&true) { self.by_zone(self.addresses.keys()) } else { HashMap::new() };
        let mut some = self.by_zone(touched_addresses.iter());
        let mut zones = Vec::new();
        for (index, (origin, base)) in origins.iter().zip(bases).enumerate() {
            let is_whole = whole[index];
            let names: Names = match index {
                0 if is_whole => self.forward_names().map(|name| (name, None)).collect(),
                0 => touched.iter().chain([origin]).map(|name| (name.clone(), None)).collect(),
                _ => {
                    let by_zone = if is_whole { &mut all } else { &mut some };
                    let mut names = by_zone.remove(&index).unwrap_or_default();
                    // The whole of an address may be the origin.
                    names.extend(reverse::address_of(origin).map(|address| (origin.clone(), Some(address))));
                    names
                }
            };
            zones.extend(self.make(origin, names, is_whole, base)?);
        }
        Ok(zones)
    }

    /// The serial that follows from the tree.
    pub fn serial(&self) -> Serial {
        let (epoch, counter) = ((self.zxid >> 32) as u32, self.zxid as u32);
        Serial(epoch << COUNTER_BITS).advance(counter).advance(self.plan.serial_offset)
    }

    /// The names of addresses by the place of their zone among all zones of the tree.
    fn by_zone<'a>(&self, addresses: impl Iterator<Item = &'a IpAddr>) -> HashMap<usize, Names> {
        let mut zones: HashMap<usize, Names> = HashMap::new();
        if !self.plan.reverse.is_empty() {
            for address in addresses {
                let name = reverse::name_of(*address);
                if let Some(index) = self.reverse_zone(&name) {
                    zones.entry(index + 1).or_default().insert(name, Some(*address));
                }
            }
        }
        zones
    }

    /// Makes one zone, in which names stay that are not among these unless it is made whole; none if it is what the base
    /// is.
    fn make(
        &mut self,
        origin: &Name,
        names: Names,
        is_whole: bool,
        base: Option<Arc<Zone>>,
    ) -> Result<Option<TreeZone>, ZoneError> {
        let mut editor = base.as_ref().map_or_else(|| Editor::new(origin.clone()), |base| Editor::from_zone(base));
        editor.repeated = Repeated::default();
        let mut touched = Vec::new();
        let mut apex = RRsets::default();
        let mut set = |name: Name, rrsets: RRsets| {
            if name == *origin {
                apex = rrsets;
            } else if editor.set(&name, rrsets, None) {
                touched.push(name);
            }
        };
        let known = base.iter().filter(|_| is_whole).flat_map(|base| base.iter());
        let gone = known.filter(|(name, _)| !names.contains_key(name));
        gone.for_each(|(name, _)| set(name, RRsets::default()));
        for (name, address) in names {
            let rrsets = address.map_or_else(|| self.records(&name), |address| self.reverse_records(address));
            set(name, rrsets);
        }
        let computed = self.serial();
        let version = self.versions.get(origin);
        let last = base.as_ref().map(|base| base.soa.serial).or(version.map(|version| version.zone.soa.serial));
        let apex = |serial| apex_rrsets(&self.plan.soa, &self.plan.ns, self.plan.ns_ttl, &apex, serial);
        let changed = last.is_none_or(|last| editor.set(origin, apex(last), None)) || !touched.is_empty();
        let drift = version.map_or(0, |version| version.drift);
        let (serial, drift) = match last {
            None => (computed, 0),
            Some(last) if computed.newer_than(last) => (computed, 0),
            Some(last) if computed.advance(drift).newer_than(last) => (computed.advance(drift), drift),
            // Nothing happened, or it happened before the version was made.
            Some(last) if !changed => (last, last.0.wrapping_sub(computed.0)),
            Some(last) => (last.advance(1), last.advance(1).0.wrapping_sub(computed.0)),
        };
        if editor.set(origin, apex(serial), None) || changed {
            touched.push(origin.clone());
        }
        let zone = editor.finish()?;
        self.versions.insert(origin.clone(), Version { zone: zone.clone(), drift });
        let loaded = Loaded { zone, touched, anomalies: Anomalies::default() };
        let new = !loaded.touched.is_empty();
        Ok(new.then(|| TreeZone { zone: origin.clone(), loaded, base }))
    }

    /// All owner names of the forward zone that nodes give records to, its origin among them.
    fn forward_names(&self) -> impl Iterator<Item = Name> {
        let of_service = |node: &Node| match (&node.payload, &node.owner) {
            (Payload::Service(service), Some(owner)) => service_owner(service, owner),
            _ => None,
        };
        self.owners.keys().cloned().chain(self.nodes.iter().filter_map(of_service))
    }
}
