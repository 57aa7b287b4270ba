//! TCP as clients use and misuse it (RFC 7766): pipelining, frames in pieces, idle and slow clients, limits,
//! half-closed connections, nonsense, resets.

mod harness;

use harness::*;
use std::collections::HashSet;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::{Duration, Instant};

/// Longest time that an answer, or a connection's end, may take.
const PATIENCE: Duration = Duration::from_secs(20);
/// Addresses of the service that fits no datagram.
const ADDRESSES: usize = 600;

/// A daemon with one zone, and its primary.
struct Service {
    daemon: Aggregator,
    _peer: Peer,
    _folder: Folder,
}

impl Service {
    /// Starts it with further lines of `[server]`.
    fn start(server: &str) -> Service {
        let zone = Dname::parse("a.test");
        let mut text = "$ORIGIN a.test.\n$TTL 30\n@ IN SOA ns.dc.invalid. h.dc.invalid. 1 30 60 2592000 30\n\
                        @ IN NS ns.dc.invalid.\nwww IN A 192.0.2.1\n"
            .to_string();
        for number in 0..ADDRESSES {
            text.push_str(&format!("big IN A 10.0.{}.{}\n", number / 200, number % 200));
        }
        let folder = Folder::new();
        let peer = Knotd::start(&folder, &[(zone, text)]);
        let plan = format!("[zones]\n\"a.test\" = \"{}\"\n", peer.address());
        let settings = Settings { server: server.to_string(), ..Settings::new(&plan) };
        let daemon = Aggregator::start_with(&folder.subfolder("aggregator"), &settings);
        let mut client = Client::new(daemon.address());
        wait_until("the zone is loaded", PATIENCE, || client.serial(&Dname::parse("a.test")));
        Service { daemon, _peer: peer, _folder: folder }
    }

    fn address(&self) -> SocketAddr {
        self.daemon.address()
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address()).expect("connect");
        stream.set_read_timeout(Some(PATIENCE)).expect("timeout");
        stream.set_write_timeout(Some(PATIENCE)).expect("timeout");
        stream.set_nodelay(true).expect("no delay");
        stream
    }

    /// Asks over a connection of its own: whatever others do, this works.
    fn assert_serving(&self) {
        let mut stream = self.connect();
        assert_answer(exchange(&mut stream, 77).expect("a new client is served"), 77);
    }

    /// The value of a metric without labels or with the labels given.
    fn metric(&self, name: &str) -> u64 {
        let page = self.daemon.metrics();
        let value = page.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        value.map_or(0, |value| value.parse().expect("number"))
    }
}

fn query(id: u16) -> Vec<u8> {
    Query::new(&Dname::parse("www.a.test"), rtype::A).encode(id)
}

fn frame(message: &[u8]) -> Vec<u8> {
    [&(message.len() as u16).to_be_bytes(), message].concat()
}

fn exchange(stream: &mut TcpStream, id: u16) -> io::Result<Vec<u8>> {
    write_frame(stream, &query(id))?;
    read_frame(stream)
}

fn assert_answer(bytes: Vec<u8>, id: u16) {
    let answer = decode(&bytes).expect("a message");
    assert_eq!((answer.id, answer.rcode(), answer.answer.len()), (id, 0, 1), "{answer:?}");
}

/// Waits until the server ends the connection, which sends nothing more.
fn assert_ended(mut stream: TcpStream) {
    let mut rest = Vec::new();
    match stream.read_to_end(&mut rest) {
        Ok(_) => assert!(rest.is_empty(), "{rest:?}"),
        // What we sent and nobody read makes it a reset.
        Err(error) => assert_eq!(error.kind(), ErrorKind::ConnectionReset, "{error}"),
    }
}

#[test]
fn a_hundred_queries_in_one_segment() {
    let service = Service::start("");
    let mut stream = service.connect();
    let segment: Vec<u8> = (0..100).flat_map(|id| frame(&query(id))).collect();
    stream.write_all(&segment).expect("send");
    let ids: HashSet<u16> = (0..100)
        .map(|_| {
            let bytes = read_frame(&mut stream).expect("an answer to each");
            let id = u16::from_be_bytes([bytes[0], bytes[1]]);
            assert_answer(bytes, id);
            id
        })
        .collect();
    assert_eq!(ids, (0..100).collect());
    assert_eq!(service.metric("aggregator_queries_total{transport=\"tcp\"}"), 100);
}

