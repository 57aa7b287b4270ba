//! `aggregator cns`: what needs no server for those who come from Triton's CNS: its configuration in our words, and the
//! services that a tag declares.

use crate::cli::{FAILED, Outcome, print, print_failed, print_json};
use crate::log;
use clap::{Args, Subcommand};
use inventory::cns;
use inventory::tag::{self, Service, Services};
use serde_json::{Value, json};
use std::path::PathBuf;
use std::process::ExitCode;

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

/// Carries out the verb.
pub fn run(verb: CnsVerb, json: bool) -> Outcome {
    match verb {
        CnsVerb::Convert(options) => convert(&options, json),
        CnsVerb::Tag { tag } => check_tag(&tag, json),
    }
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
    let (Services { services, .. }, errors) = read_tag(text);
    if json {
        let listed: Vec<Value> = services.iter().map(describe).collect();
        let data = json!({ "ok": errors.is_empty(), "services": listed, "errors": errors });
        return if errors.is_empty() { print_json(&data) } else { print_failed(&data) };
    }
    errors.iter().for_each(|error| log::print(error));
    let lines: Vec<String> = services.iter().flat_map(records).collect();
    let outcome = print(&lines.join("\n"))?;
    Ok(if errors.is_empty() { outcome } else { ExitCode::from(FAILED) })
}

/// Reads a tag: what it declares, and what is wrong with it.
fn read_tag(text: &str) -> (Services, Vec<String>) {
    let services = match tag::parse(text) {
        Ok(services) => services,
        Err(error) => return (Services::default(), vec![format!("{error}; the instance has no services")]),
    };
    let faults = [
        (services.invalid_name, "a name is no service name; that service is left out"),
        (services.invalid_port, "a port is none from 1 to 65535; that port is left out"),
        (services.too_many, "too many services or ports; the rest is left out"),
    ];
    let errors = faults.into_iter().filter(|(is_there, _)| *is_there).map(|(_, text)| text.to_string()).collect();
    (services, errors)
}

/// A service for programs.
fn describe(service: &Service) -> Value {
    let ports: Vec<u16> = service.ports.iter().map(|port| port.port).collect();
    json!({ "name": service.name, "ports": ports })
}

/// The records of a service, with capitals for what the tag does not say.
fn records(service: &Service) -> Vec<String> {
    let name = format!("{}.svc.ACCOUNT.ZONE.", service.name);
    let mut lines = vec![format!("{name} A, AAAA, TXT: addresses and UUIDs of the members")];
    let srv = |port: &tag::Port| format!("{name} SRV 0 10 {} INSTANCE.inst.ACCOUNT.ZONE.", port.port);
    lines.extend(service.ports.iter().map(srv));
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tag_is_explained() {
        let (services, errors) = read_tag("web:8080,frontdoor");
        assert_eq!(errors, Vec::<String>::new());
        let lines: Vec<String> = services.services.iter().flat_map(records).collect();
        assert_eq!(
            lines,
            [
                "web.svc.ACCOUNT.ZONE. A, AAAA, TXT: addresses and UUIDs of the members",
                "web.svc.ACCOUNT.ZONE. SRV 0 10 8080 INSTANCE.inst.ACCOUNT.ZONE.",
                "frontdoor.svc.ACCOUNT.ZONE. A, AAAA, TXT: addresses and UUIDs of the members",
            ]
        );
        assert_eq!(describe(&services.services[0]), json!({ "name": "web", "ports": [8080] }));
        assert_eq!(read_tag("web:0").1, ["a port is none from 1 to 65535; that port is left out"]);
        assert_eq!(read_tag("web, x").1.len(), 1);
    }
}
