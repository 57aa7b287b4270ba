//! The sections `[rate_limit]` and `[cookies]`: what a flood gets, and who is known not to be part of it.
//!
//! Invariants: a secret comes from a file of its own that strangers can neither read nor change, and is never part of a
//! message.
//!
//! Cost: O(prefixes).
//!
//! RFCs: 7873 and 9018 (DNS Cookies).

use crate::acl::Prefix;
use crate::config::secondaries::read_prefix;
use crate::cookie::{Secrets, SecretsError};
use crate::rate_limit::{Mode, RateLimitPlan};
use settings::fields::{Fields, put};
use settings::read::Reader;
use settings::schema::{Kind, Table, key};
use settings::secret::{SecretError, read_secret_file};
use settings::tree::Node;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Highest rate. More is no limit.
const MOST_RESPONSES: u32 = 1_000_000;

/// `[rate_limit]`
pub static RATE_LIMIT: Table<RateLimitPlan> =
    Table {
        path: "[rate_limit]",
        help: "How many responses over UDP the clients of one network get in full, and how many connections they open",
        keys: &[&[
            key("mode", r#""on""#, "whether responses over the limit are cut, only counted and told, or neither")
                .takes(Kind::Word(&[
                    ("on", |limit| limit.mode = Mode::On),
                    ("log", |limit| limit.mode = Mode::Log),
                    ("off", |limit| limit.mode = Mode::Off),
                ])),
            key(
                "responses_per_second",
                "1000",
                "full responses of one class (answer, no data, no such name, referral, error) for a network, and connections",
            )
            .takes(Kind::Count(MOST_RESPONSES, |limit, rate| limit.responses_per_second = rate as u32)),
            key("ipv4_prefix", "24", "bits of an IPv4 address that make its network")
                .takes(Kind::Number(8..=32, |limit, bits| limit.ipv4_prefix = bits as u8)),
            key("ipv6_prefix", "56", "bits of an IPv6 address that make its network")
                .takes(Kind::Number(16..=64, |limit, bits| limit.ipv6_prefix = bits as u8)),
            key("exempt", "[]", "clients without a limit, beside primaries, secondaries and resolvers of this file")
                .takes(Kind::Own("prefixes", |reader, key, node, limit| {
                    let wanted = "a list such as [\"192.0.2.53\", \"2001:db8::/64\"]";
                    put(&mut limit.exempt, reader.list(key, node, wanted, read_exempt))
                })),
        ]],
    };

/// `[cookies]`
pub static COOKIES: Table<CookiesPlan> = Table {
    path: "[cookies]",
    help: "DNS Cookies (RFC 7873), by which clients are known not to be forged",
    keys: &[&[
        key("answer", "true", "whether clients that send cookies get one")
            .takes(Kind::Flag(|cookies, choice| cookies.answer = choice)),
        key(
            "secret_file",
            "",
            "file with the secret that replicas share, 32 hexadecimal digits, and in a second line the next one or the one \
             before; default: a secret of each process",
        )
        .takes(Kind::Path(|cookies, path| cookies.file = Some(path))),
    ]],
};

/// What `[cookies]` says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CookiesPlan {
    pub answer: bool,
    /// File of the secrets; none for a secret of the process.
    pub file: Option<PathBuf>,
    /// The secrets of the file, once it is read.
    pub secrets: Option<Arc<Secrets>>,
}

/// Error: a file does not give the secrets of cookies. The message never has any of the file's contents.
#[derive(Debug, thiserror::Error)]
enum SecretFileError {
    #[error("{0}")]
    File(#[from] SecretError),
    #[error("{0}")]
    Secrets(#[from] SecretsError),
}

/// Reads the address prefix of a client without a limit.
fn read_exempt(reader: &mut Reader<'_>, key: &str, node: &Node) -> Option<Prefix> {
    let prefix = read_prefix(reader, key, node, "")?;
    if Prefix::EVERYTHING.contains(&prefix) {
        let message =
            format!("\"{key}\" {prefix} takes the limit from everybody; write mode = \"off\" if that is meant");
        reader.warn(node.at, message);
    }
    Some(prefix)
}

/// Reads both sections; absent ones give defaults. Without `touch_disk` the file of secrets is not read, for texts that
/// are no files.
pub fn read_floods(reader: &mut Reader<'_>, root: &Fields<'_>, touch_disk: bool) -> (RateLimitPlan, CookiesPlan) {
    let (mut limit, mut cookies) = (RateLimitPlan::default(), CookiesPlan::default());
    RATE_LIMIT.read_section(reader, root, &mut limit);
    let fields = match root.entry("cookies") {
        Some(entry) => COOKIES.read_with_advice(reader, &entry.node, COOKIES.path, &mut cookies, advise),
        None => {
            COOKIES.set_defaults(&mut cookies);
            None
        }
    };
    let entry = fields.and_then(|fields| fields.entry("secret_file"));
    if touch_disk && let (Some(path), Some(entry)) = (&cookies.file, entry) {
        match read_secrets(path) {
            Ok(secrets) => cookies.secrets = Some(Arc::new(secrets)),
            Err(error) => {
                let is_absent = matches!(&error, SecretFileError::File(error) if error.is_absence());
                let message = format!("\"secret_file\" {} {error}", path.display());
                reader.refuse_file::<()>(entry.node.at, message, is_absent);
            }
        }
    }
    (limit, cookies)
}

/// Advice for a secret that stands in the file itself.
fn advise(key: &str) -> Option<String> {
    let advice = "this file is no place for secrets, write it into a file of its own and secret_file = \"FILE\"";
    (key == "secret").then(|| advice.to_owned())
}

/// Reads a file of secrets.
fn read_secrets(path: &Path) -> Result<Secrets, SecretFileError> {
    Ok(Secrets::parse(&read_secret_file(path)?)?)
}
