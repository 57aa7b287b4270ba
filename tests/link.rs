//! The local link with others on it: Avahi and python-zeroconf find what `announce` announces, and what they announce
//! is found by `discover`. Each is a machine of its own on one network.
//!
//! Needs root, Debian's Avahi, and python-zeroconf, which `scripts/install-zeroconf` installs; `make test-partition`
//! runs it.

mod harness;

use harness::*;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(30);
/// The address of the guideline's second example.
const IRONIC: &str = "192.168.42.17";
const OTHER: &str = "192.168.42.18";
/// The same machines by IPv6.
const IRONIC_6: &str = "fd42::17";
const OTHER_6: &str = "fd42::18";

/// The three machines: one that announces or is a client, and two others.
fn network() -> Net {
    let nodes =
        [("ironic", format!("{IRONIC}/24")), ("other", format!("{OTHER}/24")), ("ramdisk", "192.168.42.30/24".into())];
    let net = Net::create(&nodes);
    for (node, address) in [("ironic", IRONIC_6), ("other", OTHER_6), ("ramdisk", "fd42::30")] {
        let mut command = net.command(node, &program_path("ip"));
        // Without a time in which the address is doubtful.
        run_tool(command.args(["addr", "add", &format!("{address}/64"), "dev", "eth0", "nodad"]));
    }
    net
}

/// Announces the guideline's services.
fn announce(net: &Net, folder: &Folder) -> Process {
    let home = folder.subfolder("announce");
    let configuration = home.join("config.toml");
    let text = format!(
        "[server]\nname = \"ns.test\"\n[zones.\"z.example\"]\nservices = [\"os A {IRONIC}\", \"os AAAA {IRONIC_6}\"]\nopenstack = [\n\
         {{ type = \"baremetal\", url = \"http://{IRONIC}/baremetal\" }},\n\
         {{ type = \"baremetal-introspection\", url = \"http://{IRONIC}:5050\" }},\n\
         {{ type = \"compute\", url = \"https://os.z.example:8774/v2.1\" }},\n]\n"
    );
    write_file(&configuration, &text);
    let mut command = net.command("ironic", Path::new(env!("CARGO_BIN_EXE_aggregator")));
    command.args(["announce", "--interface", "eth0", "-c"]).arg(&configuration);
    Process::start("announce", &mut command, &home.join("log"))
}

/// Returns the exit code and the output of `discover` in the ramdisk.
fn discover(net: &Net, kind: &str, more: &[&str]) -> (i32, String) {
    let mut command = net.command("ramdisk", Path::new(env!("CARGO_BIN_EXE_aggregator")));
    let output = command.args(["discover", "openstack", kind, "local"]).args(more).output().expect("run aggregator");
    let text = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).trim_end().to_string();
    (output.status.code().unwrap_or(-1), text)
}

//--- Avahi ---

/// Avahi on a machine, with a bus of its own.
struct Avahi {
    node: &'static str,
    bus: PathBuf,
    _daemon: Process,
    _bus_daemon: Process,
}

