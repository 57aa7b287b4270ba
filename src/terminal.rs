//! Terminals: their size, whether they show pictures and colours, single keys, and lines that fit.
//!
//! Invariants: without colour there is no escape sequence in a line, and no line is wider than asked for; a terminal
//! whose keys were taken gets its settings back when [`Keys`] ends, also by a panic; colours stay away when NO_COLOR is
//! set.
//!
//! Cost: O(text).

mod bars;

pub use bars::{Bar, Bars};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr};
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
    let size = tcgetwinsize(io::stdout()).ok()?;
    (size.ws_col > 0 && size.ws_row > 0).then(|| (size.ws_col.into(), size.ws_row.into()))
}

/// Keys as they are pressed, without a line feed and without being shown.
pub struct Keys {
    before: Termios,
}

impl Keys {
    /// Takes the keys of standard input; none if that is no terminal.
    pub fn take() -> Option<Keys> {
        let before = tcgetattr(io::stdin()).ok()?;
        let mut settings = before.clone();
        settings.local_modes -= LocalModes::ICANON | LocalModes::ECHO | LocalModes::ISIG;
        tcsetattr(io::stdin(), OptionalActions::Now, &settings).ok()?;
        Some(Keys { before })
    }

    /// Waits for keys, no longer than `patience`. Returns the octets that they sent; empty if none was pressed.
    pub fn wait(&self, patience: Duration) -> Vec<u8> {
        let input = io::stdin();
        // Longer than a timespec can say is for ever.
        let patience = Timespec::try_from(patience).ok();
        if !poll(&mut [PollFd::new(&input, PollFlags::IN)], patience.as_ref()).is_ok_and(|ready| ready > 0) {
            return Vec::new();
        }
        // Past the buffer of the standard library, which `poll` does not know.
        let mut pressed = [0u8; 32];
        let count = rustix::io::read(&input, &mut pressed).unwrap_or(0);
        // The terminal is gone: that is as good as the key that ends.
        if count > 0 { pressed[..count].to_vec() } else { vec![b'q'] }
    }
}

impl Drop for Keys {
    fn drop(&mut self) {
        // The terminal may be gone, and then nothing is to be restored.
        let _ = tcsetattr(io::stdin(), OptionalActions::Now, &self.before);
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
