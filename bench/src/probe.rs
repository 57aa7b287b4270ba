//! A question over UDP as often as needed until the answer is the awaited one.
//!
//! Octets in, octets out: reading an answer takes a microsecond or two, so the time until an answer is right is that of
//! the server. The pause between questions grows with the time waited, so that asking takes no notable part of the
//! processor, and stays below a hundredth of what is measured.
//!
//! Cost: O(message) a question. Formats: RFC 1035 sections 4.1 and 4.2.2.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream, UdpSocket};
use std::time::{Duration, Instant};

/// Type numbers of what is asked for.
pub const A: u16 = 1;
const SOA: u16 = 6;
/// Octets of a message header.
pub const HEADER_BYTES: usize = 12;
/// The shortest and the longest pause between questions.
const PAUSES: (Duration, Duration) = (Duration::from_micros(100), Duration::from_millis(5));
/// How long one answer may take; a server that loads a zone may think.
const PATIENCE: Duration = Duration::from_millis(500);

/// A client of one server.
pub struct Probe {
    server: SocketAddr,
    socket: UdpSocket,
    next_id: u16,
}

impl Probe {
    /// A client that asks from 127.0.0.1.
    pub fn new(server: SocketAddr) -> Probe {
        let socket = UdpSocket::bind("127.0.0.1:0").expect("a UDP port of loopback is free");
        socket.connect(server).expect("loopback can be reached");
        socket.set_read_timeout(Some(PATIENCE)).expect("the time is not zero");
        Probe { server, socket, next_id: 0 }
    }

    /// Tells the server that a zone has changed (RFC 1996 section 3.7) and does not wait for the reply.
    pub fn notify(&mut self, zone: &str) {
        let mut message = self.question(zone, SOA);
        // Opcode NOTIFY and AA.
        message[2] = 4 << 3 | 4;
        self.socket.send(&message).expect("loopback takes a datagram");
    }

    /// Whether an A question for the name is answered with the address.
    pub fn has_address(&mut self, name: &str, address: Ipv4Addr) -> bool {
        self.ask(name, A).is_some_and(|answer| rdatas(&answer, A).contains(&&address.octets()[..]))
    }

    /// Whether an A question for the name is answered with any address.
    pub fn has_records(&mut self, name: &str) -> bool {
        self.ask(name, A).is_some_and(|answer| !rdatas(&answer, A).is_empty())
    }

    /// Whether a datagram comes back.
    pub fn is_echoed(&mut self) -> bool {
        self.ask("example", A).is_some()
    }

    /// The serial of a zone over UDP.
    pub fn serial(&mut self, zone: &str) -> Option<u32> {
        read_serial(&self.ask(zone, SOA)?)
    }

    /// The serial of a zone over a TCP connection of its own.
    pub fn serial_over_tcp(&mut self, zone: &str) -> Option<u32> {
        let message = self.question(zone, SOA);
        let mut stream = TcpStream::connect_timeout(&self.server, PATIENCE).ok()?;
        stream.set_read_timeout(Some(PATIENCE)).ok()?;
        stream.write_all(&[&(message.len() as u16).to_be_bytes(), &message[..]].concat()).ok()?;
        let mut length = [0; 2];
        stream.read_exact(&mut length).ok()?;
        let mut answer = vec![0; usize::from(u16::from_be_bytes(length))];
        stream.read_exact(&mut answer).ok()?;
        read_serial(&answer)
    }

    /// Asks until the name has the address; the time from `start` on. None when that is not within `deadline`.
    pub fn time_until(
        &mut self,
        name: &str,
        address: Ipv4Addr,
        start: Instant,
        deadline: Duration,
    ) -> Option<Duration> {
        while start.elapsed() < deadline {
            if self.has_address(name, address) {
                return Some(start.elapsed());
            }
            std::thread::sleep((start.elapsed() / 200).clamp(PAUSES.0, PAUSES.1));
        }
        None
    }

