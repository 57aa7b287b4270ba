//! The feeder against a double of the datacenter's services, with all faults that the double knows.

use super::*;
use crate::source::inventory::feeder::{Intake, way};
use inventory::model::{Change, Element, ServerStatus, State};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout_at};
use triton_double::{Cut, Double, Service};

mod ufds;

/// Time for whatever a test waits for.
const LIMIT: Duration = Duration::from_secs(60);
const NETWORK: &str = "e0000000-0000-4000-8000-000000000001";
const SERVER: &str = "c0000000-0000-4000-8000-000000000001";

fn uuid(number: usize) -> String {
    format!("11110000-0000-4000-8000-{number:012}")
}

fn key(number: usize) -> Key {
    Key::Vm(Uuid::try_parse(&uuid(number)).unwrap())
}

fn vm(number: usize) -> Value {
    json!({
        "uuid": uuid(number), "alias": format!("web{number}"), "owner_uuid": "2c2457f2-0000-4000-8000-00000000000a",
        "server_uuid": SERVER, "state": "running", "destroyed": null, "tags": { "triton.cns.services": "web" },
        "customer_metadata": {},
        "nics": [{ "mac": format!("90:b8:d0:00:00:{number:02x}"), "nic_tag": "external", "vlan_id": 0,
                   "network_uuid": NETWORK, "ips": [format!("198.51.100.{number}/24")] }],
    })
}

/// A datacenter with some instances on one compute node and one network.
fn datacenter(vms: usize) -> Double {
    let vms: Vec<Value> = (1..=vms).map(vm).collect();
    let server = json!({ "uuid": SERVER, "hostname": "cn1", "setup": true, "status": "running",
                         "last_boot": "2026-01-01T00:00:00.000Z", "last_heartbeat": "2026-03-01T11:59:57.000Z",
                         "sysinfo": { "Admin NIC Tag": "ops" } });
    let network = json!({ "uuid": NETWORK, "name": "external" });
    let pool = json!({ "uuid": "e1000000-0000-4000-8000-000000000001", "networks": [NETWORK] });
    let inventory = json!({ "vms": vms, "servers": [server], "networks": [network], "network_pools": [pool] });
    Double::start(&inventory).unwrap()
}

/// The plan of a feeder that follows a double.
fn plan(double: &Double, accounts: AccountsPlan, list_every: Duration) -> TritonPlan {
    let url = |service| double.url(service).parse().unwrap();
    let (vmapi, cnapi, napi) = (url(Service::Vmapi), url(Service::Cnapi), url(Service::Napi));
    TritonPlan { vmapi, cnapi, napi, accounts, ca: None, list_every }
}

/// State of an inventory that is fed.
struct World {
    intake: Intake,
    elements: BTreeMap<Key, Element>,
    /// Listings that were complete.
    listed: usize,
    failures: Vec<String>,
    /// Elements that cannot be read.
    failing: usize,
    /// True if the last word of all is that everything is current.
    is_current: bool,
    is_following: bool,
    feeder: JoinHandle<()>,
    _folder: tempfile::TempDir,
}

impl World {
    fn new(double: &Double) -> World {
        World::start(double, Vec::new(), Duration::from_secs(3600))
    }

    fn start(double: &Double, known: Vec<Key>, list_every: Duration) -> World {
        let folder = tempfile::tempdir().unwrap();
        let accounts = folder.path().join("accounts.toml");
        let text = "[[accounts]]\nuuid = \"2c2457f2-0000-4000-8000-00000000000a\"\nlogin = \"acme\"\n\
                    triton_cns_enabled = true\napproved_for_provisioning = true\n";
        std::fs::write(&accounts, text).unwrap();
        World::follow(plan(double, AccountsPlan::File(accounts), list_every), known, folder)
    }

    fn follow(plan: TritonPlan, known: Vec<Key>, folder: tempfile::TempDir) -> World {
        let (feed, intake) = way();
        let feeder = tokio::spawn(TritonFeeder::new(plan, Uuid::from_u128(7), known).run(feed));
        World {
            intake,
            elements: BTreeMap::new(),
            listed: 0,
            failures: Vec::new(),
            failing: 0,
            is_current: false,
            is_following: false,
            feeder,
            _folder: folder,
        }
    }

