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

/// Last answer about an element: whether it was there, and when the request began, in one number, for instances are many.
#[derive(Clone, Copy)]
struct Sighting(i64);

/// Time at which a request began, in nanoseconds since the feeder's start; none if the element was only kept from an
/// earlier run.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Stamp(i64);

/// All elements, by kind.
pub struct Sightings {
    start: Instant,
    kinds: [HashMap<Key, Sighting>; 6],
    /// Elements as they were told, if they are compared; instances are not.
    told: HashMap<Key, (Element, Instant)>,
}

impl Sighting {
    fn new(began: Stamp, is_there: bool) -> Sighting {
        Sighting(began.0 << 1 | i64::from(is_there))
    }

    fn is_there(self) -> bool {
        self.0 & 1 == 1
    }

    /// Time at which the request began; earlier than any other for an element of an earlier run.
    fn began(self) -> Stamp {
        Stamp(self.0 >> 1)
    }
}

impl Stamp {
    const NEVER: Stamp = Stamp(i64::MIN >> 1);
}

impl Sightings {
    /// Elements that are kept from an earlier run.
    pub fn new(known: Vec<Key>) -> Sightings {
        let mut sightings = Sightings { start: Instant::now(), kinds: Default::default(), told: HashMap::new() };
        for key in known {
            sightings.of(kind_of(key)).insert(key, Sighting::new(Stamp::NEVER, true));
        }
        sightings
    }

    fn stamp(&self, at: Instant) -> Stamp {
        let nanoseconds = |time: Duration| i64::try_from(time.as_nanos()).unwrap_or(i64::MAX).min(i64::MAX >> 1);
        match at.checked_duration_since(self.start) {
            Some(after) => Stamp(nanoseconds(after)),
            None => Stamp(-nanoseconds(self.start - at)),
        }
    }

    fn of(&mut self, kind: Kind) -> &mut HashMap<Key, Sighting> {
        &mut self.kinds[kind as usize]
    }

    /// Notes that an element is there. Returns it if the answer counts and tells something new.
    pub fn see(&mut self, element: Element, began: Instant) -> Option<Element> {
        let key = element.key();
        let compared = !matches!(element, Element::Vm(_));
        if !self.note(key, began, true) {
            return None;
        }
        if let Some((told, at)) = self.told.get(&key)
            && is_same(told, &element, began - *at)
        {
            return None;
        }
        if compared {
            self.told.insert(key, (element.clone(), began));
        }
        Some(element)
    }

    /// Notes that an element is not there. True if the answer counts.
    pub fn miss(&mut self, key: Key, began: Instant) -> bool {
        let counted = self.note(key, began, false);
        if counted {
            self.told.remove(&key);
        }
        counted
    }

    /// Notes an answer, if it counts. False: it does not.
    fn note(&mut self, key: Key, began: Instant, is_there: bool) -> bool {
        let began = self.stamp(began);
        let sightings = self.of(kind_of(key));
        let counts = sightings.get(&key).is_none_or(|last| began > last.began());
        if counts {
            sightings.insert(key, Sighting::new(began, is_there));
        }
        counts
    }

    /// The element as it was last told; none for instances.
    pub fn told(&self, key: Key) -> Option<&Element> {
        self.told.get(&key).map(|(element, _)| element)
    }

    /// True if an element was heard of, even if it was only that it is not there.
    pub fn knows(&self, key: Key) -> bool {
        self.kinds[kind_of(key) as usize].contains_key(&key)
    }

    /// True if an element is there as far as is known, or as it was kept from an earlier run.
    pub fn has(&self, key: Key) -> bool {
        self.kinds[kind_of(key) as usize].get(&key).is_some_and(|sighting| sighting.is_there())
    }

    /// True if an element was never heard of, or is not known and was last asked for some time ago.
    pub fn is_wanted(&self, key: Key, now: Instant) -> bool {
        let last = self.kinds[kind_of(key) as usize].get(&key);
        last.is_none_or(|last| {
            let is_old = last.began().0 <= self.stamp(now).0.saturating_sub(KEPT.as_nanos() as i64);
            is_old && (!last.is_there() || matches!(key, Key::Nic(_)))
        })
    }

    /// Elements of a kind that are there as far as is known, and that no answer has named whose request began at `since`
    /// or later. Forgets those which were not there even before.
    pub fn unseen_since(&mut self, kind: Kind, since: Instant) -> Vec<Key> {
        let since = self.stamp(since);
        let sightings = self.of(kind);
        let is_old = |sighting: &Sighting| sighting.began() < since;
        if kind == Kind::Vm {
            sightings.retain(|_, sighting| sighting.is_there() || !is_old(sighting));
        }
        let mut unseen: Vec<Key> = sightings
            .iter()
            .filter(|(_, sighting)| sighting.is_there() && is_old(sighting))
            .map(|(key, _)| *key)
            .collect();
        unseen.sort_unstable();
        unseen
    }
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
        let mut sightings = Sightings::new(Vec::new());
        assert!(sightings.see(server(ServerStatus::Running, 1), at(1)).is_some());
        assert!(sightings.see(server(ServerStatus::Running, 2), at(59)).is_none());
        assert!(sightings.see(server(ServerStatus::Running, 3), at(61)).is_some());
        assert!(sightings.see(server(ServerStatus::Rebooting, 3), at(62)).is_some());
        assert!(sightings.see(server(ServerStatus::Rebooting, 3), at(63)).is_none());
        assert!(sightings.see(server(ServerStatus::Rebooting, 4), at(64)).is_some());
    }
}
