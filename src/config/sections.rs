//! The sections of the file that zones and regions are read with.

use crate::config::api::ApiPlan;
use crate::config::automatic::AutomaticWays;
use crate::config::keys::Keys;
use crate::config::listening::Placed;
use crate::config::member_rules::{Foreseen, MemberRule};
use crate::config::secondaries::Secondaries;
use crate::config::transfer::TransferSection;
use std::net::SocketAddr;
use std::sync::Arc;
use wire::name::Name;

/// What earlier sections have said, and what the zones and regions add to it.
pub struct Sections<'s> {
    pub server_name: &'s Name,
    /// The addresses on which this server answers.
    pub listen: &'s [SocketAddr],
    pub transfer: &'s TransferSection,
    pub keys: &'s Keys,
    pub secondaries: Secondaries<'s>,
    /// The zones of `[clients]`, once it is read.
    pub homes: Vec<Name>,
    /// REST interfaces of inventories, with the places of their addresses.
    pub apis: Vec<(ApiPlan, Vec<Placed>)>,
    /// How automatic reverse zones are served.
    pub automatic_ways: AutomaticWays,
    /// The zones that catalogs may list, once those are read; none without catalogs.
    pub foreseen: Option<Arc<Foreseen>>,
    /// The rules by which they may be members of regions, once the regions are read.
    pub member_rules: Vec<MemberRule>,
    /// True if the files that the configuration names are read.
    pub touch_disk: bool,
}
