//! Odd requests over real sockets: what RFC 8906 asks of a server, put with `dig` where dig can, and as raw octets
//! where it cannot; replies that leave from the address that was asked; the case of names (0x20).

mod harness;

use harness::*;
use std::net::{SocketAddr, UdpSocket};
use std::process::Command;
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(10);

/// A daemon on all IPv4 addresses of this machine, with one zone.
struct Service {
    daemon: Aggregator,
    _peer: Peer,
    _folder: Folder,
}

impl Service {
    fn start() -> Service {
        let mut text = "$ORIGIN a.test.\n$TTL 30\n@ IN SOA ns.dc.invalid. h.dc.invalid. 1 30 60 2592000 30\n\
                        @ IN NS ns.dc.invalid.\nwww IN A 192.0.2.1\nalias IN CNAME www\nx.y IN TXT \"x\"\n"
            .to_string();
        (0..100).for_each(|number| text.push_str(&format!("big IN A 10.0.0.{number}\n")));
        let folder = Folder::new();
        let peer = Nsd::start(&folder, &[(Dname::parse("a.test"), text)]);
        let plan = format!("[zones]\n\"a.test\" = \"{}\"\n", peer.address());
        let mut settings = Settings::new(&plan);
        settings.listen = vec!["0.0.0.0:{port}".to_string(), "[::1]:{port}".to_string()];
        let daemon = Aggregator::start_with(&folder.subfolder("aggregator"), &settings);
        let mut client = Client::new(daemon.address());
        wait_until("the zone is loaded", PATIENCE, || client.serial(&Dname::parse("a.test")));
        Service { daemon, _peer: peer, _folder: folder }
    }

    /// Returns the output of dig for these arguments.
    fn dig(&self, arguments: &str) -> Dig {
        let port = self.daemon.address().port().to_string();
        let mut command = Command::new("dig");
        command.args(["@127.0.0.1", "-p", &port, "+tries=1", "+time=5", "+norecurse", "+nocookie", "+qr"]);
        let output = command.args(arguments.split_whitespace()).output();
        let output = output.unwrap_or_else(|error| panic!("dig is missing ({error}); run make test"));
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "dig {arguments}: {text}");
        // The query comes first; the answer follows this line. A word misread as a name would make two.
        assert_eq!(text.matches("Got answer:").count(), 1, "dig {arguments}: {text}");
        let answer = text.split_once("Got answer:").map(|(_, answer)| answer.to_string());
        Dig(answer.unwrap_or_else(|| panic!("dig {arguments}: no answer: {text}")))
    }

    /// Sends raw octets and gives the answer.
    fn ask(&self, request: &[u8]) -> Message {
        let mut client = Client::new(self.daemon.address());
        client.send_udp(request).expect("send");
        let answer = client.receive_udp(u16::from_be_bytes([request[0], request[1]])).expect("an answer");
        decode(&answer).expect("a message")
    }

    /// Sends octets that must not be answered, then a query on the same socket that is.
    fn assert_silent(&self, request: &[u8]) {
        let socket = UdpSocket::bind("127.0.0.1:0").expect("socket");
        socket.connect(self.daemon.address()).expect("connect");
        socket.set_read_timeout(Some(PATIENCE)).expect("timeout");
        let query = www().encode(0x7777);
        socket.send(request).expect("send");
        socket.send(&query).expect("send");
        let mut buffer = [0; 1500];
        socket.recv(&mut buffer).expect("an answer to the query");
        assert_eq!(buffer[..2], [0x77, 0x77], "{request:x?} was answered");
        // A late answer would have overtaken nothing: the query after it is answered first again.
        socket.send(&query).expect("send");
        socket.recv(&mut buffer).expect("an answer to the query");
        assert_eq!(buffer[..2], [0x77, 0x77], "{request:x?} was answered");
    }
}

fn www() -> Query {
    Query::new(&Dname::parse("www.a.test"), rtype::A)
}

/// Output of dig about an answer.
struct Dig(String);

impl Dig {
    /// The response code and the flags, as in the header lines.
    fn header(&self) -> (String, String) {
        let field = |name: &str, end: &[char]| {
            let rest = self.0.split_once(name).unwrap_or_else(|| panic!("{name}{}", self.0)).1;
            rest[..rest.find(end).expect("end")].trim().to_string()
        };
        (field("status:", &[',']), field("flags:", &[';']))
    }

    /// Checks response code, flags and texts that must or, with `!` in front, must not occur.
    fn expect(&self, rcode: &str, flags: &str, texts: &[&str]) {
        assert_eq!(self.header(), (rcode.to_string(), flags.to_string()), "{}", self.0);
        for text in texts {
            match text.strip_prefix('!') {
                Some(absent) => assert!(!self.0.contains(absent), "{absent}: {}", self.0),
                None => assert!(self.0.contains(text), "{text}: {}", self.0),
            }
        }
        // Nothing else that dig warns of: a malformed message, a wrong question, trailing octets.
        let rest = self.0.replace("WARNING: recursion requested but not available", "");
        assert!(!rest.contains("WARNING") && !rest.contains("malformed"), "{}", self.0);
    }
}

