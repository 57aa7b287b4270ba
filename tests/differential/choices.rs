//! Answers of ours that are equal to neither peer's by our own choice, and the RFC that leaves the choice.

use crate::compare::{sorted, split_sets};
use crate::explained::{Case, Peer};
use crate::harness::{Message, Record, rtype};
use crate::model::ALIAS_LIMIT;

/// Choice of ours that an RFC leaves open.
pub struct Choice {
    pub name: &'static str,
    pub rfc: &'static str,
    /// Returns true if the choice makes the difference in a case.
    pub applies: fn(&Case, &Message) -> bool,
}

/// All of them; the first that applies counts.
pub const CHOICES: &[Choice] = &[
    Choice {
        name: "ANY gets one RRset, or SRV and TXT of a DNS-SD instance",
        rfc: "RFC 8482 section 4.1",
        applies: |case, _| case.expected.facts.any.is_some(),
    },
    Choice {
        name: "TC, because names in RDATA are not compressed",
        rfc: "RFC 1035 section 4.1.4",
        applies: |case, ours| {
            ours.is_truncated() && !case.knot.answer.is_truncated() && !case.nsd.answer.is_truncated()
        },
    },
    Choice {
        name: "a chain ends after sixteen aliases",
        rfc: "RFC 1034 section 3.6.2",
        applies: |case, _| case.expected.facts.aliases >= ALIAS_LIMIT,
    },
];

/// Number of answers that equal those of the peers, section by section.
#[derive(Default)]
pub struct Agreement {
    pub both: usize,
    pub knot_only: usize,
    pub nsd_only: usize,
    /// Both peers are known to differ from the model here.
    pub both_explained: usize,
    pub chosen: [usize; CHOICES.len()],
}

impl Agreement {
    /// Counts one answer of ours; false when it equals neither peer's and nothing explains that.
    pub fn count(&mut self, case: &Case, ours: &Message) -> bool {
        let counter = match (is_equal(ours, &case.knot.answer), is_equal(ours, &case.nsd.answer)) {
            (true, true) => &mut self.both,
            (true, false) => &mut self.knot_only,
            (false, true) => &mut self.nsd_only,
            (false, false) => match CHOICES.iter().position(|choice| (choice.applies)(case, ours)) {
                Some(choice) => &mut self.chosen[choice],
                // A peer whose fault it is, or whose message was cut short, cannot be asked.
                None if [Peer::Knot, Peer::Nsd].iter().all(|peer| is_no_witness(case, *peer)) => {
                    &mut self.both_explained
                }
                None => return false,
            },
        };
        *counter += 1;
        true
    }

    /// Adds the counts of another thread.
    pub fn add(&mut self, other: Agreement) {
        self.both += other.both;
        self.knot_only += other.knot_only;
        self.nsd_only += other.nsd_only;
        self.both_explained += other.both_explained;
        self.chosen.iter_mut().zip(other.chosen).for_each(|(sum, count)| *sum += count);
    }

    /// Prints the counts.
    pub fn print(&self) {
        println!("  ours equal to both peers       {}", self.both);
        println!("  to Knot alone                  {}", self.knot_only);
        println!("  to NSD alone                   {}", self.nsd_only);
        println!("  to neither, both explained     {}", self.both_explained);
        for (choice, count) in CHOICES.iter().zip(self.chosen) {
            let note = if count == 0 { "  (never needed)" } else { "" };
            println!("  to neither by choice: {}: {count}, {}{note}", choice.name, choice.rfc);
        }
    }
}

/// Returns true if a peer's answer is known to be wrong or incomplete.
fn is_no_witness(case: &Case, peer: Peer) -> bool {
    let opinion = case.opinion(peer);
    opinion.answer.is_truncated() || !opinion.faults.is_empty() && case.explain(peer).is_some()
}

/// Returns true if two answers agree in codes, flags, question, answer in its order, and authority; of truncated ones
/// only in the codes, because what is left in them is by chance. Additional records are compared by rule elsewhere.
fn is_equal(ours: &Message, theirs: &Message) -> bool {
    let sections_differ =
        split_sets(&ours.answer) != split_sets(&theirs.answer) || authority(ours) != authority(theirs);
    (ours.flags, &ours.question) == (theirs.flags, &theirs.question) && (ours.is_truncated() || !sections_differ)
}

/// The authority section without what minimal responses leave out: NS beside a full answer, DS for the DO bit.
fn authority(message: &Message) -> Vec<Record> {
    let mut records = sorted(&message.authority);
    let is_referral = !message.is_authoritative() || message.answer.iter().all(|r| r.rtype == rtype::CNAME);
    records.retain(|record| record.rtype != rtype::DS && (is_referral || record.rtype != rtype::NS));
    records
}
