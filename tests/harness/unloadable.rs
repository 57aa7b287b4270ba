//! A primary with a zone that no name server loads.

use super::Record;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A primary that has what no name server loads: answers every question with its SOA, and every transfer with all records,
/// until it is told to go away.
pub fn start_unloadable_primary(records: Vec<Record>, is_away: &Arc<AtomicBool>) -> SocketAddr {
    let tcp = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = tcp.local_addr().expect("an address");
    let udp = UdpSocket::bind(address).expect("the same port");
    let reply = |query: &[u8], records: &[&Record]| {
        let end = 12 + query[12..].iter().position(|octet| *octet == 0).expect("a name") + 5;
        let mut reply = [&query[..2], &[0x84, 0, 0, 1, 0, records.len() as u8, 0, 0, 0, 0], &query[12..end]].concat();
        for record in records {
            reply.extend_from_slice(&record.owner.0);
            reply.extend_from_slice(&record.rtype.to_be_bytes());
            reply.extend_from_slice(&[0, 1]);
            reply.extend_from_slice(&record.ttl.to_be_bytes());
            reply.extend_from_slice(&(record.rdata.len() as u16).to_be_bytes());
            reply.extend_from_slice(&record.rdata);
        }
        reply
    };
    let polled = records.clone();
    let (no_datagrams, no_connections) = (is_away.clone(), is_away.clone());
    std::thread::spawn(move || {
        let mut query = [0; 512];
        while let Ok((length, client)) = udp.recv_from(&mut query) {
            if !no_datagrams.load(Ordering::SeqCst) {
                let _ = udp.send_to(&reply(&query[..length], &[&polled[0]]), client);
            }
        }
    });
    std::thread::spawn(move || {
        for connection in tcp.incoming() {
            let Ok(mut connection) = connection else { return };
            let mut length = [0; 2];
            if no_connections.load(Ordering::SeqCst) || connection.read_exact(&mut length).is_err() {
                continue;
            }
            let mut query = vec![0; usize::from(u16::from_be_bytes(length))];
            let all: Vec<&Record> = records.iter().chain([&records[0]]).collect();
            if connection.read_exact(&mut query).is_ok() {
                let reply = reply(&query, &all);
                let _ = connection.write_all(&[&(reply.len() as u16).to_be_bytes(), &reply[..]].concat());
            }
        }
    });
    address
}
