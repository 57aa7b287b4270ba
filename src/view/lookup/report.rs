//! Parts of an explanation, as `--json` prints them.

use super::client::report::{ClientReport, StepClient, UnevenReport};
use crate::keeper::{MemberStatus, PinStatus, ZoneStatus};
use crate::publish::State;
use crate::select::Pick;
use crate::source::inventory::status::Reading;
use crate::source::inventory::{Instance, InventoryStatus};
use crate::source::zookeeper::status::Session;
use crate::source::zookeeper::zones::Explanation;
use crate::source::zookeeper::{TreePlan, TreeStatus};
use crate::transfer::PrimaryStatus;
use crate::view::text::RecordText;
use crate::zone::SizeLimit;
use schemars::JsonSchema;
use serde::Serialize;
use wire::name::Name;
use wire::rr::Set;
use wire::serial::Serial;

/// Explanation of a name's answer, as `aggregator lookup --json` prints it.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Lookup {
    pub name: Name,
    /// Type that was asked for; none for all types.
    #[serde(rename = "type")]
    pub rtype: Option<String>,
    /// The client for whom it is explained; none unless one is named.
    pub client: Option<ClientReport>,
    /// The response code that a client gets.
    pub rcode: &'static str,
    pub generation: u64,
    /// The name itself, then the targets of aliases.
    pub steps: Vec<LookupStep>,
}

/// Step of the lookup: one name of a chain of aliases.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Step")]
pub struct LookupStep {
    pub name: Name,
    #[serde(flatten)]
    pub outcome: RecordFate,
    /// The response code of an answer that ends here.
    pub rcode: &'static str,
    /// The outcome in words.
    pub explanation: String,
    /// Zone that answers for the name; none if no zone here holds it.
    pub zone: Option<ZoneReport>,
    /// Owner of the records: the name itself, a wildcard, or a name above it.
    pub owner: Option<Name>,
    pub records: Vec<RecordReport>,
    /// Sets of the name of which answers have a part, or that are larger than clients take.
    pub sets: Vec<SetReport>,
    /// What the client gets that is named in the question; none for other answers than records.
    pub client: Option<StepClient>,
    /// Members with addresses of one family only, whose clients get those of the other from elsewhere.
    pub uneven: Vec<UnevenReport>,
    /// Records that the name had, as far back as the zone's history reaches.
    pub gone: Vec<GoneReport>,
    /// Records of a region's members that are not in the region.
    pub left_out: Vec<LeftOutReport>,
    /// Further conflicts of the region's members at the name.
    pub conflicts: Vec<ConflictReport>,
    /// The zones that the answer comes from: the zone itself, or a region's members.
    pub sources: Vec<SourceReport>,
    /// The regions that the zone is a member of.
    pub regions: Vec<RegionUse>,
}

impl LookupStep {
    /// A step that has found nothing yet.
    pub fn new(name: Name) -> LookupStep {
        LookupStep {
            name,
            outcome: RecordFate::NotServed,
            rcode: "NOERROR",
            explanation: String::new(),
            zone: None,
            owner: None,
            records: Vec::new(),
            sets: Vec::new(),
            client: None,
            uneven: Vec::new(),
            gone: Vec::new(),
            left_out: Vec::new(),
            conflicts: Vec::new(),
            sources: Vec::new(),
            regions: Vec::new(),
        }
    }

    /// Returns true if the answer has records of the name.
    pub fn has_records(&self) -> bool {
        self.outcome == RecordFate::Records
    }

    /// The name that the answer goes on with.
    pub fn target(&self) -> Option<&Name> {
        match &self.outcome {
            RecordFate::Alias { target } | RecordFate::Dname { target, followed: true } => Some(target),
            _ => None,
        }
    }

    /// The name at which members are asked what they have: where the records stand, else the name itself.
    pub fn asked(&self) -> &Name {
        self.owner.as_ref().unwrap_or(&self.name)
    }
}

/// Outcome of a step of the lookup.
#[derive(Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(tag = "outcome", rename_all = "kebab-case")]
pub enum RecordFate {
    /// There are records of the type.
    Records,
    /// The name has records, but none of the type: `types` are those that there are.
    NoData { types: Vec<String> },
    /// The name has no records, only names below it, so many.
    EmptyNonTerminal { below: u32 },
    /// The name does not exist; `encloser` is the closest name above it that does.
    NoSuchName { encloser: Name },
    /// A CNAME.
    Alias { target: Name },
    /// A DNAME above the name; `followed` unless the CNAME that it makes is what was asked for.
    Dname { target: Name, followed: bool },
    /// A DNAME whose target would be longer than 255 octets.
    TargetTooLong,
    /// A delegation at the name or above it, which hides so many records at the name.
    Delegation { hidden: u64 },
    /// The name is there without any records, as a node without data is.
    NoRecords,
    /// The data of the name cannot be read, so it is unknown.
    Unreadable { reasons: Vec<String> },
    /// A zone that refuses unknown names has no such name; `encloser` is as above.
    RefusedName { encloser: Name },
    /// A zone that refuses unknown names has the host and not the service.
    NoSuchService,
    /// No zone here holds the name.
    NotServed,
    /// The zone was never loaded, or the region waits for a member.
    NotReady,
    /// The zone has expired, or all members of the region have.
    Expired,
}

