//! Registrar's configuration file, as it is, in both spellings of its ZooKeeper block.
//!
//! Invariants: a [`Config`] is complete and consistent, so that nothing later needs to doubt it; all errors are found
//! in one run, each with its position and what to write instead. A key that is not known has no effect, as ever, and is
//! warned of; one that looks like a known key misspelt is an error, because a file that was meant otherwise would
//! register the wrong thing.
//!
//! Cost: O(file).

mod registration;

pub use registration::Registration;

use crate::state::Tolerance;
use regex::bytes::{Regex, RegexBuilder};
use settings::error::Source;
use settings::read::{Reader, shorten};
use settings::schema::suggest;
use settings::tree::{self, Entry, Node, Value};
use settings::{ConfigErrors, read_text};
use std::path::Path;
use std::time::Duration;

/// The longest time that a file can ask for, in milliseconds: a year.
const LONGEST: u64 = 365 * 24 * 3600 * 1000;
/// Failures that can be counted at most.
const MOST_FAILURES: u64 = 100_000;

/// Everything a configuration file says.
#[derive(Clone, Debug)]
pub struct Config {
    pub registration: Registration,
    pub zookeeper: ZooKeeperPlan,
    pub health: Option<HealthPlan>,
    /// Filter of log lines, which says how much is logged; none if the file does not have it.
    pub log_level: Option<String>,
    /// Warnings about settings that are allowed but probably not meant, each with `file:line:column`.
    pub warnings: Vec<String>,
}

/// Settings for the connection to ZooKeeper.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ZooKeeperPlan {
    /// Host and port of each server.
    pub servers: Vec<String>,
    /// Time without a sign of life after which the session and its nodes are gone.
    pub session_timeout: Duration,
    /// Longest time of one attempt to connect; none leaves it to the client.
    pub connect_timeout: Option<Duration>,
    /// Pause between two attempts at a new session.
    pub retry_delay: Duration,
}

/// Settings of the health check, which finds out whether the instance can serve.
#[derive(Clone, Debug)]
pub struct HealthPlan {
    /// Command for the shell.
    pub command: String,
    /// Time from the end of a check to the next.
    pub interval: Duration,
    /// Longest time of a check.
    pub timeout: Duration,
    pub tolerance: Tolerance,
    /// True if an exit status other than 0 is no failure.
    pub ignore_exit_status: bool,
    pub output: Option<OutputRule>,
    /// True if a check has to pass before anything is registered.
    pub check_first: bool,
}

/// Rule for the output of a check.
#[derive(Clone, Debug)]
pub struct OutputRule {
    pub pattern: Regex,
    /// True if the pattern must not match.
    pub invert: bool,
}

impl Config {
    /// Reads a file.
    pub fn load(path: &Path) -> Result<Config, ConfigErrors> {
        Config::parse(path, &read_text(path)?)
    }

    /// Reads a text as if it were the file at `path`.
    pub fn parse(path: &Path, text: &str) -> Result<Config, ConfigErrors> {
        let source = Source::new(path, text.strip_prefix('\u{feff}').unwrap_or(text));
        let (tree, errors) = tree::parse(&source);
        let Some(tree) = tree else { return Err(ConfigErrors::new(errors)) };
        let mut reader = Reader::new(source, errors);
        let config = read_file(&mut reader, &tree);
        let warnings = reader.finish()?;
        Ok(Config { warnings, ..config.expect("what is missing was reported") })
    }
}

