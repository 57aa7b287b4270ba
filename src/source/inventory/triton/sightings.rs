//! When each element was last heard of, and whether it was there.
//!
//! Invariant: an answer counts only if its request began after that of the last answer about the element that counted,
//! whichever came first.
//!
//! Cost: O(1); [`Sightings::unseen_since`] O(elements of the kind).

use inventory::model::{Element, Key};
use std::collections::HashMap;
use std::time::Duration;
use tokio::time::Instant;

/// Time after which an interface or network that was asked for singly may be asked for once more.
const KEPT: Duration = Duration::from_secs(60);
/// Time after which a compute node is told again though only its heartbeat has changed.
const SERVER_KEPT: Duration = Duration::from_secs(60);

/// Kinds of elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Vm,
    Account,
    Network,
    NetworkPool,
    Nic,
    Server,
}

/// The kind of an element.
pub fn kind_of(key: Key) -> Kind {
    match key {
        Key::Vm(_) => Kind::Vm,
        Key::Account(_) => Kind::Account,
        Key::Network(_) => Kind::Network,
        Key::NetworkPool(_) => Kind::NetworkPool,
        Key::Nic(_) => Kind::Nic,
        Key::Server(_) => Kind::Server,
    }
}

/// Last answer about an element.
struct Sighting {
    /// Time at which its request began; none if the element was only kept from an earlier run.
    began: Option<Instant>,
    is_there: bool,
    /// The element as it was told, if it is compared; instances are many, and are not.
    told: Option<(Element, Instant)>,
}

/// All elements, by kind.
#[derive(Default)]
pub struct Sightings {
    kinds: [HashMap<Key, Sighting>; 6],
}

impl Sightings {
    /// Elements that are kept from an earlier run.
    pub fn new(known: Vec<Key>) -> Sightings {
        let mut sightings = Sightings::default();
        for key in known {
            sightings.of(kind_of(key)).insert(key, Sighting { began: None, is_there: true, told: None });
        }
        sightings
    }

    fn of(&mut self, kind: Kind) -> &mut HashMap<Key, Sighting> {
        &mut self.kinds[kind as usize]
    }

    /// Notes that an element is there. Returns it if the answer counts and tells something new.
    pub fn see(&mut self, element: Element, began: Instant) -> Option<Element> {
        let key = element.key();
        let compared = !matches!(element, Element::Vm(_));
        let sightings = self.of(kind_of(key));
        let last = sightings.get(&key);
        if !counts(last, began) {
            return None;
        }
        let told = last.filter(|last| last.is_there).and_then(|last| last.told.as_ref());
        if let Some((told, at)) = told
            && is_same(told, &element, began - *at)
        {
            let told = Some((told.clone(), *at));
            sightings.insert(key, Sighting { began: Some(began), is_there: true, told });
            return None;
        }
        let told = compared.then(|| (element.clone(), began));
        sightings.insert(key, Sighting { began: Some(began), is_there: true, told });
        Some(element)
    }

    /// Notes that an element is not there. True if the answer counts.
    pub fn miss(&mut self, key: Key, began: Instant) -> bool {
        let sightings = self.of(kind_of(key));
        let counted = counts(sightings.get(&key), began);
        if counted {
            sightings.insert(key, Sighting { began: Some(began), is_there: false, told: None });
        }
        counted
    }

    /// The element as it was last told; none for instances.
    pub fn told(&self, key: Key) -> Option<&Element> {
        Some(&self.kinds[kind_of(key) as usize].get(&key)?.told.as_ref()?.0)
    }

    /// True if an element was heard of, even if it was only that it is not there.
    pub fn knows(&self, key: Key) -> bool {
        self.kinds[kind_of(key) as usize].contains_key(&key)
    }

    /// True if an element is there as far as is known, or as it was kept from an earlier run.
    pub fn has(&self, key: Key) -> bool {
        self.kinds[kind_of(key) as usize].get(&key).is_some_and(|sighting| sighting.is_there)
    }

