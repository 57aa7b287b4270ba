//! What instances report of themselves, or others report of them.
//!
//! A report counts in place of the metadata until it is withdrawn or the instance goes. One with a time to live is a
//! report of being down once that has passed without another: silence is a soft reason, which damping may hold.
//!
//! Invariants: an instance has one report at most, and only an instance that is known; each time to live begins anew
//! after a restart, for nobody could report meanwhile, but not when rules change, nor one that has passed.
//!
//! Cost: O(log wakes) for each report; one that says what the last one said touches nothing else. However many come, the
//! wakes for them are at most two for each instance, and some.

use super::{Health, Latest, Roster, Wake};
use crate::model::{Moment, Uuid};
use std::collections::HashMap;
use std::time::Duration;

/// Wakes for reports beside one for each instance, before those that are of no use any more are taken away.
const SPARE_WAKES: usize = 1024;

/// What was reported last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Report {
    pub(super) health: Health,
    pub(super) ttl: Option<Duration>,
    pub(super) until: Option<Moment>,
}

/// A report as operators see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reported {
    /// What was said.
    pub health: Health,
    /// Moment at which silence becomes a report of being down.
    pub until: Option<Moment>,
    /// True if that moment has passed.
    pub is_lapsed: bool,
}

impl Report {
    /// What counts at a moment.
    pub(super) fn at(self, now: Moment) -> Health {
        if self.is_lapsed(now) { Health::Down } else { self.health }
    }

    pub(super) fn is_lapsed(self, now: Moment) -> bool {
        self.until.is_some_and(|until| until <= now)
    }
}

impl Roster {
    /// Takes a report, which counts in place of the metadata until it is withdrawn or the instance goes. After `ttl` without
    /// another it is a report of being down. False: no such instance.
    pub fn report(&mut self, vm: Uuid, health: Health, ttl: Option<Duration>, now: Moment) -> bool {
        self.pass(now);
        if !self.vms.contains_key(&vm) {
            return false;
        }
        let report = Report { health, ttl, until: ttl.map(|ttl| self.now.plus(ttl)) };
        let before = self.reports.get(&vm).copied();
        self.put_report(vm, report);
        let now = self.now;
        if before.is_none_or(|before| (before.health, before.ttl) != (health, ttl) || before.is_lapsed(now)) {
            self.keeping.reports.insert(vm);
        }
        if before.is_none_or(|before| before.at(now) != health) {
            self.dirty.insert(vm, self.now);
        }
        true
    }

    /// Withdraws a report. False: there was none.
    pub fn withdraw_report(&mut self, vm: Uuid, now: Moment) -> bool {
        self.pass(now);
        let was_there = self.reports.contains_key(&vm);
        self.drop_report(vm);
        if was_there && self.vms.contains_key(&vm) {
            self.dirty.insert(vm, self.now);
        }
        was_there
    }

    /// The report of an instance, if there is one.
    pub(super) fn reported(&self, vm: Uuid) -> Option<Reported> {
        let report = self.reports.get(&vm)?;
        Some(Reported { health: report.health, until: report.until, is_lapsed: report.is_lapsed(self.now) })
    }

    /// Puts a report in the place of another, and looks at the instance when it lapses.
    pub(super) fn put_report(&mut self, vm: Uuid, report: Report) {
        self.reports.insert(vm, report);
        if let Some(until) = report.until {
            self.watch_report(vm, until);
        }
    }

    /// Looks at the report of an instance at a moment, or before it, where that is to be done anyway.
    fn watch_report(&mut self, vm: Uuid, until: Moment) {
        if self.report_wakes.get(&vm).is_some_and(|pending| *pending <= until) {
            return;
        }
        self.report_wakes.insert(vm, until);
        self.wakes.push(Latest((until, Wake::Report(vm))));
        self.pushed_report_wakes += 1;
        if self.pushed_report_wakes > self.vms.len() + SPARE_WAKES {
            let pending = &self.report_wakes;
            self.wakes.retain(|Latest((at, wake))| !matches!(wake, Wake::Report(vm) if pending.get(vm) != Some(at)));
            self.pushed_report_wakes = 0;
        }
    }

    /// Looks at the report of an instance: whether it has lapsed, or another came in its place.
    pub(super) fn wake_report(&mut self, vm: Uuid, at: Moment) {
        if self.report_wakes.get(&vm) != Some(&at) {
            return;
        }
        self.report_wakes.remove(&vm);
        match self.reports.get(&vm).and_then(|report| report.until) {
            Some(until) if until > self.now => self.watch_report(vm, until),
            Some(until) => {
                self.keeping.reports.insert(vm);
                self.dirty.entry(vm).or_insert(until);
            }
            None => {}
        }
    }

    /// Goes on with the reports of another, whose times to live go on, too.
    pub(super) fn carry_reports(&mut self, reports: &HashMap<Uuid, Report>) {
        reports.iter().for_each(|(vm, report)| self.put_report(*vm, *report));
    }

    /// Forgets the report of an instance.
    pub(super) fn drop_report(&mut self, vm: Uuid) {
        if self.reports.remove(&vm).is_some() {
            self.keeping.reports.insert(vm);
        }
    }
}
