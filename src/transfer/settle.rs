//! A version out of differences, with their removals in doubt settled.
//!
//! The differences are applied; if removals in doubt are among them the primary is asked, and they are applied once
//! more with the records that stay. The version waits [`PATIENCE`] for answers, no longer.
//!
//! Cost: O(records at the names that changed), twice where something is in doubt, and a question for each set.

use crate::transfer::doubt::{Answer, Doubts, Outcome};
use crate::transfer::error::TransferError;
use crate::transfer::plan::{PrimaryPlan, ZonePlan};
use crate::transfer::queue::Turns;
use crate::transfer::reader::Changed;
use crate::transfer::version::Version;
use crate::transfer::{poll, question};
use crate::zone::{Removal, Vetoes, Zone};
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout, timeout_at};
use wire::name::Name;
use wire::serial::Serial;

/// How long a version waits for answers.
const PATIENCE: Duration = Duration::from_secs(2);
/// Pause before sets are asked for again whose absence was not confirmed: the primary has just had a commit.
const PAUSE: Duration = Duration::from_millis(20);

/// What was done about removals in doubt.
#[derive(Debug, Default)]
pub struct Settled {
    /// Questions that were asked.
    pub questions: u64,
    /// Records that stay because the primary has them.
    pub vetoed: u64,
    /// Records that stay because nobody knows.
    pub unanswered: Vec<Removal>,
}

/// Makes a version of differences that a primary sent.
pub async fn settle(
    changed: Changed,
    primary: &PrimaryPlan,
    max_records: u64,
    turns: &Turns,
) -> Result<(Version, Settled), TransferError> {
    let changed = Arc::new(changed);
    let mut version = Version::patch(changed.clone(), Vetoes::default(), max_records).await?;
    let removals = std::mem::take(&mut version.doubts);
    if removals.is_empty() {
        return Ok((version, Settled::default()));
    }
    let doubts = Doubts::new(removals, changed.base(), &version.loaded.zone);
    let (Outcome { vetoes, vetoed, unanswered }, questions) =
        ask_all(doubts, &changed.base().origin, changed.soa.serial, (primary, turns)).await;
    if !vetoes.is_empty() {
        version = Version::patch(changed, vetoes, max_records).await?;
    }
    Ok((version, Settled { questions, vetoed, unanswered }))
}

/// Asks for all sets in doubt until all are settled or the time is over. Returns what came of it and how many questions
/// it took.
async fn ask_all(
    mut doubts: Doubts,
    zone: &Name,
    to: Serial,
    (primary, turns): (&PrimaryPlan, &Turns),
) -> (Outcome, u64) {
    let (deadline, mut asked) = (Instant::now() + PATIENCE, 0);
    loop {
        // The set ends its tasks when it is dropped.
        let mut running: JoinSet<(usize, Option<Answer>)> = JoinSet::new();
        for (index, question) in doubts.open() {
            let (zone, primary) = (zone.clone(), primary.clone());
            asked += 1;
            running.spawn(async move { (index, question::ask(&zone, &question, &primary).await) });
        }
        while let Ok(Some(done)) = timeout_at(deadline, running.join_next()).await {
            if let Ok((index, answer)) = done {
                doubts.take(index, answer);
            }
        }
        if !doubts.needs_serial() {
            break;
        }
        let left = deadline.saturating_duration_since(Instant::now());
        let asked = async {
            let _turn = turns.poll(primary.address).await;
            poll::poll(zone, primary, left).await
        };
        match timeout(left, asked).await {
            Ok(Ok(serial)) => doubts.confirm(serial, to),
            _ => break,
        }
        if doubts.open().is_empty() {
            break;
        }
        tokio::time::sleep(PAUSE).await;
    }
    (doubts.finish(), asked)
}

/// The serial of a primary, asked behind the last message of a whole copy: a commit up to the next one may be in that.
pub async fn ask_end(plan: &ZonePlan, index: usize, turns: &Turns) -> Option<Serial> {
    let (patience, primary) = (plan.limits.connect_timeout.min(PATIENCE), &plan.primaries[index]);
    let asked = async {
        let _turn = turns.poll(primary.address).await;
        poll::poll(&plan.origin, primary, patience).await
    };
    timeout(patience, asked).await.ok()?.ok()
}

/// Whether a version has a record.
pub fn has(zone: &Zone, record: &Removal) -> bool {
    let set = zone.get(record.owner.as_wire()).and_then(|node| node.get(record.rtype));
    let is_same = |rdata: &[u8]| wire::rr::compare(record.rtype, rdata, &record.rdata).is_eq();
    set.is_some_and(|set| set.rdatas().any(is_same))
}
