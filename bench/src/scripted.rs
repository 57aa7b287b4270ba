//! A primary that is nothing but its answers: a zone as it was first, and the differences since, all from memory.
//!
//! NSD takes seconds for the next version of a large zone; here one is ready within milliseconds, so that many can follow
//! each other as fast as a server takes them.
//!
//! Cost: the octets of the zone and of all differences; a version O(names that change). RFC 1995, RFC 5936.

use crate::generate::Datacenter;
use crate::harness::Port;
use crate::probe::{HEADER_BYTES, put_name, skip_name};
use std::collections::HashMap;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

const A: u16 = 1;
const NS: u16 = 2;
const CNAME: u16 = 5;
const SOA: u16 = 6;
const TXT: u16 = 16;
const SRV: u16 = 33;
const IXFR: u16 = 251;
const AXFR: u16 = 252;
/// The response code of an answer that is none.
const REFUSED: u8 = 5;
/// Seconds that CNS gives its records.
const TTL: u32 = 30;
/// Octets of the records of a message: room for header, question and one more record is left.
const MESSAGE_BYTES: usize = 60_000;

/// Records as they go into messages.
#[derive(Default)]
struct Records {
    /// The number of records of each message, and their octets.
    parts: Vec<(u16, Vec<u8>)>,
}

impl Records {
    /// Appends a record.
    fn push(&mut self, owner: &[u8], rtype: u16, rdata: &[u8]) {
        if self.parts.last().is_none_or(|(_, part)| part.len() > MESSAGE_BYTES) {
            self.parts.push((0, Vec::with_capacity(MESSAGE_BYTES + 4096)));
        }
        let (count, part) = self.parts.last_mut().expect("one was pushed");
        *count += 1;
        part.extend_from_slice(owner);
        for number in [rtype, 1] {
            part.extend_from_slice(&number.to_be_bytes());
        }
        part.extend_from_slice(&TTL.to_be_bytes());
        part.extend_from_slice(&(rdata.len() as u16).to_be_bytes());
        part.extend_from_slice(rdata);
    }
}

/// What is served.
struct Script {
    origin: Vec<u8>,
    /// The newest serial.
    serial: u32,
    /// The serial of the whole zone, and its records without the last SOA.
    first: (u32, Records),
    /// The difference from each version to the next, from the first on: two SOA records included.
    steps: Vec<Records>,
    /// The addresses of names that have changed: whoever doubts a removal asks for them.
    changed: HashMap<Vec<u8>, Ipv4Addr>,
}

/// A running primary, which ends with the process.
pub struct Scripted {
    script: Arc<Mutex<Script>>,
    address: SocketAddr,
    /// True while it does as if it were not there.
    is_down: Arc<AtomicBool>,
}

impl Scripted {
    /// Serves a zone in its present version.
    pub fn start(datacenter: &Datacenter) -> Scripted {
        let mut text = Vec::new();
        datacenter.write(&mut text).expect("memory takes a zone");
        let text = String::from_utf8(text).expect("zone files are text");
        let (origin, serial) = (name(&datacenter.zone), datacenter.serial);
        let first = (serial, read_zone(&text, &datacenter.zone));
        let script = Arc::new(Mutex::new(Script { origin, serial, first, steps: Vec::new(), changed: HashMap::new() }));
        let mut port = Port::reserve();
        let address = port.release();
        let (udp, tcp) = (UdpSocket::bind(address), TcpListener::bind(address));
        let (udp, tcp) = (udp.expect("the port was free"), tcp.expect("the port was free"));
        let is_down = Arc::new(AtomicBool::new(false));
        let (shared, down) = (script.clone(), is_down.clone());
        std::thread::spawn(move || answer_datagrams(&udp, &shared, &down));
        let (shared, down) = (script.clone(), is_down.clone());
        std::thread::spawn(move || {
            for stream in tcp.incoming().flatten() {
                let (shared, down) = (shared.clone(), down.clone());
                // A client that has gone needs no answer.
                std::thread::spawn(move || _ = answer_stream(stream, &shared, &down));
            }
        });
        Scripted { script, address, is_down }
    }

