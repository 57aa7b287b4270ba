//! Real resolvers: BIND, Unbound, Knot Resolver and PowerDNS Recursor, as they are packaged.
//!
//! A resolver is told where zones are, where it may listen and write, and not to validate, since the root that its keys
//! are for is not asked here. All else is what the package or the program has by itself: limits on what it takes above
//! all.

use super::folder::write_file;
use super::peer::program_path;
use super::{Client, Dname, Folder, Message, Port, Process, Query, rtype};
use std::fmt::Write;
use std::io;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// Writes a configuration into the resolver's folder from its own address, the zones, and the server that has them.
/// Returns the arguments of the program.
type Configure = fn(&Path, SocketAddr, &[&Dname], SocketAddr) -> Vec<String>;

/// All resolvers, and how they are told.
const KINDS: [(&str, Configure); 4] = [
    ("named", configure_named),
    ("unbound", configure_unbound),
    ("kresd", configure_kresd),
    ("pdns_recursor", configure_recursor),
];

/// Name of the file with the keys that a resolver trusts.
const KEYS: &str = "keys";

/// A running resolver.
pub struct PackagedResolver {
    name: &'static str,
    address: SocketAddr,
    process: Process,
}

impl PackagedResolver {
    /// Starts one of each, which ask `server` for these zones, and waits until all resolve them.
    pub fn start_all(folder: &Folder, zones: &[&Dname], server: SocketAddr) -> Vec<PackagedResolver> {
        PackagedResolver::start_kinds(&KINDS, folder, zones, server)
    }

