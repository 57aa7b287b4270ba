//! Restart and upgrade by systemd and dpkg in the emulated machine, under a storm of queries from outside.
//!
//! The machine starts with the previous package, is upgraded to the present one, and then restarts its server again and
//! again. It waits for the storm before it begins: a port of ours that it tries to reach. In the end it reloads, which
//! asks the host first.

use crate::harness::{Port, Storm, StormPlan};
use crate::machine::{Firmware, Machine, NICS, PATIENCE, configuration, make_disk, wait_for_port};
use crate::site::{KEY, Site, image, question};
use std::net::TcpListener;
use std::time::Duration;

/// Longer than any restart takes in the emulator; who is not answered by then has lost a query.
const LOST_AFTER: Duration = Duration::from_secs(60);
const RESTARTS: usize = 8;
/// Much sooner than the watcher looks at the metadata again.
const BEFORE_THE_NEXT_LOOK: Duration = Duration::from_secs(10);

/// Returns the script that the machine runs.
fn script(storm: u16, change: u16) -> String {
    format!(
        r#"runs() {{ sha256sum <"/proc/$(systemctl show --property MainPID --value aggregator)/exe" | cut -c1-16; }}
until systemctl --quiet is-active aggregator; do sleep 1; done
dpkg --force-confold --install /previous.deb || say failed
say previous $(runs)
{wait_for_storm}
dpkg --force-confold --install /present.deb || say failed
say present $(runs)
for round in $(seq {RESTARTS}); do
    sleep 1
    systemctl restart aggregator || say failed
done
say over $(runs)
{wait_for_change}
systemctl reload aggregator || say failed
say reloaded
"#,
        wait_for_storm = wait_for_port(storm),
        wait_for_change = wait_for_port(change)
    )
}

#[test]
#[ignore = "make test-image"]
fn an_upgrade_and_restarts_by_systemd_lose_no_query() {
    let site = Site::new();
    site.host.set("sdc:nics", Some(NICS));
    site.host.set(KEY, Some(&configuration(&site, "one.test")));
    let [mut storm_gate, mut change_gate] = [Port::reserve(), Port::reserve()];
    let disk = make_disk(
        &site,
        &script(storm_gate.address().port(), change_gate.address().port()),
        &[(&image("previous.deb"), "/previous.deb"), (&image("aggregator_VERSION_amd64.deb"), "/present.deb")],
    );
    let mut machine = Machine::with_disk(&site.folder, Firmware::Bios, disk);
    machine.start(&site);
    let previous = machine.wait_for_console("script: previous");
    machine.wait_for("one.test", PATIENCE);

    let query = question("one.test");
    let pause = Duration::from_millis(20);
    let plan = StormPlan { server: machine.server, query, records: 3, pause, lost_after: LOST_AFTER };
    let storm = Storm::start(&plan, 2);
    storm.wait_for_queries(100, PATIENCE);
    let _storm_gate = TcpListener::bind(storm_gate.release()).unwrap();
    let present = machine.wait_for_console("script: present");
    assert_ne!(previous, present, "the upgrade has replaced the program that runs");
    assert_eq!(machine.wait_for_console("script: over"), present);
    storm.wait_for_queries(100, PATIENCE);
    let toll = storm.end();
    println!("figure: an upgrade and {RESTARTS} restarts by systemd: {toll:?}");
    assert!(!machine.said().contains("script: failed"), "{}", machine.said());
    assert!(toll.asked > 400, "{toll:?} is no storm");
    assert_eq!(toll.lost, 0, "{toll:?}");

    // Sooner than the watcher would look by itself: the server's user may ask it to.
    site.host.set(KEY, Some(&configuration(&site, "two.test")));
    let _change_gate = TcpListener::bind(change_gate.release()).unwrap();
    machine.wait_for_console("script: reloaded");
    assert!(!machine.said().contains("script: failed"), "{}", machine.said());
    machine.wait_for("two.test", BEFORE_THE_NEXT_LOOK);
}
