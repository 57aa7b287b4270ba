//! Inventories of the tests: those of the golden cases, and small ones of one account.

#![allow(dead_code, reason = "each test program uses some of it")]

use inventory::config::{Config, ForwardZone, Reverse};
use inventory::model::{
    Account, Change, Element, Interface, Inventory, Mac, Metadata, Moment, Network, NetworkPool, Nic, Server,
    ServerStatus, State, Tag, TagValue, Uuid, Vm,
};
use inventory::roster::Roster;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::Duration;
use wire::name::Name;
use wire::rr::{RdataText, TypeName};

pub const ACME: &str = "2c2457f2-0000-4000-8000-00000000000a";
pub const EXTERNAL: &str = "e0000000-0000-4000-8000-000000000001";

/// Records by zone and owner name, both relative and as text.
pub type Zones = BTreeMap<String, BTreeMap<String, BTreeSet<String>>>;

pub fn upstream() -> Value {
    serde_json::from_str(include_str!("../data/cases.json")).unwrap()
}

/// Milliseconds of a time as upstream writes it.
pub fn moment(text: &Value) -> Moment {
    let numbers: Vec<i64> =
        text.as_str().unwrap().split(|c: char| !c.is_ascii_digit()).filter_map(|part| part.parse().ok()).collect();
    let [year, month, day, hour, minute, second, millis] = numbers[..] else { panic!("no time: {text}") };
    // Days since 1970 by the calendar's cycle of 400 years.
    let (y, m) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let days = 365 * y + y / 4 - y / 100 + y / 400 + (153 * m + 2) / 5 + day - 1 - 719_468;
    Moment((((days * 24 + hour) * 60 + minute) * 60 + second) * 1000 + millis)
}

pub fn config_of(config: &Value) -> Config {
    // The order of zones counts, and a parsed object has lost it: the text has it.
    let zones = config["forward_zones"].as_object().unwrap();
    let text = include_str!("../data/cases.json");
    let mut forward: Vec<ForwardZone> = zones
        .iter()
        .map(|(origin, zone)| ForwardZone {
            origin: Name::parse(origin).unwrap(),
            networks: zone["networks"].as_array().unwrap().iter().map(|name| name.as_str().unwrap().into()).collect(),
        })
        .collect();
    forward.sort_by_key(|zone| text.find(&format!("\"{}\"", zone.origin.to_string().trim_end_matches('.'))));
    Config {
        use_login: config["use_login"].as_bool().unwrap(),
        use_alias: config["use_alias"].as_bool().unwrap(),
        cmon: true,
        operator_logins: true,
        upstream_cn_rules: true,
        forward,
        reverse: Reverse::Auto,
        ..Config::default()
    }
}

fn uuid(value: &Value) -> Option<Uuid> {
    value.as_str().map(|text| text.parse().unwrap())
}

fn text(value: &Value) -> Option<Box<str>> {
    value.as_str().map(Box::from)
}

