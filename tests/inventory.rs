//! Zones that are made of inventories: what a document says is served, what is wrong with one changes nothing, and what
//! was learnt outlives the process.

#[path = "inventory/automatic.rs"]
mod automatic;
#[path = "inventory/builders.rs"]
mod builders;
mod harness;
#[path = "inventory/imported.rs"]
mod imported;
#[path = "inventory/rest.rs"]
mod rest;
#[path = "inventory/site.rs"]
mod site;

use harness::*;
use serde_json::json;
use site::*;

#[test]
fn a_document_becomes_zones_and_is_followed() {
    let site = Site::start(&[vm("web1", "acme", 1), vm("web2", "acme", 2)], "");
    let mut resolver = site.resolver();
    resolver.wait_addresses("web.svc.acme", &[1, 2]);
    assert_eq!(resolver.addresses("web1.inst.acme"), [address(1)]);
    assert_eq!(resolver.records("web1.inst.acme", rtype::AAAA).len(), 1);
    let mut targets: Vec<String> = resolver
        .records("web.svc.acme", rtype::SRV)
        .iter()
        .map(|record| record.target().expect("a target").to_string())
        .collect();
    targets.sort();
    assert_eq!(targets, ["web1", "web2"].map(|alias| format!("{alias}.inst.acme.{ZONE}")));
    assert_eq!(resolver.records("web.svc.acme", rtype::TXT).len(), 2);
    let pointer = resolver.ask("1.100.51.198.in-addr.arpa.", rtype::PTR).answer[0].target();
    assert_eq!(pointer, Some(Dname::parse(&format!("web1.inst.acme.{ZONE}"))));

    // A change, a new instance, and one that goes.
    site.write(&[vm("web1", "acme", 11), vm("web3", "acme", 3)]);
    resolver.wait_addresses("web.svc.acme", &[3, 11]);
    assert_eq!(resolver.ask(&format!("web2.inst.acme.{ZONE}"), rtype::A).rcode(), 3);
    assert_eq!(resolver.ask("1.100.51.198.in-addr.arpa.", rtype::PTR).rcode(), 3);
    let status = site.wait_status("the document is read", |source| source["readings"] == 2);
    assert_eq!(
        (&status["reading"], &status["feeder"], &status["counts"]["vms"]),
        (&json!("current"), &json!("file"), &json!(2))
    );
    let text = site.daemon.verb(&["status", ZONE]).stdout;
    for part in ["inventory dc1: current", "2 instances, 2 with names", "with zone 100.51.198.in-addr.arpa."] {
        assert!(text.contains(part), "{part} in\n{text}");
    }
    let reverse = site.daemon.verb(&["status", REVERSE]).stdout;
    assert!(reverse.contains(&format!("made of the inventory of {ZONE}")), "{reverse}");
    let told = site.daemon.verb(&["lookup", &format!("web.svc.acme.{ZONE}")]).stdout;
    for part in ["inventory dc1: current", "(web1): in service", "service web: in"] {
        assert!(told.contains(part), "{part} in\n{told}");
    }
    assert_eq!(site.metric("inventory_elements", &[("kind", "vms")]), Some(2.0));
    assert_eq!(site.metric("inventory_failures", &[]), Some(0.0));
    let refreshed = site.daemon.verb(&["refresh", ZONE]);
    assert!(refreshed.code == 0 && refreshed.stdout.contains("current"), "{refreshed:?}");
}

#[test]
fn what_is_wrong_with_a_document_changes_nothing() {
    let site = Site::start(&[vm("web1", "acme", 1), vm("web2", "acme", 2)], "");
    let mut resolver = site.resolver();
    resolver.wait_addresses("web.svc.acme", &[1, 2]);
    let serial = resolver.serial();
    let whole = document(&[vm("web1", "acme", 1)]);
    let twice = json!({ "format": 1, "vms": [with(vm("a", "acme", 1), json!({ "uuid": UUID })),
        with(vm("b", "acme", 2), json!({ "uuid": UUID }))] });
    let twice = serde_json::to_string_pretty(&twice).unwrap();
    for (what, text, told) in [
        ("torn", &whole[..whole.len() / 2], "inventory.json:"),
        ("no document", "format = ", "inventory.json:1:"),
        ("a duplicate", &twice, "twice"),
        ("empty", "", "inventory.json"),
    ] {
        site.write_text(text);
        let status = site.wait_status(what, |source| source["reading"] == "failing");
        let error = status["error"].as_str().unwrap_or_default().to_owned();
        assert!(error.contains("inventory.json:") || error.contains(told), "{what}: {error}");
        assert_eq!((resolver.addresses("web.svc.acme").len(), resolver.serial()), (2, serial), "{what}");
        site.write(&[vm("web1", "acme", 1), vm("web2", "acme", 2)]);
        site.wait_status(what, |source| source["reading"] == "current");
    }
    std::fs::remove_file(site.file()).unwrap();
    let status = site.wait_status("it is missed", |source| source["reading"] == "failing");
    assert!(status["error"].as_str().unwrap().contains("cannot be read"), "{status}");
    assert!(site.metric("inventory_failures", &[]) >= Some(1.0));
    assert!(site.metric("inventory_failed_readings_total", &[("reason", "missing")]) >= Some(1.0));
    assert_eq!((resolver.addresses("web.svc.acme").len(), resolver.serial()), (2, serial));
    // Half of a document that is still being written is never taken for a whole one.
    site.write(&[vm("web1", "acme", 1)]);
    resolver.wait_addresses("web.svc.acme", &[1]);
}