/// The list of RFC 8906 section 8, in its order, then some more.
#[test]
fn rfc_8906_with_dig() {
    let service = Service::start();
    let soa = "a.test.\t\t\t30\tIN\tSOA";
    let denied = "AUTHORITY: 1";
    let no_opt = "!OPT PSEUDOSECTION";
    let opt = "; EDNS: version: 0, flags:; udp: 1232";
    let opt_do = "; EDNS: version: 0, flags: do; udp: 1232";
    for (arguments, rcode, flags, texts) in [
        // 8.1.1 the server answers, also for the SOA of a zone
        ("+noedns +noad a.test SOA", "NOERROR", "qr aa", &[soa, no_opt][..]),
        // 8.1.2 unknown types, and types that ask for many
        ("+noedns +noad a.test TYPE1000", "NOERROR", "qr aa", &[denied, no_opt]),
        ("+noedns +noad www.a.test TYPE65534", "NOERROR", "qr aa", &[denied]),
        ("+noedns +noad none.a.test TYPE1000", "NXDOMAIN", "qr aa", &[denied]),
        ("+noedns +noad y.a.test TYPE1000", "NOERROR", "qr aa", &[denied]),
        // 8.1.3.1 to 8.1.3.4 header bits: CD, AD, the reserved bit, RD
        ("+noedns +noad +cd a.test SOA", "NOERROR", "qr aa", &[soa]),
        ("+noedns +ad a.test SOA", "NOERROR", "qr aa", &[soa]),
        ("+noedns +noad +zflag a.test SOA", "NOERROR", "qr aa", &[soa, "!MBZ"]),
        ("+noedns +noad +recurse a.test SOA", "NOERROR", "qr aa rd", &[soa]),
        ("+noedns +noad +aaflag +tcflag a.test SOA", "NOERROR", "qr aa", &[soa]),
        // 8.1.4 an unknown opcode: NOTIMP, nothing else
        ("+noedns +noad +opcode=15 +header-only a.test SOA", "NOTIMP", "qr", &["opcode: RESERVED15", no_opt]),
        ("+noedns +noad +opcode=15 a.test SOA", "NOTIMP", "qr", &["opcode: RESERVED15"]),
        // This machine is the zone's primary, too, and so may send NOTIFY.
        ("+noedns +noad +opcode=4 a.test SOA", "NOERROR", "qr aa", &["opcode: NOTIFY"]),
        ("+noedns +noad +opcode=5 a.test SOA", "NOTIMP", "qr", &["opcode: UPDATE"]),
        // 8.1.5 over TCP
        ("+noedns +noad +tcp a.test SOA", "NOERROR", "qr aa", &[soa]),
        // 8.2.1 to 8.2.6 EDNS: plain, an unknown version, option, flag, and all together
        ("+edns=0 +noad a.test SOA", "NOERROR", "qr aa", &[soa, opt]),
        ("+edns=1 +noednsneg +noad a.test SOA", "BADVERS", "qr", &[opt, "ANSWER: 0"]),
        ("+edns=0 +noad +ednsopt=100 a.test SOA", "NOERROR", "qr aa", &[soa, opt, "!OPT=100"]),
        ("+edns=0 +noad +ednsflags=0x40 a.test SOA", "NOERROR", "qr aa", &[soa, opt, "!MBZ"]),
        (
            "+edns=1 +noednsneg +noad +ednsopt=100 +ednsflags=0x40 a.test SOA",
            "BADVERS",
            "qr",
            &[opt, "!MBZ", "!OPT=100"],
        ),
        // 8.2.7 and 8.2.8 DNSSEC wanted
        ("+edns=0 +noad +dnssec a.test SOA", "NOERROR", "qr aa", &[soa, opt_do]),
        ("+edns=1 +noednsneg +noad +dnssec a.test SOA", "BADVERS", "qr", &[opt_do, "ANSWER: 0"]),
        // 8.2.9 several options at once
        (
            "+edns=0 +noad +cookie +nsid +expire +subnet=0.0.0.0/0 a.test SOA",
            "NOERROR",
            "qr aa",
            &[soa, "(\"ns1.test\")"],
        ),
        // Truncation with sizes from nonsense to the largest
        ("+edns=0 +noad +ignore +bufsize=512 big.a.test A", "NOERROR", "qr aa tc", &["ANSWER: 0", opt]),
        ("+edns=0 +noad +ignore +bufsize=1 big.a.test A", "NOERROR", "qr aa tc", &["ANSWER: 0", opt]),
        ("+edns=0 +noad +ignore +bufsize=0 www.a.test A", "NOERROR", "qr aa", &["192.0.2.1", opt]),
        ("+edns=0 +noad +ignore +bufsize=65535 big.a.test A", "NOERROR", "qr aa tc", &["ANSWER: 0", opt]),
        ("+noedns +noad +ignore big.a.test A", "NOERROR", "qr aa tc", &["ANSWER: 0"]),
        ("+edns=0 +noad +bufsize=512 big.a.test A", "NOERROR", "qr aa", &["ANSWER: 100"]),
        // No question at all, another class, names elsewhere, transfers that nobody may have
        ("+noedns +noad +header-only a.test SOA", "FORMERR", "qr", &["QUERY: 0"]),
        ("+noedns +noad a.test HS SOA", "REFUSED", "qr", &["ANSWER: 0"]),
        ("+noedns +noad a.test CH TXT", "REFUSED", "qr", &["ANSWER: 0"]),
        ("+noedns +noad hostname.bind CH TXT", "NOERROR", "qr aa", &["\"ns1.test\""]),
        ("+noedns +noad id.server CH TXT", "NOERROR", "qr aa", &["\"ns1.test\""]),
        ("+edns=0 +noad b.test SOA", "REFUSED", "qr", &["EDE: 20", opt]),
        ("+noedns +noad . NS", "REFUSED", "qr", &["ANSWER: 0"]),
        ("+noedns +noad +notcp a.test ANY", "NOERROR", "qr aa", &["ANSWER: 1,"]),
        ("+noedns +noad alias.a.test A", "NOERROR", "qr aa", &["ANSWER: 2", "192.0.2.1"]),
    ] {
        service.dig(arguments).expect(rcode, flags, texts);
    }
}

