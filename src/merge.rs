//! The region zone as a pure function of its member zones.

use crate::name::Name;
use std::time::Duration;

/// What happens to names in RDATA that lie within the member zone (`aggregation.md` section 4).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum RdataNames {
    /// They go on naming the member zone.
    #[default]
    Keep,
    /// They move to the region like the owner names (RFD 172 read literally).
    Rewrite,
}

/// Where the NS set of a region comes from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum NsPolicy {
    /// The names that all members list; this server's own name when there is none.
    #[default]
    Intersection,
    /// All names that any member lists (RFD 172 read literally).
    Union,
    /// Exactly these.
    Listed(Vec<Name>),
}

/// What becomes of a member's records when its zone expires.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum OnExpire {
    /// They leave the region.
    #[default]
    Withdraw,
    /// They stay until the member is back.
    Keep,
}

/// Owner names, relative to the zone, that are left out of a region.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnerPattern {
    /// The name as if the zone were the root.
    pub name: Name,
    /// Written with a leading `*.`: everything below the name instead of the name itself.
    pub below: bool,
}

/// How one region is made.
#[derive(Clone, Debug, PartialEq)]
pub struct RegionPlan {
    pub origin: Name,
    /// Names of the member zones in configuration order, which settles conflicts.
    pub members: Vec<Name>,
    pub ns: NsPolicy,
    /// TTL of the NS set, seconds.
    pub ns_ttl: u32,
    /// Default: the first configured name server, else `server_name`.
    pub mname: Option<Name>,
    /// Default: that of the first member.
    pub rname: Option<Name>,
    /// This server's own name.
    pub server_name: Name,
    pub serial_offset: u32,
    pub rdata_names: RdataNames,
    pub exclude: Vec<OwnerPattern>,
    /// How long a region waits for a member that never was transferred before it is served without it.
    pub partial_after: Duration,
    pub on_expire: OnExpire,
}