#[test]
fn a_document_that_has_shrunk_sharply_is_confirmed_first() {
    let many: Vec<_> = (1..=30).map(|number| vm(&format!("web{number}"), "acme", number)).collect();
    let site = Site::start(&many, "confirm_after = \"3s\"\n");
    let mut resolver = site.resolver();
    resolver.wait_addresses("web.svc.acme", &(1..=30).collect::<Vec<_>>());
    site.write(&many[..5]);
    let status = site.wait_status("it is held back", |source| !source["held"].is_null());
    assert_eq!((&status["held"]["array"], &status["held"]["elements"]), (&json!("vms"), &json!(5)));
    assert_eq!(resolver.addresses("web.svc.acme").len(), 30);
    resolver.wait_addresses("web.svc.acme", &[1, 2, 3, 4, 5]);
    site.wait_status("it was confirmed", |source| source["held"].is_null());
    // An operator need not wait.
    site.write(&[]);
    site.wait_status("an empty one is held back", |source| source["held"]["elements"] == 0);
    assert_eq!(resolver.addresses("web.svc.acme").len(), 5);
    let accepted = site.daemon.verb(&["retransfer", ZONE, "--accept"]);
    assert_eq!(accepted.code, 0, "{accepted:?}");
    wait("the zone is empty", || resolver.addresses("web.svc.acme").is_empty().then_some(()));
    assert!(resolver.serial().is_some(), "its apex stays");
}

#[test]
fn a_document_over_http_is_followed_and_an_error_is_no_empty_inventory() {
    let server = Origin::start(&document(&[vm("web1", "acme", 1)]));
    let site =
        Site::start_with(&format!("url = \"http://{}/dc1.json\"\n", server.address()), "confirm_after = \"1s\"\n");
    let mut resolver = site.resolver();
    resolver.wait_addresses("web.svc.acme", &[1]);
    server.answer(500, "[]");
    site.refresh();
    let status = site.wait_status("the error is told", |source| source["reading"] == "failing");
    assert!(status["error"].as_str().unwrap().contains("answered 500"), "{status}");
    assert_eq!(resolver.addresses("web.svc.acme"), [address(1)]);
    server.answer(200, &document(&[vm("web1", "acme", 1), vm("web2", "acme", 2)]));
    resolver.wait_addresses("web.svc.acme", &[1, 2]);
    wait("an answer without a document", || {
        site.refresh();
        (server.not_modified() > 0 || server.asked() > 4).then_some(())
    });
    // A really empty one is taken once it was seen twice.
    server.answer(200, "[]");
    site.refresh();
    wait("the zone is empty", || resolver.addresses("web.svc.acme").is_empty().then_some(()));
}

