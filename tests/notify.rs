//! NOTIFY as primaries send it: what it brings, from whom, and what comes back.

mod harness;

use harness::{Aggregator, Dname, Folder, Knotd, Settings, read_zone, rtype, wait_until};
use sim::instances::Datacenter;
use sim::primary::Primary;
use std::net::{SocketAddr, UdpSocket};
use std::time::{Duration, Instant, SystemTime};
use wire::name::Name;

const ZONE: &str = "us-west-1.cns.example.com";
/// Timers that bring no poll while a test runs: what happens happens by NOTIFY.
const NO_POLLS: &str = "refresh_min = \"1d\"\nrefresh_max = \"1d\"\n";

/// A NOTIFY request: the octets of CNS, without AA, answer or EDNS.
fn message(zone: &str, opcode_octet: u8) -> Vec<u8> {
    let mut message = vec![0x12, 0x34, opcode_octet, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    message.extend_from_slice(Name::parse(zone).unwrap().as_wire());
    message.extend_from_slice(&[0, 6, 0, 1]);
    message
}

/// Sends a message from an address and returns the reply.
fn send_from(source: &str, to: SocketAddr, message: &[u8]) -> Vec<u8> {
    let socket = UdpSocket::bind((source, 0)).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    socket.send_to(message, to).unwrap();
    let mut reply = vec![0; 512];
    let length = socket.recv(&mut reply).expect("a reply to NOTIFY");
    reply.truncate(length);
    reply
}

/// The serial that the daemon serves.
fn served(daemon: &Aggregator, zone: &str) -> Option<String> {
    let records = daemon.dump(&Dname::parse(&format!("{zone}.")))?;
    let soa = records.iter().find(|record| record.rtype == rtype::SOA)?.to_string();
    soa.split_whitespace().rev().nth(4).map(str::to_owned)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_is_there_as_soon_as_cns_announces_it() {
    let primary = Primary::start("127.0.0.1:0".parse().unwrap()).await.unwrap();
    let origin = Name::parse(ZONE).unwrap();
    let mut site = Datacenter::new(origin.clone(), 0, 7, SystemTime::now()).unwrap();
    primary.publish(site.zone());
    let folder = Folder::new();
    let address = primary.address();
    let plan = format!(
        "[zones]\n\"{ZONE}\" = \"{address}\"\n[aggregations]\n\"us-west.cns.example.com\" = [\"{ZONE}\"]\n[transfer]\n{NO_POLLS}"
    );
    let daemon = Aggregator::start(&folder, &plan);
    let has = |serial: String| move |found: Option<String>| (found == Some(serial.clone())).then_some(());
    let first = has(site.serial().to_string());
    wait_until("the zone is there", Duration::from_secs(20), || first(served(&daemon, ZONE)));
    let began = Instant::now();
    for _ in 0..3 {
        site.scale_up("web", 1, SystemTime::now());
        primary.publish(site.zone());
        primary.notify(&origin, daemon.address()).await.unwrap();
        let next = has(site.serial().to_string());
        wait_until("the announced version is served", Duration::from_secs(10), || next(served(&daemon, ZONE)));
    }
    // From each announcement until the version was served, and none for the first one, which nobody announced.
    let series = |name: &str| {
        let (page, name) = (daemon.metrics(), format!("aggregator_change_lag_seconds_{name} "));
        let value = page.lines().find_map(|line| line.strip_prefix(&name)).expect("the family is there");
        value.parse::<f64>().expect("a number")
    };
    wait_until("all changes are counted", Duration::from_secs(10), || (series("count") == 3.0).then_some(()));
    let lag = series("sum");
    assert!(lag > 0.0 && lag < began.elapsed().as_secs_f64(), "{lag}");
    let accepted = format!("aggregator_notify_received_total{{result=\"accepted\",zone=\"{ZONE}.\"}} 3");
    assert!(daemon.metrics().contains(&accepted), "{}", daemon.metrics());
}

#[test]
fn replies_echo_the_question_and_say_no_to_others() {
    let folder = Folder::new();
    let zone = Dname::parse(&format!("{ZONE}."));
    let text = |serial| {
        format!("$ORIGIN {ZONE}.\n@ 30 IN SOA ns. h. {serial} 30 60 2592000 30\n@ 30 IN NS ns.\na 30 IN A 192.0.2.1\n")
    };
    let primary = Knotd::start(&folder, &[(zone.clone(), text(1))]);
    let plan = format!(
        "[zones.\"{ZONE}\"]\nprimaries = [\"{}\"]\nnotify_from = [\"127.0.0.8\"]\n[transfer]\n{NO_POLLS}",
        primary.address()
    );
    let mut settings = Settings::new(&plan);
    settings.listen = vec!["0.0.0.0:{port}".into()];
    let daemon = Aggregator::start_with(&folder.subfolder("aggregator"), &settings);
    let is = |serial: &'static str| move |found: Option<String>| (found.as_deref() == Some(serial)).then_some(());
    wait_until("the zone is there", Duration::from_secs(20), || is("1")(served(&daemon, ZONE)));
    primary.replace_zone(&zone, &read_zone(&text(2)));
    let to = SocketAddr::from(([127, 0, 0, 1], daemon.address().port()));
    let notify = message(ZONE, 0x20);
    for (source, message, flags) in [
        ("127.0.0.9", notify.clone(), [0xa0, 5]),
        ("127.0.0.9", message("other.example", 0x20), [0xa0, 9]),
        ("127.0.0.9", message(&format!("a.{ZONE}"), 0x20), [0xa0, 9]),
        // A primary that is told no about one zone is silent about all of them (CNS).
        ("127.0.0.1", message("other.example", 0x20), [0xa0, 0]),
        ("127.0.0.8", message(&format!("a.{ZONE}"), 0x20), [0xa0, 0]),
        // UPDATE and other opcodes are not understood, whoever sends them.
        ("127.0.0.1", message(ZONE, 0x28), [0xa8, 4]),
    ] {
        let reply = send_from(source, to, &message);
        assert_eq!(reply[..4], [&[0x12, 0x34], &flags[..]].concat(), "{source}");
    }
    assert_eq!(served(&daemon, ZONE).as_deref(), Some("1"));
    let stray = "aggregator_notify_received_total{result=\"stray\",zone=\"\"} 2";
    assert!(daemon.metrics().contains(stray), "{}", daemon.metrics());
    let log = daemon.log_text();
    assert_eq!(log.matches("NOTIFY for a zone that is not configured").count(), 2, "one for each address: {log}");
    // An address of notify_from may speak for the primary.
    let reply = send_from("127.0.0.8", to, &notify);
    assert_eq!(reply[..4], [0x12, 0x34, 0xa4, 0]);
    assert_eq!(reply[4..], notify[4..]);
    wait_until("the announced version is served", Duration::from_secs(10), || is("2")(served(&daemon, ZONE)));
    // A flood costs the primary a poll now and then.
    let polls = || {
        let metrics = daemon.metrics();
        let line = metrics.lines().find(|line| line.contains("transfer_attempts_total{") && line.contains("soa"));
        line.and_then(|line| line.rsplit(' ').next()?.parse::<u64>().ok()).unwrap_or(0)
    };
    let before = polls();
    for _ in 0..200 {
        send_from("127.0.0.8", to, &notify);
    }
    wait_until("a poll follows", Duration::from_secs(5), || (polls() > before).then_some(()));
    assert!(polls() - before < 50, "{} polls for 200 announcements", polls() - before);
}
