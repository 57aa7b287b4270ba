//! All verbs as text and JSON against one daemon, its pages and API, and the names of its metrics.

use crate::compare::{Words, assert_golden, assert_goldens};
use crate::scene::Scene;
use std::collections::BTreeSet;
use std::process::Command;

/// Zones, regions and the catalog in all their states.
const ZONES: [&str; 21] = [
    "well.test",
    "clash.test",
    "drain.test",
    "pin.test",
    "part.test",
    "waiting.test",
    "2.0.192.in-addr.arpa",
    "one.well.test",
    "two.well.test",
    "one.clash.test",
    "two.clash.test",
    "one.drain.test",
    "two.drain.test",
    "one.pin.test",
    "held.test",
    "absent.test",
    "gone.test",
    "own.test",
    "west:2.0.192.in-addr.arpa",
    "catalog.test",
    "nowhere.test",
];

/// Names, each of which is answered in its own way.
const NAMES: [&[&str]; 20] = [
    &["well.test"],
    &["well.test", "SOA"],
    &["web.svc.acme.well.test", "A"],
    &["new.well.test"],
    &["any.wild.well.test", "A"],
    &["below.sub.well.test", "A"],
    &["nothing.well.test"],
    &["web.svc.acme.well.test", "MX"],
    &["clash.clash.test"],
    &["private.clash.test"],
    &["mx.clash.test", "MX"],
    &["web.svc.acme.drain.test"],
    &["web.svc.acme.pin.test"],
    &["old.part.test"],
    &["i1.inst.held.test"],
    &["old.gone.test"],
    &["any.waiting.test"],
    &["1.2.0.192.in-addr.arpa", "PTR"],
    &["identity._openstack._tcp.own.test"],
    &["elsewhere.example"],
];

