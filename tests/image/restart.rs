//! Restart and upgrade by systemd and dpkg in the emulated machine, under a storm of queries from outside.
//!
//! The machine starts with the previous package, is upgraded to the present one, and then restarts its server again and
//! again. It waits for the storm before it begins: a port of ours that it tries to reach.

use crate::harness::{Port, Storm, StormPlan};
use crate::machine::{Firmware, Machine, NICS, PATIENCE, configuration};
use crate::site::{KEY, Site, image, question, run};
use std::net::TcpListener;
use std::path::Path;
use std::time::Duration;

/// Where the file system of the root begins on the disk.
const ROOT_OFFSET: u64 = 6 << 20;
/// Longer than any restart takes in the emulator; who is not answered by then has lost a query.
const LOST_AFTER: Duration = Duration::from_secs(60);
const RESTARTS: usize = 8;

/// What the machine does.
fn script(port: u16) -> String {
    format!(
        r#"say() {{ echo "rounds: $*" >/dev/console; }}
runs() {{ sha256sum <"/proc/$(systemctl show --property MainPID --value aggregator)/exe" | cut -c1-16; }}
until systemctl --quiet is-active aggregator; do sleep 1; done
dpkg --force-confold --install /previous.deb || say failed
say previous $(runs)
until bash -c '</dev/tcp/10.0.2.2/{port}'; do sleep 0.5; done
dpkg --force-confold --install /present.deb || say failed
say present $(runs)
for round in $(seq {RESTARTS}); do
    sleep 1
    systemctl restart aggregator || say failed
done
say over $(runs)
"#
    )
}

/// The image's disk with files put into its file system.
fn make_disk(site: &Site, files: &[(&Path, &str)]) -> std::path::PathBuf {
    let disk = site.folder.path().join("disk.raw");
    let (packed, raw) = (image("aggregator-VERSION.raw.gz"), disk.to_str().unwrap());
    run("sh", &["-c", "gzip -dc \"$0\" | dd of=\"$1\" bs=1M conv=sparse status=none", packed.to_str().unwrap(), raw]);
    let commands = site.folder.path().join("commands");
    let wants = "/etc/systemd/system/multi-user.target.wants/rounds.service";
    let mut text = format!("symlink {wants} ../rounds.service\n");
    for (from, to) in files {
        // It writes into the folder that it is in.
        let (folder, name) = to.rsplit_once('/').expect("an absolute path");
        text.push_str(&format!("cd {folder}/\nwrite {} {name}\n", from.display()));
    }
    std::fs::write(&commands, text).unwrap();
    run("debugfs", &["-w", "-f", commands.to_str().unwrap(), &format!("{raw}?offset={ROOT_OFFSET}")]);
    disk
}

#[test]
#[ignore = "make test-image"]
fn an_upgrade_and_restarts_by_systemd_lose_no_query() {
    let site = Site::new();
    site.host.set("sdc:nics", Some(NICS));
    site.host.set(KEY, Some(&configuration(&site, "one.test")));
    let mut gate = Port::reserve();
    let unit = site.folder.path().join("rounds.service");
    let text = "[Unit]\nAfter=aggregator.service\n[Service]\nType=exec\nExecStart=/bin/sh /rounds\n";
    std::fs::write(&unit, text).unwrap();
    let rounds = site.folder.path().join("rounds");
    std::fs::write(&rounds, script(gate.address().port())).unwrap();
    let files: [(&Path, &str); 4] = [
        (&unit, "/etc/systemd/system/rounds.service"),
        (&rounds, "/rounds"),
        (&image("previous.deb"), "/previous.deb"),
        (&image("aggregator_VERSION_amd64.deb"), "/present.deb"),
    ];
    let mut machine = Machine::with_disk(&site.folder, Firmware::Bios, make_disk(&site, &files));
    machine.start(&site);
    let previous = machine.wait_for_console("rounds: previous");
    machine.wait_for("one.test", PATIENCE);

    let query = question("one.test");
    let pause = Duration::from_millis(20);
    let plan = StormPlan { server: machine.server, query, records: 3, pause, lost_after: LOST_AFTER };
    let storm = Storm::start(&plan, 2);
    storm.wait_for_queries(100, PATIENCE);
    let _gate = TcpListener::bind(gate.release()).unwrap();
    let present = machine.wait_for_console("rounds: present");
    assert_ne!(previous, present, "the upgrade has replaced the program that runs");
    assert_eq!(machine.wait_for_console("rounds: over"), present);
    storm.wait_for_queries(100, PATIENCE);
    let toll = storm.end();
    println!("figure: an upgrade and {RESTARTS} restarts by systemd: {toll:?}");
    assert!(!machine.said().contains("rounds: failed"), "{}", machine.said());
    assert!(toll.asked > 400, "{toll:?} is no storm");
    assert_eq!(toll.lost, 0, "{toll:?}");
}
