//! The configuration's example and the table of its keys tell the truth.

use aggregator::config::{Config, schema};
use std::path::Path;

const EXAMPLE: &str = include_str!("../config.example.toml");
const ZONE: &str = "[zones]\n\"a.example\" = \"192.0.2.1\"\n";

fn parse(text: &str) -> Config {
    Config::parse(Path::new("c.toml"), text).unwrap_or_else(|errors| panic!("{errors}\nin\n{text}"))
}

/// The example with every default written out; the commented lines for TLS, too, if asked for.
fn spell_out_example(tls: bool) -> String {
    let spelled = EXAMPLE.lines().map(|line| {
        let setting = line.strip_prefix("# To switch it on:").filter(|_| tls).map(str::trim).or_else(|| {
            let rest = line.strip_prefix('#')?;
            rest.starts_with(|character: char| character.is_ascii_lowercase()).then_some(rest)
        });
        setting.unwrap_or(line)
    });
    spelled.collect::<Vec<_>>().join("\n")
}

#[test]
fn the_example_loads_and_its_defaults_are_true() {
    let (shipped, spelled) = (parse(EXAMPLE), parse(&spell_out_example(false)));
    assert_eq!(shipped.plan_text(), spelled.plan_text());
    assert_eq!(shipped.catalogs, spelled.catalogs);
    assert_eq!((shipped.zones, shipped.regions, shipped.drains), (spelled.zones, spelled.regions, spelled.drains));
    assert_eq!((shipped.listen, shipped.metrics), (spelled.listen, spelled.metrics));
    assert_eq!((shipped.control, shipped.log), (spelled.control, spelled.log));
    assert_eq!((shipped.keys, shipped.outgoing, shipped.targets), (spelled.keys, spelled.outgoing, spelled.targets));
    assert_eq!((shipped.history, shipped.state), (spelled.history, spelled.state));
    assert_eq!((shipped.rate_limit, shipped.cookies, shipped.tap), (spelled.rate_limit, spelled.cookies, spelled.tap));
    assert_eq!(shipped.warnings.len(), 1, "{:?}", shipped.warnings);
}

