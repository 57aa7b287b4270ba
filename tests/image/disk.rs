//! The disk in an emulated machine: BIOS and UEFI, the host on the second serial port, and real systemd inside.
//!
//! The machine reaches the datacenters as 10.0.2.2, and its port 53 is reached through one of loopback.

use crate::harness::{Client, Folder, Habit, Port, Process, wait_until};
use crate::site::{KEY, Site, answers, check_size, image, images, question, run, wait_for_answer};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// A machine without acceleration, beside others on the same processors.
const PATIENCE: Duration = Duration::from_secs(240);
/// The watcher looks at the metadata every minute.
const POLL: Duration = Duration::from_secs(120);
/// Where the file system of the root begins.
const ROOT_OFFSET: u64 = 6 << 20;
/// The emulator's network, as the host describes it.
const NICS: &str = r#"[{"mac":"52:54:0:12:34:56","primary":true,"ips":["10.0.2.15/24"],"gateways":["10.0.2.2"]}]"#;

/// How the machine starts.
#[derive(Clone, Copy, PartialEq)]
enum Firmware {
    Bios,
    Uefi,
}

/// A machine with a disk of its own.
struct Machine {
    disk: PathBuf,
    folder: PathBuf,
    firmware: Firmware,
    server: SocketAddr,
    process: Option<Process>,
}

impl Machine {
    /// A machine whose changes stay in a file over the image.
    fn new(folder: &Folder, firmware: Firmware) -> Machine {
        let disk = folder.path().join("disk.qcow2");
        let base = image("aggregator-VERSION.qcow2");
        let (base, overlay) = (base.to_str().unwrap(), disk.to_str().unwrap());
        run("qemu-img", &["create", "-q", "-f", "qcow2", "-b", base, "-F", "qcow2", overlay]);
        Machine::with_disk(folder, firmware, disk)
    }

    fn with_disk(folder: &Folder, firmware: Firmware, disk: PathBuf) -> Machine {
        let server = Port::reserve().release();
        Machine { disk, folder: folder.path().to_path_buf(), firmware, server, process: None }
    }

    /// Switches it on, and has the host ready at its second serial port.
    fn start(&mut self, site: &Site) {
        let port = self.server.port();
        let serial = self.folder.join("ttyb.sock");
        _ = std::fs::remove_file(&serial);
        let mut command = Command::new(Path::new(env!("CARGO_MANIFEST_DIR")).join("image/emulator"));
        command.env("OUTPUT", images());
        command.args(["-machine", "pc", "-accel", "tcg", "-cpu", "max", "-m", "512", "-smp", "2", "-display", "none"]);
        command.args([
            "-nodefaults",
            "-no-reboot",
            "-device",
            "virtio-rng-pci",
            "-smbios",
            "type=1,product=SmartDC HVM",
        ]);
        if self.firmware == Firmware::Uefi {
            command.args(["-bios", "/usr/share/ovmf/OVMF.fd"]);
        }
        let format = if self.disk.extension().is_some_and(|kind| kind == "raw") { "raw" } else { "qcow2" };
        command.arg("-drive").arg(format!("file={},format={format},if=virtio", self.disk.display()));
        command.arg("-netdev").arg(format!(
            "user,id=n0,hostfwd=udp:127.0.0.1:{port}-10.0.2.15:53,hostfwd=tcp:127.0.0.1:{port}-10.0.2.15:53"
        ));
        command.args(["-device", "virtio-net-pci,netdev=n0,mac=52:54:00:12:34:56"]);
        command.arg("-chardev").arg(format!("file,id=con,path={}", self.console().display()));
        command.args(["-serial", "chardev:con"]);
        command.arg("-chardev").arg(format!("socket,id=md,path={},server=on,wait=off", serial.display()));
        command.args(["-serial", "chardev:md"]);
        self.process = Some(Process::start("image/emulator", &mut command, &self.folder.join("emulator.log")));
        site.host.connect(&serial);
    }

    fn console(&self) -> PathBuf {
        self.folder.join("console.log")
    }

    fn wait_for_console(&mut self, text: &str) {
        let console = self.console();
        self.process.as_mut().unwrap().wait_ready(&format!("says {text:?}"), PATIENCE, || {
            let said = std::fs::read(&console).unwrap_or_default();
            String::from_utf8_lossy(&said).contains(text).then_some(())
        });
    }

