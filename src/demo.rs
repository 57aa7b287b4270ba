//! Datacenters that exist only in this process, so that the program can be tried without one.
//!
//! A [`Datacenter`](instances::Datacenter) is a model of instances that yields the zone CNS would publish for
//! them; a [`Primary`](primary::Primary) serves such zones on the loopback address the way CNS does, quirks
//! included. Tests use both as the upstream they would otherwise lack.
//!
//! Nothing below this layer knows of it. Cost: O(records) for every change of a model, since zones are replaced
//! whole.

pub mod answer;
pub mod clock;
pub mod instances;
pub mod message;
pub mod primary;
pub mod zone;

#[cfg(test)]
mod oracle;
