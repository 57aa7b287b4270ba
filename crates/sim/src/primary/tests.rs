//! The primary over real sockets.

use super::super::instances::Datacenter;
use super::super::tests::{ask, read, rows, with_soa, zone_of};
use super::*;
use std::time::{Instant, UNIX_EPOCH};
use wire::rr::rtype;

const ZONE: &str = "us-west-1.cns.example.com";

fn model() -> Datacenter {
    let now = UNIX_EPOCH + Duration::from_secs(1_772_366_400);
    Datacenter::new(Name::parse(ZONE).unwrap(), 1, 7, now).unwrap()
}

async fn start(model: &Datacenter) -> Primary {
    let primary = Primary::start("127.0.0.1:0".parse().unwrap()).await.unwrap();
    primary.publish(model.zone());
    primary
}

async fn client(primary: &Primary) -> UdpSocket {
    let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    socket.connect(primary.address()).await.unwrap();
    socket
}

async fn exchange(socket: &UdpSocket, message: &[u8]) -> Vec<u8> {
    socket.send(message).await.unwrap();
    let mut buffer = [0; 2048];
    let length = timeout(IDLE, socket.recv(&mut buffer)).await.expect("an answer").unwrap();
    buffer[..length].to_vec()
}

/// Reads the messages of one transfer.
async fn transfer(stream: &mut TcpStream, question: &[u8]) -> Zone {
    write_message(stream, question).await.unwrap();
    let mut all = Vec::new();
    while all.len() < 2 || all.first() != all.last() {
        all.extend(rows(&read(&read_message(stream).await.unwrap()).answers));
    }
    zone_of(&all)
}

/// Returns true if the primary has closed the connection, in order or not.
async fn is_closed(stream: &mut TcpStream) -> bool {
    timeout(IDLE * 2, stream.read_u8()).await.expect("an end").is_err()
}

#[tokio::test]
async fn a_transfer_carries_what_the_model_publishes() {
    let mut model = model();
    let primary = start(&model).await;
    let mut stream = TcpStream::connect(primary.address()).await.unwrap();
    assert_eq!(transfer(&mut stream, &ask(1, ZONE, rtype::AXFR)).await.nodes(), model.zone().nodes());
    // The same connection, a new version, several messages.
    model.scale_up("web", 100, UNIX_EPOCH);
    primary.publish(model.zone());
    let second = transfer(&mut stream, &with_soa(ask(2, ZONE, rtype::IXFR), 1)).await;
    assert_eq!((second.nodes(), second.serial()), (model.zone().nodes(), model.serial()));
    let udp = client(&primary).await;
    let soa = read(&exchange(&udp, &ask(3, ZONE, rtype::SOA)).await);
    assert_eq!(rows(&soa.answers)[0].2, model.zone().soa());
}

#[tokio::test]
async fn questions_that_arrive_together_are_all_answered() {
    let model = model();
    let primary = start(&model).await;
    let mut stream = TcpStream::connect(primary.address()).await.unwrap();
    for id in 1..=3 {
        write_message(&mut stream, &ask(id, ZONE, rtype::SOA)).await.unwrap();
    }
    // Silence for another opcode does not end the connection.
    let mut status = ask(4, ZONE, rtype::SOA);
    status[2] = 2 << 3;
    write_message(&mut stream, &status).await.unwrap();
    write_message(&mut stream, &ask(5, ZONE, rtype::SOA)).await.unwrap();
    for id in [1, 2, 3, 5] {
        assert_eq!(read(&read_message(&mut stream).await.unwrap()).metadata.id, id);
    }
}

#[tokio::test]
async fn an_idle_connection_is_closed_after_five_seconds() {
    let primary = start(&model()).await;
    let mut stream = TcpStream::connect(primary.address()).await.unwrap();
    transfer(&mut stream, &ask(1, ZONE, rtype::AXFR)).await;
    let since = Instant::now();
    assert!(is_closed(&mut stream).await);
    assert!(since.elapsed() > IDLE - Duration::from_millis(500), "{:?}", since.elapsed());
}

