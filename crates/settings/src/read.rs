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
use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::slice;
use std::time::Duration;
use wire::name::Name;

/// Errors that are told of one file, and warnings: a file of a million lines may have one in each.
const MOST_MESSAGES: usize = 1000;

/// Reads values of one file and gathers what is wrong with them.
pub struct Reader<'t> {
    pub source: Source<'t>,
    errors: Vec<ConfigError>,
    /// Errors of files that the file names.
    elsewhere: Vec<ConfigError>,
    warnings: Vec<(usize, String)>,
    /// Offsets of what is read several times, and whether something was told there.
    shared: HashMap<usize, bool>,
    /// All paths that were read.
    paths: Vec<PathBuf>,
}

impl<'t> Reader<'t> {
    /// Begins with the errors of the parser.
    pub fn new(source: Source<'t>, errors: Vec<ConfigError>) -> Reader<'t> {
        let (elsewhere, warnings) = (Vec::new(), Vec::new());
        Reader { source, errors, elsewhere, warnings, shared: HashMap::new(), paths: Vec::new() }
    }

    /// Notes an error.
    pub fn error(&mut self, at: usize, message: String) {
        if self.was_told(at) {
            return;
        }
        self.add(self.source.error(at, message));
    }

    /// Has only the first message at an offset told, because what stands there is read several times.
    pub fn tell_once(&mut self, at: usize) {
        self.shared.entry(at).or_insert(false);
    }

    /// Has nothing more told at an offset, because what stands there was told to be wrong.
    pub fn tell_no_more(&mut self, at: usize) {
        self.shared.insert(at, true);
    }

    /// Returns true if no more is to be told at an offset, and remembers that something is.
    fn was_told(&mut self, at: usize) -> bool {
        self.shared.get_mut(&at).is_some_and(|told| std::mem::replace(told, true))
    }

    /// Notes an error of the parser.
    pub fn add(&mut self, error: ConfigError) {
        let there = self.errors.len();
        if there < MOST_MESSAGES {
            self.errors.push(error);
        } else if there == MOST_MESSAGES {
            let message = "more is wrong from here on; correct what is listed first".to_string();
            self.errors.push(ConfigError { message, is_absence: false, ..error });
        }
    }

    /// Returns true if no more errors are noted.
    pub fn is_full(&self) -> bool {
        self.errors.len() > MOST_MESSAGES
    }

    /// Notes an error of another file, which is told behind those of this one.
    pub fn error_elsewhere(&mut self, error: ConfigError) {
        self.elsewhere.push(error);
    }

    /// Notes that a file which this one names gives nothing; `is_absent` if it cannot be read at all, which may be
    /// otherwise on another machine.
    pub fn refuse_file<T>(&mut self, at: usize, message: String, is_absent: bool) -> Option<T> {
        if !self.was_told(at) {
            self.add(ConfigError { is_absence: is_absent, ..self.source.error(at, message) });
        }
        None
    }

    /// Notes an error, for which there is no value.
    pub fn refuse<T>(&mut self, at: usize, message: String) -> Option<T> {
        self.error(at, message);
        None
    }

    /// Notes a warning.
    pub fn warn(&mut self, at: usize, message: String) {
        if self.warnings.len() < MOST_MESSAGES && !self.was_told(at) {
            self.warnings.push((at, on_one_line(message)));
        }
    }

    /// The warnings in file order with their positions, as text, when there are no errors.
    pub fn finish(self) -> Result<Vec<String>, ConfigErrors> {
        Ok(self.finish_placed()?.iter().map(ConfigError::to_string).collect())
    }

    /// The warnings in file order, when there are no errors.
    pub fn finish_placed(mut self) -> Result<Vec<ConfigError>, ConfigErrors> {
        if !self.errors.is_empty() || !self.elsewhere.is_empty() {
            let rank = |error: &ConfigError| (self.source.rank(&error.path), error.line, error.column);
            self.errors.sort_by_key(rank);
            self.errors.dedup();
            let mut errors = ConfigErrors(std::mem::take(&mut self.errors));
            errors.0.append(&mut self.elsewhere);
            return Err(errors);
        }
        self.warnings.sort_by_key(|(at, _)| *at);
        Ok(self.warnings.into_iter().map(|(at, text)| self.source.error(at, text)).collect())
    }

    /// Notes that a value has the wrong type.
    pub fn wrong_type<T>(&mut self, key: &str, node: &Node, wanted: &str) -> Option<T> {
        self.refuse(node.at, format!("\"{key}\" is {}; write {wanted}", node.kind()))
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
        found.or_else(|| self.refuse(node.at, format!("\"{key}\" cannot be \"{text}\"; write {wanted}")))
    }

    /// Reads yes or no.
    pub fn boolean(&mut self, key: &str, node: &Node) -> Option<bool> {
        match node.value {
            Value::Boolean(choice) => Some(choice),
            _ => self.wrong_type(key, node, "true or false"),
        }
    }

    /// Reads a whole number.
    pub fn integer<T: TryFrom<u64>>(&mut self, key: &str, node: &Node, range: RangeInclusive<u64>) -> Option<T> {
        let wanted = match (*range.start(), *range.end()) {
            (low, u64::MAX) => format!("a whole number from {low} on"),
            (low, high) => format!("a whole number from {low} to {high}"),
        };
        let Value::Integer(number) = node.value else { return self.wrong_type(key, node, &wanted) };
        let within = u64::try_from(number).ok().filter(|number| range.contains(number));
        let found = within.and_then(|number| T::try_from(number).ok());
        found.or_else(|| self.refuse(node.at, format!("\"{key}\" cannot be {number}; write {wanted}")))
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
        self.refuse(node.at, format!("\"{key}\" cannot be {share}; write {wanted}"))
    }

    /// Reads a duration; zero is allowed.
    pub fn duration(&mut self, key: &str, node: &Node) -> Option<Duration> {
        let wanted = "a duration such as \"30s\", with one of the units ms, s, m, h, d";
        let text = match &node.value {
            Value::Text(text) => text,
            Value::Integer(number) if *number >= 0 => {
                return self.refuse(node.at, format!("\"{key}\" has no unit; write for example \"{number}s\""));
            }
            _ => return self.wrong_type(key, node, wanted),
        };
        let Some(duration) = units::parse_duration(text) else {
            return self.refuse(node.at, format!("\"{key}\" cannot be \"{text}\"; write {wanted}"));
        };
        if duration > units::MAX_DURATION {
            let most = units::format_duration(units::MAX_DURATION);
            return self.refuse(node.at, format!("\"{key}\" cannot be \"{text}\"; write at most \"{most}\""));
        }
        Some(duration)
    }

    /// Reads a duration above zero.
    pub fn positive_duration(&mut self, key: &str, node: &Node) -> Option<Duration> {
        let duration = self.duration(key, node)?;
        if duration.is_zero() {
            return self.refuse(node.at, format!("\"{key}\" cannot be zero; write for example \"10s\""));
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
        self.refuse(node.at, format!("\"{key}\" cannot be {given}; write {wanted}"))
    }

    /// Reads a TTL: seconds, or a duration of whole seconds (RFC 2181 section 8: 31 bits).
    pub fn ttl(&mut self, key: &str, node: &Node) -> Option<u32> {
        if !matches!(node.value, Value::Text(_)) {
            return self.integer(key, node, 0..=(1 << 31) - 1);
        }
        let duration = self.duration(key, node)?;
        if duration.subsec_millis() != 0 {
            return self.refuse(node.at, format!("\"{key}\" has a fraction of a second; write whole seconds"));
        }
        u32::try_from(duration.as_secs()).ok()
    }

    /// Reads a size in bytes.
    pub fn size(&mut self, key: &str, node: &Node) -> Option<u64> {
        let wanted = "a number of bytes or a size such as \"64MiB\"";
        match &node.value {
            Value::Integer(_) => self.integer(key, node, 0..=u64::MAX),
            Value::Text(text) => units::parse_size(text)
                .or_else(|| self.refuse(node.at, format!("\"{key}\" cannot be \"{text}\"; write {wanted}"))),
            _ => self.wrong_type(key, node, wanted),
        }
    }

    /// Reads a size above zero.
    pub fn positive_size(&mut self, key: &str, node: &Node) -> Option<u64> {
        let size = self.size(key, node)?;
        if size == 0 {
            return self.refuse(node.at, format!("\"{key}\" cannot be zero; write for example \"1GiB\""));
        }
        Some(size)
    }

    /// Reads a size of so many octets at least.
    pub fn size_from(&mut self, key: &str, node: &Node, least: u64) -> Option<u64> {
        let size = self.size(key, node)?;
        if size < least {
            let [given, least] = [size, least].map(units::format_size);
            return self.refuse(node.at, format!("\"{key}\" cannot be {given}; write at least \"{least}\""));
        }
        Some(size)
    }

    /// Reads a path; it is relative to the folder of the file that it stands in.
    pub fn path(&mut self, key: &str, node: &Node) -> Option<PathBuf> {
        let text = self.text(key, node, "a path")?;
        if text.is_empty() || text.contains('\0') {
            return self.refuse(node.at, format!("\"{key}\" is not a path; write the path of a file"));
        }
        let path = self.source.path_at(node.at).parent().unwrap_or_else(|| "".as_ref()).join(text);
        self.paths.push(path.clone());
        Some(path)
    }

    /// All files of the configuration and all paths that have been read from it, whichever key they stand at.
    pub fn named_paths(&self) -> Vec<PathBuf> {
        self.source.paths().map(Path::to_path_buf).chain(self.paths.iter().cloned()).collect()
    }

    /// Reads a list, each element by `convert`; elements that fail are left out.
    pub fn list<'n, T>(
        &mut self,
        key: &str,
        node: &'n Node,
        wanted: &str,
        mut convert: impl FnMut(&mut Self, &str, &'n Node) -> Option<T>,
    ) -> Option<Vec<T>> {
        let items = self.items(key, node, false, wanted)?;
        Some(items.iter().filter_map(|item| convert(self, key, item)).collect())
    }

    /// The elements of a list, or the value itself where it `is_one`: an element in the place of a list.
    pub fn items<'n>(&mut self, key: &str, node: &'n Node, is_one: bool, wanted: &str) -> Option<&'n [Node]> {
        match &node.value {
            _ if is_one => Some(slice::from_ref(node)),
            Value::List(items) => Some(items),
            _ => self.wrong_type(key, node, wanted),
        }
    }

