//! Where a peer differs from what we do, and why we do it.
//!
//! Every difference with either peer must be on this list. An entry says whose habit it is and looks at the case
//! and at what is wrong with that peer's answer, so that it cannot excuse anything else.

use crate::compare::{Faults, sorted, split_sets};
use crate::harness::{Message, rtype, type_text};
use crate::model::{ALIAS_LIMIT, Expected, NOERROR, NXDOMAIN};
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

/// What one peer said.
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
    /// What one of the peers said.
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

/// One habit of a peer.
pub struct Difference {
    pub peer: Peer,
    pub name: &'static str,
    pub rfc: &'static str,
    /// Whether it is at work in a case.
    pub applies: fn(&Case, &Opinion) -> bool,
}

/// All of them; the first that applies counts.
pub const EXPLAINED: &[Difference] = &[
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
            case.expected.facts.nested
                && case.expected.rcode == NXDOMAIN
                && opinion.answer.rcode() == NOERROR
                && opinion.faults.len() == 1
        },
    },
    Difference {
        peer: Peer::Nsd,
        name: "applies a DNAME that grows its own names once",
        rfc: "RFC 6672 section 3.2",
        applies: |case, opinion| case.expected.facts.aliases > ALIAS_LIMIT && is_beginning(case, opinion),
    },
    Difference {
        peer: Peer::Knot,
        name: "follows no alias into another zone",
        rfc: "RFC 1034 section 4.3.2, step 3a",
        applies: |case, opinion| case.expected.facts.crosses_zones && is_beginning(case, opinion),
    },
    Difference {
        peer: Peer::Knot,
        name: "follows five aliases",
        rfc: "RFC 1034 section 3.6.2",
        applies: |case, opinion| case.expected.facts.aliases > KNOT_ALIAS_LIMIT && is_beginning(case, opinion),
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
        name: "adds the SOA to YXDOMAIN",
        rfc: "RFC 6672 section 3.2",
        applies: |case, opinion| {
            let only_soa = opinion.answer.authority.iter().all(|record| record.rtype == rtype::SOA);
            case.expected.facts.overflow && only_soa && opinion.faults.len() == 1
        },
    },
];

/// Whether a peer's answer without error is a true beginning of the expected chain.
fn is_beginning(case: &Case, opinion: &Opinion) -> bool {
    let sets = split_sets(&opinion.answer.answer);
    let chain: Vec<_> = case.expected.answer.iter().map(|set| sorted(set)).collect();
    opinion.answer.rcode() == NOERROR && !sets.is_empty() && chain.starts_with(&sets)
}

/// Whether a peer's answer begins with the expected chain.
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
