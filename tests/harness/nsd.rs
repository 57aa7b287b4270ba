//! NSD as a primary, and as a secondary.

use super::peer::{COOKIE_SECRET, KEY_NAME, KEY_SECRET, Kind, Peer, ZoneText};
use super::secondary::{Secondary, SecondaryKind, SecondaryPlan, TsigKey};
use super::{Dname, Folder};
use std::fmt::Write;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

/// NLnet Labs' `nsd`.
pub struct Nsd;

impl Nsd {
    /// Starts it with these zones.
    pub fn start(folder: &Folder, zones: &[ZoneText]) -> Peer {
        Peer::start(&Kind { program: "nsd", configure, arguments }, folder, zones)
    }

    /// Starts it with as many connections as it takes unless it is told otherwise, a hundred.
    pub fn start_with_its_limits(folder: &Folder, zones: &[ZoneText]) -> Peer {
        Peer::start(&Kind { program: "nsd", configure: configure_with_its_limits, arguments }, folder, zones)
    }

    /// Starts it so that it keeps differences, and wants signatures from 127.0.0.2.
    pub fn start_incremental(folder: &Folder, zones: &[ZoneText]) -> Peer {
        Peer::start(&Kind { program: "nsd", configure: configure_incremental, arguments }, folder, zones)
    }

    /// Starts it so that it gives cookies.
    pub fn start_with_cookies(folder: &Folder, zones: &[ZoneText]) -> Peer {
        Peer::start(&Kind { program: "nsd", configure: configure_cookies, arguments }, folder, zones)
    }

    /// Starts it as a secondary; this version knows no catalogs.
    pub fn start_secondary(folder: &Folder, plan: &SecondaryPlan) -> Secondary {
        assert!(plan.catalog.is_none(), "nsd takes no catalog zones");
        let kind = SecondaryKind { program: "nsd", configure: configure_secondary, arguments };
        Secondary::start(&kind, folder, plan)
    }
}

/// In the foreground.
fn arguments(configuration: &Path) -> Vec<String> {
    vec!["-d".into(), "-c".into(), configuration.display().to_string()]
}

/// Without a limit of the response rate, which Debian builds in; SIGHUP rereads changed zone files.
fn configure(home: &Path, address: SocketAddr, zones: &[(Dname, PathBuf)]) -> String {
    let mut text = server(home, address, "verbosity: 0");
    for (zone, file) in zones {
        let file = file.display();
        writeln!(text, "zone:\n name: \"{zone}\"\n zonefile: \"{file}\"\n provide-xfr: 127.0.0.1 NOKEY")
            .expect("string");
    }
    text
}

/// As [`configure`], without a number of connections.
fn configure_with_its_limits(home: &Path, address: SocketAddr, zones: &[(Dname, PathBuf)]) -> String {
    configure(home, address, zones).replace(" tcp-count: 500\n", "")
}

/// As [`configure`], with cookies.
fn configure_cookies(home: &Path, address: SocketAddr, zones: &[(Dname, PathBuf)]) -> String {
    let cookies = format!(" tcp-count: 500\n answer-cookie: yes\n cookie-secret: \"{COOKIE_SECRET}\"\n");
    configure(home, address, zones).replace(" tcp-count: 500\n", &cookies)
}

/// The beginning of a configuration.
pub(super) fn server(home: &Path, address: SocketAddr, more: &str) -> String {
    let port = address.port();
    let home = home.display();
    format!(
        "server:\n ip-address: 127.0.0.1@{port}\n port: {port}\n server-count: 1\n database: \"\"\n username: \"\"\n \
         chroot: \"\"\n zonesdir: \"{home}\"\n zonelistfile: \"{home}/zone.list\"\n pidfile: \"{home}/nsd.pid\"\n \
         xfrdfile: \"{home}/xfrd.state\"\n xfrdir: \"{home}\"\n rrl-ratelimit: 0\n rrl-whitelist-ratelimit: 0\n \
         minimal-responses: yes\n refuse-any: no\n zonefiles-check: yes\n zonefiles-write: 0\n tcp-count: 500\n \
         {more}\nremote-control:\n control-enable: no\n"
    )
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

/// It asks for differences by itself, and applies what it has got within a second.
fn configure_secondary(home: &Path, address: SocketAddr, plan: &SecondaryPlan) -> String {
    let mut more = "verbosity: 2\n xfrd-reload-timeout: 0".to_string();
    if let Some((_, ca)) = &plan.tls {
        write!(more, "\n tls-cert-bundle: \"{}\"", ca.display()).expect("string");
    }
    let mut text = server(home, address, &more);
    let mut tls = "";
    if let Some((name, _)) = &plan.tls {
        writeln!(text, "tls-auth:\n name: above\n auth-domain-name: \"{name}\"").expect("string");
        if let Some((certificate, key)) = &plan.certificate {
            let (certificate, key) = (certificate.display(), key.display());
            writeln!(text, " client-cert: \"{certificate}\"\n client-key: \"{key}\"").expect("string");
        }
        tls = " above";
    }
    for key in plan.keys() {
        let (name, algorithm, secret) = (&key.name, &key.algorithm, &key.secret);
        writeln!(text, "key:\n name: \"{name}\"\n algorithm: {algorithm}\n secret: \"{secret}\"").expect("string");
    }
    let name = |key: &Option<TsigKey>| key.as_ref().map_or("NOKEY".to_string(), |key| key.name.clone());
    let (transfer, notify) = (name(&plan.transfer_key), name(&plan.notify_key));
    let primary = format!("{}@{}", plan.primary.ip(), plan.primary.port());
    for (index, zone) in plan.zones.iter().enumerate() {
        writeln!(
            text,
            "zone:\n name: \"{zone}\"\n zonefile: \"{index}.zone\"\n request-xfr: {primary} {transfer}{tls}\n \
             allow-notify: 127.0.0.1 {notify}\n provide-xfr: 127.0.0.1 NOKEY"
        )
        .expect("string");
    }
    text
}