#[test]
fn a_hold_lasts_over_a_restart_and_a_stopped_instance_leaves_at_once() {
    let up: Vec<_> = (1..=3).map(|number| vm(&format!("web{number}"), "acme", number)).collect();
    let mut site = Site::start(&up, "damping = { window = \"1h\", last = \"2h\" }\n");
    let mut resolver = site.resolver();
    resolver.wait_addresses("web.svc.acme", &[1, 2, 3]);
    // All report themselves down: one may leave within the window.
    let down: Vec<_> = up.iter().map(|vm| with(vm.clone(), json!({ "status": "down" }))).collect();
    site.write(&down);
    wait("one has left", || (resolver.addresses("web.svc.acme").len() == 2).then_some(()));
    let status = site.wait_status("two are held", |source| source["counts"]["held"] == 2);
    assert!(status["counts"]["held_since"].is_i64(), "{status}");
    let told = site.daemon.verb(&["lookup", &format!("web.svc.acme.{ZONE}")]).stdout;
    assert!(told.contains("service web: held"), "{told}");
    let serial = resolver.serial().unwrap();
    let before = resolver.addresses("web.svc.acme");
    site.daemon.kill_and_restart(|| {});
    let mut resolver = site.resolver();
    wait("the zone is served again", || resolver.serial());
    site.wait_status("the document is read again", |source| source["reading"] == "current");
    assert_eq!(resolver.addresses("web.svc.acme"), before);
    assert_eq!(resolver.serial(), Some(serial), "nothing has changed");
    site.wait_status("the same are held", |source| source["counts"]["held"] == 2);
    let told = site.daemon.verb(&["status", ZONE]).stdout;
    assert!(told.contains("history from serial "), "differences outlive the process: {told}");
    // The damping is for those that report themselves down only.
    let stopped: Vec<_> = down.iter().map(|vm| with(vm.clone(), json!({ "state": "stopped" }))).collect();
    site.write(&stopped);
    wait("all have left", || resolver.addresses("web.svc.acme").is_empty().then_some(()));
    site.write(&up);
    resolver.wait_addresses("web.svc.acme", &[1, 2, 3]);
}

#[test]
fn what_leaves_together_leaves_in_one_version() {
    let site = Site::start(&[vm("web1", "acme", 1), vm("web2", "acme", 2)], "");
    let mut resolver = site.resolver();
    resolver.wait_addresses("web.svc.acme", &[1, 2]);
    let serial = resolver.serial().unwrap();
    let disabled = with(vm("web1", "acme", 1), json!({ "tags": { "triton.cns.disable": true } }));
    site.write(&[disabled, vm("web2", "acme", 2)]);
    resolver.wait_addresses("web.svc.acme", &[2]);
    assert_eq!(resolver.ask(&format!("web1.inst.acme.{ZONE}"), rtype::A).rcode(), 3);
    assert_eq!(resolver.ask("1.100.51.198.in-addr.arpa.", rtype::PTR).rcode(), 3);
    let told = site.daemon.verb(&["status", ZONE]).stdout;
    assert!(told.contains(&format!("history from serial {serial}: 1 version,")), "{told}");
}

#[test]
fn two_accounts_whose_logins_look_alike_share_no_name() {
    let site = Site::start(&[vm("a1", "jim.smith", 1)], "");
    let mut resolver = site.resolver();
    resolver.wait_addresses("web.svc.jim-smith", &[1]);
    site.write(&[vm("a1", "jim.smith", 1), vm("b1", "jim-smith", 2), vm("c1", "acme", 3)]);
    resolver.wait_addresses("web.svc.acme", &[3]);
    assert_eq!(resolver.addresses("web.svc.jim-smith"), [address(1)], "the first one owns the label");
    assert!(resolver.addresses("b1.inst.jim-smith").is_empty());
    let status = site.wait_status("the conflict is counted", |source| source["counts"]["conflicts"] != 0);
    assert_eq!(status["counts"]["vms"], 3);
}

/// Waits until all secondaries have what the daemon has.
fn compare(site: &Site, zones: &[Dname], secondaries: &mut [Secondary]) {
    let mut own = Client::new(site.daemon.address());
    for (zone, secondary) in zones.iter().flat_map(|zone| secondaries.iter().map(move |secondary| (zone, secondary))) {
        // A hold may end between two looks; then both are looked at again.
        wait(&format!("{} has what we have of {zone}", secondary.name()), || {
            let serial = own.serial(zone)?;
            let theirs = secondary.try_fetch(zone).ok()?;
            let ours = site.daemon.dump(zone)?;
            (secondary.serial(zone) == Some(serial) && difference(&ours, &theirs).is_none()).then_some(())
        });
    }
}

/// Documents that are written, and changes in each.
const ROUNDS: usize = 20;
const CHANGES: usize = 500;

