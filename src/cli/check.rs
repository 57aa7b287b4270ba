//! `aggregator check`: checks that the server would start with a configuration.
//!
//! The file is loaded, certificates and secrets are read, and every address is bound for a moment, all at once, so that
//! addresses which exclude one another are found too. Where the control socket of the file answers, the server that
//! runs with it may hold the addresses; those in use are then named in a note instead of refused. It is asked for sets
//! that are too large for resolvers or secondaries under the laws of the file, and what is doubtful about addresses in
//! regions.
//!
//! With `--live` the name servers are asked instead, in `live`.
//!
//! Cost: O(file); opens one or two sockets for each address; what it asks a running server costs that O(names of its
//! regions).

use crate::cli::addresses::find_doubtful_addresses;
use crate::cli::live::check_live;
use crate::cli::{Outcome, block_on, fail, print, print_failed, print_json};
use crate::config::{Config, ConfigErrors, ControlPlan};
use crate::control::{self, Request};
use crate::daemon::descriptors::{Descriptors, Room};
use crate::serve::BindError;
use crate::serve::listener::Listener;
use crate::serve::tls::TlsIdentity;
use crate::serve::udp::UdpListener;
use crate::view::leads::Lead;
use crate::view::sizes::{Audience, SizesReport};
use clap::Args;
use rustix::fs::{Access, access};
use serde::Deserialize;
use serde_json::json;
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;
use tokio::time::timeout;
use wire::name::Name;

/// Advice for a control socket that cannot be made.
const ANOTHER_SOCKET: &str = "choose another: [control] socket = \"PATH\"";

/// Longest wait for each word of a running server, which may hang.
const PATIENCE: Duration = Duration::from_secs(5);

/// Errors, warnings and notes that the check found.
#[derive(Default)]
struct Findings {
    errors: Vec<String>,
    warnings: Vec<String>,
    notes: Vec<String>,
}

/// Options of `check`.
#[derive(Debug, Args)]
pub struct CheckOptions {
    /// Ask the name servers of all zones and regions, and those of their parents, whether they answer alike
    #[arg(long)]
    live: bool,
    /// Only those of this one
    #[arg(long, value_name = "ZONE", requires = "live", value_parser = super::read_name)]
    zone: Option<Name>,
}

/// Checks a file and prints the plan or what is wrong.
pub fn check(path: &Path, options: &CheckOptions, as_json: bool) -> Outcome {
    let config = match Config::load(path) {
        Ok(config) => config,
        Err(errors) if as_json => return print_failed(&json!({ "ok": false, "errors": describe_errors(&errors) })),
        Err(errors) => return Err(errors.into()),
    };
    if options.live {
        return check_live(&config, options.zone.as_ref(), as_json);
    }
    let Findings { errors, warnings, notes } = examine(&config);
    let room = Descriptors::allowed().room(&config);
    let ok = errors.is_empty();
    if as_json {
        let errors: Vec<_> = errors.iter().map(|message| json!({ "message": message })).collect();
        let plan = config.plan_json();
        let found = json!({
            "ok": ok, "errors": errors, "warnings": warnings, "notes": notes, "descriptors": room, "plan": plan
        });
        return if ok { print_json(&found) } else { print_failed(&found) };
    }
    if !ok {
        return Err(fail(errors.join("\n")));
    }
    let told = |kind: &str, texts: &[String]| texts.iter().map(|text| format!("{kind}: {text}\n")).collect::<String>();
    let fits = if room.fits() { describe_room(room) + "\n" } else { String::new() };
    print(&format!("{}{fits}{}{}", config.plan_text(), told("warning", &warnings), told("note", &notes)))
}

/// The errors of a file for programs.
fn describe_errors(errors: &ConfigErrors) -> serde_json::Value {
    let described = errors.0.iter().map(
        |error| json!({ "file": error.path, "line": error.line, "column": error.column, "message": error.message }),
    );
    described.collect()
}

/// Checks what only an attempt can show.
fn examine(config: &Config) -> Findings {
    let mut findings = Findings::default();
    if let Some(plan) = &config.listen.tls
        && let Err(error) = TlsIdentity::load(plan)
    {
        findings.errors.push(format!("{}: {error}", config.path.display()));
    }
    if let Some(folder) = &config.state
        && !is_writable(folder)
    {
        let folder = folder.display();
        findings.notes.push(format!(
            "the state folder {folder} cannot be written by this user; the server would go on and lose its zones at a restart"
        ));
    }
    let room = Descriptors::allowed().room(config);
    if !room.fits() {
        // The service may have another limit.
        findings.warnings.push(format!(
            "{}, fewer than tcp_connections = {}; with this limit the server would serve no more than those: raise it \
             (LimitNOFILE of the service, ulimit -n) or lower tcp_connections",
            describe_room(room),
            room.tcp_connections
        ));
    }
    let running = control::is_answering(&config.control.socket);
    let mut held = Vec::new();
    for error in bind_all(config) {
        if running && error.error.kind() == ErrorKind::AddrInUse {
            held.push(error.address.to_string());
        } else if config.is_optional(error.address, &error.error) {
            findings.notes.push(format!("{error}; the server goes on without this default address"));
        } else {
            findings.errors.push(format!("{}: {error}", config.place_of(error.address)));
        }
    }
    let socket = config.control.socket.display();
    let place = config.path.display();
    if running && held.is_empty() && config.listen.dns.iter().any(|address| address.port() != 0) {
        findings.errors.push(format!("{place}: another server has the control socket {socket}; {ANOTHER_SOCKET}"));
    } else if !running && let Err(error) = try_socket(&config.control) {
        findings.errors.push(format!("{place}: cannot use control socket {socket}: {error}; {ANOTHER_SOCKET}"));
    }
    if !held.is_empty() {
        findings.notes.push(format!(
            "a server runs with the control socket {socket} and is taken to be the one that listens on {}",
            held.join(", ")
        ));
    }
    if running {
        findings.warnings.extend(find_large_sets(config));
        findings.warnings.extend(find_doubtful_addresses(config));
    }
    findings
}

