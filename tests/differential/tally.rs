//! Counts what the comparison found, and keeps the first failures.

use crate::choices::Agreement;
use crate::compare::Faults;
use crate::coverage::Coverage;
use crate::explained::{Case, EXPLAINED, Peer};
use crate::harness::Message;
use std::time::Duration;

/// Failures that are printed in full.
const SHOWN: usize = 12;
/// Characters of a line of a failure; chains may be very long.
const LINE: usize = 1_500;

/// The result of a run.
#[derive(Default)]
pub struct Tally {
    questions: usize,
    both: usize,
    knot_only: usize,
    nsd_only: usize,
    neither: usize,
    coverage: Coverage,
    explained: [usize; EXPLAINED.len()],
    unexplained: usize,
    ours_judged: usize,
    ours_failed: usize,
    agreement: Agreement,
    shown: Vec<String>,
}

impl Tally {
    /// Counts whether the peers confirm the model; a peer that does not needs an explanation.
    pub fn judge_peers(&mut self, case: &Case) {
        self.questions += 1;
        self.coverage.count(case);
        match (case.knot.faults.is_empty(), case.nsd.faults.is_empty()) {
            (true, true) => self.both += 1,
            (true, false) => self.knot_only += 1,
            (false, true) => self.nsd_only += 1,
            (false, false) => self.neither += 1,
        }
        for peer in [Peer::Knot, Peer::Nsd] {
            if case.opinion(peer).faults.is_empty() {
                continue;
            }
            match case.explain(peer) {
                Some(entry) => self.explained[entry] += 1,
                None => {
                    self.unexplained += 1;
                    self.show(format!("nothing explains why {peer:?} differs from the model\n{case}"));
                }
            }
        }
    }

    /// Counts whether our answer is what the model expects.
    pub fn judge_ours(&mut self, case: &Case, answer: &Message, faults: Faults) {
        self.ours_judged += 1;
        if !self.agreement.count(case, answer) {
            self.unexplained += 1;
            self.show(format!("our answer is neither peer's, and nothing explains it\nours: {answer:?}\n{case}"));
        }
        if !faults.is_empty() {
            self.ours_failed += 1;
            self.show(format!("our answer is wrong: {}\nours: {answer:?}\n{case}", faults.join("; ")));
        }
    }

    fn show(&mut self, text: String) {
        if self.shown.len() < SHOWN {
            self.shown.push(text);
        }
    }

    /// Adds the result of another thread.
    pub fn add(&mut self, other: Tally) {
        self.questions += other.questions;
        self.both += other.both;
        self.knot_only += other.knot_only;
        self.nsd_only += other.nsd_only;
        self.neither += other.neither;
        self.coverage.add(other.coverage);
        self.explained.iter_mut().zip(other.explained).for_each(|(sum, count)| *sum += count);
        self.unexplained += other.unexplained;
        self.ours_judged += other.ours_judged;
        self.ours_failed += other.ours_failed;
        self.agreement.add(other.agreement);
        self.shown.extend(other.shown);
    }

    /// Prints the summary; an explanation without a case is worth a look.
    pub fn print(&self, zones: usize, elapsed: Duration) {
        println!("{zones} zones, {} questions in {:.1} s", self.questions, elapsed.as_secs_f64());
        println!("  model confirmed by both peers  {}", self.both);
        println!("  by Knot alone                  {}", self.knot_only);
        println!("  by NSD alone                   {}", self.nsd_only);
        println!("  by neither                     {}", self.neither);
        for (entry, count) in EXPLAINED.iter().zip(self.explained) {
            let note = if count == 0 { "  (never needed)" } else { "" };
            println!("  {:?} {}: {count}, {}{note}", entry.peer, entry.name, entry.rfc);
        }
        println!("  differences without explanation {}", self.unexplained);
        println!("  corners reached: {}", self.coverage);
        if self.ours_judged > 0 {
            println!(
                "  ours as the model expects      {} of {}",
                self.ours_judged - self.ours_failed,
                self.ours_judged
            );
            self.agreement.print();
        }
    }

    /// Fails when anything is left to explain, or when the zones did not reach every corner.
    pub fn assert_clean(&self) {
        for text in self.shown.iter().take(SHOWN) {
            println!("---");
            for line in text.lines() {
                println!("{}", line.chars().take(LINE).collect::<String>());
            }
        }
        assert_eq!(
            (self.unexplained, self.ours_failed),
            (0, 0),
            "differences without explanation, wrong answers of ours"
        );
        self.coverage.assert_wide(self.questions);
    }
}
