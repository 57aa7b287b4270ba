//! Outcome of an announcement, in words for an operator and as the `result` label of the counter.
//!
//! Invariant: every outcome has exactly one label.

use wire::tsig::TsigError;

/// Outcome of an exchange.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotifyOutcome {
    #[error("acknowledged")]
    Acknowledged,
    #[error("no reply")]
    Timeout,
    #[error("cannot send: {0}")]
    Failed(String),
    #[error("no reply with a valid signature: {0}")]
    Signature(TsigError),
    #[error("{}", code_text(*.0))]
    Code(u8),
}

impl NotifyOutcome {
    /// Outcome that a response code means.
    pub(super) fn from_code(code: u8) -> NotifyOutcome {
        if code == 0 { NotifyOutcome::Acknowledged } else { NotifyOutcome::Code(code) }
    }

    /// The metric label.
    pub fn label(&self) -> &'static str {
        match self {
            NotifyOutcome::Acknowledged => "acknowledged",
            NotifyOutcome::Timeout => "timeout",
            NotifyOutcome::Failed(_) => "error",
            NotifyOutcome::Signature(_) => "tsig",
            NotifyOutcome::Code(1) => "formerr",
            NotifyOutcome::Code(2) => "servfail",
            NotifyOutcome::Code(4) => "notimp",
            NotifyOutcome::Code(5) => "refused",
            NotifyOutcome::Code(9) => "notauth",
            NotifyOutcome::Code(_) => "rcode_other",
        }
    }

    /// Returns true if nothing was heard from the address.
    pub(super) fn is_silence(&self) -> bool {
        matches!(self, NotifyOutcome::Timeout | NotifyOutcome::Failed(_))
    }
}

/// Meaning of a response code, for whoever runs the primary.
fn code_text(code: u8) -> String {
    match code {
        1 => "the secondary answered FORMERR: it cannot read the message".to_owned(),
        2 => "the secondary answered SERVFAIL".to_owned(),
        4 => "the secondary answered NOTIMP: it does not take announcements".to_owned(),
        5 => "the secondary answered REFUSED: it takes no announcements from this address, or needs another key"
            .to_owned(),
        9 => "the secondary answered NOTAUTH: it does not serve the zone, or does not know the key".to_owned(),
        other => format!("the secondary answered with response code {other}"),
    }
}