    /// Reads elements, each by `convert`; one that is the `same` as an earlier one is left out, as `twice` reports.
    pub fn distinct<T>(
        &mut self,
        key: &str,
        items: &[Node],
        mut convert: impl FnMut(&mut Self, &str, &Node) -> Option<T>,
        same: impl Fn(&T, &T) -> bool,
        twice: impl Fn(&T) -> String,
    ) -> Vec<T> {
        let mut distinct = Vec::new();
        for item in items {
            let Some(element) = convert(self, key, item) else { continue };
            if distinct.iter().any(|other| same(other, &element)) {
                self.error(item.at, twice(&element));
            } else {
                distinct.push(element);
            }
        }
        distinct
    }

    //--- Names ---

    /// Reads a domain name from a string value.
    pub fn name(&mut self, key: &str, node: &Node) -> Option<Name> {
        let text = self.text(key, node, "a domain name")?;
        self.parse_name(node.at, text)
    }

    /// Reads a domain name and refuses what is surely something else.
    pub fn parse_name(&mut self, at: usize, text: &str) -> Option<Name> {
        let example = "write a name such as \"cns.example.com\"";
        let (fault, advice) = if !text.is_ascii() {
            ("has letters outside ASCII".to_string(), "write its ASCII form (xn--...)")
        } else if text.bytes().any(|byte| byte <= b' ' || byte == 0x7f || byte == b':' || byte == b'@') {
            ("has a character that no zone name has".to_string(), example)
        } else {
            match Name::parse(text) {
                Ok(name) if name.label_count() > 0 => return Some(name),
                Ok(_) => ("is the root".to_string(), example),
                Err(error) => (format!("is no domain name ({error})"), example),
            }
        };
        self.refuse(at, format!("\"{}\" {fault}; {advice}", shorten(text)))
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
                self.refuse(node.at, format!("\"{}\" cannot be a contact ({error}); write {wanted}", shorten(text)))
            }
        }
    }

    //--- Addresses ---

    /// Reads an IP address with or without a port.
    pub fn address(&mut self, key: &str, node: &Node, port: u16) -> Option<SocketAddr> {
        let wanted = "an address such as \"192.0.2.1\", \"192.0.2.1:53\", \"2001:db8::1\" or \"[2001:db8::1]:53\"";
        let text = self.text(key, node, wanted)?;
        let Some(address) = parse_address(text, port) else {
            let text = shorten(text);
            let advice = match text.bytes().any(|byte| byte.is_ascii_alphabetic() && !byte.is_ascii_hexdigit()) {
                true => "names are not looked up, write the address itself".to_string(),
                false => format!("write {wanted}"),
            };
            return self.refuse(node.at, format!("\"{text}\" is no address; {advice}"));
        };
        self.plain_address(node.at, address.ip()).then_some(address)
    }

    /// Reads an address of this machine that connections are to come from.
    pub fn source_address(&mut self, key: &str, node: &Node) -> Option<IpAddr> {
        self.bare_address(key, node, "an address of this machine, or leave the key out")
    }

    /// Reads the address of one host without a port; `wanted` is what to write instead of an address of none.
    pub fn bare_address(&mut self, key: &str, node: &Node, wanted: &str) -> Option<IpAddr> {
        let text = self.text(key, node, "an address without a port")?;
        let Ok(address) = text.parse::<IpAddr>() else {
            let text = shorten(text);
            return self.refuse(node.at, format!("\"{text}\" is no address; write an address without a port"));
        };
        if address.is_unspecified() || address.is_multicast() {
            return self.refuse(node.at, format!("\"{key}\" cannot be {address}; write {wanted}"));
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
