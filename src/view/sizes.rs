//! Sizes of the sets of a zone: how many are larger than a datagram, than resolvers take, and than a message, what
//! follows from that, and what to do (`docs/answers.md`).
//!
//! Invariant: what is served is told, so behind a pin the pinned version; of a zone that no client reaches no answers.
//!
//! Cost: O(1) a zone.

use crate::merge::AnswersPlan;
use crate::publish::Published;
use crate::zone::{Large, RESOLVER_RECORDS, SizeLimit};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use wire::name::Name;

/// Sizes of the sets of a zone or region.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Sizes")]
pub struct SizesReport {
    /// Records of the largest set; 0 without any.
    pub most_records: u32,
    /// Sets over each limit.
    pub large: Large,
    /// Those of which an answer may be over it, too.
    pub in_answers: Large,
}

/// What the laws of answers and secondaries are like for whom sizes are told.
#[derive(Clone, Copy, Debug)]
pub struct Audience {
    /// True for a region, whose sets can be cut themselves.
    pub is_region: bool,
    /// True if there may be secondaries.
    pub has_secondaries: bool,
}

impl SizesReport {
    /// Tells the sizes of a zone as it is published.
    pub fn of(published: &Published, origin: &Name) -> SizesReport {
        let Some(served) = published.get(origin) else { return SizesReport::default() };
        let sizes = served.zone.as_ref().map(|zone| &zone.sizes);
        SizesReport {
            most_records: sizes.map_or(0, |sizes| sizes.most_records()),
            large: sizes.map(|sizes| sizes.large()).unwrap_or_default(),
            in_answers: published.reached(origin).map(|served| served.large_in_answers()).unwrap_or_default(),
        }
    }

    /// The sizes as they would be under other laws of answers, and with sets cut to `max_set`, as far as that can be
    /// known from here.
    pub fn under(mut self, plan: Option<&AnswersPlan>, max_set: Option<u32>) -> SizesReport {
        let is_kept = |max: Option<u32>| max.is_some_and(|max| max <= RESOLVER_RECORDS);
        let is_whole = |plan: &AnswersPlan| plan.usual.law.max.is_none() && plan.names.is_empty();
        if is_kept(max_set) {
            return SizesReport::default();
        }
        if plan.is_none_or(is_whole) {
            self.in_answers = self.large;
        } else if plan
            .is_some_and(|plan| plan.treatments().all(|treatment| is_kept(treatment.law.max.map(|max| max.get()))))
        {
            self.in_answers = Large { datagram: self.in_answers.datagram, ..Large::default() };
        }
        self
    }

    /// The sizes without what is larger than a datagram, which clients ask for again over TCP.
    pub fn beyond_datagrams(mut self) -> SizesReport {
        (self.large.datagram, self.in_answers.datagram) = (0, 0);
        self
    }

    /// Returns true if there are sets that resolvers refuse, or that no client gets.
    pub fn is_harmful(self) -> bool {
        self.in_answers.resolvers > 0 || self.in_answers.message > 0
    }

    /// How many sets are over each limit, and how large the largest is; none if no set is over any.
    pub fn counts(self) -> Option<String> {
        let over = |limit: SizeLimit| Some((self.large.over(limit), limit)).filter(|(count, _)| *count > 0);
        let over = SizeLimit::ALL.into_iter().filter_map(over);
        let over: Vec<String> = over.map(|(count, limit)| format!("{count} over {}", name(limit))).collect();
        let most = self.most_records;
        (!over.is_empty()).then(|| format!("{}, the largest has {most} records", over.join(", ")))
    }

    /// The same, where nothing says before that it is about large sets.
    pub fn remark(self) -> Option<String> {
        self.counts().map(|counts| format!("large sets: {counts}"))
    }

