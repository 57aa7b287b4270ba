//! The faults of everything that a replica depends on: how each begins and ends, and the alerts that it fires.

use crate::harness::*;
use crate::site::{Site, Subject, replace_file};
use crate::world::*;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// Something that a replica depends on, or that depends on it.
pub struct Dependency {
    pub name: &'static str,
    pub plan: fn() -> Plan,
    /// What changes by way of it.
    pub subject: Subject,
    pub faults: &'static [Fault],
}

/// A fault of a dependency.
pub struct Fault {
    pub name: &'static str,
    pub begin: fn(&mut Site),
    pub end: fn(&mut Site),
    /// When its subject changes.
    pub change: Change,
    /// Alerts that fire.
    pub alerts: &'static [&'static str],
    /// Further alerts that may fire: consequences, and what the shortened times of the rules make of short faults.
    pub may: &'static [&'static str],
    /// True if the first replica hears of no datacenter.
    pub isolates: bool,
    /// True if the first replica is started anew.
    pub restarts: bool,
}

/// When the subject of a dependency changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// While the fault lasts.
    Meanwhile,
    /// After it: nothing can change before.
    After,
}

/// A fault that fires nothing, during which its subject changes.
const PLAIN: Fault = Fault {
    name: "",
    begin: |_| {},
    end: |_| {},
    change: Change::Meanwhile,
    alerts: &[],
    may: &[],
    isolates: false,
    restarts: false,
};

/// Alerts of a primary that cannot be reached.
const CUT_OFF: &[&str] = &["CnsTransferFailing", "CnsTransferErrors", "CnsPrimaryFailing"];
/// Alerts that a primary may fire that comes and goes.
const UNSTEADY: &[&str] = &["CnsTransferFailing", "CnsTransferErrors", "CnsPrimaryFailing", "CnsReplicaBehind"];
/// Room of the disk of the first replica, where it has one of its own.
const DISK: &str = "size=2m";
/// Where Debian has the library that shifts a process's clock.
const SHIFTED_CLOCK: &str = "/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1";

