//! More clients than there is room for, over TCP, TLS and HTTP: whoever comes is served, whoever only sits there goes,
//! and secondaries, monitoring, operators and primaries find what they need. From primaries with many zones no more is
//! asked at once than they take.

mod harness;

use harness::*;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::version::{TLS12, TLS13};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use socket2::{Domain, Socket, Type};
use std::fmt::Write as _;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(30);
/// Base64 of 32 octets.
const SECRET: &str = "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=";

/// A zone of some hundred kilobytes.
fn zone_text(serial: u32) -> String {
    let mut text = format!(
        "$ORIGIN a.test.\n@ 60 IN SOA ns.dc.invalid. h.dc.invalid. {serial} 1 1 2592000 30\n\
         @ 3600 IN NS ns.dc.invalid.\nwww 30 IN A 192.0.2.1\n"
    );
    for number in 0..4000 {
        writeln!(text, "v{number}.svc 30 IN TXT \"some text of number {number}\"").expect("string");
    }
    text
}

/// A daemon with one zone over UDP, TCP and TLS, and its primary.
struct Service {
    daemon: Aggregator,
    peer: Peer,
    tls: SocketAddr,
    certificate: PathBuf,
    _folder: Folder,
}

impl Service {
    /// Starts it with further lines of `[server]`, and perhaps a limit on open files.
    fn start(server: &str, open_files: Option<u64>) -> Service {
        let folder = Folder::new();
        let home = folder.subfolder("aggregator");
        let peer = Knotd::start(&folder, &[(Dname::parse("a.test"), zone_text(1))]);
        let secret = home.join("k.key");
        write_file(&secret, SECRET);
        std::fs::set_permissions(&secret, std::fs::Permissions::from_mode(0o600)).expect("permissions");
        let certificate = certify(&home);
        let mut port = Port::reserve();
        let plan = format!(
            "[keys.\"k.test\"]\nsecret_file = \"k.key\"\n\
             [secondaries]\nallow_transfer = [\"127.0.0.1\", \"127.0.0.3\", \"127.0.0.4\", \"127.0.0.5\", \"127.0.0.6\",\
             {{ prefix = \"127.0.0.9\", key = \"k.test\" }}]\n\
             [zones]\n\"a.test\" = \"{}\"\n[transfer]\nrefresh_min = \"1s\"\nrefresh_max = \"1s\"\n",
            peer.address()
        );
        let server = format!(
            "{server}tls = {{ listen = \"{}\", certificate = \"cert.pem\", key = \"key.pem\" }}\n",
            port.address()
        );
        let settings = Settings { server, ..Settings::new(&plan) };
        let tls = port.release();
        let daemon = Aggregator::start_limited(&home, &settings, open_files);
        let mut client = Client::new(daemon.address());
        wait_until("the zone is loaded", PATIENCE, || client.serial(&Dname::parse("a.test")));
        Service { daemon, peer, tls, certificate, _folder: folder }
    }

    /// The value of a metric, zero before there is one.
    fn metric(&self, name: &str) -> u64 {
        let page = self.daemon.metrics();
        let value = page.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        value.map_or(0, |value| value.parse().expect("number"))
    }

    /// The settings of a TLS client that trusts this server.
    fn client_config(&self, version: &'static rustls::SupportedProtocolVersion, protocol: &[u8]) -> Arc<ClientConfig> {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_file(&self.certificate).expect("certificate")).expect("a root");
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider).with_protocol_versions(&[version]);
        let mut config = builder.expect("versions").with_root_certificates(roots).with_no_client_auth();
        config.alpn_protocols = if protocol.is_empty() { Vec::new() } else { vec![protocol.to_vec()] };
        Arc::new(config)
    }

    /// A TLS connection whose handshake is done with the first octets.
    fn secure(&self, config: &Arc<ClientConfig>, source: [u8; 4]) -> StreamOwned<ClientConnection, TcpStream> {
        let name = ServerName::try_from("ns.test").expect("name");
        let connection = ClientConnection::new(config.clone(), name).expect("settings");
        StreamOwned::new(connection, connect(self.tls, source))
    }

    /// Processor time that the daemon has used, in hundredths of a second.
    fn ticks(&self) -> u64 {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.daemon.id())).expect("stat");
        let fields: Vec<&str> = stat.rsplit(')').next().expect("fields").split_whitespace().collect();
        fields[11].parse::<u64>().expect("number") + fields[12].parse::<u64>().expect("number")
    }
}

