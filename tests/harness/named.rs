//! BIND as a primary, and as a secondary.

use super::peer::{COOKIE_SECRET, KEY_NAME, KEY_SECRET, Kind, Peer, ZoneText};
use super::secondary::{Secondary, SecondaryKind, SecondaryPlan};
use super::{Dname, Folder};
use std::fmt::Write;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

/// BIND's `named`.
pub struct Named;

impl Named {
    /// Starts it with these zones.
    pub fn start(folder: &Folder, zones: &[ZoneText]) -> Peer {
        Peer::start(&Kind { program: "named", configure, arguments }, folder, zones)
    }

    /// Starts it so that it keeps differences, and wants signatures from 127.0.0.2.
    pub fn start_incremental(folder: &Folder, zones: &[ZoneText]) -> Peer {
        Peer::start(&Kind { program: "named", configure: configure_incremental, arguments }, folder, zones)
    }

    /// Starts it so that it keeps differences, and answers whoever is not at 127.0.0.1 for signed questions only.
    pub fn start_signed(folder: &Folder, zones: &[ZoneText]) -> Peer {
        Peer::start(&Kind { program: "named", configure: configure_signed, arguments }, folder, zones)
    }

    /// Starts it so that it answers nobody over UDP who has no server cookie.
    pub fn start_with_cookies(folder: &Folder, zones: &[ZoneText]) -> Peer {
        Peer::start(&Kind { program: "named", configure: configure_cookies, arguments }, folder, zones)
    }

    /// Starts it as a secondary.
    pub fn start_secondary(folder: &Folder, plan: &SecondaryPlan) -> Secondary {
        let kind = SecondaryKind { program: "named", configure: configure_secondary, arguments };
        Secondary::start(&kind, folder, plan)
    }
}

/// In the foreground, logging to standard error.
fn arguments(configuration: &Path) -> Vec<String> {
    ["-g", "-n", "1", "-c"].into_iter().map(String::from).chain([configuration.display().to_string()]).collect()
}

/// Everything named writes goes into its folder; nothing controls it but signals.
fn configure(home: &Path, address: SocketAddr, zones: &[(Dname, PathBuf)]) -> String {
    let mut text = format!("{}}};\n", options(home, address));
    for (zone, file) in zones {
        let file = file.display();
        writeln!(text, "zone \"{zone}\" {{ type primary; file \"{file}\"; check-names ignore; }};").expect("string");
    }
    text
}

/// The beginning of a configuration, up to what else the options say.
pub(super) fn options(home: &Path, address: SocketAddr) -> String {
    let home = home.display();
    let port = address.port();
    format!(
        "controls {{ }};\noptions {{\n directory \"{home}\";\n listen-on port {port} {{ 127.0.0.1; }};\n \
         listen-on-v6 {{ none; }};\n pid-file none;\n lock-file none;\n session-keyfile none;\n \
         managed-keys-directory \"{home}\";\n \
         recursion no;\n notify no;\n minimal-responses yes;\n allow-transfer {{ 127.0.0.1; }};\n \
         dnssec-validation no;\n empty-zones-enable no;\n check-integrity no;\n transfer-format many-answers;\n \
         tcp-clients 500;\n transfers-out 500;\n"
    )
}

/// As [`configure`], with a journal of what changed from one reading of a zone file to the next.
fn configure_incremental(home: &Path, address: SocketAddr, zones: &[(Dname, PathBuf)]) -> String {
    let text = configure(home, address, zones)
        .replace("recursion no;", "recursion no;\n ixfr-from-differences yes;\n max-ixfr-ratio unlimited;")
        .replace("allow-transfer { 127.0.0.1; }", &format!("allow-transfer {{ 127.0.0.1; key \"{KEY_NAME}\"; }}"));
    format!("key \"{KEY_NAME}\" {{ algorithm hmac-sha256; secret \"{KEY_SECRET}\"; }};\n{text}")
}

/// As [`configure_incremental`], with answers for those who sign.
fn configure_signed(home: &Path, address: SocketAddr, zones: &[(Dname, PathBuf)]) -> String {
    let allowed = format!("recursion no;\n allow-query {{ 127.0.0.1; key \"{KEY_NAME}\"; }};");
    configure_incremental(home, address, zones).replace("recursion no;", &allowed)
}

/// As [`configure`], with cookies that are a must for those who send a part of one.
fn configure_cookies(home: &Path, address: SocketAddr, zones: &[(Dname, PathBuf)]) -> String {
    let cookies = format!(
        "recursion no;\n cookie-algorithm siphash24;\n cookie-secret \"{COOKIE_SECRET}\";\n require-server-cookie yes;"
    );
    configure(home, address, zones).replace("recursion no;", &cookies)
}

/// It asks for differences by itself. Members of the catalog live in memory and follow its changes within a second.
fn configure_secondary(home: &Path, address: SocketAddr, plan: &SecondaryPlan) -> String {
    let mut text = String::new();
    for key in plan.keys() {
        let (name, algorithm, secret) = (&key.name, &key.algorithm, &key.secret);
        writeln!(text, "key \"{name}\" {{ algorithm {algorithm}; secret \"{secret}\"; }};").expect("string");
    }
    let key = plan.transfer_key.as_ref().map(|key| format!(" key \"{}\"", key.name)).unwrap_or_default();
    if let Some((name, ca)) = &plan.tls {
        let (ca, own) = (ca.display(), plan.certificate.as_ref());
        let own = own.map(|(certificate, key)| {
            format!(" cert-file \"{}\"; key-file \"{}\";", certificate.display(), key.display())
        });
        let own = own.unwrap_or_default();
        writeln!(text, "tls above {{ ca-file \"{ca}\"; remote-hostname \"{name}\";{own} }};").expect("string");
    }
    let tls = plan.tls.as_ref().map(|_| " tls above").unwrap_or_default();
    let primaries = plan.primaries().map(|primary| format!(" {} port {}{key}{tls};", primary.ip(), primary.port()));
    let primaries = format!("{{{} }}", primaries.collect::<String>());
    text.push_str(&options(home, address));
    text.push_str(" masterfile-format text;\n transfers-per-ns 100;\n serial-query-rate 1000;\n");
    if let Some(catalog) = &plan.catalog {
        let settings = format!("default-primaries {primaries} in-memory yes min-update-interval 1");
        writeln!(text, " catalog-zones {{ zone \"{catalog}\" {settings}; }};").expect("string");
    }
    text.push_str("};\n");
    for (index, zone) in plan.zones.iter().chain(&plan.catalog).enumerate() {
        // Its primaries may announce without a key; others must have it.
        let allowed = plan.notify_key.as_ref().map(|key| format!(" allow-notify {{ key \"{}\"; }};", key.name));
        let allowed = allowed.unwrap_or_default();
        writeln!(
            text,
            "zone \"{zone}\" {{ type secondary; file \"{index}.zone\"; primaries {primaries};{allowed} check-names ignore; }};"
        )
        .expect("string");
    }
    text
}
