//! The scrape as Prometheus' own tool judges it.

use aggregator::metrics::{Metrics, Transport};
use aggregator::serve::http::HttpListener;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::{Command, Stdio};
use std::sync::Arc;

/// Gives every family at least one series, since families without one do not appear.
fn fill(metrics: &Metrics) {
    let primary = ["a.example.", "192.0.2.1:53", "axfr"];
    metrics.query_counters().count(Transport::Tls, 3, true);
    metrics.tcp_rejected.with_label_values(&["total"]).inc();
    metrics.transfer_attempts.with_label_values(&primary).inc();
    metrics.transfer_failures.with_label_values(&["a.example.", "192.0.2.1:53", "axfr", "timeout"]).inc();
    metrics.transfer_duration.with_label_values(&["a.example.", "axfr"]).observe(0.3);
    metrics.transfer_success.with_label_values(&primary).set(1_700_000_000);
    for family in [&metrics.transfer_bytes, &metrics.audit_drift] {
        family.with_label_values(&["a.example."]).inc();
    }
    metrics.transfer_anomalies.with_label_values(&["a.example.", "cname"]).inc();
    metrics.zone_primary_serial.with_label_values(&["a.example.", "192.0.2.1:53"]).set(7);
    for family in [
        &metrics.transfer_held,
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
    let mut listener = HttpListener::bind("127.0.0.1:0".parse().unwrap()).unwrap();
    listener.start(metrics, || Ok(())).unwrap();
    let mut stream = TcpStream::connect(listener.address()).unwrap();
    stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    let mut response = String::new();
    stream.read_to_string(&mut response).unwrap();
    let (head, body) = response.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 200 OK\r\n") && body.lines().count() > 100, "{response}");

    let mut promtool = Command::new("promtool");
    promtool.args(["check", "metrics"]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let promtool = promtool.spawn();
    let mut promtool = promtool.unwrap_or_else(|error| panic!("promtool is missing ({error}); run make test"));
    promtool.stdin.take().unwrap().write_all(body.as_bytes()).unwrap();
    let verdict = promtool.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&[verdict.stdout, verdict.stderr].concat()).into_owned();
    assert!(verdict.status.success() && said.is_empty(), "{said}");
}