    /// What follows from large sets, and what to do, one sentence for each limit.
    pub fn consequences(self, audience: Audience) -> Vec<String> {
        let Audience { is_region, has_secondaries } = audience;
        let (large, in_answers) = (self.large, self.in_answers);
        let told = [
            (in_answers.datagram > 0).then(|| {
                let sets = sets(in_answers.datagram, "does", "do");
                format!("{sets} not fit a datagram: clients ask again over TCP; \"answers\" with max = 8 to 32 prevents that")
            }),
            (in_answers.resolvers > 0).then(|| {
                let sets = sets(in_answers.resolvers, "is", "are");
                format!(
                    "{sets} answered with more than {RESOLVER_RECORDS} records: BIND and other resolvers answer \
                     SERVFAIL; set \"answers\" with max = {RESOLVER_RECORDS} or less"
                )
            }),
            (large.resolvers > 0 && has_secondaries).then(|| {
                let sets = sets(large.resolvers, "has", "have");
                let own = if is_region { format!(" \"max_set\" = {RESOLVER_RECORDS}, or") } else { String::new() };
                format!(
                    "{sets} more than {RESOLVER_RECORDS} records: secondaries with BIND refuse the zone; set{own} \
                     max-records-per-type 0 there"
                )
            }),
            (in_answers.message > 0).then(|| {
                let sets = sets(in_answers.message, "does", "do");
                format!("{sets} not fit a message: no client gets all of it; set \"answers\"")
            }),
        ];
        told.into_iter().flatten().collect()
    }
}

/// A number of sets with its verb.
fn sets(count: u32, one: &str, many: &str) -> String {
    if count == 1 { format!("1 set {one}") } else { format!("{count} sets {many}") }
}

/// What is over a limit, in words.
pub fn name(limit: SizeLimit) -> String {
    match limit {
        SizeLimit::Datagram => "a datagram".to_owned(),
        SizeLimit::Resolvers => format!("{RESOLVER_RECORDS} records"),
        SizeLimit::Message => "a message".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::merge::NamePattern;
    use crate::select::{Law, Pick, Treatment};
    use std::num::NonZeroU32;

    const SOME: SizesReport = SizesReport {
        most_records: 5_000,
        large: Large { datagram: 7, resolvers: 3, message: 1 },
        in_answers: Large { datagram: 5, resolvers: 2, message: 1 },
    };

    fn law(max: Option<u32>) -> Law {
        Law { max: max.and_then(NonZeroU32::new), pick: Pick::Rotate }
    }

    #[test]
    fn every_limit_is_told_with_what_follows() {
        assert_eq!((SizesReport::default().remark(), SizesReport::default().is_harmful()), (None, false));
        let remark =
            "large sets: 7 over a datagram, 3 over 100 records, 1 over a message, the largest has 5000 records";
        assert_eq!(SOME.remark().as_deref(), Some(remark));
        let told = |sizes: SizesReport, is_region, has_secondaries| {
            let lines = sizes.consequences(Audience { is_region, has_secondaries });
            lines.into_iter().map(|line| line.split_once(':').unwrap().0.to_owned()).collect::<Vec<_>>()
        };
        let [datagram, answered, copied, message] = [
            "5 sets do not fit a datagram",
            "2 sets are answered with more than 100 records",
            "3 sets have more than 100 records",
            "1 set does not fit a message",
        ];
        assert_eq!(told(SOME, true, true), [datagram, answered, copied, message]);
        assert_eq!(told(SOME.beyond_datagrams(), false, false), [answered, message]);
        let advice =
            |is_region| SOME.consequences(Audience { is_region, has_secondaries: true })[2].contains("max_set");
        assert_eq!([advice(true), advice(false)], [true, false], "a zone has no such key");
    }

    #[test]
    fn other_laws_have_other_consequences() {
        let whole = AnswersPlan::new(Law::ALL);
        let cut = AnswersPlan::new(law(Some(100)));
        let wide = AnswersPlan::new(law(Some(101)));
        let seeds = NamePattern::parse("seeds").unwrap();
        let but = |max| AnswersPlan {
            names: vec![(seeds.clone(), Treatment { law: law(max), ..Treatment::PLAIN })],
            ..AnswersPlan::new(law(Some(8)))
        };
        let answered = |plan: Option<&AnswersPlan>, max_set| SOME.under(plan, max_set).in_answers;
        assert_eq!([answered(None, None), answered(Some(&whole), None)], [SOME.large; 2]);
        let datagram = Large { datagram: 5, ..Large::default() };
        assert_eq!([answered(Some(&cut), None), answered(Some(&but(Some(100))), None)], [datagram; 2]);
        // What names the exception concerns is not known here.
        assert_eq!([answered(Some(&wide), None), answered(Some(&but(None)), None)], [SOME.in_answers; 2]);
        assert_eq!(SOME.under(None, Some(100)), SizesReport::default());
        assert_eq!(SOME.under(None, Some(101)).in_answers, SOME.large);
    }
}
