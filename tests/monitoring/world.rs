//! Three datacenters on one primary, two replicas of our daemon that reach each over a relay of its own, and
//! Prometheus.

use super::harness::*;
use super::secondary::Secondary;
use serde_json::json;
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use triton_double::{Double, Service};

pub const REGION: &str = "us-west.cns.example.com.";
pub const ZONES: [&str; 3] = ["us-west-1.cns.example.com.", "us-west-2.cns.example.com.", "us-west-3.cns.example.com."];
/// A catalog that lists datacenters.
pub const CATALOG: &str = "catalog.test.";
/// A zone that is made of an inventory, and the inventory.
pub const MADE: &str = "made.test.";
pub const INVENTORY: &str =
    r#"{"format":1,"vms":[{"alias":"a","owner":"o","addresses":"192.0.2.1","services":"web"}]}"#;
/// The accounts of a Triton datacenter, and its instance.
const ACCOUNTS: &str = r#"{"accounts":[{"uuid":"2c2457f2-0000-4000-8000-00000000000a","login":"acme",
    "triton_cns_enabled":"true","approved_for_provisioning":"true"}]}"#;
pub const FOLLOWED_VM: &str = "11110000-0000-4000-8000-000000000001";
/// A zone that is made of what services write into ZooKeeper, and its node there.
pub const TREE: &str = "emy-10.example.com.";
pub const NODE: &str = "/com/example/emy-10";
/// A zone that is made of what the services of a Triton datacenter know.
pub const FOLLOWED: &str = "followed.test.";
/// More than anything here takes.
pub const PATIENCE: Duration = Duration::from_secs(120);
/// For how long nothing may fire before all counts as well.
const QUIET: Duration = Duration::from_secs(3);

/// Times that are shorter in the copy of the rules that the tests use; each stands in the real files.
const SHORTER: [(&str, &str); 15] = [
    ("for: 1m\n", "for: 1s\n"),
    ("for: 2m\n", "for: 1s\n"),
    ("for: 5m\n", "for: 1s\n"),
    ("for: 10m\n", "for: 1s\n"),
    ("for: 15m\n", "for: 1s\n"),
    ("for: 30m\n", "for: 1s\n"),
    ("for: 1h\n", "for: 1s\n"),
    ("[5m]", "[10s]"),
    ("[10m]", "[10s]"),
    ("[15m]", "[60s]"),
    ("offset 5m", "offset 3s"),
    // An inventory that has nothing to say is confirmed every ten seconds.
    ("clamp_min(2 * aggregator_zone_refresh_seconds, 600)", "clamp_min(0 * aggregator_zone_refresh_seconds, 15)"),
    ("timestamp_seconds > 86400", "timestamp_seconds > 2"),
    ("> 0) > 1800", "> 0) > 2"),
    ("behind_since_timestamp_seconds > 600", "behind_since_timestamp_seconds > 2"),
];