#[tokio::test]
async fn a_primary_that_is_away_answers_nothing_and_comes_back() {
    let model = model();
    let primary = start(&model).await;
    let mut open = TcpStream::connect(primary.address()).await.unwrap();
    transfer(&mut open, &ask(1, ZONE, rtype::AXFR)).await;
    primary.set_away(true);
    assert!(primary.is_away());
    assert!(is_closed(&mut open).await);
    if let Ok(mut fresh) = TcpStream::connect(primary.address()).await {
        assert!(is_closed(&mut fresh).await);
    }
    let udp = client(&primary).await;
    udp.send(&ask(2, ZONE, rtype::SOA)).await.unwrap();
    let mut buffer = [0; 512];
    assert!(timeout(Duration::from_millis(300), udp.recv(&mut buffer)).await.is_err());
    primary.set_away(false);
    let udp = client(&primary).await;
    assert_eq!(read(&exchange(&udp, &ask(3, ZONE, rtype::SOA)).await).metadata.id, 3);
    let mut stream = TcpStream::connect(primary.address()).await.unwrap();
    assert_eq!(transfer(&mut stream, &ask(4, ZONE, rtype::AXFR)).await.serial(), model.serial());
}

#[tokio::test]
async fn bad_messages_close_a_connection_and_harm_no_other() {
    let primary = start(&model()).await;
    let udp = client(&primary).await;
    let lacks_soa = ask(1, ZONE, rtype::IXFR);
    for bad in [&[][..], &[0; 11], &[0xff; 40], &lacks_soa] {
        let mut stream = TcpStream::connect(primary.address()).await.unwrap();
        write_message(&mut stream, bad).await.unwrap();
        assert!(is_closed(&mut stream).await, "{bad:?}");
        udp.send(bad).await.unwrap();
        assert_eq!(read(&exchange(&udp, &ask(8, ZONE, rtype::SOA)).await).metadata.id, 8);
    }
}

#[tokio::test]
async fn notify_has_the_form_of_cns() {
    let model = model();
    let primary = start(&model).await;
    let secondary = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    primary.notify(model.origin(), secondary.local_addr().unwrap()).await.unwrap();
    let mut buffer = [0; 512];
    let (length, from) = timeout(IDLE, secondary.recv_from(&mut buffer)).await.unwrap().unwrap();
    assert_eq!(from, primary.address());
    let mut expected = ask(u16::from_be_bytes([buffer[0], buffer[1]]), ZONE, rtype::SOA);
    expected[2] = 4 << 3;
    assert_eq!(&buffer[..length], expected);
    // The reply is no question.
    buffer[2] |= 0x80;
    secondary.send_to(&buffer[..length], from).await.unwrap();
    let udp = client(&primary).await;
    assert_eq!(read(&exchange(&udp, &ask(8, ZONE, rtype::SOA)).await).metadata.id, 8);
}

#[tokio::test]
async fn a_commit_in_the_middle_of_a_scan_is_mixed_in() {
    let mut model = model();
    model.scale_up("web", 100, UNIX_EPOCH);
    let primary = start(&model).await;
    let old = model.zone();
    model.scale_down("web", 60, UNIX_EPOCH);
    let new = model.zone();
    primary.set_scan_pause(Duration::from_millis(2));
    let mut stream = TcpStream::connect(primary.address()).await.unwrap();
    let question = ask(1, ZONE, rtype::AXFR);
    let (mixed, ()) =
        tokio::join!(transfer(&mut stream, &question), primary.commit(new.clone(), Duration::from_millis(60)));
    assert_eq!(mixed.serial(), old.serial(), "the serial of its beginning");
    let has = |zone: &Zone| mixed.nodes().iter().all(|node| zone.find(node.owner.as_wire()) == Some(&node.records));
    assert!(!has(&old) || !has(&new), "one of both at least shows");
    assert_eq!(primary.serial(old.origin()), Some(new.serial()));
    assert_eq!(transfer(&mut stream, &ask(2, ZONE, rtype::AXFR)).await.nodes().len(), new.nodes().len());
}

#[tokio::test]
async fn questions_can_be_refused_and_are_counted() {
    let model = model();
    let primary = start(&model).await;
    let (udp, owner) = (client(&primary).await, model.zone().nodes()[0].owner.to_string());
    for (refuses, rcode) in [(false, 0), (true, 5)] {
        primary.set_refusing(refuses);
        assert_eq!(exchange(&udp, &ask(1, &owner, rtype::A)).await[3] & 15, rcode);
        assert_eq!(exchange(&udp, &ask(2, ZONE, rtype::SOA)).await[3] & 15, 0, "zones are always told");
    }
    assert_eq!(primary.tally().questions, 2);
}
