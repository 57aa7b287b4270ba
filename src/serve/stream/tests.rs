//! Listeners and transfers over real sockets on the loopback interface.

use super::xfr_slots::{MAX_PER_CLIENT, MAX_TRANSFERS};
use super::*;
use crate::acl::{Access, Rule};
use crate::publish::{Identity, Outgoing, Published, Served, State};
use crate::serve::notify::Reception;
use crate::zone::tests::zone;
use crate::zone::{Loader, Zone};
use std::net::SocketAddr;
use tokio::net::TcpSocket;
use wire::name::{Name, NameBuf};
use wire::rr::rtype;

/// More than kernels buffer for a connection on both sides.
const HUGE_RECORDS: usize = 500;

fn plan(idle: Duration) -> ListenPlan {
    ListenPlan {
        dns: Vec::new(),
        udp_threads: 1,
        tcp_connections: 200,
        tcp_connections_per_client: 200,
        tcp_idle_timeout: idle,
        tls: None,
    }
}

/// A zone that does not fit into the buffers of a connection.
fn huge() -> Zone {
    let mut loader = Loader::new(Name::parse("huge").unwrap());
    loader.push(&NameBuf::parse("huge").unwrap(), rtype::SOA, 30, &[&[0, 0][..], &[0; 20]].concat());
    for index in 0..HUGE_RECORDS {
        let rdata = vec![index as u8; 60_000];
        loader.push(&NameBuf::parse(&format!("n{index}.huge")).unwrap(), 65_280, 30, &rdata);
    }
    loader.finish(None).unwrap().zone
}

fn published(zones: Vec<Zone>) -> Published {
    let outgoing = Arc::new(Outgoing {
        access: Access { rules: vec![Rule { prefix: None, key: None, channel: None, host: None }] },
        ixfr: true,
    });
    let served = |zone: Zone| {
        let served = Served::new(zone.origin.clone(), State::Ok, Some(Arc::new(zone)));
        Arc::new(Served { outgoing: outgoing.clone(), ..served })
    };
    Published::new(Identity::default(), zones.into_iter().map(served), 1)
}

/// A listener in service.
struct Fixture {
    context: Arc<StreamContext>,
    listener: Listener,
    address: SocketAddr,
    metrics: Arc<Metrics>,
}

impl Fixture {
    fn start(idle: Duration, zones: Vec<Zone>) -> Fixture {
        let metrics = Arc::new(Metrics::new());
        let (notify, _) = Reception::new(metrics.clone());
        let responder = Responder::new(notify, metrics.clone(), || 0);
        let publisher = Arc::new(Publisher::default());
        publisher.publish(published(zones));
        let context = StreamContext::new(&plan(idle), publisher, responder, metrics.clone());
        let mut listener = Listener::bind(([127, 0, 0, 1], 0).into()).unwrap();
        start(&mut listener, &context, None).unwrap();
        Fixture { address: listener.address(), context, listener, metrics }
    }

    async fn connect(&self) -> TcpStream {
        self.connect_from(1).await
    }

    /// Connects as one of several clients.
    async fn connect_from(&self, client: u8) -> TcpStream {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind(([127, 0, 0, client], 0).into()).unwrap();
        socket.connect(self.address).await.unwrap()
    }

    /// All transfers that one client may have at once, under way and not taken.
    async fn hold(&self, client: u8) -> Vec<TcpStream> {
        let mut holders = Vec::new();
        for _ in 0..MAX_PER_CLIENT {
            let mut stream = self.connect_from(client).await;
            stream.write_all(&frame(1, "huge", rtype::AXFR)).await.unwrap();
            assert!(answers(&read(&mut stream).await.expect("a first message")) > 0);
            holders.push(stream);
        }
        holders
    }

