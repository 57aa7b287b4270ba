//! Configuration files: TOML or JSON into values with positions, and the reading of those values.
//!
//! [`tree`] turns either format into one tree, [`read`] converts its values and collects errors, which [`error`]
//! places; [`schema`] describes keys and tables and suggests near misses, [`fields`] reads a file by them; [`units`] reads
//! durations and sizes, [`secret`] files that strangers may not read. [`mod@include`] puts further files and variables of the
//! environment into the tree. [`asterisk`] is what patterns have in common. What the keys mean is the programs' to say.

#![forbid(unsafe_code)]

pub mod asterisk;
pub mod error;
pub mod fields;
pub mod include;
pub mod read;
pub mod schema;
pub mod secret;
pub mod tree;
pub mod units;
mod variables;

pub use error::{ConfigError, ConfigErrors};

use error::Source;
use std::fs;
use std::path::Path;
use std::string::FromUtf8Error;

/// Reads the text of a file, whatever it says.
pub fn read_text(path: &Path) -> Result<String, ConfigErrors> {
    let at_start = |message: String| ConfigErrors(vec![Source::new(path, "").error(0, message)]);
    let bytes = fs::read(path)
        .map_err(|error| at_start(format!("cannot be read: {error}; check the path and its permissions")))?;
    String::from_utf8(bytes).map_err(|error| ConfigErrors(vec![not_utf8(path, error)]))
}

/// The error of a file that is no text.
pub fn not_utf8(path: &Path, error: FromUtf8Error) -> ConfigError {
    let valid = error.utf8_error().valid_up_to();
    let text = String::from_utf8_lossy(&error.as_bytes()[..valid]);
    Source::new(path, &text).error(valid, "octet that is not UTF-8; save the file as UTF-8".to_string())
}
