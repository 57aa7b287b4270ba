//! A datacenter whose serial does what a test wants: a primary with every difference since it last went back.
//!
//! It answers questions over UDP and TCP and transfers over TCP (RFC 5936, RFC 1995), in one message. Announcements
//! are sent when the test says so, to whom it says. Its threads end with the process.

use super::harness::{Dname, Message, Port, Random, Record, read_frame, rtype, write_frame};
use std::collections::BTreeSet;
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::sync::{Arc, Mutex};

/// TTL of all records.
const TTL: u32 = 30;
/// Versions that differences reach back.
const VERSIONS: usize = 40;
/// Instances that may run, and services that they may be in.
const INSTANCES: usize = 120;
const SERVICES: usize = 6;

/// One version: its serial, and its records without the SOA.
type Version = (u32, BTreeSet<Record>);

/// A running primary of one zone.
pub struct Site {
    pub zone: Dname,
    pub address: SocketAddr,
    number: u8,
    socket: UdpSocket,
    versions: Arc<Mutex<Vec<Version>>>,
}

impl Site {
    /// Starts the datacenter with this number; about half of its instances run.
    pub fn start(zone: &str, number: u8, serial: u32, random: &mut Random) -> Site {
        let zone = Dname::parse(zone);
        let mut port = Port::reserve();
        let address = port.release();
        let socket = UdpSocket::bind(address).expect("UDP socket");
        let listener = TcpListener::bind(address).expect("TCP socket");
        let mut records =
            BTreeSet::from([Record::new(&zone, rtype::NS, TTL, Dname::parse("ns.cns.example.com.").0.clone())]);
        (0..INSTANCES).filter(|_| random.chance(50)).for_each(|instance| {
            records.extend(instance_records(&zone, number, instance));
        });
        let versions = Arc::new(Mutex::new(vec![(serial, records)]));
        let site = Site { zone, address, number, socket, versions };
        let (socket, zone, versions) = (site.socket.try_clone().expect("socket"), site.zone.clone(), &site.versions);
        let (of_udp, of_tcp) = (Arc::clone(versions), Arc::clone(versions));
        let origin = zone.clone();
        std::thread::spawn(move || serve_datagrams(&socket, &origin, &of_udp));
        std::thread::spawn(move || serve_connections(&listener, &zone, &of_tcp));
        site
    }

    /// The present serial.
    pub fn serial(&self) -> u32 {
        self.versions.lock().unwrap().last().expect("a version").0
    }

    /// The present records, without the SOA.
    pub fn records(&self) -> BTreeSet<Record> {
        self.versions.lock().unwrap().last().expect("a version").1.clone()
    }

    /// Starts and ends a few instances under a serial that is so many steps ahead.
    pub fn change(&self, steps: u32, random: &mut Random) {
        let mut versions = self.versions.lock().unwrap();
        let (serial, mut records) = versions.last().expect("a version").clone();
        self.churn(&mut records, random);
        versions.push((serial.wrapping_add(steps), records));
        if versions.len() > VERSIONS {
            versions.remove(0);
        }
    }

    /// Changes as well, and goes back by so many steps, as after a database was restored.
    pub fn fall_back(&self, steps: u32, random: &mut Random) {
        let mut versions = self.versions.lock().unwrap();
        let (serial, mut records) = versions.last().expect("a version").clone();
        self.churn(&mut records, random);
        *versions = vec![(serial.wrapping_sub(steps), records)];
    }

    /// Starts or ends one to three instances.
    fn churn(&self, records: &mut BTreeSet<Record>, random: &mut Random) {
        for _ in 0..random.between(1, 3) {
            let instance = instance_records(&self.zone, self.number, random.below(INSTANCES));
            if records.contains(&instance[0]) {
                instance.iter().for_each(|record| _ = records.remove(record));
            } else {
                records.extend(instance);
            }
        }
    }

    /// Announces the zone (RFC 1996), without waiting for a reply.
    pub fn notify(&self, follower: SocketAddr) {
        let mut message = [7_u16, 4 << 11 | 0x0400, 1, 0, 0, 0].map(u16::to_be_bytes).concat();
        message.extend_from_slice(&question(&self.zone, rtype::SOA));
        self.socket.send_to(&message, follower).expect("send");
    }
}

/// Returns the records that one instance adds to its zone: a name of its own, an address of its service, and an address
/// that it has in all sites, so that the region has the record for as long as one of them does.
fn instance_records(zone: &Dname, number: u8, instance: usize) -> [Record; 3] {
    let below = |labels: &[&str]| {
        labels.iter().rev().fold(zone.clone(), |name, label| name.child(label.as_bytes()).expect("a short name"))
    };
    let address = |site: u8| [10, site, (instance >> 8) as u8, instance as u8].to_vec();
    let service = format!("s{}", instance % SERVICES);
    [
        Record::new(&below(&[&format!("i{number}-{instance}"), "inst", "acme"]), rtype::A, TTL, address(number)),
        Record::new(&below(&[&service, "svc", "acme"]), rtype::A, TTL, address(number)),
        Record::new(&below(&[&service, "shared", "acme"]), rtype::A, TTL, address(0)),
    ]
}

