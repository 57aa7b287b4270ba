//! Script of the demonstration: the events in the datacenters, and their order.
//!
//! A round scales one datacenter, takes an instance of another out of service, and lets a third go away and come back
//! while life goes on behind the partition and elsewhere. The next round moves everything on by one datacenter.
//!
//! Invariant: a datacenter has two to five instances of the service at any time, so that a round can go on forever and
//! an answer always fits into one datagram. Cost: O(1) for a step.

use std::fmt;

/// Event in a datacenter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScriptedChange {
    /// Instances are started.
    ScaleUp(usize),
    /// Instances are destroyed.
    ScaleDown(usize),
    /// An instance goes out of service.
    InstanceDown,
    /// The instance is in service again.
    InstanceUp,
    /// The datacenter is cut off, and instances are started behind the partition.
    Leave(usize),
    /// The datacenter can be reached again.
    Return,
}

impl fmt::Display for ScriptedChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ScriptedChange::ScaleUp(count) => write!(f, "scale up by {count}"),
            ScriptedChange::ScaleDown(count) => write!(f, "scale down by {count}"),
            ScriptedChange::InstanceDown => f.write_str("instance down"),
            ScriptedChange::InstanceUp => f.write_str("instance up"),
            ScriptedChange::Leave(count) => write!(f, "datacenter away, scales up by {count} unseen"),
            ScriptedChange::Return => f.write_str("datacenter back"),
        }
    }
}

/// A change and the datacenter that it happens to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScriptedStep {
    pub site: usize,
    pub change: ScriptedChange,
}

/// Datacenters that the script plays with.
pub const SITES: usize = 3;

/// One round, by the place of the datacenter in the round. The first gains and loses two, the second loses one, and
/// the third gains one: after three rounds all are as at the beginning.
const ROUND: [(usize, ScriptedChange); 7] = [
    (0, ScriptedChange::ScaleUp(2)),
    (1, ScriptedChange::ScaleDown(1)),
    (2, ScriptedChange::InstanceDown),
    (2, ScriptedChange::Leave(1)),
    (0, ScriptedChange::ScaleDown(2)),
    (2, ScriptedChange::Return),
    (2, ScriptedChange::InstanceUp),
];

/// The endless script.
#[derive(Debug, Default)]
pub struct Script {
    /// Steps that were taken.
    taken: usize,
}

impl Script {
    /// Returns the next step.
    pub fn next(&self) -> ScriptedStep {
        let (round, at) = (self.taken / ROUND.len(), self.taken % ROUND.len());
        let (place, change) = ROUND[at];
        ScriptedStep { site: (round + place) % SITES, change }
    }

    /// Goes on to the next step.
    pub fn advance(&mut self) {
        self.taken += 1;
    }

    /// Passes over an outage that is next, to what follows the return.
    pub fn skip_outage(&mut self) {
        if matches!(self.next().change, ScriptedChange::Leave(_)) {
            self.skip_to_return();
            self.taken += 1;
        }
    }

    /// Passes over what is still to happen during an outage, to the return.
    pub fn skip_to_return(&mut self) {
        while self.next().change != ScriptedChange::Return {
            self.taken += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_round_is_within_bounds_and_complete() {
        let mut script = Script::default();
        let mut counts = [3_usize; SITES];
        let mut away = None;
        for _ in 0..50 * ROUND.len() {
            let ScriptedStep { site, change } = script.next();
            match change {
                ScriptedChange::ScaleUp(count) | ScriptedChange::Leave(count) => counts[site] += count,
                ScriptedChange::ScaleDown(count) => counts[site] -= count,
                _ => {}
            }
            match change {
                ScriptedChange::Leave(_) => assert_eq!(away.replace(site), None),
                ScriptedChange::Return => assert_eq!(away.take(), Some(site)),
                _ => assert_ne!(away, Some(site), "what happens there is unseen"),
            }
            assert!(counts.iter().all(|count| (2..=5).contains(count)), "{counts:?}");
            script.advance();
        }
        assert_eq!(away, None);
    }

    #[test]
    fn an_outage_can_be_passed_over() {
        let mut script = Script::default();
        script.skip_outage();
        assert_eq!(script.next(), ScriptedStep { site: 0, change: ScriptedChange::ScaleUp(2) }, "none is next");
        (0..3).for_each(|_| script.advance());
        assert_eq!(script.next(), ScriptedStep { site: 2, change: ScriptedChange::Leave(1) });
        script.skip_outage();
        assert_eq!(script.next(), ScriptedStep { site: 2, change: ScriptedChange::InstanceUp });
        script.advance();
        assert_eq!(script.next(), ScriptedStep { site: 1, change: ScriptedChange::ScaleUp(2) }, "the next round");
        script.skip_to_return();
        assert_eq!(script.next(), ScriptedStep { site: 0, change: ScriptedChange::Return });
    }
}
