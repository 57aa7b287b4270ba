//! A datacenter: a real name server with its zone, and instances that take connections.

use super::harness::{Folder, Net, Process, program_path, run_tool, write_file};
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Instances of the service; their addresses follow each other.
const INSTANCES: u8 = 3;
const FIRST_INSTANCE: u8 = 80;
/// Instances besides, so that a service that goes is a small part of the zone.
const OTHERS: u8 = 40;
/// Seconds for which the zone is good without contact.
pub const EXPIRE: u64 = 12;

/// Writes a configuration from the folder, the server's address, the zone, and the address that is notified.
type Configure = fn(&Path, Ipv4Addr, &str, Ipv4Addr) -> String;

/// The servers of the datacenters: the program, its arguments before the configuration, and that.
const KINDS: [(&str, &[&str], Configure); 3] =
    [("named", &["-g", "-n", "1", "-c"], named), ("nsd", &["-d", "-c"], nsd), ("knotd", &["-c"], knotd)];

/// A datacenter that runs.
pub struct Datacenter {
    number: u8,
    file: PathBuf,
    serial: u32,
    server: Process,
}

/// The zone of a datacenter.
pub fn zone(number: u8) -> String {
    format!("us-west-{number}.cns.example.com")
}

/// The address of its name server.
pub fn address(number: u8) -> Ipv4Addr {
    Ipv4Addr::new(10, 53, number, 2)
}

/// Number of the datacenter that an instance of the service is in.
pub fn datacenter_of(instance: Ipv4Addr) -> Option<u8> {
    let [10, 53, number @ 1..=3, last] = instance.octets() else { return None };
    (FIRST_INSTANCE..FIRST_INSTANCE + INSTANCES).contains(&last).then_some(number)
}

impl Datacenter {
    /// Starts a datacenter, which is a machine of the net.
    pub fn start(net: &Net, folder: &Folder, node: &str, number: u8, notified: Ipv4Addr) -> Datacenter {
        for instance in instances(number) {
            let mut ip = net.command(node, &program_path("ip"));
            run_tool(ip.args(["addr", "add", &format!("{instance}/16"), "dev", "eth0"]));
        }
        // A socket stays in the machine that it was made in.
        let service = net.enter(node, || TcpListener::bind("0.0.0.0:80").expect("TCP socket"));
        std::thread::spawn(move || service.incoming().for_each(drop));

        let (program, arguments, configure) = KINDS[usize::from(number) - 1];
        let home = folder.subfolder(&zone(number));
        let (configuration, file) = (home.join("server.conf"), home.join("zone"));
        write_file(&file, &zone_text(number, 1, true));
        write_file(&configuration, &configure(&home, address(number), &zone(number), notified));
        let mut command = net.command(node, &program_path(program));
        command.args(arguments).arg(&configuration).current_dir(&home);
        let server = Process::start(program, &mut command, &home.join("log"));
        Datacenter { number, file, serial: 1, server }
    }

    /// Publishes the zone with the service or without it.
    pub fn publish(&mut self, has_service: bool) {
        self.server.assert_running();
        self.serial += 1;
        write_file(&self.file, &zone_text(self.number, self.serial, has_service));
        self.server.signal(libc::SIGHUP);
    }

    /// Waits until the server answers.
    pub fn wait_serving(&mut self, patience: Duration, serves: impl FnMut() -> Option<()>) {
        self.server.wait_ready("answers", patience, serves);
    }
}

/// The addresses of the instances of the service.
fn instances(number: u8) -> impl Iterator<Item = Ipv4Addr> {
    (FIRST_INSTANCE..FIRST_INSTANCE + INSTANCES).map(move |last| Ipv4Addr::new(10, 53, number, last))
}

/// A version of the zone, with names as CNS makes them. Resolvers keep its records for a second.
fn zone_text(number: u8, serial: u32, has_service: bool) -> String {
    let mut text = format!(
        "$ORIGIN {}.\n$TTL 1\n@ SOA ns1.example.com. hostmaster.example.com. {serial} 1 1 {EXPIRE} 1\n@ NS ns1.example.com.\n",
        zone(number)
    );
    for (index, instance) in instances(number).enumerate() {
        text.push_str(&format!("i{number}-{index}.inst.acme A {instance}\n"));
        if has_service {
            text.push_str(&format!(
                "web.svc.acme A {instance}\nweb.svc.acme SRV 0 10 80 i{number}-{index}.inst.acme\n"
            ));
        }
    }
    (0..OTHERS).for_each(|other| text.push_str(&format!("other{number}-{other}.inst.acme A 192.0.2.{other}\n")));
    text
}

fn named(home: &Path, address: Ipv4Addr, zone: &str, notified: Ipv4Addr) -> String {
    let home = home.display();
    format!(
        "controls {{ }};\noptions {{\n directory \"{home}\";\n managed-keys-directory \"{home}\";\n pid-file none;\n \
         lock-file none;\n session-keyfile none;\n listen-on {{ {address}; }};\n listen-on-v6 {{ none; }};\n recursion no;\n \
         dnssec-validation no;\n allow-transfer {{ {notified}; }};\n}};\n\
         zone \"{zone}\" {{ type primary; file \"zone\"; notify explicit; notify-delay 0; also-notify {{ {notified}; }}; }};\n"
    )
}

fn nsd(home: &Path, address: Ipv4Addr, zone: &str, notified: Ipv4Addr) -> String {
    let home = home.display();
    format!(
        "server:\n ip-address: {address}\n server-count: 1\n database: \"\"\n username: \"\"\n chroot: \"\"\n \
         zonesdir: \"{home}\"\n zonelistfile: \"{home}/zone.list\"\n pidfile: \"{home}/nsd.pid\"\n \
         xfrdfile: \"{home}/xfrd.state\"\n xfrdir: \"{home}\"\nremote-control:\n control-enable: no\n\
         zone:\n name: \"{zone}\"\n zonefile: \"zone\"\n notify: {notified} NOKEY\n provide-xfr: {notified} NOKEY\n"
    )
}

fn knotd(home: &Path, address: Ipv4Addr, zone: &str, notified: Ipv4Addr) -> String {
    let home = home.display();
    format!(
        "server:\n  rundir: \"{home}\"\n  listen: {address}@53\n  pidfile: \"{home}/knot.pid\"\n\
         control:\n  listen: \"{home}/knot.sock\"\nlog:\n  - target: stderr\n    any: notice\n\
         database:\n  storage: \"{home}\"\nremote:\n  - id: region\n    address: {notified}\n\
         acl:\n  - id: region\n    address: {notified}\n    action: transfer\n\
         zone:\n  - domain: \"{zone}\"\n    storage: \"{home}\"\n    file: zone\n    notify: region\n    acl: region\n    \
         zonefile-sync: -1\n    zonefile-load: whole\n    journal-content: none\n"
    )
}
