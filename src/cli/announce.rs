//! `aggregator announce`: announces the configured services on the local link until it is ended.

use crate::cli::{Outcome, block_on, misuse};
use crate::config::{Config, LogFormat};
use crate::daemon::end_signal;
use crate::discover::announce;
use crate::log;
use clap::Args;
use std::path::Path;
use std::process::ExitCode;
use wire::name::Name;

/// Options of the verb.
#[derive(Debug, Args)]
pub struct AnnounceOptions {
    /// Announce the services of this zone only
    #[arg(long, value_name = "ZONE", value_parser = super::read_name, add = super::complete::zones())]
    zone: Option<Name>,
    /// Announce on this interface, by name or address; may be repeated [default: all but loopback]
    #[arg(long, value_name = "INTERFACE")]
    interface: Vec<String>,
}

/// Announces until it is ended.
pub fn run(path: &Path, options: &AnnounceOptions) -> Outcome {
    let config = Config::load(path)?;
    let is_meant = |zone: &Name| options.zone.as_ref().is_none_or(|only| only == zone);
    let zones = config.services.iter().filter(|plan| is_meant(&plan.zone));
    let announcements = announce::plan(zones)?;
    if announcements.is_empty() {
        return Err(misuse("there is nothing to announce; write services as [[zones.\"ZONE\".openstack]]"));
    }
    log::start(&config.log.level, config.log.format == LogFormat::Json, None)?;
    block_on(async {
        announce::announce(&announcements, &options.interface, end_signal()?).await?;
        Ok(ExitCode::SUCCESS)
    })?
}