/// Reads the whole file; none if something that cannot be done without was reported.
fn read_file(reader: &mut Reader<'_>, root: &Node) -> Option<Config> {
    const KEYS: [&str; 6] = ["adminIp", "registration", "zookeeper", "healthCheck", "logLevel", "maxAttempts"];
    let block = Block::open(reader, root, "the file", &KEYS)?;
    if let Some(entry) = block.entry("maxAttempts") {
        reader.warn(entry.key_at, "\"maxAttempts\" has no effect, as ever: the agent never gives up".to_string());
    }
    let registration = block.need(reader, "registration", "the names to register");
    let registration = registration.and_then(|entry| Registration::read(reader, &entry.node, block.entry("adminIp")));
    let zookeeper = block.need(reader, "zookeeper", "the servers of ZooKeeper");
    let zookeeper = zookeeper.and_then(|entry| read_zookeeper(reader, &entry.node));
    let health = block.entry("healthCheck").map(|entry| read_health(reader, &entry.node));
    let log_level = block.entry("logLevel").map(|entry| read_level(reader, &entry.node));
    Some(Config {
        registration: registration?,
        zookeeper: zookeeper?,
        health: health.flatten(),
        log_level: log_level.flatten(),
        warnings: Vec::new(),
    })
}

//--- ZooKeeper ---

/// Reads the block in either spelling.
fn read_zookeeper(reader: &mut Reader<'_>, node: &Node) -> Option<ZooKeeperPlan> {
    const KEYS: [&str; 5] = ["servers", "timeout", "sessionTimeout", "connectTimeout", "retry"];
    let block = Block::open(reader, node, "\"zookeeper\"", &KEYS)?;
    let wanted = "a list such as [{\"host\": \"10.0.0.1\", \"port\": 2181}]";
    let servers = block.need(reader, "servers", wanted)?;
    let list = reader.list("servers", &servers.node, wanted, |reader, _, node| read_server(reader, node))?;
    if matches!(&servers.node.value, Value::List(items) if items.is_empty()) {
        reader.error(servers.node.at, format!("\"servers\" is empty; write {wanted}"));
    }
    let timeout = block.one_of(reader, "timeout", "sessionTimeout");
    let timeout = timeout.and_then(|entry| milliseconds(reader, entry, 1));
    let connect = match block.entry("connectTimeout") {
        Some(Entry { node: Node { value: Value::Boolean(false), .. }, .. }) => None,
        Some(entry) => milliseconds(reader, entry, 1),
        None => Some(Duration::from_secs(4)),
    };
    let mut retry_delay = Duration::from_secs(1);
    if let Some(entry) = block.entry("retry")
        && let Some(retry) = Block::open(reader, &entry.node, "\"retry\"", &["delay", "max"])
    {
        retry_delay = retry.entry("delay").and_then(|entry| milliseconds(reader, entry, 1)).unwrap_or(retry_delay);
        if let Some(max) = retry.entry("max") {
            reader.warn(max.key_at, "\"max\" has no effect: the agent never gives up".to_string());
        }
    }
    Some(ZooKeeperPlan {
        servers: list,
        session_timeout: timeout.unwrap_or(Duration::from_secs(30)),
        connect_timeout: connect,
        retry_delay,
    })
}

/// Reads one server in either spelling.
fn read_server(reader: &mut Reader<'_>, node: &Node) -> Option<String> {
    let block = Block::open(reader, node, "a server", &["host", "address", "port"])?;
    let host = block.one_of(reader, "host", "address");
    if host.is_none() && !block.misspells("host") && !block.misspells("address") {
        reader.error(node.at, "\"host\" is missing; write the address or name of the server".to_string());
    }
    let port = block.need(reader, "port", "the port for clients, mostly 2181");
    let port = port.and_then(|entry| reader.integer::<u16>("port", &entry.node, 1..=65535));
    let host = host?;
    let text = reader.text(&host.key, &host.node, "an address or a name")?;
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
    let is_address = text.parse::<std::net::Ipv6Addr>().is_ok();
    if !is_address && (text.is_empty() || !text.bytes().all(is_plain)) {
        let text = shorten(text);
        let message = format!("\"{text}\" is no server; write an address or a name without a port");
        return reader.refuse(host.node.at, message);
    }
    let port = port?;
    Some(if is_address { format!("[{text}]:{port}") } else { format!("{text}:{port}") })
}

//--- Health check ---

