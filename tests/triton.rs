//! Zones that are made of what the services of a Triton datacenter know: they follow its change feed and its compute nodes,
//! and lose nothing where services fail.

#[path = "triton/directory.rs"]
mod directory;
#[path = "triton/edits.rs"]
mod edits;
#[path = "triton/faults.rs"]
mod faults;
mod harness;
#[allow(dead_code)]
#[path = "inventory/site.rs"]
mod site;
#[path = "triton/times.rs"]
mod times;

use harness::*;
use serde_json::{Value, json};
use site::{Resolver, Site};
use std::path::Path;
use triton_double::{Cut, Double, Service};

const OWNER: &str = "2c2457f2-0000-4000-8000-00000000000a";
const NETWORK: &str = "e0000000-0000-4000-8000-000000000001";
const SERVERS: [&str; 2] = ["c0000000-0000-4000-8000-000000000001", "c0000000-0000-4000-8000-000000000002"];
const SERVICE: &str = "web.svc.acme";

fn uuid(number: u8) -> String {
    format!("11110000-0000-4000-8000-{number:012}")
}

/// An instance of the service `web`, odd ones on the first compute node.
fn vm(number: u8) -> Value {
    json!({
        "uuid": uuid(number), "alias": format!("web{number}"), "owner_uuid": OWNER,
        "server_uuid": SERVERS[usize::from(number + 1) % 2], "state": "running", "destroyed": null,
        "create_timestamp": "2026-02-01T10:00:00.000Z", "tags": { "triton.cns.services": "web:8080" },
        "customer_metadata": {},
        "nics": [{ "mac": format!("90:b8:d0:00:00:{number:02x}"), "nic_tag": "external", "vlan_id": 0,
                   "network_uuid": NETWORK, "ips": [format!("198.51.100.{number}/24")] }],
    })
}

/// A datacenter of two compute nodes, and the daemon that makes zones of it.
struct Datacenter {
    double: Double,
    site: Site,
    resolver: Resolver,
    /// Where instances come from, in the words of the configuration.
    source: String,
    _accounts: Folder,
}

/// A compute node that runs and is known by no heartbeat.
fn server(uuid: &str) -> Value {
    json!({ "uuid": uuid, "hostname": format!("cn-{uuid}"), "setup": true, "status": "running",
            "last_boot": "2026-01-01T00:00:00.000Z", "last_heartbeat": null, "sysinfo": {} })
}

/// An account that is in order.
fn account(login: &str) -> Value {
    json!({ "uuid": OWNER, "login": login, "triton_cns_enabled": "true", "approved_for_provisioning": "true" })
}

/// A file of accounts, in the words of the configuration.
fn accounts_file(folder: &Path) -> String {
    let accounts = folder.join("accounts.json");
    write_file(&accounts, &json!({ "accounts": [account("acme")] }).to_string());
    format!("accounts = \"{}\"", accounts.display())
}

impl Datacenter {
    /// Its accounts are in a file.
    fn start(vms: u8) -> Datacenter {
        Datacenter::start_with(vms, |_, folder| accounts_file(folder))
    }

    /// They are, and all instances are listed once in a while beside what the feed tells.
    fn start_listing(vms: u8, list_every: &str) -> Datacenter {
        let accounts = |folder: &Path| format!("{}, list_every = \"{list_every}\"", accounts_file(folder));
        Datacenter::start_with(vms, |_, folder| accounts(folder))
    }

    /// Its accounts come from where `accounts` says, in the words of the configuration.
    fn start_with(vms: u8, accounts: impl FnOnce(&Double, &Path) -> String) -> Datacenter {
        Datacenter::start_under("", vms, accounts)
    }

