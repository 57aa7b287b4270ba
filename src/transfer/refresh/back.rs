//! The step back to an older version: when it is due, and how it is taken (`docs/regions.md` 24; `serial_regression`
//! keeps count).
//!
//! Cost: O(1), and a transfer of the whole zone.

use super::{Aim, Refreshed, Task};
use crate::source::WakeKind;
use crate::timestamp::format_timestamp;
use crate::transfer::error::TransferError;
use crate::transfer::serial_regression::Older;
use crate::transfer::status::{RegressionStatus, unix_after, unix_before};
use crate::transfer::timers;
use std::time::{Duration, SystemTime};
use tokio::time::Instant;
use tracing::{info, warn};

impl Task {
    /// Transfers the newest of the older versions, if it is time for that or somebody says so.
    pub(super) async fn go_back(&mut self, kind: WakeKind, older: &Older) -> Option<Result<Refreshed, TransferError>> {
        let (zone, primary, serial) = (self.accounts.zone(), self.accounts.primary(older.primary), older.serial);
        if kind == (WakeKind::Retransfer { accept: true }) {
            warn!(%zone, %primary, serial = serial.0, "every primary that answers has an older serial; the zone goes back as ordered");
        } else if self.ours().base.is_some_and(|zone| zone.owners <= 1) {
            info!(%zone, %primary, serial = serial.0, "the primary has an older serial, and ours has nothing beside the apex");
        } else if older.has_lasted(self.wait_before(older), Instant::now()) {
            warn!(%zone, %primary, serial = serial.0, "every primary that answers has had an older serial on {} refreshes in a row, \
                  for {:?}; the zone goes back to it", older.rounds, older.since.elapsed());
        } else {
            if older.rounds == 1 {
                let wait = self.describe_wait(older);
                warn!(%zone, %primary, serial = serial.0, "every primary that answers has an older serial; ours is kept {wait}");
            }
            return None;
        }
        let result = self.transfer_zone(older.primary, Aim { any_serial: true, ..Aim::of(kind) }).await;
        if result.is_ok() {
            self.good = older.primary;
        }
        // What waits is older still, and is to be confirmed.
        if matches!(result, Ok(Refreshed::Adopted(_))) {
            self.regression.older = None;
        }
        Some(result)
    }

    /// Returns how long older answers must last before the zone goes back.
    fn wait_before(&self, older: &Older) -> Duration {
        let soa = self.ours().base.map(|zone| zone.soa);
        timers::before_regression(soa.as_ref(), older.is_partial, &self.plan.timers)
    }

    /// The same in words.
    pub(super) fn describe_wait(&self, older: &Older) -> String {
        let left = self.wait_before(older).saturating_sub(older.since.elapsed());
        format!("until {} or an accepted retransfer", format_timestamp(SystemTime::now() + left))
    }

    /// Returns when the zone goes back, if nothing else is heard.
    pub(super) fn back_at(&self) -> Option<Instant> {
        self.regression.older.map(|older| older.since + self.wait_before(&older))
    }

    /// Describes for operators when the zone goes back.
    pub(super) fn regression_status(&self) -> Option<RegressionStatus> {
        self.regression.older.map(|older| {
            let (age, wait) = (older.since.elapsed(), self.wait_before(&older));
            let until = unix_after(wait.saturating_sub(age));
            RegressionStatus { serial: older.serial, since: unix_before(age), until, partial: older.is_partial }
        })
    }
}
