//! View of the demonstration: a picture that is redrawn in place on a terminal, a line for each event elsewhere.
//!
//! Invariants: a terminal gets its cursor back whenever the view ends, also by a panic; a picture never scrolls, so
//! that redrawing always finds its first line; colours stay away when NO_COLOR is set.
//!
//! Cost: one write for a picture, and none if it is as it was.

use super::frame::{Picture, WIDTH};
use crate::terminal::{self, Stream};
use std::io::{self, Write};
use std::time::Duration;

/// Events that a picture can show.
const EVENTS: usize = 8;
/// Lines of a picture with some events.
const LEAST_HEIGHT: usize = 19;
/// Hides the cursor (DECTCEM).
const HIDE_CURSOR: &str = "\x1b[?25l";
/// Shows the cursor (DECTCEM).
const SHOW_CURSOR: &str = "\x1b[?25h";

/// The view on standard output.
pub struct View {
    /// True if pictures are drawn.
    live: bool,
    color: bool,
    /// Lines that stand above the picture and should stay in sight.
    reserved: usize,
    drawn: Vec<String>,
    events: Vec<String>,
}

impl View {
    /// Looks at what standard output is.
    pub fn open() -> View {
        let (live, color) = (terminal::is_live(Stream::Output), terminal::is_colored(Stream::Output));
        View { live, color, reserved: 0, drawn: Vec::new(), events: Vec::new() }
    }

    /// Prints text that stays where it is, under what was drawn.
    pub fn print(&mut self, text: &str) -> io::Result<()> {
        self.drawn.clear();
        let mut output = io::stdout().lock();
        writeln!(output, "{text}")?;
        output.flush()
    }

    /// Prints text that should stay in sight above the picture.
    pub fn print_above(&mut self, text: &str) -> io::Result<()> {
        self.reserved = text.lines().count();
        self.print(text)
    }

    /// Tells an event.
    pub fn tell(&mut self, at: Duration, text: &str) -> io::Result<()> {
        let line = format!("{:5.1}s  {text}", at.as_secs_f64());
        if !self.live {
            return self.print(&line);
        }
        if self.events.len() == EVENTS {
            self.events.remove(0);
        }
        self.events.push(line);
        Ok(())
    }

    /// Draws a picture over the one before.
    pub fn draw(&mut self, picture: &Picture<'_>) -> io::Result<()> {
        if !self.live {
            return Ok(());
        }
        let (columns, rows) = terminal::size().unwrap_or((WIDTH, 24));
        // The cursor needs the line below; what stands above may go out of sight on a low terminal, but for its end.
        let height = rows.saturating_sub(1 + self.reserved).max(rows.saturating_sub(1).min(LEAST_HEIGHT));
        let lines = picture.draw(&self.events, columns, height, self.color);
        if lines == self.drawn {
            return Ok(());
        }
        let mut text = HIDE_CURSOR.to_string();
        if !self.drawn.is_empty() {
            // Up to the first line (CUU).
            text.push_str(&format!("\x1b[{}A", self.drawn.len()));
        }
        for line in &lines {
            // To the end of the line nothing of the old picture stays (EL).
            text.push_str(&format!("\r{line}\x1b[K\n"));
        }
        // Nor below it (ED).
        text.push_str("\x1b[J");
        self.drawn = lines;
        let mut output = io::stdout().lock();
        output.write_all(text.as_bytes())?;
        output.flush()
    }
}

impl Drop for View {
    fn drop(&mut self) {
        if self.live {
            let mut output = io::stdout().lock();
            // The terminal may be gone.
            let _ = output.write_all(SHOW_CURSOR.as_bytes()).and_then(|()| output.flush());
        }
    }
}