    /// The same with further lines of the inventory.
    fn start_under(rules: &str, vms: u8, accounts: impl FnOnce(&Double, &Path) -> String) -> Datacenter {
        let double = Double::start(&json!({
            "vms": (1..=vms).map(vm).collect::<Vec<Value>>(),
            "servers": SERVERS.map(server),
            "networks": [{ "uuid": NETWORK, "name": "external" }],
            "network_pools": [],
            "accounts": [account("acme")],
        }));
        let double = double.expect("free ports");
        let folder = Folder::new();
        let accounts = accounts(&double, &folder.subfolder("accounts"));
        let [vmapi, cnapi, napi] = [Service::Vmapi, Service::Cnapi, Service::Napi].map(|service| double.url(service));
        let source =
            format!("triton = {{ vmapi = \"{vmapi}\", cnapi = \"{cnapi}\", napi = \"{napi}\", {accounts} }}\n");
        let site = Site::start_with(&source, rules);
        let mut resolver = site.resolver();
        let numbers: Vec<u8> = (1..=vms).collect();
        resolver.wait_addresses(SERVICE, &numbers);
        site::wait("the feed is listened to", || (double.listeners() == 1).then_some(()));
        Datacenter { double, site, resolver, source, _accounts: folder }
    }
}

#[test]
fn instances_are_followed_by_the_feed() {
    let mut datacenter = Datacenter::start(4);
    let Datacenter { double, resolver, .. } = &mut datacenter;
    double.edit(|inventory| inventory.vm(&uuid(1))["state"] = json!("stopped"));
    resolver.wait_addresses(SERVICE, &[2, 3, 4]);
    assert_eq!(resolver.addresses("web1.inst.acme"), [site::address(1)], "it is not in service, and has its name");
    double.edit(|inventory| inventory.put_vm(vm(9)));
    resolver.wait_addresses(SERVICE, &[2, 3, 4, 9]);
    double.edit(|inventory| inventory.destroy_vm(&uuid(2)));
    resolver.wait_addresses(SERVICE, &[3, 4, 9]);
    resolver.wait_addresses("web2.inst.acme", &[]);
    // What happens without a feed is found when it is back.
    double.cut_feeds(Cut::Drop);
    double.edit(|inventory| {
        inventory.destroy_vm(&uuid(3));
        inventory.vm(&uuid(1))["state"] = json!("running");
    });
    resolver.wait_addresses(SERVICE, &[1, 4, 9]);
}

#[test]
fn a_compute_node_takes_its_instances_along_and_a_forgetful_cnapi_takes_none() {
    let mut datacenter = Datacenter::start(4);
    let Datacenter { double, resolver, .. } = &mut datacenter;
    // No node has a heartbeat here, as after a restart of CNAPI, and all instances are in service.
    double.edit(|inventory| inventory.server(SERVERS[0]).expect("a node")["status"] = json!("rebooting"));
    resolver.wait_addresses(SERVICE, &[2, 4]);
    double.edit(|inventory| inventory.server(SERVERS[0]).expect("a node")["status"] = json!("running"));
    resolver.wait_addresses(SERVICE, &[1, 2, 3, 4]);
}

#[test]
fn services_that_fail_and_a_restart_remove_nothing() {
    let mut datacenter = Datacenter::start(3);
    let Datacenter { double, resolver, site, .. } = &mut datacenter;
    let serial = resolver.serial();
    for service in [Service::Vmapi, Service::Cnapi, Service::Napi] {
        double.refuse(service, true);
    }
    double.cut_feeds(Cut::Drop);
    site.wait_status("the failure is told", |source| source["reading"] == "failing");
    assert_eq!((resolver.addresses(SERVICE).len(), resolver.serial()), (3, serial));
    site.daemon.kill_and_restart(|| ());
    *resolver = site.resolver();
    resolver.wait_addresses(SERVICE, &[1, 2, 3]);
    double.edit(|inventory| inventory.destroy_vm(&uuid(2)));
    for service in [Service::Vmapi, Service::Cnapi, Service::Napi] {
        double.refuse(service, false);
    }
    resolver.wait_addresses(SERVICE, &[1, 3]);
    site.wait_status("all is well", |source| source["reading"] == "current");
}
