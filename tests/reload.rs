//! Reload under load: many reloads that change regions, members, listeners, names and primaries while clients ask
//! without pause. No query may be lost, and no message may mix two configurations.
//!
//! A mixture shows because every configuration has a number, and every answer carries it twice or more: in the NSID
//! option, which is the server's name, and in what it answers, often out of two zones. The number must also be one that
//! was in force while the query was on its way.

mod harness;

use harness::*;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io::Write;
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Reloads of the storm.
const RELOADS: u64 = 52;
/// Nothing on this machine takes so long: a query that is not answered by then is lost.
const LOST_AFTER: Duration = Duration::from_secs(10);

//--- Zones and configurations ---

/// The zones of the primaries. Names in them lead from region to region and from a datacenter into a region.
fn zone_texts() -> Vec<ZoneText> {
    let apex = |serial: u32| {
        format!("$TTL 30\n@ IN SOA ns.dc.invalid. h.dc.invalid. {serial} 30 60 2592000 30\n@ IN NS ns.dc.invalid.\n")
    };
    let a = "who IN TXT \"a\"\nwho IN A 192.0.2.1\nextra IN A 192.0.2.10\nloop IN CNAME nothing.r2.test.\n\
             _s._tcp IN SRV 0 0 80 who.r1.test.\n";
    let b = "who IN TXT \"b\"\nwho IN A 192.0.2.2\nback IN CNAME who.r1.test.\n";
    let c = "who IN TXT \"c\"\nwho IN A 192.0.2.3\n";
    let e = "who IN TXT \"e\"\n";
    [("a.test", 10, a), ("b.test", 200, b), ("c.test", 50, c), ("e.test", 7, e)]
        .map(|(zone, serial, text)| (Dname::parse(zone), format!("$ORIGIN {zone}.\n{}{text}", apex(serial))))
        .to_vec()
}

/// The configuration with a number.
fn settings(number: u64, primaries: [SocketAddr; 2]) -> Settings {
    let mut listen = vec!["127.0.0.1:{port}".to_string()];
    if has_second_listener(number) {
        listen.push("127.0.0.2:{port}".to_string());
    }
    let [first, second] = primaries;
    let primaries = match number % 7 {
        0..3 => format!("[\"{first}\", \"{second}\"]"),
        3..5 => format!("[\"{second}\"]"),
        _ => format!("[\"{second}\", \"{first}\"]"),
    };
    let zones = ["a", "b", "c", "e"].iter().filter(|zone| **zone != "e" || has_zone_e(number));
    let mut plan = "[transfer]\nretry_min = \"200ms\"\nretry_max = \"1s\"\n[zones]\n".to_string();
    plan.extend(zones.map(|zone| format!("\"{zone}.test\" = {primaries}\n")));
    let common = format!("ns = [\"g{number}.test\"]\nmname = \"m{number}.test\"\nrname = \"g{number}.test\"\n");
    let exclude = if excludes_extra(number) { "exclude = [\"extra\"]\n" } else { "" };
    let members = members(number).map(|member| format!("\"{member}.test\"")).join(", ");
    plan.push_str(&format!("[aggregations.\"r1.test\"]\nmembers = [{members}]\n{common}{exclude}"));
    plan.push_str(&format!("[aggregations.\"r2.test\"]\nmembers = [\"b.test\"]\n{common}"));
    if has_third_region(number) {
        plan.push_str(&format!("[aggregations.\"r3.test\"]\nmembers = [\"a.test\", \"c.test\"]\n{common}"));
    }
    let server = format!(
        "udp_threads = {}\ntcp_connections = {}\ntcp_connections_per_client = {}\ntcp_idle_timeout = \"{}s\"\n",
        1 + number / 5 % 2,
        100 + number,
        50 + number,
        20 + number % 3
    );
    Settings { name: format!("g{number}.test"), listen, server, ..Settings::new(&plan) }
}

fn members(number: u64) -> [&'static str; 2] {
    if number.is_multiple_of(2) { ["a", "b"] } else { ["c", "a"] }
}

fn excludes_extra(number: u64) -> bool {
    number.is_multiple_of(3)
}

fn has_second_listener(number: u64) -> bool {
    number % 3 == 1
}

fn has_third_region(number: u64) -> bool {
    number.is_multiple_of(4)
}

fn has_zone_e(number: u64) -> bool {
    number % 5 < 2
}

//--- Questions and what a configuration answers ---

