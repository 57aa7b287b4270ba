//! The records of a datacenter: which there are, the crate `inventory` says; how often and in which order they stand at a
//! name is CNS' own.
//!
//! CNS writes a name instance by instance and address by address: the address, the identity of the instance behind the
//! first one, and behind each one the SRV records, and challenges likewise; so these repeat for an instance with several.
//!
//! Cost: O(records · log), and O(instances) for each record at most.

use super::{ACME, ADMIN, Account, CHALLENGE, Datacenter, Instance};
use crate::zone::Data;
use inventory::config::{Config, ForwardZone};
use inventory::model::{
    Account as KnownAccount, Interface, Inventory, Metadata, Moment, Network, Server, ServerStatus, State, Tag,
    TagValue, Uuid, Vm,
};
use inventory::roster::Roster;
use std::net::IpAddr;
use wire::name::{Name, NameBuf, labels};
use wire::rr::rtype;

/// The network of all instances.
const NETWORK: Uuid = Uuid::from_u128(0xe000_0000_0000_4000_8000_0000_0000_0001);
/// A moment like any other: nothing here depends on time.
const NOW: Moment = Moment(1_700_000_000_000);

/// Place of a record among those of its name: the instance, its address, and what comes behind that.
type Rank = (usize, usize, u8);

/// All records of a datacenter's zone, in no order of names.
pub fn of(datacenter: &Datacenter) -> Vec<(Name, Data)> {
    let forward = vec![ForwardZone { origin: datacenter.origin.clone(), networks: vec!["*".into()] }];
    let config = Config { cmon: true, operator_logins: true, forward, ..Config::default() };
    let mut roster = Roster::new(config, NOW);
    roster.replace(inventory(datacenter), NOW);
    roster.settle_untold(NOW);
    let mut records = Vec::new();
    roster.each_name(&datacenter.origin, |owner, sets| {
        let all = sets.iter().flat_map(|set| set.rdatas().filter_map(|rdata| read(set.rtype, rdata)));
        let is_challenge = labels(owner.as_wire()).next() == Some(CHALLENGE.as_bytes());
        let mut ranked: Vec<(Rank, Data)> = all
            .flat_map(|data| ranks(datacenter, is_challenge, &data).into_iter().map(move |rank| (rank, data.clone())))
            .collect();
        ranked.sort_by_key(|(rank, _)| *rank);
        records.extend(ranked.into_iter().map(|(_, data)| (owner.clone(), data)));
    });
    records
}

/// The datacenter as Triton's services tell of it.
fn inventory(datacenter: &Datacenter) -> Inventory {
    let account = |account: &Account| KnownAccount {
        uuid: uuid(account.uuid),
        login: account.login.into(),
        cns_enabled: true,
        approved: true,
    };
    let network = Network { uuid: NETWORK, name: "external".into(), owners: [].into(), nic_tag: None, vlan_id: None };
    let server = |node: &String| Server {
        uuid: uuid(node),
        hostname: "node".into(),
        setup: true,
        status: ServerStatus::Running,
        last_boot: None,
        last_heartbeat: None,
        admin_nic_tag: None,
    };
    Inventory {
        vms: datacenter.instances.iter().map(vm).collect(),
        accounts: [ACME, ADMIN].iter().map(account).collect(),
        networks: vec![network],
        servers: datacenter.compute_nodes.iter().map(server).collect(),
        ..Inventory::default()
    }
}

/// An instance as VMAPI tells of it.
fn vm(instance: &Instance) -> Vm {
    let service = instance.service;
    let declared = service.port.map_or_else(|| service.name.to_owned(), |port| format!("{}:{port}", service.name));
    let status = (!instance.up).then(|| (Metadata::Status, "down".into()));
    let challenge = instance.challenge.iter().map(|token| (Metadata::AcmeChallenge, token.as_str().into()));
    Vm {
        uuid: uuid(&instance.uuid),
        alias: Some(instance.alias.as_str().into()),
        owner: Some(uuid(service.account.uuid)),
        server: None,
        state: State::Running,
        destroyed: false,
        created: Some(NOW),
        tags: [(Tag::Services, TagValue::Text(declared.into()))].into(),
        metadata: status.into_iter().chain(challenge).collect(),
        nics: [Interface {
            mac: None,
            nic_tag: None,
            vlan_id: 0,
            network: Some(NETWORK),
            addresses: instance.addresses.as_slice().into(),
            dynamic: false,
        }]
        .into(),
    }
}

fn uuid(text: &str) -> Uuid {
    Uuid::parse_str(text).expect("the model makes UUIDs")
}

/// The data of a record.
fn read(kind: u16, rdata: &[u8]) -> Option<Data> {
    let name = |start: usize| Some(NameBuf::from_wire(rdata.get(start..)?).ok()?.to_name());
    let number = |start: usize| Some(u16::from_be_bytes(*rdata.get(start..)?.first_chunk()?));
    Some(match kind {
        rtype::A => Data::A((*rdata.first_chunk::<4>()?).into()),
        rtype::AAAA => Data::Aaaa((*rdata.first_chunk::<16>()?).into()),
        rtype::TXT => Data::Txt(rdata.get(1..)?.to_vec()),
        rtype::CNAME => Data::Cname(name(0)?),
        rtype::SRV => Data::Srv { priority: number(0)?, weight: number(2)?, port: number(4)?, target: name(6)? },
        _ => return None,
    })
}

/// The places of a record at its name, one for each time that CNS writes it.
fn ranks(datacenter: &Datacenter, is_challenge: bool, data: &Data) -> Vec<Rank> {
    let find = |is_of: &dyn Fn(&Instance) -> bool| {
        datacenter.instances.iter().enumerate().find(|(_, instance)| is_of(instance))
    };
    let of_address = |address: IpAddr| {
        let (index, instance) = find(&|instance| instance.addresses.contains(&address))?;
        Some(vec![(index, instance.addresses.iter().position(|own| *own == address)?, 0)])
    };
    let for_each_address = |found: Option<(usize, &Instance)>| {
        found.map(|(index, instance)| (0..instance.addresses.len()).map(|place| (index, place, 2)).collect())
    };
    let ranks = match data {
        Data::A(address) => of_address((*address).into()),
        Data::Aaaa(address) => of_address((*address).into()),
        Data::Srv { target, .. } => {
            let alias = labels(target.as_wire()).next().unwrap_or_default();
            for_each_address(find(&|instance| instance.alias.as_bytes() == alias))
        }
        Data::Txt(token) if is_challenge => {
            for_each_address(find(&|instance| instance.challenge.as_ref().is_some_and(|own| own.as_bytes() == token)))
        }
        Data::Txt(text) => {
            find(&|instance| text.ends_with(instance.uuid.as_bytes())).map(|(index, _)| vec![(index, 0, 1)])
        }
        _ => None,
    };
    ranks.unwrap_or_else(|| vec![(0, 0, 0)])
}
