//! What to measure: sizes, changes, rounds.
//!
//! Cost: O(arguments).

use crate::server::Kind;
use std::path::PathBuf;
use std::time::Duration;

/// What `--help` prints.
pub const USAGE: &str = "\
usage: aggregator-bench [--program FILE] [--parts PART,...] [--records N,...] [--rounds N] [--names N,...]
                        [--without-restart] [--peers PEER,...] [--threads N,...] [--seconds N] [--nodes N] [--changes N]
                        [--instances N] [--zones N,...] [--pause N] [--bulk N] [--others N] [--set N] [--rates N,...] [--duration N]
                        [--datacenters N] [--datacenter-records N] [--regions N,...]

  --program FILE      the program to measure (target/release/aggregator)
  --parts PART,...    what to measure (changes,bulk,tree,inventory,sets,regions,queries,transfers,steering,floods,taps,zones); there are also pace,
                      which takes twenty minutes for each size, soak and profile
  --records N,...     records of the zone that changes, or of all zones together (10000,100000,1000000)
  --rounds N          rounds of each measurement (5)
  --names N,...       changes: names that change at a time (1,100,10000); bulk takes the most of them
  --without-restart   changes: do not measure restarts
  --peers PEER,...    queries, transfers: who is measured
                      (echo,aggregator,region,gdnsd,yadifa,nsd,knot,pdns,bind)
  --threads N,...     queries: threads for UDP of the servers and of the load (1,2)
  --seconds N         queries, steering, floods, taps: how long a round of one server or list takes (3)
  --nodes N           tree: nodes of the ZooKeeper tree (100000)
  --changes N         tree: changes in it, one by one (1000)
  --instances N       inventory: instances of a datacenter (100000)
  --zones N,...       zones: numbers of zones (5000,20000)
  --pause N           zones: seconds after a load, and of a measurement (60)
  --bulk N            bulk: changes of many names, one after the other (50)
  --others N          bulk, pace: datacenters of the same size in the region (0: two small ones)
  --rates N,...       pace, soak: changes a second (10,100)
  --duration N        pace, soak: seconds for each of them (600)
  --set N             sets: records at one name (300000)
  --datacenters N     regions: datacenters (10)
  --datacenter-records N
                      regions, soak: records of each (100000)
  --regions N,...     regions: how many regions of all datacenters (1,10,50), and as many of other ones as the most";

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
    pub parts: Vec<Part>,
    pub peers: Vec<Kind>,
    pub threads: Vec<usize>,
    pub seconds: Duration,
    pub nodes: usize,
    pub changes: usize,
    pub instances: usize,
    pub zones: Vec<usize>,
    pub pause: Duration,
    pub bulk: usize,
    pub others: usize,
    pub rates: Vec<usize>,
    pub duration: Duration,
    pub set: usize,
    pub datacenters: usize,
    pub datacenter_records: usize,
    pub regions: Vec<usize>,
}

/// What can be measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// From a change to the region's answer, and memory and restart beside the reference pipeline.
    Changes,
    /// Memory after changes of many names, and after reloads of many prefixes.
    Bulk,
    /// A tree of ZooKeeper's.
    Tree,
    /// The inventory of a Triton datacenter.
    Inventory,
    /// One record of a very large set.
    Sets,
    /// Restarts with many large regions.
    Regions,
    /// Queries, memory and start beside other servers.
    Queries,
    /// Transfers in and out beside other servers.
    Transfers,
    /// Answers that depend on clients, beside plain ones.
    Steering,
    /// Floods, with the limits that servers have by default.
    Floods,
    /// Copies of queries for those who watch, beside Knot.
    Taps,
    /// Many small zones that do not change, beside Knot.
    Zones,
    /// Small changes, some or many a second, for minutes; only when it is asked for.
    Pace,
    /// All at once, for an hour or so: changes, queries, reloads, peers that go and come; only when it is asked for.
    Soak,
    /// Where our program's time goes under load; only when it is asked for.
    Profile,
}

