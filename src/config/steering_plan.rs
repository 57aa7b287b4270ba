//! Clients and steering in the plan, as text and as JSON.
//!
//! Cost: O(homes + names with exceptions).

use crate::acl::Prefix;
use crate::config::Config;
use crate::merge::AnswersPlan;
use crate::select::{Prefer, Services, Steering};
use serde_json::{Map, Value, json};
use settings::units::format_duration;
use std::fmt::{self, Write};
use std::path::PathBuf;
use wire::name::Name;

/// The homes with the number of their prefixes, and the file of these.
fn homes(config: &Config) -> impl Iterator<Item = (&Name, usize, Option<&PathBuf>)> {
    let counts = config.clients.prefixes_by_home();
    let files = config.client_files.iter().map(Option::as_ref);
    config.clients.homes().iter().zip(counts).zip(files).map(|((home, count), file)| (home, count, file))
}

/// Writes whose clients are known.
pub fn write_clients(config: &Config, out: &mut impl Write) -> fmt::Result {
    if !config.clients.homes().is_empty() {
        writeln!(out, "\nclients")?;
    }
    for (home, count, file) in homes(config) {
        let plural = if count == 1 { "" } else { "es" };
        match file {
            None => writeln!(out, "  {home} {count} prefix{plural}")?,
            // Of a text that is no file.
            Some(file) if count == 0 => writeln!(out, "  {home} prefixes in {}", file.display())?,
            Some(file) => writeln!(out, "  {home} {count} prefix{plural} in {}", file.display())?,
        }
    }
    Ok(())
}

/// Describes whose clients are known.
pub fn describe_clients(config: &Config) -> Value {
    homes(config).map(|(home, count, file)| json!({ "home": home, "prefixes": count, "file": file })).collect()
}

/// Writes to which members a region's clients are led, and which addresses are for those at home.
pub fn write_steering(plan: &AnswersPlan, out: &mut impl Write) -> fmt::Result {
    if plan.steers() {
        writeln!(out, "    clients get {}", describe(plan.usual.steering))?;
        for (pattern, treatment) in plan.names.iter().filter(|(_, own)| own.steering != plan.usual.steering) {
            writeln!(out, "    clients of {pattern} get {}", describe(treatment.steering))?;
        }
        if let Some(pause) = plan.stale_after {
            writeln!(out, "    members come last after {} without contact", format_duration(pause))?;
        }
    }
    for (home, members) in &plan.near {
        let members: Vec<String> = members.iter().map(Name::to_string).collect();
        writeln!(out, "    nearest to {home} {}", members.join(", "))?;
    }
    if !plan.weights.is_empty() {
        let weights: Vec<String> = plan.weights.iter().map(|(member, weight)| format!("{member} {weight}")).collect();
        writeln!(out, "    weights for clients without home {}", weights.join(", "))?;
    }
    if !plan.home_only.is_empty() {
        writeln!(out, "    addresses only for clients at home {}", list(&plan.home_only).join(", "))?;
    }
    for (member, prefixes) in &plan.members_home_only {
        writeln!(out, "    addresses of {member} only for its clients {}", list(prefixes).join(", "))?;
    }
    Ok(())
}

/// Describes what clients get.
fn describe(Steering { prefer, at_least, services }: Steering) -> String {
    let records = match (prefer, at_least) {
        (Prefer::Off, _) => return "all members' records alike".to_owned(),
        (Prefer::Order, _) => "the nearest member's records first".to_owned(),
        (Prefer::Nearest, 1) => "the nearest member's records alone".to_owned(),
        (Prefer::Nearest, least) => format!("the nearest member's records, others' below {least}"),
    };
    match services {
        Services::Select => records,
        Services::Priority => format!("{records}, SRV records with priorities"),
    }
}

/// Describes how clients are steered.
pub fn describe_steering(Steering { prefer, at_least, services }: Steering) -> Value {
    json!({ "prefer": prefer, "at_least": at_least, "srv": services })
}

/// Adds to which members a region's clients are led to its description, and which addresses are for those at home to that
/// of its addresses.
pub fn add_steering(plan: &AnswersPlan, region: &mut Value) {
    region["steering"] = describe_steering(plan.usual.steering);
    region["steering"]["stale_after"] = json!(plan.stale_after.map(|pause| pause.as_secs_f64()));
    region["near"] =
        plan.near.iter().map(|(home, members)| (home.to_string(), json!(members))).collect::<Map<_, _>>().into();
    region["weights"] =
        plan.weights.iter().map(|(member, weight)| (member.to_string(), json!(weight))).collect::<Map<_, _>>().into();
    region["addresses"]["home_only"] = json!(list(&plan.home_only));
    for (member, prefixes) in &plan.members_home_only {
        region["addresses"]["members"][member.to_string()]["home_only"] = json!(list(prefixes));
    }
}

/// Prefixes as texts.
fn list(prefixes: &[Prefix]) -> Vec<String> {
    prefixes.iter().map(Prefix::to_string).collect()
}
