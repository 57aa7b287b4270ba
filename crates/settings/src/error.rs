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

/// The text of a configuration file with its line starts, and those of the files that it includes. One offset stands for a
/// place in any of them: those of an included file go on where the file before has ended.
pub struct Source<'t> {
    pub path: &'t Path,
    pub text: &'t str,
    line_starts: Vec<usize>,
    included: Vec<Included>,
}

/// An included file.
struct Included {
    /// Offset of its first octet.
    start: usize,
    path: PathBuf,
    text: String,
    line_starts: Vec<usize>,
}

impl<'t> Source<'t> {
    /// Finds the lines of a text.
    pub fn new(path: &'t Path, text: &'t str) -> Source<'t> {
        Source { path, text, line_starts: line_starts(text), included: Vec::new() }
    }

    /// Adds an included file. Returns the offset of its first octet.
    pub fn include(&mut self, path: PathBuf, text: String) -> usize {
        // The end of a file is a place in it, too.
        let start = self.included.last().map_or(self.text.len(), |last| last.start + last.text.len()) + 1;
        let line_starts = line_starts(&text);
        self.included.push(Included { start, path, text, line_starts });
        start
    }

    /// The included file that an offset is in; none if it is in the first one.
    fn included_at(&self, offset: usize) -> Option<&Included> {
        let count = self.included.partition_point(|included| included.start <= offset);
        count.checked_sub(1).map(|index| &self.included[index])
    }

    /// The file that an offset is in.
    pub fn path_at(&self, offset: usize) -> &Path {
        self.included_at(offset).map_or(self.path, |included| &included.path)
    }

    /// The text of the file that an offset is in, and the offset of its first octet.
    pub fn text_at(&self, offset: usize) -> (&str, usize) {
        self.included_at(offset).map_or((self.text, 0), |included| (included.text.as_str(), included.start))
    }

    /// The files, in the order in which they were included.
    pub fn paths(&self) -> impl Iterator<Item = &Path> {
        std::iter::once(self.path).chain(self.included.iter().map(|included| included.path.as_path()))
    }

    /// The place of a file among all, in the order in which they were included.
    pub fn rank(&self, path: &Path) -> usize {
        self.included.iter().position(|included| included.path == path).map_or(0, |index| index + 1)
    }

    /// The line of an offset in the words of a message: with the file, if there are several.
    pub fn mention(&self, offset: usize) -> String {
        let (line, _) = self.locate(offset);
        match self.included.is_empty() {
            true => format!("line {line}"),
            false => format!("line {line} of {}", self.path_at(offset).display()),
        }
    }

    /// Line and column of a byte offset in its file; an offset past the end counts as the end.
    pub fn locate(&self, offset: usize) -> (usize, usize) {
        let (text, start) = self.text_at(offset);
        let line_starts = self.included_at(offset).map_or(&self.line_starts, |included| &included.line_starts);
        let offset = (offset - start).min(text.len());
        let line = line_starts.partition_point(|start| *start <= offset);
        let before = &text.as_bytes()[line_starts[line - 1]..offset];
        // Every octet but the continuation octets 10xxxxxx of UTF-8 begins a character (RFC 3629 section 3).
        let column = before.iter().filter(|byte| **byte & 0xc0 != 0x80).count() + 1;
        (line, column)
    }

    /// An offset as `file:line:column`.
    pub fn position(&self, offset: usize) -> String {
        let (line, column) = self.locate(offset);
        format!("{}:{line}:{column}", self.path_at(offset).display())
    }

    /// An error at an offset.
    pub fn error(&self, offset: usize, message: String) -> ConfigError {
        let (line, column) = self.locate(offset);
        let path = self.path_at(offset).to_path_buf();
        ConfigError { path, line, column, message: on_one_line(message), is_absence: false }
    }
}

/// Offsets at which the lines of a text begin.
fn line_starts(text: &str) -> Vec<usize> {
    let ends = text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n');
    std::iter::once(0).chain(ends.map(|(offset, _)| offset + 1)).collect()
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
    fn an_included_file_has_places_of_its_own() {
        let mut source = Source::new(Path::new("c"), "a\nb");
        let first = source.include("d/1".into(), "\né x".into());
        let second = source.include("d/2".into(), String::new());
        let places = [0, 3, first, first + 4, first + 5, second, second + 9].map(|offset| source.position(offset));
        assert_eq!(places, ["c:1:1", "c:2:2", "d/1:1:1", "d/1:2:3", "d/1:2:4", "d/2:1:1", "d/2:1:1"]);
        assert_eq!(source.mention(first + 1), "line 2 of d/1");
        assert_eq!(source.text_at(first + 1), ("\né x", first));
        assert_eq!(["c", "d/1", "d/2"].map(|path| source.rank(Path::new(path))), [0, 1, 2]);
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
