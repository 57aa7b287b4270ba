//! Zone transfers out, as dig, kdig and impolite clients get them.

mod harness;

use harness::*;
use socket2::{Domain, Socket, Type};
use std::fmt::Write;
use std::io::Write as _;
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(30);
/// Type IXFR.
const IXFR: u16 = 251;
/// Base64 of 32 octets.
const SECRET: &str = "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=";
const OTHER_SECRET: &str = "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWc=";

/// A zone of some hundred kilobytes, with capitals and several TTLs in it.
fn zone_text(zone: &str, serial: u32, address: &str) -> String {
    let mut text = format!(
        "$ORIGIN {zone}.\n@ 60 IN SOA ns.dc.invalid. H.dc.invalid. {serial} 30 60 2592000 30\n@ 3600 IN NS ns.dc.invalid.\n\
         Www 30 IN A {address}\n"
    );
    for number in 0..4000 {
        let (third, fourth) = (number / 250, number % 250);
        writeln!(text, "Host-{number}.inst 30 IN A 10.1.{third}.{fourth}\nv{number}.svc 5 IN CNAME Host-{number}.inst")
            .expect("string");
    }
    text
}

/// A daemon with zones that different clients may have, and its primary.
struct Service {
    daemon: Aggregator,
    peer: Peer,
    _folder: Folder,
}

impl Service {
    fn start(server: &str) -> Service {
        let folder = Folder::new();
        let home = folder.subfolder("aggregator");
        write_secret(&home.join("k.key"), SECRET);
        let zones: Vec<ZoneText> = ["open.test", "keyed.test", "closed.test"]
            .map(|zone| (Dname::parse(zone), zone_text(zone, 1, "192.0.2.1")))
            .into();
        // BIND keeps capitals; Knot would not.
        let peer = Named::start(&folder, &zones);
        let address = peer.address();
        let plan = format!(
            "[keys.\"k.test\"]\nsecret_file = \"k.key\"\n\
             [secondaries]\nallow_transfer = [\"127.0.0.1\", \"127.0.0.3\"]\n\
             [zones]\n\"open.test\" = \"{address}\"\n\
             [zones.\"keyed.test\"]\nprimaries = [\"{address}\"]\n\
             allow_transfer = [{{ prefix = \"127.0.0.0/8\", key = \"k.test\" }}]\n\
             [zones.\"closed.test\"]\nprimaries = [\"{address}\"]\nallow_transfer = []\n\
             [transfer]\nrefresh_min = \"1s\"\nrefresh_max = \"1s\"\n"
        );
        let settings = Settings { server: server.to_string(), ..Settings::new(&plan) };
        let daemon = Aggregator::start_with(&home, &settings);
        let mut client = Client::new(daemon.address());
        for (zone, _) in &zones {
            wait_until(&format!("{zone} is loaded"), PATIENCE, || client.serial(zone));
        }
        Service { daemon, peer, _folder: folder }
    }

    /// Returns the output of a tool.
    fn tool(&self, tool: &str, arguments: &[&str]) -> String {
        let port = self.daemon.address().port().to_string();
        let mut command = Command::new(tool);
        command.args(["@127.0.0.1", "-p", &port]).args(arguments);
        let output = command.output().unwrap_or_else(|error| panic!("{tool} is missing ({error}); run make test"));
        String::from_utf8(output.stdout).expect("text") + &String::from_utf8(output.stderr).expect("text")
    }

    /// The SOA record as the daemon serves it.
    fn soa(&self, zone: &Dname) -> Record {
        let answer = Client::new(self.daemon.address()).ask_tcp(&Query::new(zone, rtype::SOA)).expect("an answer");
        answer.answer.into_iter().next().expect("an SOA")
    }

    /// The records of an answer to IXFR over TCP, up to the SOA that ends it.
    fn ixfr(&self, zone: &Dname, soa: &Record) -> Vec<Record> {
        let mut stream = TcpStream::connect(self.daemon.address()).expect("connect");
        stream.set_read_timeout(Some(PATIENCE)).expect("timeout");
        write_frame(&mut stream, &ixfr_request(zone, soa)).expect("request");
        let mut records: Vec<Record> = Vec::new();
        loop {
            let message = decode(&read_frame(&mut stream).expect("a message")).expect("a message");
            assert_eq!(message.rcode(), 0);
            records.extend(message.answer);
            let serials: Vec<u32> =
                records.iter().filter(|record| record.rtype == rtype::SOA).map(Record::serial).collect();
            // One alone; both ends of a whole zone; or those of one difference.
            let is_whole = records.len() > 1 && records[1].rtype != rtype::SOA;
            if records.len() == 1 || is_whole && serials.len() == 2 || serials.len() == 4 {
                return records;
            }
        }
    }