/// A connection from an address.
fn connect(server: SocketAddr, source: [u8; 4]) -> TcpStream {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).expect("socket");
    socket.bind(&SocketAddr::from((source, 0)).into()).expect("bind");
    socket.connect(&server.into()).expect("connect");
    let stream = TcpStream::from(socket);
    stream.set_read_timeout(Some(PATIENCE)).expect("timeout");
    stream.set_write_timeout(Some(PATIENCE)).expect("timeout");
    stream.set_nodelay(true).expect("no delay");
    stream
}

fn frame(message: &[u8]) -> Vec<u8> {
    [&(message.len() as u16).to_be_bytes(), message].concat()
}

/// Sends a message and reads what comes back.
fn exchange(stream: &mut (impl Read + Write), message: &[u8]) -> io::Result<Vec<u8>> {
    stream.write_all(&frame(message))?;
    stream.flush()?;
    let mut length = [0; 2];
    stream.read_exact(&mut length)?;
    let mut answer = vec![0; u16::from_be_bytes(length).into()];
    stream.read_exact(&mut answer)?;
    Ok(answer)
}

fn www(id: u16) -> Vec<u8> {
    Query::new(&Dname::parse("www.a.test"), rtype::A).encode(id)
}

fn assert_answer(answer: &[u8], id: u16) {
    let answer = decode(answer).expect("a message");
    assert_eq!((answer.id, answer.rcode(), answer.answer.len()), (id, 0, 1), "{answer:?}");
}

/// Returns true if the server has ended a connection on which nothing was asked.
fn has_ended(stream: &TcpStream) -> bool {
    stream.set_nonblocking(true).expect("nonblocking");
    match (&mut &*stream).read(&mut [0]) {
        Ok(0) => true,
        Ok(_) => panic!("octets that nobody asked for"),
        Err(error) => error.kind() != ErrorKind::WouldBlock,
    }
}

#[test]
fn tls_obeys_the_limits_of_tcp() {
    let service = Service::start("tcp_connections = 5\ntcp_idle_timeout = \"60s\"\n", None);
    let config = service.client_config(&TLS13, b"dot");
    let mut open = Vec::new();
    for id in 0..300 {
        let mut stream = service.secure(&config, [127, 0, 0, 2]);
        assert_answer(&exchange(&mut stream, &www(id)).expect("a newcomer is answered"), id);
        open.push(stream);
    }
    let limit = |label: &str| service.metric(&format!("aggregator_tcp_rejected_total{{limit=\"{label}\"}}"));
    // One of five is for those who may transfer the zone.
    wait_until("the others have gone", PATIENCE, || (service.metric("aggregator_tcp_connections") == 4).then_some(()));
    assert_eq!((limit("total"), limit("client")), (296, 0));
    for (index, stream) in open.iter_mut().enumerate() {
        assert_eq!(exchange(stream, &www(7)).is_ok(), index >= 296, "connection {index}");
    }
    // A plain connection counts with them, and so does one that never begins its handshake.
    let mut plain = connect(service.daemon.address(), [127, 0, 0, 7]);
    assert_answer(&exchange(&mut plain, &www(8)).expect("an answer"), 8);
    assert_eq!(limit("total"), 297);
    let started = Instant::now();
    let mut silent = connect(service.tls, [127, 0, 0, 8]);
    assert_eq!(silent.read(&mut [0]).unwrap_or(0), 0);
    assert!((3..20).contains(&started.elapsed().as_secs()), "a handshake took {:?}", started.elapsed());
}