pub const DEPENDENCIES: &[Dependency] = &[
    Dependency {
        name: "primary",
        plan: Plan::default,
        subject: Subject::Datacenter(0),
        faults: &[
            Fault {
                name: "down",
                begin: |site| site.world.relays.iter().for_each(|of_replica| of_replica[0].cut(true)),
                end: |site| site.world.relays.iter().for_each(|of_replica| of_replica[0].cut(false)),
                alerts: CUT_OFF,
                ..PLAIN
            },
            Fault {
                name: "slow: 0.25 to 0.4 s each way",
                begin: |site| delay(site, 0..2, 0..1),
                end: |site| site.world.relays.iter().for_each(|of_replica| of_replica[0].cut(false)),
                may: UNSTEADY,
                ..PLAIN
            },
            Fault {
                name: "lying: nearly all records gone",
                begin: |site| site.shrink(0),
                end: |site| {
                    // Which a NOTIFY does, too; else the next look is after `confirm_after`.
                    site.change(Subject::Datacenter(0));
                    (0..2).for_each(|replica| site.world.order(replica, &["refresh", ZONES[0]]));
                },
                change: Change::After,
                alerts: &["CnsTransferHeldBack"],
                may: &["CnsTransferFailing"],
                ..PLAIN
            },
            Fault {
                name: "lying: an older serial",
                begin: |site| site.set_back(0),
                change: Change::After,
                alerts: &["CnsPrimariesOlder"],
                may: CUT_OFF,
                ..PLAIN
            },
            Fault {
                name: "flapping",
                begin: |site| flap(site, 0..2, 0..1),
                end: Site::stop_doing,
                may: UNSTEADY,
                ..PLAIN
            },
        ],
    },
    Dependency {
        name: "ZooKeeper",
        plan: || Plan { tree: true, ..Plan::default() },
        subject: Subject::Tree,
        faults: &[
            Fault {
                name: "down",
                begin: |site| zookeeper(site).kill(),
                end: |site| zookeeper(site).restart(),
                change: Change::After,
                alerts: &["CnsZooKeeperSessionLost"],
                may: &["CnsTransferFailing"],
                ..PLAIN
            },
            Fault {
                name: "slow: stands still",
                begin: |site| zookeeper(site).pause(),
                end: |site| zookeeper(site).resume(),
                change: Change::After,
                alerts: &["CnsZooKeeperSessionLost"],
                may: &["CnsTransferFailing"],
                ..PLAIN
            },
            Fault {
                name: "lying: everything gone",
                begin: |site| {
                    zookeeper(site).kill();
                    zookeeper(site).wipe();
                    zookeeper(site).restart();
                },
                end: |site| {
                    Znodes::connect(&[zookeeper(site).address()]).create(&format!("{NODE}/web"), b"{}");
                    // A tree that was made anew is for an operator to judge.
                    site.change(Subject::Tree);
                    (0..2).for_each(|replica| site.world.order(replica, &["retransfer", TREE, "--accept"]));
                },
                change: Change::After,
                alerts: &["CnsTreeReset"],
                may: &["CnsZooKeeperSessionLost", "CnsTransferFailing"],
                ..PLAIN
            },
            Fault {
                name: "flapping",
                begin: |site| {
                    let process = zookeeper(site).id() as i32;
                    site.keep_doing(move |stands| send(process, if stands { libc::SIGSTOP } else { libc::SIGCONT }));
                },
                end: Site::stop_doing,
                may: &["CnsZooKeeperSessionLost", "CnsTransferFailing"],
                ..PLAIN
            },
        ],
    },
    Dependency {
        name: "inventory",
        plan: || Plan { inventory: true, ..Plan::default() },
        subject: Subject::Inventory,
        faults: &[
            Fault {
                name: "down: the file is gone",
                begin: |site| site.world.inventories.iter().for_each(|path| std::fs::remove_file(path).unwrap()),
                change: Change::After,
                alerts: &["CnsInventoryFailing"],
                may: &["CnsTransferFailing"],
                ..PLAIN
            },
            Fault {
                name: "slow: the file cannot be read",
                begin: |site| site.world.inventories.iter().for_each(|path| hang(path)),
                end: |site| site.world.inventories.iter().for_each(|path| release(path)),
                change: Change::After,
                alerts: &["CnsTransferFailing"],
                may: &["CnsInventoryFailing"],
                ..PLAIN
            },
            Fault {
                name: "lying: half a file",
                begin: |site| site.write_inventories(&INVENTORY[..INVENTORY.len() / 2]),
                change: Change::After,
                alerts: &["CnsInventoryFailing"],
                may: &["CnsTransferFailing"],
                ..PLAIN
            },
            Fault {
                name: "lying: no instance",
                begin: |site| site.write_inventories(r#"{"format":1,"vms":[]}"#),
                change: Change::After,
                alerts: &["CnsTransferHeldBack"],
                may: &["CnsTransferFailing"],
                ..PLAIN
            },
            Fault {
                name: "flapping",
                begin: |site| {
                    let paths: Vec<PathBuf> = site.world.inventories.clone();
                    let texts: Vec<String> = paths.iter().map(|path| std::fs::read_to_string(path).unwrap()).collect();
                    site.keep_doing(move |is_gone| {
                        for (path, text) in paths.iter().zip(&texts) {
                            if is_gone { std::fs::remove_file(path).unwrap() } else { replace_file(path, text) }
                        }
                    });
                },
                end: Site::stop_doing,
                change: Change::After,
                may: &["CnsInventoryFailing", "CnsTransferFailing"],
                ..PLAIN
            },
        ],
    },
    Dependency {
        name: "disk",
        plan: || Plan { prepare: mount, ..Plan::default() },
        subject: Subject::Datacenter(0),
        faults: &[
            Fault {
                name: "full",
                begin: |site| {
                    fill(&state(site), true);
                    // What is left of the last page of a journal takes some changes.
                    while !site.world.replicas[0].metrics().contains("aggregator_state_healthy 0") {
                        site.change(Subject::Datacenter(0));
                        site.wait_seen(Subject::Datacenter(0), 0);
                    }
                },
                end: |site| fill(&state(site), false),
                alerts: &["CnsStateNotWritten"],
                ..PLAIN
            },
            Fault {
                name: "read-only, after a restart",
                begin: |site| {
                    let folder = state(site);
                    // While files are open for writing no system makes a disk read-only.
                    site.world.replicas[0].kill_and_restart(|| remount(&folder, "ro"));
                },
                end: |site| remount(&state(site), "rw"),
                alerts: &["CnsStateNotWritten"],
                may: &["CnsAggregatorDown", "CnsReplicaBehind"],
                restarts: true,
                ..PLAIN
            },
            Fault {
                name: "slow: a file does not answer",
                begin: |site| {
                    let journal = journal(site);
                    std::fs::rename(&journal, journal.with_extension("aside")).unwrap();
                    hang(&journal);
                },
                end: |site| {
                    let journal = journal(site);
                    // Whoever waits for the other end goes on.
                    let pipe = std::fs::OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(&journal);
                    std::fs::rename(journal.with_extension("aside"), &journal).unwrap();
                    drop(pipe);
                },
                alerts: &["CnsStateNotWritten"],
                ..PLAIN
            },
            Fault {
                name: "flapping: full and not",
                begin: |site| {
                    let folder = state(site);
                    site.keep_doing(move |is_full| fill(&folder, is_full));
                },
                end: Site::stop_doing,
                may: &["CnsStateNotWritten"],
                ..PLAIN
            },
            Fault {
                name: "lying: every file damaged, and a restart",
                begin: |site| {
                    let folder = state(site);
                    site.world.replicas[0].kill_and_restart(|| damage(&folder));
                },
                may: &["CnsAggregatorDown", "CnsReplicaBehind"],
                restarts: true,
                ..PLAIN
            },
        ],
    },
    Dependency {
        name: "clock",
        plan: || Plan { prepare: shift_clock, ..Plan::default() },
        subject: Subject::Datacenter(0),
        faults: &[
            Fault {
                name: "a day ahead",
                begin: |site| set_clock(site, "+1d"),
                end: |site| set_clock(site, "+0"),
                ..PLAIN
            },
            Fault {
                name: "a day behind",
                begin: |site| set_clock(site, "-1d"),
                end: |site| set_clock(site, "+0"),
                alerts: &["CnsTransferFailing"],
                ..PLAIN
            },
            Fault {
                name: "a day ahead, and a restart",
                begin: |site| restart_at(site, "+1d"),
                end: |site| set_clock(site, "+0"),
                may: &["CnsAggregatorDown"],
                restarts: true,
                ..PLAIN
            },
            Fault {
                name: "a day behind, and a restart",
                begin: |site| restart_at(site, "-1d"),
                end: |site| set_clock(site, "+0"),
                alerts: &["CnsTransferFailing"],
                may: &["CnsAggregatorDown"],
                restarts: true,
                ..PLAIN
            },
        ],
    },
    Dependency {
        name: "network",
        plan: Plan::default,
        subject: Subject::Datacenter(0),
        faults: &[
            Fault {
                name: "down: one replica reaches nobody",
                begin: |site| site.world.relays[0].iter().for_each(|relay| relay.cut(true)),
                end: |site| site.world.relays[0].iter().for_each(|relay| relay.cut(false)),
                alerts: &["CnsTransferFailing", "CnsTransferErrors", "CnsPrimaryFailing", "CnsReplicaBehind"],
                isolates: true,
                ..PLAIN
            },
            Fault {
                name: "slow: 0.25 to 0.4 s each way",
                begin: |site| delay(site, 0..2, 0..3),
                end: |site| site.world.relays.iter().flatten().for_each(|relay| relay.cut(false)),
                may: UNSTEADY,
                ..PLAIN
            },
            Fault {
                name: "flapping",
                begin: |site| flap(site, 0..1, 0..3),
                end: Site::stop_doing,
                may: UNSTEADY,
                ..PLAIN
            },
        ],
    },
    Dependency {
        name: "control client",
        plan: Plan::default,
        subject: Subject::Datacenter(0),
        faults: &[
            Fault {
                name: "down: gone in the middle of an order",
                begin: |site| pester(site, b"{\"verb\":\"sta", 50),
                ..PLAIN
            },
            Fault {
                name: "slow: 100 that neither write nor read",
                begin: |site| {
                    let clients: Vec<UnixStream> = (0..100).filter_map(|_| control(site)).collect();
                    site.keep_doing(move |_| assert!(!clients.is_empty()));
                },
                end: Site::stop_doing,
                ..PLAIN
            },
            Fault { name: "lying: a megabyte of noise", begin: |site| pester(site, &[0xA5; 1 << 20], 5), ..PLAIN },
            Fault { name: "flapping: 500 connections", begin: |site| pester(site, b"", 500), ..PLAIN },
        ],
    },
    Dependency {
        name: "secondary",
        plan: || Plan { inventory: true, ..Plan::default() },
        subject: Subject::Inventory,
        faults: &[
            Fault {
                name: "down: hears no NOTIFY",
                begin: |site| site.world.secondary.deafen(true),
                end: |site| {
                    site.world.secondary.deafen(false);
                    (0..2).for_each(|replica| site.world.order(replica, &["notify", MADE]));
                },
                alerts: &["CnsSecondaryBehind"],
                may: &["CnsTransferFailing"],
                ..PLAIN
            },
            Fault {
                name: "slow: 20,000 transfers that nobody reads",
                begin: |site| {
                    let readers = slow_readers(site);
                    site.keep_doing(move |_| assert!(!readers.is_empty()));
                },
                end: Site::stop_doing,
                may: &["CnsTransferFailing"],
                ..PLAIN
            },
        ],
    },
];

//--- How faults are made ---

/// The server of the tree.
fn zookeeper(site: &mut Site) -> &mut ZooKeeper {
    site.world.zookeeper.as_mut().expect("a server")
}

/// Sends a process of ours a signal.
fn send(process: i32, signal: i32) {
    // SAFETY: a plain system call.
    assert_eq!(unsafe { libc::kill(process, signal) }, 0);
}

/// Delays what passes between replicas and datacenters.
fn delay(site: &Site, replicas: std::ops::Range<usize>, sites: std::ops::Range<usize>) {
    let slow = Weather { delay: (250, 400), ..Weather::default() };
    site.world.relays[replicas]
        .iter()
        .flat_map(|of_replica| &of_replica[sites.clone()])
        .for_each(|relay| relay.set(slow));
}

/// Cuts replicas off from datacenters, and lets them be reached again, by turns.
fn flap(site: &mut Site, replicas: std::ops::Range<usize>, sites: std::ops::Range<usize>) {
    let relays = site.world.relays[replicas].iter().flat_map(|of_replica| of_replica[sites.clone()].iter().cloned());
    let relays: Vec<Relay> = relays.collect();
    site.keep_doing(move |is_cut| relays.iter().for_each(|relay| relay.cut(is_cut)));
}

/// Puts a pipe in the place of a file: whoever opens it waits for the other end.
fn hang(path: &Path) {
    let beside = path.with_extension("pipe");
    let text = std::ffi::CString::new(beside.as_os_str().as_bytes()).unwrap();
    // SAFETY: the path ends in a zero.
    assert_eq!(unsafe { libc::mkfifo(text.as_ptr(), 0o600) }, 0);
    std::fs::rename(beside, path).unwrap();
}

/// Lets go whoever waits for the other end of a pipe.
fn release(path: &Path) {
    // Without a reader there is nobody to let go.
    let _ = std::fs::OpenOptions::new().write(true).custom_flags(libc::O_NONBLOCK).open(path);
}

/// The state folder of the first replica.
fn state(site: &Site) -> PathBuf {
    site.world.replicas[0].configuration().with_file_name("state")
}

/// The journal of the zone that changes.
fn journal(site: &Site) -> PathBuf {
    let folder = state(site).join("zones").join(ZONES[0].trim_end_matches('.'));
    let paths = std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path());
    let is_journal = |path: &PathBuf| path.file_name().unwrap().to_string_lossy().starts_with("journal");
    paths.filter(|path| path.extension().is_none_or(|end| end != "aside")).find(is_journal).expect("a journal")
}

