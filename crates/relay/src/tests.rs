use super::*;
use rustls::crypto::ring::default_provider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use std::process::Stdio;
use tokio::process::Command;
use tokio::time::timeout;

const PATIENCE: Duration = Duration::from_secs(20);

/// A relay with this limit to a server that sends these octets to whoever has sent it so many, and waits until it is
/// left.
async fn relay(limit: u32, hears: usize, says: Vec<u8>) -> Relay {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let says = says.clone();
            tokio::spawn(async move {
                let _ = stream.read_exact(&mut vec![0; hears]).await;
                let _ = stream.write_all(&says).await;
                let _ = stream.read_to_end(&mut Vec::new()).await;
            });
        }
    });
    Relay::start(Target { address, tls: None, limit }).await.unwrap()
}

/// A frame of the protocol.
fn frame(body: &[u8]) -> Vec<u8> {
    [&(body.len() as u32).to_be_bytes(), body].concat()
}

/// Sends these octets as the library would, and returns all that comes back, up to the end of the connection or `most`
/// octets.
async fn ask(relay: &Relay, requests: &[u8], most: usize) -> Vec<u8> {
    let mut stream = TcpStream::connect(relay.address()).await.unwrap();
    stream.write_all(requests).await.unwrap();
    let mut got = Vec::new();
    let reading = async {
        let mut piece = [0; 1024];
        while got.len() < most {
            match stream.read(&mut piece).await {
                Ok(0) | Err(_) => break,
                Ok(length) => got.extend_from_slice(&piece[..length]),
            }
        }
    };
    timeout(PATIENCE, reading).await.expect("an end");
    got
}

/// A request for a node's children, after the one that begins the session.
fn list_request(number: i32) -> Vec<u8> {
    let request = [number.to_be_bytes(), 12i32.to_be_bytes()].concat();
    [frame(&[0; 45]), frame(&request)].concat()
}

/// A reply with a list that says it has so many children, and holds `octets` of them.
fn list_reply(number: i32, count: i32, octets: usize) -> Vec<u8> {
    let head = [&number.to_be_bytes()[..], &[0; 12], &count.to_be_bytes()].concat();
    frame(&[head, vec![0; octets]].concat())
}

#[tokio::test]
async fn what_is_allowed_is_passed_on_as_it_is() {
    for body in [0, 1, 19, 20, 21, 1000, 300_000] {
        let says = [frame(&vec![7; body]), frame(b""), frame(&[0xff; 40])].concat();
        let relay = relay(300_000, 0, says.clone()).await;
        assert!(ask(&relay, &[], says.len()).await == says, "{body}");
        assert_eq!(relay.fault(), None);
    }
}

#[tokio::test]
async fn what_has_come_of_a_frame_is_passed_on_before_the_rest() {
    let says = [&1000u32.to_be_bytes()[..], &[7; 500]].concat();
    let relay = relay(1000, 0, says.clone()).await;
    assert_eq!(ask(&relay, &[], says.len()).await, says);
}

#[tokio::test]
async fn a_frame_that_is_too_long_ends_the_connection() {
    for (length, fault) in [
        (1001, Fault::TooLong { announced: 1001, limit: 1000 }),
        (0x7fff_ffff, Fault::TooLong { announced: 0x7fff_ffff, limit: 1000 }),
        (0x8000_0000, Fault::Length),
        (u32::MAX, Fault::Length),
    ] {
        let good = frame(&[1; 8]);
        let says = [&good[..], &u32::to_be_bytes(length), &[7; 500]].concat();
        let relay = relay(1000, 0, says).await;
        assert_eq!(ask(&relay, &[], usize::MAX).await, good, "{length}");
        assert_eq!(relay.fault(), Some(fault));
    }
}

#[tokio::test]
async fn a_list_has_the_children_that_it_has_room_for() {
    let welcome = frame(&[3; 37]);
    for (number, count, octets, is_good) in [
        (5, 0, 0, true),
        (5, -1, 0, true),
        (5, 16, 60, true),
        (5, 17, 60, false),
        (5, i32::MAX, 60, false),
        // An event has no list.
        (-1, i32::MAX, 60, true),
        // Nobody has asked for this one.
        (6, 0, 60, false),
        // One for each five octets would be three million.
        (5, 1 << 20, 16 << 20, true),
        (5, (1 << 20) + 1, 16 << 20, false),
    ] {
        let says = [&welcome[..], &list_reply(number, count, octets)].concat();
        let request = list_request(5);
        let relay = relay(DEFAULT_LIMIT, request.len(), says.clone()).await;
        let most = if is_good { says.len() } else { usize::MAX };
        let got = ask(&relay, &request, most).await;
        assert!(got == if is_good { says } else { welcome.clone() }, "{number} {count} {octets}");
        assert_eq!(relay.fault().is_none(), is_good);
    }
}

/// An answer among many, with what follows its header.
fn answer(operation: i32, body: &[&[u8]]) -> Vec<u8> {
    [&operation.to_be_bytes()[..], &[0; 5], &body.concat()].concat()
}