impl Avahi {
    /// Starts the bus, and Avahi on it.
    fn start(net: &Net, folder: &Folder, node: &'static str) -> Avahi {
        let home = folder.subfolder(&format!("avahi-{node}"));
        let (bus, file) = (home.join("bus"), home.join("bus.conf"));
        let text = format!(
            "<busconfig><type>system</type><listen>unix:path={}</listen><auth>EXTERNAL</auth>\
             <policy context=\"default\"><allow send_destination=\"*\"/><allow receive_sender=\"*\"/><allow own=\"*\"/>\
             <allow user=\"*\"/></policy></busconfig>",
            bus.display()
        );
        write_file(&file, &text);
        let mut command = Command::new(program_path("dbus-daemon"));
        command.arg("--nofork").arg("--config-file").arg(&file);
        let mut bus_daemon = Process::start("dbus-daemon", &mut command, &home.join("bus.log"));
        bus_daemon.wait_ready("has its socket", PATIENCE, || bus.exists().then_some(()));
        let configuration = home.join("avahi.conf");
        write_file(
            &configuration,
            &format!("[server]\nhost-name={node}\nuse-ipv6=yes\nenable-dbus=yes\n[publish]\npublish-workstation=no\n"),
        );
        // Its folder for files in /run is made there; each machine has a /run of its own for that.
        let script = "mount -t tmpfs tmpfs /run && mkdir -p /run/avahi-daemon && exec \"$@\"";
        let mut command = net.command(node, &program_path("unshare"));
        command.args(["--mount", "sh", "-c", script, "sh"]).arg(program_path("avahi-daemon"));
        command.args(["--no-drop-root", "--no-chroot", "--no-rlimits", "--no-proc-title", "-f"]).arg(&configuration);
        command.env("DBUS_SYSTEM_BUS_ADDRESS", address_of(&bus));
        let mut daemon = Process::start("avahi-daemon", &mut command, &home.join("log"));
        let log = home.join("log");
        daemon.wait_ready("has started", PATIENCE, || {
            let said = std::fs::read_to_string(&log).unwrap_or_default();
            said.contains("Server startup complete").then_some(())
        });
        Avahi { node, bus, _daemon: daemon, _bus_daemon: bus_daemon }
    }

    /// Returns the output of `avahi-browse -rt _openstack._tcp`, in the form for programs.
    fn browse(&self, net: &Net) -> String {
        // Within the machine, so that interfaces have their names.
        let mut command = net.command(self.node, &program_path("avahi-browse"));
        command.args(["-rtp", "_openstack._tcp"]).env("DBUS_SYSTEM_BUS_ADDRESS", address_of(&self.bus));
        run_tool(&mut command)
    }

    /// Announces a service, as long as the process lasts.
    fn publish(&self, folder: &Folder, words: &[&str]) -> Process {
        let mut command = Command::new(program_path("avahi-publish"));
        command.arg("-s").args(words).env("DBUS_SYSTEM_BUS_ADDRESS", address_of(&self.bus));
        Process::start("avahi-publish", &mut command, &folder.path().join("publish.log"))
    }
}

/// Returns the address of a bus as programs are told of it.
fn address_of(bus: &Path) -> String {
    format!("unix:path={}", bus.display())
}

#[test]
#[ignore = "needs root: make test-partition"]
fn avahi_finds_what_is_announced_and_is_found() {
    let folder = Folder::new();
    let net = network();
    let avahi = Avahi::start(&net, &folder, "other");
    let mut announcer = announce(&net, &folder);
    // As in the guideline; `=` stands before what was resolved.
    let wanted = [("baremetal", "80", "\"path=/baremetal\""), ("baremetal-introspection", "5050", "\"path=/\"")];
    wait_until("Avahi has resolved both services", PATIENCE, || {
        announcer.assert_running();
        let said = avahi.browse(&net);
        let resolved = |(kind, port, path): &(&str, &str, &str)| {
            let line =
                said.lines().find(|line| line.starts_with(&format!("=;eth0;IPv4;{kind};_openstack._tcp;local;")));
            line.is_some_and(|line| {
                line.contains(&format!(";{IRONIC};{port};"))
                    && ["\"txtvers=1\"", "\"protocol=http\"", path].iter().all(|string| line.contains(string))
            })
        };
        wanted.iter().all(resolved).then_some(())
    });
    let ended = announcer.stop(PATIENCE).expect("it ends in time");
    assert!(ended.success(), "{}", announcer.log_text());
    wait_until("Avahi has heard the goodbye", Duration::from_secs(5), || avahi.browse(&net).is_empty().then_some(()));

    // The other way round, with the key of the guideline's second example.
    let _published = avahi.publish(&folder, &["identity", "_openstack._tcp", "5000", "proto=http", "path=/v3"]);
    let found = wait_until("Avahi's service is found", PATIENCE, || {
        let (code, text) = discover(&net, "identity", &[]);
        (code == 0).then_some(text)
    });
    assert_eq!(found, format!("http://{OTHER}:5000/v3\nhttp://[{OTHER_6}]:5000/v3"));
    assert_eq!(discover(&net, "compute", &["--timeout", "1s"]).0, 4);
}

