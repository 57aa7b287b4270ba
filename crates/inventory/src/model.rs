//! The inventory of a datacenter: what VMAPI, UFDS, NAPI and CNAPI know of it, as far as zones depend on it.
//!
//! Invariants: only tags and metadata that zones depend on are kept; nothing here knows who told it, or when.
//!
//! Cost: about 500 octets for an instance of one network interface with a service; as it is kept, 91 (`packed`).
//!
//! RFCs: 9562 (UUIDs).

use serde::{Deserialize, Serialize};
use std::net::IpAddr;
use std::ops::Add;
use std::time::Duration;
pub use uuid::Uuid;

/// Time of the wall clock, in milliseconds since the beginning of 1970 (UTC).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Moment(pub i64);

impl Moment {
    /// The later moment by a duration; the last moment there is if that is later still.
    pub fn plus(self, duration: Duration) -> Moment {
        Moment(self.0.saturating_add(i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)))
    }

    /// Time from an earlier moment to this one; none at all if that is the later one.
    pub fn since(self, earlier: Moment) -> Duration {
        Duration::from_millis(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or_default())
    }
}

impl Add<Duration> for Moment {
    type Output = Moment;

    fn add(self, duration: Duration) -> Moment {
        self.plus(duration)
    }
}

/// Everything that is known of a datacenter.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Inventory {
    pub vms: Vec<Vm>,
    pub accounts: Vec<Account>,
    pub networks: Vec<Network>,
    pub network_pools: Vec<NetworkPool>,
    pub nics: Vec<Nic>,
    pub servers: Vec<Server>,
}

/// An instance, as VMAPI has it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Vm {
    pub uuid: Uuid,
    pub alias: Option<Box<str>>,
    pub owner: Option<Uuid>,
    /// The compute node that it is on. A document without servers leaves it out: no rule of compute nodes applies.
    pub server: Option<Uuid>,
    pub state: State,
    /// True if VMAPI has a time of its destruction.
    pub destroyed: bool,
    pub created: Option<Moment>,
    pub tags: Box<[(Tag, TagValue)]>,
    pub metadata: Box<[(Metadata, Box<str>)]>,
    pub nics: Box<[Interface]>,
}

/// State of an instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum State {
    Running,
    Failed,
    Destroyed,
    /// Any other: the instance exists and does not run.
    Other,
}

/// Tag of an instance that zones depend on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Tag {
    Services,
    Disable,
    ReversePtr,
    DockerServices,
    DockerDisable,
    DockerReversePtr,
    SmartdcRole,
    MantaRole,
}

/// Value of a tag.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum TagValue {
    Text(Box<str>),
    Flag(bool),
    /// Neither text nor a truth value.
    Other,
}

/// Metadata of an instance that zones depend on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Metadata {
    Status,
    AcmeChallenge,
}

/// Network interface of an instance, as VMAPI has it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Interface {
    pub mac: Option<Mac>,
    pub nic_tag: Option<Box<str>>,
    pub vlan_id: u16,
    pub network: Option<Uuid>,
    /// Fixed addresses, in order.
    pub addresses: Box<[IpAddr]>,
    /// True if addresses are also had from DHCP or from the router.
    pub dynamic: bool,
}

/// Address of a network interface on its link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Mac(pub [u8; 6]);

/// An account, as UFDS has it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Account {
    pub uuid: Uuid,
    pub login: Box<str>,
    /// True if its instances are published.
    pub cns_enabled: bool,
    /// True if it may have instances at all.
    pub approved: bool,
}

/// A network, as NAPI has it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Network {
    pub uuid: Uuid,
    pub name: Box<str>,
    /// The accounts that it belongs to; empty if it is everybody's.
    pub owners: Box<[Uuid]>,
    pub nic_tag: Option<Box<str>>,
    pub vlan_id: Option<u16>,
}

/// A pool of networks, as NAPI has it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NetworkPool {
    pub uuid: Uuid,
    pub networks: Box<[Uuid]>,
}

