//! Entries for systemd's journal in its own form: a datagram of fields for each line (the native protocol of
//! systemd-journald), so that `journalctl AGGREGATOR_ZONE=…` finds what concerns a zone.
//!
//! Lines come as JSON objects ([`Form::Json`](super::notice::Form)), and are made into entries by the thread that writes. Text
//! that is no object, such as the last words of a process, has a priority in front, or is an error.
//!
//! Invariants: an entry has the text that a line for people has, and each field of the line under its name in capitals with
//! `AGGREGATOR_` in front, so that none is taken for one of systemd's; an entry that the journal does not take as it is goes there through standard
//! error, or without its fields if it is too long.
//!
//! Cost: O(octets) of a line, in a thread of its own.

use super::notice::ERROR;
use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::Value;
use std::fmt::{self, Write as _};
use std::io::{self, ErrorKind, Write};
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};

/// Where journald takes entries.
pub const SOCKET: &str = "/run/systemd/journal/socket";
/// Name of the program in entries.
const IDENTIFIER: &str = "aggregator";
/// What stands in front of the names of our fields.
const PREFIX: &str = "AGGREGATOR_";
/// Longest text of an entry that was too long.
const LONGEST_TEXT: usize = 32 << 10;

/// The way to the journal.
pub struct Journal {
    path: PathBuf,
    socket: UnixDatagram,
}

impl Journal {
    /// Finds the journal.
    pub fn connect(path: &Path) -> io::Result<Journal> {
        let socket = UnixDatagram::unbound()?;
        socket.connect(path)?;
        Ok(Journal { path: path.to_owned(), socket })
    }

    /// Sends an entry; once more if journald has been started anew.
    fn send(&mut self, entry: &Entry) -> io::Result<()> {
        let datagram = entry.encode();
        let sent = match self.socket.send(&datagram) {
            Err(error) if matches!(error.kind(), ErrorKind::ConnectionRefused | ErrorKind::NotConnected) => {
                *self = Journal::connect(&self.path)?;
                self.socket.send(&datagram)
            }
            sent => sent,
        };
        match sent {
            Err(error) if error.raw_os_error() == Some(libc::EMSGSIZE) => {
                self.socket.send(&entry.shortened().encode()).map(drop)
            }
            sent => sent.map(drop),
        }
    }
}

