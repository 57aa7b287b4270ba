//! Rules, alerts and dashboard of deploy/: read by promtool, and by a real Prometheus that scrapes two replicas of our daemon.
//!
//! Every alert that a test can cause is caused, and must fire for the right zone, region or replica, with no other than those
//! that share its cause. The rules are the real files; only their times are shortened, by the table [`SHORTER`].

mod harness;
#[path = "monitoring/world.rs"]
mod world;

use harness::*;
use serde_json::Value;
use std::collections::BTreeSet;
use std::process::Command;
use std::time::Duration;
use world::{PATIENCE, Plan, REGION, World, ZONES, zone_records};

/// Alerts that come with a datacenter that is cut off, besides those that a test waits for.
const CUT_OFF: [&str; 3] = ["CnsTransferFailing", "CnsTransferErrors", "CnsPrimaryFailing"];

//--- The files ---

/// All alerting rules of the real file.
fn alert_rules() -> Vec<Value> {
    let [file] = &read_yaml("deploy/prometheus/alerts.yml")[..] else { panic!("one document") };
    let groups = file["groups"].as_array().expect("groups");
    groups.iter().flat_map(|group| group["rules"].as_array().expect("rules").clone()).collect()
}

/// The text of a field.
fn text<'v>(value: &'v Value, field: &str) -> &'v str {
    value[field].as_str().unwrap_or_else(|| panic!("no {field} in {value}"))
}

#[test]
fn promtool_finds_no_fault_and_its_tests_pass() {
    let promtool = |arguments: &[&str]| {
        let mut command = Command::new(program_path("promtool"));
        run_tool(command.args(arguments).current_dir(repository_file("deploy/prometheus")))
    };
    assert!(promtool(&["check", "rules", "--lint=all", "--lint-fatal", "rules.yml", "alerts.yml"]).contains("SUCCESS"));
    assert!(promtool(&["check", "config", "prometheus.yml"]).contains("SUCCESS"));
    assert!(promtool(&["test", "rules", "tests.yml"]).contains("SUCCESS"));
}

#[test]
fn every_alert_has_a_unit_test_a_runbook_and_a_severity() {
    let [tests] = &read_yaml("deploy/prometheus/tests.yml")[..] else { panic!("one document") };
    let groups = tests["tests"].as_array().expect("tests").iter();
    let cases = groups.filter_map(|group| group["alert_rule_test"].as_array()).flatten();
    let fired = cases.filter(|case| case["exp_alerts"].as_array().is_some_and(|alerts| !alerts.is_empty()));
    let fired: BTreeSet<&str> = fired.map(|case| text(case, "alertname")).collect();
    let runbooks = repository_text("docs/runbooks.md");
    let chapters: BTreeSet<&str> = runbooks.lines().filter_map(|line| line.strip_prefix("## ")).collect();
    let rules = alert_rules();
    let names: BTreeSet<&str> = rules.iter().map(|rule| text(rule, "alert")).collect();
    assert_eq!(fired, names, "unit tests");
    assert_eq!(chapters, names, "chapters of docs/runbooks.md");
    for rule in &rules {
        let (name, annotations) = (text(rule, "alert"), &rule["annotations"]);
        // The anchor that a chapter's title gets on the usual sites.
        assert_eq!(text(annotations, "runbook"), format!("docs/runbooks.md#{}", name.to_lowercase()));
        assert!(!text(annotations, "summary").is_empty() && !text(annotations, "description").is_empty(), "{name}");
        assert!(["critical", "warning"].contains(&text(&rule["labels"], "severity")), "{name}");
    }
}

/// The names of families in an expression, without what a histogram adds.
fn names_in(expression: &str) -> BTreeSet<String> {
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == ':';
    let words = expression.split(|c: char| !is_name(c)).filter(|word| word.starts_with("aggregator"));
    let bare = |word: &str| {
        let end = ["_bucket", "_sum", "_count"].into_iter().find(|end| word.ends_with(end));
        word[..word.len() - end.map_or(0, str::len)].to_string()
    };
    // The job has the name as well, and matchers have it in quotes.
    words.filter(|word| word.contains(['_', ':'])).map(bare).collect()
}

