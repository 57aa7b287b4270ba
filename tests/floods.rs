//! Floods over loopback: how much of them comes back, and what others get meanwhile.
//!
//! The primary is at 127.0.0.1, which exempts that address. So the flood comes from another network of loopback, where
//! the honest clients are, too.

mod harness;

use harness::*;
use serde_json::Value;
use socket2::{Domain, Socket, Type};
use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream, UdpSocket};
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(20);
/// The network of the flood and of those who suffer from it.
const NETWORK: &str = "127.0.7.0/24";
/// Questions of a flood, and the time that they take.
const QUESTIONS: u32 = 20_000;
const SECOND: Duration = Duration::from_secs(1);
/// The default rate, for a network and class.
const RATE: u32 = 1000;
/// One flood at a time.
static TURN: Mutex<()> = Mutex::new(());

/// A daemon with one zone, and its primary.
struct Service {
    daemon: Aggregator,
    _peer: Peer,
    _folder: Folder,
    _turn: Option<MutexGuard<'static, ()>>,
}

impl Service {
    /// Starts it with further sections, as the only one.
    fn start(plan: &str) -> Service {
        let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        Service { _turn: Some(turn), ..Service::start_beside(plan) }
    }

    /// Starts it beside others.
    fn start_beside(plan: &str) -> Service {
        Service::start_on(plan, &["127.0.0.1:{port}"])
    }

    /// Starts it beside others, on further addresses.
    fn start_on(plan: &str, listen: &[&str]) -> Service {
        let folder = Folder::new();
        let peer = Knotd::start(&folder, &[zone()]);
        let plan = format!("[zones]\n\"a.test\" = \"{}\"\n{plan}", peer.address());
        let mut settings = Settings::new(&plan);
        settings.listen = listen.iter().map(|address| (*address).to_owned()).collect();
        let daemon = Aggregator::start_with(&folder.subfolder("aggregator"), &settings);
        let mut client = Client::new(daemon.address());
        wait_until("the zone is loaded", PATIENCE, || client.serial(&Dname::parse("a.test")));
        Service { daemon, _peer: peer, _folder: folder, _turn: None }
    }

    /// The number of answers over the limit of a class.
    fn limited(&self, class: &str) -> u64 {
        self.counted(&format!("rate_limited_total{{class=\"{class}\"}}"))
    }

    /// What a counter has.
    fn counted(&self, series: &str) -> u64 {
        let (page, name) = (self.daemon.metrics(), format!("aggregator_{series} "));
        let value = page.lines().find_map(|line| line.strip_prefix(&name));
        value.expect("the family has all its series from the start").parse().expect("a number")
    }

    /// Sends questions at an even pace, and counts what comes back.
    fn flood(&self, source: &str, count: u32, within: Duration, question: impl Fn(u16) -> Vec<u8>) -> Flood {
        self.flood_until(source, count, within, question, &AtomicBool::new(false))
    }

    /// The same, which ends earlier once somebody says so.
    fn flood_until(
        &self,
        source: &str,
        count: u32,
        within: Duration,
        question: impl Fn(u16) -> Vec<u8>,
        is_enough: &AtomicBool,
    ) -> Flood {
        let socket = flooding_socket(source, self.daemon.address());
        let mut flood = Flood::default();
        let begun = Instant::now();
        let mut answer = [0; 2048];
        while flood.answers < count && begun.elapsed() < within + Duration::from_secs(2) {
            let due = (count as f64 * begun.elapsed().as_secs_f64() / within.as_secs_f64()) as u32;
            // In bunches, so that the machine has time for both sides.
            let is_enough = is_enough.load(Ordering::Relaxed);
            if is_enough && flood.answers == flood.sent {
                break;
            }
            while !is_enough && flood.sent < due.min(count) && flood.sent < flood.answers + 2000 {
                let question = question(flood.sent as u16);
                flood.octets_in += question.len() as u64;
                flood.sent += u32::from(socket.send(&question).is_ok());
            }
            while let Ok(length) = socket.recv(&mut answer) {
                flood.answers += 1;
                flood.octets_out += length as u64;
                let is_cut = answer[2] & 2 != 0;
                flood.cut += u32::from(is_cut);
                if is_cut {
                    flood.longest_cut = flood.longest_cut.max(length);
                    assert_eq!(answer[6..10], [0; 4], "an answer that is cut has no records");
                }
            }
        }
        flood.took = begun.elapsed();
        flood
    }
}