/// Reads the health check.
fn read_health(reader: &mut Reader<'_>, node: &Node) -> Option<HealthPlan> {
    const KEYS: [&str; 8] =
        ["command", "interval", "timeout", "threshold", "period", "ignoreExitStatus", "stdoutMatch", "checkFirst"];
    let block = Block::open(reader, node, "\"healthCheck\"", &KEYS)?;
    let command = block.need(reader, "command", "what the shell is to run")?;
    let text = reader.text("command", &command.node, "what the shell is to run")?;
    if text.trim().is_empty() || text.contains('\0') {
        reader.error(command.node.at, "\"command\" is nothing to run; write what the shell is to run".to_string());
    }
    let mut time = |key, default| {
        let read = block.entry(key).and_then(|entry| milliseconds(reader, entry, 1));
        read.unwrap_or(Duration::from_millis(default))
    };
    let (interval, timeout, period) = (time("interval", 60_000), time("timeout", 1000), time("period", 300_000));
    let threshold = block.entry("threshold");
    let threshold = threshold.and_then(|entry| reader.integer::<usize>("threshold", &entry.node, 1..=MOST_FAILURES));
    let threshold = threshold.unwrap_or(5);
    let spread = interval.saturating_mul(threshold as u32 - 1);
    if spread > period {
        let (place, least) = (block.entry("period").map_or(node.at, |entry| entry.node.at), spread.as_millis());
        let message = format!(
            "{threshold} failures cannot fall within \"period\", because checks are {} ms apart; the instance would never be taken \
                 out of service; write at least {least}",
            interval.as_millis()
        );
        reader.warn(place, message);
    }
    let output = block.entry("stdoutMatch").and_then(|entry| read_output_rule(reader, &entry.node));
    let mut choice = |key| block.entry(key).and_then(|entry| reader.boolean(key, &entry.node)).unwrap_or(false);
    Some(HealthPlan {
        command: text.to_string(),
        interval,
        timeout,
        tolerance: Tolerance { threshold, period },
        ignore_exit_status: choice("ignoreExitStatus"),
        check_first: choice("checkFirst"),
        output,
    })
}

/// Reads what a check has to print.
fn read_output_rule(reader: &mut Reader<'_>, node: &Node) -> Option<OutputRule> {
    let block = Block::open(reader, node, "\"stdoutMatch\"", &["pattern", "flags", "invert"])?;
    let pattern = block.need(reader, "pattern", "a regular expression")?;
    let text = reader.text("pattern", &pattern.node, "a regular expression")?;
    let mut builder = RegexBuilder::new(text);
    if let Some(flags) = block.entry("flags") {
        let wanted = "letters out of \"imsgu\"";
        for flag in reader.text("flags", &flags.node, wanted).unwrap_or_default().chars() {
            match flag {
                'i' => builder.case_insensitive(true),
                'm' => builder.multi_line(true),
                's' => builder.dot_matches_new_line(true),
                // Whether there is a match does not depend on finding all of them, and characters are Unicode's anyway.
                'g' | 'u' => &mut builder,
                _ => {
                    let flag = flag.escape_default();
                    reader.error(flags.node.at, format!("\"flags\" cannot have \"{flag}\"; write {wanted}"));
                    &mut builder
                }
            };
        }
    }
    let invert = block.entry("invert").and_then(|entry| reader.boolean("invert", &entry.node)).unwrap_or(false);
    match builder.build() {
        Ok(pattern) => Some(OutputRule { pattern, invert }),
        Err(error) => {
            // The last line says what is wrong; those before it draw the place.
            let error = error.to_string();
            let reason = error.lines().last().unwrap_or_default().trim_start_matches("error: ");
            let message = format!(
                "\"pattern\" cannot be used: {reason}; write it without look-around and backreferences, as the regular \
                 expressions of Rust are"
            );
            reader.refuse(pattern.node.at, message)
        }
    }
}