/// An OPT record with this owner, version, and options.
fn opt(owner: &[u8], version: u8, options: &[u8]) -> Vec<u8> {
    let length = (options.len() as u16).to_be_bytes();
    [owner, &[0, 41, 4, 208, 0, version, 0, 0], &length, options].concat()
}

/// A query with records behind its question, all counted as additional.
fn with_additional(records: &[Vec<u8>]) -> Vec<u8> {
    let mut request = www().encode(0x1234);
    request[11] = records.len() as u8;
    [&request[..], &records.concat()].concat()
}

#[test]
fn what_dig_cannot_send() {
    let service = Service::start();
    let plain = www().encode(0x1234);
    let changed = |change: fn(&mut Vec<u8>)| {
        let mut request = plain.clone();
        change(&mut request);
        request
    };
    // Octets behind the records are ignored, also many of them.
    for tail in [1, 12, 3000] {
        assert_eq!(service.ask(&[&plain[..], &vec![0xff; tail]].concat()).answer.len(), 1, "{tail} octets behind");
    }
    let two_questions = changed(|request| {
        request[5] = 2;
        let question = request[12..].to_vec();
        request.extend(question);
    });
    let pointer = changed(|request| _ = request.splice(12..24, [0xc0, 12]));
    let broken = [
        ("two questions", two_questions),
        ("a question that is not there", changed(|request| request.truncate(12))),
        ("a question that ends early", changed(|request| request.truncate(27))),
        ("a name that leads to itself", pointer),
        ("a label of 64 octets", changed(|request| request[12] = 64)),
        ("a label beyond the end", changed(|request| request[12] = 63)),
        ("two OPT records", with_additional(&[opt(&[0], 0, &[]), opt(&[0], 0, &[])])),
        ("an OPT record that is not the root's", with_additional(&[opt(b"\x01a\x00", 0, &[])])),
        ("an option that is longer than the record", with_additional(&[opt(&[0], 0, &[0, 3, 0, 9, 1])])),
        ("an option without length", with_additional(&[opt(&[0], 0, &[0, 3, 0])])),
        ("records that are not there", changed(|request| request[7] = 1)),
        ("an OPT record that ends early", with_additional(&[vec![0, 0, 41, 4]])),
    ];
    for (what, request) in broken {
        let answer = service.ask(&request);
        assert_eq!((answer.id, answer.rcode()), (0x1234, 1), "{what}: {answer:?}");
        assert!(answer.answer.is_empty() && !answer.is_authoritative(), "{what}: {answer:?}");
    }
    // Transfers are not given to anyone; dig would not show the refusal.
    for rtype in [251, rtype::AXFR] {
        let request = Query::new(&Dname::parse("a.test"), rtype).encode(3);
        let over_tcp = Client::new(service.daemon.address()).exchange_tcp(&request).expect("an answer");
        for answer in [service.ask(&request), decode(&over_tcp).expect("a message")] {
            assert_eq!((answer.rcode(), answer.answer.len()), (5, 0));
        }
    }
    // A version that is none of ours: BADVERS is 16, its upper part in the OPT record.
    let answer = service.ask(&with_additional(&[opt(&[0], 7, &[])]));
    let edns = answer.edns.as_ref().expect("OPT");
    assert_eq!((answer.rcode(), edns.extended_rcode, edns.version), (0, 1, 0));
    // All sixteen opcodes, RD set: only queries and NOTIFY are known, and only queries have RD copied.
    for opcode in (1..16u8).filter(|opcode| *opcode != 4) {
        let mut request = plain.clone();
        request[2] = opcode << 3 | 1;
        let flags = service.ask(&request).flags;
        assert_eq!(flags, 0x8000 | u16::from(opcode) << 11 | 4, "opcode {opcode}");
    }
    // Whoever asks by a response or by a piece of a header gets nothing, not even an error.
    service.assert_silent(&changed(|request| request[2] |= 0x80));
    service.assert_silent(&[]);
    for length in 1..12 {
        service.assert_silent(&plain[..length]);
    }
}

