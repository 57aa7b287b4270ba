//! `drain` and `undrain` as operators use them: preview, refusal, what clients and secondaries see, restarts, `--for`
//! and `--share`.

mod harness;

use harness::{Aggregator, Client, Dname, Folder, Output, Query, Settings, rtype, wait_until};
use serde_json::Value;
use sim::instances::Datacenter;
use sim::primary::Primary;
use std::time::{Duration, Instant, SystemTime};
use wire::name::Name;

const ZONES: [&str; 2] = ["us-west-1.cns.example.com", "us-west-2.cns.example.com"];
const REGION: &str = "us-west.cns.example.com";
const PATIENCE: Duration = Duration::from_secs(20);

/// A daemon with its files on disk, and a region of two datacenters.
struct Scene {
    daemon: Aggregator,
    sites: Vec<Datacenter>,
    primary: Primary,
    plan: String,
    folder: Folder,
}

impl Scene {
    async fn new() -> Scene {
        let primary = Primary::start("127.0.0.1:0".parse().unwrap()).await.unwrap();
        let site = |number: usize| {
            Datacenter::new(Name::parse(ZONES[number]).unwrap(), number as u8, 7, SystemTime::now()).unwrap()
        };
        let sites: Vec<Datacenter> = (0..2).map(site).collect();
        sites.iter().for_each(|site| primary.publish(site.zone()));
        let address = primary.address();
        let [first, second] = ZONES;
        let plan = format!(
            "[zones]\n\"{first}\" = \"{address}\"\n\"{second}\" = \"{address}\"\n[aggregations.\"{REGION}\"]\n\
             members = [\"{first}\", \"{second}\"]\nns = [\"ns1.example\"]\n\
             [transfer]\nrefresh_min = \"1d\"\nrefresh_max = \"1d\"\n"
        );
        let folder = Folder::new();
        let daemon = Aggregator::start_with(&folder.subfolder("aggregator"), &settings(&plan));
        let scene = Scene { daemon, sites, primary, plan, folder };
        wait_until("the region is there", PATIENCE, || {
            let both = scene.status()["regions"][0]["members"].as_array()?.iter().all(|member| member["state"] == "ok");
            (both && scene.count(REGION) > 0).then_some(())
        });
        scene
    }

    /// Returns the status of everything.
    fn status(&self) -> Value {
        let output = self.daemon.verb(&["status", "--json"]);
        serde_json::from_str(&output.stdout).unwrap_or_else(|_| panic!("{output:?}"))
    }

    /// The state of a member of the region.
    fn member(&self, number: usize) -> String {
        self.status()["regions"][0]["members"][number]["state"].as_str().unwrap().to_owned()
    }

    /// Returns the number of addresses of the operator's service `web` in a zone or region.
    fn count(&self, zone: &str) -> usize {
        let owner = format!("web.svc.{}", self.account());
        let query = Query::new(&Dname::parse(&format!("{owner}.{zone}")), rtype::A);
        Client::new(self.daemon.address()).ask_tcp(&query).unwrap().answer.len()
    }

    /// The account that has the service `web`, which both datacenters know.
    fn account(&self) -> String {
        let dump = text(self.daemon.verb(&["dump", ZONES[0]]));
        let line = dump.lines().find(|line| line.starts_with("web.svc.")).expect("a service web");
        line.split('.').nth(2).unwrap().to_owned()
    }

    fn serial(&self) -> u64 {
        self.status()["regions"][0]["serial"].as_u64().unwrap()
    }
}

/// Settings with a state folder.
fn settings(plan: &str) -> Settings {
    Settings { state: Some("state".to_owned()), ..Settings::new(plan) }
}

/// A verb that must succeed.
fn text(output: Output) -> String {
    assert_eq!((output.code, output.stderr.as_str()), (0, ""), "{output:?}");
    output.stdout
}