#[test]
fn rules_use_what_the_program_has() {
    let metrics = aggregator::metrics::Metrics::new();
    let mut known: BTreeSet<String> = metrics.families().iter().map(|family| family.name.clone()).collect();
    let [file] = &read_yaml("deploy/prometheus/rules.yml")[..] else { panic!("one document") };
    let rules = file["groups"][0]["rules"].as_array().expect("rules");
    known.extend(rules.iter().map(|rule| text(rule, "record").to_string()));
    for rule in rules.iter().chain(&alert_rules()) {
        let unknown: Vec<String> =
            names_in(text(rule, "expr")).into_iter().filter(|name| !known.contains(name)).collect();
        assert_eq!(unknown, Vec::<String>::new(), "{rule}");
    }
}

//--- Alerts that fire ---

#[test]
fn a_datacenter_that_is_cut_off_fires_for_its_zone_and_replica() {
    let world = World::start(&Plan::default());
    world.relays[0][0].cut(true);
    let alert = world.wait_firing("CnsTransferFailing", &[("zone", ZONES[0]), ("instance", &world.instance(0))]);
    assert!(alert.annotations["summary"].contains("has not been confirmed by any primary for"), "{alert:?}");
    world.wait_firing("CnsTransferErrors", &[("zone", ZONES[0]), ("instance", &world.instance(0))]);
    world.wait_firing("CnsPrimaryFailing", &[("zone", ZONES[0]), ("instance", &world.instance(0))]);
    let firing = world.prometheus.alerts();
    assert!(firing.iter().all(|alert| alert.labels["instance"] == world.instance(0)), "{firing:?}");
    world.assert_only(&CUT_OFF);
    world.relays[0][0].cut(false);
    world.wait_quiet();
}

#[test]
fn name_servers_that_do_not_have_the_region_fire_for_it_and_for_no_zone() {
    let world = World::start(&Plan { probed: true, ..Plan::default() });
    for replica in 0..2 {
        let instance = world.instance(replica);
        // The primary answers for the datacenters' zones, and refuses to for the region.
        for server in ["ns1.example.com.", "ns2.example.com."] {
            let labels = [("zone", REGION), ("problem", "lame"), ("instance", &instance[..])];
            let server = format!("{server} {}", world.relays[replica][0].address());
            world.wait_firing("CnsNameServersInconsistent", &[&labels[..], &[("server", &server)]].concat());
        }
    }
    let firing = world.firing("CnsNameServersInconsistent");
    assert!(firing.iter().all(|alert| alert.labels["zone"] == REGION), "{firing:?}");
    world.assert_only(&["CnsNameServersInconsistent"]);
}

#[test]
fn a_zone_near_its_end_fires_before_it_expires_and_its_region_after() {
    let world = World::start(&Plan { expire: 12, ..Plan::default() });
    (0..2).for_each(|replica| world.relays[replica][0].cut(true));
    world.wait_firing("CnsNearExpiry", &[("zone", ZONES[0]), ("instance", &world.instance(0))]);
    world.wait_firing("CnsNearExpiry", &[("zone", ZONES[0]), ("instance", &world.instance(1))]);
    world.wait_firing("CnsRegionIncomplete", &[("region", REGION), ("state", "expired")]);
    world.wait_firing("CnsZoneNotServed", &[("zone", ZONES[0]), ("state", "expired")]);
    world.assert_only(&[&CUT_OFF[..], &["CnsNearExpiry", "CnsRegionIncomplete", "CnsZoneNotServed"]].concat());
    (0..2).for_each(|replica| world.relays[replica][0].cut(false));
    world.wait_quiet();
}

