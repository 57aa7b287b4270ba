//! The table `ufds` of a Triton datacenter: the directory with its accounts.
//!
//! Invariants: the password comes from a file that strangers can neither read nor change; a certificate is verified unless
//! the file says that it is not.
//!
//! Cost: O(table).
//!
//! RFC 4516 (URLs of LDAP), as far as they name a server.

use crate::config::urls::read_ca;
use crate::source::inventory::triton::{TrustPlan, UfdsPlan};
use settings::read::{Reader, shorten};
use settings::schema::{Kind, Table, key};
use settings::secret::read_secret_file;
use settings::tree::Node;
use std::path::PathBuf;
use url::{Host, Url};
use zeroize::Zeroizing;

/// Values of the table, as far as they are read by themselves.
pub struct Draft {
    verify: bool,
}

/// UFDS of a Triton datacenter
pub static UFDS: Table<Draft> = Table {
    path: "[inventories.NAME.triton.ufds]",
    help: "UFDS, the directory with the accounts of a Triton datacenter (LDAP)",
    keys: &[&[
        key("address", "", "server, as ldaps://HOST:636, or ldap://HOST:389 for a connection without TLS").bound("URL"),
        key("bind_dn", r#""cn=root""#, "name of the user that searches").bound("text"),
        key("password_file", "", "file with its password, which others must not be able to read").bound("path"),
        key("ca", "", "PEM file with the server's certificate or those that sign it; default: those of the system")
            .bound("path"),
        key("verify", "true", "whether the certificate is verified; without, whoever is on the way can be the server")
            .takes(Kind::Flag(|draft, choice| draft.verify = choice)),
    ]],
};

/// Reads the table.
pub fn read_ufds(reader: &mut Reader<'_>, node: &Node, place: &str, touch_disk: bool) -> Option<UfdsPlan> {
    let place = format!("ufds of {place}");
    let mut draft = Draft { verify: true };
    let fields = UFDS.read(reader, node, &place, &mut draft)?;
    fields.need(reader, "address", node.at, format!("{place} lacks \"address\"; write {WANTED}"));
    let file = format!("{place} lacks \"password_file\"; write the path of a file that holds the password alone");
    fields.need(reader, "password_file", node.at, file);
    let address = fields.read(reader, "address", read_address);
    let bind_dn = fields
        .read(reader, "bind_dn", |r, key, node| r.text(key, node, "a name such as \"cn=root\"").map(str::to_owned));
    let password = fields.read(reader, "password_file", |r, key, node| read_password(r, key, node, touch_disk));
    let ca = fields.read(reader, "ca", |r, key, node| read_ca(r, key, node, touch_disk));
    let (host, port, is_secret) = address?;
    let trust = match (is_secret, draft.verify, ca) {
        (true, true, None) => TrustPlan::System,
        (true, true, Some((file, text))) => TrustPlan::Listed(file, text),
        (true, false, None) => TrustPlan::Anyone,
        (false, true, None) => TrustPlan::Plain,
        (is_secret, verify, _) => {
            let key = if verify { "ca" } else { "verify" };
            let reason = if is_secret { "certificates of \"ca\" are verified" } else { "\"ldap\" has no TLS" };
            let at = fields.entry(key).map_or(node.at, |entry| entry.key_at);
            return reader.refuse(at, format!("{place} cannot have \"{key}\": {reason}; remove it"));
        }
    };
    Some(UfdsPlan { host, port, trust, bind_dn: bind_dn?, password: password? })
}

/// The form of an address.
const WANTED: &str = "a server such as \"ldaps://ufds.dc1.example.com:636\"";

/// Reads host, port, and whether connections have TLS.
fn read_address(reader: &mut Reader<'_>, key: &str, node: &Node) -> Option<(String, u16, bool)> {
    let text = reader.text(key, node, WANTED)?;
    let url = Url::parse(text).ok().filter(|url| {
        let is_server = matches!(url.path(), "" | "/") && url.query().is_none() && url.fragment().is_none();
        is_server && url.username().is_empty() && url.password().is_none()
    });
    let scheme = url.as_ref().and_then(|url| match url.scheme() {
        "ldaps" => Some((true, 636)),
        "ldap" => Some((false, 389)),
        _ => None,
    });
    let host = url.as_ref().and_then(|url| match url.host()? {
        Host::Domain(name) => Some(name.to_owned()).filter(|name| !name.is_empty() && !name.contains('%')),
        Host::Ipv4(address) => Some(address.to_string()),
        Host::Ipv6(address) => Some(address.to_string()),
    });
    match (url, scheme, host) {
        (Some(url), Some((is_secret, port)), Some(host)) => Some((host, url.port().unwrap_or(port), is_secret)),
        _ => reader.refuse(node.at, format!("\"{key}\" cannot be \"{}\"; write {WANTED}", shorten(text))),
    }
}

/// Reads the file with the password, which is one line.
fn read_password(
    reader: &mut Reader<'_>,
    key: &str,
    node: &Node,
    touch_disk: bool,
) -> Option<(PathBuf, Zeroizing<String>)> {
    let file = reader.path(key, node)?;
    if !touch_disk {
        return Some((file, Zeroizing::default()));
    }
    let (fault, is_absent) = match read_secret_file(&file) {
        Err(error) => (error.to_string(), error.is_absence()),
        Ok(secret) => match std::str::from_utf8(secret.trim_ascii()) {
            Ok(password) if !password.is_empty() && !password.contains(['\n', '\r']) => {
                return Some((file, Zeroizing::new(password.to_owned())));
            }
            _ => ("is not one password; write nothing else into it".to_owned(), false),
        },
    };
    reader.refuse_file(node.at, format!("\"{key}\" {} {fault}", file.display()), is_absent)
}
