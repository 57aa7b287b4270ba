//! Completion of the command line by a shell: verbs, options, and the names of zones.
//!
//! The shell runs this program with the variable `AGGREGATOR_COMPLETE` set: the program then says what may stand at the
//! cursor instead of doing what the line says. What a shell needs to know to do so is written into files for the packages
//! ([`registrations`]).
//!
//! The zones are those of the running server, so that those of catalogs are among them; where none answers, those of the
//! configuration file. Which file and which server is not read from the line, only from the environment and the defaults.
//!
//! Invariants: nothing is changed, and nobody is told why there is nothing to choose from.
//!
//! Cost: a status of the server, O(zones); O(configuration) without one.

use super::{CONFIG_VARIABLE, boot, call, command, find_socket};
use crate::config::Config;
use crate::control::Request;
use crate::control::server::Server;
use clap_complete::engine::{ArgValueCompleter, CompletionCandidate};
use clap_complete::env::{Bash, CompleteEnv, EnvCompleter, Fish, Zsh};
use serde_json::Value;
use std::ffi::OsStr;
use std::io;
use std::path::PathBuf;

/// The variable that asks for what may stand at the cursor.
const VARIABLE: &str = "AGGREGATOR_COMPLETE";

/// The files by which shells complete the command line, each under the name that its shell looks for.
const FILES: [(&str, &dyn EnvCompleter); 3] =
    [("aggregator.bash", &Bash), ("_aggregator", &Zsh), ("aggregator.fish", &Fish)];

/// What zsh has to do beside: it runs a file that it has found by its name when the first Tab asks for the function, which
/// is to answer that, too.
const ZSH_AT_FIRST: &str =
    "if [ \"$funcstack[1]\" = \"_aggregator\" ]; then\n    _clap_dynamic_completer_aggregator \"$@\"\nfi\n";

/// Says what may stand at the cursor, and ends the process, if a shell asks for that.
pub fn complete() {
    CompleteEnv::with_factory(command).var(VARIABLE).complete();
}

/// What each of the shells needs to know, with the name of its file.
pub fn registrations() -> io::Result<Vec<(&'static str, Vec<u8>)>> {
    let write = |(file, shell): (&'static str, &dyn EnvCompleter)| {
        let mut text = Vec::new();
        shell.write_registration(VARIABLE, "aggregator", "aggregator", "aggregator", &mut text)?;
        if shell.is("zsh") {
            text.extend_from_slice(ZSH_AT_FIRST.as_bytes());
        }
        Ok((file, text))
    };
    FILES.into_iter().map(write).collect()
}

/// Completes the names of zones and regions.
pub fn zones() -> ArgValueCompleter {
    ArgValueCompleter::new(|typed: &OsStr| named("", typed))
}

/// Completes the names of regions.
pub fn regions() -> ArgValueCompleter {
    ArgValueCompleter::new(|typed: &OsStr| named("regions", typed))
}

/// The names of one kind, or of all, that begin as typed.
fn named(kind: &str, typed: &OsStr) -> Vec<CompletionCandidate> {
    let Some(typed) = typed.to_str().map(str::to_ascii_lowercase) else { return Vec::new() };
    let mut names = served(kind).unwrap_or_else(|| configured(kind));
    names.retain(|name| name.starts_with(&typed));
    names.sort_unstable();
    names.into_iter().map(CompletionCandidate::new).collect()
}

/// The file that the environment names.
fn named_file() -> Option<PathBuf> {
    std::env::var_os(CONFIG_VARIABLE).map(PathBuf::from)
}

/// The names that the running server has.
fn served(kind: &str) -> Option<Vec<String>> {
    let socket = find_socket(None, named_file().as_deref()).ok()?;
    let reply = call(&Server::Here(socket), &Request::Status { zone: None }).ok().filter(|reply| reply.ok)?;
    let of = |list: &'static str| reply.data[list].as_array().into_iter().flatten();
    let name = |entry: &Value| Some(plain(entry["zone"].as_str()?));
    let zones = of("zones").filter(|_| kind.is_empty());
    Some(zones.chain(of("regions")).filter_map(name).collect())
}

/// The names that the configuration file has.
fn configured(kind: &str) -> Vec<String> {
    let path = named_file().unwrap_or_else(boot::find_file);
    let config = std::fs::read_to_string(&path).ok().and_then(|text| Config::parse(&path, &text).ok());
    let of = |config: &Config| -> Vec<String> {
        let zones = config.source_zones().filter(|_| kind.is_empty());
        let regions = config.regions.iter().map(|region| &region.origin);
        zones.chain(regions).map(|name| plain(&name.to_string())).collect()
    };
    config.as_ref().map(of).unwrap_or_default()
}

/// A name without its last dot, as people write it.
fn plain(name: &str) -> String {
    name.strip_suffix('.').filter(|name| !name.is_empty()).unwrap_or(name).to_owned()
}
