//! Zones of a datacenter as a function of its inventory: instances, accounts, networks and compute nodes.
//!
//! [`model`] is the inventory, whoever tells it. [`verdict`] decides which instances are listed and in service, [`tag`]
//! reads the services that they declare, [`damping`] lets a service lose its members slowly, [`labels`] gives each label
//! to one owner, [`contribution`] makes the records of an instance, and [`roster`] holds all of it together: changes
//! come in, and the names whose records changed come out; `packed` has instances in few octets there. [`config`] has the rules that an operator chooses, [`kept`]
//! what outlives a process. [`document`] reads an inventory from a file or an answer over HTTP, [`cns`] the
//! configuration of Triton's CNS.
//!
//! Nothing here reads a file, a socket or a clock: the moment is handed in.

#![forbid(unsafe_code)]

pub mod cns;
pub mod config;
pub mod contribution;
pub mod damping;
pub mod document;
pub mod kept;
pub mod labels;
pub mod model;
mod packed;
pub mod roster;
pub mod tag;
pub mod verdict;
