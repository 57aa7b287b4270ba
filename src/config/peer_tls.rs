//! `tls` of primaries: TLS to them, and how they are known (RFC 9103).
//!
//! Invariants: unless the file says `verify = false`, a primary is known by its certificate; its own key is read from a
//! file that strangers can neither read nor change.
//!
//! Cost: O(files).

use crate::client::secure::{Identity, Tls, TlsFiles};
use crate::config::keys::Keys;
use rustls::pki_types::ServerName;
use settings::read::{Reader, shorten};
use settings::schema::{Kind, Table, key};
use settings::secret::read_private_file;
use settings::tree::Entry;
use std::fs;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use zeroize::Zeroizing;

/// Largest size of a file with a private key, more than any in PEM needs.
const MAX_KEY_BYTES: u64 = 1 << 20;

/// `tls` of a zone, catalog, member or primary
pub static PEER_TLS: Table<TlsDraft> = Table {
    path: "primaries tls",
    help: "TLS to primaries (RFC 9103)",
    keys: &[&[
        key("name", "", "name that the primary's certificate has; default: the primary's address").bound("text"),
        key("verify", "true", "whether the certificate is verified; false believes anybody")
            .takes(Kind::Flag(|draft, choice| draft.is_verified = choice)),
        key(
            "ca",
            "",
            "PEM file with certificates of authorities, or the primary's own; default: those that the system trusts",
        )
        .bound("path"),
        key("certificate", "", "PEM file with our own certificate chain; default: none").bound("path"),
        key("key", "", "PEM file with its private key, which others must not be able to read").bound("path"),
    ]],
};

/// TLS to primaries whose names are not all known yet.
#[derive(Clone, Default)]
pub struct TlsDraft {
    name: Option<String>,
    is_verified: bool,
    ca: Option<(PathBuf, String)>,
    identity: Option<Identity>,
    is_read: bool,
}

impl TlsDraft {
    /// TLS to the primary at an address.
    pub fn for_server(&self, address: IpAddr) -> Result<Tls, String> {
        let TlsDraft { name, is_verified, ca, identity, is_read } = self.clone();
        let name = name.unwrap_or_else(|| address.to_string());
        let known = ServerName::try_from(name.clone()).map_err(|error| error.to_string())?;
        Tls::new(TlsFiles { name, is_verified, ca, identity }, known, is_read)
    }
}

/// Reads `tls` of something.
pub fn read_tls(reader: &mut Reader<'_>, keys: &Keys, place: &str, entry: &Entry) -> Option<TlsDraft> {
    let place = format!("\"tls\" of {place}");
    let mut draft = TlsDraft { is_read: keys.touches_disk(), ..TlsDraft::default() };
    let fields = PEER_TLS.read(reader, &entry.node, &place, &mut draft)?;
    let at = |key: &str| fields.entry(key).map_or(entry.key_at, |field| field.node.at);
    draft.name = fields.read(reader, "name", |reader, key, node| {
        let text = reader.text(key, node, "a host name or an address")?.trim_end_matches('.').to_owned();
        match ServerName::try_from(text.as_str()) {
            Ok(_) => Some(text),
            Err(_) => {
                let fault = format!(
                    "\"{}\" is neither a host name nor an address; write what the certificate has",
                    shorten(&text)
                );
                reader.refuse(node.at, fault)
            }
        }
    });
    let ca = fields.read(reader, "ca", Reader::path);
    let certificate_file = fields.read(reader, "certificate", Reader::path);
    let key_file = fields.read(reader, "key", Reader::path);
    if fields.lacks("certificate") != fields.lacks("key") {
        reader.error(entry.key_at, format!("{place} has one of \"certificate\" and \"key\"; write both, or neither"));
    }
    if !draft.is_verified && !fields.lacks("ca") {
        let fault = format!("{place} has a \"ca\" and verify = false, which believes anybody; remove one of them");
        return reader.refuse(at("ca"), fault);
    }
    let is_read = draft.is_read;
    let text = |reader: &mut Reader<'_>, key: &str, path: &Path| {
        if !is_read {
            return Some(String::new());
        }
        fs::read_to_string(path).map_or_else(
            |error| {
                let advice = "write the path of a PEM file";
                let fault = format!("\"{key}\" {} cannot be read: {error}; {advice}", path.display());
                reader.refuse_file(at(key), fault, true)
            },
            Some,
        )
    };
    if let Some(path) = ca {
        let listed = text(reader, "ca", &path)?;
        draft.ca = Some((path, listed));
    }
    if let (Some(certificate_file), Some(key_file)) = (certificate_file, key_file) {
        let certificate = text(reader, "certificate", &certificate_file)?;
        let key = read_tls_key(reader, at("key"), &key_file, is_read)?;
        draft.identity = Some(Identity { certificate_file, key_file, certificate, key });
    }
    if let Err(error) = draft.for_server(IpAddr::from([0; 4])) {
        return reader.refuse(entry.key_at, format!("{place} cannot be used: {error}; write the paths of PEM files"));
    }
    Some(draft)
}

/// Reads a private key.
pub fn read_tls_key(reader: &mut Reader<'_>, at: usize, path: &Path, touch_disk: bool) -> Option<Zeroizing<Vec<u8>>> {
    if !touch_disk {
        return Some(Zeroizing::default());
    }
    match read_private_file(path, MAX_KEY_BYTES) {
        Ok(key) => Some(key),
        Err(error) => reader.refuse_file(at, format!("\"key\" {} {error}", path.display()), error.is_absence()),
    }
}
