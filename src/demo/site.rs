//! One datacenter of the demonstration: its model, its primary, and its expected contribution to the region.
//!
//! Invariant: [`Site::expected`] is what the primary published last while it could be reached, which is the copy that
//! the aggregator must keep while it cannot. Cost: O(records) for a change.

use super::client::{Answer, Subnet};
use super::script::ScriptedChange;
use sim::instances::Datacenter;
use sim::primary::Primary;
use sim::zone::{Data, Zone};
use std::collections::BTreeSet;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::SystemTime;
use wire::name::{Name, NameError};
use wire::serial::Serial;

/// The service that is watched.
pub const SERVICE: &str = "web";
/// Its account.
pub const ACCOUNT: &str = "acme";
/// Seed of the model. It is fixed, so that every run shows the same instances.
const SEED: u64 = 172;

/// Error: a datacenter cannot be played.
#[derive(Debug, thiserror::Error)]
pub enum SiteError {
    #[error("cannot start a primary on {0}: {1}")]
    Listen(SocketAddr, io::Error),
    #[error("datacenter name is too long: {0}")]
    Name(#[from] NameError),
}

/// Contribution of a version of a datacenter's zone to the region.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Contribution {
    pub serial: Serial,
    pub answer: Answer,
}

/// One datacenter and its primary.
pub struct Site {
    number: u8,
    datacenter: Datacenter,
    primary: Primary,
    published: Contribution,
    /// The last contribution before the datacenter was cut off.
    kept: Option<Contribution>,
    /// Addresses of the service that were ever published.
    given: BTreeSet<IpAddr>,
    /// The instance that is out of service.
    down: Option<String>,
}

impl Site {
    /// Starts a datacenter and its primary; port 0 picks one that is free.
    pub async fn start(origin: Name, number: u8, address: SocketAddr) -> Result<Site, SiteError> {
        let primary = Primary::start(address).await.map_err(|error| SiteError::Listen(address, error))?;
        let datacenter = Datacenter::new(origin, number, SEED, SystemTime::now())?;
        service_name(datacenter.origin())?;
        let published = contribution(&datacenter.zone());
        primary.publish(datacenter.zone());
        let given = published.answer.addresses.clone();
        Ok(Site { number, datacenter, primary, published, kept: None, given, down: None })
    }

    /// The name of its zone.
    pub fn origin(&self) -> &Name {
        self.datacenter.origin()
    }

    /// The first label of its zone.
    pub fn label(&self) -> String {
        first_label(self.origin())
    }

    /// Returns the address that its primary listens on.
    pub fn address(&self) -> SocketAddr {
        self.primary.address()
    }

    /// The network of its clients: 10.1.0.0 of the first datacenter, and so on.
    fn network(&self) -> Ipv4Addr {
        Ipv4Addr::new(10, self.number + 1, 0, 0)
    }

    /// The prefix of all its clients.
    pub fn clients(&self) -> String {
        format!("{}/16", self.network())
    }

    /// The prefix that a resolver tells of one of them (RFC 7871 section 11.1 advises 24 bits).
    pub fn client(&self) -> Subnet {
        (self.network().into(), 24)
    }

    /// Returns true if the service had this address here at any time.
    pub fn gave(&self, address: &IpAddr) -> bool {
        self.given.contains(address)
    }

    /// Returns true if the datacenter is cut off.
    pub fn is_away(&self) -> bool {
        self.kept.is_some()
    }

    /// The serial that its primary has.
    pub fn serial(&self) -> Serial {
        self.published.serial
    }

    /// Returns the contribution that the region should have of it: while it is cut off, the one before that.
    pub fn expected(&self) -> &Contribution {
        self.kept.as_ref().unwrap_or(&self.published)
    }

    /// Announces the present version as CNS does. A datacenter that is away says nothing.
    pub async fn announce(&self, secondary: SocketAddr) -> io::Result<()> {
        self.primary.notify(self.datacenter.origin(), secondary).await
    }

    /// Carries out a change and tells what it was, with names.
    pub fn apply(&mut self, change: ScriptedChange) -> String {
        let now = SystemTime::now();
        let mut what = change.to_string();
        match change {
            ScriptedChange::ScaleUp(count) => _ = self.datacenter.scale_up(SERVICE, count, now),
            ScriptedChange::ScaleDown(count) => _ = self.datacenter.scale_down(SERVICE, count, now),
            ScriptedChange::InstanceDown => {
                let mut instances = self.datacenter.instances().iter();
                let found = instances.find(|instance| instance.service() == SERVICE && instance.up);
                self.down = found.map(|instance| instance.alias.clone());
                if let Some(alias) = &self.down {
                    self.datacenter.set_up(alias, false, now);
                    what = format!("instance {alias} down");
                }
            }
            ScriptedChange::InstanceUp => {
                if let Some(alias) = self.down.take() {
                    self.datacenter.set_up(&alias, true, now);
                    what = format!("instance {alias} up");
                }
            }
            ScriptedChange::Leave(count) => {
                self.kept = Some(self.published.clone());
                self.primary.set_away(true);
                self.datacenter.scale_up(SERVICE, count, now);
            }
            ScriptedChange::Return => self.kept = None,
        }
        let zone = self.datacenter.zone();
        self.published = contribution(&zone);
        self.given.extend(&self.published.answer.addresses);
        self.primary.publish(zone);
        if !self.is_away() {
            self.primary.set_away(false);
        }
        what
    }
}

/// The first label of a name.
pub fn first_label(name: &Name) -> String {
    let text = name.to_string();
    text.split('.').next().unwrap_or_default().to_string()
}

/// The watched name below a datacenter or a region.
pub fn service_name(origin: &Name) -> Result<Name, NameError> {
    [ACCOUNT, "svc", SERVICE].iter().try_fold(origin.clone(), |name, label| name.prepend(label.as_bytes()))
}

/// Collects the contribution from the records at the datacenter's service name.
fn contribution(zone: &Zone) -> Contribution {
    let name = service_name(zone.origin()).expect("the name was tried when the datacenter was made");
    let mut answer = Answer::default();
    for data in zone.find(name.as_wire()).unwrap_or_default() {
        match data {
            Data::A(address) => _ = answer.addresses.insert((*address).into()),
            Data::Aaaa(address) => _ = answer.addresses.insert((*address).into()),
            Data::Srv { port, target, .. } => _ = answer.targets.insert((target.to_string(), *port)),
            _ => {}
        }
    }
    Contribution { serial: zone.serial(), answer }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_datacenter_that_is_away_is_expected_as_it_was() {
        let mut site =
            Site::start(Name::parse("us-west-1.cns.example.com").unwrap(), 0, "127.0.0.1:0".parse().unwrap())
                .await
                .unwrap();
        let first = site.expected().clone();
        assert_eq!(first.answer.targets.len(), 3);
        assert_eq!(site.apply(ScriptedChange::InstanceDown), "instance web-0 down");
        let before = site.expected().clone();
        assert_eq!(before.answer.targets.len(), 2);
        assert!(before.serial.newer_than(first.serial));
        site.apply(ScriptedChange::Leave(1));
        assert!(site.is_away() && site.primary.is_away());
        assert_eq!(*site.expected(), before);
        assert!(site.serial().newer_than(before.serial));
        site.apply(ScriptedChange::Return);
        assert!(!site.is_away() && !site.primary.is_away());
        assert_eq!(site.expected().answer.targets.len(), 3);
        assert_eq!(site.apply(ScriptedChange::InstanceUp), "instance web-0 up");
        site.apply(ScriptedChange::ScaleDown(1));
        assert_eq!(site.expected().answer.targets, first.answer.targets);
    }
}
