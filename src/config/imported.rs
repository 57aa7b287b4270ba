//! The key `cns` of `[inventories.NAME]`: a configuration of Triton's CNS, whose zones and rules stand as if they were
//! written here.
//!
//! What `aggregator cns convert` prints of the file is put into the tree before anything is read, at the place of the key.
//!
//! Invariants: what this file says itself wins, key by key; behind this step nothing knows of CNS' file; a mistake in that
//! is told at its place there.
//!
//! Cost: O(both files).
//!
//! RFCs: 8259 (CNS' file is JSON).

use inventory::cns;
use settings::error::Source;
use settings::read::Reader;
use settings::read_text;
use settings::schema::{Key, key};
use settings::tree::{self, Entry, Node, Value};

/// The section of inventories, the key, and the section of the zones that are made.
const SECTION: &str = "inventories";
const CNS: &str = "cns";
const ZONES: &str = "zones";
/// What is written instead of where the instances of CNS come from.
const PLACE: &str = "file";

/// The key.
pub const fn imported<S>() -> Key<S> {
    key(
        "cns",
        r#""""#,
        "configuration file of Triton's CNS, or of RFD 1's, whose zones, networks, name servers and rules hold",
    )
    .bound("path, or \"\" for none")
}

/// Puts what the files of CNS say into the tree.
pub fn apply(reader: &mut Reader<'_>, tree: &mut Node) {
    let Value::Table(root) = &mut tree.value else { return };
    let Some(section) = root.iter_mut().find(|entry| entry.key == SECTION) else { return };
    let Value::Table(inventories) = &mut section.node.value else { return };
    let mut zones = Vec::new();
    for inventory in inventories {
        let name = inventory.key.clone();
        let Value::Table(own) = &mut inventory.node.value else { continue };
        let Some(place) = own.iter().position(|entry| entry.key == CNS) else { continue };
        let Entry { node, .. } = own.remove(place);
        if matches!(&node.value, Value::Text(path) if path.is_empty()) {
            continue;
        }
        let Some(made) = read(reader, &node, &name) else {
            // That it feeds no zone is no news then, nor that there may be none at all.
            [inventory.key_at, 0].into_iter().for_each(|at| reader.tell_no_more(at));
            continue;
        };
        for entry in made {
            let Value::Table(entries) = entry.node.value else { continue };
            match &*entry.key {
                SECTION => {
                    let rules = entries.into_iter().flat_map(|inventory| match inventory.node.value {
                        Value::Table(rules) => rules,
                        _ => Vec::new(),
                    });
                    complete(own, rules.filter(|rule| rule.key != PLACE));
                }
                _ => zones.extend(entries),
            }
        }
    }
    let Some(first) = zones.first() else { return };
    let at = first.key_at;
    if !root.iter().any(|entry| entry.key == ZONES) {
        let node = Node { at, value: Value::Table(Vec::new()) };
        root.push(Entry { key: ZONES.to_owned(), key_at: at, node });
    }
    let there = root.iter_mut().find(|entry| entry.key == ZONES).map(|entry| &mut entry.node.value);
    let Some(Value::Table(there)) = there else { return };
    for zone in zones {
        match there.iter_mut().find(|present| is_same(&present.key, &zone.key)) {
            None => there.push(zone),
            Some(present) => {
                if let (Value::Table(own), Value::Table(more)) = (&mut present.node.value, zone.node.value) {
                    complete(own, more.into_iter());
                }
            }
        }
    }
}

/// Reads a file of CNS: the sections that it stands for, all at the place of its key.
fn read(reader: &mut Reader<'_>, node: &Node, inventory: &str) -> Option<Vec<Entry>> {
    let path = reader.path(CNS, node)?;
    let read = read_text(&path).and_then(|text| cns::read(&path, &text));
    let found = match read {
        Ok(found) => found,
        Err(errors) => {
            errors.0.into_iter().for_each(|error| reader.error_elsewhere(error));
            return None;
        }
    };
    found.warnings.iter().for_each(|warning| reader.warn(node.at, format!("\"{CNS}\": {warning}")));
    let text = found.to_toml(inventory);
    let (tree, _) = tree::parse(&Source::new(&path, &text));
    match tree.map(|mut tree| {
        place(&mut tree, node.at);
        tree.value
    }) {
        Some(Value::Table(entries)) => Some(entries),
        _ => None,
    }
}

