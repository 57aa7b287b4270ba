//! Comparison of a full transfer with the version that is there already.
//!
//! A transfer mostly brings nearly all of that version again. So each name is compared as it comes, and a name that is
//! the same is only ticked off: a transfer costs memory for the names that differ, and an octet for each name.
//!
//! Cost: O(octets) for a name.

use super::builder::Builder;
use super::node::Node;
use super::table;
use crate::zone::Zone;
use std::sync::Arc;

/// The nodes of a version, ticked off one by one.
pub(super) struct Kept {
    base: Arc<Zone>,
    /// Number of nodes in front of each shard.
    starts: Vec<u32>,
    /// States by number of node.
    states: Vec<State>,
}

/// State of a name of the base: the records of it that have come.
#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Nothing,
    /// The same records, and nothing else so far.
    Same,
    /// Something that the builder has.
    Other,
}

impl Kept {
    /// Starts when nothing has come yet.
    pub fn new(base: Arc<Zone>) -> Kept {
        let (starts, states) = (base.table.starts(), vec![State::Nothing; base.table.names()]);
        Kept { base, starts, states }
    }

    /// Takes the sets of an owner; what is not the same goes to the builder.
    pub fn take(&mut self, owner: &[u8], spelled: Option<&[u8]>, sets: &[u8], builder: &mut Builder<'_>) {
        if let Some((number, node)) = self.base.table.number(&self.starts, table::hash(owner), owner) {
            let state = &mut self.states[number];
            if *state == State::Nothing && node.sets == sets && node.spelled == spelled {
                *state = State::Same;
                return;
            }
            // More records of the name: those that came before belong to them.
            if std::mem::replace(state, State::Other) == State::Same {
                builder.push_sets(owner, node.spelled, node.sets);
            }
        }
        builder.push_sets(owner, spelled, sets);
    }

    /// Returns true if this is about a version.
    pub fn is_of(&self, base: &Zone) -> bool {
        std::ptr::eq(&*self.base, base)
    }

    /// Gives the builder what is the same, too.
    pub fn push_all(self, builder: &mut Builder<'_>) {
        let same = self.base.nodes().zip(&self.states).filter(|(_, state)| **state == State::Same);
        same.for_each(|(node, _)| builder.push_sets(node.owner, node.spelled, node.sets));
    }

    /// The nodes with records of which nothing came.
    pub fn gone(&self) -> impl Iterator<Item = Node<'_>> {
        let pairs = self.base.nodes().zip(&self.states);
        pairs.filter(|(node, state)| **state == State::Nothing && !node.is_empty()).map(|(node, _)| node)
    }
}
