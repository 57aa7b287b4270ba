//! The section `[keys]`: TSIG keys, and the settings that use them.
//!
//! Invariants: a secret comes from a file of its own that strangers can neither read nor change, and is never part of a
//! message; what we sign ourselves is never signed with an outdated algorithm; a key with a mistake in it counts as
//! known, so that one mistake is one error.
//!
//! Cost: O(keys), and O(keys) for each unknown name, to suggest another.
//!
//! RFCs: 8945 (TSIG; section 6 has the algorithms), 4648 section 4 (base64).

use crate::config::names::{read_names, unquoted_names};
use data_encoding::BASE64;
use settings::fields::Fields;
use settings::read::{Reader, shorten};
use settings::schema::{Table, did_you_mean, key};
use settings::secret::{SecretError, read_secret_file};
use settings::tree::{Entry, Node, Value};
use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use wire::name::Name;
use wire::tsig::{Algorithm, Key, Keyring};
use zeroize::Zeroizing;

/// Secrets below this many octets can be guessed with effort, whatever the algorithm.
const SHORT_SECRET_BYTES: usize = 16;

/// A key of TSIG
pub static KEY: Table<()> = Table {
    path: "[keys.\"NAME\"]",
    help: "A TSIG key (RFC 8945)",
    keys: &[&[
        key("algorithm", r#""hmac-sha256""#, "hmac-sha256, hmac-sha384 or hmac-sha512").bound("name of an HMAC"),
        key("secret_file", "", "file that holds the secret in base64, which others must not be able to read")
            .bound("path"),
    ]],
};

/// A key that the file declares.
struct Declared {
    name: Name,
    at: usize,
    /// The key and the file of its secret; none if the declaration has errors.
    key: Option<(Arc<Key>, PathBuf)>,
    used: Cell<bool>,
}

/// The keys of a file, in its order.
#[derive(Default)]
pub struct Keys {
    declared: Vec<Declared>,
    touches_disk: bool,
}

impl Keys {
    /// Reads `[keys]`. Without `touch_disk` the secrets stay empty, for texts that are no files.
    pub fn read(reader: &mut Reader<'_>, root: &Fields<'_>, legacy: bool, touch_disk: bool) -> Keys {
        let mut keys = Keys { touches_disk: touch_disk, ..Keys::default() };
        let Some(section) = root.entry("keys") else { return keys };
        let Value::Table(entries) = &section.node.value else {
            reader.wrong_type::<()>("keys", &section.node, "a table [keys.\"NAME\"] for each key");
            return keys;
        };
        let (named, unquoted) = read_names(reader, entries, "key", |entry| unquoted_names(entry, &KEY));
        let without = |(name, at)| Declared { name, at, key: None, used: Cell::new(true) };
        keys.declared = unquoted.into_iter().map(without).collect();
        for (name, entry) in named {
            let key = read_key(reader, name.clone(), entry, legacy, touch_disk);
            keys.declared.push(Declared { name, at: entry.key_at, key, used: Cell::new(false) });
        }
        keys
    }

    /// Returns true if the files that the configuration names are read.
    pub fn touches_disk(&self) -> bool {
        self.touches_disk
    }

    /// Reads a reference to a key whose holder signs requests to us.
    pub fn verifying(&self, reader: &mut Reader<'_>, key: &str, node: &Node) -> Option<Arc<Key>> {
        let text = reader.text(key, node, "the name of a key of [keys]")?;
        let name = reader.parse_name(node.at, text)?;
        let Some(declared) = self.declared.iter().find(|declared| declared.name == name) else {
            let known = self.declared.iter().map(|declared| declared.name.to_string());
            let known: Vec<String> = known.map(|name| name.trim_end_matches('.').to_string()).collect();
            let otherwise = || format!("add [keys.\"{}\"]", shorten(text));
            let advice = did_you_mean(text.trim_end_matches('.'), known.iter().map(String::as_str), otherwise);
            return reader.refuse(node.at, format!("\"{key}\" names unknown key \"{}\"; {advice}", shorten(text)));
        };
        declared.used.set(true);
        declared.key.as_ref().map(|(key, _)| key.clone())
    }

    /// Reads a reference to a key that we sign with ourselves.
    pub fn signing(&self, reader: &mut Reader<'_>, key: &str, node: &Node) -> Option<Arc<Key>> {
        let found = self.verifying(reader, key, node)?;
        if found.algorithm.is_legacy() {
            let message = format!(
                "key {} has {}, which we verify but never sign with; write a key with hmac-sha256",
                found.name, found.algorithm
            );
            return reader.refuse(node.at, message);
        }
        Some(found)
    }

    /// The keys and the files that their secrets came from; warns of keys that nothing refers to.
    pub fn finish(self, reader: &mut Reader<'_>) -> (Keyring, Vec<(Name, PathBuf)>) {
        let mut files = Vec::new();
        let mut ring = Keyring::default();
        for declared in self.declared {
            if !declared.used.get() {
                let message = format!("key {} is not used; name it in a \"key\", or remove it", declared.name);
                reader.warn(declared.at, message);
            }
            if let Some((key, file)) = declared.key {
                files.push((declared.name.clone(), file));
                ring.insert(declared.name, key);
            }
        }
        (ring, files)
    }
}

/// Reads one key.
fn read_key(
    reader: &mut Reader<'_>,
    name: Name,
    entry: &Entry,
    legacy: bool,
    touch_disk: bool,
) -> Option<(Arc<Key>, PathBuf)> {
    let place = format!("key \"{}\"", shorten(&entry.key));
    let advise = |key: &str| {
        let advice = "this file is no place for secrets, write it into a file of its own and secret_file = \"FILE\"";
        (key == "secret").then(|| advice.to_string())
    };
    let fields = KEY.read_with_advice(reader, &entry.node, &place, &mut (), advise)?;
    let algorithm = fields.read(reader, "algorithm", |r, key, node| read_algorithm(r, key, node, legacy));
    if fields.lacks("secret_file") && entry.node.get("secret").is_none() {
        reader.error(entry.key_at, format!("{place} has no secret; write secret_file = \"FILE\""));
    }
    let file = fields.read(reader, "secret_file", Reader::path)?;
    let at = fields.entry("secret_file").map_or(entry.key_at, |field| field.node.at);
    let mut secret = Zeroizing::new(Vec::new());
    if touch_disk {
        secret = match read_secret(&file) {
            Ok(secret) => secret,
            Err(error) => {
                let is_absent = matches!(&error, KeyFileError::File(error) if error.is_absence());
                return reader.refuse_file(at, format!("\"secret_file\" {} {error}", file.display()), is_absent);
            }
        };
        if secret.len() < SHORT_SECRET_BYTES {
            let octets = secret.len();
            reader.warn(at, format!("the secret of {place} has only {octets} octets; better make one of 32"));
        }
    }
    Some((Arc::new(Key::new(name, algorithm?, std::mem::take(&mut *secret))), file))
}

/// Reads the name of an algorithm.
fn read_algorithm(reader: &mut Reader<'_>, key: &str, node: &Node, legacy: bool) -> Option<Algorithm> {
    let wanted = "\"hmac-sha256\", \"hmac-sha384\" or \"hmac-sha512\"";
    let text = reader.text(key, node, wanted)?;
    let Ok(algorithm) = text.parse::<Algorithm>() else {
        let offered = Algorithm::ALL.into_iter().filter(|algorithm| legacy || !algorithm.is_legacy());
        let offered: Vec<String> = offered.map(|algorithm| algorithm.to_string()).collect();
        let advice = did_you_mean(text, offered.iter().map(String::as_str), || format!("write {wanted}"));
        return reader.refuse(node.at, format!("\"{key}\" cannot be \"{}\"; {advice}", shorten(text)));
    };
    if algorithm.is_legacy() && !legacy {
        let message = format!(
            "{algorithm} is outdated; write \"hmac-sha256\", or tsig_legacy = true in [server] to go on verifying \
                 requests that are signed with it"
        );
        return reader.refuse(node.at, message);
    }
    Some(algorithm)
}

//--- Secrets ---

/// Error: a file does not give the secret of a key. The message never has any of the file's contents.
#[derive(Debug, thiserror::Error)]
enum KeyFileError {
    #[error("{0}")]
    File(#[from] SecretError),
    #[error(
        "is no base64 text; write nothing into it but the text that a tool such as tsig-keygen shows as the secret"
    )]
    Encoding,
}

