//! Self-removal damping: a group loses the members that withdraw themselves slowly.
//!
//! A health check that is wrong everywhere would empty a service within seconds. So within a window no more than a share
//! of a group leaves, max(floor(n × share), 1), and the last member only when it has been the last for a longer time
//! (RFD 1, "Self-removal hysteresis"). n counts the distinct members that are in service, held ones included, and those
//! that left within the window. Members that are gone leave at once and cost nothing.
//!
//! A member may stand at several places, names of one service in several zones: it is the last where it is the only one
//! at any of its places, and then waits while others go.
//!
//! Invariants: within any window no more members leave by themselves than the rule says; no place becomes empty sooner
//! than `last` after its last member became that; what is held depends on what came when, and on nothing else: the
//! moment is given.
//!
//! Cost: O(log members) for a change; O(places + removals of the window) to evaluate, and O(log members) for each member
//! that leaves.

use crate::config::Limits;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};
use std::hash::Hash;
use std::ops::{Add, Bound};
use std::sync::Arc;
use std::time::Duration;

/// A group of members `K` at places `P`, with moments `T`.
#[derive(Clone, Debug)]
pub struct Group<K, T, P = ()> {
    /// Members in service, held ones included.
    members: HashMap<K, Member<T, P>>,
    /// Members that are held, in the order in which they leave.
    queue: BTreeSet<(T, K)>,
    /// Removals that may still lie in the window, oldest first.
    removed: VecDeque<(T, K)>,
    places: BTreeMap<P, Place<T>>,
    /// Places of the member that was put last: those of most members are the same, and are kept once.
    usual: Arc<[P]>,
    /// Moment of the next removal, or at which the last is forgotten, if nothing else happens.
    next: Option<T>,
}

#[derive(Clone, Debug)]
struct Member<T, P> {
    places: Arc<[P]>,
    /// Moment at which it withdrew; none if it did not.
    since: Option<T>,
}

#[derive(Clone, Debug)]
struct Place<T> {
    members: usize,
    /// Moment since which one member stands alone.
    alone_since: Option<T>,
}

/// What outlives the process of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Remains<K, T, P> {
    pub held: Vec<(T, K)>,
    pub removed: Vec<(T, K)>,
    pub alone: Vec<(P, T)>,
}

impl<K, T, P> Default for Group<K, T, P> {
    fn default() -> Group<K, T, P> {
        Group {
            members: HashMap::new(),
            queue: BTreeSet::new(),
            removed: VecDeque::new(),
            places: BTreeMap::new(),
            usual: Arc::default(),
            next: None,
        }
    }
}

