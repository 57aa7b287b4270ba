//! The scrape as Prometheus' own tool judges it: with every series that there can be, and of a daemon that has seen much.

mod harness;

use aggregator::metrics::{Counted, Family, Metrics, Transport};
use aggregator::serve::http;
use aggregator::serve::listener::Listener;
use harness::*;
use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

/// Gives every family at least one series, since families without one do not appear.
fn fill(metrics: &Metrics) {
    let primary = ["a.example.", "192.0.2.1:53", "axfr"];
    let counted = Counted { transport: Transport::Tls, rtype: Some(28), rcode: 3, octets: Some(70), truncated: true };
    metrics.query_counters().count(counted);
    metrics.tcp_rejected.with_label_values(&["total"]).inc();
    metrics.transfer_attempts.with_label_values(&primary).inc();
    metrics.transfer_failures.with_label_values(&["a.example.", "192.0.2.1:53", "axfr", "timeout"]).inc();
    metrics.transfer_duration.with_label_values(&["axfr"]).observe(0.3);
    metrics.transfer_success.set(&primary, 1_700_000_000);
    metrics.transfer_bytes.with_label_values(&["a.example."]).inc();
    metrics.zone_primary_serial.set(&["a.example.", "192.0.2.1:53"], 7);
    for family in [
        &metrics.zone_serial,
        &metrics.zone_records,
        &metrics.zone_refreshed,
        &metrics.zone_expires,
        &metrics.region_serial,
        &metrics.region_serial_drift,
        &metrics.region_ns_fallback,
    ] {
        family.with_label_values(&["a.example."]).set(1);
    }
    for family in [&metrics.zone_state, &metrics.region_members, &metrics.region_conflicts] {
        family.with_label_values(&["a \"quoted\\ name\"\n.", "ok"]).set(1);
    }
    metrics.publish_duration.observe(0.001);
    metrics.reloads.with_label_values(&["ok"]).inc();
}

#[tokio::test(flavor = "multi_thread")]
async fn promtool_finds_no_fault() {
    let metrics = Arc::new(Metrics::new());
    fill(&metrics);
    let mut listener = Listener::bind("127.0.0.1:0".parse().unwrap()).unwrap();
    http::start(&mut listener, metrics, || Ok(()), None, None).unwrap();
    let mut stream = TcpStream::connect(listener.address()).unwrap();
    stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    let mut response = String::new();
    stream.read_to_string(&mut response).unwrap();
    let (head, body) = response.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 200 OK\r\n") && body.lines().count() > 100, "{response}");

    assert_faultless(body);
}

/// A scrape has only families with series; here is each there can be, as promtool judges names, kinds and help.
#[test]
fn promtool_finds_no_fault_in_any_family() {
    let families = Metrics::new().families();
    let page: String = families.iter().map(example).collect();
    assert!(families.len() > 90, "{page}");
    assert_faultless(&page);
}

/// A family with a series, as a scrape has it.
fn example(family: &Family) -> String {
    let Family { name, kind, help, labels } = family;
    let labels: Vec<String> = labels.iter().map(|label| format!("{label}=\"x\"")).collect();
    let with =
        |more: &[&str]| labels.iter().map(String::as_str).chain(more.iter().copied()).collect::<Vec<_>>().join(",");
    let all = with(&[]);
    let series = match *kind {
        "histogram" => {
            let bucket = with(&["le=\"+Inf\""]);
            format!("{name}_bucket{{{bucket}}} 1\n{name}_sum{{{all}}} 1\n{name}_count{{{all}}} 1\n")
        }
        _ => format!("{name}{{{all}}} 1\n"),
    };
    format!("# HELP {name} {help}\n# TYPE {name} {kind}\n{series}")
}