#[test]
fn a_datacenter_that_was_never_there_fires_for_its_region() {
    let world = World::start(&Plan { missing: true, ..Plan::default() });
    world.wait_firing("CnsRegionIncomplete", &[("region", REGION), ("state", "missing")]);
    world.wait_firing("CnsZoneNotServed", &[("zone", ZONES[0]), ("state", "not-ready")]);
    world.assert_only(&[&CUT_OFF[1..], &["CnsRegionIncomplete", "CnsZoneNotServed"]].concat());
    (0..2).for_each(|replica| world.relays[replica][0].cut(false));
    world.wait_quiet();
}

#[test]
fn a_replica_that_misses_changes_fires_as_behind() {
    let world = World::start(&Plan::default());
    world.relays[1][0].cut(true);
    world.primary.replace_zone(&Dname::parse(ZONES[0]), &zone_records(0, 1100, 20, 2_592_000));
    world.wait_firing("CnsReplicaBehind", &[("region", REGION), ("instance", &world.instance(1))]);
    let behind = world.firing("CnsReplicaBehind");
    assert!(behind.iter().all(|alert| alert.labels["instance"] == world.instance(1)), "{behind:?}");
    world.assert_only(&[&CUT_OFF[..], &["CnsReplicaBehind"]].concat());
    world.relays[1][0].cut(false);
    world.wait_quiet();
}

#[test]
fn a_zone_that_is_held_back_fires_until_it_is_accepted() {
    let world = World::start(&Plan::default());
    world.primary.replace_zone(&Dname::parse(ZONES[0]), &zone_records(0, 1100, 2, 2_592_000));
    for replica in 0..2 {
        world.wait_firing("CnsTransferHeldBack", &[("zone", ZONES[0]), ("instance", &world.instance(replica))]);
    }
    world.assert_only(&["CnsTransferHeldBack", "CnsTransferFailing"]);
    for replica in &world.replicas {
        let output = replica.verb(&["retransfer", ZONES[0], "--accept"]);
        assert_eq!(output.code, 0, "{output:?}");
    }
    world.wait_quiet();
}

#[test]
fn restarts_in_a_row_and_a_replica_that_is_away_fire() {
    let mut world = World::start(&Plan::default());
    let instance = world.instance(0);
    let started = format!("aggregator_started_timestamp_seconds{{instance=\"{instance}\"}}");
    let mut seen = world.prometheus.query(&started)[0].1;
    for _ in 0..3 {
        assert_eq!(world.firing("CnsRestartLoop").len(), 0);
        world.replicas[0].kill_and_restart(|| ());
        seen = wait_until("Prometheus has seen the restart", PATIENCE, || {
            let now = world.prometheus.query(&started).first()?.1;
            (now > seen).then_some(now)
        });
    }
    world.wait_firing("CnsRestartLoop", &[("instance", &instance)]);
    world.assert_only(&["CnsRestartLoop", "CnsAggregatorDown"]);
    let mut stopped = world.replicas.pop().expect("a replica");
    assert!(stopped.stop().success());
    world.wait_firing("CnsAggregatorDown", &[("instance", &world.instance(1))]);
}

#[test]
fn a_mistake_in_the_file_and_a_full_disk_fire() {
    let world = World::start(&Plan::default());
    world.replicas[0].write_plan("[zones]\nmistake\n");
    assert_eq!(world.replicas[0].verb(&["reload"]).code, 1);
    let alert = world.wait_firing("CnsReloadFailed", &[("instance", &world.instance(0))]);
    assert_eq!(alert.labels["result"], "failed");
    world.assert_only(&["CnsReloadFailed"]);
    // No file of the other one may grow any more, which is what a full disk does to it.
    limit_files(world.replicas[1].id(), 0);
    world.primary.replace_zone(&Dname::parse(ZONES[0]), &zone_records(0, 1100, 20, 2_592_000));
    world.wait_firing("CnsStateNotWritten", &[("instance", &world.instance(1))]);
    world.assert_only(&["CnsReloadFailed", "CnsStateNotWritten"]);
    limit_files(world.replicas[1].id(), libc::RLIM_INFINITY);
    wait_until("the state is written again", PATIENCE, || world.firing("CnsStateNotWritten").is_empty().then_some(()));
}

