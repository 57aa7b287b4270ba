//! Terminals: their size, whether they show pictures and colours, single keys, and lines that fit.
//!
//! Invariants: without colour there is no escape sequence in a line, and no line is wider than asked for; a terminal
//! whose keys were taken gets its settings back when [`Keys`] ends, also by a panic; colours stay away when NO_COLOR is
//! set.
//!
//! Cost: O(text).

mod bars;

pub use bars::{Bar, Bars};

use std::io::{self, IsTerminal};
use std::time::Duration;

/// Colour or weight of a piece of text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    Plain,
    Bold,
    Dim,
    Good,
    Warning,
    Bad,
}

impl Style {
    /// A piece of text in this style, for a terminal that has colours.
    pub fn paint(self, text: &str) -> String {
        match (self, text) {
            (Style::Plain, _) | (_, "") => text.to_owned(),
            _ => format!("\x1b[{}m{text}\x1b[{}m", self.code(), Style::Plain.code()),
        }
    }

    /// The parameter of the ANSI sequence that selects it (ECMA-48 section 8.3.117).
    fn code(self) -> &'static str {
        match self {
            Style::Plain => "0",
            Style::Bold => "1",
            Style::Dim => "2",
            Style::Good => "32",
            Style::Warning => "33",
            Style::Bad => "31",
        }
    }
}

/// Returns one line of pieces, cut at the width.
pub fn render(pieces: &[(Style, String)], width: usize, color: bool) -> String {
    let (mut line, mut room) = (String::new(), width);
    for (style, text) in pieces {
        let text: String = text.chars().take(room).collect();
        room -= text.chars().count();
        line.push_str(&if color { style.paint(&text) } else { text });
    }
    if color { line } else { line.trim_end().to_string() }
}

/// Output stream that text is written to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stream {
    Output,
    Errors,
}

/// Returns true if the stream is a terminal that can move its cursor.
pub fn is_live(stream: Stream) -> bool {
    let is_terminal = match stream {
        Stream::Output => io::stdout().is_terminal(),
        Stream::Errors => io::stderr().is_terminal(),
    };
    is_terminal && std::env::var_os("TERM").is_some_and(|term| term != "dumb")
}

/// Returns true if the stream is such a terminal and may show colours.
pub fn is_colored(stream: Stream) -> bool {
    // Any value but an empty one counts (no-color.org).
    is_live(stream) && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

/// Columns and rows of the terminal on standard output.
pub fn size() -> Option<(usize, usize)> {
    let mut size = libc::winsize { ws_row: 0, ws_col: 0, ws_xpixel: 0, ws_ypixel: 0 };
    // SAFETY: TIOCGWINSZ writes one winsize, and the pointer is to one that lives until after the call.
    let status = unsafe { libc::ioctl(libc::STDOUT_FILENO, libc::TIOCGWINSZ, &raw mut size) };
    (status == 0 && size.ws_col > 0 && size.ws_row > 0).then(|| (size.ws_col.into(), size.ws_row.into()))
}

/// Keys as they are pressed, without a line feed and without being shown.
pub struct Keys {
    before: libc::termios,
}

impl Keys {
    /// Takes the keys of standard input; none if that is no terminal.
    pub fn take() -> Option<Keys> {
        // SAFETY: termios is plain data that tcgetattr fills; it is read only if that succeeds.
        let mut settings: libc::termios = unsafe { std::mem::zeroed() };
        // SAFETY: the pointer is to a termios that lives until after the call.
        if unsafe { libc::tcgetattr(libc::STDIN_FILENO, &raw mut settings) } != 0 {
            return None;
        }
        let before = settings;
        settings.c_lflag &= !(libc::ICANON | libc::ECHO | libc::ISIG);
        // SAFETY: as above.
        let set = unsafe { libc::tcsetattr(libc::STDIN_FILENO, libc::TCSANOW, &raw const settings) };
        (set == 0).then_some(Keys { before })
    }

    /// Waits for keys, no longer than `patience`. Returns the octets that they sent; empty if none was pressed.
    pub fn wait(&self, patience: Duration) -> Vec<u8> {
        let mut waiting = libc::pollfd { fd: libc::STDIN_FILENO, events: libc::POLLIN, revents: 0 };
        let milliseconds = i32::try_from(patience.as_millis()).unwrap_or(i32::MAX);
        // SAFETY: one pollfd that lives until after the call.
        if unsafe { libc::poll(&raw mut waiting, 1, milliseconds) } <= 0 {
            return Vec::new();
        }
        let mut pressed = [0u8; 32];
        // SAFETY: the buffer is as long as it says, and lives until after the call.
        let count = unsafe { libc::read(libc::STDIN_FILENO, pressed.as_mut_ptr().cast(), pressed.len()) };
        // The terminal is gone: that is as good as the key that ends.
        usize::try_from(count).ok().filter(|count| *count > 0).map_or(vec![b'q'], |count| pressed[..count].to_vec())
    }
}

impl Drop for Keys {
    fn drop(&mut self) {
        // SAFETY: the settings came from tcgetattr. The terminal may be gone, and then nothing is to be restored.
        unsafe { libc::tcsetattr(libc::STDIN_FILENO, libc::TCSANOW, &raw const self.before) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_fit_and_are_plain_without_colour() {
        let pieces = [(Style::Plain, "ab".to_owned()), (Style::Bad, "cdé".to_owned()), (Style::Dim, "f".to_owned())];
        assert_eq!(render(&pieces, 80, false), "abcdéf");
        assert_eq!(render(&pieces, 4, false), "abcd");
        assert_eq!(render(&pieces, 4, true), "ab\x1b[31mcd\x1b[0m");
    }
}
