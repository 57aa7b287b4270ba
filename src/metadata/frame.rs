//! Frames of the metadata protocol, version 2: `V2 LENGTH CHECKSUM ID CODE[ BASE64]`, one a line.
//!
//! Invariants: what [`encode`] writes, the host's strict reader takes: lower-case hexadecimal, exact length, no field
//! without contents. [`decode`] takes nothing whose length or checksum is wrong.
//!
//! Cost: O(line).

use data_encoding::BASE64;

/// Answer of a host to one request.
#[derive(Debug, PartialEq, Eq)]
pub struct Reply {
    /// The request that it belongs to.
    pub id: u32,
    pub code: Code,
    pub payload: Vec<u8>,
}

/// Result code of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Code {
    Success,
    NotFound,
    Failure,
}

/// A request as a line without its end. None if the checksum came out as 0, which some hosts take for damage: another
/// id helps.
pub fn encode(id: u32, command: &str, argument: &str) -> Option<String> {
    let mut body = format!("{id:08x} {command}");
    // An empty field would leave a space at the end that hosts cut off, and then the length is wrong.
    if !argument.is_empty() {
        body.push(' ');
        BASE64.encode_append(argument.as_bytes(), &mut body);
    }
    let checksum = crc32fast::hash(body.as_bytes());
    (checksum != 0).then(|| format!("V2 {} {checksum:08x} {body}", body.len()))
}

/// Reads a line; none if it is no whole reply.
pub fn decode(line: &[u8]) -> Option<Reply> {
    let line = std::str::from_utf8(line).ok()?.trim_end_matches('\r');
    let (length, rest) = line.strip_prefix("V2 ")?.split_once(' ')?;
    let (checksum, body) = rest.split_once(' ')?;
    let is_whole = length.parse() == Ok(body.len()) && parse_hex(checksum) == Some(crc32fast::hash(body.as_bytes()));
    let mut fields = body.splitn(3, ' ');
    let id = parse_hex(fields.next()?)?;
    let code = match fields.next()? {
        "SUCCESS" => Code::Success,
        "NOTFOUND" => Code::NotFound,
        "FAILURE" => Code::Failure,
        _ => return None,
    };
    let payload = BASE64.decode(fields.next().unwrap_or_default().as_bytes()).ok()?;
    is_whole.then_some(Reply { id, code, payload })
}

/// Eight hexadecimal digits.
fn parse_hex(text: &str) -> Option<u32> {
    let is_hex = text.len() == 8 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    if is_hex { u32::from_str_radix(text, 16).ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A reply as the test writes it down.
    fn reply(id: u32, code: Code, payload: &str) -> Option<Reply> {
        Some(Reply { id, code, payload: payload.as_bytes().to_vec() })
    }

    #[test]
    fn requests_are_those_that_hosts_take() {
        let line = |id, command, argument| encode(id, command, argument).unwrap();
        assert_eq!(line(0xfaf9_eae0, "GET", "user-script"), "V2 29 69d32945 faf9eae0 GET dXNlci1zY3JpcHQ=");
        assert_eq!(line(0x4ba8_e872, "GET", "nosuch"), "V2 21 4ef30954 4ba8e872 GET bm9zdWNo");
        assert_eq!(line(0xd2e, "GET", "utf8").len(), "V2 21 2d64eee2 d6e3ea63 GET dXRmOA==".len(), "zeros in front");
        assert_eq!(line(0x6110_bb91, "KEYS", ""), "V2 13 d66b7bd2 6110bb91 KEYS", "no space at the end");
    }

    #[test]
    fn replies_are_read() {
        let read = |line: &str| decode(line.as_bytes());
        let script = "V2 41 5f393998 faf9eae0 SUCCESS IyEvYmluL3NoCmVjaG8gaGkK";
        assert_eq!(read(script), reply(0xfaf9_eae0, Code::Success, "#!/bin/sh\necho hi\n"));
        assert_eq!(read(&format!("{script}\r")), read(script));
        assert_eq!(read("V2 17 c852c763 4ba8e872 NOTFOUND"), reply(0x4ba8_e872, Code::NotFound, ""));
        assert_eq!(read("V2 16 5a95f0ff fe8275cc SUCCESS"), reply(0xfe82_75cc, Code::Success, ""));
        assert_eq!(read("V2 21 f834f67c d6e3ea63 SUCCESS w6k="), reply(0xd6e3_ea63, Code::Success, "é"));
        let failure = "V2 45 c066156d 0badcafe FAILURE SW52YWxpZCBHRVQgUmVxdWVzdA==";
        assert_eq!(read(failure), reply(0x0bad_cafe, Code::Failure, "Invalid GET Request"));
    }

    #[test]
    fn damage_is_no_reply() {
        let whole = "V2 21 f834f67c d6e3ea63 SUCCESS w6k=";
        for at in 0..whole.len() {
            let mut line = whole.as_bytes().to_vec();
            line[at] ^= 1;
            assert_eq!(decode(&line), None, "octet {at}");
            assert_eq!(decode(&whole.as_bytes()[..at]), None, "cut at {at}");
        }
        for line in ["", "invalid command", "V2", "V2 0 00000000 ", "V2 99999999999999999999 f834f67c d6e3ea63 SUCCESS"]
        {
            assert_eq!(decode(line.as_bytes()), None, "{line}");
        }
    }
}
