//! Transfers of a whole zone because removals in doubt got no answer.
//!
//! At once the first time, then not before ten times as long as that took, a minute at least; twice as long each time
//! that it finds nothing, up to a day, after which the audit does the same. Until then the records in doubt stay: one
//! too many for a while is better than one too few. The version has these records beside it ([`Zone::unanswered`]), so
//! a restart begins with a whole zone, too.
//!
//! Invariant: what counts is what stays in the version that was adopted last. What is gone from it is in doubt no more,
//! and what a version has that was not adopted never was.
//!
//! Cost: O(records in doubt, and those of their names); for differences O(records of the names that changed).

use crate::zone::{Aside, AsideRecord, Removal, Zone};
use std::collections::HashMap;
use std::time::Duration;
use tokio::time::Instant;
use wire::name::Name;

/// The shortest pause between two whole zones.
const SHORTEST: Duration = Duration::from_secs(60);
/// For how many times its duration the next whole zone waits.
const SHARE: u32 = 10;
/// The longest pause, in which there is an audit as a rule.
const LONGEST: Duration = Duration::from_secs(24 * 3600);
/// Records in doubt that are remembered; whether a whole zone finds anything is seen in these.
const MOST_REMEMBERED: usize = 10_000;

/// The whole zones of one zone's task.
#[derive(Default)]
pub struct Recourse {
    /// Records that stay in the version that was adopted last, for want of an answer.
    kept: Aside,
    /// Those of a version in whose place the whole zone was wanted.
    wanted: Aside,
    pause: Option<Duration>,
    /// Time from which the next whole zone may be transferred; at once if none ever was.
    again: Option<Instant>,
}

impl Recourse {
    /// Begins with the records that an earlier process has kept for want of an answer; the whole zone is due.
    pub fn resume(&mut self, zone: &Zone, now: Instant) {
        self.note_adopted(zone);
        if !self.kept.is_empty() {
            self.again = Some(now);
        }
    }

    /// Has a version tell the records that stay in it for want of an answer, and forget those that are gone from the
    /// names that differences touched.
    pub fn tell(zone: &mut Zone, touched: &[Name], records: &[Removal]) {
        let mut unanswered = zone.unanswered.clone();
        unanswered.drop_gone(zone, touched);
        gather(&mut unanswered, records);
        zone.unanswered = unanswered;
    }

    /// Returns true if the whole zone is to be transferred now, for records that got no answer, instead of the version
    /// in which they stay.
    pub fn wants_whole(&mut self, records: &[Removal], now: Instant) -> bool {
        let is_time = self.again.is_none_or(|again| now >= again);
        if is_time {
            gather(&mut self.wanted, records);
            self.begin(now);
        }
        is_time
    }

    /// Notes the version that is adopted, which tells what stays in it.
    pub fn note_adopted(&mut self, zone: &Zone) {
        self.kept = zone.unanswered.clone();
    }

    /// Takes the whole zone that is due; there is another one only after a pause, whatever becomes of this one.
    pub fn take(&mut self, now: Instant) -> bool {
        let is_due = self.due().is_some_and(|due| now >= due);
        if is_due {
            self.begin(now);
        }
        is_due
    }

    /// Notes that a whole zone is to be transferred now. If that fails, differences are taken meanwhile.
    fn begin(&mut self, now: Instant) {
        self.again = Some(now + self.pause.unwrap_or(SHORTEST));
    }

    /// Notes a whole zone that is adopted, and how long its transfer took.
    pub fn note_whole(&mut self, zone: &Zone, took: Duration, now: Instant) {
        let (kept, wanted) = (std::mem::take(&mut self.kept), std::mem::take(&mut self.wanted));
        if kept.is_empty() && wanted.is_empty() {
            return;
        }
        let found = kept.is_any_gone(zone) || wanted.is_any_gone(zone);
        let least = SHORTEST.max(took.saturating_mul(SHARE));
        let doubled = self.pause.filter(|_| !found).map_or(least, |pause| pause.saturating_mul(2).max(least));
        let pause = doubled.min(LONGEST.max(least));
        (self.pause, self.again) = (Some(pause), Some(now + pause));
    }

    /// Number of records that stay without an answer.
    pub fn records(&self) -> usize {
        self.kept.records()
    }

    /// Returns when the whole zone is to be transferred for the records that stay.
    pub fn due(&self) -> Option<Instant> {
        self.again.filter(|_| !self.kept.is_empty())
    }
}

