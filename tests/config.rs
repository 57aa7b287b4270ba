//! The configuration: what loads, and what is refused and in which words.

use aggregator::config::{Config, LogFormat, describe_drain};
use aggregator::merge::{DampingPlan, NsPolicy, OnExpire, RdataNames};
use proptest::prelude::*;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;
use wire::name::Name;

const EXAMPLE: &str = include_str!("../config.example.toml");
const RFD_SAMPLE: &str = include_str!("data/config/rfd-0172.json");
const PLAN: &str = include_str!("data/config/plan.toml");

fn parse(text: &str) -> Config {
    Config::parse(Path::new("c.toml"), text).unwrap_or_else(|errors| panic!("{errors}\nin\n{text}"))
}

/// The errors of a text that must be refused.
fn refuse(text: &str) -> String {
    match Config::parse(Path::new("c.toml"), text) {
        Ok(config) => panic!("was taken:\n{text}\nas\n{}", config.plan_text()),
        Err(errors) => errors.to_string(),
    }
}

fn name(text: &str) -> Name {
    Name::parse(text).unwrap()
}

//--- What loads ---

#[test]
fn the_sample_of_rfd_172_loads_unchanged() {
    let config = Config::parse(Path::new("rfd.json"), RFD_SAMPLE).unwrap();
    assert_eq!((config.zones.len(), config.regions.len()), (6, 3));
    assert_eq!(config.zones[3].zone, name("us-east-1.cns.example.com"));
    assert_eq!(config.zones[3].primaries[0].address, "[2001:db8:2::1:200]:53".parse().unwrap());
    let west = &config.regions[0];
    assert_eq!(west.origin, name("us-west.cns.example.com"));
    let members: Vec<String> = west.members.iter().map(Name::to_string).collect();
    assert_eq!(members, [1, 2, 3].map(|number| format!("us-west-{number}.cns.example.com.")));
    let plan = config.plan_text();
    assert!(plan.contains("\n6 DC zones, 3 regions, 9 zones, 9 warnings\n"), "{plan}");
    // One for each primary that can never send NOTIFY, one for each region without name servers.
    assert_eq!(config.warning_lines().iter().filter(|text| text.contains("no NOTIFY over IPv6")).count(), 6);
    assert!(config.warning_lines()[0].starts_with("rfd.json:3:34: "), "{}", config.warning_lines()[0]);
    assert_eq!(config.warning_lines().iter().filter(|text| text.contains("has no \"ns\"")).count(), 3);
}

#[test]
fn every_key_reaches_its_plan() {
    let config = Config::parse(Path::new("/etc/aggregator/plan.toml"), PLAN).unwrap();
    assert_eq!(config.server_name, name("ns1.example.com"));
    let tls = config.listen.tls.as_ref().unwrap();
    assert_eq!(tls.listen, ["127.0.0.1:853".parse().unwrap()]);
    assert_eq!(tls.certificate, Path::new("/etc/aggregator/cert.pem"), "relative to the folder of the file");
    assert_eq!(tls.key, Path::new("/etc/ssl/key.pem"));
    assert_eq!(config.control.socket, Path::new("/etc/aggregator/control.sock"));
    assert_eq!(config.metrics.listen, []);
    assert_eq!(config.audit, None);
    assert_eq!((config.log.level.as_str(), config.log.format), ("info,aggregator::transfer=debug", LogFormat::Json));

    let timers = config.zones[2].timers;
    assert_eq!((timers.refresh_max, timers.expire_min), (Duration::from_secs(90), Duration::from_millis(1500)));
    assert_eq!(timers.refresh_min, Duration::from_secs(5), "inherited");
    assert_eq!(config.zones[2].primaries[0].source, Some("198.51.100.9".parse().unwrap()));
    assert_eq!(config.zones[1].primaries[1].address, "[2001:db8::3]:5353".parse().unwrap());

    assert_eq!((config.hold_down, config.state), (Duration::ZERO, None));
    assert_eq!((config.history.versions, config.history.bytes), (20, 1 << 30));
    assert_eq!(config.history.total, 1 << 30, "not less than for one zone");
    let catalog = config.catalog.as_ref().unwrap();
    assert_eq!((&catalog.origin, &catalog.server_name), (&name("catalog.example.com"), &config.server_name));
    let key = &config.keys[&name("transfer.example.com")];
    assert_eq!((config.keys.len(), key.algorithm.to_string().as_str()), (2, "hmac-sha512"));
    assert!(!config.zones[2].ixfr && config.zones[1].ixfr);
    assert_eq!(config.zones[2].primaries[1].key.as_ref(), Some(key));
    assert_eq!(config.zones[0].primaries[0].key, None);
    let old = Some(name("old.example.com"));
    let allows = |zone: &str, address: &str, key: Option<&Name>| {
        config.outgoing[&name(zone)].access.allows(address.parse().unwrap(), key)
    };
    for zone in ["us-west-1.cns.example.com", "us-west.cns.example.com", "catalog.example.com"] {
        assert!(allows(zone, "192.0.2.77", None), "the defaults");
        assert!(!allows(zone, "2001:db8::1", None) && allows(zone, "2001:db8::1", old.as_ref()));
        let targets: Vec<String> =
            config.targets[&name(zone)].iter().map(|target| target.address.to_string()).collect();
        assert_eq!(targets, ["192.0.2.9:53", "[2001:db8::9]:5353"]);
    }
    let own = "us-east-1.cns.example.com";
    assert!(!allows(own, "192.0.2.77", None) && allows(own, "203.0.113.1", old.as_ref()));
    let [target] = &config.targets[&name(own)][..] else { panic!("{:?}", config.targets) };
    assert_eq!((target.source, target.key.as_ref()), (Some("192.0.2.53".parse().unwrap()), Some(key)));
    assert!(config.targets[&name("us-east.cns.example.com")].is_empty());
    assert_eq!(config.outgoing.len(), 7);

    let east = &config.regions[1];
    assert_eq!(east.mname.as_ref(), Some(&config.server_name));
    assert_eq!(east.ns, NsPolicy::Listed(vec![name("ns1.us-east.cns.example.com"), name("ns1.example.com")]));
    assert_eq!((east.ns_ttl, east.serial_offset), (3600, 4_000_000_000));
    // A dot before the @ belongs to the label (RFC 1035 section 8).
    assert_eq!(east.rname.as_ref().unwrap().to_string(), "jim\\.smith.example.com.");
    assert_eq!((east.rdata_names, east.on_expire), (RdataNames::Rewrite, OnExpire::Keep));
    assert_eq!(east.partial_after, Duration::ZERO);
    let [window, last] = [60, 600].map(Duration::from_secs);
    assert_eq!(east.damping, Some(DampingPlan { max_removed: (1, 3), window, last }), "the defaults");
    let patterns: Vec<_> = east.exclude.iter().map(|pattern| (pattern.name.to_string(), pattern.below)).collect();
    assert_eq!(patterns, [("cloudapi.".to_string(), false), ("cmon.".to_string(), true)]);
    assert_eq!(config.regions[2].ns, NsPolicy::Union);
    let drains: Vec<String> = config.drains.iter().map(describe_drain).collect();
    assert_eq!(
        drains,
        [
            "us-west-2.cns.example.com. all names from all its regions until undrained",
            "us-west-1.cns.example.com. \"web.svc.*\" from all.cns.example.com. until 2026-11-21T06:00:00Z: \"new\" racks",
        ]
    );
    assert!(config.drains.iter().all(|drain| drain.configured));
    assert!(config.regions.iter().all(|region| region.server_name == config.server_name));
}

