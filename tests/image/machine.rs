//! An emulated machine with a disk of ours: no acceleration, two processors, the host on the second serial port.
//!
//! The machine reaches the datacenters as 10.0.2.2, and its ports 53 and 22 are reached through others of loopback.

use crate::harness::{Folder, Port, Process, wait_until};
use crate::site::{Site, answers, image, images, run, try_run};
use std::io::Write;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, Instant};

/// A machine without acceleration, beside others on the same processors.
pub const PATIENCE: Duration = Duration::from_secs(240);
/// The emulator's network, as the host describes it.
pub const NICS: &str = r#"[{"mac":"52:54:0:12:34:56","primary":true,"ips":["10.0.2.15/24"],"gateways":["10.0.2.2"]}]"#;

/// Offset on the disk of the root's file system, in octets.
const ROOT_OFFSET: u64 = 6 << 20;

/// Way in which the machine starts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Firmware {
    Bios,
    Uefi,
}

/// A machine with a disk of its own.
pub struct Machine {
    disk: PathBuf,
    folder: PathBuf,
    firmware: Firmware,
    pub server: SocketAddr,
    /// Address that leads to its port 22.
    login: SocketAddr,
    process: Option<Process>,
}

impl Machine {
    /// A machine whose changes stay in a file over the image.
    pub fn new(folder: &Folder, firmware: Firmware) -> Machine {
        let disk = folder.path().join("disk.qcow2");
        let base = image("aggregator-VERSION.qcow2");
        let (base, overlay) = (base.to_str().unwrap(), disk.to_str().unwrap());
        run("qemu-img", &["create", "-q", "-f", "qcow2", "-b", base, "-F", "qcow2", overlay]);
        Machine::with_disk(folder, firmware, disk)
    }

    /// A machine that writes to a disk.
    pub fn with_disk(folder: &Folder, firmware: Firmware, disk: PathBuf) -> Machine {
        let [mut server, mut login] = [Port::reserve(), Port::reserve()];
        let (server, login) = (server.release(), login.release());
        Machine { disk, folder: folder.path().to_path_buf(), firmware, server, login, process: None }
    }

    /// Switches it on, and has the host ready at its second serial port.
    pub fn start(&mut self, site: &Site) {
        let (port, login) = (self.server.port(), self.login.port());
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
        command.arg("-drive").arg(format!("file={},format={format},if=none,id=disk", self.disk.display()));
        // Said to be the one to start from, as managers of machines do: the firmware need not wake up everything else.
        command.args(["-device", "virtio-blk-pci,drive=disk,bootindex=0"]);
        command.arg("-netdev").arg(format!(
            "user,id=n0,hostfwd=udp:127.0.0.1:{port}-10.0.2.15:53,hostfwd=tcp:127.0.0.1:{port}-10.0.2.15:53,\
             hostfwd=tcp:127.0.0.1:{login}-10.0.2.15:22"
        ));
        command.args(["-device", "virtio-net-pci,netdev=n0,mac=52:54:00:12:34:56"]);
        command.arg("-chardev").arg(format!("file,id=con,path={}", self.console().display()));
        command.args(["-serial", "chardev:con"]);
        command.arg("-chardev").arg(format!("socket,id=md,path={},server=on,wait=off", serial.display()));
        command.args(["-serial", "chardev:md"]);
        command.arg("-monitor").arg(format!("unix:{},server=on,wait=off", self.monitor().display()));
        self.process = Some(Process::start("image/emulator", &mut command, &self.folder.join("emulator.log")));
        site.host.connect(&serial);
    }

    /// Returns the path of the emulator's control socket.
    fn monitor(&self) -> PathBuf {
        self.folder.join("monitor.sock")
    }

    /// Returns the path of the file with the output of the machine's first serial port.
    fn console(&self) -> PathBuf {
        self.folder.join("console.log")
    }

    /// Returns all that the machine has written to its console so far.
    pub fn said(&self) -> String {
        String::from_utf8_lossy(&std::fs::read(self.console()).unwrap_or_default()).into_owned()
    }

    /// Waits until the machine says something; the rest of that line.
    pub fn wait_for_console(&mut self, text: &str) -> String {
        let mut process = self.process.take().expect("a running machine");
        let word = process.wait_ready(&format!("says {text:?}"), PATIENCE, || {
            let said = self.said();
            let (_, rest) = said.split_once(text)?;
            Some(rest.split_once('\n')?.0.trim().to_owned())
        });
        self.process = Some(process);
        word
    }

