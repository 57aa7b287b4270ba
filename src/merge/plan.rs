//! Plan of a region: its part of the configuration, independent of any data.

use super::{AddressPlan, DampingPlan};
use crate::rewrite::RdataNames;
use std::time::Duration;
use wire::name::{self, Name};

/// Source of the NS set of a region.
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

/// Treatment of a member's records when its zone expires.
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

/// SOA fields of a region, seconds; `None` is the smallest value among the members.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SoaPlan {
    pub ttl: Option<u32>,
    pub refresh: Option<u32>,
    pub retry: Option<u32>,
    pub expire: Option<u32>,
    /// Never above the smallest of the members, which say how long a missing name may be remembered.
    pub minimum: Option<u32>,
}

/// Plan of one region.
#[derive(Clone, Debug, PartialEq)]
pub struct RegionPlan {
    pub origin: Name,
    /// Names of the member zones in configuration order, which decides conflicts.
    pub members: Vec<Name>,
    /// True if the members are parts of one zone and have the region's own name (`docs/regions.md` 31). What stands in
    /// `members` tells them apart then, and is no part of any owner name.
    pub is_united: bool,
    pub ns: NsPolicy,
    /// TTL of the NS set, seconds.
    pub ns_ttl: u32,
    pub soa: SoaPlan,
    /// Default: the first configured name server, else `server_name`.
    pub mname: Option<Name>,
    /// Default: that of the first member.
    pub rname: Option<Name>,
    /// This server's own name.
    pub server_name: Name,
    pub serial_offset: u32,
    pub rdata_names: RdataNames,
    pub exclude: Vec<OwnerPattern>,
    /// Addresses of members that are taken, and that are not.
    pub addresses: AddressPlan,
    /// Most records of a set, for secondaries that refuse larger ones; none for no end.
    pub max_set: Option<u32>,
    /// Time for which a region waits for a member that never was transferred before it is served without it.
    pub partial_after: Duration,
    pub on_expire: OnExpire,
    /// Time for which a member's records stay without contact, where that is shorter than its zone's expire time.
    pub expire_after: Option<Duration>,
    /// Limits on how fast services lose addresses that members withdraw; without any, they lose them at once.
    pub damping: Option<DampingPlan>,
}

impl RegionPlan {
    /// The name below which a member has its owner names.
    pub fn origin_of(&self, member: usize) -> &Name {
        if self.is_united { &self.origin } else { &self.members[member] }
    }

    /// The name below which a member has its owner names, by the name that the member is kept under.
    pub fn origin_named(&self, member: &Name) -> Option<&Name> {
        self.members.iter().position(|other| other == member).map(|index| self.origin_of(index))
    }

    /// Returns true if records come into the region as they are, but for those of which a node is odd.
    pub fn moves_nothing(&self) -> bool {
        self.rdata_names == RdataNames::Keep && self.exclude.is_empty()
    }

    /// Returns true if the configuration leaves a name of the region out.
    pub fn excludes(&self, name: &Name) -> bool {
        self.excluding(name).is_some()
    }

    /// The pattern by which a name of the region is left out.
    pub fn excluding(&self, name: &Name) -> Option<&OwnerPattern> {
        self.exclude.iter().find(|pattern| pattern.matches(name.as_wire(), self.origin.as_wire()))
    }
}

impl OwnerPattern {
    /// Returns true if the pattern matches a name within `origin`.
    fn matches(&self, wire: &[u8], origin: &[u8]) -> bool {
        let Some(relative) = wire.strip_suffix(origin) else { return false };
        // Without its root label the pattern is a run of labels, as the relative name is.
        let pattern = &self.name.as_wire()[..self.name.as_wire().len() - 1];
        let Some(cut) = relative.len().checked_sub(pattern.len()) else { return false };
        let boundary = cut == 0 || name::label_starts(wire).contains(&(cut as u8));
        boundary && &relative[cut..] == pattern && (cut > 0) == self.below
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_by_whole_labels() {
        let origin = Name::parse("r.x").unwrap();
        let matches = |pattern: &str, below, name: &str| {
            let pattern = OwnerPattern { name: Name::parse(pattern).unwrap(), below };
            pattern.matches(Name::parse(name).unwrap().as_wire(), origin.as_wire())
        };
        assert!(matches("cloudapi", false, "cloudapi.r.x"));
        assert!(!matches("cloudapi", false, "a.cloudapi.r.x"));
        assert!(!matches("cloudapi", false, "xcloudapi.r.x"));
        assert!(matches("cmon", true, "a.b.cmon.r.x"));
        assert!(!matches("cmon", true, "cmon.r.x"));
        assert!(!matches("cmon", true, "a.xcmon.r.x"));
        assert!(!matches("cmon", true, "r.x"));
    }
}
