//! `history`, `diff` and `rollback` as operators use them, with secondaries that follow and over restarts.

mod harness;

use harness::*;
use serde_json::Value;
use std::io::Write;
use std::process::{Command, Stdio};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

const WEST: &str = "us-west-1.cns.example.com.";
const EAST: &str = "us-west-2.cns.example.com.";
const REGION: &str = "us-west.cns.example.com.";
const PATIENCE: Duration = Duration::from_secs(20);

/// A member with many names, of which every version has another address of `web` and one host of its own.
fn zone_text(zone: &str, serial: u32) -> String {
    let mut text = format!(
        "$ORIGIN {zone}\n@ 30 IN SOA ns. h. {serial} 1 1 2592000 30\n@ 30 IN NS ns.\nweb.svc.acme 30 IN A 192.0.2.{serial}\n\
         v{serial}.inst.acme 30 IN A 192.0.2.{serial}\n"
    );
    for number in 0..100 {
        text.push_str(&format!("i{number}.inst.acme 30 IN A 198.51.100.{number}\n"));
    }
    text
}

/// Seconds since 1970.
fn now() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs() as i64
}

/// A primary with two members, and the daemon with their region.
struct Scene {
    primary: Peer,
    daemon: Aggregator,
    notify: Vec<String>,
    folder: Folder,
}

impl Scene {
    fn new() -> Scene {
        let folder = Folder::new();
        let zones = [(Dname::parse(WEST), zone_text(WEST, 1)), (Dname::parse(EAST), zone_text(EAST, 1))];
        let primary = Named::start(&folder, &zones);
        let settings = settings(&primary, &[WEST, EAST], &[]);
        let daemon = Aggregator::start_with(&folder.subfolder("aggregator"), &settings);
        let scene = Scene { primary, daemon, notify: Vec::new(), folder };
        scene.wait_for(REGION, 2);
        scene
    }

    /// The serial that is served.
    fn serial(&self, zone: &str) -> Option<u32> {
        Client::new(self.daemon.address()).serial(&Dname::parse(zone))
    }

    fn wait_for(&self, zone: &str, serial: u32) {
        wait_until(&format!("{zone} has {serial}"), PATIENCE, || (self.serial(zone) == Some(serial)).then_some(()));
    }

    /// Changes a member and waits until the daemon has it.
    fn change(&self, zone: &str, serial: u32) {
        self.primary.replace_zone(&Dname::parse(zone), &read_zone(&zone_text(zone, serial)));
        self.wait_for(zone, serial);
    }

    /// Gives the running daemon another configuration.
    fn reload(&self, members: &[&str]) -> String {
        self.daemon.write_settings(&settings(&self.primary, members, &self.notify));
        self.text(&["reload"])
    }

    /// A verb that must succeed.
    fn text(&self, arguments: &[&str]) -> String {
        let output = self.daemon.verb(arguments);
        assert_eq!((output.code, output.stderr.as_str()), (0, ""), "{arguments:?} {output:?}");
        output.stdout
    }

    /// Returns the output of a verb as JSON.
    fn json(&self, arguments: &[&str]) -> Value {
        serde_json::from_str(&self.text(&[arguments, &["--json"]].concat())).unwrap()
    }

    /// The records of the region but for the SOA, one a line.
    fn records(&self) -> String {
        let dump = self.text(&["dump", REGION]);
        dump.lines().filter(|line| !line.contains(" SOA ")).map(|line| format!("{line}\n")).collect()
    }

    /// Returns the number of outgoing transfers of one kind.
    fn sent(&self, kind: &str) -> u64 {
        let line = format!("aggregator_xfr_served_total{{kind=\"{kind}\",result=\"ok\",zone=\"{REGION}\"}} ");
        let metrics = self.daemon.metrics();
        metrics.lines().find_map(|found| found.strip_prefix(&line)?.trim().parse().ok()).unwrap_or(0)
    }
}

