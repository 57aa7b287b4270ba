//! Server cookies (RFC 7873), in the form that all servers of an anycast address can make and check (RFC 9018).
//!
//! Whoever shows a server cookie has got an answer from us at that address within the hour, so the address is not forged:
//! such a client is served however many questions come in its name. A client cookie alone shows nothing.
//!
//! A question with a server cookie that is wrong or too old gets its answer all the same, with a new cookie, and counts
//! as one without. BADCOOKIE (RFC 7873 section 5.2.3) would have it asked again, which costs every client behind a
//! changing address a round trip, and those fail that take the code for an error; the limit on answers makes it
//! unnecessary.
//!
//! Two secrets allow a change without a moment in which cookies are refused (RFC 9018 section 5): the first makes
//! cookies and both are accepted. Without a configured secret every process has one of its own, which is right for a
//! single server; where several share an address or a name, each would find the cookies of the others wrong.
//!
//! Pure: the time is the caller's. Cost: one or two SipHash of 20 or 32 octets for each question with a cookie.

use siphasher::sip::SipHasher24;
use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;
use std::sync::{Arc, LazyLock};
use wire::message::{COOKIE_BYTES, Cookie, ServerCookie};
use zeroize::Zeroizing;

/// Octets of a secret.
const SECRET_BYTES: usize = 16;
/// The version of RFC 9018 section 4.1.
const VERSION: u8 = 1;
/// Seconds for which a cookie is accepted, and by which it may come from the future, since the clocks of replicas differ
/// (RFC 9018 section 4.3).
const LIFETIME: i32 = 3600;
const FUTURE: i32 = 300;
/// Age in seconds from which on a cookie is replaced (RFC 9018 section 4.3).
const RENEWAL: i32 = 1800;

/// Secret that cookies are made with.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Zeroizing<[u8; SECRET_BYTES]>);

/// Hides the secret.
impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}

/// Secrets in force: the first makes cookies, all are accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Secrets {
    active: Secret,
    /// The next secret or the one before.
    other: Option<Secret>,
}

/// Error: a text holds no secrets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SecretsError {
    #[error("has no secret; write 32 hexadecimal digits, as \"openssl rand -hex 16\" makes them")]
    None,
    #[error("has more than two secrets; leave the one that makes cookies and the next one or the one before")]
    Many,
    /// Number of the line.
    #[error("has no secret in line {0}; write 32 hexadecimal digits, as \"openssl rand -hex 16\" makes them")]
    Digits(usize),
    #[error("has the same secret twice; write another one into the second line, or nothing")]
    Twice,
}

/// Result of judging the cookies of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Judgement {
    /// True if the server cookie is one of ours for this client.
    pub is_valid: bool,
    /// Both cookies, for the response.
    pub reply: [u8; COOKIE_BYTES],
}

impl Secrets {
    /// The secret of this process, chosen when it is first asked for.
    pub fn own() -> Arc<Secrets> {
        static OWN: LazyLock<Arc<Secrets>> = LazyLock::new(|| {
            // The standard library keys its hash with random octets of the system, and nobody ever sees either number.
            let random = RandomState::new();
            let mut secret = [0; SECRET_BYTES];
            secret[..8].copy_from_slice(&random.hash_one("cookies, first half").to_be_bytes());
            secret[8..].copy_from_slice(&random.hash_one("cookies, second half").to_be_bytes());
            Arc::new(Secrets { active: Secret(Zeroizing::new(secret)), other: None })
        });
        OWN.clone()
    }