#[tokio::test]
async fn a_reply_to_many_questions_ends_only_if_all_of_it_is_good() {
    let number = |number: i32| number.to_be_bytes();
    let node = answer(4, &[&number(3), b"abc", &[0; 68]]);
    let empty = answer(4, &[&number(-1), &[0; 68]]);
    let gone = answer(-1, &[&number(-101)]);
    let list = |count: i32| answer(8, &[&number(count), &number(1), b"a", &number(2), b"bc"]);
    let end = [&number(-1)[..], &[1], &number(-1)].concat();
    for (answers, is_good) in [
        (Vec::new(), true),
        (vec![end.clone()], true),
        (vec![node.clone(), empty, gone.clone(), list(2), node.clone(), end.clone()], true),
        (vec![vec![b'x'; 3]], false),
        (vec![node.clone(), list(3), end.clone()], false),
        (vec![list(i32::MAX), end.clone()], false),
        (vec![answer(4, &[&number(9), b"abc"])], false),
        (vec![answer(4, &[&number(i32::MAX), b"abc"])], false),
        (vec![answer(14, &[]), end.clone()], false),
        (vec![gone.repeat(1024), end.clone()], true),
        (vec![gone.repeat(1025), end.clone()], false),
    ] {
        let request = [frame(&[0; 45]), frame(&[number(5), number(22)].concat())].concat();
        let welcome = frame(&[3; 37]);
        let reply = frame(&[&number(5)[..], &[0; 12], &answers.concat()].concat());
        let says = [&welcome[..], &reply].concat();
        let relay = relay(1 << 20, request.len(), says.clone()).await;
        let got = ask(&relay, &request, if is_good { says.len() } else { usize::MAX }).await;
        assert!(says.starts_with(&got) && (got == says) == is_good, "{answers:?}");
        assert_eq!(relay.fault().is_none(), is_good, "{answers:?}");
    }
}

#[tokio::test]
async fn a_server_at_fault_waits_for_its_next_turn() {
    let relay = relay(10, 0, 11u32.to_be_bytes().to_vec()).await;
    let started = Instant::now();
    for _ in 0..3 {
        ask(&relay, &[], usize::MAX).await;
    }
    assert!(started.elapsed() >= 3 * FIRST_PAUSE, "one pause, and one of twice its length");
    assert_eq!([1, 2, 7, u32::MAX].map(pause_after), [1, 2, 60, 60].map(Duration::from_secs));
}

#[tokio::test]
async fn other_processes_are_turned_away() {
    let says = frame(b"only for us");
    let relay = relay(1000, 0, says.clone()).await;
    let script = format!("exec 3<>/dev/tcp/127.0.0.1/{}; cat <&3", relay.address().port());
    let output = Command::new("bash").args(["-c", &script]).stdin(Stdio::null()).output();
    let output = timeout(PATIENCE, output).await.expect("it is turned away").unwrap();
    assert!(output.stdout.is_empty(), "{output:?}");
    assert_eq!(ask(&relay, &[], says.len()).await, says);
}

#[tokio::test]
async fn a_server_that_is_away_ends_the_connection() {
    let relay = Relay::start(Target { address: "127.0.0.1:1".into(), tls: None, limit: 10 }).await.unwrap();
    assert!(ask(&relay, b"hello", usize::MAX).await.is_empty());
    assert_eq!(relay.fault(), None);
}

/// A certificate for this machine, signed with itself, and its key.
async fn certificate() -> [String; 2] {
    let folder = tempfile::tempdir().unwrap();
    let [certificate, key] = ["c.pem", "k.pem"].map(|name| folder.path().join(name));
    let about = ["-subj", "/CN=zk", "-addext", "subjectAltName=IP:127.0.0.1", "-addext", "basicConstraints=CA:FALSE"];
    let mut command = Command::new("openssl");
    command.args(["req", "-x509", "-nodes", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"]).args(about);
    let output = command.arg("-keyout").arg(&key).arg("-out").arg(&certificate).output().await.unwrap();
    assert!(output.status.success(), "{output:?}");
    [certificate, key].map(|path| fs::read_to_string(path).unwrap())
}

#[tokio::test]
async fn tls_ends_at_the_relay() {
    let [certificate, key] = certificate().await;
    let chain = vec![CertificateDer::from_pem_slice(certificate.as_bytes()).unwrap()];
    let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap();
    let config =
        ServerConfig::builder_with_provider(Arc::new(default_provider())).with_safe_default_protocol_versions();
    let config = config.unwrap().with_no_client_auth().with_single_cert(chain, key).unwrap();
    let acceptor = tokio_rustls::TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let says = frame(&[7; 100_000]);
    let said = says.clone();
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            if let Ok(mut stream) = acceptor.accept(stream).await {
                let _ = stream.write_all(&said).await;
                let _ = stream.flush().await;
                let _ = stream.read_to_end(&mut Vec::new()).await;
            }
        }
    });
    let relay = async |ca: String, name: &'static str, limit| {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(ca.as_bytes()).unwrap()).unwrap();
        let config = ClientConfig::builder_with_provider(default_provider().into());
        let config = config.with_safe_default_protocol_versions().unwrap();
        let config = Arc::new(config.with_root_certificates(roots).with_no_client_auth());
        let tls = Some((TlsConnector::from(config), ServerName::try_from(name).unwrap()));
        Relay::start(Target { address: address.clone(), tls, limit }).await.unwrap()
    };
    let good = relay(certificate.clone(), "127.0.0.1", 100_000).await;
    assert!(ask(&good, &[], says.len()).await == says);
    let short = relay(certificate.clone(), "127.0.0.1", 99_999).await;
    assert!(ask(&short, &[], usize::MAX).await.is_empty());
    assert_eq!(short.fault(), Some(Fault::TooLong { announced: 100_000, limit: 99_999 }));
    let [other, _] = self::certificate().await;
    for (ca, name) in [(other, "127.0.0.1"), (certificate, "zk.example")] {
        let relay = relay(ca, name, 100_000).await;
        assert!(ask(&relay, &[], usize::MAX).await.is_empty());
        let fault = relay.fault();
        let text = fault.as_ref().map(ToString::to_string).unwrap_or_default();
        assert!(matches!(fault, Some(Fault::Tls(_))) && text.contains("invalid peer certificate"), "{name}: {text}");
    }
}
