//! The tables of `aggregator cns`, which are those of `cnsadm`.

use crate::compare::{Words, assert_goldens};
use crate::harness::{Aggregator, Client, Dname, Folder, Settings, wait_until, write_file};
use regex::Regex;
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(20);
const ZONE: &str = "us-west-1.cns.example.com";
const UUID: &str = "11110000-0000-4000-8000-00000000000b";

const DOCUMENT: &str = r#"
format = 1
serial = 500000000

[[vms]]
uuid = "11110000-0000-4000-8000-00000000000b"
alias = "web1"
owner = "acme"
addresses = ["198.51.100.11"]
services = "web:8080"

[[vms]]
alias = "web2"
owner = "acme"
addresses = ["198.51.100.12"]
services = "web:8080"
"#;

const PLAN: &str = r#"
[zones."us-west-1.cns.example.com"]
inventory = "us-west-1"

[inventories.us-west-1]
file = "inventory.toml"
reverse = ["198.51.100.0/24"]

[secondaries]
allow_transfer = ["127.0.0.0/8"]
"#;

#[test]
fn tables_of_inventories_are_those_of_cnsadm() {
    let folder = Folder::new();
    let home = folder.subfolder("aggregator");
    write_file(&home.join("inventory.toml"), DOCUMENT);
    let daemon = Aggregator::start_with(&home, &Settings::new(PLAN));
    let mut client = Client::new(daemon.address());
    let zone = Dname::parse(ZONE);
    wait_until("the zone is served", PATIENCE, || client.serial(&zone));
    client.transfer(&zone).expect("a transfer");
    let told = |arguments: &[&str]| {
        let output = daemon.verb(&[&["cns"], arguments].concat());
        let text = Words::new(&[]).text(&format!("{}{}", output.stdout, output.stderr));
        let varying = [(r"\d+ secs? ago", "AGE ago"), (r#""(changed|last_visit)": \d+"#, "\"$1\": \"VARIES\"")];
        let with_words = varying.into_iter().fold(text, |text, (pattern, word)| {
            Regex::new(pattern).expect("a pattern").replace_all(&text, word).into_owned()
        });
        format!("$ aggregator cns {} [exit {}]\n{with_words}\n", arguments.join(" "), output.code)
    };
    wait_until("the transfer is counted", PATIENCE, || told(&["peers"]).contains("127.0.0.1").then_some(()));
    let run = |list: &[&[&str]]| list.iter().map(|arguments| told(arguments)).collect::<String>();
    let texts = run(&[
        &["status"],
        &["zones"],
        &["peers"],
        &["peers", "127.0.0.1"],
        &["vm", UUID],
        &["report", UUID, "down"],
        &["vm", UUID],
        &["report", UUID, "none"],
        &["report", "x", "up"],
        &["vm", "22220000-0000-4000-8000-00000000000b"],
        &["release", "web.svc.acme.us-west-1.cns.example.com"],
    ]);
    let json = run(&[&["zones", "--json"], &["peers", "--json"], &["vm", UUID, "--json"], &["forget", UUID, "--json"]]);
    assert_goldens(&[("verbs/cns.txt".to_owned(), texts), ("verbs/cns.json.txt".to_owned(), json)]);
}