impl RecordFate {
    /// The response code of an answer that ends here, at the first name or behind an alias.
    pub fn rcode(&self, first: bool) -> &'static str {
        match self {
            RecordFate::NoSuchName { .. } => "NXDOMAIN",
            RecordFate::RefusedName { .. } => "REFUSED",
            RecordFate::Unreadable { .. } => "SERVFAIL",
            // RFC 6672 section 2.2.
            RecordFate::TargetTooLong => "YXDOMAIN",
            // Behind an alias the answer ends with what it has.
            RecordFate::NotServed if first => "REFUSED",
            RecordFate::NotReady | RecordFate::Expired if first => "SERVFAIL",
            _ => "NOERROR",
        }
    }
}

/// The zone that answers.
#[derive(Debug, Serialize, JsonSchema)]
pub struct ZoneReport {
    pub origin: Name,
    /// `zone`, `region` or `catalog`.
    pub kind: &'static str,
    pub state: State,
    pub serial: Option<Serial>,
    /// A region's serial minus the sum of its members' serials.
    pub drift: Option<u32>,
    /// The earlier version whose contents a region has.
    pub pinned: Option<PinStatus>,
}

/// One record of the answer.
#[derive(Debug, Serialize, JsonSchema)]
pub struct RecordReport {
    #[serde(flatten)]
    pub text: RecordText,
    /// Members' records that a region's record is made of; empty outside regions.
    pub from: Vec<Given>,
    /// Origin of a record that no member has given.
    pub made: Option<String>,
    /// Version with which the record came; none if that is unknown.
    pub seen: Option<SeenReport>,
    #[serde(skip)]
    pub code: u16,
    #[serde(skip)]
    pub rdata: Vec<u8>,
}

impl RecordReport {
    /// The records of a set.
    pub fn of_rrset(rrset: Set<'_>) -> Vec<RecordReport> {
        let record = |rdata: &[u8]| RecordReport {
            text: RecordText::new(rrset.rtype, rrset.ttl, rdata),
            from: Vec::new(),
            made: None,
            seen: None,
            code: rrset.rtype,
            rdata: rdata.to_vec(),
        };
        rrset.rdatas().map(record).collect()
    }
}

/// A set of which answers have a part, or that is larger than clients take.
#[derive(Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct SetReport {
    #[serde(rename = "type")]
    pub rtype: String,
    pub records: u32,
    /// Records of it that an answer has at most.
    pub answered: u32,
    /// True if the client's home decides which they are.
    pub by_home: bool,
    /// Limits that the whole set is over.
    pub over: Vec<SizeLimit>,
    /// What cuts answers; none if nothing does.
    pub law: Option<LawReport>,
}

/// A law of answers.
#[derive(Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct LawReport {
    /// Addresses and services that an answer has at most; of other types it has at most 100.
    pub max: u32,
    /// Which they are; none for types of which all answers have the same.
    pub pick: Option<Pick>,
    /// The exception of the region that counts; none if there is none.
    #[serde(rename = "match")]
    pub pattern: Option<String>,
}

/// The version with which a record came.
#[derive(Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(rename = "Seen")]
pub struct SeenReport {
    pub serial: Serial,
    /// Time at which the version came.
    pub at: Option<i64>,
    /// True if the record came before this version, which is the oldest that is known.
    pub before: bool,
}

/// A record that is there no more.
#[derive(Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(rename = "Gone")]
pub struct GoneReport {
    #[serde(flatten)]
    pub text: RecordText,
    /// Version with which the record came; none if that is unknown.
    pub seen: Option<SeenReport>,
    /// Last version that had the record.
    pub last: Serial,
    /// Version that removed the record.
    pub gone: Serial,
    /// Time at which that version came.
    pub gone_at: Option<i64>,
}

