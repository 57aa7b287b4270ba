//! Signed messages that were tampered with: nothing falls over, and nothing is accepted but what was signed.
//!
//! The input is a list of changes to a good request and a good response, three octets each; it is also a message itself.

#![no_main]

use libfuzzer_sys::fuzz_target;
use std::sync::{Arc, LazyLock};
use wire::name::Name;
use wire::tsig::{Algorithm, Key, Keyring, Opened, open_request, sign_request};

const NOW: u64 = 1_800_000_000;
const QUERY: &[u8] =
    b"\x12\x34\x01\0\0\x01\0\0\0\0\0\x01\x03www\x07example\x03com\0\0\x01\0\x01\0\0\x29\x04\xd0\0\0\x80\0\0\0";

static KEY: LazyLock<Arc<Key>> =
    LazyLock::new(|| Arc::new(Key::new(Name::parse("key.example").expect("a name"), Algorithm::Sha256, vec![7; 32])));
static KEYS: LazyLock<Keyring> = LazyLock::new(|| Keyring::from([(KEY.name.clone(), KEY.clone())]));

/// Replaces octets: two of position, one of value.
fn change(message: &mut [u8], changes: &[u8]) {
    for change in changes.chunks_exact(3) {
        let at = usize::from(u16::from_be_bytes([change[0], change[1]])) % message.len();
        message[at] = change[2];
    }
}

/// Opens a request and, when it is refused, looks at the response.
fn open(message: &mut Vec<u8>) -> bool {
    let before = message.clone();
    match open_request(message, &KEYS, NOW) {
        Opened::Unsigned => assert_eq!(*message, before),
        Opened::Signed { length, .. } => {
            message.truncate(length);
            return true;
        }
        Opened::Rejected(rejection) => {
            assert_eq!(*message, before);
            let mut out = [0; 1232];
            let (length, rcode) = rejection.write(message, &mut out);
            assert!((12..=out.len()).contains(&length));
            assert_eq!(out[..2], message[..2]);
            assert!(out[2] & 0x80 != 0 && u16::from(out[3] & 15) == rcode);
        }
    }
    false
}

fuzz_target!(|input: &[u8]| {
    open(&mut input.to_vec());
    let mut request = QUERY.to_vec();
    let mut chain = sign_request(&mut request, &KEY, NOW);
    let Opened::Signed { mut signer, .. } = open_request(&mut request.clone(), &KEYS, NOW) else {
        panic!("what we sign we accept")
    };
    let mut answer = QUERY.to_vec();
    answer[2] |= 0x80;
    let mut response = answer.clone();
    response.resize(answer.len() + signer.overhead(), 0);
    assert_eq!(signer.sign(&mut response, answer.len(), NOW), Some(response.len()));

    change(&mut request, input);
    if open(&mut request) {
        assert_eq!(request[2..], QUERY[2..], "nothing but the id may have changed");
    }
    let good = response.clone();
    change(&mut response, input);
    if chain.check(&mut response, NOW).is_ok() {
        assert_eq!(response[2..], answer[2..]);
    } else {
        assert!(chain.finish().is_err());
        assert_eq!(chain.check(&mut good.clone(), NOW), Ok(()), "a refused message changes nothing");
    }
    assert_eq!(chain.finish(), Ok(()));
    // Whatever follows is unsigned and counted as such, or refused.
    if chain.check(&mut input.to_vec(), NOW).is_ok() {
        assert!(chain.finish().is_err());
    }
});
