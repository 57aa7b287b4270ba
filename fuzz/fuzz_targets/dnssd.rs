//! TXT records of any octets, and URLs of any text: what is found is an URL that is read as the same endpoint, and what is
//! published is found again.
//!
//! The first two octets are the port; the third says whether the host is a name or an address.

#![no_main]

use libfuzzer_sys::fuzz_target;
use std::net::Ipv6Addr;
use wire::dnssd::{Endpoint, Host};
use wire::name::Name;

fuzz_target!(|input: &[u8]| {
    let Some((head, rest)) = input.split_first_chunk::<3>() else { return };
    let port = u16::from_be_bytes([head[0], head[1]]).max(1);
    let host = match head[2] % 2 {
        0 => Host::Name(Name::parse("os.example.com").expect("a name")),
        _ => Host::Address(Ipv6Addr::LOCALHOST.into()),
    };
    for endpoint in Endpoint::read(&host, port, rest).unwrap_or_default() {
        // A path may be longer in an URL than in a TXT record, where octets stand for themselves.
        if let Ok(again) = Endpoint::parse(&endpoint.to_string()) {
            assert_eq!(again.to_string(), endpoint.to_string());
        }
    }
    if let Ok(endpoint) = str::from_utf8(rest).map_err(drop).and_then(|text| Endpoint::parse(text).map_err(drop)) {
        let found = Endpoint::read(&endpoint.host, endpoint.port, &endpoint.text()).expect("our own text");
        assert_eq!(found, [endpoint]);
    }
});