    /// Asks one question; none when no answer comes, or one of another rcode than NOERROR.
    fn ask(&mut self, name: &str, rtype: u16) -> Option<Vec<u8>> {
        let question = self.question(name, rtype);
        // A server that does not listen yet shows as an error of the send or of the receipt.
        self.socket.send(&question).ok()?;
        let mut answer = vec![0; 65_535];
        loop {
            let length = self.socket.recv(&mut answer).ok()?;
            if length >= HEADER_BYTES && answer[..2] == question[..2] {
                answer.truncate(length);
                return (answer[3] & 0x0f == 0).then_some(answer);
            }
        }
    }

    /// A question with the next id.
    fn question(&mut self, name: &str, rtype: u16) -> Vec<u8> {
        self.next_id = self.next_id.wrapping_add(1);
        question(name, rtype, self.next_id)
    }
}

/// A question without EDNS.
pub fn question(name: &str, rtype: u16, id: u16) -> Vec<u8> {
    let mut message = id.to_be_bytes().to_vec();
    message.extend_from_slice(&[0, 0, 0, 1, 0, 0, 0, 0, 0, 0]);
    put_name(name, &mut message);
    message.extend_from_slice(&rtype.to_be_bytes());
    message.extend_from_slice(&[0, 1]);
    message
}

/// Appends a name in wire form.
pub fn put_name(name: &str, message: &mut Vec<u8>) {
    for label in name.split('.') {
        message.push(label.len() as u8);
        message.extend_from_slice(label.as_bytes());
    }
    message.push(0);
}

/// The serial in the SOA of an answer.
fn read_serial(answer: &[u8]) -> Option<u32> {
    let rdata = *rdatas(answer, SOA).first()?;
    let serial = rdata.get(rdata.len().checked_sub(20)?..)?.first_chunk()?;
    Some(u32::from_be_bytes(*serial))
}

/// The RDATA of all records of a type in the answer section, as far as the message can be read.
pub fn rdatas(answer: &[u8], rtype: u16) -> Vec<&[u8]> {
    let mut found = Vec::new();
    let mut rest = answer.get(HEADER_BYTES..).and_then(skip_name).and_then(|rest| rest.get(4..));
    for _ in 0..u16::from_be_bytes([answer[6], answer[7]]) {
        let Some(fixed) = rest.and_then(skip_name).filter(|rest| rest.len() >= 10) else { break };
        let end = 10 + usize::from(u16::from_be_bytes([fixed[8], fixed[9]]));
        if fixed[..2] == rtype.to_be_bytes() {
            found.extend(fixed.get(10..end));
        }
        rest = fixed.get(end..);
    }
    found
}

/// What follows a name, which ends with the root or with a pointer.
pub fn skip_name(mut bytes: &[u8]) -> Option<&[u8]> {
    loop {
        match *bytes.first()? {
            0 => return bytes.get(1..),
            length if length >= 0xc0 => return bytes.get(2..),
            length => bytes = bytes.get(1 + usize::from(length)..)?,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_read_whatever_stands_before() {
        let mut probe = Probe::new("127.0.0.1:9".parse().unwrap());
        let mut message = probe.question("a.example", A);
        message[7] = 3;
        message.extend_from_slice(&[0xc0, 12, 0, 5, 0, 1, 0, 0, 0, 30, 0, 2, 0xc0, 14]);
        message.extend_from_slice(&[0xc0, 14, 0, 1, 0, 1, 0, 0, 0, 30, 0, 4, 10, 0, 0, 1]);
        message.extend_from_slice(&[1, b'b', 0xc0, 14, 0, 1, 0, 1, 0, 0, 0, 30, 0, 4, 10, 0, 0, 2]);
        assert_eq!(rdatas(&message, A), [[10, 0, 0, 1], [10, 0, 0, 2]]);
        assert_eq!(rdatas(&message[..message.len() - 1], A).len(), 1, "a record that is cut off is none");
        assert_eq!(read_serial(&message), None);
    }
}
