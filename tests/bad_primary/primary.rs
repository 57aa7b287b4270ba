//! A primary that does as its script says: UDP and TCP on one port, good manners or bad ones. Whatever zone it is asked
//! for, it has it.

// Two test crates share the primary, and each uses its own part.
#![allow(dead_code)]

use aggregator::zone::Soa;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::task::JoinSet;
use wire::serial::Serial;

const A: u16 = 1;
const SOA: u16 = 6;
const IXFR: u16 = 251;
const AXFR: u16 = 252;

/// Behaviour for SOA queries.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Poll {
    Good,
    /// Over UDP with TC, over TCP in full.
    TruncatedUdp,
    SilentUdp,
    Silent,
    Rcode(u8),
    NotAuthoritative,
    OtherQuestion,
    NoSoa,
}

/// Behaviour for zone transfers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Transfer {
    Good,
    Rcode(u8),
    HangAtOnce,
    HangMidway,
    /// All but the closing SOA, which comes when the script says something else.
    Pause,
    Dribble,
    CutMidMessage,
    CutMidZone,
    OtherClosingSoa,
    OtherZone,
    OtherId,
    OtherQuestion,
    OtherClass,
    /// A signed zone, in which a signature has another TTL than what it covers.
    SignedOtherwise,
    /// A signed zone, in which names are hashed more often than any may be.
    SignedSlowly,
    Endless,
    Garbage,
}

/// Behaviour for queries for differences (IXFR).
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Differences {
    /// From the version before to the present one; the whole zone to others, the whole zone to whoever is current.
    Good,
    Rcode(u8),
    /// The connection is closed.
    Close,
    Hang,
    /// A response without records.
    Empty,
    /// The whole zone.
    Whole,
    /// Begins at a serial before that of the client.
    OtherBase,
    /// Ends at a serial that was not announced.
    Short,
    /// Two steps between which one is missing.
    Gap,
    /// The closing SOA has other timers.
    OtherClosingSoa,
    /// Records behind the closing SOA.
    Behind,
    OtherId,
    OtherQuestion,
    OtherClass,
    OtherZone,
    CutMidMessage,
    /// Ends in order before the closing SOA.
    CutMidZone,
    Garbage,
    /// Right, but also removes a record that is not there and adds one that is.
    Noops,
    /// The SOA alone, and the connection stays open.
    Lone,
    /// The SOA alone in the first message, and the rest in others at once.
    Parts,
    /// Names are added, and none is removed.
    Added,
    /// Differences, or nothing if this is the client's serial, of a server that has come to this serial only.
    Stale(u32),
    /// The SOA, after a while.
    Slow,
}

/// Next behaviour of the primary; tests change it while it runs.
#[derive(Clone, Debug)]
pub struct Script {
    pub serial: u32,
    /// The serial in answers to polls, when it is a lie.
    pub announced: Option<u32>,
    /// Each answer has a serial one higher, as an empty CNS zone has with time.
    pub rising: bool,
    /// Number of names with an address; the address follows from `flavour`.
    pub names: u32,
    pub flavour: u8,
    pub poll: Poll,
    pub transfer: Transfer,
    pub differences: Differences,
    /// The version before: serial, names, flavour.
    pub before: (u32, u32, u8),
    /// True if the first name's address comes twice in whole zones, as records of CNS do.
    pub twice: bool,
    /// Zone transfers begun, questions for differences, and addresses that queries came from.
    pub transfers: u32,
    pub asked: u32,
    pub tcp_polls: u32,
    pub clients: Vec<IpAddr>,
}

impl Script {
    /// A good zone of ten names.
    pub fn new(serial: u32) -> Script {
        Script {
            serial,
            announced: None,
            rising: false,
            names: 10,
            flavour: 0,
            poll: Poll::Good,
            transfer: Transfer::Good,
            differences: Differences::Good,
            before: (0, 0, 0),
            twice: false,
            transfers: 0,
            asked: 0,
            tcp_polls: 0,
            clients: Vec::new(),
        }
    }
}

