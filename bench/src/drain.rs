//! A client that takes a whole zone and throws it away: how fast a server gives it.
//!
//! Only headers are looked at, for the number of records, so that the client is not what is measured.
//!
//! Cost: O(octets) copied out of the kernel. RFC 5936.

use crate::probe::question;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

/// Type AXFR.
const AXFR: u16 = 252;
/// How long a server may be silent.
const PATIENCE: Duration = Duration::from_secs(60);
/// As much is read at once.
const BUFFER_BYTES: usize = 1 << 20;

/// Transfers a zone that has so many records; the SOA comes twice (RFC 5936 section 2.2).
pub fn take(server: SocketAddr, zone: &str, records: usize) -> io::Result<Duration> {
    let start = Instant::now();
    let mut stream = TcpStream::connect(server)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let message = question(zone, AXFR, 1);
    stream.write_all(&[&(message.len() as u16).to_be_bytes(), &message[..]].concat())?;
    let mut buffer = vec![0; BUFFER_BYTES];
    // Where what has been read begins and ends.
    let (mut begin, mut end, mut found) = (0, 0, 0);
    while found < records + 1 {
        let length =
            (end - begin >= 2).then(|| 2 + usize::from(u16::from_be_bytes([buffer[begin], buffer[begin + 1]])));
        match length {
            Some(length) if end - begin >= length => {
                let header = &buffer[begin + 2..begin + length];
                if length < 14 || header[3] & 15 != 0 {
                    return Err(io::Error::other(format!("{server} gives no transfer of {zone}")));
                }
                found += usize::from(u16::from_be_bytes([header[6], header[7]]));
                begin += length;
            }
            _ => {
                // A message is at most a sixteenth of the buffer.
                if buffer.len() - begin < 1 << 17 {
                    buffer.copy_within(begin..end, 0);
                    (begin, end) = (0, end - begin);
                }
                let read = stream.read(&mut buffer[end..])?;
                if read == 0 {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
                end += read;
            }
        }
    }
    Ok(start.elapsed())
}
