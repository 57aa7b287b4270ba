//! `aggregator register`: the agent that registers a service in ZooKeeper, with Registrar's configuration file.

use crate::cli::{Outcome, misuse, print, print_json};
use crate::log;
use clap::Args;
use registrar::{self, Nodes, Plan};
use serde_json::json;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Options of the verb.
#[derive(Debug, Args)]
pub struct RegisterOptions {
    /// The configuration file, named as Registrar's command line names it: the same as --config
    #[arg(short, long, value_name = "FILE")]
    file: Option<PathBuf>,
    /// Check once, register or remove accordingly, and leave the records to the session timeout
    #[arg(long, conflicts_with_all = ["dry_run", "unregister"])]
    once: bool,
    /// Print what would be written, and connect to nothing
    #[arg(long, conflicts_with = "unregister")]
    dry_run: bool,
    /// Remove this instance's records, whoever registered them
    #[arg(long)]
    unregister: bool,
    /// The last part of the host record's path [default: the name of this machine]
    #[arg(long, value_name = "NAME")]
    hostname: Option<String>,
    /// Say more; twice for everything
    #[arg(short, long, action = clap::ArgAction::Count)]
    verbose: u8,
}

/// Does what the options say.
pub fn register(config: Option<&Path>, options: RegisterOptions, json: bool) -> Outcome {
    let path = match (config, options.file.as_deref()) {
        (Some(path), None) | (None, Some(path)) => path,
        (Some(_), Some(_)) => return Err(misuse("-f and -c name the same thing; write one of them")),
        (None, None) => return Err(misuse("register needs the configuration of the instance; write -f FILE.json")),
    };
    let plan = Plan::load(path, options.hostname)?;
    if options.dry_run {
        plan.config.warnings.iter().for_each(|warning| log::print(&format!("warning: {warning}")));
        return print_nodes(&plan.nodes, json);
    }
    let level = log_level(options.verbose, plan.config.log_level.as_deref());
    log::start(&level, json, None)?;
    if options.unregister {
        registrar::unregister(plan)?;
    } else if options.once {
        registrar::run_once(plan)?;
    } else {
        registrar::run(plan)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns the log level: from the command line, else the file, else the environment, else the operator's default.
fn log_level(verbose: u8, configured: Option<&str>) -> String {
    let environment = || std::env::var("LOG_LEVEL").ok().and_then(|level| registrar::level_of(&level));
    match verbose {
        0 => configured.or_else(environment).unwrap_or("info").to_string(),
        1 => "debug".to_string(),
        _ => "trace".to_string(),
    }
}

/// Prints what would be written, in the order of writing.
fn print_nodes(nodes: &Nodes, as_json: bool) -> Outcome {
    let service = nodes.service.iter().map(|node| ("persistent", node));
    let all: Vec<_> = service.chain(nodes.owned.iter().map(|node| ("ephemeral", node))).collect();
    if as_json {
        let described = all.iter().map(|(mode, node)| json!({ "mode": mode, "path": node.path, "data": node.data }));
        return print_json(&described.collect());
    }
    let lines: Vec<String> = all.iter().map(|(mode, node)| format!("{mode:<10} {} {}", node.path, node.data)).collect();
    print(&lines.join("\n"))
}
