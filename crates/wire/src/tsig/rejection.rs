//! Responses to requests that are refused for their signature (RFC 8945 sections 5.2 and 5.3.2).
//!
//! FORMERR goes without TSIG record, BADKEY and BADSIG with one that has no MAC, BADTIME is signed. There are never
//! records that were asked for, so a forged source address gains nothing.
//!
//! Cost: O(records) of the request, and what signing takes.

use super::record::{self, Stamp};
use super::signer::Signer;
use super::{FUDGE_SECONDS, TsigError, code};
use crate::message::{HEADER_BYTES, MIN_UDP_BYTES, Request, Writer, rcode};
use crate::name::NameBuf;
use std::fmt;

/// A request that is not carried out: why, and how to answer it.
pub struct Rejection {
    pub error: TsigError,
    pub(super) verdict: Verdict,
}

/// The forms of a rejection.
pub(super) enum Verdict {
    /// FORMERR, without TSIG record.
    Form,
    /// BADKEY or BADSIG, with a record that has no MAC.
    Unsigned { code: u16, names: Box<(NameBuf, NameBuf)>, original_id: u16, now: u64 },
    /// BADTIME, signed.
    Time { signer: Box<Signer>, time: u64, fudge: u16, now: u64 },
}

impl Rejection {
    /// The response code.
    pub fn rcode(&self) -> u16 {
        match self.verdict {
            Verdict::Form => rcode::FORMERR,
            Verdict::Unsigned { .. } | Verdict::Time { .. } => rcode::NOTAUTH,
        }
    }

    /// The key that the request claims to be signed with, as far as that was read.
    pub fn key(&self) -> Option<&dyn fmt::Display> {
        match &self.verdict {
            Verdict::Form => None,
            Verdict::Unsigned { names, .. } => Some(&names.0),
            Verdict::Time { signer, .. } => Some(signer.key()),
        }
    }

    /// Writes the whole response to the rejected request, question and OPT record included, and returns its length and
    /// response code. 1232 octets hold any; with less room there may be the header alone, or nothing without room for
    /// it.
    pub fn write(&self, request: &[u8], out: &mut [u8]) -> (usize, u16) {
        let rcode = self.rcode();
        let Some(mut request) = Request::parse(request) else { return (0, rcode) };
        if let Some(edns) = &mut request.edns {
            edns.nsid = false;
        }
        let write = |request: &Request, out: &mut [u8]| {
            let limit = out.len();
            Writer::new(out, request, limit, &[]).finish(request, rcode, &[])
        };
        if out.len() >= MIN_UDP_BYTES {
            let length = write(&request, out);
            if let Some(length) = self.append(out, length) {
                return (length, rcode);
            }
        }
        (request.question, request.edns) = (None, None);
        (if out.len() < HEADER_BYTES { 0 } else { write(&request, out) }, rcode)
    }

