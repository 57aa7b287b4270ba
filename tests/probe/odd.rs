//! Servers that answer as real ones do not, or not on demand: scripted octet by octet.

use crate::harness::*;
use crate::{found, owned};
use serde_json::Value;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

const ZONE: &str = "dc.example.test";
/// Flags of a response, with authority, cut off, and of somebody who recurses.
const RESPONSE: u16 = 0x8000;
const AUTHORITY: u16 = 0x8400;
const CUT_OFF: u16 = 0x8600;
const RESOLVER: u16 = 0x8080;
const FORMERR: u16 = 1;
const SERVFAIL: u16 = 2;
const NXDOMAIN: u16 = 3;

/// Question of the client.
struct Question {
    name: Dname,
    rtype: u16,
    has_edns: bool,
    is_stream: bool,
    bytes: Vec<u8>,
}

impl Question {
    fn read(bytes: &[u8], is_stream: bool) -> Question {
        let end = 12 + bytes[12..].iter().position(|octet| *octet == 0).expect("a root label") + 1;
        let rtype = u16::from_be_bytes([bytes[end], bytes[end + 1]]);
        let has_edns = bytes[11] == 1;
        let name = Dname(bytes[12..end].to_vec());
        Question { name, rtype, has_edns, is_stream, bytes: bytes[..end + 4].to_vec() }
    }

    /// An answer with records in the answer section and the authority section, as owner, type and data.
    fn answer(&self, flags: u16, answers: &[(&str, u16, Vec<u8>)], authority: &[(&str, u16, Vec<u8>)]) -> Vec<u8> {
        let mut bytes = self.bytes.clone();
        let counts = [1, answers.len(), authority.len(), 0].map(|count| (count as u16).to_be_bytes());
        bytes[2..4].copy_from_slice(&flags.to_be_bytes());
        bytes[4..12].copy_from_slice(&counts.concat());
        for (owner, rtype, data) in answers.iter().chain(authority) {
            bytes.extend(&Dname::parse(owner).0);
            bytes.extend(rtype.to_be_bytes());
            bytes.extend([0, 1, 0, 0, 0, 60]);
            bytes.extend((data.len() as u16).to_be_bytes());
            bytes.extend(data);
        }
        bytes
    }

    /// Returns the answer of a server of the zone, with these flags beside NS records.
    fn serve(&self, flags: u16) -> Vec<u8> {
        match self.rtype {
            rtype::SOA => self.answer(AUTHORITY, &[(ZONE, rtype::SOA, soa())], &[]),
            _ => self.answer(flags, &[(ZONE, rtype::NS, Dname::parse("ns.example.test").0)], &[]),
        }
    }
}

/// The data of an SOA record with serial 7.
fn soa() -> Vec<u8> {
    [&[0, 0][..], &7u32.to_be_bytes(), &[0; 16]].concat()
}

/// Answers a question: each datagram that comes back, or frame, and whether it comes from another port.
type Script = fn(&Question) -> Vec<(Vec<u8>, bool)>;

/// A server that follows a script.
struct Scripted {
    address: SocketAddr,
    ended: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Scripted {
    fn start(script: Script) -> Scripted {
        let address = Port::reserve().release();
        let (udp, tcp) = (UdpSocket::bind(address).expect("UDP"), TcpListener::bind(address).expect("TCP"));
        let other = UdpSocket::bind("127.0.0.1:0").expect("another port");
        udp.set_read_timeout(Some(Duration::from_millis(50))).expect("a timeout");
        tcp.set_nonblocking(true).expect("a listener that does not wait");
        let ended = Arc::new(AtomicBool::new(false));
        let (is_over, is_over_too) = (ended.clone(), ended.clone());
        let datagrams = std::thread::spawn(move || {
            let mut buffer = [0; 1024];
            while !is_over.load(Ordering::Relaxed) {
                let Ok((length, client)) = udp.recv_from(&mut buffer) else { continue };
                for (answer, is_other) in script(&Question::read(&buffer[..length], false)) {
                    let socket = if is_other { &other } else { &udp };
                    socket.send_to(&answer, client).expect("an answer");
                }
            }
        });
        let connections = std::thread::spawn(move || {
            // Those that are not answered stay open.
            let mut open = Vec::new();
            while !is_over_too.load(Ordering::Relaxed) {
                let Ok((mut stream, _)) = tcp.accept() else {
                    std::thread::park_timeout(Duration::from_millis(10));
                    continue;
                };
                stream.set_nonblocking(false).expect("a stream that waits");
                let mut length = [0; 2];
                stream.read_exact(&mut length).expect("a length");
                let mut bytes = vec![0; u16::from_be_bytes(length).into()];
                stream.read_exact(&mut bytes).expect("a question");
                for (answer, _) in script(&Question::read(&bytes, true)) {
                    stream.write_all(&(answer.len() as u16).to_be_bytes()).expect("a length");
                    stream.write_all(&answer).expect("an answer");
                }
                open.push(stream);
            }
        });
        Scripted { address, ended, threads: vec![datagrams, connections] }
    }
}

impl Drop for Scripted {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let outcome = thread.join();
            assert!(outcome.is_ok() || std::thread::panicking(), "a script failed");
        }
    }
}