    /// Returns true if the metrics page has a line.
    fn counted(&self, kind: &str, result: &str, zone: &str, count: usize) -> bool {
        let line =
            format!("aggregator_xfr_served_total{{kind=\"{kind}\",result=\"{result}\",zone=\"{zone}\"}} {count}");
        self.daemon.metrics().lines().any(|found| found == line)
    }
}

fn write_secret(path: &Path, secret: &str) {
    write_file(path, secret);
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).expect("permissions");
}

/// An IXFR request with the SOA that the client has (RFC 1995 section 3).
fn ixfr_request(zone: &Dname, soa: &Record) -> Vec<u8> {
    let mut message = Query::new(zone, IXFR).encode(7);
    message[9] = 1;
    message.extend_from_slice(&zone.0);
    message.extend_from_slice(&[0, 6, 0, 1, 0, 0, 0, 0]);
    message.extend_from_slice(&(soa.rdata.len() as u16).to_be_bytes());
    message.extend_from_slice(&soa.rdata);
    message
}

/// Checks that a tool has printed the whole zone, spelling and TTLs included.
fn assert_whole(printed: &str, text: &str, what: &str) {
    let lines = |text: &str| {
        let mut lines: Vec<String> = text
            .lines()
            .filter(|line| !line.is_empty() && !line.starts_with(';'))
            .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
            .collect();
        lines.sort();
        lines.dedup();
        lines
    };
    let expected = lines(&read_zone(text).iter().map(|record| format!("{record}\n")).collect::<String>());
    let found = lines(&read_zone(printed).iter().map(|record| format!("{record}\n")).collect::<String>());
    assert!(found.len() > 8000, "{what}: {printed}");
    assert!(found == expected, "{what}: another zone");
    let owner = "Host-3999.inst.open.test.";
    assert!(!text.contains("open.test") || printed.contains(owner), "{what}: the spelling is lost");
}

#[test]
fn tools_transfer_what_they_may() {
    let service = Service::start("");
    let text = zone_text("open.test", 1, "192.0.2.1");
    assert_whole(&service.tool("dig", &["open.test", "AXFR", "+noall", "+answer"]), &text, "dig");
    assert_whole(&service.tool("dig", &["open.test", "IXFR=0", "+noall", "+answer"]), &text, "dig, IXFR");
    assert_whole(&service.tool("kdig", &["open.test", "AXFR", "+noall", "+answer"]), &text, "kdig");
    let current = service.tool("kdig", &["open.test", "IXFR=1", "+noall", "+answer"]);
    assert_eq!(current.lines().filter(|line| line.contains("SOA")).count(), 1, "{current}");
    assert!(!current.contains("inst"), "{current}");
    // Who may not, and what does not exist.
    let refused = service.tool("dig", &["closed.test", "AXFR"]);
    assert!(refused.contains("Transfer failed"), "{refused}");
    let elsewhere = service.tool("dig", &["-b", "127.0.0.2", "open.test", "AXFR"]);
    assert!(elsewhere.contains("Transfer failed"), "{elsewhere}");
    let status = service.tool("kdig", &["+tcp", "nowhere.test", "AXFR"]);
    assert!(status.contains("NOTAUTH"), "{status}");
    // Signed: the tools check every message, and say so if one is wrong.
    let signed = |tool: &str, zone: &str, secret: &str| {
        service.tool(tool, &["-y", &format!("hmac-sha256:k.test:{secret}"), zone, "AXFR"])
    };
    let keyed = zone_text("keyed.test", 1, "192.0.2.1");
    for tool in ["dig", "kdig"] {
        let printed = signed(tool, "keyed.test", SECRET);
        assert_whole(
            &printed.lines().filter(|line| !line.contains("TSIG")).collect::<Vec<_>>().join("\n"),
            &keyed,
            tool,
        );
        assert!(![";; Couldn't", ";; ERROR", ";; WARNING"].iter().any(|sign| printed.contains(sign)), "{printed}");
        let printed = signed(tool, "keyed.test", OTHER_SECRET);
        assert!(!printed.contains("inst"), "{tool}: {printed}");
    }
    let unsigned = service.tool("dig", &["keyed.test", "AXFR"]);
    assert!(unsigned.contains("Transfer failed"), "{unsigned}");
    // An ordinary question, signed.
    let key = format!("hmac-sha256:k.test:{SECRET}");
    for transport in ["+notcp", "+tcp"] {
        let printed = service.tool("dig", &["-y", &key, transport, "www.closed.test", "A"]);
        assert!(
            printed.contains("192.0.2.1") && printed.contains("TSIG") && !printed.contains("Couldn't"),
            "{printed}"
        );
    }
    for (kind, result, zone, count) in [
        ("axfr", "ok", "open.test.", 2),
        ("ixfr-full", "ok", "open.test.", 1),
        ("current", "ok", "open.test.", 1),
        ("axfr", "ok", "keyed.test.", 2),
        ("axfr", "refused", "keyed.test.", 1),
        ("axfr", "refused", "open.test.", 1),
        ("axfr", "not-authoritative", "", 1),
    ] {
        assert!(service.counted(kind, result, zone, count), "{kind} {result} {zone}:\n{}", service.daemon.metrics());
    }
    assert!(service.daemon.log_text().contains("transfer out"), "{}", service.daemon.log_text());
}