/// A network interface, as NAPI has it: asked where VMAPI does not say enough.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Nic {
    pub mac: Mac,
    pub belongs_to: Option<Uuid>,
    pub network: Option<Uuid>,
    pub nic_tag: Option<Box<str>>,
    pub vlan_id: u16,
    pub addresses: Box<[IpAddr]>,
    pub dynamic: bool,
}

/// A compute node, as CNAPI has it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Server {
    pub uuid: Uuid,
    pub hostname: Box<str>,
    pub setup: bool,
    pub status: ServerStatus,
    pub last_boot: Option<Moment>,
    pub last_heartbeat: Option<Moment>,
    pub admin_nic_tag: Option<Box<str>>,
}

/// Status of a compute node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum ServerStatus {
    Running,
    Rebooting,
    /// Any other: no heartbeats are seen.
    Unknown,
}

/// One thing of an inventory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Element {
    Vm(Vm),
    Account(Account),
    Network(Network),
    NetworkPool(NetworkPool),
    Nic(Nic),
    Server(Server),
}

/// Name of one thing of an inventory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Key {
    Vm(Uuid),
    Account(Uuid),
    Network(Uuid),
    NetworkPool(Uuid),
    Nic(Mac),
    Server(Uuid),
}

/// What a feeder has learnt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Change {
    /// The thing is there, and is like this.
    Put(Element),
    /// The thing is not there: a definite answer said so.
    Gone(Key),
}

impl Inventory {
    /// All elements, one by one.
    pub fn into_elements(self) -> impl Iterator<Item = Element> {
        let accounts = self.accounts.into_iter().map(Element::Account);
        let networks = self.networks.into_iter().map(Element::Network);
        let pools = self.network_pools.into_iter().map(Element::NetworkPool);
        let nics = self.nics.into_iter().map(Element::Nic);
        let servers = self.servers.into_iter().map(Element::Server);
        let vms = self.vms.into_iter().map(Element::Vm);
        accounts.chain(networks).chain(pools).chain(nics).chain(servers).chain(vms)
    }
}

impl Element {
    /// The name of the thing.
    pub fn key(&self) -> Key {
        match self {
            Element::Vm(vm) => Key::Vm(vm.uuid),
            Element::Account(account) => Key::Account(account.uuid),
            Element::Network(network) => Key::Network(network.uuid),
            Element::NetworkPool(pool) => Key::NetworkPool(pool.uuid),
            Element::Nic(nic) => Key::Nic(nic.mac),
            Element::Server(server) => Key::Server(server.uuid),
        }
    }
}

/// All tags that zones depend on, and their names.
pub const TAGS: [(&str, Tag); 8] = [
    ("triton.cns.services", Tag::Services),
    ("triton.cns.disable", Tag::Disable),
    ("triton.cns.reverse_ptr", Tag::ReversePtr),
    ("docker:label:triton.cns.services", Tag::DockerServices),
    ("docker:label:triton.cns.disable", Tag::DockerDisable),
    ("docker:label:triton.cns.reverse_ptr", Tag::DockerReversePtr),
    ("smartdc_role", Tag::SmartdcRole),
    ("manta_role", Tag::MantaRole),
];

/// All metadata that zones depend on, and their names.
pub const METADATA: [(&str, Metadata); 2] =
    [("triton.cns.status", Metadata::Status), ("triton.cns.acme-challenge", Metadata::AcmeChallenge)];

impl Tag {
    /// The tag of a name; none if no zone depends on it.
    pub fn named(name: &str) -> Option<Tag> {
        TAGS.iter().find(|(known, _)| *known == name).map(|(_, tag)| *tag)
    }
}

impl Metadata {
    /// The metadata of a name; none if no zone depends on it.
    pub fn named(name: &str) -> Option<Metadata> {
        METADATA.iter().find(|(known, _)| *known == name).map(|(_, metadata)| *metadata)
    }
}

/// Report of an instance on itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Health {
    Up,
    Down,
}
