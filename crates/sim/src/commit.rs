//! A commit of CNS: one write after the other, with everything between two of them to be seen.
//!
//! First the lists of what the step removes and adds are written, record by record; then the names, eight at a time; then
//! the list of serials; last the serial that is served (`docs/cns.md` 27). So a transfer that runs meanwhile
//! finds new names under the old serial, and differences that reach one serial too far.
//!
//! Lists are kept by serial. A commit under the serial that is served already adds to the lists of the step that led
//! there, and the list of serials then has that serial twice.
//!
//! Cost: O(records) to begin and for each write, since zones are replaced whole.

use super::store::{Step, Stored};
use super::zone::Zone;
use std::sync::Arc;
use wire::name::Name;

/// Names that CNS writes at a time.
const NAMES_AT_A_TIME: usize = 8;

/// Data that one commit writes.
pub struct Commit {
    new: Zone,
    step: Arc<Step>,
    /// Names whose records differ.
    names: Vec<Name>,
}

impl Commit {
    /// Commit from the version that is served to another.
    pub fn new(old: &Zone, new: Zone) -> Commit {
        let step = Arc::new(Step::between(old, &new));
        let records = |zone: &Zone, name: &Name| zone.find(name.as_wire()).map(<[_]>::to_vec);
        let all = old.nodes().iter().chain(new.nodes().iter().filter(|node| old.find(node.owner.as_wire()).is_none()));
        let names =
            all.map(|node| node.owner.clone()).filter(|name| records(old, name) != records(&new, name)).collect();
        Commit { new, step, names }
    }

    /// Number of writes: one for each record of the lists, one for some names, and two at the end.
    pub fn writes(&self) -> usize {
        self.lists() + self.names.len().div_ceil(NAMES_AT_A_TIME) + 2
    }

    /// Number of records in the lists.
    fn lists(&self) -> usize {
        self.step.removed.len() + self.step.added.len()
    }

    /// Does one write. What is in the lists cannot be seen before the list of serials has its serial.
    pub fn write(&self, stored: &mut Stored, number: usize) {
        let Some(number) = number.checked_sub(self.lists()) else { return };
        match self.names.chunks(NAMES_AT_A_TIME).nth(number) {
            Some(names) => {
                let records = |name: &Name| self.new.find(name.as_wire()).unwrap_or_default().to_vec();
                stored.write(names.iter().map(|name| (name.clone(), records(name))));
            }
            None if number < self.writes() - self.lists() - 1 => stored.record(&self.step),
            None => stored.serve(self.new.clone()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::zone::{Apex, Data};
    use super::*;
    use std::net::Ipv4Addr;
    use wire::serial::Serial;

    fn name(text: &str) -> Name {
        Name::parse(text).unwrap()
    }

    /// A zone of as many names, each with an address.
    fn zone(serial: u32, names: usize, address: u8) -> Zone {
        let apex = Apex { mname: name("ns1.x"), rname: name("h.x"), name_servers: vec![name("ns1.x")] };
        let data = |index| (name(&format!("w{index}.z")), Data::A(Ipv4Addr::new(192, 0, 2, address)));
        Zone::new(name("z"), apex, Serial(serial), (0..names).map(data))
    }

    fn steps(stored: &Stored, from: u32) -> Option<Vec<(u32, u32)>> {
        Some(stored.steps_from(Serial(from))?.map(|step| (step.from.0, step.to.0)).collect())
    }

    #[test]
    fn lists_come_before_names_and_names_before_serials() {
        let mut stored = Stored::new(zone(10, 10, 1)).advance(zone(20, 10, 2));
        let commit = Commit::new(stored.zone(), zone(30, 10, 3));
        // Ten records go and ten come; names in two parts.
        assert_eq!(commit.writes(), 20 + 2 + 2);
        let mut seen = Vec::new();
        for number in 0..commit.writes() {
            commit.write(&mut stored, number);
            let new = zone(30, 10, 3);
            let is_new = |name: &Name| stored.zone().find(name.as_wire()) == new.find(name.as_wire());
            let written = commit.names.iter().filter(|name| is_new(name)).count();
            seen.push((written, steps(&stored, 10).unwrap().len(), stored.zone().serial().0));
        }
        seen.dedup();
        assert_eq!(seen, [(0, 1, 20), (8, 1, 20), (10, 1, 20), (10, 2, 20), (10, 2, 30)]);
        assert_eq!(steps(&stored, 30), None);
    }

    #[test]
    fn two_commits_under_one_serial_have_one_list() {
        let mut stored = Stored::new(zone(10, 1, 1));
        for (serial, names) in [(20, 2), (20, 3), (30, 4)] {
            let commit = Commit::new(stored.zone(), zone(serial, names, 1));
            (0..commit.writes()).for_each(|number| commit.write(&mut stored, number));
            if names == 3 {
                assert_eq!(steps(&stored, 20), Some(vec![(20, 20)]), "at the served serial");
                let added: Vec<_> = stored.steps_from(Serial(10)).unwrap().map(|step| step.added.len()).collect();
                assert_eq!(added, [2, 2]);
            }
        }
        assert_eq!(steps(&stored, 20), Some(vec![(20, 20), (20, 30)]));
        assert_eq!(steps(&stored, 30), None);
    }
}