/// Versions of replicas that write one and the same primary into the SOA cannot be told apart.
#[test]
fn regions_with_a_common_mname_give_no_differences_unasked() {
    for (keys, ixfr) in [
        ("", true),
        ("ns = \"union\"\n", true),
        ("ns = [\"ns1.example\"]\n", false),
        ("ns = [\"ns1.example\"]\nmname = \"self\"\n", true),
        ("ns = [\"ns1.example\"]\nixfr_out = true\n", true),
        ("ns = [\"ns1.example\"]\nixfr_out = \"auto\"\n", false),
        ("mname = \"ns1.example\"\n", false),
        ("mname = \"self\"\n", true),
        ("mname = \"self\"\nixfr_out = false\n", false),
    ] {
        let config = parse(&format!("{ZONE}[aggregations.\"r.example\"]\nmembers = [\"a.example\"]\n{keys}"));
        assert_eq!(config.outgoing[&name("r.example")].ixfr, ixfr, "{keys}");
        assert!(config.outgoing[&name("a.example")].ixfr);
    }
}

#[test]
fn both_formats_give_the_same_plan() {
    let value: serde_json::Value = serde_json::to_value(toml::from_str::<toml::Table>(PLAN).unwrap()).unwrap();
    let json = serde_json::to_string_pretty(&value).unwrap();
    let (mut from_toml, mut from_json) = (parse(PLAN), parse(&json));
    // The JSON writer sorts, so order and positions differ.
    for config in [&mut from_toml, &mut from_json] {
        config.zones.sort_by(|a, b| a.zone.canonical_cmp(&b.zone));
        config.regions.sort_by(|a, b| a.origin.canonical_cmp(&b.origin));
        config.warnings.clear();
    }
    assert_eq!(from_toml.plan_text(), from_json.plan_text());
    assert_eq!((from_toml.zones, from_toml.regions), (from_json.zones, from_json.regions));
}

#[test]
fn listen_addresses_can_be_found_again() {
    let config = parse(PLAN);
    let position = |text: &str| config.listen_position(text.parse().unwrap());
    assert_eq!(position("127.0.0.1:0").as_deref(), Some("c.toml:3:11"));
    assert_eq!(position("[::1]:5300").as_deref(), Some("c.toml:3:26"));
    assert_eq!(position("127.0.0.1:853").as_deref(), Some("c.toml:5:18"));
    assert_eq!(position("127.0.0.1:9153"), None);
}

