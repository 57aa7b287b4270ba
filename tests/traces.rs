//! Traces of changes at a collector that reads them with the messages of OpenTelemetry's protocol.
//!
//! Needs these messages, which `scripts/install-opentelemetry` installs; `make test` does.

mod harness;

use harness::{
    Aggregator, Client, Dname, Folder, Knotd, Port, Process, SecondaryPlan, Settings, read_zone, target_file,
    wait_until, write_file,
};
use serde_json::Value;
use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// The library gives its collector what there is every five seconds.
const PATIENCE: Duration = Duration::from_secs(40);

/// A collector.
struct Collector {
    address: SocketAddr,
    process: Process,
}

impl Collector {
    fn start(home: &Path) -> Collector {
        let mut port = Port::reserve();
        let address = port.address();
        port.release();
        let python = target_file("opentelemetry/bin/python");
        assert!(python.exists(), "{} is missing; run make test", python.display());
        let mut command = Command::new(python);
        command.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/traces/collector.py"));
        command.arg(address.port().to_string()).current_dir(home);
        let mut process = Process::start("collector", &mut command, &home.join("spans"));
        process.wait_ready("listens", PATIENCE, || std::net::TcpStream::connect(address).ok().map(drop));
        Collector { address, process }
    }

    /// All spans that have come.
    fn spans(&self) -> Vec<Value> {
        let text = self.process.log_text();
        text.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|_| panic!("{text}"))).collect()
    }
}

/// A zone of a datacenter.
fn zone_text(serial: u32) -> String {
    format!(
        "$ORIGIN dc1.test.\n$TTL 30\n@ IN SOA ns h {serial} 3600 600 86400 30\n@ IN NS ns.elsewhere.\nat-{serial} IN A 192.0.2.1\n"
    )
}

#[test]
fn a_change_is_followed_from_its_notify_to_its_secondaries() {
    let folder = Folder::new();
    let home = folder.subfolder("collector");
    let collector = Collector::start(&home);
    let zone = Dname::parse("dc1.test");
    let primary = Knotd::start(&folder, &[(zone.clone(), zone_text(1))]);
    let region = Dname::parse("west.test");
    let from = primary.address();
    let plan = |traces: &str, notify: &str| {
        format!(
            "{traces}[transfer]\nrefresh_min = \"1h\"\nrefresh_max = \"1h\"\nretry_min = \"200ms\"\nretry_max = \"1s\"\n\
             [secondaries]\nallow_transfer = [\"127.0.0.1\"]\nnotify = [{notify}]\n\
             [zones]\n\"dc1.test\" = \"{from}\"\n[aggregations.\"west.test\"]\nmembers = [\"dc1.test\"]\n"
        )
    };
    let url = format!("http://{}", collector.address);
    let traces = format!("[traces]\ncollector = \"{url}\"\n");
    let daemon = Aggregator::start_with(&folder.subfolder("aggregator"), &Settings::new(&plan(&traces, "")));
    let secondary = Knotd::start_secondary(&folder, &SecondaryPlan::new(daemon.address(), &[&zone, &region]));
    let to = secondary.address();
    let notify = format!("\"{to}\"");
    daemon.write_plan(&plan(&traces, &notify));
    assert_eq!(daemon.verb(&["reload"]).code, 0);
    let mut copy = Client::new(to);
    wait_until("the secondary has the region", PATIENCE, || (copy.serial(&region) == Some(1)).then_some(()));

    let change = |serial: u32| {
        primary.replace_zone(&zone, &read_zone(&zone_text(serial)));
        assert_eq!(daemon.verb(&["refresh", "dc1.test"]).code, 0);
        let mut client = Client::new(to);
        wait_until("the secondary has the change", PATIENCE, || (client.serial(&region) == Some(serial)).then_some(()));
    };
    change(2);
    // All of the change's trace.
    let whole = |serial: u32| {
        let spans = collector.spans();
        let is_root = |span: &&Value| {
            span["name"] == "change dc1.test." && span["about"]["serial"] == serial && span["parent"] == ""
        };
        let root = spans.iter().find(is_root)?.clone();
        let trace: Vec<Value> = spans.into_iter().filter(|span| span["trace"] == root["trace"]).collect();
        let acknowledged = trace.iter().filter(|span| span["name"] == "acknowledged").count();
        (acknowledged == 2).then_some((root, trace))
    };
    let (root, trace) = wait_until("the trace is there", PATIENCE, || whole(2));
    assert_eq!(root["resource"]["service.name"], "aggregator");
    assert_eq!((&root["about"]["from"], &root["about"]["primary"]), (&1.into(), &from.to_string().into()));
    let mut names: Vec<(&str, &str)> =
        trace.iter().map(|span| (span["name"].as_str().unwrap(), span["about"]["zone"].as_str().unwrap())).collect();
    names.sort_unstable();
    let expected = [
        // The primary keeps no differences, and answers with the whole zone.
        ("IXFR", "dc1.test."),
        ("SOA", "dc1.test."),
        ("acknowledged", "dc1.test."),
        ("acknowledged", "west.test."),
        ("change dc1.test.", "dc1.test."),
        ("merge", "west.test."),
    ];
    assert_eq!(names, expected);
    let moment = |span: &Value, key: &str| span[key].as_u64().expect("nanoseconds");
    for span in trace.iter().filter(|span| span["span"] != root["span"]) {
        assert_eq!(span["parent"], root["span"], "{span}");
        assert!(moment(span, "began") <= moment(span, "ended"), "{span}");
        // Two clocks are read for each moment, so that they differ by less than a millisecond.
        assert!(moment(span, "began") + 1_000_000 >= moment(&root, "began"), "{span} {root}");
        match span["name"].as_str().unwrap() {
            "acknowledged" => {
                assert_eq!(span["about"]["secondary"], to.to_string());
                assert!(moment(span, "began") + 1_000_000 >= moment(&root, "ended"), "{span} {root}");
            }
            _ => assert!(moment(span, "ended") <= moment(&root, "ended") + 1_000_000, "{span} {root}"),
        }
    }

    // A collector that takes nothing is told of once, and counted; changes go on.
    write_file(&home.join("busy"), "");
    change(3);
    let failing = "the collector of traces takes none";
    wait_until("its failure is told", PATIENCE, || daemon.log_text().contains(failing).then_some(()));
    assert!(daemon.metrics().contains("aggregator_trace_requests_total{result=\"failed\"}"));
    fs::remove_file(home.join("busy")).unwrap();
    change(4);
    wait_until("it takes them again", PATIENCE, || whole(4));
    wait_until("that is told", PATIENCE, || daemon.log_text().contains("takes them again").then_some(()));
    assert_eq!(daemon.log_text().matches(failing).count(), 1);

    // A reload ends it, with what is left, and begins it again.
    daemon.write_plan(&plan("", &notify));
    assert_eq!(daemon.verb(&["reload"]).code, 0);
    change(5);
    daemon.write_plan(&plan(&traces, &notify));
    assert_eq!(daemon.verb(&["reload"]).code, 0);
    change(6);
    wait_until("traces come again", PATIENCE, || whole(6));
    let of_five = collector.spans().into_iter().filter(|span| span["about"]["serial"] == 5).count();
    assert_eq!(of_five, 0);
    // What is left at the end is sent, too.
    change(7);
    assert_eq!(daemon.verb(&["stop"]).code, 0);
    let left =
        collector.spans().into_iter().any(|span| span["name"] == "change dc1.test." && span["about"]["serial"] == 7);
    assert!(left, "the last change was not sent");
}