#[test]
fn who_is_refused_is_logged_once_with_the_reason_and_advice() {
    let service = Service::start("");
    let wrong = format!("hmac-sha256:k.test:{OTHER_SECRET}");
    let unknown = format!("hmac-sha256:other.test:{SECRET}");
    // The last announces what a primary would, from an address that is none.
    for _ in 0..3 {
        service.tool("dig", &["-b", "127.0.0.2", "open.test", "AXFR"]);
        service.tool("dig", &["-b", "127.0.0.4", "keyed.test", "IXFR=1"]);
        service.tool("dig", &["nowhere.test", "AXFR"]);
        service.tool("dig", &["-y", &wrong, "keyed.test", "AXFR"]);
        service.tool("dig", &["-y", &unknown, "www.open.test", "A"]);
        service.tool("dig", &["-b", "127.0.0.2", "+opcode=4", "+time=1", "+tries=1", "open.test", "SOA"]);
    }
    let log = service.daemon.log_text();
    let lines: Vec<&str> = log.lines().filter(|line| line.contains("advice=")).collect();
    for parts in [
        ["zone=open.test.", "peer=127.0.0.2", "kind=\"axfr\"", "allow_transfer", "no transfer"],
        ["zone=keyed.test.", "peer=127.0.0.4", "kind=\"ixfr\"", "allow_transfer", "no transfer"],
        ["zone=nowhere.test.", "peer=127.0.0.1", "not authoritative", "configure the zone here", "no transfer"],
        ["name=keyed.test.", "peer=127.0.0.1", "key=k.test.", "same secret", "signed request refused"],
        ["name=www.open.test.", "peer=127.0.0.1", "key=other.test.", "[keys]", "signed request refused"],
        ["zone=open.test.", "peer=127.0.0.2", "NOTIFY", "notify_from", "NOTIFY refused"],
    ] {
        let found = lines.iter().filter(|line| line.contains("WARN") && parts.iter().all(|part| line.contains(part)));
        assert_eq!(found.count(), 1, "{parts:?}:\n{log}");
    }
    assert_eq!(lines.len(), 6, "{log}");
    assert!(service.counted("axfr", "refused", "open.test.", 3), "{}", service.daemon.metrics());
}

#[test]
fn a_change_goes_out_as_a_difference() {
    let service = Service::start("");
    let zone = Dname::parse("open.test");
    let old = service.soa(&zone);
    service.peer.replace_zone(&zone, &read_zone(&zone_text("open.test", 2, "192.0.2.2")));
    let mut client = Client::new(service.daemon.address());
    wait_until("the change is served", PATIENCE, || client.serial(&zone).filter(|serial| *serial == 2));
    let records: Vec<String> = service.ixfr(&zone, &old).iter().map(Record::to_string).collect();
    let www: Vec<&str> = records.iter().map(|record| record.split_whitespace().last().expect("RDATA")).collect();
    assert_eq!(records.len(), 6, "{records:?}");
    assert_eq!((www[2], www[4]), ("192.0.2.1", "192.0.2.2"), "{records:?}");
    let mut other = old.clone();
    *other.rdata.last_mut().expect("an SOA") += 1;
    let whole = service.ixfr(&zone, &other);
    assert_eq!(whole.len(), 8004, "an SOA that is none of ours");
    // Over UDP: TC and our SOA, or the SOA alone for who has it.
    let new = service.soa(&zone);
    for (soa, truncated) in [(&old, true), (&new, false)] {
        client.send_udp(&ixfr_request(&zone, soa)).expect("send");
        let answer = decode(&client.receive_udp(7).expect("an answer")).expect("a message");
        assert_eq!((answer.answer.len(), answer.flags & 0x0200 != 0), (1, truncated));
        assert_eq!(answer.answer[0].serial(), 2);
    }
    assert_eq!(service.ixfr(&zone, &new).len(), 1);
    assert!(service.counted("ixfr", "ok", "open.test.", 1), "{}", service.daemon.metrics());
}