    /// Takes in what the feeder tells until a condition holds.
    async fn until(&mut self, what: &str, holds: impl Fn(&World) -> bool) {
        let limit = Instant::now() + LIMIT;
        while !holds(self) {
            let told = timeout_at(limit, self.intake.told.recv()).await;
            let told = told.unwrap_or_else(|_| panic!("never {what}; failures: {:?}", self.failures));
            self.is_current = false;
            match told.expect("the feeder runs").event {
                Event::Changes(changes) => changes.into_iter().for_each(|change| self.apply(change)),
                Event::Listed => self.listed += 1,
                Event::Current => self.is_current = true,
                Event::Failed { failure, .. } => self.failures.push(format!("{}: {failure}", failure.label)),
                Event::Partial { elements, .. } => self.failing = elements,
                Event::Following(is_following) => self.is_following = is_following,
                Event::Whole { .. } => panic!("a document"),
            }
        }
    }

    fn apply(&mut self, change: Change) {
        match change {
            Change::Put(element) => {
                self.elements.insert(element.key(), element);
            }
            Change::Gone(key) => {
                self.elements.remove(&key);
            }
        }
    }

    /// Waits for the first complete listing, and until the feed is listened to.
    async fn settle(&mut self, double: &Double) {
        self.until("listed with a feed", |world| world.listed > 0 && double.listeners() == 1).await;
    }

    fn vms(&self) -> usize {
        self.elements.keys().filter(|key| matches!(key, Key::Vm(_))).count()
    }

    fn state(&self, number: usize) -> Option<State> {
        match self.elements.get(&key(number))? {
            Element::Vm(vm) => Some(vm.state),
            _ => None,
        }
    }

    fn server(&self) -> Option<&inventory::model::Server> {
        match self.elements.get(&Key::Server(Uuid::try_parse(SERVER).unwrap()))? {
            Element::Server(server) => Some(server),
            _ => None,
        }
    }
}

impl Drop for World {
    fn drop(&mut self) {
        self.feeder.abort();
    }
}

#[tokio::test]
async fn everything_is_listed_and_changes_follow() {
    let double = datacenter(7);
    double.shrink_pages(Some(3));
    double.repeat_items(true);
    let mut world = World::new(&double);
    world.settle(&double).await;
    assert_eq!((world.vms(), world.elements.len()), (7, 7 + 4), "an account, a network, a pool and a compute node");
    assert_eq!(world.server().unwrap().admin_nic_tag.as_deref(), Some("ops"));
    double.edit(|datacenter| {
        datacenter.vm(&uuid(1))["state"] = json!("stopped");
        datacenter.destroy_vm(&uuid(2));
        datacenter.put_vm(vm(8));
    });
    world
        .until("changed", |world| {
            world.state(1) == Some(State::Other) && world.state(2).is_none() && world.state(8) == Some(State::Running)
        })
        .await;
    assert_eq!((world.vms(), world.failing, world.failures.len()), (7, 0, 0));
}

#[tokio::test]
async fn pages_that_change_meanwhile_lose_nothing_and_what_was_kept_leaves() {
    let double = datacenter(6);
    double.shrink_pages(Some(2));
    double.between_pages(|datacenter| datacenter.forget_vm(&uuid(1)));
    let mut world = World::start(&double, vec![key(3), key(77)], Duration::from_secs(3600));
    world.elements.insert(key(77), Element::Vm(elements::vm(&vm(77)).unwrap()));
    // The listing that the bootstrap began may have been the second one.
    world.until("listed without the kept", |world| world.listed > 0 && world.vms() == 5).await;
    assert!(!world.elements.contains_key(&key(1)) && !world.elements.contains_key(&key(77)));
    assert!(double.calls().iter().any(|call| call.path == format!("/vms/{}", uuid(77))), "it was asked for");
}

#[tokio::test]
async fn what_the_feed_does_not_tell_is_found_by_the_next_listing() {
    let double = datacenter(3);
    let mut world = World::start(&double, Vec::new(), Duration::from_secs(1));
    world.settle(&double).await;
    double.drop_items(2);
    double.edit(|datacenter| {
        datacenter.vm(&uuid(1))["state"] = json!("stopped");
        datacenter.destroy_vm(&uuid(2));
    });
    world.until("found", |world| world.state(1) == Some(State::Other) && world.state(2).is_none()).await;
}

