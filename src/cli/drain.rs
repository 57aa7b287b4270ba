//! `aggregator drain`: first what would be lost, then a question, then the order.
//!
//! Without a terminal nobody can answer, so `--yes` is needed there; `--dry-run` ends after the preview.

use super::{MISUSE, fail, print_reply, read_duration, request_reply};
use crate::control::Request;
use clap::Args;
use std::io::{self, BufRead, IsTerminal, Write};
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

/// What is drained, or drained no more.
#[derive(Debug, Args)]
pub struct Target {
    /// The datacenter: its zone, or the first labels of that
    #[arg(value_name = "DC")]
    member: String,
    /// Only in this region
    #[arg(long, value_name = "REGION")]
    zone: Option<String>,
    /// Only owner names that match, relative to the zone, such as web.svc.*
    #[arg(long, value_name = "PATTERN")]
    name: Option<String>,
}

/// The options of `drain`.
#[derive(Debug, Args)]
pub struct DrainOptions {
    #[command(flatten)]
    target: Target,
    /// End by itself after a time such as 2h
    #[arg(long = "for", value_name = "DURATION", value_parser = read_lasting)]
    lasts: Option<Duration>,
    /// Why, for those who see it in status, log and lookup
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
    /// Do it even if a region is left without any data
    #[arg(long)]
    force: bool,
    /// Do not ask
    #[arg(long, conflicts_with = "dry_run")]
    yes: bool,
    /// Only tell what would be lost
    #[arg(long)]
    dry_run: bool,
}

/// Reads how long a drain lasts; one that ends as it begins is a mistake.
fn read_lasting(text: &str) -> Result<Duration, String> {
    let lasts = read_duration(text)?;
    let most = crate::config::MAX_DURATION;
    if lasts.is_zero() || lasts > most { Err("write a time above zero, at most ten years".into()) } else { Ok(lasts) }
}

impl DrainOptions {
    /// The order, or the question what it would do.
    fn request(&self, preview: bool) -> Request {
        let Target { member, zone, name } = &self.target;
        Request::Drain {
            member: member.clone(),
            region: zone.clone(),
            names: name.clone(),
            milliseconds: self.lasts.map(|lasts| u64::try_from(lasts.as_millis()).unwrap_or(u64::MAX)),
            reason: self.reason.clone(),
            force: self.force,
            preview,
        }
    }
}

impl Target {
    /// The order that ends drains.
    pub fn undrain(self) -> Request {
        Request::Undrain { member: self.member, region: self.zone, names: self.name }
    }
}

/// Drains after a preview.
pub fn drain(socket: &Path, options: &DrainOptions, json: bool) -> ExitCode {
    if !options.yes {
        let preview = match request_reply(socket, &options.request(true)) {
            Ok(reply) => reply,
            Err(code) => return code,
        };
        if options.dry_run || !preview.ok {
            return print_reply(preview, json, false);
        }
        if !io::stdin().is_terminal() || json {
            // What was found out is of use all the same.
            let _ = io::stderr().lock().write_all(preview.text.as_bytes());
            super::print_problem("nothing is drained: there is nobody to ask here; write --yes or --dry-run");
            return ExitCode::from(MISUSE);
        }
        match confirm(&preview.text) {
            Ok(true) => {}
            Ok(false) => return fail("nothing is drained"),
            Err(error) => return fail(&format!("nothing is drained: {error}")),
        }
    }
    match request_reply(socket, &options.request(false)) {
        Ok(reply) => print_reply(reply, json, false),
        Err(code) => code,
    }
}

/// Shows a preview and asks; only a clear yes is one.
fn confirm(preview: &str) -> io::Result<bool> {
    let mut output = io::stderr().lock();
    write!(output, "{preview}drain? [y/N] ")?;
    output.flush()?;
    let mut answer = String::new();
    io::stdin().lock().read_line(&mut answer)?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}