/// Reads the secret of a key, if only the owner can read the file.
fn read_secret(path: &Path) -> Result<Zeroizing<Vec<u8>>, KeyFileError> {
    let mut text = read_secret_file(path)?;
    text.retain(|byte| !byte.is_ascii_whitespace());
    match BASE64.decode(&text) {
        Ok(secret) if !secret.is_empty() => Ok(Zeroizing::new(secret)),
        _ => Err(KeyFileError::Encoding),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    /// Reads the secret from a file with these contents.
    fn read(contents: &str) -> Result<Zeroizing<Vec<u8>>, String> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("k");
        fs::write(&path, contents).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        read_secret(&path).map_err(|error| error.to_string())
    }

    #[test]
    fn a_secret_is_base64_in_a_file_of_its_own() {
        assert_eq!(read("c2VjcmV0\n"), Ok(Zeroizing::new(b"secret".to_vec())));
        assert_eq!(read("  c2Vj\r\ncmV0 "), Ok(Zeroizing::new(b"secret".to_vec())));
        for wrong in ["", "\n", "c2VjcmV0!", "c2VjcmV", "secret \"c2VjcmV0\";"] {
            assert!(read(wrong).unwrap_err().starts_with("is no base64 text; write"), "{wrong}");
        }
        assert!(read(&"c2Vj".repeat(1025)).unwrap_err().starts_with("is longer than any secret"));
    }
}
