//! `aggregator rollback`: takes a region back to the contents of an earlier version, and releases it again.

use super::Outcome;
use super::ask::{self, Asking};
use crate::control::server::Server;
use crate::control::{Request, RollbackOrder};
use clap::Args;

/// The options of `rollback`.
#[derive(Debug, Args)]
pub struct RollbackOptions {
    /// The region
    #[arg(add = super::complete::regions())]
    zone: String,
    /// The serial of the version that has the contents; "aggregator history" lists them
    #[arg(long, value_name = "SERIAL", value_parser = super::read_serial, required_unless_present = "release", conflicts_with = "release")]
    to: Option<u32>,
    /// Let the region follow its members again
    #[arg(long)]
    release: bool,
    /// Reason, shown by status, log and lookup
    #[arg(long, value_name = "TEXT", conflicts_with = "release")]
    reason: Option<String>,
    #[command(flatten)]
    asking: Asking,
}

impl RollbackOptions {
    /// The order, or the question what it would do.
    fn request(&self, preview: bool) -> Request {
        let zone = self.zone.clone();
        match self.to {
            Some(to) => Request::Rollback(RollbackOrder { zone, to, reason: self.reason.clone(), preview }),
            None => Request::Release { zone, preview },
        }
    }
}

/// Rolls a region back, or releases it, after a preview.
pub fn rollback(server: &Server, options: &RollbackOptions, json: bool) -> Outcome {
    let words = match options.to {
        Some(_) => ("roll back", "nothing is rolled back"),
        None => ("release", "nothing is released"),
    };
    ask::carry_out(server, &options.asking, json, |preview| options.request(preview), |_| String::new(), words)
}
