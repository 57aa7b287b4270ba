//! A zone as CNS holds it: owner names with records that may repeat, and an apex that is made up on request.
//!
//! Invariants: the apex carries SOA and NS only, which are not among the nodes; nodes keep the order in which
//! they were given, with all records of one owner name together; equal records stay as often as they were given
//! (a zone file would keep one, RFC 2181 section 5). Names change only while a commit is
//! being written.
//!
//! Cost: O(records) to make, O(1) to find a node.

use std::collections::HashMap;
use std::net::{Ipv4Addr, Ipv6Addr};
use wire::name::Name;
use wire::rr::rtype;
use wire::serial::Serial;

/// TTL of every record except the NS set, seconds.
pub const RECORD_TTL: u32 = 30;
/// TTL of the NS set, seconds.
pub const NS_TTL: u32 = 3600;

/// The data of one record, of the types that CNS publishes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Data {
    A(Ipv4Addr),
    Aaaa(Ipv6Addr),
    Cname(Name),
    Ns(Name),
    Ptr(Name),
    Soa {
        mname: Name,
        rname: Name,
        serial: Serial,
    },
    Srv {
        priority: u16,
        weight: u16,
        port: u16,
        target: Name,
    },
    /// One character-string.
    Txt(Vec<u8>),
}

impl Data {
    /// The TYPE code (RFC 1035 section 3.2.2, RFC 3596, RFC 2782).
    pub fn kind(&self) -> u16 {
        match self {
            Data::A(_) => rtype::A,
            Data::Ns(_) => rtype::NS,
            Data::Cname(_) => rtype::CNAME,
            Data::Soa { .. } => rtype::SOA,
            Data::Ptr(_) => rtype::PTR,
            Data::Txt(_) => rtype::TXT,
            Data::Aaaa(_) => rtype::AAAA,
            Data::Srv { .. } => rtype::SRV,
        }
    }
}

/// Data of the apex besides the serial; comes from the configuration of CNS and not from its data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Apex {
    pub mname: Name,
    pub rname: Name,
    pub name_servers: Vec<Name>,
}

/// One owner name below the apex and its records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    pub owner: Name,
    pub records: Vec<Data>,
}

/// One version of a zone.
#[derive(Clone, Debug)]
pub struct Zone {
    origin: Name,
    apex: Apex,
    serial: Serial,
    nodes: Vec<Node>,
    places: HashMap<Name, usize>,
}

impl Zone {
    /// Collects records by owner name. Records outside the zone are left out.
    pub fn new(origin: Name, apex: Apex, serial: Serial, records: impl IntoIterator<Item = (Name, Data)>) -> Zone {
        let mut nodes: Vec<Node> = Vec::new();
        let mut places = HashMap::new();
        for (owner, data) in records {
            if !owner.is_within(&origin) {
                continue;
            }
            let place = *places.entry(owner.clone()).or_insert_with(|| {
                nodes.push(Node { owner, records: Vec::new() });
                nodes.len() - 1
            });
            nodes[place].records.push(data);
        }
        Zone { origin, apex, serial, nodes, places }
    }

    /// The owner name of the apex.
    pub fn origin(&self) -> &Name {
        &self.origin
    }

    /// The serial of this version.
    pub fn serial(&self) -> Serial {
        self.serial
    }

    /// All owner names below the apex with their records.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// The records at one owner name below the apex; `owner` is in lowercase wire form.
    pub fn find(&self, owner: &[u8]) -> Option<&[Data]> {
        self.places.get(owner).map(|place| self.nodes[*place].records.as_slice())
    }

    /// Replaces the records at one owner name below the apex; without any the name goes.
    pub fn set(&mut self, owner: Name, records: Vec<Data>) {
        match self.places.get(&owner).copied() {
            Some(place) if records.is_empty() => {
                self.nodes.swap_remove(place);
                self.places.remove(&owner);
                if let Some(moved) = self.nodes.get(place) {
                    self.places.insert(moved.owner.clone(), place);
                }
            }
            Some(place) => self.nodes[place].records = records,
            None if records.is_empty() => {}
            None => {
                self.places.insert(owner.clone(), self.nodes.len());
                self.nodes.push(Node { owner, records });
            }
        }
    }

    /// The SOA record.
    pub fn soa(&self) -> Data {
        self.soa_at(self.serial)
    }

    /// The SOA record as it would be with another serial.
    pub fn soa_at(&self, serial: Serial) -> Data {
        Data::Soa { mname: self.apex.mname.clone(), rname: self.apex.rname.clone(), serial }
    }

    /// Data of the apex besides the serial.
    pub fn apex(&self) -> &Apex {
        &self.apex
    }

    /// The same records below another apex.
    pub fn with_apex(self, apex: Apex, serial: Serial) -> Zone {
        Zone { apex, serial, ..self }
    }

    /// The NS set.
    pub fn name_servers(&self) -> impl Iterator<Item = Data> {
        self.apex.name_servers.iter().cloned().map(Data::Ns)
    }

    /// Number of records, repeated ones included, SOA and NS included.
    pub fn record_count(&self) -> usize {
        let below: usize = self.nodes.iter().map(|node| node.records.len()).sum();
        1 + self.apex.name_servers.len() + below
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_of_a_name_come_together_and_may_repeat() {
        let name = |text: &str| Name::parse(text).unwrap();
        let apex = Apex { mname: name("ns1.x"), rname: name("h.x"), name_servers: vec![name("ns1.x")] };
        let (web, db) = (name("web.z"), name("db.z"));
        let zone = Zone::new(
            name("z"),
            apex,
            Serial(7),
            [
                (web.clone(), Data::A(Ipv4Addr::LOCALHOST)),
                (db.clone(), Data::Txt(b"x".to_vec())),
                (name("outside.y"), Data::Txt(b"x".to_vec())),
                (web.clone(), Data::A(Ipv4Addr::LOCALHOST)),
            ],
        );
        assert_eq!(zone.nodes().iter().map(|node| &node.owner).collect::<Vec<_>>(), [&web, &db]);
        assert_eq!(zone.find(web.as_wire()).unwrap().len(), 2);
        assert_eq!(zone.find(name("outside.y").as_wire()), None);
        assert_eq!(zone.record_count(), 5);
        let mut zone = zone;
        zone.set(web.clone(), Vec::new());
        assert_eq!((zone.find(web.as_wire()), zone.find(db.as_wire()).map(<[Data]>::len)), (None, Some(1)));
        zone.set(web.clone(), vec![Data::Txt(b"y".to_vec())]);
        zone.set(db.clone(), vec![Data::Txt(b"y".to_vec()); 3]);
        assert_eq!(zone.record_count(), 6);
    }
}
