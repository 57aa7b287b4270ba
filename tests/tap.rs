//! Copies of queries and responses, read by others' programs: `fstrm_capture` collects, `dnstap-read` reads.

mod harness;

use harness::*;
use std::io::{Read, Write};
use std::net::{IpAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(20);
const ZONE: &str = "a.test";

/// A daemon with one zone, and its primary.
struct Service {
    daemon: Aggregator,
    settings: Settings,
    plan: String,
    _peer: Peer,
}

impl Service {
    /// Starts it with further sections, on addresses.
    fn start(folder: &Folder, listen: &[&str], taps: &str) -> Service {
        let zone = format!(
            "$ORIGIN {ZONE}.\n$TTL 30\n@ IN SOA ns.dc.invalid. h.dc.invalid. 1 30 60 2592000 30\n\
             @ IN NS ns.dc.invalid.\nwww IN A 192.0.2.1\n"
        );
        let peer = Knotd::start(folder, &[(Dname::parse(ZONE), zone)]);
        let plan = format!(
            "[zones]\n\"{ZONE}\" = \"{}\"\n[secondaries]\nallow_transfer = [\"127.0.0.0/8\"]\n",
            peer.address()
        );
        let mut settings = Settings::new(&format!("{plan}{taps}"));
        settings.listen = listen.iter().map(|address| (*address).to_owned()).collect();
        let daemon = Aggregator::start_with(&folder.subfolder("aggregator"), &settings);
        wait_until("the zone is loaded", PATIENCE, || daemon.dump(&Dname::parse(ZONE)));
        Service { daemon, settings, plan, _peer: peer }
    }

    /// Has it read a configuration with other sections.
    fn reload(&mut self, taps: &str) {
        self.settings.plan = format!("{}{taps}", self.plan);
        self.daemon.write_settings(&self.settings);
        let output = self.daemon.verb(&["reload"]);
        assert_eq!(output.code, 0, "{output:?}");
    }

    /// The value of a series; 0 if it is not there.
    fn metric(&self, series: &str) -> u64 {
        let page = self.daemon.metrics();
        let value = page.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
        value.map_or(0, |value| value.parse().expect("a number"))
    }

    fn messages(&self, result: &str) -> u64 {
        self.metric(&format!("aggregator_dnstap_messages_total{{result=\"{result}\"}}"))
    }

    fn wait_connected(&self, is_connected: u64) {
        wait_until("the collector comes or goes", PATIENCE, || {
            (self.metric("aggregator_dnstap_connected") == is_connected).then_some(())
        });
    }
}

/// A collector that writes a file.
struct Capture {
    process: Process,
    file: PathBuf,
}

impl Capture {
    /// Starts one that listens as the arguments say.
    fn start(folder: &Folder, name: &str, arguments: &[&str]) -> Capture {
        let file = folder.path().join(format!("{name}.fstrm"));
        let mut command = Command::new("fstrm_capture");
        command.args(["-t", "protobuf:dnstap.Dnstap", "-w"]).arg(&file).args(arguments);
        Capture { process: Process::start("fstrm_capture", &mut command, &folder.path().join(name)), file }
    }

    /// Ends it, and has what it collected read: a line for each message.
    fn end(mut self) -> Vec<String> {
        self.process.stop(PATIENCE);
        read(&self.file, &[]).lines().map(str::to_owned).collect()
    }
}

/// Reads a file of a collector.
fn read(file: &Path, options: &[&str]) -> String {
    run_tool(Command::new("dnstap-read").args(options).arg(file))
}

/// Asks for an address over UDP.
fn ask(client: &mut Client, name: &str) {
    client.ask(&Query::new(&Dname::parse(name), rtype::A)).expect("an answer");
}

#[test]
fn a_collector_sees_who_asked_what_where() {
    let folder = Folder::new();
    let socket = folder.path().join("collector");
    let taps = format!("[dnstap]\ncollector = \"{}\"\n", socket.display());
    let mut service = Service::start(&folder, &["0.0.0.0:{port}", "[::]:{port}"], &taps);
    let log = service.daemon.log_text();
    assert!(log.contains("dnstap: no collector") && log.contains("it is tried each second"), "{log}");
    let port = service.daemon.address().port();
    let socket = socket.to_str().expect("text");
    let capture = Capture::start(&folder, "first", &["-u", socket]);
    service.wait_connected(1);

    let from: IpAddr = "127.0.0.9".parse().unwrap();
    ask(&mut Client::between(from, ([127, 0, 0, 1], port).into()), "www.a.test");
    ask(&mut Client::between(from, ([127, 0, 0, 2], port).into()), "www.a.test");
    ask(&mut Client::between("::1".parse().unwrap(), format!("[::1]:{port}").parse().unwrap()), "www.a.test");
    let mut client = Client::new(service.daemon.address());
    assert_eq!(client.ask_tcp(&Query::new(&Dname::parse("no.a.test"), rtype::AAAA)).expect("an answer").rcode(), 3);
    client.transfer(&Dname::parse(ZONE)).expect("a transfer");
    // Octets that are no query have no response.
    client.send_udp(b"\0\x01\x80\0\0\0\0\0\0\0\0\0").expect("sent");
    wait_until("all is sent", PATIENCE, || (service.messages("sent") >= 10).then_some(()));
    let lines = capture.end();
    service.wait_connected(0);
    let count = |parts: &[&str]| lines.iter().filter(|line| parts.iter().all(|part| line.contains(part))).count();
    let here = |ip: &str| format!(" {ip}:{port} ");
    for (message, arrow) in [(" AQ ", "-> "), (" AR ", "<- ")] {
        let at = |ip: &str| format!("{arrow}{ip}:{port} UDP ");
        assert_eq!(count(&[message, "127.0.0.9:", &at("127.0.0.1"), "www.a.test/IN/A"]), 1, "{lines:#?}");
        assert_eq!(count(&[message, "127.0.0.9:", &at("127.0.0.2"), "www.a.test/IN/A"]), 1, "{lines:#?}");
        assert_eq!(count(&[message, &at("::1"), "www.a.test/IN/A"]), 1, "{lines:#?}");
        assert_eq!(count(&[message, &here("127.0.0.1"), " TCP ", "no.a.test/IN/AAAA"]), 1, "{lines:#?}");
    }
    // Of the transfer there is the request, and of what is no query what came.
    assert_eq!((count(&[" AQ ", "a.test/IN/AXFR"]), count(&[" AR ", "IN/AXFR"])), (1, 0), "{lines:#?}");
    // dnstap-read has no line for what has no question.
    assert_eq!((lines.len(), service.messages("sent")), (9, 10), "{lines:#?}");
    // Header, name, type and class; behind them the address.
    assert_eq!((count(&[" AQ ", " UDP 28b "]), count(&[" AR ", " UDP 44b "])), (3, 3), "{lines:#?}");
    let yaml = read(&folder.path().join("first.fstrm"), &["-y"]);
    assert!(yaml.contains("identity: ns1.test") && yaml.contains("version: aggregator "), "{yaml}");
    assert!(yaml.contains("status: NXDOMAIN") && yaml.contains("ns.dc.invalid"), "{yaml}");

    // Without a collector what the queue has no room for is lost, and nothing else.
    for _ in 0..600 {
        ask(&mut client, "www.a.test");
    }
    wait_until("some are dropped", PATIENCE, || (service.messages("dropped") > 0).then_some(()));
    let capture = Capture::start(&folder, "second", &["-u", socket]);
    service.wait_connected(1);
    ask(&mut client, "www.a.test");
    wait_until("what waited is sent", PATIENCE, || (service.messages("sent") > 1000).then_some(()));
    // A reload that changes nothing leaves the connection, one that takes it away ends it in order.
    service.reload(&taps);
    assert_eq!(service.daemon.log_text().matches("dnstap: connected").count(), 2);
    ask(&mut client, "last.a.test");
    service.reload("");
    service.wait_connected(0);
    ask(&mut client, "www.a.test");
    let lines = capture.end();
    assert!(lines.len() > 1000 && lines.last().is_some_and(|line| line.contains("last.a.test")), "{}", lines.len());
}

#[test]
fn a_share_goes_to_a_collector_over_tcp_until_the_end() {
    let folder = Folder::new();
    let mut port = Port::reserve();
    let address = port.release();
    let (ip, number) = (address.ip().to_string(), address.port().to_string());
    let capture = Capture::start(&folder, "share", &["-a", &ip, "-p", &number]);
    let taps = format!("[dnstap]\ncollector = \"{address}\"\nmessages = \"responses\"\none_in = 4\n");
    let mut service = Service::start(&folder, &["127.0.0.1:{port}"], &taps);
    service.wait_connected(1);
    let mut client = Client::new(service.daemon.address());
    for _ in 0..2000 {
        ask(&mut client, "www.a.test");
    }
    // What is still to be sent goes before the process does.
    assert!(service.daemon.stop().success());
    let lines = capture.end();
    assert!((400..600).contains(&lines.len()), "{}", lines.len());
    assert!(lines.iter().all(|line| line.contains(" AR ")), "{lines:#?}");
}

#[test]
fn a_collector_that_takes_nothing_costs_no_answer() {
    let folder = Folder::new();
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let taps = format!("[dnstap]\ncollector = \"{}\"\n", listener.local_addr().expect("an address"));
    let service = Service::start(&folder, &["127.0.0.1:{port}"], &taps);
    let held = greet(&listener);
    service.wait_connected(1);
    let mut client = Client::new(service.daemon.address());
    wait_until("the queue is full", 3 * PATIENCE, || {
        (0..1000).for_each(|_| ask(&mut client, "www.a.test"));
        (service.messages("dropped") > 0).then_some(())
    });
    // It is given up, and the next one has what comes then.
    drop(greet(&listener));
    drop(held);
    let log = service.daemon.log_text();
    assert!(log.contains("dnstap: no collector") && log.contains("timed out"), "{log}");
}

/// Takes a connection and says that it may begin.
fn greet(listener: &TcpListener) -> TcpStream {
    let (mut stream, _) = listener.accept().expect("a connection");
    let content = b"protobuf:dnstap.Dnstap";
    let frame = |control: u32| {
        let head = [0, 12 + content.len() as u32, control, 1, content.len() as u32];
        [head.map(u32::to_be_bytes).concat(), content.to_vec()].concat()
    };
    let mut heard = frame(4);
    stream.read_exact(&mut heard).expect("a greeting");
    assert_eq!(heard, frame(4), "READY");
    stream.write_all(&frame(1)).expect("ACCEPT is sent");
    stream
}

#[test]
fn queries_of_some_clients_have_lines_some_in_a_second() {
    let folder = Folder::new();
    let taps = "[query_log]\none_in = 1\nclients = [\"127.0.0.9\"]\nlines_per_second = 5\n";
    let mut service = Service::start(&folder, &["127.0.0.1:{port}"], taps);
    let server = service.daemon.address();
    let mut watched = Client::between("127.0.0.9".parse().unwrap(), server);
    let mut other = Client::new(server);
    ask(&mut watched, "www.a.test");
    ask(&mut other, "other.a.test");
    let lines = |service: &Service| service.daemon.log_text().matches(" query name=").count();
    wait_until("a line", PATIENCE, || (lines(&service) > 0).then_some(()));
    let log = service.daemon.log_text();
    let line = log.lines().find(|line| line.contains(" query ")).expect("a line");
    for part in ["name=www.a.test. ", "rtype=A ", "client=127.0.0.9:", "transport=\"udp\"", "rcode=\"NOERROR\""] {
        assert!(line.contains(part), "{part} in {line}");
    }
    assert!(!log.contains("other.a.test"), "{log}");
    for _ in 0..200 {
        ask(&mut watched, "www.a.test");
    }
    wait_until("lines are left out", PATIENCE, || {
        (service.metric("aggregator_query_log_suppressed_total") > 100).then_some(())
    });
    assert!(lines(&service) < 100, "{}", lines(&service));
    service.reload("");
    let before = lines(&service);
    ask(&mut watched, "www.a.test");
    assert!(service.daemon.stop().success());
    assert_eq!(lines(&service), before);
}