#[test]
fn secondaries_follow_by_differences_over_many_random_changes() {
    let mut random = Random::new(20, 0);
    let mut vms: Vec<_> = (1..=60).map(|number| vm(&format!("i{number}"), "acme", number)).collect();
    let site = Site::start(&vms, "damping = { window = \"1s\", last = \"2s\" }\nconfirm_after = \"1s\"\n");
    let zones = [ZONE, REVERSE].map(Dname::parse);
    let plan = SecondaryPlan::new(site.daemon.address(), &zones.each_ref());
    let mut secondaries = [
        Named::start_secondary(&site.folder, &plan),
        Nsd::start_secondary(&site.folder, &plan),
        Knotd::start_secondary(&site.folder, &plan),
    ];
    site.notify(&secondaries.each_ref().map(Secondary::address));
    for round in 1..=ROUNDS {
        for _ in 0..CHANGES {
            let at = random.below(vms.len());
            let number = 1 + random.below(200) as u8;
            let changed = match random.below(5) {
                0 => json!({ "state": "stopped" }),
                1 => json!({ "status": "down" }),
                2 => json!({ "services": format!("s{}:80", random.below(4)) }),
                3 => json!({ "addresses": [address(number).to_string()] }),
                _ => json!({ "state": "running", "status": "up" }),
            };
            let alias = if random.chance(2) { format!("n{round}x{at}") } else { format!("i{}", at + 1) };
            vms[at] = with(with(vms[at].clone(), changed), json!({ "alias": alias }));
        }
        site.write(&vms);
        site.refresh();
        if round % 5 == 0 {
            compare(&site, &zones, &mut secondaries);
        }
    }
    // Every hold has ended.
    site.wait_status("nothing is held", |source| source["counts"]["held"] == 0);
    compare(&site, &zones, &mut secondaries);
    let sent = site.metric_of("xfr_served_total", &[("zone", ZONE), ("kind", "ixfr"), ("result", "ok")]);
    assert!(sent > Some(3.0), "{sent:?} differences");
}

#[test]
fn a_region_has_what_an_inventory_a_primary_and_a_tree_give() {
    const REGION: &str = "us-west.cns.example.com.";
    let folder = Folder::new();
    let home = folder.subfolder("aggregator");
    write_file(&home.join("inventory.json"), &document(&[vm("web1", "acme", 1)]));
    let other = Dname::parse("us-west-2.cns.example.com.");
    let text = format!(
        "$ORIGIN {other}\n@ 3600 IN SOA ns1.test. hostmaster 7 86400 86400 2592000 30\n@ 3600 IN NS ns1.test.\n\
         web.svc.acme 30 IN A {}\n",
        address(2)
    );
    let primary = Nsd::start(&folder, &[(other, text)]);
    let server = ZooKeeper::start(&folder);
    let nodes = Znodes::connect(&[server.address()]);
    let payload = format!("{{\"type\":\"host\",\"address\":\"{0}\",\"host\":{{\"address\":\"{0}\"}}}}", address(3));
    nodes.create("/com/example/cns/us-west-3/acme/svc/web", payload.as_bytes());
    let mut settings = Settings::new(&format!(
        "[zones.\"us-west-1.cns.example.com\"]\ninventory = \"dc1\"\n\
         [zones.\"us-west-2.cns.example.com\"]\nprimaries = \"{}\"\n\
         [zones.\"us-west-3.cns.example.com\"]\nzookeeper = \"{}\"\n\
         [inventories.dc1]\nfile = \"inventory.json\"\n\
         [aggregations.\"us-west.cns.example.com\"]\nns = [\"ns1.test\"]\n\
         members = [\"us-west-1.cns.example.com\", \"us-west-2.cns.example.com\", \"us-west-3.cns.example.com\"]\n",
        primary.address(),
        server.address()
    ));
    settings.state = Some("state".to_owned());
    let daemon = Aggregator::start_with(&home, &settings);
    let mut client = Client::new(daemon.address());
    let query = Query::new(&Dname::parse(&format!("web.svc.acme.{REGION}")), rtype::A);
    let mut wait_for = |numbers: &[u8]| {
        let mut wanted: Vec<Vec<u8>> = numbers.iter().map(|number| address(*number).octets().to_vec()).collect();
        wanted.sort();
        wait(&format!("the region has {numbers:?}"), || {
            let answer = client.ask(&query).ok()?.answer;
            let mut found: Vec<Vec<u8>> = answer.into_iter().map(|record| record.rdata).collect();
            found.sort();
            (found == wanted).then_some(())
        });
    };
    wait_for(&[1, 2, 3]);
    write_file(&home.join("inventory.json"), &document(&[vm("web1", "acme", 1), vm("web4", "acme", 4)]));
    wait_for(&[1, 2, 3, 4]);
    nodes.delete("/com/example/cns/us-west-3/acme/svc/web");
    wait_for(&[1, 2, 4]);
}