impl Write for Journal {
    fn write(&mut self, lines: &[u8]) -> io::Result<usize> {
        for line in String::from_utf8_lossy(lines).lines() {
            let entry = Entry::read(line);
            if self.send(&entry).is_err() {
                // Which is the journal's, too.
                let _ = writeln!(io::stderr(), "<{}>{}", entry.priority, entry.text);
            }
        }
        Ok(lines.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// An entry.
struct Entry {
    /// As in syslog(3).
    priority: char,
    text: String,
    fields: Vec<(String, String)>,
}

impl Entry {
    /// Makes an entry of a line.
    fn read(line: &str) -> Entry {
        match serde_json::from_str::<Line>(line) {
            Ok(Line(keys)) => Entry::of(keys),
            Err(_) => {
                let marked = line.strip_prefix('<').and_then(|rest| rest.split_once('>'));
                let (priority, text) =
                    marked.filter(|(priority, _)| priority.len() == 1).unwrap_or((&ERROR[1..2], line));
                let priority = priority.chars().next().unwrap_or_default();
                Entry { priority, text: text.to_owned(), fields: Vec::new() }
            }
        }
    }

    /// Makes an entry of the keys of a line.
    fn of(keys: Vec<(String, Value)>) -> Entry {
        let (mut level, mut target, mut message) = (String::new(), String::new(), String::new());
        let (mut fields, mut rest) = (Vec::new(), String::new());
        for (key, value) in keys {
            let value = match value {
                Value::String(text) => text,
                value => value.to_string(),
            };
            match &*key {
                // The journal notes it itself.
                "timestamp" => continue,
                "level" => level = value,
                "target" => target = value,
                "message" => message = value,
                _ => {
                    let is_word = !value.is_empty() && !value.contains([' ', '\n', '"']);
                    // A text takes all that is written to it.
                    _ = if is_word { write!(rest, " {key}={value}") } else { write!(rest, " {key}={value:?}") };
                    fields.push((name_of(&key), value));
                }
            }
        }
        let priority = match &*level {
            "ERROR" => '3',
            "WARN" => '4',
            "INFO" => '6',
            _ => '7',
        };
        let text = format!("{level:>5} {target}: {message}{rest}");
        fields.push((name_of("target"), target));
        Entry { priority, text, fields }
    }

    /// What of an entry that is too long goes into the journal.
    fn shortened(&self) -> Entry {
        let end = (0..=LONGEST_TEXT.min(self.text.len())).rev().find(|at| self.text.is_char_boundary(*at)).unwrap_or(0);
        Entry { priority: self.priority, text: format!("{} …", &self.text[..end]), fields: Vec::new() }
    }

    /// Writes it as a datagram.
    fn encode(&self) -> Vec<u8> {
        let mut datagram = format!("PRIORITY={}\nSYSLOG_IDENTIFIER={IDENTIFIER}\n", self.priority).into_bytes();
        put(&mut datagram, "MESSAGE", &self.text);
        self.fields.iter().for_each(|(name, value)| put(&mut datagram, name, value));
        datagram
    }
}

/// Writes a field; one of several lines is written with its length.
fn put(datagram: &mut Vec<u8>, name: &str, value: &str) {
    datagram.extend_from_slice(name.as_bytes());
    if value.contains('\n') {
        datagram.push(b'\n');
        datagram.extend_from_slice(&(value.len() as u64).to_le_bytes());
    } else {
        datagram.push(b'=');
    }
    datagram.extend_from_slice(value.as_bytes());
    datagram.push(b'\n');
}

/// The name of a field in the journal.
fn name_of(key: &str) -> String {
    let plain = |octet: char| if octet.is_ascii_alphanumeric() { octet.to_ascii_uppercase() } else { '_' };
    key.chars().map(plain).fold(PREFIX.to_owned(), |mut name, octet| {
        name.push(octet);
        name
    })
}

/// The keys of a line in their order.
struct Line(Vec<(String, Value)>);

impl<'de> Deserialize<'de> for Line {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Line, D::Error> {
        struct Keys;
        impl<'de> Visitor<'de> for Keys {
            type Value = Line;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Line, A::Error> {
                let mut keys = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    keys.push(entry);
                }
                Ok(Line(keys))
            }
        }
        deserializer.deserialize_map(Keys)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::time::Duration;

    /// A socket in the place of journald's.
    fn journald() -> (PathBuf, UnixDatagram) {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("journal-{}-{number}", std::process::id()));
        let _ = std::fs::remove_file(&path);
        let socket = UnixDatagram::bind(&path).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        (path, socket)
    }

    fn next(socket: &UnixDatagram) -> String {
        let mut datagram = vec![0; 1 << 20];
        let length = socket.recv(&mut datagram).unwrap();
        String::from_utf8(datagram[..length].to_vec()).unwrap()
    }

    #[test]
    fn a_line_is_an_entry_with_its_fields() {
        let (path, socket) = journald();
        let mut journal = Journal::connect(&path).unwrap();
        let lines = "{\"timestamp\":\"2026-11-28T00:00:00Z\",\"level\":\"WARN\",\"message\":\"it differs\",\
                     \"zone\":\"a.test.\",\"serial\":7,\"error\":\"two words\",\"target\":\"aggregator::keeper\"}\n\
                     <4>warning: look\nlast words\n";
        journal.write_all(lines.as_bytes()).unwrap();
        let head = |priority: u8| format!("PRIORITY={priority}\nSYSLOG_IDENTIFIER=aggregator\nMESSAGE=");
        let told = " WARN aggregator::keeper: it differs zone=a.test. serial=7 error=\"two words\"\n";
        let fields = "AGGREGATOR_ZONE=a.test.\nAGGREGATOR_SERIAL=7\nAGGREGATOR_ERROR=two words\nAGGREGATOR_TARGET=aggregator::keeper\n";
        assert_eq!(next(&socket), format!("{}{told}{fields}", head(4)));
        assert_eq!(next(&socket), format!("{}warning: look\n", head(4)));
        assert_eq!(next(&socket), format!("{}last words\n", head(3)));
        std::fs::remove_file(path).unwrap();
    }

    #[test]
    fn values_of_several_lines_keep_them() {
        let mut datagram = Vec::new();
        put(&mut datagram, "A", "one\ntwo");
        assert_eq!(datagram, b"A\n\x07\0\0\0\0\0\0\0one\ntwo\n");
    }

    #[test]
    fn a_journal_that_is_started_anew_is_found_again() {
        let (path, socket) = journald();
        let mut journal = Journal::connect(&path).unwrap();
        drop(socket);
        std::fs::remove_file(&path).unwrap();
        let socket = UnixDatagram::bind(&path).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        journal.write_all(b"here again\n").unwrap();
        assert!(next(&socket).ends_with("MESSAGE=here again\n"));
        std::fs::remove_file(path).unwrap();
    }

    #[test]
    fn an_entry_that_is_too_long_loses_its_fields_and_its_end() {
        let (path, socket) = journald();
        let mut journal = Journal::connect(&path).unwrap();
        let line =
            format!("{{\"level\":\"INFO\",\"message\":\"m\",\"list\":\"{}\",\"target\":\"t\"}}\n", "ä".repeat(2 << 20));
        journal.write_all(line.as_bytes()).unwrap();
        let told = next(&socket);
        assert!(told.contains("MESSAGE= INFO t: m list=ä") && told.ends_with(" …\n"), "{}", told.len());
        assert!(!told.contains("AGGREGATOR_") && told.len() < LONGEST_TEXT + 100, "{}", told.len());
        std::fs::remove_file(path).unwrap();
    }
}