/// Settings of a world at its start.
pub struct Plan {
    /// The expire time of the datacenters' zones, in seconds.
    pub expire: u32,
    /// True if the first datacenter cannot be reached.
    pub missing: bool,
    /// True if there are secondaries, damping, a zone with conflicts and a large set, and a dead primary, for series
    /// that a quiet world has not.
    pub busy: bool,
    /// True if name servers are checked; the datacenters' primary is the parent, and not one of those that are listed.
    pub probed: bool,
    /// True if both replicas also have a tree of a ZooKeeper.
    pub tree: bool,
    /// True if both replicas also make a zone of an inventory, which the datacenters' primary has, too.
    pub inventory: bool,
    /// True if both replicas also follow the services of a Triton datacenter.
    pub followed: bool,
    /// True if the datacenters' primary gives differences.
    pub incremental: bool,
    /// True if the region is steered, and all who ask are clients of the last datacenter.
    pub steered: bool,
    /// True if both replicas also follow a catalog of the datacenters' primary.
    pub catalog: bool,
    /// The budget of memory, where it is not the default.
    pub memory: Option<&'static str>,
    /// What is done with the folder of the first replica before it starts; returns variables of its environment.
    pub prepare: fn(&Path) -> Vec<(&'static str, String)>,
}

impl Default for Plan {
    fn default() -> Plan {
        Plan {
            expire: 2_592_000,
            missing: false,
            busy: false,
            probed: false,
            tree: false,
            inventory: false,
            followed: false,
            incremental: false,
            steered: false,
            catalog: false,
            memory: None,
            prepare: |_| Vec::new(),
        }
    }
}

/// Everything there is.
pub struct World {
    pub primary: Peer,
    /// By replica and datacenter.
    pub relays: Vec<Vec<Relay>>,
    pub replicas: Vec<Aggregator>,
    pub prometheus: Prometheus,
    pub zookeeper: Option<ZooKeeper>,
    /// The services of a Triton datacenter.
    pub triton: Option<Double>,
    /// The secondary of the zone of the inventory, before the datacenters' primary.
    pub secondary: Secondary,
    /// The inventory of each replica.
    pub inventories: Vec<PathBuf>,
    /// The rules of all alerts that were waited for and came.
    seen: RefCell<BTreeSet<String>>,
    instances: Vec<String>,
    _folder: Folder,
}

impl World {
    /// Starts everything and, unless something is wrong from the beginning, waits until nothing fires.
    pub fn start(plan: &Plan) -> World {
        let folder = Folder::new();
        let mut zones: Vec<ZoneText> = (0..3)
            .map(|site| (Dname::parse(ZONES[site]), write_zone(&zone_records(site, 1000, 20, plan.expire))))
            .collect();
        zones.push((Dname::parse(MADE), write_zone(&rival_records(1))));
        zones.push((Dname::parse(CATALOG), catalog_text(1, &[])));
        let triton = plan.followed.then(start_triton);
        let zookeeper = plan.tree.then(|| start_zookeeper(&folder));
        let start = if plan.incremental { Knotd::start_incremental } else { Knotd::start };
        let primary = start(&folder, &zones);
        let relay = |seed| {
            let mut port = Port::reserve();
            Relay::start(port.release(), primary.address(), seed)
        };
        let relays: Vec<Vec<Relay>> = (0..2).map(|_| (0..3).map(relay).collect()).collect();
        if plan.missing {
            relays.iter().for_each(|of_replica| of_replica[0].cut(true));
        }
        let home = |replica| folder.subfolder(&format!("replica{replica}"));
        let inventories: Vec<PathBuf> = (0..2).map(|replica| home(replica).join("inventory.json")).collect();
        inventories.iter().for_each(|path| write_file(path, INVENTORY));
        (0..2).for_each(|replica| write_file(&home(replica).join("accounts.json"), ACCOUNTS));
        let secondary = Secondary::start(primary.address());
        let replicas: Vec<Aggregator> = (0..2)
            .map(|replica| {
                let (zookeeper, triton) = (zookeeper.as_ref(), triton.as_ref());
                let mut settings = settings(plan, replica, &relays[replica], zookeeper, triton, secondary.address);
                if replica == 0 {
                    settings.environment = (plan.prepare)(&home(replica));
                }
                Aggregator::start_with(&home(replica), &settings)
            })
            .collect();
        let instances: Vec<String> = replicas.iter().map(|replica| replica.metrics_address().to_string()).collect();
        let prometheus = Prometheus::start(&folder, &prometheus_files(&instances));
        let seen = RefCell::default();
        let world = World {
            primary,
            relays,
            replicas,
            prometheus,
            zookeeper,
            triton,
            secondary,
            inventories,
            seen,
            instances,
            _folder: folder,
        };
        if !plan.missing && !plan.busy && !plan.probed {
            world.wait_quiet();
        }
        world
    }

    /// The label of a replica.
    pub fn instance(&self, replica: usize) -> String {
        self.instances[replica].clone()
    }

    /// The alerts of a rule that fire now.
    pub fn firing(&self, name: &str) -> Vec<Alert> {
        self.prometheus.alerts().into_iter().filter(|alert| alert.is_firing && alert.name() == name).collect()
    }

    /// Waits until an alert fires with these labels. Its texts must be written out.
    pub fn wait_firing(&self, name: &str, labels: &[(&str, &str)]) -> Alert {
        let is_meant = |alert: &Alert| {
            labels.iter().all(|(label, value)| alert.labels.get(*label).is_some_and(|found| found == value))
        };
        let alert = wait_until(&format!("{name} fires with {labels:?}"), PATIENCE, || {
            self.firing(name).into_iter().find(is_meant)
        });
        for text in alert.annotations.values() {
            assert!(!text.is_empty() && !text.contains(['{', '<']), "{alert:?}");
        }
        self.seen.borrow_mut().insert(name.to_string());
        alert
    }

    /// Ends everything, and tells the rules of all alerts that were waited for and came.
    pub fn into_seen(self) -> BTreeSet<String> {
        self.seen.take()
    }

    /// Demands that nothing fires but alerts of these rules.
    pub fn assert_only(&self, names: &[&str]) {
        let firing = self.prometheus.alerts().into_iter().filter(|alert| alert.is_firing);
        let others: Vec<Alert> = firing.filter(|alert| !names.contains(&alert.name())).collect();
        assert!(others.is_empty(), "{others:?}");
    }

