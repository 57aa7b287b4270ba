//! What can go wrong with the calls of services.
//!
//! Invariant: every fault has one of a few labels, which are those of metrics.
//!
//! Cost: O(1).

use crate::client::http::HttpError;
use crate::client::ldap::LdapError;
use crate::source::inventory::feeder::Failure;

/// Fault of a call.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    #[error("{0}")]
    Http(#[from] HttpError),
    #[error("{0}")]
    Ldap(#[from] LdapError),
    #[error("answered with something else than what was expected: {0}")]
    Malformed(String),
    #[error("answered about {0}, which was not asked for")]
    Another(String),
    #[error("does not know /vms or /servers; look at the URL")]
    NoService,
}

impl CallError {
    /// The metric label.
    pub fn label(&self) -> &'static str {
        match self {
            CallError::Http(error) => error.label(),
            CallError::Ldap(error) => error.label(),
            CallError::Malformed(_) | CallError::Another(_) => "malformed",
            CallError::NoService => "status",
        }
    }

    /// The failure of a service, by its name.
    pub fn failure(&self, service: &str) -> Failure {
        Failure::new(self.label(), format!("{service} {self}"))
    }
}