/// A record as a member has it.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Given {
    /// The member.
    pub zone: Name,
    pub serial: Option<Serial>,
    /// Owner name in the spelling of the member's primary.
    pub owner: String,
    #[serde(flatten)]
    pub text: RecordText,
    /// Seconds that the region keeps the record for, if nothing else happens, where the member has withdrawn it.
    pub held_seconds: Option<u64>,
}

/// A member's record that is not in the region.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "LeftOut")]
pub struct LeftOutReport {
    #[serde(flatten)]
    pub given: Given,
    pub reason: &'static str,
    pub explanation: String,
}

/// A disagreement that left no record out by itself.
#[derive(Debug, Serialize, JsonSchema)]
pub struct ConflictReport {
    pub kind: &'static str,
    pub zone: Name,
    pub explanation: &'static str,
}

/// A zone that came from elsewhere, and how.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Source")]
pub struct SourceReport {
    pub zone: Name,
    /// State as `status` shows it.
    pub state: &'static str,
    pub serial: Option<Serial>,
    /// True if the region takes its records.
    pub contributes: bool,
    /// The name that corresponds to the one that was looked up; none where it would be too long.
    pub owner: Option<Name>,
    pub refreshed_seconds_ago: Option<u64>,
    pub expires_in_seconds: Option<u64>,
    /// The servers that the zone is transferred from.
    pub primaries: Vec<PrimaryStatus>,
    /// The tree that the zone is made of.
    pub tree: Option<TreeReport>,
    /// The inventory that the zone is made of.
    pub inventory: Option<InventoryReport>,
    /// True if its records are in the configuration, or follow from it.
    pub configured: bool,
    /// Drains that keep a share of the clients from its records at the name, in words.
    pub shares: Vec<String>,
}

impl SourceReport {
    /// A zone with the keeper's data about it, as far as it has any.
    pub fn new(
        MemberStatus { zone, state, serial }: MemberStatus,
        contributes: bool,
        owner: Option<Name>,
        kept: Option<&ZoneStatus>,
    ) -> SourceReport {
        SourceReport {
            zone,
            state,
            serial,
            contributes,
            owner,
            refreshed_seconds_ago: kept.and_then(|status| status.refreshed_seconds_ago),
            expires_in_seconds: kept.and_then(|status| status.expires_in_seconds),
            primaries: Vec::new(),
            tree: None,
            inventory: None,
            configured: false,
            shares: Vec::new(),
        }
    }
}

/// A tree of ZooKeeper's, and what of it makes the records of a name.
#[derive(Debug, Serialize, JsonSchema)]
pub struct TreeReport {
    /// The configured members.
    pub ensemble: Vec<String>,
    /// Member of the ensemble that has the session, or had the last one.
    pub member: Option<String>,
    pub session: Session,
    /// The newest change.
    pub zxid: Option<String>,
    /// Nodes with their roles for the name, by absolute paths.
    pub nodes: Vec<Explanation>,
}

impl TreeReport {
    /// Returns the state of a tree, with the nodes that concern a name.
    pub fn new(plan: &TreePlan, status: &TreeStatus, mut nodes: Vec<Explanation>) -> TreeReport {
        for node in &mut nodes {
            let slash = if node.path.is_empty() { "" } else { "/" };
            node.path = format!("{}{slash}{}", plan.path, node.path);
        }
        TreeReport {
            ensemble: plan.members.iter().map(|member| member.to_string()).collect(),
            member: status.member.clone(),
            session: status.session,
            zxid: status.zxid.clone(),
            nodes,
        }
    }
}

/// An inventory, and the instances of it that have to do with a name.
#[derive(Debug, Serialize, JsonSchema)]
pub struct InventoryReport {
    pub inventory: String,
    /// "file" or "url".
    pub feeder: &'static str,
    pub reading: Reading,
    /// Time of the last good reading, Unix time.
    pub last_reading: Option<i64>,
    pub instances: Vec<Instance>,
}

impl InventoryReport {
    /// Returns the state of an inventory, with the instances that concern a name.
    pub fn new(status: &InventoryStatus, instances: Vec<Instance>) -> InventoryReport {
        InventoryReport {
            inventory: status.inventory.clone(),
            feeder: status.feeder,
            reading: status.reading,
            last_reading: status.last_reading,
            instances,
        }
    }
}

/// Records at a member's name that a region takes.
#[derive(Debug, Serialize, JsonSchema)]
pub struct RegionUse {
    pub region: Name,
    /// The name in the region; none where it would be too long.
    pub name: Option<Name>,
    /// Records of the zone at the name, and how many of them are in the region.
    pub records: usize,
    pub taken: usize,
    pub left_out: Vec<LeftOutReport>,
    /// Drains that keep a share of the region's clients from the records, in words.
    pub shares: Vec<String>,
}