    /// Waits until both replicas are scraped, are complete and agree, and nothing has fired for a while.
    pub fn wait_quiet(&self) {
        let (mut since, mut told) = (None, String::new());
        wait_until("all is well for a while", PATIENCE, || {
            let complete =
                self.prometheus.query(&format!("aggregator_region_members{{region=\"{REGION}\",state=\"ok\"}}"));
            let lag = self.prometheus.query("aggregator:region_serial_behind");
            let up = self.prometheus.query("count(up == 1)").first().map(|(_, count)| *count);
            let alerts = self.prometheus.alerts();
            let firing: Vec<_> = alerts.iter().filter(|alert| alert.is_firing).collect();
            let is_well = complete.len() == 2
                && complete.iter().all(|(_, count)| *count == 3.0)
                && lag.len() == 2
                && up == Some(2.0)
                && firing.is_empty();
            if !is_well {
                // Seen where the wait is in vain.
                let found = format!("not well: members {complete:?}, lag {lag:?}, up {up:?}, firing {firing:?}");
                if found != told {
                    eprintln!("{found}");
                    told = found;
                }
                since = None;
                return None;
            }
            let began = *since.get_or_insert_with(std::time::Instant::now);
            (began.elapsed() > QUIET).then_some(())
        });
    }

    /// Gives a replica an order, which it must obey.
    pub fn order(&self, replica: usize, arguments: &[&str]) {
        let output = self.replicas[replica].verb(arguments);
        assert_eq!(output.code, 0, "{output:?}");
    }

    /// Has one replica drain a datacenter, and the other one go back to what it had before a change.
    pub fn drain_and_pin(&self) {
        let earlier = Client::new(self.replicas[1].address()).serial(&Dname::parse(REGION)).expect("a serial");
        self.change(0, 1100);
        self.order(0, &["drain", ZONES[0], "--yes"]);
        self.order(1, &["rollback", REGION, "--to", &earlier.to_string(), "--yes"]);
    }

    /// Gives a datacenter's zone a serial, and waits until both replicas have it.
    pub fn change(&self, site: usize, serial: u32) {
        let zone = Dname::parse(ZONES[site]);
        self.primary.replace_zone(&zone, &zone_records(site, serial, 20, 2_592_000));
        for replica in &self.replicas {
            let mut client = Client::new(replica.address());
            wait_until("a replica has the change", PATIENCE, || (client.serial(&zone) == Some(serial)).then_some(()));
        }
    }