impl Script {
    /// Goes on to a version with other addresses.
    pub fn change(&mut self, serial: u32) {
        self.before = (self.serial, self.names, self.flavour);
        (self.serial, self.flavour) = (serial, self.flavour + 1);
    }
}

/// A running primary, stopped when dropped.
pub struct Primary {
    pub address: SocketAddr,
    script: Arc<Mutex<Script>>,
    _tasks: JoinSet<()>,
}

impl Primary {
    /// Listens on a free port of a loopback address.
    pub async fn start(ip: &str, script: Script) -> Primary {
        let ip: IpAddr = ip.parse().unwrap();
        // The port that TCP gets may be taken on UDP; then another will do.
        for _ in 0..50 {
            let tcp = TcpListener::bind((ip, 0)).await.unwrap();
            let address = tcp.local_addr().unwrap();
            if let Ok(udp) = UdpSocket::bind(address).await {
                return Primary::run(address, tcp, udp, script);
            }
        }
        panic!("no port that is free on UDP and TCP");
    }

    /// Listens where a stopped one did.
    pub async fn start_at(address: SocketAddr, script: Script) -> Primary {
        let (tcp, udp) = (TcpListener::bind(address).await.unwrap(), UdpSocket::bind(address).await.unwrap());
        Primary::run(address, tcp, udp, script)
    }

    fn run(address: SocketAddr, tcp: TcpListener, udp: UdpSocket, script: Script) -> Primary {
        let script = Arc::new(Mutex::new(script));
        let mut tasks = JoinSet::new();
        tasks.spawn(serve_udp(udp, script.clone()));
        tasks.spawn(serve_tcp(tcp, script.clone()));
        Primary { address, script, _tasks: tasks }
    }

    /// The script, to be read or changed.
    pub fn script(&self) -> MutexGuard<'_, Script> {
        self.script.lock().unwrap()
    }

    /// Returns the number of queries for differences and for whole zones.
    pub fn asked(&self) -> (u32, u32) {
        let script = self.script();
        (script.asked, script.transfers)
    }

    /// Stops listening and gives back the script.
    pub async fn stop(mut self) -> Script {
        self._tasks.shutdown().await;
        self.script.lock().unwrap().clone()
    }
}

async fn serve_udp(socket: UdpSocket, script: Arc<Mutex<Script>>) {
    let mut buffer = [0; 512];
    while let Ok((length, client)) = socket.recv_from(&mut buffer).await {
        let answer = {
            let mut script = script.lock().unwrap();
            script.clients.push(client.ip());
            if matches!(script.poll, Poll::SilentUdp | Poll::Silent) {
                continue;
            }
            let mut query = buffer[..length].to_vec();
            match question(&mut query) {
                (A, _) => answer_question(&query, &script),
                _ => answer_poll(&query, &mut script, true),
            }
        };
        let _ = socket.send_to(&answer, client).await;
    }
}

async fn serve_tcp(listener: TcpListener, script: Arc<Mutex<Script>>) {
    let mut connections = JoinSet::new();
    while let Ok((stream, client)) = listener.accept().await {
        script.lock().unwrap().clients.push(client.ip());
        let script = script.clone();
        // A client that goes away ends its connection; that is no failure of the primary.
        connections.spawn(async move { drop(serve_connection(stream, script).await) });
    }
}