#[test]
fn a_zone_of_members_is_planned_like_a_region() {
    let config = parse(
        "[server]\nname = \"ns1.example\"\n[zones.\"2.0.192.in-addr.arpa\"]\n\
         members = [\n{ id = \"West-1\", primaries = [\"192.0.2.1\"], source_address = \"192.0.2.8\", ixfr = false, refresh_max = \"1m\" },\n\
         { id = \"west_2\", primaries = [\"192.0.2.2\"], notify_from = [\"192.0.2.3\"] },\n]\nns = [\"ns1.example\"]\n\
         serial_offset = 7\nallow_transfer = [\"192.0.2.9\"]\n\
         [[drains]]\nmember = \"west_2:2.0.192.in-addr.arpa\"\nreason = \"moves\"\n",
    );
    let zone = name("2.0.192.in-addr.arpa");
    let members: Vec<_> = config.zones.iter().map(|plan| (plan.zone.to_string(), plan.origin.clone())).collect();
    let expected = ["west-1", "west_2"].map(|id| (format!("{id}:2.0.192.in-addr.arpa."), zone.clone()));
    assert_eq!(members, expected);
    assert!(config.zones.iter().all(|plan| plan.is_member()));
    assert!(!config.zones[0].ixfr && config.zones[0].primaries[0].source.is_some() && config.zones[1].ixfr);
    assert_eq!(config.zones[0].timers.refresh_max, Duration::from_secs(60));
    assert_eq!(config.zones[1].notify_from.len(), 1);
    let region = &config.regions[0];
    assert!(region.is_united && region.origin == zone && region.serial_offset == 7);
    assert_eq!(region.members, [config.zones[0].zone.clone(), config.zones[1].zone.clone()]);
    assert_eq!(*region.origin_of(1), zone);
    assert_eq!(config.drains[0].target.member, region.members[1]);
    assert_eq!(config.outgoing[&zone].access.rules.len(), 1);
    assert!(!config.outgoing.contains_key(&region.members[0]));
    // Nobody can be asked about the members but their primaries.
    assert!(!config.probe.zones.iter().any(|probed| region.members.contains(probed)));
}

#[test]
fn zones_of_members_that_make_no_sense_are_refused_with_advice() {
    let with = |members: &str, more: &str| {
        refuse(&format!("[zones.\"2.0.192.in-addr.arpa\"]\nmembers = {members}\nns = [\"n.example\"]\n{more}"))
    };
    let one = "{ id = \"a\", primaries = [\"192.0.2.1\"] }";
    for (text, wanted) in [
        (with("[]", ""), "c.toml:1:8: zone \"2.0.192.in-addr.arpa\" has no members; write a list of tables"),
        (with("[{ primaries = [\"192.0.2.1\"] }]", ""), "has no id; write id = \"NAME OF ITS DATACENTER\""),
        (with("[{ id = \"a\" }]", ""), "member \"a\" of zone"),
        (with(&format!("[{one}, {one}]"), ""), "two members with the id \"a\"; give each its own"),
        (with("[{ id = \"a.b\", primaries = [\"192.0.2.1\"] }]", ""), "\"a.b\" is no id of a member; write letters"),
        (with(&format!("[{{ id = \"{}\", primaries = [\"192.0.2.1\"] }}]", "a".repeat(62)), ""), "is too long"),
        (with(&format!("[{one}]"), "rdata_names = \"keep\"\n"), "rdata_names"),
        (
            with(&format!("[{one}]"), "[aggregations]\n\"r.example\" = [\"2.0.192.in-addr.arpa\"]\n"),
            "lists \"2.0.192.in-addr.arpa\", which has members itself",
        ),
        (
            with(&format!("[{one}]"), "[aggregations]\n\"2.0.192.in-addr.arpa\" = [\"x.example\"]\n"),
            "is also a zone, in line 1",
        ),
        (refuse("[zones]\n\"a:b.example\" = \"192.0.2.1\"\n"), "has a character that no zone name has"),
    ] {
        assert!(text.contains(wanted), "{wanted} in\n{text}");
    }
}

#[test]
fn loading_checks_the_files_that_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("c.toml");
    let refused = || Config::load(&path).unwrap_err().to_string();
    assert!(refused().contains("c.toml:1:1: cannot be read: "), "{}", refused());

    fs::write(&path, b"[zones]\n\"a\xff\" = 1").unwrap();
    assert!(refused().ends_with("c.toml:2:3: octet that is not UTF-8; save the file as UTF-8"), "{}", refused());

    let text = "[server]\ntls = { listen = \"127.0.0.1\", certificate = \"cert.pem\", key = \"cert.pem\" }\n\
                [zones]\n\"a.example\" = \"192.0.2.1\"\n";
    fs::write(&path, text).unwrap();
    assert_eq!(refused().lines().count(), 2);
    assert!(refused().contains("c.toml:2:45: \"certificate\" "), "{}", refused());
    fs::write(folder.path().join("cert.pem"), "").unwrap();
    let tls = Config::load(&path).unwrap().listen.tls.unwrap();
    assert_eq!(tls.certificate, folder.path().join("cert.pem"));
}

