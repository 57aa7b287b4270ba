//! Restarts of the daemon between a transfer and what follows: what was in doubt is so still.

use crate::NO_AUDIT;
use crate::harness::{Client, Record, difference, wait_until};
use crate::stand::{PATIENCE, Stand, wait_for_records};
use std::time::SystemTime;

/// Waits until the first zone has these records.
fn wait_for(stand: &Stand, expected: &[Record]) {
    let mut client = Client::new(stand.daemon.address()).with_deadline(PATIENCE);
    wait_for_records(&mut client, &stand.sites[0].truth().0, |records| difference(expected, records));
}

/// Returns the records of the first zone.
fn served(stand: &Stand) -> Vec<Record> {
    Client::new(stand.daemon.address()).transfer(&stand.sites[0].truth().0).expect("a transfer")
}

/// Habit 8: that CNS has a record twice is known from before the restart.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn the_removal_of_one_copy_is_asked_about_after_a_restart() {
    let mut stand = Stand::start_kept(1, 4, NO_AUDIT).await.unwatched();
    let site = &mut stand.sites[0];
    // With this step the copy is no longer mixed: the records' own marks are all that is left.
    site.datacenter.scale_up("db", 1, SystemTime::now());
    site.publish();
    wait_for(&stand, &stand.sites[0].records());
    stand.daemon.kill_and_restart(|| ());
    let site = &mut stand.sites[0];
    let found = site.datacenter.instances().iter().find(|instance| instance.addresses.len() == 2);
    let alias = found.expect("an instance with two addresses").alias.clone();
    assert!(site.datacenter.set_dual_stack(&alias, false, SystemTime::now()));
    site.publish();
    wait_for(&stand, &stand.sites[0].records());
    wait_until("it is counted", PATIENCE, || (stand.vetoed() > 0).then_some(()));
    // Counted since the restart: no whole zone has brought back what was lost.
    stand.wait_for_adopted(0, 1);
}

/// A record for which CNS gives no answer stays, and is known as such until a whole zone tells.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn records_without_an_answer_are_still_known_after_a_restart() {
    let mut stand = Stand::start_kept(1, 34, NO_AUDIT).await.unwatched();
    stand.sites[0].primary.set_refusing(true);
    let remove = |stand: &mut Stand| {
        stand.sites[0].datacenter.scale_down("web", 1, SystemTime::now());
        stand.sites[0].publish();
        stand.sites[0].records()
    };
    // The whole zone is transferred the first time, and not soon again.
    let expected = remove(&mut stand);
    wait_for(&stand, &expected);
    stand.wait_for_adopted(2, 0);
    let expected = remove(&mut stand);
    let kept = wait_until("records stay", PATIENCE, || Some(stand.in_doubt()).filter(|records| *records > 0));
    // Counted when the version is adopted, which is before it is served.
    let serial = stand.sites[0].serial();
    let is_newest = |records: &Vec<Record>| records[0].serial() == serial;
    let before = wait_until("that version is served", PATIENCE, || Some(served(&stand)).filter(is_newest));
    assert_eq!(before.len(), expected.len() + kept as usize);
    // Nobody is there to ask.
    stand.sites[0].primary.set_away(true);
    stand.daemon.kill_and_restart(|| ());
    wait_until("the records are still known", PATIENCE, || (stand.in_doubt() == kept).then_some(()));
    assert_eq!(difference(&before, &served(&stand)), None);
    let status = stand.daemon.verb(&["status", &stand.sites[0].origin().to_string()]).stdout;
    assert!(status.contains(&format!("{kept} removed record")), "{status}");
    // CNS is back and refuses questions as before: the whole zone is the first thing that is asked for.
    stand.daemon.kill_and_restart(|| stand.sites[0].primary.set_away(false));
    wait_for(&stand, &expected);
    stand.wait_for_adopted(1, 0);
    wait_until("nothing is in doubt", PATIENCE, || (stand.in_doubt() == 0).then_some(()));
}
