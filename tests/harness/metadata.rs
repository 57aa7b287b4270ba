//! The host of a Triton instance, as far as metadata goes: version 2 of its protocol, strict as the real one, over a
//! Unix socket of ours, a socket of somebody else, or a pseudo-terminal. It can also be silent, old, or damage what it
//! says.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::fd::{FromRawFd, RawFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Behaviour of a host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Habit {
    #[default]
    Answers,
    /// Takes everything and says nothing.
    Silent,
    /// Knows only version 1.
    Old,
    /// Damages the first answer to every key, and answers nobody's questions in between.
    Noisy,
    /// Sends an octet at a time.
    Slow,
    /// Sends a long answer no faster than a serial port.
    Paced,
    /// Sends the first half of a long answer.
    Halfway,
}

/// Values that a host has, and the requests that it got.
#[derive(Default)]
struct State {
    values: BTreeMap<String, String>,
    habit: Habit,
    asked: Vec<String>,
}

/// A host that can be asked.
#[derive(Clone, Default)]
pub struct MetadataHost(Arc<Mutex<State>>);

impl MetadataHost {
    /// A host that knows nothing.
    pub fn new() -> MetadataHost {
        MetadataHost::default()
    }

    /// Sets or removes a value.
    pub fn set(&self, key: &str, value: Option<&str>) {
        let values = &mut self.0.lock().unwrap().values;
        match value {
            Some(value) => values.insert(key.to_owned(), value.to_owned()),
            None => values.remove(key),
        };
    }

    /// Changes its habit.
    pub fn behave(&self, habit: Habit) {
        self.0.lock().unwrap().habit = habit;
    }

    /// The keys that were asked for so far.
    pub fn asked(&self) -> Vec<String> {
        self.0.lock().unwrap().asked.clone()
    }

    /// Listens at a path, as for a zone, for as long as the test runs.
    pub fn listen(&self, path: &Path) {
        let listener = UnixListener::bind(path).expect("socket of the host");
        let host = self.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (host, stream) = (host.clone(), stream.expect("connection"));
                std::thread::spawn(move || host.serve(stream.try_clone().expect("socket"), stream));
            }
        });
    }

    /// Connects to a path and again whenever that ends, as to the second serial port of a guest.
    pub fn connect(&self, path: &Path) {
        let (host, path) = (self.clone(), path.to_path_buf());
        std::thread::spawn(move || {
            loop {
                if let Ok(stream) = UnixStream::connect(&path) {
                    host.serve(stream.try_clone().expect("socket"), stream);
                }
                std::thread::sleep(Duration::from_millis(100));
            }
        });
    }

    /// Serves one end of a pseudo-terminal; the path of the other.
    pub fn open_terminal(&self) -> PathBuf {
        let (mut ours, mut theirs): (RawFd, RawFd) = (-1, -1);
        let mut name = [0u8; 128];
        let null = std::ptr::null_mut();
        // SAFETY: the pointers are to live variables, and the name fits: it is /dev/pts/ with a number.
        let opened =
            unsafe { libc::openpty(&raw mut ours, &raw mut theirs, name.as_mut_ptr().cast(), null, null.cast()) };
        assert_eq!(opened, 0, "{}", std::io::Error::last_os_error());
        // SAFETY: openpty has just made it, and nobody else has it. The other end stays open: a terminal that nobody
        // has open would end our reading.
        let ours = unsafe { File::from_raw_fd(ours) };
        let host = self.clone();
        std::thread::spawn(move || host.serve(ours.try_clone().expect("terminal"), ours));
        let end = name.iter().position(|byte| *byte == 0).expect("a name ends");
        PathBuf::from(String::from_utf8_lossy(&name[..end]).into_owned())
    }

    /// Answers until the other side goes away.
    fn serve(&self, reader: impl Read, mut writer: impl Write) {
        for line in BufReader::new(reader).split(b'\n') {
            let Ok(line) = line else { return };
            let line = String::from_utf8_lossy(&line).trim_end().to_owned();
            let (answers, habit) = {
                let mut state = self.0.lock().unwrap();
                (state.answer(&line), state.habit)
            };
            for answer in answers {
                let bytes = format!("{answer}\n").into_bytes();
                let size = match habit {
                    Habit::Slow => 1,
                    Habit::Paced | Habit::Halfway => 8 << 10,
                    _ => bytes.len(),
                };
                let count = bytes.len() / if habit == Habit::Halfway && bytes.len() > size { 2 } else { 1 };
                for piece in bytes[..count].chunks(size) {
                    if habit == Habit::Paced && bytes.len() > size {
                        std::thread::sleep(Duration::from_millis(200));
                    }
                    if writer.write_all(piece).and_then(|()| writer.flush()).is_err() {
                        return;
                    }
                }
            }
        }
    }
}

