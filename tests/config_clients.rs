//! Clients, steering and the addresses of clients at home: what a configuration makes of them, and what a reload does with
//! files of prefixes.

mod harness;

use aggregator::clients::Home;
use aggregator::config::{Config, read_prefixes};
use aggregator::merge::AnswersPlan;
use aggregator::select::{Prefer, Services, Steering};
use harness::{Aggregator, Folder, Output, write_file};
use proptest::prelude::*;
use std::fs;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;
use wire::name::Name;

const ZONES: &str = "[server]\nname = \"ns.example\"\n[zones]\n\"w1.example\" = \"192.0.2.1\"\n\"w2.example\" = \"192.0.2.2\"\n\
                     \"w3.example\" = \"192.0.2.3\"\n";
const REGION: &str =
    "[aggregations.\"r.example\"]\nmembers = [\"w1.example\", \"w2.example\"]\nns = [\"ns.example\"]\n";

fn parse(text: &str) -> Config {
    Config::parse(Path::new("c.toml"), text).unwrap_or_else(|errors| panic!("{errors}\nin\n{text}"))
}

fn name(text: &str) -> Name {
    Name::parse(text).unwrap()
}

/// The plan of the answers of the region.
fn plan(config: &Config) -> &AnswersPlan {
    &config.answers[&name("r.example")]
}

/// The home of an address in words.
fn home(config: &Config, address: &str) -> Option<String> {
    let address: IpAddr = address.parse().unwrap();
    let home: Home = config.clients.home_of(address)?;
    Some(config.clients.homes()[usize::from(home)].to_string())
}

//--- What a configuration makes of it ---

#[test]
fn every_kind_of_zone_can_be_a_home() {
    let config = parse(
        "[server]\nname = \"ns.example\"\n[zones]\n\"w1.example\" = \"192.0.2.1\"\n\
         \"w2.example\" = { members = [{ id = \"a\", primaries = [\"192.0.2.2\"] }], ns = [\"n.example\"] }\n\
         \"w3.example\" = { zookeeper = \"192.0.2.3\", reverse = \"10.3.0.0/16\" }\n\
         \"w4.example\" = { services = \"@ A 192.0.2.4\", ns = [\"n.example\"] }\n[clients]\n\
         \"W4.example.\" = [\"10.4.0.0/16\", \"10.0.0.0/8\"]\n\"w1.example\" = [\"10.1.0.0/16\", \"2001:db8:1::/48\"]\n\
         \"w2.example\" = [\"10.2.0.0/16\"]\n\"w3.example\" = [\"10.3.0.0/16\"]\n\"3.10.in-addr.arpa\" = [\"10.3.3.3\"]\n",
    );
    let homes: Vec<String> = config.clients.homes().iter().map(Name::to_string).collect();
    assert_eq!(homes, ["w4.example.", "w1.example.", "w2.example.", "w3.example.", "3.10.in-addr.arpa."]);
    assert_eq!(config.clients.prefixes(), 7);
    for (address, expected) in [
        ("10.1.2.3", "w1.example."),
        ("10.2.2.3", "w2.example."),
        ("10.3.2.3", "w3.example."),
        ("10.3.3.3", "3.10.in-addr.arpa."),
        ("10.4.2.3", "w4.example."),
        ("10.5.2.3", "w4.example."),
        ("2001:db8:1::7", "w1.example."),
    ] {
        assert_eq!(home(&config, address).as_deref(), Some(expected), "{address}");
    }
    assert_eq!(home(&config, "192.0.2.1"), None);
}

