//! Random edits of a datacenter while its services fail in random ways: nobody who runs and was never touched leaves, and in
//! the end the zones are those of a daemon that has just listed everything.
//!
//! `AGGREGATOR_TRITON_SEED` chooses other edits.

use crate::*;
use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

/// Edits and switches.
const STEPS: usize = 200;
/// Instances at the start.
const VMS: u8 = 36;
/// Instances up to this number are never touched, nor their compute node and account.
const KEPT: u8 = 12;
const ACCOUNTS: [(&str, &str); 3] = [
    (OWNER, "acme"),
    ("2c2457f2-0000-4000-8000-00000000000b", "blue"),
    ("2c2457f2-0000-4000-8000-00000000000c", "cove"),
];
const NODES: [&str; 4] =
    [SERVERS[0], SERVERS[1], "c0000000-0000-4000-8000-000000000003", "c0000000-0000-4000-8000-000000000004"];
/// A compute node that instances name before CNAPI has it.
const LATE_NODE: &str = "c0000000-0000-4000-8000-000000000009";
/// Holds that end within the test, and listings that find what the feed did not tell.
const RULES: &str = "damping = { max_removed = \"1/3\", window = \"1s\", last = \"2s\" }\n";
const LIST_EVERY: &str = "list_every = \"20s\"";
const SERVICES: [Service; 4] = [Service::Vmapi, Service::Cnapi, Service::Napi, Service::Ufds];

/// An instance of an account on a compute node, both by number.
fn placed(number: u8, account: usize, node: &str) -> Value {
    site::with(vm(number), json!({ "owner_uuid": ACCOUNTS[account].0, "server_uuid": node }))
}

/// The account of an instance at the start: those that are kept have one of their own.
fn first_account(number: u8) -> usize {
    if number <= KEPT { 0 } else { 1 + usize::from(number / 4 % 2) }
}

/// What was done to the datacenter.
struct World {
    datacenter: Datacenter,
    random: Random,
    /// Instances that are there, by number.
    live: BTreeSet<u8>,
    next: u8,
    /// Instances that run and were never touched, by the login of their account.
    untouched: BTreeMap<&'static str, BTreeSet<u8>>,
    /// Services that are to answer again, and after how many steps.
    stopped: BTreeMap<usize, usize>,
    log: Vec<String>,
}

impl World {
    fn start(seed: u64) -> World {
        let datacenter = Datacenter::start_under(RULES, KEPT, |double, folder| {
            double.edit(|inventory| {
                inventory.servers = NODES.map(server).to_vec();
                for (uuid, login) in ACCOUNTS {
                    inventory.directory.put(site::with(account(login), json!({ "uuid": uuid })));
                }
                let admin = json!({ "uuid": "2c2457f2-0000-4000-8000-0000000000ad" });
                inventory.directory.put(site::with(account("admin"), admin));
                for number in KEPT + 1..=VMS {
                    inventory.put_vm(placed(number, first_account(number), NODES[usize::from(number) % NODES.len()]));
                }
            });
            format!("{}, {LIST_EVERY}", directory::ufds(&double.url(Service::Ufds), folder, ""))
        });
        let mut untouched: BTreeMap<&'static str, BTreeSet<u8>> = BTreeMap::new();
        for number in 1..=VMS {
            untouched.entry(ACCOUNTS[first_account(number)].1).or_default().insert(number);
        }
        let live = (1..=VMS).collect();
        let (random, stopped, log) = (Random::new(seed, 0), BTreeMap::new(), Vec::new());
        let mut world = World { datacenter, random, live, next: VMS + 1, untouched, stopped, log };
        site::wait("all are in service", || world.lost().is_empty().then_some(()));
        world
    }

