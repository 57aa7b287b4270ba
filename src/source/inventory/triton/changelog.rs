//! Follows UFDS' change log, which tells that accounts have changed.
//!
//! The number of the latest change is asked for every five seconds; where it has grown, the changes since are read, and
//! the accounts that they are about are told, whatever has changed of them. Where it cannot be known that the changes are
//! complete, as those of a directory that was restored from a copy or whose log was shortened, everything is told to be
//! read again.
//!
//! Numbers are given before changes are written, so that of two changes at a time the later number may be in the log
//! first. A number that is missing may come for a minute: as long as there is one, the changes of that minute are read
//! again with each look, and those are told that were not there before.
//!
//! Invariants: numbers are compared as numbers; the position advances only when the changes up to it were read; what is
//! told after a failure includes all changes since the last success; a change is told once, however late it comes within
//! that minute.
//!
//! Cost: a search every five seconds, and one for 1,000 changes, those of the last minute among them while a number is
//! missing.

use super::accounts::News;
use super::call_error::CallError;
use super::ufds::{Change, Page, Ufds};
use inventory::model::Uuid;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep};

/// Pause between two looks.
const PAUSE: Duration = Duration::from_secs(5);
/// Pause after a failure; it doubles up to the other one.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
/// Time for which a number that is missing may still come.
const LATE: Duration = Duration::from_secs(60);
/// Pages that are read in one go. After more of them, reading all accounts again is less.
const MOST_PAGES: usize = 16;

/// Follows the log until nobody listens. A look that finds nothing is told after a failure only, and so is a failure once.
pub async fn follow(ufds: Arc<Ufds>, told: mpsc::Sender<News>) {
    let mut position: Option<Position> = None;
    let mut last_failure = None;
    let mut pause = FIRST_PAUSE;
    loop {
        let news = match look(&ufds, &mut position).await {
            Ok(news) => {
                pause = PAUSE;
                let is_empty = matches!(&news, News::Changed(accounts) if accounts.is_empty());
                (last_failure.take().is_some() || !is_empty).then_some(news)
            }
            Err(error) => {
                let failure = error.failure("UFDS");
                pause = if last_failure.is_some() { (2 * pause).min(PAUSE) } else { FIRST_PAUSE };
                let is_new = last_failure.as_ref() != Some(&failure);
                last_failure = Some(failure.clone());
                is_new.then_some(News::Failed(failure))
            }
        };
        if let Some(news) = news
            && told.send(news).await.is_err()
        {
            return;
        }
        sleep(pause).await;
    }
}

/// Looks once, and moves the position to the latest change.
async fn look(ufds: &Ufds, position: &mut Option<Position>) -> Result<News, CallError> {
    let (latest, now) = (ufds.latest().await?, Instant::now());
    if let Some(known) = position
        && known.last() <= latest
    {
        if known.last() == latest && known.is_settled(now) {
            return Ok(News::Changed(Vec::new()));
        }
        if let Some(changes) = read(ufds, known.settled, latest).await? {
            return Ok(News::Changed(known.take(changes, now)));
        }
    }
    let began = Instant::now();
    let operator = ufds.operator().await?;
    *position = Some(Position::new(latest));
    Ok(News::Missed { operator, began })
}

/// Reads the changes behind a number; none if there may have been others.
async fn read(ufds: &Ufds, from: u64, latest: u64) -> Result<Option<BTreeMap<u64, Option<Uuid>>>, CallError> {
    let mut reading = Reading::new(from, latest);
    for _ in 0..MOST_PAGES {
        match reading.take(&ufds.changes(reading.position).await?) {
            Step::More => {}
            Step::Whole => return Ok(Some(reading.changes)),
            Step::Doubtful => break,
        }
    }
    Ok(None)
}

/// How far the log was read.
struct Position {
    /// Number up to which all is told, and nothing is waited for.
    settled: u64,
    /// Numbers behind it that were told.
    told: BTreeSet<u64>,
    /// The last number of each look since.
    looks: VecDeque<(Instant, u64)>,
}

impl Position {
    /// Everything up to a number is known.
    fn new(settled: u64) -> Position {
        Position { settled, told: BTreeSet::new(), looks: VecDeque::new() }
    }

    /// The last number that was told.
    fn last(&self) -> u64 {
        self.told.last().copied().unwrap_or(self.settled)
    }

    /// Returns true if no number is waited for; those that have been missing for long are no more.
    fn is_settled(&mut self, now: Instant) -> bool {
        while let Some((at, last)) = self.looks.front().copied()
            && now.saturating_duration_since(at) >= LATE
        {
            self.looks.pop_front();
            self.settled = last;
            self.told = self.told.split_off(&(last + 1));
        }
        if self.told.len() as u64 == self.last() - self.settled {
            *self = Position::new(self.last());
        }
        self.told.is_empty()
    }

