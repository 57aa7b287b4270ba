//! DNS over TLS, asked by Knot's `kdig`: the same answers as over TCP, verified certificates, certificate change.

use aggregator::metrics::Metrics;
use aggregator::publish::{Identity, Published, Publisher, Served, State};
use aggregator::serve::listener::Listener;
use aggregator::serve::notify::Reception;
use aggregator::serve::respond::Responder;
use aggregator::serve::stream::{self, StreamContext};
use aggregator::serve::tls::{self, Shown, TlsError, TlsIdentity};
use aggregator::serve::{ListenPlan, TlsPlan};
use aggregator::zone::Loader;
use std::fs;
use std::io::Read;
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;
use wire::name::{Name, NameBuf};
use wire::rr::rtype;

/// Runs a program of the test environment; its output.
fn tool(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output();
    let output = output.unwrap_or_else(|error| panic!("{program} is missing ({error}); run make test"));
    assert!(output.status.success(), "{program} {arguments:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// A self-signed certificate for a host name.
fn certify(folder: &Path, host: &str) -> TlsPlan {
    let [certificate, key] = ["cert", "key"].map(|kind| folder.join(format!("{host}.{kind}.pem")));
    let (subject, alternative) = (format!("/CN={host}"), format!("subjectAltName=DNS:{host}"));
    let (certificate_text, key_text) = (certificate.to_str().unwrap(), key.to_str().unwrap());
    let curve = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"];
    let about = ["-subj", &subject, "-addext", &alternative, "-days", "2", "-nodes"];
    let files = ["-keyout", key_text, "-out", certificate_text];
    tool("openssl", &[&["req", "-x509"][..], &curve, &about, &files].concat());
    TlsPlan { listen: Vec::new(), certificate, key, client_ca: None }
}

fn published() -> Published {
    let origin = Name::parse("a.example").unwrap();
    let mut loader = Loader::new(origin.clone());
    let name = |text: &str| NameBuf::parse(text).unwrap();
    let mut push = |owner: &str, rtype: u16, rdata: &[u8]| loader.push(&name(owner), rtype, 60, rdata);
    let (ns, root) = (name("ns.a.example"), name("h.a.example"));
    let timers = [7u32, 10, 10, 1000, 10].map(u32::to_be_bytes).concat();
    push("a.example", rtype::SOA, &[ns.as_wire(), root.as_wire(), &timers].concat());
    push("a.example", rtype::NS, ns.as_wire());
    push("ns.a.example", rtype::A, &[192, 0, 2, 1]);
    for last in 0..200 {
        push("many.a.example", rtype::A, &[192, 0, 2, last]);
    }
    push("alias.a.example", rtype::CNAME, name("ns.A.example").as_wire());
    push("moved.a.example", rtype::DNAME, name("a.example").as_wire());
    push("text.a.example", rtype::TXT, b"\x03a\"\\\x00");
    push("odd.a.example", 65280, &[1, 2, 3]);
    push("_x._tcp.a.example", rtype::SRV, &[&[0, 1, 0, 2, 0, 80], name("many.a.example").as_wire()].concat());
    push("cut.a.example", rtype::NS, name("ns.cut.a.example").as_wire());
    push("ns.cut.a.example", rtype::A, &[192, 0, 2, 2]);
    let zone = loader.finish(None).unwrap().zone;
    let served = |origin, state, zone| Arc::new(Served::new(origin, state, zone));
    let identity = Identity { name: "ns1.test".into(), version: "aggregator 1".into() };
    let waiting = served(Name::parse("b.example").unwrap(), State::NotReady, None);
    Published::new(identity, [served(origin, State::Ok, Some(Arc::new(zone))), waiting], 1)
}

/// One zone behind TLS and TCP.
struct Fixture {
    folder: TempDir,
    plan: TlsPlan,
    metrics: Arc<Metrics>,
    tls: Listener,
    shown: Arc<Shown>,
    tcp: Listener,
}

impl Fixture {
    fn start(idle: Duration) -> Fixture {
        let folder = tempfile::tempdir().unwrap();
        let plan = certify(folder.path(), "one.test");
        let publisher = Arc::new(Publisher::default());
        publisher.publish(published());
        let metrics = Arc::new(Metrics::new());
        let any: SocketAddr = "127.0.0.1:0".parse().unwrap();
        let listen = ListenPlan {
            dns: Vec::new(),
            udp_threads: 1,
            tcp_connections: 100,
            tcp_connections_per_client: 100,
            tcp_idle_timeout: idle,
            tls: None,
        };
        let (notify, _) = Reception::new(metrics.clone());
        let responder = Responder::new(notify, metrics.clone(), || 0);
        let context = StreamContext::new(&listen, publisher, responder, metrics.clone());
        let (mut tls, shown) = (Listener::bind(any).unwrap(), Arc::<Shown>::default());
        TlsIdentity::load(&plan).unwrap().show(&shown);
        tls::start(&mut tls, &shown, &context).unwrap();
        let mut tcp = Listener::bind(any).unwrap();
        stream::start(&mut tcp, &context, None).unwrap();
        Fixture { folder, plan, metrics, tls, shown, tcp }
    }

    /// Returns true if a client that trusts only this certificate gets an answer.
    fn trusts(&self, plan: &TlsPlan, host: &str) -> bool {
        let port = self.tls.address().port().to_string();
        let (authority, host) = (format!("+tls-ca={}", plan.certificate.display()), format!("+tls-hostname={host}"));
        let arguments = ["@127.0.0.1", "-p", &port, "+tls", &authority, &host, "+retry=0", "ns.a.example", "A"];
        let output = Command::new("kdig").args(arguments).output();
        let output = output.unwrap_or_else(|error| panic!("kdig is missing ({error}); run make test"));
        output.status.success() && String::from_utf8(output.stdout).unwrap().contains("192.0.2.1")
    }
}

/// Returns the answer to a question, apart from what differs from time to time: ids, times, and the order of rotated
/// records.
fn ask(address: SocketAddr, transport: &str, question: &[&str]) -> Vec<String> {
    let port = address.port().to_string();
    let output = tool("kdig", &[&["@127.0.0.1", "-p", &port, transport, "+retry=0", "+noedns"], question].concat());
    let telling = |line: &&str| {
        !line.is_empty() && [";; TLS", ";; Received", ";; Time", ";; From"].iter().all(|start| !line.starts_with(start))
    };
    let mut lines: Vec<String> = output
        .lines()
        .filter(telling)
        .map(|line| line.split("; id: ").next().unwrap_or_default().to_string())
        .collect();
    lines.sort();
    lines
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_are_those_over_tcp() {
    let fixture = Fixture::start(Duration::from_secs(10));
    let questions: [&[&str]; 19] = [
        &["ns.a.example", "A"],
        &["NS.a.eXample", "A"],
        &["many.a.example", "A"],
        &["none.a.example", "A", "+edns"],
        &["ns.a.example", "AAAA", "+dnssec"],
        &["a.example", "SOA"],
        &["alias.a.example", "A"],
        &["ns.moved.a.example", "A"],
        &["moved.a.example", "DNAME"],
        &["text.a.example", "TXT"],
        &["odd.a.example", "TYPE65280"],
        &["_x._tcp.a.example", "SRV"],
        &["deep.cut.a.example", "A"],
        &["b.example", "A", "+edns"],
        &["elsewhere.example", "A"],
        &["ns.a.example", "A", "+nsid"],
        &["ns.a.example", "A", "+edns=1", "+nocookie"],
        &["version.bind", "TXT", "CH"],
        &["ns.a.example", "A", "+cdflag", "+adflag", "+nordflag"],
    ];
    for question in questions {
        let (tls, tcp) = (ask(fixture.tls.address(), "+tls", question), ask(fixture.tcp.address(), "+tcp", question));
        assert_eq!(tls, tcp, "{question:?}");
        assert!(tls.iter().any(|line| line.starts_with(";; ->>HEADER<<-")), "{tls:?}");
    }
    let text = fixture.metrics.render();
    let count = |transport: &str| {
        let start = format!("aggregator_queries_total{{transport=\"{transport}\"}} ");
        text.lines().find_map(|line| line.strip_prefix(&start)).unwrap().parse::<usize>().unwrap()
    };
    assert_eq!((count("tls"), count("tcp")), (questions.len(), questions.len()));
}

#[tokio::test(flavor = "multi_thread")]
async fn many_questions_share_a_connection() {
    let fixture = Fixture::start(Duration::from_secs(10));
    let mut questions = vec!["+keepopen"];
    (0..100).for_each(|_| questions.extend(["many.a.example", "A"]));
    let lines = ask(fixture.tls.address(), "+tls", &questions);
    assert_eq!(lines.iter().filter(|line| line.contains("192.0.2.199")).count(), 100);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_certificate_changes_without_a_new_listener() {
    let fixture = Fixture::start(Duration::from_secs(10));
    let other = certify(fixture.folder.path(), "two.test");
    assert!(fixture.trusts(&fixture.plan, "one.test"));
    assert!(!fixture.trusts(&fixture.plan, "two.test") && !fixture.trusts(&other, "two.test"));
    TlsIdentity::load(&other).unwrap().show(&fixture.shown);
    assert!(fixture.trusts(&other, "two.test") && !fixture.trusts(&fixture.plan, "one.test"));
}

#[tokio::test(flavor = "multi_thread")]
async fn silent_clients_are_closed_and_so_is_a_dropped_listener() {
    let fixture = Fixture::start(Duration::from_secs(2));
    let address = fixture.tls.address();
    let mut silent = TcpStream::connect(address).unwrap();
    silent.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    assert_eq!(ask(address, "+tls", &["ns.a.example", "A", "+short"]), ["192.0.2.1"]);
    assert_eq!(silent.read(&mut [0]).unwrap(), 0);
    drop(fixture);
    let mut tries = 0;
    while TcpStream::connect(address).is_ok() {
        tries += 1;
        assert!(tries < 1000, "the listener is still there");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn files_that_cannot_be_used_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let (one, two) = (certify(folder.path(), "one.test"), certify(folder.path(), "two.test"));
    assert!(TlsIdentity::load(&one).is_ok());
    let load = |certificate: &Path, key: &Path| {
        let (certificate, key) = (certificate.to_path_buf(), key.to_path_buf());
        TlsIdentity::load(&TlsPlan { listen: Vec::new(), certificate, key, client_ca: None }).unwrap_err()
    };
    assert!(matches!(load(&one.certificate, &two.key), TlsError::Mismatch { .. }));
    assert!(matches!(load(&one.key, &one.key), TlsError::NoCertificate(_)));
    assert!(matches!(load(&one.certificate, &one.certificate), TlsError::NoKey(_)));
    let (none, broken) = (folder.path().join("none.pem"), folder.path().join("broken.pem"));
    fs::write(&broken, "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n").unwrap();
    assert!(matches!(load(&broken, &one.key), TlsError::Unusable { .. }));
    let message = load(&none, &one.key).to_string();
    assert!(message.contains("none.pem cannot be read: ") && message.contains("No such file"), "{message}");
    let message = load(&one.certificate, &none).to_string();
    assert!(message.starts_with("private key ") && message.contains("No such file"), "{message}");
}