#[test]
fn secrets_are_read_from_files_and_never_shown() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("c.toml");
    let secret = folder.path().join("k.key");
    let rule = "[secondaries]\nallow_transfer = { key = \"k.example\" }\n";
    fs::write(&path, format!("{ZONE}[keys.\"k.example\"]\nsecret_file = \"k.key\"\n{rule}")).unwrap();
    let refused = || Config::load(&path).unwrap_err().to_string();
    let write = |text: &str, mode: u32| {
        fs::write(&secret, text).unwrap();
        fs::set_permissions(&secret, fs::Permissions::from_mode(mode)).unwrap();
    };
    let begin = format!("{}:4:15: \"secret_file\" {} ", path.display(), secret.display());
    let base64 = "bm9ib2R5IG11c3Qgc2VlIHRoaXM=";
    assert!(refused().starts_with(&format!("{begin}cannot be read: ")), "{}", refused());
    write(base64, 0o644);
    let advice = format!("can be read or changed by strangers (mode 644); run chmod 640 {}", secret.display());
    assert_eq!(refused(), format!("{begin}{advice}"));
    write(&format!("secret \"{base64}\";"), 0o600);
    assert!(refused().starts_with(&format!("{begin}is no base64 text; ")), "{}", refused());
    assert!(!refused().contains("bm9ib2R5"), "{}", refused());

    write(base64, 0o600);
    let config = Config::load(&path).unwrap();
    assert_eq!(config.warning_lines(), Vec::<String>::new());
    for shown in [config.plan_text(), config.plan_json().to_string(), format!("{config:?}")] {
        assert!(shown.contains("k.key") && !shown.contains("bm9ib2R5") && !shown.contains("nobody must"), "{shown}");
        assert!(!shown.contains("110, 111, 98"), "as octets: {shown}");
    }
    let other = {
        write("c29tZXRoaW5nIGVsc2UgdGhlbg==", 0o600);
        Config::load(&path).unwrap()
    };
    assert_ne!(config.keys, other.keys, "a reload notices a new secret");

    write("c2hvcnQ=", 0o600);
    let warnings = Config::load(&path).unwrap().warning_lines();
    assert!(warnings[0].ends_with("the secret of key \"k.example\" has only 5 octets; better make one of 32"));
}

#[test]
fn what_is_probably_not_meant_is_a_warning() {
    let key = "[keys.\"k.example\"]\nsecret_file = \"k\"\n";
    let used = format!("{key}[zones.\"b.example\"]\nprimaries = \"192.0.2.1\"\nkey = \"k.example\"\n");
    let table = "[zones.\"b.example\"]\nprimaries = \"192.0.2.1\"\n";
    for (text, wanted) in [
        (key.to_string(), "c.toml:3:7: key k.example. is not used; name it"),
        (used, ""),
        (
            "[secondaries]\nallow_transfer = [\"0.0.0.0/0\"]\n".to_string(),
            "c.toml:4:19: [secondaries] lets everyone copy the zone (0.0.0.0/0); write a longer prefix, or add a key",
        ),
        (format!("{table}allow_transfer = \"::/0\"\n"), "zone \"b.example\" lets everyone copy the zone (::/0)"),
        (format!("{key}[secondaries]\nallow_transfer = [{{ prefix = \"0.0.0.0/0\", key = \"k.example\" }}]\n"), ""),
        (
            "[secondaries]\nnotify = [\"192.0.2.9\"]\n".to_string(),
            "c.toml:4:10: [secondaries] notifies secondaries, and nobody may transfer; write allow_transfer",
        ),
        (
            format!("{table}notify = \"192.0.2.9\"\n"),
            "c.toml:5:10: zone \"b.example\" notifies secondaries, and nobody may transfer; write allow_transfer",
        ),
        (format!("{table}notify = \"192.0.2.9\"\nallow_transfer = \"192.0.2.9\"\n"), ""),
        (
            "[secondaries]\ncatalog = \"c.example\"\n".to_string(),
            "c.toml:4:11: nobody may transfer the catalog; write in [secondaries]",
        ),
        (
            "\"b.example\" = \"127.0.0.1\"\n".to_string(),
            "c.toml:3:15: zone \"b.example\" has primary 127.0.0.1:53, which is this server; write where the zone comes from",
        ),
        ("\"b.example\" = \"127.0.0.1:54\"\n".to_string(), ""),
        ("\"b.example\" = \"127.0.0.1\"\n[server]\nlisten = \"192.0.2.7\"\n".to_string(), ""),
        (
            "[server]\nlisten = \"192.0.2.1\"\n".to_string(),
            "zone \"a.example\" has primary 192.0.2.1:53, which is this server",
        ),
        (
            "[control]\nmode = \"0666\"\n".to_string(),
            "c.toml:4:8: \"mode\" 0666 lets every user of this machine stop the server",
        ),
        ("[control]\nmode = \"0600\"\ngroup = \"dns\"\n".to_string(), ""),
    ] {
        let warnings = parse(&format!("{ZONE}{text}")).warning_lines();
        assert_eq!(warnings.len(), usize::from(!wanted.is_empty()), "{text}\n{warnings:?}");
        assert!(
            warnings.iter().all(|warning| warning.contains(wanted)),
            "{text}\nwanted {wanted}\ngot    {warnings:?}"
        );
    }
}

//--- What is refused ---

/// Compares every file that has an expectation beside it: all errors, or the plan.
#[test]
fn files_give_exactly_the_expected_text() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/config");
    let mut expected: Vec<PathBuf> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    expected.retain(|path| path.extension().is_some_and(|extension| extension == "expected"));
    assert_eq!(expected.len(), 8);
    for expectation in expected {
        let input = expectation.with_extension("");
        let text = fs::read_to_string(&input).unwrap();
        let result = match Config::parse(Path::new(input.file_name().unwrap()), &text) {
            Ok(config) => config.plan_text(),
            Err(errors) => format!("{errors}\n"),
        };
        let wanted = fs::read_to_string(&expectation).unwrap();
        assert!(result == wanted, "{}\n--- wanted\n{wanted}--- got\n{result}", input.display());
    }
}