    /// Takes it away, or brings it back: datagrams are not answered, connections are closed.
    pub fn set_down(&self, is_down: bool) {
        self.is_down.store(is_down, Ordering::Relaxed);
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Changes names of the datacenter, which must be the one served, and serves the next version.
    pub fn change(&self, datacenter: &mut Datacenter, first: usize, count: usize) {
        let (mut step, mut changed) = (Records::default(), Vec::with_capacity(count));
        for is_new in [false, true] {
            if is_new {
                datacenter.change(first, count);
            }
            step.push(&name(&datacenter.zone), SOA, &soa(&datacenter.zone, datacenter.serial));
            for number in first..first + count {
                let owner = name(&format!("{}.{}", datacenter.owner(number), datacenter.zone));
                step.push(&owner, A, &datacenter.address(number).octets());
                if is_new {
                    changed.push((owner, datacenter.address(number)));
                }
            }
        }
        step.parts.iter_mut().for_each(|(_, part)| part.shrink_to_fit());
        let mut script = self.lock();
        script.steps.push(step);
        script.changed.extend(changed);
        script.serial = datacenter.serial;
    }

    /// The script, for a moment.
    fn lock(&self) -> std::sync::MutexGuard<'_, Script> {
        self.script.lock().expect("no thread of the primary panics")
    }
}

impl Script {
    /// The answers to a question, whole messages; REFUSED for what is not served.
    fn answer(&self, question: &[u8]) -> Option<Vec<Vec<u8>>> {
        let behind = skip_name(question.get(HEADER_BYTES..)?)?;
        let rtype = u16::from_be_bytes(*behind.first_chunk()?);
        let asked = &question[..question.len() - behind.len() + 4];
        let message = |count: u16, records: &[u8]| {
            // A response with AA to one question, without its EDNS.
            let head = [&question[..2], &[0x84, 0, 0, 1], &count.to_be_bytes()[..], &[0; 4]].concat();
            [&head[..], &asked[HEADER_BYTES..], records].concat()
        };
        let mut newest = Records::default();
        newest.push(&self.origin, SOA, &soa_of(&self.origin, self.serial));
        let ends = [&newest];
        let parts = |records: &[&Records]| {
            let parts = records.iter().flat_map(|records| &records.parts);
            parts.map(|(count, part)| message(*count, part)).collect::<Vec<_>>()
        };
        let address = self.changed.get(&question[HEADER_BYTES..question.len() - behind.len()]);
        match (rtype, address) {
            (SOA, _) => Some(parts(&ends)),
            (AXFR, _) => (self.serial == self.first.0).then(|| parts(&[&self.first.1, &newest])),
            (IXFR, _) => {
                // The version that the client has stands in the authority section.
                let rdata = skip_name(&behind[4..])?.get(10..)?;
                let timers = skip_name(skip_name(rdata)?)?;
                let has = u32::from_be_bytes(*timers.first_chunk()?);
                let steps = self.steps.get((has.checked_sub(self.first.0)?) as usize..)?;
                if steps.is_empty() {
                    return Some(parts(&ends));
                }
                let steps = steps.iter().collect::<Vec<_>>();
                Some(parts(&[&ends[..], &steps, &ends].concat()))
            }
            (A, Some(address)) => {
                let mut records = Records::default();
                records.push(&[0xc0, HEADER_BYTES as u8], A, &address.octets());
                Some(parts(&[&records]))
            }
            _ => {
                let mut refused = message(0, &[]);
                refused[3] = REFUSED;
                Some(vec![refused])
            }
        }
    }
}

/// Answers questions over UDP, for ever.
fn answer_datagrams(socket: &UdpSocket, script: &Mutex<Script>, is_down: &AtomicBool) {
    let mut buffer = [0; 4096];
    while let Ok((length, client)) = socket.recv_from(&mut buffer) {
        if is_down.load(Ordering::Relaxed) {
            continue;
        }
        let answers = script.lock().expect("no thread of the primary panics").answer(&buffer[..length]);
        if let Some([answer, ..]) = answers.as_deref() {
            let _ = socket.send_to(answer, client);
        }
    }
}