/// The zone, with a large set.
fn zone() -> ZoneText {
    let text = |number| format!("large IN TXT \"{number:0>100}\"\n");
    let texts: String = (0..8).map(text).collect();
    let text = format!(
        "$ORIGIN a.test.\n$TTL 30\n@ IN SOA ns.dc.invalid. h.dc.invalid. 1 30 60 2592000 30\n\
         @ IN NS ns.dc.invalid.\nwww IN A 192.0.2.1\n{texts}"
    );
    (Dname::parse("a.test"), text)
}

/// What became of a flood.
#[derive(Debug, Default)]
struct Flood {
    sent: u32,
    answers: u32,
    /// Answers with TC.
    cut: u32,
    longest_cut: usize,
    octets_in: u64,
    octets_out: u64,
    took: Duration,
}

impl Flood {
    /// Answers in full.
    fn full(&self) -> u32 {
        self.answers - self.cut
    }

    /// The most that there may be: a second's worth at once, and the rate.
    fn most_full(&self) -> u32 {
        // The coarse clock stands still for some milliseconds.
        RATE + (f64::from(RATE) * (self.took.as_secs_f64() + 0.02)) as u32
    }
}

/// A socket that holds many answers and waits for none.
fn flooding_socket(source: &str, server: SocketAddr) -> UdpSocket {
    let socket = Socket::new(Domain::IPV4, Type::DGRAM, None).expect("a socket");
    let source: IpAddr = source.parse().expect("an address");
    socket.set_recv_buffer_size(8 << 20).expect("a buffer");
    socket.bind(&SocketAddr::new(source, 0).into()).expect("bound");
    socket.connect(&server.into()).expect("connected");
    socket.set_nonblocking(true).expect("does not wait");
    socket.into()
}

/// A question, with EDNS if it has a cookie.
fn question(name: &str, rtype: u16, id: u16, cookie: Option<&[u8]>) -> Vec<u8> {
    let query = Query { edns: cookie.map(|_| 1232), ..Query::new(&Dname::parse(name), rtype) };
    let mut bytes = query.encode(id);
    if let Some(cookie) = cookie {
        let at = bytes.len() - 2;
        bytes[at..].copy_from_slice(&(cookie.len() as u16 + 4).to_be_bytes());
        bytes.extend_from_slice(&[0, 10, 0, cookie.len() as u8]);
        bytes.extend_from_slice(cookie);
    }
    bytes
}

/// Asks for the large set with a cookie; returns the cookies of the answer and whether it is in full.
fn ask_with_cookie(client: &mut Client, cookie: &[u8]) -> (Vec<u8>, bool) {
    let id = client.take_id();
    client.send_udp(&question("large.a.test", rtype::TXT, id, Some(cookie))).expect("sent");
    let answer = client.receive_udp(id).expect("an answer");
    let (head, cookies) = answer.split_at(answer.len() - 24);
    assert_eq!(head[head.len() - 4..], [0, 10, 0, 24], "cookies in every answer");
    (cookies.to_vec(), answer[2] & 2 == 0 && answer[7] == 8)
}

fn client(source: &str, server: SocketAddr) -> Client {
    Client::new(server).with_source(source.parse().expect("an address"))
}