#[tokio::test(flavor = "multi_thread")]
async fn a_datacenter_is_drained_over_a_restart_and_comes_back() {
    let mut scene = Scene::new().await;
    let (all, serial) = (scene.count(REGION), scene.serial());
    let [first, second] = [0, 1].map(|number| scene.count(ZONES[number]));
    assert!(first > 0 && second > 0 && all == first + second, "{first} + {second} = {all}");

    // Nobody can be asked here.
    let asked = scene.daemon.verb(&["drain", "us-west-1", "--reason", "new racks"]);
    assert_eq!(asked.code, 2, "{asked:?}");
    assert!(
        asked.stderr.contains("write --yes or --dry-run")
            && asked.stderr.contains("names that lose their last address: ")
    );
    let preview = text(scene.daemon.verb(&["drain", "us-west-1", "--dry-run"]));
    assert!(
        preview.starts_with("us-west-1.cns.example.com. all names from all its regions until undrained\n"),
        "{preview}"
    );
    assert_eq!((scene.count(REGION), scene.serial()), (all, serial), "nothing has happened");

    let drained = text(scene.daemon.verb(&["drain", "us-west-1", "--reason", "new racks", "--yes"]));
    assert!(drained.contains("drained; \"aggregator undrain\" ends it\nthis server alone: "), "{drained}");
    let again = text(scene.daemon.verb(&["drain", "us-west-1", "--reason", "new racks", "--for", "2h", "--dry-run"]));
    let replaced = "replaces: us-west-1.cns.example.com. all names from all its regions until undrained: new racks\n";
    assert!(again.contains(replaced), "{again}");
    let nothing = text(scene.daemon.verb(&["drain", "us-west-2", "--name", "nothing.*", "--dry-run"]));
    assert!(nothing.contains("no name that is served now matches\n"), "{nothing}");
    let seen = |scene: &Scene| {
        assert_eq!((scene.count(REGION), scene.count(ZONES[0])), (second, first), "its own zone is as it was");
        assert_eq!((scene.member(0), scene.member(1)), ("drained".to_owned(), "ok".to_owned()));
        let status = text(scene.daemon.verb(&["status"]));
        assert!(
            status.contains("region, 1 of 2 members, 1 drained") && status.contains(", by order: new racks\n"),
            "{status}"
        );
        let details = text(scene.daemon.verb(&["status", REGION]));
        assert!(
            details.contains("\n  drained: us-west-1.cns.example.com. all names from us-west.cns.example.com. for "),
            "{details}"
        );
        let metrics = scene.daemon.metrics();
        for line in [
            "aggregator_region_drained_since_timestamp_seconds{member=\"us-west-1.cns.example.com.\",region=\"us-west.cns.example.com.\"} ",
            "aggregator_region_members{region=\"us-west.cns.example.com.\",state=\"drained\"} 1",
        ] {
            assert!(metrics.contains(line), "{line} in {metrics}");
        }
        let name = format!("web.svc.{}.{REGION}", scene.account());
        let lookup = text(scene.daemon.verb(&["lookup", &name, "A"]));
        assert_eq!(lookup.matches("drained: us-west-1.cns.example.com. all names").count(), first, "{lookup}");
        assert!(lookup.contains("until undrained: new racks"), "{lookup}");
    };
    seen(&scene);
    assert_eq!(scene.serial(), serial + 1);
    assert!(scene.daemon.log_text().contains("drained"), "{}", scene.daemon.log_text());

    // Without its primary: what is served comes from disk.
    scene.primary.set_away(true);
    scene.daemon.kill_and_restart(|| ());
    seen(&scene);
    assert_eq!(scene.serial(), serial + 1);
    let undrained = text(scene.daemon.verb(&["undrain", "us-west-1"]));
    assert!(undrained.starts_with("ended: us-west-1.cns.example.com. all names"), "{undrained}");
    assert_eq!((scene.count(REGION), scene.serial()), (all, serial + 2));
    scene.daemon.kill_and_restart(|| ());
    assert_eq!((scene.count(REGION), scene.serial()), (all, serial + 2));
    let again = scene.daemon.verb(&["undrain", "us-west-1"]);
    assert_eq!((again.code, again.stderr.as_str()), (1, "us-west-1.cns.example.com. has no such drain\n"));
    assert_eq!(scene.sites.len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_last_datacenter_stays_unless_it_is_forced() {
    let scene = Scene::new().await;
    text(scene.daemon.verb(&["drain", ZONES[0], "--yes"]));
    let refused = scene.daemon.verb(&["drain", ZONES[1], "--yes"]);
    assert_eq!(refused.code, 1);
    let reason = "refused: us-west.cns.example.com. would be left without any data; --force does it all the same\n";
    assert!(refused.stderr.ends_with(reason), "{refused:?}");
    assert!(scene.count(REGION) > 0);
    let json = scene.daemon.verb(&["drain", ZONES[1], "--dry-run", "--json"]);
    let json: Value = serde_json::from_str(&json.stdout).unwrap();
    let region = &json["data"]["regions"][0];
    let (lost, names) =
        (region["names_without_address"].as_u64().unwrap(), region["without_address"].as_array().unwrap());
    assert!(region["emptied"] == true && lost > 20 && names.len() as u64 == lost, "{json}");
    let told = scene.daemon.verb(&["drain", ZONES[1], "--dry-run", "--all"]);
    assert!(names.iter().all(|name| told.stderr.lines().any(|line| Some(line) == name.as_str())), "{told:?}");
    let forced = text(scene.daemon.verb(&["drain", ZONES[1], "--yes", "--force"]));
    assert!(forced.contains(" more of instances (inst, cmon): --all lists them\n"), "{forced}");
    assert_eq!((scene.count(REGION), scene.status()["regions"][0]["state"].as_str()), (0, Some("ok")));
    text(scene.daemon.verb(&["undrain", "us-west-2", "--json"]));
    assert!(scene.count(REGION) > 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn one_service_is_drained_for_a_while() {
    let mut scene = Scene::new().await;
    let (all, second) = (scene.count(REGION), scene.count(ZONES[1]));
    let others = scene.status()["regions"][0]["records"].as_u64().unwrap();
    let begun = Instant::now();
    let drained = text(scene.daemon.verb(&[
        "drain",
        "us-west-1",
        "--zone",
        REGION,
        "--name",
        "web.svc.*",
        "--for",
        "4s",
        "--yes",
    ]));
    assert!(drained.contains("drained for 4s;"), "{drained}");
    assert_eq!((scene.count(REGION), scene.member(0)), (second, "ok".to_owned()));
    let left = scene.status()["regions"][0]["records"].as_u64().unwrap();
    assert!(left < others && left > others / 2, "{left} of {others}");
    scene.daemon.kill_and_restart(|| ());
    wait_until("the drain is over", PATIENCE, || (scene.count(REGION) == all).then_some(()));
    assert!(begun.elapsed() >= Duration::from_secs(4));
    assert_eq!(scene.status()["drains"].as_array().map(Vec::len), Some(0));
    for (arguments, problem) in [
        (&["drain", "us-west", "--yes"][..], "us-west is no member of a region"),
        (&["drain", "us-west-1", "--name", "web*", "--yes"], "an asterisk stands for a whole label"),
        (
            &["drain", "us-west-1", "--zone", "other.example", "--yes"],
            "other.example is no region of the configuration",
        ),
    ] {
        let output = scene.daemon.verb(arguments);
        assert!(output.code == 1 && output.stderr.contains(problem), "{output:?}");
    }
    assert_eq!(scene.daemon.verb(&["drain", "us-west-1", "--for", "0s", "--yes"]).code, 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_configuration_drains_on_reload() {
    let scene = Scene::new().await;
    let (all, second) = (scene.count(REGION), scene.count(ZONES[1]));
    let drain = format!("{}[[drains]]\nmember = \"{}\"\nreason = \"moving\"\n", scene.plan, ZONES[0]);
    scene.daemon.write_settings(&settings(&drain));
    let reloaded = text(scene.daemon.verb(&["reload"]));
    assert_eq!(reloaded, "drained us-west-1.cns.example.com. all names from all its regions until undrained: moving\n");
    assert_eq!(scene.count(REGION), second);
    let undrain = scene.daemon.verb(&["undrain", "us-west-1"]);
    assert!(undrain.code == 1 && undrain.stderr.contains("by [[drains]] of the configuration"), "{undrain:?}");
    scene.daemon.write_settings(&settings(&drain.replace(ZONES[0], "us-west-7.cns.example.com").replacen(
        "us-west-7",
        "us-west-1",
        2,
    )));
    assert_eq!(scene.daemon.verb(&["reload"]).code, 1, "a bad one changes nothing");
    assert_eq!(scene.count(REGION), second);
    scene.daemon.write_settings(&settings(&scene.plan));
    assert!(text(scene.daemon.verb(&["reload"])).starts_with("no longer drained us-west-1.cns.example.com."));
    assert_eq!(scene.count(REGION), all);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reload_does_not_drain_the_last_datacenter() {
    let scene = Scene::new().await;
    for zone in &ZONES[1..] {
        assert_eq!(scene.daemon.verb(&["drain", zone, "--yes"]).code, 0);
    }
    let (before, plan) = (scene.count(REGION), scene.plan.clone());
    scene.daemon.write_settings(&settings(&format!("{plan}[[drains]]\nmember = \"{}\"\n", ZONES[0])));
    let refused = scene.daemon.verb(&["reload"]);
    assert!(refused.code == 1 && refused.stderr.contains("would be left without any data"), "{refused:?}");
    // All names by a pattern are as many.
    scene.daemon.write_settings(&settings(&format!("{plan}[[drains]]\nmember = \"{}\"\nnames = \"*\"\n", ZONES[0])));
    let refused = scene.daemon.verb(&["reload"]);
    assert!(refused.code == 1 && refused.stderr.contains("would be left without any data"), "{refused:?}");
    assert_eq!(scene.count(REGION), before, "nothing has changed");
    // What has ended hinders nobody.
    let ended = |zone: &str| format!("[[drains]]\nmember = \"{zone}\"\nuntil = 2020-01-01T00:00:00Z\n");
    scene.daemon.write_settings(&settings(&ZONES.iter().fold(plan, |plan, zone| plan + &ended(zone))));
    text(scene.daemon.verb(&["reload"]));
    assert_eq!(scene.count(REGION), before);
}

#[tokio::test(flavor = "multi_thread")]
async fn replicas_of_one_configuration_drain_alike() {
    let scene = Scene::new().await;
    let other = Aggregator::start_with(&scene.folder.subfolder("other"), &settings(&scene.plan));
    let drains = format!(
        "{}[[drains]]\nmember = \"{}\"\n[[drains]]\nmember = \"{}\"\nnames = \"*.svc.*\"\n",
        scene.plan, ZONES[0], ZONES[1]
    );
    let replicas = [&scene.daemon, &other];
    let region = Dname::parse(REGION);
    let look = || replicas.map(|replica| (replica.dump(&region), Client::new(replica.address()).serial(&region)));
    wait_until("both have the region", PATIENCE, || {
        let [first, second] = look();
        (first.0.is_some() && first == second).then_some(())
    });
    let before = scene.daemon.dump(&region).unwrap().len();
    for replica in replicas {
        replica.write_settings(&settings(&drains));
        text(replica.verb(&["reload"]));
    }
    let [first, second] = look();
    assert_eq!(first, second, "serial and contents");
    let left = first.0.unwrap().len();
    assert!(left > 3 && left < before, "{left} of {before}");
}

/// What clients get of a share is another matter: nothing that secondaries see moves.
#[tokio::test(flavor = "multi_thread")]
async fn a_share_leaves_region_and_serial_as_they_are() {
    let mut scene = Scene::new().await;
    let region = Dname::parse(REGION);
    let transfer = |scene: &Scene| (scene.daemon.dump(&region).unwrap(), scene.serial());
    let (before, first) = (transfer(&scene), ["--share", "30%", "--reason", "warming up", "--for", "2h"]);
    let preview = text(scene.daemon.verb(&[&["drain", "us-west-1", "--dry-run"], &first[..]].concat()));
    assert!(preview.contains(" names with another member to go to\n"), "{preview}");
    assert!(preview.contains(" names that only this member gives, which it goes on answering: "), "{preview}");
    assert!(!preview.contains("secondaries"), "nobody may transfer: {preview}");
    let ordered = text(scene.daemon.verb(&[&["drain", "us-west-1", "--yes"], &first[..]].concat()));
    assert!(ordered.contains("\ndrained for 2h; \"aggregator undrain\" ends it\n"), "{ordered}");
    // Even the last one: no client is left without an answer.
    text(scene.daemon.verb(&["drain", "us-west-2", "--share", "99%", "--yes"]));
    let seen = |scene: &Scene, percent: u64| {
        assert_eq!(transfer(scene), before);
        assert_eq!((scene.member(0), scene.member(1)), ("ok".to_owned(), "ok".to_owned()));
        let status = text(scene.daemon.verb(&["status"]));
        assert!(status.contains("region, 2 of 2 members, 2 drained for a share of clients"), "{status}");
        let line =
            format!("drained: us-west-1.cns.example.com. all names for {percent}% of clients from {REGION}. for ");
        assert!(status.contains(&line) && status.contains(", by order: warming up\n"), "{status}");
        let drains = &scene.status()["drains"];
        assert_eq!(
            (&drains[0]["share_percent"], &drains[1]["share_percent"]),
            (&percent.into(), &99.into()),
            "{drains}"
        );
        let since = "aggregator_region_share_drained_since_timestamp_seconds{member=\"us-west-1.cns.example.com.\"";
        let metrics = scene.daemon.metrics();
        assert!(metrics.contains(since) && !metrics.contains("aggregator_region_drained_since"), "{metrics}");
        let name = format!("web.svc.{}.{REGION}", scene.account());
        let lookup = text(scene.daemon.verb(&["lookup", &name, "A"]));
        let told = format!("      drained: us-west-1.cns.example.com. all names for {percent}% of clients from ");
        assert!(lookup.contains(&told) && !lookup.contains("not in the region"), "{lookup}");
        drains[0]["since"].clone()
    };
    let since = seen(&scene, 30);
    scene.daemon.kill_and_restart(|| ());
    assert_eq!(seen(&scene, 30), since);
    // The order of drains is that of the orders; this one is the last then.
    let larger = text(scene.daemon.verb(&["drain", "us-west-1", "--share", "40%", "--yes", "--reason", "warming up"]));
    assert!(larger.contains("replaces: us-west-1.cns.example.com. all names for 30% of clients"), "{larger}");
    text(scene.daemon.verb(&["undrain", "us-west-2"]));
    text(scene.daemon.verb(&["drain", "us-west-2", "--share", "99%", "--yes"]));
    assert_eq!(seen(&scene, 40), since);
    let undrained = text(scene.daemon.verb(&["undrain", "us-west-1"]));
    assert!(undrained.starts_with("ended: us-west-1.cns.example.com. all names for 40% of clients"), "{undrained}");
    assert_eq!(transfer(&scene), before);
    // All clients are a whole drain, in place of the share.
    let whole = text(scene.daemon.verb(&["drain", "us-west-2", "--share", "100%", "--yes"]));
    assert!(whole.contains("replaces: us-west-2.cns.example.com. all names for 99% of clients"), "{whole}");
    assert_eq!((scene.member(1), scene.serial()), ("drained".to_owned(), before.1 + 1));
    assert_eq!(scene.daemon.verb(&["drain", "us-west-1", "--share", "0%", "--yes"]).code, 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_configuration_drains_a_share_on_reload() {
    let scene = Scene::new().await;
    let (all, serial) = (scene.count(REGION), scene.serial());
    text(scene.daemon.verb(&["drain", ZONES[1], "--yes", "--name", "nothing.*"]));
    let drain = |share: &str| format!("[[drains]]\nmember = \"{}\"\nshare = \"{share}\"\n", ZONES[0]);
    let secondaries = "[secondaries]\nallow_transfer = [\"127.0.0.1\"]\n";
    let plan = format!("{}{secondaries}", scene.plan);
    scene.daemon.write_settings(&settings(&format!("{plan}{}", drain("30%"))));
    let reloaded = text(scene.daemon.verb(&["reload"]));
    let begins =
        "drained us-west-1.cns.example.com. all names for 30% of clients from all its regions until undrained\n";
    assert!(reloaded.contains(begins), "{reloaded}");
    assert_eq!((scene.count(REGION), scene.serial()), (all, serial));
    let check = text(scene.daemon.verb(&["check"]));
    assert!(
        check.contains(": the share does not reach secondaries of us-west.cns.example.com, which answer"),
        "{check}"
    );
    let preview = text(scene.daemon.verb(&["drain", ZONES[1], "--share", "1%", "--dry-run"]));
    assert!(preview.contains("    secondaries of the region answer with whole sets: "), "{preview}");
    let undrain = scene.daemon.verb(&["undrain", "us-west-1"]);
    assert!(undrain.code == 1 && undrain.stderr.contains("for 30% of clients"), "{undrain:?}");
    scene.daemon.write_settings(&settings(&plan));
    assert!(
        text(scene.daemon.verb(&["reload"])).contains("no longer drained us-west-1.cns.example.com. all names for 30%")
    );
    assert_eq!((scene.count(REGION), scene.serial()), (all, serial));
}