async fn serve_connection(mut stream: TcpStream, shared: Arc<Mutex<Script>>) -> std::io::Result<()> {
    loop {
        let mut query = vec![0; usize::from(stream.read_u16().await?)];
        stream.read_exact(&mut query).await?;
        let (question_type, soa) = question(&mut query);
        // No EDNS, no RD, one question, nothing else but the SOA that CNS cannot do without: it is picky.
        assert_eq!(&query[2..12], [0, 0, 0, 1, 0, 0, 0, 0, 0, 0]);
        assert_eq!(soa.is_some(), question_type == IXFR);
        if let Some(soa) = soa {
            let script = {
                let mut script = shared.lock().unwrap();
                script.asked += 1;
                script.clone()
            };
            differences(&mut stream, &query, soa, &script).await?;
            continue;
        }
        if question_type != AXFR {
            let answer = {
                let mut script = shared.lock().unwrap();
                script.tcp_polls += 1;
                if script.poll == Poll::Silent { None } else { Some(answer_poll(&query, &mut script, false)) }
            };
            match answer {
                Some(answer) => stream.write_all(&frame(&answer)).await?,
                None => std::future::pending().await,
            }
            continue;
        }
        let script = {
            let mut script = shared.lock().unwrap();
            script.transfers += 1;
            script.serial += u32::from(script.rising);
            script.clone()
        };
        transfer(&mut stream, &query, &script).await?;
        if script.transfer == Transfer::Pause {
            while shared.lock().unwrap().transfer == Transfer::Pause {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            stream.write_all(&frame(&closing(&query, &script).0)).await?;
        }
    }
}

/// The message that ends a zone transfer.
fn closing(query: &[u8], script: &Script) -> Message {
    let mut last = Message::answer(query).without_question();
    last.record(question_name(query), SOA, 1, &soa(script.serial));
    last
}

/// Sends a zone, or what the script has instead.
async fn transfer(stream: &mut TcpStream, query: &[u8], script: &Script) -> std::io::Result<()> {
    let soa = soa(script.serial);
    let origin = question_name(query);
    let mut first = Message::answer(query);
    first.record(origin, SOA, 1, &soa);
    let mut data = Message::answer(query).without_question();
    for number in (0..script.names).chain(script.twice.then_some(0)) {
        data.address(origin, number, script.flavour);
    }
    let mut last = closing(query, script);
    match script.transfer {
        Transfer::Good => {}
        Transfer::Rcode(rcode) => first = Message::answer(query).with_rcode(rcode),
        Transfer::HangAtOnce => std::future::pending().await,
        Transfer::HangMidway => {
            stream.write_all(&frame(&first.0)).await?;
            std::future::pending().await
        }
        Transfer::Pause => return stream.write_all(&[frame(&first.0), frame(&data.0)].concat()).await,
        Transfer::Dribble => {
            for byte in frame(&first.0) {
                stream.write_all(&[byte]).await?;
                tokio::time::sleep(Duration::from_millis(200)).await;
            }
        }
        Transfer::CutMidMessage => {
            let bytes = frame(&first.0);
            stream.write_all(&bytes[..bytes.len() / 2]).await?;
            return stream.shutdown().await;
        }
        Transfer::CutMidZone => {
            stream.write_all(&[frame(&first.0), frame(&data.0)].concat()).await?;
            return stream.shutdown().await;
        }
        Transfer::OtherClosingSoa => {
            last = Message::answer(query).without_question();
            last.record(origin, SOA, 1, &self::soa(script.serial + 1));
        }
        Transfer::SignedOtherwise => {
            let head = [&SOA.to_be_bytes()[..], &[13, 2], &77u32.to_be_bytes(), &[0x70, 0, 0, 0, 0x60, 0, 0, 0, 0, 7]];
            data.record(origin, 46, 1, &[&head.concat(), origin, &[1; 64]].concat());
        }
        Transfer::SignedSlowly => {
            let head = [&SOA.to_be_bytes()[..], &[13, 2], &30u32.to_be_bytes(), &[0x70, 0, 0, 0, 0x60, 0, 0, 0, 0, 7]];
            data.record(origin, 46, 1, &[&head.concat(), origin, &[1; 64]].concat());
            data.record(origin, 51, 1, &[&[1, 0][..], &2501u16.to_be_bytes(), &[0]].concat());
        }
        Transfer::OtherZone => data.record(b"\x01a\x05other\x00", 1, 1, &[192, 0, 2, 1]),
        Transfer::OtherId => data.0[1] ^= 1,
        Transfer::OtherQuestion => first.0[13] ^= 1,
        Transfer::OtherClass => data.record(origin, 1, 3, &[192, 0, 2, 1]),
        Transfer::Endless => {
            stream.write_all(&frame(&first.0)).await?;
            for number in 0u32.. {
                let mut more = Message::answer(query).without_question();
                for part in 0..50u8 {
                    let owner = [format!("\x09e{number:08x}").as_bytes(), origin].concat();
                    more.record(&owner, 1, 1, &[10, 0, 0, part]);
                }
                stream.write_all(&frame(&more.0)).await?;
            }
        }
        Transfer::Garbage => data.0.splice(12.., [0xff; 100]).for_each(drop),
    }
    stream.write_all(&[frame(&first.0), frame(&data.0), frame(&last.0)].concat()).await
}

/// Sends what has changed, or what the script has instead; `theirs` is the client's serial.
async fn differences(stream: &mut TcpStream, query: &[u8], theirs: u32, script: &Script) -> std::io::Result<()> {
    if let Differences::Stale(serial) = script.differences {
        let behind = Script { serial, differences: Differences::Good, ..script.clone() };
        return Box::pin(differences(stream, query, theirs, &behind)).await;
    }
    if script.differences == Differences::Slow {
        tokio::time::sleep(Duration::from_millis(300)).await;
    }
    let (before, before_names, before_flavour) = script.before;
    let whole = script.differences == Differences::Good && theirs != before;
    if whole || script.differences == Differences::Whole {
        return transfer(stream, query, script).await;
    }
    let origin = question_name(query);
    let mut message = Message::answer(query);
    let serial = |message: &mut Message, serial: u32| message.record(origin, SOA, 1, &soa(serial));
    serial(&mut message, script.serial);
    if script.serial == theirs || script.differences == Differences::Lone {
        return stream.write_all(&frame(&message.0)).await;
    }
    if script.differences == Differences::Parts {
        stream.write_all(&frame(&message.0)).await?;
        message = Message::answer(query).without_question();
    }
    serial(&mut message, if script.differences == Differences::OtherBase { before.wrapping_sub(1) } else { before });
    if script.differences == Differences::Noops {
        message.address(origin, 999, 0);
    }
    let added = script.differences == Differences::Added;
    for number in 0..if added { 0 } else { before_names } {
        message.address(origin, number, before_flavour);
    }
    match script.differences {
        Differences::Gap => {
            serial(&mut message, before + 1);
            serial(&mut message, before + 2);
        }
        Differences::OtherZone => message.record(b"\x01a\x05other\x00", 1, 1, &[192, 0, 2, 1]),
        Differences::OtherClass => message.record(origin, 1, 3, &[192, 0, 2, 1]),
        _ => {}
    }
    serial(&mut message, if script.differences == Differences::Short { before + 1 } else { script.serial });
    for number in if added { before_names } else { 0 }..script.names {
        message.address(origin, number, script.flavour);
    }
    if script.differences == Differences::Noops {
        message.address(origin, 0, script.flavour);
    }
    match script.differences {
        Differences::CutMidZone => {
            stream.write_all(&frame(&message.0)).await?;
            return stream.shutdown().await;
        }
        Differences::OtherClosingSoa => {
            let mut other = soa(script.serial);
            *other.last_mut().unwrap() ^= 1;
            message.record(origin, SOA, 1, &other);
        }
        _ => serial(&mut message, script.serial),
    }
    match script.differences {
        Differences::Rcode(rcode) => message = Message::answer(query).with_rcode(rcode),
        Differences::Close => return stream.shutdown().await,
        Differences::Hang => std::future::pending().await,
        Differences::Empty => message = Message::answer(query),
        Differences::Behind => message.address(origin, 0, 0),
        Differences::OtherId => message.0[1] ^= 1,
        Differences::OtherQuestion => message.0[13] ^= 1,
        Differences::CutMidMessage => {
            let bytes = frame(&message.0);
            stream.write_all(&bytes[..bytes.len() / 2]).await?;
            return stream.shutdown().await;
        }
        Differences::Garbage => message.0.splice(12.., [0xff; 100]).for_each(drop),
        _ => {}
    }
    stream.write_all(&frame(&message.0)).await
}

/// The type of a question, and the serial of the SOA behind it, which is cut off; or a signature is.
fn question(query: &mut Vec<u8>) -> (u16, Option<u32>) {
    let mut end = 12;
    while query[end] != 0 {
        end += usize::from(query[end]) + 1;
    }
    let question_type = u16::from_be_bytes([query[end + 1], query[end + 2]]);
    let rest = query.split_off(end + 5);
    let counts = std::mem::replace(&mut query[9], 0);
    // EDNS is not answered, and a signature is not looked at, as CNS does.
    let others = std::mem::replace(&mut query[11], 0);
    assert!(counts + others < 3 && (counts + others == 0) == rest.is_empty());
    let number = |at: usize| u32::from_be_bytes(rest[at..at + 4].try_into().unwrap());
    (question_type, (counts == 1).then(|| number(rest.len() - 20)))
}

fn answer_poll(query: &[u8], script: &mut Script, udp: bool) -> Vec<u8> {
    script.serial += u32::from(script.rising);
    let mut message = Message::answer(query);
    message.0[2] |= 0x04;
    match script.poll {
        Poll::TruncatedUdp if udp => {
            message.0[2] |= 0x02;
            return message.0;
        }
        Poll::Rcode(rcode) => return message.with_rcode(rcode).0,
        Poll::NotAuthoritative => message.0[2] &= !0x04,
        Poll::OtherQuestion => message.0[13] ^= 1,
        Poll::NoSoa => return message.0,
        _ => {}
    }
    message.record(question_name(query), SOA, 1, &soa(script.announced.unwrap_or(script.serial)));
    message.0
}

/// The address of a name, or the SOA that says that there is none.
fn answer_question(query: &[u8], script: &Script) -> Vec<u8> {
    let (name, mut message) = (question_name(query), Message::answer(query));
    message.0[2] |= 0x04;
    let number = std::str::from_utf8(&name[2..5]).ok().and_then(|number| number.parse::<u32>().ok());
    match number.filter(|number| *number < script.names) {
        Some(number) => message.address(&name[5..], number, script.flavour),
        None => {
            message.record(&name[5..], SOA, 1, &soa(script.serial));
            message.0.swap(7, 9);
        }
    }
    message.0
}

/// The name in a query without anything behind its question.
fn question_name(query: &[u8]) -> &[u8] {
    &query[12..query.len() - 4]
}

fn soa(serial: u32) -> Vec<u8> {
    let numbers = Soa { serial: Serial(serial), refresh: 30, retry: 60, expire: 2_592_000, minimum: 30 };
    numbers.to_rdata(b"\x02ns\x00", b"\x01h\x00")
}

fn frame(message: &[u8]) -> Vec<u8> {
    [&(message.len() as u16).to_be_bytes(), message].concat()
}

/// A response in the making.
struct Message(Vec<u8>);

impl Message {
    /// A response to a query, with its question.
    fn answer(query: &[u8]) -> Message {
        let mut bytes = query.to_vec();
        bytes[2] = 0x80;
        Message(bytes)
    }

    fn without_question(mut self) -> Message {
        self.0.truncate(12);
        self.0[5] = 0;
        self
    }

    fn with_rcode(mut self, rcode: u8) -> Message {
        self.0[3] |= rcode;
        self
    }

    /// The address of a name.
    fn address(&mut self, origin: &[u8], number: u32, flavour: u8) {
        let owner = [format!("\x04n{number:03}").as_bytes(), origin].concat();
        self.record(&owner, 1, 1, &[192, 0, flavour, number as u8]);
    }

    fn record(&mut self, owner: &[u8], rtype: u16, class: u16, rdata: &[u8]) {
        let count = u16::from_be_bytes([self.0[6], self.0[7]]) + 1;
        self.0[6..8].copy_from_slice(&count.to_be_bytes());
        self.0.extend_from_slice(owner);
        for number in [rtype, class, 0, 30, rdata.len() as u16] {
            self.0.extend_from_slice(&number.to_be_bytes());
        }
        self.0.extend_from_slice(rdata);
    }
}
