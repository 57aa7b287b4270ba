//! The question at our own serial, which has a CNS that has given up on us announce changes again (see `silence`).
//!
//! Invariant: it waits for a turn as a transfer does, but no longer than for a message. Cost: one message.

use super::Task;
use crate::budget::Manner as Purpose;
use crate::client::random_id;
use crate::transfer::connection;
use crate::transfer::progress::Tally;
use crate::transfer::reader::Reader;
use crate::transfer::status::Activity;
use tokio::time::{Instant, timeout};
use tracing::{debug, info};

impl Task {
    /// Has a primary that may have forgotten us see a transfer, where that is to be done and differences may be asked
    /// for.
    pub(super) async fn ask_for_nothing(&self) {
        let (index, limits) = (self.good, &self.plan.limits);
        let may_ask = self.plan.ixfr && self.manners[index].may_ask(Instant::now());
        let Some(base) = self.ours().base.filter(|_| may_ask) else { return };
        let Some(silence) = self.ears.claim(index, Some(&base.soa)) else { return };
        let (zone, serial, primary) = (self.accounts.zone(), base.soa.serial, &self.plan.primaries[index]);
        self.shared.status().turn_to(Activity::Queued);
        let turn = timeout(limits.message_timeout, self.turns.transfer(primary.address, limits.per_primary)).await;
        self.shared.status().turn_to(Activity::Idle);
        // Whoever was in front has started CNS' time, or a NOTIFY has come.
        if turn.is_err() || !silence.is_owed() {
            return;
        }
        let claim = self.budget.begin(&self.plan.zone, Purpose::Change);
        let primary_label = self.accounts.primary(index);
        // CNS takes the question for a transfer. One message and the time for one are the most that this takes.
        let reader = Reader::ixfr(base, random_id()).with_opening_alone();
        match connection::fetch(reader, primary, limits, &Tally::default(), &claim).await {
            // Anything newer is found by the next poll, and is a transfer then.
            Ok((received, _)) if received.soa().serial == serial => {
                silence.note_question(Instant::now());
                self.accounts.note_question(index);
                info!(%zone, primary = %primary_label, serial = serial.0,
                      "CNS was asked at our own serial, so that it announces changes again");
            }
            Ok(_) => {}
            Err(error) => {
                debug!(%zone, primary = %primary_label, serial = serial.0, "the question at our own serial failed: {error}");
            }
        }
    }
}