/// Answers questions over one connection until it ends.
fn answer_stream(mut stream: TcpStream, script: &Mutex<Script>, is_down: &AtomicBool) -> io::Result<()> {
    loop {
        let mut length = [0; 2];
        stream.read_exact(&mut length)?;
        if is_down.load(Ordering::Relaxed) {
            return Ok(());
        }
        let mut question = vec![0; usize::from(u16::from_be_bytes(length))];
        stream.read_exact(&mut question)?;
        let answers = script.lock().expect("no thread of the primary panics").answer(&question);
        for answer in answers.ok_or(io::ErrorKind::InvalidData)? {
            stream.write_all(&[&(answer.len() as u16).to_be_bytes(), &answer[..]].concat())?;
        }
    }
}

/// Records of a zone file as [`Datacenter::write`] writes it, the SOA first.
fn read_zone(text: &str, zone: &str) -> Records {
    let mut records = Records::default();
    let within = |owner: &str| if owner == "@" { name(zone) } else { name(&format!("{owner}.{zone}")) };
    let mut owner = Vec::new();
    for line in text.lines().filter(|line| !line.starts_with('$')) {
        let (first, rest) = line.split_once(' ').expect("a line has an owner and data");
        if !first.is_empty() {
            owner = within(first);
        }
        let fields: Vec<&str> = rest.split(' ').collect();
        let (rtype, rdata) = match fields[..] {
            ["SOA", .., serial, _, _, _, _] => (SOA, soa(zone, serial.parse().expect("a serial"))),
            [_, "NS", target] => (NS, name(target.trim_end_matches('.'))),
            ["A", address] => (A, address.parse::<Ipv4Addr>().expect("an address").octets().to_vec()),
            ["TXT", text] => (TXT, [&[text.len() as u8], text.as_bytes()].concat()),
            ["CNAME", target] => (CNAME, within(target)),
            ["SRV", .., target] => (SRV, [&[0, 0, 0, 10, 0x1f, 0x90], &within(target)[..]].concat()),
            _ => panic!("no record that a datacenter has: {line}"),
        };
        records.push(&owner, rtype, &rdata);
    }
    records
}

/// A name in wire form.
fn name(text: &str) -> Vec<u8> {
    let mut wire = Vec::new();
    put_name(text, &mut wire);
    wire
}

/// RDATA of the SOA of a zone.
fn soa(zone: &str, serial: u32) -> Vec<u8> {
    soa_of(&name(zone), serial)
}

/// RDATA of the SOA of an origin: the names, and the timers that CNS has.
fn soa_of(origin: &[u8], serial: u32) -> Vec<u8> {
    let mut rdata = [b"\x03cns", origin, &name("hostmaster.example.com")].concat();
    [serial, 30, 60, 2_592_000, 30].into_iter().for_each(|number| rdata.extend_from_slice(&number.to_be_bytes()));
    rdata
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probe::{Probe, question};

    #[test]
    fn versions_are_served_whole_or_as_differences() {
        let mut datacenter = Datacenter::new("dc.example", 0, 1_000);
        let primary = Scripted::start(&datacenter);
        let serial = datacenter.serial;
        assert_eq!(crate::drain::take(primary.address(), "dc.example", 1_000).ok().map(|_| ()), Some(()));
        [0, 7].into_iter().for_each(|first| primary.change(&mut datacenter, first, 7));
        assert_eq!(Probe::new(primary.address()).serial("dc.example"), Some(serial + 2));
        let count = |has: u32| {
            let mut records = Records::default();
            records.push(&name("dc.example"), SOA, &soa("dc.example", has));
            let asked = [&question("dc.example", IXFR, 1)[..], &records.parts[0].1].concat();
            let answers = primary.lock().answer(&asked).unwrap();
            answers.iter().map(|answer| u32::from(u16::from_be_bytes([answer[6], answer[7]]))).sum::<u32>()
        };
        assert_eq!([serial, serial + 1, serial + 2].map(count), [2 + 2 * 16, 2 + 16, 1]);
        assert!(primary.lock().answer(&question("dc.example", AXFR, 1)).is_none(), "the first version is gone");
    }
}
