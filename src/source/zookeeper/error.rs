//! Errors that end a session or keep one from beginning.
//!
//! Invariant: each reason has a label, so that metrics can tell an ensemble that is away from one that refuses us.

use crate::budget::Excess;
use relay::Fault;
use std::time::Duration;
use zookeeper_client::{Error, SessionState};

/// Reason for the end of a session, or for there being none.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SessionError {
    #[error("cannot be reached, or serves nobody because its ensemble has no majority")]
    Unreachable,
    /// Fault of a server that the library cannot tell, its own reason left out.
    #[error("{fault}{}", advice(.0), fault = .0)]
    Relay(#[from] Fault),
    #[error("no session within {0:?}")]
    Slow(Duration),
    #[error("connection lost")]
    Disconnected,
    #[error("connection lost: {0}")]
    Broken(String),
    #[error("session expired")]
    Expired,
    #[error("authentication failed; look at \"digest\" and at what the ensemble asks of its clients")]
    Authentication,
    #[error("no answer for {0:?}")]
    Stalled(Duration),
    #[error("may not read {0}; look at its ACL and at \"digest\"")]
    Forbidden(String),
    #[error("has no recursive watches, which came with ZooKeeper 3.6; write watches = \"each\"")]
    NoRecursiveWatches,
    #[error("the tree takes more than {0} octets while it is read; raise \"max_bytes\" if it is that large")]
    TreeTooLarge(u64),
    #[error("out of the budget of memory: {0}")]
    Memory(#[from] Excess),
    #[error("{0}")]
    Other(String),
}

/// Advice about a fault, which the agent, whose file has no such key, has no use for.
fn advice(fault: &Fault) -> &'static str {
    match fault {
        Fault::TooLong { .. } | Fault::Children(_) => "; raise \"max_reply\" if that is its tree",
        Fault::Length | Fault::Unasked | Fault::Tls(_) => "",
    }
}

impl SessionError {
    /// All labels, for metrics.
    pub const LABELS: [&'static str; 13] = [
        "unreachable",
        "slow",
        "disconnected",
        "expired",
        "authentication",
        "stalled",
        "forbidden",
        "unsupported",
        "reply-too-long",
        "malformed",
        "tree-too-large",
        "memory",
        "other",
    ];

    /// The metric label.
    pub fn label(&self) -> &'static str {
        let index = match self {
            SessionError::Unreachable | SessionError::Relay(Fault::Tls(_)) => 0,
            SessionError::Slow(_) => 1,
            SessionError::Disconnected | SessionError::Broken(_) => 2,
            SessionError::Expired => 3,
            SessionError::Authentication => 4,
            SessionError::Stalled(_) => 5,
            SessionError::Forbidden(_) => 6,
            SessionError::NoRecursiveWatches => 7,
            SessionError::Relay(Fault::TooLong { .. }) => 8,
            SessionError::Relay(Fault::Length | Fault::Children(_) | Fault::Unasked) => 9,
            SessionError::TreeTooLarge(_) => 10,
            SessionError::Memory(_) => 11,
            SessionError::Other(_) => 12,
        };
        SessionError::LABELS[index]
    }

    /// Returns true if the next session would most likely come to the same, so that it must not begin at once.
    pub fn is_excess(&self) -> bool {
        matches!(self, SessionError::Relay(_) | SessionError::TreeTooLarge(_) | SessionError::Memory(_))
    }
}

impl From<Error> for SessionError {
    fn from(error: Error) -> SessionError {
        match error {
            Error::NoHosts => SessionError::Unreachable,
            Error::ConnectionLoss | Error::SessionMoved | Error::ClientClosed => SessionError::Disconnected,
            Error::SessionExpired | Error::Timeout => SessionError::Expired,
            Error::AuthFailed => SessionError::Authentication,
            Error::Unimplemented => SessionError::NoRecursiveWatches,
            // What the system says of a connection comes in this form.
            Error::Custom(error) => SessionError::Broken(error.to_string()),
            other => SessionError::Other(other.to_string()),
        }
    }
}

impl From<SessionState> for SessionError {
    fn from(state: SessionState) -> SessionError {
        match state {
            SessionState::Expired => SessionError::Expired,
            SessionState::AuthFailed => SessionError::Authentication,
            _ => SessionError::Disconnected,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_those_who_have_the_setting_are_told_of_it() {
        for fault in [Fault::TooLong { announced: 9, limit: 8 }, Fault::Children(9)] {
            assert!(!fault.to_string().contains("max_reply"), "{fault}");
            let error = SessionError::from(fault).to_string();
            assert!(error.contains('9') && error.contains("raise \"max_reply\""), "{error}");
        }
        assert_eq!(SessionError::from(Fault::Unasked).to_string(), Fault::Unasked.to_string());
    }
}