    /// Instances that are missing although they were never touched.
    fn lost(&mut self) -> Vec<Ipv4Addr> {
        let mut lost = Vec::new();
        for (login, numbers) in &self.untouched {
            let found = self.datacenter.resolver.addresses(&format!("web.svc.{login}"));
            lost.extend(numbers.iter().map(|number| site::address(*number)).filter(|wanted| !found.contains(wanted)));
        }
        lost
    }

    fn touch(&mut self, number: u8) {
        self.untouched.values_mut().for_each(|numbers| numbers.retain(|other| *other != number));
    }

    /// Notes that all instances were touched that `is_touched` names by what the datacenter has of them.
    fn touch_where(&mut self, is_touched: impl Fn(&Value) -> bool) {
        for number in self.live.clone() {
            if self.datacenter.double.edit(|inventory| is_touched(inventory.vm(&uuid(number)))) {
                assert!(number > KEPT, "{number} is to be kept");
                self.touch(number);
            }
        }
    }

    /// An instance that may be touched, which it is from now on.
    fn any(&mut self) -> u8 {
        let numbers: Vec<u8> = self.live.range(KEPT + 1..).copied().collect();
        let number = *self.random.pick(&numbers);
        self.touch(number);
        number
    }

    /// One edit of the inventory or of accounts.
    fn edit(&mut self) -> String {
        let kind = self.random.below(100);
        match kind {
            0..15 => self.add(),
            15..70 => self.edit_vm(kind),
            70..82 => self.edit_node(),
            _ => self.edit_account(),
        }
    }

    fn add(&mut self) -> String {
        let (number, account) = (self.next, self.random.below(ACCOUNTS.len()));
        let node = if self.random.chance(20) { LATE_NODE } else { *self.random.pick(&NODES) };
        let state = *self.random.pick(&["running", "running", "provisioning"]);
        let vm = site::with(placed(number, account, node), json!({ "state": state }));
        self.datacenter.double.edit(|inventory| inventory.put_vm(vm));
        self.live.insert(number);
        self.next += 1;
        format!("{number} comes, {state}, on {node}")
    }

    fn edit_vm(&mut self, kind: usize) -> String {
        let number = self.any();
        let (field, value) = match kind {
            15..25 => {
                self.live.remove(&number);
                self.datacenter.double.edit(|inventory| match self.random.below(4) {
                    0 => inventory.forget_vm(&uuid(number)),
                    1 => inventory.vm(&uuid(number))["state"] = json!("failed"),
                    _ => inventory.destroy_vm(&uuid(number)),
                });
                return format!("{number} goes");
            }
            25..35 => ("state", json!(self.random.pick(&["running", "running", "stopped"]))),
            35..47 => {
                let status = self.random.pick(&["up", "up", "down", ""]);
                ("customer_metadata", json!({ "triton.cns.status": status }))
            }
            47..57 => {
                let services = self.random.pick(&["web:8080", "web:8080", "web,db:1,db:2", "", "w e b"]);
                let mut tags = json!({ "triton.cns.services": services });
                match self.random.below(5) {
                    0 => tags["triton.cns.disable"] = json!(true),
                    1 => tags["triton.cns.reverse_ptr"] = json!(format!("host{number}.example.com")),
                    _ => {}
                }
                ("tags", tags)
            }
            57..62 => ("alias", json!(format!("name{number}-{}", self.random.below(5)))),
            62..66 => ("server_uuid", json!(self.random.pick(&NODES))),
            _ => ("owner_uuid", json!(self.random.pick(&ACCOUNTS).0)),
        };
        let edit = format!("{field} of {number} is {value}");
        self.datacenter.double.edit(|inventory| inventory.vm(&uuid(number))[field] = value);
        edit
    }

    /// Instances up to [`KEPT`] are on the first two nodes.
    fn edit_node(&mut self) -> String {
        let node = *self.random.pick(&NODES[2..]);
        let status = *self.random.pick(&["running", "running", "rebooting", "unknown"]);
        self.touch_where(|vm| vm["server_uuid"] == node);
        self.datacenter.double.edit(|inventory| inventory.server(node).expect("a node")["status"] = json!(status));
        format!("{node} is {status}")
    }

