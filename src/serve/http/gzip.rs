//! Compression of bodies with gzip (RFC 9110 section 8.4.1.3; RFC 1952), for clients that take it.
//!
//! Pages and scrapes repeat themselves, and become a tenth of what they were at the fastest level. Streams of events are
//! sent as they are: each is short, and is wanted at once.
//!
//! Cost: O(octets), in a thread of its own where they are many.

use flate2::{Compression, write::GzEncoder};
use hyper::HeaderMap;
use hyper::body::Bytes;
use hyper::header::ACCEPT_ENCODING;
use std::io::Write;

/// Octets below which compression saves less than it costs.
pub const LEAST: usize = 1 << 10;
/// Octets above which other tasks should not wait for it.
const MANY: usize = 32 << 10;

/// Returns true if a client takes gzip: the field names it, or everything, with a weight that is not zero (RFC 9110
/// section 12.5.3).
pub fn is_accepted(fields: &HeaderMap) -> bool {
    let fields = fields.get_all(ACCEPT_ENCODING).iter().filter_map(|field| field.to_str().ok());
    let mut any = false;
    for coding in fields.flat_map(|field| field.split(',')) {
        let (name, weight) = coding.split_once(';').unwrap_or((coding, ""));
        let refused = weight.trim().strip_prefix("q=").and_then(|weight| weight.parse::<f32>().ok()) == Some(0.0);
        match name.trim().to_ascii_lowercase().as_str() {
            "gzip" | "x-gzip" => return !refused,
            "*" => any = !refused,
            _ => {}
        }
    }
    any
}

/// Compresses a body; gives it back as it was where that fails.
pub async fn compress(body: Bytes) -> Result<Bytes, Bytes> {
    if body.len() < MANY {
        return deflate(&body).ok_or(body);
    }
    let whole = body.clone();
    tokio::task::spawn_blocking(move || deflate(&whole)).await.ok().flatten().ok_or(body)
}

/// The body as a member of gzip; none if there was no memory for it.
fn deflate(body: &[u8]) -> Option<Bytes> {
    let mut encoder = GzEncoder::new(Vec::with_capacity(body.len() / 8), Compression::fast());
    encoder.write_all(body).ok()?;
    encoder.finish().ok().map(Bytes::from)
}

#[cfg(test)]
mod tests {
    use super::*;
    use hyper::header::HeaderValue;

    #[test]
    fn clients_say_what_they_take() {
        let accepts = |fields: &[&'static str]| {
            let mut map = HeaderMap::new();
            fields.iter().for_each(|field| _ = map.append(ACCEPT_ENCODING, HeaderValue::from_static(field)));
            is_accepted(&map)
        };
        for taken in [&["gzip"][..], &["br, GZIP;q=0.5"], &["deflate", "x-gzip"], &["*"], &["identity, *;q=0.1"]] {
            assert!(accepts(taken), "{taken:?}");
        }
        for not in [&[][..], &["br, identity"], &["gzip;q=0"], &["*, gzip; q=0.0"], &["*;q=0"], &["gzipped"]] {
            assert!(!accepts(not), "{not:?}");
        }
    }
}
