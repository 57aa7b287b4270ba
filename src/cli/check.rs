//! `aggregator check`: checks a configuration, and whether the server would start with it on this machine.
//!
//! The file is judged for itself, because it may be for another machine. What this machine lacks is told beside it, and
//! is an error with `--here`: files that the configuration names and that cannot be read, the certificate, the control
//! socket, the state folder, and every address, bound for a moment, all at once, so that addresses which exclude one
//! another are found too. A file that can be read and is wrong is a mistake anywhere.
//!
//! Where the control socket of the file answers, the server that runs with it may hold the addresses; those in use are
//! then named in a note instead of refused. It is asked for sets that are too large for resolvers or secondaries under
//! the laws of the file, and what is doubtful about addresses in regions.
//!
//! With `--security` it tells the rights that the server gives up instead, in `security`.
//!
//! With `--against-running` that server tells what it would change with the file. With `--live` the name servers are asked
//! instead, in `live`.
//!
//! Cost: O(file); opens one or two sockets for each address; what it asks a running server costs that O(names of its
//! regions).

use crate::cli::addresses::find_doubtful_addresses;
use crate::cli::live::check_live;
use crate::cli::security;
use crate::cli::{Outcome, block_on, fail, print, print_failed, print_json, send};
use crate::config::problem::{Kind, Problem};
use crate::config::{Config, ConfigError, ConfigErrors, ControlPlan};
use crate::control::server::Server;
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

/// What the check found beside mistakes of the file.
#[derive(Default)]
struct Findings {
    /// What would keep the server from starting on this machine, or would trouble it here.
    here: Vec<Problem>,
    warnings: Vec<Problem>,
    notes: Vec<Problem>,
}

/// Options of `check`.
#[derive(Debug, Args)]
pub struct CheckOptions {
    /// Fail, too, if the server could not start on this machine: with its addresses, ports, files and rights
    #[arg(long, conflicts_with = "live")]
    here: bool,
    /// Tell what the running server would change if it had this file: zones, regions, their names and records
    #[arg(long, conflicts_with_all = ["here", "live"])]
    against_running: bool,
    /// Tell which rights the server gives up on this machine, and what is in force for the one that runs
    #[arg(long, conflicts_with_all = ["here", "live", "against_running"])]
    security: bool,
    /// Ask the name servers of all zones and regions, and those of their parents, whether they answer alike
    #[arg(long)]
    live: bool,
    /// Only those of this one
    #[arg(long, value_name = "ZONE", requires = "live", value_parser = super::read_name, add = super::complete::zones())]
    zone: Option<Name>,
}

/// Checks a file and prints what is wrong, or the plan.
pub fn check(path: &Path, options: &CheckOptions, as_json: bool) -> Outcome {
    let (config, absences) = match load(path) {
        Ok(loaded) => loaded,
        Err(errors) if as_json => {
            let errors: Vec<Problem> = errors.0.iter().map(Problem::mistake).collect();
            return print_failed(&json!({ "ok": false, "errors": errors }));
        }
        Err(errors) => return Err(errors.into()),
    };
    if options.against_running {
        let file = std::path::absolute(path).map_err(fail)?;
        return send(&Server::Here(config.control.socket.clone()), &Request::Forecast { file: Some(file) }, as_json);
    }
    if options.live {
        return check_live(&config, options.zone.as_ref(), as_json);
    }
    if options.security {
        return tell_security(&config, as_json);
    }
    let mut found = examine(&config, absences.is_empty());
    found.here.splice(0..0, absences.iter().map(Problem::absence));
    let room = Descriptors::allowed().room(&config);
    let ok = !(options.here && found.here.iter().any(|problem| problem.kind.stops_start()));
    if as_json {
        let plan = config.plan_json();
        let Findings { here, warnings, notes } = found;
        let told = json!({
            "ok": ok, "errors": [], "warnings": warnings, "notes": notes, "here": here, "descriptors": room, "plan": plan
        });
        return if ok { print_json(&told) } else { print_failed(&told) };
    }
    let fits = if room.fits() { describe_room(room) + "\n" } else { String::new() };
    let told = |kind: &str, told: &[Problem]| told.iter().map(|told| format!("{kind}: {told}\n")).collect::<String>();
    let (stopping, others): (Vec<_>, Vec<_>) = found.here.into_iter().partition(|problem| problem.kind.stops_start());
    let mut text = config.plan_text() + &fits + &told("warning", &found.warnings) + &told("warning: here", &others);
    text += &told("note", &found.notes);
    if ok && !stopping.is_empty() {
        text += &told("warning: here", &stopping);
        text += "note: the file is right; on this machine the server would not start with it, which --here makes an error\n";
    }
    let printed = print(&text);
    if ok {
        printed
    } else {
        printed.and(Err(fail(stopping.iter().map(Problem::to_string).collect::<Vec<_>>().join("\n"))))
    }
}