#[test]
fn the_example_shows_every_key() {
    let text = spell_out_example(true);
    parse(&text);
    let example: toml::Value = toml::Value::Table(toml::from_str(&text).unwrap());
    for table in schema::tables() {
        // The path of the table in the example.
        let shown = match table.path {
            "" => Some(&example),
            "[server] tls" => example.get("server").and_then(|server| server.get("tls")),
            "[control] https" => example.get("control").and_then(|control| control.get("https")),
            "[keys.\"NAME\"]" => example["keys"].get("transfer.example.com"),
            "[zones.\"NAME\"]" => example.get("zones").and_then(|zones| zones.get("us-west-3.cns.example.com")),
            "[catalogs.\"NAME\"]" => example["catalogs"].get("datacenters.example.com"),
            "[zones.\"NAME\"] with members" => example["zones"].get("100.51.198.in-addr.arpa"),
            "a member of [zones.\"NAME\"]" => example["zones"]["100.51.198.in-addr.arpa"]["members"].get(0),
            "[zones.\"NAME\"] with zookeeper" => example["zones"].get("emy-10.example.com"),
            "[zones.\"NAME\"] tls" => example["zones"]["emy-10.example.com"].get("tls"),
            "[zones.\"NAME\"] with inventory" => example["zones"].get("us-central.cns.example.com"),
            "[inventories.NAME]" => example["inventories"].get("us-central"),
            "[inventories.NAME] with url" => example["inventories"].get("us-south"),
            "[inventories.NAME] with triton" => example["inventories"].get("us-north"),
            "[inventories.NAME.triton]" => example["inventories"]["us-north"].get("triton"),
            "[inventories.NAME.triton.ufds]" => example["inventories"]["us-north"]["triton"].get("ufds"),
            "[zones.\"NAME\"] with services" => example["zones"].get("mystack.example.com"),
            "[[zones.\"NAME\".openstack]]" => example["zones"]["mystack.example.com"]["openstack"].get(0),
            "primaries tls" => example["zones"]["us-west-3.cns.example.com"].get("tls"),
            "primaries" => example["zones"]["us-west-3.cns.example.com"]["primaries"].get(1),
            "allow_transfer" => example["secondaries"]["allow_transfer"].get(2),
            "notify" => example["secondaries"]["notify"].get(1),
            "[aggregations.\"NAME\"]" => example["aggregations"].get("us-east.cns.example.com"),
            "[aggregations.\"NAME\"] damping" => example["aggregations"]["us-east.cns.example.com"].get("damping"),
            "a member of [aggregations.\"NAME\"]" => {
                example["aggregations"]["us-east.cns.example.com"]["members"].get(0)
            }
            "a member of [aggregations.\"NAME\"] with match" => {
                example["aggregations"]["us-east.cns.example.com"]["members"].get(1)
            }
            "addresses" => example["aggregations"]["us-east.cns.example.com"].get("addresses"),
            "steering" => example["aggregations"]["us-east.cns.example.com"].get("steering"),
            "[[aggregations.\"NAME\".names]] steering" => {
                example["aggregations"]["us-east.cns.example.com"]["names"][0].get("steering")
            }
            "[clients] \"NAME\"" => example["clients"].get("us-west-3.cns.example.com"),
            "answers" => example["aggregations"]["us-east.cns.example.com"].get("answers"),
            "[[aggregations.\"NAME\".names]]" => example["aggregations"]["us-east.cns.example.com"]["names"].get(0),
            "[[drains]]" => example["drains"].get(0),
            path => example.get(path.trim_matches(['[', ']'])),
        };
        let shown = shown.and_then(toml::Value::as_table).unwrap_or_else(|| panic!("{} is missing", table.path));
        for key in table.keys {
            // A key that excludes another one, which is shown, stands in a comment beside that.
            let stands_aside = key.name == "accounts" && EXAMPLE.contains("# In place of \"ufds\": accounts = ");
            assert!(stands_aside || shown.contains_key(key.name), "{} {} is missing", table.path, key.name);
        }
    }
}