#[test]
fn a_region_is_steered_as_it_says() {
    let clients = "[clients]\n\"w1.example\" = [\"10.1.0.0/16\"]\n\"w3.example\" = [\"10.3.0.0/16\"]\n";
    let config = parse(&format!(
        "{ZONES}{clients}{REGION}steering = {{ prefer = \"nearest\", at_least = 3, srv = \"priority\", stale_after = \"never\" }}\n\
         near = {{ \"w3.example\" = [\"w2.example\", \"w1.example\"] }}\nweights = {{ \"w2.example\" = 0 }}\n\
         [[aggregations.\"r.example\".names]]\nmatch = \"db.svc\"\nsteering = {{ prefer = \"order\" }}\n\
         [[aggregations.\"r.example\".names]]\nmatch = \"web.svc\"\nsteering = {{ srv = \"select\", at_least = 1 }}\n\
         [[aggregations.\"r.example\".names]]\nmatch = \"api.svc\"\nanswers = {{ max = 4 }}\n"
    ));
    let plan = plan(&config);
    let usual = Steering { prefer: Prefer::Nearest, at_least: 3, services: Services::Priority };
    assert_eq!((plan.usual.steering, plan.stale_after), (usual, None));
    assert_eq!(plan.near, [(name("w3.example"), vec![name("w2.example"), name("w1.example")])]);
    assert_eq!(plan.weights, [(name("w2.example"), 0)]);
    let own: Vec<Steering> = plan.names.iter().map(|(_, treatment)| treatment.steering).collect();
    let order = Steering { prefer: Prefer::Order, ..usual };
    assert_eq!(own, [order, Steering { services: Services::Select, at_least: 1, ..usual }, usual]);
    assert!(plan.steers() && config.warnings.is_empty(), "{:?}", config.warnings);
}

#[test]
fn nobody_is_steered_unasked() {
    let short = parse(&format!("{ZONES}[aggregations]\n\"r.example\" = [\"w1.example\"]\n"));
    for config in [&short, &parse(&format!("{ZONES}{REGION}")), &parse(&format!("{ZONES}{REGION}steering = {{}}\n"))] {
        let plan = plan(config);
        assert_eq!((plan.usual.steering, plan.stale_after), (Steering::OFF, Some(Duration::from_secs(300))));
        assert!(!plan.steers() && plan.near.is_empty() && plan.weights.is_empty() && plan.home_only.is_empty());
        assert!(config.clients.is_empty());
    }
}

#[test]
fn names_alone_can_be_steered() {
    let names = "[[aggregations.\"r.example\".names]]\nmatch = \"web.svc\"\nsteering = { prefer = \"nearest\" }\n";
    let clients = "[clients]\n\"w1.example\" = [\"10.1.0.0/16\"]\n";
    let config = parse(&format!("{ZONES}{clients}{REGION}weights = {{ \"w1.example\" = 2 }}\n{names}"));
    let plan = plan(&config);
    assert!(
        plan.steers() && plan.usual.steering == Steering::OFF && config.warnings.is_empty(),
        "{:?}",
        config.warnings
    );
    assert_eq!(plan.stale_after, Some(Duration::from_secs(300)));
}

#[test]
fn steering_changes_nothing_in_how_a_region_is_made() {
    let clients = "[clients]\n\"w1.example\" = [\"10.1.0.0/16\"]\n\"w2.example\" = [\"10.2.0.0/16\"]\n";
    let plain = parse(&format!("{ZONES}{clients}{REGION}addresses = {{ exclude = [\"10.9.0.0/16\"] }}\n"));
    let own = "{ zone = \"w2.example\", addresses = { home_only = [\"fd00::/8\"] } }";
    let steered = parse(&format!(
        "{ZONES}{clients}{}addresses = {{ exclude = [\"10.9.0.0/16\"], home_only = [\"10.0.0.0/8\"] }}\n\
         steering = {{ prefer = \"order\" }}\n",
        REGION.replace("\"w2.example\"", own)
    ));
    assert_eq!(plain.regions, steered.regions);
    let plan = plan(&steered);
    assert_eq!(plan.home_only, ["10.0.0.0/8".parse().unwrap()]);
    assert_eq!(plan.members_home_only, [(name("w2.example"), vec!["fd00::/8".parse().unwrap()])]);
    // The short form has members in table form, too.
    let short = parse(&format!("{ZONES}{clients}[aggregations]\n\"r.example\" = [\"w1.example\", {own}]\n"));
    assert_eq!(self::plan(&short).members_home_only, plan.members_home_only);
}

