//! Floods: how much of one comes back, and what an honest client of the same network gets meanwhile, beside NSD, Knot and
//! BIND, each with the limits that it has by default.
//!
//! The flood comes from 127.0.7.1, the honest clients from other addresses of 127.0.7.0/24, which nobody exempts: a part
//! of a flood asks the same over and over, for a set of a thousand octets, another one random names. It is paced, so that
//! all servers get as much, and nothing is lost in the kernel. Octets are those of messages, without 28 a datagram below.
//!
//! Cost: servers × two floods × seconds.

use crate::harness::{Folder, Port, Process, write_file};
use crate::options::Options;
use crate::probe::Probe;
use crate::server::Kind;
use crate::table::{Table, thousands};
use crate::usage::Usage;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream, UdpSocket};
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// The zone, and a name in it that has much.
const ZONE: &str = "flood.example";
const TXT: u16 = 16;
const A: u16 = 1;
/// Records of the large set, and octets of each.
const LARGE: (u32, usize) = (8, 120);
/// Questions a second of a flood.
const RATE: f64 = 50_000.0;
/// How often an honest client asks.
const PAUSE: Duration = Duration::from_millis(20);
/// How long it waits for an answer.
const PATIENCE: Duration = Duration::from_millis(500);
/// An OPT record for 1232 octets up to the length of its options.
const OPT: [u8; 9] = [0, 0, 41, 4, 208, 0, 0, 0, 0];

/// What is asked of a flood.
#[derive(Clone, Copy, PartialEq)]
enum Asked {
    /// The same over and over.
    Same,
    /// Names that are not there.
    Random,
}

/// Measures all servers that are asked for and can be flooded.
pub fn measure(options: &Options) {
    let heads = [
        "server",
        "flood",
        "octets out for one in",
        "answers in full",
        "TC",
        "no answer",
        "CPU µs/query",
        "UDP",
        "cookie",
        "TCP",
    ];
    let mut table = Table::new(&heads);
    let compared = [Kind::Aggregator, Kind::Nsd, Kind::Knot, Kind::Bind];
    for kind in compared.into_iter().filter(|kind| options.peers.contains(kind)) {
        for asked in [Asked::Same, Asked::Random] {
            eprintln!("floods: {}", kind.label());
            let folder = Folder::new();
            let mut port = Port::reserve();
            let (mut command, address) = (prepare(kind, &folder, &options.program, port.address()), port.release());
            let mut process = Process::start(kind.label(), &mut command, &folder.path().join("log"));
            let mut probe = Probe::new(address);
            process.wait_ready("serves the zone", Duration::from_secs(20), || probe.serial(ZONE));
            table.row(flood(kind, asked, address, process.id(), options.seconds));
            // What does not end is killed by the drop.
            _ = process.stop(Duration::from_secs(10));
        }
    }
    let rate = thousands(RATE as usize);
    println!(
        "A flood of {rate} questions a second from one network, and the share of its honest questions that are answered in full:\n\n{table}"
    );
}

/// The zone file.
fn zone_file() -> String {
    let text = |number: u32| format!("large IN TXT \"{number:0>width$}\"\n", width = LARGE.1);
    let texts: String = (0..LARGE.0).map(text).collect();
    format!(
        "$ORIGIN {ZONE}.\n$TTL 30\n@ IN SOA ns.{ZONE}. h.{ZONE}. 1 3600 600 86400 30\n@ IN NS ns.{ZONE}.\n\
         ns IN A 192.0.2.53\nwww IN A 192.0.2.1\n{texts}"
    )
}