#[test]
fn the_defaults_of_the_schema_are_true() {
    let region = "[aggregations.\"r.example\"]\nmembers = [\"a.example\"]\n";
    let damping = "[aggregations.\"r.example\".damping]\n";
    let steering = "[aggregations.\"r.example\".steering]\n";
    let server = "[server]\nname = \"ns.example\"\n";
    let key = "[keys.\"k.example\"]\nsecret_file = \"k\"\n";
    let zone = "[zones.\"b.example\"]\nprimaries = \"192.0.2.1\"\n";
    let catalog = "[catalogs.\"j.example\"]\nprimaries = \"192.0.2.1\"\n";
    let united = "[zones.\"e.example\"]\n";
    let member = "[[zones.\"e.example\".members]]\nid = \"m\"\nprimaries = \"192.0.2.1\"\n";
    let tree = "[zones.\"c.example\"]\nzookeeper = \"192.0.2.1\"\n";
    let made = "[zones.\"f.example\"]\ninventory = \"f\"\n";
    let file = "[inventories.f]\nfile = \"f.toml\"\n";
    let fetched = "[zones.\"g.example\"]\ninventory = \"g\"\n[inventories.g]\nurl = \"http://192.0.2.1/\"\n";
    let followed = "[zones.\"h.example\"]\ninventory = \"h\"\n[inventories.h]\n";
    let url = "\"http://192.0.2.1/\"";
    let triton = format!("[inventories.h.triton]\nvmapi = {url}\ncnapi = {url}\nnapi = {url}\naccounts = \"a.toml\"\n");
    let directed = "[zones.\"i.example\"]\ninventory = \"i\"\n[inventories.i.triton]\n";
    let directed = format!("{directed}vmapi = {url}\ncnapi = {url}\nnapi = {url}\n[inventories.i.triton.ufds]\n");
    let directed = format!("{directed}address = \"ldaps://192.0.2.1\"\npassword_file = \"p\"\n");
    let own = "[zones.\"d.example\"]\nservices = \"\"\n";
    let service = "[[zones.\"d.example\".openstack]]\ntype = \"dns\"\nurl = \"https://192.0.2.1/\"\n";
    let tap = "[dnstap]\ncollector = \"/run/c\"\n";
    let traces = "[traces]\ncollector = \"http://127.0.0.1:4318\"\n";
    let mut spelled = ZONE.to_string();
    let mut count = 0;
    for table in schema::tables() {
        spelled.push_str(match table.path {
            "[server]" => server,
            "[keys.\"NAME\"]" => key,
            "[zones.\"NAME\"]" => zone,
            "[catalogs.\"NAME\"]" => catalog,
            "[zones.\"NAME\"] with members" => united,
            "a member of [zones.\"NAME\"]" => member,
            "[zones.\"NAME\"] with zookeeper" => tree,
            "[zones.\"NAME\"] with inventory" => made,
            "[inventories.NAME]" => file,
            "[inventories.NAME] with url" => fetched,
            "[inventories.NAME] with triton" => followed,
            "[inventories.NAME.triton]" => &triton,
            "[inventories.NAME.triton.ufds]" => &directed,
            "[zones.\"NAME\"] with services" => own,
            "[[zones.\"NAME\".openstack]]" => service,
            "[aggregations.\"NAME\"]" => region,
            "[aggregations.\"NAME\"] damping" => damping,
            "" | "[[drains]]" | "[[aggregations.\"NAME\".names]]" | "a member of [aggregations.\"NAME\"]" => continue,
            "a member of [aggregations.\"NAME\"] with match" => continue,
            "[server] tls" | "[control] https" | "[zones.\"NAME\"] tls" | "primaries" | "allow_transfer" | "notify" => {
                continue;
            }
            // Of which the default is to have none.
            "primaries tls" => continue,
            "answers" | "addresses" | "[[aggregations.\"NAME\".names]] steering" | "[clients] \"NAME\"" => continue,
            "steering" => steering,
            "[dnstap]" => tap,
            "[traces]" => traces,
            path => path,
        });
        spelled.push('\n');
        for key in table.keys.iter().filter(|key| !key.default.is_empty()) {
            spelled.push_str(&format!("{} = {}\n", key.name, key.default));
            count += 1;
        }
    }
    assert!(count > 30, "{count} defaults");
    let (plain, spelled) = (
        parse(&format!(
            "{ZONE}{server}{region}{damping}{key}{zone}{catalog}{united}{member}{tree}{made}{file}{fetched}{followed}{triton}{directed}{own}{service}{tap}"
        )),
        parse(&spelled),
    );
    assert_eq!((plain.zones, plain.trees, plain.regions), (spelled.zones, spelled.trees, spelled.regions));
    assert_eq!((plain.services, plain.inventories), (spelled.services, spelled.inventories));
    assert_eq!((plain.listen, plain.metrics), (spelled.listen, spelled.metrics));
    assert_eq!((plain.control, plain.log, plain.history), (spelled.control, spelled.log, spelled.history));
    assert_eq!((plain.audit, plain.hold_down, plain.state), (spelled.audit, spelled.hold_down, spelled.state));
    assert_eq!((plain.keys, plain.outgoing, plain.targets), (spelled.keys, spelled.outgoing, spelled.targets));
    assert_eq!((plain.answers, plain.client_subnet_from), (spelled.answers, spelled.client_subnet_from));
    assert_eq!((plain.rate_limit, plain.cookies, plain.tap), (spelled.rate_limit, spelled.cookies, spelled.tap));
}
