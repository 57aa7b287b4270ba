//! A configuration of Triton's CNS that an inventory takes as it is.

use super::harness::*;
use super::site::*;
use std::net::{IpAddr, Ipv4Addr};

const PLAN: &str = "[inventories.dc1]\nfile = \"inventory.json\"\ncns = \"cns.json\"\nuse_alias = true\n";
/// The name that every machine has an address of, and one that none has.
const PEERS: &str = r#""peers": ["localhost", "ns2.invalid"], "hidden_primary": true"#;

/// A configuration of CNS with these zones.
fn cns(zones: &str) -> String {
    format!(
        r#"{{ "hostmaster": "hostmaster@example.com", "forward_zones": {{ {zones} }}, "use_login": true,
        "allow_transfer": ["192.0.2.0/24"], "redis_opts": {{ "host": "x" }} }}"#
    )
}

#[test]
fn a_configuration_of_cns_is_taken_as_it_is() {
    let folder = Folder::new();
    let home = folder.subfolder("aggregator");
    write_file(&home.join("inventory.json"), &document(&[vm("web1", "acme", 1)]));
    let zone = |name: &str| format!(r#""{name}": {{ "networks": ["*"], {PEERS} }}"#);
    write_file(&home.join("cns.json"), &cns(&zone("us-west-1.cns.example.com")));
    let daemon = Aggregator::start_with(&home, &Settings::new(PLAN));
    let origin = Dname::parse(ZONE);
    let mut client = Client::new(daemon.address());
    let web = Query::new(&Dname::parse(&format!("web.svc.acme.{ZONE}")), rtype::A);
    wait("the service is there", || (client.ask(&web).ok()?.answer.len() == 1).then_some(()));

    // Its name servers, the first of which is the MNAME because the primary is hidden.
    let servers = client.ask(&Query::new(&origin, rtype::NS)).expect("an answer").answer;
    let mut servers: Vec<String> = servers.iter().filter_map(|ns| Some(ns.target()?.to_string())).collect();
    servers.sort();
    assert_eq!(servers, ["localhost.", "ns2.invalid."]);
    let soa = client.ask(&Query::new(&origin, rtype::SOA)).expect("an answer").answer[0].rdata_text();
    assert!(soa.starts_with("localhost. hostmaster.example.com. "), "{soa}");
    let plan = daemon.verb(&["check"]);
    for part in ["host localhost.", "host ns2.invalid.", "192.0.2.0/24"] {
        assert!(plan.stdout.contains(part), "{part} in {}", plan.stdout);
    }

    // Peers may transfer the zone from wherever their names are; nobody else may.
    let from = |last: u8| Client::new(daemon.address()).with_source(IpAddr::V4(Ipv4Addr::new(127, 0, 0, last)));
    let records = wait("localhost is looked up", || from(1).transfer(&origin).ok());
    assert!(records.len() > 5, "{records:?}");
    assert!(from(2).transfer(&origin).is_err(), "127.0.0.2 is not localhost");
    wait("the other is not found", || {
        daemon.log_text().contains("a host that may transfer was not found").then_some(())
    });

    // A reload reads the file again, and what is known of a host stays known.
    write_file(
        &home.join("cns.json"),
        &cns(&format!("{}, {}", zone("us-west-1.cns.example.com"), zone("us-west-1.cns.internal.example.com"))),
    );
    let reloaded = daemon.verb(&["reload"]);
    assert_eq!(reloaded.code, 0, "{reloaded:?}");
    let second = Dname::parse("us-west-1.cns.internal.example.com.");
    wait("the second zone is there", || client.serial(&second));
    assert!(
        from(1).transfer(&second).is_ok() && from(1).transfer(&origin).is_ok() && from(2).transfer(&second).is_err()
    );

    // A mistake in it is told at its place there, and changes nothing.
    write_file(&home.join("cns.json"), &cns(r#""x.example": { "networks": 1 }"#));
    let refused = daemon.verb(&["reload"]);
    assert!(refused.code != 0 && refused.stderr.contains("cns.json:1:"), "{refused:?}");
    assert!(from(1).transfer(&second).is_ok());
}
