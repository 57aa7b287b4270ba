//! Configurations of many datacenters: templates and members by rule.

use aggregator::catalog::listing::Listing;
use aggregator::config::automatic::Asked;
use aggregator::config::listed::{ListedZones, Listings, RefusalReason};
use aggregator::config::{Config, find_socket};
use aggregator::zone::{Loader, Soa};
use std::collections::HashSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use wire::name::{Name, NameBuf};
use wire::rr::rtype;
use wire::serial::Serial;

fn parse(text: &str) -> Config {
    Config::parse(Path::new("c.toml"), text).unwrap_or_else(|errors| panic!("{errors}"))
}

/// 200 datacenters by a template, in 20 regions by a rule: a new datacenter is one line.
#[test]
fn a_new_datacenter_is_one_line() {
    let datacenter = |region: usize, number: usize| {
        format!("\"r{region}-{number}.cns.test\" = {{ template = \"dc\", primaries = \"192.0.2.{}\" }}\n", number + 1)
    };
    let zones: String = (0..200).map(|index| datacenter(index / 10, index % 10)).collect();
    let regions: String = (0..20)
        .map(|region| format!("\"r{region}.cns.test\" = {{ template = \"region\", members = {{ match = \"r{region}-*.cns.test\" }} }}\n"))
        .collect();
    let text = |more: &str| {
        format!(
            "[templates.dc]\nrefresh_max = \"1h\"\n[templates.region]\nns = [\"ns1.test\"]\n[zones]\n{zones}{more}\
             [aggregations]\n{regions}"
        )
    };
    let config = parse(&text(""));
    assert_eq!((config.zones.len(), config.regions.len(), config.warning_lines()), (200, 20, Vec::new()));
    assert!(config.zones.iter().all(|zone| zone.timers.refresh_max == Duration::from_secs(3600)));
    let names = |config: &Config, region: usize| -> Vec<String> {
        config.regions[region].members.iter().map(ToString::to_string).collect()
    };
    let expected: Vec<String> = (0..10).map(|number| format!("r7-{number}.cns.test.")).collect();
    assert_eq!(names(&config, 7), expected, "in the order of the file, none of r17's");
    let grown = parse(&text(&datacenter(7, 10)));
    assert_eq!(names(&grown, 7), [expected, vec!["r7-10.cns.test.".to_owned()]].concat());
    assert_eq!((0..20).filter(|region| names(&grown, *region) != names(&config, *region)).count(), 1);
}

//--- Several files ---

/// Each datacenter has a file of its own; what is read is the same as if all stood in one, and it is read anew each time.
#[test]
fn included_files_are_as_one() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    };
    let datacenter = |number: usize| format!("[zones]\n\"w-{number}.test\" = {{ template = \"dc\" }}\n");
    write("c.toml", "include = [\"conf.d/*.toml\", \"more/own.toml\"]\n[zones]\n\"own.test\" = \"192.0.2.9\"\n");
    write("conf.d/2.toml", &datacenter(2));
    write("conf.d/10.toml", &datacenter(10));
    write("conf.d/region.toml", "[aggregations.\"w.test\"]\nmembers = { match = \"w-*.test\" }\nns = [\"ns.test\"]\n");
    write(
        "more/own.toml",
        "[templates.dc]\nprimaries = [{ address = \"192.0.2.1\", key = \"k.test\" }]\n[keys.\"k.test\"]\nsecret_file = \"k\"\n\
         [control]\nsocket = \"run/control\"\n",
    );
    write("more/k", "bm9ib2R5IG11c3Qgc2VlIHRoaXM=");
    let path = folder.path().join("c.toml");
    let members = || {
        let config = Config::load(&path).unwrap_or_else(|errors| panic!("{errors}"));
        assert_eq!(config.warning_lines(), [""; 0]);
        config.regions[0].members.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    assert_eq!(members(), ["w-10.test.", "w-2.test."], "in the order of the files");
    write("conf.d/3.toml", &datacenter(3));
    assert_eq!(members(), ["w-10.test.", "w-2.test.", "w-3.test."]);
    // Paths are relative to the file that they stand in, also for the commands.
    assert_eq!(find_socket(&path), Some(folder.path().join("more/run/control")));
    write("conf.d/3.toml", &(datacenter(3) + "\"w-4.test\" = { primaries = \"192.0.2.4\", template = \"cd\" }\n"));
    let errors = Config::load(&path).unwrap_err().to_string();
    let place = format!("{}/conf.d/3.toml:3:52: ", folder.path().display());
    assert_eq!(errors, format!("{place}unknown template \"cd\"; did you mean \"dc\"?"));
}