/// Questions, each with a check that knows the configuration's number.
const QUESTIONS: [(&str, u16); 11] = [
    ("who.r1.test", rtype::TXT),
    ("loop.r1.test", rtype::A),
    ("back.r2.test", rtype::TXT),
    ("extra.r1.test", rtype::A),
    ("r1.test", rtype::NS),
    ("_s._tcp.a.test", rtype::SRV),
    ("hostname.bind", rtype::TXT),
    ("who.r3.test", rtype::TXT),
    ("who.e.test", rtype::TXT),
    ("r1.test", rtype::SOA),
    ("nothing.r1.test", rtype::A),
];

/// A question with the NSID option, which makes the server say its name.
fn encode(question: usize, id: u16) -> Vec<u8> {
    let (name, rtype) = QUESTIONS[question];
    let mut bytes = Query { edns: Some(1232), ..Query::new(&Dname::parse(name), rtype) }.encode(id);
    if name == "hostname.bind" {
        let class = bytes.len() - 12;
        bytes[class] = 3;
    }
    let length = bytes.len();
    bytes[length - 1] = 4;
    bytes.extend_from_slice(&[0, 3, 0, 0]);
    bytes
}

/// The value of an option.
fn option(message: &Message, wanted: u16) -> Option<Vec<u8>> {
    let mut options = &message.edns.as_ref()?.options[..];
    while let [c1, c2, l1, l2, rest @ ..] = options {
        let (value, more) = rest.split_at(usize::from(u16::from_be_bytes([*l1, *l2])));
        if u16::from_be_bytes([*c1, *c2]) == wanted {
            return Some(value.to_vec());
        }
        options = more;
    }
    None
}

/// The number of the configuration that an answer comes from.
fn number_of(message: &Message) -> u64 {
    let name = String::from_utf8(option(message, 3).expect("NSID")).expect("text");
    let digits = name.strip_prefix('g').and_then(|rest| rest.strip_suffix(".test"));
    digits.and_then(|digits| digits.parse().ok()).unwrap_or_else(|| panic!("server name {name}"))
}

/// Answers that the daemon is allowed to give now, and those that it has given.
#[derive(Default)]
struct Ledger {
    /// The last configuration whose reload has returned.
    confirmed: AtomicU64,
    /// The last configuration that was written.
    begun: AtomicU64,
    /// Serial of the first region in each configuration.
    serials: Mutex<BTreeMap<u64, u32>>,
    stop: AtomicBool,
    answers: AtomicU64,
}

impl Ledger {
    /// Checks an answer to a question that was sent when `confirmed` was in force; returns the configuration's number.
    fn check(&self, question: usize, confirmed: u64, bytes: &[u8]) -> u64 {
        let message = decode(bytes).expect("an answer");
        let number = number_of(&message);
        let begun = self.begun.load(Ordering::SeqCst);
        assert!((confirmed..=begun).contains(&number), "answer {number}, {confirmed} was in force and {begun} coming");
        check_content(question, number, &message);
        if QUESTIONS[question] == ("r1.test", rtype::SOA) {
            let serial = message.answer[0].serial();
            let known = *self.serials.lock().expect("lock").entry(number).or_insert(serial);
            assert_eq!(serial, known, "two serials of one configuration");
        }
        self.answers.fetch_add(1, Ordering::Relaxed);
        number
    }
}