    /// Reads one or two secrets, a line each, in hexadecimal; empty lines and comments with `#` are skipped.
    pub fn parse(text: &[u8]) -> Result<Secrets, SecretsError> {
        let lines = text.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii).zip(1..);
        let mut secrets =
            lines.filter(|(line, _)| !line.is_empty() && !line.starts_with(b"#")).map(|(line, number)| {
                let octets = data_encoding::HEXLOWER_PERMISSIVE.decode(line).ok().map(Zeroizing::new);
                let secret = octets.and_then(|octets| octets.as_slice().try_into().ok());
                secret.map(|secret| Secret(Zeroizing::new(secret))).ok_or(SecretsError::Digits(number))
            });
        let active = secrets.next().ok_or(SecretsError::None)??;
        let other = secrets.next().transpose()?;
        match &other {
            _ if secrets.next().is_some() => Err(SecretsError::Many),
            Some(other) if *other == active => Err(SecretsError::Twice),
            _ => Ok(Secrets { active, other }),
        }
    }

    /// The number of secrets.
    pub fn count(&self) -> usize {
        1 + usize::from(self.other.is_some())
    }

    /// Judges the cookies of a client at an address, at a time in seconds since 1970, of which 32 bits count.
    pub fn judge(&self, cookie: &Cookie, address: IpAddr, now: u32) -> Judgement {
        if let ServerCookie::Sent(server) = cookie.server {
            let (fields, hash) = server.split_at(8);
            let fields = <[u8; 8]>::try_from(fields).unwrap_or_default();
            // RFC 9018 section 4.3: serial number arithmetic.
            let age = now.wrapping_sub(u32::from_be_bytes([fields[4], fields[5], fields[6], fields[7]])) as i32;
            // The reserved octets are what they are (section 4.2); cookies that we make have zeroes.
            if fields[0] == VERSION && (-FUTURE..=LIFETIME).contains(&age) {
                let is_of = |secret: &Secret| secret.hash(cookie.client, fields, address) == *hash;
                if is_of(&self.active) && age <= RENEWAL && fields[1..4] == [0; 3] {
                    return Judgement { is_valid: true, reply: join(cookie.client, server) };
                }
                let is_valid = is_of(&self.active) || self.other.as_ref().is_some_and(is_of);
                return Judgement { is_valid, reply: join(cookie.client, self.make(cookie.client, address, now)) };
            }
        }
        Judgement { is_valid: false, reply: join(cookie.client, self.make(cookie.client, address, now)) }
    }

    /// Makes a server cookie: version, three reserved octets, time, hash (RFC 9018 section 4).
    fn make(&self, client: [u8; 8], address: IpAddr, now: u32) -> [u8; 16] {
        let time = now.to_be_bytes();
        let fields = [VERSION, 0, 0, 0, time[0], time[1], time[2], time[3]];
        let mut server = [0; 16];
        server[..8].copy_from_slice(&fields);
        server[8..].copy_from_slice(&self.active.hash(client, fields, address));
        server
    }
}

impl Secret {
    /// The hash of a server cookie (RFC 9018 section 4.4).
    fn hash(&self, client: [u8; 8], fields: [u8; 8], address: IpAddr) -> [u8; 8] {
        let mut input = [0; 32];
        input[..8].copy_from_slice(&client);
        input[8..16].copy_from_slice(&fields);
        let length = match address.to_canonical() {
            IpAddr::V4(address) => {
                input[16..20].copy_from_slice(&address.octets());
                20
            }
            IpAddr::V6(address) => {
                input[16..].copy_from_slice(&address.octets());
                32
            }
        };
        SipHasher24::new_with_key(&self.0).hash(&input[..length]).to_le_bytes()
    }
}

/// Both cookies in a row.
fn join(client: [u8; 8], server: [u8; 16]) -> [u8; COOKIE_BYTES] {
    let mut both = [0; COOKIE_BYTES];
    both[..8].copy_from_slice(&client);
    both[8..].copy_from_slice(&server);
    both
}

#[cfg(test)]
mod tests {
    use super::*;
    use data_encoding::HEXLOWER;

    fn octets<const N: usize>(text: &str) -> [u8; N] {
        HEXLOWER.decode(text.as_bytes()).unwrap().try_into().unwrap()
    }

    fn secrets(text: &str) -> Secrets {
        Secrets::parse(text.as_bytes()).unwrap()
    }

    fn sent(text: &str) -> Cookie {
        let client = octets(&text[..16]);
        let server = if text.len() == 16 { ServerCookie::Absent } else { ServerCookie::Sent(octets(&text[16..])) };
        Cookie { client, server }
    }

    /// The vectors of RFC 9018 appendix A: secrets, address, time, cookies sent, cookies of the response, whether what
    /// was sent is valid. The renewed cookie in A.3 at its own time is not in the RFC.
    #[test]
    fn the_vectors_of_the_rfc_are_met() {
        let first = "e5e973e5a6b2a43f48e7dc849e37bfcf";
        let rolled = "445536bcd2513298075a5d379663c962\ndd3bdf9344b678b185a6f5cb60fca715";
        for (appendix, secret, address, now, cookie, reply, is_valid) in [
            (
                "A.1: a new cookie",
                first,
                "198.51.100.100",
                1_559_731_985,
                "2464c4abcf10c957",
                "2464c4abcf10c957010000005cf79f111f8130c3eee29480",
                false,
            ),
            (
                "A.2: the same, after its renewal is due",
                first,
                "198.51.100.100",
                1_559_734_385,
                "2464c4abcf10c957010000005cf79f111f8130c3eee29480",
                "2464c4abcf10c957010000005cf7a871d4a564a1442aca77",
                true,
            ),
            (
                "A.3: reserved octets that are not zero",
                first,
                "203.0.113.203",
                1_559_727_985,
                "fc93fc62807ddb8601abcdef5cf78f71a314227b6679ebf5",
                "fc93fc62807ddb86010000005cf78f71c048b0163721f5df",
                true,
            ),
            (
                "A.3: the same, nearly two hours later, as the RFC renews it",
                first,
                "203.0.113.203",
                1_559_734_700,
                "fc93fc62807ddb8601abcdef5cf78f71a314227b6679ebf5",
                "fc93fc62807ddb86010000005cf7a9acf73a7810aca2381e",
                false,
            ),
            (
                "A.4: a secret that was replaced, over IPv6",
                rolled,
                "2001:db8:220:1:59de:d0f4:8769:82b8",
                1_559_741_961,
                "22681ab97d52c298010000005cf7c57926556bd0934c72f8",
                "22681ab97d52c298010000005cf7c609a6bb79d16625507a",
                true,
            ),
        ] {
            let judged = secrets(secret).judge(&sent(cookie), address.parse().unwrap(), now);
            assert_eq!((HEXLOWER.encode(&judged.reply).as_str(), judged.is_valid), (reply, is_valid), "{appendix}");
        }
    }

