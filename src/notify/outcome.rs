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
    /// A refusal without the signature that the message asked for (RFC 8945 section 5.4): NSD refuses so.
    #[error("{}; the reply was not signed", code_text(*.0))]
    Unsigned(u8),
    #[error("{}", code_text(*.0))]
    Code(u8),
}

impl NotifyOutcome {
    /// Outcome that a response code means.
    pub(super) fn from_code(code: u8) -> NotifyOutcome {
        if code == 0 { NotifyOutcome::Acknowledged } else { NotifyOutcome::Code(code) }
    }

    /// Outcome of a reply without a valid signature.
    pub(super) fn from_signature(error: TsigError) -> NotifyOutcome {
        match error {
            // Response codes of messages have four bits.
            TsigError::Unsigned { rcode: code @ 1.. } => NotifyOutcome::Unsigned((code & 15) as u8),
            error => NotifyOutcome::Signature(error),
        }
    }

    /// The metric label.
    pub fn label(&self) -> &'static str {
        match self {
            NotifyOutcome::Acknowledged => "acknowledged",
            NotifyOutcome::Timeout => "timeout",
            NotifyOutcome::Failed(_) => "error",
            NotifyOutcome::Signature(_) => "tsig",
            NotifyOutcome::Code(code) | NotifyOutcome::Unsigned(code) => match code {
                1 => "formerr",
                2 => "servfail",
                4 => "notimp",
                5 => "refused",
                9 => "notauth",
                _ => "rcode_other",
            },
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
        9 => "the secondary answered NOTAUTH: it does not serve the zone (one of a catalog: not yet), or does not know the \
              key"
        .to_owned(),
        other => format!("the secondary answered with response code {other}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unsigned_refusal_is_told_as_what_it_is() {
        let refused = NotifyOutcome::from_signature(TsigError::Unsigned { rcode: 9 });
        assert_eq!((refused.label(), refused.is_silence()), ("notauth", false));
        assert!(refused.to_string().contains("NOTAUTH") && refused.to_string().ends_with("was not signed"));
        let unsigned = NotifyOutcome::from_signature(TsigError::Unsigned { rcode: 0 });
        assert_eq!(unsigned.label(), "tsig", "nothing was refused");
    }
}
