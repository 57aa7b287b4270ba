//! Known answers from other programs (`tests/data/tsig`), and properties.

use super::record;
use super::*;
use crate::name::Name;
use proptest::prelude::*;
use std::fs;
use std::sync::Arc;

/// A time at which nothing in particular happened.
pub const NOW: u64 = 1_800_000_000;

/// The number at a position.
fn number16(message: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([message[at], message[at + 1]])
}

/// A secret of this many octets, by the rule of the captured exchanges.
pub fn secret(bytes: usize) -> Vec<u8> {
    (0..bytes).map(|index| (index * 7 + bytes) as u8).collect()
}

/// The captured exchanges' key of an algorithm.
pub fn key(algorithm: Algorithm) -> Arc<Key> {
    let name = Name::parse(&format!("{algorithm}.key.example")).unwrap();
    Arc::new(Key::new(name, algorithm, secret(algorithm.tag_bytes())))
}

/// All keys of the captured exchanges.
pub fn keyring() -> Keyring {
    Algorithm::ALL.into_iter().map(|algorithm| (key(algorithm).name.clone(), key(algorithm))).collect()
}

/// A query for www.example.com A, with an OPT record if wanted.
pub fn query(opt: bool) -> Vec<u8> {
    let mut message = b"\x12\x34\x01\0\0\x01\0\0\0\0\0\0\x03www\x07example\x03com\0\0\x01\0\x01".to_vec();
    if opt {
        message[11] = 1;
        message.extend_from_slice(b"\0\0\x29\x04\xd0\0\0\x80\0\0\0");
    }
    message
}

/// The query, signed.
pub fn signed(algorithm: Algorithm, opt: bool) -> Vec<u8> {
    let mut request = query(opt);
    sign_request(&mut request, &key(algorithm), NOW);
    request
}

/// Makes a response without records of a request.
pub fn respond(request: &[u8]) -> Vec<u8> {
    let mut message = request.to_vec();
    message[2] |= 0x80;
    message
}

/// Signs a response that is alone in a buffer.
pub fn seal(signer: &mut Signer, mut message: Vec<u8>, now: u64) -> Vec<u8> {
    let length = message.len();
    message.resize(length + signer.overhead(), 0);
    let length = signer.sign(&mut message, length, now).unwrap();
    message.truncate(length);
    message
}

/// Opens a request that is expected to be right.
pub fn open(message: &mut Vec<u8>, keys: &Keyring, now: u64) -> Signer {
    match open_request(message, keys, now) {
        Opened::Signed { length, signer } => {
            message.truncate(length);
            signer
        }
        Opened::Unsigned => panic!("taken for unsigned"),
        Opened::Rejected(rejection) => panic!("rejected: {}", rejection.error),
    }
}

/// Opens a request that is expected to be wrong.
pub fn reject(message: &[u8], keys: &Keyring, now: u64) -> Rejection {
    let mut copy = message.to_vec();
    let Opened::Rejected(rejection) = open_request(&mut copy, keys, now) else { panic!("not rejected") };
    assert_eq!(copy, message, "a refused message is left as it came");
    rejection
}

/// Time at which a message was signed.
fn signed_at(message: &[u8]) -> u64 {
    let start = record::locate(message).unwrap().unwrap();
    record::read(message, start).unwrap().stamp.time
}

//--- Known answers ---

struct Exchange {
    label: String,
    algorithm: Algorithm,
    time: u64,
    request: Vec<u8>,
    response: Vec<u8>,
}

fn data(name: &str) -> Vec<u8> {
    fs::read(format!("{}/../../tests/data/tsig/{name}", env!("CARGO_MANIFEST_DIR"))).unwrap()
}

fn hex(text: &str) -> Vec<u8> {
    (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap()).collect()
}

