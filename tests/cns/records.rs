//! Zones of the scripted CNS as records of the tests, and back.

use crate::harness::{Dname, Record, read_zone, rtype};
use sim::zone::{Apex, Data, NS_TTL, RECORD_TTL, Zone};
use std::collections::HashSet;
use wire::name::{Name, NameBuf};
use wire::serial::Serial;

/// A name as the tests have it.
pub fn dname(name: &Name) -> Dname {
    Dname(name.as_wire().to_vec())
}

fn name(wire: &[u8]) -> Name {
    NameBuf::from_wire(wire).expect("a name").to_name()
}

/// One record.
fn record(owner: &Name, ttl: u32, data: &Data) -> Record {
    let rdata = match data {
        Data::A(address) => address.octets().to_vec(),
        Data::Aaaa(address) => address.octets().to_vec(),
        Data::Cname(target) | Data::Ns(target) | Data::Ptr(target) => target.as_wire().to_vec(),
        Data::Soa { mname, rname, serial } => {
            let numbers = [serial.0, 30, 60, 2_592_000, 30].map(u32::to_be_bytes).concat();
            [mname.as_wire(), rname.as_wire(), &numbers].concat()
        }
        Data::Srv { priority, weight, port, target } => {
            [&[*priority, *weight, *port].map(u16::to_be_bytes).concat(), target.as_wire()].concat()
        }
        Data::Txt(text) => [&[text.len() as u8], &text[..]].concat(),
    };
    Record::new(&dname(owner), data.kind(), ttl, rdata)
}

/// The set of records that a secondary should have of a version.
pub fn records(zone: &Zone) -> Vec<Record> {
    let origin = zone.origin();
    let mut records = vec![record(origin, RECORD_TTL, &zone.soa())];
    records.extend(zone.name_servers().map(|data| record(origin, NS_TTL, &data)));
    for node in zone.nodes() {
        records.extend(node.records.iter().map(|data| record(&node.owner, RECORD_TTL, data)));
    }
    let mut seen = HashSet::new();
    records.retain(|record| seen.insert(record.canonical()));
    records
}

/// A captured AXFR as a version, with its repetitions.
pub fn captured(text: &str) -> Zone {
    let mut records = read_zone(text);
    let soa = records.pop().expect("the closing SOA");
    let origin = name(&soa.owner.0);
    let mname = soa.target().expect("MNAME");
    let rname = soa.rdata[mname.0.len()..soa.rdata.len() - 20].to_vec();
    let servers = records.iter().filter(|record| record.rtype == rtype::NS).filter_map(Record::target);
    let name_servers = servers.map(|server| name(&server.0)).collect();
    let apex = Apex { mname: name(&mname.0), rname: name(&rname), name_servers };
    let below = records.iter().filter(|record| record.owner != soa.owner).map(|record| {
        let rdata = &record.rdata;
        let number = |at: usize| u16::from_be_bytes([rdata[at], rdata[at + 1]]);
        let data = match record.rtype {
            rtype::A => Data::A(<[u8; 4]>::try_from(&rdata[..]).expect("four octets").into()),
            rtype::AAAA => Data::Aaaa(<[u8; 16]>::try_from(&rdata[..]).expect("sixteen octets").into()),
            rtype::CNAME => Data::Cname(name(rdata)),
            rtype::PTR => Data::Ptr(name(rdata)),
            rtype::TXT => Data::Txt(rdata[1..].to_vec()),
            rtype::SRV => {
                Data::Srv { priority: number(0), weight: number(2), port: number(4), target: name(&rdata[6..]) }
            }
            other => panic!("type {other} in a capture"),
        };
        (name(&record.owner.0), data)
    });
    Zone::new(origin.clone(), apex, Serial(soa.serial()), below.collect::<Vec<_>>())
}