/// Has promtool read a page.
fn assert_faultless(page: &str) {
    let mut promtool = Command::new("promtool");
    promtool.args(["check", "metrics"]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let promtool = promtool.spawn();
    let mut promtool = promtool.unwrap_or_else(|error| panic!("promtool is missing ({error}); run make test"));
    promtool.stdin.take().unwrap().write_all(page.as_bytes()).unwrap();
    let verdict = promtool.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&[verdict.stdout, verdict.stderr].concat()).into_owned();
    assert!(verdict.status.success() && said.is_empty(), "{said}{page}");
}

/// The families that have series on a page.
fn families(page: &str) -> BTreeSet<&str> {
    let names = page.lines().filter(|line| !line.starts_with('#')).filter_map(|line| line.split(['{', ' ']).next());
    let bare = |name| ["_bucket", "_sum", "_count"].iter().find_map(|end| str::strip_suffix(name, end)).unwrap_or(name);
    names.map(bare).collect()
}

/// Runs a program of the test environment.
fn run(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output();
    let output = output.unwrap_or_else(|error| panic!("{program} is missing ({error}); run make test"));
    assert!(output.status.success(), "{program} {arguments:?}: {output:?}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// DNS over TLS with a fresh certificate, as lines of `[server]`.
fn tls_settings(folder: &Path, address: &str) -> String {
    let [certificate, key] = ["cert.pem", "key.pem"].map(|name| folder.join(name).display().to_string());
    let curve = ["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", "/CN=t"];
    run("openssl", &[&curve[..], &["-keyout", &key, "-out", &certificate]].concat());
    format!("tls = {{ listen = \"{address}\", certificate = \"{certificate}\", key = \"{key}\" }}\n")
}

#[test]
fn promtool_finds_no_fault_in_a_daemon_that_has_seen_much() {
    let folder = Folder::new();
    // Members that conflict, repeat records under several TTLs, and agree on nothing.
    let apex = |serial: u32| format!("$TTL 30\n@ IN SOA ns.x.invalid. h.x.invalid. {serial} 30 60 2592000 30\n");
    let one = apex(1) + "@ IN NS ns.one.invalid.\nclash IN CNAME www\nwww IN A 192.0.2.1\n";
    let two = apex(2) + "@ IN NS ns.two.invalid.\nclash IN A 192.0.2.2\nwww 60 IN A 192.0.2.3\n";
    let text = |zone: &str, text: String| (Dname::parse(zone), format!("$ORIGIN {zone}.\n{text}"));
    let peer = Knotd::start(&folder, &[text("one.test", one), text("two.test", two)]);
    let address = peer.address();
    let mut nobody = Port::reserve();
    let home = folder.subfolder("aggregator");
    let mut tls = Port::reserve();
    let nobody = nobody.release();
    let server = "tcp_connections_per_client = 2\n".to_string() + &tls_settings(&home, &tls.address().to_string());
    let inventory = folder.path().join("dc.toml");
    let instance = "alias = \"web1\"\nowner = \"acme\"\naddresses = [\"198.51.100.11\"]\nservices = \"web:8080\"\n";
    write_file(&inventory, &format!("format = 1\n[[vms]]\n{instance}"));
    let plan = format!(
        "[zones]\n\"one.test\" = \"{address}\"\n\"two.test\" = \"{address}\"\n\"absent.test\" = \"{address}\"\n\
         \"alone.test\" = \"{nobody}\"\n[aggregations]\n\"region.test\" = [\"one.test\", \"two.test\"]\n\
         \"incomplete.test\" = [\"one.test\", \"absent.test\"]\n\
         [zones.\"dc.test\"]\ninventory = \"dc\"\n[inventories.dc]\nfile = \"{}\"\n\
         [probe]\nevery = \"1s\"\nresolver = \"{address}\"\ntimeout = \"1s\"\n\
         [secondaries]\nallow_transfer = [\"127.0.0.0/8\"]\nnotify = [\"{address}\"]\n",
        inventory.display()
    );
    let settings = Settings { server, ..Settings::new(&plan) };
    let tls = tls.release();
    let daemon = Aggregator::start_with(&home, &settings);
    let mut client = Client::new(daemon.address());
    wait_until("the region is there", Duration::from_secs(20), || client.serial(&Dname::parse("region.test")));
    daemon.write_settings(&Settings { plan: "[zones]\n".to_string(), ..settings.clone() });
    assert_eq!(daemon.verb(&["reload"]).code, 1);
    daemon.write_settings(&settings);
    assert_eq!(daemon.verb(&["reload"]).code, 0);
    for (name, rtype) in [("none.region.test", rtype::A), ("alone.test", rtype::SOA), ("elsewhere", rtype::A)] {
        client.ask(&Query::new(&Dname::parse(name), rtype)).expect("an answer");
    }
    client.ask_tcp(&Query::new(&Dname::parse("www.region.test"), rtype::A)).expect("an answer");
    client.transfer(&Dname::parse("region.test")).expect("a transfer");
    // The client keeps its connection; that of the transfer would be displaced, too, if the server had not seen its end.
    wait_until("the transfer's connection has ended", Duration::from_secs(20), || {
        daemon.metrics().contains("aggregator_tcp_connections 1\n").then_some(())
    });
    let _more = [(); 3].map(|()| TcpStream::connect(daemon.address()).expect("connect"));
    let tls_port = tls.port().to_string();
    let answer = run("kdig", &["@127.0.0.1", "-p", &tls_port, "+tls", "+short", "www.region.test", "A"]);
    assert_eq!(answer.lines().count(), 2, "{answer}");

    let expected = [
        "aggregator_tcp_rejected_total{limit=\"client\"} 3\n",
        "aggregator_reloads_total{result=\"failed\"} 1\n",
        "aggregator_reloads_total{result=\"ok\"} 1\n",
        "aggregator_queries_total{transport=\"tls\"} 1\n",
        "aggregator_region_members{region=\"incomplete.test.\",state=\"missing\"} 1\n",
        "aggregator_region_nameserver_fallback{region=\"region.test.\"} 1\n",
        "aggregator_inventory_instances{state=\"listed\",zone=\"dc.test.\"} 1\n",
        "aggregator_nameserver_problems{problem=\"unknown\",server=\"parent\",zone=\"region.test.\"} 1\n",
        "aggregator_zone_state{state=\"not-ready\",zone=\"alone.test.\"} 1\n",
    ];
    let page = wait_until("everything is counted", Duration::from_secs(20), || {
        let page = daemon.metrics();
        let zones = ["absent.test.", "alone.test."];
        let is_failing = |zone: &&str| {
            let wanted = format!("zone=\"{zone}\"}} ");
            page.lines().any(|line| line.starts_with("aggregator_transfer_failures_total{") && line.contains(&wanted))
        };
        (expected.iter().all(|line| page.contains(line)) && zones.iter().all(is_failing)).then_some(page)
    });
    let mut conflicts = page.lines().filter(|line| line.starts_with("aggregator_region_conflicts{"));
    assert!(conflicts.any(|line| line.contains("\"region.test.\"") && !line.ends_with(" 0")), "{page}");
    // The first batch of each thread is timed.
    for transport in ["udp", "tcp", "tls"] {
        let series = format!("aggregator_answer_seconds_count{{transport=\"{transport}\"}} ");
        let timed = page.lines().find_map(|line| line.strip_prefix(&series));
        assert!(timed.is_some_and(|count| count.parse::<u64>().is_ok_and(|count| count > 0)), "{transport}: {timed:?}");
    }
    let slow = |line: &str| {
        let rest = line.strip_prefix("aggregator_answer_seconds_bucket{");
        rest.is_some_and(|rest| rest.contains("le=\"0.1\"") && rest.ends_with(" 0"))
    };
    assert!(!page.lines().any(slow), "an answer takes less than a tenth of a second");
    assert_faultless(&page);
    // Every family that appears without rare events has been in this scrape.
    let all = Metrics::new();
    fill(&all);
    let all = all.render();
    let missing: BTreeSet<&str> = families(&all).difference(&families(&page)).copied().collect();
    assert!(missing.is_empty(), "{missing:?}");
}
