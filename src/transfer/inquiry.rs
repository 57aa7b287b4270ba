//! The inquiry about removals in doubt, which a version out of differences waits for.
//!
//! The differences are applied; if removals in doubt are among them the primary is asked, and they are applied once
//! more with the records that stay. The version waits [`PATIENCE`] for answers, no longer. That a whole set is gone is
//! believed after one more question, for a set that must be there, and a poll.
//!
//! Cost: O(records at the names that changed), twice where something is in doubt, and a question for each set.

use crate::client::Server;
use crate::transfer::doubt::{Answer, Doubts, Question, Remaining};
use crate::transfer::error::TransferError;
use crate::transfer::plan::ZonePlan;
use crate::transfer::queue::Turns;
use crate::transfer::reader::Changed;
use crate::transfer::version::Version;
use crate::transfer::{poll, question};
use crate::zone::Vetoes;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout, timeout_at};
use wire::name::Name;
use wire::serial::Serial;

/// Time for which a version waits for answers.
const PATIENCE: Duration = Duration::from_secs(2);
/// Time for which each step waits for its turn: a primary that gives no answers has all zones wait for one another.
const IN_LINE: Duration = Duration::from_secs(10);
/// Pause before sets are asked for again whose absence was not confirmed: the primary has just had a commit.
const PAUSE: Duration = Duration::from_millis(20);

/// Makes a version of differences that a primary sent. Returns what was done about removals in doubt, too.
pub async fn resolve(
    changed: Changed,
    primary: &Server,
    max_records: u64,
    turns: &Arc<Turns>,
) -> Result<(Version, Remaining), TransferError> {
    let changed = Arc::new(changed);
    let mut version = Version::patch(changed.clone(), Vetoes::default(), max_records).await?;
    let removals = std::mem::take(&mut version.doubts);
    if removals.is_empty() {
        return Ok((version, Remaining::default()));
    }
    let base = changed.patcher.base();
    let doubts = Doubts::new(removals, base, &version.loaded.zone);
    let mut remaining = Inquiry::new(&base.origin, primary, turns).ask_all(doubts, changed.soa.serial).await;
    let vetoes = std::mem::take(&mut remaining.vetoes);
    if !vetoes.is_empty() {
        version = Version::patch(changed, vetoes, max_records).await?;
    }
    Ok((version, remaining))
}

/// The questions about one version.
struct Inquiry<'a> {
    zone: &'a Name,
    primary: &'a Server,
    turns: &'a Arc<Turns>,
    /// What is left of the time, beside that in line.
    left: Duration,
    /// Number of questions.
    asked: u64,
}