/// One answer from where it belongs.
fn plain(bytes: Vec<u8>) -> Vec<(Vec<u8>, bool)> {
    vec![(bytes, false)]
}

/// An answer with another id.
fn misnumbered(mut bytes: Vec<u8>) -> Vec<u8> {
    bytes[0] ^= 0xff;
    bytes
}

/// Looks once with this `[probe]`, and gives the report.
fn look(path: &Path, parent: SocketAddr, probe: &str) -> Value {
    // The parent is no primary, as it says at once: what the zone should list is what its first server says.
    write_file(
        path,
        &format!("[zones]\n\"{ZONE}\" = \"{parent}\"\n[probe]\ntimeout = \"1s\"\nstale_after = \"1s\"\n{probe}"),
    );
    let output = run_verb(&["check", "--live", "--json"], path);
    serde_json::from_str(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"))
}

/// A parent that delegates the zone to one server.
fn delegating(question: &Question) -> Vec<(Vec<u8>, bool)> {
    plain(question.answer(RESPONSE, &[], &[(ZONE, rtype::NS, Dname::parse("ns.example.test").0)]))
}

#[test]
fn only_answers_to_what_was_asked_count() {
    let scripts: [(Script, Option<&str>); 10] = [
        // CNS has authority, and says so beside the SOA only.
        (|question| plain(question.serve(RESPONSE)), None),
        (
            |question| {
                vec![(misnumbered(question.answer(AUTHORITY, &[], &[])), false), (question.serve(AUTHORITY), false)]
            },
            None,
        ),
        (
            |question| {
                let mut other = question.answer(AUTHORITY, &[], &[]);
                other[13] ^= 1;
                vec![(other, false), (question.serve(AUTHORITY), false)]
            },
            None,
        ),
        (|question| vec![(question.answer(AUTHORITY, &[], &[]), true), (question.serve(AUTHORITY), false)], None),
        // Somebody else answers.
        (|question| vec![(question.serve(AUTHORITY), true)], Some("unreachable")),
        // From a cache.
        (|question| plain(question.answer(RESOLVER, &[(ZONE, question.rtype, soa())], &[])), Some("lame")),
        (|question| plain(question.answer(AUTHORITY | SERVFAIL, &[], &[])), Some("lame")),
        (|question| plain(question.answer(AUTHORITY, &[], &[])), Some("lame")),
        // What is cut off counts when it is whole.
        (
            |question| {
                plain(if question.is_stream { question.serve(AUTHORITY) } else { question.answer(CUT_OFF, &[], &[]) })
            },
            None,
        ),
        (
            |question| if question.is_stream { Vec::new() } else { plain(question.answer(CUT_OFF, &[], &[])) },
            Some("unreachable"),
        ),
    ];
    let (folder, parent) = (Folder::new(), Scripted::start(delegating));
    for (number, (script, problem)) in scripts.into_iter().enumerate() {
        let server = Scripted::start(script);
        let (server, parent, start) = (server.address, parent.address, Instant::now());
        let report = look(
            &folder.path().join("live.toml"),
            parent,
            &format!(
                "parents = {{ \"example.test\" = \"{parent}\" }}\nhosts = {{ \"ns.example.test\" = \"{server}\" }}\n"
            ),
        );
        let faults = problem.map(|problem| (format!("ns.example.test. {server}"), problem));
        assert_eq!(found(&report["zones"], ZONE), Some(owned(faults.into_iter().collect())), "{number}: {report:#}");
        assert!(start.elapsed() < Duration::from_secs(20), "{number} took {:?}", start.elapsed());
    }
}

#[test]
fn parents_that_do_not_know_are_no_fault_of_the_zone() {
    let scripts: [(Script, Option<&str>); 6] = [
        (delegating, None),
        (
            |question| plain(question.answer(AUTHORITY | NXDOMAIN, &[], &[("example.test", rtype::SOA, soa())])),
            Some("undelegated"),
        ),
        // The root of a public DNS, for a zone of a private one.
        (|question| plain(question.answer(AUTHORITY | NXDOMAIN, &[], &[(".", rtype::SOA, soa())])), Some("unknown")),
        // From a cache, with and without an answer.
        (
            |question| plain(question.answer(RESOLVER, &[(ZONE, rtype::NS, Dname::parse("old.test").0)], &[])),
            Some("unknown"),
        ),
        (|question| plain(question.answer(RESOLVER | NXDOMAIN, &[], &[])), Some("unknown")),
        // A referral that leads up.
        (
            |question| plain(question.answer(RESPONSE, &[], &[(".", rtype::NS, Dname::parse("a.test").0)])),
            Some("unknown"),
        ),
    ];
    let (folder, server) = (Folder::new(), Scripted::start(|question| plain(question.serve(AUTHORITY))));
    for (number, (script, problem)) in scripts.into_iter().enumerate() {
        let parent = Scripted::start(script);
        let (server, parent) = (server.address, parent.address);
        let probe = format!(
            "resolver = \"{server}\"\nparents = {{ \"example.test\" = \"{parent}\" }}\nhosts = {{ \"ns.example.test\" = \"{server}\" }}\n"
        );
        let report = look(&folder.path().join("live.toml"), parent, &probe);
        // Without a delegation and a primary nobody knows the server's name.
        let faults = problem.map(|problem| (format!("parent {parent}"), problem));
        assert_eq!(found(&report["zones"], ZONE), Some(owned(faults.into_iter().collect())), "{number}: {report:#}");
    }
}

#[test]
fn resolvers_of_old_and_half_answers_are_enough() {
    // No EDNS, and nothing to be had about IPv6.
    let resolver = Scripted::start(|question| {
        if question.has_edns {
            return plain(question.answer(RESOLVER | FORMERR, &[], &[]));
        }
        plain(match (question.name == Dname::parse("ns.example.test"), question.rtype) {
            (true, rtype::A) => question.answer(RESOLVER, &[("ns.example.test", rtype::A, vec![127, 0, 0, 1])], &[]),
            (true, _) => question.answer(RESOLVER | SERVFAIL, &[], &[]),
            _ => question.answer(RESOLVER | NXDOMAIN, &[], &[]),
        })
    });
    let (folder, parent) = (Folder::new(), Scripted::start(delegating));
    let server = Scripted::start(|question| plain(question.serve(AUTHORITY)));
    let (resolver, parent, port) = (resolver.address, parent.address, server.address.port());
    let path = folder.path().join("live.toml");
    let known = format!("resolver = \"{resolver}\"\nport = {port}\n");
    let report = look(&path, parent, &format!("{known}parents = {{ \"example.test\" = \"{parent}\" }}\n"));
    assert_eq!(found(&report["zones"], ZONE), Some(owned([].into())), "{report:#}");
    assert!(report.to_string().contains(&format!("127.0.0.1:{port}\"")), "{report:#}");
    // Not even the root is known to it: a name space of others.
    let report = look(&path, parent, &known);
    assert_eq!(found(&report["zones"], ZONE), Some(owned([("parent".to_string(), "unknown")].into())), "{report:#}");
}

#[test]
fn glue_that_had_no_room_in_a_datagram_is_not_missing() {
    let host = "ns.dc.example.test";
    // Before RFC 9471 nothing said that there is more.
    let parent = Scripted::start(|question| {
        let host = "ns.dc.example.test";
        let ns = (ZONE, rtype::NS, Dname::parse(host).0);
        if !question.is_stream {
            return plain(question.answer(RESPONSE, &[], &[ns]));
        }
        let mut whole = question.answer(RESPONSE, &[], &[ns, (host, rtype::A, vec![127, 0, 0, 1])]);
        whole[8..12].copy_from_slice(&[0, 1, 0, 1]);
        plain(whole)
    });
    let server = Scripted::start(|question| {
        let host = "ns.dc.example.test";
        plain(match question.rtype {
            rtype::NS => question.answer(AUTHORITY, &[(ZONE, rtype::NS, Dname::parse(host).0)], &[]),
            rtype::A => question.answer(AUTHORITY, &[(host, rtype::A, vec![127, 0, 0, 1])], &[]),
            rtype::SOA => question.serve(AUTHORITY),
            _ => question.answer(AUTHORITY, &[], &[]),
        })
    });
    let (folder, parent, server) = (Folder::new(), parent.address, server.address);
    let probe = format!("port = {}\nparents = {{ \"example.test\" = \"{parent}\" }}\n", server.port());
    let report = look(&folder.path().join("live.toml"), parent, &probe);
    assert_eq!(found(&report["zones"], ZONE), Some(owned([].into())), "{report:#}");
    assert!(report.to_string().contains(&format!("\"{server}\"")) && report.to_string().contains(host), "{report:#}");
}

#[test]
fn who_is_cut_off_blames_nobody() {
    let (folder, dead) = (Folder::new(), Port::reserve().release());
    let plan = format!(
        "[aggregations.\"r.example.test\"]\nmembers = [\"{ZONE}\"]\nns = [\"ns1.example.test\", \"ns2.example.test\"]\n\
         [zones]\n\"{ZONE}\" = \"{dead}\"\n[probe]\ntimeout = \"100ms\"\nresolver = \"{dead}\"\n\
         hosts = {{ \"ns1.example.test\" = \"{dead}\", \"ns2.example.test\" = \"127.0.0.9:9\" }}\n"
    );
    let path = folder.path().join("live.toml");
    write_file(&path, &plan);
    let output = run_verb(&["check", "--live", "--zone", "r.example.test"], &path);
    assert_eq!(output.code, 1, "{output:?}");
    assert_eq!(output.stdout.matches("unknown: no answer, and nobody else answers over IPv4").count(), 2, "{output:?}");
    assert!(!output.stdout.contains("unreachable"), "{output:?}");
    assert!(output.stdout.contains("\nwhat to do\n  unknown: see whether this machine"), "{output:?}");
}
