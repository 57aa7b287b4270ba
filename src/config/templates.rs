//! The section `[templates]`: keys that several zones, aggregations or inventories share.
//!
//! What has `template = "NAME"` takes from that template every key that it does not write itself. This is done in the
//! tree of the file, before anything is read, so that a key means in a template what it means where it is taken, and a
//! mistake is told at its place in the template, once. Where a catalog names the templates of its zones, the templates
//! themselves are put in place of their names.
//!
//! Invariants: what stands in an entry itself wins; templates have no templates; behind this step nothing knows of them.
//!
//! Cost: O(keys of the templates) for each entry that takes one.

use settings::read::{Reader, shorten};
use settings::schema::{Key, did_you_mean, key};
use settings::tree::{Entry, Node, Value};
use std::collections::HashSet;

/// The sections whose tables take templates.
const SECTIONS: [&str; 3] = ["zones", "inventories", "aggregations"];
/// The section whose zones take templates, and the keys that name those.
const CATALOGS: &str = "catalogs";
pub const MEMBER_TEMPLATE: &str = "member_template";
pub const GROUPS: &str = "groups";

/// The key that takes a template.
pub const fn template<S>() -> Key<S> {
    key("template", "", "name of the template in [templates] whose keys it has where it has none of its own")
        .bound("name of a template")
}

/// Gives each table of the file the keys of its template.
pub fn apply(reader: &mut Reader<'_>, tree: &mut Node) {
    let Value::Table(root) = &mut tree.value else { return };
    let templates = match root.iter().find(|entry| entry.key == "templates").map(|entry| &entry.node) {
        None => Vec::new(),
        Some(Node { value: Value::Table(templates), .. }) => templates.clone(),
        Some(node) => {
            reader.wrong_type::<()>("templates", node, "a table of templates, such as [templates.far]");
            return;
        }
    };
    for template in &templates {
        let name = shorten(&template.key);
        match template.node.get("template") {
            Some(inner) => reader.error(inner.at, format!("template \"{name}\" takes a template; write its keys here")),
            None if !template.node.is_table() => {
                reader.wrong_type::<()>(&format!("templates.{name}"), &template.node, "a table of keys");
            }
            None => {}
        }
        positions(&template.node).into_iter().for_each(|at| reader.tell_once(at));
    }
    let mut taken = HashSet::new();
    for section in root.iter_mut().filter(|entry| SECTIONS.contains(&entry.key.as_str())) {
        let Value::Table(entries) = &mut section.node.value else { continue };
        entries.iter_mut().for_each(|entry| taken.extend(fill(reader, entry, &templates)));
    }
    for section in root.iter_mut().filter(|entry| entry.key == CATALOGS) {
        let Value::Table(catalogs) = &mut section.node.value else { continue };
        for catalog in catalogs {
            let Value::Table(fields) = &mut catalog.node.value else { continue };
            taken.extend(put_in_place(reader, fields, MEMBER_TEMPLATE, &templates));
            if let Some(Entry { node: Node { value: Value::Table(groups), .. }, .. }) =
                fields.iter_mut().find(|field| field.key == GROUPS)
            {
                let names: Vec<String> = groups.iter().map(|group| group.key.clone()).collect();
                taken.extend(names.iter().filter_map(|name| put_in_place(reader, groups, name, &templates)));
            }
        }
    }
    for template in templates.iter().filter(|template| !taken.contains(template.key.as_str())) {
        let name = shorten(&template.key);
        let advice = format!("write template = \"{name}\" in a zone, an aggregation or an inventory, or remove it");
        reader.warn(template.key_at, format!("nothing takes template \"{name}\"; {advice}"));
    }
}

/// Gives one table the keys of the template that it names. Returns the name.
fn fill<'t>(reader: &mut Reader<'_>, entry: &mut Entry, templates: &'t [Entry]) -> Option<&'t str> {
    let Value::Table(own) = &mut entry.node.value else { return None };
    let place = own.iter().position(|field| field.key == "template")?;
    let Entry { node, .. } = own.remove(place);
    let template = find(reader, "template", &node, templates)?;
    if let Value::Table(shared) = &template.node.value {
        let missing = shared.iter().filter(|field| own.iter().all(|there| there.key != field.key));
        let missing: Vec<Entry> = missing.filter(|field| field.key != "template").cloned().collect();
        own.extend(missing);
    }
    Some(&template.key)
}

