//! The plan of a feeder of Triton's, which the configuration makes.
//!
//! Invariant: certificates count when two plans are compared, so that a reload with others in the same file begins anew.

use std::path::PathBuf;
use std::time::Duration;
use url::Url;

/// Services of a datacenter, and how they are asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TritonPlan {
    pub vmapi: Url,
    pub cnapi: Url,
    pub napi: Url,
    /// File with the accounts.
    pub accounts: PathBuf,
    /// File with the certificates that sign the services', and what it holds; none for those of the system.
    pub ca: Option<(PathBuf, String)>,
    /// Time between two listings of all instances, whatever the feed says.
    pub list_every: Duration,
}
