//! Zones made of the inventory of a Triton datacenter: from the listing to the first answer, a lone change, a restart, and
//! memory.
//!
//! The services are those of `crates/triton-double`, which have everything at hand. A change is timed from the moment at
//! which its `GET /vms/UUID` comes in, so the double's answer and its way are part of it; what the feed takes before is not.
//!
//! Cost: the double's inventory is JSON, about 2 kB an instance.

use crate::daemon::Daemon;
use crate::harness::{Folder, write_file};
use crate::memory;
use crate::options::Options;
use crate::probe::Probe;
use crate::quiet;
use crate::scene::LONGEST;
use crate::table::{Figures, Table, thousands};
use serde_json::{Value, json};
use std::net::Ipv4Addr;
use std::time::{Duration, Instant};
use triton_double::{Double, Service};

const ZONE: &str = "us-west-1.cns.example.com";
const NETWORK: &str = "e0000000-0000-4000-8000-000000000001";
/// Instances of an account, all of one service.
const OF_ACCOUNT: usize = 100;
/// Steps from one changed instance to the next, a prime.
const STRIDE: usize = 7_919;
/// Changes for each round.
const CHANGES: usize = 20;

/// Measures a datacenter of so many instances, and prints the table.
pub fn measure(options: &Options) {
    let instances = options.instances;
    eprintln!("inventory: a datacenter of {} instances", thousands(instances));
    let accounts = instances.div_ceil(OF_ACCOUNT);
    let double = Double::start(&json!({
        "vms": (0..instances).map(|number| vm(number, 0)).collect::<Vec<Value>>(),
        "servers": [], "network_pools": [],
        "networks": [{ "uuid": NETWORK, "name": "external" }],
    }));
    let double = double.expect("free ports");
    let folder = Folder::new();
    let listed = folder.subfolder("accounts").join("accounts.json");
    let account = |number: usize| {
        json!({ "uuid": owner(number), "login": format!("acme{number}"), "triton_cns_enabled": "true",
                "approved_for_provisioning": "true" })
    };
    write_file(&listed, &json!({ "accounts": (0..accounts).map(account).collect::<Vec<Value>>() }).to_string());
    let [vmapi, cnapi, napi] = [Service::Vmapi, Service::Cnapi, Service::Napi].map(|service| double.url(service));
    let plan = format!(
        "[zones.\"{ZONE}\"]\ninventory = \"us-west-1\"\nns = [\"ns1.example.com\"]\n\
         [inventories.us-west-1]\n\
         triton = {{ vmapi = \"{vmapi}\", cnapi = \"{cnapi}\", napi = \"{napi}\", accounts = \"{}\" }}\n",
        listed.display()
    );
    let start = Instant::now();
    let mut daemon = Daemon::start(&folder, &options.program, &plan);
    let mut probe = Probe::new(daemon.address());
    let mut wait = |number: usize, change: usize, start: Instant| {
        probe.time_until(&name(number), address(number, change), start, LONGEST).expect("an instance has its address")
    };
    let load = wait(instances - 1, 0, start);
    while double.listeners() == 0 {
        std::thread::sleep(Duration::from_millis(50));
    }
    quiet::wait_quiet(&[daemon.id()]);
    // What the listing needed goes back to the system within seconds.
    std::thread::sleep(Duration::from_secs(15));
    let octets = memory::of_group(daemon.id());
    let records = daemon.records(ZONE);
    let mut times = Figures::default();
    for change in 1..=options.rounds * CHANGES {
        let number = change * STRIDE % instances;
        double.forget_calls();
        double.edit(|inventory| inventory.put_vm(vm(number, change)));
        let answered = Instant::now() + wait(number, change, Instant::now());
        let asked =
            double.calls().into_iter().filter(|call| call.path.contains(&uuid(number))).map(|call| call.at).max();
        times.push(answered.saturating_duration_since(asked.expect("the instance is asked for")));
        quiet::wait_quiet(&[daemon.id()]);
    }
    daemon.stop();
    let start = Instant::now();
    daemon.start_again();
    let restart = wait(0, 0, start);
    let mut table = Table::new(&[
        "instances",
        "records",
        "start to answer",
        "GET to answer",
        "99 of 100",
        "restart to answer",
        "memory a record",
    ]);
    let seconds = |time: Duration| format!("**{:.2} s**", time.as_secs_f64());
    let slowest = times.percentile(99).map_or_else(String::new, |time| format!("{:.1} ms", time.as_secs_f64() * 1e3));
    table.row(vec![
        thousands(instances),
        thousands(records as usize),
        seconds(load),
        times.to_string(),
        slowest,
        seconds(restart),
        format!("{:.0} octets", octets as f64 / records as f64),
    ]);
    println!("A datacenter's instances, told by VMAPI, CNAPI and NAPI:\n\n{table}");
}

/// The instance of a number, after so many changes of it and of others.
fn vm(number: usize, change: usize) -> Value {
    let [high, low] = [number >> 8 & 0xff, number & 0xff];
    json!({
        "uuid": uuid(number), "alias": format!("web{number}"), "owner_uuid": owner(number / OF_ACCOUNT),
        "server_uuid": null, "state": "running", "destroyed": null,
        "create_timestamp": "2026-02-01T10:00:00.000Z", "tags": { "triton.cns.services": "web:8080" },
        "customer_metadata": {},
        "nics": [{ "mac": format!("90:b8:d0:{:02x}:{high:02x}:{low:02x}", number >> 16), "nic_tag": "external",
                   "vlan_id": 0, "network_uuid": NETWORK, "ips": [format!("{}/8", address(number, change))] }],
    })
}

/// Its address; another one after each change, and never the first one again.
fn address(number: usize, change: usize) -> Ipv4Addr {
    let version = if change == 0 { 0 } else { 1 + (change - 1) % 63 };
    Ipv4Addr::from(0x0a00_0000 + (version << 18 | number) as u32)
}

fn uuid(number: usize) -> String {
    format!("11110000-0000-4000-8000-{number:012}")
}

fn owner(account: usize) -> String {
    format!("2c2457f2-0000-4000-8000-{account:012}")
}

/// A name of the instance.
fn name(number: usize) -> String {
    format!("web{number}.inst.acme{}.{ZONE}", number / OF_ACCOUNT)
}