/// Checks that everything in a message comes from one configuration.
fn check_content(question: usize, number: u64, message: &Message) {
    let owner = Dname::parse(&format!("g{number}.test"));
    let addresses = |records: &[Record]| -> BTreeSet<u8> {
        records.iter().filter(|record| record.rtype == rtype::A).map(|record| record.rdata[3]).collect()
    };
    let texts: BTreeSet<&[u8]> =
        message.answer.iter().filter(|record| record.rtype == rtype::TXT).map(|record| &record.rdata[1..]).collect();
    let of_members: BTreeSet<&[u8]> = members(number).iter().map(|member| member.as_bytes()).collect();
    let rcode = message.rcode();
    let is_denied_by = |zone: &str| {
        let [soa] = &message.authority[..] else { panic!("{message:?}") };
        let mname = [Dname::parse(&format!("m{number}.test")).0, owner.0.clone()].concat();
        rcode == 3 && soa.owner == Dname::parse(zone) && soa.rdata.starts_with(&mname)
    };
    let right = match QUESTIONS[question] {
        ("who.r1.test", _) => rcode == 0 && texts == of_members,
        ("loop.r1.test", _) => message.answer.len() == 1 && is_denied_by("r2.test"),
        ("back.r2.test", _) => rcode == 0 && message.answer.len() == 3 && texts == of_members,
        ("extra.r1.test", _) if excludes_extra(number) => message.answer.is_empty() && is_denied_by("r1.test"),
        ("extra.r1.test", _) => rcode == 0 && addresses(&message.answer) == [10].into(),
        ("r1.test", rtype::NS) => rcode == 0 && message.answer.len() == 1 && message.answer[0].rdata == owner.0,
        ("_s._tcp.a.test", _) => {
            let last = members(number).map(|member| member.as_bytes()[0] - b'a' + 1);
            rcode == 0 && message.answer.len() == 1 && addresses(&message.additional) == last.into()
        }
        ("hostname.bind", _) => texts == [format!("g{number}.test").as_bytes()].into(),
        ("who.r3.test", _) if has_third_region(number) => rcode == 0 && texts == [&b"a"[..], b"c"].into(),
        ("who.e.test", _) if has_zone_e(number) && rcode == 0 => texts == [&b"e"[..]].into(),
        // The zone is new in this configuration: not transferred yet (RFC 8914 section 4.15).
        ("who.e.test", _) if has_zone_e(number) => rcode == 2 && option(message, 15) == Some(vec![0, 14]),
        ("who.r3.test" | "who.e.test", _) => rcode == 5 && message.answer.is_empty(),
        ("r1.test", _) => {
            rcode == 0
                && message.answer[0].rdata[Dname::parse(&format!("m{number}.test")).0.len()..].starts_with(&owner.0)
        }
        _ => message.answer.is_empty() && is_denied_by("r1.test"),
    };
    assert!(right, "configuration {number}, {:?}: {message:?}", QUESTIONS[question]);
}

//--- The storm ---

/// Asks over UDP with a few questions on their way at any time.
fn storm_udp(server: SocketAddr, ledger: &Ledger) {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("socket");
    socket.connect(server).expect("connect");
    socket.set_read_timeout(Some(LOST_AFTER)).expect("timeout");
    let mut waiting: HashMap<u16, (usize, u64)> = HashMap::new();
    let (mut id, mut newest, mut buffer) = (0u16, 0, [0; 1500]);
    loop {
        let stopping = ledger.stop.load(Ordering::SeqCst);
        while waiting.len() < 8 && !stopping {
            id = id.wrapping_add(1);
            let question = usize::from(id) % QUESTIONS.len();
            waiting.insert(id, (question, ledger.confirmed.load(Ordering::SeqCst)));
            socket.send(&encode(question, id)).expect("send");
        }
        if waiting.is_empty() {
            return;
        }
        let length = socket.recv(&mut buffer).unwrap_or_else(|error| panic!("{} queries lost: {error}", waiting.len()));
        let id = u16::from_be_bytes([buffer[0], buffer[1]]);
        let (question, confirmed) = waiting.remove(&id).expect("an answer to what was asked, once");
        newest = newest.max(ledger.check(question, confirmed, &buffer[..length]));
    }
}

/// Asks over one TCP connection, many questions in one segment; the connection lives as long as the storm.
fn storm_pipelined(server: SocketAddr, ledger: &Ledger) {
    let mut stream = connect(server);
    while !ledger.stop.load(Ordering::SeqCst) {
        exchange_batch(&mut stream, ledger, false);
    }
}

/// Asks over a new TCP connection each time, and closes its half before the answers come.
fn storm_connections(server: SocketAddr, ledger: &Ledger) {
    while !ledger.stop.load(Ordering::SeqCst) {
        exchange_batch(&mut connect(server), ledger, true);
    }
}

fn connect(server: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(server).expect("connect");
    stream.set_read_timeout(Some(LOST_AFTER)).expect("timeout");
    stream.set_nodelay(true).expect("no delay");
    stream
}

/// Sends two of each question at once and reads the answers.
fn exchange_batch(stream: &mut TcpStream, ledger: &Ledger, close: bool) {
    let confirmed = ledger.confirmed.load(Ordering::SeqCst);
    let mut segment = Vec::new();
    let count = 2 * QUESTIONS.len();
    for id in 0..count {
        let message = encode(id % QUESTIONS.len(), id as u16);
        segment.extend_from_slice(&(message.len() as u16).to_be_bytes());
        segment.extend_from_slice(&message);
    }
    stream.write_all(&segment).expect("send");
    if close {
        stream.shutdown(Shutdown::Write).expect("shutdown");
    }
    for _ in 0..count {
        let answer = read_frame(stream).expect("an answer to each query");
        ledger.check(usize::from(answer[1]) % QUESTIONS.len(), confirmed, &answer);
    }
}