/// A configuration with a region of some members, of which secondaries are told.
fn settings(primary: &Peer, members: &[&str], notify: &[String]) -> Settings {
    let address = primary.address();
    let plan = format!(
        "[secondaries]\nallow_transfer = [\"127.0.0.0/8\"]\nnotify = [{}]\n\
         [transfer]\nrefresh_min = \"1s\"\nrefresh_max = \"1s\"\nretry_min = \"1s\"\nretry_max = \"1s\"\n\
         [aggregations.\"{REGION}\"]\nmembers = {members:?}\nns = [\"ns1.example\"]\nmname = \"self\"\nsoa_refresh = \"1d\"\n\
         [zones]\n\"{WEST}\" = \"{address}\"\n\"{EAST}\" = \"{address}\"\n",
        notify.iter().map(|address| format!("\"{address}\"")).collect::<Vec<_>>().join(", "),
    );
    Settings { state: Some("state".to_owned()), ..Settings::new(&plan) }
}

/// Waits until each secondary has what the daemon serves, record by record.
fn wait_equal(scene: &Scene, secondaries: &mut [Secondary]) {
    let region = Dname::parse(REGION);
    let ours = scene.daemon.dump(&region).unwrap();
    for secondary in secondaries {
        secondary.wait_for_serial(&region, scene.serial(REGION).unwrap());
        assert_eq!(difference(&ours, &secondary.fetch(&region)), None, "{}", secondary.name());
    }
}

#[test]
fn versions_and_what_changed_are_told_over_a_restart() {
    let mut scene = Scene::new();
    let begun = now() - 30;
    scene.change(WEST, 2);
    scene.change(EAST, 2);
    scene.wait_for(REGION, 4);

    let history = scene.json(&["history", REGION]);
    let versions = history["versions"].as_array().unwrap();
    let told: Vec<(i64, i64, &str)> = versions
        .iter()
        .map(|version| {
            let at = version["at"].as_i64().unwrap();
            assert!((begun..=now()).contains(&at), "{version}");
            let number = |key: &str| version[key].as_i64().unwrap();
            (number("from"), number("serial"), version["cause"].as_str().unwrap())
        })
        .collect();
    let expected = [(3, 4, "us-west-2.cns.example.com. 2"), (2, 3, "us-west-1.cns.example.com. 2")];
    assert_eq!(told, expected);
    // What one member drops the other still has, until it drops it too.
    let counts = |index: usize| ["names", "removed", "added"].map(|key| versions[index][key].as_u64().unwrap());
    assert_eq!((counts(1), counts(0)), ([2, 0, 2], [2, 2, 0]));
    assert_eq!((&history["serial"], &history["oldest"], &history["more"]), (&4.into(), &2.into(), &0.into()));
    let text = scene.text(&["history", REGION, "--limit", "1"]);
    assert!(text.contains("\n1 older ones; --limit shows more\n"), "{text}");
    assert_eq!(
        scene.json(&["history"])["versions"].as_array().map(Vec::len),
        Some(4),
        "two of members, two of the region"
    );

    let name = format!("web.svc.acme.{REGION}");
    let changes = scene.json(&["history", &name]);
    assert_eq!(changes["changes"][0]["removed"][0]["data"], "192.0.2.1", "{changes}");
    let difference = scene.text(&["diff", REGION, "--from", "2", "--to", "3"]);
    let lines: Vec<&str> = difference.lines().filter(|line| line.contains(" A ")).collect();
    let line = |sign: char, owner: &str, last: u8| format!("{sign}{owner}.acme.{REGION} 30 IN A 192.0.2.{last}");
    // The other member still has what this one has not any more.
    assert_eq!(lines, [line('+', "v2.inst", 2), line('+', "web.svc", 2)]);
    let back = scene.text(&["diff", REGION, "--from", "3", "--to", "2"]);
    assert!(back.contains(&line('-', "v2.inst", 2)), "{back}");
    assert_eq!(scene.text(&["diff", REGION]), scene.text(&["diff", REGION, "--from", "3", "--to", "4"]));
    let unknown = scene.daemon.verb(&["diff", REGION, "--to", "9"]);
    assert!(unknown.code == 1 && unknown.stderr.contains("does not have serial 9; it has 2, 3, 4"), "{unknown:?}");

    let seen = |scene: &Scene| {
        let lookup = scene.json(&["lookup", &name, "A"]);
        let step = &lookup["steps"][0];
        assert_eq!(
            (&step["records"][0]["data"], &step["records"][0]["seen"]["serial"]),
            (&"192.0.2.2".into(), &3.into())
        );
        assert_eq!(
            (&step["gone"][0]["data"], &step["gone"][0]["last"], &step["gone"][0]["gone"]),
            (&"192.0.2.1".into(), &3.into(), &4.into())
        );
        assert_eq!(step["gone"][0]["seen"]["before"], true);
    };
    seen(&scene);
    let (before, difference) = (scene.json(&["history", REGION]), scene.text(&["diff", REGION]));
    scene.daemon.kill_and_restart(|| ());
    let after = scene.json(&["history", REGION]);
    assert_eq!((after, scene.text(&["diff", REGION])), (before, difference));
    seen(&scene);
}