/// Gives a replica a disk of its own, which goes with the mount namespace of the test.
fn mount(home: &Path) -> Vec<(&'static str, String)> {
    let folder = home.join("state");
    std::fs::create_dir_all(&folder).unwrap();
    run_tool(Command::new("mount").args(["-t", "tmpfs", "-o", DISK, "tmpfs"]).arg(folder));
    Vec::new()
}

/// Mounts a disk anew: to be written, or not.
fn remount(folder: &Path, how: &str) {
    run_tool(Command::new("mount").args(["-o", &format!("remount,{how},{DISK}")]).arg(folder));
}

/// Fills a disk with a file, or removes that file.
fn fill(folder: &Path, is_full: bool) {
    let path = folder.join("filler");
    if !is_full {
        std::fs::remove_file(path).unwrap();
        return;
    }
    let mut file = std::fs::File::create(path).unwrap();
    while file.write(&[7; 4096]).is_ok_and(|written| written > 0) {}
}

/// Turns a bit in every file of a folder, in the middle.
fn damage(folder: &Path) {
    for entry in std::fs::read_dir(folder).unwrap().map(Result::unwrap) {
        if entry.file_type().unwrap().is_dir() {
            damage(&entry.path());
        } else {
            let mut octets = std::fs::read(entry.path()).unwrap();
            let middle = octets.len() / 2;
            octets.get_mut(middle).into_iter().for_each(|octet| *octet ^= 0x10);
            std::fs::write(entry.path(), octets).unwrap();
        }
    }
}