#[tokio::test]
async fn an_instance_that_was_destroyed_while_the_feed_was_down_leaves() {
    let double = datacenter(3);
    let mut world = World::new(&double);
    world.settle(&double).await;
    double.cut_feeds(Cut::Close);
    double.edit(|datacenter| datacenter.destroy_vm(&uuid(1)));
    world.until("gone with the next feed", |world| world.state(1).is_none()).await;
    double.fail_path(Service::Vmapi, Some("/changefeeds"));
    double.cut_feeds(Cut::Drop);
    double.edit(|datacenter| datacenter.destroy_vm(&uuid(2)));
    // Without the feed, instances are listed now and then.
    world.until("gone without the feed", |world| world.state(2).is_none()).await;
    double.fail_path(Service::Vmapi, None);
    world.until("current", |world| world.is_current).await;
    assert_eq!((double.listeners(), world.vms()), (1, 1));
    assert!(world.failures.iter().all(|failure| failure.starts_with("feed: ")), "{:?}", world.failures);
}

#[tokio::test]
async fn a_feed_that_falls_silent_is_found_by_pings() {
    let double = datacenter(1);
    let mut world = World::new(&double);
    world.settle(&double).await;
    world.until("current", |world| world.is_current).await;
    double.cut_feeds(Cut::Stall);
    double.edit(|datacenter| datacenter.vm(&uuid(1))["state"] = json!("stopped"));
    world.until("followed again", |world| world.state(1) == Some(State::Other) && double.listeners() == 1).await;
    assert!(world.failures.iter().any(|failure| failure.starts_with("slow: ")), "{:?}", world.failures);
}

#[tokio::test]
async fn what_fails_is_asked_for_until_it_is_answered() {
    let double = datacenter(3);
    let mut world = World::new(&double);
    world.settle(&double).await;
    double.fail_path(Service::Vmapi, Some("/vms/"));
    double.edit(|datacenter| {
        datacenter.vm(&uuid(1))["state"] = json!("stopped");
        datacenter.destroy_vm(&uuid(2));
    });
    world.until("two fail", |world| world.failing == 2).await;
    assert_eq!(world.vms(), 3, "a failure removes nothing");
    double.fail_path(Service::Vmapi, None);
    world.until("answered", |world| world.failing == 0 && world.state(1) == Some(State::Other)).await;
    assert_eq!(world.vms(), 2);
}

/// Has a service refuse every connection, and answer again.
async fn stop_for_a_while(service: Service) {
    let double = datacenter(3);
    let mut world = World::start(&double, Vec::new(), Duration::from_secs(1));
    world.settle(&double).await;
    double.refuse(service, true);
    double.cut_feeds(Cut::Drop);
    if service == Service::Napi {
        // Networks are listed once a minute, and what no list has is asked for at once.
        let unknown = json!("e0000000-0000-4000-8000-000000000009");
        double.edit(|datacenter| datacenter.vm(&uuid(1))["nics"][0]["network_uuid"] = unknown);
        world.until("told", |world| world.failing > 0).await;
    } else {
        world.until("told", |world| world.failures.iter().any(|failure| failure.contains("API"))).await;
    }
    assert_eq!(world.vms(), 3);
    double.refuse(service, false);
    world.until("current", |world| world.is_current && world.failing == 0).await;
    assert_eq!(world.vms(), 3);
}

#[tokio::test]
async fn a_vmapi_that_stops_removes_nothing() {
    stop_for_a_while(Service::Vmapi).await;
}

#[tokio::test]
async fn a_cnapi_that_stops_removes_nothing() {
    stop_for_a_while(Service::Cnapi).await;
}

#[tokio::test]
async fn a_napi_that_stops_removes_nothing() {
    stop_for_a_while(Service::Napi).await;
}

#[tokio::test]
async fn a_listing_is_complete_only_when_everything_was_answered() {
    let double = datacenter(3);
    let other = "e0000000-0000-4000-8000-000000000002";
    double.edit(|datacenter| datacenter.vm(&uuid(1))["nics"][0]["network_uuid"] = json!(other));
    double.fail_path(Service::Napi, Some("/networks/"));
    let mut world = World::new(&double);
    world.until("a network fails", |world| world.failing > 0 && world.vms() == 3).await;
    assert_eq!(world.listed, 0);
    double.fail_path(Service::Napi, None);
    // NAPI has no such network: that is an answer.
    world.until("listed", |world| world.listed == 1).await;
}