    #[test]
    fn a_cookie_holds_for_its_client_and_an_hour() {
        const NOW: u32 = 100;
        let secrets = secrets("000102030405060708090a0b0c0d0e0f");
        let address: IpAddr = "192.0.2.1".parse().unwrap();
        let client = [7; 8];
        let first = secrets.judge(&Cookie { client, server: ServerCookie::Absent }, address, NOW);
        assert!(!first.is_valid, "a client cookie alone shows nothing");
        let server: [u8; 16] = first.reply[8..].try_into().unwrap();
        let judge = |client, server, address: &str, now| {
            let cookie = Cookie { client, server: ServerCookie::Sent(server) };
            secrets.judge(&cookie, address.parse().unwrap(), now)
        };
        assert_eq!(judge(client, server, "192.0.2.1", NOW), Judgement { is_valid: true, reply: first.reply });
        assert!(judge(client, server, "::ffff:192.0.2.1", NOW).is_valid);
        for (address, client) in [("192.0.2.2", client), ("::1", client), ("192.0.2.1", [8; 8])] {
            assert!(!judge(client, server, address, NOW).is_valid, "{address} {client:?}");
        }
        for octet in 0..16 {
            for bit in 0..8 {
                let mut forged = server;
                forged[octet] ^= 1 << bit;
                let judged = judge(client, forged, "192.0.2.1", NOW);
                assert_eq!(judged, Judgement { is_valid: false, reply: first.reply }, "bit {bit} of {octet}");
            }
        }
        // The clock of 32 bits goes around between these.
        let at = |seconds: i32| NOW.wrapping_add_signed(seconds);
        for (seconds, is_valid) in [(-300, true), (-301, false), (3600, true), (3601, false), (i32::MIN, false)] {
            assert_eq!(judge(client, server, "192.0.2.1", at(seconds)).is_valid, is_valid, "{seconds}");
        }
        for (age, is_renewed) in [(1800, false), (1801, true), (3601, true)] {
            let renewed = judge(client, server, "192.0.2.1", at(age)).reply;
            assert_eq!(renewed != first.reply, is_renewed, "{age}");
            assert!(judge(client, renewed[8..].try_into().unwrap(), "192.0.2.1", at(age)).is_valid);
        }
        let foreign = secrets.judge(&Cookie { client, server: ServerCookie::Foreign }, address, NOW);
        assert_eq!(foreign, first);
    }

    #[test]
    fn secrets_change_without_a_cookie_that_is_refused() {
        let (old, new) = ("000102030405060708090a0b0c0d0e0f", "f0f1f2f3f4f5f6f7f8f9fafbfcfdfeff");
        let stages = [old.to_owned(), format!("{old}\n{new}"), format!("{new}\n{old}"), new.to_owned()];
        let stages = stages.map(|text| secrets(&text));
        let address = "192.0.2.1".parse().unwrap();
        let fresh = Cookie { client: [1; 8], server: ServerCookie::Absent };
        for pair in stages.windows(2) {
            // Replicas are changed one after the other.
            for (maker, judge) in [(&pair[0], &pair[1]), (&pair[1], &pair[0])] {
                let server = maker.judge(&fresh, address, 0).reply[8..].try_into().unwrap();
                assert!(judge.judge(&Cookie { server: ServerCookie::Sent(server), ..fresh }, address, 0).is_valid);
            }
        }
    }

    #[test]
    fn secrets_are_read_and_hidden() {
        let one = "0123456789abcdef0123456789ABCDEF";
        assert_eq!(secrets(&format!("# made in May\n\n  {one} \r\n")).count(), 1);
        let error = |text: &str| Secrets::parse(text.as_bytes()).unwrap_err();
        assert_eq!(error("# nothing\n"), SecretsError::None);
        assert_eq!(error(&one[1..]), SecretsError::Digits(1));
        assert_eq!(error(&format!("{one}\n{one}0")), SecretsError::Digits(2));
        assert_eq!(error(&format!("{one}\n{one}")), SecretsError::Twice);
        assert_eq!(error(&format!("{one}\n{}\n{one}", one.replace('0', "1"))), SecretsError::Many);
        assert_eq!(format!("{:?}", secrets(one)), "Secrets { active: Secret, other: None }");
        assert_eq!(Secrets::own(), Secrets::own());
    }
}
