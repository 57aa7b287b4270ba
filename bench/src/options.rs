//! What to measure: sizes, changes, rounds.
//!
//! Cost: O(arguments).

use std::path::PathBuf;

/// What `--help` prints.
pub const USAGE: &str = "\
usage: aggregator-bench [--program FILE] [--records N,N,...] [--names N,N,...] [--rounds N] [--without-restart]
                        [--nodes N] [--changes N] [--only-tree | --without-tree]

  --program FILE      the program to measure (target/release/aggregator)
  --records N,...     records of the zone that changes (10000,100000,1000000)
  --names N,...       names that change at a time (1,100,10000)
  --rounds N          rounds of each measurement (5)
  --without-restart   do not measure restarts
  --nodes N           nodes of the ZooKeeper tree (100000)
  --changes N         changes in it, one by one (1000)
  --only-tree         measure that tree and nothing else
  --without-tree      measure everything else";

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
    /// Whether datacenters and their regions are measured.
    pub regions: bool,
    /// Whether the tree of ZooKeeper's is measured.
    pub tree: bool,
    pub nodes: usize,
    pub changes: usize,
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
            regions: true,
            tree: true,
            nodes: 100_000,
            changes: 1_000,
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
                "--nodes" => options.nodes = number(&value()?)?,
                "--changes" => options.changes = number(&value()?)?,
                "--only-tree" => options.regions = false,
                "--without-tree" => options.tree = false,
                _ => return Err(USAGE.to_string()),
            }
        }
        if options.records.iter().any(|records| !(100..=3_000_000).contains(records)) {
            return Err("--records takes numbers from 100 to 3000000".to_string());
        }
        if !(100..=1_000_000).contains(&options.nodes) {
            return Err("--nodes takes numbers from 100 to 1000000".to_string());
        }
        if !options.regions && !options.tree {
            return Err("--only-tree and --without-tree leave nothing to measure".to_string());
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
        let options = read("--only-tree --nodes 5000 --changes 10").unwrap();
        assert_eq!((options.regions, options.tree, options.nodes, options.changes), (false, true, 5000, 10));
        assert!(read("--only-tree --without-tree").is_err() && read("--nodes 10").is_err());
        for wrong in ["--rounds", "--rounds 0", "--names x", "--records 10", "--records 9000000", "--help"] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }
}