/// Lets no file of a process grow beyond a size.
fn limit_files(process: u32, bytes: u64) {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the structure is valid for both calls, and the process is a child that runs.
    let status = unsafe {
        libc::prlimit(process as i32, libc::RLIMIT_FSIZE, std::ptr::null(), &raw mut limit);
        limit.rlim_cur = bytes.min(limit.rlim_max);
        libc::prlimit(process as i32, libc::RLIMIT_FSIZE, &raw const limit, std::ptr::null_mut())
    };
    assert_eq!(status, 0, "{}", std::io::Error::last_os_error());
}

//--- The dashboard ---

/// Every expression of the dashboard, with the title of its panel.
fn dashboard_queries() -> Vec<(String, String)> {
    let dashboard = repository_text("deploy/grafana/aggregator.json");
    let dashboard: Value = serde_json::from_str(&dashboard).expect("the dashboard is JSON");
    let panels = dashboard["panels"].as_array().expect("panels").iter();
    let mut found = Vec::new();
    for panel in panels.filter(|panel| panel["type"] != "row") {
        let targets = panel["targets"].as_array().unwrap_or_else(|| panic!("no targets in {panel}"));
        assert!(!targets.is_empty(), "{panel}");
        found.extend(targets.iter().map(|target| (text(panel, "title").to_string(), text(target, "expr").to_string())));
    }
    let variables = dashboard["templating"]["list"].as_array().expect("variables").iter();
    let of_queries = variables.filter(|variable| variable["type"] == "query");
    found.extend(
        of_queries.map(|variable| (text(variable, "name").to_string(), text(variable, "definition").to_string())),
    );
    found
}

#[test]
fn every_panel_shows_what_a_real_scrape_has() {
    let world = World::start(&Plan { busy: true, ..Plan::default() });
    let mut serial = 1001..;
    world.give_orders();
    let mut be_busy = || world.be_busy(serial.next().expect("serials"));
    let [rules] = &read_yaml("deploy/prometheus/rules.yml")[..] else { panic!("one document") };
    let recorded = rules["groups"][0]["rules"].as_array().expect("rules").iter();
    let recorded: BTreeSet<String> = recorded.map(|rule| text(rule, "record").to_string()).collect();
    let queries = dashboard_queries();
    assert!(queries.len() > 25, "{}", queries.len());
    for (title, expression) in &queries {
        wait_until(&format!("a scrape has the families of {title}: {expression}"), PATIENCE, || {
            let page = world.replicas[0].metrics();
            let scraped: BTreeSet<String> =
                page.lines().filter(|line| !line.starts_with('#')).flat_map(names_in).collect();
            let is_known = names_in(expression).iter().all(|name| recorded.contains(name) || scraped.contains(name));
            if !is_known {
                be_busy();
            }
            is_known.then_some(())
        });
        if let Some(inside) = expression.strip_prefix("label_values(") {
            let (family, label) = inside.trim_end_matches(')').rsplit_once(", ").expect("family and label");
            let series = world.prometheus.query(family);
            assert!(series.iter().any(|(labels, _)| labels.contains_key(label)), "{expression}: {series:?}");
            continue;
        }
        let expression = expression
            .replace("$__rate_interval", "20s")
            .replace("$instance", ".+")
            .replace("$region", ".+")
            .replace("$zone", ".+");
        assert!(!expression.contains('$'), "{title}: {expression}");
        wait_until(&format!("{title} shows something: {expression}"), Duration::from_secs(40), || {
            let is_shown = !world.prometheus.query(&expression).is_empty();
            if !is_shown {
                be_busy();
            }
            is_shown.then_some(())
        });
    }
}
