//! Resolvers: one of each datacenter's own, and a central one that tells of its clients' subnets.
//!
//! They are told where the zones are, to validate nothing, and to forget within the TTL; all else is as packaged.

use super::harness::{Folder, Net, Process, program_path, write_file};
use std::net::Ipv4Addr;
use std::path::Path;

/// Writes a configuration into the folder, from the resolver's address, the zones, and their server. Returns the program's
/// arguments.
type Configure = fn(&Path, Ipv4Addr, &[String], Ipv4Addr) -> Vec<String>;

/// The resolvers of the three datacenters, and the central one.
const KINDS: [(&str, Configure); 4] =
    [("unbound", unbound), ("named", named), ("kresd", kresd), ("pdns_recursor", recursor)];

/// Starts one of them on a machine.
pub fn start(
    net: &Net,
    folder: &Folder,
    node: &str,
    kind: usize,
    [address, server]: [Ipv4Addr; 2],
    zones: &[String],
) -> Process {
    let (program, configure) = KINDS[kind];
    let home = folder.subfolder(node);
    let mut command = net.command(node, &program_path(program));
    command.args(configure(&home, address, zones, server)).current_dir(&home);
    Process::start(program, &mut command, &home.join("log"))
}

fn unbound(home: &Path, address: Ipv4Addr, zones: &[String], server: Ipv4Addr) -> Vec<String> {
    let folder = home.display();
    let mut text = format!(
        "server:\n directory: \"{folder}\"\n chroot: \"\"\n username: \"\"\n pidfile: \"\"\n use-syslog: no\n \
         interface: {address}\n access-control: 10.53.0.0/16 allow\nremote-control:\n control-enable: no\n"
    );
    zones.iter().for_each(|zone| text += &format!("stub-zone:\n name: \"{zone}\"\n stub-addr: {server}\n"));
    let configuration = home.join("unbound.conf");
    write_file(&configuration, &text);
    ["-d", "-p", "-c", &configuration.display().to_string()].map(String::from).to_vec()
}

fn named(home: &Path, address: Ipv4Addr, zones: &[String], server: Ipv4Addr) -> Vec<String> {
    let folder = home.display();
    let mut text = format!(
        "controls {{ }};\noptions {{\n directory \"{folder}\";\n managed-keys-directory \"{folder}\";\n pid-file none;\n \
         lock-file none;\n session-keyfile none;\n listen-on {{ {address}; }};\n listen-on-v6 {{ none; }};\n \
         allow-recursion {{ 10.53.0.0/16; }};\n dnssec-validation no;\n}};\n"
    );
    let zone = |zone: &String| format!("zone \"{zone}\" {{ type static-stub; server-addresses {{ {server}; }}; }};\n");
    text.extend(zones.iter().map(zone));
    let configuration = home.join("named.conf");
    write_file(&configuration, &text);
    ["-g", "-c", &configuration.display().to_string()].map(String::from).to_vec()
}

/// Knot Resolver keeps everything for five seconds unless it is told otherwise.
fn kresd(home: &Path, address: Ipv4Addr, zones: &[String], server: Ipv4Addr) -> Vec<String> {
    let mut text = format!(
        "net.listen('{address}', 53, {{ kind = 'dns' }})\nmodules = {{ 'hints > iterate', 'stats', 'predict' }}\n\
         cache.size = 100 * MB\ncache.min_ttl(1)\ntrust_anchors.remove('.')\nmodules.unload('priming')\n"
    );
    for zone in zones {
        text += &format!("policy.add(policy.suffix(policy.STUB('{server}'), policy.todnames({{ '{zone}' }})))\n");
    }
    let configuration = home.join("kresd.conf");
    write_file(&configuration, &text);
    ["-n", "-c", &configuration.display().to_string(), &home.display().to_string()].map(String::from).to_vec()
}

/// PowerDNS Recursor, which tells the server of subnets; in one thread, because each has a cache of whole answers.
fn recursor(home: &Path, address: Ipv4Addr, zones: &[String], server: Ipv4Addr) -> Vec<String> {
    let folder = home.display();
    let places: Vec<String> = zones.iter().map(|zone| format!("{zone}={server}")).collect();
    let places = places.join(", ");
    write_file(&home.join("root.hints"), ". 3600000 NS ns.root.test.\nns.root.test. 3600000 A 127.0.0.1\n");
    let text = format!(
        "local-address={address}\nlocal-port=53\nsocket-dir={folder}\nquiet=yes\nsecurity-poll-suffix=\nthreads=1\n\
         hint-file={folder}/root.hints\nforward-zones={places}\n\
         edns-subnet-allow-list={server}\necs-add-for=10.53.0.0/16\n"
    );
    write_file(&home.join("recursor.conf"), &text);
    let folder = format!("--config-dir={folder}");
    [folder.as_str(), "--daemon=no", "--write-pid=no", "--disable-syslog"].map(String::from).to_vec()
}
