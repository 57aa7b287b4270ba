//! State that CNS keeps of one zone: the version that it serves, the steps that led there, and the faults of both.
//!
//! A step is a difference of multisets: of two equal records one can go, and the removal is recorded although the other
//! stays. NS records take part, TTLs do not.
//!
//! Invariants: the steps follow on each other and the last ends at the served serial; a version with the serial of the
//! one before leaves no step, and one with a lower serial leaves no history.
//!
//! Cost: O(records) for a step, O(steps) to find one.

use super::zone::{Data, Node, Zone};
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use wire::name::Name;
use wire::serial::Serial;

/// Steps that are kept for secondaries that lag behind.
const MOST_STEPS: usize = 100;

/// Difference between one serial and the next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    pub from: Serial,
    pub to: Serial,
    pub removed: Vec<(Name, Data)>,
    pub added: Vec<(Name, Data)>,
}

impl Step {
    /// Computes the difference between two versions.
    pub fn between(old: &Zone, new: &Zone) -> Step {
        Step { from: old.serial(), to: new.serial(), removed: surplus(old, new), added: surplus(new, old) }
    }
}

/// Records that one version has in more copies than another, once for each copy too many.
fn surplus(one: &Zone, other: &Zone) -> Vec<(Name, Data)> {
    let mut surplus = Vec::new();
    let mut collect = |owner: &Name, records: &[Data], others: &[Data]| {
        let mut copies: HashMap<&Data, usize> = HashMap::new();
        others.iter().for_each(|data| *copies.entry(data).or_default() += 1);
        for data in records {
            match copies.get_mut(data) {
                Some(left) if *left > 0 => *left -= 1,
                _ => surplus.push((owner.clone(), data.clone())),
            }
        }
    };
    let servers = |zone: &Zone| zone.name_servers().collect::<Vec<_>>();
    collect(one.origin(), &servers(one), &servers(other));
    for node in one.nodes() {
        collect(&node.owner, &node.records, other.find(node.owner.as_wire()).unwrap_or_default());
    }
    surplus
}

/// Faults of transfers: each but the clock occurs once, and no later than the next version.
#[derive(Clone, Debug, Default)]
pub struct Lapses {
    /// Nodes that the scan of a whole transfer finds: data is written before its serial is published, a name can come
    /// twice, and an error of the database looks like the end.
    pub scan: Option<Arc<Vec<Node>>>,
    /// A step that is recorded already while its serial is not yet published.
    pub ahead: Option<Arc<Step>>,
    /// Differences end after so many records, as if that were all.
    pub cut: Option<usize>,
    /// A version without history that takes the place of this one once differences have been sent: the database is lost
    /// behind them.
    pub lost: Option<Arc<Zone>>,
    /// The serial is the clock, as while the database is rebuilt: no two whole transfers have the same. This goes on.
    pub is_clock: bool,
}

/// A zone with its history.
#[derive(Clone, Debug)]
pub struct Stored {
    zone: Arc<Zone>,
    steps: VecDeque<Arc<Step>>,
    /// A step that a commit has recorded while its serial is not yet served.
    recorded: Option<Arc<Step>>,
    pub lapses: Lapses,
}

impl Stored {
    /// A zone without history.
    pub fn new(zone: Zone) -> Stored {
        Stored { zone: Arc::new(zone), steps: VecDeque::new(), recorded: None, lapses: Lapses::default() }
    }

    /// A zone with its history.
    #[cfg(test)]
    pub fn with_steps(zone: Zone, steps: Vec<Step>) -> Stored {
        Stored { steps: steps.into_iter().map(Arc::new).collect(), ..Stored::new(zone) }
    }

    /// The version that is served.
    pub fn zone(&self) -> &Arc<Zone> {
        &self.zone
    }

    /// The same zone with another version.
    pub fn advance(&self, zone: Zone) -> Stored {
        let mut steps = self.steps.clone();
        // CNS compares serials as plain numbers.
        if zone.serial().0 < self.zone.serial().0 {
            steps.clear();
        } else if zone.serial() != self.zone.serial() {
            steps.push_back(Arc::new(Step::between(&self.zone, &zone)));
        }
        let mut stored = Stored { zone: Arc::new(zone), steps, recorded: None, lapses: Lapses::default() };
        stored.forget(MOST_STEPS);
        stored
    }

    //--- Commits ---

    /// Writes the records of some names; the serial stays.
    pub fn write(&mut self, names: impl Iterator<Item = (Name, Vec<Data>)>) {
        let mut zone = Zone::clone(&self.zone);
        names.for_each(|(owner, records)| zone.set(owner, records));
        self.zone = Arc::new(zone);
    }

    /// Writes a step's serial into the list of serials. Lists are kept by serial: a second step to one serial adds to
    /// those of the first.
    pub fn record(&mut self, step: &Arc<Step>) {
        if step.from != step.to {
            self.recorded = Some(step.clone());
            return;
        }
        let same: Vec<usize> = (0..self.steps.len()).filter(|index| self.steps[*index].to == step.to).collect();
        let mut union = Step::clone(step);
        if let Some(first) = same.first().map(|index| &self.steps[*index]) {
            union.removed = [&first.removed[..], &step.removed].concat();
            union.added = [&first.added[..], &step.added].concat();
        }
        for index in same {
            let from = self.steps[index].from;
            self.steps[index] = Arc::new(Step { from, ..union.clone() });
        }
        self.steps.push_back(Arc::new(union));
    }