impl State {
    /// The lines that answer a line.
    fn answer(&mut self, line: &str) -> Vec<String> {
        match (self.habit, line) {
            (Habit::Silent, _) => Vec::new(),
            (_, "") => vec!["invalid command".to_owned()],
            (Habit::Old, _) => vec!["FAILURE".to_owned()],
            (_, "NEGOTIATE V2") => vec!["V2_OK".to_owned()],
            (_, line) if !line.starts_with("V2 ") => vec!["FAILURE".to_owned()],
            _ => self.answer_frame(line).unwrap_or_default(),
        }
    }

    /// The lines that answer a frame; none at all if anything is wrong with it.
    fn answer_frame(&mut self, line: &str) -> Option<Vec<String>> {
        let (length, rest) = line.strip_prefix("V2 ")?.split_once(' ')?;
        let (checksum, body) = rest.split_once(' ')?;
        if length != body.len().to_string() || checksum != format!("{:08x}", crc32(body.as_bytes())) {
            return None;
        }
        let mut fields = body.split(' ');
        let (id, command, argument) = (fields.next()?, fields.next()?, fields.next().unwrap_or_default());
        assert_eq!(command, "GET", "nothing else is ever asked for");
        let key = decode64(argument);
        self.asked.push(key.clone());
        let body = match self.values.get(&key) {
            Some(value) if value.is_empty() => format!("{id} SUCCESS"),
            Some(value) => format!("{id} SUCCESS {}", encode64(value.as_bytes())),
            None => format!("{id} NOTFOUND"),
        };
        let frame = |body: &str| format!("V2 {} {:08x} {body}", body.len(), crc32(body.as_bytes()));
        let is_first = self.asked.iter().filter(|asked| **asked == key).count() == 1;
        Some(match self.habit {
            Habit::Noisy if is_first => {
                vec![frame("00000001 SUCCESS Zm9yZWlnbg=="), frame(&body).replace("SUCC", "SUCK")]
            }
            _ => vec![frame(&body)],
        })
    }
}

/// CRC-32 of zlib, a bit at a time.
fn crc32(bytes: &[u8]) -> u32 {
    let step = |crc: u32| if crc & 1 == 1 { crc >> 1 ^ 0xedb8_8320 } else { crc >> 1 };
    !bytes.iter().fold(!0, |crc, byte| (0..8).fold(crc ^ u32::from(*byte), |crc, _| step(crc)))
}

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

fn encode64(bytes: &[u8]) -> String {
    let mut text = String::new();
    for chunk in bytes.chunks(3) {
        let bits = (0..3).fold(0u32, |bits, index| bits << 8 | u32::from(chunk.get(index).copied().unwrap_or(0)));
        for index in 0..4 {
            let digit = ALPHABET[(bits >> (18 - 6 * index) & 63) as usize] as char;
            text.push(if index <= chunk.len() { digit } else { '=' });
        }
    }
    text
}

fn decode64(text: &str) -> String {
    let value = |byte: u8| ALPHABET.iter().position(|digit| *digit == byte).expect("a digit of base64") as u32;
    let digits: Vec<u32> = text.bytes().filter(|byte| *byte != b'=').map(value).collect();
    let mut bytes = Vec::new();
    for chunk in digits.chunks(4) {
        let bits = chunk.iter().fold(0, |bits, digit| bits << 6 | digit) << (6 * (4 - chunk.len()));
        bytes.extend_from_slice(&bits.to_be_bytes()[1..chunk.len()]);
    }
    String::from_utf8(bytes).expect("a key is text")
}