/// Compares everything that a daemon shows.
#[test]
fn a_daemon_shows_what_it_showed() {
    let scene = Scene::new();
    let mut texts: Vec<(String, String)> = Vec::new();
    let mut add = |file: &str, text: String| texts.push((file.to_owned(), text));
    let run = |list: &[&[&str]]| list.iter().map(|arguments| scene.outcome(arguments)).collect::<String>();
    let both = |list: &[&[&str]]| {
        let json = |arguments: &&[&str]| scene.outcome(&[arguments, &["--json"][..]].concat());
        (run(list), list.iter().map(json).collect::<String>())
    };

    // What is refused, and what orders would do.
    add(
        "verbs/orders.txt",
        run(&[
            &["refresh", "held.test"],
            &["refresh", "well.test"],
            &["refresh", "absent.test"],
            &["refresh", "own.test"],
            &["refresh", "nowhere.test"],
            &["retransfer", "one.well.test"],
            &["retransfer", "well.test"],
            &["drain", "one.drain", "--dry-run"],
            &["drain", "one.drain", "--dry-run", "--json"],
            &["drain", "one.pin", "--dry-run"],
            &["drain", "one.pin", "--yes"],
            &["drain", "nobody", "--yes"],
            &["drain", "one.drain"],
            &["drain", "one.drain", "--yes", "--reason", "new racks"],
            &["drain", "two.well", "--name", "web.svc.*", "--zone", "well.test", "--yes", "--json"],
            &["drain", "one.well", "--share", "0%", "--yes"],
            &["drain", "one.well", "--share", "30", "--yes"],
            &["drain", "one.clash", "--share", "30%", "--dry-run"],
            &["drain", "one.well", "--share", "30%", "--name", "nothing.*", "--dry-run"],
            &["drain", "one.well", "--share", "30%", "--yes", "--reason", "warming up"],
            &["drain", "one.well", "--share", "40%", "--dry-run", "--json"],
            &["rollback", "pin.test", "--to", "10", "--dry-run"],
            &["rollback", "pin.test", "--to", "10", "--dry-run", "--json"],
            &["rollback", "pin.test", "--to", "9", "--yes"],
            &["rollback", "one.pin.test", "--to", "10", "--yes"],
            &["rollback", "pin.test", "--to", "10"],
            &["rollback", "pin.test", "--to", "10", "--yes", "--reason", "bad release"],
        ]),
    );
    scene.settle();

    // How everything is.
    let status: Vec<Vec<&str>> = ZONES.iter().map(|zone| vec!["status", zone]).collect();
    let status: Vec<&[&str]> = std::iter::once(&["status"][..]).chain(status.iter().map(Vec::as_slice)).collect();
    add("verbs/status.txt", run(&status));
    add("verbs/status.json.txt", run(&[&["status", "--json"], &["status", "pin.test", "--json"]]));
    let lookups: Vec<Vec<&str>> = NAMES.iter().map(|name| [&["lookup"][..], name].concat()).collect();
    let (text, json) = both(&lookups.iter().map(Vec::as_slice).collect::<Vec<_>>());
    add("verbs/lookup.txt", text);
    add("verbs/lookup.json.txt", json);
    let (text, json) = both(&[
        &["dump", "well.test"],
        &["dump", "own.test"],
        &["dump", "2.0.192.in-addr.arpa"],
        &["dump", "gone.test"],
        &["dump", "nowhere.test"],
        &["diff", "well.test"],
        &["diff", "pin.test"],
        &["diff", "pin.test", "--from", "10"],
        &["diff", "pin.test", "--from", "9"],
        &["diff", "clash.test"],
        &["diff", "waiting.test"],
        &["history"],
        &["history", "pin.test"],
        &["history", "drain.test"],
        &["history", "well.test", "--limit", "1"],
        &["history", "web.svc.acme.pin.test"],
        &["history", "new.well.test"],
        &["history", "elsewhere.example"],
        &["version"],
    ]);
    add("verbs/versions.txt", text);
    add("verbs/versions.json.txt", json);

    // The same for browsers and programs.
    for (file, path) in [
        ("overview", "/"),
        ("region", "/zone/well.test"),
        ("region-pinned", "/zone/pin.test"),
        ("region-drained", "/zone/drain.test"),
        ("region-conflicts", "/zone/clash.test"),
        ("region-waiting", "/zone/waiting.test"),
        ("zone-held", "/zone/held.test"),
        ("zone-expired", "/zone/gone.test"),
        ("zone-own", "/zone/own.test"),
        ("catalog", "/zone/catalog.test"),
        ("diff", "/zone/pin.test/diff?from=10&to=11"),
        ("diff-unknown", "/zone/pin.test/diff?from=9"),
        ("lookup-empty", "/lookup"),
        ("lookup", "/lookup?name=clash.clash.test"),
        ("lookup-wrong", "/lookup?name=a..b"),
        ("not-found", "/zone/nowhere.test"),
    ] {
        let (status, body) = scene.daemon.http(path);
        add(&format!("pages/{file}.html"), scene.words.text(&format!("<!-- {status} {path} -->\n{body}")));
    }
    let mut api = String::new();
    for path in [
        "/api/v1/zones",
        "/api/v1/zones/well.test",
        "/api/v1/zones/gone.test",
        "/api/v1/zones/own.test",
        "/api/v1/zones/catalog.test",
        "/api/v1/zones/nowhere.test",
        "/api/v1/zones/pin.test/history",
        "/api/v1/zones/pin.test/history?limit=many",
        "/api/v1/zones/pin.test/diff?from=10&to=11",
        "/api/v1/zones/pin.test/diff?from=9",
        "/api/v1/lookup?name=clash.clash.test&type=A",
        "/api/v1/lookup",
        "/api/v1/nothing",
    ] {
        let (status, body) = scene.daemon.http(path);
        api.push_str(&format!("==== {path}\n{status}\n{}", scene.words.json(&body)));
    }
    add("api.txt", api);
    let (status, _) = scene.daemon.http("/api/v1/status");
    assert_eq!(status, 200, "the same as the verb gives");
    add("openapi.json", scene.daemon.http("/api/v1/openapi.json").1);
    let health = |path: &str| {
        let (status, body) = scene.daemon.http(path);
        format!("==== {path}\n{status}\n{body}")
    };
    add("health.txt", ["/healthz", "/readyz"].map(health).concat());
    add("metrics.txt", families(&scene.words.text(&scene.daemon.metrics())));

    // The end of what was ordered, and of the daemon.
    add(
        "verbs/end.txt",
        run(&[
            &["notify", "well.test"],
            &["notify", "well.test", "--json"],
            &["notify", "nowhere.test"],
            &["refresh", "one.well.test", "--json"],
            &["refresh", "nowhere.test", "--json"],
            &["retransfer", "one.well.test", "--json"],
            &["undrain", "one.drain"],
            &["undrain", "one.drain"],
            &["undrain", "two.well", "--name", "web.svc.*", "--zone", "well.test", "--json"],
            &["undrain", "one.well"],
            &["rollback", "pin.test", "--release", "--dry-run"],
            &["rollback", "pin.test", "--release", "--yes"],
            &["rollback", "pin.test", "--release", "--yes", "--json"],
            &["retransfer", "held.test", "--accept"],
            &["reload"],
            &["reload", "--json"],
        ]),
    );
    scene.daemon.write_plan("[zone]\n\"one.well.test\" = \"192.0.2.1\"\n");
    add("verbs/reload-refused.txt", run(&[&["reload"], &["reload", "--json"]]));
    add("verbs/stop.txt", run(&[&["stop", "--json"], &["stop"], &["status"], &["status", "--json"]]));
    assert_goldens(&texts);
}

