//! Time that a document of 100,000 instances takes to be read, in both formats and forms.

use inventory::document;
use std::path::Path;
use std::time::Instant;

const INSTANCES: u32 = 100_000;

fn main() {
    let full = (0..INSTANCES).map(|number| {
        let [_, a, b, c] = number.to_be_bytes();
        format!(
            "{{\"uuid\":\"11110000-0000-4000-8000-{number:012x}\",\"alias\":\"web{number}\",\
             \"owner_uuid\":\"2c2457f2-0000-4000-8000-00000000000a\",\
             \"server_uuid\":\"c0000000-0000-4000-8000-000000000001\",\"state\":\"running\",\"destroyed\":null,\
             \"create_timestamp\":\"2026-02-01T10:00:00.000Z\",\"tags\":{{\"triton.cns.services\":\"web:8080\"}},\
             \"customer_metadata\":{{\"triton.cns.status\":\"up\"}},\"nics\":[{{\"mac\":\"90:b8:d0:{a:02x}:{b:02x}:{c:02x}\",\
             \"nic_tag\":\"external\",\"vlan_id\":0,\"network_uuid\":\"e0000000-0000-4000-8000-000000000001\",\
             \"ip\":\"10.{a}.{b}.{c}\",\"ips\":[\"10.{a}.{b}.{c}/8\"]}}]}}"
        )
    });
    let short = |number: u32| {
        let [_, a, b, c] = number.to_be_bytes();
        (format!("web{number}"), format!("10.{a}.{b}.{c}"))
    };
    let brief = (0..INSTANCES).map(short).map(|(alias, address)| {
        format!("{{\"alias\":\"{alias}\",\"owner\":\"acme\",\"addresses\":[\"{address}\"],\"services\":\"web:8080\"}}")
    });
    let toml = (0..INSTANCES).map(short).map(|(alias, address)| {
        format!(
            "[[vms]]\nalias = \"{alias}\"\nowner = \"acme\"\naddresses = [\"{address}\"]\nservices = \"web:8080\"\n"
        )
    });
    let json = |elements: Vec<String>| format!("{{\"format\":1,\"vms\":[{}]}}", elements.join(",\n"));
    time("JSON, full form", &json(full.collect()));
    time("JSON, short form", &json(brief.collect()));
    time("TOML, short form", &format!("format = 1\n{}", toml.collect::<String>()));
}

/// Reads a document and prints how long that took.
fn time(what: &str, text: &str) {
    let start = Instant::now();
    let read = document::read(Path::new("document"), text, "dc");
    let took = start.elapsed();
    let count = read.map(|document| document.inventory.vms.len()).unwrap_or_default();
    println!("{what}: {count} instances, {:.1} MB, {:.2} s", text.len() as f64 / 1e6, took.as_secs_f64());
}
