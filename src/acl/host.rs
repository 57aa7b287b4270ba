//! Hosts in access rules, which are known by name: their addresses may change while the rule stands.
//!
//! Who looks the addresses up sets them here; those who ask share them without a lock. A name has one set of addresses in
//! the whole process, so that a rule which a reload leaves as it was, and is not published anew, has them, too.
//!
//! Invariant: nobody is allowed before the first addresses are known.
//!
//! Cost: O(addresses of the host) for each question, O(hosts) for a new one.

use arc_swap::ArcSwap;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, LazyLock, Weak};
use wire::name::Name;

/// Addresses that rules share.
type Addresses = ArcSwap<Vec<IpAddr>>;

/// The addresses of all hosts that rules name at present.
static KNOWN: LazyLock<Mutex<HashMap<Name, Weak<Addresses>>>> = LazyLock::new(Mutex::default);

/// A host, which shares its addresses with all of its name.
#[derive(Clone, Debug)]
pub struct Host {
    pub name: Name,
    addresses: Arc<Addresses>,
}

impl Host {
    /// A host with the addresses that are known of it, none if it is new.
    pub fn new(name: Name) -> Host {
        let mut known = KNOWN.lock();
        let addresses = known.get(&name).and_then(Weak::upgrade).unwrap_or_default();
        known.retain(|_, addresses| addresses.strong_count() > 0);
        known.insert(name.clone(), Arc::downgrade(&addresses));
        Host { name, addresses }
    }

    /// Returns true if it has an address.
    pub fn is_at(&self, address: IpAddr) -> bool {
        self.addresses.load().contains(&address.to_canonical())
    }

    /// The addresses that it has.
    pub fn addresses(&self) -> Arc<Vec<IpAddr>> {
        self.addresses.load_full()
    }

    /// Gives it other addresses.
    pub fn set(&self, addresses: &[IpAddr]) {
        self.addresses.store(Arc::new(addresses.iter().map(IpAddr::to_canonical).collect()));
    }
}

/// What the file says of it is its name alone.
impl PartialEq for Host {
    fn eq(&self, other: &Host) -> bool {
        self.name == other.name
    }
}

impl Eq for Host {}