/// Adds the keys that a table does not have itself.
fn complete(own: &mut Vec<Entry>, more: impl Iterator<Item = Entry>) {
    for entry in more {
        if !own.iter().any(|present| present.key == entry.key) {
            own.push(entry);
        }
    }
}

/// Returns true if two texts are one name: in capitals or not, with its last dot or without.
fn is_same(one: &str, other: &str) -> bool {
    let bare = |name: &str| name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase();
    bare(one) == bare(other)
}

/// Gives all of a tree one place.
fn place(node: &mut Node, at: usize) {
    node.at = at;
    match &mut node.value {
        Value::Table(entries) => {
            for entry in entries {
                entry.key_at = at;
                place(&mut entry.node, at);
            }
        }
        Value::List(items) => items.iter_mut().for_each(|item| place(item, at)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use crate::config::Config;
    use std::path::Path;

    const CNS: &str = r#"{ "my_name": "cns.example.com", "use_login": true, "use_alias": false,
        "forward_zones": {
            "a.example.com": { "networks": ["*"], "peers": ["ns1.example.com"], "hidden_primary": true },
            "b.example.com": { "networks": ["e0000000-0000-4000-8000-000000000001"] } },
        "allow_transfer": ["10.0.0.0/8"] }"#;

    /// The plan of a file beside which there is one of CNS, or what is wrong.
    fn load(text: &str, cns: &str) -> Result<String, String> {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("cns.json"), cns).unwrap();
        std::fs::write(folder.path().join("c.toml"), text).unwrap();
        let home = format!("{}/", folder.path().display());
        let read = Config::load(&folder.path().join("c.toml"));
        let plan = read.map(|config| format!("{:?}\n{}", config.warning_lines(), config.plan_text()));
        plan.map(|plan| plan.replace(&home, "")).map_err(|errors| errors.to_string().replace(&home, ""))
    }

    #[test]
    fn a_file_of_cns_is_as_if_its_sections_were_written() {
        let converted = inventory::cns::read(Path::new("cns.json"), CNS).unwrap().to_toml("dc1");
        let taken = load("[inventories.dc1]\nfile = \"dc1.json\"\ncns = \"cns.json\"\n", CNS).unwrap();
        assert_eq!(taken, load(&converted, "").unwrap());
        assert!(taken.contains("a.example.com.") && taken.contains("host ns1.example.com."), "{taken}");
        let none = load(&format!("{converted}\n[inventories.dc2]\nfile = \"d.json\"\ncns = \"\"\n"), "{").unwrap_err();
        assert!(none.contains("inventory \"dc2\" feeds no zone") && none.lines().count() == 1, "{none}");
    }

    #[test]
    fn what_is_written_wins() {
        let own = "[inventories.dc1]\nfile = \"dc1.json\"\ncns = \"cns.json\"\nuse_alias = true\n\
            [zones.\"A.example.com.\"]\ninventory = \"dc1\"\nallow_transfer = [\"192.0.2.1\"]\n\
            [zones]\n\"c.example.com\" = \"192.0.2.2\"\n";
        let plan = load(own, CNS).unwrap();
        assert!(plan.contains("192.0.2.1"), "{plan}");
        assert!(
            !plan.contains("host ns1.example.com.")
                && plan.contains("b.example.com.")
                && plan.contains("c.example.com."),
            "{plan}"
        );
    }

    #[test]
    fn mistakes_are_told_where_they_are() {
        let text = "[inventories.dc1]\nfile = \"dc1.json\"\ncns = \"cns.json\"\n";
        let hidden =
            load(text, "{\n\"dns_zones\": { \"a.example\": { \"networks\": [\"*\"], \"hidden_master\": true } } }");
        let hidden = hidden.unwrap_err();
        assert!(hidden.starts_with("cns.json:2:") && hidden.lines().count() == 1, "{hidden}");
        let absent = load(&text.replace("cns.json", "none.json"), "").unwrap_err();
        assert!(absent.starts_with("none.json:1:1: cannot be read") && absent.lines().count() == 1, "{absent}");
    }
}