impl<'a> Inquiry<'a> {
    /// Nothing is asked yet.
    fn new(zone: &'a Name, primary: &'a Server, turns: &'a Arc<Turns>) -> Inquiry<'a> {
        Inquiry { zone, primary, turns, left: PATIENCE, asked: 0 }
    }

    /// Asks for all sets in doubt until each has an answer that counts or the time is over. The differences lead to the
    /// serial `to`.
    async fn ask_all(mut self, mut doubts: Doubts, to: Serial) -> Remaining {
        let mut open = doubts.open();
        while !open.is_empty() {
            // The set ends its tasks when it is dropped.
            let mut running: JoinSet<(usize, Option<Answer>)> = JoinSet::new();
            let begun = Arc::new(Notify::new());
            for (index, question) in open {
                let (zone, primary, begun) = (self.zone.clone(), self.primary.clone(), begun.clone());
                let turns = self.turns.clone();
                self.asked += 1;
                running.spawn(async move {
                    let _turn = turns.question(primary.address).await;
                    begun.notify_one();
                    (index, question::ask(&zone, &question, &primary).await)
                });
            }
            // They stand in line together, so that only their own are in front of the others from then on.
            if timeout(IN_LINE, begun.notified()).await.is_err() {
                break;
            }
            let since = Instant::now();
            while let Ok(Some(done)) = timeout_at(since + self.left, running.join_next()).await {
                if let Ok((index, answer)) = done {
                    doubts.take(index, answer);
                }
            }
            drop(running);
            self.left = self.left.saturating_sub(since.elapsed());
            if !doubts.needs_serial() {
                break;
            }
            let Some(serial) = self.ask_behind(doubts.witnesses()).await else { break };
            doubts.confirm(serial, to);
            open = doubts.open();
            if !open.is_empty() {
                tokio::time::sleep(PAUSE).await;
                self.left = self.left.saturating_sub(PAUSE);
            }
        }
        Remaining { questions: self.asked, ..doubts.finish() }
    }

    /// The serial of a primary that has just shown to have one of some sets.
    async fn ask_behind(&mut self, witnesses: &[Question]) -> Option<Serial> {
        let turn = timeout(IN_LINE, self.turns.question(self.primary.address)).await.ok()?;
        let since = Instant::now();
        let mut is_found = false;
        for witness in witnesses {
            self.asked += 1;
            let asking = question::ask(self.zone, witness, self.primary);
            let Some(answer) = timeout_at(since + self.left, asking).await.ok()? else { continue };
            is_found = answer.authoritative && !answer.records.is_empty();
            if is_found {
                break;
            }
        }
        self.left = self.left.saturating_sub(since.elapsed());
        drop(turn);
        if !is_found {
            return None;
        }
        let _turn = timeout(IN_LINE, self.turns.confirming_poll(self.primary.address)).await.ok()?;
        let since = Instant::now();
        let serial = timeout(self.left, poll::poll(self.zone, self.primary, self.left)).await.ok()?.ok()?;
        self.left = self.left.saturating_sub(since.elapsed());
        Some(serial)
    }
}

/// The serial of a primary, asked behind the last message of a whole copy: a commit up to the next one may be in that.
pub async fn ask_end(plan: &ZonePlan, index: usize, turns: &Turns) -> Option<Serial> {
    let (patience, primary) = (plan.limits.connect_timeout.min(PATIENCE), &plan.primaries[index]);
    let _turn = timeout(IN_LINE, turns.confirming_poll(primary.address)).await.ok()?;
    timeout(patience, poll::poll(&plan.origin, primary, patience)).await.ok()?.ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transfer::plan::{Limits, TimerBounds};
    use crate::zone::{Loader, Removal};
    use std::net::SocketAddr;
    use tokio::net::UdpSocket;
    use wire::name::NameBuf;
    use wire::rr::rtype;

    const SERIAL: Serial = Serial(7);
    const LONG: Duration = Duration::from_secs(30);

    /// SOA RDATA.
    fn soa() -> Vec<u8> {
        [vec![0, 0], [SERIAL.0, 30, 60, 2_592_000, 30].map(u32::to_be_bytes).concat()].concat()
    }

    /// A primary of the zone `z` with nothing beside its apex and the address of `w`, unless that is lost.
    async fn primary(is_lost: bool) -> Server {
        let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let address = socket.local_addr().unwrap();
        tokio::spawn(async move {
            let mut query = [0; 512];
            while let Ok((length, client)) = socket.recv_from(&mut query).await {
                let end = 12 + query[12..length].iter().position(|octet| *octet == 0).unwrap() + 5;
                let is_witness = query[12..14] == [1, b'w'] && !is_lost;
                let is_there = is_witness || query[end - 4..end] == [0, 6, 0, 1];
                let header = [&query[..2], &[0x84, 0, 0, 1, 0, is_there.into(), 0, (!is_there).into(), 0, 0]].concat();
                // The zone's name is the end of that in the question.
                let mut record = [&[0xc0, end as u8 - 7, 0, 6, 0, 1, 0, 0, 0, 30, 0, 22][..], &soa()].concat();
                if is_witness {
                    record = [&[0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 30, 0, 4][..], &[192, 0, 2, 2]].concat();
                }
                let _ = socket.send_to(&[&header, &query[12..end], &record].concat(), client).await;
            }
        });
        Server { address, source: None, key: None, tls: None }
    }

    /// All turns of a primary that a queue has.
    async fn take_all<T: Future<Output = crate::transfer::queue::Turn>>(turn: impl Fn() -> T) -> Vec<T::Output> {
        let mut turns = Vec::new();
        while let Ok(turn) = timeout(Duration::from_millis(50), turn()).await {
            turns.push(turn);
        }
        turns
    }

    #[tokio::test]
    async fn the_end_of_a_copy_is_asked_for_beside_timers_and_patience_begins_with_the_turn() {
        let (primary, turns) = (primary(false).await, Turns::default());
        let address: SocketAddr = primary.address;
        let patience = Duration::from_millis(500);
        let zone = Name::parse("z").unwrap();
        let plan = ZonePlan {
            zone: zone.clone(),
            origin: zone,
            primaries: vec![primary],
            notify_from: Vec::new(),
            ixfr: true,
            timers: TimerBounds::default(),
            limits: Limits { connect_timeout: patience, ..Limits::default() },
            catalog: None,
        };
        let _timers = take_all(|| turns.called_poll(address)).await;
        assert_eq!(ask_end(&plan, 0, &turns).await, Some(SERIAL), "beside timers");
        let others = take_all(|| turns.confirming_poll(address)).await;
        let (end, ()) = tokio::join!(ask_end(&plan, 0, &turns), async {
            tokio::time::sleep(2 * patience).await;
            drop(others);
        });
        assert_eq!(end, Some(SERIAL), "after those of other zones");
    }

    /// Two addresses of `z` whose removals are in doubt, beside another name.
    fn doubts() -> (Doubts, Name) {
        let mut loader = Loader::new(Name::parse("z").unwrap());
        loader.push(&NameBuf::parse("z").unwrap(), rtype::SOA, 30, &soa());
        loader.push(&NameBuf::parse("w.z").unwrap(), rtype::A, 30, &[192, 0, 2, 2]);
        let base = loader.finish(None).unwrap().zone;
        let removal = |name| Removal { owner: Name::parse(name).unwrap(), rtype: rtype::A, rdata: vec![192, 0, 2, 1] };
        (Doubts::new(vec![removal("a.z"), removal("b.z")], &base, &base), base.origin)
    }

    #[tokio::test]
    async fn answers_count_however_long_the_questions_stood_in_line() {
        let (primary, turns) = (primary(false).await, Arc::new(Turns::default()));
        let (address, (doubts, zone)) = (primary.address, doubts());
        let _timers = take_all(|| turns.called_poll(address)).await;
        let others = take_all(|| turns.question(address)).await;
        let asked = Inquiry::new(&zone, &primary, &turns).ask_all(doubts, SERIAL);
        let (outcome, ()) = timeout(LONG, async {
            tokio::join!(asked, async {
                tokio::time::sleep(PATIENCE + Duration::from_millis(200)).await;
                drop(others);
            })
        })
        .await
        .expect("an end");
        assert_eq!((outcome.unanswered.len(), outcome.vetoed, outcome.questions), (0, 0, 6), "both are gone");
    }

    #[tokio::test]
    async fn a_set_is_not_gone_where_nothing_is_there() {
        let (primary, turns) = (primary(true).await, Arc::new(Turns::default()));
        let (doubts, zone) = doubts();
        let outcome = Inquiry::new(&zone, &primary, &turns).ask_all(doubts, SERIAL).await;
        assert_eq!((outcome.unanswered.len(), outcome.questions), (2, 3));
    }
}
