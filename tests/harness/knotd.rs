//! Knot DNS as a primary, and as a secondary.

use super::peer::{COOKIE_SECRET, KEY_NAME, KEY_SECRET, Kind, Peer, ZoneText};
use super::secondary::{Secondary, SecondaryKind, SecondaryPlan, TsigKey};
use super::{Dname, Folder};
use std::fmt::Write;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

/// CZ.NIC's `knotd`.
pub struct Knotd;

impl Knotd {
    /// Starts it with these zones.
    pub fn start(folder: &Folder, zones: &[ZoneText]) -> Peer {
        Peer::start(&Kind { program: "knotd", configure, arguments }, folder, zones)
    }

    /// Starts it so that it keeps differences, and wants signatures from 127.0.0.2.
    pub fn start_incremental(folder: &Folder, zones: &[ZoneText]) -> Peer {
        Peer::start(&Kind { program: "knotd", configure: configure_incremental, arguments }, folder, zones)
    }

    /// Starts it so that it answers nobody over UDP who has a wrong cookie.
    pub fn start_with_cookies(folder: &Folder, zones: &[ZoneText]) -> Peer {
        Peer::start(&Kind { program: "knotd", configure: configure_cookies, arguments }, folder, zones)
    }

    /// Starts it as a secondary.
    pub fn start_secondary(folder: &Folder, plan: &SecondaryPlan) -> Secondary {
        let kind = SecondaryKind { program: "knotd", configure: configure_secondary, arguments };
        Secondary::start(&kind, folder, plan)
    }
}

/// In the foreground, which is what it does by itself.
fn arguments(configuration: &Path) -> Vec<String> {
    vec!["-c".into(), configuration.display().to_string()]
}

/// Without a journal: the zone file is all there is, and SIGHUP rereads it.
fn configure(home: &Path, address: SocketAddr, zones: &[(Dname, PathBuf)]) -> String {
    let mut text = server(home, address, "error");
    let home = home.display();
    write!(
        text,
        "acl:\n  - id: axfr\n    address: 127.0.0.1\n    action: transfer\n\
         template:\n  - id: default\n    storage: \"{home}\"\n    acl: axfr\n    zonefile-sync: -1\n    \
         zonefile-load: whole\n    journal-content: none\nzone:\n"
    )
    .expect("string");
    for (zone, file) in zones {
        writeln!(text, "  - domain: \"{}\"\n    file: \"{}\"", escape(zone), file.display()).expect("string");
    }
    text
}

/// The beginning of a configuration.
pub(super) fn server(home: &Path, address: SocketAddr, log: &str) -> String {
    let port = address.port();
    let home = home.display();
    format!(
        "server:\n  rundir: \"{home}\"\n  listen: 127.0.0.1@{port}\n  pidfile: \"{home}/knot.pid\"\n  \
         udp-workers: 1\n  tcp-workers: 2\n  background-workers: 1\n  tcp-max-clients: 500\n\
         control:\n  listen: \"{home}/knot.sock\"\n\
         log:\n  - target: stderr\n    any: {log}\n\
         database:\n  storage: \"{home}\"\n"
    )
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

/// As [`configure`], with cookies, each wrong one of which is told to be wrong.
fn configure_cookies(home: &Path, address: SocketAddr, zones: &[(Dname, PathBuf)]) -> String {
    let module =
        format!("mod-cookies:\n  - id: strict\n    secret: 0x{COOKIE_SECRET}\n    badcookie-slip: 1\ntemplate:\n");
    configure(home, address, zones)
        .replace("template:\n", &module)
        .replace("    acl: axfr\n", "    acl: axfr\n    global-module: mod-cookies/strict\n")
}

/// It asks for differences by itself. Members of the catalog are configured like the other zones.
fn configure_secondary(home: &Path, address: SocketAddr, plan: &SecondaryPlan) -> String {
    let mut text = server(home, address, "info");
    let home = home.display();
    let keys = plan.keys();
    for (index, key) in keys.iter().enumerate() {
        let head = if index == 0 { "key:\n" } else { "" };
        let (name, algorithm, secret) = (&key.name, &key.algorithm, &key.secret);
        writeln!(text, "{head}  - id: {name}\n    algorithm: {algorithm}\n    secret: {secret}").expect("string");
    }
    let line = |key: &Option<TsigKey>| key.as_ref().map(|key| format!("    key: {}\n", key.name)).unwrap_or_default();
    let (transfer, notify) = (line(&plan.transfer_key), line(&plan.notify_key));
    let primaries: Vec<SocketAddr> = plan.primaries().collect();
    let ids = ["primary", "other"][..primaries.len()].join(", ");
    let sources: Vec<String> = primaries.iter().map(|primary| primary.ip().to_string()).collect();
    let sources = sources.join(", ");
    text.push_str("remote:\n");
    for (id, primary) in ids.split(", ").zip(&primaries) {
        let (ip, port) = (primary.ip(), primary.port());
        write!(text, "  - id: {id}\n    address: {ip}@{port}\n{transfer}").expect("string");
    }
    // "master" is the keyword of this program.
    let template = format!(
        "    storage: \"{home}\"\n    master: [ {ids} ]\n    acl: [ announce, axfr ]\n    zonefile-sync: -1\n    \
         zonefile-load: none\n    journal-content: none\n"
    );
    write!(
        text,
        "acl:\n  - id: announce\n    address: [ {sources} ]\n{notify}    action: notify\n  \
         - id: axfr\n    address: 127.0.0.1\n    action: transfer\n\
         template:\n  - id: default\n{template}  - id: member\n{template}zone:\n"
    )
    .expect("string");
    for zone in &plan.zones {
        writeln!(text, "  - domain: \"{}\"", escape(zone)).expect("string");
    }
    if let Some(catalog) = &plan.catalog {
        let catalog = escape(catalog);
        writeln!(text, "  - domain: \"{catalog}\"\n    catalog-role: interpret\n    catalog-template: member")
            .expect("string");
    }
    text
}

/// In a quoted string of the configuration a backslash is doubled.
fn escape(zone: &Dname) -> String {
    zone.to_string().replace('\\', "\\\\")
}
