//! A primary whose zones take far more memory than octets on the wire: every name of a record is a pointer to one that
//! is as long as names can be, and capitals make the receiver keep each owner twice.

use crate::harness::{Dname, read_frame, write_frame};
use std::collections::HashMap;
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

const SOA: u16 = 6;
const MINFO: u16 = 14;
const A: u16 = 1;
const IXFR: u16 = 251;
const AXFR: u16 = 252;

/// Contents of a zone.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Contents {
    /// Names with one address each.
    Plain(u32),
    /// Names with one record of two long names each.
    Swelling(u32),
    /// Names of as many labels as a name can have: there are a hundred empty non-terminals above each.
    Deep(u32),
}

/// A version.
#[derive(Clone, Copy, Debug)]
pub struct Version {
    pub serial: u32,
    pub contents: Contents,
    /// Pause after each message.
    pub pause: Duration,
    /// Additions in the answer to a query for differences, from whatever serial, beside removals.
    pub additions: Option<Contents>,
    /// How many of the first plain names it removes in such an answer.
    pub removals: u32,
}

impl Version {
    pub fn new(serial: u32, contents: Contents) -> Version {
        Version { serial, contents, pause: Duration::ZERO, additions: None, removals: 0 }
    }
}

/// A running primary.
pub struct Swelling {
    pub address: SocketAddr,
    versions: Arc<Mutex<HashMap<String, Version>>>,
    /// Octets sent over TCP.
    sent: Arc<AtomicU64>,
    /// Questions for whole zones.
    wholes: Arc<AtomicU64>,
    stop: Arc<AtomicBool>,
}

impl Drop for Swelling {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

impl Swelling {
    /// Listens on a free port.
    pub fn start() -> Swelling {
        let (tcp, udp) = (0..50)
            .find_map(|_| {
                let tcp = TcpListener::bind("127.0.0.1:0").expect("a free port");
                let udp = UdpSocket::bind(tcp.local_addr().expect("an address")).ok()?;
                Some((tcp, udp))
            })
            .expect("a port that is free on UDP and TCP");
        let primary = Swelling {
            address: tcp.local_addr().expect("an address"),
            versions: Arc::default(),
            sent: Arc::default(),
            wholes: Arc::default(),
            stop: Arc::default(),
        };
        let (versions, stop) = (primary.versions.clone(), primary.stop.clone());
        udp.set_read_timeout(Some(Duration::from_millis(100))).expect("a timeout");
        thread::spawn(move || {
            let mut buffer = [0; 512];
            while !stop.load(Ordering::Relaxed) {
                let Ok((length, client)) = udp.recv_from(&mut buffer) else { continue };
                let question = Question::read(&buffer[..length]);
                let Some(version) = versions.lock().unwrap().get(&question.zone).copied() else { continue };
                let mut message = Message::answer(&question, true);
                message.record(&question.origin, SOA, &soa(version.serial));
                let _ = udp.send_to(&message.0, client);
            }
        });
        let (versions, stop) = (primary.versions.clone(), primary.stop.clone());
        let (sent, wholes) = (primary.sent.clone(), primary.wholes.clone());
        thread::spawn(move || {
            for stream in tcp.incoming() {
                if stop.load(Ordering::Relaxed) {
                    return;
                }
                let (versions, sent, wholes) = (versions.clone(), sent.clone(), wholes.clone());
                // A client that has heard enough goes away.
                thread::spawn(move || stream.map(|stream| serve(stream, &versions, &sent, &wholes)));
            }
        });
        primary
    }

    /// Gives a zone a version.
    pub fn set(&self, zone: &str, version: Version) {
        self.versions.lock().unwrap().insert(Dname::parse(zone).to_string(), version);
    }

    /// Octets sent so far.
    pub fn sent(&self) -> u64 {
        self.sent.load(Ordering::Relaxed)
    }

