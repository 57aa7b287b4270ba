//! The side that asks: signing requests, checking responses of one or more messages.
//!
//! Invariant: a message that is refused changes nothing, neither itself nor the chain. So after a forged datagram one
//! may wait on for the true one, as RFC 8945 section 5.4 advises; a connection that brought one is to be closed.
//!
//! Cost: O(bytes), one copy of a MAC's state for each signed message.

use super::key::{Key, Mac};
use super::record::{self, Coverage, Stamp, Tsig, digest_prior};
use super::{FUDGE_SECONDS, TsigError, code};
use crate::message::{Header, rcode};
use std::sync::Arc;

/// Messages in a row that may lack a signature (RFC 8945 section 5.3.1).
const MAX_UNSIGNED: u32 = 99;

/// Signs a request, which must have a header; it grows by the TSIG record. The chain checks the response.
///
/// The configuration sees to it that no [legacy](super::Algorithm::is_legacy) key comes here.
pub fn sign_request(message: &mut Vec<u8>, key: &Arc<Key>, now: u64) -> Chain {
    let length = message.len();
    let original_id = Header::read(message).expect("a request has a header").id;
    let stamp = Stamp { time: now, fudge: FUDGE_SECONDS, original_id, error: code::NOERROR, other: &[] };
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
    /// True once the first message has come.
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
        let tsig = record::read(message, start).ok_or(TsigError::Malformed)?;
        if tsig.tag.is_empty() && rcode_of(message) == rcode::NOTAUTH && tsig.stamp.error != code::NOERROR {
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
            return Err(TsigError::Unsigned { rcode: rcode_of(message) });
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

/// The response code of a message; that of one without a whole header is 0.
fn rcode_of(message: &[u8]) -> u16 {
    Header::read(message).map_or(rcode::NOERROR, |header| header.rcode())
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

#[cfg(test)]
mod tests {
    use super::super::tests::{NOW, key, keyring, open, query, respond, seal, transfer};
    use super::super::{Algorithm, Key};
    use super::*;
    use crate::name::Name;

    /// A captured response of 1 signed, 99 unsigned, 1 signed, 2 unsigned, 1 signed messages; its chain and its time.
    fn gaps() -> (Chain, Vec<Vec<u8>>, u64) {
        let mut messages = transfer("gaps.framed");
        let mut request = messages.remove(0);
        let start = record::locate(&request).unwrap().unwrap();
        let time = record::read(&request, start).unwrap().stamp.time;
        request.truncate(start);
        record::uncount(&mut request);
        (sign_request(&mut request, &key(Algorithm::Sha256), time), messages, time)
    }

    #[test]
    fn ninety_nine_messages_may_be_unsigned() {
        let (mut chain, messages, time) = gaps();
        assert_eq!(messages.len(), 104);
        assert_eq!(chain.finish(), Err(TsigError::UnsignedEnd), "nothing came");
        for (index, mut message) in messages.into_iter().enumerate() {
            let before = message.len();
            chain.check(&mut message, time).unwrap();
            let signed = [0, 100, 103].contains(&index);
            assert_eq!(message.len() < before, signed);
            assert_eq!(message[10..12], [0, 0]);
            assert_eq!(chain.finish(), if signed { Ok(()) } else { Err(TsigError::UnsignedEnd) }, "message {index}");
        }
    }

    #[test]
    fn a_hundred_are_too_many() {
        let (mut chain, mut messages, time) = gaps();
        for message in &mut messages[..100] {
            chain.check(message, time).unwrap();
        }
        assert_eq!(chain.check(&mut messages[5], time), Err(TsigError::TooManyUnsigned));
    }

    #[test]
    fn unsigned_messages_are_covered() {
        type Change = fn(&mut Vec<Vec<u8>>);
        let changes: [(&str, Change); 5] = [
            ("changed", |messages| *messages[50].last_mut().unwrap() ^= 1),
            ("lost", |messages| drop(messages.remove(50))),
            ("repeated", |messages| messages[50] = messages[49].clone()),
            ("swapped", |messages| messages.swap(49, 50)),
            ("another id", |messages| messages[50][0] ^= 1),
        ];
        for (what, change) in changes {
            let (mut chain, mut messages, time) = gaps();
            change(&mut messages);
            let results: Vec<_> = messages.iter_mut().map(|message| chain.check(message, time)).collect();
            let wrong = results.iter().position(|result| *result == Err(TsigError::BadSignature)).expect(what);
            assert!(wrong == 100 || (what == "lost" && wrong == 99), "{what}: {wrong}");
            assert!(results[..wrong].iter().all(Result::is_ok), "{what}");
            assert!(chain.finish().is_err(), "{what}");
        }
    }

    #[test]
    fn the_first_message_is_signed() {
        let mut chain = sign_request(&mut query(false), &key(Algorithm::Sha256), NOW);
        let mut refused = respond(&query(false));
        refused[3] = 5;
        assert_eq!(chain.check(&mut refused, NOW), Err(TsigError::Unsigned { rcode: 5 }));
        assert_eq!(chain.check(&mut vec![1, 2, 3], NOW), Err(TsigError::Unsigned { rcode: 0 }));
    }

    #[test]
    fn a_response_belongs_to_its_request() {
        let key = key(Algorithm::Sha384);
        let (mut request, mut earlier) = (query(false), query(false));
        let mut chain = sign_request(&mut request, &key, NOW);
        sign_request(&mut earlier, &key, NOW - 1);
        let response = seal(&mut open(&mut earlier, &keyring(), NOW), respond(&query(false)), NOW);
        assert_eq!(chain.check(&mut response.clone(), NOW), Err(TsigError::BadSignature));
        let mut right = seal(&mut open(&mut request, &keyring(), NOW), respond(&query(false)), NOW);
        assert_eq!(chain.check(&mut right.clone(), NOW + 301).unwrap_err().reason(), "bad_time");
        assert_eq!(chain.check(&mut right.clone(), NOW - 301).unwrap_err().reason(), "bad_time");
        assert_eq!(chain.check(&mut right, NOW + 300), Ok(()), "errors leave the chain as it was");
        assert_eq!(right, respond(&query(false)));
    }

    #[test]
    fn another_key_is_no_answer() {
        let secret = vec![1; 32];
        let keys = ["a.example", "b.example"]
            .map(|name| Arc::new(Key::new(Name::parse(name).unwrap(), Algorithm::Sha256, secret.clone())));
        let mut requests = [query(false), query(false)];
        let mut chain = sign_request(&mut requests[0], &keys[0], NOW);
        sign_request(&mut requests[1], &keys[1], NOW);
        let ring = keys.iter().map(|key| (key.name.clone(), key.clone())).collect();
        let mut response = seal(&mut open(&mut requests[1], &ring, NOW), respond(&query(false)), NOW);
        assert_eq!(chain.check(&mut response, NOW), Err(TsigError::OtherKey));
    }

    #[test]
    fn servers_errors_are_told_apart() {
        let key = key(Algorithm::Sha256);
        let mut request = query(false);
        let mut chain = sign_request(&mut request, &key, NOW);
        let mut refuse = |error, rcode| {
            let mut message = respond(&query(false));
            message[3] = rcode;
            let length = message.len();
            message.resize(length + record::overhead(&key), 0);
            let stamp = Stamp { time: NOW, fudge: 300, original_id: 0x1234, error, other: &[] };
            let names = (key.name.as_wire(), key.algorithm.wire());
            let end = record::append(&mut message, length, names, &stamp, &[]).unwrap();
            message.truncate(end);
            chain.check(&mut message, NOW)
        };
        assert_eq!(refuse(16, 9), Err(TsigError::PeerBadSignature));
        assert_eq!(refuse(17, 9), Err(TsigError::PeerBadKey));
        assert_eq!(refuse(18, 9), Err(TsigError::PeerBadTime { now: NOW }));
        assert_eq!(refuse(22, 9), Err(TsigError::PeerBadTruncation));
        assert_eq!(refuse(23, 9), Err(TsigError::PeerOther(23)));
        assert_eq!(refuse(0, 9), Err(TsigError::MacSize(0)), "no error is no excuse for no MAC");
        assert_eq!(refuse(17, 0), Err(TsigError::MacSize(0)));
    }
}
