//! The disk in an emulated machine: BIOS and UEFI, the host on the second serial port, and real systemd inside.

use crate::harness::Habit;
use crate::machine::{Firmware, Machine, NICS, PATIENCE, configuration};
use crate::site::{KEY, Site, check_size};
use std::time::{Duration, Instant};

/// The watcher looks at the metadata every minute.
const POLL: Duration = Duration::from_secs(120);

#[test]
#[ignore = "make test-image"]
fn bios_with_a_network_from_the_host() {
    check_size("aggregator-VERSION.raw.gz", 100);
    check_size("aggregator-VERSION.qcow2", 120);
    let mut site = Site::new();
    site.host.set("sdc:nics", Some(NICS));
    site.host.set(KEY, Some(&configuration(&site, "one.test")));
    let mut machine = Machine::new(&site.folder, Firmware::Bios);
    let start = Instant::now();
    machine.start(&site);
    machine.wait_for("one.test", PATIENCE);
    println!("figure: BIOS, power-on to first answer {:.1} s", start.elapsed().as_secs_f64());
    assert!(site.host.asked().contains(&"sdc:nics".to_owned()), "{:?}", site.host.asked());

    site.host.set(KEY, Some(&configuration(&site, "two.test")));
    machine.wait_for("two.test", POLL);
    machine.cut_power();
    site.cut_datacenters();
    let start = Instant::now();
    machine.start(&site);
    machine.wait_for("two.test", PATIENCE);
    println!("figure: BIOS, after a power cut, without datacenters {:.1} s", start.elapsed().as_secs_f64());
}

#[test]
#[ignore = "make test-image"]
fn uefi_with_metadata_that_comes_late_and_a_host_that_falls_silent() {
    let mut site = Site::new();
    let mut machine = Machine::new(&site.folder, Firmware::Uefi);
    machine.start(&site);
    machine.wait_for_console("there is no configuration yet");
    machine.wait_for_console("triton instance metadata set INSTANCE aggregator-config=");
    site.host.set(KEY, Some("[zones]\nnonsense\n"));
    machine.wait_for_console("aggregator-config:2:");
    site.host.set(KEY, Some(&configuration(&site, "one.test")));
    machine.wait_for("one.test", PATIENCE);
    // The host describes the network only now. Once the watcher has seen that, what was transferred is on the medium.
    site.host.set("sdc:nics", Some(NICS));
    site.host.set(KEY, Some(&configuration(&site, "two.test")));
    machine.wait_for("two.test", POLL);
    assert!(machine.said().contains("the network has been set up anew"), "{}", machine.said());
    assert!(!machine.said().contains("could not be told"), "{}", machine.said());

    machine.cut_power();
    site.cut_datacenters();
    site.host.behave(Habit::Silent);
    let start = Instant::now();
    machine.start(&site);
    machine.wait_for("two.test", PATIENCE);
    println!("figure: UEFI, after a power cut, host silent {:.1} s", start.elapsed().as_secs_f64());

    machine.cut_power();
    site.host.behave(Habit::Answers);
    let start = Instant::now();
    machine.start(&site);
    machine.wait_for("two.test", PATIENCE);
    println!("figure: UEFI, power-on to first answer {:.1} s", start.elapsed().as_secs_f64());
}