/// Asks one question over a fresh socket; an error when nobody listens.
fn ask_once(server: SocketAddr, question: usize) -> std::io::Result<Vec<u8>> {
    let socket = UdpSocket::bind("127.0.0.1:0")?;
    socket.connect(server)?;
    socket.set_read_timeout(Some(LOST_AFTER))?;
    socket.send(&encode(question, 1))?;
    let mut buffer = vec![0; 1500];
    let length = socket.recv(&mut buffer)?;
    buffer.truncate(length);
    Ok(buffer)
}

/// Starts two primaries that both have all zones.
fn start_primaries(folder: &Folder) -> [Peer; 2] {
    [Knotd::start(folder, &zone_texts()), Nsd::start(folder, &zone_texts())]
}

/// Waits until every zone is there.
fn wait_loaded(daemon: &Aggregator) {
    wait_until("all zones are loaded", Duration::from_secs(20), || {
        let status: serde_json::Value = serde_json::from_str(&daemon.verb(&["status", "--json"]).stdout).ok()?;
        let states = ["zones", "regions"].map(|key| status[key].as_array().cloned().unwrap_or_default()).concat();
        states.iter().all(|zone| zone["state"] == "ok").then_some(())
    });
}

#[test]
fn no_query_is_lost_or_mixed_while_everything_changes() {
    let folder = Folder::new();
    let peers = start_primaries(&folder);
    let primaries = peers.each_ref().map(Peer::address);
    let daemon = Aggregator::start_with(&folder.subfolder("aggregator"), &settings(1, primaries));
    wait_loaded(&daemon);
    let (server, ledger) = (daemon.address(), Arc::new(Ledger::default()));
    ledger.begun.store(1, Ordering::SeqCst);
    ledger.confirmed.store(1, Ordering::SeqCst);
    let storms: [fn(SocketAddr, &Ledger); 4] = [storm_udp, storm_udp, storm_pipelined, storm_connections];
    let clients = storms.map(|storm| {
        let ledger = ledger.clone();
        std::thread::spawn(move || storm(server, &ledger))
    });
    for number in 2..2 + RELOADS {
        ledger.begun.store(number, Ordering::SeqCst);
        daemon.write_settings(&settings(number, primaries));
        let output = daemon.verb(&["reload"]);
        assert_eq!(output.code, 0, "{output:?}");
        ledger.confirmed.store(number, Ordering::SeqCst);
        check_at_once(number, server, &ledger);
        let seen = ledger.answers.load(Ordering::Relaxed);
        wait_until("the storm goes on", LOST_AFTER, || {
            let stopped = clients.iter().any(|client| client.is_finished());
            (stopped || ledger.answers.load(Ordering::Relaxed) > seen + 100).then_some(())
        });
    }
    ledger.stop.store(true, Ordering::SeqCst);
    clients.into_iter().for_each(|client| client.join().expect("a client that found no fault"));
    let serials = ledger.serials.lock().expect("lock");
    for ((number, before), (_, after)) in serials.iter().zip(serials.iter().skip(1)) {
        let step = after.wrapping_sub(*before);
        assert!((1..1 << 31).contains(&step), "after configuration {number}: serial {before} -> {after}");
    }
    assert!(serials.len() as u64 > RELOADS / 2, "{serials:?}");
    let page = daemon.metrics();
    assert!(page.contains(&format!("aggregator_reloads_total{{result=\"ok\"}} {RELOADS}\n")), "{page}");
    // The last configuration has neither of these, and so the metrics have forgotten them.
    assert!(!has_zone_e(1 + RELOADS) && !has_third_region(1 + RELOADS));
    assert!(!page.contains("\"e.test.\"") && !page.contains("\"r3.test.\""), "{page}");
    let [first, second] = primaries.map(|primary| format!("primary=\"{primary}\""));
    assert!(!settings(1 + RELOADS, primaries).plan.contains(&primaries[0].to_string()));
    assert!(page.contains(&second) && !page.contains(&first), "{page}");
}

