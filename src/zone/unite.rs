//! Zones of what several zones hold together, each in front of an origin of its own.
//!
//! Where nothing that the zones have needs a look, most of it is taken as it stands: shards, or nodes that are pointed
//! to. What the caller has to say is only what stands for the names that several of them have. Many such zones are made
//! of the same ones at once, for little more than one.
//!
//! Cost: O(names of all zones), and for each choice of them O(its names), O(octets) for names that several have.

use super::editor::Counts;
use super::table::{self, Table, United};
use super::{Editor, Node, RRsets, Zone};
use wire::name::Name;

/// What some zones hold together.
pub struct Union<T> {
    table: Table,
    counts: Counts,
    /// What the caller has said beside the sets, for each name that several have.
    pub notes: Vec<T>,
}

impl<T: Send> Union<T> {
    /// Makes the union of each choice of zones, which are given by number; none of the choices is empty. Nodes that one
    /// zone alone has are taken as they stand, [odd ones](Zone::odd_nodes), too. `unite` says what stands for an owner that several of a choice have,
    /// the apex among them, and has a set for each that has one: it is given the number of the choice, and the nodes with
    /// their places in it.
    pub fn of<'a>(
        zones: &[&'a Zone],
        choices: &[Vec<usize>],
        unite: impl Fn(usize, &'a [u8], &[(usize, Node<'a>)]) -> (RRsets, T) + Sync,
    ) -> Vec<Union<T>> {
        let tables: Vec<&Table> = zones.iter().map(|zone| &zone.table).collect();
        let finish = |(united, choice): (United<T>, &Vec<usize>)| {
            let add = |all: Counts, zone: &usize| all.change(&zones[*zone].counts(), &Counts::default());
            let counts = choice.iter().fold(Counts::default(), add).change(&united.after, &united.before);
            Union { table: united.table, counts, notes: united.notes }
        };
        table::unite(&tables, choices, unite).into_iter().zip(choices).map(finish).collect()
    }

    /// Begins a version with it.
    pub fn editor(&self, origin: Name) -> Editor {
        Editor::with_table(origin, self.table.clone(), self.counts.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::zone;
    use super::*;
    use std::ops::Range;

    /// A zone of numbered names, some of them below others.
    fn numbered(number: usize, names: Range<usize>) -> Zone {
        let line = |name: usize| match name % 3 {
            0 => format!("*.n{name} 30 A 192.0.2.{number}\n"),
            1 => format!("n{name}.below{} 30 TXT t\n", name % 40),
            _ => format!("n{name} 30 A 192.0.2.{number}\n"),
        };
        zone("z.", &format!("@ 30 SOA {number}\n{}", names.map(line).collect::<String>()))
    }

    /// Gives the apex of a zone to what is in the making.
    fn finish(mut editor: Editor, apex: &Zone, beside: &[&Zone]) -> Zone {
        editor.set(&Name::parse("r.").unwrap(), apex.apex().to_rrsets(), None);
        editor.finish_beside(beside).unwrap()
    }

    #[test]
    fn each_choice_has_what_its_zones_have() {
        let origin = Name::parse("r.").unwrap();
        let ranges = [0..9_000, 6_000..14_000, 0..30, 5_000..5_200, 8_000..40_000, 39_000..39_002, 0..0];
        let zones: Vec<Zone> = ranges.into_iter().enumerate().map(|(number, names)| numbered(number, names)).collect();
        let all: Vec<&Zone> = zones.iter().collect();
        let choices = [
            &[0, 1, 2, 3, 4, 5, 6][..],
            &[6, 5, 4, 3, 2, 1, 0],
            &[2, 3],
            &[3, 0],
            &[1, 4],
            &[4, 5],
            &[4],
            &[6],
            &[2, 6],
        ]
        .map(<[usize]>::to_vec);
        // The first of a choice stands for all of it.
        let first = |number: usize, owner: &[u8], nodes: &[(usize, Node<'_>)]| {
            assert!(nodes.is_sorted_by_key(|(place, _)| *place) && nodes.len() > 1);
            for (place, node) in nodes {
                let zone: &Zone = all[choices[number][*place]];
                assert!(node.owner() == owner && zone.table.get(owner) == Some(*node));
            }
            let full = nodes.iter().find(|(_, node)| !node.is_empty() && !owner.is_empty());
            (full.map(|(_, node)| node.to_rrsets()).unwrap_or_default(), number)
        };
        let unions = Union::of(&all, &choices, first);
        assert_eq!(unions.len(), choices.len());
        for (number, (union, choice)) in unions.iter().zip(&choices).enumerate() {
            assert!(union.notes.iter().all(|note| *note == number));
            let chosen: Vec<&Zone> = choice.iter().map(|zone| all[*zone]).collect();
            let mut expected = Editor::new(origin.clone());
            for zone in chosen.iter().rev() {
                for node in zone.nodes().filter(|node| !node.is_empty() && !node.owner().is_empty()) {
                    expected.set(&Name::join(node.owner(), &origin), node.to_rrsets(), None);
                }
            }
            let united = finish(union.editor(origin.clone()), chosen[0], &chosen);
            let expected = finish(expected, chosen[0], &[]);
            assert!(united == expected, "{choice:?}");
            let counts = |zone: &Zone| (zone.records, zone.owners, zone.cuts, zone.wildcards, zone.sizes.clone());
            assert_eq!(counts(&united), counts(&expected), "{choice:?}");
        }
    }
}