/// The exchanges whose label begins like this.
fn exchanges(prefix: &str) -> Vec<Exchange> {
    let text = String::from_utf8(data("exchanges.txt")).unwrap();
    let read = |line: &str| {
        let [label, algorithm, time, request, response] = line.split(' ').collect::<Vec<_>>()[..] else {
            panic!("a line has five fields")
        };
        Exchange {
            label: label.to_string(),
            algorithm: algorithm.parse().unwrap(),
            time: time.parse().unwrap(),
            request: hex(request),
            response: hex(response),
        }
    };
    text.lines().map(read).filter(|exchange| exchange.label.starts_with(prefix)).collect()
}

/// The messages of a captured transfer, the request first.
pub fn transfer(name: &str) -> Vec<Vec<u8>> {
    let bytes = data(name);
    let mut rest = bytes.as_slice();
    let mut messages = Vec::new();
    while let [high, low, tail @ ..] = rest {
        let (message, behind) = tail.split_at(usize::from(u16::from_be_bytes([*high, *low])));
        messages.push(message.to_vec());
        rest = behind;
    }
    messages
}

/// A captured request without its TSIG record.
fn without_record(request: &[u8]) -> Vec<u8> {
    let mut body = request.to_vec();
    body.truncate(record::locate(request).unwrap().unwrap());
    record::uncount(&mut body);
    body
}

#[test]
fn other_programs_sign_as_we_do() {
    let kinds = ["dig-", "kdig-", "case-"].map(exchanges);
    assert_eq!(kinds.each_ref().map(Vec::len), [15, 3, 3]);
    for Exchange { label, algorithm, time, request, response } in kinds.into_iter().flatten() {
        let (mut ours, mut opened) = (without_record(&request), request.clone());
        let mut signer = open(&mut opened, &keyring(), time);
        assert_eq!(*signer.key(), key(algorithm).name, "{label}");
        assert_eq!(opened, ours, "{label}");
        let mut chain = sign_request(&mut ours, &key(algorithm), time);
        assert_eq!(ours, request, "{label}: our request is theirs");

        let mut checked = response.clone();
        chain.check(&mut checked, time).unwrap();
        assert_eq!(chain.finish(), Ok(()));
        assert_eq!(seal(&mut signer, checked, signed_at(&response)), response, "{label}: our response is theirs");
    }
}

#[test]
fn other_servers_refuse_as_we_do() {
    let other = Arc::new(Key::new(Name::parse("other.example").unwrap(), Algorithm::Sha256, secret(32)));
    let name = key(Algorithm::Sha256).name.clone();
    let wrong = Arc::new(Key::new(name, Algorithm::Sha256, secret(31)));
    let cases = [
        ("badkey-", other, TsigError::UnknownKey, TsigError::PeerBadKey),
        ("badsig-", wrong, TsigError::BadSignature, TsigError::PeerBadSignature),
    ];
    for (label, key, ours, theirs) in cases {
        let found = exchanges(label);
        assert_eq!(found.len(), 3);
        for Exchange { label, time, request, response, .. } in found {
            let mut again = without_record(&request);
            let mut chain = sign_request(&mut again, &key, time);
            assert_eq!(again, request, "{label}");
            assert_eq!(chain.check(&mut response.clone(), time), Err(theirs), "{label}");
            let rejection = reject(&request, &keyring(), signed_at(&response));
            assert_eq!(rejection.error, ours, "{label}");
            let mut out = [0; 1232];
            let (length, rcode) = rejection.write(&request, &mut out);
            assert_eq!((rcode, number16(&response, 2) & 15), (9, 9), "{label}");
            let record = |message: &[u8]| message[record::locate(message).unwrap().unwrap()..].to_vec();
            assert_eq!(record(&out[..length]), record(&response), "{label}: our record is theirs");
        }
    }
}