/// One zone, so that only the line under test is wrong.
const ZONE: &str = "[zones]\n\"a.example\" = \"192.0.2.1\"\n";

#[test]
fn each_mistake_has_its_words() {
    let cases = [
        ("", "c.toml:1:1: no zones; write [zones]"),
        ("[zones]\n", "c.toml:1:2: [zones] is empty; write [zones]"),
        ("zones = 1\n", "c.toml:1:9: \"zones\" is an integer; write a table"),
        ("{}", "c.toml:1:1: no zones; write [zones]"),
        ("{} {}", "c.toml:1:4: text cannot contain more than one JSON value; remove what follows"),
        ("[zones]\n\".\" = \"192.0.2.1\"\n", "c.toml:2:1: \".\" is the root; write"),
        ("[zones]\n\"a.example\" = 1\n", "c.toml:2:15: \"a.example\" is an integer; write an address"),
        ("[zones]\n\"a.example\" = \"224.0.0.1\"\n", "c.toml:2:15: 224.0.0.1 cannot be a primary; write"),
        ("[zones]\n\"a.example\" = \"192.0.2.1:99999\"\n", "c.toml:2:15: \"192.0.2.1:99999\" is no address; write"),
        ("[zones]\n\"a.example\" = [{ adress = \"192.0.2.1\" }]\n", "unknown key \"adress\" in a primary of zone"),
        ("[zones]\n\"a.example\" = [{ }]\n", "c.toml:2:16: a primary of zone \"a.example\" has no \"address\"; write"),
        ("[zones.a.example]\nprimaries = \"192.0.2.1\"\n", "has dots but no quotes; write \"a.example\""),
        ("[zones]\na.example = \"192.0.2.1\"\na.test = \"192.0.2.1\"\n", "write \"a.example\" and \"a.test\""),
        ("[zones.\"a.b\"]\nprimaries = \"192.0.2.1\"\nsource_address = \"::\"\n", "\"source_address\" cannot be ::"),
        ("[zones.\"a.b\"]\nprimaries = \"192.0.2.1\"\nsource_address = \"::1\"\n", "write an IPv4 source_address"),
        (
            "[zones.\"a.b\"]\nprimaries = \"192.0.2.1\"\nexpire_min = \"61d\"\n",
            "c.toml:3:14: zone \"a.b\" has \"expire_min\" 61d above \"expire_max\" 60d",
        ),
        (
            "[zone]\n\"a.example\" = \"192.0.2.1\"\n[aggregations]\n\"r.example\" = [\"a.example\"]\n",
            "c.toml:1:2: unknown key \"zone\"; did you mean \"zones\"?",
        ),
        ("[transfer]\naudit = true\n", "c.toml:2:9: \"audit\" is a boolean; write six fields"),
        ("[transfer]\naudit = \"0 0 0 30 2 *\"\n", "c.toml:2:9: \"audit\" never comes due: \"0 0 0 30 2 *\"; write"),
        (
            "[transfer]\naudit = \"0 61 4 * * *\"\n",
            "c.toml:2:9: \"audit\" is no cron expression: \"0 61 4 * * *\"; write",
        ),
        ("[transfer]\nshrink_share = nan\n", "c.toml:2:16: \"shrink_share\" cannot be NaN; write a number from 0 to 1"),
        ("[transfer]\nmax_bytes = 0\n", "c.toml:2:13: \"max_bytes\" cannot be zero; write"),
        ("[transfer]\nrefresh_min = \"0s\"\n", "c.toml:2:15: \"refresh_min\" cannot be zero; write"),
        ("[server]\nlisten = []\n", "c.toml:2:10: \"listen\" is empty; write for example [\"0.0.0.0:53\""),
        ("[server]\nlisten = \"224.0.0.1\"\n", "c.toml:2:10: nothing can listen on 224.0.0.1; write"),
        ("[server]\nname = \".\"\n", "c.toml:2:8: \".\" is the root; write"),
        (
            "[server]\nudp_threads = 257\n",
            "c.toml:2:15: \"udp_threads\" cannot be 257; write a whole number from 1 to 256",
        ),
        ("[control]\nsocket = \"\"\n", "c.toml:2:10: \"socket\" is not a path; write"),
        ("[log]\nlevel = \"inof\"\n", "c.toml:2:9: \"level\" cannot be \"inof\"; did you mean \"info\"?"),
        ("[log]\nlevel = \"info,a=loud\"\n", "c.toml:2:9: \"info,a=loud\" is no filter ("),
        ("[aggregations]\n\"r.example\" = 1\n", "c.toml:2:15: \"r.example\" is an integer; write a list of zones"),
        ("[aggregations]\nr.example = [\"a.example\"]\n", "has dots but no quotes; write \"r.example\""),
        ("[aggregations.\"r.example\"]\nns = \"unoin\"\nmembers = [\"a.example\"]\n", "did you mean \"union\"?"),
        ("[aggregations.\"r.example\"]\nns = []\nmembers = [\"a.example\"]\n", "c.toml:2:6: \"ns\" is empty; write"),
        (
            "[aggregations.\"r.example\"]\nns = \"union\"\n",
            "c.toml:1:15: aggregation \"r.example\" has no members; write",
        ),
        (
            "[aggregations.\"r.example\"]\nmembers = [\"a.example\"]\nexclude = [\"cloudapi*\"]\n",
            "\"cloudapi*\" is no owner pattern; write a whole name such as \"cloudapi\", or \"*.cmon\" for all below one",
        ),
        (
            "[aggregations.\"r.example\"]\nmembers = [\"a.example\"]\nexclude = [\"r.example\"]\n",
            "write a name below it",
        ),
        (
            "[aggregations]\n\"R.example\" = [\"a.example\"]\n\"r.example.\" = [\"a.example\"]\n",
            "aggregation \"r.example.\" is given in line 2 already",
        ),
        ("[server]\nmemory = \"1023KiB\"\n", "c.toml:2:10: \"memory\" cannot be 1023KiB; write at least \"1MiB\""),
        ("[server]\nhold_down = \"11s\"\n", "c.toml:2:13: \"hold_down\" cannot be 11s; write at most \"10s\""),
        ("[server]\ntsig_legacy = \"yes\"\n", "c.toml:2:15: \"tsig_legacy\" is a string; write true or false"),
        ("[state]\nfolder = true\n", "c.toml:2:10: \"folder\" is a boolean; write the path of a folder, or false"),
        ("[state]\nfolder = \"\"\n", "c.toml:2:10: \"folder\" is not a path; write"),
        ("[state]\nfodler = \"x\"\n", "unknown key \"fodler\" in [state]; did you mean \"folder\"?"),
        ("[probe]\nevery = \"10ms\"\n", "c.toml:2:9: \"every\" cannot be 10ms; write at least \"1s\", or \"off\""),
        ("[probe]\nskip = [\"x.example\"]\n", "c.toml:2:9: \"skip\" names x.example., which is not looked at anyway"),
        (
            "[probe]\nparents = { example.com = [\"192.0.2.1\"] }\n",
            "c.toml:2:13: \"example\" in \"parents\" is a table; write names with dots in quotes",
        ),
        (
            "[probe]\nparents = { \"example.com\" = [] }\n",
            "c.toml:2:13: \"example.com\" in \"parents\" has no address; write one, or remove it",
        ),
        ("[probe]\nport = 0\n", "c.toml:2:8: \"port\" cannot be 0"),
        (
            "[zones]\n\"10.in-addr.arpa\" = \"192.0.2.1\"\n[probe]\nskip = [\"10.in-addr.arpa\"]\n",
            "c.toml:4:9: \"skip\" names 10.in-addr.arpa., which is not looked at anyway",
        ),
        ("[probe]\nhosts = [\"192.0.2.1\"]\n", "c.toml:2:9: \"hosts\" is a list; write a table such as"),
        ("keys = 1\n", "c.toml:1:8: \"keys\" is an integer; write a table [keys.\"NAME\"] for each key"),
        ("[keys]\n\"k.example\" = \"c2VjcmV0\"\n", "c.toml:2:15: key \"k.example\" is a string; write a table"),
        ("[keys.\"k.example\"]\n", "c.toml:1:7: key \"k.example\" has no secret; write secret_file = \"FILE\""),
        (
            "[keys.\"k.example\"]\nsecret = \"c2VjcmV0\"\n",
            "c.toml:2:1: unknown key \"secret\" in key \"k.example\"; this file is no place for secrets, write it into a \
             file of its own and secret_file = \"FILE\"",
        ),
        ("[keys.\"k.example\"]\nsecret_fiel = \"k\"\n", "did you mean \"secret_file\"?"),
        ("[keys.k.example]\nsecret_file = \"k\"\n", "c.toml:1:7: name that begins with \"k\" has dots but no quotes"),
        (
            "[keys.\"k.example\"]\nsecret_file = \"k\"\nalgorithm = \"hmac-sha265\"\n",
            "c.toml:3:13: \"algorithm\" cannot be \"hmac-sha265\"; did you mean \"hmac-sha256\"?",
        ),
        (
            "[keys.\"k.example\"]\nsecret_file = \"k\"\nalgorithm = \"none\"\n",
            "c.toml:3:13: \"algorithm\" cannot be \"none\"; write \"hmac-sha256\", \"hmac-sha384\" or",
        ),
        (
            "[keys.\"k.example\"]\nsecret_file = \"k\"\nalgorithm = \"hmac-sha1\"\n",
            "c.toml:3:13: hmac-sha1 is outdated; write \"hmac-sha256\", or tsig_legacy = true in [server]",
        ),
        (
            "[keys]\n\"k.example\" = { secret_file = \"k\" }\n\"K.example.\" = { secret_file = \"k\" }\n",
            "c.toml:3:1: key \"K.example.\" is given in line 2 already",
        ),
        (
            "[keys.\"k.example\"]\nsecret_file = \"k\"\n[secondaries]\nallow_transfer = [{ key = \"k.exmaple\" }]\n",
            "c.toml:4:27: \"key\" names unknown key \"k.exmaple\"; did you mean \"k.example\"?",
        ),
        (
            "[secondaries]\nallow_transfer = [{ key = \"k.example\" }]\n",
            "c.toml:2:27: \"key\" names unknown key \"k.example\"; add [keys.\"k.example\"]",
        ),
        (
            "[server]\ntsig_legacy = true\n[keys.\"k.example\"]\nsecret_file = \"k\"\nalgorithm = \"hmac-md5\"\n\
             [secondaries]\nallow_transfer = \"192.0.2.1\"\nnotify = { address = \"192.0.2.1\", key = \"k.example\" }\n",
            "c.toml:8:41: key k.example. has hmac-md5, which we verify but never sign with; write a key with hmac-sha256",
        ),
        (
            "[server]\ntsig_legacy = true\n[keys.\"k.example\"]\nsecret_file = \"k\"\nalgorithm = \"hmac-sha1\"\n\
             [zones.\"b.example\"]\nprimaries = \"192.0.2.1\"\nkey = \"k.example\"\n",
            "c.toml:8:7: key k.example. has hmac-sha1, which we verify but never sign with",
        ),
        (
            "[secondaries]\nallow_transfer = true\n",
            "c.toml:2:18: \"allow_transfer\" is a boolean; write a list such as",
        ),
        (
            "[secondaries]\nallow_transfer = [\"192.0.2.77/24\"]\n",
            "c.toml:2:19: \"192.0.2.77/24\" is no address prefix (bits are set behind the prefix length); write \
             \"192.0.2.0/24\" for the network, or \"192.0.2.77\" for the host",
        ),
        (
            "[secondaries]\nallow_transfer = [\"192.0.2.0/33\"]\n",
            "is no address prefix (the prefix length is no number up to 32); write 0 to 32 behind the slash",
        ),
        ("[secondaries]\nallow_transfer = [\"any\"]\n", "(no address); write \"0.0.0.0/0\" and \"::/0\" if everyone"),
        (
            "[secondaries]\nallow_transfer = \"none\"\n",
            "c.toml:2:18: \"none\" is no address prefix (no address); write []",
        ),
        ("[secondaries]\nallow_transfer = [\"ns2.example\"]\n", "write a prefix such as \"192.0.2.0/24\", "),
        (
            "[secondaries]\nallow_transfer = [\"::ffff:192.0.2.1\"]\n",
            "is an IPv4 address mapped to IPv6; write 192.0.2.1",
        ),
        (
            "[secondaries]\nallow_transfer = [{ }]\n",
            "c.toml:2:19: an entry of \"allow_transfer\" of [secondaries] is empty; write prefix = ",
        ),
        (
            "[secondaries]\nallow_transfer = [{ prefx = \"192.0.2.1\" }]\n",
            "unknown key \"prefx\" in \"allow_transfer\" of [secondaries]; did you mean \"prefix\"?",
        ),
        (
            "[secondaries]\nallow_transfer = \"::1\"\nnotify = [\"192.0.2.9\", \"192.0.2.9:53\"]\n",
            "c.toml:3:24: [secondaries] notifies 192.0.2.9:53 twice; remove one",
        ),
        ("[secondaries]\nnotify = [\"192.0.2.9:0\"]\n", "c.toml:2:11: port 0 of secondary 192.0.2.9 reaches nothing"),
        ("[secondaries]\nnotify = [\"0.0.0.0\"]\n", "c.toml:2:11: 0.0.0.0 cannot be a secondary; write"),
        (
            "[secondaries]\nnotify = [{ key = \"k\" }]\n[keys.k]\nsecret_file = \"k\"\n",
            "a secondary of [secondaries] has no",
        ),
        (
            "[secondaries]\nallow_transfer = \"::1\"\nnotify = [{ address = \"192.0.2.9\", source_address = \"::1\" }]\n",
            "c.toml:3:23: source_address ::1 is IPv6, secondary 192.0.2.9 is IPv4; write an IPv4 source_address for it",
        ),
        (
            "[secondaries]\nhistory_versions = -1\n",
            "c.toml:2:20: \"history_versions\" cannot be -1; write a whole number from 0 to 1000000",
        ),
        ("[secondaries]\nhistory_bytes = \"much\"\n", "c.toml:2:17: \"history_bytes\" cannot be \"much\"; write"),
        ("[secondaries]\ncatalog = \"a b\"\n", "c.toml:2:11: \"a b\" has a character that no zone name has; write"),
        (
            "[secondaries]\ncatalog = \"A.example\"\n",
            "c.toml:2:11: catalog a.example. is also a zone, in line 4; give it a name of its own",
        ),
        (
            "[aggregations]\n\"r.example\" = [\"a.example\"]\n[secondaries]\ncatalog = \"r.example\"\n",
            "c.toml:4:11: catalog r.example. is also an aggregation, in line 2; give it a name of its own",
        ),
        (
            "[zones.\"b.example\"]\nprimaries = \"192.0.2.1\"\nixfr_out = \"sometimes\"\n",
            "c.toml:3:12: \"ixfr_out\" cannot be \"sometimes\"; write \"auto\", true or false",
        ),
        (
            "[zones.\"b.example\"]\nprimaries = \"192.0.2.1\"\nixfr_out = 1\n",
            "\"ixfr_out\" is an integer; write \"auto\"",
        ),
        ("[zones.\"b.example\"]\nprimaries = \"192.0.2.1\"\nixfr = 1\n", "\"ixfr\" is an integer; write true or false"),
        (
            "[zones.\"b.example\"]\nprimaries = [{ address = \"192.0.2.1\", key = \"k\" }]\n",
            "c.toml:2:45: \"key\" names unknown key \"k\"; add [keys.\"k\"]",
        ),
        (
            "[aggregations.\"r.example\"]\nmembers = [\"a.example\"]\nallow_tranfser = []\n",
            "unknown key \"allow_tranfser\" in aggregation \"r.example\"; did you mean \"allow_transfer\"?",
        ),
        ("[secondary]\nnotify = []\n", "c.toml:1:2: unknown key \"secondary\"; did you mean \"secondaries\"?"),
    ];
    for (wrong, message) in cases {
        let needs_zone =
            !wrong.contains("[zone") && !wrong.contains("zones =") && !wrong.is_empty() && !wrong.starts_with('{');
        let text = if needs_zone { format!("{wrong}{ZONE}") } else { wrong.to_string() };
        let errors = refuse(&text);
        assert!(errors.contains(message), "{wrong:?}\nwanted {message}\ngot    {errors}");
        assert_eq!(errors.lines().count(), 1, "one mistake, one error: {wrong:?}\n{errors}");
    }
}