#[test]
fn equal_questions_are_cut_and_others_are_served_meanwhile() {
    let service = Service::start("");
    let server = service.daemon.address();
    let large = |id| question("large.a.test", rtype::TXT, id, Some(&[1; 8]));
    let is_enough = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let flood = || service.flood_until("127.0.7.1", 20 * QUESTIONS, 20 * SECOND, large, &is_enough);
        let flood = scope.spawn(flood);
        // It has begun when the class is over its limit.
        wait_until("answers are cut", PATIENCE, || (service.limited("answer") > 0).then_some(()));
        // By TCP.
        let query = Query { edns: Some(1232), ..Query::new(&Dname::parse("large.a.test"), rtype::TXT) };
        let mut stream = client("127.0.7.2", server);
        for _ in 0..20 {
            let answer = stream.ask_tcp(&query).expect("an answer over TCP");
            assert_eq!(answer.answer.len(), 8);
        }
        // With a server cookie, which even an answer that is cut has.
        let mut known = client("127.0.7.3", server);
        let (cookies, _) = ask_with_cookie(&mut known, &[2; 8]);
        for _ in 0..20 {
            assert!(ask_with_cookie(&mut known, &cookies).1, "a server cookie");
        }
        // Neither a forged one, nor that of somebody else, nor a client cookie alone.
        let mut forged = cookies.clone();
        forged[23] ^= 1;
        for (source, cookie) in [("127.0.7.3", &forged[..]), ("127.0.7.4", &cookies), ("127.0.7.3", &[2; 8])] {
            let mut stranger = client(source, server);
            let full = (0..20).filter(|_| ask_with_cookie(&mut stranger, cookie).1).count();
            assert!(full < 15, "{full} of 20 in full");
        }
        // Another network.
        assert!(ask_with_cookie(&mut client("127.0.8.1", server), &[2; 8]).1);
        std::thread::sleep(2 * SECOND);
        is_enough.store(true, Ordering::Relaxed);
        let flood = flood.join().expect("the flood ends");
        println!("{flood:?}: {:.2} octets out for one in", flood.octets_out as f64 / flood.octets_in as f64);
        assert!(flood.answers == flood.sent, "none is dropped: {flood:?}");
        assert!(flood.full() <= flood.most_full() && flood.full() >= RATE / 2, "{flood:?}");
        // The question's octets, and the 16 of a server cookie.
        assert_eq!(flood.longest_cut, large(0).len() + 16);
    });
    let told = service.daemon.verb(&["status"]).stdout;
    assert!(told.contains(&format!("over the rate limit: {NETWORK} for ")), "{told}");
    let told: Value = serde_json::from_str(&service.daemon.verb(&["status", "--json"]).stdout).expect("JSON");
    let limited = &told["rate_limited"][0];
    assert_eq!((&limited["network"], &limited["class"]), (&NETWORK.into(), &"answer".into()), "{told}");
    assert!(limited["limited"].as_u64().is_some_and(|number| number > u64::from(QUESTIONS)), "{limited}");
    assert!(service.daemon.metrics().contains("aggregator_rate_limited_networks 1"));
    wait_until("it is over", PATIENCE, || {
        let log = service.daemon.log_text();
        log.contains("answers are within the rate limit again").then_some(())
    });
    let log = service.daemon.log_text();
    let lines = log.lines().filter(|line| line.contains("answers over the rate limit are cut"));
    assert_eq!(lines.filter(|line| line.contains(NETWORK)).count(), 1, "{log}");
    wait_until("status tells nothing any more", PATIENCE, || {
        (!service.daemon.verb(&["status"]).stdout.contains("over the rate limit")).then_some(())
    });
}

#[test]
fn random_names_are_cut_and_an_honest_resolver_is_not() {
    let service = Service::start("");
    let random = |id| question(&format!("r{id}.a.test"), rtype::A, id, None);
    let flood = service.flood("127.0.7.1", QUESTIONS, SECOND, random);
    assert!(flood.full() <= flood.most_full() && flood.full() >= RATE, "{flood:?}");
    // Without EDNS an answer that is cut is the question, but for the header's bits.
    assert!(flood.octets_out < 3 * flood.octets_in && flood.longest_cut <= random(u16::MAX).len(), "{flood:?}");
    assert_eq!(u64::from(flood.cut), service.limited("nxdomain"));
    // Nine hundred a second, of many names and types, for three seconds.
    let honest = |id: u16| match id % 3 {
        0 => question(&format!("r{id}.a.test"), rtype::A, id, None),
        1 => question("large.a.test", rtype::TXT, id, Some(&[1; 8])),
        _ => question("www.a.test", rtype::AAAA, id, None),
    };
    let resolver = service.flood("127.0.9.1", 2700, 3 * SECOND, honest);
    assert_eq!((resolver.answers, resolver.cut), (2700, 0), "{resolver:?}");
    // A primary has no limit.
    let primary = service.flood("127.0.0.1", 5000, SECOND, |id| question("www.a.test", rtype::A, id, None));
    assert_eq!((primary.answers, primary.cut), (5000, 0), "{primary:?}");
}