    /// Waits for a region, and says what the console has if it does not come.
    pub fn wait_for(&mut self, region: &str, patience: Duration) {
        let start = Instant::now();
        while !answers(self.server, region) {
            if start.elapsed() > patience {
                panic!("no answer for {region}; the console:\n{}", self.said());
            }
            self.process.as_mut().unwrap().assert_running();
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Runs a command in the machine, as root by a key.
    pub fn log_in(&self, key: &Path, command: &str) -> Output {
        let port = self.login.port().to_string();
        let hosts = format!("UserKnownHostsFile={}", self.folder.join("known_hosts").display());
        let mut arguments = vec!["-i", key.to_str().unwrap(), "-p", &port];
        // A machine that is another one all of a sudden is refused.
        let options = ["BatchMode=yes", "IdentitiesOnly=yes", "StrictHostKeyChecking=accept-new", "ConnectTimeout=20"];
        arguments.extend(options.iter().copied().chain([hosts.as_str()]).flat_map(|option| ["-o", option]));
        arguments.extend(["-F", "none", "root@127.0.0.1", command]);
        try_run("ssh", &arguments)
    }

    /// Presses the power button, and waits until the machine is off; how long that took.
    pub fn power_off(&mut self, patience: Duration) -> Duration {
        let start = Instant::now();
        let mut monitor = UnixStream::connect(self.monitor()).expect("the emulator's monitor");
        monitor.write_all(b"system_powerdown\n").expect("the emulator's monitor");
        let mut process = self.process.take().expect("a running machine");
        let status = wait_until("the machine is off", patience, || process.ended());
        assert!(status.success(), "{status}: {}", self.said());
        start.elapsed()
    }

    /// Returns true if the disk was left in order: its file system has nothing to recover.
    pub fn is_disk_clean(&self) -> bool {
        let raw = self.folder.join("looked-at.raw");
        let (disk, raw) = (self.disk.to_str().unwrap(), raw.to_str().unwrap());
        run("qemu-img", &["convert", "-O", "raw", disk, raw]);
        let text = String::from_utf8(run("dumpe2fs", &["-h", &format!("{raw}?offset={ROOT_OFFSET}")]).stdout);
        let text = text.expect("text of dumpe2fs");
        assert!(text.contains("Filesystem features:"), "{text}");
        !text.contains("needs_recovery")
    }

    /// Pulls the plug.
    pub fn cut_power(&mut self) {
        self.process.as_mut().unwrap().kill();
        self.process = None;
    }
}

/// A configuration for a machine.
pub fn configuration(site: &Site, region: &str) -> String {
    site.configuration(region, Ipv4Addr::new(10, 0, 2, 2).into(), "0.0.0.0:53")
}

/// The image's disk with a shell script that the machine runs beside its server, and other files that go with it. By
/// `say` the script writes lines to the console that begin with `script:`.
pub fn make_disk(site: &Site, script: &str, files: &[(&Path, &str)]) -> PathBuf {
    let put = |name: &str, text: &str| {
        let path = site.folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    };
    let unit =
        put("script.service", "[Unit]\nAfter=aggregator.service\n[Service]\nType=exec\nExecStart=/bin/sh /script\n");
    let script = put("script", &format!("say() {{ echo \"script: $*\" >/dev/console; }}\n{script}"));
    let own: [(&Path, &str); 2] = [(&unit, "/etc/systemd/system/script.service"), (&script, "/script")];
    let disk = site.folder.path().join("disk.raw");
    let (packed, raw) = (image("aggregator-VERSION.raw.gz"), disk.to_str().unwrap());
    run("sh", &["-c", "gzip -dc \"$0\" | dd of=\"$1\" bs=1M conv=sparse status=none", packed.to_str().unwrap(), raw]);
    let mut text = "symlink /etc/systemd/system/multi-user.target.wants/script.service ../script.service\n".to_owned();
    for (from, to) in own.iter().chain(files) {
        // It writes into the folder that it is in.
        let (folder, name) = to.rsplit_once('/').expect("an absolute path");
        text.push_str(&format!("cd {folder}/\nwrite {} {name}\n", from.display()));
    }
    let commands = put("commands", &text);
    run("debugfs", &["-w", "-f", commands.to_str().unwrap(), &format!("{raw}?offset={ROOT_OFFSET}")]);
    disk
}

/// The command of a script that waits until a port of ours listens.
pub fn wait_for_port(port: u16) -> String {
    format!("until bash -c '</dev/tcp/10.0.2.2/{port}'; do sleep 0.5; done")
}