//--- python-zeroconf ---

/// The Python that has zeroconf, and the program for it.
fn zeroconf(net: &Net, node: &str, arguments: &[&str]) -> Command {
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| repository_file("target"), PathBuf::from);
    let python = target.join("zeroconf/bin/python");
    assert!(python.exists(), "{} is missing; run make test-partition", python.display());
    let mut command = net.command(node, &python);
    command.arg(repository_file("tests/link/zeroconf_peer.py")).args(arguments);
    command
}

#[test]
#[ignore = "needs root: make test-partition"]
fn zeroconf_finds_what_is_announced_and_is_found() {
    let folder = Folder::new();
    let net = network();
    let mut browser =
        Process::start("zeroconf", &mut zeroconf(&net, "other", &["browse"]), &folder.path().join("browse.log"));
    let mut announcer = announce(&net, &folder);
    let lines = [
        format!("add baremetal._openstack._tcp.local. {IRONIC} 80 txtvers=1 protocol=http path=/baremetal\n"),
        format!("add baremetal-introspection._openstack._tcp.local. {IRONIC} 5050 txtvers=1 protocol=http path=/\n"),
    ];
    let log = folder.path().join("browse.log");
    let said = || std::fs::read_to_string(&log).unwrap_or_default();
    browser.wait_ready("has found both services", PATIENCE, || {
        lines.iter().all(|line| said().contains(line)).then_some(())
    });
    assert!(announcer.stop(PATIENCE).expect("it ends in time").success(), "{}", announcer.log_text());
    browser.wait_ready("has heard the goodbye", Duration::from_secs(5), || {
        said().contains("remove baremetal._openstack._tcp.local.\n").then_some(())
    });
    drop(browser);

    let addresses = format!("{OTHER},{OTHER_6}");
    let arguments = ["announce", &addresses, "baremetal", "6385", "txtvers=1", "protocol=https", "path=/"];
    let _announced =
        Process::start("zeroconf", &mut zeroconf(&net, "other", &arguments), &folder.path().join("announce.log"));
    let found = wait_until("zeroconf's service is found", PATIENCE, || {
        let (code, text) = discover(&net, "baremetal", &["--interface", "eth0"]);
        (code == 0).then_some(text)
    });
    assert_eq!(found, format!("https://{OTHER}:6385/\nhttps://[{OTHER_6}]:6385/"));
}

#[test]
#[ignore = "needs root: make test-partition"]
fn the_ramdisk_of_the_guideline_finds_both_services() {
    let folder = Folder::new();
    let net = network();
    let _announcer = announce(&net, &folder);
    for (kind, url) in
        [("baremetal", "http://192.168.42.17/baremetal"), ("baremetal-introspection", "http://192.168.42.17:5050/")]
    {
        let found = wait_until("the service is found", PATIENCE, || {
            let (code, text) = discover(&net, kind, &[]);
            (code == 0).then_some(text)
        });
        assert_eq!(found, url);
    }
}

#[test]
#[ignore = "needs root: make test-partition"]
fn a_host_is_found_with_the_addresses_of_both_families_each_time() {
    let folder = Folder::new();
    let net = network();
    let _announcer = announce(&net, &folder);
    wait_until("the service is found", PATIENCE, || (discover(&net, "compute", &[]).0 == 0).then_some(()));
    let expected = format!("https://{IRONIC}:8774/v2.1\nhttps://[{IRONIC_6}]:8774/v2.1");
    for _ in 0..8 {
        assert_eq!(discover(&net, "compute", &[]), (0, expected.clone()));
    }
}
