//! NSD as a primary.

use super::peer::{KEY_NAME, KEY_SECRET, Kind, Peer, ZoneText};
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

    /// Starts it so that it keeps differences, and wants signatures from 127.0.0.2.
    pub fn start_incremental(folder: &Folder, zones: &[ZoneText]) -> Peer {
        let arguments = |file: &Path| vec!["-d".into(), "-c".into(), file.display().to_string()];
        Peer::start(&Kind { program: "nsd", configure: configure_incremental, arguments }, folder, zones)
    }
}

/// As [`configure`], with differences made of what changed from one reading of a zone file to the next.
fn configure_incremental(home: &Path, address: SocketAddr, zones: &[(Dname, PathBuf)]) -> String {
    let each = format!(
        " provide-xfr: 127.0.0.1 NOKEY\n provide-xfr: 127.0.0.2 {KEY_NAME}\n store-ixfr: yes\n create-ixfr: yes\n \
         ixfr-number: 1000\n ixfr-size: 100000000\n"
    );
    let text = configure(home, address, zones).replace(" provide-xfr: 127.0.0.1 NOKEY\n", &each);
    format!("{text}key:\n name: \"{KEY_NAME}\"\n algorithm: hmac-sha256\n secret: \"{KEY_SECRET}\"\n")
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
