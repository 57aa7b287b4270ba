//! DNS Cookies (RFC 7873): the option by which a client shows that an earlier answer has reached it, as far as its form
//! goes. Who makes and judges server cookies is not known here.
//!
//! Invariant: a malformed option is never taken for an absent one (section 5.2.2). Cost: O(1).

/// The EDNS option.
pub const OPTION_COOKIE: u16 = 10;
/// Octets of a client cookie.
const CLIENT_BYTES: usize = 8;
/// Octets of the server cookies that we make (RFC 9018 section 4).
const SERVER_BYTES: usize = 16;
/// Octets of a server cookie of any server.
const ANY_SERVER_BYTES: std::ops::RangeInclusive<usize> = 8..=32;
/// Octets of the option's data in a response: both cookies.
pub const COOKIE_BYTES: usize = CLIENT_BYTES + SERVER_BYTES;

/// Option of a request, as far as it could be read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CookieOption {
    #[default]
    Absent,
    /// It has a length that no cookie has.
    Malformed,
    Sent(Cookie),
}

/// Cookies that a client has sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cookie {
    pub client: [u8; CLIENT_BYTES],
    pub server: ServerCookie,
}

/// Server cookie that a client has sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServerCookie {
    /// It does not have one yet.
    Absent,
    /// One of another length than ours have.
    Foreign,
    /// One that may be ours.
    Sent([u8; SERVER_BYTES]),
}

/// What the cookies of a request show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShownCookie {
    /// Nothing: a client cookie stands alone.
    Client,
    /// That the address is not forged.
    Valid,
    /// Nothing: the server cookie is wrong, too old, or another server's.
    Invalid,
}

impl CookieOption {
    /// Reads the data of an option.
    pub fn read(data: &[u8]) -> CookieOption {
        Cookie::read(data).map_or(CookieOption::Malformed, CookieOption::Sent)
    }
}

impl Cookie {
    /// Reads the data of an option: 8 octets, or 16 to 40 (RFC 7873 section 4).
    fn read(data: &[u8]) -> Option<Cookie> {
        let (client, server) = data.split_first_chunk()?;
        let server = match (server.len(), <[u8; SERVER_BYTES]>::try_from(server)) {
            (0, _) => ServerCookie::Absent,
            (_, Ok(server)) => ServerCookie::Sent(server),
            (octets, Err(_)) if ANY_SERVER_BYTES.contains(&octets) => ServerCookie::Foreign,
            _ => return None,
        };
        Some(Cookie { client: *client, server })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_lengths_of_the_rfc_are_cookies() {
        for octets in 0..=48u8 {
            let data: Vec<u8> = (0..octets).collect();
            let client = [0, 1, 2, 3, 4, 5, 6, 7];
            let sent = |server| CookieOption::Sent(Cookie { client, server });
            let expected = match octets {
                8 => sent(ServerCookie::Absent),
                24 => sent(ServerCookie::Sent(std::array::from_fn(|index| index as u8 + 8))),
                16..=40 => sent(ServerCookie::Foreign),
                _ => CookieOption::Malformed,
            };
            assert_eq!(CookieOption::read(&data), expected, "{octets}");
        }
    }
}
