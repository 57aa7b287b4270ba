//! The tag by which an instance declares its services, and the other texts of instances.
//!
//! ```text
//! tag     = service *( "," service )
//! service = name [ ":" digits ] *( ":" key "=" value )
//! name    = ( letter / digit / "-" ) *( letter / digit / "-" / "." )
//!         / "_" *( letter / digit / "-" ) ( "._tcp" / "._udp" )
//! ```
//!
//! Invariants: a name is lower-case and made of labels of 1 to 63 octets; a port is not 0; no service occurs twice.
//!
//! Cost: O(octets), and no more than [`MOST_OCTETS`] of them.

use crate::model::Uuid;
use serde::{Deserialize, Serialize};

/// Octets of the longest tag that is read.
pub const MOST_OCTETS: usize = 16 * 1024;
/// Services that an instance may have.
pub const MOST_SERVICES: usize = 64;
/// Ports that an instance may have.
pub const MOST_PORTS: usize = 64;
/// Priority and weight where the tag's own do not count.
const PLAIN: (u16, u16) = (0, 10);

/// A service that an instance declares.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Service {
    pub name: Box<str>,
    /// In the order of the tag, each once.
    pub ports: Vec<Port>,
}

/// A port of a service.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Port {
    pub port: u16,
    pub priority: u16,
    pub weight: u16,
}

/// What a tag declares, and what of it was left out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Services {
    pub services: Vec<Service>,
    pub invalid_name: bool,
    pub invalid_port: bool,
    pub too_many: bool,
}

/// Error: the tag cannot be read at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TagError {
    #[error("the tag is longer than {MOST_OCTETS} octets")]
    TooLong,
    #[error("service {0} has no valid name")]
    Name(usize),
    #[error("service {0} has a part that is neither a port nor KEY=VALUE")]
    Part(usize),
}

/// Reads the tag `triton.cns.services`.
pub fn parse(text: &str) -> Result<Services, TagError> {
    if text.len() > MOST_OCTETS {
        return Err(TagError::TooLong);
    }
    let mut all = Services::default();
    let mut ports = 0;
    for (index, service) in text.split(',').enumerate() {
        let mut parts = service.split(':');
        let mut name = parts.next().unwrap_or_default();
        if !is_word(name) {
            return Err(TagError::Name(index + 1));
        }
        let (mut positional, mut port, mut order) = (None, None, PLAIN);
        for (position, part) in parts.enumerate() {
            if position == 0 && !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit()) {
                positional = Some(part);
                continue;
            }
            match part.split_once('=').filter(|(key, value)| is_key(key) && !value.is_empty()) {
                Some(("port", value)) => port = Some(value),
                Some(("name", value)) => name = value,
                Some(("priority", value)) => order.0 = value.parse().unwrap_or(PLAIN.0),
                Some(("weight", value)) => order.1 = value.parse().unwrap_or(PLAIN.1),
                Some(_) => {}
                None => return Err(TagError::Part(index + 1)),
            }
        }
        let Some(name) = service_name(name) else {
            all.invalid_name = true;
            continue;
        };
        let known = all.services.iter().position(|known| known.name == name);
        let place = match known {
            Some(place) => place,
            None if all.services.len() >= MOST_SERVICES => {
                all.too_many = true;
                continue;
            }
            None => {
                all.services.push(Service { name, ports: Vec::new() });
                all.services.len() - 1
            }
        };
        let Some(text) = port.or(positional) else { continue };
        let Some(port) = text.parse().ok().filter(|port| *port != 0) else {
            all.invalid_port = true;
            continue;
        };
        let port = Port { port, priority: order.0, weight: order.1 };
        if all.services[place].ports.contains(&port) {
            continue;
        }
        if ports == MOST_PORTS {
            all.too_many = true;
            continue;
        }
        ports += 1;
        all.services[place].ports.push(port);
    }
    Ok(all)
}

/// The name of a service in lower case; none if it is not one.
pub fn service_name(text: &str) -> Option<Box<str>> {
    let labels_fit = || text.split('.').all(|label| (1..=63).contains(&label.len()));
    (is_word(text) && labels_fit() && text.len() <= 253).then(|| text.to_ascii_lowercase().into())
}

/// Returns true for the grammar's `name`.
fn is_word(text: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
    match text.strip_prefix('_') {
        Some(rest) => {
            let label = rest.strip_suffix("._tcp").or_else(|| rest.strip_suffix("._udp"));
            label.is_some_and(|label| label.bytes().all(plain))
        }
        None => text.bytes().next().is_some_and(plain) && text.bytes().all(|byte| plain(byte) || byte == b'.'),
    }
}

/// Returns true for the grammar's `key`.
fn is_key(text: &str) -> bool {
    text.bytes().next().is_some_and(|byte| byte.is_ascii_lowercase())
        && text.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-')
}

/// Returns true for the value of a tag `triton.cns.reverse_ptr` that counts.
pub fn is_reverse_name(text: &str) -> bool {
    let fits = |label: &str| {
        (1..=63).contains(&label.len())
            && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
            && !label.starts_with('-')
    };
    text.len() <= 253 && text.split('.').all(fits)
}

/// The label that CNS makes of an alias or a login: lower case, each run of other characters one hyphen. None if it is
/// no label, or the text has more than 62 UTF-16 units.
pub fn label(text: &str) -> Option<Box<str>> {
    if text.is_empty() || text.encode_utf16().nth(62).is_some() {
        return None;
    }
    sanitise(text)
}

/// The same without the limit of the text.
pub fn sanitise(text: &str) -> Option<Box<str>> {
    let mut label = String::with_capacity(text.len().min(64));
    let mut in_run = false;
    for character in text.chars().flat_map(char::to_lowercase) {
        let stays = character.is_ascii_lowercase() || character.is_ascii_digit() || character == '-';
        if stays {
            label.push(character);
        } else if !in_run {
            label.push('-');
        }
        in_run = !stays;
        if label.len() > 63 {
            return None;
        }
    }
    (!label.is_empty()).then(|| label.into())
}

/// The UUID that a label is the text of, as it stands in names.
pub fn uuid_label(label: &str) -> Option<Uuid> {
    (label.len() == 36).then(|| Uuid::try_parse(label).ok()).flatten()
}
