//! `aggregator announce`: announces the configured services on the local link until it is ended.

use crate::cli::{fail, misuse};
use crate::config::Config;
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
    #[arg(long, value_name = "ZONE", value_parser = super::read_name)]
    zone: Option<Name>,
    /// Announce on this interface, by name or address; may be repeated [default: all but loopback]
    #[arg(long, value_name = "INTERFACE")]
    interface: Vec<String>,
}

/// Announces until it is ended.
pub fn run(path: &Path, options: &AnnounceOptions) -> ExitCode {
    let config = match Config::load(path) {
        Ok(config) => config,
        Err(errors) => return fail(&errors.to_string()),
    };
    let is_meant = |zone: &Name| options.zone.as_ref().is_none_or(|only| only == zone);
    let zones = config.services.iter().filter(|plan| is_meant(&plan.zone));
    let announcements = match announce::plan(zones) {
        Ok(announcements) if announcements.is_empty() => {
            return misuse("there is nothing to announce; write services as [[zones.\"ZONE\".openstack]]");
        }
        Ok(announcements) => announcements,
        Err(error) => return fail(&error.to_string()),
    };
    if let Err(error) = log::start(&config.log.level, config.log.format == crate::config::LogFormat::Json, None) {
        return fail(&error.to_string());
    }
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return fail(&format!("cannot start: {error}")),
    };
    let result = runtime.block_on(async {
        let end = end_signal().map_err(|error| error.to_string())?;
        let announced = announce::announce(&announcements, &options.interface, end).await;
        announced.map_err(|error| error.to_string())
    });
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => fail(&error),
    }
}
