//! Helpers that the tests of this layer share: zones read from text or messages, by code other than ours.

use super::zone::{Apex, Data, Zone};
use hickory_proto::op::Message;
use hickory_proto::rr::{RData, Record, RecordType};
use serde_json::Value;
use wire::name::Name;
use wire::serial::Serial;

/// A record with its TTL.
pub type Row = (Name, u32, Data);

/// Translates a name.
fn name(theirs: &hickory_proto::rr::Name) -> Name {
    let mut wire: Vec<u8> = theirs.iter().flat_map(|label| [&[label.len() as u8], label].concat()).collect();
    wire.push(0);
    wire::name::NameBuf::from_wire(&wire).unwrap().to_name()
}

/// Translates a record; its fixed SOA fields are checked.
pub fn row(record: &Record) -> Row {
    let data = match &record.data {
        RData::A(a) => Data::A(a.0),
        RData::AAAA(aaaa) => Data::Aaaa(aaaa.0),
        RData::CNAME(target) => Data::Cname(name(&target.0)),
        RData::NS(target) => Data::Ns(name(&target.0)),
        RData::PTR(target) => Data::Ptr(name(&target.0)),
        RData::SRV(srv) => {
            Data::Srv { priority: srv.priority, weight: srv.weight, port: srv.port, target: name(&srv.target) }
        }
        RData::SOA(soa) => {
            assert_eq!((soa.refresh, soa.retry, soa.expire, soa.minimum), (30, 60, 2_592_000, 30));
            Data::Soa { mname: name(&soa.mname), rname: name(&soa.rname), serial: Serial(soa.serial) }
        }
        RData::TXT(txt) => {
            assert_eq!(txt.txt_data.len(), 1);
            Data::Txt(txt.txt_data[0].to_vec())
        }
        other => panic!("unexpected {other:?}"),
    };
    (name(&record.name), record.ttl, data)
}

/// Translates records.
pub fn rows(records: &[Record]) -> Vec<Row> {
    records.iter().map(row).collect()
}

/// One record from presentation format.
pub fn read_row(owner: &str, ttl: u32, kind: &str, data: &str) -> Row {
    let kind: RecordType = kind.parse().unwrap();
    let data = RData::try_from_str(kind, data).unwrap_or_else(|error| panic!("{kind} {data}: {error}"));
    row(&Record::from_rdata(hickory_proto::rr::Name::from_ascii(owner).unwrap(), ttl, data))
}

/// A list of records of a fixture.
pub fn read_rows(list: &Value) -> Vec<Row> {
    let text = |record: &Value, key: &str| record[key].as_str().unwrap().to_owned();
    let read = |record: &Value| {
        let ttl = record["ttl"].as_u64().unwrap() as u32;
        read_row(&text(record, "name"), ttl, &text(record, "type"), &text(record, "data"))
    };
    list.as_array().unwrap().iter().map(read).collect()
}

/// The zone that a transfer consists of.
pub fn zone_of(rows: &[Row]) -> Zone {
    let (origin, _, Data::Soa { mname, rname, serial }) = &rows[0] else { panic!("no SOA at the beginning") };
    assert!(rows.len() > 1 && rows.first() == rows.last(), "no SOA at the end");
    let servers = rows.iter().filter_map(|(_, ttl, data)| match data {
        Data::Ns(server) => {
            assert_eq!(*ttl, 3600);
            Some(server.clone())
        }
        _ => None,
    });
    let apex = Apex { mname: mname.clone(), rname: rname.clone(), name_servers: servers.collect() };
    let below = rows.iter().filter(|(owner, ..)| owner != origin).map(|(owner, ttl, data)| {
        assert_eq!(*ttl, 30);
        (owner.clone(), data.clone())
    });
    Zone::new(origin.clone(), apex, *serial, below)
}

/// Reads a transfer as written down one record a line; lines that begin with `#` or `;` are comments.
pub fn read_zone(text: &str) -> Zone {
    let record = |line: &str| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        read_row(fields[0], fields[1].parse().unwrap(), fields[3], &fields[4..].join(" "))
    };
    let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with(['#', ';']));
    zone_of(&lines.map(record).collect::<Vec<_>>())
}

/// A question in wire form.
pub fn ask(id: u16, name: &str, kind: u16) -> Vec<u8> {
    let mut message = [id, 0, 1, 0, 0, 0].map(u16::to_be_bytes).concat();
    message.extend_from_slice(wire::name::NameBuf::parse(name).unwrap().as_wire());
    message.extend([kind, 1].map(u16::to_be_bytes).concat());
    message
}

/// Adds an OPT record with a payload size to a question.
pub fn with_edns(mut message: Vec<u8>, payload: u16) -> Vec<u8> {
    message[11] += 1;
    message.extend([&[0, 0, 41], payload.to_be_bytes().as_slice(), &[0; 6]].concat());
    message
}

/// Adds the SOA of a client to an IXFR question, as RFC 1995 section 3 wants it.
pub fn with_soa(mut message: Vec<u8>, serial: u32) -> Vec<u8> {
    message[9] += 1;
    // The owner name is that of the question; MNAME and RNAME are the root.
    message.extend([&[0xc0, 12, 0, 6, 0, 1, 0, 0, 0, 0, 0, 22, 0, 0], serial.to_be_bytes().as_slice()].concat());
    message.extend([0; 16]);
    message
}

/// Reads a response with a library that is not ours.
pub fn read(message: &[u8]) -> Message {
    Message::from_vec(message).unwrap()
}

/// The octets behind a hexadecimal text.
pub fn unhex(text: &str) -> Vec<u8> {
    (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap()).collect()
}