/// Prints which rights a server gives up, and has given up.
fn tell_security(config: &Config, as_json: bool) -> Outcome {
    let found = security::examine(config);
    let (warnings, notes) = (&found.warnings, &found.notes);
    if as_json {
        let told = found.json();
        return print_json(&json!({
            "ok": true, "errors": [], "warnings": warnings, "notes": notes, "security": told
        }));
    }
    let told = |kind: &str, told: &[Problem]| told.iter().map(|told| format!("{kind}: {told}\n")).collect::<String>();
    print(&(found.text(config) + &told("warning", warnings) + &told("note", notes)))
}

/// Loads a file. Files that it names and that cannot be read here are told beside it: on another machine they may be
/// there.
fn load(path: &Path) -> Result<(Config, Vec<ConfigError>), ConfigErrors> {
    match Config::load(path) {
        Ok(config) => Ok((config, Vec::new())),
        Err(errors) if errors.0.iter().all(|error| error.is_absence) => {
            Ok((Config::parse(path, &settings::read_text(path)?)?, errors.0))
        }
        Err(mut errors) => {
            errors.0.retain(|error| !error.is_absence);
            Err(errors)
        }
    }
}

/// Checks what only an attempt can show. Without the files that the configuration names, its certificate is not looked
/// at.
fn examine(config: &Config, has_files: bool) -> Findings {
    let mut found = Findings::default();
    let dns = config.listen.tls.as_ref().map(TlsIdentity::load);
    let orders = config.control.https.as_ref().map(|https| TlsIdentity::load_for_operators(&https.tls));
    for error in dns.into_iter().chain(orders).filter_map(Result::err).filter(|_| has_files) {
        found.here.push(Problem::new(Kind::Certificate, Some(&config.path), &error.to_string()));
    }
    if let Some(folder) = &config.state
        && !is_writable(folder)
    {
        let folder = folder.display();
        found.here.push(Problem::new(
            Kind::StateFolder,
            None,
            &format!(
                "the state folder {folder} cannot be written by this user, and the server would lose its zones at a \
             restart; let its user write there, or choose another: [state] folder = \"PATH\""
            ),
        ));
    }
    let room = Descriptors::allowed().room(config);
    if !room.fits() {
        // The service may have another limit.
        found.here.push(Problem::new(Kind::OpenFiles, None, &format!(
            "{}, fewer than tcp_connections = {}, and with this limit the server would serve no more than those; raise \
             it (LimitNOFILE of the service, ulimit -n) or lower tcp_connections",
            describe_room(room),
            room.tcp_connections
        )));
    }
    let running = control::is_answering(&config.control.socket);
    let mut held = Vec::new();
    for error in bind_all(config) {
        let place = config.locate_listen(error.address);
        if running && error.error.kind() == ErrorKind::AddrInUse {
            held.push(error.address.to_string());
        } else if config.is_optional(error.address, &error.error) {
            let text = format!("{error}; the server goes on without this default address");
            found.notes.push(Problem::plain(Kind::Address, text));
        } else {
            let path = place.map_or(config.path.as_path(), |(path, ..)| path);
            let problem = Problem::new(Kind::Address, Some(path), &error.to_string());
            found.here.push(problem.at(place.map(|(_, line, column)| (line, column))));
        }
    }
    let socket = config.control.socket.display();
    let unusable =
        |text: &str| Problem::new(Kind::ControlSocket, Some(&config.path), &format!("{text}; {ANOTHER_SOCKET}"));
    if running && held.is_empty() && config.listen.dns.iter().any(|address| address.port() != 0) {
        found.here.push(unusable(&format!("another server has the control socket {socket}")));
    } else if !running && let Err(error) = try_socket(&config.control) {
        found.here.push(unusable(&format!("cannot use control socket {socket}: {error}")));
    }
    if !held.is_empty() {
        found.notes.push(Problem::plain(
            Kind::Address,
            format!(
                "a server runs with the control socket {socket} and is taken to be the one that listens on {}",
                held.join(", ")
            ),
        ));
    }
    if running {
        let large = find_large_sets(config).into_iter().map(|text| Problem::new(Kind::LargeSet, None, &text));
        let doubtful =
            find_doubtful_addresses(config).into_iter().map(|text| Problem::new(Kind::Addresses, None, &text));
        found.warnings.extend(large.chain(doubtful));
    }
    found
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
    let ControlPlan { socket: path, group, mode, .. } = control;
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
    for address in tls.chain(&config.metrics.listen).chain(apis).chain(config.control.https_addresses()) {
        report(*address, listen(*address));
    }
    errors
}