    /// Takes the changes behind the settled number. Returns the accounts of those that are new.
    fn take(&mut self, changes: BTreeMap<u64, Option<Uuid>>, now: Instant) -> Vec<Uuid> {
        let new: BTreeSet<Uuid> = changes
            .iter()
            .filter(|(number, _)| !self.told.contains(number))
            .filter_map(|(_, account)| *account)
            .collect();
        self.told.extend(changes.into_keys());
        if self.looks.back().is_none_or(|(_, last)| *last < self.last()) {
            self.looks.push_back((now, self.last()));
        }
        self.is_settled(now);
        new.into_iter().collect()
    }
}

/// What follows a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// The next page is to be read, from the position on.
    More,
    /// All changes were read.
    Whole,
    /// Changes may be missing.
    Doubtful,
}

/// Changes that are read page by page.
pub struct Reading {
    position: u64,
    latest: u64,
    changes: BTreeMap<u64, Option<Uuid>>,
}

impl Reading {
    /// Begins behind a position, up to the latest change.
    pub fn new(position: u64, latest: u64) -> Reading {
        Reading { position, latest, changes: BTreeMap::new() }
    }

    /// Takes in a page, which begins with the change at the position: a log that does not have it any more may lack those
    /// behind it, too. Numbers have gaps, since changes that came to nothing had theirs.
    pub fn take(&mut self, page: &Page) -> Step {
        let has = |number: u64| page.changes.iter().any(|change| change.number == number);
        let ascends = page.changes.is_sorted_by_key(|change| change.number);
        if self.position > 0 && !has(self.position) || page.is_cut && !ascends {
            return Step::Doubtful;
        }
        let new = |change: &&Change| change.number > self.position;
        self.changes.extend(page.changes.iter().filter(new).map(|change| (change.number, change.account)));
        let last = page.changes.iter().map(|change| change.number).max().unwrap_or(self.position);
        if last >= self.latest {
            return Step::Whole;
        }
        if !page.is_cut || last == self.position {
            return Step::Doubtful;
        }
        self.position = last;
        Step::More
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn account(number: u64) -> Uuid {
        Uuid::from_u128(number.into())
    }

    fn page(numbers: impl IntoIterator<Item = u64>, is_cut: bool) -> Page {
        let change = |number| Change { number, account: (number % 2 == 0).then(|| account(number)) };
        Page { changes: numbers.into_iter().map(change).collect(), is_cut }
    }

    fn accounts(reading: &Reading) -> Vec<Uuid> {
        reading.changes.values().copied().flatten().collect()
    }

    #[test]
    fn numbers_grow_by_a_digit() {
        let mut reading = Reading::new(999, 1000);
        assert_eq!(reading.take(&page([999, 1000], false)), Step::Whole);
        assert_eq!(accounts(&reading), [account(1000)]);
        let mut reading = Reading::new(42, 100);
        assert_eq!(reading.take(&page([42, 100], false)), Step::Whole);
        assert_eq!(accounts(&reading), [account(100)], "the change at the position was told before");
    }

    #[test]
    fn pages_follow_each_other() {
        let mut reading = Reading::new(10, 14);
        assert_eq!(reading.take(&page([10, 11, 12], true)), Step::More);
        assert_eq!(reading.take(&page([12, 13, 14, 16], true)), Step::Whole, "the log has grown meanwhile");
        assert_eq!(accounts(&reading), [account(12), account(14), account(16)]);
        let mut first = Reading::new(0, 2);
        assert_eq!(first.take(&page([1, 2], false)), Step::Whole);
    }

    #[test]
    fn a_number_that_comes_late_is_told() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let read = |numbers: &[u64]| numbers.iter().map(|number| (*number, Some(account(*number)))).collect();
        let mut position = Position::new(10);
        assert_eq!(position.take(read(&[11, 13]), at(0)), [account(11), account(13)]);
        assert!(!position.is_settled(at(5)), "12 may come");
        assert_eq!(position.take(read(&[11, 13, 14]), at(5)), [account(14)]);
        assert_eq!(position.take(read(&[11, 12, 13, 14]), at(10)), [account(12)]);
        assert!(position.is_settled(at(10)) && position.settled == 14);
        assert_eq!(position.take(read(&[16]), at(20)), [account(16)]);
        assert!(!position.is_settled(at(79)) && position.settled == 14);
        assert_eq!(position.take(read(&[16, 18]), at(79)), [account(18)]);
        assert!(!position.is_settled(at(80)) && position.settled == 16, "15 is no more, 17 may come");
        assert!(position.is_settled(at(139)) && position.settled == 18);
    }

    #[test]
    fn what_may_lack_changes_is_not_believed() {
        let doubtful: [(u64, Vec<u64>, bool); 5] = [
            (10, vec![12, 14], false),
            (10, vec![10, 12], false),
            (10, vec![], false),
            (10, vec![10], true),
            (10, vec![10, 13, 12], true),
        ];
        for (position, numbers, is_cut) in doubtful {
            let step = Reading::new(position, 14).take(&page(numbers.clone(), is_cut));
            assert_eq!(step, Step::Doubtful, "{numbers:?}");
        }
    }
}
