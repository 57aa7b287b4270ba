//! Whether servers give the same answers: response code, AA, and the records of the answer section, whatever their order,
//! compression and case.
//!
//! Cost: O(octets) a message. RFC 1035 section 4.1.

use crate::question::{HEADER_BYTES, Questions};
use std::net::{SocketAddr, UdpSocket};
use std::time::Duration;

/// Attempts for each question, and how long one waits.
const ATTEMPTS: usize = 3;
const PATIENCE: Duration = Duration::from_secs(1);
/// Types whose RDATA ends with a name, and what stands before it.
const NAMED: [(u16, usize); 2] = [(5, 0), (33, 6)];

/// What one answer says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Said {
    rcode: u8,
    authoritative: bool,
    /// Owner, type, class and TTL, and RDATA, all in a form of their own, sorted.
    records: Vec<Vec<u8>>,
}

/// The answers of a server to a sample of the questions; none where no whole answer came.
pub fn sample(server: SocketAddr, questions: &Questions, count: usize) -> Vec<Option<Said>> {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a UDP port of loopback is free");
    socket.connect(server).expect("loopback can be reached");
    socket.set_read_timeout(Some(PATIENCE)).expect("the time is not zero");
    let step = (questions.len() / count).max(1);
    // Not a divisor of the mix, so that every kind of question is in the sample.
    let step = if step.is_multiple_of(20) { step + 1 } else { step };
    let ask = |index: usize| (0..ATTEMPTS).find_map(|_| ask(&socket, questions.get(index).1, index as u16));
    (0..count).map(|number| ask(number * step % questions.len())).collect()
}

/// Asks once.
fn ask(socket: &UdpSocket, question: &[u8], id: u16) -> Option<Said> {
    let message = [&id.to_be_bytes(), &question[2..]].concat();
    socket.send(&message).ok()?;
    let mut reply = [0; 4096];
    loop {
        let length = socket.recv(&mut reply).ok()?;
        if length >= HEADER_BYTES && reply[..2] == message[..2] {
            return read(&reply[..length]);
        }
    }
}

/// Reads an answer; none when it is malformed.
fn read(message: &[u8]) -> Option<Said> {
    let number = |at: usize| Some(u16::from_be_bytes([*message.get(at)?, *message.get(at + 1)?]));
    let (_, after) = read_name(message, HEADER_BYTES)?;
    let mut position = after + 4;
    let mut records = Vec::new();
    for _ in 0..number(6)? {
        let (mut record, fixed) = read_name(message, position)?;
        let (rtype, length) = (number(fixed)?, usize::from(number(fixed + 8)?));
        record.extend_from_slice(message.get(fixed..fixed + 8)?);
        let start = fixed + 10;
        match NAMED.iter().find(|(named, _)| *named == rtype) {
            Some((_, before)) => {
                record.extend_from_slice(message.get(start..start + before)?);
                record.extend(read_name(message, start + before)?.0);
            }
            None => record.extend_from_slice(message.get(start..start + length)?),
        }
        records.push(record);
        position = start + length;
    }
    records.sort();
    Some(Said { rcode: message[3] & 15, authoritative: message[2] & 4 != 0, records })
}

/// A name in lowercase, and where it ends.
fn read_name(message: &[u8], start: usize) -> Option<(Vec<u8>, usize)> {
    let (mut name, mut position, mut end) = (Vec::new(), start, None);
    // A name has at most 127 labels; what leads around in circles is none.
    for _ in 0..256 {
        match *message.get(position)? {
            0 => {
                name.push(0);
                return Some((name, end.unwrap_or(position + 1)));
            }
            high @ 0xc0.. => {
                end.get_or_insert(position + 2);
                position = usize::from(high & 0x3f) << 8 | usize::from(*message.get(position + 1)?);
            }
            length => {
                let next = position + 1 + usize::from(length);
                name.extend(message.get(position..next)?.to_ascii_lowercase());
                position = next;
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_compression_and_case_make_no_difference() {
        let head = |count| [&[0, 0, 0x84, 0, 0, 1, 0, count, 0, 0, 0, 0], &b"\x01a\x00"[..], &[0, 5, 0, 1]].concat();
        let fixed = |length| [0, 5, 0, 1, 0, 0, 0, 30, 0, length];
        let record = |owner: &[u8], rdata: &[u8]| [owner, &fixed(rdata.len() as u8), rdata].concat();
        let (first, second) = (record(&[0xc0, 12], b"\x01b\x00"), record(b"\x01A\x00", &[1, b'C', 0xc0, 14]));
        let one = [head(2), first.clone(), second.clone()].concat();
        let other = [head(2), record(b"\x01a\x00", b"\x01c\x00"), record(&[0xc0, 12], b"\x01B\x00")].concat();
        assert!(read(&one).is_some());
        assert_eq!(read(&one), read(&other));
        assert_ne!(read(&one), read(&[head(1), first].concat()));
        assert_eq!(read(&one[..one.len() - 3]), None);
    }
}
