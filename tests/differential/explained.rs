//! Differences between a peer's answers and ours, with the reasons for ours.
//!
//! Every difference with either peer must be on this list. An entry says whose habit it is and looks at the case
//! and at what is wrong with that peer's answer, so that it cannot excuse anything else.

use crate::compare::{Faults, sorted, split_sets};
use crate::harness::{Message, Record, rtype, type_text};
use crate::model::{ALIAS_LIMIT, Expected, NOERROR, NXDOMAIN, YXDOMAIN};
use crate::questions::Question;
use std::fmt;

/// The aliases that Knot follows at most.
const KNOT_ALIAS_LIMIT: usize = 5;

/// A peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Peer {
    Knot,
    Nsd,
}

/// Answer of one peer.
pub struct Opinion {
    pub answer: Message,
    pub faults: Faults,
}

/// One question with what the model expects and what the peers say.
pub struct Case {
    pub question: Question,
    pub expected: Expected,
    pub knot: Opinion,
    pub nsd: Opinion,
}

impl Case {
    /// Returns the answer of one of the peers.
    pub fn opinion(&self, peer: Peer) -> &Opinion {
        match peer {
            Peer::Knot => &self.knot,
            Peer::Nsd => &self.nsd,
        }
    }

    /// The entry that explains why a peer differs.
    pub fn explain(&self, peer: Peer) -> Option<usize> {
        EXPLAINED.iter().position(|entry| entry.peer == peer && (entry.applies)(self, self.opinion(peer)))
    }
}

/// Known habit of a peer that makes its answers differ.
pub struct Difference {
    pub peer: Peer,
    pub name: &'static str,
    pub rfc: &'static str,
    /// Returns true if the difference shows in a case.
    pub applies: fn(&Case, &Opinion) -> bool,
}

/// All of them; the first that applies counts.
pub const EXPLAINED: &[Difference] = &[
    Difference { peer: Peer::Knot, name: "follows a DNAME for ANY", rfc: "RFC 8482 section 4.1", applies: follows_any },
    Difference { peer: Peer::Nsd, name: "follows a DNAME for ANY", rfc: "RFC 8482 section 4.1", applies: follows_any },
    Difference {
        peer: Peer::Knot,
        name: "asks the zone around for DS though that delegates nothing",
        rfc: "RFC 8020 section 2",
        applies: asks_around,
    },
    Difference {
        peer: Peer::Nsd,
        name: "asks the zone around for DS though that delegates nothing",
        rfc: "RFC 8020 section 2",
        applies: asks_around,
    },
    Difference {
        peer: Peer::Nsd,
        name: "leaves required glue out without TC",
        rfc: "RFC 9471 section 3.1",
        applies: |case, opinion| {
            case.expected.facts.referral && opinion.faults.len() == 1 && opinion.faults[0].contains("required glue")
        },
    },
    Difference {
        peer: Peer::Nsd,
        name: "names of one zone exist in the zone around it or in it",
        rfc: "RFC 1034 section 4.2.1",
        applies: |case, opinion| {
            let (expected, rcode) = (&case.expected, opinion.answer.rcode());
            let empty_instead = expected.rcode == NXDOMAIN && rcode == NOERROR && opinion.faults.len() == 1;
            // A name of the other zone takes the wildcard's place.
            let hides_wildcard = expected.facts.wildcard && matches!(rcode, NOERROR | NXDOMAIN);
            expected.facts.nested && (empty_instead || hides_wildcard && is_negative(case, opinion))
        },
    },
    Difference {
        peer: Peer::Nsd,
        name: "applies a DNAME that grows its own names once",
        rfc: "RFC 6672 section 3.2",
        applies: |case, opinion| {
            let facts = &case.expected.facts;
            facts.aliases > ALIAS_LIMIT
                && facts.dname
                && opinion.answer.rcode() == NOERROR
                && is_beginning(case, opinion)
        },
    },
    Difference {
        peer: Peer::Knot,
        name: "follows no alias into another zone",
        rfc: "RFC 1034 section 4.3.2, step 3a",
        applies: |case, opinion| {
            // What the first zone has at a name of the other one, when that is not delegated: data, wildcards, nothing.
            let own_word = matches!(opinion.answer.rcode(), NOERROR | NXDOMAIN);
            let begins = is_beginning(case, opinion) || case.expected.facts.nested && shares_alias(case, opinion);
            case.expected.facts.crosses_zones && own_word && begins
        },
    },
    Difference {
        peer: Peer::Knot,
        name: "follows five aliases",
        rfc: "RFC 1034 section 3.6.2",
        applies: |case, opinion| {
            let long = case.expected.facts.aliases > KNOT_ALIAS_LIMIT;
            long && opinion.answer.rcode() == NOERROR && is_beginning(case, opinion)
        },
    },
    Difference {
        peer: Peer::Knot,
        name: "repeats a loop of DNAMEs up to its bound",
        rfc: "RFC 2181 section 5",
        applies: |case, opinion| {
            let facts = &case.expected.facts;
            facts.loops && facts.dname && (opinion.answer.is_truncated() || holds_chain(case, opinion))
        },
    },
    Difference {
        peer: Peer::Knot,
        name: "adds the SOA to YXDOMAIN, or says NXDOMAIN at 256 octets",
        rfc: "RFC 6672 section 3.2",
        applies: |case, opinion| {
            let only_soa = opinion.answer.authority.iter().all(|record| record.rtype == rtype::SOA);
            case.expected.facts.overflow && only_soa && matches!(opinion.answer.rcode(), YXDOMAIN | NXDOMAIN)
        },
    },
    Difference {
        peer: Peer::Knot,
        name: "leaves out an SOA that does not fit without TC",
        rfc: "RFC 2308 section 3, RFC 2181 section 9",
        applies: |case, opinion| {
            let left_out = opinion.answer.authority.is_empty() && case.expected.authority.len() == 1;
            // An SOA here takes some 80 octets, compressed 50.
            let is_full = opinion.answer.size + 80 > case.question.limit();
            left_out && is_full && opinion.faults.len() == 1
        },
    },
    Difference {
        peer: Peer::Knot,
        name: "repeats the alias that a wildcard makes of itself",
        rfc: "RFC 2181 section 5",
        applies: repeats_wildcard_loop,
    },
    Difference {
        peer: Peer::Nsd,
        name: "repeats the alias that a wildcard makes of itself",
        rfc: "RFC 2181 section 5",
        applies: repeats_wildcard_loop,
    },
    Difference {
        peer: Peer::Nsd,
        name: "turns names in SVCB and HTTPS to lowercase",
        rfc: "RFC 3597 section 7",
        applies: |case, opinion| {
            let lower = |sets: Vec<Vec<Record>>| -> Vec<Vec<u8>> {
                let mut all: Vec<_> = sets.iter().flatten().map(|record| record.rdata.to_ascii_lowercase()).collect();
                all.sort();
                all
            };
            let is_binding = matches!(case.question.query.rtype, rtype::SVCB | rtype::HTTPS);
            is_binding && lower(split_sets(&opinion.answer.answer)) == lower(case.expected.answer.clone())
        },
    },
];