/// Checks everything that must be visible as soon as `reload` has returned.
fn check_at_once(number: u64, server: SocketAddr, ledger: &Ledger) {
    let second = SocketAddr::new([127, 0, 0, 2].into(), server.port());
    if has_second_listener(number) {
        ledger.check(0, number, &ask_once(second, 0).expect("the new listener answers"));
        exchange_batch(&mut connect(second), ledger, false);
    } else {
        let refused = std::io::ErrorKind::ConnectionRefused;
        assert_eq!(ask_once(second, 0).expect_err("closed").kind(), refused);
        assert_eq!(TcpStream::connect(second).expect_err("closed").kind(), refused);
    }
    for question in 0..QUESTIONS.len() {
        let answer = ask_once(server, question).expect("an answer");
        assert_eq!(ledger.check(question, number, &answer), number);
    }
}

//--- Files that must not be taken ---

/// Errors that are found by the reader of the format, by the check of the content, and by the system.
fn broken_files(free: u16, taken: u16, primaries: [SocketAddr; 2]) -> [(Settings, &'static str, &'static str); 3] {
    let good = settings(2, primaries);
    let syntax = Settings { plan: good.plan.replacen("[zones]", "[zones", 1), ..good.clone() };
    let unknown = Settings {
        plan: good.plan.replace("\"r2.test\"]\nmembers = [\"b.test\"]", "\"r2.test\"]\nmembers = [\"bb.test\"]"),
        ..good.clone()
    };
    let mut listen = good.listen.clone();
    listen.extend([format!("127.0.0.3:{free}"), format!("127.0.0.1:{taken}")]);
    let in_use = Settings { listen, ..good };
    [
        (syntax, ":", "expected"),
        (unknown, ":", "names unknown zone \"bb.test\"; did you mean \"b.test\"?"),
        (in_use, ":3:", "address in use"),
    ]
}

/// Returns true if a line names a place in a file: path, line and column.
fn names_place(line: &str, path: &Path) -> bool {
    let rest = line.split_once(&format!("{}:", path.display())).map(|(_, rest)| rest);
    let mut numbers = rest.into_iter().flat_map(|rest| rest.split(':')).take(2).map(|part| part.parse::<u32>().is_ok());
    numbers.next() == Some(true) && numbers.next() == Some(true)
}

#[test]
fn a_broken_file_changes_nothing_and_says_why() {
    let folder = Folder::new();
    let peers = start_primaries(&folder);
    let primaries = peers.each_ref().map(Peer::address);
    let daemon = Aggregator::start_with(&folder.subfolder("aggregator"), &settings(1, primaries));
    wait_loaded(&daemon);
    let ledger = Ledger::default();
    ledger.begun.store(1, Ordering::SeqCst);
    let in_the_way = TcpListener::bind("127.0.0.1:0").expect("port");
    let mut free = Port::reserve();
    let (free, taken) = (free.release().port(), in_the_way.local_addr().expect("address").port());
    for (round, (broken, place, reason)) in broken_files(free, taken, primaries).into_iter().enumerate() {
        daemon.write_settings(&broken);
        let output = daemon.verb(&["reload"]);
        assert_eq!((output.code, output.stdout.as_str()), (1, ""), "{output:?}");
        let is_right =
            |line: &str| names_place(line, daemon.configuration()) && line.contains(reason) && line.contains(place);
        // The log escapes quotation marks.
        let says = |text: &str| text.replace("\\\"", "\"").lines().any(is_right);
        assert!(says(&output.stderr), "{reason}: {output:?}");
        check_unchanged(&daemon, free, &ledger);

        let failed = format!("aggregator_reloads_total{{result=\"failed\"}} {}\n", 2 * round + 2);
        daemon.signal(libc::SIGHUP);
        wait_until("the signal is obeyed", LOST_AFTER, || daemon.metrics().contains(&failed).then_some(()));
        let log = daemon.log_text();
        let told = log.lines().filter(|line| line.contains("configuration not reloaded") && says(line)).count();
        assert_eq!(told, 2, "{reason}: {log}");
        check_unchanged(&daemon, free, &ledger);
    }
    drop(in_the_way);

    // The same daemon takes a good file, on a signal as well.
    daemon.write_settings(&settings(2, primaries));
    ledger.begun.store(2, Ordering::SeqCst);
    daemon.signal(libc::SIGHUP);
    wait_until("the good file is in force", LOST_AFTER, || {
        (ledger.check(0, 1, &ask_once(daemon.address(), 0).ok()?) == 2).then_some(())
    });
}

