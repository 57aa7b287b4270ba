//! Datacenters that exist only in a process: a model of instances, and primaries that serve it as CNS does.
//!
//! A [`Datacenter`](instances::Datacenter) is a model of instances that yields the zone CNS would publish for them; a
//! [`Primary`](primary::Primary) serves such zones, and what changed in them, on the loopback address the way CNS does,
//! quirks included. The demonstration and the tests use both as the upstream they would otherwise lack.
//!
//! Messages are written and read by code of this crate, because CNS compresses where RFC 3597 forbids it, and because
//! what tests compare with must not share our mistakes.
//!
//! Cost: O(records) for every change of a model, since zones are replaced whole.

#![forbid(unsafe_code)]

pub mod answer;
pub mod clock;
mod commit;
pub mod instances;
pub mod message;
pub mod peers;
pub mod primary;
pub mod store;
pub mod zone;

#[cfg(test)]
mod tests;