/// Writes the configuration of a server, with its defaults; returns what starts it.
fn prepare(kind: Kind, folder: &Folder, program: &Path, address: SocketAddr) -> Command {
    let (home, port) = (folder.path().display().to_string(), address.port());
    write_file(&folder.path().join("zone"), &zone_file());
    let (name, text) = match kind {
        Kind::Nsd => (
            "nsd.conf",
            format!(
                "server:\n ip-address: 127.0.0.1@{port}\n username: \"\"\n chroot: \"\"\n zonesdir: \"{home}\"\n \
                 zonelistfile: \"{home}/zone.list\"\n pidfile: \"{home}/nsd.pid\"\n xfrdfile: \"{home}/xfrd.state\"\n \
                 xfrdir: \"{home}\"\nremote-control:\n control-enable: no\nzone:\n name: \"{ZONE}\"\n zonefile: zone\n"
            ),
        ),
        Kind::Knot => (
            "knot.conf",
            format!(
                "server:\n  rundir: \"{home}\"\n  listen: 127.0.0.1@{port}\ncontrol:\n  listen: \"{home}/knot.sock\"\n\
                 database:\n  storage: \"{home}\"\nzone:\n  - domain: {ZONE}\n    storage: \"{home}\"\n    file: zone\n"
            ),
        ),
        Kind::Bind => (
            "named.conf",
            format!(
                "controls {{ }};\noptions {{\n directory \"{home}\";\n listen-on port {port} {{ 127.0.0.1; }};\n \
                 listen-on-v6 {{ none; }};\n pid-file none;\n session-keyfile none;\n recursion no;\n}};\n\
                 zone \"{ZONE}\" {{ type primary; file \"zone\"; }};\n"
            ),
        ),
        _ => {
            let records: String = zone_file().lines().skip(2).map(|line| line.replace(" IN ", " ") + "\n").collect();
            (
                "aggregator.toml",
                format!(
                    "[server]\nname = \"ns.{ZONE}\"\nlisten = [\"{address}\"]\n[state]\nfolder = false\n\
                     [metrics]\nlisten = []\n[control]\nsocket = \"control\"\n\
                     [zones.\"{ZONE}\"]\nservices = '''\n{records}'''\n"
                ),
            )
        }
    };
    let path = folder.path().join(name);
    write_file(&path, &text);
    let path = path.display().to_string();
    let mut command = match kind {
        Kind::Nsd => Command::new("nsd"),
        Kind::Knot => Command::new("knotd"),
        Kind::Bind => Command::new("named"),
        _ => Command::new(program),
    };
    match kind {
        Kind::Nsd => command.args(["-d", "-c", &path]),
        Kind::Knot => command.args(["-c", &path]),
        Kind::Bind => command.args(["-g", "-c", &path]),
        _ => command.args(["run", "-c", &path]),
    };
    command.current_dir(folder.path());
    command
}

//--- The flood ---

/// What has come back so far.
#[derive(Default)]
struct Back {
    full: AtomicU64,
    cut: AtomicU64,
    octets: AtomicU64,
}

/// Floods a server, and asks it as an honest client meanwhile; the row of the table.
fn flood(kind: Kind, asked: Asked, server: SocketAddr, process: u32, time: Duration) -> Vec<String> {
    // Known from before.
    let mut known = Honest::new(Ipv4Addr::new(127, 0, 7, 3), server);
    known.learn();
    let socket = bound(Ipv4Addr::new(127, 0, 7, 1), server);
    let (back, is_over) = (Back::default(), AtomicBool::new(false));
    let (sent, octets, used, honest) = std::thread::scope(|scope| {
        scope.spawn(|| take_back(&socket, &back, &is_over));
        let honest = scope.spawn(|| {
            // The flood is under way.
            std::thread::sleep(time / 4);
            let plain = Honest::new(Ipv4Addr::new(127, 0, 7, 2), server);
            ask_honestly(server, plain, known, time / 2)
        });
        let before = Usage::take(process);
        let (sent, octets) = send(&socket, asked, time);
        let used = Usage::take(process) - before;
        let honest = honest.join().expect("the clients end");
        // The last answers.
        std::thread::sleep(PATIENCE);
        is_over.store(true, Ordering::Relaxed);
        (sent, octets, used, honest)
    });
    let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    let (full, cut) = (load(&back.full), load(&back.cut));
    let percent = |part: u64| format!("{:.1} %", part as f64 * 100.0 / sent as f64);
    let share = |(good, all): (u32, u32)| {
        if all == 0 { "–".to_owned() } else { format!("{:.0} %", f64::from(good) * 100.0 / f64::from(all)) }
    };
    let what = if asked == Asked::Same { "one question" } else { "random names" };
    vec![
        kind.label().to_owned(),
        what.to_owned(),
        format!("{:.2}", load(&back.octets) as f64 / octets as f64),
        percent(full),
        percent(cut),
        percent(sent.saturating_sub(full + cut)),
        format!("{:.1}", (used.user + used.system) * 1e6 / sent as f64),
        share(honest[0]),
        share(honest[1]),
        share(honest[2]),
    ]
}

/// A socket at an address of loopback.
fn bound(source: Ipv4Addr, server: SocketAddr) -> UdpSocket {
    let socket = UdpSocket::bind((source, 0)).expect("loopback has the address");
    socket.connect(server).expect("loopback can be reached");
    socket.set_read_timeout(Some(PATIENCE)).expect("the time is not zero");
    socket
}

/// Sends at an even pace; the number of questions and of their octets.
fn send(socket: &UdpSocket, asked: Asked, time: Duration) -> (u64, u64) {
    let (mut sent, mut octets) = (0u64, 0u64);
    let start = Instant::now();
    while start.elapsed() < time {
        let due = (start.elapsed().as_secs_f64() * RATE) as u64;
        while sent < due {
            let message = match asked {
                Asked::Same => question(&format!("large.{ZONE}"), TXT, sent as u16, None),
                Asked::Random => question(&format!("r{sent}.{ZONE}"), A, sent as u16, None),
            };
            // What the kernel does not take has not been sent.
            if socket.send(&message).is_ok() {
                octets += message.len() as u64;
            }
            sent += 1;
        }
        std::thread::sleep(Duration::from_micros(500));
    }
    (sent, octets)
}

