//! Knot DNS as a primary.

use super::peer::{KEY_NAME, KEY_SECRET, Kind, Peer, ZoneText};
use super::{Dname, Folder};
use std::fmt::Write;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

/// CZ.NIC's `knotd`.
pub struct Knotd;

impl Knotd {
    /// Starts it with these zones.
    pub fn start(folder: &Folder, zones: &[ZoneText]) -> Peer {
        let arguments = |file: &Path| vec!["-c".into(), file.display().to_string()];
        Peer::start(&Kind { program: "knotd", configure, arguments }, folder, zones)
    }

    /// Starts it so that it keeps differences, and wants signatures from 127.0.0.2.
    pub fn start_incremental(folder: &Folder, zones: &[ZoneText]) -> Peer {
        let arguments = |file: &Path| vec!["-c".into(), file.display().to_string()];
        Peer::start(&Kind { program: "knotd", configure: configure_incremental, arguments }, folder, zones)
    }
}

/// As [`configure`], with a journal of what changed from one reading of a zone file to the next.
fn configure_incremental(home: &Path, address: SocketAddr, zones: &[(Dname, PathBuf)]) -> String {
    let key = format!("key:\n  - id: {KEY_NAME}\n    algorithm: hmac-sha256\n    secret: {KEY_SECRET}\nacl:\n");
    let signed =
        format!("  - id: signed\n    address: 127.0.0.2\n    key: {KEY_NAME}\n    action: transfer\ntemplate:\n");
    configure(home, address, zones)
        .replace("acl:\n", &key)
        .replace("template:\n", &signed)
        .replace("acl: axfr\n", "acl: [axfr, signed]\n")
        .replace("zonefile-load: whole", "zonefile-load: difference")
        .replace("journal-content: none", "journal-content: all")
}

/// Without a journal: the zone file is all there is, and SIGHUP rereads it.
fn configure(home: &Path, address: SocketAddr, zones: &[(Dname, PathBuf)]) -> String {
    let port = address.port();
    let home = home.display();
    let mut text = format!(
        "server:\n  rundir: \"{home}\"\n  listen: 127.0.0.1@{port}\n  pidfile: \"{home}/knot.pid\"\n  \
         udp-workers: 1\n  tcp-workers: 2\n  background-workers: 1\n  tcp-max-clients: 500\n\
         control:\n  listen: \"{home}/knot.sock\"\n\
         log:\n  - target: stderr\n    any: error\n\
         database:\n  storage: \"{home}\"\n\
         acl:\n  - id: axfr\n    address: 127.0.0.1\n    action: transfer\n\
         template:\n  - id: default\n    storage: \"{home}\"\n    acl: axfr\n    zonefile-sync: -1\n    \
         zonefile-load: whole\n    journal-content: none\nzone:\n"
    );
    for (zone, file) in zones {
        writeln!(text, "  - domain: \"{}\"\n    file: \"{}\"", escape(zone), file.display()).expect("string");
    }
    text
}

/// In a quoted string of the configuration a backslash is doubled.
fn escape(zone: &Dname) -> String {
    zone.to_string().replace('\\', "\\\\")
}