#[test]
fn a_socket_path_must_fit_its_address() {
    let errors = refuse(&format!("[control]\nsocket = \"/{}\"\n{ZONE}", "s".repeat(103)));
    assert!(errors.contains("c.toml:2:10: \"socket\" is 104 octets long"), "{errors}");
    parse(&format!("[control]\nsocket = \"/{}\"\n{ZONE}", "s".repeat(102)));
}

#[test]
fn the_members_of_a_catalog_need_room() {
    let catalog = |length: usize| {
        let label = "x".repeat(50);
        let name = format!("{label}.{label}.{label}.{}", "y".repeat(length));
        format!("{ZONE}[secondaries]\nallow_transfer = \"::1\"\ncatalog = \"{name}\"\n")
    };
    assert!(refuse(&catalog(62)).contains("c.toml:5:11: below catalog xxx"));
    assert!(refuse(&catalog(62)).ends_with("its members' names have no room; write a shorter one"));
    parse(&catalog(20));
}

//--- Arbitrary damage ---

/// One change to a text.
#[derive(Clone, Debug)]
enum Damage {
    Remove { at: usize, length: usize },
    Repeat { from: usize, length: usize, to: usize },
    Insert { at: usize, piece: String },
}

fn damage() -> impl Strategy<Value = Damage> {
    let pieces =
        ["\"", "[", "]", "{", "}", "=", ".", "\n", "#", "\\", ",", ":", "0", "-1", "\u{feff}", "é", "nan", "'''"];
    let piece = prop_oneof![
        prop::sample::select(pieces.to_vec()).prop_map(str::to_string),
        any::<char>().prop_map(String::from),
        ".{0,8}",
    ];
    prop_oneof![
        (any::<usize>(), 0usize..40).prop_map(|(at, length)| Damage::Remove { at, length }),
        (any::<usize>(), 0usize..200, any::<usize>()).prop_map(|(from, length, to)| Damage::Repeat {
            from,
            length,
            to
        }),
        (any::<usize>(), piece).prop_map(|(at, piece)| Damage::Insert { at, piece }),
    ]
}