/// Names with every octet, of every length: the server lives, and says that they are not there.
#[test]
fn strange_names() {
    let service = Service::start();
    let zone = Dname::parse("a.test");
    let labels = [&b"\x00"[..], b".", b" ", b"\xff\xfe", b"a.b", b"*", &[0xab; 63]];
    for label in labels {
        let name = zone.child(label).expect("name");
        let answer = service.ask(&Query::new(&name, rtype::A).encode(9));
        assert_eq!((answer.rcode(), &answer.question[..name.0.len()]), (3, &name.0[..]));
    }
    let mut longest = zone.clone();
    while let Some(longer) = longest.child(&[b'x'; 31]) {
        longest = longer;
    }
    let room = 255 - longest.0.len();
    let longest = longest.child(&vec![b'y'; room - 1]).expect("name");
    assert_eq!(longest.0.len(), 255);
    assert_eq!(service.ask(&Query::new(&longest, rtype::A).encode(9)).rcode(), 3);
    let mut too_long = longest.0.clone();
    too_long.splice(..0, [1, b'z']);
    assert_eq!(service.ask(&Query::new(&Dname(too_long), rtype::A).encode(9)).rcode(), 1);
}

#[test]
fn replies_leave_from_the_address_that_was_asked() {
    let service = Service::start();
    let port = service.daemon.address().port();
    let socket = UdpSocket::bind("0.0.0.0:0").expect("socket");
    socket.set_read_timeout(Some(PATIENCE)).expect("timeout");
    let mut buffer = [0; 1500];
    for last in [1, 2, 3, 200] {
        let server = SocketAddr::from(([127, 0, 0, last], port));
        socket.send_to(&www().encode(last.into()), server).expect("send");
        let (length, from) = socket.recv_from(&mut buffer).expect("an answer");
        assert_eq!((from, decode(&buffer[..length]).expect("a message").id), (server, last.into()));
    }
    // Many at once, so that one batch holds several addresses.
    for id in 0..200u16 {
        let server = SocketAddr::from(([127, 0, 1, id as u8], port));
        socket.send_to(&www().encode(id), server).expect("send");
    }
    for _ in 0..200 {
        let (_, from) = socket.recv_from(&mut buffer).expect("an answer");
        let id = u16::from_be_bytes([buffer[0], buffer[1]]);
        assert_eq!(from, SocketAddr::from(([127, 0, 1, id as u8], port)));
    }
    // Beside 0.0.0.0 the same port of an IPv6 address is a listener of its own.
    let socket = UdpSocket::bind("[::]:0").expect("socket");
    socket.set_read_timeout(Some(PATIENCE)).expect("timeout");
    let server: SocketAddr = format!("[::1]:{port}").parse().expect("address");
    socket.send_to(&www().encode(5), server).expect("send");
    assert_eq!(socket.recv_from(&mut buffer).expect("an answer").1, server);
}

#[test]
fn the_case_of_a_question_comes_back() {
    let service = Service::start();
    for (number, text) in ["www.a.test", "WWW.A.TEST", "wWw.A.tEsT", "NONE.a.TesT", "aLiAs.a.TEST"].iter().enumerate() {
        let name = Dname::parse(text);
        let request = Query { edns: Some(1232), ..Query::new(&name, rtype::A) }.encode(number as u16);
        let answer = service.ask(&request);
        assert_eq!(answer.question, request[12..12 + name.0.len() + 4]);
        // The owner is a pointer to the question, and so has its case, too.
        let owners = answer.answer.iter().take(1).map(|record| &record.owner);
        owners.for_each(|owner| assert_eq!(*owner, name));
        assert_eq!(answer.answer.is_empty(), text.starts_with("NONE"));
    }
}
