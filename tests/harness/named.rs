//! BIND as a primary.

use super::peer::{KEY_NAME, KEY_SECRET, Kind, Peer, ZoneText};
use super::{Dname, Folder};
use std::fmt::Write;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

/// BIND's `named`.
pub struct Named;

impl Named {
    /// Starts it with these zones.
    pub fn start(folder: &Folder, zones: &[ZoneText]) -> Peer {
        let arguments = |file: &Path| {
            ["-g", "-n", "1", "-c"].into_iter().map(String::from).chain([file.display().to_string()]).collect()
        };
        Peer::start(&Kind { program: "named", configure, arguments }, folder, zones)
    }

    /// Starts it so that it keeps differences, and wants signatures from 127.0.0.2.
    pub fn start_incremental(folder: &Folder, zones: &[ZoneText]) -> Peer {
        let arguments = |file: &Path| {
            ["-g", "-n", "1", "-c"].into_iter().map(String::from).chain([file.display().to_string()]).collect()
        };
        Peer::start(&Kind { program: "named", configure: configure_incremental, arguments }, folder, zones)
    }
}

/// As [`configure`], with a journal of what changed from one reading of a zone file to the next.
fn configure_incremental(home: &Path, address: SocketAddr, zones: &[(Dname, PathBuf)]) -> String {
    let text = configure(home, address, zones)
        .replace("recursion no;", "recursion no;\n ixfr-from-differences yes;\n max-ixfr-ratio unlimited;")
        .replace("allow-transfer { 127.0.0.1; }", &format!("allow-transfer {{ 127.0.0.1; key \"{KEY_NAME}\"; }}"));
    format!("key \"{KEY_NAME}\" {{ algorithm hmac-sha256; secret \"{KEY_SECRET}\"; }};\n{text}")
}

/// Everything named writes goes into its folder; nothing controls it but signals. Services have more instances than the
/// hundred records of a set that it allows by itself.
fn configure(home: &Path, address: SocketAddr, zones: &[(Dname, PathBuf)]) -> String {
    let home = home.display();
    let port = address.port();
    let mut text = format!(
        "options {{\n directory \"{home}\";\n listen-on port {port} {{ 127.0.0.1; }};\n listen-on-v6 {{ none; }};\n \
         pid-file none;\n lock-file none;\n session-keyfile none;\n managed-keys-directory \"{home}\";\n \
         recursion no;\n notify no;\n minimal-responses yes;\n allow-transfer {{ 127.0.0.1; }};\n \
         dnssec-validation no;\n empty-zones-enable no;\n check-integrity no;\n transfer-format many-answers;\n \
         tcp-clients 500;\n transfers-out 500;\n \
         max-records-per-type 0;\n max-types-per-name 0;\n}};\ncontrols {{ }};\n"
    );
    for (zone, file) in zones {
        let file = file.display();
        writeln!(text, "zone \"{zone}\" {{ type primary; file \"{file}\"; check-names ignore; }};").expect("string");
    }
    text
}
