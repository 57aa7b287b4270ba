//! Laws of documents: what is written is read, in both formats, and nothing makes the reader fail.

use super::*;
use crate::model::{Account, Interface, Mac, Network, State, Tag, TagValue, Vm};
use proptest::prelude::*;
use std::fmt::Write;

/// Names with what must be escaped in a document.
fn name() -> impl Strategy<Value = String> {
    prop_oneof![3 => "[a-z][a-z0-9-]{0,8}", 1 => "[a-zé\"\\\\ \n\u{1}]{1,5}"]
}

/// An inventory: accounts, networks, and instances of theirs.
fn inventory() -> impl Strategy<Value = Inventory> {
    let accounts = prop::collection::btree_set(name(), 1..4);
    let networks = prop::collection::btree_set(name(), 1..4);
    let vm = (0usize..4, name(), 0u8..3, any::<[u8; 4]>(), prop::option::of(name()), 0usize..4);
    (accounts, networks, prop::collection::vec(vm, 0..8)).prop_map(|(accounts, networks, vms)| {
        let accounts: Vec<Account> = (1u128..)
            .zip(accounts)
            .map(|(uuid, login)| Account {
                uuid: Uuid::from_u128(uuid),
                login: login.into(),
                cns_enabled: uuid != 2,
                approved: uuid != 3,
            })
            .collect();
        let networks: Vec<Network> = (1u128..)
            .zip(networks)
            .map(|(uuid, name)| Network {
                uuid: Uuid::from_u128(uuid << 64),
                name: name.into(),
                owners: accounts.iter().take(uuid as usize - 1).map(|account| account.uuid).collect(),
                nic_tag: (uuid == 1).then(|| "external".into()),
                vlan_id: Some(uuid as u16),
            })
            .collect();
        let vms = vms.into_iter().zip(1u128..).map(|((owner, alias, state, address, services, network), uuid)| Vm {
            uuid: Uuid::from_u128(uuid << 96),
            alias: Some(alias.into()),
            owner: Some(accounts[owner % accounts.len()].uuid),
            server: None,
            state: [State::Running, State::Failed, State::Destroyed][usize::from(state)],
            destroyed: state == 2,
            created: None,
            tags: services.map(|text| (Tag::Services, TagValue::Text(text.into()))).into_iter().collect(),
            metadata: [].into(),
            nics: [Interface {
                mac: Some(Mac([2, address[3], 0, 0, 0, 1])),
                nic_tag: None,
                vlan_id: 0,
                network: Some(networks[network % networks.len()].uuid),
                addresses: [address.into()].into(),
                dynamic: false,
            }]
            .into(),
        });
        Inventory { vms: vms.collect(), accounts, networks, ..Inventory::default() }
    })
}

/// Writes an inventory in JSON, as an array for each kind.
fn to_json(inventory: &Inventory) -> serde_json::Value {
    let vms = inventory.vms.iter().map(|vm| {
        let nics = vm.nics.iter().map(|nic| {
            let mac = nic.mac.map(|mac| mac.0.map(|octet| format!("{octet:02x}")).join(":"));
            serde_json::json!({"mac": mac, "network_uuid": nic.network.map(|uuid| uuid.to_string()), "ips": nic.addresses})
        });
        let state = ["running", "failed", "destroyed"][vm.state as usize];
        let tags: serde_json::Map<String, serde_json::Value> = vm
            .tags
            .iter()
            .map(|(_, value)| match value {
                TagValue::Text(text) => ("triton.cns.services".to_string(), (&**text).into()),
                _ => unreachable!("only texts are generated"),
            })
            .collect();
        serde_json::json!({"uuid": vm.uuid.to_string(), "alias": vm.alias, "state": state, "tags": tags,
            "owner_uuid": vm.owner.map(|uuid| uuid.to_string()), "nics": nics.collect::<Vec<_>>(),
            "destroyed": if vm.destroyed { "2026-03-01T12:00:00Z" } else { "" }})
    });
    let accounts = inventory.accounts.iter().map(|account| {
        serde_json::json!({"uuid": account.uuid.to_string(), "login": account.login,
            "triton_cns_enabled": account.cns_enabled, "approved_for_provisioning": account.approved.to_string()})
    });
    let networks = inventory.networks.iter().map(|network| {
        let owners: Vec<String> = network.owners.iter().map(Uuid::to_string).collect();
        let mut written = serde_json::json!({"uuid": network.uuid.to_string(), "name": network.name,
            "owner_uuids": owners, "vlan_id": network.vlan_id});
        if let Some(nic_tag) = &network.nic_tag {
            written["nic_tag"] = (&**nic_tag).into();
        }
        written
    });
    let [vms, accounts, networks] = [vms.collect::<Vec<_>>(), accounts.collect(), networks.collect()];
    serde_json::json!({"format": 1, "count": vms.len(), "vms": vms, "accounts": accounts, "networks": networks})
}

/// Writes a value as TOML, every table on one line.
fn to_toml(value: &serde_json::Value) -> String {
    match value {
        serde_json::Value::Object(entries) => {
            let entries: Vec<String> =
                entries.iter().map(|(key, value)| format!("{} = {}", quoted(key), to_toml(value))).collect();
            format!("{{ {} }}", entries.join(", "))
        }
        serde_json::Value::Array(items) => format!("[{}]", items.iter().map(to_toml).collect::<Vec<_>>().join(", ")),
        serde_json::Value::String(text) => quoted(text),
        other => other.to_string(),
    }
}

/// Writes a text as a TOML string.
fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => write!(quoted, "\\{c}"),
            c if c.is_control() => write!(quoted, "\\u{:04x}", u32::from(c)),
            c => write!(quoted, "{c}"),
        }
        .expect("a string takes all");
    }
    quoted + "\""
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn what_is_written_is_read(inventory in inventory()) {
        let json = to_json(&inventory);
        let wanted = Document { inventory, ..Document::default() };
        for text in [json.to_string(), format!("{json:#}")] {
            prop_assert_eq!(&read(Path::new("i"), &text, "x").expect("a document"), &wanted);
        }
        let entries = json.as_object().expect("an object");
        let toml: String = entries.iter().map(|(key, value)| format!("{key} = {}\n", to_toml(value))).collect();
        prop_assert_eq!(&read(Path::new("i"), &toml, "x").expect("a document"), &wanted);
    }

    #[test]
    fn nothing_makes_the_reader_fail(inventory in inventory(), from in any::<prop::sample::Index>(),
                                     to in any::<prop::sample::Index>(), instead in "[\\[\\]{}\":,a0 \n]{0,3}") {
        let text = to_json(&inventory).to_string();
        let boundary = |at: usize| (0..=at).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
        let mut ends = [from.index(text.len()), to.index(text.len())].map(boundary);
        ends.sort_unstable();
        let torn = format!("{}{instead}{}", &text[..ends[0]], &text[ends[1]..]);
        if let Err(errors) = read(Path::new("i"), &torn, "x") {
            prop_assert!(!errors.0.is_empty());
            let lines = torn.lines().count() + 1;
            prop_assert!(errors.0.iter().all(|error| (1..=lines).contains(&error.line)), "{}", errors);
        }
    }
}