#[tokio::test]
async fn an_answer_that_is_older_than_a_change_does_not_stay() {
    let double = datacenter(1);
    let mut world = World::new(&double);
    world.settle(&double).await;
    double.delay(Service::Vmapi, Duration::from_millis(300));
    for _ in 0..3 {
        double.forget_calls();
        double.edit(|datacenter| datacenter.vm(&uuid(1))["state"] = json!("stopped"));
        world.until("asked", |_| true).await;
        let limit = Instant::now() + LIMIT;
        while double.calls().is_empty() {
            assert!(Instant::now() < limit, "never asked");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        // The answer on its way still says that it is stopped.
        double.edit(|datacenter| datacenter.vm(&uuid(1))["state"] = json!("running"));
        world.until("stopped", |world| world.state(1) == Some(State::Other)).await;
        world.until("running", |world| world.state(1) == Some(State::Running)).await;
    }
}

#[tokio::test]
async fn interfaces_without_a_network_are_asked_for() {
    let double = datacenter(2);
    double.edit(|datacenter| {
        datacenter.vm(&uuid(1))["nics"] = json!([{ "mac": "90:b8:d0:aa:00:01" }]);
        datacenter.nics.push(json!({ "mac": "90:b8:d0:aa:00:01", "belongs_to_uuid": uuid(1), "network_uuid": NETWORK,
                                     "ip": "198.51.100.41" }));
        let unknown = json!([{ "mac": "90:b8:d0:aa:00:02", "nic_tag": "internal", "vlan_id": 9, "ip": "10.0.0.2" }]);
        datacenter.vm(&uuid(2))["nics"] = unknown;
        datacenter.networks.push(json!({ "uuid": "e0000000-0000-4000-8000-000000000003", "name": "in",
                                         "nic_tag": "internal", "vlan_id": 9 }));
    });
    let mut world = World::new(&double);
    world.settle(&double).await;
    let nics: Vec<&inventory::model::Nic> = world
        .elements
        .values()
        .filter_map(|element| match element {
            Element::Nic(nic) => Some(nic),
            _ => None,
        })
        .collect();
    let told: Vec<(String, String)> =
        nics.iter().map(|nic| (nic.network.unwrap().to_string(), nic.addresses[0].to_string())).collect();
    let expected = [(NETWORK, "198.51.100.41"), ("e0000000-0000-4000-8000-000000000003", "10.0.0.2")];
    assert_eq!(told, expected.map(|(network, address)| (network.to_owned(), address.to_owned())));
    assert_eq!(nics[1].belongs_to.map(|owner| owner.to_string()), Some(uuid(2)));
}

#[tokio::test]
async fn compute_nodes_are_followed() {
    let double = datacenter(1);
    let mut world = World::new(&double);
    world.settle(&double).await;
    // CNAPI was started again: no heartbeats are known, and everything runs.
    double.edit(|datacenter| datacenter.server(SERVER).unwrap()["last_heartbeat"] = Value::Null);
    world.until("no heartbeat", |world| world.server().is_some_and(|server| server.last_heartbeat.is_none())).await;
    assert_eq!(world.server().unwrap().status, ServerStatus::Running);
    double.edit(|datacenter| datacenter.server(SERVER).unwrap()["status"] = json!("rebooting"));
    world.until("rebooting", |world| world.server().unwrap().status == ServerStatus::Rebooting).await;
    assert_eq!(world.server().unwrap().admin_nic_tag.as_deref(), Some("ops"), "kept from sysinfo");
    double.edit(|datacenter| datacenter.server(SERVER).unwrap()["setup"] = json!(false));
    world.until("not set up", |world| !world.server().unwrap().setup).await;
    double.edit(|datacenter| datacenter.server(SERVER).unwrap()["setup"] = json!(true));
    world.until("set up", |world| world.server().unwrap().setup).await;
    double.edit(|datacenter| datacenter.servers.clear());
    world.until("gone", |world| world.server().is_none()).await;
}

#[tokio::test]
async fn an_order_begins_a_listing_and_is_answered_by_it() {
    let double = datacenter(2);
    let mut world = World::new(&double);
    world.settle(&double).await;
    let listed = world.listed;
    double.drop_items(1);
    double.edit(|datacenter| datacenter.vm(&uuid(1))["state"] = json!("stopped"));
    world.intake.orders.send_replace(1);
    world.until("listed again", |world| world.listed > listed && world.state(1) == Some(State::Other)).await;
}

#[tokio::test]
async fn the_feeder_ends_with_its_task() {
    let double = datacenter(1);
    let mut world = World::new(&double);
    world.settle(&double).await;
    let (_feed, intake) = way();
    // The old way is dropped, and with it whoever listens.
    drop(std::mem::replace(&mut world.intake, intake));
    double.edit(|datacenter| datacenter.vm(&uuid(1))["state"] = json!("stopped"));
    tokio::time::timeout(LIMIT, &mut world.feeder).await.expect("it ends").unwrap();
}
