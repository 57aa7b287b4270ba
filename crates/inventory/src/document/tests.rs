//! What documents say, and what is said of wrong ones.

use super::*;
use crate::model::{Account, Interface, Metadata, State, Tag, TagValue, Vm};

/// Reads a document that is right.
fn right(text: &str) -> Document {
    read(Path::new("inventory"), text, "us-west-1").unwrap_or_else(|errors| panic!("{errors}\n{text}"))
}

/// What is said of a wrong document.
fn wrong(text: &str) -> String {
    read(Path::new("i"), text, "us-west-1").expect_err(text).to_string()
}

const SITE: &str = r#"
format = 1
[[vms]]
alias = "web1"
owner = "acme"
addresses = ["198.51.100.11", "2001:db8:1:100::11"]
services = "web:8080,frontdoor"
"#;

#[test]
fn the_short_form_is_a_whole_site() {
    let Document { inventory, serial, warnings } = right(SITE);
    assert_eq!((serial, warnings), (None, vec![]));
    let owner = Uuid::new_v5(&NAMESPACE, b"account/acme");
    let network = Uuid::new_v5(&NAMESPACE, b"network/us-west-1/default");
    let addresses = ["198.51.100.11", "2001:db8:1:100::11"].map(|text| text.parse().unwrap());
    let vm = Vm {
        uuid: Uuid::new_v5(&NAMESPACE, b"vm/us-west-1/acme/web1"),
        alias: Some("web1".into()),
        owner: Some(owner),
        server: None,
        state: State::Running,
        destroyed: false,
        created: None,
        tags: [(Tag::Services, TagValue::Text("web:8080,frontdoor".into()))].into(),
        metadata: [].into(),
        nics: [Interface {
            mac: None,
            nic_tag: None,
            vlan_id: 0,
            network: Some(network),
            addresses: addresses.into(),
            dynamic: false,
        }]
        .into(),
    };
    assert_eq!(inventory.vms, [vm]);
    assert_eq!(inventory.accounts, [Account { uuid: owner, login: "acme".into(), cns_enabled: true, approved: true }]);
    assert_eq!(inventory.networks.len(), 1);
    assert_eq!((inventory.networks[0].uuid, &*inventory.networks[0].name), (network, "default"));
}

#[test]
fn both_formats_say_the_same() {
    let json = r#"{"vms": [{"alias": "web1", "owner": "acme", "services": "web:8080,frontdoor", "uuid": null,
        "addresses": ["198.51.100.11", "2001:db8:1:100::11"]}], "format": 1, "count": 1, "servers": null}"#;
    assert_eq!(right(json), right(SITE));
}