/// Opens so many connections from an address, one after the other, and asks over each. Returns how many were served.
fn connect(server: SocketAddr, source: &str, count: usize) -> usize {
    let (source, query) = (source.parse::<IpAddr>().expect("an address"), question("www.a.test", rtype::A, 7, None));
    let request = [&(query.len() as u16).to_be_bytes()[..], &query].concat();
    let ask = || {
        let socket = Socket::new(Domain::for_address(server), Type::STREAM, None)?;
        socket.bind(&SocketAddr::new(source, 0).into())?;
        socket.connect(&server.into())?;
        let mut stream = TcpStream::from(socket);
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.write_all(&request)?;
        stream.read_exact(&mut [0; 14])
    };
    let mut served = 0;
    for _ in 0..count {
        match ask() {
            Ok(()) => served += 1,
            Err(error) => {
                let is_reset = matches!(error.kind(), ErrorKind::ConnectionReset | ErrorKind::BrokenPipe);
                assert!(is_reset, "a connection over the limit is reset: {error}");
            }
        }
    }
    served
}

#[test]
fn a_network_opens_connections_at_the_rate_of_its_answers() {
    const RATE: usize = 20;
    const COUNT: usize = 200;
    let plan = |mode: &str| {
        format!("[rate_limit]\nmode = \"{mode}\"\nresponses_per_second = {RATE}\nexempt = [\"127.0.9.0/24\"]\n")
    };
    let service = Service::start_on(&plan("on"), &["0.0.0.0:{port}", "[::1]:{port}"]);
    let port = service.daemon.address().port();
    let [v4, v6] = ["127.0.0.1", "::1"].map(|host| SocketAddr::new(host.parse().expect("an address"), port));
    for (server, source) in [(v4, "127.0.7.1"), (v6, "::1")] {
        let (begun, before) = (Instant::now(), service.limited("connection"));
        let served = connect(server, source, COUNT);
        let most = RATE + (RATE as f64 * (begun.elapsed().as_secs_f64() + 0.02)).ceil() as usize;
        assert!((RATE..=most).contains(&served), "{source}: {served} of {COUNT}, {most} at most");
        assert_eq!(service.limited("connection") - before, (COUNT - served) as u64);
    }
    assert_eq!(connect(v4, "127.0.9.1", COUNT), COUNT, "exempt");
    let log = service.daemon.log_text();
    assert_eq!(log.matches("connections over the rate limit are reset").count(), 2, "once a network: {log}");
    let told = service.daemon.verb(&["status"]).stdout;
    assert!(told.contains("first of class connection"), "{told}");
    let text = std::fs::read_to_string(service.daemon.configuration()).expect("the configuration");
    let reload = |mode: &str| {
        std::fs::write(service.daemon.configuration(), text.replace(&plan("on"), &plan(mode))).expect("written");
        let told = service.daemon.verb(&["reload"]);
        assert_eq!(told.code, 0, "{told:?}");
    };
    reload("log");
    let before = service.limited("connection");
    assert_eq!(connect(v4, "127.0.7.1", COUNT), COUNT, "only told");
    assert!(service.limited("connection") > before);
    reload("off");
    let before = service.limited("connection");
    assert_eq!((connect(v4, "127.0.7.1", COUNT), service.limited("connection")), (COUNT, before));
}