/// Returns true if a peer denies the apex of a zone that it serves, as the zone around it would.
fn asks_around(case: &Case, opinion: &Opinion) -> bool {
    let own =
        |records: &[Record]| records.iter().any(|record| record.owner.lower() == case.question.query.name.lower());
    let facts = &case.expected.facts;
    facts.apex_ds && facts.nested && own(&case.expected.authority) && !own(&opinion.answer.authority)
}

/// Returns true if a peer goes on with the target of a DNAME where any record would do.
fn follows_any(case: &Case, opinion: &Opinion) -> bool {
    let facts = &case.expected.facts;
    let is_any = case.question.query.rtype == rtype::ANY && facts.any.is_none() && facts.dname;
    is_any && (opinion.answer.is_truncated() || split_sets(&opinion.answer.answer).starts_with(&case.expected.answer))
}

/// Returns true if a peer gives twice the alias that a wildcard makes of itself.
fn repeats_wildcard_loop(case: &Case, opinion: &Opinion) -> bool {
    let facts = &case.expected.facts;
    let mut records = opinion.answer.answer.clone();
    let count = records.len();
    records.dedup();
    let sets: Vec<_> = split_sets(&records);
    let chain: Vec<_> = case.expected.answer.iter().map(|set| sorted(set)).collect();
    facts.loops && facts.wildcard && records.len() < count && sets == chain
}

/// Returns true if a peer's answer is a true beginning of the expected chain.
fn is_beginning(case: &Case, opinion: &Opinion) -> bool {
    let sets = split_sets(&opinion.answer.answer);
    let chain: Vec<_> = case.expected.answer.iter().map(|set| sorted(set)).collect();
    !sets.is_empty() && chain.starts_with(&sets)
}

/// Returns true if a peer's answer is negative after a true beginning of the expected chain.
fn is_negative(case: &Case, opinion: &Opinion) -> bool {
    let has_soa = opinion.answer.authority.first().is_some_and(|record| record.rtype == rtype::SOA);
    has_soa && (opinion.answer.answer.is_empty() || is_beginning(case, opinion))
}

/// Returns true if a peer's answer starts with the first alias of the expected chain.
fn shares_alias(case: &Case, opinion: &Opinion) -> bool {
    let sets = split_sets(&opinion.answer.answer);
    sets.first().is_some_and(|first| case.expected.answer.first().is_some_and(|set| sorted(set) == *first))
}

/// Returns true if a peer's answer begins with the expected chain.
fn holds_chain(case: &Case, opinion: &Opinion) -> bool {
    let sets = split_sets(&opinion.answer.answer);
    let chain: Vec<_> = case.expected.answer.iter().map(|set| sorted(set)).collect();
    opinion.answer.rcode() == NOERROR && sets.starts_with(&chain)
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let query = &self.question.query;
        let transport = if self.question.tcp { "TCP" } else { "UDP" };
        let (name, rtype) = (&query.name, type_text(query.rtype));
        writeln!(f, "{name} {rtype} over {transport}, EDNS {:?}, DO {}", query.edns, query.dnssec_ok)?;
        writeln!(f, "expected: {:?}", self.expected)?;
        for peer in [Peer::Knot, Peer::Nsd] {
            let Opinion { answer, faults } = self.opinion(peer);
            writeln!(f, "{peer:?} ({}): {answer:?}", faults.join("; "))?;
        }
        Ok(())
    }
}