    /// Gives every panel something to show: queries of all kinds, transfers, a change with its announcement.
    pub fn be_busy(&self, serial: u32) {
        for replica in &self.replicas {
            let mut client = Client::new(replica.address());
            for name in
                ["web.svc.acme.us-west.cns.example.com", "nothing.us-west.cns.example.com", "elsewhere", "dead.test"]
            {
                // What is answered is another test's concern.
                let _ = client.ask(&Query::new(&Dname::parse(name), rtype::A));
                let _ = client.ask_tcp(&Query::new(&Dname::parse(name), rtype::A));
            }
            let _ = client.transfer(&Dname::parse(REGION));
            let _ = client.exchange_tcp(&signed_request());
        }
        self.primary.replace_zone(&Dname::parse(ZONES[0]), &zone_records(0, serial, 20, 2_592_000));
    }
}

/// An SOA question that is signed with a key that no server knows.
fn signed_request() -> Vec<u8> {
    let mut message = Query::new(&Dname::parse(REGION), rtype::SOA).encode(77);
    message[11] = 1;
    let rdata =
        [&Dname::parse("hmac-sha256.").0[..], &[0, 0, 0, 0, 0, 1, 1, 44, 0, 32], &[0; 32], &[0, 77, 0, 0, 0, 0]]
            .concat();
    message.extend_from_slice(&Dname::parse("nobody.test.").0);
    message.extend([250_u16, 255, 0, 0, rdata.len() as u16].map(u16::to_be_bytes).concat());
    message.extend(rdata);
    message
}

/// A datacenter's zone with so many instances of one service.
pub fn zone_records(site: usize, serial: u32, instances: u8, expire: u32) -> Vec<Record> {
    let zone = ZONES[site];
    let mut text = format!(
        "$ORIGIN {zone}\n$TTL 30\n@ IN SOA ns1.example.com. hostmaster.example.com. {serial} 30 60 {expire} 30\n\
         @ IN NS ns1.example.com.\n@ IN NS ns2.example.com.\n"
    );
    for host in 1..=instances {
        let address = format!("10.{site}.0.{host}");
        text.push_str(&format!("i{site}-{host}.inst.acme IN A {address}\nweb.svc.acme IN A {address}\n"));
    }
    // An alias in one datacenter and an address in another: a conflict, for those who want one.
    text.push_str(if site == 0 { "clash.acme IN CNAME web.svc.acme\n" } else { "clash.acme IN A 192.0.2.1\n" });
    read_zone(&text)
}

/// A server with a tree of one machine.
fn start_zookeeper(folder: &Folder) -> ZooKeeper {
    let server = ZooKeeper::start(folder);
    let machine = br#"{"type":"host","address":"10.0.0.1","host":{"address":"10.0.0.1"}}"#;
    let nodes = Znodes::connect(&[server.address()]);
    nodes.create(&format!("{NODE}/web"), machine);
    nodes.create(&format!("{NODE}/odd"), b"faulty");
    server
}

/// The zone of an inventory as another builder makes it.
pub fn rival_records(serial: u32) -> Vec<Record> {
    read_zone(&format!("$ORIGIN {MADE}\n@ 30 IN SOA ns. h. {serial} 30 60 2592000 30\n@ 30 IN NS ns.dc.invalid.\n"))
}

/// Services of a datacenter with one instance.
fn start_triton() -> Double {
    let server = json!({ "uuid": "c0000000-0000-4000-8000-000000000001", "hostname": "cn1", "setup": true,
                         "status": "running", "last_boot": "2026-01-01T00:00:00.000Z", "last_heartbeat": null,
                         "sysinfo": {} });
    let nic = json!({ "mac": "90:b8:d0:00:00:01", "nic_tag": "external", "vlan_id": 0,
                      "network_uuid": "e0000000-0000-4000-8000-000000000001", "ips": ["198.51.100.1/24"] });
    let vm = json!({ "uuid": FOLLOWED_VM, "alias": "web1", "owner_uuid": "2c2457f2-0000-4000-8000-00000000000a",
                     "server_uuid": server["uuid"], "state": "running", "destroyed": null,
                     "create_timestamp": "2026-02-01T10:00:00.000Z", "tags": {}, "customer_metadata": {},
                     "nics": [nic] });
    let network = json!({ "uuid": "e0000000-0000-4000-8000-000000000001", "name": "external" });
    let inventory = json!({ "vms": [vm], "servers": [server], "networks": [network], "network_pools": [] });
    Double::start(&inventory).expect("free ports")
}

/// The settings of a replica.
fn settings(
    plan: &Plan,
    replica: usize,
    relays: &[Relay],
    zookeeper: Option<&ZooKeeper>,
    triton: Option<&Double>,
    secondary: SocketAddr,
) -> Settings {
    let mut zones = String::new();
    for (zone, relay) in ZONES.iter().zip(relays) {
        zones.push_str(&format!("\"{zone}\" = \"{}\"\n", relay.address()));
    }
    if let Some(server) = zookeeper {
        zones.push_str(&format!("\"{TREE}\" = {{ zookeeper = \"{}\", session_timeout = \"4s\" }}\n", server.address()));
    }
    if plan.inventory {
        zones.push_str(&format!("\"{MADE}\" = {{ inventory = \"dc\", notify = [\"{secondary}\"] }}\n"));
    }
    if triton.is_some() {
        zones.push_str(&format!("\"{FOLLOWED}\" = {{ inventory = \"followed\" }}\n"));
    }
    let mut more = String::new();
    if plan.inventory {
        more.push_str("[inventories.dc]\nfile = \"inventory.json\"\naccounting = true\n");
    }
    if plan.inventory && !plan.busy {
        more.push_str("[secondaries]\nallow_transfer = [\"127.0.0.0/8\"]\n");
    }
    if let Some(double) = triton {
        let [vmapi, cnapi, napi] = [Service::Vmapi, Service::Cnapi, Service::Napi].map(|service| double.url(service));
        more.push_str(&format!(
            "[inventories.followed]\ntriton = {{ vmapi = \"{vmapi}\", cnapi = \"{cnapi}\", napi = \"{napi}\", \
             accounts = \"accounts.json\" }}\n"
        ));
    }
    if plan.busy {
        // Nobody collects, and what is dropped is shown, too.
        more.push_str("[dnstap]\ncollector = \"/nowhere/collector\"\n");
        let mut dead = Port::reserve();
        let dead = dead.release();
        zones.push_str(&format!("\"dead.test\" = \"{dead}\"\n"));
        // A name with an address has an alias as well, which none of the real servers would load.
        let text = "$ORIGIN odd.test.\n@ 60 IN SOA ns. h. 7 30 60 2592000 30\n@ 60 IN NS ns.dc.invalid.\n\
                    web 30 IN A 192.0.2.1\nweb 30 IN CNAME old\n";
        // Another has more addresses than resolvers take.
        let many = (0..101).map(|host| format!("many 30 IN A 192.0.2.{host}\n"));
        let text: String = std::iter::once(text.to_string()).chain(many).collect();
        let odd = start_unloadable_primary(read_zone(&text), &Arc::default());
        zones.push_str(&format!("\"odd.test\" = \"{odd}\"\n"));
        // The primary is no secondary of anything and says so at once; silence would be counted after a minute.
        let secondary = relays[0].address();
        more += &format!("[secondaries]\nallow_transfer = [\"127.0.0.0/8\"]\nnotify = [\"{secondary}\"]\n");
    }
    if plan.probed {
        let address = relays[0].address();
        more.push_str(&format!(
            "[probe]\nevery = \"1s\"\nresolver = \"{address}\"\nskip = [\"{}\", \"{}\"]\n\
             parents = {{ \"cns.example.com\" = \"{address}\" }}\n\
             hosts = {{ \"ns1.example.com\" = \"{address}\", \"ns2.example.com\" = \"{address}\" }}\n",
            ZONES[1], ZONES[2],
        ));
    }
    if plan.catalog {
        more.push_str(&format!("[catalogs.\"{CATALOG}\"]\nprimaries = \"{}\"\n", relays[0].address()));
    }
    if plan.steered {
        more.push_str(&format!("[clients]\n\"{}\" = [\"127.0.0.0/8\"]\n", ZONES[2]));
    }
    let steering = if plan.steered { "steering = { prefer = \"nearest\" }\n" } else { "" };
    let damping =
        if plan.busy { "damping = { max_removed = \"1/3\", window = \"60s\", last = \"600s\" }\n" } else { "" };
    let members = ZONES.map(|zone| format!("\"{zone}\"")).join(", ");
    let text = format!(
        "[transfer]\nrefresh_min = \"1s\"\nrefresh_max = \"1s\"\nretry_min = \"500ms\"\nretry_max = \"1s\"\nexpire_min = \"1s\"\n\
         connect_timeout = \"1s\"\nconfirm_after = \"1h\"\n{more}\n[zones]\n{zones}\n\
         [aggregations.\"{REGION}\"]\nmembers = [{members}]\npartial_after = \"2s\"\n{damping}{steering}"
    );
    let name = format!("ns{}.example.com", replica + 1);
    let server = plan.memory.map(|memory| format!("memory = \"{memory}\"\n")).unwrap_or_default();
    Settings { name, server, state: Some("state".to_string()), ..Settings::new(&text) }
}

/// A catalog that lists zones.
pub fn catalog_text(serial: u32, zones: &[&str]) -> String {
    let members: String =
        zones.iter().enumerate().map(|(label, zone)| format!("m{label}.zones 0 IN PTR {zone}\n")).collect();
    format!(
        "$ORIGIN {CATALOG}\n@ 0 IN SOA invalid. invalid. {serial} 3600 600 2592000 0\n@ 0 IN NS invalid.\n\
         version 0 IN TXT \"2\"\n{members}"
    )
}

/// The real files with shorter times, and these targets.
fn prometheus_files(instances: &[String]) -> Vec<(&'static str, String)> {
    let file = |name: &str| repository_text(&format!("deploy/prometheus/{name}"));
    let (mut rules, mut alerts) = (file("rules.yml"), file("alerts.yml"));
    let mut used = BTreeSet::new();
    for text in [&mut rules, &mut alerts] {
        for (long, short) in SHORTER {
            if text.contains(long) {
                used.insert(long);
                *text = text.replace(long, short);
            }
        }
        let is_long = |line: &&str| line.trim_start().starts_with("for: ") && !line.ends_with(" 1s");
        assert_eq!(text.lines().find(is_long), None, "a time that the tests do not shorten");
    }
    assert_eq!(used.len(), SHORTER.len(), "only {used:?} stand in the rules");
    let mut configuration = file("prometheus.yml");
    let targets = ["replica-1:9153", "replica-2:9153"].into_iter().zip(instances);
    let times = ["scrape_interval: 15s", "evaluation_interval: 15s"];
    let changes = times.map(|time| (time, time.replace("15s", "500ms"))).into_iter();
    for (from, to) in changes.chain(targets.map(|(from, to)| (from, to.clone()))) {
        assert_eq!(configuration.matches(from).count(), 1, "{from}");
        configuration = configuration.replace(from, &to);
    }
    vec![("prometheus.yml", configuration), ("rules.yml", rules), ("alerts.yml", alerts)]
}