#[test]
fn frames_in_any_pieces() {
    let service = Service::start("");
    let mut stream = service.connect();
    for byte in frame(&query(1)) {
        stream.write_all(&[byte]).expect("send");
        // A segment of its own, as far as that can be had.
        std::thread::sleep(Duration::from_millis(2));
    }
    assert_answer(read_frame(&mut stream).expect("an answer"), 1);
    // One and a half, then the rest and another half, and so on.
    let all: Vec<u8> = (2..12).flat_map(|id| frame(&query(id))).collect();
    let step = frame(&query(0)).len() * 3 / 2;
    for piece in all.chunks(step) {
        stream.write_all(piece).expect("send");
        std::thread::sleep(Duration::from_millis(2));
    }
    (2..12).for_each(|id| assert_answer(read_frame(&mut stream).expect("an answer"), id));
}

#[test]
fn silent_connections_end_and_busy_ones_stay() {
    let service = Service::start("tcp_idle_timeout = \"2s\"\n");
    let began = Instant::now();
    let silent = service.connect();
    let mut stopped_midway = service.connect();
    stopped_midway.write_all(&frame(&query(1))[..7]).expect("send");
    let mut asked_once = service.connect();
    assert_answer(exchange(&mut asked_once, 1).expect("an answer"), 1);
    let mut busy = service.connect();
    let mut id = 0;
    while began.elapsed() < Duration::from_secs(4) {
        id += 1;
        assert_answer(exchange(&mut busy, id).expect("a busy connection stays"), id);
        std::thread::sleep(Duration::from_millis(100));
    }
    [silent, stopped_midway, asked_once].into_iter().for_each(assert_ended);
    assert!(began.elapsed() < PATIENCE / 2, "ended after {:?}", began.elapsed());
    drop(busy);
    wait_until("no connection is left", PATIENCE, || (service.metric("aggregator_tcp_connections") == 0).then_some(()));
}

/// Connections from one address, each with a question that is answered, in the order of coming.
fn open(service: &Service, local: &str, count: usize) -> Vec<TcpStream> {
    let one = |_| {
        let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).expect("socket");
        let local: SocketAddr = format!("{local}:0").parse().expect("address");
        socket.bind(&local.into()).expect("bind");
        socket.connect(&service.address().into()).expect("connect");
        let mut stream = TcpStream::from(socket);
        stream.set_read_timeout(Some(PATIENCE)).expect("timeout");
        assert_answer(exchange(&mut stream, 5).expect("a newcomer is answered"), 5);
        stream
    };
    (0..count).map(one).collect()
}

#[test]
fn beyond_a_limit_the_connection_that_is_used_least_goes() {
    let service = Service::start("tcp_connections = 5\ntcp_connections_per_client = 3\n");
    let mut first = open(&service, "127.0.0.1", 3);
    assert_answer(exchange(&mut first[0], 6).expect("an answer"), 6);
    // The fourth of a client takes the place of its own connection that has asked nothing for the longest.
    first.extend(open(&service, "127.0.0.1", 1));
    assert_ended(first.remove(1));
    assert_eq!(service.metric("aggregator_tcp_rejected_total{limit=\"client\"}"), 1, "{}", service.daemon.metrics());
    // With five in all, the sixth takes the place of one of the client with most.
    let mut second = open(&service, "127.0.0.2", 2);
    assert_answer(exchange(&mut first[0], 7).expect("an answer"), 7);
    let mut third = open(&service, "127.0.0.3", 1);
    assert_ended(first.remove(1));
    assert_eq!(service.metric("aggregator_tcp_rejected_total{limit=\"total\"}"), 1);
    wait_until("it is counted out", PATIENCE, || (service.metric("aggregator_tcp_connections") == 5).then_some(()));
    // All others are not disturbed, and a place that becomes free is there for the next.
    for stream in first.iter_mut().chain(&mut second).chain(&mut third) {
        assert_answer(exchange(stream, 8).expect("an answer"), 8);
    }
    drop(second);
    wait_until("places are free again", PATIENCE, || (service.metric("aggregator_tcp_connections") == 3).then_some(()));
    open(&service, "127.0.0.4", 2);
    assert_eq!(service.metric("aggregator_tcp_rejected_total{limit=\"total\"}"), 1);
    // UDP knows no such limit.
    assert!(Client::new(service.address()).serial(&Dname::parse("a.test")).is_some());
}

#[test]
fn a_client_that_never_reads_costs_others_nothing() {
    let service = Service::start("tcp_idle_timeout = \"2s\"\n");
    let big = frame(&Query::new(&Dname::parse("big.a.test"), rtype::A).encode(1));
    let segment = big.repeat(100);
    let fillers: Vec<TcpStream> = (0..10)
        .map(|_| {
            let mut stream = service.connect();
            stream.set_nonblocking(true).expect("nonblocking");
            // Until both directions are full, or this has become a gigabyte of answers.
            for _ in 0..1000 {
                match stream.write(&segment) {
                    Ok(_) => {}
                    Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                    Err(error) => panic!("{error}"),
                }
            }
            stream
        })
        .collect();
    for _ in 0..20 {
        service.assert_serving();
    }
    let status = std::fs::read_to_string(format!("/proc/{}/status", service.daemon.id())).expect("status");
    let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("VmRSS");
    let resident: u64 = resident.trim().trim_end_matches(" kB").parse().expect("number");
    assert!(resident < 200 << 10, "{resident} KiB in memory");
    wait_until("they lose their connections", PATIENCE, || {
        (service.metric("aggregator_tcp_connections") == 0).then_some(())
    });
    drop(fillers);
}

