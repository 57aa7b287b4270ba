//! Estimate of the memory that a zone in the making will take, known while its names come.
//!
//! A name counts with its octets and [`NODE_BYTES`]. So do the names above it when they are first seen, twice, because
//! empty non-terminals are in memory twice while they are made: one name can bring more than a hundred of them. What
//! comes of it is nearly what the finished table takes, and more for names with others below and those that come again
//! in another place.
//!
//! Cost: O(octets) for a name; eight octets of memory for each name that has others below.

use super::editor::parent;
use super::table::{self, ByHash};
use std::collections::HashSet;

/// Octets that a node takes beside its owner, spelling and sets: tag, place and lengths, and its part of the shard, of
/// which there is one for eight names at least where a table is made as a whole.
const NODE_BYTES: u64 = 16;

/// The octets of names.
#[derive(Default)]
pub(super) struct Meter {
    octets: u64,
    /// Hashes of the owners above those that were counted.
    above: HashSet<u64, ByHash>,
}

impl Meter {
    /// The octets counted so far.
    pub fn octets(&self) -> u64 {
        self.octets
    }

    /// Counts octets of a name that has been counted.
    pub fn add(&mut self, octets: usize) {
        self.octets += octets as u64;
    }

    /// Counts a name with so many octets beside its owner, and those above it that are neither counted nor there
    /// already.
    pub fn count(&mut self, owner: &[u8], octets: usize, is_there: impl Fn(u64, &[u8]) -> bool) {
        self.octets += NODE_BYTES + (owner.len() + octets) as u64;
        let mut owner = parent(owner);
        while let Some(above) = owner.filter(|above| !above.is_empty()) {
            let hash = table::hash(above);
            if !self.above.insert(hash) || is_there(hash, above) {
                return;
            }
            self.octets += 2 * (NODE_BYTES + above.len() as u64);
            owner = parent(above);
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::zone::{Loader, Soa, Zone};
    use std::sync::Arc;
    use wire::name::{Name, NameBuf};
    use wire::rr::rtype;
    use wire::serial::Serial;

    /// Loads a zone of names, each with an address; returns the estimate and the zone.
    fn load(base: Option<&Arc<Zone>>, names: impl Iterator<Item = String>) -> (u64, Arc<Zone>) {
        let origin = Name::parse("z.example").unwrap();
        let mut loader = base.map_or_else(|| Loader::new(origin.clone()), |base| Loader::against(base.clone()));
        let soa = Soa { serial: Serial(1), refresh: 1, retry: 1, expire: 1, minimum: 1 };
        loader.push(&NameBuf::parse("z.example").unwrap(), rtype::SOA, 30, &soa.to_rdata(&[0], &[0]));
        for name in names {
            loader.push(&NameBuf::parse(&format!("{name}.z.example")).unwrap(), rtype::A, 30, &[192, 0, 2, 1]);
        }
        let estimated = loader.octets();
        (estimated, Arc::new(loader.finish(base.map(|base| &**base)).unwrap().zone))
    }

    #[test]
    fn what_is_estimated_is_nearly_what_the_zone_takes() {
        type Naming = fn(u32) -> String;
        let kinds: [(&str, Naming, f64); 4] = [
            ("flat", |index| format!("n{index}"), 1.2),
            ("instances", |index| format!("n{index}.inst.{:036}", index % 50), 1.6),
            ("capitals", |index| format!("N{index}"), 1.2),
            // Those above are there twice while they are made.
            ("deep", |index| format!("{}n{index}", "d.".repeat(100)), 2.1),
        ];
        for (kind, name, most) in kinds {
            for count in [100, 3000, 20_000] {
                let (estimated, zone) = load(None, (0..count).map(name));
                let ratio = estimated as f64 / zone.octets() as f64;
                assert!((0.9..most).contains(&ratio), "{count} {kind}: {ratio}");
                // As much where most is there already, and no name is new.
                let (again, same) = load(Some(&zone), (0..count).map(name));
                assert_eq!((again, same.octets()), (estimated, zone.octets()), "{kind}");
            }
        }
    }
}
