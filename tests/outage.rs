//! Primaries that fail, as the whole daemon takes it: fifty bad ones slow no good one, an unreachable one is found when
//! it comes up, and a zone whose primary is gone lives until it expires, and again when the primary is back.

#[path = "bad_primary/primary.rs"]
mod bad;
mod harness;

use bad::{Poll, Primary, Script, Transfer};
use harness::*;
use std::collections::{BTreeMap, BTreeSet};
use std::net::{SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

/// A generous limit for what takes a second or two.
const DEADLINE: Duration = Duration::from_secs(20);
/// Largest memory of the daemon with fifty bad primaries; it takes about an eighth.
const MOST_RESIDENT_KIB: u64 = 200 << 10;
const GOOD: usize = 3;
const BAD: usize = 50;

/// A script that differs from a good one.
fn script(change: impl FnOnce(&mut Script)) -> Script {
    let mut script = Script::new(1);
    change(&mut script);
    script
}

/// A way to be bad: what the primary does, and the reason that the daemon gives.
type Misdeed = (Script, &'static str);

/// All ways to be bad.
fn misdeeds() -> Vec<Misdeed> {
    let transfers = [
        (Transfer::Rcode(5), "refused"),
        (Transfer::Rcode(9), "notauth"),
        (Transfer::HangAtOnce, "timeout_message"),
        (Transfer::HangMidway, "timeout_message"),
        (Transfer::Dribble, "timeout_message"),
        (Transfer::CutMidMessage, "closed"),
        (Transfer::CutMidZone, "closed"),
        (Transfer::OtherClosingSoa, "closing_soa"),
        (Transfer::OtherZone, "out_of_zone"),
        (Transfer::OtherId, "id"),
        (Transfer::OtherQuestion, "question"),
        (Transfer::OtherClass, "class"),
        (Transfer::Endless, "too_large"),
        (Transfer::Garbage, "malformed"),
    ];
    let polls = [
        (Poll::Rcode(2), "servfail"),
        (Poll::Rcode(5), "refused"),
        (Poll::Silent, "timeout_message"),
        (Poll::NotAuthoritative, "not_authoritative"),
        (Poll::NoSoa, "no_soa"),
        (Poll::OtherQuestion, "question"),
    ];
    // Polls that need TCP, before transfers that fail.
    let mixed = [(Poll::TruncatedUdp, Transfer::Garbage, "malformed"), (Poll::SilentUdp, Transfer::OtherId, "id")];
    let mixed = mixed.map(|(poll, transfer, reason)| {
        let change = |script: &mut Script| (script.poll, script.transfer) = (poll, transfer);
        (script(change), reason)
    });
    let transfers = transfers.map(|(transfer, reason)| (script(|script| script.transfer = transfer), reason));
    let polls = polls.map(|(poll, reason)| (script(|script| script.poll = poll), reason));
    transfers.into_iter().chain(polls).chain(mixed).collect()
}

/// Timers that let a test see several rounds; `[transfer]` of all plans here.
const TRANSFER: &str = "[transfer]\nrefresh_min = \"1s\"\nrefresh_max = \"1s\"\nretry_min = \"500ms\"\nretry_max = \"1s\"\n\
                        message_timeout = \"2s\"\nconnect_timeout = \"2s\"\ntotal_timeout = \"5s\"\nmax_bytes = \"1MiB\"\n";

/// An address where nobody listens, out of the range that the system takes ports for clients from.
fn free_address() -> SocketAddr {
    Port::reserve().release()
}

/// A plan with these zones and one region.
fn plan(zones: &[(String, SocketAddr)], settings: &str, region: &str, members: &[&str]) -> String {
    let members: Vec<String> = members.iter().map(|member| format!("\"{member}\"")).collect();
    let mut plan = format!("{TRANSFER}{settings}[zones]\n");
    zones.iter().for_each(|(zone, address)| plan.push_str(&format!("\"{zone}\" = \"{address}\"\n")));
    plan + &format!("[aggregations]\n\"{region}\" = [{}]\n", members.join(", "))
}

/// The addresses at a name, `None` while there is no good answer.
fn addresses(client: &mut Client, name: &str) -> Option<BTreeSet<[u8; 4]>> {
    let answer = client.ask(&Query::new(&Dname::parse(name), rtype::A)).expect("an answer");
    let address = |record: &Record| record.rdata[..].try_into().expect("four octets");
    (answer.rcode() == 0 && answer.is_authoritative()).then(|| answer.answer.iter().map(address).collect())
}

/// Returns the output of `status --json`.
fn status(daemon: &Aggregator) -> serde_json::Value {
    serde_json::from_str(&daemon.verb(&["status", "--json"]).stdout).expect("JSON")
}

/// The reasons of failures by zone, with their numbers.
fn failures(daemon: &Aggregator) -> BTreeMap<String, BTreeMap<String, u64>> {
    let mut failures: BTreeMap<String, BTreeMap<String, u64>> = BTreeMap::new();
    for line in daemon.metrics().lines().filter(|line| line.starts_with("aggregator_transfer_failures_total{")) {
        let label = |name: &str| {
            let rest = line.split_once(&format!("{name}=\"")).expect("label").1;
            rest.split_once('"').expect("end of label").0.to_string()
        };
        let count: u64 = line.rsplit_once(' ').and_then(|(_, count)| count.parse().ok()).expect("count");
        *failures.entry(label("zone")).or_default().entry(label("reason")).or_default() += count;
    }
    failures
}

/// Changes every good zone some times and waits for each change in the zone and in the region; how long it took.
fn follow(client: &mut Client, primaries: &[Primary], steps: std::ops::Range<u8>) -> Duration {
    let began = Instant::now();
    for step in steps {
        for (index, primary) in primaries.iter().enumerate() {
            let mut script = primary.script();
            script.serial += 1;
            script.flavour = index as u8 * 50 + step;
        }
        let expected: Vec<[u8; 4]> = (0..GOOD).map(|index| [192, 0, index as u8 * 50 + step, 1]).collect();
        for (index, address) in expected.iter().enumerate() {
            wait_until(&format!("good zone {index} follows step {step}"), DEADLINE, || {
                (addresses(client, &format!("n001.good-{index}.test"))? == [*address].into()).then_some(())
            });
        }
        wait_until(&format!("the region follows step {step}"), DEADLINE, || {
            (addresses(client, "n001.region.test")? == expected.iter().copied().collect()).then_some(())
        });
    }
    began.elapsed()
}

/// Resident memory of a process.
fn resident_kib(process: u32) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{process}/status")).expect("status of the daemon");
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("VmRSS");
    line.trim().trim_end_matches(" kB").parse().expect("number")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fifty_bad_primaries_slow_no_good_one() {
    let mut good = Vec::new();
    for _ in 0..GOOD {
        good.push(Primary::start("127.0.0.1", Script::new(1)).await);
    }
    let mut zones: Vec<_> =
        good.iter().enumerate().map(|(index, primary)| (format!("good-{index}.test"), primary.address)).collect();
    let members = ["good-0.test", "good-1.test", "good-2.test"];
    let folder = Folder::new();
    let daemon = Aggregator::start(&folder, &plan(&zones, "", "region.test", &members));
    let mut client = Client::new(daemon.address());
    let alone = follow(&mut client, &good, 1..6);

    // One of each kind, again and again; every fifth is not there at all.
    let (misdeeds, mut bad, mut reasons) = (misdeeds(), Vec::new(), BTreeMap::new());
    for number in 0..BAD {
        let zone = format!("bad-{number:02}.test");
        let (script, reason) = &misdeeds[number % misdeeds.len()];
        let address = free_address();
        zones.push((zone.clone(), address));
        if number % 5 == 4 {
            reasons.insert(zone + ".", "connect");
        } else {
            bad.push(Primary::start_at(address, script.clone()).await);
            reasons.insert(zone + ".", *reason);
        }
    }
    daemon.write_plan(&plan(&zones, "", "region.test", &members));
    assert_eq!(daemon.verb(&["reload"]).code, 0);
    let began = Instant::now();
    wait_until("every bad primary has a reason", 2 * DEADLINE, || {
        let failures = failures(&daemon);
        let is_told =
            |(zone, reason): &(&String, &&str)| failures.get(*zone).is_some_and(|told| told.contains_key(**reason));
        let missing: Vec<_> = reasons.iter().filter(|reason| !is_told(reason)).collect();
        assert!(missing.is_empty() || began.elapsed() < 2 * DEADLINE, "missing {missing:?} in {failures:?}");
        missing.is_empty().then_some(())
    });
    let beside = follow(&mut client, &good, 6..11);
    assert!(beside < alone + Duration::from_secs(10), "alone {alone:?}, beside fifty bad primaries {beside:?}");

    let failures = wait_until("every bad primary was tried several times", 2 * DEADLINE, || {
        let failures = failures(&daemon);
        failures.values().all(|reasons| reasons.values().sum::<u64>() >= 3).then_some(failures)
    });
    for (zone, expected) in &reasons {
        assert!(failures[zone].keys().eq([expected]), "{zone} {expected}: {:?}", failures[zone]);
    }
    assert_eq!(failures.len(), BAD, "no good zone has failed: {failures:?}");
    let resident = resident_kib(daemon.id());
    assert!(resident < MOST_RESIDENT_KIB, "{resident} KiB in memory");
    check_status(&daemon, &zones);
}

/// Every zone has its line, and bad ones say what is wrong.
fn check_status(daemon: &Aggregator, zones: &[(String, SocketAddr)]) {
    let overview = daemon.verb(&["status"]).stdout;
    let report = status(daemon);
    let reports = report["zones"].as_array().expect("zones");
    assert_eq!(reports.len(), zones.len());
    for (zone, address) in zones {
        let line = overview.lines().find(|line| line.starts_with(&format!("{zone}. "))).expect("a line for each zone");
        let report =
            reports.iter().find(|report| report["zone"] == format!("{zone}.")).expect("a report for each zone");
        let primary = &report["source"]["primaries"][0];
        assert_eq!(primary["address"], address.to_string());
        let is_bad = zone.starts_with("bad");
        assert_eq!(line.contains(" failed: "), is_bad, "{line}");
        assert_eq!(report["state"], if is_bad { "not-ready" } else { "ok" });
        assert_eq!(primary["failures"].as_u64() > Some(0), is_bad, "{primary}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unreachable_primary_is_found_when_it_comes_up() {
    let address = free_address();
    let folder = Folder::new();
    let zones = [("late.test".to_string(), address)];
    let daemon = Aggregator::start(&folder, &plan(&zones, "", "region.test", &["late.test"]));
    let mut client = Client::new(daemon.address());
    // After so many failures a back-off without bound would pause for longer than this test waits.
    wait_until("the primary was tried seven times", 2 * DEADLINE, || {
        (failures(&daemon).get("late.test.")?.values().sum::<u64>() >= 7).then_some(())
    });
    assert_eq!(addresses(&mut client, "n001.late.test"), None);
    let _late = Primary::start_at(address, Script::new(1)).await;
    wait_until("the zone and its region are loaded", DEADLINE, || {
        let names = ["n001.late.test", "n001.region.test"];
        names.iter().all(|name| addresses(&mut client, name) == Some([[192, 0, 0, 1]].into())).then_some(())
    });
}

/// A negative or failed answer's extended error (RFC 8914).
fn extended_error(message: &Message) -> Option<u16> {
    match message.edns.as_ref()?.options[..] {
        [0, 15, 0, 2, high, low] => Some(u16::from_be_bytes([high, low])),
        _ => None,
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_zone_expires_and_comes_back_while_its_region_goes_on() {
    let one = Primary::start_at(free_address(), script(|script| script.flavour = 1)).await;
    let two = Primary::start("127.0.0.1", script(|script| script.flavour = 2)).await;
    let folder = Folder::new();
    let zones = [("one.test".to_string(), one.address), ("two.test".to_string(), two.address)];
    // The scripted SOA asks for 30 days, which the bound cuts.
    let expire = "expire_min = \"3s\"\nexpire_max = \"3s\"\n";
    let daemon = Aggregator::start(&folder, &plan(&zones, expire, "region.test", &["one.test", "two.test"]));
    let mut client = Client::new(daemon.address());
    let (of_one, of_two) = ([192, 0, 1, 1], [192, 0, 2, 1]);
    wait_until("the region has both members", DEADLINE, || {
        (addresses(&mut client, "n001.region.test")? == [of_one, of_two].into()).then_some(())
    });

    let address = one.address;
    let script = one.stop().await;
    let died = Instant::now();
    let query = Query { edns: Some(1232), ..Query::new(&Dname::parse("n001.one.test"), rtype::A) };
    wait_until("the zone has expired", DEADLINE, || {
        let answer = client.ask(&query).expect("an answer");
        let region = addresses(&mut client, "n001.region.test").expect("the region goes on");
        assert!(region.contains(&of_two), "{region:?}");
        if answer.rcode() == 0 {
            assert_eq!(answer.answer[0].rdata, of_one, "the last good data stays until then");
            return None;
        }
        assert_eq!((answer.rcode(), extended_error(&answer)), (2, Some(24)), "{answer:?}");
        Some(())
    });
    // The last refresh was about a second before at most.
    assert!(died.elapsed() > Duration::from_secs(1), "expired after {:?}", died.elapsed());
    assert_eq!(addresses(&mut client, "n001.region.test"), Some([of_two].into()));
    assert!(client.ask(&Query::new(&Dname::parse("n001.two.test"), rtype::A)).expect("answer").rcode() == 0);
    let one_is = |state: &str| format!("aggregator_zone_state{{state=\"{state}\",zone=\"one.test.\"}} 1\n");
    wait_until("the metrics say so", DEADLINE, || daemon.metrics().contains(&one_is("expired")).then_some(()));
    assert!(daemon.metrics().contains("aggregator_region_members{region=\"region.test.\",state=\"expired\"} 1\n"));

    // With the very same serial it comes back.
    let _one = Primary::start_at(address, script).await;
    wait_until("the zone is back", DEADLINE, || {
        let back = addresses(&mut client, "n001.one.test")? == [of_one].into();
        (back && addresses(&mut client, "n001.region.test")? == [of_one, of_two].into()).then_some(())
    });
    wait_until("the metrics say so", DEADLINE, || daemon.metrics().contains(&one_is("ok")).then_some(()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_region_without_any_valid_member_fails_and_is_not_empty() {
    let only = Primary::start_at(free_address(), Script::new(1)).await;
    let folder = Folder::new();
    let zones = [("one.test".to_string(), only.address)];
    let expire = "expire_min = \"3s\"\nexpire_max = \"3s\"\n";
    let daemon = Aggregator::start(&folder, &plan(&zones, expire, "region.test", &["one.test"]));
    let mut client = Client::new(daemon.address());
    wait_until("the region is there", DEADLINE, || addresses(&mut client, "n001.region.test"));
    assert_eq!(daemon.http("/readyz").0, 200);
    let (address, script) = (only.address, only.stop().await);
    for (name, rtype) in [("n001.region.test", rtype::A), ("none.region.test", rtype::A), ("region.test", rtype::SOA)] {
        let query = Query { edns: Some(1232), ..Query::new(&Dname::parse(name), rtype) };
        wait_until("the region has expired", DEADLINE, || {
            let answer = client.ask(&query).expect("an answer");
            (answer.rcode() == 2).then(|| assert_eq!(extended_error(&answer), Some(24), "{answer:?}"))
        });
    }
    assert_eq!(daemon.http("/readyz").0, 503);
    let _only = Primary::start_at(address, script).await;
    wait_until("the region is back", DEADLINE, || addresses(&mut client, "n001.region.test"));
    assert_eq!(daemon.http("/readyz").0, 200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn both_sides_speak_ipv6() {
    let primary = Primary::start("::1", Script::new(1)).await;
    let folder = Folder::new();
    let zones = [("six.test".to_string(), primary.address)];
    let mut settings = Settings::new(&plan(&zones, "", "region.test", &["six.test"]));
    settings.listen.push("[::1]:{port}".to_string());
    let daemon = Aggregator::start_with(&folder.subfolder("aggregator"), &settings);
    let server: SocketAddr = format!("[::1]:{}", daemon.address().port()).parse().expect("address");
    let socket = UdpSocket::bind("[::1]:0").expect("socket");
    socket.set_read_timeout(Some(DEADLINE)).expect("timeout");
    let query = Query::new(&Dname::parse("n001.region.test"), rtype::A);
    wait_until("the region is there", DEADLINE, || {
        socket.send_to(&query.encode(7), server).expect("send");
        let mut buffer = [0; 1500];
        let (length, from) = socket.recv_from(&mut buffer).expect("an answer");
        assert_eq!(from, server);
        let answer = decode(&buffer[..length]).expect("a message");
        (answer.rcode() == 0).then(|| assert_eq!(answer.answer[0].rdata, [192, 0, 0, 1]))
    });
    let mut stream = std::net::TcpStream::connect(server).expect("connect");
    write_frame(&mut stream, &query.encode(8)).expect("send");
    assert_eq!(decode(&read_frame(&mut stream).expect("an answer")).expect("a message").answer.len(), 1);
}
