//! Opening of signed requests: the side that answers.
//!
//! Invariants: a request without TSIG record passes untouched and unanswered, and so does a response, for answering
//! those would make loops; only an accepted request gives a signer.
//!
//! Cost: O(records), and O(bytes) of hashing for signed requests with a known key. A rejection allocates.

use super::key::{Keyring, Tag};
use super::record::{self, Coverage, Stamp};
use super::rejection::{Rejection, Verdict};
use super::signer::Signer;
use super::{TsigError, code};
use crate::message::{Header, flag};

//--- Opening ---

/// Result of verifying a request.
pub enum Opened {
    /// It has no TSIG record.
    Unsigned,
    /// Its signature is right. The message now ends at `length`, without the TSIG record.
    Signed { length: usize, signer: Signer },
    /// It is not to be carried out; the rejection writes the response.
    Rejected(Rejection),
}

/// Looks for a TSIG record and checks it, in the order of RFC 8945 section 5.2: place and form, key, MAC, time. Only
/// an accepted request is changed: the count of its additional records.
pub fn open_request(message: &mut [u8], keys: &Keyring, now: u64) -> Opened {
    if Header::read(message).is_none_or(|header| header.has(flag::QR)) {
        return Opened::Unsigned;
    }
    match record::locate(message).map(|found| found.map(|start| open_signed(message, start, keys, now))) {
        Ok(None) => Opened::Unsigned,
        Ok(Some(Ok(opened))) => {
            record::uncount(message);
            opened
        }
        Ok(Some(Err(rejection))) => Opened::Rejected(rejection),
        Err(error) => Opened::Rejected(Rejection { error, verdict: Verdict::Form }),
    }
}

/// Checks the TSIG record that begins at a position.
fn open_signed(message: &[u8], start: usize, keys: &Keyring, now: u64) -> Result<Opened, Rejection> {
    let form = |error| Rejection { error, verdict: Verdict::Form };
    let tsig = record::read(message, start).ok_or_else(|| form(TsigError::Malformed))?;
    let original_id = tsig.stamp.original_id;
    // RFC 8945 section 5.3.2: with a key or MAC that is not right, the response is not signed.
    let unsigned = |error, code| {
        let names = Box::new((tsig.key, tsig.algorithm));
        Rejection { error, verdict: Verdict::Unsigned { code, names, original_id, now } }
    };
    let key = keys.get(tsig.key.as_wire()).filter(|key| tsig.is_of(key));
    let key = key.ok_or_else(|| unsigned(TsigError::UnknownKey, code::BADKEY))?;
    match tsig.verify(key, key.begin(), &message[..start], Coverage::Record) {
        Ok(()) => {}
        Err(TsigError::BadSignature) => return Err(unsigned(TsigError::BadSignature, code::BADSIG)),
        Err(error) => return Err(form(error)),
    }
    let signer = Signer { key: key.clone(), prior: Tag::new(tsig.tag), original_id, coverage: Coverage::Record };
    match tsig.check_time(now) {
        Ok(()) => Ok(Opened::Signed { length: start, signer }),
        Err(error) => {
            let Stamp { time, fudge, .. } = tsig.stamp;
            Err(Rejection { error, verdict: Verdict::Time { signer: Box::new(signer), time, fudge, now } })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{NOW, key, keyring, open, query, reject, respond, seal, signed};
    use super::super::{Algorithm, sign_request};
    use super::*;

    #[test]
    fn macs_may_be_cut_to_half_but_not_below_ten() {
        for algorithm in Algorithm::ALL {
            let whole = algorithm.tag_bytes();
            let shortest = [10, 10, 16, 24, 32][algorithm as usize];
            for octets in 0..=whole + 1 {
                let mut request = signed(algorithm, false);
                let size = request.len() - 6 - whole - 2;
                let tag: Vec<u8> = request[size + 2..size + 2 + whole].iter().copied().chain([0]).collect();
                request.splice(size..size + 2 + whole, [0, octets as u8].into_iter().chain(tag[..octets].to_vec()));
                let rdata = size - 10 - algorithm.wire().len();
                request[rdata + 1] = (algorithm.wire().len() + 16 + octets) as u8;
                if (shortest..=whole).contains(&octets) {
                    let mut opened = request.clone();
                    let signer = open(&mut opened, &keyring(), NOW);
                    assert_eq!(opened, query(false));
                    assert_eq!(*signer.prior, tag[..octets], "the response covers what was sent");
                    request[size + 2] ^= 1;
                    assert_eq!(reject(&request, &keyring(), NOW).error, TsigError::BadSignature);
                } else {
                    let rejection = reject(&request, &keyring(), NOW);
                    assert_eq!(rejection.error, TsigError::MacSize(octets), "{algorithm} {octets}");
                    assert_eq!(rejection.rcode(), 1);
                }
            }
        }
    }

    #[test]
    fn what_is_not_signed_or_no_request_passes() {
        let mut answer = signed(Algorithm::Sha256, false);
        answer[2] |= 0x80;
        let mut torn = signed(Algorithm::Sha256, true);
        torn.truncate(40);
        for message in [vec![], vec![0; 11], query(false), query(true), respond(&query(true)), answer, torn] {
            let mut opened = message.clone();
            assert!(matches!(open_request(&mut opened, &keyring(), NOW), Opened::Unsigned), "{message:?}");
            assert_eq!(opened, message);
        }
    }

    #[test]
    fn every_message_continues_the_chain() {
        let mut request = query(false);
        let mut chain = sign_request(&mut request, &key(Algorithm::Sha1), NOW);
        let mut signer = open(&mut request, &keyring(), NOW);
        let mut messages: Vec<_> = (0..5).map(|at| seal(&mut signer, respond(&query(at == 3)), NOW + at)).collect();
        for message in &mut messages {
            chain.check(message, NOW).unwrap();
        }
        assert_eq!(chain.finish(), Ok(()));
        assert_eq!(chain.check(&mut messages[4].clone(), NOW), Ok(()), "without a record it is one of the 99");
        assert_eq!(chain.finish(), Err(TsigError::UnsignedEnd));
    }
}