//--- Catalogs ---

fn name(text: &str) -> Name {
    Name::parse(text).unwrap()
}

/// What a catalog lists: labels and zones, and properties of labels as PTR or TXT records.
fn listing(catalog: &str, members: &[(String, String)], properties: &[(&str, u16, &str)]) -> (Name, Listing) {
    let mut loader = Loader::new(name(catalog));
    let soa = Soa { serial: Serial(1), refresh: 1, retry: 1, expire: 1, minimum: 1 };
    let mut push = |owner: &str, rtype: u16, rdata: &[u8]| {
        let owner = NameBuf::parse(&format!("{owner}{catalog}")).unwrap();
        loader.push(&owner, rtype, 0, rdata);
    };
    push("", rtype::SOA, &soa.to_rdata(&[0], &[0]));
    let text = |text: &str| [&[text.len() as u8], text.as_bytes()].concat();
    push("version.", rtype::TXT, &text("2"));
    for (label, zone) in members {
        push(&format!("{label}.zones."), rtype::PTR, name(zone).as_wire());
    }
    for (owner, rtype, value) in properties {
        let rdata = if *rtype == rtype::TXT { text(value) } else { name(value).as_wire().to_vec() };
        push(&format!("{owner}.zones."), *rtype, &rdata);
    }
    (name(catalog), Listing::read(&loader.finish(None).unwrap().zone, usize::MAX).unwrap())
}

/// Pairs of a label and a zone.
fn pairs(members: &[(&str, &str)]) -> Vec<(String, String)> {
    members.iter().map(|(label, zone)| (label.to_string(), zone.to_string())).collect()
}

/// Puts listings into force, after what was in force before.
fn follow(written: &Arc<Config>, listings: &Listings, before: &Config) -> Config {
    Config::with_listed(written, listings, &Asked::new(), &before.listed, &HashSet::new())
}

/// The zones of catalogs in force, each with its catalog, and those that are refused.
fn in_force(config: &Config) -> (Vec<String>, Vec<String>) {
    let behind = config.zones.iter().filter(|plan| config.listed.zones.contains_key(&plan.zone));
    let zones = behind.map(|plan| format!("{} {}", plan.zone, config.listed.zones[&plan.zone].catalog)).collect();
    let refused = config.listed.refused.iter();
    (zones, refused.map(|refused| format!("{} {}: {}", refused.zone, refused.catalog, refused.reason)).collect())
}

const CATALOGS: &str = "[templates.dc]\nrefresh_max = \"1h\"\n[templates.far]\nprimaries = \"192.0.2.9\"\n\
    allow_transfer = \"192.0.2.77\"\n[catalogs.\"one.test\"]\nprimaries = \"192.0.2.1\"\nmember_template = \"dc\"\n\
    groups = { far = \"far\" }\nmatch = \"*.cns.test\"\n[catalogs.\"two.test\"]\nprimaries = \"192.0.2.2\"\n[zones]\n\
    \"w-9.cns.test\" = \"192.0.2.3\"\n[aggregations]\n\"w.cns.test\" = { members = [\"w-9.cns.test\", \
    { match = \"w-*.cns.test\", addresses = { exclude = [\"10.0.0.0/8\"] } }], ns = [\"ns.test\"] }\n\
    \"e.cns.test\" = { members = { match = \"e-*.cns.test\" }, ns = [\"ns.test\"] }\n";