#[test]
fn over_tls_everything_is_as_over_tcp() {
    let service = Service::start("", None);
    let config = service.client_config(&TLS13, b"dot");
    let query = www(5);
    let changed = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut message = query.clone();
        change(&mut message);
        message
    };
    let zone = Dname::parse("a.test");
    let notify = {
        let mut message = Query::new(&zone, rtype::SOA).encode(5);
        message[2] = 0x24;
        message
    };
    for (what, message) in [
        ("a query", query.clone()),
        ("NOTIFY", notify.clone()),
        ("an unknown opcode", changed(&|message| message[2] = 0x30)),
        ("two questions", changed(&|message| message[5] = 2)),
        ("a name that ends in the middle", changed(&|message| message.truncate(16))),
        ("a pointer to nowhere", changed(&|message| message[12] = 0xff)),
        ("octets behind the message", changed(&|message| message.extend([1, 2, 3]))),
        ("an answer count without answers", changed(&|message| message[7] = 9)),
        ("another class", changed(&|message| *message.last_mut().unwrap() = 77)),
        ("no question", query[..12].iter().enumerate().map(|(at, octet)| if at == 5 { 0 } else { *octet }).collect()),
        ("EDNS of another version", {
            let mut message = Query { edns: Some(1232), ..Query::new(&zone, rtype::SOA) }.encode(5);
            let at = message.len() - 5;
            message[at] = 7;
            message
        }),
    ] {
        let tcp = exchange(&mut connect(service.daemon.address(), [127, 0, 0, 1]), &message).expect(what);
        let tls = exchange(&mut service.secure(&config, [127, 0, 0, 1]), &message).expect(what);
        assert_eq!(tls, tcp, "{what}");
    }
    assert_eq!(exchange(&mut service.secure(&config, [127, 0, 0, 1]), &notify).expect("a response")[3] & 15, 0);
    assert_eq!(service.metric("aggregator_notify_received_total{result=\"accepted\",zone=\"a.test.\"}"), 3);
    // What has no answer has none, and the connection goes on.
    let mut stream = service.secure(&config, [127, 0, 0, 2]);
    stream
        .write_all(&[&[0, 0][..], &frame(&[1, 2, 3]), &frame(&changed(&|message| message[2] = 0x80))].concat())
        .unwrap();
    assert_answer(&exchange(&mut stream, &query).expect("an answer"), 5);
}

#[test]
fn zones_are_transferred_over_tls() {
    let service = Service::start("", None);
    let kdig = |arguments: &[&str]| {
        let port = service.tls.port().to_string();
        let mut command = Command::new("kdig");
        command.args(["@127.0.0.1", "-p", &port, "+tls"]).args(arguments);
        let output = command.output().unwrap_or_else(|error| panic!("kdig is missing ({error}); run make test"));
        String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned()
    };
    let records = |printed: &str| printed.lines().filter(|line| line.contains("TXT")).count();
    let plain = kdig(&["a.test", "AXFR"]);
    assert_eq!(records(&plain), 4000);
    let key = format!("hmac-sha256:k.test:{SECRET}");
    let signed = kdig(&["-b", "127.0.0.9", "-y", &key, "a.test", "AXFR"]);
    assert_eq!(records(&signed), 4000, "{signed}");
    assert!(![";; WARNING", ";; ERROR"].iter().any(|sign| signed.contains(sign)), "{signed}");
    let unsigned = kdig(&["-b", "127.0.0.9", "a.test", "AXFR"]);
    assert!(records(&unsigned) == 0 && unsigned.contains("REFUSED"), "{unsigned}");
    let current = kdig(&["a.test", "IXFR=1"]);
    assert!(current.contains("SOA") && records(&current) == 0, "{current}");
    // RFC 9103 sections 7.1 and 7.2: neither an older version nor a connection for nobody knows what.
    let request = Query::new(&Dname::parse("a.test"), rtype::AXFR).encode(3);
    for (version, protocol) in [(&TLS12, &b"dot"[..]), (&TLS13, b"")] {
        let mut stream = service.secure(&service.client_config(version, protocol), [127, 0, 0, 1]);
        let answer = decode(&exchange(&mut stream, &request).expect("a response")).expect("a message");
        assert_eq!((answer.rcode(), answer.answer.len()), (5, 0), "{answer:?}");
        assert_answer(&exchange(&mut stream, &www(4)).expect("questions are answered"), 4);
    }
    assert_eq!(service.metric("aggregator_xfr_served_total{kind=\"axfr\",result=\"tls\",zone=\"a.test.\"}"), 2);
    let log = service.daemon.log_text();
    assert!(log.lines().any(|line| line.contains("no transfer") && line.contains("TLS 1.3")), "{log}");
}