/// Everything is answered as in the first configuration, and nothing of the broken one is open.
fn check_unchanged(daemon: &Aggregator, free: u16, ledger: &Ledger) {
    for question in 0..QUESTIONS.len() {
        let answer = ask_once(daemon.address(), question).expect("an answer");
        assert_eq!(ledger.check(question, 1, &answer), 1);
    }
    let second = SocketAddr::new([127, 0, 0, 2].into(), daemon.address().port());
    ledger.check(0, 1, &ask_once(second, 0).expect("the second listener stays"));
    let free = SocketAddr::from(([127, 0, 0, 3], free));
    UdpSocket::bind(free).expect("a socket of the broken file is closed again");
    TcpListener::bind(free).expect("a socket of the broken file is closed again");
}

#[test]
fn an_address_that_overlaps_our_own_is_named() {
    let folder = Folder::new();
    let primaries = [Port::reserve().release(), Port::reserve().release()];
    let mut settings = settings(2, primaries);
    let daemon = Aggregator::start_with(&folder.subfolder("aggregator"), &settings);
    settings.listen = vec!["0.0.0.0:{port}".to_string()];
    daemon.write_settings(&settings);
    let output = daemon.verb(&["reload"]);
    let own = format!("this server listens on {}", daemon.address());
    assert!(output.code == 1 && output.stderr.contains(&own), "{output:?}");
    assert!(names_place(&output.stderr, daemon.configuration()), "{output:?}");
    ask_once(daemon.address(), 0).expect("the old address stays");
}

//--- A flood ---

/// Sends queries without ever waiting for an answer, faster than a daemon answers, until told to stop.
fn flood(server: SocketAddr, stop: &AtomicBool) {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("socket");
    socket.connect(server).expect("connect");
    let query = encode(0, 1);
    while !stop.load(Ordering::Relaxed) {
        // When the listener is gone this fails, and when buffers are full, too.
        let _ = socket.send(&query);
    }
}

#[test]
fn a_flood_delays_no_reload_and_no_end() {
    let folder = Folder::new();
    let peers = start_primaries(&folder);
    let primaries = peers.each_ref().map(Peer::address);
    // One and four have a second listener, and other numbers of threads than five.
    let mut daemon = Aggregator::start_with(&folder.subfolder("aggregator"), &settings(4, primaries));
    wait_loaded(&daemon);
    let (first, stop) = (daemon.address(), Arc::new(AtomicBool::new(false)));
    let second = SocketAddr::new([127, 0, 0, 2].into(), first.port());
    let floods = [first, first, second].map(|server| {
        let stop = stop.clone();
        std::thread::spawn(move || flood(server, &stop))
    });
    let began = Instant::now();
    for number in [5, 4, 5] {
        daemon.write_settings(&settings(number, primaries));
        let output = daemon.verb(&["reload"]);
        assert_eq!(output.code, 0, "{output:?}");
    }
    assert!(daemon.stop().success());
    assert!(began.elapsed() < Duration::from_secs(30), "{:?}", began.elapsed());
    stop.store(true, Ordering::Relaxed);
    floods.into_iter().for_each(|flood| flood.join().expect("flood"));
}

//--- The control socket ---

#[test]
fn a_reload_changes_who_may_open_the_control_socket() {
    let folder = Folder::new();
    let daemon = Aggregator::start(&folder, "[zones]\n\"a.test\" = \"127.0.0.1:9\"\n");
    let text = std::fs::read_to_string(daemon.configuration()).expect("the configuration");
    let socket = daemon.configuration().with_file_name("control");
    let mode = || std::fs::metadata(&socket).expect("the socket").mode() & 0o777;
    assert_eq!(mode(), 0o660);
    write_file(daemon.configuration(), &text.replace("[control]\n", "[control]\nmode = \"0600\"\n"));
    let reload = daemon.verb(&["reload"]);
    let told = format!("control socket is now {}\n", socket.display());
    assert_eq!((reload.code, reload.stdout), (0, told), "{}", reload.stderr);
    assert_eq!(mode(), 0o600);
    write_file(daemon.configuration(), &text.replace("[control]\n", "[control]\ngroup = \"no such group\"\n"));
    let reload = daemon.verb(&["reload"]);
    let wanted =
        "the control socket is as it was: it cannot belong to group no such group: /etc/group does not have it";
    assert!(reload.code == 1 && reload.stderr.contains(wanted), "{reload:?}");
    assert_eq!(mode(), 0o600);
}