#[test]
fn a_reload_changes_the_limit_and_tells_of_it() {
    let service = Service::start("[rate_limit]\nresponses_per_second = 20\n");
    let ask = |id| question("www.a.test", rtype::A, id, None);
    let flood = || service.flood("127.0.7.1", 1000, SECOND / 2, ask);
    assert!((20..=45).contains(&flood().full()));
    let text = std::fs::read_to_string(service.daemon.configuration()).expect("the configuration");
    let reload = |section: &str| {
        let changed = text.replace("[rate_limit]\nresponses_per_second = 20\n", section);
        std::fs::write(service.daemon.configuration(), changed).expect("written");
        let told = service.daemon.verb(&["reload"]);
        assert_eq!(told.code, 0, "{told:?}");
        told.stdout
    };
    let told = reload("[rate_limit]\nresponses_per_second = 20\nmode = \"log\"\n");
    assert!(told.contains("now responses over UDP: without a limit, but told if more than 20 a second"), "{told}");
    let before = service.limited("answer");
    assert_eq!(flood().cut, 0);
    assert!(service.limited("answer") > before + 900, "they are counted");
    let told =
        reload("[rate_limit]\nresponses_per_second = 20\nexempt = [\"127.0.7.0/24\"]\n[cookies]\nanswer = false\n");
    for line in [
        "now full responses over UDP: 20 a second of each class for an IPv4 /24 or an IPv6 /56",
        "the rate limit now exempts 127.0.7.0/24",
        "now DNS Cookies: off",
    ] {
        assert!(told.contains(line), "{told}");
    }
    assert_eq!(flood().cut, 0);
    let answer = client("127.0.7.1", service.daemon.address());
    let mut answer = answer.with_deadline(PATIENCE);
    let id = answer.take_id();
    answer.send_udp(&question("www.a.test", rtype::A, id, Some(&[1; 8]))).expect("sent");
    let answer = answer.receive_udp(id).expect("an answer");
    assert!(answer[7] == 1 && answer.ends_with(&[0, 0]), "no options: {answer:?}");
}

/// The cookie that dig shows, and whether it takes it for a right answer to its own.
fn dig(server: SocketAddr, source: &str, cookie: &str) -> (String, String) {
    let mut command = Command::new(program_path("dig"));
    command.args(["-b", source, "-p", &server.port().to_string(), cookie]);
    command.args([&format!("@{}", server.ip()), "www.a.test", "A"]);
    let told = run_tool(&mut command);
    let line = told.lines().find_map(|line| line.strip_prefix("; COOKIE: ")).unwrap_or_else(|| panic!("{told}"));
    let (cookie, verdict) = line.split_once(' ').unwrap_or_else(|| panic!("{told}"));
    (cookie.to_owned(), verdict.to_owned())
}

/// Writes a file of secrets of cookies.
fn write_secrets(folder: &Folder, text: &str) -> PathBuf {
    let path = folder.path().join("cookies.secret");
    write_file(&path, text);
    std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o600)).expect("permissions");
    path
}

/// True if a client with these cookies is over no limit of one answer a second.
fn is_known(server: SocketAddr, cookies: &[u8]) -> bool {
    let mut client = client("127.0.7.1", server);
    (0..50).all(|_| ask_with_cookie(&mut client, cookies).1)
}

/// Shows cookies to a server; returns the response code and the cookies of the answer.
fn show(server: SocketAddr, cookies: &[u8]) -> (u16, Vec<u8>) {
    let mut client = client("127.0.7.1", server);
    let id = client.take_id();
    client.send_udp(&question("www.a.test", rtype::A, id, Some(cookies))).expect("sent");
    let answer = client.receive_udp(id).expect("an answer");
    let (head, cookies) = answer.split_at(answer.len() - 24);
    let (record, option) = head.split_at(head.len() - 4);
    assert_eq!(option, [0, 10, 0, 24], "cookies and nothing else: {answer:?}");
    // In front of the length of the options: the upper bits of the code, the version, and flags (RFC 6891 section 6.1.3).
    let upper = record[record.len() - 6];
    (u16::from(upper) << 4 | u16::from(answer[3] & 15), cookies.to_vec())
}