#[test]
fn one_silent_client_leaves_descriptors_to_everybody_else() {
    let server = "tcp_connections_per_client = 100000\ntcp_idle_timeout = \"10m\"\n";
    let service = Service::start(server, Some(1024));
    let (mut silent, mut serial) = (Vec::new(), 1);
    for address in [service.tls, service.daemon.address()] {
        silent.extend((0..1500).map(|_| connect(address, [127, 0, 0, 2])));
        let ticks = service.ticks();
        // Questions over UDP and TCP, scrapes, orders, and changes at the primary.
        let (mut client, until) = (Client::new(service.daemon.address()), Instant::now() + Duration::from_secs(3));
        while Instant::now() < until {
            client.ask(&Query::new(&Dname::parse("www.a.test"), rtype::A)).expect("an answer over UDP");
            for target in [service.daemon.address(), service.tls] {
                // Its own network may open no more connections for a moment.
                let mut newcomer = connect(target, [127, 0, 8, 8]);
                if target == service.tls {
                    let name = ServerName::try_from("ns.test").expect("name");
                    let config = service.client_config(&TLS13, b"dot");
                    let mut newcomer = StreamOwned::new(ClientConnection::new(config, name).unwrap(), newcomer);
                    assert_answer(&exchange(&mut newcomer, &www(2)).expect("an answer over TLS"), 2);
                } else {
                    assert_answer(&exchange(&mut newcomer, &www(3)).expect("an answer over TCP"), 3);
                }
            }
            assert_eq!(service.daemon.http("/healthz").0, 200);
            assert_eq!(service.daemon.verb(&["status"]).code, 0);
            std::thread::sleep(Duration::from_millis(50));
        }
        serial += 1;
        service.peer.replace_zone(&Dname::parse("a.test"), &read_zone(&zone_text(serial)));
        wait_until("the change is served", PATIENCE, || {
            client.serial(&Dname::parse("a.test")).filter(|served| *served == serial)
        });
        let used = service.ticks() - ticks;
        assert!(used < 300, "{used} hundredths of a second of processor time: something spins");
        let open = service.metric("aggregator_tcp_connections");
        assert!((500..900).contains(&open), "{open} connections");
    }
    assert!(silent.iter().filter(|stream| has_ended(stream)).count() > 2000);
    let log = service.daemon.log_text();
    assert!(log.contains("leaves room for fewer connections than tcp_connections"), "{log}");
    assert!(log.matches("cannot accept").count() <= 2, "{log}");
}

#[test]
fn slow_clients_leave_monitoring_alone() {
    let service = Service::start("", None);
    let mut slow = Vec::new();
    // They begin again as soon as they lose their connections.
    for _ in 0..10 {
        for _ in 0..64 {
            let mut stream = connect(service.daemon.metrics_address(), [127, 0, 0, 2]);
            stream.write_all(b"GET /healthz HTTP/1.1\r\nHost:").expect("a beginning");
            slow.push(stream);
        }
        for path in ["/healthz", "/metrics", "/readyz", "/healthz"] {
            let started = Instant::now();
            assert_eq!(service.daemon.http(path).0, 200, "{path}");
            assert!(started.elapsed() < Duration::from_secs(3), "{path} took {:?}", started.elapsed());
        }
    }
}

