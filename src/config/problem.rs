//! What is wrong or doubtful, for programs: one shape, whether the file has it, the machine or the running server.
//!
//! Invariant: `message` and `advice`, with a semicolon between them, are what people read.
//!
//! Cost: O(text).

use serde::Serialize;
use settings::ConfigError;
use settings::error::split_advice;
use std::fmt;
use std::path::{Path, PathBuf};

/// What a problem is about. The words are for programs and stay as they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// The file says what it may not.
    Mistake,
    /// The file says what is hardly meant.
    Doubtful,
    /// A file that the configuration names cannot be read on this machine.
    File,
    /// An address that the server cannot listen on, on this machine.
    Address,
    /// The certificate or its private key.
    Certificate,
    /// The control socket.
    ControlSocket,
    /// The state folder cannot be written.
    StateFolder,
    /// A right that the server does not give up, or lacks.
    Rights,
    /// The limit on open files is too low.
    OpenFiles,
    /// A set of the running server is too large for some clients or secondaries.
    LargeSet,
    /// Addresses of a region, on the running server, that not every client can use.
    Addresses,
}

impl Kind {
    /// Returns true if the server cannot start where it is so.
    pub fn stops_start(self) -> bool {
        use Kind::{Address, Certificate, ControlSocket, File, Mistake};
        matches!(self, Mistake | File | Address | Certificate | ControlSocket)
    }
}

/// Something wrong or doubtful. Lines and columns count from 1; what has no place has neither.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Problem {
    pub kind: Kind,
    pub file: Option<PathBuf>,
    pub line: Option<usize>,
    pub column: Option<usize>,
    pub message: String,
    pub advice: Option<String>,
}

impl Problem {
    /// A problem of a text `what is wrong; what to do`, of a file or of none.
    pub fn new(kind: Kind, file: Option<&Path>, text: &str) -> Problem {
        let (message, advice) = split_advice(text);
        let (message, advice) = (message.to_owned(), advice.map(str::to_owned));
        Problem { kind, file: file.map(Path::to_path_buf), line: None, column: None, message, advice }
    }

    /// A problem without place, of a text that has no advice.
    pub fn plain(kind: Kind, message: String) -> Problem {
        Problem { kind, file: None, line: None, column: None, message, advice: None }
    }

    /// A mistake in a file.
    pub fn mistake(error: &ConfigError) -> Problem {
        Problem::placed(Kind::Mistake, error)
    }

    /// A warning of a file.
    pub fn doubtful(warning: &ConfigError) -> Problem {
        Problem::placed(Kind::Doubtful, warning)
    }

    /// A file that is named at a place, and is not here.
    pub fn absence(error: &ConfigError) -> Problem {
        Problem::placed(Kind::File, error)
    }

    /// A problem with the place of an error.
    fn placed(kind: Kind, error: &ConfigError) -> Problem {
        Problem::new(kind, Some(&error.path), &error.message).at(Some((error.line, error.column)))
    }

    /// Puts it at a line and column of its file.
    pub fn at(self, place: Option<(usize, usize)>) -> Problem {
        let (line, column) = place.unzip();
        Problem { line, column, ..self }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(file) = &self.file {
            write!(f, "{}", file.display())?;
            if let (Some(line), Some(column)) = (self.line, self.column) {
                write!(f, ":{line}:{column}")?;
            }
            f.write_str(": ")?;
        }
        f.write_str(&self.message)?;
        self.advice.iter().try_for_each(|advice| write!(f, "; {advice}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_people_read_has_the_place_and_the_advice() {
        let path = Path::new("c.toml");
        let problem = Problem::new(Kind::Address, Some(path), "cannot listen; choose another port");
        assert_eq!(problem.to_string(), "c.toml: cannot listen; choose another port");
        assert_eq!(problem.advice.as_deref(), Some("choose another port"));
        assert_eq!(problem.at(Some((3, 11))).to_string(), "c.toml:3:11: cannot listen; choose another port");
        let note = Problem::plain(Kind::Address, "a; b".to_owned());
        assert_eq!((note.to_string().as_str(), note.advice), ("a; b", None));
    }
}
