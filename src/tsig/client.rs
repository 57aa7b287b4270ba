//! The side that asks: signing requests, checking responses of one or more messages.
//!
//! Invariant: a message that is refused changes nothing, neither itself nor the chain. So after a forged datagram one may
//! wait on for the true one, as RFC 8945 section 5.4 advises; a connection that brought one is to be closed.
//!
//! Cost: O(bytes), one copy of a MAC's state for each signed message.

use super::key::{Key, Mac};
use super::record::{self, Coverage, Stamp, Tsig, digest_prior, number16};
use super::{FUDGE_SECONDS, TsigError, code, rcode};
use std::sync::Arc;

/// Messages in a row that may lack a signature (RFC 8945 section 5.3.1).
const MAX_UNSIGNED: u32 = 99;

/// Signs a request, which must have a header; it grows by the TSIG record. The chain checks the response.
///
/// The configuration sees to it that no [legacy](super::Algorithm::is_legacy) key comes here.
pub fn sign_request(message: &mut Vec<u8>, key: &Arc<Key>, now: u64) -> Chain {
    let length = message.len();
    let stamp =
        Stamp { time: now, fudge: FUDGE_SECONDS, original_id: number16(message, 0), error: code::NOERROR, other: &[] };
    message.resize(length + record::overhead(key), 0);
    let sealed = record::seal(key, key.begin(), (message, length), &stamp, Coverage::Record);
    let (_, tag) = sealed.expect("room was made, and a request counts few records");
    let mut running = key.begin();
    digest_prior(&mut running, &tag);
    Chain { key: key.clone(), running, started: false, unsigned: 0 }
}

/// Checks the messages of the response to one signed request, in their order.
pub struct Chain {
    key: Arc<Key>,
    /// Has taken the MAC of the request or of the last signed message, and the unsigned messages since.
    running: Mac,
    /// Whether the first message was there.
    started: bool,
    /// Messages since the last signed one.
    unsigned: u32,
}

impl Chain {
    /// Checks the next message, and cuts its TSIG record off. Not all messages of a response must have one, so what
    /// came is certain only when [`Chain::finish`] agrees.
    ///
    /// The id of the message is not looked at: compare it with that of the request.
    pub fn check(&mut self, message: &mut Vec<u8>, now: u64) -> Result<(), TsigError> {
        let Some(start) = record::locate(message)? else { return self.take_unsigned(message) };
        let tsig = record::read(message, start)?;
        if tsig.tag.is_empty() && number16(message, 2) & 15 == rcode::NOTAUTH && tsig.stamp.error != code::NOERROR {
            // RFC 8945 section 5.3.2: a server that cannot use the key says so without signature.
            return Err(peer_error(&tsig));
        }
        if !tsig.is_of(&self.key) {
            return Err(TsigError::OtherKey);
        }
        let coverage = if self.started { Coverage::Timers } else { Coverage::Record };
        tsig.verify(&self.key, self.running.clone(), &message[..start], coverage)?;
        // BADTIME comes with the time of the request, so that the MAC can be checked before the clocks agree.
        if tsig.stamp.error != code::NOERROR {
            return Err(peer_error(&tsig));
        }
        tsig.check_time(now)?;
        self.running = self.key.begin();
        digest_prior(&mut self.running, tsig.tag);
        self.started = true;
        self.unsigned = 0;
        message.truncate(start);
        record::uncount(message);
        Ok(())
    }

    /// Takes a message without signature, which the next signature covers.
    fn take_unsigned(&mut self, message: &[u8]) -> Result<(), TsigError> {
        // RFC 8945 section 5.3.1: the first message is signed.
        if !self.started {
            let rcode = message.get(3).map_or(0, |flags| u16::from(flags & 15));
            return Err(TsigError::Unsigned { rcode });
        }
        if self.unsigned == MAX_UNSIGNED {
            return Err(TsigError::TooManyUnsigned);
        }
        self.unsigned += 1;
        self.running.update(message);
        Ok(())
    }

    /// Says whether the response may end here: with a signed message (RFC 8945 section 5.3.1).
    pub fn finish(&self) -> Result<(), TsigError> {
        if self.started && self.unsigned == 0 { Ok(()) } else { Err(TsigError::UnsignedEnd) }
    }
}

/// The error that a server reports in its record.
fn peer_error(tsig: &Tsig) -> TsigError {
    match tsig.stamp.error {
        code::BADKEY => TsigError::PeerBadKey,
        code::BADSIG => TsigError::PeerBadSignature,
        code::BADTIME => {
            // Without other data, the record's own time is the best guess.
            TsigError::PeerBadTime { now: record::read_time(tsig.stamp.other).unwrap_or(tsig.stamp.time) }
        }
        code::BADTRUNC => TsigError::PeerBadTruncation,
        other => TsigError::PeerOther(other),
    }
}
