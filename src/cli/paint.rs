//! Differences in colours: what went is red, what came green, on a terminal and unless `NO_COLOR` is set.
//!
//! Cost: O(text).

use std::borrow::Cow;
use std::io::{self, IsTerminal};

/// Where text goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stream {
    Output,
    Errors,
}

/// Colours the lines of a text that are those of a difference, where the reader wants that.
pub fn paint(text: &str, stream: Stream) -> Cow<'_, str> {
    let is_terminal = match stream {
        Stream::Output => io::stdout().is_terminal(),
        Stream::Errors => io::stderr().is_terminal(),
    };
    // Any value but an empty one counts (no-color.org).
    let is_unwanted = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    if is_terminal && !is_unwanted { colour(text).into() } else { text.into() }
}

/// Colours a text.
fn colour(text: &str) -> String {
    let line = |line: &str| match line.as_bytes().first() {
        Some(b'-') => format!("\x1b[31m{line}\x1b[0m\n"),
        Some(b'+') => format!("\x1b[32m{line}\x1b[0m\n"),
        _ => format!("{line}\n"),
    };
    text.lines().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_went_and_came_is_told_apart() {
        assert_eq!(colour("a\n-b\n+c\n"), "a\n\x1b[31m-b\x1b[0m\n\x1b[32m+c\x1b[0m\n");
    }

    #[test]
    fn a_file_gets_no_colours() {
        // Tests have no terminal.
        assert_eq!(paint("-b\n", Stream::Output), "-b\n");
    }
}