    /// Returns the number of queries for a whole zone.
    pub fn wholes(&self) -> u64 {
        self.wholes.load(Ordering::Relaxed)
    }
}

/// Answers what comes over a connection.
fn serve(
    mut stream: TcpStream,
    versions: &Mutex<HashMap<String, Version>>,
    sent: &AtomicU64,
    wholes: &AtomicU64,
) -> std::io::Result<()> {
    loop {
        let query = read_frame(&mut stream)?;
        let question = Question::read(&query);
        let Some(version) = versions.lock().unwrap().get(&question.zone).copied() else { return Ok(()) };
        let mut send = |message: &Message| {
            sent.fetch_add(message.0.len() as u64 + 2, Ordering::Relaxed);
            write_frame(&mut stream, &message.0)?;
            thread::sleep(version.pause);
            Ok::<_, std::io::Error>(())
        };
        let soa_record = |message: &mut Message, serial| message.record(&question.origin, SOA, &soa(serial));
        wholes.fetch_add(u64::from(question.rtype == AXFR), Ordering::Relaxed);
        let mut first = Message::answer(&question, true);
        soa_record(&mut first, version.serial);
        match (question.rtype, version.additions) {
            (IXFR, additions) if additions.is_some() || version.removals > 0 => {
                soa_record(&mut first, question.serial);
                send(&first)?;
                for message in messages(&question, Contents::Plain(version.removals), b'x') {
                    send(&message)?;
                }
                let mut middle = Message::answer(&question, false);
                soa_record(&mut middle, version.serial);
                send(&middle)?;
                for message in messages(&question, additions.unwrap_or(Contents::Plain(0)), b'y') {
                    send(&message)?;
                }
            }
            (AXFR | IXFR, _) => {
                send(&first)?;
                for message in messages(&question, version.contents, b'x') {
                    send(&message)?;
                }
            }
            _ => {
                send(&first)?;
                continue;
            }
        }
        let mut last = Message::answer(&question, false);
        soa_record(&mut last, version.serial);
        send(&last)?;
    }
}

/// The records of a zone, in messages as large as they can be.
fn messages(question: &Question, contents: Contents, kind: u8) -> impl Iterator<Item = Message> {
    let (count, each) = match contents {
        Contents::Plain(count) => (count, 40),
        Contents::Swelling(count) => (count, 24),
        Contents::Deep(count) => (count, 260),
    };
    let (question, at_once) = (question.clone(), 60_000 / each);
    (0..count).step_by(at_once as usize).map(move |start| {
        let mut message = Message::answer(&question, false);
        let origin = &question.origin[..];
        // A name as long as can be with a label of five octets in front.
        let mut long = Vec::new();
        while long.len() + origin.len() + 8 < 255 {
            let label = (255 - 7 - long.len() - origin.len()).min(63);
            long.push(label as u8);
            long.resize(long.len() + label, b'l');
        }
        let long = [&long[..], origin].concat();
        if matches!(contents, Contents::Swelling(_)) {
            message.record(&long, A, &[192, 0, 2, 1]);
        }
        let pointer = [0xc0, 12];
        for number in start..count.min(start + at_once) {
            match contents {
                Contents::Plain(_) => {
                    let owner = [&[9, kind], format!("{number:08x}").as_bytes(), origin].concat();
                    message.record(&owner, A, &number.to_be_bytes());
                }
                Contents::Swelling(_) => {
                    let digit =
                        |place: u32| b"0123456789abcdefghijklmnopqrstuvwxyz"[(number / 36u32.pow(place) % 36) as usize];
                    let label = [5, kind.to_ascii_uppercase(), digit(3), digit(2), digit(1), digit(0)];
                    message.record(&[&label[..], &pointer].concat(), MINFO, &[pointer, pointer].concat());
                }
                Contents::Deep(_) => {
                    let mut owner = Vec::new();
                    while owner.len() + origin.len() + 12 < 255 {
                        owner.extend_from_slice(b"\x01d");
                    }
                    owner.extend_from_slice(&[9, kind]);
                    owner.extend_from_slice(format!("{number:08x}").as_bytes());
                    message.record(&[&owner[..], origin].concat(), A, &[192, 0, 2, 1]);
                }
            }
        }
        message
    })
}

/// Question of a client.
#[derive(Clone)]
struct Question {
    id: [u8; 2],
    zone: String,
    origin: Vec<u8>,
    rtype: u16,
    /// The serial of the SOA that comes with a question for differences.
    serial: u32,
}

impl Question {
    fn read(query: &[u8]) -> Question {
        let mut end = 12;
        while query[end] != 0 {
            end += usize::from(query[end]) + 1;
        }
        let origin = query[12..=end].to_vec();
        let rtype = u16::from_be_bytes([query[end + 1], query[end + 2]]);
        let serial = &query[query.len().saturating_sub(20)..];
        let serial = u32::from_be_bytes(serial[..4].try_into().expect("four octets"));
        Question { id: [query[0], query[1]], zone: Dname(origin.clone()).to_string(), origin, rtype, serial }
    }
}

fn soa(serial: u32) -> Vec<u8> {
    let numbers = [serial, 30, 2, 2_592_000, 30].map(u32::to_be_bytes);
    [&b"\x02ns\x00\x01h\x00"[..], numbers.as_flattened()].concat()
}

/// A response in the making.
struct Message(Vec<u8>);

impl Message {
    fn answer(question: &Question, whole: bool) -> Message {
        let mut bytes = [&question.id[..], &[0x84, 0, 0, u8::from(whole), 0, 0, 0, 0, 0, 0]].concat();
        if whole {
            bytes.extend_from_slice(&question.origin);
            bytes.extend_from_slice(&question.rtype.to_be_bytes());
            bytes.extend_from_slice(&[0, 1]);
        }
        Message(bytes)
    }

    fn record(&mut self, owner: &[u8], rtype: u16, rdata: &[u8]) {
        let count = u16::from_be_bytes([self.0[6], self.0[7]]) + 1;
        self.0[6..8].copy_from_slice(&count.to_be_bytes());
        self.0.extend_from_slice(owner);
        for number in [rtype, 1, 0, 30, rdata.len() as u16] {
            self.0.extend_from_slice(&number.to_be_bytes());
        }
        self.0.extend_from_slice(rdata);
    }
}