//--- Serving ---

/// A question of class IN.
fn question(zone: &Dname, kind: u16) -> Vec<u8> {
    [&zone.0[..], &kind.to_be_bytes(), &1_u16.to_be_bytes()].concat()
}

/// A record in wire form without compression.
pub fn encode(record: &Record) -> Vec<u8> {
    let length = u16::try_from(record.rdata.len()).expect("short RDATA");
    let fixed = [record.rtype.to_be_bytes(), 1_u16.to_be_bytes()].concat();
    [&record.owner.0[..], &fixed, &record.ttl.to_be_bytes(), &length.to_be_bytes(), &record.rdata].concat()
}

/// The SOA under a serial.
fn soa(zone: &Dname, serial: u32) -> Record {
    let numbers = [serial, 3600, 3600, 2_592_000, 30].map(u32::to_be_bytes).concat();
    Record::new(zone, rtype::SOA, TTL, [&[1, b'm', 0, 1, b'r', 0][..], &numbers].concat())
}

/// The response to a request; none for what is no request.
fn answer(request: &[u8], zone: &Dname, versions: &Mutex<Vec<Version>>) -> Option<Vec<u8>> {
    let message = Message::decode(request).ok().filter(|message| message.flags & 0x8000 == 0)?;
    let versions = versions.lock().unwrap();
    let (serial, records) = versions.last()?;
    let newest = soa(zone, *serial);
    let asked = |kind: u16| message.question == question(zone, kind);
    let known = message.authority.iter().find(|record| record.rtype == rtype::SOA).map(Record::serial);
    let from = versions.iter().position(|(serial, _)| Some(*serial) == known);
    let answer = if asked(rtype::SOA) || asked(rtype::IXFR) && known == Some(*serial) {
        vec![newest]
    } else if let (true, Some(from)) = (asked(rtype::IXFR), from) {
        let mut chain = vec![newest.clone()];
        for pair in versions[from..].windows(2) {
            let [(old, before), (new, after)] = pair else { continue };
            chain.push(soa(zone, *old));
            chain.extend(before.difference(after).cloned());
            chain.push(soa(zone, *new));
            chain.extend(after.difference(before).cloned());
        }
        chain.push(newest);
        chain
    } else if asked(rtype::AXFR) || asked(rtype::IXFR) {
        std::iter::once(newest.clone()).chain(records.iter().cloned()).chain([newest]).collect()
    } else {
        let matches = |record: &&Record| question(&record.owner, record.rtype) == message.question;
        let answer: Vec<Record> = records.iter().filter(matches).cloned().collect();
        let authority = if answer.is_empty() { vec![newest] } else { Vec::new() };
        return Some(respond(&message, &answer, &authority));
    };
    Some(respond(&message, &answer, &[]))
}

/// An authoritative response (RFC 1035 section 4.1).
fn respond(request: &Message, answer: &[Record], authority: &[Record]) -> Vec<u8> {
    let count = |records: &[Record]| u16::try_from(records.len()).expect("a small zone");
    let counts = [request.id, 0x8400, 1, count(answer), count(authority), 0];
    let mut response = counts.map(u16::to_be_bytes).concat();
    response.extend_from_slice(&request.question);
    answer.iter().chain(authority).for_each(|record| response.extend_from_slice(&encode(record)));
    response
}

fn serve_datagrams(socket: &UdpSocket, zone: &Dname, versions: &Mutex<Vec<Version>>) {
    let mut buffer = [0; 4096];
    loop {
        // Errors are those of clients that have gone.
        let Ok((length, client)) = socket.recv_from(&mut buffer) else { continue };
        if let Some(response) = answer(&buffer[..length], zone, versions) {
            let _ = socket.send_to(&response, client);
        }
    }
}

fn serve_connections(listener: &TcpListener, zone: &Dname, versions: &Arc<Mutex<Vec<Version>>>) {
    for stream in listener.incoming() {
        let (Ok(mut stream), zone, versions) = (stream, zone.clone(), Arc::clone(versions)) else { continue };
        std::thread::spawn(move || {
            while let Ok(request) = read_frame(&mut stream) {
                let Some(response) = answer(&request, &zone, &versions) else { return };
                if write_frame(&mut stream, &response).is_err() {
                    return;
                }
            }
        });
    }
}
