//! NSD as a primary.

use super::peer::{Kind, Peer, ZoneText};
use super::{Dname, Folder};
use std::fmt::Write;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

/// NLnet Labs' `nsd`.
pub struct Nsd;

impl Nsd {
    /// Starts it with these zones.
    pub fn start(folder: &Folder, zones: &[ZoneText]) -> Peer {
        let arguments = |file: &Path| vec!["-d".into(), "-c".into(), file.display().to_string()];
        Peer::start(&Kind { program: "nsd", configure, arguments }, folder, zones)
    }
}

/// Without a limit of the response rate, which Debian builds in; SIGHUP rereads changed zone files.
fn configure(home: &Path, address: SocketAddr, zones: &[(Dname, PathBuf)]) -> String {
    let port = address.port();
    let home = home.display();
    let mut text = format!(
        "server:\n ip-address: 127.0.0.1@{port}\n port: {port}\n server-count: 1\n database: \"\"\n username: \"\"\n \
         chroot: \"\"\n zonesdir: \"{home}\"\n zonelistfile: \"{home}/zone.list\"\n pidfile: \"{home}/nsd.pid\"\n \
         xfrdfile: \"{home}/xfrd.state\"\n xfrdir: \"{home}\"\n rrl-ratelimit: 0\n rrl-whitelist-ratelimit: 0\n \
         minimal-responses: yes\n refuse-any: no\n zonefiles-check: yes\n zonefiles-write: 0\n tcp-count: 500\n \
         verbosity: 0\nremote-control:\n control-enable: no\n"
    );
    for (zone, file) in zones {
        let file = file.display();
        writeln!(text, "zone:\n name: \"{zone}\"\n zonefile: \"{file}\"\n provide-xfr: 127.0.0.1 NOKEY")
            .expect("string");
    }
    text
}
