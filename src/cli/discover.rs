//! `aggregator discover`: finds the endpoints of a service.
//!
//! Prints the endpoints as URLs, one a line, in the order in which they are to be tried.

use crate::cli::{Failure, NOT_FOUND, Outcome, block_on, fail, misuse, print, print_json};
use crate::discover::{DiscoverError, DiscoveredService, LOCAL, link, unicast};
use crate::log;
use clap::{Args, Subcommand};
use serde_json::json;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;
use wire::dnssd::ServiceType;
use wire::name::Name;

/// Kinds of things to look for.
#[derive(Debug, Subcommand)]
pub enum DiscoverVerb {
    /// An OpenStack service by its type, such as identity, in a domain or on the local link (local)
    Openstack(OpenstackOptions),
}

/// Options of the verb.
#[derive(Debug, Args)]
pub struct OpenstackOptions {
    /// The service type, such as identity or compute
    #[arg(value_name = "TYPE", value_parser = read_kind)]
    kind: ServiceType,
    /// The domain that has the service; "local" asks the local link
    #[arg(value_name = "DOMAIN", value_parser = super::read_name)]
    domain: Name,
    /// Ask this resolver [default: those of /etc/resolv.conf]
    #[arg(long, value_name = "ADDRESS", value_parser = read_server)]
    server: Option<SocketAddr>,
    /// Ask on this interface, by name or address; may be repeated [default: all but loopback]
    #[arg(long, value_name = "INTERFACE")]
    interface: Vec<String>,
    /// Longest wait for an answer
    #[arg(long, value_name = "DURATION", default_value = "5s", value_parser = super::read_duration)]
    timeout: Duration,
}

/// Reads a service type.
fn read_kind(text: &str) -> Result<ServiceType, String> {
    text.parse().map_err(|error| format!("it {error}"))
}

/// Reads the address of a resolver, with or without a port.
pub(super) fn read_server(text: &str) -> Result<SocketAddr, String> {
    let bare = || text.parse::<IpAddr>().map(|address| SocketAddr::new(address, unicast::DNS_PORT));
    text.parse()
        .or_else(|_| bare())
        .map_err(|_| "it is no address; write for example 192.0.2.53 or [2001:db8::53]:53".into())
}

/// Finds and prints.
pub fn discover(verb: DiscoverVerb, json: bool) -> Outcome {
    let DiscoverVerb::Openstack(options) = verb;
    let on_link = options.domain.as_wire() == LOCAL;
    if on_link && options.server.is_some() {
        return Err(misuse("--server means nothing on the local link"));
    }
    if !on_link && !options.interface.is_empty() {
        return Err(misuse("--interface means something on the local link only; the domain of the link is local"));
    }
    let found = block_on(find(&options, on_link))?;
    let found = found.map_err(|error| match error.is_missing() {
        true => Failure { code: NOT_FOUND, text: error.to_string() },
        false => fail(error),
    })?;
    if json {
        let endpoints: Vec<_> = found.iter().map(describe).collect();
        return print_json(&json!({ "type": options.kind, "domain": options.domain, "endpoints": endpoints }));
    }
    let lines: Vec<String> = found.iter().map(|found| found.endpoint.to_string()).collect();
    print(&lines.join("\n"))
}

/// Asks the link or a resolver.
async fn find(options: &OpenstackOptions, on_link: bool) -> Result<Vec<DiscoveredService>, DiscoverError> {
    if on_link {
        return link::discover(&options.kind, &options.interface, options.timeout).await;
    }
    let servers = match options.server {
        Some(server) => vec![server],
        None => unicast::system_servers()?,
    };
    let (found, lost) = unicast::discover(&options.kind, &options.domain, &servers, options.timeout).await?;
    lost.iter().for_each(|error| log::print(&format!("left out: {error}")));
    Ok(found)
}

/// An endpoint for programs.
fn describe(found: &DiscoveredService) -> serde_json::Value {
    let endpoint = &found.endpoint;
    json!({
        "url": endpoint.to_string(),
        "protocol": endpoint.protocol.label(),
        "host": endpoint.host.to_string(),
        "port": endpoint.port,
        "path": endpoint.path,
        "priority": found.priority,
        "weight": found.weight,
    })
}