/// A zone or region of the running server; what else it tells of them does not matter here.
#[derive(Deserialize)]
struct Sized {
    #[serde(alias = "region")]
    zone: String,
    sizes: SizesReport,
}

/// Warnings of sets of the running server that would be too large with this file. A server that does not answer, or
/// that is too old to tell, has none.
fn find_large_sets(config: &Config) -> Vec<String> {
    let ask = |request: Request| {
        let socket = &config.control.socket;
        let told = block_on(async { timeout(PATIENCE, control::call(socket, &request)).await.ok()?.ok() });
        told.ok().flatten()
    };
    let Some(mut reply) = ask(Request::Status { zone: None }) else { return Vec::new() };
    let mut warnings = Vec::new();
    for (kind, is_region) in [("regions", true), ("zones", false)] {
        let told: Vec<Sized> = serde_json::from_value(reply.data[kind].take()).unwrap_or_default();
        for Sized { zone, sizes } in told {
            // What the file does not have will not be served with it.
            let Ok(name) = Name::parse(&zone) else { continue };
            if !config.outgoing.contains_key(&name) {
                continue;
            }
            let region = config.regions.iter().find(|region| region.origin == name);
            let sizes = sizes.under(config.answers.get(&name), region.and_then(|region| region.max_set));
            let has_secondaries = config.has_secondaries(&name);
            let told = sizes.beyond_datagrams().consequences(Audience { is_region, has_secondaries });
            let most = sizes.most_records;
            warnings.extend(told.iter().map(|told| format!("{zone}, whose largest set has {most} records: {told}")));
        }
    }
    let leads = ask(Request::Leads).map(|reply| reply.data);
    let leads: Vec<Lead> = leads.and_then(|data| serde_json::from_value(data).ok()).unwrap_or_default();
    let most = |zone: &str| config.answers.get(&Name::parse(zone).ok()?)?.usual.law.max;
    // With this file the zone may be cut as its region is.
    let is_larger = |lead: &&Lead| most(&lead.region).is_some_and(|own| most(&lead.zone).is_none_or(|most| most > own));
    warnings.extend(leads.iter().filter(is_larger).map(Lead::describe));
    warnings
}

/// Describes in words the number of client connections that the limit on open files allows.
fn describe_room(room: Room) -> String {
    let Room { open_files, set_apart, connections, .. } = room;
    format!(
        "the limit on open files is {open_files} here, of which {set_apart} are set apart for everything else: there \
         is room for {connections} connections of clients"
    )
}

/// Checks that the control socket can be made. Leaves nothing behind, such as a folder that belongs to root and that
/// the server's user could not write.
fn try_socket(control: &ControlPlan) -> io::Result<()> {
    let ControlPlan { socket: path, group, mode } = control;
    match path.parent().filter(|folder| !folder.as_os_str().is_empty() && !folder.exists()) {
        Some(folder) if is_writable(folder) => Ok(()),
        Some(_) => Err(ErrorKind::PermissionDenied.into()),
        None => control::bind(path, group.as_deref(), *mode).map(drop),
    }
}

/// Returns true if the folder can be written, or can be made where it does not exist yet.
fn is_writable(folder: &Path) -> bool {
    let there = folder.ancestors().find(|folder| folder.exists()).unwrap_or_else(|| ".".as_ref());
    there.is_dir() && access(there, Access::WRITE_OK | Access::EXEC_OK).is_ok()
}

/// Binds everything that the plan listens on, and lets go of it; one error for each address that cannot be bound.
fn bind_all(config: &Config) -> Vec<BindError> {
    let (mut udp, mut tcp, mut errors) = (Vec::new(), Vec::new(), Vec::new());
    let mut report = |address: SocketAddr, result: std::io::Result<()>| {
        if let Err(error) = result {
            errors.push(BindError { address, error });
        }
    };
    let mut listen = |address| Listener::bind(address).map(|listener| tcp.push(listener));
    for address in &config.listen.dns {
        let bound = UdpListener::bind(*address).map(|listener| udp.push(listener));
        report(*address, bound.and_then(|()| listen(*address)));
    }
    let tls = config.listen.tls.iter().flat_map(|plan| &plan.listen);
    let apis = config.apis.iter().flat_map(|api| &api.listen);
    for address in tls.chain(&config.metrics.listen).chain(apis) {
        report(*address, listen(*address));
    }
    errors
}