#[test]
fn objects_of_triton_may_stand_as_they_are() {
    let text = r#"{"format": 1, "serial": 407818787, "vms": [{
        "uuid": "11110000-0000-4000-8000-00000000000b", "alias": "web11", "brand": "joyent", "ram": 512, "disks": [],
        "owner_uuid": "2c2457f2-0000-4000-8000-00000000000a", "server_uuid": "c0000000-0000-4000-8000-000000000001",
        "state": "running", "destroyed": null, "create_timestamp": "2026-02-01T10:00:00.000Z",
        "tags": {"triton.cns.services": "web:8080", "triton.cns.disable": false, "other": [1], "triton.cns.service": 1},
        "customer_metadata": {"triton.cns.status": "up", "user-script": "x"},
        "nics": [{"mac": "90:b8:d0:0:0:1", "nic_tag": "external", "vlan_id": 5, "mtu": 1500, "primary": true,
            "network_uuid": "e0000000-0000-4000-8000-000000000001", "ip": "198.51.100.11",
            "ips": ["198.51.100.11/24", "dhcp", "2001:db8::1/64"]}]}],
        "accounts": [{"uuid": "2c2457f2-0000-4000-8000-00000000000a", "login": "acme", "triton_cns_enabled": "FALSE",
            "approved_for_provisioning": "false"}],
        "servers": [{"uuid": "c0000000-0000-4000-8000-000000000001", "hostname": "cn1", "status": "running",
            "setup": true, "last_boot": "2026-03-01T00:00:00Z", "last_heartbeat": null,
            "sysinfo": {"Admin NIC Tag": "admin_rack_1"}}],
        "networks": [{"uuid": "e0000000-0000-4000-8000-000000000001", "name": "external", "mtu": 1500,
            "owner_uuids": ["2c2457f2-0000-4000-8000-00000000000a"]}],
        "network_pools": [{"uuid": "e0000000-0000-4000-8000-0000000000ff",
            "networks": ["e0000000-0000-4000-8000-000000000001"]}],
        "nics": [{"mac": "90b8d0000001", "belongs_to_uuid": "11110000-0000-4000-8000-00000000000b", "ip": "192.0.2.1"}]}"#;
    let Document { inventory, serial, warnings } = right(text);
    assert_eq!(serial, Some(407_818_787));
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    assert!(warnings[0].starts_with("inventory:5:96: tag \"triton.cns.service\" is not known"), "{warnings:?}");
    let vm = &inventory.vms[0];
    assert_eq!(vm.tags.len(), 2);
    assert_eq!(vm.metadata[..], [(Metadata::Status, "up".into())]);
    assert_eq!(vm.server, Some(inventory.servers[0].uuid));
    let nic = &vm.nics[0];
    assert_eq!((nic.mac, nic.vlan_id, nic.dynamic), (Some(inventory.nics[0].mac), 5, true));
    assert_eq!(nic.addresses.len(), 2);
    let account = &inventory.accounts[0];
    assert_eq!((account.cns_enabled, account.approved), (true, false));
    assert_eq!(inventory.servers[0].admin_nic_tag.as_deref(), Some("admin_rack_1"));
    assert_eq!(inventory.network_pools[0].networks[..], [inventory.networks[0].uuid]);
    // Without compute nodes there are no rules for them.
    let (before, rest) = text.split_once("\"servers\"").unwrap();
    let (_, after) = rest.split_once("\"networks\"").unwrap();
    let alone = right(&format!("{before}\"networks\"{after}"));
    assert_eq!(alone.inventory.vms[0].server, None);
}

#[test]
fn nothing_at_all_is_a_document_of_nothing() {
    for text in ["[]", " [ ]\n", r#"{"format":1,"vms":[]}"#, "format = 1\n", "\u{feff}format = 1\nvms = []"] {
        assert_eq!(right(text), Document::default(), "{text}");
    }
}

#[test]
fn an_account_is_one_by_login_and_by_its_derived_uuid() {
    let owner = derived(&["account", "acme"]);
    let text = format!(
        "format = 1\n[[vms]]\nalias = \"a\"\nowner = \"{owner}\"\naddresses = []\n[[vms]]\nalias = \"b\"\nowner = \"acme\"\n"
    );
    let Document { inventory, .. } = right(&text);
    assert_eq!(inventory.accounts.len(), 1);
    assert_eq!(&*inventory.accounts[0].login, "acme");
    assert_eq!(inventory.vms[0].uuid, derived(&["vm", "us-west-1", "acme", "a"]));
}

#[test]
fn lists_of_accounts_and_networks_are_complete() {
    let vm = "[[vms]]\nalias = \"a\"\nowner = \"acmee\"\naddresses = \"192.0.2.1\"\n";
    let text = format!("format = 1\naccounts = [{{ login = \"acme\" }}]\nnetworks = [{{ name = \"external\" }}]\n{vm}");
    assert_eq!(
        wrong(&text),
        "i:6:9: no account has the login \"acmee\"; did you mean \"acme\"?\n\
         i:7:13: \"networks\" has none of the name \"default\"; add it, or write \"nics\" instead of \"addresses\""
    );
    let Document { inventory, .. } = right(&text.replace("acmee", "acme").replace("external", "default"));
    assert_eq!((inventory.accounts.len(), inventory.networks.len()), (1, 1));
    assert_eq!(inventory.vms[0].nics[0].network, Some(inventory.networks[0].uuid));
    // What is named by a field of Triton's is never invented.
    let named = r#"{"format": 1, "vms": [{"alias": "a", "owner_uuid": "2c2457f2-0000-4000-8000-00000000000a"}]}"#;
    assert_eq!(right(named).inventory.accounts, []);
}

