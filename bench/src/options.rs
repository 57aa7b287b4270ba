//! What to measure: sizes, changes, rounds.
//!
//! Cost: O(arguments).

use std::path::PathBuf;

/// What `--help` prints.
pub const USAGE: &str = "\
usage: aggregator-bench [--program FILE] [--records N,N,...] [--names N,N,...] [--rounds N] [--without-restart]

  --program FILE      the program to measure (target/release/aggregator)
  --records N,...     records of the zone that changes (10000,100000,1000000)
  --names N,...       names that change at a time (1,100,10000)
  --rounds N          rounds of each measurement (5)
  --without-restart   do not measure restarts";

/// From this size on the pipeline runs in fewer rounds, because each takes seconds.
const MANY_RECORDS: usize = 500_000;

/// The options of a run.
#[derive(Debug, PartialEq, Eq)]
pub struct Options {
    pub program: PathBuf,
    pub records: Vec<usize>,
    pub names: Vec<usize>,
    pub rounds: usize,
    pub restart: bool,
}

impl Options {
    /// Reads arguments; the error is for the user.
    pub fn read(arguments: impl IntoIterator<Item = String>) -> Result<Options, String> {
        let mut options = Options {
            program: PathBuf::from("target/release/aggregator"),
            records: vec![10_000, 100_000, 1_000_000],
            names: vec![1, 100, 10_000],
            rounds: 5,
            restart: true,
        };
        let mut arguments = arguments.into_iter();
        while let Some(argument) = arguments.next() {
            let mut value = || arguments.next().ok_or(format!("{argument} needs a value"));
            match &argument[..] {
                "--program" => options.program = PathBuf::from(value()?),
                "--records" => options.records = numbers(&value()?)?,
                "--names" => options.names = numbers(&value()?)?,
                "--rounds" => options.rounds = number(&value()?)?,
                "--without-restart" => options.restart = false,
                _ => return Err(USAGE.to_string()),
            }
        }
        if options.records.iter().any(|records| !(100..=3_000_000).contains(records)) {
            return Err("--records takes numbers from 100 to 3000000".to_string());
        }
        Ok(options)
    }

    /// Rounds of the reference pipeline for a zone of this size.
    pub fn pipeline_rounds(&self, records: usize) -> usize {
        if records >= MANY_RECORDS { self.rounds.min(3) } else { self.rounds }
    }
}

/// A list of numbers.
fn numbers(text: &str) -> Result<Vec<usize>, String> {
    text.split(',').map(number).collect()
}

/// A number above zero.
fn number(text: &str) -> Result<usize, String> {
    text.parse().ok().filter(|number| *number > 0).ok_or(format!("{text} is no number above zero"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_read_or_refused() {
        let read = |text: &str| Options::read(text.split_whitespace().map(String::from));
        let options = read("--records 1000,2000 --rounds 3 --without-restart").unwrap();
        assert_eq!((&options.records[..], options.rounds, options.restart), (&[1000, 2000][..], 3, false));
        assert_eq!(read("").unwrap().pipeline_rounds(1_000_000), 3);
        for wrong in ["--rounds", "--rounds 0", "--names x", "--records 10", "--records 9000000", "--help"] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }
}