    /// Waits until a counter of transfers has a value.
    async fn wait_served(&self, kind: &str, result: &str, zone: &str, expected: u64) {
        let counter = self.metrics.xfr_served.with_label_values(&[zone, kind, result]);
        let reached = async {
            while counter.get() != expected {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        timeout(Duration::from_secs(60), reached).await.expect("the counter reaches its value");
    }
}

/// A request in its frame.
fn frame(id: u8, name: &str, rtype: u16) -> Vec<u8> {
    let mut message = vec![0, id, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    message.extend_from_slice(NameBuf::parse(name).unwrap().as_wire());
    message.extend_from_slice(&[0, rtype as u8, 0, 1]);
    [&(message.len() as u16).to_be_bytes()[..], &message].concat()
}

/// Reads a frame; `None` at the connection's end.
async fn read(stream: &mut TcpStream) -> Option<Vec<u8>> {
    let length = stream.read_u16().await.ok()?;
    let mut message = vec![0; length.into()];
    stream.read_exact(&mut message).await.ok()?;
    Some(message)
}

fn answers(message: &[u8]) -> usize {
    usize::from(u16::from_be_bytes([message[6], message[7]]))
}

fn small() -> Zone {
    let text: String = (0..5000).map(|n| format!("n{n} 30 TXT some-text-of-{n}\n")).collect();
    zone("small.", &format!("@ 30 SOA 1\n{text}"))
}

/// On one thread the accepting task runs only when it is waited for, so nothing here is by luck.
#[tokio::test(flavor = "current_thread")]
async fn an_ended_listener_has_given_its_address_back() {
    let metrics = Arc::new(Metrics::new());
    let (notify, _changed) = Reception::new(metrics.clone());
    let responder = Responder::new(notify, metrics.clone(), || 0);
    let context = StreamContext::new(&plan(Duration::from_secs(1)), Arc::default(), responder, metrics);
    let mut listener = Listener::bind(([127, 0, 0, 1], 0).into()).unwrap();
    let address = listener.address();
    start(&mut listener, &context, None).unwrap();
    assert_eq!(Listener::bind(address).map(drop).unwrap_err().kind(), io::ErrorKind::AddrInUse);
    listener.end().await;
    Listener::bind(address).expect("the address is free");
}

#[tokio::test]
async fn requests_around_a_transfer_are_answered_in_order() {
    let fixture = Fixture::start(Duration::from_secs(20), vec![small()]);
    let mut stream = fixture.connect().await;
    let requests = [
        frame(1, "n1.small", rtype::TXT),
        frame(2, "small", rtype::AXFR),
        frame(3, "small", rtype::AXFR),
        frame(4, "elsewhere", rtype::AXFR),
        frame(5, "n2.small", rtype::TXT),
    ];
    stream.write_all(&requests.concat()).await.unwrap();
    let mut got: Vec<(u8, usize)> = Vec::new();
    while got.last().is_none_or(|last| last.0 != 5) {
        let message = read(&mut stream).await.expect("a response");
        match got.last_mut() {
            Some(last) if last.0 == message[1] => last.1 += answers(&message),
            _ => got.push((message[1], answers(&message))),
        }
    }
    assert_eq!(got, [(1, 1), (2, 5002), (3, 5002), (4, 0), (5, 1)]);
    fixture.wait_served("axfr", "ok", "small.", 2).await;
}

/// A client that takes little at a time is served to the end: what counts is that it goes on, not how long a message
/// takes to fit into a buffer that the kernel reports only once a third of it is free.
#[tokio::test]
async fn a_client_that_reads_slowly_gets_everything() {
    let fixture = Fixture::start(Duration::from_millis(500), vec![huge()]);
    let mut slow = fixture.connect().await;
    slow.write_all(&frame(1, "huge", rtype::AXFR)).await.unwrap();
    let (mut taken, mut piece) = (Vec::new(), vec![0; 16 << 10]);
    let begun = Instant::now();
    // Longer than a connection may be silent, and than a transfer may do nothing.
    while begun.elapsed() < Duration::from_secs(5) {
        slow.read_exact(&mut piece).await.expect("the transfer goes on");
        taken.extend_from_slice(&piece);
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let mut messages = taken.chain(slow);
    let mut records = 0;
    while records < HUGE_RECORDS + 2 {
        let mut message = vec![0; messages.read_u16().await.expect("another message").into()];
        messages.read_exact(&mut message).await.expect("a whole message");
        records += answers(&message);
    }
    fixture.wait_served("axfr", "ok", "huge.", 1).await;
}

#[tokio::test]
async fn a_client_that_takes_nothing_is_let_go() {
    let fixture = Fixture::start(Duration::from_millis(300), vec![huge()]);
    let mut stalled = fixture.connect().await;
    stalled.write_all(&frame(1, "huge", rtype::AXFR)).await.unwrap();
    fixture.wait_served("axfr", "slow", "huge.", 1).await;
    // What the kernels had is there; then the connection has ended, before the transfer did.
    let mut records = 0;
    while let Some(message) = read(&mut stalled).await {
        records += answers(&message);
    }
    assert!(records < HUGE_RECORDS, "{records}");
    drop(stalled);
    // One that goes away is noticed at once.
    let mut gone = fixture.connect().await;
    gone.write_all(&frame(1, "huge", rtype::AXFR)).await.unwrap();
    read(&mut gone).await.expect("a first message");
    drop(gone);
    fixture.wait_served("axfr", "aborted", "huge.", 1).await;
}

#[tokio::test]
async fn a_transfer_outlives_its_listener() {
    let fixture = Fixture::start(Duration::from_secs(60), vec![huge()]);
    let mut stream = fixture.connect().await;
    stream.write_all(&frame(1, "huge", rtype::AXFR)).await.unwrap();
    let mut records = answers(&read(&mut stream).await.expect("a first message"));
    let Fixture { listener, address, .. } = fixture;
    listener.end().await;
    assert!(TcpStream::connect(address).await.is_err(), "nobody else comes in");
    // Longer than a connection is answered that only waits for requests.
    tokio::time::sleep(DRAIN + Duration::from_millis(100)).await;
    while records < HUGE_RECORDS + 2 {
        records += answers(&read(&mut stream).await.expect("another message"));
    }
    assert_eq!(read(&mut stream).await, None);
}

#[tokio::test]
async fn a_client_with_many_transfers_does_not_keep_others_from_theirs() {
    let fixture = Fixture::start(Duration::from_secs(60), vec![huge(), small()]);
    let _held = fixture.hold(1).await;
    let mut more = Vec::new();
    for _ in 0..MAX_TRANSFERS {
        let mut stream = fixture.connect_from(1).await;
        stream.write_all(&frame(1, "huge", rtype::AXFR)).await.unwrap();
        more.push(stream);
    }
    let mut other = fixture.connect_from(2).await;
    other.write_all(&frame(2, "small", rtype::AXFR)).await.unwrap();
    let first = read(&mut other).await.unwrap();
    assert_eq!((first[1], first[3] & 15), (2, 0));
    fixture.wait_served("axfr", "ok", "small.", 1).await;
    fixture.wait_served("axfr", "busy", "huge.", more.len() as u64).await;
}

/// Four clients have all transfers that there may be, and read none of them.
#[tokio::test]
async fn transfers_that_nobody_reads_keep_no_other_client_from_its_own() {
    let fixture = Fixture::start(Duration::from_secs(60), vec![huge(), small()]);
    let mut holders = Vec::new();
    for client in 2..2 + MAX_TRANSFERS / MAX_PER_CLIENT {
        holders.extend(fixture.hold(client as u8).await);
    }
    let begun = Instant::now();
    let mut late = fixture.connect().await;
    late.write_all(&[frame(2, "small", rtype::AXFR), frame(3, "n1.small", rtype::TXT)].concat()).await.unwrap();
    // Questions are not held up by any of this.
    let mut other = fixture.connect().await;
    other.write_all(&frame(4, "n1.small", rtype::TXT)).await.unwrap();
    assert_eq!(answers(&read(&mut other).await.unwrap()), 1);
    let mut records = 0;
    while records < 5002 {
        let message = read(&mut late).await.expect("a message");
        assert_eq!((message[1], message[3] & 15), (2, 0));
        records += answers(&message);
    }
    assert_eq!(answers(&read(&mut late).await.unwrap()), 1, "the connection stays");
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
    fixture.wait_served("axfr", "ok", "small.", 1).await;
    fixture.wait_served("axfr", "displaced", "huge.", 1).await;
    drop(holders);
    fixture.wait_served("axfr", "aborted", "huge.", MAX_TRANSFERS as u64 - 1).await;
}

/// A crowd from many addresses, all of them idle, and a client that may transfer the zone.
#[tokio::test]
async fn secondaries_have_places_that_a_crowd_cannot_take() {
    let fixture = Fixture::start(Duration::from_secs(60), vec![small()]);
    let limits = ListenPlan { tcp_connections: 20, ..plan(Duration::from_secs(60)) };
    fixture.context.configure(&limits, vec!["127.0.0.1".parse().unwrap()]);
    let mut secondary = fixture.connect().await;
    let mut crowd = Vec::new();
    for round in 0..5 {
        for client in 2..42 {
            crowd.push(fixture.connect_from(client).await);
        }
        secondary.write_all(&frame(round, "small", rtype::AXFR)).await.unwrap();
        let mut records = 0;
        while records < 5002 {
            records += answers(&read(&mut secondary).await.expect("a message"));
        }
    }
    let open = async {
        while fixture.metrics.tcp_connections.get() > 20 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(Duration::from_secs(20), open).await.expect("the others have gone");
    let rejected = fixture.metrics.tcp_rejected.with_label_values(&["total"]).get();
    assert_eq!(rejected, 5 * 40 - 18, "two of twenty places are reserved");
}

#[tokio::test]
async fn a_record_that_no_message_holds_ends_the_connection() {
    let mut loader = Loader::new(Name::parse("z").unwrap());
    loader.push(&NameBuf::parse("z").unwrap(), rtype::SOA, 30, &[&[0, 0][..], &[0; 20]].concat());
    loader.push(&NameBuf::parse("a-rather-long-name.z").unwrap(), 65_280, 30, &vec![7; 65_520]);
    let fixture = Fixture::start(Duration::from_secs(20), vec![loader.finish(None).unwrap().zone]);
    let mut stream = fixture.connect().await;
    stream.write_all(&frame(1, "z", rtype::AXFR)).await.unwrap();
    assert_eq!(answers(&read(&mut stream).await.unwrap()), 1);
    assert_eq!(read(&mut stream).await, None);
    fixture.wait_served("axfr", "oversized", "z.", 1).await;
}