/// Has a replica's process read the time of day from a file.
fn shift_clock(home: &Path) -> Vec<(&'static str, String)> {
    let file = home.join("clock");
    write_file(&file, "+0");
    assert!(
        Path::new(SHIFTED_CLOCK).exists(),
        "faketime is not installed; run `make test-partition`, which installs it"
    );
    vec![
        ("LD_PRELOAD", SHIFTED_CLOCK.to_string()),
        ("FAKETIME_TIMESTAMP_FILE", file.display().to_string()),
        ("FAKETIME_CACHE_DURATION", "1".to_string()),
        // As on any machine whose clock is set: what counts on does so.
        ("FAKETIME_DONT_FAKE_MONOTONIC", "1".to_string()),
    ]
}

/// Sets the first replica's clock.
fn set_clock(site: &mut Site, shift: &str) {
    replace_file(&site.world.replicas[0].configuration().with_file_name("clock"), shift);
}

/// Has the first replica killed and started anew with another time of day.
fn restart_at(site: &mut Site, shift: &str) {
    let file = site.world.replicas[0].configuration().with_file_name("clock");
    site.world.replicas[0].kill_and_restart(|| replace_file(&file, shift));
}

/// A connection to the control socket of the first replica; none if it takes no more.
fn control(site: &Site) -> Option<UnixStream> {
    let stream = UnixStream::connect(site.world.replicas[0].socket()).ok()?;
    stream.set_write_timeout(Some(Duration::from_secs(2))).unwrap();
    Some(stream)
}

/// Says something to the control socket, and leaves; again and again until the fault ends. Orders go on being obeyed.
fn pester(site: &mut Site, words: &[u8], times: usize) {
    for _ in 0..times {
        // The server may close what makes no sense to it.
        let _ = control(site).map(|mut stream| stream.write_all(words));
        assert!(times > 100 || site.world.replicas[0].verb(&["status"]).code == 0);
    }
}

/// Connections that ask for more transfers than their buffers take, and read two octets.
fn slow_readers(site: &Site) -> Vec<TcpStream> {
    let request = Query::new(&Dname::parse(REGION), rtype::AXFR).encode(7);
    let begin = |_| {
        let mut stream = TcpStream::connect(site.world.replicas[0].address()).unwrap();
        stream.set_write_timeout(Some(Duration::from_secs(1))).unwrap();
        // The server stops reading once it cannot write.
        (0..2000).all(|_| write_frame(&mut stream, &request).is_ok());
        stream.read_exact(&mut [0; 2]).unwrap();
        stream
    };
    (0..10).map(begin).collect()
}