#[test]
fn other_servers_tell_the_time_as_we_do() {
    let found = exchanges("badtime-");
    assert_eq!(found.len(), 3);
    for Exchange { label, algorithm, time, request, response } in found {
        let mut again = without_record(&request);
        let mut chain = sign_request(&mut again, &key(algorithm), time);
        assert_eq!(again, request, "{label}");
        let Err(TsigError::PeerBadTime { now }) = chain.check(&mut response.clone(), time) else {
            panic!("{label}: not read as BADTIME")
        };
        assert!(now >= time + 3600, "{label}: {now}");
        let rejection = reject(&request, &keyring(), now);
        assert_eq!(rejection.error, TsigError::BadTime { signed: time, now, fudge: 300 }, "{label}");
        let mut out = [0; 1232];
        let (length, _) = rejection.write(&request, &mut out);
        // NSD does not sign this response, against RFC 8945 section 5.2.3, and leaves out the question.
        assert_eq!(out[..length] == response, label != "badtime-nsd", "{label}");
        assert_eq!(chain.check(&mut out[..length].to_vec(), time), Err(TsigError::PeerBadTime { now }), "{label}");
    }
}

#[test]
fn transfers_of_other_servers_are_checked_and_signed() {
    let cases = [
        ("nsd.framed", Algorithm::Sha256, 3),
        ("bind.framed", Algorithm::Sha512, 2),
        ("knot.framed", Algorithm::Sha384, 2),
    ];
    for (file, algorithm, count) in cases {
        let mut messages = transfer(file).into_iter();
        let request = messages.next().unwrap();
        let time = signed_at(&request);
        let mut signer = open(&mut request.clone(), &keyring(), time);
        let mut chain = sign_request(&mut without_record(&request), &key(algorithm), time);
        assert_eq!(messages.len(), count);
        for message in messages {
            let mut checked = message.clone();
            chain.check(&mut checked, time).unwrap();
            assert_eq!(chain.finish(), Ok(()));
            assert_eq!(seal(&mut signer, checked, signed_at(&message)), message);
        }
    }
}

//--- Properties ---

/// Returns true if a flipped bit changes nothing that counts: the id, which the original id replaces, and the case of
/// letters in the names of key and algorithm.
fn is_harmless(message: &[u8], start: usize, at: usize, bit: u8) -> bool {
    let owner = start..start + key(Algorithm::Sha256).name.as_wire().len();
    let algorithm = owner.end + 10..owner.end + 10 + Algorithm::Sha256.wire().len();
    let in_names = owner.contains(&at) || algorithm.contains(&at);
    at < 2 || (in_names && bit == 0x20 && message[at].is_ascii_alphabetic())
}

#[test]
fn any_flipped_bit_is_noticed() {
    for opt in [false, true] {
        let mut request = query(opt);
        let start = request.len();
        let key = key(Algorithm::Sha256);
        let mut chain = sign_request(&mut request, &key, NOW);
        let response = seal(&mut open(&mut request.clone(), &keyring(), NOW), respond(&query(opt)), NOW);
        for (at, bit) in (0..request.len()).flat_map(|at| (0..8).map(move |bit| (at, 1 << bit))) {
            let mut flipped = request.clone();
            flipped[at] ^= bit;
            let accepted = matches!(open_request(&mut flipped, &keyring(), NOW), Opened::Signed { .. });
            assert_eq!(accepted, is_harmless(&request, start, at, bit), "request, octet {at}, bit {bit:#x}");
            let mut flipped = response.clone();
            flipped[at] ^= bit;
            // An accepted message would move the chain on.
            if is_harmless(&response, start, at, bit) {
                continue;
            }
            assert!(chain.check(&mut flipped, NOW).is_err(), "response, octet {at}, bit {bit:#x}");
        }
        assert_eq!(chain.check(&mut response.clone(), NOW), Ok(()), "nothing of that harmed the chain");
    }
}

#[test]
fn harmless_changes_are_let_pass() {
    let mut request = query(false);
    let start = request.len();
    let mut chain = sign_request(&mut request, &key(Algorithm::Sha256), NOW);
    let end = request.len();
    request[start..end - 50].make_ascii_uppercase();
    // A forwarder gives requests ids of its own.
    request[..2].copy_from_slice(&[0x77, 0x77]);
    let mut signer = open(&mut request, &keyring(), NOW);
    let mut response = seal(&mut signer, respond(&request), NOW);
    assert_eq!(number16(&response, response.len() - 6), 0x1234, "the original id is that of the first sender");
    assert_eq!(number16(&response, 0), 0x7777);
    response[..2].copy_from_slice(&[0x12, 0x34]);
    assert_eq!(chain.check(&mut response, NOW), Ok(()));
}