    fn start_kinds(
        kinds: &[(&'static str, Configure)],
        folder: &Folder,
        zones: &[&Dname],
        server: SocketAddr,
    ) -> Vec<PackagedResolver> {
        let mut resolvers: Vec<PackagedResolver> = kinds
            .iter()
            .map(|(name, configure)| PackagedResolver::start(name, *configure, folder, zones, server))
            .collect();
        for resolver in &mut resolvers {
            for zone in zones {
                let address = resolver.address;
                resolver.process.wait_ready(&format!("resolves {zone}"), Duration::from_secs(30), || {
                    let mut client = Client::new(address).with_deadline(Duration::from_millis(500));
                    let answer = client.ask(&question(zone, rtype::SOA)).ok()?;
                    (answer.rcode() == 0 && answer.answer.len() == 1).then_some(())
                });
            }
        }
        resolvers
    }

    fn start(
        name: &'static str,
        configure: Configure,
        folder: &Folder,
        zones: &[&Dname],
        server: SocketAddr,
    ) -> PackagedResolver {
        let mut port = Port::reserve();
        let home = folder.subfolder(&format!("resolver-{name}"));
        let arguments = configure(&home, port.address(), zones, server);
        let mut command = Command::new(program_path(name));
        command.args(arguments).current_dir(&home);
        let address = port.release();
        let process = Process::start(name, &mut command, &home.join("log"));
        PackagedResolver { name, address, process }
    }

    /// Starts Unbound and PowerDNS Recursor, which tell `server` of their clients' subnets.
    pub fn start_telling(folder: &Folder, zone: &Dname, server: SocketAddr) -> Vec<PackagedResolver> {
        let kinds: [(&str, Configure); 2] =
            [("unbound", configure_telling_unbound), ("pdns_recursor", configure_telling_recursor)];
        PackagedResolver::start_kinds(&kinds, folder, &[zone], server)
    }

    /// Starts Unbound, which validates what is below the keys in a file's text.
    pub fn start_validating(folder: &Folder, zones: &[&Dname], keys: &str, server: SocketAddr) -> PackagedResolver {
        write_file(&folder.subfolder("resolver-unbound").join(KEYS), keys);
        let kinds: [(&str, Configure); 1] = [("unbound", configure_validating_unbound)];
        PackagedResolver::start_kinds(&kinds, folder, zones, server).remove(0)
    }

    /// Name of the program.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Asks as the resolver library of a host does: over UDP, and again over TCP when the answer is truncated.
    pub fn resolve(&self, name: &Dname, rtype: u16) -> io::Result<Message> {
        self.resolve_from(self.address.ip(), name, rtype)
    }

    /// Asks from an address of loopback; one of IPv6 only a resolver that tells of subnets.
    pub fn resolve_from(&self, source: IpAddr, name: &Dname, rtype: u16) -> io::Result<Message> {
        let ip = if source.is_ipv6() { Ipv6Addr::LOCALHOST.into() } else { self.address.ip() };
        let address = SocketAddr::new(ip, self.address.port());
        let mut client = Client::between(source, address).with_deadline(Duration::from_secs(15));
        resolve_by(&mut client, &question(name, rtype))
    }

    /// Asks for signatures, and so for whether the answer is secure.
    pub fn resolve_signed(&self, name: &Dname, rtype: u16) -> io::Result<Message> {
        let mut client = Client::new(self.address).with_deadline(Duration::from_secs(15));
        resolve_by(&mut client, &Query { dnssec_ok: true, ..question(name, rtype) })
    }
}

/// Asks over UDP, and again over TCP when the answer is truncated.
fn resolve_by(client: &mut Client, query: &Query) -> io::Result<Message> {
    let answer = client.ask(query)?;
    if answer.is_truncated() { client.ask_tcp(query) } else { Ok(answer) }
}

/// A question to a resolver, with the payload that hosts announce.
fn question(name: &Dname, rtype: u16) -> Query {
    Query { edns: Some(1232), recursion_desired: true, ..Query::new(name, rtype) }
}

/// BIND has a port for all that it asks; what it is told to listen on is another.
fn configure_named(home: &Path, address: SocketAddr, zones: &[&Dname], server: SocketAddr) -> Vec<String> {
    let (folder, port) = (home.display(), address.port());
    let mut text = format!(
        "controls {{ }};\noptions {{\n directory \"{folder}\";\n managed-keys-directory \"{folder}\";\n pid-file none;\n \
         lock-file none;\n session-keyfile none;\n listen-on port {port} {{ 127.0.0.1; }};\n listen-on-v6 {{ none; }};\n \
         port {};\n dnssec-validation no;\n}};\n",
        server.port()
    );
    for zone in zones {
        writeln!(text, "zone \"{zone}\" {{ type static-stub; server-addresses {{ {}; }}; }};", server.ip())
            .expect("string");
    }
    let configuration = home.join("named.conf");
    write_file(&configuration, &text);
    ["-g", "-c", &configuration.display().to_string()].map(String::from).to_vec()
}

/// Unbound asks no loopback address unless it may. Without a key of the root it validates nothing.
fn configure_unbound(home: &Path, address: SocketAddr, zones: &[&Dname], server: SocketAddr) -> Vec<String> {
    let (folder, port) = (home.display(), address.port());
    let mut text = format!(
        "server:\n directory: \"{folder}\"\n chroot: \"\"\n username: \"\"\n pidfile: \"\"\n use-syslog: no\n \
         interface: 127.0.0.1\n port: {port}\n do-not-query-localhost: no\nremote-control:\n control-enable: no\n"
    );
    for zone in zones {
        writeln!(text, "stub-zone:\n name: \"{zone}\"\n stub-addr: {}@{}", server.ip(), server.port()).expect("string");
    }
    let configuration = home.join("unbound.conf");
    write_file(&configuration, &text);
    ["-d", "-p", "-c", &configuration.display().to_string()].map(String::from).to_vec()
}

/// Unbound with keys, and with the names for tests as others (RFC 6761 section 6.2).
fn configure_validating_unbound(home: &Path, address: SocketAddr, zones: &[&Dname], server: SocketAddr) -> Vec<String> {
    let arguments = configure_unbound(home, address, zones, server);
    let configuration = home.join("unbound.conf");
    let text = std::fs::read_to_string(&configuration).expect("the configuration is there");
    let keys = home.join(KEYS);
    let keys = format!("server:\n trust-anchor-file: \"{}\"\n local-zone: \"test.\" nodefault\n", keys.display());
    write_file(&configuration, &text.replacen("server:\n", &keys, 1));
    arguments
}

/// Unbound with its module for subnets, which leaves no room for the one that validates.
fn configure_telling_unbound(home: &Path, address: SocketAddr, zones: &[&Dname], server: SocketAddr) -> Vec<String> {
    let arguments = configure_unbound(home, address, zones, server);
    let configuration = home.join("unbound.conf");
    let text = std::fs::read_to_string(&configuration).expect("configuration");
    let told = format!(
        "server:\n module-config: \"subnetcache iterator\"\n send-client-subnet: {}\n interface: ::1\n \
         access-control: ::1 allow\n",
        server.ip()
    );
    write_file(&configuration, &text.replacen("server:\n", &told, 1));
    arguments
}

/// PowerDNS Recursor tells nobody of clients on loopback unless it is asked to.
fn configure_telling_recursor(home: &Path, address: SocketAddr, zones: &[&Dname], server: SocketAddr) -> Vec<String> {
    let arguments = configure_recursor(home, address, zones, server);
    let configuration = home.join("recursor.conf");
    let text = std::fs::read_to_string(&configuration).expect("configuration");
    let text = text.replace("local-address=127.0.0.1\n", "local-address=127.0.0.1, ::1\n");
    let told = format!("edns-subnet-allow-list={}\necs-add-for=127.0.0.0/8, ::1/128\n", server.ip());
    write_file(&configuration, &format!("{text}{told}"));
    arguments
}

/// Knot Resolver with the modules and the size of the cache that its package sets. Those that ask the root by
/// themselves are left out, as is the root's key.
fn configure_kresd(home: &Path, address: SocketAddr, zones: &[&Dname], server: SocketAddr) -> Vec<String> {
    let mut text = format!(
        "net.listen('127.0.0.1', {}, {{ kind = 'dns' }})\nmodules = {{ 'hints > iterate', 'stats', 'predict' }}\n\
         cache.size = 100 * MB\ntrust_anchors.remove('.')\nmodules.unload('priming')\n",
        address.port()
    );
    for zone in zones {
        let place = format!("{}@{}", server.ip(), server.port());
        writeln!(text, "policy.add(policy.suffix(policy.STUB('{place}'), policy.todnames({{ '{zone}' }})))")
            .expect("string");
    }
    let configuration = home.join("kresd.conf");
    write_file(&configuration, &text);
    ["-n", "-c", &configuration.display().to_string(), &home.display().to_string()].map(String::from).to_vec()
}

/// PowerDNS Recursor validates nothing unless it is asked to. It looks for the root when it starts: here it is told of one
/// on loopback, where it asks nobody whom it is not sent to.
fn configure_recursor(home: &Path, address: SocketAddr, zones: &[&Dname], server: SocketAddr) -> Vec<String> {
    let (folder, port) = (home.display(), address.port());
    let places: Vec<String> = zones.iter().map(|zone| format!("{zone}={server}")).collect();
    let places = places.join(", ");
    write_file(&home.join("root.hints"), ". 3600000 NS ns.root.test.\nns.root.test. 3600000 A 127.0.0.1\n");
    let text = format!(
        "local-address=127.0.0.1\nlocal-port={port}\nsocket-dir={folder}\nquiet=yes\nsecurity-poll-suffix=\n\
         hint-file={folder}/root.hints\nforward-zones={places}\n"
    );
    write_file(&home.join("recursor.conf"), &text);
    let folder = format!("--config-dir={folder}");
    [folder.as_str(), "--daemon=no", "--write-pid=no", "--disable-syslog"].map(String::from).to_vec()
}
