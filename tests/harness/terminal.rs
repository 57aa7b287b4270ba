//! Our program on a terminal of its own.

use super::wait_until;
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{FromRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(20);

/// A program that has a terminal for its input, its output and its errors, ended when dropped.
pub struct Terminal {
    child: Child,
    keyboard: File,
    shown: Arc<Mutex<String>>,
}

impl Terminal {
    /// Starts a verb with a configuration file on a terminal of so many columns and rows.
    pub fn start(arguments: &[&str], configuration: &Path, size: (u16, u16), variables: &[(&str, &str)]) -> Terminal {
        let configuration = configuration.to_str().expect("a path in UTF-8");
        Terminal::start_without_file(&[arguments, &["-c", configuration]].concat(), size, variables)
    }

    /// Starts a verb that has no configuration file.
    pub fn start_without_file(arguments: &[&str], (columns, rows): (u16, u16), variables: &[(&str, &str)]) -> Terminal {
        let (mut master, mut slave) = (0, 0);
        let size = libc::winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
        // SAFETY: the pointers are to values that live until after the call; a null name and null settings are allowed.
        let opened = unsafe {
            libc::openpty(&raw mut master, &raw mut slave, std::ptr::null_mut(), std::ptr::null(), &raw const size)
        };
        assert_eq!(opened, 0, "a terminal");
        // Keys shall not be shown by the terminal itself: where they land among what is drawn is chance.
        // SAFETY: termios is plain data, and the pointers are to one that lives until after the calls.
        let quiet = unsafe {
            let mut settings: libc::termios = std::mem::zeroed();
            let read = libc::tcgetattr(slave, &raw mut settings);
            settings.c_lflag &= !libc::ECHO;
            read == 0 && libc::tcsetattr(slave, libc::TCSANOW, &raw const settings) == 0
        };
        assert!(quiet, "a terminal without echo");
        // SAFETY: openpty has made both, and nobody else has them.
        let (master, slave) = unsafe { (OwnedFd::from_raw_fd(master), OwnedFd::from_raw_fd(slave)) };
        let mut command = Command::new(env!("CARGO_BIN_EXE_aggregator"));
        command.args(arguments);
        command.env("TERM", "xterm").env_remove("NO_COLOR").envs(variables.iter().copied());
        command.stdin(slave.try_clone().unwrap()).stdout(slave.try_clone().unwrap()).stderr(slave);
        // The terminal must be the program's own, or its keys send no signals.
        let own_terminal = || {
            // SAFETY: both calls only take numbers, and may be used between fork and exec.
            let owned = unsafe { libc::setsid() != -1 && libc::ioctl(libc::STDIN_FILENO, libc::TIOCSCTTY, 0) != -1 };
            if owned { Ok(()) } else { Err(std::io::Error::last_os_error()) }
        };
        // SAFETY: what runs between fork and exec takes no locks and no memory.
        unsafe { command.pre_exec(own_terminal) };
        let child = command.spawn().expect("start aggregator");
        drop(command);
        let keyboard = File::from(master);
        let mut screen = keyboard.try_clone().unwrap();
        let shown = Arc::<Mutex<String>>::default();
        let drawn = shown.clone();
        std::thread::spawn(move || {
            let (mut part, mut rest) = ([0; 4096], Vec::new());
            while let Ok(count @ 1..) = screen.read(&mut part) {
                rest.extend_from_slice(&part[..count]);
                // A letter of several octets may come in two parts.
                let whole = std::str::from_utf8(&rest).map_or_else(|error| error.valid_up_to(), str::len);
                drawn.lock().unwrap().push_str(&String::from_utf8_lossy(&rest[..whole]));
                rest.drain(..whole);
            }
        });
        Terminal { child, keyboard, shown }
    }

    /// Returns all that was drawn so far.
    pub fn shown(&self) -> String {
        self.shown.lock().unwrap().clone()
    }

    /// The lines as they stand now, those that have gone out of sight included.
    ///
    /// Knows what our program uses: line feeds, carriage returns, cursor up and down (CUU, CUD), lines and what is below
    /// erased (EL, ED), and colours and cursors, which it leaves out. No line may be longer than the terminal is wide.
    pub fn screen(&self) -> Vec<String> {
        let shown = self.shown();
        let mut lines: Vec<Vec<char>> = vec![Vec::new()];
        let (mut row, mut column) = (0, 0);
        let mut letters = shown.chars().peekable();
        while let Some(letter) = letters.next() {
            match letter {
                '\n' => row += 1,
                '\r' => column = 0,
                '\x1b' => {
                    let mut number = String::new();
                    // A sequence may have come in part.
                    let Some(opening) = letters.next() else { break };
                    assert_eq!(opening, '[', "a control sequence in {shown:?}");
                    let end = loop {
                        match letters.next() {
                            Some(digit) if !('@'..='~').contains(&digit) => number.push(digit),
                            end => break end,
                        }
                    };
                    let count = number.parse().unwrap_or(1);
                    match end {
                        Some('A') => row = usize::saturating_sub(row, count),
                        Some('B') => row += count,
                        Some('K') if number == "2" => lines[row].clear(),
                        Some('K') => lines[row].truncate(column),
                        Some('J') => {
                            lines[row].truncate(column);
                            lines.truncate(row + 1);
                        }
                        Some('m' | 'h' | 'l') => {}
                        None => break,
                        _ => panic!("ESC [ {number} {end:?} is not known here: {shown:?}"),
                    }
                }
                letter => {
                    let line = &mut lines[row];
                    line.resize(line.len().max(column + 1), ' ');
                    line[column] = letter;
                    column += 1;
                }
            }
            lines.resize(lines.len().max(row + 1), Vec::new());
        }
        lines.into_iter().map(|line| line.into_iter().collect::<String>().trim_end().to_string()).collect()
    }

    /// Waits until something was drawn.
    pub fn wait_for(&self, text: &str) {
        wait_until(&format!("{text:?} is drawn"), PATIENCE, || self.shown().contains(text).then_some(()));
    }

    /// Presses keys.
    pub fn press(&mut self, keys: &str) {
        self.keyboard.write_all(keys.as_bytes()).expect("a keyboard");
    }

    /// Waits until the program has ended.
    pub fn end(&mut self) -> ExitStatus {
        wait_until("the program ends", PATIENCE, || self.child.try_wait().expect("a child"))
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // It has ended already unless something went wrong.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