fn items(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn mac(value: &Value) -> Option<Mac> {
    let octets: Vec<u8> = value.as_str()?.split(':').map(|octet| u8::from_str_radix(octet, 16).unwrap()).collect();
    Some(Mac(octets.try_into().unwrap()))
}

fn addresses(nic: &Value) -> (Box<[IpAddr]>, bool) {
    let mut texts: Vec<&str> = items(&nic["ips"]).map(|text| text.as_str().unwrap()).collect();
    if texts.is_empty() {
        texts.extend(nic["ip"].as_str());
    }
    let fixed: Vec<IpAddr> = texts.iter().filter_map(|text| text.split('/').next()?.parse().ok()).collect();
    let dynamic = texts.len() > fixed.len();
    (fixed.into(), dynamic)
}

pub fn inventory_of(case: &Value) -> Inventory {
    let flag = |value: &Value| value.as_str().is_some_and(|text| !text.is_empty() && text != "false");
    let vm = |vm: &Value| Vm {
        uuid: uuid(&vm["uuid"]).unwrap(),
        alias: text(&vm["alias"]),
        owner: uuid(&vm["owner_uuid"]),
        server: uuid(&vm["server_uuid"]),
        state: match vm["state"].as_str().unwrap() {
            "running" => State::Running,
            "failed" => State::Failed,
            "destroyed" => State::Destroyed,
            _ => State::Other,
        },
        destroyed: vm["destroyed"].as_str().is_some_and(|text| !text.is_empty()),
        created: vm["create_timestamp"].as_str().map(|_| moment(&vm["create_timestamp"])),
        tags: vm["tags"]
            .as_object()
            .unwrap()
            .iter()
            .filter_map(|(key, value)| {
                let value = match value {
                    Value::String(text) => TagValue::Text(text.as_str().into()),
                    Value::Bool(flag) => TagValue::Flag(*flag),
                    _ => TagValue::Other,
                };
                Some((Tag::named(key)?, value))
            })
            .collect(),
        metadata: vm["customer_metadata"]
            .as_object()
            .unwrap()
            .iter()
            .filter_map(|(key, value)| Some((Metadata::named(key)?, text(value)?)))
            .collect(),
        nics: items(&vm["nics"])
            .map(|nic| {
                let (addresses, dynamic) = addresses(nic);
                let vlan_id = nic["vlan_id"].as_u64().unwrap_or_default() as u16;
                let network = uuid(&nic["network_uuid"]);
                Interface {
                    mac: mac(&nic["mac"]),
                    nic_tag: text(&nic["nic_tag"]),
                    vlan_id,
                    network,
                    addresses,
                    dynamic,
                }
            })
            .collect(),
    };
    let account = |account: &Value| Account {
        uuid: uuid(&account["uuid"]).unwrap(),
        login: text(&account["login"]).unwrap(),
        cns_enabled: flag(&account["triton_cns_enabled"]),
        approved: flag(&account["approved_for_provisioning"]),
    };
    let network = |network: &Value| Network {
        uuid: uuid(&network["uuid"]).unwrap(),
        name: text(&network["name"]).unwrap(),
        owners: items(&network["owner_uuids"]).filter_map(uuid).collect(),
        nic_tag: text(&network["nic_tag"]),
        vlan_id: network["vlan_id"].as_u64().map(|vlan| vlan as u16),
    };
    let pool = |pool: &Value| NetworkPool {
        uuid: uuid(&pool["uuid"]).unwrap(),
        networks: items(&pool["networks"]).filter_map(uuid).collect(),
    };
    let nic = |nic: &Value| {
        let (addresses, dynamic) = addresses(nic);
        Nic {
            mac: mac(&nic["mac"]).unwrap(),
            belongs_to: uuid(&nic["belongs_to_uuid"]),
            network: uuid(&nic["network_uuid"]),
            nic_tag: text(&nic["nic_tag"]),
            vlan_id: nic["vlan_id"].as_u64().unwrap_or_default() as u16,
            addresses,
            dynamic,
        }
    };
    let server = |server: &Value| Server {
        uuid: uuid(&server["uuid"]).unwrap(),
        hostname: text(&server["hostname"]).unwrap(),
        setup: server["setup"].as_bool().unwrap(),
        status: match server["status"].as_str().unwrap() {
            "running" => ServerStatus::Running,
            "rebooting" => ServerStatus::Rebooting,
            _ => ServerStatus::Unknown,
        },
        last_boot: server["last_boot"].as_str().map(|_| moment(&server["last_boot"])),
        last_heartbeat: server["last_heartbeat"].as_str().map(|_| moment(&server["last_heartbeat"])),
        admin_nic_tag: None,
    };
    Inventory {
        vms: items(&case["vms"]).map(vm).collect(),
        accounts: items(&case["accounts"]).map(account).collect(),
        networks: items(&case["networks"]).map(network).collect(),
        network_pools: items(&case["network_pools"]).map(pool).collect(),
        nics: items(&case["nics"]).map(nic).collect(),
        servers: items(&case["servers"]).map(server).collect(),
    }
}

/// All records of a roster; zones without any are left out.
pub fn records(roster: &Roster) -> Zones {
    let mut all = Zones::new();
    for zone in roster.zones() {
        let mut names = BTreeMap::new();
        for owner in roster.zone_names(&zone) {
            let relative = owner.to_string();
            // The text of a name is in lower case; UUIDs and labels of accounts are, too.
            let relative = relative.strip_suffix(&format!(".{zone}")).unwrap_or("@").to_owned();
            let mut texts = BTreeSet::new();
            for set in roster.records_at(&zone, &owner) {
                assert_eq!(set.ttl, 30);
                texts.extend(
                    set.rdatas().map(|rdata| format!("{} {}", TypeName(set.rtype), RdataText(set.rtype, rdata))),
                );
            }
            names.insert(relative, texts);
        }
        if !names.is_empty() {
            all.insert(zone.to_string().trim_end_matches('.').to_owned(), names);
        }
    }
    all
}

/// Removes everything, and expects nothing to be left.
pub fn publish_all(roster: &mut Roster, now: Moment) {
    roster.replace(Inventory::default(), now);
    roster.settle(now);
    assert_eq!(records(roster), Zones::new());
}

/// One zone with all networks.
pub fn plain_config() -> Config {
    let networks = vec!["*".into()];
    let forward = vec![ForwardZone { origin: Name::parse("dc1.cns.example.com").unwrap(), networks }];
    Config { use_login: false, forward, reverse: Reverse::Auto, ..Config::default() }
}

pub fn member_uuid(number: u8) -> Uuid {
    Uuid::from_u128(0x1111_0000_0000_4000_8000_0000_0000_0000 + u128::from(number))
}

/// An instance of the account with the service `web`.
pub fn member(number: u8) -> Vm {
    Vm {
        uuid: member_uuid(number),
        alias: Some(format!("web{number}").into()),
        owner: Some(ACME.parse().unwrap()),
        server: None,
        state: State::Running,
        destroyed: false,
        created: Some(Moment(i64::from(number))),
        tags: [(Tag::Services, TagValue::Text("web:80".into()))].into(),
        metadata: Box::default(),
        nics: [Interface {
            mac: None,
            nic_tag: Some("external".into()),
            vlan_id: 0,
            network: Some(EXTERNAL.parse().unwrap()),
            addresses: [IpAddr::from([198, 51, 100, number])].into(),
            dynamic: false,
        }]
        .into(),
    }
}

pub fn account(uuid: &str, login: &str) -> Account {
    Account { uuid: uuid.parse().unwrap(), login: login.into(), cns_enabled: true, approved: true }
}

pub fn network(uuid: &str, name: &str) -> Network {
    Network { uuid: uuid.parse().unwrap(), name: name.into(), owners: Box::default(), nic_tag: None, vlan_id: None }
}

/// An account, a network, and so many instances.
pub fn addressed(members: u8) -> Inventory {
    Inventory {
        vms: (1..=members).map(member).collect(),
        accounts: vec![account(ACME, "acme")],
        networks: vec![network(EXTERNAL, "external")],
        ..Inventory::default()
    }
}

pub const NOW: Moment = Moment(1_700_000_000_000);

pub fn after(seconds: u64) -> Moment {
    NOW.plus(Duration::from_secs(seconds))
}

pub fn roster(config: Config, inventory: Inventory) -> Roster {
    let mut roster = Roster::new(config, NOW);
    roster.replace(inventory, NOW);
    roster.settle(NOW);
    roster
}

pub fn put(roster: &mut Roster, vm: Vm, now: Moment) {
    roster.apply(Change::Put(Element::Vm(vm)), now);
}

pub fn tagged(number: u8, tag: &str) -> Vm {
    Vm { tags: [(Tag::Services, TagValue::Text(tag.into()))].into(), ..member(number) }
}

/// The names of the forward zone.
pub fn names(roster: &Roster) -> Vec<String> {
    records(roster).remove("dc1.cns.example.com").unwrap_or_default().into_keys().collect()
}

pub fn has(roster: &Roster, name: &str, record: &str) -> bool {
    let zones = records(roster);
    zones.get("dc1.cns.example.com").and_then(|names| names.get(name)).is_some_and(|texts| texts.contains(record))
}
