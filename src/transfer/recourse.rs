//! When a whole zone is transferred because removals in doubt got no answer.
//!
//! At once the first time, then not before ten times as long as that took, a minute at least; twice as long each time that it
//! finds nothing, up to a day, after which the audit does the same. Until then the records in doubt stay: one too many for a
//! while is better than one too few. The version has these records beside it ([`Zone::unanswered`]), so a restart begins with a
//! whole zone, too.
//!
//! Cost: O(records in doubt).

use crate::transfer::settle;
use crate::zone::{AsideRecord, Removal, Zone};
use std::time::Duration;
use tokio::time::Instant;

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
    /// Records that stay without an answer.
    unanswered: Vec<Removal>,
    pause: Option<Duration>,
    /// When the next whole zone may be transferred; at once if none ever was.
    again: Option<Instant>,
}

impl Recourse {
    /// Begins with the records that an earlier process has kept for want of an answer; the whole zone is due.
    pub fn resume(&mut self, zone: &Zone, now: Instant) {
        let removals = zone.unanswered.iter().flat_map(|(owner, records)| {
            let removal = |record: &AsideRecord| Removal {
                owner: owner.clone(),
                rtype: record.rtype,
                rdata: record.rdata.to_vec(),
            };
            records.iter().map(removal)
        });
        self.unanswered.extend(removals.take(MOST_REMEMBERED));
        if !self.unanswered.is_empty() {
            self.again = Some(now);
        }
    }

    /// Has a version tell the records that stay in it for want of an answer.
    pub fn tell(zone: &mut Zone, records: &[Removal]) {
        let room = MOST_REMEMBERED.saturating_sub(zone.unanswered.records());
        for Removal { owner, rtype, rdata } in records.iter().take(room) {
            let record = AsideRecord { rtype: *rtype, ttl: 0, rdata: rdata.as_slice().into() };
            zone.unanswered.add(owner.clone(), vec![record]);
        }
    }

    /// Notes records that got no answer. Returns whether the whole zone is to be transferred now.
    pub fn note_unanswered(&mut self, records: &[Removal], now: Instant) -> bool {
        let room = MOST_REMEMBERED.saturating_sub(self.unanswered.len());
        self.unanswered.extend(records.iter().take(room).cloned());
        let is_time = self.again.is_none_or(|again| now >= again);
        if is_time {
            self.begin(now);
        }
        is_time
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

    /// Notes a whole zone, and how long its transfer took.
    pub fn note_whole(&mut self, zone: &Zone, took: Duration, now: Instant) {
        if self.unanswered.is_empty() {
            return;
        }
        let found = self.unanswered.iter().any(|record| !settle::has(zone, record));
        let least = SHORTEST.max(took.saturating_mul(SHARE));
        let doubled = self.pause.filter(|_| !found).map_or(least, |pause| pause.saturating_mul(2).max(least));
        let pause = doubled.min(LONGEST.max(least));
        (self.pause, self.again) = (Some(pause), Some(now + pause));
        self.unanswered.clear();
    }

    /// Number of records that stay without an answer.
    pub fn records(&self) -> usize {
        self.unanswered.len()
    }

    /// When the whole zone is to be transferred for the records that stay.
    pub fn due(&self) -> Option<Instant> {
        self.again.filter(|_| !self.unanswered.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::zone::Loader;
    use wire::name::{Name, NameBuf};
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

    #[test]
    fn whole_zones_are_rare_and_ever_rarer_while_they_find_nothing() {
        let (mut recourse, mut now) = (Recourse::default(), Instant::now());
        let second = Duration::from_secs(1);
        recourse.note_whole(&zone(&[]), second, now);
        assert!(recourse.due().is_none() && recourse.note_unanswered(&[record(1)], now), "at once the first time");
        for (found, took, minutes) in
            [(false, 1, 1), (false, 1, 2), (false, 1, 4), (true, 1, 1), (true, 60, 10), (false, 1, 20), (true, 1, 1)]
        {
            recourse.note_whole(&zone(if found { &[] } else { &[1] }), took * second, now);
            assert_eq!((recourse.records(), recourse.due()), (0, None));
            assert!(!recourse.note_unanswered(&[record(1)], now + second));
            assert_eq!((recourse.records(), recourse.due()), (1, Some(now + 60 * minutes * second)));
            now += 60 * minutes * second;
            assert!(recourse.note_unanswered(&[record(1)], now));
        }
        for _ in 0..20 {
            recourse.note_unanswered(&[record(1)], now);
            recourse.note_whole(&zone(&[1]), second, now);
        }
        recourse.note_unanswered(&[record(1)], now);
        assert_eq!(recourse.due(), Some(now + LONGEST));
    }

    #[test]
    fn records_without_an_answer_outlive_the_process() {
        let (mut version, now) = (zone(&[1, 2]), Instant::now());
        let mut recourse = Recourse::default();
        recourse.resume(&version, now);
        assert_eq!((recourse.records(), recourse.due()), (0, None));
        Recourse::tell(&mut version, &[record(1), record(2), record(1)]);
        recourse.resume(&version, now);
        assert_eq!((recourse.records(), recourse.due()), (2, Some(now)));
        assert!(recourse.take(now) && !recourse.take(now));
        recourse.note_whole(&zone(&[2]), SHORTEST, now);
        assert_eq!((recourse.records(), recourse.due()), (0, None));
    }

    #[test]
    fn a_whole_zone_that_fails_is_not_asked_for_each_time() {
        let (mut recourse, now) = (Recourse::default(), Instant::now());
        assert!(recourse.note_unanswered(&[record(1)], now), "at once the first time");
        // It did not come; differences are taken until the next one is due.
        assert!(!recourse.note_unanswered(&[record(2)], now + SHORTEST / 2));
        assert!(!recourse.take(now + SHORTEST / 2) && recourse.due() == Some(now + SHORTEST));
        assert!(recourse.take(now + SHORTEST), "the timer asks for it");
        assert!(!recourse.take(now + SHORTEST) && !recourse.note_unanswered(&[record(3)], now + SHORTEST));
        assert_eq!(recourse.due(), Some(now + 2 * SHORTEST));
    }
}