impl<K, T, P> Group<K, T, P>
where
    K: Clone + Ord + Hash,
    T: Copy + Ord + Add<Duration, Output = T>,
    P: Clone + Ord,
{
    /// Puts a member in service, or takes its withdrawal back. Returns true if it was held.
    pub fn join(&mut self, member: K, places: &[P]) -> bool {
        self.put(member, places, None)
    }

    /// Takes a member's withdrawal: it is held until [`evaluate`](Group::evaluate) lets it go. One that is not in service
    /// is not put in.
    pub fn withdraw(&mut self, member: K, places: &[P], since: T) {
        if let Some(known) = self.members.get(&member) {
            let since = known.since.unwrap_or(since);
            self.put(member, places, Some(since));
        }
    }

    /// Puts a member in service that withdrew at a moment: it was in service then, says what was kept.
    pub fn hold(&mut self, member: K, places: &[P], since: T) {
        self.put(member, places, Some(since));
    }

    fn put(&mut self, member: K, places: &[P], since: Option<T>) -> bool {
        if *self.usual != *places {
            self.usual = places.into();
        }
        let was_held = match self.members.get_mut(&member) {
            Some(known) => {
                let before = std::mem::replace(&mut known.since, since);
                if *known.places != *places {
                    let left = std::mem::replace(&mut known.places, self.usual.clone());
                    enter(&mut self.places, places);
                    leave(&mut self.places, &left);
                }
                if let Some(before) = before.filter(|before| since != Some(*before)) {
                    self.queue.remove(&(before, member.clone()));
                }
                before.is_some() && since.is_none()
            }
            None => {
                enter(&mut self.places, places);
                self.members.insert(member.clone(), Member { places: self.usual.clone(), since });
                false
            }
        };
        if let Some(since) = since {
            self.queue.insert((since, member));
        }
        was_held
    }

    /// Removes a member at once. Returns true if it was in service.
    pub fn remove(&mut self, member: &K) -> bool {
        let Some(known) = self.members.remove(member) else { return false };
        leave(&mut self.places, &known.places);
        if let Some(since) = known.since {
            self.queue.remove(&(since, member.clone()));
        }
        true
    }

    /// Takes what was kept of the group: removals, and since when members stand alone.
    pub fn recall(&mut self, removed: Vec<(T, K)>, alone: Vec<(P, T)>) {
        self.removed = removed.into();
        for (place, since) in alone {
            self.places.entry(place).or_insert(Place { members: 0, alone_since: None }).alone_since = Some(since);
        }
    }

    /// Lets the members go that may leave by now, and returns them. Before `closed_until`, if that is given, nobody may.
    pub fn evaluate(&mut self, limits: &Limits, now: T, closed_until: Option<T>) -> Vec<K> {
        while self.removed.front().is_some_and(|(at, _)| *at + limits.window <= now) {
            self.removed.pop_front();
        }
        self.places.retain(|_, place| {
            place.alone_since = (place.members == 1).then(|| place.alone_since.unwrap_or(now));
            place.members > 0
        });
        // The sum of those in service and of those that left stays the same while members go.
        let quota = limits.quota(self.size());
        let mut gone = Vec::new();
        let mut next: Option<T> = None;
        let mut cursor = Bound::Unbounded;
        while let Some((since, member)) = self.queue.range((cursor, Bound::Unbounded)).next().cloned() {
            let places = self.members.get(&member).map(|known| known.places.clone()).unwrap_or_default();
            let alone = places.iter().filter_map(|place| self.places.get(place)?.alone_since).max();
            let mut due = alone.map_or(now, |alone| since.max(alone) + limits.last);
            due = closed_until.map_or(due, |until| due.max(until));
            if self.removed.len() >= quota
                && let Some((oldest, _)) = self.removed.front()
            {
                due = due.max(*oldest + limits.window);
            }
            if due > now {
                next = Some(next.map_or(due, |next| next.min(due)));
                // Whoever follows and is not the last anywhere waits for the same slot.
                if alone.is_none() {
                    break;
                }
            } else {
                self.remove(&member);
                for place in &places[..] {
                    if let Some(place) = self.places.get_mut(place)
                        && place.members == 1
                    {
                        place.alone_since = Some(now);
                    }
                }
                self.removed.push_back((now, member.clone()));
                gone.push(member.clone());
            }
            cursor = Bound::Excluded((since, member));
        }
        if self.queue.is_empty() {
            // Nothing is held any more. What went is forgotten with the window.
            next = self.removed.back().map(|(at, _)| *at + limits.window);
        }
        self.next = next;
        gone
    }

    /// Moment of the next removal, or at which the last is forgotten, if nothing else happens.
    pub fn next(&self) -> Option<T> {
        self.next
    }

    /// Number of distinct members in service and gone within the window.
    pub fn size(&self) -> usize {
        let away: HashSet<&K> =
            self.removed.iter().map(|(_, member)| member).filter(|member| !self.members.contains_key(member)).collect();
        self.members.len() + away.len()
    }

    /// Number of members in service.
    pub fn len(&self) -> usize {
        self.members.len()
    }

    /// Returns true if nobody is in service.
    pub fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    /// Returns true if a member is in service.
    pub fn contains(&self, member: &K) -> bool {
        self.members.contains_key(member)
    }

    /// Moment of a held member's withdrawal; none if it is not held.
    pub fn held_since(&self, member: &K) -> Option<T> {
        self.members.get(member)?.since
    }

    /// The held members, in the order in which they leave.
    pub fn held(&self) -> impl ExactSizeIterator<Item = &(T, K)> {
        self.queue.iter()
    }

    /// Removals that may still lie in the window, oldest first.
    pub fn removed(&self) -> impl ExactSizeIterator<Item = &(T, K)> {
        self.removed.iter()
    }

    /// Returns true if nobody is held and nobody left within the window, as if the group had never been damped.
    pub fn is_calm(&self) -> bool {
        self.queue.is_empty() && self.removed.is_empty()
    }

    /// Moment at which a held member leaves, if nothing else happens.
    pub fn until(&self, limits: &Limits, member: &K, closed_until: Option<T>) -> Option<T> {
        let mut ahead = self.clone();
        while ahead.held_since(member).is_some() {
            let next = ahead.next?;
            ahead.evaluate(limits, next, closed_until);
            if ahead.held_since(member).is_none() {
                return Some(next);
            }
        }
        None
    }

    /// What outlives the process; none while the group is calm.
    pub fn remains(&self) -> Option<Remains<K, T, P>> {
        let alone = self.places.iter().filter_map(|(place, state)| Some((place.clone(), state.alone_since?)));
        (!self.is_calm()).then(|| Remains {
            held: self.queue.iter().cloned().collect(),
            removed: self.removed.iter().cloned().collect(),
            alone: alone.collect(),
        })
    }
}

fn enter<P: Clone + Ord, T>(all: &mut BTreeMap<P, Place<T>>, places: &[P]) {
    for place in places {
        all.entry(place.clone()).or_insert(Place { members: 0, alone_since: None }).members += 1;
    }
}

fn leave<P: Clone + Ord, T>(all: &mut BTreeMap<P, Place<T>>, places: &[P]) {
    for place in places {
        if let Some(known) = all.get_mut(place) {
            known.members -= 1;
        }
    }
}
