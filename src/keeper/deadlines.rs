//! Deadlines of many zones or regions, the earliest first: what is not due costs nothing.
//!
//! Invariant: each name has one deadline at most.
//!
//! Cost: O(log names) to set one and for each that is due, O(1) to see the next.

use std::collections::{BTreeMap, HashMap};
use std::time::Instant;
use wire::name::Name;

/// Moments at which names are to be looked at.
#[derive(Debug, Default)]
pub(super) struct Deadlines {
    /// Names by their deadlines, which numbers tell apart.
    order: BTreeMap<(Instant, u64), Name>,
    keys: HashMap<Name, (Instant, u64)>,
    numbers: u64,
}

impl Deadlines {
    /// Sets the deadline of a name, or takes it away.
    pub fn set(&mut self, name: &Name, at: Option<Instant>) {
        if self.at(name) == at {
            return;
        }
        if let Some(key) = self.keys.remove(name) {
            self.order.remove(&key);
        }
        if let Some(at) = at {
            self.numbers += 1;
            self.keys.insert(name.clone(), (at, self.numbers));
            self.order.insert((at, self.numbers), name.clone());
        }
    }

    /// Sets the deadline of a name unless it has an earlier one.
    pub fn hasten(&mut self, name: &Name, at: Instant) {
        if self.at(name).is_none_or(|before| at < before) {
            self.set(name, Some(at));
        }
    }

    /// Takes the names whose deadline has come.
    pub fn take_due(&mut self, now: Instant) -> Vec<Name> {
        let mut due = Vec::new();
        while self.next().is_some_and(|next| next <= now)
            && let Some((_, name)) = self.order.pop_first()
        {
            self.keys.remove(&name);
            due.push(name);
        }
        due
    }

    /// Returns the earliest deadline.
    pub fn next(&self) -> Option<Instant> {
        self.order.keys().next().map(|(at, _)| *at)
    }

    /// Returns the deadline of a name.
    fn at(&self, name: &Name) -> Option<Instant> {
        self.keys.get(name).map(|(at, _)| *at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn names_come_when_they_are_due_and_once() {
        let (mut deadlines, now) = (Deadlines::default(), Instant::now());
        let [one, two] = ["one.x", "two.x"].map(|name| Name::parse(name).unwrap());
        let after = |seconds| now + Duration::from_secs(seconds);
        deadlines.set(&one, Some(after(5)));
        deadlines.set(&two, Some(after(3)));
        deadlines.hasten(&one, after(7));
        assert_eq!((deadlines.next(), deadlines.take_due(after(2))), (Some(after(3)), vec![]));
        deadlines.hasten(&one, after(1));
        assert_eq!(deadlines.take_due(after(2)), std::slice::from_ref(&one));
        deadlines.set(&two, Some(after(9)));
        deadlines.set(&one, Some(after(4)));
        deadlines.set(&one, None);
        assert_eq!((deadlines.take_due(after(8)), deadlines.next()), (vec![], Some(after(9))));
        assert_eq!(deadlines.take_due(after(9)), [two]);
        assert_eq!((deadlines.next(), deadlines.keys.len()), (None, 0));
    }
}