    /// Instances up to [`KEPT`] are of the first account.
    fn edit_account(&mut self) -> String {
        let (uuid, login) = *self.random.pick(&ACCOUNTS[1..]);
        self.touch_where(|vm| vm["owner_uuid"] == uuid);
        let (field, value) = match self.random.below(6) {
            0 => ("approved_for_provisioning", "false"),
            1 => ("approved_for_provisioning", "true"),
            2 => ("triton_cns_enabled", "false"),
            3 => ("triton_cns_enabled", "true"),
            4 => ("login", login),
            _ => ("login", if login == "blue" { "azure" } else { "bay" }),
        };
        self.datacenter.double.edit(|inventory| inventory.directory.account(uuid)[field] = json!(value));
        format!("{field} of {login} is {value}")
    }

    /// One switch of the services.
    fn switch(&mut self, step: usize) -> String {
        let at = self.random.below(SERVICES.len());
        let (double, random, service) = (&self.datacenter.double, &mut self.random, SERVICES[at]);
        match random.below(10) {
            0 | 1 => {
                let (steps, is_silent) = (random.between(1, 20), random.chance(20));
                if is_silent {
                    double.silence(service, true);
                } else {
                    double.refuse(service, true);
                }
                self.stopped.insert(at, step + steps);
                format!("{service:?} stops for {steps} steps, silent: {is_silent}")
            }
            2 | 3 => {
                let failures = random.between(1, 6);
                double.fail(service, failures as u32);
                format!("{service:?} fails {failures} times")
            }
            4 | 5 => {
                let cut = *random.pick(&[Cut::Drop, Cut::Drop, Cut::Close, Cut::Stall]);
                double.cut_feeds(cut);
                format!("the feed is cut, {cut:?}")
            }
            6 => {
                let items = random.between(1, 3);
                double.drop_items(items as u32);
                format!("{items} items are dropped")
            }
            7 => {
                let repeats = random.chance(50);
                double.repeat_items(repeats);
                format!("items are doubled: {repeats}")
            }
            8 => {
                let (most, delay) = (random.between(1, 20), random.below(80));
                double.shrink_pages(Some(most));
                double.delay(service, Duration::from_millis(delay as u64));
                format!("pages shrink from {most}, {service:?} is late by {delay} ms")
            }
            _ => {
                let forgets = random.chance(50);
                double.cut_directory();
                if forgets {
                    double.edit(|inventory| inventory.directory.forget_log());
                }
                format!("UFDS is cut, and forgets its log: {forgets}")
            }
        }
    }

    /// Lets services answer again whose time has come.
    fn resume(&mut self, step: usize) {
        self.stopped.retain(|at, until| {
            let is_over = *until <= step;
            if is_over {
                self.datacenter.double.refuse(SERVICES[*at], false);
                self.datacenter.double.silence(SERVICES[*at], false);
            }
            !is_over
        });
    }

    /// Ends all faults. What was dropped of the feed is found by the next listing.
    fn calm(&mut self) {
        let double = &self.datacenter.double;
        for service in SERVICES {
            double.refuse(service, false);
            double.silence(service, false);
            double.fail(service, 0);
            double.delay(service, Duration::ZERO);
        }
        double.drop_items(0);
        double.repeat_items(false);
        double.shrink_pages(None);
    }