impl Part {
    /// All parts with their names.
    const ALL: [(&str, Part); 15] = [
        ("changes", Part::Changes),
        ("bulk", Part::Bulk),
        ("tree", Part::Tree),
        ("inventory", Part::Inventory),
        ("sets", Part::Sets),
        ("regions", Part::Regions),
        ("queries", Part::Queries),
        ("transfers", Part::Transfers),
        ("steering", Part::Steering),
        ("floods", Part::Floods),
        ("taps", Part::Taps),
        ("zones", Part::Zones),
        ("pace", Part::Pace),
        ("soak", Part::Soak),
        ("profile", Part::Profile),
    ];
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
            parts: vec![
                Part::Changes,
                Part::Bulk,
                Part::Tree,
                Part::Inventory,
                Part::Sets,
                Part::Regions,
                Part::Queries,
                Part::Transfers,
                Part::Steering,
                Part::Floods,
                Part::Taps,
                Part::Zones,
            ],
            peers: Kind::ALL.to_vec(),
            threads: vec![1, 2],
            seconds: Duration::from_secs(3),
            nodes: 100_000,
            changes: 1_000,
            instances: 100_000,
            zones: vec![5_000, 20_000],
            pause: Duration::from_secs(60),
            bulk: 50,
            others: 0,
            rates: vec![10, 100],
            duration: Duration::from_secs(600),
            set: 300_000,
            datacenters: 10,
            datacenter_records: 100_000,
            regions: vec![1, 10, 50],
        };
        let mut arguments = arguments.into_iter();
        while let Some(argument) = arguments.next() {
            let mut value = || arguments.next().ok_or(format!("{argument} needs a value"));
            match &argument[..] {
                "--program" => options.program = PathBuf::from(value()?),
                "--records" => options.records = numbers(&value()?)?,
                "--names" => options.names = numbers(&value()?)?,
                "--rounds" => options.rounds = number(&value()?)?,
                "--parts" => options.parts = chosen(&value()?, &Part::ALL)?,
                "--peers" => options.peers = chosen(&value()?, &Kind::ALL.map(|kind| (kind.option(), kind)))?,
                "--threads" => options.threads = numbers(&value()?)?,
                "--seconds" => options.seconds = Duration::from_secs(number(&value()?)? as u64),
                "--without-restart" => options.restart = false,
                "--nodes" => options.nodes = number(&value()?)?,
                "--changes" => options.changes = number(&value()?)?,
                "--zones" => options.zones = numbers(&value()?)?,
                "--pause" => options.pause = Duration::from_secs(number(&value()?)? as u64),
                "--bulk" => options.bulk = number(&value()?)?,
                "--others" => options.others = number(&value()?)?,
                "--rates" => options.rates = numbers(&value()?)?,
                "--duration" => options.duration = Duration::from_secs(number(&value()?)? as u64),
                "--instances" => options.instances = number(&value()?)?,
                "--set" => options.set = number(&value()?)?,
                "--datacenters" => options.datacenters = number(&value()?)?,
                "--datacenter-records" => options.datacenter_records = number(&value()?)?,
                "--regions" => options.regions = numbers(&value()?)?,
                _ => return Err(USAGE.to_string()),
            }
        }
        if options.records.iter().any(|records| !(100..=3_000_000).contains(records)) {
            return Err("--records takes numbers from 100 to 3000000".to_string());
        }
        if !(100..=3_000_000).contains(&options.datacenter_records) {
            return Err("--datacenter-records takes a number from 100 to 3000000".to_string());
        }
        if !(100..=1_000_000).contains(&options.nodes) {
            return Err("--nodes takes numbers from 100 to 1000000".to_string());
        }
        if !(1_000..=3_000_000).contains(&options.set) {
            return Err("--set takes numbers from 1000 to 3000000".to_string());
        }
        Ok(options)
    }

    /// Rounds of the reference pipeline for a zone of this size.
    pub fn pipeline_rounds(&self, records: usize) -> usize {
        if records >= MANY_RECORDS { self.rounds.min(3) } else { self.rounds }
    }
}

/// The things that a list names, in their own order.
fn chosen<T: Copy>(text: &str, all: &[(&str, T)]) -> Result<Vec<T>, String> {
    let names: Vec<&str> = text.split(',').collect();
    let known = |name: &&str| all.iter().any(|(known, _)| known == name);
    if let Some(unknown) = names.iter().find(|name| !known(name)) {
        let known: Vec<&str> = all.iter().map(|(known, _)| *known).collect();
        return Err(format!("{unknown} is none of {}", known.join(", ")));
    }
    Ok(all.iter().filter(|(name, _)| names.contains(name)).map(|(_, thing)| *thing).collect())
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
        let options = read("--parts tree --nodes 5000 --changes 10").unwrap();
        assert_eq!((&options.parts[..], options.nodes, options.changes), (&[Part::Tree][..], 5000, 10));
        assert!(read("--nodes 10").is_err());
        let options = read("--parts zones --zones 100,200 --pause 5").unwrap();
        assert_eq!((&options.zones[..], options.pause), (&[100, 200][..], Duration::from_secs(5)));
        let options = read("--parts regions --datacenters 3 --datacenter-records 1000 --regions 2,4").unwrap();
        assert_eq!((options.datacenters, options.datacenter_records, &options.regions[..]), (3, 1000, &[2, 4][..]));
        let options = read("--parts inventory --instances 5000").unwrap();
        assert_eq!((&options.parts[..], options.instances), (&[Part::Inventory][..], 5000));
        let options = read("--parts bulk,pace --others 2 --rates 10 --duration 60").unwrap();
        assert_eq!((options.others, &options.rates[..], options.duration), (2, &[10][..], Duration::from_secs(60)));
        let options = read("--parts transfers,queries --peers bind,echo").unwrap();
        assert_eq!(
            (options.parts, options.peers),
            (vec![Part::Queries, Part::Transfers], vec![Kind::Echo, Kind::Bind])
        );
        for wrong in [
            "--rounds",
            "--parts x",
            "--peers bind,",
            "--rounds 0",
            "--names x",
            "--records 10",
            "--records 9000000",
            "--help",
        ] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }
}