#[test]
fn listed_zones_stand_behind_those_of_the_file() {
    let written = Arc::new(parse(CATALOGS));
    let members = pairs(&[
        ("a", "w-2.cns.test"),
        ("b", "W-1.cns.test"),
        ("c", "w-9.cns.test"),
        ("d", "other.test"),
        ("e", "w.cns.test"),
        ("f", "two.test"),
    ]);
    let listings = Listings::from([listing("one.test.", &members, &[("group.a", rtype::TXT, "far")])]);
    let config = follow(&written, &listings, &written);
    let (zones, refused) = in_force(&config);
    assert_eq!(zones, ["w-1.cns.test. one.test.", "w-2.cns.test. one.test."]);
    let configured = RefusalReason::Configured.to_string();
    assert_eq!(
        refused,
        [
            format!("w.cns.test. one.test.: {configured}"),
            format!("w-9.cns.test. one.test.: {configured}"),
            "other.test. one.test.: its name is not one of \"match\"".to_owned(),
            format!("two.test. one.test.: {configured}"),
        ]
    );
    // A region without members is left out.
    let [region] = &config.regions[..] else { panic!("{:?}", config.regions) };
    assert_eq!(region.members, ["w-9.cns.test", "w-1.cns.test", "w-2.cns.test"].map(name));
    assert_eq!(region.addresses.members.len(), 2);
    let plan = |zone: &str| config.zones.iter().find(|plan| plan.zone == name(zone)).unwrap();
    let primaries = ["w-1.cns.test", "w-2.cns.test"].map(|zone| plan(zone).primaries[0].address.to_string());
    assert_eq!(primaries, ["192.0.2.1:53", "192.0.2.9:53"]);
    assert_eq!(plan("w-1.cns.test").timers.refresh_max, Duration::from_secs(3600));
    assert!(config.has_secondaries(&name("w-2.cns.test")) && !config.has_secondaries(&name("w-1.cns.test")));
    assert_eq!(*config.written(), *written);
    // Readiness depends on all regions until all catalogs have been read.
    let awaited = |config: &Config| config.awaited_regions().count();
    assert_eq!((awaited(&written), awaited(&config)), (2, 2));
    let both = [listing("one.test.", &members, &[]), listing("two.test.", &[], &[])];
    assert_eq!(awaited(&follow(&written, &Listings::from(both), &config)), 1);
    // Less, and nothing.
    let listings = Listings::from([listing("one.test.", &members[..1], &[])]);
    assert_eq!(in_force(&follow(&written, &listings, &config)).0, ["w-2.cns.test. one.test."]);
    let nothing = follow(&written, &Listings::new(), &config);
    assert_eq!((nothing.zones.len(), nothing.regions.len()), (1, 1));
}

trait Written {
    fn written(&self) -> Arc<Config>;
}

impl Written for Config {
    /// The configuration of the file.
    fn written(&self) -> Arc<Config> {
        Config::written(&Arc::new(self.clone()))
    }
}

/// Zones that must start anew after a change.
fn restarted(now: &Config, before: &Config) -> Vec<String> {
    now.listed.restarted_since(&before.listed).iter().map(Name::to_string).collect()
}

#[test]
fn a_zone_moves_from_one_catalog_to_another_if_the_first_says_so() {
    let written = Arc::new(parse(CATALOGS));
    let member = |label| pairs(&[(label, "w-1.cns.test")]);
    let coo = [("coo.a", rtype::PTR, "two.test")];
    let one = |properties: &[(&str, u16, &str)]| listing("one.test.", &member("a"), properties);
    let (with_coo, without) = (one(&coo), one(&[]));
    let two = |label| listing("two.test.", &member(label), &[]);
    let alone = follow(&written, &Listings::from([with_coo.clone()]), &written);
    assert_eq!(in_force(&alone).0, ["w-1.cns.test. one.test."], "the other does not list it yet");
    let theirs = "w-1.cns.test. two.test.: catalog one.test. has it, and does not name this one as new owner";
    let refused = follow(&written, &Listings::from([without.clone(), two("a")]), &alone);
    assert_eq!(in_force(&refused), (vec!["w-1.cns.test. one.test.".to_owned()], vec![theirs.to_owned()]));
    let moved = follow(&written, &Listings::from([with_coo.clone(), two("a")]), &alone);
    assert_eq!(in_force(&moved), (vec!["w-1.cns.test. two.test.".to_owned()], Vec::new()));
    assert_eq!(restarted(&moved, &alone), [""; 0], "its data stays");
    let relabelled = follow(&written, &Listings::from([with_coo.clone(), two("b")]), &alone);
    assert_eq!(restarted(&relabelled, &alone), ["w-1.cns.test."]);
    // It stays with the new one.
    let kept = follow(&written, &Listings::from([without, two("a")]), &moved);
    assert_eq!(in_force(&kept).0, ["w-1.cns.test. two.test."]);
    let taken = follow(&written, &Listings::from([two("a")]), &alone);
    assert_eq!(restarted(&taken, &alone), ["w-1.cns.test."], "nobody has given it away");
    let labelled = follow(&written, &Listings::from([listing("one.test.", &member("z"), &[])]), &alone);
    assert_eq!(restarted(&labelled, &alone), ["w-1.cns.test."], "another label");
    assert_eq!(restarted(&labelled, &follow(&written, &Listings::new(), &written)), [""; 0]);
}

