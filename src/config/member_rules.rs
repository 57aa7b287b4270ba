//! Rules for members of regions, as far as zones of catalogs may match them: which those are is known after the file.

use crate::acl::Prefix;
use crate::merge::AddressRules;
use wire::name::Name;

/// A rule for members of a region, which zones of catalogs may match.
#[derive(Clone, Debug, PartialEq)]
pub struct MemberRule {
    pub region: Name,
    pub pattern: String,
    pub addresses: AddressRules,
    /// Prefixes of addresses that only clients at home get.
    pub home_only: Vec<Prefix>,
}
