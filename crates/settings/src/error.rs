//! Errors of a configuration file, with their places.
//!
//! Invariant: every error names a line and a column, both counted from 1, the column in characters. A file is read
//! to its end before anything is reported, so one run shows all that has to be corrected.
//!
//! Cost: O(file) once for the line table, then O(log lines + line length) for each position.

use std::path::{Path, PathBuf};

/// One mistake in a configuration file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}:{line}:{column}: {message}", path.display())]
pub struct ConfigError {
    /// The file, as it was named to us.
    pub path: PathBuf,
    pub line: usize,
    pub column: usize,
    /// Description of the mistake, and advice on what to write instead.
    pub message: String,
    /// True if nothing is wrong with the file: another one, which it names, cannot be read on this machine.
    pub is_absence: bool,
}

impl ConfigError {
    /// The description, and the advice if there is any.
    pub fn split(&self) -> (&str, Option<&str>) {
        split_advice(&self.message)
    }
}

/// Splits a message `what is wrong; what to do` where the advice begins. What is wrong may have semicolons of its own.
pub fn split_advice(message: &str) -> (&str, Option<&str>) {
    message.rsplit_once("; ").map_or((message, None), |(what, advice)| (what, Some(advice)))
}

/// All mistakes of a configuration file, in the order of their positions; never empty.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", lines(.0))]
pub struct ConfigErrors(pub Vec<ConfigError>);

impl ConfigErrors {
    /// Sorts errors by position and removes repeated ones.
    pub fn new(mut errors: Vec<ConfigError>) -> ConfigErrors {
        errors.sort_by_key(|error| (error.line, error.column));
        errors.dedup();
        ConfigErrors(errors)
    }
}

/// Writes errors, one a line.
fn lines(errors: &[ConfigError]) -> String {
    errors.iter().map(ConfigError::to_string).collect::<Vec<_>>().join("\n")
}

//--- Source ---

/// The text of a configuration file with its line starts.
pub struct Source<'t> {
    pub path: &'t Path,
    pub text: &'t str,
    line_starts: Vec<usize>,
}

impl<'t> Source<'t> {
    /// Finds the lines of a text.
    pub fn new(path: &'t Path, text: &'t str) -> Source<'t> {
        let ends = text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n');
        let line_starts = std::iter::once(0).chain(ends.map(|(offset, _)| offset + 1)).collect();
        Source { path, text, line_starts }
    }

    /// Line and column of a byte offset; an offset past the end counts as the end.
    pub fn locate(&self, offset: usize) -> (usize, usize) {
        let offset = offset.min(self.text.len());
        let line = self.line_starts.partition_point(|start| *start <= offset);
        let before = &self.text.as_bytes()[self.line_starts[line - 1]..offset];
        // Every octet but the continuation octets 10xxxxxx of UTF-8 begins a character (RFC 3629 section 3).
        let column = before.iter().filter(|byte| **byte & 0xc0 != 0x80).count() + 1;
        (line, column)
    }

    /// An offset as `file:line:column`.
    pub fn position(&self, offset: usize) -> String {
        let (line, column) = self.locate(offset);
        format!("{}:{line}:{column}", self.path.display())
    }

    /// An error at an offset.
    pub fn error(&self, offset: usize, message: String) -> ConfigError {
        let (line, column) = self.locate(offset);
        ConfigError { path: self.path.to_path_buf(), line, column, message: on_one_line(message), is_absence: false }
    }
}

/// Writes control characters of a message as escapes: a value may hold them by an escape such as `\n`, but a message is
/// one line.
pub fn on_one_line(message: String) -> String {
    if !message.contains(char::is_control) {
        return message;
    }
    let shown = |c: char| if c.is_control() { c.escape_default().to_string() } else { c.to_string() };
    message.chars().map(shown).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_one_line() {
        let source = Source::new(Path::new("c"), "x");
        assert_eq!(source.error(0, "\"a\nb\" is wrong".into()).message, "\"a\\nb\" is wrong");
    }

    #[test]
    fn advice_is_what_stands_last() {
        assert_eq!(split_advice("a; b is wrong; write c"), ("a; b is wrong", Some("write c")));
        assert_eq!(split_advice("a is wrong"), ("a is wrong", None));
    }

    #[test]
    fn columns_count_characters_from_one() {
        let source = Source::new(Path::new("c"), "ab\r\nx = \"é→\" y\n\nz");
        assert_eq!(source.locate(0), (1, 1));
        assert_eq!(source.locate(4), (2, 1));
        let y = source.text.find('y').unwrap();
        assert_eq!(source.locate(y), (2, 10));
        assert_eq!(source.locate(source.text.len()), (4, 2));
        assert_eq!(source.locate(usize::MAX), (4, 2));
        assert_eq!(Source::new(Path::new("c"), "").position(3), "c:1:1");
    }
}
