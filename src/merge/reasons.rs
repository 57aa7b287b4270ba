//! Reasons for which records of a member are not in the region as they are in its zone.
//!
//! A [`Conflict`] is counted and reported; the other reasons lie in the record, the configuration or the member alone, and
//! only an explanation of the name tells them.
//!
//! A new kind of conflict has its words here and its rule in `rules`.

use crate::zone::Zone;
use schemars::JsonSchema;
use serde::Serialize;
use strum::{IntoStaticStr, VariantArray};
use wire::name::Name;
use wire::rr::{self, rtype};

//--- Conflict ---

/// Kind of a conflict: the reason for which records of a member are not in the region as they are in its zone.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, IntoStaticStr, VariantArray, Serialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
pub enum ConflictKind {
    /// A CNAME dropped because another member has data at the name (RFC 2181 section 10.1).
    AliasBesideData,
    /// Members have different CNAME or DNAME records; the first member's stays.
    DifferentAliases,
    /// A CNAME at the apex of a member, which a zone cannot have.
    AliasAtApex,
    /// A DNAME dropped because there are names below it (RFC 6672 section 2.4).
    DnameAboveData,
    /// Records at or below a delegation, dropped with it because another member has authoritative data there.
    DelegationAboveData,
    /// Members delegate a name to different servers; the first member's delegation stays.
    DifferentDelegations,
    /// Records below a delegation of another member, dropped because nothing but that is heard there.
    HiddenByDelegation,
    /// Members describe a DNS-SD instance differently; the first member's TXT stays.
    ServiceText,
    /// Targets of different members became the same SRV record under `rewrite`.
    SameTarget,
    /// The name would be longer than 255 octets in the region.
    NameTooLong,
    /// The record would fit no message under its name in the region, so that nobody could transfer it.
    RecordTooLong,
}

impl ConflictKind {
    /// All kinds, for metrics.
    pub const ALL: &[ConflictKind] = ConflictKind::VARIANTS;

    /// Kind of the conflict by which a zone cannot hold a record of its primary at a name.
    pub fn within(zone: &Zone, name: &Name, rtype: u16) -> ConflictKind {
        let has_alias = || zone.get(name.as_wire()).is_some_and(|node| node.get(rtype).is_some());
        match rtype {
            rtype::CNAME if *name == zone.origin => ConflictKind::AliasAtApex,
            _ if has_alias() => ConflictKind::DifferentAliases,
            _ => ConflictKind::AliasBesideData,
        }
    }

    /// The metric label.
    pub fn label(self) -> &'static str {
        self.into()
    }

    /// The rule that decides the conflict, for operators.
    pub fn rule(self) -> &'static str {
        match self {
            ConflictKind::AliasBesideData => "other data at the name wins over a CNAME (RFC 2181 section 10.1)",
            ConflictKind::DifferentAliases => "the alias of the member that is listed first stays",
            ConflictKind::AliasAtApex => "a zone cannot have a CNAME at its apex",
            ConflictKind::DnameAboveData => "a DNAME cannot stand above the names below it (RFC 6672 section 2.4)",
            ConflictKind::DelegationAboveData => {
                "a delegation and what is below it give way to authoritative data that another member has there"
            }
            ConflictKind::DifferentDelegations => {
                "members delegate the name differently, and the one listed first counts"
            }
            ConflictKind::HiddenByDelegation => "another member delegates a name above, and only that counts below it",
            ConflictKind::ServiceText => "the description of the member that is listed first stays",
            ConflictKind::SameTarget => "targets of several members became the same record when they moved",
            ConflictKind::NameTooLong => "the name would be longer than 255 octets in the region",
            ConflictKind::RecordTooLong => "the record would fit no message under its name in the region",
        }
    }
}

/// One conflict at one name.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, JsonSchema)]
pub struct Conflict {
    pub kind: ConflictKind,
    /// The member whose records are affected, by its position in the list of members.
    pub member: usize,
    /// Records that are not in the region for it.
    pub dropped: u32,
    /// The position of the member whose records did it, where they may be far from the name.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "usize")]
    pub by: Option<usize>,
}

/// Name, and member if there is one, of a conflict.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Place {
    /// The member whose zone has the name, for a name that the region cannot have; else the name is the region's.
    pub member: Option<usize>,
    pub name: Name,
}

/// Conflicts that were not there before, place by place.
pub type NewConflicts = Vec<(Place, Vec<Conflict>)>;

//--- Any reason ---

/// Reason for which a record of a member is not in the region. Of several that hold the first in this order is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LeftOut {
    /// Nothing is taken from the member: its zone has expired, or there was no contact for too long.
    Withdrawn,
    /// The region has an SOA, NS set and DS of its own.
    OwnApex,
    /// The configuration leaves the name out.
    Excluded,
    /// An operator or the configuration has taken the member, or the name of it, out of the region for a while.
    Drained,
    /// The configuration takes no such address of the member.
    Address,
    /// DNSSEC records sign names that are others in the region.
    Dnssec,
    /// It stands for a name without readable data, and others have some.
    Placeholder,
    /// The set has as many records as the configuration allows, and others come first.
    MaxSet,
    /// It cannot stand beside what others have; `by` is as in [`Conflict`].
    Conflict { kind: ConflictKind, by: Option<usize> },
}

impl LeftOut {
    /// The word for programs.
    pub fn label(self) -> &'static str {
        match self {
            LeftOut::Withdrawn => "withdrawn",
            LeftOut::OwnApex => "own-apex",
            LeftOut::Excluded => "excluded",
            LeftOut::Drained => "drained",
            LeftOut::Address => "addresses",
            LeftOut::Dnssec => "dnssec",
            LeftOut::Placeholder => "placeholder",
            LeftOut::MaxSet => "max_set",
            LeftOut::Conflict { kind, .. } => kind.label(),
        }
    }

    /// Reason for which records of a type never come into a region: SOA and NS at the apex are ours, DNSSEC does not
    /// survive, and a DS says nothing where no signature vouches for it.
    pub(super) fn of_type(rtype: u16, apex: bool) -> Option<LeftOut> {
        match rtype {
            rtype::SOA => Some(LeftOut::OwnApex),
            rtype::NS | rtype::DS if apex => Some(LeftOut::OwnApex),
            _ if rtype == rtype::DS || rr::is_dnssec(rtype) => Some(LeftOut::Dnssec),
            _ => None,
        }
    }
}

/// Returns true if records of a type never come into a region.
pub(super) fn is_dropped(rtype: u16, apex: bool) -> bool {
    LeftOut::of_type(rtype, apex).is_some()
}