/// Zones that a catalog lists later stand in the file by name wherever zones of the file may.
#[test]
fn zones_of_catalogs_have_names_before_they_are_listed() {
    let text = "[catalogs.\"one.test\"]\nprimaries = \"192.0.2.1\"\nmatch = \"*.cns.test\"\n[zones]\n\
        \"w-9.cns.test\" = \"192.0.2.3\"\n\"w-8.cns.test\" = \"192.0.2.3\"\n\
        [clients]\n\"w-2.cns.test\" = [\"10.2.0.0/16\"]\n\"w-9.cns.test\" = [\"10.9.0.0/16\"]\n\
        [aggregations.\"w.cns.test\"]\nmembers = [\"w-3.cns.test\", { zone = \"W-1.cns.test\", addresses = \
        { exclude = [\"10.0.0.0/8\"] } }, \"w-9.cns.test\", \"w-2.cns.test\", \"w-8.cns.test\", \"w-4.cns.test\", \
        { match = \"w-*.cns.test\" }]\nns = [\"ns.test\"]\nsteering = { prefer = \"nearest\" }\n\
        near = { \"w-9.cns.test\" = [\"w-1.cns.test\", \"w-5.cns.test\"] }\nweights = { \"w-2.cns.test\" = 3 }\n\
        [[drains]]\nmember = \"w-5.cns.test\"\n";
    let written = Arc::new(parse(text));
    assert_eq!(written.warning_lines(), [""; 0]);
    assert_eq!(written.clients.homes(), ["w-2.cns.test", "w-9.cns.test"].map(name));
    let plan = written.plan_text();
    assert!(plan.contains("w-1.cns.test. is a member of w.cns.test. if it is listed"), "{plan}");
    let members = |listed: &[&str]| {
        let labelled: Vec<(String, String)> =
            listed.iter().enumerate().map(|(label, zone)| (format!("m{label}"), format!("{zone}.cns.test"))).collect();
        let config = follow(&written, &Listings::from([listing("one.test.", &labelled, &[])]), &written);
        let [region] = &config.regions[..] else { panic!("{:?}", config.regions) };
        let first = |name: &Name| name.to_string().split('.').next().map(str::to_owned);
        (region.members.iter().filter_map(first).collect::<Vec<_>>(), region.addresses.members.len())
    };
    let all = (vec!["w-3", "w-1", "w-9", "w-2", "w-8", "w-4", "w-5"].into_iter().map(str::to_owned).collect(), 1);
    assert_eq!(members(&["w-5", "w-4", "w-3", "w-2", "w-1"]), all, "in the order of the file, then those of patterns");
    let some = (vec!["w-9", "w-2", "w-8", "w-6"].into_iter().map(str::to_owned).collect(), 0);
    assert_eq!(members(&["w-6", "w-2"]), some);
}

/// 20,000 zones of a catalog in 20 regions: what another version of the catalog costs here.
#[test]
fn many_listed_zones_cost_little() {
    let regions: String = (0..20)
        .map(|region| {
            format!(
                "\"r{region}.cns.test\" = {{ members = {{ match = \"r{region}-*.cns.test\" }}, ns = [\"ns.test\"] }}\n"
            )
        })
        .collect();
    let text = format!("[catalogs.\"one.test\"]\nprimaries = \"192.0.2.1\"\n[aggregations]\n{regions}");
    let written = Arc::new(parse(&text));
    let members: Vec<(String, String)> =
        (0..20_000).map(|zone| (format!("m{zone}"), format!("r{}-{}.cns.test", zone % 20, zone / 20))).collect();
    let less = Listings::from([listing("one.test.", &members[1..], &[])]);
    let before = Config::with_listed(&written, &less, &Asked::new(), &ListedZones::default(), &HashSet::new());
    let all = Listings::from([listing("one.test.", &members, &[])]);
    let begun = Instant::now();
    let config = follow(&written, &all, &before);
    println!("20,000 zones by 20 rules: {:?}", begun.elapsed());
    assert_eq!((config.zones.len(), config.regions.len()), (20_000, 20));
    let changed = config.regions.iter().zip(&before.regions).filter(|(now, before)| now != before);
    assert_eq!(changed.count(), 1, "the region of the new zone");
}
