//! What one client gets, as `aggregator lookup --client` and the page tell it, against the answers that it gets.

mod harness;

use harness::*;
use serde_json::Value;
use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

const REGION: &str = "us-west.cns.example.com";
const WEB: &str = "web.svc.acme.us-west.cns.example.com";
const SERVICE: &str = "_http._tcp.web.svc.acme.us-west.cns.example.com";
const PATIENCE: Duration = Duration::from_secs(30);

/// The zone of a datacenter with so many instances of the service `web`.
fn datacenter(number: u8, instances: u8) -> (Dname, String) {
    let origin = format!("us-west-{number}.cns.example.com");
    let mut text =
        format!("$ORIGIN {origin}.\n$TTL 30\n@ IN SOA ns h {number} 60 60 2592000 30\n@ IN NS ns.example.com.\n");
    for instance in 1..=instances {
        text += &format!("web.svc.acme IN A 10.{number}.0.{instance}\n");
        text += &format!("_http._tcp.web.svc.acme IN SRV 0 10 80 i{instance}.inst.acme\n");
    }
    text += &format!("www.acme IN CNAME {WEB}.\n");
    (Dname::parse(&origin), text)
}

/// What is told of the last name of a chain.
fn told(daemon: &Aggregator, arguments: &[&str]) -> Value {
    let output = daemon.verb(&[&["lookup", "--json"], arguments].concat());
    assert_eq!(output.code, 0, "{}", output.stderr);
    let mut data: Value = serde_json::from_str(&output.stdout).expect("JSON");
    let client = data["client"].take();
    let mut step = data["steps"].as_array_mut().and_then(Vec::pop).expect("a step");
    step["who"] = client;
    step
}

#[test]
fn clients_get_what_they_are_told() {
    let folder = Folder::new();
    let peer = Knotd::start(&folder, &[datacenter(1, 1), datacenter(2, 3), datacenter(3, 2)]);
    let zones: String =
        (1..=3).map(|number| format!("\"us-west-{number}.cns.example.com\" = \"{}\"\n", peer.address())).collect();
    let homes: String =
        (1..=3).map(|number| format!("\"us-west-{number}.cns.example.com\" = [\"127.{number}.0.0/16\"]\n")).collect();
    let plan = format!(
        "[zones]\n{zones}[clients]\n{homes}[aggregations.\"{REGION}\"]\n\
         members = [\"us-west-1.cns.example.com\", \"us-west-2.cns.example.com\", \"us-west-3.cns.example.com\"]\n\
         steering = {{ prefer = \"nearest\", at_least = 2, srv = \"priority\" }}\n\
         [aggregations.\"{REGION}\".near]\n\"us-west-1.cns.example.com\" = [\"us-west-3.cns.example.com\"]\n"
    );
    let daemon = Aggregator::start_with(&folder.subfolder("aggregator"), &Settings::new(&plan));
    let mut client = Client::new(daemon.address());
    wait_until("the region is there", PATIENCE, || client.serial(&Dname::parse(REGION)).filter(|serial| *serial == 6));

    for (source, home, records) in
        [([127, 1, 0, 9], 1, [3, 6]), ([127, 2, 0, 9], 2, [3, 6]), ([127, 9, 0, 9], 0, [6, 6])]
    {
        let source = IpAddr::from(Ipv4Addr::from(source));
        let mut client = Client::new(daemon.address()).with_source(source);
        for ((name, code, kind), count) in [(WEB, rtype::A, "A"), (SERVICE, rtype::SRV, "SRV")].into_iter().zip(records)
        {
            let answer = client.ask(&Query::new(&Dname::parse(name), code)).expect("an answer").answer;
            let got: BTreeSet<String> = answer.iter().map(Record::rdata_text).collect();
            assert_eq!(got.len(), count, "{source} {got:?}");
            let step = told(&daemon, &[name, kind, "--client", &source.to_string()]);
            let set = &step["client"]["sets"][0];
            let records = if set["choice"] == "whole" { &step["records"] } else { &set["answer"] };
            let records = records.as_array().expect("records").iter();
            let records: BTreeSet<String> =
                records.map(|record| record["data"].as_str().expect("RDATA").to_owned()).collect();
            assert_eq!(records, got, "{source} {step:#}");
            let zone = (home > 0).then(|| format!("us-west-{home}.cns.example.com."));
            assert_eq!(step["who"]["home"].as_str(), zone.as_deref());
        }
    }

    // As people read it, behind an alias of a datacenter.
    let alias = "www.acme.us-west-1.cns.example.com";
    let text = daemon.verb(&["lookup", alias, "--client", "127.1.0.0/24"]).stdout;
    let expected =
        "  answers to 127.1.0.0/24 by EDNS Client Subnet, a client of us-west-1.cns.example.com. (127.1.0.0/16)
    A: these 3 of 6 records, in turns within a member
      1. us-west-1.cns.example.com.: 1 record, 1 in the answer; home
      2. us-west-3.cns.example.com.: 2 records, 2 in the answer
      3. us-west-2.cns.example.com.: 3 records, 0 in the answer; not needed
      prefer = \"nearest\", at_least = 2
      near us-west-1.cns.example.com.: us-west-3.cns.example.com.
      ends behind us-west-3.cns.example.com.: 3 records count up to there, at_least = 2
      EDNS Client Subnet: SCOPE 16
        30 A 10.1.0.1
";
    assert!(text.contains(expected), "{text}");
    let (status, body) = daemon.http(&format!("/lookup?name={alias}&client=127.1.0.9"));
    assert_eq!(status, 200);
    for part in
        ["As seen by 127.1.0.9, a client of us-west-1", "What this client gets", "value=\"127.1.0.9\"", "not needed"]
    {
        assert!(body.contains(part), "{part} in {body}");
    }
    // The region has counted two answers to each of the clients.
    let status = daemon.verb(&["status", REGION]).stdout;
    for (home, order) in [(1, "132"), (2, "213")] {
        let zone = |number: char| format!("us-west-{number}.cns.example.com.");
        let order = order.chars().map(zone).collect::<Vec<_>>().join(", ");
        let line = format!(
            "  clients of us-west-{home}.cns.example.com. (1 prefix): {order}; 2 answers from home, 0 from others\n"
        );
        assert!(status.contains(&line), "{line} in {status}");
    }
    assert!(status.contains("  clients without home: 2 answers\n"), "{status}");
    let (status, body) = daemon.http(&format!("/lookup?name={alias}&client=somebody"));
    assert!(status == 400 && body.contains("is no address"), "{status} {body}");
}