/// Reads a level in the words or numbers of Bunyan.
fn read_level(reader: &mut Reader<'_>, node: &Node) -> Option<String> {
    let wanted = "\"fatal\", \"error\", \"warn\", \"info\", \"debug\", \"trace\", or a number from 0 to 100";
    let level = match &node.value {
        Value::Text(word) => level_of(word),
        Value::Integer(number @ 0..=100) => level_of(&number.to_string()),
        Value::Integer(_) => None,
        _ => return reader.wrong_type("logLevel", node, wanted),
    };
    if level.is_none() {
        reader.error(node.at, format!("\"logLevel\" cannot be this; write {wanted}"));
    }
    level.map(str::to_string)
}

/// Our level for one of Bunyan's, a word or a number: lines of that number and above are written.
pub fn level_of(text: &str) -> Option<&'static str> {
    const LEVELS: [&str; 5] = ["trace", "debug", "info", "warn", "error"];
    match text.parse::<u8>() {
        // Theirs are ten apart, and trace is 10.
        Ok(number @ 0..=100) => Some(LEVELS[usize::from(number.saturating_sub(1) / 10).min(4)]),
        Ok(_) => None,
        Err(_) if text == "fatal" => Some("error"),
        Err(_) => LEVELS.into_iter().find(|level| *level == text),
    }
}

/// Reads a number of milliseconds.
fn milliseconds(reader: &mut Reader<'_>, entry: &Entry, least: u64) -> Option<Duration> {
    reader.integer(&entry.key, &entry.node, least..=LONGEST).map(Duration::from_millis)
}

//--- Blocks ---

/// The entries of an object.
struct Block<'n> {
    entries: &'n [Entry],
    at: usize,
    known: &'static [&'static str],
}

impl<'n> Block<'n> {
    /// Takes an object, and looks at keys that are not known.
    fn open(reader: &mut Reader<'_>, node: &'n Node, place: &str, known: &'static [&'static str]) -> Option<Block<'n>> {
        let Value::Table(entries) = &node.value else {
            return reader.refuse(node.at, format!("{place} is {}; write an object {{...}}", node.kind()));
        };
        let block = Block { entries, at: node.at, known };
        for entry in entries.iter().filter(|entry| !known.contains(&entry.key.as_str())) {
            let key = shorten(&entry.key);
            match known.iter().find(|known| block.is_meant(entry, known)) {
                Some(near) => reader.error(entry.key_at, format!("unknown key \"{key}\"; did you mean \"{near}\"?")),
                None => reader.warn(entry.key_at, format!("unknown key \"{key}\" in {place} has no effect")),
            }
        }
        Some(block)
    }

    /// The entry of a key.
    fn entry(&self, key: &str) -> Option<&'n Entry> {
        debug_assert!(self.known.contains(&key));
        self.entries.iter().find(|entry| entry.key == key)
    }

    /// Returns true if an unknown key is taken for a misspelling of `key`, which itself is absent.
    fn is_meant(&self, entry: &Entry, key: &str) -> bool {
        self.entry(key).is_none() && suggest(&entry.key, self.known.iter().copied()) == Some(key)
    }

    /// Returns true if an unknown key was reported as a misspelling of this one.
    fn misspells(&self, key: &str) -> bool {
        let unknown = self.entries.iter().filter(|entry| !self.known.contains(&entry.key.as_str()));
        unknown.into_iter().any(|entry| self.is_meant(entry, key))
    }

    /// The entry of a key that must be there.
    fn need(&self, reader: &mut Reader<'_>, key: &str, advice: &str) -> Option<&'n Entry> {
        let entry = self.entry(key);
        if entry.is_none() && !self.misspells(key) {
            reader.error(self.at, format!("\"{key}\" is missing; write {advice}"));
        }
        entry
    }

    /// The entry of either of two spellings, of which there must not be both.
    fn one_of(&self, reader: &mut Reader<'_>, key: &str, other: &str) -> Option<&'n Entry> {
        if let (Some(_), Some(second)) = (self.entry(key), self.entry(other)) {
            reader.error(second.key_at, format!("\"{other}\" says the same as \"{key}\"; keep one of them"));
        }
        self.entry(key).or_else(|| self.entry(other))
    }
}

#[cfg(test)]
mod tests;