#[test]
fn both_formats_say_the_same() {
    let toml = parse(&format!(
        "{ZONES}[clients]\n\"w1.example\" = [\"10.1.0.0/16\"]\n\"w3.example\" = {{ file = \"w3\" }}\n\
         {REGION}steering = {{ prefer = \"order\" }}\nnear = {{ \"w3.example\" = [\"w1.example\"] }}\n"
    ));
    let json = parse(
        r#"{ "server": { "name": "ns.example" },
             "zones": { "w1.example": "192.0.2.1", "w2.example": "192.0.2.2", "w3.example": "192.0.2.3" },
             "clients": { "w1.example": ["10.1.0.0/16"], "w3.example": { "file": "w3" } },
             "aggregations": { "r.example": { "members": ["w1.example", "w2.example"], "ns": ["ns.example"],
               "steering": { "prefer": "order" }, "near": { "w3.example": ["w1.example"] } } } }"#,
    );
    assert_eq!((&toml.clients, &toml.answers), (&json.clients, &json.answers));
    assert_eq!(toml.plan_text(), json.plan_text());
}

#[test]
fn there_are_fewer_homes_than_numbers() {
    let homes: String = (0..65_001).map(|number| format!("\"h{number}.example\" = [\"::{number:x}\"]\n")).collect();
    let errors = Config::parse(Path::new("c.toml"), &format!("{ZONES}[clients]\n{homes}")).unwrap_err().to_string();
    assert_eq!(errors, "c.toml:7:2: [clients] has 65001 zones; write 65000 at most");
}

//--- Files of prefixes ---

/// Writes a configuration with a file of prefixes beside it.
fn write(folder: &Path, prefixes: &str) -> PathBuf {
    let path = folder.join("c.toml");
    fs::create_dir_all(folder.join("lists")).unwrap();
    fs::write(folder.join("lists/w1"), prefixes).unwrap();
    fs::write(&path, format!("{ZONES}[clients]\n\"w1.example\" = {{ file = \"lists/w1\" }}\n")).unwrap();
    path
}

#[test]
fn a_file_has_a_prefix_on_each_line() {
    let folder = tempfile::tempdir().unwrap();
    let text = "\u{feff}# All of them.\r\n10.0.0.0/8\r\n\r\n \t10.1.0.1 # a host\n#192.0.2.0/24\n2001:db8::/32#no room";
    let path = write(folder.path(), text);
    let config = Config::load(&path).unwrap();
    assert_eq!(config.clients.prefixes(), 3);
    let found = ["10.9.9.9", "10.1.0.1", "2001:db8::1"].map(|address| home(&config, address));
    assert!(found.iter().all(|home| home.as_deref() == Some("w1.example.")), "{found:?}");
    assert_eq!(home(&config, "192.0.2.1"), None);
    let list = folder.path().join("lists/w1");
    let shown = config.plan_text();
    assert!(shown.contains(&format!("\nclients\n  w1.example. 3 prefixes in {}\n", list.display())), "{shown}");
    assert_eq!(config.plan_json()["clients"][0]["prefixes"], 3);
    // The text alone does not touch the disk.
    let text = fs::read_to_string(&path).unwrap();
    let parsed = Config::parse(&path, &text).unwrap();
    assert!(parsed.clients.is_empty() && parsed.clients.homes() == [name("w1.example")]);
    fs::remove_file(&list).unwrap();
    assert!(Config::parse(&path, &text).is_ok() && Config::load(&path).is_err());
}

#[test]
fn a_file_that_is_too_large_is_not_read() {
    let folder = tempfile::tempdir().unwrap();
    let path = write(folder.path(), "");
    let list = folder.path().join("lists/w1");
    // It has no blocks on the disk.
    fs::File::create(&list).unwrap().set_len((512 << 20) + 1).unwrap();
    let error = Config::load(&path).unwrap_err().to_string();
    let expected = "is larger than any list of prefixes; write the path of a file with a prefix on each line";
    assert!(error.ends_with(&format!("\"file\" {} {expected}", list.display())), "{error}");
}