/// The fenced blocks of a language in the tutorial.
fn blocks(language: &str) -> Vec<String> {
    let text = repository_text("docs/inventory.md");
    let begin = format!("```{language}\n");
    text.split(&begin).skip(1).map(|rest| rest.split("```").next().unwrap_or_default().to_owned()).collect()
}

#[test]
fn the_tutorial_leads_to_a_zone() {
    let folder = Folder::new();
    let home = folder.subfolder("tutorial");
    let mut ports = [Port::reserve(), Port::reserve()];
    let (server, metrics) = (ports[0].address(), ports[1].address());
    let place = |text: &str| {
        text.replace("127.0.0.1:5300", &server.to_string()).replace("-p 5300", &format!("-p {}", server.port()))
    };
    let [instances] = &blocks("text")[..] else { panic!("not one block of instances") };
    // A Triton datacenter's services are not here.
    let [plan, ..] = &blocks("toml")[..] else { panic!("no configuration") };
    let [session] = &blocks("console")[..] else { panic!("not one session") };
    write_file(&home.join("inventory.toml"), instances);
    write_file(&home.join("aggregator.toml"), &format!("{}\n[metrics]\nlisten = \"{metrics}\"\n", place(plan)));
    for port in &mut ports {
        port.release();
    }
    let mut daemon = None;
    for step in session.split("$ ").skip(1) {
        let mut lines = step.lines();
        let line = place(lines.next().unwrap_or_default());
        let mut wanted: Vec<&str> = lines.collect();
        wanted.sort();
        let words: Vec<&str> = line.split(' ').collect();
        let program = match words[0] {
            "dig" => program_path("dig"),
            _ => env!("CARGO_BIN_EXE_aggregator").into(),
        };
        let command = || {
            let mut command = std::process::Command::new(&program);
            command.args(&words[1..]).current_dir(&home);
            command
        };
        if words.get(1) == Some(&"run") {
            daemon = Some(Process::start("aggregator", &mut command(), &home.join("log")));
            continue;
        }
        wait(&line, || {
            let output = command().output().expect("the program");
            let said = String::from_utf8_lossy(&output.stdout).into_owned();
            let mut said: Vec<&str> = said.lines().collect();
            said.sort();
            (output.status.success() && (wanted.is_empty() || said == wanted)).then_some(())
        });
    }
    assert!(daemon.is_some(), "the server was started");
}

/// What was good is served over a restart, too, while the document cannot be had.
#[test]
fn a_document_that_is_gone_at_a_restart_removes_nothing() {
    let mut site = Site::start(&[vm("web1", "acme", 1)], "");
    let mut resolver = site.resolver();
    resolver.wait_addresses("web.svc.acme", &[1]);
    let serial = resolver.serial();
    std::fs::remove_file(site.file()).unwrap();
    site.daemon.kill_and_restart(|| {});
    let mut resolver = site.resolver();
    wait("the zone is served again", || resolver.serial());
    site.wait_status("the document is missed", |source| source["reading"] == "failing");
    resolver.wait_addresses("web.svc.acme", &[1]);
    assert_eq!(resolver.serial(), serial);
}

/// Nothing is believed for ever; and nobody who reports an instance brings zones back that have expired.
#[test]
fn zones_expire_when_nothing_is_heard_for_long() {
    let site = Site::start(&[vm("web1", "acme", 1)], "serve_stale = \"12s\"\n");
    let mut resolver = site.resolver();
    resolver.wait_addresses("web.svc.acme", &[1]);
    std::fs::remove_file(site.file()).unwrap();
    let name = format!("web.svc.acme.{ZONE}");
    let is_expired = |resolver: &mut Resolver| resolver.ask(&name, rtype::A).rcode() == 2;
    wait("the zone has expired", || is_expired(&mut resolver).then_some(()));
    let vms: serde_json::Value =
        serde_json::from_str(&site.daemon.verb(&["lookup", &name, "--json"]).stdout).unwrap_or_default();
    let told = vms.to_string();
    let uuid = told.split("\"uuid\":\"").nth(1).and_then(|rest| rest.get(..36)).map(str::to_owned);
    if let Some(uuid) = uuid {
        assert_ne!(site.daemon.verb(&["cns", "report", &uuid, "down"]).code, 0, "it is not served");
    }
    assert!(is_expired(&mut resolver));
    site.write(&[vm("web1", "acme", 1)]);
    wait("it is back", || (resolver.ask(&name, rtype::A).rcode() == 0).then_some(()));
}
