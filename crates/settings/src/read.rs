//! Typed reading of the value tree, collecting errors instead of stopping.
//!
//! A conversion that fails has reported why and returns `None`; its caller goes on with a default, which is never
//! used because any error refuses the whole file.
//!
//! Invariant: each message has the form `what is wrong; what to write instead`.
//!
//! Cost: O(value) for each conversion.
//!
//! RFCs: 1035 (names, mail addresses), 2181 section 8 (TTL), 4291 (IPv6 addresses).

use crate::error::{ConfigError, ConfigErrors, Source, on_one_line};
use crate::tree::{Node, Value};
use crate::units;
use std::net::{IpAddr, SocketAddr};
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;
use wire::name::Name;

/// Reads values of one file and gathers what is wrong with them.
pub struct Reader<'t> {
    pub source: Source<'t>,
    errors: Vec<ConfigError>,
    warnings: Vec<(usize, String)>,
}

impl<'t> Reader<'t> {
    /// Begins with the errors of the parser.
    pub fn new(source: Source<'t>, errors: Vec<ConfigError>) -> Reader<'t> {
        Reader { source, errors, warnings: Vec::new() }
    }

    /// Notes an error.
    pub fn error(&mut self, at: usize, message: String) {
        self.errors.push(self.source.error(at, message));
    }

    /// Notes a warning.
    pub fn warn(&mut self, at: usize, message: String) {
        self.warnings.push((at, on_one_line(message)));
    }

    /// The warnings in file order with their positions, when there are no errors.
    pub fn finish(mut self) -> Result<Vec<String>, ConfigErrors> {
        if !self.errors.is_empty() {
            return Err(ConfigErrors::new(self.errors));
        }
        self.warnings.sort_by_key(|(at, _)| *at);
        Ok(self.warnings.iter().map(|(at, text)| format!("{}: {text}", self.source.position(*at))).collect())
    }

    /// Notes that a value has the wrong type.
    pub fn wrong_type<T>(&mut self, key: &str, node: &Node, wanted: &str) -> Option<T> {
        self.error(node.at, format!("\"{key}\" is {}; write {wanted}", node.kind()));
        None
    }

    //--- Plain values ---

    /// Reads a string.
    pub fn text<'n>(&mut self, key: &str, node: &'n Node, wanted: &str) -> Option<&'n str> {
        match &node.value {
            Value::Text(text) => Some(text),
            _ => self.wrong_type(key, node, wanted),
        }
    }

    /// Reads one of a few words.
    pub fn choice<T: Copy>(&mut self, key: &str, node: &Node, choices: &[(&str, T)]) -> Option<T> {
        let words: Vec<String> = choices.iter().map(|(word, _)| format!("\"{word}\"")).collect();
        let wanted = words.join(" or ");
        let text = self.text(key, node, &wanted)?;
        let found = choices.iter().find(|(word, _)| *word == text).map(|(_, choice)| *choice);
        if found.is_none() {
            self.error(node.at, format!("\"{key}\" cannot be \"{text}\"; write {wanted}"));
        }
        found
    }

    /// Reads yes or no.
    pub fn boolean(&mut self, key: &str, node: &Node) -> Option<bool> {
        match node.value {
            Value::Boolean(choice) => Some(choice),
            _ => self.wrong_type(key, node, "true or false"),
        }
    }

    /// Reads a whole number.
    pub fn integer(&mut self, key: &str, node: &Node, range: RangeInclusive<u64>) -> Option<u64> {
        let wanted = match (*range.start(), *range.end()) {
            (low, u64::MAX) => format!("a whole number from {low} on"),
            (low, high) => format!("a whole number from {low} to {high}"),
        };
        match node.value {
            Value::Integer(number) => match u64::try_from(number) {
                Ok(number) if range.contains(&number) => Some(number),
                _ => {
                    self.error(node.at, format!("\"{key}\" cannot be {number}; write {wanted}"));
                    None
                }
            },
            _ => self.wrong_type(key, node, &wanted),
        }
    }

    /// Reads a count that must fit the address space.
    pub fn count(&mut self, key: &str, node: &Node, most: u32) -> Option<usize> {
        self.integer(key, node, 1..=u64::from(most)).and_then(|count| usize::try_from(count).ok())
    }

    /// Reads a number from 0 to 1.
    pub fn share(&mut self, key: &str, node: &Node) -> Option<f64> {
        let wanted = "a number from 0 to 1, for example 0.5";
        let share = match node.value {
            Value::Float(share) => share,
            Value::Integer(share) => share as f64,
            _ => return self.wrong_type(key, node, wanted),
        };
        // Also refuses NaN, which TOML can write.
        if (0.0..=1.0).contains(&share) {
            return Some(share);
        }
        self.error(node.at, format!("\"{key}\" cannot be {share}; write {wanted}"));
        None
    }

    /// Reads a duration; zero is allowed.
    pub fn duration(&mut self, key: &str, node: &Node) -> Option<Duration> {
        let wanted = "a duration such as \"30s\", with one of the units ms, s, m, h, d";
        let text = match &node.value {
            Value::Text(text) => text,
            Value::Integer(number) if *number >= 0 => {
                self.error(node.at, format!("\"{key}\" has no unit; write for example \"{number}s\""));
                return None;
            }
            _ => return self.wrong_type(key, node, wanted),
        };
        let Some(duration) = units::parse_duration(text) else {
            self.error(node.at, format!("\"{key}\" cannot be \"{text}\"; write {wanted}"));
            return None;
        };
        if duration > units::MAX_DURATION {
            let most = units::format_duration(units::MAX_DURATION);
            self.error(node.at, format!("\"{key}\" cannot be \"{text}\"; write at most \"{most}\""));
            return None;
        }
        Some(duration)
    }

    /// Reads a duration above zero.
    pub fn positive_duration(&mut self, key: &str, node: &Node) -> Option<Duration> {
        let duration = self.duration(key, node)?;
        if duration.is_zero() {
            self.error(node.at, format!("\"{key}\" cannot be zero; write for example \"10s\""));
            return None;
        }
        Some(duration)
    }

    /// Reads a duration within bounds.
    pub fn duration_within(&mut self, key: &str, node: &Node, range: &RangeInclusive<Duration>) -> Option<Duration> {
        let duration = self.duration(key, node)?;
        if range.contains(&duration) {
            return Some(duration);
        }
        let [given, least, most] = [duration, *range.start(), *range.end()].map(units::format_duration);
        let wanted = match range.start().is_zero() {
            true => format!("at most \"{most}\""),
            false => format!("\"{least}\" to \"{most}\""),
        };
        self.error(node.at, format!("\"{key}\" cannot be {given}; write {wanted}"));
        None
    }

    /// Reads a TTL: seconds, or a duration of whole seconds (RFC 2181 section 8: 31 bits).
    pub fn ttl(&mut self, key: &str, node: &Node) -> Option<u32> {
        if !matches!(node.value, Value::Text(_)) {
            return self.integer(key, node, 0..=(1 << 31) - 1).and_then(|ttl| u32::try_from(ttl).ok());
        }
        let duration = self.duration(key, node)?;
        if duration.subsec_millis() != 0 {
            self.error(node.at, format!("\"{key}\" has a fraction of a second; write whole seconds"));
            return None;
        }
        u32::try_from(duration.as_secs()).ok()
    }

    /// Reads a size in bytes.
    pub fn size(&mut self, key: &str, node: &Node) -> Option<u64> {
        let wanted = "a number of bytes or a size such as \"64MiB\"";
        match &node.value {
            Value::Integer(_) => self.integer(key, node, 0..=u64::MAX),
            Value::Text(text) => {
                let size = units::parse_size(text);
                if size.is_none() {
                    self.error(node.at, format!("\"{key}\" cannot be \"{text}\"; write {wanted}"));
                }
                size
            }
            _ => self.wrong_type(key, node, wanted),
        }
    }

    /// Reads a size above zero.
    pub fn positive_size(&mut self, key: &str, node: &Node) -> Option<u64> {
        let size = self.size(key, node)?;
        if size == 0 {
            self.error(node.at, format!("\"{key}\" cannot be zero; write for example \"1GiB\""));
        }
        (size > 0).then_some(size)
    }

    /// Reads a size of so many octets at least.
    pub fn size_from(&mut self, key: &str, node: &Node, least: u64) -> Option<u64> {
        let size = self.size(key, node)?;
        if size < least {
            let [given, least] = [size, least].map(units::format_size);
            self.error(node.at, format!("\"{key}\" cannot be {given}; write at least \"{least}\""));
        }
        (size >= least).then_some(size)
    }

    /// Reads a path; it is relative to the folder of the configuration file.
    pub fn path(&mut self, key: &str, node: &Node) -> Option<PathBuf> {
        let text = self.text(key, node, "a path")?;
        if text.is_empty() || text.contains('\0') {
            self.error(node.at, format!("\"{key}\" is not a path; write the path of a file"));
            return None;
        }
        Some(self.source.path.parent().unwrap_or_else(|| "".as_ref()).join(text))
    }

    /// Reads a list, each element by `convert`; elements that fail are left out.
    pub fn list<'n, T>(
        &mut self,
        key: &str,
        node: &'n Node,
        wanted: &str,
        mut convert: impl FnMut(&mut Self, &str, &'n Node) -> Option<T>,
    ) -> Option<Vec<T>> {
        match &node.value {
            Value::List(items) => Some(items.iter().filter_map(|item| convert(self, key, item)).collect()),
            _ => self.wrong_type(key, node, wanted),
        }
    }

    //--- Names ---

    /// Reads a domain name from a string value.
    pub fn name(&mut self, key: &str, node: &Node) -> Option<Name> {
        let text = self.text(key, node, "a domain name")?;
        self.parse_name(node.at, text)
    }

    /// Reads a domain name and refuses what is surely something else.
    pub fn parse_name(&mut self, at: usize, text: &str) -> Option<Name> {
        let fault = if !text.is_ascii() {
            Some(("has letters outside ASCII".to_string(), "write its ASCII form (xn--...)"))
        } else if text.bytes().any(|byte| byte <= b' ' || byte == 0x7f || byte == b':' || byte == b'@') {
            Some(("has a character that no zone name has".to_string(), "write a name such as \"cns.example.com\""))
        } else {
            match Name::parse(text) {
                Ok(name) if name.label_count() > 0 => return Some(name),
                Ok(_) => Some(("is the root".to_string(), "write a name such as \"cns.example.com\"")),
                Err(error) => {
                    Some((format!("is no domain name ({error})"), "write a name such as \"cns.example.com\""))
                }
            }
        };
        if let Some((fault, advice)) = fault {
            self.error(at, format!("\"{}\" {fault}; {advice}", shorten(text)));
        }
        None
    }

    /// Reads a contact, as a mail address or as the name that stands for it.
    pub fn mailbox(&mut self, key: &str, node: &Node) -> Option<Name> {
        let wanted = "a mail address such as \"hostmaster@example.com\"";
        let text = self.text(key, node, wanted)?;
        let Some((local, domain)) = text.split_once('@') else {
            return self.parse_name(node.at, text);
        };
        // RFC 1035 section 8: the local part becomes one label, whatever dots it has.
        let domain = self.parse_name(node.at, domain)?;
        match domain.prepend(local.as_bytes()) {
            Ok(name) => Some(name),
            Err(error) => {
                self.error(node.at, format!("\"{}\" cannot be a contact ({error}); write {wanted}", shorten(text)));
                None
            }
        }
    }

    //--- Addresses ---

    /// Reads an IP address with or without a port.
    pub fn address(&mut self, key: &str, node: &Node, port: u16) -> Option<SocketAddr> {
        let wanted = "an address such as \"192.0.2.1\", \"192.0.2.1:53\", \"2001:db8::1\" or \"[2001:db8::1]:53\"";
        let text = self.text(key, node, wanted)?;
        match parse_address(text, port) {
            Some(address) => self.plain_address(node.at, address.ip()).then_some(address),
            None => {
                let text = shorten(text);
                let advice = if text.bytes().any(|byte| byte.is_ascii_alphabetic() && !byte.is_ascii_hexdigit()) {
                    "names are not looked up, write the address itself".to_string()
                } else {
                    format!("write {wanted}")
                };
                self.error(node.at, format!("\"{text}\" is no address; {advice}"));
                None
            }
        }
    }

    /// Reads an address of this machine that connections are to come from.
    pub fn source_address(&mut self, key: &str, node: &Node) -> Option<IpAddr> {
        self.bare_address(key, node, "an address of this machine, or leave the key out")
    }

    /// Reads the address of one host without a port; `wanted` is what to write instead of an address of none.
    pub fn bare_address(&mut self, key: &str, node: &Node, wanted: &str) -> Option<IpAddr> {
        let text = self.text(key, node, "an address without a port")?;
        let Ok(address) = text.parse::<IpAddr>() else {
            self.error(node.at, format!("\"{}\" is no address; write an address without a port", shorten(text)));
            return None;
        };
        if address.is_unspecified() || address.is_multicast() {
            self.error(node.at, format!("\"{key}\" cannot be {address}; write {wanted}"));
            return None;
        }
        self.plain_address(node.at, address).then_some(address)
    }

    /// Refuses IPv4 addresses in IPv6 clothes (RFC 4291 section 2.5.5.2), which IPv6-only sockets cannot reach.
    pub fn plain_address(&mut self, at: usize, address: IpAddr) -> bool {
        let plain = address.to_canonical();
        if plain != address {
            self.error(at, format!("{address} is an IPv4 address mapped to IPv6; write {plain}"));
        }
        plain == address
    }
}

/// Reads `1.2.3.4`, `1.2.3.4:5`, `::1`, `[::1]` and `[::1]:5`.
fn parse_address(text: &str, port: u16) -> Option<SocketAddr> {
    let bare = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    if let Some(inner) = bare {
        return inner.parse().ok().map(|address| SocketAddr::new(IpAddr::V6(address), port));
    }
    text.parse().ok().or_else(|| text.parse().ok().map(|address| SocketAddr::new(address, port)))
}

/// A value for a message, cut where it would hide the rest of the line, without line breaks.
pub fn shorten(text: &str) -> String {
    let mut short: String = text.chars().take(100).flat_map(char::escape_debug).collect();
    if text.chars().nth(100).is_some() {
        short.push_str("...");
    }
    // Messages stand in double quotes already; what escape_debug did to other quotes is undone.
    short = short.replace("\\'", "'");
    short
}