#[test]
fn a_region_is_rolled_back_and_released_before_the_eyes_of_secondaries() {
    let mut scene = Scene::new();
    let region = Dname::parse(REGION);
    let plan = SecondaryPlan::new(scene.daemon.address(), &[&region]);
    let mut secondaries = [Knotd::start_secondary, Nsd::start_secondary].map(|start| start(&scene.folder, &plan));
    wait_equal(&scene, &mut secondaries);
    scene.notify = secondaries.iter().map(|secondary| secondary.address().to_string()).collect();
    scene.reload(&[WEST, EAST]);
    let good = scene.records();
    scene.change(WEST, 2);
    scene.change(WEST, 3);
    scene.wait_for(REGION, 4);
    wait_equal(&scene, &mut secondaries);
    let bad = scene.records();

    // Nothing happens without a yes.
    let preview = scene.text(&["rollback", REGION, "--to", "2", "--dry-run"]);
    let removed = format!("-v3.inst.acme.{REGION} 30 IN A 192.0.2.3\n");
    assert!(preview.contains("back to the contents of version 2") && preview.contains(&removed), "{preview}");
    let asked = scene.daemon.verb(&["rollback", REGION, "--to", "2"]);
    assert!(asked.code == 2 && asked.stderr.contains("write --yes or --dry-run"), "{asked:?}");
    for (arguments, problem) in [
        (&["rollback", REGION, "--to", "7", "--yes"][..], "does not have serial 7; it has 2, 3, 4"),
        (&["rollback", WEST, "--to", "2", "--yes"], "is what its source says"),
        (&["rollback", "other.example", "--to", "2", "--yes"], "is not configured"),
        (&["rollback", REGION, "--release", "--yes"], "is not pinned"),
    ] {
        let output = scene.daemon.verb(arguments);
        assert!(output.code == 1 && output.stderr.contains(problem), "{output:?}");
    }
    assert_eq!((scene.serial(REGION), scene.records()), (Some(4), bad.clone()));

    let (whole, steps) = (scene.sent("axfr") + scene.sent("ixfr-full"), scene.sent("ixfr"));
    let done = scene.text(&["rollback", REGION, "--to", "2", "--reason", "v3 is broken", "--yes"]);
    assert!(
        done.contains(", published as 5; \"aggregator rollback us-west.cns.example.com. --release\" ends it\n"),
        "{done}"
    );
    let pinned = |scene: &Scene| {
        assert_eq!((scene.serial(REGION), scene.records()), (Some(5), good.clone()));
        let status = scene.text(&["status"]);
        assert!(status.contains(", pinned to version 2"), "{status}");
        let details = scene.text(&["status", REGION]);
        assert!(
            details.contains("\n  pinned to version 2 since ") && details.contains(": v3 is broken\n"),
            "{details}"
        );
        let line = format!("aggregator_region_pinned_since_timestamp_seconds{{region=\"{REGION}\"}} ");
        assert!(scene.daemon.metrics().contains(&line));
        assert_eq!(scene.daemon.http("/readyz").0, 200);
        let lookup = scene.text(&["lookup", &format!("v1.inst.acme.{REGION}")]);
        assert!(lookup.contains("  pinned to version 2 since "), "{lookup}");
    };
    pinned(&scene);
    wait_equal(&scene, &mut secondaries);
    // A member's change is for its own zone.
    scene.change(WEST, 9);
    pinned(&scene);
    let lookup = scene.text(&["lookup", &format!("v9.inst.acme.{REGION}")]);
    assert!(lookup.contains("      pinned: the region is pinned to version 2"), "{lookup}");
    assert_eq!(scene.sent("axfr") + scene.sent("ixfr-full"), whole, "by differences");
    assert!(scene.sent("ixfr") >= steps + 2);
    assert!(scene.daemon.log_text().contains("the region is pinned to the contents of an earlier version"));

    scene.daemon.kill_and_restart(|| ());
    pinned(&scene);
    wait_until("the member is there", PATIENCE, || (scene.serial(WEST) == Some(9)).then_some(()));
    let reloaded = scene.reload(&[EAST]);
    assert!(reloaded.contains("pinned as before, which ends with"), "{reloaded}");
    pinned(&scene);
    scene.reload(&[WEST, EAST]);
    pinned(&scene);

    let preview = scene.text(&["rollback", REGION, "--release", "--dry-run"]);
    assert!(preview.contains(&format!("+v9.inst.acme.{REGION} 30 IN A 192.0.2.9\n")), "{preview}");
    pinned(&scene);
    let released = scene.json(&["rollback", REGION, "--release", "--yes"]);
    assert_eq!((&released["done"], &released["persistent"]), (&true.into(), &true.into()));
    // The sum of the members is newer again.
    assert_eq!(scene.serial(REGION), Some(10));
    let records = scene.records();
    assert!(records.contains("v9.inst.acme.") && !records.contains("v3.inst.acme."), "{records}");
    wait_equal(&scene, &mut secondaries);
    assert_eq!(scene.sent("axfr") + scene.sent("ixfr-full"), 0, "by differences, over the restart");
    let causes: Vec<Value> = scene.json(&["history", REGION])["versions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|version| version["cause"].clone())
        .collect();
    assert_eq!(causes[..2], ["release", "rollback to 2"]);
    scene.daemon.kill_and_restart(|| ());
    assert_eq!((scene.serial(REGION), scene.records()), (Some(10), records));
    assert!(!scene.text(&["status"]).contains("pinned"));
    wait_equal(&scene, &mut secondaries);
}

/// Runs a verb on a terminal of its own, with what is typed there. Returns all that the terminal shows.
fn on_terminal(scene: &Scene, arguments: &str, typed: &str, no_color: bool) -> String {
    let command =
        format!("{} {arguments} -c {}", env!("CARGO_BIN_EXE_aggregator"), scene.daemon.configuration().display());
    let mut script = Command::new("script");
    script.args(["-qefc", &command, "/dev/null"]).stdin(Stdio::piped()).stdout(Stdio::piped()).env_remove("NO_COLOR");
    if no_color {
        script.env("NO_COLOR", "1");
    }
    let mut child = script.spawn().expect("script (bsdutils) is not installed; run `make test`");
    child.stdin.take().unwrap().write_all(typed.as_bytes()).unwrap();
    String::from_utf8_lossy(&child.wait_with_output().unwrap().stdout).into_owned()
}

#[test]
fn a_terminal_shows_colours_and_is_asked() {
    let scene = Scene::new();
    scene.change(WEST, 2);
    scene.wait_for(REGION, 3);
    let added = format!("+v2.inst.acme.{REGION} 30 IN A 192.0.2.2");
    let coloured = on_terminal(&scene, &format!("diff {REGION}"), "", false);
    assert!(coloured.contains(&format!("\x1b[32m{added}\x1b[0m")), "{coloured:?}");
    let plain = on_terminal(&scene, &format!("diff {REGION}"), "", true);
    assert!(plain.contains(&added) && !plain.contains('\x1b'), "{plain:?}");
    assert!(!scene.text(&["diff", REGION]).contains('\x1b'), "no terminal");
    let order = format!("rollback {REGION} --to 2");
    let refused = on_terminal(&scene, &order, "n\n", false);
    assert!(refused.contains("roll back? [y/N] ") && refused.contains("nothing is rolled back"), "{refused:?}");
    assert_eq!(scene.serial(REGION), Some(3));
    let done = on_terminal(&scene, &order, "y\n", false);
    assert!(done.contains("\x1b[31m-v2.inst.acme.") && done.contains(", published as 4; "), "{done:?}");
    assert_eq!(scene.serial(REGION), Some(4));
    // A reason is what somebody typed, and is shown to others.
    let arguments = ["rollback", REGION, "--to", "2", "--reason", "it was\x1b[31m better\n", "--yes"];
    let done = scene.text(&arguments) + &scene.text(&["rollback", REGION, "--release", "--dry-run"]);
    assert!(done.matches("it was\\u{1b}[31m better\\n").count() == 2 && !done.contains('\x1b'), "{done:?}");
    let released = on_terminal(&scene, &format!("rollback {REGION} --release"), "yes\n", true);
    assert!(released.contains("release? [y/N] ") && released.contains("released"), "{released:?}");
    assert_eq!(scene.serial(REGION), Some(6));
}
