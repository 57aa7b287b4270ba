//! Network namespaces on one bridge, made and removed by the test itself: real sockets, real addresses, real loss.
//!
//! Needs root and the programs `ip` and `nft`. Names begin with the process id, so that nothing else is touched; the bridge has a
//! namespace of its own. A test that is killed leaves namespaces behind, which `ip -all netns delete` removes.

use super::folder::write_file;
use super::peer::program_path;
use std::fs::File;
use std::io::Write;
use std::net::Ipv4Addr;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};

/// Networks of this process so far.
static NETS: AtomicUsize = AtomicUsize::new(0);

/// Some machines on a network.
pub struct Net {
    prefix: String,
    nodes: Vec<String>,
}

impl Net {
    /// Makes a namespace for each machine, named and with an address and the length of its prefix.
    pub fn create(nodes: &[(&str, String)]) -> Net {
        // SAFETY: a plain system call without arguments.
        let is_root = unsafe { libc::geteuid() } == 0;
        assert!(is_root, "network namespaces need root: run `make test-partition` as root");
        let mut net = Net {
            prefix: format!("agg{}-{}", std::process::id(), NETS.fetch_add(1, Ordering::Relaxed)),
            nodes: vec!["net".to_string()],
        };
        let switch = net.full("net");
        let added = run_ip(&["netns", "add", &switch]);
        assert!(
            added.status.success(),
            "network namespaces are not permitted here ({}): run `make test-partition` as root, in a container with \
             CAP_SYS_ADMIN and CAP_NET_ADMIN",
            String::from_utf8_lossy(&added.stderr).trim()
        );
        ip(&["-n", &switch, "link", "add", "br0", "type", "bridge"]);
        ip(&["-n", &switch, "link", "set", "br0", "up"]);
        for (index, (node, address)) in nodes.iter().enumerate() {
            let (full, port) = (net.full(node), format!("port{index}"));
            ip(&["netns", "add", &full]);
            // From here on it is removed with the others.
            net.nodes.push(node.to_string());
            ip(&["link", "add", &port, "netns", &switch, "type", "veth", "peer", "name", "eth0", "netns", &full]);
            ip(&["-n", &switch, "link", "set", &port, "master", "br0", "up"]);
            ip(&["-n", &full, "addr", "add", address, "dev", "eth0"]);
            ip(&["-n", &full, "link", "set", "eth0", "up"]);
            ip(&["-n", &full, "link", "set", "lo", "up"]);
        }
        net
    }

    /// The name of a machine's namespace.
    fn full(&self, node: &str) -> String {
        format!("{}-{node}", self.prefix)
    }

    /// Runs something within a machine: its sockets, and those of the threads it starts, are there.
    pub fn enter<T: Send>(&self, node: &str, work: impl FnOnce() -> T + Send) -> T {
        let namespace = File::open(format!("/run/netns/{}", self.full(node))).expect("a namespace");
        std::thread::scope(|scope| {
            let inside = scope.spawn(move || {
                // SAFETY: a plain system call on an open file; it changes this thread only, which ends with the work.
                let status = unsafe { libc::setns(namespace.as_raw_fd(), libc::CLONE_NEWNET) };
                assert_eq!(status, 0, "setns: {}", std::io::Error::last_os_error());
                work()
            });
            inside.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }

    /// A program to be run within a machine, in a folder.
    pub fn command(&self, node: &str, program: &Path) -> Command {
        let mut command = Command::new(program_path("ip"));
        command.args(["netns", "exec", &self.full(node)]).arg(program);
        command
    }

    /// Lets this share of the packets that come in to a machine get lost: 0 none, 100 all. Its own loopback is spared.
    pub fn lose(&self, node: &str, percent: u32) {
        let rule = match percent {
            0 => String::new(),
            100 => "iifname \"eth0\" drop\n".to_string(),
            share => format!("iifname \"eth0\" numgen random mod 100 < {share} drop\n"),
        };
        self.set_weather(node, &rule);
    }

    /// Lets all packets get lost that come in to a machine from some addresses.
    pub fn lose_from(&self, node: &str, addresses: &[Ipv4Addr]) {
        let addresses: Vec<String> = addresses.iter().map(Ipv4Addr::to_string).collect();
        self.set_weather(node, &format!("ip saddr {{ {} }} drop\n", addresses.join(", ")));
    }

    /// Sets the rule by which packets that come in get lost.
    fn set_weather(&self, node: &str, rule: &str) {
        let rules = format!(
            "flush ruleset\ntable inet weather {{\nchain incoming {{\n\
             type filter hook input priority 0; policy accept;\n{rule}}}\n}}\n"
        );
        let mut nft = self.command(node, &program_path("nft"));
        let nft = nft.args(["-f", "-"]).stdin(Stdio::piped()).spawn();
        let mut nft = nft.unwrap_or_else(|error| panic!("nft is missing ({error}); run make test-partition"));
        nft.stdin.take().expect("standard input").write_all(rules.as_bytes()).expect("rules");
        assert!(nft.wait().expect("end of nft").success(), "{rules}");
    }

    /// A file that containers find as /etc/hosts.
    pub fn write_hosts(path: &Path, hosts: &[(&str, String)]) {
        let lines = hosts.iter().map(|(name, address)| {
            let address = address.split('/').next().unwrap_or_default();
            format!("{address} {name}\n")
        });
        write_file(path, &("127.0.0.1 localhost\n".to_string() + &lines.collect::<String>()));
    }
}

impl Drop for Net {
    fn drop(&mut self) {
        for node in &self.nodes {
            // What is not there any more needs no removal.
            let _ = Command::new(program_path("ip")).args(["netns", "del", &self.full(node)]).status();
        }
    }
}

/// Runs `ip`, which must succeed.
fn ip(arguments: &[&str]) {
    let output = run_ip(arguments);
    assert!(output.status.success(), "ip {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
}

/// Runs `ip`.
fn run_ip(arguments: &[&str]) -> Output {
    Command::new(program_path("ip")).args(arguments).output().expect("run ip")
}