/// Names, labels, types and help of metrics. Labels that say of what something is told stand without their values.
fn families(scrape: &str) -> String {
    let mut text = String::new();
    let mut series: BTreeSet<String> = BTreeSet::new();
    for line in scrape.lines().chain([""]) {
        let Some((name, _)) = line.rsplit_once(' ').filter(|_| !line.starts_with('#')) else {
            if line.starts_with("# HELP") || line.is_empty() {
                series.iter().for_each(|one| text.push_str(&format!("{one}\n")));
                series.clear();
            }
            if !line.is_empty() {
                text.push_str(&format!("{line}\n"));
            }
            continue;
        };
        let Some((family, labels)) = name.split_once('{') else {
            series.insert(name.to_owned());
            continue;
        };
        let labels = labels.trim_end_matches('}').split("\",").map(|label| match label.split_once('=') {
            Some((key @ ("zone" | "region" | "member" | "primary" | "secondary" | "tree"), _)) => key.to_owned(),
            _ => format!("{}\"", label.trim_end_matches('"')),
        });
        series.insert(format!("{family}{{{}}}", labels.collect::<Vec<_>>().join(",")));
    }
    text
}

/// The help of every verb.
#[test]
fn every_verb_explains_itself_as_before() {
    let mut text = String::new();
    explain(&aggregator::cli::command(), &[], &mut text);
    assert_golden("help.txt", &Words::new(&[]).text(&text));
}

/// Adds the help of a command and of those below it.
fn explain(command: &clap::Command, above: &[String], text: &mut String) {
    let output = Command::new(env!("CARGO_BIN_EXE_aggregator")).args(above).arg("--help").output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let help = String::from_utf8(output.stdout).unwrap();
    text.push_str(&format!("==== {}\n{help}", [&["aggregator".to_owned()], above].concat().join(" ")));
    for verb in command.get_subcommands() {
        explain(verb, &[above, &[verb.get_name().to_owned()]].concat(), text);
    }
}

#[test]
fn values_of_enumerations_stay_in_the_names_of_metrics() {
    let scrape =
        "# HELP a b\n# TYPE a counter\na{kind=\"x\",zone=\"y.\"} 1\na{kind=\"x\",zone=\"z.\"} 2\n# HELP c d\nc 3\n";
    assert_eq!(families(scrape), "# HELP a b\n# TYPE a counter\na{kind=\"x\",zone}\n# HELP c d\nc\n");
}
