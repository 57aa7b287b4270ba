//! `aggregator check --live`: do all name servers answer alike, and as the parents list them?
//!
//! Works with the configuration alone. What a zone should have comes from it or from the zone's primaries; a server that is behind
//! is asked again after a while, because changes take time.
//!
//! Cost: as the probe's, and [`PAUSE`] where a server is behind.

use crate::cli::paint::{Look, paint};
use crate::cli::{FAILED, fail, print, print_json};
use crate::config::Config;
use crate::daemon::write_table;
use crate::discover::unicast::system_servers;
use crate::merge::NsPolicy;
use crate::name::Name;
use crate::probe::{Facts, Finding, Prober, Reply, ServerCheck, Target, ZoneCheck, classify};
use crate::serial::Serial;
use crate::terminal::Stream;
use serde_json::json;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

/// How long a server that is behind may take.
const PAUSE: Duration = Duration::from_secs(5);

/// Looks at all zones, or at one, and prints what was found; fails when anything is wrong.
pub fn check_live(config: &Config, only: Option<&Name>, as_json: bool) -> ExitCode {
    let zones: Vec<Name> =
        config.probe.zones.iter().filter(|zone| only.is_none_or(|only| only == *zone)).cloned().collect();
    if let Some(only) = only.filter(|_| zones.is_empty()) {
        return fail(&format!("{only} is none of the zones and regions whose name servers are looked at"));
    }
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return fail(&format!("cannot start: {error}")),
    };
    let checks = runtime.block_on(look(config, zones));
    let is_well = checks.iter().all(|check| check.findings().next().is_none());
    let printed = if as_json {
        print_json(&json!({ "ok": is_well, "zones": checks }))
    } else {
        print(&paint(&table(&checks), Look::States, Stream::Output))
    };
    if is_well { printed } else { ExitCode::from(FAILED) }
}

/// Asks everything, and judges.
async fn look(config: &Config, zones: Vec<Name>) -> Vec<ZoneCheck> {
    let prober = Prober::new(config.probe.clone(), system_servers().unwrap_or_default());
    let mut all = Vec::new();
    for zone in zones {
        let target = describe(config, &prober, zone).await;
        let primary = target.due;
        let mut facts = prober.examine(Target { due: None, ..target }).await;
        let serials = serials(&facts).chain(primary);
        facts.due = serials.reduce(|newest, serial| if serial.newer_than(newest) { serial } else { newest });
        all.push(facts);
    }
    let is_behind = |facts: &Facts| facts.due.is_some_and(|due| serials(facts).any(|serial| due.newer_than(serial)));
    if all.iter().any(is_behind) {
        tokio::time::sleep(PAUSE).await;
    }
    for facts in all.iter_mut().filter(|facts| is_behind(facts)) {
        for server in facts.hosts.iter_mut().flat_map(|host| &mut host.servers) {
            let is_old = |serial: Serial| facts.due.is_some_and(|due| due.newer_than(serial));
            if matches!(server.reply, Reply::Authority { serial, .. } if is_old(serial)) {
                server.reply = prober.ask_server(server.address, &facts.zone).await;
            }
        }
    }
    all.iter().map(classify).collect()
}

/// The serials that the servers of a zone have.
fn serials(facts: &Facts) -> impl Iterator<Item = Serial> {
    facts.hosts.iter().flat_map(|host| &host.servers).filter_map(|server| match server.reply {
        Reply::Authority { serial, .. } => Some(serial),
        _ => None,
    })
}

/// What a zone should have: by the configuration, or as its primaries say.
async fn describe(config: &Config, prober: &Arc<Prober>, zone: Name) -> Target {
    let (mut wanted, mut due) = (None, None);
    if let Some(region) = config.regions.iter().find(|region| region.origin == zone) {
        wanted = match &region.ns {
            NsPolicy::Listed(names) => Some(names.clone()),
            NsPolicy::Intersection | NsPolicy::Union => None,
        };
    } else if let Some(tree) = config.trees.iter().find(|tree| *tree.zone() == zone) {
        wanted = Some(tree.zones.ns.clone());
    } else if let Some(plan) = config.zones.iter().find(|plan| plan.zone == zone) {
        for primary in &plan.primaries {
            if let Reply::Authority { serial, ns } = prober.ask_server(primary.address, &zone).await {
                (wanted, due) = (Some(ns), Some(serial));
                break;
            }
        }
    }
    Target { zone, wanted, current: None, due }
}

/// A line for each server.
fn table(checks: &[ZoneCheck]) -> String {
    let mut rows = vec![["ZONE", "SERVER", "ADDRESS", "SERIAL", "RESULT"].map(str::to_owned)];
    for check in checks {
        for server in &check.servers {
            let name = server.name.as_ref().map_or("parent".to_owned(), Name::to_string);
            let address = server.address.map_or("-".to_owned(), |address| address.to_string());
            let serial = server.serial.map_or("-".to_owned(), |serial| serial.to_string());
            rows.push([check.zone.to_string(), name, address, serial, result(server)]);
        }
    }
    let mut text = String::new();
    write_table(&mut text, &rows);
    text
}

/// What was found about one server.
fn result(server: &ServerCheck) -> String {
    let is_silent = server.findings.is_empty() && server.serial.is_none() && server.name.is_some();
    if is_silent {
        return "not asked: no way to such addresses from here".to_owned();
    }
    let found = |finding: &Finding| format!("{}: {}", finding.problem.label(), finding.text);
    let found: Vec<String> = server.findings.iter().map(found).collect();
    if found.is_empty() { "ok".to_owned() } else { found.join("; ") }
}