/// Wrong documents, and all that is said of each.
#[test]
fn everything_that_is_wrong_is_told_with_its_place() {
    let cases =
        std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/wrong-documents.txt")).unwrap();
    let mut count = 0;
    let mut new = String::new();
    for case in cases.split("==== ").skip(1) {
        let (title, rest) = case.split_once('\n').unwrap();
        let (text, said) = rest.split_once("----\n").unwrap();
        let found = wrong(text);
        new += &format!("==== {title}\n{text}----\n{found}\n");
        count += 1;
        if std::env::var_os("AGGREGATOR_WRITE_GOLDEN").is_none() {
            assert_eq!(found, said.trim_end(), "{title}");
        }
    }
    assert!(count >= 15, "{count}");
    if std::env::var_os("AGGREGATOR_WRITE_GOLDEN").is_some() {
        std::fs::write(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/wrong-documents.txt"), new).unwrap();
    }
}

#[test]
fn a_uuid_twice_is_told_with_both_places() {
    let one = r#"{"uuid": "11110000-0000-4000-8000-00000000000b", "owner": "a"}"#;
    let text = format!("{{\"format\": 1, \"vms\": [\n{one},\n  {one}]}}");
    let said = "i:3:3: instance 11110000-0000-4000-8000-00000000000b is there already, at i:2:1; keep one of them";
    assert_eq!(wrong(&text), said);
}

#[test]
fn a_thousand_errors_are_enough() {
    let vms = vec![r#"{"alias": 1, "owner": "a"}"#; 3000].join(",\n");
    let errors = read(Path::new("i"), &format!("{{\"format\": 1, \"vms\": [{vms}]}}"), "x").unwrap_err();
    assert_eq!(errors.0.len(), 1001);
    assert_eq!(errors.0[1000].message, "more is wrong from here on; correct what is listed first");
}

#[test]
fn what_is_too_long_is_refused() {
    let long = "x".repeat(MOST_ELEMENT_OCTETS);
    let text = format!(r#"{{"format": 1, "vms": [{{"alias": "{long}", "owner": "a"}}]}}"#);
    assert!(wrong(&text).starts_with("i:1:23: element of 1048603 octets; write at most 1 MiB"), "{}", wrong(&text));
    let toml = format!("format = 1\n# {}\n", "x".repeat(MOST_TOML_OCTETS));
    assert_eq!(wrong(&toml), "i:1:1: document in TOML of more than 64 MiB; write it in JSON");
}

/// The arrays of every golden case are a document, once they have its head.
#[test]
fn golden_cases_are_documents() {
    let text = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/cases.json")).unwrap();
    let golden: serde_json::Value = serde_json::from_str(&text).unwrap();
    let cases = golden["cases"].as_array().unwrap();
    assert_eq!(cases.len(), 22);
    for case in cases {
        let arrays = keys::ARRAYS.map(|key| (key.to_string(), case[key].clone()));
        let document: serde_json::Map<_, _> = arrays.into_iter().chain([("format".to_string(), 1.into())]).collect();
        let Document { inventory, warnings, .. } = right(&serde_json::Value::Object(document).to_string());
        let uuids: Vec<String> = inventory.vms.iter().map(|vm| vm.uuid.to_string()).collect();
        let wanted = case["vms"].as_array().unwrap().iter().map(|vm| vm["uuid"].as_str().unwrap().to_string());
        assert_eq!((uuids, warnings), (wanted.collect(), vec![]), "{}", case["id"]);
        assert_eq!(inventory.accounts.len(), case["accounts"].as_array().unwrap().len());
        assert_eq!(inventory.nics.len(), case["nics"].as_array().unwrap().len());
    }
}

/// A key that is read and not in the reference would be found by nobody.
#[test]
fn the_reference_has_all_keys() {
    let text = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/inventory-file.md")).unwrap();
    let objects = [keys::VM, keys::INTERFACE, keys::ACCOUNT, keys::NETWORK, keys::POOL, keys::NIC, keys::SERVER];
    let of_objects = objects.iter().flat_map(|keys| keys.known);
    for key in keys::HEAD.iter().chain(&keys::ARRAYS).chain(of_objects) {
        assert!(text.contains(&format!("`{key}`")), "{key}");
    }
}