#[test]
fn a_half_closed_connection_gets_all_its_answers() {
    let service = Service::start("");
    // Few queries, many, and so many answers that they do not fit the buffers of both kernels.
    for (name, count) in [("www.a.test", 1), ("www.a.test", 2000), ("big.a.test", 2000)] {
        let mut stream = service.connect();
        let segment: Vec<u8> =
            (0..count).flat_map(|id| frame(&Query::new(&Dname::parse(name), rtype::A).encode(id))).collect();
        let mut writer = stream.try_clone().expect("clone");
        let sender = std::thread::spawn(move || {
            writer.write_all(&segment).expect("send");
            writer.shutdown(Shutdown::Write).expect("shutdown");
        });
        for id in 0..count {
            let answer = read_frame(&mut stream).unwrap_or_else(|error| panic!("answer {id} of {count}: {error}"));
            assert_eq!((&answer[..2], answer.len() > 1232), (&id.to_be_bytes()[..], name == "big.a.test"));
        }
        sender.join().expect("sender");
        assert_ended(stream);
    }
    // The last query is cut off: the others are answered, and that is all.
    let mut stream = service.connect();
    stream.write_all(&[frame(&query(1)), frame(&query(2))[..20].to_vec()].concat()).expect("send");
    stream.shutdown(Shutdown::Write).expect("shutdown");
    assert_answer(read_frame(&mut stream).expect("an answer"), 1);
    assert_ended(stream);
}

#[test]
fn nonsense_gets_what_it_deserves() {
    let service = Service::start("");
    // Frames without octets, and too short for a header, have no answer; the next query has.
    let mut stream = service.connect();
    stream.write_all(&[&[0, 0, 0, 0][..], &frame(&[1, 2, 3]), &frame(&query(3))].concat()).expect("send");
    assert_answer(read_frame(&mut stream).expect("an answer"), 3);
    // The longest frame, full of nonsense: a response is not answered, a query is FORMERR or NOTIMP.
    for (second, rcodes) in [(0xff, &[][..]), (0x00, &[1]), (0x28, &[4])] {
        let mut garbage: Vec<u8> = (0..65_535u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
        garbage[2] = second;
        stream.write_all(&[frame(&garbage), frame(&query(4))].concat()).expect("send");
        for rcode in rcodes {
            let answer = decode(&read_frame(&mut stream).expect("an answer")).expect("a message");
            assert_eq!((answer.id.to_be_bytes(), answer.rcode()), ([garbage[0], garbage[1]], *rcode));
        }
        assert_answer(read_frame(&mut stream).expect("an answer"), 4);
    }
    // A length that nothing follows.
    let mut stream = service.connect();
    stream.write_all(&[0xff, 0xff]).expect("send");
    stream.shutdown(Shutdown::Write).expect("shutdown");
    assert_ended(stream);
    service.assert_serving();
}

#[test]
fn resets_leave_nothing_behind() {
    let service = Service::start("");
    for round in 0..200 {
        let mut stream = service.connect();
        let piece = frame(&query(1));
        stream.write_all(&piece[..round % (piece.len() + 1)]).expect("send");
        // Closing without waiting for what is on its way is a reset (RFC 1122 section 4.2.2.13).
        socket2::SockRef::from(&stream).set_linger(Some(Duration::ZERO)).expect("linger");
    }
    wait_until("no connection is left", PATIENCE, || (service.metric("aggregator_tcp_connections") == 0).then_some(()));
    service.assert_serving();
}

#[test]
fn what_is_cut_over_udp_is_whole_over_tcp() {
    let service = Service::start("");
    let mut client = Client::new(service.address());
    for edns in [None, Some(512), Some(1232), Some(65_535)] {
        let query = Query { edns, ..Query::new(&Dname::parse("big.a.test"), rtype::A) };
        let cut = client.ask(&query).expect("an answer");
        let limit = usize::from(edns.unwrap_or(512).min(1232));
        assert!(cut.is_truncated() && cut.answer.is_empty() && cut.size <= limit, "{edns:?} {cut:?}");
        let whole = client.ask_tcp(&query).expect("an answer");
        assert!(!whole.is_truncated() && whole.size > 1232);
        let addresses: HashSet<&[u8]> = whole.answer.iter().map(|record| &record.rdata[..]).collect();
        assert_eq!((addresses.len(), whole.answer.len()), (ADDRESSES, ADDRESSES));
    }
}