#[test]
fn a_crowd_of_idle_connections_keeps_no_secondary_out() {
    let service = Service::start("tcp_idle_timeout = \"60s\"\n", None);
    let zone = Dname::parse("a.test");
    let mut crowd = Vec::new();
    for round in 0..3 {
        for client in 10..30 {
            crowd.extend((0..50).map(|_| connect(service.daemon.address(), [127, 0, round, client])));
        }
        let mut client = Client::new(service.daemon.address());
        let records = client.transfer(&zone).expect("the secondary is served");
        assert!(difference(&read_zone(&zone_text(1)), &records).is_none());
        // Nor anybody else who has a question.
        let mut other = connect(service.daemon.address(), [127, 0, 0, 8]);
        assert_answer(&exchange(&mut other, &www(9)).expect("an answer"), 9);
    }
    wait_until("no more than the limit are left", PATIENCE, || {
        (service.metric("aggregator_tcp_connections") <= 1000).then_some(())
    });
    assert!(crowd.iter().any(has_ended));
}

#[test]
fn transfers_that_nobody_reads_keep_no_secondary_waiting() {
    let service = Service::start("", None);
    let zone = Dname::parse("a.test");
    let request = frame(&Query::new(&zone, rtype::AXFR).encode(1));
    let _stalled: Vec<TcpStream> = (3..7)
        .flat_map(|client| [client; 8])
        .map(|client| {
            let mut stream = connect(service.daemon.address(), [127, 0, 0, client]);
            // More than kernels buffer.
            stream.write_all(&request.repeat(100)).expect("requests");
            stream
        })
        .collect();
    // Those that do not get their turn come again, as secondaries do.
    for _ in 0..3 {
        let started = Instant::now();
        let records = wait_until("a transfer", PATIENCE, || {
            Client::new(service.daemon.address()).with_deadline(PATIENCE).transfer(&zone).ok()
        });
        assert!(difference(&read_zone(&zone_text(1)), &records).is_none());
        assert!(started.elapsed() < Duration::from_secs(8), "{:?}", started.elapsed());
    }
}

#[test]
fn a_primary_with_many_zones_is_asked_for_no_more_than_it_takes() {
    const ZONES: usize = 1500;
    let folder = Folder::new();
    let zones: Vec<ZoneText> = (0..ZONES)
        .map(|number| {
            let name = format!("z{number}.test");
            let head = "@ 60 IN SOA ns.x.invalid. h.x.invalid. 1 3600 600 2592000 30\n@ 60 IN NS ns.x.invalid.\n";
            (Dname::parse(&name), format!("$ORIGIN {name}.\n{head}www 30 IN A 192.0.2.1\n"))
        })
        .collect();
    let peer = Nsd::start_with_its_limits(&folder, &zones);
    let mut plan = "[zones]\n".to_string();
    zones.iter().for_each(|(zone, _)| {
        let zone = zone.to_string();
        writeln!(plan, "\"{}\" = \"{}\"", zone.trim_end_matches('.'), peer.address()).expect("string");
    });
    let daemon = Aggregator::start(&folder, &plan);
    // Not all have a series of their own.
    let loaded = |page: &str| -> usize {
        let lines = page.lines().filter(|line| line.starts_with("aggregator_zone_state{state=\"ok\""));
        lines.filter_map(|line| line.rsplit(' ').next()?.parse::<usize>().ok()).sum()
    };
    let page = wait_until("all zones are loaded", 2 * PATIENCE, || {
        let page = daemon.metrics();
        (loaded(&page) == ZONES).then_some(page)
    });
    let failed = page.lines().filter(|line| line.starts_with("aggregator_transfer_failures_total{"));
    let failed: Vec<&str> = failed.filter(|line| !line.ends_with(" 0")).collect();
    assert!(failed.is_empty(), "{} zones failed, such as {:?}", failed.len(), &failed[..failed.len().min(3)]);
}
