//! Parts of an explanation that are about one client, as `--json` prints them.

use crate::select::Order;
use crate::view::text::RecordText;
use schemars::JsonSchema;
use serde::Serialize;
use std::fmt::Write;
use wire::name::Name;

/// The client for whom a name is explained.
#[derive(Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ClientReport {
    /// Its address, or the subnet by which a resolver tells of it.
    pub address: String,
    /// True for a subnet (EDNS Client Subnet, RFC 7871).
    pub is_subnet: bool,
    /// Its home; none if no prefix has it.
    pub home: Option<Name>,
    /// The prefix that makes it a client of its home.
    pub prefix: Option<String>,
}

/// The answers to the client at one name.
#[derive(Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct StepClient {
    /// The client's home, if it counts in the zone.
    pub home: Option<Name>,
    /// What there is to say of all sets; empty if nothing is.
    pub explanation: String,
    /// Addresses, services, and other sets of which answers have a part; empty if every client gets the same.
    pub sets: Vec<AnswerReport>,
}

/// What the client gets of a set.
#[derive(Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(rename = "Answer")]
pub struct AnswerReport {
    #[serde(rename = "type")]
    pub rtype: String,
    /// Records of the set.
    pub records: u32,
    pub choice: Choice,
    /// The same in words.
    pub explanation: String,
    pub order: Order,
    /// The members that give records, those first that come first, and those of which something else is to be told.
    pub candidates: Vec<CandidateReport>,
    /// Rules that made the answer, in words.
    pub rules: Vec<String>,
    /// The records of an answer; nothing where they are all of the set, or others each time.
    pub answer: Vec<ChosenReport>,
    /// SCOPE PREFIX-LENGTH (RFC 7871) of the response, for a subnet.
    pub scope: Option<u8>,
}

/// Which records of a set an answer has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Choice {
    /// All of them.
    Whole,
    /// The same each time, in one order.
    Fixed,
    /// The same each time, in turns.
    Turning,
    /// Others each time.
    Changing,
}

/// A member, as an answer draws on it.
#[derive(Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct CandidateReport {
    /// None for records that no member gives at present.
    pub zone: Option<Name>,
    /// Records that it gives.
    pub records: u32,
    /// Those of them that count for `at_least`.
    pub counted: u32,
    /// Records of an answer that are taken of it; none if that is not the same each time.
    pub answered: Option<u32>,
    /// Seconds since it was refreshed, if clients are kept from it for that.
    pub stale_seconds: Option<u64>,
    /// What else there is to say of it.
    pub notes: Vec<String>,
}

/// A record of the client's answer.
#[derive(Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ChosenReport {
    #[serde(flatten)]
    pub text: RecordText,
    /// Its priority in the set, if the answer has another one.
    pub own_priority: Option<u16>,
}

/// A member with addresses of one family only, where others have the other.
#[derive(Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct UnevenReport {
    pub home: Name,
    pub has: String,
    pub lacks: String,
    /// The member that answers its clients in its place.
    pub from: Name,
}

impl ClientReport {
    /// Who the client is.
    pub fn describe(&self) -> String {
        let by = if self.is_subnet { " by EDNS Client Subnet" } else { "" };
        match (&self.home, &self.prefix) {
            (Some(home), Some(prefix)) => format!("{}{by}, a client of {home} ({prefix})", self.address),
            _ => format!("{}{by}, without home: no prefix of [clients] has it", self.address),
        }
    }
}

impl StepClient {
    /// Writes the answers to a client that is described so.
    pub fn write(&self, text: &mut String, client: &str) {
        _ = writeln!(text, "  answers to {client}");
        if !self.explanation.is_empty() {
            _ = writeln!(text, "    {}", self.explanation);
        }
        self.sets.iter().for_each(|set| set.write(text));
    }
}

impl AnswerReport {
    /// Writes what the client gets of the set.
    fn write(&self, text: &mut String) {
        _ = writeln!(text, "    {}: {}", self.rtype, self.explanation);
        for (place, candidate) in (1..).zip(&self.candidates) {
            let place = if self.order == Order::Nearest { format!("{place}. ") } else { String::new() };
            _ = writeln!(text, "      {place}{}: {}", candidate.name(), candidate.describe());
        }
        self.rules().for_each(|rule| _ = writeln!(text, "      {rule}"));
        self.answer.iter().for_each(|record| _ = writeln!(text, "        {}", record.describe()));
    }

    /// The rules, and for whom the response holds.
    pub fn rules(&self) -> impl Iterator<Item = String> {
        let scope = self.scope.map(|scope| format!("EDNS Client Subnet: SCOPE {scope}"));
        self.rules.iter().cloned().chain(scope)
    }
}

impl CandidateReport {
    /// The member.
    pub fn name(&self) -> String {
        self.zone.as_ref().map_or_else(|| "nobody".to_owned(), Name::to_string)
    }

    /// What it has for the answer.
    pub fn describe(&self) -> String {
        let records = match (self.records, self.answered) {
            (0, _) => "no records".to_owned(),
            (records, None) => count(records, "record"),
            (records, Some(answered)) => format!("{}, {answered} in the answer", count(records, "record")),
        };
        [records].into_iter().chain(self.notes.iter().cloned()).collect::<Vec<_>>().join("; ")
    }
}

impl ChosenReport {
    /// The record as the client gets it.
    pub fn describe(&self) -> String {
        let own = self.own_priority.map(|own| format!(", in place of priority {own}")).unwrap_or_default();
        format!("{}{own}", self.text)
    }
}

impl UnevenReport {
    /// What it means for clients.
    pub fn describe(&self) -> String {
        let UnevenReport { home, has, lacks, from } = self;
        format!("{home} has {has} and no {lacks}: its clients get {lacks} from {from}")
    }
}

/// A number with its noun.
pub fn count(number: u32, noun: &str) -> String {
    format!("{number} {noun}{}", if number == 1 { "" } else { "s" })
}
