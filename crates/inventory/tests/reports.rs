//! Reports that outlive what happens to instances, rules and the process.

mod cases;

use cases::{addressed, member, member_uuid, plain_config};
use inventory::kept::Kept;
use inventory::model::{Change, Element, Key, Moment};
use inventory::roster::{Health, Roster};
use std::time::Duration;

const NOW: Moment = Moment(1_700_000_000_000);

fn after(seconds: u64) -> Moment {
    NOW.plus(Duration::from_secs(seconds))
}

fn roster(members: u8) -> Roster {
    let mut roster = Roster::new(plain_config(), NOW);
    roster.replace(addressed(members), NOW);
    roster.settle(NOW);
    roster
}

/// What a process has that was told of all this in turn.
fn restart(kept: Kept, now: Moment) -> Roster {
    let (mut roster, unread) = Roster::restore(plain_config(), &kept, now);
    assert_eq!(unread, 0);
    roster.settle(now);
    roster
}

fn reported(roster: &Roster, number: u8) -> Option<(Health, bool)> {
    let report = roster.explain(member_uuid(number))?.report?;
    Some((report.health, report.is_lapsed))
}

/// An instance that went and came again has left a stone in the journal, which is read before its report counts.
#[test]
fn a_report_on_an_instance_that_came_back_outlives_a_restart() {
    let mut roster = roster(3);
    let mut kept = roster.keep();
    let mut write = |roster: &mut Roster| {
        let changes = roster.keep_changes();
        kept.elements.extend(changes.elements);
        kept.retained.extend(changes.retained);
    };
    roster.apply(Change::Gone(Key::Vm(member_uuid(1))), NOW);
    roster.settle(NOW);
    write(&mut roster);
    roster.apply(Change::Put(Element::Vm(member(1))), NOW);
    roster.settle(NOW);
    roster.report(member_uuid(1), Health::Down, None, NOW);
    roster.settle(NOW);
    write(&mut roster);
    assert_eq!(reported(&restart(kept, after(1)), 1), Some((Health::Down, false)));
}

/// What was not written before the rules changed is written after it.
#[test]
fn other_rules_forget_nothing_that_is_to_be_kept() {
    let mut roster = roster(3);
    let mut kept = roster.keep();
    roster.report(member_uuid(1), Health::Down, None, NOW);
    roster.apply(Change::Gone(Key::Vm(member_uuid(2))), NOW);
    roster.reconfigure(plain_config(), after(1));
    let changes = roster.keep_changes();
    kept.elements.extend(changes.elements);
    kept.retained.extend(changes.retained);
    let again = restart(kept, after(2));
    assert_eq!(reported(&again, 1), Some((Health::Down, false)));
    assert!(again.explain(member_uuid(2)).is_none());
}

/// Times to live begin anew after a restart, but for those that had passed.
#[test]
fn silence_from_before_a_restart_is_silence_after_it() {
    let mut roster = roster(3);
    let ttl = Some(Duration::from_secs(60));
    roster.report(member_uuid(1), Health::Up, ttl, NOW);
    roster.report(member_uuid(2), Health::Up, ttl, after(50));
    roster.settle(after(61));
    let again = restart(roster.keep(), after(300));
    assert_eq!((reported(&again, 1), reported(&again, 2)), (Some((Health::Up, true)), Some((Health::Up, false))));
}

/// However often an instance is reported, and with whatever times to live, it lapses when the last one says.
#[test]
fn many_reports_wake_nobody_but_at_the_last_of_their_ends() {
    let mut roster = roster(1);
    let month = Some(Duration::from_secs(30 * 86_400));
    for second in 0..20_000 {
        let ttl = if second % 2 == 0 { month } else { Some(Duration::from_secs(5)) };
        roster.report(member_uuid(1), Health::Up, ttl, after(second));
    }
    let mut now = after(20_000);
    let mut wakes = 0;
    // Those of every second are few: one that is pending, and those that shorter times to live have overtaken.
    while let Some(next) = roster.settle(now).next.filter(|next| *next <= after(20_003)) {
        (now, wakes) = (next.max(now), wakes + 1);
        assert!(wakes < 50, "woken at {next:?}");
        if next <= now {
            now = after(20_004);
        }
    }
    assert_eq!(reported(&roster, 1), Some((Health::Up, false)));
    roster.settle(after(20_005));
    assert_eq!(reported(&roster, 1), Some((Health::Up, true)));
}

/// A report that is given again after silence is one after a restart, too.
#[test]
fn a_report_after_silence_outlives_a_restart() {
    let ttl = Some(Duration::from_secs(30));
    let mut roster = roster(1);
    roster.report(member_uuid(1), Health::Up, ttl, NOW);
    roster.settle(NOW);
    let mut kept = roster.keep();
    roster.settle(after(30));
    kept.retained.extend(roster.keep_changes().retained);
    roster.report(member_uuid(1), Health::Up, ttl, after(31));
    roster.settle(after(31));
    kept.retained.extend(roster.keep_changes().retained);
    assert_eq!(reported(&roster, 1), Some((Health::Up, false)));
    assert_eq!(reported(&restart(kept, after(32)), 1), Some((Health::Up, false)));
}
