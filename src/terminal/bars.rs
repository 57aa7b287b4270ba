//! Lines at the foot of the terminal that show how far long work has come.
//!
//! Invariants: there are [`Bars`] only where standard error is a terminal that can move its cursor, so that nothing of
//! this reaches a file or a pipe; what is written through [`Bars`] is never torn by them; a line goes
//! with its [`Bar`].
//!
//! Cost: O(lines) for each change, twenty times a second at most; no thread of their own.

use super::{Stream, is_colored, is_live};
use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::{self, Write};

/// All lines of the process.
#[derive(Clone, Debug)]
pub struct Bars {
    lines: MultiProgress,
    color: bool,
}

impl Bars {
    /// Lines on standard error, if that is a terminal for them.
    pub fn on_errors() -> Option<Bars> {
        is_live(Stream::Errors).then(|| Bars {
            lines: MultiProgress::with_draw_target(ProgressDrawTarget::stderr()),
            color: is_colored(Stream::Errors),
        })
    }

    /// Adds a line that begins with a name.
    pub fn add(&self, name: &str) -> Bar {
        let bar = self.lines.add(ProgressBar::no_length());
        bar.set_style(self.style("{spinner:.green}", "{spinner}"));
        bar.set_prefix(name.to_owned());
        Bar { bar, bars: self.clone() }
    }

    /// Returns the style of a line that begins with a picture: `colored` on a terminal with colours, else `plain`.
    fn style(&self, colored: &str, plain: &str) -> ProgressStyle {
        let picture = if self.color { colored } else { plain };
        let style = ProgressStyle::with_template(&format!("{picture} {{prefix}} {{wide_msg}}"));
        style.expect("the templates of this file are well formed").progress_chars("=> ")
    }
}

/// Writes to standard error while the lines are away, all that it is given.
impl Write for Bars {
    fn write(&mut self, text: &[u8]) -> io::Result<usize> {
        self.lines.suspend(|| io::stderr().lock().write_all(text)).map(|()| text.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// One line, which goes when this is dropped.
#[derive(Debug)]
pub struct Bar {
    bar: ProgressBar,
    bars: Bars,
}

impl Bar {
    /// Shows how far the work has come, as a bar if it is known how far it has to go, and in words.
    pub fn show(&self, done: u64, expected: Option<u64>, words: String) {
        // There may be more to do than was expected.
        let length = expected.map(|expected| expected.max(done)).filter(|length| *length > 0);
        if length.is_some() != self.bar.length().is_some() {
            self.bar.set_style(match length {
                Some(_) => self.bars.style("[{bar:24.green}]", "[{bar:24}]"),
                None => self.bars.style("{spinner:.green}", "{spinner}"),
            });
        }
        match length {
            Some(length) => self.bar.set_length(length),
            None => self.bar.unset_length(),
        }
        self.bar.set_position(done);
        self.bar.set_message(words);
        self.bar.tick();
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
        self.bars.lines.remove(&self.bar);
    }
}