    /// Appends the TSIG record that goes with the error (RFC 8945 section 5.3.2).
    fn append(&self, out: &mut [u8], length: usize) -> Option<usize> {
        match &self.verdict {
            Verdict::Form => Some(length),
            Verdict::Unsigned { code, names, original_id, now } => {
                let stamp =
                    Stamp { time: *now, fudge: FUDGE_SECONDS, original_id: *original_id, error: *code, other: &[] };
                record::append(out, length, (names.0.as_wire(), names.1.as_wire()), &stamp, &[])
            }
            Verdict::Time { signer, time, fudge, now } => {
                // RFC 8945 section 5.2.3: the client's time and fudge, so that it accepts the MAC; ours beside it.
                let ours = record::time_octets(*now);
                let stamp = Stamp {
                    time: *time,
                    fudge: *fudge,
                    original_id: signer.original_id,
                    error: code::BADTIME,
                    other: &ours,
                };
                (**signer).clone().seal(out, length, &stamp)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{NOW, key, keyring, open, query, reject, respond, signed};
    use super::super::{Algorithm, sign_request};
    use super::*;

    /// The response to a request that is rejected.
    fn response(request: &[u8], now: u64) -> (TsigError, Vec<u8>) {
        let rejection = reject(request, &keyring(), now);
        let mut out = [0xee; 1232];
        let (length, rcode) = rejection.write(request, &mut out);
        assert_eq!(rcode, rejection.rcode());
        (rejection.error, out[..length].to_vec())
    }

    /// Header and question of a response to [`query`].
    fn expected(rcode: u8, additional: u8) -> Vec<u8> {
        let mut message = query(false);
        message[2..4].copy_from_slice(&[0x81, rcode]);
        message[11] = additional;
        message
    }

    /// The OPT record of a response: DO as in the request.
    const OPT: &[u8] = b"\0\0\x29\x04\xd0\0\0\x80\0\0\0";

    #[test]
    fn a_record_in_the_wrong_place_or_form_is_formerr() {
        type Change = fn(&mut Vec<u8>);
        // The TSIG record: owner of 25 octets at 33, type at 58, class, TTL, length, algorithm of 13 octets at 68.
        let changes: [(&str, u8, Change); 12] = [
            ("in the answer section", 0, |request| request.swap(7, 11)),
            ("in the authority section", 0, |request| request.swap(9, 11)),
            ("another record behind", 1, |request| {
                request[11] = 2;
                request.extend_from_slice(OPT);
            }),
            ("two of them", 0, |request| {
                request[11] = 2;
                request.extend_from_within(33..);
            }),
            ("bytes behind", 0, |request| request.push(0)),
            ("class IN", 0, |request| request[60..62].copy_from_slice(&[0, 1])),
            ("a TTL", 0, |request| request[65] = 1),
            ("RDATA too long", 0, |request| {
                request[67] += 1;
                request.push(0);
            }),
            ("RDATA too short", 0, |request| {
                request[67] -= 1;
                request.pop();
            }),
            ("no RDATA", 0, |request| {
                request[67] = 0;
                request.truncate(68);
            }),
            ("a compressed algorithm", 0, |request| {
                request.splice(68..81, [0xc0, 68 - 35]);
                request[67] -= 11;
            }),
            ("a MAC beyond the record", 0, |request| request[90] = 200),
        ];
        for (what, opt, change) in changes {
            let mut request = signed(Algorithm::Sha256, false);
            assert_eq!((request[58..60].to_vec(), request[89..91].to_vec()), (vec![0, 250], vec![0, 32]));
            change(&mut request);
            let (error, response) = response(&request, NOW);
            assert_eq!(error, TsigError::Malformed, "{what}");
            let tail = if opt == 1 { OPT } else { &[] };
            assert_eq!(response, [&expected(1, opt), tail].concat(), "{what}");
        }
    }

    #[test]
    fn unknown_keys_and_wrong_macs_are_refused_without_signature() {
        let mut wrong = signed(Algorithm::Sha256, true);
        wrong[20] ^= 0x20;
        let question = wrong[12..33].to_vec();
        let (error, refused) = response(&wrong, NOW + 5);
        assert_eq!(error, TsigError::BadSignature);
        let names = [key(Algorithm::Sha256).name.as_wire(), b"\0\xfa\0\xff\0\0\0\0\0\x1d\x0bhmac-sha256\0"].concat();
        let time = &(NOW + 5).to_be_bytes()[2..];
        let record = [&names, time, b"\x01\x2c\0\0\x12\x34\0\x10\0\0"].concat();
        let header = &expected(9, 2)[..12];
        assert_eq!(refused, [header, &question, OPT, &record].concat());

        // A known name with another algorithm is as unknown as any.
        let mut other = signed(Algorithm::Sha256, false);
        other[76..79].copy_from_slice(b"512");
        let (error, refused) = response(&other, NOW);
        assert_eq!(error, TsigError::UnknownKey);
        assert_eq!(refused[refused.len() - 10..], *b"\x01\x2c\0\0\x12\x34\0\x11\0\0");
        assert_eq!(refused[..33], expected(9, 1));
    }

    #[test]
    fn times_may_differ_by_the_fudge() {
        for (now, right) in [(NOW - 301, false), (NOW - 300, true), (NOW + 300, true), (NOW + 301, false)] {
            let mut request = query(true);
            let mut chain = sign_request(&mut request, &key(Algorithm::Sha512), NOW);
            if right {
                open(&mut request, &keyring(), now);
                continue;
            }
            let (error, mut refused) = response(&request, now);
            assert_eq!(error, TsigError::BadTime { signed: NOW, now, fudge: 300 });
            assert_eq!(refused[..44], [&expected(9, 2), OPT].concat());
            assert_eq!(refused[refused.len() - 12..], [b"\x12\x34\0\x12\0\x06", &now.to_be_bytes()[2..]].concat());
            assert_eq!(chain.check(&mut refused.clone(), NOW), Err(TsigError::PeerBadTime { now }));
            *refused.last_mut().unwrap() ^= 1;
            assert_eq!(chain.check(&mut refused, NOW), Err(TsigError::BadSignature), "the time is signed");
        }
    }

    #[test]
    fn little_room_is_enough_or_nothing_is_written() {
        let mut late = signed(Algorithm::Sha256, true);
        let rejection = reject(&late, &keyring(), NOW + 1000);
        let mut out = [0xee; 100];
        assert_eq!(rejection.write(&late, &mut out), (12, 9));
        assert_eq!(out[..12], *b"\x12\x34\x81\x09\0\0\0\0\0\0\0\0");
        assert_eq!(rejection.write(&late, &mut out[..11]), (0, 9));

        let mut signer = open(&mut late, &keyring(), NOW);
        let message = respond(&query(false));
        let mut buffer = message.clone();
        buffer.resize(message.len() + signer.overhead() - 1, 0);
        let before = buffer.clone();
        assert_eq!(signer.sign(&mut buffer, message.len(), NOW), None);
        assert_eq!(signer.sign(&mut buffer, 11, NOW), None);
        assert_eq!(buffer, before);
        buffer.push(0);
        let mut request = query(true);
        let mut chain = sign_request(&mut request, &key(Algorithm::Sha256), NOW);
        assert_eq!(signer.sign(&mut buffer, message.len(), NOW), Some(buffer.len()));
        assert_eq!(chain.check(&mut buffer, NOW), Ok(()), "the failures changed nothing");
    }
}
