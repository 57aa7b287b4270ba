//! `aggregator cns`: the inventories of the server as CNS' own tool `cnsadm` tells of them, reports on their instances, and
//! what needs no server for those who come from Triton's CNS: its configuration in our words, and the services that a
//! tag declares.

use crate::cli::{FAILED, Outcome, print, print_failed, print_json, read_duration};
use crate::control::{CnsRequest, Request};
use crate::log;
use crate::view::cns::tag::{ServiceReport, TagReport};
use clap::{Args, Subcommand, ValueEnum};
use inventory::cns;
use serde_json::json;
use std::net::IpAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

/// What is asked for.
#[derive(Debug, Subcommand)]
pub enum CnsVerb {
    /// Print the configuration of Triton's CNS, or that of RFD 1, as sections of a configuration file
    Convert(ConvertOptions),
    /// Check a tag triton.cns.services, and print the names and records that it gives
    Tag {
        /// The tag, such as web:8080,frontdoor
        #[arg(value_name = "TAG")]
        tag: String,
    },
    /// Show the zones of all inventories with their last changes, and what secondaries have of them
    Status,
    /// Show an instance: its names, why they are as they are, and the last report on it
    Vm {
        /// The UUID of the instance
        #[arg(value_name = "UUID")]
        uuid: String,
    },
    /// Show the secondaries of all inventories, or one in detail
    Peers {
        /// The address of a secondary [default: all]
        #[arg(value_name = "ADDRESS")]
        address: Option<IpAddr>,
    },
    /// Show the zones of all inventories as they are configured
    Zones,
    /// Report that an instance is up or down, which counts in place of its metadata, or withdraw the report
    Report(ReportOptions),
    /// Forget an instance and all its records, whatever is unknown of it
    Forget {
        /// The UUID of the instance
        #[arg(value_name = "UUID")]
        uuid: String,
    },
    /// Let the members of a service go that are held in it although they report themselves down
    Release {
        /// The name of the service, such as web.svc.acme.us-west-1.cns.example.com
        #[arg(value_name = "NAME")]
        name: String,
    },
}

/// Options of a report.
#[derive(Debug, Args)]
pub struct ReportOptions {
    /// The UUID of the instance
    #[arg(value_name = "UUID")]
    uuid: String,
    /// What is reported
    #[arg(value_enum)]
    status: Status,
    /// After a time such as 60s without another report the instance is down [default: the report counts until it is withdrawn]
    #[arg(long, value_name = "DURATION", value_parser = read_ttl)]
    ttl: Option<Duration>,
}

/// What is reported of an instance.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Status {
    /// It can serve
    Up,
    /// It cannot
    Down,
    /// Nothing any more: its metadata count again
    None,
}

/// Reads how long a report counts.
fn read_ttl(text: &str) -> Result<Duration, String> {
    let ttl = read_duration(text)?;
    if ttl.is_zero() { Err("write a time above zero".to_owned()) } else { Ok(ttl) }
}

/// Options of the conversion.
#[derive(Debug, Args)]
pub struct ConvertOptions {
    /// The file, such as /opt/triton/cns/etc/config.json
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Name of the inventory [default: the first label of the first zone]
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
}

/// The request that a verb is; what needs no server is carried out at once.
pub fn request(verb: CnsVerb, json: bool) -> Result<Request, Outcome> {
    Ok(Request::Cns(match verb {
        CnsVerb::Convert(options) => return Err(convert(&options, json)),
        CnsVerb::Tag { tag } => return Err(check_tag(&tag, json)),
        CnsVerb::Status => CnsRequest::Status,
        CnsVerb::Vm { uuid } => CnsRequest::Vm { uuid },
        CnsVerb::Peers { address } => CnsRequest::Peers { address: address.map(|address| address.to_string()) },
        CnsVerb::Zones => CnsRequest::Zones,
        CnsVerb::Report(ReportOptions { uuid, status, ttl }) => {
            let status = match status {
                Status::Up => "up",
                Status::Down => "down",
                Status::None => "none",
            };
            let milliseconds = ttl.map(|ttl| u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX));
            CnsRequest::Report { uuid, status: status.to_owned(), milliseconds }
        }
        CnsVerb::Forget { uuid } => CnsRequest::Forget { uuid },
        CnsVerb::Release { name } => CnsRequest::Release { name },
    }))
}

/// Prints a configuration of CNS in our words.
fn convert(options: &ConvertOptions, json: bool) -> Outcome {
    let cns = cns::read(&options.file, &settings::read_text(&options.file)?)?;
    let first = cns.config.forward.first().map(|zone| zone.origin.to_string()).unwrap_or_default();
    let name = options.name.as_deref().unwrap_or_else(|| first.split('.').next().unwrap_or_default());
    let text = cns.to_toml(name);
    if json {
        return print_json(&json!({ "config": text, "warnings": cns.warnings }));
    }
    cns.warnings.iter().for_each(|warning| log::print(warning));
    print(text.trim_end())
}

/// Prints what a tag declares; one with errors fails, and what it declares beside them is printed.
fn check_tag(text: &str, json: bool) -> Outcome {
    let report = TagReport::new(text);
    if json {
        let data = json!(report);
        return if report.ok { print_json(&data) } else { print_failed(&data) };
    }
    report.errors.iter().for_each(|error| log::print(error));
    let lines: Vec<String> = report.services.iter().flat_map(records).collect();
    let outcome = print(&lines.join("\n"))?;
    Ok(if report.ok { outcome } else { ExitCode::from(FAILED) })
}

/// The records of a service, with capitals for what the tag does not say.
fn records(service: &ServiceReport) -> Vec<String> {
    let name = format!("{}.svc.ACCOUNT.ZONE.", service.name);
    let mut lines = vec![format!("{name} A, AAAA, TXT: addresses and UUIDs of the members")];
    let srv = |port: &u16| format!("{name} SRV 0 10 {port} INSTANCE.inst.ACCOUNT.ZONE.");
    lines.extend(service.ports.iter().map(srv));
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_records_of_a_tag_are_told() {
        let lines: Vec<String> = TagReport::new("web:8080,frontdoor").services.iter().flat_map(records).collect();
        assert_eq!(
            lines,
            [
                "web.svc.ACCOUNT.ZONE. A, AAAA, TXT: addresses and UUIDs of the members",
                "web.svc.ACCOUNT.ZONE. SRV 0 10 8080 INSTANCE.inst.ACCOUNT.ZONE.",
                "frontdoor.svc.ACCOUNT.ZONE. A, AAAA, TXT: addresses and UUIDs of the members",
            ]
        );
    }
}
