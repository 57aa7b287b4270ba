//! The DNS as it is on the wire: names, records, messages, signatures. No sockets.
//!
//! [`name`] holds domain names in wire form, the key of every table. [`rr`] knows where names sit in RDATA, and keeps
//! RRsets. [`serial`] compares serials (RFC 1982). [`message`] reads requests and writes responses. [`tsig`] signs
//! messages and checks signatures (RFC 8945). [`nsec3`] hashes names for the denial of others (RFC 5155). [`dnssd`] knows how services are named and described (RFC 6763).

#![forbid(unsafe_code)]

pub mod dnssd;
pub mod message;
pub mod name;
pub mod nsec3;
pub mod rr;
pub mod serial;
pub mod tsig;
