//! `aggregator check --live`: checks that all name servers answer alike, and that the parents list them.
//!
//! Works with the configuration alone. What a zone should have comes from it or from the zone's primaries; a server
//! that is behind is asked again after a while, because changes take time.
//!
//! Cost: as the probe's, and up to [`PATIENCE`] where a server is behind.

use crate::cli::paint::{Look, paint};
use crate::cli::{FAILED, Outcome, block_on, fail, print, print_json};
use crate::config::Config;
use crate::discover::unicast::system_servers;
use crate::merge::NsPolicy;
use crate::probe::{Facts, Finding, Prober, Problem, Reply, ServerCheck, Target, ZoneCheck, classify};
use crate::terminal::Stream;
use crate::view::outward::newest;
use crate::view::text::{or_dash, write_table};
use serde_json::json;
use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};
use wire::name::Name;
use wire::serial::Serial;

/// Longest time that a server may be behind, unless `stale_after` is shorter. CNS and those who follow it look every 30
/// seconds.
const PATIENCE: Duration = Duration::from_secs(60);

/// Pause between two questions to a server that is behind.
const PAUSE: Duration = Duration::from_secs(2);

/// Checks the name servers of all zones, or of one, and prints the results; fails if there is any fault.
pub fn check_live(config: &Config, only: Option<&Name>, as_json: bool) -> Outcome {
    let zones: Vec<Name> =
        config.probe.zones.iter().filter(|zone| only.is_none_or(|only| only == *zone)).cloned().collect();
    if let Some(only) = only.filter(|_| zones.is_empty()) {
        return Err(fail(format!("{only} is none of the zones and regions whose name servers are looked at")));
    }
    let checks = block_on(look(config, zones))?;
    let is_well = checks.iter().all(|check| check.findings().next().is_none());
    let printed = if as_json {
        print_json(&json!({ "ok": is_well, "zones": checks }))
    } else {
        print(&paint(&table(&checks), Look::States, Stream::Output))
    };
    if is_well { printed } else { printed.and(Ok(ExitCode::from(FAILED))) }
}

/// Asks everything, and judges. All zones are looked at side by side; the prober sees to it that questions come one
/// after the other.
async fn look(config: &Config, zones: Vec<Name>) -> Vec<ZoneCheck> {
    let prober = Prober::new(config.probe.clone(), system_servers().unwrap_or_default());
    let patience = config.probe.stale_after.map_or(PATIENCE, |allowance| allowance.min(PATIENCE));
    let start = |zone: Name| {
        let expected = expected(config, &zone);
        // No region is signed.
        let is_region = config.regions.iter().any(|region| region.origin == zone);
        tokio::spawn(look_at(prober.clone(), zone, expected, is_region, patience))
    };
    let tasks: Vec<_> = zones.into_iter().map(start).collect();
    let mut checks = Vec::new();
    for task in tasks {
        checks.push(task.await.expect("a look neither panics nor is ended"));
    }
    checks
}

/// Looks at one zone, and waits for those of its servers that are behind.
async fn look_at(
    prober: Arc<Prober>,
    zone: Name,
    (mut wanted, primaries): (Option<Vec<Name>>, Vec<SocketAddr>),
    mut is_unsigned: bool,
    patience: Duration,
) -> ZoneCheck {
    let mut primary = None;
    for address in primaries {
        if let Reply::Authority { serial, ns } = prober.ask_server(address, &zone).await {
            (wanted, primary) = (Some(ns), Some(serial));
            is_unsigned |= prober.is_unsigned(address, &zone).await;
            break;
        }
    }
    let mut facts = prober.examine(Target { zone, wanted, current: None, due: None, is_unsigned }).await;
    facts.due = newest(serials(&facts).chain(primary));
    let Some(due) = facts.due else { return classify(&facts) };
    let start = Instant::now();
    while serials(&facts).any(|serial| due.newer_than(serial)) && start.elapsed() < patience {
        tokio::time::sleep(PAUSE.min(patience)).await;
        for server in facts.hosts.iter_mut().flat_map(|host| &mut host.servers) {
            if matches!(server.reply, Reply::Authority { serial, .. } if due.newer_than(serial)) {
                server.reply = prober.ask_server(server.address, &facts.zone).await;
            }
        }
    }
    classify(&facts)
}

/// The serials that the servers of a zone have.
fn serials(facts: &Facts) -> impl Iterator<Item = Serial> {
    facts.hosts.iter().flat_map(|host| &host.servers).filter_map(|server| match server.reply {
        Reply::Authority { serial, .. } => Some(serial),
        _ => None,
    })
}

/// The NS names that the configuration gives a zone, and the primaries to ask for them if it does not.
fn expected(config: &Config, zone: &Name) -> (Option<Vec<Name>>, Vec<SocketAddr>) {
    let (mut wanted, mut primaries) = (None, Vec::new());
    if let Some(region) = config.regions.iter().find(|region| region.origin == *zone) {
        wanted = match &region.ns {
            NsPolicy::Listed(names) => Some(names.clone()),
            NsPolicy::Intersection | NsPolicy::Union => None,
        };
    } else if let Some(tree) = config.trees.iter().find(|tree| tree.zone() == zone) {
        wanted = Some(tree.zones.ns.clone());
    } else if let Some(made) =
        config.inventories.iter().flat_map(|plan| &plan.forward).find(|made| made.origin == *zone)
    {
        wanted = Some(made.apex.ns.clone());
    } else if let Some(plan) = config.zones.iter().find(|plan| plan.zone == *zone) {
        // One that is reached over TLS answers no plain questions at that port.
        let plain = plan.primaries.iter().filter(|primary| primary.tls.is_none());
        primaries.extend(plain.map(|primary| primary.address));
    }
    (wanted, primaries)
}

/// A line for each server.
fn table(checks: &[ZoneCheck]) -> String {
    let mut rows = vec![["ZONE", "SERVER", "ADDRESS", "SERIAL", "RESULT"].map(str::to_owned)];
    for check in checks {
        for server in &check.servers {
            let name = server.name.as_ref().map_or("parent".to_owned(), Name::to_string);
            let (address, serial) = (or_dash(server.address), or_dash(server.serial));
            rows.push([check.zone.to_string(), name, address, serial, result(server)]);
        }
    }
    let mut text = String::new();
    write_table(&mut text, &rows);
    let found = checks.iter().flat_map(ZoneCheck::findings).map(|(_, finding)| finding.problem);
    let found: BTreeSet<Problem> = found.collect();
    if !found.is_empty() {
        text.push_str("\nwhat to do\n");
    }
    for problem in found {
        text.push_str(&format!("  {}: {}\n", problem.label(), problem.advice()));
    }
    text
}

/// Describes the result of the check of one server.
fn result(server: &ServerCheck) -> String {
    let found = |finding: &Finding| format!("{}: {}", finding.problem.label(), finding.text);
    let found: Vec<String> = server.findings.iter().map(found).collect();
    if found.is_empty() { server.note.clone().unwrap_or_else(|| "ok".to_owned()) } else { found.join("; ") }
}