/// Puts a template in place of its name, which is the value of a key. Returns the name.
fn put_in_place<'t>(
    reader: &mut Reader<'_>,
    fields: &mut Vec<Entry>,
    key: &str,
    templates: &'t [Entry],
) -> Option<&'t str> {
    let place = fields.iter().position(|field| field.key == key)?;
    let Some(template) = find(reader, key, &fields[place].node, templates) else {
        fields.remove(place);
        return None;
    };
    fields[place].node = template.node.clone();
    Some(&template.key)
}

/// The template that a value names.
fn find<'t>(reader: &mut Reader<'_>, key: &str, node: &Node, templates: &'t [Entry]) -> Option<&'t Entry> {
    let wanted = reader.text(key, node, "the name of a template")?;
    let found = templates.iter().find(|template| template.key == wanted);
    found.or_else(|| {
        let known = templates.iter().map(|template| template.key.as_str());
        let advice = did_you_mean(wanted, known, || "add it to [templates] or remove this".to_owned());
        reader.refuse(node.at, format!("unknown template \"{}\"; {advice}", shorten(wanted)))
    })
}

/// Where everything within a value begins, keys included.
pub fn positions(node: &Node) -> Vec<usize> {
    let within = match &node.value {
        Value::Table(entries) => {
            entries.iter().flat_map(|entry| [vec![entry.key_at], positions(&entry.node)].concat()).collect()
        }
        Value::List(items) => items.iter().flat_map(positions).collect(),
        _ => Vec::new(),
    };
    [vec![node.at], within].concat()
}

#[cfg(test)]
mod tests {
    use crate::config::Config;
    use std::path::Path;
    use std::time::Duration;

    /// Reads a text.
    fn read(text: &str) -> Result<Config, String> {
        Config::parse(Path::new("c"), text).map_err(|errors| errors.to_string())
    }

    #[test]
    fn what_an_entry_writes_itself_wins() {
        let config = read(
            "[templates.far]\nretry_min = \"7s\"\nixfr = false\nprimaries = \"192.0.2.9\"\n[zones.\"a.test\"]\n\
             template = \"far\"\nixfr = true\n[zones.\"b.test\"]\ntemplate = \"far\"\nprimaries = \"192.0.2.1\"\n\
             [templates.region]\nexpire_after = \"3d\"\n[aggregations.\"r.test\"]\ntemplate = \"region\"\n\
             members = [\"a.test\", \"b.test\"]\nns = [\"ns.test\"]\n",
        )
        .unwrap();
        let told =
            config.zones.iter().map(|zone| (zone.ixfr, zone.timers.retry_min, zone.primaries[0].address.to_string()));
        let seven = Duration::from_secs(7);
        let expected = [(true, seven, "192.0.2.9:53".to_owned()), (false, seven, "192.0.2.1:53".to_owned())];
        assert_eq!(told.collect::<Vec<_>>(), expected);
        assert!(config.plan_text().contains("3d"), "{}", config.plan_text());
        assert_eq!(config.warning_lines(), [""; 0]);
    }

    #[test]
    fn a_mistake_of_a_template_is_told_once_at_its_place() {
        let zones = |count: usize| -> String {
            (0..count)
                .map(|zone| format!("[zones.\"z{zone}.test\"]\ntemplate = \"far\"\nprimaries = \"192.0.2.1\"\n"))
                .collect()
        };
        let errors = read(&format!("[templates.far]\nretry_min = 7.5\nixfer = false\n{}", zones(200))).unwrap_err();
        assert_eq!(errors.lines().count(), 2, "{errors}");
        assert!(errors.starts_with("c:2:13: ") && errors.contains("\nc:3:1: unknown key \"ixfer\""), "{errors}");
    }
}