    /// Writes the serial that is served.
    pub fn serve(&mut self, zone: Zone) {
        self.steps.extend(self.recorded.take());
        self.zone = Arc::new(zone);
        self.lapses = Lapses::default();
        self.forget(MOST_STEPS);
    }

    /// Notes a whole transfer, with which things have gone wrong as they should.
    pub fn note_whole(&mut self) {
        self.lapses.scan = None;
        if self.lapses.is_clock {
            let zone = Zone::clone(&self.zone);
            let (apex, serial) = (zone.apex().clone(), zone.serial().advance(1));
            self.zone = Arc::new(zone.with_apex(apex, serial));
        }
    }

    /// Notes an incremental transfer, likewise.
    pub fn note_steps(&mut self) {
        (self.lapses.ahead, self.lapses.cut) = (None, None);
        if let Some(zone) = self.lapses.lost.take() {
            (self.zone, self.recorded) = (zone, None);
            self.steps.clear();
        }
    }

    /// Drops all steps but the last ones.
    pub fn forget(&mut self, keep: usize) {
        self.steps.drain(..self.steps.len().saturating_sub(keep));
    }

    /// The steps for a client with a serial; from one between two known serials they begin at the lower. `None` where
    /// CNS sends the whole zone: outside the history, and for the served serial, unless two commits had that.
    pub fn steps_from(&self, serial: Serial) -> Option<impl Iterator<Item = &Step>> {
        let last = self.steps.iter().rfind(|step| step.from.0 <= serial.0)?;
        let begin = self.steps.iter().position(|step| step.from == last.from)?;
        let is_known = serial.0 < self.zone.serial().0 || serial == self.zone.serial() && last.from == serial;
        let further = self.recorded.iter().chain(&self.lapses.ahead);
        is_known.then(|| self.steps.range(begin..).chain(further).map(Arc::as_ref))
    }
}

#[cfg(test)]
mod tests {
    use super::super::zone::Apex;
    use super::*;
    use std::net::Ipv4Addr;

    /// A zone with these addresses at one name, repetitions included.
    fn zone(serial: u32, addresses: &[u8]) -> Zone {
        let name = |text: &str| Name::parse(text).unwrap();
        let server = name(if serial < 30 { "ns1.x" } else { "ns2.x" });
        let apex = Apex { mname: name("ns1.x"), rname: name("h.x"), name_servers: vec![server] };
        let data = |last: &u8| (name("web.z"), Data::A(Ipv4Addr::new(192, 0, 2, *last)));
        Zone::new(name("z"), apex, Serial(serial), addresses.iter().map(data))
    }

    fn serials(stored: &Stored, from: u32) -> Option<Vec<(u32, u32)>> {
        Some(stored.steps_from(Serial(from))?.map(|step| (step.from.0, step.to.0)).collect())
    }

    #[test]
    fn one_of_two_copies_goes() {
        let step = Step::between(&zone(1, &[1, 1, 2]), &zone(2, &[1, 3, 3]));
        let last = |records: &[(Name, Data)]| -> Vec<u8> {
            records.iter().map(|(_, data)| if let Data::A(address) = data { address.octets()[3] } else { 0 }).collect()
        };
        assert_eq!((last(&step.removed), last(&step.added)), (vec![1, 2], vec![3, 3]));
        let step = Step::between(&zone(29, &[1]), &zone(30, &[1]));
        assert!(matches!((&step.removed[..], &step.added[..]), ([(_, Data::Ns(_))], [(_, Data::Ns(_))])));
    }

    #[test]
    fn lapses_come_once_but_the_clock_goes_on() {
        let mut stored = Stored::new(zone(10, &[])).advance(zone(11, &[]));
        let scan = Some(Arc::new(Vec::new()));
        stored.lapses = Lapses { scan, ahead: None, cut: Some(1), lost: None, is_clock: true };
        stored.note_whole();
        assert!(stored.lapses.scan.is_none() && stored.lapses.cut.is_some());
        stored.note_steps();
        stored.note_whole();
        assert_eq!((stored.zone().serial(), stored.lapses.cut), (Serial(13), None));
        assert!(!stored.advance(zone(14, &[])).lapses.is_clock);
    }

    #[test]
    fn history_reaches_as_far_as_that_of_cns() {
        let mut stored = [20, 25, 30].into_iter().fold(Stored::new(zone(10, &[1])), |stored, serial| {
            assert_eq!(serials(&stored, stored.zone().serial().0), None, "the whole zone at the served serial");
            stored.advance(zone(serial, &[1, serial as u8]))
        });
        assert_eq!(serials(&stored, 10), Some(vec![(10, 20), (20, 25), (25, 30)]));
        assert_eq!(serials(&stored, 19), serials(&stored, 10), "the next lower one that is known");
        assert_eq!(serials(&stored, 25), Some(vec![(25, 30)]));
        for outside in [9, 30, 31] {
            assert_eq!(serials(&stored, outside), None);
        }
        stored.forget(2);
        assert_eq!((serials(&stored, 19), serials(&stored, 20)), (None, Some(vec![(20, 25), (25, 30)])));
        let same = stored.advance(zone(30, &[9]));
        assert_eq!(serials(&same, 20), serials(&stored, 20), "a serial that stays leaves no step");
        assert_eq!(serials(&stored.advance(zone(28, &[9])), 20), None, "one that falls leaves no history");
    }
}