/// Asks again and again while a flag is up; the longest time that an answer took.
fn ask_while(address: SocketAddr, going: &AtomicBool) -> Duration {
    let name = Dname::parse("www.open.test");
    let mut client = Client::new(address);
    let mut longest = Duration::ZERO;
    while going.load(Ordering::Relaxed) {
        for tcp in [false, true] {
            let query = Query::new(&name, rtype::A);
            let started = Instant::now();
            let answer = if tcp { client.ask_tcp(&query) } else { client.ask(&query) };
            assert_eq!(answer.expect("an answer").answer.len(), 1);
            longest = longest.max(started.elapsed());
        }
    }
    longest
}

#[test]
fn fifty_at_once_and_some_that_never_read_hold_up_nobody() {
    let service = Service::start("tcp_idle_timeout = \"2s\"\ntcp_connections_per_client = 200\n");
    let zone = Dname::parse("open.test");
    let address = service.daemon.address();
    let request = Query::new(&zone, rtype::AXFR).encode(1);
    // Each asks for more than kernels buffer, and takes nothing. They have all transfers that one client may have.
    let stalled: Vec<TcpStream> = (0..8)
        .map(|_| {
            let socket = Socket::new(Domain::IPV4, Type::STREAM, None).expect("socket");
            socket.bind(&SocketAddr::from(([127, 0, 0, 3], 0)).into()).expect("bind");
            socket.connect(&address.into()).expect("connect");
            let mut stream = TcpStream::from(socket);
            let frame = [&(request.len() as u16).to_be_bytes()[..], &request].concat();
            stream.write_all(&frame.repeat(100)).expect("requests");
            stream
        })
        .collect();
    let expected = read_zone(&zone_text("open.test", 1, "192.0.2.1"));
    let going = AtomicBool::new(true);
    std::thread::scope(|scope| {
        let asking = scope.spawn(|| ask_while(address, &going));
        let transfers: Vec<_> = (0..50)
            .map(|_| {
                scope.spawn(|| {
                    let mut client = Client::new(address).with_deadline(PATIENCE);
                    // Those that do not get their turn come again, as secondaries do.
                    let records = wait_until("a transfer", 2 * PATIENCE, || client.transfer(&zone).ok());
                    assert!(difference(&expected, &records).is_none());
                })
            })
            .collect();
        for transfer in transfers {
            transfer.join().expect("a transfer");
        }
        going.store(false, Ordering::Relaxed);
        let longest = asking.join().expect("answers");
        assert!(longest < Duration::from_secs(3), "an answer took {longest:?}");
    });
    wait_until("those that take nothing are let go", PATIENCE, || {
        service.counted("axfr", "slow", "open.test.", stalled.len()).then_some(())
    });
}

#[test]
fn a_region_is_transferred_without_the_record_that_fits_no_message() {
    let folder = Folder::new();
    let (zone, region) = ("m.test", format!("{0}.{0}.test", "l".repeat(60)));
    // As long as BIND can send it under the member's short name, and too long under the region's.
    let (words, last) = ("07".repeat(1000) + " ", "07".repeat(400));
    let text = format!(
        "$ORIGIN {zone}.\n@ 60 IN SOA ns. h. 7 30 60 2592000 30\n@ 60 IN NS ns.dc.invalid.\nok 30 IN A 192.0.2.1\n\
         big 30 IN TYPE65280 \\# 65400 ( {}{last} )\n",
        words.repeat(65)
    );
    let peer = Named::start(&folder, &[(Dname::parse(zone), text)]);
    let address = peer.address();
    let plan = format!(
        "[secondaries]\nallow_transfer = [\"127.0.0.1\"]\n[zones]\n\"{zone}\" = \"{address}\"\n\
         [aggregations.\"{region}\"]\nmembers = [\"{zone}\"]\nns = [\"ns.dc.invalid\"]\n"
    );
    let daemon = Aggregator::start(&folder, &plan);
    let mut client = Client::new(daemon.address());
    let name = Dname::parse(&region);
    wait_until("the region is served", PATIENCE, || client.serial(&name));
    let port = daemon.address().port().to_string();
    let dig = |arguments: &[&str]| {
        let output = Command::new("dig").args(["@127.0.0.1", "-p", &port]).args(arguments).output();
        String::from_utf8(output.expect("dig").stdout).expect("text")
    };
    let transfer = dig(&[&region, "AXFR"]);
    assert!(transfer.contains("192.0.2.1") && transfer.contains("XFR size: 4 records"), "{transfer}");
    let status = daemon.verb(&["status", &region]).stdout;
    assert!(status.contains("record-too-long: m.test., 1 record dropped"), "{status}");
    // Nobody is sent a zone that is older than what he has (RFC 1995 section 2).
    let newer = dig(&["+tcp", &region, "IXFR=8"]);
    assert!(newer.contains("XFR size: 1 records"), "{newer}");
}