proptest! {
    /// Each line is a prefix or a mistake at its place, whatever the others are.
    #[test]
    fn lines_are_read_one_by_one(lines in prop::collection::vec("[ \t]{0,2}(10\\.[0-9]{1,2}\\.0\\.0/16|::/[0-9]{1,3}|[^\n]{0,20})( ?#.{0,9})?\r?", 0..12)) {
        let text = lines.join("\n");
        let all: Vec<_> = read_prefixes(&text).collect();
        let mut start = 0;
        let mut expected = Vec::new();
        for line in &lines {
            expected.extend(read_prefixes(line).map(|(at, read)| (start + at, read)));
            start += line.len() + 1;
        }
        // What a line is made of may have line breaks of its own.
        prop_assert_eq!(&all, &expected);
        for (at, _) in &all {
            prop_assert!(!text[*at..].starts_with([' ', '\t', '\r', '#']));
        }
    }
}

//--- Reload ---

/// A verb that must succeed.
fn told(output: Output) -> String {
    assert_eq!((output.code, output.stderr.as_str()), (0, ""), "{output:?}");
    output.stdout
}

#[test]
fn a_reload_takes_files_of_prefixes_or_leaves_all_as_it_was() {
    let folder = Folder::new();
    let list = folder.path().join("w1.prefixes");
    write_file(&list, "10.1.0.0/16\n10.2.0.0/16\n");
    let plan = format!(
        "[zones]\n\"w1.test\" = {{ services = \"@ A 192.0.2.4\", ns = [\"ns1.test\"] }}\n\
         \"w2.test\" = {{ services = \"@ A 192.0.2.5\", ns = [\"ns1.test\"] }}\n[clients]\n\
         \"w1.test\" = {{ file = \"{}\" }}\n\"w2.test\" = [\"10.9.0.0/16\"]\n",
        list.display()
    );
    let daemon = Aggregator::start(&folder, &plan);
    let same = "reloaded; zones, regions and listeners are the same\n";
    assert_eq!(told(daemon.verb(&["reload"])), same);

    // Only the file of prefixes is another.
    write_file(&list, "10.1.0.0/16\n10.3.0.0/16\n10.4.0.0/16\n");
    assert_eq!(told(daemon.verb(&["reload"])), "clients changed of 1 home, prefixes 3 -> 4\n");
    assert_eq!(told(daemon.verb(&["reload"])), same);

    // Mistakes refuse all of the reload, and tell their lines.
    write_file(&list, "10.1.0.0/16\n10.9.0.0/16\n10.3.0.1/16\n");
    daemon.write_plan(&plan.replace("10.9.0.0/16", "10.8.0.0/16"));
    let refused = daemon.verb(&["reload"]);
    assert_ne!(refused.code, 0, "{refused:?}");
    let expected = format!("{}:3:1: \"10.3.0.1/16\" is no address prefix", list.display());
    assert!(refused.stderr.contains(&expected), "{refused:?}");
    fs::remove_file(&list).unwrap();
    assert_ne!(daemon.verb(&["reload"]).code, 0);
    assert!(daemon.metrics().contains("aggregator_reloads_total{result=\"failed\"} 2\n"), "{}", daemon.metrics());

    // What is told next is compared with the last that was taken.
    write_file(&list, "10.1.0.0/16\n10.9.0.0/16\n");
    let json: serde_json::Value = serde_json::from_str(&told(daemon.verb(&["reload", "--json"]))).unwrap();
    assert_eq!(json["clients"], serde_json::json!({ "homes": 2, "prefixes_before": 4, "prefixes": 3 }));
    daemon.write_plan(
        &plan.replace("\"w1.test\" = { file", "\"w2.test\" = { file").replace("\"w2.test\" = [\"10.9.0.0/16\"]\n", ""),
    );
    assert_eq!(told(daemon.verb(&["reload"])), "clients changed of 2 homes, prefixes 3 -> 2\n");
}
