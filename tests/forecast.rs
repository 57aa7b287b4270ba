//! `reload --dry-run` against the reload that follows it, over random configurations: the changes in the same words, and
//! as many names and records of each region as then really come and go.

mod harness;

use harness::{Aggregator, Dname, Folder, Output, Random, Record, Settings, rtype, run_verb, wait_until};
use serde_json::Value;
use sim::instances::Datacenter;
use sim::primary::Primary;
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, SystemTime};
use wire::name::Name;

const ZONES: [&str; 4] = ["us-1.cns.test", "us-2.cns.test", "us-3.cns.test", "us-4.cns.test"];
const REGIONS: [&str; 3] = ["a.test", "b.test", "c.test"];
/// Configurations that are tried; FORECASTS in the environment has another number.
const CONFIGURATIONS: usize = 60;
const PATIENCE: Duration = Duration::from_secs(20);

/// A random configuration over the zones of one primary.
fn configuration(random: &mut Random, primary: &str) -> String {
    let mut text = "[zones]\n".to_owned();
    ZONES.iter().for_each(|zone| text += &format!("\"{zone}\" = \"{primary}\"\n"));
    if random.chance(30) {
        text += "\"own.test\" = { services = \"www A 192.0.2.1\" }\n";
    }
    let mut drains = String::new();
    for region in REGIONS {
        if random.chance(25) {
            continue;
        }
        let mut members: Vec<&str> = ZONES.to_vec();
        while members.len() > 1 && random.chance(40) {
            members.remove(random.below(members.len()));
        }
        if random.chance(30) {
            members.reverse();
        }
        text += &format!("[aggregations.\"{region}\"]\nns = [\"ns1.test\"]\n");
        match random.below(3) {
            0 => {
                members = ZONES.to_vec();
                text += "members = { match = \"us-*.cns.test\" }\n";
            }
            _ => text += &format!("members = {members:?}\n"),
        }
        let mut is_filtered = false;
        for (chance, line) in [
            (25, "exclude = [\"*.cmon\"]\n"),
            (25, "addresses = { exclude = [\"10.0.0.0/8\"] }\n"),
            (15, "addresses = { only = [\"0.0.0.0/0\"] }\n"),
            (25, "max_set = 2\n"),
            (25, "rdata_names = \"rewrite\"\n"),
            (25, "ns_ttl = 60\n"),
        ] {
            let is_filter = line.starts_with("addresses");
            if random.chance(chance) && !(is_filter && is_filtered) {
                is_filtered |= is_filter;
                text += line;
            }
        }
        if random.chance(20) {
            let member = random.pick(&members);
            drains += &format!("[[drains]]\nmember = \"{member}\"\nregion = \"{region}\"\nnames = \"web.svc.*\"\n");
        }
    }
    text + "[transfer]\nrefresh_min = \"1d\"\nrefresh_max = \"1d\"\n" + &drains
}

/// What a region holds beside its SOA, and at which names.
type Contents = BTreeMap<String, BTreeSet<Record>>;

/// The contents of all regions.
fn contents(daemon: &Aggregator) -> BTreeMap<&'static str, Contents> {
    let read = |region: &'static str| {
        let mut contents = Contents::new();
        for record in daemon.dump(&Dname::parse(region)).unwrap_or_default() {
            if record.rtype != rtype::SOA {
                contents.entry(format!("{:?}", record.owner)).or_default().insert(record);
            }
        }
        (region, contents)
    };
    REGIONS.into_iter().map(read).collect()
}

/// Names that differ, records that have come, and those that have gone.
fn difference(before: &Contents, after: &Contents) -> (u64, u64, u64) {
    let nothing = BTreeSet::new();
    let names: BTreeSet<&String> = before.keys().chain(after.keys()).collect();
    let mut found = (0, 0, 0);
    for name in names {
        let [old, new] = [before, after].map(|contents| contents.get(name).unwrap_or(&nothing));
        found.0 += u64::from(old != new);
        found.1 += new.difference(old).count() as u64;
        found.2 += old.difference(new).count() as u64;
    }
    found
}

/// A verb that must succeed.
fn json(output: &Output) -> Value {
    assert_eq!((output.code, output.stderr.as_str()), (0, ""), "{output:?}");
    serde_json::from_str(&output.stdout).expect("JSON")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reload_does_what_its_dry_run_told() {
    let primary = Primary::start("127.0.0.1:0".parse().unwrap()).await.unwrap();
    for (number, zone) in ZONES.iter().enumerate() {
        let site = Datacenter::new(Name::parse(zone).unwrap(), number as u8, 7, SystemTime::now()).unwrap();
        primary.publish(site.zone());
    }
    let address = primary.address().to_string();
    let mut random = Random::new(21, 0);
    let folder = Folder::new();
    let settings = |text: &str| Settings { server: "hold_down = \"0s\"\n".to_owned(), ..Settings::new(text) };
    let daemon = Aggregator::start_with(folder.path(), &settings(&configuration(&mut random, &address)));
    wait_until("all zones are there", PATIENCE, || {
        ZONES.iter().all(|zone| daemon.dump(&Dname::parse(zone)).is_some()).then_some(())
    });
    let wanted = std::env::var("FORECASTS").ok().and_then(|text| text.parse().ok()).unwrap_or(CONFIGURATIONS);
    let (mut moved, mut before) = (0, contents(&daemon));
    for number in 0..wanted {
        let text = configuration(&mut random, &address);
        daemon.write_settings(&settings(&text));
        let told = json(&daemon.verb(&["reload", "--dry-run", "--json"]));
        assert_eq!(contents(&daemon), before, "a dry run changes nothing");
        let done = json(&daemon.verb(&["reload", "--json"]));
        assert_eq!(told["changes"], done, "configuration {number}\n{text}");
        let after = contents(&daemon);
        for region in REGIONS {
            let zone = format!("{region}.");
            let forecast = told["zones"].as_array().unwrap().iter().find(|told| told["zone"] == zone);
            let count = |key: &str| forecast.map_or(0, |told| told[key].as_u64().unwrap());
            let expected = difference(&before[region], &after[region]);
            let found = (count("names"), count("come"), count("go"));
            assert_eq!(found, expected, "{region} in configuration {number}\n{text}\n{told:#}");
            moved += u64::from(expected.1 + expected.2 > 0);
        }
        before = after;
    }
    assert!(moved as usize > wanted / 2, "regions change at all: {moved}");
    // Another file, in place of the server's own.
    let text = configuration(&mut random, &address);
    let other = folder.path().join("other.toml");
    daemon.write_settings(&settings(&text));
    std::fs::copy(daemon.configuration(), &other).unwrap();
    let told = json(&run_verb(&["check", "--against-running", "--json"], &other));
    assert_eq!(told, json(&daemon.verb(&["reload", "--dry-run", "--json"])));
    assert_eq!(contents(&daemon), before);
    // What is wrong is told as by a reload, and nothing is taken up.
    daemon.write_plan("[zones]\n");
    let refused = daemon.verb(&["reload", "--dry-run"]);
    assert!(refused.code == 1 && refused.stderr.contains("[zones] is empty; "), "{refused:?}");
    assert_eq!(contents(&daemon), before);
}
