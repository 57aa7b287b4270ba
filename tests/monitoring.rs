//! Rules, alerts and dashboard of deploy/: read by promtool, and by a real Prometheus that scrapes two replicas of our
//! daemon.
//!
//! The cause of every alert is made to happen, and it must fire for the right zone, region or replica, with no other
//! than those that share its cause. The rules are the real files; only their times are shortened, by the table
//! `SHORTER` in `world.rs`.

#[path = "monitoring/causes.rs"]
mod causes;
mod harness;
#[path = "monitoring/secondary.rs"]
mod secondary;
#[path = "monitoring/world.rs"]
mod world;

use harness::*;
use serde_json::Value;
use std::collections::BTreeSet;
use std::process::Command;
use std::sync::Mutex;
use std::time::Duration;
use world::{PATIENCE, Plan, REGION, World, ZONES};

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

/// Causes of alerts, each with the alerts that must be seen firing for it, and no others.
macro_rules! causes {
    ($($cause:ident: $($alert:literal)+;)+) => {
        const CAUSES: &[Cause] = &[$(Cause { name: stringify!($cause), happen: causes::$cause, alerts: &[$($alert),+] }),+];
    };
}

/// A cause of alerts.
struct Cause {
    name: &'static str,
    /// Makes it happen in a world of its own, and waits for the alerts.
    happen: fn() -> World,
    alerts: &'static [&'static str],
}

causes! {
    a_datacenter_that_is_cut_off_fires_for_its_zone_and_replica:
        "CnsTransferFailing" "CnsTransferErrors" "CnsPrimaryFailing";
    a_zone_near_its_end_fires_before_it_expires_and_its_region_after:
        "CnsNearExpiry" "CnsRegionIncomplete" "CnsZoneNotServed";
    a_datacenter_that_was_never_there_fires_for_its_region_and_for_what_clients_get:
        "CnsRegionIncomplete" "CnsZoneNotServed" "CnsServerFailures";
    a_replica_that_misses_changes_fires_as_behind: "CnsReplicaBehind";
    a_zone_that_is_held_back_fires_until_it_is_accepted: "CnsTransferHeldBack";
    a_catalog_that_lists_in_vain_fires_until_it_does_not: "CnsCatalogRefused" "CnsTransferHeldBack";
    a_datacenter_that_was_set_back_fires_until_it_is_accepted: "CnsPrimariesOlder";
    an_ensemble_that_was_wiped_fires_until_that_is_accepted: "CnsTreeReset";
    a_zone_that_outgrows_the_budget_fires_until_it_fits: "CnsMemoryRefused";
    a_set_that_resolvers_refuse_fires_for_the_zone_that_has_no_law: "CnsLargeSets";
    signatures_near_their_end_fire_until_the_zone_is_signed_anew: "CnsSignaturesExpire";
    a_flood_fires_until_it_is_over: "CnsResponsesLimited";
    a_primary_that_answers_no_questions_fires_until_the_whole_zone_tells: "CnsRecordsInDoubt";
    a_service_that_leaves_home_fires_until_its_home_is_drained: "CnsClientsServedElsewhere";
    an_ensemble_that_ends_fires_for_its_tree_until_it_is_back: "CnsZooKeeperSessionLost";
    an_inventory_that_is_gone_fires_until_it_is_back: "CnsInventoryFailing";
    instances_that_cannot_leave_or_be_judged_fire_and_so_does_an_inventory_that_has_lost_them:
        "CnsInstancesHeld" "CnsInstancesUndecided" "CnsTransferHeldBack";
    a_secondary_that_is_told_nothing_fires_until_it_hears: "CnsSecondaryBehind";
    a_second_builder_fires_until_it_is_gone: "CnsSecondBuilder";
    a_feed_that_is_lost_and_an_instance_that_cannot_be_read_fire: "CnsInventoryIncomplete" "CnsInventoryFeedLost";
    orders_that_one_replica_alone_was_given_fire_until_they_end:
        "CnsDrainForgotten" "CnsPinForgotten" "CnsReplicaSerialsApart";
    members_that_have_no_name_server_in_common_fire_for_their_region: "CnsRegionNameServersUnknown";
    name_servers_that_do_not_have_the_region_fire_for_it_and_for_no_zone: "CnsNameServersInconsistent";
    restarts_in_a_row_and_a_replica_that_is_away_fire: "CnsRestartLoop" "CnsAggregatorDown";
    a_mistake_in_the_file_and_a_full_disk_fire: "CnsReloadFailed" "CnsStateNotWritten";
}

