//! Coverage of the generated questions: they must reach the corners that they are made for.

use crate::explained::Case;
use crate::harness::rtype;
use crate::model::{NOERROR, NXDOMAIN, REFUSED};
use std::collections::BTreeMap;
use std::fmt;

/// A kind of answer and how to recognise it.
type Corner = (&'static str, fn(&Case) -> bool);

/// All kinds; each must come up at least once in a thousand questions, those with a star once in ten thousand.
const CORNERS: &[Corner] = &[
    ("NXDOMAIN", |case| case.expected.rcode == NXDOMAIN),
    ("no data", |case| is_negative(case) && case.expected.rcode == NOERROR),
    ("wildcard", |case| case.expected.facts.wildcard),
    ("referral", |case| case.expected.facts.referral),
    ("referral with glue", |case| !case.expected.required.is_empty()),
    ("referral after an alias*", |case| case.expected.facts.referral && case.expected.facts.aliases > 0),
    ("alias", |case| case.expected.facts.aliases > 0),
    ("alias to nothing", |case| case.expected.facts.aliases > 0 && case.expected.rcode == NXDOMAIN),
    ("alias out of all zones", |case| case.expected.facts.leaves),
    ("alias into another zone", |case| case.expected.facts.crosses_zones),
    ("alias loop", |case| case.expected.facts.loops),
    ("long chain", |case| case.expected.facts.aliases > 5),
    ("DNAME", |case| case.expected.facts.dname),
    ("DNAME overflow*", |case| case.expected.facts.overflow),
    ("DS at a cut*", |case| case.question.query.rtype == rtype::DS && !case.expected.answer.is_empty()),
    ("DS at an apex", |case| case.expected.facts.apex_ds),
    ("nested zones", |case| case.expected.facts.nested),
    ("ANY", |case| case.expected.facts.any.is_some()),
    ("outside all zones*", |case| case.expected.rcode == REFUSED),
    ("truncated", |case| case.knot.answer.is_truncated()),
    ("over TCP", |case| case.question.tcp),
    ("more than 1232 octets", |case| case.knot.answer.size > 1_232),
];

/// Number of questions that reached each corner.
#[derive(Default)]
pub struct Coverage(BTreeMap<&'static str, usize>);

impl Coverage {
    /// Counts one case.
    pub fn count(&mut self, case: &Case) {
        for (name, reaches) in CORNERS {
            *self.0.entry(name).or_default() += usize::from(reaches(case));
        }
    }

    /// Adds the counts of another thread.
    pub fn add(&mut self, other: Coverage) {
        other.0.into_iter().for_each(|(name, count)| *self.0.entry(name).or_default() += count);
    }

    /// Fails when the questions went past a corner.
    pub fn assert_wide(&self, questions: usize) {
        for (name, _) in CORNERS {
            let wanted = if name.ends_with('*') { questions / 10_000 } else { questions / 1_000 };
            let count = self.0.get(name).copied().unwrap_or_default();
            assert!(count >= wanted, "{name}: reached {count} times in {questions} questions");
        }
    }
}

impl fmt::Display for Coverage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let counts: Vec<String> = self.0.iter().map(|(name, count)| format!("{name} {count}")).collect();
        f.write_str(&counts.join(", "))
    }
}

/// Returns true if the answer ends with the SOA of a negative answer.
fn is_negative(case: &Case) -> bool {
    case.expected.authority.first().is_some_and(|record| record.rtype == rtype::SOA)
}
