//! Answers over the rate limit: which class a response is of, and what is sent in its place.
//!
//! In its place goes the question alone, with TC set and the response code of an error kept. An OPT record stays, with
//! the cookies of a client that asked for them: by them, or by TCP, it gets the whole answer. Neither NSID nor an
//! extended error goes along, so such a message has no more octets than the question that it answers, but for the 16 of
//! a server cookie that the client does not have yet.
//!
//! No limit is there for TCP and TLS, for replies to NOTIFY, which are no larger than what they reply to, for
//! requests that are signed (RFC 8945): their signer is known, and a rejected one gets no records; and for a client with a
//! valid server cookie.
//!
//! Cost: O(question).

use crate::rate_limit::Class;
use crate::serve::answer::Response;
use wire::message::{HEADER_BYTES, Header, Request, Section, Writer, flag, rcode};

/// The class of a response, read off its header.
pub fn class_of(response: &Response, message: &[u8]) -> Class {
    let Some(header) = message.first_chunk::<HEADER_BYTES>().and_then(|header| Header::read(header)) else {
        return Class::Error;
    };
    let has = |section: Section| header.records[section as usize] > 0;
    match response.rcode {
        rcode::NOERROR if has(Section::Answer) => Class::Answer,
        rcode::NOERROR if !header.has(flag::AA) && has(Section::Authority) => Class::Referral,
        rcode::NOERROR => Class::Nodata,
        rcode::NXDOMAIN => Class::Nxdomain,
        _ => Class::Error,
    }
}

/// Writes what is sent in place of a response.
#[cold]
pub fn cut(request: &mut Request, class: Class, response: Response, out: &mut [u8]) -> Response {
    let rcode = if class == Class::Error { response.rcode } else { rcode::NOERROR };
    request.edns.iter_mut().for_each(|edns| edns.nsid = false);
    let limit = out.len();
    let mut writer = Writer::new(out, request, limit, &[]);
    writer.truncated = true;
    Response { length: writer.finish(request, rcode, &[]), rcode, truncated: true }
}
