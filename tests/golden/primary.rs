//! A primary whose zones change only when a test says so: SOA answers and whole zones, over UDP and TCP, nothing else. What
//! it refuses it refuses at once, so that nothing depends on how long somebody waits.

use crate::harness::{Dname, Port, Record, read_frame, rtype, write_frame};
use std::collections::HashMap;
use std::io;
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const IXFR: u16 = 251;
const AXFR: u16 = 252;
const REFUSED: u8 = 5;

/// The zones by their names in lowercase, without those that are refused.
type Zones = Arc<Mutex<HashMap<Dname, Vec<Record>>>>;

/// A primary; its threads end with the process.
pub struct Primary {
    address: SocketAddr,
    zones: Zones,
}

impl Primary {
    pub fn start() -> Primary {
        let address = Port::reserve().release();
        let (udp, tcp) = (UdpSocket::bind(address).unwrap(), TcpListener::bind(address).unwrap());
        let zones = Zones::default();
        let shared = zones.clone();
        std::thread::spawn(move || {
            let mut query = [0; 512];
            while let Ok((length, from)) = udp.recv_from(&mut query) {
                if let Some(reply) = answer(&query[..length], &shared) {
                    _ = udp.send_to(&reply, from);
                }
            }
        });
        let shared = zones.clone();
        std::thread::spawn(move || {
            for stream in tcp.incoming() {
                let shared = shared.clone();
                std::thread::spawn(move || -> io::Result<()> {
                    let mut stream = stream?;
                    stream.set_read_timeout(Some(Duration::from_secs(20)))?;
                    while let Ok(query) = read_frame(&mut stream) {
                        let Some(reply) = answer(&query, &shared) else { break };
                        write_frame(&mut stream, &reply)?;
                    }
                    Ok(())
                });
            }
        });
        Primary { address, zones }
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Puts a version in place of the one before; the SOA comes first.
    pub fn publish(&self, records: Vec<Record>) {
        assert_eq!(records[0].rtype, rtype::SOA);
        self.zones.lock().unwrap().insert(records[0].owner.lower(), records);
    }

    /// Refuses a zone from now on.
    pub fn refuse(&self, zone: &str) {
        self.zones.lock().unwrap().remove(&Dname::parse(zone));
    }
}

/// The response to a message, if it is a query with one question.
fn answer(query: &[u8], zones: &Zones) -> Option<Vec<u8>> {
    let mut end = 12;
    while *query.get(end)? != 0 {
        end += 1 + usize::from(query[end]);
    }
    let name = Dname(query[12..=end].to_vec()).lower();
    let question = query.get(12..end + 5)?;
    let qtype = u16::from_be_bytes([question[question.len() - 4], question[question.len() - 3]]);
    if query[2] & 0x80 != 0 {
        return None;
    }
    let zones = zones.lock().unwrap();
    let records: Vec<&Record> = match (zones.get(&name), qtype) {
        (Some(zone), rtype::SOA) => vec![&zone[0]],
        // RFC 5936 section 2.2: the SOA begins and ends the zone; RFC 1995 section 4: so it does in place of a difference.
        (Some(zone), AXFR | IXFR) => zone.iter().chain([&zone[0]]).collect(),
        _ => Vec::new(),
    };
    let rcode = if records.is_empty() { REFUSED } else { 0 };
    // QR and AA.
    let mut reply = vec![query[0], query[1], 0x84 | (query[2] & 1), rcode, 0, 1];
    reply.extend((records.len() as u16).to_be_bytes());
    reply.extend([0; 4]);
    reply.extend(question);
    for record in records {
        reply.extend(&record.owner.0);
        reply.extend(record.rtype.to_be_bytes());
        reply.extend([0, 1]);
        reply.extend(record.ttl.to_be_bytes());
        reply.extend((record.rdata.len() as u16).to_be_bytes());
        reply.extend(&record.rdata);
    }
    Some(reply)
}