/// Adds records by their names, as far as there is room. O(records, and those of their names)
fn gather(aside: &mut Aside, records: &[Removal]) {
    let room = MOST_REMEMBERED.saturating_sub(aside.records());
    let mut names: HashMap<&Name, Vec<AsideRecord>> = HashMap::new();
    for Removal { owner, rtype, rdata } in records.iter().take(room) {
        let record = AsideRecord { rtype: *rtype, ttl: 0, rdata: rdata.as_slice().into() };
        names.entry(owner).or_default().push(record);
    }
    names.into_iter().for_each(|(owner, records)| aside.add(owner.clone(), records));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::zone::Loader;
    use std::time::Instant as Clock;
    use wire::name::NameBuf;
    use wire::rr::rtype;

    /// A zone with these addresses at its apex.
    fn zone(addresses: &[u8]) -> Zone {
        let origin = NameBuf::parse("z").unwrap();
        let mut loader = Loader::new(origin.to_name());
        loader.push(&origin, rtype::SOA, 30, &[&[0; 2][..], &[0; 20]].concat());
        addresses.iter().for_each(|last| loader.push(&origin, rtype::A, 30, &[192, 0, 2, *last]));
        loader.finish(None).unwrap().zone
    }

    fn record(last: u8) -> Removal {
        Removal { owner: Name::parse("z").unwrap(), rtype: rtype::A, rdata: vec![192, 0, 2, last] }
    }

    /// Has a version adopted in which a record stays without an answer.
    fn adopt(recourse: &mut Recourse, last: u8) {
        let mut version = zone(&[last]);
        Recourse::tell(&mut version, &[], &[record(last)]);
        recourse.note_adopted(&version);
    }

    #[test]
    fn whole_zones_are_rare_and_ever_rarer_while_they_find_nothing() {
        let (mut recourse, mut now) = (Recourse::default(), Instant::now());
        let second = Duration::from_secs(1);
        recourse.note_whole(&zone(&[]), second, now);
        assert!(recourse.due().is_none() && recourse.wants_whole(&[record(1)], now), "at once the first time");
        assert_eq!((recourse.records(), recourse.due()), (0, None), "nothing was adopted");
        for (found, took, minutes) in
            [(false, 1, 1), (false, 1, 2), (false, 1, 4), (true, 1, 1), (true, 60, 10), (false, 1, 20), (true, 1, 1)]
        {
            recourse.note_whole(&zone(if found { &[] } else { &[1] }), took * second, now);
            assert_eq!((recourse.records(), recourse.due()), (0, None));
            assert!(!recourse.wants_whole(&[record(1)], now + second));
            adopt(&mut recourse, 1);
            assert_eq!((recourse.records(), recourse.due()), (1, Some(now + 60 * minutes * second)));
            now += 60 * minutes * second;
            assert!(recourse.wants_whole(&[record(1)], now));
        }
        for _ in 0..20 {
            adopt(&mut recourse, 1);
            recourse.note_whole(&zone(&[1]), second, now);
        }
        adopt(&mut recourse, 1);
        assert_eq!(recourse.due(), Some(now + LONGEST));
    }

    #[test]
    fn records_without_an_answer_outlive_the_process() {
        let (mut version, now) = (zone(&[1, 2]), Instant::now());
        let mut recourse = Recourse::default();
        recourse.resume(&version, now);
        assert_eq!((recourse.records(), recourse.due()), (0, None));
        Recourse::tell(&mut version, &[], &[record(1), record(2), record(1)]);
        recourse.resume(&version, now);
        assert_eq!((recourse.records(), recourse.due()), (2, Some(now)));
        assert!(recourse.take(now) && !recourse.take(now));
        recourse.note_whole(&zone(&[2]), SHORTEST, now);
        assert_eq!((recourse.records(), recourse.due()), (0, None));
    }

    #[test]
    fn a_whole_zone_that_fails_is_not_asked_for_each_time() {
        let (mut recourse, now) = (Recourse::default(), Instant::now());
        assert!(recourse.wants_whole(&[record(1)], now), "at once the first time");
        // It did not come; differences are taken until the next one is due.
        assert!(!recourse.wants_whole(&[record(2)], now + SHORTEST / 2));
        adopt(&mut recourse, 2);
        assert!(!recourse.take(now + SHORTEST / 2) && recourse.due() == Some(now + SHORTEST));
        assert!(recourse.take(now + SHORTEST), "the timer asks for it");
        assert!(!recourse.take(now + SHORTEST) && !recourse.wants_whole(&[record(3)], now + SHORTEST));
        assert_eq!(recourse.due(), Some(now + 2 * SHORTEST));
    }

    #[test]
    fn what_is_gone_is_in_doubt_no_more() {
        let (mut version, now) = (zone(&[1, 2, 3]), Instant::now());
        let mut recourse = Recourse::default();
        Recourse::tell(&mut version, &[], &[record(1), record(2)]);
        recourse.resume(&version, now);
        assert_eq!((recourse.records(), recourse.due()), (2, Some(now)));
        // Each version begins with what the one before it tells, as those of differences do.
        for (addresses, told, left) in [(&[2, 3][..], None, 1), (&[2], Some(2), 1), (&[], None, 0)] {
            let unanswered = version.unanswered.clone();
            version = zone(addresses);
            version.unanswered = unanswered;
            Recourse::tell(&mut version, &[record(1).owner], &told.map(record).into_iter().collect::<Vec<_>>());
            assert_eq!(version.unanswered.records(), left, "{addresses:?}");
            recourse.note_adopted(&version);
            assert_eq!((recourse.records(), recourse.due()), (left, Some(now).filter(|_| left > 0)), "{addresses:?}");
        }
        recourse.note_whole(&version, SHORTEST, now);
        assert!(recourse.wants_whole(&[record(1)], now), "no whole zone was needed, so none is rarer");
    }

    #[test]
    fn many_records_of_one_name_are_told_in_a_moment() {
        let rdata = |number: u32| number.to_be_bytes().to_vec();
        let records: Vec<_> = (0..10_000).map(|number| Removal { rdata: rdata(number), ..record(0) }).collect();
        let run = || {
            let (mut version, begun) = (zone(&[]), Clock::now());
            Recourse::tell(&mut version, &[], &records);
            assert_eq!(version.unanswered.records(), records.len());
            begun.elapsed()
        };
        // A record at a time takes more than fifty times as long.
        let took = (0..3).map(|_| run()).min();
        assert!(took.is_some_and(|took| took < Duration::from_secs(2)), "{took:?}");
    }
}