    /// Waits for a region, and says what the console has if it does not come.
    fn wait_for(&mut self, region: &str, patience: Duration) {
        let start = Instant::now();
        while !answers(self.server, region) {
            if start.elapsed() > patience {
                let said = std::fs::read(self.console()).unwrap_or_default();
                panic!("no answer for {region}; the console:\n{}", String::from_utf8_lossy(&said));
            }
            self.process.as_mut().unwrap().assert_running();
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Pulls the plug.
    fn cut_power(&mut self) {
        self.process.as_mut().unwrap().kill();
        self.process = None;
    }
}

/// A configuration for a machine.
fn configuration(site: &Site, region: &str) -> String {
    site.configuration(region, Ipv4Addr::new(10, 0, 2, 2).into(), "0.0.0.0:53")
}

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

    machine.cut_power();
    site.cut_datacenters();
    site.host.behave(Habit::Silent);
    let start = Instant::now();
    machine.start(&site);
    machine.wait_for("one.test", PATIENCE);
    println!("figure: UEFI, after a power cut, host silent {:.1} s", start.elapsed().as_secs_f64());

    machine.cut_power();
    site.host.behave(Habit::Answers);
    let start = Instant::now();
    machine.start(&site);
    machine.wait_for("one.test", PATIENCE);
    println!("figure: UEFI, power-on to first answer {:.1} s", start.elapsed().as_secs_f64());
}

#[test]
#[ignore = "make test-image"]
fn systemd_restarts_lose_no_query() {
    let site = Site::new();
    site.host.set("sdc:nics", Some(NICS));
    site.host.set(KEY, Some(&configuration(&site, "one.test")));
    // A copy of the disk with a unit that restarts the server again and again, as upgrades do.
    let disk = site.folder.path().join("disk.raw");
    let (packed, raw) = (image("aggregator-VERSION.raw.gz"), disk.to_str().unwrap());
    run("sh", &["-c", "gzip -dc \"$0\" | dd of=\"$1\" bs=1M conv=sparse status=none", packed.to_str().unwrap(), raw]);
    let unit = site.folder.path().join("unit");
    std::fs::write(
        &unit,
        "[Service]\nExecStart=/bin/sh -c 'sleep 3; n=0; while [ $n -lt 8 ]; do systemctl restart aggregator; n=$((n+1)); \
         echo round $n >/dev/console; sleep 2; done; echo all rounds >/dev/console'\n[Unit]\nAfter=aggregator.service\n",
    )
    .unwrap();
    let commands = site.folder.path().join("commands");
    let wants = "/etc/systemd/system/multi-user.target.wants/rounds.service";
    std::fs::write(
        &commands,
        format!("write {} /etc/systemd/system/rounds.service\nsymlink {wants} ../rounds.service\n", unit.display()),
    )
    .unwrap();
    run("debugfs", &["-w", "-f", commands.to_str().unwrap(), &format!("{raw}?offset={ROOT_OFFSET}")]);

    let mut machine = Machine::with_disk(&site.folder, Firmware::Bios, disk);
    machine.start(&site);
    machine.wait_for("one.test", PATIENCE);
    let (stop, lost, asked) = (AtomicBool::new(false), AtomicU64::new(0), AtomicU64::new(0));
    let server = machine.server;
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                // Every query once; a minute is more than any restart takes.
                let mut client = Client::new(server).with_deadline(Duration::from_secs(60));
                while !stop.load(Ordering::Relaxed) {
                    asked.fetch_add(1, Ordering::Relaxed);
                    let answered = client.ask(&question("one.test")).is_ok_and(|answer| answer.answer.len() == 3);
                    lost.fetch_add(u64::from(!answered), Ordering::Relaxed);
                    std::thread::sleep(Duration::from_millis(20));
                }
            });
        }
        let console = machine.console();
        let done = || String::from_utf8_lossy(&std::fs::read(&console).unwrap_or_default()).contains("all rounds");
        wait_until("all restarts are over", PATIENCE, || done().then_some(()));
        stop.store(true, Ordering::Relaxed);
    });
    let (asked, lost) = (asked.into_inner(), lost.into_inner());
    println!("figure: 8 restarts by systemd, {asked} queries, {lost} lost");
    assert!(asked > 400, "{asked} are no storm");
    assert_eq!(lost, 0);
    wait_for_answer(server, "one.test", PATIENCE);
}