    /// True if an element was never heard of, or is not known and was last asked for some time ago.
    pub fn is_wanted(&self, key: Key, now: Instant) -> bool {
        let last = self.kinds[kind_of(key) as usize].get(&key);
        last.is_none_or(|last| {
            let is_old = last.began.is_none_or(|began| now.saturating_duration_since(began) >= KEPT);
            is_old && (!last.is_there || matches!(key, Key::Nic(_)))
        })
    }

    /// Elements of a kind that are there as far as is known, and that no answer has named whose request began at `since`
    /// or later. Forgets those which were not there even before.
    pub fn unseen_since(&mut self, kind: Kind, since: Instant) -> Vec<Key> {
        let sightings = self.of(kind);
        let is_old = |sighting: &Sighting| sighting.began.is_none_or(|began| began < since);
        if kind == Kind::Vm {
            sightings.retain(|_, sighting| sighting.is_there || !is_old(sighting));
        }
        let mut unseen: Vec<Key> = sightings
            .iter()
            .filter(|(_, sighting)| sighting.is_there && is_old(sighting))
            .map(|(key, _)| *key)
            .collect();
        unseen.sort_unstable();
        unseen
    }
}

fn counts(last: Option<&Sighting>, began: Instant) -> bool {
    last.and_then(|last| last.began).is_none_or(|last| began > last)
}

/// True if an element tells nothing new. The heartbeats of a compute node that runs do so only now and then.
fn is_same(told: &Element, element: &Element, age: Duration) -> bool {
    use inventory::model::ServerStatus::Running;
    match (told, element) {
        (Element::Server(told), Element::Server(server)) if (told.status, server.status) == (Running, Running) => {
            let unmoved = inventory::model::Server { last_heartbeat: told.last_heartbeat, ..server.clone() };
            age < SERVER_KEPT && unmoved == *told && told.last_heartbeat.is_some() == server.last_heartbeat.is_some()
        }
        _ => told == element,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use inventory::model::{Moment, NetworkPool, Server, ServerStatus, Uuid};

    fn pool(networks: u128) -> Element {
        Element::NetworkPool(NetworkPool { uuid: Uuid::nil(), networks: (0..networks).map(Uuid::from_u128).collect() })
    }

    #[test]
    fn an_answer_of_an_older_request_does_not_count() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let key = Key::NetworkPool(Uuid::nil());
        let mut sightings = Sightings::new(vec![key]);
        assert_eq!(sightings.unseen_since(Kind::NetworkPool, at(0)), [key]);
        assert!(sightings.see(pool(1), at(2)).is_some());
        assert!(!sightings.miss(key, at(1)) && sightings.see(pool(2), at(2)).is_none());
        assert!(sightings.see(pool(1), at(3)).is_none(), "it is the same");
        assert_eq!(sightings.unseen_since(Kind::NetworkPool, at(3)), []);
        assert!(sightings.see(pool(2), at(4)).is_some());
        assert_eq!(sightings.unseen_since(Kind::NetworkPool, at(5)), [key]);
        assert!(sightings.miss(key, at(5)) && sightings.see(pool(2), at(4)).is_none());
        assert!(sightings.knows(key) && !sightings.has(key));
        assert!(!sightings.is_wanted(key, at(64)) && sightings.is_wanted(key, at(65)));
        assert!(sightings.see(pool(2), at(6)).is_some());
    }

    #[test]
    fn heartbeats_of_a_running_node_are_told_once_a_minute() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let server = |status, heartbeat| {
            Element::Server(Server {
                uuid: Uuid::nil(),
                hostname: "cn".into(),
                setup: true,
                status,
                last_boot: None,
                last_heartbeat: Some(Moment(heartbeat)),
                admin_nic_tag: None,
            })
        };
        let mut sightings = Sightings::default();
        assert!(sightings.see(server(ServerStatus::Running, 1), at(1)).is_some());
        assert!(sightings.see(server(ServerStatus::Running, 2), at(59)).is_none());
        assert!(sightings.see(server(ServerStatus::Running, 3), at(61)).is_some());
        assert!(sightings.see(server(ServerStatus::Rebooting, 3), at(62)).is_some());
        assert!(sightings.see(server(ServerStatus::Rebooting, 3), at(63)).is_none());
        assert!(sightings.see(server(ServerStatus::Rebooting, 4), at(64)).is_some());
    }
}