/// Counts what comes back.
fn take_back(socket: &UdpSocket, back: &Back, is_over: &AtomicBool) {
    let mut answer = [0; 2048];
    while !is_over.load(Ordering::Relaxed) {
        let Ok(length) = socket.recv(&mut answer) else { continue };
        let counter = if answer[2] & 2 == 0 { &back.full } else { &back.cut };
        counter.fetch_add(1, Ordering::Relaxed);
        back.octets.fetch_add(length as u64, Ordering::Relaxed);
    }
}

/// A question with EDNS, and with a cookie if there is one.
fn question(name: &str, rtype: u16, id: u16, cookie: Option<&[u8]>) -> Vec<u8> {
    let mut message = [&id.to_be_bytes()[..], &[0, 0, 0, 1, 0, 0, 0, 0, 0, 1]].concat();
    for label in name.split('.') {
        message.push(label.len() as u8);
        message.extend_from_slice(label.as_bytes());
    }
    message.extend_from_slice(&[0, (rtype >> 8) as u8, rtype as u8, 0, 1]);
    message.extend_from_slice(&OPT);
    match cookie {
        Some(cookie) => {
            message.extend_from_slice(&[0, cookie.len() as u8 + 4, 0, 10, 0, cookie.len() as u8]);
            message.extend_from_slice(cookie);
        }
        None => message.extend_from_slice(&[0; 2]),
    }
    message
}

//--- Honest clients ---

/// A client that asks for an address over UDP.
struct Honest {
    socket: UdpSocket,
    cookie: Option<Vec<u8>>,
    id: u16,
}

impl Honest {
    fn new(source: Ipv4Addr, server: SocketAddr) -> Honest {
        Honest { socket: bound(source, server), cookie: None, id: 0 }
    }

    /// Asks once; the answer, if one comes.
    fn ask(&mut self, cookie: Option<&[u8]>) -> Option<Vec<u8>> {
        self.id += 1;
        self.socket.send(&question(&format!("large.{ZONE}"), TXT, self.id, cookie)).ok()?;
        let mut answer = vec![0; 2048];
        loop {
            let length = self.socket.recv(&mut answer).ok()?;
            if answer[..2] == self.id.to_be_bytes() {
                answer.truncate(length);
                return Some(answer);
            }
        }
    }

    /// Learns a server cookie, if the server has any.
    fn learn(&mut self) {
        let answer = self.ask(Some(&[3; 8])).unwrap_or_default();
        let at = answer.windows(4).position(|head| head == [0, 10, 0, 24]);
        self.cookie = at.and_then(|at| answer.get(at + 4..at + 28)).map(<[u8]>::to_vec);
    }

    /// Returns true if the answer comes and is in full.
    fn is_served(&mut self) -> bool {
        let cookie = self.cookie.clone();
        self.ask(cookie.as_deref()).is_some_and(|answer| is_full(&answer))
    }
}

/// Returns true if an answer has the whole set.
fn is_full(answer: &[u8]) -> bool {
    answer.len() > 12 && answer[2] & 2 == 0 && answer[7] == LARGE.0 as u8
}

/// Asks as clients without and with a cookie, and over TCP, for a while; how many answers were in full, of how many.
fn ask_honestly(server: SocketAddr, mut plain: Honest, mut known: Honest, time: Duration) -> [(u32, u32); 3] {
    let mut shares = [(0, 0); 3];
    let start = Instant::now();
    while start.elapsed() < time {
        let mut count = |index: usize, is_good: bool| {
            shares[index].0 += u32::from(is_good);
            shares[index].1 += 1;
        };
        count(0, plain.is_served());
        if known.cookie.is_some() {
            count(1, known.is_served());
        }
        count(2, ask_over_tcp(server).is_ok_and(|answer| is_full(&answer)));
        std::thread::sleep(PAUSE);
    }
    shares
}

/// Asks over a connection of its own.
fn ask_over_tcp(server: SocketAddr) -> io::Result<Vec<u8>> {
    let mut stream = TcpStream::connect_timeout(&server, PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let message = question(&format!("large.{ZONE}"), TXT, 1, None);
    stream.write_all(&[&(message.len() as u16).to_be_bytes(), &message[..]].concat())?;
    let mut length = [0; 2];
    stream.read_exact(&mut length)?;
    let mut answer = vec![0; usize::from(u16::from_be_bytes(length))];
    stream.read_exact(&mut answer)?;
    Ok(answer)
}