fn any_algorithm() -> impl Strategy<Value = Algorithm> {
    proptest::sample::select(Algorithm::ALL.as_slice())
}

proptest! {
    #[test]
    fn what_is_signed_is_accepted(
        algorithm in any_algorithm(),
        label in "[A-Za-z0-9]{1,63}",
        secret in proptest::collection::vec(any::<u8>(), 0..200),
        bodies in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..300), 1..6),
        apart in -300i64..=300,
    ) {
        let key = Arc::new(Key::new(Name::parse(&label).unwrap(), algorithm, secret));
        let keys = Keyring::from([(key.name.clone(), key.clone())]);
        let mut request = query(true);
        let mut chain = sign_request(&mut request, &key, NOW);
        let later = NOW.checked_add_signed(apart).unwrap();
        let mut signer = open(&mut request, &keys, later);
        prop_assert_eq!(&request, &query(true));
        for body in bodies {
            // One record of a private type in the answer section.
            let mut response = b"\x12\x34\x80\0\0\0\0\x01\0\0\0\0\0\xff\0\0\x01\0\0\0\0".to_vec();
            response.extend_from_slice(&(body.len() as u16).to_be_bytes());
            response.extend_from_slice(&body);
            let mut signed = seal(&mut signer, response.clone(), later);
            prop_assert_eq!(signed.len(), response.len() + signer.overhead());
            prop_assert_eq!(chain.check(&mut signed, NOW), Ok(()));
            prop_assert_eq!(signed, response);
            prop_assert_eq!(chain.finish(), Ok(()));
        }
    }

    #[test]
    fn any_bytes_survive(
        head in proptest::collection::vec(0u8..3, 12),
        tail in proptest::collection::vec(any::<u8>(), 0..100),
        edits in proptest::collection::vec((any::<proptest::sample::Index>(), any::<u8>()), 0..4),
        room in 0usize..1300,
    ) {
        let mut request = query(true);
        let mut chain = sign_request(&mut request, &key(Algorithm::Sha1), NOW);
        for (at, octet) in edits {
            let at = at.index(request.len());
            request[at] = octet;
        }
        for mut message in [request, [head, tail].concat()] {
            let before = message.clone();
            if let Opened::Rejected(rejection) = open_request(&mut message, &keyring(), NOW) {
                prop_assert_eq!(&message, &before);
                let mut out = vec![0; room];
                let (length, rcode) = rejection.write(&message, &mut out);
                prop_assert_eq!(length >= 12, room >= 12);
                prop_assert!(length == 0 || u16::from(out[3] & 15) == rcode);
                prop_assert!(record::locate(&out[..length]).is_ok());
            }
            let before = message.clone();
            prop_assert_ne!(chain.check(&mut message, NOW), Ok(()));
            prop_assert_eq!(message, before);
        }
    }
}

//--- Words ---

#[test]
fn algorithms_have_names() {
    for algorithm in Algorithm::ALL {
        assert_eq!(algorithm.to_string().parse(), Ok(algorithm));
        assert_eq!(algorithm.to_string().to_uppercase().parse(), Ok(algorithm));
    }
    assert_eq!("hmac-md5.sig-alg.reg.int".parse(), Ok(Algorithm::Md5));
    assert_eq!("hmac-sha224".parse::<Algorithm>(), Err(UnknownAlgorithm));
    assert_eq!(Algorithm::ALL.map(Algorithm::is_legacy), [true, true, false, false, false]);
}

#[test]
fn secrets_do_not_show() {
    let key = Key::new(Name::parse("a.example").unwrap(), Algorithm::Sha256, vec![171, 172]);
    assert_eq!(format!("{key:?}"), "Key { name: a.example., algorithm: Sha256, .. }");
    assert_ne!(key, Key::new(key.name.clone(), key.algorithm, vec![171]));
}