/// Alerts of defects of the program, which nobody can cause from outside.
const WITHOUT_CAUSE: [&str; 2] = ["CnsKeeperStalled", "CnsPanicked"];

/// Worlds at a time for each processor: most of the time is spent waiting for what Prometheus sees, but a world that gets
/// too little of a processor misses answers, and other alerts fire in it.
const WORLDS: usize = 6;

/// Many at once, all or those with a part in their name.
#[test]
fn every_alert_fires_for_its_cause() {
    let rules = alert_rules();
    let names: BTreeSet<&str> = rules.iter().map(|rule| text(rule, "alert")).collect();
    let caused: BTreeSet<&str> = CAUSES.iter().flat_map(|cause| cause.alerts).copied().collect();
    let causable: BTreeSet<&str> = names.into_iter().filter(|name| !WITHOUT_CAUSE.contains(name)).collect();
    assert_eq!(caused, causable, "alerts without a cause, causes without an alert");
    let run = |cause: &Cause| {
        let seen = (cause.happen)().into_seen();
        assert_eq!(seen, cause.alerts.iter().map(|alert| alert.to_string()).collect());
    };
    let wanted = std::env::var("AGGREGATOR_CAUSE").unwrap_or_default();
    let wanted = Mutex::new(CAUSES.iter().filter(|cause| cause.name.contains(&wanted)));
    let take = || wanted.lock().ok()?.next();
    let work = || {
        let mut failed = Vec::new();
        while let Some(cause) = take() {
            let result = std::thread::scope(|scope| {
                let thread = std::thread::Builder::new().name(cause.name.to_string());
                thread.spawn_scoped(scope, || run(cause)).expect("a thread").join()
            });
            failed.extend(result.is_err().then_some(cause.name));
        }
        failed
    };
    let at_once = std::thread::available_parallelism().map_or(1, usize::from) * WORLDS;
    let failed: Vec<&str> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..at_once).map(|_| scope.spawn(work)).collect();
        workers.into_iter().flat_map(|worker| worker.join().expect("a worker")).collect()
    });
    assert_eq!(failed, Vec::<&str>::new(), "what each says stands above, under its name");
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

/// Families of faults that a zone without them does not have, and this world has none of them.
const FAULTS: [&str; 7] = [
    "aggregator_primary_failures",
    "aggregator_transfer_held",
    "aggregator_transfer_regressed",
    "aggregator_memory_refused",
    "aggregator_records_in_doubt",
    "aggregator_doubt_questions_total",
    "aggregator_removals_vetoed_total",
];

#[test]
fn every_panel_shows_what_a_real_scrape_has() {
    let world = World::start(&Plan {
        busy: true,
        probed: true,
        steered: true,
        tree: true,
        inventory: true,
        followed: true,
        ..Plan::default()
    });
    wait_until("both replicas have the region", PATIENCE, || {
        let has_region = |replica: &Aggregator| Client::new(replica.address()).serial(&Dname::parse(REGION)).is_some();
        world.replicas.iter().all(has_region).then_some(())
    });
    world.drain_and_pin();
    world.order(1, &["drain", ZONES[1], "--share", "30%", "--yes"]);
    let mut serial = 1101..;
    let mut be_busy = || world.be_busy(serial.next().expect("serials"));
    let [rules] = &read_yaml("deploy/prometheus/rules.yml")[..] else { panic!("one document") };
    let recorded = rules["groups"][0]["rules"].as_array().expect("rules").iter();
    let recorded: BTreeSet<String> = recorded.map(|rule| text(rule, "record").to_string()).collect();
    let queries = dashboard_queries();
    assert!(queries.len() > 25, "{}", queries.len());
    let is_of_fault = |expression: &str| names_in(expression).iter().any(|name| FAULTS.contains(&&name[..]));
    for (title, expression) in queries.iter().filter(|(_, expression)| !is_of_fault(expression)) {
        wait_until(&format!("a scrape has the families of {title}: {expression}"), PATIENCE, || {
            let pages: String = world.replicas.iter().map(Aggregator::metrics).collect();
            let scraped: BTreeSet<String> =
                pages.lines().filter(|line| !line.starts_with('#')).flat_map(names_in).collect();
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