#[test]
fn other_servers_with_the_same_secret_have_the_same_cookies() {
    let folder = Folder::new();
    let path = write_secrets(&folder, &format!("{COOKIE_SECRET}\n"));
    let service = Service::start(&format!(
        "[rate_limit]\nresponses_per_second = 1\n[cookies]\nsecret_file = \"{}\"\n",
        path.display()
    ));
    let server = service.daemon.address();
    let part = *b"client's";
    let (code, ours) = show(server, &part);
    assert_eq!(code, 0);
    let mut spoilt = ours.clone();
    spoilt[23] ^= 1;
    assert!(is_known(server, &ours) && !is_known(server, &spoilt));
    // What others make from now on has another time in it.
    let made = u32::from_be_bytes(*ours[12..].first_chunk().expect("the time"));
    wait_until("the second is over", PATIENCE, || {
        let now = std::time::UNIX_EPOCH.elapsed().expect("a clock that is right").as_secs() as u32;
        (now > made + 1).then_some(())
    });
    let bad_cookie = 23;
    let peers = [
        (Named::start_with_cookies(&folder, &[zone()]), bad_cookie),
        (Nsd::start_with_cookies(&folder, &[zone()]), 0),
        (Knotd::start_with_cookies(&folder, &[zone()]), bad_cookie),
    ];
    for (peer, refusal) in peers {
        let (peer, name) = (peer.address(), peer.name());
        let (code, cookies) = show(peer, &ours);
        assert_eq!(code, 0, "{name} takes ours");
        // BIND makes a new one for each answer.
        assert!(name == "named" || cookies == ours, "{name} gives ours back");
        let (code, theirs) = show(peer, &spoilt);
        assert_eq!(code, refusal, "{name} tells what is wrong");
        assert_ne!(theirs[8..], spoilt[8..], "{name} makes another");
        assert!(is_known(server, &theirs), "a cookie of {name}");
    }
    let shown =
        ["client", "valid", "invalid"].map(|shown| service.counted(&format!("cookies_total{{shown=\"{shown}\"}}")));
    // Whoever is not known was told so with the first answer that was cut.
    assert_eq!(shown[..2], [1, 4 * 50]);
    assert!(shown[2] > 0, "{shown:?}");
}

#[test]
fn replicas_accept_each_others_cookies_and_so_does_dig() {
    let folder = Folder::new();
    let write = |text: &str| write_secrets(&folder, text);
    let (old, new) = ("000102030405060708090a0b0c0d0e0f", "f0f1f2f3f4f5f6f7f8f9fafbfcfdfeff");
    let path = write(&format!("{old}\n{new}\n"));
    let plan = format!("[rate_limit]\nresponses_per_second = 1\n[cookies]\nsecret_file = \"{}\"\n", path.display());
    let services = [Service::start(&plan), Service::start_beside(&plan)];
    let [one, other] = services.each_ref().map(|service| service.daemon.address());
    let (cookie, verdict) = dig(one, "127.0.7.1", "+cookie");
    assert_eq!((cookie.len(), &*verdict), (48, "(good)"));
    // Shown again, it is taken, and it comes back.
    let (again, verdict) = dig(other, "127.0.7.1", &format!("+cookie={cookie}"));
    assert_eq!((&*again, &*verdict), (&*cookie, "(good)"));
    let octets: Vec<u8> =
        (0..24).map(|at| u8::from_str_radix(&cookie[2 * at..2 * at + 2], 16).expect("hexadecimal")).collect();
    let is_known = |server| is_known(server, &octets);
    assert!(is_known(one) && is_known(other), "no limit on either");
    // The other secret takes over, and the first one goes.
    for (text, is_taken) in [(format!("{new}\n{old}\n"), true), (format!("{new}\n"), false)] {
        write(&text);
        let told = services[1].daemon.verb(&["reload"]);
        assert!(told.code == 0 && told.stdout.contains("now DNS Cookies: secret in "), "{told:?}");
        assert_eq!(is_known(other), is_taken);
    }
    assert!(!services.iter().any(|service| service.daemon.log_text().contains(&old[2..])), "no secret in a log");
}