fn apply(text: &str, damages: &[Damage]) -> String {
    let mut characters: Vec<char> = text.chars().collect();
    for damage in damages {
        let place = |at: usize| at % (characters.len() + 1);
        match damage {
            Damage::Remove { at, length } => {
                let start = place(*at);
                characters.drain(start..(start + length).min(characters.len()));
            }
            Damage::Repeat { from, length, to } => {
                let (start, to) = (place(*from), place(*to));
                let copy = characters[start..(start + length).min(characters.len())].to_vec();
                characters.splice(to..to, copy);
            }
            Damage::Insert { at, piece } => {
                let at = place(*at);
                characters.splice(at..at, piece.chars());
            }
        }
    }
    characters.into_iter().collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_damaged_file_loads_or_says_where_and_what(
        original in prop::sample::select(vec![EXAMPLE, RFD_SAMPLE, PLAN]),
        damages in prop::collection::vec(damage(), 1..6),
    ) {
        let text = apply(original, &damages);
        match Config::parse(Path::new("c"), &text) {
            Ok(config) => {
                prop_assert!(!config.zones.is_empty());
                prop_assert!(config.zones.iter().all(|zone| !zone.primaries.is_empty()));
                for region in &config.regions {
                    prop_assert!(!region.members.is_empty());
                    let known = |member: &Name| config.zones.iter().any(|zone| zone.zone == *member);
                    prop_assert!(region.members.iter().all(known));
                }
                prop_assert!(!config.plan_text().is_empty());
            }
            Err(errors) => {
                prop_assert!(!errors.0.is_empty());
                let lines = text.split('\n').collect::<Vec<_>>();
                let mut last = (0, 0);
                for error in &errors.0 {
                    prop_assert!((error.line, error.column) >= last, "not in order: {errors}");
                    last = (error.line, error.column);
                    prop_assert!((1..=lines.len()).contains(&error.line), "{error}");
                    let columns = lines[error.line - 1].chars().count() + 1;
                    prop_assert!((1..=columns).contains(&error.column), "{error}");
                    prop_assert!(error.message.contains("; "), "no advice: {error}");
                    prop_assert!(!error.message.contains('\n'), "more than a line: {error}");
                }
            }
        }
    }
}