    /// Looks for those who must be there, as often as is asked for.
    fn watch(&mut self, looks: usize, seed: u64) {
        for _ in 0..looks {
            let lost = self.lost();
            assert!(lost.is_empty(), "seed {seed}: {lost:?} were lost after\n{}", self.log.join("\n"));
            // Only the rhythm of the edits; nothing depends on it.
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

/// Instances that are to be in the service of an account, by what the datacenter has of them.
fn in_service(double: &Double, account: &str) -> Vec<Ipv4Addr> {
    double.edit(|inventory| {
        let owner = inventory.directory.account(account).clone();
        let is_on = |field: &str| owner[field] != "false";
        let is_approved = is_on("triton_cns_enabled") && is_on("approved_for_provisioning");
        let mut found = Vec::new();
        for uuid in inventory.vm_uuids() {
            let vm = inventory.vm(&uuid).clone();
            let node = vm["server_uuid"].as_str().expect("a node");
            let is_up = inventory.server(node).is_some_and(|node| node["status"] != "rebooting")
                && vm["state"] == "running"
                && vm["customer_metadata"]["triton.cns.status"].as_str().unwrap_or("up") == "up";
            let services = vm["tags"]["triton.cns.services"].as_str().unwrap_or_default();
            let is_listed = is_approved && vm["tags"]["triton.cns.disable"].is_null();
            if vm["owner_uuid"] == account && is_up && is_listed && services.starts_with("web") {
                let address = vm["nics"][0]["ips"][0].as_str().and_then(|text| text.split_once('/'));
                found.push(address.expect("an address").0.parse().expect("an address"));
            }
        }
        found.sort();
        found
    })
}

/// Records of both zones without those that differ by serial.
fn records(site: &Site) -> Option<Vec<Record>> {
    let mut client = Client::new(site.daemon.address());
    let mut records = Vec::new();
    for zone in [site::ZONE, site::REVERSE] {
        records.extend(client.transfer(&Dname::parse(zone)).ok()?);
    }
    records.retain(|record| record.rtype != rtype::SOA);
    Some(records)
}

#[test]
fn random_edits_and_faults_end_in_what_a_fresh_listing_gives() {
    let seed = std::env::var("AGGREGATOR_TRITON_SEED").map_or(20_261_126, |seed| seed.parse().expect("a number"));
    println!("seed {seed}: AGGREGATOR_TRITON_SEED={seed} repeats these edits");
    let mut world = World::start(seed);
    let begun = Instant::now();
    for step in 0..STEPS {
        world.resume(step);
        let done = if world.random.chance(25) { world.switch(step) } else { world.edit() };
        world.log.push(format!("{step}: {done}"));
        if step == STEPS / 3 {
            world.datacenter.site.daemon.kill_and_restart(|| ());
            world.datacenter.resolver = world.datacenter.site.resolver();
            world.log.push("the daemon is killed and started".to_owned());
        }
        if step == STEPS / 2 {
            world.datacenter.double.edit(|inventory| inventory.servers.push(server(LATE_NODE)));
            world.log.push("the late node comes".to_owned());
        }
        let looks = world.random.below(12);
        world.watch(looks, seed);
    }
    println!("{STEPS} steps took {:.1?}; {} are left untouched", begun.elapsed(), world.untouched["acme"].len());
    world.calm();
    let calm = Instant::now();
    let fresh = Site::start_with(&world.datacenter.source, RULES);
    fresh.wait_status("all is listed", |source| source["reading"] == "current");
    let mut last = None;
    site::wait("both are equal", || {
        world.watch(1, seed);
        last = match (records(&world.datacenter.site), records(&fresh)) {
            (Some(followed), Some(listed)) => difference(&followed, &listed),
            (followed, listed) => Some(format!("zones: {} and {}", followed.is_some(), listed.is_some())),
        };
        if calm.elapsed() > site::DEADLINE - Duration::from_secs(5) {
            panic!("seed {seed}: they differ, {last:?} after\n{}", world.log.join("\n"));
        }
        last.is_none().then_some(())
    });
    println!("equal {:.1?} after the last fault", calm.elapsed());
    for (account, _) in ACCOUNTS {
        let wanted = in_service(&world.datacenter.double, account);
        println!("{account}: {} in service", wanted.len());
        assert_eq!(world.datacenter.resolver.addresses(&format!("web.svc.{account}")), wanted, "seed {seed}");
    }
}
